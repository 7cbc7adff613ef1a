//! Matrices and lists made of several tensors: block_diag, cartesian_prod, combinations.

use crate::op::{CpuLayer, Io, Layer, LayerError, Result, TensorMeta};
use crate::support::arguments::InputCount;
use crate::support::broadcast::{Converted, kind};
use crate::support::promotion::result_type;
use crate::support::views::{Plain, fill_with_zeros, pick, write_plain};
use ixion_tensor::{Dim, Limits, with_bits};
use std::ops::RangeInclusive;

crate::operator! {
    /// `torch.block_diag`: a matrix with the inputs on its diagonal and zeros elsewhere, after conversion to a common element
    /// type. A vector is a row, and a tensor without axes one element.
    pub struct BlockDiag for "aten::block_diag" {
        /// The number of inputs.
        inputs: InputCount,
    }
}

crate::operator! {
    /// `torch.cartesian_prod`: all combinations of an element of each vector, one per row; those of the last vector change
    /// first. A single vector is returned as it is.
    pub struct CartesianProd for "aten::cartesian_prod" {
        /// The number of inputs.
        inputs: InputCount,
    }
}

crate::operator! {
    /// `torch.combinations`: all combinations of `r` elements of a vector, one per row, in the order of their positions.
    pub struct Combinations for "aten::combinations" {
        /// The number of elements of a combination.
        r: usize = 2,
        /// Whether an element may occur several times in a combination.
        with_replacement: bool = false,
    }
}

impl Layer for BlockDiag {
    fn num_inputs(&self) -> RangeInclusive<usize> {
        1..=usize::MAX
    }

    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
        let mut sides = [Dim::Fixed(0), Dim::Fixed(0)];
        for (position, input) in inputs.iter().enumerate() {
            let lens = match input.dims() {
                [] => [Dim::Fixed(1), Dim::Fixed(1)],
                [len] => [Dim::Fixed(1), len.clone()],
                [rows, columns] => [rows.clone(), columns.clone()],
                _ => return Err(LayerError::shape(format!("input {position}"), "at most two axes", input)),
            };
            let [rows, columns] = sides;
            let [more_rows, more_columns] = lens;
            sides = [rows + more_rows, columns + more_columns];
        }
        Ok(vec![TensorMeta::new(result_type(inputs.iter().map(kind)), sides)])
    }
}

impl CpuLayer for BlockDiag {
    fn forward(&mut self, io: &mut Io<'_, '_>) -> Result<()> {
        let output = &mut io.outputs[0];
        fill_with_zeros(output)?;
        let (whole, mut start) = (*output.layout(), [0, 0]);
        for input in io.inputs {
            let mut layout = *input.layout();
            while layout.shape().rank() < 2 {
                layout = layout.unsqueeze(0)?;
            }
            let &[rows, columns] = layout.shape().dims() else { continue };
            // An empty block at the end would begin after the last element.
            if rows > 0 && columns > 0 {
                let block = Converted::of(&input.with_layout(layout)?, output.dtype())?;
                let place = whole.narrow(0, start[0], rows)?.narrow(1, start[1], columns)?;
                output.reborrow().with_layout(place)?.copy_from(&block.view())?;
            }
            start = [start[0] + rows, start[1] + columns];
        }
        Ok(())
    }
}

impl Layer for CartesianProd {
    fn num_inputs(&self) -> RangeInclusive<usize> {
        1..=usize::MAX
    }

    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
        let mut rows = Dim::Fixed(1);
        for (position, input) in inputs.iter().enumerate() {
            let [len] = input.dims() else {
                return Err(LayerError::shape(format!("input {position}"), "a vector", input));
            };
            if input.dtype() != inputs[0].dtype() {
                let what = format!("input {position}");
                return Err(LayerError::dtype(what, inputs[0].dtype(), input.dtype()));
            }
            rows = rows * len.clone();
        }
        Ok(vec![match inputs.len() {
            1 => inputs[0].with_dims([rows]),
            count => inputs[0].with_dims([rows, Dim::from(count)]),
        }])
    }
}

impl CpuLayer for CartesianProd {
    fn forward(&mut self, io: &mut Io<'_, '_>) -> Result<()> {
        let vectors = io.inputs.iter().map(Plain::of).collect::<Result<Vec<_>>>()?;
        let rows = io.outputs[0].shape().first().copied().unwrap_or(0);
        write_plain(&mut io.outputs[0], &mut |output| {
            with_bits!(output.dtype(), B => {
                let to = output.bits_slice::<B>()?;
                // The number of rows in which an element is repeated.
                let mut run = rows;
                for (column, vector) in vectors.iter().enumerate() {
                    let vector = vector.view().bits_slice::<B>()?;
                    run /= vector.len().max(1);
                    let elements = vector.iter().cycle().flat_map(|x| std::iter::repeat_n(x, run));
                    let places = to.iter_mut().skip(column).step_by(vectors.len());
                    places.zip(elements).for_each(|(to, &x)| *to = x);
                }
            });
            Ok(())
        })
    }
}

impl Combinations {
    /// The largest `r` for vectors of unknown length, for which the number of combinations is a formula of `r` steps.
    const MOST_OF_UNKNOWN: usize = 16;

    /// The number of combinations of the elements of a vector.
    fn count(&self, len: &Dim) -> Result<Dim> {
        match len.fixed() {
            Some(len) => Ok(Dim::from(self.count_of(u64::try_from(len).unwrap_or(0)))),
            None if self.r > Self::MOST_OF_UNKNOWN => {
                let reason = format!("at most {} for a vector of unknown length", Self::MOST_OF_UNKNOWN);
                Err(LayerError::invalid("r", self.r, reason))
            }
            None => Ok((0..self.r).fold(Dim::Fixed(1), |count, step| {
                let more = if self.with_replacement { len.clone() + step } else { len.clone() - step };
                (count * more).floor_div(step + 1)
            })),
        }
    }

    /// As [`Combinations::count`], for a known length: n! / (r! (n − r)!). With replacement, these are r of n + r − 1 elements.
    fn count_of(&self, len: u64) -> i64 {
        let r = u64::try_from(self.r).unwrap_or(u64::MAX);
        let of = match len.checked_sub(1) {
            Some(others) if self.with_replacement => others.saturating_add(r),
            _ => len,
        };
        let Some(others) = of.checked_sub(r) else { return 0 };
        let mut count = 1u128;
        // Each step is exact. After k steps, the count is at least 2ᵏ, so that it soon exceeds all possible lengths.
        for step in 0..r.min(others) {
            count = count * u128::from(of - step) / u128::from(step + 1);
            if count > u128::from(u64::MAX) {
                return i64::MAX;
            }
        }
        i64::try_from(count).unwrap_or(i64::MAX)
    }

    /// Moves on to the next combination of positions below `len`; at the last one, nothing changes.
    fn advance(&self, positions: &mut [usize], len: usize) {
        let gap = usize::from(!self.with_replacement);
        let last = positions.len().saturating_sub(1);
        let can_grow = |&at: &usize| positions[at] + 1 + gap * (last - at) < len;
        let Some(at) = (0..positions.len()).rev().find(can_grow) else { return };
        let first = positions[at] + 1;
        for (step, position) in positions[at..].iter_mut().enumerate() {
            *position = first + gap * step;
        }
    }

    /// The positions of the elements of all combinations, row by row.
    fn positions(&self, len: usize, rows: usize, limits: &Limits) -> Result<Vec<usize>> {
        let mut all = Vec::new();
        if rows == 0 || self.r == 0 {
            return Ok(all);
        }
        let count = rows.saturating_mul(self.r);
        limits.check_tensor("the positions of combinations", (count as u64).saturating_mul(8))?;
        all.reserve_exact(count);
        let gap = usize::from(!self.with_replacement);
        let mut positions: Vec<usize> = (0..self.r).map(|place| place * gap).collect();
        for row in 0..rows {
            if row % 4096 == 0 {
                limits.check_deadline()?;
            }
            all.extend_from_slice(&positions);
            self.advance(&mut positions, len);
        }
        Ok(all)
    }
}

impl Layer for Combinations {
    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
        let [len] = inputs[0].dims() else {
            return Err(LayerError::shape("the input", "a vector", &inputs[0]));
        };
        Ok(vec![match self.r {
            0 => inputs[0].with_dims([0]),
            r => inputs[0].with_dims([self.count(len)?, Dim::from(r)]),
        }])
    }
}

impl CpuLayer for Combinations {
    fn forward(&mut self, io: &mut Io<'_, '_>) -> Result<()> {
        let (len, rows) = (io.inputs[0].num_elements(), io.outputs[0].shape().first().copied().unwrap_or(0));
        let positions = self.positions(len, rows, io.context.limits())?;
        pick(&io.inputs[0], &positions, &mut io.outputs[0])
    }
}

operators! { BlockDiag, CartesianProd, Combinations; lists "aten::block_diag", "aten::cartesian_prod" }

#[cfg(test)]
mod tests {
    use crate::op::{LayerError, TensorMeta};
    use crate::support::testing::{counting, operator, tensor};
    use ixion_tensor::{DType, Dim, Tensor};

    /// PyTorch's results.
    #[test]
    fn blocks_on_a_diagonal() {
        let blocks = |inputs: &[&Tensor]| operator("aten::block_diag", &[]).run_one(inputs);
        let (square, row) = (tensor(&[2, 2], &[1i64, 2, 3, 4]), tensor(&[2], &[5.0f32, 6.0]));
        let all = blocks(&[&square, &row, &Tensor::scalar(7i64)]).unwrap();
        assert_eq!((all.dtype(), all.shape().dims()), (DType::F32, &[4, 5][..]));
        let wanted = [
            1.0, 2.0, 0.0, 0.0, 0.0, 3.0, 4.0, 0.0, 0.0, 0.0, 0.0, 0.0, 5.0, 6.0, 0.0, 0.0, 0.0, 0.0, 0.0,
            7.0,
        ];
        assert_eq!(all.to_vec::<f32>().unwrap(), wanted);
        assert_eq!(blocks(&[&square]).unwrap(), square);
        assert_eq!(blocks(&[&Tensor::scalar(7i8)]).unwrap(), tensor(&[1, 1], &[7i8]));
        let empty = blocks(&[&square, &Tensor::zeros(DType::I64, &[0, 2]).unwrap()]).unwrap();
        assert_eq!(empty, tensor(&[2, 4], &[1i64, 2, 0, 0, 3, 4, 0, 0]));
        let type_of = |number: Tensor| blocks(&[&square, &number]).unwrap().dtype();
        assert_eq!([type_of(Tensor::scalar(2.5f64)), type_of(Tensor::scalar(2i8))], [DType::F64, DType::I64]);
        let error = blocks(&[&square, &counting(DType::I64, &[1, 1, 1])]).unwrap_err().to_string();
        assert_eq!(error, "input 1: expected at most two axes, got 1×1×1 i64");
        operator("aten::block_diag", &[]).survives(2);
    }

    /// PyTorch's results.
    #[test]
    fn rows_of_all_vectors() {
        let product = |inputs: &[&Tensor]| operator("aten::cartesian_prod", &[]).run_one(inputs);
        let (x, y) = (tensor(&[2], &[1i64, 2]), tensor(&[3], &[3i64, 4, 5]));
        assert_eq!(product(&[&x]).unwrap(), x);
        let pairs = tensor(&[6, 2], &[1i64, 3, 1, 4, 1, 5, 2, 3, 2, 4, 2, 5]);
        assert_eq!(product(&[&x, &y]).unwrap(), pairs);
        let triples = product(&[&x, &tensor(&[1], &[7i64]), &x]).unwrap();
        assert_eq!(triples, tensor(&[4, 3], &[1i64, 7, 1, 1, 7, 2, 2, 7, 1, 2, 7, 2]));
        let nothing = product(&[&x, &Tensor::zeros(DType::I64, &[0]).unwrap(), &y]).unwrap();
        assert_eq!(nothing.shape().dims(), [0, 3]);
        let many = vec![&x; 10];
        assert_eq!(product(&many).unwrap().shape().dims(), [1024, 10]);
        assert!(product(&[&x, &Tensor::scalar(1i64)]).is_err());
        assert!(product(&[&x, &y.cast(DType::F32).unwrap()]).is_err());
        operator("aten::cartesian_prod", &[]).survives(2);
    }

    fn chosen(r: &'static str, with_replacement: &'static str, len: usize) -> Result<Tensor, LayerError> {
        let params = [("r", r), ("with_replacement", with_replacement)];
        operator("aten::combinations", &params).run_one(&[&counting(DType::U8, &[len])])
    }

    /// PyTorch's results.
    #[test]
    fn some_of_a_vector() {
        let rows = |r, with_replacement, len| chosen(r, with_replacement, len).unwrap();
        assert_eq!(rows("2", "False", 3), tensor(&[3, 2], &[0u8, 1, 0, 2, 1, 2]));
        assert_eq!(rows("2", "True", 3), tensor(&[6, 2], &[0u8, 0, 0, 1, 0, 2, 1, 1, 1, 2, 2, 2]));
        let triples = [0u8, 0, 0, 0, 0, 1, 0, 1, 1, 1, 1, 1];
        assert_eq!(rows("3", "True", 2), tensor(&[4, 3], &triples));
        assert_eq!(rows("3", "False", 3), tensor(&[1, 3], &[0u8, 1, 2]));
        let shape = |r, with_replacement, len| rows(r, with_replacement, len).shape().to_vec();
        assert_eq!(shape("0", "False", 3), [0]);
        assert_eq!([shape("1", "True", 3), shape("4", "False", 3)], [[3, 1], [0, 4]]);
        assert_eq!([shape("2", "False", 0), shape("2", "True", 0)], [[0, 2], [0, 2]]);
        assert_eq!([shape("5", "True", 3), shape("3", "False", 7)], [[21, 5], [35, 3]]);
        assert!(operator("aten::combinations", &[("r", "-1")]).create(1).is_err());
        assert!(operator("aten::combinations", &[]).run(&[&counting(DType::U8, &[2, 2])]).is_err());
        operator("aten::combinations", &[("r", "3"), ("with_replacement", "True")]).survives(1);
    }

    #[test]
    fn counts_of_combinations() {
        let rows = |r, with_replacement, len: Dim| {
            let params = [("r", r), ("with_replacement", with_replacement)];
            let inferred =
                operator("aten::combinations", &params).infer(&[TensorMeta::new(DType::F32, [len])]);
            inferred.map(|outputs| outputs[0].dims()[0].clone())
        };
        for with_replacement in ["False", "True"] {
            for r in ["1", "2", "3", "5"] {
                let count = rows(r, with_replacement, Dim::symbol("n")).unwrap();
                for len in 0..9 {
                    let known = rows(r, with_replacement, Dim::Fixed(len)).unwrap().fixed();
                    assert_eq!(count.evaluate(&|_| Some(len)), known, "{r} of {len}, {with_replacement}");
                }
            }
        }
        // Neither of these takes long.
        assert_eq!(rows("4611686018427387904", "True", Dim::Fixed(1)).unwrap(), 1i64);
        assert_eq!(rows("4611686018427387904", "False", Dim::Fixed(9)).unwrap(), 0i64);
        assert_eq!(rows("500", "False", Dim::Fixed(1000)).unwrap(), i64::MAX);
        assert!(rows("17", "False", Dim::symbol("n")).is_err());
    }
}
