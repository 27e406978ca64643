[(identifier) (field_identifier) (type_identifier)] @ref
[(self) (super) (crate)] @ref
[(line_comment) (block_comment)] @comment
(parameter pattern: [(identifier) @local (mut_pattern (identifier) @local)])
(closure_parameters [(identifier) @local (parameter pattern: (identifier) @local)])
(let_declaration pattern: [(identifier) @local (mut_pattern (identifier) @local) (tuple_pattern (identifier) @local)])
(for_expression pattern: (identifier) @local)
(match_pattern (tuple_struct_pattern (identifier) @local))
(type_parameter name: (type_identifier) @local)
[(if_expression) (match_arm)] @branch
(binary_expression operator: ["&&" "||"]) @branch
[(for_expression) (while_expression) (loop_expression)] @loop
[(use_declaration) (mod_item !body)] @import
(unsafe_block) @unsafe
(parameter pattern: (identifier) type: (_)) @typed
(let_declaration pattern: (identifier)) @typed
