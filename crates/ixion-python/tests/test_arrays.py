"""Arrays in and out: no copies, every element type, strides, DLPack, buffers, and other things that are like arrays."""

import array
import contextlib
import ctypes
import os
import subprocess
import sys
import threading
import warnings
from concurrent.futures import ThreadPoolExecutor

import ixion
import numpy as np
import pytest
from conftest import DTYPES, address, close, squares, text
from programs import child

RANDOM = np.random.default_rng(1)


def bits(dtype: type, shape: tuple[int, ...]) -> np.ndarray:
    """Elements of any bits, NaN and infinity among them; only booleans are 0 or 1."""
    raw = RANDOM.integers(0, 256, (*shape, np.dtype(dtype).itemsize), np.uint8)
    return raw[..., 0] % 2 == 1 if dtype is np.bool_ else raw.view(dtype)[..., 0]


@pytest.mark.parametrize("name", DTYPES)
def test_every_type_comes_out_as_it_went_in(copying, name):
    given = bits(DTYPES[name], (37,))
    model = copying(name)
    assert model.inputs[0].dtype == np.dtype(DTYPES[name]).name
    found = model(given)
    assert found.dtype == given.dtype and found.tobytes() == given.tobytes()
    assert model(np.empty(0, DTYPES[name])).shape == (0,)


@pytest.mark.parametrize("name", DTYPES)
def test_tensors_without_axes(copying, name):
    given = bits(DTYPES[name], (1,))[0]
    found = copying(name, ())(given)
    assert found.shape == () and found.dtype == given.dtype and found.tobytes() == given.tobytes()


def test_bf16_is_that_of_ml_dtypes(copying):
    ml_dtypes = pytest.importorskip("ml_dtypes")
    given = np.arange(-4, 4, dtype=np.float32).astype(ml_dtypes.bfloat16)
    found = copying("bf16")(given)
    assert found.dtype == ml_dtypes.bfloat16 and found.tobytes() == given.tobytes()
    out = np.zeros(8, ml_dtypes.bfloat16)
    assert copying("bf16")(given, out=out) is out and out.tobytes() == given.tobytes()


WITHOUT = """
import sys
sys.modules["ml_dtypes"] = sys.modules["torch"] = None
import ixion
model = ixion.load(sys.argv[1])
try:
    model([1.0, 2.0])
except ixion.InputError as error:
    assert "ml_dtypes" in str(error) or "PyTorch" in str(error), error
else:
    raise SystemExit("NumPy has no bf16")
"""


def test_bf16_without_ml_dtypes_says_what_to_install(write):
    kind = "=(?)bf16"
    path = write(text(f"pnnx.Input x 0 1 0 #0{kind}", f"torch.clone copy 1 1 0 1 #0{kind} #1{kind}",
                      f"pnnx.Output y 1 0 1 #1{kind}"))
    done = subprocess.run([sys.executable, "-c", WITHOUT, str(path)], capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("view", [
    lambda a: a.T, lambda a: a[::2], lambda a: a[:, ::-1], lambda a: a[::-3, 1:], lambda a: np.broadcast_to(a[:1], a.shape),
    lambda a: np.asfortranarray(a), lambda a: a[1:1],
], ids=["transposed", "every second row", "backwards", "backwards by three", "repeated", "by columns", "empty"])
def test_strided_arrays_are_read_as_numpy_reads_them(copying, view):
    given = view(np.arange(48, dtype=np.float32).reshape(6, 8))
    found = copying("f32", ("?", "?"))(given)
    assert np.array_equal(found, given) and found.shape == given.shape


def test_unaligned_and_swapped_bytes_and_odd_strides_are_read(copying):
    model = copying("f32")
    raw = np.zeros(4 * 8 + 1, np.uint8)
    unaligned = raw[1:].view(np.float32)
    unaligned[:] = np.arange(8)
    swapped = np.arange(8).astype(np.dtype(np.float32).newbyteorder())
    records = np.zeros(8, [("flag", np.int8), ("value", np.float32)])
    records["value"] = np.arange(8)
    for given in (unaligned, swapped, records["value"]):
        found = model(given)
        assert found.tolist() == list(range(8)) and found.dtype.isnative
        with pytest.raises(ixion.InputError, match="contiguous"):
            model(np.ones(8, np.float32), out=given)
        assert given.tolist() == list(range(8))


def test_swapped_complex_numbers_and_empty_arrays_with_odd_strides(copying):
    given = np.arange(3) * (1 + 2j)
    assert np.array_equal(copying("c128")(given.astype(given.dtype.newbyteorder())), given)
    assert copying("f32", ("?", "?"))(np.ones((3, 4), np.float32)[::-1, :0]).shape == (3, 0)
    out = np.ones((3, 4), np.float32)[::-1, :0]
    assert copying("f32", ("?", "?"))(np.ones((3, 0), np.float32), out=out) is out


@pytest.mark.parametrize("dtype", ["<f8", "<i4", "S4", "U2", "O", "M8[s]", "m8[s]", "V4", [("a", "f4")], "f4, f4", "?"])
def test_other_types_are_refused_and_not_converted(copying, dtype):
    with pytest.raises(ixion.InputError):
        copying("f32")(np.zeros(3, dtype))


# Addresses prove that nothing is copied.


FIFTY = """
    import sys, numpy as np, ixion
    def peak():
        # Unlike what `getrusage` says, this begins with the program.
        (line,) = [line for line in open("/proc/self/status") if line.startswith("VmHWM:")]
        return int(line.split()[1]) * 1024
    model = ixion.load(sys.argv[1])
    # Both are written, so that their pages are there.
    given, out = np.ones((1_000, 13_107), np.float32), np.full((1_000, 13_107), 2, np.float32)
    if sys.argv[2] == "copied":
        given = given[:, ::-1]
    context = model.context()
    context(np.ascontiguousarray(given[:, :1]))
    where, before = out.__array_interface__["data"][0], peak()
    assert context(given, out=out) is out
    assert out.__array_interface__["data"][0] == where and np.array_equal(out[::100], given[::100])
    print((peak() - before) / given.nbytes)
"""


@pytest.mark.skipif(not os.path.exists("/proc/self/status"), reason="only Linux tells the peak of one program")
def test_fifty_megabytes_are_neither_copied_in_nor_out(write):
    """`out=` is written in place. That inputs aren't copied shows in memory: the process grows by less than one of them."""
    path = write(text("pnnx.Input x 0 1 0 #0=(1000,?)f32", "torch.clone copy 1 1 0 1 #0=(1000,?)f32 #1=(1000,?)f32",
                      "pnnx.Output y 1 0 1 #1=(1000,?)f32"))
    for given, is_copied in (("used", False), ("copied", True)):
        done = child(FIFTY, path, given)
        assert done.returncode == 0, done.stderr
        assert (float(done.stdout) > 0.9) == is_copied, f"{given}: the process grew by {done.stdout.strip()} of the input"


def test_an_output_owns_the_memory_of_the_tensor(copying):
    found = copying("f32")(np.arange(1 << 20, dtype=np.float32))
    assert type(found.base) is ixion.Memory and not found.flags.owndata
    again = np.from_dlpack(found)
    assert address(again) == address(found)


def test_a_view_of_an_array_is_written_in_place(copying):
    whole = np.zeros((4, 8), np.float32)
    row = whole[2]
    copying("f32")(np.arange(8, dtype=np.float32), out=row)
    assert whole[2].tolist() == list(range(8)) and not whole[[0, 1, 3]].any()


def test_strided_outputs_are_written(copying):
    whole = np.zeros((8, 8), np.float32)
    copying("f32")(np.arange(8, dtype=np.float32), out=whole[:, 3])
    assert whole[:, 3].tolist() == list(range(8)) and whole.sum() == 28
    by_columns = np.zeros((3, 4), np.float32, order="F")
    given = np.arange(12, dtype=np.float32).reshape(3, 4)
    copying("f32", ("?", "?"))(given, out=by_columns)
    assert np.array_equal(by_columns, given)


def test_outputs_backwards_are_refused(copying):
    whole = np.zeros(8, np.float32)
    with pytest.raises(ixion.InputError, match="contiguous"):
        copying("f32")(np.ones(8, np.float32), out=whole[::-1])
    assert not whole.any()


def test_results_without_axes_are_arrays(copying):
    found = copying("f32", ())(3)
    assert isinstance(found, np.ndarray) and found.shape == () and found.flags.aligned and found.flags.writeable
    out = np.zeros((), np.float32)
    assert copying("f32", ())(3, out=out) is out and out == 3
    scalar = copying("f64", ())(np.float64(2))
    assert scalar == 2 and scalar.shape == ()


# Memory that several arrays share.


@pytest.mark.parametrize("input_of, output_of", [
    (lambda a: a[:4], lambda a: a[3:7]), (lambda a: a[:4], lambda a: a[:4][::1]), (lambda a: a[::2], lambda a: a[4:]),
    (lambda a: np.broadcast_to(a[5:6], 4), lambda a: a[2:6]), (lambda a: a[3::-1], lambda a: a[8:12][::-1][::-1]),
], ids=["partly", "the same memory", "interleaved", "repeated", "apart"])
def test_an_output_over_an_input(copying, input_of, output_of):
    """What a run reads, it does not write; arrays that are apart are fine, in one allocation or not."""
    whole = np.arange(16, dtype=np.float32)
    given, out = input_of(whole), output_of(whole)
    if not np.shares_memory(given, out):
        copying("f32")(given, out=out)
        return
    with pytest.raises(ixion.InputError, match="shares memory"):
        copying("f32")(given, out=out[:len(given)])
    assert whole.tolist() == list(range(16))


def test_columns_of_one_array_are_apart(copying):
    whole = np.arange(64, dtype=np.float32).reshape(8, 8)
    copying("f32", ("?", "?"))(whole[:, 1:3], out=whole[:, 4:6])
    assert np.array_equal(whole[:, 4:6], whole[:, 1:3])
    with pytest.raises(ixion.InputError, match="shares memory"):
        copying("f32", ("?", "?"))(whole[:, 1:3], out=whole[:, 2:4])


def test_an_array_that_a_run_writes_to_is_not_used_by_another(write, large, copying):
    slow, copy, out, refusals = ixion.load(write(squares(10))), copying("f32", ("?", "?")), np.zeros_like(large), 0

    def run():
        while True:
            # Another call may have been the first to take the array.
            with contextlib.suppress(ixion.InputError):
                return slow(large, out=out)
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(run)
        while not first.done():
            for call in (lambda: copy(out[:3]), lambda: copy(np.ones((1, 9), np.float32), out=out[5:6, :9])):
                try:
                    call()
                except ixion.InputError as error:
                    assert "memory" in str(error)
                    refusals += 1
            # What is only read may be read by all.
            copy(large[:3])
        first.result()
    # The run may have ended before `done` said so, and a call have written these.
    out[5, :9] = large[5, :9]
    assert refusals and np.array_equal(copy(out), large)


# Booleans, of which only two bytes are valid.


def test_bools_of_other_bytes_are_true(copying):
    given = np.uint8([0, 1, 2, 255]).view(bool)
    found = copying("bool")(given)
    assert found.view(np.uint8).tolist() == [0, 1, 1, 1] and given.view(np.uint8).tolist() == [0, 1, 2, 255]
    rows = np.uint8([[0, 7, 0], [9, 0, 0]]).view(bool).T
    assert copying("bool", ("?", "?"))(rows).view(np.uint8).tolist() == [[0, 1], [1, 0], [0, 0]]
    windows = np.lib.stride_tricks.sliding_window_view(given, 3)
    assert copying("bool", ("?", "?"))(windows).view(np.uint8).tolist() == [[0, 1, 1], [1, 1, 1]]
    out = np.full(4, 3, np.uint8).view(bool)
    assert copying("bool")(given, out=out) is out and out.view(np.uint8).tolist() == [0, 1, 1, 1]
    both = given.copy()
    with pytest.raises(ixion.InputError, match="donate"):
        copying("bool")(both, out=both)
    assert both.tolist() == [False, True, True, True]


def test_bools_that_a_thread_changes_during_a_run_stay_bools(copying):
    model, given = copying("bool"), np.zeros(1 << 24, np.bool_)
    ended = threading.Event()

    def change() -> None:
        while not ended.is_set():
            given.view(np.uint8).fill(255)
            given.fill(False)
    with ThreadPoolExecutor(1) as pool:
        changing = pool.submit(change)
        try:
            assert all(model(given).view(np.uint8).max() <= 1 for _ in range(20))
        finally:
            ended.set()
        changing.result()


HUGE = """
import sys, ixion, numpy as np
model = ixion.load(sys.argv[1])
try:
    model(np.broadcast_to(np.uint8(2).view(bool), (1 << 28, 1 << 27)))
except (ixion.LimitError, ixion.InputError) as error:
    assert str(error)
else:
    raise SystemExit("there is no such memory")
"""


def test_a_bool_that_is_repeated_without_end_ends(write):
    kind = "=(?,?)bool"
    path = write(text(f"pnnx.Input x 0 1 0 #0{kind}", f"torch.clone copy 1 1 0 1 #0{kind} #1{kind}",
                      f"pnnx.Output y 1 0 1 #1{kind}"))
    done = subprocess.run([sys.executable, "-c", HUGE, str(path)], capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr


# Subclasses of arrays, whose attributes may say anything.


class Liar(np.ndarray):
    """An array that describes itself wrongly, in every attribute and method."""

    flags = property(lambda self: type("Flags", (), {"writeable": True, "c_contiguous": True})())
    dtype = property(lambda self: np.dtype(np.float64))
    shape = property(lambda self: (1 << 40,))
    strides = property(lambda self: (8,))

    def astype(self, *_, **__):
        return np.zeros(1, np.int8)

    def copy(self, *_, **__):
        return self.astype()


def test_subclasses_are_read_by_their_memory(copying):
    for values in (np.arange(8, dtype=np.float32), np.arange(8, dtype=np.float32)[::-1], np.arange(8).astype(">f4")):
        found = copying("f32")(values.view(Liar))
        assert type(found) is np.ndarray and found.tolist() == values.tolist()
    read_only = np.zeros(8, np.float32)
    read_only.flags.writeable = False
    with pytest.raises(ixion.InputError, match="read-only"):
        copying("f32")(np.ones(8, np.float32), out=read_only.view(Liar))
    assert not read_only.any()


def test_common_subclasses(copying, tmp_path):
    mapped = np.memmap(tmp_path / "x", np.float32, "w+", shape=(4,))
    mapped[:] = [1, 2, 3, 4]
    assert copying("f32")(mapped).tolist() == [1, 2, 3, 4]
    assert copying("f32")(np.ones(4, np.float32), out=mapped) is mapped and mapped.tolist() == [1] * 4
    locked = np.memmap(tmp_path / "x", np.float32, "r")
    with pytest.raises(ixion.InputError, match="read-only"):
        copying("f32")(np.ones(4, np.float32), out=locked)
    masked = np.ma.masked_less(np.float32([1, 2, 3]), 2)
    for call in (lambda m: m(masked), lambda m: m(np.ones(3, np.float32), out=masked)):
        with pytest.raises(ixion.InputError, match="filled"):
            call(copying("f32"))


# Other things than NumPy's arrays.


@pytest.mark.parametrize("given", [array.array("f", [1, 2, 3]), memoryview(array.array("f", [1, 2, 3])),
                                   (ctypes.c_float * 3)(1, 2, 3)], ids=["array", "memoryview", "ctypes"])
def test_buffers_are_arrays(copying, given):
    assert copying("f32")(given).tolist() == [1, 2, 3]


def test_bytes_are_an_array_of_u8(copying):
    assert copying("u8")(b"\x01\x02\xff").tolist() == [1, 2, 255]
    assert copying("u8")(bytearray(3)).tolist() == [0, 0, 0]


def test_numbers_and_lists_are_what_numpy_makes_of_them_in_the_wanted_type(copying):
    assert copying("f32")([1, 2.5]).tolist() == [1, 2.5]
    assert copying("f32", ())(3).tolist() == 3
    assert copying("i64", (2, "?"))([[1], [2]]).tolist() == [[1], [2]]
    assert copying("bool")([True, False]).tolist() == [True, False]
    assert copying("f32")([1 << 63, True]).tolist() == [float(1 << 63), 1]
    assert copying("i64", (2, "?"))([[], []]).shape == (2, 0)
    for given in ([1, "x"], [[1], [1, 2]], ["a"], [object()], [None], 1 << 70, [1j]):
        with pytest.raises(ixion.InputError):
            copying("f32")(given)


@pytest.mark.parametrize("dtype, given", [
    ("f32", [1e300]), ("f16", [70000]), ("f16", [1.0, -1e6]), ("u8", [256]), ("u8", [-1]), ("i8", [128]), ("i64", [1 << 63]),
    ("i64", [1.5]), ("i32", [2.0]), ("bool", [1]), ("f64", [1j]), ("c64", [1e300j]),
])
def test_numbers_out_of_range_are_refused(copying, dtype, given):
    with warnings.catch_warnings(), pytest.raises(ixion.InputError, match="numbers"):
        warnings.simplefilter("error")
        copying(dtype)(given)


def test_numbers_that_are_no_numbers_stay_what_they_are(copying):
    for dtype in ("f16", "f32", "f64"):
        found = copying(dtype)([float("nan"), float("inf"), -float("inf"), 1])
        assert np.isnan(found[0]) and found[1:].tolist() == [np.inf, -np.inf, 1]


class Convertible:
    """An object with `__array__`, as those of pandas."""

    def __init__(self, values: np.ndarray):
        self.values = values

    def __array__(self, dtype=None, copy=None):
        return self.values


def test_objects_that_convert_themselves(copying):
    assert copying("f32")(Convertible(np.float32([1, 2]))).tolist() == [1, 2]
    with pytest.raises((ixion.InputError, ValueError)):
        copying("f32")(Convertible([1, 2]))


class Raising:
    """An object whose conversion fails."""

    def __init__(self, error: BaseException):
        self.error = error

    def __array__(self, dtype=None, copy=None):
        raise self.error


@pytest.mark.parametrize("error, kind", [
    (ValueError("no"), ixion.InputError), (TypeError("no"), ixion.InputError), (RuntimeError("no"), ixion.InputError),
    (MemoryError("no"), ixion.LimitError), (KeyboardInterrupt(), KeyboardInterrupt), (ZeroDivisionError(), ZeroDivisionError),
], ids=lambda value: getattr(value, "__name__", type(value).__name__))
def test_what_a_conversion_raises(copying, error, kind):
    with pytest.raises(kind) as raised:
        copying("f32")(Raising(error))
    assert raised.value is error or (raised.value.__cause__ is error and "no" in str(raised.value)) or kind is ixion.LimitError


def test_a_conversion_that_calls_the_model_and_changes_its_own_array(copying):
    model, values = copying("f32"), np.float32([1, 2])

    class Busy:
        def __array__(self, dtype=None, copy=None):
            model(values)
            values[:] = model(np.float32([7, 8]))
            return values
    assert model(Busy()).tolist() == [7, 8]


# DLPack; `test_dlpack.py` has what capsules can say.


class Capsule:
    """An array that only knows DLPack, with a device of choice."""

    def __init__(self, values: np.ndarray, device: tuple[int, int] = (1, 0)):
        self.values, self.device = values, device

    def __dlpack__(self, **options):
        return self.values.__dlpack__()

    def __dlpack_device__(self):
        return self.device


def test_dlpack_objects_are_read(copying):
    assert copying("f32")(Capsule(np.float32([1, 2]))).tolist() == [1, 2]


@pytest.mark.parametrize("device", [(2, 0), (4, 0), (7, 1), (10, 0)], ids=["CUDA", "OpenCL", "Vulkan", "ROCm"])
def test_tensors_of_a_gpu_are_refused_with_what_to_do(copying, device):
    with pytest.raises(ixion.InputError, match="(?i)cpu"):
        copying("f32")(Capsule(np.float32([1, 2]), device))


@pytest.mark.parametrize("broken", [
    {"__dlpack__": lambda self, **_: None, "__dlpack_device__": lambda self: (1, 0)},
    {"__dlpack__": lambda self, **_: 1 / 0, "__dlpack_device__": lambda self: (1, 0)},
    {"__dlpack__": lambda self, **_: self, "__dlpack_device__": lambda self: "cpu"},
    {"__dlpack__": lambda self, **_: np.zeros(2, np.float32).__dlpack__()},
    {"__dlpack__": 3, "__dlpack_device__": 4},
    {"__array_interface__": {"data": None}},
    {"__array__": lambda self, *_, **__: 3},
    {"__buffer__": lambda self, *_: None},
], ids=["no capsule", "an exception", "no device", "no device at all", "no methods", "no array",
        "a number as array", "no buffer"])
def test_objects_that_lie_raise_an_exception(copying, broken):
    given = type("Broken", (), broken)()
    try:
        found = copying("f32")(given)
    except (ixion.Error, TypeError, ValueError, ZeroDivisionError, AttributeError, MemoryError):
        return
    assert found.shape == (2,), "only what has a capsule may be read"


def test_references_are_given_back(copying):
    model, given, out = copying("f32"), np.ones(64, np.float32), np.zeros(64, np.float32)
    model(given, out=out)
    before = sys.getrefcount(given), sys.getrefcount(out)
    for _ in range(50):
        model(given, out=out)
        with pytest.raises(ixion.Error):
            model(given, given)
    assert (sys.getrefcount(given), sys.getrefcount(out)) == before
