(struct_specifier name: (_) @name body: (_) @body) @struct
(union_specifier name: (_) @name body: (_) @body) @union
(enum_specifier name: (_) @name body: (_) @body) @enum
(enumerator name: (identifier) @name) @enumerator
(preproc_def name: (identifier) @name) @macro
(preproc_function_def name: (identifier) @name) @macro
(type_definition declarator: (_) @declarator) @type
(function_definition declarator: (_) @declarator body: (_)? @body) @function
(field_declaration declarator: (_) @declarator) @field
(declaration declarator: (_) @declarator) @declaration
(preproc_include path: (_) @include)
