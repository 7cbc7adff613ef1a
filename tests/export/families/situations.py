"""Situations of exported models that are easily got wrong: results that shapes alone tell apart, numbers that are tensors,
types and ellipses that PNNX loses, layers that follow results of unknown size."""

import torch
from torch import Tensor, nn

from case import Export, exported
from values import rand, randn, random_integers


@exported
def states_of_sequences_of_any_length() -> Export:
    """The final states alone, of networks with one layer and one direction: with unknown lengths, they look like a sequence."""
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.gru, self.lstm, self.rnn = nn.GRU(3, 2), nn.LSTM(3, 2, batch_first=True), nn.RNN(3, 2, batch_first=True)
            self.projected = nn.LSTM(3, 4, proj_size=2)

        def forward(self, x):
            _, hidden = self.gru(x)
            _, (last, memory) = self.lstm(x)
            output, state = self.rnn(x)
            state = state * 2
            _, (projected, wide) = self.projected(x)
            return hidden, last, memory, state, output * 2, wide * 2, projected
    return Export(Net(), randn(4, 1, 3), others=[(randn(3, 2, 3),), (randn(1, 4, 3),)])


def normed(optlevel: int) -> Export:
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.a = nn.utils.parametrizations.weight_norm(nn.Conv1d(2, 3, 2))
            self.b = nn.utils.parametrizations.weight_norm(nn.ConvTranspose1d(3, 2, 3), dim=2)
            self.c = nn.utils.parametrizations.weight_norm(nn.Linear(2, 2), dim=None)

        def forward(self, x):
            return self.c(self.b(torch.relu(self.a(x))).transpose(1, 2))
    return Export(Net(), randn(1, 2, 5), others=[(randn(2, 2, 3),)], optlevel=optlevel)


@exported
def weights_of_given_lengths_level0() -> Export:
    return normed(0)


@exported
def weights_of_given_lengths_level1() -> Export:
    return normed(1)


@exported
def comparisons_in_place() -> Export:
    """Their results have the element type of the tensor that they overwrite."""
    class Net(nn.Module):
        def forward(self, x, i):
            return ((x + 1).gt_(0.5), (i + 0).eq_(2), (x * 1).le_(x * 2).mean(), (x > 0).logical_and_(x < 1), (x * 1).logical_not_() + 0.5,
                    (x * 3).lt_(1).float(), (i + 1).ne_(i * 2).sum(0))
    return Export(Net(), randn(2, 3), random_integers(2, 3, high=4), others=[(randn(4, 3), random_integers(4, 3, high=4))])


@exported
def comparisons_in_place_level0() -> Export:
    class Net(nn.Module):
        def forward(self, x):
            return (x + 1).gt_(0.5), (x * 1).logical_not_().mean(1)
    return Export(Net(), randn(2, 3), optlevel=0)


class Contracted(nn.Module):
    def forward(self, x, w, y):
        return (torch.einsum("...nd,md->...nm", x, w), torch.einsum("b...d,d->b...", x, w[0]), torch.einsum("...ij,...jk->...ik", x, y),
                torch.einsum("...i,...i->...", x, x), torch.einsum("...d,hd->h...", x, w), torch.einsum("mi,...id,md->...m", w[:, :4], x, w))


@exported
def ellipses_of_sums() -> Export:
    """PNNX drops the ellipses of equations."""
    return Export(Contracted(), randn(2, 3, 4, 5), randn(6, 5), randn(2, 3, 5, 2))


@exported
def ellipses_of_sums_of_any_size() -> Export:
    def inputs(*batch: int) -> tuple[Tensor, ...]:
        return randn(*batch, 4, 5), randn(6, 5), randn(*batch, 5, 2)
    return Export(Contracted(), *inputs(2, 3), others=[inputs(3, 1), inputs(1, 2)])


@exported
def numbers_in_front() -> Export:
    """The first argument is a constant, which PNNX writes as a parameter."""
    class Net(nn.Module):
        def forward(self, i, x):
            return (1 << i, 2 ** i, torch.remainder(9, i), torch.tensor(-1.5).repeat(x.shape[0]), torch.tensor([5.0]).repeat(2, x.shape[1]),
                    torch.tensor(2.0).expand_as(x), torch.pow(2, x), torch.where(x > 0, 1, x))
    return Export(Net(), random_integers(3, low=1, high=5), randn(2, 3), others=[(random_integers(4, low=1, high=5), randn(3, 5))])


@exported
def lists_of_numbers_level1() -> Export:
    """Tensors of one element, which PNNX writes as numbers, among the tensors of a list."""
    class Net(nn.Module):
        def forward(self, x):
            zero, one = torch.broadcast_tensors(torch.tensor(0.0), torch.tensor([1.0]))
            two, _ = torch.broadcast_tensors(torch.tensor(2.0), x)
            return (x * zero + one, two, torch.cat([x.flatten(), torch.tensor([1.0])]), torch.cartesian_prod(torch.tensor([3.0]), x[0]),
                    torch.hstack([x[0], torch.tensor([4.0])]), torch.block_diag(torch.tensor([[2.0]]), x))
    return Export(Net(), randn(2, 3), others=[(randn(4, 2),)], optlevel=1)


@exported
def sizes_without_axes_level0() -> Export:
    """PNNX writes `None` for an empty list."""
    class Net(nn.Module):
        def forward(self, x):
            total = x.sum()
            return (torch.full((), x.shape[0]) + total, torch.zeros(()) + total, x.new_full((), 2.0) * total, total.view(()), total.expand(()),
                    total.permute(()), total.repeat(()), x.sum(()), torch.ones((), dtype=torch.long) + x.shape[1])
    return Export(Net(), randn(2, 3), optlevel=0)


@exported
def convolution_of_found_rows_level1() -> Export:
    """A convolution of known size that follows results whose size is not known before the run."""
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv = nn.Conv2d(16, 16, 3, padding=1)

        def forward(self, rows, places):
            found, inverse = torch.unique(places, return_inverse=True)
            sums = torch.zeros(found.shape[0], 16).index_add(0, inverse, rows)
            canvas = torch.zeros(144, 16).index_copy(0, found, sums).t().reshape(1, 16, 12, 12)
            return nn.functional.avg_pool2d(torch.relu(self.conv(canvas)), 12)
    def inputs(count: int) -> tuple[Tensor, Tensor]:
        return rand(count, 16), random_integers(count, high=144)
    return Export(Net(), *inputs(5), others=[inputs(9), inputs(1)], optlevel=1)


@exported
def convolution_of_found_channels_level0() -> Export:
    """A factor of a convolution's result is not planned, but the convolution is."""
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second = nn.Conv2d(1, 16, 3, padding=1), nn.Conv2d(16, 16, 3, padding=1, groups=16)

        def forward(self, x, v):
            found = torch.nonzero(v > 0).flatten()
            mask = torch.zeros(16).index_fill(0, found, 1.0).view(1, 16, 1, 1)
            return nn.functional.avg_pool2d(self.second(torch.relu(self.first(x)) * mask), 12)
    return Export(Net(), randn(1, 1, 12, 12), randn(16), optlevel=0)


@exported
def network_called_for_each_result_level1() -> Export:
    """Two calls of one network with the same input, of which one returns the sequence, and the other the state."""
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.gru = nn.GRU(3, 2)

        def forward(self, x):
            _, state = self.gru(x)
            output, _ = self.gru(x)
            return torch.relu(state), torch.relu(output)
    return Export(Net(), randn(4, 2, 3), others=[(randn(3, 1, 3),)], optlevel=1)
