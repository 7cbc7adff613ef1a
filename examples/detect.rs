//! Detects the objects in an image: prints them and draws them into a copy.
//!
//! ```sh
//! cargo run --release --example detect -- model_file/shapes_detector/shapes_detector.pnnx.param street.png found.png
//! ```

use ixion::Limits;
use ixion::engine::Model;
use ixion::tensor::Picture;
use ixion::vision::{ModelCard, draw_detections, label_of};
use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [param, picture, drawn] = args.as_slice() else {
        return Err("usage: detect MODEL.param PICTURE DRAWN.png".into());
    };
    let limits = Limits::default();
    let card = ModelCard::for_model(param)?.ok_or("there is no model.toml next to the model")?;
    let mut model = Model::load(param)?;

    let picture = Picture::load(picture, &limits)?;
    // The frame maps coordinates of the model's input back to the picture.
    let (input, frame) = card.prepare(&picture, &limits)?;
    let outputs = model.run(&[input])?;
    let found = card.detect(&outputs, &[frame])?.remove(0);

    let (labels, colors) = (&card.output.labels, &card.output.colors);
    for object in &found {
        let rect = object.rect;
        print!("{} {:.1} %: ", label_of(labels, object.class), object.score * 100.0);
        println!("{:.0}, {:.0} to {:.0}, {:.0}", rect.left, rect.top, rect.right, rect.bottom);
    }
    draw_detections(&picture, &found, labels, colors)?.save_png(drawn)?;
    println!("{} objects; see {drawn}", found.len());
    Ok(())
}
