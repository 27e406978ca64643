"""Single ops of the GPU benchmark: about 290 calls, each with its arguments in three sizes.

Sizes 0, 1 and 2 have about 100, 100,000 and 4 million elements. Matrix products, convolutions and decompositions have
fewer, so that their time is comparable.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np


class Call(NamedTuple):
    """An op with its arguments."""

    family: str
    #: (random generator, size) -> arrays
    arrays: Callable[[Any, int], list[Any]]
    #: (namespace, its nn.functional, tensors) -> result
    function: Callable[..., Any]
    #: The number of differentiable arguments; None means all floating ones.
    differentiable: int | None


OPS: dict[str, Call] = {}


def add(family: str, name: str, arrays: Any, function: Any, differentiable: int | None = None) -> None:
    """Add an op to the list."""
    OPS[name] = Call(family, arrays, function, differentiable)


def choose(*values: Any) -> Callable[[int], Any]:
    """Return the function from a size to one of three values."""
    return lambda size: values[size]


side = choose(10, 320, 2000)
f32 = np.float32


def draw_normal(rng: Any, *shape: int) -> Any:
    return rng.standard_normal(shape, dtype=f32)


def draw_positive(rng: Any, *shape: int) -> Any:
    return rng.uniform(0.2, 0.9, shape).astype(f32)


def draw_square(r: Any, i: int) -> list[Any]:
    return [draw_normal(r, side(i), side(i))]


def draw_positive_square(r: Any, i: int) -> list[Any]:
    return [draw_positive(r, side(i), side(i))]


def draw_two(r: Any, i: int) -> list[Any]:
    return draw_square(r, i) + draw_square(r, i)


def draw_two_positive(r: Any, i: int) -> list[Any]:
    return draw_positive_square(r, i) + draw_positive_square(r, i)


def draw_three(r: Any, i: int) -> list[Any]:
    return draw_two(r, i) + draw_positive_square(r, i)


for name in ("neg abs exp sin cos tan atan sinh tanh sigmoid erf expm1 square").split():
    add("elementwise", name, draw_square, lambda T, F, x, name=name: getattr(T, name)(x))
for name in ("log sqrt rsqrt reciprocal log1p log2 asin acos lgamma digamma erfinv atanh").split():
    add("elementwise", name, draw_positive_square, lambda T, F, x, name=name: getattr(T, name)(x))
for name in ("add sub mul div maximum minimum atan2 hypot logaddexp fmod").split():
    add("elementwise", name, draw_two, lambda T, F, x, y, name=name: getattr(T, name)(x, y))
add("elementwise", "pow(x, y)", draw_two_positive, lambda T, F, x, y: x**y)
add("elementwise", "x ** 2", draw_square, lambda T, F, x: x**2)
add("elementwise", "x ** 3", draw_square, lambda T, F, x: x**3)
add("elementwise", "x ** 2.5", draw_positive_square, lambda T, F, x: x**2.5)
add("elementwise", "x + 1.5", draw_square, lambda T, F, x: x + 1.5)
add("elementwise", "x * 1.5", draw_square, lambda T, F, x: x * 1.5)
add("elementwise", "x + row", lambda r, i: draw_square(r, i) + [draw_normal(r, side(i))], lambda T, F, x, y: x + y)
add(
    "elementwise", "x * column", lambda r, i: draw_square(r, i) + [draw_normal(r, side(i), 1)], lambda T, F, x, y: x * y
)
add("elementwise", "lerp", draw_three, lambda T, F, x, y, w: T.lerp(x, y, w))
add("elementwise", "addcmul", draw_three, lambda T, F, x, y, z: T.addcmul(x, y, z))
add("elementwise", "addcdiv", draw_three, lambda T, F, x, y, z: T.addcdiv(x, y, z))
add("elementwise", "clamp", draw_square, lambda T, F, x: T.clamp(x, -0.5, 0.5))
add("elementwise", "clone", draw_square, lambda T, F, x: x.clone())
add("elementwise", "to float64", draw_square, lambda T, F, x: x.double())
add("elementwise", "x.clone().mul_(y)", draw_two, lambda T, F, x, y: x.clone().mul_(y))

for name in ("sum mean max min var std norm amax").split():
    add("reductions", name, draw_square, lambda T, F, x, name=name: getattr(T, name)(x))
for name in ("sum mean amax var std logsumexp norm nansum").split():
    for dim in (0, 1):
        add(
            "reductions",
            f"{name} dim={dim}",
            draw_square,
            lambda T, F, x, name=name, dim=dim: getattr(T, name)(x, dim=dim),
        )
for dim in (0, 1):
    add("reductions", f"max dim={dim}", draw_square, lambda T, F, x, dim=dim: T.max(x, dim=dim)[0])
add(
    "reductions",
    "prod dim=1",
    lambda r, i: [draw_positive(r, side(i) ** 2 // 10, 10)],
    lambda T, F, x: T.prod(x, dim=1),
)
add(
    "reductions",
    "sum of 4-D over 0,2,3",
    lambda r, i: [draw_normal(r, *choose((2, 4, 3, 4), (16, 16, 20, 20), (32, 64, 44, 44))(i))],
    lambda T, F, x: x.sum((0, 2, 3)),
)
for name in ("cumsum", "logcumsumexp", "cummax"):
    for dim in (0, 1):
        add(
            "scans",
            f"{name} dim={dim}",
            draw_square,
            lambda T, F, x, name=name, dim=dim: (
                getattr(T, name)(x, dim=dim) if name != "cummax" else T.cummax(x, dim=dim)[0]
            ),
        )
add(
    "scans",
    "cumprod dim=1",
    lambda r, i: [draw_positive(r, side(i) ** 2 // 10, 10)],
    lambda T, F, x: T.cumprod(x, dim=1),
)
add("scans", "diff", draw_square, lambda T, F, x: T.diff(x))

for name in ("softmax", "log_softmax", "softmin"):
    for dim in (0, 1):
        add(
            "softmax",
            f"{name} dim={dim}",
            draw_square,
            lambda T, F, x, name=name, dim=dim: getattr(F, name)(x, dim=dim),
        )
add(
    "softmax",
    "softmax attention scores",
    lambda r, i: [draw_normal(r, *choose((1, 2, 7, 7), (4, 8, 56, 56), (16, 8, 176, 176))(i))],
    lambda T, F, x: F.softmax(x, dim=-1),
)

mat = choose(10, 320, 1024)


def draw_matrices(r: Any, i: int) -> list[Any]:
    return [draw_normal(r, mat(i), mat(i)), draw_normal(r, mat(i), mat(i))]


def draw_batches(r: Any, i: int) -> list[Any]:
    b, n = choose((4, 5), (32, 56), (64, 250))(i)
    return [draw_normal(r, b, n, n), draw_normal(r, b, n, n)]


add("matmul", "mm", draw_matrices, lambda T, F, x, y: x @ y)
add("matmul", "mm of transposed", draw_matrices, lambda T, F, x, y: x @ y.T)
add("matmul", "mv", lambda r, i: [draw_normal(r, side(i), side(i)), draw_normal(r, side(i))], lambda T, F, x, y: x @ y)
add(
    "matmul",
    "dot",
    lambda r, i: [draw_normal(r, side(i) ** 2), draw_normal(r, side(i) ** 2)],
    lambda T, F, x, y: T.dot(x, y),
)
add(
    "matmul", "outer", lambda r, i: [draw_normal(r, side(i)), draw_normal(r, side(i))], lambda T, F, x, y: T.outer(x, y)
)
add("matmul", "bmm", draw_batches, lambda T, F, x, y: T.bmm(x, y))
add(
    "matmul",
    "bmm many 4x4",
    lambda r, i: [draw_normal(r, n := choose(6, 6000, 250000)(i), 4, 4), draw_normal(r, n, 4, 4)],
    lambda T, F, x, y: T.bmm(x, y),
)
add(
    "matmul",
    "matmul 3-D @ 2-D",
    lambda r, i: [x := draw_batches(r, i)[0], draw_normal(r, x.shape[2], x.shape[2])],
    lambda T, F, x, y: x @ y,
)
add("matmul", "einsum bij,bjk->bik", draw_batches, lambda T, F, x, y: T.einsum("bij,bjk->bik", x, y))
add("matmul", "einsum ij,kj->ik", draw_matrices, lambda T, F, x, y: T.einsum("ij,kj->ik", x, y))
add(
    "matmul",
    "einsum bqhd,bkhd->bhqk",
    lambda r, i: [
        draw_normal(r, *(s := choose((1, 5, 2, 10), (4, 64, 8, 48), (16, 128, 8, 64))(i))),
        draw_normal(r, *s),
    ],
    lambda T, F, x, y: T.einsum("bqhd,bkhd->bhqk", x, y),
)
add(
    "matmul",
    "einsum i,ij,j->",
    lambda r, i: [draw_normal(r, side(i)), draw_normal(r, side(i), side(i)), draw_normal(r, side(i))],
    lambda T, F, x, a, y: T.einsum("i,ij,j->", x, a, y),
)
add(
    "matmul",
    "linear",
    lambda r, i: [*draw_matrices(r, i), draw_normal(r, mat(i))],
    lambda T, F, x, w, b: F.linear(x, w, b),
)
add(
    "matmul",
    "addmm",
    lambda r, i: [*draw_matrices(r, i), draw_normal(r, mat(i))],
    lambda T, F, x, w, b: T.addmm(b, x, w),
)
add(
    "matmul",
    "baddbmm",
    lambda r, i: [*draw_batches(r, i), draw_batches(r, i)[0]],
    lambda T, F, x, y, b: T.baddbmm(b, x, y),
)
add(
    "matmul",
    "tensordot",
    lambda r, i: [draw_normal(r, *(s := choose((2, 5, 10), (20, 50, 100), (64, 64, 256))(i))), draw_normal(r, *s)],
    lambda T, F, x, y: T.tensordot(x, y, ([1, 2], [1, 2])),
)
add(
    "matmul",
    "kron",
    lambda r, i: [
        draw_normal(r, *choose((3, 3), (18, 18), (40, 50))(i)),
        draw_normal(r, *choose((3, 3), (18, 18), (50, 40))(i)),
    ],
    lambda T, F, x, y: T.kron(x, y),
)
add(
    "matmul",
    "bilinear",
    lambda r, i: [
        draw_normal(r, *choose((10, 5), (256, 20), (1024, 40))(i)),
        draw_normal(r, *choose((10, 5), (256, 20), (1024, 40))(i)),
        draw_normal(r, *choose((3, 5, 5), (20, 20, 20), (40, 40, 40))(i)),
    ],
    lambda T, F, x, y, w: F.bilinear(x, y, w),
)

image = choose((1, 2, 7, 7), (4, 16, 40, 40), (16, 64, 64, 64))


def make_conv(out: int | None, *kernel: int, groups: int | str = 1) -> Any:
    def arrays(r: Any, i: int) -> list[Any]:
        shape = image(i)
        g = shape[1] if groups == "channels" else groups
        return [
            draw_normal(r, *shape),
            draw_normal(r, shape[1] if out is None else out, shape[1] // g, *kernel),
            draw_normal(r, shape[1]),
        ]

    return arrays


add("convolution", "conv2d 3x3", make_conv(None, 3, 3), lambda T, F, x, w, b: F.conv2d(x, w, b, padding=1))
add("convolution", "conv2d 5x5", make_conv(None, 5, 5), lambda T, F, x, w, b: F.conv2d(x, w, b, padding=2))
add("convolution", "conv2d 1x1", make_conv(None, 1, 1), lambda T, F, x, w, b: F.conv2d(x, w, b))
add(
    "convolution",
    "conv2d 3x3 stride 2",
    make_conv(None, 3, 3),
    lambda T, F, x, w, b: F.conv2d(x, w, b, padding=1, stride=2),
)
add(
    "convolution",
    "conv2d depthwise",
    make_conv(None, 3, 3, groups="channels"),
    lambda T, F, x, w, b: F.conv2d(x, w, b, padding=1, groups=x.shape[1]),
)
add(
    "convolution",
    "conv2d groups 2",
    make_conv(None, 3, 3, groups=2),
    lambda T, F, x, w, b: F.conv2d(x, w, b, padding=1, groups=2),
)
add(
    "convolution",
    "conv2d dilation 2",
    make_conv(None, 3, 3),
    lambda T, F, x, w, b: F.conv2d(x, w, b, padding=2, dilation=2),
)
add(
    "convolution",
    "conv1d 3",
    lambda r, i: [
        draw_normal(r, *(s := choose((1, 4, 25), (8, 32, 400), (16, 64, 4096))(i))),
        draw_normal(r, s[1], s[1], 3),
        draw_normal(r, s[1]),
    ],
    lambda T, F, x, w, b: F.conv1d(x, w, b, padding=1),
)
add(
    "convolution",
    "conv3d 3x3x3",
    lambda r, i: [
        draw_normal(r, *(s := choose((1, 2, 4, 4, 4), (2, 8, 16, 20, 20), (4, 16, 40, 40, 40))(i))),
        draw_normal(r, s[1], s[1], 3, 3, 3),
        draw_normal(r, s[1]),
    ],
    lambda T, F, x, w, b: F.conv3d(x, w, b, padding=1),
)
add(
    "convolution",
    "conv_transpose1d",
    lambda r, i: [
        draw_normal(r, *(s := choose((1, 4, 25), (8, 32, 400), (16, 64, 4096))(i))),
        draw_normal(r, s[1], s[1], 4),
        draw_normal(r, s[1]),
    ],
    lambda T, F, x, w, b: F.conv_transpose1d(x, w, b, stride=2, padding=1),
)
add(
    "convolution",
    "conv_transpose2d",
    make_conv(None, 4, 4),
    lambda T, F, x, w, b: F.conv_transpose2d(x, w, b, stride=2, padding=1),
)
add(
    "convolution",
    "conv_transpose3d",
    lambda r, i: [
        draw_normal(r, *(s := choose((1, 2, 4, 4, 4), (2, 8, 16, 20, 20), (4, 16, 24, 24, 24))(i))),
        draw_normal(r, s[1], s[1], 2, 2, 2),
        draw_normal(r, s[1]),
    ],
    lambda T, F, x, w, b: F.conv_transpose3d(x, w, b, stride=2),
)
add(
    "convolution",
    "unfold 3x3",
    lambda r, i: [draw_normal(r, *choose((1, 2, 7, 7), (2, 8, 40, 40), (4, 32, 64, 64))(i))],
    lambda T, F, x: F.unfold(x, 3, padding=1),
)
add(
    "convolution",
    "fold 3x3",
    lambda r, i: [draw_normal(r, *choose((1, 18, 49), (2, 72, 1600), (4, 288, 4096))(i))],
    lambda T, F, x: F.fold(
        x, choose((7, 7), (40, 40), (64, 64))(0 if x.shape[2] == 49 else 1 if x.shape[2] == 1600 else 2), 3, padding=1
    ),
)


def draw_images(r: Any, i: int) -> list[Any]:
    return [draw_normal(r, *image(i))]


def draw_even_images(r: Any, i: int) -> list[Any]:
    return [draw_normal(r, *choose((1, 2, 8, 8), (4, 16, 40, 40), (16, 64, 64, 64))(i))]


def draw_signals(r: Any, i: int) -> list[Any]:
    return [draw_normal(r, *choose((1, 4, 26), (8, 32, 400), (16, 64, 4096))(i))]


def draw_volumes(r: Any, i: int) -> list[Any]:
    return [draw_normal(r, *choose((1, 2, 4, 4, 4), (2, 8, 16, 20, 20), (4, 16, 40, 40, 40))(i))]


add("pooling", "max_pool2d 2", draw_even_images, lambda T, F, x: F.max_pool2d(x, 2))
add("pooling", "max_pool2d 3 s2 p1", draw_even_images, lambda T, F, x: F.max_pool2d(x, 3, stride=2, padding=1))
add("pooling", "avg_pool2d 2", draw_even_images, lambda T, F, x: F.avg_pool2d(x, 2))
add("pooling", "avg_pool2d 3 s1 p1", draw_even_images, lambda T, F, x: F.avg_pool2d(x, 3, stride=1, padding=1))
add("pooling", "adaptive_avg_pool2d 1", draw_images, lambda T, F, x: F.adaptive_avg_pool2d(x, 1))
add("pooling", "adaptive_avg_pool2d 3", draw_images, lambda T, F, x: F.adaptive_avg_pool2d(x, 3))
add("pooling", "adaptive_max_pool2d 3", draw_images, lambda T, F, x: F.adaptive_max_pool2d(x, 3))
add("pooling", "max_pool1d 2", draw_signals, lambda T, F, x: F.max_pool1d(x, 2))
add("pooling", "avg_pool1d 2", draw_signals, lambda T, F, x: F.avg_pool1d(x, 2))
add("pooling", "max_pool3d 2", draw_volumes, lambda T, F, x: F.max_pool3d(x, 2))
add("pooling", "avg_pool3d 2", draw_volumes, lambda T, F, x: F.avg_pool3d(x, 2))
add("pooling", "lp_pool2d", draw_even_images, lambda T, F, x: F.lp_pool2d(x, 2, 2))

half = choose((1, 2, 4, 4), (4, 16, 20, 20), (16, 64, 32, 32))


def draw_halves(r: Any, i: int) -> list[Any]:
    return [draw_normal(r, *half(i))]


add("resampling", "interpolate nearest x2", draw_halves, lambda T, F, x: F.interpolate(x, scale_factor=2))
add(
    "resampling",
    "interpolate bilinear x2",
    draw_halves,
    lambda T, F, x: F.interpolate(x, scale_factor=2, mode="bilinear"),
)
add(
    "resampling",
    "interpolate bicubic x2",
    draw_halves,
    lambda T, F, x: F.interpolate(x, scale_factor=2, mode="bicubic"),
)
add(
    "resampling",
    "interpolate bilinear /2",
    draw_even_images,
    lambda T, F, x: F.interpolate(x, scale_factor=0.5, mode="bilinear"),
)
add(
    "resampling", "interpolate linear x2", draw_signals, lambda T, F, x: F.interpolate(x, scale_factor=2, mode="linear")
)
add(
    "resampling",
    "interpolate area /2",
    draw_even_images,
    lambda T, F, x: F.interpolate(x, scale_factor=0.5, mode="area"),
)
add(
    "resampling",
    "pixel_shuffle",
    lambda r, i: [draw_normal(r, *choose((1, 4, 5, 5), (4, 16, 40, 40), (16, 64, 64, 64))(i))],
    lambda T, F, x: F.pixel_shuffle(x, 2),
)
add(
    "resampling",
    "grid_sample",
    lambda r, i: [
        draw_normal(r, *(s := choose((1, 2, 7, 7), (4, 16, 40, 40), (8, 32, 64, 64))(i))),
        r.uniform(-1, 1, (s[0], s[2], s[3], 2)).astype(f32),
    ],
    lambda T, F, x, g: F.grid_sample(x, g, align_corners=False),
)

rows = choose((10, 10, 8), (1000, 100, 1024), (30000, 128, 32768))  # table, width, how many


def draw_table(r: Any, i: int) -> list[Any]:
    n, d, k = rows(i)
    return [draw_normal(r, n, d), r.integers(0, n, k)]


def draw_along(r: Any, i: int) -> list[Any]:
    s = side(i)
    return [draw_normal(r, s, s), r.integers(0, s, (s, s))]


def draw_along_from(r: Any, i: int) -> list[Any]:
    s = side(i)
    return [draw_normal(r, s, s), draw_normal(r, s, s), r.integers(0, s, (s, s))]


add("indexing", "embedding", draw_table, lambda T, F, w, i: F.embedding(i, w), 1)
add(
    "indexing",
    "embedding_bag",
    lambda r, i: [draw_table(r, i)[0], r.integers(0, rows(i)[0], (rows(i)[2] // 4, 4))],
    lambda T, F, w, i: F.embedding_bag(i, w, mode="sum"),
    1,
)
add("indexing", "index_select 0", draw_table, lambda T, F, x, i: T.index_select(x, 0, i), 1)
add(
    "indexing",
    "index_select 1",
    lambda r, i: [draw_normal(r, side(i), side(i)), r.integers(0, side(i), side(i))],
    lambda T, F, x, i: T.index_select(x, 1, i),
    1,
)
add(
    "indexing",
    "index_add",
    lambda r, i: [
        draw_normal(r, *rows(i)[:2]),
        draw_normal(r, rows(i)[2], rows(i)[1]),
        r.integers(0, rows(i)[0], rows(i)[2]),
    ],
    lambda T, F, x, y, i: T.index_add(x, 0, i, y),
    2,
)
add("indexing", "gather 1", draw_along, lambda T, F, x, i: T.gather(x, 1, i), 1)
add("indexing", "gather 0", draw_along, lambda T, F, x, i: T.gather(x, 0, i), 1)
add(
    "indexing",
    "gather labels",
    lambda r, i: [
        draw_normal(r, *choose((10, 10), (1000, 100), (40000, 100))(i)),
        r.integers(0, 10, (choose(10, 1000, 40000)(i), 1)),
    ],
    lambda T, F, x, i: T.gather(x, 1, i),
    1,
)
add("indexing", "scatter", draw_along_from, lambda T, F, x, y, i: T.scatter(x, 1, i, y), 2)
add("indexing", "scatter_add", draw_along_from, lambda T, F, x, y, i: T.scatter_add(x, 1, i, y), 2)
add("indexing", "scatter_reduce amax", draw_along_from, lambda T, F, x, y, i: T.scatter_reduce(x, 1, i, y, "amax"), 2)
add("indexing", "take_along_dim", draw_along, lambda T, F, x, i: T.take_along_dim(x, i, dim=1), 1)
add(
    "indexing",
    "take",
    lambda r, i: [draw_normal(r, side(i) ** 2), r.integers(0, side(i) ** 2, side(i) ** 2)],
    lambda T, F, x, i: T.take(x, i),
    1,
)
add("indexing", "x[idx] rows", draw_table, lambda T, F, x, i: x[i], 1)
add(
    "indexing",
    "x[i, j] points",
    lambda r, i: [
        draw_normal(r, side(i), side(i)),
        r.integers(0, side(i), side(i) ** 2 // 2),
        r.integers(0, side(i), side(i) ** 2 // 2),
    ],
    lambda T, F, x, i, j: x[i, j],
    1,
)
add(
    "indexing",
    "x[mask]",
    lambda r, i: [draw_normal(r, side(i), side(i)), r.random((side(i), side(i))) < 0.5],
    lambda T, F, x, m: x[m],
    1,
)
add(
    "indexing",
    "masked_select",
    lambda r, i: [draw_normal(r, side(i), side(i)), r.random((side(i), side(i))) < 0.5],
    lambda T, F, x, m: T.masked_select(x, m),
    1,
)
add("indexing", "x[1:-1, 1:-1]", draw_square, lambda T, F, x: x[1:-1, 1:-1])
add("indexing", "x[:, ::2]", draw_square, lambda T, F, x: x[:, ::2])
add(
    "indexing",
    "clone()[idx] = y",
    lambda r, i: [
        draw_normal(r, *rows(i)[:2]),
        draw_normal(r, rows(i)[2], rows(i)[1]),
        r.integers(0, rows(i)[0], rows(i)[2]),
    ],
    lambda T, F, x, y, i: write(x.clone(), i, y),
    2,
)
add(
    "indexing",
    "index_put accumulate",
    lambda r, i: [
        draw_normal(r, *rows(i)[:2]),
        draw_normal(r, rows(i)[2], rows(i)[1]),
        r.integers(0, rows(i)[0], rows(i)[2]),
    ],
    lambda T, F, x, y, i: x.index_put((i,), y, accumulate=True),
    2,
)


def write(x: Any, i: Any, y: Any) -> Any:
    x[i] = y
    return x


def draw_masked(r: Any, i: int) -> list[Any]:
    return [draw_normal(r, side(i), side(i)), r.random((side(i), side(i))) < 0.5]


add("masks", "where", lambda r, i: draw_two(r, i) + [draw_masked(r, i)[1]], lambda T, F, x, y, m: T.where(m, x, y), 2)
add("masks", "where(m, x, 0)", draw_masked, lambda T, F, x, m: T.where(m, x, 0.0), 1)
add("masks", "masked_fill", draw_masked, lambda T, F, x, m: x.masked_fill(m, -1e9), 1)
add(
    "masks",
    "masked_scatter",
    lambda r, i: draw_two(r, i) + [draw_masked(r, i)[1]],
    lambda T, F, x, y, m: x.masked_scatter(m, y),
    2,
)
add("masks", "x * mask", draw_masked, lambda T, F, x, m: x * m, 1)
add("masks", "tril", draw_square, lambda T, F, x: T.tril(x))
add("masks", "clone()[mask] = 0", draw_masked, lambda T, F, x, m: write(x.clone(), m, 0.0), 1)
add("masks", "nan_to_num", draw_square, lambda T, F, x: T.nan_to_num(x))

for name, function in {
    "sort": lambda T, F, x: T.sort(x)[0],
    "sort dim=0": lambda T, F, x: T.sort(x, dim=0)[0],
    "topk 5": lambda T, F, x: T.topk(x, 5)[0],
    "kthvalue": lambda T, F, x: T.kthvalue(x, 3)[0],
    "median dim=1": lambda T, F, x: T.median(x, dim=1)[0],
    "quantile dim=1": lambda T, F, x: T.quantile(x, 0.3, dim=1),
}.items():
    add("sorting", name, draw_square, function)
add("sorting", "sort 1-D", lambda r, i: [draw_normal(r, side(i) ** 2)], lambda T, F, x: T.sort(x)[0])

lin = choose(10, 100, 500)


def draw_general(r: Any, i: int) -> list[Any]:
    return [draw_normal(r, lin(i), lin(i)) + lin(i) * np.eye(lin(i), dtype=f32)]


def draw_symmetric(r: Any, i: int) -> list[Any]:
    a = draw_normal(r, lin(i), lin(i))
    return [a @ a.T / lin(i) + np.eye(lin(i), dtype=f32)]


def draw_batch_general(r: Any, i: int) -> list[Any]:
    b = choose(2, 1000, 20000)(i)
    return [draw_normal(r, b, 6, 6) + 6 * np.eye(6, dtype=f32)]


def draw_batch_symmetric(r: Any, i: int) -> list[Any]:
    a = draw_batch_general(r, i)[0]
    return [a @ a.swapaxes(1, 2) + np.eye(6, dtype=f32)]


add(
    "linalg",
    "solve",
    lambda r, i: draw_general(r, i) + [draw_normal(r, lin(i), 10)],
    lambda T, F, a, b: T.linalg.solve(a, b),
)
add(
    "linalg",
    "solve_triangular",
    lambda r, i: [np.tril(draw_general(r, i)[0]), draw_normal(r, lin(i), 10)],
    lambda T, F, a, b: T.linalg.solve_triangular(a, b, upper=False),
)
for name in ("inv det slogdet pinv matrix_exp").split():
    add(
        "linalg",
        name,
        (lambda r, i: [draw_general(r, i)[0] / lin(i)]) if name == "matrix_exp" else draw_general,
        lambda T, F, a, name=name: getattr(T.linalg, name)(a) if name != "slogdet" else T.linalg.slogdet(a)[1],
    )
add("linalg", "cholesky", draw_symmetric, lambda T, F, a: T.linalg.cholesky(a))
add("linalg", "eigh", draw_symmetric, lambda T, F, a: tuple(T.linalg.eigh(a)))
add("linalg", "eigvalsh", draw_symmetric, lambda T, F, a: T.linalg.eigvalsh(a))
add("linalg", "svd", draw_general, lambda T, F, a: tuple(T.linalg.svd(a, full_matrices=False)))
add("linalg", "svdvals", draw_general, lambda T, F, a: T.linalg.svdvals(a))
add("linalg", "qr", draw_general, lambda T, F, a: tuple(T.linalg.qr(a)))
add(
    "linalg",
    "lstsq",
    lambda r, i: [draw_normal(r, 2 * lin(i), lin(i)), draw_normal(r, 2 * lin(i), 3)],
    lambda T, F, a, b: T.linalg.lstsq(a, b)[0],
)
for name in ("inv", "det"):
    add("linalg", f"batch {name} 6x6", draw_batch_general, lambda T, F, a, name=name: getattr(T.linalg, name)(a))
add(
    "linalg",
    "batch solve 6x6",
    lambda r, i: [a := draw_batch_general(r, i)[0], draw_normal(r, a.shape[0], 6, 1)],
    lambda T, F, a, b: T.linalg.solve(a, b),
)
add("linalg", "batch cholesky 6x6", draw_batch_symmetric, lambda T, F, a: T.linalg.cholesky(a))
add("linalg", "batch eigh 6x6", draw_batch_symmetric, lambda T, F, a: tuple(T.linalg.eigh(a)))
add("linalg", "batch svd 6x6", draw_batch_general, lambda T, F, a: tuple(T.linalg.svd(a, full_matrices=False)))
add("linalg", "batch qr 6x6", draw_batch_general, lambda T, F, a: tuple(T.linalg.qr(a)))

fside = choose(16, 256, 2048)


def draw_fours(r: Any, i: int) -> list[Any]:
    return [draw_normal(r, fside(i), fside(i))]


def draw_complexes(r: Any, i: int) -> list[Any]:
    return [draw_normal(r, fside(i), fside(i)) + 1j * draw_normal(r, fside(i), fside(i))]


for name in ("rfft", "rfft2", "fft2"):
    add("fft", name, draw_fours, lambda T, F, x, name=name: getattr(T.fft, name)(x))
for name in ("fft", "ifft", "irfft"):
    add("fft", name, draw_complexes, lambda T, F, x, name=name: getattr(T.fft, name)(x))
add("fft", "complex mul", lambda r, i: draw_complexes(r, i) + draw_complexes(r, i), lambda T, F, x, y: x * y)
add("fft", "complex abs", draw_complexes, lambda T, F, x: x.abs())

for name in ("mse_loss l1_loss smooth_l1_loss huber_loss soft_margin_loss poisson_nll_loss").split():
    add("losses", name, draw_two, lambda T, F, x, y, name=name: getattr(F, name)(x, y), 1)
classes = choose((10, 10), (3200, 32), (40000, 100))


def draw_logits(r: Any, i: int) -> list[Any]:
    return [draw_normal(r, *classes(i)), r.integers(0, classes(i)[1], classes(i)[0])]


add("losses", "cross_entropy", draw_logits, lambda T, F, x, y: F.cross_entropy(x, y), 1)
add("losses", "cross_entropy smoothing", draw_logits, lambda T, F, x, y: F.cross_entropy(x, y, label_smoothing=0.1), 1)
add(
    "losses",
    "cross_entropy 1000 classes",
    lambda r, i: [
        draw_normal(r, *choose((2, 50), (100, 1000), (4000, 1000))(i)),
        r.integers(0, 50, choose(2, 100, 4000)(i)),
    ],
    lambda T, F, x, y: F.cross_entropy(x, y),
    1,
)
add("losses", "nll_loss", draw_logits, lambda T, F, x, y: F.nll_loss(x, y), 1)
add("losses", "multi_margin_loss", draw_logits, lambda T, F, x, y: F.multi_margin_loss(x, y), 1)
add("losses", "binary_cross_entropy", draw_two_positive, lambda T, F, x, y: F.binary_cross_entropy(x, y), 1)
add(
    "losses",
    "bce_with_logits",
    lambda r, i: draw_square(r, i) + draw_positive_square(r, i),
    lambda T, F, x, y: F.binary_cross_entropy_with_logits(x, y),
    1,
)
add("losses", "kl_div", draw_two_positive, lambda T, F, x, y: F.kl_div(x, y, reduction="batchmean"), 1)
add("losses", "gaussian_nll_loss", draw_three, lambda T, F, x, y, v: F.gaussian_nll_loss(x, y, v))
add("losses", "triplet_margin_loss", draw_three, lambda T, F, x, y, z: F.triplet_margin_loss(x, y, z))
add("losses", "cosine_similarity", draw_two, lambda T, F, x, y: F.cosine_similarity(x, y))
add("losses", "pairwise_distance", draw_two, lambda T, F, x, y: F.pairwise_distance(x, y))
add(
    "losses",
    "cdist",
    lambda r, i: [
        draw_normal(r, *choose((10, 3), (320, 16), (1500, 32))(i)),
        draw_normal(r, *choose((10, 3), (320, 16), (1500, 32))(i)),
    ],
    lambda T, F, x, y: T.cdist(x, y),
)
add(
    "losses",
    "cdist p=1",
    lambda r, i: [
        draw_normal(r, *choose((10, 3), (320, 16), (1000, 32))(i)),
        draw_normal(r, *choose((10, 3), (320, 16), (1000, 32))(i)),
    ],
    lambda T, F, x, y: T.cdist(x, y, p=1.0),
)
add(
    "losses",
    "pdist",
    lambda r, i: [draw_normal(r, *choose((10, 3), (320, 16), (1500, 32))(i))],
    lambda T, F, x: F.pdist(x),
)

for name in (
    "relu leaky_relu elu gelu silu mish softplus hardswish hardtanh selu logsigmoid relu6 softsign tanhshrink celu "
    "hardsigmoid"
).split():
    add("activations", name, draw_square, lambda T, F, x, name=name: getattr(F, name)(x))
add("activations", "gelu tanh", draw_square, lambda T, F, x: F.gelu(x, approximate="tanh"))
add("activations", "glu", draw_square, lambda T, F, x: F.glu(x))
add(
    "activations",
    "prelu",
    lambda r, i: draw_square(r, i) + [draw_positive(r, side(i))],
    lambda T, F, x, w: F.prelu(x, w),
)
add("activations", "dropout", draw_square, lambda T, F, x: F.dropout(x, 0.5))
add("activations", "dropout2d", draw_images, lambda T, F, x: F.dropout2d(x, 0.5))
add("activations", "alpha_dropout", draw_square, lambda T, F, x: F.alpha_dropout(x, 0.5, training=True))

for name, function in {
    "cat 0": lambda T, F, x, y: T.cat([x, y]),
    "cat 1": lambda T, F, x, y: T.cat([x, y], 1),
    "stack": lambda T, F, x, y: T.stack([x, y]),
    "stack -1": lambda T, F, x, y: T.stack([x, y], -1),
}.items():
    add("movement", name, draw_two, function)
for name, function in {
    "split": lambda T, F, x: T.split(x, x.shape[0] // 5),
    "unbind": lambda T, F, x: T.unbind(x[:10]),
    "roll": lambda T, F, x: T.roll(x, 3, 1),
    "flip": lambda T, F, x: T.flip(x, [1]),
    "t().contiguous()": lambda T, F, x: x.t().contiguous(),
    "repeat": lambda T, F, x: x.repeat(2, 1),
    "repeat_interleave": lambda T, F, x: T.repeat_interleave(x, 2, dim=0),
    "reshape": lambda T, F, x: x.reshape(-1),
    "t().reshape": lambda T, F, x: x.t().reshape(-1),
    "diagonal": lambda T, F, x: T.diagonal(x),
    "diag_embed": lambda T, F, x: T.diag_embed(x[0]),
    "expand * ": lambda T, F, x: x[:1].expand(x.shape) * 2.0,
    "rot90": lambda T, F, x: T.rot90(x),
    "unfold": lambda T, F, x: x.unfold(1, 4, 2),
    "trace": lambda T, F, x: T.trace(x),
    "cov": lambda T, F, x: T.cov(x[:300]),
}.items():
    add("movement", name, draw_square, function)
add("movement", "permute 4-D contiguous", draw_images, lambda T, F, x: x.permute(0, 2, 3, 1).contiguous())
for mode in ("constant", "reflect", "replicate", "circular"):
    add("movement", f"pad {mode}", draw_images, lambda T, F, x, mode=mode: F.pad(x, (1, 1, 1, 1), mode=mode))
add(
    "movement",
    "cross",
    lambda r, i: [draw_normal(r, n := choose(33, 33000, 1300000)(i), 3), draw_normal(r, n, 3)],
    lambda T, F, x, y: T.linalg.cross(x, y),
)

tokens = choose((4, 25), (512, 200), (8192, 512))


def draw_normed(r: Any, i: int) -> list[Any]:
    s = tokens(i)
    return [draw_normal(r, *s), draw_positive(r, s[1]), draw_normal(r, s[1])]


def draw_channels(r: Any, i: int) -> list[Any]:
    s = image(i)
    return [draw_normal(r, *s), draw_positive(r, s[1]), draw_normal(r, s[1])]


add("normalisation", "layer_norm", draw_normed, lambda T, F, x, w, b: F.layer_norm(x, (x.shape[1],), w, b))
add("normalisation", "rms_norm", draw_normed, lambda T, F, x, w, b: F.rms_norm(x, (x.shape[1],), w), 2)
add(
    "normalisation",
    "batch_norm train",
    draw_channels,
    lambda T, F, x, w, b: F.batch_norm(x, None, None, w, b, training=True),
)
add(
    "normalisation",
    "batch_norm eval",
    lambda r, i: draw_channels(r, i) + [draw_normal(r, image(i)[1]), draw_positive(r, image(i)[1])],
    lambda T, F, x, w, b, m, v: F.batch_norm(x, m, v, w, b),
    3,
)
add(
    "normalisation",
    "batch_norm 2-D",
    draw_normed,
    lambda T, F, x, w, b: F.batch_norm(x, None, None, w, b, training=True),
)
add("normalisation", "group_norm", draw_channels, lambda T, F, x, w, b: F.group_norm(x, 2, w, b))
add("normalisation", "instance_norm", draw_channels, lambda T, F, x, w, b: F.instance_norm(x, weight=w, bias=b))
add("normalisation", "local_response_norm", draw_images, lambda T, F, x: F.local_response_norm(x, 2))
add("normalisation", "normalize", draw_square, lambda T, F, x: F.normalize(x))

heads = choose((1, 2, 6, 8), (4, 4, 100, 64), (8, 8, 512, 64))


def draw_heads(r: Any, i: int) -> list[Any]:
    return [draw_normal(r, *heads(i)) for _ in range(3)]


add("attention", "sdpa", draw_heads, lambda T, F, q, k, v: F.scaled_dot_product_attention(q, k, v))
add(
    "attention",
    "sdpa causal",
    draw_heads,
    lambda T, F, q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True),
)
add(
    "attention",
    "sdpa mask",
    lambda r, i: draw_heads(r, i) + [r.random((heads(i)[2],) * 2) < 0.9],
    lambda T, F, q, k, v, m: F.scaled_dot_product_attention(q, k, v, attn_mask=m),
    3,
)
add(
    "attention",
    "attention by hand",
    draw_heads,
    lambda T, F, q, k, v: F.softmax(q @ k.transpose(-1, -2) * 0.125, -1) @ v,
)
