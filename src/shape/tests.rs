//! Small graphs, written as PNNX writes them.

use super::{Binding, InputRange, InputShape, Profile, ShapeError, Shapes, symbolic_inputs};
use crate::Limits;
use crate::graph::{OperandIndex, RuntimeGraph};
use crate::op::TensorMeta;
use crate::pnnx::Graph;
use crate::tensor::{DType, Dim};

/// A built graph of these operator lines; the file header is added.
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
fn numbers_and_symbols_use_the_same_rules() {
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
fn inputs_must_match_the_file() {
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
fn shapes_that_depend_on_values_are_unknown_and_stay_the_same() {
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
fn an_update_infers_only_what_depends_on_the_change() {
    let graph = graph(BRANCHES);
    let mut shapes = Shapes::infer(&graph, &[f32s(&[1, 3, 8, 8])]).unwrap();
    let changes = shapes.update(&graph, &[f32s(&[1, 3, 8, 8])]).unwrap();
    assert!(changes.is_empty() && changes.operators().is_empty());
    // The batch size is unchanged, and so is the shape computed from it.
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

#[test]
fn profiles_name_input_and_axis() {
    let graph = graph(BRANCHES);
    let range =
        |min: [usize; 4], max: [usize; 4]| InputRange::new("in_x", DType::F32, min, [2, 3, 8, 8], max);
    let error = range([1, 3, 9, 8], [4, 3, 16, 16]).unwrap_err().to_string();
    assert_eq!(
        error,
        "profile of input `in_x`: axis 2 must satisfy minimum ≤ optimum ≤ maximum, got 9, 8, 16"
    );
    assert!(
        InputRange::new("in_x", DType::F32, [1], [1, 2], [3, 4])
            .unwrap_err()
            .to_string()
            .contains("1, 2 and 2")
    );
    let good = range([1, 3, 8, 8], [4, 3, 16, 16]).unwrap();
    let profile = Profile::new(&graph, vec![good.clone()]).unwrap();
    assert_eq!(profile.max(), [f32s(&[4, 3, 16, 16])]);
    profile.check(&[f32s(&[4, 3, 8, 16])]).unwrap();
    let error = profile.check(&[f32s(&[4, 3, 8, 17])]).unwrap_err().to_string();
    assert_eq!(error, "axis 3 of input `in_x` is 17, but the profile allows 8 to 16");
    assert!(profile.check(&[f32s(&[4, 3, 8])]).is_err() && profile.check(&[]).is_err());
    assert!(Profile::new(&graph, vec![good.clone(), good]).is_err() && Profile::new(&graph, vec![]).is_err());
    let other = InputRange::new("y", DType::F32, [1], [1], [1]).unwrap();
    assert!(Profile::new(&graph, vec![other]).unwrap_err().to_string().contains("no input `y`"));
    let flat = InputRange::new("in_x", DType::F32, [1], [1], [1]).unwrap();
    assert!(matches!(Profile::new(&graph, vec![flat]), Err(ShapeError::InputRank { .. })));
}

#[test]
fn users_name_lengths() {
    let graph = graph(
        "pnnx.Input x 0 1 a #a=(1,3)f32\npnnx.Input y 0 1 b #b=(3,4)f32
        torch.matmul m 2 1 a b d $input=a $other=b\npnnx.Output out 1 0 d",
    );
    let named =
        |text: &str| InputShape::parse_named(text).map(|(name, shape)| (name.to_owned(), shape)).unwrap();
    let inputs = InputShape::apply(&graph, &[named("x=n,k"), named("y=k,?")]).unwrap();
    let shapes = Shapes::infer_known(&graph, &inputs).unwrap();
    assert_eq!(text(&graph, &shapes, "d"), "n×y.1 f32");
    let binding = Binding::of(&graph, &inputs, &[f32s(&[2, 5]), f32s(&[5, 7])]).unwrap();
    let output = shapes.get(operand(&graph, "d")).unwrap();
    assert_eq!((binding.get("k"), binding.apply(output)), (Some(5), f32s(&[2, 7])));
    assert_eq!(binding.value(&(Dim::symbol("n") + Dim::symbol("k"))), Some(7));
    let error = Binding::of(&graph, &inputs, &[f32s(&[2, 5]), f32s(&[6, 7])]).unwrap_err().to_string();
    assert_eq!(error, "conflicting values for `k`: axis 1 of input `x` is 5, but axis 0 of input `y` is 6");
    let fixed = InputShape::apply(&graph, &[named("x=n,3")]).unwrap();
    let error = Binding::of(&graph, &fixed, &[f32s(&[2, 5]), f32s(&[5, 7])]).unwrap_err().to_string();
    assert_eq!(error, "axis 1 of input `x` is 5, but it is fixed to 3");
    assert!(
        InputShape::apply(&graph, &[named("z=n")]).is_err()
            && InputShape::apply(&graph, &[named("x=n")]).is_err()
    );
    for wrong in ["x", "=n", "x=n,,3", "x=-1", "x=n.0", "x=3n", "x=n#1"] {
        assert!(matches!(InputShape::parse_named(wrong), Err(ShapeError::Syntax { .. })), "{wrong}");
    }
}
