//! Recurrent networks: their attributes, and which inputs and outputs a file leaves out.

use super::activations::{Factors, Function};
use super::decompose::{Decompose, entry};
use super::decomposition::Decomposition;
use super::lowering::Source;
use super::recurrence::{Cell, OptionalInputs, Part, Recurrence};
use crate::op::{FieldValue, FromParameter, LayerError, OperatorReader, Result, RuntimeParameter};
use crate::support::arguments::InputCount;
use crate::support::choices::choices;
use ixion_tensor::Dim;
use std::ops::RangeInclusive;

choices! {
    /// The direction in which a sequence is read.
    pub enum RnnDirection {
        /// From the beginning.
        Forward = "forward",
        /// From the end.
        Reverse = "reverse",
        /// In both directions, with separate weights.
        Bidirectional = "bidirectional",
    }
}

/// Names of functions, such as `(Sigmoid,Tanh,Tanh)`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Functions(pub Vec<String>);

impl FromParameter for Functions {
    const KIND: &'static str = "a list of function names";

    fn from_parameter(parameter: &RuntimeParameter) -> Option<Self> {
        let raw = parameter.raw();
        let body = raw.strip_prefix('(').and_then(|rest| rest.strip_suffix(')')).unwrap_or(raw);
        let names = body.split(',').map(|name| name.trim().to_lowercase());
        Some(Self(names.filter(|name| !name.is_empty()).collect()))
    }
}

/// The results that the operator's outputs are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Results {
    /// The names from the file's `results`, which is added by hand.
    named: Option<Vec<String>>,
    /// The number of outputs.
    count: usize,
    /// The number of axes that the file records for the first output.
    rank: Option<usize>,
}

impl FieldValue for Results {
    const KIND: &'static str = "a list of `Y`, `Y_h` and `Y_c`";

    fn read(reader: &mut OperatorReader<'_>, key: &'static str) -> Result<Option<Self>> {
        let named = reader.param(key).map(|parameter| {
            let raw = parameter.raw().trim_matches(['(', ')']);
            raw.split(',').map(|name| name.trim().to_owned()).collect()
        });
        let rank = reader.output_shape(0).map(<[_]>::len);
        Ok(Some(Self { named, count: reader.num_outputs().max(1), rank }))
    }
}

impl Results {
    /// The result of each output. PNNX leaves out unused outputs, and does not record which are left.
    fn parts(&self, has_memory: bool) -> Result<Vec<Part>> {
        let part = |name: &String| match name.as_str() {
            "Y" => Some(Part::All),
            "Y_h" => Some(Part::Hidden),
            "Y_c" if has_memory => Some(Part::Memory),
            _ => None,
        };
        if let Some(named) = &self.named {
            let parts = named.iter().map(part).collect::<Option<Vec<Part>>>();
            return parts.filter(|parts| parts.len() == self.count).ok_or_else(|| {
                let reason = format!("expected a name for each of {} outputs", self.count);
                LayerError::invalid("results", format!("{named:?}"), reason)
            });
        }
        let (all, hidden, memory) = (Part::All, Part::Hidden, Part::Memory);
        Ok(match (has_memory, self.count, self.rank) {
            (_, 1, Some(4)) => vec![all],
            (false, 1, Some(3)) => vec![hidden],
            (false, 2, _) => vec![all, hidden],
            (true, 2, Some(3)) => vec![hidden, memory],
            (true, 3, _) => vec![all, hidden, memory],
            _ => {
                let which = if has_memory { "`Y`, `Y_h` and `Y_c`" } else { "`Y` and `Y_h`" };
                return Err(LayerError::Unsupported(format!(
                    "PNNX leaves out unused outputs, and this file does not specify which of {which} are left; \
                     name them in the operator's line of the .param file, such as `results=(Y_h)`"
                )));
            }
        })
    }
}

macro_rules! networks {
    ($($(#[doc = $doc:literal])* $name:ident for $op_type:literal with $default:expr; { $($fields:tt)* } is |$layer:ident| $cell:expr;)*) => {$(
        crate::operator! {
            $(#[doc = $doc])*
            pub struct $name for $op_type {
                /// H, the number of hidden units; that of the weights if absent.
                hidden_size: Option<usize> = None,
                /// Direction in which the sequence is read.
                direction: RnnDirection = RnnDirection::Forward,
                /// 0 if the first axis is the time steps, 1 if it is the batch.
                layout: i64 = 0,
                /// Activation functions of the gates, for each direction.
                activations: Option<Functions> = None,
                /// α of the functions that have one, in order; the defaults for those beyond the end.
                activation_alpha: Option<Vec<f64>> = None,
                /// β of the functions that have one, in order; the defaults for those beyond the end.
                activation_beta: Option<Vec<f64>> = None,
                /// Bound that the absolute values of sums are clipped to before activation functions.
                clip: Option<f64> = None,
                $($fields)*
                /// Number of inputs: the sequence, its weights, the weights of the state, and up to five more.
                inputs: InputCount,
                /// The results that the outputs are, if the file is ambiguous: `Y`, all states; `Y_h`, the last state;
                /// `Y_c`, the last cell state. PNNX does not write it.
                results: Results,
            }
            validate |layer| {
                if layer.clip.is_some_and(|clip| clip.is_nan() || clip <= 0.0) {
                    let found = format!("{:?}", layer.clip);
                    return Err(LayerError::invalid("clip", found, "it must be above 0"));
                }
                if !(0..=1).contains(&layer.layout) {
                    return Err(LayerError::invalid("layout", layer.layout, "it must be 0 or 1"));
                }
                let network = layer.network();
                network.functions()?;
                layer.results.parts(network.cell.has_memory()).map(drop)
            }
        }

        impl $name {
            fn network(&self) -> Network<'_> {
                let $layer = self;
                Network {
                    cell: $cell,
                    hidden_size: self.hidden_size,
                    direction: self.direction,
                    batch_first: self.layout == 1,
                    activations: self.activations.as_ref(),
                    alphas: self.activation_alpha.as_deref().unwrap_or_default(),
                    betas: self.activation_beta.as_deref().unwrap_or_default(),
                    clip: self.clip,
                    default: $default,
                }
            }
        }

        impl Decompose for $name {
            fn num_inputs(&self) -> Option<RangeInclusive<usize>> {
                Some(3..=8)
            }

            fn num_outputs(&self) -> usize {
                self.results.count
            }

            fn decompose(&self, decomposition: &mut Decomposition) -> Result<Vec<Source>> {
                let network = self.network();
                network.decompose(decomposition, self.results.parts(network.cell.has_memory())?)
            }
        }
    )*};
}

networks! {
    /// `RNN` (since 7): Elman network, hₜ = f(W·xₜ + R·hₜ₋₁ + b) with f = tanh by default. L×N×I gives all hₜ,
    /// L×directions×N×H, and the last ones, directions×N×H.
    Rnn for "RNN" with &["tanh"]; {} is |_layer| Cell::Rnn;

    /// `LSTM` (since 7): long short-term memory. L×N×I gives all hₜ, L×directions×N×H, the last ones, directions×N×H,
    /// and the last cₜ.
    Lstm for "LSTM" with &["sigmoid", "tanh", "tanh"]; {
        /// Whether the forget gate is 1 − the input gate.
        input_forget: i64 = 0,
    } is |layer| Cell::Lstm { input_forget: layer.input_forget != 0 };

    /// `GRU` (since 7): gated recurrent unit. L×N×I gives all hₜ, L×directions×N×H, and the last ones, directions×N×H.
    Gru for "GRU" with &["sigmoid", "tanh"]; {
        /// Whether the reset gate is applied after the product with the state, as in PyTorch, instead of to the state.
        linear_before_reset: i64 = 0,
    } is |layer| Cell::Gru { after_product: layer.linear_before_reset != 0 };
}

/// The attributes that the three operators share.
struct Network<'a> {
    cell: Cell,
    hidden_size: Option<usize>,
    direction: RnnDirection,
    batch_first: bool,
    activations: Option<&'a Functions>,
    alphas: &'a [f64],
    betas: &'a [f64],
    clip: Option<f64>,
    default: &'a [&'a str],
}

impl Network<'_> {
    /// For each direction, whether sequences are read from the end, and the functions of the gates.
    fn functions(&self) -> Result<Vec<(bool, Vec<Function>)>> {
        let directions: &[bool] = match self.direction {
            RnnDirection::Forward => &[false],
            RnnDirection::Reverse => &[true],
            RnnDirection::Bidirectional => &[false, true],
        };
        let each = self.default.len();
        let default =
            || self.default.iter().cycle().take(each * directions.len()).map(|name| (*name).to_owned());
        let names = self.activations.map_or_else(|| default().collect(), |found| found.0.clone());
        if names.len() != each * directions.len() {
            let reason = format!("expected {each} functions for each of {} directions", directions.len());
            return Err(LayerError::invalid("activations", format!("{names:?}"), reason));
        }
        let mut factors = Factors { alphas: self.alphas.iter(), betas: self.betas.iter() };
        let functions: Vec<Function> =
            names.iter().map(|name| Function::named(name, &mut factors)).collect::<Result<_, _>>()?;
        let of_each = functions.chunks(each).map(<[Function]>::to_vec);
        Ok(directions.iter().copied().zip(of_each).collect())
    }

    /// The inputs after the first three, for H hidden units. PNNX leaves out absent ones; shapes and types tell the
    /// others apart.
    fn optional_inputs(&self, decomposition: &Decomposition, hidden: &Dim) -> Result<OptionalInputs> {
        let mut optional_inputs = OptionalInputs::default();
        let biases = hidden.clone() * (2 * self.cell.gates());
        let has_memory = self.cell.has_memory();
        for position in 3..decomposition.inputs().len() {
            let meta = decomposition.meta(Source::Input(position))?;
            let last = meta.dims().last().cloned().unwrap_or(Dim::Fixed(1));
            let kind = match meta.rank() {
                1 if meta.dtype().is_integer() => &mut optional_inputs.lens,
                2 if optional_inputs.bias.is_none() && !last.differs(&biases) => &mut optional_inputs.bias,
                2 if has_memory && !last.differs(&(hidden.clone() * 3)) => &mut optional_inputs.peepholes,
                3 if optional_inputs.hidden.is_none() => &mut optional_inputs.hidden,
                3 if has_memory => &mut optional_inputs.memory,
                _ => &mut Some(position),
            };
            if kind.is_some() {
                return Err(LayerError::shape(format!("input {position}"), WANTED, meta));
            }
            *kind = Some(position);
        }
        if has_memory && optional_inputs.hidden.is_some() && optional_inputs.memory.is_none() {
            let reason =
                "the file gives only one of `initial_h` and `initial_c`, and does not say which; give both";
            return Err(LayerError::Unsupported(reason.to_owned()));
        }
        Ok(optional_inputs)
    }

    fn decompose(&self, decomposition: &mut Decomposition, parts: Vec<Part>) -> Result<Vec<Source>> {
        let weights = decomposition.meta(Source::Input(2))?;
        let [_, _, hidden] = weights.dims() else {
            return Err(LayerError::shape("the weights of the state", "directions×gates·H×H", weights));
        };
        if self.hidden_size.is_some_and(|size| hidden.differs(&Dim::from(size))) {
            let found = format!("{:?}", self.hidden_size);
            return Err(LayerError::invalid(
                "hidden_size",
                found,
                format!("the weights have {hidden} hidden units"),
            ));
        }
        let layer = Recurrence {
            cell: self.cell,
            directions: self.functions()?,
            batch_first: self.batch_first,
            clip: self.clip,
            optional_inputs: self.optional_inputs(decomposition, &hidden.clone())?,
            parts,
        };
        let count = layer.parts.len();
        let inputs: Vec<Source> = (0..decomposition.inputs().len()).map(Source::Input).collect();
        let results = decomposition.step(layer, &inputs)?;
        Ok((0..count).map(|output| results.output(output)).collect())
    }
}

/// The inputs that may follow the weights.
const WANTED: &str =
    "biases, sequence lengths, a state, or for an LSTM a cell state or peepholes, at most once each";

operators! { entry => Rnn, Lstm, Gru; category Weighted }
