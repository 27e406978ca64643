(function_def (function_command (argument_list . (argument) @name)) (body)? @body) @function
(macro_def (macro_command (argument_list . (argument) @name)) (body)? @body) @macro
(normal_command (identifier) @command (argument_list . (argument) @name) (#any-of? @command "add_library" "add_executable" "add_custom_target" "cuda_add_library" "python_add_library")) @target
(normal_command (identifier) @command (argument_list . (argument) @name) (#any-of? @command "option" "cmake_dependent_option" "CMAKE_DEPENDENT_OPTION")) @constant
(normal_command (identifier) @command (argument_list . (argument) @name) (#any-of? @command "set")) @variable
