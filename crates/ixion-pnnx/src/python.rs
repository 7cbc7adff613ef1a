//! Exporting a graph as Python source that PyTorch runs.
//!
//! The source has one class `Model`: operators of `nn` become modules that `__init__` creates and loads weights
//! into, all others become calls in `forward`, and expressions become Python arithmetic. The weights stay in the
//! `.bin`, which Python opens with `zipfile` and `numpy`. Run as a program, the source reads `.npy` inputs and
//! writes `.npy` outputs, so that a model can be compared with PyTorch without PNNX.
//!
//! A type is written by its form: `F.relu` and `torch.cat` are functions, `Tensor.view` is a method, `aten::log2` is
//! called by its schema, which PyTorch knows, and operators of ONNX are functions that the source contains. Only what has another
//! spelling in PyTorch is treated by name.

mod arguments;
mod arithmetic;
mod attention;
mod call;
mod error;
mod indexing;
mod kept;
mod kind;
mod literal;
mod module;
mod names;
mod onnx;
mod prelude;
mod quantized;
mod recurrent;
mod spelling;
mod statement;
mod torchscript;

pub use error::{PythonError, PythonProblem, Unwritten};

use super::graph::Graph;
use super::ids::{OperandId, OperatorId};
use super::operator::Operator;
use error::Written;
use kind::{Constant, Kind, is_unpack};
use names::{Names, is_quantized};
use prelude::Helper;
use std::collections::{BTreeSet, HashMap};
use std::fmt::Write;

impl Graph {
    /// Python source with a PyTorch class `Model` that computes the same outputs as the graph.
    ///
    /// `name` is the name of the `.bin` file without its extension. By default the source loads it from its own
    /// folder.
    ///
    /// ```
    /// # use ixion_pnnx::Graph;
    /// # use ixion_tensor::Limits;
    /// let text = "7767517\n3 2\n\
    ///     pnnx.Input in 0 1 x\n\
    ///     pnnx.Expression twice 1 1 x y expr=add(mul(@0,2),1)\n\
    ///     pnnx.Output out 1 0 y\n";
    /// let source = Graph::parse(text, &Limits::default())?.to_python("tiny")?;
    /// assert!(source.contains("def forward(self, v_x):\n        v_y = v_x * 2 + 1\n        return v_y\n"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`PythonError`] lists the operators that have no counterpart in PyTorch, such as modules that PNNX kept whole, and
    /// those with inputs or parameters that PyTorch does not accept.
    pub fn to_python(&self, name: &str) -> Result<String, PythonError> {
        let mut writer = Writer::new(self);
        let mut unwritten = Vec::new();
        for (id, operator) in self.operators() {
            if let Err(problem) = writer.operator(id, operator) {
                unwritten.push(Unwritten::new(operator, problem));
            }
        }
        if unwritten.is_empty() { Ok(writer.finish(name)) } else { Err(PythonError { operators: unwritten }) }
    }
}

/// The source written so far, and the Python names of operators and operands.
struct Writer<'g> {
    graph: &'g Graph,
    /// The variable of each operand, or its value if it is a constant.
    variables: HashMap<OperandId, String>,
    /// What the operands are that are not tensors.
    kinds: HashMap<OperandId, Kind>,
    members: HashMap<OperatorId, String>,
    inputs: Vec<String>,
    outputs: Vec<String>,
    init: Vec<String>,
    forward: Vec<String>,
    helpers: BTreeSet<Helper>,
    /// The names of the functions that compute operators of ONNX.
    functions: BTreeSet<&'static str>,
}

impl<'g> Writer<'g> {
    fn new(graph: &'g Graph) -> Self {
        let mut names = Names::default();
        let members = graph.operators().map(|(id, operator)| (id, names.unique("m_", operator.name())));
        let members = members.collect();
        let mut names = Names::default();
        let (mut variables, mut kinds) = (HashMap::new(), HashMap::new());
        for (id, operand) in graph.operands() {
            let producer = operand.producer().and_then(|producer| graph.get_operator(producer));
            match producer.and_then(Constant::of) {
                Some(constant) => {
                    variables.insert(id, constant.text);
                    kinds.insert(id, constant.kind);
                }
                None => {
                    variables.insert(id, names.unique("v_", operand.name()));
                }
            }
        }
        Self {
            graph,
            variables,
            kinds,
            members,
            inputs: Vec::new(),
            outputs: Vec::new(),
            init: Vec::new(),
            forward: Vec::new(),
            helpers: BTreeSet::new(),
            functions: BTreeSet::new(),
        }
    }

    /// The Python variable of an operand, or its value if it is a constant.
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

    /// The Python variable of a required input.
    fn input(&self, operator: &Operator, index: usize, key: &'static str) -> Written<String> {
        let input = operator.inputs().get(index).ok_or(PythonProblem::Missing { key })?;
        Ok(self.variable(*input))
    }

    /// The Python variable of the only output.
    fn output(&self, operator: &Operator) -> Written<String> {
        match operator.outputs() {
            [output] => Ok(self.variable(*output)),
            outputs => Err(PythonProblem::Outputs { wanted: "1 output", found: outputs.len() }),
        }
    }

    fn kind(&self, id: OperandId) -> Kind {
        self.kinds.get(&id).copied().unwrap_or(Kind::Tensor)
    }

    /// Notes what an operator's outputs are.
    fn mark(&mut self, operator: &Operator, kind: Kind) {
        self.kinds.extend(operator.outputs().iter().map(|&output| (output, kind)));
    }

    /// The recorded number of axes of an operand.
    fn rank(&self, id: OperandId) -> Option<usize> {
        self.graph.get_operand(id)?.shape().map(<[_]>::len)
    }

    /// The outputs of an operator, or those of the operator that unpacks its only output, a tuple.
    fn outputs_in_use(&self, operator: &Operator) -> Vec<OperandId> {
        let unpacked = self.unpacks(operator).max_by_key(|unpack| unpack.outputs().len());
        unpacked.unwrap_or(operator).outputs().to_vec()
    }

    /// Returns true if the only output is a tuple that other operators unpack.
    fn is_unpacked(&self, operator: &Operator) -> bool {
        self.unpacks(operator).next().is_some()
    }

    /// The operators that unpack the only output of an operator.
    fn unpacks(&self, operator: &Operator) -> impl Iterator<Item = &'g Operator> {
        let graph = self.graph;
        let output = operator.outputs().first().filter(|_| operator.outputs().len() == 1);
        let operand = output.and_then(|&output| graph.get_operand(output));
        let consumers = operand.into_iter().flat_map(|operand| operand.consumers());
        consumers.filter_map(move |&id| graph.get_operator(id)).filter(|consumer| is_unpack(consumer))
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
        let functions = onnx::functions(&self.functions);
        let mut source = prelude::header(name, &self.helpers, &functions, &self.libraries(&functions));
        source.push_str("class Model(nn.Module):\n");
        // Writing to a string cannot fail.
        let _ = writeln!(source, "    def __init__(self, weights=WEIGHTS):");
        let _ = writeln!(source, "        super().__init__()");
        if self.graph.operators().any(|(_, operator)| !operator.attrs().is_empty()) {
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

    /// The modules to import in addition to `torch`, also for these functions.
    fn libraries(&self, functions: &[&str]) -> Vec<&'static str> {
        let is_used = |library: &str| {
            let is_it = |part: &str| part == library;
            let names = |operator: &Operator| operator.op_type().split(['.', ':']).any(is_it);
            let mut operators = self.graph.operators();
            operators.any(|(_, operator)| names(operator))
                || functions.iter().any(|source| source.contains(&format!("{library}.")))
        };
        let mut libraries = Vec::new();
        if self.graph.operators().any(|(_, operator)| is_quantized(operator.op_type())) {
            libraries.extend(["torch.ao.nn.intrinsic.quantized", "torch.ao.nn.quantized"]);
        }
        libraries.extend(["torchaudio", "torchvision"].into_iter().filter(|&library| is_used(library)));
        libraries
    }
}

#[cfg(test)]
mod tests;
