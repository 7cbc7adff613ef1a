//! Sources of kernels, and the kernels that they declare.

use super::{CudaError, Result};
use std::borrow::Cow;

/// A source in CUDA C++, with macros that are defined before it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Unit {
    name: Cow<'static, str>,
    text: Cow<'static, str>,
    defines: Vec<(&'static str, String)>,
}

/// The headers that sources may include.
const HEADERS: [(&str, &str); 13] = [
    ("blocks.cuh", include_str!("../kernels/blocks.cuh")),
    ("chunks.cuh", include_str!("../kernels/chunks.cuh")),
    ("common.cuh", include_str!("../kernels/common.cuh")),
    ("convolution_offsets.cuh", include_str!("../kernels/convolution_offsets.cuh")),
    ("coordinates.cuh", include_str!("../kernels/coordinates.cuh")),
    ("faults.cuh", include_str!("../kernels/faults.cuh")),
    ("functions.cuh", include_str!("../kernels/functions.cuh")),
    ("masks.cuh", include_str!("../kernels/masks.cuh")),
    ("quantization.cuh", include_str!("../kernels/quantization.cuh")),
    ("rows.cuh", include_str!("../kernels/rows.cuh")),
    ("tensor_cores.cuh", include_str!("../kernels/tensor_cores.cuh")),
    ("tiles.cuh", include_str!("../kernels/tiles.cuh")),
    ("windows.cuh", include_str!("../kernels/windows.cuh")),
];

impl Unit {
    /// A source with this name.
    pub fn new(name: impl Into<Cow<'static, str>>, text: impl Into<Cow<'static, str>>) -> Self {
        Self { name: name.into(), text: text.into(), defines: Vec::new() }
    }

    /// Adds a macro, as `#define`.
    #[must_use]
    pub fn define(mut self, name: &'static str, text: impl ToString) -> Self {
        self.defines.push((name, text.to_string()));
        self
    }

    /// The name and the macros.
    pub fn name(&self) -> String {
        let defines = self.defines.iter().map(|(name, text)| format!("{name}={text}"));
        let defines = defines.collect::<Vec<_>>().join(" ");
        if defines.is_empty() { self.name.to_string() } else { format!("{} ({defines})", self.name) }
    }

    /// The name without the macros.
    pub fn file(&self) -> &str {
        &self.name
    }

    /// The whole source: the macros, and headers in place of their `#include`.
    pub fn source(&self) -> String {
        let mut source = String::new();
        for (name, text) in &self.defines {
            source.push_str(&format!("#define {name} {text}\n"));
        }
        source.push_str(&line(1, &self.name));
        for (number, text) in self.text.lines().enumerate() {
            let included = text.trim().strip_prefix("#include").map(|name| name.trim().trim_matches('"'));
            if let Some((name, text)) = HEADERS.iter().find(|header| included == Some(header.0)) {
                source.extend([&*line(1, name), text, &*line(number + 2, &self.name)]);
            } else {
                source.extend([text, "\n"]);
            }
        }
        source
    }

    /// The kernels that the source declares.
    ///
    /// # Errors
    /// [`CudaError::Compile`] if a declaration cannot be parsed.
    pub(crate) fn signatures(&self) -> Result<Vec<Signature>> {
        signatures(&self.text).map_err(|log| CudaError::Compile { unit: self.name(), log })
    }
}

/// A `#line` directive, which tells compilers and debuggers the origin of the next line.
fn line(number: usize, name: &str) -> String {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/src/cuda/kernels");
    format!("#line {number} \"{folder}/{name}\"\n")
}

/// The declaration of a kernel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Signature {
    /// The kernel's name.
    pub name: String,
    /// The parameters, in order.
    pub parameters: Vec<Parameter>,
}

/// A parameter of a kernel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Parameter {
    /// The parameter's name.
    pub name: String,
    /// The kind of argument that it accepts.
    pub kind: Kind,
}

/// The kind of a kernel's parameter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kind {
    /// A tensor that is only read, by the name of its element type.
    Read(String),
    /// A tensor that may be written, by the name of its element type.
    Write(String),
    /// A number or a struct, by the name of its type.
    Value(String),
}

impl std::fmt::Display for Kind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Read(name) => write!(f, "const {name}*"),
            Self::Write(name) => write!(f, "{name}*"),
            Self::Value(name) => f.write_str(name),
        }
    }
}

/// Finds `extern "C" __global__ void name(…)`. Other kernels have mangled names and cannot be launched.
fn signatures(text: &str) -> Result<Vec<Signature>, String> {
    let text = without_comments(text);
    let mut found = Vec::new();
    for rest in text.split("extern \"C\" __global__").skip(1) {
        let (head, body) = rest.split_once('{').unwrap_or((rest, ""));
        let _ = body;
        let head = head.trim_end();
        let inner = head.strip_suffix(')').ok_or_else(|| format!("`{head}` does not end with `)`"))?;
        let open = opening(inner).ok_or_else(|| format!("`{head}` has no parameters"))?;
        let (before, parameters) = inner.split_at(open);
        let name = before.split_whitespace().last().unwrap_or_default().to_owned();
        let parameters = parameters.trim_start_matches('(').split(',').map(str::trim);
        let parameters = parameters.filter(|parameter| !parameter.is_empty()).map(parameter);
        found.push(Signature { name, parameters: parameters.collect::<Result<_, _>>()? });
    }
    Ok(found)
}

/// The position of the parenthesis that a `)` after the text closes.
fn opening(inner: &str) -> Option<usize> {
    let mut depth = 0usize;
    for (at, c) in inner.char_indices().rev() {
        match c {
            ')' => depth += 1,
            '(' if depth == 0 => return Some(at),
            '(' => depth -= 1,
            _ => {}
        }
    }
    None
}

fn parameter(text: &str) -> Result<Parameter, String> {
    let at = text.rfind(|c: char| !c.is_alphanumeric() && c != '_').map_or(0, |at| at + 1);
    let (kind, name) = text.split_at(at);
    let kind = kind.replace("__restrict__", " ").replace("__grid_constant__", " ");
    let words: Vec<&str> = kind.split([' ', '\t', '\n', '*']).filter(|word| !word.is_empty()).collect();
    let is_const = words.contains(&"const");
    let words: Vec<&str> = words.into_iter().filter(|word| *word != "const").collect();
    if words.is_empty() || name.is_empty() {
        return Err(format!("`{text}` is not a valid kernel parameter"));
    }
    let type_name = words.join(" ");
    let kind = match (kind.matches('*').count(), is_const) {
        (0, _) => Kind::Value(type_name),
        (1, true) => Kind::Read(type_name),
        (1, false) => Kind::Write(type_name),
        _ => return Err(format!("`{text}`: pointers to pointers cannot be passed to a kernel")),
    };
    Ok(Parameter { name: name.to_owned(), kind })
}

fn without_comments(text: &str) -> String {
    let mut lines = String::new();
    for line in text.lines() {
        lines.push_str(line.split("//").next().unwrap_or_default());
        lines.push('\n');
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn declarations_are_parsed() {
        let text = "
            // extern \"C\" __global__ void not_this(int x) {}
            __device__ float twice(float x) { return 2 * x; }
            extern \"C\" __global__ void __launch_bounds__(256) add(
                const T* __restrict__ a, // one
                float *b, long long count, const __grid_constant__ Shape shape
            ) { if (count) { b[0] = a[0]; } }
            extern \"C\" __global__ void nothing() {}";
        let found = signatures(text).unwrap();
        let list = |signature: &Signature| {
            let all = signature.parameters.iter().map(|p| format!("{} {}", p.kind, p.name));
            format!("{}({})", signature.name, all.collect::<Vec<_>>().join(", "))
        };
        let texts: Vec<String> = found.iter().map(list).collect();
        assert_eq!(texts, ["add(const T* a, float* b, long long count, Shape shape)", "nothing()"]);
        assert!(signatures("extern \"C\" __global__ void f(float** x) {}").is_err());
        assert!(signatures("extern \"C\" __global__ void f(float) {}").is_err());
    }

    #[test]
    fn headers_replace_their_includes() {
        let unit = Unit::new("a.cu", "#include \"common.cuh\"\nint x;\n").define("T", "f32");
        let source = unit.source();
        assert!(source.starts_with("#define T f32\n#line 1 "));
        assert!(source.contains("struct Shape") && source.ends_with("a.cu\"\nint x;\n"));
        assert_eq!(unit.name(), "a.cu (T=f32)");
    }
}
