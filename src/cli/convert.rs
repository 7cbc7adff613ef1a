//! `ixion convert`: writing a model in another form.

use super::model::ModelArgs;
use super::{Exit, Failure, LimitArgs, Spinner, Terminal, files, numbers};
use clap::Args;
use ixion::graph::{default_bin_path, is_onnx, restore_losses, widen_weights};
use ixion::pnnx::Graph;
use std::io::Write;
use std::path::{Path, PathBuf};

const HELP: &str = "\
The text is formatted as PNNX formats it, and the archive is rewritten with a checksum for every weight. Files are first \
written under a temporary name, so that no partial file is left behind; PARAM itself may be the target.

The Python source defines a class Model for PyTorch, which reads its weights from the archive next to it. If PyTorch has no \
counterpart of some operators, they are listed with their lines and the reasons, and nothing is written. A plan can only be \
written as text and archive.

Exit codes:
  0  everything was written
  1  a weight is damaged, operators cannot be written as Python, or a file could not be written
  2  the model cannot be read or lacks weights, a plan is to be written as Python, or a usage error

Examples:
  ixion convert old.param --bin old.bin --param new.pnnx.param
  ixion convert model.pnnx.param --python model.py";

/// Rewrite a model as text and archive, or as Python source for PyTorch
#[derive(Debug, Args)]
#[command(after_help = HELP)]
#[group(id = "target", required = true, multiple = true, args = ["target_param", "python"])]
pub(crate) struct ConvertArgs {
    #[command(flatten)]
    model: ModelArgs,
    /// Write the text to FILE, and the archive next to it
    #[arg(id = "target_param", long = "param", value_name = "FILE")]
    param: Option<PathBuf>,
    /// Write Python source to FILE
    #[arg(long, value_name = "FILE")]
    python: Option<PathBuf>,
}

impl ConvertArgs {
    pub(crate) fn run(&self, limits: &LimitArgs, terminal: &mut Terminal) -> Result<Exit, Failure> {
        let limits = limits.start();
        let mut graph = self.model.load(&limits)?;
        widen_weights(&mut graph).map_err(Failure::failed)?;
        // Before anything is written: some operators may have no counterpart.
        let python = match &self.python {
            Some(path) => Some((path, self.source(path, &graph)?)),
            None => None,
        };
        if let Some(param) = &self.param {
            if is_onnx(&self.model.param) {
                // Its weights are in files that may be called like the archive.
                files::check_kept(param, self.model.files())?;
                files::check_kept(&default_bin_path(param), self.model.files())?;
            }
            save(&graph, param, terminal)?;
        }
        if let Some((path, source)) = python {
            files::write_text(path, &source.text)?;
            writeln!(terminal, "{}: reads {}.bin from the same folder", path.display(), source.archive)?;
        }
        Ok(Exit::Fine)
    }

    /// The Python source for this path.
    ///
    /// # Errors
    /// Fails if the model is a plan, if the path is one of the inputs or cannot be written, or if some operators cannot be
    /// written as Python.
    fn source(&self, path: &Path, graph: &Graph) -> Result<Source, Failure> {
        if self.model.is_plan() {
            let plan = self.model.param.display();
            let message = format!("{plan} is a plan, whose operators PyTorch lacks");
            return Err(Failure::unusable(message).advise("convert the model that it was built from"));
        }
        if is_onnx(&self.model.param) && self.param.is_none() {
            let message = format!("{} has no archive that the source could read", self.model.param.display());
            return Err(Failure::unusable(message).advise("give --param as well: it writes one"));
        }
        files::check_kept(path, self.model.files())?;
        let archive = self.param.as_ref().unwrap_or(&self.model.param).as_path();
        let archive =
            self.model.bin.clone().filter(|_| self.param.is_none()).unwrap_or(default_bin_path(archive));
        let archive = archive.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let mut graph = graph.clone();
        restore_losses(&mut graph).map_err(Failure::unusable)?;
        let text = graph.to_python(&archive);
        let text =
            text.map_err(|error| Failure::failed(format!("{}: {error}", self.model.param.display())))?;
        // A device or a pipe is written directly.
        if !path.exists() || path.is_file() || path.is_dir() {
            files::check_new_file(path)?;
        }
        Ok(Source { text, archive })
    }
}

/// Python source, and what it depends on.
struct Source {
    text: String,
    /// The name of the archive that it reads, without the extension.
    archive: String,
}

fn save(graph: &Graph, param: &Path, terminal: &mut Terminal) -> Result<(), Failure> {
    let bin = default_bin_path(param);
    let absent: Vec<String> = graph.check_weights().iter().map(ToString::to_string).collect();
    if !absent.is_empty() {
        return Err(Failure::unusable(absent.join("\n  ")));
    }
    files::check_target(param)?;
    files::check_target(&bin)?;
    let spinner = Spinner::start(format!("writing {}", bin.display()));
    graph.save(param, &bin).map_err(Failure::failed)?;
    drop(spinner);
    writeln!(terminal, "{}: {}", param.display(), numbers::plural(graph.operator_count(), "operator"))?;
    let bytes = std::fs::metadata(&bin).map(|metadata| metadata.len()).unwrap_or(0);
    writeln!(terminal, "{}: {}", bin.display(), numbers::bytes(bytes))?;
    Ok(())
}
