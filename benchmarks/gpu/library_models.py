"""Models of transformers on a GPU: `python -m benchmarks.gpu.library_models --library ndgrad --output out`.

GPT-2 small, a Llama configuration of a billion parameters and ViT-B, with random weights: a training step under
autocast to bfloat16, one with all parameters in bfloat16, and greedy generation. A process runs one library, because
ndgrad takes torch's name for transformers. `--join` prints the table of both. If transformers cannot be imported, the
file says why.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks.gpu.timing import LIBRARIES

#: Samples of a step, and steps before them.
SAMPLES, BEFORE = 5, 2
#: Number of generated tokens.
TOKENS = 32


class Model(NamedTuple):
    """A configuration of transformers, its class of models, and the sizes of a batch."""

    title: str
    config: str
    model: str
    settings: dict[str, Any]
    batch: int
    #: Tokens of a sequence; 0 for images.
    length: int


MODELS = {
    "gpt2": Model("GPT-2 small", "GPT2Config", "GPT2LMHeadModel", {}, 8, 512),
    "vit": Model("ViT-B/16", "ViTConfig", "ViTForImageClassification", {"num_labels": 1000}, 32, 0),
    "llama": Model(
        "Llama of a billion parameters", "LlamaConfig", "LlamaForCausalLM",
        {"hidden_size": 2048, "intermediate_size": 8192, "num_hidden_layers": 16, "num_attention_heads": 32,
         "num_key_value_heads": 8, "vocab_size": 32000, "max_position_embeddings": 2048, "tie_word_embeddings": True},
        2, 512,
    ),
}  # fmt: skip
#: The same models with few and small layers, to try the program without a GPU.
_SMALL = {
    "gpt2": {"n_embd": 32, "n_layer": 2, "n_head": 2, "vocab_size": 64, "n_positions": 64},
    "vit": {
        "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64, "image_size": 32,
    },
    "llama": {
        "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
        "vocab_size": 64, "intermediate_size": 64, "max_position_embeddings": 64,
    },
}  # fmt: skip


def make_model(torch: Any, name: str, is_small: bool) -> tuple[Any, Model]:
    """Return a model with random weights, and the sizes of its batch."""
    transformers = importlib.import_module("transformers")
    wanted = MODELS[name]
    if is_small:
        settings = {**wanted.settings, **_SMALL[name]}
        wanted = wanted._replace(settings=settings, batch=2, length=16 if wanted.length else 0)
    torch.manual_seed(0)
    config = getattr(transformers, wanted.config)(**wanted.settings)
    return getattr(transformers, wanted.model)(config), wanted


def make_inputs(torch: Any, wanted: Model, config: Any, device: str) -> dict[str, Any]:
    """Return a batch with labels, the same for both libraries."""
    random = np.random.default_rng(0)
    if wanted.length:
        ids = torch.tensor(random.integers(0, config.vocab_size, (wanted.batch, wanted.length)), device=device)
        return {"input_ids": ids, "labels": ids}
    size = config.image_size
    pixels = random.standard_normal((wanted.batch, 3, size, size)).astype(np.float32)
    labels = random.integers(0, config.num_labels, wanted.batch)
    return {"pixel_values": torch.tensor(pixels, device=device), "labels": torch.tensor(labels, device=device)}


def training_step(torch: Any, model: Any, inputs: dict[str, Any], device: str, is_half: bool) -> Callable[[], float]:
    """Return a step of AdamW: with all parameters in bfloat16, or under autocast to it."""
    model.train()
    if is_half:
        model.to(torch.bfloat16)
        inputs = {name: t.to(torch.bfloat16) if t.dtype.is_floating_point else t for name, t in inputs.items()}
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5)

    def step() -> Any:
        optimizer.zero_grad()
        with contextlib.nullcontext() if is_half else torch.autocast(device, dtype=torch.bfloat16):
            loss = model(**inputs).loss
        loss.backward()
        optimizer.step()
        return loss

    return step


def generation(torch: Any, model: Any, inputs: dict[str, Any], tokens: int) -> Callable[[], Any]:
    """Return greedy generation from the first tokens of a sequence."""
    model.eval()
    prompt = inputs["input_ids"][:1, : min(32, inputs["input_ids"].shape[1])]
    mask = torch.ones_like(prompt)

    def run() -> Any:
        with torch.no_grad():
            return model.generate(
                prompt, attention_mask=mask, max_new_tokens=tokens, min_new_tokens=tokens, do_sample=False,
                pad_token_id=0,
            )  # fmt: skip

    return run


def measure(torch: Any, run: Callable[[], Any], device: str) -> tuple[float, Any]:
    """Return the seconds of the fastest call, and the result of the first."""
    wait = torch.cuda.synchronize if device == "cuda" else lambda: None
    first = run()
    for _ in range(BEFORE - 1):
        run()
    best = float("inf")
    for _ in range(SAMPLES):
        wait()
        start = time.perf_counter()
        run()
        wait()
        best = min(best, time.perf_counter() - start)
    return best, first


def run_library(arguments: argparse.Namespace) -> None:
    """Measure all models in one library, and write a line of JSON for each measurement as it comes."""
    end = time.monotonic() + arguments.seconds
    arguments.output.mkdir(parents=True, exist_ok=True)
    with (arguments.output / f"models-{arguments.library}.jsonl").open("w", encoding="utf-8") as file:

        def note(**values: Any) -> None:
            file.write(json.dumps(values) + "\n")
            file.flush()

        try:
            if arguments.library == "ndgrad":
                importlib.import_module("ndgrad").install_as_torch()
            torch = importlib.import_module("torch")
            importlib.import_module("transformers").GPT2LMHeadModel  # noqa: B018  # transformers imports models at first use
        except Exception as error:
            note(problem=f"transformers cannot be imported: {type(error).__name__}: {str(error)[:300]}")
            return
        for name in MODELS:
            for what in ("autocast", "bfloat16", "generate"):
                if time.monotonic() > end:
                    note(model=name, what=what, problem="not measured, for lack of time")
                elif what != "generate" or MODELS[name].length:
                    note(model=name, what=what, **_measured(torch, name, what, arguments))


def _measured(torch: Any, name: str, what: str, arguments: argparse.Namespace) -> dict[str, Any]:
    """Return the seconds and the first result of one measurement, or the problem."""
    device = arguments.device
    try:
        model, wanted = make_model(torch, name, arguments.small)
        model.to(device)
        inputs = make_inputs(torch, wanted, model.config, device)
        if what == "generate":
            model.to(torch.bfloat16)
            seconds, found = measure(torch, generation(torch, model, inputs, TOKENS), device)
            return {"seconds": seconds / TOKENS, "result": len(found[0])}
        seconds, loss = measure(torch, training_step(torch, model, inputs, device, what == "bfloat16"), device)
        return {"seconds": seconds, "result": float(loss.detach().float())}
    except Exception as error:  # the other models still run
        return {"problem": f"{type(error).__name__}: {str(error)[:300]}"}
    finally:
        model = inputs = None
        if device == "cuda":
            torch.cuda.empty_cache()


def join(folder: Path) -> str:
    """Return the table of both libraries from their files."""
    found: dict[str, dict[tuple[str, str], dict[str, Any]]] = {}
    lines = ["| model | torch, ms | ndgrad, ms | ratio |", "| --- | --- | --- | --- |"]
    notes = []
    for library in LIBRARIES:
        path = folder / f"models-{library}.jsonl"
        rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] if path.exists() else []
        found[library] = {(r["model"], r["what"]): r for r in rows if "model" in r}
        notes += [f"\n{library}: {r['problem']}" for r in rows if "model" not in r]
    for key in dict.fromkeys(k for rows in found.values() for k in rows):
        each = [found[library].get(key, {"problem": "not measured"}) for library in LIBRARIES]
        cells = [r.get("problem") or f"{r['seconds'] * 1e3:.2f}" for r in each]
        ratio = "" if any(r.get("problem") for r in each) else f"{each[1]['seconds'] / each[0]['seconds']:.2f}"
        unit = "greedy generation, per token" if key[1] == "generate" else f"training step, {key[1]}"
        lines.append(f"| {MODELS[key[0]].title}, {unit} | {' | '.join(cells)} | {ratio} |")
    return "\n".join([*lines, *notes])


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu.library_models", description=__doc__)
    parser.add_argument("--library", choices=LIBRARIES, default="ndgrad")
    parser.add_argument("--join", action="store_true", help="print the table of both libraries")
    parser.add_argument("--seconds", type=float, default=120.0, help="time after which no further measurement begins")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda", help="cpu: try the program without a GPU")
    parser.add_argument("--small", action="store_true", help="small models, to try the program")
    parser.add_argument("--output", type=Path, required=True, metavar="FOLDER", help="folder of the results")
    arguments = parser.parse_args()
    if not arguments.join:
        run_library(arguments)
        return
    text = join(arguments.output)
    print(text)
    (arguments.output / "models.md").write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
