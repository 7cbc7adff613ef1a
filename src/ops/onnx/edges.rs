//! Steps that add places at the edges of a tensor, or cut some off.

use crate::op::{CpuLayer, ForwardContext, Layer, LayerError, TensorMeta};
use crate::ops::layout::padding::{Pad, PaddingMode};
use crate::ops::support::arguments::Argument;
use crate::ops::support::broadcast::Converted;
use crate::tensor::{DType, Dim, TensorView, TensorViewMut};
use std::ops::RangeInclusive;

/// What is added around one axis.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Around {
    /// As much as makes the output of a window as long as the input over the stride, rounded up.
    Same {
        /// Whether the odd place goes to the end.
        at_end: bool,
    },
    /// What a file says.
    Given {
        /// Places at the beginning.
        before: usize,
        /// Places at the end.
        after: usize,
        /// Whether a last position that is only partly inside counts, if it begins before `after`: then the axis becomes
        /// as long as positions need it.
        ceil_mode: bool,
    },
    /// What [`Around::Given`] with `ceil_mode` adds to an axis that has these places already.
    Rest {
        /// Places at the beginning.
        before: usize,
        /// Places at the end.
        after: usize,
    },
}

/// One axis with the window that slides along it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Edge {
    /// How many places the window covers.
    pub(super) reach: usize,
    /// How far it moves.
    pub(super) stride: usize,
    /// What is added.
    pub(super) around: Around,
}

impl Edge {
    /// The same for an axis that has what the file adds.
    pub(super) fn of_rest(self) -> Self {
        match self.around {
            Around::Given { before, after, .. } => Self { around: Around::Rest { before, after }, ..self },
            Around::Same { .. } => {
                Self { around: Around::Given { before: 0, after: 0, ceil_mode: false }, ..self }
            }
            Around::Rest { .. } => self,
        }
    }

    /// How long an axis becomes.
    pub(super) fn len(&self, len: &Dim) -> Dim {
        let (reach, stride) = (self.reach, self.stride);
        let needed = |positions: Dim| (positions - 1) * stride + reach;
        match self.around {
            Around::Same { .. } if stride == 1 => len.clone() + (reach - 1),
            Around::Same { .. } => needed(len.clone().ceil_div(stride)).max(len.clone()),
            Around::Given { before, after, ceil_mode: false } => len.clone() + (before + after),
            Around::Given { before, after, ceil_mode: true } => {
                let last = (len.clone() + (before + after) - reach).ceil_div(stride);
                needed(last.min((len.clone() + before - 1).floor_div(stride)) + 1)
            }
            Around::Rest { before, after } => {
                let inside = Self { around: Around::Given { before, after, ceil_mode: true }, ..*self };
                inside.len(&(len.clone() - (before + after)))
            }
        }
    }

    /// How many places go to the beginning of an axis that gets this length.
    pub(super) fn before(&self, from: usize, to: usize) -> usize {
        match self.around {
            Around::Same { at_end: true } => to.saturating_sub(from) / 2,
            Around::Same { at_end: false } => to.saturating_sub(from).div_ceil(2),
            Around::Given { before, .. } => before,
            Around::Rest { .. } => 0,
        }
    }
}

/// Places of one value around the last axes.
#[derive(Debug, Clone)]
pub(super) struct Surround {
    /// These axes.
    pub(super) axes: Vec<Edge>,
    /// The value.
    pub(super) value: f64,
}

/// The number of axes before some of the last.
fn leading(input: &TensorMeta, axes: usize) -> Result<usize, LayerError> {
    let leading = input.rank().checked_sub(axes);
    leading.ok_or_else(|| LayerError::shape("the input", format!("at least {axes} axes"), input))
}

impl Layer for Surround {
    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>, LayerError> {
        let leading = leading(&inputs[0], self.axes.len())?;
        let mut dims = inputs[0].dims().to_vec();
        for (dim, edge) in dims.iter_mut().skip(leading).zip(&self.axes) {
            *dim = edge.len(dim);
            if dim.fixed().is_some_and(|len| len < 0) {
                let wanted = format!("room for windows of {} places", edge.reach);
                return Err(LayerError::shape("the input", wanted, &inputs[0]));
            }
        }
        Ok(vec![inputs[0].with_dims(dims)])
    }
}

impl CpuLayer for Surround {
    fn forward(
        &mut self,
        inputs: &[TensorView<'_>],
        outputs: &mut [TensorViewMut<'_>],
        context: &mut ForwardContext<'_>,
    ) -> Result<(), LayerError> {
        let lens = inputs[0].shape().iter().rev().zip(outputs[0].shape().iter().rev());
        let pairs = lens.zip(self.axes.iter().rev()).flat_map(|((&from, &to), edge)| {
            let [before, from, to] = [edge.before(from, to), from, to].map(signed);
            [before, to - from - before]
        });
        let pad = Argument::Value(pairs.collect());
        Pad { pad, mode: PaddingMode::Constant, value: Some(self.value) }.forward(inputs, outputs, context)
    }
}

/// A length that is no longer than memory.
fn signed(len: usize) -> i64 {
    i64::try_from(len).unwrap_or(i64::MAX)
}

/// Of places in the planes of a surrounded tensor, where they are among all elements of the second input, which is the
/// tensor without its surroundings.
#[derive(Debug, Clone)]
pub(super) struct PlacesWithin {
    /// The axes of a plane.
    pub(super) axes: Vec<Edge>,
    /// Whether a plane is counted along its first axis first, instead of its last.
    pub(super) is_column_major: bool,
}

/// How one axis of a plane is counted.
struct Line {
    /// Its length in the tensor that was surrounded.
    len: usize,
    /// Its length with the surroundings.
    whole: usize,
    before: usize,
    /// From one place to the next among the elements of a plane.
    step: usize,
}

impl PlacesWithin {
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

impl Layer for PlacesWithin {
    fn num_inputs(&self) -> RangeInclusive<usize> {
        2..=2
    }

    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>, LayerError> {
        leading(&inputs[1], self.axes.len())?;
        Ok(vec![inputs[0].with_dtype(DType::I64)])
    }
}

impl CpuLayer for PlacesWithin {
    fn forward(
        &mut self,
        inputs: &[TensorView<'_>],
        outputs: &mut [TensorViewMut<'_>],
        _: &mut ForwardContext<'_>,
    ) -> Result<(), LayerError> {
        let axes = self.axes.len();
        let last = |shape: &[usize]| shape[shape.len().saturating_sub(axes)..].to_vec();
        let lens = last(inputs[1].shape());
        let (lines, plane) = (self.lines(&lens), lens.iter().product::<usize>());
        let per_plane = last(outputs[0].shape()).iter().product::<usize>().max(1);
        let places = Converted::of(&inputs[0], DType::I64)?;
        let places = places.view().array::<i64>()?;
        for (position, (output, &place)) in outputs[0].array::<i64>()?.iter_mut().zip(places).enumerate() {
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

/// Some axes cut or filled up with zeros to given lengths.
#[derive(Debug, Clone)]
pub(super) struct Fit {
    /// The axes and their lengths in the output.
    pub(super) lens: Vec<(usize, usize)>,
    /// Which ends change.
    pub(super) ends: Ends,
}

/// Where elements are cut off or added.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ends {
    /// At the end.
    Last,
    /// At both, the odd one at the end.
    Both,
    /// They are added at the end, but cut off at both.
    CutBoth {
        /// Whether the odd one is cut off at the end.
        odd_at_end: bool,
    },
}

impl Ends {
    /// How many elements are added at the beginning, of so many in all; a negative number is cut off.
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
    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>, LayerError> {
        let mut dims = inputs[0].dims().to_vec();
        for &(axis, len) in &self.lens {
            match dims.get_mut(axis) {
                Some(dim) => *dim = Dim::from(len),
                None => return Err(LayerError::shape("the input", format!("an axis {axis}"), &inputs[0])),
            }
        }
        Ok(vec![inputs[0].with_dims(dims)])
    }
}

impl CpuLayer for Fit {
    fn forward(
        &mut self,
        inputs: &[TensorView<'_>],
        outputs: &mut [TensorViewMut<'_>],
        context: &mut ForwardContext<'_>,
    ) -> Result<(), LayerError> {
        let lens = inputs[0].shape().iter().rev().zip(outputs[0].shape().iter().rev());
        let pairs = lens.flat_map(|(&from, &to)| {
            let [from, to] = [from, to].map(signed);
            let before = self.ends.before(to - from);
            [before, to - from - before]
        });
        let pad = Argument::Value(pairs.collect());
        Pad { pad, mode: PaddingMode::Constant, value: None }.forward(inputs, outputs, context)
    }
}
