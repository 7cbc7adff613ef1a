"""The scales of int8 tensors: `ixion.calibrate` and `ixion.Scales`."""

import itertools
import pickle
import signal
import sys
import time
from collections.abc import Mapping

import ixion
import numpy as np
import pytest
from bars import Bars
from conftest import MODELS, close, squares
from programs import started

PICTURES = MODELS / "digits/samples"


@pytest.fixture(scope="module")
def samples():
    """Two batches of digits."""
    digits = np.load(MODELS / "digits/calibration/0.npy")
    return [digits[:64], digits[64:]]


@pytest.fixture(scope="module")
def scales(digits_path, samples):
    return ixion.calibrate(digits_path, samples)


def test_scales_make_int8_work(digits_path, scales, x, y, tmp_path):
    assert len(scales) > 5 and all(scale > 0 for scale in scales.values()) and scales.decibels
    scales.save(tmp_path / "scales.json")
    found = ixion.load(digits_path, precision=["int8"], scales=scales)(x)
    again = ixion.load(digits_path, precision=["int8"], scales=tmp_path / "scales.json")(x)
    assert found.tobytes() == again.tobytes()
    assert found.argmax(1).tolist() == y.argmax(1).tolist() and not close(found, y)


def test_int8_is_verified(scales, tmp_path):
    scales.save(tmp_path / "scales.json")
    for given in (scales, tmp_path / "scales.json", dict(scales)):
        report = ixion.verify(MODELS / "digits", precision="int8", scales=given, tolerance=10)
        assert report and report.cases[0].max_abs_diff > 1e-3
    for wrong in (3, "nothing.json", {"a": -1}):
        try:
            assert not ixion.verify(MODELS / "digits", precision="int8", scales=wrong)
        except ixion.Error as error:
            assert str(error)


def test_scales_are_a_mapping(scales, tmp_path):
    assert isinstance(scales, Mapping) and dict(scales) == dict(scales.items())
    operand = next(iter(scales))
    assert scales[operand] == scales.get(operand) and operand in scales
    assert scales.get("nothing") is None and scales.get("nothing", 1.5) == 1.5 and "nothing" not in scales
    with pytest.raises(KeyError, match="nothing"):
        scales["nothing"]
    assert scales == pickle.loads(pickle.dumps(scales)) == ixion.Scales(scales.to_json())
    assert scales != ixion.Scales(scales.to_json().replace("entropy", "minmax")) and scales != 3
    with pytest.raises(ixion.ModelError):
        ixion.Scales("no scales")
    with pytest.raises(ixion.NotFoundError):
        ixion.Scales.load(tmp_path / "nothing.json")


def test_the_same_samples_in_other_clothes(digits_path, samples, scales, tmp_path):
    for place, sample in enumerate(samples):
        np.save(tmp_path / f"{place}.npy", sample)
    name = ixion.load(digits_path).inputs[0].name
    for given in ((sample for sample in samples), [{name: sample} for sample in samples], [(sample,) for sample in samples],
                  tmp_path, [tmp_path / "0.npy", str(tmp_path / "1.npy")], [sample.tolist() for sample in samples]):
        assert ixion.calibrate(digits_path, given) == scales
    torch = pytest.importorskip("torch", reason="tensors are samples, too, which needs PyTorch")
    assert ixion.calibrate(digits_path, [torch.from_numpy(sample) for sample in samples]) == scales


def test_one_array_dictionary_or_picture_is_one_sample(digits_path, samples):
    name = ixion.load(digits_path).inputs[0].name
    for given in (samples[0], {name: samples[0]}, ixion.Picture(PICTURES / "7.png")):
        seen = Bars()
        ixion.calibrate(digits_path, given, method="minmax", progress=seen)
        assert seen.only().total == 2 and seen.only().is_complete()


def test_pictures_are_prepared_by_the_card(digits_path):
    paths = sorted(PICTURES.glob("*.png"))
    wanted = ixion.calibrate(digits_path, paths)
    assert ixion.calibrate(digits_path, [ixion.Picture(path) for path in paths]) == wanted
    image = pytest.importorskip("PIL.Image", reason="images of Pillow are samples too: pip install pillow")
    assert ixion.calibrate(digits_path, [image.open(path) for path in paths]) == wanted


def test_not_all_samples_are_used(digits_path, samples):
    for given in (itertools.repeat(samples[0]), PICTURES, list(PICTURES.glob("*.png"))):
        seen = Bars()
        ixion.calibrate(digits_path, given, max=3, progress=seen)
        assert seen.only().total == 3 * 3 and seen.only().is_complete()
    with pytest.raises(ixion.InputError, match="max"):
        ixion.calibrate(digits_path, samples, max=0)


def test_models_with_several_inputs(pair):
    path = MODELS / "two_inputs/two_inputs.pnnx.param"
    first, second = (port.name for port in ixion.load(path).inputs)
    wanted = ixion.calibrate(path, [pair])
    assert ixion.calibrate(path, [list(pair)]) == ixion.calibrate(path, [{second: pair[1], first: pair[0]}]) == wanted
    for sample, problem in (((pair[0],), "missing"), ((*pair, pair[0]), "expected"), ({first: pair[0]}, second),
                            ({first: pair[0], "z": pair[1]}, "z"), ({1: pair[0]}, "strings")):
        with pytest.raises(ixion.InputError, match=problem):
            ixion.calibrate(path, [sample])


@pytest.mark.parametrize("samples", [[], (), [None], [np.zeros((1, 3, 8, 8), np.float32)], "nothing/", 3, [("a", "b")], [b""],
                                     ["nothing.npy"], ["nothing.xyz"], np.zeros(()), iter([])])
def test_samples_that_do_not_fit(digits_path, samples):
    with pytest.raises(ixion.Error) as raised:
        ixion.calibrate(digits_path, samples)
    assert str(raised.value)


@pytest.mark.skipif(sys.version_info < (3, 11), reason="exceptions have no notes")
def test_an_error_says_which_sample_it_is_about(digits_path, samples, tmp_path):
    for wrong in (np.zeros((1, 3, 8, 8), np.float32), object()):
        with pytest.raises(ixion.InputError) as raised:
            ixion.calibrate(digits_path, [*samples, wrong])
        assert raised.value.__notes__ == ["in sample 2"]
    np.save(tmp_path / "wrong.npy", np.zeros((1, 3, 8, 8), np.float32))
    with pytest.raises(ixion.InputError) as raised:
        ixion.calibrate(digits_path, tmp_path)
    assert "wrong.npy" in raised.value.__notes__[0]


def test_a_bar_is_closed_whatever_happens(digits_path, x):
    seen = Bars()
    with pytest.raises(ixion.InputError):
        ixion.calibrate(digits_path, [x, x[:, 0]], progress=seen)
    assert (seen.only().total, seen.only().count, seen.only().is_closed) == (6, 1, True)


def test_an_error_of_the_bar_is_raised(digits_path, x):
    with pytest.raises(ZeroDivisionError):
        ixion.calibrate(digits_path, [x], progress=lambda total: 1 / 0)
    with pytest.raises(AttributeError):
        ixion.calibrate(digits_path, [x], progress=lambda total: object())
    with pytest.raises(ixion.InputError, match="progress"):
        ixion.calibrate(digits_path, [x], progress=3)


def test_tqdm_is_a_bar(digits_path, x):
    tqdm = pytest.importorskip("tqdm", reason="pip install tqdm")
    assert ixion.calibrate(digits_path, [x], progress=lambda **options: tqdm.tqdm(disable=True, **options))


INTERRUPTED = """
    import itertools, sys, ixion, numpy as np
    large, small = (np.eye(size, dtype=np.float32) for size in (1500, 2))
    print("runs", flush=True)
    try:
        ixion.calibrate(sys.argv[1], [large] if sys.argv[2] == "run" else itertools.repeat(small))
    except KeyboardInterrupt:
        print("interrupted", len(ixion.calibrate(sys.argv[1], [small], method="minmax")) > 0)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="signals are others")
@pytest.mark.parametrize("what", ["run", "samples"])
def test_ctrl_c_ends_a_calibration(write, what):
    program = started(INTERRUPTED, write(squares(500)), what)
    time.sleep(0.5)
    program.send_signal(signal.SIGINT)
    said, errors = program.communicate(timeout=60)
    assert said == "interrupted True\n", errors


@pytest.mark.parametrize("options", [{"method": "guess"}, {"least": float("nan")}, {"no_such_option": 1}])
def test_options_that_are_refused(digits_path, x, options):
    with pytest.raises(ixion.InputError):
        ixion.calibrate(digits_path, [x], **options)


def test_plans_cannot_be_calibrated(digits_path, x, tmp_path):
    ixion.build(digits_path).save(tmp_path / "digits.plan")
    with pytest.raises(ixion.ModelError, match="plan"):
        ixion.calibrate(tmp_path / "digits.plan", [x])


def test_scales_of_another_model_are_refused(digits_path):
    for scales in ({"no such operand": 0.1}, "nothing.json"):
        with pytest.raises(ixion.ModelError):
            ixion.load(digits_path, precision=["int8"], scales=scales)
