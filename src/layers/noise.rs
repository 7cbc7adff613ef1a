//! Random numbers in the shape of tensors that PNNX has no name for.

use super::arithmetic::{creator, first, required};
use super::broadcast::{Factor, broadcast, kind};
use super::choices::MemoryFormat;
use super::random::{Seed, invalid, random};
use crate::graph::{
    CpuLayer, Creator, Field, FieldValue, ForwardContext, Layer, LayerError, OperatorReader, Registry,
    RegistryError, TensorMeta,
};
use crate::tensor::{DType, Layout, Tensor, TensorView, TensorViewMut};
use rand::Rng;
use rand_distr::{Distribution, StandardNormal};
use std::ops::RangeInclusive;

crate::operator! {
    /// `torch.rand_like`: numbers from 0 up to and without 1, all as likely, in the shape of a tensor.
    pub struct RandLike for "aten::rand_like", "torch.rand_like" {
        /// The element type, a float; that of the input where absent.
        dtype: Option<DType> = None,
        /// Accepted for compatibility; how elements lie in memory cannot be seen from outside.
        memory_format: Option<MemoryFormat> = None,
        /// Where the numbers start.
        seed: Seed,
    }
}

/// Writes numbers, rounded down to what the element type holds so that 1 stays out.
fn write(numbers: Vec<f64>, output: &mut TensorViewMut<'_>) -> Result<(), LayerError> {
    let layout = Layout::contiguous(*output.shape());
    Ok(output.cast_from(&TensorView::from_slice(&numbers, layout)?)?)
}

fn check_held(output: &TensorViewMut<'_>, context: &ForwardContext<'_>) -> Result<(), LayerError> {
    let bytes = (output.num_elements() as u64).saturating_mul(8);
    Ok(context.limits().check_tensor("random numbers", bytes)?)
}

impl Layer for RandLike {
    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>, LayerError> {
        random(inputs[0].with_dtype(self.dtype.unwrap_or(inputs[0].dtype())))
    }
}

impl CpuLayer for RandLike {
    fn forward(
        &mut self,
        _: &[TensorView<'_>],
        outputs: &mut [TensorViewMut<'_>],
        context: &mut ForwardContext<'_>,
    ) -> Result<(), LayerError> {
        check_held(&outputs[0], context)?;
        // So many bits as the element type has: more would be rounded up to 1.
        let steps = match outputs[0].dtype() {
            DType::F64 => 53,
            DType::F16 => 11,
            DType::Bf16 => 8,
            _ => 24,
        };
        let (mut rng, scale) = (self.seed.rng(), (-f64::from(steps)).exp2());
        let mut number = || (rng.random::<u64>() >> (64 - steps)) as f64 * scale;
        write((0..outputs[0].num_elements()).map(|_| number()).collect(), &mut outputs[0])
    }
}

/// `aten::normal`: each number of its own mean and deviation.
#[derive(Debug, Clone, Copy)]
struct NormalOf {
    /// Mean and standard deviation.
    factors: [Factor; 2],
    seed: Seed,
}

impl Layer for NormalOf {
    fn num_inputs(&self) -> RangeInclusive<usize> {
        let count = self.factors.iter().map(Factor::num_inputs).sum();
        count..=count
    }

    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>, LayerError> {
        let tensor = self.factors.iter().find_map(|factor| match factor {
            Factor::Input(position) => Some(kind(&inputs[*position]).0),
            Factor::Number(_) => None,
        });
        let [mean, std] = self.factors.map(|factor| factor.dims(inputs).to_vec());
        random(TensorMeta::new(tensor.unwrap_or(DType::F32), broadcast(&mean, &std)?))
    }
}

impl CpuLayer for NormalOf {
    fn forward(
        &mut self,
        inputs: &[TensorView<'_>],
        outputs: &mut [TensorViewMut<'_>],
        context: &mut ForwardContext<'_>,
    ) -> Result<(), LayerError> {
        check_held(&outputs[0], context)?;
        let shape = *outputs[0].shape();
        let [mean, std] = self.factors.map(|factor| -> Result<Tensor, LayerError> {
            Ok(factor.converted(inputs, DType::F64)?.expanded(&shape)?.to_tensor()?)
        });
        let (mean, std) = (mean?.to_vec::<f64>()?, std?.to_vec::<f64>()?);
        if let Some(found) = std.iter().find(|std| **std < 0.0) {
            return Err(invalid("std", found, "a standard deviation is not negative"));
        }
        let mut rng = self.seed.rng();
        let normal = |(mean, std): (f64, f64)| -> f64 {
            let number: f64 = StandardNormal.sample(&mut rng);
            mean + std * number
        };
        write(mean.into_iter().zip(std).map(normal).collect(), &mut outputs[0])
    }
}

fn normal() -> Creator {
    let field = |key, kind, default, doc| Field { key, kind, default, doc };
    let fields = [
        field("input", "a number or an input", None, "The means."),
        field("std", "a number or an input", None, "The standard deviations; they are broadcast."),
        field(
            "generator",
            "None",
            Some("None"),
            "Accepted as `None` only: a generator cannot be said in a file.",
        ),
    ];
    let create = |reader: &mut OperatorReader<'_>| -> Result<Box<dyn CpuLayer>, LayerError> {
        let factors = [first(reader)?, required(reader, "std")?];
        if let Some(generator) = Option::<String>::read(reader, "generator")?.flatten() {
            return Err(invalid("generator", &generator, "only None can be run"));
        }
        Ok(Box::new(NormalOf { factors, seed: Seed::require(reader, "seed")? }))
    };
    creator("`torch.normal`: numbers of normal distributions.".to_owned(), &fields, create)
}

/// Registers the layers of this file.
pub(super) fn register(registry: &mut Registry) -> Result<(), RegistryError> {
    registry.register::<RandLike>()?;
    registry.add("aten::normal", normal())
}

#[cfg(test)]
mod tests {
    use crate::layers::testing::{operator, tensor};
    use crate::tensor::{DType, Tensor};

    #[test]
    fn numbers_lie_where_they_should() {
        for dtype in [DType::F32, DType::F64, DType::F16, DType::Bf16] {
            let like = Tensor::zeros(dtype, &[100, 100]).unwrap();
            let found = operator("aten::rand_like", &[]).run_one(&[&like]).unwrap();
            let found = found.cast(DType::F64).unwrap().to_vec::<f64>().unwrap();
            assert!(found.iter().all(|x| (0.0..1.0).contains(x)), "{dtype}");
            let mean = found.iter().sum::<f64>() / 1e4;
            assert!((mean - 0.5).abs() < 0.02, "{dtype}: {mean}");
        }
        let (mean, none) = (tensor(&[3], &[1e6f32, -1e6, 0.0]), tensor(&[1], &[0.0f32]));
        let normal = operator("aten::normal", &[]).with_names(&["input", "std"]);
        assert_eq!(normal.run_one(&[&mean, &none]).unwrap().to_vec::<f32>().unwrap(), [1e6, -1e6, 0.0]);
        assert!(normal.run(&[&mean, &tensor(&[1], &[-1.0f32])]).is_err());
        let integers = Tensor::zeros(DType::I64, &[2]).unwrap();
        assert!(operator("aten::rand_like", &[]).run(&[&integers]).is_err());
    }
}
