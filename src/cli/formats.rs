//! `--precision`, `--scales`, `--layouts`, `--tactic`, `--without-tactic`, `--fast` and `--tune`: the element types, layouts
//! and tactics that the engine chooses from, and how.

use super::Failure;
use clap::{Args, ValueEnum};
use ixion::engine::{Builder, EngineError, Formats, Precision, Scales, TimingCache};
use std::path::PathBuf;

/// The element types, layouts and tactics that the engine chooses from.
#[derive(Debug, Clone, Default, PartialEq, Eq, Args)]
pub(crate) struct FormatArgs {
    /// Element types that the engine may use in addition to f32: f16, bf16, int8 (which requires --scales)
    ///
    /// The model's inputs and outputs keep their types. A type is used where it makes the model faster.
    #[arg(long, value_name = "TYPES", value_delimiter = ',', hide_short_help = true)]
    pub(crate) precision: Vec<Precision>,
    /// The int8 scales that `ixion calibrate` found
    #[arg(long, value_name = "FILE", hide_short_help = true)]
    pub(crate) scales: Option<PathBuf>,
    /// The tensor layouts that the engine chooses from
    #[arg(long, value_name = "LAYOUTS", value_enum, default_value_t, hide_short_help = true)]
    pub(crate) layouts: Layouts,
    /// Use a tactic, such as winograd-4x4, for all operators that support it, at any price; may be repeated
    ///
    /// It takes precedence over the element types that --precision allows.
    #[arg(long, value_name = "TACTIC", hide_short_help = true)]
    pub(crate) tactic: Vec<String>,
    /// Do not use a tactic, such as winograd, which is fast but rounds differently; may be repeated
    ///
    /// A name includes all tactics that begin with it and a hyphen: winograd excludes winograd-2x2, winograd-4x4 and
    /// winograd-6x6.
    #[arg(long, alias = "no-tactic", value_name = "TACTIC", hide_short_help = true)]
    pub(crate) without_tactic: Vec<String>,
    /// Also use tactics whose results are much less exact, such as winograd-6x6, where they are faster
    #[arg(long, hide_short_help = true)]
    pub(crate) fast: bool,
    /// Measure the alternatives on this machine instead of comparing estimates from a processor model
    #[arg(long, hide_short_help = true)]
    pub(crate) tune: bool,
    /// The file that stores measured times [default: ixion/timings.json in the user's cache folder]
    #[arg(long, value_name = "FILE", requires = "tune", hide_short_help = true)]
    pub(crate) timing_cache: Option<PathBuf>,
}

/// The layouts that the engine chooses from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub(crate) enum Layouts {
    /// Layouts that layers prefer, at the lowest total price
    #[default]
    Cheapest,
    /// Row-major layouts only
    Plain,
    /// Another layout for every tensor and back again, to test the engine
    Alternating,
    /// The fewest bits of --precision that layers support, at any price
    Narrowest,
}

impl Layouts {
    fn formats(self) -> Formats {
        match self {
            Self::Cheapest => Formats::Cheapest,
            Self::Plain => Formats::Plain,
            Self::Alternating => Formats::Alternating,
            Self::Narrowest => Formats::Narrowest,
        }
    }
}

impl FormatArgs {
    /// Checks that the options are consistent.
    ///
    /// # Errors
    /// Fails if int8 is given without scales, or scales without int8.
    pub(crate) fn check(&self) -> Result<(), Failure> {
        match (self.precision.contains(&Precision::Int8), &self.scales) {
            (true, None) => Err(Failure::unusable("int8 needs scales, which map its integers to floats")
                .advise("`ixion calibrate` finds them; pass them with --scales FILE")),
            (false, Some(path)) => Err(Failure::unusable(format!(
                "{}: scales are for int8, which --precision does not include",
                path.display()
            ))
            .advise("`--precision int8 --scales FILE` uses them")),
            _ => Ok(()),
        }
    }

    /// Configures a builder.
    ///
    /// # Errors
    /// Fails if the scales cannot be read.
    pub(crate) fn apply(&self, builder: Builder) -> Result<Builder, EngineError> {
        let builder =
            builder.with_formats(self.layouts.formats()).with_precisions(self.precision.iter().copied());
        let builder = builder.without_tactics(self.without_tactic.iter().cloned());
        let builder = builder.with_tactics(self.tactic.iter().cloned());
        let builder = if self.fast { builder.with_fast_tactics() } else { builder };
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

/// The user's cache folder, from the environment. `None` if the variables are not set.
pub fn caches() -> Option<PathBuf> {
    let variable = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    if cfg!(windows) {
        return variable("LOCALAPPDATA");
    }
    let at_home = if cfg!(target_os = "macos") { "Library/Caches" } else { ".cache" };
    variable("XDG_CACHE_HOME").or_else(|| Some(variable("HOME")?.join(at_home)))
}
