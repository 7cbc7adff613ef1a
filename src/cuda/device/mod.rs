//! One interface to GPUs and the emulator: memory, kernels, and queues of work.
//!
//! [`Device`] is the safe interface of a driver. The arguments of a launch are checked against the parameters that the kernel's
//! source declares; staying within the tensors is the kernel's responsibility, as with any code that is called.

mod cache;
mod error;
mod graph;
mod library;
mod memory;
mod pinned;
mod queue;
mod tensor;
mod unit;

pub use cache::KernelCache;
pub use error::CudaError;
pub(crate) use error::Result;
#[doc(hidden)]
pub use graph::{Graph, Recording};
pub(crate) use library::Call;
#[doc(hidden)]
pub use library::{
    Activation, ConvolutionWork, LibraryWork, MatrixLayout, ProductWork, SignalLayout, TransformKind,
    TransformWork,
};
pub use library::{Libraries, Version};
pub use memory::Memory;
pub use queue::{Argument, Grid, KernelShape, KernelStrides, Queue};
pub use tensor::DeviceTensor;
pub use unit::Unit;
#[doc(hidden)]
pub use unit::{Kind, Parameter, Signature};

use std::collections::BTreeMap;
use std::ffi::c_void;
use std::fmt;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Properties of a device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Info {
    /// Its ID: `cuda:0`, `cuda-emulator`.
    pub id: String,
    /// Its name.
    pub name: String,
    /// Architecture, driver and compiler.
    pub details: String,
    /// What compiled kernels depend on, in addition to their source.
    pub target: String,
    /// Its memory in bytes.
    pub memory: u64,
    /// The number of multiprocessors.
    pub multiprocessors: u32,
    /// The maximum shared memory of a block, in bytes.
    pub shared_memory: u32,
    /// Whether it has tensor cores that multiply f16, bf16, i8 and TF32, which requires compute capability 8.0.
    pub has_tensor_cores: bool,
    /// The libraries that can compute instead of kernels.
    pub libraries: Libraries,
}

/// A range of memory that a launch may access.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub(crate) struct Extent {
    pub(crate) start: u64,
    pub(crate) end: u64,
    pub(crate) is_written: u32,
    /// The position of its tensor among the arguments.
    pub(crate) position: u32,
}

/// A launch, for a driver.
#[derive(Debug)]
#[cfg_attr(not(feature = "cuda-emulator"), allow(dead_code, reason = "only the emulator checks accesses"))]
pub(crate) struct Launch<'a> {
    pub(crate) kernel: &'a str,
    pub(crate) function: u64,
    pub(crate) grid: Grid,
    /// Pointers to the arguments.
    pub(crate) arguments: &'a mut [*mut c_void],
    pub(crate) extents: &'a [Extent],
}

/// A launch or library call in a graph.
#[derive(Debug)]
pub(crate) struct Node<'a> {
    pub(crate) work: Work<'a>,
    /// The positions of the nodes that must finish first; all precede this one.
    pub(crate) after: &'a [usize],
}

/// The work of a graph's node.
#[derive(Debug)]
pub(crate) enum Work<'a> {
    Launch(Launch<'a>),
    #[cfg_attr(not(feature = "cuda"), allow(dead_code, reason = "the emulator has no libraries"))]
    Call(Call<'a>),
}

/// The implementation of a device: hardware or emulator.
pub(crate) trait Driver: fmt::Debug + Send + Sync {
    fn info(&self) -> &Info;

    /// Allocates `bytes` bytes, at least one.
    fn allocate(&self, bytes: usize) -> Result<u64>;

    /// # Safety
    /// The address must have been returned by [`Driver::allocate`], and not freed since.
    unsafe fn free(&self, address: u64);

    /// Allocates `bytes` bytes, at least one, of the CPU's memory that queues copy from and to directly. The contents are
    /// arbitrary, and aligned for every element type.
    fn allocate_pinned(&self, bytes: usize) -> Result<NonNull<u8>>;

    /// Frees such memory once all work enqueued so far is done.
    ///
    /// # Safety
    /// The address must be that of memory of this size returned by [`Driver::allocate_pinned`], and not freed since.
    unsafe fn free_pinned(&self, address: usize, bytes: usize);

    /// Compiles a source to an image for [`Driver::load`].
    fn compile(&self, unit: &Unit) -> Result<Vec<u8>>;

    fn load(&self, unit: &Unit, image: &[u8]) -> Result<Box<dyn Module>>;

    fn queue(&self) -> Result<Box<dyn DriverQueue>>;
}

/// Compiled kernels.
pub(crate) trait Module: fmt::Debug + Send + Sync {
    /// The kernel's handle, for [`Launch::function`].
    fn function(&self, kernel: &str) -> Option<u64>;
}

/// A queue of work, executed in order.
pub(crate) trait DriverQueue: fmt::Debug + Send {
    /// # Safety
    /// The device memory must have that many bytes.
    unsafe fn upload(&mut self, to: u64, from: &[u8]) -> Result<()>;

    /// Returns when the bytes have arrived.
    ///
    /// # Safety
    /// The device memory must have that many bytes.
    unsafe fn download(&mut self, to: &mut [u8], from: u64) -> Result<()>;

    /// As [`DriverQueue::upload`], from memory of [`Driver::allocate_pinned`]; it may be read until the queue has been
    /// synchronised.
    ///
    /// # Safety
    /// As for [`DriverQueue::upload`].
    unsafe fn upload_pinned(&mut self, to: u64, from: &[u8]) -> Result<()> {
        // SAFETY: the caller's promise.
        unsafe { self.upload(to, from) }
    }

    /// As [`DriverQueue::download`], to memory of [`Driver::allocate_pinned`].
    ///
    /// # Safety
    /// As for [`DriverQueue::download`].
    unsafe fn download_pinned(&mut self, to: &mut [u8], from: u64) -> Result<()> {
        // SAFETY: the caller's promise.
        unsafe { self.download(to, from) }
    }

    /// # Safety
    /// The function must belong to a module that is still loaded, and the arguments must match its parameters, with tensors
    /// that live until the work is done.
    unsafe fn launch(&mut self, launch: Launch<'_>) -> Result<()>;

    /// Calls a library; returns false if the library cannot do the work.
    ///
    /// # Safety
    /// The addresses must be those of the work's tensors, which live until it is done.
    unsafe fn call(&mut self, call: Call<'_>) -> Result<bool> {
        let _ = call;
        Ok(false)
    }

    /// Creates a graph of launches and calls, in an order in which each follows those that it waits for.
    ///
    /// # Safety
    /// As [`DriverQueue::launch`] and [`DriverQueue::call`] for each of them, for as long as the graph lives.
    unsafe fn graph(&mut self, nodes: &mut [Node<'_>]) -> Result<Box<dyn DriverGraph>>;

    /// Waits until all work is done.
    fn synchronize(&mut self) -> Result<()>;
}

/// Launches that a queue submits as a whole.
pub(crate) trait DriverGraph: fmt::Debug + Send {
    /// Enqueues all launches in the queue that created the graph.
    ///
    /// # Safety
    /// The memory that the launches access must live until the work is done.
    unsafe fn launch(&mut self) -> Result<()>;
}

/// A GPU, or the emulator. Clones are handles to the same device.
#[derive(Debug, Clone)]
pub struct Device(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    driver: Box<dyn Driver>,
    cache: KernelCache,
    modules: Mutex<BTreeMap<Unit, Arc<ModuleSlot>>>,
    /// The sizes of blocks of page-locked memory by address.
    pinned: Mutex<BTreeMap<usize, usize>>,
    /// Allocated bytes and blocks.
    allocated_bytes: AtomicUsize,
    blocks: AtomicUsize,
    launches: AtomicU64,
}

/// The slot of a source, empty until the source is compiled and loaded.
type ModuleSlot = Mutex<Option<Arc<Loaded>>>;

/// A source that has been compiled and loaded.
#[derive(Debug)]
struct Loaded {
    signatures: Vec<Signature>,
    module: Box<dyn Module>,
}

/// A kernel that can be launched.
#[derive(Debug, Clone)]
pub struct Kernel {
    loaded: Arc<Loaded>,
    position: usize,
    function: u64,
    unit: Arc<str>,
}

impl Kernel {
    /// The kernel's name and parameters.
    pub(crate) fn signature(&self) -> &Signature {
        &self.loaded.signatures[self.position]
    }
}

impl Device {
    pub(crate) fn new(driver: Box<dyn Driver>, cache: KernelCache) -> Self {
        Self(Arc::new(Inner {
            driver,
            cache,
            modules: Mutex::default(),
            pinned: Mutex::default(),
            allocated_bytes: AtomicUsize::new(0),
            blocks: AtomicUsize::new(0),
            launches: AtomicU64::new(0),
        }))
    }

    /// Properties of the device.
    pub fn info(&self) -> &Info {
        self.0.driver.info()
    }

    /// Allocates `bytes` bytes of memory, with arbitrary contents.
    ///
    /// # Errors
    /// [`CudaError::OutOfMemory`] if the device has too little free memory.
    pub fn allocate(&self, bytes: usize) -> Result<Memory> {
        Memory::new(self, bytes)
    }

    /// The bytes of memory that this program has allocated on the device.
    pub fn allocated(&self) -> usize {
        self.0.allocated_bytes.load(Ordering::Relaxed)
    }

    /// The number of blocks of memory that this program has allocated on the device.
    pub fn allocations(&self) -> usize {
        self.0.blocks.load(Ordering::Relaxed)
    }

    /// The number of kernels launched so far.
    pub fn launches(&self) -> u64 {
        self.0.launches.load(Ordering::Relaxed)
    }

    /// Creates a queue.
    ///
    /// # Errors
    /// [`CudaError::Driver`].
    pub fn queue(&self) -> Result<Queue> {
        Ok(Queue::new(self.clone(), self.0.driver.queue()?))
    }

    /// Returns a kernel of a source. The source is compiled unless this program has done so, or the [cache](KernelCache) holds
    /// it.
    ///
    /// # Errors
    /// [`CudaError::Compile`], [`CudaError::NoKernel`].
    pub fn kernel(&self, unit: &Unit, name: &str) -> Result<Kernel> {
        let loaded = self.loaded(unit)?;
        let known = || loaded.signatures.iter().map(|signature| signature.name.clone()).collect();
        let position = loaded.signatures.iter().position(|signature| signature.name == name);
        let function = position.and_then(|position| Some((position, loaded.module.function(name)?)));
        let (position, function) = function.ok_or_else(|| CudaError::NoKernel {
            unit: unit.name(),
            kernel: name.to_owned(),
            known: known(),
        })?;
        Ok(Kernel { position, function, unit: unit.name().into(), loaded })
    }

    fn loaded(&self, unit: &Unit) -> Result<Arc<Loaded>> {
        let slot = {
            let mut modules = self.0.modules.lock().unwrap_or_else(PoisonError::into_inner);
            match modules.get(unit) {
                Some(known) => Arc::clone(known),
                None => Arc::clone(modules.entry(unit.clone()).or_default()),
            }
        };
        // Held while compiling, so that concurrent requests for the same source wait. Each source has its own slot.
        let mut slot = slot.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = &*slot {
            return Ok(Arc::clone(known));
        }
        let signatures = unit.signatures()?;
        let module = self.0.cache.load(&*self.0.driver, unit)?;
        let loaded = Arc::new(Loaded { signatures, module });
        *slot = Some(Arc::clone(&loaded));
        Ok(loaded)
    }
}
