//! Python identifiers for operators and operands.

use std::collections::HashSet;

/// Generates unique identifiers. Their prefix, such as `v_`, keeps them apart from Python's keywords and from the attributes of
/// `nn.Module`.
#[derive(Debug, Default)]
pub(super) struct Names {
    taken: HashSet<String>,
}

impl Names {
    /// A unique identifier that starts with `prefix` and resembles `name`.
    pub(super) fn unique(&mut self, prefix: &str, name: &str) -> String {
        let mut base: String = prefix.to_owned();
        base.extend(name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }));
        let mut candidate = base.clone();
        let mut number = 2;
        while !self.taken.insert(candidate.clone()) {
            candidate = format!("{base}_{number}");
            number += 1;
        }
        candidate
    }
}

/// Returns true if a text is a Python identifier that can name an argument.
pub(super) fn is_identifier(text: &str) -> bool {
    let mut chars = text.chars();
    let first = chars.next().is_some_and(|c| c.is_ascii_alphabetic() || c == '_');
    first && chars.all(|c| c.is_ascii_alphanumeric() || c == '_') && !KEYWORDS.contains(&text)
}

/// Returns true if a text consists of identifiers joined by dots, such as `torch.fft.rfft`.
pub(super) fn is_dotted(text: &str) -> bool {
    text.split('.').all(is_identifier)
}

/// Returns true for a module or function of `torch.ao.nn.quantized` or `torch.ao.nn.intrinsic.quantized`.
pub(super) fn is_quantized(op_type: &str) -> bool {
    let name = op_type.strip_prefix("nn.").map(|name| name.strip_prefix("intrinsic.").unwrap_or(name));
    name.and_then(|name| name.strip_prefix("quantized.")).is_some_and(|name| !name.contains('.'))
}

/// Python's keywords, `keyword.kwlist`.
const KEYWORDS: &[&str] = &[
    "False", "None", "True", "and", "as", "assert", "async", "await", "break", "class", "continue", "def",
    "del", "elif", "else", "except", "finally", "for", "from", "global", "if", "import", "in", "is",
    "lambda", "nonlocal", "not", "or", "pass", "raise", "return", "try", "while", "with", "yield",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_become_identifiers_and_stay_distinct() {
        let mut names = Names::default();
        assert_eq!(names.unique("m_", "attention_3.to_out.0"), "m_attention_3_to_out_0");
        assert_eq!(names.unique("m_", "attention_3_to_out.0"), "m_attention_3_to_out_0_2");
        assert_eq!(names.unique("m_", "attention_3_to_out_0"), "m_attention_3_to_out_0_3");
        assert_eq!(names.unique("m_", "forward"), "m_forward");
        assert_eq!(names.unique("v_", "7"), "v_7");
        assert_eq!(names.unique("v_", "x.1"), "v_x_1");
        assert_eq!(names.unique("v_", "é;import os"), "v___import_os");
    }

    #[test]
    fn quantised_modules_are_told_by_their_names() {
        assert!(is_quantized("nn.quantized.Linear") && is_quantized("nn.intrinsic.quantized.ConvReLU2d"));
        assert!(is_quantized("nn.quantized.cat") && !is_quantized("nn.quantized.dynamic.Linear"));
        assert!(!is_quantized("nn.Linear") && !is_quantized("quantized.Linear"));
    }

    #[test]
    fn identifiers_are_recognised() {
        assert!(is_identifier("input") && is_identifier("_x1"));
        assert!(!is_identifier("") && !is_identifier("1x") && !is_identifier("a-b") && !is_identifier("in"));
        assert!(is_dotted("torch.fft.rfft") && !is_dotted("torch..x") && !is_dotted("torch.x()"));
    }
}
