//! Loads a plan from a file.

use super::choices::{self, Choices};
use super::error::{PlanFileError, PlanFileProblem};
use super::header::{self, checked};
use super::layout::{Kind, PAGE, Section};
use super::settings::Settings;
use super::{PlanFile, exact, features, states, weights};
use crate::Limits;
use crate::engine::builder::Parts;
use crate::engine::{EngineError, Plan};
use crate::graph::RuntimeGraph;
use crate::op::{Registry, with_deadline};
use crate::pnnx::archive::ArchiveFile;
use crate::pnnx::{Archive, Graph};
use crate::tensor::Mapping;
use std::fs::File;
use std::path::Path;

impl PlanFile {
    /// Opens a plan and checks all of it but the weights, which are read from the file when they are needed.
    ///
    /// # Errors
    /// [`PlanFileError`] if the file cannot be read, is not a plan, is damaged, or has another version.
    pub fn open(path: impl AsRef<Path>, limits: &Limits) -> Result<Self, PlanFileError> {
        let path = path.as_ref();
        let file = ArchiveFile::open(path, limits).map_err(|error| PlanFileProblem::from(error).of(path))?;
        Self::of(file, limits).map_err(|problem| problem.of(path))
    }

    /// Opens a plan as [`PlanFile::open`] does, and maps it into memory: weights are not copied, but stay in the file's pages,
    /// which are loaded when a layer first reads them, and shared by all processes that map the file.
    ///
    /// # Errors
    /// As [`PlanFile::open`].
    ///
    /// # Safety
    /// The file must not be written to or truncated as long as this value, the plan or one of its contexts is alive; see
    /// [`Mapping::of`]. Replacing it by another file of the same name, as [`Plan::save`] does, is fine (Windows refuses to).
    pub unsafe fn map(path: impl AsRef<Path>, limits: &Limits) -> Result<Self, PlanFileError> {
        let path = path.as_ref();
        let refused = |source| PlanFileProblem::Io { action: "map", source }.of(path);
        let file = File::open(path).map_err(refused)?;
        let length = file.metadata().map_err(refused)?.len();
        if length == 0 {
            // An empty file cannot be mapped.
            return Err(PlanFileProblem::NotAPlan.of(path));
        }
        // SAFETY: by contract, the file does not change.
        let mapping = unsafe { Mapping::of(&file) }.map_err(refused)?;
        let file = ArchiveFile::of_mapping(path, mapping, limits);
        Self::of(file, limits).map_err(|problem| problem.of(path))
    }

    /// Reads everything but the weights.
    fn of(file: ArchiveFile, limits: &Limits) -> Result<Self, PlanFileProblem> {
        let mut page = vec![0; usize::try_from(file.len().min(PAGE)).unwrap_or_default()];
        file.read_into(&mut page, 0)?;
        let header::Header { written_by, sections } = header::decode(&page, file.len())?;
        let read = |kind| section(&file, &sections, kind, limits);
        let settings = Settings::parse(&read(Kind::Settings)?.unwrap_or_default())?;
        let text = read(Kind::Graph)?.unwrap_or_default();
        let not_text = |_| PlanFileProblem::corrupt(Kind::Card, "it is not UTF-8");
        let card = read(Kind::Card)?.map(|card| String::from_utf8(card).map_err(not_text)).transpose()?;
        let states = states::decode(&read(Kind::States)?.unwrap_or_default())?;
        let choices = read(Kind::Choices)?.map(|choices| Choices::parse(&choices)).transpose()?;
        let length = of_kind(&sections, Kind::Weights).map_or(0, |section| section.length);
        let places = weights::decode(&read(Kind::Table)?.unwrap_or_default(), length)?;
        Ok(Self {
            file,
            written_by,
            sections,
            settings,
            text,
            card,
            states,
            places,
            choices: choices.unwrap_or_default(),
            limits: limits.clone(),
            registry: Registry::default(),
            threads: 1,
            accelerator: None,
        })
    }

    /// The graph after the passes, with its weights.
    ///
    /// # Errors
    /// [`EngineError::Graph`] if the text cannot be parsed; [`EngineError::PlanFile`] if it does not fit the rest of the file.
    pub fn graph(&self) -> Result<Graph, EngineError> {
        let name = self.path().display().to_string();
        let mut graph = Graph::parse_named(&name, &self.text, &self.limits)?;
        self.complete(&mut graph).map_err(|problem| problem.of(self.path()))?;
        Ok(graph)
    }

    /// Adds everything that is not in the text.
    fn complete(&self, graph: &mut Graph) -> Result<(), PlanFileProblem> {
        let settings = &self.settings;
        exact::restore(graph, &settings.operands, &settings.inputs)?;
        let ids = graph.operator_ids().to_vec();
        if ids.len() != settings.lines.len() {
            let reason = format!("it has {} lines for {} operators", settings.lines.len(), ids.len());
            return Err(PlanFileProblem::corrupt(Kind::Settings, reason));
        }
        for (id, line) in ids.into_iter().zip(&settings.lines) {
            let set = graph.set_line(id, *line);
            set.map_err(|error| PlanFileProblem::corrupt(Kind::Settings, error.to_string()))?;
        }
        let start = of_kind(&self.sections, Kind::Weights).map_or(0, |section| section.offset);
        let entries = weights::entries(graph, &self.places, start)?;
        graph.attach(Archive::from_entries(self.file.clone(), entries)?);
        Ok(())
    }

    /// Creates the layers and prepares the plan to run. No pass runs.
    ///
    /// # Errors
    /// [`EngineError::PlanFile`] if a layer is missing or has another version, if the processor lacks a feature, or if parts of
    /// the file contradict each other; otherwise as [`Builder::build`](crate::engine::Builder::build).
    pub fn load(self) -> Result<Plan, EngineError> {
        let limits = self.limits.clone();
        with_deadline(&limits, || self.load_plan())
    }

    fn load_plan(self) -> Result<Plan, EngineError> {
        let of_path = |problem: PlanFileProblem| EngineError::from(problem.of(self.path()));
        let settings = &self.settings;
        features::check(&settings.features).map_err(of_path)?;
        settings.check_layers(&self.registry).map_err(of_path)?;
        let graph = RuntimeGraph::from_pnnx(self.graph()?)
            .with_registry(self.registry.clone())
            .with_limits(self.limits.clone())
            .with_path(settings.model.as_deref().map(Path::new));
        let parts = Parts {
            graph,
            statistics: settings.statistics(),
            shapes: settings.shapes().map_err(of_path)?,
            ranges: settings.ranges().map_err(of_path)?,
            card: self.card.clone(),
            limits: self.limits.clone(),
            threads: self.threads,
            accelerator: self.accelerator.clone(),
        };
        let mut plan = parts.assemble(|graph, _, _| {
            self.check_states(graph).map_err(of_path)?;
            graph.restore(&self.states)?;
            self.choices.apply(graph, (self.path(), self.accelerator.as_ref()))
        })?;
        choices::check(&plan, (self.path(), self.accelerator.as_ref()))?;
        plan.donations = donations(settings, &plan).map_err(of_path)?;
        Ok(plan)
    }

    /// Returns an error if a state belongs to no operator.
    fn check_states(&self, graph: &RuntimeGraph) -> Result<(), PlanFileProblem> {
        let unknown = self.states.keys().find(|name| graph.operator_named(name).is_none());
        unknown.map_or(Ok(()), |name| {
            Err(PlanFileProblem::corrupt(Kind::States, format!("there is no operator `{name}`")))
        })
    }
}

fn donations(settings: &Settings, plan: &Plan) -> Result<Vec<(usize, usize)>, PlanFileProblem> {
    let all = &settings.donations;
    let is_wrong = |(at, pair): (usize, &(usize, usize))| {
        let is_taken = all.iter().take(at).any(|other| other.0 == pair.0 || other.1 == pair.1);
        is_taken || pair.0 >= plan.inputs.len() || pair.1 >= plan.outputs.len()
    };
    match all.iter().enumerate().any(is_wrong) {
        true => Err(PlanFileProblem::corrupt(Kind::Settings, "its donations do not fit the model")),
        false => Ok(all.clone()),
    }
}

pub(super) fn of_kind(sections: &[Section], kind: Kind) -> Option<&Section> {
    sections.iter().find(|section| section.kind == kind)
}

/// Reads a section and verifies its checksum.
fn section(
    file: &ArchiveFile,
    sections: &[Section],
    kind: Kind,
    limits: &Limits,
) -> Result<Option<Vec<u8>>, PlanFileProblem> {
    let Some(section) = of_kind(sections, kind) else { return Ok(None) };
    limits.check_tensor(&kind.to_string(), section.length)?;
    let bytes = file.read(section.offset, section.length, kind)?;
    checked(&kind.to_string(), &bytes, section.crc32)?;
    Ok(Some(bytes))
}
