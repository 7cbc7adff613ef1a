//! From tokens to a tree: prefix notation with known numbers of arguments.

use super::lexer::{Token, TokenKind, tokens};
use super::{Expr, ExpressionError, ExpressionProblem, Function};
use crate::pnnx::parameter::parse_float_word;
use crate::pnnx::value::{Value, parse_scalar};

/// Reads a whole text as one expression.
pub(super) fn parse(text: &str) -> Result<Expr, ExpressionError> {
    let tokens: Vec<Token<'_>> = tokens(text).take(Expr::MAX_TOKENS.saturating_add(1)).collect();
    let parser = Parser { text, tokens: &tokens, next: 0, depth: 0 };
    parser.whole()
}

struct Parser<'a> {
    text: &'a str,
    tokens: &'a [Token<'a>],
    next: usize,
    depth: usize,
}

type Parsed<T> = Result<T, ExpressionError>;

impl<'a> Parser<'a> {
    fn whole(mut self) -> Parsed<Expr> {
        if self.tokens.len() > Expr::MAX_TOKENS {
            return Err(self.error(None, ExpressionProblem::TooLong { max: Expr::MAX_TOKENS }));
        }
        self.skip_separators();
        if self.peek().is_none() {
            return Err(self.error(None, ExpressionProblem::Empty));
        }
        let expr = self.expr()?;
        self.skip_separators();
        match self.peek() {
            None => Ok(expr),
            Some(token) => Err(self.trailing(token)),
        }
    }

    /// One value: a list, a call or a literal.
    fn expr(&mut self) -> Parsed<Expr> {
        let Some(token) = self.take() else {
            return Err(self.error(None, ExpressionProblem::Empty));
        };
        match token.kind {
            TokenKind::ListOpen => self.nested(token, Self::list),
            TokenKind::Word(word) => match Function::from_name(word) {
                Some(function) if !self.is_bare_dtype(function) => {
                    self.nested(token, |parser, token| parser.call(token, function))
                }
                _ => self.literal(token, word),
            },
            _ => Err(self.error(Some(token), ExpressionProblem::UnexpectedBracket)),
        }
    }

    /// Runs `parse` one level deeper, within bounds.
    fn nested(
        &mut self,
        token: Token<'a>,
        parse: impl FnOnce(&mut Self, Token<'a>) -> Parsed<Expr>,
    ) -> Parsed<Expr> {
        if self.depth >= Expr::MAX_DEPTH {
            return Err(self.error(Some(token), ExpressionProblem::TooDeep { max: Expr::MAX_DEPTH }));
        }
        self.depth += 1;
        let expr = parse(self, token);
        self.depth -= 1;
        expr
    }

    fn list(&mut self, open: Token<'a>) -> Parsed<Expr> {
        let mut items = Vec::new();
        loop {
            self.skip_separators();
            match self.peek() {
                None => return Err(self.error(Some(open), ExpressionProblem::UnclosedList)),
                Some(Token { kind: TokenKind::ListClose, .. }) => {
                    self.take();
                    return Ok(Expr::List(items));
                }
                Some(_) => items.push(self.expr()?),
            }
        }
    }

    fn call(&mut self, name: Token<'a>, function: Function) -> Parsed<Expr> {
        let arity = function.arity();
        let bracketed = self.next_is(TokenKind::Open);
        let mut args = Vec::with_capacity(*arity.end());
        while args.len() < *arity.end() {
            if args.len() >= *arity.start() && self.at_last_argument(bracketed) {
                break;
            }
            self.skip_separators();
            if matches!(self.peek(), None | Some(Token { kind: TokenKind::ListClose, .. })) {
                let (function, wanted, found) = (function.name(), *arity.start(), args.len());
                return Err(
                    self.error(Some(name), ExpressionProblem::MissingArgument { function, wanted, found })
                );
            }
            args.push(self.expr()?);
        }
        // Its own bracket, so that an enclosing call does not take it for its end.
        if bracketed && self.next_is(TokenKind::Close) {
            self.take();
        }
        Ok(Expr::Call { function, args })
    }

    /// Whether an argument that could be left out is left out: the call's bracket closes, or nothing follows.
    fn at_last_argument(&self, bracketed: bool) -> bool {
        if bracketed && self.next_is(TokenKind::Close) {
            return true;
        }
        let rest = self.tokens.get(self.next..).unwrap_or_default();
        let following = rest.iter().find(|token| !token.kind.is_separator());
        following.is_none_or(|token| token.kind == TokenKind::ListClose)
    }

    /// `torch.float` with nothing to convert is a word: an expression can yield an element type.
    fn is_bare_dtype(&self, function: Function) -> bool {
        matches!(function, Function::Cast(_)) && self.at_last_argument(false)
    }

    fn literal(&self, token: Token<'a>, word: &str) -> Parsed<Expr> {
        if let Some(number) = word.strip_prefix('@') {
            let digits = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
            let index = number.parse().ok().filter(|_| digits).map(Expr::Input);
            let found = word.to_owned();
            return index.ok_or_else(|| self.error(Some(token), ExpressionProblem::BadInput { found }));
        }
        Ok(match parse_scalar(word) {
            Value::Bool(value) => Expr::Bool(value),
            Value::Int(value) => Expr::Int(value),
            Value::Float(value) => Expr::Float(value),
            Value::Complex(value) => Expr::Complex(value),
            _ if word == "None" => Expr::None,
            _ => parse_float_word(word).map_or_else(|| Expr::Word(word.to_owned()), Expr::Float),
        })
    }

    fn peek(&self) -> Option<Token<'a>> {
        self.tokens.get(self.next).copied()
    }

    fn take(&mut self) -> Option<Token<'a>> {
        let token = self.peek();
        self.next += 1;
        token
    }

    fn next_is(&self, kind: TokenKind<'_>) -> bool {
        self.peek().is_some_and(|token| token.kind == kind)
    }

    fn skip_separators(&mut self) {
        while self.peek().is_some_and(|token| token.kind.is_separator()) {
            self.next += 1;
        }
    }

    fn trailing(&self, token: Token<'_>) -> ExpressionError {
        let problem = match token.kind {
            TokenKind::Word(word) => ExpressionProblem::Trailing { found: word.to_owned() },
            TokenKind::ListClose => ExpressionProblem::UnexpectedBracket,
            _ => ExpressionProblem::Trailing { found: "[".to_owned() },
        };
        self.error(Some(token), problem)
    }

    fn error(&self, token: Option<Token<'_>>, problem: ExpressionProblem) -> ExpressionError {
        let column = token.map_or_else(|| self.text.chars().count().saturating_add(1), |token| token.column);
        ExpressionError { text: self.text.to_owned(), column, problem }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use num_complex::Complex;

    /// The tidy form of a text.
    fn tidy(text: &str) -> String {
        Expr::parse(text).unwrap().to_string()
    }

    fn problem(text: &str) -> (usize, ExpressionProblem) {
        let error = Expr::parse(text).unwrap_err();
        (error.column, error.problem)
    }

    #[test]
    fn brackets_lost_by_log1p_and_expm1_do_not_matter() {
        assert_eq!(tidy("log1p,@0"), "log1p(@0)");
        assert_eq!(tidy("mul(expm1,@0),log1p,@1"), "mul(expm1(@0),log1p(@1))");
        assert_eq!(tidy("add(mul(log1p,exp(@0)),2),@1"), "add(mul(log1p(exp(@0)),2),@1)");
        assert_eq!(tidy("expm1,sub(@0,0.5)"), "expm1(sub(@0,0.5))");
    }

    #[test]
    fn doubled_commas_and_missing_brackets_do_not_matter() {
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
    fn an_element_type_casts_what_follows_and_is_a_word_alone() {
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
