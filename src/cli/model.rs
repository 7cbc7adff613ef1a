//! The files of a model, as arguments of most subcommands: a text and an archive, or a plan that `ixion build` wrote.

use super::formats::FormatArgs;
use super::plugins::PluginArgs;
use super::runner::{EngineArgs, Runner, graph_error, passes};
use super::{Failure, Spinner, warnings};
use clap::Args;
use ixion::engine::{Builder, EngineError, PlanFile, PlanFileProblem};
use ixion::graph::{GraphError, ReadOptions, RuntimeGraph, default_bin_path, is_onnx, read_model};
use ixion::onnx::{Fixed, external_files};
use ixion::op::{Creator, PluginName};
use ixion::pnnx::Graph;
use ixion::vision::ModelCard;
use ixion::{LimitError, Limits};
use std::error::Error;
use std::path::{Path, PathBuf};

/// The text and the archive of a model.
#[derive(Debug, Clone, Args)]
pub(crate) struct ModelArgs {
    /// The model: a text such as model.pnnx.param, an ONNX file, or a plan written by `ixion build`
    #[arg(value_name = "PARAM")]
    pub(crate) param: PathBuf,
    /// The archive of weights [default: the .bin file next to PARAM]
    #[arg(long, value_name = "FILE")]
    pub(crate) bin: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) onnx: OnnxArgs,
    #[command(flatten)]
    pub(crate) plan: PlanFileArgs,
    #[command(flatten)]
    pub(crate) plugins: PluginArgs,
}

/// `--constant`.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct OnnxArgs {
    /// Fix an input of an ONNX file to these numbers, such as sr=16000, so that branches and loops are known; may be repeated
    #[arg(long = "constant", value_name = "NAME=NUMBERS", value_parser = parse_constant, help_heading = "ONNX", hide_short_help = true)]
    constants: Vec<(String, Fixed)>,
}

fn parse_constant(text: &str) -> Result<(String, Fixed), String> {
    let (name, numbers) = text.split_once('=').ok_or("expected NAME=NUMBERS, such as sr=16000")?;
    Ok((name.to_owned(), numbers.parse()?))
}

impl OnnxArgs {
    /// How the file is read.
    pub(crate) fn options(&self, bin: Option<&Path>, limits: &Limits) -> ReadOptions {
        let constants = self.constants.iter().cloned().collect();
        ReadOptions { bin: bin.map(Path::to_owned), constants, limits: limits.clone() }
    }
}

/// `--verify` and `--map`.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct PlanFileArgs {
    /// Verify all checksums of a plan first, including those of its weights
    #[arg(long, help_heading = "Plans", hide_short_help = true)]
    pub(crate) verify: bool,
    /// Map a plan into memory instead of reading its weights; the file must not be modified in place meanwhile
    #[arg(long, help_heading = "Plans", hide_short_help = true)]
    pub(crate) map: bool,
}

impl ModelArgs {
    /// The arguments of a command that has no options for plans.
    pub(crate) fn new(param: &Path, bin: Option<&Path>, onnx: &OnnxArgs, plugins: &PluginArgs) -> Self {
        let (param, bin) = (param.to_owned(), bin.map(Path::to_owned));
        Self { param, bin, onnx: onnx.clone(), plan: PlanFileArgs::default(), plugins: plugins.clone() }
    }

    /// Returns true if the model is a plan, judging by its first bytes.
    pub(crate) fn is_plan(&self) -> bool {
        PlanFile::is_plan(&self.param)
    }

    /// The archive given by `--bin`, or the one next to the text if it exists. A plan and an ONNX file contain their own
    /// weights.
    pub(crate) fn archive(&self) -> Option<PathBuf> {
        if self.is_plan() || is_onnx(&self.param) {
            return Some(self.param.clone());
        }
        let beside = || Some(default_bin_path(&self.param)).filter(|path| path.is_file());
        self.bin.clone().or_else(beside)
    }

    /// All files of the model; some may not exist.
    pub(crate) fn files(&self) -> Vec<PathBuf> {
        let card = self.param.with_file_name("model.toml");
        let external = match is_onnx(&self.param) {
            // What cannot be read has been reported, or will be.
            true => external_files(&self.param, &Limits::default()).unwrap_or_default(),
            false => Vec::new(),
        };
        [self.param.clone(), card].into_iter().chain(self.archive()).chain(external).collect()
    }

    /// The model's card: from the plan, or from the `model.toml` next to the text.
    ///
    /// # Errors
    /// Fails if the card cannot be read.
    pub(crate) fn card(&self, limits: &Limits) -> Result<Option<ModelCard>, Failure> {
        if !self.is_plan() {
            return ModelCard::for_model(&self.param).map_err(Failure::unusable);
        }
        let plan = PlanFile::open(&self.param, limits).map_err(|error| self.unusable(error))?;
        let card = plan.card().map(|text| ModelCard::parse(&self.param, text));
        card.transpose().map_err(Failure::unusable)
    }

    /// Reads the text and the archive's index. Without an archive the weights are absent.
    pub(crate) fn load(&self, limits: &Limits) -> Result<Graph, Failure> {
        if let Some(plan) = self.plan_file(limits)? {
            return plan.graph().map_err(|error| self.unusable(error));
        }
        let archive = if is_onnx(&self.param) { self.bin.clone() } else { self.archive() };
        let options = self.onnx.options(archive.as_deref(), limits);
        read_model(&self.param, &options).map_err(|error| self.unusable(error))
    }

    /// Opens the model if it is a plan; `None` if it is a text.
    ///
    /// # Errors
    /// Fails if the plan cannot be opened, or if an option does not apply to a plan, or to a text.
    pub(crate) fn plan_file(&self, limits: &Limits) -> Result<Option<PlanFile>, Failure> {
        let file = self.param.display();
        if !self.is_plan() {
            return match (self.plan.verify, self.plan.map) {
                // A missing file is reported when it is read.
                (false, false) => Ok(None),
                _ if !self.param.is_file() => Ok(None),
                (true, _) => Err(Failure::unusable(format!("--verify requires a plan, which {file} is not"))
                    .advise("`ixion verify --checksums` checks archives")),
                (false, true) => {
                    Err(Failure::unusable(format!("--map requires a plan, which {file} is not"))
                        .advise("`ixion build` writes a plan"))
                }
            };
        }
        if self.bin.is_some() {
            return Err(Failure::unusable(format!(
                "{file} is a plan, which contains its weights; leave out --bin"
            )));
        }
        if !self.onnx.constants.is_empty() {
            return Err(Failure::unusable(format!(
                "{file} is a plan, whose inputs are fixed; leave out --constant"
            ))
            .advise("`ixion build --constant …` builds one"));
        }
        let opened = match self.plan.map {
            // SAFETY: the user passed `--map`, whose help forbids modifying the file. Ixion itself replaces files and never
            // modifies one in place.
            true => unsafe { PlanFile::map(&self.param, limits) },
            false => PlanFile::open(&self.param, limits),
        };
        if self.plugins.has_routes() {
            return Err(Failure::unusable(format!(
                "{file} is a plan, whose layers are fixed; leave out --use"
            ))
            .advise("`ixion build --use …` builds one with other layers"));
        }
        let registry = self.plugins.registry()?;
        let plan = opened.map_err(|error| self.unusable(error))?.with_registry(registry);
        if self.plan.verify {
            plan.verify().map_err(|error| self.unusable(error))?;
        }
        Ok(Some(plan))
    }

    /// A runtime graph that reads these files when it is built.
    pub(crate) fn runtime(&self, limits: Limits) -> Result<RuntimeGraph, Failure> {
        let registry = self.plugins.registry()?;
        let ReadOptions { constants, .. } = self.onnx.options(None, &limits);
        let graph = RuntimeGraph::new(&self.param).with_limits(limits).with_registry(registry);
        let graph = graph.with_constants(constants);
        Ok(match &self.bin {
            Some(bin) => graph.with_bin(bin),
            None => graph,
        })
    }

    /// A builder for these files, with all passes except those in `without`; see [`passes`].
    pub(crate) fn builder(&self, without: &[String], limits: Limits) -> Result<Builder, Failure> {
        let builder = Builder::from_graph(self.runtime(limits.clone())?).with_limits(limits);
        Ok(builder.with_passes(passes(without).map_err(Failure::unusable)?))
    }

    /// Builds a model that is ready to run, with random weights if a seed is given. Prints warnings if the file is not what was
    /// exported.
    pub(crate) fn built(
        &self,
        engine: &EngineArgs,
        seed: Option<u64>,
        limits: &Limits,
    ) -> Result<Runner, Failure> {
        engine.check()?;
        let spinner = Spinner::start(format!("reading {}", self.param.display()));
        if let Some(plan) = self.plan_file(limits)? {
            self.check_built(&engine.without, &engine.mode.formats, seed)?;
            return engine.load(plan, limits).map_err(|error| self.unbuilt(error));
        }
        let mut graph = self.runtime(limits.clone())?;
        if let Some(seed) = seed {
            graph = graph.with_random_weights(seed);
        }
        let runner = engine.build(graph, limits).map_err(|error| self.unbuilt(error))?;
        drop(spinner);
        warnings::print(runner.warnings());
        Ok(runner)
    }

    /// Refuses options that only apply to a model that is not built yet.
    ///
    /// # Errors
    /// Fails for `--without`, `--random-weights`, `--precision` and the related options.
    pub(crate) fn check_built(
        &self,
        without: &[String],
        formats: &FormatArgs,
        seed: Option<u64>,
    ) -> Result<(), Failure> {
        let file = self.param.display();
        let refused = |why: String, advice: &str| Err(Failure::unusable(why).advise(advice.to_owned()));
        match (without, seed) {
            ([], None) if *formats == FormatArgs::default() => Ok(()),
            ([], None) => refused(
                format!("{file} is a plan, whose element types, layouts and tactics are fixed"),
                "`ixion build --precision … --layouts … --tactic …` builds one with others",
            ),
            ([], Some(_)) => refused(
                format!("{file} is a plan, which contains its weights"),
                "`ixion build --random-weights SEED` builds one with others",
            ),
            _ => refused(
                format!("{file} is a plan, whose passes have run"),
                "`ixion build --without PASS` builds one without them",
            ),
        }
    }

    /// The failure of a model that cannot be built. Unknown operators, a missing archive and missing plugins get a hint of
    /// their own instead of one about the path.
    pub(crate) fn unbuilt(&self, error: EngineError) -> Failure {
        match graph_error(&error) {
            Some(GraphError::UnknownOperators { .. }) => Failure::unusable(error).advise(
                "`ixion inspect` shows the rest of the model; `ixion operators` lists what is supported; load the library of a plugin with --plugin",
            ),
            Some(GraphError::NoArchive { .. }) => Failure::unusable(error)
                .advise("--bin names the archive; --random-weights 0 tries the model without"),
            _ if lacks_plugin(&error) => Failure::unusable(error).advise("load its library with --plugin"),
            _ => self.unusable(error),
        }
    }

    /// The failure of a model that cannot be read or built.
    pub(crate) fn unusable(&self, error: impl Into<Box<dyn Error + Send + Sync>>) -> Failure {
        let error = error.into();
        if is_ended(&*error) {
            return Failure::failed(error);
        }
        let failure = Failure::unusable(error);
        match texts_near(&self.param) {
            found if found.is_empty() => failure,
            found => failure.advise(format!("did you mean {}?", found.join(" or "))),
        }
    }
}

/// Returns true if a plan needs a layer that is neither built in nor loaded from a plugin.
fn lacks_plugin(error: &EngineError) -> bool {
    let EngineError::PlanFile(error) = error else {
        return false;
    };
    let PlanFileProblem::Layer { wanted, .. } = &error.problem else {
        return false;
    };
    wanted.parse().is_ok_and(|name: PluginName| name.namespace() != <Creator>::BUILT_IN)
}

/// Returns true if the deadline has passed or the work was cancelled.
fn is_ended(error: &(dyn Error + 'static)) -> bool {
    let mut causes = std::iter::successors(Some(error), |&cause| cause.source());
    causes.any(|cause| match (cause.downcast_ref::<LimitError>(), cause.downcast_ref::<EngineError>()) {
        (Some(limit), _) => matches!(limit, LimitError::DeadlineExceeded | LimitError::Cancelled),
        (_, Some(error)) => matches!(error, EngineError::TimedOut { .. } | EngineError::Cancelled { .. }),
        (None, None) => false,
    })
}

/// Suggestions for a path that is not a file: up to three .param files in the folder itself or its parent.
fn texts_near(path: &Path) -> Vec<String> {
    const MAX_SUGGESTIONS: usize = 3;
    if path.is_file() {
        return Vec::new();
    }
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let folder = if path.is_dir() { path } else { parent };
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut found: Vec<String> = entries
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "param"))
        .map(|path| path.strip_prefix(".").unwrap_or(&path).display().to_string())
        .collect();
    found.sort();
    found.truncate(MAX_SUGGESTIONS);
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(param: &str, bin: Option<&str>) -> ModelArgs {
        ModelArgs::new(param.as_ref(), bin.map(Path::new), &OnnxArgs::default(), &PluginArgs::default())
    }

    #[test]
    fn the_archive_is_beside_the_text_or_named() {
        let linear = concat!(env!("CARGO_MANIFEST_DIR"), "/model_file/linear/linear.pnnx.param");
        assert!(args(linear, None).archive().is_some_and(|path| path.ends_with("linear.pnnx.bin")));
        assert_eq!(args(linear, Some("x.bin")).archive(), Some("x.bin".into()));
        assert_eq!(args("no/such.param", None).archive(), None);
    }

    #[test]
    fn texts_are_suggested_for_paths_that_lead_nowhere() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/model_file/linear");
        let found = texts_near(Path::new(folder));
        assert!(found.len() == 1 && found[0].ends_with("linear.pnnx.param"), "{found:?}");
        assert_eq!(texts_near(&Path::new(folder).join("liner.param")), found);
        assert!(texts_near(Path::new(&found[0])).is_empty());
    }
}
