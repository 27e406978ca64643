"""Labelled arrays: xarray over ndgrad's Arrays.

xarray keeps any array that implements NumPy's protocols, so a DataArray of an Array records its
computations. `.data` is the Array.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import xarray as xr

import ndgrad.numpy as dnp


def score(temperature: Any) -> Any:
    """Return the distance of a field's anomalies from a mode of variability, plus the additional warming of the north
    compared with the south."""
    field = xr.DataArray(
        temperature, dims=("time", "lat", "lon"), coords={"lat": [-45.0, 0.0, 45.0], "lon": [0.0, 90.0, 180.0, 270.0]}
    )
    weights = np.cos(np.deg2rad(field["lat"]))
    anomalies = field - field.mean("time")
    index = (anomalies * weights).sel(lat=slice(-10, 60)).mean(("lat", "lon"))
    contrast = (field.sel(lat=45.0) - field.sel(lat=-45.0)).isel(time=-1).mean("lon")
    spread = anomalies.std("time").max()
    return ((index**2).sum() + contrast * spread + xr.where(field > 0, field, 0.1 * field).sum()).data


def main() -> float:
    """Return the largest deviation from central differences."""
    rng = np.random.default_rng(0)
    values = rng.standard_normal((5, 3, 4))
    temperature = dnp.array(values).requires_grad_()
    score(temperature).backward()
    direction, h = rng.standard_normal(values.shape), 1e-6
    expected = float(score(values + h * direction) - score(values - h * direction)) / (2 * h)
    error = abs(expected - float((temperature.grad * direction).sum()))
    by_latitude = xr.DataArray(temperature.grad.numpy(), dims=("time", "lat", "lon")).sum(("time", "lon"))
    print(f"sensitivity by latitude {by_latitude.values.round(3)}; differs from differences by {error:.1e}")
    return error


if __name__ == "__main__":
    main()
