(mod_item name: (_) @name body: (_) @body) @module
(struct_item name: (_) @name body: (_)? @body) @struct
(enum_item name: (_) @name body: (_) @body) @enum
(enum_variant name: (_) @name) @enumerator
(union_item name: (_) @name body: (_) @body) @union
(trait_item name: (_) @name body: (_) @body) @trait
(impl_item type: (_) @name body: (_) @body) @impl
(function_item name: (_) @name body: (_) @body) @function
(function_signature_item name: (_) @name) @function
(field_declaration name: (_) @name) @field
(const_item name: (_) @name) @constant
(static_item name: (_) @name) @variable
(type_item name: (_) @name) @type
(associated_type name: (_) @name) @type
(macro_definition name: (_) @name) @macro
