//! The unique elements of a tensor.

use super::decompose::{Decompose, entry};
use super::decomposition::Decomposition;
use super::fields::Flag;
use super::lowering::Source;
use crate::layout::reshaping::Ravel;
use crate::op::{CpuLayer, ForwardContext, Io, Layer, LayerError, Result, TensorMeta};
use crate::support::arguments::OutputCount;
use ixion_tensor::{DType, Dim, Tensor, TensorView, resolve_axis};
use std::cmp::Ordering;
use std::collections::BTreeMap;

const X: Source = Source::Input(0);

crate::operator! {
    /// `Unique` (since 11): the unique elements of a tensor, or the unique slices along an axis. Further outputs, as
    /// far as the file lists them: the first index of each, the inverse indices, and the counts. All NaNs are equal.
    pub struct Unique for "Unique" {
        /// The axis; a negative one counts from the end. If absent, the elements of the flattened tensor are compared.
        axis: Option<i64> = None,
        /// Whether results are sorted, instead of in order of first occurrence.
        sorted: Flag = Flag::of(1),
        /// Number of outputs that the file lists.
        outputs: OutputCount,
    }
}

impl Decompose for Unique {
    fn num_outputs(&self) -> usize {
        self.outputs.0.clamp(1, 4)
    }

    fn is_data_dependent(&self) -> bool {
        true
    }

    fn decompose(&self, decomposition: &mut Decomposition) -> Result<Vec<Source>> {
        let (x, axis) = match self.axis {
            Some(axis) => (X, resolve_axis(axis, decomposition.rank(X)?)?),
            None => (decomposition.then(Ravel {}, &[X])?, 0),
        };
        let unique = decomposition.step(UniqueSlices { axis, is_sorted: self.sorted.0 }, &[x])?;
        Ok((0..self.num_outputs()).map(|output| unique.output(output)).collect())
    }
}

/// The unique slices along an axis, the first index of each, the inverse indices, and the counts.
#[derive(Debug, Clone)]
struct UniqueSlices {
    axis: usize,
    is_sorted: bool,
}

/// The elements of a slice, compared lexicographically; NaN counts as the largest number.
enum Slice {
    Floats(Vec<f64>),
    Integers(Vec<i64>),
}

impl Slice {
    fn of(view: &TensorView<'_>) -> Result<Self> {
        Ok(match view.dtype().is_float() {
            true => Self::Floats(view.cast(DType::F64)?.to_vec()?),
            false => Self::Integers(view.cast(DType::I64)?.to_vec()?),
        })
    }
}

impl Ord for Slice {
    fn cmp(&self, other: &Self) -> Ordering {
        let compare = |(a, b): (&f64, &f64)| a.partial_cmp(b).unwrap_or(a.is_nan().cmp(&b.is_nan()));
        match (self, other) {
            (Self::Integers(a), Self::Integers(b)) => a.cmp(b),
            (Self::Floats(a), Self::Floats(b)) => {
                let mut orders = a.iter().zip(b).map(compare);
                orders.find(|order| order.is_ne()).unwrap_or(Ordering::Equal)
            }
            (Self::Floats(_), Self::Integers(_)) => Ordering::Less,
            (Self::Integers(_), Self::Floats(_)) => Ordering::Greater,
        }
    }
}

impl PartialOrd for Slice {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Slice {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Slice {}

/// A unique slice.
struct Found {
    first: usize,
    count: i64,
    /// Its index in the output.
    place: i64,
}

impl Layer for UniqueSlices {
    fn num_outputs(&self) -> usize {
        4
    }

    fn is_data_dependent(&self) -> bool {
        true
    }

    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
        let Some(len) = inputs[0].dims().get(self.axis).cloned() else {
            return Err(LayerError::shape(
                "the input",
                format!("at least {} axes", self.axis + 1),
                &inputs[0],
            ));
        };
        if inputs[0].dtype().is_complex() {
            return Err(LayerError::dtype("the input", "real numbers", inputs[0].dtype()));
        }
        let mut dims = inputs[0].dims().to_vec();
        let count = Dim::fresh("different");
        dims[self.axis] = count.clone();
        let vector = |len: Dim| TensorMeta::new(DType::I64, [len]);
        Ok(vec![inputs[0].with_dims(dims), vector(count.clone()), vector(len), vector(count)])
    }
}

impl CpuLayer for UniqueSlices {
    fn forward(&mut self, _: &mut Io<'_, '_>) -> Result<()> {
        Err(LayerError::Unsupported(
            "the output sizes of `Unique` are known only after it has run".to_owned(),
        ))
    }

    fn forward_dynamic(
        &mut self,
        inputs: &[TensorView<'_>],
        context: &mut ForwardContext<'_>,
    ) -> Result<Vec<Tensor>> {
        let input = &inputs[0];
        let len = input.shape().get(self.axis).copied().unwrap_or(0);
        let mut found: BTreeMap<Slice, usize> = BTreeMap::new();
        // An estimate: a map entry, a vector of elements and two indices per slice, and 8 bytes per element.
        let held = (len as u64).saturating_mul(128);
        let held = held.saturating_add((input.num_elements() as u64).saturating_mul(8));
        context.limits().check_tensor("the unique slices", held)?;
        let (mut slices, mut which) = (Vec::<Found>::new(), Vec::with_capacity(len));
        for at in 0..len {
            context.limits().check_deadline()?;
            let slice = input.with_layout(input.layout().select(self.axis, at)?)?;
            let number = *found.entry(Slice::of(&slice)?).or_insert(slices.len());
            match slices.get_mut(number) {
                Some(slice) => slice.count += 1,
                None => slices.push(Found { first: at, count: 1, place: number as i64 }),
            }
            which.push(number);
        }
        let mut order: Vec<usize> = (0..slices.len()).collect();
        if self.is_sorted {
            order = found.into_values().collect();
            order.iter().enumerate().for_each(|(place, &number)| slices[number].place = place as i64);
        }
        let firsts: Vec<i64> = order.iter().map(|&number| slices[number].first as i64).collect();
        let counts: Vec<i64> = order.iter().map(|&number| slices[number].count).collect();
        let which: Vec<i64> = which.into_iter().map(|number| slices[number].place).collect();
        let mut dims = input.shape().to_vec();
        dims[self.axis] = order.len();
        let mut values = Tensor::zeros(input.dtype(), &dims)?;
        let layout = *values.layout();
        for (place, &first) in firsts.iter().enumerate() {
            let slice = input.with_layout(input.layout().select(self.axis, first as usize)?)?;
            let target = values.view_mut()?.with_layout(layout.select(self.axis, place)?)?;
            { target }.copy_from(&slice)?;
        }
        let vector = |values: Vec<i64>| {
            let len = values.len();
            Tensor::from_vec(values, &[len])
        };
        Ok(vec![values, vector(firsts)?, vector(which)?, vector(counts)?])
    }
}

operators! { entry => Unique }
