//! Calls every layer of a model with its actual inputs, in order.

use ixion::Limits;
use ixion::graph::RuntimeGraph;
use ixion::op::{CpuLayer, ForwardContext, Io, LayerError, TensorMeta};
use ixion::tensor::{Tensor, TensorView, Workspace};
use std::collections::BTreeMap;
use std::path::Path;

/// A layer, its inputs, and the outputs that `forward` computes.
pub(crate) struct Call {
    pub(crate) place: String,
    pub(crate) op_type: String,
    pub(crate) layer: Box<dyn CpuLayer>,
    pub(crate) inputs: Vec<Tensor>,
    pub(crate) outputs: Vec<Tensor>,
    pub(crate) workspace: Workspace,
}

impl Call {
    /// Configures the layer and allocates its outputs.
    fn new(place: String, op_type: &str, mut layer: Box<dyn CpuLayer>, inputs: Vec<Tensor>) -> Self {
        let metas: Vec<TensorMeta> = inputs.iter().map(|input| TensorMeta::of(&input.view())).collect();
        let inferred = layer.infer(&metas).unwrap_or_else(|error| panic!("{place}: {error}"));
        layer.configure(&metas, &inferred).unwrap();
        let mut workspace = Workspace::new().unwrap();
        workspace.reserve(layer.workspace(&metas, &inferred)).unwrap();
        let outputs = match layer.is_data_dependent() {
            true => Vec::new(),
            false => inferred
                .iter()
                .map(|meta| Tensor::zeros(meta.dtype(), &meta.shape().unwrap()).unwrap())
                .collect(),
        };
        Self { place, op_type: op_type.to_owned(), layer, inputs, outputs, workspace }
    }

    /// Computes the outputs.
    pub(crate) fn forward(&mut self) -> Result<(), LayerError> {
        self.forward_within(|forward| forward())
    }

    /// Computes the outputs inside a function, which observes only the layer's own work.
    pub(crate) fn forward_within<R>(
        &mut self,
        around: impl FnOnce(&mut dyn FnMut() -> Result<(), LayerError>) -> R,
    ) -> R {
        let views: Vec<TensorView<'_>> = self.inputs.iter().map(Tensor::view).collect();
        let limits = Limits::default();
        let mut context = ForwardContext::new(&mut self.workspace, &limits);
        if self.layer.is_data_dependent() {
            return around(&mut || {
                self.outputs = self.layer.forward_dynamic(&views, &mut context)?;
                Ok(())
            });
        }
        let mut outputs: Vec<_> = self.outputs.iter_mut().map(|output| output.view_mut().unwrap()).collect();
        around(&mut || self.layer.forward(&mut Io::new(&views, &mut outputs, &mut context)))
    }

    /// Computes the first output in the memory of `data`, which replaces the input at `position`.
    pub(crate) fn forward_in_place(&mut self, data: &mut Tensor, position: usize) -> Result<(), LayerError> {
        let mut others: Vec<TensorView<'_>> = self.inputs.iter().map(Tensor::view).collect();
        others.remove(position);
        let limits = Limits::default();
        let mut context = ForwardContext::new(&mut self.workspace, &limits);
        let mut data = data.view_mut().unwrap();
        self.layer.forward_in_place(&mut data, &others, &mut context)
    }
}

/// Runs the model of a case on its inputs and passes every completed call to `use_call`.
pub(crate) fn each_call(folder: &Path, mut use_call: impl FnMut(Call)) {
    let limits = Limits::default();
    let arrays: BTreeMap<String, Tensor> =
        Tensor::load_npz(folder.join("arrays.npz"), &limits).unwrap().into_iter().collect();
    let mut graph = RuntimeGraph::new(folder.join("model.param"));
    graph.build().unwrap();
    let mut values: BTreeMap<usize, Tensor> = BTreeMap::new();
    for (index, port) in graph.inputs().iter().enumerate() {
        values.insert(port.operand.position(), arrays[&format!("in_{index}")].clone());
    }
    for operator in graph.operators() {
        let Some(layer) = operator.layer() else { continue };
        let place = format!("{}: {} {}", folder.display(), operator.op_type(), operator.name());
        let inputs = operator.inputs().iter().map(|operand| values[&operand.position()].clone()).collect();
        let mut call = Call::new(place, operator.op_type(), layer.clone_layer(), inputs);
        match call.layer.constant(&limits).unwrap() {
            Some(constant) => call.outputs = vec![constant],
            None => call.forward().unwrap_or_else(|error| panic!("{}: {error}", call.place)),
        }
        for (operand, output) in operator.outputs().iter().zip(&call.outputs) {
            values.insert(operand.position(), output.clone());
        }
        use_call(call);
    }
}
