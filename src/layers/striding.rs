//! A tensor's elements seen through other lengths and strides.

use crate::graph::{CpuLayer, ForwardContext, Layer, LayerError, Registry, RegistryError, TensorMeta, View};
use crate::tensor::{Layout, Shape, TensorView, TensorViewMut};

crate::operator! {
    /// `torch.as_strided`: element i, j, … of the output is that at `storage_offset` + i·`stride[0]` + j·`stride[1]` + …
    /// of the input in row-major order. Parts may overlap. A view where the input lies in that order.
    pub struct AsStrided for "torch.as_strided", "Tensor.as_strided" {
        /// The output's lengths.
        size: Vec<i64>,
        /// For each axis, how many elements apart its neighbours are.
        stride: Vec<i64>,
        /// Where the first element lies; 0 where absent, as an input in row-major order begins there.
        storage_offset: Option<usize> = None,
    }
    validate |layer| {
        let negative = |(_, values): &(&'static str, &Vec<i64>)| values.iter().any(|value| *value < 0);
        let wrong = [("size", &layer.size), ("stride", &layer.stride)].into_iter().find(negative);
        let reason = match wrong {
            Some(_) => "no number may be negative".to_owned(),
            None if layer.size.len() == layer.stride.len() => return Ok(()),
            None => format!("there are {} lengths", layer.size.len()),
        };
        let (key, values) = wrong.unwrap_or(("stride", &layer.stride));
        Err(LayerError::InvalidParameter { key, found: format!("{values:?}"), reason })
    }
}

impl AsStrided {
    /// Where the output's elements lie in an input of so many elements that begins at `start`.
    fn layout(&self, shape: &Shape, elements: usize, start: usize) -> Result<Layout, LayerError> {
        let strides: Option<Vec<usize>> =
            self.stride.iter().map(|&stride| usize::try_from(stride).ok()).collect();
        let offset = self.storage_offset.unwrap_or(0);
        let within = Layout::strided(*shape, &strides.unwrap_or_default(), offset)?;
        within.check_within(elements)?;
        Ok(Layout::strided(*shape, within.strides(), start.saturating_add(offset))?)
    }
}

impl Layer for AsStrided {
    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>, LayerError> {
        let output = inputs[0].with_dims(self.size.iter().copied());
        if let Some(elements) = inputs[0].num_elements().fixed() {
            self.layout(&output.shape()?, usize::try_from(elements).unwrap_or(0), 0)?;
        }
        Ok(vec![output])
    }

    fn view(&self, _: usize, inputs: &[Layout], shape: &Shape) -> Result<Option<View>, LayerError> {
        let input = &inputs[0];
        if !input.is_contiguous() {
            return Ok(None);
        }
        let layout = self.layout(shape, input.shape().num_elements(), input.offset())?;
        Ok(Some(View { input: 0, layout }))
    }
}

impl CpuLayer for AsStrided {
    fn forward(
        &mut self,
        inputs: &[TensorView<'_>],
        outputs: &mut [TensorViewMut<'_>],
        _: &mut ForwardContext<'_>,
    ) -> Result<(), LayerError> {
        let layout = self.layout(outputs[0].shape(), inputs[0].num_elements(), 0)?;
        let plain = inputs[0].to_tensor()?;
        Ok(outputs[0].copy_from(&plain.view().with_layout(layout)?)?)
    }
}

/// Registers the layers of this family.
pub(super) fn register(registry: &mut Registry) -> Result<(), RegistryError> {
    registry.register::<AsStrided>()
}

#[cfg(test)]
mod tests {
    use crate::layers::testing::{counting, operator};
    use crate::tensor::DType;

    #[test]
    fn elements_lie_where_strides_say_and_may_overlap() {
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

    #[test]
    fn odd_inputs() {
        operator("torch.as_strided", &[("size", "(2,3)"), ("stride", "(1,1)")]).survives(1);
    }
}
