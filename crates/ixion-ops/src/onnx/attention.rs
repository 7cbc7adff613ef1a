//! Attention with all that ONNX adds to PyTorch's: a cache, positions behind it, windows, capped scores and scores as a result.

use super::decompose::{Decompose, entry};
use super::decomposition::Decomposition;
use super::fields::{Flag, Optional};
use super::lowering::Source;
use super::shapes::part;
use crate::activation::softmax::Softmax;
use crate::arithmetic::comparison::{Eq, Ge, Le, LogicalAnd, Lt, Ne};
use crate::attention::dot_product::{OptionalInput, ScaledDotProductAttention};
use crate::creation::filled::OnesLike;
use crate::indexing::selection::{MaskedFill, Where};
use crate::layout::axes::{Permute, Transpose};
use crate::layout::concatenation::Cat;
use crate::layout::padding::{Pad, PaddingMode};
use crate::layout::repetition::RepeatInterleave;
use crate::layout::reshaping::{Flatten, Unflatten, Unsqueeze};
use crate::matmul::product::Matmul;
use crate::op::{LayerError, Result};
use crate::reduction::along_axes::{Amax, Sum};
use crate::reduction::scan::Cumsum;
use crate::support::arguments::{Accumulator, InputIndex, OutputCount, ParamOrInput, RecordedType, Wanted};
use crate::support::broadcast::TensorOrScalar;
use ixion_tensor::{DType, Dim, Scalar};

const X: Source = Source::Input(0);

crate::operator! {
    /// `Attention` (since 23): softmax(scale · Q·Kᵀ + mask) · V with a cache of earlier keys and values. Tensors are
    /// N×heads×steps×size, or N×steps×heads·size with the numbers of heads as parameters. The further outputs are the keys and
    /// the values with the cache, and the scores.
    pub struct Attention for "Attention" {
        /// Whether a query sees only keys at its own position and before it.
        is_causal: Flag = Flag::of(0),
        /// Number of heads of the queries, if their tensors have three axes.
        q_num_heads: Option<i64> = None,
        /// Number of heads of the keys and the values, if their tensors have three axes.
        kv_num_heads: Option<i64> = None,
        /// Factor of the products; 1/√E by default.
        scale: Option<f64> = None,
        /// Bound that scores approach, by tanh; 0 without one.
        softcap: f64 = 0.0,
        /// How many keys before its position a query sees; −1 for all.
        left_window_size: i64 = -1,
        /// How many keys behind its position a query sees; −1 for all.
        right_window_size: i64 = -1,
        /// Which scores the fourth output is: 0 the products, 1 capped, 2 masked, 3 after softmax.
        qk_matmul_output_mode: i64 = 0,
        /// The keys.
        k as "K": InputIndex,
        /// The values.
        v as "V": InputIndex,
        /// The mask: bools are true for keys that are seen, floats are added to the scores.
        attn_mask: Optional = Optional(None),
        /// Earlier keys.
        past_key: Optional = Optional(None),
        /// Earlier values.
        past_value: Optional = Optional(None),
        /// Number of keys that are no padding, for each sample.
        nonpad_kv_seqlen: Optional = Optional(None),
        /// Number of outputs.
        outputs: OutputCount,
    }
    validate |layer| {
        if !(0..=3).contains(&layer.qk_matmul_output_mode) {
            return Err(LayerError::invalid("qk_matmul_output_mode", layer.qk_matmul_output_mode, "it must be from 0 to 3"));
        }
        Ok(())
    }
}

crate::operator! {
    /// `PaddingMask`: which keys a query sees, from a mask of Microsoft's attention operators, as bools that are broadcast to
    /// N×heads×L×S. The mask has N lengths, N×S numbers that are 0 for padding, or N×L×S of them.
    pub struct PaddingMask for "PaddingMask" {
        /// The keys, N×S×heads·size.
        keys: InputIndex,
    }
}

impl Decompose for PaddingMask {
    fn decompose(&self, decomposition: &mut Decomposition) -> Result<Vec<Source>> {
        let other = TensorOrScalar::Number(Scalar::Int(0));
        Ok(vec![match decomposition.rank(X)? {
            1 => {
                let keys = decomposition.then(Unsqueeze { dim: vec![1] }, &[Source::Input(self.keys.0)])?;
                let columns = columns(decomposition, keys)?;
                let lens = decomposition.then(Unsqueeze { dim: vec![1, 2, 3] }, &[X])?;
                decomposition.then(Lt { other: TensorOrScalar::Input(1) }, &[columns, lens])?
            }
            rank @ (2 | 3) => {
                let seen = decomposition.then(Ne { other }, &[X])?;
                let dim = if rank == 2 { vec![1, 2] } else { vec![1] };
                decomposition.then(Unsqueeze { dim }, &[seen])?
            }
            4 => decomposition.then(Ne { other }, &[X])?,
            _ => return Err(LayerError::shape("the mask", "N, N×S or N×L×S", decomposition.meta(X)?)),
        }])
    }
}

crate::operator! {
    /// `RotaryHeads`: N×heads×steps×size or N×steps×heads·size as N×steps×heads×size, for Microsoft's rotary embedding.
    pub struct RotaryHeads for "RotaryHeads" {
        /// Cosines, whose last axis is half as long as a head.
        cos: InputIndex,
    }
}

impl Decompose for RotaryHeads {
    fn decompose(&self, decomposition: &mut Decomposition) -> Result<Vec<Source>> {
        if decomposition.rank(X)? == 4 {
            return Ok(vec![decomposition.then(Permute { dims: vec![0, 2, 1, 3] }, &[X])?]);
        }
        let cos = decomposition.meta(Source::Input(self.cos.0))?;
        let Some(pairs) = cos.dims().last().and_then(Dim::fixed).filter(|pairs| *pairs > 0) else {
            return Err(LayerError::shape(
                "the cosines",
                "positions×pairs, with a known number of pairs",
                cos,
            ));
        };
        let sizes = ParamOrInput::Value(vec![-1, pairs.saturating_mul(2)]);
        Ok(vec![decomposition.then(Unflatten { dim: -1, sizes }, &[X])?])
    }
}

crate::operator! {
    /// `RotaryJoined`: N×steps×heads×size with the axes of the tensor that `RotaryHeads` took apart.
    pub struct RotaryJoined for "RotaryJoined" {
        /// That tensor.
        like: InputIndex,
    }
}

impl Decompose for RotaryJoined {
    fn decompose(&self, decomposition: &mut Decomposition) -> Result<Vec<Source>> {
        let is_split = decomposition.rank(Source::Input(self.like.0))? == 4;
        Ok(vec![match is_split {
            true => decomposition.then(Permute { dims: vec![0, 2, 1, 3] }, &[X])?,
            false => decomposition.then(Flatten { start_dim: 2, end_dim: 3 }, &[X])?,
        }])
    }
}

crate::operator! {
    /// `RotaryPositions`: the position of each step, N×steps or 1×steps, from N×steps positions, or from a single one at which
    /// every sequence starts.
    pub struct RotaryPositions for "RotaryPositions" {
        /// N×steps×heads×size.
        x: InputIndex,
    }
}

impl Decompose for RotaryPositions {
    fn decompose(&self, decomposition: &mut Decomposition) -> Result<Vec<Source>> {
        if decomposition.rank(X)? == 2 {
            return Ok(vec![X]);
        }
        let heads_first =
            decomposition.then(Permute { dims: vec![0, 2, 1, 3] }, &[Source::Input(self.x.0)])?;
        let rows = columns(decomposition, heads_first)?;
        let steps = decomposition.then(Flatten { start_dim: 0, end_dim: 2 }, &[rows])?;
        let start = decomposition.cast(X, DType::I64)?;
        Ok(vec![decomposition.compute("add(@0,@1)", &[steps, start])?])
    }
}

/// A one for each step of N×heads×steps×size, as 1×1×steps×1. A cache is large, so only one element of each step is read.
fn ones(decomposition: &mut Decomposition, x: Source) -> Result<Source> {
    let [starts, ends] = [0, 1].map(|bound| Some(ParamOrInput::Value(vec![bound; 3])));
    let few = decomposition.then(part(Some(vec![0, 1, 3]), starts, ends, None), &[x])?;
    let ones = decomposition.then(OnesLike { dtype: Some(DType::I64), memory_format: None }, &[few])?;
    // The lengths of the other axes may be unknown.
    decomposition.then(Amax { dim: Some(vec![0, 1, 3]), keepdim: true }, &[ones])
}

/// The position of each step of N×heads×steps×size, as 1×1×steps×1.
fn rows(decomposition: &mut Decomposition, x: Source) -> Result<Source> {
    let column = ones(decomposition, x)?;
    let dtype = Accumulator(Some(Wanted::Given(DType::I64)));
    let counts = decomposition.then(Cumsum { dim: 2, dtype }, &[column])?;
    decomposition.compute("sub(@0,1)", &[counts])
}

/// The position of each step of N×heads×steps×size, as 1×1×1×steps.
fn columns(decomposition: &mut Decomposition, x: Source) -> Result<Source> {
    let rows = rows(decomposition, x)?;
    decomposition.then(Transpose { dim0: 2, dim1: 3 }, &[rows])
}

/// The number of steps of N×heads×steps×size, as 1×1×1×1.
fn length(decomposition: &mut Decomposition, x: Source) -> Result<Source> {
    let column = ones(decomposition, x)?;
    let dtype = Accumulator(Some(Wanted::Given(DType::I64)));
    decomposition.then(Sum { dim: Some(vec![2]), keepdim: true, dtype }, &[column])
}

/// Queries, keys and values as N×heads×steps×size.
#[derive(Debug, Clone, Copy)]
struct Heads {
    q: Source,
    k: Source,
    v: Source,
}

/// A mask, whose element type says what it is.
#[derive(Debug, Clone, Copy)]
enum Mask {
    Seen(Source),
    Added(Source),
}

impl Attention {
    /// N×steps×heads·size as N×heads×steps×size.
    fn split(
        decomposition: &mut Decomposition,
        x: Source,
        key: &'static str,
        heads: Option<i64>,
    ) -> Result<Source> {
        if decomposition.rank(x)? != 3 {
            return Ok(x);
        }
        let Some(heads) = heads.filter(|heads| *heads > 0) else {
            return Err(LayerError::invalid(
                key,
                format!("{heads:?}"),
                "it must be above 0 for tensors of three axes",
            ));
        };
        let sizes = ParamOrInput::Value(vec![heads, -1]);
        let parts = decomposition.then(Unflatten { dim: 2, sizes }, &[x])?;
        decomposition.then(Permute { dims: vec![0, 2, 1, 3] }, &[parts])
    }

    fn heads(&self, decomposition: &mut Decomposition) -> Result<Heads> {
        let q = Self::split(decomposition, X, "q_num_heads", self.q_num_heads)?;
        let mut kept = [self.k, self.v].map(|at| Source::Input(at.0));
        for (x, past) in kept.iter_mut().zip([self.past_key, self.past_value]) {
            *x = Self::split(decomposition, *x, "kv_num_heads", self.kv_num_heads)?;
            if let Some(past) = past.source() {
                *x = decomposition.then(Cat { dim: 2 }, &[past, *x])?;
            }
        }
        let [k, v] = kept;
        for x in [q, k, v] {
            if decomposition.rank(x)? != 4 {
                return Err(LayerError::shape("a tensor", "N×heads×steps×size", decomposition.meta(x)?));
            }
        }
        Ok(Heads { q, k, v })
    }

    /// Which keys each query sees because of their positions; `None` for all.
    fn seen(&self, decomposition: &mut Decomposition, heads: Heads) -> Result<Option<Source>> {
        // Sums of larger sizes and positions would overflow.
        let [left, right] = [self.left_window_size, self.right_window_size].map(|size| size.min(1 << 40));
        let lens = self.nonpad_kv_seqlen.source();
        let has_window = self.is_causal.0 || left >= 0 || right >= 0;
        let mut seen = Vec::new();
        if !has_window && lens.is_none() {
            return Ok(None);
        }
        let keys = columns(decomposition, heads.k)?;
        let lens =
            lens.map(|lens| decomposition.then(Unsqueeze { dim: vec![1, 2, 3] }, &[lens])).transpose()?;
        let bound = TensorOrScalar::Input(1);
        if let Some(lens) = lens {
            seen.push(decomposition.then(Lt { other: bound }, &[keys, lens])?);
        }
        if has_window {
            let at = rows(decomposition, heads.q)?;
            let at = match (self.past_key.source(), lens) {
                (Some(past), _) => {
                    let past = length(decomposition, past)?;
                    decomposition.compute("add(@0,@1)", &[at, past])?
                }
                (None, Some(lens)) => {
                    let queries = length(decomposition, heads.q)?;
                    decomposition.compute("add(@0,sub(@1,@2))", &[at, lens, queries])?
                }
                (None, None) => at,
            };
            if self.is_causal.0 {
                seen.push(decomposition.then(Le { other: bound }, &[keys, at])?);
            }
            if left >= 0 {
                let first = decomposition.compute(&format!("sub(@0,{left})"), &[at])?;
                seen.push(decomposition.then(Ge { other: bound }, &[keys, first])?);
            }
            if right >= 0 {
                let last = decomposition.compute(&format!("add(@0,{right})"), &[at])?;
                seen.push(decomposition.then(Le { other: bound }, &[keys, last])?);
            }
        }
        let mut all = None;
        for one in seen {
            all = Some(match all {
                None => one,
                Some(other) => decomposition.then(LogicalAnd { other: InputIndex(1) }, &[other, one])?,
            });
        }
        Ok(all)
    }

    /// The mask that the file gives, as long as the keys: what is missing is not seen.
    fn given(&self, decomposition: &mut Decomposition, keys: Source) -> Result<Option<Source>> {
        let Some(mask) = self.attn_mask.source() else { return Ok(None) };
        let (meta, keys) = (decomposition.meta(mask)?, decomposition.meta(keys)?);
        let lens = (meta.dims().last().and_then(Dim::fixed), keys.dims().get(2).and_then(Dim::fixed));
        let (Some(len), Some(wanted)) = lens else {
            // Only a cache with padding is longer than its mask.
            if self.nonpad_kv_seqlen.0.is_some() {
                decomposition.depend_on_sizes();
            }
            return Ok(Some(mask));
        };
        if len == 1 || len >= wanted {
            return Ok(Some(mask));
        }
        let value = (meta.dtype() != DType::Bool).then_some(f64::NEG_INFINITY);
        let pad = ParamOrInput::Value(vec![0, wanted - len]);
        decomposition.then(Pad { pad, mode: PaddingMode::Constant, value }, &[mask]).map(Some)
    }

    /// Both masks as one.
    fn mask(&self, decomposition: &mut Decomposition, heads: Heads) -> Result<Option<Mask>> {
        let seen = self.seen(decomposition, heads)?;
        let Some(given) = self.given(decomposition, heads.k)? else { return Ok(seen.map(Mask::Seen)) };
        let is_bool = decomposition.dtype(given)? == DType::Bool;
        Ok(Some(match (seen, is_bool) {
            (None, true) => Mask::Seen(given),
            (None, false) => Mask::Added(given),
            (Some(seen), true) => {
                Mask::Seen(decomposition.then(LogicalAnd { other: InputIndex(1) }, &[seen, given])?)
            }
            (Some(seen), false) => {
                let dtype = decomposition.dtype(given)?;
                let other = TensorOrScalar::Number(Scalar::Float(f64::NEG_INFINITY));
                let added =
                    decomposition.then(Where { input: TensorOrScalar::Input(1), other }, &[seen, given])?;
                Mask::Added(decomposition.cast(added, dtype)?)
            }
        }))
    }

    /// PyTorch's operator.
    fn fused(&self, decomposition: &mut Decomposition, heads: Heads, mask: Option<Mask>) -> Result<Source> {
        let counts =
            [heads.q, heads.k].map(|x| decomposition.meta(x).map(|meta| meta.dims().get(1).cloned()));
        let [queries, keys] = counts;
        let mut inputs = vec![heads.q, heads.k, heads.v];
        let mut attn_mask = OptionalInput(None);
        if let Some(Mask::Seen(mask) | Mask::Added(mask)) = mask {
            attn_mask = OptionalInput(Some(inputs.len()));
            inputs.push(mask);
        }
        let layer = ScaledDotProductAttention {
            key: InputIndex(1),
            value: InputIndex(2),
            attn_mask,
            dropout_p: 0.0,
            is_causal: false,
            scale: self.scale,
            enable_gqa: queries? != keys?,
        };
        decomposition.then(layer, &inputs)
    }

    /// Every step by itself: the output, and the scores that are wanted.
    fn by_steps(
        &self,
        decomposition: &mut Decomposition,
        heads: Heads,
        mask: Option<Mask>,
    ) -> Result<[Source; 2]> {
        let Heads { q, k, v } = heads;
        let [k, v] = [shared(decomposition, k, q)?, shared(decomposition, v, q)?];
        let size = decomposition.meta(q)?.dims().last().and_then(Dim::fixed);
        let scale = match (self.scale, size) {
            (Some(scale), _) => scale,
            (None, Some(size)) => 1.0 / (size as f64).sqrt(),
            (None, None) => {
                let reason = "`scale` is required if the size of a head is unknown";
                return Err(LayerError::Unsupported(reason.to_owned()));
            }
        };
        let q = decomposition.compute(&format!("mul(@0,{scale:?})"), &[q])?;
        let turned = decomposition.then(Transpose { dim0: -1, dim1: -2 }, &[k])?;
        let products = product(decomposition, q, turned)?;
        let mut scores = products;
        if self.softcap != 0.0 {
            let cap = self.softcap;
            scores = decomposition.compute(&format!("mul(tanh(div(@0,{cap:?})),{cap:?})"), &[products])?;
        }
        let capped = scores;
        let (other, input) =
            (TensorOrScalar::Number(Scalar::Float(f64::NEG_INFINITY)), TensorOrScalar::Input(1));
        match mask {
            Some(Mask::Seen(mask)) => {
                let dtype = decomposition.dtype(scores)?;
                scores = decomposition.then(Where { input, other }, &[mask, scores])?;
                scores = decomposition.cast(scores, dtype)?;
            }
            Some(Mask::Added(mask)) => scores = decomposition.compute("add(@0,@1)", &[scores, mask])?,
            None => {}
        }
        let softmax = Softmax { dim: Some(-1), dtype: None, recorded: RecordedType(None) };
        let weights = decomposition.then(softmax, &[scores])?;
        // Rows that see no key are 0.
        let most = decomposition.then(Amax { dim: Some(vec![-1]), keepdim: true }, &[scores])?;
        let is_blind = decomposition.then(Eq { other }, &[most])?;
        let value = TensorOrScalar::Number(Scalar::Float(0.0));
        let weights = decomposition.then(MaskedFill { mask: InputIndex(1), value }, &[weights, is_blind])?;
        let wanted = match self.qk_matmul_output_mode {
            0 => products,
            1 => capped,
            2 => scores,
            _ => weights,
        };
        Ok([product(decomposition, weights, v)?, wanted])
    }
}

fn product(decomposition: &mut Decomposition, a: Source, b: Source) -> Result<Source> {
    decomposition
        .then(Matmul { other: InputIndex(1), epilogue: None, on_device: Default::default() }, &[a, b])
}

/// Keys or values with as many heads as the queries.
fn shared(decomposition: &mut Decomposition, x: Source, q: Source) -> Result<Source> {
    let [queries, keys] =
        [q, x].map(|of| decomposition.meta(of).map(|meta| meta.dims().get(1).and_then(Dim::fixed)));
    match (queries?, keys?) {
        (Some(queries), Some(keys)) if keys > 0 && queries > keys && queries % keys == 0 => {
            let repeats = ParamOrInput::Value(queries / keys);
            decomposition.then(RepeatInterleave { repeats, dim: Some(1), output_size: None }, &[x])
        }
        (Some(_), Some(_)) => Ok(x),
        _ => {
            decomposition.depend_on_sizes();
            Ok(x)
        }
    }
}

impl Decompose for Attention {
    fn names(&self) -> &'static [(&'static str, &'static str)] {
        &[("sizes", "q_num_heads")]
    }

    fn num_outputs(&self) -> usize {
        self.outputs.0.clamp(1, 4)
    }

    fn decompose(&self, decomposition: &mut Decomposition) -> Result<Vec<Source>> {
        let is_joined = decomposition.rank(X)? == 3;
        let heads = self.heads(decomposition)?;
        let mask = self.mask(decomposition, heads)?;
        let needs_scores = self.num_outputs() > 3;
        let [y, scores] = if needs_scores || self.softcap != 0.0 {
            self.by_steps(decomposition, heads, mask)?
        } else {
            let y = self.fused(decomposition, heads, mask)?;
            [y, y]
        };
        let y = if is_joined {
            let steps_first = decomposition.then(Permute { dims: vec![0, 2, 1, 3] }, &[y])?;
            decomposition.then(Flatten { start_dim: 2, end_dim: 3 }, &[steps_first])?
        } else {
            y
        };
        Ok([y, heads.k, heads.v, scores].into_iter().take(self.num_outputs()).collect())
    }
}

operators! { entry => Attention, PaddingMask, RotaryHeads, RotaryJoined, RotaryPositions; category Weighted }
