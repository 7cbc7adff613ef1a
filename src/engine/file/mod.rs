//! The plan file: everything that is needed to run a model, in one file.
//!
//! [`Plan::save`] writes it, [`PlanFile`] opens it. It holds the graph after the passes with its weights, the selected
//! formats and tactics, the shapes given to the builder, the stored state of layers, and the model's `model.toml`. Loading
//! runs no pass, selects no format and tries no tactic.
//!
//! # Layout, version 2
//!
//! All numbers are little-endian and unsigned. The file is a header, an index, and sections.
//!
//! ```text
//! header (64 bytes) │ index (24 bytes a section) │ zeros up to 4096 │ section │ zeros │ section │ …
//! ```
//!
//! | byte | header |
//! |---|---|
//! | 0 | the magic number: `89` `IXPLN` `0D 0A` |
//! | 8 | u32: version of the format, 2 |
//! | 12 | u32: flags, 0 |
//! | 16 | u32 0x01020304, in the byte order of the machine that wrote the file |
//! | 20 | u32: number of sections |
//! | 24 | u64: length of the file |
//! | 32 | 24 bytes: Ixion's version in ASCII, padded with zeros |
//! | 56 | u32: CRC-32 of the index |
//! | 60 | u32: CRC-32 of the header up to here |
//!
//! An entry of the index is u32 kind, u32 CRC-32 of the section, u64 offset, u64 length. Every section begins at the first
//! multiple of 4096 after the previous one, the first one at 4096; the gaps are filled with zeros, and the last section ends
//! the file. There is at most one section of each kind:
//!
//! | kind | section | contents |
//! |---|---|---|
//! | 1 | settings, required | JSON: see [below](#settings) |
//! | 2 | graph, required | the graph after the passes, a [`.param` text](crate::pnnx) |
//! | 3 | card | the text of `model.toml` |
//! | 4 | states | for each layer with stored state: u32 length and name of the operator, u64 length and bytes of the state |
//! | 5 | table of weights, required | for each attribute of the graph, in the order of the text: u64 offset in the section of weights, u64 length, u32 CRC-32, u32 zero |
//! | 6 | weights, required | the attributes' little-endian bytes, each at the first multiple of 64 after the previous one; the gaps are filled with zeros |
//! | 7 | choices | JSON: `changes`, the selected formats, tactics and reformats, in the order in which they were applied; `operators`, the candidates of each |
//!
//! Layers may keep packed weights, such as panels as wide as a vector. Their operators then have an additional attribute,
//! [`ixion.packed`](crate::op::PACKED), so that a memory-mapped plan computes on the file's pages from the first run on.
//! Layers that compute in int8 need their `weight` in no other form: it is stored as `i8` instead of `f32`, and the scale of each
//! output channel as `ixion.scales.weight` (see [`scales_key`](crate::op::scales_key)).
//!
//! ## Settings
//!
//! `model`: the file name of the `.param` file. `layers`: type, namespace and version of each operator's creator; the
//! registry must have the same. `features`: the required processor features, by Rust's names. `shapes`, `ranges` and
//! `donations` (positions): as given to the builder. `passes`: their statistics, without times. `lines`: the operators' lines
//! in the model's own text, for messages. `operands` and `inputs`: element types and shapes of operands, and names of inputs,
//! that the text cannot express. No other key is allowed, and none may be missing.
//!
//! # What is checked
//!
//! Opening a file checks header, index and all sections but the weights against their checksums, and every offset and length
//! against the file and the [`Limits`] before it is used. Undetected damage can therefore only be in the weights;
//! [`PlanFile::verify`] reads them all. Damaged weights that were not verified give wrong results, but cause neither a panic
//! nor an out-of-bounds access.
//!
//! Two builds of a model by the same version of Ixion with the same settings give the same bytes, on processors with the same
//! vector width (see [`isa`](crate::kernels::isa)).

mod choices;
mod error;
mod exact;
mod features;
#[doc(hidden)]
pub mod header;
mod layout;
mod read;
mod settings;
mod states;
mod verify;
mod weights;
mod write;

pub use error::{PlanFileError, PlanFileProblem};
pub use layout::{Kind, Section};

use super::device::Accelerator;
use super::{EngineError, Plan};
use crate::Limits;
use crate::op::Registry;
use crate::passes::Statistics;
use crate::pnnx::archive::ArchiveFile;
use choices::Choices;
use layout::MAGIC;
use settings::Settings;
use std::collections::BTreeMap;
use std::fmt;
use std::io::Read;
use std::path::Path;
use weights::Place;

/// An open plan file. Everything but its weights has been read.
///
/// ```
/// use ixion::Limits;
/// use ixion::engine::{Builder, PlanFile};
/// use ixion::tensor::Tensor;
/// # let param = concat!(env!("CARGO_MANIFEST_DIR"), "/model_file/linear/linear.pnnx.param");
/// # let folder = tempfile::tempdir()?;
/// let path = folder.path().join("linear.plan");
/// Builder::new(param).build()?.save(&path)?;
///
/// let file = PlanFile::open(&path, &Limits::default())?;
/// file.verify()?;
/// let plan = file.with_threads(2).load()?;
/// let outputs = plan.context()?.run(&[Tensor::ones(ixion::tensor::DType::F32, &[1, 32])?])?;
/// assert_eq!(outputs[0].shape().dims(), &[1, 128]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct PlanFile {
    file: ArchiveFile,
    /// The version of Ixion that wrote the file.
    written_by: String,
    sections: Vec<Section>,
    settings: Settings,
    text: Vec<u8>,
    card: Option<String>,
    states: BTreeMap<String, Vec<u8>>,
    places: Vec<Place>,
    choices: Choices,
    limits: Limits,
    registry: Registry,
    threads: usize,
    accelerator: Option<Accelerator>,
}

impl PlanFile {
    /// The version of the format that is written and read.
    pub const VERSION: u32 = layout::VERSION;

    /// Returns true if a file begins with the magic number of a plan.
    pub fn is_plan(path: impl AsRef<Path>) -> bool {
        let path = path.as_ref();
        let mut start = [0; MAGIC.len()];
        // Opening a pipe would wait for a writer.
        let is_file = path.metadata().is_ok_and(|found| found.is_file());
        is_file
            && std::fs::File::open(path).and_then(|mut file| file.read_exact(&mut start)).is_ok()
            && start == MAGIC
    }

    /// Creates layers from this registry instead of the built-in one.
    #[must_use]
    pub fn with_registry(self, registry: Registry) -> Self {
        Self { registry, ..self }
    }

    /// Runs the operators that the plan places on a GPU on this device.
    #[cfg(feature = "gpu")]
    #[must_use]
    pub fn with_device(self, device: crate::cuda::device::Device, layers: crate::cuda::CudaLayers) -> Self {
        Self { accelerator: Some(Accelerator { device, layers }), ..self }
    }

    /// The registry that layers are created from.
    pub fn registry(&self) -> &Registry {
        &self.registry
    }

    /// Sets the number of threads of a run; 0 means all that are available. Default: 1.
    #[must_use]
    pub fn with_threads(self, threads: usize) -> Self {
        Self { threads, ..self }
    }

    /// The path of the file.
    pub fn path(&self) -> &Path {
        self.file.path()
    }

    /// The size of the file in bytes.
    pub fn len(&self) -> u64 {
        self.file.len()
    }

    /// Returns true if the file is empty: never, for a file that could be opened.
    pub fn is_empty(&self) -> bool {
        self.file.is_empty()
    }

    /// The version of Ixion that wrote the file.
    pub fn written_by(&self) -> &str {
        &self.written_by
    }

    /// The file name of the model that the plan was built from, if it is known.
    pub fn model(&self) -> Option<&str> {
        self.settings.model.as_deref()
    }

    /// The text of the model card (`model.toml`), if there is one.
    pub fn card(&self) -> Option<&str> {
        self.card.as_deref()
    }

    /// The sections, in the order of the file.
    pub fn sections(&self) -> &[Section] {
        &self.sections
    }

    /// The statistics of the passes when the plan was built, without times.
    pub fn statistics(&self) -> Statistics {
        self.settings.statistics()
    }
}

/// Shows the path, version and sections of the file, but not its contents.
impl fmt::Debug for PlanFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PlanFile")
            .field("path", &self.path())
            .field("written_by", &self.written_by)
            .field("sections", &self.sections)
            .finish_non_exhaustive()
    }
}

impl Plan {
    /// Loads a plan written by [`Plan::save`], with built-in layers only. [`PlanFile`] has more options; a plan with plugins
    /// is loaded by `PlanFile::open(path, &Limits::default())?.with_registry(registry).load()?`.
    ///
    /// # Errors
    /// As [`PlanFile::open`] and [`PlanFile::load`].
    pub fn load(path: impl AsRef<Path>) -> Result<Self, EngineError> {
        PlanFile::open(path, &Limits::default())?.load()
    }
}
