//! Classifies images.
//!
//! ```sh
//! cargo run --release --example classify -- model_file/digits/digits.pnnx.param model_file/digits/samples/7.png
//! ```

use ixion::Limits;
use ixion::engine::Model;
use ixion::tensor::Picture;
use ixion::vision::ModelCard;
use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [param, pictures @ ..] = args.as_slice() else {
        return Err("usage: classify MODEL.param PICTURE…".into());
    };
    let limits = Limits::default();
    let card = ModelCard::for_model(param)?.ok_or("there is no model.toml next to the model")?;
    let mut model = Model::load(param)?;

    for path in pictures {
        let picture = Picture::load(path, &limits)?;
        let (input, _) = card.prepare(&picture, &limits)?;
        let outputs = model.run(&[input])?;
        // One list per image of the batch, which holds a single image.
        for class in card.classify(&outputs, 3)?.iter().flatten() {
            println!("{path}: {} {:.1} %", class.label, class.score * 100.0);
        }
    }
    Ok(())
}
