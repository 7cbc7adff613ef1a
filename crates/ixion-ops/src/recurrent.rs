//! Recurrent networks: RNN, LSTM and GRU.

mod functional;
mod results;
mod stored;

use crate::attention::dot_product::OptionalInput;
use crate::op::{
    Cost, CpuLayer, ForwardContext, FromOperator, Io, Layer, LayerError, Result, TensorMeta, exactly,
};
use crate::support::choices::choices;
use crate::support::float;
use crate::support::float::with_float;
pub use functional::{GruFunction, LstmFunction, RnnReluFunction, RnnTanhFunction};
use ixion_kernels::Float;
use ixion_kernels::recurrent::{Cell, Direction, State, scratch_len};
pub use ixion_pnnx::recurrent::Part;
use ixion_tensor::{DType, Dim, Layout, TensorView, TensorViewMut};
use ndarray::{ArrayViewMut2, s};
pub use results::Recorded;
use std::ops::RangeInclusive;
pub use stored::Layers;

choices! {
    /// The nonlinearity of [`Rnn`].
    pub enum Nonlinearity {
        /// The hyperbolic tangent.
        Tanh = "tanh",
        /// The rectified linear unit, max(0, x).
        Relu = "relu",
    }
}

macro_rules! recurrent_layers {
    ($(
        $(#[doc = $doc:literal])*
        $name:ident for $op_type:literal is $cell:expr, $proj_size:expr, $initial_c:expr, with {
            $($(#[doc = $field_doc:literal])* $field:ident: $type:ty = $default:expr,)*
        }
    )*) => {$(
        crate::operator! {
            $(#[doc = $doc])*
            pub struct $name for $op_type {
                /// Number of input features I per step.
                input_size: usize,
                /// Number of hidden units H.
                hidden_size: usize,
                /// Number of stacked layers; each one reads the output of the previous one.
                num_layers: usize = 1,
                /// Whether biases are added.
                bias: bool = true,
                /// Whether input and output are N×L×… instead of L×N×….
                batch_first: bool = false,
                /// Dropout probability between layers in training; without effect here.
                dropout: f64 = 0.0,
                /// Whether each layer also reads the sequence in reverse; the outputs of both directions are concatenated.
                bidirectional: bool = false,
                /// The initial hidden state, layers·directions×N×H (or without N); zeros by default.
                initial_h: OptionalInput = OptionalInput(None),
                $($(#[doc = $field_doc])* $field: $type = $default,)*
                /// The weights of all layers, under PyTorch's keys.
                weights as "weight_ih_l0": Layers,
                /// Whether the output sequence is the last of all results, as PNNX notes below its optimisation level 1.
                swapped as "pnnx_rnn_output_swapped": i64 = 0,
                /// The recorded shapes of the operator's outputs, which identify the results that they hold.
                recorded as "outputs": Recorded,
            }
            validate |layer| { layer.network().check() }
        }

        impl $name {
            /// The parameters in the form that RNN, LSTM and GRU share; the weights are borrowed, not copied.
            pub fn network(&self) -> Network<'_> {
                let cell: fn(&Self) -> Cell = $cell;
                let proj_size: fn(&Self) -> usize = $proj_size;
                let initial_c: fn(&Self) -> Option<usize> = $initial_c;
                Network {
                    cell: cell(self),
                    input_size: self.input_size,
                    hidden_size: self.hidden_size,
                    proj_size: proj_size(self),
                    num_layers: self.num_layers,
                    bias: self.bias,
                    batch_first: self.batch_first,
                    bidirectional: self.bidirectional,
                    initial: [self.initial_h.0, initial_c(self)],
                    layers: &self.weights,
                    recorded: &self.recorded,
                    swapped: self.swapped != 0,
                }
            }
        }

        impl Layer for $name {
            fn num_inputs(&self) -> RangeInclusive<usize> {
                exactly(1 + self.field_inputs())
            }

            fn num_outputs(&self) -> usize {
                self.network().parts().map_or(1, <[Part]>::len)
            }

            fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
                self.network().infer(inputs)
            }

            fn cost(&self, inputs: &[TensorMeta], outputs: &[TensorMeta]) -> Cost {
                Cost::of_moving(inputs, outputs).with_macs(self.network().macs(inputs).unwrap_or(0))
            }
        }

        impl CpuLayer for $name {
            fn workspace(&self, inputs: &[TensorMeta], _: &[TensorMeta]) -> usize {
                let network = self.network();
                let sizes = inputs.first().and_then(|input| network.sizes(input.shape().ok()?.dims()).ok());
                sizes.map_or(0, |sizes| sizes.total().saturating_mul(compute_size(inputs[0].dtype())))
            }

            fn forward(&mut self, io: &mut Io<'_, '_>) -> Result<()> {
                with_float!(io.inputs[0].dtype(), T => self.network().run::<T>(io.inputs, io.outputs, &mut io.context))
            }
        }
    )*};
}

recurrent_layers! {
    /// `torch.nn.RNN` (Elman 1990): a recurrent network, hₜ = tanh(W·xₜ + b + U·hₜ₋₁ + c), or with ReLU. An L×N×I input
    /// gives the sequence of hₜ, L×N×directions·H, and the last hₜ, layers·directions×N×H, as far as the file lists them; N
    /// is optional throughout. A sequence must have at least one step.
    Rnn for "nn.RNN" is |layer| match layer.nonlinearity {
        Nonlinearity::Tanh => Cell::Tanh,
        Nonlinearity::Relu => Cell::Relu,
    }, |_| 0, |_| None, with {
        /// The nonlinearity.
        nonlinearity: Nonlinearity = Nonlinearity::Tanh,
    }

    /// `torch.nn.LSTM` (Hochreiter and Schmidhuber 1997): long short-term memory, a recurrent network with input, forget
    /// and output gates for a cell state cₜ. An L×N×I input gives the sequence of hₜ, L×N×directions·H, the last hₜ,
    /// layers·directions×N×H, and the last cₜ, of the same shape, as far as the file lists them; N is optional throughout.
    /// A sequence must have at least one step.
    Lstm for "nn.LSTM" is |_| Cell::Lstm, |layer| layer.proj_size, |layer| layer.initial_c.0, with {
        /// The initial cell state, layers·directions×N×H (or without N); given together with `initial_h`.
        initial_c: OptionalInput = OptionalInput(None),
        /// If greater than 0, each hₜ is projected to this many elements by a matrix.
        proj_size: usize = 0,
    }

    /// `torch.nn.GRU` (Cho et al. 2014): gated recurrent units, a recurrent network with reset and update gates. An L×N×I
    /// input gives the sequence of hₜ, L×N×directions·H, and the last hₜ, layers·directions×N×H, as far as the file lists
    /// them; N is optional throughout. A sequence must have at least one step.
    Gru for "nn.GRU" is |_| Cell::Gru, |_| 0, |_| None, with {}
}

/// The size in bytes of the element type in which tensors of this type are computed.
fn compute_size(dtype: DType) -> usize {
    if dtype == DType::F64 { 8 } else { 4 }
}

/// The parameters of a recurrent network, common to all operators.
#[derive(Debug)]
pub struct Network<'a> {
    /// The recurrence that all layers compute at each step.
    pub cell: Cell,
    pub(crate) input_size: usize,
    /// Number of hidden units H of a layer in one direction.
    pub hidden_size: usize,
    /// The length to which each hₜ is projected; 0 for no projection, and always less than H.
    pub proj_size: usize,
    /// Number of stacked layers; a layer in two directions counts once.
    pub num_layers: usize,
    pub(crate) bias: bool,
    pub(crate) batch_first: bool,
    pub(crate) bidirectional: bool,
    /// Input positions of the initial hidden state and the initial cell state.
    pub initial: [Option<usize>; 2],
    /// The weights of all layers in all directions, as stored in the file.
    pub layers: &'a Layers,
    pub(crate) recorded: &'a Recorded,
    pub(crate) swapped: bool,
}

/// The extents of a run, and the numbers of elements that it holds.
#[derive(Debug)]
pub struct Sizes {
    /// Number of steps L of each sequence.
    pub steps: usize,
    /// Number of sequences N; 1 for an input without a batch axis.
    pub batch: usize,
    /// The hidden states of all layers.
    pub(crate) hidden: usize,
    /// The cell states of all layers.
    pub(crate) memory: usize,
    /// The output of one layer in all directions.
    pub(crate) sequence: usize,
    /// The output of the previous layer, if there are several.
    pub(crate) before: usize,
    /// The scratch memory of the kernel.
    pub(crate) scratch: usize,
}

impl Sizes {
    fn total(&self) -> usize {
        let parts = [self.hidden, self.memory, self.sequence, self.before, self.scratch];
        parts.into_iter().fold(0, usize::saturating_add)
    }
}

impl Network<'_> {
    fn check(&self) -> Result<()> {
        self.check_sizes()?;
        self.layers.check(self)
    }

    fn check_sizes(&self) -> Result<()> {
        let sizes = [
            ("input_size", self.input_size),
            ("hidden_size", self.hidden_size),
            ("num_layers", self.num_layers),
        ];
        if let Some((key, _)) = sizes.into_iter().find(|(_, size)| *size == 0) {
            let reason = "it must be at least 1".to_owned();
            return Err(LayerError::InvalidParameter { key, found: "0".to_owned(), reason });
        }
        if self.proj_size >= self.hidden_size {
            let reason = format!("it must be less than `hidden_size`, which is {}", self.hidden_size);
            return Err(LayerError::InvalidParameter {
                key: "proj_size",
                found: self.proj_size.to_string(),
                reason,
            });
        }
        if self.cell == Cell::Lstm && self.initial.iter().flatten().count() == 1 {
            let wanted = "1, or 3 with `initial_h` and `initial_c`".to_owned();
            return Err(LayerError::InputCount { wanted, found: 2 });
        }
        self.parts().map(drop)
    }

    /// The number of directions: 2 if the network is bidirectional, otherwise 1.
    pub fn directions(&self) -> usize {
        1 + usize::from(self.bidirectional)
    }

    /// Layers times directions.
    pub fn states(&self) -> usize {
        self.num_layers.saturating_mul(self.directions())
    }

    /// The length of hₜ.
    pub fn output_size(&self) -> usize {
        if self.proj_size > 0 { self.proj_size } else { self.hidden_size }
    }

    /// The length of the hₜ of all directions.
    pub fn width(&self) -> usize {
        self.output_size().saturating_mul(self.directions())
    }

    /// The number of input features of a layer.
    fn inputs_of(&self, layer: usize) -> usize {
        if layer == 0 { self.input_size } else { self.width() }
    }

    /// The results that the operator's outputs hold.
    ///
    /// # Errors
    /// [`LayerError::OutputCount`] if the network has no such number of results.
    pub fn parts(&self) -> Result<&'static [Part]> {
        let network = ixion_pnnx::recurrent::Network {
            is_lstm: self.cell == Cell::Lstm,
            states: self.states() as u64,
            output: self.width() as u64,
            hidden: self.output_size() as u64,
            memory: self.hidden_size as u64,
            batch_first: self.batch_first,
            is_swapped: self.swapped,
            input: self.recorded.input(),
        };
        self.recorded.parts(network).ok_or(LayerError::OutputCount {
            wanted: if self.cell == Cell::Lstm { 3 } else { 2 },
            found: self.recorded.count(),
        })
    }

    /// The steps and the batch of an input; no batch if it has no such axis.
    fn split<D: Clone>(&self, dims: &[D]) -> Option<(D, Option<D>)> {
        match dims {
            [steps, _] => Some((steps.clone(), None)),
            [batch, steps, _] if self.batch_first => Some((steps.clone(), Some(batch.clone()))),
            [steps, batch, _] => Some((steps.clone(), Some(batch.clone()))),
            _ => None,
        }
    }

    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
        let input = &inputs[0];
        float::check("the input", input)?;
        self.layers.check_dtype(input.dtype())?;
        let (steps, batch) =
            self.split(input.dims()).ok_or_else(|| LayerError::shape("the input", "2 or 3 axes", input))?;
        if input.dims().last().and_then(Dim::fixed).is_some_and(|last| Dim::from(self.input_size) != last) {
            return Err(LayerError::shape("the last axis of the input", self.input_size, input));
        }
        if steps == 0usize {
            return Err(LayerError::shape("the sequence", "at least one step", input));
        }
        let state = |len: usize| {
            let axes = [Some(Dim::from(self.states())), batch.clone(), Some(Dim::from(len))];
            input.with_dims(axes.into_iter().flatten())
        };
        let (hidden, memory) = (state(self.output_size()), state(self.hidden_size));
        for (position, wanted, what) in
            [(self.initial[0], &hidden, "initial_h"), (self.initial[1], &memory, "initial_c")]
        {
            if let Some(found) = position.map(|position| &inputs[position]) {
                check_state(what, wanted, found)?;
            }
        }
        let mut dims = input.dims().to_vec();
        if let Some(last) = dims.last_mut() {
            *last = Dim::from(self.width());
        }
        let output = input.with_dims(dims);
        let meta = |part: &Part| match part {
            Part::Output => output.clone(),
            Part::Hidden => hidden.clone(),
            Part::Memory => memory.clone(),
        };
        Ok(self.parts()?.iter().map(meta).collect())
    }

    fn macs(&self, inputs: &[TensorMeta]) -> Option<u64> {
        let shape = inputs.first()?.shape().ok()?;
        let (steps, batch) = self.split(shape.dims())?;
        let rows = (self.hidden_size as u64).checked_mul(self.cell.gates() as u64)?;
        let projected = (self.proj_size as u64).checked_mul(self.hidden_size as u64)?;
        let layer = |layer: usize| {
            let columns = (self.inputs_of(layer) as u64).checked_add(self.output_size() as u64)?;
            rows.checked_mul(columns)?.checked_add(projected)
        };
        let rest = layer(1)?.checked_mul(self.num_layers.saturating_sub(1) as u64)?;
        let each = layer(0)?.checked_add(rest)?.checked_mul(self.directions() as u64)?;
        each.checked_mul(steps as u64)?.checked_mul(batch.unwrap_or(1) as u64)
    }

    /// The sizes of a run over an input of this shape.
    ///
    /// # Errors
    /// [`LayerError::Shape`] if the input has neither two nor three axes.
    pub fn sizes(&self, shape: &[usize]) -> Result<Sizes> {
        let (steps, batch) =
            self.split(shape).ok_or_else(|| LayerError::shape("the input", "2 or 3 axes", shape.len()))?;
        let batch = batch.unwrap_or(1);
        let product = |factors: [usize; 3]| factors.into_iter().fold(1, usize::saturating_mul);
        let sequence = product([steps, batch, self.width()]);
        Ok(Sizes {
            steps,
            batch,
            hidden: product([self.states(), batch, self.output_size()]),
            memory: if self.cell == Cell::Lstm {
                product([self.states(), batch, self.hidden_size])
            } else {
                0
            },
            sequence,
            before: if self.num_layers > 1 { sequence } else { 0 },
            scratch: scratch_len(self.cell, steps, batch, self.hidden_size),
        })
    }

    /// The bytes held in addition to scratch memory: the input ordered by steps, and converted half-precision tensors.
    fn held(&self, input: &TensorView<'_>, sizes: &Sizes) -> usize {
        let mut elements = input.num_elements();
        if matches!(input.dtype(), DType::F16 | DType::Bf16) {
            elements = elements.saturating_add(sizes.sequence).saturating_add(self.layers.largest());
        }
        elements.saturating_mul(compute_size(input.dtype()))
    }

    fn run<T: Float>(
        &self,
        inputs: &[TensorView<'_>],
        outputs: &mut [TensorViewMut<'_>],
        context: &mut ForwardContext<'_>,
    ) -> Result<()> {
        let limits = context.limits();
        let sizes = self.sizes(inputs[0].shape())?;
        limits.check_tensor("the input of a recurrent network", self.held(&inputs[0], &sizes) as u64)?;
        let input = float::read::<T>(&inputs[0].with_layout(self.by_steps(inputs[0].layout())?)?)?;
        let scratch = context.scratch::<T>(sizes.total())?;
        let (hidden, rest) = scratch.split_at_mut(sizes.hidden);
        let (memory, rest) = rest.split_at_mut(sizes.memory);
        let (mut to, rest) = rest.split_at_mut(sizes.sequence);
        let (mut from, scratch) = rest.split_at_mut(sizes.before);
        load(self.initial[0].map(|position| &inputs[position]), hidden)?;
        load(self.initial[1].map(|position| &inputs[position]), memory)?;
        for layer in 0..self.num_layers {
            let input = if layer == 0 { &input } else { &*from };
            for direction in 0..self.directions() {
                let index = layer * self.directions() + direction;
                let weights = self.layers.read::<T>(index)?;
                let direction = Direction {
                    cell: self.cell,
                    steps: sizes.steps,
                    batch: sizes.batch,
                    reverse: direction == 1,
                    weights: weights.matrices(self.hidden_size)?,
                };
                let state = State {
                    hidden: part(hidden, index, self.states()),
                    memory: part(memory, index, self.states()),
                };
                let output = self.columns(to, &sizes, direction.reverse)?;
                direction.run(input, state, output, scratch, limits)?;
            }
            std::mem::swap(&mut from, &mut to);
        }
        for (result, output) in self.parts()?.iter().zip(outputs) {
            match result {
                Part::Output => {
                    let layout = self.by_steps(output.layout())?;
                    store(&from[..sizes.sequence], &mut output.reborrow().with_layout(layout)?)?;
                }
                Part::Hidden => store(hidden, output)?,
                Part::Memory => store(memory, output)?,
            }
        }
        Ok(())
    }

    /// The layout of a sequence with the steps first.
    ///
    /// # Errors
    /// Never in practice: the axes that are swapped exist.
    pub fn by_steps(&self, layout: &Layout) -> Result<Layout> {
        let turned = self.batch_first && layout.shape().rank() == 3;
        if turned { Ok(layout.transpose(0, 1)?) } else { Ok(*layout) }
    }

    /// The part of a layer's output that one direction writes.
    fn columns<'o, T>(
        &self,
        output: &'o mut [T],
        sizes: &Sizes,
        reverse: bool,
    ) -> Result<ArrayViewMut2<'o, T>> {
        let output = &mut output[..sizes.sequence];
        let output = ArrayViewMut2::from_shape((sizes.steps * sizes.batch, self.width()), output)?;
        let first = if reverse { self.output_size() } else { 0 };
        Ok(output.slice_move(s![.., first..first + self.output_size()]))
    }
}

/// One of `count` equal parts.
fn part<T>(values: &mut [T], index: usize, count: usize) -> &mut [T] {
    let len = values.len() / count.max(1);
    &mut values[index * len..(index + 1) * len]
}

/// Copies a state, or zeros.
fn load<T: Float>(state: Option<&TensorView<'_>>, to: &mut [T]) -> Result<()> {
    match state {
        Some(state) => to.copy_from_slice(&float::read::<T>(state)?),
        None => to.fill(T::zero()),
    }
    Ok(())
}

/// Copies elements in row-major order, converting them if the types differ.
fn store<T: Float>(values: &[T], output: &mut TensorViewMut<'_>) -> Result<()> {
    if output.dtype() == T::DTYPE {
        let layout = Layout::contiguous(*output.shape());
        return Ok(output.copy_from(&TensorView::from_slice(values, layout)?)?);
    }
    float::write::<T>(output, |output| {
        output.copy_from_slice(values);
        Ok(())
    })
}

fn check_state(what: &str, wanted: &TensorMeta, found: &TensorMeta) -> Result<()> {
    if found.dtype() != wanted.dtype() {
        let (what, wanted) = (format!("`{what}`"), wanted.dtype().to_string());
        return Err(LayerError::DType { what, wanted, found: found.dtype() });
    }
    if !found.may_have_dims(wanted.dims()) {
        return Err(LayerError::shape(format!("`{what}`"), wanted, found));
    }
    Ok(())
}

operators! { Rnn, Lstm, Gru; of functional; category Weighted }

#[cfg(test)]
mod tests;
