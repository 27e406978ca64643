(function_definition name: (identifier) @name body: (_) @body) @function
(class_definition name: (identifier) @name superclasses: (argument_list)? @bases body: (_) @body) @class
(assignment left: (identifier) @name) @assigned
(assignment left: (pattern_list (identifier) @name)) @assigned
(assignment left: (tuple_pattern (identifier) @name)) @assigned
(assignment left: (attribute object: (identifier) @receiver attribute: (identifier) @name)) @member
(type_alias_statement left: (type (identifier) @name)) @type
(attribute object: (call) @called attribute: (identifier) @member_of)
