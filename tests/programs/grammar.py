"""The sentences of programs, with holes.

A hole is filled by `generate.Writer`; one name twice in a sentence is filled twice with the same text.

    a          an expression: a variable, a part of one, or something computed of such
    b          an expression that broadcasts to the shape of `a`
    name       a variable
    new        a name that was not used before
    v          a variable that may be written
    part       a part of `v`: what an indexed write may have on its left
    w          an expression that broadcasts to the shape of `part`, or of `v` where there is no part
    constant   a variable that holds a plain ndarray, and which NumPy itself may change
    mask       a boolean array of the shape of `a` (or of `v`)
    rows       an integer array, or an expression that computes one, to index the first axis of `a` (or of `v`)
    row        an integer for it
    axis       an axis of `a` (or of `v`)
    n          the length of the first axis of `a` (or of `v`)
    c          a number
    square     an expression that is a square matrix
    vector     an expression with one axis, as long as the square matrix is

Every sentence is tried on plain NumPy, and thrown away if it raises or if its values get out of hand, so a sentence
need not fit every shape.
"""

from __future__ import annotations


def lines(text: str) -> list[str]:
    """Sentences of one line."""
    return text.strip().splitlines()


def blocks(text: str) -> list[str]:
    """Sentences of several lines, with an empty line between two of them."""
    return text.strip().split("\n\n")


# ----- expressions ----------------------------------------------------------------------------------------------------

UNARY = lines("""
np.sin({a})
np.cos({a})
np.tanh({a})
np.exp({a} * 0.3)
np.exp({a})
np.sqrt({a} * {a} + 0.5)
np.log({a} * {a} + 1.0)
np.arctan({a})
np.abs({a})
np.square({a})
np.negative({a})
np.positive({a})
np.expm1({a} * 0.5)
np.arcsinh({a})
np.sign({a})
np.floor({a} * 3.0)
np.reciprocal({a} * {a} + 1.0)
np.clip({a}, -0.7, 0.8)
np.maximum({a}, {c})
np.sinc({a})
np.nan_to_num({a})
np.real({a})
np.conj({a})
np.cbrt({a} * {a} + 0.3)
np.asarray({a})
np.array({a})
np.copy({a})
np.ascontiguousarray({a})
({a} > {c}) * {a}
-{a}
abs({a})
{a} ** 2
{a} ** 3.0
(1.5 + {a} * {a}) ** {a}
2.0 / ({a} * {a} + 1.3)
{a}.copy()
{a}.clip({c}, 1.2)
cube({a})
grow({a})
stop({a})
""")

BINARY = lines("""
{a} + {b}
{a} - {b}
{a} * {b}
{b} * {a}
{b} - {a}
{a} / ({b} * {b} + 1.5)
{b} / ({a} * {a} + 1.5)
({a} * {a} + 0.5) ** {b}
np.add({a}, {b})
np.multiply({b}, {a})
np.maximum({a}, {b})
np.minimum({b}, {a})
np.fmax({a}, {b})
np.hypot({a}, {b} + 2.0)
np.arctan2({a}, {b} * {b} + 0.5)
np.logaddexp({a}, {b})
np.copysign({a}, {b})
np.heaviside({a}, 0.5) * {b}
np.mod({a}, {b} * {b} + 0.7)
np.where({mask}, {a}, {b})
np.where({a} > {b}, {b}, {a})
np.select([{mask}, {a} > {c}], [{a}, {b}], 0.25)
np.choose(({mask}).astype(int), [{a}, {b}])
np.choose(np.digitize({a}, [-0.4, 0.5]), [{a}, {b}, {c}])
np.sqrt({a}, out=np.zeros_like({a}), where={a} > 0.2)
np.add({a}, {b}, out=np.ones_like({a}), where={mask})
""")

#: Parts and other views; NumPy gives a view for most of them, and a program may write through it.
VIEWS = lines("""
{a}[::-1]
{a}[1:]
{a}[:-1]
{a}[::2]
{a}[-1:0:-1]
{a}[..., ::-1]
{a}[..., 1:]
{a}[:, 0]
{a}[:, ::-1]
{a}[None]
{a}[..., None]
{a}[{row}]
{a}[{row}, ...]
{a}[:, {row}]
{a}.T
{a}.ravel()
{a}.reshape(-1)
{a}.reshape(-1, 2)
{a}.reshape(2, -1)
{a}.T.reshape(-1)
{a}.swapaxes(0, -1)
{a}.transpose()
{a}.squeeze()
{a}.flatten()
{a}.view()
np.transpose({a})
np.swapaxes({a}, 0, -1)
np.moveaxis({a}, 0, -1)
np.expand_dims({a}, {axis})
np.squeeze({a})
np.atleast_2d({a})
np.atleast_1d({a})
np.flip({a})
np.flip({a}, {axis})
np.flipud({a})
np.rot90({a})
np.ravel({a})
np.ravel({a}, order="F")
np.ravel({a}, order="K")
np.reshape({a}, -1)
np.reshape({a}, (-1, 2), order="F")
np.split({a}, 2)[0]
np.array_split({a}, 2)[1]
np.hsplit({a}, 2)[-1]
np.diagonal({a})
np.diag({a})
np.broadcast_to({a}, (2,) + np.shape({a}))
np.broadcast_arrays({a}, {b})[0]
np.lib.stride_tricks.sliding_window_view({a}, 2, axis=0)
""")

WHOLE = lines("""
{a}.sum()
{a}.mean()
{a}.sum(axis={axis})
{a}.mean(axis={axis}, keepdims=True)
{a}.max(axis={axis})
{a}.std()
{a}.var(axis={axis})
{a}.prod(axis={axis})
{a}.cumsum()
{a}.dot({b})
np.sum({a}, axis={axis})
np.mean({a})
np.prod({a})
np.max({a})
np.min({a}, axis={axis})
np.amax({a}, axis={axis}, keepdims=True)
np.ptp({a}, axis={axis})
np.std({a}, axis={axis})
np.std({a}, ddof=1)
np.var({a})
np.median({a}, axis={axis})
np.quantile({a}, 0.3)
np.percentile({a}, [20.0, 70.0], axis={axis})
np.average({a}, weights={a} * {a} + 0.1)
np.cumsum({a}, axis={axis})
np.cumprod({a}, axis={axis})
np.cumprod({a})
np.diff({a}, axis={axis})
np.gradient({a}, axis={axis})
np.trapezoid({a})
np.ediff1d({a})
np.nansum({a}, axis={axis})
np.nanmean({a})
np.linalg.norm({a})
np.linalg.norm({a}, axis={axis})
np.linalg.norm({a} + 2.0, 3, axis={axis})
np.linalg.norm({a}, 1, axis={axis})
np.add.reduce({a})
np.multiply.reduce({a}, axis={axis})
np.maximum.reduce({a})
np.add.accumulate({a})
np.multiply.accumulate({a})
np.maximum.accumulate({a})
np.add.reduceat({a}, [0, 1])
np.logaddexp.reduce({a})
np.subtract.outer({a}, {a})
np.multiply.outer({a}, {b})
np.sort({a})
np.sort({a}, axis={axis})
np.sort({a}, axis=None)
np.partition({a}, 1)
np.take_along_axis({a}, np.argsort({a}, axis={axis}), axis={axis})
np.concatenate([{a}, {a}])
np.concatenate([{a}, np.broadcast_to({b}, np.shape({a}))], axis={axis})
np.stack([{a}, np.broadcast_to({b}, np.shape({a}))])
np.stack([{a}, {a} * 2.0], axis=-1)
np.vstack([{a}, {a}])
np.hstack([{a}, {a}])
np.column_stack([{a}, {a}])
np.append({a}, {c})
np.tile({a}, 2)
np.repeat({a}, 2)
np.repeat({a}, 2, axis={axis})
np.roll({a}, 1)
np.roll({a}, -1, axis={axis})
np.pad({a}, 1)
np.pad({a}, (1, 0), mode="edge")
np.pad({a}, 1, mode="wrap")
np.pad({a}, (0, 1), constant_values={c})
np.kron({a}, [1.0, -0.5])
np.outer({a}, {b})
np.insert({a}, 1, {c})
np.insert({a}, 0, {b}, axis={axis})
np.delete({a}, {row})
np.delete({a}, 0, axis={axis})
np.triu({a})
np.tril({a}, -1)
np.diagflat({a})
np.trace({square})
np.take({a}, {rows})
np.take({a}, {rows}, axis=0)
np.take({a}, [0, 5, -1], mode="wrap")
np.compress([True, False, True], {a})
np.ravel({a})[np.ravel_multi_index(np.unravel_index(np.argsort({a}, axis=None), np.shape({a})), np.shape({a}))]
np.bincount(np.digitize(np.ravel({a}), [-0.4, 0.5]), np.ravel({a}), minlength=4)
np.extract({mask}, {a})
{a}[{rows}]
{a}[{mask}]
{a}[np.argmax({a})]
{a}[np.argsort({a})]
{a}[np.nonzero({a} > {c})]
{a}[np.flatnonzero({a})[::-1]]
{a}[np.arange({n})[::-1]]
{a}[np.int64({row})]
{a}[numpy.array({row})]
{a}[[0, -1]]
{a}[np.ix_([0, -1])]
{a}[{rows}, {row}]
{a}[..., {rows}]
{a}[{rows}][:, None]
np.interp({a}, [-1.0, 0.2, 1.5], [0.3, -0.4, 0.9])
np.convolve(np.ravel({a}), [0.5, -1.0, 0.25])
np.polyval([0.5, -1.0, 0.25], {a})
np.vander(np.ravel({a})[:3], 3)
np.cross({a}, {b})
np.abs(np.fft.fft({a})) + 0.1
np.fft.ifft(np.fft.fft({a}) * (1.0 + 0.5j)).real
np.fft.rfft({a}).imag
np.apply_along_axis(np.cumsum, {axis}, {a})
np.atleast_1d({a}) @ np.atleast_1d({b})
np.dot({a}, {b})
np.inner({a}, {b})
np.matmul({square}, {vector})
{square} @ {square}
{square} @ {vector}
np.vdot({a}, {b})
np.tensordot({square}, {square}, axes=1)
np.einsum("ij,j->i", {square}, {vector})
np.einsum("ij,ij->j", {square}, {square})
np.einsum("ii->i", {square})
np.einsum("...i,...i->...", {a}, {b})
np.einsum("i,j->ij", np.ravel({a}), np.ravel({b}))
np.linalg.inv({square} @ {square}.T + 1.5 * np.eye(len({square})))
np.linalg.solve({square} @ {square}.T + 1.5 * np.eye(len({square})), {vector})
np.linalg.det({square} + 2.0 * np.eye(len({square})))
np.linalg.slogdet({square} @ {square}.T + np.eye(len({square})))[1]
np.linalg.cholesky({square} @ {square}.T + np.eye(len({square})))
np.linalg.eigvalsh({square} + {square}.T + np.diag(np.arange(len({square})) * 3.0))
np.linalg.svd({square} + np.diag(np.arange(len({square})) * 3.0 + 4.0), compute_uv=False)
np.linalg.qr({square} + 2.0 * np.eye(len({square})))[1]
np.linalg.matrix_power({square}, 2)
np.linalg.pinv({square} + 2.0 * np.eye(len({square})))
np.linalg.multi_dot([{square}, {square}, {vector}])
unrecorded(lambda: {a} * {b})
recomputed(lambda s: np.sin(s) * s, {a})
recomputed(lambda s, t: np.exp(s * 0.3) * t, {a}, {b})
""")

#: Indices: known values, and computed values.
ROWS = lines("""
[0, -1]
[-1, 0, 0]
numpy.array([0, -1, 0])
numpy.array([1, 0])
np.array([0, 1, 0])
np.arange({n})
np.arange({n})[::-1]
np.argsort({a}.reshape({n}, -1)[:, 0])
np.argsort({a}, axis=None) % {n}
np.flatnonzero({a}) % {n}
""")

ROW = lines("""
0
-1
1
np.int64(0)
np.int64(1)
numpy.array(1)
np.argmax({a}) % {n}
np.argmin({a}.ravel()) % {n}
int(np.argmax({a})) % {n}
np.argsort({a}.ravel())[0] % {n}
np.arange({n})[1]
np.count_nonzero({a}) % {n}
np.searchsorted([-0.5, 0.5], {c})
""")

MASKS = lines("""
{a} > {c}
{a} < {c}
np.abs({a}) > 0.4
~({a} > {c})
({a} > -0.8) & ({a} < {c})
np.arange(np.size({a})).reshape(np.shape({a})) % 2 == 0
numpy.arange(np.size({a})).reshape(np.shape({a})) % 2 == 1
np.isfinite({a}) & ({a} < {c})
""")

#: Left sides of an indexed write.
PARTS = lines("""
{v}[...]
{v}[:]
{v}[{row}]
{v}[0]
{v}[-1]
{v}[1:]
{v}[:-1]
{v}[::2]
{v}[::-1]
{v}[-1:0:-1]
{v}[..., 0]
{v}[:, 1]
{v}[..., ::-1]
{v}[None]
{v}[{rows}]
{v}[{mask}]
{v}[np.nonzero({mask})]
{v}[0, 1:]
{v}[{row}, 1]
{v}[[0, -1], [1, 0]]
{v}[..., [1, 0]]
{v}[{row}, ...]
{v}.T[...]
{v}.T[0]
{v}.T[::-1]
{v}.ravel()[...]
{v}.ravel()[1:]
{v}.reshape(-1)[::2]
{v}.reshape(-1)[{row}]
{v}.swapaxes(0, -1)[1:]
{v}.flat[1]
np.transpose({v})[1:]
np.flip({v})[:2]
np.rot90({v})[0]
np.split({v}, 2)[1][...]
np.squeeze({v})[...]
np.atleast_2d({v})[:, 1:]
np.moveaxis({v}, 0, -1)[..., 0]
np.ravel({v}, order="K")[:2]
""")

# ----- statements -----------------------------------------------------------------------------------------------------

#: First statements of a program, which also occur later.
BUFFERS = lines("""
{new} = np.zeros(3)
{new} = np.ones(4) * 0.5
{new} = np.zeros((2, 3))
{new} = np.full((3, 3), 0.3)
{new} = np.zeros_like({a})
{new} = np.ones_like({a}) * 0.5
{new} = np.full_like({a}, 0.4)
{new} = np.linspace(0.1, 0.9, 4)
{new} = np.eye(3)
{new} = {a}.copy()
{new} = np.array({a})
{new} = {a} * 1.0
{new} = {a} + 0.0
{new} = {a}.T.copy()
{new} = {a}[...].copy()
{new} = np.array([{a}[0], {c}, {a}[-1]])
{new} = np.array([[{c}, {c}], [{c}, {c}]])
{new} = np.zeros((2, 2), order="F")
""") + blocks("""
{new} = np.empty(3)
{new}[:] = {c}

{new} = np.empty(3)
{new}[0] = {c}
{new}[1:] = {c}

{new} = np.empty_like({a})
{new}[...] = {a}

{new} = np.empty((2, 3))
for i in range(2):
    {new}[i] = {c} * i

{new} = np.empty({n})
for i in range({n}):
    {new}[i] = {a}[i] * {c} if {a}.ndim == 1 else np.sum({a}[i])
""")

#: Plain ndarrays beside Arrays: constants, and what NumPy itself writes.
CONSTANTS = lines("""
{new} = numpy.array([0.4, -0.3, 0.8])
{new} = numpy.array([[0.5, -0.2, 0.1], [0.7, 0.3, -0.6]])
{new} = numpy.full(4, 0.6)
{new} = numpy.array([[0.9, 0.2], [-0.4, 1.1]])
{new} = numpy.linspace(-0.5, 0.7, 6).reshape(3, 2)[:, ::-1]
{constant}[0] = {c}
{constant}[1:] *= {c}
{constant} += {c}
{constant}.sort()
{new} = {constant}[::-1]
{new} = np.asarray({constant})
""")

VALUES = lines("""
{new} = {a}
{new} = {a} + {b}
{new} = {a} * {b}
{new} = np.sum({a} * {b})
{new} = {a}.sum() * {b}
{new} = {name}
""")

WRITES = lines("""
{part} = {w}
{part} = {w}
{part} += {w}
{part} *= {w}
{part} -= {w}
{part} /= {w} * {w} + 1.5
{part} **= 2
{part} = {c}
{part} *= {c}
{v} += {w}
{v} *= {w}
{v} -= {w} * {v}
{v} /= 1.7
{v} *= {v}
{v} **= 2
{v}[...] = {v}[::-1]
{v}[1:] = {v}[:-1]
{v}[:-1] += {v}[1:]
{v}[::-1] = {v}
{v}[...] = {v}.T
{v} += {v}.T
{v} @= {square}
{v} *= {v}[0]
{v}[0], {v}[1] = {v}[1], {v}[0]
{v}[[0, 1]] = {v}[[1, 0]]
{v}[0], {v}[1] = {v}[1].copy(), {v}[0].copy()
{v}.fill({c})
{v}.sort()
{v}[{mask}] = {c}
{v}[{mask}] *= {w}
np.add.at({v}, {rows}, {w})
np.add.at({v}, [0, 1, 0], {c})
np.multiply.at({v}, {rows}, {c})
np.subtract.at({v}, {rows}, {w})
np.maximum.at({v}, {rows}, {c})
np.sin({w}, out={v})
np.exp({v} * 0.4, out={v})
np.tanh({v}, out={v})
np.sqrt({v} * {v} + 0.4, out={v})
np.add({v}, {w}, out={v})
np.multiply({v}, {w}, out={v})
np.multiply({w}, {c}, out={part})
np.subtract({v}, {w}, out={v}, where={mask})
np.exp({w} * 0.5, out={v}, where={mask})
np.log({v}, out={v}, where={v} > 0.1)
np.divide({w}, {v}, out={v}, where=np.abs({v}) > 0.3)
np.negative({v}, {v})
np.clip({v}, -0.6, 0.7, out={v})
np.cumsum({v}, axis=0, out={v})
np.cumprod({v}, axis=0, out={v})
np.add.accumulate({v}, out={v})
np.maximum({v}, {w}, out={v})
np.sum({a}, axis=0, out={v})
np.mean({a}, axis={axis}, out={v})
np.max({a}, axis=0, out={v})
np.matmul({square}, {square}, out={v})
np.dot({square}, {vector}, out={v})
np.einsum("ij,j->i", {square}, {vector}, out={v})
np.stack([{a}, {a}], out={v})
np.concatenate([{a}, {a}], out={v})
np.take({a}, {rows}, axis=0, out={v}, mode="clip")
np.nan_to_num({v}, copy=False)
np.copyto({v}, {w})
np.copyto({v}, {w}, where={mask})
np.copyto({part}, {w})
np.putmask({v}, {mask}, {w})
np.place({v}, {mask}, [{c}, {c}])
np.place({v}, {mask}, np.ravel({w} * 1.0))
np.put({v}, [0, -1], {w})
np.put({v}, [0, 1], [{c}, {c}])
np.put({v}, np.argmax({a}), {c})
np.put({v}, np.argsort({a}, axis=None)[:2] - 1, {w})
np.put({v}, np.argsort({v}, axis=None) * 3, {w}, mode="wrap")
np.putmask({v}, {mask}, [{c}, {c}, {c}])
{v}[{v}[..., 0] > {c}] = {c}
{v}[{v}[0] > {c}] = {w}
{v}[:, {v}[0] > {c}] = {c}
np.put_along_axis({v}, np.argsort({v}, axis=0), {w}, axis=0)
np.put_along_axis({v}, np.argmax({v}, axis=-1, keepdims=True), {c}, axis=-1)
np.fill_diagonal({v}, {c})
np.fill_diagonal({v}, {w})
np.fill_diagonal({v}, {v}[..., ::-1])
{v}.flat[1:] = {v}
{v}.reshape(-1)[...] = np.ravel({a})
{v}.ravel()[{row}] += {c}
{v}.T[...] += {c}
{v}[np.argmax({v})] *= {c}
{v}[np.argmax({v})] *= np.sum({w})
{v}[np.argsort({v})] = {w}
{v}[np.unravel_index(np.argmax({v}), {v}.shape)] = {c}
{v}[tuple(np.argwhere({v} > -9.0)[0])] *= {c}
{v}.put([0], {c})
{v}[0] = np.sum({v} * {v})
{v}[-1] = np.sum({v}[:-1]) * {c}
{v}.flat[0] = {c}
{v}.flat[:] = np.ravel({v}) * {c}
""") + blocks("""
{new} = {v}[0]
{v}[0] = {v}[1]
{v}[1] = {new}

{new} = {v}[0].copy()
{v}[0] = {v}[-1]
{v}[-1] = {new}

{new} = np.argsort({v})
for i in range(len({v}) - 1):
    {v}[{new}[i]], {v}[{new}[i + 1]] = {v}[{new}[i + 1]], {v}[{new}[i]] * {c}
""")

#: A value that its own node may have saved, written in place at once.
SAVED = blocks("""
{new} = np.exp({a} * 0.5)
{new} *= {c}

{new} = np.tanh({a})
{new} += {b}

{new} = np.sqrt({a} * {a} + 0.5)
{new}[0] = {c}

{new} = np.std({a}, axis={axis})
{new} *= {c}

{new} = np.cumprod({a})
{new}[1:] = {c}

{new} = np.linalg.inv({square} + 2.0 * np.eye(len({square})))
{new} *= {c}

{new} = np.linalg.cholesky({square} @ {square}.T + np.eye(len({square})))
{new}[0] = {c}

{new} = np.linalg.solve({square} + 2.5 * np.eye(len({square})), {vector})
{new} -= {c}

{new} = np.maximum.accumulate({a})
{new}[...] = {c} * {new}

{new} = 1.0 / ({a} * {a} + 1.0)
{new}[::-1] *= {c}

{new} = np.power({a} * {a} + 0.4, 1.5)
{new} /= 1.3

{new} = grow({a})
{new} *= {c}

{new} = cube({a})
{new} += {c}

{new} = np.max({a}, axis={axis})
{new} *= {c}

{new} = np.logaddexp({a}, {b})
{new} *= {new}
""")

LOOPS = lines("""
{new} = np.array([np.sum({a}[i:]) for i in range({n})])
{new} = np.array([e * {c} for e in np.ravel({a})])
{new} = sum(e * e for e in {a})
{new} = max(np.ravel({a}))
""") + blocks("""
for i in range(1, {n}):
    {v}[i] = {v}[i - 1] * {c} + {v}[i]

for i in range(1, {n}):
    {v}[i] += np.sin({v}[i - 1])

for i in np.arange({n}):
    {v}[i] = {v}[i] * {c}

for i in np.arange({n} - 1):
    {v}[i] -= {v}[i + 1] * {c}

for i in np.argsort({v}.ravel())[:2] % {n}:
    {v}[i] *= {c}

for row in {v}:
    row *= {c}

for row in {v}:
    row[0] += {c} * np.sum(row)

for i, e in enumerate({v}):
    {v}[i] = e * e + {c}

for i in range(2):
    {part} = {w}

for i in range(2):
    {v} *= {c}
    {v} += {w}

for i in range({n}):
    for j in range(i):
        {v}[i] += {v}[j] * {c}

{new} = 0.0
for e in {a}:
    {new} = {new} + np.sum(e * e)

{new} = {c}
for i in range(3):
    {new} += np.sum({a}) * {new} * 0.1

{new} = []
for i in range(2):
    {new}.append({a} * (i + {c}))
{new} = np.stack({new})

{new} = [{a} * {c}]
for i in range(2):
    {new}.append(np.tanh({new}[-1]))
{new} = np.concatenate({new})

{new} = {a}
while np.sum({new} * {new}) > 0.7:
    {new} = {new} * 0.5

if np.sum({a}) > {c}:
    {v}[...] = {w}
else:
    {v} *= {c}

if {v}[{row}].max() > {c}:
    {v}[{row}] *= {c}

def step(u, s):
    u[1:] += s * u[:-1]
    return u
{new} = step({v}, {c})

def step(u, s):
    u = u * s
    u[0] = s
    return np.sum(u)
{new} = step({v}, {c}) * {b}

def step(u, s):
    out = np.zeros_like(u)
    out[1:] = u[:-1] * s
    out[0] = u[-1]
    return out
for i in range(2):
    {v} = step({v}, {c})

def step(u):
    w = np.exp(u * 0.3)
    w[0] *= 2.0
    return w
{new} = recomputed(step, {a})
""")

#: The kinds of statements, and how often each is drawn.
STATEMENTS = {
    "buffer": (BUFFERS, 3),
    "constant": (CONSTANTS, 1),
    "value": (VALUES, 5),
    "write": (WRITES, 6),
    "saved": (SAVED, 1),
    "loop": (LOOPS, 2),
}
EXPRESSIONS = {"unary": (UNARY, 3), "binary": (BINARY, 3), "view": (VIEWS, 3), "whole": (WHOLE, 4)}
