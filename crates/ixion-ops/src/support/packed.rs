//! Weights of linear maps, packed in the order in which they are multiplied.

use super::float;
use super::halves::{lend, rows_at_a_time};
use super::packed_weights::PackedWeights;
use crate::matmul::product::storage;
use crate::op::{
    FieldValue, LayerError, NO_KEY, OperatorReader, Result, RuntimeAttribute, Tactic, TensorMeta, Written,
    state,
};
use ixion_kernels::packed::{
    Factors, Packing, Panels, Rounded, Size, SumEpilogue, Target, multiply, round_rows,
};
use ixion_kernels::parallel::for_each_chunk;
use ixion_kernels::{gain_of_pairs, isa, multiplies_pairs};
use ixion_tensor::{DType, Half, Limits, Shape, TensorView, TensorViewMut, bf16, f16};
use std::borrow::Cow;
use std::ops::Range;
use std::sync::{Arc, OnceLock};

/// Products of factors that are rounded to `bf16`, on processors that multiply pairs of them; sums and results are `f32`.
/// It is only selected if the precision of the same name is allowed.
pub(crate) const BF16: Tactic = Tactic { id: 16, name: "bf16" };

/// Packed weights, created on first use. Clones share them.
#[derive(Debug, Clone, Default)]
pub struct Packed(Arc<OnceLock<Panels>>);

state! { Packed }

impl Packed {
    /// Returns the packed weights; the first call creates them with `make`.
    ///
    /// # Errors
    /// The error of `make`.
    pub(crate) fn get_or_make(&self, make: impl FnOnce() -> Result<Panels>) -> Result<&Panels> {
        if let Some(panels) = self.0.get() {
            return Ok(panels);
        }
        let panels = make()?;
        Ok(self.0.get_or_init(|| panels))
    }

    /// The packed weights, if they have been created.
    pub(crate) fn get(&self) -> Option<&Panels> {
        self.0.get()
    }
}

/// Weights that are packed before the first run, if enabled. A plan stores them, and the number of vector lanes and the
/// packing as the layer's state.
#[derive(Debug, Clone, Default)]
pub struct Early {
    is_wanted: bool,
    /// The packing that the selected tactic uses.
    packing: Packing,
    stored: PackedWeights<u8>,
}

impl FieldValue for Early {
    const KIND: &'static str = NO_KEY;

    fn read(reader: &mut OperatorReader<'_>, key: &'static str) -> Result<Option<Self>> {
        Ok(PackedWeights::read(reader, key)?.map(|stored| Self { stored, ..Self::default() }))
    }

    fn written(&self) -> Written {
        Written::Nothing
    }
}

impl Early {
    /// The flag for bf16 pairs in a layer's state, combined with the number of vector lanes.
    const PAIRS: u8 = 0x40;

    /// The packing order: the number of vector lanes and the flag `PAIRS`.
    fn order(&self) -> u8 {
        let pairs = if self.packing == Packing::Bf16Pairs { Self::PAIRS } else { 0 };
        isa().lanes() as u8 | pairs
    }

    /// The tactics for multiplying with these weights.
    pub(crate) fn tactics<'a>(weights: impl IntoIterator<Item = &'a RuntimeAttribute>) -> Vec<Tactic> {
        let mut weights = weights.into_iter().peekable();
        let are_single = weights.peek().is_some() && weights.all(|weight| weight.dtype() == DType::F32);
        let bf16 = (are_single && multiplies_pairs()).then_some(BF16);
        [Tactic::DEFAULT].into_iter().chain(bf16).collect()
    }

    /// Selects one of the tactics. Returns true if weights that were packed for another tactic must be discarded.
    ///
    /// # Errors
    /// [`LayerError::Unsupported`] if `id` is not among `tactics`.
    pub(crate) fn select_tactic(&mut self, id: u32, tactics: &[Tactic]) -> Result<bool> {
        if !tactics.iter().any(|tactic| tactic.id == id) {
            return Err(LayerError::Unsupported(format!("unknown tactic {id}")));
        }
        let packing = if id == BF16.id { Packing::Bf16Pairs } else { Packing::F32 };
        Ok(std::mem::replace(&mut self.packing, packing) != packing)
    }

    /// Enables packing before the first run if the input and all weights are `f32`. Half-precision weights are packed by the
    /// first run instead, which keeps plans small.
    ///
    /// # Errors
    /// [`LayerError::Unsupported`] if the bf16 tactic is selected and the input or a weight is not `f32`.
    pub(crate) fn configure<'a>(
        &mut self,
        input: Option<&TensorMeta>,
        weights: impl IntoIterator<Item = &'a RuntimeAttribute>,
    ) -> Result<()> {
        let is_f32 = input.is_some_and(|input| input.dtype() == DType::F32 && input.scale().is_none());
        self.is_wanted = is_f32 && weights.into_iter().all(|weight| weight.dtype() == DType::F32);
        match self.packing {
            Packing::Bf16Pairs if !self.is_wanted => Err(LayerError::Unsupported(
                "the tactic bf16 requires an f32 input and f32 weights".to_owned(),
            )),
            _ => Ok(()),
        }
    }

    /// The selected packing.
    pub(crate) fn packing(&self) -> Packing {
        self.packing
    }

    /// The scratch memory, in `f32` elements, in which a matrix of factors is rounded.
    pub(crate) fn scratch(&self, rows: usize, columns: usize) -> usize {
        match self.packing {
            Packing::F32 => 0,
            Packing::Bf16Pairs => Rounded::new(columns).len(rows),
        }
    }

    /// The speedup of the selected tactic over `f32` products, for this number of outputs.
    pub(crate) fn gain(&self, outputs: usize) -> f64 {
        if self.packing == Packing::Bf16Pairs { gain_of_pairs(outputs as f64) } else { 1.0 }
    }

    /// The number of elements that panels with this number of outputs and factors store.
    pub(crate) fn len(&self, [outputs, numbers]: [usize; 2]) -> usize {
        Panels::len(isa(), outputs, self.packing.count(numbers))
    }

    /// Returns true if the weights are packed before the first run.
    pub(crate) fn is_wanted(&self) -> bool {
        self.is_wanted
    }

    /// The state that a plan stores.
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        if self.is_wanted { vec![self.order()] } else { Vec::new() }
    }

    /// Restores the state from the bytes of [`Early::to_bytes`]. Returns false for any other bytes.
    ///
    /// # Errors
    /// [`LayerError::Unsupported`] for bf16 pairs, if the processor cannot multiply them.
    pub(crate) fn restore(&mut self, bytes: &[u8]) -> Result<bool> {
        const PAIRS: u8 = 16 | Early::PAIRS;
        let order = match *bytes {
            [] => None,
            [order @ (8 | 16 | PAIRS)] => Some(order),
            _ => return Ok(false),
        };
        self.packing = if order == Some(PAIRS) { Packing::Bf16Pairs } else { Packing::F32 };
        if !self.packing.are_supported() {
            return Err(LayerError::Unsupported(NO_PAIRS.to_owned()));
        }
        self.is_wanted = order.is_some();
        self.stored.set_order(order);
        Ok(true)
    }

    /// The stored panels of this number of outputs and factors that begin at element `first`; `None` if they are not stored.
    ///
    /// # Errors
    /// Returns an error if the stored weights cannot be read.
    pub(crate) fn part(
        &self,
        first: usize,
        sizes @ [outputs, numbers]: [usize; 2],
    ) -> Result<Option<Panels>> {
        let Some(stored) = self.stored.numbers(&self.order())? else { return Ok(None) };
        let part = stored.narrow(0, first, self.len(sizes)).ok();
        let (kind, depth) = ((isa(), self.packing), self.packing.count(numbers));
        Ok(part.and_then(|part| Panels::stored(kind, outputs, depth, part)))
    }
}

/// The error for a plan that multiplies bf16 pairs on a processor that cannot.
pub(crate) const NO_PAIRS: &str = "the plan multiplies bf16 pairs, which requires a processor with AVX-512 BF16: build it on a machine like this one";

/// Returns true if products with a weight of this type are accumulated in `f32`.
pub(crate) fn suits(dtype: DType) -> bool {
    matches!(dtype, DType::F32 | DType::F16 | DType::Bf16)
}

/// Packs some rows of an O×I weight and the same elements of a bias. Neither stays decoded unless it was before.
///
/// # Errors
/// Returns an error if the weight or the bias cannot be read or has too few elements.
pub(crate) fn pack(
    weight: &RuntimeAttribute,
    bias: Option<&RuntimeAttribute>,
    rows: Range<usize>,
    (features, packing): (usize, Packing),
) -> Result<Panels> {
    pack_parts((weight, rows.clone()), bias.map(|bias| (bias, rows)), (features, packing))
}

/// The number of elements of a weight that are read and packed at a time: few enough that they stay in the second-level cache.
const STRIP: usize = 1 << 15;

/// As [`pack`], with a range of bias elements that differs from the rows of the weight. The rows of a file are never all in
/// memory: some are read and packed at a time.
///
/// # Errors
/// As [`pack`].
pub(crate) fn pack_parts(
    (weight, rows): (&RuntimeAttribute, Range<usize>),
    bias: Option<(&RuntimeAttribute, Range<usize>)>,
    (features, packing): (usize, Packing),
) -> Result<Panels> {
    let len = weight.shape().iter().fold(1usize, |len, &dim| len.saturating_mul(dim));
    if rows.end.saturating_mul(features) > len {
        return Err(fewer(&rows));
    }
    let whole = if weight.has_parts() { None } else { Some(weight.load()?) };
    let whole = whole.as_ref().map(|whole| float::read::<f32>(&whole.view())).transpose()?;
    let mut panels = Panels::unpacked(packing, rows.len(), features)?;
    if let Some((bias, elements)) = bias {
        let bias = bias.load()?;
        let biases = float::read::<f32>(&bias.view())?;
        panels.set_biases(biases.get(elements.clone()).ok_or_else(|| fewer(&elements))?);
    }
    let strip = (STRIP / features.max(1)).max(1).next_multiple_of(panels.lanes());
    for first in (0..rows.len()).step_by(strip) {
        let end = first.saturating_add(strip).min(rows.len());
        let elements = (rows.start + first) * features..(rows.start + end) * features;
        if let Some(whole) = &whole {
            let values = whole.get(elements).ok_or_else(|| fewer(&rows))?;
            panels.pack_rows(first, values, features);
        } else {
            let part = weight.load_part(elements)?;
            panels.pack_rows(first, &float::read::<f32>(&part.view())?, features);
        }
    }
    Ok(panels)
}

fn fewer(rows: &Range<usize>) -> LayerError {
    LayerError::Unsupported(format!("the weights have fewer rows than {rows:?}"))
}

/// A matrix whose rows are evenly spaced.
#[derive(Debug, Clone)]
pub(crate) struct Matrix<'a> {
    pub(crate) data: Cow<'a, [f32]>,
    pub(crate) rows: usize,
    pub(crate) columns: usize,
    /// The number of elements from one row to the next.
    pub(crate) row: usize,
}

impl<'a> Matrix<'a> {
    /// A tensor as a matrix of the same number of elements. It is borrowed if rows are contiguous and evenly spaced, else
    /// copied.
    ///
    /// # Errors
    /// Returns an error if the tensor is not computed in `f32`.
    pub(crate) fn of(view: &TensorView<'a>, rows: usize, columns: usize) -> Result<Self> {
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

    /// Writes the products of all rows with packed weights, row by row; output rows are `row` elements apart. For bf16 pairs,
    /// the rows are first rounded in scratch memory, which must hold [`Early::scratch`] elements.
    ///
    /// # Errors
    /// Returns an error if the deadline has passed or the epilogue fails; [`LayerError::Workspace`] if there is too little
    /// scratch memory.
    pub(crate) fn multiply(
        &self,
        (panels, scratch): (&Panels, &mut [f32]),
        (output, row): (&mut [f32], usize),
        epilogue: &SumEpilogue<'_>,
        limits: &Limits,
    ) -> Result<()> {
        let (lanes, pieces) = (panels.lanes(), [0]);
        let (data, piece, distance) = match panels.packing() {
            Packing::F32 => (&*self.data, self.columns, self.row),
            Packing::Bf16Pairs => {
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
        Ok(multiply(panels, &factors, size, (output, target), epilogue, limits)?)
    }
}

/// Writes the products of all rows of an input with packed weights, row by row, if the input and the output are contiguous
/// and in half precision, and the weights are not rounded to pairs. Otherwise, it returns false.
///
/// # Errors
/// Returns an error if the deadline has passed.
pub(crate) fn multiply_halves(
    input: &TensorView<'_>,
    panels: &Panels,
    output: &mut TensorViewMut<'_>,
    limits: &Limits,
) -> Result<bool> {
    let are_contiguous = input.layout().is_contiguous() && output.layout().is_contiguous();
    if panels.packing() != Packing::F32 || input.dtype() != output.dtype() || !are_contiguous {
        return Ok(false);
    }
    match output.dtype() {
        DType::F16 => multiply_halves_of::<f16>(input.slice()?, panels, output.slice()?, limits)?,
        DType::Bf16 => multiply_halves_of::<bf16>(input.slice()?, panels, output.slice()?, limits)?,
        _ => return Ok(false),
    }
    Ok(true)
}

fn multiply_halves_of<H: Half>(
    input: &[H],
    panels: &Panels,
    output: &mut [H],
    limits: &Limits,
) -> Result<()> {
    let (columns, outputs) = (panels.depth(), panels.outputs());
    for_each_chunk(output, rows_at_a_time(columns + outputs) * outputs, &|start, output: &mut [H]| {
        let (first, rows) = (start / outputs * columns, output.len() / outputs);
        lend([rows * columns, output.len()], |factors, sums| {
            H::load_all(&input[first..], factors);
            let matrix = Matrix { data: Cow::Borrowed(factors), rows, columns, row: columns };
            matrix.multiply((panels, &mut []), (sums, outputs), &SumEpilogue::NONE, limits)?;
            H::store_all(sums, output);
            Ok(())
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use ixion_tensor::Tensor;

    #[test]
    fn weights_are_packed_once_and_do_not_stay_decoded() {
        let weight = RuntimeAttribute::random(DType::F32, &[3, 5], 1);
        let (packed, refuse) = (Packed::default(), || Err(fewer(&(0..0))));
        assert!(packed.get_or_make(refuse).is_err());
        let panels = packed.get_or_make(|| pack(&weight, None, 0..3, (5, Packing::F32))).unwrap();
        assert_eq!((panels.outputs(), panels.depth()), (3, 5));
        assert!(packed.clone().get_or_make(refuse).is_ok() && !weight.is_decoded());
        assert!(pack(&weight, None, 2..4, (5, Packing::F32)).is_err());
        let bias = RuntimeAttribute::random(DType::F32, &[2], 1);
        assert!(pack(&weight, Some(&bias), 0..3, (5, Packing::F32)).is_err());
    }

    #[test]
    fn weights_of_a_file_are_packed_in_strips() {
        let is_right = |packing: Packing, [outputs, features]: [usize; 2], rows: Range<usize>| {
            let values: Vec<f32> = (0..outputs * features).map(|i| (i % 251) as f32).collect();
            let bias = RuntimeAttribute::random(DType::F32, &[outputs, 1], 1);
            let in_file = ixion_pnnx::Attribute::from_f32s(vec![outputs, features], &values).unwrap();
            let in_file = RuntimeAttribute::from_file(in_file);
            let biases = bias.to_vec::<f32>().unwrap();
            let (start, count) = (rows.start, rows.len());
            let packed = pack(&in_file, Some(&bias), rows, (features, packing)).unwrap();
            let weight = |output: usize, k: usize| values[(start + output) * features + k];
            let bias = |output: usize| biases[start + output];
            let wanted = match packing {
                Packing::F32 => Panels::new(count, features, weight, bias),
                Packing::Bf16Pairs => Panels::pairs(count, features, weight, bias),
            };
            let bits = |panels: &Panels| panels.numbers().iter().map(|x| x.to_bits()).collect::<Vec<_>>();
            !in_file.is_decoded() && packed.packing() == packing && bits(&packed) == bits(&wanted)
        };
        for packing in [Packing::F32, Packing::Bf16Pairs] {
            if packing.are_supported() {
                // One strip; several of one panel or of many; an odd number of features.
                for sizes @ [outputs, _] in [[3, 5], [20, STRIP], [2500, 65]] {
                    assert!(is_right(packing, sizes, 0..outputs), "{packing:?}, {sizes:?}");
                    assert!(is_right(packing, sizes, 1..outputs - 1), "{packing:?}, {sizes:?}");
                }
            }
        }
    }

    #[test]
    fn missing_weights_are_reported_before_memory_is_reserved_for_them() {
        let text = "7767517\n3 2\npnnx.Input in 0 1 x\n\
            nn.Linear a 1 1 x y @weight=(1099511627776,262144)f32\npnnx.Output out 1 0 y\n";
        let limits = Limits { max_tensor_bytes: u64::MAX, max_total_bytes: u64::MAX, ..Limits::default() };
        let graph = ixion_pnnx::Graph::parse(text, &limits).unwrap();
        let attribute = graph.operator(graph.operator_named("a").unwrap()).attr("weight").unwrap();
        let weight = RuntimeAttribute::from_file(attribute.clone());
        let packed = pack(&weight, None, 0..1 << 40, (1 << 18, Packing::F32));
        assert!(matches!(packed, Err(LayerError::Weight(_))), "{packed:?}");
    }

    #[test]
    fn halves_give_the_products_of_their_numbers() {
        let weight = Tensor::from_vec(vec![1.0f32, 2.0, -1.0, 3.0], &[2, 2]).unwrap();
        let weight = RuntimeAttribute::from_tensor(weight);
        let (panels, limits) = (pack(&weight, None, 0..2, (2, Packing::F32)).unwrap(), Limits::default());
        for (dtype, rows) in [(DType::F16, 1), (DType::F16, 70_000), (DType::Bf16, 5), (DType::F32, 1)] {
            // The results of small integers are exact.
            let numbers = (0..rows * 2).map(|i| (i % 5) as f32 - 2.0).collect();
            let input = Tensor::from_vec::<f32>(numbers, &[rows, 2]).unwrap().cast(dtype).unwrap();
            let mut output = Tensor::zeros(dtype, &[rows, 2]).unwrap();
            let is_done =
                multiply_halves(&input.view(), &panels, &mut output.view_mut().unwrap(), &limits).unwrap();
            assert_eq!(is_done, dtype != DType::F32);
            if is_done {
                let (mut wanted, epilogue) = (vec![0.0; rows * 2], SumEpilogue::NONE);
                let matrix = Matrix::of(&input.view(), rows, 2).unwrap();
                matrix.multiply((&panels, &mut []), (&mut wanted, 2), &epilogue, &limits).unwrap();
                assert_eq!(output.cast(DType::F32).unwrap().to_vec::<f32>().unwrap(), wanted);
            }
        }
    }

    #[test]
    fn evenly_spaced_rows_are_multiplied_in_place() {
        let tensor = Tensor::from_vec((0u8..24).map(f32::from).collect(), &[4, 6]).unwrap();
        let (view, layout) = (tensor.view(), *tensor.view().layout());
        let narrow = view.with_layout(layout.narrow(1, 1, 3).unwrap()).unwrap();
        let turned = view.with_layout(layout.transpose(0, 1).unwrap()).unwrap();
        let weight =
            RuntimeAttribute::from_tensor(Tensor::from_vec(vec![1.0f32, 10.0, 100.0], &[1, 3]).unwrap());
        let panels = pack(&weight, None, 0..1, (3, Packing::F32)).unwrap();
        for (view, rows, is_borrowed, first) in [(narrow, 4, true, 321.0), (turned, 8, false, 1260.0)] {
            let matrix = Matrix::of(&view, rows, 3).unwrap();
            assert_eq!(matches!(matrix.data, Cow::Borrowed(_)), is_borrowed);
            let mut output = vec![0.0; rows];
            matrix
                .multiply((&panels, &mut []), (&mut output, 1), &SumEpilogue::NONE, &Limits::default())
                .unwrap();
            assert_eq!(output[0], first);
        }
    }
}
