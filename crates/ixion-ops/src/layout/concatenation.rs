//! Concatenating and stacking tensors.

use crate::op::{CpuLayer, Io, Layer, LayerError, Result, TensorFormat, TensorMeta};
use crate::support::broadcast::{Converted, kind};
use crate::support::promotion::result_type;
use crate::support::rules;
use crate::support::views::axis_of;
use ixion_tensor::{DType, Dim, Format, Layout, TensorView, resolve_axis};
use std::ops::RangeInclusive;

crate::operator! {
    /// `torch.cat`: concatenates tensors along an axis, after conversion to a common element type. All other axes must agree.
    /// Empty vectors are skipped, whatever the shapes of the other tensors.
    pub struct Cat for "torch.cat", "torch.concat", "torch.concatenate" {
        /// The axis; a negative value counts from the end.
        dim: i64 = 0,
    }
}

crate::operator! {
    /// `torch.stack`: concatenates tensors of the same shape along a new axis, after conversion to a common element type.
    pub struct Stack for "torch.stack" {
        /// The position of the new axis in the output; a negative value counts from its end.
        dim: i64 = 0,
    }
}

/// True for an empty vector, which `torch.cat` skips. Together with tensors of more axes, a vector of unknown length can only
/// be empty.
fn is_left_out(input: &TensorMeta, inputs: &[TensorMeta]) -> bool {
    let beside_others = || inputs.iter().any(|other| other.rank() > 1);
    matches!(input.dims(), [len] if *len == 0usize || (len.fixed().is_none() && beside_others()))
}

/// True for a vector that may be empty.
fn may_be_left_out(input: &TensorMeta) -> bool {
    matches!(input.dims(), [Dim::Symbolic(_)])
}

/// The element type that all inputs are converted to: that of [`result_type`].
fn joined_type(inputs: &[TensorMeta]) -> DType {
    result_type(inputs.iter().map(kind))
}

/// True if no input is converted or skipped, so that every input is a part of the output.
fn are_parts(inputs: &[TensorMeta]) -> bool {
    let dtype = joined_type(inputs);
    inputs.iter().all(|input| input.dtype() == dtype && input.num_elements() != 0usize)
}

/// The error for an input that does not match the inputs before it.
fn misfit(position: usize, left: &[Dim], right: &TensorMeta, except: Option<usize>) -> LayerError {
    let lens: Vec<String> = left.iter().map(Dim::to_string).collect();
    let lens = lens.join("×");
    let wanted = match except {
        Some(axis) => format!("the shape {lens}, except along axis {axis}"),
        None => format!("the shape {lens}"),
    };
    LayerError::shape(format!("input {position}"), wanted, right)
}

/// The values of joined vectors of one type, if all are known and there are not too many.
fn joined_values(inputs: &[TensorMeta]) -> Option<Vec<Dim>> {
    let first = inputs.first()?;
    let known = |input: &TensorMeta| {
        let is_like = input.rank() == 1 && input.dtype() == first.dtype();
        input.values().filter(|_| is_like).map(<[Dim]>::to_vec)
    };
    let values = inputs.iter().map(known).collect::<Option<Vec<_>>>()?.concat();
    (values.len() <= TensorMeta::MAX_VALUES).then_some(values)
}

impl Layer for Cat {
    fn num_inputs(&self) -> RangeInclusive<usize> {
        1..=usize::MAX
    }

    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
        let dtype = joined_type(inputs);
        let mut joined = inputs.iter().enumerate().filter(|(_, input)| !is_left_out(input, inputs));
        let Some((_, first)) = joined.next() else {
            resolve_axis(self.dim, 1)?;
            return Ok(vec![TensorMeta::new(dtype, [0])]);
        };
        let ranks_differ = inputs.iter().any(|input| input.rank() != inputs[0].rank());
        if ranks_differ && inputs.iter().any(may_be_left_out) {
            return Err(LayerError::Unsupported(
                "the inputs differ in rank, so it must be known which of them are empty".to_owned(),
            ));
        }
        let axis = axis_of(self.dim, first)?;
        let mut dims = first.dims().to_vec();
        for (position, input) in joined {
            let longer = rules::joined(&dims, input.dims(), axis);
            dims = longer.ok_or_else(|| misfit(position, first.dims(), input, Some(axis)))?;
        }
        let whole = TensorMeta::new(dtype, dims);
        Ok(vec![match joined_values(inputs) {
            Some(values) => whole.with_values(values),
            None => whole,
        }])
    }

    fn parts(&self, inputs: &[TensorMeta], output: &Layout) -> Result<Option<Vec<Layout>>> {
        if !are_parts(inputs) {
            return Ok(None);
        }
        let axis = output.shape().axis(self.dim)?;
        if let Format::Blocked { axis: cut, block } = output.format() {
            return blocked_parts(inputs, output, axis, (cut.into(), block.into()));
        }
        let mut start = 0;
        let mut part = |input: &TensorMeta| {
            let len = input.shape()?.get(axis).copied().unwrap_or(0);
            start += len;
            Ok(output.narrow(axis, start - len, len)?)
        };
        inputs.iter().map(&mut part).collect::<Result<_, _>>().map(Some)
    }
}

impl CpuLayer for Cat {
    fn forward(&mut self, io: &mut Io<'_, '_>) -> Result<()> {
        let axis = io.outputs[0].shape().axis(self.dim)?;
        check_blocks(io.inputs, io.outputs[0].layout().format(), axis)?;
        let layout = io.outputs[0].layout().unrolled()?;
        let output = &mut io.outputs[0].reborrow().with_layout(layout)?;
        let (dtype, mut start) = (output.dtype(), 0);
        for input in io.inputs.iter().filter(|input| input.shape().dims() != [0]) {
            let input = input.with_layout(input.layout().unrolled()?)?;
            let len = input.shape().get(axis).copied().unwrap_or(0);
            let input = Converted::of(&input, dtype)?;
            let part = output.layout().narrow(axis, start, len)?;
            output.reborrow().with_layout(part)?.copy_from(&input.view())?;
            start += len;
        }
        Ok(())
    }

    /// Supports plain tensors of any types, and blocked tensors of one type, which stay blocked.
    fn supports(&self, position: usize, formats: &[TensorFormat]) -> bool {
        let (Some(format), Some(first)) = (formats.get(position), formats.first()) else { return false };
        let is_alike = format.format == Format::Plain || format.dtype == first.dtype;
        !format.is_quantized && format.format == first.format && is_alike
    }

    fn configure(&mut self, inputs: &[TensorMeta], outputs: &[TensorMeta]) -> Result<()> {
        let (Some(output), Some((_, before))) = (outputs.first(), inputs.split_last()) else { return Ok(()) };
        let Format::Blocked { axis, block } = output.format() else { return Ok(()) };
        let fills = |input: &TensorMeta| {
            let len = input.dims().get(usize::from(axis)).and_then(Dim::fixed);
            len.is_some_and(|len| len % i64::from(block) == 0)
        };
        let is_cut = axis_of(self.dim, output)? == usize::from(axis);
        if inputs.iter().all(|input| input.rank() == output.rank()) && (!is_cut || before.iter().all(fills)) {
            return Ok(());
        }
        Err(partly_filled())
    }
}

fn partly_filled() -> LayerError {
    LayerError::Unsupported(
        "blocked tensors can only be concatenated if every input but the last fills its blocks".to_owned(),
    )
}

/// Checks that every input but the last fills its blocks, if the inputs are concatenated along the blocked axis.
fn check_blocks(inputs: &[TensorView<'_>], format: Format, axis: usize) -> Result<()> {
    let (Format::Blocked { axis: cut, block }, Some((_, before))) = (format, inputs.split_last()) else {
        return Ok(());
    };
    let fills =
        |input: &TensorView<'_>| input.shape().get(axis).is_some_and(|len| len % usize::from(block) == 0);
    if usize::from(cut) != axis || before.iter().all(fills) { Ok(()) } else { Err(partly_filled()) }
}

/// The parts of a blocked output, if each of them is contiguous.
fn blocked_parts(
    inputs: &[TensorMeta],
    output: &Layout,
    axis: usize,
    (cut, block): (usize, usize),
) -> Result<Option<Vec<Layout>>> {
    if output.shape().iter().take(axis).any(|&len| len != 1) || (axis > cut) {
        return Ok(None);
    }
    let mut start = output.offset();
    let mut parts = Vec::with_capacity(inputs.len());
    for (position, input) in inputs.iter().enumerate() {
        let part = Layout::blocked(input.shape()?, cut, block)?;
        let is_last = position + 1 == inputs.len();
        if axis == cut && !is_last && part.shape().get(cut).is_some_and(|len| len % block != 0) {
            return Ok(None);
        }
        parts.push(part.with_offset(start));
        start += part.span();
    }
    Ok(Some(parts))
}

impl Layer for Stack {
    fn num_inputs(&self) -> RangeInclusive<usize> {
        1..=usize::MAX
    }

    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
        let axis = resolve_axis(self.dim, inputs[0].rank() + 1)?;
        let mut dims = inputs[0].dims().to_vec();
        for (position, input) in inputs.iter().enumerate().skip(1) {
            let pairs = dims.iter().zip(input.dims());
            let agreed: Option<Vec<Dim>> = pairs.map(|(left, right)| rules::agreed(left, right)).collect();
            let agreed = agreed.filter(|_| dims.len() == input.rank());
            dims = agreed.ok_or_else(|| misfit(position, inputs[0].dims(), input, None))?;
        }
        dims.insert(axis, Dim::from(inputs.len()));
        Ok(vec![TensorMeta::new(joined_type(inputs), dims)])
    }

    fn parts(&self, inputs: &[TensorMeta], output: &Layout) -> Result<Option<Vec<Layout>>> {
        if !are_parts(inputs) {
            return Ok(None);
        }
        let axis = output.shape().axis(self.dim)?;
        let part = |position| Ok(output.select(axis, position)?);
        (0..inputs.len()).map(part).collect::<Result<_, _>>().map(Some)
    }
}

impl CpuLayer for Stack {
    fn forward(&mut self, io: &mut Io<'_, '_>) -> Result<()> {
        let axis = io.outputs[0].shape().axis(self.dim)?;
        for (position, input) in io.inputs.iter().enumerate() {
            let part = io.outputs[0].layout().select(axis, position)?;
            let input = Converted::of(input, io.outputs[0].dtype())?;
            io.outputs[0].reborrow().with_layout(part)?.copy_from(&input.view())?;
        }
        Ok(())
    }
}

operators! { Cat: moves(Joined), Stack: moves(Stacked) }

#[cfg(test)]
mod tests {
    use super::*;
    use crate::support::testing::{counting, operator, tensor};
    use ixion_tensor::Tensor;

    #[test]
    fn tensors_of_any_type_are_joined_along_any_axis() {
        for dtype in DType::ALL {
            let x = counting(DType::U8, &[2, 2]).cast(dtype).unwrap();
            let y = counting(DType::U8, &[2, 1]).cast(dtype).unwrap();
            let wide = operator("torch.cat", &[("dim", "-1")]).run_one(&[&x, &y, &x]).unwrap();
            let want = tensor(&[2, 5], &[0u8, 1, 0, 0, 1, 2, 3, 1, 2, 3]).cast(dtype).unwrap();
            assert_eq!(wide, want);
            let stacked = operator("torch.stack", &[("dim", "1")]).run_one(&[&x, &x]).unwrap();
            let want = tensor(&[2, 2, 2], &[0u8, 1, 0, 1, 2, 3, 2, 3]).cast(dtype).unwrap();
            assert_eq!(stacked, want);
        }
        let scalars =
            operator("torch.stack", &[]).run_one(&[&Tensor::scalar(1i8), &Tensor::scalar(2i8)]).unwrap();
        assert_eq!(scalars, tensor(&[2], &[1i8, 2]));
        assert_eq!(operator("torch.cat", &[]).run_one(&[&scalars]).unwrap(), scalars);
    }

    #[test]
    fn empty_vectors_are_skipped() {
        let (nothing, x) = (Tensor::zeros(DType::F32, &[0]).unwrap(), counting(DType::F32, &[2, 3]));
        let cat = operator("torch.cat", &[("dim", "1")]);
        assert_eq!(cat.run_one(&[&nothing, &x, &nothing]).unwrap(), x);
        assert!(cat.run(&[&nothing, &nothing]).is_err());
        assert_eq!(operator("torch.cat", &[]).run_one(&[&nothing, &nothing]).unwrap(), nothing);
        let empty_rows = Tensor::zeros(DType::F32, &[2, 0]).unwrap();
        assert_eq!(cat.run_one(&[&empty_rows, &x]).unwrap(), x);
    }

    #[test]
    fn types_are_promoted() {
        let types = [(DType::F32, DType::F64), (DType::U8, DType::I8), (DType::Bool, DType::C64)];
        for ((left, right), want) in types.into_iter().zip([DType::F64, DType::I16, DType::C64]) {
            let (x, y) = (Tensor::ones(left, &[2]).unwrap(), Tensor::zeros(right, &[2]).unwrap());
            let joined = operator("torch.cat", &[]).run_one(&[&x, &y]).unwrap();
            assert_eq!(joined, tensor(&[4], &[1u8, 1, 0, 0]).cast(want).unwrap());
            let stacked = operator("torch.stack", &[("dim", "1")]).run_one(&[&y, &x]).unwrap();
            assert_eq!(stacked, tensor(&[2, 2], &[0u8, 1, 0, 1]).cast(want).unwrap());
        }
    }

    #[test]
    fn inputs_are_parts_of_the_output_where_nothing_is_converted() {
        let parts = |op_type, inputs: &[TensorMeta]| {
            let layer = operator(op_type, &[("dim", "1")]).create(inputs.len()).unwrap();
            let output = Layout::contiguous(layer.infer(inputs).unwrap()[0].shape().unwrap());
            layer.parts(inputs, &output).unwrap()
        };
        let (x, y) = (TensorMeta::new(DType::F32, [2, 3]), TensorMeta::new(DType::F32, [2, 4]));
        let joined = parts("torch.cat", &[x.clone(), y.clone()]).unwrap();
        assert_eq!(
            (joined[1].offset(), joined[1].strides(), joined[1].shape().dims()),
            (3, &[7, 1][..], &[2, 4][..])
        );
        let stacked = parts("torch.stack", &[x.clone(), x.clone()]).unwrap();
        assert_eq!((stacked[1].offset(), stacked[1].strides()), (3, &[6, 1][..]));
        assert!(parts("torch.cat", &[x.clone(), y.with_dtype(DType::F64)]).is_none());
        assert!(parts("torch.cat", &[x, TensorMeta::new(DType::F32, [2, 0])]).is_none());
    }

    #[test]
    fn what_does_not_fit_together_is_an_error() {
        let (x, y) = (counting(DType::F32, &[2, 3]), counting(DType::F32, &[2, 2]));
        let error = operator("torch.cat", &[("dim", "0")]).run(&[&x, &y]).unwrap_err().to_string();
        assert_eq!(error, "input 1: expected the shape 2×3, except along axis 0, got 2×2 f32");
        let error = operator("torch.stack", &[]).run(&[&x, &y]).unwrap_err().to_string();
        assert_eq!(error, "input 1: expected the shape 2×3, got 2×2 f32");
        for op_type in ["torch.cat", "torch.stack"] {
            assert!(operator(op_type, &[]).run(&[]).is_err());
            assert!(operator(op_type, &[("dim", "3")]).run(&[&x, &x]).is_err());
            operator(op_type, &[("dim", "1")]).survives(2);
        }
    }

    #[test]
    fn symbols_add_up_and_give_way_to_numbers() {
        let (n, h) = (Dim::symbol("n"), Dim::symbol("h"));
        let inputs = [
            TensorMeta::new(DType::F32, [n.clone(), Dim::Fixed(2), h]),
            TensorMeta::new(DType::F32, [n, Dim::Fixed(3), Dim::Fixed(7)]),
        ];
        let joined = operator("torch.cat", &[("dim", "1")]).infer(&inputs).unwrap();
        assert_eq!(joined[0].to_string(), "n×5×7 f32");
        let batches = operator("torch.cat", &[]).infer(&[inputs[0].clone(), inputs[0].clone()]).unwrap();
        assert_eq!(batches[0].to_string(), "(n * 2)×2×h f32");
    }
}
