//! A GPU behind one interface: memory, kernels, and queues of work. The emulator is another one.
//!
//! [`Device`] is the safe face of a driver. What is launched is checked against what the source of the kernel declares;
//! that a kernel stays within the tensors that it is given is the kernel's own affair, as it is with any code that is called.

mod cache;
mod error;
mod graph;
mod library;
mod memory;
mod queue;
mod tensor;
mod unit;

pub use cache::KernelCache;
pub use error::CudaError;
pub(crate) use error::Result;
pub use graph::{Graph, Recording};
pub(crate) use library::Call;
pub use library::{
    Activation, ConvolutionWork, Libraries, LibraryWork, MatrixPlace, ProductWork, SignalPlace,
    TransformWork, Transformed, Version,
};
pub use memory::Memory;
pub use queue::{Argument, Grid, KernelShape, KernelStrides, Queue};
pub use tensor::DeviceTensor;
pub use unit::{Kind, Parameter, Signature, Unit};

use std::collections::BTreeMap;
use std::ffi::c_void;
use std::fmt;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// What is known of a device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Info {
    /// How it is asked for: `cuda:0`, `cuda-emulator`.
    pub id: String,
    /// Its name.
    pub name: String,
    /// Architecture, driver and compiler.
    pub details: String,
    /// What compiled kernels depend on beside their source.
    pub target: String,
    /// Bytes of memory.
    pub memory: u64,
    /// How many multiprocessors it has.
    pub multiprocessors: u32,
    /// The bytes that the threads of a block may share.
    pub shared_memory: u32,
    /// Whether its tensor cores multiply f16, bf16, i8 and TF32: those of compute capability 8.0 do.
    pub has_tensor_cores: bool,
    /// The libraries that compute in the place of kernels.
    pub libraries: Libraries,
}

/// Memory that a launch may touch.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub(crate) struct Extent {
    pub(crate) start: u64,
    pub(crate) end: u64,
    pub(crate) is_written: u32,
    /// The position among the arguments.
    pub(crate) position: u32,
}

/// One launch, for a driver.
#[derive(Debug)]
#[cfg_attr(not(feature = "cuda-emulator"), allow(dead_code, reason = "only the emulator looks at accesses"))]
pub(crate) struct Launch<'a> {
    pub(crate) kernel: &'a str,
    pub(crate) function: u64,
    pub(crate) grid: Grid,
    /// Pointers to the arguments.
    pub(crate) arguments: &'a mut [*mut c_void],
    pub(crate) extents: &'a [Extent],
}

/// A launch, or a call of a library, that waits for others.
#[derive(Debug)]
pub(crate) struct Node<'a> {
    pub(crate) work: Work<'a>,
    /// The positions of those that must be done, which stand before it.
    pub(crate) after: &'a [usize],
}

/// What a node of a graph does.
#[derive(Debug)]
pub(crate) enum Work<'a> {
    Launch(Launch<'a>),
    #[cfg_attr(not(feature = "cuda"), allow(dead_code, reason = "the emulator has no libraries"))]
    Call(Call<'a>),
}

/// What makes a device of some hardware, or of none.
pub(crate) trait Driver: fmt::Debug + Send + Sync {
    fn info(&self) -> &Info;

    /// Memory for so many bytes, more than none.
    fn allocate(&self, bytes: usize) -> Result<u64>;

    /// # Safety
    /// The address must be one that [`Driver::allocate`] returned, and that was not let go before.
    unsafe fn free(&self, address: u64);

    /// Compiles a source to what [`Driver::load`] takes.
    fn compile(&self, unit: &Unit) -> Result<Vec<u8>>;

    fn load(&self, unit: &Unit, image: &[u8]) -> Result<Box<dyn Module>>;

    fn queue(&self) -> Result<Box<dyn DriverQueue>>;
}

/// Compiled kernels.
pub(crate) trait Module: fmt::Debug + Send + Sync {
    /// What [`Launch::function`] takes.
    fn function(&self, kernel: &str) -> Option<u64>;
}

/// Work that is done in order.
pub(crate) trait DriverQueue: fmt::Debug + Send {
    /// # Safety
    /// There must be so many bytes of device memory.
    unsafe fn upload(&mut self, to: u64, from: &[u8]) -> Result<()>;

    /// Returns when the bytes are there.
    ///
    /// # Safety
    /// There must be so many bytes of device memory.
    unsafe fn download(&mut self, to: &mut [u8], from: u64) -> Result<()>;

    /// # Safety
    /// The function must be one of a module that is still loaded, and the arguments those that it takes, for tensors that
    /// stay until the work is done.
    unsafe fn launch(&mut self, launch: Launch<'_>) -> Result<()>;

    /// Lets a library do some work; whether it knows how.
    ///
    /// # Safety
    /// The addresses must be those of tensors that the work needs, which stay until it is done.
    unsafe fn call(&mut self, call: Call<'_>) -> Result<bool> {
        let _ = call;
        Ok(false)
    }

    /// Makes a graph of launches and calls, each of which stands behind those that it waits for.
    ///
    /// # Safety
    /// As of [`DriverQueue::launch`] and [`DriverQueue::call`] for each of them, for as long as there is the graph.
    unsafe fn graph(&mut self, nodes: &mut [Node<'_>]) -> Result<Box<dyn DriverGraph>>;

    /// Waits until all that was asked for is done.
    fn synchronize(&mut self) -> Result<()>;
}

/// Launches that a queue does as a whole.
pub(crate) trait DriverGraph: fmt::Debug + Send {
    /// Puts all of them into the queue that made the graph.
    ///
    /// # Safety
    /// What the launches read and write must be there until the work is done.
    unsafe fn launch(&mut self) -> Result<()>;
}

/// A GPU, or what stands for one. Clones are the same device.
#[derive(Debug, Clone)]
pub struct Device(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    driver: Box<dyn Driver>,
    cache: KernelCache,
    modules: Mutex<BTreeMap<Unit, Arc<Place>>>,
    /// Bytes and blocks that are taken.
    taken: AtomicUsize,
    blocks: AtomicUsize,
    launches: AtomicU64,
}

/// Where a source is once it was compiled and loaded.
type Place = Mutex<Option<Arc<Loaded>>>;

/// A source that was compiled and loaded.
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
    /// What it takes.
    pub fn signature(&self) -> &Signature {
        &self.loaded.signatures[self.position]
    }
}

impl Device {
    pub(crate) fn new(driver: Box<dyn Driver>, cache: KernelCache) -> Self {
        Self(Arc::new(Inner {
            driver,
            cache,
            modules: Mutex::default(),
            taken: AtomicUsize::new(0),
            blocks: AtomicUsize::new(0),
            launches: AtomicU64::new(0),
        }))
    }

    /// What is known of it.
    pub fn info(&self) -> &Info {
        self.0.driver.info()
    }

    /// Memory of so many bytes. What it holds is not known.
    ///
    /// # Errors
    /// [`CudaError::OutOfMemory`].
    pub fn allocate(&self, bytes: usize) -> Result<Memory> {
        Memory::new(self, bytes)
    }

    /// Bytes of memory that this program has from it.
    pub fn allocated(&self) -> usize {
        self.0.taken.load(Ordering::Relaxed)
    }

    /// How many blocks of memory these are.
    pub fn allocations(&self) -> usize {
        self.0.blocks.load(Ordering::Relaxed)
    }

    /// How many kernels were launched.
    pub fn launches(&self) -> u64 {
        self.0.launches.load(Ordering::Relaxed)
    }

    /// A queue of its own.
    ///
    /// # Errors
    /// [`CudaError::Driver`].
    pub fn queue(&self) -> Result<Queue> {
        Ok(Queue::new(self.clone(), self.0.driver.queue()?))
    }

    /// A kernel of a source, which is compiled where that was not done before: by this program, or by another that kept it in
    /// the same [cache](KernelCache).
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
        let place = {
            let mut modules = self.0.modules.lock().unwrap_or_else(PoisonError::into_inner);
            match modules.get(unit) {
                Some(known) => Arc::clone(known),
                None => Arc::clone(modules.entry(unit.clone()).or_default()),
            }
        };
        // Held while compiling: others that want the same source would only do it twice. Other sources have other places.
        let mut place = place.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = &*place {
            return Ok(Arc::clone(known));
        }
        let signatures = unit.signatures()?;
        let module = self.0.cache.load(&*self.0.driver, unit)?;
        let loaded = Arc::new(Loaded { signatures, module });
        *place = Some(Arc::clone(&loaded));
        Ok(loaded)
    }
}
