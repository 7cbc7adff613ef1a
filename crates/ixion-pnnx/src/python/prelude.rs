//! The parts of the Python source that are the same for all models.

use super::literal::string;
use std::collections::BTreeSet;

/// A function of the prelude that only some models need.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Helper {
    /// `part`: a part of a tensor in ranges, and at single positions, along several axes.
    Part,
    /// `index`: a list of indices, some of which are `None`.
    Index,
    /// `ints`: sizes that may be a tensor.
    Ints,
    /// `call`: an operator of TorchScript, whose inputs are in the order of its schema.
    Call,
    /// `mask`: a bool mask of attention that may be either of the two.
    Mask,
    /// `same`: the padding of a strided convolution that ONNX calls `SAME_UPPER`.
    Same,
    /// `quantized`: a module with a quantised weight.
    Quantized,
    /// `Detect`: the head of YOLOv5.
    Detect,
}

impl Helper {
    fn source(self) -> &'static str {
        match self {
            Self::Part => PART,
            Self::Index => INDEX,
            Self::Ints => INTS,
            Self::Call => CALL,
            Self::Mask => MASK,
            Self::Same => SAME,
            Self::Quantized => QUANTIZED,
            Self::Detect => DETECT,
        }
    }
}

/// Everything before `class Model`. `functions` are further helpers, for operators of ONNX; `libraries` are modules that are
/// imported in addition.
pub(super) fn header(
    name: &str,
    helpers: &BTreeSet<Helper>,
    functions: &[&str],
    libraries: &[&str],
) -> String {
    let mut text = IMPORTS.to_owned();
    for library in libraries {
        text.push_str(&format!("import {library}\n"));
    }
    let weights = string(&format!("{name}.bin"));
    text.push_str(&format!("\nWEIGHTS = pathlib.Path(__file__).with_name({weights})\n\n\n"));
    text.push_str(WEIGHTS);
    for helper in helpers {
        text.push_str("\n\n");
        text.push_str(helper.source());
    }
    if !functions.is_empty() {
        let title = "# Operators of ONNX, with its names of inputs and attributes.";
        text.push_str(&format!("\n\n{title}\n\n\n{}\n", functions.join("\n\n\n")));
    }
    text.push_str("\n\n");
    text
}

const IMPORTS: &str = r#""""A PNNX model as PyTorch source, written by Ixion.

As a program: python FILE in_0.npy in_1.npy ... [--weights MODEL.bin] [--out FOLDER]
"""

import argparse
import functools
import math
import pathlib
import zipfile

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
"#;

const WEIGHTS: &str = r#"class Weights:
    """The archive: every entry holds the little-endian bytes of one tensor."""

    def __init__(self, path):
        self.archive = zipfile.ZipFile(path)
        self.entries = {}
        for entry in self.archive.infolist():
            self.entries.setdefault(entry.filename, []).append(entry)

    def tensor(self, name, dtype, shape):
        if 0 in shape:
            return torch.empty(shape, dtype=dtype)
        entries = self.entries[name]
        # A module that is called twice may have its entries twice, in the order of the calls.
        entry = entries.pop(0) if len(entries) > 1 else entries[0]
        data = np.frombuffer(bytearray(self.archive.read(entry)), dtype=np.uint8)
        return torch.from_numpy(data).view(dtype).reshape(shape)

    def fill(self, module, name, tensors):
        """Puts tensors where the module keeps its parameters and buffers."""
        for key, (dtype, shape) in tensors.items():
            *path, leaf = key.split(".")
            owner = functools.reduce(getattr, path, module)
            keep(owner, leaf, self.tensor(f"{name}.{key}", dtype, shape))


def keep(module, name, tensor):
    """Makes a tensor a parameter, or a buffer if the module has one of that name or it takes no gradient."""
    if name in module._buffers or not (tensor.is_floating_point() or tensor.is_complex()):
        module.register_buffer(name, tensor)
    else:
        setattr(module, name, nn.Parameter(tensor))
"#;

const PART: &str = r#"def part(tensor, dims=(), starts=None, ends=None, steps=None, selects=None):
    """The part of a tensor in ranges along axes, or at single positions where `selects` has one."""
    index = [slice(None)] * tensor.dim()
    for i, dim in enumerate(dims):
        if selects is None or selects[i] == 2147483647:
            index[dim] = slice(*(None if values is None else values[i] for values in (starts, ends, steps)))
        else:
            index[dim] = selects[i]
    return tensor[tuple(index)]
"#;

const INDEX: &str = r#"def index(items):
    """The indices of `aten::index`, in which None takes the whole axis."""
    return [None if item is None else torch.as_tensor(item) for item in items]
"#;

const INTS: &str = r#"def ints(sizes):
    """Sizes as PyTorch's functions accept them: not as a tensor, and no sizes as an empty tuple."""
    return sizes.tolist() if isinstance(sizes, torch.Tensor) else () if sizes is None else sizes
"#;

const CALL: &str = r#"def call(name, *values, **named):
    """Calls an operator of TorchScript, whose values are in the order of one of its schemas.

    A schema wants some arguments by name. Those that it does not know are the ones that it misses.
    """
    space, name = name.split("::")
    space = getattr(torch.ops, space)
    if not hasattr(space, name) and hasattr(space, "linalg_" + name):  # PyTorch has moved it.
        name = "linalg_" + name
    if not hasattr(space, name) and hasattr(space, name + "_"):  # There is only the method that changes its tensor.
        name, values = name + "_", (values[0].clone(), *values[1:])
    operator, calls, failure = getattr(space, name), [], None
    overloads = [getattr(operator, overload) for overload in operator.overloads()]
    all_arguments = [argument for overload in overloads for argument in overload._schema.arguments]
    defaults = {item.name: item.default_value for item in all_arguments if item.has_default_value()}
    for overload in overloads:
        arguments = overload._schema.arguments
        keys = [argument.name for argument in arguments]
        places = [place for place, argument in enumerate(arguments) if str(argument.type) == "List[Tensor]"]
        listed = values[places[0]:] if places else ()
        is_list = bool(listed) and all(map(torch.is_tensor, listed))  # A file may list its tensors one by one.
        ordered = [*values[:places[0]], list(listed)] if is_list else values
        unknown = sorted(key for key in named.keys() - set(keys) if named[key] is not None)
        missing = [argument.name for argument in arguments[len(ordered):] if not argument.has_default_value()]
        missing = [key for key in missing if key not in named]
        filled = {key: defaults[key] for key in missing if unknown and key in defaults}
        missing = [key for key in missing if key not in filled]
        others = [named[key] for key in unknown] or [None] * len(missing)
        if len(ordered) <= len(keys) and len(others) == len(missing):
            given = {key: value for key, value in named.items() if key in keys} | filled
            given.update(zip([*keys[:len(ordered)], *missing], [*ordered, *others]))
            # PyTorch would take a tensor of one element for a number.
            types = {argument.name: str(argument.type) for argument in arguments}
            misfits = sum(torch.is_tensor(value) and "Tensor" not in types[key] for key, value in given.items())
            calls.append((len(unknown), misfits, len(keys), len(calls), overload, types, given))
    for convert in (lambda kind, value: value, fit):
        for *_, overload, types, given in sorted(calls):
            by_name = {key: convert(types[key], value) for key, value in given.items()}
            by_position = []
            for argument in overload._schema.arguments:
                if argument.kwarg_only or argument.name not in by_name:
                    break
                by_position.append(by_name.pop(argument.name))
            try:
                return overload(*by_position, **by_name)
            except (RuntimeError, TypeError) as error:
                failure = failure or error
    raise failure or TypeError(f"{name}: no schema has {len(values)} arguments and {sorted(named)}")


def fit(kind, value):
    """A value as an argument of this type: PNNX writes empty lists as None, and numbers may be tensors."""
    is_tensor = isinstance(value, torch.Tensor)
    if value is None and kind.startswith("List"):
        return []
    if kind == "List[Tensor]":
        return [torch.as_tensor(item) for item in ([value] if is_tensor else value)]
    if kind in ("Tensor", "Optional[Tensor]") and isinstance(value, (bool, int, float, complex, list, tuple)):
        return torch.as_tensor(value)
    if kind == "List[int]" and is_tensor:
        return value.tolist()
    if is_tensor and value.numel() == 1 and kind in ("number", type(value.item()).__name__):
        return value.item()
    return value
"#;

const MASK: &str = r#"def mask(tensor, query, batch_first):
    """The argument of attention that a bool mask is. PNNX does not say: one of keys has a row for each batch."""
    rows, batch = query.shape[:2] if query.dim() == 3 else (query.shape[0], 1)
    if batch_first and query.dim() == 3:
        rows, batch = batch, rows
    is_of_keys = tensor.dim() == 1 or (tensor.dim() == 2 and tensor.shape[0] == batch != rows)
    return {"key_padding_mask" if is_of_keys else "attn_mask": tensor}
"#;

const SAME: &str = r#"def same(tensor, kernel, stride, dilation):
    """Pads each axis such that a strided convolution has length / stride outputs, rounded up."""
    pads = []
    for length, *window in zip(tensor.shape[-len(kernel):], kernel, stride, dilation):
        reach, step = (window[0] - 1) * window[2] + 1, window[1]
        total = max((-(-length // step) - 1) * step + reach - length, 0)
        pads = [total // 2, total - total // 2, *pads]
    return F.pad(tensor, pads)
"#;

const QUANTIZED: &str = r#"def quantized(module, scale, zero_point, weight, scales, zero_points, bias):
    """Gives a module its weight, which has a scale for each output channel, and the scale of its output."""
    module.set_weight_bias(torch._make_per_channel_quantized_tensor(weight, scales, zero_points, 0), bias)
    module.scale, module.zero_point = scale, zero_point
    return module
"#;

const DETECT: &str = r#"class Detect(nn.Module):
    """The head of YOLOv5, which returns boxes, and the results of its convolutions.

    PNNX numbers its constants in the order of their use: a grid, the strides, anchors, a grid, anchors and so on.
    """

    def __init__(self, tensors, maps):
        super().__init__()
        keys = sorted((key for key in tensors if key.startswith("pnnx_")), key=lambda key: int(key[5:]))
        constants = [tensors[key] for key in keys]
        place = next(i for i, constant in enumerate(constants) if constant.shape == (maps,))
        self.strides = constants.pop(place)
        is_padded = any(key[5] == "0" and len(key) > 6 for key in keys)
        if not (place < 2 if len(keys) > 3 else is_padded):  # Older versions of PNNX count backwards.
            constants.reverse()
        if len(constants) == 2 * maps:
            self.anchors = constants[1::2]
        elif "anchor_grid" in tensors:
            self.anchors = list(tensors["anchor_grid"])
        else:
            self.anchors = [anchors.reshape(1, -1, 1, 1, 2) * n for anchors, n in zip(tensors["anchors"], self.strides)]
        self.weights = [(tensors[f"m.{i}.weight"], tensors[f"m.{i}.bias"]) for i in range(maps)]

    def forward(self, *maps):
        boxes, results = [], []
        for x, stride, anchors, (weight, bias) in zip(maps, self.strides, self.anchors, self.weights):
            result = F.conv2d(x, weight, bias).unflatten(1, (anchors.shape[1], -1)).permute(0, 1, 3, 4, 2).contiguous()
            rows, columns = (torch.arange(length, dtype=x.dtype) - 0.5 for length in result.shape[2:4])
            grid = torch.stack(torch.meshgrid(columns, rows, indexing="xy"), -1)
            centre, size, rest = result.sigmoid().split((2, 2, result.shape[-1] - 4), -1)
            parts = ((centre * 2 + grid) * stride, (size * 2) ** 2 * anchors, rest)
            boxes.append(torch.cat(parts, -1).flatten(1, 3))
            results.append(result)
        return torch.cat(boxes, 1), *results
"#;

/// Everything after `class Model`.
pub(super) const MAIN: &str = r#"def flatten(value):
    """All tensors in nested tuples, lists and dictionaries, depth first. A list of numbers is one tensor."""
    if isinstance(value, dict):
        value = list(value.values())
    is_list = isinstance(value, (tuple, list))
    if is_list and not (value and all(isinstance(item, (bool, int, float)) for item in value)):
        return [tensor for item in value for tensor in flatten(item)]
    return [torch.as_tensor(value)]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("inputs", nargs="*", help=".npy files in the order of the model's inputs")
    parser.add_argument("--weights", default=WEIGHTS, help="the .bin file")
    parser.add_argument("--out", default=".", help="the folder for out_0.npy, out_1.npy, ...")
    options = parser.parse_args()
    inputs = [torch.from_numpy(np.load(path)) for path in options.inputs]
    with torch.no_grad():
        outputs = flatten(Model(options.weights)(*inputs))
    for number, output in enumerate(outputs):
        path = pathlib.Path(options.out) / f"out_{number}.npy"
        output = output.int_repr() if output.is_quantized else output.resolve_conj().resolve_neg()
        np.save(path, output.numpy())
        print(path, tuple(output.shape), output.dtype)


if __name__ == "__main__":
    main()
"#;
