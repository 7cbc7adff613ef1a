"""Situations that users of exporters and runtimes have reported in public, as small models of our own. `tests/it/reported.rs`
lists them all, with those that are in other files."""

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from case import Export, exported, told
from values import rand, randn


@exported
def pooling_of_the_whole_map() -> Export:
    """Windows of the size of the map: PNNX leaves them to be computed."""
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.stem, self.head = nn.Conv2d(2, 3, 3, stride=2), nn.Linear(6, 2)

        def forward(self, x):
            maps = self.stem(x).relu()
            mean, highest = F.avg_pool2d(maps, maps.shape[2:]), F.max_pool2d(maps, kernel_size=maps.shape[2:])
            return self.head(torch.cat((mean, highest), 1).flatten(1))
    return Export(Net(), rand(1, 2, 9, 7), others=[(rand(2, 2, 6, 12),), (rand(1, 2, 3, 3),)])


@exported
def causal_attention_behind_a_cache() -> Export:
    """Which keys a query may see follows from how many are cached."""
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.query, self.key, self.value = nn.Linear(4, 4), nn.Linear(4, 4), nn.Linear(4, 4)

        def forward(self, x, keys, values):
            keys, values = torch.cat((keys, self.key(x)), 1), torch.cat((values, self.value(x)), 1)
            count, length = x.shape[1], keys.shape[1]
            hidden = torch.full((count, length), -math.inf).triu(length - count + 1)
            weights = torch.softmax(self.query(x) @ keys.mT / 2 + hidden, -1)
            return weights @ values, keys, values
    return Export(Net(), randn(1, 3, 4), randn(1, 2, 4), randn(1, 2, 4), others=[
        (randn(2, 2, 4), randn(2, 5, 4), randn(2, 5, 4)), (randn(1, 1, 4), randn(1, 7, 4), randn(1, 7, 4)), (randn(1, 4, 4), rand(1, 0, 4), rand(1, 0, 4))])


@exported
def tables_of_any_size() -> Export:
    class Net(nn.Module):
        def forward(self, x):
            length = x.shape[1]
            pairs = torch.cartesian_prod(torch.arange(length), torch.arange(3))
            return (x @ torch.eye(length), torch.tril_indices(length, length), x * torch.hann_window(length), pairs,
                    x / torch.logspace(0, 1, length))
    return Export(Net(), randn(2, 4), others=[(randn(1, 6),), (randn(3, 1),)])


@exported
def norm_over_a_shape_of_its_own() -> Export:
    class Net(nn.Module):
        def forward(self, x):
            return F.layer_norm(x, x.shape[1:]), F.layer_norm(x * 2 + 1, x.shape[-1:], eps=0.5)
    return Export(Net(), randn(2, 3, 5), others=[(randn(3, 2, 4),), (randn(1, 1, 2),)])


@exported
def middle_of_a_sequence() -> Export:
    class Net(nn.Module):
        def forward(self, x):
            quarter = x.shape[1] // 4
            return torch.narrow(x, 1, quarter, x.shape[1] - 2 * quarter) * 2, x.narrow(1, 0, quarter)
    return Export(Net(), randn(2, 8, 3), others=[(randn(1, 13, 3),), (randn(3, 2, 3),)])


@exported
def best_third() -> Export:
    class Net(nn.Module):
        def forward(self, scores):
            values, places = scores.topk(scores.shape[1] // 3, 1)
            return values.sum(1), places
    return Export(Net(), rand(2, 9), others=[(rand(3, 7),), (rand(1, 2),)])


@exported
def experts_of_chosen_groups() -> Export:
    """The best experts of the best groups, as mixtures of experts choose them for each token."""
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.gate, self.bias = nn.Linear(4, 8, bias=False), nn.Parameter(torch.randn(8) * 0.1)

        def forward(self, x):
            scores = self.gate(x).sigmoid()
            biased = scores + self.bias
            groups = biased.view(-1, 4, 2).topk(2, -1)[0].sum(-1)
            chosen = torch.zeros_like(groups).scatter_(1, groups.topk(2, -1)[1], 1.0)
            mask = chosen.unsqueeze(-1).expand(-1, 4, 2).reshape(-1, 8)
            experts = biased.masked_fill(~mask.bool(), 0.0).topk(2, -1)[1]
            weights = scores.gather(1, experts)
            return experts, weights / weights.sum(-1, keepdim=True)
    return Export(Net(), randn(3, 4), others=[(randn(5, 4),), (randn(1, 4),)])


@exported
def enhancer_with_its_states() -> Export:
    """A block of sound at a time: the states of both networks are in one tensor, which the caller keeps."""
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second, self.mask = nn.LSTM(9, 6, batch_first=True), nn.LSTM(6, 6, batch_first=True), nn.Linear(6, 9)

        def forward(self, block, states):
            spectrum = torch.fft.rfft(block)
            size, phase = spectrum.abs(), spectrum.angle()
            x, (h0, c0) = self.first(size, (states[0:1, :, :, 0].contiguous(), states[0:1, :, :, 1].contiguous()))
            x, (h1, c1) = self.second(x, (states[1:2, :, :, 0].contiguous(), states[1:2, :, :, 1].contiguous()))
            size = size * self.mask(x).sigmoid()
            sound = torch.fft.irfft(torch.complex(size * phase.cos(), size * phase.sin()))
            return sound, torch.stack((torch.cat((h0, h1)), torch.cat((c0, c1))), -1)
    return Export(Net(), randn(1, 1, 16), randn(2, 1, 6, 2))


@exported
def hidden_state_without_the_cell() -> Export:
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.lstm, self.head = nn.LSTM(3, 4, bidirectional=True), nn.Linear(4, 2)

        def forward(self, x):
            sequence, (hidden, _) = self.lstm(x)
            return sequence, self.head(hidden)
    return Export(Net(), randn(5, 2, 3))


@exported
def operators_that_stay_as_in_torchscript() -> Export:
    class Net(nn.Module):
        def forward(self, x):
            rows, columns = torch.meshgrid(torch.arange(3), torch.arange(2), indexing="ij")
            places = torch.stack((rows, columns), -1).reshape(-1, 2).float()
            return x.abs().clamp_min(0.25).log2(), torch.cdist(x, places), x.new_full((2, 3), 1.5)
    return Export(Net(), randn(4, 2))


@exported
def rows_assigned_in_a_loop() -> Export:
    class Net(nn.Module):
        def forward(self, x):
            y = x.clone()
            for row in range(1, 4):
                y[:, row] = y[:, row - 1] * 0.5 + x[:, row]
            return y
    return Export(Net(), randn(2, 4, 3))


@exported
def thresholds_and_modes() -> Export:
    """A sampler's dynamic threshold, and the most frequent label."""
    class Net(nn.Module):
        def forward(self, x):
            limit = torch.quantile(x.abs().flatten(1), 0.8, dim=1).clamp(min=0.5).unsqueeze(1)
            return x.clamp(-limit, limit) / limit, torch.mode((x * 3).round().long(), -1)[0]
    return Export(Net(), randn(2, 15))


@exported
def convolution_called_twice_level0() -> Export:
    """At optimisation level 0, PNNX writes its name and its weights twice."""
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv = nn.Conv2d(2, 2, 3, padding=1)

        def forward(self, x):
            return self.conv(self.conv(x).relu())
    return Export(Net(), randn(1, 2, 4, 5), optlevel=0)


class OfAnotherBatch(Export):
    """A static export, with the inputs of another batch."""

    def __init__(self, module: nn.Module, sample: Tensor, given: Tensor):
        super().__init__(module, sample)
        self.given = given

    def export(self) -> None:
        super().export()
        self.sets = [(self.given,)]


@told
def another_batch_than_exported() -> Export:
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv, self.head = nn.Conv2d(2, 4, 3, padding=1), nn.Linear(2, 3)

        def forward(self, x):
            count, _, rows, columns = x.shape
            return self.head(self.conv(x).view(count, 2, 2, rows * columns).mean(-1))
    return OfAnotherBatch(Net(), rand(1, 2, 3, 4), rand(3, 2, 3, 4))


@told
def branch_of_a_script() -> Export:
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = nn.Linear(3, 3)

        def forward(self, x):
            if x.mean() > 0:
                y = self.fc(x)
            else:
                y = x * 2
            return y
    return Export(Net(), rand(2, 3), scripted=True)


@told
def index_that_lost_an_axis() -> Export:
    class Net(nn.Module):
        def forward(self, x):
            return x[torch.tensor([[0, 2], [1, 0], [2, 2]])]
    return Export(Net(), randn(3, 2))


@told
def counts_added_in_place() -> Export:
    class Net(nn.Module):
        def forward(self, codes):
            return torch.zeros(5).index_add_(0, codes, torch.ones(4))
    return Export(Net(), torch.tensor([3, 0, 3, 2]))


@told
def pre_emphasis_that_lost_its_slices() -> Export:
    class Net(nn.Module):
        def forward(self, wave):
            return wave[:, 1:] - 0.97 * wave[:, :-1]
    return Export(Net(), randn(2, 6), others=[(randn(2, 9),)])
