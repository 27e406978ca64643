[(identifier) (property_identifier) (shorthand_property_identifier) (private_property_identifier)] @ref
(this) @ref
(comment) @comment
(formal_parameters [(identifier) @local (assignment_pattern left: (identifier) @local) (rest_pattern (identifier) @local) (object_pattern (shorthand_property_identifier_pattern) @local) (array_pattern (identifier) @local)])
(arrow_function parameter: (identifier) @local)
(statement_block [(lexical_declaration (variable_declarator name: [(identifier) @local (object_pattern (shorthand_property_identifier_pattern) @local) (array_pattern (identifier) @local)])) (variable_declaration (variable_declarator name: (identifier) @local))])
(for_in_statement left: (identifier) @local)
(catch_clause parameter: (identifier) @local)
(pair key: (property_identifier) @key)
[(if_statement) (ternary_expression) (switch_case) (catch_clause)] @branch
(binary_expression operator: ["&&" "||" "??"]) @branch
[(for_statement) (for_in_statement) (while_statement) (do_statement)] @loop
[(import_statement) (export_statement source: (_))] @import
(call_expression function: (identifier) @required (#eq? @required "require") arguments: (arguments (string) @module))
(function_expression name: (identifier) @key)
(variable_declarator name: (identifier) value: (new_expression)) @typed
