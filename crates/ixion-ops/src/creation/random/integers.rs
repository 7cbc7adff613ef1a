//! Random integers, permutations and indices.

use super::PATIENCE;
use crate::op::{LayerError, Result, TensorMeta};
use ixion_tensor::{DType, LimitError, Limits};
use rand::Rng;
use rand::rngs::StdRng;

/// The smallest and the largest integer of a type; wider types hold every integer of a file.
fn range(dtype: DType) -> Option<[i64; 2]> {
    Some(match dtype {
        DType::Bool => [0, 1],
        DType::U8 => [0, u8::MAX.into()],
        DType::I8 => [i8::MIN.into(), i8::MAX.into()],
        DType::I16 => [i16::MIN.into(), i16::MAX.into()],
        DType::I32 => [i32::MIN.into(), i32::MAX.into()],
        DType::F16 => [-65_504, 65_504],
        DType::I64 | DType::F32 | DType::F64 | DType::Bf16 => [i64::MIN, i64::MAX],
        _ => return None,
    })
}

/// Checks that the output's type holds the integers in `low..high`.
pub(super) fn within(meta: TensorMeta, low: i64, high: i64) -> Result<Vec<TensorMeta>> {
    let dtype = meta.dtype();
    let Some([min, max]) = range(dtype) else {
        return Err(LayerError::dtype("random integers", "integers, floats and bool", dtype));
    };
    for (key, found, number) in [("low", low, low), ("high", high, high.saturating_sub(1))] {
        if !(min..=max).contains(&number) {
            let reason = format!("{dtype} holds {min} to {max}");
            return Err(LayerError::invalid(key, found, reason));
        }
    }
    Ok(vec![meta])
}

/// Checks that the output's type holds each of the integers in `0..count` exactly.
pub(super) fn permutable(meta: TensorMeta, count: i64) -> Result<Vec<TensorMeta>> {
    let dtype = meta.dtype();
    let max = match dtype {
        DType::F64 => 1 << 53,
        DType::F32 => 1 << 24,
        DType::F16 => 1 << 11,
        DType::Bf16 => 1 << 8,
        DType::Bool => return Err(LayerError::dtype("a permutation", "integers and floats", dtype)),
        _ => range(dtype).map_or(i64::MAX, |[_, max]| max),
    };
    if count.saturating_sub(1) > max {
        let reason = format!("{dtype} holds integers exactly only up to {max}");
        return Err(LayerError::invalid("n", count, reason));
    }
    within(meta, 0, 1)
}

/// A uniformly random permutation of `0..count`.
///
/// # Errors
/// [`LimitError::DeadlineExceeded`] if the deadline has passed.
pub(super) fn shuffled(count: usize, rng: &mut StdRng, limits: &Limits) -> Result<Vec<i64>, LimitError> {
    let mut numbers: Vec<i64> = (0..count).map(|number| number as i64).collect();
    for last in (1..count).rev() {
        if last % PATIENCE == 0 {
            limits.check_deadline()?;
        }
        numbers.swap(last, rng.random_range(0..=last));
    }
    Ok(numbers)
}

/// Indices that are drawn with probabilities proportional to weights.
pub(super) struct Places<'a> {
    weights: &'a [f64],
}

impl<'a> Places<'a> {
    /// Creates the distribution of the given weights.
    ///
    /// # Errors
    /// [`LayerError::Shape`] for a weight that is negative or not finite.
    pub(super) fn new(weights: &'a [f64]) -> Result<Self> {
        match weights.iter().find(|weight| !(**weight >= 0.0 && weight.is_finite())) {
            None => Ok(Self { weights }),
            Some(found) => Err(LayerError::shape("the weights", "finite numbers of at least 0", found)),
        }
    }

    /// Draws indices with replacement, by a binary search of the cumulative weights.
    pub(super) fn draw(
        &self,
        count: usize,
        rng: &mut StdRng,
        limits: &Limits,
        drawn: &mut Vec<i64>,
    ) -> Result<()> {
        let mut total = 0.0;
        let sum = |weight: &f64| {
            total += weight;
            total
        };
        let sums: Vec<f64> = self.weights.iter().map(sum).collect();
        let last = self.weights.iter().rposition(|weight| *weight > 0.0).ok_or_else(too_few)?;
        if !total.is_finite() {
            return Err(LayerError::shape("the sum of the weights", "a finite number", total));
        }
        for at in 0..count {
            if at % PATIENCE == 0 {
                limits.check_deadline()?;
            }
            let wanted = rng.random::<f64>() * total;
            // The product may be rounded up to the total.
            drawn.push(sums.partition_point(|sum| *sum <= wanted).min(last) as i64);
        }
        Ok(())
    }

    /// Draws indices without replacement: the first of random arrivals at rates proportional to the weights (Efraimidis and
    /// Spirakis 2006).
    pub(super) fn draw_once(
        &self,
        count: usize,
        rng: &mut StdRng,
        limits: &Limits,
        drawn: &mut Vec<i64>,
    ) -> Result<()> {
        let mut arrivals = Vec::new();
        for (place, weight) in self.weights.iter().enumerate() {
            if place % PATIENCE == 0 {
                limits.check_deadline()?;
            }
            if *weight > 0.0 {
                arrivals.push((-(1.0 - rng.random::<f64>()).ln() / weight, place as i64));
            }
        }
        let first = arrivals.len().min(count);
        if first < count {
            return Err(too_few());
        }
        let in_time = |a: &(f64, i64), b: &(f64, i64)| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1));
        if let Some(last) = first.checked_sub(1) {
            arrivals.select_nth_unstable_by(last, in_time);
        }
        arrivals.truncate(first);
        arrivals.sort_unstable_by(in_time);
        drawn.extend(arrivals.into_iter().map(|(_, place)| place));
        Ok(())
    }
}

fn too_few() -> LayerError {
    LayerError::shape("the weights", "at least as many positive weights as samples", "fewer")
}
