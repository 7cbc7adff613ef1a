//! Formatting a tree in its canonical form.

use super::Expr;
use crate::parameter::{encode_c_complex, encode_f64};
use std::fmt;

/// Writes nested calls with all brackets and commas. Numbers are formatted as in PNNX's files.
impl fmt::Display for Expr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Input(index) => write!(f, "@{index}"),
            Self::Int(value) => write!(f, "{value}"),
            Self::Float(value) => f.write_str(&encode_f64(*value)),
            Self::Complex(value) => f.write_str(&encode_c_complex(*value)),
            Self::Bool(value) => f.write_str(if *value { "True" } else { "False" }),
            Self::None => f.write_str("None"),
            Self::Word(word) => f.write_str(word),
            Self::List(items) => write_items(f, "[", items, "]"),
            Self::Call { function, args } => {
                f.write_str(function.name())?;
                write_items(f, "(", args, ")")
            }
        }
    }
}

fn write_items(f: &mut fmt::Formatter<'_>, open: &str, items: &[Expr], close: &str) -> fmt::Result {
    f.write_str(open)?;
    for (index, item) in items.iter().enumerate() {
        if index > 0 {
            f.write_str(",")?;
        }
        write!(f, "{item}")?;
    }
    f.write_str(close)
}

#[cfg(test)]
mod tests {
    use super::super::Function;
    use super::*;
    use num_complex::Complex;
    use proptest::prelude::*;

    fn leaf() -> impl Strategy<Value = Expr> {
        prop_oneof![
            (0_usize..100).prop_map(Expr::Input),
            any::<i64>().prop_map(Expr::Int),
            any::<f64>().prop_map(Expr::Float),
            Just(Expr::Float(f64::INFINITY)),
            (any::<f32>(), any::<f32>())
                .prop_map(|(re, im)| Expr::Complex(Complex::new(f64::from(re), f64::from(im)))),
            any::<bool>().prop_map(Expr::Bool),
            Just(Expr::None),
            "[g-k_]{4,8}".prop_map(Expr::Word),
        ]
    }

    fn function() -> impl Strategy<Value = Function> {
        let casts = ixion_tensor::DType::ALL.map(Function::Cast);
        prop::sample::select([Function::ALL, &casts].concat())
    }

    fn call(arg: impl Strategy<Value = Expr> + Clone) -> impl Strategy<Value = Expr> {
        function().prop_flat_map(move |function| {
            let args = prop::collection::vec(arg.clone(), function.arity());
            args.prop_map(move |args| Expr::Call { function, args })
        })
    }

    fn tree() -> impl Strategy<Value = Expr> {
        leaf().prop_recursive(6, 64, 4, |inner| {
            prop_oneof![2 => call(inner.clone()), 1 => prop::collection::vec(inner, 0..4).prop_map(Expr::List)]
        })
    }

    proptest! {
        #[test]
        fn a_printed_tree_parses_as_the_same_tree(tree in tree()) {
            prop_assert_eq!(Expr::parse(&tree.to_string()), Ok(tree));
        }

        #[test]
        fn no_text_makes_the_parser_panic(text in "[-@a-z0-9.,()\\[\\] ]{0,40}") {
            if let Ok(expr) = Expr::parse(&text) {
                prop_assert_eq!(Expr::parse(&expr.to_string()), Ok(expr));
            }
        }
    }
}
