"""Random calls of everything public: each ends in a result or in an exception with a message, and models work afterwards.

    IXION_FUZZ=10000 python -m pytest crates/ixion-python/tests/test_fuzz.py

IXION_FUZZ is the number of calls of all tests of this file together. They are the same ones every time; IXION_SEED, a number,
selects others. A panic of Rust is no `Exception`, so that it fails a test; `under_valgrind.sh` finds what does not even crash.
"""

import array
import asyncio
import contextlib
import datetime
import io
import os
import pickle
import threading
from collections.abc import Callable
from pathlib import Path

import ixion
import numpy as np
import pytest
from conftest import FUZZ, MODELS, close, squares

hypothesis = pytest.importorskip("hypothesis")
from hypothesis import given, settings  # noqa: E402
from hypothesis import strategies as st  # noqa: E402

SEED = os.environ.get("IXION_SEED")
EXPECTED = (ixion.Error, TypeError, ValueError, MemoryError)
DIGITS, LINEAR = MODELS / "digits/digits.pnnx.param", MODELS / "linear/linear.pnnx.param"
MODEL = ixion.load(DIGITS)
CONTEXT = MODEL.context()
SMALL = ixion.build(LINEAR)
PLAN = SMALL.to_bytes()
SCALES = ixion.calibrate(LINEAR, [np.load(LINEAR.parent / "in_0.npy")])
X, Y = np.load(DIGITS.parent / "in_0.npy"), np.load(DIGITS.parent / "out_0.npy")
PNG = (DIGITS.parent / "samples/0.png").read_bytes()
TYPES = ["f4", ">f4", "f8", "f2", "g", "i8", "i4", "i2", "i1", "u1", "u2", "u8", "?", "c8", "c16", "S3", "U2", "O", "M8[s]", "V5"]


def fuzz(share: float) -> Callable[[Callable], Callable]:
    """Settings of a test that makes this share of all calls."""
    how = settings(max_examples=max(5, round(FUZZ * share)), deadline=None, database=None, derandomize=SEED is None,
                   suppress_health_check=list(hypothesis.HealthCheck))
    return how if SEED is None else lambda test: hypothesis.seed(int(SEED))(how(test))


def attempt(call: Callable[[], object], *also: type[Exception]) -> object:
    """The result of a call; None if it raises one of the exceptions that callers expect."""
    try:
        return call()
    except MemoryError:
        return None
    except (*EXPECTED, *also) as error:
        assert str(error).strip(), f"{type(error).__name__} says nothing"
        return None


@pytest.fixture(scope="module", autouse=True)
def elsewhere(tmp_path_factory: pytest.TempPathFactory):
    """Files of random names are written to a temporary folder."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path_factory.mktemp("fuzz"))
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("caches")))
        yield


# Values.


class Odd:
    """An object whose protocols answer with what is given."""

    def __init__(self, answer: object):
        self.answer = answer

    def __array__(self, *_, **__):
        return self.answer

    def __dlpack__(self, **_):
        return self.answer

    def __dlpack_device__(self):
        return self.answer


class Raising:
    """An object whose protocols raise."""

    def __init__(self, error: Exception):
        self.error = error

    def answer(self, *_, **__):
        raise self.error

    __array__ = __dlpack__ = __dlpack_device__ = __iter__ = __float__ = __index__ = __fspath__ = __repr__ = answer


class Foreign:
    """A tensor of another library: it has DLPack, and says that it is on some device."""

    def __init__(self, values: np.ndarray, device: object):
        self.values, self.device = values, device

    def __dlpack__(self, **options):
        return self.values.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.device


class Exported(Odd):
    """An object that has exported its memory already, on the CPU."""

    def __dlpack_device__(self):
        return 1, 0


class Subclass(np.ndarray):
    """An array whose methods answer as those of no array."""

    def astype(self, *_, **__):
        return np.full(self.shape, 66, np.int8)

    flags = property(lambda _: type("Flags", (), {"writeable": True}))
    mask = property(lambda _: None)


def shaken(made: np.ndarray, change: int, step: int) -> np.ndarray:
    """An array of other strides, flags or kind."""
    if change == 0:
        return made.T
    if change == 1 and made.ndim:
        return made[::step]
    if change == 2:
        return np.broadcast_to(made, (2, *made.shape))
    if change == 3:
        return made[..., None]
    if change == 4:
        return np.asfortranarray(made)
    if change == 5:
        made = made.view()
        made.flags.writeable = False
    elif change == 6 and made.ndim:
        return made[..., :1]
    elif change == 7 and not made.dtype.hasobject:
        # One byte beyond an aligned address.
        return np.frombuffer(b"\1" * (made.nbytes + 1), made.dtype, made.size, 1).reshape(made.shape) if made.size else made
    elif change == 8:
        return made.view(Subclass)
    elif change == 9:
        return np.ma.masked_array(made)
    elif change == 10 and made.ndim == 2:
        return np.asmatrix(made)
    return made


@st.composite
def arrays(draw: st.DrawFn) -> np.ndarray:
    """Arrays of any type, shape, strides and kind, often almost those that the model wants."""
    shape = draw(st.one_of(st.tuples(st.integers(0, 12), st.just(1), st.just(8), st.just(8)), st.just((10, 10)),
                           st.lists(st.integers(0, 4), max_size=9).map(tuple)))
    made = np.zeros(shape, draw(st.sampled_from([*["f4"] * 12, *TYPES])))
    for change in draw(st.lists(st.integers(0, 10), max_size=3)):
        if made.ndim < 20:
            made = shaken(made, change, draw(st.sampled_from([-3, -2, -1, 2, 3])))
    return made


def interfaces() -> st.SearchStrategy:
    """What `__array_interface__` could say, without memory: NumPy itself would believe an address and any shape."""
    return st.fixed_dictionaries({"shape": st.lists(st.integers(-2, 1 << 62), max_size=4).map(tuple),
                                  "typestr": st.sampled_from(["<f4", ">f4", "|O", "", "x"]), "version": st.integers(0, 4)},
                                 optional={"data": st.sampled_from([None, 3, "x"])})


def endless(kind: str, axes: int) -> np.ndarray:
    """An array of one element, repeated more often than any memory could hold."""
    return np.lib.stride_tricks.as_strided(np.full(1, 2, np.uint8 if kind == "?" else kind).view(kind), (1 << 20,) * axes, (0,) * axes)


def itself() -> list:
    inner: list = []
    inner.append(inner)
    return inner


def nested(depth: int) -> list:
    inner: list = []
    for _ in range(depth):
        inner = [inner]
    return inner


ERRORS = st.sampled_from([TypeError, ValueError, RuntimeError, OverflowError, BufferError, AttributeError, ixion.InputError])
DEVICES = st.one_of(st.tuples(st.integers(-1, 17), st.integers(-1, 3)), st.sampled_from([None, 1, (1,), ("cpu", 0), (1 << 40, 0)]))
LEAVES = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.complex_numbers(), st.text(max_size=4), st.binary(max_size=40), arrays(),
    st.builds(object), st.sampled_from([np, MODEL, Ellipsis, int, datetime.datetime_CAPI, SCALES, SMALL, "\ud800", "\0"]),
    st.binary(max_size=16).map(bytearray), st.just(array.array("f", [1.0] * 64)), st.builds(itself),
    st.builds(nested, st.integers(30, 70)), st.builds(lambda size: memoryview(bytes(size))[::-1], st.integers(0, 9)),
    st.builds(lambda data: type("Lies", (), {"__array_interface__": data})(), interfaces()),
    st.builds(endless, st.sampled_from("fd?b"), st.just(2)), st.builds(Foreign, arrays(), DEVICES), st.builds(lambda kind: Raising(kind("a reason")), ERRORS),
    st.builds(lambda values: Odd(values.__dlpack__()), st.just(X)), st.builds(np.float32, st.floats(width=32)),
    st.builds(lambda text: Path(f"nothing_{text}"), st.text("abc./", max_size=5)))
VALUES = st.one_of(arrays(), st.recursive(LEAVES, lambda inner: st.one_of(
    st.lists(inner, max_size=3), st.tuples(inner, inner), st.dictionaries(st.text(max_size=3), inner, max_size=2),
    st.builds(Odd, inner)), max_leaves=6))
NAMES = st.one_of(st.just(MODEL.inputs[0].name), st.sampled_from(["out_", "self", "x", "", "\ud800"]), st.text(max_size=5))


# Calls.


@fuzz(0.25)
@given(subject=st.sampled_from([MODEL, CONTEXT]), inputs=st.lists(VALUES, max_size=3),
       named=st.dictionaries(NAMES, VALUES, max_size=2),
       extra=st.fixed_dictionaries({}, optional={"out": VALUES, "timeout": st.one_of(st.floats(), st.integers(), VALUES)}))
def test_any_call(subject, inputs, named, extra):
    found = attempt(lambda: subject(*inputs, **{**named, **extra}))
    assert found is None or np.asarray(found).shape[1] == 10


@fuzz(0.1)
@given(out=st.one_of(arrays(), st.builds(Foreign, arrays(), st.just((1, 0)))), count=st.integers(0, 12))
def test_any_array_for_an_output_is_written_or_left_alone(out, count):
    target = out.values if isinstance(out, Foreign) else out
    hypothesis.assume(target.nbytes < 1 << 20)
    before = target.tobytes() if not target.dtype.hasobject else None
    given_array = np.resize(X, (count, 1, 8, 8))
    if attempt(lambda: MODEL(given_array, out=out)) is None:
        assert before is None or target.tobytes() == before, "an array that does not fit is not written"
    else:
        assert close(target, np.resize(Y, (count, 10)))


@fuzz(0.04)
@given(inputs=st.lists(st.one_of(st.just(X), VALUES), max_size=2), extra=st.dictionaries(st.sampled_from(["top", "x", "runs"]),
                                                                                        st.one_of(st.integers(-2, 5), VALUES), max_size=1))
def test_any_call_that_measures_or_waits(inputs, extra):
    attempt(lambda: MODEL.timeline(*inputs, **{name: value for name, value in extra.items() if name != "runs"}))
    found = attempt(lambda: asyncio.run(MODEL.run_async(*inputs, **extra)))
    assert found is None or np.asarray(found).shape[1] == 10


@fuzz(0.03)
@given(runs=VALUES.filter(lambda runs: not isinstance(runs, int) or runs < 0))
def test_any_number_of_runs_and_of_results(runs):
    attempt(lambda: MODEL.profile(X, runs=runs))
    attempt(lambda: ixion.classify(MODEL, PNG, top=runs))


@fuzz(0.04)
@given(options=st.dictionaries(st.sampled_from(["stream", "max_version", "dl_device", "copy", "x"]), st.one_of(
    st.sampled_from([None, -1, (1, 0), (0, 8), (1, 0, 0), (-1, 1 << 70), True, False]), VALUES), max_size=4), is_kept=st.booleans())
def test_any_way_to_ask_for_the_memory_of_a_result(options, is_kept):
    result = MODEL(X)
    memory = result.base
    if is_kept:
        del result
    # The exceptions that other libraries expect: the first is DLPack's own.
    capsule = attempt(lambda: memory.__dlpack__(**options), BufferError, OverflowError)
    if capsule is not None:
        del memory
        assert close(np.from_dlpack(Exported(capsule)), Y)


# Time and other threads.


@pytest.fixture(scope="module")
def longer(tmp_path_factory: pytest.TempPathFactory) -> ixion.Context:
    """The context of a model that runs for a few milliseconds."""
    path = tmp_path_factory.mktemp("longer") / "x.pnnx.param"
    path.write_text(squares(20), encoding="utf-8")
    return ixion.load(path).context()


@fuzz(0.08)
@given(delay=st.floats(0, 0.004), timeout=st.one_of(st.none(), st.floats(1e-9, 0.004)), size=st.integers(1, 150), times=st.integers(0, 2))
def test_runs_that_are_cancelled_or_late_at_any_time(longer, delay, timeout, size, times):
    timers = [threading.Timer(delay * (turn + 1), longer.cancel) for turn in range(times)]
    for timer in timers:
        timer.start()
    eye = np.eye(size, dtype=np.float32)
    with contextlib.suppress(ixion.Cancelled, ixion.TimeoutError):
        assert np.array_equal(longer(eye, timeout=timeout), eye)
    for timer in timers:
        timer.join()
    # A context is cancelled once, however often it was asked for.
    with contextlib.suppress(ixion.Cancelled):
        longer(eye)
    assert np.array_equal(longer(eye), eye)


# Options.


SHAPES = st.one_of(st.sampled_from(["10,1,8,8", "n,1,8,8", "1,1,8,8:2,1,8,8:4,1,8,8", "4,1,8,8:2,1,8,8:1,1,8,8", "n,1,?,n", "", ":::", ",",
                                    "99999999999,1,8,8", (10, 1, 8, 8), ("n", 1, None, 8), (-1, 1, 8, 8), (1 << 62, 1, 8, 8),
                                    [(1, 1, 8, 8), (2, 1, 8, 8), (1 << 31, 1, 8, 8)], [(1 << 62, 1 << 62), (1 << 62, 1 << 62), (1 << 63, 1)]]),
                   st.text("n?,:0123456789 ", max_size=12), VALUES)
OPTIONS: dict[str, list[object]] = {
    "threads": [0, 1, 2, 3, -1, 1025, 1 << 70, True, 2.0, "2"],
    "precision": ["f16", "bf16", "int8", ["f16", "bf16"], "f16,bf16", "f8", "", []],
    "scales": [{}, {"0": 0.1}, {"x": -1}, {"x": float("nan")}, "nothing.json", SCALES],
    "layouts": ["cheapest", "plain", "alternating", "narrowest", "x"],
    "tactics": ["winograd-4x4", ["gemm", "x"], ""],
    "without_tactics": ["winograd-4x4", ["x"]],
    "without_passes": ["all", "x", ["all", "all"]],
    "fast": [True, False, 1],
    "tune": [False, "times.json", "/dev/null/x"],
    "device": ["cpu", "cuda", "cuda:-1", "x"],
    "plugins": ["nothing.so", [str(DIGITS)], "/dev/null", []],
    "limits": [1, "1K", "1G", "1e400G", "-1G", {"memory": "1M"}, {"timeout": 1e-9}, {"timeout": 1e18}, {"max_ops": 1}, {"max_rank": 0},
               {"max_rank": 1 << 40}, {"max_tensor_bytes": 1}, {"x": 1}],
    "map": [True, False],
    "verify": [True, False],
    "bin": [DIGITS.with_suffix(".bin"), DIGITS, "nothing.bin", "/dev/null"],
    "random_weights": [0, 1, -1, 1 << 64],
    "use": [{"nn.Conv2d": "acme/Conv/1"}, {"nn.Conv2d": "x"}, {}],
    "shapes": [{"x": "1"}, {MODEL.inputs[0].name: (2, 1, 8, 8)}],
    "donate": [{MODEL.inputs[0].name: MODEL.outputs[0].name}, {"x": "y"}],
    "card": [(DIGITS.parent / "model.toml").read_text(encoding="utf-8"), "", "name = 1", "[" * 50],
    "nothing": [(1, 2)],
}


@st.composite
def options(draw: st.DrawFn) -> dict[str, object]:
    """Options, most of them with values of a kind that they could have."""
    chosen: dict[str, object] = {}
    for name in draw(st.lists(st.sampled_from(list(OPTIONS)), max_size=3)):
        known = st.sampled_from(OPTIONS[name])
        # True would measure for seconds.
        chosen[name] = draw(known if name == "tune" else st.one_of(known, known, VALUES))
    if draw(st.booleans()):
        chosen[MODEL.inputs[0].name] = draw(SHAPES)
    return chosen


@fuzz(0.1)
@given(chosen=options())
def test_any_options(chosen):
    model = attempt(lambda: ixion.load(DIGITS, **chosen))
    if model is not None:
        attempt(lambda: model(X))
        assert repr(model) and model.inputs and isinstance(model.warnings, list)


@fuzz(0.04)
@given(chosen=options(), way=st.sampled_from([ixion.Plan.from_bytes, ixion.Plan.load, ixion.load, ixion.build]))
def test_any_options_of_plans(chosen, way):
    with contextlib.suppress(OSError):
        Path("small.plan").write_bytes(PLAN)
    attempt(lambda: way(PLAN if way == ixion.Plan.from_bytes else "small.plan", **chosen))


@fuzz(0.04)
@given(value=VALUES, way=st.sampled_from([
    ixion.load, ixion.build, ixion.Model, ixion.Plan.load, ixion.Plan.from_bytes, ixion.Picture, ixion.Scales, ixion.Scales.load,
    ixion.verify, ixion.operators, ixion.command, lambda it: ixion.operators(plugins=it), lambda it: ixion.draw(PNG, it),
    lambda it: ixion.draw(it, []), lambda it: ixion.classify(it, PNG), lambda it: SCALES.get(it), lambda it: it in SCALES,
    lambda it: SCALES == it, lambda it: ixion.calibrate(LINEAR, it), lambda it: ixion.calibrate(LINEAR, [it]),
    lambda it: ixion.calibrate(it, [X])]))
def test_any_value_for_the_first_argument(value, way):
    attempt(lambda: way(value))


# Files.


def damaged(data: bytes, changes: list[tuple[int, int]], length: int | None) -> bytes:
    changed = bytearray(data)
    for place, value in changes:
        changed[place % len(changed)] = value
    return bytes(changed if length is None else changed[:length % len(changed)])


# The first page has what leads to all others.
CHANGES = st.lists(st.tuples(st.one_of(st.integers(0, 1 << 24), st.integers(0, 4095)), st.integers(0, 255)), max_size=4)
LENGTHS = st.one_of(st.none(), st.none(), st.integers(0, 1 << 24), st.integers(0, 300))


@fuzz(0.1)
@given(changes=CHANGES, length=LENGTHS, is_mapped=st.booleans(), is_verified=st.booleans())
def test_any_bytes_of_a_plan(changes, length, is_mapped, is_verified):
    Path("damaged.plan").unlink(missing_ok=True)
    Path("damaged.plan").write_bytes(damaged(PLAN, changes, length))
    plan = attempt(lambda: ixion.Plan.load("damaged.plan", map=is_mapped, verify=is_verified))
    if plan is not None:
        attempt(lambda: ixion.Model(plan)(np.load(LINEAR.parent / "in_0.npy")))
        again = attempt(plan.to_bytes)
        assert repr(plan) and (again is None or attempt(lambda: ixion.Plan.from_bytes(again)) is not None)


PICKLED = [pickle.dumps(it) for it in (SMALL, MODEL, ixion.Model(SMALL), SCALES, ixion.Picture(PNG))]


@fuzz(0.04)
@given(data=st.sampled_from(PICKLED), changes=CHANGES, length=LENGTHS)
def test_any_bytes_of_a_pickle(data, changes, length):
    # Damage may turn a pickle into one of anything, whose exceptions are Python's.
    with contextlib.suppress(Exception):
        repr(pickle.loads(damaged(data, changes, length)))


TEXT = DIGITS.read_text(encoding="utf-8")


@fuzz(0.05)
@given(place=st.integers(0, len(TEXT)), cut=st.integers(0, 30), word=st.one_of(
    st.text(max_size=12), st.sampled_from(["0", "-1", "99999999999999999999", "(1,1,1)", "?", "nan", "=", "@", "#", "\n", "None"])))
def test_any_text_of_a_model(place, cut, word):
    Path("x.pnnx.param").write_text(TEXT[:place] + word + TEXT[place + cut:], encoding="utf-8", errors="replace")
    attempt(lambda: ixion.load("x.pnnx.param", random_weights=1, limits="256M")(X))
    attempt(lambda: ixion.command("inspect", "x.pnnx.param"))


@fuzz(0.03)
@given(changes=CHANGES, length=LENGTHS)
def test_any_bytes_of_an_archive(changes, length):
    Path("y.pnnx.param").write_bytes(LINEAR.read_bytes())
    Path("y.pnnx.bin").write_bytes(damaged(LINEAR.with_suffix(".bin").read_bytes(), changes, length))
    attempt(lambda: ixion.load("y.pnnx.param", limits="256M")(np.load(LINEAR.parent / "in_0.npy")))


def jpeg() -> bytes:
    images = pytest.importorskip("PIL.Image", reason="needs Pillow")
    images.fromarray(np.arange(64 * 64 * 3, dtype=np.uint8).reshape(64, 64, 3)).save(file := io.BytesIO(), "JPEG")
    return file.getvalue()


@fuzz(0.03)
@given(changes=CHANGES, length=LENGTHS, is_jpeg=st.booleans(), text=st.text(max_size=20))
def test_any_bytes_of_a_picture_or_of_scales(changes, length, is_jpeg, text):
    picture = attempt(lambda: ixion.Picture(damaged(jpeg() if is_jpeg else PNG, changes, length)))
    if picture is not None:
        attempt(lambda: ixion.classify(MODEL, picture))
        assert repr(picture) and np.asarray(picture).ndim == 3
    json = SCALES.to_json()
    place = len(text) * 37 % len(json)
    attempt(lambda: len(ixion.Scales(json[:place] + text + json[place + len(text):])))


# Pictures.


CARDS = [ixion.load(MODELS / f"{name}/{name}.pnnx.param") for name in ("digits", "shapes_detector", "shapes_unet", "linear")]
PICTURES = st.one_of(st.just(PNG), arrays(), st.builds(lambda h, w, c: np.zeros((h, w, *c), np.uint8), st.integers(0, 70),
                                                       st.integers(0, 70), st.sampled_from([(), (1,), (3,), (4,)])), VALUES)


@fuzz(0.03)
@given(model=st.sampled_from(CARDS), picture=st.one_of(PICTURES, st.lists(PICTURES, max_size=3)), confidence=st.one_of(
    st.none(), st.floats(), VALUES), iou=st.one_of(st.none(), st.floats(0, 1)), top=st.integers(0, 1 << 64))
def test_any_picture(model, picture, confidence, iou, top):
    attempt(lambda: ixion.classify(model, picture, top=top))
    for found in (attempt(lambda: ixion.detect(model, picture, confidence=confidence, iou=iou)),
                  attempt(lambda: ixion.segment(model, picture))):
        if found is not None:
            attempt(lambda: ixion.draw(picture, found))


# The command.


WORDS = st.one_of(
    st.sampled_from(["inspect", "operators", "devices", "verify", "plan", "run", "convert", "--help", "--json", "--threads", "--plugin",
                     "--shape", "--limits", str(DIGITS), str(LINEAR.parent), "small.plan", "0", "-1", "x=1,2", "--"]),
    # A hyphen alone would be the standard input.
    st.text(max_size=6).filter(lambda word: word != "-"), st.integers(), st.floats(), VALUES)


@fuzz(0.03)
@given(words=st.lists(WORDS, max_size=4))
def test_any_command(words):
    attempt(lambda: ixion.command(*words))
    code = attempt(lambda: ixion.main([word for word in words if isinstance(word, str)]))
    assert code in (None, 0, 1, 2)


@fuzz(0.02)
@given(arguments=st.fixed_dictionaries({}, optional={
    "tolerance": st.floats(), "jobs": st.one_of(st.integers(-1, 1 << 17), VALUES), "timeout": st.floats(), "scales": VALUES,
    "interpret": st.one_of(st.sampled_from([True, False, "plain", "optimised", "x"]), VALUES), "checksums": VALUES,
    "precision": st.lists(st.sampled_from(["f16", "bf16", "int8", "x"]), max_size=2), "device": st.text(max_size=4)}))
def test_any_arguments_of_verify(arguments):
    report = attempt(lambda: ixion.verify(LINEAR.parent, **arguments))
    assert report is None or (str(report) and len(report) == 1)


def test_the_models_still_work():
    assert close(MODEL(X), Y) and close(CONTEXT(X), Y)
