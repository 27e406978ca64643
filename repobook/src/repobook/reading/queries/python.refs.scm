[(string) (type_conversion) (format_specifier)] @hole
(interpolation) @window
(comment) @comment
[(import_statement) (import_from_statement) (future_import_statement)] @import
(parameters (identifier) @local)
(parameters [(default_parameter name: (identifier) @local) (list_splat_pattern (identifier) @local) (dictionary_splat_pattern (identifier) @local)])
(lambda_parameters (identifier) @local)
(typed_parameter . (identifier) @local) @typed
(typed_default_parameter name: (identifier) @local) @typed
(assignment type: (_)) @typed
(for_statement left: [(identifier) @local (pattern_list (identifier) @local) (tuple_pattern (identifier) @local)])
(for_in_clause left: [(identifier) @local (pattern_list (identifier) @local) (tuple_pattern (identifier) @local)])
(as_pattern_target (identifier) @local)
(named_expression name: (identifier) @local)
[(if_statement) (elif_clause) (except_clause) (conditional_expression) (boolean_operator) (case_clause)] @branch
[(for_statement) (while_statement) (for_in_clause)] @loop
(keyword_argument name: (identifier) @keyword)
(assignment left: (identifier) @_all right: [(list) (tuple)] @exports (#eq? @_all "__all__"))
(augmented_assignment left: (identifier) @_all right: [(list) (tuple)] @exports (#eq? @_all "__all__"))
(except_clause) @except
