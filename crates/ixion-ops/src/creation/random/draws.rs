//! Random numbers of distributions other than the normal one, under TorchScript's names.

use super::integers::{Places, permutable, shuffled, within};
use super::{Seed, check_held, draw_each, fill_uniform, random, write};
use crate::creation::filled::{Leading, Size};
use crate::op::{CpuLayer, ForwardContext, FromOperator, Io, Layer, LayerError, Result, TensorMeta, exactly};
use crate::support::float;
use ixion_tensor::{DType, TensorView, TensorViewMut, bf16, f16};
use rand::Rng;
use rand::rngs::StdRng;
use rand_distr::{Cauchy, Distribution, Exp, LogNormal, Poisson};
use std::ops::{Range, RangeInclusive};

crate::operator! {
    /// `torch.rand`: random numbers of the uniform distribution from 0 up to but excluding 1.
    pub struct RandOf for "aten::rand" {
        /// The shape.
        size: Size,
        /// The element type, a float; f32 by default.
        dtype: Option<DType> = None,
        /// The seed of the random numbers.
        seed: Seed,
    }
}

crate::operator! {
    /// `torch.randint`: random integers, uniform from `low` up to but excluding `high`.
    pub struct Randint for "aten::randint" {
        /// The lower bound, inclusive.
        low: i64 = 0,
        /// The upper bound, exclusive.
        high: i64,
        /// The shape.
        size: Size,
        /// The element type; i64 by default.
        dtype: Option<DType> = None,
        /// The seed of the random numbers.
        seed: Seed,
    }
    validate |layer| { check_range(layer.low, layer.high) }
}

crate::operator! {
    /// `torch.randint_like`: random integers, uniform from `low` up to but excluding `high`, in the shape of the input.
    pub struct RandintLike for "aten::randint_like" {
        /// The lower bound, inclusive.
        low: i64 = 0,
        /// The upper bound, exclusive.
        high: i64,
        /// The element type; the input's by default.
        dtype: Option<DType> = None,
        /// The seed of the random numbers.
        seed: Seed,
    }
    validate |layer| { check_range(layer.low, layer.high) }
}

crate::operator! {
    /// `torch.randperm`: a random permutation of the integers from 0 to `n` - 1.
    pub struct Randperm for "aten::randperm" {
        /// The number of integers.
        n: Count,
        /// The element type; i64 by default.
        dtype: Option<DType> = None,
        /// The seed of the random numbers.
        seed: Seed,
    }
}

crate::operator! {
    /// `torch.bernoulli`: random numbers of the Bernoulli distribution: 1 with the given probability, otherwise 0.
    pub struct Bernoulli for "aten::bernoulli" {
        /// The probability of a 1; by default, each element of the input is its own probability.
        p: Option<f64> = None,
        /// The seed of the random numbers.
        seed: Seed,
    }
    validate |layer| {
        layer.p.map_or(Ok(()), |p| require("p", p, (0.0..=1.0).contains(&p), "a probability must be between 0 and 1"))
    }
}

crate::operator! {
    /// `torch.multinomial`: random indices into each row of weights, drawn with probabilities proportional to the weights.
    pub struct Multinomial for "aten::multinomial" {
        /// The number of samples to draw per row.
        num_samples: usize,
        /// Whether to draw with replacement.
        replacement: bool = false,
        /// The seed of the random numbers.
        seed: Seed,
    }
    validate |layer| {
        let reason = "it must be at least 1";
        require("num_samples", layer.num_samples, layer.num_samples > 0, reason)
    }
}

crate::operator! {
    /// `torch.Tensor.uniform_`: random numbers of the uniform distribution from `from` up to but excluding `to`.
    pub struct Uniform for "aten::uniform" {
        /// The lower bound, inclusive.
        from: f64 = 0.0,
        /// The upper bound, exclusive.
        to: f64 = 1.0,
        /// The seed of the random numbers.
        seed: Seed,
    }
    validate |layer| {
        let holds = layer.from <= layer.to && (layer.to - layer.from).is_finite();
        require("to", layer.to, holds, "it must be at least `from`, at a finite distance")
    }
}

crate::operator! {
    /// `torch.Tensor.exponential_`: random numbers of the exponential distribution.
    pub struct Exponential for "aten::exponential" {
        /// The rate, which is the reciprocal of the mean; greater than 0.
        lambd: f64 = 1.0,
        /// The seed of the random numbers.
        seed: Seed,
    }
    validate |layer| { require("lambd", layer.lambd, layer.lambd > 0.0 && layer.lambd.is_finite(), "it must be positive and finite") }
}

crate::operator! {
    /// `torch.Tensor.cauchy_`: random numbers of the Cauchy distribution.
    pub struct CauchyOf for "aten::cauchy" {
        /// The median.
        median: f64 = 0.0,
        /// The scale, which is half the interquartile range; greater than 0.
        sigma: f64 = 1.0,
        /// The seed of the random numbers.
        seed: Seed,
    }
    validate |layer| { require("sigma", layer.sigma, layer.sigma > 0.0 && layer.sigma.is_finite(), "it must be positive and finite") }
}

crate::operator! {
    /// `torch.Tensor.log_normal_`: random numbers of the log-normal distribution: their logarithm is normally distributed.
    pub struct LogNormalOf for "aten::log_normal" {
        /// The mean of the logarithm.
        mean: f64 = 1.0,
        /// The standard deviation of the logarithm; greater than 0.
        std: f64 = 2.0,
        /// The seed of the random numbers.
        seed: Seed,
    }
    validate |layer| { require("std", layer.std, layer.std > 0.0 && layer.std.is_finite(), "it must be positive and finite") }
}

crate::operator! {
    /// `torch.Tensor.geometric_`: random numbers of the geometric distribution: the number of trials up to the first success.
    pub struct GeometricOf for "aten::geometric" {
        /// The probability that a trial succeeds; greater than 0 and less than 1.
        p: f64,
        /// The seed of the random numbers.
        seed: Seed,
    }
    validate |layer| { require("p", layer.p, layer.p > 0.0 && layer.p < 1.0, "it must be greater than 0 and less than 1") }
}

crate::operator! {
    /// `torch.poisson`: random numbers of the Poisson distribution; each element of the input is the mean of one number.
    pub struct PoissonOf for "aten::poisson" {
        /// The seed of the random numbers.
        seed: Seed,
    }
}

crate::operator! {
    /// `torch.rrelu`, the randomised leaky rectifier: x if it is not negative, otherwise x times a slope, which is random in
    /// training.
    pub struct RReLUOf for "aten::rrelu" {
        /// The smallest slope.
        lower: f64 = 0.125,
        /// The largest slope.
        upper: f64 = 0.3333333333333333,
        /// Whether slopes are drawn uniformly between the two; otherwise they are their mean.
        training: bool = false,
        /// The seed of the random numbers.
        seed: Seed,
    }
    validate |layer| {
        let holds = layer.lower <= layer.upper && (layer.upper - layer.lower).is_finite();
        require("upper", layer.upper, holds, "it must be at least `lower`, at a finite distance")
    }
}

/// A number, which may be the first input.
pub type Count = Leading<i64>;

fn require(key: &'static str, found: impl std::fmt::Display, holds: bool, reason: &str) -> Result<()> {
    if holds { Ok(()) } else { Err(LayerError::invalid(key, found, reason)) }
}

fn check_range(low: i64, high: i64) -> Result<()> {
    require("high", high, low < high, "it must be greater than `low`")
}

/// Fills an output with the results of `draw` for each element of the input, or for 0 if there is no input.
fn fill(
    seed: Seed,
    input: Option<&TensorView<'_>>,
    output: &mut TensorViewMut<'_>,
    context: &ForwardContext<'_>,
    mut draw: impl FnMut(&mut StdRng, f64) -> Result<f64>,
) -> Result<()> {
    fill_by(seed, input, output, context, &mut draw)
}

fn fill_by(
    seed: Seed,
    input: Option<&TensorView<'_>>,
    output: &mut TensorViewMut<'_>,
    context: &ForwardContext<'_>,
    draw: &mut dyn FnMut(&mut StdRng, f64) -> Result<f64>,
) -> Result<()> {
    check_held(output, context)?;
    let mut rng = seed.rng();
    let numbers = match input {
        Some(input) => input.to_tensor()?.cast(DType::F64)?.to_vec::<f64>()?,
        None => Vec::new(),
    };
    draw_each(output, context, |at| draw(&mut rng, numbers.get(at).copied().unwrap_or(0.0)))
}

/// The largest number of a type that is less than `bound`.
fn below(bound: f64, dtype: DType) -> f64 {
    // The bits of floats of one sign are ordered like the floats.
    let down = |bits: u16| match bits {
        0 | 0x8000 => 0x8001,
        positive if positive < 0x8000 => positive - 1,
        negative => negative + 1,
    };
    let (nearest, next): (f64, f64) = match dtype {
        DType::F64 => (bound, bound.next_down()),
        DType::F16 => {
            let near = f16::from_f64(bound);
            (near.into(), f16::from_bits(down(near.to_bits())).into())
        }
        DType::Bf16 => {
            let near = bf16::from_f64(bound);
            (near.into(), bf16::from_bits(down(near.to_bits())).into())
        }
        _ => (f64::from(bound as f32), f64::from((bound as f32).next_down())),
    };
    if nearest < bound { nearest } else { next }
}

/// The largest finite number of a type.
fn largest(dtype: DType) -> f64 {
    match dtype {
        DType::F64 => f64::MAX,
        DType::F16 => f16::MAX.into(),
        DType::Bf16 => bf16::MAX.into(),
        _ => f64::from(f32::MAX),
    }
}

/// The error for an invalid parameter of a distribution.
fn no(key: &'static str, found: f64) -> impl Fn() -> LayerError {
    move || LayerError::invalid(key, found, "no such distribution exists")
}

impl Layer for RandOf {
    fn num_inputs(&self) -> RangeInclusive<usize> {
        exactly(self.field_inputs())
    }

    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
        random(self.size.meta(inputs, self.dtype.unwrap_or(DType::F32))?)
    }
}

impl CpuLayer for RandOf {
    fn forward(&mut self, io: &mut Io<'_, '_>) -> Result<()> {
        fill_uniform(self.seed, io)
    }
}

impl Layer for Randint {
    fn num_inputs(&self) -> RangeInclusive<usize> {
        exactly(self.field_inputs())
    }

    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
        within(self.size.meta(inputs, self.dtype.unwrap_or(DType::I64))?, self.low, self.high)
    }
}

impl CpuLayer for Randint {
    fn forward(&mut self, io: &mut Io<'_, '_>) -> Result<()> {
        fill_integers(self.seed, self.low..self.high, io)
    }
}

impl Layer for RandintLike {
    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
        within(inputs[0].with_dtype(self.dtype.unwrap_or(inputs[0].dtype())), self.low, self.high)
    }
}

impl CpuLayer for RandintLike {
    fn forward(&mut self, io: &mut Io<'_, '_>) -> Result<()> {
        fill_integers(self.seed, self.low..self.high, io)
    }
}

fn fill_integers(seed: Seed, range: Range<i64>, io: &mut Io<'_, '_>) -> Result<()> {
    let mut rng = seed.rng();
    draw_each(&mut io.outputs[0], &io.context, |_| Ok(rng.random_range(range.clone())))
}

impl Layer for Randperm {
    fn num_inputs(&self) -> RangeInclusive<usize> {
        exactly(self.field_inputs())
    }

    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
        let n = self.n.0.dim(inputs)?;
        if n.fixed().is_some_and(|n| n < 0) {
            return Err(LayerError::invalid("n", n, "it must not be negative"));
        }
        let most = n.fixed().unwrap_or(0);
        permutable(TensorMeta::new(self.dtype.unwrap_or(DType::I64), [n]), most)
    }
}

impl Layer for Multinomial {
    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
        float::check("the weights", &inputs[0])?;
        let (1..=2, Some((places, rows))) = (inputs[0].rank(), inputs[0].dims().split_last()) else {
            return Err(LayerError::shape("the weights", "one or two axes", &inputs[0]));
        };
        let few =
            places.fixed().is_some_and(|places| usize::try_from(places).is_ok_and(|n| n < self.num_samples));
        if few && !self.replacement || *places == 0usize {
            let wanted = format!("at least {} weights per row", self.num_samples);
            return Err(LayerError::shape("the weights", wanted, &inputs[0]));
        }
        let dims = rows.iter().cloned().chain([self.num_samples.into()]);
        Ok(vec![TensorMeta::new(DType::I64, dims.collect::<Vec<_>>())])
    }
}

impl Layer for Uniform {
    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
        let output = random(inputs[0].with_dims(inputs[0].dims().to_vec()))?;
        let most = largest(inputs[0].dtype());
        let reason = format!("the largest finite {} is {most}", inputs[0].dtype());
        require("to", self.to, self.from.abs().max(self.to.abs()) <= most, &reason)?;
        Ok(output)
    }
}

impl CpuLayer for Uniform {
    fn forward(&mut self, io: &mut Io<'_, '_>) -> Result<()> {
        // Rounded to the element type, a number just below `to` could become `to`.
        let most = below(self.to, io.outputs[0].dtype()).max(self.from);
        fill(self.seed, None, &mut io.outputs[0], &io.context, |rng, _| {
            Ok((self.from + rng.random::<f64>() * (self.to - self.from)).min(most))
        })
    }
}

/// Layers whose output is like the input. Each element is drawn independently, given the input's element if the flag is true.
macro_rules! draws {
    ($($name:ident |$layer:ident| $input:expr, $draw:expr;)*) => {$(
        impl Layer for $name {
            fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
                random(inputs[0].with_dims(inputs[0].dims().to_vec()))
            }
        }

        impl CpuLayer for $name {
            fn forward(&mut self, io: &mut Io<'_, '_>) -> Result<()> {
                let $layer = &*self;
                let input: Option<&TensorView<'_>> = if $input { io.inputs.first() } else { None };
                fill($layer.seed, input, &mut io.outputs[0], &io.context, $draw)
            }
        }
    )*};
}

draws! {
    Bernoulli |layer| true, |rng, x| {
        let p = layer.p.unwrap_or(x);
        require("p", p, (0.0..=1.0).contains(&p), "a probability must be between 0 and 1")?;
        Ok(f64::from(u8::from(rng.random::<f64>() < p)))
    };
    Exponential |layer| false, {
        let distribution = Exp::new(layer.lambd).map_err(|_| no("lambd", layer.lambd)())?;
        move |rng, _| Ok(distribution.sample(rng))
    };
    CauchyOf |layer| false, {
        let distribution = Cauchy::new(layer.median, layer.sigma).map_err(|_| no("sigma", layer.sigma)())?;
        move |rng, _| Ok(distribution.sample(rng))
    };
    LogNormalOf |layer| false, {
        let distribution = LogNormal::new(layer.mean, layer.std).map_err(|_| no("std", layer.std)())?;
        move |rng, _| Ok(distribution.sample(rng))
    };
    GeometricOf |layer| false, {
        let failures = (-layer.p).ln_1p();
        move |rng, _| Ok(((1.0 - rng.random::<f64>()).ln() / failures).ceil().max(1.0))
    };
    PoissonOf |layer| true, |rng, mean| match Poisson::new(mean) {
        _ if mean == 0.0 => Ok(0.0),
        Ok(distribution) => Ok(distribution.sample(rng)),
        Err(_) => Err(LayerError::shape("a mean", "a non-negative number that is not too large", mean)),
    };
    RReLUOf |layer| true, |rng, x| {
        let part = if layer.training { rng.random::<f64>() } else { 0.5 };
        let slope = layer.lower + part * (layer.upper - layer.lower);
        Ok(if x < 0.0 { x * slope } else { x })
    };
}

impl CpuLayer for Randperm {
    fn forward(&mut self, io: &mut Io<'_, '_>) -> Result<()> {
        check_held(&io.outputs[0], &io.context)?;
        let count = io.outputs[0].num_elements();
        permutable(TensorMeta::new(io.outputs[0].dtype(), [count]), count as i64)?;
        write(shuffled(count, &mut self.seed.rng(), io.context.limits())?, &mut io.outputs[0])
    }
}

impl CpuLayer for Multinomial {
    fn forward(&mut self, io: &mut Io<'_, '_>) -> Result<()> {
        check_held(&io.outputs[0], &io.context)?;
        let places = io.inputs[0].shape().last().copied().unwrap_or(0);
        let weights = io.inputs[0].to_tensor()?.cast(DType::F64)?.to_vec::<f64>()?;
        let (mut rng, mut drawn) = (self.seed.rng(), Vec::with_capacity(io.outputs[0].num_elements()));
        for row in weights.chunks_exact(places.max(1)) {
            let places = Places::new(row)?;
            if self.replacement {
                places.draw(self.num_samples, &mut rng, io.context.limits(), &mut drawn)?;
            } else {
                places.draw_once(self.num_samples, &mut rng, io.context.limits(), &mut drawn)?;
            }
        }
        write(drawn, &mut io.outputs[0])
    }
}

operators! {
    RandOf, Randint, RandintLike, Randperm, Bernoulli, Multinomial, Uniform, Exponential, CauchyOf, LogNormalOf,
    GeometricOf, PoissonOf, RReLUOf;
    overload "aten::rand"(size, dtype, layout, device, pin_memory),
        "aten::randint"(high, size, dtype, layout, device, pin_memory) of 6,
        "aten::randint"(low, high, size, dtype, layout, device, pin_memory),
        "aten::randperm"(n, dtype, layout, device, pin_memory),
        "aten::randint_like"(input, high, dtype, layout, device, pin_memory, memory_format) of 7,
        "aten::randint_like"(input, low, high, dtype, layout, device, pin_memory, memory_format),
        "aten::poisson"(input, generator),
        "aten::bernoulli"(input, generator) of 2
}

#[cfg(test)]
mod tests;
