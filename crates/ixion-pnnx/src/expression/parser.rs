//! Parsing tokens into a tree: prefix notation with known numbers of arguments.

use super::lexer::{Token, TokenKind, Tokens};
use super::literal::literal;
use super::{Expr, ExpressionError, ExpressionProblem, Function};

// ANCHOR: parser
/// The state of parsing one expression.
struct Parser<'a> {
    text: &'a str,
    tokens: Vec<Token<'a>>,
    /// The index of the next token.
    next: usize,
    /// The number of lists and calls around the next token.
    depth: usize,
}

type Parsed<T> = Result<T, ExpressionError>;

/// Parses a whole text as one expression.
///
/// # Errors
/// [`ExpressionError`] with the column of the problem.
pub fn parse(text: &str) -> Result<Expr, ExpressionError> {
    let tokens = Tokens::of(text).take(Expr::MAX_TOKENS.saturating_add(1)).collect();
    let mut parser = Parser { text, tokens, next: 0, depth: 0 };
    if parser.tokens.len() > Expr::MAX_TOKENS {
        return Err(parser.error(None, ExpressionProblem::TooLong { max: Expr::MAX_TOKENS }));
    }
    let expr = parser.expr()?;
    match parser.peek() {
        None => Ok(expr),
        Some(token) => Err(parser.trailing(token)),
    }
}

/// Moving through the tokens.
impl<'a> Parser<'a> {
    /// The next token that is not a separator.
    fn peek(&self) -> Option<Token<'a>> {
        let rest = self.tokens.get(self.next..).unwrap_or_default();
        rest.iter().find(|token| !token.kind.is_separator()).copied()
    }

    /// Takes the next token that is not a separator, and the separators before it.
    fn take(&mut self) -> Option<Token<'a>> {
        let rest = self.tokens.get(self.next..).unwrap_or_default();
        let separators = rest.iter().take_while(|token| token.kind.is_separator()).count();
        let token = rest.get(separators).copied();
        self.next += separators + 1;
        token
    }

    /// Returns true if a value can follow: the next token that is not a separator exists and does not close a list.
    fn has_value(&self) -> bool {
        self.peek().is_some_and(|token| token.kind != TokenKind::ListClose)
    }

    /// Returns true if the very next token, which may be a separator, is of this kind.
    fn next_is(&self, kind: TokenKind<'_>) -> bool {
        self.tokens.get(self.next).is_some_and(|token| token.kind == kind)
    }
}

/// The grammar: one method for each rule.
impl<'a> Parser<'a> {
    /// Parses one value: a list, a call or a literal.
    fn expr(&mut self) -> Parsed<Expr> {
        // ANCHOR: expr_todo -- task 2: take a token and see which of the three it begins
        let Some(token) = self.take() else {
            return Err(self.error(None, ExpressionProblem::Empty));
        };
        match token.kind {
            TokenKind::ListOpen => self.nested(token, |parser| parser.list(token)),
            TokenKind::Word(word) => match self.function(word) {
                Some(function) => self.nested(token, |parser| parser.call(token, function)),
                None => literal(word).ok_or_else(|| self.bad_input(token, word)),
            },
            _ => Err(self.error(Some(token), ExpressionProblem::UnexpectedBracket)),
        }
        // ANCHOR_END: expr_todo
    }

    /// Parses the values of a list up to its `]`. The `[` is already taken.
    fn list(&mut self, open: Token<'a>) -> Parsed<Expr> {
        // ANCHOR: list_todo -- task 2: values until there is a `]`
        let mut items = Vec::new();
        while let Some(token) = self.peek() {
            if token.kind == TokenKind::ListClose {
                self.take();
                return Ok(Expr::List(items));
            }
            items.push(self.expr()?);
        }
        Err(self.error(Some(open), ExpressionProblem::UnclosedList))
        // ANCHOR_END: list_todo
    }

    /// Parses the arguments of a function. Its name is already taken.
    fn call(&mut self, name: Token<'a>, function: Function) -> Parsed<Expr> {
        // ANCHOR: call_todo -- task 3: count the arguments, brackets or not
        let arity = function.arity();
        let bracketed = self.next_is(TokenKind::Open);
        let mut args = Vec::new();
        while args.len() < *arity.end() {
            let closes = (bracketed && self.next_is(TokenKind::Close)) || !self.has_value();
            if closes && args.len() >= *arity.start() {
                break;
            }
            if !self.has_value() {
                return Err(self.missing(name, function, args.len()));
            }
            args.push(self.expr()?);
        }
        // The call's own bracket, which would otherwise end an enclosing call.
        if bracketed && self.next_is(TokenKind::Close) {
            self.next += 1;
        }
        Ok(Expr::Call { function, args })
        // ANCHOR_END: call_todo
    }

    /// The function with this name. `torch.float` without a value to convert is a word.
    fn function(&self, word: &str) -> Option<Function> {
        let called = |function: &Function| !matches!(function, Function::Cast(_)) || self.has_value();
        Function::from_name(word).filter(called)
    }

    /// Parses one level deeper, up to the maximum depth.
    fn nested(&mut self, token: Token<'a>, read: impl FnOnce(&mut Self) -> Parsed<Expr>) -> Parsed<Expr> {
        if self.depth >= Expr::MAX_DEPTH {
            return Err(self.error(Some(token), ExpressionProblem::TooDeep { max: Expr::MAX_DEPTH }));
        }
        self.depth += 1;
        let expr = read(self);
        self.depth -= 1;
        expr
    }
}

/// Errors.
impl Parser<'_> {
    fn missing(&self, name: Token<'_>, function: Function, found: usize) -> ExpressionError {
        let (function, wanted) = (function.name(), *function.arity().start());
        self.error(Some(name), ExpressionProblem::MissingArgument { function, wanted, found })
    }

    fn bad_input(&self, token: Token<'_>, word: &str) -> ExpressionError {
        self.error(Some(token), ExpressionProblem::BadInput { found: word.to_owned() })
    }

    fn trailing(&self, token: Token<'_>) -> ExpressionError {
        let problem = match token.kind {
            TokenKind::Word(word) => ExpressionProblem::Trailing { found: word.to_owned() },
            TokenKind::ListClose => ExpressionProblem::UnexpectedBracket,
            _ => ExpressionProblem::Trailing { found: "[".to_owned() },
        };
        self.error(Some(token), problem)
    }

    /// An error at a token, or at the end of the text if there is no token.
    fn error(&self, token: Option<Token<'_>>, problem: ExpressionProblem) -> ExpressionError {
        let column = token.map_or_else(|| self.text.chars().count().saturating_add(1), |token| token.column);
        ExpressionError { text: self.text.to_owned(), column, problem }
    }
}
// ANCHOR_END: parser

#[cfg(test)]
mod tests {
    use super::*;
    use num_complex::Complex;

    /// The canonical form of an expression.
    fn tidy(text: &str) -> String {
        Expr::parse(text).unwrap().to_string()
    }

    fn problem(text: &str) -> (usize, ExpressionProblem) {
        let error = Expr::parse(text).unwrap_err();
        (error.column, error.problem)
    }

    #[test]
    fn missing_brackets_of_log1p_and_expm1_are_accepted() {
        assert_eq!(tidy("log1p,@0"), "log1p(@0)");
        assert_eq!(tidy("mul(expm1,@0),log1p,@1"), "mul(expm1(@0),log1p(@1))");
        assert_eq!(tidy("add(mul(log1p,exp(@0)),2),@1"), "add(mul(log1p(exp(@0)),2),@1)");
        assert_eq!(tidy("expm1,sub(@0,0.5)"), "expm1(sub(@0,0.5))");
    }

    #[test]
    fn doubled_commas_and_missing_brackets_are_accepted() {
        assert_eq!(tidy("add(@0,,mul(@1,2))"), "add(@0,mul(@1,2))");
        assert_eq!(tidy("add(@0,mul(@1,2"), "add(@0,mul(@1,2))");
        assert_eq!(tidy("add @0 @1"), "add(@0,@1)");
    }

    #[test]
    fn size_takes_one_or_two_arguments() {
        assert_eq!(tidy("size(@0,2)"), "size(@0,2)");
        assert_eq!(tidy("size(@0)"), "size(@0)");
        assert_eq!(tidy("[size(@0),1]"), "[size(@0),1]");
        assert_eq!(tidy("[size @0]"), "[size(@0)]");
        assert_eq!(tidy("[size(exp(@0),1),3]"), "[size(exp(@0),1),3]");
        assert_eq!(tidy("add(size(@0,1),2)"), "add(size(@0,1),2)");
        assert_eq!(tidy("size(log1p,@0,1)"), "size(log1p(@0),1)");
    }

    #[test]
    fn lists_nest_and_may_be_empty() {
        assert_eq!(tidy("[None,None,[1,0]]"), "[None,None,[1,0]]");
        assert_eq!(tidy("[[True,False],[]]"), "[[True,False],[]]");
        assert_eq!(tidy("[]"), "[]");
        let list = Expr::List(vec![Expr::List(vec![Expr::Bool(true), Expr::None])]);
        assert_eq!(Expr::parse("[[True,None]]"), Ok(list));
    }

    #[test]
    fn literals_keep_their_kind() {
        assert_eq!(Expr::parse("1"), Ok(Expr::Int(1)));
        assert_eq!(Expr::parse("1.0"), Ok(Expr::Float(1.0)));
        assert_eq!(Expr::parse("1.000000e6"), Ok(Expr::Float(1e6)));
        assert_eq!(Expr::parse("-inf"), Ok(Expr::Float(f64::NEG_INFINITY)));
        assert_eq!(Expr::parse("1.200000e+00-9.000000e-01j"), Ok(Expr::Complex(Complex::new(1.2, -0.9))));
        assert_eq!(Expr::parse("bilinear"), Ok(Expr::Word("bilinear".into())));
        assert_eq!(Expr::parse("@12"), Ok(Expr::Input(12)));
    }

    #[test]
    fn an_element_type_casts_its_argument_or_is_a_word() {
        assert_eq!(tidy("add(torch.float(@0),1)"), "add(torch.float(@0),1)");
        assert_eq!(tidy("torch.int32,@0"), "torch.int(@0)");
        assert_eq!(Expr::parse("torch.float"), Ok(Expr::Word("torch.float".into())));
        assert_eq!(Expr::parse("torch.strided"), Ok(Expr::Word("torch.strided".into())));
    }

    #[test]
    fn errors_name_the_column() {
        let missing =
            |function, wanted, found| ExpressionProblem::MissingArgument { function, wanted, found };
        assert_eq!(problem(""), (1, ExpressionProblem::Empty));
        assert_eq!(problem("(,)"), (4, ExpressionProblem::Empty));
        assert_eq!(problem("add(@0)"), (1, missing("add", 2, 1)));
        assert_eq!(problem("[neg]"), (2, missing("neg", 1, 0)));
        assert_eq!(problem("[1,[2]"), (1, ExpressionProblem::UnclosedList));
        assert_eq!(problem("]"), (1, ExpressionProblem::UnexpectedBracket));
        assert_eq!(problem("neg(@0)]"), (8, ExpressionProblem::UnexpectedBracket));
        assert_eq!(problem("neg(@0,1)"), (8, ExpressionProblem::Trailing { found: "1".into() }));
        assert_eq!(problem("foo(@0)"), (5, ExpressionProblem::Trailing { found: "@0".into() }));
        assert_eq!(problem("@x"), (1, ExpressionProblem::BadInput { found: "@x".into() }));
        assert_eq!(problem("@+1"), (1, ExpressionProblem::BadInput { found: "@+1".into() }));
        let huge = "@99999999999999999999";
        assert_eq!(problem(huge), (1, ExpressionProblem::BadInput { found: huge.into() }));
    }

    #[test]
    fn depth_and_length_are_bounded() {
        let max = Expr::MAX_DEPTH;
        assert!(Expr::parse(&("neg(".repeat(max) + "@0")).is_ok());
        let deep = "neg(".repeat(1_000_000) + "@0";
        assert_eq!(problem(&deep).1, ExpressionProblem::TooLong { max: Expr::MAX_TOKENS });
        assert_eq!(problem(&("neg(".repeat(max + 1) + "@0")).1, ExpressionProblem::TooDeep { max });
        assert_eq!(problem(&"[".repeat(max + 1)).1, ExpressionProblem::TooDeep { max });
        let long = format!("[{}]", "1,".repeat(Expr::MAX_TOKENS));
        assert_eq!(problem(&long).1, ExpressionProblem::TooLong { max: Expr::MAX_TOKENS });
    }
}
