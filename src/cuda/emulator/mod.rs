//! An emulated device: the system's C++ compiler compiles kernels for the CPU, which runs them thread by thread.
//!
//! It is meant for learning, since a debugger can step through a kernel, and for tests. The sources of kernels are compiled
//! unmodified: `threads.h` and `language.h` are included before them and define the keywords of CUDA, and `fibres.h`, which is
//! compiled once for all kernels, runs the threads. With the [checker](Emulator::with_checker), threads run in random order,
//! and every memory access is checked.

mod compiler;
mod graph;
mod library;

use super::device::{
    CudaError, Device, Driver, DriverGraph, DriverQueue, Info, KernelCache, Launch, Libraries, Module, Node,
    Result, Unit,
};
use compiler::Compiler;
use library::Library;
use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::collections::BTreeMap;
use std::ptr::NonNull;
use std::sync::{Mutex, PoisonError};

/// The configuration of the emulator.
#[derive(Debug, Clone, Default)]
pub struct Emulator {
    cache: KernelCache,
    checker: Option<u32>,
    memory: Option<u64>,
}

impl Emulator {
    /// The ID of the device.
    pub(crate) const ID: &'static str = "cuda-emulator";

    /// An emulator without a kernel cache.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the cache of compiled kernels.
    #[must_use]
    pub fn with_cache(self, cache: KernelCache) -> Self {
        Self { cache, ..self }
    }

    /// Checks every access of every thread, and runs the threads of a block in a random order with this seed (0 counts as 1).
    /// An invalid access ends the launch with [`CudaError::Fault`].
    #[must_use]
    pub fn with_checker(self, seed: u32) -> Self {
        Self { checker: Some(seed.max(1)), ..self }
    }

    /// Sets the size of the device memory in bytes.
    #[must_use]
    pub fn with_memory(self, bytes: u64) -> Self {
        Self { memory: Some(bytes), ..self }
    }

    /// Opens the device.
    ///
    /// # Errors
    /// [`CudaError::NoDevice`] with the names that were tried, if there is no compiler.
    pub fn open(self) -> Result<Device> {
        let compiler = Compiler::find(self.checker.is_some())?;
        let info = Info {
            id: Self::ID.to_owned(),
            name: "emulator on the CPU".to_owned(),
            details: compiler.name().to_owned(),
            target: compiler.target(),
            memory: self.memory.unwrap_or(MEMORY),
            multiprocessors: 1,
            shared_memory: 96 * 1024,
            has_tensor_cores: true,
            libraries: Libraries::default(),
        };
        let seed = self.checker.unwrap_or(0);
        Ok(Device::new(Box::new(Emulated { info, compiler, seed, blocks: Mutex::default() }), self.cache))
    }
}

/// The default size of the device memory in bytes. Memory is allocated only on request.
const MEMORY: u64 = 16 << 30;

/// The alignment of allocations in bytes, as on GPUs.
const ALIGNMENT: usize = 256;

#[derive(Debug)]
struct Emulated {
    info: Info,
    compiler: Compiler,
    seed: u32,
    /// The sizes of blocks by address.
    blocks: Mutex<BTreeMap<u64, usize>>,
}

impl Emulated {
    fn out_of_memory(&self, wanted: usize) -> CudaError {
        CudaError::OutOfMemory { device: self.info.id.clone(), wanted, taken: 0 }
    }
}

impl Driver for Emulated {
    fn info(&self) -> &Info {
        &self.info
    }

    fn allocate(&self, bytes: usize) -> Result<u64> {
        let mut blocks = self.blocks.lock().unwrap_or_else(PoisonError::into_inner);
        let taken: usize = blocks.values().sum();
        let total = taken.saturating_add(bytes) as u64;
        let layout =
            Layout::from_size_align(bytes, ALIGNMENT).ok().filter(|_| bytes > 0 && total <= self.info.memory);
        let layout = layout.ok_or_else(|| self.out_of_memory(bytes))?;
        // SAFETY: the layout has a non-zero size.
        let start = unsafe { alloc_zeroed(layout) };
        if start.is_null() {
            return Err(self.out_of_memory(bytes));
        }
        blocks.insert(start as u64, bytes);
        Ok(start as u64)
    }

    unsafe fn free(&self, address: u64) {
        let mut blocks = self.blocks.lock().unwrap_or_else(PoisonError::into_inner);
        let layout = blocks.remove(&address).and_then(|bytes| Layout::from_size_align(bytes, ALIGNMENT).ok());
        if let Some(layout) = layout {
            // SAFETY: the address was in the map: it was allocated with this layout, and not freed since.
            unsafe { dealloc(address as *mut u8, layout) }
        }
    }

    fn allocate_pinned(&self, bytes: usize) -> Result<NonNull<u8>> {
        let layout = Layout::from_size_align(bytes, ALIGNMENT).ok().filter(|_| bytes > 0);
        let layout = layout.ok_or_else(|| self.out_of_memory(bytes))?;
        // SAFETY: the layout has a non-zero size.
        NonNull::new(unsafe { alloc_zeroed(layout) }).ok_or_else(|| self.out_of_memory(bytes))
    }

    unsafe fn free_pinned(&self, address: usize, bytes: usize) {
        if let Ok(layout) = Layout::from_size_align(bytes, ALIGNMENT) {
            // SAFETY: by contract it was allocated with this layout, and not freed since. All work has been done.
            unsafe { dealloc(address as *mut u8, layout) }
        }
    }

    fn compile(&self, unit: &Unit) -> Result<Vec<u8>> {
        self.compiler.compile(unit)
    }

    fn load(&self, unit: &Unit, image: &[u8]) -> Result<Box<dyn Module>> {
        Ok(Box::new(Library::load(unit, image)?))
    }

    fn queue(&self) -> Result<Box<dyn DriverQueue>> {
        Ok(Box::new(Immediate { seed: self.seed }))
    }
}

/// A queue that executes everything immediately.
#[derive(Debug)]
struct Immediate {
    seed: u32,
}

impl DriverQueue for Immediate {
    unsafe fn upload(&mut self, to: u64, from: &[u8]) -> Result<()> {
        // SAFETY: by contract there are that many bytes, and nothing else refers to them.
        unsafe { std::ptr::copy_nonoverlapping(from.as_ptr(), to as *mut u8, from.len()) };
        Ok(())
    }

    unsafe fn download(&mut self, to: &mut [u8], from: u64) -> Result<()> {
        // SAFETY: as above.
        unsafe { std::ptr::copy_nonoverlapping(from as *const u8, to.as_mut_ptr(), to.len()) };
        Ok(())
    }

    unsafe fn launch(&mut self, launch: Launch<'_>) -> Result<()> {
        // SAFETY: by contract the function belongs to a loaded library, and takes these arguments.
        unsafe { library::launch(launch, self.seed) }
    }

    unsafe fn graph(&mut self, nodes: &mut [Node<'_>]) -> Result<Box<dyn DriverGraph>> {
        Ok(Box::new(graph::EmulatedGraph::new(nodes, self.seed)?))
    }

    fn synchronize(&mut self) -> Result<()> {
        Ok(())
    }
}
