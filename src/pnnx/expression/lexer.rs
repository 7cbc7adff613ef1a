//! From characters to tokens.

/// A piece of an expression and where it starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Token<'a> {
    pub(super) kind: TokenKind<'a>,
    /// Column in characters, counted from 1.
    pub(super) column: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TokenKind<'a> {
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
    pub(super) fn is_separator(self) -> bool {
        matches!(self, Self::Open | Self::Close | Self::Comma)
    }
}

/// Splits a text into tokens. Blanks separate words and are dropped.
pub(super) fn tokens(text: &str) -> impl Iterator<Item = Token<'_>> {
    let mut rest = text;
    let mut column = 1;
    std::iter::from_fn(move || {
        let trimmed = rest.trim_start();
        let (blanks, _) = rest.split_at(rest.len() - trimmed.len());
        column += blanks.chars().count();
        let first = trimmed.chars().next()?;
        let kind = punctuation(first).unwrap_or_else(|| TokenKind::Word(word(trimmed)));
        let length = match kind {
            TokenKind::Word(word) => word.len(),
            _ => first.len_utf8(),
        };
        let (taken, left) = trimmed.split_at(length);
        rest = left;
        let token = Token { kind, column };
        column += taken.chars().count();
        Some(token)
    })
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

/// The word at the start of a text.
fn word(text: &str) -> &str {
    let end = text.find(|c: char| c.is_whitespace() || punctuation(c).is_some()).unwrap_or(text.len());
    &text[..end]
}

#[cfg(test)]
mod tests {
    use super::*;
    use TokenKind::{Close, Comma, ListClose, ListOpen, Open, Word};

    #[test]
    fn words_end_at_punctuation_and_blanks() {
        let found: Vec<_> = tokens("add(@0, [1.0,é]) x").map(|token| (token.column, token.kind)).collect();
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
        assert_eq!(tokens("").count(), 0);
        assert_eq!(tokens(" \t ").count(), 0);
    }
}
