(class_declaration name: (_) @name body: (_) @body) @class
(function_declaration name: (_) @name body: (_) @body) @function
(generator_function_declaration name: (_) @name body: (_) @body) @function
(method_definition name: (_) @name body: (_) @body) @function
(field_definition property: (_) @name) @field
(program [(lexical_declaration (variable_declarator name: (identifier) @name value: [(arrow_function) (function_expression)] @body) @function) (variable_declaration (variable_declarator name: (identifier) @name value: [(arrow_function) (function_expression)] @body) @function)])
(program (export_statement (lexical_declaration (variable_declarator name: (identifier) @name value: [(arrow_function) (function_expression)] @body) @function)))
(program [(lexical_declaration (variable_declarator name: (identifier) @name) @variable) (variable_declaration (variable_declarator name: (identifier) @name) @variable)])
(program (export_statement (lexical_declaration (variable_declarator name: (identifier) @name) @variable)))
(assignment_expression left: (member_expression object: (_) @scope property: (property_identifier) @name) right: [(function_expression) (arrow_function) (class)] @body) @function
(pair key: (property_identifier) @name value: [(function_expression) (arrow_function)] @body) @function
