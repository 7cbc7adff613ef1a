//! Expressions as Python arithmetic.

use super::kind::Kind;
use super::literal;
use crate::expression::{Expr, Function};
use ixion_tensor::DType;

/// An input of an expression.
pub(super) struct Input {
    /// Its variable, or a constant.
    pub(super) text: String,
    pub(super) kind: Kind,
    /// Whether the file records axes.
    pub(super) has_axes: bool,
}

/// A piece of Python source and its precedence: the higher `strength` is, the tighter it binds.
#[derive(Debug)]
pub(super) struct Piece {
    pub(super) text: String,
    strength: u8,
    pub(super) kind: Kind,
    has_axes: bool,
}

/// The precedence of names, literals, calls and everything in brackets.
const ATOM: u8 = 10;
/// The precedence of a sign.
const SIGN: u8 = 7;

/// The Python source of an expression.
pub(super) fn piece(expr: &Expr, inputs: &[Input]) -> Piece {
    match expr {
        Expr::Input(index) => match inputs.get(*index) {
            Some(input) => Piece { has_axes: input.has_axes, ..signed(input.text.clone(), input.kind) },
            None => Piece::atom(format!("_missing_input_{index}"), Kind::Other),
        },
        Expr::Int(value) => signed(value.to_string(), Kind::Number),
        Expr::Float(value) => signed(literal::float(*value), Kind::Number),
        Expr::Complex(value) => Piece::atom(literal::complex(*value), Kind::Number),
        Expr::Bool(value) => Piece::atom(literal::bool(*value).to_owned(), Kind::Number),
        Expr::None => Piece::atom("None".to_owned(), Kind::Other),
        Expr::Word(word) => Piece::atom(literal::word(word), Kind::Other),
        Expr::List(items) => {
            let items: Vec<Piece> = items.iter().map(|item| piece(item, inputs)).collect();
            let has_tensor = items.iter().any(|item| item.kind == Kind::Tensor);
            let item = |item: &Piece| match item.kind {
                Kind::Number if has_tensor && item.has_axes => one_element(&item.text),
                _ => item.text.clone(),
            };
            let items: Vec<String> = items.iter().map(item).collect();
            Piece::atom(format!("[{}]", items.join(", ")), Kind::List)
        }
        Expr::Call { function, args } => {
            let args: Vec<Piece> = args.iter().map(|arg| piece(arg, inputs)).collect();
            call(*function, &args)
        }
    }
}

/// A name or a number. A negative number has the precedence of a sign: `(-2) ** x`.
fn signed(text: String, kind: Kind) -> Piece {
    let strength = if text.starts_with('-') { SIGN } else { ATOM };
    Piece { strength, ..Piece::atom(text, kind) }
}

impl Piece {
    fn atom(text: String, kind: Kind) -> Self {
        Self { text, strength: ATOM, kind, has_axes: false }
    }

    /// The text, in brackets if its precedence is below `least`.
    fn within(&self, least: u8) -> String {
        if self.strength >= least { self.text.clone() } else { format!("({})", self.text) }
    }

    /// The value as a tensor, for PyTorch's functions, which do not accept anything else.
    fn tensor(&self) -> Self {
        match self.kind {
            Kind::Tensor => self.like(self.text.clone(), self.strength),
            _ => self.like(as_tensor(&self.text), ATOM),
        }
    }

    /// The value as an operand of Python's operators, which would concatenate lists.
    fn operand(&self) -> Self {
        match self.kind {
            Kind::List => self.tensor(),
            _ => self.like(self.text.clone(), self.strength),
        }
    }

    fn like(&self, text: String, strength: u8) -> Self {
        Self { text, strength, kind: self.kind, has_axes: self.has_axes }
    }
}

/// A number or a list as a tensor; a tensor stays what it is.
pub(super) fn as_tensor(text: &str) -> String {
    format!("torch.as_tensor({text})")
}

/// A number as a tensor with one axis, which is what a number in a file stands for if the file records its axis.
pub(super) fn one_element(text: &str) -> String {
    format!("torch.as_tensor([{text}])")
}

fn call(function: Function, args: &[Piece]) -> Piece {
    let has_axes = function != Function::Size && args.iter().any(|arg| arg.has_axes);
    let is_of_numbers = args.iter().all(|arg| arg.kind == Kind::Number);
    let made = if is_of_numbers { of_numbers(function, args) } else { None };
    Piece { has_axes, ..made.unwrap_or_else(|| of_tensors(function, args)) }
}

/// The value of a function of numbers, which is a number. `None` if it needs a tensor.
fn of_numbers(function: Function, args: &[Piece]) -> Option<Piece> {
    if function == Function::Size || activation(function).is_some() {
        return None;
    }
    Some(match (function, args) {
        (Function::Neg, [arg]) => negated(arg),
        (Function::Cast(dtype), [arg]) => {
            Piece::atom(format!("{}({})", number_type(dtype), arg.text), Kind::Number)
        }
        (Function::Square, [arg]) => {
            infix(Function::Pow, arg, &Piece::atom("2".to_owned(), Kind::Number), Kind::Number)
        }
        (_, [left, right]) if operator(function).is_some() => infix(function, left, right, Kind::Number),
        _ => {
            let texts: Vec<&str> = args.iter().map(|arg| arg.text.as_str()).collect();
            let text = match of_python(function) {
                Some(name) => format!("{name}({})", texts.join(", ")),
                None => {
                    let tensors: Vec<String> = texts.into_iter().map(as_tensor).collect();
                    format!("torch.{}({}).item()", function.name(), tensors.join(", "))
                }
            };
            Piece::atom(text, Kind::Number)
        }
    })
}

fn of_tensors(function: Function, args: &[Piece]) -> Piece {
    let is_tensor = |arg: &Piece| matches!(arg.kind, Kind::Tensor | Kind::List);
    let kind = if args.iter().any(is_tensor) { Kind::Tensor } else { Kind::Other };
    match (function, args) {
        (Function::Size, [tensor]) => {
            Piece::atom(format!("{}.size()", tensor.tensor().within(ATOM)), Kind::List)
        }
        (Function::Size, [tensor, axis]) => {
            Piece::atom(format!("{}.size({})", tensor.tensor().within(ATOM), axis.text), Kind::Number)
        }
        (Function::Int, [arg]) if arg.has_axes => {
            Piece::atom(format!("{}.to(torch.long)", arg.tensor().within(ATOM)), Kind::Tensor)
        }
        (Function::Int, [arg]) => Piece::atom(format!("int({})", arg.text), Kind::Number),
        (Function::Neg, [arg]) => Piece { kind, ..negated(&arg.operand()) },
        (Function::Cast(dtype), [arg]) => {
            let text = format!("{}.to({})", arg.tensor().within(ATOM), dtype.torch_name());
            Piece::atom(text, Kind::Tensor)
        }
        (_, [left, right]) if operator(function).is_some() => {
            infix(function, &left.operand(), &right.operand(), kind)
        }
        _ => function_call(function, args),
    }
}

/// A call of one of PyTorch's functions.
fn function_call(function: Function, args: &[Piece]) -> Piece {
    let tensors = args.iter().map(|arg| arg.tensor().text);
    let text = match activation(function) {
        Some((name, keywords)) => {
            let others = args.iter().skip(1).map(|arg| arg.text.clone());
            let all: Vec<String> = tensors.take(1).chain(others).collect();
            format!("{name}({}{keywords})", all.join(", "))
        }
        None => {
            let all: Vec<String> = tensors.collect();
            format!("torch.{}({})", function.name(), all.join(", "))
        }
    };
    Piece::atom(text, Kind::Tensor)
}

fn negated(arg: &Piece) -> Piece {
    Piece { strength: SIGN, ..Piece::atom(format!("-{}", arg.within(SIGN)), Kind::Number) }
}

fn infix(function: Function, left: &Piece, right: &Piece, kind: Kind) -> Piece {
    let (sign, strength) = operator(function).unwrap_or_default();
    // Python's operators are left-associative, except for powers.
    let (left_least, right_least) =
        if function == Function::Pow { (ATOM, ATOM) } else { (strength, strength.saturating_add(1)) };
    let text = format!("{} {sign} {}", left.within(left_least), right.within(right_least));
    Piece { strength, ..Piece::atom(text, kind) }
}

/// PyTorch's name for a function that only Ixion has, and the keyword arguments that it needs. Arguments after the first
/// are numbers.
fn activation(function: Function) -> Option<(&'static str, &'static str)> {
    Some(match function {
        Function::Relu => ("F.relu", ""),
        Function::Relu6 => ("F.relu6", ""),
        Function::Sigmoid => ("F.sigmoid", ""),
        Function::Silu => ("F.silu", ""),
        Function::Gelu => ("F.gelu", ""),
        Function::GeluTanh => ("F.gelu", ", approximate=\"tanh\""),
        Function::Hardsigmoid => ("F.hardsigmoid", ""),
        Function::Hardswish => ("F.hardswish", ""),
        Function::Softplus => ("F.softplus", ""),
        Function::Mish => ("F.mish", ""),
        Function::LeakyRelu => ("F.leaky_relu", ""),
        Function::Elu => ("F.elu", ""),
        Function::Clamp => ("torch.clamp", ""),
        _ => return None,
    })
}

/// Python's operator for a function, and its precedence.
fn operator(function: Function) -> Option<(&'static str, u8)> {
    Some(match function {
        Function::Or => ("|", 1),
        Function::Xor => ("^", 2),
        Function::And => ("&", 3),
        Function::Lshift => ("<<", 4),
        Function::Rshift => (">>", 4),
        Function::Add => ("+", 5),
        Function::Sub => ("-", 5),
        Function::Mul => ("*", 6),
        Function::Div => ("/", 6),
        Function::FloorDivide => ("//", 6),
        Function::Remainder => ("%", 6),
        Function::Pow => ("**", 8),
        _ => return None,
    })
}

/// Python's function of numbers, where its results are of the type that a size needs.
fn of_python(function: Function) -> Option<&'static str> {
    Some(match function {
        Function::Abs => "abs",
        Function::Ceil => "math.ceil",
        Function::Floor => "math.floor",
        Function::Int => "int",
        Function::Max | Function::Maximum => "max",
        Function::Min | Function::Minimum => "min",
        Function::Round => "round",
        Function::Trunc => "math.trunc",
        _ => return None,
    })
}

/// Python's type of numbers for an element type.
fn number_type(dtype: DType) -> &'static str {
    match dtype {
        DType::Bool => "bool",
        _ if dtype.is_float() => "float",
        _ if dtype.is_complex() => "complex",
        _ => "int",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn inputs() -> Vec<Input> {
        let input = |text: &str, kind, has_axes| Input { text: text.to_owned(), kind, has_axes };
        vec![
            input("a", Kind::Tensor, true),
            input("b", Kind::Tensor, true),
            input("n", Kind::Number, false),
            input("l", Kind::List, false),
            input("s", Kind::Other, false),
        ]
    }

    fn python(expr: &str) -> String {
        piece(&Expr::parse(expr).unwrap(), &inputs()).text
    }

    #[test]
    fn brackets_appear_where_python_needs_them() {
        assert_eq!(python("add(mul(@0,2),1)"), "a * 2 + 1");
        assert_eq!(python("mul(add(@0,2),1)"), "(a + 2) * 1");
        assert_eq!(python("sub(@0,sub(@1,1))"), "a - (b - 1)");
        assert_eq!(python("sub(sub(@0,@1),1)"), "a - b - 1");
        assert_eq!(python("pow(pow(@0,2),3)"), "(a ** 2) ** 3");
        assert_eq!(python("pow(-2,@0)"), "(-2) ** a");
        assert_eq!(python("pow(neg(@0),2)"), "(-a) ** 2");
        assert_eq!(python("neg(pow(@0,2))"), "-a ** 2");
        assert_eq!(python("neg(add(@0,1))"), "-(a + 1)");
        assert_eq!(python("or(and(@0,3),xor(@1,1))"), "a & 3 | b ^ 1");
        assert_eq!(python("and(or(@0,3),lshift(@1,1))"), "(a | 3) & b << 1");
        assert_eq!(python("mul(@0,-0.5)"), "a * -0.5");
    }

    #[test]
    fn torch_functions_take_tensors_only() {
        assert_eq!(python("sqrt(add(@0,1))"), "torch.sqrt(a + 1)");
        assert_eq!(python("maximum(@0,0.5)"), "torch.maximum(a, torch.as_tensor(0.5))");
        assert_eq!(python("exp(@4)"), "torch.exp(torch.as_tensor(s))");
        assert_eq!(python("torch.float(@0)"), "a.to(torch.float)");
        assert_eq!(python("torch.long(add(@0,1))"), "(a + 1).to(torch.long)");
        assert_eq!(python("add(@3,0)"), "torch.as_tensor(l) + 0");
        assert_eq!(python("int(@0)"), "a.to(torch.long)");
    }

    #[test]
    fn functions_of_numbers_are_numbers() {
        assert_eq!(python("sqrt(size(@0,1))"), "torch.sqrt(torch.as_tensor(a.size(1))).item()");
        assert_eq!(python("floor(mul(torch.float(@2),1.5))"), "math.floor(float(n) * 1.5)");
        assert_eq!(python("max(round(div(@2,2)),1)"), "max(round(n / 2), 1)");
        assert_eq!(python("square(sub(@2,1))"), "(n - 1) ** 2");
        assert_eq!(python("int(@4)"), "int(s)");
        assert_eq!(python("relu(@2)"), "F.relu(torch.as_tensor(n))");
    }

    #[test]
    fn activation_functions_are_called_by_their_names() {
        assert_eq!(python("relu(add(@0,@1))"), "F.relu(a + b)");
        assert_eq!(python("gelu_tanh(@0)"), "F.gelu(a, approximate=\"tanh\")");
        assert_eq!(python("leaky_relu(@0,0.1)"), "F.leaky_relu(a, 0.1)");
        assert_eq!(python("mul(clamp(@0,-1,1),2)"), "torch.clamp(a, -1, 1) * 2");
    }

    #[test]
    fn lists_words_and_sizes() {
        assert_eq!(python("[int(floor_divide(size(@0,2),2)),-1]"), "[int(a.size(2) // 2), -1]");
        assert_eq!(python("[None,[1,0]]"), "[None, [1, 0]]");
        assert_eq!(python("size(neg(@0))"), "(-a).size()");
        assert_eq!(python("-inf"), "float(\"-inf\")");
        assert_eq!(python("bilinear"), "\"bilinear\"");
        assert_eq!(python("1.2e+00-9e-01j"), "complex(1.2, -0.9)");
    }

    #[test]
    fn the_kind_of_a_value_follows_from_those_of_its_parts() {
        let kind = |expr: &str| piece(&Expr::parse(expr).unwrap(), &inputs()).kind;
        for number in ["3", "@2", "floor_divide(size(@0,2),2)", "int(div(size(@0,1),2))", "exp(@2)"] {
            assert_eq!(kind(number), Kind::Number, "{number}");
        }
        for tensor in ["@0", "add(@0,1)", "neg(@1)", "torch.float(@4)", "add(@3,1)", "add(@4,@0)"] {
            assert_eq!(kind(tensor), Kind::Tensor, "{tensor}");
        }
        assert_eq!((kind("[1]"), kind("size(@0)"), kind("add(@4,1)")), (Kind::List, Kind::List, Kind::Other));
    }
}
