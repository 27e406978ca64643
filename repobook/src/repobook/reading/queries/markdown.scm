[(atx_heading) (setext_heading)] @heading
(paragraph) @paragraph
(fenced_code_block (info_string) (code_fence_content) @told)
