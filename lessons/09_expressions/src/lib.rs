//! Lesson 09: expressions.
//!
//! The page of the book: `book/src/lessons/09_expressions.md`. Replace each `todo!` by code. This is the only file to edit.

use ixion::kernels::naive::{binary, unary};
use ixion::pnnx::expression::literal;
use ixion::pnnx::{Expr, ExpressionError, ExpressionProblem, Function};
use ndarray::{ArrayD, ArrayViewD, Zip, arr0};

// Given: what a token is.

/// A piece of an expression and where it starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Token<'a> {
    /// What it is.
    pub kind: TokenKind<'a>,
    /// Column in characters, counted from 1.
    pub column: usize,
}

/// What a token is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TokenKind<'a> {
    /// `(`
    Open,
    /// `)`
    Close,
    /// `,`
    Comma,
    /// `[`
    ListOpen,
    /// `]`
    ListClose,
    /// Anything between the above: a number, a name, an input.
    Word(&'a str),
}

impl TokenKind<'_> {
    /// Separators carry no meaning in prefix notation.
    pub fn is_separator(self) -> bool {
        matches!(self, Self::Open | Self::Close | Self::Comma)
    }
}

fn punctuation(c: char) -> Option<TokenKind<'static>> {
    match c {
        '(' => Some(TokenKind::Open),
        ')' => Some(TokenKind::Close),
        ',' => Some(TokenKind::Comma),
        '[' => Some(TokenKind::ListOpen),
        ']' => Some(TokenKind::ListClose),
        _ => None,
    }
}

// Task 1: from characters to tokens.

/// The tokens of a text, one after the other. Blanks separate words and are dropped.
#[derive(Debug, Clone)]
pub struct Tokens<'a> {
    rest: &'a str,
    column: usize,
}

impl<'a> Tokens<'a> {
    /// The tokens of this text.
    pub fn of(text: &'a str) -> Self {
        Self { rest: text, column: 1 }
    }

    /// Cuts this many bytes off the rest, and counts their characters.
    fn cut(&mut self, bytes: usize) -> &'a str {
        todo!(
            "lesson 09, task 1: split the rest, and move on by as many columns as there are characters (book chapter 9; stuck? cargo learn hint 9)"
        )
    }
}

/// The number of bytes up to the first blank or punctuation mark; all of them where there is none.
fn word_len(text: &str) -> usize {
    todo!("lesson 09, task 1: where a word ends (book chapter 9; stuck? cargo learn hint 9)")
}

impl<'a> Iterator for Tokens<'a> {
    type Item = Token<'a>;

    fn next(&mut self) -> Option<Token<'a>> {
        todo!(
            "lesson 09, task 1: skip blanks, then cut off a punctuation mark or a word (book chapter 9; stuck? cargo learn hint 9)"
        )
    }
}

// Tasks 2 and 3: from tokens to a tree.

/// How far an expression is read.
struct Parser<'a> {
    text: &'a str,
    tokens: Vec<Token<'a>>,
    /// The position of the next token.
    next: usize,
    /// How many lists and calls are around it.
    depth: usize,
}

type Parsed<T> = Result<T, ExpressionError>;

/// Reads a whole text as one expression.
///
/// # Errors
/// [`ExpressionError`] with the column of what is wrong.
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
    /// The next token that is no separator.
    fn peek(&self) -> Option<Token<'a>> {
        let rest = self.tokens.get(self.next..).unwrap_or_default();
        rest.iter().find(|token| !token.kind.is_separator()).copied()
    }

    /// Takes the next token that is no separator, and the separators before it.
    fn take(&mut self) -> Option<Token<'a>> {
        let rest = self.tokens.get(self.next..).unwrap_or_default();
        let separators = rest.iter().take_while(|token| token.kind.is_separator()).count();
        let token = rest.get(separators).copied();
        self.next += separators + 1;
        token
    }

    /// Whether a value can follow: there is a token before the end, and it closes no list.
    fn has_value(&self) -> bool {
        self.peek().is_some_and(|token| token.kind != TokenKind::ListClose)
    }

    /// Whether the very next token, separator or not, is this one.
    fn next_is(&self, kind: TokenKind<'_>) -> bool {
        self.tokens.get(self.next).is_some_and(|token| token.kind == kind)
    }
}

/// The grammar: one function for each of its rules.
impl<'a> Parser<'a> {
    /// One value: a list, a call or a literal.
    fn expr(&mut self) -> Parsed<Expr> {
        todo!(
            "lesson 09, task 2: take a token and see which of the three it begins (book chapter 9; stuck? cargo learn hint 9)"
        )
    }

    /// The values up to the `]` that closes a list; its `[` is taken.
    fn list(&mut self, open: Token<'a>) -> Parsed<Expr> {
        todo!("lesson 09, task 2: values until there is a `]` (book chapter 9; stuck? cargo learn hint 9)")
    }

    /// As many values as a function takes; its name is taken.
    fn call(&mut self, name: Token<'a>, function: Function) -> Parsed<Expr> {
        todo!(
            "lesson 09, task 3: count the arguments, brackets or not (book chapter 9; stuck? cargo learn hint 9)"
        )
    }

    /// The function of this name; `torch.float` with nothing to convert is a word.
    fn function(&self, word: &str) -> Option<Function> {
        let called = |function: &Function| !matches!(function, Function::Cast(_)) || self.has_value();
        Function::from_name(word).filter(called)
    }

    /// Reads one level deeper, within bounds.
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

/// What can go wrong.
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

    /// An error at a token, or behind the last one.
    fn error(&self, token: Option<Token<'_>>, problem: ExpressionProblem) -> ExpressionError {
        let column = token.map_or_else(|| self.text.chars().count().saturating_add(1), |token| token.column);
        ExpressionError { text: self.text.to_owned(), column, problem }
    }
}

// Task 4: from the tree to reverse Polish form.

/// One step of an expression in reverse Polish form.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Step {
    /// Puts an input on the stack.
    Input(usize),
    /// Puts a number on the stack.
    Number(f64),
    /// Takes this many arguments from the stack, and puts the function's value there.
    Call(Function, usize),
}

/// An expression in reverse Polish form, every function behind its arguments; `None` for lists, words, bools and complex
/// numbers.
pub fn postfix(expr: &Expr) -> Option<Vec<Step>> {
    todo!(
        "lesson 09, task 4: a leaf is one step; a call is the steps of its arguments, and one more (book chapter 9; stuck? cargo learn hint 9)"
    )
}

// Task 5: values.

/// Runs steps on a stack of arrays. `None` where an input or an argument is missing, where shapes do not fit each other,
/// for a function that [`unary`] and [`binary`] do not know, and where more than one value is left.
pub fn calculate(steps: &[Step], inputs: &[ArrayViewD<'_, f64>]) -> Option<ArrayD<f64>> {
    todo!(
        "lesson 09, task 5: every step puts one array on the stack, a call takes some away first (book chapter 9; stuck? cargo learn hint 9)"
    )
}

/// The value of a function of one or two arrays.
fn apply(function: Function, args: &[ArrayD<f64>]) -> Option<ArrayD<f64>> {
    match args {
        [x] => Some(x.mapv(unary(function)?)),
        [a, b] => zip(a, b, binary(function)?),
        _ => None,
    }
}

/// Applies a function to each pair of elements of two arrays that are broadcast against each other.
fn zip(a: &ArrayD<f64>, b: &ArrayD<f64>, function: fn(f64, f64) -> f64) -> Option<ArrayD<f64>> {
    todo!(
        "lesson 09, task 5: the shape of both, both in that shape, and the function of each pair (book chapter 9; stuck? cargo learn hint 9)"
    )
}
