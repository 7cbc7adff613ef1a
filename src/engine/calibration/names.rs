//! Names in scales that a model does not have.

use super::Scales;
use crate::engine::EngineError;
use crate::graph::{RuntimeGraph, RuntimeOperand, RuntimeOperator};
use crate::pnnx;
use std::collections::BTreeSet;

/// Names in scales that the file of a model does not have. They may be those of operands and operators that passes create, or
/// misspelt.
#[derive(Debug)]
pub(in crate::engine) struct UnknownNames<'a> {
    scales: &'a Scales,
    operands: Vec<&'a str>,
    operators: Vec<&'a str>,
}

impl<'a> UnknownNames<'a> {
    /// The names that the file does not have.
    pub(in crate::engine) fn new(scales: &'a Scales, file: &pnnx::Graph) -> Self {
        let operands = scales.iter().map(|(name, _)| name).filter(|name| file.operand_named(name).is_none());
        let operators = scales.kept().filter(|name| file.operator_named(name).is_none());
        Self { scales, operands: operands.collect(), operators: operators.collect() }
    }

    /// Checks that the graph after the passes has all of them.
    ///
    /// # Errors
    /// [`EngineError::UnknownName`] for the first one that it lacks.
    pub(in crate::engine) fn check(&self, graph: &RuntimeGraph) -> Result<(), EngineError> {
        let (operands, operators) = (graph.operands().iter(), graph.operators().iter());
        self.check_kind("operand", &self.operands, operands.map(RuntimeOperand::name))?;
        self.check_kind("operator", &self.operators, operators.map(RuntimeOperator::name))
    }

    fn check_kind<'g>(
        &self,
        kind: &'static str,
        names: &[&str],
        known: impl Iterator<Item = &'g str>,
    ) -> Result<(), EngineError> {
        if names.is_empty() {
            return Ok(());
        }
        let known: BTreeSet<&str> = known.collect();
        let Some(&name) = names.iter().find(|&&name| !known.contains(name)) else { return Ok(()) };
        let path = self.scales.path().map(|path| path.display().to_string());
        Err(EngineError::UnknownName {
            scales: path.unwrap_or_else(|| "the scales".to_owned()),
            kind,
            name: name.to_owned(),
            nearest: nearest(name, &known).map(str::to_owned),
        })
    }
}

/// The name that is most likely meant by another one: at most one letter in three differs, or one of two.
fn nearest<'g>(name: &str, known: &BTreeSet<&'g str>) -> Option<&'g str> {
    let near = known.iter().filter_map(|&known| {
        let longest = name.len().max(known.len());
        let allowed = if longest > 3 { longest / 3 } else { longest / 2 };
        // Names of other lengths cannot be near, however long they are.
        let may_be_near = name.len().abs_diff(known.len()) <= allowed;
        let letters = may_be_near.then(|| strsim::levenshtein(name, known))?;
        (letters <= allowed).then_some((letters, known))
    });
    near.min().map(|(_, known)| known)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Limits;
    use crate::engine::{Builder, Precision};
    use crate::pnnx::Graph;

    fn built(scales: Scales, precision: Precision) -> Result<(), String> {
        let text = "7767517\n3 2\n\
            pnnx.Input in 0 1 x #x=(1,6)f32\n\
            F.relu act 1 1 x hidden\n\
            pnnx.Output out 1 0 hidden\n";
        let builder = Builder::from_pnnx(Graph::parse(text, &Limits::default()).unwrap());
        let built = builder.with_precisions([precision]).with_scales(scales).build();
        built.map(drop).map_err(|error| error.to_string())
    }

    fn scales(name: &str) -> Scales {
        [("x", 0.5), (name, 0.25)].into_iter().collect()
    }

    #[test]
    fn unknown_names_are_errors_with_the_name_that_may_be_meant() {
        let error = built(scales("hiden"), Precision::Int8).unwrap_err();
        let wanted = "the scales: the model has no operand `hiden`; did you mean `hidden`?";
        assert!(error.starts_with(wanted), "{error}");
        let kept = scales("hidden").with_kept(["in", "actt"]);
        let error = built(kept, Precision::Int8).unwrap_err();
        assert!(error.contains("no operator `actt`; did you mean `act`?"), "{error}");
        let error = built(scales("something"), Precision::Int8).unwrap_err();
        assert!(error.contains("no operand `something`; run `ixion calibrate`"), "{error}");
    }

    #[test]
    fn names_of_the_model_are_accepted_and_those_of_unused_scales_too() {
        assert_eq!(built(scales("hidden").with_kept(["act"]), Precision::Int8), Ok(()));
        assert_eq!(built(scales("something"), Precision::Bf16), Ok(()));
    }

    #[test]
    fn the_nearest_name_is_never_a_far_one() {
        let known = BTreeSet::from(["1", "10", "120", "conv1_out"]);
        let found = ["1x", "20", "1200", "conv2_out", "conv", "z"].map(|name| nearest(name, &known));
        assert_eq!(found, [Some("1"), Some("10"), Some("120"), Some("conv1_out"), None, None]);
    }
}
