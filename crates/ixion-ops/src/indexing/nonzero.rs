//! Nonzero elements, one-hot vectors and counts: nonzero, nonzero_static, count_nonzero, one_hot, bincount.

use super::selection::Where;
use crate::indexing::by_index::check_indices;
use crate::op::{
    CpuLayer, Creator, FromOperator, Io, Layer, LayerError, OperatorReader, Registry, RegistryError, Result,
    TensorMeta, Weight, exactly,
};
use crate::support::arguments::OutputCount;
use crate::support::broadcast::Converted;
use crate::support::dynamic::dynamic_layers;
use crate::support::views::{Plain, write_plain};
use ixion_kernels::mask;
use ixion_tensor::{DType, Dim, Limits, Tensor, TensorError, TensorView};
use std::ops::RangeInclusive;

crate::operator! {
    /// `torch.nonzero`: the indices of all nonzero elements, one row per element.
    pub struct Nonzero for "aten::nonzero", "aten::argwhere" {}
}

crate::operator! {
    /// `torch.nonzero` with `as_tuple=True`: the indices of all nonzero elements, one vector per axis.
    pub struct NonzeroOfAxes for "aten::nonzero_numpy" {
        /// The number of outputs: one per axis.
        outputs: OutputCount,
    }
}

crate::operator! {
    /// `torch.nonzero_static`: the indices of the first nonzero elements, one row per element, in a given number of rows.
    pub struct NonzeroStatic for "aten::nonzero_static" {
        /// The number of rows.
        size: usize,
        /// The number that fills rows for which there is no element.
        fill_value: i64 = -1,
    }
}

crate::operator! {
    /// `torch.nn.functional.one_hot`: replaces each index by a vector with 1 at that index and 0 elsewhere.
    pub struct OneHot for "aten::one_hot" {
        /// Number of classes, which is the length of the vectors; -1 for the largest index plus 1.
        num_classes: i64 = -1,
    }
}

crate::operator! {
    /// `torch.bincount`: how often each value from 0 on occurs in a vector of non-negative integers.
    pub struct Bincount for "aten::bincount" {
        /// A number for each value of the vector; the sums of these numbers are returned instead of counts: f32 if they are
        /// f32, else f64.
        weights: Option<Weight> = None,
        /// The minimum length of the output.
        minlength: usize = 0,
    }
}

/// The indices of the nonzero elements.
fn found(input: &TensorView<'_>) -> Result<Vec<i64>> {
    let truths = Converted::of(input, DType::Bool)?;
    let truths = truths.view();
    let plain = Plain::of(&truths)?;
    let plain = plain.view();
    let truths = plain.slice::<bool>()?;
    let mut found = vec![0; mask::count(truths) * input.shape().rank()];
    mask::indices(truths, input.shape(), &mut found);
    Ok(found)
}

/// The number of nonzero elements of a tensor without axes: 0 or 1.
fn count_of_scalar(input: &TensorView<'_>) -> Result<usize> {
    Ok(usize::from(input.to_tensor()?.cast(DType::Bool)?.item::<bool>()?))
}

/// Checks that `count` 64-bit numbers are within the limits.
fn check_size(limits: &Limits, count: usize) -> Result<()> {
    Ok(limits.check_tensor("the output", (count as u64).saturating_mul(8))?)
}

impl Layer for Nonzero {
    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
        Ok(vec![TensorMeta::new(DType::I64, [Dim::fresh("found"), Dim::from(inputs[0].rank())])])
    }

    fn is_data_dependent(&self) -> bool {
        true
    }
}

impl Layer for NonzeroStatic {
    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
        Ok(vec![TensorMeta::new(DType::I64, [Dim::from(self.size), Dim::from(inputs[0].rank())])])
    }
}

impl CpuLayer for NonzeroStatic {
    fn forward(&mut self, io: &mut Io<'_, '_>) -> Result<()> {
        let input = &io.inputs[0];
        // The indices of a tensor without axes have no numbers.
        let rank = input.shape().rank();
        check_size(io.context.limits(), input.num_elements().saturating_mul(rank))?;
        let found = if rank == 0 { Vec::new() } else { found(input)? };
        write_plain(&mut io.outputs[0], &mut |output| {
            let output = output.slice::<i64>()?;
            output.fill(self.fill_value);
            output.iter_mut().zip(&found).for_each(|(to, &index)| *to = index);
            Ok(())
        })
    }
}

impl Layer for NonzeroOfAxes {
    fn num_outputs(&self) -> usize {
        self.outputs.0
    }

    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
        let wanted = inputs[0].rank().max(1);
        if wanted != self.outputs.0 {
            return Err(LayerError::OutputCount { wanted, found: self.outputs.0 });
        }
        let count = Dim::fresh("found");
        Ok(vec![TensorMeta::new(DType::I64, [count]); wanted])
    }

    fn is_data_dependent(&self) -> bool {
        true
    }
}

impl OneHot {
    /// The length of the vectors, if it does not depend on the indices.
    fn len(&self) -> Result<Option<usize>> {
        match self.num_classes {
            -1 => Ok(None),
            len @ 1.. => Ok(usize::try_from(len).ok()),
            other => Err(LayerError::invalid("num_classes", other, "it must be -1 or at least 1")),
        }
    }
}

impl Layer for OneHot {
    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
        check_indices("the input", &inputs[0])?;
        let len = self.len()?.map_or_else(|| Dim::fresh("classes"), Dim::from);
        Ok(vec![TensorMeta::new(DType::I64, inputs[0].dims().iter().cloned().chain([len]))])
    }

    fn is_data_dependent(&self) -> bool {
        true
    }
}

impl Layer for Bincount {
    fn num_inputs(&self) -> RangeInclusive<usize> {
        exactly(1 + self.field_inputs())
    }

    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
        if inputs[0].rank() != 1 || !inputs[0].dtype().is_integer() {
            return Err(LayerError::shape("the input", "a vector of integers", &inputs[0]));
        }
        let Some(weights) = &self.weights else {
            return Ok(vec![TensorMeta::new(DType::I64, [Dim::fresh("bins")])]);
        };
        let weights = weights.meta(inputs)?;
        let wanted = weights.with_dims(inputs[0].dims().to_vec());
        if !weights.may_have_dims(wanted.dims()) {
            return Err(LayerError::shape("`weights`", wanted, weights));
        }
        Ok(vec![TensorMeta::new(sum_type(weights.dtype()), [Dim::fresh("bins")])])
    }

    fn is_data_dependent(&self) -> bool {
        true
    }
}

impl Nonzero {
    fn compute(&self, inputs: &[TensorView<'_>], limits: &Limits) -> Result<Vec<Tensor>> {
        let (input, rank) = (&inputs[0], inputs[0].shape().rank());
        check_size(limits, input.num_elements().saturating_mul(rank.max(1)))?;
        if rank == 0 {
            return Ok(vec![Tensor::zeros(DType::I64, &[count_of_scalar(input)?, 0])?]);
        }
        let found = found(input)?;
        let count = found.len() / rank;
        Ok(vec![Tensor::from_vec(found, &[count, rank])?])
    }
}

impl NonzeroOfAxes {
    fn compute(&self, inputs: &[TensorView<'_>], limits: &Limits) -> Result<Vec<Tensor>> {
        let (input, rank) = (&inputs[0], inputs[0].shape().rank());
        check_size(limits, input.num_elements().saturating_mul(rank.max(1)))?;
        if rank == 0 {
            return Ok(vec![Tensor::zeros(DType::I64, &[count_of_scalar(input)?])?]);
        }
        let found = found(input)?;
        let vector = |axis| -> Result<Tensor> {
            let places: Vec<i64> = found.iter().copied().skip(axis).step_by(rank).collect();
            let count = places.len();
            Ok(Tensor::from_vec(places, &[count])?)
        };
        (0..rank).map(vector).collect()
    }
}

impl OneHot {
    fn compute(&self, inputs: &[TensorView<'_>], limits: &Limits) -> Result<Vec<Tensor>> {
        let indices = inputs[0].to_tensor()?.cast(DType::I64)?.to_vec::<i64>()?;
        let largest = indices.iter().copied().max().unwrap_or(-1);
        let len = match self.len()? {
            Some(len) => len,
            None if indices.is_empty() => {
                let wanted = "at least one index, or `num_classes`";
                return Err(LayerError::shape("the input", wanted, inputs[0].shape()));
            }
            None => usize::try_from(largest).unwrap_or(0).saturating_add(1),
        };
        check_size(limits, indices.len().saturating_mul(len))?;
        let mut values = vec![0i64; indices.len() * len];
        for (vector, index) in values.chunks_exact_mut(len.max(1)).zip(indices) {
            let place = usize::try_from(index).ok().and_then(|index| vector.get_mut(index));
            *place.ok_or(TensorError::OutOfRange { what: "index", index, len })? = 1;
        }
        let shape: Vec<usize> = inputs[0].shape().iter().copied().chain([len]).collect();
        Ok(vec![Tensor::from_vec(values, &shape)?])
    }
}

impl Bincount {
    fn compute(&self, inputs: &[TensorView<'_>], limits: &Limits) -> Result<Vec<Tensor>> {
        let numbers = inputs[0].to_tensor()?.cast(DType::I64)?.to_vec::<i64>()?;
        if let Some(negative) = numbers.iter().find(|number| **number < 0) {
            return Err(LayerError::shape("the input", "integers of at least 0", negative));
        }
        let largest = numbers.iter().copied().max().unwrap_or(-1);
        let len = usize::try_from(largest.saturating_add(1)).unwrap_or(0).max(self.minlength);
        check_size(limits, len)?;
        let Some(weights) = &self.weights else {
            let counts = sums(&numbers, std::iter::repeat(1i64), len, |sum, one| *sum += one)?;
            return Ok(vec![Tensor::from_vec(counts, &[len])?]);
        };
        let weights = weights.view(inputs)?;
        let values = weights.cast(DType::F64)?.to_vec::<f64>()?;
        let totals = sums(&numbers, values, len, |sum, x| *sum += x)?;
        Ok(vec![Tensor::from_vec(totals, &[len])?.cast(sum_type(weights.dtype()))?])
    }
}

/// The element type of sums of weights.
fn sum_type(weights: DType) -> DType {
    if weights == DType::F32 { DType::F32 } else { DType::F64 }
}

/// The sums of the terms for each number from 0 to `len` − 1.
fn sums<T: Default + Clone>(
    numbers: &[i64],
    terms: impl IntoIterator<Item = T>,
    len: usize,
    add: impl Fn(&mut T, T),
) -> Result<Vec<T>> {
    let mut sums = vec![T::default(); len];
    for (&index, term) in numbers.iter().zip(terms) {
        let place = usize::try_from(index).ok().and_then(|index| sums.get_mut(index));
        add(place.ok_or(TensorError::OutOfRange { what: "a value to count", index, len })?, term);
    }
    Ok(sums)
}

dynamic_layers!(Nonzero, NonzeroOfAxes, OneHot, Bincount);

crate::operator! {
    /// `torch.count_nonzero`: the number of nonzero elements, over all axes or the given ones.
    pub struct CountNonzero for "aten::count_nonzero" {
        /// The axes to count over, which are removed; may be negative, counting from the end. All axes by default.
        dim: Option<Vec<i64>> = None,
    }
}

impl CountNonzero {
    fn axes(&self, rank: usize) -> Result<crate::reduction::along_axes::Axes> {
        crate::reduction::along_axes::Axes::new(self.dim.as_deref(), false, rank)
    }
}

impl Layer for CountNonzero {
    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
        Ok(vec![TensorMeta::new(DType::I64, self.axes(inputs[0].rank())?.dims(&inputs[0]))])
    }
}

impl CpuLayer for CountNonzero {
    fn forward(&mut self, io: &mut Io<'_, '_>) -> Result<()> {
        let axes = self.axes(io.inputs[0].shape().rank())?;
        let (rows, len) = (axes.rows(&io.inputs[0])?, axes.len(io.inputs[0].shape()));
        let rows = rows.to_tensor()?.cast(DType::Bool)?.to_vec::<bool>()?;
        let mut counts: Vec<i64> =
            rows.chunks_exact(len.max(1)).map(|row| row.iter().filter(|&&x| x).count() as i64).collect();
        counts.resize(io.outputs[0].num_elements(), 0);
        let shape = *io.outputs[0].shape();
        Ok(io.outputs[0].copy_from(&Tensor::from_vec(counts, &shape)?.view())?)
    }
}

/// `aten::where`: the indices where the condition is true if it is alone, otherwise as `torch.where`.
fn where_creator() -> Creator {
    let create = |reader: &mut OperatorReader<'_>| -> Result<Box<dyn CpuLayer>> {
        let alone = reader.num_inputs() == 1 && reader.param("input").is_none();
        Ok(match alone {
            true => Box::new(NonzeroOfAxes::from_operator(reader)?),
            false => Box::new(Where::from_operator(reader)?),
        })
    };
    let doc = "`torch.where`: the elements of `input` where the condition is true and of `other` elsewhere; without these two, the indices where it is true.";
    Creator::new(Creator::<dyn CpuLayer>::BUILT_IN, "1", create).described(doc, Where::FIELDS)
}

operators! {
    Nonzero, NonzeroStatic, NonzeroOfAxes, OneHot, Bincount, CountNonzero; with add_where;
    overload "aten::where"(condition, input, other) of 3
}

fn add_where(registry: &mut Registry) -> Result<(), RegistryError> {
    registry.add("aten::where", where_creator())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::support::testing::{operator, tensor};

    fn dynamic(
        op_type: &str,
        params: &[(&'static str, &'static str)],
        outputs: usize,
        x: &Tensor,
    ) -> Result<Vec<Tensor>> {
        operator(op_type, params).with_outputs(outputs).run(&[x])
    }

    #[test]
    fn nonzero_elements() {
        let x = tensor(&[2, 2], &[0f32, -1.0, f32::NAN, 0.0]);
        let rows = dynamic("aten::nonzero", &[], 1, &x).unwrap();
        assert_eq!(
            (rows[0].shape().dims(), rows[0].to_vec::<i64>().unwrap()),
            (&[2, 2][..], vec![0, 1, 1, 0])
        );
        let axes = dynamic("aten::nonzero_numpy", &[], 2, &x).unwrap();
        assert_eq!(axes[1].to_vec::<i64>().unwrap(), [1, 0]);
        assert!(dynamic("aten::nonzero_numpy", &[], 1, &x).is_err());
        let rows = |size, x: &Tensor| {
            operator("aten::nonzero_static", &[("size", size), ("fill_value", "7")]).run_one(&[x])
        };
        assert_eq!(rows("3", &x).unwrap(), tensor(&[3, 2], &[0i64, 1, 1, 0, 7, 7]));
        assert_eq!(rows("1", &x).unwrap(), tensor(&[1, 2], &[0i64, 1]));
        assert_eq!(rows("0", &x).unwrap().shape().dims(), [0, 2]);
        assert_eq!(rows("2", &Tensor::scalar(1i32)).unwrap().shape().dims(), [2, 0]);
        assert!(rows("-1", &x).is_err());
        operator("aten::nonzero_static", &[("size", "2")]).survives(1);
        let count = operator("aten::count_nonzero", &[("dim", "(0)")]).run_one(&[&x]).unwrap();
        assert_eq!(count.to_vec::<i64>().unwrap(), [1, 1]);
        operator("aten::count_nonzero", &[("dim", "(1)")]).survives(1);
    }

    #[test]
    fn indices_as_vectors() {
        let x = tensor(&[2], &[2i64, 0]);
        let vectors = dynamic("aten::one_hot", &[("num_classes", "-1")], 1, &x).unwrap();
        assert_eq!(vectors[0].to_vec::<i64>().unwrap(), [0, 0, 1, 1, 0, 0]);
        assert!(dynamic("aten::one_hot", &[("num_classes", "2")], 1, &x).is_err());
        assert!(dynamic("aten::one_hot", &[("num_classes", "0")], 1, &x).is_err());
        let counts = dynamic("aten::bincount", &[("minlength", "4")], 1, &x).unwrap();
        assert_eq!(counts[0].to_vec::<i64>().unwrap(), [1, 0, 1, 0]);
        let negative = dynamic("aten::bincount", &[], 1, &tensor(&[2], &[3i64, -1])).unwrap_err();
        assert_eq!(negative.to_string(), "the input: expected integers of at least 0, got -1");
        let (x, weights) = (tensor(&[3], &[0i64, 2, 2]), tensor(&[3], &[0.5f32, 2.0, 3.0]));
        let layer = operator("aten::bincount", &[("minlength", "4")]).with_names(&["input", "weights"]);
        let summed = |weights: &Tensor| layer.run(&[&x, weights]);
        assert_eq!(summed(&weights).unwrap()[0], tensor(&[4], &[0.5f32, 0.0, 5.0, 0.0]));
        let halves = summed(&weights.cast(DType::F16).unwrap()).unwrap();
        assert_eq!(halves[0], tensor(&[4], &[0.5, 0.0, 5.0, 0.0]));
        let error = summed(&tensor(&[2], &[1.0f32, 2.0])).unwrap_err().to_string();
        assert_eq!(error, "`weights`: expected 3 f32, got 2 f32");
    }
}
