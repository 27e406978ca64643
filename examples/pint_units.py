"""Quantities with units: pint over ndgrad's Arrays. `.magnitude` is the Array."""

from __future__ import annotations

from typing import Any

import numpy as np
import pint

import ndgrad.numpy as dnp

units = pint.UnitRegistry()


def energy(speed: Any, height: Any) -> Any:
    """Return the energy of three bodies, in kilojoules."""
    mass = np.array([1.0, 2.0, 3.0]) * units.kilogram
    v = speed * units.kilometer / units.hour
    kinetic = 0.5 * mass * v**2
    potential = mass * (9.81 * units.meter / units.second**2) * (height * units.meter)
    total = np.sum(kinetic + potential)
    drag = np.sqrt(np.mean(v.to("m/s") ** 2)) * (3.0 * units.newton * units.second)
    return (total + drag).to("kJ").magnitude


def main() -> float:
    """Return the largest deviation from central differences."""
    speeds, heights, h = np.array([30.0, 50.0, 80.0]), np.array([1.0, 20.0, 5.0]), 1e-5
    v, z = dnp.array(speeds).requires_grad_(), dnp.array(heights).requires_grad_()
    energy(v, z).backward()
    worst = 0.0
    for k, unit in enumerate(np.eye(3)):
        by_speed = (energy(speeds + h * unit, heights) - energy(speeds - h * unit, heights)) / (2 * h)
        by_height = (energy(speeds, heights + h * unit) - energy(speeds, heights - h * unit)) / (2 * h)
        worst = max(worst, abs(by_speed - v.grad[k].item()), abs(by_height - z.grad[k].item()))
    print(f"kJ per km/h: {v.grad}, kJ per m: {z.grad}; differ from differences by {worst:.1e}")
    return worst


if __name__ == "__main__":
    main()
