//! Constant arguments. At optimisation levels 0 and 1, PNNX leaves them as operands, at level 2 they are parameters.

use super::roles::function;
use crate::graph::convert::literal;
use crate::op::{INPUT_KIND, Registry};
use crate::pnnx::{Graph, GraphError, Operator, Parameter};

/// Turns constant operands into parameters, where the operator has a parameter of that name.
///
/// # Errors
/// Fails if the graph rejects an edit.
pub(super) fn become_parameters(file: &mut Graph) -> Result<(), GraphError> {
    for id in file.operator_ids().to_vec() {
        let operator = file.operator(id);
        let mut found = Vec::new();
        for (position, (&input, name)) in operator.inputs().iter().zip(operator.input_names()).enumerate() {
            let Some(key) = key(operator, position, name.as_deref()) else { continue };
            let Some(producer) = file.operand(input).producer() else { continue };
            if let Some(raw) = literal(file.operator(producer))
                && !raw.contains(char::is_whitespace)
            {
                found.push((position, key, raw));
            }
        }
        for (position, key, raw) in found.into_iter().rev() {
            file.disconnect_input(id, position)?;
            file.set_param(id, &key, Parameter::parse(&raw))?;
        }
    }
    Ok(())
}

/// The key of the parameter that an input can be; `None` for tensors. The inputs of a function of PyTorch's namespace
/// `quantized` have no names; as parameters, they are called `arg_1`, `arg_2` and so on.
fn key(operator: &Operator, position: usize, name: Option<&str>) -> Option<String> {
    let key = match name {
        Some(name) => {
            let creator = Registry::built_in().known(operator.op_type())?;
            let field = creator.fields.iter().find(|field| field.key == name)?;
            // TorchScript writes element types as numbers.
            (field.kind != INPUT_KIND && name != "dtype").then(|| name.to_owned())?
        }
        None if position > 0 && function(operator).is_some() => format!("arg_{position}"),
        None => return None,
    };
    (!operator.has_param(&key)).then_some(key)
}
