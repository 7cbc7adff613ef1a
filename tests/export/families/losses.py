"""Losses, as models have them that score their inputs: PNNX leaves them under TorchScript's names.

Many results are stacked, for each output of a model adds to a case's size."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from case import Export, Model, direct, exported
from values import INF, NAN, rand, randn, random_integers

REDUCTIONS = ("none", "mean", "sum")


def show(model: Model, results: list[Tensor]) -> None:
    """Makes outputs of results, those of one type and shape stacked."""
    groups: dict[tuple, list[Tensor]] = {}
    for result in results:
        groups.setdefault((result.dtype, result.shape), []).append(result)
    for group in groups.values():
        model.op("torch.stack", group, dim=0)


def call(model: Model, name: str, *args: Tensor, keys: tuple[str, ...] = ("input", "target"), **params) -> list[Tensor]:
    """Calls a function of TorchScript, whose parameters are named as in its schema."""
    function = getattr(torch.ops.aten, name)
    return model.op(f"aten::{name}", *args, f=lambda *args: function(*args, **params), keys=list(keys), shown=False, **params)


def scores(again: Tensor, x: Tensor, label: Tensor) -> tuple:
    """An anomaly score, and losses as for training."""
    score = F.mse_loss(again, x, reduction="none").mean(1)
    divergence = F.kl_div(F.log_softmax(again, 1), F.softmax(x, 1), reduction="batchmean")
    return score, F.l1_loss(again, x), F.smooth_l1_loss(again, x), F.cross_entropy(again, label), divergence


class Scored(nn.Module):
    def __init__(self):
        super().__init__()
        self.encode, self.decode = nn.Linear(5, 2), nn.Linear(2, 5)

    def forward(self, x, label):
        return scores(self.decode(F.relu(self.encode(x))), x, label)


@exported
def scores_of_an_autoencoder() -> Export:
    return Export(Scored(), randn(3, 5), torch.tensor([0, 3, 2]))


@exported
def scores_of_any_batch() -> Export:
    return Export(Scored(), randn(3, 5), torch.tensor([0, 3, 2]), others=[(randn(2, 5), torch.tensor([4, 1])), (randn(7, 5), random_integers(7, high=5))])


@exported
def scores_at_level_1() -> Export:
    return Export(Scored(), randn(3, 5), torch.tensor([0, 3, 2]), optlevel=1)


@exported
def losses_of_elements() -> Export:
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("weight", rand(4, low=0.2))

        def forward(self, x, y):
            p, q, sign = torch.sigmoid(x), torch.sigmoid(y), torch.sign(y)
            each = [[F.mse_loss(x, y, reduction=r), F.l1_loss(x, y, reduction=r), F.smooth_l1_loss(x, y, beta=0.7, reduction=r),
                     F.huber_loss(x, y, delta=0.6, reduction=r), F.kl_div(p.log(), q, reduction=r), F.kl_div(x, y, log_target=True, reduction=r),
                     F.binary_cross_entropy(p, q, reduction=r), F.binary_cross_entropy(p, q, weight=self.weight, reduction=r),
                     F.binary_cross_entropy_with_logits(x, q, reduction=r), F.binary_cross_entropy_with_logits(x, q, self.weight, pos_weight=self.weight + 1, reduction=r),
                     F.poisson_nll_loss(x, y.abs() * 3, reduction=r), F.poisson_nll_loss(p, y.abs() * 3, log_input=False, full=True, reduction=r),
                     F.hinge_embedding_loss(x, sign, margin=0.5, reduction=r), F.soft_margin_loss(x, sign, reduction=r),
                     F.margin_ranking_loss(x, y, sign, margin=0.3, reduction=r), F.gaussian_nll_loss(x, y, q, reduction=r)] for r in REDUCTIONS]
            return tuple(torch.stack(of_reduction) for of_reduction in each)
    return Export(Net(), randn(2, 4), randn(2, 4), others=[(randn(3, 4), randn(3, 4)), (randn(1, 4), randn(1, 4))])


@exported
def losses_of_classes() -> Export:
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("weight", rand(4, low=0.2))

        def forward(self, x, label, planes, map):
            share, logs = torch.softmax(x * 2, 1), F.log_softmax(x, 1)
            each = [[F.cross_entropy(x, label, reduction=r), F.cross_entropy(x, label, self.weight, ignore_index=1, label_smoothing=0.2, reduction=r),
                     F.cross_entropy(x, label, label_smoothing=0.1, reduction=r), F.cross_entropy(x, share, reduction=r),
                     F.cross_entropy(x, share, self.weight, label_smoothing=0.3, reduction=r), F.nll_loss(logs, label, reduction=r),
                     F.nll_loss(logs, label, self.weight, ignore_index=2, reduction=r), F.multi_margin_loss(x, label, reduction=r),
                     F.multi_margin_loss(x, label, p=2, margin=0.5, weight=self.weight, reduction=r)] for r in REDUCTIONS]
            maps = [F.cross_entropy(planes, map, self.weight, ignore_index=0, reduction=r) for r in REDUCTIONS]
            return *(torch.stack(of_reduction) for of_reduction in each), *maps, F.nll_loss(planes, map, reduction="none")
    return Export(Net(), randn(3, 4), torch.tensor([2, 1, 0]), randn(2, 4, 2, 3), random_integers(2, 2, 3, high=4), others=[
        (randn(2, 4), torch.tensor([3, 0]), randn(1, 4, 3, 2), random_integers(1, 3, 2, high=4)),
        (randn(5, 4), random_integers(5, high=4), randn(2, 4, 1, 1), random_integers(2, 1, 1, high=4))])


@exported
def losses_of_vectors() -> Export:
    class Net(nn.Module):
        def forward(self, x, y, z, labels):
            sign = torch.sign(x[:, 0])
            each = [[F.cosine_embedding_loss(x, y, sign, margin=0.2, reduction=r), F.triplet_margin_loss(x, y, z, reduction=r),
                     F.triplet_margin_loss(x, y, z, margin=2.0, p=1.0, swap=True, reduction=r), F.triplet_margin_with_distance_loss(x, y, z, reduction=r),
                     F.multilabel_margin_loss(x, labels, reduction=r), F.multilabel_soft_margin_loss(x, y.sigmoid(), reduction=r)] for r in REDUCTIONS]
            return tuple(torch.stack(of_reduction) for of_reduction in each)
    labels = torch.tensor([[3, 0, -1, 1], [1, 2, 3, -1], [-1, 0, 0, 0]])
    return Export(Net(), randn(2, 4), randn(2, 4), randn(2, 4), labels[:2], others=[(randn(3, 4), randn(3, 4), randn(3, 4), labels)])


@exported
def losses_of_sequences() -> Export:
    class Net(nn.Module):
        def forward(self, x, target):
            logs = x.log_softmax(2)
            lengths, count = torch.tensor([5, 4]), torch.tensor([3, 2])
            return (F.ctc_loss(logs, target, lengths, count), F.ctc_loss(logs, target, (5, 3), (3, 3), reduction="none", zero_infinity=True),
                    F.ctc_loss(logs, target, lengths, count, blank=3, reduction="sum"), F.ctc_loss(logs[:, 0], target[0], (4,), (3,)))
    target = torch.tensor([[1, 2, 2], [2, 1, 1]])
    return Export(Net(), randn(5, 2, 4), target, others=[(randn(7, 2, 4), target)])


@direct(tolerance=1e-2, double=1e-6)
def aten_losses_of_types(model: Model) -> None:
    results = []
    for first, second in ((torch.float64, torch.float32), (torch.float16, torch.float32), (torch.float32, torch.bfloat16), (torch.float16, torch.float16)):
        x, y = randn(2, 3).to(first), randn(3).to(second)
        for reduction in range(3):
            results += call(model, "mse_loss", x, y, reduction=reduction) + call(model, "l1_loss", x, y, reduction=reduction)
            results += call(model, "smooth_l1_loss", x, y, reduction=reduction, beta=0.5) + call(model, "huber_loss", x, y, reduction=reduction, delta=0.5)
            results += call(model, "hinge_embedding_loss", x, y.sign(), reduction=reduction, margin=0.5)
            results += call(model, "soft_margin_loss", x, y.sign(), reduction=reduction)
    z = randn(2, 2, dtype=torch.complex64)
    results += call(model, "l1_loss", z, z[0], reduction=0) + call(model, "l1_loss", random_integers(4), random_integers(4), reduction=2)
    for reduction in (1, 2):
        results += call(model, "mse_loss", torch.zeros(0, 3), torch.zeros(3), reduction=reduction)
    show(model, results)


@direct
def aten_losses_of_special_values(model: Model) -> None:
    x = torch.tensor([INF, INF, -INF, NAN, 1.0, 0.5, 0.0, 300.0])
    y = torch.tensor([-1.0, 1.0, 1.0, -1.0, NAN, 0.0, INF, -INF])
    results = []
    for name, params in (("mse_loss", {}), ("l1_loss", {}), ("smooth_l1_loss", {"beta": 0.0}), ("smooth_l1_loss", {"beta": 2.0}), ("huber_loss", {"delta": 2.0}),
                         ("kl_div", {"log_target": False}), ("kl_div", {"log_target": True}), ("hinge_embedding_loss", {"margin": 1.0}), ("soft_margin_loss", {}),
                         ("binary_cross_entropy_with_logits", {"weight": None, "pos_weight": None}),
                         ("poisson_nll_loss", {"log_input": True, "full": True, "eps": 1e-8})):
        results += call(model, name, x, y, reduction=0, **params)
    results += call(model, "margin_ranking_loss", x, y, x.nan_to_num(0).sign(), keys=("input", "input2", "target"), reduction=0, margin=0.0)
    share = torch.tensor([0.0, 1.0, 0.0, 1.0, 0.5, 1e-40, 1.0, 0.0])
    results += call(model, "binary_cross_entropy", share, torch.tensor([0.0, 1.0, 1.0, 0.0, 0.5, 1.0, 0.25, 0.75]), weight=None, reduction=0)
    show(model, results)


@direct(tolerance=1e-2, double=1e-6)
def aten_nll_loss(model: Model) -> None:
    results, ignored = [], torch.zeros(3, dtype=torch.int64)
    for dtype in (torch.float32, torch.float64, torch.float16, torch.bfloat16):
        x, target = randn(3, 4, dtype=dtype), torch.tensor([3, 0, 2])
        for name in ("nll_loss", "nll_loss_nd", "cross_entropy_loss"):
            results += call(model, name, x, target, reduction=0, ignore_index=0) + call(model, name, x, target, reduction=2, ignore_index=-100)
            results += call(model, name, x, ignored, reduction=1, ignore_index=0) + call(model, name, x, target.to(torch.uint8), reduction=1, ignore_index=-100)
    results += call(model, "nll_loss2d", randn(2, 3, 2, 1), random_integers(2, 2, 1, high=3), reduction=0, ignore_index=-100)
    results += call(model, "nll_loss_nd", randn(2, 3, 2, 1, 2), random_integers(2, 2, 1, 2, high=3), reduction=1, ignore_index=-100)
    results += call(model, "cross_entropy_loss", randn(4), torch.tensor(2), reduction=1, ignore_index=-100, label_smoothing=0.1)
    results += call(model, "cross_entropy_loss", randn(4), torch.tensor([0.1, 0.2, 0.3, 0.4]), reduction=1, ignore_index=-100, label_smoothing=0.1)
    results += call(model, "cross_entropy_loss", torch.zeros(0, 4), torch.zeros(0, dtype=torch.int64), reduction=1, ignore_index=-100, label_smoothing=0.0)
    results += call(model, "cross_entropy_loss", torch.tensor([[-INF, 0.0]]), torch.tensor([1]), reduction=0, ignore_index=-100, label_smoothing=0.0)
    show(model, results)
