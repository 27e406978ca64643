"""Gaussian beam through a chain of lenses by ABCD matrices; squared mismatch of the waist at the fibre."""

import math

import numpy as np


def drift(d):
    M = np.eye(2)
    M[0, 1] = d
    return M


def lens(f):
    M = np.eye(2)
    M[1, 0] = -1.0 / f
    return M


def waist_at_end(focal, gaps, w0=1e-3, wavelength=1064e-9):
    system = drift(gaps[0])
    for f, d in zip(focal, gaps[1:]):
        system = drift(d) @ lens(f) @ system
    (A, B), (C, D) = system
    q = 1j * math.pi * w0**2 / wavelength
    q = (A * q + B) / (C * q + D)
    return np.sqrt(-wavelength / (np.pi * np.imag(1 / q)))


def mismatch(focal, gaps, target):
    return (waist_at_end(focal, gaps) / target - 1.0) ** 2
