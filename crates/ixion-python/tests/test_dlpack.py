"""DLPack by hand: capsules of both versions, as other libraries make them, with all that can be wrong with one."""

import ctypes
import gc
import os
import threading

import ixion
import numpy as np
import pytest
from conftest import address, text
from programs import child

INT, UINT, FLOAT, BFLOAT, COMPLEX, BOOL = 0, 1, 2, 4, 5, 6
READ_ONLY, COPIED = 1, 2
NAMES = {False: b"dltensor", True: b"dltensor_versioned"}

new_capsule = ctypes.pythonapi.PyCapsule_New
new_capsule.restype, new_capsule.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
name_of = ctypes.pythonapi.PyCapsule_GetName
name_of.restype, name_of.argtypes = ctypes.c_char_p, [ctypes.py_object]
rename = ctypes.pythonapi.PyCapsule_SetName
rename.restype, rename.argtypes = ctypes.c_int, [ctypes.py_object, ctypes.c_char_p]
pointer_of = ctypes.pythonapi.PyCapsule_GetPointer
pointer_of.restype, pointer_of.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]

Deleter = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


class Tensor(ctypes.Structure):
    """DLTensor."""

    _fields_ = [("data", ctypes.c_void_p), ("device", ctypes.c_int32 * 2), ("rank", ctypes.c_int32), ("code", ctypes.c_uint8),
                ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16), ("shape", ctypes.POINTER(ctypes.c_int64)),
                ("strides", ctypes.POINTER(ctypes.c_int64)), ("byte_offset", ctypes.c_uint64)]


class Unversioned(ctypes.Structure):
    """DLManagedTensor."""

    _fields_ = [("tensor", Tensor), ("context", ctypes.c_void_p), ("deleter", Deleter)]


class Versioned(ctypes.Structure):
    """DLManagedTensorVersioned."""

    _fields_ = [("major", ctypes.c_uint32), ("minor", ctypes.c_uint32), ("context", ctypes.c_void_p), ("deleter", Deleter),
                ("flags", ctypes.c_uint64), ("tensor", Tensor)]


class Producer:
    """A tensor of another library: the memory of an array, described by fields that may be anything.

    `deleted` counts the calls of the deleter, and `asked` has the arguments of each call of `__dlpack__`.
    """

    def __init__(self, values=(1.0, 2.0, 3.0), versioned=True, major=1, flags=0, device=(1, 0), **fields):
        self.values = np.asarray(values, np.float32)
        self.device, self.versioned, self.deleted, self.asked = device, versioned, 0, []
        self.deleter = Deleter(self._delete)
        self.sizes = (ctypes.c_int64 * 8)(*fields.pop("shape", self.values.shape))
        strides = fields.pop("strides", None)
        self.steps = None if strides is None else (ctypes.c_int64 * 8)(*strides)
        self.managed = Versioned() if versioned else Unversioned()
        if versioned:
            self.managed.major, self.managed.flags = major, flags
        self.managed.deleter = self.deleter
        tensor = self.managed.tensor
        tensor.data, tensor.rank, tensor.device = address(self.values), self.values.ndim, device
        tensor.code, tensor.bits, tensor.lanes = FLOAT, 32, 1
        tensor.shape = ctypes.cast(self.sizes, ctypes.POINTER(ctypes.c_int64))
        if self.steps is not None:
            tensor.strides = ctypes.cast(self.steps, ctypes.POINTER(ctypes.c_int64))
        for name, value in fields.items():
            setattr(tensor, name, value)

    def _delete(self, pointer):
        assert pointer == ctypes.addressof(self.managed)
        self.deleted += 1

    def capsule(self):
        return new_capsule(ctypes.addressof(self.managed), NAMES[self.versioned], None)

    def __dlpack__(self, **options):
        self.asked.append(options)
        return self.capsule()

    def __dlpack_device__(self):
        return self.device


BOTH = pytest.mark.parametrize("versioned", [False, True], ids=["unversioned", "versioned"])


@BOTH
def test_the_deleter_is_called_once_after_the_call(copying, versioned):
    given = Producer(versioned=versioned)
    assert copying("f32")(given).tolist() == [1, 2, 3]
    gc.collect()
    assert given.deleted == 1 and given.asked == [{"max_version": (1, 0)}]


@BOTH
def test_the_deleter_is_called_once_for_what_is_refused(copying, versioned):
    """A tensor that does not fit is given back, whether it is refused when it is read or by the run."""
    for model, given in ((copying("f64"), Producer(versioned=versioned)),
                         (copying("f32", ("?", "?")), Producer(versioned=versioned)),
                         (copying("f32"), Producer(versioned=versioned, lanes=4)),
                         (copying("f32"), Producer(versioned=versioned, rank=-1))):
        with pytest.raises(ixion.InputError):
            model(given)
        gc.collect()
        assert given.deleted == 1


@BOTH
def test_a_tensor_without_a_deleter(copying, versioned):
    given = Producer(versioned=versioned)
    given.managed.deleter = Deleter()
    assert copying("f32")(given).tolist() == [1, 2, 3]


@BOTH
@pytest.mark.parametrize("fields, wanted", [
    ({"shape": (2, 3)}, [[0, 1, 2], [3, 4, 5]]),
    ({"shape": (3, 2), "strides": (1, 3)}, [[0, 3], [1, 4], [2, 5]]),
    ({"shape": (2, 2), "strides": (4, 2), "byte_offset": 4}, [[1, 3], [5, 7]]),
    ({"shape": (2, 2), "strides": (0, 1)}, [[0, 1], [0, 1]]),
    ({"shape": (1, 2), "strides": (-9, 1)}, [[0, 1]]),
    ({"shape": (0, 5), "data": None}, np.zeros((0, 5)).tolist()),
    ({"shape": (0, 5), "strides": (-1, -1)}, np.zeros((0, 5)).tolist()),
], ids=["no strides", "transposed", "an offset", "repeated", "an axis of length 1", "no memory", "nothing"])
def test_layouts(copying, versioned, fields, wanted):
    given = Producer(np.arange(8), versioned=versioned, rank=2, **fields)
    found = copying("f32", ("?", "?"))(given)
    assert found.tolist() == wanted and given.deleted == 1


def test_a_tensor_without_axes(copying):
    given = Producer(5.0)
    given.managed.tensor.shape = None
    assert copying("f32", ())(given).tolist() == 5


@BOTH
@pytest.mark.parametrize("fields, words", [
    ({"rank": -1}, "axes"), ({"rank": 100}, "axes"), ({"shape": (-3,)}, "negative"), ({"data": None}, "memory"),
    ({"data": None, "byte_offset": 64}, "memory"), ({"byte_offset": 1}, "misaligned"), ({"byte_offset": 2**64 - 4}, "address"),
    ({"strides": (-1,)}, "negative"), ({"shape": (1 << 62,)}, "large"), ({"shape": (2,), "strides": (1 << 62,)}, "address"),
    ({"lanes": 4}, "element type"), ({"bits": 8}, "element type"), ({"code": 77}, "element type"), ({"code": 3}, "element type"),
    ({"device": (2, 1)}, "CPU"),
])
def test_what_a_capsule_cannot_say(copying, versioned, fields, words):
    given = Producer(versioned=versioned, **fields)
    given.device = (1, 0)
    with pytest.raises(ixion.InputError, match=words):
        copying("f32")(given)
    assert given.deleted == 1


def test_a_null_shape_is_refused(copying):
    given = Producer()
    given.managed.tensor.shape = None
    with pytest.raises(ixion.InputError, match="shape"):
        copying("f32")(given)


@pytest.mark.parametrize("code, bits, name, dtype", [
    (INT, 8, "i8", np.int8), (INT, 16, "i16", np.int16), (INT, 32, "i32", np.int32), (INT, 64, "i64", np.int64),
    (UINT, 8, "u8", np.uint8), (FLOAT, 16, "f16", np.float16), (FLOAT, 64, "f64", np.float64), (COMPLEX, 64, "c64", np.complex64),
    (COMPLEX, 128, "c128", np.complex128), (BOOL, 8, "bool", np.bool_),
])
def test_element_types(copying, code, bits, name, dtype):
    values = np.array([0, 1, 1, 0]).astype(dtype)
    given = Producer(versioned=False, code=code, bits=bits, shape=(4,), data=address(values), rank=1)
    found = copying(name)(given)
    assert found.dtype == dtype and np.array_equal(found, values)


def test_a_tensor_of_a_newer_version_is_left_alone(copying):
    given = Producer(major=2)
    capsule = given.capsule()
    given.capsule = lambda: capsule
    with pytest.raises(ixion.InputError, match="DLPack 2"):
        copying("f32")(given)
    assert given.deleted == 0 and name_of(capsule) == b"dltensor_versioned"


def test_a_capsule_is_taken_once(copying):
    given = Producer()
    capsule = given.capsule()
    given.capsule = lambda: capsule
    assert copying("f32")(given).tolist() == [1, 2, 3] and name_of(capsule) == b"used_dltensor_versioned"
    with pytest.raises(ixion.InputError, match="taken"):
        copying("f32")(given)
    assert given.deleted == 1


def test_a_library_that_does_not_know_versions(copying):
    class Old(Producer):
        def __dlpack__(self, stream=None):
            self.asked.append(stream)
            return self.capsule()
    given = Old(versioned=False)
    assert copying("f32")(given).tolist() == [1, 2, 3]
    assert given.asked == [None], "no stream is asked for on the CPU"


@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit, ZeroDivisionError])
def test_what_is_not_about_the_tensor_is_raised_as_it_is(copying, kind):
    class Raising(Producer):
        def __dlpack__(self, **options):
            raise kind
    with pytest.raises(kind):
        copying("f32")(Raising())


# Outputs.


def test_an_output_is_written_where_it_is(copying):
    out = Producer(np.zeros(3))
    assert copying("f32")(np.float32([4, 5, 6]), out=out) is out
    assert out.values.tolist() == [4, 5, 6] and out.deleted == 1


@pytest.mark.parametrize("fields, words", [
    ({"versioned": False}, "NumPy"), ({"flags": READ_ONLY}, "read-only"), ({"flags": COPIED}, "copy"),
    ({"flags": READ_ONLY | COPIED}, "read-only"), ({"shape": (2,), "strides": (0,)}, "overlap"), ({"device": (2, 0)}, "CPU"),
])
def test_outputs_that_cannot_be_written(copying, fields, words):
    out = Producer(np.zeros(3), **fields)
    with pytest.raises(ixion.InputError, match=words):
        copying("f32")(np.float32([4, 5, 6]), out=out)
    assert not out.values.any() and out.deleted == (0 if "device" in fields else 1)


# The memory of outputs, for other libraries.


def taken(memory: object, versioned: bool):
    """What a consumer makes of an output: the structure of a capsule that it has taken."""
    capsule = memory.__dlpack__(max_version=(1, 0) if versioned else None)
    assert name_of(capsule) == NAMES[versioned]
    pointer = pointer_of(capsule, NAMES[versioned])
    used = b"used_" + NAMES[versioned]
    taken.names.append(used)
    assert rename(capsule, used) == 0
    return (Versioned if versioned else Unversioned).from_address(pointer)


# A capsule does not copy its name.
taken.names = []


@BOTH
def test_a_consumer_gives_memory_back_in_any_thread_and_without_the_lock(copying, versioned):
    found = copying("f32", ("?", "?"))(np.arange(6, dtype=np.float32).reshape(2, 3))
    managed = taken(found.base, versioned)
    tensor, where = managed.tensor, address(found)
    assert tensor.data + tensor.byte_offset == where and tensor.rank == 2 and list(tensor.device) == [1, 0]
    assert (tensor.code, tensor.bits, tensor.lanes) == (FLOAT, 32, 1)
    assert tensor.shape[:2] == [2, 3] and tensor.strides[:2] == [3, 1]
    del found
    gc.collect()
    values = (ctypes.c_float * 6).from_address(where)
    assert list(values) == [0, 1, 2, 3, 4, 5], "the capsule keeps the memory"
    # A call by ctypes releases the lock.
    thread = threading.Thread(target=lambda: managed.deleter(ctypes.addressof(managed)))
    thread.start()
    thread.join()


UNCONSUMED = """
    import resource, sys, numpy as np, ixion
    def used():
        return int(open("/proc/self/statm").read().split()[1]) * resource.getpagesize()
    model, given, kept = ixion.load(sys.argv[1]), np.ones(1 << 20, np.float32), []
    model(given).base.__dlpack__()
    before = used()
    for _ in range(50):
        for version in (None, (1, 1)):
            capsule = model(given).base.__dlpack__(max_version=version)
            if sys.argv[2] == "kept":
                kept.append(capsule)
    print((used() - before) / given.nbytes)
"""


@pytest.mark.skipif(not os.path.exists("/proc/self/statm"), reason="only Linux tells what a process uses now")
def test_capsules_that_are_not_consumed_are_released(write):
    path = write(text("pnnx.Input x 0 1 0 #0=(?)f32", "torch.clone copy 1 1 0 1 #0=(?)f32 #1=(?)f32", "pnnx.Output y 1 0 1 #1=(?)f32"))
    for what, wanted in (("released", range(-10, 25)), ("kept", range(75, 125))):
        done = child(UNCONSUMED, path, what)
        assert done.returncode == 0, done.stderr
        assert round(float(done.stdout)) in wanted, f"{what}: of 100 arrays, {done.stdout.strip()} are still there"


def test_numpy_reads_the_memory_without_a_copy(copying):
    found = copying("f32")(np.float32([1, 2, 3]))
    again = np.from_dlpack(found.base)
    assert address(again) == address(found) and again.tolist() == [1, 2, 3]
    del found
    gc.collect()
    assert again.tolist() == [1, 2, 3]


def test_what_a_consumer_can_ask_for(copying):
    found = copying("f32")(np.float32([1, 2, 3]))
    memory = found.base
    assert memory.__dlpack_device__() == (1, 0)
    memory.__dlpack__(stream=None), memory.__dlpack__(stream=-1), memory.__dlpack__(dl_device=(1, 0), copy=False)
    for options in ({"stream": 1}, {"stream": "1"}, {"dl_device": (2, 0)}, {"dl_device": (1, 1)}):
        with pytest.raises(BufferError):
            memory.__dlpack__(**options)
    for options in ({"max_version": 1}, {"max_version": (-1, 0)}, {"dl_device": "cpu"}, {"nothing": 1}):
        with pytest.raises((TypeError, OverflowError, ValueError)):
            memory.__dlpack__(**options)


@BOTH
def test_a_copy_is_other_memory(copying, versioned):
    found = copying("f32")(np.float32([1, 2, 3]))
    capsule = found.base.__dlpack__(max_version=(1, 0) if versioned else None, copy=True)
    structure = Versioned if versioned else Unversioned
    managed = structure.from_address(pointer_of(capsule, NAMES[versioned]))
    assert managed.tensor.data != address(found)
    found[:] = 0
    assert list((ctypes.c_float * 3).from_address(managed.tensor.data)) == [1, 2, 3]
    assert not versioned or managed.flags == COPIED


def test_bf16_and_c32_go_to_torch(copying):
    torch = pytest.importorskip("torch", reason="needs PyTorch")
    given = torch.tensor([1.0, -2.5], dtype=torch.bfloat16)
    found = copying("bf16")(given)
    assert found.dtype == torch.bfloat16 and torch.equal(found, given)
    given = torch.view_as_complex(torch.tensor([[1.0, 2.0], [3.0, -4.0]], dtype=torch.float16))
    assert given.dtype == torch.complex32
    found = copying("c32")(given)
    assert found.dtype == torch.complex32 and torch.equal(torch.view_as_real(found), torch.view_as_real(given))
    with pytest.raises(ixion.InputError, match="PyTorch"):
        copying("c32")(np.complex64([1]))


def test_bf16_of_ml_dtypes_goes_to_torch_by_its_memory(copying):
    torch, ml_dtypes = pytest.importorskip("torch", reason="needs PyTorch"), pytest.importorskip("ml_dtypes")
    given = np.arange(4).astype(ml_dtypes.bfloat16)
    found = torch.from_dlpack(copying("bf16")(given).base)
    assert found.dtype == torch.bfloat16 and found.tolist() == [0, 1, 2, 3]
