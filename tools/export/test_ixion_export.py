"""Tests of `ixion_export.py`, and of every remedy on the book's page "What PNNX gets wrong, and what to do".

    IXION=target/release/ixion python tools/export/test_ixion_export.py

Each loss has a model that has it, in which it must be found, on the right line, and one that avoids it, whose results must be
PyTorch's. Without the command `ixion`, results are not compared.
"""

import contextlib
import io
import json
import subprocess
import sys
import tempfile
import unittest
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

import numpy as np
import torch
import torch.nn.functional as F
import torchvision
from torch import Tensor, nn

import ixion_export as export
from ixion_export import ExportError, ixion_export

torch.set_num_threads(1)
HAS_IXION = export.find_ixion(None) is not None


def floats(*shape: int) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(1)) * 4


def integers(*shape: int) -> Tensor:
    return torch.randint(-20, 20, shape, generator=torch.Generator().manual_seed(1))


# Models with a loss, and the same without.


def assigned(x):
    y = x.clone()
    y[:, 1:] = 0
    return y


def assigned_to_size(x):
    y = x.clone()
    y[:, 1:x.shape[1]] = 0
    return y


def windows(x: Tensor, batch: Callable[[Tensor, Tensor, Tensor], int]) -> Tensor:
    b, h, w, c = x.shape
    parts = x.view(b, h // 4, 4, w // 4, 4, c).permute(0, 1, 3, 2, 4, 5).reshape(-1, 16, c).softmax(1)
    n = batch(parts, h, w)
    return parts.view(n, h // 4, w // 4, 4, 4, -1).permute(0, 1, 3, 2, 4, 5).reshape(n, h, w, -1)


def scaled_in_place(x):
    scale, results = torch.ones(3), []
    for _ in range(3):
        scale *= 2
        results.append(x * scale)
    return torch.stack(results)


def scaled_anew(x):
    scale, results = torch.ones(3), []
    for _ in range(3):
        scale = scale * 2
        results.append(x * scale)
    return torch.stack(results)


PLACES = [torch.tensor([0, 2, 4]), torch.tensor([1, 2, 3])]


def summed_in_place(x):
    total = torch.zeros(2, 6)
    for places in PLACES:
        total.index_add_(1, places, x)
    return total


def summed_anew(x):
    total = torch.zeros(2, 6)
    for places in PLACES:
        total = total.index_add(1, places, x)
    return total


def added_to_slices(x):
    total = torch.zeros(2, 6)
    total[:, 1:4] += x
    total[:, 2:5] += x
    return total


def added_as_padded(x):
    total = torch.zeros(2, 6)
    total = total + F.pad(x, (1, 2))
    return total + F.pad(x, (2, 1))


@torch.jit.script
def doubled_by_a_script(x: Tensor, n: int) -> Tensor:
    for _ in range(n):
        x = x * 2
    return x


def doubled(x: Tensor, n: int) -> Tensor:
    for _ in range(n):
        x = x * 2
    return x


class Normed(nn.Module):
    """Batch norm by its statistics, or by those of the batch."""

    def __init__(self, is_by_batch: bool):
        super().__init__()
        self.is_by_batch = is_by_batch
        self.norm = nn.BatchNorm2d(3, track_running_stats=not is_by_batch)

    def forward(self, x: Tensor):
        if self.is_by_batch:
            return F.batch_norm(x, None, None, self.norm.weight, self.norm.bias, True)
        return F.batch_norm(x, self.norm.running_mean.clone(), self.norm.running_var.clone(), training=True)


class Attention(nn.Module):
    def __init__(self, is_padding: bool):
        super().__init__()
        self.inner, self.is_padding = nn.MultiheadAttention(8, 2, batch_first=True), is_padding

    def forward(self, x: Tensor, hidden: Tensor):
        if self.is_padding:
            return self.inner(x, x, x, key_padding_mask=hidden, need_weights=False)[0]
        n, length = x.shape[:2]
        mask = hidden[:, None, None, :].expand(n, 2, length, length).reshape(n * 2, length, length)
        return self.inner(x, x, x, attn_mask=mask, need_weights=False)[0]


def hidden(n: int, length: int) -> Tensor:
    return torch.arange(length) > torch.arange(n)[:, None] % (length - 1)


class Called(nn.Module):
    """A module that a function calls, which PNNX knows as such."""

    def __init__(self, part: nn.Module, call: Callable):
        super().__init__()
        self.part, self.call = part, call

    def forward(self, *inputs: Tensor):
        return self.call(self.part, *inputs)


def masked(part: nn.Module, x: Tensor, **options: bool):
    return part(x, mask=nn.Transformer.generate_square_subsequent_mask(x.shape[1]), **options)


class Masked(nn.Module):
    """Attention with a mask that the module keeps."""

    def __init__(self, is_buffer: bool, change: Callable[[Tensor], Tensor] = lambda mask: mask):
        super().__init__()
        self.part, self.change = nn.MultiheadAttention(8, 2, batch_first=True), change
        self.register_buffer("mask", floats(5, 5)) if is_buffer else setattr(self, "mask", floats(5, 5))

    def forward(self, x: Tensor):
        return self.part(x, x, x, attn_mask=self.change(self.mask), need_weights=False)[0]


def encoder() -> nn.Module:
    return nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), 1, enable_nested_tensor=False)


def states(call: Callable) -> nn.Module:
    """A function of the states of an LSTM."""
    return Called(nn.LSTM(3, 5, batch_first=True), lambda lstm, x: call(*lstm(x)))


def scaled(norm: nn.Module, has_bias: bool) -> nn.Module:
    """A normalisation within another module, with a weight that matters."""
    nn.init.uniform_(norm.weight, 2, 3)
    norm.bias = nn.Parameter(torch.zeros_like(norm.weight)) if has_bias else None
    return nn.Sequential(norm, nn.ReLU())


def without_biases() -> nn.Module:
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True, bias=False)
    nn.init.uniform_(layer.norm1.weight, 2, 3)
    return layer


def with_zeros() -> nn.Module:
    layer = without_biases()
    for part in layer.modules():
        if isinstance(part, nn.LayerNorm):
            part.bias = nn.Parameter(torch.zeros_like(part.weight))
    return layer


def weighted(norm: Callable, dim: int) -> nn.Module:
    return nn.Sequential(norm(nn.Conv1d(3, 4, 3), dim=dim), nn.ReLU())


def packed(part: nn.Module, x: Tensor, lengths: Tensor) -> Tensor:
    return part(nn.utils.rnn.pack_padded_sequence(x, lengths))[0].data


class BothDirections(nn.Module):
    """An LSTM of both directions for sequences with padding, in place of packed ones."""

    def __init__(self, lstm: nn.LSTM):
        super().__init__()
        forwards, backwards = (nn.LSTM(lstm.input_size, lstm.hidden_size, batch_first=True) for _ in range(2))
        weights = lstm.state_dict()
        forwards.load_state_dict({name: weights[name] for name in forwards.state_dict()})
        backwards.load_state_dict({name: weights[f"{name}_reverse"] for name in backwards.state_dict()})
        self.forwards, self.backwards = forwards, backwards

    def forward(self, x: Tensor, lengths: Tensor) -> Tensor:
        at = torch.arange(x.shape[1])[None]
        ends = lengths[:, None]
        order = torch.where(at < ends, ends - 1 - at, at)[:, :, None]
        y = self.forwards(x)[0]
        z = self.backwards(x.gather(1, order.expand(-1, -1, x.shape[2])))[0]
        z = z.gather(1, order.expand(-1, -1, z.shape[2]))
        return torch.cat((y, z), 2).masked_fill((at >= ends)[:, :, None], 0)


def copied(source: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
    def copied(x):
        y = torch.zeros(2, 3, 4) + x
        y.copy_(source(x))
        return y.sum(1)
    return copied


def positive(x: Tensor) -> Tensor:
    """The rows that begin with a positive number."""
    return x[x[:, 0] > 0]


def all_but_last(x):
    found = positive(x)
    return found[:found.shape[0] - 1]


def at_most_three(x):
    found = positive(x)
    return found[torch.arange(found.shape[0]) < 3]


INDEX = torch.tensor([[0, 1], [1, 0]])
ROW, IMAGE, MATRIX = (floats(2, 6),), (floats(1, 8, 8, 3),), (floats(2, 3),)


@dataclass
class Pair:
    """Models with a loss, and the same without."""

    section: str
    lost: Sequence[Callable | nn.Module]
    kept: Sequence[Callable | nn.Module]
    inputs: Sequence[Tensor]
    dynamic: Sequence[str] = ()
    tolerance: float = 1e-4
    has_line: bool = True


PAIRS = {
    "slices": Pair(
        export.SLICES,
        [lambda x: x[:, 1:], lambda x: x[:, :-1], lambda x: x[:, -2:] * x[:, :2] + x[:, ::2].sum(1, keepdim=True), lambda x: x[:, 1:] - x[:, :-1], assigned],
        [lambda x: x[:, 1:x.shape[1]], lambda x: x[:, :x.shape[1] - 1], lambda x: x[:, x.shape[1] - 2:x.shape[1]], lambda x: x[:, 0:x.shape[1]:2],
         lambda x: x.narrow(1, 1, x.shape[1] - 1), lambda x: x[:, 1:x.shape[1]] - x[:, 0:x.shape[1] - 1], assigned_to_size, lambda x: x[:, :4]],
        ROW, ["0.1"]),
    "sizes": Pair(
        export.FROZEN,
        [lambda x: x[:, :int(x.shape[1] / 2)], lambda x: torch.stack([x[:, i] * i for i in range(x.shape[1])], 1)],
        [lambda x: x[:, :x.shape[1] // 2], lambda x: x * torch.arange(x.shape[1])], ROW, ["0.1"]),
    "windows": Pair(
        export.FROZEN, [lambda x: windows(x, lambda parts, h, w: int(parts.shape[0] / (h * w / 16)))],
        [lambda x: windows(x, lambda parts, h, w: parts.shape[0] // (h // 4 * (w // 4)))], IMAGE, ["0.0"]),
    "values": Pair(
        export.FROZEN, [lambda x: x * 2 if x.sum() > 0 else x - 1, lambda x: x * float(x.mean())],
        [lambda x: torch.where(x.sum() > 0, x * 2, x - 1), lambda x: x * x.mean(), lambda x: x[x[:, 0] > 0].flatten().unsqueeze(0)], MATRIX),
    "indices": Pair(
        export.INDICES, [lambda x: x[INDEX]],
        [lambda x: x[INDEX.flatten()].reshape(2, 2, -1), lambda x: F.embedding(INDEX, x), lambda x: x.index_select(0, INDEX.flatten()).unflatten(0, (2, 2))], MATRIX),
    "constants": Pair(
        export.CONSTANTS, [scaled_in_place, summed_in_place, added_to_slices], [scaled_anew, summed_anew, added_as_padded], MATRIX),
    "rounding": Pair(
        export.ROUNDING, [lambda x: torch.div(x, 2, rounding_mode="floor"), lambda x: torch.div(x, 2, rounding_mode="trunc")],
        [lambda x: torch.floor(x / 2), lambda x: x // 2, lambda x: torch.trunc(x / 2)], ROW),
    "rounding integers": Pair(
        export.ROUNDING, [lambda n: torch.div(n, 3, rounding_mode="trunc"), lambda n: (torch.div(n, 3, rounding_mode="floor"), n / 3)],
        [lambda n: torch.trunc(n / 3).long(), lambda n: (n // 3, n / 3), lambda n: torch.div(n, 3, rounding_mode="floor")], (integers(2, 6),)),
    "masks": Pair(
        export.MASKS, [Attention(True)], [Attention(False)], (floats(4, 4, 8), hidden(4, 4)), has_line=False),
    "numbers": Pair(
        export.NUMBERS, [lambda x: x.masked_fill(x > 0, -2**32 + 1)],
        [lambda x: x.masked_fill(x > 0, -4294967295.0), lambda x: x.masked_fill(x > 0, float("-inf"))], MATRIX),
    "integers": Pair(
        export.NUMBERS, [lambda n: n + 2**40], [lambda n: n + torch.full((1,), 2**40)], (integers(2, 3),)),
    "doubles": Pair(
        export.NUMBERS, [lambda x: x * 0.12345678901234567],
        [lambda x: x * torch.full((3,), 0.12345678901234567, dtype=x.dtype)], (floats(2, 3).double(),), tolerance=1e-12),
    "statistics": Pair(
        export.STATISTICS, [Normed(False)], [Normed(True), lambda x: F.batch_norm(x, None, None, training=True)], (floats(2, 3, 4, 4),)),
    "halves": Pair(export.HALVES, [lambda x: (x.half() * 3).float()], [lambda x: x * 3], MATRIX),
    "scripts": Pair(export.SCRIPTS, [lambda x: doubled_by_a_script(x, 3) + 1], [lambda x: doubled(x, 3) + 1], MATRIX),
    "scripts of torchvision": Pair(
        export.SCRIPTS, [lambda boxes, scores, classes: torchvision.ops.batched_nms(boxes, scores, classes, 0.5)],
        [lambda boxes, scores, classes: torchvision.ops.nms(boxes + classes[:, None] * 4096, scores, 0.5)],
        (torch.cat((floats(9, 2), floats(9, 2) + 8), 1), floats(9, 1)[:, 0], torch.arange(9) % 2), has_line=False),
    "causal masks": Pair(
        export.CAUSAL, [Called(encoder(), masked), Called(encoder(), lambda part, x: masked(part, x, is_causal=True))],
        [Called(encoder(), lambda part, x: masked(part, x, is_causal=False))], (floats(2, 5, 8),), has_line=False),
    "constant masks": Pair(
        export.CONSTANT_MASKS, [Masked(False)], [Masked(True), Masked(False, torch.clone)], (floats(2, 5, 8),), has_line=False),
    "states": Pair(
        export.STATES,
        [states(lambda x, s: s[1]), states(lambda x, s: (x, s[1])), states(lambda x, s: (s[1], s[0]))],
        [states(lambda x, s: s[0]), states(lambda x, s: s), states(lambda x, s: torch.stack(s)[1]), states(lambda x, s: (x, torch.stack(s)[1]))],
        (floats(2, 4, 3),), has_line=False),
    "cells": Pair(
        export.CONSTANTS,
        [Called(nn.LSTMCell(3, 5), lambda cell, x: cell(x)), Called(nn.GRUCell(3, 5), lambda cell, x: cell(x, torch.ones(2, 5)))],
        [Called(nn.LSTMCell(3, 5), lambda cell, x: cell(x, ((0 * x[:, :1]).expand(-1, 5), (0 * x[:, :1]).expand(-1, 5)))),
         Called(nn.GRUCell(3, 5), lambda cell, x: cell(x, torch.ones(2, 5) + 0 * x[:, :1]))], MATRIX),
    "filled masks": Pair(
        export.CONSTANTS, [Called(encoder(), lambda part, x, hidden: part(x, src_key_padding_mask=hidden) + x)],
        [Called(encoder(), lambda part, x, hidden: part(x, src_key_padding_mask=torch.where(hidden, -torch.inf, 0.0)))],
        (floats(2, 5, 8), hidden(2, 5))),
    "decimals": Pair(export.DECIMALS, [lambda x: torch.round(x, decimals=1)], [lambda x: torch.round(x * 10) / 10], MATRIX),
    "normalisations": Pair(
        export.NORMS,
        [scaled(nn.LayerNorm(8), False), scaled(nn.GroupNorm(2, 4), False), scaled(nn.InstanceNorm1d(4, affine=True), False), without_biases()],
        [scaled(nn.LayerNorm(8), True), scaled(nn.GroupNorm(2, 4), True), scaled(nn.InstanceNorm1d(4, affine=True), True), with_zeros()],
        (floats(2, 4, 8),), has_line=False),
    "weight normalisation": Pair(
        export.WEIGHT_NORM, [weighted(nn.utils.weight_norm, 1), weighted(nn.utils.weight_norm, 2)],
        [weighted(nn.utils.weight_norm, 0), weighted(nn.utils.parametrizations.weight_norm, 2)], (floats(2, 3, 6),), has_line=False),
    "copies": Pair(export.COPIES, [copied(lambda x: x[0])], [copied(lambda x: x[0].expand_as(x))], (floats(2, 3, 4),)),
    "empty lists": Pair(
        export.EMPTY, [lambda x: torch.all(x > 0, dim=()), lambda x: x.squeeze(()) * 2, lambda x: torch.fft.fftn(x, dim=()).real],
        [lambda x: x > 0, lambda x: x * 2], (floats(2, 1, 3),)),
    "lengths": Pair(export.LENGTHS, [all_but_last], [lambda x: positive(x)[:-1], lambda x: positive(x)[1:]], (floats(6, 3),)),
    "dynamic lengths": Pair(
        export.LENGTHS, [lambda x: positive(x)[:-1], lambda x: positive(x)[1:], lambda x: positive(x)[:4]],
        [all_but_last, lambda x: positive(x)[1:positive(x).shape[0]], at_most_three], (floats(6, 3),), ["0.0"]),
    "random": Pair(
        export.RANDOM, [lambda x: F.dropout(x, 0.5, True), lambda x: x + torch.randn(2, 3)], [lambda x: F.dropout(x, 0.5, False)], MATRIX),
}


class Losses(unittest.TestCase):
    """Losses are found, and the remedies help."""

    def run_pair(self, pair: Pair) -> None:
        for position, model in enumerate(pair.lost):
            with self.subTest(lost=position):
                report = self.exported(model, pair)
                found = [loss for loss in report.losses if loss.section == pair.section]
                self.assertTrue(found, str(report))
                self.assertFalse(report.ok)
                if pair.has_line:
                    files = {Path(file).name for loss in found for file, _ in loss.places}
                    self.assertEqual(files, {Path(__file__).name}, str(report))
        for position, model in enumerate(pair.kept):
            with self.subTest(kept=position):
                report = self.exported(model, pair)
                self.assertEqual(report.losses, [], str(report))
                self.assertEqual(report.ok, HAS_IXION, str(report))

    def exported(self, model: Callable, pair: Pair) -> export.Report:
        with tempfile.TemporaryDirectory() as folder:
            return ixion_export(model, pair.inputs, dynamic=pair.dynamic, output=folder, name="model", tolerance=pair.tolerance)


def test_of(pair: Pair) -> Callable[[Losses], None]:
    return lambda self: self.run_pair(pair)


for name, pair in PAIRS.items():
    setattr(Losses, f"test_{name.replace(' ', '_')}", test_of(pair))


class Exports(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def test_a_network_with_two_samples_and_its_card(self):
        torch.manual_seed(0)
        network = nn.Sequential(nn.Conv2d(3, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 2))
        card = {"task": "classify", "description": "a \"test\"", "input": {"size": [8, 8], "mean": [0.5, 0.5, 0.5]}, "output": {"labels": ["a", "ä"]}}
        report = ixion_export(network, floats(1, 3, 8, 8), dynamic=["0.0", "0.2,0.3:12"], output=self.folder, name="net", card=card)
        self.assertEqual(report.losses, [], str(report))
        text = report.card.read_text(encoding="utf-8")
        for line in ['name = "net"', 'task = "classify"', r'description = "a \"test\""', "[input]", "size = [8, 8]", "[output]", 'labels = ["a", "ä"]']:
            self.assertIn(line, text.splitlines())
        self.assertIn("#0=(?,3,?,?)f32", report.param.read_text())
        names = {path.name for path in self.folder.iterdir()}
        self.assertEqual(names, {"net.pnnx.param", "net.pnnx.bin", "model.toml", "arrays.npz", "arrays_1.npz"})
        if HAS_IXION:
            self.assertTrue(report.ok, str(report))
            self.assertEqual([sample.shapes for sample in report.samples], [[[1, 3, 8, 8]], [[2, 3, 12, 12]]])
            self.assertEqual(self.verify(), 0)
            arrays = dict(np.load(self.folder / "arrays_1.npz"))
            np.savez(self.folder / "arrays_1.npz", **arrays | {"out_0": arrays["out_0"] + 1})
            self.assertEqual(self.verify(), 1)

    def verify(self) -> int:
        """The exit code of `ixion verify`, which compares both samples again."""
        return subprocess.run([export.find_ixion(None), "verify", self.folder], capture_output=True, check=False).returncode

    def test_a_second_sample_of_ones_own_and_nested_outputs(self):
        def model(ids: Tensor, table: Tensor):
            found = F.embedding(ids, table)
            return found, (found.sum(1), [ids * 2])
        first, second = (torch.tensor([[0, 2, 1]]), floats(3, 4)), (torch.tensor([[4, 3], [0, 1]]), floats(5, 4))
        report = ixion_export(model, first, second=second, output=self.folder)
        self.assertEqual(report.param.name, "model.pnnx.param")
        self.assertEqual((report.losses, report.ok), ([], HAS_IXION), str(report))

    def test_both_directions_without_packed_sequences(self):
        lstm, lengths = nn.LSTM(3, 4, batch_first=True, bidirectional=True), torch.tensor([5, 2])
        model, x = BothDirections(lstm), floats(2, 5, 3)
        sequences = nn.utils.rnn.pack_padded_sequence(x, lengths, batch_first=True)
        wanted = nn.utils.rnn.pad_packed_sequence(lstm(sequences)[0], batch_first=True)[0]
        torch.testing.assert_close(model(x, lengths), wanted)
        report = ixion_export(model, (x, lengths), dynamic=["0.0,1.0", "0.1"], output=self.folder)
        self.assertEqual((report.losses, report.ok), ([], HAS_IXION), str(report))

    def test_what_contradicts_the_file_is_reported_with_its_line(self):
        graph = torch.jit.trace(export.as_module(lambda x: x[INDEX]), MATRIX, check_trace=False).inlined_graph
        places = export.places_of_operator(graph, "Tensor.index", "Tensor.index_1", "2×2×3 f32")
        self.assertEqual([Path(file).name for file, _ in places], [Path(__file__).name])

    def test_models_that_cannot_be_exported(self):
        half = nn.Sequential(nn.Linear(3, 4)).half()
        norm = nn.Sequential(nn.Conv1d(3, 3, 1), nn.BatchNorm1d(3, track_running_stats=False))
        for model, inputs, options, words in [
            (lambda x: x.scatter(1, torch.zeros(2, 3).long(), x, reduce="add"), floats(2, 3), {}, "perhaps: `scatter` with reduce"),
            (Called(nn.GRU(3, 4), packed), (floats(5, 2, 3), torch.tensor([5, 3])), {}, "findArgument[^#]*perhaps: a packed sequence"),
            (half, floats(2, 3).half(), {}, "half precision"),
            (norm, floats(2, 3, 4), {}, "no running statistics"),
            (nn.Linear(3, 4), floats(2, 5), {}, "the model fails on 2×5"),
            (nn.ReLU(), floats(2, 3), {"dynamic": ["0.7"]}, "there is no axis 7 of input 0"),
            (nn.ReLU(), floats(2, 3), {"dynamic": ["0.0:2"]}, "has 2 elements in both samples"),
            (nn.ReLU(), floats(2, 3), {"dynamic": ["x"]}, "expected INPUT.AXIS"),
            (nn.ReLU(), floats(2, 3), {"card": {"tasks": "detect"}}, "unknown key `tasks`"),
            (nn.ReLU(), torch.tensor(1.0), {}, "input 0 is a scalar"),
            (nn.ReLU(), floats(2, 3), {"ixion": "/no/such/ixion"}, "there is no such command"),
            (lambda x: str(x), floats(2, 3), {}, "the model returns str"),
            (nn.ReLU(), [[1.0, 2.0]], {}, "input 0 is list; expected a tensor"),
            (nn.ReLU(), floats(2, 3).bfloat16(), {}, "input 0 is bfloat16"),
            (lambda x: x.bfloat16(), floats(2, 3), {}, r"output 0 is bfloat16.*`.float\(\)`"),
            (torch.matmul, (floats(2, 3), floats(3, 2)), {"dynamic": ["0.1"]}, "name axes that always have the same size together"),
        ]:
            with self.subTest(words), self.assertRaisesRegex(ExportError, words):
                ixion_export(model, inputs, output=self.folder, **options)

    def test_samples_of_an_earlier_export_are_removed(self):
        ixion_export(torch.add, (floats(2, 3), floats(2, 3)), output=self.folder, name="model")
        report = ixion_export(torch.abs, floats(0, 3), dynamic=["0.0"], output=self.folder, name="model")
        files = {"model.pnnx.param", "model.pnnx.bin", "model.toml"}
        self.assertEqual({path.name for path in self.folder.iterdir()}, files | {"arrays.npz", "arrays_1.npz"})
        self.assertEqual(report.ok, HAS_IXION, str(report))
        ixion_export(torch.abs, floats(2, 3), output=self.folder, name="model")
        self.assertEqual({path.name for path in self.folder.iterdir()}, files | {"in_0.npy", "out_0.npy"})

    def test_an_error_is_said_once(self):
        samples = [export.Sample([[2, 3]], problem="no\n  hint"), export.Sample([[4, 3]], problem="no\n  hint"), export.Sample([[5, 3]], 0.0)]
        report = export.Report(self.folder, self.folder / "m.pnnx.param", self.folder / "model.toml", samples)
        wanted = ["2×3: no", "  hint", "4×3: the same error", "5×3: as PyTorch, max difference 0", "Nothing was found that PNNX is known to lose."]
        self.assertEqual(str(report).splitlines()[1:], wanted)

    def test_nothing_is_changed(self):
        def model(x):
            return x.add_(1)
        x = floats(2, 3)
        kept = x.clone()
        ixion_export(model, x, output=self.folder)
        self.assertTrue(torch.equal(x, kept))


class CommandLine(unittest.TestCase):
    def run_main(self, *arguments: str) -> tuple[int, str, str]:
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = export.main(list(arguments))
        return code, out.getvalue(), err.getvalue()

    def test_a_function_of_a_file(self):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "my_models.py")
            path.write_text("from torch import nn\ndef small():\n    return nn.Conv2d(3, 2, 1)\n")
            code, out, err = self.run_main(f"{path}:small", "--inputs", "1x3x4x4", "--dynamic", "0.2", "--output", f"{folder}/out", "--task", "none", "--json")
            report = json.loads(out)
            self.assertEqual((report["losses"], report["ok"], code, err), ([], HAS_IXION, 0 if HAS_IXION else 1, ""))
            code, _, err = self.run_main(f"{path}:large", "--inputs", "1x3x4x4")
            self.assertEqual((code, err.splitlines()[0].endswith("has no `large`")), (2, True), err)
            code, _, err = self.run_main(f"{path}:small")
            self.assertEqual((code, "--inputs is missing" in err), (2, True), err)

    def test_inputs(self):
        self.assertEqual(export.parse_input("1x3x4").shape, (1, 3, 4))
        ids = export.parse_input("2x50:i64<7")
        self.assertTrue(ids.dtype == torch.int64 and 0 <= ids.min() and ids.max() < 7)
        self.assertEqual(export.parse_input("3:bool").dtype, torch.bool)
        self.assertEqual(export.parse_input("3:c64").dtype, torch.complex64)
        for wrong in ["", "1x", "1x3:float", "axb", "2:i64<"]:
            with self.subTest(wrong), self.assertRaises(ExportError):
                export.parse_input(wrong)

    def test_arrays_are_compared(self):
        one, nan = np.float32([1, 2]), np.float32([np.nan, np.inf])
        self.assertEqual(export.compare(one, one, 1e-4), (0.0, None))
        self.assertEqual(export.compare(nan, nan, 1e-4)[1], None)
        self.assertIsNotNone(export.compare(one, nan, 1e-4)[1])
        self.assertIsNotNone(export.compare(one, one[:1], 1e-4)[1])
        self.assertIsNotNone(export.compare(one, one.astype(np.float64), 1e-4)[1])
        self.assertEqual(export.compare(np.int64([1, 2]), np.int64([1, 3]), 1e-4), (1.0, "1 of 2 elements differ"))


if __name__ == "__main__":
    unittest.main()
