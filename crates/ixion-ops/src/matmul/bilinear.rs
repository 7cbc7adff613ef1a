//! Bilinear maps.

use crate::op::{Cost, CpuLayer, FromOperator, Io, Layer, LayerError, Result, TensorMeta, Weight, exactly};
use crate::support::arguments::InputIndex;
use crate::support::number;
use crate::support::number::{Computation, Number};
use crate::support::rules::agreed;
use ixion_tensor::{Limits, TensorView, TensorViewMut};
use ndarray::{ArrayView2, ArrayViewMut2};
use std::ops::RangeInclusive;

crate::operator! {
    /// `torch.nn.Bilinear`: the bilinear map Σ x·W·y + b of two inputs, …×I and …×J, with K×I×J weights and a bias. Output: …×K.
    pub struct Bilinear for "aten::bilinear" {
        /// The second input y.
        input2: InputIndex,
        /// Weights, K×I×J.
        weight: Weight,
        /// Bias of K elements.
        bias: Option<Weight> = None,
    }
}

/// The number of elements that are held between the two products.
const HELD: usize = 1 << 16;

/// The sum of products of contiguous elements.
fn dot<T: Number>(a: &[T], b: &[T]) -> T {
    a.iter().zip(b).fold(T::default(), |sum, (&a, &b)| T::plus(sum, T::times(a, b)))
}

impl Computation for Bilinear {
    /// Multiplies some rows of the first input with all weights at a time, I×(K·J), and the results with rows of the second.
    fn run_in<T: Number>(
        &self,
        inputs: &[TensorView<'_>],
        output: &mut TensorViewMut<'_>,
        limits: &Limits,
    ) -> Result<()> {
        let (first, second) = (number::read::<T>(&inputs[0])?, number::read::<T>(&inputs[self.input2.0])?);
        let weight = self.weight.view(inputs)?;
        let &[outputs, left, right] = weight.shape().dims() else {
            return Err(LayerError::shape("the weight", "K×I×J", weight.shape()));
        };
        let width = outputs.saturating_mul(right);
        let held = (HELD / width.max(1)).max(1);
        let bytes = (width.saturating_mul(left.max(held)) as u64).saturating_mul(size_of::<T>() as u64);
        limits.check_tensor("the weights side by side", bytes)?;
        let weight = number::read::<T>(&weight.with_layout(weight.layout().permute(&[1, 0, 2])?)?)?;
        let weight = ArrayView2::from_shape((left, width), &weight)?;
        let bias = self.bias.as_ref().map(|bias| bias.view(inputs)).transpose()?;
        let bias = bias.map(|bias| number::read::<T>(&bias)).transpose()?;
        let mut products = vec![T::default(); held * width];
        number::write::<T>(output, |output| {
            for (part, output) in output.chunks_mut((held * outputs).max(1)).enumerate() {
                limits.check_deadline()?;
                let (start, rows) = (part * held, output.len() / outputs.max(1));
                let first = first.get(start * left..(start + rows) * left).unwrap_or_default();
                let products = &mut products[..rows * width];
                let target = ArrayViewMut2::from_shape((rows, width), &mut *products)?;
                T::multiply(ArrayView2::from_shape((rows, left), first)?, weight, target);
                for (row, output) in output.chunks_exact_mut(outputs.max(1)).enumerate() {
                    let at = (start + row) * right;
                    let second = second.get(at..at + right).unwrap_or_default();
                    for (place, y) in output.iter_mut().enumerate() {
                        let at = (row * outputs + place) * right;
                        let sum = dot(products.get(at..at + right).unwrap_or_default(), second);
                        let bias = bias.as_ref().and_then(|bias| bias.get(place)).copied();
                        *y = bias.map_or(sum, |bias| T::plus(sum, bias));
                    }
                }
            }
            Ok(())
        })
    }
}

impl Bilinear {
    /// Checks that all tensors have the same element type.
    fn check_types(&self, inputs: &[TensorMeta]) -> Result<()> {
        let dtype = inputs[0].dtype();
        number::check("the input", dtype)?;
        let bias = self.bias.as_ref().map(|bias| bias.meta(inputs)).transpose()?;
        let weight = self.weight.meta(inputs)?;
        let others = [("the second input", inputs[self.input2.0].clone()), ("the weight", weight)];
        let mut others = others.into_iter().chain(bias.map(|bias| ("the bias", bias)));
        match others.find(|(_, other)| other.dtype() != dtype) {
            Some((what, other)) => Err(LayerError::dtype(what, dtype, other.dtype())),
            None => Ok(()),
        }
    }
}

impl Layer for Bilinear {
    fn num_inputs(&self) -> RangeInclusive<usize> {
        exactly(1 + self.field_inputs())
    }

    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
        self.check_types(inputs)?;
        let (first, second, weight) = (&inputs[0], &inputs[self.input2.0], self.weight.meta(inputs)?);
        let [outputs, left, right] = weight.dims() else {
            return Err(LayerError::shape("the weight", "K×I×J", &weight));
        };
        let mut rows = Vec::new();
        for (what, input, len) in [("the input", first, left), ("the second input", second, right)] {
            let last = input.dims().split_last().filter(|(last, _)| !last.differs(len));
            let wanted = || format!("…×{len}, to fit the weight {weight}");
            rows.push(last.ok_or_else(|| LayerError::shape(what, wanted(), input))?.1);
        }
        let pairs = rows[0].iter().zip(rows[1]).map(|(a, b)| agreed(a, b));
        let common = pairs.collect::<Option<Vec<_>>>().filter(|_| rows[0].len() == rows[1].len());
        let Some(mut dims) = common else {
            let wanted = second.with_dims(rows[0].iter().chain([right]).cloned());
            let wanted = format!("{wanted}, to fit the input {first}");
            return Err(LayerError::shape("the second input", wanted, second));
        };
        dims.push(outputs.clone());
        if let Some(bias) = &self.bias {
            let bias = bias.meta(inputs)?;
            if !bias.may_have_dims(std::slice::from_ref(outputs)) {
                return Err(LayerError::shape("the bias", format!("a vector of {outputs}"), bias));
            }
        }
        Ok(vec![first.with_dims(dims)])
    }

    fn cost(&self, inputs: &[TensorMeta], outputs: &[TensorMeta]) -> Cost {
        let weight = self.weight.meta(inputs).ok();
        let terms = weight.and_then(|weight| {
            let [_, left, right] = weight.dims() else { return None };
            Some(left.clone() * right.clone())
        });
        let macs =
            terms.zip(outputs.first()).and_then(|(terms, output)| (output.num_elements() * terms).fixed());
        Cost::of_moving(inputs, outputs)
            .with_macs(macs.and_then(|macs| u64::try_from(macs).ok()).unwrap_or(0))
    }
}

impl CpuLayer for Bilinear {
    fn forward(&mut self, io: &mut Io<'_, '_>) -> Result<()> {
        self.run(io.inputs, &mut io.outputs[0], io.context.limits())
    }
}

operators! { Bilinear }

#[cfg(test)]
mod tests {
    use crate::support::testing::{assert_close, operator, tensor, waves};
    use ixion_tensor::{Complex, DType, Tensor};

    fn run(inputs: &[&Tensor]) -> Tensor {
        operator("aten::bilinear", &[]).run_one(inputs).unwrap()
    }

    /// Two inputs, weights and a bias.
    fn samples() -> [Tensor; 4] {
        let second: Tensor = waves(&[2, 2]).map(|y: f64| y + 1.0).unwrap();
        [waves(&[2, 3]), second, waves(&[2, 3, 2]), tensor(&[2], &[0.5, -1.0])]
    }

    #[test]
    fn maps_are_those_of_pytorch() {
        let [x, y, weight, bias] = samples();
        assert_close(&run(&[&x, &y, &weight, &bias]), &[2, 2], &[-11.84375, 1.828125, 3.5625, -2.5625]);
        let want = [-12.34375, 2.828125, 3.0625, -1.5625];
        assert_close(&run(&[&x, &y, &weight]), &[2, 2], &want);
        let [x, y] = [x.reshape(&[1, 2, 3]).unwrap(), y.reshape(&[1, 2, 2]).unwrap()];
        assert_close(&run(&[&x, &y, &weight]), &[1, 2, 2], &want);
        let [x, y] = [tensor(&[3], &[-2.75, -0.25, 0.0]), tensor(&[2], &[-1.75, 0.75])];
        assert_close(&run(&[&x, &y, &weight]), &[2], &want[..2]);
    }

    #[test]
    fn all_numbers_and_many_rows() {
        let [x, y, weight, _] = samples();
        let of = |dtype| [&x, &y, &weight].map(|tensor| tensor.cast(dtype).unwrap());
        let integers = of(DType::I64);
        let integers = run(&[&integers[0], &integers[1], &integers[2]]);
        assert_eq!(integers.to_vec::<i64>().unwrap(), [-4, 2, 3, 0]);
        let halves = of(DType::F16);
        let want = [-12.34375, 2.828125, 3.0625, -1.5625];
        assert_close(&run(&[&halves[0], &halves[1], &halves[2]]), &[2, 2], &want);
        let complex = of(DType::C128);
        let complex = run(&[&complex[0], &complex[1], &complex[2]]).to_vec::<Complex<f64>>().unwrap();
        assert!(complex.iter().zip(want).all(|(got, want)| (got - want).norm() < 1e-12));
        let many = [waves(&[40_000, 1]), waves(&[40_000, 1])];
        let squares = run(&[&many[0], &many[1], &tensor(&[2, 1, 1], &[1.0, 2.0])]);
        let wanted = |x: f64| [x * x, 2.0 * x * x];
        let want: Vec<f64> = many[0].to_vec::<f64>().unwrap().into_iter().flat_map(wanted).collect();
        assert_close(&squares, &[40_000, 2], &want);
    }

    #[test]
    fn what_does_not_fit() {
        let [x, y, weight, bias] = samples();
        let error = |inputs: &[&Tensor]| operator("aten::bilinear", &[]).run(inputs).unwrap_err().to_string();
        let turned = error(&[&y, &x, &weight]);
        assert_eq!(turned, "the input: expected …×3, to fit the weight 2×3×2 f64, got 2×2 f64");
        let rows = error(&[&x, &waves(&[1, 2]), &weight]);
        assert_eq!(rows, "the second input: expected 2×2 f64, to fit the input 2×3 f64, got 1×2 f64");
        assert!(error(&[&x, &y, &bias]).contains("the weight: expected K×I×J"));
        assert!(error(&[&x, &y, &weight, &waves(&[3])]).contains("the bias: expected a vector of 2"));
        let other = error(&[&x, &y, &weight.cast(DType::F32).unwrap()]);
        assert_eq!(other, "the weight: expected f64, got f32");
        operator("aten::bilinear", &[]).survives(3);
        operator("aten::bilinear", &[]).survives(4);
    }
}
