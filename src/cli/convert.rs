//! `ixion convert`: writing a model in another form.

use super::model::ModelArgs;
use super::{Exit, Failure, LimitArgs, Spinner, Terminal, files, numbers};
use clap::Args;
use ixion::graph::default_bin_path;
use ixion::pnnx::Graph;
use std::io::Write;
use std::path::{Path, PathBuf};

const HELP: &str = "\
The text is formatted as PNNX formats it, and the archive is rewritten with a checksum for every weight. Files are first \
written under a temporary name, so that no partial file is left behind; PARAM itself may be the target.

The Python source defines a class Model for PyTorch, which reads its weights from the archive next to it.

Exit codes:
  0  everything was written
  1  a weight is damaged, or a file could not be written
  2  the model cannot be read or lacks weights, or a usage error

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
        let graph = self.model.load(&limits.start())?;
        if let Some(param) = &self.param {
            save(&graph, param, terminal)?;
        }
        if let Some(python) = &self.python {
            let archive = self.param.as_ref().unwrap_or(&self.model.param).as_path();
            let archive =
                self.model.bin.clone().filter(|_| self.param.is_none()).unwrap_or(default_bin_path(archive));
            let name = archive.file_stem().unwrap_or_default().to_string_lossy();
            files::check_kept(python, self.model.files())?;
            files::write_text(python, &graph.to_python(&name))?;
            writeln!(terminal, "{}: reads {name}.bin from the same folder", python.display())?;
        }
        Ok(Exit::Fine)
    }
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
