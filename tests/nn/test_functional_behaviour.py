"""nn.functional by itself: randomness, in-place flags, dtypes, memory, and argument forms that have no counterpart elsewhere."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import ndgrad
import ndgrad.nn.functional as F
from ndgrad.func import vmap

r = np.random.default_rng(33)


def normal(*shape, dtype=None):
    return ndgrad.tensor(r.standard_normal(shape).astype(dtype or np.float64))


# ----- dropout -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("p", [0.1, 0.5, 0.9])
def test_dropout_keeps_a_share_and_the_mean(p):
    x = ndgrad.ones(200, 200)
    out = F.dropout(x, p).numpy()
    assert set(np.unique(out)) == {0.0, 1 / (1 - p)}
    # five standard deviations of the mean of 40,000 independent elements
    assert abs(out.mean() - 1) < 5 * np.sqrt(p / (1 - p) / out.size)


def test_dropout_passes_gradients_where_it_passed_values():
    x = normal(50, 50).requires_grad_()
    out = F.dropout(x, 0.3)
    out.sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), np.where(out.detach().numpy() != 0, 1 / 0.7, 0.0))


def test_dropout_saves_one_byte_an_element():
    x = normal(10, 10).requires_grad_()
    assert saved_bytes(lambda: F.dropout(x, 0.3)) == 100


@pytest.mark.parametrize(
    ("function", "shape", "kept"),
    [
        (F.dropout1d, (8, 6, 5), 2), (F.dropout1d, (30, 5), 1), (F.dropout2d, (8, 6, 4, 5), 2),
        (F.dropout3d, (8, 6, 2, 3, 2), 2), (F.dropout3d, (30, 2, 3, 2), 1),
    ],
)  # fmt: skip
def test_channel_dropout_drops_whole_channels(function, shape, kept):
    out = function(ndgrad.ones(*shape), 0.5).numpy().reshape(*shape[:kept], -1)
    assert (out == out[..., :1]).all()
    assert 0 < (out[..., 0] == 0).mean() < 1


def test_dropout_in_place_writes_the_input():
    x = normal(20, 20)
    y = F.dropout(x, 0.5, inplace=True)
    assert y is x
    assert (x.numpy() == 0).any()


def test_alpha_dropout_keeps_mean_and_variance_of_selu():
    x = normal(400, 400)
    for out in (F.alpha_dropout(x, 0.3, training=True).numpy(), F.feature_alpha_dropout(normal(400, 400, 1), 0.3, training=True).numpy()):
        assert abs(out.mean()) < 0.02
        assert abs(out.var() - 1) < 0.03


def test_vmap_of_dropout_follows_randomness():
    x = ndgrad.ones(3, 40)
    with pytest.raises(RuntimeError, match="randomness"):
        vmap(lambda row: F.dropout(row, 0.5))(x)
    same = vmap(lambda row: F.dropout(row, 0.5), randomness="same")(x).numpy()
    different = vmap(lambda row: F.dropout(row, 0.5), randomness="different")(x).numpy()
    assert (same == same[0]).all()
    assert not (different == different[0]).all()


def test_manual_seed_repeats_dropout():
    ndgrad.manual_seed(5)
    first = F.dropout(ndgrad.ones(30), 0.5).numpy()
    ndgrad.manual_seed(5)
    np.testing.assert_array_equal(F.dropout(ndgrad.ones(30), 0.5).numpy(), first)


def test_rrelu_draws_slopes_between_its_bounds():
    x = ndgrad.tensor(-np.ones(2000))
    slopes = -F.rrelu(x, 0.1, 0.4, training=True).numpy()
    assert 0.1 <= slopes.min() < 0.12
    assert 0.38 < slopes.max() <= 0.4


def test_gumbel_softmax_hard_is_one_hot_with_soft_gradients():
    logits = normal(50, 6).requires_grad_()
    out = F.gumbel_softmax(logits, tau=0.5, hard=True)
    np.testing.assert_allclose(np.sort(out.detach().numpy(), axis=1)[:, :-1], 0, atol=1e-12)
    (out * normal(50, 6)).sum().backward()
    assert (logits.grad.numpy() != 0).all()


def test_gumbel_softmax_samples_with_the_probabilities_of_softmax():
    logits = ndgrad.tensor(np.log([0.1, 0.2, 0.7])).expand(20000, 3)
    share = F.gumbel_softmax(logits, hard=True).numpy().mean(axis=0)
    np.testing.assert_allclose(share, [0.1, 0.2, 0.7], atol=0.02)


def test_attention_with_dropout_has_the_mean_of_attention_without():
    q, k, v = normal(2, 3, 4), normal(2, 50, 4), normal(2, 50, 2)
    mean = np.mean([F.scaled_dot_product_attention(q, k, v, dropout_p=0.2).numpy() for _ in range(400)], axis=0)
    np.testing.assert_allclose(mean, F.scaled_dot_product_attention(q, k, v).numpy(), atol=0.05)


# ----- in place ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "function", [F.relu, F.relu6, F.elu, F.selu, F.celu, F.leaky_relu, F.hardtanh, F.hardsigmoid, F.hardswish, F.silu, F.mish]
)
def test_inplace_flag_writes_the_input_and_keeps_the_gradient(function):
    array = r.standard_normal((4, 5))
    grads = []
    for inplace in (False, True):
        leaf = ndgrad.tensor(array, requires_grad=True)
        x = leaf * 2.0
        out = function(x, inplace=inplace)
        assert (out is x) == inplace
        out.sum().backward()
        grads.append((out.detach().numpy(), leaf.grad.numpy()))
    np.testing.assert_allclose(grads[1][0], grads[0][0])
    np.testing.assert_allclose(grads[1][1], grads[0][1])


# ----- dtypes ----------------------------------------------------------------------------------------------------------------

SINGLE = {
    "linear": lambda t: F.linear(t(4, 3), t(5, 3), t(5)),
    "layer_norm": lambda t: F.layer_norm(t(4, 5), (5,), t(5), t(5)),
    "batch_norm": lambda t: F.batch_norm(t(4, 5, 3), None, None, t(5), t(5), True),
    "batch_norm in use": lambda t: F.batch_norm(t(4, 5, 3), t(5), t(5).abs(), t(5)),
    "group_norm": lambda t: F.group_norm(t(2, 4, 3), 2, t(4)),
    "rms_norm": lambda t: F.rms_norm(t(4, 5), (5,)),
    "conv2d": lambda t: F.conv2d(t(1, 2, 4, 4), t(3, 2, 3, 3), t(3)),
    "conv_transpose2d": lambda t: F.conv_transpose2d(t(1, 2, 4, 4), t(2, 3, 3, 3), t(3), 2),
    "max_pool2d": lambda t: F.max_pool2d(t(1, 2, 4, 4), 2),
    "avg_pool2d": lambda t: F.avg_pool2d(t(1, 2, 4, 4), 2, padding=1),
    "adaptive_avg_pool2d": lambda t: F.adaptive_avg_pool2d(t(1, 2, 4, 4), 3),
    "interpolate": lambda t: F.interpolate(t(1, 2, 4, 4), 7, mode="bicubic"),
    "grid_sample": lambda t: F.grid_sample(t(1, 2, 4, 4), t(1, 3, 3, 2), align_corners=True),
    "pad": lambda t: F.pad(t(1, 2, 4), (1, 2), mode="reflect"),
    "constant pad": lambda t: F.pad(t(1, 2, 4), (1, 2), value=1.5),
    "unfold": lambda t: F.unfold(t(1, 2, 4, 4), 2),
    "softmax": lambda t: F.softmax(t(3, 4), dim=1),
    "cross_entropy": lambda t: F.cross_entropy(t(3, 4), ndgrad.tensor([0, 1, 3])),
    "cross_entropy with weights": lambda t: F.cross_entropy(t(3, 4), ndgrad.tensor([0, -100, 3]), t(4).abs(), label_smoothing=0.1),
    "binary_cross_entropy": lambda t: F.binary_cross_entropy(F.sigmoid(t(3, 4)), F.sigmoid(t(3, 4))),
    "binary_cross_entropy_with_logits": lambda t: F.binary_cross_entropy_with_logits(t(3, 4), F.sigmoid(t(3, 4)), pos_weight=t(4)),
    "mse_loss": lambda t: F.mse_loss(t(3, 4), t(3, 4)),
    "smooth_l1_loss": lambda t: F.smooth_l1_loss(t(3, 4), t(3, 4), beta=0.3),
    "huber_loss": lambda t: F.huber_loss(t(3, 4), t(3, 4), delta=0.3),
    "gaussian_nll_loss": lambda t: F.gaussian_nll_loss(t(3, 4), t(3, 4), t(3, 4).abs(), full=True),
    "kl_div": lambda t: F.kl_div(t(3, 4), F.softmax(t(3, 4), 1), reduction="sum"),
    "cosine_similarity": lambda t: F.cosine_similarity(t(3, 4), t(3, 4)),
    "cosine_embedding_loss": lambda t: F.cosine_embedding_loss(t(3, 4), t(3, 4), ndgrad.tensor([1, -1, 1])),
    "hinge_embedding_loss": lambda t: F.hinge_embedding_loss(t(3, 4), ndgrad.ones(3, 4, dtype=ndgrad.int64)),
    "normalize": lambda t: F.normalize(t(3, 4)),
    "pairwise_distance": lambda t: F.pairwise_distance(t(3, 4), t(3, 4)),
    "dropout": lambda t: F.dropout(t(3, 4), 0.3),
    "alpha_dropout": lambda t: F.alpha_dropout(t(3, 4), 0.3, True),
    "gumbel_softmax": lambda t: F.gumbel_softmax(t(3, 4), 0.3, hard=True),
    "embedding_bag": lambda t: F.embedding_bag(ndgrad.tensor([[0, 1], [1, 1]]), t(3, 4), padding_idx=0),
    "attention": lambda t: F.scaled_dot_product_attention(t(2, 3, 4), t(2, 5, 4), t(2, 5, 4), ndgrad.tensor(np.eye(3, 5) == 0)),
    "attention that looks back": lambda t: F.scaled_dot_product_attention(t(2, 3, 4), t(2, 5, 4), t(2, 5, 4), is_causal=True),
    "local_response_norm": lambda t: F.local_response_norm(t(2, 3, 4), 2),
    "bilinear": lambda t: F.bilinear(t(3, 2), t(3, 4), t(5, 2, 4), t(5)),
    "gelu": lambda t: F.gelu(t(3, 4)),
    "glu": lambda t: F.glu(t(3, 4)),
    "prelu": lambda t: F.prelu(t(3, 4), t(4)),
    "lp_pool1d": lambda t: F.lp_pool1d(t(1, 2, 5).abs(), 2.0, 2),
    "poisson_nll_loss": lambda t: F.poisson_nll_loss(t(3, 4), t(3, 4).abs(), full=True),
    "multilabel_margin_loss": lambda t: F.multilabel_margin_loss(t(2, 3), ndgrad.tensor([[0, -1, 1], [2, 1, -1]])),
    "multi_margin_loss": lambda t: F.multi_margin_loss(t(2, 3), ndgrad.tensor([0, 2]), p=2, weight=t(3)),
    "triplet_margin_loss": lambda t: F.triplet_margin_loss(t(2, 3), t(2, 3), t(2, 3), swap=True),
}  # fmt: skip


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
@pytest.mark.parametrize("name", SINGLE)
def test_results_and_gradients_keep_the_dtype(name, dtype):
    made = []

    def t(*shape):
        made.append(normal(*shape, dtype=dtype).requires_grad_())
        return made[-1]

    out = SINGLE[name](t)
    assert out.dtype == dtype
    out.sum().backward()
    for leaf in made:
        assert leaf.grad is None or leaf.grad.dtype == dtype


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_sums_in_half_precision_do_not_overflow(dtype):
    x = ndgrad.tensor(np.full((2, 3, 40, 40), 200.0).astype(dtype) + r.standard_normal((2, 3, 40, 40)).astype(dtype))
    for out in (
        F.batch_norm(x, None, None, training=True),
        F.group_norm(x, 1),
        F.layer_norm(x, (40, 40)),
        F.instance_norm(x),
        F.rms_norm(x, (40, 40)),
    ):
        assert np.isfinite(out.numpy()).all()
        assert 0.3 < np.square(out.numpy().astype(float)).mean() < 1.1


# ----- what is kept for backward -------------------------------------------------------------------------------------------


def saved_bytes(call):
    """The memory of all that a call saves for backward."""
    sizes = []

    def pack(t):
        sizes.append(t.nbytes)
        return t

    with ndgrad.autograd.graph.saved_tensors_hooks(pack, lambda t: t):
        call()
    return sum(sizes)


def test_attention_keeps_nothing_the_size_of_its_weights():
    q, k, v = (normal(4, 64, 8).requires_grad_() for _ in range(3))
    assert saved_bytes(lambda: F.scaled_dot_product_attention(q, k, v)) == 3 * q.nbytes


def test_cross_entropy_keeps_its_input_and_no_softmax():
    x = normal(64, 100).requires_grad_()
    target = ndgrad.tensor(r.integers(0, 100, 64))
    assert saved_bytes(lambda: F.cross_entropy(x, target)) <= x.nbytes + 2 * 64 * 8


def test_layer_norm_keeps_its_input_and_weight():
    x, w = normal(64, 100).requires_grad_(), normal(100).requires_grad_()
    assert saved_bytes(lambda: F.layer_norm(x, (100,), w)) == x.nbytes + w.nbytes


# ----- blocks: large inputs take other paths than small ones -----------------------------------------------------------------


def test_attention_in_blocks_equals_the_formula():
    q, k, v = (normal(3, n, 8) for n in (300, 700, 700))
    for causal in (False, True):
        args = [ndgrad.tensor(t.numpy(), requires_grad=True) for t in (q, k, v)]
        out = F.scaled_dot_product_attention(*args, is_causal=causal)
        z = q.numpy() @ k.numpy().swapaxes(1, 2) / np.sqrt(8)
        z = np.where(np.tri(300, 700) == 1, z, -np.inf) if causal else z
        p = np.exp(z - z.max(-1, keepdims=True))
        p /= p.sum(-1, keepdims=True)
        np.testing.assert_allclose(out.detach().numpy(), p @ v.numpy(), rtol=1e-10)
        g = r.standard_normal(out.shape)
        out.backward(ndgrad.tensor(g))
        h = g @ v.numpy().swapaxes(1, 2)
        h = p * (h - (p * h).sum(-1, keepdims=True)) / np.sqrt(8)
        np.testing.assert_allclose(args[0].grad.numpy(), h @ k.numpy(), rtol=1e-8, atol=1e-12)
        np.testing.assert_allclose(args[1].grad.numpy(), h.swapaxes(1, 2) @ q.numpy(), rtol=1e-8, atol=1e-12)
        np.testing.assert_allclose(args[2].grad.numpy(), p.swapaxes(1, 2) @ g, rtol=1e-8, atol=1e-12)


def test_layer_norm_in_blocks_equals_that_of_its_rows():
    x, w, b = normal(600, 1000).requires_grad_(), normal(1000).requires_grad_(), normal(1000).requires_grad_()
    g = normal(600, 1000)
    out = F.layer_norm(x, (1000,), w, b)
    out.backward(g)
    parts, grads = [], []
    for rows in (slice(0, 100), slice(100, 600)):
        part = ndgrad.tensor(x.detach().numpy()[rows], requires_grad=True)
        again, bias = w.detach().clone().requires_grad_(), b.detach().clone().requires_grad_()
        F.layer_norm(part, (1000,), again, bias).backward(g[rows])
        parts.append(part.grad.numpy())
        grads.append((again.grad.numpy(), bias.grad.numpy()))
    np.testing.assert_allclose(x.grad.numpy(), np.concatenate(parts), rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(w.grad.numpy(), grads[0][0] + grads[1][0], rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(b.grad.numpy(), grads[0][1] + grads[1][1], rtol=1e-9, atol=1e-12)


# ----- exactness -------------------------------------------------------------------------------------------------------------


def test_an_infinity_stays_in_the_outputs_that_read_it():
    x = np.zeros((1, 1, 9))
    x[0, 0, 4] = np.inf
    out = F.interpolate(ndgrad.tensor(x), 18, mode="nearest").numpy()[0, 0]
    assert np.isinf(out).sum() == 2
    assert not np.isnan(out).any()
    assert not np.isnan(F.pad(ndgrad.tensor(x), (3, 3), mode="reflect").numpy()).any()


def test_masked_keys_do_not_matter():
    q, k, v = normal(3, 4), normal(5, 4), normal(5, 2)
    mask = np.array([True, True, False, True, False])
    full = F.scaled_dot_product_attention(q, k, v, ndgrad.tensor(mask).expand(3, 5))
    less = F.scaled_dot_product_attention(q, k[mask], v[mask])
    np.testing.assert_allclose(full.numpy(), less.numpy(), rtol=1e-12)


# ----- warnings and arguments --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda x: F.softmax(x), "Implicit dimension choice"),
        (lambda x: F.mse_loss(x, x[0]), "different to the input size"),
        (lambda x: F.mse_loss(x, x, size_average=True), "reduction='mean'"),
        (lambda x: F.kl_div(x, x.abs()), "batchmean"),
        (lambda x: F.dropout2d(x[None]), "read as \\(N, C, L\\)"),
        (lambda x: F.upsample(x[None], scale_factor=2), "interpolate"),
        (lambda x: F.grid_sample(x[None, None], ndgrad.zeros(1, 1, 1, 2)), "align_corners"),
    ],
)
def test_warns_where_torch_does(call, message):
    with pytest.warns(UserWarning, match=message):
        call(normal(3, 4))


def test_numpy_names_of_dim_are_understood():
    x = normal(3, 4)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        np.testing.assert_array_equal(F.softmax(x, axis=0).numpy(), F.softmax(x, dim=0).numpy())
        np.testing.assert_array_equal(F.normalize(x, axis=0).numpy(), F.normalize(x, dim=0).numpy())


def test_errors_leave_running_statistics_alone():
    mean, var = ndgrad.zeros(3), ndgrad.ones(3)
    with pytest.raises(ValueError, match="more than 1 value"):
        F.batch_norm(normal(1, 3), mean, var, training=True)
    with pytest.raises(RuntimeError, match="weight should contain 3 elements"):
        F.batch_norm(normal(4, 3), mean, var, normal(2), training=True)
    np.testing.assert_array_equal(mean.numpy(), 0)
    np.testing.assert_array_equal(var.numpy(), 1)


def on_meta(*shape):
    return ndgrad.empty(*shape, device="meta")


@pytest.mark.parametrize(
    "call",
    [
        lambda t: F.linear(t(4, 3), t(5, 3), t(5)),
        lambda t: F.conv2d(t(1, 2, 8, 7), t(3, 2, 3, 3), t(3), stride=2, padding=1),
        lambda t: F.conv_transpose2d(t(1, 2, 8, 7), t(2, 3, 3, 3), stride=2, output_padding=1),
        lambda t: F.max_pool2d(t(1, 2, 8, 7), 2, ceil_mode=True, return_indices=True)[1],
        lambda t: F.avg_pool2d(t(1, 2, 8, 7), 3, 2, 1),
        lambda t: F.adaptive_avg_pool2d(t(1, 2, 8, 7), (3, None)),
        lambda t: F.adaptive_max_pool2d(t(1, 2, 8, 7), 3),
        lambda t: F.layer_norm(t(4, 5), (5,), t(5), t(5)),
        lambda t: F.batch_norm(t(4, 5, 3), None, None, t(5), t(5), True),
        lambda t: F.scaled_dot_product_attention(t(2, 3, 4), t(2, 5, 4), t(2, 5, 6)),
        lambda t: F.interpolate(t(1, 2, 4, 4), 7, mode="bilinear"),
        lambda t: F.pad(t(1, 2, 4), (1, 2)),
        lambda t: F.pad(t(1, 2, 4), (1, 2), mode="reflect"),
        lambda t: F.fold(F.unfold(t(1, 2, 4, 4), 2), (4, 4), 2),
        lambda t: F.dropout(t(3, 4)),
    ],
)
def test_shapes_without_data(call):
    out = call(on_meta)
    assert out.device.type == "meta"
    assert out.shape == call(ndgrad.zeros).shape


def test_max_norm_shortens_the_rows_in_use():
    weight = ndgrad.tensor(np.diag([1.0, 5.0, 9.0]))
    out = F.embedding(ndgrad.tensor([1, 1, 0]), weight, max_norm=2.0)
    np.testing.assert_allclose(np.linalg.norm(out.numpy(), axis=1), [2, 2, 1], rtol=1e-6)
    np.testing.assert_allclose(np.linalg.norm(weight.numpy(), axis=1), [1, 2, 9], rtol=1e-6)


def test_scale_grad_by_freq_averages_over_uses_in_bags_too():
    weight = normal(3, 2).requires_grad_()
    F.embedding_bag(ndgrad.tensor([[0, 0], [0, 1]]), weight, mode="sum", scale_grad_by_freq=True).sum().backward()
    np.testing.assert_allclose(weight.grad.numpy(), [[1, 1], [1, 1], [0, 0]])


def test_convolution_by_single_taps_equals_the_blocked_one():
    """Array libraries without kernels of ours take one product per tap."""
    from types import SimpleNamespace

    from ndgrad._src.ops import convolution as ops

    other = SimpleNamespace(
        **{name: getattr(np, name) for name in ("pad", "einsum", "zeros", "empty", "result_type", "ascontiguousarray")}, __name__="other"
    )
    x, w, b = r.standard_normal((2, 4, 6, 5)), r.standard_normal((6, 2, 3, 2)), r.standard_normal(6)
    how = {"stride": (2, 1), "padding": (1, 0), "dilation": (1, 2), "groups": 2}
    y = ops._convolution(np, x, w, b, **how)
    np.testing.assert_allclose(ops._convolution(other, x, w, b, **how), y)
    for function, args, more in (
        (ops._convolution_input, (y, w), {"x_shape": x.shape}),
        (ops._convolution_weight, (y, x), {"w_shape": w.shape}),
    ):
        np.testing.assert_allclose(function(other, *args, **more, **how), function(np, *args, **more, **how))


@pytest.mark.parametrize("antialias", [False, True])
@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
def test_interpolate_rounds_bytes_after_each_dimension(mode, antialias):
    image = np.random.default_rng(0).integers(0, 256, (1, 2, 9, 11), dtype=np.uint8)

    def resize(x, size):
        exact = F.interpolate(ndgrad.tensor(x.astype(np.float64)), size=size, mode=mode, antialias=antialias).numpy()
        return np.clip(np.floor(exact + 0.5), 0, 255)

    found = F.interpolate(ndgrad.tensor(image), size=(5, 20), mode=mode, antialias=antialias)
    assert found.dtype == ndgrad.uint8
    assert np.abs(found.numpy() - resize(resize(image, (9, 20)), (5, 20))).max() <= 1  # float32 near a half


def test_tensor_split_takes_the_names_of_torchs_overloads():
    x = ndgrad.arange(5)
    for given in ({"indices": (1, 3)}, {"tensor_indices_or_sections": ndgrad.tensor([1, 3])}, {"indices_or_sections": [1, 3]}):
        assert [part.tolist() for part in ndgrad.tensor_split(x, **given)] == [[0], [1, 2], [3, 4]]
    assert [part.tolist() for part in x.tensor_split(sections=2)] == [[0, 1, 2], [3, 4]]


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
def test_ragged_bags_compile_for_any_offsets(mode: str) -> None:
    """Bags of other lengths use the same program. A loop over the bags is the reference."""
    table = ndgrad.tensor([[1.0, -2.0], [3.0, 3.0], [-5.0, 0.5], [3.0, 1.0]]).requires_grad_()
    entries = ndgrad.tensor([1, 3, 0, 2, 1, 1])
    reduce = {"sum": lambda r: r.sum(0), "mean": lambda r: r.mean(0), "max": lambda r: r.max(0)[0]}[mode]
    compiled = ndgrad.compile(lambda t, offsets: F.embedding_bag(entries, t, offsets, mode=mode), fullgraph=True)
    for starts in ([0, 2, 3], [0, 0, 5], [0, 4, 6]):
        bags = [table[entries[a:b]] for a, b in zip(starts, [*starts[1:], 6], strict=True)]
        expected = ndgrad.stack([reduce(bag) if len(bag) else ndgrad.zeros(2) for bag in bags])
        found = compiled(table, ndgrad.tensor(starts))
        np.testing.assert_allclose(found.detach().numpy(), expected.detach().numpy(), rtol=1e-6)
        weights = ndgrad.arange(6.0).reshape(3, 2)
        for a, b in zip(*[ndgrad.autograd.grad((r * weights).sum(), table) for r in (found, expected)], strict=True):
            np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-6)
    assert compiled.traces == 1
    with pytest.raises(RuntimeError, match="they run from 1 to 4"):
        ndgrad.compile(lambda o: F.embedding_bag(entries, table, o))(ndgrad.tensor([1, 4]))
