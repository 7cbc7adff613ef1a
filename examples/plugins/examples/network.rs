//! A network that is defined in code and consists of one plugin.
//!
//! ```sh
//! cargo run -p plugins --example network
//! ```

use ixion::engine::{Fields, Network};
use ixion::op::Registry;
use ixion::tensor::{DType, Tensor};
use std::error::Error;

// ANCHOR: network
fn main() -> Result<(), Box<dyn Error>> {
    let mut registry = Registry::default();
    plugins::register(&mut registry)?;

    let mut network = Network::new().with_registry(registry);
    let x = network.add_input("x", DType::F32, [1.into(), "n".into(), 2.into()])?;
    let y = network.add_input("y", DType::F32, [1.into(), "m".into(), 2.into()])?;
    let plugin = "examples/CopyConcat/1".parse()?;
    let outputs = network.add_plugin(&plugin, "both", &[x, y], &Fields::new().with_param("axis", 1))?;
    network.mark_output(outputs[0], "copy")?;
    network.mark_output(outputs[1], "whole")?;

    let plan = network.builder()?.build()?;
    let tensor = |values: [f32; 4]| Tensor::from_vec(values.to_vec(), &[1, 2, 2]);
    let inputs = [tensor([72.438, 32.25, 77.625, 82.625])?, tensor([96.438, 9.562, 47.094, 70.188])?];
    for output in plan.context()?.run(&inputs)? {
        println!("{output}\n");
    }
    Ok(())
}
// ANCHOR_END: network
