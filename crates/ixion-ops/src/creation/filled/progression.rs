//! Evenly spaced numbers, which are written to a tensor block by block.

use crate::op::Result;
use ixion_kernels::widest;
use ixion_tensor::{Element, Layout, Shape, TensorError, TensorView, TensorViewMut};

/// The number of elements that are computed at a time, in the first-level cache.
const BLOCK: usize = 2048;

/// Evenly spaced numbers.
#[derive(Debug, Clone, Copy)]
pub(super) struct Progression {
    /// The number of numbers.
    pub(super) count: usize,
    steps: Steps,
}

/// The first number and the difference of adjacent ones.
#[derive(Debug, Clone, Copy)]
enum Steps {
    Integers([i64; 2]),
    Floats([f64; 2]),
}

impl Progression {
    /// `count` integers from `start` on, which wrap around.
    pub(super) fn of_integers([start, step]: [i64; 2], count: usize) -> Self {
        Self { count, steps: Steps::Integers([start, step]) }
    }

    /// The numbers `start`, `start + step`, … before `end`.
    ///
    /// # Errors
    /// [`TensorError::InvalidArgument`] if an argument is not finite, `step` is 0 or leads away from `end`, or there are too many
    /// numbers.
    pub(super) fn of_floats([start, end, step]: [f64; 3]) -> Result<Self> {
        let count = ((end - start) / step).ceil();
        let are_finite = start.is_finite() && end.is_finite() && step.is_finite();
        if !are_finite || step == 0.0 || !(0.0..9e15).contains(&count) {
            return Err(TensorError::InvalidArgument(format!(
                "arange: expected finite numbers and a nonzero step towards `end`, got {start} to {end} in steps of {step}"
            ))
            .into());
        }
        Ok(Self { count: count as usize, steps: Steps::Floats([start, step]) })
    }

    /// Writes the numbers to a vector of this length, converted to its element type. Narrow integers keep the lowest bits.
    pub(super) fn write(self, output: &mut TensorViewMut<'_>) -> Result<()> {
        if output.shape().dims() != [self.count] {
            let (wanted, found) = (output.shape().to_vec(), vec![self.count]);
            return Err(TensorError::ShapeMismatch { operation: "arange", wanted, found }.into());
        }
        match self.steps {
            Steps::Integers([start, step]) => write_blocks(output, &|at, block: &mut [i64]| {
                let mut next = start.wrapping_add((at as i64).wrapping_mul(step));
                for number in block {
                    *number = next;
                    next = next.wrapping_add(step);
                }
            }),
            Steps::Floats([start, step]) => write_blocks(output, &|at, block: &mut [f64]| {
                // Small integers are converted by vector instructions, and the sum is exact.
                widest!(|| {
                    for (number, place) in block.iter_mut().zip(0i32..) {
                        *number = start + (at as f64 + f64::from(place)) * step;
                    }
                });
            }),
        }
    }
}

/// Fills a vector block by block; `fill` gets the position of a block's first number.
fn write_blocks<T: Element>(output: &mut TensorViewMut<'_>, fill: &dyn Fn(usize, &mut [T])) -> Result<()> {
    let (mut numbers, count) = ([T::default(); BLOCK], output.num_elements());
    for at in (0..count).step_by(BLOCK) {
        let block = &mut numbers[..BLOCK.min(count - at)];
        fill(at, block);
        let part = output.layout().narrow(0, at, block.len())?;
        let block = TensorView::from_slice(block, Layout::contiguous(Shape::new(&[block.len()])?))?;
        output.reborrow().with_layout(part)?.cast_from(&block)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use ixion_tensor::{DType, Tensor};

    #[test]
    fn blocks_continue_each_other() {
        let (mut whole, mut halves) = (vec![0i16; 5000], vec![0f32; 5000]);
        let layout = Layout::contiguous(Shape::new(&[5000]).unwrap());
        let numbers = Progression::of_integers([-7, 3], 5000);
        numbers.write(&mut TensorViewMut::from_slice(&mut whole, layout).unwrap()).unwrap();
        assert!(whole.iter().zip(0i64..).all(|(number, i)| *number == (3 * i - 7) as i16));
        let numbers = Progression::of_floats([0.1, 500.05, 0.1]).unwrap();
        assert_eq!(numbers.count, 5000);
        numbers.write(&mut TensorViewMut::from_slice(&mut halves, layout).unwrap()).unwrap();
        let want = Tensor::arange(DType::F32, 0.1, 500.05, 0.1).unwrap().to_vec::<f32>().unwrap();
        assert_eq!(halves, want);
        let short = Layout::contiguous(Shape::new(&[4999]).unwrap());
        assert!(numbers.write(&mut TensorViewMut::from_slice(&mut whole, short).unwrap()).is_err());
    }
}
