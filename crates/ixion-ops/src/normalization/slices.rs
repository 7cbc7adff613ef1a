//! Normalisation of the slices of a weight.

use crate::op::{CpuLayer, FromOperator, Io, Layer, LayerError, Result, TensorMeta, exactly};
use crate::support::arguments::InputIndex;
use crate::support::float;
use crate::support::float::with_float;
use crate::support::views::axis_of;
use ixion_kernels::Float;
use ixion_tensor::{Dim, TensorView, TensorViewMut};
use std::ops::RangeInclusive;

crate::operator! {
    /// `torch.nn.utils.weight_norm` (Salimans and Kingma 2016): gives each slice of a weight along an axis a length of its own:
    /// v · g / ‖v‖, with the Euclidean norm of the slice. PNNX computes it while it exports a model, but for the optimisation
    /// levels 0 and 1.
    pub struct WeightNorm for "aten::_weight_norm" {
        /// The lengths g of the slices, in a tensor whose other axes have length 1.
        g: InputIndex,
        /// The axis of the slices; -1 if the whole tensor is one. Other negative values count from the end.
        dim: i64 = 0,
    }
}

impl WeightNorm {
    /// The axis of the slices; `None` if the whole tensor is one.
    fn axis(&self, input: &TensorMeta) -> Result<Option<usize>> {
        if self.dim == -1 { Ok(None) } else { axis_of(self.dim, input).map(Some) }
    }

    fn run<T: Float>(&self, inputs: &[TensorView<'_>], output: &mut TensorViewMut<'_>) -> Result<()> {
        let shape = *inputs[0].shape();
        let (slices, len) = match self.dim {
            -1 => (1, shape.num_elements()),
            dim => {
                let axis = shape.axis(dim)?;
                (shape[axis], shape[axis + 1..].iter().product())
            }
        };
        let (input, lengths) = (float::read::<T>(&inputs[0])?, float::read::<T>(&inputs[self.g.0])?);
        // Runs of this many elements belong to the slices in turn.
        let len = len.max(1);
        let mut squares = vec![0f64; slices];
        for (run, values) in input.chunks(len).enumerate() {
            let square = |x: &T| x.to_f64().map_or(f64::NAN, |x| x * x);
            squares[run % slices] += values.iter().map(square).sum::<f64>();
        }
        let factors =
            squares.iter().zip(lengths.iter()).map(|(square, &length)| length / T::of(square.sqrt()));
        let factors: Vec<T> = factors.collect();
        float::write::<T>(output, |output| {
            for (run, (to, from)) in output.chunks_mut(len).zip(input.chunks(len)).enumerate() {
                let factor = factors[run % slices];
                to.iter_mut().zip(from).for_each(|(to, &from)| *to = from * factor);
            }
            Ok(())
        })
    }
}

impl Layer for WeightNorm {
    fn num_inputs(&self) -> RangeInclusive<usize> {
        exactly(1 + self.field_inputs())
    }

    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
        let (input, lengths) = (&inputs[0], &inputs[self.g.0]);
        float::check("the input", input)?;
        if lengths.dtype() != input.dtype() {
            return Err(LayerError::dtype("`g`", input.dtype(), lengths.dtype()));
        }
        let axis = self.axis(input)?;
        let one = Dim::Fixed(1);
        let dims = input.dims().iter().enumerate().filter(|_| axis.is_some());
        let wanted: Vec<&Dim> = dims.map(|(at, dim)| if Some(at) == axis { dim } else { &one }).collect();
        let differ = |(wanted, found): (&&Dim, &Dim)| {
            wanted.fixed().is_some() && found.fixed().is_some() && *wanted != found
        };
        // PNNX stores numbers as tensors with an axis.
        let is_one = axis.is_none() && !lengths.num_elements().differs(&one);
        if !is_one && (lengths.rank() != wanted.len() || wanted.iter().zip(lengths.dims()).any(differ)) {
            let wanted = wanted.iter().map(ToString::to_string).collect::<Vec<_>>().join("×");
            let wanted = if axis.is_some() { wanted } else { "one element".to_owned() };
            return Err(LayerError::shape("`g`", wanted, lengths));
        }
        Ok(vec![input.with_dims(input.dims().to_vec())])
    }
}

impl CpuLayer for WeightNorm {
    fn forward(&mut self, io: &mut Io<'_, '_>) -> Result<()> {
        with_float!(io.inputs[0].dtype(), T => self.run::<T>(io.inputs, &mut io.outputs[0]))
    }
}

operators! { WeightNorm }

#[cfg(test)]
mod tests {
    use crate::support::testing::{assert_close, operator, tensor};
    use ixion_tensor::{DType, Tensor};

    fn normed(dim: &str, inputs: &[&Tensor]) -> Tensor {
        operator("aten::_weight_norm", &[("dim", dim)]).run_one(inputs).unwrap()
    }

    /// Results of PyTorch.
    #[test]
    fn slices_have_the_given_lengths() {
        let v = tensor(&[2, 2, 3], &[1f32, 2.0, 3.0, 4.0, 5.0, 6.0, -1.0, 0.0, 2.0, 0.5, -3.0, 1.0]);
        let g = tensor(&[2, 1, 1], &[2f32, -3.0]);
        let want = [
            0.20965695,
            0.41931391,
            0.62897086,
            0.83862782,
            1.04828477,
            1.25794172,
            0.76822126,
            -0.0,
            -1.53644252,
            -0.38411063,
            2.30466366,
            -0.76822126,
        ];
        assert_close(&normed("0", &[&v, &g]), &[2, 2, 3], &want);
        let default = operator("aten::_weight_norm", &[]).run_one(&[&v, &g]).unwrap();
        assert_eq!(default, normed("0", &[&v, &g]));
        let g = tensor(&[1, 2, 1], &[1f32, 2.0]);
        let want = [
            0.22941573,
            0.45883146,
            0.68824720,
            0.85646039,
            1.07057548,
            1.28469062,
            -0.22941573,
            0.0,
            0.45883146,
            0.10705755,
            -0.64234531,
            0.21411512,
        ];
        assert_close(&normed("1", &[&v, &g]), &[2, 2, 3], &want);
        assert_eq!(normed("-2", &[&v, &g]), normed("1", &[&v, &g]));
        let whole = normed("-1", &[&v, &tensor(&[], &[10f32])]);
        let length: f32 = whole.to_vec::<f32>().unwrap().iter().map(|x| x * x).sum();
        assert!((length - 100.0).abs() < 1e-3, "{length}");
    }

    #[test]
    fn zeros_have_no_direction() {
        let (v, g) = (tensor(&[2, 1], &[0f64, 3.0]), tensor(&[2, 1], &[1f64, 0.0]));
        let got = normed("0", &[&v, &g]).to_vec::<f64>().unwrap();
        assert!(got[0].is_nan() && got[1] == 0.0, "{got:?}");
    }

    #[test]
    fn odd_inputs() {
        let norm = operator("aten::_weight_norm", &[("dim", "1")]);
        let (v, g) = (tensor(&[2, 2], &[1f32; 4]), tensor(&[1, 2], &[1f32; 2]));
        let message = |inputs: &[&Tensor]| norm.run(inputs).unwrap_err().to_string();
        assert!(message(&[&v, &g.cast(DType::F64).unwrap()]).contains("f32"));
        assert!(message(&[&v, &tensor(&[2, 1], &[1f32; 2])]).contains("1×2"));
        assert!(message(&[&v, &tensor(&[], &[1f32])]).contains("1×2"));
        assert!(message(&[&tensor(&[2], &[1f32; 2]), &g]).contains("axis"));
        norm.survives(2);
    }
}
