//! The tests of each task of lesson 06.

use super::subject::{dependencies, dependents, last_user, orderable, releases, topological_order};
use ixion::Limits;
use ixion::graph::{BuildState, GraphError, OperandIndex, OperatorIndex, RuntimeGraph};
use ixion::pnnx::Graph;
use std::path::{Path, PathBuf};

/// A model file in the repository that contains this package.
fn model_file(name: &str) -> PathBuf {
    let folders = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().map(|folder| folder.join("model_file"));
    folders.into_iter().find(|folder| folder.is_dir()).unwrap().join(name)
}

/// The models on which sorting is tested.
const MODELS: [&str; 4] = [
    "two_inputs/two_inputs.pnnx.param",
    "digits/digits.pnnx.param",
    "shapes_unet/shapes_unet.pnnx.param",
    "shapes_detector/shapes_detector.pnnx.param",
];

fn load(model: &str) -> Graph {
    Graph::load(model_file(model), None, &Limits::default()).unwrap()
}

/// A graph of these operator lines.
fn graph(lines: &[&str]) -> Graph {
    let text = format!("7767517\n{} {}\n{}\n", lines.len(), lines.len(), lines.join("\n"));
    Graph::parse(&text, &Limits::default()).unwrap()
}

/// The graph of the page: two functions are applied to x, their results are added, and the sum is multiplied by x.
fn page() -> Graph {
    graph(&[
        "pnnx.Input in 0 1 x #x=(4)f32",
        "F.relu relu 1 1 x a",
        "F.sigmoid sigmoid 1 1 x b",
        "pnnx.Expression add 2 1 a b s expr=add(@0,@1)",
        "pnnx.Expression mul 2 1 s x y expr=mul(@0,@1)",
        "pnnx.Output out 1 0 y",
    ])
}

fn built(file: Graph) -> RuntimeGraph {
    let mut graph = RuntimeGraph::from_pnnx(file);
    graph.build().unwrap();
    graph
}

/// Checks that each number appears once, after all numbers that it depends on.
#[track_caller]
fn check_order(order: &[usize], dependencies: &[Vec<usize>]) {
    let mut places = vec![None; dependencies.len()];
    for (place, &node) in order.iter().enumerate() {
        assert_eq!(
            places[node], None,
            "{node} is in the order twice: is it notified once for each dependency?"
        );
        places[node] = Some(place);
    }
    for (node, needs) in dependencies.iter().enumerate() {
        assert!(places[node].is_some(), "{node} is missing from the order");
        for &need in needs {
            assert!(places[need] < places[node], "{node} depends on {need}, but comes before it: {order:?}");
        }
    }
}

/// Deterministic pseudo-random numbers.
fn noise() -> impl FnMut(usize) -> usize {
    let mut state = 6_usize;
    move |below| {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 33) % below
    }
}

#[test]
fn task1_the_graph_of_the_page() {
    let wanted = [vec![], vec![0], vec![0], vec![1, 2], vec![3, 0], vec![4]];
    let hint = "mul is number 4 and reads s, computed by add (3), and x, computed by in (0): 3, 0";
    assert_eq!(dependencies(&page()).unwrap(), wanted, "{hint}");
}

#[test]
fn task1_each_use_counts() {
    let squared = graph(&[
        "pnnx.Input in 0 1 x",
        "pnnx.Expression square 2 1 x x y expr=mul(@0,@1)",
        "pnnx.Output out 1 0 y",
    ]);
    let hint = "square reads x twice: there is one entry for each input";
    assert_eq!(dependencies(&squared).unwrap(), [vec![], vec![0, 0], vec![1]], "{hint}");
}

#[test]
fn task1_numbers_are_positions_in_the_file() {
    let mut file = page();
    let first = file.operator_ids()[0];
    let late = file.new_operator_before("F.relu", "late", first).unwrap();
    let y = file.operand_named("y").unwrap();
    file.connect_input(late, y, None).unwrap();
    let hint =
        "`late` was inserted before all others: now it is number 0, and every other number is one higher";
    let found = dependencies(&file).unwrap();
    assert_eq!(found[0], [5], "late reads what mul, now number 5, computes. {hint}");
    assert_eq!(found[4], [2, 3], "add. {hint}");
}

#[test]
fn task1_an_input_without_a_producer_is_an_error() {
    let mut file = page();
    let (mul, lost) = (file.operator_named("mul").unwrap(), file.new_operand("lost").unwrap());
    file.replace_input(mul, 0, lost).unwrap();
    let hint = "mul reads `lost`, which no operator computes: neither skip it nor panic";
    assert_eq!(dependencies(&file), Err((mul, lost)), "{hint}");
}

#[test]
fn task2_the_arrows_are_reversed() {
    let found = dependents(&[vec![], vec![0], vec![0], vec![1, 2], vec![3, 0]]);
    let wanted = [vec![1, 2, 4], vec![3], vec![3], vec![4], vec![]];
    assert_eq!(found.len(), 5, "one list for each number, even if nothing depends on it");
    assert_eq!(found, wanted, "1, 2 and 4 depend on 0, so the first list is [1, 2, 4]");
    assert_eq!(dependents(&[vec![], vec![0, 0]]), [vec![1, 1], vec![]], "one entry for each use");
}

#[test]
fn task2_the_graph_of_the_page_and_two_inputs() {
    let hint = "numbers that are already in order stay as they are";
    let page = [vec![], vec![0], vec![0], vec![1, 2], vec![3, 0], vec![4]];
    assert_eq!(orderable(&page), [0, 1, 2, 3, 4, 5], "{hint}");
    let two_inputs = [vec![], vec![], vec![0], vec![1], vec![2, 3]];
    assert_eq!(orderable(&two_inputs), [0, 1, 2, 3, 4], "two inputs whose branches join. {hint}");
    assert_eq!(orderable(&[]), [] as [usize; 0], "no numbers, no order");
}

#[test]
fn task2_the_smallest_that_is_ready_goes_first() {
    let hint = "0 waits for 3, which waits for 1 and 2; of the ready numbers, the smallest goes first";
    assert_eq!(orderable(&[vec![3], vec![], vec![1], vec![1, 2]]), [1, 2, 3, 0], "{hint}");
    let hint = "after 2, 0 is ready and smaller than 3: is the next number chosen among all that are ready?";
    assert_eq!(orderable(&[vec![2], vec![2], vec![], vec![]]), [2, 0, 1, 3], "{hint}");
}

#[test]
fn task2_a_dependency_may_be_listed_twice() {
    let hint = "1 depends on 0 twice and is notified twice: it is ready when nothing is missing any more";
    assert_eq!(orderable(&[vec![], vec![0, 0], vec![1]]), [0, 1, 2], "{hint}");
}

#[test]
fn task2_numbers_that_wait_for_a_cycle_are_left_out() {
    let hint = "1 and 2 wait for each other, 3 waits for 2; only 0 can be ordered";
    assert_eq!(orderable(&[vec![], vec![0, 2], vec![1], vec![2]]), [0], "{hint}");
    assert_eq!(orderable(&[vec![0]]), [] as [usize; 0], "a number that depends on itself is never ready");
}

#[test]
fn task2_a_long_chain_needs_no_stack() {
    let chain: Vec<Vec<usize>> =
        (0..20_000usize).map(|i| (i > 0).then(|| i - 1).into_iter().collect()).collect();
    assert_eq!(orderable(&chain).len(), 20_000, "20,000 operators, each after the previous one");
}

#[test]
fn task2_every_random_graph_without_cycles_is_ordered() {
    let mut noise = noise();
    for _ in 0..50 {
        let names: Vec<usize> = {
            let mut names: Vec<usize> = (0..30).collect();
            (1..30).for_each(|i| names.swap(i, noise(i + 1)));
            names
        };
        let mut dependencies = vec![Vec::new(); 30];
        for _ in 0..60 {
            let (a, b) = (noise(30), noise(30));
            if a != b {
                dependencies[names[a.max(b)]].push(names[a.min(b)]);
            }
        }
        check_order(&orderable(&dependencies), &dependencies);
    }
}

#[test]
fn task3_an_order_or_a_cycle() {
    assert_eq!(topological_order(&[vec![3], vec![], vec![1], vec![1, 2]]), Ok(vec![1, 2, 3, 0]));
    assert_eq!(topological_order(&[]), Ok(vec![]), "nothing to order is not an error");
    assert_eq!(topological_order(&[vec![0]]), Err(vec![0]), "a number that depends on itself is a cycle");
}

#[test]
fn task3_numbers_that_only_wait_are_not_reported() {
    let hint = "1 and 2 wait for each other. 0 comes before them, 3 after them: neither is on the cycle";
    assert_eq!(topological_order(&[vec![], vec![0, 2], vec![1], vec![2]]), Err(vec![1, 2]), "{hint}");
}

#[test]
fn task3_all_cycles_are_named() {
    let two = [vec![1], vec![0], vec![4], vec![2], vec![3], vec![4]];
    let hint = "0 and 1 are a cycle, and so are 2, 3 and 4; 5 only waits";
    assert_eq!(topological_order(&two), Err(vec![0, 1, 2, 3, 4]), "{hint}");
    let hint = "2 is between two cycles: it can be ordered neither forwards nor backwards";
    assert_eq!(
        topological_order(&[vec![1], vec![0], vec![1], vec![2, 4], vec![3]]),
        Err(vec![0, 1, 2, 3, 4]),
        "{hint}"
    );
}

#[test]
fn task3_real_models_are_ordered() {
    for model in MODELS {
        let file = load(model);
        let dependencies = dependencies(&file).unwrap();
        let order = topological_order(&dependencies).unwrap();
        let positions: Vec<usize> = (0..file.operator_count()).collect();
        assert_eq!(order, positions, "PNNX writes {model} in order, so the order must not change");

        // The same graph with its operators numbered from the other end.
        let last = positions.len().saturating_sub(1);
        let turned: Vec<Vec<usize>> =
            dependencies.iter().rev().map(|needs| needs.iter().map(|need| last - need).collect()).collect();
        check_order(&topological_order(&turned).unwrap(), &turned);
    }
}

#[test]
fn task3_a_cycle_in_a_real_model_is_named() {
    let mut file = load("digits/digits.pnnx.param");
    let conv = file.operator_named("convbn2d_1").unwrap();
    let later = file.operator(file.operator_named("pnnx_unique_0").unwrap()).outputs()[0];
    file.replace_input(conv, 0, later).unwrap();
    let cycle = topological_order(&dependencies(&file).unwrap()).unwrap_err();
    let names: Vec<&str> =
        cycle.into_iter().map(|position| file.operator(file.operator_ids()[position]).name()).collect();
    let wanted = ["convbn2d_1", "stage1.relu", "convbn2d_2", "pnnx_expr_4", "pnnx_unique_0"];
    assert_eq!(names, wanted, "the cycle is in the first residual block; all other operators are innocent");
}

/// The name of an operand's last user.
fn last(graph: &RuntimeGraph, operand: &str) -> Option<String> {
    let operand = graph.operands().iter().find(|other| other.name() == operand).unwrap();
    last_user(operand).map(|index: OperatorIndex| graph.operator(index).name().to_owned())
}

#[test]
fn task4_the_last_reader() {
    let graph = built(page());
    let hint = "relu, sigmoid and mul read x: it must stay until mul has run";
    assert_eq!(last(&graph, "x").as_deref(), Some("mul"), "{hint}");
    assert_eq!(last(&graph, "a").as_deref(), Some("add"), "only add reads a");
}

#[test]
fn task4_outputs_outlive_the_run() {
    let file = graph(&[
        "pnnx.Input in 0 1 x #x=(4)f32",
        "F.relu relu 1 1 x a",
        "F.sigmoid sigmoid 1 1 a y",
        "pnnx.Output first 1 0 a",
        "pnnx.Output second 1 0 y",
    ]);
    let graph = built(file);
    assert_eq!(last(&graph, "y"), None, "y is an output: the caller needs it after the run");
    assert_eq!(last(&graph, "a"), None, "a is an output as well, even though sigmoid also reads it");
}

#[test]
fn task4_operands_without_readers() {
    let file = graph(&[
        "pnnx.Input in 0 1 x #x=(4)f32",
        "pnnx.Input unused 0 1 z #z=(4)f32",
        "F.relu idle 1 1 x a",
        "F.sigmoid sigmoid 1 1 x y",
        "pnnx.Output out 1 0 y",
    ]);
    let graph = built(file);
    assert_eq!(
        last(&graph, "a").as_deref(),
        Some("idle"),
        "nothing reads a: it can be freed as soon as it is computed"
    );
    assert_eq!(last(&graph, "z"), None, "no operator computes the input z, and none reads it");
}

/// The names of the operands that are released after each operator, sorted.
fn released(graph: &RuntimeGraph) -> Vec<Vec<String>> {
    let releases = releases(graph.operators(), graph.operands());
    let names = |list: Vec<OperandIndex>| {
        let mut names: Vec<String> =
            list.into_iter().map(|index| graph.operand(index).name().to_owned()).collect();
        names.sort();
        names
    };
    releases.into_iter().map(names).collect()
}

#[test]
fn task5_the_graph_of_the_page() {
    let graph = built(page());
    let names: Vec<&str> = graph.operators().iter().map(|operator| operator.name()).collect();
    assert_eq!(names, ["relu", "sigmoid", "add", "mul"], "inputs and outputs of the model do not run");
    let hint = "a and b are freed after add, s and x after mul; y is the result and stays";
    let none: Vec<String> = Vec::new();
    let wanted = [none.clone(), none, vec!["a".into(), "b".into()], vec!["s".into(), "x".into()]];
    assert_eq!(released(&graph), wanted, "{hint}");
}

#[test]
fn task5_nothing_is_freed_twice_and_nothing_is_forgotten() {
    let file = graph(&[
        "pnnx.Input in 0 1 x #x=(4)f32",
        "F.relu idle 1 1 x a",
        "pnnx.Expression square 2 1 x x y expr=mul(@0,@1)",
        "pnnx.Output out 1 0 y",
    ]);
    let found = released(&built(file));
    assert_eq!(found[0], ["a"], "nothing reads a: it is freed right after idle has computed it");
    assert_eq!(found[1], ["x"], "square reads x twice, but it can be freed only once");
}

/// Follows a run and returns the largest number of operands held at a time, and the total number of operands.
#[track_caller]
fn most_held(graph: &RuntimeGraph) -> (usize, usize) {
    let releases = releases(graph.operators(), graph.operands());
    assert_eq!(releases.len(), graph.operators().len(), "one list for each operator");
    let mut held = vec![false; graph.operands().len()];
    graph.inputs().iter().for_each(|port| held[port.operand.position()] = true);
    let mut most = 0;
    for (operator, released) in graph.operators().iter().zip(releases) {
        for &input in operator.inputs() {
            let (operator, input) = (operator.name(), graph.operand(input).name());
            let index = graph.operands().iter().position(|operand| operand.name() == input).unwrap();
            assert!(held[index], "{operator} reads {input}, which was released too early");
        }
        operator.outputs().iter().for_each(|output| held[output.position()] = true);
        most = most.max(held.iter().filter(|&&held| held).count());
        for operand in released {
            let name = graph.operand(operand).name();
            assert!(held[operand.position()], "{name} is released twice");
            held[operand.position()] = false;
        }
    }
    for (operand, held) in graph.operands().iter().zip(&held) {
        assert_eq!(*held, operand.is_output(), "{}: at the end, only outputs are held", operand.name());
    }
    (most, held.len())
}

#[test]
fn task5_real_models_hold_few_buffers_at_a_time() {
    for model in MODELS {
        let mut graph = RuntimeGraph::new(model_file(model));
        graph.build().unwrap();
        let (most, all) = most_held(&graph);
        println!("{model}: {all} operands, at most {most} held at a time");
        assert!(most < all, "{model}: nothing was released before the end");
        if model.starts_with("digits") {
            assert_eq!(
                (most, all),
                (3, 22),
                "a block's input is held while two operators run: three at a time"
            );
        }
    }
}

#[test]
fn given_a_graph_goes_through_three_states() {
    let mut graph = RuntimeGraph::new(model_file("linear/linear.pnnx.param"));
    assert_eq!(graph.state(), BuildState::NeedsInit, "only a path, nothing is read yet");
    graph.init().unwrap();
    assert_eq!(graph.state(), BuildState::NeedsBuild, "the file is read, but no operator has a layer");
    assert!(matches!(graph.run(), Err(GraphError::NotBuilt)), "running too early is an error, not a crash");
    graph.build().unwrap();
    assert_eq!(graph.state(), BuildState::Complete, "sorted, layers created, ready to run");
    graph.build().unwrap();
    assert_eq!(graph.state(), BuildState::Complete, "building twice does nothing");
    graph.init().unwrap();
    assert_eq!(graph.state(), BuildState::NeedsBuild, "a file that is read again must be built again");
}
