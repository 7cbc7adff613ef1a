//! A plugin that records its calls, and forwards them to your `Smooth`.

use super::super::subject::Smooth;
use ixion::op::{CpuLayer, Creator, FromOperator, Io, Layer, OperatorReader, Registry, Result, TensorMeta};
use std::sync::{Arc, Mutex};

/// The calls, and the number of layers so far: the first one is `a`, the next one `b`.
pub(super) type Diary = Arc<Mutex<(Vec<String>, u8)>>;

/// Takes the lines out of the diary.
pub(super) fn closed(diary: &Diary) -> Vec<String> {
    std::mem::take(&mut diary.lock().unwrap().0)
}

/// The calls in these lines, without the names of the layers.
pub(super) fn steps(lines: &[String]) -> Vec<&str> {
    let step = |line: &'_ String| -> Option<usize> { line.find(": ").map(|at| at + 2) };
    lines.iter().map(|line| step(line).map_or("create", |at| &line[at..])).map(first_word).collect()
}

fn first_word(text: &str) -> &str {
    text.split(' ').next().unwrap_or(text)
}

/// All built-in layers, and `test/Watched/1`.
pub(super) fn registry(diary: &Diary) -> Registry {
    let diary = Arc::clone(diary);
    let create = move |reader: &mut OperatorReader<'_>| {
        let inner = Smooth::from_operator(reader)?;
        inner.validate()?;
        Ok(Box::new(Watched::new(inner, &diary, "create")) as Box<dyn CpuLayer>)
    };
    let mut registry = Registry::default();
    registry.add_plugin("Watched", Creator::new("test", "1", create)).unwrap();
    registry
}

#[derive(Debug)]
struct Watched {
    inner: Smooth,
    name: char,
    diary: Diary,
}

impl Watched {
    fn new(inner: Smooth, diary: &Diary, how: &str) -> Self {
        let mut open = diary.lock().unwrap();
        let name = char::from(b'a' + open.1 % 26);
        open.1 += 1;
        open.0.push(format!("{how} → {name}"));
        Self { inner, name, diary: Arc::clone(diary) }
    }

    fn note(&self, what: &str) {
        self.diary.lock().unwrap().0.push(format!("{}: {what}", self.name));
    }
}

impl Clone for Watched {
    fn clone(&self) -> Self {
        Self::new(self.inner.clone(), &self.diary, &format!("{}: clone", self.name))
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        self.note("drop");
    }
}

impl Layer for Watched {
    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
        self.inner.infer(inputs)
    }
}

impl CpuLayer for Watched {
    fn configure(&mut self, inputs: &[TensorMeta], outputs: &[TensorMeta]) -> Result<()> {
        self.note("configure");
        self.inner.configure(inputs, outputs)
    }

    fn workspace(&self, inputs: &[TensorMeta], outputs: &[TensorMeta]) -> usize {
        self.note("workspace");
        self.inner.workspace(inputs, outputs)
    }

    fn initialize(&mut self) -> Result<()> {
        self.note("initialize");
        self.inner.initialize()
    }

    fn terminate(&mut self) {
        self.note("terminate");
        self.inner.terminate();
    }

    fn serialize(&self) -> Result<Vec<u8>> {
        self.note("serialize");
        self.inner.serialize()
    }

    fn deserialize(&mut self, bytes: &[u8]) -> Result<()> {
        self.note("deserialize");
        self.inner.deserialize(bytes)
    }

    fn forward(&mut self, io: &mut Io<'_, '_>) -> Result<()> {
        self.note("forward");
        self.inner.forward(io)
    }
}
