//! `ixion plan`: showing how a model is prepared before it runs.

mod int8;
mod json;
mod picture;
mod planned;
mod report;
mod shapes;

use super::device::DeviceArgs;
use super::formats::FormatArgs;
use super::model::ModelArgs;
use super::{Exit, Failure, LimitArgs, Spinner, Terminal, files, numbers, warnings};
use clap::Args;
use planned::Planned;
use shapes::InputShape;
use std::io::Write;
use std::path::PathBuf;

const HELP: &str = "\
The column \"done\" is one of: forward (the operator computes), in place (it overwrites an input), view or constant (nothing \
to do), joined (its producers write directly into the concatenated output), dynamic (it has a tensor whose size is known only \
at run time). The column \"where\" is a range of bytes in the arena, the caller's tensor for an input or output, or system for \
memory that is allocated at run time.

The column \"left out\" has tactics that would have been faster, but whose results are much less exact; --fast allows them.

The lower bound is the memory of the fullest step: no arrangement of the buffers takes less.

Exit codes:
  0  the model was planned
  1  the result could not be written
  2  the model cannot be read, built or planned for these shapes, or a usage error

Examples:
  ixion plan model.pnnx.param
  ixion plan model.pnnx.param --input-shape x=8,3,224,224 --memory memory.svg
  ixion plan model.pnnx.param --without fold_batch_norm
  ixion plan model.plan --verify
  ixion plan model.pnnx.param --json | jq .memory";

/// Show how a model is prepared before it runs: passes, operators in order, and the memory of each
#[derive(Debug, Args)]
#[command(after_help = HELP)]
pub(crate) struct PlanArgs {
    #[command(flatten)]
    model: ModelArgs,
    /// The shape of an input, such as x=1,3,224,224; may be repeated [default: the shape in the file, with 1 for unknown
    /// sizes]
    #[arg(short = 's', long, value_name = "[NAME=]DIMS", value_parser = InputShape::parse)]
    input_shape: Vec<InputShape>,
    /// Disable passes by name; `all` disables all of them
    #[arg(long, alias = "no-pass", value_name = "PASS", num_args = 1..)]
    without: Vec<String>,
    #[command(flatten)]
    formats: FormatArgs,
    #[command(flatten)]
    device: DeviceArgs,
    /// Print the result as a JSON object
    #[arg(long)]
    json: bool,
    /// Write a map of the arena over time as SVG to FILE; `-` is the standard output
    #[arg(long, value_name = "FILE", conflicts_with = "json")]
    memory: Option<PathBuf>,
}

impl PlanArgs {
    pub(crate) fn run(&self, limits: &LimitArgs, terminal: &mut Terminal) -> Result<Exit, Failure> {
        let param = &self.model.param;
        if let Some(path) = self.memory.as_ref().filter(|path| path.as_os_str() != "-") {
            files::check_kept(path, self.model.files())?;
            files::check_new_file(path)?;
        }
        let spinner = Spinner::start(format!("planning {}", param.display()));
        let planned = Planned::new(
            &self.model,
            &self.input_shape,
            (&self.without, &self.formats, &self.device),
            limits.start(),
        )?;
        drop(spinner);
        warnings::print(planned.warnings());
        let title = param.file_name().unwrap_or(param.as_os_str()).to_string_lossy();
        match &self.memory {
            _ if self.json => terminal.json(&json::json(param, &planned))?,
            Some(path) if path.as_os_str() == "-" => {
                write!(terminal, "{}", picture::map(&title, &planned).to_svg())?;
            }
            picture => {
                report::write(terminal, &title, &planned)?;
                if let Some(path) = picture {
                    files::write_text(path, &picture::map(&title, &planned).to_svg())?;
                    let buffers = numbers::plural(planned.memory.slots.len(), "buffer");
                    writeln!(terminal, "\n{}: {buffers}", path.display())?;
                }
            }
        }
        Ok(Exit::Fine)
    }
}
