//! Fourier transforms: the family of `torch.fft`.

use crate::op::{CpuLayer, FromOperator, Io, Layer, LayerError, Result, TensorMeta, exactly};
use crate::support::arguments::ParamOrInput;
use crate::support::broadcast::Converted;
use crate::support::choices::choices;
use crate::support::views::{Plain, write_plain};
use ixion_kernels::fourier::{self as kernel, Direction, Lines, Real};
use ixion_tensor::{Complex, DType, Dim, Element, Limits, Tensor, TensorView, TensorViewMut, resolve_axes};
use std::borrow::Cow;
use std::ops::RangeInclusive;

choices! {
    /// The normalisation factor of a transform of n elements.
    pub enum Norm {
        /// 1 forward, 1/n backward.
        Backward = "backward",
        /// 1/n forward, 1 backward.
        Forward = "forward",
        /// 1/√n forward and backward.
        Ortho = "ortho",
    }
}

impl Norm {
    /// The factor of a transform of `elements` elements.
    pub fn factor(self, elements: f64, direction: Direction) -> f64 {
        match (self, direction) {
            (Norm::Ortho, _) => 1.0 / elements.sqrt(),
            (Norm::Backward, Direction::Inverse) | (Norm::Forward, Direction::Forward) => 1.0 / elements,
            _ => 1.0,
        }
    }
}

/// The kind of a transform's input and output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Complex to complex.
    Complex,
    /// Real to the first half of a Hermitian result.
    FromReal,
    /// The first half of a Hermitian input to real.
    ToReal,
}

/// A transform of known axes.
pub struct Transform {
    /// Whether the input and the output are complex, real or half of a Hermitian signal.
    pub kind: Kind,
    /// The sign of the exponent: negative for a forward transform, positive for an inverse one.
    pub direction: Direction,
    /// The normalisation; [`Norm::Backward`] if the operator gives none.
    pub norm: Norm,
    /// The axes, counted from 0 and all different. A Hermitian half lies along the last one.
    pub axes: Vec<usize>,
    /// The length of the signal along each of these axes.
    pub lens: Vec<Dim>,
}

/// The axes and lengths that an operator requests.
struct Request {
    kind: Kind,
    direction: Direction,
    norm: Option<Norm>,
    axes: Option<Vec<i64>>,
    lens: Option<Vec<Dim>>,
}

impl Request {
    fn resolve(self, input: &TensorMeta) -> Result<Transform> {
        let rank = input.rank();
        if rank == 0 && self.axes.as_ref().is_some_and(|axes| !axes.is_empty()) {
            return Err(LayerError::shape("the input", "at least one axis", input));
        }
        let lens_count = self.lens.as_ref().map(Vec::len);
        let axes = match (&self.axes, lens_count) {
            (Some(axes), _) => resolve_axes(axes, rank)?,
            (None, Some(count)) if count > rank => {
                return Err(LayerError::shape("the input", format!("at least {count} axes"), input));
            }
            (None, count) => (rank - count.unwrap_or(rank)..rank).collect(),
        };
        let invalid = |key, found: String, reason: &str| Err(LayerError::invalid(key, found, reason));
        if let Some(count) = lens_count.filter(|&count| count != axes.len()) {
            return invalid("s", format!("{count} lengths"), "expected one length for each axis");
        }
        if axes.iter().enumerate().any(|(i, axis)| axes[..i].contains(axis)) {
            return invalid("dim", format!("{axes:?}"), "an axis is repeated");
        }
        if axes.is_empty() && self.kind != Kind::Complex {
            return Err(LayerError::shape("the axes to transform", "at least one", input));
        }
        let natural = |(i, &axis): (usize, &usize)| {
            let len = input.dims()[axis].clone();
            if self.kind == Kind::ToReal && i + 1 == axes.len() { (len - 1) * 2 } else { len }
        };
        let natural = axes.iter().enumerate().map(natural);
        let lens: Vec<Dim> = match &self.lens {
            None => natural.collect(),
            Some(lens) => {
                natural.zip(lens).map(|(n, len)| if *len == -1 { n } else { len.clone() }).collect()
            }
        };
        if let Some(len) = lens.iter().find(|len| len.fixed().is_some_and(|len| len < 1)) {
            return Err(LayerError::shape("the length of a signal", "at least 1", len));
        }
        let norm = self.norm.unwrap_or(Norm::Backward);
        Ok(Transform { kind: self.kind, direction: self.direction, norm, axes, lens })
    }
}

/// The element type of a transform's real results: f32 or f64.
///
/// # Errors
/// [`LayerError::DType`] for half precision, as in PyTorch on a CPU.
pub fn precision(dtype: DType) -> Result<DType> {
    match dtype {
        DType::F64 | DType::C128 => Ok(DType::F64),
        DType::F16 | DType::Bf16 | DType::C32 => {
            Err(LayerError::dtype("the input", "f32, f64, c64, c128, integers and bool", dtype))
        }
        _ => Ok(DType::F32),
    }
}

/// The complex type of a precision.
pub fn complex(precision: DType) -> DType {
    if precision == DType::F64 { DType::C128 } else { DType::C64 }
}

/// The lines along an axis of arrays of a shape.
fn lines(shape: &[usize], axis: usize) -> Lines {
    Lines::new(shape[axis], shape.iter().skip(axis + 1).product())
}

impl Transform {
    fn infer(&self, input: &TensorMeta) -> Result<TensorMeta> {
        let precision = precision(input.dtype())?;
        if self.kind == Kind::FromReal && input.dtype().is_complex() {
            return Err(LayerError::dtype("the input", "real numbers", input.dtype()));
        }
        let mut dims = input.dims().to_vec();
        for (&axis, len) in self.axes.iter().zip(&self.lens) {
            dims[axis] = len.clone();
        }
        if let (Kind::FromReal, Some(&last)) = (self.kind, self.axes.last()) {
            dims[last] = dims[last].clone().floor_div(2) + 1;
        }
        let dtype = if self.kind == Kind::ToReal { precision } else { complex(precision) };
        Ok(TensorMeta::new(dtype, dims))
    }

    fn run(&self, input: &TensorView<'_>, output: &mut TensorViewMut<'_>, limits: &Limits) -> Result<()> {
        let lens: Option<Vec<usize>> =
            self.lens.iter().map(|len| len.fixed().and_then(|len| usize::try_from(len).ok())).collect();
        let lens = lens.unwrap_or_default();
        self.check(input.shape(), &lens, size_of::<Complex<f64>>(), limits)?;
        let factor = self.norm.factor(lens.iter().map(|&len| len as f64).product(), self.direction);
        let (precision, input) = (precision(input.dtype())?, self.fitted(input, &lens)?);
        write_plain(output, &mut |output| match precision {
            DType::F64 => self.run_in::<f64>(&input.view(), output, factor, limits),
            _ => self.run_in::<f32>(&input.view(), output, factor, limits),
        })
    }

    /// The input in row-major order, truncated or padded with zeros to the lengths of the signal, or to half of the last one.
    fn fitted<'a>(&self, input: &TensorView<'a>, lens: &[usize]) -> Result<Plain<'a>> {
        let mut shape = input.shape().to_vec();
        for (&axis, &len) in self.axes.iter().zip(lens) {
            shape[axis] = len;
        }
        if let (Kind::ToReal, Some(&last)) = (self.kind, self.axes.last()) {
            shape[last] = shape[last] / 2 + 1;
        }
        if input.shape().dims() == shape {
            return Plain::of(input);
        }
        let mut whole = Tensor::zeros(input.dtype(), &shape)?;
        let (mut from, mut to) = (*input.layout(), *whole.layout());
        for (axis, (&old, &new)) in input.shape().iter().zip(&shape).enumerate() {
            from = from.narrow(axis, 0, old.min(new))?;
            to = to.narrow(axis, 0, old.min(new))?;
        }
        whole.view_mut()?.with_layout(to)?.copy_from(&input.with_layout(from)?)?;
        Ok(Plain::Copy(whole))
    }

    /// Transforms an input of the signal's lengths. Input and output are in row-major order.
    fn run_in<T: Real>(
        &self,
        input: &TensorView<'_>,
        output: &mut TensorViewMut<'_>,
        factor: f64,
        limits: &Limits,
    ) -> Result<()>
    where
        Complex<T>: Element,
    {
        let (shape, factor) = (*output.shape(), T::of(factor));
        let last = self.axes.last().copied().unwrap_or(0);
        let others = self.axes.split_last().map_or(&[][..], |(_, others)| others);
        // Half of the spectrum of real numbers determines the other half.
        let is_complex = input.dtype().is_complex();
        let innermost = shape.rank().checked_sub(1).filter(|axis| !is_complex && self.axes.contains(axis));
        match (self.kind, innermost) {
            (Kind::ToReal, _) => {
                let input = Converted::of(input, Complex::<T>::DTYPE)?;
                let input = input.view();
                let mut spectra = Cow::Borrowed(input.slice::<Complex<T>>()?);
                for &axis in others {
                    kernel::transform(spectra.to_mut(), lines(input.shape(), axis), self.direction, limits)?;
                }
                let values = output.slice::<T>()?;
                kernel::signals(&spectra, lines(&shape, last), values, self.direction, limits)?;
                scale(values, factor);
            }
            (Kind::FromReal, _) => {
                let input = Converted::of(input, T::DTYPE)?;
                let input = input.view();
                let (values, spectra) = (input.slice::<T>()?, output.slice::<Complex<T>>()?);
                let along = lines(input.shape(), last);
                kernel::spectra(values, along, (&mut *spectra, shape[last]), self.direction, limits)?;
                for &axis in others {
                    kernel::transform(spectra, lines(&shape, axis), self.direction, limits)?;
                }
                scale(spectra, factor);
            }
            (Kind::Complex, None) => {
                output.cast_from(input)?;
                let values = output.slice::<Complex<T>>()?;
                for &axis in &self.axes {
                    kernel::transform(values, lines(&shape, axis), self.direction, limits)?;
                }
                scale(values, factor);
            }
            (Kind::Complex, Some(innermost)) => {
                let input = Converted::of(input, T::DTYPE)?;
                let input = input.view();
                let (values, spectra) = (input.slice::<T>()?, output.slice::<Complex<T>>()?);
                let (along, len) = (lines(&shape, innermost), shape[innermost]);
                kernel::spectra(values, along, (&mut *spectra, len), self.direction, limits)?;
                for &axis in self.axes.iter().filter(|&&axis| axis != innermost) {
                    let along = lines(&shape, axis).within(len, len / 2 + 1);
                    kernel::transform(spectra, along, self.direction, limits)?;
                }
                kernel::complete(spectra, &shape, &self.axes, limits)?;
                scale(spectra, factor);
            }
        }
        Ok(())
    }

    /// Checks the largest intermediate signal, with each axis at its maximum length.
    fn check(&self, shape: &[usize], lens: &[usize], size: usize, limits: &Limits) -> Result<()> {
        let mut largest = shape.to_vec();
        for (&axis, &len) in self.axes.iter().zip(lens) {
            largest[axis] = largest[axis].max(len);
        }
        let bytes = largest.iter().fold(size as u64, |bytes, &len| bytes.saturating_mul(len as u64));
        Ok(limits.check_tensor("the values of a Fourier transform", bytes)?)
    }
}

/// Multiplies all values by a factor.
fn scale<T: Real, V: Copy + std::ops::Mul<T, Output = V>>(values: &mut [V], factor: T) {
    if factor != T::one() {
        values.iter_mut().for_each(|value| *value = *value * factor);
    }
}

/// The axes that an operator names, and the lengths of the signal along them.
type AxesAndLens = (Option<Vec<i64>>, Option<Vec<Dim>>);

/// Declares transforms along one axis, with a length `n`, along two axes and along any number of axes, with lengths `s`.
macro_rules! transforms {
    (@fields line, [$($doc:literal)*] $name:ident [$($op_type:literal)*]) => {
        crate::operator! {
            $(#[doc = $doc])*
            pub struct $name for $($op_type),* {
                /// The length of the signal, which is truncated or padded with zeros. By default the length of the axis, or
                /// 2(n − 1) for one of length n that holds the first half of a Hermitian input.
                n: Option<ParamOrInput<i64>> = None,
                /// The axis; may be negative, counting from the end. The last one by default.
                dim: Option<i64> = None,
                /// The normalisation; `backward` by default.
                norm: Option<Norm> = None,
            }
        }

        impl $name {
            fn axes_and_lens(&self, inputs: &[TensorMeta]) -> Result<AxesAndLens> {
                let len = self.n.as_ref().map(|n| n.dim(inputs)).transpose()?;
                Ok((Some(vec![self.dim.unwrap_or(-1)]), len.map(|len| vec![len])))
            }
        }
    };
    (@fields plane, [$($doc:literal)*] $name:ident $op_types:tt) => {
        transforms!(
            @lists [$($doc)*] $name $op_types, |dim| Some(dim.unwrap_or_else(|| vec![-2, -1])),
            "The axes; may be negative, counting from the end. The last two by default."
        );
    };
    (@fields volume, [$($doc:literal)*] $name:ident $op_types:tt) => {
        transforms!(
            @lists [$($doc)*] $name $op_types, |dim| dim,
            "The axes; may be negative, counting from the end. By default the last ones, one for each length of `s`, or all."
        );
    };
    (@lists [$($doc:literal)*] $name:ident [$($op_type:literal)*], |$dim:ident| $axes:expr, $dim_doc:literal) => {
        crate::operator! {
            $(#[doc = $doc])*
            pub struct $name for $($op_type),* {
                /// The lengths of the signal along the axes, which is truncated or padded with zeros. By default and for -1 the
                /// lengths of the axes, or 2(n − 1) for a last one of length n that holds the first half of a Hermitian input.
                s: Option<ParamOrInput<Vec<i64>>> = None,
                #[doc = $dim_doc]
                dim: Option<Vec<i64>> = None,
                /// The normalisation; `backward` by default.
                norm: Option<Norm> = None,
            }
        }

        impl $name {
            fn axes_and_lens(&self, inputs: &[TensorMeta]) -> Result<AxesAndLens> {
                let $dim = self.dim.clone();
                Ok(($axes, self.s.as_ref().map(|s| s.dims(inputs)).transpose()?))
            }
        }
    };
    ($($(#[doc = $doc:literal])* $name:ident for $($op_type:literal),+ is $form:ident $kind:ident $direction:ident;)*) => {
        $(
            transforms!(@fields $form, [$($doc)*] $name [$($op_type)*]);

            impl $name {
                /// The transform of input 0, with its axes and lengths resolved.
                ///
                /// # Errors
                /// Returns an error if an axis is out of range or repeated, if a transform from or to real numbers has none, or
                /// if the lengths are unknown, less than 1 or not as many as the axes.
                pub fn transform(&self, inputs: &[TensorMeta]) -> Result<Transform> {
                    let (kind, direction) = (Kind::$kind, Direction::$direction);
                    let (axes, lens) = self.axes_and_lens(inputs)?;
                    Request { kind, direction, norm: self.norm, axes, lens }.resolve(&inputs[0])
                }
            }

            impl Layer for $name {
                fn num_inputs(&self) -> RangeInclusive<usize> {
                    exactly(1 + self.field_inputs())
                }

                fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
                    Ok(vec![self.transform(inputs)?.infer(&inputs[0])?])
                }
            }

            impl CpuLayer for $name {
                fn forward(&mut self, io: &mut Io<'_, '_>) -> Result<()> {
                    let transform = self.transform(&TensorMeta::of_all(io.inputs))?;
                    transform.run(&io.inputs[0], &mut io.outputs[0], io.context.limits())
                }
            }
        )*

        operators! { $($name),* }
    };
}

transforms! {
    /// `torch.fft.fft`: the discrete Fourier transform of a real or complex signal along an axis.
    Fft for "torch.fft.fft", "aten::fft_fft" is line Complex Forward;
    /// `torch.fft.ifft`: the inverse discrete Fourier transform along an axis.
    Ifft for "torch.fft.ifft", "aten::fft_ifft" is line Complex Inverse;
    /// `torch.fft.rfft`: the discrete Fourier transform of a real signal along an axis: the first half of its spectrum,
    /// ⌊n/2⌋ + 1 elements for n.
    Rfft for "torch.fft.rfft", "aten::fft_rfft" is line FromReal Forward;
    /// `torch.fft.irfft`: the inverse of [`Rfft`] along an axis: the real signal of the first half of a spectrum, 2(n − 1)
    /// elements for n.
    Irfft for "torch.fft.irfft", "aten::fft_irfft" is line ToReal Inverse;
    /// `torch.fft.hfft`: the discrete Fourier transform along an axis of a Hermitian signal that is given by its first half:
    /// its real spectrum, 2(n − 1) elements for n.
    Hfft for "torch.fft.hfft", "aten::fft_hfft" is line ToReal Forward;
    /// `torch.fft.ihfft`: the inverse of [`Hfft`] along an axis: the first half of the Hermitian signal of a real spectrum,
    /// ⌊n/2⌋ + 1 elements for n.
    Ihfft for "torch.fft.ihfft", "aten::fft_ihfft" is line FromReal Inverse;
    /// `torch.fft.fft2`: [`Fft`] along two axes.
    Fft2 for "torch.fft.fft2", "aten::fft_fft2" is plane Complex Forward;
    /// `torch.fft.ifft2`: [`Ifft`] along two axes.
    Ifft2 for "torch.fft.ifft2", "aten::fft_ifft2" is plane Complex Inverse;
    /// `torch.fft.rfft2`: [`Rfft`] along the last of two axes, then [`Fft`] along the other.
    Rfft2 for "torch.fft.rfft2", "aten::fft_rfft2" is plane FromReal Forward;
    /// `torch.fft.irfft2`: [`Ifft`] along the first of two axes, then [`Irfft`] along the last.
    Irfft2 for "torch.fft.irfft2", "aten::fft_irfft2" is plane ToReal Inverse;
    /// `torch.fft.hfft2`: [`Fft`] along the first of two axes, then [`Hfft`] along the last.
    Hfft2 for "torch.fft.hfft2", "aten::fft_hfft2" is plane ToReal Forward;
    /// `torch.fft.ihfft2`: [`Ihfft`] along the last of two axes, then [`Ifft`] along the other.
    Ihfft2 for "torch.fft.ihfft2", "aten::fft_ihfft2" is plane FromReal Inverse;
    /// `torch.fft.fftn`: [`Fft`] along any number of axes.
    Fftn for "torch.fft.fftn", "aten::fft_fftn" is volume Complex Forward;
    /// `torch.fft.ifftn`: [`Ifft`] along any number of axes.
    Ifftn for "torch.fft.ifftn", "aten::fft_ifftn" is volume Complex Inverse;
    /// `torch.fft.rfftn`: [`Rfft`] along the last axis, then [`Fft`] along the others.
    Rfftn for "torch.fft.rfftn", "aten::fft_rfftn" is volume FromReal Forward;
    /// `torch.fft.irfftn`: [`Ifft`] along all axes but the last, then [`Irfft`] along the last.
    Irfftn for "torch.fft.irfftn", "aten::fft_irfftn" is volume ToReal Inverse;
    /// `torch.fft.hfftn`: [`Fft`] along all axes but the last, then [`Hfft`] along the last.
    Hfftn for "torch.fft.hfftn", "aten::fft_hfftn" is volume ToReal Forward;
    /// `torch.fft.ihfftn`: [`Ihfft`] along the last axis, then [`Ifft`] along the others.
    Ihfftn for "torch.fft.ihfftn", "aten::fft_ihfftn" is volume FromReal Inverse;
}

#[cfg(test)]
mod tests;
