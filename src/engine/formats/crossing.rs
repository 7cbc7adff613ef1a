//! Tensors that one device makes in one format and another reads in another: they are brought into it where that is cheap, on the
//! GPU, and cross as they are.

use super::conversion::Conversion;
use crate::graph::{OperandIndex, RuntimeGraph};
use crate::op::{Device, TensorFormat};
use crate::tensor::Format;

/// The format in which a tensor lies on the GPU between its two steps; none where one step does.
pub(super) fn between(from: &TensorFormat, to: &TensorFormat) -> Option<TensorFormat> {
    let is_one = from.device == to.device || from.on(to.device) == *to;
    let (on_cpu, on_device) = if from.device == Device::Cpu { (from, to) } else { (to, from) };
    let may_be = on_cpu.format == Format::Plain && !matches!(on_device.format, Format::Blocked { .. });
    (!is_one && may_be).then(|| on_cpu.on(Device::Cuda))
}

/// Second steps, and by name who reads what they make.
#[derive(Debug, Default)]
pub(super) struct Second {
    steps: Vec<(Conversion, Vec<(String, usize)>)>,
}

/// Takes conversions apart: what is left is to be inserted first, the rest behind that.
pub(super) fn split(graph: &RuntimeGraph, found: Vec<Conversion>) -> (Vec<Conversion>, Second) {
    let mut first: Vec<Conversion> = Vec::new();
    let mut second = Second::default();
    for conversion in found {
        let Some(middle) = between(&conversion.from, &conversion.to) else {
            merge(&mut first, conversion);
            continue;
        };
        let name = |step: usize| graph.operators().get(step).map(|operator| operator.name().to_owned());
        let readers = conversion.readers.iter().filter_map(|&(step, at)| Some((name(step)?, at)));
        second.steps.push((Conversion { from: middle, ..conversion.clone() }, readers.collect()));
        merge(&mut first, Conversion { to: middle, ..conversion });
    }
    (first, second)
}

/// What is made once is read by all.
fn merge(found: &mut Vec<Conversion>, conversion: Conversion) {
    let is_same = |known: &&mut Conversion| known.operand == conversion.operand && known.to == conversion.to;
    match found.iter_mut().find(is_same) {
        Some(known) => {
            known.readers.extend(conversion.readers);
            known.is_output |= conversion.is_output;
        }
        None => found.push(conversion),
    }
}

impl Second {
    /// The second steps in a graph into which the first ones were inserted, whose results lie from this operand on.
    pub(super) fn behind(
        self,
        graph: &RuntimeGraph,
        first: &[(OperandIndex, TensorFormat)],
        operands: usize,
    ) -> Vec<Conversion> {
        let position = |name: &str| graph.operators().iter().position(|operator| operator.name() == name);
        let behind = |(conversion, readers): (Conversion, Vec<(String, usize)>)| {
            let made = first.iter().position(|made| *made == (conversion.operand, conversion.from))?;
            let readers = readers.iter().filter_map(|(name, at)| Some((position(name)?, *at))).collect();
            Some(Conversion { operand: OperandIndex::new(operands + made), readers, ..conversion })
        };
        self.steps.into_iter().filter_map(behind).collect()
    }
}
