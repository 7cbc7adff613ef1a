"""Calls and files that are wrong: each is an exception of the right kind that says what to do, and the next call works."""

import pickle

import ixion
import numpy as np
import pytest
from conftest import MODELS, close, squares, text

F32 = np.float32


def test_the_exceptions_have_one_base():
    kinds = [ixion.ModelError, ixion.InputError, ixion.LimitError, ixion.DeviceError, ixion.TimeoutError, ixion.Cancelled,
             ixion.PlanError, ixion.PluginError, ixion.NotFoundError, ixion.CompileError]
    for kind in kinds:
        assert issubclass(kind, ixion.Error) and kind.__module__.partition(".")[0] == "ixion" and kind.__doc__
    assert issubclass(ixion.InputError, ValueError) and issubclass(ixion.TimeoutError, TimeoutError)
    assert issubclass(ixion.NotFoundError, FileNotFoundError) and issubclass(ixion.PlanError, ixion.ModelError)
    assert not issubclass(ixion.Error, (ValueError, OSError))


def test_exceptions_can_be_pickled(digits):
    with pytest.raises(ixion.InputError) as raised:
        digits()
    again = pickle.loads(pickle.dumps(raised.value))
    assert type(again) is ixion.InputError and str(again) == str(raised.value)


# Calls.


@pytest.mark.parametrize("call, words", [
    (lambda m, x: m(), "missing"),
    (lambda m, x: m(x, x), "too many"),
    (lambda m, x: m({}), "missing"),
    (lambda m, x: m(nothing=x), "nothing"),
    (lambda m, x: m({"nothing": x}), "nothing"),
    (lambda m, x: m(x, **{m.inputs[0].name: x}), "twice"),
    (lambda m, x: m({m.inputs[0].name: x}, **{m.inputs[0].name: x}), "twice"),
    (lambda m, x: m({1: x}), "name"),
    (lambda m, x: m(x.astype(np.float64)), "32"),
    (lambda m, x: m(x.astype(np.int64)), "32"),
    (lambda m, x: m(x.astype(complex)), "32"),
    (lambda m, x: m(x[0]), "axes"),
    (lambda m, x: m(x[None]), "axes"),
    (lambda m, x: m(F32(1)), "axes"),
    (lambda m, x: m(None), ""),
    (lambda m, x: m(object()), ""),
    (lambda m, x: m("a picture"), ""),
    (lambda m, x: m(lambda: x), ""),
    (lambda m, x: m(np), ""),
    (lambda m, x: m(x, out=np.zeros((10, 10), np.float64)), "32"),
    (lambda m, x: m(x, out=np.zeros((10, 9), F32)), "10"),
    (lambda m, x: m(x, out=np.zeros((0,), F32)), "10"),
    (lambda m, x: m(x, out=x), ""),
    (lambda m, x: m(x, out=(np.zeros((10, 10), F32),) * 2), "output"),
    (lambda m, x: m(x, out={"nothing": np.zeros((10, 10), F32)}), "nothing"),
    (lambda m, x: m(x, out=[[0.0] * 10] * 10), ""),
    (lambda m, x: m(x, out="y"), ""),
    (lambda m, x: m(x, out=3), ""),
    (lambda m, x: m(x, out=b"\0" * 400), ""),
    (lambda m, x: m(x, timeout=0), "timeout"),
    (lambda m, x: m(x, timeout=-1), "timeout"),
    (lambda m, x: m(x, timeout=float("nan")), "timeout"),
    (lambda m, x: m(x, timeout=1e300), "timeout"),
    (lambda m, x: m(x, timeout="soon"), "timeout"),
])
def test_a_wrong_call_says_what_is_wrong(digits, x, y, call, words):
    for subject in (digits, digits.context()):
        with pytest.raises((ixion.InputError, TypeError)) as raised:
            call(subject, x)
        assert words.lower() in str(raised.value).lower() and str(raised.value).strip()
        assert close(subject(x), y)


def test_a_list_is_one_input(two_inputs, pair):
    for given in (list(pair), pair):
        with pytest.raises(ixion.InputError, match=r"missing(.|\n)*model\(a, b\), or by name"):
            two_inputs(given)
    with pytest.raises(ixion.InputError) as raised:
        two_inputs(pair[0])
    assert "model(a, b)" not in str(raised.value)


def test_the_message_names_the_input_and_both_shapes(digits, x):
    with pytest.raises(ixion.InputError) as raised:
        digits(np.zeros((2, 3, 8, 8), F32))
    said = str(raised.value)
    assert "3" in said and "1" in said


def test_channels_last_is_another_shape(digits, x):
    with pytest.raises(ixion.InputError):
        digits(np.moveaxis(x, 1, -1))


def test_outputs_that_cannot_be_written(digits, x):
    readonly = np.zeros((10, 10), F32)
    readonly.flags.writeable = False
    with pytest.raises(ixion.InputError, match="(?i)read|writ"):
        digits(x, out=readonly)
    repeated = np.broadcast_to(np.zeros(10, F32), (10, 10))
    with pytest.raises(ixion.InputError):
        digits(x, out=repeated)
    with pytest.raises(ixion.InputError):
        digits(x, out=np.lib.stride_tricks.as_strided(np.zeros(32, F32), (10, 10), (4, 4)))
    with pytest.raises(ixion.InputError):
        digits(x, out=memoryview(bytes(400)).cast("B").cast("f", (10, 10)))


def test_two_outputs_in_one_array(write):
    model = ixion.load(write(text("pnnx.Input x 0 1 0 #0=(?)f32", "aten::neg minus 1 1 0 1 #0=(?)f32 #1=(?)f32",
                                  "aten::abs size 1 1 0 2 #0=(?)f32 #2=(?)f32",
                                  "pnnx.Output y 2 0 1 2 #1=(?)f32 #2=(?)f32")))
    both = np.zeros(4, F32)
    with pytest.raises(ixion.InputError):
        model(np.ones(4, F32), out=(both, both))
    with pytest.raises(ixion.InputError):
        model(np.ones(3, F32), out=(both[:3], both[1:]))


def test_sizes_that_overflow(copying):
    model = copying("f32", ("?", "?"))
    huge = np.lib.stride_tricks.as_strided(np.zeros(1, F32), (1 << 28, 1 << 28), (0, 0))
    with pytest.raises((ixion.LimitError, ixion.InputError)):
        model(huge)
    with pytest.raises((ixion.LimitError, ixion.InputError)):
        model(np.broadcast_to(F32(1), (1 << 20, 1 << 20)))
    with pytest.raises((ixion.LimitError, ixion.InputError)):
        model(np.ones((2, 2), F32), out=np.broadcast_to(F32(1), (1 << 20, 1 << 20)))
    model(np.ones((2, 2), F32))


def test_more_axes_than_the_library_has(copying):
    with pytest.raises(ixion.InputError):
        copying("f32")(np.zeros((1,) * 32, F32))


class Nosy:
    """An object that calls a context while that one reads it."""

    def __init__(self, context: ixion.Context, values: np.ndarray):
        self.context, self.values = context, values

    def __array__(self, dtype=None, copy=None):
        self.context(self.values)
        return self.values


def test_a_context_is_not_called_by_what_it_reads(digits, x, y):
    context = digits.context()
    with pytest.raises((ixion.InputError, ValueError)):
        context(Nosy(context, x))
    assert close(context(x), y)
    assert close(digits(Nosy(digits, x)), y), "a model has contexts enough"


def test_keywords_that_are_not_strings_or_positions_that_are_not_arrays(digits, x):
    for arguments in ((x, None), (None, x), ([x],), ((x, x),), ({},  x)):
        with pytest.raises((ixion.InputError, TypeError)):
            digits(*arguments)


# Files.


@pytest.mark.parametrize("name", ["", "nothing.pnnx.param", "\0", "a" * 5000, "nothing/nothing.param"])
def test_files_that_do_not_exist(tmp_path, name):
    with pytest.raises((ixion.ModelError, ValueError)) as raised:
        ixion.load(f"{tmp_path}/{name}" if name else "")
    assert str(raised.value)
    if name.startswith("nothing"):
        assert isinstance(raised.value, FileNotFoundError) and "nothing" in str(raised.value)


@pytest.mark.parametrize("path", [None, 3, 1.5, b"\xff", [], object(), {}])
def test_what_is_no_path(path):
    with pytest.raises((ixion.ModelError, TypeError)):
        ixion.load(path)


def test_a_folder_is_no_file(tmp_path):
    with pytest.raises(ixion.ModelError):
        ixion.load(tmp_path)


@pytest.mark.parametrize("content", [
    b"", b"\0", b"7767517", b"7767517\n1 1\n", b"7767517\n-1 -1\n", b"7767517\n999999999 999999999\n", b"not a model\n",
    b"\xff\xfe" * 9, b"PK\x03\x04", b"7767517\n1 1\nnn.ReLU a 1 1 0 1\n",
    b"7767517\n2 1\npnnx.Input x 0 1 0 #0=(99999999999999999999)f32\npnnx.Output y 1 0 0\n",
])
def test_files_that_are_no_models(tmp_path, content):
    path = tmp_path / "x.pnnx.param"
    path.write_bytes(content)
    with pytest.raises(ixion.Error) as raised:
        model = ixion.load(path)
        model(np.zeros((1 << 20,), F32))
    assert str(raised.value)


def test_unknown_operators_and_missing_weights_are_model_errors(write, tmp_path, digits_path):
    with pytest.raises(ixion.ModelError, match="my.Operator"):
        ixion.load(write(text("pnnx.Input x 0 1 0 #0=(3)f32", "my.Operator op 1 1 0 1", "pnnx.Output y 1 0 1")))
    alone = tmp_path / "digits.pnnx.param"
    alone.write_bytes(digits_path.read_bytes())
    with pytest.raises(ixion.NotFoundError, match="weights"):
        ixion.load(alone)
    (tmp_path / "digits.pnnx.bin").write_bytes((digits_path.with_suffix(".bin")).read_bytes()[:1000])
    with pytest.raises(ixion.ModelError):
        ixion.load(alone)


def test_a_limit_is_a_limit_wherever_it_is_reached(digits_path, write):
    """In the text, in the archive, in passes, and at a run."""
    for limits in (100, 1000, {"max_total_bytes": 1000}, {"max_tensor_bytes": 100}, {"max_ops": 1}, {"max_rank": 1}):
        with pytest.raises(ixion.LimitError, match="limit"):
            ixion.load(digits_path, limits=limits)
    with pytest.raises(ixion.TimeoutError):
        ixion.load(digits_path, limits={"timeout": 1e-9})
    model = ixion.load(write(squares(2)), limits={"max_tensor_bytes": 1000})
    for call in (model, model.context()):
        with pytest.raises(ixion.LimitError, match="max_tensor_bytes"):
            call(np.ones((100, 100), F32))
        assert call(np.ones((2, 2), F32)).shape == (2, 2)


def test_a_limit_in_a_plan_or_in_an_archive_that_is_cut_off(tmp_path, digits_path):
    ixion.build(digits_path).save(tmp_path / "digits.plan")
    with pytest.raises(ixion.LimitError):
        ixion.load(tmp_path / "digits.plan", limits=1000)
    with pytest.raises(ixion.NotFoundError):
        ixion.load(tmp_path / "other.plan")
    with pytest.raises(ixion.NotFoundError):
        ixion.load(digits_path, bin=tmp_path / "other.bin")
    (tmp_path / "cut.bin").write_bytes(digits_path.with_suffix(".bin").read_bytes()[:-100])
    with pytest.raises(ixion.ModelError, match="cut") as raised:
        ixion.load(digits_path, bin=tmp_path / "cut.bin")
    assert type(raised.value) is ixion.ModelError


def test_operators_that_do_not_fit_each_other_are_the_fault_of_the_file_or_of_the_caller(write):
    def product(left: str, right: str) -> str:
        return text(f"pnnx.Input a 0 1 0 #0=({left})f32", f"pnnx.Input b 0 1 1 #1=({right})f32",
                    f"torch.matmul mm 2 1 0 1 2 #0=({left})f32 #1=({right})f32 #2=(2,5)f32",
                    "pnnx.Output y 1 0 2 #2=(2,5)f32")
    model = ixion.load(write(product("2,3", "3,5")))
    with pytest.raises(ixion.InputError, match="mm"):
        model(np.ones((2, 3), F32), np.ones((4, 5), F32))
    with pytest.raises(ixion.InputError):
        ixion.load(write(product("2,3", "3,5")), a=(2, 3), b=(4, 5))

    def layer(name: str, wanted: int, weights: int, places: str) -> str:
        return f"nn.Linear {name} 1 1 {places} bias=False in_features={wanted} out_features=5 @weight=(5,{weights})f32"
    for broken, layers in (("fc", [layer("fc", 4, 7, "0 1"), layer("fd", 5, 5, "1 2")]),
                           ("fd", [layer("fc", 3, 3, "0 1"), layer("fd", 7, 7, "1 2")])):
        path = write(text("pnnx.Input x 0 1 0 #0=(2,3)f32", *layers, "pnnx.Output y 1 0 2"))
        with pytest.raises(ixion.ModelError, match=f"`{broken}` (cannot be built|rejects)"):
            ixion.load(path, random_weights=1)


def test_the_text_is_that_of_the_command(write, capfd):
    path = write(text("pnnx.Input x 0 1 0 #0=(3)f32", "my.Operator op 1 1 0 1", "pnnx.Output y 1 0 1"))
    with pytest.raises(ixion.ModelError) as raised:
        ixion.load(path)
    assert ixion.main(["build", str(path), "--output", f"{path}.plan"]) == 2
    assert str(raised.value).splitlines()[0] in capfd.readouterr().err


def test_a_model_that_vanished_does_not_matter_any_more(tmp_path, x, y, digits_path):
    for ending in (".param", ".bin"):
        (tmp_path / f"digits.pnnx{ending}").write_bytes(digits_path.with_suffix(ending).read_bytes())
    model = ixion.load(tmp_path / "digits.pnnx.param")
    for path in tmp_path.iterdir():
        path.unlink()
    assert close(model(x), y)
    with pytest.raises(ixion.NotFoundError):
        ixion.load(tmp_path / "digits.pnnx.param")


# Classes.


@pytest.mark.parametrize("kind", ["Model", "Plan", "Context", "TensorInfo"])
def test_nothing_crashes_that_was_never_initialised(kind):
    wanted = getattr(ixion, kind)
    with pytest.raises(TypeError):
        wanted(1, 2, 3, 4, 5)
    with pytest.raises(TypeError):
        wanted.__new__(wanted)
    with pytest.raises((TypeError, AttributeError)):
        object.__new__(wanted)


def test_ports_cannot_be_changed(digits):
    with pytest.raises(AttributeError):
        digits.inputs[0].name = "other"
    digits.inputs.clear()
    assert len(digits.inputs) == 1


def test_models_of_the_repository_take_their_own_arrays():
    for name in ("linear", "conv3"):
        folder = MODELS / name
        found = ixion.load(folder / f"{name}.pnnx.param")(np.load(folder / "in_0.npy"))
        assert close(found, np.load(folder / "out_0.npy"))
