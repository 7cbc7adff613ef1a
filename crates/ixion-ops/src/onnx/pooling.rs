//! Pooling.

use super::convolution::convolved;
use super::decompose::{Decompose, entry};
use super::decomposition::Decomposition;
use super::edges::{Edge, Ends, Fit, UnpaddedIndices, pad_axes};
use super::fields::{Flag, List, numbers};
use super::lowering::Source;
use super::windows::{AutoPad, NAMES, Windows, per_axis, torch_axes, windows};
use crate::creation::filled::{Ones, OnesLike};
use crate::op::{LayerError, Result, SpatialAxes};
use crate::pooling::{self, Pooled};
use crate::reduction::along_axes::{Amax, Mean};
use crate::support::arguments::{Accumulator, InputIndex, OutputCount, ParamOrInput, RecordedType};
use crate::support::broadcast::integer_range;
use crate::support::choices::PerAxis;
use ixion_tensor::{DType, Dim};

const X: Source = Source::Input(0);

windows! {
    /// `LpPool` (since 1): the Lp norm (Σ|x|ᵖ)^(1/p) of each window.
    LpPool for "LpPool" {
        /// Order of the norm.
        p: i64 = 2,
        /// Whether a last window that is only partly inside counts.
        ceil_mode: Flag = Flag::of(0),
    }

    /// `AveragePool` (since 1): the mean of each window.
    AveragePool for "AveragePool" {
        /// Whether a last window that is only partly inside counts.
        ceil_mode: Flag = Flag::of(0),
        /// Whether padding counts in the mean.
        count_include_pad: Flag = Flag::of(0),
    }

    /// `MaxPool` (since 1): the largest element of each window; padding is never the largest. A second output holds the
    /// indices of the largest elements.
    MaxPool for "MaxPool" {
        /// Whether a last window that is only partly inside counts.
        ceil_mode: Flag = Flag::of(0),
        /// Whether the elements of a plane are numbered in column-major order, for the indices.
        storage_order: Flag = Flag::of(0),
        /// Element type that the file records for the output if it differs from the input's: that of indices.
        recorded as "output": RecordedType,
        /// Number of outputs that the file lists; the second holds indices among all elements of the input.
        outputs: OutputCount,
    }

    /// `MaxUnpool` (since 9): elements put back where a `MaxPool` found them, with zeros elsewhere.
    MaxUnpool for "MaxUnpool" {
        /// Index of each element among all elements of the tensor that was pooled.
        i as "I": InputIndex,
        /// Shape of the output; the smallest that the window allows if absent.
        output_shape: List = None,
    }
}

crate::operator! {
    /// `GlobalAveragePool` (since 1): the mean of all elements of each channel, N×C×….
    pub struct GlobalAveragePool for "GlobalAveragePool" {}
}

crate::operator! {
    /// `GlobalMaxPool` (since 1): the largest element of each channel, N×C×….
    pub struct GlobalMaxPool for "GlobalMaxPool" {}
}

/// The number of axes of a window.
fn axes_of(kernel: &[usize]) -> Result<SpatialAxes> {
    SpatialAxes::new(kernel.len()).ok_or_else(|| {
        LayerError::invalid("kernel_shape", format!("{kernel:?}"), "only 1 to 3 axes can be pooled")
    })
}

/// Casts f16 and bf16 to f32, which can hold large sums of them.
fn wide(decomposition: &mut Decomposition, x: Source) -> Result<Source> {
    match decomposition.dtype(x)? {
        DType::F16 | DType::Bf16 => decomposition.cast(x, DType::F32),
        _ => Ok(x),
    }
}

/// The means of windows that need no padding, or their sums if `divisor_override` is 1.
fn windowed(
    decomposition: &mut Decomposition,
    windows: &Windows,
    x: Source,
    divisor_override: Option<i64>,
) -> Result<Source> {
    if windows.dilations.iter().any(|step| *step != 1) {
        return dilated(decomposition, windows, x, divisor_override);
    }
    let pool = pooling::AvgPool {
        axes: axes_of(&windows.kernel)?,
        kernel_size: torch_axes(&windows.kernel),
        stride: Some(torch_axes(&windows.strides)),
        padding: PerAxis::all(0),
        ceil_mode: false,
        count_include_pad: true,
        divisor_override,
    };
    decomposition.then(Pooled::from(pool), &[x])
}

/// As [`windowed`], for dilated windows, which PyTorch's means do not have: sums by a convolution with ones.
fn dilated(
    decomposition: &mut Decomposition,
    windows: &Windows,
    x: Source,
    divisor_override: Option<i64>,
) -> Result<Source> {
    let (meta, axes) = (decomposition.meta(x)?.clone(), windows.kernel.len());
    let &[ref n, ref c, ref lens @ ..] = meta.dims() else {
        return Err(LayerError::shape("the input", "N×C×…", meta));
    };
    if lens.len() != axes {
        return Err(LayerError::shape("the input", format!("{axes} axes after the channels"), meta));
    }
    let one = Dim::Fixed(1);
    let planes: Vec<Dim> = [n.clone() * c.clone(), one].into_iter().chain(lens.iter().cloned()).collect();
    let planes = decomposition.reshape(planes, x)?;
    let size = [1, 1].iter().chain(&windows.kernel).map(usize::to_string).collect::<Vec<_>>().join(",");
    let ones = decomposition.call::<Ones>(&[("size", &format!("({size})"))], &[], 1)?;
    let ones = decomposition.cast(ones, meta.dtype())?;
    let bare = Windows { auto_pad: AutoPad::Valid, pads: vec![(0, 0); axes], ..windows.clone() };
    let sums = convolved(decomposition, &bare, 1, [planes, ones], None)?;
    let outer = [n.clone(), c.clone()].into_iter();
    let dims = outer.chain(decomposition.meta(sums)?.dims().iter().skip(2).cloned()).collect();
    let sums = decomposition.reshape(dims, sums)?;
    let taps = windows.kernel.iter().fold(1usize, |taps, len| taps.saturating_mul(*len));
    match divisor_override.unwrap_or(i64::try_from(taps).unwrap_or(i64::MAX)) {
        1 => Ok(sums),
        divisor => decomposition.compute(&format!("div(@0,{divisor})"), &[sums]),
    }
}

/// The size of a pooling's window.
fn pool_kernel(found: Option<&[i64]>) -> Result<Vec<usize>> {
    match found {
        Some(found) => per_axis("kernel_shape", Some(found), &vec![1; found.len()]),
        None => Err(LayerError::invalid("kernel_shape", "None", "the window size is required")),
    }
}

/// The number of axes after the channels.
fn axes_after_channels(decomposition: &Decomposition) -> Result<usize> {
    let rank = decomposition.rank(X)?;
    rank.checked_sub(2).ok_or(LayerError::shape("the input", "N×C×…", decomposition.meta(X)?))
}

impl Decompose for GlobalAveragePool {
    fn decompose(&self, decomposition: &mut Decomposition) -> Result<Vec<Source>> {
        let count = axes_after_channels(decomposition)?;
        let output_size = ParamOrInput::Value(PerAxis::of(vec![1; count]));
        Ok(vec![match (count, SpatialAxes::new(count)) {
            (0, _) => X,
            (_, Some(axes)) => {
                let pool = pooling::AdaptiveAvgPool { axes, output_size };
                decomposition.then(Pooled::from(pool), &[X])?
            }
            (_, None) => {
                let dim = Some((2..count as i64 + 2).collect());
                decomposition.then(Mean { dtype: Accumulator(None), dim, keepdim: true }, &[X])?
            }
        }])
    }
}

impl Decompose for GlobalMaxPool {
    fn decompose(&self, decomposition: &mut Decomposition) -> Result<Vec<Source>> {
        let count = axes_after_channels(decomposition)?;
        let output_size = ParamOrInput::Value(PerAxis::of(vec![1; count]));
        Ok(vec![match (count, SpatialAxes::new(count)) {
            (0, _) => X,
            (_, Some(axes)) => {
                let pool = pooling::AdaptiveMaxPool { axes, output_size, return_indices: false };
                decomposition.then(Pooled::from(pool), &[X])?
            }
            (_, None) => {
                let dim = Some((2..count as i64 + 2).collect());
                decomposition.then(Amax { dim, keepdim: true }, &[X])?
            }
        }])
    }
}

impl Decompose for LpPool {
    fn names(&self) -> &'static [(&'static str, &'static str)] {
        NAMES
    }

    fn decompose(&self, decomposition: &mut Decomposition) -> Result<Vec<Source>> {
        if self.p < 1 {
            return Err(LayerError::invalid("p", self.p, "it must be at least 1"));
        }
        let windows = self.windows(&pool_kernel(self.kernel_shape.as_deref())?)?;
        let x = wide(decomposition, X)?;
        let x = windows.padded(decomposition, x, self.ceil_mode.0, 0.0)?;
        let powers = decomposition.compute(&format!("pow(abs(@0),{})", self.p), &[x])?;
        let sums = windowed(decomposition, &windows, powers, Some(1))?;
        let norms = decomposition.compute(&format!("pow(@0,{:?})", 1.0 / self.p as f64), &[sums])?;
        let dtype = decomposition.dtype(X)?;
        Ok(vec![decomposition.cast(norms, dtype)?])
    }
}

impl Decompose for AveragePool {
    fn names(&self) -> &'static [(&'static str, &'static str)] {
        NAMES
    }

    fn decompose(&self, decomposition: &mut Decomposition) -> Result<Vec<Source>> {
        let windows = self.windows(&pool_kernel(self.kernel_shape.as_deref())?)?;
        let ceil_mode = self.ceil_mode.0;
        if self.count_include_pad.0 && !ceil_mode {
            let x = windows.padded(decomposition, X, false, 0.0)?;
            return Ok(vec![windowed(decomposition, &windows, x, None)?]);
        }
        let x = wide(decomposition, X)?;
        let mut counted = decomposition.then(OnesLike { dtype: None, memory_format: None }, &[x])?;
        if self.count_include_pad.0 {
            counted = windows.padded(decomposition, counted, false, 1.0)?;
            let axes = windows.edges(ceil_mode).into_iter().map(Edge::of_rest).collect();
            counted = pad_axes(decomposition, axes, 0.0, counted)?;
        } else {
            counted = windows.padded(decomposition, counted, ceil_mode, 0.0)?;
        }
        let x = windows.padded(decomposition, x, ceil_mode, 0.0)?;
        let sums = windowed(decomposition, &windows, x, Some(1))?;
        let counts = windowed(decomposition, &windows, counted, Some(1))?;
        let means = decomposition.compute("div(@0,max(@1,1.0))", &[sums, counts])?;
        let dtype = decomposition.dtype(X)?;
        Ok(vec![decomposition.cast(means, dtype)?])
    }
}

impl Decompose for MaxPool {
    fn names(&self) -> &'static [(&'static str, &'static str)] {
        NAMES
    }

    fn num_outputs(&self) -> usize {
        self.outputs.0.clamp(1, 2)
    }

    fn decompose(&self, decomposition: &mut Decomposition) -> Result<Vec<Source>> {
        let windows = self.windows(&pool_kernel(self.kernel_shape.as_deref())?)?;
        let least =
            integer_range(decomposition.dtype(X)?).map_or(f64::NEG_INFINITY, |(least, _)| least as f64);
        let only_places = self.outputs.0 < 2 && self.recorded.0 == Some(DType::I64);
        let return_indices = only_places || self.outputs.0 > 1;
        // Indices count the elements of the padded tensor.
        let padding = windows.pooled_padding(self.ceil_mode.0).filter(|_| !return_indices);
        let x = match padding {
            Some(_) => X,
            None => windows.padded(decomposition, X, self.ceil_mode.0, least)?,
        };
        let pool = pooling::MaxPool {
            axes: axes_of(&windows.kernel)?,
            kernel_size: torch_axes(&windows.kernel),
            stride: Some(torch_axes(&windows.strides)),
            padding: padding.map_or(PerAxis::all(0), |padding| torch_axes(&padding)),
            dilation: torch_axes(&windows.dilations),
            ceil_mode: false,
            return_indices,
        };
        let largest = decomposition.then(Pooled::from(pool), &[x])?;
        if !return_indices {
            return Ok(vec![largest]);
        }
        // PyTorch numbers the elements within each padded plane, ONNX through all channels of the batch.
        let (axes, is_column_major) = (windows.edges(self.ceil_mode.0), self.storage_order.0);
        let places =
            decomposition.step(UnpaddedIndices { axes, is_column_major }, &[largest.output(1), X])?;
        Ok(if only_places { vec![places] } else { vec![largest, places] })
    }
}

impl Decompose for MaxUnpool {
    fn names(&self) -> &'static [(&'static str, &'static str)] {
        NAMES
    }

    fn decompose(&self, decomposition: &mut Decomposition) -> Result<Vec<Source>> {
        let given = self.kernel_shape.as_deref().unwrap_or_default();
        let windows = self.windows(&per_axis("kernel_shape", Some(given), &vec![1; given.len()])?)?;
        let (rank, axes) = (decomposition.rank(X)?, windows.kernel.len());
        let Some(leading) = rank.checked_sub(axes) else {
            return Err(LayerError::shape(
                "the input",
                format!("at least {axes} axes"),
                decomposition.meta(X)?,
            ));
        };
        if windows.pads.iter().any(|(before, after)| before != after) {
            let found = format!("{:?}", self.pads);
            return Err(LayerError::invalid("pads", found, "it must be the same at both ends"));
        }
        // ONNX numbers the elements through all channels of the batch, PyTorch within each plane.
        let plane = (0..axes).fold("1".to_owned(), |plane, axis| {
            let more =
                windows.kernel[axis] as i64 - 2 * windows.pads[axis].0 as i64 - windows.strides[axis] as i64;
            format!("mul({plane},add(mul(size(@1,{}),{}),{more}))", leading + axis, windows.strides[axis])
        });
        let places =
            decomposition.compute(&format!("remainder(@0,{plane})"), &[Source::Input(self.i.0), X])?;
        let unpool = pooling::MaxUnpool {
            axes: axes_of(&windows.kernel)?,
            indices: InputIndex(1),
            kernel_size: torch_axes(&windows.kernel),
            stride: Some(torch_axes(&windows.strides)),
            padding: torch_axes(&windows.pads.iter().map(|pads| pads.0).collect::<Vec<_>>()),
            output_size: None,
        };
        let output = decomposition.then(unpool, &[X, places])?;
        let Some(shape) = numbers("output_shape", &self.output_shape, decomposition.inputs())? else {
            return Ok(vec![output]);
        };
        let lens: Option<Vec<usize>> = shape.iter().map(|len| usize::try_from(*len).ok()).collect();
        let Some(lens) = lens.filter(|lens| lens.len() == rank) else {
            let reason = format!("expected {rank} lengths of at least 0");
            return Err(LayerError::invalid("output_shape", format!("{shape:?}"), reason));
        };
        let lens = lens.into_iter().enumerate().skip(leading).collect();
        Ok(vec![decomposition.step(Fit { lens, ends: Ends::Last }, &[output])?])
    }
}

operators! { entry => LpPool, AveragePool, MaxPool, MaxUnpool, GlobalAveragePool, GlobalMaxPool; category Pooling }
