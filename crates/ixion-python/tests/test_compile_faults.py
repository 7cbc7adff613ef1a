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
from ixion import _compare, _export  # noqa: E402
from programs import started  # noqa: E402
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


def calls_the_compiler(module, x):
    return ixion.compile(module, (x,))


def test_a_crash_names_the_line_of_the_module_and_not_of_the_caller(program):
    """What PNNX prints about a failed trace has the whole stack of Python."""
    here = Path(__file__)
    stack = [f"{torch.__file__.replace('__init__', 'functional')}(12): softmax", f"{here}({line_of('return x[:, 1:] * 2')}): forward",
             f"{torch.__file__.replace('__init__', 'jit/_trace')}(7): trace", f"{_export.__file__}(510): traced",
             f"{here}({line_of('return ixion.compile(module, (x,))')}): calls_the_compiler"]
    lines = "\n".join(["what():  it failed", *stack, "RuntimeError: the reason"])
    program(f"cat <<'END'\n{lines}\nEND\nexit 1")
    with pytest.raises(ixion.CompileError) as raised:
        calls_the_compiler(*linear()[:1], *linear()[1])
    said = str(raised.value)
    assert "RuntimeError: the reason" in said and f"{here}:{line_of('return x[:, 1:] * 2')}: return x[:, 1:] * 2" in said
    assert "calls_the_compiler" not in said and "functional" not in said and "traced" not in said


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


TERMINATED = """
    import sys, torch, pnnx, ixion
    pnnx.EXEC_PATH = sys.argv[1]
    print("runs", flush=True)
    ixion.compile(torch.nn.Linear(4, 2), (torch.ones(1, 4),), cache=sys.argv[2])
"""


def test_sigterm_ends_pnnx_and_then_the_program(program, tmp_path, monkeypatch):
    program(f"echo $$ > '{tmp_path}/pid'; exec sleep 600")
    monkeypatch.setenv("TMPDIR", str(tmp_path / "scratch"))
    process = started(TERMINATED, pnnx.EXEC_PATH, tmp_path / "kept")
    while not (tmp_path / "pid").is_file() or not (tmp_path / "pid").read_text():
        assert process.poll() is None, process.communicate()
        time.sleep(0.05)
    process.send_signal(signal.SIGTERM)
    # It ends by the signal, as a program does that does nothing about it.
    assert process.wait(120) == -signal.SIGTERM
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "pid").read_text()), 0)
    assert os.listdir(tmp_path / "scratch") == os.listdir(tmp_path / "kept") == []


def test_what_a_program_does_at_sigterm_stays(monkeypatch):
    for handler in (signal.SIG_IGN, signal.SIG_DFL, lambda *_: None):
        before = signal.signal(signal.SIGTERM, handler)
        try:
            ixion.compile(*linear())
            assert signal.getsignal(signal.SIGTERM) is handler
        finally:
            signal.signal(signal.SIGTERM, before)


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


@pytest.mark.parametrize("options, words", [
    ({"dynmaic": {0: "n"}}, "perhaps `dynamic` is meant"), ({"thread": 2}, "perhaps `threads` is meant"),
    ({"runs": 3}, "`runs` is an argument of `Model.profile`"), ({"inptu": (2, 4)}, "its inputs are `input`"),
    ({"z": (1,)}, "`z` is neither an option nor an input of the module"),
])
def test_misspelt_options_are_named_before_the_export(options, words, monkeypatch):
    monkeypatch.setattr(pnnx, "EXEC_PATH", "nothing must run")
    with pytest.raises(ixion.InputError) as raised:
        ixion.compile(*linear(), **options)
    assert words in str(raised.value) and type(raised.value) is ixion.InputError


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
