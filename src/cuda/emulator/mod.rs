//! A device that is none: kernels are compiled for the processor by the C++ compiler of the system, and run thread by thread.
//!
//! It is for learners, who can step through a kernel with a debugger, and for tests. The sources of kernels are compiled as they
//! are: `threads.h` and `language.h` stand ahead of them and say what the words of CUDA mean here, and `fibres.h`, which is
//! compiled once for all of them, runs their threads. With the [checker](Emulator::with_checker), threads run in random order,
//! and every access to memory is looked at.

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
use std::sync::{Mutex, PoisonError};

/// How the emulator works.
#[derive(Debug, Clone, Default)]
pub struct Emulator {
    cache: KernelCache,
    checker: Option<u32>,
    memory: Option<u64>,
}

impl Emulator {
    /// How it is asked for.
    pub const ID: &'static str = "cuda-emulator";

    /// One that keeps no compiled kernels.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Keeps compiled kernels.
    #[must_use]
    pub fn with_cache(self, cache: KernelCache) -> Self {
        Self { cache, ..self }
    }

    /// Looks at every access of every thread, and runs the threads of a block in an order that this number decides, which is not
    /// 0. What is found ends the launch with [`CudaError::Fault`].
    #[must_use]
    pub fn with_checker(self, seed: u32) -> Self {
        Self { checker: Some(seed.max(1)), ..self }
    }

    /// Has only so many bytes of memory.
    #[must_use]
    pub fn with_memory(self, bytes: u64) -> Self {
        Self { memory: Some(bytes), ..self }
    }

    /// The device.
    ///
    /// # Errors
    /// [`CudaError::NoDevice`] where there is no compiler, with the names that were tried.
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

/// What it claims to have: memory is had when it is asked for.
const MEMORY: u64 = 16 << 30;

/// The beginning of blocks of memory is a multiple of it, as on GPUs.
const ALIGNMENT: usize = 256;

#[derive(Debug)]
struct Emulated {
    info: Info,
    compiler: Compiler,
    seed: u32,
    /// Sizes by address.
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
        // SAFETY: the layout has a size that is not 0.
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
            // SAFETY: the address was in the list: it was allocated with this layout, and not let go before.
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

/// A queue that does everything at once.
#[derive(Debug)]
struct Immediate {
    seed: u32,
}

impl DriverQueue for Immediate {
    unsafe fn upload(&mut self, to: u64, from: &[u8]) -> Result<()> {
        // SAFETY: by contract there are so many bytes, and nobody else knows them.
        unsafe { std::ptr::copy_nonoverlapping(from.as_ptr(), to as *mut u8, from.len()) };
        Ok(())
    }

    unsafe fn download(&mut self, to: &mut [u8], from: u64) -> Result<()> {
        // SAFETY: as above.
        unsafe { std::ptr::copy_nonoverlapping(from as *const u8, to.as_mut_ptr(), to.len()) };
        Ok(())
    }

    unsafe fn launch(&mut self, launch: Launch<'_>) -> Result<()> {
        // SAFETY: by contract the function is one of a library that is loaded, for these arguments.
        unsafe { library::launch(launch, self.seed) }
    }

    unsafe fn graph(&mut self, nodes: &mut [Node<'_>]) -> Result<Box<dyn DriverGraph>> {
        Ok(Box::new(graph::Copied::new(nodes, self.seed)?))
    }

    fn synchronize(&mut self) -> Result<()> {
        Ok(())
    }
}
