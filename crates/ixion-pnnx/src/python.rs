//! Exporting a graph as Python source that PyTorch runs.
//!
//! The source has one class `Model`: operators of `nn` become modules that `__init__` creates and loads weights
//! into, all others become calls in `forward`, and expressions become Python arithmetic. The weights stay in the
//! `.bin`, which Python opens with `zipfile` and `numpy`. Run as a program, the source reads `.npy` inputs and
//! writes `.npy` outputs, so that a model can be compared with PyTorch without PNNX.

mod arguments;
mod arithmetic;
mod call;
mod literal;
mod module;
mod names;
mod prelude;
mod statement;

use super::graph::Graph;
use super::ids::{OperandId, OperatorId};
use super::operator::Operator;
use names::Names;
use prelude::Helper;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::fmt::Write;

impl Graph {
    /// Python source with a PyTorch class `Model` that computes the same outputs as the graph.
    ///
    /// `name` is the name of the `.bin` file without its extension. By default the source loads it from its own
    /// folder. Operators without a counterpart in PyTorch raise `NotImplementedError` when they are reached.
    ///
    /// ```
    /// # use ixion_pnnx::Graph;
    /// # use ixion_tensor::Limits;
    /// let text = "7767517\n3 2\n\
    ///     pnnx.Input in 0 1 x\n\
    ///     pnnx.Expression twice 1 1 x y expr=add(mul(@0,2),1)\n\
    ///     pnnx.Output out 1 0 y\n";
    /// let source = Graph::parse(text, &Limits::default())?.to_python("tiny");
    /// assert!(source.contains("def forward(self, v_x):\n        v_y = v_x * 2 + 1\n        return v_y\n"));
    /// # Ok::<(), ixion_pnnx::PnnxError>(())
    /// ```
    pub fn to_python(&self, name: &str) -> String {
        let mut writer = Writer::new(self);
        for (id, operator) in self.operators() {
            writer.operator(id, operator);
        }
        writer.finish(name)
    }
}

/// The source written so far, and the Python names of operators and operands.
struct Writer<'g> {
    graph: &'g Graph,
    variables: HashMap<OperandId, String>,
    members: HashMap<OperatorId, String>,
    inputs: Vec<String>,
    outputs: Vec<String>,
    init: Vec<String>,
    forward: Vec<String>,
    helpers: BTreeSet<Helper>,
    /// Operands that are plain Python numbers, which PyTorch's functions do not accept.
    numbers: HashSet<OperandId>,
}

impl<'g> Writer<'g> {
    fn new(graph: &'g Graph) -> Self {
        let mut names = Names::for_members();
        let members = graph.operators().map(|(id, operator)| (id, names.unique("", operator.name())));
        let members = members.collect();
        let mut names = Names::for_variables();
        let variables = graph.operands().map(|(id, operand)| (id, names.unique("v_", operand.name())));
        let variables = variables.collect();
        Self {
            graph,
            variables,
            members,
            inputs: Vec::new(),
            outputs: Vec::new(),
            init: Vec::new(),
            forward: Vec::new(),
            helpers: BTreeSet::new(),
            numbers: HashSet::new(),
        }
    }

    /// The Python variable of an operand.
    fn variable(&self, id: OperandId) -> String {
        self.variables.get(&id).cloned().unwrap_or_default()
    }

    /// The Python variables of an operator's inputs.
    fn input_variables(&self, operator: &Operator) -> Vec<String> {
        operator.inputs().iter().map(|&input| self.variable(input)).collect()
    }

    /// The Python variables of an operator's outputs.
    fn output_variables(&self, operator: &Operator) -> Vec<String> {
        operator.outputs().iter().map(|&output| self.variable(output)).collect()
    }

    /// `self.name`, for an operator that is a module or holds a tensor.
    fn member(&self, id: OperatorId) -> String {
        format!("self.{}", self.members.get(&id).map_or("", String::as_str))
    }

    /// Assigns a value to the operator's outputs. Several outputs unpack a tuple.
    fn assign(&mut self, operator: &Operator, value: &str) {
        let outputs = self.output_variables(operator);
        match outputs.is_empty() {
            true => self.forward.push(value.to_owned()),
            false => self.forward.push(format!("{} = {value}", outputs.join(", "))),
        }
    }

    fn finish(self, name: &str) -> String {
        let mut source =
            prelude::header(name, &self.helpers, self.needs_torchvision(), self.needs_torchaudio());
        source.push_str("class Model(nn.Module):\n");
        // Writing to a string cannot fail.
        let _ = writeln!(source, "    def __init__(self, weights=WEIGHTS):");
        let _ = writeln!(source, "        super().__init__()");
        if !self.init.is_empty() {
            let _ = writeln!(source, "        weights = Weights(weights)");
        }
        for line in &self.init {
            let _ = writeln!(source, "        {line}");
        }
        let _ = writeln!(source, "        self.eval()\n");
        let arguments = [&["self".to_owned()], self.inputs.as_slice()].concat().join(", ");
        let _ = writeln!(source, "    def forward({arguments}):");
        for line in &self.forward {
            let _ = writeln!(source, "        {line}");
        }
        let _ = writeln!(source, "        return {}\n\n", self.returned());
        source.push_str(prelude::MAIN);
        source
    }

    /// The value that `forward` returns: a single output as it is, several outputs as a tuple.
    fn returned(&self) -> String {
        match self.outputs.as_slice() {
            [] => "None".to_owned(),
            [output] => output.clone(),
            outputs => format!("({})", outputs.join(", ")),
        }
    }

    fn uses_prefix(&self, prefix: &str) -> bool {
        self.graph.operators().any(|(_, operator)| operator.op_type().starts_with(prefix))
    }

    fn needs_torchvision(&self) -> bool {
        self.uses_prefix("torchvision.")
    }

    fn needs_torchaudio(&self) -> bool {
        self.uses_prefix("torchaudio.")
    }
}

#[cfg(test)]
mod tests;
