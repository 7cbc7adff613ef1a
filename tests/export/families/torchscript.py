"""Functions in TorchScript's form: all arguments are inputs by position, constants as operators of their own.

PNNX leaves a function like this if one of its arguments isn't a constant, such as the kernel size in
`F.avg_pool2d(x, x.shape[2:])`. Results of one type and shape are stacked, for each output adds to a case's size."""

import torch
from torch import Tensor

from case import Model, direct
from text import Line
from values import rand, randn, random_integers

DTYPES = {torch.uint8: 0, torch.int8: 1, torch.int16: 2, torch.int32: 3, torch.int64: 4, torch.float16: 5, torch.float32: 6, torch.float64: 7, torch.bool: 11}


def constant(model: Model, value) -> str:
    """An operator for a constant; returns its operand."""
    if isinstance(value, torch.dtype):
        value = DTYPES[value]
    text = "[" + ",".join(map(repr, value)) + "]" if isinstance(value, (list, tuple)) else str(value)
    name = f"c{len(model.text.lines)}"
    model.text.shapes[name] = ""
    model.text.add(Line("pnnx.Expression", f"constant_{name}", outputs=[name], params={"expr": text}))
    return name


def call(model: Model, name: str, *args) -> list[Tensor]:
    """Adds `torch.ops.aten.name(*args)` with all arguments as inputs; the results are no outputs of the model.

    A dictionary at the end has those that Python takes by name only."""
    named = args[-1] if isinstance(args[-1], dict) else {}
    args = [arg for arg in args if arg is not named]
    results = getattr(torch.ops.aten, name)(*args, **named)
    results = [results] if isinstance(results, Tensor) else list(results)
    line = Line(f"aten::{name}", model.text.fresh(name))
    operand = lambda value: model.operand(value) if isinstance(value, Tensor) else constant(model, value)
    line.inputs = [(operand(value), None) for value in [*args, *named.values()]]
    line.outputs = [model.text.operand(result) for result in results]
    model.text.add(line)
    for output, result in zip(line.outputs, results, strict=True):
        model.known[id(result)] = (result, output)
    return results


def show(model: Model, calls: list[tuple]) -> None:
    """Makes outputs of the results of these calls, those of one type and shape stacked."""
    groups: dict[tuple, list[Tensor]] = {}
    for name, *args in calls:
        for result in call(model, name, *args):
            groups.setdefault((result.dtype, result.shape), []).append(result)
    for group in groups.values():
        model.op("torch.stack", group, dim=0)


@direct
def torchscript_activations(model: Model) -> None:
    x = randn(2, 4)
    names = "hardsigmoid hardswish mish relu relu6 selu sigmoid silu lgamma positive".split()
    show(model, [(name, x) for name in names] + [
        ("celu", x, 0.5), ("gelu", x, {"approximate": "tanh"}), ("glu", x, 1), ("hardshrink", x, 0.25), ("hardtanh", x, -0.5, 0.75), ("leaky_relu", x, 0.125), ("softplus", x, 2, 1),
        ("softshrink", x, 0.25), ("threshold", x, 0.5, 3.0), ("softmax", x, 1, None), ("log_softmax", x, 0, None), ("softmax", x, -1, torch.float64),
        ("prelu", x, rand(4)), ("clamp", x, -0.5, None), ("clamp", x, None, rand(4))])


@direct
def torchscript_pooling(model: Model) -> None:
    x, y, z = randn(1, 2, 7), randn(1, 2, 6, 7), randn(1, 1, 4, 5, 4)
    show(model, [
        ("avg_pool1d", x, [3], [2], [1], True, False), ("avg_pool2d", y, [3, 2], [2, 1], [1, 0], False, True, None), ("avg_pool2d", y, [2, 2], [], [0, 0], True, False, 3),
        ("avg_pool3d", z, [2, 2, 2], [2, 2, 1], [1, 0, 1], False, True, None), ("max_pool1d", x, [3], [2], [1], [1], True), ("max_pool2d", y, [3, 2], [], [1, 0], [1, 2], False),
        ("max_pool3d", z, [2, 3, 2], [1, 1, 2], [0, 1, 0], [1, 1, 1], True),
        ("adaptive_avg_pool1d", x, [3]), ("adaptive_avg_pool2d", y, [2, 3]), ("adaptive_avg_pool3d", z, [2, 1, 3])])


@direct
def torchscript_convolutions(model: Model) -> None:
    for axes, sizes in ((1, (7,)), (2, (5, 6)), (3, (3, 4, 3))):
        x, two, one = randn(1, 4, *sizes), [2] * axes, [1] * axes
        weight, across, bias = randn(2, 2, *[2] * axes), randn(4, 1, *[2] * axes), randn(2)
        show(model, [(f"conv{axes}d", x, weight, bias, two, one, one, 2), (f"conv{axes}d", x, weight, None, one, [0] * axes, two, 2),
                     (f"conv_transpose{axes}d", x, across, bias, two, one, one, 2, one)])


@direct
def torchscript_normalization(model: Model) -> None:
    x, y = randn(2, 4, 5), randn(2, 3, 4)
    four, five = [randn(4) for _ in range(3)] + [rand(4, low=0.5)], [randn(5) for _ in range(2)]
    show(model, [
        ("batch_norm", x, *four, False, 0.1, 1e-3, True), ("group_norm", x, 2, four[0], four[1], 1e-4, True), ("group_norm", x, 4, None, None, 1e-5, False),
        ("layer_norm", x, [5], *five, 1e-3, True), ("layer_norm", x, [4, 5], None, None, 1e-5, False), ("rms_norm", x, [5], five[0], 1e-3), ("rms_norm", x, [5], None, None),
        ("pairwise_distance", y, y.flip(0).contiguous(), 2.0, 1e-6, True), ("norm", y, 1, [1], False), ("norm", y, 2, [0, 2], True), ("norm", y, 3)])


@direct
def torchscript_products(model: Model) -> None:
    a, b, c, v, w = randn(2, 3), randn(3, 4), randn(2, 4), randn(3), randn(3)
    x, y = randn(2, 2, 3), randn(2, 3, 4)
    q, k = randn(1, 2, 3, 4), randn(1, 2, 5, 4)
    show(model, [
        ("mm", a, b), ("mv", a, v), ("bmm", x, y), ("addmm", c, a, b, {"beta": 0.5, "alpha": 2}), ("addmm", c, a, b, {"beta": 1, "alpha": 1}), ("baddbmm", c, x, y, {"beta": 2, "alpha": 0.25}), ("cross", v, w, None),
        ("linear", a, c.t()[:, :1].t().contiguous()[:, :3].contiguous(), None), ("scaled_dot_product_attention", q, k, k.flip(2).contiguous(), None, 0.0, False)])


@direct
def torchscript_comparisons(model: Model) -> None:
    x, y, i, k = random_integers(2, 3), random_integers(3), random_integers(2, 3, low=0, high=9), random_integers(3, low=1, high=4)
    names = "eq ge gt le lt ne logical_and logical_or logical_xor bitwise_and bitwise_or bitwise_xor bitwise_left_shift bitwise_right_shift".split()
    show(model, [(name, i, k) for name in names] + [(name, x, 1) for name in ("eq", "ge", "gt", "le", "lt", "ne", "bitwise_and", "bitwise_or", "bitwise_xor")] +
         [("bitwise_not", x), ("logical_not", y), ("masked_fill", x, y > 1, 7), ("masked_select", x, i > 3), ("type_as", x, randn(1))])


@direct
def torchscript_reductions(model: Model) -> None:
    x = randn(3, 4)
    show(model, [
        ("amax", x, [1], False), ("amin", x, [0], True), ("amax", x, [0, 1], False), ("argmax", x, 1, False), ("argmin", x, 0, True), ("argmax", x, None, False),
        ("cumsum", x, 1, {"dtype": None}), ("cumprod", x, 0, {"dtype": None}), ("cumsum", x, 1, {"dtype": torch.float64}), ("logsumexp", x, [1], True), ("topk", x, 2, 1, False, True), ("topk", x, 2, 0, True, True)])


@direct
def torchscript_shapes(model: Model) -> None:
    x, y, i = randn(2, 3, 4), randn(1, 4, 3, 4), torch.tensor([2, 0])
    show(model, [
        ("flatten", x, 1, 2), ("unflatten", x, 2, [2, -1]), ("reshape", x, [4, -1]), ("view", x, [3, 8]), ("transpose", x, 0, 2), ("permute", x, [2, 0, 1]), ("unsqueeze", x, 1),
        ("squeeze", y, 0), ("squeeze", y), ("select", x, 1, -1), ("slice", x, 2, 1, None, 2), ("slice", x, 0, 0, 1, 1), ("narrow", x, 1, 1, 2), ("repeat", x, [2, 1, 1]), ("tile", x, [2]),
        ("unbind", x, 0), ("flip", x, [0, 2]), ("roll", x, [1, -1], [0, 2]), ("roll", x, [5], []), ("index_select", x, 1, i), ("gather", x, 2, torch.tensor([[[0, 3]]]), {"sparse_grad": False}),
        ("scatter_add", x, 1, torch.tensor([[[0, 1, 2, 0]]]), randn(1, 1, 4)), ("repeat_interleave", x, 2, 1), ("diag", randn(3), 1), ("diag", randn(3, 4), -1),
        ("pad", x, [1, 2], "constant", 0.5), ("pad", x, [1, 2], "reflect", None), ("channel_shuffle", y, 2), ("pixel_shuffle", y, 2), ("pixel_unshuffle", randn(1, 1, 4, 2), 2)])


@direct
def torchscript_spectra(model: Model) -> None:
    x, z = randn(3, 4), torch.complex(randn(3, 4), randn(3, 4))
    ones, twos, more = "fft ifft rfft ihfft", "fft2 ifft2 rfft2 ihfft2", "fftn ifftn rfftn ihfftn"
    show(model, [(f"fft_{name}", x, None, -1, "ortho") for name in ones.split()] + [(f"fft_{name}", z, 5, 0, None) for name in ("hfft", "irfft", "fft")] +
         [(f"fft_{name}", x, None, [-2, -1], None) for name in twos.split()] + [(f"fft_{name}", z, [3, 5], [0, 1], "forward") for name in ("hfft2", "irfft2", "fft2")] +
         [(f"fft_{name}", x, None, None, None) for name in more.split()] + [(f"fft_{name}", z, None, [1], None) for name in ("hfftn", "irfftn")] +
         [("complex", x, x.flip(0).contiguous()), ("real", z), ("imag", z), ("view_as_real", z), ("view_as_complex", randn(3, 4, 2))])


@direct(tolerance=1e-5, double=1e-10)
def torchscript_special_functions(model: Model) -> None:
    calls = []
    for dtype in (torch.float32, torch.float64):
        x, y = rand(5, low=0.25, high=4.0, dtype=dtype), rand(5, low=0.5, high=3.0, dtype=dtype)
        ones = "airy_ai bessel_j0 bessel_j1 bessel_y0 bessel_y1 erfcx i0e i1 i1e log_ndtr modified_bessel_i0 modified_bessel_i1 modified_bessel_k0 modified_bessel_k1"
        ones += " scaled_modified_bessel_k0 scaled_modified_bessel_k1 spherical_bessel_j0"
        calls += [(f"special_{name}", x) for name in ones.split()] + [("special_ndtri", x / 5), ("igamma", x, y), ("igammac", x, y), ("special_zeta", x + 1, y)]
        calls += [("mvlgamma", x + 2, 3), ("polygamma", 2, x), ("polygamma", 0, y)]
        polynomials = [f"{shifted}chebyshev_polynomial_{kind}" for shifted in ("", "shifted_") for kind in "tuvw"]
        polynomials += ["hermite_polynomial_h", "hermite_polynomial_he", "laguerre_polynomial_l", "legendre_polynomial_p"]
        degrees = torch.tensor([0, 1, 2, 3, 5], dtype=dtype)
        calls += [(f"special_{name}", x / 4, degrees) for name in polynomials]
    show(model, calls)
