(namespace_definition name: (_) @name) @namespace
(class_specifier name: (_) @name body: (_) @body) @class
(struct_specifier name: (_) @name body: (_) @body) @struct
(union_specifier name: (_) @name body: (_) @body) @union
(enum_specifier name: (_) @name body: (_) @body) @enum
(enumerator name: (identifier) @name) @enumerator
(preproc_def name: (identifier) @name) @macro
(preproc_function_def name: (identifier) @name) @macro
(type_definition declarator: (_) @declarator) @type
(alias_declaration name: (_) @name) @type
(concept_definition name: (_) @name) @concept
(function_definition declarator: (_) @declarator body: (_)? @body) @function
(field_declaration declarator: (_) @declarator) @field
(declaration declarator: (_) @declarator) @declaration
(preproc_include path: (_) @include)
(using_declaration) @using
(namespace_alias_definition name: (_) @alias (_) @target .)
(call_expression function: (field_expression field: (field_identifier) @method) arguments: (argument_list . (string_literal) @exposed . "," . (_) @target))
(field_expression argument: (call_expression) @called field: (field_identifier) @member_of)
