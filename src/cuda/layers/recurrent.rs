//! Recurrent networks: one product for the inputs of all steps, then for each step a product with the state and a kernel that
//! combines both.

use super::movement::copy_as;
use super::multihead::fill_zeros;
use super::prelude::*;
use super::product::write_linear;
use super::support::{input, int, is_float, shape};
use crate::kernels::recurrent::Cell;
use crate::ops::recurrent::{Gru, Lstm, Network, Part, Rnn, Sizes};

/// The layers of this family.
pub(super) const LAYERS: &[&dyn Entry] = &[
    &Simple::<Rnn>::new(is_float, |layer, io| run(&layer.network(), io))
        .with_weights(|layer| weights(&layer.network()))
        .with_workspace(|layer, inputs| workspace(&layer.network(), inputs)),
    &Simple::<Lstm>::new(is_float, |layer, io| run(&layer.network(), io))
        .with_weights(|layer| weights(&layer.network()))
        .with_workspace(|layer, inputs| workspace(&layer.network(), inputs)),
    &Simple::<Gru>::new(is_float, |layer, io| run(&layer.network(), io))
        .with_weights(|layer| weights(&layer.network()))
        .with_workspace(|layer, inputs| workspace(&layer.network(), inputs)),
];

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

fn weights(network: &Network<'_>) -> Result<Vec<Tensor>> {
    network.layers.attributes().map(|weight| weight.load()).collect()
}

fn workspace(network: &Network<'_>, inputs: &[TensorMeta]) -> usize {
    let Some(meta) = inputs.first() else { return 0 };
    let sizes = meta.shape().ok().and_then(|shape| network.sizes(shape.dims()).ok());
    let Some(sizes) = sizes else { return 0 };
    let bytes = buffer_shapes(network, &sizes)
        .map(|dims| scratch_bytes(computed(meta.dtype()), dims.into_iter().fold(1, usize::saturating_mul)));
    bytes.into_iter().fold(0, usize::saturating_add)
}

fn run(network: &Network<'_>, io: &mut CudaIo<'_, '_>) -> Result<()> {
    let x = io.inputs[0];
    let sizes = network.sizes(x.shape())?;
    let dtype = computed(x.dtype());
    let mut scratch = Vec::with_capacity(7);
    for dims in buffer_shapes(network, &sizes) {
        scratch.push(io.context.scratch(dtype, shape(&dims)?)?);
    }
    let &[from_input, from_state, unprojected, hidden, cell_state, first, second] = scratch.as_slice() else {
        return Ok(());
    };
    let mut buffers =
        Buffers { from_input, from_state, unprojected, hidden, cell_state, sequences: [first, second] };
    for (position, state) in network.initial.iter().zip([&buffers.hidden, &buffers.cell_state]) {
        match position {
            Some(position) => {
                let initial = input(io.inputs, *position)?;
                // Without a batch, a state has no batch axis.
                let initial = initial.expand(state.shape()).or_else(|_| initial.unsqueeze(1))?;
                copy_as(&initial, state, io.context)?;
            }
            None if state.num_elements() > 0 => fill_zeros(state, io.context)?,
            None => {}
        }
    }
    let mut rows = x.with_layout(network.by_steps(x.layout())?)?;
    if rows.shape().len() == 2 {
        rows = rows.unsqueeze(1)?;
    }
    for layer in 0..network.num_layers {
        for direction in 0..network.directions() {
            let index = layer * network.directions() + direction;
            run_direction(network, index, &rows, &buffers, &sizes, io.context)?;
        }
        buffers.sequences.swap(0, 1);
        rows = buffers.sequences[0];
    }
    for (part, y) in network.parts()?.iter().zip(io.outputs) {
        let (from, to) = match part {
            Part::Output => (&rows, y.with_layout(network.by_steps(y.layout())?)?),
            Part::Hidden => (&buffers.hidden, *y),
            Part::Memory => (&buffers.cell_state, *y),
        };
        let to = if to.shape().len() == 2 { to.unsqueeze(1)? } else { to };
        copy_as(from, &to, io.context)?;
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
) -> Result<()> {
    let positions = network.layers.places(index);
    let weight = |at: usize| positions[at].map(|position| context.weight(position)).transpose();
    let (weight_ih, weight_hh, bias_ih, bias_hh, weight_hr) =
        (weight(0)?, weight(1)?, weight(2)?, weight(3)?, weight(4)?);
    let missing = || LayerError::MissingWeight { key: "weight_ih".to_owned() };
    let (weight_ih, weight_hh) = (weight_ih.ok_or_else(missing)?, weight_hh.ok_or_else(missing)?);
    write_linear(rows, &weight_ih, bias_ih, &buffers.from_input, context)?;
    let hidden = buffers.hidden.select(0, index)?;
    let cell_state = match network.cell {
        Cell::Lstm => buffers.cell_state.select(0, index)?,
        _ => buffers.cell_state,
    };
    let is_reverse = index % network.directions() == 1;
    let width = network.output_size();
    let columns = buffers.sequences[1].narrow(2, if is_reverse { width } else { 0 }, width)?;
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
    for at in 0..sizes.steps {
        let step = if is_reverse { sizes.steps - 1 - at } else { at };
        write_linear(&hidden, &weight_hh, bias_hh, &buffers.from_state, context)?;
        let state = if weight_hr.is_some() { buffers.unprojected } else { hidden };
        let arguments = [
            Argument::Read(buffers.from_input.select(0, step)?),
            Argument::Read(buffers.from_state),
            Argument::Write(cell_state),
            Argument::Write(state),
            Argument::Int(int(sizes.batch)?),
            Argument::Int(int(network.hidden_size)?),
        ];
        context.launch(&kernel, Grid::over(sizes.batch * network.hidden_size), &arguments)?;
        if let Some(weight_hr) = &weight_hr {
            write_linear(&buffers.unprojected, weight_hr, None, &hidden, context)?;
        }
        copy_as(&hidden, &columns.select(0, step)?, context)?;
    }
    Ok(())
}
