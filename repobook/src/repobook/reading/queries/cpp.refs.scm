[(string_literal) (raw_string_literal) (char_literal) (system_lib_string) (preproc_arg) (preproc_params)] @hole
(comment) @comment
[(parameter_declaration type: (_) declarator: (_)) (optional_parameter_declaration type: (_) declarator: (_)) (variadic_parameter_declaration type: (_) declarator: (_))] @parameter
(for_range_loop declarator: (_) @local)
(structured_binding_declarator (identifier) @local)
(lambda_capture_initializer left: (identifier) @local)
[(type_parameter_declaration (type_identifier) @local) (variadic_type_parameter_declaration (type_identifier) @local) (optional_type_parameter_declaration name: (type_identifier) @local)]
[(if_statement) (case_statement) (conditional_expression) (catch_clause)] @branch
(binary_expression operator: ["&&" "||"]) @branch
[(for_statement) (while_statement) (do_statement) (for_range_loop)] @loop
(initializer_list . [(string_literal) (cast_expression value: (string_literal))] @key) @row
(new_expression) @new
(delete_expression) @delete
(cast_expression) @cast
(catch_clause parameters: (_) @catch)
(throw_statement) @throw
(namespace_definition !name body: (_)) @anonymous
(field_initializer . (field_identifier) @initialized)
