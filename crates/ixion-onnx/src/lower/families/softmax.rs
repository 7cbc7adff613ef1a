//! Softmax and its relatives. Since version 13 they work along one axis; before, along all axes from one on, as if those were
//! one.

use crate::lower::Call;
use crate::lower::call::{Outputs, Table, one};

pub(super) const TABLE: Table = &[("Hardmax", hardmax), ("LogSoftmax", softmax), ("Softmax", softmax)];

/// The version since which there is one axis.
const ALONG_ONE_AXIS: i64 = 13;

fn softmax(call: &mut Call<'_>) -> Outputs {
    let is_old = call.version() < ALONG_ONE_AXIS;
    let axis = call.int_or("axis", if is_old { 1 } else { -1 })?;
    let x = call.input(0)?;
    // The last axis alone is the same in all versions.
    if is_old && axis != -1 {
        let op_type = call.op_type();
        return one(call.operator(op_type, &[x], &[("axis", axis.into())]));
    }
    let op_type = if call.op_type() == "Softmax" { "F.softmax" } else { "F.log_softmax" };
    one(call.operator(op_type, &[x], &[("dim", axis.into())]))
}

fn hardmax(call: &mut Call<'_>) -> Outputs {
    let is_old = call.version() < ALONG_ONE_AXIS;
    let axis = call.int_or("axis", if is_old { 1 } else { -1 })?;
    let x = call.input(0)?;
    let emit = call.emit("Hardmax").input(x).param("axis", axis);
    one(if is_old && axis != -1 { emit.param("flattened", 1).one() } else { emit.one() })
}

#[cfg(test)]
mod tests {
    use crate::Options;
    use crate::lower::testing::{graph, lines_of, model, node, of_int, read};

    #[test]
    fn the_axis_depends_on_the_version() {
        let lowered = |version: i64, op_type: &str, axis: Option<i64>| {
            let attributes = axis.map(|axis| of_int("axis", axis)).into_iter().collect();
            let nodes = vec![node(op_type, &["x"], &["y"], attributes)];
            let mut model = model(graph(&["x"], nodes, &["y"]), Vec::new());
            model.opset_import.iter_mut().for_each(|set| set.version = Some(version));
            lines_of(&read(&model, &Options::default()).unwrap())
        };
        assert_eq!(lowered(13, "Softmax", None), ["F.softmax x -> y dim=-1"]);
        assert_eq!(lowered(12, "Softmax", None), ["Softmax x -> y axis=1"]);
        assert_eq!(lowered(11, "LogSoftmax", Some(-1)), ["F.log_softmax x -> y dim=-1"]);
        assert_eq!(lowered(11, "Hardmax", Some(1)), ["Hardmax x -> y axis=1 flattened=1"]);
        assert_eq!(lowered(13, "Hardmax", None), ["Hardmax x -> y axis=-1"]);
    }
}
