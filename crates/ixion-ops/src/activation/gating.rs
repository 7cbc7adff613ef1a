//! Activations with more than one operand: a learnt slope per channel, and gated linear units.

use crate::op::{CpuLayer, FromOperator, Io, Layer, LayerError, Result, TensorMeta, Weight, exactly};
use crate::support::float;
use crate::support::float::with_float;
use crate::support::views::{axis_of, run_in_place};
use ixion_kernels::{Float, math, widest};
use ixion_tensor::{Limits, TensorView, TensorViewMut};
use std::ops::RangeInclusive;

crate::operator! {
    /// `torch.nn.PReLU` (He et al. 2015): x if x is positive, otherwise x times a learnt slope, which is one for all
    /// channels or one for each (axis 1).
    pub struct PRelu for "nn.PReLU", "F.prelu", "aten::prelu" {
        /// Number of slopes; only checked against the weights.
        num_parameters: Option<usize> = None,
        /// The slopes for negative elements.
        weight: Weight,
    }
}

crate::operator! {
    /// `torch.nn.GLU` (Dauphin et al. 2017): the gated linear unit, which multiplies the first half of an axis by the
    /// sigmoid of the second half.
    pub struct Glu for "nn.GLU", "F.glu", "aten::glu" {
        /// The axis; may be negative, counting from the end.
        dim: i64 = -1,
    }
}

impl PRelu {
    /// Runs in place on the output if there is no input; the weights may be among `inputs`.
    fn run<T: Float>(
        &self,
        input: Option<&TensorView<'_>>,
        inputs: &[TensorView<'_>],
        output: &mut TensorViewMut<'_>,
        limits: &Limits,
    ) -> Result<()> {
        let weight = float::read::<T>(&self.weight.view(inputs)?)?;
        let inner = output.shape().iter().skip(2).product::<usize>();
        let bend = |slope: T, x: &mut T| *x = if *x > T::zero() { *x } else { slope * *x };
        match (&*weight, inner) {
            (&[slope], _) => float::transform_rows::<T>(input, output, 1, limits, &|_, input, data| {
                if let Some(input) = input {
                    data.copy_from_slice(input);
                }
                widest!(|| data.iter_mut().for_each(|x| bend(slope, x)));
                Ok(())
            }),
            (slopes, 1) => float::change_rows::<T>(input, output, slopes.len(), limits, |_, row| {
                widest!(|| row.iter_mut().zip(slopes).for_each(|(x, &slope)| bend(slope, x)));
            }),
            (slopes, _) => float::change_rows::<T>(input, output, inner, limits, |index, plane| {
                let slope = slopes.get(index % slopes.len().max(1)).copied().unwrap_or_else(T::zero);
                widest!(|| plane.iter_mut().for_each(|x| bend(slope, x)));
            }),
        }
    }
}

impl Layer for PRelu {
    fn num_inputs(&self) -> RangeInclusive<usize> {
        exactly(1 + self.field_inputs())
    }

    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
        let weight = self.weight.meta(inputs)?;
        if weight.dtype() != inputs[0].dtype() {
            return Err(LayerError::dtype("the weight", inputs[0].dtype(), weight.dtype()));
        }
        let count = weight.num_elements();
        if let Some(given) = self.num_parameters.filter(|given| count.fixed().is_some() && count != *given) {
            return Err(LayerError::invalid(
                "num_parameters",
                given,
                format!("the weights have {count} elements"),
            ));
        }
        let channels = inputs[0].dims().get(1).and_then(|channels| channels.fixed());
        let unknown = inputs[0].rank() > 1 && channels.is_none();
        let fits = |count: i64| count == 1 || Some(count) == channels || unknown;
        if weight.rank() > 1 || !count.fixed().is_none_or(fits) {
            let wanted = format!(
                "1 element or {}",
                channels.map_or("that".to_owned(), |channels| channels.to_string())
            );
            return Err(LayerError::shape("the weight", wanted, weight));
        }
        float::same_as_input(inputs)
    }

    fn in_place(&self, _: usize) -> Option<usize> {
        Some(0)
    }
}

impl Glu {
    fn run<T: Float>(&self, input: &TensorView<'_>, output: &mut TensorViewMut<'_>) -> Result<()> {
        let axis = input.shape().axis(self.dim)?;
        let half = output.shape().iter().skip(axis).product::<usize>().max(1);
        let input = float::read::<T>(input)?;
        float::write::<T>(output, |output| {
            for (input, output) in input.chunks_exact(2 * half).zip(output.chunks_exact_mut(half)) {
                let (values, gates) = input.split_at(half);
                let lanes = output.iter_mut().zip(values).zip(gates);
                widest!(|| {
                    for ((y, &x), &g) in lanes {
                        *y = x * math::sigmoid(g);
                    }
                });
            }
            Ok(())
        })
    }
}

impl Layer for Glu {
    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
        float::check("the input", &inputs[0])?;
        let axis = axis_of(self.dim, &inputs[0])?;
        let mut dims = inputs[0].dims().to_vec();
        if dims[axis].fixed().is_some_and(|len| len % 2 != 0) {
            return Err(LayerError::shape(
                "the input",
                format!("an even number of elements along axis {axis}"),
                &inputs[0],
            ));
        }
        dims[axis] = dims[axis].clone().floor_div(2);
        Ok(vec![inputs[0].with_dims(dims)])
    }
}

run_in_place!(PRelu);

impl CpuLayer for Glu {
    fn forward(&mut self, io: &mut Io<'_, '_>) -> Result<()> {
        with_float!(io.inputs[0].dtype(), T => self.run::<T>(&io.inputs[0], &mut io.outputs[0]))
    }
}

operators! { PRelu, Glu;
    overload "aten::prelu"(input, weight)
}

#[cfg(test)]
mod tests {
    use crate::support::testing::{assert_close, operator, tensor};
    use ixion_tensor::{DType, Tensor};

    #[test]
    fn slopes_of_channels() {
        let x = tensor(&[1, 2, 2], &[-1.0, 2.0, -4.0, f64::NAN]);
        let module =
            operator("nn.PReLU", &[("num_parameters", "2")]).with_attr("weight", tensor(&[2], &[0.5, 0.25]));
        assert_close(&module.run_one(&[&x]).unwrap(), &[1, 2, 2], &[-0.5, 2.0, -1.0, f64::NAN]);
        let function = operator("F.prelu", &[]).with_names(&["input", "weight"]);
        assert_close(
            &function.run_one(&[&x, &tensor(&[1], &[3.0])]).unwrap(),
            &[1, 2, 2],
            &[-3.0, 2.0, -12.0, f64::NAN],
        );
        assert_close(
            &function.run_one(&[&tensor(&[2], &[-1.0, 1.0]), &tensor(&[1], &[3.0])]).unwrap(),
            &[2],
            &[-3.0, 1.0],
        );
        assert!(function.run(&[&x, &tensor(&[3], &[1.0; 3])]).is_err());
        assert!(
            operator("nn.PReLU", &[("num_parameters", "3")])
                .with_attr("weight", Tensor::scalar(1.0))
                .run(&[&x])
                .is_err()
        );
    }

    #[test]
    fn one_half_gates_the_other() {
        let x = tensor(&[2, 2], &[1.0, -2.0, 0.0, 0.25]);
        let rows = operator("nn.GLU", &[("dim", "0")]).run_one(&[&x]).unwrap();
        assert_close(&rows, &[1, 2], &[0.5, -2.0 * 0.5621765008857981]);
        let columns = operator("F.glu", &[]).run_one(&[&x]).unwrap();
        assert_close(&columns, &[2, 1], &[0.11920292202211755, 0.0]);
        let error = operator("F.glu", &[]).run(&[&tensor(&[3], &[0.0; 3])]).unwrap_err().to_string();
        assert_eq!(error, "the input: expected an even number of elements along axis 0, got 3 f64");
    }

    #[test]
    fn odd_inputs() {
        operator("F.prelu", &[]).survives(2);
        operator("nn.PReLU", &[]).with_attr("weight", Tensor::ones(DType::F32, &[4]).unwrap()).survives(1);
        operator("F.glu", &[("dim", "1")]).survives(1);
    }
}
