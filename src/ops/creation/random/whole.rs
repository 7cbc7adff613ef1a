//! Whole numbers, permutations and places at random.

use super::PATIENCE;
use crate::op::{LayerError, TensorMeta};
use crate::tensor::DType;
use crate::{LimitError, Limits};
use rand::Rng;
use rand::rngs::StdRng;

/// The least and the largest whole number of a type; wider types hold what a file can say.
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

/// An output of whole numbers from `low` up to and without `high`, which its type must hold.
pub(super) fn within(meta: TensorMeta, low: i64, high: i64) -> Result<Vec<TensorMeta>, LayerError> {
    let dtype = meta.dtype();
    let Some([least, most]) = range(dtype) else {
        return Err(LayerError::dtype("random whole numbers", "integers, floats and bool", dtype));
    };
    for (key, found, number) in [("low", low, low), ("high", high, high.saturating_sub(1))] {
        if !(least..=most).contains(&number) {
            let reason = format!("the numbers of {dtype} lie from {least} to {most}");
            return Err(LayerError::invalid(key, found, reason));
        }
    }
    Ok(vec![meta])
}

/// A permutation of so many numbers, each of which its type must hold exactly.
pub(super) fn permutable(meta: TensorMeta, count: i64) -> Result<Vec<TensorMeta>, LayerError> {
    let dtype = meta.dtype();
    let most = match dtype {
        DType::F64 => 1 << 53,
        DType::F32 => 1 << 24,
        DType::F16 => 1 << 11,
        DType::Bf16 => 1 << 8,
        DType::Bool => return Err(LayerError::dtype("a permutation", "integers and floats", dtype)),
        _ => range(dtype).map_or(i64::MAX, |[_, most]| most),
    };
    if count.saturating_sub(1) > most {
        let reason = format!("{dtype} holds whole numbers up to {most}");
        return Err(LayerError::invalid("n", count, reason));
    }
    within(meta, 0, 1)
}

/// The numbers from 0 up to and without another one, each order as likely.
///
/// # Errors
/// [`LimitError::DeadlineExceeded`].
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

/// Places that are drawn with probabilities in proportion to weights.
pub(super) struct Places<'a> {
    weights: &'a [f64],
}

impl<'a> Places<'a> {
    /// Places of these weights.
    ///
    /// # Errors
    /// [`LayerError::Shape`] for a weight that is negative or not finite.
    pub(super) fn new(weights: &'a [f64]) -> Result<Self, LayerError> {
        match weights.iter().find(|weight| !(**weight >= 0.0 && weight.is_finite())) {
            None => Ok(Self { weights }),
            Some(found) => Err(LayerError::shape("the weights", "finite numbers of at least 0", found)),
        }
    }

    /// Draws places, each from all: the sums of the first weights are looked through by halves.
    pub(super) fn draw(
        &self,
        count: usize,
        rng: &mut StdRng,
        limits: &Limits,
        drawn: &mut Vec<i64>,
    ) -> Result<(), LayerError> {
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

    /// Draws places, none twice. Of arrivals at rates in proportion to the weights, the first ones (Efraimidis and
    /// Spirakis 2006).
    pub(super) fn draw_once(
        &self,
        count: usize,
        rng: &mut StdRng,
        limits: &Limits,
        drawn: &mut Vec<i64>,
    ) -> Result<(), LayerError> {
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
    LayerError::shape("the weights", "as many above 0 as places are drawn", "fewer")
}
