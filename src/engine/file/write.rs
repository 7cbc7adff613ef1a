//! Saves a plan to a file.

use super::choices::Choices;
use super::error::PlanFileProblem;
use super::header;
use super::layout::{Kind, PAGE, Section, aligned};
use super::settings::Settings;
use super::states;
use super::weights::{self, ALIGNMENT, Place, attributes};
use crate::engine::{EngineError, Plan};
use crate::graph::Stage;
use crate::op::{LayerError, PACKED, QuantizedWeight, catch_panic, scales_key};
use crate::pnnx::{ArchiveError, Attribute, Graph, replace, write_beside};
use crc32fast::Hasher;
use std::collections::HashSet;
use std::fs::File;
use std::io::{self, BufWriter, Seek, SeekFrom, Write};
use std::path::Path;

impl Plan {
    /// Writes the plan to a file, which [`Plan::load`] reads.
    ///
    /// A temporary file next to `path` is written and then renamed: readers see the old file or the new one. `path` may be
    /// the file that this plan was loaded from.
    ///
    /// # Errors
    /// [`EngineError::PlanFile`] if the file cannot be written, or if the graph cannot be written as text. Also returns an
    /// error if weights are damaged or cannot be read, or if a layer cannot store its state.
    pub fn save(&self, path: impl AsRef<Path>) -> Result<(), EngineError> {
        let path = path.as_ref();
        let of_path = |problem: PlanFileProblem| EngineError::from(problem.of(path));
        let settings = Settings::of(self).and_then(|settings| settings.to_bytes()).map_err(of_path)?;
        let choices = Choices::of(self).map(|choices| choices.to_bytes()).transpose().map_err(of_path)?;
        let source = with_packed(self)?;
        check_names(&source).map_err(of_path)?;
        let (text, states) = (source.to_param_text(), states::encode(self)?);
        let file = write_beside(path, |file| {
            let mut writer = Writer::new(file, path)?;
            writer.section(Kind::Graph, |writer| writer.put(text.as_bytes()))?;
            if let Some(card) = &self.card {
                writer.section(Kind::Card, |writer| writer.put(card.as_bytes()))?;
            }
            if let Some(choices) = &choices {
                writer.section(Kind::Choices, |writer| writer.put(choices))?;
            }
            if let Some(states) = &states {
                writer.section(Kind::States, |writer| writer.put(states))?;
            }
            let places = writer.section(Kind::Weights, |writer| writer.weights(&source))?;
            writer.section(Kind::Table, |writer| writer.put(&weights::encode(&places)))?;
            writer.section(Kind::Settings, |writer| writer.put(&settings))?;
            writer.finish()
        })?;
        Ok(replace(file, path)?)
    }
}

/// The graph, with the packed weights of layers as additional attributes, and weights in int8 where layers read them so.
fn with_packed(plan: &Plan) -> Result<Graph, EngineError> {
    let mut source = plan.source.clone();
    for operator in plan.graph.operators() {
        let of_operator = EngineError::at(&plan.graph, operator, Stage::Store);
        let Some(layer) = operator.layer() else { continue };
        let Some(id) = source.operator_named(operator.name()) else { continue };
        let (packed, quantized) =
            catch_panic(|| Ok((layer.packed()?, layer.quantized_weight()?))).map_err(&of_operator)?;
        let refused = |error: &dyn std::fmt::Display| of_operator(LayerError::Unsupported(error.to_string()));
        if let Some(QuantizedWeight { values, scales }) = quantized {
            for (key, tensor) in [(WEIGHT.to_owned(), values), (scales_key(WEIGHT), scales)] {
                let bytes = tensor.to_le_bytes().map_err(|error| refused(&error))?;
                let attribute = Attribute::new(tensor.dtype(), tensor.shape().to_vec(), bytes);
                let attribute = attribute.map_err(|error| refused(&error))?;
                source.set_attribute(id, &key, attribute).map_err(|error| refused(&error))?;
            }
        }
        let Some(packed) = packed else {
            // Packed weights of another plan would never be read.
            source.remove_attribute(id, PACKED).map_err(|error| refused(&error))?;
            continue;
        };
        let attribute = Attribute::from_f32s(vec![packed.len()], &packed).map_err(|error| refused(&error))?;
        source.set_attribute(id, PACKED, attribute).map_err(|error| refused(&error))?;
    }
    Ok(source)
}

/// The key of the weight that layers may read in int8.
const WEIGHT: &str = "weight";

/// Checks that names of weights are unique. Two operators can share one (`a.b` with `c`, `a` with `b.c`), and the loaded
/// graph could not distinguish them.
fn check_names(graph: &Graph) -> Result<(), PlanFileProblem> {
    let mut names = HashSet::new();
    let twice = attributes(graph)
        .map(|(operator, key, _)| [operator, key].join("."))
        .find(|it| !names.insert(it.clone()));
    match twice {
        Some(name) => {
            Err(PlanFileProblem::Unwritable(format!("two weights are called `{name}`; rename an operator")))
        }
        None => Ok(()),
    }
}

/// Writes the sections in order.
struct Writer<'a> {
    out: BufWriter<&'a mut File>,
    path: &'a Path,
    position: u64,
    /// The checksum of the current section.
    hasher: Hasher,
    sections: Vec<Section>,
}

impl<'a> Writer<'a> {
    /// Leaves the first page empty until all sections are known.
    fn new(file: &'a mut File, path: &'a Path) -> Result<Self, EngineError> {
        let (out, sections) = (BufWriter::with_capacity(1 << 16, file), Vec::new());
        let mut writer = Self { out, path, position: 0, hasher: Hasher::new(), sections };
        writer.zeros(PAGE)?;
        Ok(writer)
    }

    fn section<T>(
        &mut self,
        kind: Kind,
        write: impl FnOnce(&mut Self) -> Result<T, EngineError>,
    ) -> Result<T, EngineError> {
        self.zeros(aligned(self.position, PAGE) - self.position)?;
        self.hasher = Hasher::new();
        let offset = self.position;
        let result = write(self)?;
        let crc32 = std::mem::take(&mut self.hasher).finalize();
        self.sections.push(Section { kind, crc32, offset, length: self.position - offset });
        Ok(result)
    }

    /// Writes all attributes of a graph, and returns their places.
    fn weights(&mut self, graph: &Graph) -> Result<Vec<Place>, EngineError> {
        let start = self.position;
        let mut places = Vec::new();
        for (_, _, attribute) in attributes(graph) {
            self.zeros(aligned(self.position - start, ALIGNMENT) - (self.position - start))?;
            let offset = self.position - start;
            let crc32 = self.weight(attribute)?;
            places.push(Place { offset, length: attribute.byte_len() as u64, crc32 });
        }
        Ok(places)
    }

    /// Writes the bytes of an attribute in chunks, and returns their checksum.
    fn weight(&mut self, attribute: &Attribute) -> Result<u32, EngineError> {
        let (mut hasher, mut failed) = (Hasher::new(), None);
        let read = attribute.for_each_piece(|piece| {
            hasher.update(piece);
            self.write(piece).map_err(|error| {
                let (archive, source) = (self.path.to_owned(), error.kind().into());
                failed = Some(error);
                ArchiveError::Io { archive, action: "write", source }
            })
        });
        if let Some(error) = failed {
            return Err(self.refused(error));
        }
        let of_weight = |error| EngineError::from(crate::pnnx::PnnxError::from(error));
        read.map_err(of_weight)?;
        let found = hasher.finalize();
        // Otherwise damaged bytes would be written with a matching checksum.
        attribute.check_crc(found).map_err(of_weight)?;
        Ok(found)
    }

    fn put(&mut self, bytes: &[u8]) -> Result<(), EngineError> {
        self.write(bytes).map_err(|error| self.refused(error))
    }

    fn zeros(&mut self, count: u64) -> Result<(), EngineError> {
        let zeros = [0; PAGE as usize];
        self.put(zeros.get(..usize::try_from(count).unwrap_or(zeros.len())).unwrap_or(&zeros))
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.out.write_all(bytes)?;
        self.hasher.update(bytes);
        self.position += bytes.len() as u64;
        Ok(())
    }

    /// Writes the first page.
    fn finish(mut self) -> Result<(), EngineError> {
        let no_room = || PlanFileProblem::Unwritable("too many sections".to_owned());
        let page = header::encode(&self.sections, env!("CARGO_PKG_VERSION"));
        let page = page.ok_or_else(no_room).map_err(|problem| problem.of(self.path))?;
        let mut write = || -> io::Result<()> {
            self.out.seek(SeekFrom::Start(0))?;
            self.out.write_all(&page)?;
            self.out.flush()
        };
        write().map_err(|error| self.refused(error))
    }

    fn refused(&self, source: io::Error) -> EngineError {
        PlanFileProblem::Io { action: "write", source }.of(self.path).into()
    }
}
