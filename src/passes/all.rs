//! The list of all passes.

use super::pass::Entry;
use super::{
    chains, common_subexpressions::CommonSubexpressions, constant_folding::ConstantFolding,
    dead_code::DeadCode, expression_chains::ExpressionChains, expression_identities::EXPRESSION_IDENTITIES,
    fusion, known_parameters::KNOWN_PARAMETERS, known_values::KNOWN_VALUES, lower_onnx::LowerOnnx,
    no_ops::NO_OPS, quantized_weights::QUANTIZED_WEIGHTS,
};

/// All passes with their priorities. Below 200: passes that make the graph smaller; from 200: fusions; from 800: passes
/// after which patterns are hard to recognise.
pub(super) fn all() -> Vec<Entry> {
    let mut all = vec![
        Entry::new(100, DeadCode),
        // Before the operators of ONNX are replaced by several.
        Entry::new(103, fusion::QUANTIZED_PAIRS),
        Entry::new(105, LowerOnnx),
        Entry::new(107, KNOWN_PARAMETERS),
        Entry::new(108, KNOWN_VALUES),
        Entry::new(110, NO_OPS),
        Entry::new(120, ConstantFolding),
        Entry::new(130, CommonSubexpressions),
        Entry::new(140, chains::RESHAPE_CHAINS),
        Entry::new(150, chains::PERMUTE_CHAINS),
        Entry::new(160, EXPRESSION_IDENTITIES),
        Entry::new(900, ExpressionChains),
        Entry::new(950, QUANTIZED_WEIGHTS),
    ];
    let fusions =
        fusion::recognising().into_iter().zip(200..).chain(fusion::finishing().into_iter().zip(910..));
    all.extend(fusions.map(|(pass, priority)| Entry { priority, enabled: true, pass }));
    all
}
