"""The command: as a program, as a function, and as a source of objects."""

import json
import logging
import os
import signal
import subprocess
import sys
import threading
import time

import ixion
import numpy as np
import pytest
from bars import Bars
from conftest import MODELS, squares, text
from programs import child, started

LINEAR = MODELS / "linear/linear.pnnx.param"
SIGNALS = pytest.mark.skipif(sys.platform == "win32", reason="signals are others")
CONTRADICTION = text("pnnx.Input in 0 1 0 #0=(2,3)f32", "Tensor.index twice 1 1 0 1 expr=[[0,1]] #1=(2,2,3)f32",
                     "pnnx.Output out 1 0 1")
"""PNNX records another shape than the operator returns, of which there is a warning."""


def run(*arguments: object) -> subprocess.CompletedProcess:
    return subprocess.run([sys.executable, *map(str, arguments)], capture_output=True, text=True, check=False, timeout=120)


def script(code: str, *arguments: object) -> subprocess.CompletedProcess:
    done = child(code, *arguments)
    assert done.returncode == 0, done.stderr
    return done


# The program.


@pytest.mark.parametrize("program", [["-m", "ixion"], ["-c", "import sys, ixion; sys.exit(ixion.main())"]])
def test_the_program_of_the_wheel(program):
    done = run(*program, "operators", "--json", "nn.Conv2d")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["operators"]
    done = run(*program, "inspect", "nothing.param")
    assert (done.returncode, done.stdout) == (2, "") and done.stderr.startswith("error: nothing.param: ")
    assert run(*program, "--version").stdout.startswith("ixion ")


@SIGNALS
def test_a_closed_pipe_is_no_error():
    program = subprocess.Popen([sys.executable, "-m", "ixion", "operators"], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    program.stdout.readline()
    program.stdout.close()
    errors = program.stderr.read()
    assert (program.wait(60), errors) == (0, b"")
    for arguments, code in ((["inspect", "nothing.param"], 2), (["verify", str(MODELS / "linear"), str(LINEAR)], 0)):
        reader, writer = os.pipe()
        os.close(reader)
        program = subprocess.Popen([sys.executable, "-m", "ixion", *arguments], stdout=subprocess.DEVNULL, stderr=writer)
        os.close(writer)
        assert program.wait(60) == code


def interrupted(code: str, *arguments: object) -> "tuple[int, str, str]":
    """Starts a program, and presses Ctrl-C half a second later."""
    program = started(code, *arguments)
    time.sleep(0.5)
    program.send_signal(signal.SIGINT)
    said, errors = program.communicate(timeout=60)
    return program.returncode, said, errors


BENCH = ("bench", MODELS / "digits/digits.pnnx.param", "--time", "600")


@SIGNALS
def test_ctrl_c_ends_the_program():
    code, said, errors = interrupted("import ixion; print('runs', flush=True); ixion.main()", *BENCH)
    assert (code, said, errors) == (-signal.SIGINT, "", "")


INTERRUPTED = """
    import sys, signal, ixion
    call = ixion.main if sys.argv[1] == "main" else lambda words: ixion.command(*words)
    print("runs", flush=True)
    try:
        call(sys.argv[2:])
    except KeyboardInterrupt:
        print("interrupted", signal.getsignal(signal.SIGINT) is signal.default_int_handler)
"""


@SIGNALS
@pytest.mark.parametrize("function", ["main", "command"])
def test_ctrl_c_ends_a_call(function, write, tmp_path):
    np.save(tmp_path / "x.npy", np.eye(1500, dtype=np.float32))
    for words in (BENCH, ("run", write(squares(2000)), "-i", tmp_path / "x.npy")):
        code, said, errors = interrupted(INTERRUPTED, function, *words)
        assert (code, said) == (0, "interrupted True\n"), errors


def test_the_handler_of_ctrl_c_comes_back():
    script("""
        import signal, sys, ixion
        sys.argv = ["ixion", "operators", "nn.Conv2d"]
        signal.signal(signal.SIGINT, handler := lambda *_: None)
        assert ixion.main() == 0 and signal.getsignal(signal.SIGINT) is handler
    """)


# The function.


def test_the_command_is_a_function(capfd):
    assert ixion.main(["inspect", str(LINEAR)]) == 0
    assert "Linear" in capfd.readouterr().out
    assert ixion.main(["inspect", "nothing.param"]) == 2
    assert "error: nothing.param: " in capfd.readouterr().err
    assert ixion.main(("inspect", LINEAR)) == ixion.main(["--help"]) == 0
    assert ixion.main(["no-such-command"]) == ixion.main([]) == 2
    for arguments in ("inspect", 3, [3]):
        with pytest.raises(TypeError):
            ixion.main(arguments)


def test_the_function_can_be_called_in_threads(capfd):
    codes = []
    threads = [threading.Thread(target=lambda: codes.append(ixion.main(["verify", str(MODELS / "linear")]))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert codes == [0] * 4 and capfd.readouterr().out.count("1 passed") == 4


def test_what_was_printed_before_comes_first():
    said = script("""
        import ixion, sys
        sys.stdout.write("first ")
        ixion.main(["operators", "nn.Conv2d"])
    """).stdout
    assert said.startswith("first ") and "nn.Conv2d" in said
    script("import ixion, sys; sys.stdout = None; sys.stderr.close(); assert ixion.main(['--version']) == 0")


def test_the_function_leaves_the_log_to_python(write):
    """The first logger of a process is the only one: it must not be that of the command."""
    odd = write(text("pnnx.Input x 0 1 0 #0=(2)f32", "torch.clone copy 1 1 0 1 #0=(2)f32 #1=(2)f32",
                     "pnnx.Output y 1 0 1").replace("\n3 2\n", "\n3 7\n"))
    said = script("""
        import ixion, logging, sys
        logging.basicConfig(stream=sys.stdout, format="%(name)s|%(message)s")
        assert ixion.main(["operators", "nn.Conv2d"]) == 0
        ixion.load(sys.argv[1])
    """, odd)
    assert "counts 7 operands" in said.stdout and not said.stderr


# Objects.


def test_results_of_the_command_as_objects():
    found = ixion.command("inspect", LINEAR)
    assert isinstance(found, dict) and found["version"] == 1
    assert found == ixion.command("--timeout", 60, "inspect", LINEAR) == ixion.command("inspect", LINEAR, "--json")
    assert ixion.command("operators", "--", "--json")["operators"] == []
    assert ixion.command("verify", MODELS / "linear")["passed"] == 1
    assert ixion.command("bench", LINEAR, "--runs", 3)["runs"] == 3
    assert ixion.command("devices")["devices"]
    assert ixion.command("plan", LINEAR)["memory"]


def test_text_where_there_is_no_json(tmp_path):
    assert "digraph" in ixion.command("inspect", LINEAR, "--dot")
    for drawing in (ixion.command("inspect", LINEAR, "--svg", "-"), ixion.command("plan", LINEAR, "--memory", "-")):
        assert "<svg" in drawing[:200]
    assert "out.plan" in ixion.command("build", LINEAR, "-o", tmp_path / "out.plan")
    assert ixion.load(tmp_path / "out.plan")
    assert "Model" in (ixion.command("convert", LINEAR, "--python", tmp_path / "it.py") and (tmp_path / "it.py").read_text())
    assert "Usage: ixion bench" in ixion.command("bench", "--help") == ixion.command("bench", "--json", "--help")
    assert ixion.command("--version").strip() == f"ixion {ixion.__version__}"


@pytest.mark.parametrize("arguments", [(), ("nothing",), ("inspect",), ("inspect", LINEAR, "--jsn"), ("bench", LINEAR, "--threads"),
                                       ("bench", LINEAR, "--threads", "many"), ("--json",), ("", ), (None,), ([],)])
def test_arguments_that_cannot_be_used(arguments):
    with pytest.raises(ixion.InputError) as raised:
        ixion.command(*arguments)
    assert str(raised.value) and not str(raised.value).startswith("error")


def test_errors_have_the_kind_of_what_went_wrong(write, tmp_path):
    np.save(tmp_path / "x.npy", np.zeros((1, 32), np.float32))
    damaged = write("7767517\nnonsense")
    for kind, arguments in ((ixion.NotFoundError, ("inspect", "nothing.param")), (ixion.ModelError, ("inspect", damaged)),
                            (ixion.TimeoutError, ("--timeout", "1e-9", "run", LINEAR, "-i", tmp_path / "x.npy")),
                            (ixion.LimitError, ("--limit-memory", "10", "run", LINEAR, "-i", tmp_path / "x.npy"))):
        with pytest.raises(kind) as raised:
            ixion.command(*arguments)
        assert str(raised.value)
    with pytest.raises(ixion.NotFoundError, match="did you mean .*linear"):
        ixion.command("inspect", LINEAR.with_name("liner.pnnx.param"))


def test_warnings_go_to_the_log(write, caplog, capfd):
    path = write(CONTRADICTION)
    with caplog.at_level(logging.WARNING, "ixion"):
        found = ixion.command("inspect", path)
    assert found["warnings"][0]["operator"] == "twice"
    assert [record.levelname for record in caplog.records] == ["WARNING"] and "Tensor.index `twice`" in caplog.text
    assert capfd.readouterr().err == ""
    caplog.clear()
    ixion.command("verify", MODELS / "linear", LINEAR)
    assert "is not a folder and is skipped" in caplog.text and capfd.readouterr().err == ""


def test_progress():
    for arguments, steps in ((("verify", MODELS / "linear", MODELS / "digits"), 2), (("bench", LINEAR, "--runs", 7), 7),
                             (("profile", LINEAR, "--runs", 4), 4)):
        seen = Bars()
        ixion.command(*arguments, progress=seen)
        assert seen.only().total == steps and seen.only().is_complete()
    seen = Bars()
    assert ixion.command("devices", progress=seen) and not seen


def test_an_error_of_the_bar_ends_the_command():
    class Stubborn:
        def update(self, by: int) -> None:
            raise KeyError("stubborn")

        def close(self) -> None:
            raise ValueError("the error before it matters more")

    started = time.perf_counter()
    for progress, kind in ((lambda total: 1 / 0, ZeroDivisionError), (lambda total: Stubborn(), KeyError)):
        with pytest.raises(kind):
            ixion.command("bench", LINEAR, "--time", 600, progress=progress)
    with pytest.raises(ixion.InputError, match="progress"):
        ixion.command("devices", progress="bar")
    assert time.perf_counter() - started < 60
