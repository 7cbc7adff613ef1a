//! What each task of lesson 12 must fulfil.

use super::subject::{
    Affine, Captures, ValuePattern, batch_norm, capture, constants, first_alike, folded_bias, frontier,
    is_dead, key, merge, needed, remove_dead, rounds, scaled, used_elsewhere,
};
use ixion::Limits;
use ixion::graph::RuntimeGraph;
use ixion::pnnx::{Attribute, Graph, GraphError, OperandId, OperatorId, Parameter};
use ixion::tensor::Tensor;
use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};

/// A graph from its lines, as they stand in a file.
fn graph(lines: &str) -> Graph {
    let lines: Vec<&str> = lines.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let outputs = |line: &&str| line.split_whitespace().nth(3).unwrap().parse::<usize>().unwrap();
    let operands: usize = lines.iter().map(outputs).sum();
    let text = format!("7767517\n{} {operands}\n{}\n", lines.len(), lines.join("\n"));
    Graph::parse(&text, &Limits::default()).unwrap()
}

/// The graph that the page simplifies on paper.
fn six() -> Graph {
    graph(
        "pnnx.Input in 0 1 x
         nn.ReLU a 1 1 x 1
         nn.ReLU b 1 1 x 2
         nn.Tanh c 1 1 2 3
         nn.Sigmoid d 1 1 3 4
         pnnx.Expression e 2 1 1 2 y expr=add(@0,@1)
         pnnx.Output out 1 0 y",
    )
}

fn operator(graph: &Graph, name: &str) -> OperatorId {
    graph.operator_named(name).unwrap()
}

fn operand(graph: &Graph, name: &str) -> OperandId {
    graph.operand_named(name).unwrap()
}

fn names(graph: &Graph) -> Vec<&str> {
    graph.operators().map(|(_, operator)| operator.name()).collect()
}

#[test]
fn task1_nobody_reads_it() {
    let graph = six();
    let dead: Vec<&str> =
        names(&graph).into_iter().filter(|name| is_dead(&graph, operator(&graph, name))).collect();
    let hint =
        "`d` is read by nobody. `c` is read by `d`, and `out` has no outputs, but is what the model returns.";
    assert_eq!(dead, ["d"], "{hint}");
}

#[test]
fn task1_inputs_of_the_model_stay() {
    let mut graph = graph("pnnx.Input in 0 1 x\npnnx.Input unused 0 1 y\npnnx.Output out 1 0 x");
    assert_eq!(remove_dead(&mut graph).unwrap(), 0, "Who calls the model gives two inputs, used or not.");
}

#[test]
fn task1_one_result_that_is_read_is_enough() {
    let mut graph =
        graph("pnnx.Input in 0 1 x\ntorch.chunk a 1 2 x 1 2 chunks=2 dim=0\npnnx.Output out 1 0 1");
    let hint = "The first chunk is returned, though nobody reads the second.";
    assert!(!is_dead(&graph, operator(&graph, "a")), "{hint}");
    assert_eq!(remove_dead(&mut graph).unwrap(), 0, "{hint}");
}

#[test]
fn task1_what_only_the_dead_read_is_dead() {
    let mut graph = six();
    let hint = "When `d` is gone, nobody reads `c`. From the last to the first, once is enough.";
    assert_eq!(remove_dead(&mut graph).unwrap(), 2, "{hint}");
    assert_eq!(names(&graph), ["in", "a", "b", "e", "out"]);
    graph.check().unwrap();
}

#[test]
fn task2_what_the_same_computation_is() {
    let graph = graph(
        "pnnx.Input in 0 1 x
         pnnx.Input other 0 1 z
         F.softmax a 1 1 x 1 dim=1
         F.softmax same 1 1 x 2 dim=1
         F.softmax dim 1 1 x 3 dim=0
         F.softmin type 1 1 x 4 dim=1
         F.softmax input 1 1 z 5 dim=1
         F.softmax named 1 1 x 6 dim=1 $input=x
         torch.chunk two 1 2 x 7 8 dim=1
         torch.chunk three 1 3 x 9 10 11 dim=1
         pnnx.Output out 1 0 1",
    );
    let of = |name: &str| key(graph.operator(operator(&graph, name)));
    assert_eq!(of("a"), of("same"), "Names of operators and of outputs make no difference.");
    for (name, what) in [
        ("dim", "a parameter"),
        ("type", "the type"),
        ("input", "the input"),
        ("named", "the argument name of an input"),
    ] {
        assert_ne!(of("a"), of(name), "{what} is another one");
    }
    assert_ne!(of("two"), of("three"), "the number of outputs is another one");
}

/// `first_alike` for all operators but inputs and outputs: (second, first).
fn pairs(graph: &Graph) -> Vec<(&str, &str)> {
    let mut seen = HashMap::new();
    let inner = graph.operators().filter(|(_, operator)| !operator.op_type().starts_with("pnnx.I"));
    let name = |id: OperatorId| graph.operator(id).name();
    inner.filter_map(|(id, _)| Some((name(id), name(first_alike(&mut seen, graph, id)?)))).collect()
}

#[test]
fn task2_the_first_is_found() {
    assert_eq!(pairs(&six()), [("b", "a")], "Both rectify x.");
    let three = graph(
        "pnnx.Input in 0 1 x\nnn.ReLU a 1 1 x 1\nnn.ReLU b 1 1 x 2\nnn.ReLU c 1 1 x 3\npnnx.Output out 1 0 1",
    );
    assert_eq!(pairs(&three), [("b", "a"), ("c", "a")], "The first of all, also for the third.");
}

#[test]
fn task2_weights_are_compared_byte_by_byte() {
    let of = |second: &[f32]| {
        let mut graph = graph(
            "pnnx.Attribute a 0 1 1 @data=(2)f32
             pnnx.Attribute b 0 1 2 @data=(2)f32
             pnnx.Expression e 2 1 1 2 y expr=add(@0,@1)
             pnnx.Output out 1 0 y",
        );
        for (name, values) in [("a", &[1.0, 2.0][..]), ("b", second)] {
            let id = operator(&graph, name);
            graph.set_attribute(id, "data", Attribute::from_f32s(vec![2], values).unwrap()).unwrap();
        }
        pairs(&graph).len()
    };
    assert_eq!(of(&[1.0, 2.0]), 1, "the same numbers");
    assert_eq!(of(&[1.0, 3.0]), 0, "Types and shapes of both weights are equal, but not their numbers.");
}

#[test]
fn task2_who_read_the_second_reads_the_first() {
    let mut graph = six();
    let (second, first) = (operator(&graph, "b"), operator(&graph, "a"));
    merge(&mut graph, second, first).unwrap();
    graph.check().unwrap();
    assert_eq!(names(&graph), ["in", "a", "c", "d", "e", "out"], "`b` is gone");
    let sum = graph.operator(operator(&graph, "e"));
    let one = operand(&graph, "1");
    assert_eq!(sum.inputs(), [one, one], "e adds operand 1 to itself now");
}

#[test]
fn task2_each_output_has_its_partner() {
    let mut graph = graph(
        "pnnx.Input in 0 1 x
         torch.chunk a 1 2 x 1 2 chunks=2 dim=0
         torch.chunk b 1 2 x 3 4 chunks=2 dim=0
         pnnx.Expression e 2 1 3 4 y expr=sub(@0,@1)
         pnnx.Output out 1 0 y",
    );
    let (second, first) = (operator(&graph, "b"), operator(&graph, "a"));
    merge(&mut graph, second, first).unwrap();
    let inputs = graph.operator(operator(&graph, "e")).inputs();
    assert_eq!(
        inputs,
        [operand(&graph, "1"), operand(&graph, "2")],
        "3 was the first chunk and 4 the second"
    );
}

/// Two stored tensors, what is computed of them, and an input that joins later.
fn stored() -> Graph {
    graph(
        "pnnx.Input in 0 1 x
         pnnx.Attribute p 0 1 1 @data=(2)f32
         pnnx.Attribute q 0 1 2 @data=(2)f32
         pnnx.Expression a 2 1 1 2 3 expr=add(@0,@1)
         nn.ReLU b 1 1 3 4
         pnnx.Expression c 2 1 x 4 5 expr=mul(@0,@1)
         pnnx.Expression d 2 1 5 1 y expr=add(@0,@1)
         pnnx.Output out 1 0 y",
    )
}

fn all_but_ports(graph: &Graph) -> impl Fn(OperatorId) -> bool + '_ {
    |id| !matches!(graph.operator(id).op_type(), "pnnx.Input" | "pnnx.Output")
}

fn known(graph: &Graph, found: &HashSet<OperandId>) -> Vec<String> {
    let mut names: Vec<String> = found.iter().map(|&id| graph.operand(id).name().to_owned()).collect();
    names.sort();
    names
}

#[test]
fn task3_what_depends_on_constants_alone() {
    let graph = stored();
    let found = constants(&graph, &all_but_ports(&graph));
    let hint =
        "x is not known, and neither is what is made of it. Stored tensors read nothing: they are constants.";
    assert_eq!(known(&graph, &found), ["1", "2", "3", "4"], "{hint}");
}

#[test]
fn task3_some_must_not_be_computed_beforehand() {
    let graph = stored();
    let b = operator(&graph, "b");
    let found = constants(&graph, &|id| id != b && all_but_ports(&graph)(id));
    assert_eq!(
        known(&graph, &found),
        ["1", "2", "3"],
        "Were `b` to draw random numbers, 4 would not be constant."
    );
}

#[test]
fn task3_where_folding_ends() {
    let graph = stored();
    let found = constants(&graph, &all_but_ports(&graph));
    let ends: Vec<&str> = frontier(&graph, &found).into_iter().map(|id| graph.operand(id).name()).collect();
    let hint =
        "3 is read by `b` alone, which is folded itself. 1 and 2 are stored already, though `d` reads 1.";
    assert_eq!(ends, ["4"], "{hint}");
}

#[test]
fn task3_a_constant_that_is_returned_ends_it_too() {
    let graph = graph(
        "pnnx.Attribute p 0 1 1 @data=(2)f32
         nn.ReLU a 1 1 1 y
         nn.Tanh unused 1 1 y 2
         pnnx.Output out 1 0 y",
    );
    let found = constants(&graph, &all_but_ports(&graph));
    let ends: Vec<&str> = frontier(&graph, &found).into_iter().map(|id| graph.operand(id).name()).collect();
    assert_eq!(
        ends,
        ["y"],
        "`out` has no outputs, and reads y. Nobody reads 2: that is dead code, and not worth a constant."
    );
}

#[test]
fn task3_what_is_needed_for_it() {
    let graph = stored();
    let of = |name: &str| -> Vec<&str> {
        needed(&graph, operand(&graph, name)).into_iter().map(|id| graph.operator(id).name()).collect()
    };
    assert_eq!(
        of("4"),
        ["p", "q", "a", "b"],
        "In the order of the graph, so that they can run one after the other."
    );
    assert_eq!(of("1"), ["p"], "a stored tensor needs who stores it");
    assert_eq!(of("y"), ["in", "p", "q", "a", "b", "c", "d"], "`p` is needed twice, and stands there once");
}

fn wish(pattern: &str, value: &str) -> Option<Captures> {
    let mut captures = Captures::new();
    ValuePattern::parse(pattern).matches(&Parameter::parse(value), &mut captures).then_some(captures)
}

#[test]
fn task4_any_value_and_this_value() {
    assert!(wish("*", "anything").is_some(), "* is any value");
    assert!(wish("zeros", "zeros").is_some() && wish("zeros", "reflect").is_none(), "a word is itself alone");
    assert!(wish("1", "1.0").is_some(), "1 and 1.0 are the same number: `same` knows");
    assert!(
        wish("(1,2)", "(1,2)").is_some() && wish("(1,2)", "(1,3)").is_none(),
        "a list without wishes is a value"
    );
}

#[test]
fn task4_a_name_captures() {
    let found = wish("%x", "(1,2)").expect("%x takes any value");
    assert_eq!(found["x"].raw(), "(1,2)", "the whole list, under the name without its %");
    let mut captures = Captures::new();
    assert!(capture(&mut captures, "x", &Parameter::parse("3")), "the first time it is noted");
    assert!(capture(&mut captures, "x", &Parameter::parse("3.0")), "the second time it is the same number");
    assert!(!capture(&mut captures, "x", &Parameter::parse("4")), "4 is not 3");
    assert_eq!(captures["x"].raw(), "3", "what was captured first stays");
}

#[test]
fn task4_lists_are_matched_item_by_item() {
    let found = wish("(%a,1,*)", "(3,1,7)").expect("3 is captured, 1 is 1, and 7 is anything");
    assert_eq!(found["a"].raw(), "3");
    assert!(wish("(%a,%a)", "(3,3)").is_some(), "both are 3");
    assert!(
        wish("(%a,%a)", "(3,4)").is_none(),
        "One name is one value: a window that is not square does not match."
    );
    assert!(wish("(%a,%b)", "(3,4,5)").is_none(), "two wishes, three items");
    assert!(wish("(%a,%b)", "3").is_none(), "a number is no list");
}

#[test]
fn task4_what_vanishes_must_not_be_read_elsewhere() {
    let graph = graph(
        "pnnx.Input in 0 1 x
         nn.Conv2d conv 1 1 x 1
         nn.BatchNorm2d norm 1 1 1 2
         nn.ReLU other 1 1 1 3
         pnnx.Output out 2 0 2 3",
    );
    let replaced: HashSet<OperatorId> = ["conv", "norm"].map(|name| operator(&graph, name)).into();
    let reader = |name: &str, replaced: &HashSet<OperatorId>| {
        used_elsewhere(&graph, operand(&graph, name), replaced).map(|id| graph.operator(id).name())
    };
    let hint = "`other` reads what the convolution makes. Folded, there is no such tensor any more.";
    assert_eq!(reader("1", &replaced), Some("other"), "{hint}");
    let all: HashSet<OperatorId> = ["conv", "norm", "other"].map(|name| operator(&graph, name)).into();
    assert_eq!(reader("1", &all), None, "all who read it are replaced as well");
    assert_eq!(reader("3", &all), Some("out"), "returning it from the model is reading it");
}

/// γ, β, μ and σ² of two channels. With ε = 1 the roots are 2 and 3.
const STATISTICS: [&[f64]; 4] = [&[4.0, 3.0], &[5.0, 7.0], &[1.0, -1.0], &[3.0, 8.0]];

#[test]
fn task5_batch_norm_is_a_factor_and_a_summand() {
    let Affine { factors, summands } = batch_norm(STATISTICS, 1.0).expect("four lists of two channels");
    assert_eq!(factors, [2.0, 1.0], "4 / √(3 + 1) and 3 / √(8 + 1): ε is under the root, with the variance");
    assert_eq!(summands, [3.0, 8.0], "5 − 1·2 and 7 + 1·1: β minus the mean times the factor");
    assert_eq!(batch_norm([&[1.0], &[1.0], &[1.0, 2.0], &[1.0]], 1.0), None, "two means for one channel");
}

#[test]
fn task5_each_index_of_an_axis_has_its_factor() {
    let numbers: Vec<f64> = (1..=12).map(f64::from).collect();
    let rows = scaled(&numbers, &[2, 3, 2], 0, &[1.0, 10.0]);
    assert_eq!(rows[5..8], [6.0, 70.0, 80.0], "axis 0: the first six times 1, the others times 10");
    let middle = scaled(&numbers, &[2, 3, 2], 1, &[1.0, 10.0, 100.0]);
    assert_eq!(middle[..7], [1.0, 2.0, 30.0, 40.0, 500.0, 600.0, 7.0], "axis 1: pairs, and over again");
    let last = scaled(&numbers, &[2, 3, 2], 2, &[1.0, 10.0]);
    assert_eq!(last[..3], [1.0, 20.0, 3.0], "the last axis: one by one");
}

#[test]
fn task5_four_kinds_of_biases() {
    let (factors, summands) = ([2.0, 1.0], [3.0, 8.0]);
    let (bias, with) = (Some(&[10.0, 20.0][..]), Some(&summands[..]));
    assert_eq!(folded_bias(bias, &factors, with), Some(vec![23.0, 28.0]), "10·2 + 3 and 20·1 + 8");
    assert_eq!(folded_bias(bias, &factors, None), Some(vec![20.0, 20.0]), "the bias is scaled, too");
    assert_eq!(
        folded_bias(None, &factors, with),
        Some(vec![3.0, 8.0]),
        "A convolution without a bias gets one."
    );
    assert_eq!(folded_bias(None, &factors, None), None, "nothing to add stays nothing");
}

/// By definition: γ·(w·x + b − μ)/√(σ² + ε) + β, against w'·x + b'.
#[test]
fn task5_the_folded_weights_compute_the_same() {
    let (weights, bias, x) = ([0.5, -1.0, 2.0, 0.25, 3.0, -0.5], [0.1, -0.2], [1.5, -2.0, 0.75]);
    let [gamma, beta, mean, variance] = STATISTICS;
    let dot = |row: &[f64]| row.iter().zip(x).map(|(w, x)| w * x).sum::<f64>();
    let Affine { factors, summands } = batch_norm(STATISTICS, 1e-5).unwrap();
    let folded = scaled(&weights, &[2, 3], 0, &factors);
    let shifted = folded_bias(Some(&bias), &factors, Some(&summands)).unwrap();
    for channel in 0..2 {
        let y = dot(&weights[3 * channel..3 * channel + 3]) + bias[channel];
        let want = gamma[channel] * (y - mean[channel]) / (variance[channel] + 1e-5).sqrt() + beta[channel];
        let got = dot(&folded[3 * channel..3 * channel + 3]) + shifted[channel];
        assert!((got - want).abs() < 1e-12, "channel {channel}: {got}, but by definition it is {want}");
    }
}

#[test]
fn task6_rounds_go_on_until_nothing_changes() {
    let mut changes = [3, 1, 0, 5].into_iter();
    let done = rounds(16, &mut || Ok::<usize, GraphError>(changes.next().unwrap()));
    assert_eq!(done.unwrap(), 3, "3 changes, 1 change, none: three rounds, the quiet one counted");
    let mut left = 100;
    let done = rounds(4, &mut || {
        left -= 1;
        Ok::<usize, GraphError>(1)
    });
    assert_eq!(
        (done.unwrap(), left),
        (4, 96),
        "two passes that undo each other would go on for ever: four rounds, no more"
    );
    assert_eq!(rounds(5, &mut || Err::<usize, &str>("time is up")), Err("time is up"), "an error ends it");
}

/// Merges what is alike and removes what is dead. Returns how much that was.
fn simplify(graph: &mut Graph) -> Result<usize, GraphError> {
    let mut changed = 0;
    let mut seen = HashMap::new();
    for id in graph.operator_ids().to_vec() {
        let is_port = matches!(graph.operator(id).op_type(), "pnnx.Input" | "pnnx.Output");
        if let Some(first) = (!is_port).then(|| first_alike(&mut seen, graph, id)).flatten() {
            merge(graph, id, first)?;
            changed += 1;
        }
    }
    Ok(changed + remove_dead(graph)?)
}

#[test]
fn task6_the_graph_of_the_page() {
    let mut graph = six();
    let done = rounds(16, &mut || simplify(&mut graph)).unwrap();
    assert_eq!(names(&graph), ["in", "a", "e", "out"], "one ReLU, and a sum of it with itself");
    assert_eq!(done, 2, "the second round finds nothing");
}

fn model_file(name: &str) -> PathBuf {
    let folders = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().map(|folder| folder.join("model_file"));
    folders.into_iter().find(|folder| folder.is_dir()).unwrap().join(name)
}

/// Adds a twin of every operator, as if somebody had called the network twice, and returns the sum of both results.
fn doubled(graph: &mut Graph) -> Result<(), GraphError> {
    let output = graph.operators().find(|(_, operator)| operator.op_type() == "pnnx.Output").unwrap().0;
    let mut twins: HashMap<OperandId, OperandId> = HashMap::new();
    for id in graph.operator_ids().to_vec() {
        let old = graph.operator(id).clone();
        if matches!(old.op_type(), "pnnx.Input" | "pnnx.Output") {
            continue;
        }
        let new = graph.new_operator_before(old.op_type(), &format!("{}_twin", old.name()), output)?;
        for (input, name) in old.inputs().iter().zip(old.input_names()) {
            graph.connect_input(new, *twins.get(input).unwrap_or(input), name.as_deref())?;
        }
        for &made in old.outputs() {
            let name = format!("{}_twin", graph.operand(made).name());
            let twin = graph.new_operand(&name)?;
            graph.connect_output(new, twin)?;
            twins.insert(made, twin);
        }
        for (key, value) in old.params() {
            graph.set_param(new, key, value.clone())?;
        }
        for (key, value) in old.attrs() {
            graph.set_attribute(new, key, value.clone())?;
        }
    }
    let result = graph.operator(output).inputs()[0];
    let sum = graph.new_operator_before("pnnx.Expression", "sum", output)?;
    graph.set_param(sum, "expr", "add(@0,@1)")?;
    graph.connect_input(sum, result, None)?;
    graph.connect_input(sum, twins[&result], None)?;
    let both = graph.new_operand("both")?;
    graph.connect_output(sum, both)?;
    graph.replace_input(output, 0, both)
}

#[test]
fn task6_a_real_network_that_was_called_twice() {
    let (limits, bin) = (Limits::default(), model_file("digits/digits.pnnx.bin"));
    let mut graph = Graph::load(model_file("digits/digits.pnnx.param"), Some(&bin), &limits).unwrap();
    let once = graph.operator_count();
    doubled(&mut graph).unwrap();
    assert_eq!(graph.operator_count(), 2 * once - 1, "a twin for each but input and output, and a sum");

    rounds(16, &mut || simplify(&mut graph)).unwrap();
    graph.check().unwrap();
    let hint = "Each twin computes what its model computes, weights included: when the first is merged, the next reads the same.";
    assert_eq!(graph.operator_count(), once + 1, "{hint}");

    let mut graph = RuntimeGraph::from_pnnx(graph);
    graph.build().unwrap();
    let input = graph.inputs()[0].name.clone();
    graph.set_input(&input, Tensor::load_npy(model_file("digits/in_0.npy"), &limits).unwrap()).unwrap();
    graph.run().unwrap();
    let got = graph.output_values().unwrap()[0].to_vec::<f32>().unwrap();
    let want = Tensor::load_npy(model_file("digits/out_0.npy"), &limits).unwrap().to_vec::<f32>().unwrap();
    assert_eq!(got.len(), want.len(), "as many scores as before");
    let close =
        got.iter().zip(&want).all(|(got, want)| (got - 2.0 * want).abs() <= 1e-4 * want.abs().max(1.0));
    assert!(close, "twice PyTorch's scores: {got:?}, and PyTorch's are {want:?}");
}
