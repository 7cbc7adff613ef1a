//! Conversion of element types, and complex numbers as pairs of real numbers.

use crate::op::{CpuLayer, ForwardContext, Layer, LayerError, TensorMeta, View};
use crate::support::arguments::InputIndex;
use crate::support::broadcast::broadcast;
use crate::support::choices::MemoryFormat;
use crate::support::views::view_layers;
use ixion_tensor::{Complex, DType, Dim, Element, Layout, Shape, TensorView, TensorViewMut, f16};
use ndarray::{Axis, Zip};
use std::ops::RangeInclusive;

crate::operator! {
    /// `torch.Tensor.to`: converts the elements to another type, by the rules of
    /// [`Tensor::cast`](ixion_tensor::Tensor::cast).
    pub struct To for "Tensor.to" {
        /// The element type; by default the input's.
        dtype: Option<DType> = None,
        /// Accepted for compatibility: tensors of a graph are immutable, so a view serves as a copy.
        copy: bool = false,
        /// Accepted for compatibility; the order in memory does not affect results.
        memory_format: Option<MemoryFormat> = None,
        /// Accepted for compatibility; the result is the same.
        non_blocking: bool = false,
    }
}

crate::operator! {
    /// `torch.Tensor.type_as`: converts the elements to the type of another tensor.
    pub struct TypeAs for "Tensor.type_as" {
        /// The tensor with the output's element type.
        other: InputIndex,
    }
}

/// Implements the traits for layers that only convert the element type.
macro_rules! converting_layers {
    ($($name:ident takes $count:literal, |$layer:ident, $type_of:ident| $dtype:expr;)*) => {$(
        impl $name {
            /// The type that elements are converted to, given the inputs' types.
            fn target(&self, $type_of: impl Fn(usize) -> DType) -> DType {
                let $layer = self;
                $dtype
            }
        }

        impl Layer for $name {
            fn num_inputs(&self) -> RangeInclusive<usize> {
                $count..=$count
            }

            fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>, LayerError> {
                let dtype = self.target(|position| inputs[position].dtype());
                if dtype == inputs[0].dtype() {
                    return Ok(vec![inputs[0].clone()]);
                }
                let output = inputs[0].with_dtype(dtype);
                let known = inputs[0].values().filter(|_| dtype == DType::I64);
                Ok(vec![match known {
                    Some(values) => output.with_values(values.to_vec()),
                    None => output,
                }])
            }

            fn view_of(
                &self,
                _: usize,
                inputs: &[(DType, Layout)],
                _: &Shape,
            ) -> Result<Option<View>, LayerError> {
                let (dtype, layout) = inputs[0];
                let is_same = self.target(|position| inputs[position].0) == dtype;
                Ok(is_same.then_some(View { input: 0, layout }))
            }
        }

        impl CpuLayer for $name {
            fn forward(
                &mut self,
                inputs: &[TensorView<'_>],
                outputs: &mut [TensorViewMut<'_>],
                _: &mut ForwardContext<'_>,
            ) -> Result<(), LayerError> {
                Ok(outputs[0].cast_from(&inputs[0])?)
            }
        }
    )*};
}

converting_layers! {
    To takes 1, |layer, type_of| layer.dtype.unwrap_or(type_of(0));
    TypeAs takes 2, |layer, type_of| type_of(layer.other.0);
}

crate::operator! {
    /// `torch.positive`: returns the input, which must not be bool.
    pub struct Positive for "torch.positive" {}
}

impl Layer for Positive {
    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>, LayerError> {
        if inputs[0].dtype() == DType::Bool {
            let wanted = "numbers".to_owned();
            return Err(LayerError::DType { what: "the input".to_owned(), wanted, found: DType::Bool });
        }
        Ok(vec![inputs[0].clone()])
    }

    fn view(&self, _: usize, inputs: &[Layout], _: &Shape) -> Result<Option<View>, LayerError> {
        Ok(Some(View { input: 0, layout: inputs[0] }))
    }
}

view_layers!(Positive);

crate::operator! {
    /// `torch.complex`: creates complex numbers from their real and imaginary parts, which are broadcast.
    pub struct MakeComplex for "torch.complex" {
        /// The imaginary parts.
        imag: InputIndex,
    }
}

crate::operator! {
    /// `torch.view_as_complex`: converts …×2 real numbers to … complex numbers. A view if the strides allow it.
    pub struct ViewAsComplex for "torch.view_as_complex" {}
}

crate::operator! {
    /// `torch.view_as_real`: views … complex numbers as …×2 real numbers.
    pub struct ViewAsReal for "torch.view_as_real" {}
}

crate::operator! {
    /// `torch.real`: the real parts; a real input is returned as it is. A view.
    pub struct Real for "torch.real" {}
}

crate::operator! {
    /// `torch.imag`: the imaginary parts of a complex input. A view.
    pub struct Imag for "torch.imag" {}
}

/// Runs an expression with `$T` bound to the type of a complex number's parts; other types are an error.
macro_rules! with_parts {
    ($dtype:expr, $T:ident => $body:expr) => {
        match $dtype {
            DType::F32 | DType::C64 => {
                type $T = f32;
                $body
            }
            DType::F64 | DType::C128 => {
                type $T = f64;
                $body
            }
            DType::F16 | DType::C32 => {
                type $T = f16;
                $body
            }
            other => Err(not_complex(other)),
        }
    };
}

fn not_complex(found: DType) -> LayerError {
    let wanted = "f32, f64 and f16, or complex numbers of them".to_owned();
    LayerError::DType { what: "the input".to_owned(), wanted, found }
}

fn complex_of(dtype: DType) -> Result<DType, LayerError> {
    match dtype {
        DType::F16 => Ok(DType::C32),
        DType::F32 => Ok(DType::C64),
        DType::F64 => Ok(DType::C128),
        other => Err(not_complex(other)),
    }
}

fn real_of(dtype: DType) -> Result<DType, LayerError> {
    if dtype.is_complex() { Ok(dtype.real()) } else { Err(not_complex(dtype)) }
}

/// The strides and the offset of complex numbers, counted in real numbers.
fn doubled(layout: &Layout) -> (Vec<usize>, usize) {
    (
        layout.strides().iter().map(|stride| stride.saturating_mul(2)).collect(),
        layout.offset().saturating_mul(2),
    )
}

impl Layer for MakeComplex {
    fn num_inputs(&self) -> RangeInclusive<usize> {
        2..=2
    }

    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>, LayerError> {
        let (real, imag) = (&inputs[0], &inputs[self.imag.0]);
        if real.dtype() != imag.dtype() {
            let (what, wanted) = ("the imaginary part".to_owned(), real.dtype().to_string());
            return Err(LayerError::DType { what, wanted, found: imag.dtype() });
        }
        let dims = broadcast(real.dims(), imag.dims())?;
        Ok(vec![TensorMeta::new(complex_of(real.dtype())?, dims)])
    }
}

impl CpuLayer for MakeComplex {
    fn forward(
        &mut self,
        inputs: &[TensorView<'_>],
        outputs: &mut [TensorViewMut<'_>],
        _: &mut ForwardContext<'_>,
    ) -> Result<(), LayerError> {
        let shape = *outputs[0].shape();
        let [real, imag] = [&inputs[0], &inputs[self.imag.0]]
            .map(|part| part.layout().expand(&shape).and_then(|layout| part.with_layout(layout)));
        with_parts!(inputs[0].dtype(), T => join::<T>(&real?, &imag?, &mut outputs[0]))
    }
}

fn join<T: Element>(
    real: &TensorView<'_>,
    imag: &TensorView<'_>,
    output: &mut TensorViewMut<'_>,
) -> Result<(), LayerError>
where
    Complex<T>: Element,
{
    Zip::from(output.array::<Complex<T>>()?)
        .and(real.array::<T>()?)
        .and(imag.array::<T>()?)
        .for_each(|z, &re, &im| *z = Complex { re, im });
    Ok(())
}

impl Layer for ViewAsComplex {
    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>, LayerError> {
        let Some((last, dims)) = inputs[0].dims().split_last() else {
            return Err(LayerError::shape("the input", "…×2", &inputs[0]));
        };
        if last.fixed().is_some_and(|last| last != 2) {
            return Err(LayerError::shape("the input", "…×2", &inputs[0]));
        }
        Ok(vec![TensorMeta::new(complex_of(inputs[0].dtype())?, dims.iter().cloned())])
    }

    fn view(&self, _: usize, inputs: &[Layout], _: &Shape) -> Result<Option<View>, LayerError> {
        // Both parts are adjacent, and all pairs are an even number of parts apart.
        let shape = inputs[0].shape();
        let Some((&1, strides)) = inputs[0].strides().split_last() else { return Ok(None) };
        if !inputs[0].offset().is_multiple_of(2) || strides.iter().any(|stride| !stride.is_multiple_of(2)) {
            return Ok(None);
        }
        let strides: Vec<usize> = strides.iter().map(|stride| stride / 2).collect();
        let shape = Shape::new(&shape.dims()[..strides.len()])?;
        Ok(Some(View { input: 0, layout: Layout::strided(shape, &strides, inputs[0].offset() / 2)? }))
    }
}

impl CpuLayer for ViewAsComplex {
    fn forward(
        &mut self,
        inputs: &[TensorView<'_>],
        outputs: &mut [TensorViewMut<'_>],
        _: &mut ForwardContext<'_>,
    ) -> Result<(), LayerError> {
        let part = |index| {
            let layout = inputs[0].layout().select(inputs[0].shape().rank() - 1, index)?;
            inputs[0].with_layout(layout)
        };
        with_parts!(inputs[0].dtype(), T => join::<T>(&part(0)?, &part(1)?, &mut outputs[0]))
    }
}

impl Layer for ViewAsReal {
    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>, LayerError> {
        let dims = inputs[0].dims().iter().cloned().chain([Dim::Fixed(2)]);
        Ok(vec![TensorMeta::new(real_of(inputs[0].dtype())?, dims)])
    }

    fn view(&self, _: usize, inputs: &[Layout], shape: &Shape) -> Result<Option<View>, LayerError> {
        let (mut strides, offset) = doubled(&inputs[0]);
        strides.push(1);
        Ok(Some(View { input: 0, layout: Layout::strided(*shape, &strides, offset)? }))
    }
}

impl CpuLayer for ViewAsReal {
    fn forward(
        &mut self,
        inputs: &[TensorView<'_>],
        outputs: &mut [TensorViewMut<'_>],
        _: &mut ForwardContext<'_>,
    ) -> Result<(), LayerError> {
        with_parts!(inputs[0].dtype(), T => separate::<T>(&inputs[0], &mut outputs[0]))
    }
}

fn separate<T: Element>(input: &TensorView<'_>, output: &mut TensorViewMut<'_>) -> Result<(), LayerError>
where
    Complex<T>: Element,
{
    if let (true, Ok(input)) = (output.layout().is_contiguous(), input.slice::<Complex<T>>()) {
        let pairs = output.slice::<T>()?.chunks_exact_mut(2);
        pairs.zip(input).for_each(|(parts, z)| parts.copy_from_slice(&[z.re, z.im]));
        return Ok(());
    }
    let mut output = output.array::<T>()?;
    let last = Axis(output.ndim() - 1);
    let input = input.array::<Complex<T>>()?;
    Zip::from(output.index_axis_mut(last, 0)).and(&input).for_each(|part, z| *part = z.re);
    Zip::from(output.index_axis_mut(last, 1)).and(&input).for_each(|part, z| *part = z.im);
    Ok(())
}

impl Layer for Real {
    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>, LayerError> {
        let dtype = inputs[0].dtype();
        Ok(vec![inputs[0].with_dtype(dtype.real())])
    }

    fn view_of(
        &self,
        _: usize,
        inputs: &[(DType, Layout)],
        shape: &Shape,
    ) -> Result<Option<View>, LayerError> {
        let (dtype, layout) = inputs[0];
        if !dtype.is_complex() {
            return Ok(Some(View { input: 0, layout }));
        }
        let (strides, offset) = doubled(&layout);
        Ok(Some(View { input: 0, layout: Layout::strided(*shape, &strides, offset)? }))
    }
}

impl CpuLayer for Real {
    fn forward(
        &mut self,
        inputs: &[TensorView<'_>],
        outputs: &mut [TensorViewMut<'_>],
        _: &mut ForwardContext<'_>,
    ) -> Result<(), LayerError> {
        if !inputs[0].dtype().is_complex() {
            return Ok(outputs[0].copy_from(&inputs[0])?);
        }
        with_parts!(inputs[0].dtype(), T => part::<T>(&inputs[0], &mut outputs[0], |z| z.re))
    }
}

impl Layer for Imag {
    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>, LayerError> {
        Ok(vec![inputs[0].with_dtype(real_of(inputs[0].dtype())?)])
    }

    fn view(&self, _: usize, inputs: &[Layout], shape: &Shape) -> Result<Option<View>, LayerError> {
        let (strides, offset) = doubled(&inputs[0]);
        // An empty tensor has no imaginary part to point to.
        let offset = offset.saturating_add(usize::from(shape.num_elements() > 0));
        Ok(Some(View { input: 0, layout: Layout::strided(*shape, &strides, offset)? }))
    }
}

impl CpuLayer for Imag {
    fn forward(
        &mut self,
        inputs: &[TensorView<'_>],
        outputs: &mut [TensorViewMut<'_>],
        _: &mut ForwardContext<'_>,
    ) -> Result<(), LayerError> {
        with_parts!(inputs[0].dtype(), T => part::<T>(&inputs[0], &mut outputs[0], |z| z.im))
    }
}

fn part<T: Element>(
    input: &TensorView<'_>,
    output: &mut TensorViewMut<'_>,
    of: impl Fn(&Complex<T>) -> T,
) -> Result<(), LayerError>
where
    Complex<T>: Element,
{
    Zip::from(output.array::<T>()?).and(input.array::<Complex<T>>()?).for_each(|part, z| *part = of(z));
    Ok(())
}

operators! { To, TypeAs, Positive, MakeComplex, ViewAsComplex, ViewAsReal, Real, Imag }

#[cfg(test)]
mod tests {
    use super::*;
    use crate::support::testing::{operator, tensor};

    #[test]
    fn types_change() {
        let x = tensor(&[2, 2], &[1.5f32, -0.5, 0.0, 300.0]);
        let to = operator("Tensor.to", &[("dtype", "torch.int"), ("copy", "True")]);
        assert_eq!(to.run_one(&[&x]).unwrap().to_vec::<i32>().unwrap(), [1, 0, 0, 300]);
        assert_eq!(operator("Tensor.to", &[("copy", "False")]).run_one(&[&x]).unwrap(), x);
        let as_bool = operator("Tensor.type_as", &[]).run_one(&[&x, &tensor(&[1], &[true])]).unwrap();
        assert_eq!(as_bool.to_vec::<bool>().unwrap(), [true, true, false, true]);
        let sizes = TensorMeta::new(DType::I64, [1]).with_values(vec![Dim::symbol("n")]);
        let kept = operator("Tensor.to", &[("dtype", "torch.long")]).infer(&[sizes]).unwrap();
        assert_eq!(kept[0].values(), Some(&[Dim::symbol("n")][..]));
        assert!(operator("torch.positive", &[]).run(&[&as_bool]).is_err());
        assert_eq!(operator("torch.positive", &[]).run_one(&[&x]).unwrap(), x);
    }

    #[test]
    fn complex_numbers_and_their_parts() {
        let (re, im) = (tensor(&[2], &[1f64, 2.0]), tensor(&[2, 1], &[3f64, 4.0]));
        let z = operator("torch.complex", &[]).run_one(&[&re, &im]).unwrap();
        let want = [(1.0, 3.0), (2.0, 3.0), (1.0, 4.0), (2.0, 4.0)].map(|(re, im)| Complex::new(re, im));
        assert_eq!(z.to_vec::<Complex<f64>>().unwrap(), want);
        let pairs = operator("torch.view_as_real", &[]).run_one(&[&z]).unwrap();
        assert_eq!(
            (pairs.shape().dims(), pairs.to_vec::<f64>().unwrap()),
            (&[2, 2, 2][..], vec![1.0, 3.0, 2.0, 3.0, 1.0, 4.0, 2.0, 4.0])
        );
        assert_eq!(operator("torch.view_as_complex", &[]).run_one(&[&pairs]).unwrap(), z);
        assert_eq!(
            operator("torch.real", &[]).run_one(&[&z]).unwrap().to_vec::<f64>().unwrap(),
            [1.0, 2.0, 1.0, 2.0]
        );
        assert_eq!(
            operator("torch.imag", &[]).run_one(&[&z]).unwrap().to_vec::<f64>().unwrap(),
            [3.0, 3.0, 4.0, 4.0]
        );
        assert_eq!(operator("torch.real", &[]).run_one(&[&re]).unwrap(), re);
        assert!(operator("torch.imag", &[]).run(&[&re]).is_err());
        assert!(operator("torch.view_as_complex", &[]).run(&[&tensor(&[3], &[1f32; 3])]).is_err());
        let none = ixion_tensor::Tensor::zeros(DType::C64, &[0]).unwrap();
        assert_eq!(operator("torch.imag", &[]).run_one(&[&none]).unwrap().num_elements(), 0);
        for op_type in ["torch.view_as_complex", "torch.view_as_real", "torch.real", "torch.imag"] {
            operator(op_type, &[]).survives(1);
        }
        operator("torch.complex", &[]).survives(2);
        operator("Tensor.to", &[("dtype", "torch.complex32")]).survives(1);
    }
}
