//! Small graphs, written as PNNX writes them.

use super::{ShapeError, Shapes, symbolic_inputs};
use crate::Limits;
use crate::graph::{OperandIndex, RuntimeGraph, TensorMeta};
use crate::pnnx::Graph;
use crate::tensor::{DType, Dim};

/// A built graph of these operator lines: counts are written in front of them.
pub(super) fn graph(lines: &str) -> RuntimeGraph {
    let lines: Vec<&str> = lines.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let text = format!("7767517\n{} 0\n{}\n", lines.len(), lines.join("\n"));
    let file = Graph::parse(&text, &Limits::default()).unwrap();
    let mut graph = RuntimeGraph::from_pnnx(file).with_random_weights(1);
    graph.build().unwrap();
    graph
}

pub(super) fn operand(graph: &RuntimeGraph, name: &str) -> OperandIndex {
    let operator =
        graph.operators().iter().flat_map(|operator| operator.inputs().iter().chain(operator.outputs()));
    operator.copied().find(|&index| graph.operand(index).name() == name).unwrap()
}

fn text(graph: &RuntimeGraph, shapes: &Shapes, name: &str) -> String {
    shapes.get(operand(graph, name)).map_or_else(|| "?".to_owned(), TensorMeta::to_string)
}

fn f32s(dims: &[i64]) -> TensorMeta {
    TensorMeta::new(DType::F32, dims.iter().copied())
}

const BRANCHES: &str = "
    pnnx.Input in_x 0 1 x #x=(1,3,8,8)f32
    nn.Conv2d conv_a 1 1 x a in_channels=3 out_channels=4 kernel_size=(3,3) stride=(2,2) padding=(1,1) dilation=(1,1) groups=1 padding_mode=zeros bias=False @weight=(4,3,3,3)f32
    nn.MaxPool2d pool_b 1 1 x b kernel_size=(2,2) stride=(2,2) padding=(0,0) dilation=(1,1) return_indices=False ceil_mode=False
    F.relu relu_b 1 1 b r
    torch.cat cat_0 2 1 a r c dim=1
    Tensor.size size_0 1 1 c n dim=0
    pnnx.Expression ex 1 1 n s expr=[int(@0),-1]
    Tensor.reshape flat 2 1 c s f $input=c $shape=s
    pnnx.Output out 1 0 f";

#[test]
fn numbers_and_symbols_by_the_same_rules() {
    let graph = graph(BRANCHES);
    let shapes = Shapes::infer(&graph, &[f32s(&[2, 3, 9, 10])]).unwrap_err();
    assert!(shapes.to_string().contains("`a` from nn.Conv2d `conv_a` is 2×4×5×5 f32"), "{shapes}");
    let shapes = Shapes::infer(&graph, &[f32s(&[2, 3, 8, 10])]).unwrap();
    assert_eq!(text(&graph, &shapes, "c"), "2×7×4×5 f32");
    assert_eq!(text(&graph, &shapes, "f"), "2×140 f32");
}

#[test]
fn every_length_of_an_input_is_a_symbol() {
    let graph = graph(
        "pnnx.Input x 0 1 a #a=(1,%h)f32\npnnx.Input y 0 1 b #b=(%h,?)f32\npnnx.Input z 0 1 c
        torch.matmul m 2 1 a b d $input=a $other=b\npnnx.Output out 2 0 d c",
    );
    let inputs = symbolic_inputs(&graph);
    let texts: Vec<_> = inputs.iter().map(|input| input.as_ref().map(TensorMeta::to_string)).collect();
    assert_eq!(texts, [Some("x.0×h f32".to_owned()), Some("h×y.1 f32".to_owned()), None]);
    let shapes = Shapes::symbolic(&graph).unwrap();
    assert_eq!(text(&graph, &shapes, "d"), "x.0×y.1 f32");
    assert_eq!(shapes.get(graph.inputs()[2].operand), None);
}

#[test]
fn inputs_are_those_of_the_file() {
    let graph = graph(BRANCHES);
    assert!(matches!(Shapes::infer(&graph, &[]), Err(ShapeError::InputCount { found: 0, .. })));
    assert!(matches!(
        Shapes::infer(&graph, &[f32s(&[3, 8, 8])]),
        Err(ShapeError::InputRank { wanted: 4, .. })
    ));
    let halves = TensorMeta::new(DType::F16, [1, 3, 8, 8]);
    assert!(matches!(Shapes::infer(&graph, &[halves]), Err(ShapeError::InputDType { .. })));
}

#[test]
fn what_depends_on_values_is_unknown_and_stays_the_same() {
    let graph = graph(
        "pnnx.Input x 0 1 x #x=(4)f32\npnnx.Input s 0 1 s #s=(2)i64
        aten::nonzero found 1 1 x n\nF.relu relu 1 1 n r
        Tensor.reshape shaped 2 1 x s y $input=x $shape=s\nF.relu behind 1 1 y z\npnnx.Output out 2 0 r z",
    );
    let sizes = TensorMeta::new(DType::I64, [2]);
    let mut shapes = Shapes::infer(&graph, &[f32s(&[4]), sizes.clone()]).unwrap();
    assert_eq!(text(&graph, &shapes, "r"), "found@found×1 i64");
    assert_eq!((text(&graph, &shapes, "y"), text(&graph, &shapes, "z")), ("?".into(), "?".into()));
    let known = sizes.with_values(vec![Dim::Fixed(2), Dim::Fixed(-1)]);
    let changes = shapes.update(&graph, &[f32s(&[6]), known]).unwrap();
    assert_eq!(text(&graph, &shapes, "z"), "2×3 f32");
    assert_eq!(text(&graph, &shapes, "r"), "found@found×1 i64");
    assert!(!changes.operands().contains(&operand(&graph, "r")));
}

#[test]
fn an_update_infers_what_depends_on_the_change() {
    let graph = graph(BRANCHES);
    let mut shapes = Shapes::infer(&graph, &[f32s(&[1, 3, 8, 8])]).unwrap();
    let changes = shapes.update(&graph, &[f32s(&[1, 3, 8, 8])]).unwrap();
    assert!(changes.is_empty() && changes.operators().is_empty());
    // The batch stays, so the size and the shape made of it do.
    let changes = shapes.update(&graph, &[f32s(&[1, 3, 16, 16])]).unwrap();
    assert_eq!(changes.operators().len(), 6, "{changes:?}");
    assert!(!changes.operands().contains(&operand(&graph, "n")));
    assert_eq!(changes.larger().len(), changes.operands().len());
    let changes = shapes.update(&graph, &[f32s(&[1, 3, 8, 8])]).unwrap();
    assert!(changes.larger().is_empty() && !changes.is_empty());
    let before = shapes.metas().to_vec();
    shapes.update(&graph, &[f32s(&[1, 3, 9, 9])]).unwrap_err();
    assert_eq!(shapes.metas(), before);
    shapes.clear();
    let changes = shapes.update(&graph, &[f32s(&[1, 3, 8, 8])]).unwrap();
    assert_eq!((changes.operators().len(), shapes.metas()), (7, &before[..]));
}
