"""ONNX files."""

import pickle

import ixion
import numpy as np
import pytest
from conftest import MODELS

SAMPLES = MODELS.parent / "tests/onnx"
LOOP = SAMPLES / "loops_by_input/model.onnx"


def test_a_file_is_loaded_like_any_model():
    model = ixion.load(SAMPLES / "conv/model.onnx")
    assert model.inputs[0].shape == (1, 2, 5, 6)
    outputs = model(*(np.ones(given.shape, given.dtype) for given in model.inputs))
    assert outputs[0].shape == (1, 4, 3, 4)


def test_onnx_has_the_same_results():
    report = ixion.verify([SAMPLES / name for name in ("conv", "lstm", "quantize")])
    assert all(case.verdict == "pass" for case in report.cases), report


def test_inputs_that_are_fixed(tmp_path):
    with pytest.raises(ixion.ModelError, match="number of iterations"):
        ixion.load(LOOP)
    model = ixion.load(LOOP, constants={"rounds": 3})
    assert [given.name for given in model.inputs] == ["x"]
    x = np.array([1, -2], np.float32)
    assert np.array_equal(model(x), 8 * x)
    assert np.array_equal(pickle.loads(pickle.dumps(model))(x), 8 * x)
    plan = ixion.build(LOOP, constants={"rounds": np.array(2)})
    plan.save(tmp_path / "loop.plan")
    assert np.array_equal(ixion.load(tmp_path / "loop.plan")(x), 4 * x)


@pytest.mark.parametrize("constants", [{"round": 3}, {"rounds": 0.5}, {"rounds": [1, 2]}])
def test_constants_must_fit_the_model(constants):
    with pytest.raises(ixion.ModelError, match=next(iter(constants))):
        ixion.load(LOOP, constants=constants)


@pytest.mark.parametrize("constants", [3, {"rounds": "three"}, {3: 3}])
def test_constants_must_be_numbers(constants):
    with pytest.raises(ixion.InputError, match="constants"):
        ixion.load(LOOP, constants=constants)


def test_constants_are_for_onnx_files():
    with pytest.raises(ixion.ModelError, match="not an ONNX file"):
        ixion.load(MODELS / "digits/digits.pnnx.param", constants={"x": 1})


def test_what_is_no_onnx_file(tmp_path):
    path = tmp_path / "model.onnx"
    path.write_bytes(b"\x08\x0a\x3a\xff")
    with pytest.raises(ixion.ModelError, match=r"model\.onnx"):
        ixion.load(path)
    with pytest.raises(ixion.NotFoundError):
        ixion.load(tmp_path / "none.onnx")
