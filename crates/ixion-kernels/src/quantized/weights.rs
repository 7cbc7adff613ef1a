//! Packed weights of products and convolutions of bytes.

use super::arms::Kind;
use super::bytes::ZeroPoint;
use super::interleaved::FactorLine;
use super::reals::Reals;
use super::sizes::{PANEL, QUAD};
use super::steps::Order;
use crate::blocked::BlockedShape;
use crate::quantization::{ChannelStep, Requantization};
use std::sync::{Arc, OnceLock};

/// The most products per output. An `i32` holds the sum of as many products of a byte minus a zero point and a signed byte.
pub const MAX_DEPTH: usize = 1 << 16;

/// The channels that a depthwise convolution computes at a time.
pub(super) const BLOCK: usize = 64;

/// What packed weights are multiplied with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PanelKind {
    /// Groups of rows of factors, as in linear maps and dense convolutions.
    Product {
        /// The number of groups.
        groups: usize,
        /// Outputs of a group.
        outputs: usize,
        /// Products per output.
        depth: usize,
    },
    /// What a window sees of one channel.
    Depthwise {
        /// The number of channels.
        channels: usize,
        /// Rows and columns of the window.
        window: [usize; 2],
    },
}

impl PanelKind {
    /// The kind of a convolution.
    pub fn of(shape: &BlockedShape) -> Self {
        let window = shape.windows.map(|window| window.kernel);
        let groups = shape.groups.max(1);
        match shape.is_depthwise() {
            true => Self::Depthwise { channels: shape.channels, window },
            false => Self::Product {
                groups,
                outputs: shape.out_channels / groups,
                depth: (shape.channels / groups).saturating_mul(shape.taps()),
            },
        }
    }

    /// The number of outputs of all groups.
    pub fn outputs(self) -> usize {
        match self {
            Self::Product { groups, outputs, .. } => groups.saturating_mul(outputs),
            Self::Depthwise { channels, .. } => channels,
        }
    }

    /// The number of products per output.
    pub fn depth(self) -> usize {
        match self {
            Self::Product { depth, .. } => depth,
            Self::Depthwise { window: [rows, columns], .. } => rows.saturating_mul(columns),
        }
    }

    /// The number of places for outputs of a group, of which the last ones may be empty.
    pub(super) fn places(self) -> usize {
        match self {
            Self::Product { outputs, .. } => outputs.div_ceil(PANEL).saturating_mul(PANEL),
            Self::Depthwise { channels, .. } => channels.div_ceil(BLOCK).saturating_mul(BLOCK),
        }
    }

    fn groups(self) -> usize {
        match self {
            Self::Product { groups, .. } => groups,
            Self::Depthwise { .. } => 1,
        }
    }

    /// The number of places for weights of an output.
    fn padded_depth(self) -> usize {
        match self {
            Self::Product { depth, .. } => depth.div_ceil(QUAD).saturating_mul(QUAD),
            Self::Depthwise { window: [rows, columns], .. } => {
                rows.div_ceil(QUAD).saturating_mul(QUAD).saturating_mul(columns)
            }
        }
    }

    /// The size of the weights and of their sums in bytes, in whole lines; `None` if an output has more than [`MAX_DEPTH`]
    /// products, or a size overflows.
    fn lens(self) -> Option<[usize; 2]> {
        if self.depth() > MAX_DEPTH {
            return None;
        }
        let places = self.places().checked_mul(self.groups())?;
        let weights = places.checked_mul(self.padded_depth())?.checked_next_multiple_of(LINE)?;
        Some([weights, places.checked_mul(size_of::<i32>())?.checked_next_multiple_of(LINE)?])
    }

    /// The output that a place is for, if it is not empty.
    fn output_of(self, place: usize) -> Option<usize> {
        let (group, within) = (place / self.places().max(1), place % self.places().max(1));
        let outputs = self.outputs() / self.groups().max(1);
        (within < outputs && group < self.groups()).then_some(group * outputs + within)
    }

    /// The position of the weight that factor k of a place is multiplied by.
    fn position(self, place: usize, k: usize) -> usize {
        let (unit, quad, row) = match self {
            Self::Product { .. } => (PANEL, k / QUAD, k % QUAD),
            Self::Depthwise { window: [_, columns], .. } => {
                let (row, column) = (k / columns.max(1), k % columns.max(1));
                (BLOCK, row / QUAD * columns + column, row % QUAD)
            }
        };
        let within = place % unit;
        let within = match self {
            Self::Product { .. } => within,
            Self::Depthwise { .. } => interleaved(within),
        };
        place / unit * unit * self.padded_depth() + (quad * unit + within) * QUAD + row
    }
}

/// Where a channel of a block is in its vectors: each vector of interleaved bytes has four channels of each sixteen.
fn interleaved(channel: usize) -> usize {
    channel % 16 / 4 * 16 + channel / 16 * 4 + channel % 4
}

/// A cache line, so that vectors begin where cache lines do.
#[derive(Debug, Clone, Copy)]
#[repr(C, align(64))]
struct Line([i8; LINE]);

/// The number of bytes of a line.
const LINE: usize = 64;

/// Weights of one byte in the order in which they are multiplied, the same for every instruction set, and the sum of each
/// output's weights.
///
/// Panels of 16 outputs follow one after the other; for each four factors, a panel has four weights of each output. Those of
/// depthwise convolutions are blocks of 64 channels. Empty places have weights of 0. After the weights come the sums, 32-bit
/// integers in little-endian order. Both begin and end with whole lines of 64 bytes.
#[derive(Debug, Clone)]
pub struct BytePanels {
    kind: PanelKind,
    lines: Vec<Line>,
    /// The order in which some instructions multiply the weights of a product.
    order: OnceLock<Order>,
}

impl BytePanels {
    /// Packs `weight(output, k)`. Factors k of a convolution are in the order of window rows, window columns and channels of
    /// the group; depthwise, of rows and columns. Returns `None` where [`BytePanels::len`] does.
    pub fn new(kind: PanelKind, weight: impl Fn(usize, usize) -> i8) -> Option<Self> {
        let [weights, _] = kind.lens()?;
        let mut lines = vec![Line([0; LINE]); Self::len(kind)? / LINE];
        let (weights, sums) = bytes_mut(&mut lines).split_at_mut(weights);
        for (place, to) in sums.chunks_exact_mut(size_of::<i32>()).enumerate() {
            let Some(output) = kind.output_of(place) else { continue };
            let mut sum = 0i32;
            for k in 0..kind.depth() {
                let weight = weight(output, k);
                weights[kind.position(place, k)] = weight;
                sum += i32::from(weight);
            }
            to.copy_from_slice(&sum.to_le_bytes().map(u8::cast_signed));
        }
        Some(Self { kind, lines, order: OnceLock::new() })
    }

    /// The number of bytes of such panels; `None` if an output has more than [`MAX_DEPTH`] products, or the number overflows.
    pub fn len(kind: PanelKind) -> Option<usize> {
        let [weights, sums] = kind.lens()?;
        weights.checked_add(sums)
    }

    /// What the weights are multiplied with.
    pub fn kind(&self) -> PanelKind {
        self.kind
    }

    /// The order in which products are computed where pairs of them may not fit. It is determined at the first call.
    pub(super) fn order(&self) -> &Order {
        self.order.get_or_init(|| {
            let panels = self.kind.places() * self.kind.groups() / PANEL;
            Order::new(self.parts().0, panels, self.kind.padded_depth() / QUAD)
        })
    }

    /// The weights, and the sums of each place's weights.
    fn parts(&self) -> (&[i8], impl Iterator<Item = i32>) {
        let [weights, _] = self.kind.lens().unwrap_or_default();
        let (weights, sums) = bytes(&self.lines).split_at(weights);
        let (sums, _) = sums.as_chunks::<{ size_of::<i32>() }>();
        (weights, sums.iter().map(|sum| i32::from_le_bytes(sum.map(i8::cast_unsigned))))
    }
}

fn bytes(lines: &[Line]) -> &[i8] {
    // SAFETY: a line is an array of `LINE` bytes and nothing else.
    unsafe { std::slice::from_raw_parts(lines.as_ptr().cast(), lines.len() * LINE) }
}

fn bytes_mut(lines: &mut [Line]) -> &mut [i8] {
    // SAFETY: as above; the lines are borrowed mutably.
    unsafe { std::slice::from_raw_parts_mut(lines.as_mut_ptr().cast(), lines.len() * LINE) }
}

/// Converts the sums of an output channel to the numbers that they represent: sum and start are added as integers, and
/// rounded to `f32`; then the offset is added, and the result multiplied.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ChannelFactors {
    /// An integer that is added to sums.
    pub start: i32,
    /// A number that is added to their nearest `f32`.
    pub offset: f32,
    /// What 1 in a sum represents.
    pub multiplier: f32,
}

/// For values and weights from −127 to 127: sum and bias are added exactly if the bias is an integer below 2³⁰. Otherwise, both
/// are rounded before they are added, which changes nothing if the sum is 0.
impl From<ChannelStep> for ChannelFactors {
    fn from(step: ChannelStep) -> Self {
        // The bias of a channel whose sums are all 0 need not be an integer.
        let is_counted = step.bias.abs() < f64::from(1 << 30) && step.bias.fract() == 0.0;
        let (start, offset) = if is_counted { (step.bias as i32, 0.0) } else { (0, step.bias as f32) };
        Self { start, offset, multiplier: step.scale }
    }
}

/// The number of steps of the output, which the zero point is added to.
impl From<&Requantization> for ChannelFactors {
    fn from(how: &Requantization) -> Self {
        Self { start: 0, offset: how.bias, multiplier: how.multiplier }
    }
}

/// The factors of all places of some panels, and as many zeros as another panel has, so that vectors can be read from any place.
#[derive(Debug, Clone)]
pub(super) struct Factors {
    starts: Vec<i32>,
    offsets: Vec<f32>,
    multipliers: Vec<f32>,
    has_offsets: bool,
}

impl Factors {
    /// Returns true if an offset is not 0.
    pub(super) fn has_offsets(&self) -> bool {
        self.has_offsets
    }

    /// The number of places.
    pub(super) fn len(&self) -> usize {
        self.starts.len() - PANEL
    }

    /// The starts, offsets and multipliers of the places of a panel.
    ///
    /// # Safety
    /// The processor must have the instructions of `R`, which must be enabled where the function is inlined.
    ///
    /// # Panics
    /// Panics if the first place does not exist.
    #[inline(always)]
    pub(super) unsafe fn at<R: Reals>(&self, first: usize) -> (R::Starts, R, R) {
        let panel = first..first + PANEL;
        let (starts, offsets) = (&self.starts[panel.clone()], &self.offsets[panel.clone()]);
        let multipliers = &self.multipliers[panel];
        // SAFETY: the slices are as long as a panel. Instructions are the caller's promise.
        unsafe { (R::starts(starts.as_ptr()), R::load(offsets.as_ptr()), R::load(multipliers.as_ptr())) }
    }

    /// The factors of the channels of a block.
    ///
    /// # Panics
    /// Panics if there is no such block.
    pub(super) fn block(&self, first: usize) -> FactorLine {
        let block = first..first + BLOCK;
        FactorLine {
            starts: self.starts[block.clone()].as_ptr(),
            offsets: self.offsets[block.clone()].as_ptr(),
            multipliers: self.multipliers[block].as_ptr(),
        }
    }

    /// The factors of blocks of channels in the order of their vectors.
    fn interleaved(&self) -> Self {
        let mut to = self.clone();
        for place in 0..self.len() / BLOCK * BLOCK {
            let at = place / BLOCK * BLOCK + interleaved(place % BLOCK);
            to.starts[at] = self.starts[place];
            to.offsets[at] = self.offsets[place];
            to.multipliers[at] = self.multipliers[place];
        }
        to
    }
}

/// Packed weights with the factors of their outputs, for inputs of one type and zero point. Clones share the weights.
#[derive(Debug, Clone)]
pub struct ByteWeights {
    panels: Arc<BytePanels>,
    zero: u8,
    factors: Arc<Factors>,
    /// The factors in the order of the weights.
    ordered: Arc<Factors>,
}

impl ByteWeights {
    /// Weights for an input, with `channel(output)` for each output.
    pub fn new(panels: Arc<BytePanels>, input: ZeroPoint, channel: impl Fn(usize) -> ChannelFactors) -> Self {
        let (kind, zero) = (panels.kind(), input.unsigned());
        if Kind::selected().is_in_pairs() && matches!(kind, PanelKind::Product { .. }) {
            // So that the first run does not take longer.
            panels.order();
        }
        let nothing = ChannelFactors { start: 0, offset: 0.0, multiplier: 0.0 };
        let (starts, offsets, multipliers) = (Vec::new(), Vec::new(), Vec::new());
        let mut factors = Factors { starts, offsets, multipliers, has_offsets: false };
        let sums = panels.parts().1.chain([0; PANEL]);
        for (place, sum) in sums.enumerate() {
            let found = kind.output_of(place).map_or(nothing, &channel);
            factors.starts.push(found.start.wrapping_sub(i32::from(zero).wrapping_mul(sum)));
            factors.offsets.push(found.offset);
            factors.multipliers.push(found.multiplier);
            factors.has_offsets |= found.offset != 0.0;
        }
        let factors = Arc::new(factors);
        let ordered = match kind {
            PanelKind::Product { .. } => factors.clone(),
            PanelKind::Depthwise { .. } => Arc::new(factors.interleaved()),
        };
        Self { panels, zero, factors, ordered }
    }

    /// The packed weights.
    pub fn panels(&self) -> &Arc<BytePanels> {
        &self.panels
    }

    /// The zero point of the input as an unsigned byte.
    pub(super) fn zero(&self) -> u8 {
        self.zero
    }

    pub(super) fn factors(&self) -> &Factors {
        &self.factors
    }

    /// The factors of channels in the order of the weights.
    pub(super) fn ordered_factors(&self) -> &Factors {
        &self.ordered
    }

    pub(super) fn weights(&self) -> &[i8] {
        self.panels.parts().0
    }
}
