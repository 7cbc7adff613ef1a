//! The arguments of a call: inputs and parameters, by position or by name.

use super::literal::{literal, string};
use super::names::is_identifier;
use crate::operator::Operator;

/// The arguments of a call, in the order in which they are written.
#[derive(Debug, Default)]
pub(super) struct Arguments {
    by_position: Vec<String>,
    by_name: Vec<(String, String)>,
}

impl Arguments {
    /// The inputs of an operator, then its parameters.
    ///
    /// An input with a name is passed by name, except a first input named `input`, `self` or `tensor`: PyTorch's name of
    /// the first argument is usually `input`, but not always, so it is passed by position. An input without a name must
    /// be passed by position, and so must all inputs before it.
    pub(super) fn of(operator: &Operator, variables: &[String]) -> Self {
        let is_first = |index: usize, name: &str| index == 0 && matches!(name, "input" | "self" | "tensor");
        Self::from(operator, variables, 0, is_first)
    }

    /// Same as [`Arguments::of`] without the first input, on which the method is called.
    pub(super) fn of_method(operator: &Operator, variables: &[String]) -> Self {
        Self::from(operator, variables, 1, |_, _| false)
    }

    fn from(
        operator: &Operator,
        variables: &[String],
        skip: usize,
        by_position: impl Fn(usize, &str) -> bool,
    ) -> Self {
        let names = operator.input_names();
        let last_nameless = names.iter().rposition(Option::is_none);
        let mut arguments = Self::default();
        for (index, (name, variable)) in names.iter().zip(variables).enumerate().skip(skip) {
            match name {
                Some(name) if !by_position(index, name) && last_nameless.is_none_or(|last| index > last) => {
                    arguments.name(name, variable.clone());
                }
                _ => arguments.push(variable.clone()),
            }
        }
        arguments.settings(operator);
        arguments
    }

    /// Only the parameters of an operator.
    pub(super) fn of_settings(operator: &Operator) -> Self {
        let mut arguments = Self::default();
        arguments.settings(operator);
        arguments
    }

    fn settings(&mut self, operator: &Operator) {
        for (key, parameter) in operator.params() {
            self.name(key, literal(parameter));
        }
    }

    /// Appends a positional argument.
    pub(super) fn push(&mut self, value: String) {
        self.by_position.push(value);
    }

    fn name(&mut self, name: &str, value: String) {
        self.by_name.push((name.to_owned(), value));
    }

    /// Changes the value of a named argument.
    pub(super) fn change(&mut self, name: &str, change: impl FnOnce(&str) -> String) {
        if let Some((_, value)) = self.by_name.iter_mut().find(|(key, _)| key == name) {
            *value = change(value);
        }
    }

    /// Removes a named argument and returns its value.
    pub(super) fn take(&mut self, name: &str) -> Option<String> {
        let index = self.by_name.iter().position(|(key, _)| key == name)?;
        Some(self.by_name.remove(index).1)
    }

    /// Turns a named argument into the last positional one.
    pub(super) fn by_position(&mut self, name: &str) {
        if let Some(value) = self.take(name) {
            self.push(value);
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
