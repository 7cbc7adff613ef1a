//! Random numbers. Every run gives the same ones: the operator's name is the seed, so that two operators differ.

use super::choices::MemoryFormat;
use super::creation::Size;
use crate::graph::{
    CpuLayer, FieldValue, ForwardContext, Layer, LayerError, OperatorReader, Registry, RegistryError,
    TensorMeta,
};
use crate::tensor::{DType, Layout, TensorView, TensorViewMut};
use rand::SeedableRng;
use rand::rngs::StdRng;
use rand_distr::{Distribution, Normal as NormalDistribution};
use std::ops::RangeInclusive;

/// Where the random numbers of an operator start. Not a key: no file sets it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Seed(u32);

impl Seed {
    /// The generator that starts there.
    pub(super) fn rng(self) -> StdRng {
        StdRng::seed_from_u64(u64::from(self.0))
    }
}

impl FieldValue for Seed {
    const KIND: &'static str = crate::graph::NO_KEY;

    fn read(reader: &mut OperatorReader<'_>, _: &'static str) -> Result<Option<Self>, LayerError> {
        Ok(Some(Self(crc32fast::hash(reader.name().as_bytes()))))
    }
}

crate::operator! {
    /// `torch.randn`: numbers of the standard normal distribution.
    pub struct Randn for "torch.randn" {
        /// The shape.
        size: Size,
        /// The element type, a float; f32 where absent.
        dtype: Option<DType> = None,
        /// Where the numbers start.
        seed: Seed,
    }
}

crate::operator! {
    /// `torch.randn_like`: numbers of the standard normal distribution in the shape of a tensor.
    pub struct RandnLike for "torch.randn_like" {
        /// The element type, a float; that of the input where absent.
        dtype: Option<DType> = None,
        /// Accepted for compatibility; how elements lie in memory cannot be seen from outside.
        memory_format: Option<MemoryFormat> = None,
        /// Where the numbers start.
        seed: Seed,
    }
}

crate::operator! {
    /// `torch.Tensor.normal_`, which PNNX calls `torch.normal`: numbers of a normal distribution in the shape and type of
    /// a tensor.
    pub struct Normal for "torch.normal" {
        /// The mean.
        mean: f64 = 0.0,
        /// The standard deviation; not negative.
        std: f64 = 1.0,
        /// Accepted as `None` only: a generator cannot be said in a file.
        generator: Option<String> = None,
        /// Where the numbers start.
        seed: Seed,
    }
    validate |layer| {
        match (layer.std >= 0.0, &layer.generator) {
            (true, None) => Ok(()),
            (true, Some(generator)) => Err(invalid("generator", generator, "only None can be run")),
            (false, _) => Err(invalid("std", &layer.std, "a standard deviation is not negative")),
        }
    }
}

pub(super) fn invalid(key: &'static str, found: &impl std::fmt::Debug, reason: &str) -> LayerError {
    LayerError::InvalidParameter { key, found: format!("{found:?}"), reason: reason.to_owned() }
}

/// An output of random numbers, which are floats.
pub(super) fn random(meta: TensorMeta) -> Result<Vec<TensorMeta>, LayerError> {
    let dtype = meta.dtype();
    if dtype.is_float() {
        return Ok(vec![meta]);
    }
    let (what, wanted) = ("random numbers".to_owned(), "f32, f64, f16 and bf16".to_owned());
    Err(LayerError::DType { what, wanted, found: dtype })
}

/// Fills the output with numbers of a normal distribution.
fn fill(
    output: &mut TensorViewMut<'_>,
    mean: f64,
    std: f64,
    seed: Seed,
    context: &ForwardContext<'_>,
) -> Result<(), LayerError> {
    let wanted = || invalid("std", &std, "there is no normal distribution of this deviation");
    let distribution = NormalDistribution::new(mean, std).map_err(|_| wanted())?;
    let shape = *output.shape();
    let bytes = (shape.num_elements() as u64).saturating_mul(8);
    context.limits().check_tensor("random numbers", bytes)?;
    let mut rng = seed.rng();
    let numbers: Vec<f64> = (0..shape.num_elements()).map(|_| distribution.sample(&mut rng)).collect();
    Ok(output.cast_from(&TensorView::from_slice(&numbers, Layout::contiguous(shape))?)?)
}

impl Layer for Randn {
    fn num_inputs(&self) -> RangeInclusive<usize> {
        self.size.num_inputs()..=self.size.num_inputs()
    }

    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>, LayerError> {
        let dims = self.size.dims(inputs)?;
        if dims.iter().any(|dim| dim.fixed().is_some_and(|dim| dim < 0)) {
            return Err(invalid("size", &dims, "lengths must not be negative"));
        }
        random(TensorMeta::new(self.dtype.unwrap_or(DType::F32), dims))
    }
}

impl Layer for RandnLike {
    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>, LayerError> {
        random(TensorMeta::new(self.dtype.unwrap_or(inputs[0].dtype()), inputs[0].dims().to_vec()))
    }
}

impl Layer for Normal {
    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>, LayerError> {
        random(inputs[0].clone())
    }
}

macro_rules! fills {
    ($($name:ident |$layer:ident| $mean:expr, $std:expr;)*) => {$(
        impl CpuLayer for $name {
            fn forward(
                &mut self,
                _: &[TensorView<'_>],
                outputs: &mut [TensorViewMut<'_>],
                context: &mut ForwardContext<'_>,
            ) -> Result<(), LayerError> {
                let $layer = self;
                fill(&mut outputs[0], $mean, $std, $layer.seed, context)
            }
        }
    )*};
}

fills! {
    Randn |layer| 0.0, 1.0;
    RandnLike |layer| 0.0, 1.0;
    Normal |layer| layer.mean, layer.std;
}

/// Registers the layers of this file.
pub(super) fn register(registry: &mut Registry<dyn CpuLayer>) -> Result<(), RegistryError> {
    registry.register::<Randn>()?;
    registry.register::<RandnLike>()?;
    registry.register::<Normal>()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layers::testing::operator;
    use crate::tensor::Tensor;

    /// Mean, deviation and the share within one deviation.
    fn facts(tensor: &Tensor, mean: f64, std: f64) -> [f64; 3] {
        let values = tensor.cast(DType::F64).unwrap().to_vec::<f64>().unwrap();
        let count = values.len() as f64;
        let found = values.iter().sum::<f64>() / count;
        let spread = (values.iter().map(|x| (x - found).powi(2)).sum::<f64>() / count).sqrt();
        let within = values.iter().filter(|&x| (x - mean).abs() < std).count() as f64;
        [found, spread, within / count]
    }

    fn is_normal(tensor: &Tensor, mean: f64, std: f64) -> bool {
        let [found, spread, within] = facts(tensor, mean, std);
        // Of 40,000 numbers; five deviations of each estimate.
        (found - mean).abs() < 0.025 * std
            && (spread / std - 1.0).abs() < 0.018
            && (within - 0.6827).abs() < 0.012
    }

    #[test]
    fn numbers_are_distributed_as_they_should() {
        let randn = operator("torch.randn", &[("size", "(200,200)")]);
        assert!(is_normal(&randn.run_one(&[]).unwrap(), 0.0, 1.0));
        let like = Tensor::zeros(DType::F64, &[200, 200]).unwrap();
        assert!(is_normal(&operator("torch.randn_like", &[]).run_one(&[&like]).unwrap(), 0.0, 1.0));
        let normal = operator("torch.normal", &[("mean", "3"), ("std", "0.5"), ("generator", "None")]);
        assert!(is_normal(&normal.run_one(&[&like]).unwrap(), 3.0, 0.5));
    }

    #[test]
    fn names_are_seeds() {
        let of = |name| {
            let (params, attrs) = (Default::default(), Default::default());
            let mut reader = OperatorReader::new(&params, &attrs, &[], 1).with_name(name);
            Seed::read(&mut reader, "seed").unwrap()
        };
        assert_eq!(of("a"), of("a"));
        assert_ne!(of("a"), of("b"));
    }

    #[test]
    fn what_cannot_be_random_is_an_error() {
        let integers = Tensor::zeros(DType::I64, &[2]).unwrap();
        assert!(operator("torch.randn_like", &[]).run(&[&integers]).is_err());
        assert!(operator("torch.normal", &[("std", "-1")]).create(1).is_err());
        assert!(operator("torch.randn", &[("size", "(-1)")]).run(&[]).is_err());
    }
}
