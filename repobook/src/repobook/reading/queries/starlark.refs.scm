(identifier) @ref
(comment) @comment
(parameters [(identifier) @local (default_parameter name: (identifier) @local)])
(block (expression_statement (assignment left: (identifier) @local)))
(for_statement left: (identifier) @local)
(for_in_clause left: (identifier) @local)
(keyword_argument name: (identifier) @key)
[(if_statement) (conditional_expression) (boolean_operator)] @branch
[(for_statement) (for_in_clause)] @loop
(call function: (identifier) @required arguments: (argument_list . (string) @module) (#eq? @required "load"))
