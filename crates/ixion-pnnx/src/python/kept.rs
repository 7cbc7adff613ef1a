//! Modules that PNNX kept whole, of which the source has the class.

use super::Writer;
use super::error::{PythonProblem, Written};
use super::literal::string;
use super::module::weight;
use super::prelude::Helper;
use crate::ids::{OperandId, OperatorId};
use crate::operator::Operator;

impl Writer<'_> {
    /// Writes `models.yolo.Detect`, the head of YOLOv5. A file may list the results of its convolutions as further outputs; the
    /// boxes are the only output with three axes.
    pub(super) fn detect(&mut self, id: OperatorId, operator: &Operator) -> Written {
        let member = self.member(id);
        self.helpers.insert(Helper::Detect);
        self.init.push(format!("{member} = Detect({{"));
        for (key, attribute) in operator.attrs() {
            self.init.push(format!("    {}: {},", string(key), weight(operator, key, attribute)));
        }
        self.init.push(format!("}}, maps={})", operator.inputs().len()));
        let call = format!("{member}({})", self.input_variables(operator).join(", "));
        if let [_] = operator.outputs() {
            let first = if self.is_unpacked(operator) { "" } else { "[0]" };
            self.assign(operator, &format!("{call}{first}"));
            return Ok(());
        }
        let is_boxes = |output: &&OperandId| self.rank(**output) == Some(3);
        let (boxes, maps): (Vec<OperandId>, Vec<OperandId>) = operator.outputs().iter().partition(is_boxes);
        if boxes.len() != 1 || maps.len() != operator.inputs().len() {
            let wanted = "boxes, or boxes and the result of each convolution";
            return Err(PythonProblem::Outputs { wanted, found: operator.outputs().len() });
        }
        let outputs: Vec<String> =
            boxes.into_iter().chain(maps).map(|output| self.variable(output)).collect();
        self.forward.push(format!("{} = {call}", outputs.join(", ")));
        Ok(())
    }
}
