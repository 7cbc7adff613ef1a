//! Pooling.

use super::edges::{Edge, Ends, Fit, PlacesWithin, Surround};
use super::fields::{Flag, List, numbers};
use super::recipe::{Recipe, Source};
use super::translated::{Translate, entry};
use super::windows::{NAMES, Windows, per_axis, torch_axes, windows};
use crate::op::{LayerError, SpatialAxes};
use crate::ops::creation::filled::OnesLike;
use crate::ops::pooling::{self, Pooled};
use crate::ops::support::arguments::{Operand, OutputCount, RecordedType};
use crate::ops::support::broadcast::integer_range;
use crate::ops::support::choices::PerAxis;
use crate::tensor::DType;
use std::ops::RangeInclusive;

const X: Source = Source::Input(0);

windows! {
    /// `LpPool` (since 1): (Σ|x|ᵖ)^(1/p) of each window.
    LpPool for "LpPool" {
        /// The order of the norm.
        p: i64 = 2,
        /// Whether a last position that is only partly inside counts.
        ceil_mode: Flag = Flag::of(0),
    }

    /// `AveragePool` (since 1): the mean of each window.
    AveragePool for "AveragePool" {
        /// Whether a last position that is only partly inside counts.
        ceil_mode: Flag = Flag::of(0),
        /// Whether what is added around the input counts.
        count_include_pad: Flag = Flag::of(0),
    }

    /// `MaxPool` (since 1): the largest element of each window. What is added around the input is never the largest.
    MaxPool for "MaxPool" {
        /// Whether a last position that is only partly inside counts.
        ceil_mode: Flag = Flag::of(0),
        /// Whether places are counted along the first axis of a plane first, instead of its last.
        storage_order: Flag = Flag::of(0),
        /// The type that the file records for the output where it is another than the input's: that of places.
        recorded as "output": RecordedType,
        /// How many outputs the file lists: the second are places among all elements.
        outputs: OutputCount,
    }

    /// `MaxUnpool` (since 9): elements put back to where a `MaxPool` found them, and zeros elsewhere.
    MaxUnpool for "MaxUnpool" {
        /// Where each element stood, among all elements of the pooled tensor.
        i as "I": Operand,
        /// The shape of the output; the smallest that the window allows where absent.
        output_shape: List = None,
    }
}

/// The number of axes of a window.
fn axes_of(kernel: &[usize]) -> Result<SpatialAxes, LayerError> {
    SpatialAxes::new(kernel.len())
        .ok_or_else(|| LayerError::invalid("kernel_shape", format!("{kernel:?}"), "1 to 3 axes are pooled"))
}

/// Refuses windows that skip places.
fn check_dense(windows: &Windows) -> Result<(), LayerError> {
    if windows.dilations.iter().all(|step| *step == 1) {
        return Ok(());
    }
    let found = format!("{:?}", windows.dilations);
    Err(LayerError::invalid("dilations", found, "for this pooling it must be 1"))
}

/// Halves as f32, which holds what sums of many of them come to.
fn wide(recipe: &mut Recipe, x: Source) -> Result<Source, LayerError> {
    match recipe.dtype(x)? {
        DType::F16 | DType::Bf16 => recipe.cast(x, DType::F32),
        _ => Ok(x),
    }
}

/// The sums, or the means, of windows that lie within the input.
fn windowed(
    recipe: &mut Recipe,
    windows: &Windows,
    x: Source,
    divisor_override: Option<i64>,
) -> Result<Source, LayerError> {
    let pool = pooling::AvgPool {
        axes: axes_of(&windows.kernel)?,
        kernel_size: torch_axes(&windows.kernel),
        stride: Some(torch_axes(&windows.strides)),
        padding: PerAxis::all(0),
        ceil_mode: false,
        count_include_pad: true,
        divisor_override,
    };
    recipe.then(Pooled::from(pool), &[x])
}

/// The lengths of a pooling's window.
fn pool_kernel(found: Option<&[i64]>) -> Result<Vec<usize>, LayerError> {
    match found {
        Some(found) => per_axis("kernel_shape", Some(found), &vec![1; found.len()]),
        None => Err(LayerError::invalid("kernel_shape", "None", "the window's lengths are needed")),
    }
}

impl Translate for LpPool {
    fn names(&self) -> &'static [(&'static str, &'static str)] {
        NAMES
    }

    fn translate(&self, recipe: &mut Recipe) -> Result<Vec<Source>, LayerError> {
        if self.p < 1 {
            return Err(LayerError::invalid("p", self.p, "it must be at least 1"));
        }
        let windows = self.windows(&pool_kernel(self.kernel_shape.as_deref())?)?;
        check_dense(&windows)?;
        let x = wide(recipe, X)?;
        let x = windows.surrounded(recipe, x, self.ceil_mode.0, 0.0)?;
        let powers = recipe.compute(&format!("pow(abs(@0),{})", self.p), &[x])?;
        let sums = windowed(recipe, &windows, powers, Some(1))?;
        let norms = recipe.compute(&format!("pow(@0,{:?})", 1.0 / self.p as f64), &[sums])?;
        let dtype = recipe.dtype(X)?;
        Ok(vec![recipe.cast(norms, dtype)?])
    }
}

impl Translate for AveragePool {
    fn names(&self) -> &'static [(&'static str, &'static str)] {
        NAMES
    }

    fn translate(&self, recipe: &mut Recipe) -> Result<Vec<Source>, LayerError> {
        let windows = self.windows(&pool_kernel(self.kernel_shape.as_deref())?)?;
        check_dense(&windows)?;
        let ceil_mode = self.ceil_mode.0;
        if self.count_include_pad.0 && !ceil_mode {
            let x = windows.surrounded(recipe, X, false, 0.0)?;
            return Ok(vec![windowed(recipe, &windows, x, None)?]);
        }
        let x = wide(recipe, X)?;
        let mut counted = recipe.then(OnesLike { dtype: None, memory_format: None }, &[x])?;
        if self.count_include_pad.0 {
            counted = windows.surrounded(recipe, counted, false, 1.0)?;
            let axes = windows.edges(ceil_mode).into_iter().map(Edge::of_rest).collect();
            counted = recipe.step(Surround { axes, value: 0.0 }, &[counted])?;
        } else {
            counted = windows.surrounded(recipe, counted, ceil_mode, 0.0)?;
        }
        let x = windows.surrounded(recipe, x, ceil_mode, 0.0)?;
        let sums = windowed(recipe, &windows, x, Some(1))?;
        let counts = windowed(recipe, &windows, counted, Some(1))?;
        let means = recipe.compute("div(@0,max(@1,1.0))", &[sums, counts])?;
        let dtype = recipe.dtype(X)?;
        Ok(vec![recipe.cast(means, dtype)?])
    }
}

impl Translate for MaxPool {
    fn names(&self) -> &'static [(&'static str, &'static str)] {
        NAMES
    }

    fn num_outputs(&self) -> usize {
        self.outputs.0.clamp(1, 2)
    }

    fn translate(&self, recipe: &mut Recipe) -> Result<Vec<Source>, LayerError> {
        let windows = self.windows(&pool_kernel(self.kernel_shape.as_deref())?)?;
        let least = integer_range(recipe.dtype(X)?).map_or(f64::NEG_INFINITY, |(least, _)| least as f64);
        let x = windows.surrounded(recipe, X, self.ceil_mode.0, least)?;
        let only_places = self.outputs.0 < 2 && self.recorded.0 == Some(DType::I64);
        let return_indices = only_places || self.outputs.0 > 1;
        let pool = pooling::MaxPool {
            axes: axes_of(&windows.kernel)?,
            kernel_size: torch_axes(&windows.kernel),
            stride: Some(torch_axes(&windows.strides)),
            padding: PerAxis::all(0),
            dilation: torch_axes(&windows.dilations),
            ceil_mode: false,
            return_indices,
        };
        let largest = recipe.then(Pooled::from(pool), &[x])?;
        if !return_indices {
            return Ok(vec![largest]);
        }
        // PyTorch counts within each plane of what is surrounded, ONNX through all channels of the batch.
        let (axes, is_column_major) = (windows.edges(self.ceil_mode.0), self.storage_order.0);
        let places = recipe.step(PlacesWithin { axes, is_column_major }, &[largest.output(1), X])?;
        Ok(if only_places { vec![places] } else { vec![largest, places] })
    }
}

impl Translate for MaxUnpool {
    fn names(&self) -> &'static [(&'static str, &'static str)] {
        NAMES
    }

    fn num_inputs(&self) -> RangeInclusive<usize> {
        let count = 2 + super::fields::count(&self.output_shape);
        count..=count
    }

    fn translate(&self, recipe: &mut Recipe) -> Result<Vec<Source>, LayerError> {
        let given = self.kernel_shape.as_deref().unwrap_or_default();
        let windows = self.windows(&per_axis("kernel_shape", Some(given), &vec![1; given.len()])?)?;
        let (rank, axes) = (recipe.rank(X)?, windows.kernel.len());
        let Some(leading) = rank.checked_sub(axes) else {
            return Err(LayerError::shape("the input", format!("at least {axes} axes"), recipe.meta(X)?));
        };
        if windows.pads.iter().any(|(before, after)| before != after) {
            let found = format!("{:?}", self.pads);
            return Err(LayerError::invalid("pads", found, "it must be the same at both ends"));
        }
        // ONNX counts through all channels of the batch, PyTorch within each plane.
        let plane = (0..axes).fold("1".to_owned(), |plane, axis| {
            let more =
                windows.kernel[axis] as i64 - 2 * windows.pads[axis].0 as i64 - windows.strides[axis] as i64;
            format!("mul({plane},add(mul(size(@1,{}),{}),{more}))", leading + axis, windows.strides[axis])
        });
        let places = recipe.compute(&format!("remainder(@0,{plane})"), &[Source::Input(self.i.0), X])?;
        let unpool = pooling::MaxUnpool {
            axes: axes_of(&windows.kernel)?,
            indices: Operand(1),
            kernel_size: torch_axes(&windows.kernel),
            stride: Some(torch_axes(&windows.strides)),
            padding: torch_axes(&windows.pads.iter().map(|pads| pads.0).collect::<Vec<_>>()),
            output_size: None,
        };
        let output = recipe.then(unpool, &[X, places])?;
        let Some(shape) = numbers("output_shape", &self.output_shape, recipe.inputs())? else {
            return Ok(vec![output]);
        };
        let lens: Option<Vec<usize>> = shape.iter().map(|len| usize::try_from(*len).ok()).collect();
        let Some(lens) = lens.filter(|lens| lens.len() == rank) else {
            let reason = format!("{rank} lengths of at least 0 are needed");
            return Err(LayerError::invalid("output_shape", format!("{shape:?}"), reason));
        };
        let lens = lens.into_iter().enumerate().skip(leading).collect();
        Ok(vec![recipe.step(Fit { lens, ends: Ends::Last }, &[output])?])
    }
}

operators! { entry => LpPool, AveragePool, MaxPool, MaxUnpool }
