//! The `ixion` command: thin wrappers around the library, one file (or folder) for each subcommand.
//!
//! Every subcommand is a struct of arguments with a method `run`. It writes to a [`Terminal`], and returns an [`Exit`] or a
//! [`Failure`], which determine the exit code:
//!
//! | code | meaning |
//! |---|---|
//! | 0 | success |
//! | 1 | the command ran, but the result is negative or the work failed |
//! | 2 | the arguments could not be used: a usage error, an unreadable or invalid file |
//!
//! A closed pipe (`ixion … | head`) is not an error.

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
mod plugins;
mod profile;
mod progress;
mod run;
mod runner;
mod table;
mod terminal;
mod verify;
mod warnings;

use clap::{Parser, Subcommand};
use failure::{Exit, Failure};
use ixion_drawing::numbers;
use limits::LimitArgs;
use progress::{Bar, Spinner};
use std::io::Write;
use std::process::ExitCode;
use table::{Table, list};
use terminal::{Style, Terminal};

const EXIT_CODES: &str = "\
Exit codes:
  0  success
  1  the command ran, but the result is negative or the work failed
  2  the arguments could not be used: a usage error, an unreadable or invalid file
Each subcommand's --help describes its exit codes in detail.

Examples:
  ixion inspect resnet18.pnnx.param
  ixion run digits.pnnx.param --input 7.png
  ixion verify cases/*
  ixion bench resnet18.pnnx.param --threads 0";

/// A Rust runtime for PNNX: inspect, run and verify PyTorch models without PyTorch
///
/// PNNX writes a PyTorch model as a text (x.pnnx.param) and an archive of weights (x.pnnx.bin). The archive next to the text is
/// used, unless --bin names another. `ixion build` compiles both into a single file, a plan, which can replace them.
#[derive(Debug, Parser)]
#[command(name = "ixion", version, after_help = EXIT_CODES, max_term_width = 110)]
struct Cli {
    #[command(subcommand)]
    command: Command,
    #[command(flatten)]
    limits: LimitArgs,
    /// Print more to stderr: -v for progress, -vv for every operator, -vvv for all details
    ///
    /// The environment variable RUST_LOG, such as RUST_LOG=ixion::graph=debug, sets levels by module and takes precedence.
    #[arg(short, long, action = clap::ArgAction::Count, global = true, help_heading = "Global options")]
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

/// Parses the command line and runs the subcommand.
pub(crate) fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(usage) => {
            // If this cannot be printed, there is no way to report it.
            let _ = usage.print();
            return if usage.use_stderr() { Exit::Unusable.into() } else { Exit::Fine.into() };
        }
    };
    start_log(cli.verbose);
    let mut terminal = Terminal::stdout();
    let result = cli.run(&mut terminal).and_then(|exit| {
        terminal.flush()?;
        Ok(exit)
    });
    match result {
        Ok(exit) => exit.into(),
        Err(failure) => {
            // Output written before the failure must appear before its message.
            let _ = terminal.flush();
            failure.report();
            failure.exit().into()
        }
    }
}

impl Cli {
    fn run(&self, terminal: &mut Terminal) -> Result<Exit, Failure> {
        match &self.command {
            Command::Run(args) => args.run(&self.limits, terminal),
            Command::Inspect(args) => args.run(&self.limits, terminal),
            Command::Verify(args) => args.run(&self.limits, terminal),
            Command::Build(args) => args.run(&self.limits, terminal),
            Command::Calibrate(args) => args.run(&self.limits, terminal),
            Command::Plan(args) => args.run(&self.limits, terminal),
            Command::Bench(args) => args.run(&self.limits, terminal),
            Command::Profile(args) => args.run(&self.limits, terminal),
            Command::Convert(args) => args.run(&self.limits, terminal),
            Command::Compress(args) => args.run(&self.limits, terminal),
            Command::Operators(args) => args.run(terminal),
            Command::Devices(args) => args.run(terminal),
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
        // Only a second logger can cause this, and there is none.
        eprintln!("warning: logging is disabled: {error}");
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
