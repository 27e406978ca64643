[(string_literal) (char_literal) (system_lib_string) (preproc_arg) (preproc_params)] @hole
(comment) @comment
(parameter_declaration type: (_) declarator: (_)) @parameter
[(if_statement) (case_statement) (conditional_expression)] @branch
(binary_expression operator: ["&&" "||"]) @branch
[(for_statement) (while_statement) (do_statement)] @loop
(initializer_list . [(string_literal) (cast_expression value: (string_literal))] @key) @row
(cast_expression) @cast
