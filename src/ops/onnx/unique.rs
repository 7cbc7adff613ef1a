//! What is different in a tensor.

use super::fields::Flag;
use super::recipe::{Recipe, Source};
use super::translated::{Translate, entry};
use crate::op::{CpuLayer, ForwardContext, Layer, LayerError, TensorMeta};
use crate::ops::layout::reshaping::Ravel;
use crate::ops::support::arguments::OutputCount;
use crate::tensor::{DType, Dim, Tensor, TensorView, TensorViewMut, resolve_axis};
use std::cmp::Ordering;
use std::collections::BTreeMap;

const X: Source = Source::Input(0);

crate::operator! {
    /// `Unique` (since 11): the different elements of a tensor, or the different slices along an axis; as far as the file
    /// lists them also where each of them is first, which of them stands at each place, and how often each is there. A NaN
    /// is like every other.
    pub struct Unique for "Unique" {
        /// The axis, which may count from the end; where absent, elements are compared, in their order.
        axis: Option<i64> = None,
        /// Whether they are sorted, instead of in the order in which they are first.
        sorted: Flag = Flag::of(1),
        /// How many outputs the file lists.
        outputs: OutputCount,
    }
}

impl Translate for Unique {
    fn num_outputs(&self) -> usize {
        self.outputs.0.clamp(1, 4)
    }

    fn is_data_dependent(&self) -> bool {
        true
    }

    fn translate(&self, recipe: &mut Recipe) -> Result<Vec<Source>, LayerError> {
        let (x, axis) = match self.axis {
            Some(axis) => (X, resolve_axis(axis, recipe.rank(X)?)?),
            None => (recipe.then(Ravel {}, &[X])?, 0),
        };
        let made = recipe.step(Different { axis, is_sorted: self.sorted.0 }, &[x])?;
        Ok((0..self.num_outputs()).map(|output| made.output(output)).collect())
    }
}

/// The different slices along an axis, where each is first, which stands at each place, and how often each is there.
#[derive(Debug, Clone)]
struct Different {
    axis: usize,
    is_sorted: bool,
}

/// Elements of a slice, compared one after the other; NaN is the greatest.
enum Slice {
    Floats(Vec<f64>),
    Integers(Vec<i64>),
}

impl Slice {
    fn of(view: &TensorView<'_>) -> Result<Self, LayerError> {
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

/// A slice that is like no other before it.
struct Found {
    first: usize,
    count: i64,
    /// Its place among the results.
    place: i64,
}

impl Layer for Different {
    fn num_outputs(&self) -> usize {
        4
    }

    fn is_data_dependent(&self) -> bool {
        true
    }

    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>, LayerError> {
        let Some(len) = inputs[0].dims().get(self.axis).cloned() else {
            return Err(LayerError::shape("the input", format!("an axis {}", self.axis), &inputs[0]));
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

impl CpuLayer for Different {
    fn forward(
        &mut self,
        _: &[TensorView<'_>],
        _: &mut [TensorViewMut<'_>],
        _: &mut ForwardContext<'_>,
    ) -> Result<(), LayerError> {
        Err(LayerError::Unsupported("the sizes of `Unique` are only known when it has run".to_owned()))
    }

    fn forward_dynamic(
        &mut self,
        inputs: &[TensorView<'_>],
        context: &mut ForwardContext<'_>,
    ) -> Result<Vec<Tensor>, LayerError> {
        let input = &inputs[0];
        let len = input.shape().get(self.axis).copied().unwrap_or(0);
        let mut found: BTreeMap<Slice, usize> = BTreeMap::new();
        // A map, a list of elements for each slice, and two numbers for each of those.
        let held = (len as u64).saturating_mul(128);
        let held = held.saturating_add((input.num_elements() as u64).saturating_mul(8));
        context.limits().check_tensor("the different slices", held)?;
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
