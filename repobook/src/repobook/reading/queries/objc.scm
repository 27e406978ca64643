(class_interface . (identifier) @name) @class
(class_implementation . (identifier) @name) @impl
(protocol_declaration . (identifier) @name) @interface
(property_declaration (struct_declaration (struct_declarator (identifier) @name))) @property
(method_declaration (method_type) . (identifier) @name) @function
(method_definition (method_type) . (identifier) @name (compound_statement) @body) @function
