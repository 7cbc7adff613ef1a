//! Lesson 09: expressions.
//!
//! The page of the book: `book/src/lessons/09_expressions.md`. Replace each `todo!` by code. This is the only file to edit.

use ixion::course::expression::literal;
use ixion::course::naive::{binary, unary};
use ixion::pnnx::{Expr, ExpressionError, ExpressionProblem, Function};
use ndarray::{ArrayD, ArrayViewD, Zip, arr0};

// Given: what a token is.

/// A token of an expression, with its position.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Token<'a> {
    /// The kind of token.
    pub kind: TokenKind<'a>,
    /// Column of the first character, in characters, counted from 1.
    pub column: usize,
}

/// The kind of a token.
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
    /// Returns true for `(`, `)` and `,`, which carry no meaning in prefix notation.
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

/// An iterator over the tokens of a text. Blanks separate words and are dropped.
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

    /// Takes this many bytes from the rest, and advances the column by their number of characters.
    fn cut(&mut self, bytes: usize) -> &'a str {
        todo!(
            "lesson 09, task 1: split the rest, and advance the column by the number of characters taken (book chapter 9; stuck? cargo learn hint 9)"
        )
    }
}

/// The number of bytes before the first blank or punctuation mark, or the length of the text if there is none.
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
        todo!(
            "lesson 09, task 2: take a token and see which of the three it begins (book chapter 9; stuck? cargo learn hint 9)"
        )
    }

    /// Parses the values of a list up to its `]`. The `[` is already taken.
    fn list(&mut self, open: Token<'a>) -> Parsed<Expr> {
        todo!("lesson 09, task 2: values until there is a `]` (book chapter 9; stuck? cargo learn hint 9)")
    }

    /// Parses the arguments of a function. Its name is already taken.
    fn call(&mut self, name: Token<'a>, function: Function) -> Parsed<Expr> {
        todo!(
            "lesson 09, task 3: count the arguments, brackets or not (book chapter 9; stuck? cargo learn hint 9)"
        )
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

// Task 4: from the tree to reverse Polish notation.

/// One step of an expression in reverse Polish notation.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Step {
    /// Pushes an input onto the stack.
    Input(usize),
    /// Pushes a number onto the stack.
    Number(f64),
    /// Pops this many arguments from the stack, and pushes the value of the function.
    Call(Function, usize),
}

/// An expression in reverse Polish notation, with every function after its arguments. `None` for lists, words, bools and
/// complex numbers.
pub fn postfix(expr: &Expr) -> Option<Vec<Step>> {
    todo!(
        "lesson 09, task 4: a leaf is one step; a call is the steps of its arguments, and one more (book chapter 9; stuck? cargo learn hint 9)"
    )
}

// Task 5: values.

/// Evaluates the steps on a stack of arrays. Returns `None` if an input or an argument is missing, if shapes do not
/// match, if [`unary`] and [`binary`] do not support a function, or if more than one value is left.
pub fn calculate(steps: &[Step], inputs: &[ArrayViewD<'_, f64>]) -> Option<ArrayD<f64>> {
    todo!(
        "lesson 09, task 5: every step pushes one array onto the stack; a call pops its arguments first (book chapter 9; stuck? cargo learn hint 9)"
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
        "lesson 09, task 5: broadcast both to their common shape, then apply the function to each pair (book chapter 9; stuck? cargo learn hint 9)"
    )
}
