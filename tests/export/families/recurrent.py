"""Networks that read sequences: RNN, LSTM and GRU."""

import torch
from torch import Tensor, nn

from case import Export
from modules import export_each, scrambled
from values import randn

INPUTS, HIDDEN = 3, 4
FORMS = {
    "": dict(),
    "_of_both_directions": dict(bidirectional=True, num_layers=2),
    "_batch_first": dict(batch_first=True, bias=False, num_layers=2),
}


def sequences(options: dict, *sizes: tuple[int, int]) -> list[Tensor]:
    """Inputs of these lengths and batches."""
    first = options.get("batch_first", False)
    return [randn(n, length, INPUTS) if first else randn(length, n, INPUTS) for length, n in sizes]


def without_states(kind: str, options: dict) -> Export:
    inner = scrambled(getattr(nn, kind)(INPUTS, HIDDEN, **options))

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = inner

        def forward(self, x):
            y, states = self.inner(x)
            return y, states
    samples = sequences(options, (5, 2), (3, 1), (1, 2), (6, 3))
    return Export(Net(), samples[0], others=[(sample,) for sample in samples[1:]])


def states_of(options: dict, n: int, size: int = HIDDEN) -> Tensor:
    return randn(options.get("num_layers", 1) * (2 if options.get("bidirectional") else 1), n, size)


def with_states(kind: str, options: dict) -> Export:
    inner = scrambled(getattr(nn, kind)(INPUTS, HIDDEN, **options))

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = inner

        def forward(self, x, *states):
            y, states = self.inner(x, states if kind == "LSTM" else states[0])
            return y * 2, states

    def inputs(length: int, n: int) -> tuple[Tensor, ...]:
        states = [states_of(options, n, options.get("proj_size") or HIDDEN)]
        states += [states_of(options, n)] if kind == "LSTM" else []
        return (*sequences(options, (length, n)), *states)
    return Export(Net(), *inputs(4, 2), others=[inputs(2, 1), inputs(5, 3)])


def last_only(kind: str) -> Export:
    """Models that use only the outputs, or only the last state."""
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.a = scrambled(getattr(nn, kind)(INPUTS, HIDDEN, batch_first=True))
            self.b = scrambled(getattr(nn, kind)(HIDDEN, 2, batch_first=True, bidirectional=True))

        def forward(self, x):
            y = self.a(x)[0]
            state = self.b(y)[1]
            last = state[0] if kind == "LSTM" else state
            return y[:, -1], torch.cat([last[0], last[1]], dim=1)
    return Export(Net(), randn(2, 4, INPUTS), others=[(randn(1, 6, INPUTS),), (randn(3, 1, INPUTS),)])


def register(kind: str) -> None:
    for form, options in FORMS.items():
        export_each(f"nn_{kind}{form}", lambda options=options: without_states(kind, options))
    export_each(f"nn_{kind}_with_states", lambda: with_states(kind, {"bidirectional": True, "batch_first": True}))
    export_each(f"nn_{kind}_of_a_network", lambda: last_only(kind))


for kind in ("RNN", "LSTM", "GRU"):
    register(kind)
export_each("nn_RNN_relu", lambda: with_states("RNN", {"nonlinearity": "relu", "num_layers": 3}))
export_each("nn_LSTM_projected", lambda: without_states("LSTM", {"proj_size": 2, "num_layers": 2, "bidirectional": True}))
export_each("nn_LSTM_projected_with_states", lambda: with_states("LSTM", {"proj_size": 3}))
