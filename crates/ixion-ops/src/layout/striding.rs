//! Views of other shapes and strides.

use crate::op::{CpuLayer, FromOperator, Io, Layer, LayerError, Result, TensorMeta, View, exactly};
use crate::support::arguments::InputIndex;
use crate::support::broadcast::Converted;
use crate::support::views::{Plain, view_layers, write_plain};
use ixion_tensor::{Layout, Limits, Shape, TensorView, TensorViewMut, resolve_axis, with_bits};
use std::ops::RangeInclusive;

crate::operator! {
    /// `torch.as_strided`: the input's elements in another shape with other strides. Element (i, j, …) of the output is element
    /// `storage_offset` + i·`stride[0]` + j·`stride[1]` + … of the input in row-major order. Elements may overlap. A view if
    /// the input is contiguous.
    pub struct AsStrided for "torch.as_strided", "Tensor.as_strided" {
        /// The output's shape.
        size: Vec<i64>,
        /// The stride of each axis, in elements.
        stride: Vec<i64>,
        /// The index of the first element; by default 0, where an input in row-major order begins.
        storage_offset: Option<usize> = None,
    }
    validate |layer| {
        let negative = |(_, values): &(&'static str, &Vec<i64>)| values.iter().any(|value| *value < 0);
        let wrong = [("size", &layer.size), ("stride", &layer.stride)].into_iter().find(negative);
        let reason = match wrong {
            Some(_) => "it must not contain negative values".to_owned(),
            None if layer.size.len() == layer.stride.len() => return Ok(()),
            None => format!("expected one stride for each of the {} lengths in `size`", layer.size.len()),
        };
        let (key, values) = wrong.unwrap_or(("stride", &layer.stride));
        Err(LayerError::invalid(key, format!("{values:?}"), reason))
    }
}

impl AsStrided {
    /// The layout of the output in an input of this number of elements that begins at `start`.
    fn layout(&self, shape: &Shape, elements: usize, start: usize) -> Result<Layout> {
        let strides: Option<Vec<usize>> =
            self.stride.iter().map(|&stride| usize::try_from(stride).ok()).collect();
        let offset = self.storage_offset.unwrap_or(0);
        let within = Layout::strided(*shape, &strides.unwrap_or_default(), offset)?;
        within.check_within(elements)?;
        Ok(Layout::strided(*shape, within.strides(), start.saturating_add(offset))?)
    }
}

impl Layer for AsStrided {
    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
        let output = inputs[0].with_dims(self.size.iter().copied());
        if let Some(elements) = inputs[0].num_elements().fixed() {
            self.layout(&output.shape()?, usize::try_from(elements).unwrap_or(0), 0)?;
        }
        Ok(vec![output])
    }

    fn view(&self, _: usize, inputs: &[Layout], shape: &Shape) -> Result<Option<View>> {
        let input = &inputs[0];
        if !input.is_contiguous() {
            return Ok(None);
        }
        let layout = self.layout(shape, input.shape().num_elements(), input.offset())?;
        Ok(Some(View { input: 0, layout }))
    }
}

impl CpuLayer for AsStrided {
    fn forward(&mut self, io: &mut Io<'_, '_>) -> Result<()> {
        let layout = self.layout(io.outputs[0].shape(), io.inputs[0].num_elements(), 0)?;
        let plain = io.inputs[0].to_tensor()?;
        Ok(io.outputs[0].copy_from(&plain.view().with_layout(layout)?)?)
    }
}

crate::operator! {
    /// `torch.as_strided_scatter`: a copy of the input in which the elements that `torch.as_strided` selects are replaced by those
    /// of another tensor. No element may be selected twice.
    pub struct AsStridedScatter for "aten::as_strided_scatter" {
        /// The elements to write, converted to the input's type; of the shape `size`.
        src: InputIndex,
        /// The shape of the selection.
        size: Vec<i64>,
        /// The stride of each axis, in elements.
        stride: Vec<i64>,
        /// The index of the first element; by default 0, where an input in row-major order begins.
        storage_offset: Option<usize> = None,
    }
    validate |layer| { layer.selection().validate() }
}

impl AsStridedScatter {
    /// The layer that selects the elements.
    fn selection(&self) -> AsStrided {
        let (size, stride) = (self.size.clone(), self.stride.clone());
        AsStrided { size, stride, storage_offset: self.storage_offset }
    }

    /// Replaces the elements of an output in row-major order one by one.
    fn replace(&self, src: &TensorView<'_>, output: &mut TensorViewMut<'_>, limits: &Limits) -> Result<()> {
        let (src, count) = (Plain::of(src)?, output.num_elements());
        let src = src.view();
        let layout = self.selection().layout(src.shape(), count, 0)?;
        let bytes = (src.num_elements() as u64).saturating_mul(size_of::<usize>() as u64);
        limits.check_tensor("the places of as_strided_scatter", bytes)?;
        let places = if src.num_elements() > count { None } else { distinct_places(&layout, count) };
        let Some(places) = places else {
            let reason = "with these lengths, it selects elements more than once";
            return Err(LayerError::invalid("stride", format!("{:?}", self.stride), reason));
        };
        with_bits!(output.dtype(), B => {
            let (from, to) = (src.bits_slice::<B>()?, output.bits_slice::<B>()?);
            for (&from, &place) in from.iter().zip(&places) {
                if let Some(to) = to.get_mut(place) {
                    *to = from;
                }
            }
        });
        Ok(())
    }
}

/// The places that a layout selects among `count` elements, in row-major order; `None` if it selects any of them twice.
fn distinct_places(layout: &Layout, count: usize) -> Option<Vec<usize>> {
    let mut places = vec![layout.offset()];
    for (&len, &stride) in layout.shape().iter().zip(layout.strides()) {
        let along = |start: usize| (0..len).map(move |at| start + at * stride);
        places = places.into_iter().flat_map(along).collect();
    }
    let mut is_selected = vec![false; count];
    let is_new = |place: &usize| is_selected.get_mut(*place).is_some_and(|it| !std::mem::replace(it, true));
    places.iter().all(is_new).then_some(places)
}

impl Layer for AsStridedScatter {
    fn num_inputs(&self) -> RangeInclusive<usize> {
        exactly(1 + self.field_inputs())
    }

    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
        let selection = self.selection();
        let (selected, src) = (selection.infer(inputs)?, &inputs[self.src.0]);
        if !src.may_have_dims(selected[0].dims()) {
            return Err(LayerError::shape("the source", &selected[0], src));
        }
        Ok(vec![inputs[0].with_dims(inputs[0].dims().to_vec())])
    }
}

impl CpuLayer for AsStridedScatter {
    fn forward(&mut self, io: &mut Io<'_, '_>) -> Result<()> {
        let (input, src, limits) = (&io.inputs[0], &io.inputs[self.src.0], io.context.limits());
        let src = Converted::of(src, input.dtype())?;
        let src = src.view();
        write_plain(&mut io.outputs[0], &mut |output| {
            output.copy_from(input)?;
            let start = output.layout().offset();
            let selected = self.selection().layout(src.shape(), input.num_elements(), start)?;
            if !selected.is_injective() {
                return self.replace(&src, output, limits);
            }
            Ok(output.reborrow().with_layout(selected)?.copy_from(&src)?)
        })
    }
}

crate::operator! {
    /// `torch.Tensor.unfold`: returns all windows of `size` elements along an axis, `step` apart. The elements of a window are
    /// along a new last axis. A view.
    pub struct Windows for "aten::unfold", "Tensor.unfold" {
        /// The axis; a negative value counts from the end.
        dimension: i64,
        /// The length of a window.
        size: usize,
        /// The distance between the starts of adjacent windows.
        step: usize,
    }
    validate |layer| {
        match layer.step {
            0 => Err(LayerError::invalid("step", 0, "it must be greater than 0")),
            _ => Ok(()),
        }
    }
}

impl Layer for Windows {
    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
        let axis = resolve_axis(self.dimension, inputs[0].rank())?;
        let mut dims = inputs[0].dims().to_vec();
        let len = dims.get(axis).cloned().unwrap_or(1.into());
        if len.fixed().is_some_and(|len| usize::try_from(len).is_ok_and(|len| len < self.size)) {
            return Err(LayerError::invalid(
                "size",
                self.size,
                format!("it must not exceed the {len} elements of the axis"),
            ));
        }
        if let Some(dim) = dims.get_mut(axis) {
            *dim = (len - self.size).floor_div(self.step) + 1;
        }
        dims.push(self.size.into());
        Ok(vec![inputs[0].with_dims(dims)])
    }

    fn view(&self, _: usize, inputs: &[Layout], shape: &Shape) -> Result<Option<View>> {
        let (input, axis) = (&inputs[0], resolve_axis(self.dimension, inputs[0].shape().rank())?);
        let mut strides = input.strides().to_vec();
        let own = strides.get(axis).copied().unwrap_or(1);
        if let Some(stride) = strides.get_mut(axis) {
            *stride = own.saturating_mul(self.step);
        }
        strides.push(own);
        Ok(Some(View { input: 0, layout: Layout::strided(*shape, &strides, input.offset())? }))
    }
}

view_layers!(Windows);

operators! { AsStrided, AsStridedScatter, Windows: moves(Moved) }

#[cfg(test)]
mod tests {
    use crate::support::testing::{counting, operator, tensor};
    use ixion_tensor::{DType, Tensor};

    #[test]
    fn strides_select_elements_that_may_overlap() {
        let x = counting(DType::I64, &[2, 3]);
        let strided = |params: &[(&str, &str)]| operator("torch.as_strided", params).run_one(&[&x]);
        let windows =
            strided(&[("size", "(2,2,2)"), ("stride", "(2,1,1)"), ("storage_offset", "1")]).unwrap();
        assert_eq!(windows.shape().dims(), [2, 2, 2]);
        assert_eq!(windows.to_vec::<i64>().unwrap(), [1, 2, 2, 3, 3, 4, 4, 5]);
        let turned = strided(&[("size", "(3,2)"), ("stride", "(1,3)")]).unwrap();
        assert_eq!(turned.to_vec::<i64>().unwrap(), [0, 3, 1, 4, 2, 5]);
        let repeated = strided(&[("size", "(3)"), ("stride", "(0)"), ("storage_offset", "5")]).unwrap();
        assert_eq!(repeated.to_vec::<i64>().unwrap(), [5, 5, 5]);
        let scalar = strided(&[("size", "()"), ("stride", "()"), ("storage_offset", "4")]).unwrap();
        assert_eq!((scalar.shape().rank(), scalar.to_vec::<i64>().unwrap()), (0, vec![4]));
        assert_eq!(strided(&[("size", "(0,9)"), ("stride", "(1,1)")]).unwrap().num_elements(), 0);
    }

    #[test]
    fn what_does_not_fit_is_an_error() {
        let x = counting(DType::F32, &[6]);
        let strided = |size, stride, offset| {
            let params = [("size", size), ("stride", stride), ("storage_offset", offset)];
            operator("torch.as_strided", &params).run_one(&[&x])
        };
        assert!(strided("(2,3)", "(3,1)", "0").is_ok() && strided("(2,3)", "(3,1)", "1").is_err());
        assert!(strided("(2,3)", "(3)", "0").is_err());
        assert!(strided("(-1)", "(1)", "0").is_err() && strided("(1)", "(-1)", "0").is_err());
        assert!(strided("(3)", "(9223372036854775807)", "0").is_err());
        assert!(strided("(1)", "(1)", "9223372036854775807").is_err());
    }

    /// PyTorch's results.
    #[test]
    fn selected_elements_are_replaced() {
        let x = counting(DType::I64, &[2, 3]);
        let scatter = |size, stride, offset, src: &Tensor| {
            let params = [("size", size), ("stride", stride), ("storage_offset", offset)];
            operator("aten::as_strided_scatter", &params).run_one(&[&x, src])
        };
        let values = |output: Tensor| output.to_vec::<i64>().unwrap();
        let pairs = tensor(&[2, 2], &[10i64, 20, 30, 40]);
        assert_eq!(values(scatter("(2,2)", "(1,3)", "1", &pairs).unwrap()), [0, 10, 30, 3, 20, 40]);
        let floats = tensor(&[2], &[7.5f32, -8.0]);
        assert_eq!(values(scatter("(2)", "(2)", "None", &floats).unwrap()), [7, 1, -8, 3, 4, 5]);
        assert_eq!(values(scatter("()", "()", "4", &Tensor::scalar(9i64)).unwrap()), [0, 1, 2, 3, 9, 5]);
        let nothing = scatter("(0)", "(1)", "6", &counting(DType::I64, &[0])).unwrap();
        assert_eq!(values(nothing), [0, 1, 2, 3, 4, 5]);
        let twice = scatter("(2,2)", "(1,1)", "0", &pairs).unwrap_err().to_string();
        let reason = "with these lengths, it selects elements more than once";
        assert_eq!(twice, format!("parameter `stride` is [1, 1]: {reason}"));
        let many = scatter("(99)", "(0)", "0", &counting(DType::I64, &[99])).unwrap_err().to_string();
        assert!(many.ends_with(reason), "{many}");
        let other = scatter("(2)", "(2)", "0", &pairs).unwrap_err().to_string();
        assert_eq!(other, "the source: expected 2 i64, got 2×2 i64");
        assert!(scatter("(2,2)", "(3,1)", "3", &pairs).is_err());
        assert!(scatter("(2)", "()", "0", &pairs).is_err());
        operator("aten::as_strided_scatter", &[("size", "(2,3)"), ("stride", "(3,1)")]).survives(2);
    }

    /// PyTorch's result. Neither stride steps over all that the other reaches, but no element is selected twice.
    #[test]
    fn selected_elements_may_be_interleaved() {
        let (x, src) = (counting(DType::I64, &[8]), tensor(&[2, 3], &[10i64, 20, 30, 40, 50, 60]));
        let scatter = operator("aten::as_strided_scatter", &[("size", "(2,3)"), ("stride", "(3,2)")]);
        let got = scatter.run_one(&[&x, &src]).unwrap().to_vec::<i64>().unwrap();
        assert_eq!(got, [10, 1, 20, 40, 30, 50, 6, 60]);
    }

    #[test]
    fn windows_of_an_axis() {
        let x = counting(DType::I64, &[2, 5]);
        let windows = |dimension, size, step| {
            let params = [("dimension", dimension), ("size", size), ("step", step)];
            operator("aten::unfold", &params).run_one(&[&x])
        };
        let rows = windows("-1", "2", "3").unwrap();
        assert_eq!(
            (rows.shape().dims(), rows.to_vec::<i64>().unwrap()),
            (&[2, 2, 2][..], vec![0, 1, 3, 4, 5, 6, 8, 9])
        );
        let columns = windows("0", "2", "1").unwrap();
        assert_eq!(columns.shape().dims(), [1, 5, 2]);
        assert_eq!(columns.to_vec::<i64>().unwrap(), [0, 5, 1, 6, 2, 7, 3, 8, 4, 9]);
        assert_eq!(windows("1", "0", "1").unwrap().shape().dims(), [2, 6, 0]);
        assert!(windows("1", "6", "1").is_err() && windows("1", "2", "0").is_err());
        let large = "9223372036854775807";
        assert!(windows("1", large, "1").is_err() && windows("1", "1", large).is_ok());
    }

    #[test]
    fn odd_inputs() {
        operator("aten::unfold", &[("dimension", "-1"), ("size", "1"), ("step", "2")]).survives(1);
        operator("aten::unfold", &[("dimension", "0"), ("size", "3"), ("step", "1")]).survives(1);
        operator("torch.as_strided", &[("size", "(2,3)"), ("stride", "(1,1)")]).survives(1);
    }
}
