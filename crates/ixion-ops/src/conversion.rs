//! Conversion of element types, and complex numbers as pairs of real numbers.

use crate::arithmetic::comparison::known_truths;
use crate::op::{CpuLayer, FromOperator, Io, Layer, LayerError, Result, TensorMeta, View, exactly};
use crate::support::arguments::InputIndex;
use crate::support::broadcast::{Converted, broadcast};
use crate::support::choices::MemoryFormat;
use crate::support::delegation::delegating;
use crate::support::pairs::pairs;
use crate::support::views::view_layers;
use ixion_tensor::{Complex, DType, Dim, Layout, Shape, TensorView, TensorViewMut, f16};
use std::ops::RangeInclusive;

crate::operator! {
    /// `torch.Tensor.to`: converts the elements to another type, by the rules of
    /// [`Tensor::cast`](ixion_tensor::Tensor::cast).
    pub struct To for "Tensor.to", "aten::to" {
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
    pub struct TypeAs for "Tensor.type_as", "aten::type_as" {
        /// The tensor with the output's element type.
        other: InputIndex,
    }
}

crate::operator! {
    /// `torch.Tensor.chalf`: converts the elements to complex numbers of half precision, pairs of f16.
    pub struct ToComplexHalf for "aten::chalf" {
        /// Accepted for compatibility; the order in memory does not affect results.
        memory_format: Option<MemoryFormat> = None,
    }
}

/// Converts the elements to a type, or else to that of the input at a position.
#[derive(Debug, Clone)]
struct Conversion {
    dtype: Option<DType>,
    like: usize,
}

impl Layer for Conversion {
    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
        let dtype = self.dtype.unwrap_or(inputs[self.like].dtype());
        if dtype == inputs[0].dtype() {
            return Ok(vec![inputs[0].clone()]);
        }
        let output = inputs[0].with_dtype(dtype);
        if let (DType::Bool, Some(truths)) = (dtype, known_truths(&inputs[0])) {
            return Ok(vec![
                output.with_values(truths.into_iter().map(|it| Dim::from(usize::from(it))).collect()),
            ]);
        }
        let known = inputs[0].values().filter(|_| dtype == DType::I64);
        Ok(vec![match known {
            Some(values) => output.with_values(values.to_vec()),
            None => output,
        }])
    }

    fn view_of(&self, _: usize, inputs: &[(DType, Layout)], _: &Shape) -> Result<Option<View>> {
        let (dtype, layout) = inputs[0];
        let is_same = self.dtype.unwrap_or(inputs[self.like].0) == dtype;
        Ok(is_same.then_some(View { input: 0, layout }))
    }
}

impl CpuLayer for Conversion {
    fn forward(&mut self, io: &mut Io<'_, '_>) -> Result<()> {
        Ok(io.outputs[0].cast_from(&io.inputs[0])?)
    }
}

delegating! {
    To |layer| Conversion { dtype: layer.dtype, like: 0 };
    TypeAs |layer| Conversion { dtype: None, like: layer.other.0 };
    ToComplexHalf |_layer| Conversion { dtype: Some(DType::C32), like: 0 };
}

crate::operator! {
    /// `torch.positive`: returns the input, which must not be bool.
    pub struct Positive for "torch.positive", "aten::positive" {}
}

impl Layer for Positive {
    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
        if inputs[0].dtype() == DType::Bool {
            return Err(LayerError::dtype("the input", "numbers", DType::Bool));
        }
        Ok(vec![inputs[0].clone()])
    }

    fn view(&self, _: usize, inputs: &[Layout], _: &Shape) -> Result<Option<View>> {
        Ok(Some(View { input: 0, layout: inputs[0] }))
    }
}

view_layers!(Positive);

crate::operator! {
    /// `torch.complex`: creates complex numbers from their real and imaginary parts, which are broadcast.
    pub struct MakeComplex for "torch.complex", "aten::complex" {
        /// The imaginary parts.
        imag: InputIndex,
    }
}

crate::operator! {
    /// `torch.view_as_complex`: converts …×2 real numbers to … complex numbers. A view if the strides allow it.
    pub struct ViewAsComplex for "torch.view_as_complex", "aten::view_as_complex" {}
}

crate::operator! {
    /// `torch.view_as_real`: views … complex numbers as …×2 real numbers.
    pub struct ViewAsReal for "torch.view_as_real", "aten::view_as_real" {}
}

crate::operator! {
    /// `torch.real`: the real parts; a real input is returned as it is. A view.
    pub struct Real for "torch.real", "aten::real" {}
}

crate::operator! {
    /// `torch.imag`: the imaginary parts of a complex input. A view.
    pub struct Imag for "torch.imag", "aten::imag" {}
}

fn not_complex(found: DType) -> LayerError {
    LayerError::dtype("the input", "f32, f64 and f16, or complex numbers of them", found)
}

fn complex_of(dtype: DType) -> Result<DType> {
    match dtype {
        DType::F16 => Ok(DType::C32),
        DType::F32 => Ok(DType::C64),
        DType::F64 => Ok(DType::C128),
        other => Err(not_complex(other)),
    }
}

fn real_of(dtype: DType) -> Result<DType> {
    if dtype.is_complex() { Ok(dtype.real()) } else { Err(not_complex(dtype)) }
}

/// The strides and the offset of complex numbers, counted in real numbers.
fn doubled(layout: &Layout) -> (Vec<usize>, usize) {
    (
        layout.strides().iter().map(|stride| stride.saturating_mul(2)).collect(),
        layout.offset().saturating_mul(2),
    )
}

/// Copies the real parts (0) or the imaginary parts (1) of complex numbers.
fn copy_part(index: usize, complex: &TensorView<'_>, real: &mut TensorViewMut<'_>) -> Result<()> {
    let numbers = Converted::View(*complex);
    match complex.dtype() {
        DType::C64 => pairs(&numbers, &numbers, real, |z: Complex<f32>, _| [z.re, z.im][index]),
        DType::C128 => pairs(&numbers, &numbers, real, |z: Complex<f64>, _| [z.re, z.im][index]),
        DType::C32 => pairs(&numbers, &numbers, real, |z: Complex<f16>, _| [z.re, z.im][index]),
        other => Err(not_complex(other)),
    }
}

/// Writes complex numbers, given their real and their imaginary parts, which are broadcast.
fn join(parts: [&TensorView<'_>; 2], complex: &mut TensorViewMut<'_>) -> Result<()> {
    let [re, im] = parts.map(|part| Converted::View(*part));
    match complex.dtype() {
        DType::C64 => pairs(&re, &im, complex, |re: f32, im| Complex { re, im }),
        DType::C128 => pairs(&re, &im, complex, |re: f64, im| Complex { re, im }),
        DType::C32 => pairs(&re, &im, complex, |re: f16, im| Complex { re, im }),
        other => Err(not_complex(other)),
    }
}

impl Layer for MakeComplex {
    fn num_inputs(&self) -> RangeInclusive<usize> {
        exactly(1 + self.field_inputs())
    }

    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
        let (real, imag) = (&inputs[0], &inputs[self.imag.0]);
        if real.dtype() != imag.dtype() {
            return Err(LayerError::dtype("the imaginary part", real.dtype(), imag.dtype()));
        }
        let dims = broadcast(real.dims(), imag.dims())?;
        Ok(vec![TensorMeta::new(complex_of(real.dtype())?, dims)])
    }
}

impl CpuLayer for MakeComplex {
    fn forward(&mut self, io: &mut Io<'_, '_>) -> Result<()> {
        join([&io.inputs[0], &io.inputs[self.imag.0]], &mut io.outputs[0])
    }
}

impl Layer for ViewAsComplex {
    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
        let Some((last, dims)) = inputs[0].dims().split_last() else {
            return Err(LayerError::shape("the input", "…×2", &inputs[0]));
        };
        if last.fixed().is_some_and(|last| last != 2) {
            return Err(LayerError::shape("the input", "…×2", &inputs[0]));
        }
        Ok(vec![TensorMeta::new(complex_of(inputs[0].dtype())?, dims.iter().cloned())])
    }

    fn view(&self, _: usize, inputs: &[Layout], _: &Shape) -> Result<Option<View>> {
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
    fn forward(&mut self, io: &mut Io<'_, '_>) -> Result<()> {
        let part = |index| {
            let layout = io.inputs[0].layout().select(io.inputs[0].shape().rank() - 1, index)?;
            io.inputs[0].with_layout(layout)
        };
        join([&part(0)?, &part(1)?], &mut io.outputs[0])
    }
}

impl Layer for ViewAsReal {
    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
        let dims = inputs[0].dims().iter().cloned().chain([Dim::Fixed(2)]);
        Ok(vec![TensorMeta::new(real_of(inputs[0].dtype())?, dims)])
    }

    fn view(&self, _: usize, inputs: &[Layout], shape: &Shape) -> Result<Option<View>> {
        let (mut strides, offset) = doubled(&inputs[0]);
        strides.push(1);
        Ok(Some(View { input: 0, layout: Layout::strided(*shape, &strides, offset)? }))
    }
}

impl CpuLayer for ViewAsReal {
    fn forward(&mut self, io: &mut Io<'_, '_>) -> Result<()> {
        let (input, output) = (&io.inputs[0], &mut io.outputs[0]);
        // A complex number is stored as its two parts.
        if let (Ok(from), Ok(to)) = (input.bytes(), output.bytes_mut()) {
            to.copy_from_slice(from);
            return Ok(());
        }
        for index in 0..2 {
            let parts = output.layout().select(output.shape().rank() - 1, index)?;
            copy_part(index, input, &mut output.reborrow().with_layout(parts)?)?;
        }
        Ok(())
    }
}

impl Layer for Real {
    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
        let dtype = inputs[0].dtype();
        Ok(vec![inputs[0].with_dtype(dtype.real())])
    }

    fn view_of(&self, _: usize, inputs: &[(DType, Layout)], shape: &Shape) -> Result<Option<View>> {
        let (dtype, layout) = inputs[0];
        if !dtype.is_complex() {
            return Ok(Some(View { input: 0, layout }));
        }
        let (strides, offset) = doubled(&layout);
        Ok(Some(View { input: 0, layout: Layout::strided(*shape, &strides, offset)? }))
    }
}

impl CpuLayer for Real {
    fn forward(&mut self, io: &mut Io<'_, '_>) -> Result<()> {
        if !io.inputs[0].dtype().is_complex() {
            return Ok(io.outputs[0].copy_from(&io.inputs[0])?);
        }
        copy_part(0, &io.inputs[0], &mut io.outputs[0])
    }
}

impl Layer for Imag {
    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
        Ok(vec![inputs[0].with_dtype(real_of(inputs[0].dtype())?)])
    }

    fn view(&self, _: usize, inputs: &[Layout], shape: &Shape) -> Result<Option<View>> {
        let (strides, offset) = doubled(&inputs[0]);
        // An empty tensor has no imaginary part to point to.
        let offset = offset.saturating_add(usize::from(shape.num_elements() > 0));
        Ok(Some(View { input: 0, layout: Layout::strided(*shape, &strides, offset)? }))
    }
}

impl CpuLayer for Imag {
    fn forward(&mut self, io: &mut Io<'_, '_>) -> Result<()> {
        copy_part(1, &io.inputs[0], &mut io.outputs[0])
    }
}

operators! {
    To: moves(Cast), TypeAs: moves(Cast), ToComplexHalf: moves(Cast), Positive, MakeComplex, ViewAsComplex, ViewAsReal, Real,
    Imag; category Shape;
    overload "aten::to"(input, dtype, non_blocking, copy) of 4,
        "aten::to"(input, device, dtype, non_blocking, copy, memory_format) of 6,
        "aten::to"(input, dtype, layout, device, pin_memory, non_blocking, copy, memory_format) of 8,
        "aten::to"(input, dtype, non_blocking, copy, memory_format)
}

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
        let pairs = operator("aten::chalf", &[("memory_format", "None")]).run_one(&[&x]).unwrap();
        assert_eq!((pairs.dtype(), pairs.cast(DType::F32).unwrap()), (DType::C32, x));
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
