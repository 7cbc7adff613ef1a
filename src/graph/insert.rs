//! Inserting operators into a graph, and the other decisions of an engine: making them, and repeating them.

use super::RuntimeGraph;
use super::change::{Change, Inserted, OperandFormat, Unfit};
use super::operator::{OperandIndex, OperatorIndex, RuntimeOperand, RuntimeOperator};
use crate::op::{CpuLayer, Device, LayerError, Step, TensorFormat, TensorMeta, catch_panic};

/// An operator with one input and one output, to be inserted after the operand that it reads.
#[derive(Debug)]
pub(crate) struct Insertion {
    /// The operand that it reads.
    pub(crate) operand: OperandIndex,
    /// The operator type.
    pub(crate) op_type: &'static str,
    /// The layer that runs it.
    pub(crate) layer: Box<dyn CpuLayer>,
    /// The format of its output.
    pub(crate) format: TensorFormat,
    /// The step of its output, if the output is quantised.
    pub(crate) step: Option<Step>,
    /// The readers that use its output instead of the operand from now on: operator and input position.
    pub(crate) readers: Vec<(OperatorIndex, usize)>,
    /// Whether the model returns its output instead of the operand.
    pub(crate) is_output: bool,
}

impl Inserted {
    fn of(insertion: &Insertion) -> Self {
        let Insertion { operand, format, step, readers, is_output, .. } = insertion;
        let made = OperandFormat { operand: *operand, format: *format, step: *step };
        Self { made, readers: readers.clone(), is_output: *is_output }
    }
}

impl RuntimeGraph {
    /// The decisions of the engine, in order.
    pub(crate) fn changes(&self) -> &[Change] {
        &self.changes
    }

    /// Repeats the decisions that an engine made for an identical graph. `layer` returns the type and layer of each inserted
    /// operator, given the format and step of its output and the operand that it reads.
    ///
    /// # Errors
    /// [`Unfit::Changes`] if a decision does not match this graph, [`Unfit::Tactic`] if a layer does not have the tactic.
    pub(crate) fn repeat(
        &mut self,
        changes: Vec<Change>,
        layer: impl Fn(&OperandFormat, &RuntimeOperand) -> (&'static str, Box<dyn CpuLayer>),
    ) -> Result<(), Unfit> {
        for change in changes {
            match change {
                Change::Format(operand) => {
                    self.check_operand(&operand)?;
                    self.set_format(operand.operand, operand.format, operand.step);
                }
                Change::Device(operator, device, tactic) => {
                    self.check_operator(operator)?;
                    self.place_on(operator, device, tactic);
                }
                Change::Tactic(operator, tactic) => {
                    self.check_operator(operator)?;
                    self.set_tactic(operator, tactic).map_err(|error| Unfit::Tactic(operator, error))?;
                }
                Change::Insert(all) => {
                    let insertion = |inserted| self.insertion(inserted, &layer);
                    let insertions = all.into_iter().map(insertion).collect::<Result<Vec<_>, _>>()?;
                    self.insert(insertions);
                }
            }
        }
        Ok(())
    }

    fn insertion(
        &self,
        inserted: Inserted,
        layer: impl Fn(&OperandFormat, &RuntimeOperand) -> (&'static str, Box<dyn CpuLayer>),
    ) -> Result<Insertion, Unfit> {
        let Inserted { made, readers, is_output } = inserted;
        let source = self.check_operand(&made)?;
        let reads = |&(reader, position): &(OperatorIndex, usize)| {
            let reader = self.operators.get(reader.position());
            reader.is_some_and(|reader| reader.inputs.get(position) == Some(&made.operand))
        };
        if !readers.iter().all(reads) || (is_output && !source.is_output) {
            return Err(Unfit::Changes(format!("operand `{}` does not have these readers", source.name)));
        }
        let (op_type, layer) = layer(&made, source);
        let OperandFormat { operand, format, step } = made;
        Ok(Insertion { operand, op_type, layer, format, step, readers, is_output })
    }

    fn check_operator(&self, operator: OperatorIndex) -> Result<(), Unfit> {
        match operator.position() < self.operators.len() {
            true => Ok(()),
            false => Err(Unfit::Changes(format!("there is no operator {}", operator.position()))),
        }
    }

    fn check_operand(&self, operand: &OperandFormat) -> Result<&RuntimeOperand, Unfit> {
        let position = operand.operand.position();
        self.operands.get(position).ok_or_else(|| Unfit::Changes(format!("there is no operand {position}")))
    }

    /// Sets the format of an operand.
    pub(crate) fn set_format(&mut self, operand: OperandIndex, format: TensorFormat, step: Option<Step>) {
        let chosen = OperandFormat { operand, format, step };
        let operand = &mut self.operands[operand.position()];
        if (operand.format, operand.step, operand.device) != (format.format, step, format.device) {
            (operand.format, operand.step, operand.device) = (format.format, step, format.device);
            self.changes.push(Change::Format(chosen));
        }
    }

    /// Sets the device on which an operator runs, and its tactic there.
    pub(crate) fn place_on(&mut self, operator: OperatorIndex, device: Device, tactic: u32) {
        if let Some(placed) = self.operators.get_mut(operator.position()).filter(|it| it.device != device) {
            (placed.device, placed.device_tactic) = (device, tactic);
            self.changes.push(Change::Device(operator, device, tactic));
        }
    }

    /// Selects the tactic of an operator if it has more than one, and configures it.
    pub(crate) fn select_tactic(
        &mut self,
        operator: OperatorIndex,
        tactic: u32,
        inputs: &[TensorMeta],
        outputs: &[TensorMeta],
    ) -> Result<(), LayerError> {
        let Some(layer) = &mut self.operators[operator.position()].layer else { return Ok(()) };
        let has_choice = catch_panic(|| Ok(layer.tactics().len() > 1))?;
        if has_choice {
            self.set_tactic(operator, tactic)?;
        }
        self.configure_operator(operator, inputs, outputs)
    }

    /// Configures an operator for these inputs and outputs.
    pub(crate) fn configure_operator(
        &mut self,
        operator: OperatorIndex,
        inputs: &[TensorMeta],
        outputs: &[TensorMeta],
    ) -> Result<(), LayerError> {
        let Some(layer) = &mut self.operators[operator.position()].layer else { return Ok(()) };
        catch_panic(|| layer.configure(inputs, outputs))
    }

    /// Sets the tactic of an operator.
    fn set_tactic(&mut self, operator: OperatorIndex, tactic: u32) -> Result<(), LayerError> {
        let Some(layer) = &mut self.operators[operator.position()].layer else { return Ok(()) };
        catch_panic(|| layer.set_tactic(tactic))?;
        self.changes.push(Change::Tactic(operator, tactic));
        Ok(())
    }

    /// Inserts operators directly after the producers of the operands that they read, in this order; operators that read an
    /// input of the model come first. Positions of operators change. Existing operands keep theirs, and new ones are appended.
    pub(crate) fn insert(&mut self, insertions: Vec<Insertion>) {
        if insertions.is_empty() {
            return;
        }
        self.changes.push(Change::Insert(insertions.iter().map(Inserted::of).collect()));
        let mut after: Vec<Vec<RuntimeOperator>> = Vec::new();
        after.resize_with(self.operators.len() + 1, Vec::new);
        for insertion in insertions {
            let place =
                self.operands[insertion.operand.position()].producer.map_or(0, |it| it.position() + 1);
            let made = self.made(insertion);
            after[place].push(made);
        }
        let mut after = after.into_iter();
        let mut operators: Vec<RuntimeOperator> = after.next().unwrap_or_default();
        for (operator, inserted) in std::mem::take(&mut self.operators).into_iter().zip(after) {
            operators.push(operator);
            operators.extend(inserted);
        }
        self.operators = operators;
        self.connect_again();
    }

    /// Creates the operator of an insertion and its output, and connects the readers to it.
    fn made(&mut self, insertion: Insertion) -> RuntimeOperator {
        let Insertion { operand, op_type, layer, format, step, readers, is_output } = insertion;
        let (output, source) =
            (OperandIndex::new(self.operands.len()), &mut self.operands[operand.position()]);
        let name = format!("{}:{format}", source.name);
        // Transfers belong to neither device; the host schedules them.
        let device = if source.device == format.device { format.device } else { Device::Cpu };
        let mut made = RuntimeOperand::new(&*name).with_hint(Some(format.dtype), source.shape.clone());
        (made.format, made.step, made.device) = (format.format, step, format.device);
        if is_output {
            // Callers may also refer to outputs by the names of their operands.
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
        let mut operator = RuntimeOperator::new(name, op_type)
            .with_inputs(vec![operand], Vec::new())
            .with_outputs(vec![output])
            .with_layer(layer);
        operator.device = device;
        operator
    }

    /// Rebuilds the producers and consumers of all operands.
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
