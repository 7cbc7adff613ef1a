//! Splitting an expression into tokens.

// ANCHOR: token
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
// ANCHOR_END: token

// ANCHOR: tokens
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
        // ANCHOR: cut_todo -- task 1: split the rest, and advance the column by the number of characters taken
        let (taken, rest) = self.rest.split_at(bytes);
        self.rest = rest;
        self.column += taken.chars().count();
        taken
        // ANCHOR_END: cut_todo
    }
}

/// The number of bytes before the first blank or punctuation mark, or the length of the text if there is none.
fn word_len(text: &str) -> usize {
    // ANCHOR: word_len_todo -- task 1: where a word ends
    text.find(|c: char| c.is_whitespace() || punctuation(c).is_some()).unwrap_or(text.len())
    // ANCHOR_END: word_len_todo
}

impl<'a> Iterator for Tokens<'a> {
    type Item = Token<'a>;

    fn next(&mut self) -> Option<Token<'a>> {
        // ANCHOR: next_todo -- task 1: skip blanks, then cut off a punctuation mark or a word
        let blanks = self.rest.len() - self.rest.trim_start().len();
        self.cut(blanks);
        let column = self.column;
        let first = self.rest.chars().next()?;
        let kind = match punctuation(first) {
            Some(kind) => {
                self.cut(first.len_utf8());
                kind
            }
            None => TokenKind::Word(self.cut(word_len(self.rest))),
        };
        Some(Token { kind, column })
        // ANCHOR_END: next_todo
    }
}
// ANCHOR_END: tokens

#[cfg(test)]
mod tests {
    use super::*;
    use TokenKind::{Close, Comma, ListClose, ListOpen, Open, Word};

    #[test]
    fn words_end_at_punctuation_and_blanks() {
        let found: Vec<_> =
            Tokens::of("add(@0, [1.0,é]) x").map(|token| (token.column, token.kind)).collect();
        let wanted = [
            (1, Word("add")),
            (4, Open),
            (5, Word("@0")),
            (7, Comma),
            (9, ListOpen),
            (10, Word("1.0")),
            (13, Comma),
            (14, Word("é")),
            (15, ListClose),
            (16, Close),
            (18, Word("x")),
        ];
        assert_eq!(found, wanted);
    }

    #[test]
    fn nothing_and_blanks_have_no_tokens() {
        assert_eq!(Tokens::of("").count(), 0);
        assert_eq!(Tokens::of(" \t ").count(), 0);
    }
}
