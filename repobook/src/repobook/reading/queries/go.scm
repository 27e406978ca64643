(package_clause (package_identifier) @name) @package
(const_spec name: (identifier) @name) @constant
(source_file (var_declaration (var_spec name: (identifier) @name) @variable))
(source_file (var_declaration (var_spec_list (var_spec name: (identifier) @name) @variable)))
(type_spec name: (_) @name type: (struct_type) @body) @struct
(type_spec name: (_) @name type: (interface_type) @body) @interface
(type_spec name: (_) @name type: [(type_identifier) (function_type) (map_type) (slice_type) (pointer_type) (qualified_type) (array_type) (channel_type) (generic_type)]) @type
(type_alias name: (_) @name) @type
(field_declaration name: (field_identifier) @name) @field
(method_elem name: (_) @name) @function
(function_declaration name: (_) @name body: (_)? @body) @function
(method_declaration receiver: (parameter_list (parameter_declaration type: (_) @scope)) name: (_) @name body: (_)? @body) @function
