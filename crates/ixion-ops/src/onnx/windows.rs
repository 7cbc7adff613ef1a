//! Windows that slide over the last axes, with ONNX's forms of padding.

use super::decomposition::Decomposition;
use super::edges::{AxisPadding, Edge, pad_axes};
use super::lowering::Source;
use crate::op::{LayerError, Result};
use crate::support::choices::{PerAxis, choices};

choices! {
    /// The choice of padding.
    pub enum AutoPad {
        /// As `pads` specifies.
        NotSet = "NOTSET",
        /// Such that the output is as long as the input over the stride, rounded up; an odd element goes to the end.
        SameUpper = "SAME_UPPER",
        /// As `SAME_UPPER`, with an odd element at the beginning.
        SameLower = "SAME_LOWER",
        /// No padding.
        Valid = "VALID",
    }
}

/// Declares operators that have a window.
macro_rules! windows {
    ($($(#[doc = $doc:literal])* $name:ident for $op_type:literal { $($fields:tt)* })*) => {$(
        crate::operator! {
            $(#[doc = $doc])*
            pub struct $name for $op_type {
                /// The choice of padding.
                auto_pad: $crate::onnx::windows::AutoPad = $crate::onnx::windows::AutoPad::NotSet,
                /// Size of the window; that of the weights if absent.
                kernel_shape: Option<Vec<i64>> = None,
                /// Stride of the window along each axis; 1 if absent.
                strides: Option<Vec<i64>> = None,
                /// Distance between adjacent taps of the window; 1 if absent.
                dilations: Option<Vec<i64>> = None,
                /// Padding at the start of each axis, then at the end of each; none if absent.
                pads: Option<Vec<i64>> = None,
                $($fields)*
            }
        }

        impl $name {
            /// The window along all axes, for a kernel of this size.
            fn windows(&self, kernel: &[usize]) -> Result<$crate::onnx::windows::Windows> {
                $crate::onnx::windows::Given {
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

/// PyTorch's and ONNX's names of the parameters of convolutions and poolings.
pub(super) const NAMES: &[(&str, &str)] = &[
    ("stride", "strides"),
    ("dilation", "dilations"),
    ("padding", "pads"),
    ("groups", "group"),
    ("kernel_size", "kernel_shape"),
];

/// A window along all axes that it slides over.
#[derive(Clone)]
pub(super) struct Windows {
    pub(super) auto_pad: AutoPad,
    /// Its size.
    pub(super) kernel: Vec<usize>,
    /// Its strides.
    pub(super) strides: Vec<usize>,
    /// The distances between adjacent taps.
    pub(super) dilations: Vec<usize>,
    /// The padding that the file gives before and after each axis.
    pub(super) pads: Vec<(usize, usize)>,
}

/// The window attributes of a file.
pub(super) struct Given<'a> {
    pub(super) auto_pad: AutoPad,
    pub(super) kernel_shape: Option<&'a [i64]>,
    pub(super) strides: Option<&'a [i64]>,
    pub(super) dilations: Option<&'a [i64]>,
    pub(super) pads: Option<&'a [i64]>,
}

impl Given<'_> {
    /// The window along all axes, for a kernel of this size.
    pub(super) fn windows(&self, kernel: &[usize]) -> Result<Windows> {
        let axes = kernel.len();
        let given = per_axis("kernel_shape", self.kernel_shape, kernel)?;
        if given != kernel {
            let reason = format!("the weights have the kernel size {kernel:?}");
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
        match (0..axes).all(|axis| windows.reach(axis) < MAX_EXTENT) {
            true => Ok(windows),
            false => {
                let found = format!("{:?}", windows.dilations);
                Err(LayerError::invalid("dilations", found, "the window is too large"))
            }
        }
    }
}

/// The upper limit, exclusive, of the size of windows and paddings.
const MAX_EXTENT: usize = 1 << 40;

/// One value per axis; `default` for an empty list.
pub(super) fn per_axis(key: &'static str, found: Option<&[i64]>, default: &[usize]) -> Result<Vec<usize>> {
    let Some(found) = found else { return Ok(default.to_vec()) };
    let numbers: Option<Vec<usize>> = found.iter().map(|number| usize::try_from(*number).ok()).collect();
    match numbers.filter(|numbers| {
        numbers.len() == default.len() && numbers.iter().all(|n| (1..MAX_EXTENT).contains(n))
    }) {
        Some(numbers) => Ok(numbers),
        None => {
            let reason = format!("expected a value of at least 1 for each of {} axes", default.len());
            Err(LayerError::invalid(key, format!("{found:?}"), reason))
        }
    }
}

/// The padding before and after each axis.
pub(super) fn pads(found: Option<&[i64]>, axes: usize) -> Result<Vec<(usize, usize)>> {
    let Some(found) = found else { return Ok(vec![(0, 0); axes]) };
    let numbers: Option<Vec<usize>> = found.iter().map(|number| usize::try_from(*number).ok()).collect();
    match numbers.filter(|numbers| numbers.len() == 2 * axes && numbers.iter().all(|n| *n < MAX_EXTENT)) {
        Some(numbers) => {
            let (before, after) = numbers.split_at(axes);
            Ok(before.iter().copied().zip(after.iter().copied()).collect())
        }
        None => {
            let reason = format!("expected two values of at least 0 for each of {axes} axes");
            Err(LayerError::invalid("pads", format!("{found:?}"), reason))
        }
    }
}

/// Values for all axes in PyTorch's form.
pub(super) fn torch_axes(numbers: &[usize]) -> PerAxis {
    PerAxis::of(numbers.to_vec())
}

/// The kernel size of weights whose first two axes are channels.
///
/// # Errors
/// [`LayerError::Shape`] if the weights have another number of axes, [`LayerError::Unsupported`] if their lengths are not known.
pub(super) fn kernel_of(decomposition: &Decomposition, weight: Source) -> Result<Vec<usize>> {
    let meta = decomposition.meta(weight)?;
    if !(3..=5).contains(&meta.rank()) {
        return Err(LayerError::shape("the weights", "3 to 5 axes", meta));
    }
    let lens = meta.dims().iter().skip(2).map(|dim| dim.fixed().and_then(|len| usize::try_from(len).ok()));
    let unknown = || LayerError::Unsupported(format!("the size of the weights must be known, got {meta}"));
    lens.collect::<Option<Vec<usize>>>().ok_or_else(unknown)
}

impl Windows {
    /// The extent along an axis, dilation included.
    pub(super) fn reach(&self, axis: usize) -> usize {
        let (len, step) = (self.kernel[axis], self.dilations[axis]);
        len.saturating_sub(1).saturating_mul(step).saturating_add(1)
    }

    /// The padding along each axis. With `ceil_mode`, a last window that is only partly inside counts if it begins
    /// inside.
    pub(super) fn edges(&self, ceil_mode: bool) -> Vec<Edge> {
        let around = |axis: usize| match self.auto_pad {
            AutoPad::SameUpper => AxisPadding::Same { at_end: true },
            AutoPad::SameLower => AxisPadding::Same { at_end: false },
            AutoPad::Valid => AxisPadding::Given { before: 0, after: 0, ceil_mode },
            AutoPad::NotSet => {
                let (before, after) = self.pads[axis];
                AxisPadding::Given { before, after, ceil_mode }
            }
        };
        let edge = |axis| Edge { reach: self.reach(axis), stride: self.strides[axis], around: around(axis) };
        (0..self.kernel.len()).map(edge).collect()
    }

    /// The padding that PyTorch's poolings can have, the same at both ends and at most half of the window, if it is all that
    /// there is.
    pub(super) fn pooled_padding(&self, ceil_mode: bool) -> Option<Vec<usize>> {
        let own = |(&(before, after), &kernel): (&(usize, usize), &usize)| {
            (before == after && before <= kernel / 2).then_some(before)
        };
        let is_given = self.auto_pad == AutoPad::NotSet && !ceil_mode;
        self.pads.iter().zip(&self.kernel).map(own).collect::<Option<_>>().filter(|_| is_given)
    }

    /// The padded input.
    pub(super) fn padded(
        &self,
        decomposition: &mut Decomposition,
        x: Source,
        ceil_mode: bool,
        value: f64,
    ) -> Result<Source> {
        let is_plain = matches!(self.auto_pad, AutoPad::NotSet | AutoPad::Valid)
            && (self.auto_pad == AutoPad::Valid || self.pads.iter().all(|pair| *pair == (0, 0)));
        if is_plain && !ceil_mode {
            return Ok(x);
        }
        pad_axes(decomposition, self.edges(ceil_mode), value, x)
    }
}
