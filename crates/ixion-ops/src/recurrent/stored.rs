//! The stored weights of all layers of a recurrent network.

use super::Network;
use crate::op::{FieldValue, LayerError, OperatorReader, Result, RuntimeAttribute, TensorMeta};
use crate::support::float;
use ixion_kernels::Float;
use ixion_kernels::recurrent::Weights;
use ixion_tensor::DType;
use ndarray::ArrayView2;
use std::borrow::Cow;

/// The weights of one layer in one direction, as stored in the file.
#[derive(Debug, Clone)]
struct StoredWeights {
    /// The suffix of the keys: `l0`, `l0_reverse`, `l1` and so on.
    suffix: String,
    input: RuntimeAttribute,
    hidden: Option<RuntimeAttribute>,
    biases: [Option<RuntimeAttribute>; 2],
    projection: Option<RuntimeAttribute>,
}

/// The weights of all layers, each followed by its reverse direction if there are two.
#[derive(Debug, Clone, Default)]
pub struct Layers(Vec<StoredWeights>);

impl FieldValue for Layers {
    const KIND: &'static str = "the weights of all layers: `weight_ih_l0`, `weight_hh_l0`, `bias_ih_l0`, `weight_ih_l0_reverse` and so on";

    fn read(reader: &mut OperatorReader<'_>, _: &'static str) -> Result<Option<Self>> {
        let layers = usize::read(reader, "num_layers")?.unwrap_or(1);
        let both = bool::read(reader, "bidirectional")?.unwrap_or(false);
        let mut stored = Vec::new();
        for layer in 0..layers {
            for direction in ["", "_reverse"].iter().take(1 + usize::from(both)) {
                stored.push(StoredWeights::read(reader, format!("l{layer}{direction}"))?);
            }
        }
        Ok(Some(Self(stored)))
    }
}

impl StoredWeights {
    fn read(reader: &mut OperatorReader<'_>, suffix: String) -> Result<Self> {
        let mut attr = |key: &str| reader.attr(format!("{key}_{suffix}"));
        let input = attr("weight_ih");
        let (hidden, projection) = (attr("weight_hh"), attr("weight_hr"));
        let biases = [attr("bias_ih"), attr("bias_hh")];
        // A file may claim any number of layers: reading ends with the first one that is missing.
        let input = input.ok_or_else(|| LayerError::MissingWeight { key: format!("weight_ih_{suffix}") })?;
        Ok(Self { suffix, input, hidden, biases, projection })
    }

    /// The key, the weight, whether it is required, and its expected shape.
    fn wanted(
        &self,
        network: &Network<'_>,
        inputs: usize,
    ) -> [(&'static str, Option<&RuntimeAttribute>, bool, Vec<usize>); 5] {
        let (hidden, outputs) = (network.hidden_size, network.output_size());
        let rows = hidden.saturating_mul(network.cell.gates());
        let [first, second] = &self.biases;
        [
            ("weight_ih", Some(&self.input), true, vec![rows, inputs]),
            ("weight_hh", self.hidden.as_ref(), true, vec![rows, outputs]),
            ("bias_ih", first.as_ref(), network.bias, vec![rows]),
            ("bias_hh", second.as_ref(), network.bias, vec![rows]),
            ("weight_hr", self.projection.as_ref(), network.proj_size > 0, vec![outputs, hidden]),
        ]
    }

    fn check(&self, network: &Network<'_>, inputs: usize) -> Result<()> {
        for (key, weight, needed, shape) in self.wanted(network, inputs) {
            let key = format!("{key}_{}", self.suffix);
            match weight {
                None if needed => return Err(LayerError::MissingWeight { key }),
                Some(_) if !needed => {
                    let (flag, found) =
                        if key.starts_with("bias") { ("bias", "False") } else { ("proj_size", "0") };
                    let reason = format!("the file has a weight `{key}`");
                    return Err(LayerError::InvalidParameter { key: flag, found: found.to_owned(), reason });
                }
                Some(weight) if weight.shape() != shape => {
                    let found = TensorMeta::new(weight.dtype(), weight.shape().iter().copied());
                    let wanted = TensorMeta::new(weight.dtype(), shape);
                    return Err(LayerError::shape(format!("weight `{key}`"), wanted, found));
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn all(&self) -> impl Iterator<Item = &RuntimeAttribute> {
        let beside = [&self.hidden, &self.biases[0], &self.biases[1], &self.projection];
        std::iter::once(&self.input).chain(beside.into_iter().flatten())
    }
}

impl Layers {
    /// Creates the layers from a list with `each` weights per layer and direction: of the input, of the state, the biases
    /// and the projection.
    pub(super) fn of_list(weights: &[RuntimeAttribute], each: usize, bias: bool, directions: usize) -> Self {
        let stored = |(index, part): (usize, &[RuntimeAttribute])| {
            let [input, rest @ ..] = part else { return None };
            let (hidden, rest) = (rest.first().cloned(), rest.get(1..).unwrap_or_default());
            let (biases, rest) = rest.split_at_checked(if bias { 2 } else { 0 }).unwrap_or_default();
            let reverse = if index % directions == 1 { "_reverse" } else { "" };
            Some(StoredWeights {
                suffix: format!("l{}{reverse}", index / directions),
                input: input.clone(),
                hidden,
                biases: [biases.first().cloned(), biases.get(1).cloned()],
                projection: rest.first().cloned(),
            })
        };
        Self(weights.chunks(each.max(1)).enumerate().filter_map(stored).collect())
    }

    /// The weights of all layers, in the order in which they run.
    pub fn attributes(&self) -> impl Iterator<Item = &RuntimeAttribute> {
        self.0.iter().flat_map(StoredWeights::all)
    }

    /// The positions of the weights of a layer in one direction among [`Layers::attributes`]: of the input, of the state,
    /// the two biases and the projection.
    pub fn places(&self, index: usize) -> [Option<usize>; 5] {
        let mut next: usize = self.0.iter().take(index).map(|stored| stored.all().count()).sum();
        let mut place = |is_there: bool| {
            next += usize::from(is_there);
            is_there.then(|| next - 1)
        };
        let Some(stored) = self.0.get(index) else { return [None; 5] };
        [
            place(true),
            place(stored.hidden.is_some()),
            place(stored.biases[0].is_some()),
            place(stored.biases[1].is_some()),
            place(stored.projection.is_some()),
        ]
    }

    /// Checks that the weights are those that the parameters require, of the right shapes.
    pub(super) fn check(&self, network: &Network<'_>) -> Result<()> {
        for (index, stored) in self.0.iter().enumerate() {
            stored.check(network, network.inputs_of(index / network.directions()))?;
        }
        Ok(())
    }

    /// Checks that the weights have the input's type, or f32 if that is half precision.
    pub(super) fn check_dtype(&self, input: DType) -> Result<()> {
        let is_half = matches!(input, DType::F16 | DType::Bf16);
        let fits = |dtype: DType| dtype == input || (is_half && dtype == DType::F32);
        match self.0.iter().flat_map(StoredWeights::all).find(|weight| !fits(weight.dtype())) {
            None => Ok(()),
            Some(other) => Err(LayerError::DType {
                what: "the weights".to_owned(),
                wanted: input.to_string(),
                found: other.dtype(),
            }),
        }
    }

    /// The number of weights of the largest layer in one direction, which a run holds if it converts half precision.
    pub(super) fn largest(&self) -> usize {
        let len =
            |weight: &RuntimeAttribute| weight.shape().iter().fold(1, |n: usize, &len| n.saturating_mul(len));
        let sum = |stored: &StoredWeights| stored.all().map(len).fold(0, usize::saturating_add);
        self.0.iter().map(sum).max().unwrap_or(0)
    }

    /// The elements of the weights of the `index`th layer and direction.
    pub(super) fn read<T: Float>(&self, index: usize) -> Result<Read<'_, T>> {
        let missing = |key: &str| LayerError::MissingWeight { key: key.to_owned() };
        let stored = self.0.get(index).ok_or_else(|| missing("weight_ih"))?;
        let hidden = stored.hidden.as_ref().ok_or_else(|| missing("weight_hh"))?;
        Ok(Read {
            rows: hidden.shape().first().copied().unwrap_or(0),
            input: values::<T>(&stored.input)?,
            hidden: values::<T>(hidden)?,
            biases: optional::<T>(&stored.biases[0])?.zip(optional::<T>(&stored.biases[1])?),
            projection: optional::<T>(&stored.projection)?,
        })
    }
}

fn values<T: Float>(weight: &RuntimeAttribute) -> Result<Cow<'_, [T]>> {
    float::read::<T>(&weight.decode()?.view())
}

fn optional<T: Float>(weight: &Option<RuntimeAttribute>) -> Result<Option<Cow<'_, [T]>>> {
    weight.as_ref().map(values).transpose()
}

/// The elements of a weight, borrowed unless they are converted.
type Elements<'a, T> = Cow<'a, [T]>;

/// The elements of the weights of one layer in one direction.
pub(super) struct Read<'a, T: Float> {
    rows: usize,
    input: Elements<'a, T>,
    hidden: Elements<'a, T>,
    biases: Option<(Elements<'a, T>, Elements<'a, T>)>,
    projection: Option<Elements<'a, T>>,
}

impl<T: Float> Read<'_, T> {
    /// The weights as matrices, for `hidden` hidden units.
    pub(super) fn matrices(&self, hidden: usize) -> Result<Weights<'_, T>> {
        let matrix = |values: &'_ [T], rows: usize| (rows, values.len() / rows.max(1));
        let projection = self.projection.as_deref();
        let projection =
            projection.map(|values| ArrayView2::from_shape((values.len() / hidden.max(1), hidden), values));
        Ok(Weights {
            input: ArrayView2::from_shape(matrix(&self.input, self.rows), &self.input)?,
            hidden: ArrayView2::from_shape(matrix(&self.hidden, self.rows), &self.hidden)?,
            biases: self.biases.as_ref().map(|(first, second)| [&first[..], &second[..]]),
            projection: projection.transpose()?,
        })
    }
}
