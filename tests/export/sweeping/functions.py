"""The functions and modules of PyTorch, listed by introspection, and the rules by which some are not for inference."""

import inspect
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
import torch.nn.functional as F
import torchvision
from torch import nn

SPACES = {
    "torch": torch,
    "torch.nn.functional": F,
    "torch.special": torch.special,
    "torch.fft": torch.fft,
    "torch.linalg": torch.linalg,
    "torch.Tensor": torch.Tensor,
    "torch.nn": nn,
    "torchvision.ops": torchvision.ops,
}

TWIN = "changes a tensor in place, as its twin without the underscore"

# What is not for inference: the reason, and patterns of whole names. The first rule that matches counts.
RULES = [
    ("trains: gradients, statistics of batches, weights that change", r"""
        torch\.batch_norm_(backward|elemt|gather|stats|update).* torch\.embedding_renorm_ torch\.is_(grad|inference).*
        torch\.fused_moving_avg_obs_fake_quant torch\.choose_qparams_optimized torch\.mkldnn_linear_backward_weights torch\..*anomaly.*
        torch\.Tensor\.(backward|register_.*|requires_grad_?|retain_grad|retains_grad|reinforce|is_inference|is_leaf|grad|grad_dtype|grad_fn|output_nr|volatile)"""),
    ("is another device's, or a library's kernel, which PyTorch calls itself", r"""
        torch\.(cudnn|miopen|mkldnn|fbgemm)_.* torch\.(is_vulkan_available|get_device|get_device_module)
        torch\.Tensor\.(cuda|ipu|xpu|mtia|to_mkldnn|pin_memory|is_pinned|record_stream|get_device)
        torch\.Tensor\.is_(cpu|cuda|ipu|maia|meta|mkldnn|mps|mtia|vulkan|xla|xpu)"""),
    ("is about memory, storage or other programs' arrays", r"""
        torch\.(from_file|from_numpy|frombuffer|from_dlpack|to_dlpack|asarray|is_storage|is_distributed)
        torch\.Tensor\.(.*data_ptr|storage|storage_.*|untyped_storage|is_shared|share_memory_|set_|is_set_to|is_distributed|nbytes|itemsize|element_size)
        torch\.Tensor\.(numpy|tolist|item|apply_|map_|map2_|__array.*|__dlpack.*|__cuda_array_interface__|module_load|as_subclass)
        torch\.Tensor\.(resize|resize_as|resize_|resize_as_) torch\.(resize_as_|empty_strided|empty_permuted)
        torch\.Tensor\.(new_empty_strided|stride|dim_order|is_contiguous|layout|device)"""),
    ("is about sparse tensors", r"""
        .*sparse.* torch\.(native_norm|dsmm|hsmm|hspmm|saddmm|smm|spmm|sspaddmm)
        torch\.Tensor\.(smm|sspaddmm|dense_dim|coalesce|is_coalesced|to_dense)
        torch(\.Tensor)?\.(c?col|c?row|crow)_indices(_copy)? torch(\.Tensor)?\.(indices|values)(_copy)?"""),
    ("is about nested tensors, which PNNX has not", r"torch\.Tensor\.(to_padded_tensor|is_nested)"),
    ("is about names of axes, which PNNX has not", r"torch\.Tensor\.(name|names|align_.*|refine_names|rename_?)"),
    ("reads or changes settings of PyTorch", r"""
        torch\.(set|get|is|are)_.*(enabled|dtype|device|debug_mode|precision|threads|rng_state|denormal|printoptions|tensor_type|always)
        torch\.(init_num_threads|.*autocast.*|use_deterministic_algorithms|.*seed|profiler_.*|compiled_with_.*|is_warn_always_enabled)"""),
    ("is a tool for programs: compilers, files, threads, types", r"""
        torch\.(compile|cond|while_loop|vmap|fork|wait|import_ir_.*|parse_.*|load|save|typename|sym_.*|can_cast|promote_types|result_type)
        torch\.(classproperty|merge_type_.*|unify_type_list|thread_safe_generator|prepare_multi.*|get_file_path|cudnn_is_acceptable|is_same_size)
        torch\.nn\.functional\.(Optional|assert_int_or_pair|boolean_dispatch|handle_torch_function|has_torch_.*)
        torch\.Tensor\.(type|new|index|__(annotations|class|delattr|dict|dir|doc|format|getattribute|getstate|hash|init|init_subclass|module|new|reduce)__)
        torch\.Tensor\.__(reduce_ex|repr|setattr|setstate|sizeof|str|subclasshook|torch_dispatch|torch_function|weakref|deepcopy|array_.*|iter|delitem)__"""),
    ("was removed from PyTorch, and raises an error", r"torch(\.Tensor)?\.(cholesky|eig|lstsq|matrix_rank|qr|solve|symeig)"),
    ("computes with 8-bit floats or their scales, which PNNX has not", r"torch\.nn\.functional\.scaled_(mm|grouped_mm|addmm_?)"),
    ("is about how PyTorch stores quantised tensors and modules", r"torch(\.Tensor)?\.(q_.*|qscheme|is_quantized|empty_quantized|quantized_.*|quantize_per_tensor_dynamic)"),
    ("is a step of PyTorch's own compiler", r"""
        torch(\.Tensor)?\.(slice_inverse|hash_tensor)
        torch\.(alias|as_strided|detach|diagonal|expand|permute|select|slice|split|split_with_sizes|squeeze|t|transpose|unbind|unfold|unsqueeze|view|view_as_(real|complex))_copy"""),
    ("is what other modules are made of, or trains them on several devices", r"""
        torch\.nn\.(Container|Module|ModuleDict|ModuleList|ParameterDict|ParameterList|Sequential|RNNBase|RNNCellBase|DataParallel|SyncBatchNorm)"""),
    ("becomes another module when it is first called", r"torch\.nn\.Lazy\w+"),
]

# Methods with which Python writes operators and indices; all other such names are Python's own.
OPERATORS = re.compile(r"__(i|r)?(abs|add|and|div|floordiv|invert|lshift|matmul|mod|mul|neg|or|pos|pow|rshift|sub|truediv|xor|eq|ne|lt|le|gt|ge|getitem|setitem|reversed|contains)__")

PYTHON = "is Python's own protocol"


@dataclass(frozen=True)
class Function:
    """A function, a method, a property, or a class of modules."""

    space: str
    name: str

    @property
    def full_name(self) -> str:
        return f"{self.space}.{self.name}"

    def excluded(self) -> str | None:
        """The reason why it is not for inference, if a rule says so."""
        for reason, patterns in COMPILED:
            if any(pattern.fullmatch(self.full_name) for pattern in patterns):
                return reason
        if self.name.startswith("__") and not OPERATORS.fullmatch(self.name):
            return PYTHON
        if re.fullmatch(r"__i\w+__", self.name) and self.name != "__invert__":
            return TWIN
        if self.name.endswith("_") and not self.name.startswith("__") and hasattr(SPACES[self.space], self.name[:-1]):
            return TWIN
        return None

    def caller(self) -> Callable:
        """What calls it with the arguments of a sample."""
        value = getattr(SPACES[self.space], self.name)
        if self.space != "torch.Tensor":
            return value
        if not callable(value):
            return lambda x: getattr(x, self.name)
        if self.name.endswith("_") and not self.name.startswith("__"):
            return lambda x, *args, **named: getattr(x.clone(), self.name)(*args, **named)
        return lambda x, *args, **named: getattr(x, self.name)(*args, **named)


COMPILED = [(reason, [re.compile(pattern) for pattern in patterns.split()]) for reason, patterns in RULES]


def functions() -> Iterator[Function]:
    """All public functions of the namespaces, methods and properties of tensors, and modules."""
    for space, owner in SPACES.items():
        for name in sorted(dir(owner)):
            private = name.startswith("_") and not (space == "torch.Tensor" and name.startswith("__"))
            if not private and is_function(space, getattr(owner, name, None)):
                yield Function(space, name)


def is_function(space: str, value) -> bool:
    if space == "torch.Tensor" and inspect.isdatadescriptor(value):
        return True
    if inspect.isclass(value):
        return issubclass(value, nn.Module) and space in ("torch.nn", "torchvision.ops")
    return space != "torch.nn" and callable(value)
