//! Lookups whose results are combined: embedding_bag.

use super::by_index::{check_indices, read_indices};
use crate::op::{
    CpuLayer, FromOperator, FromParameter, Io, Layer, LayerError, Result, TensorMeta, Weight, exactly,
};
use crate::support::arguments::InputIndex;
use crate::support::choices::choices;
use crate::support::float;
use crate::support::float::with_float;
use crate::support::number;
use crate::support::promotion::promote;
use ixion_kernels::Float;
use ixion_tensor::{DType, Dim, Element, Layout, TensorView, TensorViewMut, resolve_index};
use std::borrow::Cow;
use std::ops::{Range, RangeInclusive};

choices! {
    /// How the rows of a bag are combined.
    pub enum Combination {
        /// Their sum.
        Sum = "sum" | "0",
        /// Their mean.
        Mean = "mean" | "1",
        /// The largest element of each column.
        Max = "max" | "2",
    }
}

crate::operator! {
    /// `torch.nn.functional.embedding_bag`: looks up rows of a matrix, the input, and combines those of each bag; an empty bag
    /// gives zeros. The outputs are those of TorchScript: the combined rows; the bag of each index, or nothing where PyTorch
    /// leaves it out; the number of rows in each bag, or zeros for sums; and the index of each maximum.
    pub struct EmbeddingBag for "aten::embedding_bag" {
        /// The indices of the rows of all bags, a vector.
        indices: InputIndex,
        /// The position of the first index of each bag, a vector.
        offsets: InputIndex,
        /// Accepted for compatibility; it only matters in training.
        scale_grad_by_freq: bool = false,
        /// How the rows of a bag are combined.
        mode: Combination = Combination::Sum,
        /// Accepted for compatibility; it only matters in training.
        sparse: bool = false,
        /// A factor for each index, for sums.
        per_sample_weights: Option<Weight> = None,
        /// Whether the last offset is the end of the last bag, and not the start of another.
        include_last_offset: bool = false,
        // Not `padding_idx`: constants of this name are ignored, since other lookups need them in training only.
        /// The index of a row that is left out: PyTorch's `padding_idx`. A negative number counts from the end.
        padding_index: Option<i64> = None,
    }
}

impl EmbeddingBag {
    /// The number of bags, given that of the offsets.
    fn bags(&self, offsets: &TensorMeta) -> Result<Dim> {
        let count = offsets.num_elements();
        if !self.include_last_offset {
            return Ok(count);
        }
        match count == 0usize {
            true => Err(LayerError::shape("the offsets", "at least the end of the last bag", offsets)),
            false => Ok(count - 1),
        }
    }

    /// The indices of each bag.
    fn ranges(&self, offsets: &[i64], count: usize) -> Result<Vec<Range<usize>>> {
        let mut ends: Vec<usize> = Vec::with_capacity(offsets.len() + 1);
        for &offset in offsets {
            let least = ends.last().copied().unwrap_or(0);
            let most = if ends.is_empty() { 0 } else { count };
            let fits = usize::try_from(offset).ok().filter(|offset| (least..=most).contains(offset));
            let end = fits.ok_or_else(|| {
                let what = format!("offset {}", ends.len());
                LayerError::shape(what, format!("a position from {least} to {most}"), offset)
            })?;
            ends.push(end);
        }
        if !self.include_last_offset {
            ends.push(count);
        }
        Ok(ends.windows(2).map(|pair| pair[0]..pair[1]).collect())
    }

    /// Returns true if PyTorch does without the bags of the indices.
    fn is_direct(&self, table: DType) -> bool {
        self.mode == Combination::Sum && table != DType::F64 && self.padding_index.is_none()
    }

    fn run<T: Float>(&self, io: &mut Io<'_, '_>) -> Result<()> {
        let (inputs, limits) = (io.inputs, io.context.limits());
        let table = Table::<T>::new(&inputs[0])?;
        let indices = read_indices(&inputs[self.indices.0], table.rows)?;
        let offsets = number::read::<i64>(&inputs[self.offsets.0])?;
        let padding = self.padding_index.map(|index| resolve_index(index, table.rows)).transpose()?;
        let weights = self.per_sample_weights.as_ref().map(|weights| weights.view(inputs)).transpose()?;
        let weights = weights.map(|weights| float::read::<T>(&weights)).transpose()?;
        let ranges = self.ranges(&offsets, indices.len())?;
        let size = |range: &Range<usize>| {
            let part = indices.get(range.clone()).unwrap_or_default();
            part.iter().filter(|&&index| Some(index) != padding).count() as i64
        };
        let sizes: Vec<i64> = ranges.iter().map(size).collect();
        let most = if self.mode == Combination::Max { ranges.len() * table.columns } else { 0 };
        let (mut largest, columns) = (vec![0i64; most], table.columns.max(1));
        let (combined, others) = io.outputs.split_at_mut(1);
        float::write::<T>(&mut combined[0], |output| {
            output.fill(T::zero());
            let bags = ranges.iter().zip(&sizes).zip(output.chunks_exact_mut(columns));
            for (bag, ((range, &size), row)) in bags.enumerate() {
                limits.check_deadline()?;
                let places = largest.get_mut(bag * columns..(bag + 1) * columns).unwrap_or_default();
                let mut is_first = true;
                for at in range.clone() {
                    let index = indices[at];
                    if Some(index) == padding {
                        continue;
                    }
                    let factor = weights.as_ref().map(|weights| weights[at]);
                    self.add(row, &table.row(index)?, factor, is_first, (index, &mut *places));
                    is_first = false;
                }
                if self.mode == Combination::Mean && size > 0 {
                    let count = T::of(size as f64);
                    row.iter_mut().for_each(|y| *y /= count);
                }
            }
            Ok(())
        })?;
        self.write_others(&ranges, indices.len(), sizes, &largest, others)
    }

    /// Adds a row to those of a bag.
    fn add<T: Float>(
        &self,
        bag: &mut [T],
        row: &[T],
        factor: Option<T>,
        is_first: bool,
        (index, places): (usize, &mut [i64]),
    ) {
        match (self.mode, factor) {
            (Combination::Max, _) => {
                for ((y, place), &x) in bag.iter_mut().zip(places).zip(row) {
                    if is_first || x > *y {
                        (*y, *place) = (x, index as i64);
                    }
                }
            }
            (_, None) => bag.iter_mut().zip(row).for_each(|(y, &x)| *y += x),
            (_, Some(factor)) => bag.iter_mut().zip(row).for_each(|(y, &x)| *y += x * factor),
        }
    }

    /// Writes the outputs after the first.
    fn write_others(
        &self,
        ranges: &[Range<usize>],
        count: usize,
        mut sizes: Vec<i64>,
        largest: &[i64],
        outputs: &mut [TensorViewMut<'_>],
    ) -> Result<()> {
        let [bags, counts, places] = outputs else {
            return Err(LayerError::OutputCount { wanted: 4, found: outputs.len() + 1 });
        };
        if bags.num_elements() > 0 {
            // What is behind the last bag counts as part of it.
            let mut of_indices = vec![ranges.len().saturating_sub(1) as i64; count];
            for (bag, range) in ranges.iter().enumerate() {
                if let Some(part) = of_indices.get_mut(range.clone()) {
                    part.fill(bag as i64);
                }
            }
            write_integers(&of_indices, bags)?;
        }
        if self.mode == Combination::Sum {
            sizes = vec![0; counts.num_elements()];
        }
        write_integers(&sizes, counts)?;
        write_integers(if self.mode == Combination::Max { largest } else { &sizes }, places)
    }
}

fn write_integers(numbers: &[i64], output: &mut TensorViewMut<'_>) -> Result<()> {
    let layout = Layout::contiguous(*output.shape());
    Ok(output.cast_from(&TensorView::from_slice(numbers, layout)?)?)
}

/// A matrix whose rows are looked up.
struct Table<'a, T: Element> {
    view: TensorView<'a>,
    /// All elements, unless they are converted; then each row is when it is looked up.
    whole: Option<Cow<'a, [T]>>,
    rows: usize,
    columns: usize,
}

impl<'a, T: Float> Table<'a, T> {
    fn new(view: &TensorView<'a>) -> Result<Self> {
        let &[rows, columns] = view.shape().dims() else {
            return Err(LayerError::shape("the input", "a matrix", view.shape()));
        };
        let whole = if view.dtype() == T::DTYPE { Some(float::read::<T>(view)?) } else { None };
        Ok(Self { view: *view, whole, rows, columns })
    }

    fn row(&self, index: usize) -> Result<Cow<'_, [T]>> {
        match &self.whole {
            Some(all) => {
                let row = index * self.columns..(index + 1) * self.columns;
                Ok(Cow::Borrowed(all.get(row).unwrap_or_default()))
            }
            None => float::read::<T>(&self.view.with_layout(self.view.layout().select(0, index)?)?),
        }
    }
}

impl Layer for EmbeddingBag {
    fn num_inputs(&self) -> RangeInclusive<usize> {
        exactly(1 + self.field_inputs())
    }

    fn num_outputs(&self) -> usize {
        4
    }

    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
        let (table, indices, offsets) = (&inputs[0], &inputs[self.indices.0], &inputs[self.offsets.0]);
        float::check("the input", table)?;
        let [_, columns] = table.dims() else {
            return Err(LayerError::shape("the input", "a matrix", table));
        };
        for (what, input) in [("the indices", indices), ("the offsets", offsets)] {
            check_indices(what, input)?;
            if input.rank() != 1 {
                return Err(LayerError::shape(what, "a vector", input));
            }
        }
        if let Some(weights) = &self.per_sample_weights {
            let weights = weights.meta(inputs)?;
            if self.mode != Combination::Sum {
                let mode = self.mode.to_parameter().map(|mode| mode.raw().to_owned());
                let reason = "`per_sample_weights` are supported for sums only; expected sum";
                return Err(LayerError::invalid("mode", mode.unwrap_or_default(), reason));
            }
            if weights.dtype() != table.dtype() {
                return Err(LayerError::dtype("the weights of the indices", table.dtype(), weights.dtype()));
            }
            if !weights.may_have_dims(indices.dims()) {
                return Err(LayerError::shape("the weights of the indices", indices, weights));
            }
        }
        let bags = self.bags(offsets)?;
        let integers = promote(indices.dtype(), offsets.dtype());
        let of = |dims: Vec<Dim>| TensorMeta::new(integers, dims);
        let of_indices = if self.is_direct(table.dtype()) { Dim::Fixed(0) } else { indices.num_elements() };
        let counts = if self.mode == Combination::Sum { offsets.num_elements() } else { bags.clone() };
        let places = match self.mode {
            Combination::Max => of(vec![bags.clone(), columns.clone()]),
            Combination::Sum | Combination::Mean => of(vec![counts.clone()]),
        };
        let combined = table.with_dims([bags, columns.clone()]);
        Ok(vec![combined, of(vec![of_indices]), of(vec![counts]), places])
    }
}

impl CpuLayer for EmbeddingBag {
    fn forward(&mut self, io: &mut Io<'_, '_>) -> Result<()> {
        with_float!(io.inputs[0].dtype(), T => self.run::<T>(io))
    }
}

operators! { EmbeddingBag: category(Weighted) }

#[cfg(test)]
mod tests {
    use super::*;
    use crate::support::testing::{assert_close, operator, tensor, waves};
    use ixion_tensor::Tensor;

    fn indices() -> Tensor {
        tensor(&[7], &[1i64, 2, 4, 1, 3, 0, 4])
    }

    fn offsets() -> Tensor {
        tensor(&[4], &[0i64, 3, 3, 5])
    }

    fn run(params: &[(&str, &str)], inputs: &[&Tensor]) -> Vec<Tensor> {
        operator("aten::embedding_bag", params).with_outputs(4).run(inputs).unwrap()
    }

    fn integers(tensor: &Tensor) -> Vec<i64> {
        tensor.cast(DType::I64).unwrap().to_vec().unwrap()
    }

    #[test]
    fn rows_are_combined_as_in_pytorch() {
        let (table, indices, offsets) = (waves(&[5, 3]), indices(), offsets());
        let inputs = [&table, &indices, &offsets];
        let sums = run(&[("mode", "0")], &inputs);
        let want = [-1.0, -0.5, -1.0, 0.0, 0.0, 0.0, 0.0, 1.0, -2.5, -3.25, -2.25, 0.0];
        assert_close(&sums[0], &[4, 3], &want);
        assert_eq!(integers(&sums[1]), [0, 0, 0, 2, 2, 3, 3]);
        assert_eq!([integers(&sums[2]), integers(&sums[3])], [[0; 4], [0; 4]]);
        let means = run(&[("mode", "mean")], &inputs);
        let third = [-1.0 / 3.0, -0.5 / 3.0, -1.0 / 3.0];
        let want = [&third[..], &[0.0, 0.0, 0.0, 0.0, 0.5, -1.25, -1.625, -1.125, 0.0]].concat();
        assert_close(&means[0], &[4, 3], &want);
        assert_eq!([integers(&means[2]), integers(&means[3])], [[3, 0, 2, 2], [3, 0, 2, 2]]);
        let most = run(&[("mode", "2")], &inputs);
        let want = [1.5, 2.0, 0.25, 0.0, 0.0, 0.0, 2.0, 1.5, -1.25, -0.5, -0.25, 0.0];
        assert_close(&most[0], &[4, 3], &want);
        assert_eq!(integers(&most[3]), [2, 2, 2, 0, 0, 0, 3, 3, 1, 4, 0, 0]);
        let single = table.cast(DType::F32).unwrap();
        let direct = run(&[], &[&single, &indices, &offsets]);
        assert_eq!(direct[1].shape().dims(), [0], "as in PyTorch, nothing is stored");
        let half = table.cast(DType::F16).unwrap();
        assert_close(&run(&[("mode", "2")], &[&half, &indices, &offsets])[0], &[4, 3], &want);
    }

    #[test]
    fn rows_may_be_left_out_or_weighted() {
        let (table, indices, offsets) = (waves(&[5, 3]), indices(), offsets());
        for padding in ["1", "-4"] {
            let params = [("mode", "mean"), ("padding_index", padding)];
            let means = run(&params, &[&table, &indices, &offsets]);
            let want = [0.5, 0.0, 0.125, 0.0, 0.0, 0.0, 2.0, 1.5, -1.25, -1.625, -1.125, 0.0];
            assert_close(&means[0], &[4, 3], &want);
            assert_eq!(integers(&means[2]), [2, 0, 1, 2]);
        }
        let weights = tensor(&[7], &[0.5, -1.0, 2.0, 0.25, 1.0, 3.0, 0.1]);
        let sums = run(&[], &[&table, &indices, &offsets, &weights]);
        let want = [-3.5, -6.25, -0.875, 0.0, 0.0, 0.0, 1.5, 1.375, -1.5625, -8.3, -0.95, 0.0];
        assert_close(&sums[0], &[4, 3], &want);
        let ends = tensor(&[4], &[0i32, 3, 3, 7]);
        let few = indices.cast(DType::I32).unwrap();
        let sums = run(&[("include_last_offset", "True")], &[&table, &few, &ends]);
        let want = [-1.0, -0.5, -1.0, 0.0, 0.0, 0.0, -3.25, -1.25, -2.5];
        assert_close(&sums[0], &[3, 3], &want);
        assert_eq!((sums[1].dtype(), integers(&sums[1])), (DType::I32, vec![0, 0, 0, 2, 2, 2, 2]));
        assert_eq!(sums[2].shape().dims(), [4]);
    }

    #[test]
    fn empty_bags_and_special_values() {
        let nothing = Tensor::zeros(DType::I64, &[0]).unwrap();
        let table = waves(&[5, 3]);
        for mode in ["sum", "mean", "max"] {
            let zeros = run(&[("mode", mode)], &[&table, &nothing, &tensor(&[2], &[0i64, 0])]);
            assert_close(&zeros[0], &[2, 3], &[0.0; 6]);
            assert_eq!(run(&[("mode", mode)], &[&table, &nothing, &nothing])[0].shape().dims(), [0, 3]);
        }
        let unknown = tensor(&[3, 1], &[1.0, f64::NAN, 3.0]);
        let (indices, offsets) = (tensor(&[5], &[0i64, 1, 2, 1, 0]), tensor(&[2], &[0i64, 3]));
        let most = run(&[("mode", "max")], &[&unknown, &indices, &offsets]);
        assert_close(&most[0], &[2, 1], &[3.0, f64::NAN]);
        assert_eq!(integers(&most[3]), [2, 1]);
    }

    #[test]
    fn what_does_not_fit() {
        let table = waves(&[5, 3]);
        let error = |params: &[(&str, &str)], inputs: [&Tensor; 2]| {
            let bags = operator("aten::embedding_bag", params).with_outputs(4);
            bags.run(&[&table, inputs[0], inputs[1]]).unwrap_err().to_string()
        };
        let (indices, offsets) = (indices(), offsets());
        let outside = tensor(&[7], &[5i64; 7]);
        assert_eq!(error(&[], [&outside, &offsets]), "index 5 is out of range: there are 5");
        let late = tensor(&[2], &[1i64, 3]);
        assert_eq!(error(&[], [&indices, &late]), "offset 0: expected a position from 0 to 0, got 1");
        let turned = tensor(&[3], &[0i64, 5, 3]);
        assert_eq!(error(&[], [&indices, &turned]), "offset 2: expected a position from 5 to 7, got 3");
        let far = tensor(&[2], &[0i64, 9]);
        assert_eq!(error(&[], [&indices, &far]), "offset 1: expected a position from 0 to 7, got 9");
        assert!(error(&[("padding_index", "5")], [&indices, &offsets]).contains("index 5"));
        assert!(error(&[("mode", "3")], [&indices, &offsets]).contains("sum mean max"));
        let weights = waves(&[7]);
        let bags = operator("aten::embedding_bag", &[("mode", "1")]).with_outputs(4);
        let weighted = bags.run(&[&table, &indices, &offsets, &weights]).unwrap_err().to_string();
        assert_eq!(
            weighted,
            "parameter `mode` is mean: `per_sample_weights` are supported for sums only; expected sum"
        );
        for mode in ["sum", "mean", "max"] {
            operator("aten::embedding_bag", &[("mode", mode)]).with_outputs(4).survives(3);
        }
    }
}
