//! Python identifiers for operators and operands.

use std::collections::HashSet;

/// Generates unique identifiers.
pub(super) struct Names {
    taken: HashSet<String>,
}

impl Names {
    /// For attributes of `Model`, which must not shadow the attributes of `nn.Module`.
    pub(super) fn for_members() -> Self {
        Self { taken: MODULE_ATTRIBUTES.iter().chain(KEYWORDS).map(|&name| name.to_owned()).collect() }
    }

    /// For local variables.
    pub(super) fn for_variables() -> Self {
        Self { taken: KEYWORDS.iter().map(|&name| name.to_owned()).collect() }
    }

    /// A unique identifier that starts with `prefix` and resembles `name`.
    pub(super) fn unique(&mut self, prefix: &str, name: &str) -> String {
        let base = identifier(prefix, name);
        let mut candidate = base.clone();
        let mut number = 2;
        while !self.taken.insert(candidate.clone()) {
            candidate = format!("{base}_{number}");
            number += 1;
        }
        candidate
    }
}

/// Replaces invalid characters of an identifier by `_`. A name that does not start with a letter gets a prefix: Python
/// would mangle two leading underscores.
fn identifier(prefix: &str, name: &str) -> String {
    let mut text: String = prefix.to_owned();
    text.extend(name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }));
    let starts_well = text.starts_with(|c: char| c.is_ascii_alphabetic());
    if starts_well { text } else { format!("op_{text}") }
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

const KEYWORDS: &[&str] = &[
    "False", "None", "True", "and", "as", "assert", "async", "await", "break", "class", "continue", "def",
    "del", "elif", "else", "except", "finally", "for", "from", "global", "if", "import", "in", "is",
    "lambda", "nonlocal", "not", "or", "pass", "raise", "return", "try", "while", "with", "yield",
];

const MODULE_ATTRIBUTES: &[&str] = &[
    "add_module",
    "apply",
    "bfloat16",
    "buffers",
    "call_super_init",
    "children",
    "compile",
    "cpu",
    "cuda",
    "double",
    "dump_patches",
    "eval",
    "extra_repr",
    "float",
    "forward",
    "get_buffer",
    "get_extra_state",
    "get_parameter",
    "get_submodule",
    "half",
    "ipu",
    "load_state_dict",
    "modules",
    "mtia",
    "named_buffers",
    "named_children",
    "named_modules",
    "named_parameters",
    "parameters",
    "register_backward_hook",
    "register_buffer",
    "register_forward_hook",
    "register_forward_pre_hook",
    "register_full_backward_hook",
    "register_full_backward_pre_hook",
    "register_load_state_dict_post_hook",
    "register_load_state_dict_pre_hook",
    "register_module",
    "register_parameter",
    "register_state_dict_post_hook",
    "register_state_dict_pre_hook",
    "requires_grad_",
    "set_extra_state",
    "set_submodule",
    "share_memory",
    "state_dict",
    "to",
    "to_empty",
    "train",
    "training",
    "type",
    "xpu",
    "zero_grad",
    "T_destination",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_become_identifiers_and_stay_distinct() {
        let mut names = Names::for_members();
        assert_eq!(names.unique("", "attention_3.to_out.0"), "attention_3_to_out_0");
        assert_eq!(names.unique("", "attention_3_to_out.0"), "attention_3_to_out_0_2");
        assert_eq!(names.unique("", "attention_3_to_out_0"), "attention_3_to_out_0_3");
        assert_eq!(names.unique("", "7"), "op_7");
        assert_eq!(names.unique("", "__x"), "op___x");
        assert_eq!(names.unique("", "forward"), "forward_2");
        assert_eq!(names.unique("", "lambda"), "lambda_2");
        assert_eq!(names.unique("v_", "x.1"), "v_x_1");
        assert_eq!(names.unique("", "é;import os"), "op___import_os");
    }

    #[test]
    fn identifiers_are_recognised() {
        assert!(is_identifier("input") && is_identifier("_x1"));
        assert!(!is_identifier("") && !is_identifier("1x") && !is_identifier("a-b") && !is_identifier("in"));
        assert!(is_dotted("torch.fft.rfft") && !is_dotted("torch..x") && !is_dotted("torch.x()"));
    }
}
