//! Warnings about operators that contradict what the file records.

use super::caller::tell;
use ixion::shape::{Contradiction, Evidence};
use serde_json::{Value, json};

/// Tells the user of each warning.
pub(crate) fn print(warnings: &[Contradiction]) {
    warnings.iter().for_each(|warning| tell("warning", warning.message()));
}

/// The warnings as a JSON array.
pub(crate) fn as_json(warnings: &[Contradiction]) -> Value {
    warnings.iter().map(warning).collect()
}

fn warning(warning: &Contradiction) -> Value {
    let place = &warning.place;
    let mut object = json!({
        "operator": place.name,
        "type": place.op_type,
        "line": place.line,
        "message": warning.message(),
        "section": warning.section(),
    });
    match &warning.evidence {
        Evidence::Output { position, operand, dtype, shape, computed } => {
            let dims = shape.iter().map(ToString::to_string).collect::<Vec<_>>().join("×");
            object["output"] = (*position).into();
            object["operand"] = operand.clone().into();
            object["recorded"] = format!("{dims} {dtype}").into();
            object["computed"] = computed.to_string().into();
        }
        Evidence::Itself { operand } | Evidence::Product { operand } | Evidence::Written { operand } => {
            object["operand"] = operand.clone().into();
        }
    }
    object
}
