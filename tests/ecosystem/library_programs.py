"""Programs that use Trainer, pipelines, peft, accelerate, lightning and torch_geometric, each a function that returns numbers.

    python tests/ecosystem/library_programs.py write FOLDER      with torch
    python tests/ecosystem/library_programs.py compare FOLDER    with ndgrad as torch

Weights and data come from NumPy, so that results do not depend on torch's random numbers.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from model_values import describe
from tiny_models import build, fill

Values = dict[str, Any]
PROGRAMS: dict[str, Callable[[], Values]] = {}


def program(function: Callable[[], Values]) -> Callable[[], Values]:
    """Add a function to the table of programs; its name starts with the library's."""
    PROGRAMS[function.__name__] = function
    return function


def draw(*shape: int, seed: int = 0) -> Any:
    return torch.tensor(np.random.RandomState(seed).standard_normal(shape).astype("float32"))


def state_of(model: Any) -> Values:
    return {name: p.detach().numpy().copy() for name, p in model.named_parameters()}


class Tokens(torch.utils.data.Dataset):
    """Sequences of token numbers, with labels for a classifier or a language model."""

    def __init__(self, count: int = 8, labels: str = "tokens") -> None:
        numbers = np.random.RandomState(3)
        self.tokens = numbers.randint(3, 99, (count, 8))
        self.labels = self.tokens if labels == "tokens" else numbers.randint(0, 3, count)

    def __len__(self) -> int:
        return len(self.tokens)

    def __getitem__(self, k: int) -> dict[str, Any]:
        tokens, mask = torch.tensor(self.tokens[k]), torch.ones(8, dtype=torch.long)
        return {"input_ids": tokens, "attention_mask": mask, "labels": torch.tensor(self.labels[k])}


# ----- transformers: Trainer and pipelines ----------------------------------------------------------------------------


def train(model: Any, **settings: Any) -> Values:
    """Return the losses and the weights of a run of Trainer without shuffling."""
    from transformers import Trainer, TrainingArguments

    class InOrder(Trainer):
        def _get_train_sampler(self, *_: Any) -> Any:
            return torch.utils.data.SequentialSampler(self.train_dataset)

    with tempfile.TemporaryDirectory() as folder:
        arguments = TrainingArguments(
            folder, per_device_train_batch_size=2, max_steps=4, logging_steps=1, learning_rate=1e-3, report_to=[], use_cpu=True,
            disable_tqdm=True, save_strategy="no", **settings,
        )  # fmt: skip
        trainer = InOrder(model=model, args=arguments, train_dataset=Tokens(), eval_dataset=Tokens(4))
        trainer.train()
        found = {"losses": np.array([row["loss"] for row in trainer.state.log_history if "loss" in row])}
        found["eval"] = np.array(trainer.evaluate()["eval_loss"])
        # Not the biases: the gradient of an attention key's bias is zero, and optimizers scale its rounding errors up.
        return found | {name: value for name, value in state_of(model).items() if value.ndim > 1}


@program
def trainer_causal() -> Values:
    return train(build("gpt2", "causal"))


@program
def trainer_cosine_schedule() -> Values:
    return train(build("llama", "causal"), lr_scheduler_type="cosine", warmup_steps=2, weight_decay=0.1)


@program
def trainer_accumulation() -> Values:
    return train(build("qwen2", "causal"), gradient_accumulation_steps=2, max_grad_norm=0.5)


@program
def trainer_masked() -> Values:
    return train(build("bert", "masked"), lr_scheduler_type="constant")


@program
def trainer_checkpointing() -> Values:
    return train(build("llama", "causal"), gradient_checkpointing=True)


@program
def trainer_adafactor() -> Values:
    return train(build("gpt_neox", "causal"), optim="adafactor")


@program
def trainer_label_smoothing() -> Values:
    return train(build("opt", "causal"), label_smoothing_factor=0.1)


def make_tokenizer() -> Any:
    """Return a tokenizer of single words, made without files."""
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    words = {"[PAD]": 0, "[UNK]": 1, "[MASK]": 2} | {f"w{k}": k + 3 for k in range(96)}
    raw = Tokenizer(models.WordLevel(words, unk_token="[UNK]"))
    raw.pre_tokenizer = pre_tokenizers.Whitespace()
    return PreTrainedTokenizerFast(tokenizer_object=raw, pad_token="[PAD]", unk_token="[UNK]", mask_token="[MASK]", eos_token="[PAD]")


@program
def pipeline_text_generation() -> Values:
    from transformers import pipeline

    made = pipeline("text-generation", model=build("gpt2", "causal"), tokenizer=make_tokenizer(), device=-1)
    out = made(["w1 w5 w9", "w30 w2"], max_new_tokens=6, do_sample=False, num_beams=2)
    return {"texts": np.array([row[0]["generated_text"] for row in out])}


@program
def pipeline_feature_extraction() -> Values:
    from transformers import pipeline

    made = pipeline("feature-extraction", model=build("bert", "encoder"), tokenizer=make_tokenizer(), device=-1)
    return {"features": np.array(made("w1 w5 w9")[0])}


@program
def pipeline_fill_mask() -> Values:
    from transformers import pipeline

    made = pipeline("fill-mask", model=build("bert", "masked"), tokenizer=make_tokenizer(), device=-1)
    out = made("w1 [MASK] w9")
    return {"scores": np.array([row["score"] for row in out]), "tokens": np.array([row["token"] for row in out])}


@program
def pipeline_image_classification() -> Values:
    from PIL import Image
    from transformers import pipeline
    from transformers.models.vit.image_processing_pil_vit import ViTImageProcessorPil

    processor = ViTImageProcessorPil(size={"height": 16, "width": 16})
    made = pipeline("image-classification", model=build("vit", "image"), image_processor=processor, device=-1)
    pixels = np.random.RandomState(5).randint(0, 256, (2, 20, 24, 3)).astype("uint8")
    out = made([Image.fromarray(image) for image in pixels], top_k=3)
    rows = [sorted(row, key=lambda one: one["label"]) for row in out]
    return {
        "labels": np.array([[one["label"] for one in row] for row in rows]),
        "scores": np.array([[one["score"] for one in row] for row in rows]),
    }


# ----- peft -----------------------------------------------------------------------------------------------------------


def tune(config: Any, architecture: str = "llama") -> Values:
    """Return losses and adapted weights after steps of AdamW on a model with an adapter, and logits after merging."""
    from peft import get_peft_model

    model = get_peft_model(build(architecture, "causal"), config)
    fill(model)
    model.train()
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=1e-2)
    losses = []
    batch = {name: torch.stack([row[name] for row in Tokens(4)]) for name in ("input_ids", "attention_mask", "labels")}
    for _ in range(3):
        loss = model(**batch).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    model.eval()
    with torch.no_grad():
        found = {"losses": np.array(losses), "logits": model(**batch).logits.numpy()}
        if hasattr(model, "merge_and_unload"):
            found["merged"] = model.merge_and_unload()(**batch).logits.numpy()
    return found


@program
def peft_lora() -> Values:
    from peft import LoraConfig

    return tune(LoraConfig(task_type="CAUSAL_LM", r=4, lora_alpha=8, target_modules=["q_proj", "v_proj"], lora_dropout=0.0))


@program
def peft_dora() -> Values:
    from peft import LoraConfig

    return tune(LoraConfig(task_type="CAUSAL_LM", r=4, target_modules=["q_proj"], use_dora=True))


@program
def peft_ia3() -> Values:
    from peft import IA3Config

    return tune(IA3Config(task_type="CAUSAL_LM", target_modules=["k_proj", "v_proj", "down_proj"], feedforward_modules=["down_proj"]))


@program
def peft_loha() -> Values:
    from peft import LoHaConfig

    return tune(LoHaConfig(task_type="CAUSAL_LM", r=4, target_modules=["q_proj"]))


@program
def peft_saved_adapter() -> Values:
    from peft import LoraConfig, PeftModel, get_peft_model

    model = get_peft_model(build("gpt2", "causal"), LoraConfig(task_type="CAUSAL_LM", r=4, target_modules=["c_attn"], fan_in_fan_out=True))
    fill(model)
    with tempfile.TemporaryDirectory() as folder:
        model.save_pretrained(folder)
        again = PeftModel.from_pretrained(build("gpt2", "causal"), folder).eval()
    with torch.no_grad():
        return {"logits": again(input_ids=torch.arange(3, 9)[None]).logits.numpy()}


# ----- accelerate -----------------------------------------------------------------------------------------------------


@program
def accelerate_loop() -> Values:
    from accelerate import Accelerator

    accelerator = Accelerator(cpu=True, gradient_accumulation_steps=2)
    model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1))
    fill(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda k: 0.9**k)
    data = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(draw(8, 4), draw(8, 1, seed=1)), batch_size=2)
    model, optimizer, data, schedule = accelerator.prepare(model, optimizer, data, schedule)
    losses = []
    for x, y in data:
        with accelerator.accumulate(model):
            loss = torch.nn.functional.mse_loss(model(x), y)
            accelerator.backward(loss)
            accelerator.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            schedule.step()
            optimizer.zero_grad()
            losses.append(accelerator.gather(loss.detach()).item())
    return {"losses": np.array(losses)} | state_of(accelerator.unwrap_model(model))


@program
def accelerate_saved_state() -> Values:
    from accelerate import Accelerator

    accelerator = Accelerator(cpu=True)
    model = torch.nn.Linear(4, 2)
    fill(model)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
    model, optimizer = accelerator.prepare(model, optimizer)
    accelerator.backward(model(draw(3, 4)).square().mean())
    optimizer.step()
    with tempfile.TemporaryDirectory() as folder:
        accelerator.save_state(folder)
        kept = state_of(model)
        with torch.no_grad():
            model.weight.zero_()
        accelerator.load_state(folder)
    return kept | {f"loaded.{name}": value for name, value in state_of(model).items()}


@program
def accelerate_empty_weights() -> Values:
    from accelerate import init_empty_weights, load_checkpoint_and_dispatch

    model = build("gpt2", "causal")
    with tempfile.TemporaryDirectory() as folder:
        model.save_pretrained(folder)
        with init_empty_weights():
            empty = type(model)(model.config)
        loaded = load_checkpoint_and_dispatch(empty, f"{folder}/model.safetensors", device_map={"": "cpu"}).eval()
    loaded.tie_weights()
    with torch.no_grad():
        return {"logits": loaded(input_ids=torch.arange(3, 9)[None]).logits.numpy()}


# ----- lightning ------------------------------------------------------------------------------------------------------


def fit(**settings: Any) -> Values:
    """Return the logged losses and the weights of a lightning module after two epochs."""
    import lightning

    class Net(lightning.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.layers = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 1))
            self.losses: list[float] = []

        def training_step(self, batch: Any, index: int) -> Any:
            x, y = batch
            loss = torch.nn.functional.mse_loss(self.layers(x), y)
            self.log("loss", loss)
            self.losses.append(loss.item())
            return loss

        def validation_step(self, batch: Any, index: int) -> None:
            x, y = batch
            self.log("val", torch.nn.functional.mse_loss(self.layers(x), y))

        def configure_optimizers(self) -> Any:
            optimizer = torch.optim.Adam(self.parameters(), lr=1e-2)
            return {"optimizer": optimizer, "lr_scheduler": torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.5)}

    net = Net()
    fill(net)
    data = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(draw(8, 4), draw(8, 1, seed=1)), batch_size=2)
    with tempfile.TemporaryDirectory() as folder:
        trainer = lightning.Trainer(
            max_epochs=2, accelerator="cpu", devices=1, logger=False, enable_progress_bar=False, enable_model_summary=False,
            enable_checkpointing=False, default_root_dir=folder, **settings,
        )  # fmt: skip
        trainer.fit(net, data, data)
        found = {"losses": np.array(net.losses), "val": trainer.callback_metrics["val"].numpy()}
    return found | state_of(net)


@program
def lightning_fit() -> Values:
    return fit()


@program
def lightning_clipping() -> Values:
    return fit(gradient_clip_val=0.1)


@program
def lightning_accumulation() -> Values:
    return fit(accumulate_grad_batches=2)


@program
def lightning_fabric() -> Values:
    import lightning

    fabric = lightning.Fabric(accelerator="cpu", devices=1)
    model = torch.nn.Linear(4, 2)
    fill(model)
    model, optimizer = fabric.setup(model, torch.optim.SGD(model.parameters(), lr=0.1))
    for k in range(3):
        fabric.backward(model(draw(3, 4, seed=k)).square().mean())
        optimizer.step()
        optimizer.zero_grad()
    return state_of(model.module)


# ----- torch_geometric ------------------------------------------------------------------------------------------------

LAYERS = """
    GCNConv SAGEConv GraphConv GATConv GATv2Conv TransformerConv TAGConv ARMAConv SGConv APPNP MFConv LEConv ClusterGCNConv
    GENConv FiLMConv SuperGATConv FAConv EGConv GeneralConv ChebConv LGConv ResGatedGraphConv GatedGraphConv SSGConv AntiSymmetricConv
""".split()


def run_layer(name: str) -> Values:
    """Return the result and the gradients of a layer on a small graph."""
    import torch_geometric.nn as layers

    sizes: dict[str, tuple[Any, ...]] = {"APPNP": (3, 0.1), "LGConv": (), "GatedGraphConv": (8, 2)}
    sizes |= {"FAConv": (8,), "AntiSymmetricConv": (8,)}
    settings = {"ChebConv": {"K": 2}, "SSGConv": {"alpha": 0.1}, "EGConv": {"num_heads": 2}}.get(name, {})
    layer = getattr(layers, name)(*sizes.get(name, (8, 8)), **settings)
    fill(layer)
    edges = torch.tensor([[0, 1, 1, 2, 3, 4, 4, 0], [1, 0, 2, 1, 4, 3, 0, 4]])
    x = draw(5, 8).requires_grad_()
    args = (x, draw(5, 8, seed=2), edges) if name == "FAConv" else (x, edges)
    out = layer.eval()(*args)
    out.square().sum().backward()
    gradients = {n: p.grad.numpy() for n, p in layer.named_parameters() if p.grad is not None}
    return {"out": out.detach().numpy(), "x": x.grad.numpy()} | gradients


for _name in LAYERS:
    PROGRAMS[f"torch_geometric_{_name}"] = lambda name=_name: run_layer(name)


@program
def torch_geometric_pooling() -> Values:
    import torch_geometric.nn as layers

    x, groups = draw(6, 4), torch.tensor([0, 0, 1, 1, 1, 2])
    pools = ("global_add_pool", "global_mean_pool", "global_max_pool")
    return {name: getattr(layers, name)(x, groups).numpy() for name in pools}


@program
def torch_geometric_training() -> Values:
    import torch_geometric.nn as layers
    from torch_geometric.data import Data
    from torch_geometric.loader import DataLoader

    ring = torch.tensor([[0, 1, 2, 3], [1, 2, 3, 0]])
    graphs = [Data(x=draw(4, 3, seed=k), edge_index=ring, y=torch.tensor([k % 2])) for k in range(6)]
    first, head = layers.GCNConv(3, 8), torch.nn.Linear(8, 2)
    model = torch.nn.ModuleList([first, head])
    fill(model)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    losses = []
    for batch in DataLoader(graphs, batch_size=3):
        hidden = layers.global_mean_pool(first(batch.x, batch.edge_index).relu(), batch.batch)
        loss = torch.nn.functional.cross_entropy(head(hidden), batch.y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return {"losses": np.array(losses)} | state_of(model)


@program
def torch_geometric_transforms() -> Values:
    import torch_geometric.transforms as transforms
    from torch_geometric.data import Data

    data = Data(x=draw(5, 3), pos=draw(5, 2, seed=1), edge_index=torch.tensor([[0, 1, 2, 3], [1, 2, 3, 4]]))
    steps = [transforms.ToUndirected(), transforms.AddSelfLoops(), transforms.NormalizeFeatures(), transforms.Distance()]
    made = transforms.Compose(steps)(data)
    return {"x": made.x.numpy(), "edges": made.edge_index.numpy(), "distances": made.edge_attr.numpy()}


# ----- running --------------------------------------------------------------------------------------------------------


def compare(found: Values, expected: Values) -> str:
    """Return "equal", or the first difference."""
    if sorted(found) != sorted(expected):
        return f"differs: names {sorted(set(found) ^ set(expected))[:3]}"
    for name, want in expected.items():
        got = np.asarray(found[name])
        if got.dtype.kind != "f":
            if not np.array_equal(got, want):
                return f"differs: {name}"
            continue
        limit = 2e-4 * float(np.abs(want).max(initial=0.0)) + 1e-6
        if got.shape != want.shape or not np.allclose(got, want, rtol=2e-3, atol=limit):
            return f"differs: {name}"
    return "equal"


def main(mode: str, folder: Path, only: list[str]) -> None:
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    for name, function in PROGRAMS.items():
        if only and name not in only:
            continue
        file, start = folder / f"program-{name}.npz", time.perf_counter()
        if mode == "write":
            file.unlink(missing_ok=True)
        elif not file.is_file():
            continue  # torch could not run the program
        try:
            found = function()
            if mode == "write":
                np.savez(file, **found)
            state = "written" if mode == "write" else compare(found, dict(np.load(file)))
        except Exception as error:
            state = describe(error)
        print(json.dumps({"program": name, "seconds": round(time.perf_counter() - start, 2), "result": state}), flush=True)


if __name__ == "__main__":
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
    Path(sys.argv[2]).mkdir(parents=True, exist_ok=True)
    main(sys.argv[1], Path(sys.argv[2]), sys.argv[3:])
