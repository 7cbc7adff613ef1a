//! The inputs of a model, as described by its file.

use crate::cli::Failure;
use ixion::graph::{GraphError, RuntimeGraph};
use ixion::pnnx::Dim;
use ixion::tensor::DType;

/// An input of a model, as described by its file.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::cli) struct Port {
    pub(in crate::cli) name: String,
    operand: String,
    pub(in crate::cli) dtype: Option<DType>,
    pub(in crate::cli) shape: Option<Vec<Dim>>,
}

impl Port {
    pub(super) fn new(name: &str, dtype: Option<DType>, shape: Option<Vec<Dim>>) -> Self {
        Self { name: name.to_owned(), operand: String::new(), dtype, shape }
    }

    /// Returns true if the input or its operand has this name.
    pub(super) fn is_called(&self, name: &str) -> bool {
        self.name == name || self.operand == name
    }

    /// The name, and shape and element type if they are known; for messages.
    pub(super) fn describe(&self) -> String {
        match (&self.shape, self.dtype) {
            (Some(shape), Some(dtype)) => {
                let dims: Vec<String> = shape.iter().map(ToString::to_string).collect();
                format!("`{}` ({} {dtype})", self.name, dims.join("×"))
            }
            _ => format!("`{}`", self.name),
        }
    }
}

/// All inputs of a model, in order.
pub(in crate::cli) fn ports(graph: &RuntimeGraph) -> Vec<Port> {
    let ports = graph.inputs().iter().map(|port| {
        let operand = graph.operand(port.operand);
        let shape = operand.shape().map(<[Dim]>::to_vec);
        Port { operand: operand.name().to_owned(), ..Port::new(&port.name, operand.dtype(), shape) }
    });
    ports.collect()
}

/// The position of the input with this name.
pub(in crate::cli) fn position(ports: &[Port], name: &str) -> Result<usize, Failure> {
    ports.iter().position(|port| port.is_called(name)).ok_or_else(|| {
        let known = ports.iter().map(|port| port.name.clone()).collect();
        Failure::unusable(GraphError::UnknownName { what: "input", name: name.to_owned(), known })
    })
}

/// The failure if `found` inputs are given, which is more than the model has.
pub(in crate::cli) fn too_many(ports: &[Port], found: usize) -> Failure {
    let names = ports.iter().map(|port| port.name.clone()).collect();
    Failure::unusable(GraphError::TooManyInputs { wanted: ports.len(), found, names })
}
