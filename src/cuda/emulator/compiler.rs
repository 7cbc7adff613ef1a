//! The C++ compiler of the system.

use crate::cuda::device::{CudaError, Result, Unit};
use std::ffi::OsString;
use std::path::Path;
use std::process::Command;
use std::sync::OnceLock;
use tempfile::TempDir;

/// What stands ahead of a source.
const SHIM: [(&str, &str); 2] =
    [("threads.h", include_str!("threads.h")), ("language.h", include_str!("language.h"))];
/// And behind that in the checker.
const CHECKER: (&str, &str) = ("checker.h", include_str!("checker.h"));
/// All of it in one file.
const HEADER: &str = "emulator.h";

/// Kernels mean what they do on a GPU: sums in the order in which they are written, and names of their own.
const FLAGS: [&str; 7] = [
    "-std=c++17",
    "-O1",
    "-fPIC",
    "-fvisibility=hidden",
    "-fno-strict-aliasing",
    "-ffp-contract=off",
    "-Wno-attributes",
];

/// For who steps through a kernel: a fifth of the time of a compilation, and most of its result.
const DEBUG: &str = "-g";

/// Calls for every access to memory, which are those of the checker.
const WATCHED: [&str; 2] = ["-fsanitize=thread", "-fsanitize=bounds"];

/// A compiler that was found.
#[derive(Debug)]
pub(super) struct Compiler {
    program: OsString,
    version: String,
    is_checking: bool,
    is_debugged: bool,
    /// The folder of the header.
    header: OnceLock<TempDir>,
}

impl Compiler {
    /// `$CXX`, or one of the usual names.
    pub(super) fn find(is_checking: bool) -> Result<Self> {
        let named = std::env::var_os("CXX").filter(|name| !name.is_empty());
        let usual = ["c++", "g++", "clang++"].map(OsString::from);
        let names: Vec<OsString> = named.map_or_else(|| usual.to_vec(), |name| vec![name]);
        let found = names.iter().find_map(|program| Some((program.clone(), version(program)?)));
        match found {
            Some((program, version)) => {
                let is_debugged = super::library::is_traced();
                Ok(Self { program, version, is_checking, is_debugged, header: OnceLock::new() })
            }
            None => Err(CudaError::NoDevice {
                wanted: super::Emulator::ID.to_owned(),
                reason: format!(
                    "it compiles kernels with a C++ compiler, and none of {names:?} runs; install g++ or clang, or name one in CXX"
                ),
            }),
        }
    }

    /// What it calls itself.
    pub(super) fn name(&self) -> &str {
        &self.version
    }

    /// What compiled kernels depend on beside their source.
    pub(super) fn target(&self) -> String {
        let checked = if self.is_checking { " checked" } else { "" };
        let debugged = if self.is_debugged { " debugged" } else { "" };
        let sum = crc32fast::hash(self.header_text().as_bytes());
        format!("emulator{checked}{debugged} {sum:08x} {} {FLAGS:?}", self.version)
    }

    /// Compiles a source to a library.
    pub(super) fn compile(&self, unit: &Unit) -> Result<Vec<u8>> {
        let folder = temporary()?;
        let path = |name: &str| folder.path().join(name);
        std::fs::write(path("unit.cpp"), self.source(unit)?).map_err(io("write to"))?;
        let mut compile = self.command();
        compile.arg("-include").arg(self.header()?.join(HEADER));
        compile.arg("-c").arg(path("unit.cpp")).arg("-o").arg(path("unit.o"));
        run(compile, unit)?;
        // Linked without the sanitizers, whose calls are the checker's.
        let mut link = Command::new(&self.program);
        link.arg("-shared").arg(path("unit.o")).arg("-o").arg(path("unit.so"));
        run(link, unit)?;
        std::fs::read(path("unit.so")).map_err(io("read from"))
    }

    fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        command.args(FLAGS).args(self.is_debugged.then_some(DEBUG));
        command.args(if self.is_checking { &WATCHED[..] } else { &[] });
        command
    }

    /// The folder of the header, which is compiled ahead: that takes as long as two kernels do.
    fn header(&self) -> Result<&Path> {
        if let Some(folder) = self.header.get() {
            return Ok(folder.path());
        }
        let folder = temporary()?;
        let header = folder.path().join(HEADER);
        std::fs::write(&header, self.header_text()).map_err(io("write to"))?;
        // A compiler that makes nothing of it reads the text each time.
        let mut compile = self.command();
        compile.args(["-x", "c++-header"]).arg(&header).arg("-o").arg(header.with_extension("h.gch"));
        let _ = compile.output();
        Ok(self.header.get_or_init(|| folder).path())
    }

    fn header_text(&self) -> String {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/cuda/emulator");
        let mut text = String::new();
        if self.is_checking {
            text.push_str("#define IXION_CHECK 1\n");
        }
        for (name, part) in SHIM.iter().chain(self.is_checking.then_some(&CHECKER)) {
            text.push_str(&format!("#line 1 \"{}\"\n{part}", folder.join(name).display()));
        }
        text
    }

    fn source(&self, unit: &Unit) -> Result<String> {
        let mut source = with_dynamic_shared_memory(&unit.source());
        for signature in unit.signatures()? {
            source.push_str(&format!("IXION_KERNEL({})\n", signature.name));
        }
        Ok(source)
    }
}

fn temporary() -> Result<TempDir> {
    tempfile::tempdir().map_err(io("make"))
}

fn io(action: &'static str) -> impl Fn(std::io::Error) -> CudaError {
    move |error| CudaError::File { action, path: "a temporary folder".to_owned(), reason: error.to_string() }
}

/// `extern __shared__ float tile[];` names memory whose size the launch decides.
fn with_dynamic_shared_memory(source: &str) -> String {
    const WORDS: &str = "extern __shared__ ";
    let mut text = String::with_capacity(source.len());
    let mut rest = source;
    while let Some((before, after)) = rest.split_once(WORDS) {
        text.push_str(before);
        let declaration = after.split_once(';').and_then(|(declaration, after)| {
            let (element, name) = declaration.trim().strip_suffix("[]")?.rsplit_once(' ')?;
            Some((element.trim(), name, after))
        });
        match declaration {
            Some((element, name, after)) => {
                text.push_str(&format!(
                    "{element}* const {name} = reinterpret_cast<{element}*>(ixion::dynamic_shared);"
                ));
                rest = after;
            }
            None => {
                text.push_str(WORDS);
                rest = after;
            }
        }
    }
    text + rest
}

fn version(program: &OsString) -> Option<String> {
    let output =
        Command::new(program).arg("--version").output().ok().filter(|output| output.status.success())?;
    Some(String::from_utf8_lossy(&output.stdout).lines().next()?.to_owned())
}

fn run(mut command: Command, unit: &Unit) -> Result<()> {
    let fault = |log: String| CudaError::Compile { unit: unit.name(), log };
    let output = command.output().map_err(|error| fault(error.to_string()))?;
    match output.status.success() {
        true => Ok(()),
        false => Err(fault(String::from_utf8_lossy(&output.stderr).into_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shared_memory_without_a_size_is_a_pointer() {
        let text = "int a; extern __shared__ float tile[]; extern __shared__ x;";
        let want = "int a; float* const tile = reinterpret_cast<float*>(ixion::dynamic_shared); extern __shared__ x;";
        assert_eq!(with_dynamic_shared_memory(text), want);
    }
}
