(class_declaration name: (_) @name body: (_) @body) @class
(function_declaration name: (_) @name body: (_) @body) @function
(generator_function_declaration name: (_) @name body: (_) @body) @function
(method_definition name: (_) @name body: (_) @body) @function
(public_field_definition name: (_) @name) @field
(program [(lexical_declaration (variable_declarator name: (identifier) @name value: [(arrow_function) (function_expression)] @body) @function) (variable_declaration (variable_declarator name: (identifier) @name value: [(arrow_function) (function_expression)] @body) @function)])
(program (export_statement (lexical_declaration (variable_declarator name: (identifier) @name value: [(arrow_function) (function_expression)] @body) @function)))
(program [(lexical_declaration (variable_declarator name: (identifier) @name) @variable) (variable_declaration (variable_declarator name: (identifier) @name) @variable)])
(program (export_statement (lexical_declaration (variable_declarator name: (identifier) @name) @variable)))
(assignment_expression left: (member_expression object: (_) @scope property: (property_identifier) @name) right: [(function_expression) (arrow_function) (class)] @body) @function
(pair key: (property_identifier) @name value: [(function_expression) (arrow_function)] @body) @function
(abstract_class_declaration name: (_) @name body: (_) @body) @class
(interface_declaration name: (_) @name body: (_) @body) @interface
(property_signature name: (property_identifier) @name) @field
(method_signature name: (_) @name) @function
(abstract_method_signature name: (_) @name) @function
(function_signature name: (_) @name) @function
(type_alias_declaration name: (_) @name) @type
(enum_declaration name: (_) @name body: (_) @body) @enum
(enum_body name: (property_identifier) @name @enumerator)
(enum_assignment name: (property_identifier) @name) @enumerator
(internal_module name: (_) @name body: (_) @body) @namespace
