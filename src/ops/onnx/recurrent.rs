//! Recurrent networks: their attributes, and which of their inputs and outputs a file leaves out.

use super::activations::{Factors, Function};
use super::recipe::{Recipe, Source};
use super::recurrence::{Beside, Cell, Part, Recurrence};
use super::translated::{Translate, entry};
use crate::op::{FieldValue, FromParameter, LayerError, OperatorReader, RuntimeParameter};
use crate::ops::support::arguments::InputCount;
use crate::ops::support::choices::choices;
use crate::tensor::Dim;
use std::ops::RangeInclusive;

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

/// Which results the operator's outputs are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Results {
    /// What the file says, by hand.
    named: Option<Vec<String>>,
    /// How many outputs there are.
    count: usize,
    /// How many axes the file records for the first.
    rank: Option<usize>,
}

impl FieldValue for Results {
    const KIND: &'static str = "a list of `Y`, `Y_h` and `Y_c`";

    fn read(reader: &mut OperatorReader<'_>, key: &'static str) -> Result<Option<Self>, LayerError> {
        let named = reader.param(key).map(|parameter| {
            let raw = parameter.raw().trim_matches(['(', ')']);
            raw.split(',').map(|name| name.trim().to_owned()).collect()
        });
        let rank = reader.output_shape(0).map(<[_]>::len);
        Ok(Some(Self { named, count: reader.num_outputs().max(1), rank }))
    }
}

impl Results {
    /// What the outputs are. PNNX leaves out those that nothing uses, and does not say which are left.
    fn parts(&self, has_memory: bool) -> Result<Vec<Part>, LayerError> {
        let part = |name: &String| match name.as_str() {
            "Y" => Some(Part::All),
            "Y_h" => Some(Part::Hidden),
            "Y_c" if has_memory => Some(Part::Memory),
            _ => None,
        };
        if let Some(named) = &self.named {
            let parts = named.iter().map(part).collect::<Option<Vec<Part>>>();
            return parts.filter(|parts| parts.len() == self.count).ok_or_else(|| {
                let reason = format!("a name is needed for each of {} outputs", self.count);
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
                    "PNNX leaves out results that nothing uses, and this file does not tell which of {which} are left; \
                     add it to the operator's line in the .param file, such as `results=(Y_h)`"
                )));
            }
        })
    }
}

macro_rules! networks {
    ($($(#[doc = $doc:literal])* $name:ident for $op_type:literal with $usual:expr; { $($fields:tt)* } is |$layer:ident| $cell:expr;)*) => {$(
        crate::operator! {
            $(#[doc = $doc])*
            pub struct $name for $op_type {
                /// H: number of hidden units; that of the weights where absent.
                hidden_size: Option<usize> = None,
                /// In which order the sequence is read.
                direction: Direction = Direction::Forward,
                /// 0 where the steps are the first axis, 1 where it is the batch.
                layout: i64 = 0,
                /// The functions of the gates, for each direction.
                activations: Option<Functions> = None,
                /// α of those functions that have one, one after the other; the usual ones where they end.
                activation_alpha: Option<Vec<f64>> = None,
                /// β of those functions that have one, one after the other; the usual ones where they end.
                activation_beta: Option<Vec<f64>> = None,
                /// Where sums are cut off before functions, above and below 0.
                clip: Option<f64> = None,
                $($fields)*
                /// How many inputs there are: the sequence, weights for it, weights for the state, and up to five more.
                inputs: InputCount,
                /// Which results the outputs are, where the file leaves it open: `Y`, all states; `Y_h`, the last; `Y_c`,
                /// the last memory. PNNX does not write it.
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
                    usual: $usual,
                }
            }
        }

        impl Translate for $name {
            fn num_inputs(&self) -> RangeInclusive<usize> {
                3..=8
            }

            fn num_outputs(&self) -> usize {
                self.results.count
            }

            fn translate(&self, recipe: &mut Recipe) -> Result<Vec<Source>, LayerError> {
                let network = self.network();
                network.translate(recipe, self.results.parts(network.cell.has_memory())?)
            }
        }
    )*};
}

networks! {
    /// `RNN` (since 7): hₜ = f(W·xₜ + R·hₜ₋₁ + b), where f is tanh unless the file says otherwise. L×N×I gives all hₜ,
    /// L×directions×N×H, and the last ones, directions×N×H.
    Rnn for "RNN" with &["tanh"]; {} is |_layer| Cell::Rnn;

    /// `LSTM` (since 7): long short-term memory. L×N×I gives all hₜ, L×directions×N×H, the last ones, directions×N×H, and
    /// the last cₜ.
    Lstm for "LSTM" with &["sigmoid", "tanh", "tanh"]; {
        /// Whether what the gate of the input leaves is what is kept of the memory.
        input_forget: i64 = 0,
    } is |layer| Cell::Lstm { input_forget: layer.input_forget != 0 };

    /// `GRU` (since 7): the gated recurrent unit. L×N×I gives all hₜ, L×directions×N×H, and the last ones,
    /// directions×N×H.
    Gru for "GRU" with &["sigmoid", "tanh"]; {
        /// Whether the reset gate multiplies the product of the state, as in PyTorch, instead of the state.
        linear_before_reset: i64 = 0,
    } is |layer| Cell::Gru { after_product: layer.linear_before_reset != 0 };
}

/// What the three have in common.
struct Network<'a> {
    cell: Cell,
    hidden_size: Option<usize>,
    direction: Direction,
    batch_first: bool,
    activations: Option<&'a Functions>,
    alphas: &'a [f64],
    betas: &'a [f64],
    clip: Option<f64>,
    usual: &'a [&'a str],
}

impl Network<'_> {
    /// For each direction whether sequences are read from their ends, and the functions of its gates.
    fn functions(&self) -> Result<Vec<(bool, Vec<Function>)>, LayerError> {
        let directions: &[bool] = match self.direction {
            Direction::Forward => &[false],
            Direction::Reverse => &[true],
            Direction::Bidirectional => &[false, true],
        };
        let each = self.usual.len();
        let usual = || self.usual.iter().cycle().take(each * directions.len()).map(|name| (*name).to_owned());
        let names = self.activations.map_or_else(|| usual().collect(), |found| found.0.clone());
        if names.len() != each * directions.len() {
            let reason = format!("{each} functions are needed for each of {} directions", directions.len());
            return Err(LayerError::invalid("activations", format!("{names:?}"), reason));
        }
        let mut factors = Factors { alphas: self.alphas.iter(), betas: self.betas.iter() };
        let functions: Vec<Function> =
            names.iter().map(|name| Function::named(name, &mut factors)).collect::<Result<_, _>>()?;
        let of_each = functions.chunks(each).map(<[Function]>::to_vec);
        Ok(directions.iter().copied().zip(of_each).collect())
    }

    /// What the inputs behind the first three are, for H hidden units: PNNX leaves out those that are not there, and
    /// shapes and types tell the others apart.
    fn beside(&self, recipe: &Recipe, hidden: &Dim) -> Result<Beside, LayerError> {
        let mut beside = Beside::default();
        let biases = hidden.clone() * (2 * self.cell.gates());
        let has_memory = self.cell.has_memory();
        for position in 3..recipe.inputs().len() {
            let meta = recipe.meta(Source::Input(position))?;
            let last = meta.dims().last().cloned().unwrap_or(Dim::Fixed(1));
            let kind = match meta.rank() {
                1 if meta.dtype().is_integer() => &mut beside.lens,
                2 if beside.bias.is_none() && !last.differs(&biases) => &mut beside.bias,
                2 if has_memory && !last.differs(&(hidden.clone() * 3)) => &mut beside.peepholes,
                3 if beside.hidden.is_none() => &mut beside.hidden,
                3 if has_memory => &mut beside.memory,
                _ => &mut Some(position),
            };
            if kind.is_some() {
                return Err(LayerError::shape(format!("input {position}"), WANTED, meta));
            }
            *kind = Some(position);
        }
        if has_memory && beside.hidden.is_some() && beside.memory.is_none() {
            let reason =
                "it has one of `initial_h` and `initial_c`, and the file does not tell which; give both";
            return Err(LayerError::Unsupported(reason.to_owned()));
        }
        Ok(beside)
    }

    fn translate(&self, recipe: &mut Recipe, parts: Vec<Part>) -> Result<Vec<Source>, LayerError> {
        let weights = recipe.meta(Source::Input(2))?;
        let [_, _, hidden] = weights.dims() else {
            return Err(LayerError::shape("the weights of the state", "directions×gates·H×H", weights));
        };
        if self.hidden_size.is_some_and(|size| hidden.differs(&Dim::from(size))) {
            let found = format!("{:?}", self.hidden_size);
            return Err(LayerError::invalid("hidden_size", found, format!("the weights are of {hidden}")));
        }
        let layer = Recurrence {
            cell: self.cell,
            directions: self.functions()?,
            batch_first: self.batch_first,
            clip: self.clip,
            beside: self.beside(recipe, &hidden.clone())?,
            parts,
        };
        let count = layer.parts.len();
        let inputs: Vec<Source> = (0..recipe.inputs().len()).map(Source::Input).collect();
        let made = recipe.step(layer, &inputs)?;
        Ok((0..count).map(|output| made.output(output)).collect())
    }
}

/// What inputs behind the weights may be.
const WANTED: &str = "biases, lengths of sequences, a state, or of an LSTM a memory or peepholes, each once";

operators! { entry => Rnn, Lstm, Gru }
