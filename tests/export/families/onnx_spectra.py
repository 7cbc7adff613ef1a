"""ONNX's transforms of signals, and the windows that they are seen through."""

import numpy as np

from families.onnx import floats
from onnx_case import Onnx, from_onnx


@from_onnx
def onnx_spectra(m: Onnx) -> None:
    real, numbers = m.input(floats(2, 6, 1)), m.input(floats(2, 6, 2))
    m("DFT", real, axis=1)
    m("DFT", real, axis=-2, onesided=1)
    m("DFT", numbers, axis=1, inverse=1)
    m("DFT", numbers, m.constant(np.array(8)), axis=0)
    m("DFT", numbers)
    sound, window = m.input(floats(1, 32, 1)), m.constant(floats(8))
    step, length = m.constant(np.array(4)), m.constant(np.array(8))
    m("STFT", sound, step, window, length)
    m("STFT", sound, step, window, onesided=0)
    m("STFT", sound, step, "", length)


@from_onnx
def onnx_spectra_of_any_axis(m: Onnx) -> None:
    m.opset = 20
    numbers = m.input(floats(2, 3, 5, 2))
    m("DFT", numbers, "", m.constant(np.array(-2)))
    m("DFT", numbers, "", m.constant(np.array(1)), inverse=1)
    m("DFT", m.input(floats(3, 6, 1)), m.constant(np.array(4)), m.constant(np.array(0)), onesided=1)


@from_onnx
def onnx_windows(m: Onnx) -> None:
    size = m.within(np.array(9))
    for name in ("HannWindow", "HammingWindow", "BlackmanWindow"):
        m(name, m.constant(np.array(8)))
        m(name, size, periodic=0)
        m(name, m.constant(np.array(1)), output_datatype=11)
