//! Random numbers. The operator's name is the seed: every run draws the same numbers, and two operators draw different ones.

pub mod discrete;
pub mod draws;
mod integers;

use crate::arithmetic::binary::{creator, first, required};
use crate::creation::filled::Size;
use crate::op::{
    CpuLayer, Creator, Field, FieldDefault, FieldValue, ForwardContext, FromOperator, Io, Layer, LayerError,
    NO_KEY, OperatorReader, Registry, RegistryError, Result, SEED_KEY, TensorMeta, exactly,
};
use crate::support::broadcast::{TensorOrScalar, broadcast, kind};
use crate::support::choices::MemoryFormat;
use ixion_tensor::{DType, Element, Layout, Tensor, TensorView, TensorViewMut};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use rand_distr::{Distribution, Normal as NormalDistribution, StandardNormal};
use std::ops::RangeInclusive;

/// The seed of an operator's random numbers. Not a key: no file sets it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Seed(u32);

impl Seed {
    /// A generator with this seed.
    fn rng(self) -> StdRng {
        StdRng::seed_from_u64(u64::from(self.0))
    }
}

impl FieldValue for Seed {
    const KIND: &'static str = NO_KEY;

    fn read(reader: &mut OperatorReader<'_>, _: &'static str) -> Result<Option<Self>> {
        Ok(Some(Self(crc32fast::hash(reader.name().as_bytes()))))
    }
}

crate::operator! {
    /// `torch.randn`: random numbers of the standard normal distribution.
    pub struct Randn for "torch.randn" {
        /// The shape.
        size: Size,
        /// The element type, a float; f32 by default.
        dtype: Option<DType> = None,
        /// The seed of the random numbers.
        seed: Seed,
    }
}

crate::operator! {
    /// `torch.randn_like`: random numbers of the standard normal distribution, in the shape of the input.
    pub struct RandnLike for "torch.randn_like" {
        /// The element type, a float; the input's by default.
        dtype: Option<DType> = None,
        /// Accepted for compatibility; without effect, because the memory layout cannot be observed.
        memory_format: Option<MemoryFormat> = None,
        /// The seed of the random numbers.
        seed: Seed,
    }
}

crate::operator! {
    /// `torch.Tensor.normal_`, which PNNX calls `torch.normal`: random numbers of a normal distribution, in the shape and
    /// element type of the input.
    pub struct Normal for "torch.normal" {
        /// The mean.
        mean: f64 = 0.0,
        /// The standard deviation; not negative.
        std: f64 = 1.0,
        /// Must be `None`: a file cannot store a generator.
        generator: Option<String> = None,
        /// The seed of the random numbers.
        seed: Seed,
    }
    validate |layer| {
        match (layer.std >= 0.0, &layer.generator) {
            (true, None) => Ok(()),
            (true, Some(generator)) => Err(invalid("generator", generator, "only None is supported")),
            (false, _) => Err(invalid("std", &layer.std, "it must not be negative")),
        }
    }
}

fn invalid(key: &'static str, found: &impl std::fmt::Debug, reason: &str) -> LayerError {
    LayerError::invalid(key, format!("{found:?}"), reason)
}

/// Checks that an output of random numbers has a float type.
fn random(meta: TensorMeta) -> Result<Vec<TensorMeta>> {
    let dtype = meta.dtype();
    if dtype.is_float() {
        return Ok(vec![meta]);
    }
    Err(LayerError::dtype("random numbers", "f32, f64, f16 and bf16", dtype))
}

/// The number of draws between two checks of the deadline.
const PATIENCE: usize = 1 << 16;

/// Draws a number for each element of the output, given the element's index.
fn draw_each<T: Element>(
    output: &mut TensorViewMut<'_>,
    context: &ForwardContext<'_>,
    mut draw: impl FnMut(usize) -> Result<T>,
) -> Result<()> {
    draw_by(output, context, &mut draw)
}

fn draw_by<T: Element>(
    output: &mut TensorViewMut<'_>,
    context: &ForwardContext<'_>,
    draw: &mut dyn FnMut(usize) -> Result<T>,
) -> Result<()> {
    check_held(output, context)?;
    let count = output.num_elements();
    let mut drawn = Vec::with_capacity(count);
    for start in (0..count).step_by(PATIENCE) {
        context.limits().check_deadline()?;
        for at in start..count.min(start + PATIENCE) {
            drawn.push(draw(at)?);
        }
    }
    write(drawn, output)
}

/// Fills the output with random numbers of a normal distribution.
fn fill_normal(seed: Seed, mean: f64, std: f64, io: &mut Io<'_, '_>) -> Result<()> {
    let wanted = || invalid("std", &std, "it is not a valid standard deviation");
    let distribution = NormalDistribution::new(mean, std).map_err(|_| wanted())?;
    let mut rng = seed.rng();
    draw_each(&mut io.outputs[0], &io.context, |_| Ok(distribution.sample(&mut rng)))
}

/// Fills the output with uniform random numbers in [0, 1) that its type represents exactly.
fn fill_uniform(seed: Seed, io: &mut Io<'_, '_>) -> Result<()> {
    let (mut rng, dtype) = (seed.rng(), io.outputs[0].dtype());
    draw_each(&mut io.outputs[0], &io.context, |_| Ok(fraction(&mut rng, dtype)))
}

impl Layer for Randn {
    fn num_inputs(&self) -> RangeInclusive<usize> {
        exactly(self.field_inputs())
    }

    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
        random(self.size.meta(inputs, self.dtype.unwrap_or(DType::F32))?)
    }
}

impl CpuLayer for Randn {
    fn forward(&mut self, io: &mut Io<'_, '_>) -> Result<()> {
        fill_normal(self.seed, 0.0, 1.0, io)
    }
}

impl Layer for RandnLike {
    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
        random(TensorMeta::new(self.dtype.unwrap_or(inputs[0].dtype()), inputs[0].dims().to_vec()))
    }
}

impl CpuLayer for RandnLike {
    fn forward(&mut self, io: &mut Io<'_, '_>) -> Result<()> {
        fill_normal(self.seed, 0.0, 1.0, io)
    }
}

impl Layer for Normal {
    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
        random(inputs[0].clone())
    }
}

impl CpuLayer for Normal {
    fn forward(&mut self, io: &mut Io<'_, '_>) -> Result<()> {
        fill_normal(self.seed, self.mean, self.std, io)
    }
}

crate::operator! {
    /// `torch.rand_like`: random numbers of the uniform distribution from 0 up to but excluding 1, in the shape of the input.
    pub struct RandLike for "aten::rand_like", "torch.rand_like" {
        /// The element type, a float; the input's by default.
        dtype: Option<DType> = None,
        /// Accepted for compatibility; without effect, because the memory layout cannot be observed.
        memory_format: Option<MemoryFormat> = None,
        /// The seed of the random numbers.
        seed: Seed,
    }
}

/// Writes numbers, rounded to the output's element type.
fn write<T: Element>(numbers: Vec<T>, output: &mut TensorViewMut<'_>) -> Result<()> {
    let layout = Layout::contiguous(*output.shape());
    Ok(output.cast_from(&TensorView::from_slice(&numbers, layout)?)?)
}

fn check_held(output: &TensorViewMut<'_>, context: &ForwardContext<'_>) -> Result<()> {
    let bytes = (output.num_elements() as u64).saturating_mul(8);
    Ok(context.limits().check_tensor("random numbers", bytes)?)
}

/// The number of significand bits of a float type: more could be rounded up to 1.
fn steps(dtype: DType) -> u32 {
    match dtype {
        DType::F64 => 53,
        DType::F16 => 11,
        DType::Bf16 => 8,
        _ => 24,
    }
}

/// A uniform random number in [0, 1) that the type represents exactly.
fn fraction(rng: &mut StdRng, dtype: DType) -> f64 {
    let steps = steps(dtype);
    (rng.random::<u64>() >> (64 - steps)) as f64 * (-f64::from(steps)).exp2()
}

impl Layer for RandLike {
    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
        random(inputs[0].with_dtype(self.dtype.unwrap_or(inputs[0].dtype())))
    }
}

impl CpuLayer for RandLike {
    fn forward(&mut self, io: &mut Io<'_, '_>) -> Result<()> {
        fill_uniform(self.seed, io)
    }
}

/// `aten::normal`: each number has its own mean and standard deviation.
#[derive(Debug, Clone, Copy)]
struct NormalOf {
    /// Mean and standard deviation.
    factors: [TensorOrScalar; 2],
    seed: Seed,
}

impl Layer for NormalOf {
    fn num_inputs(&self) -> RangeInclusive<usize> {
        exactly(self.factors.iter().map(TensorOrScalar::num_inputs).sum())
    }

    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
        let tensor = self.factors.iter().find_map(|factor| match factor {
            TensorOrScalar::Input(position) => Some(kind(&inputs[*position]).0),
            TensorOrScalar::Number(_) => None,
        });
        let [mean, std] = self.factors.map(|factor| factor.dims(inputs).to_vec());
        random(TensorMeta::new(tensor.unwrap_or(DType::F32), broadcast(&mean, &std)?))
    }
}

impl CpuLayer for NormalOf {
    fn forward(&mut self, io: &mut Io<'_, '_>) -> Result<()> {
        check_held(&io.outputs[0], &io.context)?;
        let shape = *io.outputs[0].shape();
        let [mean, std] = self.factors.map(|factor| -> Result<Tensor> {
            Ok(factor.converted(io.inputs, DType::F64)?.expanded(&shape)?.to_tensor()?)
        });
        let (mean, std) = (mean?.to_vec::<f64>()?, std?.to_vec::<f64>()?);
        if let Some(found) = std.iter().find(|std| **std < 0.0) {
            return Err(invalid("std", found, "it must not be negative"));
        }
        let mut rng = self.seed.rng();
        draw_each(&mut io.outputs[0], &io.context, |at| {
            let number: f64 = StandardNormal.sample(&mut rng);
            Ok(mean[at] + std[at] * number)
        })
    }
}

fn normal() -> Creator {
    let field = |key, kind, default, doc| Field { key, kind, default, doc, is_parameter: false };
    let fields = [
        field("input", "a number or an input", None, "The means."),
        field("std", "a number or an input", None, "The standard deviations, broadcast with the means."),
        field(
            "generator",
            "None",
            Some(FieldDefault::Text("None")),
            "Must be `None`: a file cannot store a generator.",
        ),
        field(SEED_KEY, NO_KEY, None, "The seed of the random numbers."),
    ];
    let create = |reader: &mut OperatorReader<'_>| -> Result<Box<dyn CpuLayer>> {
        let factors = [first(reader)?, required(reader, "std")?];
        if let Some(generator) = Option::<String>::read(reader, "generator")?.flatten() {
            return Err(invalid("generator", &generator, "only None is supported"));
        }
        Ok(Box::new(NormalOf { factors, seed: Seed::require(reader, SEED_KEY)? }))
    };
    creator("`torch.normal`: random numbers of normal distributions with the given means and standard deviations.".to_owned(), &fields, create)
}

operators! {
    Randn, RandnLike, Normal, RandLike; of discrete, draws; with add_normal;
    overload "aten::rand_like"(input, dtype, layout, device, pin_memory, memory_format)
}

fn add_normal(registry: &mut Registry) -> Result<(), RegistryError> {
    registry.add("aten::normal", normal())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::support::testing::{operator, tensor};

    /// Mean, standard deviation and the share of values within one deviation.
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
        // Tolerances of five standard deviations of each estimate, for 40,000 numbers.
        (found - mean).abs() < 0.025 * std
            && (spread / std - 1.0).abs() < 0.018
            && (within - 0.6827).abs() < 0.012
    }

    #[test]
    fn numbers_are_normally_distributed() {
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
