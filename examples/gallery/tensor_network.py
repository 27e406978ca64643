"""A tensor network: the ground state of a chain of quantum spins, by the gradient of its energy.

The state of n spins has 2ⁿ numbers. A matrix product state represents it by n small tensors, and its energy is a
contraction from left to right. The gradient in those tensors minimises the energy. The exact minimum is known.
"""

from __future__ import annotations

import itertools

import numpy as np

import ndgrad
import ndgrad.numpy as dnp

X, Z = np.array([[0.0, 1.0], [1.0, 0.0]]), np.diag([1.0, -1.0])


# The exact energy of this chain is known, so the error can be drawn.
def exact_energy(spins, field):
    """Return the exact energy by free fermions: minus the sum of the singular values of a matrix with two diagonals."""
    return -np.linalg.svd(field * np.eye(spins) + np.eye(spins, k=1), compute_uv=False).sum()


# The energy is a contraction of small tensors, site by site. It is plain array code, and its gradient
# is automatic.
def energy(tensors, field):
    """Return ⟨ψ|H|ψ⟩ / ⟨ψ|ψ⟩ for H = -Σ ZᵢZᵢ₊₁ - field Σ Xᵢ, with the tensors (left bond, spin, right bond) of ψ.

    Three sums travel along the chain: the norm, the finished terms on the left, and a half-finished ZZ term.
    """

    def contract(left, tensor, operator=None):
        top = tensor if operator is None else dnp.einsum("st,atb->asb", operator, tensor)
        return dnp.einsum("ac,asb,csd->bd", left, top, tensor)

    norm = dnp.ones((1, 1))
    done = half = dnp.zeros((1, 1))
    for tensor in tensors:
        done = contract(done, tensor) - contract(half, tensor, Z) - field * contract(norm, tensor, X)
        half, norm = contract(norm, tensor, Z), contract(norm, tensor)
        scale = dnp.sqrt((norm**2).sum())  # the same for all three, which keeps their ratio
        norm, done, half = norm / scale, done / scale, half / scale
    return (done / norm).sum()


# L-BFGS minimises the energy over the entries of all tensors.
def ground_state(spins, field, bond, steps, rng):
    """Return the energy after each step of L-BFGS from a random state."""
    sizes = [min(bond, 2**i, 2 ** (spins - i)) for i in range(spins + 1)]
    starts = (rng.normal(size=(a, 2, b)) / np.sqrt(a) for a, b in itertools.pairwise(sizes))
    tensors = [dnp.array(start).requires_grad_() for start in starts]
    optimizer = ndgrad.optim.LBFGS(
        tensors, max_iter=steps, history_size=20, line_search_fn="strong_wolfe", tolerance_change=1e-13
    )
    energies = []

    def closure():
        optimizer.zero_grad()
        loss = energy(tensors, field)
        loss.backward()
        energies.append(float(loss.detach()))
        return loss

    optimizer.step(closure)
    return np.minimum.accumulate(energies)


def main(quick: bool = False) -> tuple[float, ndgrad.viz.Picture]:
    """The relative error of the best energy, and the energy curves for several bond dimensions."""
    # Larger bonds between neighbours describe more states, so the error falls with the bond
    # dimension.
    spins, field = (6, 1.0) if quick else (16, 1.0)  # at field 1 the chain is critical, the hardest case
    exact = exact_energy(spins, field)
    title = f"energy of {spins} spins above the exact one"
    chart = ndgrad.viz.Chart(title, x="evaluations", y="relative error", log_y=True)
    for bond in (2, 4) if quick else (2, 4, 8):
        energies = ground_state(spins, field, bond, 30 if quick else 150, np.random.default_rng(0))
        errors = (energies - exact) / abs(exact)
        print(f"bond {bond}: energy {energies[-1]:.8f}, exact {exact:.8f}")
        chart.line(range(len(errors)), errors, f"bond {bond}")
    return float(errors[-1]), chart


if __name__ == "__main__":
    main()[1].save("tensor_network.svg")
