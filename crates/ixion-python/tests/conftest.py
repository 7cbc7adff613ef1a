"""Models and arrays that the tests share.

    pip install -r crates/ixion-python/tests/requirements.txt
    python -m pytest crates/ixion-python/tests          # with the wheel installed

Tests that need PyTorch, PNNX or another optional package are skipped without it. IXION_FUZZ is how many random calls the fuzz
tests make (500).
"""

import os
import signal
from collections.abc import Callable, Sequence
from pathlib import Path

import ixion
import numpy as np
import programs
import pytest

# Where this is ignored, as in what a shell runs in the background, it would be in all programs that tests start.
signal.signal(signal.SIGINT, signal.default_int_handler)

ROOT = Path(__file__).resolve().parents[3]
MODELS = ROOT / "model_file"
DTYPES = {
    "f64": np.float64, "f32": np.float32, "f16": np.float16, "i64": np.int64, "i32": np.int32, "i16": np.int16, "i8": np.int8,
    "u8": np.uint8, "bool": np.bool_, "c64": np.complex64, "c128": np.complex128,
}
"""The types that NumPy has itself. Those of two 16-bit floats, bf16 and c32, have tests of their own."""


@pytest.fixture(autouse=True)
def no_program_is_left():
    yield
    programs.end_all()


def text(*lines: str) -> str:
    """The text of a `.param` file with these operators."""
    operands = sum(int(line.split()[3]) for line in lines)
    return f"7767517\n{len(lines)} {operands}\n" + "\n".join(lines) + "\n"


def squares(times: int, dtype: str = "f32") -> str:
    """A model of matrix products, each with the result of the one before: long work, with an end between any two."""
    kind = f"=(n,n){dtype}".replace("n", "?")
    products = [f"torch.matmul mm_{step} 2 1 0 {step} {step + 1} #0{kind} #{step}{kind} #{step + 1}{kind}"
                for step in range(times)]
    return text(f"pnnx.Input x 0 1 0 #0{kind}", *products, f"pnnx.Output y 1 0 {times} #{times}{kind}")


def address(array: np.ndarray) -> int:
    return array.__array_interface__["data"][0]


@pytest.fixture
def write(tmp_path: Path) -> Callable[[str], Path]:
    """Writes the text of a model that has no weights."""
    written: list[Path] = []

    def to_file(content: str) -> Path:
        written.append(tmp_path / f"model_{len(written)}.pnnx.param")
        written[-1].write_text(content, encoding="utf-8")
        return written[-1]
    return to_file


@pytest.fixture
def copying(write) -> Callable[..., ixion.Model]:
    """Loads a model that returns its input: what goes in must come out, bit by bit."""
    def load(dtype: str, shape: Sequence[object] = ("?",), **options: object) -> ixion.Model:
        kind = f"=({','.join(map(str, shape))}){dtype}"
        return ixion.load(write(text(f"pnnx.Input x 0 1 0 #0{kind}", f"torch.clone copy 1 1 0 1 #0{kind} #1{kind}",
                                     f"pnnx.Output y 1 0 1 #1{kind}")), **options)
    return load


@pytest.fixture(scope="session")
def digits_path() -> Path:
    return MODELS / "digits/digits.pnnx.param"


@pytest.fixture(scope="session")
def digits(digits_path: Path) -> ixion.Model:
    return ixion.load(digits_path)


@pytest.fixture(scope="session")
def x() -> np.ndarray:
    """Ten digits, f32 10×1×8×8. Read only, because tests share it."""
    return frozen(np.load(MODELS / "digits/in_0.npy"))


@pytest.fixture(scope="session")
def y() -> np.ndarray:
    """PyTorch's output for them, f32 10×10."""
    return frozen(np.load(MODELS / "digits/out_0.npy"))


@pytest.fixture(scope="session")
def two_inputs() -> ixion.Model:
    return ixion.load(MODELS / "two_inputs/two_inputs.pnnx.param")


@pytest.fixture(scope="session")
def pair() -> tuple[np.ndarray, np.ndarray]:
    """The inputs of `two_inputs`."""
    return tuple(frozen(np.load(MODELS / f"two_inputs/in_{which}.npy")) for which in (0, 1))


@pytest.fixture
def slow(write) -> ixion.Model:
    """A model that runs for seconds with `large`."""
    return ixion.load(write(squares(60)))


@pytest.fixture(scope="session")
def large() -> np.ndarray:
    return np.eye(1500, dtype=np.float32)


def frozen(array: np.ndarray) -> np.ndarray:
    array.flags.writeable = False
    return array


def close(found: object, wanted: np.ndarray) -> bool:
    return np.allclose(np.asarray(found), wanted, rtol=1e-4, atol=1e-4)


FUZZ = int(os.environ.get("IXION_FUZZ", "500"))
