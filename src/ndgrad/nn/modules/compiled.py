"""Compiled modules: a module around a module, whose call is compiled."""

from __future__ import annotations

from typing import Any

from ndgrad.nn.modules.module import Module


class CompiledModule(Module):
    """A module whose call runs as a program. Parameters, buffers, modes and attributes are those of the
    module itself, `_orig_mod`."""

    def __init__(self, module: Module, options: dict[str, Any]) -> None:
        from ndgrad._src.compiler.runtime.entry import compiled_function  # which makes these

        super().__init__()
        self._orig_mod = module
        self.options = options
        self.training = module.training
        self.compiled_forward = compiled_function(module, options)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.compiled_forward(*args, **kwargs)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """What the module itself gives, compiled."""
        return self.compiled_forward(*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)
        except AttributeError:
            if name == "_orig_mod":
                raise
            if name in ("graph", "kernels") and not hasattr(self._orig_mod, name):
                return getattr(self.compiled_forward, name)
            return getattr(self._orig_mod, name)

    def __len__(self) -> int:
        return len(self._orig_mod)

    def __environment__(self) -> list[Any]:
        """What a function that calls this module depends on."""
        return [self._orig_mod]

    def __reduce__(self) -> Any:
        return _made_again, (self._orig_mod, self.options)

    def __deepcopy__(self, memo: dict[int, Any]) -> CompiledModule:
        import copy  # rarely needed

        return CompiledModule(copy.deepcopy(self._orig_mod, memo), dict(self.options))


def _made_again(module: Module, options: dict[str, Any]) -> CompiledModule:
    return CompiledModule(module, options)
