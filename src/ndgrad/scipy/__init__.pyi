# Written by scripts/surface.py from the declarations of public functions. Do not edit.

from ndgrad.scipy import (
    fft as fft, integrate as integrate, interpolate as interpolate, linalg as linalg, ndimage as ndimage, optimize as
    optimize, signal as signal, sparse as sparse, spatial as spatial, special as special, stats as stats,
)

def __dir__() -> list[str]: ...
