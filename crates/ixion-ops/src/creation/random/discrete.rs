//! Random integers in the shape of their input: random_, binomial.

use super::{Seed, check_held, draw_each, random};
use crate::op::{CpuLayer, FromOperator, Io, Layer, LayerError, Result, TensorMeta, exactly};
use crate::support::arguments::InputIndex;
use crate::support::broadcast::{Converted, broadcast, integer_range};
use ixion_tensor::{DType, Shape, TensorView};
use rand::Rng;
use rand::rngs::StdRng;
use rand_distr::{Binomial, Distribution};
use std::ops::RangeInclusive;

crate::operator! {
    /// `torch.Tensor.random_`: random integers, uniform from `from` up to but excluding `to`, in the shape and element type of the
    /// input.
    pub struct RandomOf for "aten::random" {
        /// The lower bound, inclusive.
        from: i64 = 0,
        /// The upper bound, exclusive. By default, the largest integer of the element type is the last one; for floats, the
        /// largest up to which all integers are exact.
        to: Option<i64> = None,
        /// The seed of the random numbers.
        seed: Seed,
    }
    validate |layer| {
        match layer.to {
            Some(to) if to <= layer.from => {
                Err(LayerError::invalid("to", to, "it must be greater than `from`"))
            }
            _ => Ok(()),
        }
    }
}

crate::operator! {
    /// `torch.binomial`: random numbers of binomial distributions. Each element of the input is a number of trials, and the result
    /// is how many of them succeed.
    pub struct BinomialOf for "aten::binomial" {
        /// The probabilities that a trial succeeds, of the input's element type; they are broadcast.
        prob: InputIndex,
        /// The seed of the random numbers.
        seed: Seed,
    }
}

impl RandomOf {
    /// The largest number that is drawn for an element type.
    fn last(&self, dtype: DType) -> i64 {
        match (self.to, dtype) {
            (Some(to), _) => to.saturating_sub(1),
            (None, DType::F64) => 1 << 53,
            (None, DType::F32) => 1 << 24,
            (None, DType::F16) => 1 << 11,
            (None, DType::Bf16) => 1 << 8,
            (None, DType::Bool) => 1,
            (None, dtype) => {
                let most = integer_range(dtype).map_or(i64::MAX.into(), |(_, most)| most);
                i64::try_from(most).unwrap_or(i64::MAX)
            }
        }
    }

    /// Checks that an element type holds the numbers.
    fn check(&self, dtype: DType) -> Result<()> {
        let (least, most) = match dtype {
            DType::Bool => (0, 1),
            DType::F16 => (-65_504, 65_504),
            dtype if dtype.is_complex() => {
                return Err(LayerError::dtype("random integers", "integers, floats and bool", dtype));
            }
            dtype => integer_range(dtype).unwrap_or((i64::MIN.into(), i64::MAX.into())),
        };
        let (from, last) = (i128::from(self.from), i128::from(self.last(dtype)));
        for (key, found, number) in [("from", from, from), ("to", last + 1, last)] {
            if !(least..=most).contains(&number) {
                return Err(LayerError::invalid(key, found, format!("{dtype} holds {least} to {most}")));
            }
        }
        if from <= last {
            return Ok(());
        }
        let reason = format!("without `to`, numbers up to {last} are drawn for {dtype}");
        Err(LayerError::invalid("from", from, reason))
    }
}

impl Layer for RandomOf {
    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
        self.check(inputs[0].dtype())?;
        Ok(vec![inputs[0].with_dims(inputs[0].dims().to_vec())])
    }
}

impl CpuLayer for RandomOf {
    fn forward(&mut self, io: &mut Io<'_, '_>) -> Result<()> {
        let range = self.from..=self.last(io.outputs[0].dtype());
        let mut rng = self.seed.rng();
        draw_each(&mut io.outputs[0], &io.context, |_| Ok(rng.random_range(range.clone())))
    }
}

/// The largest number of trials: up to it, all integers are exact.
const MOST: f64 = (1u64 << 53) as f64;

/// How many of `count` trials succeed; NaN if one of the numbers is.
fn successes(count: f64, prob: f64, rng: &mut StdRng) -> Result<f64> {
    if count.is_nan() || prob.is_nan() {
        return Ok(f64::NAN);
    }
    if count > MOST {
        return Err(LayerError::shape("the numbers of trials", format!("at most {MOST}"), count));
    }
    if count <= 0.0 || prob <= 0.0 {
        return Ok(0.0);
    }
    if prob >= 1.0 {
        return Ok(count);
    }
    let wrong = |_| LayerError::shape("the probabilities", "numbers from 0 to 1", prob);
    let distribution = Binomial::new(count as u64, prob).map_err(wrong)?;
    Ok(distribution.sample(rng) as f64)
}

/// The elements of an input, broadcast to a shape.
fn numbers(input: &TensorView<'_>, shape: &Shape) -> Result<Vec<f64>> {
    Ok(Converted::of(input, DType::F64)?.expanded(shape)?.to_vec::<f64>()?)
}

impl Layer for BinomialOf {
    fn num_inputs(&self) -> RangeInclusive<usize> {
        exactly(1 + self.field_inputs())
    }

    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
        let (count, prob) = (&inputs[0], &inputs[self.prob.0]);
        if prob.dtype() != count.dtype() {
            return Err(LayerError::dtype("the probabilities", count.dtype(), prob.dtype()));
        }
        random(count.with_dims(broadcast(count.dims(), prob.dims())?))
    }
}

impl CpuLayer for BinomialOf {
    fn forward(&mut self, io: &mut Io<'_, '_>) -> Result<()> {
        check_held(&io.outputs[0], &io.context)?;
        let shape = *io.outputs[0].shape();
        let counts = numbers(&io.inputs[0], &shape)?;
        let probs = numbers(&io.inputs[self.prob.0], &shape)?;
        let mut rng = self.seed.rng();
        draw_each(&mut io.outputs[0], &io.context, |at| successes(counts[at], probs[at], &mut rng))
    }
}

operators! {
    RandomOf, BinomialOf;
    overload "aten::random"(input, generator) of 2,
        "aten::random"(input, to, generator) of 3,
        "aten::random"(input, from, to, generator),
        "aten::binomial"(input, prob, generator)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::support::testing::{operator, tensor};
    use ixion_tensor::Tensor;

    fn drawn(dtype: DType, params: &[(&str, &str)]) -> Result<Vec<f64>> {
        let like = Tensor::zeros(dtype, &[50, 50])?;
        let found = operator("aten::random", params).run_one(&[&like])?;
        assert_eq!(found.dtype(), dtype);
        Ok(found.cast(DType::F64)?.to_vec()?)
    }

    #[test]
    fn integers_lie_between_the_bounds() {
        for dtype in [DType::F32, DType::F16, DType::I64, DType::I8] {
            let found = drawn(dtype, &[("from", "-2"), ("to", "3")]).unwrap();
            for wanted in -2..3 {
                assert!(found.contains(&f64::from(wanted)), "{dtype}: {wanted}");
            }
            assert!(found.iter().all(|x| (-2.0..3.0).contains(x) && x.fract() == 0.0), "{dtype}");
        }
        let largest = [(DType::U8, 255.0), (DType::I8, 127.0), (DType::Bool, 1.0), (DType::Bf16, 256.0)];
        for (dtype, most) in largest {
            let found = drawn(dtype, &[("to", "None")]).unwrap();
            assert!(found.iter().all(|x| (0.0..=most).contains(x)), "{dtype}");
            assert!(found.iter().any(|x| *x > most / 2.0), "{dtype}");
        }
    }

    #[test]
    fn bounds_must_fit_the_type() {
        let message = |dtype, from, to| drawn(dtype, &[("from", from), ("to", to)]).unwrap_err().to_string();
        assert_eq!(message(DType::F32, "3", "3"), "parameter `to` is 3: it must be greater than `from`");
        assert_eq!(message(DType::U8, "-3", "4"), "parameter `from` is -3: u8 holds 0 to 255");
        assert_eq!(message(DType::Bool, "0", "3"), "parameter `to` is 3: bool holds 0 to 1");
        assert!(message(DType::F16, "0", "70000").starts_with("parameter `to` is 70000"));
        assert!(message(DType::Bf16, "300", "None").contains("numbers up to 256"));
        assert!(message(DType::C64, "0", "3").contains("random integers"));
        operator("aten::random", &[]).survives(1);
    }

    fn binomial(count: &Tensor, prob: &Tensor) -> Result<Vec<f32>> {
        let layer = operator("aten::binomial", &[]).with_names(&["input", "prob"]);
        Ok(layer.run_one(&[count, prob])?.to_vec()?)
    }

    #[test]
    fn successes_of_trials() {
        let counts = tensor(&[5], &[-1f32, 3.0, 3.0, 2.5, f32::NAN]);
        let found = binomial(&counts, &tensor(&[5], &[0.5f32, -1.0, 2.0, 1.0, 0.5])).unwrap();
        assert_eq!(found[..4], [0.0, 0.0, 3.0, 2.5]);
        assert!(found[4].is_nan());
        let many = Tensor::ones(DType::F32, &[4000, 1]).unwrap().map(|x: f32| x * 20.0).unwrap();
        let found = binomial(&many, &tensor(&[2], &[0.25f32, 0.25])).unwrap();
        assert!(found.len() == 8000 && found.iter().all(|x| (0.0..=20.0).contains(x) && x.fract() == 0.0));
        // Five standard deviations of the mean.
        let mean = found.iter().sum::<f32>() / 8000.0;
        assert!((mean - 5.0).abs() < 0.11, "{mean}");
    }

    #[test]
    fn what_has_no_distribution_is_an_error() {
        let (one, wide) = (tensor(&[1], &[1f32]), tensor(&[1], &[1f64]));
        assert!(binomial(&one, &wide).is_err());
        assert!(binomial(&tensor(&[1], &[f32::INFINITY]), &tensor(&[1], &[0.5f32])).is_err());
        assert!(binomial(&tensor(&[1], &[1i64]), &tensor(&[1], &[1i64])).is_err());
        operator("aten::binomial", &[]).survives(2);
    }
}
