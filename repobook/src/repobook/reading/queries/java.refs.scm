[(identifier) (type_identifier)] @ref
(this) @ref
[(line_comment) (block_comment)] @comment
(formal_parameter name: (identifier) @local)
(local_variable_declaration declarator: (variable_declarator name: (identifier) @local))
(enhanced_for_statement name: (identifier) @local)
(catch_formal_parameter name: (identifier) @local)
(lambda_expression parameters: (identifier) @local)
[(if_statement) (ternary_expression) (switch_block_statement_group) (catch_clause)] @branch
(binary_expression operator: ["&&" "||"]) @branch
[(for_statement) (enhanced_for_statement) (while_statement) (do_statement)] @loop
(import_declaration) @import
(package_declaration) @skip
