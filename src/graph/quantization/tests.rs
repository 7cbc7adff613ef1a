//! What readers of quantised tensors are told.

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
fn scales_reach_who_reads_them() {
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
fn what_is_defined_in_floats_is_computed_in_floats() {
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
fn what_pytorch_cannot_do_is_an_error() {
    let error = resolved(&format!("{START}torch.cumsum c 1 1 a y dim=0 $input=a\npnnx.Output out 1 0 y"));
    let error = error.unwrap_err();
    let GraphError::Operator { source, .. } = &error else { panic!("{error}") };
    assert!(source.to_string().contains("it takes none; put `torch.dequantize` before it"), "{source}");
    let unknown = "pnnx.custom_op.quantized.add s 2 1 a a b arg_2=0.5 arg_3=3 arg_4=1 $arg_0=a $arg_1=a";
    assert!(resolved(&format!("{START}{unknown}\npnnx.Output out 1 0 b")).is_err());
    let mixed = format!("{START}torch.cat c 2 1 a x y dim=0\npnnx.Output out 1 0 y");
    assert!(resolved(&mixed).is_err());
}

#[test]
fn computed_scales_reach_who_makes_floats_of_them() {
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
