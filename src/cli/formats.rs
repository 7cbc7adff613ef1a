//! `--precision`, `--scales`, `--layouts`, `--tactic`, `--without-tactic` and `--tune`: what the engine chooses element
//! types, layouts and tactics from, and how.

use super::failure::Failure;
use clap::{Args, ValueEnum};
use ixion::engine::{Builder, EngineError, Formats, Precision, Scales, TimingCache};
use std::path::PathBuf;

/// What the engine chooses element types and layouts from.
#[derive(Debug, Clone, Default, PartialEq, Eq, Args)]
pub(crate) struct FormatArgs {
    /// Element types that the engine may choose beside f32: f16, bf16, int8 (which needs --scales)
    ///
    /// Inputs and outputs of the model keep their types. A type is chosen where it makes the model faster.
    #[arg(long, value_name = "TYPES", value_delimiter = ',', hide_short_help = true)]
    pub(crate) precision: Vec<Precision>,
    /// What whole numbers of 8 bits stand for, as `ixion calibrate` found it
    #[arg(long, value_name = "FILE", hide_short_help = true)]
    pub(crate) scales: Option<PathBuf>,
    /// Layouts of tensors that the engine chooses from
    #[arg(long, value_name = "LAYOUTS", value_enum, default_value_t, hide_short_help = true)]
    pub(crate) layouts: Layouts,
    /// Computes in a way of this name, such as winograd-4x4, wherever operators can, at any price; may be repeated
    ///
    /// Other element types that --precision allows give way to it.
    #[arg(long, value_name = "TACTIC", hide_short_help = true)]
    pub(crate) tactic: Vec<String>,
    /// Leaves out a way of computing, such as winograd, which is fast but rounds otherwise; may be repeated
    ///
    /// A name stands for all that begin with it and a hyphen: winograd for winograd-2x2, winograd-4x4 and winograd-6x6.
    #[arg(long, alias = "no-tactic", value_name = "TACTIC", hide_short_help = true)]
    pub(crate) without_tactic: Vec<String>,
    /// Measures the alternatives on this machine, instead of comparing them by a model of a processor
    #[arg(long, hide_short_help = true)]
    pub(crate) tune: bool,
    /// Where times that were measured are kept [default: ixion/timings.json in the user's folder of caches]
    #[arg(long, value_name = "FILE", requires = "tune", hide_short_help = true)]
    pub(crate) timing_cache: Option<PathBuf>,
}

/// The layouts that the engine chooses from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub(crate) enum Layouts {
    /// Those that layers want, at the least price
    #[default]
    Cheapest,
    /// Row-major ones alone
    Plain,
    /// Another one for every tensor and back again: a test of the engine
    Alternating,
    /// The fewest bits of --precision that layers take, at any price
    Narrowest,
}

impl From<Layouts> for Formats {
    fn from(layouts: Layouts) -> Self {
        match layouts {
            Layouts::Cheapest => Self::Cheapest,
            Layouts::Plain => Self::Plain,
            Layouts::Alternating => Self::Alternating,
            Layouts::Narrowest => Self::Narrowest,
        }
    }
}

impl FormatArgs {
    /// Refuses what would not be heeded.
    ///
    /// # Errors
    /// int8 without scales; scales without int8.
    pub(crate) fn check(&self) -> Result<(), Failure> {
        match (self.precision.contains(&Precision::Int8), &self.scales) {
            (true, None) => {
                Err(Failure::unusable("int8 needs scales, which say what its whole numbers stand for")
                    .advise("`ixion calibrate` finds them; --scales FILE names their file"))
            }
            (false, Some(path)) => Err(Failure::unusable(format!(
                "{}: scales are for int8, which --precision does not name",
                path.display()
            ))
            .advise("`--precision int8 --scales FILE` uses them")),
            _ => Ok(()),
        }
    }

    /// Tells a builder what was asked for.
    ///
    /// # Errors
    /// Scales that cannot be read.
    pub(crate) fn apply(&self, builder: Builder) -> Result<Builder, EngineError> {
        let builder =
            builder.with_formats(self.layouts.into()).with_precisions(self.precision.iter().copied());
        let builder = builder.without_tactics(self.without_tactic.iter().cloned());
        let builder = builder.with_tactics(self.tactic.iter().cloned());
        let builder = if self.tune { builder.with_tuning(self.timings()) } else { builder };
        match &self.scales {
            Some(path) => Ok(builder.with_scales(Scales::load(path)?)),
            None => Ok(builder),
        }
    }

    fn timings(&self) -> TimingCache {
        let path = self.timing_cache.clone().or_else(|| Some(caches()?.join("ixion").join("timings.json")));
        path.map_or_else(TimingCache::in_memory, TimingCache::open)
    }
}

/// The user's folder of caches, where the system's variables tell it.
pub(crate) fn caches() -> Option<PathBuf> {
    let variable = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    if cfg!(windows) {
        return variable("LOCALAPPDATA");
    }
    let at_home = if cfg!(target_os = "macos") { "Library/Caches" } else { ".cache" };
    variable("XDG_CACHE_HOME").or_else(|| Some(variable("HOME")?.join(at_home)))
}
