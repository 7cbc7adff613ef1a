"""Normalisation: by stored statistics, by those of samples and groups, of last axes, of neighbouring channels."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from case import Export, Model, direct
from modules import Each, Zipped, export_each, scrambled
from values import FLOATS, INF, NAN, rand, randn

SHAPES = {1: [(2, 4, 5), (1, 4, 3), (3, 4, 2)], 2: [(2, 4, 3, 2), (1, 4, 2, 2), (3, 4, 1, 4)],
          3: [(2, 4, 2, 2, 3), (1, 4, 3, 1, 2), (3, 4, 2, 1, 1)]}


def batch_norm(axes: int) -> Export:
    kind = getattr(nn, f"BatchNorm{axes}d")
    parts = [kind(4), kind(4, eps=0.1), kind(4, affine=False), kind(4, eps=1e-3, momentum=None)]
    samples = [randn(*shape) for shape in SHAPES[axes]]
    return Export(Each(*map(scrambled, parts)), samples[0], others=[(sample,) for sample in samples[1:]])


def instance_norm(axes: int) -> Export:
    kind = getattr(nn, f"InstanceNorm{axes}d")
    parts = [kind(4), kind(4, eps=0.1, affine=True), kind(4, track_running_stats=True),
             kind(4, affine=True, track_running_stats=True, momentum=0.3)]
    samples = [randn(*shape) for shape in SHAPES[axes]]
    return Export(Each(*map(scrambled, parts)), samples[0], others=[(sample,) for sample in samples[1:]])


def register(axes: int) -> None:
    export_each(f"nn_BatchNorm{axes}d", lambda: batch_norm(axes))
    export_each(f"nn_InstanceNorm{axes}d", lambda: instance_norm(axes))


for axes in (1, 2, 3):
    register(axes)


export_each("nn_GroupNorm", lambda: Export(
    Each(*[scrambled(nn.GroupNorm(*each)) for each in [(2, 4), (4, 4, 0.1), (1, 4)]], nn.GroupNorm(2, 4, affine=False)),
    randn(2, 4, 3, 2), others=[(randn(1, 4, 1, 5),), (randn(3, 4, 2, 2),), (randn(1, 4, 4, 1),)]))
export_each("nn_LayerNorm", lambda: Export(
    Each(scrambled(nn.LayerNorm(4)), scrambled(nn.LayerNorm((3, 4), eps=0.1)), nn.LayerNorm(4, elementwise_affine=False)),
    randn(2, 3, 4), others=[(randn(1, 3, 4),), (randn(5, 3, 4),), (randn(3, 3, 4),)]))
export_each("nn_RMSNorm", lambda: Export(
    Each(scrambled(nn.RMSNorm(4)), scrambled(nn.RMSNorm((3, 4), eps=0.1)), nn.RMSNorm(4, elementwise_affine=False)),
    randn(2, 3, 4), others=[(randn(1, 3, 4),), (randn(5, 3, 4),), (randn(3, 3, 4),)]))
export_each("nn_LocalResponseNorm", lambda: Export(
    Each(nn.LocalResponseNorm(2), nn.LocalResponseNorm(3, alpha=0.5, beta=0.3, k=0.7), nn.LocalResponseNorm(9, k=2)),
    randn(2, 5, 3), others=[(randn(1, 5, 4),), (randn(3, 5, 1),), (randn(2, 5, 2),)]))


def f_batch_norm() -> Export:
    def call(x, mean, variance, weight, bias):
        return (F.batch_norm(x, mean, variance), F.batch_norm(x, mean, variance, weight, bias, eps=0.1),
                F.batch_norm(x, mean, variance, weight), F.batch_norm(x, mean, variance, bias=bias, momentum=0.3))
    return Export(Each(call), randn(2, 3, 4), randn(3), rand(3), randn(3), randn(3))


def f_instance_norm() -> Export:
    def call(x, weight, bias):
        return (F.instance_norm(x), F.instance_norm(x, weight=weight, bias=bias, eps=0.1),
                F.instance_norm(x, weight=weight, bias=bias * 2, eps=0.01))
    return Export(Each(call), randn(2, 3, 4), randn(3), randn(3))


def f_group_norm() -> Export:
    def call(x, weight, bias):
        return F.group_norm(x, 2), F.group_norm(x, 4, weight, bias, 0.1), F.group_norm(x, 1, weight, bias)
    return Export(Each(call), randn(2, 4, 3), randn(4), randn(4))


def f_layer_norm() -> Export:
    def call(x, weight, bias):
        return F.layer_norm(x, (4,)), F.layer_norm(x, (3, 4), weight, bias, 0.1), F.layer_norm(x, (2, 3, 4))
    return Export(Each(call), randn(2, 3, 4), randn(3, 4), randn(3, 4))


def f_rms_norm() -> Export:
    def call(x, weight):
        return F.rms_norm(x, (4,)), F.rms_norm(x, (3, 4), weight, 0.1), F.rms_norm(x, (3, 4), weight)
    return Export(Each(call), randn(2, 3, 4), randn(3, 4))


export_each("F_batch_norm", f_batch_norm)
export_each("F_instance_norm", f_instance_norm)
export_each("F_group_norm", f_group_norm)
export_each("F_layer_norm", f_layer_norm)
export_each("F_rms_norm", f_rms_norm)
export_each("F_local_response_norm", lambda: Export(
    Each(lambda x: F.local_response_norm(x, 2), lambda x: F.local_response_norm(x, 5, 1.0, 0.5, 0)), randn(1, 4, 3, 2)))


class ByTheBatch(nn.Module):
    """Batch norm without running statistics. PNNX drops `training`, which must then be true."""

    def __init__(self):
        super().__init__()
        self.weight, self.bias = nn.Parameter(randn(3)), nn.Parameter(randn(3))

    def forward(self, x: Tensor, weight: Tensor, bias: Tensor):
        return (F.batch_norm(x, None, None, training=True), F.batch_norm(x, None, None, weight, bias, training=True, eps=0.1),
                F.batch_norm(x, None, None, self.weight, self.bias, training=True))


def by_the_batch(optlevel: int) -> Export:
    sizes = [(2, 3, 4), (3, 3, 5), (1, 3, 2)]
    first, *others = [(randn(*size), randn(3), randn(3)) for size in sizes]
    return Export(ByTheBatch(), *first, others=others, optlevel=optlevel)


export_each("F_batch_norm_by_the_batch", lambda: by_the_batch(2))
export_each("F_batch_norm_by_the_batch_level0", lambda: by_the_batch(0))


@direct
def F_batch_norm_direct(model: Model) -> None:
    mean, variance, weight, bias = randn(3), rand(3), randn(3), randn(3)
    keys = ["input", "running_mean", "running_var", "weight", "bias"]
    for shape in [(2, 3), (0, 3, 2), (2, 3, 0), (1, 3, 1, 2, 1, 2)]:
        model.op("F.batch_norm", randn(*shape), mean, variance, weight, bias, keys=keys)
    double = [tensor.double() for tensor in (mean, variance, weight, bias)]
    model.op("F.batch_norm", randn(2, 3, dtype=torch.float64), *double, keys=keys, eps=1)
    model.op("F.batch_norm", randn(2, 3), mean, variance, keys=keys[:3])
    model.op("F.batch_norm", torch.tensor([[NAN, INF, 3e38]]), mean, variance, keys=keys[:3])
    model.op("F.batch_norm", randn(2, 3), mean, torch.tensor([0.0, -1.0, INF]), keys=keys[:3])


@direct
def F_instance_norm_direct(model: Model) -> None:
    mean, variance, weight, bias = randn(3), rand(3), randn(3), randn(3)
    keys = ["input", "running_mean", "running_var", "weight", "bias"]
    for shape in [(1, 3, 2), (0, 3, 4), (2, 3, 2, 2), (1, 3, 2, 1, 2)]:
        x = randn(*shape)
        model.op("F.instance_norm", x)
        model.op("F.instance_norm", x, mean, variance, keys=keys[:3], use_input_stats=False)
    # These statistics PyTorch brings up to date, in place.
    own = [tensor.clone() for tensor in (mean, variance)]
    model.op("F.instance_norm", x, mean, variance, weight, bias, keys=keys, use_input_stats=True,
             f=lambda x, mean, variance, *weights: F.instance_norm(x, *own, *weights))
    for axes, shape in [(1, (4, 5)), (2, (4, 2, 3)), (3, (4, 2, 1, 2))]:
        model.op(f"nn.InstanceNorm{axes}d", randn(*shape), num_features=4)
        model.op(f"nn.InstanceNorm{axes}d", randn(*shape), num_features=4, affine=True, track_running_stats=True)
    model.op("F.instance_norm", torch.tensor([[[NAN, 1.0, 2.0], [INF, 1.0, 2.0], [5.0, 5.0, 5.0]]]))


@direct
def F_group_norm_direct(model: Model) -> None:
    weight, bias = randn(4), randn(4)
    for shape in [(2, 4), (0, 4, 2), (1, 4, 2, 1, 2, 1)]:
        model.op("F.group_norm", randn(*shape), named={"weight": weight, "bias": bias}, num_groups=2)
        model.op("F.group_norm", randn(*shape), num_groups=4, eps=0)
    model.op("F.group_norm", randn(2, 4, 3, dtype=torch.float64), num_groups=1)
    model.op("F.group_norm", randn(2, 4, 3), named={"weight": weight}, num_groups=1)
    model.op("nn.GroupNorm", randn(4, 4), num_groups=2, num_channels=4)


@direct
def F_layer_norm_direct(model: Model) -> None:
    weight, bias = randn(4), randn(4)
    for shape in [(4,), (0, 4), (1, 2, 1, 2, 1, 1, 2, 4)]:
        model.op("F.layer_norm", randn(*shape), named={"weight": weight, "bias": bias}, normalized_shape=(4,))
    model.op("F.layer_norm", randn(2, 4), named={"weight": weight}, normalized_shape=(4,))
    model.op("F.layer_norm", randn(2, 4, dtype=torch.float64), normalized_shape=(2, 4), eps=0)
    model.op("F.layer_norm", torch.tensor([[NAN, 1.0], [INF, 1.0], [5.0, 5.0], [1e4, 1e4 + 1]]), normalized_shape=(2,))
    model.op("F.layer_norm", randn(3, 1), normalized_shape=(1,))
    model.op("nn.LayerNorm", randn(2, 4), normalized_shape=(2, 4))


@direct
def F_rms_norm_direct(model: Model) -> None:
    weight = randn(4)
    for shape in [(4,), (0, 4), (1, 2, 1, 2, 1, 1, 2, 4)]:
        model.op("F.rms_norm", randn(*shape), named={"weight": weight}, normalized_shape=(4,))
    model.op("F.rms_norm", randn(2, 4, dtype=torch.float64), normalized_shape=(2, 4))
    model.op("F.rms_norm", randn(2, 4, dtype=torch.float64), normalized_shape=(4,), eps=1)
    model.op("F.rms_norm", torch.tensor([[NAN, 1.0], [INF, 1.0], [0.0, 0.0], [1e-5, 0.0]]), normalized_shape=(2,))
    model.op("nn.RMSNorm", randn(2, 4), normalized_shape=(4,), eps=0.5)


@direct
def F_local_response_norm_direct(model: Model) -> None:
    for shape in [(0, 3, 2), (2, 3, 0), (1, 4, 2, 1, 2), (2, 4, 1, 1, 1, 2)]:
        model.op("F.local_response_norm", randn(*shape), size=3)
    model.op("F.local_response_norm", randn(2, 4, 3, dtype=torch.float64), size=4, alpha=2, beta=1, k=0.5)
    model.op("nn.LocalResponseNorm", torch.tensor([[[NAN], [1.0], [2.0], [INF], [1.0]]]), size=2, alpha=1)


@direct(tolerance=1e-2)
def normalization_of_halves(model: Model) -> None:
    for dtype in FLOATS[2:]:
        x, weight, bias, spread = randn(2, 4, 3, dtype=dtype), randn(4), randn(4), rand(4)
        for kind in (torch.float32, dtype):
            mine = [tensor.to(kind) for tensor in (bias, spread, weight, bias)]
            model.op("F.batch_norm", x, *mine, keys=["input", "running_mean", "running_var", "weight", "bias"])
            model.op("F.group_norm", x, named=dict(weight=mine[2], bias=mine[3]), num_groups=2)
            row = x.permute(0, 2, 1).contiguous()
            model.op("F.layer_norm", row, named=dict(weight=mine[2], bias=mine[3]), normalized_shape=(4,))
        model.op("F.rms_norm", row, named={"weight": mine[2]}, normalized_shape=(4,))
        model.op("F.instance_norm", x)
        model.op("F.local_response_norm", x, size=3)
        model.op("F.normalize", x)


def normalize_settings() -> list[dict]:
    return [{}, {"p": 1}, {"p": 3, "dim": 0}, {"dim": -1, "eps": 0.5}, {"p": INF, "dim": 2}, {"p": 0.5}, {"p": 0}]


export_each("F_normalize", lambda: Export(
    Each(*[lambda x, each=each: F.normalize(x, **each) for each in normalize_settings()[:5]]), randn(2, 3, 4),
    others=[(randn(1, 3, 2),), (randn(4, 3, 1),), (randn(3, 3, 3),)]))


@direct
def F_normalize_direct(model: Model) -> None:
    x = randn(2, 3, 4)
    for each in [*normalize_settings(), {"p": -INF}, {"p": -1, "dim": (0, 2)}, {"p": 2.0, "dim": (1, 2)}]:
        model.op("F.normalize", x, **each)
    model.op("F.normalize", randn(2, 3, dtype=torch.float64), p=1, dim=0)
    model.op("F.normalize", torch.tensor([[0.0, 0.0], [NAN, 1.0], [INF, 1.0], [-0.0, 1e-30]]))
    for shape, dim in [((4,), 0), ((0, 3), 1), ((3, 0), 1), ((1, 2, 1, 2, 1, 2, 1, 2), -1)]:
        model.op("F.normalize", randn(*shape), dim=dim)
