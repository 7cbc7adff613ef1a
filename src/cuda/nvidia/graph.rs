//! Launches that are handed to the driver as a whole.

use super::queue::Stream;
use super::refused;
use crate::cuda::device::{DriverGraph, Node, Result};
use cudarc::driver::result;
use cudarc::driver::sys::{
    self, CUDA_KERNEL_NODE_PARAMS, CUfunction, CUgraph, CUgraphExec, CUgraphInstantiate_flags, CUgraphNode,
};
use std::ptr::null_mut;
use std::sync::Arc;

/// A graph that can be launched.
#[derive(Debug)]
pub(super) struct Instantiated {
    stream: Arc<Stream>,
    handle: CUgraphExec,
}

// SAFETY: the handle is used by one thread at a time, which the driver allows.
unsafe impl Send for Instantiated {}

/// A description of a graph, which is not needed once it was instantiated.
struct Description(CUgraph);

impl Description {
    fn new() -> Result<Self> {
        let mut handle = null_mut();
        // SAFETY: the handle outlives the call.
        unsafe { sys::cuGraphCreate(&raw mut handle, 0) }.result().map_err(refused("cuGraphCreate"))?;
        Ok(Self(handle))
    }

    /// # Safety
    /// The launch must be one that the driver takes: see [`Node`].
    unsafe fn add(&self, node: &mut Node<'_>, added: &[CUgraphNode]) -> Result<CUgraphNode> {
        let after: Vec<CUgraphNode> = node.after.iter().filter_map(|&at| added.get(at).copied()).collect();
        let launch = &mut node.launch;
        let [blocks, threads] = [launch.grid.blocks, launch.grid.threads];
        let parameters = CUDA_KERNEL_NODE_PARAMS {
            func: launch.function as CUfunction,
            gridDimX: blocks[0],
            gridDimY: blocks[1],
            gridDimZ: blocks[2],
            blockDimX: threads[0],
            blockDimY: threads[1],
            blockDimZ: threads[2],
            sharedMemBytes: launch.grid.shared,
            kernelParams: launch.arguments.as_mut_ptr(),
            extra: null_mut(),
            kern: null_mut(),
            ctx: null_mut(),
        };
        let mut handle = null_mut();
        // SAFETY: the graph is there, the nodes are its own, and the driver copies arguments when it is called.
        unsafe {
            sys::cuGraphAddKernelNode_v2(
                &raw mut handle,
                self.0,
                after.as_ptr(),
                after.len(),
                &raw const parameters,
            )
        }
        .result()
        .map_err(refused("cuGraphAddKernelNode"))?;
        Ok(handle)
    }
}

impl Drop for Description {
    fn drop(&mut self) {
        // SAFETY: it was created above, and nobody else has it.
        let _ = unsafe { result::graph::destroy(self.0) };
    }
}

impl Instantiated {
    /// # Safety
    /// As for launching each of them.
    pub(super) unsafe fn new(stream: &Arc<Stream>, nodes: &mut [Node<'_>]) -> Result<Self> {
        let description = Description::new()?;
        let mut added = Vec::with_capacity(nodes.len());
        for node in nodes {
            // SAFETY: by contract.
            added.push(unsafe { description.add(node, &added) }?);
        }
        // SAFETY: the graph is whole.
        let handle = unsafe { result::graph::instantiate(description.0, CUgraphInstantiate_flags(0)) };
        let handle = handle.map_err(refused("cuGraphInstantiate"))?;
        let graph = Self { stream: Arc::clone(stream), handle };
        // SAFETY: both are there. The first launch is spared this work.
        unsafe { result::graph::upload(graph.handle, stream.handle()) }.map_err(refused("cuGraphUpload"))?;
        Ok(graph)
    }
}

impl DriverGraph for Instantiated {
    unsafe fn launch(&mut self) -> Result<()> {
        self.stream.primary.enter()?;
        // SAFETY: both are there; by contract what the nodes read and write is, too.
        unsafe { result::graph::launch(self.handle, self.stream.handle()) }.map_err(refused("cuGraphLaunch"))
    }
}

impl Drop for Instantiated {
    fn drop(&mut self) {
        let _ = self.stream.synchronize();
        // SAFETY: no launch of it is left, and nobody else has it.
        let _ = unsafe { result::graph::exec_destroy(self.handle) };
    }
}
