//! The program of the course's last lesson on the framework's own solution: the UNet of the repository on a convolution that
//! is a plugin, against the built-in one.
//!
//! ```sh
//! cargo run --release --example unet_plugin 20      # so many scenes of each size
//! ```

mod subject {
    pub(super) use ixion::engine::{plan_for, run_all};
    pub(super) use ixion::ops::naive::plugin_conv::registry;
}

#[path = "../lessons/18_capstone/examples/unet/compare.rs"]
mod compare;
#[allow(dead_code, reason = "boxes and the names of the classes are for others")]
#[path = "../model_file/scenes.rs"]
mod scenes;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let count = std::env::args().nth(1).map_or(Ok(20), |count| count.parse())?;
    compare::compare(count)
}
