"""Softmax, its relatives, embeddings, and distances of vectors."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from case import Export, Model, direct
from modules import Each, export_each, scrambled
from values import ALL, FLOATS, INF, INTEGERS, NAN, rand, randn, random_integers, special, values_of

KINDS = [("Softmax", "softmax"), ("LogSoftmax", "log_softmax"), ("Softmin", "softmin")]


def register(module: str, function: str) -> None:
    kind, apply = getattr(nn, module), getattr(F, function)
    export_each(f"nn_{module}", lambda: Export(
        Each(kind(0), kind(1), kind(-1)), randn(2, 3, 4), others=[(randn(1, 2, 5),), (randn(3, 1, 1),), (randn(2, 4, 2),)]))
    export_each(f"F_{function}", lambda: Export(
        Each(lambda x: apply(x, 0), lambda x: apply(x, dim=2), lambda x: apply(x, -2, dtype=torch.float64)),
        randn(2, 3, 4)))


for kind in KINDS:
    register(*kind)
export_each("nn_Softmax2d", lambda: Export(
    nn.Softmax2d(), randn(1, 3, 2, 2), others=[(randn(2, 3, 3, 1),), (randn(1, 4, 1, 2),), (randn(2, 2, 2, 2),)]))


@direct
def F_softmax_direct(model: Model) -> None:
    rows = torch.tensor([[1.0, -INF, -INF], [-INF, -INF, -INF], [INF, 1.0, 2.0], [NAN, 1.0, 2.0],
                         [3e38, 3e38, -3e38], [1e4, 1e4, -1e4], [-0.0, 0.0, 0.0]])
    for module, function in KINDS:
        model.op(f"F.{function}", rows, dim=1)
        model.op(f"F.{function}", rows.double(), dim=0)
        for shape, dim in [((), 0), ((), -1), ((5,), 0), ((0, 3), 1), ((3, 0), 1), ((2, 0, 3), 2), ((1, 2, 1, 2, 1, 2, 1, 3), -1)]:
            model.op(f"F.{function}", randn(*shape), dim=dim)
        model.op(f"nn.{module}", randn(2, 3), dim=-2)
        for dtype in [*INTEGERS[:4], torch.bool]:
            if dtype != torch.bool or function != "softmin":
                model.op(f"F.{function}", values_of(dtype, 4), dim=0, dtype=torch.float32)
    for rank in (1, 2, 3, 4):
        model.op("F.softmax", randn(*(2, 3, 2, 1)[:rank]), dim=None)
    model.op("nn.Softmax2d", randn(3, 2, 2))
    model.op("F.softmax", randn(2, 3), dim=1, dtype=torch.float16, f=lambda x: F.softmax(x, 1, dtype=torch.float64).half())


@direct(tolerance=1e-2)
def softmax_of_halves(model: Model) -> None:
    for dtype in FLOATS[2:]:
        for _, function in KINDS:
            model.op(f"F.{function}", randn(2, 5, dtype=dtype), dim=1)
            model.op(f"F.{function}", randn(3, 2, dtype=dtype), dim=0, dtype=torch.float32)


export_each("nn_Embedding", lambda: Export(
    Each(nn.Embedding(7, 3), nn.Embedding(7, 2, padding_idx=2), nn.Embedding(7, 2, max_norm=None, scale_grad_by_freq=True)),
    random_integers(2, 3, high=7), others=[(random_integers(1, 5, high=7),), (random_integers(4, 1, high=7),),
                                           (random_integers(3, 2, high=7),)]))
export_each("F_embedding", lambda: Export(
    Each(F.embedding, lambda x, weight: F.embedding(x[0], weight, padding_idx=1),
         lambda x, weight: F.embedding(x, weight, scale_grad_by_freq=True)),
    random_integers(2, 3, high=5), randn(5, 4), others=[(random_integers(1, 2, high=6), randn(6, 4)),
                                                       (random_integers(3, 4, high=3), randn(3, 4))]))


@direct
def F_embedding_direct(model: Model) -> None:
    at = random_integers(2, 2, high=4)
    for dtype in ALL:
        model.op("F.embedding", at, values_of(dtype, 4, 2))
    table = randn(4, 2)
    model.op("F.embedding", at.int(), table, padding_idx=0)
    model.op("F.embedding", torch.tensor(3), table)
    for shape in [(0,), (2, 0), (1, 2, 1, 2, 1, 1)]:
        model.op("F.embedding", random_integers(*shape, high=4), table)
    model.op("F.embedding", at, randn(4, 0))
    model.op("nn.Embedding", at, num_embeddings=4, embedding_dim=3)
    model.op("nn.Embedding", at, num_embeddings=4, embedding_dim=3, padding_idx=-2, sparse=False)


DISTANCES = [{}, {"p": 1}, {"p": 3.5, "eps": 0.1}, {"p": INF, "keepdim": True}, {"p": 0}]
export_each("F_pairwise_distance", lambda: Export(
    Each(*[lambda x1, x2, each=each: F.pairwise_distance(x1, x2, **each) for each in DISTANCES[:4]]), randn(3, 4), randn(3, 4),
    others=[(randn(1, 4), randn(1, 4)), (randn(2, 4), randn(2, 4)), (randn(5, 4), randn(5, 4))]))
export_each("F_cosine_similarity", lambda: Export(
    Each(F.cosine_similarity, lambda a, b: F.cosine_similarity(a, b, dim=0), lambda a, b: F.cosine_similarity(a, b, -1, 0.5)),
    randn(3, 4), randn(3, 4), others=[(randn(1, 2), randn(1, 2)), (randn(2, 5), randn(2, 5)), (randn(5, 3), randn(5, 3))]))


@direct
def F_pairwise_distance_direct(model: Model) -> None:
    keys = ["x1", "x2"]
    x1, x2 = randn(3, 4), randn(3, 4)
    for each in [*DISTANCES, {"p": -1}, {"p": -INF}, {"p": 0.5, "keepdim": True, "eps": 1}]:
        model.op("F.pairwise_distance", x1, x2, keys=keys, **each)
    for dtype in [torch.float64, *INTEGERS]:
        model.op("F.pairwise_distance", values_of(dtype, 2, 3), values_of(dtype, 2, 3), keys=keys)
    for a, b in [((4,), (4,)), ((0, 3), (0, 3)), ((2, 0), (2, 0)), ((2, 3, 4), (4,)), ((4,), (2, 4)), ((2, 1, 3), (1, 2, 3))]:
        model.op("F.pairwise_distance", randn(*a), randn(*b), keys=keys)
    model.op("F.pairwise_distance", torch.tensor([[NAN, 1.0], [INF, 1.0]]), torch.zeros(2, 2), keys=keys)


@direct
def F_cosine_similarity_direct(model: Model) -> None:
    keys = ["x1", "x2"]
    for dtype in [torch.float64]:
        model.op("F.cosine_similarity", randn(2, 3, dtype=dtype), randn(2, 3, dtype=dtype), keys=keys)
    for a, b, dim in [((4,), (4,), 0), ((0, 3), (0, 3), 1), ((2, 0), (2, 0), 1), ((2, 3, 4), (4,), 2), ((3, 1, 4), (2, 1), 1),
                      ((2, 1, 3), (1, 2, 3), -2), ((1, 2, 1, 2, 1, 2, 1, 2), (2,), -1)]:
        model.op("F.cosine_similarity", randn(*a), randn(*b), keys=keys, dim=dim)
    model.op("F.cosine_similarity", torch.zeros(2, 3), randn(2, 3), keys=keys)
    model.op("torch.cosine_similarity", randn(2, 3), randn(2, 3), keys=keys, dim=0)
    model.op("F.cosine_similarity", torch.tensor([[NAN, 1.0], [1e-9, 1e-9]]), torch.ones(2, 2), keys=keys)
    model.op("F.cosine_similarity", randn(2, 3), randn(2, 3), keys=keys, eps=1)


@direct(tolerance=2e-2)
def distances_of_halves(model: Model) -> None:
    for dtype in FLOATS[2:]:
        x1, x2 = randn(2, 4, dtype=dtype), randn(2, 4, dtype=dtype)
        model.op("F.pairwise_distance", x1, x2, keys=["x1", "x2"])
        model.op("F.pairwise_distance", x1, x2, keys=["x1", "x2"], p=1, keepdim=True)
        model.op("F.cosine_similarity", x1, x2, keys=["x1", "x2"])
