//! Operators that become modules: created and loaded with weights in `__init__`, called in `forward`.

use super::Writer;
use super::arguments::Arguments;
use super::call::none_for_zero;
use super::literal::{string, tuple};
use crate::ids::OperatorId;
use crate::operator::Operator;

/// Returns true if a type is a module class: PyTorch capitalises these.
pub(super) fn is_module(op_type: &str) -> bool {
    let class = op_type.rsplit('.').next().unwrap_or_default();
    let known = op_type.strip_prefix("nn.").is_some_and(|class| !class.contains('.'))
        || op_type.starts_with("torchvision.ops.")
        || op_type.starts_with("torchaudio.transforms.");
    known && class.starts_with(|c: char| c.is_ascii_uppercase())
}

impl Writer<'_> {
    pub(super) fn module(&mut self, id: OperatorId, operator: &Operator) {
        let member = self.member(id);
        let mut arguments = Arguments::of_settings(operator);
        if operator.op_type().starts_with("nn.Adaptive") {
            arguments.change("output_size", none_for_zero);
        }
        self.init.push(format!("{member} = {}({})", operator.op_type(), arguments.text()));
        self.fill(&member, operator);
        match operator.op_type() {
            "nn.MultiheadAttention" => self.attention(&member, operator),
            "nn.RNN" | "nn.GRU" => self.recurrent(&member, operator, 1),
            "nn.LSTM" => self.recurrent(&member, operator, 2),
            _ => {
                let inputs = self.input_variables(operator).join(", ");
                self.assign(operator, &format!("{member}({inputs})"));
            }
        }
    }

    /// Loads the tensors of a module.
    fn fill(&mut self, member: &str, operator: &Operator) {
        if operator.attrs().is_empty() {
            return;
        }
        let name = string(operator.name());
        self.init.push(format!("weights.fill({member}, {name}, {{"));
        for (key, attribute) in operator.attrs() {
            let shape = tuple(attribute.shape().iter().map(usize::to_string));
            let dtype = attribute.dtype().torch_name();
            self.init.push(format!("    {}: ({dtype}, {shape}),", string(key)));
        }
        self.init.push("})".to_owned());
    }

    /// Calls attention with query, key and value; PNNX omits repeated ones. The attention weights, the second output,
    /// are only computed if the file has that output.
    fn attention(&mut self, member: &str, operator: &Operator) {
        let variables = self.input_variables(operator);
        let inputs = operator.input_names().iter().zip(variables);
        let is_mask = |name: &Option<String>| name.as_deref().is_some_and(|name| name.ends_with("_mask"));
        let (masks, values): (Vec<_>, Vec<_>) = inputs.partition(|(name, _)| is_mask(name));
        let values: Vec<String> = values.into_iter().map(|(_, variable)| variable).collect();
        let mut arguments: Vec<String> = match values.as_slice() {
            [same] => vec![same.clone(), same.clone(), same.clone()],
            [query, key] => vec![query.clone(), key.clone(), key.clone()],
            values => values.to_vec(),
        };
        let masks =
            masks.into_iter().filter_map(|(name, variable)| Some(format!("{}={variable}", name.as_ref()?)));
        arguments.extend(masks);
        let wants_weights = operator.outputs().len() > 1;
        if !wants_weights {
            arguments.push("need_weights=False".to_owned());
        }
        let first = if wants_weights { "" } else { "[0]" };
        self.assign(operator, &format!("{member}({}){first}", arguments.join(", ")));
    }

    /// Calls a recurrent module, which takes a sequence and its initial states, and returns a sequence and its final
    /// states. The file may have only the sequence. An LSTM has two states in one tuple.
    fn recurrent(&mut self, member: &str, operator: &Operator, states: usize) {
        let join = |variables: &[String]| match variables {
            [state] if states == 1 => state.clone(),
            several => format!("({})", several.join(", ")),
        };
        let inputs = self.input_variables(operator);
        let arguments = match inputs.split_first() {
            Some((sequence, first)) if !first.is_empty() => format!("{sequence}, {}", join(first)),
            _ => inputs.join(", "),
        };
        let outputs = self.output_variables(operator);
        let targets = match outputs.split_first() {
            Some((sequence, last)) if !last.is_empty() => format!("{sequence}, {}", join(last)),
            _ => format!("{}, _", outputs.join(", ")),
        };
        self.forward.push(format!("{targets} = {member}({arguments})"));
    }
}
