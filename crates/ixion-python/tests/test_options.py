"""The options of `load` and `build`: what each does, and values that it cannot have."""

import inspect
import logging
import re
import subprocess
import sys

import ixion
import numpy as np
import pytest
from conftest import MODELS, close, squares, text

COMMAND = {
    "bin": "bin", "input-shape": "shapes", "profile": "shapes", "donate": "donate", "precision": "precision", "scales": "scales",
    "layouts": "layouts", "tactic": "tactics", "without-tactic": "without_tactics", "fast": "fast", "tune": "tune",
    "timing-cache": "tune", "device": "device", "check-kernels": "check_kernels", "tf32": "tf32", "without": "without_passes",
    "random-weights": "random_weights", "plugin": "plugins", "use": "use", "constant": "constants", "limit-memory": "limits", "timeout": "limits",
    "map": "map", "verify": "verify", "threads": "threads",
}
"""The options of the command that say how a model is built or loaded, and those of Python that are for the same."""
OTHERS = {
    "build": {"output", "verbose", "help"},
    "run": {"input", "output", "picture", "mask", "top", "confidence", "iou", "batch", "trace", "json", "interpret", "verbose",
            "help"},
}
"""What the methods of plans and models are for."""


@pytest.mark.parametrize("subcommand", OTHERS)
def test_every_option_of_the_command_is_one_of_python(subcommand):
    line = [sys.executable, "-m", "ixion", subcommand, "--help"]
    said = subprocess.run(line, capture_output=True, text=True, check=True).stdout
    found = set(re.findall(r"^ +(?:-\w, )?--([a-z0-9-]+)", said, re.MULTILINE)) - OTHERS[subcommand]
    assert len(found) > 15 and not found - set(COMMAND), f"no option of `ixion.load` does what {found - set(COMMAND)} does"
    known = inspect.signature(ixion.load).parameters
    assert set(COMMAND.values()) <= set(known)
    assert all(f"{name} " in ixion.load.__doc__ or f"{name}," in ixion.load.__doc__ for name in set(known) - {"ranges"})
    assert set(known) - {"map", "verify"} == set(inspect.signature(ixion.build).parameters)


@pytest.mark.parametrize("options", [
    {"threads": 0}, {"threads": 1}, {"threads": 4}, {"precision": []}, {"precision": "f32"}, {"layouts": "plain"},
    {"layouts": "alternating"}, {"layouts": "narrowest"}, {"tactics": ["winograd"]}, {"tactics": "gemm"},
    {"without_tactics": ("winograd", "direct")}, {"fast": True}, {"without_passes": []}, {"limits": "1G"},
    {"limits": {"memory": 1 << 30, "max_rank": 8, "timeout": 60}}, {"plugins": []}, {"device": "cpu"}, {"device": None},
    {"scales": None}, {"map": False}, {"donate": {}}, {"shapes": {}}, {"tf32": None}, {"check_kernels": False},
    {"device": "cpu", "tf32": "all", "check_kernels": True},
])
def test_options_that_change_no_result(digits_path, x, y, options):
    assert close(ixion.load(digits_path, **options)(x), y)
    assert close(ixion.Model(ixion.build(digits_path, **options))(x), y)


def test_results_do_not_depend_on_the_number_of_threads(digits_path, x):
    one, many = (ixion.load(digits_path, threads=threads)(x) for threads in (1, 3))
    assert one.tobytes() == many.tobytes()


@pytest.mark.parametrize("precision", ["bf16", "f16"])
def test_lower_precision_is_close(digits_path, x, y, precision):
    found = ixion.load(digits_path, precision=[precision])(x)
    assert found.dtype == np.float32 and np.abs(found - y).max() < 0.3
    assert found.argmax(1).tolist() == list(range(10))


def test_tuning_keeps_what_it_measured(digits_path, x, y, tmp_path):
    cache = tmp_path / "timings.json"
    assert close(ixion.load(digits_path, tune=cache)(x), y)
    assert cache.stat().st_size > 10


def test_shapes_fix_what_may_come(digits_path, digits, x, y):
    name = digits.inputs[0].name
    for shape in ((10, 1, 8, 8), "10,1,8,8", ("n", 1, 8, 8), (None, 1, 8, 8)):
        model = ixion.load(digits_path, **{name: shape})
        assert close(model(x), y)
    assert close(ixion.load(digits_path, shapes={name: (10, 1, 8, 8)})(x), y)
    with pytest.raises(ixion.InputError, match=name):
        ixion.load(digits_path, **{name: (10, 1, 8, 8)})(x[:3])


def test_symbols_are_lengths_that_are_equal(write):
    kind = "=(?,?)f32"
    path = write(text(f"pnnx.Input x 0 1 0 #0{kind}", f"aten::neg minus 1 1 0 1 #0{kind} #1{kind}",
                      f"pnnx.Output y 1 0 1 #1{kind}"))
    model = ixion.load(path, x=("n", "n"))
    assert model(np.ones((3, 3), np.float32)).shape == (3, 3)
    assert model.inputs[0].shape == ("n", "n")
    with pytest.raises(ixion.InputError, match="n"):
        model(np.ones((3, 4), np.float32))


def test_ranges_bound_what_may_come(digits_path, digits, x, y):
    name = digits.inputs[0].name
    for shapes in (((1, 1, 8, 8), (4, 1, 8, 8), (10, 1, 8, 8)), "1,1,8,8:4,1,8,8:10,1,8,8"):
        model = ixion.load(digits_path, **{name: shapes})
        assert close(model(x), y) and close(model(x[:1]), y[:1])
        with pytest.raises(ixion.InputError, match=name):
            model(np.zeros((11, 1, 8, 8), np.float32))


@pytest.mark.parametrize("options, words", [
    ({"precison": "bf16"}, "perhaps `precision` is meant"), ({"layout": "plain"}, "perhaps `layouts` is meant"),
    ({"thread": ((1,), (2,), (3,))}, "perhaps `threads` is meant"), ({"picture": "n,1,8,8"}, "pnnx_input_0"),
    ({"thread": 1}, "perhaps `threads` is meant"), ({"dynamic": {0: "n"}}, "`dynamic` is an argument of `ixion.compile`"),
    ({"timout": 3}, "perhaps `timeout` is meant, an argument of"), ({"timeout": 3}, 'and `limits={"timeout": …}`'), ({"nothing": (1, 2)}, "nothing"), ({"threads": -1}, "threads"), ({"threads": 1.5}, "threads"),
    ({"threads": True}, "threads"), ({"threads": 10**30}, "threads"), ({"threads": "2"}, "threads"),
    ({"precision": "f8"}, "f8"), ({"precision": 3}, "precision"), ({"precision": [None]}, "precision"),
    ({"layouts": "best"}, "layouts"), ({"layouts": 1}, "layouts"), ({"tactics": 1}, "tactics"), ({"fast": "yes"}, "fast"),
    ({"tune": 3}, "tune"), ({"tf32": "some", "device": "cpu"}, "convolutions"), ({"tf32": "all"}, "device"),
    ({"check_kernels": True}, "device"), ({"check_kernels": 1, "device": "cpu"}, "check_kernels"), ({"device": 3}, "device"),
    ({"device": "toaster"}, ""), ({"plugins": 3}, "plugins"),
    ({"limits": "much"}, "limits"), ({"limits": -1}, "limits"), ({"limits": 0}, "limits"), ({"limits": {"most": 1}}, "most"),
    ({"limits": {"timeout": 0}}, "timeout"), ({"limits": {"max_ops": -1}}, "max_ops"), ({"map": True}, "map"),
    ({"scales": 3}, "scales"), ({"scales": {"a": -1}}, "a"), ({"scales": {"a": float("nan")}}, "a"),
    ({"donate": {"a": "b"}}, "a"), ({"donate": 3}, "donate"), ({"shapes": 3}, "shapes"), ({"shapes": {1: (1,)}}, "shapes"),
    ({"pnnx_input_0": (-1, 2)}, "pnnx_input_0"), ({"pnnx_input_0": "1,,2"}, "1,,2"), ({"pnnx_input_0": [(1,), (2,)]}, ""),
    ({"pnnx_input_0": (10, 1, 8)}, ""), ({"pnnx_input_0": ((4, 1, 8, 8), (2, 1, 8, 8), (1, 1, 8, 8))}, ""),
])
def test_values_that_an_option_cannot_have(digits_path, options, words):
    for make in (ixion.load, ixion.build):
        with pytest.raises((ixion.Error, TypeError)) as raised:
            make(digits_path, **options)
        assert words in str(raised.value)


@pytest.mark.parametrize("name", ["in0", "in", "x", "mask", "bins"])
def test_nothing_is_suggested_that_is_not_near(digits_path, name):
    with pytest.raises(ixion.InputError) as raised:
        ixion.load(digits_path, **{name: (1, 1, 8, 8)})
    assert ("hint" in str(raised.value)) == (name == "bins")


def test_misspelt_arguments_of_calls(digits, x):
    for call, words in ((lambda: digits(x, timout=3), "perhaps `timeout` is meant"),
                        (lambda: digits(x, threads=3), "`threads` is an argument of `ixion.load`"),
                        (lambda: digits.profile(x, run=3), "perhaps `runs` is meant, an argument of `Model.profile`"),
                        (lambda: digits(pnnx_input_1=x), "perhaps `pnnx_input_0` is meant")):
        with pytest.raises(ixion.InputError) as raised:
            call()
        assert words in str(raised.value)


def test_messages_are_in_the_words_of_python(digits_path, digits, x, tmp_path):
    """What the command calls otherwise."""
    with pytest.raises(ixion.LimitError, match=r"max_total_bytes of 1000; raise it by `limits=\{…\}` if"):
        ixion.load(digits_path, limits=1000)
    with pytest.raises(ixion.InputError, match="as by `.astype` or `.to`"):
        digits(x.astype(np.float64))
    with pytest.raises(ixion.ModelError, match="create one with `ixion.calibrate`"):
        ixion.Scales("{}")
    (tmp_path / "x.plan").write_bytes(b"no plan")
    with pytest.raises(ixion.PlanError, match="create one with `ixion.build`"):
        ixion.Plan.load(tmp_path / "x.plan")


def test_limits_are_limits(digits_path, write):
    with pytest.raises(ixion.LimitError):
        ixion.load(digits_path, limits=1000)
    with pytest.raises(ixion.LimitError, match="operators|ops"):
        ixion.load(digits_path, limits={"max_ops": 3})
    model = ixion.load(write(squares(2)), limits="1M")
    with pytest.raises(ixion.LimitError):
        model(np.ones((1000, 1000), np.float32))
    with pytest.raises(ixion.TimeoutError):
        ixion.load(MODELS / "shapes_detector/shapes_detector.pnnx.param", limits={"timeout": 1e-9})


def test_plugins_that_are_none(digits_path, tmp_path):
    for content in (None, b"", b"\x7fELF and nothing else"):
        path = tmp_path / "libnothing.so"
        if content is not None:
            path.write_bytes(content)
        with pytest.raises(ixion.Error, match="libnothing"):
            ixion.load(digits_path, plugins=[path])


def test_random_weights_need_no_archive(x):
    path = MODELS / "resnet18/resnet18.pnnx.param"
    model = ixion.load(path, random_weights=7)
    given = np.zeros((1, 3, 224, 224), np.float32)
    assert np.array_equal(model(given), ixion.load(path, random_weights=7)(given))
    with pytest.raises(ixion.NotFoundError, match="weights"):
        ixion.load(path)


def test_options_for_devices_apply_to_plans(digits_path, tmp_path, x, y):
    path = tmp_path / "digits.plan"
    ixion.build(digits_path).save(path)
    assert close(ixion.load(path, device="cpu", tf32="none")(x), y)
    with pytest.raises(ixion.InputError, match="device"):
        ixion.load(path, tf32="none")
    with pytest.raises(ixion.DeviceError, match="toaster"):
        ixion.load(path, device="toaster", tf32="all")


def test_the_level_of_the_logger_is_that_of_the_messages(digits_path, x, caplog):
    for level, is_told in ((logging.DEBUG, True), (logging.INFO, False), (logging.NOTSET, False)):
        with caplog.at_level(level, logger="ixion"):
            logging.getLogger("ixion").setLevel(level)
            model = ixion.load(digits_path)
            caplog.clear()
            model(x)
        assert any("took" in record.getMessage() for record in caplog.records) == is_told
        assert all(record.name.startswith("ixion.") for record in caplog.records)
