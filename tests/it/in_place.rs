//! Layers that overwrite an input or join their inputs give the same bits as with separate outputs.

use crate::common::calls::{Call, each_call};
use crate::common::parallel::each_of;
use crate::common::runnable_cases;
use ixion::op::TensorMeta;
use ixion::tensor::Tensor;
use std::collections::BTreeSet;

/// The same tensor, stored with its axes in reverse order.
fn turned(tensor: &Tensor) -> Tensor {
    let order: Vec<i64> = (0..tensor.rank() as i64).rev().collect();
    tensor.permute(&order).unwrap().contiguous().unwrap().permute(&order).unwrap()
}

fn check_in_place(call: &mut Call) -> bool {
    let Some(position) = call.layer.in_place(0) else { return false };
    let (input, output) = (call.inputs[position].clone(), call.outputs[0].clone());
    if (input.dtype(), input.shape()) != (output.dtype(), output.shape()) {
        return false;
    }
    for mut data in [input.deep_copy().unwrap(), turned(&input).deep_copy().unwrap()] {
        call.forward_in_place(&mut data, position).unwrap_or_else(|error| panic!("{}: {error}", call.place));
        let same = data.to_le_bytes().unwrap() == output.to_le_bytes().unwrap();
        assert!(same, "{}: {data:?} in place, {output:?} otherwise", call.place);
    }
    true
}

#[test]
fn what_works_in_place_gives_the_same_bits() {
    let types = each_of(&runnable_cases(), |folder| {
        let mut types = BTreeSet::new();
        each_call(folder, |mut call| {
            if check_in_place(&mut call) {
                types.insert(call.op_type);
            }
        });
        types
    });
    let types: BTreeSet<String> = types.into_iter().flatten().collect();
    for op_type in [
        "nn.ReLU",
        "F.silu",
        "nn.GELU",
        "nn.BatchNorm2d",
        "F.batch_norm",
        "nn.GroupNorm",
        "nn.LayerNorm",
        "F.rms_norm",
        "nn.InstanceNorm2d",
        "F.softmax",
        "nn.LogSoftmax",
        "F.softmin",
        "nn.PReLU",
        "F.prelu",
        "Tensor.masked_fill",
    ] {
        assert!(types.contains(op_type), "{op_type} does not work in place");
    }
}

#[test]
fn joined_inputs_are_stored_in_the_output() {
    let types = each_of(&runnable_cases(), |folder| {
        let mut types = BTreeSet::new();
        each_call(folder, |call| {
            let metas: Vec<TensorMeta> =
                call.inputs.iter().map(|input| TensorMeta::of(&input.view())).collect();
            let Some(output) = call.outputs.first() else { return };
            let Some(parts) = call.layer.parts(&metas, output.layout()).unwrap() else { return };
            for (part, input) in parts.into_iter().zip(&call.inputs) {
                let part = output.with_layout(part).unwrap();
                assert_eq!(part.to_le_bytes().unwrap(), input.to_le_bytes().unwrap(), "{}", call.place);
            }
            types.insert(call.op_type);
        });
        types
    });
    let types: BTreeSet<String> = types.into_iter().flatten().collect();
    assert!(types.contains("torch.cat") && types.contains("torch.stack"), "only {types:?}");
}
