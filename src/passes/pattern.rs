//! Patterns: subgraphs to search for, in the syntax of a `.param` file.

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

/// A subgraph to search for, in the syntax of a `.param` file. See the [module `passes`](super) for a pass made of one.
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
/// | `torch.mul~` | two inputs, in either order |
/// | `?pnnx.Expression` | an optional operator: if it is missing, consumers of its result read its first input |
/// | `=Tensor.reshape` | an operator that is kept; its result may be used elsewhere |
/// | `2 1 x ... y` | any further inputs after `x`; for a `pnnx.Expression` with `expr=*`, anywhere among its inputs |
/// | `$weight=w` | `w` is the input of this argument name, at any position; `$other\|mat2=w` allows either name; inputs without a name are matched by position |
/// | `key=value` | a parameter of this value; `1` and `1.0` are equal |
/// | `key=*` | a parameter of any value |
/// | `key=%x` | captures the value; all values captured as `%x` must be equal |
/// | `key=(%a,1,*)` | a list, item by item |
/// | `expr=add(@0,mul(@1,%x))` | the expression of a `pnnx.Expression`: `@0` is the pattern's first input, the arguments of sums and products match in either order, `%x` captures a number |
/// | `?key=value` | an optional parameter: must have this value if present |
/// | `@weight` | an attribute, which checks and replacements can read; `@weight=(%k,?)f32` also matches its shape and element type |
/// | `?@bias` | an optional attribute |
/// | `%*=%*` | any further parameters and attributes |
/// | `#a=(1,?,%n)f32` | an operand's element type, rank and dimensions, which must be known; `#a=(*)f32` accepts any rank |
///
/// Without `%*=%*`, an operator with a parameter or attribute that the pattern does not name does not match, so that no
/// pass drops a setting. Operands between the operators of a pattern must neither be used elsewhere nor be returned by
/// the model.
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
    /// The expression tree to match, if `expr` has one.
    expression: Option<Expr>,
    attrs: Vec<Keyed<Option<TypePattern>>>,
    open: bool,
}

/// The required element type and dimensions.
#[derive(Debug, Clone)]
struct TypePattern {
    dtype: Option<DType>,
    /// `None` if any rank matches.
    dims: Option<Vec<DimPattern>>,
}

#[derive(Debug, Clone)]
enum DimPattern {
    Any,
    Fixed(i64),
    Capture(String),
}

/// The required element type and dimensions of an operand.
#[derive(Debug, Clone)]
struct FactPattern {
    operand: usize,
    wanted: TypePattern,
}

impl Pattern {
    /// Parses a pattern, treating optional operators as required.
    ///
    /// # Errors
    /// A [`PatternError`] with the line number.
    pub fn parse(text: &str) -> Result<Self, PatternError> {
        parse::parse(&read_lines(text)?)
    }

    /// All variants of a pattern, with and without its optional operators. Those with most operators come first.
    pub(super) fn variants(text: &str) -> Result<Vec<Self>, PatternError> {
        variants(read_lines(text)?)?.iter().map(|lines| parse::parse(lines)).collect()
    }

    /// The names of its operators, in order.
    pub fn operator_names(&self) -> impl Iterator<Item = &str> {
        self.operators.iter().map(|operator| operator.name.as_str())
    }

    fn operator(&self, name: &str) -> Option<usize> {
        self.operators.iter().position(|operator| operator.name == name)
    }

    /// The number of inputs that the pattern names for one of its operators, not counting `...`.
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
