//! Operators that an engine puts between those of a model.

use super::operator::{OperandIndex, OperatorIndex, RuntimeOperand, RuntimeOperator};
use super::{CpuLayer, LayerError, RuntimeGraph, TensorFormat, TensorMeta, guarded};

/// An operator with one input and one output, to be put behind the operand that it reads.
#[derive(Debug)]
pub(crate) struct Insertion {
    /// What it reads.
    pub(crate) operand: OperandIndex,
    /// Its type.
    pub(crate) op_type: &'static str,
    /// What runs it.
    pub(crate) layer: Box<dyn CpuLayer>,
    /// The format of what it makes.
    pub(crate) format: TensorFormat,
    /// The scale of what it makes, where that is quantised.
    pub(crate) scale: Option<f32>,
    /// Who reads its result from now on, instead of the operand: the operator and the position among its inputs.
    pub(crate) readers: Vec<(OperatorIndex, usize)>,
    /// Whether the model returns its result instead of the operand.
    pub(crate) is_output: bool,
}

impl RuntimeGraph {
    /// Settles the format of an operand.
    pub(crate) fn set_format(&mut self, operand: OperandIndex, format: TensorFormat, scale: Option<f32>) {
        let operand = &mut self.operands[operand.position()];
        (operand.format, operand.scale) = (format.format, scale);
    }

    /// Settles how an operator computes, and tells it what for.
    pub(crate) fn settle(
        &mut self,
        operator: OperatorIndex,
        tactic: u32,
        inputs: &[TensorMeta],
        outputs: &[TensorMeta],
    ) -> Result<(), LayerError> {
        match &mut self.operators[operator.position()].layer {
            Some(layer) => guarded(|| {
                layer.configure(inputs, outputs)?;
                layer.set_tactic(tactic)
            }),
            None => Ok(()),
        }
    }

    /// Puts operators behind those that make what they read, in this order; those that read an input of the model come first.
    /// Positions of operators change, those of operands stay, new ones come last.
    pub(crate) fn insert(&mut self, insertions: Vec<Insertion>) {
        let mut behind: Vec<Vec<RuntimeOperator>> = Vec::new();
        behind.resize_with(self.operators.len() + 1, Vec::new);
        for insertion in insertions {
            let place =
                self.operands[insertion.operand.position()].producer.map_or(0, |it| it.position() + 1);
            let made = self.made(insertion);
            behind[place].push(made);
        }
        let mut behind = behind.into_iter();
        let mut operators: Vec<RuntimeOperator> = behind.next().unwrap_or_default();
        for (operator, inserted) in std::mem::take(&mut self.operators).into_iter().zip(behind) {
            operators.push(operator);
            operators.extend(inserted);
        }
        self.operators = operators;
        self.connect_again();
    }

    /// The operator of an insertion, with its output; its readers read that.
    fn made(&mut self, insertion: Insertion) -> RuntimeOperator {
        let Insertion { operand, op_type, layer, format, scale, readers, is_output } = insertion;
        let (output, source) =
            (OperandIndex::new(self.operands.len()), &mut self.operands[operand.position()]);
        let name = format!("{}:{format}", source.name);
        let mut made = RuntimeOperand::new(&*name).with_hint(Some(format.dtype), source.shape.clone());
        (made.format, made.scale) = (format.format, scale);
        if is_output {
            // Callers know outputs by their operands' names, too.
            let inner = format!("{}:made", source.name);
            made.name = std::mem::replace(&mut source.name, inner);
            source.is_output = false;
            made.is_output = true;
            let ports = self.outputs.iter_mut().filter(|port| port.operand == operand);
            ports.for_each(|port| port.operand = output);
        }
        for (reader, position) in readers {
            self.operators[reader.position()].inputs[position] = output;
        }
        self.operands.push(made);
        RuntimeOperator::new(name, op_type)
            .with_inputs(vec![operand], Vec::new())
            .with_outputs(vec![output])
            .with_layer(layer)
    }

    /// Tells all operands who makes and reads them.
    fn connect_again(&mut self) {
        for operand in &mut self.operands {
            operand.producer = None;
            operand.consumers.clear();
        }
        for (position, operator) in self.operators.iter().enumerate() {
            let index = OperatorIndex::new(position);
            operator.inputs.iter().for_each(|input| self.operands[input.position()].add_consumer(index));
            operator.outputs.iter().for_each(|output| self.operands[output.position()].set_producer(index));
        }
    }
}
