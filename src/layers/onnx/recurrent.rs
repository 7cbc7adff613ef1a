//! Recurrent networks with ONNX's order of gates and axes.

use super::recipe::{Recipe, Source};
use super::steps::{InShape, Zeroed};
use super::translated::{Translate, register as add};
use crate::graph::{CpuLayer, FieldValue, FromOperator, FromParameter, LayerError, NO_KEY, OperatorReader};
use crate::graph::{Registry, RegistryError, RuntimeParameter};
use crate::layers::arguments::{Argument, InputCount};
use crate::layers::axes::{Permute, Transpose};
use crate::layers::choices::choices;
use crate::layers::concatenation::Cat;
use crate::layers::parts::Narrow;
use crate::layers::recurrent::{GruFunction, LstmFunction, RnnReluFunction, RnnTanhFunction};
use crate::layers::repetition::Flip;
use crate::layers::slicing::{Indices, Select};
use crate::tensor::Dim;
use std::ops::RangeInclusive;

const X: Source = Source::Input(0);

choices! {
    /// In which order a sequence is read.
    pub enum Direction {
        /// From its beginning.
        Forward = "forward",
        /// From its end.
        Reverse = "reverse",
        /// Both, each with weights of its own.
        Bidirectional = "bidirectional",
    }
}

/// Names of functions, such as `(Sigmoid,Tanh,Tanh)`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Functions(pub Vec<String>);

impl FromParameter for Functions {
    const KIND: &'static str = "a list of names of functions";

    fn from_parameter(parameter: &RuntimeParameter) -> Option<Self> {
        let raw = parameter.raw();
        let body = raw.strip_prefix('(').and_then(|rest| rest.strip_suffix(')')).unwrap_or(raw);
        let names = body.split(',').map(|name| name.trim().to_lowercase());
        Some(Self(names.filter(|name| !name.is_empty()).collect()))
    }
}

/// One result of a recurrent network.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    /// The states of all steps.
    All,
    /// The last state.
    Hidden,
    /// The last memory of an LSTM.
    Memory,
}

/// Which results the operator's outputs are. PNNX leaves out those that nothing uses; their recorded ranks tell them apart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Results(Vec<Part>);

impl FieldValue for Results {
    const KIND: &'static str = NO_KEY;

    fn read(reader: &mut OperatorReader<'_>, _: &'static str) -> Result<Option<Self>, LayerError> {
        let is_state = reader.output_shape(0).is_some_and(|shape| shape.len() == 3);
        let parts: &[Part] =
            if is_state { &[Part::Hidden, Part::Memory] } else { &[Part::All, Part::Hidden, Part::Memory] };
        Ok(Some(Self(parts.iter().copied().take(reader.num_outputs().max(1)).collect())))
    }
}

macro_rules! networks {
    ($($(#[doc = $doc:literal])* $name:ident for $op_type:literal with $gates:expr, $usual:expr; { $($fields:tt)* })*) => {$(
        crate::operator! {
            $(#[doc = $doc])*
            pub struct $name for $op_type {
                /// H: number of hidden units; that of the weights where absent.
                hidden_size: Option<usize> = None,
                /// In which order the sequence is read.
                direction: Direction = Direction::Forward,
                /// 0 where the steps are the first axis, 1 where it is the batch.
                layout: i64 = 0,
                /// The functions of the gates; only the usual ones can be run.
                activations: Option<Functions> = None,
                /// Not supported: where sums are cut off.
                clip: Option<f64> = None,
                $($fields)*
                /// How many inputs there are: the sequence, weights for it, weights for the state, and up to five more.
                inputs: InputCount,
                /// Which results the outputs are.
                results as "outputs": Results,
            }
            validate |layer| {
                if layer.clip.is_some_and(|clip| clip != 0.0) {
                    return Err(LayerError::Unsupported("`clip` is not supported".to_owned()));
                }
                if !(0..=1).contains(&layer.layout) {
                    return Err(LayerError::invalid("layout", layer.layout, "it must be 0 or 1"));
                }
                Ok(())
            }
        }

        impl $name {
            fn network(&self) -> Network<'_> {
                Network {
                    gates: $gates,
                    direction: self.direction,
                    batch_first: self.layout == 1,
                    activations: self.activations.as_ref(),
                    usual: $usual,
                    results: &self.results.0,
                }
            }
        }
    )*};
}

networks! {
    /// `RNN` (since 1): hₜ = tanh(W·xₜ + R·hₜ₋₁ + b), or relu of it. L×N×I gives all hₜ, L×directions×N×H, and the last
    /// ones, directions×N×H.
    Rnn for "RNN" with &[0], &["tanh"]; {}

    /// `LSTM` (since 1): long short-term memory. L×N×I gives all hₜ, L×directions×N×H, the last ones, directions×N×H, and
    /// the last cₜ.
    Lstm for "LSTM" with &[0, 2, 3, 1], &["sigmoid", "tanh", "tanh"]; {
        /// Not supported: whether the gate of the input is what that of the memory leaves.
        input_forget: i64 = 0,
    }

    /// `GRU` (since 1): the gated recurrent unit, in the form that multiplies after the product. L×N×I gives all hₜ,
    /// L×directions×N×H, and the last ones, directions×N×H.
    Gru for "GRU" with &[1, 0, 2], &["sigmoid", "tanh"]; {
        /// Whether the reset gate multiplies after the product, as PyTorch does; nothing else can be run.
        linear_before_reset: i64 = 0,
    }
}

/// What the three have in common.
struct Network<'a> {
    /// Where each of PyTorch's gates stands among ONNX's.
    gates: &'a [usize],
    direction: Direction,
    batch_first: bool,
    activations: Option<&'a Functions>,
    usual: &'a [&'a str],
    results: &'a [Part],
}

/// The inputs behind the weights, told apart by their shapes and types.
#[derive(Default)]
struct Beside {
    bias: Option<Source>,
    hidden: Option<Source>,
    memory: Option<Source>,
}

impl Network<'_> {
    fn directions(&self) -> usize {
        if self.direction == Direction::Bidirectional { 2 } else { 1 }
    }

    /// Refuses functions other than `usual`.
    fn check(&self, usual: &[&str]) -> Result<(), LayerError> {
        let Some(Functions(found)) = self.activations else { return Ok(()) };
        let wanted = usual.iter().cycle().take(usual.len() * self.directions());
        if found.iter().map(String::as_str).eq(wanted.copied()) {
            return Ok(());
        }
        let reason = format!("only {usual:?} for each direction can be run");
        Err(LayerError::invalid("activations", format!("{found:?}"), reason))
    }

    /// What the inputs behind the first three are, for H hidden units.
    fn beside(&self, recipe: &Recipe, hidden: &Dim) -> Result<Beside, LayerError> {
        let mut beside = Beside::default();
        let rows = hidden.clone() * (2 * self.gates.len());
        for position in 3..recipe.inputs().len() {
            let (source, meta) = (Source::Input(position), recipe.meta(Source::Input(position))?);
            let last = meta.dims().last().cloned().unwrap_or(Dim::Fixed(1));
            match meta.rank() {
                2 if beside.bias.is_none() && !last.differs(&rows) => beside.bias = Some(source),
                3 if beside.hidden.is_none() => beside.hidden = Some(source),
                3 if beside.memory.is_none() && self.gates.len() == 4 => beside.memory = Some(source),
                _ => {
                    let what = format!("input {position}");
                    let wanted = "a bias or a state (lengths of sequences and peepholes are not supported)";
                    return Err(LayerError::shape(what, wanted, meta));
                }
            }
        }
        Ok(beside)
    }

    /// Rows of all gates of one direction, in PyTorch's order.
    fn turned(&self, recipe: &mut Recipe, weights: Source, hidden: usize) -> Result<Source, LayerError> {
        let signed = |number: usize| i64::try_from(number).unwrap_or(i64::MAX);
        let mut gates = Vec::with_capacity(self.gates.len());
        for gate in self.gates {
            let start = signed(gate.saturating_mul(hidden));
            gates.push(recipe.then(Narrow { dim: 0, start, length: hidden }, &[weights])?);
        }
        match gates.as_slice() {
            [only] => Ok(*only),
            gates => recipe.then(Cat { dim: 0 }, gates),
        }
    }

    /// PyTorch's layer of this network.
    fn run<L: FromOperator + CpuLayer + 'static>(
        &self,
        recipe: &mut Recipe,
    ) -> Result<Vec<Source>, LayerError> {
        let (w, r) = (Source::Input(1), Source::Input(2));
        let meta = recipe.meta(r)?.clone();
        let [directions, _, hidden] = meta.dims() else {
            return Err(LayerError::shape("the weights of the state", "directions×gates·H×H", meta));
        };
        let Some(units) = hidden.fixed().and_then(|len| usize::try_from(len).ok()) else {
            return Err(LayerError::shape(
                "the weights of the state",
                "a known number of hidden units",
                meta,
            ));
        };
        if directions.differs(&Dim::from(self.directions())) {
            let wanted = format!("{} directions", self.directions());
            return Err(LayerError::shape("the weights of the state", wanted, meta));
        }
        let beside = self.beside(recipe, hidden)?;
        let x = self.by_steps(recipe, X)?;
        let [steps, batch, _] = recipe.meta(x)?.dims() else {
            return Err(LayerError::shape("the sequence", "three axes", recipe.meta(x)?));
        };
        let (steps, batch) = (steps.clone(), batch.clone());
        let state = vec![Dim::from(self.directions()), batch.clone(), hidden.clone()];
        let is_reverse = self.direction == Direction::Reverse;
        let x = if is_reverse { recipe.then(Flip { dims: vec![0] }, &[x])? } else { x };
        let mut inputs = vec![(None, x)];
        inputs.push((Some("hx"), self.state(recipe, beside.hidden, &state)?));
        if self.gates.len() == 4 {
            inputs.push((None, self.state(recipe, beside.memory, &state)?));
        }
        let weights = self.weights(recipe, [Some(w), Some(r), beside.bias], units)?;
        inputs.extend(
            weights.into_iter().enumerate().map(|(at, weight)| ((at == 0).then_some("params"), weight)),
        );
        let yes = |truth: bool| if truth { "True" } else { "False" };
        let params =
            [("has_biases", yes(beside.bias.is_some())), ("bidirectional", yes(self.directions() == 2))];
        let made = recipe.call::<L>(&params, &inputs, if self.gates.len() == 4 { 3 } else { 2 })?;
        let mut outputs = Vec::with_capacity(self.results.len());
        for part in self.results {
            outputs.push(match part {
                Part::All => {
                    let both =
                        vec![steps.clone(), batch.clone(), Dim::from(self.directions()), hidden.clone()];
                    let parts = recipe.step(InShape(both), &[made])?;
                    let parts =
                        if is_reverse { recipe.then(Flip { dims: vec![0] }, &[parts])? } else { parts };
                    let dims = if self.batch_first { vec![1, 0, 2, 3] } else { vec![0, 2, 1, 3] };
                    recipe.then(Permute { dims }, &[parts])?
                }
                Part::Hidden => self.by_steps(recipe, made.output(1))?,
                Part::Memory => self.by_steps(recipe, made.output(2))?,
            });
        }
        Ok(outputs)
    }

    /// The first two axes in the other order where the batch comes first.
    fn by_steps(&self, recipe: &mut Recipe, x: Source) -> Result<Source, LayerError> {
        match self.batch_first {
            true => recipe.then(Transpose { dim0: 0, dim1: 1 }, &[x]),
            false => Ok(x),
        }
    }

    /// A state that is given, or zeros.
    fn state(&self, recipe: &mut Recipe, given: Option<Source>, dims: &[Dim]) -> Result<Source, LayerError> {
        match given {
            Some(given) => self.by_steps(recipe, given),
            None => recipe.step(Zeroed(dims.to_vec()), &[X]),
        }
    }

    /// The weights of all directions in PyTorch's order.
    fn weights(
        &self,
        recipe: &mut Recipe,
        given: [Option<Source>; 3],
        units: usize,
    ) -> Result<Vec<Source>, LayerError> {
        let mut weights = Vec::new();
        for direction in 0..self.directions() {
            let at = i64::try_from(direction).unwrap_or(0);
            for (kind, given) in given.iter().enumerate() {
                let Some(given) = given else { continue };
                let of_one = recipe.then(select(at), &[*given])?;
                if kind < 2 {
                    weights.push(self.turned(recipe, of_one, units)?);
                    continue;
                }
                let length = units.saturating_mul(self.gates.len());
                for half in 0..2 {
                    let start = i64::try_from(length.saturating_mul(half)).unwrap_or(i64::MAX);
                    let bias = recipe.then(Narrow { dim: 0, start, length }, &[of_one])?;
                    weights.push(self.turned(recipe, bias, units)?);
                }
            }
        }
        Ok(weights)
    }
}

/// One part along the first axis.
fn select(index: i64) -> Select {
    Select { dim: 0, index: Argument::Value(Indices::One(index)) }
}

macro_rules! translated {
    ($($name:ident by |$layer:ident, $recipe:ident| $body:block)*) => {$(
        impl Translate for $name {
            fn num_inputs(&self) -> RangeInclusive<usize> {
                3..=8
            }

            fn num_outputs(&self) -> usize {
                self.results.0.len()
            }

            fn translate(&self, $recipe: &mut Recipe) -> Result<Vec<Source>, LayerError> {
                let $layer = self;
                $body
            }
        }
    )*};
}

translated! {
    Rnn by |layer, recipe| {
        let network = layer.network();
        if network.check(&["relu"]).is_ok() && layer.activations.is_some() {
            return network.run::<RnnReluFunction>(recipe);
        }
        network.check(network.usual)?;
        network.run::<RnnTanhFunction>(recipe)
    }
    Lstm by |layer, recipe| {
        let network = layer.network();
        network.check(network.usual)?;
        if layer.input_forget != 0 {
            return Err(LayerError::invalid("input_forget", layer.input_forget, "only 0 can be run"));
        }
        network.run::<LstmFunction>(recipe)
    }
    Gru by |layer, recipe| {
        let network = layer.network();
        network.check(network.usual)?;
        if layer.linear_before_reset == 0 {
            let reason = "only 1 can be run: the reset gate multiplies after the product, as in PyTorch";
            return Err(LayerError::invalid("linear_before_reset", 0, reason));
        }
        network.run::<GruFunction>(recipe)
    }
}

/// Registers the operators of this family.
pub(super) fn register(registry: &mut Registry) -> Result<(), RegistryError> {
    add::<Rnn>(registry)?;
    add::<Lstm>(registry)?;
    add::<Gru>(registry)
}
