use super::*;
use crate::{Dim, GraphError, WeightError};
use ixion_tensor::DType;
use proptest::prelude::*;

const GOOD: &str = "7767517\n4 3\n\
    pnnx.Input               in                       0 1 x #x=(1,3)f32\n\
    nn.Linear                fc                       1 1 x y bias=False in_features=3 @weight=(2,3)f32 #x=(1,3)f32 #y=(1,2)f32\n\
    F.relu                   relu                     1 1 y z $input=y #y=(1,2)f32 #z=(?,%n)f32\n\
    pnnx.Output              out                      1 0 z #z=(?,%n)f32\n";

fn parse(text: &str) -> Result<Graph, PnnxError> {
    Graph::parse(text, &Limits::default())
}

/// A text with the given operator lines after a header that counts them.
fn with_lines(lines: &[&str], operands: usize) -> String {
    format!("7767517\n{} {operands}\n{}\n", lines.len(), lines.join("\n"))
}

fn message(text: &str) -> String {
    parse(text).unwrap_err().to_string()
}

/// Checks that the error for a text starts with a position and contains all parts.
fn check_message(text: &str, place: &str, parts: &[&str]) {
    let message = message(text);
    assert!(message.starts_with(&format!("<text>:{place}: ")), "{message}");
    for part in parts {
        assert!(message.contains(part), "{message} lacks {part}");
    }
}

#[test]
fn a_valid_text_gives_its_graph() {
    let graph = parse(GOOD).unwrap();
    assert_eq!(graph.to_param_text(), GOOD);
    let (_, fc) = graph.operators().nth(1).unwrap();
    assert_eq!((fc.op_type(), fc.name(), fc.line()), ("nn.Linear", "fc", Some(4)));
    assert_eq!(fc.get::<i64>("in_features").unwrap(), 3);
    assert_eq!(fc.attr("weight").unwrap().shape(), [2, 3]);
    let z = graph.operand(graph.operand_named("z").unwrap());
    assert_eq!(z.shape(), Some(&[Dim::Unknown, Dim::Named("n".into())][..]));
    assert_eq!((z.dtype(), z.consumers().len()), (Some(DType::F32), 1));
}

#[test]
fn line_ends_and_blanks_do_not_matter() {
    for text in [GOOD.replace('\n', "\r\n"), GOOD.replace('\n', " \n"), format!("{GOOD}\n\r\n  \n")] {
        assert_eq!(parse(&text).unwrap().to_param_text(), GOOD);
    }
    assert_eq!(parse(GOOD.trim_end()).unwrap().to_param_text(), GOOD);
}

#[test]
fn the_magic_number_is_checked() {
    check_message("", "1:1", &["empty"]);
    check_message(" \n\n", "1:1", &["empty"]);
    check_message("7767518\n1 1\n", "1:1", &["7767517", "`7767518`"]);
    check_message("7767517 4 3\n", "1:1", &["`7767517 4 3`"]);
    check_message("7767517", "1:8", &["the numbers of operators and operands"]);
}

#[test]
fn both_counts_are_checked() {
    check_message(&GOOD.replace("4 3", "5 3"), "2:1", &["counts 5 operator(s)", "but 4 operator line(s)"]);
    check_message(&GOOD.replace("4 3", "3 3"), "2:1", &["counts 3 operator(s)", "but 4 operator line(s)"]);
    check_message(&GOOD.replace("4 3", "4 x"), "2:3", &["the number of operands", "`x`"]);
    check_message(&GOOD.replace("4 3", "4"), "2:2", &["the number of operands", "the end of the line"]);
    check_message(&GOOD.replace("4 3", "99999999999 3"), "2:1", &["max_ops"]);
}

#[test]
fn operands_may_be_miscounted_as_in_pnnx() {
    assert!(parse(&GOOD.replace("4 3", "4 7")).is_ok());
}

#[test]
fn errors_for_unknown_inputs_give_the_cause() {
    let unknown = with_lines(&["pnnx.Input in 0 1 x", "F.relu relu 1 1 q y"], 2);
    check_message(&unknown, "4:17", &["no operator computes the input `q` of operator `relu`"]);
    let late = with_lines(&["pnnx.Input in 0 1 x", "F.relu a 1 1 z y", "F.relu b 1 1 x z"], 3);
    check_message(&late, "4:14", &["computed only later, on line 5", "topological"]);
    let cycle = with_lines(&["F.relu é 1 1 z z"], 1);
    check_message(&cycle, "3:14", &["its own output `z`", "cycle"]);
}

#[test]
fn names_are_unique() {
    let operators = with_lines(&["pnnx.Input a 0 1 x", "pnnx.Input a 0 1 y"], 2);
    check_message(&operators, "4:12", &["operator `a` is already defined on line 3"]);
    let operands = with_lines(&["pnnx.Input a 0 1 x", "pnnx.Input b 0 1 x"], 1);
    check_message(&operands, "4:18", &["operand `x` is already computed on line 3"]);
    check_message(&with_lines(&["pnnx.Input a 0 2 x x"], 1), "3:20", &["already computed on line 3"]);
    check_message(&with_lines(&["T a 0 0 k=1 k=2"], 0), "3:13", &["operator `a` already has `k`"]);
    check_message(&with_lines(&["T a 0 0 @k=(1)f32 @k=(1)f32"], 0), "3:20", &["already has `@k`"]);
}

#[test]
fn operators_with_the_same_name_get_unique_ones() {
    let lines = [
        "pnnx.Input in 0 1 x",
        "T a 1 1 x y",
        "T a@3 1 1 y z",
        "T a 1 1 z u",
        "T a 1 1 u v",
        "T a@2 1 1 v w",
        "pnnx.Output out 1 0 w",
    ];
    let graph = parse(&with_lines(&lines, 6)).unwrap();
    let names = |name: fn(&crate::Operator) -> &str| -> Vec<String> {
        graph.operators().map(|(_, operator)| name(operator).to_owned()).collect()
    };
    assert_eq!(names(crate::Operator::name), ["in", "a", "a@3", "a@2", "a@4", "a@2@2", "out"]);
    assert_eq!(names(crate::Operator::written_name), ["in", "a", "a@3", "a", "a", "a@2", "out"]);
    assert_eq!(parse(&graph.to_param_text()).unwrap().to_param_text(), graph.to_param_text());
    let input = with_lines(&["T a 0 1 x", "pnnx.Input a 0 1 y"], 2);
    check_message(&input, "4:12", &["operator `a` is already defined on line 3"]);
}

#[test]
fn texts_with_blanks_are_the_values_of_constants() {
    let text = GOOD.replace("4 3\n", "5 4\n");
    let line = "prim::Constant           message                  0 1 m value=Error: two axes, not one=\n";
    let text = text.replacen("nn.Linear", &format!("{line}nn.Linear"), 1);
    let graph = parse(&text).unwrap();
    let message = graph.operator(graph.operator_named("message").unwrap());
    assert_eq!(message.param("value").unwrap().raw(), "Error: two axes, not one=");
    assert_eq!(graph.to_param_text(), text);
    check_message(&with_lines(&["T t 0 1 x value=two words"], 1), "3:21", &["`key=value`", "`words`"]);
}

#[test]
fn argument_names_go_to_the_first_unnamed_use() {
    let text = with_lines(&["pnnx.Input in 0 2 a b", "T t 4 0 a b b a $query=a $key=b $value=b $mask=a"], 2);
    let graph = parse(&text).unwrap();
    let (_, operator) = graph.operators().nth(1).unwrap();
    let names: Vec<_> = operator.input_names().iter().flatten().map(String::as_str).collect();
    assert_eq!(names, ["query", "key", "value", "mask"]);
    let twice = with_lines(&["pnnx.Input in 0 1 a", "T t 1 0 a $x=a $y=a"], 1);
    check_message(&twice, "4:19", &["no unnamed input `a` left", "`y`"]);
    let stranger = with_lines(&["pnnx.Input in 0 2 a b", "T t 1 0 a $x=b"], 2);
    check_message(&stranger, "4:14", &["no unnamed input `b` left"]);
}

#[test]
fn shapes_belong_to_inputs_and_outputs() {
    let stranger = with_lines(&["pnnx.Input in 0 1 a", "pnnx.Input in2 0 1 b #a=(1)f32"], 2);
    check_message(&stranger, "4:23", &["`a` is neither an input nor an output of operator `in2`"]);
    let changed = with_lines(&["pnnx.Input in 0 1 a #a=(1)f32", "T t 1 0 a #a=(2)f64"], 1);
    let graph = parse(&changed).unwrap();
    let a = graph.operand(graph.operand_named("a").unwrap());
    assert_eq!((a.shape(), a.dtype()), (Some(&[Dim::Fixed(2)][..]), Some(DType::F64)));
    let null = with_lines(&["pnnx.Input in 0 1 a #a=(1)null"], 1);
    assert_eq!(parse(&null).unwrap().operand_count(), 1);
    assert!(parse(&null).unwrap().to_param_text().contains("#a=(1)null"));
}

#[test]
fn sizes_that_overflow_are_errors() {
    let big = u64::MAX.to_string();
    let attr = |sizes: &str| with_lines(&[&format!("T t 0 0 @w=({sizes})f32")], 0);
    check_message(&attr(&big), "3:10", &["2^63 bytes or more"]);
    check_message(&attr("4294967296,4294967296"), "3:10", &["2^63 bytes or more"]);
    check_message(&attr(&format!("0,{big},{big}")), "3:10", &["2^63 bytes or more"]);
    check_message(&attr("99999999999999999999"), "3:13", &["a size below 2^64"]);
    check_message(&attr("1,-1"), "3:15", &["a size below 2^64", "`-1)f32`"]);
    let operand = with_lines(&[&format!("T t 0 1 a #a=(?,{big},2)f32")], 1);
    check_message(&operand, "3:12", &["2^63 bytes or more"]);
}

#[test]
fn limits_hold_for_weights() {
    let limits = |limits: Limits| {
        let error = Graph::parse(GOOD, &limits).unwrap_err().to_string();
        assert!(error.starts_with("<text>:"), "{error}");
        error
    };
    let defaults = Limits::default;
    assert!(limits(Limits { max_ops: 3, ..defaults() }).contains("max_ops"));
    assert!(
        limits(Limits { max_tensor_bytes: 23, ..defaults() }).contains("attribute `weight` of operator `fc`")
    );
    assert!(limits(Limits { max_total_bytes: 23, ..defaults() }).contains("max_total_bytes"));
    assert!(limits(Limits { max_rank: 1, ..defaults() }).contains("max_rank"));
}

#[test]
fn other_file_types_are_recognised() {
    let load = |bytes: &[u8]| Graph::from_bytes(bytes, None, &Limits::default()).unwrap_err().to_string();
    assert!(load(b"\x89PNG\r\n\x1a\n\0\0").contains("a PNG image"));
    assert!(load(b"PK\x03\x04").contains("a zip archive"));
    assert!(load(b"\x01\0\0\0\x80?\0\0").contains("binary data"));
    assert!(load(b"7767517\n1 1\na\xff").starts_with("<text>:3:2: "), "{}", load(b"7767517\n1 1\na\xff"));
}

#[test]
fn error_messages_name_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let limits = Limits::default();
    let load = |name: &str| Graph::load(folder.path().join(name), None, &limits).unwrap_err().to_string();
    assert!(load("missing.param").contains("missing.param: cannot open the .param file"));
    assert!(load(".").contains("this is a folder; give the .param file in it"));
    std::fs::write(folder.path().join("bad.param"), "7767517\n1 1\nT t 1 0 x\n").unwrap();
    assert!(load("bad.param").contains("bad.param:3:9: no operator computes"), "{}", load("bad.param"));
    let long_binary = [b"7767517\n".as_slice(), &[0; 10_000]].concat();
    std::fs::write(folder.path().join("binary"), long_binary).unwrap();
    assert!(load("binary").contains("binary data"));
}

#[test]
fn a_model_without_its_archive_can_be_inspected() {
    let graph = parse(GOOD).unwrap();
    let attribute = graph.operators().nth(1).unwrap().1.attr("weight").unwrap();
    assert!(!attribute.is_present());
    assert!(matches!(attribute.bytes(), Err(WeightError::NotLoaded { expected: 24, .. })));
    assert_eq!(graph.check(), Ok::<(), GraphError>(()));
}

#[test]
fn ten_times_the_text_takes_about_ten_times_as_long() {
    let chain = |count: usize| {
        let mut text = format!("7767517\n{} {}\npnnx.Input in 0 1 0 #0=(1,8)f32\n", count + 1, count + 1);
        for i in 1..=count {
            let (from, to) = (i - 1, i);
            text += &format!(
                "F.relu relu_{i} 1 1 {from} {to} inplace=True $input={from} #{from}=(1,8)f32 #{to}=(1,8)f32\n"
            );
        }
        text
    };
    let fastest = |text: &str| {
        let time = || {
            let start = std::time::Instant::now();
            assert!(parse(text).is_ok());
            start.elapsed()
        };
        (0..5).map(|_| time()).min().unwrap_or_default()
    };
    let (short, long) = (fastest(&chain(2_000)), fastest(&chain(20_000)));
    // A quadratic loader would take a hundred times as long; the margin is for busy machines.
    assert!(long < short * 40, "{short:?} for 2,000 operators, {long:?} for 20,000");
}

proptest! {
    #[test]
    fn no_damage_makes_the_loader_panic(at in any::<prop::sample::Index>(), with in "[ -~\\n]{0,3}") {
        let at = at.index(GOOD.len());
        let damaged = format!("{}{with}{}", &GOOD[..at], &GOOD[at + 1..]);
        if let Ok(graph) = parse(&damaged) {
            let text = graph.to_param_text();
            prop_assert_eq!(parse(&text).unwrap().to_param_text(), text);
        }
    }

    #[test]
    fn no_bytes_make_the_loader_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = Graph::from_bytes(&bytes, Some(bytes.clone()), &Limits::default());
        let text = [b"7767517\n1 1\n", &bytes[..]].concat();
        let _ = Graph::from_bytes(&text, None, &Limits::default());
    }
}
