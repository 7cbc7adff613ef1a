//! Distances between the rows of one matrix.

use super::check_held;
use crate::op::{CpuLayer, Io, Layer, LayerError, Result, TensorMeta};
use crate::support::float;
use crate::support::float::with_float;
use ixion_kernels::{Float, reduce};
use ixion_tensor::{Limits, TensorView, TensorViewMut};

crate::operator! {
    /// `torch.nn.functional.pdist`: the distance between each row of an N×M matrix and each later row, the p-norm of their
    /// difference. Output: N·(N − 1)/2.
    pub struct Pdist for "aten::pdist" {
        /// The order p of the norm; 0 counts the elements that differ.
        p: f64 = 2.0,
    }
    validate |layer| {
        match layer.p >= 0.0 {
            true => Ok(()),
            false => Err(LayerError::invalid("p", layer.p, "it must not be negative")),
        }
    }
}

impl Pdist {
    /// The norm, which unlike that of `torch.dist` does not count a NaN for p = 0: it is NaN, as for any p.
    fn norm<T: Float>(&self, differences: &[T]) -> f64 {
        match self.p == 0.0 && differences.iter().any(|x| x.is_nan()) {
            true => f64::NAN,
            false => reduce::norm(differences, self.p),
        }
    }

    fn run<T: Float>(
        &self,
        input: &TensorView<'_>,
        output: &mut TensorViewMut<'_>,
        limits: &Limits,
    ) -> Result<()> {
        let (count, len) = match *input.shape().dims() {
            [count, len] => (count, len),
            _ => (0, 0),
        };
        check_held::<T>(input.num_elements(), limits)?;
        let rows = float::read::<T>(input)?;
        let row = |index: usize| rows.get(index * len..(index + 1) * len).unwrap_or_default();
        let mut differences = vec![T::zero(); len];
        float::write::<T>(output, |output| {
            let mut outputs = output.iter_mut();
            for first in 0..count {
                limits.check_deadline()?;
                for (second, y) in (first + 1..count).zip(&mut outputs) {
                    let pairs = row(first).iter().zip(row(second));
                    differences.iter_mut().zip(pairs).for_each(|(to, (&a, &b))| *to = a - b);
                    *y = T::of(self.norm(&differences));
                }
            }
            Ok(())
        })
    }
}

impl Layer for Pdist {
    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
        float::check("the input", &inputs[0])?;
        let [count, _] = inputs[0].dims() else {
            return Err(LayerError::shape("the input", "a matrix", &inputs[0]));
        };
        let pairs = (count.clone() * (count.clone() - 1)).floor_div(2);
        Ok(vec![inputs[0].with_dims([pairs])])
    }
}

impl CpuLayer for Pdist {
    fn forward(&mut self, io: &mut Io<'_, '_>) -> Result<()> {
        let limits = io.context.limits();
        with_float!(io.inputs[0].dtype(), T => self.run::<T>(&io.inputs[0], &mut io.outputs[0], limits))
    }
}

operators! { Pdist }

#[cfg(test)]
mod tests {
    use super::*;
    use crate::support::testing::{assert_close, operator, tensor, waves};
    use ixion_tensor::{DType, Dim, Tensor};

    #[test]
    fn distances_are_those_of_pytorch() {
        let x = waves(&[4, 3]);
        let wants: [(&str, &[f64]); 5] = [
            ("0.0", &[3.0, 3.0, 3.0, 3.0, 2.0, 3.0]),
            ("1.0", &[2.25, 6.75, 7.75, 7.5, 6.0, 2.5]),
            (
                "1.5",
                &[
                    1.6771867277743757,
                    5.317384721644849,
                    5.8267403422387245,
                    5.33941083112706,
                    4.89452162954295,
                    1.8636752601123192,
                ],
            ),
            (
                "2.0",
                &[
                    1.479019945774904,
                    4.815340071064556,
                    5.2141634036535525,
                    4.55521678957215,
                    4.47213595499958,
                    1.6583123951777,
                ],
            ),
            ("inf", &[1.25, 4.25, 4.75, 3.5, 4.0, 1.5]),
        ];
        for (p, want) in wants {
            assert_close(&operator("aten::pdist", &[("p", p)]).run_one(&[&x]).unwrap(), &[6], want);
        }
        for rows in [0, 1] {
            let few = Tensor::zeros(DType::F32, &[rows, 3]).unwrap();
            assert_close(&operator("aten::pdist", &[]).run_one(&[&few]).unwrap(), &[0], &[]);
        }
        let points = Tensor::zeros(DType::F32, &[4, 0]).unwrap();
        assert_close(&operator("aten::pdist", &[]).run_one(&[&points]).unwrap(), &[6], &[0.0; 6]);
    }

    /// PyTorch's results.
    #[test]
    fn differences_that_are_nan() {
        let x = tensor(&[3, 2], &[f64::NAN, 1.0, 2.0, 3.0, 4.0, 3.0]);
        for (p, last) in [("0.0", 1.0), ("1.0", 2.0), ("2.0", 2.0), ("inf", 2.0)] {
            let distances = operator("aten::pdist", &[("p", p)]).run_one(&[&x]).unwrap();
            assert_close(&distances, &[3], &[f64::NAN, f64::NAN, last]);
        }
    }

    #[test]
    fn shapes_and_what_does_not_fit() {
        let of_symbol = TensorMeta::new(DType::F32, [Dim::symbol("n"), Dim::Fixed(3)]);
        let pairs = operator("aten::pdist", &[]).infer(&[of_symbol]).unwrap().remove(0);
        assert_eq!(pairs.dims()[0].evaluate(&|_| Some(5)), Some(10));
        assert!(operator("aten::pdist", &[("p", "-1.0")]).create(1).is_err());
        assert!(operator("aten::pdist", &[]).run(&[&waves(&[3])]).is_err());
        operator("aten::pdist", &[]).survives(1);
    }
}
