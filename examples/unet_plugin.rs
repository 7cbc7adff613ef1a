//! The program of the course's last lesson, run on the framework's own solution: compares the repository's UNet with a
//! convolution plugin and with the built-in convolution.
//!
//! ```sh
//! cargo run --release --example unet_plugin 20      # number of scenes of each size
//! ```

mod subject {
    pub(super) use ixion::engine::{plan_for, run_all};
    pub(super) use ixion::ops::naive::plugin_conv::registry;
}

#[path = "../lessons/18_capstone/examples/unet/compare.rs"]
mod compare;
#[allow(dead_code, reason = "other programs use the boxes and class names")]
#[path = "../model_file/scenes.rs"]
mod scenes;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let count = std::env::args().nth(1).map_or(Ok(20), |count| count.parse())?;
    compare::compare(count)
}
