"""Values of tiny models: forward, gradients, a step of AdamW, generate, saving and loading.

    python tests/ecosystem/model_values.py write FOLDER    with torch: writes the values of every case
    python tests/ecosystem/model_values.py compare FOLDER  with ndgrad as torch: compares, and saves its own models
    python tests/ecosystem/model_values.py read FOLDER     with torch: loads the models that ndgrad saved

Every mode prints one line of JSON per case: the case, and for each part "equal", "differs: ..." or "error: ...".
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from cases import CASES
from tiny_models import build, make_inputs

PARTS = ("forward", "gradients", "step", "generate", "load", "save")


def main(mode: str, folder: Path, only: list[str]) -> None:
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    for kind, architecture in CASES:
        name = f"{kind}-{architecture}"
        if only and name not in only:
            continue
        start = time.perf_counter()
        row = Case(mode, folder, kind, architecture).run()
        print(json.dumps({"case": name, "seconds": round(time.perf_counter() - start, 2), **row}), flush=True)


class Case:
    """One model in one mode."""

    def __init__(self, mode: str, folder: Path, kind: str, architecture: str) -> None:
        self.mode, self.kind, self.architecture = mode, kind, architecture
        self.file = folder / f"{kind}-{architecture}.npz"
        self.saved = folder / ("ours" if mode != "write" else "theirs") / self.file.stem
        self.theirs = folder / "theirs" / self.file.stem
        self.expected: dict[str, Any] = {}
        self.found: dict[str, Any] = {}

    def run(self) -> dict[str, str]:
        """Return the result of each part."""
        if self.mode == "write":
            self.file.unlink(missing_ok=True)
        else:
            if not self.file.is_file():
                return {}  # torch could not run the case
            self.expected = dict(np.load(self.file))
        try:
            model = build(self.architecture, self.kind)
            inputs = make_inputs(model, self.kind)
        except Exception as error:
            return {"forward": describe(error)}
        parts: dict[str, Callable[[], None]]
        if self.mode == "read":
            parts = {"save": lambda: self.forward("load", self.load(model, self.saved), inputs)}
        else:
            parts = {
                "forward": lambda: self.forward("forward", model, inputs),
                "generate": lambda: self.generate(model, inputs),
                "save" if self.mode == "write" else "": lambda: self.save(model),
                "load": lambda: self.forward("load", self.load(model, self.theirs), inputs),
                "gradients": lambda: self.gradients(model, inputs),
                "step": lambda: self.step(model),
            }
        row = {}
        for part, call in parts.items():
            if self.mode == "compare" and part in PARTS and not self.names_of(part):
                continue
            self.found = {}
            try:
                call()
            except Exception as error:
                row[part] = describe(error)
                continue
            if part:
                row[part] = "written" if self.mode == "write" else self.compare(part)
            if self.mode == "write":
                self.expected.update(self.found)
        if self.mode == "write":
            np.savez(self.file, **self.expected)
        return row

    def names_of(self, part: str) -> set[str]:
        """Return the names of the values that torch wrote for a part."""
        return {name for name in self.expected if name.startswith(CONTENT[part] + ".")}

    def save(self, model: Any) -> None:
        shutil.rmtree(self.saved, ignore_errors=True)
        model.save_pretrained(self.saved)

    def load(self, model: Any, place: Path) -> Any:
        return type(model).from_pretrained(place).float().eval()

    def forward(self, part: str, model: Any, inputs: dict[str, Any]) -> None:
        with torch.no_grad():
            self.keep(part, model(**inputs))

    def generate(self, model: Any, inputs: dict[str, Any]) -> None:
        if self.kind not in ("causal", "seq2seq"):
            return
        for beams in (1, 2):
            made = model.generate(
                input_ids=inputs["input_ids"], attention_mask=inputs["attention_mask"], max_new_tokens=6, do_sample=False, num_beams=beams,
                pad_token_id=0,
            )  # fmt: skip
            self.found[f"generate.{beams}"] = made.numpy()

    def gradients(self, model: Any, inputs: dict[str, Any]) -> None:
        out = model(**inputs)
        loss = out.loss if getattr(out, "loss", None) is not None else sum((t.float() ** 2).mean() for t in tensors(out) if t.requires_grad)
        loss.backward()
        self.found["gradient.loss"] = loss.detach().numpy()
        for name, p in model.named_parameters():
            if p.grad is not None:
                self.found[f"gradient.of.{name}"] = p.grad.numpy().copy()

    def step(self, model: Any) -> None:
        torch.optim.AdamW(model.parameters(), lr=1e-2, weight_decay=0.1).step()
        for name, p in model.named_parameters():
            self.found[f"step.{name}"] = p.detach().numpy().copy()

    def keep(self, part: str, out: Any) -> None:
        for k, t in enumerate(tensors(out)):
            self.found[f"{part}.{k}"] = t.detach().float().numpy() if t.is_floating_point() else t.detach().numpy()

    @property
    def largest_gradient(self) -> float:
        return max(float(np.abs(g).max(initial=0.0)) for name, g in self.expected.items() if name.startswith("gradient.of."))

    def compare(self, part: str) -> str:
        """Return "equal", or the first difference. Values that only one side has are a difference."""
        names = self.names_of(part)
        for one_side, words in ((names - set(self.found), "only torch has"), (set(self.found) - names, "torch does not have")):
            if one_side:
                return f"differs: {words} {', '.join(sorted(one_side)[:3])} ({len(one_side)} in all)"
        for name, value in self.found.items():
            got = value
            want = self.expected[name]
            if got.shape != want.shape or got.dtype.kind != want.dtype.kind:
                return f"differs: {name} is {got.dtype}{got.shape}, torch's {want.dtype}{want.shape}"
            if got.dtype.kind != "f":
                if not np.array_equal(got, want):
                    return f"differs: {name}"
                continue
            # Rounding errors grow with the size of the values that a layer adds.
            scale = float(np.abs(want[np.isfinite(want)]).max(initial=0.0))
            limit = 1e-4 * scale + 1e-5
            if name.startswith("step."):
                # AdamW divides a gradient by its size. Where the gradient is rounding noise, its sign is, too.
                gradient = self.expected.get(f"gradient.of.{name[5:]}")
                if gradient is not None:
                    noise = np.abs(gradient) < 1e-6 * max(self.largest_gradient, 1e-2)
                    got, want = np.where(noise, 0, got), np.where(noise, 0, want)
            if not np.allclose(got, want, rtol=2e-3, atol=limit, equal_nan=True):
                return f"differs: {name} by {np.nanmax(np.abs(got - want)):.1e} of {scale:.1e}"
        return "equal"


#: First words of the names of a part's values.
CONTENT = {"forward": "forward", "load": "load", "save": "load", "generate": "generate", "gradients": "gradient", "step": "step"}


def tensors(value: Any) -> list[Any]:
    """Return the tensors of a result, in order; caches are left out."""
    if isinstance(value, torch.Tensor):
        return [value]
    if hasattr(value, "items"):
        return [t for key, item in value.items() if key != "past_key_values" for t in tensors(item)]
    if isinstance(value, (tuple, list)):
        return [t for item in value for t in tensors(item)]
    return []


def describe(error: Exception) -> str:
    text = " ".join(str(error).split())
    if os.environ.get("ECOSYSTEM_TRACEBACK"):
        import traceback

        traceback.print_exc()
    return f"error: {type(error).__name__}: {text[:200]}"


if __name__ == "__main__":
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
    Path(sys.argv[2]).mkdir(parents=True, exist_ok=True)
    main(sys.argv[1], Path(sys.argv[2]), sys.argv[3:])
