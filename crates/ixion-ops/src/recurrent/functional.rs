//! Functional recurrent networks, whose weights are a list of inputs.

use super::stored::Layers;
use super::{Network, Recorded, compute_size};
use crate::op::{CpuLayer, Io, Layer, LayerError, Result, RuntimeAttribute, TensorMeta};
use crate::support::arguments::InputIndex;
use crate::support::float::with_float;
use ixion_kernels::recurrent::Cell;
use ixion_tensor::TensorView;
use std::ops::RangeInclusive;

macro_rules! functions {
    ($($(#[doc = $doc:literal])* $name:ident is $cell:ident for $op_type:literal;)*) => {$(
        crate::operator! {
            $(#[doc = $doc])*
            pub struct $name for $op_type {
                /// The initial hidden state; for an LSTM followed by the initial cell state.
                hx: InputIndex,
                /// The weights of all layers as a list, in the order of the module's parameters.
                params: InputIndex,
                /// Whether biases are added.
                has_biases: bool = true,
                /// Number of stacked layers.
                num_layers: usize = 1,
                /// Dropout probability between layers in training; without effect here.
                dropout: f64 = 0.0,
                /// Whether the model is in training mode; then `dropout` must be 0.
                train: bool = false,
                /// Whether each layer also reads the sequence in reverse.
                bidirectional: bool = false,
                /// Whether input and output are N×L×… instead of L×N×….
                batch_first: bool = false,
                /// The recorded shapes of the operator's outputs, which identify the results that they hold.
                recorded as "outputs": Recorded,
            }
            validate |layer| { check_training(layer.train, layer.dropout) }
        }

        impl $name {
            fn function(&self) -> Function<'_> {
                Function {
                    cell: Cell::$cell,
                    hx: self.hx.0,
                    params: self.params.0,
                    bias: self.has_biases,
                    num_layers: self.num_layers,
                    bidirectional: self.bidirectional,
                    batch_first: self.batch_first,
                    recorded: &self.recorded,
                }
            }
        }

        impl Layer for $name {
            fn num_inputs(&self) -> RangeInclusive<usize> {
                let function = self.function();
                function.params + 2..=usize::MAX
            }

            fn num_outputs(&self) -> usize {
                if Cell::$cell == Cell::Lstm { 3 } else { 2 }
            }

            fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
                self.function().infer(inputs)
            }
        }

        impl CpuLayer for $name {
            fn workspace(&self, inputs: &[TensorMeta], _: &[TensorMeta]) -> usize {
                self.function().workspace(inputs).unwrap_or(0)
            }

            fn forward(&mut self, io: &mut Io<'_, '_>) -> Result<()> {
                let (function, metas) = (self.function(), io.inputs.iter().map(TensorMeta::of).collect::<Vec<_>>());
                let layers = function.layers(io.inputs)?;
                let network = function.network(&metas, &layers)?;
                network.layers.check(&network)?;
                network.layers.check_dtype(io.inputs[0].dtype())?;
                with_float!(io.inputs[0].dtype(), T => network.run::<T>(io.inputs, io.outputs, &mut io.context))
            }
        }
    )*};
}

functions! {
    /// The functional form of `torch.nn.RNN` with tanh: see [`Rnn`](super::Rnn).
    RnnTanhFunction is Tanh for "aten::rnn_tanh";

    /// The functional form of `torch.nn.RNN` with ReLU: see [`Rnn`](super::Rnn).
    RnnReluFunction is Relu for "aten::rnn_relu";

    /// The functional form of `torch.nn.LSTM`: see [`Lstm`](super::Lstm).
    LstmFunction is Lstm for "aten::lstm";

    /// The functional form of `torch.nn.GRU`: see [`Gru`](super::Gru).
    GruFunction is Gru for "aten::gru";
}

fn check_training(train: bool, dropout: f64) -> Result<()> {
    if !train || dropout == 0.0 {
        return Ok(());
    }
    let reason = "Ixion runs trained models; export it after `model.eval()`".to_owned();
    Err(LayerError::InvalidParameter { key: "train", found: "True".to_owned(), reason })
}

/// A recurrent network whose sizes follow from its weights.
struct Function<'a> {
    cell: Cell,
    hx: usize,
    params: usize,
    bias: bool,
    num_layers: usize,
    bidirectional: bool,
    batch_first: bool,
    recorded: &'a Recorded,
}

impl Function<'_> {
    fn directions(&self) -> usize {
        1 + usize::from(self.bidirectional)
    }

    /// The number of weights of one layer in one direction, given the number of inputs.
    fn weights_each(&self, inputs: usize) -> Result<usize> {
        let found = inputs.saturating_sub(self.params);
        let parts = self.num_layers.saturating_mul(self.directions());
        let plain = if self.bias { 4 } else { 2 };
        let projected = plain + usize::from(self.cell == Cell::Lstm);
        match [plain, projected].into_iter().find(|each| Some(found) == parts.checked_mul(*each)) {
            Some(each) if parts > 0 => Ok(each),
            _ => {
                let wanted =
                    format!("`params` with {plain} weights for each of {parts} layers and directions");
                Err(LayerError::InputCount { wanted, found })
            }
        }
    }

    fn layers(&self, inputs: &[TensorView<'_>]) -> Result<Layers> {
        let each = self.weights_each(inputs.len())?;
        let weights = inputs.get(self.params..).unwrap_or_default();
        let attribute = |view: &TensorView<'_>| Ok(RuntimeAttribute::from_tensor(view.to_tensor()?));
        let weights = weights.iter().map(attribute).collect::<Result<Vec<_>>>()?;
        Ok(Layers::of_list(&weights, each, self.bias, self.directions()))
    }

    /// The length of an axis of a weight of the first layer.
    fn len(&self, inputs: &[TensorMeta], weight: usize, axis: usize) -> Result<usize> {
        let meta = inputs.get(self.params + weight);
        let len = meta.filter(|meta| meta.rank() == 2).and_then(|meta| meta.dims().get(axis)?.fixed());
        len.and_then(|len| usize::try_from(len).ok()).ok_or_else(|| {
            let found = meta.map_or_else(|| "absent".to_owned(), TensorMeta::to_string);
            LayerError::shape("a weight in `params`", "two axes of known lengths", found)
        })
    }

    fn network<'n>(&'n self, inputs: &[TensorMeta], layers: &'n Layers) -> Result<Network<'n>> {
        let each = self.weights_each(inputs.len())?;
        let hidden_size = self.len(inputs, 0, 0)? / self.cell.gates();
        let projected = each % 2 == 1;
        let network = Network {
            cell: self.cell,
            input_size: self.len(inputs, 0, 1)?,
            hidden_size,
            proj_size: if projected { self.len(inputs, 1, 1)? } else { 0 },
            num_layers: self.num_layers,
            bias: self.bias,
            batch_first: self.batch_first,
            bidirectional: self.bidirectional,
            initial: [Some(self.hx), (self.cell == Cell::Lstm).then_some(self.hx + 1)],
            layers,
            recorded: self.recorded,
            swapped: false,
        };
        network.check_sizes()?;
        Ok(network)
    }

    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
        if self.hx + 1 + usize::from(self.cell == Cell::Lstm) > self.params {
            let wanted = "`hx` with the hidden state, and the cell state of an LSTM".to_owned();
            return Err(LayerError::InputCount { wanted, found: self.params });
        }
        self.network(inputs, &Layers::default())?.infer(inputs)
    }

    fn workspace(&self, inputs: &[TensorMeta]) -> Option<usize> {
        let layers = Layers::default();
        let network = self.network(inputs, &layers).ok()?;
        let sizes = network.sizes(inputs.first()?.shape().ok()?.dims()).ok()?;
        Some(sizes.total().saturating_mul(compute_size(inputs.first()?.dtype())))
    }
}

operators! {
    RnnTanhFunction, RnnReluFunction, LstmFunction, GruFunction;
    lists "aten::rnn_tanh", "aten::rnn_relu", "aten::lstm", "aten::gru"
}

#[cfg(test)]
mod tests {
    use crate::support::testing::{operator, waves};

    #[test]
    fn mismatched_lists() {
        let (x, h) = (waves(&[4, 3]), waves(&[1, 2]));
        let gru = |params: &[(&'static str, &'static str)]| {
            operator("aten::gru", params).with_names(&["input", "hx", "params"]).with_outputs(2)
        };
        let without = [("has_biases", "False")];
        assert!(gru(&without).run(&[&x, &h, &waves(&[6, 3]), &waves(&[6, 2])]).is_ok());
        assert!(gru(&[]).run(&[&x, &h, &waves(&[6, 3]), &waves(&[6, 2])]).is_err());
        assert!(gru(&without).run(&[&x, &h, &waves(&[6, 3]), &waves(&[5, 2])]).is_err());
        assert!(gru(&without).run(&[&x, &h, &waves(&[2, 3]), &waves(&[6, 2])]).is_err());
        assert!(gru(&without).run(&[&x, &h, &waves(&[6]), &waves(&[6, 2])]).is_err());
        assert!(gru(&[("train", "True"), ("dropout", "0.5")]).create(4).is_err());
        gru(&without).survives(4);
    }
}
