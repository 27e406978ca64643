"""LoRA: fine-tune a tiny language model of transformers with peft, and compare every loss with torch's."""

from __future__ import annotations

import importlib.util
import zlib

import numpy as np

import ndgrad

#: Losses of `fine_tune` under torch 2.13, by step.
LOSSES_OF_TORCH = {
    0: 4.8512, 1: 3.4072, 2: 2.5993, 3: 2.031, 5: 1.4413, 7: 1.1079,
    9: 0.8731, 14: 0.5394, 19: 0.3597, 29: 0.1922, 39: 0.12, 49: 0.0853, 59: 0.0665,
}  # fmt: skip


# The function is written for torch, transformers and peft, and does not mention ndgrad. LoRA freezes
# a model and trains a product of two thin matrices beside each chosen layer.
def fine_tune(steps):
    """Teach a small Llama to count in steps of three, by rank-4 changes of its attention; return the losses."""
    import torch  # this package, after install_as_torch
    from peft import LoraConfig, get_peft_model
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        vocab_size=32, hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2,
    )  # fmt: skip
    model = LlamaForCausalLM(config)
    places = ["q_proj", "v_proj", "o_proj", "down_proj"]
    changes = LoraConfig(task_type="CAUSAL_LM", r=4, lora_alpha=16, target_modules=places)
    model = get_peft_model(model, changes)
    with torch.no_grad():
        for name, p in model.named_parameters():  # weights by name: the same numbers in every library
            values = np.random.RandomState(zlib.crc32(name.encode())).standard_normal(tuple(p.shape))
            p.copy_(torch.tensor((0.3 * values).astype("float32")) if p.dim() > 1 else torch.ones_like(p))
            if "lora_B" in name:
                p.zero_()
    trained = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(trained, lr=2e-2)
    starts = torch.arange(16)[:, None]
    tokens = (starts + 3 * torch.arange(10)) % 32
    losses = []
    for _ in range(steps):
        loss = model(input_ids=tokens, labels=tokens).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    share = sum(p.numel() for p in trained) / sum(p.numel() for p in model.parameters())
    guess = model.generate(input_ids=torch.tensor([[1, 4, 7]]), max_new_tokens=5, do_sample=False, pad_token_id=0)
    print(f"{100 * share:.0f} % of the parameters trained; after 1, 4, 7 comes {guess[0, 3:].tolist()}")
    return losses


def main(quick: bool = False) -> tuple[float, ndgrad.viz.Picture]:
    """The largest relative difference of a loss from torch's, and the losses of both."""
    # Inside of `install_as_torch`, `import torch` imports ndgrad. The libraries do not notice.
    for name in ("transformers", "peft"):
        if importlib.util.find_spec(name) is None:
            raise ModuleNotFoundError(f"this program needs {name}: pip install {name}", name=name)
    steps = 10 if quick else 60
    with ndgrad.install_as_torch():
        losses = fine_tune(steps)
    known = {k: loss for k, loss in LOSSES_OF_TORCH.items() if k < steps}
    for k, loss in known.items():
        print(f"step {k:2}: loss {losses[k]:.4f}, torch's {loss:.4f}")
    apart = max(abs(losses[k] - loss) / loss for k, loss in known.items())

    # Draw the losses on top of those that torch computed from the same weights.
    chart = ndgrad.viz.Chart("loss of a tiny Llama", height=260, log_y=True)
    chart.line(np.arange(steps), losses, "ndgrad").points(list(known), list(known.values()), "torch", size=3)
    return apart, chart


if __name__ == "__main__":
    try:
        main()[1].save("lora_finetuning.svg")
    except ModuleNotFoundError as error:
        print(f"skipped: {error}")
