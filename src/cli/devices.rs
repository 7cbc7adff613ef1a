//! `ixion devices`: listing the devices that models can run on.

use super::{Exit, Failure, Style, Table, Terminal};
use clap::Args;
use serde::Serialize;
use serde_json::json;
use std::io::Write;

const HELP: &str = "\
Exit codes:
  0  the list was printed
  1  it could not be written
  2  a usage error

Examples:
  ixion devices
  ixion run digits.pnnx.param --input 7.png --device cuda
  ixion devices --json | jq -r '.devices[].id'";

/// List the devices that models can run on, and why others are not available
#[derive(Debug, Args)]
#[command(after_help = HELP)]
pub(crate) struct DevicesArgs {
    /// Print the result as a JSON object
    #[arg(long)]
    json: bool,
}

/// An available device.
#[derive(Serialize)]
struct Shown {
    id: String,
    name: String,
    details: String,
    /// The size of its own memory in bytes, if it has any.
    memory: Option<u64>,
}

/// A kind of device of which none is available.
#[derive(Serialize)]
struct Missing {
    kind: String,
    reason: String,
}

impl DevicesArgs {
    pub(crate) fn run(&self, terminal: &mut Terminal) -> Result<Exit, Failure> {
        let (others, missing) = others();
        let devices: Vec<Shown> = std::iter::once(processor()).chain(others).collect();
        if self.json {
            terminal.json(&json!({ "version": 1, "devices": devices, "missing": missing }))?;
            return Ok(Exit::Fine);
        }
        let mut table = Table::new(&["device", ">memory", "name", "details"]);
        for Shown { id, name, details, memory } in devices {
            let memory = memory.map_or_else(String::new, |bytes| format!("{} GiB", bytes >> 30));
            table.row([id, memory, name, details]);
        }
        table.write(terminal)?;
        for Missing { kind, reason } in missing {
            let kind = terminal.paint(Style::Strong, kind);
            writeln!(terminal, "\nno {kind}: {reason}")?;
        }
        Ok(Exit::Fine)
    }
}

fn processor() -> Shown {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let isa = ixion::kernels::isa_name();
    Shown {
        id: "cpu".to_owned(),
        name: "the processor".to_owned(),
        details: format!("{}, kernels for {isa}, {threads} threads", std::env::consts::ARCH),
        memory: None,
    }
}

#[cfg(feature = "gpu")]
fn others() -> (Vec<Shown>, Vec<Missing>) {
    let (mut shown, mut missing) = (Vec::new(), Vec::new());
    for (kind, found) in ixion::cuda::devices() {
        match found {
            Ok(infos) => shown.extend(infos.into_iter().map(|info| Shown {
                details: match info.multiprocessors {
                    1 => info.details,
                    count => format!("{}, {count} multiprocessors", info.details),
                },
                id: info.id,
                name: info.name,
                memory: Some(info.memory),
            })),
            Err(error) => {
                let reason = match error {
                    ixion::cuda::device::CudaError::NoDevice { reason, .. } => reason,
                    other => other.to_string(),
                };
                missing.push(Missing { kind: kind.to_owned(), reason });
            }
        }
    }
    (shown, missing)
}

#[cfg(not(feature = "gpu"))]
fn others() -> (Vec<Shown>, Vec<Missing>) {
    let reason = "this `ixion` was built for the CPU only; rebuild it with `--features cuda`".to_owned();
    (Vec::new(), vec![Missing { kind: "cuda".to_owned(), reason }])
}
