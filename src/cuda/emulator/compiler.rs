//! Compiles kernels with the system's C++ compiler.

use crate::cuda::device::{CudaError, Result, Unit};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use tempfile::TempDir;

/// A header's name and text.
type Header = (&'static str, &'static str);

const THREADS: Header = ("threads.h", include_str!("threads.h"));
/// The headers that precede a source, in one file.
const PRELUDE: [Header; 2] = [THREADS, ("language.h", include_str!("language.h"))];
/// The code that is linked to every kernel. It takes most of the compilation time, so it is compiled once.
const RUNTIME: [Header; 2] = [THREADS, ("fibres.h", include_str!("fibres.h"))];
/// The code that is linked in addition for the checker.
const CHECKER: Header = ("checker.h", include_str!("checker.h"));

/// The file names in the shared folder.
const HEADER: &str = "emulator.h";
const SUPPORT: &str = "emulator.o";

/// Flags for GPU semantics: sums are evaluated as written, without contraction, and symbols of kernels are local.
const FLAGS: [&str; 7] = [
    "-std=c++17",
    "-O1",
    "-fPIC",
    "-fvisibility=hidden",
    "-fno-strict-aliasing",
    "-ffp-contract=off",
    "-Wno-attributes",
];

/// Debug information, for stepping through kernels. It costs a fifth of the compilation time, and makes up most of the output.
const DEBUG: &str = "-g";

/// Flags that insert a call at every memory access; the checker implements these calls.
const SANITIZERS: [&str; 2] = ["-fsanitize=thread", "-fsanitize=bounds"];

/// A C++ compiler on this system.
#[derive(Debug)]
pub(super) struct Compiler {
    program: OsString,
    version: String,
    is_checking: bool,
    is_debugged: bool,
    prepared: Arc<Prepared>,
}

/// The folder of the shared compilation output. The first user creates it while the others wait.
type Prepared = Mutex<Option<TempDir>>;

/// The folders that the compilers of this process share, by [`Compiler::target`] and program.
static PREPARED: Mutex<Vec<(String, Weak<Prepared>)>> = Mutex::new(Vec::new());

/// The folder that all compilers with this key share.
fn shared(key: String) -> Arc<Prepared> {
    let mut all = PREPARED.lock().unwrap_or_else(PoisonError::into_inner);
    all.retain(|(_, prepared)| prepared.strong_count() > 0);
    if let Some(prepared) =
        all.iter().find_map(|(other, prepared)| prepared.upgrade().filter(|_| *other == key))
    {
        return prepared;
    }
    let prepared = Arc::default();
    all.push((key, Arc::downgrade(&prepared)));
    prepared
}

impl Compiler {
    /// Finds `$CXX`, or a compiler with one of the usual names.
    pub(super) fn find(is_checking: bool) -> Result<Self> {
        let named = std::env::var_os("CXX").filter(|name| !name.is_empty());
        let usual = ["c++", "g++", "clang++"].map(OsString::from);
        let names: Vec<OsString> = named.map_or_else(|| usual.to_vec(), |name| vec![name]);
        let found = names.iter().find_map(|program| Some((program.clone(), version(program)?)));
        match found {
            Some((program, version)) => {
                let is_debugged = super::library::is_traced();
                let mut found = Self { program, version, is_checking, is_debugged, prepared: Arc::default() };
                found.prepared = shared(format!("{} {:?}", found.target(), found.program));
                Ok(found)
            }
            None => Err(CudaError::NoDevice {
                wanted: super::Emulator::ID.to_owned(),
                reason: format!(
                    "it needs a C++ compiler, but none of {names:?} runs; install g++ or clang, or set CXX"
                ),
            }),
        }
    }

    /// The compiler's name and version, as it reports them.
    pub(super) fn name(&self) -> &str {
        &self.version
    }

    /// What compiled kernels depend on, in addition to their source.
    pub(super) fn target(&self) -> String {
        let checked = if self.is_checking { " checked" } else { "" };
        let debugged = if self.is_debugged { " debugged" } else { "" };
        let checksum = crc32fast::hash((self.text(&PRELUDE) + &self.support_text()).as_bytes());
        format!("emulator{checked}{debugged} {checksum:08x} {} {FLAGS:?}", self.version)
    }

    /// Compiles a source to a shared library.
    pub(super) fn compile(&self, unit: &Unit) -> Result<Vec<u8>> {
        let prepared = self.prepared(unit)?;
        let folder = temporary()?;
        let path = |name: &str| folder.path().join(name);
        std::fs::write(path("unit.cpp"), self.source(unit)?).map_err(io("write to"))?;
        let mut compile = self.kernel_command();
        compile.arg("-include").arg(prepared.join(HEADER));
        compile.arg("-c").arg(path("unit.cpp")).arg("-o").arg(path("unit.o"));
        run(compile, unit)?;
        // Linked without the sanitizers' runtime: the checker implements their calls.
        let mut link = Command::new(&self.program);
        link.arg("-shared").arg(path("unit.o")).arg(prepared.join(SUPPORT));
        link.arg("-o").arg(path("unit.so"));
        run(link, unit)?;
        std::fs::read(path("unit.so")).map_err(io("read from"))
    }

    fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        command.args(FLAGS).args(self.is_debugged.then_some(DEBUG));
        command
    }

    /// The command for kernels, whose accesses the checker watches.
    fn kernel_command(&self) -> Command {
        let mut command = self.command();
        command.args(if self.is_checking { &SANITIZERS[..] } else { &[] });
        command
    }

    /// The folder of the shared compilation output: the header, and the code that is linked to each source.
    fn prepared(&self, unit: &Unit) -> Result<PathBuf> {
        let mut prepared = self.prepared.lock().unwrap_or_else(PoisonError::into_inner);
        let folder = match prepared.take() {
            Some(folder) => folder,
            None => self.prepare(unit)?,
        };
        Ok(prepared.insert(folder).path().to_owned())
    }

    fn prepare(&self, unit: &Unit) -> Result<TempDir> {
        let folder = temporary()?;
        let path = |name: &str| folder.path().join(name);
        std::fs::write(path(HEADER), self.text(&PRELUDE)).map_err(io("write to"))?;
        std::fs::write(path("emulator.cpp"), self.support_text()).map_err(io("write to"))?;
        // Without a precompiled header, the compiler reads its text each time.
        let mut precompile = self.kernel_command();
        precompile.args(["-x", "c++-header"]).arg(path(HEADER)).arg("-o").arg(path("emulator.h.gch"));
        precompile.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let precompiling = precompile.spawn();
        let mut compile = self.command();
        compile.arg("-c").arg(path("emulator.cpp")).arg("-o").arg(path(SUPPORT));
        let compiled = run(compile, unit);
        if let Ok(mut precompiling) = precompiling {
            let _ = precompiling.wait();
        }
        compiled?;
        Ok(folder)
    }

    fn support_text(&self) -> String {
        let define = if self.is_checking { "#define IXION_CHECK 1\n" } else { "" };
        let checker = if self.is_checking { self.text(&[CHECKER]) } else { String::new() };
        format!("{define}{}{checker}", self.text(&RUNTIME))
    }

    fn text(&self, headers: &[Header]) -> String {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/cuda/emulator");
        let line = |(name, text): &Header| format!("#line 1 \"{}\"\n{text}", folder.join(name).display());
        headers.iter().map(line).collect()
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
    tempfile::tempdir().map_err(io("create"))
}

fn io(action: &'static str) -> impl Fn(std::io::Error) -> CudaError {
    move |error| CudaError::File { action, path: "a temporary folder".to_owned(), reason: error.to_string() }
}

/// Replaces `extern __shared__ float tile[];`, whose size the launch decides, by a pointer.
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
