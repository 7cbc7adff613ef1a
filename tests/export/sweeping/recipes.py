"""Samples for functions of which PyTorch's tables have none, or none that a model would contain.

A recipe is a function that returns the arguments of some calls. `through` is called instead of the function itself: where a
function creates a tensor, with sizes of another, which are then dynamic.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

import torch
import torch.nn.functional as F
import torchvision.ops as vision
from torch import Tensor, nn


@dataclass
class Arguments:
    """The arguments of a call; with `dynamic`, the first axes of all tensors are exported as dynamic."""

    args: tuple
    named: dict = field(default_factory=dict)
    through: Callable | None = None
    dynamic: bool = False


def of(*args, **named) -> Arguments:
    return Arguments(args, named)


def by(through: Callable, *tensors: Tensor, dynamic: bool = False) -> Arguments:
    return Arguments(tensors, {}, through, dynamic)


def sized(through: Callable, *tensors: Tensor) -> Arguments:
    """A call that depends on the sizes of the tensors."""
    return by(through, *(tensors or (torch.randn(3, 4),)), dynamic=True)


def randn(*shape: int) -> Tensor:
    return torch.randn(shape)


def rand(*shape: int) -> Tensor:
    return torch.rand(shape)


def integers(*shape: int, high: int = 5) -> Tensor:
    return torch.randint(0, high, shape)


def symmetric(size: int) -> Tensor:
    a = randn(size, size)
    return a @ a.mT + torch.eye(size)


def boxes(count: int, size: float = 8.0) -> Tensor:
    corners = rand(count, 2) * size / 2
    return torch.cat((corners, corners + 0.5 + rand(count, 2) * size / 2), 1)


def with_image(count: int) -> Tensor:
    """Boxes of the first of several images."""
    return torch.cat((torch.zeros(count, 1), boxes(count)), 1)


def quantized(*shape: int) -> Tensor:
    return torch.quantize_per_tensor(randn(*shape), 0.1, 3, torch.qint8)


def weights(layers: int, gates: int) -> list[Tensor]:
    """The weights of recurrent layers of 3 inputs and 4 hidden units."""
    return [w for layer in range(layers) for w in (randn(4 * gates, 3 if layer == 0 else 4), randn(4 * gates, 4), randn(4 * gates), randn(4 * gates))]


def recurrent(function: Callable, gates: int, layers: int) -> Arguments:
    constant = weights(layers, gates)
    return by(lambda x, h: function(x, h, constant, True, layers, 0.0, False, False, False), randn(5, 2, 3), randn(layers, 2, 4))


def lstm(layers: int) -> Callable:
    constant = weights(layers, 4)
    return lambda x, h, c: torch.lstm(x, (h, c), constant, True, layers, 0.0, False, False, False)


def module(made: nn.Module, *args, **named) -> Arguments:
    with torch.no_grad():
        for tensor in [*made.parameters(), *made.buffers()]:
            if tensor.is_floating_point():
                tensor.copy_(torch.rand(tensor.shape) * 0.5 + 0.1)
    return Arguments(args, named, made.eval())


RECIPES: dict[str, Callable[[], list[Arguments]]] = {}


def recipe(space: str, name: str, make: Callable[[], list[Arguments]]) -> None:
    for each in name.split():
        assert f"{space}.{each}" not in RECIPES, each
        RECIPES[f"{space}.{each}"] = make


def recipes(space: str, table: dict[str, Callable[[], list[Arguments]]]) -> None:
    for name, make in table.items():
        recipe(space, name, make)


F_ = "torch.nn.functional"

# Tensors that are created.
recipes("torch", {
    "arange": lambda: [sized(lambda x: torch.arange(x.shape[0])), sized(lambda x: torch.arange(1, x.shape[0] + 1, 0.5)), sized(lambda x: torch.arange(0, x.shape[0], dtype=torch.float32))],
    "range": lambda: [sized(lambda x: torch.range(1, x.shape[0]))],
    "linspace": lambda: [sized(lambda x: torch.linspace(0, 1, x.shape[0])), sized(lambda x: torch.linspace(-1, 1, x.shape[0], dtype=torch.float64))],
    "logspace": lambda: [sized(lambda x: torch.logspace(0, 1, x.shape[0])), sized(lambda x: torch.logspace(0, 3, x.shape[0], base=2))],
    "eye": lambda: [sized(lambda x: torch.eye(x.shape[0])), sized(lambda x: torch.eye(x.shape[0], 5))],
    "zeros": lambda: [sized(lambda x: torch.zeros(x.shape[0], 2)), sized(lambda x: torch.zeros(x.shape, dtype=torch.int64))],
    "ones": lambda: [sized(lambda x: torch.ones(x.shape[0], 2)), sized(lambda x: torch.ones(x.shape, dtype=torch.bool))],
    "full": lambda: [sized(lambda x: torch.full((x.shape[0], 2), 1.5)), sized(lambda x: torch.full((x.shape[0],), 3, dtype=torch.int64))],
    "empty": lambda: [sized(lambda x: torch.empty(x.shape[0], 2)), by(lambda x: torch.empty(2, 3).copy_(x), randn(2, 3))],
    "rand": lambda: [sized(lambda x: torch.rand(x.shape[0], 2)), by(lambda x: torch.rand(2, 3) + x, randn(2, 3))],
    "randn": lambda: [sized(lambda x: torch.randn(x.shape[0], 2)), by(lambda x: torch.randn(2, 3) + x, randn(2, 3))],
    "randint": lambda: [sized(lambda x: torch.randint(0, 9, (x.shape[0], 2))), sized(lambda x: torch.randint(9, (x.shape[0],)))],
    "randperm": lambda: [sized(lambda x: torch.randperm(x.shape[0]))],
    "tril_indices": lambda: [sized(lambda x: torch.tril_indices(x.shape[0], x.shape[1])), sized(lambda x: torch.tril_indices(4, x.shape[0], -1))],
    "triu_indices": lambda: [sized(lambda x: torch.triu_indices(x.shape[0], x.shape[1])), sized(lambda x: torch.triu_indices(4, x.shape[0], 1))],
    "scalar_tensor": lambda: [sized(lambda x: torch.scalar_tensor(x.shape[0]))],
    "tensor": lambda: [sized(lambda x: torch.tensor(x.shape[0])), by(lambda x: x + torch.tensor([1.0, 2.0]), randn(3, 2)), sized(lambda x: torch.tensor([x.shape[0], x.shape[1]]))],
    "as_tensor": lambda: [by(lambda x: torch.as_tensor(x, dtype=torch.float64), randn(2, 3)), sized(lambda x: torch.as_tensor([x.shape[0], 2]))],
    "normal": lambda: [of(randn(2, 3), rand(2, 3)), by(lambda x: torch.normal(x, 0.5), randn(2, 3)), by(lambda x: x + torch.normal(0.0, 1.0, (2, 3)), randn(2, 3))],
    **{f"{name}_window": lambda name=name: [sized(lambda x: getattr(torch, f"{name}_window")(x.shape[0])), sized(lambda x: getattr(torch, f"{name}_window")(x.shape[0], False))]
       for name in ("hann", "hamming", "blackman", "bartlett", "kaiser")},
})
recipes("torch.fft", {
    "fftfreq": lambda: [sized(lambda x: torch.fft.fftfreq(x.shape[0])), sized(lambda x: torch.fft.fftfreq(x.shape[0], 0.5))],
    "rfftfreq": lambda: [sized(lambda x: torch.fft.rfftfreq(x.shape[0])), sized(lambda x: torch.fft.rfftfreq(x.shape[0], 0.5))],
})
recipes("torch.Tensor", {
    "new_zeros": lambda: [sized(lambda x: x.new_zeros(x.shape[0], 2)), sized(lambda x: x.new_zeros(x.shape, dtype=torch.bool))],
    "new_ones": lambda: [sized(lambda x: x.new_ones(x.shape[0], 2)), sized(lambda x: x.new_ones((x.shape[0],), dtype=torch.int64))],
    "new_full": lambda: [sized(lambda x: x.new_full((x.shape[0], 2), 1.5)), sized(lambda x: x.new_full((2,), 3))],
    "new_empty": lambda: [sized(lambda x: x.new_empty(x.shape[0], 2))],
    "new_tensor": lambda: [by(lambda x: x + x.new_tensor([1.0, 2.0]), randn(3, 2))],
})

# Properties and methods of tensors.
recipes("torch.Tensor", {
    "size": lambda: [sized(lambda x: x.reshape(x.size(0) * x.size(1))), sized(lambda x: x.reshape(x.size()[1], -1)), sized(lambda x: torch.zeros(x.size()))],
    "shape": lambda: [sized(lambda x: x.reshape(x.shape[0] * x.shape[1])), sized(lambda x, y: y.expand(x.shape), randn(3, 4), randn(1, 4))],
    "numel": lambda: [sized(lambda x: x.sum() / x.numel()), sized(lambda x: x.reshape(x.numel()))],
    "nelement": lambda: [sized(lambda x: x.sum() / x.nelement())],
    "dim ndimension ndim": lambda: [by(lambda x: x.sum(x.dim() - 1), randn(2, 3))],
    "__len__": lambda: [sized(lambda x: x.sum() / len(x))],
    "cpu": lambda: [by(lambda x: x.cpu() + 1, randn(2, 3))],
    "data": lambda: [by(lambda x: x.data + 1, randn(2, 3))],
    "detach": lambda: [by(lambda x: x.detach() + 1, randn(2, 3))],
    "real": lambda: [of(torch.randn(2, 3, dtype=torch.complex64)), of(randn(2, 3))],
    "imag": lambda: [of(torch.randn(2, 3, dtype=torch.complex64))],
    "is_nonzero": lambda: [of(randn(1))],
    "polygamma": lambda: [by(lambda x: x.polygamma(1), rand(2, 3) + 0.5), by(lambda x: x.polygamma(0), rand(2, 3) + 0.5)],
    "__and__ __or__ __xor__": lambda: [of(integers(2, 3), integers(3)), of(integers(2, 3), 3), of(randn(2, 3) > 0, randn(2, 3) > 0)],
    "__lshift__ __rshift__ __rlshift__ __rrshift__": lambda: [of(integers(2, 3), integers(3)), of(integers(2, 3), 2)],
    "copy_": lambda: [by(lambda x, y: x.clone().copy_(y), randn(2, 3), randn(3)), by(lambda x, y: set_part(x, y), randn(4, 3), randn(2, 3))],
    "fill_": lambda: [by(lambda x: x.clone().fill_(2), randn(2, 3)), by(lambda x, y: x.clone().fill_(y), randn(2, 3), randn())],
    "zero_": lambda: [by(lambda x: x.clone().zero_() + x, randn(2, 3))],
    "fill_diagonal_": lambda: [by(lambda x: x.clone().fill_diagonal_(2.5), randn(4, 3)), by(lambda x: x.clone().fill_diagonal_(1, wrap=True), randn(7, 3))],
    "__setitem__": lambda: [by(set_part, randn(4, 3), randn(2, 3)), by(set_where, randn(4, 3)), by(set_column, randn(4, 3), randn(4))],
    "__getitem__": lambda: [by(lambda x: x[0], randn(4, 3)), by(lambda x: x[1:, ::2], randn(4, 3)), by(lambda x: x[..., None, -1], randn(4, 3)),
                            by(lambda x, i: x[i], randn(4, 3), integers(5, high=4)), by(lambda x, i: x[:, i, 1:], randn(2, 4, 3), integers(5, high=4)),
                            by(lambda x: x[x > 0], randn(4, 3)), by(lambda x, i, j: x[i, j], randn(4, 3), integers(5, high=4), integers(5, high=3))],
    "__reversed__": lambda: [by(lambda x: x.__reversed__(), randn(4, 3))],
    "__contains__": lambda: [of(randn(4, 3), 1.0)],
    "to": lambda: [by(lambda x: x.to(torch.float64), randn(2, 3)), by(lambda x, y: x.to(y), randn(2, 3), integers(2)), by(lambda x: x.to("cpu", torch.int32), randn(2, 3))],
    "type_as": lambda: [of(randn(2, 3), integers(2)), of(integers(2, 3), randn(2))],
    "relu": lambda: [of(randn(2, 3))],
    "prelu": lambda: [of(randn(2, 3), rand(3))],
    "hardshrink": lambda: [of(randn(2, 3)), of(randn(2, 3), 1.0)],
    "unsafe_split_with_sizes": lambda: [of(randn(5, 2), (2, 3))],
    "slogdet": lambda: [of(symmetric(3))],
    "dequantize": lambda: [by(lambda x: torch.quantize_per_tensor(x, 0.1, 3, torch.qint8).dequantize(), randn(2, 3))],
    "int_repr": lambda: [by(lambda x: torch.quantize_per_tensor(x, 0.1, 3, torch.qint8).int_repr(), randn(2, 3))],
    "uniform_": lambda: [by(lambda x: x.clone().uniform_(-1, 1), randn(2, 3))],
    "normal_": lambda: [by(lambda x: x.clone().normal_(0, 2), randn(2, 3))],
    "random_": lambda: [by(lambda x: x.clone().random_(0, 9), randn(2, 3))],
    "exponential_": lambda: [by(lambda x: x.clone().exponential_(), randn(2, 3))],
    "cauchy_": lambda: [by(lambda x: x.clone().cauchy_(), randn(2, 3))],
    "geometric_": lambda: [by(lambda x: x.clone().geometric_(0.5), randn(2, 3))],
    "log_normal_": lambda: [by(lambda x: x.clone().log_normal_(), randn(2, 3))],
})


def set_part(x: Tensor, y: Tensor) -> Tensor:
    x = x.clone()
    x[1:3] = y
    return x


def set_where(x: Tensor) -> Tensor:
    x = x.clone()
    x[x > 0] = 1.0
    return x


def set_column(x: Tensor, y: Tensor) -> Tensor:
    x = x.clone()
    x[:, 1] = y
    return x


def attention(x: Tensor, weight: Tensor, bias: Tensor, out_weight: Tensor, out_bias: Tensor) -> Tensor:
    """Self-attention of two heads."""
    return F.multi_head_attention_forward(x, x, x, 4, 2, weight, bias, None, None, False, 0.0, out_weight, out_bias, training=False, need_weights=False)[0]


# Spellings in `torch` of what `torch.nn.functional` has with other arguments, and layers of TorchScript.
recipes("torch", {
    "adaptive_avg_pool1d adaptive_max_pool1d": lambda: [of(randn(1, 3, 8), 4)],
    "affine_grid_generator": lambda: [of(randn(2, 2, 3), (2, 1, 3, 4), False)],
    "alpha_dropout dropout feature_alpha_dropout feature_dropout": lambda: [of(randn(2, 3), 0.5, False)],
    "avg_pool1d": lambda: [of(randn(1, 3, 8), 2), of(randn(1, 3, 8), 3, 2, 1)],
    "batch_norm": lambda: [of(randn(2, 3, 4), rand(3), randn(3), randn(3), rand(3), False, 0.1, 1e-5, False)],
    "bilinear": lambda: [of(randn(2, 3), randn(2, 4), randn(5, 3, 4), randn(5)), of(randn(2, 3), randn(2, 4), randn(5, 3, 4))],
    "binary_cross_entropy_with_logits": lambda: [of(randn(2, 3), rand(2, 3)), of(randn(2, 3), rand(2, 3), rand(3), rand(3), 2)],
    "binomial": lambda: [of(torch.full((2, 3), 9.0), rand(2, 3))],
    "poisson": lambda: [of(rand(2, 3) * 4)],
    "celu": lambda: [of(randn(2, 3)), of(randn(2, 3), 0.5)],
    "chain_matmul": lambda: [of(randn(2, 3), randn(3, 4), randn(4, 2))],
    "channel_shuffle native_channel_shuffle": lambda: [of(randn(1, 6, 2, 2), 3)],
    "conv_tbc": lambda: [of(randn(5, 2, 3), randn(3, 3, 4), randn(4)), of(randn(5, 2, 3), randn(3, 3, 4), randn(4), 1)],
    "convolution": lambda: [of(randn(1, 3, 6, 6), randn(4, 3, 3, 3), randn(4), (1, 1), (1, 1), (1, 1), False, (0, 0), 1), of(randn(1, 3, 6), randn(3, 4, 3), None, (2,), (1,), (1,), True, (1,), 1)],
    "cosine_embedding_loss": lambda: [of(randn(4, 3), randn(4, 3), integers(4, high=2) * 2 - 1), of(randn(4, 3), randn(4, 3), integers(4, high=2) * 2 - 1, 0.2, 2)],
    "cosine_similarity": lambda: [of(randn(4, 3), randn(4, 3)), of(randn(4, 3), randn(4, 3), 0, 1e-6)],
    "ctc_loss": lambda: [of(randn(6, 2, 4).log_softmax(2), torch.tensor([[1, 2], [3, 1]]), torch.tensor([6, 5]), torch.tensor([2, 1]), 0, 0)],
    "dequantize": lambda: [by(lambda x: torch.dequantize(torch.quantize_per_tensor(x, 0.1, 3, torch.qint8)), randn(2, 3))],
    "detach": lambda: [of(randn(2, 3))],
    "einsum": lambda: [of("bij,bjk->bik", randn(2, 3, 4), randn(2, 4, 2)), of("ii->i", randn(3, 3)), of("...i,i->...", randn(2, 3, 4), randn(4)), of("i,j,k->kji", randn(2), randn(3), randn(4))],
    "embedding": lambda: [of(randn(5, 3), integers(2, 4)), of(randn(5, 3), integers(4), 2)],
    "embedding_bag": lambda: [of(randn(5, 3), integers(6), torch.tensor([0, 2])), of(randn(5, 3), integers(6), torch.tensor([0, 2]), False, 1), of(randn(5, 3), integers(6), torch.tensor([0, 2]), False, 0, False, rand(6))],
    "fake_quantize_per_tensor_affine": lambda: [of(randn(2, 3), 0.1, 3, -128, 127)],
    "fake_quantize_per_channel_affine": lambda: [of(randn(2, 3), rand(3) + 0.1, torch.zeros(3, dtype=torch.int32), 1, -128, 127)],
    "frobenius_norm": lambda: [of(randn(2, 3), 1), of(randn(2, 3), (0, 1), True)],
    "grid_sampler grid_sampler_2d": lambda: [of(randn(1, 2, 4, 5), rand(1, 3, 3, 2) * 2 - 1, 0, 0, False), of(randn(1, 2, 4, 5), rand(1, 3, 3, 2) * 3 - 1.5, 1, 1, True)],
    "grid_sampler_3d": lambda: [of(randn(1, 2, 3, 4, 5), rand(1, 2, 3, 3, 3) * 2 - 1, 0, 0, False)],
    "gru": lambda: [recurrent(torch.gru, 3, 1)],
    "lstm": lambda: [by(lstm(1), randn(5, 2, 3), randn(1, 2, 4), randn(1, 2, 4)), by(lstm(2), randn(5, 2, 3), randn(2, 2, 4), randn(2, 2, 4))],
    "rnn_relu": lambda: [recurrent(torch.rnn_relu, 1, 1)],
    "rnn_tanh": lambda: [recurrent(torch.rnn_tanh, 1, 2)],
    "gru_cell": lambda: [of(randn(2, 3), randn(2, 4), *weights(1, 3))],
    "lstm_cell": lambda: [of(randn(2, 3), (randn(2, 4), randn(2, 4)), *weights(1, 4))],
    "rnn_relu_cell rnn_tanh_cell": lambda: [of(randn(2, 3), randn(2, 4), *weights(1, 1))],
    "hardshrink": lambda: [of(randn(2, 3)), of(randn(2, 3), 1.0)],
    "hinge_embedding_loss": lambda: [of(randn(2, 3), integers(2, 3, high=2) * 2 - 1), of(randn(2, 3), integers(2, 3, high=2) * 2 - 1, 0.5, 2)],
    "instance_norm": lambda: [of(randn(2, 3, 4), rand(3), randn(3), None, None, True, 0.1, 1e-5, False), of(randn(2, 3, 4), None, None, None, None, True, 0.1, 1e-5, False)],
    "int_repr": lambda: [by(lambda x: torch.int_repr(torch.quantize_per_tensor(x, 0.1, 3, torch.qint8)), randn(2, 3))],
    "kl_div": lambda: [of(randn(2, 3).log_softmax(1), rand(2, 3)), of(randn(2, 3).log_softmax(1), rand(2, 3), 2, log_target=True)],
    "lobpcg": lambda: [by(lambda a: torch.lobpcg(a, 1)[0], symmetric(6))],
    "margin_ranking_loss": lambda: [of(randn(4), randn(4), integers(4, high=2) * 2 - 1), of(randn(4), randn(4), integers(4, high=2) * 2 - 1, 0.5, 2)],
    "max_pool1d": lambda: [of(randn(1, 3, 8), 2), of(randn(1, 3, 8), 3, 2, 1)],
    "max_pool1d_with_indices": lambda: [of(randn(1, 3, 8), 2)],
    "max_pool2d": lambda: [of(randn(1, 3, 8, 8), 2), of(randn(1, 3, 8, 8), 3, 2, 1)],
    "max_pool3d": lambda: [of(randn(1, 2, 4, 4, 4), 2)],
    "native_dropout": lambda: [of(randn(2, 3), 0.5, False)],
    "norm_except_dim": lambda: [of(randn(3, 4), 2, 0)],
    "nuclear_norm": lambda: [of(randn(3, 4)), of(randn(2, 3, 4), (1, 2), True)],
    "numel": lambda: [sized(lambda x: x.sum() / torch.numel(x))],
    "pairwise_distance": lambda: [of(randn(4, 3), randn(4, 3)), of(randn(4, 3), randn(4, 3), 1, 1e-6, True)],
    "pca_lowrank": lambda: [by(lambda x: torch.pca_lowrank(x, 2)[1], randn(6, 4))],
    "svd_lowrank": lambda: [by(lambda x: torch.svd_lowrank(x, 2)[1], randn(6, 4))],
    "is_nonzero": lambda: [of(randn(1))],
    "polygamma": lambda: [of(1, rand(2, 3) + 0.5), of(0, rand(2, 3) + 0.5), of(3, rand(2, 3) + 0.5)],
    "pdist": lambda: [of(randn(4, 3)), of(randn(4, 3), 1)],
    "pixel_shuffle": lambda: [of(randn(1, 8, 2, 3), 2)],
    "pixel_unshuffle": lambda: [of(randn(1, 2, 4, 6), 2)],
    "poisson_nll_loss": lambda: [of(randn(2, 3), integers(2, 3).float(), True, False, 1e-8, 1), of(rand(2, 3), integers(2, 3).float(), False, True, 1e-8, 0)],
    "prelu": lambda: [of(randn(2, 3), rand(3)), of(randn(2, 3, 4), rand(1))],
    "quantize_per_tensor": lambda: [by(lambda x: torch.quantize_per_tensor(x, 0.1, 3, torch.qint8).dequantize(), randn(2, 3))],
    "quantize_per_channel": lambda: [by(lambda x: torch.quantize_per_channel(x, torch.tensor([0.1, 0.2]), torch.tensor([0, 3]), 0, torch.qint8).dequantize(), randn(2, 3))],
    "relu selu": lambda: [of(randn(2, 3))],
    "rrelu": lambda: [of(randn(2, 3))],
    "segment_reduce": lambda: [of(randn(5, 2), "sum", lengths=torch.tensor([2, 3])), of(randn(5, 2), "max", lengths=torch.tensor([2, 3]))],
    "slogdet": lambda: [of(symmetric(3))],
    "unsafe_split_with_sizes": lambda: [of(randn(5, 2), (2, 3))],
    "threshold": lambda: [of(randn(2, 3), 0.1, -1.0)],
    "triplet_margin_loss": lambda: [of(randn(4, 3), randn(4, 3), randn(4, 3)), of(randn(4, 3), randn(4, 3), randn(4, 3), 0.5, 1, 1e-6, True, 0)],
    "vander": lambda: [of(randn(4)), of(randn(4), 3, True)],
    "where": lambda: [of(randn(2, 3) > 0, randn(2, 3), randn(3)), of(randn(2, 3) > 0, randn(2, 3), 1.5), by(lambda x: torch.where(x > 0)[1], randn(2, 3))],
    "zero_": lambda: [by(lambda x: torch.zero_(x.clone()) + x, randn(2, 3))],
})

recipe("torch.special", "polygamma", RECIPES["torch.polygamma"])
recipes(F_, {
    "adaptive_max_pool1d_with_indices": lambda: [of(randn(1, 3, 8), 4)],
    "adaptive_max_pool2d_with_indices": lambda: [of(randn(1, 3, 8, 6), (4, 3))],
    "adaptive_max_pool3d_with_indices": lambda: [of(randn(1, 2, 4, 4, 4), 2)],
    "affine_grid": lambda: [of(randn(2, 2, 3), (2, 1, 3, 4)), of(randn(1, 3, 4), (1, 1, 2, 3, 4), True)],
    "alpha_dropout dropout dropout1d dropout2d dropout3d feature_alpha_dropout": lambda: [of(randn(1, 2, 3, 3, 3)[0, :, 0, 0], 0.5, False)],
    "conv_tbc": lambda: [of(randn(5, 2, 3), randn(3, 3, 4), randn(4), 1)],
    "ctc_loss": lambda: [of(randn(6, 2, 4).log_softmax(2), torch.tensor([[1, 2], [3, 1]]), torch.tensor([6, 5]), torch.tensor([2, 1]))],
    "multi_head_attention_forward": lambda: [by(attention, randn(3, 2, 4), randn(12, 4), randn(12), randn(4, 4), randn(4))],
    "embedding": lambda: [of(integers(2, 4), randn(5, 3)), of(integers(4), randn(5, 3), 2)],
    "fold": lambda: [of(randn(1, 12, 6), (3, 4), (2, 2)), of(randn(1, 8, 9), (4, 4), 2, padding=1, stride=2)],
    "fractional_max_pool2d fractional_max_pool2d_with_indices": lambda: [of(randn(1, 2, 6, 6), 2, 3, _random_samples=rand(1, 2, 2))],
    "fractional_max_pool3d fractional_max_pool3d_with_indices": lambda: [of(randn(1, 2, 6, 6, 6), 2, 3, _random_samples=rand(1, 2, 3))],
    "grouped_mm": lambda: [of(randn(2, 4, 8), randn(2, 8, 16))],
    "gumbel_softmax": lambda: [of(randn(3, 4)), of(randn(3, 4), 0.5, True)],
    "interpolate": lambda: [of(randn(1, 2, 4, 5), scale_factor=2, mode="nearest"), of(randn(1, 2, 4, 5), size=(6, 7), mode="nearest"), of(randn(1, 2, 4, 5), size=(6, 7), mode="bilinear"),
                            of(randn(1, 2, 4, 5), scale_factor=(1.5, 2.0), mode="bilinear", align_corners=True), of(randn(1, 2, 8, 8), size=(3, 4), mode="bilinear", antialias=True),
                            of(randn(1, 2, 4, 5), size=(6, 7), mode="bicubic"), of(randn(1, 2, 8, 8), size=(3, 4), mode="bicubic", antialias=True), of(randn(1, 2, 4, 5), size=(7, 3), mode="nearest-exact"),
                            of(randn(1, 2, 4, 5), size=(3, 3), mode="area"), of(randn(1, 2, 5), scale_factor=2, mode="linear"), of(randn(1, 2, 3, 4, 5), size=(4, 5, 6), mode="trilinear")],
    "upsample": lambda: [of(randn(1, 2, 4, 5), scale_factor=2), of(randn(1, 2, 4, 5), size=(6, 7), mode="bilinear")],
    "lp_pool1d": lambda: [of(rand(1, 3, 8), 2, 2), of(rand(1, 3, 8), 3, 3, 2, True)],
    "lp_pool2d": lambda: [of(rand(1, 3, 8, 8), 2, 2), of(rand(1, 3, 8, 7), 3, (3, 2), 2, True)],
    "lp_pool3d": lambda: [of(rand(1, 2, 4, 4, 4), 2, 2)],
    "max_pool1d_with_indices": lambda: [of(randn(1, 3, 8), 2)],
    "max_pool2d_with_indices": lambda: [of(randn(1, 3, 8, 8), 3, 2, 1)],
    "max_pool3d_with_indices": lambda: [of(randn(1, 2, 4, 4, 4), 2)],
    "native_channel_shuffle": lambda: [of(randn(1, 6, 2, 2), 3)],
    "pad": lambda: [of(randn(1, 2, 4, 5), (1, 2)), of(randn(1, 2, 4, 5), (1, 2, 0, 1), value=1.5), of(randn(1, 2, 4, 5), (1, 2, 0, 1), mode="reflect"), of(randn(1, 2, 4, 5), (1, 2, 0, 1), mode="replicate"),
                    of(randn(1, 2, 4, 5), (1, 2, 0, 1), mode="circular"), of(randn(4, 5), (-1, 2))],
    "rrelu": lambda: [of(randn(2, 3))],
    "scaled_dot_product_attention": lambda: [of(randn(1, 2, 4, 8), randn(1, 2, 5, 8), randn(1, 2, 5, 8)), of(randn(1, 2, 4, 8), randn(1, 2, 4, 8), randn(1, 2, 4, 8), is_causal=True),
                                             of(randn(1, 2, 4, 8), randn(1, 2, 5, 8), randn(1, 2, 5, 8), randn(4, 5), scale=0.3), of(randn(1, 4, 4, 8), randn(1, 2, 5, 8), randn(1, 2, 5, 8), enable_gqa=True)],
})

recipes("torch.nn", {
    "AdaptiveLogSoftmaxWithLoss": lambda: [module(nn.AdaptiveLogSoftmaxWithLoss(6, 10, [3, 7]), randn(4, 6), integers(4, high=10))],
    "AlphaDropout Dropout Dropout1d Dropout2d Dropout3d FeatureAlphaDropout": lambda: [module(nn.Dropout(0.3), randn(2, 3))],
    "BatchNorm1d": lambda: [module(nn.BatchNorm1d(3), randn(2, 3)), module(nn.BatchNorm1d(3, affine=False), randn(2, 3, 4)), module(nn.BatchNorm1d(3, track_running_stats=False), randn(2, 3, 4))],
    "ChannelShuffle": lambda: [module(nn.ChannelShuffle(3), randn(1, 6, 2, 2))],
    "CosineSimilarity": lambda: [module(nn.CosineSimilarity(), randn(4, 3), randn(4, 3)), module(nn.CosineSimilarity(-1, 1e-6), randn(2, 4, 3), randn(2, 4, 3))],
    "CrossMapLRN2d": lambda: [module(nn.CrossMapLRN2d(3), randn(1, 5, 3, 3))],
    "EmbeddingBag": lambda: [module(nn.EmbeddingBag(5, 3), integers(4, 2)), module(nn.EmbeddingBag(5, 3, mode="sum"), integers(6), torch.tensor([0, 2])), module(nn.EmbeddingBag(5, 3, mode="max"), integers(6), torch.tensor([0, 2]))],
    "FractionalMaxPool2d": lambda: [module(nn.FractionalMaxPool2d(2, 3, _random_samples=rand(1, 2, 2)), randn(1, 2, 6, 6))],
    "FractionalMaxPool3d": lambda: [module(nn.FractionalMaxPool3d(2, 3, _random_samples=rand(1, 2, 3)), randn(1, 2, 6, 6, 6))],
    "Flatten": lambda: [module(nn.Flatten(), randn(2, 3, 4)), module(nn.Flatten(0, 1), randn(2, 3, 4))],
    "Fold": lambda: [module(nn.Fold((3, 4), 2), randn(1, 12, 6))],
    "Hardsigmoid": lambda: [module(nn.Hardsigmoid(), randn(2, 3))],
    "Identity": lambda: [module(nn.Identity(), randn(2, 3))],
    "MaxUnpool1d": lambda: [module(nn.MaxUnpool1d(2), *F.max_pool1d(randn(1, 2, 6), 2, return_indices=True))],
    "MaxUnpool2d": lambda: [module(nn.MaxUnpool2d(2), *F.max_pool2d(randn(1, 2, 6, 4), 2, return_indices=True))],
    "MaxUnpool3d": lambda: [module(nn.MaxUnpool3d(2), *F.max_pool3d(randn(1, 2, 4, 4, 4), 2, return_indices=True))],
    "NLLLoss2d": lambda: [module(nn.NLLLoss2d(), randn(2, 5, 3, 3).log_softmax(1), integers(2, 3, 3))],
    "PairwiseDistance": lambda: [module(nn.PairwiseDistance(), randn(4, 3), randn(4, 3)), module(nn.PairwiseDistance(1, keepdim=True), randn(4, 3), randn(4, 3))],
    "PixelShuffle": lambda: [module(nn.PixelShuffle(2), randn(1, 8, 2, 3))],
    "PixelUnshuffle": lambda: [module(nn.PixelUnshuffle(2), randn(1, 2, 4, 6))],
    "RReLU": lambda: [module(nn.RReLU(), randn(2, 3))],
    "TransformerDecoder": lambda: [module(nn.TransformerDecoder(nn.TransformerDecoderLayer(4, 2, 8, batch_first=True), 2), randn(1, 3, 4), randn(1, 5, 4))],
    "TripletMarginLoss TripletMarginWithDistanceLoss": lambda: [module(nn.TripletMarginLoss(), randn(4, 3), randn(4, 3), randn(4, 3)), module(nn.TripletMarginWithDistanceLoss(), randn(4, 3), randn(4, 3), randn(4, 3))],
    "Unflatten": lambda: [module(nn.Unflatten(1, (2, 3)), randn(2, 6, 4))],
    "Unfold": lambda: [module(nn.Unfold(2), randn(1, 3, 4, 5)), module(nn.Unfold(3, 1, 1, 2), randn(1, 3, 4, 5))],
    "Upsample": lambda: [module(nn.Upsample(scale_factor=2), randn(1, 2, 4, 5)), module(nn.Upsample((6, 7), mode="bilinear"), randn(1, 2, 4, 5)), module(nn.Upsample(scale_factor=2, mode="bicubic"), randn(1, 2, 4, 5))],
    "UpsamplingBilinear2d": lambda: [module(nn.UpsamplingBilinear2d(scale_factor=2), randn(1, 2, 4, 5))],
    "UpsamplingNearest2d": lambda: [module(nn.UpsamplingNearest2d(scale_factor=2), randn(1, 2, 4, 5))],
})

# Modules and functions of torchvision.
recipes("torchvision.ops", {
    "Conv2dNormActivation": lambda: [module(vision.Conv2dNormActivation(3, 4, 3), rand(1, 3, 5, 5))],
    "Conv3dNormActivation": lambda: [module(vision.Conv3dNormActivation(2, 3, 3), rand(1, 2, 4, 4, 4))],
    "DeformConv2d": lambda: [module(vision.DeformConv2d(2, 3, 3, padding=1), randn(1, 2, 4, 5), randn(1, 18, 4, 5)), module(vision.DeformConv2d(2, 3, 3, padding=1), randn(1, 2, 4, 5), randn(1, 18, 4, 5), rand(1, 9, 4, 5))],
    "DropBlock2d": lambda: [module(vision.DropBlock2d(0.5, 3), randn(1, 2, 5, 5))],
    "DropBlock3d": lambda: [module(vision.DropBlock3d(0.5, 3), randn(1, 2, 5, 5, 5))],
    "FeaturePyramidNetwork": lambda: [module(vision.FeaturePyramidNetwork([2, 3], 4), {"a": randn(1, 2, 8, 8), "b": randn(1, 3, 4, 4)})],
    "FrozenBatchNorm2d": lambda: [module(vision.FrozenBatchNorm2d(3), randn(1, 3, 4, 4))],
    "MLP": lambda: [module(vision.MLP(3, [5, 4]), randn(2, 3))],
    "MultiScaleRoIAlign": lambda: [module(vision.MultiScaleRoIAlign(["a", "b"], 3, 2), {"a": randn(1, 2, 16, 16), "b": randn(1, 2, 8, 8)}, [boxes(3, 32.0)], [(32, 32)])],
    "PSRoIAlign": lambda: [module(vision.PSRoIAlign(2, 1.0, 2), randn(1, 8, 8, 8), with_image(3))],
    "PSRoIPool": lambda: [module(vision.PSRoIPool(2, 1.0), randn(1, 8, 8, 8), with_image(3))],
    "RoIAlign": lambda: [module(vision.RoIAlign(3, 0.5, 2), randn(1, 2, 8, 8), with_image(3))],
    "RoIPool": lambda: [module(vision.RoIPool(3, 0.5), randn(1, 2, 8, 8), with_image(3))],
    "Permute": lambda: [module(vision.Permute([0, 2, 1]), randn(2, 3, 4))],
    "SqueezeExcitation": lambda: [module(vision.SqueezeExcitation(4, 2), randn(1, 4, 5, 5))],
    "StochasticDepth": lambda: [module(vision.StochasticDepth(0.5, "row"), randn(2, 3))],
    "batched_nms": lambda: [of(boxes(6), rand(6), integers(6, high=2), 0.3)],
    "nms": lambda: [of(boxes(6), rand(6), 0.3)],
    "box_area": lambda: [of(boxes(4))],
    "box_convert": lambda: [of(boxes(4), "xyxy", "cxcywh"), of(boxes(4), "xywh", "xyxy"), of(boxes(4), "cxcywh", "xyxy"), of(boxes(4), "xyxy", "xywh")],
    "box_iou generalized_box_iou complete_box_iou distance_box_iou": lambda: [of(boxes(4), boxes(3))],
    "complete_box_iou_loss distance_box_iou_loss generalized_box_iou_loss": lambda: [of(boxes(4), boxes(4)), of(boxes(4), boxes(4), "mean")],
    "clip_boxes_to_image": lambda: [of(boxes(4, 12.0), (6, 7))],
    "deform_conv2d": lambda: [of(randn(1, 2, 4, 5), randn(1, 18, 4, 5), randn(3, 2, 3, 3), randn(3), padding=(1, 1)), of(randn(1, 2, 4, 5), randn(1, 18, 4, 5), randn(3, 2, 3, 3), padding=1, mask=rand(1, 9, 4, 5))],
    "drop_block2d": lambda: [of(randn(1, 2, 5, 5), 0.5, 3, training=False)],
    "drop_block3d": lambda: [of(randn(1, 2, 5, 5, 5), 0.5, 3, training=False)],
    "masks_to_boxes": lambda: [of((rand(3, 6, 6) > 0.5).float())],
    "ps_roi_align": lambda: [of(randn(1, 8, 8, 8), with_image(3), 2, 1.0, 2)],
    "ps_roi_pool": lambda: [of(randn(1, 8, 8, 8), with_image(3), 2)],
    "remove_small_boxes": lambda: [of(boxes(5), 2.0)],
    "roi_align": lambda: [of(randn(1, 2, 8, 8), with_image(3), 3, 0.5, 2, True), of(randn(1, 2, 8, 8), [boxes(3)], 2)],
    "roi_pool": lambda: [of(randn(1, 2, 8, 8), with_image(3), 3, 0.5)],
    "sigmoid_focal_loss": lambda: [of(randn(4), integers(4, high=2).float()), of(randn(4), integers(4, high=2).float(), 0.5, 1.5, "mean")],
    "stochastic_depth": lambda: [of(randn(2, 3), 0.5, "row", False)],
})
