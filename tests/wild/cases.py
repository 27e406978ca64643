"""Arguments of each program of `programs`, the one to differentiate by, and the method: NumPy's protocols alone, or lifting."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

rng = np.random.default_rng(11)


class Case(NamedTuple):
    subject: str
    program: str  # module and function
    arguments: tuple[Any, ...]
    way: str  # "protocols" or "lift"
    habits: str  # what makes it hard: indexed writes into buffers, np.array of results, methods
    number: int = 0  # the argument to differentiate in
    oracle: str = "differences"  # another oracle is "complex step"

    @property
    def function(self) -> Callable[..., Any]:
        module, name = self.program.split(".")
        return getattr(importlib.import_module(f"tests.wild.programs.{module}"), name)


def _positions(n: int) -> Any:
    return np.sort(rng.random(n)) * 4.0


def _spd_noise(n: int) -> Any:
    return rng.standard_normal((n, n)) + 3.0 * np.eye(n)[::-1]


_x = _positions(12)
_hole = np.zeros((7, 8), bool)
_hole[3:5, 2:4] = True
_image = np.exp(-((np.arange(9)[:, None] - 4.2) ** 2 + (np.arange(10) - 4.7) ** 2) / 8.0) + 0.05 * rng.random((9, 10))
_alignment = {"human": "ACGTACGGTA", "chimp": "ACGTACGATA", "mouse": "ACCTATGGTC", "rat": "ACCTTTGGTC"}
_nodes = np.array([[0.0, 0.0], [0.0, 1.0], [1.0, 0.1], [1.0, 1.0], [2.0, 0.4]])
_bars = [(0, 2), (1, 3), (1, 2), (2, 3), (2, 4), (3, 4), (0, 3)]
_load = np.zeros(10)
_load[-1] = -1.0

CASES = [
    Case("regression", "least_squares.gcv", (-1.0, _x, np.sin(_x) + 0.1 * rng.standard_normal(12), rng.random(12) + 0.5), "protocols",
         "buffers of constants", 0, "complex step"),
    Case("Kalman filter", "kalman.log_likelihood", (np.array([-0.5, 0.2]), rng.standard_normal((6, 2)).cumsum(axis=0)), "lift",
         "indexed writes, +=, a class with state"),
    Case("Gaussian process", "gaussian_process.nll", (np.array([0.1, 0.3, -0.5, 0.2, 0.4, -1.0]), _x, np.sin(_x)), "lift",
         "+= on a diagonal, SciPy's Cholesky"),
    Case("wave equation", "wave_equation.misfit", (1.0 + 0.2 * rng.random((6, 7)), 0.05 * rng.standard_normal((12, 7))), "lift",
         "stencil written by slices, records kept in np.empty"),
    Case("rigid body", "rigid_body.pointing_error", (np.array([0.3, 1.1, -0.4]), np.array([1.0, 2.0, 3.0]), np.array([0.6, 0.0, 0.8])),
         "lift", "np.array of results, /= on it"),
    Case("beam optics", "beam_optics.mismatch", (np.array([0.3, 0.5]), np.array([0.2, 0.8, 0.4]), 2e-4), "lift",
         "np.eye with one element written, complex numbers"),
    Case("American option", "binomial_tree.american_put", (95.0, 100.0, 0.03, 0.25), "lift", "buffers overwritten step by step", 3),
    Case("option book", "black_scholes.portfolio",
         (100.0, 0.2, np.array([90.0, 100.0, 110.0]), np.array([0.5, 1.0, 2.0]), np.array([1.0, -2.0, 3.0]), np.array([True, False, True])),
         "protocols", "np.where, SciPy's ufunc", 1),
    Case("phylogeny", "phylogeny.log_likelihood", (np.log([2.0, 0.1, 0.12, 0.2, 0.25, 0.3, 0.15]), _alignment, np.full(4, 0.25)), "lift",
         "a rate matrix filled by loops, matrix exponential, recursion"),
    Case("deconvolution", "fft_filter.roughness", (rng.standard_normal(20), np.exp(-np.arange(20) / 2.0), 0.01), "protocols",
         "FFTs, x.std()", 1),
    Case("log density", "mcmc_density.log_density",
         (0.3 * rng.standard_normal(10), np.array([28.0, 8, -3, 7, -1, 1, 18, 12]), np.array([15.0, 10, 16, 11, 9, 11, 10, 18])), "lift",
         "scipy.stats"),
    Case("hidden Markov model", "hidden_markov.log_forward",
         (np.log([1.0, 4.0, 9.0]), rng.standard_normal((3, 3)), np.array([0, 3, 5, 8, 2, 1])), "lift",
         "np.empty filled element by element", 1),
    Case("n-body problem", "nbody.final_separation",
         (rng.standard_normal((3, 2)), 2.0 * rng.standard_normal((3, 2)), np.array([1.0, 0.5, 0.2])), "lift",
         "rows of np.zeros_like summed, += on copies, x.std()"),
    Case("spline", "spline_fit.chi2",
         (rng.standard_normal(6), np.arange(6.0), np.array([0.2, 1.7, 3.3, 4.9]), rng.standard_normal(4)), "lift",
         "a recurrence in two buffers, searchsorted", 0),
    Case("mean-field Ising", "ising.free_energy", (0.3 * rng.standard_normal((4, 5)), 0.4, 0.5), "lift",
         "+= on np.zeros, a stopping rule", 0),
    Case("epidemic", "epidemic.deviance", (np.array([20.0, 8.0, 0.3]), np.array([30.0, 60.0, 90.0, 70.0])), "lift",
         "rows written, derivative in a buffer"),
    Case("ray tracing", "ray_tracing.spot_size", (np.array([0.2, -0.1]), np.array([-0.5, -0.2, 0.1, 0.45])), "lift",
         "np.array of results, .std(), branches"),
    Case("ARMA-GARCH", "arma.loglik", (np.array([0.4, 0.2, 0.3, 0.1, 0.2, 0.5]), rng.standard_normal(15)), "lift",
         "two recurrences in buffers, y.var()"),
    Case("image registration", "registration.score", (np.array([0.05, 0.02, -0.03, 0.04, 0.3, -0.2]), _image, np.roll(_image, 1, axis=1)),
         "protocols", "advanced indexing, means"),
    Case("radiative transfer", "radiative_transfer.brightness_temperature",
         (np.array([280.0, 260.0, 240.0, 220.0]), 900.0, np.array([1.0, 0.6, 0.3, 0.1]), 290.0), "protocols", "a loop over layers", 0,
         "complex step"),
    Case("chemical kinetics", "kinetics.yield_of_product", (np.log([0.5, 3.0, 2.0]), [1.0, 0.2, 0.0]), "lift",
         "np.array of results, rows assigned from lists, Newton with a stopping rule"),
    Case("conjugate gradients", "conjugate_gradient.compliance", (1.0 + rng.random(7), rng.random(8)), "lift", "slices written, +=, -="),
    Case("Jacobi iteration", "jacobi_iteration.mean_temperature", (rng.random(8), rng.random((7, 8)), _hole), "lift",
         "slices written, boolean masks", 0),
    Case("diffusion", "thomas.escaped", (0.5 + rng.random(8), rng.random(8)), "lift", "Thomas algorithm in place", 0),
    Case("Householder QR", "householder.prediction", (rng.standard_normal((5, 3)), rng.standard_normal(5), rng.standard_normal(3)), "lift",
         "-= on blocks of a matrix"),
    Case("Gaussian elimination", "gauss_elimination.quantity", (_spd_noise(4), rng.standard_normal(4)), "lift",
         "row swaps by index, a swap through a temporary"),
    Case("sequence alignment", "sequence_alignment.score", (1.0, -0.6, -0.8, "GATTACA", "GCATGCT"), "lift",
         "a table filled cell by cell, math.exp, max, float()", 2),
    Case("truss", "truss.tip_deflection", (0.5 + rng.random(7), _nodes, _bars, [0, 1, 2, 3], _load), "lift",
         "assembly with K[np.ix_()] +=", 0),
    Case("predator and prey", "lotka_volterra.misfit",
         (np.log([0.6, 0.03, 0.8, 0.02]), np.linspace(0.0, 1.5, 3), np.array([[30.0, 4], [40, 5], [54, 7]])), "lift",
         "solve_ivp"),
]  # fmt: skip
