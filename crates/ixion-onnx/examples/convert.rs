//! Writes an ONNX file as a PNNX model: `convert model.onnx model.pnnx.param`. The archive is written next to the text.
//! `NAME=VALUE` after that fixes an input of the model to a value.

use ixion_onnx::Options;
use std::path::Path;
use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [from, to, constants @ ..] = arguments.as_slice() else {
        eprintln!("usage: convert MODEL.onnx MODEL.pnnx.param [NAME=VALUE]...");
        return ExitCode::from(2);
    };
    match convert(from, to, constants) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn convert(from: &str, to: &str, constants: &[String]) -> Result<(), Box<dyn std::error::Error>> {
    let mut options = Options::default();
    for constant in constants {
        let (name, value) = constant.split_once('=').ok_or("expected NAME=VALUE")?;
        options.constants.insert(name.to_owned(), value.parse()?);
    }
    let model = ixion_onnx::read_with(from, &options)?;
    model.graph.save(Path::new(to), Path::new(&to.replace(".param", ".bin")))?;
    Ok(())
}
