//! rten and tract with the protocol of `benches/compare.py`.
//!
//! ```sh
//! cargo run --release --manifest-path benches/peers/Cargo.toml -- rten --threads 2
//! ```

use protocol::Peer;
use std::process::ExitCode;

mod npy;
#[path = "../../compare/protocol.rs"]
mod protocol;
mod rten_peer;
mod tract_peer;

fn peer(args: &[String]) -> Result<Box<dyn Peer>, String> {
    let [name, flag, threads] = args else { return Err("usage: peers rten|tract --threads N".to_owned()) };
    let threads: usize = threads.parse().map_err(|error| format!("{flag} {threads}: {error}"))?;
    match (name.as_str(), flag.as_str()) {
        ("rten", "--threads") => Ok(Box::new(rten_peer::Rten::new(threads))),
        ("tract", "--threads") => Ok(Box::new(tract_peer::Tract::new(threads))),
        _ => Err(format!("unknown arguments: {name} {flag}")),
    }
}

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let outcome = peer(&args).and_then(|mut peer| protocol::serve(&mut *peer).map_err(protocol::text));
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(reason) => {
            eprintln!("{reason}");
            ExitCode::from(2)
        }
    }
}
