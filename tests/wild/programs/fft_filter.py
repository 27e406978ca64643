"""Deconvolution of a seismogram by water level, in the frequency domain; roughness of the result."""

import numpy as np


def deconvolve(trace, wavelet, level):
    n = len(trace)
    nfft = 2 ** int(np.ceil(np.log2(2 * n)))
    T = np.fft.rfft(trace, nfft)
    W = np.fft.rfft(wavelet, nfft)
    power = np.abs(W) ** 2
    power = np.maximum(power, level * power.max())
    freq = np.fft.rfftfreq(nfft, d=0.1)
    taper = np.exp(-((freq / 2.0) ** 2))
    return np.fft.irfft(T * np.conj(W) / power * taper, nfft)[:n]


def roughness(trace, wavelet, level):
    r = deconvolve(trace, wavelet, level)
    return np.sum(np.diff(r) ** 2) / r.std()
