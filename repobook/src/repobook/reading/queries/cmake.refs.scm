[(identifier) (variable) (unquoted_argument)] @ref
[(line_comment) (bracket_comment)] @comment
[(if_condition) (elseif_command)] @branch
[(foreach_loop) (while_loop)] @loop
(normal_command (identifier) @required (argument_list . (argument) @module) (#any-of? @required "include" "add_subdirectory" "find_package"))
