//! Windows that slide over the last axes, with ONNX's ways to say what is added around the input.

use super::edges::{Around, Edge, Surround};
use super::recipe::{Recipe, Source};
use crate::op::LayerError;
use crate::ops::support::choices::{PerAxis, choices};

choices! {
    /// How many places are added around the input.
    pub enum AutoPad {
        /// As many as `pads` says.
        NotSet = "NOTSET",
        /// As many as make the output as long as the input over the stride, rounded up; the odd one at the end.
        SameUpper = "SAME_UPPER",
        /// The same with the odd one at the beginning.
        SameLower = "SAME_LOWER",
        /// None.
        Valid = "VALID",
    }
}

/// Declares operators that have a window.
macro_rules! windows {
    ($($(#[doc = $doc:literal])* $name:ident for $op_type:literal { $($fields:tt)* })*) => {$(
        crate::operator! {
            $(#[doc = $doc])*
            pub struct $name for $op_type {
                /// What is added around the input.
                auto_pad: $crate::ops::onnx::windows::AutoPad = $crate::ops::onnx::windows::AutoPad::NotSet,
                /// Lengths of the window; those of the weights where absent.
                kernel_shape: Option<Vec<i64>> = None,
                /// Distance between one position of the window and the next; 1 where absent.
                strides: Option<Vec<i64>> = None,
                /// Distance between the places that the window looks at; 1 where absent.
                dilations: Option<Vec<i64>> = None,
                /// How many places go before each axis, then how many after each; none where absent.
                pads: Option<Vec<i64>> = None,
                $($fields)*
            }
        }

        impl $name {
            /// The window along all axes, for a kernel of these lengths.
            fn windows(&self, kernel: &[usize]) -> Result<$crate::ops::onnx::windows::Windows, LayerError> {
                $crate::ops::onnx::windows::Given {
                    auto_pad: self.auto_pad,
                    kernel_shape: self.kernel_shape.as_deref(),
                    strides: self.strides.as_deref(),
                    dilations: self.dilations.as_deref(),
                    pads: self.pads.as_deref(),
                }
                .windows(kernel)
            }
        }
    )*};
}

pub(super) use windows;

/// What ONNX calls the parameters of convolutions and poolings.
pub(super) const NAMES: &[(&str, &str)] = &[
    ("stride", "strides"),
    ("dilation", "dilations"),
    ("padding", "pads"),
    ("groups", "group"),
    ("kernel_size", "kernel_shape"),
];

/// A window along all axes that it slides over.
pub(super) struct Windows {
    pub(super) auto_pad: AutoPad,
    /// Its lengths.
    pub(super) kernel: Vec<usize>,
    /// How far it moves.
    pub(super) strides: Vec<usize>,
    /// From one place that it looks at to the next.
    pub(super) dilations: Vec<usize>,
    /// What the file adds before and after each axis.
    pub(super) pads: Vec<(usize, usize)>,
}

/// A window as a file gives it.
pub(super) struct Given<'a> {
    pub(super) auto_pad: AutoPad,
    pub(super) kernel_shape: Option<&'a [i64]>,
    pub(super) strides: Option<&'a [i64]>,
    pub(super) dilations: Option<&'a [i64]>,
    pub(super) pads: Option<&'a [i64]>,
}

impl Given<'_> {
    /// The window along all axes, for a kernel of these lengths.
    pub(super) fn windows(&self, kernel: &[usize]) -> Result<Windows, LayerError> {
        let axes = kernel.len();
        let given = per_axis("kernel_shape", self.kernel_shape, kernel)?;
        if given != kernel {
            let reason = format!("the weights are of {kernel:?}");
            return Err(LayerError::invalid("kernel_shape", format!("{given:?}"), reason));
        }
        let ones = vec![1; axes];
        let windows = Windows {
            auto_pad: self.auto_pad,
            kernel: kernel.to_vec(),
            strides: per_axis("strides", self.strides, &ones)?,
            dilations: per_axis("dilations", self.dilations, &ones)?,
            pads: pads(self.pads, axes)?,
        };
        match (0..axes).all(|axis| windows.reach(axis) < MOST) {
            true => Ok(windows),
            false => {
                let found = format!("{:?}", windows.dilations);
                Err(LayerError::invalid("dilations", found, "the window becomes absurdly large"))
            }
        }
    }
}

/// What lengths of windows and numbers of places stay below.
const MOST: usize = 1 << 40;

/// One number for each axis; `usual` where there are none.
pub(super) fn per_axis(
    key: &'static str,
    found: Option<&[i64]>,
    usual: &[usize],
) -> Result<Vec<usize>, LayerError> {
    let Some(found) = found else { return Ok(usual.to_vec()) };
    let numbers: Option<Vec<usize>> = found.iter().map(|number| usize::try_from(*number).ok()).collect();
    match numbers
        .filter(|numbers| numbers.len() == usual.len() && numbers.iter().all(|n| (1..MOST).contains(n)))
    {
        Some(numbers) => Ok(numbers),
        None => {
            let reason = format!("a number of at least 1 is needed for each of {} axes", usual.len());
            Err(LayerError::invalid(key, format!("{found:?}"), reason))
        }
    }
}

/// The places before and after each axis.
pub(super) fn pads(found: Option<&[i64]>, axes: usize) -> Result<Vec<(usize, usize)>, LayerError> {
    let Some(found) = found else { return Ok(vec![(0, 0); axes]) };
    let numbers: Option<Vec<usize>> = found.iter().map(|number| usize::try_from(*number).ok()).collect();
    match numbers.filter(|numbers| numbers.len() == 2 * axes && numbers.iter().all(|n| *n < MOST)) {
        Some(numbers) => {
            let (before, after) = numbers.split_at(axes);
            Ok(before.iter().copied().zip(after.iter().copied()).collect())
        }
        None => {
            let reason = format!("two numbers of at least 0 are needed for each of {axes} axes");
            Err(LayerError::invalid("pads", format!("{found:?}"), reason))
        }
    }
}

/// PyTorch's numbers for all axes.
pub(super) fn torch_axes(numbers: &[usize]) -> PerAxis {
    PerAxis::of(numbers.to_vec())
}

/// Lengths of the window, from weights whose first two axes are channels.
pub(super) fn kernel_of(recipe: &Recipe, weight: Source) -> Result<Vec<usize>, LayerError> {
    let meta = recipe.meta(weight)?;
    let lens = meta.dims().iter().skip(2).map(|dim| dim.fixed().and_then(|len| usize::try_from(len).ok()));
    match lens.collect::<Option<Vec<usize>>>().filter(|lens| (1..=3).contains(&lens.len())) {
        Some(lens) => Ok(lens),
        None => Err(LayerError::shape("the weights", "3, 4 or 5 axes, the last of known lengths", meta)),
    }
}

impl Windows {
    /// How many places it covers along an axis.
    pub(super) fn reach(&self, axis: usize) -> usize {
        let (len, step) = (self.kernel[axis], self.dilations[axis]);
        len.saturating_sub(1).saturating_mul(step).saturating_add(1)
    }

    /// What is added around the input along each axis. With `ceil_mode`, a last position that is only partly inside
    /// counts, if it begins inside.
    pub(super) fn edges(&self, ceil_mode: bool) -> Vec<Edge> {
        let around = |axis: usize| match self.auto_pad {
            AutoPad::SameUpper => Around::Same { at_end: true },
            AutoPad::SameLower => Around::Same { at_end: false },
            AutoPad::Valid => Around::Given { before: 0, after: 0, ceil_mode },
            AutoPad::NotSet => {
                let (before, after) = self.pads[axis];
                Around::Given { before, after, ceil_mode }
            }
        };
        let edge = |axis| Edge { reach: self.reach(axis), stride: self.strides[axis], around: around(axis) };
        (0..self.kernel.len()).map(edge).collect()
    }

    /// The input with what is added around it.
    pub(super) fn surrounded(
        &self,
        recipe: &mut Recipe,
        x: Source,
        ceil_mode: bool,
        value: f64,
    ) -> Result<Source, LayerError> {
        let is_plain = matches!(self.auto_pad, AutoPad::NotSet | AutoPad::Valid)
            && (self.auto_pad == AutoPad::Valid || self.pads.iter().all(|pair| *pair == (0, 0)));
        if is_plain && !ceil_mode {
            return Ok(x);
        }
        recipe.step(Surround { axes: self.edges(ceil_mode), value }, &[x])
    }
}
