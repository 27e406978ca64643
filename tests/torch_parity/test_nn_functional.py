"""nn.functional: the same program through torch and through ndgrad gives the same values, gradients and errors."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import ndgrad
import ndgrad.nn.functional
from tests.torch_parity.differences import deliberate

pytestmark = [pytest.mark.usefixtures("float64_torch"), pytest.mark.filterwarnings("ignore")]

r = np.random.default_rng(7)


def real(*shape):
    return r.standard_normal(shape)


# Arguments of the programs. a b c d e: one to five dimensions; w.. weights; i.. integers; p probabilities; n a number.
ARRAYS = {
    "n": real(), "v": real(4), "a": real(6), "b": real(5, 6), "c": real(2, 4, 6), "d": real(2, 4, 6, 5), "e": real(1, 2, 4, 5, 3),
    "b2": real(5, 6), "c2": real(2, 4, 6), "d2": real(2, 4, 6, 5), "u": real(6), "m": real(4, 6), "k": real(3, 5, 4), "s": real(3, 7, 4),
    "z": real(3, 7, 2),
    "w1": real(3, 4, 2), "w2": real(4, 2, 3, 2), "w3": real(3, 2, 2, 3, 2), "q": real(2, 4, 3, 5), "j": real(2, 2, 7, 5),
    "f": real(3, 2, 3), "g": real(2, 5, 4, 2),
    "p": r.uniform(0.05, 0.95, (5, 6)), "p2": r.uniform(0, 1, (5, 6)), "pp": r.dirichlet(np.ones(6), 5), "pos": r.uniform(0.5, 2, (5, 6)),
}  # fmt: skip
CONSTANTS = {
    "i": r.integers(0, 6, 5), "ic": r.integers(0, 4, (2, 6)), "id": r.integers(0, 4, (2, 6, 5)), "ig": np.array([0, -100, 3, 5, -100]),
    "i0": np.array(2),
    "sg": np.where(real(5) > 0, 1.0, -1.0), "sgb": np.where(real(5, 6) > 0, 1.0, -1.0),
    "ml": np.array([[0, 3, -1, 2, 1, 4], [5, 1, 2, -1, 0, 0], [-1, 0, 1, 2, 3, 4], [2, -1, -1, -1, -1, -1], [0, 1, 2, 3, 4, 5]]),
    "mask": r.uniform(size=(5, 7)) < 0.7, "dead": np.array([[True] * 7, [False] * 7] * 2 + [[True, False] * 3 + [True]]),
    "counts": r.integers(0, 4, (5, 6)).astype(float), "offsets": np.array([0, 2, 2, 4]), "bag": r.integers(0, 5, 5),
    "bags": r.integers(0, 5, (3, 4)),
}  # fmt: skip

ACTIVATIONS = [
    "F.relu(b)", "F.relu6(b * 5)", "F.elu(b, 0.7)", "F.selu(b)", "F.celu(b, 0.7)", "F.leaky_relu(b, 0.2)", "F.prelu(c, v)",
    "F.prelu(c, v[:1])", "F.prelu(b, u)", "F.rrelu(b)", "F.threshold(b, 0.1, 3.0)",
    "F.hardtanh(b, -0.5, 0.3)", "F.hardsigmoid(b * 3)", "F.hardswish(b * 3)", "F.hardshrink(b)", "F.softshrink(b, 0.3)",
    "F.tanhshrink(b)", "F.sigmoid(b)", "F.logsigmoid(b * 10)", "F.tanh(b)", "F.softplus(b, 2.0, 1.0)", "F.softsign(b)", "F.silu(b)",
    "F.mish(b)", "F.gelu(b)",
    "F.gelu(b, approximate='tanh')", "F.glu(b)", "F.glu(c, 1)", "F.glu(c, dim=-2)", "F.relu(b * 1, inplace=True)",
    "F.elu(b * 1, 0.5, True)", "F.leaky_relu_(b * 1)", "F.hardtanh_(b * 1)", "F.threshold_(b * 1, 0.0, 1.0)", "F.celu_(b * 1)",
    "F.selu_(b * 1)", "F.silu(b * 1, inplace=True)", "F.mish(b * 1, inplace=True)",
    "F.softmax(b, dim=1)", "F.softmax(c, dim=-2)", "F.log_softmax(b, 0)", "F.softmin(b, dim=1)", "F.softmax(b)", "F.log_softmax(c)",
    "F.softmax(n, 0)", "F.softmax(b, 1, dtype=t.float64)", "F.relu(t.zeros(3) * b[:3, 0])", "F.prelu(b * 0, u)", "F.logsigmoid(a * 0)",
    "F.hardtanh(a * 0 + 1.0)", "F.relu6(a * 0)",
]  # fmt: skip
CLASSIFICATION = [
    "F.cross_entropy(b, i)", "F.cross_entropy(b, i, reduction='sum')", "F.cross_entropy(b, i, reduction='none')",
    "F.cross_entropy(b, ig)", "F.cross_entropy(b, ig, reduction='none')", "F.cross_entropy(b, ig, reduction='sum')",
    "F.cross_entropy(b, i, u.detach().abs())",
    "F.cross_entropy(b, ig, weight=u.detach().abs(), reduction='mean')", "F.cross_entropy(b, i, ignore_index=3)",
    "F.cross_entropy(b, ig, label_smoothing=0.2)", "F.cross_entropy(b, ig, u.detach().abs(), label_smoothing=0.2)",
    "F.cross_entropy(b, i, u.detach().abs(), label_smoothing=0.2, reduction='none')", "F.cross_entropy(b, i, label_smoothing=1.0)",
    "F.cross_entropy(c, ic)", "F.cross_entropy(d, id, v.detach().abs())", "F.cross_entropy(c, ic, label_smoothing=0.3, reduction='none')",
    "F.cross_entropy(a, i0)", "F.cross_entropy(b, pp)", "F.cross_entropy(b, pp, u, reduction='none')",
    "F.cross_entropy(b, pp, u, label_smoothing=0.1)", "F.cross_entropy(c, c2.softmax(1))",
    "F.cross_entropy(c, c2.softmax(1), reduction='sum')", "F.cross_entropy(a, u.softmax(0))",
    "F.cross_entropy(b * 1000, i)", "F.cross_entropy(b, t.full_like(ig, -100), reduction='sum')",
    "F.cross_entropy(b, t.full_like(ig, -100))", "F.cross_entropy(b[:0], i[:0], reduction='sum')",
    "F.nll_loss(b, i)", "F.nll_loss(b, ig, u.detach())", "F.nll_loss(c, ic, reduction='none')",
    "F.nll_loss(d, id, v.detach(), reduction='sum')", "F.nll_loss(a, i0)", "F.binary_cross_entropy(p, p2)",
    "F.binary_cross_entropy(p, p2, u.detach())", "F.binary_cross_entropy(p, p2, reduction='none')",
    "F.binary_cross_entropy(p.round().detach() + p * 0, p2.detach())",
    "F.binary_cross_entropy_with_logits(b, p2)", "F.binary_cross_entropy_with_logits(b * 100, p2, u.detach(), reduction='sum')",
    "F.binary_cross_entropy_with_logits(b, p2, pos_weight=u.detach().abs())", "F.binary_cross_entropy_with_logits(b * 0, p2)",
    "F.soft_margin_loss(b, sgb)", "F.multilabel_soft_margin_loss(b, p2)", "F.multilabel_soft_margin_loss(b, p2, u, reduction='none')",
    "F.multi_margin_loss(b, i)", "F.multi_margin_loss(b, i, p=2, margin=0.5, weight=u.detach().abs(), reduction='none')",
    "F.multi_margin_loss(a, i0)", "F.multilabel_margin_loss(b, ml)", "F.multilabel_margin_loss(b[0], ml[0], reduction='none')",
    "F.multilabel_margin_loss(b, ml, reduction='none')", "F.kl_div(b, p2)", "F.kl_div(b, p2, reduction='batchmean')",
    "F.kl_div(b, b2, log_target=True, reduction='sum')", "F.kl_div(b, p2.round().detach(), reduction='none')",
]  # fmt: skip
REGRESSION = [
    "F.mse_loss(b, b2)", "F.mse_loss(b, b2, reduction='sum')", "F.mse_loss(b, b2, reduction='none')", "F.mse_loss(b, u)",
    "F.mse_loss(b, b2, weight=pos)", "F.mse_loss(b, b2, size_average=False)", "F.mse_loss(b, b2, reduce=False)", "F.l1_loss(b, b2)",
    "F.l1_loss(b, b2, weight=pos)", "F.l1_loss(b, b)", "F.smooth_l1_loss(b, b2)", "F.smooth_l1_loss(b, b2, beta=0.3, reduction='sum')",
    "F.smooth_l1_loss(b, b2, beta=0)",
    "F.smooth_l1_loss(b * 0, b2 * 0 + 1)", "F.huber_loss(b, b2, delta=0.4)", "F.huber_loss(b, b2, weight=pos)",
    "F.poisson_nll_loss(b, counts)", "F.poisson_nll_loss(pos, counts, log_input=False, full=True)",
    "F.poisson_nll_loss(b, counts, full=True, reduction='none')", "F.gaussian_nll_loss(b, b2, pos)",
    "F.gaussian_nll_loss(b, b2, pos[:, :1], full=True)", "F.gaussian_nll_loss(b, b2, pos[:, 0], reduction='sum')",
    "F.gaussian_nll_loss(b, b2, pos, eps=1.0)", "F.gaussian_nll_loss(b, b2, 2.0)",
]  # fmt: skip
DISTANCES = [
    "F.cosine_similarity(b, b2)", "F.cosine_similarity(b, u, dim=-1)", "F.cosine_similarity(c, c2, dim=0)",
    "F.cosine_similarity(a, u, 0)", "F.cosine_similarity(b * 0, b2)", "F.cosine_similarity(b * 1e-6, b2, eps=1.0)",
    "F.pairwise_distance(b, b2)", "F.pairwise_distance(b, b2, p=1.0, keepdim=True)", "F.pairwise_distance(b, u, p=3.0)",
    "F.pairwise_distance(a, u)", "F.pairwise_distance(b, b, eps=0.0)", "F.pairwise_distance(b, b2, p=float('inf'))",
    "F.pdist(b)", "F.normalize(b)", "F.normalize(c, p=1.0, dim=-1)", "F.normalize(b, dim=0, eps=2.0)", "F.normalize(b * 0)",
    "F.normalize(c, dim=(1, 2))", "F.cosine_embedding_loss(b, b2, sg)",
    "F.cosine_embedding_loss(b, b2, sg, margin=0.2, reduction='none')", "F.cosine_embedding_loss(a, u, sg[0])",
    "F.margin_ranking_loss(b, b2, sgb, 0.1)", "F.margin_ranking_loss(b, b2, sgb, reduction='none')",
    "F.margin_ranking_loss(b * 0, b2 * 0, sgb)",
    "F.hinge_embedding_loss(b, sgb)", "F.hinge_embedding_loss(b, sgb, margin=0.3, reduction='sum')", "F.triplet_margin_loss(b, b2, p)",
    "F.triplet_margin_loss(b, b2, p, margin=0.5, p=1, swap=True, reduction='none')", "F.triplet_margin_with_distance_loss(b, b2, p)",
    "F.triplet_margin_with_distance_loss(b, b2, p, distance_function=lambda x, y: (x - y).abs().sum(-1), swap=True)",
]  # fmt: skip
LINEAR = [
    "F.linear(b, m)", "F.linear(b, m, v)", "F.linear(c, m, v)", "F.linear(a, m, v)", "F.linear(b, u)", "F.linear(b, m, n)",
    "F.linear(b[:0], m, v)", "F.bilinear(a[:2], u[:3], f)", "F.bilinear(b[:, :2], b2[:, :3], f, v[:3])",
    "F.bilinear(c[..., :2], c2[..., :3], f)",
    "F.embedding(i, b2.T)", "F.embedding(ic, b)", "F.embedding(ic, b, padding_idx=1)",
    "F.embedding(ic, b, padding_idx=-2, scale_grad_by_freq=True)", "F.embedding(i0, b)", "F.embedding_bag(bags, b)",
    "F.embedding_bag(b, bag, offsets)",
    "F.embedding_bag(bags, b, mode='sum')", "F.embedding_bag(bags, b, mode='max')",
    "F.embedding_bag(bags, b, mode='mean', padding_idx=2)", "F.embedding_bag(bag, b, offsets)",
    "F.embedding_bag(bag, b, offsets, mode='sum')",
    "F.embedding_bag(bag, b, offsets, mode='max')", "F.embedding_bag(bag, b, offsets, mode='sum', per_sample_weights=a[:5])",
    "F.embedding_bag(bag, b, offsets, include_last_offset=True)",
    "F.embedding_bag(bag, b, offsets, mode='mean', padding_idx=int(bag[2]))",
    "F.embedding_bag(bag, b, offsets, mode='max', padding_idx=int(bag[0]))",
    "F.embedding_bag(bags, b, mode='sum', per_sample_weights=b2[:3, :4])",
    "F.one_hot(i)", "F.one_hot(ic, 7)", "F.one_hot(i0)", "F.embedding(i[i < 5], (b.detach() * 10), max_norm=1.0)",
]  # fmt: skip
NORMS = [
    "F.layer_norm(b, (6,))", "F.layer_norm(b, (6,), u, a)", "F.layer_norm(c, (4, 6), m)", "F.layer_norm(c, [6], None, u)",
    "F.layer_norm(d, (6, 5), eps=0.1)", "F.layer_norm(b * 0, (6,), u, a)", "F.layer_norm(d.permute(3, 0, 1, 2), (6,), u, a)",
    "F.rms_norm(b, (6,))", "F.rms_norm(c, (4, 6), m, eps=0.01)", "F.batch_norm(b, None, None, training=True)",
    "F.batch_norm(c, None, None, v, v * 2, True)", "F.batch_norm(d, v.detach(), v.detach().abs(), v, v, False)",
    "F.batch_norm(d, v.detach(), v.detach().abs())",
    "F.batch_norm(b, t.zeros(6), t.ones(6), u, None, True, 0.3, 0.01)", "F.batch_norm(e, None, None, training=True)",
    "F.group_norm(c, 2)", "F.group_norm(d, 2, v, v * 2)", "F.group_norm(b, 3, u, a)", "F.group_norm(d, 4, eps=0.1)", "F.instance_norm(c)",
    "F.instance_norm(d, weight=v, bias=v)", "F.instance_norm(d, v.detach(), v.detach().abs(), use_input_stats=False)",
    "F.instance_norm(e)", "F.local_response_norm(c, 3)", "F.local_response_norm(d, 2, 0.1, 0.5, 2.0)",
    "F.dropout(b, 0.5, False)", "F.dropout(b, 0.0)", "F.dropout(b, 1.0)", "F.alpha_dropout(b)", "F.feature_alpha_dropout(b)",
    "F.dropout2d(d, training=False)",
]  # fmt: skip
CONVOLUTIONS = [
    "F.conv1d(c, w1)", "F.conv1d(c, w1, v[:3], stride=2, padding=1)", "F.conv1d(c[0], w1, dilation=2)", "F.conv1d(c, w1, padding='same')",
    "F.conv1d(c, w1, padding='valid')", "F.conv1d(c, w1[:2, :2], groups=2)", "F.conv2d(d, w2, v, groups=2)",
    "F.conv2d(d, w2, stride=(2, 1), padding=(1, 0), dilation=(1, 2), groups=2)",
    "F.conv2d(d[1], w2, groups=2, padding='same', dilation=(1, 3))", "F.conv3d(e, w3, v[:3])", "F.conv3d(e, w3, stride=2, padding=1)",
    "F.conv2d(d, w2.transpose(0, 1)[:, :4].contiguous(), stride=3)",
    "F.conv2d(d, w2[:, :, :2, :2], stride=2, groups=2)", "F.conv_transpose1d(c, w1.transpose(0, 1))",
    "F.conv_transpose1d(c[0], w1.transpose(0, 1), v[:3], stride=3, output_padding=2)",
    "F.conv_transpose1d(c, w1.transpose(0, 1), stride=2, padding=1, dilation=3, output_padding=2)",
    "F.conv_transpose2d(d, w2, stride=(2, 1), padding=1, groups=2)",
    "F.conv_transpose2d(d, w2, v[:2], dilation=2, output_padding=1, stride=2)",
    "F.conv_transpose3d(e, w3.transpose(0, 1), v[:3], stride=2)",
    "F.conv_tbc(c, w1.permute(2, 1, 0)[:, :, :3].transpose(1, 2)[:, :3, :].new_ones(2, 6, 3) * n, v[:3], 1)", "F.unfold(d, 2)",
    "F.unfold(d, (3, 2), dilation=(1, 2), padding=1, stride=(2, 1))", "F.unfold(d[0], 2)", "F.fold(F.unfold(d, 2), (6, 5), 2)",
    "F.fold(c, (3, 4), 2, stride=1)[:, :, 1:]", "F.fold(F.unfold(d, 3, padding=1, stride=2), (6, 5), 3, padding=1, stride=2)",
    "F.conv2d(t.complex(d, d2), t.complex(w2, w2 * 2), groups=2)",
    "F.conv_transpose1d(t.complex(c, c2), t.complex(w1, -w1).transpose(0, 1), stride=2)",
    "F.pad(b, (1, 2))", "F.pad(c, (1, 0, 2, 1), value=3.0)", "F.pad(c, (-1, 2, 0, -2))", "F.pad(b, (0, 0, 1, 1), 'constant', 1)",
    "F.pad(c, (2, 3), mode='reflect')", "F.pad(d, (2, 1, 3, 0), mode='reflect')", "F.pad(b, (1, 1), mode='reflect')",
    "F.pad(c, (7, 8), mode='replicate')", "F.pad(d, (1, 1, 2, 0), 'replicate')", "F.pad(e, (1, 1, 2, 0, 1, 3), 'replicate')",
    "F.pad(c, (6, 5), mode='circular')", "F.pad(d, (1, 2, 0, 3), mode='circular')", "F.pad(e, (1, 1, 2, 0, 1, 3), 'circular')",
    "F.pad(c, (-1, 2), mode='circular')", "F.pad(c, (2, -1), mode='reflect')", "F.pad(c, (-1, 2), mode='replicate')",
    "F.pad(e, (1, 1, 2, 0, 1, 3), 'reflect')", "F.pad(c, (-8, 4), mode='replicate')", "F.pad(c, (5, -7), mode='reflect')",
    "F.conv2d(d, w2, groups=2, padding='same', dilation=(2, 3))", "F.conv1d(c, w1, stride=[2], padding=(1,), dilation=[1])",
]  # fmt: skip
POOLS = [
    "F.max_pool1d(c, 2)", "F.max_pool1d(c[0], 3, 2, 1)", "F.max_pool1d(c, 2, return_indices=True)", "F.max_pool2d(d, 2)",
    "F.max_pool2d(d, (3, 2), stride=(2, 1), padding=1, ceil_mode=True, return_indices=True)", "F.max_pool2d(d, 2, dilation=2)",
    "F.max_pool2d(d[0], 3, 1)", "F.max_pool3d(e, 2, 1)", "F.max_pool3d(e, (2, 3, 1), padding=(1, 1, 0), return_indices=True)",
    "F.max_pool2d(d * 0, 2, return_indices=True)", "F.max_pool2d_with_indices(d, 3)", "F.avg_pool1d(c, 2)",
    "F.avg_pool1d(c[0], 3, 2, 1, True)",
    "F.avg_pool2d(d, 2, ceil_mode=True)", "F.avg_pool2d(d, 3, 2, 1, True, False)", "F.avg_pool2d(d, 3, 2, 1, True, True)",
    "F.avg_pool2d(d, (2, 3), 1, divisor_override=5)", "F.avg_pool3d(e, 2, 1, 1)", "F.adaptive_avg_pool1d(c, 4)",
    "F.adaptive_avg_pool2d(d, (4, 3))", "F.adaptive_avg_pool2d(d, 1)", "F.adaptive_avg_pool2d(d, (None, 2))",
    "F.adaptive_avg_pool2d(d[0], (7, 9))", "F.adaptive_avg_pool3d(e, (2, None, 2))", "F.adaptive_max_pool1d(c, 4, return_indices=True)",
    "F.adaptive_max_pool2d(d, (4, 3))", "F.adaptive_max_pool2d(d, (None, 7), True)", "F.adaptive_max_pool3d(e, 2)",
    "F.lp_pool1d(pos, 2, 3)", "F.lp_pool2d(d.abs(), 3.0, 2, ceil_mode=True)", "F.lp_pool3d(e.abs(), 1.5, 2, 1)",
    "F.max_unpool1d(*F.max_pool1d(c, 2, return_indices=True), 2)",
    "F.max_unpool2d(*F.max_pool2d(d, 2, return_indices=True), 2, output_size=(6, 5))",
    "F.max_unpool3d(*F.max_pool3d(e, 2, return_indices=True), 2, output_size=(1, 2, 4, 5, 3))", "F.max_pool2d(d[:0], 2)",
    "F.avg_pool2d(d[:0], 2)", "F.lp_pool1d(c, float('inf'), 3, 2, True)", "F.lp_pool2d(d, float('-inf'), (2, 3))",
    "F.max_pool3d_with_indices(e, 2, 1, 1, ceil_mode=True)", "F.adaptive_max_pool3d_with_indices(e, (2, None, 1))",
    "F.avg_pool1d(c, (3,), [2], (1,), count_include_pad=False)", "F.max_pool1d(c, 3, stride=(), padding=1, dilation=1, ceil_mode=True)",
]  # fmt: skip
VISION = [
    "F.interpolate(c, 9)", "F.interpolate(c, scale_factor=1.7)", "F.interpolate(d, (3, 11), mode='nearest-exact')",
    "F.interpolate(e, scale_factor=(2, 0.5, 1.5))", "F.interpolate(c, 9, mode='linear')",
    "F.interpolate(c, 9, mode='linear', align_corners=True)", "F.interpolate(c, scale_factor=1.7, mode='linear')",
    "F.interpolate(c, scale_factor=1.7, mode='linear', recompute_scale_factor=True)", "F.interpolate(d, (9, 3), mode='bilinear')",
    "F.interpolate(d, (9, 3), mode='bilinear', align_corners=True)", "F.interpolate(d, scale_factor=0.6, mode='bilinear')",
    "F.interpolate(d, (9, 3), mode='bicubic')", "F.interpolate(d, (9, 3), mode='bicubic', align_corners=True)",
    "F.interpolate(e, (7, 3, 5), mode='trilinear')", "F.interpolate(e, (7, 3, 5), mode='trilinear', align_corners=True)",
    "F.interpolate(c, 4, mode='area')", "F.interpolate(d, (4, 7), mode='area')",
    "F.interpolate(d, (3, 2), mode='bilinear', antialias=True)", "F.interpolate(d, (3, 8), mode='bicubic', antialias=True)",
    # scale factors that leave a size as it is
    "F.interpolate(c, scale_factor=1.1, mode='linear')", "F.interpolate(d, scale_factor=(1.1, 1.7), mode='bilinear')",
    "F.interpolate(e, scale_factor=(1.2, 1.1, 2), mode='trilinear')", "F.interpolate(d, scale_factor=(1.1, 0.7), mode='bicubic')",
    "F.interpolate(d.detach(), scale_factor=(1.1, 0.7), mode='bicubic', antialias=True)", "F.interpolate(d, scale_factor=(1.1, 1.1))",
    "F.interpolate(d, scale_factor=(1.1, 1.1), mode='nearest-exact')",
    "F.interpolate(d, (6, 5), mode='bilinear')", "F.interpolate(c, 1, mode='linear', align_corners=True)",
    "F.upsample(c, scale_factor=2)", "F.upsample_bilinear(d, scale_factor=2)", "F.upsample_nearest(d, 7)",
    *(
        f"F.grid_sample(d, g * 0.7, '{mode}', '{pad}', align_corners={align})"
        for mode in ("bilinear", "nearest", "bicubic") for pad in ("zeros", "border", "reflection") for align in (True, False)
    ),
    "F.grid_sample(e, PLACES, align_corners=False)",
    "F.grid_sample(e, PLACES, mode='nearest', padding_mode='border', align_corners=True)",
    "F.grid_sample(d, g * 5, padding_mode='reflection')",
    "F.affine_grid(f[:2, :2], (2, 1, 4, 5), align_corners=False)", "F.affine_grid(f[:2, :2], (2, 1, 4, 1), align_corners=True)",
    "F.affine_grid(e[0, :, :3, :4, 0], (2, 1, 3, 4, 2))", "F.pixel_shuffle(d, 2)", "F.pixel_unshuffle(F.pad(d, (0, 1)), 2)",
    "F.pixel_shuffle(d[0], 2)", "F.channel_shuffle(d, 2)",
]  # fmt: skip
ATTENTION = [
    "F.scaled_dot_product_attention(k, s, z)", "F.scaled_dot_product_attention(k, s, z, mask)",
    "F.scaled_dot_product_attention(k, s, z, dead)", "F.scaled_dot_product_attention(k, s, z, k[0] @ s[0].T)",
    "F.scaled_dot_product_attention(k, s, z, is_causal=True)", "F.scaled_dot_product_attention(k, s, z, scale=0.3)",
    "F.scaled_dot_product_attention(k[0], s[0], z[0])", "F.scaled_dot_product_attention(q, j, j, enable_gqa=True)",
    "F.scaled_dot_product_attention(q, j, j, mask[:3].expand(2, 4, 3, 7), enable_gqa=True)",
    "F.scaled_dot_product_attention(q, j.repeat(1, 2, 1, 1), j.repeat(1, 2, 1, 1), is_causal=True)",
    "F.scaled_dot_product_attention(s, k, k, is_causal=True)",
    "F.multi_head_attention_forward(c, c, c, 6, 2, IN_PROJECTION, IN_BIAS, None, None, False, 0.0, OUT_PROJECTION, u)",
    "F.multi_head_attention_forward(c, c2, c2, 6, 3, IN_PROJECTION, IN_BIAS, None, None, True, 0.0, OUT_PROJECTION, u, need_weights=False)",
    "F.multi_head_attention_forward(c, c2, c2, 6, 2, IN_PROJECTION, None, a[None, None], u[None, None], False, 0.0, OUT_PROJECTION, "
    "None, key_padding_mask=mask[:4, :2], attn_mask=~mask[:2, :2], average_attn_weights=False)",
    "F.multi_head_attention_forward(b, b2, b2, 6, 2, IN_PROJECTION, None, None, None, False, 0.0, OUT_PROJECTION, None, "
    "attn_mask=b[:, :5])",
    "F.multi_head_attention_forward(c, c2, c2, 6, 2, None, IN_BIAS, None, None, False, 0.0, OUT_PROJECTION, None, "
    "use_separate_proj_weight=True, q_proj_weight=OUT_PROJECTION, k_proj_weight=t.cat((p, b2[:1])), v_proj_weight=t.cat((b2, "
    "b2[:1])))",
]  # fmt: skip
ERRORS = [
    "F.cross_entropy(b, i + 4)", "F.cross_entropy(b, i[:3])", "F.cross_entropy(b, i[:, None])", "F.cross_entropy(c, i)",
    "F.cross_entropy(b, i, v)", "F.cross_entropy(b, i, reduction='foo')", "F.cross_entropy(b, i, label_smoothing=1.5)",
    "F.cross_entropy(b, pp, ignore_index=1)", "F.nll_loss(n, i0)", "F.nll_loss(b, i + 6)", "F.mse_loss(b, v)",
    "F.mse_loss(b, b2, reduction='x')", "F.mse_loss(b, b2, weight=u)", "F.huber_loss(b, b2, delta=0)", "F.smooth_l1_loss(b, b2, beta=-1)",
    "F.binary_cross_entropy(b, p)", "F.binary_cross_entropy(p, u)", "F.binary_cross_entropy_with_logits(b, u)",
    "F.gaussian_nll_loss(b, b2, -pos)", "F.gaussian_nll_loss(b, b2, v)", "F.gaussian_nll_loss(b, b2, pos, reduction='q')",
    "F.poisson_nll_loss(b, counts, reduction='q')", "F.margin_ranking_loss(b, b2, u)", "F.triplet_margin_loss(b, b2, u)",
    "F.triplet_margin_loss(b, b2, p, margin=0.0)", "F.multi_margin_loss(b, i, p=3)", "F.cosine_embedding_loss(b, b2, b)",
    "F.glu(b[:, :3])", "F.glu(n)", "F.gelu(b, approximate='q')", "F.dropout(b, 1.5)", "F.rrelu(b, 0.3, 0.2)",
    "F.prelu(b, v)", "F.prelu(b, m)", "F.celu(b, 0.0)", "F.softshrink(b, -1.0)", "F.softmax(b, 2)", "F.cosine_similarity(b, v)",
    "F.cosine_similarity(a, u)", "F.normalize(a)", "F.linear(b, w1)", "F.linear(b, v)", "F.linear(n, m)", "F.linear(b, m, u)",
    "F.bilinear(b, b2, f)", "F.layer_norm(b, (4,))", "F.layer_norm(b, (6,), v)", "F.layer_norm(b, ())",
    "F.batch_norm(b[:1], None, None, training=True)", "F.batch_norm(b, None, None)", "F.batch_norm(b, v, v)", "F.group_norm(b, 4)",
    "F.group_norm(b[:1], 6)",
    "F.instance_norm(b)", "F.local_response_norm(b, 2)", "F.conv2d(d, w2)", "F.conv2d(c[None, None], w2)",
    "F.conv2d(d[:, :, :1, :1], w2, groups=2)", "F.conv2d(d, w2, u, groups=2)", "F.conv2d(d, w2, padding='same', stride=2, groups=2)",
    "F.conv2d(d, w2, padding='foo', groups=2)", "F.conv2d(d, w2, stride=0, groups=2)", "F.conv2d(d, w2, padding=-1, groups=2)",
    "F.conv2d(d, w2, stride=(1, 1, 1), groups=2)", "F.conv2d(d, w2[:3], groups=2)", "F.conv2d(d, w2, groups=0)",
    "F.conv_transpose2d(d, w2, output_padding=1, groups=2)",
    "F.conv_transpose2d(d, w2[:3])", "F.conv_transpose2d(d[:, :, :1, :1], w2, padding=3)", "F.pad(b, (1, 1, 1))", "F.pad(b, (1,) * 6)",
    "F.pad(b, (-4, -4))", "F.pad(c, (6, 0), mode='reflect')", "F.pad(c, (7, 0), mode='circular')",
    "F.pad(b, (1, 1, 1, 1), mode='reflect')", "F.pad(b, (1, 1), mode='foo')", "F.pad(c, (1, 1), mode='replicate', value=1)",
    "F.pad(d, (1, 1), mode='reflect')", "F.unfold(d, (7, 7))", "F.unfold(d, 2, stride=0)", "F.fold(c, (4, 4), 2)",
    "F.fold(c, (4, 4, 4), 2)", "F.fold(c[:, :3], (3, 3), 2)",
    "F.max_pool2d(d, 9)", "F.max_pool2d(d, 3, padding=2)", "F.max_pool2d(b, 2)", "F.max_pool2d(d, 2, stride=0)",
    "F.max_pool2d(d, (2, 2, 2))", "F.max_pool2d(d[:, :0], 2)", "F.avg_pool2d(d, 9)", "F.avg_pool2d(d, 3, padding=2)",
    "F.avg_pool2d(d, 2, divisor_override=0)", "F.adaptive_avg_pool2d(d, (2,))", "F.adaptive_avg_pool2d(d[:, :, :0], 2)",
    "F.adaptive_avg_pool2d(d, -1)", "F.adaptive_avg_pool2d(b, 2)", "F.adaptive_max_pool2d(d, (3, 2, 1))",
    "F.adaptive_avg_pool2d(d, None)", "F.adaptive_max_pool1d(c, None)", "F.max_pool2d(d, 2, kernel_size=2)", "F.conv2d(d)",
    "F.conv_transpose1d(c, w1.transpose(0, 1), padding='same')", "F.pad(c, (-8, 1), mode='reflect')",
    "F.max_unpool2d(*F.max_pool2d(d, 2, return_indices=True), 2, output_size=(9, 9))",
    "F.max_unpool2d(d, id[:, None].expand(2, 4, 6, 5) + 500, 1)", "F.max_unpool2d(d, id, 2)", "F.interpolate(c, (2, 2))",
    "F.interpolate(c)", "F.interpolate(c, 3, mode='bilinear')", "F.interpolate(c, 0, mode='linear')",
    "F.interpolate(c, 3, align_corners=True)", "F.interpolate(c, 3, recompute_scale_factor=True)", "F.interpolate(b, 3)",
    "F.interpolate(d, 3, mode='foo')", "F.interpolate(d, 3, antialias=True)", "F.interpolate(c, 3, scale_factor=2)",
    "F.grid_sample(d[:1], g)", "F.grid_sample(d, g[..., :1])", "F.grid_sample(d, g, mode='foo')",
    "F.grid_sample(d, g, padding_mode='foo')", "F.grid_sample(d[:, :, :0], g)", "F.affine_grid(f, (3, 1, 0, 2))",
    "F.affine_grid(f[:, :, :2], (3, 1, 2, 2))", "F.pixel_shuffle(d[:, :3], 2)", "F.pixel_unshuffle(d, 2)", "F.pixel_shuffle(b, 2)",
    "F.channel_shuffle(d, 3)", "F.channel_shuffle(b, 2)",
    "F.embedding(i + 9, b)", "F.embedding(a, b)", "F.embedding(i0, b, padding_idx=9)", "F.one_hot(i - 9)", "F.one_hot(i, 1)",
    "F.one_hot(i[:0])", "F.one_hot(a)", "F.embedding_bag(bag, b)", "F.embedding_bag(bag, b, offsets + 1)",
    "F.embedding_bag(bag, b, offsets * 9)", "F.embedding_bag(bag + 9, b, offsets)", "F.embedding_bag(bags, b, offsets)",
    "F.embedding_bag(bags, b, mode='foo')", "F.embedding_bag(bags, b, per_sample_weights=b2[:3, :4])",
    "F.embedding_bag(bags, b, mode='sum', per_sample_weights=b2)",
    "F.scaled_dot_product_attention(k, s[..., :3], z)", "F.scaled_dot_product_attention(k, s, z[:, :4])",
    "F.scaled_dot_product_attention(k, s, z, mask[:, :4])", "F.scaled_dot_product_attention(k, s, z, i)",
    "F.scaled_dot_product_attention(k, s, z, mask, is_causal=True)", "F.scaled_dot_product_attention(a, b, b)",
    "F.scaled_dot_product_attention(q[:, :3], j, j, enable_gqa=True)", "F.scaled_dot_product_attention(q, j, j)",
]  # fmt: skip

PROGRAMS = ACTIVATIONS + CLASSIFICATION + REGRESSION + DISTANCES + LINEAR + NORMS + CONVOLUTIONS + POOLS + VISION + ATTENTION


# Longer expressions that stand for tensors in the programs.
SPELLED_OUT = {
    "PLACES": "t.stack((g, g * 0.5, g * 0.2), 1)[:1, :, :, :, 0].permute(0, 2, 3, 1)[:, :, :, None]",
    "IN_PROJECTION": "t.cat((b, b2, p, b[:3]))",
    "OUT_PROJECTION": "t.cat((b, b2[:1]))",
    "IN_BIAS": "t.cat((a, u, a))",
}


def environment(module, make):
    names = {name: make(array) for name, array in ARRAYS.items()}
    for t in names.values():
        t.requires_grad_()
    names |= {name: make(array) for name, array in CONSTANTS.items()} | {"F": module.nn.functional, "t": module}
    return names | {name: eval(text, dict(names)) for name, text in SPELLED_OUT.items()}


def run(module, make, program, weights):
    """Outputs of a program, and the gradients of a weighted sum of them."""
    names = environment(module, make)
    out = eval(program, names)
    outs = [o for o in (out if isinstance(out, (tuple, list)) else (out,)) if o is not None]
    values = [np.asarray(o.detach().numpy()) for o in outs]
    total = None
    for number, o in enumerate(outs):
        if o.requires_grad:
            while len(weights) <= number:
                weights.append(None)
            if weights[number] is None:
                weights[number] = np.random.default_rng(number).standard_normal(tuple(o.shape))
            term = ((o.real + 2 * o.imag if o.is_complex() else o) * make(weights[number])).sum()
            total = term if total is None else total + term
    leaves = [names[name] for name in ARRAYS]
    grads = [None] * len(leaves) if total is None else module.autograd.grad(total, leaves, allow_unused=True)
    return values, [None if g is None else np.asarray(g.detach().numpy()) for g in grads]


@pytest.mark.parametrize("program", PROGRAMS)
def test_same_values_and_gradients(program):
    weights: list = []
    want, want_grads = run(torch, lambda a: torch.tensor(np.asarray(a)), program, weights)
    with np.errstate(all="ignore"):
        got, got_grads = run(ndgrad, lambda a: ndgrad.tensor(np.asarray(a)), program, weights)
    assert len(got) == len(want)
    for g, w in zip(got, want):
        assert g.shape == w.shape
        assert g.dtype == w.dtype
        np.testing.assert_allclose(g, w, rtol=1e-7, atol=1e-9)
    for name, g, w in zip(ARRAYS, got_grads, want_grads):
        if w is None:
            assert g is None or not g.any(), f"a gradient for {name}, where torch has none"
            continue
        assert g is not None, f"no gradient for {name}"
        np.testing.assert_allclose(g, w, rtol=1e-6, atol=1e-9, err_msg=f"gradient of {name}")


@pytest.mark.parametrize("program", ERRORS)
def test_same_errors(program):
    with pytest.raises(Exception) as want:
        eval(program, environment(torch, lambda a: torch.tensor(np.asarray(a))))
    with pytest.raises(want.type):
        eval(program, environment(ndgrad, lambda a: ndgrad.tensor(np.asarray(a))))


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("c", {"scale_factor": 1.1}),
        ("e", {"scale_factor": (1.2, 1.1, 1.3)}),
        ("d", {"scale_factor": (1.1, 0.7), "mode": "bicubic", "antialias": True}),
    ],
    ids=["nearest 1d", "nearest 3d", "antialias"],
)
def test_gradient_of_a_size_that_stays_is_that_of_the_values(name, settings):
    assert deliberate("resize-gradients")
    x, found = ARRAYS[name], []
    for module in (torch, ndgrad):
        # a resizing is linear, so its gradient in the direction w is what it makes of x
        leaf = module.tensor(x, requires_grad=True)
        out = module.nn.functional.interpolate(leaf, **settings)
        weight = module.tensor(np.cos(np.arange(out.numel())).reshape(tuple(out.shape)))
        total = (out * weight).sum()
        total.backward()
        found.append((float(total.detach()), float((leaf.grad * module.tensor(x)).sum())))
    assert found[1][0] == pytest.approx(found[0][0])
    assert found[1][1] == pytest.approx(found[1][0])
    assert found[0][1] != pytest.approx(found[0][0])


def test_antialiased_columns_are_resized():
    assert deliberate("resize-gradients")
    x, settings = np.arange(1.0, 6.0), {"mode": "bilinear", "antialias": True}
    column = ndgrad.nn.functional.interpolate(ndgrad.tensor(x.reshape(1, 1, 5, 1)), (3, 1), **settings)
    row = torch.nn.functional.interpolate(torch.tensor(x.reshape(1, 1, 1, 5)), (1, 3), **settings)
    np.testing.assert_allclose(column.numpy().ravel(), row.numpy().ravel())


def test_running_statistics_move_as_in_torch():
    x = ARRAYS["d"]
    for function in ("batch_norm", "instance_norm"):
        found = []
        for module, make in ((torch, torch.tensor), (ndgrad, ndgrad.tensor)):
            mean, var = make(np.zeros(4)), make(np.ones(4))
            call = getattr(module.nn.functional, function)
            for _ in range(2):
                call(make(x), mean, var, **({"training": True} if function == "batch_norm" else {"use_input_stats": True}), momentum=0.3)
            found.append((mean.numpy(), var.numpy()))
        np.testing.assert_allclose(found[1], found[0], rtol=1e-12)


def test_every_function_of_torch_is_here():
    missing = {"scaled_mm", "scaled_grouped_mm"}  # eight-bit formats of accelerators
    ours, theirs = set(dir(ndgrad.nn.functional)), torch.nn.functional
    public = {n for n in dir(theirs) if not n.startswith("_") and callable(getattr(theirs, n)) and not n[0].isupper()}
    machinery = {n for n in public if "torch_function" in n} | {"assert_int_or_pair", "boolean_dispatch"}
    assert public - machinery - ours == missing
