"""Attention: scaled dot products, and whole multi-head attention."""

import itertools

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from case import Export, Model, direct
from modules import Each, export_each, scrambled
from values import FLOATS, INF, NAN, randn, random_bools

sdpa = F.scaled_dot_product_attention


def mask_of(*shape: int) -> Tensor:
    """What may be seen: every row sees something."""
    mask = random_bools(*shape)
    mask[..., 0] = True
    return mask


def attention_settings() -> Export:
    def call(query, key, value, bools, numbers):
        return (sdpa(query, key, value), sdpa(query, key, value, is_causal=True), sdpa(query, key, value, scale=0.3),
                sdpa(query, key, value, bools > 0), sdpa(query, key, value, attn_mask=numbers, scale=1.5),
                sdpa(query, key, value, attn_mask=numbers[0, 0]))

    def inputs(n, heads, rows, columns, length, width):
        return (randn(n, heads, rows, length), randn(n, heads, columns, length), randn(n, heads, columns, width),
                mask_of(rows, columns).float(), randn(n, heads, rows, columns))
    return Export(Each(call), *inputs(2, 3, 4, 5, 3, 2), others=[
        inputs(1, 3, 6, 3, 3, 2), inputs(3, 3, 1, 7, 3, 2), inputs(2, 3, 5, 5, 3, 2)])


export_each("F_scaled_dot_product_attention", attention_settings)


def shared_heads() -> Export:
    def call(query, key, value):
        return sdpa(query, key, value, enable_gqa=True), sdpa(query, key, value, is_causal=True, enable_gqa=True)
    return Export(Each(call), randn(2, 6, 4, 3), randn(2, 2, 5, 3), randn(2, 2, 5, 3), others=[
        (randn(1, 6, 3, 3), randn(1, 2, 2, 3), randn(1, 2, 2, 3)), (randn(3, 6, 1, 3), randn(3, 2, 4, 3), randn(3, 2, 4, 3))])


export_each("attention_of_shared_heads", shared_heads)


def by_hand() -> Export:
    """Attention as models write it, which PNNX may or may not see as one operator."""
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.project = scrambled(nn.Linear(6, 18))

        def forward(self, x):
            n, length, e = x.shape
            query, key, value = self.project(x).view(n, length, 3, 2, 3).permute(2, 0, 3, 1, 4).unbind(0)
            scores = (query @ key.transpose(-2, -1)) * 3 ** -0.5
            return (scores.softmax(-1) @ value).transpose(1, 2).reshape(n, length, e)
    return Export(Net(), randn(1, 4, 6), others=[(randn(2, 5, 6),), (randn(3, 1, 6),), (randn(1, 7, 6),)])


export_each("attention_by_hand", by_hand)


@direct
def F_scaled_dot_product_attention_direct(model: Model) -> None:
    name, keys = "F.scaled_dot_product_attention", ["query", "key", "value"]

    def ask(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None, **params) -> None:
        named = {} if mask is None else {"attn_mask": mask}
        model.op(name, query, key, value, keys=keys, named=named, **params)

    q, k, v = randn(4, 3), randn(5, 3), randn(5, 2)
    ask(q, k, v)
    ask(q, k, v, dropout_p=0.0, is_causal=False, scale=None)
    ask(q, k, v, mask=mask_of(4, 5))
    ask(q, k, v, mask=mask_of(4, 1) | True)
    ask(q, k, v, mask=torch.zeros(4, 5, dtype=torch.bool))
    ask(q, k, v, mask=torch.full((4, 5), -INF))
    ask(q, k, v, is_causal=True, scale=0)
    ask(k, q, randn(4, 1), is_causal=True, scale=-1.5)
    for batch in [(2,), (2, 1, 3), (1, 2, 1, 2)]:
        ask(randn(*batch, 2, 3), randn(*batch, 4, 3), randn(*batch, 4, 2), is_causal=True)
    ask(randn(2, 3, 4, 2), randn(1, 3, 5, 2), randn(2, 1, 5, 2))
    ask(randn(2, 4, 3, 2), randn(2, 4, 5, 2), randn(2, 4, 5, 3), mask=mask_of(2, 1, 3, 5))
    ask(randn(2, 4, 3, 2), randn(2, 4, 5, 2), randn(2, 4, 5, 3), mask=randn(4, 1, 5))
    ask(randn(1, 4, 3, 2), randn(1, 2, 5, 2), randn(1, 2, 5, 2), mask=randn(1, 4, 3, 5), enable_gqa=True)
    ask(randn(2, 4, 3, 2), randn(2, 1, 5, 2), randn(2, 1, 5, 2), enable_gqa=True)
    for dims in [((0, 3, 2), (0, 4, 2)), ((2, 0, 2), (2, 4, 2)), ((2, 3, 2), (2, 0, 2)), ((1, 2, 3, 2), (1, 2, 0, 2))]:
        ask(randn(*dims[0]), randn(*dims[1]), randn(*dims[1]))
    wide = [tensor.double() for tensor in (q, k, v)]
    ask(*wide)
    ask(*wide, mask=randn(4, 5, dtype=torch.float64))
    ask(torch.tensor([[NAN, 1.0], [1.0, 2.0]]), torch.tensor([[1.0, 2.0], [-INF, 1.0]]), randn(2, 2))
    ask(q * 1e4, k, v)


@direct(tolerance=1e-2)
def attention_of_halves(model: Model) -> None:
    for dtype in FLOATS[2:]:
        q, k, v = (randn(1, 2, length, 4, dtype=dtype) for length in (3, 5, 5))
        model.op("F.scaled_dot_product_attention", q, k, v, keys=["query", "key", "value"])
        model.op("F.scaled_dot_product_attention", q, k, v, keys=["query", "key", "value"],
                 named={"attn_mask": mask_of(3, 5)})


E, HEADS = 6, 2


def layout(batch_first: bool, n: int, rows: int, length: int) -> Tensor:
    return randn(n, rows, length) if batch_first else randn(rows, n, length)


class Attend(nn.Module):
    """A multi-head attention with given ways to call it."""

    def __init__(self, options: dict, calls: list[dict], masks: tuple[str, ...] = (), own: bool = False):
        super().__init__()
        self.inner = scrambled(nn.MultiheadAttention(E, HEADS, **options))
        self.calls, self.masks, self.own = calls, masks, own

    def forward(self, query, *others):
        key, value = (query, query) if self.own else others[:2]
        masks = {}
        for name, mask in zip(self.masks, others[0 if self.own else 2:], strict=True):
            # PNNX takes no inputs of truth values.
            masks[name.split(".")[0]] = mask > 0 if "bool" in name else mask
        results = [self.inner(query, key, value, **call, **masks) for call in self.calls]
        return tuple(tensor for result in results for tensor in result if tensor is not None)


WITH, WITHOUT, EACH = {}, {"need_weights": False}, {"average_attn_weights": False}
FORMS = {
    "plain": dict(),
    "batch_first": dict(batch_first=True),
    "without_bias": dict(bias=False, batch_first=True),
    "other_lengths": dict(kdim=4, vdim=5, batch_first=True),
    "learnt_rows": dict(add_bias_kv=True, batch_first=True),
    "zero_rows": dict(add_zero_attn=True),
    "both_rows": dict(add_bias_kv=True, add_zero_attn=True, kdim=3, vdim=3, batch_first=True),
}


def multihead(options: dict, masks: tuple[str, ...] = ()) -> Export:
    first = options.get("batch_first", False)
    kdim, vdim = options.get("kdim", E), options.get("vdim", E)

    def inputs(n: int, rows: int, columns: int) -> tuple[Tensor, ...]:
        made = [layout(first, n, rows, E), layout(first, n, columns, kdim), layout(first, n, columns, vdim)]
        for mask in masks:
            made.append(made_mask(mask, n, rows, columns))
        return tuple(made)
    return Export(Attend(options, [WITH, WITHOUT], masks), *inputs(2, 3, 4),
                  others=[inputs(1, 5, 2), inputs(3, 1, 6), inputs(2, 4, 4)])


def made_mask(kind: str, n: int, rows: int, columns: int) -> Tensor:
    """A mask that hides what is true, or is added; the first column is always seen."""
    shapes = {"attn_mask": (rows, columns), "key_padding_mask": (n, columns)}
    name, *more = kind.split(".")
    shape = (n * HEADS, rows, columns) if "each" in more else shapes[name]
    if "bool" in more:
        return (~mask_of(*shape)).float()
    return randn(*shape)


def register(form: str, options: dict) -> None:
    export_each(f"nn_MultiheadAttention_{form}", lambda: multihead(options))


for form in FORMS.items():
    register(*form)
MASKS = {
    "bool_mask": ("attn_mask.bool",), "float_mask": ("attn_mask",), "masks_of_heads": ("attn_mask.each",),
    "padding_mask": ("key_padding_mask.bool",), "two_masks": ("attn_mask.bool.each", "key_padding_mask.bool"),
    # PNNX calls the last one `attn_mask`, and the other one nothing.
    "float_padding_mask": ("key_padding_mask",), "two_float_masks": ("attn_mask", "key_padding_mask"),
}


def register_masks(name: str, masks: tuple[str, ...]) -> None:
    export_each(f"nn_MultiheadAttention_{name}", lambda: multihead({"batch_first": True}, masks))


for entry in MASKS.items():
    register_masks(*entry)
export_each("nn_MultiheadAttention_masks_and_rows", lambda: multihead(
    {"add_bias_kv": True, "add_zero_attn": True}, ("attn_mask", "key_padding_mask.bool")))
class Stored(nn.Module):
    """A multi-head attention with stored masks of floats, which PNNX writes before the query."""

    def __init__(self):
        super().__init__()
        self.inner = scrambled(nn.MultiheadAttention(E, HEADS, batch_first=True))
        self.register_buffer("scores", randn(3, 4))
        self.register_buffer("hidden", randn(2, 4))

    def forward(self, query, memory):
        masks = [{"attn_mask": self.scores}, {"key_padding_mask": self.hidden}]
        masks.append(masks[0] | masks[1])
        return tuple(self.inner(query, memory, memory, need_weights=False, **mask)[0] for mask in masks)


export_each("nn_MultiheadAttention_stored_masks", lambda: Export(Stored(), randn(2, 3, E), randn(2, 4, E)))
export_each("nn_MultiheadAttention_of_itself", lambda: Export(
    Attend({}, [WITH, WITHOUT], own=True), randn(3, 2, E), others=[(randn(5, 1, E),), (randn(1, 3, E),), (randn(4, 2, E),)]))
# PNNX takes modules that differ in nothing but this for the same.
export_each("nn_MultiheadAttention_of_each_head", lambda: Export(
    Attend({}, [EACH], own=True), randn(3, 2, E), others=[(randn(5, 1, E),), (randn(1, 3, E),)]))
export_each("nn_MultiheadAttention_of_each_head_unbatched", lambda: Export(
    Attend({"add_zero_attn": True}, [EACH]), randn(3, E), randn(4, E), randn(4, E)))
export_each("nn_MultiheadAttention_unbatched", lambda: Export(
    Attend({}, [WITH, WITHOUT]), randn(3, E), randn(4, E), randn(4, E), others=[
        (randn(1, E), randn(2, E), randn(2, E)), (randn(5, E), randn(5, E), randn(5, E))]))
export_each("nn_MultiheadAttention_unbatched_masks", lambda: Export(
    Attend({}, [WITH, WITHOUT], ("attn_mask.bool", "key_padding_mask.bool")), randn(3, E), randn(4, E), randn(4, E),
    made_mask("attn_mask.bool", 1, 3, 4), made_mask("key_padding_mask.bool", 1, 1, 4)[0]))


def transformer() -> Export:
    layer = nn.TransformerEncoderLayer(E, HEADS, 8, batch_first=True, activation="gelu", norm_first=True)
    return Export(scrambled(layer), randn(1, 4, E), others=[(randn(2, 3, E),), (randn(3, 1, E),), (randn(1, 6, E),)])


def with_padding(optlevel: int, is_fixed: bool = False) -> Export:
    """PyTorch adds the mask of an encoder as floats."""
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = scrambled(nn.TransformerEncoderLayer(E, HEADS, 8, batch_first=True))

        def forward(self, x, hidden):
            # PNNX takes no inputs of truth values.
            return self.layer(x, src_key_padding_mask=hidden > 0)

    def inputs(n: int, rows: int) -> tuple[Tensor, Tensor]:
        return randn(n, rows, E), made_mask("key_padding_mask.bool", n, 1, rows)
    # With sizes that never change, PNNX stores a mask that is filled already.
    return Export(Net(), *inputs(2, 4), others=[] if is_fixed else [inputs(3, 5), inputs(1, 3)], optlevel=optlevel)


def decoder() -> Export:
    layer = scrambled(nn.TransformerDecoderLayer(E, HEADS, 8))

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = layer

        def forward(self, x, memory, mask):
            return self.layer(x, memory, tgt_mask=mask)
    causal = nn.Transformer.generate_square_subsequent_mask
    return Export(Net(), randn(4, 1, E), randn(3, 1, E), causal(4), others=[
        (randn(2, 2, E), randn(5, 2, E), causal(2)), (randn(6, 1, E), randn(1, 1, E), causal(6))])


export_each("transformer_encoder_layer", transformer)
export_each("transformer_encoder_layer_with_padding", lambda: with_padding(2))
export_each("transformer_encoder_layer_with_padding_level0", lambda: with_padding(0))
export_each("transformer_encoder_layer_of_fixed_sizes", lambda: with_padding(2, is_fixed=True))
export_each("transformer_decoder_layer", decoder)


def split(module: nn.MultiheadAttention) -> dict[str, Tensor]:
    return {key: tensor.detach() for key, tensor in module.state_dict().items()}


@direct
def nn_MultiheadAttention_direct(model: Model) -> None:
    def ask(options: dict, *args: Tensor, keys: list[str], outputs: int = 2, dtype: torch.dtype = torch.float32, **named: Tensor) -> None:
        module = scrambled(nn.MultiheadAttention(E, HEADS, **options)).to(dtype)

        def call(*inputs: Tensor, **masks: Tensor):
            query, key, value = {1: (0, 0, 0), 2: (0, 1, 1), 3: (0, 1, 2)}[len(inputs)]
            results = module(inputs[query], inputs[key], inputs[value], need_weights=outputs == 2, **masks)
            return [result for result in results if result is not None]
        params = {"embed_dim": E, "num_heads": HEADS, "bias": True, "add_bias_kv": False, "add_zero_attn": False,
                  "batch_first": False, "kdim": E, "vdim": E} | options
        model.op("nn.MultiheadAttention", *args, f=call, weights=split(module), keys=keys, named=named, **params)

    every = ["query", "key", "value"]
    ask({}, randn(3, 2, E), keys=["query"])
    ask({}, randn(3, 2, E), randn(4, 2, E), randn(4, 2, E), keys=every, outputs=1)
    ask({"batch_first": True}, randn(0, 3, E), randn(0, 4, E), randn(0, 4, E), keys=every)
    ask({"batch_first": True}, randn(2, 3, E, dtype=torch.float64), keys=["query"], dtype=torch.float64)
    # Rows that see nothing.
    hidden = torch.zeros(3, 4, dtype=torch.bool)
    hidden[1] = True
    ask({}, randn(3, 2, E), randn(4, 2, E), randn(4, 2, E), keys=every, outputs=1, attn_mask=hidden)
    ask({}, randn(3, 2, E), randn(4, 2, E), randn(4, 2, E), keys=every, attn_mask=hidden)
