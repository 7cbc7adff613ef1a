//! Queues of work for a device, executed in order.

use super::graph::{Recorded, RecordedWork};
use super::{
    Call, CudaError, Device, DeviceTensor, DriverQueue, Extent, Graph, Kernel, Kind, Launch, LibraryWork,
    Memory, Recording, Result,
};
use crate::tensor::DType;
use smallvec::SmallVec;
use std::ffi::c_void;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// The launch configuration of a kernel: blocks, threads and shared memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Grid {
    /// The number of blocks along x, y and z.
    pub blocks: [u32; 3],
    /// The number of threads of a block along x, y and z.
    pub threads: [u32; 3],
    /// Dynamic shared memory of a block in bytes, in addition to what the kernel declares.
    pub shared: u32,
}

impl Grid {
    /// The default number of threads of a block.
    pub const THREADS: u32 = 256;

    /// A one-dimensional grid of `blocks` blocks with `threads` threads each.
    pub fn of(blocks: usize, threads: u32) -> Self {
        let blocks = u32::try_from(blocks).unwrap_or(i32::MAX as u32).min(i32::MAX as u32);
        Self { blocks: [blocks, 1, 1], threads: [threads, 1, 1], shared: 0 }
    }

    /// Returns an error if no GPU can launch this grid, even though the emulator could.
    fn check(&self) -> Result<()> {
        const MAX_BLOCKS: u32 = 65535;
        const MAX_THREADS: u64 = 1024;
        let [_, y, z] = self.blocks;
        let threads = self.threads.iter().fold(1u64, |all, len| all.saturating_mul(u64::from(*len)));
        if y <= MAX_BLOCKS && z <= MAX_BLOCKS && threads <= MAX_THREADS {
            return Ok(());
        }
        let (blocks, threads) = (self.blocks, self.threads);
        let reason = format!("{blocks:?} blocks of {threads:?} threads exceed the limits of GPUs");
        Err(CudaError::Driver { call: "a launch".to_owned(), reason })
    }

    /// One thread per element. If the grid is limited to fewer threads, kernels loop over the elements in grid strides.
    pub fn over(elements: usize) -> Self {
        Self::of(elements.div_ceil(Self::THREADS as usize), Self::THREADS)
    }
}

/// The struct `Shape` of kernels.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[repr(C)]
pub struct KernelShape {
    /// The number of axes.
    pub rank: i32,
    /// The lengths of the axes, outermost first.
    pub dims: [i32; 8],
}

/// The struct `Strides` of kernels.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[repr(C)]
pub struct KernelStrides {
    /// The strides in elements, outermost first.
    pub by: [i64; 8],
}

/// An argument of a kernel. Tensors are passed as pointers to their first element.
#[derive(Debug, Clone, Copy)]
pub enum Argument<'a> {
    /// A tensor that is read.
    Read(DeviceTensor<'a>),
    /// A tensor that is written.
    Write(DeviceTensor<'a>),
    /// A null pointer, for an optional tensor.
    None,
    /// `int`.
    Int(i32),
    /// `i64`.
    Long(i64),
    /// `float`.
    Float(f32),
    /// `double`.
    Double(f64),
    /// `Shape`.
    Shape(KernelShape),
    /// `Strides`.
    Strides(KernelStrides),
}

impl<'a> Argument<'a> {
    fn tensor(&self) -> Option<&DeviceTensor<'a>> {
        match self {
            Self::Read(tensor) | Self::Write(tensor) => Some(tensor),
            _ => None,
        }
    }

    /// Returns true if a parameter of this kind accepts the argument.
    fn fits(&self, kind: &Kind) -> bool {
        let value = |names: &[&str]| matches!(kind, Kind::Value(name) if names.contains(&name.as_str()));
        match self {
            Self::Read(tensor) => matches!(kind, Kind::Read(name) if is_of(name, tensor.dtype)),
            Self::Write(tensor) => matches!(kind, Kind::Write(name) if is_of(name, tensor.dtype)),
            Self::None => matches!(kind, Kind::Read(_) | Kind::Write(_)),
            Self::Int(_) => value(&["int", "i32"]),
            Self::Long(_) => value(&["i64", "long long"]),
            Self::Float(_) => value(&["f32", "float"]),
            Self::Double(_) => value(&["f64", "double"]),
            Self::Shape(_) => value(&["Shape"]),
            Self::Strides(_) => value(&["Strides"]),
        }
    }

    pub(super) fn name(&self) -> String {
        match self {
            Self::Read(tensor) => format!("const {}*", tensor.dtype),
            Self::Write(tensor) => format!("{}*", tensor.dtype),
            Self::None => "no tensor".to_owned(),
            Self::Int(_) => "int".to_owned(),
            Self::Long(_) => "i64".to_owned(),
            Self::Float(_) => "float".to_owned(),
            Self::Double(_) => "double".to_owned(),
            Self::Shape(_) => "Shape".to_owned(),
            Self::Strides(_) => "Strides".to_owned(),
        }
    }
}

/// Returns true if the element type that a kernel declares may be `dtype`. Names that are not element types are macros, such as
/// `T`; their definition is the responsibility of the kernel's author.
fn is_of(name: &str, dtype: DType) -> bool {
    let known = match name {
        "float" => Some(DType::F32),
        "double" => Some(DType::F64),
        name => DType::from_name(name),
    };
    known.is_none_or(|known| known == dtype)
}

/// The bytes of one argument, until the launch.
pub(super) type Slot = [u64; 9];

fn slot(argument: &Argument<'_>) -> Slot {
    let mut slot = [0u64; 9];
    let bytes: &mut [u8] = bytes_of(&mut slot);
    let mut put = |from: &[u8]| {
        if let Some(to) = bytes.get_mut(..from.len()) {
            to.copy_from_slice(from);
        }
    };
    match argument {
        Argument::Read(tensor) | Argument::Write(tensor) => put(&tensor.start().to_ne_bytes()),
        Argument::None => put(&0u64.to_ne_bytes()),
        Argument::Int(value) => put(&value.to_ne_bytes()),
        Argument::Long(value) => put(&value.to_ne_bytes()),
        Argument::Float(value) => put(&value.to_ne_bytes()),
        Argument::Double(value) => put(&value.to_ne_bytes()),
        Argument::Shape(shape) => {
            let numbers = std::iter::once(shape.rank).chain(shape.dims);
            put(&numbers.flat_map(i32::to_ne_bytes).collect::<SmallVec<[u8; 40]>>());
        }
        Argument::Strides(strides) => {
            put(&strides.by.into_iter().flat_map(i64::to_ne_bytes).collect::<SmallVec<[u8; 64]>>());
        }
    }
    slot
}

fn bytes_of(slot: &mut Slot) -> &mut [u8] {
    let (start, len) = (slot.as_mut_ptr().cast::<u8>(), size_of::<Slot>());
    // SAFETY: these are the bytes of the slot, which is borrowed for as long, and any bytes are valid integers.
    unsafe { std::slice::from_raw_parts_mut(start, len) }
}

/// Pointers to the arguments.
pub(super) fn pointers(slots: &mut [Slot]) -> SmallVec<[*mut c_void; 16]> {
    slots.iter_mut().map(|slot| slot.as_mut_ptr().cast::<c_void>()).collect()
}

/// A queue of work, executed in the order of the calls.
#[derive(Debug)]
pub struct Queue {
    device: Device,
    queue: Box<dyn DriverQueue>,
    launches: u64,
    /// The launches recorded so far, while recording.
    recording: Option<Recording>,
}

impl Queue {
    pub(super) fn new(device: Device, queue: Box<dyn DriverQueue>) -> Self {
        Self { device, queue, launches: 0, recording: None }
    }

    /// The queue's device.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// The number of kernels launched by this queue.
    pub fn launches(&self) -> u64 {
        self.launches
    }

    /// Copies bytes from the host to a tensor whose elements are contiguous.
    ///
    /// # Errors
    /// [`CudaError::OutOfBounds`] if the numbers of bytes differ; [`CudaError::Driver`].
    pub fn upload(&mut self, to: &DeviceTensor<'_>, from: &[u8]) -> Result<()> {
        self.start_upload(to, from)?;
        if self.device.is_pinned(from) { self.synchronize() } else { Ok(()) }
    }

    /// As [`Queue::upload`], but does not wait until page-locked bytes have been read: if they change before the queue has been
    /// synchronised, it is undefined which bytes arrive. They may be dropped, which waits.
    pub(crate) fn start_upload(&mut self, to: &DeviceTensor<'_>, from: &[u8]) -> Result<()> {
        check_len(to, from.len())?;
        if from.is_empty() {
            return Ok(());
        }
        // SAFETY: the tensor is within its memory, and has that many bytes.
        unsafe {
            match self.device.is_pinned(from) {
                true => self.queue.upload_pinned(to.start(), from),
                false => self.queue.upload(to.start(), from),
            }
        }
    }

    /// Copies all bytes from the first element of a tensor to the last to the host, after all work enqueued before.
    ///
    /// # Errors
    /// As [`Queue::upload`].
    pub fn download(&mut self, to: &mut [u8], from: &DeviceTensor<'_>) -> Result<()> {
        check_len(from, to.len())?;
        if to.is_empty() {
            return Ok(());
        }
        // SAFETY: the tensor is within its memory, and has that many bytes.
        unsafe {
            match self.device.is_pinned(to) {
                true => self.queue.download_pinned(to, from.start()),
                false => self.queue.download(to, from.start()),
            }
        }
    }

    /// Launches a kernel.
    ///
    /// # Errors
    /// [`CudaError::Arguments`] if the kernel declares other parameters; [`CudaError::Driver`]; [`CudaError::Fault`].
    pub fn launch(&mut self, kernel: &Kernel, grid: Grid, arguments: &[Argument<'_>]) -> Result<()> {
        check_arguments(kernel, arguments)?;
        if grid.blocks.contains(&0) || grid.threads.contains(&0) {
            return Ok(());
        }
        grid.check()?;
        let mut slots: SmallVec<[Slot; 16]> = arguments.iter().map(slot).collect();
        let extents: SmallVec<[Extent; 16]> = arguments.iter().enumerate().filter_map(extent).collect();
        if let Some(recording) = &mut self.recording {
            let work = RecordedWork::Launch { kernel: kernel.clone(), grid, slots: slots.to_vec() };
            recording.launches.push(Recorded { work, extents: extents.clone() });
        }
        let mut arguments = pointers(&mut slots);
        let launch = Launch {
            kernel: &kernel.signature().name,
            function: kernel.function,
            grid,
            arguments: &mut arguments,
            extents: &extents,
        };
        self.count(1);
        // SAFETY: the kernel stays loaded as long as the `Kernel` lives, devices keep what they loaded, and the arguments match
        // the parameters that the source declares.
        unsafe { self.queue.launch(launch) }
    }

    /// Calls a library of the device, with the tensors in the order documented at [`LibraryWork`]. Returns false if the library
    /// cannot do the work. A call counts as a launch.
    ///
    /// # Errors
    /// [`CudaError::Arguments`] if the tensors do not match the work; [`CudaError::Driver`].
    pub fn call(&mut self, work: &LibraryWork, arguments: &[Argument<'_>]) -> Result<bool> {
        work.check(arguments)?;
        let addresses: SmallVec<[u64; 6]> =
            arguments.iter().map(|argument| argument.tensor().map_or(0, DeviceTensor::start)).collect();
        let scratch = arguments.last().and_then(Argument::tensor).map_or(0, DeviceTensor::span);
        // SAFETY: the tensors were checked to match the work, and are within their memory.
        if !unsafe { self.queue.call(Call { work, addresses: &addresses, scratch }) }? {
            return Ok(false);
        }
        self.count(1);
        if let Some(recording) = &mut self.recording {
            let extents = arguments.iter().enumerate().filter_map(extent).collect();
            recording.launches.push(Recorded {
                work: RecordedWork::Call { work: Box::new(*work), addresses, scratch },
                extents,
            });
        }
        Ok(true)
    }

    /// Starts recording launches, which are executed as usual.
    pub fn record(&mut self) {
        self.recording = Some(Recording::default());
    }

    /// Stops recording, and returns the launches since [`Queue::record`].
    pub fn recorded(&mut self) -> Recording {
        self.recording.take().unwrap_or_default()
    }

    /// Creates a graph of recorded launches, all of them on this memory, which the graph keeps alive.
    ///
    /// # Errors
    /// [`CudaError::OutOfBounds`] if a launch uses other memory; [`CudaError::Driver`].
    pub fn graph(&mut self, recording: Recording, memory: Vec<Arc<Memory>>) -> Result<Graph> {
        Graph::new(&mut *self.queue, recording, memory)
    }

    /// Executes a graph, which must belong to this queue.
    ///
    /// # Errors
    /// As [`Queue::launch`].
    pub fn replay(&mut self, graph: &mut Graph) -> Result<()> {
        self.count(graph.launches());
        graph.launch()
    }

    fn count(&mut self, launches: u64) {
        self.launches += launches;
        self.device.0.launches.fetch_add(launches, Ordering::Relaxed);
    }

    /// Waits until all work is done.
    ///
    /// # Errors
    /// [`CudaError::Driver`], also for failures of work enqueued before.
    pub fn synchronize(&mut self) -> Result<()> {
        self.queue.synchronize()
    }
}

fn check_len(tensor: &DeviceTensor<'_>, len: usize) -> Result<()> {
    match tensor.span() == len {
        true => Ok(()),
        false => Err(CudaError::OutOfBounds { first: 0, end: len, room: tensor.span() }),
    }
}

fn check_arguments(kernel: &Kernel, arguments: &[Argument<'_>]) -> Result<()> {
    let signature = kernel.signature();
    let parameters = &signature.parameters;
    let fits = |(argument, parameter): (&Argument<'_>, &super::Parameter)| argument.fits(&parameter.kind);
    if parameters.len() == arguments.len() && arguments.iter().zip(parameters).all(fits) {
        return Ok(());
    }
    let wanted = parameters.iter().map(|parameter| format!("{} {}", parameter.kind, parameter.name));
    Err(CudaError::Arguments {
        unit: kernel.unit.to_string(),
        kernel: signature.name.clone(),
        wanted: format!("({})", wanted.collect::<Vec<_>>().join(", ")),
        found: format!("({})", arguments.iter().map(Argument::name).collect::<Vec<_>>().join(", ")),
    })
}

fn extent((position, argument): (usize, &Argument<'_>)) -> Option<Extent> {
    let (tensor, is_written) = match argument {
        Argument::Read(tensor) => (tensor, 0),
        Argument::Write(tensor) => (tensor, 1),
        _ => return None,
    };
    let start = tensor.start();
    Some(Extent { start, end: start + tensor.span() as u64, is_written, position: position as u32 })
}
