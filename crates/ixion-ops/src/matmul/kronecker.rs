//! The Kronecker product.

use crate::op::{CpuLayer, FromOperator, Io, Layer, Result, TensorMeta, exactly};
use crate::support::arguments::InputIndex;
use crate::support::number;
use crate::support::number::{Computation, Number};
use crate::support::promotion::promote;
use ixion_tensor::{Dim, Limits, TensorView, TensorViewMut};
use std::ops::RangeInclusive;

crate::operator! {
    /// `torch.kron`: the Kronecker product, which replaces every element of the input by that element times the other tensor.
    /// Missing axes have length 1 and come first.
    pub struct Kron for "aten::kron" {
        /// The right factor.
        other: InputIndex,
    }
}

/// Dimensions with axes of length 1 in front.
fn padded<D: Clone + From<usize>>(dims: &[D], rank: usize) -> Vec<D> {
    std::iter::repeat_n(D::from(1), rank.saturating_sub(dims.len())).chain(dims.iter().cloned()).collect()
}

impl Layer for Kron {
    fn num_inputs(&self) -> RangeInclusive<usize> {
        exactly(1 + self.field_inputs())
    }

    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
        let (a, b) = (&inputs[0], &inputs[self.other.0]);
        let rank = a.rank().max(b.rank());
        let pairs = padded(a.dims(), rank).into_iter().zip(padded(b.dims(), rank));
        let dims: Vec<Dim> = pairs.map(|(a, b)| a * b).collect();
        Ok(vec![TensorMeta::new(promote(a.dtype(), b.dtype()), dims)])
    }
}

/// The start of a row of the last axis, given the index along each of the others.
fn start(places: impl Iterator<Item = usize>, dims: &[usize]) -> usize {
    places.zip(dims).fold(0, |start, (place, &len)| start * len + place) * dims.last().copied().unwrap_or(1)
}

impl Computation for Kron {
    fn run_in<T: Number>(
        &self,
        inputs: &[TensorView<'_>],
        output: &mut TensorViewMut<'_>,
        limits: &Limits,
    ) -> Result<()> {
        let (a, b) = (&inputs[0], &inputs[self.other.0]);
        let rank = output.shape().rank().max(1);
        let (a_dims, b_dims) = (padded(a.shape(), rank), padded(b.shape(), rank));
        let (a, b) = (number::read::<T>(a)?, number::read::<T>(b)?);
        let (a_len, b_len) = (a_dims[rank - 1], b_dims[rank - 1]);
        let mut places = vec![0; rank - 1];
        number::write::<T>(output, |output| {
            for row in output.chunks_exact_mut((a_len * b_len).max(1)) {
                limits.check_deadline()?;
                let of_a = start(places.iter().zip(&b_dims).map(|(place, len)| place / len), &a_dims);
                let of_b = start(places.iter().zip(&b_dims).map(|(place, len)| place % len), &b_dims);
                let factors =
                    a[of_a..][..a_len].iter().flat_map(|&x| b[of_b..][..b_len].iter().map(move |&y| (x, y)));
                row.iter_mut().zip(factors).for_each(|(to, (x, y))| *to = T::times(x, y));
                for (axis, place) in places.iter_mut().enumerate().rev() {
                    *place = (*place + 1) % (a_dims[axis] * b_dims[axis]);
                    if *place > 0 {
                        break;
                    }
                }
            }
            Ok(())
        })
    }
}

impl CpuLayer for Kron {
    fn forward(&mut self, io: &mut Io<'_, '_>) -> Result<()> {
        self.run(io.inputs, &mut io.outputs[0], io.context.limits())
    }
}

operators! { Kron }

#[cfg(test)]
mod tests {
    use crate::support::testing::{operator, tensor};

    #[test]
    fn every_element_times_the_whole() {
        let kron = |a, b| operator("aten::kron", &[]).run_one(&[a, b]).unwrap();
        let (a, b) = (tensor(&[2, 2], &[1i64, 2, 3, 4]), tensor(&[2], &[1i64, 10]));
        let got = kron(&a, &b);
        assert_eq!(got.shape().dims(), [2, 4]);
        assert_eq!(got.to_vec::<i64>().unwrap(), [1, 10, 2, 20, 3, 30, 4, 40]);
        let got = kron(&b, &a);
        assert_eq!(got.to_vec::<i64>().unwrap(), [1, 2, 10, 20, 3, 4, 30, 40]);
        let column = tensor(&[2, 1], &[1i64, 10]);
        assert_eq!(kron(&a, &column).to_vec::<i64>().unwrap(), [1, 2, 10, 20, 3, 4, 30, 40]);
        let number = tensor(&[], &[true]);
        assert_eq!(kron(&number, &b).to_vec::<i64>().unwrap(), [1, 10]);
        assert_eq!(kron(&number, &number).to_vec::<bool>().unwrap(), [true]);
    }

    #[test]
    fn odd_inputs() {
        operator("aten::kron", &[]).survives(2);
    }
}
