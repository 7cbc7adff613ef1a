//! Operators that an engine puts between those of a model.

use super::RuntimeGraph;
use super::operator::{OperandIndex, OperatorIndex, RuntimeOperand, RuntimeOperator};
use crate::op::{CpuLayer, Device, LayerError, TensorFormat, TensorMeta, catch_panic};

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

/// Something that an engine settled, as it can be stored and done again.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Change {
    /// See [`RuntimeGraph::set_format`].
    Format(Settled),
    /// See [`RuntimeGraph::set_tactic`].
    Tactic(OperatorIndex, u32),
    /// See [`RuntimeGraph::place_on`].
    Device(OperatorIndex, Device, u32),
    /// See [`RuntimeGraph::insert`].
    Insert(Vec<Inserted>),
}

/// Why what was settled cannot be done again.
#[derive(Debug)]
pub(crate) enum Unfit {
    /// It was settled for another graph.
    Changes(String),
    /// The layer of this operator refuses its tactic.
    Tactic(OperatorIndex, LayerError),
}

impl Inserted {
    fn of(insertion: &Insertion) -> Self {
        let Insertion { operand, format, scale, readers, is_output, .. } = insertion;
        let made = Settled { operand: *operand, format: *format, scale: *scale };
        Self { made, readers: readers.clone(), is_output: *is_output }
    }
}

/// The format of an operand.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Settled {
    pub(crate) operand: OperandIndex,
    pub(crate) format: TensorFormat,
    pub(crate) scale: Option<f32>,
}

/// An [`Insertion`] without its layer: `made` is the format of what it makes.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Inserted {
    pub(crate) made: Settled,
    pub(crate) readers: Vec<(OperatorIndex, usize)>,
    pub(crate) is_output: bool,
}

impl RuntimeGraph {
    /// What an engine settled, in the order in which it did.
    pub(crate) fn changes(&self) -> &[Change] {
        &self.changes
    }

    /// Does what an engine settled for a graph like this. `layer` makes the layers that are inserted, and says their type, for
    /// the format and scale of what they make and the operand that they read.
    ///
    /// # Errors
    /// In words, where something does not fit this graph; the layer that has no such tactic.
    pub(crate) fn repeat(
        &mut self,
        changes: Vec<Change>,
        layer: impl Fn(&Settled, &RuntimeOperand) -> (&'static str, Box<dyn CpuLayer>),
    ) -> Result<(), Unfit> {
        for change in changes {
            match change {
                Change::Format(settled) => {
                    self.check_operand(&settled)?;
                    self.set_format(settled.operand, settled.format, settled.scale);
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
        layer: impl Fn(&Settled, &RuntimeOperand) -> (&'static str, Box<dyn CpuLayer>),
    ) -> Result<Insertion, Unfit> {
        let Inserted { made, readers, is_output } = inserted;
        let source = self.check_operand(&made)?;
        let reads = |&(reader, position): &(OperatorIndex, usize)| {
            let reader = self.operators.get(reader.position());
            reader.is_some_and(|reader| reader.inputs.get(position) == Some(&made.operand))
        };
        if !readers.iter().all(reads) || (is_output && !source.is_output) {
            return Err(Unfit::Changes(format!("operand `{}` is not read like that", source.name)));
        }
        let (op_type, layer) = layer(&made, source);
        let Settled { operand, format, scale } = made;
        Ok(Insertion { operand, op_type, layer, format, scale, readers, is_output })
    }

    fn check_operator(&self, operator: OperatorIndex) -> Result<(), Unfit> {
        match operator.position() < self.operators.len() {
            true => Ok(()),
            false => Err(Unfit::Changes(format!("there is no operator {}", operator.position()))),
        }
    }

    fn check_operand(&self, settled: &Settled) -> Result<&RuntimeOperand, Unfit> {
        let position = settled.operand.position();
        self.operands.get(position).ok_or_else(|| Unfit::Changes(format!("there is no operand {position}")))
    }

    /// Settles the format of an operand.
    pub(crate) fn set_format(&mut self, operand: OperandIndex, format: TensorFormat, scale: Option<f32>) {
        let settled = Settled { operand, format, scale };
        let operand = &mut self.operands[operand.position()];
        if (operand.format, operand.scale, operand.device) != (format.format, scale, format.device) {
            (operand.format, operand.scale, operand.device) = (format.format, scale, format.device);
            self.changes.push(Change::Format(settled));
        }
    }

    /// Settles where an operator runs, and by which of the tactics that it has there.
    pub(crate) fn place_on(&mut self, operator: OperatorIndex, device: Device, tactic: u32) {
        if let Some(placed) = self.operators.get_mut(operator.position()).filter(|it| it.device != device) {
            (placed.device, placed.device_tactic) = (device, tactic);
            self.changes.push(Change::Device(operator, device, tactic));
        }
    }

    /// Settles how an operator computes, and tells it what for. There is nothing to settle where there is one way.
    pub(crate) fn settle(
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

    /// Tells an operator what it computes.
    pub(crate) fn configure_operator(
        &mut self,
        operator: OperatorIndex,
        inputs: &[TensorMeta],
        outputs: &[TensorMeta],
    ) -> Result<(), LayerError> {
        let Some(layer) = &mut self.operators[operator.position()].layer else { return Ok(()) };
        catch_panic(|| layer.configure(inputs, outputs))
    }

    /// Settles how an operator computes.
    fn set_tactic(&mut self, operator: OperatorIndex, tactic: u32) -> Result<(), LayerError> {
        let Some(layer) = &mut self.operators[operator.position()].layer else { return Ok(()) };
        catch_panic(|| layer.set_tactic(tactic))?;
        self.changes.push(Change::Tactic(operator, tactic));
        Ok(())
    }

    /// Puts operators behind those that make what they read, in this order; those that read an input of the model come first.
    /// Positions of operators change, those of operands stay, new ones come last.
    pub(crate) fn insert(&mut self, insertions: Vec<Insertion>) {
        if insertions.is_empty() {
            return;
        }
        self.changes.push(Change::Insert(insertions.iter().map(Inserted::of).collect()));
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
        // Who brings a tensor from one device to another runs on neither.
        let device = if source.device == format.device { format.device } else { Device::Cpu };
        let mut made = RuntimeOperand::new(&*name).with_hint(Some(format.dtype), source.shape.clone());
        (made.format, made.scale, made.device) = (format.format, scale, format.device);
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
        let mut operator = RuntimeOperator::new(name, op_type)
            .with_inputs(vec![operand], Vec::new())
            .with_outputs(vec![output])
            .with_layer(layer);
        operator.device = device;
        operator
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
