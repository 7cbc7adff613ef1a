//! The compiled form of an expression: a flat list of nodes, without names, brackets and recursion.

use crate::op::{FieldValue, LayerError, OperatorReader, Result, RuntimeParameter};
use ixion_kernels::quantized::PairOperation;
use ixion_pnnx::{Expr, Function};
use ixion_tensor::Scalar;

/// A node of a formula. Arguments are the positions of earlier nodes.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Node {
    /// An input of the operator.
    Input(usize),
    /// A literal.
    Number(Scalar),
    /// The size of an axis of a node's value.
    Size {
        /// The node; only its shape is used.
        of: usize,
        /// The axis; a negative value counts from the end.
        axis: i64,
    },
    /// A function of one argument, which is stored twice, or of two.
    Call {
        /// The function; never `size`.
        function: Function,
        /// The argument nodes.
        args: [usize; 2],
    },
}

/// Arithmetic with one result, the last node.
#[derive(Debug, Clone)]
pub(super) struct Formula {
    pub(super) nodes: Vec<Node>,
    /// For each node, whether its value is needed, and not only its shape.
    pub(super) needed: Vec<bool>,
}

/// An expression, ready to be evaluated.
#[derive(Debug, Clone)]
pub struct Compiled {
    pub(super) form: Form,
    pub(super) input_count: usize,
}

/// The three kinds of expressions.
#[derive(Debug, Clone)]
pub(super) enum Form {
    /// Arithmetic on tensors and numbers.
    Value(Formula),
    /// All sizes of a value: `size(x)`.
    Sizes(Formula),
    /// `[a,b,…]`.
    List(Vec<Formula>),
}

impl Compiled {
    /// Prepares an expression for evaluation.
    ///
    /// # Errors
    /// [`LayerError::Unsupported`] if the expression is not arithmetic: words, `None`, lists within lists or calls, lists of
    /// bools, or a computed axis of `size`.
    pub fn new(expr: &Expr) -> Result<Self> {
        let form = match expr {
            Expr::List(items) => Form::List(items.iter().map(list_item).collect::<Result<_, _>>()?),
            Expr::Call { function: Function::Size, args } if args.len() == 1 => {
                Form::Sizes(Formula::new(args.first().unwrap_or(expr))?)
            }
            _ => Form::Value(Formula::new(expr)?),
        };
        Ok(Self { form, input_count: expr.input_count() })
    }

    /// Parses and prepares the expression of a parameter.
    ///
    /// # Errors
    /// [`LayerError::InvalidParameter`] if the parameter is not an expression; else as [`Compiled::new`].
    pub(crate) fn parse(key: &'static str, parameter: &RuntimeParameter) -> Result<Self> {
        let expr = Expr::parse(parameter.raw()).map_err(|error| LayerError::InvalidParameter {
            key,
            found: format!("`{}`", shorten(parameter.raw())),
            reason: format!("column {}: {}", error.column, error.problem),
        })?;
        Self::new(&expr)
    }

    /// The number of inputs: one more than the largest `n` of `@n`.
    pub fn input_count(&self) -> usize {
        self.input_count
    }

    /// Returns true if the expression has one value that is computed from elements, and is not a list.
    pub(crate) fn is_arithmetic(&self) -> bool {
        matches!(self.form, Form::Value(_))
    }

    /// Returns true if the expression is arithmetic that does not depend on shapes.
    pub(crate) fn is_pointwise(&self) -> bool {
        match &self.form {
            Form::Value(formula) => !formula.nodes.iter().any(|node| matches!(node, Node::Size { .. })),
            _ => false,
        }
    }

    /// The added input and the bounds, if the expression is its first input, or the sum of this and another input, clamped
    /// between two bounds.
    pub(crate) fn bounded_sum(&self) -> Option<(Option<usize>, [f32; 2])> {
        let (added, function) = self.function_of_sum()?;
        let bounds = match function {
            None => [f32::NEG_INFINITY, f32::INFINITY],
            Some(Function::Relu) => [0.0, f32::INFINITY],
            Some(Function::Relu6) => [0.0, 6.0],
            Some(_) => return None,
        };
        Some((added, bounds))
    }

    /// The added input, if the expression is the sum of a function of the first input and another input; and the position of
    /// the function's node. The function does not change the element type.
    fn added_to_function(&self) -> Option<(usize, usize)> {
        let Form::Value(Formula { nodes, .. }) = &self.form else { return None };
        let Node::Call { function: Function::Add, args: [a, b] } = *nodes.last()? else { return None };
        let (added, function) = match (nodes.get(a)?, nodes.get(b)?) {
            (&Node::Input(added @ 1..), _) => (added, b),
            (_, &Node::Input(added @ 1..)) => (added, a),
            _ => return None,
        };
        let reads = |wanted: &dyn Fn(usize) -> bool| {
            nodes.iter().filter(|node| matches!(node, Node::Input(input) if wanted(*input))).count()
        };
        let is_alone = reads(&|input| input > 0) == 1 && reads(&|input| input == 0) > 0;
        let converts =
            |node: &Node| matches!(node, Node::Call { function: Function::Int | Function::Cast(_), .. });
        (is_alone && !nodes.iter().any(converts) && self.is_pointwise()).then_some((added, function))
    }

    /// The input that is added to a function of the first input, if that is all that the expression computes.
    pub(crate) fn added_input(&self) -> Option<usize> {
        Some(self.added_to_function()?.0)
    }

    /// The function of the first input to which [another](Compiled::added_input) is added.
    pub(crate) fn without_added(&self) -> Option<Self> {
        let (_, function) = self.added_to_function()?;
        let Form::Value(formula) = &self.form else { return None };
        let nodes = formula.nodes.get(..=function)?.to_vec();
        Some(Self { form: Form::Value(Formula::of(nodes)), input_count: self.input_count })
    }

    /// The operation and the bounds, if the expression is the sum or the product of its only two inputs, clamped between two
    /// bounds.
    pub(super) fn pair(&self) -> Option<(PairOperation, [f32; 2])> {
        let Form::Value(Formula { nodes, .. }) = &self.form else { return None };
        let (bounds, inner) = match *nodes.last()? {
            Node::Call { function: Function::Relu, args: [inner, _] } => ([0.0, f32::INFINITY], inner),
            Node::Call { function: Function::Relu6, args: [inner, _] } => ([0.0, 6.0], inner),
            _ => ([f32::NEG_INFINITY, f32::INFINITY], nodes.len() - 1),
        };
        let Node::Call { function, args } = *nodes.get(inner)? else { return None };
        let operation = match function {
            Function::Add => PairOperation::Sum,
            Function::Mul => PairOperation::Product,
            _ => return None,
        };
        let is_pair = matches!(
            args.map(|arg| nodes.get(arg)),
            [Some(Node::Input(0)), Some(Node::Input(1))] | [Some(Node::Input(1)), Some(Node::Input(0))]
        );
        (is_pair && self.input_count == 2).then_some((operation, bounds))
    }

    /// The added input and the function, if the expression is a function of its first input, or of the sum of this and another
    /// input. The function is one that products can fuse; `None` is the identity.
    pub(crate) fn function_of_sum(&self) -> Option<(Option<usize>, Option<Function>)> {
        let Form::Value(Formula { nodes, .. }) = &self.form else { return None };
        let (function, inner) = match *nodes.last()? {
            Node::Call {
                function: function @ (Function::Relu | Function::Relu6 | Function::GeluTanh),
                args: [inner, _],
            } => (Some(function), inner),
            _ => (None, nodes.len() - 1),
        };
        match *nodes.get(inner)? {
            Node::Input(0) => Some((None, function)),
            Node::Call { function: Function::Add, args } => match args.map(|arg| nodes.get(arg)) {
                [Some(Node::Input(0)), Some(&Node::Input(other))]
                | [Some(&Node::Input(other)), Some(Node::Input(0))]
                    if other != 0 =>
                {
                    Some((Some(other), function))
                }
                _ => None,
            },
            _ => None,
        }
    }
}

fn list_item(expr: &Expr) -> Result<Formula> {
    match expr {
        Expr::None | Expr::Word(_) | Expr::Bool(_) | Expr::List(_) => Err(LayerError::Unsupported(format!(
            "`{expr}` in a list: an expression supports lists of integers; masks, slices and nested lists are indices, \
             which only Tensor.index supports"
        ))),
        _ => Formula::new(expr),
    }
}

impl Formula {
    fn new(expr: &Expr) -> Result<Self> {
        let mut nodes = Vec::new();
        add(expr, &mut nodes)?;
        Ok(Self::of(nodes))
    }

    /// A formula whose result is the last node.
    fn of(nodes: Vec<Node>) -> Self {
        let mut needed = vec![false; nodes.len()];
        if let Some(last) = needed.last_mut() {
            *last = true;
        }
        for (index, node) in nodes.iter().enumerate().rev() {
            if let (true, Node::Call { args, .. }) = (needed[index], node) {
                args.iter().for_each(|&arg| needed[arg] = true);
            }
        }
        Self { nodes, needed }
    }

    /// Returns true if the elements of an input are needed.
    pub(super) fn reads(&self, input: usize) -> bool {
        let mut needed = self.nodes.iter().zip(&self.needed).filter(|(_, needed)| **needed);
        needed.any(|(node, _)| *node == Node::Input(input))
    }
}

/// Why `None` has no value: as an optional argument, it would have been read by the operator that it is for.
const LOST: &str = "expected a number; PNNX has lost a constant here, as it loses zero points of one element in \
    quantised ONNX files; export the PyTorch model itself, or an ONNX file of opset 21 whose `QuantizeLinear` has \
    `output_dtype` instead of a zero point";

/// Appends an expression after its arguments and returns its position. The parser limits the depth of the recursion.
fn add(expr: &Expr, nodes: &mut Vec<Node>) -> Result<usize> {
    let node = match expr {
        Expr::Input(position) => Node::Input(*position),
        Expr::Int(value) => Node::Number(Scalar::Int(*value)),
        Expr::Float(value) => Node::Number(Scalar::Float(*value)),
        Expr::Complex(value) => Node::Number(Scalar::Complex(*value)),
        Expr::Bool(value) => Node::Number(Scalar::Bool(*value)),
        Expr::Call { function: Function::Size, args } => match args.as_slice() {
            [of, Expr::Int(axis)] => Node::Size { of: add(of, nodes)?, axis: *axis },
            [_] => {
                return Err(unsupported(expr, "`size` of one argument is a list and can only stand alone"));
            }
            _ => return Err(unsupported(expr, "the axis of `size` must be an integer")),
        },
        Expr::Call { function, args } => match args.as_slice() {
            [x] => {
                let x = add(x, nodes)?;
                Node::Call { function: *function, args: [x, x] }
            }
            [a, b] => Node::Call { function: *function, args: [add(a, nodes)?, add(b, nodes)?] },
            [x, low, high] if *function == Function::Clamp => {
                // In two steps: the maximum with `low`, then the minimum with `high`.
                let bounded = [add(x, nodes)?, add(low, nodes)?];
                nodes.push(Node::Call { function: Function::Max, args: bounded });
                let bounded = nodes.len() - 1;
                Node::Call { function: Function::Min, args: [bounded, add(high, nodes)?] }
            }
            _ => return Err(unsupported(expr, "this function takes one or two arguments")),
        },
        Expr::List(_) => return Err(unsupported(expr, "a list can only be the whole expression")),
        Expr::None => return Err(unsupported(expr, LOST)),
        _ => return Err(unsupported(expr, "expected a number")),
    };
    nodes.push(node);
    Ok(nodes.len() - 1)
}

fn unsupported(expr: &Expr, reason: &str) -> LayerError {
    LayerError::Unsupported(format!("`{}` in an expression: {reason}", shorten(&expr.to_string())))
}

/// Messages quote at most this many characters.
const QUOTED: usize = 60;

fn shorten(text: &str) -> String {
    match text.char_indices().nth(QUOTED) {
        None => text.to_owned(),
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
    }
}

impl FieldValue for Compiled {
    const KIND: &'static str = "an expression";

    fn read(reader: &mut OperatorReader<'_>, key: &'static str) -> Result<Option<Self>> {
        let Some(parameter) = reader.param(key) else { return Ok(None) };
        let compiled = Self::parse(key, parameter)?;
        // An input keeps the name that it had before operators were fused; only its position matters.
        for name in ["input", "other"] {
            reader.input(name);
        }
        Ok(Some(compiled))
    }
}
