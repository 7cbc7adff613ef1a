//! `ixion convert`: a model in another form.

use super::failure::{Exit, Failure};
use super::files;
use super::limits::LimitArgs;
use super::model::ModelArgs;
use super::numbers;
use super::progress::Spinner;
use super::screen::Screen;
use clap::Args;
use ixion::graph::archive_beside;
use ixion::pnnx::Graph;
use std::io::Write;
use std::path::{Path, PathBuf};

const HELP: &str = "\
The text is laid out as PNNX lays it out, the archive is written anew with a checksum for every weight. Files are first \
written under another name, so that nothing half-written is left; PARAM itself may be the target.

The Python source has a class Model for PyTorch. It reads the weights from the archive beside it.

Exit codes:
  0  everything was written
  1  a weight is damaged, or a file could not be written
  2  the model cannot be read or lacks weights, or a usage error

Examples:
  ixion convert old.param --bin old.bin --param new.pnnx.param
  ixion convert model.pnnx.param --python model.py";

/// Writes a model anew, as text and archive or as Python source for PyTorch
#[derive(Debug, Args)]
#[command(after_help = HELP)]
#[group(id = "target", required = true, multiple = true, args = ["target_param", "python"])]
pub(crate) struct ConvertArgs {
    #[command(flatten)]
    model: ModelArgs,
    /// Writes the text here, and the archive beside it
    #[arg(id = "target_param", long = "param", value_name = "FILE")]
    param: Option<PathBuf>,
    /// Writes Python source here
    #[arg(long, value_name = "FILE")]
    python: Option<PathBuf>,
}

impl ConvertArgs {
    pub(crate) fn run(&self, limits: &LimitArgs, screen: &mut Screen) -> Result<Exit, Failure> {
        let graph = self.model.load(&limits.start())?;
        if let Some(param) = &self.param {
            save(&graph, param, screen)?;
        }
        if let Some(python) = &self.python {
            let archive = self.param.as_ref().unwrap_or(&self.model.param).as_path();
            let archive =
                self.model.bin.clone().filter(|_| self.param.is_none()).unwrap_or(archive_beside(archive));
            let name = archive.file_stem().unwrap_or_default().to_string_lossy();
            files::check_kept(python, self.model.files().iter().map(PathBuf::as_path))?;
            files::write_text(python, &graph.to_python(&name))?;
            writeln!(screen, "{}: reads {name}.bin, which must lie beside it", python.display())?;
        }
        Ok(Exit::Fine)
    }
}

fn save(graph: &Graph, param: &Path, screen: &mut Screen) -> Result<(), Failure> {
    let bin = archive_beside(param);
    let absent: Vec<String> = graph.check_weights().iter().map(ToString::to_string).collect();
    if !absent.is_empty() {
        return Err(Failure::unusable(absent.join("\n  ")));
    }
    files::check_target(param)?;
    files::check_target(&bin)?;
    let spinner = Spinner::start(format!("writing {}", bin.display()));
    graph.save(param, &bin).map_err(Failure::failed)?;
    drop(spinner);
    writeln!(screen, "{}: {}", param.display(), numbers::plural(graph.operator_count(), "operator"))?;
    let bytes = std::fs::metadata(&bin).map(|metadata| metadata.len()).unwrap_or(0);
    writeln!(screen, "{}: {}", bin.display(), numbers::bytes(bytes))?;
    Ok(())
}
