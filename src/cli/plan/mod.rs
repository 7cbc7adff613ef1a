//! `ixion plan`: what becomes of a model before it runs.

mod json;
mod picture;
pub(super) mod planned;
mod report;
mod shapes;

use super::device::DeviceArgs;
use super::failure::{Exit, Failure};
use super::files;
use super::formats::FormatArgs;
use super::limits::LimitArgs;
use super::model::ModelArgs;
use super::numbers;
use super::progress::Spinner;
use super::screen::Screen;
use clap::Args;
use planned::Planned;
use shapes::InputShape;
use std::io::Write;
use std::path::PathBuf;

const HELP: &str = "\
What is done is one of: forward (the operator computes), in place (it overwrites an input), view and constant (there is \
nothing to do), joined (the operators ahead write where their outputs are put together), dynamic (the size is known only when \
the model runs, and the memory comes from the system). Where: bytes of the arena, or the caller's tensor for an input or output.

The lower bound is what the fullest step needs: no arrangement of the buffers takes less.

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

/// Shows what becomes of a model before it runs: passes, operators in order, and the memory of each
#[derive(Debug, Args)]
#[command(after_help = HELP)]
pub(crate) struct PlanArgs {
    #[command(flatten)]
    model: ModelArgs,
    /// The shape of an input, such as x=1,3,224,224; repeat it for several [default: as the file says, 1 for what it leaves
    /// open]
    #[arg(short = 's', long, value_name = "[NAME=]DIMS", value_parser = InputShape::parse)]
    input_shape: Vec<InputShape>,
    /// Leaves out passes by name; `all` leaves the graph as it is
    #[arg(long, alias = "no-pass", value_name = "PASS", num_args = 1..)]
    without: Vec<String>,
    #[command(flatten)]
    formats: FormatArgs,
    #[command(flatten)]
    device: DeviceArgs,
    /// One JSON object, for programs
    #[arg(long)]
    json: bool,
    /// Writes a picture (SVG) of who holds which part of the arena, and when; `-` is the standard output
    #[arg(long, value_name = "FILE", conflicts_with = "json")]
    memory: Option<PathBuf>,
}

impl PlanArgs {
    pub(crate) fn run(&self, limits: &LimitArgs, screen: &mut Screen) -> Result<Exit, Failure> {
        let param = &self.model.param;
        if let Some(path) = self.picture_file() {
            files::check_kept(path, self.model.files().iter().map(PathBuf::as_path))?;
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
        let title = param.file_name().unwrap_or(param.as_os_str()).to_string_lossy();
        match &self.memory {
            _ if self.json => screen.json(&json::json(param, &planned))?,
            Some(path) if path.as_os_str() == "-" => {
                write!(screen, "{}", picture::map(&title, &planned).to_svg())?;
            }
            picture => {
                report::write(screen, &title, &planned)?;
                if let Some(path) = picture {
                    files::write_text(path, &picture::map(&title, &planned).to_svg())?;
                    let buffers = numbers::plural(planned.memory.slots.len(), "buffer");
                    writeln!(screen, "\n{}: {buffers}", path.display())?;
                }
            }
        }
        Ok(Exit::Fine)
    }

    fn picture_file(&self) -> Option<&PathBuf> {
        self.memory.as_ref().filter(|path| path.as_os_str() != "-")
    }
}
