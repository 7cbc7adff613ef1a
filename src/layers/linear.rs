//! Products with a matrix of weights.

use super::epilogue::{self, Epilogue};
use super::float::{self, with_real};
use super::number::{self, Number};
use crate::Limits;
use crate::graph::{
    Cost, CpuLayer, ForwardContext, Layer, LayerError, Registry, RegistryError, TensorMeta, Weight,
};
use crate::kernels::Float;
use crate::kernels::gemm::gemm;
use crate::kernels::parallel::for_each_chunk;
use crate::tensor::{Complex, Dim, Shape, TensorView, TensorViewMut};
use ndarray::{ArrayView2, ArrayViewMut2, s};
use std::borrow::Cow;
use std::ops::RangeInclusive;

crate::operator! {
    /// `torch.nn.Linear` and `torch.nn.functional.linear`: …×I times the transpose of O×I weights, plus a bias. Output:
    /// …×O.
    pub struct Linear for "nn.Linear", "F.linear" {
        /// I; only compared with the weights.
        in_features: Option<usize> = None,
        /// O; only compared with the weights.
        out_features: Option<usize> = None,
        /// O×I weights; a functional form may have a single row without its axis.
        weight: Weight,
        /// O numbers, added at the end.
        bias: Option<Weight> = None,
        /// What is done to the result before it is stored; Ixion's passes write it.
        epilogue: Option<Epilogue> = None,
    }
    validate |linear| {
        let Weight::Attribute(weight) = &linear.weight else { return Ok(()) };
        let says = [("out_features", linear.out_features, 0), ("in_features", linear.in_features, 1)];
        for (key, said, axis) in says {
            if let (Some(said), Some(&is)) = (said, weight.shape().get(axis))
                && said != is
            {
                let reason = format!("the weights have {is}");
                return Err(LayerError::InvalidParameter { key, found: said.to_string(), reason });
            }
        }
        Ok(())
    }
}

/// Rows that are multiplied at a time, so that what becomes of them is computed while they are in the cache.
const ROWS: usize = 512;

impl Linear {
    fn run<T: Float>(
        &mut self,
        inputs: &[TensorView<'_>],
        output: &mut TensorViewMut<'_>,
        limits: &Limits,
    ) -> Result<(), LayerError> {
        let Self { weight, bias, epilogue, .. } = self;
        let weight_view = weight.view(inputs)?;
        let bias = bias.as_ref().map(|bias| bias.view(inputs)).transpose()?;
        let bias = bias.map(|bias| float::read::<T>(&bias)).transpose()?;
        let weight = float::read::<T>(&weight_view)?;
        let (features, leading) =
            inputs[0].shape().split_last().map_or((1, &[][..]), |(&last, rest)| (last, rest));
        let outputs = if weight_view.shape().rank() == 2 { weight_view.shape()[0] } else { 1 };
        let weight = ArrayView2::from_shape((outputs, features), &weight)?;
        let rows = leading.iter().product();
        let mut copy = Cow::Borrowed(&[][..]);
        let input = rows_of(&inputs[0], rows, features, &mut copy)?;
        epilogue::with::<T>(epilogue.as_mut(), inputs, output, limits, |output, finish| {
            for_each_chunk(output, ROWS * outputs, &|start, output| {
                limits.check_deadline()?;
                let (first, rows) = (start / outputs.max(1), output.len() / outputs.max(1));
                match &bias {
                    Some(bias) => {
                        output.chunks_exact_mut(outputs.max(1)).for_each(|row| row.copy_from_slice(bias))
                    }
                    None => output.fill(T::zero()),
                }
                let product = ArrayViewMut2::from_shape((rows, outputs), &mut *output)?;
                gemm(input.slice(s![first..first + rows, ..]), weight.t(), product, true);
                Ok(finish.map_or(Ok(()), |finish| finish.finish(start, output))?)
            })
        })
    }
}

impl Linear {
    /// The same of complex numbers, in double precision.
    fn run_complex(
        &self,
        inputs: &[TensorView<'_>],
        output: &mut TensorViewMut<'_>,
        limits: &Limits,
    ) -> Result<(), LayerError> {
        type Double = Complex<f64>;
        let weight = self.weight.view(inputs)?;
        let features = inputs[0].shape().last().copied().unwrap_or(1);
        let outputs = if weight.shape().rank() == 2 { weight.shape()[0] } else { 1 };
        let rows = inputs[0].num_elements() / features.max(1);
        let rows = if features == 0 { output.num_elements() / outputs.max(1) } else { rows };
        let bytes = [rows, features + outputs].iter().fold(64u64, |all, &n| all.saturating_mul(n as u64));
        limits.check_tensor("a product of complex numbers", bytes)?;
        let (input, weight) = (number::read::<Double>(&inputs[0])?, number::read::<Double>(&weight)?);
        let bias = self.bias.as_ref().map(|bias| bias.view(inputs)).transpose()?;
        let bias =
            bias.map(|bias| Ok::<_, LayerError>(number::read::<Double>(&bias)?.into_owned())).transpose()?;
        number::write::<Double>(output, |output| {
            let input = ArrayView2::from_shape((rows, features), &input)?;
            let weight = ArrayView2::from_shape((outputs, features), &weight)?;
            Double::multiply(input, weight.t(), ArrayViewMut2::from_shape((rows, outputs), &mut *output)?);
            for row in output.chunks_exact_mut(outputs.max(1)) {
                row.iter_mut().zip(bias.iter().flatten()).for_each(|(y, b)| *y += b);
            }
            Ok(())
        })
    }
}

/// A tensor as the rows of a matrix, in place where they lie evenly; `copy` keeps them otherwise.
fn rows_of<'a, T: Float>(
    view: &TensorView<'a>,
    rows: usize,
    columns: usize,
    copy: &'a mut Cow<'a, [T]>,
) -> Result<ArrayView2<'a, T>, LayerError> {
    if view.dtype() == T::DTYPE
        && let Some(layout) = view.layout().reshape(&Shape::new(&[rows, columns])?)?
    {
        return Ok(view.with_layout(layout)?.array::<T>()?.into_dimensionality()?);
    }
    *copy = float::read::<T>(view)?;
    Ok(ArrayView2::from_shape((rows, columns), copy)?)
}

impl Layer for Linear {
    fn num_inputs(&self) -> RangeInclusive<usize> {
        let count = 1 + self.weight.num_inputs() + self.bias.as_ref().map_or(0, Weight::num_inputs);
        let count = count + epilogue::num_inputs(self.epilogue.as_ref());
        count..=count
    }

    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>, LayerError> {
        let (input, weight) = (&inputs[0], self.weight.meta(inputs)?);
        if !input.dtype().is_complex() {
            float::check_real("the input", input)?;
        } else if self.epilogue.is_some() {
            return Err(LayerError::Unsupported("an epilogue of complex numbers".to_owned()));
        }
        let bias = self.bias.as_ref().map(|bias| bias.meta(inputs)).transpose()?;
        if let Some(other) =
            [Some(&weight), bias.as_ref()].into_iter().flatten().find(|w| w.dtype() != input.dtype())
        {
            let what = "weight or bias".to_owned();
            return Err(LayerError::DType { what, wanted: input.dtype().to_string(), found: other.dtype() });
        }
        let (outputs, features) = match weight.dims() {
            [features] => (None, features),
            [outputs, features] => (Some(outputs), features),
            _ => return Err(LayerError::shape("the weight", "out_features×in_features", &weight)),
        };
        let Some((last, rest)) = input.dims().split_last() else {
            return Err(LayerError::shape("the input", "at least one axis", input));
        };
        if last.differs(features) {
            return Err(LayerError::shape("the last axis of the input", features, input));
        }
        let wanted = outputs.cloned().unwrap_or(Dim::Fixed(1));
        if let Some(bias) = bias.filter(|bias| bias.num_elements().differs(&wanted)) {
            return Err(LayerError::shape("the bias", format!("{wanted} elements"), bias));
        }
        let output = input.with_dims(rest.iter().chain(outputs).cloned());
        epilogue::check(self.epilogue.as_ref(), &output, inputs)?;
        Ok(vec![output])
    }

    fn cost(&self, inputs: &[TensorMeta], outputs: &[TensorMeta]) -> Cost {
        let features = inputs.first().and_then(|input| input.dims().last().cloned());
        let macs =
            features.zip(outputs.first()).and_then(|(features, o)| (o.num_elements() * features).fixed());
        Cost::of_moving(inputs, outputs)
            .with_macs(macs.and_then(|macs| u64::try_from(macs).ok()).unwrap_or(0))
    }
}

impl CpuLayer for Linear {
    fn forward(
        &mut self,
        inputs: &[TensorView<'_>],
        outputs: &mut [TensorViewMut<'_>],
        context: &mut ForwardContext<'_>,
    ) -> Result<(), LayerError> {
        if inputs[0].dtype().is_complex() {
            return self.run_complex(inputs, &mut outputs[0], context.limits());
        }
        with_real!(inputs[0].dtype(), T => self.run::<T>(inputs, &mut outputs[0], context.limits()))
    }
}

/// Registers the layers of this family.
pub(super) fn register(registry: &mut Registry) -> Result<(), RegistryError> {
    registry.register::<Linear>()
}
