(function_definition name: (identifier) @name body: (_) @body) @function
(module (expression_statement (assignment left: (identifier) @name) @variable))
(module (expression_statement (call arguments: (argument_list (keyword_argument name: (identifier) @key value: (string) @name (#eq? @key "name")))) @target))
