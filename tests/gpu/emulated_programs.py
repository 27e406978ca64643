"""Programs over kernels that run on the processor: `python -m tests.gpu.emulated_programs` prints results as JSON.

Values are those of the CPU and of the emulated device (emulated_device), by name. Errors are their texts.
"""

from __future__ import annotations

import json

import numpy as np

from tests.gpu import emulated_device


def draw(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape)


def both(found, name, function, *arrays):
    """Note the results and gradients of a function on the CPU and on the device."""
    import ndgrad

    values = []
    for device in ("cpu", "cuda"):
        given = [ndgrad.tensor(a, device=device, requires_grad=True) for a in arrays]
        out = function(*given)
        gradients = ndgrad.autograd.grad(out.double().square().sum(), given, allow_unused=True)
        values.append([t.detach().cpu().double().numpy().tolist() for t in (out, *[g for g in gradients if g is not None])])
        values[-1].append(list(out.stride()))
    found[name] = values


def main():
    emulated_device.install()
    import ndgrad
    from ndgrad._src.arrays import graph_recording

    found = {}
    square = draw(3, 5, 5) + 5 * np.eye(5)
    both(found, "solve with odd layouts", lambda a, b: ndgrad.linalg.solve(a.mT, b.flip(-2)), square, draw(3, 5, 2, seed=1))
    both(found, "cast in memory order", lambda x: (x * 2).transpose(0, 2).to(ndgrad.bfloat16), draw(2, 3, 4))
    norms = {"cpu": ndgrad.nn.BatchNorm2d(3, dtype=ndgrad.float64)}
    norms["cuda"] = ndgrad.nn.BatchNorm2d(3, dtype=ndgrad.float64, device="cuda")
    both(found, "batch_norm", lambda x: norms[x.device.type](x), draw(4, 3, 2, 5) + 1)
    found["running statistics"] = [[*m.running_mean.tolist(), *m.running_var.tolist()] for m in norms.values()]

    matrices, one = ndgrad.tensor(np.stack([np.eye(3), np.zeros((3, 3))]), device="cuda"), ndgrad.ones(1, device="cuda")
    graph_recording.active = graph_recording.Recording()
    ndgrad.linalg.inv(matrices)
    replayed, graph_recording.active = graph_recording.active.before_replay, None
    for prepare in replayed:
        prepare()
    try:
        one.item()
    except np.linalg.LinAlgError as error:
        found["recorded inverse"] = str(error)
    print(json.dumps(found))


if __name__ == "__main__":
    main()
