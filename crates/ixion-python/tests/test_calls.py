"""Loading a model and calling it: positions, names, several inputs and outputs, arrays for outputs, and what a model tells."""

import gc
import logging
import types
from collections import UserDict
from pathlib import Path

import ixion
import numpy as np
import pytest
from conftest import MODELS, address, close, text


def test_the_outputs_are_those_of_pytorch(digits, x, y):
    found = digits(x)
    assert isinstance(found, np.ndarray)
    assert found.dtype == np.float32 and found.shape == (10, 10) and close(found, y)


def test_inputs_are_given_by_position_by_name_or_in_a_dictionary(two_inputs, pair):
    wanted = np.load(MODELS / "two_inputs/out_0.npy")
    names = [port.name for port in two_inputs.inputs]
    for found in (two_inputs(*pair), two_inputs(dict(zip(names, pair))), two_inputs(**dict(zip(names, pair))),
                  two_inputs(pair[0], **{names[1]: pair[1]})):
        assert close(found, wanted)


def test_any_mapping_names_inputs_and_outputs(two_inputs, pair, tmp_path):
    wanted, name = np.load(MODELS / "two_inputs/out_0.npy"), two_inputs.outputs[0].name
    given = dict(zip((port.name for port in two_inputs.inputs), pair))
    np.savez(tmp_path / "inputs.npz", **given)
    with np.load(tmp_path / "inputs.npz") as archive:
        for inputs in (UserDict(given), types.MappingProxyType(given), archive):
            out = np.empty_like(wanted)
            assert two_inputs(inputs, out=UserDict({name: out})) is out and close(out, wanted)


def test_a_name_of_a_parameter_is_given_in_a_dictionary(write):
    model = ixion.load(write(negative("out", "timeout")))
    out = np.empty(2, np.float32)
    assert model({"out": np.float32([1, 2])}, out={"timeout": out}, timeout=10) is out and out.tolist() == [-1, -2]


@pytest.mark.parametrize("names", [{1: 0}, {None: 0}, {"\ud800": 0}, {b"x": 0}])
def test_names_that_are_no_text(write, names):
    model = ixion.load(write(negative()))
    x = np.ones(2, np.float32)
    with pytest.raises(ixion.InputError, match="strings"):
        model({name: x for name in names})
    with pytest.raises(ixion.InputError, match="strings"):
        model(x, out=dict.fromkeys(names, x))


def test_an_input_or_output_that_is_given_twice(write):
    """The second name is that of the operand."""
    model = ixion.load(write(negative()))
    x = np.ones(2, np.float32)
    for call in (lambda: model(x, x=x), lambda: model({"x": x, "0": x}), lambda: model({"x": x}, x=x),
                 lambda: model(x, out={"y": np.ones_like(x), "1": np.ones_like(x)})):
        with pytest.raises(ixion.InputError, match="given twice"):
            call()


def negative(x: str = "x", y: str = "y") -> str:
    """A model of one operator: y = -x."""
    return text(f"pnnx.Input {x} 0 1 0 #0=(?)f32", "aten::neg minus 1 1 0 1 #0=(?)f32 #1=(?)f32",
                f"pnnx.Output {y} 1 0 1 #1=(?)f32")


def test_an_array_that_is_given_away_becomes_the_output(write):
    model = ixion.load(write(negative()), donate={"x": "y"})
    for subject in (model, model.context(), ixion.Model(ixion.Plan.from_bytes(model.plan.to_bytes()))):
        given = np.float32([1, -2, 3])
        where = address(given)
        assert subject(given, out=given) is given and given.tolist() == [-1, 2, -3] and address(given) == where
        assert subject({"x": given}, out={"y": given}) is given and given.tolist() == [1, -2, 3]
        # Otherwise, the input stays as it is.
        assert subject(given).tolist() == [-1, 2, -3] and given.tolist() == [1, -2, 3]
    with pytest.raises(ixion.InputError, match="contiguous"):
        strided = np.zeros(8, np.float32)[::2]
        model(strided, out=strided)
    with pytest.raises(ixion.InputError, match="shares memory"):
        given = np.zeros(8, np.float32)
        model(given, out=given[:])


def test_an_input_is_no_output_unless_it_was_declared(write):
    model = ixion.load(write(negative()))
    given = np.float32([1, 2])
    with pytest.raises(ixion.InputError, match=r'donate=\{"x": "y"\}'):
        model(given, out=given)
    assert given.tolist() == [1, 2] and model(given).tolist() == [-1, -2]


def test_several_outputs_are_a_tuple(write):
    model = ixion.load(write(text("pnnx.Input x 0 1 0 #0=(?)f32", "aten::neg minus 1 1 0 1 #0=(?)f32 #1=(?)f32",
                                  "aten::abs size 1 1 0 2 #0=(?)f32 #2=(?)f32",
                                  "pnnx.Output y 2 0 1 2 #1=(?)f32 #2=(?)f32")))
    negative, absolute = model(np.float32([1, -2]))
    assert negative.tolist() == [-1, 2] and absolute.tolist() == [1, 2]
    first = np.empty(2, np.float32)
    given = model(np.float32([1, -2]), out=(first, None))
    assert given[0] is first and first.tolist() == [-1, 2] and given[1].tolist() == [1, 2]


def test_outputs_go_where_the_caller_wants_them(digits, x, y):
    out = np.full((10, 10), np.nan, np.float32)
    assert digits(x, out=out) is out
    assert close(out, y)
    name = digits.outputs[0].name
    out[:] = np.nan
    digits(x, out={name: out})
    assert close(out, y)


def test_results_stay_when_the_model_runs_again_or_is_gone(digits_path, x, y):
    model = ixion.load(digits_path)
    first = model(x)
    model(np.zeros_like(x))
    assert close(first, y)
    del model
    gc.collect()
    assert close(first, y) and first.flags.writeable


def test_every_batch_size_fits_a_dynamic_model(digits, x, y):
    for count in (1, 3, 10, 2, 1):
        assert close(digits(x[:count]), y[:count])
    assert digits(np.empty((0, 1, 8, 8), np.float32)).shape == (0, 10)


def test_ports_have_names_shapes_and_types(digits, two_inputs):
    (image,), (scores,) = digits.inputs, digits.outputs
    assert image.name and image.dtype == "float32"
    batch, *rest = image.shape
    assert tuple(rest) == (1, 8, 8) and (batch is None or isinstance(batch, str))
    assert scores.dtype == "float32" and scores.shape[1] == 10
    assert [tuple(port.shape) for port in two_inputs.inputs] == [(2, 3, 16, 16), (2, 4, 8, 8)]
    assert "8" in repr(image) and image.name in repr(image)


def test_the_representation_tells_inputs_and_outputs(digits):
    for port in (*digits.inputs, *digits.outputs):
        assert port.name in repr(digits)
    assert "float32" in repr(digits) and "8" in repr(digits)


def test_a_path_may_be_text_or_a_path(digits_path, x, y):
    assert close(ixion.load(str(digits_path))(x), y)
    assert close(ixion.load(Path(digits_path))(x), y)


def test_a_context_is_called_like_its_model(digits, x, y):
    context = digits.context()
    out = np.empty((10, 10), np.float32)
    assert close(context(x), y)
    assert context(x, out=out) is out and close(out, y)
    assert close(context({digits.inputs[0].name: x}), y)
    with pytest.raises(ixion.InputError):
        context()
    assert close(context(x), y), "an error leaves the context as it was"


@pytest.mark.parametrize("timeout", [60, 0.5e3, 1e12, 1e18, np.float32(60), np.int64(60), None])
def test_a_time_limit_that_suffices_changes_nothing(digits, x, y, timeout):
    assert close(digits(x, timeout=timeout), y)
    assert close(digits.context()(x, timeout=timeout), y)


@pytest.mark.parametrize("timeout", [0, -1, 0.0, -0.0, float("nan"), float("inf"), -float("inf"), 1e300, 10**400, "1", [], 1j])
def test_a_time_limit_that_is_none(digits, x, y, timeout):
    for subject in (digits, digits.context()):
        with pytest.raises(ixion.InputError, match="`timeout` must be a number of seconds above 0"):
            subject(x, timeout=timeout)
        assert close(subject(x), y)


def test_a_call_within_a_call(digits, x, y):
    """Reading an input may call the model itself, but not the context, which is in use."""
    class Nested:
        def __init__(self, subject):
            self.subject = subject

        def __array__(self, *_, **__):
            assert close(self.subject(x), y)
            return np.array(x)
    assert close(digits(Nested(digits)), y)
    context = digits.context()
    with pytest.raises(ixion.InputError, match="another call is running in this context"):
        context(Nested(context))
    assert close(context(x), y)


def test_loading_is_logged(digits_path, caplog):
    with caplog.at_level(logging.DEBUG, logger="ixion"):
        ixion.load(digits_path)
    assert caplog.records and all(record.name.startswith("ixion") for record in caplog.records)


def test_all_documented_names_exist():
    for name in ixion.__all__:
        value = getattr(ixion, name)
        if callable(value):
            assert value.__doc__, f"ixion.{name} has no documentation"
    assert {"load", "build", "compile", "calibrate", "verify", "operators", "Model", "Plan", "Context", "TensorInfo", "Error",
            "main"} <= set(ixion.__all__)
    assert ixion.__version__
