"""The sentences of programs over tensors, as torch programs have them: what kernels are made of.

Holes are filled by `tensors.Writer`; one name twice in a sentence is filled twice with the same text.

    a      a variable
    b      an expression that broadcasts to the shape of `a`, or whose shape that of `a` broadcasts to
    s      a variable of the same shape as `a`, or `a` itself
    m, k   two variables that can be multiplied as matrices
    image  a variable of four dimensions
    new    a name that was not used before
    d      a dimension of `a`
    n      the size of that dimension
    rows   a tensor of indices along that dimension
    mask   a boolean tensor of the shape of `a`
    c      a number
    size   a new size, from odd to round

A sentence is tried eagerly, and thrown away if it raises or its values get out of hand.
"""

from __future__ import annotations

from tests.programs.grammar import blocks, lines

ELEMENTWISE = lines("""
{new} = {a}.sin() * {b}
{new} = {a} * {b} + {c}
{new} = {a} - {b}
{new} = {a} / ({b} * {b} + 1.5)
{new} = ({a} * {a} + 0.5) ** {b}.clamp(-1.5, 1.5)
{new} = {a}.exp().clamp(max=9.0)
{new} = ({a} * {a} + 0.1).log()
{new} = ({a} * {a} + 0.1).sqrt() * {c}
{new} = {a}.tanh() + {b}.sigmoid()
{new} = F.gelu({a})
{new} = F.gelu({a}, approximate="tanh")
{new} = F.silu({a}) * {b}
{new} = F.relu({a})
{new} = F.leaky_relu({a}, 0.1)
{new} = F.elu({a}) - F.softplus({b})
{new} = F.hardtanh({a}) + F.mish({a})
{new} = nd.erf({a}) * nd.cos({b})
{new} = nd.atan2({a}, {b} * {b} + 0.4)
{new} = nd.expm1({a} * 0.5) + nd.log1p({a} * {a})
{new} = nd.where({mask}, {a}, {b})
{new} = nd.maximum({a}, {b})
{new} = nd.minimum({a}, {b}) * {c}
{new} = {a}.abs() + {a}.sign()
{new} = {a}.clamp(-0.7, 0.9)
{new} = nd.lerp({a}, {b}, 0.3)
{new} = nd.addcmul({a}, {a}, {b}, value=0.5)
{new} = {a}.masked_fill({mask}, {c})
{new} = {a} * {mask}
{new} = {a}.pow(3)
{new} = {a}.sinh().clamp(-4, 4) + {a}.cosh().clamp(max=4)
{new} = ({a} * 0.4).tan().clamp(-3, 3)
{new} = {a}.round() + {a}.floor() * {c}
{new} = nd.rsqrt({a} * {a} + 0.3)
{new} = nd.logaddexp({a}, {b})
{new} = nd.hypot({a}, {b} + 3.0)
{new} = {a}.reciprocal().clamp(-5, 5)
{new} = {a}.detach() * {b}
{new} = {a}.double().sin().to({a}.dtype)
{new} = ({a} * 3.0).to(nd.int64).to({a}.dtype) + {a}
{new} = (nd.complex({a}, {b} + 0.0 * {a}) * (0.5 + 0.3j)).real
{new} = nd.complex({a}, {a} * {c}).exp().imag.clamp(-5, 5)
{new} = nd.complex({a}, {s}).abs()
{new} = (nd.complex({a}, {s}) / nd.complex({s} * {s} + 1.0, {a})).imag
""")

COMPLEX = lines("""
{new} = nd.complex({a}, {s})
{new} = nd.polar({a}, {s})
{new} = {a}.conj() * {b}
{new} = {a}.real + {s}.imag
{new} = nd.view_as_real({a})
{new} = nd.view_as_complex(nd.stack([{a}, {s}], -1))
{new} = ({a} * 0.7j).exp()
{new} = {a}.abs() * {s}.sgn()
{new} = {a} / ({b} + (3.0 + 2.0j))
{new} = ({a} + (2.0 + 1.0j)).log() * ({s} + (2.0 + 1.0j)).sqrt()
{new} = nd.where({a}.abs() > 0.5, {a}, {s}.conj())
{new} = nd.fft.fft({a}, dim={d}) * 0.2
{new} = nd.fft.ifft({a}, dim={d}).real
{new} = {m} @ {m}.mH * 0.1
{new} = nd.vdot({a}.flatten(), {s}.flatten()) * 0.1
{new} = nd.einsum("...i,...j->ij", {a}, {s}.conj()) * 0.1
{a} = {a} + 0.0; {a}.real[0] = {c}
{a} = {a} + 0.0; {a}.imag.mul_({s}.real)
{a} = {a} + 0.0; nd.view_as_real({a})[..., 0] += {c}
""")

ROWS = lines("""
{new} = {a}.sum({d})
{new} = {a}.mean({d}, keepdim=True)
{new} = {a}.sum() * {b}
{new} = {a} - {a}.mean({d}, keepdim=True)
{new} = {a}.amax({d})
{new} = {a}.max({d}).values
{new} = {a}.min({d}, keepdim=True).values * {a}
{new} = {a}.var({d}, correction=0)
{new} = {a}.std({d}, correction=0, keepdim=True) + {a}
{new} = {a}.softmax({d})
{new} = F.log_softmax({a}, {d})
{new} = {a}.logsumexp({d})
{new} = nd.linalg.vector_norm({a} + 2.0, dim={d})
{new} = F.layer_norm({a}, {a}.shape[-1:])
{new} = F.layer_norm({a}, {a}.shape[-1:], {a}.reshape(-1, {a}.shape[-1])[0] + 1.0)
{new} = F.normalize({a} + 0.5, dim={d})
{new} = {a}.cumsum({d}) * 0.2
{new} = ({a} * 0.2 + 1.0).cumprod({d}).clamp(-9, 9)
{new} = ({a} * 0.2 + 1.0).prod({d}).clamp(-9, 9)
{new} = {a}.sort({d}).values
{new} = {a}.topk(1, {d}).values
{new} = {a}.argmax({d}, keepdim=True) * 0.1 + {a}
{new} = nd.cummax({a}, {d}).values
{new} = nd.logcumsumexp({a}, {d})
{new} = F.cross_entropy({a}.reshape(-1, {a}.shape[-1]), nd.arange({a}.reshape(-1, {a}.shape[-1]).shape[0]) % {a}.shape[-1])
{new} = F.mse_loss({a}, {s} * 0.5, reduction="none")
{new} = F.smooth_l1_loss({a}, {s} * 0.5)
{new} = {a}.flatten().dot({s}.flatten()) * 0.1
{new} = nd.linalg.norm({a}.flatten()) * {a}
{new} = ({mask}).sum({d}) * 0.1 + {a}.sum({d})
{new} = ({mask}).any({d}).to({a}.dtype) * {a}.mean({d})
""")

SHAPES = lines("""
{new} = {a}.transpose(0, -1) * {c}
{new} = {a}.mT
{new} = {a}.flatten()
{new} = {a}.reshape({a}.shape[-1], -1)
{new} = {a}[..., ::2] * 1.5
{new} = {a}.flip({d})
{new} = {a}.roll(1, {d})
{new} = {a}.narrow({d}, 0, {n} // 2 + 1).sin()
{new} = {a}.unsqueeze({d})
{new} = {a}.squeeze()
{new} = nd.cat([{a}, {s}], {d})
{new} = nd.stack([{a}, {s}], {d})
{new} = {a}.chunk(2, {d})[0] + 0.0
{new} = {a}.expand(2, *{a}.shape)
{new} = {a}.repeat(2, *[1] * ({a}.ndim - 1))
{new} = {a}.tril() if {a}.ndim > 1 else {a}
{new} = F.pad({a}, (1, 2))
{new} = F.pad({a}, (0, 1), value={c})
{new} = {a}.diagonal(dim1=0, dim2=-1) if {a}.ndim > 1 else {a}.diag()
{new} = {a}.unfold({d}, {n} // 2 + 1, 1)
{new} = {a}.index_select({d}, {rows})
{new} = {a}.movedim({d}, 0)[{rows}]
{new} = {a}.gather({d}, ({mask}).long() % {n})
{new} = nd.zeros_like({a}).scatter_add({d}, ({mask}).long() % {n}, {a})
{new} = {a}.index_add({d}, {rows}, {a}.index_select({d}, {rows}) * {c})
{new} = F.embedding({rows}, {a}.reshape({a}.shape[0], -1)) if {d} == 0 else {a}
{new} = F.one_hot({rows}, {n}).to({a}.dtype) @ {a}.movedim({d}, 0).reshape({n}, -1)
{new} = {a}.contiguous().view(-1)[:{n}]
{new} = nd.tril(nd.ones({n}, {n}, dtype={a}.dtype)) @ {a}.movedim({d}, 0).reshape({n}, -1) * 0.2
""")

PRODUCTS = lines("""
{new} = {m} @ {k} * 0.2
{new} = F.relu({m} @ {k} * 0.2)
{new} = ({m} @ {k} * 0.2 + {c}).tanh()
{new} = {m}.mT @ {m} * 0.1
{new} = {m} @ {m}.mT * 0.1 - 1.0
{new} = nd.einsum("...i,...j->ij", {a}, {s}) * 0.1
{new} = F.linear({m}, {k}.mT if {k}.ndim == 2 else {k}[0].mT) * 0.2
{new} = F.scaled_dot_product_attention({m}, {m} * 0.5, {m} + 1.0)
{new} = F.softmax({m} @ {m}.mT * 0.1, -1) @ {m}
{new} = nd.outer({a}.flatten()[:9], {s}.flatten()[:17])
{new} = F.conv2d({image}, {image}.mean(0, keepdim=True)[:, :, :3, :3] * 0.2, padding=1)
{new} = F.conv2d({image}, {image}[:1, :, :1, :1] * 0.5 + 0.1, stride=2)
{new} = F.max_pool2d({image}, 2)
{new} = F.avg_pool2d({image}, 2, stride=1)
{new} = F.batch_norm({image}, None, None, training=True)
{new} = F.group_norm({image}, 1)
{new} = F.conv1d({image}.flatten(0, 1)[:, None], {image}.flatten()[:3].reshape(1, 1, 3) * 0.3).squeeze()
{new} = F.interpolate({image}, scale_factor=2)
""")

WRITES = lines("""
{a} = {a} * 1.0; {a} += {s} * {c}
{a} = {a} * 1.0; {a}.mul_({s}.sigmoid())
{a} = {a} + 0.0; {a}[0] = {c}
{a} = {a} + 0.0; {a}[..., 0] *= {c}
{a} = {a} + 0.0; {a}.masked_fill_({mask}, {c})
{a} = {a} + 0.0; {a}[{a}.flatten(1)[:, 0] > {c}] = {c}
{a} = {a} + 0.0; {a}.flatten()[0:3].mul_({c})
{a} = {a} + 0.0; {a}.transpose(0, -1)[0] = 0.3
{a} = {a} + 0.0; {a}.index_copy_({d}, {rows}[:1], {a}.index_select({d}, {rows}[:1]) * {c})
{a} = {a} + 0.0; {a}.clamp_(-0.8, 0.8)
""") + blocks("""
{new} = nd.zeros_like({a})
for i in range(min({a}.shape[0], 12)):
    {new}[i] = {a}[i] * {c} + {new}[i - 1]

{new} = {a}
for i in range(6):
    {new} = ({new} * 0.9 + {b} * 0.1).tanh()

{new} = {a}
for i in range(5):
    {new} = {new} + ({new} * {c}).sin() * 0.1

{new} = {a}.sum() * 0.01
for i in range(min({a}.shape[0], 9)):
    {new} = {new} * {c} + {a}[i].mean()

{new} = {m}
for i in range(4):
    {new} = ({new} @ ({m}.mT @ {m})).tanh() * 0.5
""")

STATEMENTS = {
    "elementwise": (ELEMENTWISE, 6),
    "complex": (COMPLEX, 2),
    "rows": (ROWS, 4),
    "shapes": (SHAPES, 4),
    "products": (PRODUCTS, 3),
    "writes": (WRITES, 2),
}
