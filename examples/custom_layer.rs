//! A custom layer, for an operator that Ixion does not support.
//!
//! ```sh
//! cargo run --example custom_layer
//! ```

use ixion::Limits;
use ixion::graph::RuntimeGraph;
use ixion::op::{CpuLayer, Io, Layer, Registry, Result, TensorMeta};
use ixion::pnnx;
use ixion::tensor::Tensor;
use std::error::Error;

const MODEL: &str = "7767517
3 2
pnnx.Input   input   0 1 x #x=(?,3)f32
my.Clipped   clipped 1 1 x y most=2.0 #y=(?,3)f32
pnnx.Output  output  1 0 y
";

// ANCHOR: layer
ixion::operator! {
    /// The smaller of x and a constant.
    struct Clipped for "my.Clipped" {
        /// The constant.
        most: f64,
    }
}

impl Layer for Clipped {
    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
        Ok(vec![inputs[0].clone()])
    }
}

impl CpuLayer for Clipped {
    fn forward(&mut self, io: &mut Io<'_, '_>) -> Result<()> {
        let (x, most) = (io.inputs[0].array::<f32>()?, self.most as f32);
        io.outputs[0].array::<f32>()?.zip_mut_with(&x, |y, &x| *y = x.min(most));
        Ok(())
    }
}
// ANCHOR_END: layer

// ANCHOR: run
fn main() -> Result<(), Box<dyn Error>> {
    let mut registry = Registry::default();
    registry.register::<Clipped>()?;
    let file = pnnx::Graph::parse(MODEL, &Limits::default())?;
    let mut graph = RuntimeGraph::from_pnnx(file).with_registry(registry);
    graph.build()?;
    let outputs = graph.run_with(vec![Tensor::from_vec(vec![1.0f32, 2.0, 3.0], &[1, 3])?])?;
    println!("{}", outputs[0]);
    Ok(())
}
// ANCHOR_END: run
