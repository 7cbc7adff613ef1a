use super::*;
use crate::passes::Draft;
use crate::passes::testing::{graph, lines, run};

const TWICE: &str = "7767517
4 3
pnnx.Input      input   0 1 x
nn.ReLU|F.relu  first   1 1 x a
nn.ReLU|F.relu  second  1 1 a y
pnnx.Output     output  1 0 y
";
const ONCE: &str = "7767517
3 2
pnnx.Input      input   0 1 x
%first          first   1 1 x y %*=%*
pnnx.Output     output  1 0 y
";

fn once() -> Rewrite {
    Rewrite::new("once", "Rectifies once.").rule(Rule::new(TWICE, ONCE))
}

#[test]
fn a_match_is_replaced_and_outputs_keep_their_names() {
    let mut graph = graph(
        "pnnx.Input in 0 1 0
         nn.ReLU a 1 1 0 1
         F.relu b 1 1 1 2 $input=1
         pnnx.Output out 1 0 2",
    );
    assert_eq!(run(&once(), &mut graph), Outcome { fired: 1, refused: vec![] });
    assert_eq!(lines(&graph), ["nn.ReLU(0)->2"]);
    assert_eq!(graph.operators().nth(1).unwrap().1.name(), "a");
}

#[test]
fn operands_used_elsewhere_or_returned_are_kept_and_reported() {
    let mut graph = graph(
        "pnnx.Input in 0 1 0
         nn.ReLU a 1 1 0 1
         nn.ReLU b 1 1 1 2
         nn.ReLU c 1 1 2 3
         nn.Tanh d 1 1 2 4
         pnnx.Output out 3 0 1 3 4",
    );
    let outcome = run(&once(), &mut graph);
    assert_eq!(outcome.fired, 0);
    let reasons: Vec<String> = outcome.refused.iter().map(ToString::to_string).collect();
    assert_eq!(reasons, ["`c`: `2` is also used by `d`", "`b`: `1` is also used by `out`"]);
}

const SCALE: &str = "7767517
4 4
pnnx.Input       input  0 2 x b
nn.Linear        fc     1 1 x a in_features=* out_features=%n bias=False @weight=(%n,?)f32
torch.add~       add    2 1 a b y ?alpha=1
pnnx.Output      output 1 0 y
";
const SCALED: &str = "7767517
3 3
pnnx.Input       input  0 2 x b
my.Linear        fused  2 1 x b y size=(%n,%fc.out_features) $bias=b @w=%fc.weight
pnnx.Output      output 1 0 y
";

fn linear(add: &str) -> Graph {
    graph(&format!(
        "pnnx.Input in 0 2 0 1
         nn.Linear l 1 1 0 2 bias=False in_features=2 out_features=3 @weight=(3,2)f32
         {add}
         pnnx.Output out 1 0 3"
    ))
}

#[test]
fn sums_match_in_either_order_and_captures_are_written() {
    let pass = Rewrite::new("p", "").rule(Rule::new(SCALE, SCALED));
    for add in ["torch.add s 2 1 1 2 3", "torch.add s 2 1 2 1 3 alpha=1"] {
        let mut graph = linear(add);
        assert_eq!(run(&pass, &mut graph).fired, 1, "{add}");
        assert_eq!(lines(&graph), ["my.Linear(0,1)->3 size=(3,3)"]);
        let fused = graph.operator(graph.operator_named("s_fused").unwrap());
        assert_eq!(fused.input_names(), [None, Some("bias".to_owned())]);
        assert_eq!(fused.attr("w").unwrap().shape(), [3, 2]);
    }
}

#[test]
fn settings_that_the_pattern_does_not_name_prevent_a_match() {
    let pass = Rewrite::new("p", "").rule(Rule::new(SCALE, SCALED));
    let mut graph = linear("torch.add s 2 1 1 2 3 alpha=2");
    assert_eq!(run(&pass, &mut graph).fired, 0);
    let text = "nn.Linear l 1 1 0 2 bias=False in_features=2 out_features=3 device=cpu @weight=(3,2)f32";
    let mut graph = crate::passes::testing::graph(&format!(
        "pnnx.Input in 0 2 0 1\n{text}\ntorch.add s 2 1 1 2 3\npnnx.Output out 1 0 3"
    ));
    let outcome = run(&pass, &mut graph);
    assert_eq!(outcome.refused[0].to_string(), "`s`: `l` has device=cpu");
}

#[test]
fn a_check_refuses_and_a_write_completes() {
    let odd = |found: &Match<'_>| match found.get::<i64>("n")? {
        n if n % 2 == 1 => Ok(()),
        n => Err(format!("{n} is even")),
    };
    let write = |_: &Match<'_>, new: &mut Replacement| {
        new.set_param("fused", "twice", 6)?;
        new.remove_param("fused", "size")
    };
    let pass = Rewrite::new("p", "").rule(Rule::new(SCALE, SCALED).when(odd).write(write));
    let mut graph = linear("torch.add s 2 1 1 2 3");
    assert_eq!(run(&pass, &mut graph).fired, 1);
    assert_eq!(lines(&graph), ["my.Linear(0,1)->3 twice=6"]);
    let even = |_: &Match<'_>| Err("never".to_owned());
    let pass = Rewrite::new("p", "").rule(Rule::new(SCALE, SCALED).when(even));
    let outcome = run(&pass, &mut linear("torch.add s 2 1 1 2 3"));
    assert_eq!((outcome.fired, outcome.refused[0].reason.as_str()), (0, "never"));
}

const SWISH: &str = "7767517
4 3
pnnx.Input       input    0 1 x
F.sigmoid        sigmoid  1 1 x s
pnnx.Expression  mul      2 1 x s y expr=mul(@0,mul(@1,%k))
pnnx.Output      output   1 0 y
";
const GATED: &str = "7767517
3 2
pnnx.Input       input    0 1 x
pnnx.Expression  mul      1 1 x y expr=gate(@0,%k)
pnnx.Output      output   1 0 y
";

#[test]
fn expressions_bind_inputs_by_their_position_in_the_tree() {
    let pass = Rewrite::new("p", "").rule(Rule::new(SWISH, GATED));
    let mut graph = graph(
        "pnnx.Input in 0 1 0
         F.sigmoid s 1 1 0 1 $input=0
         pnnx.Expression e 2 1 1 0 2 expr=mul(mul(2.5,@0),@1)
         pnnx.Output out 1 0 2",
    );
    assert_eq!(run(&pass, &mut graph).fired, 1);
    assert_eq!(lines(&graph), ["pnnx.Expression(0)->2 expr=gate(@0,2.5)"]);
}

const NOTHING: &str = "7767517
3 2
pnnx.Input      input   0 1 x
nn.Identity     nothing 1 1 x y
pnnx.Output     output  1 0 y
";
const GONE: &str = "7767517
2 1
pnnx.Input      input   0 1 x
pnnx.Output     output  1 0 x
";

#[test]
fn no_ops_are_removed_but_inputs_and_outputs_keep_their_names() {
    let pass = Rewrite::new("p", "").rule(Rule::new(NOTHING, GONE));
    let mut inner = graph(
        "pnnx.Input in 0 1 0
         nn.Identity a 1 1 0 1
         nn.Tanh t 1 1 1 2
         nn.Identity b 1 1 2 3
         pnnx.Output out 1 0 3",
    );
    assert_eq!(run(&pass, &mut inner).fired, 2);
    assert_eq!(lines(&inner), ["nn.Tanh(0)->3"]);
    let mut alone = graph("pnnx.Input in 0 1 0\nnn.Identity a 1 1 0 1\npnnx.Output out 1 0 1");
    let outcome = run(&pass, &mut alone);
    assert_eq!(outcome.fired, 0);
    assert!(outcome.refused[0].reason.contains("both keep their names"), "{:?}", outcome.refused);
}

const OPTIONAL: &str = "7767517
5 4
pnnx.Input      input   0 1 x
?F.dropout      nothing 1 1 x a   p=*
nn.Tanh         tanh    1 1 a b
?nn.ReLU        relu    1 1 b y
pnnx.Output     output  1 0 y
";

#[test]
fn optional_operators_may_be_missing() {
    let pass = Rewrite::new("p", "").rule(Rule::computed(OPTIONAL, |found| {
        let seen = ["nothing", "relu"].map(|name| found.operator(name).is_ok());
        Ok(Draft::new(
            format!("my.Tanh tanh 1 1 x y seen={seen:?}\npnnx.Output output 1 0 y").replace(", ", ","),
        ))
    }));
    for (ahead, behind, kept) in [
        ("F.dropout d 1 1 0 1 p=0.5", "nn.ReLU r 1 1 2 3", vec!["my.Tanh(0)->3 seen=[true,true]"]),
        (
            "F.dropout d 1 1 0 1 p=0.5",
            "nn.GELU r 1 1 2 3",
            vec!["my.Tanh(0)->2 seen=[true,false]", "nn.GELU(2)->3"],
        ),
        ("nn.GELU d 1 1 0 1", "nn.ReLU r 1 1 2 3", vec!["nn.GELU(0)->1", "my.Tanh(1)->3 seen=[false,true]"]),
    ] {
        let mut graph = graph(&format!(
            "pnnx.Input in 0 1 0\n{ahead}\nnn.Tanh t 1 1 1 2\n{behind}\npnnx.Output out 1 0 3"
        ));
        assert_eq!(run(&pass, &mut graph).fired, 1);
        assert_eq!(lines(&graph), kept);
        assert!(graph.operator_named("t").is_some());
    }
}

#[test]
fn variants_with_most_operators_come_first_and_optional_operators_are_limited() {
    let text = |count: usize| {
        let line = |at: usize| format!("?nn.ReLU r{at} 1 1 o{at} o{}\n", at + 1);
        let lines: String = (0..count).map(line).collect();
        format!(
            "7767517\n{} {}\npnnx.Input i 0 1 o0\n{lines}nn.Tanh t 1 1 o{count} y\npnnx.Output o 1 0 y\n",
            count + 3,
            count + 2
        )
    };
    let counts: Vec<usize> =
        Pattern::variants(&text(3)).unwrap().iter().map(|pattern| pattern.operator_names().count()).collect();
    assert_eq!(counts, [4, 3, 3, 3, 2, 2, 2, 1]);
    let error = Pattern::variants(&text(40)).unwrap_err().to_string();
    assert!(error.contains("at most 6 operators may be optional"), "{error}");
}

const STAYING: &str = "7767517
4 3
pnnx.Input      input   0 1 x
=nn.Tanh        tanh    1 1 x a
nn.ReLU         relu    1 1 a y
pnnx.Output     output  1 0 y
";

#[test]
fn kept_operators_may_be_read_by_others() {
    let replacement = "7767517\n3 2\npnnx.Input i 0 1 x\nmy.Both relu 1 1 x y\npnnx.Output o 1 0 y\n";
    let mut graph = graph(
        "pnnx.Input in 0 1 0
         nn.Tanh t 1 1 0 1
         nn.ReLU r 1 1 1 2
         pnnx.Output out 2 0 1 2",
    );
    assert_eq!(run(&Rewrite::new("p", "").rule(Rule::new(STAYING, replacement)), &mut graph).fired, 1);
    assert_eq!(lines(&graph), ["nn.Tanh(0)->1", "my.Both(0)->2"]);
}

#[test]
fn replacements_cannot_read_operands_that_vanish_or_come_too_late() {
    let vanishing = "7767517\n3 3\npnnx.Input i 0 1 x\nmy.Both both 2 1 x a y\npnnx.Output o 1 0 y\n";
    let outcome = run(&Rewrite::new("p", "").rule(Rule::new(TWICE, vanishing)), &mut two_relus());
    assert_eq!(outcome.refused[0].to_string(), "`b`: `1` would vanish and is still needed");
    let pattern = "7767517\n5 4\npnnx.Input i 0 2 x late\nnn.ReLU relu 1 1 x y\n\
        =torch.add add 2 1 x late z\npnnx.Output o 1 0 y\npnnx.Output o 1 0 z\n";
    let replacement = "7767517\n5 4\npnnx.Input i 0 2 x late\nmy.Both relu 2 1 x late y\n\
        torch.add add 2 1 x late z\npnnx.Output o 1 0 y\npnnx.Output o 1 0 z\n";
    let mut graph = graph(
        "pnnx.Input in 0 1 0
         nn.ReLU r 1 1 0 1
         nn.Tanh t 1 1 1 2
         torch.add s 2 1 0 2 3
         pnnx.Output out 1 0 3",
    );
    let outcome = run(&Rewrite::new("p", "").rule(Rule::new(pattern, replacement)), &mut graph);
    assert_eq!(outcome.refused[0].to_string(), "`r`: `2` is needed before it is computed");
}

#[test]
fn unknown_sizes_cannot_be_written() {
    let pattern = "7767517\n3 2\npnnx.Input i 0 1 x\nnn.ReLU relu 1 1 x y #x=(%n)f32\npnnx.Output o 1 0 y\n";
    let replacement = "7767517\n3 2\npnnx.Input i 0 1 x\nmy.Sized s 1 1 x y size=%n\npnnx.Output o 1 0 y\n";
    let mut graph = graph("pnnx.Input in 0 1 0 #0=(4)f32\nnn.ReLU r 1 1 0 1\npnnx.Output out 1 0 1");
    let outcome = run(&Rewrite::new("p", "").rule(Rule::new(pattern, replacement)), &mut graph);
    assert_eq!(outcome.refused[0].to_string(), "`r`: `n` is in.0, not a number");
}

const FURTHER: &str = "7767517
4 3
pnnx.Input      input   0 1 x
nn.ReLU         relu    1 1 x a
F.conv2d        conv    2 1 a ... y %*=%*
pnnx.Output     output  1 0 y
";
const KEPT: &str = "7767517
3 2
pnnx.Input      input   0 1 x
%conv           conv    2 1 x ... y %*=%*
pnnx.Output     output  1 0 y
";

#[test]
fn further_inputs_are_kept_with_their_names() {
    let mut graph = graph(
        "pnnx.Input in 0 3 0 w b
         nn.ReLU r 1 1 0 1
         F.conv2d c 3 1 1 w b 2 stride=(2,2) $input=1 $weight=w $bias=b
         pnnx.Output out 1 0 2",
    );
    assert_eq!(run(&Rewrite::new("p", "").rule(Rule::new(FURTHER, KEPT)), &mut graph).fired, 1);
    assert_eq!(lines(&graph), ["F.conv2d(0,w,b)->2 stride=(2,2)"]);
    let names = graph.operator(graph.operator_named("c").unwrap()).input_names().to_vec();
    assert_eq!(names, ["input", "weight", "bias"].map(|name| Some(name.to_owned())));
}

const ANYWHERE: &str = "7767517
4 3
pnnx.Input      input   0 1 x
nn.Tanh         tanh    1 1 x t
pnnx.Expression sum     3 1 x t ... y expr=*
pnnx.Output     output  1 0 y
";

#[test]
fn inputs_of_an_expression_have_no_order() {
    let pass = Rewrite::new("p", "").rule(Rule::computed(ANYWHERE, |found| {
        let place =
            found.operator("sum")?.inputs().iter().position(|&input| found.operand_id("t") == Ok(input));
        Ok(Draft::new(format!("my.Sum sum 2 1 x sum.0 y place={}\npnnx.Output o 1 0 y", place.unwrap())))
    }));
    let mut graph = graph(
        "pnnx.Input in 0 2 0 1
         nn.Tanh t 1 1 1 2
         pnnx.Expression e 3 1 0 2 1 3 expr=add(@0,mul(@1,@2))
         pnnx.Output out 1 0 3",
    );
    let further = "7767517\n3 2\npnnx.Input i 0 1 x\nmy.Sum sum 2 1 x ... y\npnnx.Output o 1 0 y\n";
    let outcome = run(&Rewrite::new("p", "").rule(Rule::new(ANYWHERE, further)), &mut graph.clone());
    assert!(outcome.refused[0].reason.contains("have no order"), "{outcome:?}");
    assert_eq!(run(&pass, &mut graph).fired, 1);
    assert_eq!(lines(&graph), ["my.Sum(1,0)->3 place=1"]);
}

#[test]
fn invalid_patterns_are_errors() {
    let error = |line: &str| {
        let text = format!("7767517\n3 2\npnnx.Input i 0 1 x\n{line}\npnnx.Output o 1 0 y\n");
        Pattern::parse(&text).unwrap_err().to_string()
    };
    assert!(error("nn.ReLU r 2 1 ... x y").contains("follow all other inputs"));
    assert!(error("?nn.ReLU r 0 1 y").contains("an optional operator"));
    assert!(error("=nn.ReLU r 1 1 x y").contains("no operator computes"));
}

const FORK: &str = "7767517
5 4
pnnx.Input      input   0 1 x
nn.ReLU         left    1 1 x a
nn.Tanh         right   1 1 x b
pnnx.Output     output  1 0 a
pnnx.Output     output  1 0 b
";
const JOINED: &str = "7767517
4 3
pnnx.Input      input   0 1 x
my.Both         both    1 2 x a b
pnnx.Output     output  1 0 a
pnnx.Output     output  1 0 b
";

#[test]
fn a_pattern_may_return_several_operands() {
    assert_eq!(
        Pattern::parse(FORK).unwrap_err().to_string(),
        "line 2 of the pattern: expected the counts of operators and operands `5 3`, got `5 4`"
    );
    let fork = FORK.replacen("5 4", "5 3", 1);
    let pass = Rewrite::new("p", "").rule(Rule::new(fork, JOINED));
    let mut fits = graph(
        "pnnx.Input in 0 1 0
         nn.ReLU l 1 1 0 1
         nn.Tanh r 1 1 0 2
         torch.add s 2 1 1 2 3
         pnnx.Output out 1 0 3",
    );
    assert_eq!(run(&pass, &mut fits).fired, 1);
    assert_eq!(lines(&fits), ["my.Both(0)->1,2", "torch.add(1,2)->3"]);
    let mut too_early = graph(
        "pnnx.Input in 0 1 0
         nn.Tanh r 1 1 0 2
         nn.Tanh early 1 1 2 3
         nn.ReLU l 1 1 0 1
         torch.add s 2 1 1 3 4
         pnnx.Output out 1 0 4",
    );
    let outcome = run(&pass, &mut too_early);
    assert_eq!(outcome.refused[0].to_string(), "`l`: `early` needs `2` before the whole match is computed");
}

#[test]
fn the_first_result_may_not_be_needed_early_either() {
    let pass = Rewrite::new("p", "").rule(Rule::new(FORK.replacen("5 4", "5 3", 1), JOINED));
    let mut graph = graph(
        "pnnx.Input in 0 1 0
         nn.ReLU l 1 1 0 1
         nn.Tanh early 1 1 1 3
         nn.Tanh r 1 1 0 2
         torch.add s 2 1 3 2 4
         pnnx.Output out 1 0 4",
    );
    let outcome = run(&pass, &mut graph);
    assert_eq!(outcome.refused[0].to_string(), "`l`: `early` needs `1` before the whole match is computed");
}

#[test]
fn views_that_are_written_through_stay() {
    let mut graph = graph(
        "pnnx.Input in 0 2 0 1
         Tensor.view a 1 1 0 2 shape=(4)
         Tensor.view b 1 1 2 3 shape=(2,2)
         Tensor.copy w 2 1 3 1 4
         pnnx.Output out 1 0 4",
    );
    let pattern = "7767517\n4 3\npnnx.Input i 0 1 x\nTensor.view a 1 1 x a shape=*\nTensor.view b 1 1 a y shape=%s\npnnx.Output o 1 0 y\n";
    let replacement =
        "7767517\n3 2\npnnx.Input i 0 1 x\nTensor.view b 1 1 x y shape=%s\npnnx.Output o 1 0 y\n";
    let outcome = run(&Rewrite::new("p", "").rule(Rule::new(pattern, replacement)), &mut graph);
    assert_eq!(outcome.refused[0].to_string(), "`b`: data is written through `b`");
}

#[test]
fn faults_of_a_pass_are_errors_instead_of_endless_loops() {
    let forever = Rewrite::new("forever", "")
        .rule(Rule::new(ONCE.replace("%first", "nn.ReLU").replace(" %*=%*", ""), ONCE));
    let error = forever.run(&mut two_relus(), &mut PassContext::default()).unwrap_err();
    assert!(matches!(error, PassError::Endless { .. }), "{error}");
    let unread = Rewrite::new("unread", "").rule(Rule::new(TWICE, "7767517\n1 1\nF.relu r 1 1 x y $input\n"));
    let error = unread.run(&mut two_relus(), &mut PassContext::default()).unwrap_err();
    assert_eq!(error.to_string(), "pass `unread`: line 3 of the pattern: `$input` is not understood");
}

fn two_relus() -> Graph {
    graph("pnnx.Input in 0 1 0\nnn.ReLU a 1 1 0 1\nnn.ReLU b 1 1 1 2\npnnx.Output out 1 0 2")
}
