//! Weights of linear maps in the order in which they are multiplied.

use super::float;
use super::stored::Stored;
use crate::Limits;
use crate::kernels::packed::{Ending, Factors, Panels, Rounded, Size, Target, Words, multiply, round_rows};
use crate::kernels::{gain_of_pairs, isa, multiplies_pairs};
use crate::op::{FieldValue, LayerError, NO_KEY, OperatorReader, RuntimeAttribute, Tactic, TensorMeta};
use crate::ops::matmul::product::storage;
use crate::tensor::{DType, Shape, TensorView};
use std::borrow::Cow;
use std::ops::Range;
use std::sync::{Arc, OnceLock};

/// Products of factors that are rounded to `bf16`, where the processor multiplies pairs of them; sums and results are those of
/// `f32`. Like the precision that it is named after, it is only chosen where it is allowed.
pub(in crate::ops) const BF16: Tactic = Tactic { id: 16, name: "bf16" };

/// Packed weights, which are made once. Clones share them.
#[derive(Debug, Clone, Default)]
pub struct Packed(Arc<OnceLock<Panels>>);

impl FieldValue for Packed {
    const KIND: &'static str = NO_KEY;

    fn read(_: &mut OperatorReader<'_>, _: &'static str) -> Result<Option<Self>, LayerError> {
        Ok(Some(Self::default()))
    }
}

impl Packed {
    /// The weights, which `make` makes where they are not there yet.
    ///
    /// # Errors
    /// Those of `make`.
    pub(in crate::ops) fn get_or_make(
        &self,
        make: impl FnOnce() -> Result<Panels, LayerError>,
    ) -> Result<&Panels, LayerError> {
        if let Some(panels) = self.0.get() {
            return Ok(panels);
        }
        let panels = make()?;
        Ok(self.0.get_or_init(|| panels))
    }

    /// The weights, if they are there.
    pub(in crate::ops) fn get(&self) -> Option<&Panels> {
        self.0.get()
    }
}

/// Weights that are packed before the first run, if they are wanted; a plan stores them, with the numbers of a vector and
/// what is multiplied as the layer's state.
#[derive(Debug, Clone, Default)]
pub struct Early {
    is_wanted: bool,
    /// What was settled to be multiplied.
    words: Words,
    stored: Stored<u8>,
}

impl FieldValue for Early {
    const KIND: &'static str = NO_KEY;

    fn read(reader: &mut OperatorReader<'_>, key: &'static str) -> Result<Option<Self>, LayerError> {
        Ok(Stored::read(reader, key)?.map(|stored| Self { stored, ..Self::default() }))
    }
}

impl Early {
    /// In the state of a layer, beside the numbers of a vector.
    const PAIRS: u8 = 0x40;

    /// The order in which weights are.
    fn order(&self) -> u8 {
        let pairs = if self.words == Words::Pairs { Self::PAIRS } else { 0 };
        isa().lanes() as u8 | pairs
    }

    /// The ways of multiplying with these weights.
    pub(in crate::ops) fn tactics<'a>(
        weights: impl IntoIterator<Item = &'a RuntimeAttribute>,
    ) -> Vec<Tactic> {
        let mut weights = weights.into_iter().peekable();
        let are_single = weights.peek().is_some() && weights.all(|weight| weight.dtype() == DType::F32);
        let bf16 = (are_single && multiplies_pairs()).then_some(BF16);
        [Tactic::DEFAULT].into_iter().chain(bf16).collect()
    }

    /// Settles one of them. What was packed for another is to be forgotten: that is what the answer says.
    ///
    /// # Errors
    /// [`LayerError::Unsupported`] for a number that is not among them.
    pub(in crate::ops) fn settle_tactic(&mut self, id: u32, tactics: &[Tactic]) -> Result<bool, LayerError> {
        if !tactics.iter().any(|tactic| tactic.id == id) {
            return Err(LayerError::Unsupported(format!("there is no tactic {id}")));
        }
        let words = if id == BF16.id { Words::Pairs } else { Words::Singles };
        Ok(std::mem::replace(&mut self.words, words) != words)
    }

    /// Settles whether they are wanted: where an input is of this type. Weights of half the bits are packed by the first run,
    /// so that plans stay as small as they are.
    ///
    /// # Errors
    /// [`LayerError::Unsupported`] where pairs are to be multiplied and these are not `f32` that could be rounded.
    pub(in crate::ops) fn settle<'a>(
        &mut self,
        input: Option<&TensorMeta>,
        weights: impl IntoIterator<Item = &'a RuntimeAttribute>,
    ) -> Result<(), LayerError> {
        let is_f32 = input.is_some_and(|input| input.dtype() == DType::F32 && input.scale().is_none());
        self.is_wanted = is_f32 && weights.into_iter().all(|weight| weight.dtype() == DType::F32);
        match self.words {
            Words::Pairs if !self.is_wanted => {
                Err(LayerError::Unsupported("the tactic bf16 rounds factors of f32".to_owned()))
            }
            _ => Ok(()),
        }
    }

    /// What is multiplied.
    pub(in crate::ops) fn words(&self) -> Words {
        self.words
    }

    /// Numbers of scratch memory in which so many rows and columns of factors are rounded.
    pub(in crate::ops) fn scratch(&self, rows: usize, columns: usize) -> usize {
        match self.words {
            Words::Singles => 0,
            Words::Pairs => Rounded::new(columns).len(rows),
        }
    }

    /// How many times as fast the settled tactic is as products of `f32`, for so many outputs.
    pub(in crate::ops) fn gain(&self, outputs: usize) -> f64 {
        if self.words == Words::Pairs { gain_of_pairs(outputs as f64) } else { 1.0 }
    }

    /// How many numbers are stored of panels of so many outputs and factors.
    pub(in crate::ops) fn len(&self, [outputs, numbers]: [usize; 2]) -> usize {
        Panels::len(isa(), outputs, self.words.count(numbers))
    }

    /// Whether they are.
    pub(in crate::ops) fn is_wanted(&self) -> bool {
        self.is_wanted
    }

    /// What a plan stores of it.
    pub(in crate::ops) fn to_bytes(&self) -> Vec<u8> {
        if self.is_wanted { vec![self.order()] } else { Vec::new() }
    }

    /// Takes over what [`Early::to_bytes`] returned; false for anything else.
    ///
    /// # Errors
    /// [`LayerError::Unsupported`] for pairs, where the processor cannot multiply them.
    pub(in crate::ops) fn restore(&mut self, bytes: &[u8]) -> Result<bool, LayerError> {
        const PAIRS: u8 = 16 | Early::PAIRS;
        let order = match *bytes {
            [] => None,
            [order @ (8 | 16 | PAIRS)] => Some(order),
            _ => return Ok(false),
        };
        self.words = if order == Some(PAIRS) { Words::Pairs } else { Words::Singles };
        if !self.words.are_here() {
            return Err(LayerError::Unsupported(NO_PAIRS.to_owned()));
        }
        self.is_wanted = order.is_some();
        self.stored.settle(order);
        Ok(true)
    }

    /// Panels of so many outputs and factors, whose numbers are stored behind so many others. None where they are not.
    ///
    /// # Errors
    /// Numbers that cannot be read.
    pub(in crate::ops) fn part(
        &self,
        first: usize,
        sizes @ [outputs, numbers]: [usize; 2],
    ) -> Result<Option<Panels>, LayerError> {
        let Some(stored) = self.stored.numbers(&self.order())? else { return Ok(None) };
        let part = stored.narrow(0, first, self.len(sizes)).ok();
        let (kind, depth) = ((isa(), self.words), self.words.count(numbers));
        Ok(part.and_then(|part| Panels::stored(kind, outputs, depth, part)))
    }
}

/// Why a plan's state is refused that rounds factors.
pub(in crate::ops) const NO_PAIRS: &str =
    "products of bf16 need a processor with AVX-512 BF16: build the plan on one like this";

/// Whether products with a weight of this type are sums of `f32`.
pub(in crate::ops) fn suits(dtype: DType) -> bool {
    matches!(dtype, DType::F32 | DType::F16 | DType::Bf16)
}

/// Packs some rows of an O×I weight, and as many elements of a bias. Neither stays decoded that was not before.
///
/// # Errors
/// A weight that cannot be read, or has fewer elements.
pub(in crate::ops) fn pack(
    weight: &RuntimeAttribute,
    bias: Option<&RuntimeAttribute>,
    rows: Range<usize>,
    (features, words): (usize, Words),
) -> Result<Panels, LayerError> {
    pack_parts((weight, rows.clone()), bias.map(|bias| (bias, rows)), (features, words))
}

/// As [`pack`], where the elements of the bias are others than the rows of the weight.
///
/// # Errors
/// As [`pack`].
pub(in crate::ops) fn pack_parts(
    (weight, rows): (&RuntimeAttribute, Range<usize>),
    bias: Option<(&RuntimeAttribute, Range<usize>)>,
    (features, words): (usize, Words),
) -> Result<Panels, LayerError> {
    let weight = weight.load()?;
    let values = float::read::<f32>(&weight.view())?;
    let biases = match bias {
        Some((bias, elements)) => {
            let bias = bias.load()?;
            let biases = float::read::<f32>(&bias.view())?;
            Some(biases.get(elements.clone()).ok_or_else(|| fewer(&elements))?.to_vec())
        }
        None => None,
    };
    let first = rows.start.saturating_mul(features);
    let count = rows.len().saturating_mul(features);
    let values = values.get(first..).and_then(|values| values.get(..count)).ok_or_else(|| fewer(&rows))?;
    let weight = |output: usize, k: usize| values[output * features + k];
    let bias = |output: usize| biases.as_ref().and_then(|biases| biases.get(output)).copied().unwrap_or(0.0);
    Ok(match words {
        Words::Singles => Panels::new(rows.len(), features, weight, bias),
        Words::Pairs => Panels::pairs(rows.len(), features, weight, bias),
    })
}

fn fewer(rows: &Range<usize>) -> LayerError {
    LayerError::Unsupported(format!("weights of fewer rows than {rows:?}"))
}

/// A matrix whose rows lie evenly.
#[derive(Debug, Clone)]
pub(in crate::ops) struct Matrix<'a> {
    pub(in crate::ops) data: Cow<'a, [f32]>,
    pub(in crate::ops) rows: usize,
    pub(in crate::ops) columns: usize,
    /// From one row to the next.
    pub(in crate::ops) row: usize,
}

impl<'a> Matrix<'a> {
    /// A tensor of as many elements as a matrix: in place where the elements of each row lie beside each other and rows lie
    /// evenly.
    ///
    /// # Errors
    /// A tensor that is not computed in `f32`.
    pub(in crate::ops) fn of(view: &TensorView<'a>, rows: usize, columns: usize) -> Result<Self, LayerError> {
        if view.dtype() == DType::F32
            && view.num_elements() > 0
            && let Some(layout) = view.layout().reshape(&Shape::new(&[rows, columns])?)?
            && (layout.strides()[1] == 1 || columns <= 1)
        {
            let data = Cow::Borrowed(storage::<f32>(&view.with_layout(layout)?)?);
            return Ok(Self { data, rows, columns, row: layout.strides()[0] });
        }
        Ok(Self { data: float::read::<f32>(view)?, rows, columns, row: columns })
    }

    /// Writes the products of all rows with packed weights, one row after the other, each `row` numbers from the one before.
    /// Where the weights are pairs, the rows are rounded in scratch memory, of which there must be as much as
    /// [`Early::scratch`] says.
    ///
    /// # Errors
    /// A deadline that has passed; what the ending says; too little scratch memory.
    pub(in crate::ops) fn multiply(
        &self,
        (panels, scratch): (&Panels, &mut [f32]),
        (output, row): (&mut [f32], usize),
        ending: &Ending<'_>,
        limits: &Limits,
    ) -> Result<(), LayerError> {
        let (lanes, pieces) = (panels.lanes(), [0]);
        let (data, piece, distance) = match panels.words() {
            Words::Singles => (&*self.data, self.columns, self.row),
            Words::Pairs => {
                let rounded = Rounded::new(self.columns);
                let (wanted, found) = (rounded.len(self.rows), scratch.len());
                let scratch = scratch.get_mut(..wanted).ok_or(LayerError::Workspace { wanted, found })?;
                round_rows((&self.data, self.row), [self.rows, self.columns], scratch, limits)?;
                (&*scratch, rounded.depth, rounded.row)
            }
        };
        let factors = Factors { data, pieces: &pieces, piece, last: (0, 0), row: distance, line: 0 };
        let last = panels.outputs() - panels.count().saturating_sub(1) * lanes;
        let target = Target { last, row, line: 0, panel: lanes };
        let size = Size { lines: 1, rows: self.rows };
        Ok(multiply(panels, &factors, size, (output, target), ending, limits)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tensor::Tensor;

    #[test]
    fn weights_are_packed_once_and_do_not_stay_decoded() {
        let weight = RuntimeAttribute::random(DType::F32, &[3, 5], 1);
        let (packed, refuse) = (Packed::default(), || Err(fewer(&(0..0))));
        assert!(packed.get_or_make(refuse).is_err());
        let panels = packed.get_or_make(|| pack(&weight, None, 0..3, (5, Words::Singles))).unwrap();
        assert_eq!((panels.outputs(), panels.depth()), (3, 5));
        assert!(packed.clone().get_or_make(refuse).is_ok() && !weight.is_decoded());
        assert!(pack(&weight, None, 2..4, (5, Words::Singles)).is_err());
        let bias = RuntimeAttribute::random(DType::F32, &[2], 1);
        assert!(pack(&weight, Some(&bias), 0..3, (5, Words::Singles)).is_err());
    }

    #[test]
    fn rows_are_multiplied_where_they_lie_if_they_lie_evenly() {
        let tensor = Tensor::from_vec((0u8..24).map(f32::from).collect(), &[4, 6]).unwrap();
        let (view, layout) = (tensor.view(), *tensor.view().layout());
        let narrow = view.with_layout(layout.narrow(1, 1, 3).unwrap()).unwrap();
        let turned = view.with_layout(layout.transpose(0, 1).unwrap()).unwrap();
        let weight =
            RuntimeAttribute::from_tensor(Tensor::from_vec(vec![1.0f32, 10.0, 100.0], &[1, 3]).unwrap());
        let panels = pack(&weight, None, 0..1, (3, Words::Singles)).unwrap();
        for (view, rows, is_borrowed, first) in [(narrow, 4, true, 321.0), (turned, 8, false, 1260.0)] {
            let matrix = Matrix::of(&view, rows, 3).unwrap();
            assert_eq!(matches!(matrix.data, Cow::Borrowed(_)), is_borrowed);
            let mut output = vec![0.0; rows];
            matrix.multiply((&panels, &mut []), (&mut output, 1), &Ending::NONE, &Limits::default()).unwrap();
            assert_eq!(output[0], first);
        }
    }
}
