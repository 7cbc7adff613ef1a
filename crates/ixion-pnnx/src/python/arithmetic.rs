//! Expressions as Python arithmetic.

use super::literal;
use crate::expression::{Expr, Function};

/// An input of an expression: its variable, and whether it is a plain Python number.
pub(super) struct Input {
    pub(super) variable: String,
    pub(super) is_number: bool,
}

/// A piece of Python source and its precedence: the higher `strength` is, the tighter it binds.
struct Piece {
    text: String,
    strength: u8,
}

/// The precedence of names, literals, calls and everything in brackets.
const ATOM: u8 = 10;
/// The precedence of a sign.
const SIGN: u8 = 7;

/// The Python source of an expression.
pub(super) fn source(expr: &Expr, inputs: &[Input]) -> String {
    piece(expr, inputs).text
}

/// Returns true if the value is a plain Python number and not a tensor.
pub(super) fn is_number(expr: &Expr, inputs: &[Input]) -> bool {
    match expr {
        Expr::Input(index) => inputs.get(*index).is_some_and(|input| input.is_number),
        Expr::Int(_) | Expr::Float(_) | Expr::Complex(_) | Expr::Bool(_) => true,
        Expr::Call { function: Function::Size, args } => args.len() == 2,
        Expr::Call { function, args } => {
            (operator(*function).is_some() || matches!(function, Function::Int | Function::Neg))
                && args.iter().all(|arg| is_number(arg, inputs))
        }
        Expr::None | Expr::List(_) | Expr::Word(_) => false,
    }
}

fn atom(text: String) -> Piece {
    Piece { text, strength: ATOM }
}

fn piece(expr: &Expr, inputs: &[Input]) -> Piece {
    match expr {
        Expr::Input(index) => match inputs.get(*index) {
            Some(input) => atom(input.variable.clone()),
            None => atom(format!("_missing_input_{index}")),
        },
        Expr::Int(value) => number(value.to_string()),
        Expr::Float(value) => number(literal::float(*value)),
        Expr::Complex(value) => atom(literal::complex(*value)),
        Expr::Bool(value) => atom(literal::bool(*value).to_owned()),
        Expr::None => atom("None".to_owned()),
        Expr::Word(word) => atom(literal::word(word)),
        Expr::List(items) => {
            let items: Vec<String> = items.iter().map(|item| source(item, inputs)).collect();
            atom(format!("[{}]", items.join(", ")))
        }
        Expr::Call { function, args } => call(*function, args, inputs),
    }
}

/// A number. A negative number has the precedence of a sign: `(-2) ** x`.
fn number(text: String) -> Piece {
    let strength = if text.starts_with('-') { SIGN } else { ATOM };
    Piece { text, strength }
}

fn call(function: Function, args: &[Expr], inputs: &[Input]) -> Piece {
    let pieces: Vec<Piece> = args.iter().map(|arg| piece(arg, inputs)).collect();
    match (function, pieces.as_slice()) {
        (Function::Neg, [arg]) => Piece { text: format!("-{}", within(arg, SIGN)), strength: SIGN },
        (Function::Int, [arg]) => atom(format!("int({})", arg.text)),
        (Function::Size, [tensor]) => atom(format!("{}.size()", within(tensor, ATOM))),
        (Function::Size, [tensor, axis]) => atom(format!("{}.size({})", within(tensor, ATOM), axis.text)),
        (Function::Cast(dtype), [_]) => {
            let values: String = args.iter().map(|arg| within(&tensor(arg, inputs), ATOM)).collect();
            atom(format!("{values}.to({})", dtype.torch_name()))
        }
        (_, [left, right]) if operator(function).is_some() => infix(function, left, right),
        _ => match activation(function) {
            Some((name, keywords)) => {
                let first = args.first().map(|arg| tensor(arg, inputs).text);
                let others = pieces.into_iter().skip(1).map(|piece| piece.text);
                let all: Vec<String> = first.into_iter().chain(others).collect();
                atom(format!("{name}({}{keywords})", all.join(", ")))
            }
            None => atom(format!("torch.{}({})", function.name(), tensors(args, inputs))),
        },
    }
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

/// The arguments of PyTorch's functions, which accept tensors only: plain numbers are wrapped.
fn tensors(args: &[Expr], inputs: &[Input]) -> String {
    let tensor = |arg: &Expr| tensor(arg, inputs).text;
    args.iter().map(tensor).collect::<Vec<String>>().join(", ")
}

fn tensor(arg: &Expr, inputs: &[Input]) -> Piece {
    let found = piece(arg, inputs);
    if is_number(arg, inputs) { atom(format!("torch.as_tensor({})", found.text)) } else { found }
}

fn infix(function: Function, left: &Piece, right: &Piece) -> Piece {
    let (sign, strength) = operator(function).unwrap_or_default();
    // Python's operators are left-associative, except for powers.
    let (left_least, right_least) =
        if function == Function::Pow { (ATOM, ATOM) } else { (strength, strength.saturating_add(1)) };
    Piece { text: format!("{} {sign} {}", within(left, left_least), within(right, right_least)), strength }
}

/// The text, in brackets if its precedence is below `least`.
fn within(piece: &Piece, least: u8) -> String {
    if piece.strength >= least { piece.text.clone() } else { format!("({})", piece.text) }
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

#[cfg(test)]
mod tests {
    use super::*;

    fn python(expr: &str) -> String {
        let input = |name: &str, is_number| Input { variable: name.to_owned(), is_number };
        source(&Expr::parse(expr).unwrap(), &[input("a", false), input("b", false), input("n", true)])
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
        assert_eq!(python("sqrt(size(@0,1))"), "torch.sqrt(torch.as_tensor(a.size(1)))");
        assert_eq!(python("exp(@2)"), "torch.exp(torch.as_tensor(n))");
        assert_eq!(python("torch.float(@0)"), "a.to(torch.float)");
        assert_eq!(python("torch.long(add(@0,1))"), "(a + 1).to(torch.long)");
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
    fn numbers_and_tensors_are_distinguished() {
        let inputs = [Input { variable: "a".into(), is_number: false }];
        let number = |expr: &str| is_number(&Expr::parse(expr).unwrap(), &inputs);
        assert!(number("3") && number("floor_divide(size(@0,2),2)") && number("int(div(size(@0,1),2))"));
        assert!(!number("@0") && !number("add(@0,1)") && !number("[1]") && !number("size(@0)"));
    }
}
