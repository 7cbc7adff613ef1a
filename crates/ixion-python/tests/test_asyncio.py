"""`await model.run_async(…)`: the loop goes on, errors and cancellation arrive."""

import asyncio
import contextlib

import ixion
import numpy as np
import pytest
from conftest import close, squares


def test_runs_are_awaited(digits, x, y):
    async def main() -> list[np.ndarray]:
        name = digits.inputs[0].name
        return [await digits.run_async(x), await digits.run_async({name: x}), await digits.run_async(**{name: x})]
    assert all(close(found, y) for found in asyncio.run(main()))


def test_many_runs_at_once(digits, x, y):
    async def main() -> list[np.ndarray]:
        return await asyncio.gather(*(digits.run_async(x[:count]) for count in range(1, 11)))
    for count, found in enumerate(asyncio.run(main()), 1):
        assert close(found, y[:count])


def test_outputs_go_where_the_caller_wants_them(digits, x, y):
    out = np.empty((10, 10), np.float32)
    assert asyncio.run(digits.run_async(x, out=out)) is out and close(out, y)


def test_any_name_can_be_that_of_an_input(write):
    model = ixion.load(write("7767517\n3 2\npnnx.Input self 0 1 0 #0=(?)f32\ntorch.clone c 1 1 0 1 #0=(?)f32 #1=(?)f32\n"
                             "pnnx.Output y 1 0 1 #1=(?)f32\n"))
    x = np.ones(3, np.float32)
    assert close(asyncio.run(model.run_async(**{"self": x})), x) and "<svg" in model.timeline(**{"self": x})


def test_the_loop_goes_on_meanwhile(slow, large):
    """A run that kept the loop would end in its first turn."""
    async def main() -> None:
        running = asyncio.ensure_future(slow.run_async(large))
        for _ in range(20):
            await asyncio.sleep(0.001)
        assert not running.done()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
    asyncio.run(main())


def test_errors_are_those_of_a_call(digits, slow, large):
    async def main() -> None:
        with pytest.raises(ixion.InputError, match="missing"):
            await digits.run_async()
        with pytest.raises(ixion.TimeoutError):
            await slow.run_async(large, timeout=0.02)
    asyncio.run(main())


def test_contexts_are_used_again(digits_path, x, y):
    model = ixion.load(digits_path)

    async def main() -> None:
        await model.run_async(x)
        (context,) = model.__dict__["_contexts"]
        with pytest.raises(ixion.InputError):
            await model.run_async()
        assert close(await model.run_async(x), y) and model.__dict__["_contexts"] == [context]
        model.clear()
        assert "_contexts" not in model.__dict__
    asyncio.run(main())


def test_a_cancelled_task_ends_its_run(write, large):
    """A run that went on to its end would have written its output."""
    model, out = ixion.load(write(squares(400))), np.zeros_like(large)

    async def main() -> None:
        task = asyncio.ensure_future(model.run_async(large, out=out))
        await asyncio.sleep(0.2)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    asyncio.run(main())
    assert close(model(np.eye(2, dtype=np.float32)), np.eye(2)) and not out.any()


def test_a_task_that_is_cancelled_twice_writes_nothing_later(write, large):
    model, out = ixion.load(write(squares(400))), np.zeros_like(large)

    async def main() -> None:
        problems = []
        asyncio.get_running_loop().set_exception_handler(lambda _, context: problems.append(context))
        task = asyncio.ensure_future(model.run_async(large, out=out))
        for _ in range(3):
            await asyncio.sleep(0.05)
            task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
        # A run would still hold the array.
        assert close(model(np.eye(2, dtype=np.float32)), np.eye(2)) and task.cancelled()
        model(large[:1, :1].copy(), out=out[:1, :1])
        assert not problems
    asyncio.run(main())


def test_a_limit_of_asyncio_ends_a_run(write, large):
    """As above."""
    model, out = ixion.load(write(squares(400))), np.zeros_like(large)
    with pytest.raises((asyncio.TimeoutError, TimeoutError)):
        asyncio.run(asyncio.wait_for(model.run_async(large, out=out), 0.2))
    assert not out.any()
