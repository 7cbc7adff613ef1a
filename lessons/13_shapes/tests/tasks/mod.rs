//! The requirements of each task of lesson 13.

mod update;

use super::subject::{
    Binding, InputRange, Update, agreed, by_name, ceil_div, compute, disorder, evaluate, floor_div,
    infer_all, infer_operator, joined, known_inputs, larger, positions, same_inputs,
};
use ixion::Limits;
use ixion::course::dim::Operation;
use ixion::course::symbolic_inputs;
use ixion::course::window::Window;
use ixion::graph::{OperandIndex, RuntimeGraph};
use ixion::op::TensorMeta;
use ixion::pnnx::Graph;
use ixion::shape::ShapeError;
use ixion::tensor::{DType, Dim};
use std::path::{Path, PathBuf};

/// A model file of the repository that contains this package.
fn model_file(name: &str) -> PathBuf {
    let folders = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().map(|folder| folder.join("model_file"));
    folders.into_iter().find(|folder| folder.is_dir()).unwrap().join(name)
}

fn model(name: &str) -> RuntimeGraph {
    let mut graph = RuntimeGraph::new(model_file(name));
    graph.build().unwrap();
    graph
}

/// Builds a graph from these operator lines.
fn graph(lines: &[&str]) -> RuntimeGraph {
    let text = format!("7767517\n{} {}\n{}\n", lines.len(), lines.len(), lines.join("\n"));
    let file = Graph::parse(&text, &Limits::default()).unwrap();
    let mut graph = RuntimeGraph::from_pnnx(file);
    graph.build().unwrap();
    graph
}

const POOL: &str = "kernel_size=(2,2) stride=(2,2) padding=(0,0) dilation=(1,1) return_indices=False";

/// The graph on the page: x is pooled and goes through a ReLU, y is pooled, and both are joined along axis 1.
fn page() -> RuntimeGraph {
    graph(&[
        "pnnx.Input x 0 1 x #x=(1,3,8,8)f32",
        "pnnx.Input y 0 1 y #y=(1,1,8,8)f32",
        &format!("nn.MaxPool2d pool_x 1 1 x a ceil_mode=False {POOL}"),
        "F.relu relu 1 1 a b",
        &format!("nn.MaxPool2d pool_y 1 1 y c ceil_mode=True {POOL}"),
        "torch.cat join 2 1 b c d dim=1",
        "pnnx.Output out 1 0 d",
    ])
}

/// A graph whose `reshape` needs the values of an input.
fn reshape() -> RuntimeGraph {
    graph(&[
        "pnnx.Input x 0 1 x #x=(4)f32",
        "pnnx.Input s 0 1 s #s=(2)i64",
        "Tensor.reshape shaped 2 1 x s y $input=x $shape=s",
        "F.relu behind 1 1 y z",
        "F.relu beside 1 1 x w",
        "pnnx.Output out 2 0 z w",
    ])
}

fn f32s(dims: &[i64]) -> TensorMeta {
    TensorMeta::new(DType::F32, dims.iter().copied())
}

/// The inputs of the graph on the page, with numbers.
fn inputs(x: &[i64], y: &[i64]) -> Vec<Option<TensorMeta>> {
    vec![Some(f32s(x)), Some(f32s(y))]
}

fn operand(graph: &RuntimeGraph, name: &str) -> OperandIndex {
    let position = graph.operands().iter().position(|operand| operand.name() == name);
    OperandIndex::new(position.unwrap())
}

/// The description of an operand as text; `?` if it is unknown.
fn text(graph: &RuntimeGraph, metas: &[Option<TensorMeta>], name: &str) -> String {
    metas[operand(graph, name).position()].as_ref().map_or_else(|| "?".to_owned(), TensorMeta::to_string)
}

fn names(graph: &RuntimeGraph, operands: &[OperandIndex]) -> Vec<String> {
    let mut names: Vec<String> = operands.iter().map(|&at| graph.operand(at).name().to_owned()).collect();
    names.sort();
    names
}

/// Unwraps a result that must not be an error.
#[track_caller]
fn fine<T>(result: Result<T, ShapeError>) -> T {
    assert!(result.is_ok(), "unexpected error: {}", result.err().unwrap());
    result.unwrap()
}

/// The message of a result that must be an error.
#[track_caller]
fn refused<T>(result: Result<T, ShapeError>) -> String {
    assert!(result.is_err(), "this must be an error: is it lost on the way, or never checked?");
    result.err().unwrap().to_string()
}

/// A window without dilation, with the same padding on both sides.
fn window(kernel: usize, stride: usize, pad: usize) -> Window {
    Window { kernel, stride, dilation: 1, pad_before: pad, pad_after: pad }
}

fn sym(name: &str) -> Dim {
    Dim::symbol(name)
}

#[test]
fn task1_quotients_are_rounded_down() {
    assert_eq!(floor_div(7, 2), 3, "3.5 rounded down");
    assert_eq!(floor_div(8, 2), 4, "nothing to round");
    let hint = "-3.5 is between -4 and -3, so rounded down it is -4; Rust's `/` rounds towards zero";
    assert_eq!(floor_div(-7, 2), -4, "{hint}");
    assert_eq!(floor_div(7, -2), -4, "{hint}");
    assert_eq!((floor_div(-8, 2), floor_div(-7, -2)), (-4, 3), "exact, and both sides negative: 3.5");
}

#[test]
fn task1_quotients_are_rounded_up() {
    assert_eq!(ceil_div(7, 2), 4, "3.5 rounded up");
    assert_eq!((ceil_div(8, 2), ceil_div(-7, 2)), (4, -3), "nothing to round; -3.5 rounded up is -3");
}

#[test]
fn task1_division_never_panics() {
    let hint = "a file may make a model divide by zero: the result is 0";
    assert_eq!((floor_div(5, 0), ceil_div(-5, 0)), (0, 0), "{hint}");
    assert_eq!(floor_div(i64::MIN, -1), i64::MAX, "one more than the largest number saturates");
    assert_eq!(
        (ceil_div(i64::MIN, 1), ceil_div(i64::MIN, -1)),
        (i64::MIN, i64::MAX),
        "at the ends of the range"
    );
}

#[test]
fn task1_six_operations() {
    let of_7_and_2 = |operation| compute(operation, 7, 2);
    assert_eq!([Operation::Add, Operation::Mul].map(of_7_and_2), [9, 14], "sum, product");
    assert_eq!([Operation::FloorDiv, Operation::CeilDiv].map(of_7_and_2), [3, 4], "quotients of 7 and 2");
    assert_eq!([Operation::Max, Operation::Min].map(of_7_and_2), [7, 2], "the larger, the smaller");
    let hint = "lengths from a file may be anything: add and multiply with `saturating_…`";
    assert_eq!(compute(Operation::Add, i64::MAX, 1), i64::MAX, "{hint}");
    assert_eq!(compute(Operation::Mul, i64::MAX, -2), i64::MIN, "{hint}");
}

#[test]
fn task1_symbols_get_values() {
    let pooled = (sym("h") + 1).floor_div(2);
    assert_eq!(evaluate(&pooled, &|_| Some(8)), Some(4), "the tree on the page: (8 + 1) / 2 is 4, not 4.5");
    assert_eq!(evaluate(&Dim::Fixed(6), &|_| None), Some(6), "a number needs no symbol");
    let area = sym("h") * sym("w");
    let value_of = |name: &str| Some(if name == "h" { 3 } else { 5 });
    assert_eq!(evaluate(&area, &value_of), Some(15), "h is 3 and w is 5");
    assert_eq!(evaluate(&sym("h").max(sym("w")), &value_of), Some(5), "the larger of 3 and 5");
}

#[test]
fn task1_an_unknown_symbol_gives_none() {
    let area = sym("h") * sym("w");
    let value_of = |name: &str| (name == "h").then_some(3);
    let hint = "w has no value, so the area has none, either: it is not 0, and w is not 0 or 1";
    assert_eq!(evaluate(&area, &value_of), None, "{hint}");
}

#[test]
fn task2_a_window_over_a_number() {
    let hint = "(7 + 1 + 1 - 3) / 2 = 3 steps, and the first position";
    assert_eq!(positions(&window(3, 2, 1), &Dim::Fixed(7), false), 4i64, "{hint}");
    let hint = "(8 + 2 - 3) / 2 is 3.5: a partial step does not count";
    assert_eq!(positions(&window(3, 2, 1), &Dim::Fixed(8), false), 4i64, "{hint}");
    let wide = Window { dilation: 3, ..window(3, 1, 0) };
    assert_eq!(positions(&wide, &Dim::Fixed(9), false), 3i64, "three taps 3 apart span 7 elements");
    let uneven = Window { pad_before: 0, pad_after: 2, ..window(3, 1, 0) };
    assert_eq!(positions(&uneven, &Dim::Fixed(4), false), 4i64, "4 + 0 + 2 - 3, and the first position");
    assert!(positions(&window(5, 1, 0), &Dim::Fixed(3), false) == -1i64, "3 - 5, and the first position");
}

#[test]
fn task2_a_window_over_a_symbol() {
    let same = positions(&window(3, 1, 1), &sym("h"), false);
    assert_eq!(same, sym("h"), "h + 2 - 3 + 1 is h: did `Dim` do the arithmetic?");
    let halved = positions(&window(2, 2, 0), &sym("h"), false);
    assert_eq!(halved.to_string(), "h / 2", "(h - 2) / 2 + 1 is h / 2");
    let pooled = positions(&window(3, 2, 1), &sym("h"), false);
    for len in 1..20 {
        let wanted = positions(&window(3, 2, 1), &Dim::Fixed(len), false).fixed();
        assert_eq!(pooled.evaluate(&|_| Some(len)), wanted, "symbol and number must agree at {len}");
    }
}

#[test]
fn task2_ceil_mode_rounds_up() {
    let hint = "(8 - 3) / 2 is 2.5: a partial third step counts";
    assert_eq!(positions(&window(3, 2, 0), &Dim::Fixed(8), true), 4i64, "{hint}");
    assert_eq!(positions(&window(2, 2, 0), &sym("h"), true).to_string(), "(h + 1) / 2", "h / 2, rounded up");
}

#[test]
fn task2_ceil_mode_begins_inside() {
    let hint = "rounded up it would be 3 positions, but the third would begin at position 4 = 1 + 3, after the \
                axis, where it sees padding alone: PyTorch returns 2";
    assert_eq!(positions(&window(2, 2, 1), &Dim::Fixed(3), true), 2i64, "{hint}");
    let hint = "the third begins at position 4 = 1 + 3, the last of the axis: the padding before it counts";
    assert_eq!(positions(&window(2, 2, 1), &Dim::Fixed(4), true), 3i64, "{hint}");
}

#[test]
fn task2_lengths_agree() {
    assert_eq!(agreed(&Dim::Fixed(3), &Dim::Fixed(3)), Some(Dim::Fixed(3)), "3 and 3");
    assert_eq!(agreed(&Dim::Fixed(3), &Dim::Fixed(4)), None, "3 is not 4");
    let hint = "h may be 3, and if the model runs at all, it is: the number is more specific";
    assert_eq!(agreed(&sym("h"), &Dim::Fixed(3)), Some(Dim::Fixed(3)), "{hint}");
    assert_eq!(agreed(&Dim::Fixed(3), &sym("h")), Some(Dim::Fixed(3)), "{hint}");
    assert_eq!(agreed(&sym("h"), &sym("w")), Some(sym("h")), "not known to differ: return the left one");
    assert_eq!(agreed(&sym("h"), &(sym("h") + 1)), None, "h and h + 1 differ, whatever h is: see `differs`");
}

#[test]
fn task2_joined_along_an_axis() {
    let dims = |lens: &[i64]| lens.iter().copied().map(Dim::Fixed).collect::<Vec<_>>();
    let found = joined(&dims(&[1, 3, 8]), &dims(&[1, 5, 8]), 1);
    assert_eq!(found, Some(dims(&[1, 8, 8])), "3 + 5 along axis 1, the others as they are");
    let hint = "axis 2 is 8 and 9: axes other than the joined one must agree";
    assert_eq!(joined(&dims(&[1, 3, 8]), &dims(&[1, 3, 9]), 1), None, "{hint}");
    assert_eq!(joined(&dims(&[1, 3, 8]), &dims(&[1, 3]), 1), None, "three axes and two: `zip` stops early");
    let found = joined(&[sym("n"), sym("c")], &[Dim::Fixed(2), Dim::Fixed(4)], 1);
    assert_eq!(found, Some(vec![Dim::Fixed(2), sym("c") + 4]), "n is 2, and c + 4 along axis 1");
}

#[test]
fn task3_inputs_in_their_order() {
    let graph = page();
    let mut metas = vec![None; graph.operands().len()];
    metas[operand(&graph, "b").position()] = Some(f32s(&[1, 3, 4, 4]));
    let join = graph.operator_named("join").unwrap();
    assert_eq!(known_inputs(join, &metas), None, "c is unknown, so join's inputs are unknown");
    metas[operand(&graph, "c").position()] = Some(f32s(&[1, 1, 4, 4]));
    let found = known_inputs(join, &metas);
    assert_eq!(found, Some(vec![f32s(&[1, 3, 4, 4]), f32s(&[1, 1, 4, 4])]), "first b, then c");
}

#[test]
fn task3_numbers_through_the_graph() {
    let graph = page();
    let metas = fine(infer_all(&graph, &inputs(&[2, 3, 8, 10], &[2, 1, 8, 10])));
    assert_eq!(metas.len(), 6, "one entry for each operand: x, y, a, b, c and d");
    assert_eq!(text(&graph, &metas, "x"), "2×3×8×10 f32", "the model's inputs are operands, too");
    assert_eq!(text(&graph, &metas, "a"), "2×3×4×5 f32", "pool_x halves rows and columns");
    assert_eq!(text(&graph, &metas, "d"), "2×4×4×5 f32", "join has 3 + 1 channels");
}

#[test]
fn task3_symbols_through_the_graph() {
    let graph = page();
    let symbolic = |axes: [&str; 4]| Some(TensorMeta::new(DType::F32, axes.map(Dim::symbol)));
    let inputs = [symbolic(["n", "c", "h", "w"]), symbolic(["n", "k", "h", "w"])];
    let metas = fine(infer_all(&graph, &inputs));
    assert_eq!(text(&graph, &metas, "a"), "n×c×(h / 2)×(w / 2) f32", "the same walk, with symbols");
    assert_eq!(
        text(&graph, &metas, "d"),
        "n×(c + k)×(h / 2)×(w / 2) f32",
        "of two lengths the left one stays"
    );
}

#[test]
fn task3_unknown_stays_unknown() {
    let graph = reshape();
    let sizes = TensorMeta::new(DType::I64, [2]);
    let metas = fine(infer_all(&graph, &[Some(f32s(&[4])), Some(sizes.clone())]));
    let hint = "the values of s are unknown before the run: that is not an error, see `is_open`";
    assert_eq!(text(&graph, &metas, "y"), "?", "{hint}");
    assert_eq!(text(&graph, &metas, "z"), "?", "what depends on an unknown shape is unknown");
    assert_eq!(
        text(&graph, &metas, "w"),
        "4 f32",
        "`beside` reads x alone: continue after an unknown operator"
    );
    let known = sizes.with_values(vec![Dim::Fixed(2), Dim::Fixed(-1)]);
    let metas = fine(infer_all(&graph, &[Some(f32s(&[4])), Some(known)]));
    assert_eq!(text(&graph, &metas, "z"), "2×2 f32", "with s = [2, -1], 4 elements become 2×2");
    let metas = fine(infer_all(&page(), &[None, Some(f32s(&[1, 1, 8, 8]))]));
    assert_eq!(metas.iter().flatten().count(), 2, "without x, only y and c are known");
}

#[test]
fn task3_an_error_names_the_operator() {
    let graph = page();
    let error = refused(infer_all(&graph, &inputs(&[1, 3, 8, 8], &[1, 1, 12, 8])));
    assert!(error.contains("torch.cat `join`"), "the error must name the operator: {error}");
    let hint = "the error must describe the inputs, see `origin`";
    assert!(error.contains("`b` from F.relu `relu` is 1×3×4×4 f32"), "{hint}: {error}");
    assert!(error.contains("`c` from nn.MaxPool2d `pool_y` is 1×1×6×4 f32"), "{hint}: {error}");
    let relu = graph.operator_named("relu").unwrap();
    let nothing = vec![None; graph.operands().len()];
    assert!(matches!(infer_operator(&graph, relu, &nothing), Ok(None)), "unknown inputs are not an error");
}

#[test]
fn task3_inputs_are_checked_first() {
    let found = infer_all(&page(), &[Some(f32s(&[1, 3, 8, 8]))]);
    let hint = "the model has two inputs: `check_inputs` checks that";
    assert!(matches!(found, Err(ShapeError::InputCount { found: 1, .. })), "{hint}");
    let found = infer_all(&page(), &inputs(&[3, 8, 8], &[1, 1, 8, 8]));
    assert!(matches!(found, Err(ShapeError::InputRank { wanted: 4, .. })), "x has four axes: {found:?}");
}

#[test]
fn task5_names_find_their_inputs() {
    let graph = page();
    let found = fine(by_name(&graph, [("y", 7), ("x", 4)]));
    assert_eq!(found, [Some(4), Some(7)], "in the order of the model's inputs, x and y");
    let found = fine(by_name(&graph, [("y", "n×1×8×8")]));
    assert_eq!(found, [None, Some("n×1×8×8")], "x is not given");
    assert_eq!(fine(by_name::<u8>(&graph, [])), [None, None], "neither is given");
}

#[test]
fn task5_an_unknown_name_is_rejected() {
    let error = refused(by_name(&page(), [("x", 1), ("z", 2)]));
    assert_eq!(
        error, "the model has no input `z`; it has `x`, `y`",
        "report the wrong name, and the known ones"
    );
    let hint = "b is an operand, but not an input of the model: the relu computes it";
    assert!(by_name(&page(), [("b", 1)]).is_err(), "{hint}");
}

#[test]
fn task5_a_name_given_twice_is_rejected() {
    let error = refused(by_name(&page(), [("y", 1), ("x", 2), ("y", 3)]));
    assert_eq!(error, "the shape of input `y` is given twice; give it once", "which of them is meant?");
    assert!(by_name(&page(), [("y", 1), ("y", 1)]).is_err(), "the same value twice is a mistake as well");
}

#[test]
fn task5_a_symbol_keeps_its_number() {
    let mut binding = Binding::default();
    fine(binding.set("n", 4, "x", 0));
    assert_eq!(binding.get("n"), Some(4), "n was bound to 4");
    assert_eq!(binding.get("h"), None, "h was not bound");
    fine(binding.set("n", 4, "y", 1));
    let error = refused(binding.set("n", 5, "z", 2));
    let wanted = "conflicting values for `n`: axis 0 of input `x` is 4, but axis 2 of input `z` is 5";
    assert_eq!(error, wanted, "report where n occurred first, and where it differs");
    assert_eq!(binding.get("n"), Some(4), "a contradiction changes nothing");
}

#[test]
fn task5_lengths_meet_symbols() {
    let symbolic = TensorMeta::new(DType::F32, [sym("n"), Dim::Fixed(3), sym("h")]);
    let mut binding = Binding::default();
    fine(binding.bind("x", &symbolic, &f32s(&[2, 3, 8])));
    assert_eq!((binding.get("n"), binding.get("h")), (Some(2), Some(8)), "n and h of 2×3×8");
    let output = TensorMeta::new(DType::F32, [sym("n"), sym("h").floor_div(2)]);
    assert_eq!(binding.apply(&output), f32s(&[2, 4]), "n×(h / 2)");
    assert_eq!(binding.value(&(sym("n") * sym("h"))), Some(16), "2 · 8");
    assert_eq!(binding.value(&sym("w")), None, "w was not bound");
}

#[test]
fn task5_contradictions_name_both_places() {
    let mut binding = Binding::default();
    let left = TensorMeta::new(DType::F32, [sym("n"), sym("k")]);
    let right = TensorMeta::new(DType::F32, [sym("k"), sym("m")]);
    fine(binding.bind("x", &left, &f32s(&[2, 5])));
    let error = refused(binding.bind("y", &right, &f32s(&[6, 7])));
    let wanted = "conflicting values for `k`: axis 1 of input `x` is 5, but axis 0 of input `y` is 6";
    assert_eq!(error, wanted, "the same symbol is the same number in all inputs");
    let square = TensorMeta::new(DType::F32, [sym("s"), sym("s")]);
    let found = Binding::default().bind("z", &square, &f32s(&[3, 4]));
    assert!(matches!(found, Err(ShapeError::Contradiction { .. })), "s is 3 and 4 in one input: {found:?}");
}

#[test]
fn task5_numbers_must_agree() {
    let fixed = TensorMeta::new(DType::F32, [sym("n"), Dim::Fixed(3)]);
    let error = refused(Binding::default().bind("x", &fixed, &f32s(&[2, 4])));
    assert_eq!(error, "axis 1 of input `x` is 4, but it is fixed to 3", "axis 1 is the number 3");
    let found = Binding::default().bind("x", &fixed, &f32s(&[2, 3, 1]));
    let hint = "expected two axes, got three: `zip` stops early";
    assert!(matches!(found, Err(ShapeError::InputRank { wanted: 2, .. })), "{hint}: {found:?}");
}

#[test]
fn task6_in_order_on_every_axis() {
    assert_eq!(
        disorder(&[1, 3, 8], &[4, 3, 16], &[8, 3, 32]),
        None,
        "every axis grows, or stays the same, like axis 1"
    );
    assert_eq!(disorder(&[1, 9], &[4, 8], &[8, 16]), Some(1), "the minimum 9 is above the optimum 8");
    assert_eq!(disorder(&[1, 8], &[4, 17], &[8, 16]), Some(1), "the optimum 17 is above the maximum 16");
    assert_eq!(disorder(&[5, 9], &[4, 8], &[8, 16]), Some(0), "both are wrong: the first is named");
    let error = refused(InputRange::new("x", DType::F32, [1, 9], [4, 8], [8, 16]));
    assert!(error.contains("axis 1"), "the message names the axis: {error}");
}

fn pictures() -> InputRange {
    InputRange::new("x", DType::F32, [1, 3, 32], [4, 3, 64], [8, 3, 128]).unwrap()
}

#[test]
fn task6_inside_and_on_the_border() {
    for lens in [[1, 3, 32], [4, 3, 64], [8, 3, 128], [5, 3, 100]] {
        let found = pictures().check(&f32s(&lens));
        assert!(found.is_ok(), "{lens:?} is allowed: minimum and maximum belong to the range. {found:?}");
    }
}

#[test]
fn task6_outside_names_the_axis() {
    let error = |lens: [i64; 3]| refused(pictures().check(&f32s(&lens)));
    assert_eq!(error([9, 3, 64]), "axis 0 of input `x` is 9, but the profile allows 1 to 8");
    assert_eq!(error([4, 3, 31]), "axis 2 of input `x` is 31, but the profile allows 32 to 128");
    assert_eq!(error([4, 4, 64]), "axis 1 of input `x` is 4, but it is fixed to 3");
    let symbolic = TensorMeta::new(DType::F32, [Dim::Fixed(4), Dim::Fixed(3), sym("w")]);
    let found = pictures().check(&symbolic);
    let hint = "w may be anything: a symbol is not known to be inside";
    assert!(matches!(found, Err(ShapeError::OutOfRange { axis: 2, .. })), "{hint}: {found:?}");
}

#[test]
fn task6_type_and_rank() {
    let found = pictures().check(&TensorMeta::new(DType::F16, [4, 3, 64]));
    assert!(matches!(found, Err(ShapeError::InputDType { .. })), "f16 is not f32: {found:?}");
    let found = pictures().check(&f32s(&[4, 3]));
    assert!(matches!(found, Err(ShapeError::InputRank { wanted: 3, .. })), "two axes: {found:?}");
    let found = pictures().check(&f32s(&[4, 3, 64, 64]));
    assert!(matches!(found, Err(ShapeError::InputRank { wanted: 3, .. })), "four axes: {found:?}");
}

/// A segmentation network, and one that reads digits: symbols once, then numbers.
#[test]
fn task6_two_real_networks() {
    let graph = model("shapes_unet/shapes_unet.pnnx.param");
    let range =
        InputRange::new("pnnx_input_0", DType::F32, [1, 3, 32, 32], [1, 3, 128, 128], [4, 3, 128, 256]);
    let (range, output) = (range.unwrap(), graph.outputs()[0].operand);
    let named = TensorMeta::new(DType::F32, [sym("n"), Dim::Fixed(3), sym("h") * 8, sym("w") * 8]);
    let painted = fine(infer_all(&graph, &[Some(named)]))[output.position()].clone().unwrap();
    assert_eq!(
        painted.to_string(),
        "n×5×(h * 8)×(w * 8) f32",
        "sides divisible by 8 come out as they went in"
    );

    let mut metas = fine(infer_all(&graph, &[Some(f32s(&[1, 3, 128, 128]))]));
    let mut largest = vec![0; metas.len()];
    let all: Vec<OperandIndex> = (0..metas.len()).map(OperandIndex::new).collect();
    assert_eq!(larger(&metas, &all, &mut largest).len(), 39, "at first every operand needs a buffer");
    for (lens, wanted, buffers) in [
        ([1, 3, 64, 96], "1×5×64×96 f32", 0),
        ([2, 3, 128, 64], "2×5×128×64 f32", 0),
        ([4, 3, 128, 256], "4×5×128×256 f32", 39),
    ] {
        let input = f32s(&lens);
        fine(range.check(&input));
        let mut update = Update::new(&graph, &mut metas);
        fine(update.run(&[Some(input)]));
        let (operands, operators) = update.changed();
        assert_eq!(operators.len(), 38, "every operator depends on the only input");
        let mut binding = Binding::default();
        let symbolic = TensorMeta::new(DType::F32, [sym("n"), sym("c"), sym("h"), sym("w")]);
        fine(binding.bind("pnnx_input_0", &symbolic, metas[0].as_ref().unwrap()));
        assert_eq!(binding.get("h"), Some(lens[2]), "the input is operand 0");
        assert_eq!(metas[output.position()].as_ref().unwrap().to_string(), wanted);
        assert_eq!(larger(&metas, &operands, &mut largest).len(), buffers, "for {lens:?}");
    }
    let error = refused(range.check(&f32s(&[1, 3, 128, 512])));
    assert!(error.starts_with("axis 3 of input `pnnx_input_0` is 512"), "{error}");
    let error = refused(Update::new(&graph, &mut metas).run(&[Some(f32s(&[1, 3, 100, 100]))]));
    assert!(
        error.contains("torch.cat `torch.cat_0`"),
        "100 halves to 50, 25 and 12, and 12 doubles to 24: {error}"
    );

    let graph = model("digits/digits.pnnx.param");
    let output = graph.outputs()[0].operand;
    let symbolic = fine(infer_all(&graph, &symbolic_inputs(&graph)));
    let digits = symbolic[output.position()].clone().unwrap();
    assert_eq!(digits.to_string(), "pnnx_input_0.0×10 f32", "ten scores for each image");
    for batch in [1, 5, 32] {
        let metas = fine(infer_all(&graph, &[Some(f32s(&[batch, 1, 8, 8]))]));
        let value_of = |_: &str| Some(batch);
        let lens: Vec<_> = digits.dims().iter().map(|dim| evaluate(dim, &value_of)).collect();
        let found = metas[output.position()].clone().unwrap();
        assert_eq!(
            lens,
            found.dims().iter().map(Dim::fixed).collect::<Vec<_>>(),
            "symbols and numbers agree"
        );
    }
}
