//! Recurrent networks: one product for the inputs of all steps, then for each step a product with the state and a kernel that
//! combines both.

use super::epilogue::{Arguments, EpilogueCode};
use super::movement::copy_as;
use super::multihead::fill_zeros;
use super::product::linear;
use super::support::{input, int, is_float, shape};
use crate::cuda::device::{Argument, DeviceTensor, Grid, Unit};
use crate::cuda::{CudaContext, CudaLayer, CudaLayers, scratch_bytes};
use crate::kernels::recurrent::Cell;
use crate::op::{LayerError, TensorFormat, TensorMeta};
use crate::ops::recurrent::{Gru, Lstm, Network, Part, Rnn, Sizes};
use crate::tensor::{DType, Tensor};

/// The buffers of a run, in the type of the computation.
struct Buffers<'a> {
    /// The products with the input at all steps, and with the state at one step.
    from_input: DeviceTensor<'a>,
    from_state: DeviceTensor<'a>,
    /// A state before its projection.
    unprojected: DeviceTensor<'a>,
    /// The hidden states and cell states of all layers.
    hidden: DeviceTensor<'a>,
    cell_state: DeviceTensor<'a>,
    /// The sequences that a layer reads and writes.
    sequences: [DeviceTensor<'a>; 2],
}

/// The type of the computation.
fn computed(dtype: DType) -> DType {
    if dtype == DType::F64 { DType::F64 } else { DType::F32 }
}

/// The shapes of the [`Buffers`].
fn buffer_shapes(network: &Network<'_>, sizes: &Sizes) -> [Vec<usize>; 7] {
    let gates = network.cell.gates() * network.hidden_size;
    let (steps, batch) = (sizes.steps, sizes.batch);
    let sequence = vec![steps, batch, network.width()];
    let cell_state = if network.cell == Cell::Lstm { network.states() } else { 0 };
    [
        vec![steps, batch, gates],
        vec![batch, gates],
        vec![if network.proj_size > 0 { batch } else { 0 }, network.hidden_size],
        vec![network.states(), batch, network.output_size()],
        vec![cell_state, batch, network.hidden_size],
        sequence.clone(),
        sequence,
    ]
}

fn workspace(network: &Network<'_>, inputs: &[TensorMeta]) -> usize {
    let Some(meta) = inputs.first() else { return 0 };
    let sizes = meta.shape().ok().and_then(|shape| network.sizes(shape.dims()).ok());
    let Some(sizes) = sizes else { return 0 };
    let bytes = buffer_shapes(network, &sizes)
        .map(|dims| scratch_bytes(computed(meta.dtype()), dims.into_iter().fold(1, usize::saturating_mul)));
    bytes.into_iter().fold(0, usize::saturating_add)
}

/// The slice at an index of the first axis.
fn at<'a>(tensor: &DeviceTensor<'a>, index: usize) -> Result<DeviceTensor<'a>, LayerError> {
    Ok(tensor.with_layout(tensor.layout().select(0, index)?)?)
}

fn run(
    network: &Network<'_>,
    inputs: &[DeviceTensor<'_>],
    outputs: &[DeviceTensor<'_>],
    context: &mut CudaContext<'_>,
) -> Result<(), LayerError> {
    let x = inputs[0];
    let sizes = network.sizes(x.shape())?;
    let dtype = computed(x.dtype());
    let mut scratch = Vec::with_capacity(7);
    for dims in buffer_shapes(network, &sizes) {
        scratch.push(context.scratch(dtype, shape(&dims)?)?);
    }
    let &[from_input, from_state, unprojected, hidden, cell_state, first, second] = scratch.as_slice() else {
        return Ok(());
    };
    let mut buffers =
        Buffers { from_input, from_state, unprojected, hidden, cell_state, sequences: [first, second] };
    for (position, state) in network.initial.iter().zip([&buffers.hidden, &buffers.cell_state]) {
        match position {
            Some(position) => {
                let initial = input(inputs, *position)?;
                let layout = initial.layout().expand(state.shape()).or_else(|_| {
                    // Without a batch, a state has no batch axis.
                    initial.layout().unsqueeze(1)
                })?;
                copy_as(&initial.with_layout(layout)?, state, context)?;
            }
            None if state.num_elements() > 0 => fill_zeros(state, context)?,
            None => {}
        }
    }
    let mut rows = x.with_layout(network.by_steps(x.layout())?)?;
    if rows.shape().len() == 2 {
        rows = rows.with_layout(rows.layout().unsqueeze(1)?)?;
    }
    for layer in 0..network.num_layers {
        for direction in 0..network.directions() {
            let index = layer * network.directions() + direction;
            run_direction(network, index, &rows, &buffers, &sizes, context)?;
        }
        buffers.sequences.swap(0, 1);
        rows = buffers.sequences[0];
    }
    for (part, y) in network.parts()?.iter().zip(outputs) {
        let (from, to) = match part {
            Part::Output => (&rows, y.with_layout(network.by_steps(y.layout())?)?),
            Part::Hidden => (&buffers.hidden, *y),
            Part::Memory => (&buffers.cell_state, *y),
        };
        let layout = if to.shape().len() == 2 { to.layout().unsqueeze(1)? } else { *to.layout() };
        copy_as(from, &to.with_layout(layout)?, context)?;
    }
    Ok(())
}

/// Runs one layer in one direction.
fn run_direction(
    network: &Network<'_>,
    index: usize,
    rows: &DeviceTensor<'_>,
    buffers: &Buffers<'_>,
    sizes: &Sizes,
    context: &mut CudaContext<'_>,
) -> Result<(), LayerError> {
    let positions = network.layers.places(index);
    let weight = |position: Option<usize>| position.map(|position| context.weight(position)).transpose();
    let [weight_ih, weight_hh, bias_ih, bias_hh, weight_hr] = [
        weight(positions[0])?,
        weight(positions[1])?,
        weight(positions[2])?,
        weight(positions[3])?,
        weight(positions[4])?,
    ];
    let missing = || LayerError::MissingWeight { key: "weight_ih".to_owned() };
    let (weight_ih, weight_hh) = (weight_ih.ok_or_else(missing)?, weight_hh.ok_or_else(missing)?);
    let epilogue = EpilogueCode::default();
    linear(rows, &weight_ih, bias_ih, &buffers.from_input)?.run(&epilogue, Arguments::new(), context)?;
    let hidden = at(&buffers.hidden, index)?;
    let cell_state =
        if network.cell == Cell::Lstm { at(&buffers.cell_state, index)? } else { buffers.cell_state };
    let is_reverse = index % network.directions() == 1;
    let width = network.output_size();
    let columns = buffers.sequences[1].layout().narrow(2, if is_reverse { width } else { 0 }, width)?;
    let columns = buffers.sequences[1].with_layout(columns)?;
    let kind = match network.cell {
        Cell::Tanh => "TANH",
        Cell::Relu => "RELU",
        Cell::Lstm => "LSTM",
        Cell::Gru => "GRU",
    };
    let unit = Unit::new("recurrent.cu", include_str!("../kernels/recurrent.cu"))
        .define("T", hidden.dtype().name())
        .define("KIND", kind);
    let kernel = context.kernel(&unit, "step")?;
    let order: Box<dyn Iterator<Item = usize>> =
        if is_reverse { Box::new((0..sizes.steps).rev()) } else { Box::new(0..sizes.steps) };
    for step in order {
        linear(&hidden, &weight_hh, bias_hh, &buffers.from_state)?.run(
            &epilogue,
            Arguments::new(),
            context,
        )?;
        let state = if weight_hr.is_some() { buffers.unprojected } else { hidden };
        let arguments = [
            Argument::Read(at(&buffers.from_input, step)?),
            Argument::Read(buffers.from_state),
            Argument::Write(cell_state),
            Argument::Write(state),
            Argument::Int(int(sizes.batch)?),
            Argument::Int(int(network.hidden_size)?),
        ];
        context.launch(&kernel, Grid::over(sizes.batch * network.hidden_size), &arguments)?;
        if let Some(weight_hr) = &weight_hr {
            linear(&buffers.unprojected, weight_hr, None, &hidden)?.run(
                &epilogue,
                Arguments::new(),
                context,
            )?;
        }
        copy_as(&hidden, &at(&columns, step)?, context)?;
    }
    Ok(())
}

macro_rules! recurrent {
    ($($layer:ident),*) => {$(
        impl CudaLayer for $layer {
            fn supports(&self, position: usize, formats: &[TensorFormat]) -> bool {
                is_float(position, formats)
            }

            fn weights(&self) -> Result<Vec<Tensor>, LayerError> {
                self.network().layers.attributes().map(|weight| weight.load()).collect()
            }

            fn workspace(&self, inputs: &[TensorMeta], _: &[TensorMeta]) -> usize {
                workspace(&self.network(), inputs)
            }

            fn forward(
                &mut self,
                inputs: &[DeviceTensor<'_>],
                outputs: &[DeviceTensor<'_>],
                context: &mut CudaContext<'_>,
            ) -> Result<(), LayerError> {
                run(&self.network(), inputs, outputs, context)
            }
        }
    )*

        /// Registers the layers of this family.
        pub(super) fn register(layers: &mut CudaLayers) {
            $(layers.register::<$layer>();)*
        }
    };
}

recurrent!(Rnn, Lstm, Gru);
