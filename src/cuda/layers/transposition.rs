//! Copies between tensors that are contiguous along different axes, as when changing to channels-last. Reads and writes are
//! contiguous in both.

use super::axes::{AllStrides, collapsed_in_output_order, is_chunked};
use super::codegen::{compute_type, element};
use super::prelude::*;
use smallvec::SmallVec;

/// Copies elements to a tensor of the same shape that is contiguous along another axis, and converts floats to its type. All other
/// types must have the same size. Returns false if no kernel is made for these layouts.
///
/// # Errors
/// Those of a launch.
pub(super) fn transpose(
    from: &DeviceTensor<'_>,
    to: &DeviceTensor<'_>,
    context: &mut CudaContext<'_>,
) -> Result<bool> {
    let (shape, strides) = collapsed_in_output_order(&[from.layout().expand(to.shape())?, *to.layout()])?;
    let turn = Turn::of(&shape, &strides);
    let (Some(turn), Some(types)) = (turn, types(from.dtype(), to.dtype())) else { return Ok(false) };
    let copy = TurningCopy { turn, types, from, to };
    match turn.lengths.map(|length| length >= MIN_LENGTH) {
        [true, true] => copy.tiles(context)?,
        [true, false] if turn.are_adjacent() => copy.interleave(context)?,
        _ => return Ok(false),
    }
    Ok(true)
}

/// The minimum length of both axes for tiles: shorter ones fill too little of them.
const MIN_LENGTH: i32 = 8;

/// The maximum length of both axes, which kernels round up to whole tiles.
const MAX_LENGTH: i32 = i32::MAX - 128;

/// The C++ types of the elements of both tensors, and the one by way of which elements are converted.
fn types(from: DType, to: DType) -> Option<[&'static str; 3]> {
    if from != to && from.is_float() && to.is_float() {
        return Some([from.name(), to.name(), compute_type(from)?]);
    }
    (from.size() == to.size()).then(|| [element(from); 3])
}

/// The axes of tensors of which the source is contiguous along another axis than the target.
#[derive(Debug, Clone, Copy)]
struct Turn {
    /// All other axes, and the strides of both tensors along them.
    outer: KernelShape,
    outer_strides: [KernelStrides; 2],
    /// The lengths of the source's contiguous axis and of the target's.
    lengths: [i32; 2],
    /// The stride of the source along the target's contiguous axis, and that of the target along the source's.
    cross_strides: [i64; 2],
}

impl Turn {
    /// The axes of tensors with this shape, in the memory order of the target; `None` if both are contiguous along the same axis,
    /// or an axis is too long.
    fn of(shape: &KernelShape, strides: &AllStrides) -> Option<Self> {
        let [from, to] = [0, 1].map(|at| strides.get(at).copied().unwrap_or_default());
        let rank = usize::try_from(shape.rank).ok()?;
        let (to_axis, from_axis) = (rank.checked_sub(1)?, from.by.iter().take(rank).position(|by| *by == 1)?);
        let is_transposed = from_axis != to_axis && from.by[to_axis] > 1 && to.by[to_axis] == 1;
        let lengths = [shape.dims[from_axis], shape.dims[to_axis]];
        if !is_transposed || lengths.iter().any(|length| *length > MAX_LENGTH) {
            return None;
        }
        let mut outer = KernelShape { rank: rank as i32 - 2, ..KernelShape::default() };
        let mut outer_strides = [KernelStrides::default(); 2];
        for (at, axis) in (0..rank).filter(|axis| ![from_axis, to_axis].contains(axis)).enumerate() {
            outer.dims[at] = shape.dims[axis];
            outer_strides.iter_mut().zip([&from, &to]).for_each(|(outer, by)| outer.by[at] = by.by[axis]);
        }
        Some(Self { outer, outer_strides, lengths, cross_strides: [from.by[to_axis], to.by[from_axis]] })
    }

    /// Returns true if the target has no gaps between its lines along the contiguous axis, which are in the order of the source.
    fn are_adjacent(&self) -> bool {
        self.cross_strides[1] == i64::from(self.lengths[1])
    }

    /// The strides of the source or the target between the lines that a thread processes in chunks. If those of the target are
    /// adjacent and short, it processes several as one.
    fn strides(&self, position: usize) -> SmallVec<[i64; 8]> {
        let outer = self.outer_strides[position].by.iter().copied().take(self.outer.rank as usize);
        let is_one = position == 1 && self.lengths[1] < MIN_LENGTH;
        outer.chain((!is_one).then_some(self.cross_strides[position])).collect()
    }

    /// The number of lines along the other axes.
    fn count(&self, to: &DeviceTensor<'_>) -> usize {
        let length: usize = self.lengths.iter().map(|length| *length as usize).product();
        to.num_elements() / length.max(1)
    }
}

/// A copy that turns the axes of a tensor.
struct TurningCopy<'a, 'b> {
    turn: Turn,
    types: [&'static str; 3],
    from: &'a DeviceTensor<'b>,
    to: &'a DeviceTensor<'b>,
}

impl TurningCopy<'_, '_> {
    /// Transposes tiles in shared memory, in words of 16 bytes if these are aligned.
    fn tiles(&self, context: &mut CudaContext<'_>) -> Result<()> {
        let Self { turn, to, .. } = self;
        let size = to.dtype().size();
        let word = if size <= 4 { 16 / size } else { 1 };
        let is_whole = turn.lengths.iter().all(|length| (*length as usize).is_multiple_of(word));
        let word = if is_whole && self.are_chunked(word) { word } else { 1 };
        let (side, threads) = match word {
            1 => (if size <= 2 { 64 } else { 32 }, Grid::THREADS),
            _ => (8 * word, 128),
        };
        let tiles = turn.lengths.map(|length| (length as usize).div_ceil(side));
        let tiles = turn.count(to) * tiles[0] * tiles[1];
        let arguments = self.arguments(&[
            Argument::Long(turn.cross_strides[1]),
            Argument::Shape(turn.outer),
            Argument::Int(turn.lengths[0]),
            Argument::Int(turn.lengths[1]),
            Argument::Long(tiles as i64),
        ]);
        let unit = self.define(Unit::new("transpose.cu", include_str!("../kernels/transpose.cu")), word);
        context.run(&unit, "transpose", Grid::of(tiles, threads), &arguments)
    }

    /// Copies a few lines into one, each thread as many elements of each as fit a word.
    fn interleave(&self, context: &mut CudaContext<'_>) -> Result<()> {
        let Self { turn, from, to, .. } = self;
        let mut word = 16 / from.dtype().size().min(to.dtype().size());
        while word > 1 && !self.are_chunked(word) {
            word /= 2;
        }
        let [length, channels] = turn.lengths;
        let count = turn.count(to) * (length as usize).div_ceil(word);
        let arguments = self.arguments(&[
            Argument::Shape(turn.outer),
            Argument::Int(length),
            Argument::Long(count as i64),
        ]);
        let unit = self.define(Unit::new("interleave.cu", include_str!("../kernels/interleave.cu")), word);
        context.run(&unit.define("CHANNELS", channels), "interleave", Grid::over(count), &arguments)
    }

    /// The arguments of a kernel: the tensors, and these.
    fn arguments<'a>(&'a self, others: &[Argument<'a>]) -> SmallVec<[Argument<'a>; 10]> {
        let [from_by, to_by] = self.turn.outer_strides.map(Argument::Strides);
        let from = [Argument::Read(*self.from), from_by, Argument::Long(self.turn.cross_strides[0])];
        let tensors = from.into_iter().chain([Argument::Write(*self.to), to_by]);
        tensors.chain(others.iter().copied()).collect()
    }

    /// Returns true if both tensors can be processed in chunks of this many elements.
    fn are_chunked(&self, word: usize) -> bool {
        is_chunked(self.from, &self.turn.strides(0), word) && is_chunked(self.to, &self.turn.strides(1), word)
    }

    fn define(&self, unit: Unit, word: usize) -> Unit {
        let [from, to, by_way_of] = self.types;
        unit.define("T", from).define("U", to).define("C", by_way_of).define("WORD", word)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The lengths of the axes that a copy turns from column-major to row-major order.
    fn turned(rows: i32, columns: i32) -> Option<[i32; 2]> {
        let shape = KernelShape { rank: 2, dims: [rows, columns, 0, 0, 0, 0, 0, 0] };
        let by = |row: i64, column: i64| KernelStrides { by: [row, column, 0, 0, 0, 0, 0, 0] };
        let strides = [by(1, rows.into()), by(columns.into(), 1)].into_iter().collect();
        Turn::of(&shape, &strides).map(|turn| turn.lengths)
    }

    #[test]
    fn the_longest_axes_are_not_turned() {
        assert_eq!(turned(40, 24), Some([40, 24]));
        assert_eq!(turned(i32::MAX - 128, 24), Some([i32::MAX - 128, 24]));
        // The number of tiles would overflow.
        assert_eq!(turned(i32::MAX - 64, 24), None);
        assert_eq!(turned(24, i32::MAX), None);
    }
}
