# Written by scripts/surface.py from the declarations of public functions. Do not edit.

from ndgrad._src.compiler.report.inspection import graph as graph, kernel_list as kernel_list
from ndgrad._src.compiler.runtime.directives import (
    allow_in_graph as allow_in_graph, assume_constant_result as assume_constant_result, cudagraph_mark_step_begin as
    cudagraph_mark_step_begin, is_dynamo_compiling as is_dynamo_compiling, is_exporting as is_exporting, list_backends
    as list_backends, nested_compile_region as nested_compile_region, set_stance as set_stance,
)
from ndgrad._src.compiler.runtime.entry import (
    compile as compile, disable as disable, explain as explain, is_compiling as is_compiling, reset as reset,
)

def __dir__() -> list[str]: ...
