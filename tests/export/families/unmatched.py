"""TorchScript's functions that PNNX keeps under their own names: special functions, reductions, distances, cells.

Many results are stacked, for each output of a model adds to a case's size."""

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from case import Export, Model, direct, exported
from values import INF, INTEGERS, NAN, randn, random_integers, values_of

ENDS = [0.0, -0.0, 1.0, -1.0, 0.5, -2.5, INF, -INF, NAN]


def show(model: Model, results: list[Tensor]) -> None:
    """Makes outputs of results, those of one type and shape stacked."""
    groups: dict[tuple, list[Tensor]] = {}
    for result in results:
        groups.setdefault((result.dtype, result.shape), []).append(result)
    for group in groups.values():
        model.op("torch.stack", group, dim=0)


def call(model: Model, name: str, f, *args: Tensor, second: str = "other", **params) -> list[Tensor]:
    keys = ["input", second][:len(args)]
    return model.op(f"aten::{name}", *args, f=lambda *args: f(*args, **params), keys=keys, shown=False, **params)


@exported
def special_functions() -> Export:
    class Net(nn.Module):
        def forward(self, x, y, i):
            return torch.stack((torch.log2(y), torch.erfc(x), torch.erfinv(x / 4), torch.digamma(y), torch.hypot(x, y), torch.xlogy(x, y), torch.xlogy(x, 2.0),
                                torch.special.xlogy(3.0, y), torch.special.xlog1py(x, y), torch.deg2rad(x), torch.rad2deg(i), torch.sinc(x), torch.logit(y / 9),
                                torch.logit(x, eps=0.1), torch.heaviside(x, y[0]), torch.copysign(x, y), torch.copysign(y, -1), torch.nan_to_num(x), torch.sgn(x),
                                torch.fmax(x, y), torch.fmin(x, y), torch.ldexp(x, i), torch.logaddexp2(x, y), torch.i0(x), torch.special.entr(x), torch.special.ndtr(x)))
    return Export(Net(), randn(2, 3), randn(2, 3).abs(), random_integers(2, 3, high=9))


@exported
def complex_and_true() -> Export:
    class Net(nn.Module):
        def forward(self, x, y, i):
            z = torch.complex(x, y)
            return (torch.stack((torch.isclose(x, y, rtol=0.5, atol=0.1, equal_nan=True), torch.isfinite(x), torch.signbit(x), torch.isposinf(x), torch.isreal(z))),
                    torch.gcd(i, i[0]), torch.lcm(i, i[0]), torch.angle(z), torch.angle(x),
                    torch.stack((torch.log2(z), torch.sinc(z), torch.sgn(z), torch.polar(x, y), z.conj() + 1, torch.conj_physical(z), z.conj().resolve_conj())))
    return Export(Net(), randn(2, 3), randn(2, 3), random_integers(2, 3, high=9))


@direct
def aten_functions_of_one(model: Model) -> None:
    inputs = [torch.tensor(ENDS, dtype=torch.float64), torch.tensor([0, 1, -2], dtype=torch.int32)]
    names = ["log2", "erfc", "erfinv", "digamma", "logit", "signbit", "i0", "sgn", "angle", "isposinf", "isneginf", "deg2rad"]
    results = [call(model, name, getattr(torch, name), x)[0] for x in inputs for name in names]
    for name in ("entr", "ndtr"):
        results += call(model, f"special_{name}", getattr(torch.special, name), inputs[0])
    results += call(model, "logit", torch.logit, inputs[0], eps=0.25)
    show(model, results)


@direct
def aten_functions_of_one_of_other_types(model: Model) -> None:
    x, z = torch.tensor([0.0, 0.25, 1.0, -2.0, NAN], dtype=torch.float16), torch.tensor([0j, 3 - 4j, -1 + 0j, -1j], dtype=torch.complex128)
    results = [call(model, name, getattr(torch, name), x)[0] for name in ("log2", "erfc", "erfinv", "digamma", "sinc", "sgn", "angle")]
    results += [call(model, name, getattr(torch, name), z)[0] for name in ("sgn", "angle", "conj_physical", "log2", "isreal", "sinc")]
    results += call(model, "erfc", torch.erfc, torch.zeros(2, 0))
    for dtype in (torch.float16, torch.float64):
        results += call(model, "polar", torch.polar, values_of(dtype, 3), values_of(dtype, 2, 1), second="angle")
    show(model, results)


@direct
def aten_functions_of_two(model: Model) -> None:
    x, y = torch.tensor([0.0, 1.0, -2.0, INF, -INF, NAN, 0.0, NAN]), torch.tensor([0.0, -0.0, NAN, INF, -INF, 1.0, -1.0, NAN])
    i, k, halves = torch.tensor([0, -3, 7]), torch.tensor([2, 5, -1]), (torch.tensor([1.5, -2.0]).half(), torch.tensor([[0.5], [3.0]]).half())
    results = []
    for name in ("hypot", "xlogy", "copysign", "fmax", "fmin", "logaddexp2", "heaviside"):
        pairs = [(x, y)] + ([(i, k)] if name not in ("hypot", "logaddexp2") else []) + ([halves] if name in ("hypot", "fmax") else [])
        results += [call(model, name, getattr(torch, name), *pair)[0] for pair in pairs]
    results += call(model, "fmax", torch.fmax, x[:0], y[:1])
    show(model, results)


@direct
def aten_gcd(model: Model) -> None:
    pairs = [(values_of(dtype, 3), values_of(dtype, 1)) for dtype in INTEGERS]
    show(model, [call(model, name, getattr(torch, name), *pair)[0] for pair in pairs for name in ("gcd", "lcm")])


@direct
def aten_isclose(model: Model) -> None:
    x, y = torch.tensor([0.0, 1.0, -2.0, INF, -INF, NAN, 0.0, NAN]), torch.tensor([0.0, -0.0, NAN, INF, -INF, 1.0, -1.0, NAN])
    pairs = [(x, y), (x, x * 1.05), (torch.tensor([10, 11, 12]), torch.tensor([11, 12, 10])), (torch.complex(x, y), torch.complex(x, y) * 1.01)]
    show(model, [call(model, "isclose", torch.isclose, *pair, rtol=0.1, atol=0.0, equal_nan=nan)[0] for pair in pairs for nan in (False, True)])


@exported
def unmatched_reductions() -> Export:
    class Net(nn.Module):
        def forward(self, x, y):
            values, places = torch.median(y, 1)
            others, more = torch.nanmedian(x, 0, keepdim=True)
            least, most = torch.aminmax(y, dim=1)
            var, mean = torch.var_mean(y, 1)
            std, centre = torch.std_mean(y, 0, unbiased=False)
            wide, middle = torch.var_mean(y, (0, 1), correction=0, keepdim=True)
            return (torch.stack((torch.nansum(x), torch.nansum(x, (0, 1)), torch.median(y), torch.nanmedian(x), *torch.aminmax(y), *torch.var_mean(y), torch.dist(y, y[:1], 3))),
                    torch.stack((torch.nansum(x, 1), values, least, most, var, mean)), torch.stack((torch.nanmean(x, 0), std, centre, others[0])), places, more, wide, middle)
    x = randn(3, 4)
    x[0, 1] = x[2, 3] = NAN
    return Export(Net(), x, randn(3, 4))


@exported
def norms_and_distances() -> Export:
    class Net(nn.Module):
        def forward(self, x, y):
            norm, matrix = torch.linalg.norm, torch.linalg.matrix_norm
            return (torch.stack((norm(y), norm(y, 1), norm(y, "fro"), norm(y, 1, dim=(0, 1)), norm(y[0], 3), torch.linalg.vector_norm(y, 3), matrix(y), matrix(y, math.inf))),
                    matrix(y, -1, keepdim=True), norm(y, 2, dim=1), norm(y, dim=0, dtype=torch.float64), torch.diff(y), torch.diff(y, n=2, dim=0, prepend=x, append=y),
                    torch.cdist(x, y), torch.cdist(y, y[:2], p=1.0))
    return Export(Net(), randn(2, 3), randn(3, 3))


@direct
def aten_reductions(model: Model) -> None:
    special, results = torch.tensor([[1.0, NAN, 3.0], [INF, 2.0, -1.0]]), []
    for x in (special, special.half(), torch.zeros(0, 3)):
        results += call(model, "nansum", torch.nansum, x, dim=(0,)) + call(model, "nanmean", torch.nanmean, x) + call(model, "median", torch.median, x)
        results += model.op("aten::var_mean", x, f=lambda x: torch.var_mean(x, 0, correction=0), keys=["input"], dim=(0,), unbiased=0, shown=False)
    results += call(model, "aminmax", torch.aminmax, special, dim=-1)
    z = values_of(torch.complex64, 2, 3)
    results += call(model, "std_mean", torch.std_mean, z) + call(model, "diff", torch.diff, z)
    show(model, results)


@direct
def aten_reductions_of_integers(model: Model) -> None:
    results = call(model, "diff", torch.diff, torch.tensor([True, False, False])) + call(model, "diff", torch.diff, randn(2, 3), n=5)
    for dtype in INTEGERS[::2]:
        x = values_of(dtype, 3, 2)
        results += call(model, "nansum", torch.nansum, x) + call(model, "nanmedian", torch.nanmedian, x) + call(model, "aminmax", torch.aminmax, x)
        results += call(model, "diff", torch.diff, x, dim=0)
    show(model, results)


@direct
def aten_norms(model: Model) -> None:
    results, special = [], torch.tensor([[1.0, NAN, 3.0], [INF, 2.0, -1.0]])
    for x in (values_of(torch.complex64, 2, 3), special, randn(2, 3, 4)):
        for order in (1, -1, INF, -INF):
            results += call(model, "linalg_matrix_norm", torch.linalg.matrix_norm, x, ord=order)
            results += call(model, "linalg_vector_norm", torch.linalg.vector_norm, x, ord=order)
    show(model, results)


@direct
def aten_cdist(model: Model) -> None:
    results, a, b = [], randn(2, 1, 3, 2), randn(4, 2)
    for p in (0.0, 0.5, 1.0, 2.0, 3.0, INF):
        results += call(model, "cdist", torch.cdist, a, b, second="x2", p=p)
    results += call(model, "cdist", torch.cdist, torch.zeros(2, 0), torch.zeros(3, 0), second="x2")
    for dtype in (torch.float32, torch.float64):
        odd = torch.tensor([[NAN, 1.0, INF], [2.0, 3.5, 2.0], [NAN, NAN, INF]], dtype=dtype)
        for p in (0.0, 0.5, 1.0, 2.0, INF):
            results += call(model, "cdist", torch.cdist, odd, odd.flip(1), second="x2", p=p)
    show(model, results)


@exported
def nn_LSTMCell() -> Export:
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.cell = nn.LSTMCell(3, 2)

        def forward(self, x, h, c):
            return self.cell(x, (h, c))
    return Export(Net(), randn(2, 3), randn(2, 2), randn(2, 2))


@exported
def nn_GRUCell() -> Export:
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.cell = nn.GRUCell(3, 2)

        def forward(self, x, h):
            return self.cell(x, self.cell(x, h))
    return Export(Net(), randn(2, 3), randn(2, 2))


@exported
def nn_RNNCell() -> Export:
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.cell, self.other = nn.RNNCell(3, 2), nn.RNNCell(2, 2, bias=False, nonlinearity="relu")

        def forward(self, x, h):
            return self.other(self.cell(x, h), h)
    return Export(Net(), randn(2, 3), randn(2, 2))


@exported
def lstm_as_a_function() -> Export:
    """The function behind the module, with its weights as a list."""
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.m = nn.LSTM(3, 2, proj_size=1)

        def forward(self, x, h, c):
            return torch._VF.lstm(x, (h, c), self.m._flat_weights, True, 1, 0.0, False, False, True)
    return Export(Net(), randn(2, 4, 3), randn(1, 2, 1), randn(1, 2, 2))


@exported
def gru_as_a_function() -> Export:
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.m = nn.GRU(3, 2, bidirectional=True)

        def forward(self, x, h):
            return torch._VF.gru(x, h, self.m._flat_weights, True, 1, 0.0, False, True, False)
    return Export(Net(), randn(2, 4, 3), randn(2, 4, 2))


@exported
def rnn_as_a_function() -> Export:
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.m = nn.RNN(3, 2, bias=False)

        def forward(self, x, h):
            settings = False, 1, 0.0, False, False, False
            return *torch._VF.rnn_tanh(x, h, self.m._flat_weights, *settings), *torch._VF.rnn_relu(x, h, self.m._flat_weights, *settings)
    return Export(Net(), randn(4, 3), randn(1, 2))


@exported
def tables_and_statistics_as_inputs() -> Export:
    class Net(nn.Module):
        def forward(self, x, table, i):
            return F.embedding(i, table, padding_idx=-1), F.instance_norm(x, table[0], table[1], use_input_stats=False)
    return Export(Net(), randn(2, 3, 4), randn(5, 3).abs(), random_integers(2, 4, high=5),
                  others=[(randn(1, 3, 4), randn(7, 3).abs(), random_integers(3, 4, high=7))])


@exported
def noise_of_unmatched_names() -> Export:
    class Net(nn.Module):
        def forward(self, x):
            return torch.rand_like(x), torch.normal(x, x), torch.normal(0.5, x), torch.normal(x, 2.0)
    return Export(Net(), torch.rand(2, 3), values=False)


@exported
def complex_sums_at_indices() -> Export:
    class Net(nn.Module):
        def forward(self, x, y, i):
            z = torch.complex(x, y)
            return z.index_add(0, i, z, alpha=2), z.index_put((i,), z, accumulate=True)
    return Export(Net(), randn(3, 2), randn(3, 2), torch.tensor([0, 0, 2]))


@direct
def other_spellings(model: Model) -> None:
    x, y = randn(3, 4), randn(2, 4)
    model.op("torch.cdist", x, y, keys=["x1", "x2"], p=1.0)
    model.op("torch.diff", x, n=2, dim=0)
    model.op("torch.dist", x, randn(3, 4), p=3.0)
    model.op("aten::conj", randn(3, dtype=torch.complex64), f=torch.conj)
    model.op("aten::resolve_neg", x, f=torch.resolve_neg)
    model.op("aten::unsafe_split", x, f=lambda x: torch.split(x, 2, 1), split_size_or_sections=2, dim=1)
    model.op("aten::unsafe_split_with_sizes", x, f=lambda x: torch.split(x, [1, 3], 1), split_size_or_sections=(1, 3),
             dim=1)


@direct(values=False)
def noise_like_a_tensor(model: Model) -> None:
    model.op("torch.rand_like", randn(2, 3))
    model.op("torch.rand_like", randn(0, 3), dtype=torch.float64)


@exported
def numbers_of_elements() -> Export:
    class Net(nn.Module):
        def forward(self, x):
            return x * x.numel(), x.reshape(x.numel() // 2, 2)
    return Export(Net(), randn(2, 3, 4), others=[(randn(3, 3, 4),), (randn(1, 3, 4),)])
