//! Largest and smallest elements and their positions: max, min, argmax, argmin, topk.

mod select;

use crate::op::{CpuLayer, Io, Layer, LayerError, Result, TensorMeta};
use crate::reduction::along_axes::{Axes, extreme_of_all, workspace};
use crate::support::arguments::OutputCount;
use crate::support::broadcast::Converted;
use crate::support::delegation::delegating;
use crate::support::order::{First, Ordered, first_in_order, keys};
use crate::support::rows::{Rows, write_places, write_values};
use crate::support::views::Plain;
use ixion_kernels::reduce::extremes::along_axis;
use ixion_kernels::widest;
use ixion_tensor::{DType, Dim, Element, Limits, Tensor, TensorView, TensorViewMut, resolve_axis};
use select::select;

/// Runs an expression with `$T` bound to the type in which elements are compared.
macro_rules! with_order {
    ($dtype:expr, $T:ident => $body:expr) => {
        match $dtype {
            $crate::tensor::DType::F32 | $crate::tensor::DType::F16 | $crate::tensor::DType::Bf16 => {
                type $T = f32;
                $body
            }
            $crate::tensor::DType::F64 => {
                type $T = f64;
                $body
            }
            $crate::tensor::DType::C32 | $crate::tensor::DType::C64 | $crate::tensor::DType::C128 => {
                Err($crate::reduction::extremes::no_order($dtype))
            }
            _ => {
                type $T = i64;
                $body
            }
        }
    };
}

pub(crate) use with_order;

pub(crate) fn no_order(found: DType) -> LayerError {
    LayerError::dtype("the input", "real numbers (complex numbers have no order)", found)
}

pub(crate) fn check_order(input: &TensorMeta) -> Result<()> {
    if input.dtype().is_complex() { Err(no_order(input.dtype())) } else { Ok(()) }
}

/// The descriptions of two outputs: elements, and their positions.
pub(crate) fn with_places(elements: TensorMeta) -> Vec<TensorMeta> {
    let places = elements.with_dtype(DType::I64);
    vec![elements, places]
}

/// Writes the elements at these positions of each row, and the positions if there is an output for them.
pub(crate) fn write_both(
    rows: &TensorView<'_>,
    len: usize,
    places: Vec<i64>,
    outputs: &mut [TensorViewMut<'_>],
) -> Result<()> {
    write_values(rows, len, &places, &mut outputs[0])?;
    outputs.get_mut(1).map_or(Ok(()), |output| write_places(places, output))
}

/// Elements of rows between checks of the deadline.
const BETWEEN_CHECKS: usize = 1 << 16;

/// The positions that `pick` returns for each row of `len` elements, concatenated.
///
/// # Errors
/// Returns an error if the deadline has passed.
pub(crate) fn places<T: ixion_tensor::Element>(
    rows: &TensorView<'_>,
    len: usize,
    limits: &Limits,
    pick: impl Fn(&[T]) -> Vec<usize>,
) -> Result<Vec<i64>> {
    places_by(rows, len, limits, &pick)
}

/// As [`places`], but compiled once for each `T`, not for each `pick`.
fn places_by<T: ixion_tensor::Element>(
    rows: &TensorView<'_>,
    len: usize,
    limits: &Limits,
    pick: &dyn Fn(&[T]) -> Vec<usize>,
) -> Result<Vec<i64>> {
    let values = Converted::of(rows, T::DTYPE)?;
    let values = values.view();
    let (values, mut places) = (Plain::of(&values)?, Vec::new());
    let len = len.max(1);
    for rows in values.view().slice::<T>()?.chunks(BETWEEN_CHECKS.next_multiple_of(len)) {
        limits.check_deadline()?;
        rows.chunks_exact(len).for_each(|row| add_places(&mut places, pick(row)));
    }
    Ok(places)
}

fn add_places(places: &mut Vec<i64>, picked: Vec<usize>) {
    places.extend(picked.into_iter().map(|place| place as i64));
}

/// The extremes along an axis, or that of all elements, in the type in which they are compared, and their positions.
fn extremes(
    first: First,
    dim: Option<i64>,
    input: &TensorView<'_>,
    limits: &Limits,
) -> Result<(Tensor, Vec<i64>)> {
    with_order!(input.dtype(), T => extremes_in::<T>(first, dim, input, limits))
}

fn extremes_in<T: Element + PartialOrd>(
    first: First,
    dim: Option<i64>,
    input: &TensorView<'_>,
    limits: &Limits,
) -> Result<(Tensor, Vec<i64>)> {
    let axes = Axes::along(dim, false, input.shape().rank())?;
    let (len, rows) = (axes.len(input.shape()), axes.rows(input)?);
    // Elements along the axis need not be adjacent, but reading them in the order of memory is faster than moving them.
    let (view, inner) = match dim {
        Some(dim) if !rows.layout().is_contiguous() => {
            let axis = resolve_axis(dim, input.shape().rank())?;
            (*input, input.shape().iter().skip(axis + 1).product::<usize>())
        }
        _ => (rows, 1),
    };
    let values = Converted::of(&view, T::DTYPE)?;
    let values = values.view();
    let values = Plain::of(&values)?;
    let count = input.num_elements() / len.max(1);
    let (mut extremes, mut places) = (vec![T::default(); count], vec![0; count]);
    let blocks = (BETWEEN_CHECKS / (len * inner).max(1)).max(1);
    let (from, to) = ((blocks * len * inner).max(1), (blocks * inner).max(1));
    let results = extremes.chunks_mut(to).zip(places.chunks_mut(to));
    for (values, (extremes, places)) in values.view().slice::<T>()?.chunks(from).zip(results) {
        limits.check_deadline()?;
        along_axis(values, (len, inner), first == First::Largest, extremes, places);
    }
    Ok((Tensor::from_vec(extremes, &[count])?, places))
}

delegating! {
    {
        /// The axis; by default all axes. A negative value counts from the end.
        dim: Option<i64> = None,
        /// Whether to keep the axis, with length 1.
        keepdim: bool = false,
        /// The number of outputs that the file lists: with `dim`, the positions may be omitted.
        outputs: OutputCount,
    }

    /// `torch.max`: the largest element.
    ///
    /// If there is a NaN, it is the result. With `dim`, there is a second output: the position of the result, the first
    /// one of equal elements.
    Max for "torch.max"
    |max| Extremes { first: First::Largest, dim: max.dim, keepdim: max.keepdim, outputs: max.outputs.0 };

    /// `torch.min`: the smallest element.
    ///
    /// If there is a NaN, it is the result. With `dim`, there is a second output: the position of the result, the first
    /// one of equal elements.
    Min for "torch.min"
    |min| Extremes { first: First::Smallest, dim: min.dim, keepdim: min.keepdim, outputs: min.outputs.0 };
}

/// Extremes along an axis, with their positions if there is an output for them, or the extreme of all elements.
#[derive(Debug, Clone)]
struct Extremes {
    first: First,
    dim: Option<i64>,
    keepdim: bool,
    outputs: usize,
}

impl Layer for Extremes {
    fn num_outputs(&self) -> usize {
        if self.dim.is_some() { self.outputs.clamp(1, 2) } else { 1 }
    }

    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
        check_order(&inputs[0])?;
        let axes = Axes::along(self.dim, self.keepdim, inputs[0].rank())?;
        axes.check_not_empty(&inputs[0])?;
        let mut outputs = with_places(inputs[0].with_dims(axes.dims(&inputs[0])));
        outputs.truncate(self.num_outputs());
        Ok(outputs)
    }
}

impl CpuLayer for Extremes {
    fn forward(&mut self, io: &mut Io<'_, '_>) -> Result<()> {
        if self.dim.is_none() {
            let is_largest = self.first == First::Largest;
            return extreme_of_all(is_largest, &io.inputs[0], &mut io.outputs[0], &mut io.context);
        }
        let (extremes, places) = extremes(self.first, self.dim, &io.inputs[0], io.context.limits())?;
        let shape = *io.outputs[0].shape();
        io.outputs[0].cast_from(&extremes.reshape(&shape)?.view())?;
        io.outputs.get_mut(1).map_or(Ok(()), |output| write_places(places, output))
    }

    fn workspace(&self, _: &[TensorMeta], outputs: &[TensorMeta]) -> usize {
        if self.dim.is_none() { workspace(outputs) } else { 0 }
    }
}

delegating! {
    {
        /// The axis; a negative value counts from the end. By default the input is flattened.
        dim: Option<i64> = None,
        /// Whether to keep the reduced axes, with length 1.
        keepdim: bool = false,
    }

    /// `torch.argmax`: the position of the first largest element.
    /// If there is a NaN, it is the position of the first NaN.
    Argmax for "torch.argmax", "aten::argmax"
    |layer| PlacesOfExtremes { first: First::Largest, dim: layer.dim, keepdim: layer.keepdim };

    /// `torch.argmin`: the position of the first smallest element.
    /// If there is a NaN, it is the position of the first NaN.
    Argmin for "torch.argmin", "aten::argmin"
    |layer| PlacesOfExtremes { first: First::Smallest, dim: layer.dim, keepdim: layer.keepdim };
}

/// The positions of extremes along an axis, or of the extreme of all elements.
#[derive(Debug, Clone)]
struct PlacesOfExtremes {
    first: First,
    dim: Option<i64>,
    keepdim: bool,
}

impl Layer for PlacesOfExtremes {
    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
        check_order(&inputs[0])?;
        let axes = Axes::along(self.dim, self.keepdim, inputs[0].rank())?;
        axes.check_not_empty(&inputs[0])?;
        Ok(vec![TensorMeta::new(DType::I64, axes.dims(&inputs[0]))])
    }
}

impl CpuLayer for PlacesOfExtremes {
    fn forward(&mut self, io: &mut Io<'_, '_>) -> Result<()> {
        let (_, places) = extremes(self.first, self.dim, &io.inputs[0], io.context.limits())?;
        write_places(places, &mut io.outputs[0])
    }
}

crate::operator! {
    /// `torch.topk`: the k largest or smallest elements along an axis, and their positions.
    pub struct Topk for "torch.topk", "aten::topk" {
        /// The number of elements.
        k: usize,
        /// The axis; a negative value counts from the end.
        dim: i64 = -1,
        /// Whether to return the largest elements; else the smallest.
        largest: bool = true,
        /// Whether the elements are sorted, the first of equal elements first; else their order is unspecified, as in
        /// PyTorch.
        sorted: bool = true,
    }
}

/// The positions of the first `k` elements in sorted order, the first of equal elements first.
fn first_of<T: Ordered>(row: &[T], k: usize, first: First) -> Vec<usize> {
    const FEW: usize = 256;
    if k > FEW { first_in_order(&keys(first, row), k) } else { widest!(|| first_few_of(row, k, first)) }
}

/// As [`first_of`], for few positions. Nearly all elements do not come before the last of the best so far, so most chunks are
/// passed over as a whole.
#[inline(always)]
fn first_few_of<T: Ordered>(row: &[T], k: usize, first: First) -> Vec<usize> {
    const CHUNK: usize = 16;
    let mut best: Vec<usize> = Vec::with_capacity(k + 1);
    for (index, chunk) in row.chunks(CHUNK).enumerate() {
        if best.len() == k
            && let Some(&last) = best.last()
        {
            let last = row[last];
            let mut are_late = true;
            for x in chunk {
                are_late &= first.is_late(x, &last);
            }
            if are_late {
                continue;
            }
        }
        for (offset, x) in chunk.iter().enumerate() {
            if best.len() == k {
                match best.last() {
                    Some(&last) if !first.is_late(x, &row[last]) && first.order(x, &row[last]).is_lt() => {}
                    _ => continue,
                }
                best.pop();
            }
            let at = best.partition_point(|&other| first.order(&row[other], x).is_le());
            best.insert(at, index * CHUNK + offset);
        }
    }
    best
}

/// The positions of the first `k` keys, in unspecified order.
fn first_in_no_order(keys: &[i64], k: usize) -> Vec<usize> {
    let mut places: Vec<usize> = (0..keys.len()).collect();
    select(&mut places, k, |a, b| keys[a] < keys[b]);
    places.truncate(k);
    places
}

impl Layer for Topk {
    fn num_outputs(&self) -> usize {
        2
    }

    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
        check_order(&inputs[0])?;
        let mut dims = inputs[0].dims().to_vec();
        let axis = resolve_axis(self.dim, dims.len())?;
        let len = dims.get(axis).cloned().unwrap_or(Dim::Fixed(1));
        if len.fixed().is_some_and(|len| usize::try_from(len).unwrap_or(0) < self.k) {
            let wanted = format!("at least {} elements along axis {axis}", self.k);
            return Err(LayerError::shape("the input", wanted, &inputs[0]));
        }
        if let Some(dim) = dims.get_mut(axis) {
            *dim = Dim::from(self.k);
        } else if self.k != 1 {
            return Err(LayerError::shape("the input", "an axis", &inputs[0]));
        }
        Ok(with_places(inputs[0].with_dims(dims)))
    }
}

impl CpuLayer for Topk {
    fn forward(&mut self, io: &mut Io<'_, '_>) -> Result<()> {
        if io.outputs[0].num_elements() == 0 {
            return Ok(());
        }
        let along = Rows::new(self.dim, io.inputs[0].shape())?;
        let rows = along.of(&io.inputs[0])?;
        let first = if self.largest { First::Largest } else { First::Smallest };
        let limits = io.context.limits();
        let places = with_order!(rows.dtype(), T => places::<T>(&rows, along.len, limits, |row| {
            if self.sorted || self.k.saturating_mul(64) <= row.len() {
                return first_of(row, self.k, first);
            }
            first_in_no_order(&keys(first, row), self.k)
        }))?;
        along.write(&rows, places, io.outputs)
    }
}

operators! { Max: moves(Moved), Min: moves(Moved), Argmax, Argmin, Topk: moves(Moved) }

#[cfg(test)]
mod tests {
    use super::*;
    use crate::support::testing::{operator, tensor};
    use proptest::prelude::{Just, Strategy};

    #[test]
    fn rows_are_not_read_after_the_deadline() {
        let rows = tensor(&[3, 2], &[1f32; 6]);
        let found = |limits: &Limits| places::<f32>(&rows.view(), 2, limits, |_| vec![1]);
        assert_eq!(found(&Limits::default()).unwrap(), [1; 3]);
        let late = Limits { deadline: Some(std::time::Instant::now()), ..Limits::default() };
        assert!(matches!(found(&late), Err(LayerError::Limit(_))));
    }

    #[test]
    fn values_and_positions() {
        let x = tensor(&[2, 3], &[1f32, 5.0, 5.0, f32::NAN, 2.0, -1.0]);
        let both =
            operator("torch.max", &[("dim", "-1"), ("keepdim", "True")]).with_outputs(2).run(&[&x]).unwrap();
        assert_eq!((both[0].shape().dims(), both[1].to_vec::<i64>().unwrap()), (&[2, 1][..], vec![1, 0]));
        assert_eq!(both[0].to_vec::<f32>().unwrap()[0], 5.0);
        assert!(both[0].to_vec::<f32>().unwrap()[1].is_nan());
        let alone = operator("torch.min", &[("dim", "0")]).run_one(&[&x]).unwrap().to_vec::<f32>().unwrap();
        assert!(alone[0].is_nan() && alone[1..] == [2.0, -1.0]);
        let all = operator("torch.min", &[]).run_one(&[&tensor(&[3], &[3u8, 1, 2])]).unwrap();
        assert_eq!((all.rank(), all.item::<u8>().unwrap()), (0, 1));
        let place = |op_type, params: &[(&str, &str)]| {
            operator(op_type, params).run_one(&[&x]).unwrap().to_vec::<i64>().unwrap()
        };
        assert_eq!(place("torch.argmax", &[("dim", "1")]), [1, 0]);
        assert_eq!(place("torch.argmin", &[("dim", "None")]), [3]);
        assert_eq!(place("torch.argmin", &[("dim", "0")]), [1, 1, 1]);
    }

    proptest::proptest! {
        #[test]
        fn the_first_of_a_row_are_those_of_a_stable_sort(
            row in proptest::collection::vec(proptest::prop_oneof![9 => (-5i8..5).prop_map(f32::from), 1 => Just(f32::NAN)], 0..700),
            k in 0usize..700,
            largest: bool,
        ) {
            let first = if largest { First::Largest } else { First::Smallest };
            let k = k.min(row.len());
            let mut want: Vec<usize> = (0..row.len()).collect();
            want.sort_by(|&a, &b| first.order(&row[a], &row[b]));
            want.truncate(k);
            proptest::prop_assert_eq!(first_of(&row, k, first), want);
        }
    }

    #[test]
    fn the_first_k() {
        let x = tensor(&[2, 3], &[1i64, 5, 5, 7, 2, -1]);
        let topk = |params: &[(&str, &str)]| {
            let outputs = operator("torch.topk", params).with_outputs(2).run(&[&x])?;
            Ok::<_, LayerError>((outputs[0].to_vec::<i64>()?, outputs[1].to_vec::<i64>()?))
        };
        assert_eq!(topk(&[("k", "2"), ("dim", "-1")]).unwrap(), (vec![5, 5, 7, 2], vec![1, 2, 0, 1]));
        assert_eq!(
            topk(&[("k", "1"), ("dim", "0"), ("largest", "False")]).unwrap(),
            (vec![1, 2, -1], vec![0, 1, 1])
        );
        assert!(topk(&[("k", "4")]).is_err());
        let nan = tensor(&[3], &[1f64, f64::NAN, 2.0]);
        let largest = operator("torch.topk", &[("k", "2")]).with_outputs(2).run(&[&nan]).unwrap();
        assert_eq!(largest[1].to_vec::<i64>().unwrap(), [1, 2]);
    }

    #[test]
    fn symbols_and_odd_inputs() {
        let x = TensorMeta::new(DType::F16, [Dim::symbol("n"), Dim::Fixed(3)]);
        let both = operator("torch.max", &[("dim", "1")]).with_outputs(2).infer(&[x]).unwrap();
        assert_eq!((both[0].to_string(), both[1].to_string()), ("n f16".to_owned(), "n i64".to_owned()));
        for op_type in ["torch.max", "torch.min", "torch.argmax"] {
            operator(op_type, &[("dim", "-1")]).survives(1);
            operator(op_type, &[]).survives(1);
        }
        operator("torch.max", &[("dim", "0")]).with_outputs(2).survives(1);
        operator("torch.topk", &[("k", "1"), ("dim", "0")]).with_outputs(2).survives(1);
    }
}
