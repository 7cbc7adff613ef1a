"""Plans: saved, loaded, mapped, as bytes, pickled, and damaged."""

import copy
import mmap
import os
import pickle
import shutil
import struct
import sys
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import ixion
import numpy as np
import pytest
from conftest import close
from programs import child


@pytest.fixture(scope="module")
def plan(digits_path) -> ixion.Plan:
    return ixion.build(digits_path)


def test_a_saved_plan_gives_the_same_bits(plan, tmp_path, x, y):
    path = tmp_path / "digits.plan"
    plan.save(path)
    wanted = ixion.Model(plan)(x)
    assert close(wanted, y)
    for found in (ixion.load(path), ixion.load(str(path), map=True), ixion.Model(ixion.Plan.load(path)),
                  ixion.Model(ixion.Plan.from_bytes(plan.to_bytes()))):
        assert found(x).tobytes() == wanted.tobytes()
    assert path.read_bytes() == plan.to_bytes()


def test_one_plan_serves_many_models_and_outlives_none(plan, x, y):
    models = [ixion.Model(plan) for _ in range(3)]
    assert all(close(model(x), y) for model in models)
    again = ixion.Plan.from_bytes(plan.to_bytes())
    model = ixion.Model(again)
    del again
    assert close(model(x), y)


def test_a_mapped_plan_outlives_the_name_of_its_file(plan, tmp_path, x, y):
    path = tmp_path / "digits.plan"
    plan.save(path)
    model = ixion.load(path, map=True)
    path.unlink()
    assert close(model(x), y)


def test_saving_replaces_a_file_that_is_mapped(plan, tmp_path, x, y):
    path = tmp_path / "digits.plan"
    plan.save(path)
    model = ixion.load(path, map=True)
    plan.save(path)
    assert close(model(x), y)


@pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
def test_models_and_plans_can_be_pickled(plan, digits, x, y, protocol):
    for subject in (digits, ixion.Model(plan)):
        assert close(pickle.loads(pickle.dumps(subject, protocol))(x), y)
    assert close(ixion.Model(pickle.loads(pickle.dumps(plan, protocol)))(x), y)


def test_what_does_not_change_is_its_own_copy(plan, digits):
    for subject in (plan, digits):
        assert copy.copy(subject) is subject and copy.deepcopy([subject])[0] is subject


def test_attributes_of_a_model_survive_pickling(digits_path, x):
    model = ixion.load(digits_path)
    model.losses, model.label = (ixion.Loss("slices"),), "seven"
    model._private = lambda: 0
    again = pickle.loads(pickle.dumps(model))
    assert (again.losses, again.label) == (model.losses, model.label) and not hasattr(again, "_private")
    assert pickle.loads(pickle.dumps(ixion.load(digits_path))).losses == ()


@pytest.fixture
def copied(digits_path, tmp_path):
    """A model in a folder of its own."""
    for name in ("digits.pnnx.param", "digits.pnnx.bin", "model.toml"):
        shutil.copy(digits_path.with_name(name), tmp_path)
    return tmp_path / digits_path.name


def test_a_model_whose_file_is_gone_is_pickled_by_its_plan(copied, x, y):
    model = ixion.load(copied, threads=2)
    shutil.rmtree(copied.parent)
    again = pickle.loads(pickle.dumps(model))
    assert close(again(x), y) and again.path is None and again.threads == 2


def test_a_file_that_vanishes_on_the_way_is_named(copied):
    pickled = pickle.dumps(ixion.load(copied))
    copied.unlink()
    with pytest.raises(ixion.NotFoundError, match="digits.pnnx.param"):
        pickle.loads(pickled)


def test_paths_in_options_do_not_depend_on_the_folder(copied, monkeypatch, x, y):
    copied.with_name("digits.pnnx.bin").rename(copied.with_name("weights"))
    monkeypatch.chdir(copied.parent)
    pickled = pickle.dumps(ixion.load(copied.name, bin="weights"))
    monkeypatch.chdir("/")
    assert close(pickle.loads(pickled)(x), y)


def test_options_survive_pickling(digits_path, x):
    model = ixion.load(digits_path, threads=2, layouts="plain")
    assert pickle.loads(pickle.dumps(model))(x).tobytes() == model(x).tobytes()


def test_what_cannot_be_pickled_says_so(digits):
    context = digits.context()
    for copied in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(TypeError, match="pickle its model"):
            copied(context)
    with pytest.raises(TypeError, match="TensorInfo"):
        pickle.dumps(digits.inputs[0])


def classified(model: ixion.Model, x: np.ndarray) -> list[int]:
    return model(x).argmax(1).tolist()


@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_models_go_to_other_processes(digits, x, method):
    with ProcessPoolExecutor(2, get_context(method)) as pool:
        assert [done.result() for done in [pool.submit(classified, digits, x) for _ in range(4)]] == [list(range(10))] * 4


# Damage.


def test_every_truncated_plan_is_refused(plan, tmp_path):
    whole, path = plan.to_bytes(), tmp_path / "x.plan"
    for length in {0, 1, 7, 8, 64, len(whole) // 2, len(whole) - 1}:
        path.write_bytes(whole[:length])
        for options in ({}, {"map": True}, {"verify": True}):
            with pytest.raises(ixion.ModelError) as raised:
                ixion.Plan.load(path, **options)
            assert "x.plan" in str(raised.value)
        with pytest.raises(ixion.ModelError):
            ixion.Plan.from_bytes(whole[:length])
    path.write_bytes(whole + b"\0")
    with pytest.raises(ixion.PlanError):
        ixion.load(path)


def test_a_damaged_plan_is_refused_or_runs(plan, x):
    """A changed bit is found by a checksum, at the latest when the weights are verified; it never crashes."""
    whole, random = plan.to_bytes(), np.random.default_rng(3)
    for place in random.integers(0, len(whole), 300):
        changed = bytearray(whole)
        changed[place] ^= 1 << random.integers(0, 8)
        try:
            ixion.Model(ixion.Plan.from_bytes(bytes(changed)))(x)
        except ixion.Error as error:
            assert str(error)


def test_a_plan_of_another_version_says_so(plan):
    """The version is the first number behind the magic bytes."""
    whole = bytearray(plan.to_bytes())
    (version,) = struct.unpack_from("<I", whole, 8)
    struct.pack_into("<I", whole, 8, version + 1)
    with pytest.raises(ixion.PlanError, match="version|build"):
        ixion.Plan.from_bytes(bytes(whole))


CUT = """
    import os, sys, numpy as np, ixion
    path, x = sys.argv[1], np.zeros((1, 1, 8, 8), np.float32)
    model = ixion.load(path, map=True)
    context = model.context()
    model(x), context(x)
    os.truncate(path, os.path.getsize(path) // 2)
    for use in (lambda: model(x), lambda: context(x), model.context, lambda: model.profile(x), lambda: model.timeline(x),
                model.plan.to_bytes, lambda: model.plan.save(path + ".other")):
        try:
            use()
        except ixion.PlanError as error:
            print(str(error).count("was cut from") == 1)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="Windows does not let a mapped file be cut")
def test_a_mapped_file_that_was_cut_is_an_error_and_no_crash(plan, tmp_path):
    plan.save(tmp_path / "digits.plan")
    done = child(CUT, tmp_path / "digits.plan")
    assert done.returncode == 0 and done.stdout.split() == ["True"] * 7, done.stderr


def test_a_mapped_file_may_be_replaced(plan, tmp_path, x, y):
    path = tmp_path / "digits.plan"
    plan.save(path)
    model = ixion.load(path, map=True)
    plan.save(path)
    path.unlink()
    assert close(model(x), y)


@pytest.mark.parametrize("given", [None, 3, "text", [], object()])
def test_what_is_no_plan(given):
    with pytest.raises(ixion.InputError, match="to_bytes"):
        ixion.Plan.from_bytes(given)
    with pytest.raises((ixion.NotFoundError, TypeError)):
        ixion.Plan.load(given)
    with pytest.raises(TypeError):
        ixion.Model(given)


def test_bytes_may_be_any_buffer(plan, tmp_path, x, y):
    whole, path = plan.to_bytes(), tmp_path / "digits.plan"
    path.write_bytes(whole)
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
        for data in (bytearray(whole), memoryview(whole), memoryview(bytearray(whole)), np.frombuffer(whole, np.uint8), mapped):
            assert close(ixion.Model(ixion.Plan.from_bytes(data))(x), y)
    with pytest.raises(ixion.PlanError, match="the bytes of the plan"):
        ixion.Plan.from_bytes(np.zeros(3))


def test_no_temporary_file_is_left(plan, tmp_path, monkeypatch, x, y):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    for options in ({}, {"map": True}, {"verify": True}):
        assert close(ixion.Model(ixion.Plan.from_bytes(plan.to_bytes(), **options))(x), y)
    with pytest.raises(ixion.PlanError, match="the bytes of the plan"):
        ixion.Plan.from_bytes(plan.to_bytes()[:100])
    with pytest.raises(ixion.InputError, match="`data` is a plan, in which `fast` is fixed"):
        ixion.Plan.from_bytes(plan.to_bytes(), fast=True)
    assert not list(tmp_path.iterdir())


FULL = """
    import os, resource, sys, ixion
    plan, path = ixion.build(sys.argv[1]), sys.argv[2]
    data = plan.to_bytes()
    resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, 10_000))
    for write in (lambda: plan.save(path), plan.to_bytes, lambda: ixion.Plan.from_bytes(data)):
        try:
            write()
        except ixion.Error as error:
            print(" ".join(str(error).split()))
"""


@pytest.mark.skipif(sys.platform == "win32", reason="the limit is that of Unix")
def test_a_plan_that_has_no_room_leaves_the_old_file(digits_path, tmp_path):
    path = tmp_path / "digits.plan"
    path.write_bytes(b"old")
    done = child(FULL, digits_path, path, env={**os.environ, "TMPDIR": str(tmp_path)})
    saved, copied, restored = done.stdout.splitlines()
    assert "digits.plan" in saved and str(tmp_path) in copied and "TMPDIR" in restored, done.stderr
    assert path.read_bytes() == b"old" and list(tmp_path.iterdir()) == [path]


def test_a_plan_cannot_be_saved_where_nothing_can(plan, tmp_path):
    for path in (tmp_path, tmp_path / "missing" / "x.plan", "", "\0"):
        with pytest.raises((ixion.Error, ValueError)):
            plan.save(path)
    if hasattr(os, "geteuid") and os.path.exists("/dev/full"):
        with pytest.raises(ixion.Error):
            plan.save("/dev/full/x.plan")


def test_what_is_in_a_plan(plan):
    assert plan.threads == 1 and plan.operator_count > 5 and plan.weight_bytes > 300_000
    assert "digits" in plan.card and plan.warnings == []
    assert [port.name for port in plan.inputs] == [port.name for port in ixion.Model(plan).inputs]
    assert "float32" in repr(plan)


def test_options_for_building_are_refused_for_a_plan_that_is_built(plan, tmp_path):
    path = tmp_path / "digits.plan"
    plan.save(path)
    with pytest.raises(ixion.InputError, match="precision"):
        ixion.load(path, precision=["bf16"])
    with pytest.raises(ixion.InputError, match="already a plan"):
        ixion.build(path)
