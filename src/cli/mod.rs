//! The `ixion` command: thin wrappers around the library, one file (or folder) for each subcommand.
//!
//! Every subcommand is a struct of arguments with a method `run`. It writes to a `Terminal`, and returns an `Exit` or a
//! `Failure`, which determine the exit code:
//!
//! | code | meaning |
//! |---|---|
//! | 0 | success |
//! | 1 | the command ran, but the result is negative or the work failed |
//! | 2 | the arguments could not be used: a usage error, an unreadable or invalid file |
//!
//! A closed pipe (`ixion … | head`) is not an error.
//!
//! What is public here is for the program `ixion` and the Python package, and changes without notice.

mod bench;
mod build;
mod calibrate;
mod caller;
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

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Parser, Subcommand};
use failure::{Exit, Failure};
use ixion::CancelToken;
use limits::LimitArgs;
use progress::{Bar, Spinner};
use std::ffi::OsString;
use std::io::Write;
use std::process::ExitCode;
use table::{Table, list};
use terminal::{Style, Terminal};

pub use calibrate::{inputs_of, samples_in};
pub use caller::{Listener, Progress};
#[cfg(feature = "gpu")]
pub use device::open as open_device;
pub use formats::caches;
pub use ixion_drawing::numbers;
pub use measure::WARM_UP;
pub use profile::{Row, by_type, rows, timeline};
pub use runner::{Record, python_name, record};

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

/// Runs the command line of this process.
pub fn main() -> ExitCode {
    ExitCode::from(run_line(std::env::args_os().collect(), None))
}

/// Runs a command line, which begins with the program's name, and returns the exit code. A cancelled command ends with 1.
pub fn run_line(line: Vec<OsString>, cancel: Option<&CancelToken>) -> u8 {
    let mut cli = match parsed(line) {
        Ok(cli) => cli,
        Err(usage) => {
            // If this cannot be printed, there is no way to report it.
            let _ = usage.print();
            return if usage.use_stderr() { Exit::Unusable.code() } else { Exit::Fine.code() };
        }
    };
    cli.limits.cancel = cancel.cloned();
    start_log(cli.verbose);
    let mut terminal = Terminal::stdout();
    let result = cli.run(&mut terminal).and_then(|exit| {
        terminal.flush()?;
        Ok(exit)
    });
    match result {
        Ok(exit) => exit.code(),
        Err(failure) => {
            // Output written before the failure must appear before its message.
            let _ = terminal.flush();
            failure.report();
            failure.exit().code()
        }
    }
}

/// Parses a command line.
fn parsed(line: Vec<OsString>) -> Result<Cli, clap::Error> {
    let is_run = line.get(1).is_some_and(|word| word == "run");
    Cli::try_parse_from(line).map_err(|mut usage| {
        if is_run && let Some(tip) = tip_for_input(&usage) {
            usage.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip.into()]));
        }
        usage
    })
}

/// What to write instead of a second word without an option.
fn tip_for_input(usage: &clap::Error) -> Option<String> {
    match (usage.kind(), usage.get(ContextKind::InvalidArg)) {
        (ErrorKind::UnknownArgument, Some(ContextValue::String(word))) if !word.starts_with('-') => {
            Some(format!("inputs follow an option: --input {word}"))
        }
        _ => None,
    }
}

/// Why there is no output: the exit code, and the message without the word `error`.
#[derive(Debug)]
pub struct Refusal {
    /// 1 if the work failed, 2 if the arguments could not be used.
    pub code: u8,
    /// What the command would print to stderr.
    pub message: String,
    /// The error of the library; `None` if the command itself found the problem.
    pub error: Option<Box<ixion::Error>>,
}

impl From<Failure> for Refusal {
    fn from(failure: Failure) -> Self {
        Self {
            code: failure.exit().code(),
            message: failure.message(),
            error: failure.into_error().map(Box::new),
        }
    }
}

impl From<clap::Error> for Refusal {
    fn from(usage: clap::Error) -> Self {
        let text = usage.to_string();
        let message = text.strip_prefix("error: ").unwrap_or(&text).trim_end().to_owned();
        Self { code: Exit::Unusable.code(), message, error: None }
    }
}

/// Runs a command line, which begins with the program's name, and returns what it writes to the standard output, also if its
/// result is negative. Bars tell the listener of their steps, and what would be written to stderr goes to the log. A cancelled
/// `verify` leaves out the cases that have not begun.
///
/// # Errors
/// Fails as the command does.
pub fn capture(line: Vec<OsString>, cancel: &CancelToken, listener: Listener) -> Result<Vec<u8>, Refusal> {
    let mut cli = match parsed(line) {
        Ok(cli) => cli,
        Err(help) if !help.use_stderr() => return Ok(help.to_string().into_bytes()),
        Err(usage) => return Err(usage.into()),
    };
    cli.limits.cancel = Some(cancel.clone());
    let (mut terminal, output) = Terminal::buffer();
    caller::on_behalf(listener, || cli.run(&mut terminal))?;
    Ok(output.take())
}

/// The line with `--json`; `None` if its subcommand has no such option, or not beside the others.
pub fn with_json(line: &[OsString]) -> Option<Vec<OsString>> {
    // What follows `--` is no option.
    let end = line.iter().position(|word| word == "--").unwrap_or(line.len());
    let mut line = line.to_vec();
    line.insert(end, "--json".into());
    Cli::try_parse_from(line.clone()).is_ok().then_some(line)
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
    // A program that calls the command may have a logger of its own, or have called it before.
    let _ = builder.try_init();
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;
    use ixion::graph::GraphError;

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

    #[test]
    fn a_program_receives_the_output_or_the_message() {
        let captured = |line: &[&str]| {
            let silent: Listener = std::rc::Rc::new(|_| {});
            capture(line.iter().map(OsString::from).collect(), &CancelToken::default(), silent)
        };
        let listed = captured(&["ixion", "operators", "--json", "F.relu"]).unwrap();
        assert!(listed.starts_with(b"{") && listed.ends_with(b"}\n"));
        let refused = captured(&["ixion", "inspect", "no/such.param"]).unwrap_err();
        assert!(refused.code == 2 && refused.message.starts_with("no/such.param: "), "{refused:?}");
        let of_file = refused.error.as_deref();
        assert!(matches!(of_file, Some(ixion::Error::Graph(GraphError::Pnnx(_)))), "{refused:?}");
        let usage = captured(&["ixion", "operators", "--jsn"]).unwrap_err();
        assert!(usage.code == 2 && usage.message.starts_with("unexpected argument"), "{usage:?}");
        let usage = captured(&["ixion", "run", "x.param", "7.png"]).unwrap_err();
        assert!(usage.message.contains("tip: inputs follow an option: --input 7.png"), "{usage:?}");
        let usage = captured(&["ixion", "run", "x.param", "--inptu", "7.png"]).unwrap_err();
        assert!(!usage.message.contains("inputs follow"), "{usage:?}");
        assert!(captured(&["ixion", "inspect", "--help"]).unwrap().starts_with(b"Show the operators"));
    }

    #[test]
    fn a_cancelled_verification_fails() {
        let mut cli = Cli::try_parse_from(["ixion", "verify", "model_file/digits"]).unwrap();
        let cancel = CancelToken::default();
        cancel.cancel();
        cli.limits.cancel = Some(cancel);
        assert!(matches!(cli.run(&mut Terminal::buffer().0), Ok(Exit::Failed)));
    }

    #[test]
    fn json_is_asked_for_where_it_can_be() {
        let with = |line: &[&str]| with_json(&line.iter().map(OsString::from).collect::<Vec<_>>());
        let found = with(&["ixion", "inspect", "x.param"]).unwrap();
        assert_eq!(found, ["ixion", "inspect", "x.param", "--json"]);
        let found = with(&["ixion", "--timeout", "3", "operators", "--", "-x"]).unwrap();
        assert_eq!(found, ["ixion", "--timeout", "3", "operators", "--json", "--", "-x"]);
        assert_eq!(with(&["ixion", "inspect", "x.param", "--svg", "x.svg"]), None);
        assert_eq!(with(&["ixion", "convert", "x.param", "y.param"]), None);
        assert_eq!(with(&["ixion"]), None);
    }
}
