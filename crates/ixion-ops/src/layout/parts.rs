//! Splitting a tensor along an axis into views: chunk, tensor_split, narrow, unbind.

use crate::op::{Layer, LayerError, Result, TensorMeta, View};
use crate::support::arguments::OutputCount;
use crate::support::views::{axis_of, view_layers};
use ixion_tensor::{Dim, Layout, Shape, TensorError};

/// A contiguous part of an axis.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Part {
    pub(crate) start: Dim,
    pub(crate) len: Dim,
}

crate::operator! {
    /// `torch.chunk`: splits an axis into parts of ⌈length / chunks⌉ elements; the last part may be shorter. Views.
    pub struct Chunk for "torch.chunk", "Tensor.chunk", "aten::unsafe_chunk" {
        /// The maximum number of parts.
        chunks: usize,
        /// The axis; a negative value counts from the end.
        dim: i64 = 0,
        /// The number of outputs that the file lists, one for each part.
        outputs: OutputCount,
    }
    validate |chunk| { at_least_one("chunks", chunk.chunks) }
}

crate::operator! {
    /// `torch.tensor_split`: splits an axis into a number of nearly equal parts, or at given indices. Views.
    pub struct TensorSplit for "torch.tensor_split", "Tensor.tensor_split" {
        /// The number of parts. Their lengths differ by at most 1; the longer parts come first.
        sections: Option<usize> = None,
        /// The indices at which one part ends and the next begins; negative values count from the end.
        indices: Option<Vec<i64>> = None,
        /// The axis; a negative value counts from the end.
        dim: i64 = 0,
        /// The number of outputs that the file lists, one for each part.
        outputs: OutputCount,
    }
    validate |split| {
        match (split.sections, &split.indices) {
            (Some(sections), None) => at_least_one("sections", sections),
            (None, Some(_)) => Ok(()),
            _ => Err(LayerError::Unsupported("exactly one of `sections` and `indices` is required".to_owned())),
        }
    }
}

crate::operator! {
    /// `torch.narrow`: returns `length` elements of an axis, from `start` on. A view; tensors of a graph are immutable, so it
    /// serves as the copy that `narrow_copy` makes.
    pub struct Narrow for "torch.narrow", "Tensor.narrow", "aten::narrow", "aten::narrow_copy" {
        /// The axis; a negative value counts from the end.
        dim: i64,
        /// The first index; a negative value counts from the end.
        start: i64,
        /// The number of elements.
        length: usize,
    }
}

crate::operator! {
    /// `torch.unbind`: removes an axis and returns the slice at each of its indices. Views.
    pub struct Unbind for "torch.unbind", "Tensor.unbind", "aten::unbind" {
        /// The axis; a negative value counts from the end.
        dim: i64 = 0,
        /// The number of outputs that the file lists, one for each part.
        outputs: OutputCount,
    }
}

/// Checks that a parameter is not 0.
pub(super) fn at_least_one(key: &'static str, found: usize) -> Result<()> {
    if found > 0 { Ok(()) } else { Err(LayerError::invalid(key, found, "it must be at least 1")) }
}

/// `count` parts of length `size`, as far as the axis is long enough.
pub(crate) fn equal_parts(len: &Dim, size: Dim, count: usize) -> Vec<Part> {
    let starts = (0..count).map(|i| size.clone() * i);
    starts.map(|start| Part { len: (len.clone() - start.clone()).min(size.clone()).max(0), start }).collect()
}

/// Resolves an index as Python's slices do: a negative index counts from the end, and the result is clamped to the axis. A
/// symbolic index is assumed to count from the start.
pub(crate) fn clamped_index(index: &Dim, len: &Dim) -> Dim {
    match index.fixed() {
        Some(0) => Dim::Fixed(0),
        Some(index) if index < 0 => (len.clone() + index).max(0),
        // PNNX writes the largest i32 for the end of an axis, whatever its length.
        Some(index) if index >= i64::from(i32::MAX) => len.clone(),
        _ => index.clone().min(len.clone()),
    }
}

/// The parts of an axis before, between and after indices.
pub(super) fn parts_between(len: &Dim, indices: &[Dim]) -> Vec<Part> {
    let part = |start: Dim, end: Dim| Part { len: (end - start.clone()).max(0), start };
    let index = |index: &Dim| clamped_index(index, len);
    let starts = [Dim::Fixed(0)].into_iter().chain(indices.iter().map(index));
    let ends = indices.iter().map(index).chain([len.clone()]);
    starts.zip(ends).map(|(start, end)| part(start, end)).collect()
}

/// Parts of an axis whose lengths differ by at most 1, the longer ones first.
pub(super) fn balanced_parts(len: &Dim, count: usize) -> Vec<Part> {
    let size = len.clone().floor_div(count);
    let longer = len.clone() - size.clone() * count;
    let start = |i: usize| size.clone() * i + longer.clone().min(i);
    (0..count).map(|i| Part { start: start(i), len: start(i + 1) - start(i) }).collect()
}

impl Chunk {
    fn parts(&self, input: &Dim) -> Result<Vec<Part>> {
        let size = input.clone().ceil_div(self.chunks);
        let count = match (input.fixed(), size.fixed()) {
            (Some(len @ 1..), Some(size)) => Dim::Fixed(len).ceil_div(size).fixed(),
            (Some(_), _) => i64::try_from(self.chunks).ok(),
            (None, _) => None,
        };
        check_count(count, self.outputs)?;
        Ok(equal_parts(input, size, self.outputs.0))
    }
}

impl TensorSplit {
    fn parts(&self, input: &Dim) -> Result<Vec<Part>> {
        let count = self.sections.or(self.indices.as_ref().map(|indices| indices.len() + 1));
        check_count(count.and_then(|count| i64::try_from(count).ok()), self.outputs)?;
        Ok(match &self.indices {
            Some(indices) => {
                let indices: Vec<Dim> = indices.iter().copied().map(Dim::Fixed).collect();
                parts_between(input, &indices)
            }
            None => balanced_parts(input, self.sections.unwrap_or(1)),
        })
    }
}

impl Narrow {
    fn parts(&self, input: &Dim) -> Result<Vec<Part>> {
        let start = if self.start < 0 { input.clone() + self.start } else { Dim::Fixed(self.start) };
        let end = start.clone() + self.length;
        let beyond = end.fixed().zip(input.fixed()).is_some_and(|(end, len)| end > len);
        if beyond || start.fixed().is_some_and(|start| start < 0) {
            let reason = format!("{} elements from there exceed the axis of length {input}", self.length);
            return Err(LayerError::invalid("start", self.start, reason));
        }
        Ok(vec![Part { start, len: Dim::from(self.length) }])
    }
}

pub(crate) fn check_count(wanted: Option<i64>, found: OutputCount) -> Result<()> {
    match wanted.map(usize::try_from) {
        Some(Ok(wanted)) if wanted != found.0 => Err(LayerError::OutputCount { wanted, found: found.0 }),
        _ => Ok(()),
    }
}

/// The outputs that are these parts of the input along an axis.
pub(super) fn as_outputs(input: &TensorMeta, axis: usize, parts: Vec<Part>) -> Vec<TensorMeta> {
    let with_len = |part: Part| {
        let mut dims = input.dims().to_vec();
        dims[axis] = part.len;
        input.with_dims(dims)
    };
    parts.into_iter().map(with_len).collect()
}

/// The layout of the part at this position along an axis, for a tensor of known sizes.
pub(super) fn layout_of(position: usize, parts: &[Part], whole: &Layout, axis: usize) -> Result<Layout> {
    let numbers = |part: &Part| {
        // An empty part may begin anywhere, even past the end.
        let len = usize::try_from(part.len.fixed()?).ok()?;
        let start = if len == 0 { 0 } else { usize::try_from(part.start.fixed()?).ok()? };
        Some((start, len))
    };
    let (start, len) = parts
        .get(position)
        .and_then(numbers)
        .ok_or_else(|| TensorError::InvalidArgument(format!("there is no part {position}")))?;
    Ok(whole.narrow(axis, start, len)?)
}

macro_rules! part_layers {
    ($($name:ident: $outputs:expr;)+) => {$(
        impl Layer for $name {
            fn num_outputs(&self) -> usize {
                let outputs: fn(&Self) -> OutputCount = $outputs;
                outputs(self).0
            }

            fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
                let axis = axis_of(self.dim, &inputs[0])?;
                Ok(as_outputs(&inputs[0], axis, self.parts(&inputs[0].dims()[axis])?))
            }

            fn view(&self, output: usize, inputs: &[Layout], _: &Shape) -> Result<Option<View>> {
                let axis = inputs[0].shape().axis(self.dim)?;
                let len = inputs[0].shape().get(axis).copied().unwrap_or(1);
                let layout = layout_of(output, &self.parts(&Dim::from(len))?, &inputs[0], axis)?;
                Ok(Some(View { input: 0, layout }))
            }
        }

        view_layers!($name);
    )+};
}

part_layers! {
    Chunk: |layer| layer.outputs;
    TensorSplit: |layer| layer.outputs;
    Narrow: |_| OutputCount(1);
}

/// The input's dimensions without one axis.
fn without(input: &TensorMeta, axis: usize) -> TensorMeta {
    let mut dims = input.dims().to_vec();
    dims.remove(axis);
    input.with_dims(dims)
}

impl Layer for Unbind {
    fn num_outputs(&self) -> usize {
        self.outputs.0
    }

    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
        let axis = axis_of(self.dim, &inputs[0])?;
        check_count(inputs[0].dims()[axis].fixed(), self.outputs)?;
        Ok(vec![without(&inputs[0], axis); self.outputs.0])
    }

    fn view(&self, output: usize, inputs: &[Layout], _: &Shape) -> Result<Option<View>> {
        let axis = inputs[0].shape().axis(self.dim)?;
        Ok(Some(View { input: 0, layout: inputs[0].select(axis, output)? }))
    }
}

view_layers!(Unbind);

operators! { Chunk: moves(Divided), TensorSplit: moves(Divided), Narrow: moves(Along), Unbind: moves(Unbound) }

#[cfg(test)]
mod tests {
    use super::*;
    use crate::support::testing::{counting, operator};
    use ixion_tensor::{DType, Tensor};

    /// The elements of all parts of 0, 1, 2, ….
    fn parts(op_type: &str, params: &[(&str, &str)], len: usize, outputs: usize) -> Result<Vec<Vec<i32>>> {
        let x = counting(DType::I32, &[len]);
        let parts = operator(op_type, params).with_outputs(outputs).run(&[&x])?;
        assert!(parts.iter().all(|part| part.shares_storage(&x)));
        Ok(parts.iter().map(|part| part.to_vec().unwrap()).collect())
    }

    #[test]
    fn parts_are_those_of_pytorch() {
        let chunks = |n| [("chunks", n), ("dim", "-1")];
        assert_eq!(parts("torch.chunk", &chunks("2"), 5, 2).unwrap(), [vec![0, 1, 2], vec![3, 4]]);
        assert_eq!(parts("torch.chunk", &chunks("4"), 5, 3).unwrap(), [vec![0, 1], vec![2, 3], vec![4]]);
        assert_eq!(
            parts("torch.chunk", &chunks("3"), 0, 3).unwrap(),
            [vec![], vec![], vec![]] as [Vec<i32>; 3]
        );
        let sections = |n| [("split_size_or_sections", n)];
        assert_eq!(parts("torch.split", &sections("3"), 5, 2).unwrap(), [vec![0, 1, 2], vec![3, 4]]);
        assert_eq!(
            parts("torch.split", &sections("(1,0,4)"), 5, 3).unwrap(),
            [vec![0], vec![], vec![1, 2, 3, 4]]
        );
        assert_eq!(parts("torch.split", &sections("0"), 0, 1).unwrap(), [vec![]] as [Vec<i32>; 1]);
        let split = |key, value| [(key, value), ("dim", "0")];
        assert_eq!(
            parts("torch.tensor_split", &split("sections", "3"), 7, 3).unwrap(),
            [vec![0, 1, 2], vec![3, 4], vec![5, 6]]
        );
        assert_eq!(
            parts("torch.tensor_split", &split("indices", "(1,-1,9)"), 5, 4).unwrap(),
            [vec![0], vec![1, 2, 3], vec![4], vec![]]
        );
        assert_eq!(
            parts("torch.tensor_split", &split("indices", "(3,1)"), 5, 3).unwrap(),
            [vec![0, 1, 2], vec![], vec![1, 2, 3, 4]]
        );
        let narrow = |start| [("dim", "0"), ("start", start), ("length", "2")];
        assert_eq!(parts("torch.narrow", &narrow("1"), 4, 1).unwrap(), [[1, 2]]);
        assert_eq!(parts("torch.narrow", &narrow("-2"), 4, 1).unwrap(), [[2, 3]]);
    }

    #[test]
    fn selected_axes_are_removed() {
        let x = counting(DType::I64, &[2, 3]);
        let select = |index| operator("Tensor.select", &[("dim", "-1"), ("index", index)]).run_one(&[&x]);
        assert_eq!(select("-1").unwrap().to_vec::<i64>().unwrap(), [2, 5]);
        assert_eq!(select("3").unwrap_err().to_string(), "index 3 is out of range: there are 3");
        assert!(select("-4").is_err() && select("-9223372036854775808").is_err());
        let rows = operator("torch.unbind", &[]).with_outputs(2).run(&[&x]).unwrap();
        assert_eq!((rows[1].shape().dims(), rows[1].to_vec::<i64>().unwrap()), (&[3][..], vec![3, 4, 5]));
        assert!(matches!(
            operator("torch.unbind", &[("dim", "1")]).with_outputs(2).run(&[&x]),
            Err(LayerError::OutputCount { wanted: 3, found: 2 })
        ));
    }

    #[test]
    fn what_does_not_fit_is_an_error() {
        assert!(matches!(
            parts("torch.chunk", &[("chunks", "4")], 5, 4),
            Err(LayerError::OutputCount { wanted: 3, found: 4 })
        ));
        assert!(parts("torch.chunk", &[("chunks", "0")], 5, 1).is_err());
        assert!(parts("torch.split", &[("split_size_or_sections", "0")], 5, 1).is_err());
        assert!(parts("torch.split", &[("split_size_or_sections", "(2,2)")], 5, 2).is_err());
        assert!(parts("torch.split", &[("split_size_or_sections", "(2,-2)")], 5, 2).is_err());
        assert!(parts("torch.tensor_split", &[], 5, 2).is_err());
        assert!(parts("torch.tensor_split", &[("sections", "2"), ("indices", "(2)")], 5, 2).is_err());
        assert!(parts("torch.narrow", &[("dim", "0"), ("start", "4"), ("length", "2")], 5, 1).is_err());
        assert!(parts("torch.narrow", &[("dim", "0"), ("start", "-6"), ("length", "2")], 5, 1).is_err());
    }

    #[test]
    fn symbols_give_lengths_that_hold_for_every_number() {
        type Case<'a> = (&'a str, &'a [(&'a str, &'a str)], usize);
        let cases: [Case; 4] = [
            ("torch.chunk", &[("chunks", "3")], 3),
            ("torch.split", &[("split_size_or_sections", "5")], 3),
            ("torch.tensor_split", &[("sections", "3")], 3),
            ("torch.tensor_split", &[("indices", "(2,-4,-1)")], 4),
        ];
        for (op_type, params, outputs) in cases {
            let layer = operator(op_type, params).with_outputs(outputs);
            let symbolic = layer.infer(&[TensorMeta::new(DType::F32, [Dim::symbol("n")])]).unwrap();
            for len in 11..15i64 {
                let numbers = layer.run(&[&counting(DType::F32, &[len as usize])]).unwrap();
                for (symbolic, numbers) in symbolic.iter().zip(&numbers) {
                    let value = symbolic.dims()[0].evaluate(&|_| Some(len));
                    assert_eq!(value, Some(numbers.num_elements() as i64), "{op_type} {params:?} of {len}");
                }
            }
        }
    }

    #[test]
    fn odd_inputs() {
        operator("torch.chunk", &[("chunks", "9223372036854775807"), ("dim", "1")]).survives(1);
        operator("torch.split", &[("split_size_or_sections", "(9223372036854775807,9223372036854775807)")])
            .survives(1);
        operator("torch.split", &[("split_size_or_sections", "2"), ("dim", "1")]).with_outputs(2).survives(1);
        operator("torch.tensor_split", &[("sections", "2"), ("dim", "-1")]).with_outputs(2).survives(1);
        operator("torch.narrow", &[("dim", "1"), ("start", "1"), ("length", "9223372036854775807")])
            .survives(1);
        operator("Tensor.select", &[("dim", "1"), ("index", "-1")]).survives(1);
        operator("torch.unbind", &[("dim", "0")]).with_outputs(2).survives(1);
        let scalar = Tensor::scalar(1f32);
        assert!(matches!(operator("torch.unbind", &[]).run(&[&scalar]), Err(LayerError::Shape { .. })));
    }
}
