"""The demo from start to end: check gradients, train, write text, draw two pictures."""

from __future__ import annotations

import argparse
import math
import time
from pathlib import Path

import ndgrad
import ndgrad.nn.functional as F
from demo.adam import Adam
from demo.finite_differences import compare
from demo.model import Parameters, Shape, embed, generate, initial_parameters, loss, predict
from demo.pictures import draw_loss, draw_saliency
from demo.progress import Progress
from ndgrad import Tensor

HERE = Path(__file__).parent
STEPS, BATCH, RATE, WARM_UP = 800, 16, 4e-3, 50
SECONDS = 40.0  # limit for training; a quiet core needs less for all steps
HELD_OUT = 0.1  # share of the text, at its end, that is never used for training
CHECKED = ["embedding", "position", "0.attention.in", "0.norm1.gain", "1.mlp.in", "1.mlp.out", "readout"]


def check_gradients(parameters: Parameters, windows: Tensor, shape: Shape) -> None:
    """Print analytic and measured gradients, and stop if they disagree."""
    print("\nGradients by backward pass and by central differences, in float64\n")
    print(f"  {'parameter':34} {'backward':>14} {'difference':>14} {'rel. error':>11}")
    rows = compare(lambda: loss(parameters, windows, shape), parameters, CHECKED)
    for row in rows:
        print(f"  {row.name:34} {row.analytic:14.9f} {row.numeric:14.9f} {row.relative_error:11.1e}")
    worst = max(row.relative_error for row in rows)
    if worst > 1e-5:
        raise SystemExit(f"the gradients disagree by {worst:.1e}: this is a bug in ndgrad, please report it")


def train(parameters: Parameters, text: Tensor, shape: Shape, steps: int, seconds: float) -> list[float]:
    """Minimise the loss on random windows of the text, until a limit is reached or Ctrl-C is pressed.

    Return the loss of every step.
    """
    optimiser = Adam(parameters)
    offsets = ndgrad.arange(shape.context + 1)
    losses: list[float] = []
    progress = Progress(steps, "training", seconds)
    try:
        for step in progress:
            starts = ndgrad.randint(0, len(text) - shape.context, (BATCH, 1))
            value = loss(parameters, text[starts + offsets], shape)
            value.backward()
            # Increase the rate linearly, then decrease it along half a cosine that ends at the nearer limit.
            optimiser.step(RATE * min(1.0, (step + 1) / WARM_UP) * 0.5 * (1 + math.cos(math.pi * progress.share)))
            losses.append(float(value.item()))
            progress.note = f"loss {recent_mean(losses):.3f}"
    except KeyboardInterrupt:
        if not losses:
            raise
        print(f"\n\n  Interrupted after {len(losses)} steps; the rest uses the model as it is.")
    else:
        if len(losses) < steps:
            print(f"\n  Stopped after {len(losses)} of {steps} steps and {seconds:g} s: --seconds sets the limit.")
    return losses


def recent_mean(losses: list[float]) -> float:
    """Return the mean loss of the last 20 steps."""
    return sum(losses[-20:]) / len(losses[-20:])


def saliency(parameters: Parameters, passage: Tensor, shape: Shape) -> list[list[float]]:
    """Return the norm of the gradient of every prediction in a passage with respect to every character's vector.

    The passage is repeated, one copy per prediction. Only the prediction at position i of copy i counts. Copies
    do not influence each other, so one backward pass of the sum yields the whole table.
    """
    count = len(passage) - 1
    vectors = embed(parameters, passage[:-1].expand(count, count)).detach().requires_grad_()
    every = ndgrad.arange(count)
    scores = predict(parameters, vectors, shape)[every, every]
    F.cross_entropy(scores, passage[1:], reduction="sum").backward()
    assert vectors.grad is not None
    return [[float(value) for value in row] for row in vectors.grad.norm(dim=-1).tolist()]


def read_options() -> argparse.Namespace:
    """Return the options of the command line."""
    known = argparse.ArgumentParser(prog="python -m demo", description=__doc__)
    known.add_argument("--steps", type=int, default=STEPS, metavar="N", help="steps of training (%(default)s)")
    known.add_argument(
        "--seconds", type=float, default=SECONDS, metavar="S", help="limit for the time of training (%(default)g)"
    )
    options = known.parse_args()
    if options.steps < 1:
        known.error(f"--steps is {options.steps}: give a positive number")
    if not options.seconds > 0:
        known.error(f"--seconds is {options.seconds}: give a positive number")
    return options


def main() -> None:
    """Run all parts; takes less than a minute."""
    options = read_options()
    steps = options.steps
    start = time.perf_counter()
    ndgrad.manual_seed(0)
    story = (HERE / "text.txt").read_text(encoding="utf-8")
    alphabet = sorted(set(story))
    codes = {character: code for code, character in enumerate(alphabet)}
    text = ndgrad.tensor([codes[character] for character in story])
    split = int(len(story) * (1 - HELD_OUT))
    shape = Shape(vocabulary=len(alphabet))
    rows = (len(story) - split) // (shape.context + 1)
    held_out = text[split : split + rows * (shape.context + 1)].reshape(rows, shape.context + 1)

    parameters = initial_parameters(shape)
    count = sum(tensor.numel() for tensor in parameters.values())
    print(f"A transformer of {shape.layers} layers and {count:,} parameters reads {len(story):,} characters,")
    print(f"{shape.context} at a time, and learns to predict the next one.")
    check_gradients(parameters, held_out[:2], shape)

    parameters = {name: tensor.detach().float().requires_grad_() for name, tensor in parameters.items()}
    with ndgrad.no_grad():
        before = float(loss(parameters, held_out, shape).item())
    print(f"\nTraining in float32, {steps} steps of {BATCH * shape.context:,} characters\n")
    losses = train(parameters, text[:split], shape, steps, options.seconds)
    with ndgrad.no_grad():
        after = float(loss(parameters, held_out, shape).item())
    print(f"\n  loss on the text it reads   {losses[0]:.3f} -> {recent_mean(losses):.3f} nats per character")
    print(f"  loss on held-out text       {before:.3f} -> {after:.3f}")
    print(f"  guessing uniformly          {math.log(len(alphabet)):.3f}")

    opening = "Ada looked at the sea, and "
    written = generate(parameters, [codes[character] for character in opening], 300, shape, temperature=0.7)
    print("\nIt writes:\n\n  " + "".join(alphabet[code] for code in written).replace("\n", "\n  "))

    loss_path, gradient_path = HERE / "out" / "loss.svg", HERE / "out" / "gradient.svg"
    draw_loss(loss_path, losses, math.log(len(alphabet)), after)
    passage = story.index("The height told her")
    window = slice(passage, passage + 49)
    draw_saliency(gradient_path, story[window], saliency(parameters, text[window], shape))
    print(f"\nThe loss curve:                             {loss_path}")
    print(f"What each prediction depends on (gradient): {gradient_path}")
    print(f"\nDone in {time.perf_counter() - start:.0f} s.")


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        raise SystemExit("\ndemo: interrupted") from None
