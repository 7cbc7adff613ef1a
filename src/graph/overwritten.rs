//! Comparisons in place, whose results have the element type of the tensor that they overwrite.
//!
//! PNNX writes `x.gt_(0.5)` as `torch.gt`, which returns bools, but records the element type of `x` for the result.

use super::GraphError;
use super::lists::fresh;
use crate::op::Properties;
use crate::pnnx::{self, Graph, OperandId, OperatorId, PnnxError};
use crate::tensor::DType;

/// Converts the results of comparisons to the recorded element types.
///
/// # Errors
/// Returns an error if the graph cannot be changed; a graph that was read from a file always can.
pub(super) fn restore(file: &mut Graph) -> Result<(), GraphError> {
    for id in file.operator_ids().to_vec() {
        if let Some((result, dtype)) = overwritten(file, id) {
            convert(file, id, result, dtype).map_err(PnnxError::from)?;
        }
    }
    Ok(())
}

/// The result of an operator that returns bools, and the element type that the file records instead.
fn overwritten(file: &Graph, id: OperatorId) -> Option<(OperandId, DType)> {
    let operator = file.operator(id);
    let &[result] = operator.outputs() else { return None };
    let dtype = file.operand(result).dtype().filter(|dtype| *dtype != DType::Bool)?;
    Properties::of(operator.op_type()).decides.then_some((result, dtype))
}

/// Inserts a conversion between an operator and its result.
fn convert(
    file: &mut Graph,
    id: OperatorId,
    result: OperandId,
    dtype: DType,
) -> Result<(), pnnx::GraphError> {
    let (operator, operand) = (file.operator(id).name(), file.operand(result));
    log::debug!("`{operator}` works in place, so its result is {dtype}");
    let shape = operand.shape().map(<[_]>::to_vec);
    let bools = fresh(&format!("{}.bool", operand.name()), |name| file.operand_named(name).is_some());
    let conversion = fresh(&format!("{operator}.to"), |name| file.operator_named(name).is_some());
    let bools = file.new_operand(&bools)?;
    file.set_operand_type(bools, Some(DType::Bool), shape)?;
    file.disconnect_output(id, result)?;
    file.connect_output(id, bools)?;
    let conversion = file.new_operator_after("Tensor.to", &conversion, id)?;
    file.set_param(conversion, "copy", "False")?;
    file.set_param(conversion, "dtype", dtype.torch_name())?;
    file.set_param(conversion, "non_blocking", "False")?;
    file.connect_input(conversion, bools, Some("input"))?;
    file.connect_output(conversion, result)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Limits;

    /// The text of a comparison whose result has the recorded type, without blanks in a row.
    fn restored(op_type: &str, output: &str) -> String {
        let text = format!(
            "7767517\n3 2\npnnx.Input in 0 1 x #x=(2,3)f32\n{op_type} a 1 1 x y other=0.5 #x=(2,3)f32{output}\n\
             pnnx.Output out 1 0 y\n"
        );
        let mut graph = Graph::parse(&text, &Limits::default()).unwrap();
        restore(&mut graph).unwrap();
        let once = graph.to_param_text();
        restore(&mut graph).unwrap();
        assert_eq!(graph.to_param_text(), once, "a second time changes nothing");
        let words = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
        once.lines().map(words).collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn comparisons_in_place_keep_the_type_of_the_tensor() {
        for (recorded, dtype) in [("f32", "torch.float"), ("i64", "torch.long")] {
            let text = restored("torch.gt", &format!(" #y=(2,3){recorded}"));
            assert!(text.contains("torch.gt a 1 1 x y.bool other=0.5"), "{text}");
            assert!(text.contains("#y.bool=(2,3)bool"), "{text}");
            assert!(text.contains("Tensor.to a.to 1 1 y.bool y copy=False"), "{text}");
            assert!(text.contains(&format!("dtype={dtype}")), "{text}");
        }
        assert!(restored("torch.logical_not", " #y=(2,3)f32").contains("Tensor.to"));
    }

    #[test]
    fn others_stay_as_they_are() {
        for (op_type, output) in [
            ("torch.gt", " #y=(2,3)bool"),
            ("torch.gt", ""),
            ("torch.isnan", " #y=(2,3)f32"),
            ("torch.add", " #y=(2)f32"),
        ] {
            assert!(!restored(op_type, output).contains("Tensor.to"), "{op_type}{output}");
        }
    }
}
