//! Graphs: launches that are submitted to the driver as a whole.

use super::calls::{LibraryCalls, Prepared};
use super::driver_error;
use super::queue::Stream;
use crate::cuda::device::{Call, CudaError, DriverGraph, Launch, Node, Result, Work};
use cudarc::driver::result;
use cudarc::driver::sys::{
    self, CUDA_KERNEL_NODE_PARAMS, CUfunction, CUgraph, CUgraphExec, CUgraphInstantiate_flags, CUgraphNode,
    CUstreamCaptureMode,
};
use std::ptr::null_mut;
use std::sync::Arc;

/// A graph that can be launched.
#[derive(Debug)]
pub(super) struct Instantiated {
    stream: Arc<Stream>,
    handle: CUgraphExec,
    /// Prepared library work, which the graph may need as long as it lives.
    _prepared: Vec<Box<dyn Prepared>>,
}

// SAFETY: the handle is used by one thread at a time, which the driver allows.
unsafe impl Send for Instantiated {}

/// The description of a graph, which is not needed after instantiation.
struct Description(CUgraph);

impl Description {
    fn new() -> Result<Self> {
        let mut handle = null_mut();
        // SAFETY: the handle outlives the call.
        unsafe { sys::cuGraphCreate(&raw mut handle, 0) }.result().map_err(driver_error("cuGraphCreate"))?;
        Ok(Self(handle))
    }

    /// # Safety
    /// The launch must be valid for the driver: see [`Node`].
    unsafe fn add_launch(&self, launch: &mut Launch<'_>, after: &[CUgraphNode]) -> Result<CUgraphNode> {
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
        // SAFETY: the graph is valid, the nodes are its own, and the driver copies the arguments during the call.
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
        .map_err(driver_error("cuGraphAddKernelNode"))?;
        Ok(handle)
    }

    /// Adds another graph as a child, which is copied.
    fn add_graph(&self, graph: &Description, after: &[CUgraphNode]) -> Result<CUgraphNode> {
        let mut handle = null_mut();
        // SAFETY: both graphs are valid, and the nodes belong to this one.
        unsafe {
            sys::cuGraphAddChildGraphNode(&raw mut handle, self.0, after.as_ptr(), after.len(), graph.0)
        }
        .result()
        .map_err(driver_error("cuGraphAddChildGraphNode"))?;
        Ok(handle)
    }

    /// Captures the work of a library in a stream as a graph.
    ///
    /// # Safety
    /// As [`Prepared::run`].
    unsafe fn capture(stream: &Stream, prepared: &dyn Prepared, call: Call<'_>) -> Result<Self> {
        let mode = CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_RELAXED;
        let _captures = stream.primary.while_capturing();
        // SAFETY: the stream is valid, and nothing else uses it.
        unsafe { result::stream::begin_capture(stream.handle(), mode) }
            .map_err(driver_error("cuStreamBeginCapture"))?;
        // SAFETY: by contract.
        let done = unsafe { prepared.run(call, stream.handle()) };
        // SAFETY: the capture was begun above. It must end even after an error.
        let captured = unsafe { result::stream::end_capture(stream.handle()) };
        let captured = captured.map_err(driver_error("cuStreamEndCapture")).map(Self);
        done.and(captured)
    }
}

impl Drop for Description {
    fn drop(&mut self) {
        // SAFETY: it was created above, and this is its only owner.
        let _ = unsafe { result::graph::destroy(self.0) };
    }
}

/// A graph under construction.
struct Builder<'a> {
    description: Description,
    calls: &'a mut LibraryCalls,
    prepared: Vec<Box<dyn Prepared>>,
}

impl Builder<'_> {
    /// # Safety
    /// As for launching the node.
    unsafe fn add(
        &mut self,
        stream: &Stream,
        node: &mut Node<'_>,
        added: &[CUgraphNode],
    ) -> Result<CUgraphNode> {
        let after: Vec<CUgraphNode> = node.after.iter().filter_map(|&at| added.get(at).copied()).collect();
        match &mut node.work {
            // SAFETY: by contract.
            Work::Launch(launch) => unsafe { self.description.add_launch(launch, &after) },
            Work::Call(call) => {
                let prepared = self.calls.prepare(call).ok_or_else(|| CudaError::Driver {
                    call: call.work.library().to_owned(),
                    reason: "it can no longer do work that it did while recording".to_owned(),
                })?;
                let capture_stream = self.calls.capture_stream(&stream.primary)?;
                // SAFETY: by contract.
                let graph = unsafe { Description::capture(capture_stream, &*prepared, *call) }?;
                self.prepared.push(prepared);
                self.description.add_graph(&graph, &after)
            }
        }
    }
}

impl Instantiated {
    /// # Safety
    /// As for launching each node.
    pub(super) unsafe fn new(
        stream: &Arc<Stream>,
        calls: &mut LibraryCalls,
        nodes: &mut [Node<'_>],
    ) -> Result<Self> {
        let mut builder = Builder { description: Description::new()?, calls, prepared: Vec::new() };
        let mut added = Vec::with_capacity(nodes.len());
        for node in nodes {
            // SAFETY: by contract.
            added.push(unsafe { builder.add(stream, node, &added) }?);
        }
        let Builder { description, prepared, .. } = builder;
        // SAFETY: the graph is complete.
        let handle = unsafe { result::graph::instantiate(description.0, CUgraphInstantiate_flags(0)) };
        let handle = handle.map_err(driver_error("cuGraphInstantiate"))?;
        let graph = Self { stream: Arc::clone(stream), handle, _prepared: prepared };
        // SAFETY: both are valid. Uploading now makes the first launch faster.
        unsafe { result::graph::upload(graph.handle, stream.handle()) }
            .map_err(driver_error("cuGraphUpload"))?;
        Ok(graph)
    }
}

impl DriverGraph for Instantiated {
    unsafe fn launch(&mut self) -> Result<()> {
        self.stream.primary.make_current()?;
        // SAFETY: both are valid; by contract so is the memory that the nodes access.
        unsafe { result::graph::launch(self.handle, self.stream.handle()) }
            .map_err(driver_error("cuGraphLaunch"))
    }
}

impl Drop for Instantiated {
    fn drop(&mut self) {
        let _ = self.stream.synchronize();
        // SAFETY: no launch of it is running, and this is its only owner.
        let _ = unsafe { result::graph::exec_destroy(self.handle) };
    }
}
