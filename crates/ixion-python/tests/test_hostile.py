"""What programs do to a library, on purpose or not: an exception says so, or all is well, but Python never crashes."""

import os

import pytest
from conftest import text
from hostile import DIGITS, run


# Interpreters.


@pytest.mark.parametrize("flags", [("-O",), ("-OO",), ("-I",), ("-X", "dev"), ("-W", "error")], ids=" ".join)
def test_any_mode_of_python(flags):
    if flags == ("-I",) and os.environ.get("PYTHONPATH"):
        pytest.skip("the package is found by PYTHONPATH, which -I ignores")
    said = run("""
        model = ixion.load(DIGITS)
        if not right(model(X)) or not right(model.context()(X)) or not right(ixion.Model(model.plan)(X)):
            sys.exit("wrong")
        refused(lambda: model(X, X), ixion.InputError)
        print(model.run_async.__name__, ixion.command("devices")["version"], len(model.timeline(X)) > 9)
    """, flags=flags)
    assert said.split()[0] == "run_async" and said.endswith("True\n")


def test_other_interpreters_of_the_process_are_refused():
    said = run("""
        model = ixion.load(DIGITS)
        code = '''
        try:
            import ixion
        except ImportError as error:
            assert "interpreter" in str(error), error
            print("refused", flush=True)
        '''.replace("\\n        ", "\\n")
        try:
            from concurrent import interpreters
            interpreters.create().exec(code)
        except ImportError:
            try:
                import _xxsubinterpreters as interpreters
            except ImportError:
                import _interpreters as interpreters
            other = interpreters.create()
            interpreters.run_string(other, code)
            interpreters.destroy(other)
        assert right(model(X))
    """)
    assert "refused" in said


@pytest.mark.parametrize("numpy, words", [
    ("None", "pip install numpy"),
    ("types.ModuleType('numpy')", "numpy"),
    ("type('Old', (types.ModuleType,), {'__version__': '1.8'})('numpy')", "numpy"),
], ids=["missing", "empty", "old"])
def test_without_numpy_an_exception_says_what_to_do(numpy, words):
    said = run(f"""
        import sys, types
        sys.modules["numpy"] = {numpy}
        import ixion
        model = ixion.load(sys.argv[1])
        print(repr(model)[:13], ixion.command("devices")["version"])
        for call in (lambda: model([[[[0.0] * 8] * 8]]), lambda: model(b""), lambda: model(), lambda: model(None, out=3),
                     lambda: model.context()([1.0]), lambda: ixion.Picture([[1]]), lambda: model.timeline([1.0])):
            try:
                call()
            except (ImportError, ixion.InputError) as error:
                print(error)
            else:
                sys.exit("no exception")
    """, start="")
    assert said.startswith("<ixion.Model ") and words in said.lower()


def test_the_recursion_limit_is_an_exception_at_any_depth():
    run("""
        model = ixion.load(DIGITS)
        class Nested:
            def __array__(self, *_, **__):
                return np.asarray(self)
        def down(depth):
            try:
                assert right(model(X))
            except RecursionError:
                pass
            try:
                down(depth + 1)
            except RecursionError:
                pass
        sys.setrecursionlimit(300)
        down(0)
        refused(lambda: model(Nested()), ixion.Error, RecursionError)
        inner = []
        for _ in range(100_000):
            inner = [inner]
        for value in (inner, {"x": inner}):
            refused(lambda: model(value))
            refused(lambda: ixion.load(DIGITS, shapes=value))
            refused(lambda: ixion.load(DIGITS, limits=value))
        assert right(model(X))
    """)


@pytest.mark.parametrize("threads", [1, 2])
def test_the_interpreter_may_end_while_threads_run_models(threads):
    for delay in (0.0, 0.01, 0.05):
        run("""
            model = ixion.load(DIGITS, threads=int(sys.argv[2]))
            def work():
                context = model.context()
                while True:
                    model(X), context(X)
            for _ in range(4):
                threading.Thread(target=work, daemon=True).start()
            time.sleep(float(sys.argv[3]))
        """, threads, delay)


def test_models_run_until_the_very_end_of_the_interpreter():
    said = run("""
        import atexit
        model = ixion.load(DIGITS, threads=2)
        class Last:
            def __del__(self, model=model, x=X, right=right, print=print, expected=(ixion.Error, ImportError)):
                try:
                    print("last", right(model(x)))
                except expected as error:
                    print("last", error)
        atexit.register(lambda: print("exit", right(model(X))))
        last, model.last = Last(), Last()
    """)
    assert "exit True" in said and said.count("last") == 2 and "False" not in said


# Memory.


def test_results_outlive_their_models():
    run("""
        model = ixion.load(DIGITS)
        context = model.context()
        gone = weakref.ref(model)
        found, row, memory = model(X), context(X)[3], model(X).base
        capsule, target = model(X).__dlpack__(), np.empty((10, 10), np.float32)
        other = np.from_dlpack(model(X))
        assert context(X, out=target) is target
        del model, context
        gc.collect()
        assert gone() is None
        filler = [np.full(100, 7, np.float32) for _ in range(1000)]
        assert right(found) and right(row, Y[3]) and right(target) and right(other)
        assert right(np.frombuffer(memoryview(np.from_dlpack(memory)), np.float32).reshape(10, 10))
        del memory, capsule, found
    """)


def test_what_a_running_call_uses_is_not_released():
    run("""
        model = ixion.load(DIGITS)
        def work():
            for _ in range(300):
                assert right(model(np.array(X), out=np.empty((10, 10), np.float32)))
        workers = [threading.Thread(target=work) for _ in range(3)]
        [worker.start() for worker in workers]
        while any(worker.is_alive() for worker in workers):
            gc.collect()
            model.clear()
        [worker.join() for worker in workers]
    """)


def test_models_in_cycles_are_collected():
    run("""
        class Holder: pass
        def cycle():
            holder = Holder()
            holder.model, holder.context = ixion.load(DIGITS), ixion.load(DIGITS).context()
            holder.found, holder.plan = holder.model(X), holder.model.plan
            holder.me = [holder]
            return [weakref.ref(it) for it in (holder, holder.model, holder.context, holder.plan, holder.found)]
        gone = cycle()
        gc.collect()
        assert not any(it() for it in gone if it is not None and it() is not None), gone
    """)


def test_calls_from_finalizers_and_from_what_is_read():
    run("""
        model = ixion.load(DIGITS)
        context = model.context()
        class Restless:
            def __array__(self, *_, **__):
                self.found = model(X)
                for busy in (context.clear, lambda: context(X), lambda: context.arena_bytes):
                    refused(busy, ixion.InputError)
                context.cancel()
                repr(context), context.inputs
                return X
        ended = []
        class Dying:
            def __init__(self): self.me = self
            def __del__(self): ended.append(right(model(X)))
        gc.set_threshold(1)
        for _ in range(50):
            Dying()
            refused(lambda: context(Restless()), ixion.Cancelled)
            assert right(context(X))
        assert ended and all(ended)
    """)


def test_dictionaries_that_change_while_they_are_read():
    run("""
        model = ixion.load(DIGITS)
        name = model.inputs[0].name
        class Adding:
            def __init__(self, target): self.target = target
            def __array__(self, *_, **__):
                self.target.update({f"x{place}": X for place in range(100)})
                return X
        for use in (model, lambda given: ixion.calibrate(DIGITS, [given]), model.timeline):
            given = {name: 0}
            given[name] = Adding(given)
            try:
                use(given)
            except ixion.InputError:
                pass
        class Shape:
            def __iter__(self):
                options.clear()
                return iter((1, 1, 8, 8))
        options = {"shapes": {name: Shape()}}
        ixion.load(DIGITS, **options)
    """)


@pytest.mark.parametrize("kilobytes", [256, 512])
def test_threads_with_small_stacks(kilobytes):
    run("""
        threading.stack_size(int(sys.argv[2]) << 10)
        found = []
        def work():
            model = ixion.load(DIGITS)
            found.append(right(model(X)) and right(ixion.Plan.from_bytes(model.plan.to_bytes()) and model(X)))
            ixion.command("inspect", DIGITS)
        worker = threading.Thread(target=work)
        worker.start()
        worker.join()
        assert found == [True]
    """, kilobytes)


def test_models_that_are_very_long_or_deep(write):
    chain = [f"aten::neg n{step} 1 1 {step} {step + 1} #{step}=(3)f32 #{step + 1}=(3)f32" for step in range(4000)]
    long = write(text("pnnx.Input x 0 1 0 #0=(3)f32", *chain, "pnnx.Output y 1 0 4000"))
    deep = write(text("pnnx.Input x 0 1 0 #0=(3)f32", "pnnx.Expression e 1 1 0 1 expr=" + "neg(" * 50_000 + "@0" + ")" * 50_000
                      + " #0=(3)f32 #1=(3)f32", "pnnx.Output y 1 0 1"))
    brackets = write(text("pnnx.Input x 0 1 0 #0=(3)f32", "torch.clone e 1 1 0 1 k=" + "(" * 100_000, "pnnx.Output y 1 0 1"))
    run("""
        for path in sys.argv[2:]:
            try:
                model = ixion.load(path)
                assert right(model(np.ones(3, np.float32)), 1.0)
            except ixion.Error as error:
                assert str(error)
    """, long, deep, brackets, seconds=300)


def test_a_batch_that_no_memory_could_hold(tmp_path):
    """A file may fix any batch; pictures that are fewer than that are repeated to fill it."""
    (tmp_path / "model.toml").write_text((DIGITS.parent / "model.toml").read_text(encoding="utf-8"), encoding="utf-8")
    kinds = " ".join(f"#{step}=(4000000000,1,8,8)f32" for step in (0, 1))
    path = tmp_path / "x.pnnx.param"
    path.write_text(text("pnnx.Input x 0 1 0 #0=(4000000000,1,8,8)f32", f"torch.clone c 1 1 0 1 {kinds}", "pnnx.Output y 1 0 1"),
                    encoding="utf-8")
    run("""
        model = ixion.load(sys.argv[2])
        refused(lambda: ixion.classify(model, np.zeros((8, 8), np.uint8)))
    """, path)


# Arrays that lie.


def test_subclasses_whose_methods_lie_are_read_as_they_are():
    run("""
        model = ixion.load(DIGITS)
        class Shrinks(np.ndarray):
            def astype(self, *_, **__):
                return np.full(4 * self.size, 0x42, np.int8)[:self.size].reshape(self.shape)
            copy = __array__ = astype
        class Open(np.ndarray):
            flags = property(lambda self: types.SimpleNamespace(writeable=True, aligned=True, c_contiguous=True))
        try:
            assert right(model(X[::-1].view(Shrinks)), Y[::-1])
        except ixion.InputError:
            pass
        fixed = bytes(400)
        refused(lambda: model(X, out=np.frombuffer(fixed, np.float32).reshape(10, 10).view(Open)), ixion.InputError, words="read-only")
        assert fixed == bytes(400)
    """)


def test_arrays_that_repeat_an_element_beyond_all_memory(write):
    for kind in ("bool", "f32"):
        path = write(text(f"pnnx.Input x 0 1 0 #0=(?,?){kind}", f"torch.clone c 1 1 0 1 #0=(?,?){kind} #1=(?,?){kind}",
                          "pnnx.Output y 1 0 1"))
        run("""
            model = ixion.load(sys.argv[2])
            one = np.full(1, 2, np.uint8).view(np.bool_) if sys.argv[3] == "bool" else np.ones(1, np.float32)
            huge = np.lib.stride_tricks.as_strided(one, (1 << 21, 1 << 21), (0, 0))
            refused(lambda: model(huge), ixion.LimitError, ixion.InputError, MemoryError)
            refused(lambda: model(np.zeros((2, 2), one.dtype), out=huge), ixion.InputError)
            refused(lambda: ixion.Picture(huge))
            refused(lambda: ixion.load(DIGITS)(huge))
        """, path, kind, seconds=60)


@pytest.mark.parametrize("number", ["-1", "1 << 64", "1 << 200"])
def test_numbers_that_no_machine_counts_are_refused_as_others(number):
    run(f"""
        model, huge = ixion.load(DIGITS), {number}
        picture = np.zeros((8, 8), np.uint8)
        for call in (lambda: model.profile(X, runs=huge), lambda: model.timeline(X, top=huge), lambda: model(X, timeout=huge),
                     lambda: ixion.classify(model, picture, top=huge), lambda: ixion.load(DIGITS, threads=huge),
                     lambda: ixion.verify(os.path.dirname(DIGITS), jobs=huge), lambda: ixion.load(DIGITS, limits=huge),
                     lambda: ixion.load(DIGITS, random_weights=huge), lambda: ixion.load(DIGITS, shapes={{"pnnx_input_0": (huge,)}})):
            refused(call, ixion.InputError, TypeError)
    """)
