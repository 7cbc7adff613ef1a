//! The C++ compiler of the system.

use crate::cuda::device::{CudaError, Result, Unit};
use std::ffi::OsString;
use std::path::Path;
use std::process::Command;

/// What stands ahead of a source, and behind that in the checker.
const SHIM: &str = include_str!("shim.h");
const CHECKER: &str = include_str!("checker.h");

/// Kernels mean what they do on a GPU: sums in the order in which they are written, and names of their own.
const FLAGS: [&str; 8] = [
    "-std=c++17",
    "-O1",
    "-g",
    "-fPIC",
    "-fvisibility=hidden",
    "-fno-strict-aliasing",
    "-ffp-contract=off",
    "-Wno-attributes",
];

/// Calls for every access to memory, which are those of the checker.
const WATCHED: [&str; 2] = ["-fsanitize=thread", "-fsanitize=bounds"];

/// A compiler that was found.
#[derive(Debug)]
pub(super) struct Compiler {
    program: OsString,
    version: String,
    is_checking: bool,
}

impl Compiler {
    /// `$CXX`, or one of the usual names.
    pub(super) fn find(is_checking: bool) -> Result<Self> {
        let named = std::env::var_os("CXX").filter(|name| !name.is_empty());
        let usual = ["c++", "g++", "clang++"].map(OsString::from);
        let names: Vec<OsString> = named.map_or_else(|| usual.to_vec(), |name| vec![name]);
        let found = names.iter().find_map(|program| Some((program.clone(), version(program)?)));
        match found {
            Some((program, version)) => Ok(Self { program, version, is_checking }),
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
        let (checker, shim) = if self.is_checking { (CHECKER, " checked") } else { ("", "") };
        let sum = crc32fast::hash(format!("{SHIM}{checker}").as_bytes());
        format!("emulator{shim} {sum:08x} {} {:?}", self.version, FLAGS)
    }

    /// Compiles a source to a library.
    pub(super) fn compile(&self, unit: &Unit) -> Result<Vec<u8>> {
        let io = |action: &'static str| {
            move |error: std::io::Error| CudaError::File {
                action,
                path: "a temporary folder".to_owned(),
                reason: error.to_string(),
            }
        };
        let folder = tempfile::tempdir().map_err(io("make"))?;
        let path = |name: &str| folder.path().join(name);
        std::fs::write(path("unit.cpp"), self.source(unit)?).map_err(io("write to"))?;
        let mut compile = Command::new(&self.program);
        compile.args(FLAGS).args(if self.is_checking { &WATCHED[..] } else { &[] });
        compile.arg("-c").arg(path("unit.cpp")).arg("-o").arg(path("unit.o"));
        run(compile, unit)?;
        // Linked without the sanitizers, whose calls are the checker's.
        let mut link = Command::new(&self.program);
        link.arg("-shared").arg(path("unit.o")).arg("-o").arg(path("unit.so"));
        run(link, unit)?;
        std::fs::read(path("unit.so")).map_err(io("read from"))
    }

    fn source(&self, unit: &Unit) -> Result<String> {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/cuda/emulator");
        let line = |name: &str| format!("#line 1 \"{}\"\n", folder.join(name).display());
        let mut source = String::new();
        if self.is_checking {
            source.push_str("#define IXION_CHECK 1\n");
        }
        source.extend([&*line("shim.h"), SHIM]);
        if self.is_checking {
            source.extend([&*line("checker.h"), CHECKER]);
        }
        source.push_str(&with_dynamic_shared_memory(&unit.source()));
        for signature in unit.signatures()? {
            source.push_str(&format!("IXION_KERNEL({})\n", signature.name));
        }
        Ok(source)
    }
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
