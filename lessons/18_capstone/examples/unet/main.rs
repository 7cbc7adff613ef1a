//! Runs the UNet of the repository on this lesson's convolution, and reports its accuracy and time.
//!
//! ```sh
//! cargo run --release -p lesson18 --example unet            # 20 scenes of each size
//! cargo run --release -p lesson18 --example unet 200        # more of them
//! ```

use lesson18 as subject;

mod compare;
#[allow(dead_code, reason = "boxes and the names of the classes are for others")]
#[path = "../../../../model_file/scenes.rs"]
mod scenes;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let count = std::env::args().nth(1).map_or(Ok(20), |count| count.parse())?;
    compare::compare(count)
}
