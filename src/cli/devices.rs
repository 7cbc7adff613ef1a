//! `ixion devices`: what models can run on.

use super::failure::{Exit, Failure};
use super::screen::{Screen, Style};
use super::table::{Align, Table};
use clap::Args;
use serde_json::{Value, json};
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

/// Lists the devices that models can run on, and why others are not there
#[derive(Debug, Args)]
#[command(after_help = HELP)]
pub(crate) struct DevicesArgs {
    /// One JSON object, for programs
    #[arg(long)]
    json: bool,
}

/// A device as it is shown.
struct Shown {
    id: String,
    name: String,
    details: String,
    /// Bytes, where it has memory of its own.
    memory: Option<u64>,
}

/// A kind of devices of which there is none.
struct Missing {
    kind: String,
    reason: String,
}

impl DevicesArgs {
    pub(crate) fn run(&self, screen: &mut Screen) -> Result<Exit, Failure> {
        let (others, missing) = others();
        let devices: Vec<Shown> = std::iter::once(processor()).chain(others).collect();
        if self.json {
            screen.json(&as_json(&devices, &missing))?;
            return Ok(Exit::Fine);
        }
        let mut table = Table::new(&[
            ("device", Align::Left),
            ("memory", Align::Right),
            ("name", Align::Left),
            ("details", Align::Left),
        ]);
        for Shown { id, name, details, memory } in devices {
            let memory = memory.map_or_else(String::new, |bytes| format!("{} GiB", bytes >> 30));
            table.row([id, memory, name, details]);
        }
        table.write(screen)?;
        for Missing { kind, reason } in missing {
            let kind = screen.paint(Style::Strong, kind);
            writeln!(screen, "\nno {kind}: {reason}")?;
        }
        Ok(Exit::Fine)
    }
}

fn processor() -> Shown {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let isa = ixion::kernels::isa().name();
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
    let reason = "this `ixion` was built for the CPU alone: build it with `--features cuda`".to_owned();
    (Vec::new(), vec![Missing { kind: "cuda".to_owned(), reason }])
}

fn as_json(devices: &[Shown], missing: &[Missing]) -> Value {
    let device = |device: &Shown| {
        json!({
            "id": device.id,
            "name": device.name,
            "details": device.details,
            "memory": device.memory,
        })
    };
    let absent = |missing: &Missing| json!({ "kind": missing.kind, "reason": missing.reason });
    json!({
        "version": 1,
        "devices": devices.iter().map(device).collect::<Vec<_>>(),
        "missing": missing.iter().map(absent).collect::<Vec<_>>(),
    })
}
