//! Tensors that one device produces in one format and another reads in another: they are converted where that is cheap, on
//! the GPU, and transferred as they are.

use super::conversion::Conversion;
use crate::graph::{OperandIndex, RuntimeGraph};
use crate::op::{Device, TensorFormat};
use crate::tensor::Format;

/// The format of a tensor on the GPU between the two steps of a conversion; `None` if one step suffices or two cannot do it.
pub(super) fn between(from: &TensorFormat, to: &TensorFormat) -> Option<TensorFormat> {
    let is_one_step = from.device == to.device || from.on(to.device) == *to;
    let (on_cpu, on_device) = if from.device == Device::Cpu { (from, to) } else { (to, from) };
    let is_possible = on_cpu.format == Format::Plain && !matches!(on_device.format, Format::Blocked { .. });
    (!is_one_step && is_possible).then(|| on_cpu.on(Device::Cuda))
}

/// The second steps of conversions, with the names of the operators that read their results.
#[derive(Debug, Default)]
pub(super) struct SecondSteps {
    steps: Vec<(Conversion, Vec<(String, usize)>)>,
}

/// Splits conversions into steps that must be inserted first, and steps that follow them.
pub(super) fn split(graph: &RuntimeGraph, found: Vec<Conversion>) -> (Vec<Conversion>, SecondSteps) {
    let mut first: Vec<Conversion> = Vec::new();
    let mut second = SecondSteps::default();
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

/// Adds a conversion, or its readers to an equal one.
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

impl SecondSteps {
    /// The second steps for a graph into which the first ones were inserted, whose results start at operand `operands`.
    pub(super) fn into_conversions(
        self,
        graph: &RuntimeGraph,
        first: &[(OperandIndex, TensorFormat)],
        operands: usize,
    ) -> Vec<Conversion> {
        let position = |name: &str| graph.operators().iter().position(|operator| operator.name() == name);
        let conversion = |(conversion, readers): (Conversion, Vec<(String, usize)>)| {
            let step = first.iter().position(|step| *step == (conversion.operand, conversion.from))?;
            let readers = readers.iter().filter_map(|(name, at)| Some((position(name)?, *at))).collect();
            Some(Conversion { operand: OperandIndex::new(operands + step), readers, ..conversion })
        };
        self.steps.into_iter().filter_map(conversion).collect()
    }
}
