"""Two-stream atmosphere: layer by layer emission and absorption, brightness temperature at the top."""

import numpy as np

H, C, KB = 6.626e-34, 2.998e8, 1.381e-23


def planck(wavenumber, T):
    nu = wavenumber * 100 * C
    return 2 * H * nu**3 / C**2 / np.expm1(H * nu / (KB * T))


def brightness_temperature(T, wavenumber, vapour, surface):
    tau = 0.3 * vapour * (wavenumber / 1000.0) ** -2
    radiance = planck(wavenumber, surface)
    for layer in range(len(T)):
        trans = np.exp(-tau[layer])
        radiance = radiance * trans + (1 - trans) * planck(wavenumber, T[layer])
    nu = wavenumber * 100 * C
    return H * nu / KB / np.log1p(2 * H * nu**3 / C**2 / radiance)
