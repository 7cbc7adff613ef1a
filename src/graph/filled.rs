//! Stored masks of attention that PNNX has filled for its own sample.
//!
//! `nn.TransformerEncoder` turns a mask of bools into one of floats: it fills zeros with −∞ in place. If all sizes are fixed, the
//! zeros are a constant. PNNX stores it as it is after the sample has been filled in, and as a rule that hides all keys.

use super::GraphError;
use super::lists::fresh;
use crate::pnnx::{self, Graph, OperandId, OperatorId, PnnxError};
use crate::tensor::DType;

/// Replaces masks that hide everything, whatever is filled in, by zeros.
///
/// # Errors
/// Returns an error if the graph cannot be changed; a graph that was read from a file always can.
pub(super) fn restore(file: &mut Graph) -> Result<(), GraphError> {
    for id in file.operator_ids().to_vec() {
        if let Some(mask) = filled(file, id) {
            insert_zeros(file, id, mask).map_err(PnnxError::from)?;
        }
    }
    Ok(())
}

/// The mask of bools of an operator that fills a stored tensor of −∞ with −∞, for attention alone.
fn filled(file: &Graph, id: OperatorId) -> Option<OperandId> {
    let operator = file.operator(id);
    let (&[stored, mask], &[result]) = (operator.inputs(), operator.outputs()) else { return None };
    let is_hidden = |number: f64| number == f64::NEG_INFINITY;
    if operator.op_type() != "Tensor.masked_fill" || !operator.param("value")?.as_f64().is_ok_and(is_hidden) {
        return None;
    }
    let consumers = file.operand(result).consumers();
    let is_attention = |id: &OperatorId| file.operator(*id).op_type() == "nn.MultiheadAttention";
    let producer = file.operator(file.operand(stored).producer()?);
    let stored = producer.attr("data").filter(|_| producer.op_type() == "pnnx.Attribute")?;
    if consumers.is_empty() || !consumers.iter().all(is_attention) || stored.dtype() != DType::F32 {
        return None;
    }
    let numbers = stored.to_f32s().ok()?;
    let hides_all = !numbers.is_empty() && numbers.iter().all(|&number| is_hidden(number.into()));
    hides_all.then_some(mask)
}

/// Makes an operator fill zeros of the shape of its mask.
fn insert_zeros(file: &mut Graph, id: OperatorId, mask: OperandId) -> Result<(), pnnx::GraphError> {
    let (operator, operand) = (file.operator(id).name(), file.operand(mask));
    log::debug!("`{operator}` fills a mask that is filled already, so it was one of zeros");
    let shape = operand.shape().map(<[_]>::to_vec);
    let result = fresh(&format!("{}.zeros", operand.name()), |name| file.operand_named(name).is_some());
    let name = fresh(&format!("{operator}.zeros"), |name| file.operator_named(name).is_some());
    let zeros = file.new_operator_before("torch.zeros_like", &name, id)?;
    file.set_param(zeros, "dtype", DType::F32.torch_name())?;
    file.connect_input(zeros, mask, Some("input"))?;
    let result = file.new_operand(&result)?;
    file.set_operand_type(result, Some(DType::F32), shape)?;
    file.connect_output(zeros, result)?;
    file.replace_input(id, 0, result)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Limits;
    use crate::pnnx::Attribute;

    /// The text of a model that fills a stored mask for an operator, without blanks in a row.
    fn restored(numbers: [f32; 4], value: &str, consumer: &str) -> String {
        let text = format!(
            "7767517\n5 4\npnnx.Input in 0 1 m #m=(2,2)bool\npnnx.Attribute fold 0 1 s @data=(2,2)f32 #s=(2,2)f32\n\
             Tensor.masked_fill fill 2 1 s m f value={value} $input=s $mask=m #f=(2,2)f32\n\
             {consumer} a 1 1 f y #y=(2,2)f32\npnnx.Output out 1 0 y\n"
        );
        let mut graph = Graph::parse(&text, &Limits::default()).unwrap();
        let stored = graph.operator_named("fold").unwrap();
        graph.set_attribute(stored, "data", Attribute::from_f32s(vec![2, 2], &numbers).unwrap()).unwrap();
        restore(&mut graph).unwrap();
        let once = graph.to_param_text();
        restore(&mut graph).unwrap();
        assert_eq!(graph.to_param_text(), once, "a second time changes nothing");
        let words = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
        once.lines().map(words).collect::<Vec<_>>().join("\n")
    }

    const ATTENTION: &str = "nn.MultiheadAttention";

    #[test]
    fn masks_that_hide_everything_were_zeros() {
        let text = restored([f32::NEG_INFINITY; 4], "-inf", ATTENTION);
        assert!(
            text.contains("torch.zeros_like fill.zeros 1 1 m m.zeros dtype=torch.float $input=m"),
            "{text}"
        );
        assert!(text.contains("#m.zeros=(2,2)f32"), "{text}");
        assert!(
            text.contains("Tensor.masked_fill fill 2 1 m.zeros m f value=-inf $input=m.zeros $mask=m"),
            "{text}"
        );
    }

    #[test]
    fn others_stay_as_they_are() {
        let all = [f32::NEG_INFINITY; 4];
        for text in [
            restored([0.0; 4], "-inf", ATTENTION),
            restored([0.0, f32::NEG_INFINITY, 0.0, 0.0], "-inf", ATTENTION),
            restored([f32::NEG_INFINITY, f32::NAN, 0.0, 0.0], "-inf", ATTENTION),
            restored(all, "0.0", ATTENTION),
            restored(all, "-inf", "nn.ReLU"),
        ] {
            assert!(!text.contains("zeros_like"), "{text}");
        }
    }
}
