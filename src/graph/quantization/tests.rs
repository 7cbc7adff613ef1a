//! Readers of quantised tensors get scale and zero point.

use super::*;
use crate::Limits;

fn resolved(lines: &str) -> Result<Graph, GraphError> {
    let count = lines.lines().count();
    let text = format!("7767517\n{count} {count}\n{lines}\n");
    let mut graph = Graph::parse(&text, &Limits::default()).unwrap();
    resolve(&mut graph)?;
    let once = graph.to_param_text();
    resolve(&mut graph).unwrap();
    assert_eq!(graph.to_param_text(), once, "resolving it again changes nothing");
    Ok(graph)
}

const START: &str = "pnnx.Input in 0 1 x #x=(2,3)f32
torch.quantize_per_tensor q 1 1 x a scale=0.1 zero_point=7 dtype=torch.quint8 $input=x\n";

fn param(graph: &Graph, name: &str, key: &str) -> String {
    let operator = graph.operator(graph.operator_named(name).unwrap());
    operator.param(key).map(|parameter| parameter.raw().to_owned()).unwrap_or_default()
}

#[test]
fn scales_reach_their_readers() {
    let graph = resolved(&format!(
        "{START}Tensor.reshape r 1 1 a b shape=(3,2) $input=a
nn.MaxPool1d p 1 1 b c kernel_size=2
torch.dequantize d 1 1 c y $input=c
pnnx.Output out 1 0 y"
    ))
    .unwrap();
    assert_eq!(param(&graph, "d", "scale"), "0.1");
    assert_eq!(param(&graph, "d", "zero_point"), "7");
}

#[test]
fn other_operators_are_computed_in_floats() {
    let graph = resolved(&format!(
        "{START}pnnx.custom_op.quantized.add_relu s 2 1 a a b arg_2=0.5 arg_3=3 $arg_0=a $arg_1=a
F.sigmoid t 1 1 b c $input=b
F.adaptive_avg_pool1d u 1 1 c e output_size=1 $input=c
torch.dequantize d 1 1 e y $input=e
pnnx.Output out 1 0 y"
    ))
    .unwrap();
    let types: Vec<&str> = graph.operators().map(|(_, operator)| operator.op_type()).collect();
    assert_eq!(
        types,
        [
            "pnnx.Input",
            "torch.quantize_per_tensor",
            "torch.dequantize",
            "torch.dequantize",
            "pnnx.Expression",
            "F.relu",
            "torch.quantize_per_tensor",
            "torch.dequantize",
            "F.sigmoid",
            "torch.quantize_per_tensor",
            "torch.dequantize",
            "F.adaptive_avg_pool1d",
            "pnnx.Expression",
            "torch.quantize_per_tensor",
            "torch.dequantize",
            "pnnx.Output",
        ]
    );
    assert_eq!(param(&graph, "t.dequantize_0", "scale"), "0.5");
    assert_eq!(param(&graph, "u.quantize", "scale"), "1.0");
    assert_eq!(
        (param(&graph, "d", "scale"), param(&graph, "d", "zero_point")),
        ("0.00390625".into(), "0".into())
    );
}

#[test]
fn operators_that_pytorch_does_not_support_are_an_error() {
    let error = resolved(&format!("{START}torch.cumsum c 1 1 a y dim=0 $input=a\npnnx.Output out 1 0 y"));
    let error = error.unwrap_err();
    let GraphError::Operator { source, .. } = &error else { panic!("{error}") };
    assert!(
        source.to_string().contains("the operator does not support them; put `torch.dequantize` before it"),
        "{source}"
    );
    let unknown = "pnnx.custom_op.quantized.add s 2 1 a a b arg_2=0.5 arg_3=3 arg_4=1 $arg_0=a $arg_1=a";
    assert!(resolved(&format!("{START}{unknown}\npnnx.Output out 1 0 b")).is_err());
    let mixed = format!("{START}torch.cat c 2 1 a x y dim=0\npnnx.Output out 1 0 y");
    assert!(resolved(&mixed).is_err());
}

#[test]
fn computed_scales_reach_dequantisation() {
    let graph = resolved(
        "pnnx.Input in 0 1 x #x=(2)f32
pnnx.Input s 0 1 s #s=(2)f32
pnnx.Input z 0 1 z #z=(2)i64
aten::quantize_per_channel q 3 1 x s z a axis=1 dtype=torch.qint8 $input=x $scale=s $zero_point=z
torch.dequantize d 1 1 a y $input=a
pnnx.Output out 1 0 y",
    )
    .unwrap();
    let d = graph.operator(graph.operator_named("d").unwrap());
    assert_eq!(d.inputs().len(), 3);
    assert_eq!(param(&graph, "d", "axis"), "1");
}

/// The axis of a 2×3×4×5 tensor with per-channel scales after `moves`, as its dequantisation sees it.
fn channels_after(moves: &str) -> Result<String, GraphError> {
    let graph = resolved(&format!(
        "pnnx.Input in 0 1 x #x=(2,3,4,5)f32
pnnx.Input s 0 1 s #s=(3)f32
pnnx.Input z 0 1 z #z=(3)i64
aten::quantize_per_channel q 3 1 x s z a axis=-3 dtype=torch.qint8 $input=x $scale=s $zero_point=z #a=(2,3,4,5)i8
{moves}
torch.dequantize d 1 1 b y $input=b
pnnx.Output out 1 0 y"
    ))?;
    Ok(param(&graph, "d", "axis"))
}

#[test]
fn the_axis_of_the_channels_moves_with_its_elements() {
    for (moves, axis) in [
        ("Tensor.permute m 1 1 a b dims=(0,2,3,1) $input=a", "3"),
        ("torch.transpose m 1 1 a b dim0=-3 dim1=0 $input=a", "0"),
        ("torch.transpose m 1 1 a b dim0=2 dim1=0 $input=a", "1"),
        ("Tensor.slice m 1 1 a b dim=0 start=0 end=1 step=1 $input=a", "1"),
        (
            "Tensor.slice m 1 1 a b dims=(0,3) starts=(0,1) ends=(0,3) steps=(0,1) selects=(1,2147483647) $input=a",
            "0",
        ),
        ("Tensor.select m 1 1 a b dim=0 index=1 $input=a", "0"),
        ("Tensor.select m 1 1 a b dim=-1 index=1 $input=a", "1"),
        ("torch.unbind m 1 2 a b c dim=0 $input=a", "0"),
        ("torch.chunk m 1 2 a b c chunks=2 dim=2 $input=a", "1"),
        ("torch.flip m 1 1 a b dims=(0,2) $input=a", "1"),
        ("torch.unsqueeze m 1 1 a b dim=1 $input=a", "2"),
        ("torch.unsqueeze m 1 1 a b dim=-1 $input=a", "1"),
        ("torch.flatten m 1 1 a b start_dim=2 $input=a #b=(2,3,20)i8", "1"),
        ("Tensor.reshape m 1 1 a b shape=(1,2,3,4,5) $input=a #b=(1,2,3,4,5)i8", "2"),
        ("Tensor.reshape m 1 1 a b shape=(-1,3,20) $input=a #b=(?,3,20)i8", "1"),
        ("F.dropout m 1 1 a b $input=a", "-3"),
        (
            "Tensor.permute m 1 1 a c dims=(1,0,2,3) $input=a #c=(3,2,4,5)i8\nTensor.select n 1 1 c b dim=1 index=0 $input=c",
            "0",
        ),
    ] {
        assert_eq!(channels_after(moves).unwrap(), axis, "{moves}");
    }
}

#[test]
fn moves_that_split_or_select_channels_are_refused() {
    for moves in [
        "Tensor.slice m 1 1 a b dim=1 start=0 end=2 step=1 $input=a",
        "Tensor.select m 1 1 a b dim=1 index=0 $input=a",
        "torch.flip m 1 1 a b dims=(1) $input=a",
        "Tensor.reshape m 1 1 a b shape=(6,20) $input=a #b=(6,20)i8",
        "Tensor.reshape m 1 1 a b shape=(6,20) $input=a",
        "F.max_pool2d m 1 1 a b kernel_size=2 $input=a",
        "nn.PixelShuffle m 1 1 a b upscale_factor=1 $input=a",
        "torch.unsqueeze m 1 1 a b dim=99999999999 $input=a\ntorch.squeeze n 1 1 a c dim=-9223372036854775808 $input=a",
    ] {
        let error = channels_after(moves).unwrap_err();
        let GraphError::Operator { source, .. } = &error else { panic!("{error}") };
        assert!(source.to_string().contains("put `torch.dequantize` before it"), "{moves}: {source}");
    }
}

#[test]
fn shapes_of_quantised_tensors_can_be_read() {
    let graph =
        resolved(&format!("{START}Tensor.size s 1 1 a n dim=0 $input=a\npnnx.Output out 1 0 n")).unwrap();
    assert_eq!(graph.operators().count(), 4);
}

#[test]
fn comparisons_return_plain_tensors() {
    let text = format!(
        "{START}torch.lt l 1 1 a m other=0.25 $input=a\ntorch.logical_not n 1 1 m y $input=m\npnnx.Output out 1 0 y"
    );
    let graph = resolved(&text).unwrap();
    assert_eq!(param(&graph, "l.dequantize_0", "scale"), "0.1");
}

#[test]
fn only_tensors_of_the_same_quantisation_are_stacked() {
    let other = |scale| {
        format!(
            "{START}torch.quantize_per_tensor p 1 1 x b scale={scale} zero_point=7 dtype=torch.quint8 $input=x
torch.stack s 2 1 a b c dim=0
torch.dequantize d 1 1 c y $input=c
pnnx.Output out 1 0 y"
        )
    };
    assert_eq!(param(&resolved(&other("0.1")).unwrap(), "d", "zero_point"), "7");
    assert!(resolved(&other("0.2")).is_err());
}

#[test]
fn unsupported_functions_are_reported_with_the_supported_ones() {
    let error = resolved(&format!(
        "{START}pnnx.custom_op.quantized.layer_norm l 1 1 a b $arg_0=a\npnnx.Output out 1 0 b"
    ));
    let error = error.unwrap_err();
    let GraphError::Operator { source, .. } = &error else { panic!("{error}") };
    let text = source.to_string();
    assert!(text.contains("add, add_relu, mul") && text.contains("nn.quantized.Conv2d"), "{text}");
}

/// PyTorch computes means over the last axes from quantised values, and others in floats, which rounds differently.
#[test]
fn means_over_other_axes_than_the_last_are_computed_in_floats() {
    let scale_of = |dim: &str| {
        let graph = resolved(&format!(
            "pnnx.Input in 0 1 x #x=(2,3,4)f32
torch.quantize_per_tensor q 1 1 x a scale=0.1 zero_point=7 dtype=torch.quint8 $input=x #a=(2,3,4)u8
torch.mean m 1 1 a b {dim} $input=a
torch.dequantize d 1 1 b y $input=b
pnnx.Output out 1 0 y"
        ));
        param(&graph.unwrap(), "m.dequantize_0", "scale")
    };
    for dim in ["dim=None", "", "dim=(2)", "dim=(-1)", "dim=(1,-1)", "dim=(2,0,1)"] {
        assert_eq!(scale_of(dim), "1.0", "{dim}");
    }
    for dim in ["dim=(0)", "dim=(0,2)", "dim=(-2)", "dim=(0,1)"] {
        assert_eq!(scale_of(dim), "0.1", "{dim}");
    }
}

#[test]
fn i32_outputs_have_their_own_scales() {
    let graph = resolved(
        "pnnx.Input in 0 1 x #x=(2,3)f32
torch.quantize_per_tensor q 1 1 x a scale=0.1 zero_point=7 dtype=torch.qint32 $input=x
F.tanh t 1 1 a b $input=a
torch.dequantize d 1 1 b y $input=b
pnnx.Output out 1 0 y",
    )
    .unwrap();
    assert_eq!(
        (param(&graph, "d", "scale"), param(&graph, "d", "zero_point")),
        ("4.656612873077393e-10".into(), "0".into())
    );
}

#[test]
fn constant_operands_are_parameters() {
    let graph = resolved(&format!(
        "{START}prim::Constant c 0 1 dim value=0
prim::Constant d 0 1 scale value=0.5
prim::Constant e 0 1 zero value=3
prim::ListConstruct g 2 1 a a l
nn.quantized.cat h 4 1 l dim scale zero b $tensors=l $dim=dim $scale=scale $zero_point=zero #b=(4,3)u8
quantized::hardswish i 3 1 b scale zero h #b=(4,3)u8 #h=(4,3)u8
torch.mean j 2 1 h dim m dtype=None keepdim=False $input=h $dim=dim #h=(4,3)u8 #m=(3)u8
torch.dequantize k 1 1 m y $input=m
pnnx.Output out 1 0 y"
    ));
    let graph = graph.unwrap();
    assert_eq!(param(&graph, "h", "dim"), "0");
    assert_eq!(param(&graph, "h", "scale"), "0.5");
    assert_eq!(param(&graph, "h", "input_scales"), "(0.1,0.1)");
    assert_eq!(param(&graph, "i.quantize", "zero_point"), "3");
    assert_eq!(param(&graph, "j", "dim"), "0");
}

#[test]
fn unpacked_parts_are_quantised_like_the_whole() {
    let graph = resolved(&format!(
        "{START}torch.chunk p 1 1 a l chunks=2 dim=0 $input=a
prim::ListUnpack u 1 2 l b c
torch.dequantize d 1 1 c y $input=c
pnnx.Output out 1 0 y"
    ))
    .unwrap();
    assert_eq!(param(&graph, "d", "scale"), "0.1");
}

#[test]
fn a_slice_of_the_whole_axis_keeps_the_scales() {
    let lines = |end: &str| {
        format!(
            "pnnx.Input in 0 1 x #x=(2,3)f32
pnnx.Attribute s 0 1 s @data=(2)f32
pnnx.Attribute z 0 1 z @data=(2)i64
aten::quantize_per_channel q 3 1 x s z a axis=0 dtype=torch.qint8 $input=x $scale=s $zero_point=z #a=(2,3)i8
prim::Constant c 0 1 zero value=0
prim::Constant d 0 1 end value={end}
Tensor.slice m 3 1 a zero end b dim=0 step=1 $input=a $start=zero $end=end #b=(2,3)i8
torch.dequantize r 1 1 b y $input=b
pnnx.Output out 1 0 y"
        )
    };
    assert_eq!(param(&resolved(&lines("2147483647")).unwrap(), "r", "axis"), "0");
    assert!(resolved(&lines("1")).is_err());
}
