//! Expressions against PyTorch's results, against the naive evaluator, and against themselves one function at a time.

mod activations;
mod fused;
mod pytorch;
mod rules;

use super::*;
use crate::op::{OperatorReader, Registry, Result, RuntimeParameter};
use ixion_tensor::Workspace;
use std::collections::BTreeMap;

fn layer(text: &str) -> Result<Box<dyn CpuLayer>> {
    let params = BTreeMap::from([("expr".to_owned(), RuntimeParameter::parse(text))]);
    let registry = Registry::default();
    registry.get("pnnx.Expression").unwrap().create(OperatorReader::new(&params, &BTreeMap::new(), &[], 1))
}

/// The value of an expression. Also checks it against shape inference, known values, a second run and a run in place.
fn run(text: &str, inputs: &[Tensor]) -> Result<Tensor> {
    let mut layer = layer(text)?;
    let views: Vec<_> = inputs.iter().map(Tensor::view).collect();
    let metas: Vec<_> = views.iter().map(TensorMeta::of).collect();
    let meta = layer.infer(&metas)?.remove(0);
    let mut output = Tensor::zeros(meta.dtype(), &meta.shape()?)?;
    let (mut workspace, limits) = (Workspace::new()?, Limits::default());
    let mut context = ForwardContext::new(&mut workspace, &limits);
    layer.forward(&mut Io::new(&views, &mut [output.view_mut()?], &mut context))?;
    if let Some(values) = meta.values() {
        let values: Vec<i64> = values.iter().map(|value| value.fixed().unwrap()).collect();
        assert_eq!(values, output.to_vec::<i64>()?, "values of `{text}` known beforehand");
    }
    if let Some(constant) = layer.constant(&limits)? {
        assert_eq!(constant.to_le_bytes()?, output.to_le_bytes()?, "`{text}` as a constant");
    }
    let mut again = Tensor::zeros(meta.dtype(), &meta.shape()?)?;
    layer.forward(&mut Io::new(&views, &mut [again.view_mut()?], &mut context))?;
    assert_eq!(again.to_le_bytes()?, output.to_le_bytes()?, "`{text}` once more");
    if let (Some(0), Some((first, others))) = (layer.in_place(0), views.split_first())
        && (first.dtype(), first.shape()) == (output.dtype(), output.shape())
    {
        let mut data = first.to_tensor()?;
        layer.forward_in_place(&mut data.view_mut()?, others, &mut context)?;
        assert_eq!(data.to_le_bytes()?, output.to_le_bytes()?, "`{text}` in place");
    }
    Ok(output)
}

fn tensor<T: ixion_tensor::Element>(data: &[T], shape: &[usize]) -> Tensor {
    Tensor::from_vec(data.to_vec(), shape).unwrap()
}
