"""ONNX models: checked by running them with onnxruntime, on the sizes they were traced with and on others."""

from __future__ import annotations

import io
import os

import numpy as np
import pytest

import ndgrad
import ndgrad.nn.functional as F
from ndgrad import nn

pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")


def leaves(value):
    return [t for v in value for t in leaves(v)] if isinstance(value, (tuple, list)) else [value]


def run(program, inputs):
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(program.model_proto.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return session.run(None, {i.name: t.detach().numpy() for i, t in zip(session.get_inputs(), inputs, strict=True)})


def check(function, *inputs, batch=True):
    """The model gives what the function gives; with `batch`, for another first size of all inputs, too."""
    if isinstance(function, nn.Module):
        function.eval()
    names = [f"x{i}" for i in range(len(inputs))]
    axes = {n: {0: "batch"} for n in names} if batch else None
    program = ndgrad.onnx.export(function, inputs, input_names=names, dynamic_axes=axes)
    for given in (inputs, tuple(ndgrad.cat([t, t.flip(0), t], 0) for t in inputs))[: 1 + batch]:
        with ndgrad.no_grad():
            want = leaves(function(*given))
        got = run(program, given)
        assert [g.dtype for g in got] == [w.numpy().dtype for w in want]
        for g, w in zip(got, want, strict=True):
            np.testing.assert_allclose(g, w.numpy(), rtol=2e-5, atol=2e-6)
    return program


def draw(*shape, dtype=None):
    return ndgrad.tensor(np.random.default_rng(0).normal(size=shape), dtype=dtype or ndgrad.float32)


@pytest.fixture(autouse=True)
def _float32():
    before = ndgrad.get_default_dtype()
    ndgrad.set_default_dtype(ndgrad.float32)
    ndgrad.manual_seed(0)
    yield
    ndgrad.set_default_dtype(before)


NETWORKS = {
    "perceptron": (lambda: nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2), nn.Softmax(-1)), (2, 3)),
    "convolutions": (
        lambda: nn.Sequential(
            nn.Conv2d(1, 4, 3, padding=1),
            nn.BatchNorm2d(4),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(4, 4, 3, groups=2, stride=2, padding=1),
            nn.AvgPool2d(2),
            nn.AdaptiveAvgPool2d(1),
            nn.Flatten(),
            nn.Linear(4, 4),
            nn.LogSoftmax(-1),
        ),
        (2, 1, 8, 8),
    ),
    "one-dimensional": (lambda: nn.Sequential(nn.Conv1d(2, 3, 3, dilation=2), nn.MaxPool1d(2), nn.ELU(), nn.AvgPool1d(2)), (2, 2, 12)),
    "decoder": (
        lambda: nn.Sequential(
            nn.ConvTranspose2d(2, 4, 3, stride=2, padding=1, output_padding=1), nn.GroupNorm(2, 4), nn.SiLU(), nn.Upsample(scale_factor=2)
        ),
        (2, 2, 4, 4),
    ),
    "bilinear": (
        lambda: nn.Sequential(nn.InstanceNorm2d(2), nn.PReLU(), nn.Upsample(scale_factor=2, mode="bilinear"), nn.PixelShuffle(1)),
        (2, 2, 3, 3),
    ),
    "transformer": (lambda: nn.TransformerEncoderLayer(4, 2, 8, batch_first=True, norm_first=True, activation="gelu"), (2, 3, 4)),
    "lstm": (lambda: nn.LSTM(2, 3, batch_first=True, bidirectional=True), (2, 3, 2)),
    "gru": (lambda: nn.GRU(2, 3, num_layers=2, batch_first=True), (2, 3, 2)),
    "dropout": (lambda: nn.Sequential(nn.Dropout(), nn.LayerNorm(3), nn.RMSNorm(3), nn.GELU("tanh"), nn.Mish(), nn.Hardswish()), (2, 3)),
}


@pytest.mark.parametrize("name", list(NETWORKS))
def test_networks_give_the_same_for_any_batch(name):
    make, shape = NETWORKS[name]
    model = make()
    program = check(model, draw(*shape))
    held = {i.name for i in program.model_proto.graph.initializer}
    assert {n for n, _ in model.named_parameters()} <= held


def test_words_become_vectors():
    check(nn.Sequential(nn.Embedding(5, 3), nn.Linear(3, 2)), ndgrad.tensor([[0, 1, 4], [2, 2, 3]]))


FUNCTIONS = {
    "arithmetic": lambda x: (x + 1) * 2 - x / 3 + x**2 + (-x).abs().sqrt() + 1 / (x * x + 1),
    "exponentials": lambda x: x.exp() + x.expm1() + (x * x).log1p() + (x * x + 1).log2() + ndgrad.exp2(x) + (x.abs() + 1).rsqrt(),
    "trigonometry": lambda x: x.sin() + x.cos() + x.tan() + x.atan() + x.sinh() + x.cosh() + x.asinh() + ndgrad.sinc(x),
    "activations": lambda x: (
        F.relu(x)
        + F.leaky_relu(x)
        + F.elu(x, 0.5)
        + F.selu(x)
        + F.celu(x, 0.7)
        + F.softplus(x, beta=2)
        + F.softsign(x)
        + F.hardtanh(x)
        + F.relu6(x)
        + F.hardsigmoid(x)
        + F.logsigmoid(x)
        + F.tanhshrink(x)
        + F.softshrink(x)
        + F.hardshrink(x)
        + F.threshold(x, 0.1, 2.0)
        + F.gelu(x)
        + ndgrad.erf(x)
    ),
    "rounding": lambda x: (
        (3 * x).floor() + x.ceil() + (5 * x).trunc() + (7 * x).frac() + (3.3 * x).round() + x.sign() + (x % 0.3) + ndgrad.fmod(x, 0.3)
    ),
    "choices": lambda x: (
        ndgrad.where(x > 0, x, -2.0) + x.clamp(-0.5, 0.5) + x.clamp(min=0) + ndgrad.maximum(x, x.flip(1)) + x.masked_fill(x < 0, 3.0)
    ),
    "comparisons": lambda x: ((x > 0) & (x < 1) | (x == x[:, :1]), (x != 0).logical_not(), x >= x.T.T, ndgrad.isfinite(x), x.isnan()),
    "reductions": lambda x: (
        x.sum(1),
        x.mean((0, 1), keepdim=True),
        x.amax(1),
        x.amin(0),
        x.prod(1),
        x.std(1),
        x.var(0, keepdim=True, correction=0),
        x.sum(),
        x.max(),
        x.logsumexp(1),
        x.norm(dim=1),
        ndgrad.linalg.vector_norm(x, 3),
        (x > 0).any(1),
        (x > 0).all(),
        ndgrad.var_mean(x, 1),
    ),
    "places": lambda x: (
        x.argmax(1),
        x.argmin(0, keepdim=True),
        x.max(1).values,
        x.min(1, keepdim=True).values,
        x.sort(1, descending=True),
        x.topk(2, 1),
        x.argsort(1),
    ),
    "scans": lambda x: (x.cumsum(1), x.double().cumsum(1)),
    "shapes": lambda x: (
        x.reshape(-1),
        x.T,
        x[None],
        x.unsqueeze(2).expand(-1, -1, 2),
        x.repeat(2, 3),
        x.view(x.shape[0], 3, 1).permute(2, 0, 1),
        x.flip(0),
        x.flatten(),
    ),
    "parts": lambda x: (
        x[1:],
        x[:, 0],
        x[:, -1],
        x[:, ::2],
        x[..., None, 1:],
        x[0, 1],
        x.split(2, 1),
        x.unbind(1),
        x.narrow(1, 1, 2),
        x[:, [0, 2]],
        x.index_select(1, ndgrad.tensor([2, 0])),
    ),
    "joins": lambda x: (ndgrad.cat([x, x * 2], 1), ndgrad.stack([x, x], 1), F.pad(x, (1, 2), value=3.0), ndgrad.cat([x, x])),
    "products": lambda x: (
        x @ x.T,
        ndgrad.einsum("bi,bj->bij", x, x),
        F.linear(x, x),
        ndgrad.addmm(x, x @ x.T, x, beta=2, alpha=0.5),
        x.triu(),
        (x @ x.T).tril(-1),
    ),
    "losses": lambda x: (
        F.mse_loss(x, x * 2),
        F.smooth_l1_loss(x, x * 2) if False else F.l1_loss(x, 2 * x),
        F.binary_cross_entropy_with_logits(x, x.sigmoid()),
    ),
    "attention": lambda x: F.scaled_dot_product_attention(*[x.reshape(-1, 3, 1) * k for k in (1, 2, 3)], is_causal=True),
    "casts": lambda x: (x.double() * 2, (x * 10).long() + 1, x.half().float(), (x > 0).float() * x, x.to(ndgrad.int32) * 2.5),
    "writes": lambda x: write_parts(x),
}


def write_parts(x):
    y = ndgrad.zeros_like(x)
    y += x
    y[:, 1] = 5.0
    return y.relu_()


@pytest.mark.parametrize("name", list(FUNCTIONS))
def test_functions_give_the_same(name):
    check(FUNCTIONS[name], draw(3, 3), batch=name not in ("writes",))


def test_several_inputs_outputs_and_open_sizes():
    def function(x, y, scale=1.0):
        return {"sum": (x @ y) * scale, "both": ndgrad.cat([x, x], 1)}

    x, y = draw(2, 3), draw(3, 4)
    program = ndgrad.onnx.export(
        function,
        (x, y),
        kwargs={"scale": 2.0},
        input_names=["x", "y"],
        output_names=["sum", "both"],
        dynamic_shapes=({0: "rows", 1: "inner"}, {0: "inner", 1: "columns"}),
    )
    graph = program.model_proto.graph
    assert [[d.dim_param for d in i.type.tensor_type.shape.dim] for i in graph.input] == [["rows", "inner"], ["inner", "columns"]]
    assert [d.dim_param for d in graph.output[0].type.tensor_type.shape.dim] == ["rows", "columns"]
    x, y = draw(5, 2), draw(2, 6)
    got = run(program, (x, y))
    np.testing.assert_allclose(got[0], 2 * (x @ y).numpy(), rtol=1e-6)
    assert got[1].shape == (5, 4)


def test_file_is_written_whole_and_runs(tmp_path):
    path, model = tmp_path / "m.onnx", nn.Linear(2, 1)
    program = ndgrad.onnx.export(model, draw(1, 2), path, verify=True)
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    assert [i.name for i in session.get_inputs()] == ["input_0"]
    buffer = io.BytesIO()
    ndgrad.onnx.export(model, (draw(1, 2),), buffer)
    assert buffer.getvalue() == path.read_bytes() == program.model_proto.SerializeToString()
    with pytest.raises(ndgrad.onnx.OnnxExporterError):
        ndgrad.onnx.export(lambda x: ndgrad.linalg.eigh(x @ x.T), draw(2, 2), path)
    assert buffer.getvalue() == path.read_bytes()
    assert os.listdir(tmp_path) == ["m.onnx"]


def test_training_mode_is_put_back():
    model = nn.Sequential(nn.Dropout(0.5), nn.Linear(2, 1), nn.BatchNorm1d(1))
    before = model[2].running_mean.clone()
    outcome = {True: lambda *_: None}  # any other is a KeyError
    model[0].register_forward_hook(lambda *_: outcome[ndgrad.onnx.is_in_onnx_export()]())
    ndgrad.onnx.export(model, draw(4, 2))
    assert model.training
    assert model[0].training
    assert model[2].running_mean.tolist() == before.tolist()
    assert not ndgrad.onnx.is_in_onnx_export()


def test_numpy_functions_are_exported_too():
    import ndgrad.numpy as dnp

    def function(x):
        return dnp.tanh(x).sum(axis=1) + x[:, 0] * 2

    x = dnp.asarray(np.random.default_rng(0).normal(size=(3, 2)))
    (got,) = run(ndgrad.onnx.export(function, (x,)), (x,))
    np.testing.assert_allclose(got, np.tanh(np.asarray(x)).sum(1) + 2 * np.asarray(x)[:, 0], rtol=1e-12)


@pytest.mark.parametrize(
    ("function", "axes", "match"),
    [
        (lambda x: ndgrad.linalg.eigh(x @ x.T), None, r"the op eigh.*not written"),
        (lambda x: x if x.sum() > 0 else -x, None, "depends on the values|cannot be traced"),
        (lambda x: x + ndgrad.rand(4), None, "random"),
        (lambda x: x.tolist(), None, "cannot be traced"),
        (lambda x: 3, None, "no tensor"),
        (lambda x: x.chunk(2)[0], {"x": {0: "n"}}, "does not leave the sizes .'n'. open"),
        (lambda x: x / x.shape[0], {"x": {0: "n"}}, None),
        (lambda x: x * x.shape[0] ** 0.5, {"x": {0: "n"}}, "does not leave"),
        (lambda x: x.sum(1) if x.shape[0] == 3 else x, {"x": {0: "n"}}, "other ops run"),
        (lambda x: x * ndgrad.arange(x.shape[0])[:, None], {"x": {0: "n"}}, "does not leave"),
        (lambda x: x, {"x": {5: "n"}}, "no dimension 5"),
        (lambda x: F.max_pool1d(x[None], 2, return_indices=True)[1], None, "places"),
        (lambda x: x[x > 0], None, "cannot be traced|not written"),
    ],
    ids=range(13),
)
def test_what_cannot_be_written_is_refused(function, axes, match):
    x = draw(3, 4)
    if match is None:
        (got,) = run(ndgrad.onnx.export(function, (x,), input_names=["x"], dynamic_axes=axes), (draw(5, 4),))
        np.testing.assert_allclose(got, draw(5, 4).numpy() / 5, rtol=1e-6)
        return
    with pytest.raises(ndgrad.onnx.OnnxExporterError, match=match):
        ndgrad.onnx.export(function, (x,), input_names=["x"], dynamic_axes=axes)


def test_wrong_options_are_refused():
    with pytest.raises(ndgrad.onnx.OnnxExporterError, match="opset_version is 7"):
        ndgrad.onnx.export(nn.ReLU(), draw(1), opset_version=7)
    with pytest.raises(ndgrad.onnx.OnnxExporterError, match="input_names"):
        ndgrad.onnx.export(nn.ReLU(), draw(1), input_names=["a", "b"])
    with pytest.raises(ndgrad.onnx.OnnxExporterError, match="not both"):
        ndgrad.onnx.export(nn.ReLU(), draw(1), input_names=["a"], dynamic_axes={"a": [0]}, dynamic_shapes=({0: "n"},))
