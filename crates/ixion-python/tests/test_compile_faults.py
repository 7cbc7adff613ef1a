"""What can go wrong in `ixion.compile`: losses, options, and a PNNX that crashes, hangs or says too much."""

import logging
import os
import signal
import stat
import sys
import threading
import time
from pathlib import Path

import ixion
import pytest

torch = pytest.importorskip("torch", reason="needs PyTorch and PNNX: pip install torch pnnx")
pnnx = pytest.importorskip("pnnx", reason="needs PNNX: pip install pnnx")
from ixion import _compare  # noqa: E402
from torch import nn  # noqa: E402

torch.set_num_threads(1)


@pytest.fixture(autouse=True)
def scratch(tmp_path, monkeypatch):
    """A cache and a folder for temporary files of the test's own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "scratch").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "scratch"))
    return tmp_path / "scratch"


def linear() -> tuple[nn.Module, tuple["torch.Tensor"]]:
    return nn.Linear(4, 2).eval(), (torch.randn(2, 4),)


# What PNNX loses.


class Branches(nn.Module):
    """What tracing loses: the branch depends on values."""

    def forward(self, x):
        return x + 1 if bool((x.sum() > 0).item()) else x - 1


class Windows(nn.Module):
    """What PNNX loses: a slice of a dynamic axis."""

    def forward(self, x):
        return x[:, 1:] * 2


def line_of(text: str) -> int:
    return next(number for number, line in enumerate(Path(__file__).read_text(encoding="utf-8").splitlines(), 1) if text in line)


def test_what_tracing_lost_is_an_error_and_never_pytorch():
    """With two samples that take both branches, the results differ from PyTorch's."""
    with pytest.raises(ixion.CompileError) as raised:
        ixion.compile(Branches(), (torch.ones(3),), second_inputs=(-torch.ones(3),))
    place = (__file__, line_of("bool((x.sum() > 0)"))
    assert "does not give PyTorch's results" in str(raised.value)
    assert any(place in loss.places and loss.section == "Sizes that are frozen" for loss in raised.value.losses)
    assert f"{place[0]}:{place[1]}: return x + 1 if bool" in str(raised.value)


def test_what_pnnx_lost_is_told_with_its_line(caplog):
    place = (__file__, line_of("return x[:, 1:] * 2"))
    try:
        with caplog.at_level(logging.WARNING, "ixion.compile"):
            losses = ixion.compile(Windows(), (torch.randn(2, 6),), dynamic={1: "length"}).losses
    except ixion.CompileError as error:
        losses, told = error.losses, str(error)
    else:
        told = caplog.text
    assert any(place in loss.places for loss in losses) and f"{place[0]}:{place[1]}" in told


def test_lines_are_those_of_now():
    """The second time, the files come from the cache, and the same code has moved."""
    code = "class Moved(nn.Module):\n    def forward(self, x):\n        return x + int(x.sum())\n"
    for moved in (0, 5):
        space = {"nn": nn}
        exec(compile("\n" * moved + code, "moved.py", "exec"), space)
        model = ixion.compile(space["Moved"](), (torch.ones(3),))
        assert [loss.places for loss in model.losses] == [(("moved.py", 3 + moved),)]


def test_half_precision_is_named_when_pnnx_crashes():
    module, (x,) = linear()
    try:
        model = ixion.compile(module.half(), (x.half(),))
    except ixion.CompileError as error:
        assert "half precision" in str(error)
    else:
        assert _compare.difference(model(x.half()), module(x.half()).detach(), _compare.Tolerance(None)) is None


# PNNX itself.


@pytest.fixture
def program(tmp_path, monkeypatch):
    """Puts a script in the place of PNNX."""
    if sys.platform == "win32":
        pytest.skip("needs a shell")
    real = pnnx.EXEC_PATH

    def put(text: str) -> None:
        path = tmp_path / "pnnx"
        path.write_text(f"#!/bin/sh\n{text}\n".replace("PNNX", f"'{real}'"), encoding="utf-8")
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
        monkeypatch.setattr(pnnx, "EXEC_PATH", str(path))
    return put


def is_clean(scratch: Path) -> bool:
    return os.listdir(scratch) == [] and os.listdir(ixion.cache_folder()) == []


def test_a_crash_says_why(program, scratch):
    program("echo first; echo the reason >&2; echo '  frame #0: x'; kill -SEGV $$")
    with pytest.raises(ixion.CompileError, match="PNNX wrote no file(.|\n)*the reason$"):
        ixion.compile(*linear())
    assert is_clean(scratch)


def test_a_crash_that_leaves_half_a_model_is_one(program, scratch):
    program("echo 7767517 > model.pnnx.param; exit 1")
    with pytest.raises(ixion.CompileError, match="PNNX wrote no file and ended with code 1"):
        ixion.compile(*linear())
    assert is_clean(scratch)


def test_a_hang_ends_in_time(program, scratch):
    program("exec sleep 600")
    started = time.monotonic()
    with pytest.raises(ixion.TimeoutError, match="larger `timeout`"):
        ixion.compile(*linear(), timeout=0.5)
    assert time.monotonic() - started < 60 and is_clean(scratch)


def test_ctrl_c_ends_pnnx(program, scratch, tmp_path):
    program(f"echo $$ > '{tmp_path}/pid'; exec sleep 600")

    def interrupt() -> None:
        deadline = time.monotonic() + 120
        while not (tmp_path / "pid").is_file() and time.monotonic() < deadline:
            time.sleep(0.05)
        os.kill(os.getpid(), signal.SIGINT)
    threading.Thread(target=interrupt).start()
    started = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        ixion.compile(*linear())
    assert time.monotonic() - started < 120 and is_clean(scratch)
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "pid").read_text()), 0)


def test_much_that_it_prints_is_not_in_the_way(program, capfd):
    program("head -c 3000000 /dev/zero | tr '\\0' x; exec PNNX \"$@\"")
    module, (x,) = linear()
    assert torch.allclose(ixion.compile(module, (x,))(x), module(x).detach(), atol=1e-4)
    assert capfd.readouterr().out == ""


def test_pnnx_must_be_there(monkeypatch, tmp_path):
    monkeypatch.setattr(pnnx, "EXEC_PATH", str(tmp_path / "absent"))
    with pytest.raises(ixion.CompileError, match="PNNX cannot be started"):
        ixion.compile(*linear())
    monkeypatch.setitem(sys.modules, "pnnx", None)
    with pytest.raises(ImportError, match=r"pip install \"ixion\[torch\]\""):
        ixion.compile(*linear())


# Arguments.


@pytest.mark.parametrize("options", [
    {"threads": -1}, {"thread": 2}, {"bin": "x.bin"}, {"random_weights": 0}, {"map": True}, {"verify": True}, {"timeout": 0},
    {"timeout": float("inf")}, {"timeout": "60"}, {"tolerance": -1}, {"tolerance": float("nan")}, {"tolerance": "little"},
    {"progress": 3}, {"precision": ["f8"]}, {"precision": ["int8"]},
])
def test_options_are_checked_before_the_export(options, monkeypatch):
    monkeypatch.setattr(pnnx, "EXEC_PATH", "nothing must run")
    with pytest.raises(ixion.InputError):
        ixion.compile(*linear(), **options)


def test_files_of_options_must_exist(monkeypatch):
    monkeypatch.setattr(pnnx, "EXEC_PATH", "nothing must run")
    for options in ({"plugins": "absent.so"}, {"precision": ["int8"], "scales": "absent.json"}):
        with pytest.raises(ixion.Error, match="absent"):
            ixion.compile(*linear(), **options)


def test_options_are_those_of_load():
    module, (x,) = linear()
    assert ixion.compile(module, (x,), threads=2, layouts="plain").threads == 2
    assert ixion.compile(module, (x,), input=("n", 4)).inputs[0].shape is not None


@pytest.mark.parametrize("module, inputs, message", [
    (None, torch.zeros(1), "`module`"), (nn.Linear, torch.zeros(1), "the class Linear"), (3, torch.zeros(1), "`module`"),
    (nn.Linear(2, 2), (), "`example_inputs`"), (nn.Linear(2, 2), None, "`example_inputs`"), (nn.Linear(2, 2), ("a",), "tensor"),
    (nn.Linear(2, 2), {3: torch.zeros(2)}, "strings"), (nn.Linear(2, 2), torch.tensor(1.0), "no axes"),
    (nn.Linear(2, 2), torch.zeros(2, device="meta"), "on meta"), (nn.Linear(2, 2), torch.zeros(2, 2).to_sparse(), "sparse"),
    (nn.Linear(2, 2, device="meta"), torch.zeros(2), "`weight` is on meta"),
    (nn.Linear(2, 2), torch.zeros(2, dtype=torch.uint16), "uint16"),
])
def test_what_cannot_be_compiled(module, inputs, message):
    with pytest.raises(ixion.InputError, match=message):
        ixion.compile(module, inputs)


def test_progress_is_told_by_the_conventions_of_tqdm():
    class Bar:
        def __init__(self, total: int):
            self.total, self.count, self.is_closed = total, 0, False
            bars.append(self)

        def update(self, by: int) -> None:
            self.count += by

        def close(self) -> None:
            self.is_closed = True
    bars: list[Bar] = []
    module, inputs = linear()
    for _ in range(2):
        ixion.compile(module, inputs, progress=Bar)
    with pytest.raises(ixion.CompileError):
        ixion.compile(Branches(), (torch.ones(3),), second_inputs=(-torch.ones(3),), progress=Bar)
    assert all(bar.is_closed for bar in bars) and [bar.count == bar.total for bar in bars] == [True, True, False]


# The comparison.


def test_a_tolerance_is_the_callers():
    module, (x,) = linear()
    with pytest.raises(ixion.CompileError, match="max difference"):
        ixion.compile(lambda x: torch.exp(module(x)), (x * 3,), precision=["bf16"], tolerance=0.0)
    ixion.compile(lambda x: torch.exp(module(x)), (x * 3,), precision=["bf16"], tolerance=1.0)


INF, NAN = float("inf"), float("nan")


@pytest.mark.parametrize("found, wanted, problem", [
    ([1.0, 2.0], [1.0, 2.0001], None), ([1.0], [1.01], "max difference 0.01"), ([NAN, INF, -INF], [NAN, INF, -INF], None),
    ([INF], [-INF], "1 of 1 elements differ in whether"), ([NAN, 1.0], [INF, 1.0], "1 of 2"), ([1.0, NAN], [1.0, 2.0], "1 of 2"),
    ([INF, 1.0], [INF, 2.0], "max difference 1"), ([], [], None), ([1, 2], [1, 3], "1 of 2 elements differ"), ([1, 2], [1, 2], None),
    ([True, False], [True, True], "1 of 2 elements differ"), ([1], [1.0], "1 int64 instead of 1 float32"),
    ([1.0, 2.0], [[1.0, 2.0]], "2 float32 instead of 1×2"), ([1 + 2j, NAN], [1 + 2.00001j, NAN], None),
    ([1 + 2j], [1 + 3j], "max difference 1"), ([complex(INF, 0)], [complex(0, INF)], "1 of 1"),
])
def test_what_differs(found, wanted, problem):
    said = _compare.difference(torch.tensor(found), torch.tensor(wanted), _compare.Tolerance(None))
    assert said is None if problem is None else problem in said


def test_tolerances_follow_types_and_precisions():
    halves = torch.tensor([1.0], dtype=torch.float16), torch.tensor([1.005], dtype=torch.float16)
    assert _compare.difference(*halves, _compare.Tolerance(None)) is None
    assert _compare.difference(*halves, _compare.Tolerance(1e-4)) is not None
    large = torch.tensor([1.0, 100.0]), torch.tensor([1.9, 100.0])
    assert _compare.difference(*large, _compare.Tolerance.of(None, ["f16", "f32"])) is None
    assert _compare.difference(*large, _compare.Tolerance.of(None, "f16, bf16")) is None
    assert _compare.difference(*large, _compare.Tolerance.of(None, None)) is not None
    assert _compare.difference(*large, _compare.Tolerance.of(1, ["f16"])) is None
