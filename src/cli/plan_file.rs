//! Plans among the models: files that `ixion build` wrote, which every subcommand takes in the place of a PARAM.

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
    /// Compares every byte of a plan with its checksums before anything else, its weights too
    #[arg(long, help_heading = "Plans", hide_short_help = true)]
    pub(crate) verify: bool,
    /// Maps a plan into memory instead of reading its weights; nobody may change the file in place meanwhile
    #[arg(long, help_heading = "Plans", hide_short_help = true)]
    pub(crate) map: bool,
}

impl ModelArgs {
    /// Whether the model is a plan, which its first bytes tell.
    pub(crate) fn is_plan(&self) -> bool {
        PlanFile::is_plan(&self.param)
    }

    /// The model as a plan, where it is one.
    ///
    /// # Errors
    /// A plan that cannot be opened; options that plans, or texts, have no use for.
    pub(crate) fn plan_file(&self, limits: &Limits) -> Result<Option<PlanFile>, Failure> {
        let file = self.param.display();
        if !self.is_plan() {
            return match (self.plan.verify, self.plan.map) {
                // That there is no file is said by who reads it.
                (false, false) => Ok(None),
                _ if !self.param.is_file() => Ok(None),
                (true, _) => Err(Failure::unusable(format!("--verify is for plans, and {file} is none"))
                    .advise("`ixion verify --checksums` checks archives")),
                (false, true) => Err(Failure::unusable(format!("--map is for plans, and {file} is none"))
                    .advise("`ixion build` makes a plan")),
            };
        }
        if self.bin.is_some() {
            return Err(Failure::unusable(format!("{file} is a plan and has its weights; leave out --bin")));
        }
        let opened = match self.plan.map {
            // SAFETY: `--map` says what must not happen to the file, and the user asked for it. Ixion itself replaces files
            // and never changes one in place.
            true => unsafe { PlanFile::map(&self.param, limits) },
            false => PlanFile::open(&self.param, limits),
        };
        if self.plugins.has_routes() {
            return Err(Failure::unusable(format!(
                "{file} is a plan, whose layers are settled; leave out --use"
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

    /// Refuses options of a model that is not built yet.
    ///
    /// # Errors
    /// `--without`, `--random-weights`; `--precision` and what goes with it.
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
                format!("{file} is a plan, whose element types, layouts and tactics are settled"),
                "`ixion build --precision … --layouts … --tactic …` builds one with others",
            ),
            ([], Some(_)) => refused(
                format!("{file} is a plan and has its weights"),
                "`ixion build --random-weights SEED` builds one with others",
            ),
            _ => refused(
                format!("{file} is a plan, whose passes have run"),
                "`ixion build --without PASS` builds one without them",
            ),
        }
    }

    /// The model's card: the one in the plan, or the `model.toml` beside the text.
    ///
    /// # Errors
    /// A card that cannot be read.
    pub(crate) fn card(&self, limits: &Limits) -> Result<Option<ModelCard>, Failure> {
        if !self.is_plan() {
            return ModelCard::beside(&self.param).map_err(Failure::unusable);
        }
        let plan = PlanFile::open(&self.param, limits).map_err(|error| self.unusable(error))?;
        let card = plan.card().map(|text| ModelCard::parse(&self.param, text));
        card.transpose().map_err(Failure::unusable)
    }
}
