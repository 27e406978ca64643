"""The model: a transformer over characters, as two functions of a dictionary of tensors.

`embed` turns characters into vectors and `predict` turns vectors into scores for the next character. They are
separate so that the demo can also compute the gradient with respect to the vectors, which it draws.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import ndgrad
import ndgrad.nn.functional as F
from ndgrad import Tensor

Parameters = dict[str, Tensor]


@dataclass(frozen=True)
class Shape:
    """The sizes that define the model."""

    vocabulary: int
    context: int = 64
    width: int = 64
    heads: int = 4
    layers: int = 2


def initial_parameters(shape: Shape) -> Parameters:
    """Return random leaf tensors in float64, scaled to keep activations near variance one from layer to layer."""

    def normal(rows: int, columns: int, scale: float) -> Tensor:
        return ndgrad.randn(rows, columns, dtype=ndgrad.float64) * scale

    def norm(name: str) -> Parameters:
        width = shape.width
        return {
            f"{name}.gain": ndgrad.ones(width, dtype=ndgrad.float64),
            f"{name}.bias": ndgrad.zeros(width, dtype=ndgrad.float64),
        }

    width = shape.width
    into_residual = 1.0 / math.sqrt(2 * shape.layers * width)  # 2 * layers branches add up in the residual
    parameters = {
        "embedding": normal(shape.vocabulary, width, 0.1),
        "position": normal(shape.context, width, 0.1),
    }
    for layer in range(shape.layers):
        parameters |= norm(f"{layer}.norm1")
        parameters[f"{layer}.attention.in"] = normal(width, 3 * width, width**-0.5)
        parameters[f"{layer}.attention.out"] = normal(width, width, into_residual)
        parameters |= norm(f"{layer}.norm2")
        parameters[f"{layer}.mlp.in"] = normal(width, 4 * width, width**-0.5)
        parameters[f"{layer}.mlp.out"] = normal(4 * width, width, 0.5 * into_residual)
    parameters |= norm("norm")
    parameters["readout"] = normal(width, shape.vocabulary, 0.1 * width**-0.5)
    return {name: tensor.requires_grad_() for name, tensor in parameters.items()}


def embed(parameters: Parameters, characters: Tensor) -> Tensor:
    """Return vectors (batch, time, width) for characters (batch, time)."""
    return F.embedding(characters, parameters["embedding"]) + parameters["position"][: characters.shape[1]]


def predict(parameters: Parameters, vectors: Tensor, shape: Shape) -> Tensor:
    """Return scores (batch, time, vocabulary) of the character that follows each position."""
    x = vectors
    for layer in range(shape.layers):
        own = {name.removeprefix(f"{layer}."): tensor for name, tensor in parameters.items()}
        x = x + attention(own, layer_norm(own, "norm1", x), shape.heads)
        x = x + F.gelu(layer_norm(own, "norm2", x) @ own["mlp.in"]) @ own["mlp.out"]
    return layer_norm(parameters, "norm", x) @ parameters["readout"]


def attention(parameters: Parameters, x: Tensor, heads: int) -> Tensor:
    """Let every position attend to itself and the positions before it, in several heads at once."""
    batch, time, width = x.shape
    split = (x @ parameters["attention.in"]).reshape(batch, time, 3, heads, width // heads)
    query, key, value = split.permute(2, 0, 3, 1, 4).unbind(0)  # each (batch, head, time, width of a head)
    scores = query @ key.transpose(-2, -1) * (width // heads) ** -0.5
    future = ndgrad.ones(time, time, dtype=ndgrad.bool).triu(1)
    weights = F.softmax(scores.masked_fill(future, -math.inf), dim=-1)
    return (weights @ value).transpose(1, 2).reshape(batch, time, width) @ parameters["attention.out"]


def layer_norm(parameters: Parameters, name: str, x: Tensor) -> Tensor:
    """Normalise to mean zero and variance one across the width, then apply a learned gain and bias."""
    return F.layer_norm(x, (x.shape[-1],), parameters[f"{name}.gain"], parameters[f"{name}.bias"])


def loss(parameters: Parameters, windows: Tensor, shape: Shape) -> Tensor:
    """Return the mean cross-entropy, in nats per character, of predicting windows[:, 1:] from windows[:, :-1]."""
    scores = predict(parameters, embed(parameters, windows[:, :-1]), shape)
    return F.cross_entropy(scores.reshape(-1, shape.vocabulary), windows[:, 1:].reshape(-1))


def generate(parameters: Parameters, start: list[int], count: int, shape: Shape, temperature: float) -> list[int]:
    """Append `count` characters to `start`, each drawn from the model's own prediction."""
    characters = list(start)
    with ndgrad.no_grad():
        for _ in range(count):
            recent = ndgrad.tensor([characters[-shape.context :]])
            scores = predict(parameters, embed(parameters, recent), shape)[0, -1]
            chances = F.softmax(scores / temperature, dim=-1)
            characters.append(int(ndgrad.multinomial(chances, 1).item()))
    return characters
