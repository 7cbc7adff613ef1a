//! Tokens as one line of text, whatever their layout in the source.

use proc_macro2::{Delimiter, Group, TokenStream, TokenTree};
use quote::ToTokens;

/// Tokens as rustfmt would write them in one line.
pub(super) fn tidy(tokens: impl ToTokens) -> String {
    let mut line = String::new();
    for word in tokens.to_token_stream().to_string().split_whitespace() {
        if is_apart(&line, word) {
            line.push(' ');
        }
        line.push_str(word);
    }
    // Lists that were broken into lines end with a comma.
    let broken = [(",)", ")"), (",>", ">"), (",]", "]"), (", }", " }")];
    broken.into_iter().fold(line, |line, (from, to)| line.replace(from, to))
}

/// Returns true if there is a space between the line so far and the next word.
fn is_apart(line: &str, word: &str) -> bool {
    let after = line.rsplit(|c: char| !c.is_alphanumeric() && c != '_').next().unwrap_or_default();
    let is_name = !after.is_empty() && !["as", "const", "dyn", "impl", "in", "mut", "where"].contains(&after);
    let is_generic = line.ends_with('>') && !line.ends_with("->") && !line.ends_with("=>");
    match word.chars().next() {
        _ if line.is_empty() || line.ends_with("::") => false,
        _ if line.ends_with(['(', '[', '<', '&', '*', '?', '#', '$']) => false,
        Some(',' | ';' | ':' | ')' | ']' | '>' | '!') if !line.ends_with("->") => false,
        Some('(' | '<') => !is_name && !is_generic,
        _ => true,
    }
}

/// Tokens without doc comments.
pub(super) fn without_docs(tokens: TokenStream) -> TokenStream {
    let mut kept: Vec<TokenTree> = Vec::new();
    for token in tokens {
        match token {
            TokenTree::Group(group) if is_doc(&group) => {
                // The `#` before it.
                kept.pop();
            }
            TokenTree::Group(group) => {
                let inner = Group::new(group.delimiter(), without_docs(group.stream()));
                kept.push(TokenTree::Group(inner));
            }
            other => kept.push(other),
        }
    }
    kept.into_iter().collect()
}

/// Returns true for the brackets of an attribute with documentation.
fn is_doc(group: &Group) -> bool {
    let first = group.stream().into_iter().next();
    let is_doc = matches!(first, Some(TokenTree::Ident(word)) if word == "doc");
    is_doc && group.delimiter() == Delimiter::Bracket
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_spaced_as_rustfmt_does() {
        for line in [
            "fn run(&mut self, inputs: &[Tensor]) -> Result<Vec<Tensor>, EngineError>",
            "fn map<T: ?Sized + Into<String>>(&'a self, f: impl Fn(&T) -> (usize, [u8; 4])) -> *const T",
            "unsafe extern \"C\" fn(*mut c_void, &dyn Fn(&str) -> Option<i64>)",
            "fn iter(&self) -> impl Iterator<Item = (&str, <T as Bits>::Word)> + '_",
            "fn never() -> !",
            "functions! { Abs = \"abs\" takes 1; }",
        ] {
            let tokens: TokenStream = line.parse().unwrap();
            assert_eq!(tidy(tokens), line);
        }
    }

    #[test]
    fn neither_line_breaks_nor_doc_comments_make_a_difference() {
        let tokens: TokenStream =
            "/// A function.\nfn f<\n    A,\n>(\n    a: A,\n    b: &[u8],\n)".parse().unwrap();
        assert_eq!(tidy(without_docs(tokens)), "fn f<A>(a: A, b: &[u8])");
    }
}
