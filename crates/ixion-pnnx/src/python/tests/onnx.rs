//! Operators of ONNX.

use super::{forward, problems, source};

#[test]
fn inputs_go_by_position_and_attributes_by_name() {
    let lines = [
        "Gather a 2 1 x x y axis=1",
        "pnnx.Expression n 0 1 n expr=[0,2]",
        "Slice b 2 1 y n s ends=(3,4) axes=(0,1)",
        "Pad c 2 1 s n p pads=(1,2) mode=constant",
        "Mean d 3 1 y s p m",
        "RandomNormal e 0 1 r shape=(2,3)",
    ];
    let wanted = [
        "v_y = onnx_Gather(v_x, v_x, axis=1)",
        "v_s = onnx_Slice(v_y, (0, 2), ends=(3, 4), axes=(0, 1))",
        "v_p = onnx_Pad(v_s, (1, 2), (0, 2), mode=\"constant\")",
        "v_m = onnx_Mean(v_y, v_s, v_p)",
        "v_r = onnx_RandomNormal(shape=(2, 3))",
    ];
    assert_eq!(forward(&lines), wanted);
    let source = source(&lines).unwrap();
    assert!(source.contains("\n\n\ndef onnx_wrapped(indices, length):\n"), "{source}");
    assert!(!source.contains("def onnx_Reduce"), "{source}");
    assert_eq!(problems(&["Det a 2 1 x x y"]), ["expected as many inputs as ONNX's operator has, found 2"]);
}

#[test]
fn a_list_of_one_index_keeps_its_axis() {
    let lines = [
        "Gather a 1 1 x y indices=2 #x=(3,4)f32 #y=(1,4)f32",
        "Gather b 1 1 x z indices=2 #z=(4)f32",
        "Tensor.select c 1 1 x w dim=-1 index=-1 #w=(3,1)f32",
        "Tensor.select d 1 1 x v dim=1 index=(2,0)",
        "Tensor.select e 1 1 v u dim=1 index=0",
    ];
    let wanted = [
        "v_y = onnx_Gather(v_x, indices=(2,))",
        "v_z = onnx_Gather(v_x, indices=2)",
        "v_w = v_x[:, [-1]]",
        "v_v = v_x[:, [2, 0]]",
        "v_u = v_v.select(dim=1, index=0)",
    ];
    assert_eq!(forward(&lines), wanted);
}

#[test]
fn outputs_are_some_of_the_results() {
    let lines = [
        "TopK a 2 2 x x v i axis=0",
        "TopK b 2 1 x x w K=3",
        "Unique c 1 2 x u p",
        "MaxPool d 1 1 v m kernel_shape=(2) #v=(1,2,4)f32 #m=(1,2,3)i64",
        "LSTM e 3 2 x x x h s #h=(1,2,4)f32 #s=(1,2,4)f32",
        "GRU f 3 1 x x x g #g=(5,1,2,4)f32",
        "RNN g 3 1 x x x r results=(Y_h)",
    ];
    let wanted = [
        "v_v, v_i = onnx_TopK(v_x, v_x, axis=0)",
        "v_u, v_p, _, _ = onnx_Unique(v_x)",
        "v_m = onnx_MaxPool(v_v, kernel_shape=(2,))[1]",
        "_, v_h, v_s = onnx_LSTM(v_x, v_x, v_x)",
        "v_g = onnx_GRU(v_x, v_x, v_x)[0]",
        "v_r = onnx_RNN(v_x, v_x, v_x)[1]",
    ];
    let lines_of_calls = [&lines[..1], &lines[2..]].concat();
    assert_eq!(forward(&lines_of_calls), wanted);
    assert_eq!(
        problems(&[lines[1], "LSTM e 3 1 x x x h", "Unique c 1 5 x p q r s t"]),
        [
            "expected as many inputs as ONNX's operator has, found 2",
            "expected outputs that are told by their shapes, or named, such as `results=(Y_h)`, found 1",
            "expected no more outputs than ONNX's operator has, found 5",
        ]
    );
}
