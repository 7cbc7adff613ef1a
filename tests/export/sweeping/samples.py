"""Small inputs for every function and module: PyTorch's own, from the tables of its tests, and those of `recipes`."""

import itertools
import warnings
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn
from torch.testing._internal.common_methods_invocations import op_db
from torch.testing._internal.common_modules import module_db

from .functions import SPACES, Function
from .recipes import RECIPES, Arguments, module

# The samples that are taken for a function, and those of PyTorch that are looked at.
COUNT, LOOKED_AT = 4, 60
LARGEST = 5000
DTYPES = [torch.float32, torch.int64, torch.bool, torch.complex64]
# NumPy has no such types: results are converted.
TRAVELS_AS = {torch.bfloat16: torch.float32, torch.complex32: torch.complex64}


class NoTensors(Exception):
    """The function returns something else than tensors."""


@dataclass(eq=False)
class Sample:
    """A call of a function: its tensors, how it is called with them, and its results."""

    function: Function
    tensors: list[Tensor]
    call: Callable[[list[Tensor]], object]
    module: nn.Module | None = None
    # A second set of tensors, of other sizes: the first axes are then exported as dynamic.
    others: list[Tensor] = field(default_factory=list)
    results: list[Tensor] = field(default_factory=list)
    # Whether the results are the same each time.
    fixed: bool = True

    def run(self, tensors: list[Tensor]) -> list[Tensor]:
        return [result.to(TRAVELS_AS.get(result.dtype, result.dtype)) for result in flatten(self.call(tensors))]

    def compute(self) -> None:
        """Computes the results several times."""
        runs = []
        for seed in range(1, 5):
            torch.manual_seed(seed)
            with torch.no_grad():
                runs.append(self.run([tensor.clone() for tensor in self.tensors]))
        self.results = runs[0]
        if not self.results:
            raise NoTensors
        self.fixed = "empty" not in self.function.name and all(same(first, other) for first, *others in zip(*runs, strict=True) for other in others)


    def sets(self) -> Iterator[tuple[str, list[Tensor], list[Tensor]]]:
        """The sets of tensors and results, and what the names of their files end with."""
        yield "", self.tensors, self.results
        if self.others:
            with torch.no_grad():
                yield "_1", self.others, self.run([tensor.clone() for tensor in self.others])


def same(a: Tensor, b: Tensor) -> bool:
    return a.shape == b.shape and torch.equal(torch.nan_to_num(a), torch.nan_to_num(b))


def flatten(values) -> list[Tensor]:
    """The tensors of nested lists, tuples and dictionaries, depth first."""
    if isinstance(values, Tensor):
        return [values]
    if isinstance(values, dict):
        values = values.values()
    if not isinstance(values, (list, tuple)) and not hasattr(values, "__iter__") or isinstance(values, (str, torch.Size)):
        return []
    return [tensor for value in values for tensor in flatten(value)]


def taken_apart(value, tensors: list[Tensor]):
    """The value with `Place`s for its tensors, which are appended to the list."""
    if isinstance(value, Tensor):
        tensors.append(value.detach())
        return Place(len(tensors) - 1)
    if type(value) in (list, tuple):
        return type(value)(taken_apart(item, tensors) for item in value)
    if type(value) is dict:
        return {key: taken_apart(item, tensors) for key, item in value.items()}
    return value


@dataclass
class Place:
    """Stands for one of the tensors of a sample."""

    index: int


def put_together(value, tensors: list[Tensor]):
    if isinstance(value, Place):
        return tensors[value.index]
    if type(value) in (list, tuple):
        return type(value)(put_together(item, tensors) for item in value)
    if type(value) is dict:
        return {key: put_together(item, tensors) for key, item in value.items()}
    return value


def sample(function: Function, arguments: Arguments) -> Sample:
    tensors: list[Tensor] = []
    args, named = taken_apart(list(arguments.args), tensors), taken_apart(arguments.named, tensors)
    caller = arguments.through or function.caller()
    module = caller if isinstance(caller, nn.Module) else None
    others = [grown(tensor) for tensor in tensors] if arguments.dynamic else []
    return Sample(function, tensors, lambda given: caller(*put_together(args, given), **put_together(named, given)), module, others)


def grown(tensor: Tensor) -> Tensor:
    """The tensor with one index more along the first axis, unless that has length 1."""
    return tensor if tensor.shape[0] == 1 else torch.cat((tensor, tensor[:1]))


def samples_of(function: Function) -> list[Sample]:
    """Samples that PyTorch accepts. Raises `NoTensors` if results of all of them are something else."""
    found: list[Sample] = []
    gives_tensors = True
    for arguments in arguments_of(function):
        candidate = sample(function, arguments)
        torch.manual_seed(zlib.crc32(function.full_name.encode()))
        try:
            candidate.compute()
        except NoTensors:
            gives_tensors = False
            continue
        except Exception:  # Some samples of PyTorch are for a method or for a function alone.
            continue
        found.append(candidate)
        if len(found) == COUNT and function.full_name not in RECIPES:
            break
    if not found and not gives_tensors:
        raise NoTensors
    return found


def arguments_of(function: Function) -> Iterator[Arguments]:
    """The arguments of a function: those of a recipe, else PyTorch's, else a guess."""
    torch.manual_seed(zlib.crc32(function.full_name.encode()))
    if function.full_name in RECIPES:
        yield from RECIPES[function.full_name]()
        return
    if function.space == "torch.nn":
        yield from of_module(function)
        return
    known = list(itertools.islice(of_pytorch(function), COUNT))
    yield from known
    if not known:
        yield from guesses()


def guesses() -> Iterator[Arguments]:
    square = torch.rand(3, 3) + 0.1
    yield Arguments((square,))
    yield Arguments((square, square.flip(0)))
    yield Arguments((square, 1))
    yield Arguments((square > 0.5,))


BY_NAME: dict[str, list] = {}
for info in op_db:
    for name in {info.name, *(alias.name for alias in info.aliases)}:
        BY_NAME.setdefault(name, []).append(info)


def of_pytorch(function: Function) -> Iterator[Arguments]:
    """PyTorch's samples for this function that differ in kind."""
    space = function.space.removeprefix("torch").removeprefix(".").removeprefix("Tensor")
    names = [f"{space}.{function.name}".removeprefix(".")]
    names += [f"nn.functional.{function.name}", f"special.{function.name}", f"linalg.{function.name}"] if space == "" else []
    infos = next((BY_NAME[name] for name in names if name in BY_NAME), [])
    picked = [different_kinds(info) for info in infos]
    # One of each variant at a time.
    for row in itertools.zip_longest(*picked):
        yield from (arguments for arguments in row if arguments is not None)


def different_kinds(info) -> Iterator[Arguments]:
    dtype = next((dtype for dtype in DTYPES if dtype in info.dtypes), None)
    if dtype is None:
        return
    seen, empty = set(), []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        samples = list(itertools.islice(info.sample_inputs("cpu", dtype, requires_grad=False), LOOKED_AT))
    for given in samples:
        arguments = Arguments((given.input, *given.args), given.kwargs)
        tensors: list[Tensor] = []
        taken_apart([list(arguments.args), arguments.named], tensors)
        if any(tensor.numel() > LARGEST or tensor.layout != torch.strided or tensor.dtype in TRAVELS_AS for tensor in tensors):
            continue
        kind = (tuple(kind_of(value) for value in arguments.args), tuple(sorted((key, kind_of(value)) for key, value in arguments.named.items())))
        if kind in seen:
            continue
        seen.add(kind)
        if any(tensor.numel() == 0 for tensor in tensors):
            empty.append(arguments)
        else:
            yield arguments
    yield from empty


MODULES = {info.name.removeprefix("nn."): info for info in module_db}


def of_module(function: Function) -> Iterator[Arguments]:
    """PyTorch's samples for a module, in the state in which it is used for inference."""
    info = MODULES[function.name]
    made = SPACES[function.space].__dict__[function.name]
    seen = set()
    for given in info.module_inputs_func(info, device="cpu", dtype=torch.float32, requires_grad=False, training=False):
        arguments, inputs = given.constructor_input, given.forward_input
        kind = tuple(kind_of(value) for value in (*arguments.args, *inputs.args)), *sorted(arguments.kwargs.items(), key=str), *sorted(inputs.kwargs)
        if str(kind) in seen:
            continue
        seen.add(str(kind))
        yield module(made(*arguments.args, **arguments.kwargs), *inputs.args, **inputs.kwargs)


def kind_of(value) -> str:
    """What distinguishes one argument from another: not the size of a tensor, nor the value of a number."""
    match value:
        case Tensor():
            return f"{value.dtype} of {min(value.dim(), 2)}"
        case list() | tuple():
            return f"({','.join(sorted({kind_of(item) for item in value}))})"
        case bool() | str() | None | torch.dtype():
            return str(value)
        case _:
            return type(value).__name__
