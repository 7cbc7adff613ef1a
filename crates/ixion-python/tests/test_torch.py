"""Tensors of PyTorch and arrays of JAX, in and out."""

import gc

import ixion
import numpy as np
import pytest
from conftest import close, text
from programs import child


def test_torch_tensors_in_torch_tensors_out(digits, x, y):
    torch = pytest.importorskip("torch", reason="needs PyTorch")
    found = digits(torch.from_numpy(x.copy()))
    assert isinstance(found, torch.Tensor) and found.dtype == torch.float32 and close(found, y)
    assert isinstance(digits(x), np.ndarray)


def test_torch_types_that_numpy_has_not(copying):
    torch = pytest.importorskip("torch", reason="needs PyTorch")
    for name, dtype in (("bf16", torch.bfloat16), ("f16", torch.float16), ("bool", torch.bool)):
        given = torch.tensor([0.0, 1.0, 1.0]).to(dtype)
        found = copying(name)(given)
        assert found.dtype == dtype and torch.equal(found, given)


def test_a_strided_torch_tensor(copying):
    torch = pytest.importorskip("torch", reason="needs PyTorch")
    given = torch.arange(12.0).reshape(3, 4).t()
    assert torch.equal(copying("f32", ("?", "?"))(given), given)
    assert torch.equal(copying("f32", ("?", "?"))(given[::2]), given[::2])


def test_a_torch_tensor_as_output_is_written_in_place(copying):
    torch = pytest.importorskip("torch", reason="needs PyTorch")
    out = torch.zeros(1 << 16)
    where = out.data_ptr()
    copying("f32")(torch.ones(1 << 16), out=out)
    assert out.data_ptr() == where and bool((out == 1).all())


SET = """
import sys, threading, time, ixion, torch
model, wanted = ixion.load(sys.argv[1]), getattr(torch, sys.argv[2])
for delay in range(5, 15):
    # Memory of this size goes back to the system at once, and reading it ends the process.
    given, found = torch.ones(1 << 25, dtype=wanted), []
    running = threading.Thread(target=lambda: found.append(model(given)))
    running.start()
    # Before the run has taken the memory, `set_` in another thread is PyTorch's own race.
    time.sleep(delay / 1000)
    given.set_(torch.ones(1, dtype=wanted))
    running.join()
    assert found[0].numel() in (1, 1 << 25) and bool((found[0] == 1).all())
"""


@pytest.mark.parametrize(("name", "dtype"), [("f32", "float32"), ("bf16", "bfloat16")])
def test_a_tensor_that_gets_other_memory_during_a_run(write, name, dtype):
    pytest.importorskip("torch", reason="needs PyTorch")
    kind = f"=(?){name}"
    path = write(text(f"pnnx.Input x 0 1 0 #0{kind}", f"torch.clone copy 1 1 0 1 #0{kind} #1{kind}",
                      f"pnnx.Output y 1 0 1 #1{kind}"))
    done = child(SET, path, dtype)
    assert done.returncode == 0, done.stderr


def test_outputs_that_torch_does_not_let_be_written(copying):
    torch = pytest.importorskip("torch", reason="needs PyTorch")
    given = torch.ones(3)
    for out, words in ((torch.zeros(3, requires_grad=True), "detach"), (torch.zeros(1).expand(3), "overlap"),
                       (torch.zeros(3, device="meta"), "meta"), (torch.eye(3).to_sparse(), "cannot be used")):
        with pytest.raises(ixion.InputError, match=words):
            copying("f32")(given, out=out)
    out = torch.zeros(3, dtype=torch.bfloat16)
    where = out.data_ptr()
    assert copying("bf16")(given.bfloat16(), out=out) is out
    assert out.data_ptr() == where and out.tolist() == [1, 1, 1]


def test_a_result_keeps_its_memory(copying):
    torch = pytest.importorskip("torch", reason="needs PyTorch")
    for name, dtype in (("f32", torch.float32), ("bf16", torch.bfloat16)):
        model = copying(name)
        given = torch.arange(256).to(dtype)
        found = model(given)[100:102]
        del model, given
        gc.collect()
        assert found.tolist() == [100, 101]


def test_the_first_input_decides_what_comes_out(two_inputs, pair):
    torch = pytest.importorskip("torch", reason="needs PyTorch")
    first, second = (array.copy() for array in pair)
    wanted = two_inputs(first, second)
    assert isinstance(wanted, np.ndarray) and isinstance(two_inputs(first, torch.from_numpy(second)), np.ndarray)
    found = two_inputs(torch.from_numpy(first), second)
    assert isinstance(found, torch.Tensor) and np.array_equal(found.numpy(), wanted)
    parameter = torch.nn.Parameter(torch.from_numpy(first), requires_grad=False)
    assert type(two_inputs(parameter, second)) is torch.Tensor


def test_tensors_that_torch_tracks_or_rewrites(copying):
    """Gradients would be lost without a word, and lazy conjugates and negatives are not in memory."""
    torch = pytest.importorskip("torch", reason="needs PyTorch")
    with pytest.raises(ixion.InputError, match="detach"):
        copying("f32")(torch.ones(3, requires_grad=True))
    given = torch.tensor([1 + 2j, 3 - 4j], dtype=torch.complex64)
    for lazy in (given.conj(), given.conj().imag):
        with pytest.raises(ixion.InputError, match="resolve_conj"):
            copying("c64" if lazy.is_complex() else "f32")(lazy)
    assert torch.equal(copying("c64")(given.conj().resolve_conj()), given.conj())


def test_torch_tensors_without_plain_memory_are_refused(copying):
    torch = pytest.importorskip("torch", reason="needs PyTorch")
    with pytest.raises(ixion.InputError, match="meta"):
        copying("f32")(torch.empty(3, device="meta"))
    with pytest.raises(ixion.InputError):
        copying("f32", ("?", "?"))(torch.eye(3).to_sparse())


def test_jax_arrays(copying):
    jnp = pytest.importorskip("jax.numpy", reason="needs JAX")
    assert np.asarray(copying("f32")(jnp.arange(4.0, dtype="float32"))).tolist() == [0, 1, 2, 3]
