//! Patterns: pieces of a graph, written as PNNX writes models.

mod compare;
mod expression;
mod line;
mod parse;
mod solve;
mod value;

pub use compare::{Keyed, bind_operand, match_params, used_elsewhere};
pub use value::{Captures, ValuePattern, capture, items, same};

use line::variants;
pub(super) use line::{Line, Word, WordKind, is_name, read_body, read_lines};
pub(super) use solve::{Found, Solver};

use super::PatternError;
use crate::pnnx::Expr;
use crate::tensor::DType;

/// A piece of a graph, written as PNNX writes models. See the [module `passes`](super) for a pass made of one.
///
/// ```text
/// 7767517
/// 4 4
/// pnnx.Input          input   0 2 x b
/// nn.Linear           linear  1 1 x a in_features=%k out_features=* bias=False @weight
/// pnnx.Expression     add     2 1 a b y expr=add(@0,@1) #a=(?,?,%n)f32
/// pnnx.Output         output  1 0 y
/// ```
///
/// | in the text | meaning |
/// |---|---|
/// | `nn.ReLU\|F.relu` | one of these types |
/// | `torch.mul~` | two inputs, either way round |
/// | `?pnnx.Expression` | an operator that may be missing: who would read its result reads its first input |
/// | `=Tensor.reshape` | an operator that stays as it is; its result may be used elsewhere |
/// | `2 1 x ... y` | any further inputs behind `x`; of a `pnnx.Expression` with `expr=*`, anywhere among them |
/// | `$weight=w` | `w` is the input of this argument name, wherever it stands; `$other\|mat2=w` of one of these; others are matched by position |
/// | `key=value` | a parameter of this value; `1` and `1.0` are the same |
/// | `key=*` | a parameter of any value |
/// | `key=%x` | captures the value; where `%x` stands twice, both must be equal |
/// | `key=(%a,1,*)` | a list, item by item |
/// | `expr=add(@0,mul(@1,%x))` | the expression of a `pnnx.Expression`: `@0` is the pattern's first input, sums and products match either way round, `%x` captures a number |
/// | `?key=value` | the same, where the key is there |
/// | `@weight` | an attribute, which can be asked for later; `@weight=(%k,?)f32` says more of it |
/// | `?@bias` | the same, where it is there |
/// | `%*=%*` | any further parameters and attributes |
/// | `#a=(1,?,%n)f32` | what is known of an operand: element type, rank, dimensions; `#a=(*)f32` leaves the rank open |
///
/// Without `%*=%*`, a parameter or attribute that the pattern does not name makes it not match: so no pass fires where
/// it would forget a setting. Operands between the operators of a pattern must not be used elsewhere, nor returned by the
/// model.
///
/// ```
/// use ixion::passes::Pattern;
/// let text = "7767517\n3 2\npnnx.Input in 0 1 x\nF.relu relu 1 1 x y\npnnx.Output out 1 0 y\n";
/// assert_eq!(Pattern::parse(text)?.operator_names().collect::<Vec<_>>(), ["relu"]);
/// # Ok::<(), ixion::passes::PatternError>(())
/// ```
#[derive(Debug, Clone)]
pub struct Pattern {
    operators: Vec<OperatorPattern>,
    operands: Vec<String>,
    inputs: Vec<usize>,
    outputs: Vec<usize>,
    facts: Vec<FactPattern>,
}

/// One operator of a pattern. Operands are positions in the pattern's list.
#[derive(Debug, Clone)]
struct OperatorPattern {
    name: String,
    types: Vec<String>,
    either_way: bool,
    stays: bool,
    inputs: Vec<(Option<String>, usize)>,
    further: bool,
    outputs: Vec<usize>,
    params: Vec<Keyed<ValuePattern>>,
    /// What `expr` says, where it is a tree to be compared.
    expression: Option<Expr>,
    attrs: Vec<Keyed<Option<TypePattern>>>,
    open: bool,
}

/// Element type and sizes.
#[derive(Debug, Clone)]
struct TypePattern {
    dtype: Option<DType>,
    /// None where the rank is open.
    dims: Option<Vec<DimPattern>>,
}

#[derive(Debug, Clone)]
enum DimPattern {
    Any,
    Fixed(i64),
    Capture(String),
}

/// What must be known of an operand.
#[derive(Debug, Clone)]
struct FactPattern {
    operand: usize,
    wanted: TypePattern,
}

impl Pattern {
    /// Reads a pattern, as if no operator could be missing.
    ///
    /// # Errors
    /// A [`PatternError`] with the line.
    pub fn parse(text: &str) -> Result<Self, PatternError> {
        parse::parse(&read_lines(text)?)
    }

    /// The pattern with and without the operators that may be missing, those with most of them first.
    pub(super) fn variants(text: &str) -> Result<Vec<Self>, PatternError> {
        variants(read_lines(text)?)?.iter().map(|lines| parse::parse(lines)).collect()
    }

    /// The names of its operators, in their order.
    pub fn operator_names(&self) -> impl Iterator<Item = &str> {
        self.operators.iter().map(|operator| operator.name.as_str())
    }

    fn operator(&self, name: &str) -> Option<usize> {
        self.operators.iter().position(|operator| operator.name == name)
    }

    /// How many inputs the pattern gives to one of its operators, `...` left out.
    pub(super) fn input_count(&self, operator: &str) -> usize {
        let found = self.operator(operator).and_then(|at| self.operators.get(at));
        found.map_or(0, |operator| operator.inputs.len())
    }

    fn operand(&self, name: &str) -> Option<usize> {
        self.operands.iter().position(|operand| operand == name)
    }

    fn producer(&self, operand: usize) -> Option<usize> {
        self.operators.iter().position(|operator| operator.outputs.contains(&operand))
    }

    fn is_interior(&self, operand: usize) -> bool {
        let producer = self.producer(operand).and_then(|at| self.operators.get(at));
        !self.outputs.contains(&operand) && producer.is_some_and(|producer| !producer.stays)
    }
}
