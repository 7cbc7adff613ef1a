//! Histograms: histc.

mod of_points;
mod with_edges;

use crate::op::{CpuLayer, Io, Layer, LayerError, Result, TensorMeta};
use crate::support::float;
use ixion_kernels::Float;
use ixion_tensor::{DType, TensorView, TensorViewMut, bf16, f16};
pub use of_points::HistogramOfPoints;
pub use with_edges::Histogram;

crate::operator! {
    /// `torch.histc`: how many elements are in each of several bins of equal width. Elements outside of them, and NaN, are not
    /// counted. The largest number belongs to the last bin.
    pub struct Histc for "aten::histc" {
        /// The number of bins.
        bins: usize = 100,
        /// The start of the first bin. If it equals `max`, the bins reach from the smallest element to the largest.
        min: f64 = 0.0,
        /// The end of the last bin.
        max: f64 = 0.0,
    }
    validate |layer| {
        let Histc { bins, min, max } = *layer;
        if bins == 0 {
            return Err(LayerError::invalid("bins", bins, "there must be at least one"));
        }
        for (key, edge) in [("min", min), ("max", max)] {
            if !edge.is_finite() {
                return Err(LayerError::invalid(key, edge, "it must be finite"));
            }
        }
        if min > max {
            let reason = format!("it must not be below `min`, which is {min}");
            return Err(LayerError::invalid("max", max, reason));
        }
        Ok(())
    }
}

impl Histc {
    /// The start of the first bin and the end of the last one.
    fn range<T: Float>(&self, values: &[T]) -> Result<[f64; 2]> {
        let numbers = || values.iter().map(|x| x.to_f64().unwrap_or(f64::NAN));
        let [least, most] = match self.min == self.max && !values.is_empty() {
            true if numbers().any(f64::is_nan) => [f64::NAN; 2],
            true => [numbers().fold(f64::INFINITY, f64::min), numbers().fold(f64::NEG_INFINITY, f64::max)],
            false => [self.min, self.max],
        };
        if !(least.is_finite() && most.is_finite()) {
            return Err(LayerError::Unsupported(format!(
                "the bins would reach from {least} to {most}; expected finite elements, or `min` below `max`"
            )));
        }
        Ok(if least == most { [least - 1.0, most + 1.0] } else { [least, most] })
    }

    /// Counts elements. `round` rounds a number to the element type, as PyTorch does after each step.
    fn count<T: Float>(
        &self,
        input: &TensorView<'_>,
        output: &mut TensorViewMut<'_>,
        round: fn(T) -> T,
    ) -> Result<()> {
        let values = float::read::<T>(input)?;
        let [least, most] = self.range::<T>(&values)?.map(|edge| round(T::of(edge)));
        let (bins, width) = (round(T::of(self.bins as f64)), round(most - least));
        let mut counts = vec![0u64; self.bins];
        for &x in values.iter().filter(|x| (least..=most).contains(x)) {
            let bin = round(round(round(x - least) * bins) / width).to_usize().unwrap_or(usize::MAX);
            if let Some(count) = counts.get_mut(bin.min(self.bins - 1)) {
                *count += 1;
            }
        }
        float::write::<T>(output, |output| {
            output.iter_mut().zip(counts).for_each(|(to, count)| *to = T::of(count as f64));
            Ok(())
        })
    }
}

impl Layer for Histc {
    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
        float::check("the input", &inputs[0])?;
        Ok(vec![inputs[0].with_dims([self.bins])])
    }
}

impl CpuLayer for Histc {
    fn forward(&mut self, io: &mut Io<'_, '_>) -> Result<()> {
        let (input, output) = (&io.inputs[0], &mut io.outputs[0]);
        io.context.limits().check_tensor("the counts", (self.bins as u64).saturating_mul(8))?;
        match input.dtype() {
            DType::F64 => self.count::<f64>(input, output, |x| x),
            DType::F16 => self.count::<f32>(input, output, |x| f16::from_f32(x).to_f32()),
            DType::Bf16 => self.count::<f32>(input, output, |x| bf16::from_f32(x).to_f32()),
            _ => self.count::<f32>(input, output, |x| x),
        }
    }
}

operators! { Histc; of of_points, with_edges }

#[cfg(test)]
mod tests {
    use crate::support::testing::{counting, operator, tensor};
    use ixion_tensor::{DType, Tensor};

    fn counts(params: &[(&'static str, &'static str)], x: &Tensor) -> Vec<f64> {
        let found = operator("aten::histc", params).run_one(&[x]).unwrap();
        assert_eq!(found.dtype(), x.dtype());
        found.cast(DType::F64).unwrap().to_vec().unwrap()
    }

    /// PyTorch's results.
    #[test]
    fn elements_are_counted() {
        let x = counting(DType::F32, &[2, 3]);
        assert_eq!(counts(&[("bins", "3")], &x), [2.0; 3]);
        assert_eq!(counts(&[("bins", "4"), ("min", "1"), ("max", "4")], &x), [1.0; 4]);
        let edges = tensor(&[8], &[0.0, 1.0, 1.0, 2.0, 3.0, 4.0, -1.0, f64::NAN]);
        for dtype in [DType::F32, DType::F64, DType::F16, DType::Bf16] {
            let params = [("bins", "4"), ("min", "0"), ("max", "4")];
            assert_eq!(counts(&params, &edges.cast(dtype).unwrap()), [1.0, 2.0, 1.0, 2.0]);
        }
        let inner = tensor(&[3], &[0.1f32, 0.25, 0.5]);
        assert_eq!(counts(&[("bins", "4"), ("min", "0.1"), ("max", "0.5")], &inner), [1.0, 1.0, 0.0, 1.0]);
    }

    /// PyTorch's results.
    #[test]
    fn without_a_range_it_is_that_of_the_elements() {
        let bins = [("bins", "4")];
        assert_eq!(counts(&bins, &tensor(&[3], &[2.0f32; 3])), [0.0, 0.0, 3.0, 0.0]);
        let given = [("bins", "4"), ("min", "2"), ("max", "2")];
        assert_eq!(counts(&given, &tensor(&[3], &[2.0f32, 2.0, 3.0])), [2.0, 0.0, 0.0, 1.0]);
        assert_eq!(counts(&bins, &Tensor::zeros(DType::F16, &[0]).unwrap()), [0.0; 4]);
        assert_eq!(counts(&[], &Tensor::scalar(1.0f32)).len(), 100);
        let error = |x: f32| operator("aten::histc", &bins).run(&[&tensor(&[2], &[1.0, x])]).unwrap_err();
        assert!(error(f32::NAN).to_string().contains("from NaN to NaN"));
        assert!(error(f32::INFINITY).to_string().contains("from 1 to inf"));
    }

    #[test]
    fn odd_inputs() {
        let refused = |params: &[(&'static str, &'static str)]| {
            operator("aten::histc", params).run(&[&counting(DType::F32, &[2])]).unwrap_err().to_string()
        };
        assert_eq!(refused(&[("bins", "0")]), "parameter `bins` is 0: there must be at least one");
        let message = "parameter `max` is 1: it must not be below `min`, which is 3";
        assert_eq!(refused(&[("min", "3"), ("max", "1")]), message);
        assert!(refused(&[("min", "nan")]).contains("`min`"));
        operator("aten::histc", &[("bins", "3")]).survives(1);
        operator("aten::histc", &[("bins", "3"), ("max", "1")]).survives(1);
    }
}
