//! Checking that a graph can be executed in its order, and so be written and loaded again.

use super::{Graph, GraphError};
use crate::ids::OperatorId;
use crate::operand::Operand;

impl Graph {
    /// Checks that every operand has a producer, and is computed before it is read.
    ///
    /// Loaded graphs always pass. A graph may fail while it is being edited.
    ///
    /// # Errors
    /// [`GraphError::NotInOrder`] if an operator reads an operand before it is computed, [`GraphError::NoProducer`] if it
    /// reads one without a producer, [`GraphError::Unconnected`] for an operand without a producer that is not read either.
    pub fn check(&self) -> Result<(), GraphError> {
        let mut done = vec![false; self.operators.len()];
        for (id, operator) in self.operators() {
            for &input in operator.inputs() {
                self.check_ready(id, self.operand(input), &done)?;
            }
            if let Some(flag) = done.get_mut(id.index()) {
                *flag = true;
            }
        }
        match self.operands().find(|(_, operand)| operand.producer().is_none()) {
            Some((_, operand)) => Err(GraphError::Unconnected { operand: operand.name().to_owned() }),
            None => Ok(()),
        }
    }

    fn check_ready(&self, reader: OperatorId, operand: &Operand, done: &[bool]) -> Result<(), GraphError> {
        let names = || (self.operator(reader).name().to_owned(), operand.name().to_owned());
        match operand.producer() {
            Some(producer) if done.get(producer.index()) == Some(&true) => Ok(()),
            Some(producer) => {
                let ((operator, operand), producer) = (names(), self.operator(producer).name().to_owned());
                Err(GraphError::NotInOrder { operator, operand, producer })
            }
            None => {
                let (operator, operand) = names();
                Err(GraphError::NoProducer { operator, operand })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ixion_tensor::Limits;

    fn sample() -> Graph {
        let text = "7767517\n2 2\npnnx.Input in 0 1 x\nF.relu relu 1 1 x y\n";
        Graph::parse(text, &Limits::default()).unwrap()
    }

    #[test]
    fn loaded_graphs_are_in_order() {
        assert_eq!(sample().check(), Ok(()));
        assert_eq!(Graph::new().check(), Ok(()));
    }

    #[test]
    fn reading_before_computing_is_an_error() {
        let mut graph = sample();
        let (input, y) = (graph.operator_named("in").unwrap(), graph.operand_named("y").unwrap());
        let early = graph.new_operator_before("F.relu", "early", input).unwrap();
        graph.connect_input(early, y, None).unwrap();
        let wanted =
            GraphError::NotInOrder { operator: "early".into(), operand: "y".into(), producer: "relu".into() };
        assert_eq!(graph.check(), Err(wanted));
    }

    #[test]
    fn reading_ones_own_output_is_an_error() {
        let mut graph = sample();
        let (relu, y) = (graph.operator_named("relu").unwrap(), graph.operand_named("y").unwrap());
        graph.connect_input(relu, y, None).unwrap();
        assert!(matches!(graph.check(), Err(GraphError::NotInOrder { producer, .. }) if producer == "relu"));
    }

    #[test]
    fn unconnected_operands_are_errors() {
        let mut graph = sample();
        let loose = graph.new_operand("loose").unwrap();
        assert_eq!(graph.check(), Err(GraphError::Unconnected { operand: "loose".into() }));
        let relu = graph.operator_named("relu").unwrap();
        graph.connect_input(relu, loose, None).unwrap();
        assert_eq!(
            graph.check(),
            Err(GraphError::NoProducer { operator: "relu".into(), operand: "loose".into() })
        );
    }
}
