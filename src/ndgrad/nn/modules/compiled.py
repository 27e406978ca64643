"""Compiled modules: a wrapper around a module whose call is compiled."""

from __future__ import annotations

from typing import Any

from ndgrad.nn.modules.module import Module


class CompiledModule(Module):
    """A module whose call runs as a compiled program. Parameters, buffers, modes and attributes are those of the
    wrapped module, `_orig_mod`.
    """

    def __init__(self, module: Module, options: dict[str, Any]) -> None:
        from ndgrad._src.compiler.runtime.entry import compiled_function  # avoids an import cycle

        super().__init__()
        self._orig_mod = module
        self.options = options
        self.training = module.training
        #: A module that sends messages compiles the part of its call between them.
        inside = getattr(type(module), "compile_inside", None)
        self.compiled_forward = compiled_function(module, options) if inside is None else inside(module, options)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.compiled_forward(*args, **kwargs)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Call the compiled module."""
        return self.compiled_forward(*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)
        except AttributeError:
            if name == "_orig_mod":
                raise
            if name in ("graph", "kernels", "traces", "last_reason") and not hasattr(self._orig_mod, name):
                return getattr(self.compiled_forward, name)
            return getattr(self._orig_mod, name)

    def __len__(self) -> int:
        return len(self._orig_mod)

    def __environment__(self) -> list[Any]:
        """Return the dependencies of a function that calls this module."""
        return [self._orig_mod]

    def __reduce__(self) -> Any:
        return _rebuild, (self._orig_mod, self.options)

    def __deepcopy__(self, memo: dict[int, Any]) -> CompiledModule:
        import copy  # rarely needed

        return CompiledModule(copy.deepcopy(self._orig_mod, memo), dict(self.options))


def _rebuild(module: Module, options: dict[str, Any]) -> CompiledModule:
    return CompiledModule(module, options)


_made_again = _rebuild  # the name in files of older versions
