//! Operators of ONNX, which keep their names in files that PNNX made from ONNX.
//!
//! The source has a function for each type that it uses, such as `onnx_Gather`, with ONNX's names of inputs and attributes, and
//! its defaults. So a converted model takes inputs of all sizes, like the file.

use super::Writer;
use super::arguments::Arguments;
use super::arithmetic::as_tensor;
use super::error::{PythonProblem, Written};
use super::kind::Kind;
use super::literal::literal;
use crate::operator::Operator;
use ixion_tensor::DType;
use std::collections::BTreeSet;

/// The functions, and what they share, with two empty lines between them.
const SOURCES: &[&str] = &[
    include_str!("onnx/arrays.py"),
    include_str!("onnx/elements.py"),
    include_str!("onnx/windows.py"),
    include_str!("onnx/sequences.py"),
];

/// The key that names the results of a recurrent network, if a file is ambiguous.
const RESULTS: &str = "results";

/// A function of Python.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Function {
    name: &'static str,
    source: &'static str,
}

impl Function {
    fn all() -> impl Iterator<Item = Self> {
        SOURCES.iter().flat_map(|source| source.trim_end().split("\n\n\n")).filter_map(|source| {
            let (name, _) = source.strip_prefix("def ")?.split_once('(')?;
            Some(Self { name, source })
        })
    }

    /// The function that computes an operator.
    fn of(op_type: &str) -> Option<Self> {
        Self::all().find(|function| function.name.strip_prefix("onnx_") == Some(op_type))
    }

    /// The names of the arguments that are inputs, and whether any number of further inputs follows.
    fn inputs(self) -> (Vec<&'static str>, bool) {
        let (_, arguments) = self.source.split_once('(').unwrap_or_default();
        let (arguments, _) = arguments.split_once("):").unwrap_or_default();
        let mut names = Vec::new();
        for argument in arguments.split(',').map(str::trim) {
            if let Some(others) = argument.strip_prefix('*') {
                return (names, !others.is_empty());
            }
            names.extend(argument.split('=').next());
        }
        (names, false)
    }

    fn calls(self, other: &str) -> bool {
        self.source.contains(&format!("{other}("))
    }
}

/// The source of the functions with these names, and of those that they call.
pub(super) fn functions(names: &BTreeSet<&'static str>) -> Vec<&'static str> {
    let all: Vec<Function> = Function::all().collect();
    let (mut used, mut found) = (BTreeSet::new(), names.clone());
    while let Some(name) = found.pop_first() {
        if used.insert(name) {
            for function in all.iter().filter(|function| function.name == name) {
                found.extend(all.iter().map(|other| other.name).filter(|other| function.calls(other)));
            }
        }
    }
    all.iter().filter(|function| used.contains(function.name)).map(|function| function.source).collect()
}

/// Returns true for names such as those of ONNX's operators, which have no dots.
pub(super) fn has_onnx_name(op_type: &str) -> bool {
    let has_no_signs = op_type.chars().all(|c| c.is_ascii_alphanumeric());
    has_no_signs && op_type.starts_with(|c: char| c.is_ascii_uppercase())
}

impl Writer<'_> {
    /// Calls the function that computes an operator.
    pub(super) fn onnx(&mut self, operator: &Operator) -> Written {
        let function = Function::of(operator.op_type()).ok_or(PythonProblem::Onnx)?;
        let (count, places) = self.results(operator)?;
        let arguments = self.onnx_arguments(operator, function)?;
        self.functions.insert(function.name);
        let call = format!("{}({})", function.name, arguments.text());
        match places.as_slice() {
            _ if count == 1 => self.assign(operator, &call),
            [place] => self.assign(operator, &format!("{call}[{place}]")),
            places => {
                let outputs = self.output_variables(operator);
                let mut names = vec!["_".to_owned(); count];
                for (&place, output) in places.iter().zip(outputs) {
                    if let Some(name) = names.get_mut(place) {
                        *name = output;
                    }
                }
                self.forward.push(format!("{} = {call}", names.join(", ")));
            }
        }
        Ok(())
    }

    /// The inputs in the order of the function's arguments, without those that are parameters, and the parameters. After an input
    /// that is a parameter, others are passed by name, unless further ones without names follow.
    fn onnx_arguments(&self, operator: &Operator, function: Function) -> Written<Arguments> {
        let mut params: Vec<(&str, String)> = operator
            .params()
            .iter()
            .filter(|(key, _)| *key != RESULTS)
            .map(|(key, value)| (key.as_str(), literal(value)))
            .collect();
        if operator.op_type() == "Gather" && self.keeps_axis(operator) {
            let index = operator.param("indices").filter(|index| index.as_i64().is_ok());
            let place = params.iter_mut().find(|(key, _)| *key == "indices" && index.is_some());
            if let Some((_, value)) = place {
                *value = format!("({value},)");
            }
        }
        let (names, takes_more) = function.inputs();
        let texts = self.onnx_inputs(operator);
        let own = names.iter().filter(|name| !operator.has_param(name)).count();
        let has_more = texts.len() > own;
        if has_more && !takes_more {
            let wanted = "as many inputs as ONNX's operator has";
            return Err(PythonProblem::Inputs { wanted, found: texts.len() });
        }
        let (mut arguments, mut inputs, mut is_by_name) = (Arguments::default(), texts.into_iter(), false);
        for name in names {
            let param = params.iter().position(|(key, _)| *key == name);
            is_by_name |= param.is_some() && !has_more;
            let value = match param {
                Some(place) => Some(params.remove(place).1),
                None => inputs.next(),
            };
            match value {
                Some(value) if is_by_name => arguments.name(name, value),
                Some(value) => arguments.push(value),
                None => is_by_name = true,
            }
        }
        inputs.for_each(|input| arguments.push(input));
        params.into_iter().for_each(|(key, value)| arguments.name(key, value));
        Ok(arguments)
    }

    /// The inputs, of which the first one is always a tensor.
    fn onnx_inputs(&self, operator: &Operator) -> Vec<String> {
        let mut texts = self.input_variables(operator);
        let is_tensor = operator.inputs().first().is_none_or(|&input| self.kind(input) == Kind::Tensor);
        if let Some(first) = texts.first_mut().filter(|_| !is_tensor) {
            *first = as_tensor(first);
        }
        texts
    }

    /// The number of results of an operator, and those that its outputs are: PNNX leaves out unused ones.
    fn results(&self, operator: &Operator) -> Written<(usize, Vec<usize>)> {
        let found = operator.outputs().len();
        let count = match operator.op_type() {
            "LSTM" => return self.states(operator, &["Y", "Y_h", "Y_c"]),
            "GRU" | "RNN" => return self.states(operator, &["Y", "Y_h"]),
            "MaxPool" if found == 1 && self.is_index(operator) => return Ok((2, vec![1])),
            "MaxPool" | "TopK" => 2,
            "BatchNormalization" | "DynamicQuantizeLinear" => 3,
            "Unique" => 4,
            _ => 1,
        };
        match found <= count {
            true => Ok((count, (0..found).collect())),
            false => {
                let wanted = "no more outputs than ONNX's operator has";
                Err(PythonProblem::Outputs { wanted, found })
            }
        }
    }

    /// The results of a recurrent network that its outputs are, told by the key `results` or by the recorded number of axes.
    fn states(&self, operator: &Operator, names: &[&str]) -> Written<(usize, Vec<usize>)> {
        let found = operator.outputs().len();
        let rank = operator.outputs().first().and_then(|&output| self.rank(output));
        let named = operator.param(RESULTS).map(|results| {
            let place = |name: &str| names.iter().position(|known| *known == name.trim());
            results.raw().trim_matches(['(', ')']).split(',').map(place).collect::<Option<Vec<usize>>>()
        });
        let places = match (named, names.len(), found, rank) {
            (Some(named), ..) => named,
            (None, _, 1, Some(4)) => Some(vec![0]),
            (None, 2, 1, Some(3)) => Some(vec![1]),
            (None, 3, 2, Some(3)) => Some(vec![1, 2]),
            (None, count, ..) => (count == found).then(|| (0..count).collect()),
        };
        let wanted = "outputs that are told by their shapes, or named, such as `results=(Y_h)`";
        let places = places.filter(|places| places.len() == found);
        places.map(|places| (names.len(), places)).ok_or(PythonProblem::Outputs { wanted, found })
    }

    /// Returns true if the output is recorded as indices, and the input as something else.
    fn is_index(&self, operator: &Operator) -> bool {
        let dtype = |&operand: &_| self.graph.get_operand(operand).and_then(|operand| operand.dtype());
        let input = operator.inputs().first().and_then(dtype);
        let output = operator.outputs().first().and_then(dtype);
        output == Some(DType::I64) && input.is_some_and(|input| input != DType::I64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_have_their_names_and_inputs() {
        let inputs = |op_type| Function::of(op_type).map(Function::inputs);
        assert_eq!(inputs("Gather"), Some((vec!["x", "indices"], false)));
        assert_eq!(inputs("Slice"), Some((vec!["x", "starts", "ends", "axes", "steps"], false)));
        assert_eq!(inputs("Pad"), Some((vec!["x", "pads"], true)));
        assert_eq!(inputs("Mean"), Some((vec![], true)));
        assert_eq!(inputs("RandomNormal"), Some((vec![], false)));
        assert_eq!(inputs("Det"), Some((vec!["x"], false)));
        assert_eq!(inputs("numbers"), Some((vec!["values"], false)));
        assert_eq!(inputs("Block"), None);
    }

    #[test]
    fn functions_come_with_those_that_they_call() {
        let of = |name| {
            let sources = functions(&BTreeSet::from([name]));
            let name = |source: &'static str| source.split(['(', ' ']).nth(1).unwrap_or_default();
            sources.into_iter().map(name).collect::<Vec<_>>()
        };
        assert_eq!(of("onnx_Softsign"), ["onnx_Softsign"]);
        assert_eq!(of("onnx_GatherND"), ["onnx_wrapped", "onnx_places", "onnx_GatherND"]);
        let needed = ["onnx_number", "onnx_fitted", "onnx_scan", "onnx_CumSum"];
        assert_eq!(of("onnx_CumSum"), needed);
        assert!(functions(&BTreeSet::new()).is_empty());
    }

    #[test]
    fn every_function_is_complete() {
        for function in Function::all() {
            assert!(function.name.starts_with("onnx_"), "{}", function.name);
            assert!(function.source.lines().all(|line| line.len() <= 120), "{}", function.name);
        }
        let parts: usize = SOURCES.iter().map(|source| source.matches("\ndef ").count() + 1).sum();
        assert_eq!(Function::all().count(), parts);
    }
}
