//! The requirements of each task of lesson 12.

use super::subject::{
    Captures, MAX_BYTES, SMALL_BYTES, ValuePattern, bind_operand, capture, check_size, constants, frontier,
    is_dead, key, match_params, merge, remove_dead, repeatable, run_to_fixpoint, twin, used_elsewhere,
};
use ixion::Limits;
use ixion::course::common_subexpressions::{Seen, refusal};
use ixion::course::constant_folding::foldable;
use ixion::course::pattern::Keyed;
use ixion::passes::{PassContext, Passes};
use ixion::pnnx::{Attribute, Graph, OperandId, OperatorId, Parameter};
use std::collections::{BTreeSet, HashSet};
use std::path::{Path, PathBuf};

mod folding;

/// A model file of the repository that contains this package.
fn model_file(name: &str) -> PathBuf {
    let folders = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().map(|folder| folder.join("model_file"));
    folders.into_iter().find(|folder| folder.is_dir()).unwrap().join(name)
}

fn load(model: &str) -> Graph {
    let bin = model_file(&format!("{model}/{model}.pnnx.bin"));
    Graph::load(model_file(&format!("{model}/{model}.pnnx.param")), Some(&bin), &Limits::default()).unwrap()
}

/// Parses a graph from these operator lines, and counts its operands.
fn graph(lines: &[&str]) -> Graph {
    let outputs = |line: &&str| line.split_whitespace().nth(3).unwrap().parse::<usize>().unwrap();
    let operands: usize = lines.iter().map(outputs).sum();
    let text = format!("7767517\n{} {operands}\n{}\n", lines.len(), lines.join("\n"));
    Graph::parse(&text, &Limits::default()).unwrap()
}

/// The graph on the page.
fn page() -> Graph {
    let mut graph = graph(&[
        "pnnx.Input in 0 1 x",
        "pnnx.Attribute w 0 1 k @data=(2)f32",
        "pnnx.Expression twice 1 1 k t expr=mul(@0,2)",
        "F.sigmoid left 1 1 x a",
        "F.sigmoid right 1 1 x b",
        "pnnx.Expression add 3 1 a b t s expr=add(add(@0,@1),@2)",
        "F.tanh lonely 1 1 b z",
        "pnnx.Output out 1 0 s",
    ]);
    let w = operator(&graph, "w");
    graph.set_attribute(w, "data", Attribute::from_f32s(vec![2], &[1.5, -4.0]).unwrap()).unwrap();
    graph
}

#[track_caller]
fn operator(graph: &Graph, name: &str) -> OperatorId {
    graph.operator_named(name).unwrap_or_else(|| panic!("there is no operator `{name}` any more"))
}

#[track_caller]
fn operand(graph: &Graph, name: &str) -> OperandId {
    graph.operand_named(name).unwrap_or_else(|| panic!("there is no operand `{name}` any more"))
}

/// The names of all operators in order.
fn names(graph: &Graph) -> Vec<&str> {
    graph.operators().map(|(_, operator)| operator.name()).collect()
}

/// The names of an operator's inputs.
#[track_caller]
fn reads<'g>(graph: &'g Graph, name: &str) -> Vec<&'g str> {
    let inputs = graph.operator(operator(graph, name)).inputs();
    inputs.iter().map(|&input| graph.operand(input).name()).collect()
}

/// The names of operands, sorted.
fn operand_names(graph: &Graph, ids: impl IntoIterator<Item = OperandId>) -> BTreeSet<&str> {
    ids.into_iter().map(|id| graph.operand(id).name()).collect()
}

/// Merges all operators that compute the same, as the framework's pass does.
fn share(graph: &mut Graph) -> usize {
    let (may, mut seen, mut fired) = (repeatable(graph, &PassContext::default()), Seen::new(), 0);
    for id in graph.operator_ids().to_vec() {
        let first = if may.contains(&id) { twin(graph, id, &mut seen) } else { None };
        if let Some(first) = first.filter(|&first| refusal(graph, id, first).is_none()) {
            assert_eq!(
                merge(graph, id, first),
                Ok(()),
                "is each output bypassed before the operator is removed?"
            );
            fired += 1;
        }
    }
    fired
}

#[test]
fn task1_unused_results_are_dead() {
    let graph = page();
    assert!(is_dead(&graph, operator(&graph, "lonely")), "z, which `lonely` computes, is unused");
    assert!(!is_dead(&graph, operator(&graph, "right")), "`add` and `lonely` read b");
    let half = self::graph(&["pnnx.Input in 0 1 x", "torch.chunk cut 1 2 x a b", "pnnx.Output out 1 0 b"]);
    let hint = "one of its two results is read: `all` must be unused, not `any`";
    assert!(!is_dead(&half, operator(&half, "cut")), "{hint}");
}

#[test]
fn task1_inputs_and_outputs_of_the_model_stay() {
    let graph = graph(&["pnnx.Input in 0 1 x", "pnnx.Input unused 0 1 y", "pnnx.Output out 1 0 x"]);
    let hint = "pnnx.Output has no results, so all of them are unused: it must be an explicit exception";
    assert!(!is_dead(&graph, operator(&graph, "out")), "{hint}");
    let hint = "callers pass two tensors to the model: an unused input stays";
    assert!(!is_dead(&graph, operator(&graph, "unused")), "{hint}");
}

#[test]
fn task1_a_dead_branch_goes_from_its_end() {
    let mut graph = graph(&[
        "pnnx.Input in 0 1 x",
        "F.relu first 1 1 x a",
        "F.tanh second 1 1 a b",
        "F.sigmoid third 1 1 b c",
        "F.relu used 1 1 x y",
        "pnnx.Output out 1 0 y",
    ]);
    assert_eq!(
        remove_dead(&mut graph),
        Ok(3),
        "once `third` is gone, b is unused: go from the last to the first"
    );
    assert_eq!(names(&graph), ["in", "used", "out"]);
    assert_eq!(remove_dead(&mut graph), Ok(0), "nothing is left to remove");
}

#[test]
fn task2_not_everything_can_be_merged() {
    let graph = graph(&[
        "pnnx.Input in 0 1 x",
        "F.relu relu 1 1 x a",
        "torch.randn_like dice 1 1 x b",
        "my.Own own 1 1 x c",
        "Tensor.slice part 1 1 x d dim=0 start=0 end=1 step=1",
        "Tensor.copy write 2 1 d a e",
        "pnnx.Output out 3 0 b c e",
    ]);
    let found = repeatable(&graph, &PassContext::default());
    let has = |name: &str| found.contains(&operator(&graph, name));
    assert!(has("relu"), "`F.relu` of the same x is always the same");
    assert!(!has("dice"), "two random tensors differ: check `context.is_pure`");
    assert!(!has("own"), "the behaviour of a plugin is unknown: check `context.is_pure`");
    let hint =
        "`write` writes through the view that `part` returns: exclude the result of `frozen_operators`";
    assert!(!has("part") && !has("write"), "{hint}");
}

#[test]
fn task2_the_key_holds_everything_that_must_be_equal() {
    let graph = graph(&[
        "pnnx.Input in 0 1 x",
        "pnnx.Input in2 0 1 y",
        "F.softmax a 1 1 x a1 dim=1 $input=x",
        "F.softmax same 1 1 x a2 dim=1 $input=x",
        "F.softmax dim 1 1 x a3 dim=0 $input=x",
        "F.softmax input 1 1 y a4 dim=1 $input=y",
        "F.log_softmax type 1 1 x a5 dim=1 $input=x",
        "pnnx.Expression d 2 1 x y a6 expr=div(@0,@1)",
        "pnnx.Expression turned 2 1 y x a7 expr=div(@0,@1)",
        "torch.where w 2 1 x y a8 $input=x $other=y",
        "torch.where names 2 1 x y a9 $other=x $input=y",
        "torch.chunk c 1 2 x b1 b2 dim=0",
        "torch.chunk outputs 1 3 x b3 b4 b5 dim=0",
        "nn.PReLU p 1 1 x c1 @weight=(2)f32",
        "nn.PReLU shape 1 1 x c2 @weight=(1)f32",
    ]);
    let key_of = |name: &str| key(graph.operator(operator(&graph, name)));
    assert_eq!(key_of("a"), key_of("same"), "only their own names and the names of their results differ");
    for (one, other, what) in [
        ("a", "dim", "a parameter"),
        ("a", "input", "the input"),
        ("a", "type", "the type"),
        ("d", "turned", "the order of the inputs: x / y is not y / x"),
        ("w", "names", "which input is which argument: look at `input_names`"),
        ("c", "outputs", "the number of outputs"),
        ("p", "shape", "the shape of an attribute"),
    ] {
        assert_ne!(key_of(one), key_of(other), "`{one}` and `{other}` differ in {what}");
    }
}

#[test]
fn task2_a_twin_has_the_same_bytes_too() {
    let mut graph = graph(&[
        "pnnx.Input in 0 1 x",
        "nn.PReLU a 1 1 x y1 @weight=(1)f32",
        "nn.PReLU b 1 1 x y2 @weight=(1)f32",
        "nn.PReLU c 1 1 x y3 @weight=(1)f32",
        "pnnx.Output out 3 0 y1 y2 y3",
    ]);
    for (name, slope) in [("a", 0.25), ("b", 0.5), ("c", 0.5)] {
        let id = operator(&graph, name);
        graph.set_attribute(id, "weight", Attribute::from_f32s(vec![1], &[slope]).unwrap()).unwrap();
    }
    let [a, b, c] = ["a", "b", "c"].map(|name| operator(&graph, name));
    let mut seen = Seen::new();
    assert_eq!(twin(&graph, a, &mut seen), None, "`a` is the first operator");
    assert_eq!(
        twin(&graph, b, &mut seen),
        None,
        "the slopes of `a` and `b` differ: are their bytes compared?"
    );
    assert_eq!(
        twin(&graph, c, &mut seen),
        Some(b),
        "was `b` recorded in addition to `a`, which has the same key?"
    );
}

#[test]
fn task2_readers_of_the_second_read_the_first() {
    let mut graph = graph(&[
        "pnnx.Input in 0 1 x",
        "torch.chunk first 1 2 x a b dim=0",
        "torch.chunk second 1 2 x c d dim=0",
        "pnnx.Expression add 2 1 a d y expr=add(@0,@1)",
        "F.relu relu 1 1 c z",
        "pnnx.Output out 2 0 y z",
    ]);
    let [second, first] = ["second", "first"].map(|name| operator(&graph, name));
    assert_eq!(merge(&mut graph, second, first), Ok(()), "is each output bypassed, not just the first?");
    assert_eq!(names(&graph), ["in", "first", "add", "relu", "out"], "the second must be removed");
    assert_eq!(reads(&graph, "add"), ["a", "b"], "b replaces d");
    assert_eq!(reads(&graph, "relu"), ["a"], "a replaces c");
}

#[test]
fn task2_twins_make_twins_and_outputs_keep_their_names() {
    let mut chain = graph(&[
        "pnnx.Input in 0 1 x",
        "F.relu a 1 1 x a1",
        "F.tanh b 1 1 a1 b1",
        "F.relu c 1 1 x c1",
        "F.tanh d 1 1 c1 d1",
        "pnnx.Expression e 2 1 b1 d1 y expr=add(@0,@1)",
        "pnnx.Output out 1 0 y",
    ]);
    assert_eq!(share(&mut chain), 2, "once c is merged with a, d reads what b reads");
    assert_eq!(reads(&chain, "e"), ["b1", "b1"], "both terms of the sum are the same now");
    let mut both =
        graph(&["pnnx.Input in 0 1 x", "F.relu a 1 1 x y", "F.relu b 1 1 x z", "pnnx.Output out 2 0 y z"]);
    assert_eq!(share(&mut both), 0, "the model returns y and z: each must keep its name");
}

#[test]
fn task3_what_depends_on_constants_is_constant() {
    let graph = page();
    let found = constants(&graph, &foldable(&graph, &PassContext::default()));
    let hint = "k is stored, t is computed from k alone; s reads t, but also a and b";
    assert_eq!(operand_names(&graph, found), BTreeSet::from(["k", "t"]), "{hint}");
}

#[test]
fn task3_no_inputs_is_not_enough() {
    let graph = graph(&[
        "pnnx.Input in 0 1 x",
        "torch.randn dice 0 1 r size=(2)",
        "F.relu after 1 1 r s",
        "pnnx.Output out 2 0 x s",
    ]);
    let found = constants(&graph, &foldable(&graph, &PassContext::default()));
    let hint = "`in` and `dice` have no inputs either, but are not foldable; s depends on r";
    assert_eq!(operand_names(&graph, found), BTreeSet::new(), "{hint}");
}

/// Constants of all kinds: a stored one, an intermediate one, two at the border, of which the model returns one, and an unused
/// one.
fn border() -> Graph {
    graph(&[
        "pnnx.Input in 0 1 x",
        "pnnx.Attribute w 0 1 k @data=(2)f32",
        "F.relu a 1 1 k between",
        "F.tanh b 1 1 between both",
        "F.sigmoid c 1 1 both returned",
        "F.relu d 1 1 k unread",
        "pnnx.Expression e 3 1 x both k y expr=add(add(@0,@1),@2)",
        "pnnx.Output out 2 0 y returned",
    ])
}

#[test]
fn task3_only_the_border_is_stored() {
    let graph = border();
    let constants: HashSet<OperandId> =
        ["k", "between", "both", "returned", "unread"].map(|name| operand(&graph, name)).into();
    let found: Vec<&str> = frontier(&graph, &constants).iter().map(|&id| graph.operand(id).name()).collect();
    assert!(!found.contains(&"k"), "k is an attribute: it is stored already");
    assert!(!found.contains(&"between"), "only `b` reads `between`, and its result is a constant, too");
    assert!(!found.contains(&"unread"), "`unread` is unused: why store it?");
    let hint =
        "`e` reads `both` and x; pnnx.Output reads `returned`, and has no results that could be constants";
    assert_eq!(found, ["both", "returned"], "{hint}");
}

#[test]
fn task3_a_constant_may_not_be_too_large() {
    assert_eq!(check_size(SMALL_BYTES, 0), Ok(()), "64 KiB are small, whatever they are computed from");
    let hint = "65,537 bytes from 8: the file would grow, and so would the time to read it";
    assert!(check_size(SMALL_BYTES + 1, 8).is_err(), "{hint}");
    assert_eq!(check_size(4_000_000, 1_000_000), Ok(()), "four times as much is allowed");
    assert!(check_size(4_000_001, 1_000_000).is_err(), "more than four times as much is not");
    assert_eq!(check_size(MAX_BYTES, MAX_BYTES), Ok(()), "16 MiB are allowed");
    assert!(check_size(MAX_BYTES + 1, MAX_BYTES).is_err(), "more than 16 MiB are never allowed");
    assert_eq!(
        check_size(4_000_000, u64::MAX / 4 + 2),
        Ok(()),
        "four times that overflows to a small number: saturate"
    );
    assert!(check_size(u64::MAX, u64::MAX).is_err(), "does `from` times 4 overflow? Use `saturating_mul`");
}

fn value(raw: &str) -> Parameter {
    Parameter::parse(raw)
}

#[test]
fn task4_a_capture_is_the_same_everywhere() {
    let mut captures = Captures::new();
    assert!(capture(&mut captures, "k", &value("3")), "the first value is captured");
    assert!(capture(&mut captures, "k", &value("3.0")), "3 and 3.0 are the same number: compare with `same`");
    assert!(!capture(&mut captures, "k", &value("5")), "k is 3 already");
    assert_eq!(captures["k"].raw(), "3", "the first value stays");
}

#[test]
fn task4_four_kinds_of_patterns() {
    let matches = |wanted: &str, found: &str| {
        let mut captures = Captures::new();
        ValuePattern::parse(wanted).matches(&value(found), &mut captures).then_some(captures)
    };
    assert!(matches("*", "reflect").is_some(), "`*` is any value");
    assert!(matches("zeros", "zeros").is_some() && matches("zeros", "reflect").is_none(), "a literal");
    assert_eq!(matches("%k", "(3,3)").unwrap()["k"].raw(), "(3,3)", "a capture takes the whole list");
    assert_eq!(matches("(%a,1,*)", "(3,1,7)").unwrap()["a"].raw(), "3", "items, one by one");
    assert!(matches("(%a,1,*)", "(3,2,7)").is_none(), "the second item is 2, not 1");
    assert!(
        matches("(%a,%a)", "(3,3)").is_some() && matches("(%a,%a)", "(3,5)").is_none(),
        "%a is one value"
    );
    let hint = "`zip` stops at the shorter list: compare the lengths as well";
    assert!(matches("(%a,%b)", "(3,1,7)").is_none() && matches("(%a,%b)", "3").is_none(), "{hint}");
}

fn wish(key: &str, wanted: &str, optional: bool) -> Keyed<ValuePattern> {
    Keyed { key: key.to_owned(), optional, wanted: ValuePattern::parse(wanted) }
}

#[test]
fn task4_a_setting_that_the_pattern_does_not_know() {
    let graph = graph(&[
        "pnnx.Input in 0 1 x",
        "my.Conv plain 1 1 x a stride=(2,2)",
        "my.Conv tanh 1 1 x b stride=(2,2) activation=tanh",
    ]);
    let matches = |name: &str, wanted: &[Keyed<ValuePattern>], open| {
        match_params(wanted, open, graph.operator(operator(&graph, name)), &mut Captures::new())
    };
    let stride = [wish("stride", "(%s,%s)", false)];
    assert_eq!(matches("plain", &stride, false), Ok(()));
    let hint = "the pattern does not name `activation`: a pass that fires here loses the tanh";
    let reason = matches("tanh", &stride, false).expect_err(hint);
    assert!(reason.contains("activation"), "the reason must name the parameter, got: {reason}");
    assert_eq!(matches("tanh", &stride, true), Ok(()), "an open pattern ignores further parameters");
    let reason = matches("plain", &[wish("stride", "(1,1)", false)], true).expect_err("the stride is 2");
    assert!(reason.contains("stride"), "{reason}");
}

#[test]
fn task4_an_optional_parameter_may_be_missing() {
    let graph = graph(&["pnnx.Input in 0 1 x", "my.Conv c 1 1 x a stride=(2,2)"]);
    let conv = graph.operator(operator(&graph, "c"));
    let matches = |wanted: &[Keyed<ValuePattern>]| match_params(wanted, true, conv, &mut Captures::new());
    assert!(matches(&[wish("groups", "1", false)]).is_err(), "`groups` is required, and missing");
    assert_eq!(matches(&[wish("groups", "1", true)]), Ok(()), "an optional parameter may be missing");
    assert!(matches(&[wish("stride", "(1,1)", true)]).is_err(), "if it is present, it must match");
}

#[test]
fn task4_an_operand_of_the_pattern_is_one_of_the_graph() {
    let graph = page();
    let [a, b] = ["a", "b"].map(|name| operand(&graph, name));
    let mut found = [None, None];
    assert!(bind_operand(&mut found, 1, a), "the slot is empty");
    assert_eq!(found, [None, Some(a)]);
    assert!(bind_operand(&mut found, 1, a), "the same again: x in add(x, relu(x)) occurs twice");
    assert!(!bind_operand(&mut found, 1, b), "the slot is taken by another operand");
    assert_eq!(found, [None, Some(a)], "what was bound stays bound");
    assert!(!bind_operand(&mut found, 2, b), "there is no such slot: use `get_mut`");
}

#[test]
fn task4_a_value_with_other_readers_must_stay() {
    let graph = page();
    let [right, add, lonely] = ["right", "add", "lonely"].map(|name| operator(&graph, name));
    let b = operand(&graph, "b");
    let used = |replaced: &[OperatorId]| used_elsewhere(&graph, b, &replaced.iter().copied().collect());
    assert_eq!(used(&[right, add]), Some(lonely), "`lonely` reads b and is not replaced");
    assert_eq!(used(&[right, add, lonely]), None, "all readers of b are replaced");
    let s = operand(&graph, "s");
    let out = operator(&graph, "out");
    assert_eq!(
        used_elsewhere(&graph, s, &HashSet::from([add])),
        Some(out),
        "the model returns s: that counts"
    );
}

/// Finds ReLUs after square convolutions, in a network in which other operators read some of the convolutions.
#[test]
fn task4_convolutions_with_relu_in_a_real_network() {
    let graph = load("digits");
    let wanted = [wish("kernel_size", "(%k,%k)", false), wish("stride", "(%s,%s)", false)];
    let mut found = Vec::new();
    for (relu, operator) in graph.operators().filter(|(_, operator)| operator.op_type() == "nn.ReLU") {
        let between = operator.inputs()[0];
        let conv = graph.operand(between).producer().unwrap();
        let mut captures = Captures::new();
        if graph.operator(conv).op_type() == "nn.Conv2d"
            && match_params(&wanted, true, graph.operator(conv), &mut captures).is_ok()
            && used_elsewhere(&graph, between, &HashSet::from([conv, relu])).is_none()
        {
            found.push((
                graph.operator(conv).name(),
                captures["k"].as_i64().unwrap(),
                captures["s"].as_i64().unwrap(),
            ));
        }
    }
    let want = [("convbn2d_0", 3, 1), ("convbn2d_1", 3, 1), ("convbn2d_3", 3, 2), ("convbn2d_6", 3, 1)];
    assert_eq!(found, want, "the other four are followed by a sum");
}

#[test]
fn task6_all_passes_run_until_none_fires() {
    let mut log = Vec::new();
    let mut left = [2_usize, 1, 0];
    let mut run = |&pass: &usize| {
        log.push(pass);
        let fires = left[pass] > 0;
        left[pass] = left[pass].saturating_sub(1);
        Ok::<bool, String>(fires)
    };
    let rounds = run_to_fixpoint(&[0, 1, 2], 16, &mut run);
    let hint = "three rounds: in the first 0 and 1 fire, in the second 0, in the third none. In a round every pass \
                runs: `fired || run(pass)?` would skip those after the first that fires";
    assert_eq!(log, [0, 1, 2, 0, 1, 2, 0, 1, 2], "{hint}");
    assert_eq!(rounds, Ok(3), "the last round, in which none fires, counts");
}

#[test]
fn task6_passes_that_never_end_and_errors() {
    let mut count = 0;
    let mut always = |_: &usize| {
        count += 1;
        // The test must end, even if the rounds do not.
        if count < 1000 { Ok::<bool, String>(true) } else { Err("it never ends".to_owned()) }
    };
    assert_eq!(
        run_to_fixpoint(&[0, 1], 5, &mut always),
        Ok(5),
        "two passes that undo each other fire indefinitely: stop at `max_rounds`"
    );
    assert_eq!(count, 10, "two passes in five rounds");
    assert_eq!(
        run_to_fixpoint::<usize, String>(&[], 5, &mut |_| Ok(true)),
        Ok(1),
        "without passes none fires"
    );
    let mut fails = |pass: &usize| if *pass == 1 { Err("broken".to_owned()) } else { Ok(true) };
    assert_eq!(
        run_to_fixpoint(&[0, 1, 2], 5, &mut fails),
        Err("broken".to_owned()),
        "an error ends the loop: use `?`"
    );
}

/// Runs only the framework's constant folding.
fn fold_constants(graph: &mut Graph) -> usize {
    let mut passes = Passes::default();
    passes.set_all_enabled(false);
    passes.set_enabled("constant_folding", true).unwrap();
    passes.run(graph, PassContext::default()).unwrap().fired("constant_folding")
}

#[test]
fn task6_the_graph_of_the_page() {
    let mut graph = page();
    let passes: [fn(&mut Graph) -> usize; 3] = [|graph| remove_dead(graph).unwrap(), fold_constants, share];
    let mut run = |pass: &fn(&mut Graph) -> usize| Ok::<bool, String>(pass(&mut graph) > 0);
    let rounds = run_to_fixpoint(&passes, 16, &mut run);
    assert_eq!(names(&graph), ["in", "t_folded", "left", "add", "out"], "as you predicted, 5 of 8");
    assert_eq!(reads(&graph, "add"), ["a", "a", "t_folded"]);
    assert_eq!(rounds, Ok(3), "`twice` and `w` are dead after the first round; the third is quiet");
}
