[(identifier) (property_identifier) (type_identifier) (shorthand_property_identifier) (private_property_identifier)] @ref
(this) @ref
(comment) @comment
(statement_block [(lexical_declaration (variable_declarator name: [(identifier) @local (object_pattern (shorthand_property_identifier_pattern) @local) (array_pattern (identifier) @local)])) (variable_declaration (variable_declarator name: (identifier) @local))])
(for_in_statement left: (identifier) @local)
(catch_clause parameter: (identifier) @local)
(pair key: (property_identifier) @key)
[(if_statement) (ternary_expression) (switch_case) (catch_clause)] @branch
(binary_expression operator: ["&&" "||" "??"]) @branch
[(for_statement) (for_in_statement) (while_statement) (do_statement)] @loop
[(import_statement) (export_statement source: (_))] @import
(call_expression function: (identifier) @required (#eq? @required "require") arguments: (arguments (string) @module))
[(required_parameter pattern: (identifier) @local) (optional_parameter pattern: (identifier) @local)]
(required_parameter pattern: (object_pattern (shorthand_property_identifier_pattern) @local))
(arrow_function parameter: (identifier) @local)
(function_expression name: (identifier) @key)
[(required_parameter pattern: (identifier) type: (_)) (optional_parameter pattern: (identifier) type: (_))] @typed
(variable_declarator name: (identifier) value: (new_expression)) @typed
