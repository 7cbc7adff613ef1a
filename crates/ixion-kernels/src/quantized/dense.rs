//! Products and dense convolutions of bytes.
//!
//! What some positions see is gathered as rows of factors, which stay in a cache while they are multiplied by all panels of
//! weights. A pointwise convolution of unsigned bytes needs no gathering.

use super::bytes::{Bytes, Outputs};
use super::depthwise;
use super::dots::{CHUNK, Dots, Kind, Operands, PANEL, Plain, QUAD, Sums, TILE, tile};
use super::finish::Finish;
use super::gather::Source;
use super::reals::{self, Reals};
use super::weights::{ByteWeights, PanelKind};
use super::writer::{Site, Writer};
use crate::blocked::BlockedShape;
use crate::parallel::{for_each_number, threads};
use crate::window::Window;
use ixion_tensor::{Limits, Result};
use std::cell::Cell;
use std::ops::Range;

/// A convolution of bytes whose channels are innermost in memory: N×H×W×C to N×H×W×O. The input is padded with its zero
/// point.
#[derive(Debug, Clone)]
pub struct ByteConv {
    shape: BlockedShape,
}

impl ByteConv {
    /// A convolution of these sizes.
    pub fn new(shape: BlockedShape) -> Self {
        Self { shape }
    }

    /// The number of elements of a sample, and of its output.
    pub fn sample(&self) -> [usize; 2] {
        self.shape.sample(1)
    }

    /// The kind of weights that the convolution needs.
    pub fn kind(&self) -> PanelKind {
        PanelKind::of(&self.shape)
    }

    /// Convolves all samples of the input. The threads of the current pool share the work.
    ///
    /// # Errors
    /// Fails if the deadline has passed.
    ///
    /// # Panics
    /// Panics if input and output don't consist of as many samples, if the weights are of another kind, if there are too few
    /// values to add, or if a window is empty; callers check this beforehand.
    pub fn run(
        &self,
        input: Bytes<'_>,
        weights: &ByteWeights,
        finish: &Finish<'_>,
        output: Outputs<'_>,
        limits: &Limits,
    ) -> Result<()> {
        self.run_as(Kind::selected(), input, weights, finish, output, limits)
    }

    /// As [`ByteConv::run`], with instructions that the processor supports.
    pub(super) fn run_as(
        &self,
        kind: Kind,
        input: Bytes<'_>,
        weights: &ByteWeights,
        finish: &Finish<'_>,
        output: Outputs<'_>,
        limits: &Limits,
    ) -> Result<()> {
        let [sample, out_sample] = self.sample();
        let samples = output.len().checked_div(out_sample).unwrap_or(0);
        assert!(
            Some(output.len()) == samples.checked_mul(out_sample)
                && Some(input.data.len()) == samples.checked_mul(sample)
                || output.len() == 0,
            "input and output must consist of whole samples"
        );
        assert_eq!(weights.panels().kind(), self.kind(), "the weights must be those of the convolution");
        if output.len() == 0 {
            return Ok(());
        }
        let source = Source { shape: &self.shape, input, zero: weights.zero() };
        let writer = Writer::new(finish, weights.factors(), output);
        match self.kind() {
            PanelKind::Depthwise { .. } => depthwise::run(kind, &source, weights, &writer, samples, limits),
            PanelKind::Product { .. } => run(kind, &source, weights, &writer, samples, limits),
        }
    }
}

/// Multiplies R rows of K bytes with weights of one group, O×K, to R×O outputs. The threads of the current pool share the
/// work.
///
/// # Errors
/// As [`ByteConv::run`].
///
/// # Panics
/// As [`ByteConv::run`].
pub fn multiply_bytes(
    rows: usize,
    input: Bytes<'_>,
    weights: &ByteWeights,
    finish: &Finish<'_>,
    output: Outputs<'_>,
    limits: &Limits,
) -> Result<()> {
    let kind = weights.panels().kind();
    let point = Window { kernel: 1, stride: 1, dilation: 1, pad_before: 0, pad_after: 0 };
    let (channels, out_channels) = (kind.depth(), kind.outputs());
    let shape = BlockedShape { channels, out_channels, groups: 1, lens: [1, rows], windows: [point; 2] };
    ByteConv::new(shape).run(input, weights, finish, output, limits)
}

/// The most bytes of factors that are gathered at a time. Together with a panel of weights, they fit in a second-level cache.
const GATHERED: usize = 1 << 18;

/// The most rows that are gathered at a time.
const ROWS: usize = 192;

thread_local! {
    /// Gathered factors, whose memory a thread keeps: enough of them for words of either size.
    static FACTORS: Cell<Vec<i16>> = const { Cell::new(Vec::new()) };
}

/// How a product is divided: into blocks of rows, and each of these into parts of the panels.
#[derive(Debug, Clone, Copy)]
struct Division {
    rows: usize,
    block: usize,
    panels: usize,
    part: usize,
}

impl Division {
    fn new(rows: usize, panels: usize, row_bytes: usize, threads: usize) -> Self {
        let most = (GATHERED / row_bytes.max(1)).clamp(TILE[0], ROWS);
        // Several blocks for each thread, so that all finish at about the same time.
        let wanted = if threads == 1 { 1 } else { 4 * threads };
        let block = rows.div_ceil(wanted).next_multiple_of(TILE[0]).min(most / TILE[0] * TILE[0]);
        let blocks = rows.div_ceil(block);
        let parts = wanted.div_ceil(blocks).clamp(1, panels.div_ceil(2).max(1));
        let part = panels.div_ceil(parts).next_multiple_of(2);
        Self { rows, block, panels, part }
    }

    fn parts(&self) -> usize {
        self.panels.div_ceil(self.part)
    }

    fn count(&self) -> usize {
        self.rows.div_ceil(self.block) * self.parts()
    }

    /// The rows and panels of a piece.
    fn piece(&self, number: usize) -> (Range<usize>, Range<usize>) {
        let (row, panel) = (number / self.parts() * self.block, number % self.parts() * self.part);
        (row..(row + self.block).min(self.rows), panel..(panel + self.part).min(self.panels))
    }
}

/// Computes a convolution of several samples.
fn run(
    kind: Kind,
    source: &Source<'_>,
    weights: &ByteWeights,
    writer: &Writer<'_>,
    samples: usize,
    limits: &Limits,
) -> Result<()> {
    let PanelKind::Product { groups, outputs, depth } = weights.panels().kind() else { return Ok(()) };
    let rows = samples * source.shape.outputs().iter().product::<usize>();
    let padded = depth.next_multiple_of(QUAD);
    let division = Division::new(rows, outputs.div_ceil(PANEL), padded * kind.word(), threads());
    for_each_number(groups * division.count(), &|number| {
        limits.check_deadline()?;
        let (rows, panels) = division.piece(number % division.count());
        let group = number / division.count();
        let weights = weights.weights();
        let piece = Piece { source, weights, writer, groups, outputs, depth, group, rows, panels };
        // SAFETY: the processor supports the kind, and no two pieces have the same outputs.
        unsafe { select(kind)(&piece) };
        Ok(())
    })
}

/// Some rows and panels of a group.
struct Piece<'a> {
    source: &'a Source<'a>,
    weights: &'a [i8],
    writer: &'a Writer<'a>,
    groups: usize,
    /// Outputs of a group.
    outputs: usize,
    depth: usize,
    group: usize,
    rows: Range<usize>,
    panels: Range<usize>,
}

/// Computes a piece.
///
/// # Safety
/// The processor must have the instructions of `L`, where the function must be inlined, and nothing else may use the outputs.
#[inline(always)]
unsafe fn compute<L: Dots, R: Reals>(piece: &Piece<'_>) {
    let Piece { source, weights, writer, groups, outputs, depth, group, .. } = *piece;
    let padded = depth.next_multiple_of(QUAD);
    let (panel, panels) = (padded * PANEL, outputs.div_ceil(PANEL));
    let weights = &weights[group * panels * panel..][..panels * panel];
    let count = piece.rows.len();
    let mut memory = FACTORS.take();
    let (rows, stride) = match in_place::<L::Word>(source, depth) {
        Some(factors) => (factors[piece.rows.start * depth..][..count * depth].as_ptr(), depth),
        None => {
            let words = room::<L::Word>(&mut memory, count * padded + CHUNK);
            // SAFETY: the caller's promise.
            unsafe { source.gather::<L>(piece.rows.clone(), group, padded, words) };
            (words.as_ptr(), padded)
        }
    };
    let step = (2 * L::COLUMNS).max(PANEL);
    let mut sums: Sums = [[0; TILE[1]]; TILE[0]];
    let end = (piece.panels.end * PANEL).min(outputs);
    for column in (piece.panels.start * PANEL..end).step_by(step) {
        let columns = step.min(end - column);
        let weights = weights[column / PANEL * panel..].as_ptr();
        let tiles = count.div_ceil(L::ROWS);
        let (size, longer) = (count / tiles.max(1), count % tiles.max(1));
        let mut row = 0;
        for index in 0..tiles {
            let here = size + usize::from(index < longer);
            let output = ((piece.rows.start + row) * groups + group) * outputs + column;
            let factors = group * panels * PANEL + column;
            let site = Site { output, stride: groups * outputs, rows: here, columns, factors };
            // SAFETY: the rows have `padded` words and the panels as many weights for each column. Instructions and outputs
            // are the caller's promise.
            unsafe {
                let operands =
                    Operands { rows: rows.add(row * stride), stride, weights, quads: padded / QUAD };
                tile::<L>(operands, [here, columns], &mut sums);
                writer.write::<R>(&sums, site);
            }
            row += here;
        }
    }
    FACTORS.set(memory);
}

/// The factors of a pointwise convolution, if they can be multiplied as they are.
#[inline(always)]
fn in_place<'a, W>(source: &Source<'a>, depth: usize) -> Option<&'a [W]> {
    let can_be_read = size_of::<W>() == 1 && source.input.flip == 0 && depth.is_multiple_of(QUAD);
    let words = (can_be_read && source.is_pointwise()).then_some(source.input.data)?;
    // SAFETY: words of one byte are bytes.
    Some(unsafe { std::slice::from_raw_parts(words.as_ptr().cast(), words.len()) })
}

/// Room for `count` words.
#[inline(always)]
fn room<W>(memory: &mut Vec<i16>, count: usize) -> &mut [W] {
    let size = size_of::<W>();
    let needed = (count * size).div_ceil(size_of::<i16>());
    if memory.len() < needed {
        memory.resize(needed, 0);
    }
    // SAFETY: words are integers of one byte or two, for which any bits are valid, and there is room for `count`.
    unsafe { std::slice::from_raw_parts_mut(memory.as_mut_ptr().cast(), count) }
}

/// Computes a piece with certain instructions.
type Compute = unsafe fn(&Piece<'_>);

macro_rules! compute {
    ($name:ident, $dots:ty, $reals:ty $(, $feature:literal)?) => {
        $(#[target_feature(enable = $feature)])?
        unsafe fn $name(piece: &Piece<'_>) {
            // SAFETY: the caller's promise.
            unsafe { compute::<$dots, $reals>(piece) }
        }
    };
}

#[cfg(target_arch = "x86_64")]
compute!(
    avx512,
    super::dots::x86::Avx512Vnni,
    reals::x86::Avx512,
    "avx512f,avx512vl,avx512dq,avx512bw,avx512vnni"
);
#[cfg(target_arch = "x86_64")]
compute!(avx_vnni, super::dots::x86::AvxVnni, reals::x86::Avx2, "avx2,fma,avxvnni");
#[cfg(target_arch = "x86_64")]
compute!(avx2, super::dots::x86::Avx2, reals::x86::Avx2, "avx2,fma");
#[cfg(target_arch = "aarch64")]
compute!(neon, super::dots::arm::Neon, reals::arm::Neon, "neon");
#[cfg(target_arch = "aarch64")]
compute!(usdot, super::dots::arm::Usdot, reals::arm::Neon, "neon,i8mm");
compute!(plain, Plain, reals::Plain);

fn select(kind: Kind) -> Compute {
    match kind {
        #[cfg(target_arch = "x86_64")]
        Kind::Avx512Vnni => avx512,
        #[cfg(target_arch = "x86_64")]
        Kind::AvxVnni => avx_vnni,
        #[cfg(target_arch = "x86_64")]
        Kind::Avx2 => avx2,
        #[cfg(target_arch = "aarch64")]
        Kind::Neon => neon,
        #[cfg(target_arch = "aarch64")]
        Kind::Usdot => usdot,
        Kind::Plain => plain,
    }
}
