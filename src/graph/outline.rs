//! The graph of a model that may not run, connected as far as possible.

use super::convert::{Outlined, Problem, convert_partly};
use super::draft::{Draft, Value};
use super::quantization::resolve_partly;
use super::{GraphError, RuntimeGraph, resolve_control, restore_losses};
use crate::pnnx::{OperandId, OperatorId, PnnxError};
use std::collections::HashMap;

/// A graph that is connected as far as possible, to describe a model that may not run.
#[derive(Debug)]
pub struct Outline {
    /// The graph with all operators that have layers, which are not initialised, so it does not run.
    pub graph: RuntimeGraph,
    /// The values of the file's operands.
    pub values: HashMap<OperandId, Value>,
    /// What has become of the file's operators, except those that are left out, such as assertions.
    pub operators: HashMap<OperatorId, Outlined>,
}

impl RuntimeGraph {
    /// Connects operators and operands as [`RuntimeGraph::build`], but goes on after each problem. Weights may be missing.
    ///
    /// # Errors
    /// As [`RuntimeGraph::init`]; an error for a cycle, or an operand without a producer.
    #[doc(hidden)]
    pub fn outline(mut self) -> Result<Outline, GraphError> {
        if self.file.is_none() {
            self.init()?;
        }
        let (registry, limits) = (self.registry().clone(), self.limits.clone());
        let Some(file) = &mut self.file else { return Err(GraphError::NotBuilt) };
        match resolve_control(file, &registry, None) {
            // The conversion finds the same operators.
            Ok(()) | Err(GraphError::UnknownOperators { .. }) => {}
            Err(error) => return Err(error),
        }
        let refused = resolve_partly(file)?;
        restore_losses(file)?;
        registry.resolve(file).map_err(PnnxError::from)?;
        let (draft, mut outlined) = convert_partly(file, &registry, &limits)?;
        for (id, error) in refused {
            if let Some(operator) = outlined.get_mut(&id) {
                operator.problem = Some(Problem::of(&error));
            }
        }
        let Draft { operators, operands, inputs, outputs, values } = draft;
        (self.operators, self.operands) = (operators, operands);
        (self.inputs, self.outputs) = (inputs, outputs);
        Ok(Outline { graph: self, values, operators: outlined })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Limits;
    use crate::pnnx::Graph;

    /// The operators of a model: their names, the numbers of their layers, and their problems.
    fn outlined(lines: &[&str]) -> Vec<(String, usize, String)> {
        let text = format!("7767517\n{} 0\n{}\n", lines.len(), lines.join("\n"));
        let file = Graph::parse(&text, &Limits::default()).unwrap();
        let Outline { operators, .. } = RuntimeGraph::from_pnnx(file.clone()).outline().unwrap();
        let line = |(id, operator): (OperatorId, &crate::pnnx::Operator)| {
            let found = operators.get(&id)?;
            let problem = match &found.problem {
                None => String::new(),
                Some(Problem::Unknown { .. }) => "unknown".to_owned(),
                Some(Problem::Refused(reason)) => reason.clone(),
            };
            Some((operator.name().to_owned(), found.layers.len(), problem))
        };
        file.operators().filter_map(line).collect()
    }

    #[test]
    fn every_problem_is_found_and_the_rest_is_connected() {
        let found = outlined(&[
            "pnnx.Input in 0 1 x #x=(2,3)f32",
            "prim::Constant c 0 1 n value=1",
            "aten::softmax s 2 1 x n y #y=(2,3)f32",
            "my.Own own 1 1 y z #z=(2,3)f32",
            "nn.ReLU sharp 1 1 z u sharp=True",
            "nn.ReLU fine 1 1 u v",
            "pnnx.Output out 1 0 v",
        ]);
        let layers: Vec<usize> = found.iter().map(|(_, layers, _)| *layers).collect();
        assert_eq!(layers, [0, 0, 1, 0, 0, 1, 0]);
        let problems: Vec<&str> = found.iter().map(|(_, _, problem)| problem.as_str()).collect();
        assert_eq!((problems[3], problems[5]), ("unknown", ""));
        assert!(problems[4].contains("sharp"), "{problems:?}");
        assert_eq!(problems[..3], ["", "", ""]);
    }

    #[test]
    fn assertions_are_left_out_and_other_branches_are_unknown() {
        let branch = |outputs: &str| {
            let last = if outputs == "1 1 b y" { "y" } else { "x" };
            outlined(&[
                "pnnx.Input in 0 1 x #x=(2,3)f32",
                "aten::Bool a 1 1 x b",
                &format!("prim::If i {outputs}"),
                &format!("pnnx.Output out 1 0 {last}"),
            ])
        };
        let names = |found: Vec<(String, usize, String)>| -> Vec<(String, String)> {
            found.into_iter().map(|(name, _, problem)| (name, problem)).collect()
        };
        assert_eq!(names(branch("1 0 b")).len(), 2);
        let lost = names(branch("1 1 b y"));
        assert!(lost.contains(&("i".to_owned(), "unknown".to_owned())), "{lost:?}");
    }
}
