//! Steps that pad a tensor at its edges, or crop it.

use super::decomposition::Decomposition;
use super::lowering::{LoweredOperator, Source};
use crate::layout::padding::{Pad, PaddingMode};
use crate::op::{CpuLayer, Io, Layer, LayerError, Result, TensorMeta, exactly};
use crate::support::arguments::ParamOrInput;
use crate::support::broadcast::Converted;
use ixion_tensor::{DType, Dim};
use std::ops::RangeInclusive;

/// The padding of one axis.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AxisPadding {
    /// As much as makes the output of the window as long as the input over the stride, rounded up.
    Same {
        /// Whether an odd element goes to the end.
        at_end: bool,
    },
    /// The padding that a file specifies.
    Given {
        /// Elements at the beginning.
        before: usize,
        /// Elements at the end.
        after: usize,
        /// Whether a last window that is only partly inside counts, if it begins before the padding at the end: the
        /// axis is then padded as far as windows reach.
        ceil_mode: bool,
    },
    /// The padding that [`AxisPadding::Given`] with `ceil_mode` adds to an axis that already has these elements.
    Rest {
        /// Elements at the beginning.
        before: usize,
        /// Elements at the end.
        after: usize,
    },
}

/// One axis with the window that slides along it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Edge {
    /// The extent of the window, dilation included.
    pub(super) reach: usize,
    /// The stride of the window.
    pub(super) stride: usize,
    /// The padding.
    pub(super) around: AxisPadding,
}

impl Edge {
    /// The padding that remains for an axis that already has what the file specifies.
    pub(super) fn of_rest(self) -> Self {
        match self.around {
            AxisPadding::Given { before, after, .. } => {
                Self { around: AxisPadding::Rest { before, after }, ..self }
            }
            AxisPadding::Same { .. } => {
                Self { around: AxisPadding::Given { before: 0, after: 0, ceil_mode: false }, ..self }
            }
            AxisPadding::Rest { .. } => self,
        }
    }

    /// The padded length of an axis.
    pub(super) fn len(&self, len: &Dim) -> Dim {
        let (reach, stride) = (self.reach, self.stride);
        let needed = |positions: Dim| (positions - 1) * stride + reach;
        match self.around {
            AxisPadding::Same { .. } if stride == 1 => len.clone() + (reach - 1),
            AxisPadding::Same { .. } => needed(len.clone().ceil_div(stride)).max(len.clone()),
            AxisPadding::Given { before, after, ceil_mode: false } => len.clone() + (before + after),
            AxisPadding::Given { before, after, ceil_mode: true } => {
                let last = (len.clone() + (before + after) - reach).ceil_div(stride);
                needed(last.min((len.clone() + before - 1).floor_div(stride)) + 1)
            }
            AxisPadding::Rest { before, after } => {
                let inside = Self { around: AxisPadding::Given { before, after, ceil_mode: true }, ..*self };
                inside.len(&(len.clone() - (before + after)))
            }
        }
    }

    /// The padding at both ends of an axis, if it is known.
    fn amounts(&self, len: &Dim) -> Option<[i64; 2]> {
        if let AxisPadding::Given { before, after, ceil_mode: false } = self.around {
            return Some([signed(before), signed(after)]);
        }
        let (from, to) = (len.fixed()?, self.len(len).fixed()?);
        let before = signed(self.before(usize::try_from(from).ok()?, usize::try_from(to).ok()?));
        Some([before, to - from - before])
    }

    /// The padding at the beginning of an axis that is padded from one length to another.
    pub(super) fn before(&self, from: usize, to: usize) -> usize {
        match self.around {
            AxisPadding::Same { at_end: true } => to.saturating_sub(from) / 2,
            AxisPadding::Same { at_end: false } => to.saturating_sub(from).div_ceil(2),
            AxisPadding::Given { before, .. } => before,
            AxisPadding::Rest { .. } => 0,
        }
    }
}

/// Pads the last axes with one value.
#[derive(Debug, Clone)]
struct PadAxes {
    axes: Vec<Edge>,
    value: f64,
}

/// Pads the last axes of a source with one value.
///
/// # Errors
/// As [`Decomposition::step`].
pub(super) fn pad_axes(
    decomposition: &mut Decomposition,
    axes: Vec<Edge>,
    value: f64,
    source: Source,
) -> Result<Source> {
    let operator = lowered(&axes, value, decomposition.meta(source)?, source);
    decomposition.step_as(PadAxes { axes, value }, &[source], operator)
}

/// The same as `F.pad`, if all amounts are known.
fn lowered(axes: &[Edge], value: f64, input: &TensorMeta, source: Source) -> Option<LoweredOperator> {
    let leading = input.rank().checked_sub(axes.len())?;
    let amounts = input.dims().iter().skip(leading).zip(axes).rev().map(|(len, edge)| edge.amounts(len));
    let pad: Vec<i64> = amounts.collect::<Option<Vec<[i64; 2]>>>()?.concat();
    let params = [("pad", pad.into()), ("mode", "constant".into()), ("value", value.into())];
    Some(LoweredOperator::new("F.pad", &params, &[source]))
}

/// The number of axes before the last `axes`.
fn leading(input: &TensorMeta, axes: usize) -> Result<usize> {
    let leading = input.rank().checked_sub(axes);
    leading.ok_or_else(|| LayerError::shape("the input", format!("at least {axes} axes"), input))
}

impl Layer for PadAxes {
    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
        let leading = leading(&inputs[0], self.axes.len())?;
        let mut dims = inputs[0].dims().to_vec();
        for (dim, edge) in dims.iter_mut().skip(leading).zip(&self.axes) {
            *dim = edge.len(dim);
            if dim.fixed().is_some_and(|len| len < 0) {
                let wanted = format!("room for a window of {} elements", edge.reach);
                return Err(LayerError::shape("the input", wanted, &inputs[0]));
            }
        }
        Ok(vec![inputs[0].with_dims(dims)])
    }
}

impl CpuLayer for PadAxes {
    fn forward(&mut self, io: &mut Io<'_, '_>) -> Result<()> {
        let lens = io.inputs[0].shape().iter().rev().zip(io.outputs[0].shape().iter().rev());
        let pairs = lens.zip(self.axes.iter().rev()).flat_map(|((&from, &to), edge)| {
            let [before, from, to] = [edge.before(from, to), from, to].map(signed);
            [before, to - from - before]
        });
        let pad = ParamOrInput::Value(pairs.collect());
        Pad { pad, mode: PaddingMode::Constant, value: Some(self.value) }.forward(io)
    }
}

/// Converts a length to i64, which holds any length that fits in memory.
fn signed(len: usize) -> i64 {
    i64::try_from(len).unwrap_or(i64::MAX)
}

/// Converts indices into the planes of a padded tensor to indices among all elements of the second input, the tensor
/// without padding.
#[derive(Debug, Clone)]
pub(super) struct UnpaddedIndices {
    /// The axes of a plane.
    pub(super) axes: Vec<Edge>,
    /// Whether the elements of a plane are numbered in column-major order.
    pub(super) is_column_major: bool,
}

/// One axis of a plane.
struct Line {
    /// Its length without padding.
    len: usize,
    /// Its length with padding.
    whole: usize,
    before: usize,
    /// The distance of neighbours along this axis, in elements of the plane.
    step: usize,
}

impl UnpaddedIndices {
    fn lines(&self, lens: &[usize]) -> Vec<Line> {
        let line = |(edge, &len): (&Edge, &usize)| {
            let whole =
                edge.len(&Dim::from(len)).fixed().and_then(|len| usize::try_from(len).ok()).unwrap_or(0);
            Line { len, whole, before: edge.before(len, whole), step: 0 }
        };
        let mut lines: Vec<Line> = self.axes.iter().zip(lens).map(line).collect();
        let mut step = 1;
        let mut number = |line: &mut Line| {
            line.step = step;
            step *= line.len;
        };
        match self.is_column_major {
            true => lines.iter_mut().for_each(&mut number),
            false => lines.iter_mut().rev().for_each(&mut number),
        }
        lines
    }
}

impl Layer for UnpaddedIndices {
    fn num_inputs(&self) -> RangeInclusive<usize> {
        exactly(2)
    }

    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
        leading(&inputs[1], self.axes.len())?;
        Ok(vec![inputs[0].with_dtype(DType::I64)])
    }
}

impl CpuLayer for UnpaddedIndices {
    fn forward(&mut self, io: &mut Io<'_, '_>) -> Result<()> {
        let axes = self.axes.len();
        let last = |shape: &[usize]| shape[shape.len().saturating_sub(axes)..].to_vec();
        let lens = last(io.inputs[1].shape());
        let (lines, plane) = (self.lines(&lens), lens.iter().product::<usize>());
        let per_plane = last(io.outputs[0].shape()).iter().product::<usize>().max(1);
        let places = Converted::of(&io.inputs[0], DType::I64)?;
        let places = places.view().array::<i64>()?;
        for (position, (output, &place)) in io.outputs[0].array::<i64>()?.iter_mut().zip(places).enumerate() {
            let mut rest = usize::try_from(place).unwrap_or(0);
            let mut found = position / per_plane * plane;
            for line in lines.iter().rev() {
                let at = rest % line.whole.max(1);
                rest /= line.whole.max(1);
                found += at.saturating_sub(line.before).min(line.len.saturating_sub(1)) * line.step;
            }
            *output = signed(found);
        }
        Ok(())
    }
}

/// Crops axes or pads them with zeros, to given lengths.
#[derive(Debug, Clone)]
pub(super) struct Fit {
    /// The axes and their lengths in the output.
    pub(super) lens: Vec<(usize, usize)>,
    /// Which ends change.
    pub(super) ends: Ends,
}

/// The ends at which elements are cropped or added.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ends {
    /// At the end.
    Last,
    /// At both ends, an odd element at the end.
    Both,
    /// Added at the end, but cropped at both ends.
    CutBoth {
        /// Whether an odd element is cropped at the end.
        odd_at_end: bool,
    },
}

impl Ends {
    /// The number of elements added at the beginning, if `added` are added in total; negative numbers are cropped.
    fn before(self, added: i64) -> i64 {
        match self {
            Self::Last => 0,
            Self::Both => added / 2,
            Self::CutBoth { .. } if added >= 0 => 0,
            Self::CutBoth { odd_at_end: true } => added / 2,
            Self::CutBoth { odd_at_end: false } => added - added / 2,
        }
    }
}

impl Layer for Fit {
    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
        let mut dims = inputs[0].dims().to_vec();
        for &(axis, len) in &self.lens {
            match dims.get_mut(axis) {
                Some(dim) => *dim = Dim::from(len),
                None => {
                    return Err(LayerError::shape(
                        "the input",
                        format!("at least {} axes", axis + 1),
                        &inputs[0],
                    ));
                }
            }
        }
        Ok(vec![inputs[0].with_dims(dims)])
    }
}

impl CpuLayer for Fit {
    fn forward(&mut self, io: &mut Io<'_, '_>) -> Result<()> {
        let lens = io.inputs[0].shape().iter().rev().zip(io.outputs[0].shape().iter().rev());
        let pairs = lens.flat_map(|(&from, &to)| {
            let [from, to] = [from, to].map(signed);
            let before = self.ends.before(to - from);
            [before, to - from - before]
        });
        let pad = ParamOrInput::Value(pairs.collect());
        Pad { pad, mode: PaddingMode::Constant, value: None }.forward(io)
    }
}
