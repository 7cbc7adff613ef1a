"""What systems do to a library: files that vanish, forks, signals, and limits are exceptions, or no matter."""

import multiprocessing
import os
import signal
import sys

import pytest
from conftest import squares
from hostile import run

LINUX = pytest.mark.skipif(sys.platform != "linux", reason="needs Linux")


# Files.


def test_files_that_vanish_or_are_replaced_under_a_map(tmp_path):
    run("""
        os.chdir(sys.argv[2])
        plan = ixion.build(DIGITS)
        plan.save("a.plan")
        model = ixion.load("a.plan", map=True)
        plan.save("a.plan")
        assert right(model(X))
        os.unlink("a.plan")
        assert right(model(X)) and right(model.context()(X)) and len(model.plan.to_bytes()) > 1000
        refused(lambda: ixion.load("a.plan", map=True), ixion.NotFoundError)
        import pickle
        assert right(pickle.loads(pickle.dumps(model))(X))
    """, tmp_path)


def test_files_that_are_cut_before_they_are_mapped(tmp_path):
    run("""
        os.chdir(sys.argv[2])
        ixion.build(DIGITS).save("a.plan")
        size = os.path.getsize("a.plan")
        for length in (0, 1, 8, 100, 4095, 4096, 4097, size // 2, size - 1):
            with open("a.plan", "rb") as whole, open("b.plan", "wb") as cut:
                cut.write(whole.read(length))
            for is_mapped in (True, False):
                refused(lambda: ixion.load("b.plan", map=is_mapped)(X), ixion.ModelError, ixion.InputError)
    """, tmp_path)


@pytest.mark.parametrize("path", ["/dev/null", "/dev/zero", "/proc/self/mem", "/dev/full"])
@LINUX
def test_devices_are_no_files(path):
    run("""
        import resource
        resource.setrlimit(resource.RLIMIT_AS, (6 << 30, 6 << 30))
        path = sys.argv[2]
        for call in (ixion.load, ixion.build, ixion.Plan.load, ixion.Picture, ixion.Scales.load, lambda it: ixion.load(it, map=True),
                     lambda it: ixion.load(DIGITS, bin=it)(X), lambda it: ixion.load(DIGITS, plugins=it),
                     lambda it: ixion.load(DIGITS, precision="int8", scales=it), ixion.verify):
            try:
                call(path)
            except (ixion.Error, MemoryError) as error:
                assert str(error).strip() or type(error) is MemoryError
    """, path, seconds=60)


# Processes.


@LINUX
def test_what_the_system_refuses_is_an_exception():
    run("""
        import resource
        model = ixion.load(DIGITS)
        plan = model.plan
        files = resource.getrlimit(resource.RLIMIT_NOFILE)
        used = [os.open(os.devnull, os.O_RDONLY)]
        resource.setrlimit(resource.RLIMIT_NOFILE, (used[0], files[1]))
        for call in (lambda: ixion.load(DIGITS), plan.to_bytes, lambda: plan.save("x.plan"), lambda: ixion.Picture("x.png")):
            refused(call, ixion.Error, OSError)
        assert right(model(X))
        resource.setrlimit(resource.RLIMIT_NOFILE, files)
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, files[1]))
        os.chdir(sys.argv[2])
        refused(lambda: plan.save("x.plan"))
        refused(plan.to_bytes)
        assert not os.path.exists("x.plan")
        resource.setrlimit(resource.RLIMIT_AS, (3 << 30, 3 << 30))
        refused(lambda: ixion.load(DIGITS, threads=1024)(X), ixion.LimitError, MemoryError)
        assert right(model(X))
    """, "/tmp" if not os.environ.get("TMPDIR") else os.environ["TMPDIR"])


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there are no forks")
@pytest.mark.parametrize("threads", [1, 2])
def test_forks_in_the_middle_of_the_runs_of_other_threads(threads):
    run("""
        model, small = ixion.load(DIGITS, threads=int(sys.argv[2])), ixion.load(DIGITS)
        context, done = small.context(), threading.Event()
        def work():
            while not done.is_set():
                model(X), small(X)
                try:
                    context(X)
                except ixion.InputError:
                    pass
        workers = [threading.Thread(target=work) for _ in range(3)]
        [worker.start() for worker in workers]
        for _ in range(15):
            child = os.fork()
            if child == 0:
                signal.alarm(20)
                code = 1
                try:
                    # The context may have been in use, and then nobody gives it back here.
                    for call in (lambda: small(X), lambda: ixion.load(DIGITS)(X), lambda: model(X), lambda: context(X)):
                        try:
                            assert right(call())
                        except ixion.InputError:
                            pass
                    assert right(small(X))
                    code = 0
                finally:
                    os._exit(code)
            _, status = os.waitpid(child, 0)
            assert status == 0, status
        done.set()
        [worker.join() for worker in workers]
    """, threads)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there are no forks")
def test_a_forked_process_ends_as_others_do():
    """It runs all finalizers, and waits for no thread that only its parent has."""
    run("""
        model = ixion.load(DIGITS, threads=2)
        context = model.context()
        model(X), context(X)
        child = os.fork()
        if child == 0:
            signal.alarm(20)
            del model, context
            gc.collect()
            sys.exit(7)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
        assert right(model(X))
    """)


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_models_in_pools_of_processes(method):
    if method not in multiprocessing.get_all_start_methods():
        pytest.skip(f"this system does not start processes by {method}")
    run("""
        import multiprocessing
        model = ixion.load(DIGITS)
        with multiprocessing.get_context(sys.argv[2]).Pool(2) as pool:
            for call in (model, ixion.Model(model.plan)):
                assert all(right(found) for found in pool.map(call, [X] * 4))
            refused(lambda: pool.map(model, [X[0]]), ixion.InputError)
    """, method)


# Threads and signals.


def test_threads_that_do_everything_with_one_context():
    run("""
        model = ixion.load(DIGITS)
        context, wrong = model.context(), []
        def work(number):
            for turn in range(300):
                try:
                    if (turn + number) % 7 == 0:
                        context.cancel()
                    elif (turn + number) % 5 == 0:
                        context.clear(), context.arena_bytes, repr(context)
                    elif not right(context(X[:turn % 10 + 1], timeout=1), Y[:turn % 10 + 1]):
                        wrong.append(turn)
                except (ixion.InputError, ixion.Cancelled):
                    pass
                except BaseException as error:
                    wrong.append(error)
        workers = [threading.Thread(target=work, args=(number,)) for number in range(6)]
        [worker.start() for worker in workers]
        [worker.join() for worker in workers]
        assert not wrong, wrong
        for _ in range(2):
            try:
                context(X)
            except ixion.Cancelled:
                pass
        assert right(context(X))
    """)


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="there are no timers")
def test_signals_in_the_middle_of_anything(write):
    run("""
        slow, model = ixion.load(sys.argv[2]), ixion.load(DIGITS)
        context, busy, calls, raised, is_armed = model.context(), slow.context(), 0, 0, False
        class Enough(Exception): pass
        def handler(*_):
            global calls, raised, is_armed
            calls += 1
            assert right(model(X))
            try:
                busy(np.eye(2, dtype=np.float32))
            except ixion.InputError:
                pass
            if calls % 3 == 0 and is_armed:
                is_armed = False
                raised += 1
                raise Enough
        signal.signal(signal.SIGALRM, handler)
        signal.setitimer(signal.ITIMER_REAL, 0.005, 0.0131)
        end, eye = time.monotonic() + 4, np.eye(300, dtype=np.float32)
        while time.monotonic() < end or raised < 3:
            try:
                is_armed = True
                assert np.array_equal(busy(eye), eye)
                assert right(context(X)) and right(ixion.load(DIGITS)(X))
                ixion.command("devices")
                is_armed = False
            except Enough:
                pass
        signal.setitimer(signal.ITIMER_REAL, 0)
        assert np.array_equal(busy(eye), eye) and right(context(X)) and right(model(X))
    """, write(squares(40)))


def test_the_command_without_anywhere_to_write():
    run("""
        os.close(1), os.close(2)
        codes = [ixion.main(["devices"]), ixion.main(["nothing"]), ixion.main([])]
        os._exit(0 if all(code in (0, 1, 2) for code in codes) else 3)
    """)
