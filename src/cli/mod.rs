//! The `ixion` command: thin faces over the library, one file (or folder) for each subcommand.
//!
//! Every subcommand is a struct of arguments with a method `run`. It writes to a [`Screen`], and returns an [`Exit`] or a
//! [`Failure`]; between them they decide the exit code:
//!
//! | code | meaning |
//! |---|---|
//! | 0 | fine |
//! | 1 | the work was done and falls short, or it failed on the way |
//! | 2 | what was given could not be used at all: a usage error, an unreadable or invalid file |
//!
//! A reader that goes away (`ixion … | head`) is no error.

mod bench;
mod build;
mod calibrate;
#[cfg(feature = "linalg")]
mod compress;
#[cfg(not(feature = "linalg"))]
#[path = "compress/absent.rs"]
mod compress;
mod convert;
mod device;
mod devices;
mod failure;
mod files;
mod formats;
mod inspect;
mod kinds;
mod limits;
mod measure;
mod model;
mod operators;
mod plan;
mod plan_file;
mod plugins;
mod profile;
mod progress;
mod run;
mod runner;
mod screen;
mod table;
mod verify;

use clap::{Parser, Subcommand};
use failure::{Exit, Failure};
use ixion_drawing::numbers;
use limits::LimitArgs;
use screen::Screen;
use std::io::Write;
use std::process::ExitCode;

const EXIT_CODES: &str = "\
Exit codes:
  0  fine
  1  the work was done and falls short, or it failed on the way
  2  what was given could not be used at all: a usage error, an unreadable or invalid file
Each subcommand's --help says what that means for it.

Examples:
  ixion inspect resnet18.pnnx.param
  ixion run digits.pnnx.param --input 7.png
  ixion verify cases/*
  ixion bench resnet18.pnnx.param --threads 0";

/// The Rust runtime for PNNX: looks at, runs and checks PyTorch models, without PyTorch
///
/// PNNX writes a PyTorch model as a text (x.pnnx.param) and an archive of weights (x.pnnx.bin). The archive is found beside the
/// text, unless --bin names another. `ixion build` makes one file of them, a plan, which takes the place of both.
#[derive(Debug, Parser)]
#[command(name = "ixion", version, after_help = EXIT_CODES, max_term_width = 110)]
struct Cli {
    #[command(subcommand)]
    command: Command,
    #[command(flatten)]
    limits: LimitArgs,
    /// Says more on stderr: -v what is done, -vv every operator, -vvv all details
    ///
    /// The variable RUST_LOG, such as RUST_LOG=ixion::graph=debug, chooses by module and comes first.
    #[arg(short, long, action = clap::ArgAction::Count, global = true, help_heading = "Everywhere")]
    verbose: u8,
}

#[derive(Debug, Subcommand)]
enum Command {
    Run(run::RunArgs),
    Inspect(inspect::InspectArgs),
    Verify(verify::VerifyArgs),
    Build(build::BuildArgs),
    Calibrate(calibrate::CalibrateArgs),
    Plan(plan::PlanArgs),
    Bench(bench::BenchArgs),
    Profile(profile::ProfileArgs),
    Convert(convert::ConvertArgs),
    #[cfg_attr(not(feature = "linalg"), command(hide = true))]
    Compress(compress::CompressArgs),
    Operators(operators::OperatorsArgs),
    Devices(devices::DevicesArgs),
}

/// Reads the command line and runs it.
pub(crate) fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(usage) => {
            // Nobody is left to tell when this cannot be printed.
            let _ = usage.print();
            return if usage.use_stderr() { Exit::Unusable.into() } else { Exit::Fine.into() };
        }
    };
    start_log(cli.verbose);
    let mut screen = Screen::stdout();
    let result = cli.run(&mut screen).and_then(|exit| {
        screen.flush()?;
        Ok(exit)
    });
    match result {
        Ok(exit) => exit.into(),
        Err(failure) => {
            // What was written before the failure belongs before its message.
            let _ = screen.flush();
            failure.report();
            failure.exit().into()
        }
    }
}

impl Cli {
    fn run(&self, screen: &mut Screen) -> Result<Exit, Failure> {
        match &self.command {
            Command::Run(args) => args.run(&self.limits, screen),
            Command::Inspect(args) => args.run(&self.limits, screen),
            Command::Verify(args) => args.run(&self.limits, screen),
            Command::Build(args) => args.run(&self.limits, screen),
            Command::Calibrate(args) => args.run(&self.limits, screen),
            Command::Plan(args) => args.run(&self.limits, screen),
            Command::Bench(args) => args.run(&self.limits, screen),
            Command::Profile(args) => args.run(&self.limits, screen),
            Command::Convert(args) => args.run(&self.limits, screen),
            Command::Compress(args) => args.run(&self.limits, screen),
            Command::Operators(args) => args.run(screen),
            Command::Devices(args) => args.run(screen),
        }
    }
}

fn start_log(verbose: u8) {
    let level = match verbose {
        0 => "warn",
        1 => "info",
        2 => "debug",
        _ => "trace",
    };
    let environment = env_logger::Env::default().default_filter_or(level);
    let mut builder = env_logger::Builder::from_env(environment);
    builder.format(|out, record| {
        let level = record.level().as_str().to_lowercase();
        let level = if level == "warn" { "warning" } else { &level };
        writeln!(out, "{level}: {}", record.args())
    });
    if let Err(error) = builder.try_init() {
        // Only a second logger can be the cause, and there is none.
        eprintln!("warning: no log: {error}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent_and_explains_its_exit_codes() {
        Cli::command().debug_assert();
        for subcommand in Cli::command().get_subcommands() {
            let help = subcommand.get_after_help().map(ToString::to_string).unwrap_or_default();
            assert!(
                help.contains("Exit codes:"),
                "{} does not explain its exit codes",
                subcommand.get_name()
            );
            assert!(help.contains("Examples:"), "{} has no examples", subcommand.get_name());
        }
    }
}
