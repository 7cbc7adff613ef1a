//! The parts of the Python source that are the same for all models.

use super::literal::string;
use std::collections::BTreeSet;

/// A function of the prelude that only some models need.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Helper {
    /// `region`: ranges and single positions along several axes as one index.
    Region,
    /// `index`: a list of indices, some of which are `None`.
    Index,
}

impl Helper {
    fn source(self) -> &'static str {
        match self {
            Self::Region => REGION,
            Self::Index => INDEX,
        }
    }
}

/// Everything before `class Model`.
pub(super) fn header(name: &str, helpers: &BTreeSet<Helper>, torchvision: bool, torchaudio: bool) -> String {
    let mut text = IMPORTS.to_owned();
    if torchvision {
        text.push_str("import torchvision\n");
    }
    if torchaudio {
        text.push_str("import torchaudio\n");
    }
    let weights = string(&format!("{name}.bin"));
    text.push_str(&format!("\nWEIGHTS = pathlib.Path(__file__).with_name({weights})\n\n\n"));
    text.push_str(WEIGHTS);
    for helper in helpers {
        text.push_str("\n\n");
        text.push_str(helper.source());
    }
    text.push_str("\n\n");
    text
}

const IMPORTS: &str = r#""""A PNNX model as PyTorch source, written by Ixion.

As a program: python FILE in_0.npy in_1.npy ... [--weights MODEL.bin] [--out FOLDER]
"""

import argparse
import functools
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

    def tensor(self, entry, dtype, shape):
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

const REGION: &str = r#"def region(tensor, dims, starts, ends, steps, selects=None):
    """An index of ranges along the given axes, or of single positions where `selects` has one."""
    index = [slice(None)] * tensor.dim()
    for i, dim in enumerate(dims):
        if selects is None or selects[i] == 2147483647:
            index[dim] = slice(starts[i], ends[i], steps[i])
        else:
            index[dim] = selects[i]
    return tuple(index)
"#;

const INDEX: &str = r#"def index(items):
    """An index in which None takes the whole axis and lists are tensors."""
    items = [slice(None) if item is None else item for item in items]
    return tuple(torch.tensor(item) if isinstance(item, (list, tuple)) else item for item in items)
"#;

/// Everything after `class Model`.
pub(super) const MAIN: &str = r#"def flatten(value):
    """All tensors in nested tuples and lists, depth first."""
    if isinstance(value, (tuple, list)):
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
        np.save(path, output.numpy())
        print(path, tuple(output.shape), output.dtype)


if __name__ == "__main__":
    main()
"#;
