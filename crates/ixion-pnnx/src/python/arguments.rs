//! The arguments of a call: inputs and parameters, by position or by name.

use super::arithmetic::as_tensor;
use super::literal::{literal, string};
use super::names::is_identifier;
use crate::operator::Operator;

/// Arguments that have these values if they are not given, in all of PyTorch's functions and modules that have them. A single
/// value stands for any number of equal ones.
const USUAL: &[(&str, &str)] = &[
    ("copy", "False"),
    ("dtype", "None"),
    ("keepdim", "False"),
    ("memory_format", "None"),
    ("non_blocking", "False"),
    ("norm", "None"),
    ("sparse", "False"),
    ("add_bias_kv", "False"),
    ("add_zero_attn", "False"),
    ("batch_first", "False"),
    ("bias", "True"),
    ("bidirectional", "False"),
    ("ceil_mode", "False"),
    ("count_include_pad", "True"),
    ("dilation", "1"),
    ("divisor_override", "None"),
    ("elementwise_affine", "True"),
    ("groups", "1"),
    ("inplace", "False"),
    ("num_layers", "1"),
    ("padding_mode", "\"zeros\""),
    ("proj_size", "0"),
    ("return_indices", "False"),
];

/// Arguments that have these values if they are not given, in functions and modules that also have another argument.
const USUAL_WITH: &[(&str, &str, &str)] = &[
    ("alpha", "1", "mat1"),
    ("beta", "1", "mat1"),
    ("output_padding", "0", "in_channels"),
    ("padding", "0", "kernel_size"),
    ("stride", "1", "in_channels"),
];

/// The arguments of a call, in the order in which they are written.
#[derive(Debug, Default)]
pub(super) struct Arguments {
    by_position: Vec<String>,
    by_name: Vec<(String, String)>,
}

/// Returns true for PyTorch's names of a first argument that is a tensor.
pub(super) fn names_a_tensor(name: &str) -> bool {
    matches!(name, "input" | "self" | "tensor")
}

/// Returns true if PNNX made a parameter of the tensor that a function is applied to, because it is constant.
pub(super) fn has_number_as_input(operator: &Operator) -> bool {
    operator.param("input").is_some_and(|input| !input.is_none())
}

impl Arguments {
    /// The inputs of an operator, then its parameters. `texts` are the inputs as Python source.
    ///
    /// An input with a name is passed by name, except a first input named `input`, `self` or `tensor`: PyTorch's name of
    /// the first argument is usually `input`, but not always, so it is passed by position. An input without a name must
    /// be passed by position, and so must all inputs before it.
    pub(super) fn of(operator: &Operator, texts: &[String]) -> Self {
        Self::from(operator, texts, 0, |index, name| index == 0 && names_a_tensor(name))
    }

    /// Same as [`Arguments::of`] without the tensor on which the method is called, which is returned: the first input, or the
    /// parameter `input`.
    pub(super) fn of_method(operator: &Operator, texts: &[String]) -> Option<(String, Self)> {
        if !has_number_as_input(operator) {
            return Some((texts.first()?.clone(), Self::from(operator, texts, 1, |_, _| false)));
        }
        let mut arguments = Self::from(operator, texts, 0, |_, _| false);
        Some((as_tensor(&arguments.take("input")?), arguments))
    }

    fn from(
        operator: &Operator,
        texts: &[String],
        skip: usize,
        by_position: impl Fn(usize, &str) -> bool,
    ) -> Self {
        let names = operator.input_names();
        let last_nameless = names.iter().rposition(Option::is_none);
        let mut arguments = Self::default();
        for (index, (name, text)) in names.iter().zip(texts).enumerate().skip(skip) {
            match name {
                Some(name) if !by_position(index, name) && last_nameless.is_none_or(|last| index > last) => {
                    arguments.name(name, text.clone());
                }
                _ => arguments.by_position.push(text.clone()),
            }
        }
        arguments.settings(operator);
        arguments
    }

    /// The inputs of an operator by position, then its parameters.
    pub(super) fn in_order(operator: &Operator, texts: Vec<String>) -> Self {
        let mut arguments = Self { by_position: texts, by_name: Vec::new() };
        arguments.settings(operator);
        arguments
    }

    fn settings(&mut self, operator: &Operator) {
        for (key, parameter) in operator.params() {
            self.name(key, literal(parameter));
        }
    }

    /// Appends a named argument.
    pub(super) fn name(&mut self, name: &str, value: String) {
        self.by_name.push((name.to_owned(), value));
    }

    /// Changes the value of a named argument.
    pub(super) fn change(&mut self, name: &str, change: impl FnOnce(&str) -> String) {
        if let Some((_, value)) = self.by_name.iter_mut().find(|(key, _)| key == name) {
            *value = change(value);
        }
    }

    /// Changes the name of a named argument.
    pub(super) fn rename(&mut self, name: &str, other: &str) {
        if let Some((key, _)) = self.by_name.iter_mut().find(|(key, _)| key == name) {
            other.clone_into(key);
        }
    }

    /// Keeps only the named arguments whose names satisfy a condition.
    pub(super) fn keep(&mut self, keep: impl Fn(&str) -> bool) {
        self.by_name.retain(|(name, _)| keep(name));
    }

    /// Removes a named argument and returns its value.
    pub(super) fn take(&mut self, name: &str) -> Option<String> {
        let index = self.by_name.iter().position(|(key, _)| key == name)?;
        Some(self.by_name.remove(index).1)
    }

    /// Removes the named arguments that have the values which they have anyway.
    pub(super) fn drop_usual(&mut self) {
        let with = USUAL_WITH.iter().filter(|(_, _, other)| self.has(other));
        let usual: Vec<(&str, &str)> =
            USUAL.iter().copied().chain(with.map(|&(key, value, _)| (key, value))).collect();
        let is_usual =
            |name: &str, value: &str| usual.iter().any(|(key, usual)| *key == name && is_all(value, usual));
        self.by_name.retain(|(name, value)| !is_usual(name, value));
    }

    /// Returns true if there is a named argument of this name.
    pub(super) fn has(&self, name: &str) -> bool {
        self.by_name.iter().any(|(key, _)| key == name)
    }

    /// Returns true if there are no arguments.
    pub(super) fn is_empty(&self) -> bool {
        self.by_position.is_empty() && self.by_name.is_empty()
    }

    /// Appends a positional argument.
    pub(super) fn push(&mut self, value: String) {
        self.by_position.push(value);
    }

    /// Turns a named argument into the last positional one.
    pub(super) fn by_position(&mut self, name: &str) {
        if let Some(value) = self.take(name) {
            self.by_position.push(value);
        }
    }

    /// The first positional argument.
    pub(super) fn first(&self) -> Option<&str> {
        self.by_position.first().map(String::as_str)
    }

    /// Changes the first positional argument.
    pub(super) fn change_first(&mut self, change: impl FnOnce(&str) -> String) {
        if let Some(first) = self.by_position.first_mut() {
            *first = change(first);
        }
    }

    /// Replaces all positional arguments by one.
    pub(super) fn gather(&mut self, gather: impl FnOnce(Vec<String>) -> String) {
        let values = std::mem::take(&mut self.by_position);
        self.by_position.push(gather(values));
    }

    /// Inserts a positional argument before all others.
    pub(super) fn push_front(&mut self, value: String) {
        self.by_position.insert(0, value);
    }

    /// The text between the brackets of the call.
    pub(super) fn text(&self) -> String {
        let (plain, odd): (Vec<_>, Vec<_>) = self.by_name.iter().partition(|(name, _)| is_identifier(name));
        let plain = plain.iter().map(|(name, value)| format!("{name}={value}"));
        let odd: Vec<String> = odd.iter().map(|(name, value)| format!("{}: {value}", string(name))).collect();
        let odd = (!odd.is_empty()).then(|| format!("**{{{}}}", odd.join(", ")));
        let all: Vec<String> = self.by_position.iter().cloned().chain(plain).chain(odd).collect();
        all.join(", ")
    }
}

/// Returns true if a value is this one, or a tuple of it alone.
fn is_all(value: &str, usual: &str) -> bool {
    let items = value.strip_prefix('(').and_then(|items| items.strip_suffix(')'));
    let mut items = items.unwrap_or(value).split(", ").map(|item| item.trim_end_matches(','));
    items.all(|item| item == usual)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn usual_values_are_told_from_others() {
        for value in ["1", "(1,)", "(1, 1)"] {
            assert!(is_all(value, "1"), "{value}");
        }
        for value in ["2", "(1, 2)", "()", "", "(1", "11"] {
            assert!(!is_all(value, "1"), "{value}");
        }
    }

    #[test]
    fn arguments_are_dropped_if_they_have_their_usual_values() {
        let mut arguments = Arguments::default();
        for (name, value) in [("kernel_size", "3"), ("padding", "(0, 0)"), ("stride", "1"), ("groups", "1")] {
            arguments.name(name, value.to_owned());
        }
        arguments.drop_usual();
        assert_eq!(arguments.text(), "kernel_size=3, stride=1");
        assert!(!arguments.is_empty());
    }
}
