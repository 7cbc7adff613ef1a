"""What the command can do, as functions: operators, devices, profiles and verification."""

import pickle
import xml.etree.ElementTree as ElementTree
from concurrent.futures import ThreadPoolExecutor

import ixion
import numpy as np
import pytest
from bars import Bars
from conftest import MODELS, text


def test_the_operators_of_the_registry():
    known = {operator.type: operator for operator in ixion.operators()}
    assert len(known) > 500 and "kernel_size" in [field.key for field in known["nn.Conv2d"].fields]
    assert [operator.type for operator in ixion.operators("CONV2D")]
    assert ixion.operators("no such operator") == ixion.operators("--json") == []
    assert "nn.Conv2d" in repr(known["nn.Conv2d"])


@pytest.mark.parametrize("plugins", ["nothing.so", ["nothing.so"], ("-x",)])
def test_a_library_that_is_no_plugin(plugins):
    for function in (lambda: ixion.operators(plugins=plugins), lambda: ixion.verify(MODELS / "linear", plugins=plugins)):
        with pytest.raises((ixion.PluginError, ixion.NotFoundError)):
            function()
    with pytest.raises(ixion.InputError, match="plugins"):
        ixion.operators(plugins=3)


def test_the_processor_is_a_device():
    processor, *others = ixion.devices()
    assert (processor.id, processor.memory) == ("cpu", None) and "thread" in processor.details
    assert all(other.memory > 0 for other in others)
    assert processor == ixion.devices()[0] and len({processor, ixion.devices()[0]}) == 1
    assert "cpu" in repr(processor)


# Profiles.


def test_a_profile_lists_operators_with_their_times(digits, x):
    profile = digits.profile(x, runs=3)
    assert len(profile) > 5 and len(profile.operators) == len(profile) and profile.runs == 3
    assert all(row.seconds >= 0 for row in profile.operators)
    assert sum(kind.count for kind in profile.types) == len(profile)
    assert abs(sum(row.share for row in profile.operators) - 1) < 1e-6
    assert "Conv2d" in str(profile) and profile.seconds > 0
    assert "10×1×8×8" in profile.settings and "digits" in repr(profile)


@pytest.mark.parametrize("runs", [0, -1, 1.5, 10**30, "3"])
def test_numbers_of_runs_that_are_none(digits, x, runs):
    with pytest.raises((ixion.InputError, TypeError, OverflowError)):
        digits.profile(x, runs=runs)


def test_a_timeline_is_a_picture(digits, x):
    everything, slowest = digits.timeline(x), digits.timeline(x, top=2)
    assert ElementTree.fromstring(everything).tag.endswith("svg")
    assert len(slowest) < len(everything) and "the 2 slowest" in slowest
    with pytest.raises(ixion.InputError, match="top"):
        digits.timeline(x, top=0)


def test_notebooks_show_models_and_profiles_as_pictures(digits, x):
    for picture in (digits._repr_svg_(), digits.profile(x, runs=1)._repr_svg_(), digits.timeline(x)._repr_svg_()):
        assert ElementTree.fromstring(picture).tag.endswith("svg")


def test_pictures_escape_names(tmp_path):
    """A name in a file is not a part of the picture's language."""
    name = "<script>&\"'"
    content = text("pnnx.Input x 0 1 0 #0=(2)f32", f"nn.ReLU {name} 1 1 0 1 #0=(2)f32 #1=(2)f32",
                   "pnnx.Output y 1 0 1 #1=(2)f32")
    path = tmp_path / "<a>&b.pnnx.param"
    path.write_text(content)
    model = ixion.load(path, without_passes="all")
    profile = model.profile(np.zeros(2, np.float32), runs=1)
    assert name in [row.name for row in profile.operators]
    for picture in (model._repr_svg_(), profile._repr_svg_(), model.timeline(np.zeros(2, np.float32))):
        assert "<script>" not in picture
        assert name in "".join(ElementTree.fromstring(picture).itertext())


# Verification.


@pytest.fixture(scope="module")
def wrong(tmp_path_factory):
    """A case whose expected output is not what its model returns."""
    folder = tmp_path_factory.mktemp("wrong")
    for path in (MODELS / "linear").iterdir():
        if path.suffix in (".param", ".bin", ".npy"):
            (folder / path.name).write_bytes(path.read_bytes())
    np.save(folder / "out_0.npy", np.load(MODELS / "linear/out_0.npy") + 1)
    return folder


def test_models_are_verified(wrong):
    seen = Bars()
    report = ixion.verify((MODELS / name for name in ("digits", "linear")), progress=seen)
    assert report and (report.passed, report.failed, len(report)) == (2, 0, 2)
    assert [case.name for case in report.cases] == ["digits", "linear"]
    assert seen.only().is_complete()
    report = ixion.verify(str(wrong))
    assert not report and report.failed == 1 and report.cases[0].verdict == "fail"
    assert report.cases[0].max_abs_diff == pytest.approx(1, abs=1e-3) and report.cases[0].suspects
    assert str(report).endswith("0 passed, 1 failed") and not report.cases[0]
    assert ixion.verify(wrong, tolerance=2)


def test_results_can_be_pickled(digits, x, wrong):
    """They are what they were, to the last bit of their numbers."""
    report = ixion.verify([MODELS / "linear", wrong, "nothing"])
    profile, (relu, *_) = digits.profile(x, runs=1), ixion.operators("nn.ReLU")
    for protocol in range(2, pickle.HIGHEST_PROTOCOL + 1):
        for kept in (report, *report.cases, profile, *profile.operators, *profile.types, relu, *relu.fields, *ixion.devices()):
            again = pickle.loads(pickle.dumps(kept, protocol))
            assert type(again) is type(kept) and (str(again), repr(again)) == (str(kept), repr(kept))
            for name in (name for name in dir(kept) if not name.startswith("_")):
                assert str(getattr(again, name)) == str(getattr(kept, name)), name
            assert bool(again) == bool(kept)


def test_numbers_of_a_pickle_may_be_any():
    from ixion import _ixion
    for seconds in (float("nan"), float("inf"), -1.0, 1e300):
        time = _ixion._restore_time(("name", "type", 1, seconds, seconds, 0, 0, seconds, seconds, [], []))
        assert "OperatorTime" in repr(time)
        fields = ("name", "type", 1, seconds, seconds, 1, 0, seconds, seconds, [], [])
        profile = _ixion._restore_profile(("name", [fields] * 3, [fields], 1, "settings", "<svg/>"))
        assert len(profile) == 3 and "name" in str(profile) and repr(profile)


@pytest.mark.parametrize("options", [{"precision": "bf16"}, {"precision": ["bf16", "f16"]}, {"interpret": True},
                                     {"interpret": "optimised"}, {"interpret": False}, {"jobs": 1}, {"checksums": True},
                                     {"timeout": 60}, {"device": "cpu"}])
def test_options_of_verification(options):
    assert ixion.verify(MODELS / "linear", tolerance=0.1, **options)


@pytest.mark.parametrize("options", [{"precision": "f31"}, {"interpret": "loudly"}, {"jobs": 0}, {"tolerance": -1},
                                     {"tolerance": float("nan")}, {"timeout": 0}, {"precision": 3}, {"progress": 3},
                                     {"precision": "bf16", "interpret": True}])
def test_options_of_verification_that_are_refused(options):
    with pytest.raises(ixion.InputError):
        ixion.verify(MODELS / "linear", **options)


def test_folders_that_are_no_cases(tmp_path):
    report = ixion.verify(["nothing", tmp_path])
    assert [(case.verdict, case.kind) for case in report.cases] == [("error", "read")] * 2
    assert "nothing" in report.cases[0].reason
    assert ixion.verify([]) and len(ixion.verify([])) == 0


@pytest.mark.parametrize("folders", [3, None, [3], {"a": 1}.values()])
def test_what_is_no_folder(folders):
    with pytest.raises(ixion.InputError, match="folders"):
        ixion.verify(folders)


def test_several_threads_verify_at_once(wrong):
    folders = [MODELS / "linear", wrong] * 8
    with ThreadPoolExecutor(4) as pool:
        reports = list(pool.map(ixion.verify, folders))
    assert [bool(report) for report in reports] == [True, False] * 8
