//! `nn.MultiheadAttention`, whose inputs PNNX writes in several orders.

use super::Writer;
use super::error::{PythonProblem, Written};
use super::literal::bool;
use super::prelude::Helper;
use crate::ids::OperandId;
use crate::operand::Dim;
use crate::operator::Operator;
use ixion_tensor::DType;

/// The positions of an attention's inputs.
#[derive(Debug, Default, PartialEq)]
struct Sources {
    query: usize,
    key: usize,
    value: usize,
    mask: Option<usize>,
    padding: Option<usize>,
    /// A mask that may be either of the two.
    unsure: Option<usize>,
}

impl Writer<'_> {
    /// Calls attention with query, key and value; PNNX omits repeated ones. The attention weights, the second output, are only
    /// computed if the file has that output.
    pub(super) fn attention(&mut self, member: &str, operator: &Operator) -> Written {
        let sources = self.sources(operator)?;
        let texts = self.input_variables(operator);
        let text = |position: usize| texts.get(position).map_or("None", String::as_str);
        let mut arguments = [text(sources.query), text(sources.key), text(sources.value)].join(", ");
        let masks = [("attn_mask", sources.mask), ("key_padding_mask", sources.padding)];
        for (name, position) in masks {
            if let Some(position) = position {
                arguments.push_str(&format!(", {name}={}", text(position)));
            }
        }
        if let Some(position) = sources.unsure {
            let batch_first = operator.get_or("batch_first", false).unwrap_or(false);
            let (batch_first, mask, query) = (bool(batch_first), text(position), text(sources.query));
            arguments.push_str(&format!(", **mask({mask}, {query}, batch_first={batch_first})"));
            self.helpers.insert(Helper::Mask);
        }
        let used = self.outputs_in_use(operator);
        let rank = |index: usize| used.get(index).and_then(|&output| self.rank(output));
        match used.len() {
            1 => arguments.push_str(", need_weights=False"),
            // Only the recorded shapes tell the weights of each head from their mean.
            _ if rank(1) > rank(0) && rank(0).is_some() => {
                arguments.push_str(", average_attn_weights=False");
            }
            _ => {}
        }
        let first = if used.len() == 1 && !self.is_unpacked(operator) { "[0]" } else { "" };
        self.assign(operator, &format!("{member}({arguments}){first}"));
        Ok(())
    }

    fn sources(&self, operator: &Operator) -> Written<Sources> {
        let inputs = operator.inputs();
        let bools = inputs.iter().take_while(|input| self.is_bool(**input)).count();
        let sources = self.sources_after_floats(operator).or_else(|| match bools {
            0 => self.named_sources(operator),
            _ => Sources::after_masks(bools, inputs.len() - bools),
        });
        let wanted = "a query, up to two more inputs, and up to two masks";
        sources.ok_or(PythonProblem::Inputs { wanted, found: inputs.len() })
    }

    fn is_bool(&self, operand: OperandId) -> bool {
        self.graph.get_operand(operand).is_some_and(|operand| operand.dtype() == Some(DType::Bool))
    }

    /// The sources of an operator with a stored mask of floats, which PNNX writes before the query. Only the recorded shapes tell:
    /// masks have another number of axes than the output.
    fn sources_after_floats(&self, operator: &Operator) -> Option<Sources> {
        let (inputs, output) = (operator.inputs(), self.rank(*operator.outputs().first()?)?);
        let is_mask = |position: &usize| {
            let Some(&input) = inputs.get(*position) else { return false };
            self.is_bool(input) || self.rank(input).is_some_and(|rank| rank != output)
        };
        let (masks, others): (Vec<usize>, Vec<usize>) = (0..inputs.len()).partition(is_mask);
        let is_float = |position: &usize| inputs.get(*position).is_some_and(|&input| !self.is_bool(input));
        if masks.first() != Some(&0) || !masks.iter().any(is_float) {
            return None;
        }
        let sources = Sources::of_tensors(&others)?;
        let query = *inputs.get(sources.query)?;
        let hides_keys = |position: usize| self.hides_keys(operator, *inputs.get(position)?, query);
        match *masks.as_slice() {
            [mask] => Some(Sources { unsure: Some(mask), ..sources }),
            [first, second] => {
                let by_second = || hides_keys(second).map(|hides_keys| !hides_keys);
                let in_order = || (is_float(&first) && is_float(&second)).then_some(false);
                let is_first_padding = hides_keys(first).or_else(by_second).or_else(in_order)?;
                let (padding, mask) = if is_first_padding { (first, second) } else { (second, first) };
                Some(Sources { mask: Some(mask), padding: Some(padding), ..sources })
            }
            _ => None,
        }
    }

    /// Whether a mask is N×S, and so hides keys, or L×S. `None` if it may be either.
    fn hides_keys(&self, operator: &Operator, mask: OperandId, query: OperandId) -> Option<bool> {
        let batch_first = operator.get_or("batch_first", false).unwrap_or(false);
        let (batch, rows) = match self.graph.get_operand(query)?.shape()? {
            [batch, rows, _] if batch_first => (batch, rows),
            [rows, batch, _] => (batch, rows),
            _ => return None,
        };
        let [first @ Dim::Fixed(_), _] = self.graph.get_operand(mask)?.shape()? else { return None };
        let (is_batch, is_row) = (first == batch, first == rows);
        (is_batch != is_row).then_some(is_batch)
    }

    /// The sources of an operator whose masks follow the other inputs. PNNX names the last mask of floats `attn_mask`, also if it
    /// is the key padding mask; an attention mask before it has no name, and as a matrix it differs from keys.
    fn named_sources(&self, operator: &Operator) -> Option<Sources> {
        let names = operator.input_names();
        let named = |key: &str| names.iter().position(|name| name.as_deref() == Some(key));
        let rank = |position: usize| operator.inputs().get(position).and_then(|&input| self.rank(input));
        let (mask, padding) = (named("attn_mask"), named("key_padding_mask"));
        let before = mask.and_then(|mask| mask.checked_sub(1)).filter(|&before| {
            let is_nameless = before > 0 && names.get(before).is_some_and(Option::is_none);
            is_nameless && [rank(0), rank(before), rank(before + 1)] == [Some(3), Some(2), Some(2)]
        });
        let masks = match (before, mask, padding) {
            (Some(before), Some(mask), None) => [Some(before), Some(mask), None],
            (_, Some(mask), None) => [None, None, Some(mask)],
            (_, mask, padding) => [mask, padding, None],
        };
        let is_mask = |position: usize| masks.contains(&Some(position));
        let others: Vec<usize> = (0..names.len()).filter(|&position| !is_mask(position)).collect();
        let [mask, padding, unsure] = masks;
        Some(Sources { mask, padding, unsure, ..Sources::of_tensors(&others)? })
    }
}

impl Sources {
    /// The sources without masks, of which PNNX omits repeated ones.
    fn of_tensors(positions: &[usize]) -> Option<Self> {
        let (query, key, value) = match *positions {
            [query] => (query, query, query),
            [query, key] => (query, key, key),
            [query, key, value] => (query, key, value),
            _ => return None,
        };
        Some(Self { query, key, value, ..Self::default() })
    }

    /// PNNX writes bool masks before the query. Of two masks, the first one is the key padding mask; a mask of floats is the last
    /// input.
    fn after_masks(bools: usize, others: usize) -> Option<Self> {
        let (mask, padding, unsure) = match (bools, others) {
            (1, 4) => (Some(bools + 3), Some(0), None),
            (1, 1..=3) => (None, None, Some(0)),
            (2, 1..=3) => (Some(1), Some(0), None),
            _ => return None,
        };
        let place = |index: usize| bools + index.min(others - 1);
        let value = if others == 2 { place(1) } else { place(2) };
        Some(Self { query: place(0), key: place(1), value, mask, padding, unsure })
    }
}
