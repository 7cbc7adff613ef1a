//! Segments an image: writes the class of each pixel as a mask and draws the mask over a copy of the image.
//!
//! ```sh
//! cargo run --release --example segment -- model_file/shapes_unet/shapes_unet.pnnx.param street.png mask.png drawn.png
//! ```

use ixion::Limits;
use ixion::engine::Model;
use ixion::tensor::Picture;
use ixion::vision::{ModelCard, draw_mask, label_of};
use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [param, picture, mask_file, drawn_file] = args.as_slice() else {
        return Err("usage: segment MODEL.param PICTURE MASK.png DRAWN.png".into());
    };
    let limits = Limits::default();
    let card = ModelCard::for_model(param)?.ok_or("there is no model.toml next to the model")?;
    let mut model = Model::load(param)?;

    let picture = Picture::load(picture, &limits)?;
    let (input, frame) = card.prepare(&picture, &limits)?;
    let outputs = model.run(&[input])?;
    // The mask has the picture's size, not that of the model's input.
    let mask = card.segment(&outputs, &[frame])?.remove(0);

    let reading = &card.output;
    for (class, pixels) in mask.counts() {
        println!("{}: {pixels} pixels", label_of(&reading.labels, class.into()));
    }
    mask.save_png(mask_file, &reading.colors, reading.background)?;
    draw_mask(&picture, &mask, &reading.labels, &reading.colors, reading.background)?.save_png(drawn_file)?;
    println!("see {mask_file} and {drawn_file}");
    Ok(())
}
