"""A blurred, noisy image made sharp again: total variation and a blur applied by FFT, both differentiated."""

from __future__ import annotations

import numpy as np

import ndgrad
import ndgrad.numpy as dnp


def main(quick: bool = False) -> tuple[float, ndgrad.viz.Picture]:
    """The error of the restored image relative to that of the blurred one, and both images."""
    # Make an image of two rectangles, blur it with a Gaussian, and add noise. The blur is a product
    # in the frequency domain.
    size = 32 if quick else 64
    rng = np.random.default_rng(0)
    picture = np.zeros((size, size))
    picture[size // 4 : size // 2, size // 4 : 3 * size // 4] = 1.0
    picture[size // 2 : 3 * size // 4, size // 3 : size // 2] = 0.6
    f = np.fft.fftfreq(size)
    blur = np.exp(-0.5 * (f[:, None] ** 2 + f[None, :] ** 2) * (2 * np.pi * 1.2) ** 2)
    data = np.fft.ifft2(np.fft.fft2(picture) * blur).real + 0.01 * rng.normal(size=picture.shape)

    # Find the image that explains the data best, with a penalty on the length of edges.
    x = dnp.array(data).requires_grad_()
    optimizer = ndgrad.optim.Adam([x], lr=0.02)
    for _ in range(150 if quick else 400):
        again = dnp.fft.ifft2(dnp.fft.fft2(x) * blur).real
        edges = dnp.sqrt(dnp.diff(x, axis=0)[:, :-1] ** 2 + dnp.diff(x, axis=1)[:-1] ** 2 + 1e-6).sum()
        loss = ((again - data) ** 2).sum() + 2e-3 * edges
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    # Compare the restored image with the one that was blurred.
    restored = x.detach().numpy()
    before, after = np.abs(data - picture).mean(), np.abs(restored - picture).mean()
    print(f"mean error: blurred {before:.4f}, restored {after:.4f}")
    images = {"the image": picture, "blurred, with noise": data, "restored": restored}
    charts = (ndgrad.viz.Chart(name, width=190, height=210).image(v, low=0, high=1) for name, v in images.items())
    return float(after / before), ndgrad.viz.beside(*charts)


if __name__ == "__main__":
    main()[1].save("deconvolution.svg")
