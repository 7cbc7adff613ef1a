//! Layers for modules that PNNX kept whole and for custom operators.
//!
//! ```sh
//! cargo run --example custom_operator
//! ```
//!
//! `pnnx model.pt moduleop=models.common.Focus` keeps a module whole, as a single operator. Its type is the module's class and
//! its attributes are the module's weights by name. `customop=…` keeps a custom operator as
//! `pnnx.custom_op.<namespace>.<name>` with the arguments `arg_0`, `arg_1` and so on: tensors become inputs, all others
//! parameters. Without layers for these operators, loading fails with a list of them. This example registers a layer for each.

use ixion::Limits;
use ixion::graph::{GraphError, RuntimeGraph};
use ixion::op::{CpuLayer, Io, Layer, LayerError, Registry, Result, TensorMeta, Weight};
use ixion::ops::support::arguments::InputIndex;
use ixion::pnnx::{Attribute, Graph};
use ixion::tensor::Tensor;
use std::error::Error;

const MODEL: &str = "7767517
5 4
pnnx.Input                     image   0 1 x #x=(1,1,4,4)f32
models.common.Focus            focus   1 1 x y @conv.weight=(4)f32 #x=(1,1,4,4)f32 #y=(1,1,2,2)f32
pnnx.Input                     mask    0 1 m #m=(1,1,2,2)f32
pnnx.custom_op.my_ops.gated    gate    2 1 y m z arg_2=0.5 $arg_0=y $arg_1=m #y=(1,1,2,2)f32 #z=(1,1,2,2)f32
pnnx.Output                    output  1 0 z
";

ixion::operator! {
    /// YOLOv5's Focus for one channel: the weighted sum of each 2×2 block of pixels.
    struct Focus for "models.common.Focus" {
        /// The weights of the four pixels: top left, bottom left, top right, bottom right.
        weight as "conv.weight": Weight,
    }
}

impl Layer for Focus {
    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
        let [n, c, height, width] = inputs[0].dims() else {
            return Err(LayerError::shape("the input", "N×1×H×W", &inputs[0]));
        };
        let half = |dim: &ixion::tensor::Dim| dim.clone().floor_div(2usize);
        Ok(vec![inputs[0].with_dims([n.clone(), c.clone(), half(height), half(width)])])
    }
}

impl CpuLayer for Focus {
    fn forward(&mut self, io: &mut Io<'_, '_>) -> Result<()> {
        let weights = self.weight.view(io.inputs)?.to_vec::<f32>()?;
        let x = io.inputs[0].array::<f32>()?;
        for (index, y) in io.outputs[0].array::<f32>()?.indexed_iter_mut() {
            let corners = [(0, 0), (1, 0), (0, 1), (1, 1)].into_iter().zip(&weights);
            *y = corners
                .map(|((down, right), weight)| {
                    weight * x[[index[0], index[1], 2 * index[2] + down, 2 * index[3] + right]]
                })
                .sum();
        }
        Ok(())
    }
}

ixion::operator! {
    /// x where the mask exceeds a threshold, else 0.
    struct Gated for "pnnx.custom_op.my_ops.gated" {
        /// The mask.
        mask as "arg_1": InputIndex,
        /// The threshold.
        threshold as "arg_2": f64,
    }
}

impl Layer for Gated {
    fn num_inputs(&self) -> std::ops::RangeInclusive<usize> {
        2..=2
    }

    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
        if inputs[0].dims() != inputs[self.mask.0].dims() {
            return Err(LayerError::shape("the mask", &inputs[0], &inputs[self.mask.0]));
        }
        Ok(vec![inputs[0].clone()])
    }
}

impl CpuLayer for Gated {
    fn forward(&mut self, io: &mut Io<'_, '_>) -> Result<()> {
        let (x, mask) = (io.inputs[0].array::<f32>()?, io.inputs[self.mask.0].array::<f32>()?);
        let threshold = self.threshold as f32;
        ndarray::Zip::from(io.outputs[0].array::<f32>()?)
            .and(&x)
            .and(&mask)
            .for_each(|y, &x, &mask| *y = if mask > threshold { x } else { 0.0 });
        Ok(())
    }
}

/// The model. Weights are normally read from the `.bin` file next to the `.param` file; this example sets them here.
fn model() -> Result<Graph, Box<dyn Error>> {
    let mut graph = Graph::parse(MODEL, &Limits::default())?;
    let focus = graph.operator_named("focus").ok_or("there is no operator `focus`")?;
    graph.set_attribute(focus, "conv.weight", Attribute::from_f32s(vec![4], &[1.0, 0.5, 0.25, 0.0])?)?;
    Ok(graph)
}

fn main() -> Result<(), Box<dyn Error>> {
    // Without layers, the error lists both operators and how to proceed.
    let mut graph = RuntimeGraph::from_pnnx(model()?);
    match graph.build() {
        Err(error @ GraphError::UnknownOperators { .. }) => println!("{error}\n"),
        other => return Err(format!("expected an error, got {other:?}").into()),
    }
    let mut registry = Registry::default();
    registry.register::<Focus>()?;
    registry.register::<Gated>()?;
    let mut graph = RuntimeGraph::from_pnnx(model()?).with_registry(registry);
    graph.build()?;
    let x: Vec<f32> = (0..16).map(|value| value as f32).collect();
    let image = Tensor::from_vec(x, &[1, 1, 4, 4])?;
    let mask = Tensor::from_vec(vec![1.0f32, 0.0, 1.0, 1.0], &[1, 1, 2, 2])?;
    println!("{}", graph.run_with(vec![image, mask])?[0]);
    Ok(())
}
