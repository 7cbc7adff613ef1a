"""Threads, forks, signals, time limits and cancellation."""

import gc
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import ixion
import numpy as np
import pytest
from conftest import close, squares, text
from programs import child, started

COUNT = 8


def test_many_threads_share_a_model(digits, x, y):
    with ThreadPoolExecutor(COUNT) as pool:
        for found in pool.map(lambda _: digits(x), range(200)):
            assert close(found, y)


def test_every_thread_has_a_context_of_its_own(digits, x, y):
    def work(_: int) -> bool:
        context, out = digits.context(), np.empty((10, 10), np.float32)
        return all(close(context(x, out=out), y) for _ in range(50))
    with ThreadPoolExecutor(COUNT) as pool:
        assert all(pool.map(work, range(COUNT)))


def test_threads_with_different_sizes_do_not_mix_their_results(digits, x, y):
    with ThreadPoolExecutor(COUNT) as pool:
        for count, found in zip(list(range(1, 11)) * 10, pool.map(lambda n: digits(x[:n]), list(range(1, 11)) * 10)):
            assert close(found, y[:count])


def test_python_goes_on_while_a_model_runs(slow, large):
    running = threading.Thread(target=slow, args=(large,))
    running.start()
    turns, started = 0, time.perf_counter()
    while running.is_alive() and time.perf_counter() - started < 0.5:
        turns += 1
        time.sleep(0.001)
    running.join()
    assert turns > 20, "the interpreter was locked"


def runs_another_thread(call: Callable[[], object]) -> bool:
    """Whether another thread runs Python during a call that lets it. Python itself does not interrupt the call."""
    gate, turns = threading.Lock(), []

    def wait() -> None:
        with gate:
            turns.append(None)
    gate.acquire()
    waiting = threading.Thread(target=wait)
    waiting.start()
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1000)
    try:
        gate.release()
        begin = time.perf_counter()
        while time.perf_counter() - begin < 0.02:
            pass
        assert not turns
        call()
        return bool(turns)
    finally:
        sys.setswitchinterval(interval)
        waiting.join()


@pytest.mark.parametrize("kind", [ixion.Plan, ixion.Model, ixion.Context])
def test_python_goes_on_while_memory_is_freed(write, kind):
    length = 2048
    shape = f"=(?,{length})f32"
    path = write(text(f"pnnx.Input x 0 1 0 #0{shape}",
                      f"nn.Linear l 1 1 0 1 bias=False in_features={length} out_features={length} "
                      f"@weight=({length},{length})f32 #0{shape} #1{shape}", f"pnnx.Output y 1 0 1 #1{shape}"))
    of_plan = {ixion.Plan: lambda plan: plan, ixion.Model: ixion.Model, ixion.Context: lambda plan: ixion.Model(plan).context()}
    for _ in range(50):
        held = [of_plan[kind](ixion.build(path, random_weights=1))]
        # The other thread may be too slow to take the chance.
        if runs_another_thread(held.clear):
            return
    pytest.fail("the interpreter was locked")


def test_a_context_is_not_used_by_two_threads_at_once(slow, large):
    context, errors, results = slow.context(), [], []

    def use() -> None:
        try:
            results.append(context(large))
        except ixion.Error as error:
            errors.append(str(error))
    users = [threading.Thread(target=use) for _ in range(4)]
    for user in users:
        user.start()
    for user in users:
        user.join()
    assert results and errors, "one of them at least runs, and not all of them"
    assert all("context" in error and "thread" in error for error in errors)
    assert context(np.eye(2, dtype=np.float32)).tolist() == [[1, 0], [0, 1]]


def test_a_context_may_move_to_another_thread(digits, x, y):
    context = digits.context()
    found = []
    mover = threading.Thread(target=lambda: found.append(context(x)))
    mover.start()
    mover.join()
    assert close(found[0], y) and close(context(x), y)


def test_a_time_limit_ends_a_run(slow, large):
    for subject in (slow, slow.context()):
        started = time.perf_counter()
        with pytest.raises(ixion.TimeoutError, match="time limit"):
            subject(large, timeout=0.02)
        assert time.perf_counter() - started < 5
        assert subject(np.eye(2, dtype=np.float32)).shape == (2, 2)


def test_a_context_can_be_cancelled_from_another_thread(slow, large):
    context = slow.context()
    timer = threading.Timer(0.2, context.cancel)
    timer.start()
    with pytest.raises(ixion.Cancelled):
        context(large)
    timer.join()
    assert context(np.eye(2, dtype=np.float32)).shape == (2, 2)


def test_a_model_that_is_deleted_while_it_runs(write, large):
    model = ixion.load(write(squares(4)))
    run = model.__call__
    running = threading.Thread(target=lambda: run(large))
    running.start()
    del model, run
    gc.collect()
    running.join()


def test_inputs_that_are_written_or_resized_while_they_are_read(slow):
    """What comes out is anybody's guess; that Python lives on is not. NumPy refuses to resize what others refer to."""
    given = np.eye(600, dtype=np.float32)
    done = threading.Event()

    def write_on() -> None:
        while not done.is_set():
            given[:] = np.roll(given, 1, 0)
            try:
                given.resize((10, 10))
            except ValueError:
                pass
    writer = threading.Thread(target=write_on)
    writer.start()
    try:
        slow(given)
    except ixion.InputError:
        pass
    finally:
        done.set()
        writer.join()


FORKS = """
    import os, sys, ixion, numpy as np
    model = ixion.load(sys.argv[1], threads=int(sys.argv[2]))
    x = np.zeros((4, 1, 8, 8), np.float32)
    wanted, context = model(x), model.context()
    context(x)
    child = os.fork()
    if child == 0:
        for run in (model, context, lambda x: ixion.load(sys.argv[1])(x)):
            try:
                assert np.allclose(run(x), wanted)
            except ixion.Error as error:
                assert "fork" in str(error), error
        os._exit(0)
    _, status = os.waitpid(child, 0)
    assert np.allclose(model(x), wanted)
    sys.exit(os.waitstatus_to_exitcode(status))
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there are no forks")
@pytest.mark.parametrize("threads", [1, 2, 0])
def test_a_process_that_forks_after_loading_runs_or_says_what_to_do(digits_path, threads):
    done = child(FORKS, digits_path, threads)
    assert done.returncode == 0, done.stderr


FORK_ENDS = """
    import gc, os, sys, ixion, numpy as np
    model = ixion.load(sys.argv[1], threads=2)
    x = np.zeros((4, 1, 8, 8), np.float32)
    model(x)
    context = model.context()
    child = os.fork()
    if child == 0:
        if sys.argv[2] == "drops":
            del model, context
            gc.collect()
            model = ixion.load(sys.argv[1], threads=2)
            model(x)
        sys.exit(7)                                      # not os._exit: the interpreter ends as always
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 7, status
    model(x)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there are no forks")
@pytest.mark.parametrize("way", ["exits", "drops"])
def test_a_forked_process_ends(digits_path, way):
    """It has no threads of its parent's pool, for which a plan waits otherwise."""
    done = child(FORK_ENDS, digits_path, way)
    assert done.returncode == 0, done.stderr


FORKS_ELSEWHERE = """
    import os, signal, sys, threading, ixion, numpy as np
    model = ixion.load(sys.argv[1])

    def fork():
        child = os.fork()
        if child == 0:
            def late(*_): raise ZeroDivisionError
            signal.signal(signal.SIGALRM, late)
            signal.setitimer(signal.ITIMER_REAL, 0.3)
            try:
                model(np.eye(1500, dtype=np.float32))
            except ZeroDivisionError:
                os._exit(7)
            os._exit(1)
        codes.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    codes = []
    thread = threading.Thread(target=fork)
    thread.start()
    thread.join()
    sys.exit(codes != [7])
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there are no forks")
def test_signals_end_runs_in_a_process_that_another_thread_forked(write):
    done = child(FORKS_ELSEWHERE, write(squares(200)))
    assert done.returncode == 0, done.stderr


INTERRUPTED = """
    import sys, ixion, numpy as np
    model = ixion.load(sys.argv[1])
    print("runs", flush=True)
    try:
        model(np.eye(1500, dtype=np.float32))
    except KeyboardInterrupt:
        print("interrupted", model(np.eye(2, dtype=np.float32)).tolist())
"""


@pytest.mark.skipif(sys.platform == "win32", reason="signals are others")
def test_ctrl_c_cancels_a_run(write):
    process = started(INTERRUPTED, write(squares(2000)))
    time.sleep(0.5)
    process.send_signal(signal.SIGINT)
    said, errors = process.communicate(timeout=60)
    assert said == "interrupted [[1.0, 0.0], [0.0, 1.0]]\n", errors


HANDLED = """
    import signal, sys, time, ixion, numpy as np
    def late(*_): raise ZeroDivisionError("late")
    signal.signal(signal.SIGALRM, late)
    model, x = ixion.load(sys.argv[1]), np.eye(1500, dtype=np.float32)
    for subject in (model, model.context()):
        subject(np.eye(2, dtype=np.float32))
        signal.setitimer(signal.ITIMER_REAL, 0.3)
        started = time.perf_counter()
        try:
            subject(x)
        except ZeroDivisionError as error:
            print(error, time.perf_counter() - started < 10, subject(np.eye(2, dtype=np.float32)).tolist())
"""


@pytest.mark.skipif(sys.platform == "win32", reason="signals are others")
def test_what_a_handler_of_signals_raises_ends_a_run(write):
    done = child(HANDLED, write(squares(2000)))
    assert done.stdout == "late True [[1.0, 0.0], [0.0, 1.0]]\n" * 2, done.stderr


ENDS = """
    import sys, threading, time, ixion, numpy as np
    model, x = ixion.load(sys.argv[1]), np.eye(int(sys.argv[2]), dtype=np.float32)
    def work():
        while True:
            model(x)
    for _ in range(3):
        threading.Thread(target=work, daemon=True).start()
    time.sleep(0.2)
"""


@pytest.mark.parametrize("size", [1, 40, 1500])
def test_an_interpreter_that_ends_while_models_run(write, size):
    """Runs that take seconds do not delay it, and those that return meanwhile do not crash it."""
    path = write(squares(20 if size < 1500 else 2000))
    for _ in range(3 if size < 1500 else 1):
        done = child(ENDS, path, size)
        assert done.returncode == 0 and not done.stderr, done.stderr


CROWDS = """
    import sys, threading, ixion, numpy as np
    model, x = ixion.load(sys.argv[1]), np.eye(200, dtype=np.float32)

    def crowd():
        threads = [threading.Thread(target=model, args=(x,)) for _ in range(40)]
        for thread in threads: thread.start()
        for thread in threads: thread.join()

    def resident():
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * 4096
    for _ in range(2): crowd()
    before = resident()
    for _ in range(8): crowd()
    for _ in range(100): model.context()(x[:2, :2])
    print(resident() - before)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="memory is measured as on Linux")
def test_crowds_of_threads_leave_no_memory_behind(write):
    """A context has 320 kB of activations, and a run 160 kB of outputs: for 8 crowds of 40, that is 150 MB."""
    done = child(CROWDS, write(squares(4)))
    assert int(done.stdout) < 50 << 20, done.stderr


LOGGED = """
    import logging, sys, threading, ixion, numpy as np
    class Handler(logging.Handler):
        def emit(self, record):
            names.add(record.name)
            record.getMessage()
    names = set()
    logging.getLogger().addHandler(Handler())
    logging.getLogger("ixion").setLevel(logging.DEBUG)
    x = np.zeros((4, 1, 8, 8), np.float32)
    for count in (1, 2):
        model = ixion.load(sys.argv[1], threads=count)
        threads = [threading.Thread(target=lambda: [model(x) for _ in range(20)]) for _ in range(4)]
        for thread in threads: thread.start()
        for _ in range(20): model(x)
        for thread in threads: thread.join()
    assert names and all(name.startswith("ixion.") for name in names), names
    logging.getLogger("ixion").setLevel(logging.NOTSET)
    model = ixion.load(sys.argv[1])
    names.clear()
    model(x)
    assert not names, names
"""


def test_threads_log_by_python_without_waiting_for_each_other(digits_path):
    done = child(LOGGED, digits_path)
    assert done.returncode == 0, done.stderr


RAISES = """
    import logging, os, signal, sys, ixion, numpy as np
    class Handler(logging.Handler):
        raises = None
        def emit(self, record):
            if self.raises == "error":
                raise ValueError("the disk is full")
            if self.raises == "interrupt":
                self.raises = None
                os.kill(os.getpid(), signal.SIGINT)
                for _ in range(1000): pass
    handler = Handler()
    logging.getLogger("ixion").addHandler(handler)
    logging.getLogger("ixion").setLevel(logging.DEBUG)
    model, x = ixion.load(sys.argv[1]), np.zeros((4, 1, 8, 8), np.float32)
    for _ in range(3): model(x)                          # from now on, runs are short, and stay on this thread
    handler.raises = "error"
    print(model(x).shape)
    handler.raises = "interrupt"
    try:
        model(x)
        for _ in range(1000): pass
    except KeyboardInterrupt:
        print("interrupted")
"""


@pytest.mark.skipif(sys.platform == "win32", reason="signals are others")
def test_what_a_handler_of_logs_raises_ends_no_run_but_ctrl_c_does(digits_path):
    done = child(RAISES, digits_path)
    assert done.stdout == "(4, 10)\ninterrupted\n", done.stderr
    assert "the disk is full" in done.stderr


FEW = """
    import resource, sys, ixion, numpy as np
    model = ixion.load(sys.argv[1])
    resource.setrlimit(resource.RLIMIT_AS, (1 << 32, 1 << 32))
    for shape in ((60_000, 60_000), (40_000, 40_000)):
        x = np.lib.stride_tricks.as_strided(np.zeros(1, np.float32), shape, (0, 0))
        try:
            model(x)
        except (ixion.Error, MemoryError) as error:
            print(type(error).__name__)
    assert model(np.eye(2, dtype=np.float32)).shape == (2, 2)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="the limit is Linux's")
def test_memory_that_runs_out_is_an_exception(write):
    done = child(FEW, write(squares(2)))
    assert done.returncode == 0 and len(done.stdout.split()) == 2, done.stderr
