(title) @heading
(paragraph) @paragraph
(directive body: (body (content) @told))
