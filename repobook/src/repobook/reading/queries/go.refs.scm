[(identifier) (field_identifier) (type_identifier) (package_identifier)] @ref
(comment) @comment
(parameter_declaration name: (identifier) @local)
(variadic_parameter_declaration name: (identifier) @local)
(short_var_declaration left: (expression_list (identifier) @local))
(block (statement_list (var_declaration (var_spec name: (identifier) @local))))
(range_clause left: (expression_list (identifier) @local))
(type_parameter_declaration name: (identifier) @local)
(parameter_declaration name: (identifier) type: (_)) @typed
[(if_statement) (expression_case) (type_case) (communication_case)] @branch
(binary_expression operator: ["&&" "||"]) @branch
(for_statement) @loop
(import_spec) @import
(keyed_element . (literal_element (identifier) @key))
(short_var_declaration left: (expression_list . (identifier) .)) @typed
(var_spec name: (identifier) type: (_)) @typed
