//! The stored state of layers, by the names of their operators.

use super::error::PlanFileProblem;
use super::header::{long, number};
use super::layout::Kind;
use crate::engine::{EngineError, Plan};
use crate::graph::Stage;
use crate::op::catch_panic;
use std::collections::BTreeMap;

/// Serialises the states of all layers of a plan into a section; `None` if no layer has one.
pub(super) fn encode(plan: &Plan) -> Result<Option<Vec<u8>>, EngineError> {
    let mut section = Vec::new();
    for operator in plan.graph.operators() {
        let Some(layer) = operator.layer() else { continue };
        let state = catch_panic(|| layer.serialize());
        let state = state.map_err(EngineError::at(&plan.graph, operator, Stage::Store))?;
        if state.is_empty() {
            continue;
        }
        let name = operator.name().as_bytes();
        // Never saturates: names come from a text of limited length.
        let length = u32::try_from(name.len()).unwrap_or(u32::MAX);
        section.extend(length.to_le_bytes());
        section.extend(name);
        section.extend((state.len() as u64).to_le_bytes());
        section.extend(state);
    }
    Ok((!section.is_empty()).then_some(section))
}

/// Decodes a section.
pub(super) fn decode(section: &[u8]) -> Result<BTreeMap<String, Vec<u8>>, PlanFileProblem> {
    let wrong = |reason: &str| PlanFileProblem::corrupt(Kind::States, reason);
    let mut states = BTreeMap::new();
    let mut rest = section;
    while !rest.is_empty() {
        let (name, state, remaining) =
            one(rest).ok_or_else(|| wrong("it ends in the middle of a layer's state"))?;
        let name = std::str::from_utf8(name).map_err(|_| wrong("an operator's name is not UTF-8"))?;
        if states.insert(name.to_owned(), state.to_vec()).is_some() {
            return Err(wrong(&format!("operator `{name}` occurs twice")));
        }
        rest = remaining;
    }
    Ok(states)
}

/// A name, a state, and the remaining bytes.
fn one(bytes: &[u8]) -> Option<(&[u8], &[u8], &[u8])> {
    let length = usize::try_from(number(bytes, 0)?).ok()?;
    let (name, rest) = bytes.get(4..)?.split_at_checked(length)?;
    let length = usize::try_from(long(rest, 0)?).ok()?;
    let (state, rest) = rest.get(8..)?.split_at_checked(length)?;
    Some((name, state, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_section_that_is_cut_off_or_repeats_itself_is_refused() {
        let one = [&2u32.to_le_bytes()[..], b"ab", &3u64.to_le_bytes(), &[7, 8, 9]].concat();
        assert_eq!(decode(&one).unwrap(), BTreeMap::from([("ab".to_owned(), vec![7, 8, 9])]));
        for length in 1..one.len() {
            assert!(decode(&one[..length]).is_err(), "{length}");
        }
        assert!(decode(&[one.clone(), one].concat()).unwrap_err().to_string().contains("`ab` occurs twice"));
        assert!(decode(&[255; 20]).is_err());
        assert!(decode(&[]).unwrap().is_empty());
    }
}
