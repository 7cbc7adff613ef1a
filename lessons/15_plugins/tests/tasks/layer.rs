//! Tasks 3 and 4: a plugin with two inputs and two outputs, and the formats that it supports.

use super::*;

/// Creates a layer with these parameters, as from a line of a file.
fn create(params: &[(&str, &str)]) -> Result<Box<dyn CpuLayer>, LayerError> {
    let params: BTreeMap<_, _> =
        params.iter().map(|(key, text)| (key.to_string(), RuntimeParameter::parse(text))).collect();
    let weights = BTreeMap::new();
    let reader = OperatorReader::new(&params, &weights, &[None, None], 2);
    asked(|| Creator::of::<CopyConcat>().create(reader))
}

#[test]
fn task3_two_inputs_are_0_and_1() {
    let hint = "0 and 1 are inputs.";
    for copy in ["0", "1"] {
        ok(create(&[("copy", copy)]), hint);
    }
    let result = create(&[("copy", "2")]).map(drop);
    let is_right = matches!(&result, Err(LayerError::InvalidParameter { key: "copy", .. }));
    assert!(
        is_right,
        "expected LayerError::invalid(\"copy\", …) for copy=2, as there is no third input, got {result:?}"
    );
}

#[test]
fn task3_an_axis_counts_from_either_end() {
    let position = |axis, rank| CopyConcat { copy: 1, axis }.position(rank);
    assert_eq!([0, 1, 2].map(|axis| position(axis, 3).ok()), [Some(0), Some(1), Some(2)]);
    let hint = "-1 is the last axis, -3 the first of three";
    assert_eq!([-1, -2, -3].map(|axis| position(axis, 3).ok()), [Some(2), Some(1), Some(0)], "{hint}");
    for (axis, rank) in [(3, 3), (-4, 3), (0, 0), (-1, 0), (i64::MAX, 3), (i64::MIN, 3)] {
        let result = position(axis, rank);
        let is_right = matches!(result, Err(LayerError::InvalidParameter { key: "axis", .. }));
        assert!(is_right, "{rank} axes have no axis {axis}: got {result:?}");
    }
}

#[track_caller]
fn shapes(layer: &CopyConcat, inputs: [&TensorMeta; 2], want: [&TensorMeta; 2], hint: &str) {
    let outputs = ok(asked(|| layer.infer(&inputs.map(Clone::clone))), hint);
    assert_eq!(outputs.len(), 2, "there are two outputs");
    assert_eq!(&outputs[0], want[0], "the copy. {hint}");
    assert_eq!(&outputs[1], want[1], "the concatenation. {hint}");
}

#[test]
fn task3_lengths_are_added_along_the_axis() {
    let layer = CopyConcat { copy: 1, axis: 1 };
    let (x, y) = (numbers(&[1, 2, 2]), numbers(&[1, 5, 2]));
    shapes(&layer, [&x, &y], [&y, &numbers(&[1, 7, 2])], "2 + 5 = 7, and the copy is the second input's.");
    let first = CopyConcat { copy: 0, axis: 1 };
    shapes(&first, [&x, &y], [&x, &numbers(&[1, 7, 2])], "copy=0 copies the first input.");
    let last = CopyConcat { copy: 1, axis: -1 };
    let (x, y) = (numbers(&[4, 3]), numbers(&[4, 6]));
    shapes(&last, [&x, &y], [&y, &numbers(&[4, 9])], "axis=-1 is the last axis.");
}

#[test]
fn task3_the_sum_may_be_a_symbol() {
    let (n, m) = (Dim::symbol("n"), Dim::symbol("m"));
    let layer = CopyConcat { copy: 1, axis: 1 };
    let (x, y) = (meta(&[1.into(), n.clone(), 2.into()]), meta(&[1.into(), m.clone(), 2.into()]));
    let whole = meta(&[1.into(), n.clone() + m, 2.into()]);
    shapes(&layer, [&x, &y], [&y, &whole], "n and m give n + m: add `Dim`s, not numbers.");
    let three = meta(&[1.into(), 3.into(), 2.into()]);
    let whole = meta(&[1.into(), n + 3, 2.into()]);
    shapes(&layer, [&x, &three], [&three, &whole], "n and 3 give n + 3.");
}

#[test]
fn task3_all_other_lengths_must_agree() {
    let layer = CopyConcat { copy: 1, axis: 1 };
    let infer = |x: &TensorMeta, y: &TensorMeta| asked(|| layer.infer(&[x.clone(), y.clone()]));
    let x = numbers(&[1, 2, 2]);
    for other in
        [numbers(&[1, 2, 3]), numbers(&[2, 2, 2]), numbers(&[1, 2]), numbers(&[1]), numbers(&[1, 2, 2, 1])]
    {
        let result = infer(&x, &other);
        assert!(matches!(result, Err(LayerError::Shape { .. })), "{x} and {other} don't fit: got {result:?}");
    }
    let open = meta(&[Dim::symbol("b"), 2.into(), 2.into()]);
    ok(infer(&x, &open), "b may turn out to be 1: reject only what is known to differ.");
}

#[test]
fn task3_all_tensors_have_one_type() {
    let layer = CopyConcat { copy: 1, axis: 0 };
    let (x, half) = (numbers(&[2]), TensorMeta::new(DType::F16, [2]));
    let result = layer.infer(&[x, half.clone()]);
    assert!(matches!(result, Err(LayerError::DType { .. })), "f32 and f16 in one output? Got {result:?}");
    let whole = TensorMeta::new(DType::F16, [4]);
    shapes(&layer, [&half, &half], [&half, &whole], "Two f16 inputs give f16 outputs.");
}

#[test]
fn task3_the_second_comes_after_the_first() {
    let inputs = [tensor(&[2, 1], &[1.0, 2.0]), tensor(&[2, 2], &[10.0, 11.0, 20.0, 21.0])];
    let hint = "A row of the output is a row of the first input, followed by one of the second.";
    let outputs = forward(&mut CopyConcat { copy: 1, axis: 1 }, &inputs, hint);
    check(&outputs[0], &[2, 2], &[10.0, 11.0, 20.0, 21.0], "The copy of the second input.");
    check(&outputs[1], &[2, 3], &[1.0, 10.0, 11.0, 2.0, 20.0, 21.0], hint);
}

#[test]
fn task3_along_any_axis() {
    let inputs = [tensor(&[1, 2, 2], &[1.0, 2.0, 3.0, 4.0]), tensor(&[1, 2, 2], &[5.0, 6.0, 7.0, 8.0])];
    let whole = |axis| {
        let hint = "Is the axis used, and counted from the end if it is negative?";
        forward(&mut CopyConcat { copy: 0, axis }, &inputs, hint).remove(1)
    };
    check(&whole(0), &[2, 2, 2], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0], "Axis 0.");
    check(&whole(1), &[1, 4, 2], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0], "Axis 1.");
    check(&whole(-1), &[1, 2, 4], &[1.0, 2.0, 5.0, 6.0, 3.0, 4.0, 7.0, 8.0], "Axis -1, the last.");
}

#[test]
fn task3_inputs_may_have_any_memory_order() {
    let turned = tensor(&[2, 2], &[1.0, 3.0, 2.0, 4.0]).permute(&[1, 0]).unwrap();
    let inputs = [turned, tensor(&[2, 2], &[5.0, 6.0, 7.0, 8.0])];
    let outputs = forward(&mut CopyConcat { copy: 0, axis: 0 }, &inputs, "Arrays handle strides.");
    check(
        &outputs[1],
        &[4, 2],
        &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0],
        "Are elements read in memory order?",
    );
}

#[test]
fn task3_f16_is_moved_bit_by_bit() {
    let halves =
        [tensor(&[2], &[1.5, -0.25]), tensor(&[1], &[f32::NAN])].map(|x| x.cast(DType::F16).unwrap());
    let hint = "Elements are 2 bytes or 4, whatever they represent.";
    let outputs = forward(&mut CopyConcat { copy: 1, axis: 0 }, &halves, hint);
    assert_eq!(outputs[1].dtype(), DType::F16);
    let bytes = |tensor: &Tensor| tensor.to_le_bytes().unwrap();
    let want = [bytes(&halves[0]), bytes(&halves[1])].concat();
    assert_eq!(bytes(&outputs[1]), want, "bit by bit, NaN included. {hint}");
}

// Task 4: formats.

/// The answer of `supports` about the last of these formats, with no positions after it.
#[track_caller]
fn supports(formats: &[TensorFormat]) -> bool {
    let layer = CopyConcat { copy: 1, axis: 1 };
    let hint = "Positions after the one in question are not decided yet: use only `formats[..=position]`.";
    ok(asked(|| Ok(layer.supports(formats.len() - 1, formats))), hint)
}

#[test]
fn task4_the_first_tensor_is_f32_or_f16() {
    let first = |dtype| supports(&[TensorFormat::plain(dtype)]);
    assert!(first(DType::F32), "this plugin supports f32");
    assert!(first(DType::F16), "and f16: casting there and back would cost time");
    for dtype in [DType::F64, DType::Bf16, DType::I8, DType::I64, DType::Bool] {
        assert!(!first(dtype), "`forward` was not written for {dtype}");
    }
}

#[test]
fn task4_the_layout_is_plain() {
    let plain = TensorFormat::plain(DType::F32);
    assert!(!supports(&[plain.blocked(1, 8)]), "channels in blocks of 8 cannot be concatenated like rows");
    assert!(!supports(&[plain.channels_last()]), "channels last is another memory order, too");
    assert!(!supports(&[TensorFormat::quantized()]), "i8 with a scale: two inputs may have two scales");
}

#[test]
fn task4_all_others_equal_the_first() {
    for dtype in [DType::F32, DType::F16] {
        for count in 2..=4 {
            let all = vec![TensorFormat::plain(dtype); count];
            assert!(supports(&all), "position {} is like position 0", count - 1);
            let other = if dtype == DType::F32 { DType::F16 } else { DType::F32 };
            for odd in [TensorFormat::plain(other), all[0].blocked(1, 8), all[0].channels_last()] {
                let mut formats = all.clone();
                formats[count - 1] = odd;
                assert!(!supports(&formats), "position {} is {odd}, but the first is {}", count - 1, all[0]);
            }
        }
    }
}

#[test]
fn task4_the_engine_has_two_candidates() {
    supports(&[TensorFormat::plain(DType::F32)]);
    let mut registry = Registry::default();
    ok(registry.register_plugin::<CopyConcat>("mine", "1"), "The name is free.");
    let network = both("mine/CopyConcat/1", registry, DType::F32);
    let builder = ok(network.builder(), "The network is complete.").with_precisions([Precision::F16]);
    let plan = ok(builder.build(), "There are formats for all four tensors.");
    let selections = plan.selections();
    let candidates: Vec<String> = selections[0].candidates.iter().map(ToString::to_string).collect();
    assert_eq!(candidates, ["f32", "f16"], "with half precision allowed there are two candidates");
}
