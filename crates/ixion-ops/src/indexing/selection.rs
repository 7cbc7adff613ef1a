//! Selecting elements: where, masked_fill, clamp, masked_select.

use crate::op::{CpuLayer, ForwardContext, FromOperator, Io, Layer, LayerError, Result, TensorMeta, exactly};
use crate::support::arguments::InputIndex;
use crate::support::broadcast::{Converted, TensorOrScalar, broadcast, common, integer_range};
use crate::support::dynamic::dynamic_layers;
use crate::support::shape_cache::ShapeCache;
use crate::support::views::{Plain, with_first, write_plain};
use ixion_kernels::elementwise::{Prepared, Program};
use ixion_kernels::mask;
use ixion_kernels::strided::Strided;
use ixion_pnnx::Function;
use ixion_tensor::{DType, Dim, Limits, Scalar, Shape, Tensor, TensorView, TensorViewMut, with_bits};
use std::ops::RangeInclusive;

crate::operator! {
    /// `torch.where`: the elements of `input` where the condition is true and of `other` elsewhere. All three are broadcast.
    pub struct Where for "torch.where" {
        /// The values where the condition is true.
        input: TensorOrScalar,
        /// The values elsewhere.
        other: TensorOrScalar,
    }
}

crate::operator! {
    /// `torch.Tensor.masked_fill`: the input, with `value` where the mask is true.
    pub struct MaskedFill for "Tensor.masked_fill", "aten::masked_fill", "torch.masked_fill" {
        /// The mask, true for elements to fill; broadcast to the input's shape.
        mask: InputIndex,
        /// A number, or a tensor without axes.
        value: TensorOrScalar,
    }
}

crate::operator! {
    /// `torch.masked_select`: a vector of the elements where the mask is true, in row-major order.
    pub struct MaskedSelect for "torch.masked_select", "aten::masked_select" {
        /// The mask, true for elements to select; broadcast with the input.
        mask: InputIndex,
    }
}

crate::operator! {
    /// `torch.clamp`: clamps all elements into the range from `min` to `max`; if `min` is greater than `max`, the result is
    /// `max`. NaN is kept.
    pub struct Clamp for "torch.clamp", "torch.clip", "Tensor.clamp", "aten::clamp", "aten::clamp_min", "aten::clamp_max" {
        /// The lower bound, a number or a tensor that is broadcast; none by default.
        min: Option<TensorOrScalar> = None,
        /// The upper bound, a number or a tensor that is broadcast; none by default.
        max: Option<TensorOrScalar> = None,
        /// State prepared for the last inputs.
        ready: ShapeCache<Prepared>,
    }
    validate |clamp| {
        if clamp.min.is_some() || clamp.max.is_some() {
            return Ok(());
        }
        Err(LayerError::Unsupported("at least one of `min` and `max` must be given".to_owned()))
    }
}

/// A bound, or the nearest number that an integer type holds: bounds beyond the range of the input's type have no effect.
fn nearest(bound: Scalar, dtype: DType) -> Scalar {
    match (bound, integer_range(dtype)) {
        (Scalar::Int(value), Some((least, most))) => {
            Scalar::Int(i64::try_from(i128::from(value).clamp(least, most)).unwrap_or(value))
        }
        _ => bound,
    }
}

fn check_mask(what: &str, mask: &TensorMeta) -> Result<()> {
    if matches!(mask.dtype(), DType::Bool | DType::U8) {
        return Ok(());
    }
    Err(LayerError::dtype(what, "bool", mask.dtype()))
}

/// Writes a value where the mask is true; the mask is broadcast to the output's shape.
fn fill_where(mask: &TensorView<'_>, value: &Tensor, output: &mut TensorViewMut<'_>) -> Result<()> {
    if !output.layout().is_contiguous() {
        let mut whole = output.as_view().to_tensor()?;
        fill_where(mask, value, &mut whole.view_mut()?)?;
        return Ok(output.copy_from(&whole.view())?);
    }
    let (shape, mask, value) = (*output.shape(), Converted::of(mask, DType::Bool)?, value.view());
    let mask = mask.expanded(&shape)?;
    with_bits!(output.dtype(), B => {
        let value = value.bits_slice::<B>()?.first().copied().unwrap_or_default();
        mask::fill(&shape, &Strided::of(&mask)?, value, output.bits_slice::<B>()?);
    });
    Ok(())
}

/// Writes the elements of `first` where the mask is true and of `second` elsewhere; all have the output's shape.
fn choose(
    mask: &TensorView<'_>,
    first: &TensorView<'_>,
    second: &TensorView<'_>,
    output: &mut TensorViewMut<'_>,
) -> Result<()> {
    write_plain(output, &mut |output| {
        let (shape, mask) = (*output.shape(), Strided::of(mask)?);
        with_bits!(output.dtype(), B => {
            let (first, second) = (Strided::of(first)?, Strided::of(second)?);
            mask::choose(&shape, &mask, &first, &second, output.bits_slice::<B>()?);
        });
        Ok(())
    })
}

impl Layer for Where {
    fn num_inputs(&self) -> RangeInclusive<usize> {
        exactly(1 + self.field_inputs())
    }

    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
        check_mask("the condition", &inputs[0])?;
        // Two numbers are treated as tensors here: `torch.where(condition, 1.0, 0.0)` is f32.
        let dtype = match (self.input, self.other) {
            (TensorOrScalar::Number(_), TensorOrScalar::Number(_)) => {
                match common(inputs, &[self.input, self.other]) {
                    DType::F64 => DType::F32,
                    DType::C128 => DType::C64,
                    other => other,
                }
            }
            _ => common(inputs, &[self.input, self.other]),
        };
        let values = broadcast(self.input.dims(inputs), self.other.dims(inputs))?;
        let chosen = TensorMeta::new(dtype, broadcast(inputs[0].dims(), &values)?);
        Ok(vec![match self.known_values(inputs).filter(|_| chosen.may_have_values()) {
            Some(values) => chosen.with_values(values),
            None => chosen,
        }])
    }
}

impl Where {
    /// The chosen values, if condition and values are known.
    fn known_values(&self, inputs: &[TensorMeta]) -> Option<Vec<Dim>> {
        let condition = inputs.first()?.values()?;
        let of = |operand: TensorOrScalar| match operand {
            TensorOrScalar::Input(position) => inputs.get(position)?.values().map(<[Dim]>::to_vec),
            TensorOrScalar::Number(Scalar::Int(number)) => Some(vec![Dim::Fixed(number)]),
            TensorOrScalar::Number(_) => None,
        };
        let (then, other) = (of(self.input)?, of(self.other)?);
        let len = [condition.len(), then.len(), other.len()].into_iter().find(|len| *len != 1).unwrap_or(1);
        let item =
            |values: &[Dim], index: usize| values.get(if values.len() == 1 { 0 } else { index }).cloned();
        let chosen = |index| {
            let is_true = item(condition, index)?.fixed()? != 0;
            item(if is_true { &then } else { &other }, index)
        };
        (0..len).map(chosen).collect()
    }
}

impl CpuLayer for Where {
    fn forward(&mut self, io: &mut Io<'_, '_>) -> Result<()> {
        let (shape, dtype) = (*io.outputs[0].shape(), io.outputs[0].dtype());
        let mask = Converted::of(&io.inputs[0], DType::Bool)?;
        let (first, second) =
            (self.input.converted(io.inputs, dtype)?, self.other.converted(io.inputs, dtype)?);
        choose(
            &mask.expanded(&shape)?,
            &first.expanded(&shape)?,
            &second.expanded(&shape)?,
            &mut io.outputs[0],
        )
    }
}

impl Layer for MaskedFill {
    fn num_inputs(&self) -> RangeInclusive<usize> {
        exactly(1 + self.field_inputs())
    }

    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
        let (input, mask) = (&inputs[0], &inputs[self.mask.0]);
        check_mask("the mask", mask)?;
        if !self.value.dims(inputs).is_empty() {
            return Err(LayerError::shape(
                "the value",
                "a tensor without axes",
                self.value.dims(inputs).len(),
            ));
        }
        let dtype = input.dtype();
        if common(inputs, &[TensorOrScalar::Input(0), self.value]) != dtype
            && self.value.kind(inputs).0.is_complex()
        {
            let found = self.value.kind(inputs).0;
            return Err(LayerError::dtype("the value", dtype, found));
        }
        self.value.check_fits(dtype)?;
        Ok(vec![TensorMeta::new(dtype, broadcast(input.dims(), mask.dims())?)])
    }

    fn in_place(&self, _: usize) -> Option<usize> {
        Some(0)
    }
}

impl CpuLayer for MaskedFill {
    fn forward(&mut self, io: &mut Io<'_, '_>) -> Result<()> {
        let (shape, output) = (*io.outputs[0].shape(), &mut io.outputs[0]);
        let input = io.inputs[0].with_layout(io.inputs[0].layout().expand(&shape)?)?;
        let mask = Converted::of(&io.inputs[self.mask.0], DType::Bool)?;
        let value = self.value.number(io.inputs, output.dtype())?.expand(&shape)?;
        choose(&mask.expanded(&shape)?, &value.view(), &input, output)
    }

    fn forward_in_place(
        &mut self,
        data: &mut TensorViewMut<'_>,
        others: &[TensorView<'_>],
        _: &mut ForwardContext<'_>,
    ) -> Result<()> {
        let inputs = with_first(others)?;
        fill_where(&inputs[self.mask.0], &self.value.number(&inputs, data.dtype())?, data)
    }
}

impl Layer for MaskedSelect {
    fn num_inputs(&self) -> RangeInclusive<usize> {
        exactly(1 + self.field_inputs())
    }

    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
        let mask = &inputs[self.mask.0];
        check_mask("the mask", mask)?;
        broadcast(inputs[0].dims(), mask.dims())?;
        Ok(vec![inputs[0].with_dims([Dim::fresh("selected")])])
    }

    fn is_data_dependent(&self) -> bool {
        true
    }
}

impl MaskedSelect {
    fn compute(&self, inputs: &[TensorView<'_>], limits: &Limits) -> Result<Vec<Tensor>> {
        let mask = Converted::of(&inputs[self.mask.0], DType::Bool)?;
        let shape = ixion_tensor::broadcast_shapes(inputs[0].shape(), mask.view().shape())?;
        let input = inputs[0].with_layout(inputs[0].layout().expand(&shape)?)?;
        let mask = Plain::of(&mask.expanded(&shape)?)?;
        let mask = mask.view();
        let truths = mask.slice::<bool>()?;
        let count = mask::count(truths);
        limits.check_tensor("the selected elements", (count * input.dtype().size()) as u64)?;
        let mut output = Tensor::empty(input.dtype(), &[count])?;
        let (dtype, input, mut view) = (input.dtype(), Plain::of(&input)?, output.view_mut()?);
        with_bits!(dtype, B => {
            let (from, to) = (input.view().bits_slice::<B>()?, view.bits_slice::<B>()?);
            mask::take_where(from, truths, 1, to);
        });
        Ok(vec![output])
    }
}

dynamic_layers!(MaskedSelect);

impl Clamp {
    fn factors(&self) -> Vec<TensorOrScalar> {
        [Some(TensorOrScalar::Input(0)), self.min, self.max].into_iter().flatten().collect()
    }

    /// Rejects bounds of the file that the element type cannot hold, unless they have no effect.
    fn check_bounds(&self, dtype: DType) -> Result<()> {
        let Some((least, most)) = integer_range(dtype) else {
            return [self.min, self.max].iter().flatten().try_for_each(|bound| bound.check_fits(dtype));
        };
        let beyond = |key, bound: Option<TensorOrScalar>, is_beyond: &dyn Fn(i128) -> bool| match bound {
            Some(TensorOrScalar::Number(Scalar::Int(value))) if is_beyond(i128::from(value)) => {
                let (found, reason) = (value.to_string(), format!("{dtype} holds {least} to {most}"));
                Err(LayerError::InvalidParameter { key, found, reason })
            }
            _ => Ok(()),
        };
        beyond("min", self.min, &|min| min > most)?;
        beyond("max", self.max, &|max| max < least)
    }

    /// Prepares a program that clamps in one pass; `max` wins over `min`, and a NaN on either side over both.
    fn prepared(&self, inputs: &[TensorView<'_>], dtype: DType, shape: &Shape) -> Result<Prepared> {
        let mut program = Program::default();
        let operand = |program: &mut Program, factor: TensorOrScalar| match factor {
            TensorOrScalar::Input(position) => {
                let value = program.input(position, inputs[position].dtype());
                program.cast(value, dtype)
            }
            TensorOrScalar::Number(number) => program.constant(nearest(number, dtype), dtype),
        };
        let mut value = operand(&mut program, TensorOrScalar::Input(0));
        for (bound, function) in [(self.min, Function::Maximum), (self.max, Function::Minimum)] {
            if let Some(bound) = bound {
                let bound = operand(&mut program, bound);
                value = program.apply(function, dtype, value, bound);
            }
        }
        Ok(program.prepare(value, inputs, dtype, shape)?)
    }
}

impl Layer for Clamp {
    fn num_inputs(&self) -> RangeInclusive<usize> {
        exactly(1 + self.field_inputs())
    }

    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
        let factors = self.factors();
        let dtype = common(inputs, &factors);
        if dtype.is_complex() || dtype == DType::Bool {
            return Err(LayerError::dtype("the input", "real numbers", dtype));
        }
        self.check_bounds(dtype)?;
        let mut dims = inputs[0].dims().to_vec();
        for factor in &factors {
            dims = broadcast(&dims, factor.dims(inputs))?;
        }
        Ok(vec![TensorMeta::new(dtype, dims)])
    }
}

impl CpuLayer for Clamp {
    fn forward(&mut self, io: &mut Io<'_, '_>) -> Result<()> {
        let (dtype, shape) = (io.outputs[0].dtype(), *io.outputs[0].shape());
        if shape.num_elements() == 0 {
            return Ok(());
        }
        let mut ready = self.ready.take();
        let make = || self.prepared(io.inputs, dtype, &shape);
        let prepared = ready.get_or_make(|ready| ready.fits(io.inputs, dtype, &shape), make)?;
        prepared.start(io.inputs)?.whole(&mut io.outputs[0], io.context.limits())?;
        self.ready = ready;
        Ok(())
    }
}

operators! {
    Where, MaskedFill: when_quantized(InFloats(OfInput)), MaskedSelect, Clamp: when_quantized(InFloats(OfInput));
    category Elementwise; overload "aten::clamp_max"(input, max)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::support::testing::{assert_close, operator, tensor};
    use ixion_tensor::Workspace;

    const NAN: f64 = f64::NAN;

    #[test]
    fn one_of_two() {
        let mask = tensor(&[2, 1], &[true, false]);
        let layer = operator("torch.where", &[]).with_names(&["condition", "input", "other"]);
        let (a, b) = (tensor(&[3], &[1i64, 2, 3]), Tensor::scalar(0.5f32));
        let got = layer.run_one(&[&mask, &a, &b]).unwrap();
        assert_close(&got, &[2, 3], &[1.0, 2.0, 3.0, 0.5, 0.5, 0.5]);
        assert_eq!(got.dtype(), DType::F32);
        let numbers = operator("torch.where", &[("input", "1.0"), ("other", "0")]).run_one(&[&mask]).unwrap();
        assert_eq!((numbers.dtype(), numbers.to_vec::<f32>().unwrap()), (DType::F32, vec![1.0, 0.0]));
        let number = operator("torch.where", &[("other", "-1.0e9")]).with_names(&["condition", "input"]);
        assert_close(&number.run_one(&[&mask, &b]).unwrap(), &[2, 1], &[0.5, -1e9]);
        assert!(
            layer.run(&[&a, &a, &a]).is_err() && layer.run(&[&mask, &a, &tensor(&[2], &[1i64; 2])]).is_err()
        );
    }

    #[test]
    fn masks() {
        let (x, mask) = (tensor(&[2], &[1i64, 2]), tensor(&[2, 2], &[true, false, false, false]));
        let fill = |value| operator("Tensor.masked_fill", &[("value", value)]).run_one(&[&x, &mask]).unwrap();
        assert_eq!(fill("7").to_vec::<i64>().unwrap(), [7, 2, 1, 2]);
        assert_eq!(fill("2.7").to_vec::<i64>().unwrap(), [2, 2, 1, 2]);
        let layer = operator("Tensor.masked_fill", &[]).with_names(&["input", "mask", "value"]);
        assert_eq!(
            layer.run_one(&[&x, &mask, &Tensor::scalar(5i64)]).unwrap().to_vec::<i64>().unwrap(),
            [5, 2, 1, 2]
        );
        assert!(layer.run(&[&x, &mask, &x]).is_err());
        let small = x.cast(DType::I32).unwrap();
        assert!(
            operator("Tensor.masked_fill", &[("value", "1e30")])
                .infer(&[TensorMeta::of(&small.view()), TensorMeta::of(&mask.view())])
                .is_err()
        );
        assert!(layer.run(&[&small, &mask, &Tensor::scalar(1i64 << 40)]).is_err());
        let selected = || {
            operator("torch.masked_select", &[])
                .with_names(&["input", "mask"])
                .infer(&[TensorMeta::of(&x.view()), TensorMeta::of(&mask.view())])
        };
        assert_ne!(selected().unwrap(), selected().unwrap(), "two masks take different numbers of elements");
        let mut select =
            operator("torch.masked_select", &[]).with_names(&["input", "mask"]).create(2).unwrap();
        let (mut workspace, limits) = (Workspace::new().unwrap(), ixion_tensor::Limits::default());
        let mut context = ForwardContext::new(&mut workspace, &limits);
        let rows = tensor(&[3, 1], &[true, false, true]);
        let got = select.forward_dynamic(&[x.view(), rows.view()], &mut context).unwrap().remove(0);
        assert_eq!(got.to_vec::<i64>().unwrap(), [1, 2, 1, 2]);
    }

    /// Results of `torch.clamp`.
    #[test]
    fn bounds() {
        let x = tensor(&[5], &[-2.0, -1.0, 0.0, 0.5, NAN]);
        let clamp = |params: &[(&str, &str)], inputs: &[&Tensor]| {
            operator("torch.clamp", params).with_names(&["input", "min", "max"]).run_one(inputs).unwrap()
        };
        assert_close(&clamp(&[("min", "-1"), ("max", "0.25")], &[&x]), &[5], &[-1.0, -1.0, 0.0, 0.25, NAN]);
        assert_close(&clamp(&[("min", "1"), ("max", "-1")], &[&x]), &[5], &[-1.0, -1.0, -1.0, -1.0, NAN]);
        let min = tensor(&[5], &[NAN, 0.0, 0.0, 0.0, 0.0]);
        assert_close(&clamp(&[], &[&x, &min, &Tensor::scalar(1f64)]), &[5], &[NAN, 0.0, 0.0, 0.5, NAN]);
        let whole = clamp(&[("min", "1.5"), ("max", "None")], &[&tensor(&[3], &[1i64, 2, 3])]);
        assert_eq!((whole.dtype(), whole.to_vec::<f32>().unwrap()), (DType::F32, vec![1.5, 2.0, 3.0]));
        assert!(operator("torch.clamp", &[("min", "None"), ("max", "None")]).create(1).is_err());
        let bytes = tensor(&[3], &[0u8, 7, 255]);
        let clamped = |params: &[(&str, &str)]| clamp(params, &[&bytes]).to_vec::<u8>().unwrap();
        assert_eq!(clamped(&[("min", "-1")]), [0, 7, 255]);
        assert_eq!(clamped(&[("min", "5"), ("max", "300")]), [5, 7, 255]);
        for (wrong, x) in [
            (("min", "300"), &bytes),
            (("max", "-1"), &bytes),
            (("max", "1e300"), &x.cast(DType::F32).unwrap()),
        ] {
            assert!(operator("torch.clamp", &[wrong]).run(&[x]).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn symbols_and_odd_inputs() {
        let n = TensorMeta::new(DType::F32, [Dim::symbol("n"), Dim::Fixed(4)]);
        let mask = TensorMeta::new(DType::Bool, [1, 4]);
        let output = operator("Tensor.masked_fill", &[("value", "0")]).infer(&[n, mask]).unwrap();
        assert_eq!(output[0].to_string(), "n×4 f32");
        operator("torch.where", &[("other", "1")]).survives(2);
        operator("torch.where", &[]).survives(3);
        operator("Tensor.masked_fill", &[("value", "1")]).survives(2);
        operator("torch.clamp", &[("min", "0.5")]).survives(1);
        operator("torch.clamp", &[]).survives(2);
    }
}
