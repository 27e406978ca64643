"""The short-time Fourier transform and its inverse, under torch's names.

Frames are a view of windows of the signal (`unfold`), multiplied by the window and transformed. The inverse adds
overlapping frames (`unfold_backward`) and divides by the sum of the squared windows. Everything is composed of ops,
so derivatives of any order, with respect to signal and window, and batching follow.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ndgrad._src.arrays.dtypes import as_dtype
from ndgrad._src.arrays.precision import is_floating
from ndgrad._src.core.variable import innermost_array, np_dtype, wrap_like
from ndgrad._src.ops import index, padding, shape
from ndgrad._src.ops import window as windows
from ndgrad._src.ops.resample import border_taps, resample
from ndgrad._src.tensor.arguments import as_integer
from ndgrad._src.tensor.functions import fft
from ndgrad._src.tensor.functions.reduce import ndim_of
from ndgrad._src.tensor.functions.shape import view_as_real

if TYPE_CHECKING:
    from ndgrad._typing import Tensor

__all__ = ["istft", "stft"]
METHODS = ("istft", "stft")


def _check_sizes(
    name: str, n_fft: int, hop_length: int | None, win_length: int | None, window: Tensor | None
) -> tuple[int, int, int]:
    """Check and return the points of a transform, the distance of frames, and the length of the window."""
    n = as_integer(name, "n_fft", n_fft)
    hop = n // 4 if hop_length is None else as_integer(name, "hop_length", hop_length)
    length = n if win_length is None else as_integer(name, "win_length", win_length)
    if n <= 0:
        raise RuntimeError(
            f"{name}: expected n_fft > 0, but it is {n}. Give the number of points of each transform. [nd-window]"
        )
    if hop <= 0:
        raise RuntimeError(
            f"{name}: expected hop_length > 0, but it is {hop}. Give the distance of frames. [nd-window]"
        )
    if not 0 < length <= n:
        raise RuntimeError(
            f"{name}: expected 0 < win_length <= n_fft, but got win_length={length} and n_fft={n}. [nd-window]"
        )
    if window is not None and tuple(window.shape) != (length,):
        raise RuntimeError(
            f"{name}: expected a 1D window tensor of size equal to win_length={length}, but got window with size "
            f"{list(window.shape)}. [nd-window]"
        )
    return n, hop, length


def _centre_window(window: Tensor | None, like: Tensor, length: int, n: int) -> Tensor:
    """Return the window (ones if there is none) padded by zeros on both sides to n points."""
    if window is None:
        window = wrap_like(like, np.ones(length, _real(np_dtype(like))))
    left = (n - length) // 2
    return padding.constant_pad_nd(window, pads=((left, n - length - left),), value=0) if length < n else window


def _real(dtype: np.dtype[Any]) -> np.dtype[Any]:
    return np.empty(0, dtype).real.dtype if dtype.kind == "c" else dtype


def _pad_signal(input: Tensor, size: int, mode: str) -> Tensor:
    """Pad a signal by `size` points at each end."""
    dim = input.ndim - 1
    if mode == "constant":
        return padding.constant_pad_nd(input, pads=(*((0, 0),) * dim, (size, size)), value=0)
    if mode not in ("reflect", "replicate", "circular"):
        raise NotImplementedError(
            f"stft: Unrecognised padding mode {mode}. Choose constant, reflect, replicate or circular. [nd-option]"
        )
    length = input.shape[dim]
    if size >= length + (mode != "reflect") or not length:
        raise RuntimeError(
            f"stft: Padding size should be less than the corresponding input dimension, but got: padding ({size}, "
            f"{size}) of a signal of "
            f"{length} points (shape {tuple(input.shape)}). Choose a smaller n_fft, or center=False. [nd-window]"
        )
    return resample(input, dim=(dim,), taps=(border_taps(length, size, size, mode),))


def stft(
    input: Tensor,
    n_fft: int,
    hop_length: int | None = None,
    win_length: int | None = None,
    window: Tensor | None = None,
    center: bool = True,
    pad_mode: str = "reflect",
    normalized: bool = False,
    onesided: bool | None = None,
    return_complex: bool | None = None,
    align_to_window: bool | None = None,
) -> Tensor:
    """The Fourier transforms of overlapping frames of a signal. Each frame is multiplied by the window and transformed.

    Args:
        input: signals of shape (length,) or (batch, length).
        n_fft: number of points of a frame.
        hop_length: distance of neighbouring frames. The default is n_fft // 4.
        win_length: length of the window, at most n_fft, to which zeros are added on both sides. The default is n_fft.
        window: vector of win_length numbers. The default is ones.
        center: whether the signal is padded so that frame t is centred at t * hop_length.
        pad_mode: padding with `center`: `"constant"`, `"reflect"`, `"replicate"` or `"circular"`.
        normalized: whether the result is divided by sqrt(n_fft).
        onesided: whether only frequencies 0 to n_fft // 2 are returned. The default is True for real signals and
            windows.
        return_complex: whether the result is complex. If False, a last dimension holds real and imaginary parts. It
            must be given for real signals.
        align_to_window: whether the signal is padded so that the first window starts at its first point. It is only for
            `center=False`.

    Returns:
        A tensor of shape (..., frequencies, frames).

    >>> import ndgrad
    >>> ndgrad.stft(ndgrad.ones(8), 4, hop_length=2, return_complex=True).real
    tensor([[4., 4., 4., 4., 4.],
            [0., 0., 0., 0., 0.],
            [0., 0., 0., 0., 0.]])
    """
    ndim = ndim_of(input, "stft")
    n, hop, length = _check_sizes("stft", n_fft, hop_length, win_length, window)
    dtype = np_dtype(input)
    if not (is_floating(dtype) or dtype.kind == "c"):
        raise RuntimeError(
            f"stft: expected a tensor of floating point or complex values, but it is {as_dtype(dtype)!r}. Convert it. "
            "[nd-dtype]"
        )
    if ndim not in (1, 2):
        raise RuntimeError(
            f"stft: expected a 1D or 2D tensor, a signal or a batch of them, but got shape {tuple(input.shape)}. "
            "[nd-ndim]"
        )
    is_complex = dtype.kind == "c" or (window is not None and np_dtype(window).kind == "c")
    if return_complex is None:
        if not is_complex:
            raise RuntimeError(
                "stft requires the return_complex parameter be given for real inputs. Pass return_complex=True. "
                "[nd-arguments]"
            )
        return_complex = True
    if onesided and is_complex:
        raise RuntimeError(
            "stft: Cannot have onesided output if window or input is complex. Pass onesided=False. [nd-complex]"
        )
    half = not is_complex if onesided is None else onesided
    if align_to_window is not None and center:
        raise RuntimeError(
            "stft align_to_window should only be set when center = false. Leave one of them out. [nd-exclusive]"
        )
    if center:
        input = _pad_signal(input, n // 2, pad_mode)
    elif align_to_window:
        left = (n - length) // 2
        input = padding.constant_pad_nd(input, pads=(*((0, 0),) * (ndim - 1), (left, left)), value=0)
    if input.shape[-1] < n:
        raise RuntimeError(
            f"stft: expected 0 < n_fft <= {input.shape[-1]}, the points of the signal, but got n_fft={n}. Pad the "
            "signal, or take center=True. [nd-window]"
        )
    frames = windows.unfold(input, dim=ndim - 1, width=n, step=hop)
    if window is not None or length < n:
        frames = frames * _centre_window(window, input, length, n)
    norm = "ortho" if normalized else None
    spectrum = fft.rfft(frames, norm=norm) if half else fft.fft(frames, norm=norm)
    made = shape.transpose(spectrum, dim0=ndim - 1, dim1=ndim)
    return made if return_complex else view_as_real(made)


def _check_istft(
    input: Tensor,
    n_fft: int,
    hop_length: int | None,
    win_length: int | None,
    window: Tensor | None,
    onesided: bool | None,
    return_complex: bool,
) -> tuple[int, int, int]:
    """Check the arguments of istft. Return the sizes of transforms, hops and windows."""
    ndim = ndim_of(input, "istft")
    if np_dtype(input).kind != "c":
        raise RuntimeError(
            "istft requires a complex-valued input tensor matching the output from stft with return_complex=True, but "
            "it is "
            f"{as_dtype(np_dtype(input))!r}. Use view_as_complex(). [nd-complex]"
        )
    n, hop, win = _check_sizes("istft", n_fft, hop_length, win_length, window)
    if ndim not in (2, 3):
        raise RuntimeError(
            "istft: expected a tensor with 2 or 3 dimensions, frequencies by frames, but got shape "
            f"{tuple(input.shape)}. [nd-ndim]"
        )
    bins, count = input.shape[-2], input.shape[-1]
    if not bins * count:
        raise RuntimeError(f"istft: input tensor cannot be empty, but its shape is {tuple(input.shape)}. [nd-too-few]")
    window_is_complex = window is not None and np_dtype(window).kind == "c"
    half = (bins != n) if onesided is None else onesided
    wanted = n // 2 + 1 if half else n
    if bins != wanted:
        raise RuntimeError(
            f"istft: expected the frequency dimension (3rd to the last) of the input tensor to match n_fft={n}: "
            f"{wanted} when "
            f"onesided={half}, but got {bins}. [nd-window]"
        )
    if return_complex and half:
        raise RuntimeError(
            "istft: Cannot have onesided output if window or input is complex. Pass onesided=False. [nd-complex]"
        )
    if window_is_complex and not return_complex:
        raise RuntimeError("istft: a complex window gives a complex signal. Pass return_complex=True. [nd-complex]")
    if hop > win:
        raise RuntimeError(
            f"istft: expected hop_length <= win_length, but got {hop} and {win}: some points belong to no frame. "
            "[nd-window]"
        )
    return n, hop, win


def _check_envelope(envelope: Tensor, n: int, hop: int, win: int) -> None:
    """Raise if the squared windows add up to nothing at some point."""
    values = innermost_array(envelope)
    least = float(abs(values).min()) if values.size and not getattr(values, "is_meta", False) else 1.0
    if least < 1e-11:
        raise RuntimeError(
            f"istft: window overlap add min: {least}. The squares of the window (n_fft={n}, hop_length={hop}, "
            f"win_length={win}) must add up to more than 0 at every point. Choose a smaller hop_length or another "
            "window. [nd-window]"
        )


def istft(
    input: Tensor,
    n_fft: int,
    hop_length: int | None = None,
    win_length: int | None = None,
    window: Tensor | None = None,
    center: bool = True,
    normalized: bool = False,
    onesided: bool | None = None,
    length: int | None = None,
    return_complex: bool = False,
) -> Tensor:
    """The signal whose `stft` is nearest to the input. It is the inverse if the squared windows have a positive sum
    everywhere.

    Args:
        input: complex tensor of shape (frequencies, frames) or (batch, frequencies, frames), as `stft` returns it.
        n_fft: number of points of a frame.
        hop_length: distance of neighbouring frames. The default is n_fft // 4.
        win_length: length of the window, at most n_fft. The default is n_fft.
        window: vector of win_length numbers. The default is ones.
        center: whether the frames were centred in `stft`. The padding is then cut off.
        normalized: whether the spectrum was divided by sqrt(n_fft).
        onesided: whether the input holds frequencies 0 to n_fft // 2. The default is found from its shape.
        length: length of the signal, which is cut or padded with zeros. The default is the length covered by the
            frames.
        return_complex: whether the signal is complex. It needs all frequencies.

    Returns:
        A tensor of shape (length,) or (batch, length).

    >>> import ndgrad
    >>> x = ndgrad.tensor([1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0])
    >>> ndgrad.istft(ndgrad.stft(x, 4, return_complex=True), 4)
    tensor([1., 2., 3., 4., 5., 6., 7., 8.])
    """
    n, hop, win = _check_istft(input, n_fft, hop_length, win_length, window, onesided, return_complex)
    ndim, count = input.ndim, input.shape[-1]
    norm = "ortho" if normalized else None
    spectrum = shape.transpose(input, dim0=ndim - 2, dim1=ndim - 1)
    # For a real signal, half of the bins determine the rest, which are ignored.
    frames = fft.ifft(spectrum, norm=norm) if return_complex else fft.irfft(spectrum, n, norm=norm)
    filter = _centre_window(window, input, win, n)
    frames = frames * filter
    points = n + hop * (count - 1)
    sizes = (*tuple(input.shape)[:-2], points)
    signal = windows.unfold_backward(frames, shape=sizes, dim=ndim - 2, width=n, step=hop)
    squares = shape.expand(filter * filter, shape=(count, n))
    envelope = windows.unfold_backward(squares, shape=(points,), dim=0, width=n, step=hop)
    start = n // 2 if center else 0
    stop = points - (n // 2 if center else 0) if length is None else start + as_integer("istft", "length", length)
    stop_known = min(stop, points)
    signal = index.getitem(signal, index=(..., slice(start, stop_known)))
    envelope = index.getitem(envelope, index=(slice(start, stop_known),))
    _check_envelope(envelope, n, hop, win)
    made = signal / envelope
    if stop > stop_known:
        made = padding.constant_pad_nd(made, pads=(*((0, 0),) * (ndim - 2), (0, stop - stop_known)), value=0)
    return made
