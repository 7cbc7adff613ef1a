//! Weights that a plan stores in int8.

use super::{GraphError, OperatorPlace, Stage};
use crate::op::{LayerError, RuntimeAttribute, scales_key};
use crate::pnnx::{Attribute, Graph, PnnxError};
use crate::tensor::DType;

/// Replaces the weights that a plan stores in int8 by the `f32` numbers that they represent, so that the graph can be written
/// for programs that do not know this form. All other weights stay.
///
/// # Errors
/// Returns an error if such a weight cannot be read, or lacks the scale of a row.
pub fn widen_weights(file: &mut Graph) -> Result<(), GraphError> {
    for id in file.operator_ids().to_vec() {
        let operator = file.operator(id);
        let is_narrow = |(_, attribute): &(&String, &Attribute)| attribute.dtype() == DType::I8;
        let narrow = operator.attrs().iter().filter(is_narrow);
        let mut wide = Vec::new();
        for (key, values) in narrow {
            let Some(scales) = operator.attrs().get(&scales_key(key)) else { continue };
            let refused = |source| GraphError::Operator {
                place: OperatorPlace::of(operator, None),
                stage: Stage::Restore,
                source: Box::new(source),
                inputs: Vec::new(),
            };
            wide.push((key.clone(), widened(values, scales).map_err(refused)?));
        }
        for (key, attribute) in wide {
            file.set_attribute(id, &key, attribute).map_err(PnnxError::from)?;
            file.remove_attribute(id, &scales_key(&key)).map_err(PnnxError::from)?;
        }
    }
    Ok(())
}

fn widened(values: &Attribute, scales: &Attribute) -> Result<Attribute, LayerError> {
    let [values, scales] = [values, scales].map(|attribute| RuntimeAttribute::from_file(attribute.clone()));
    let weight = values.with_scales(&scales);
    let numbers = weight.load()?.to_vec::<f32>()?;
    Ok(Attribute::from_f32s(weight.shape().to_vec(), &numbers)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Limits;

    const TEXT: &str = "7767517\n3 2\npnnx.Input in 0 1 x #x=(1,2)f32
nn.Linear l 1 1 x y bias=False in_features=2 out_features=2 $input=x @ixion.scales.weight=(2)f32 @weight=(2,2)i8
pnnx.Output out 1 0 y\n";

    fn graph(scales: &[f32]) -> Graph {
        let mut graph = Graph::parse(TEXT, &Limits::default()).unwrap();
        let id = graph.operator_named("l").unwrap();
        let values = Attribute::new(DType::I8, vec![2, 2], vec![2, 253, 4, 0]).unwrap();
        graph.set_attribute(id, "weight", values).unwrap();
        let scales = Attribute::from_f32s(vec![scales.len()], scales).unwrap();
        graph.set_attribute(id, &scales_key("weight"), scales).unwrap();
        graph
    }

    #[test]
    fn weights_become_the_numbers_that_they_represent() {
        let mut graph = graph(&[0.5, 10.0]);
        widen_weights(&mut graph).unwrap();
        let attrs = graph.operator(graph.operator_named("l").unwrap()).attrs();
        assert_eq!(attrs.keys().collect::<Vec<_>>(), ["weight"]);
        assert_eq!(attrs["weight"].to_f32s().unwrap(), [1.0, -1.5, 40.0, 0.0]);
        let once = graph.to_param_text();
        widen_weights(&mut graph).unwrap();
        assert_eq!(graph.to_param_text(), once, "doing it again changes nothing");
    }

    #[test]
    fn a_row_without_a_scale_is_an_error() {
        let error = widen_weights(&mut graph(&[1.0; 3])).unwrap_err().to_string();
        assert!(error.contains("nn.Linear `l`") && error.contains("one for each row"), "{error}");
    }
}
