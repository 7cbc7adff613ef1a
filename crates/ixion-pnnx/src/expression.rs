//! The expression language of `pnnx.Expression` and `Tensor.index`, such as `expr=add(mul(@0,2),@1)`.
//!
//! PNNX folds chains of scalar arithmetic into one operator and writes the computation as text. `@0` is the
//! operator's first input; the rest are functions, numbers, lists and words:
//!
//! ```text
//! add(mul(@0,0.25),@1)            x * 0.25 + y
//! [int(floor_divide(size(@0,2),2)),-1]   a list of sizes for a reshape
//! [None,[1,0]]                    an index of Tensor.index: x[:, [1, 0]]
//! ```
//!
//! The brackets and commas of function calls are not reliable: `log1p` and `expm1` lose theirs
//! (`mul(expm1,@0),log1p,@1` is `expm1(x) * log1p(y)`) and some commas are doubled. The text is therefore parsed
//! as prefix notation: every [`Function`] has a known number of arguments, and `(`, `)` and `,` are only
//! separators. The square brackets of lists are reliable. [`Expr`]'s `Display` writes a canonical form, which
//! parses into the same tree.

mod lexer;
mod literal;
mod parser;
mod printer;

pub use ixion_tensor::Function;
pub use lexer::{Token, TokenKind, Tokens};
pub use literal::literal;
pub use parser::parse;

use num_complex::Complex;
use std::str::FromStr;

/// A syntax tree of the expression language.
///
/// ```
/// use ixion_pnnx::{Expr, Function};
/// let expr: Expr = "add(mul(log1p,exp(@0)),2),@1".parse()?;
/// assert_eq!(expr.to_string(), "add(mul(log1p(exp(@0)),2),@1)");
/// assert_eq!(expr.input_count(), 2);
/// assert!(matches!(expr, Expr::Call { function: Function::Add, .. }));
/// # Ok::<(), ixion_pnnx::ExpressionError>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Expr {
    /// `@n`: the operator's input number n, from 0.
    Input(usize),
    /// An integer. In PyTorch's type promotion, `1` and `1.0` differ.
    Int(i64),
    /// A number with a fraction or an exponent, `inf`, `-inf` or `nan`.
    Float(f64),
    /// A complex number such as `1.2e+00-9.0e-01j`.
    Complex(Complex<f64>),
    /// `True` or `False`.
    Bool(bool),
    /// `None`. As an index it selects the whole axis.
    None,
    /// A function call.
    Call {
        /// The function.
        function: Function,
        /// The arguments. Their number is within [`Function::arity`].
        args: Vec<Expr>,
    },
    /// `[a,b,…]`.
    List(Vec<Expr>),
    /// Any other word.
    Word(String),
}

/// An error for a text that is not a valid expression.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("expression `{}`, column {column}: {problem}", shorten(text))]
pub struct ExpressionError {
    /// The whole expression.
    pub text: String,
    /// Column in characters, counted from 1.
    pub column: usize,
    /// What is wrong there.
    pub problem: ExpressionProblem,
}

/// What can be wrong with an expression.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ExpressionProblem {
    /// The expression is empty, or has only separators.
    #[error("the expression is empty")]
    Empty,
    /// The expression has more than [`Expr::MAX_TOKENS`] tokens.
    #[error("the expression has more than {max} tokens")]
    TooLong {
        /// The limit.
        max: usize,
    },
    /// The expression is nested deeper than [`Expr::MAX_DEPTH`] levels.
    #[error("calls and lists are nested more than {max} levels deep")]
    TooDeep {
        /// The limit.
        max: usize,
    },
    /// A function has too few arguments.
    #[error("`{function}` requires {wanted} argument(s), found {found}")]
    MissingArgument {
        /// The function's name.
        function: &'static str,
        /// The least number of arguments that it accepts.
        wanted: usize,
        /// The number of arguments found.
        found: usize,
    },
    /// A `[` without its `]`.
    #[error("the list that starts here has no `]`")]
    UnclosedList,
    /// A `]` where a value is expected, or after the end.
    #[error("unmatched `]`")]
    UnexpectedBracket,
    /// An `@` that is not followed by a number.
    #[error("`{found}` is not an input; expected `@` and a number, such as `@0`")]
    BadInput {
        /// The text found.
        found: String,
    },
    /// A token follows the complete expression.
    #[error(
        "unexpected `{found}` after a complete expression; a function has too many arguments, or its name is unknown"
    )]
    Trailing {
        /// The token that follows.
        found: String,
    },
}

/// Error messages quote at most this many characters of an expression.
const MAX_QUOTED: usize = 60;

fn shorten(text: &str) -> String {
    match text.char_indices().nth(MAX_QUOTED) {
        None => text.to_owned(),
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
    }
}

impl Expr {
    /// The maximum nesting depth of calls and lists. Trees are walked recursively, so their depth must be bounded.
    pub const MAX_DEPTH: usize = 512;

    /// The maximum number of words, brackets and commas in an expression.
    pub const MAX_TOKENS: usize = 1 << 18;

    /// Parses an expression.
    ///
    /// # Errors
    /// [`ExpressionError`] with the column of the problem.
    pub fn parse(text: &str) -> Result<Self, ExpressionError> {
        parser::parse(text)
    }

    /// Calls `visit` with this node and all nodes below it, parents first and arguments from left to right.
    pub fn walk<'a>(&'a self, visit: &mut impl FnMut(&'a Expr)) {
        visit(self);
        for child in self.children() {
            child.walk(visit);
        }
    }

    /// The arguments of a call or the elements of a list; empty for a leaf.
    pub fn children(&self) -> &[Expr] {
        match self {
            Self::Call { args, .. } => args,
            Self::List(items) => items,
            _ => &[],
        }
    }

    /// The number of inputs that the expression needs: one more than the largest input number in it.
    pub fn input_count(&self) -> usize {
        let mut count = 0;
        self.walk(&mut |expr| {
            if let Self::Input(index) = expr {
                count = count.max(index.saturating_add(1));
            }
        });
        count
    }
}

impl FromStr for Expr {
    type Err = ExpressionError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::parse(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inputs_are_counted_by_their_largest_number() {
        let count = |text: &str| Expr::parse(text).unwrap().input_count();
        assert_eq!((count("add(@3,@1)"), count("7"), count("[[@0],None]")), (4, 0, 1));
    }

    #[test]
    fn walking_visits_every_node_once_and_parents_first() {
        let expr = Expr::parse("[add(@0,1),neg(@1)]").unwrap();
        let mut nodes = Vec::new();
        expr.walk(&mut |node| nodes.push(node.to_string()));
        assert_eq!(nodes, ["[add(@0,1),neg(@1)]", "add(@0,1)", "@0", "1", "neg(@1)", "@1"]);
    }

    #[test]
    fn messages_quote_the_start_of_a_long_expression_only() {
        let error = Expr::parse(&format!("{}(", "ä".repeat(1000))).err();
        assert!(error.is_none(), "a word followed by a bracket is a word");
        let error = Expr::parse(&format!("[{}", "ä,".repeat(1000))).unwrap_err().to_string();
        assert!(error.contains('…') && error.len() < 300, "{error}");
    }
}
