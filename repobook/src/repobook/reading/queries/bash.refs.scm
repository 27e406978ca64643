[(variable_name) (command_name)] @ref
(comment) @comment
(function_definition (compound_statement (declaration_command (variable_assignment name: (variable_name) @local))))
[(if_statement) (elif_clause) (case_item)] @branch
(list ["&&" "||"]) @branch
[(for_statement) (while_statement) (c_style_for_statement)] @loop
(command name: (command_name) @required argument: (_) @module (#any-of? @required "source" "."))
