//! Plan files, which `ixion build` writes and most subcommands accept in place of a PARAM.

use super::failure::Failure;
use super::formats::FormatArgs;
use super::model::ModelArgs;
use clap::Args;
use ixion::Limits;
use ixion::engine::PlanFile;
use ixion::vision::ModelCard;

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
    /// Returns true if the model is a plan, judging by its first bytes.
    pub(crate) fn is_plan(&self) -> bool {
        PlanFile::is_plan(&self.param)
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
}
