//! The tests of each task of lesson 03.

use super::subject::{Field, Line, dim, field, link, number, operator_line, shape, word};
use ixion_pnnx::{Dim, Graph, Unlinked};
use ixion_tensor::DType;
use ixion_tensor::Limits;
use std::path::{Path, PathBuf};

/// A model file in the repository that contains this package.
fn model_file(name: &str) -> PathBuf {
    let folders = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().map(|folder| folder.join("model_file"));
    folders.into_iter().find(|folder| folder.is_dir()).unwrap().join(name)
}

/// The parsed field, if the parser stops exactly at its end.
#[track_caller]
fn one(text: &str) -> Field<'_> {
    match field(text) {
        Ok(("", found)) => found,
        Ok((rest, found)) => panic!("`{text}` is one field, but after {found:?} `{rest}` is left"),
        Err(stop) => panic!("`{text}` is a field, but the parser returns {stop:?}"),
    }
}

/// The parsed line.
#[track_caller]
fn line(text: &str) -> Line<'_> {
    match operator_line(text) {
        Ok(line) => line,
        Err(stop) => panic!("`{text}` is a line, but at `{}` the parser expects {}", stop.at, stop.wanted),
    }
}

#[test]
fn task1_a_word_ends_at_a_blank() {
    let hint = "a parser returns the rest first, then the parsed value; the blank stays in the rest";
    assert_eq!(word("nn.Linear fc 1 1").ok(), Some((" fc 1 1", "nn.Linear")), "{hint}");
    assert_eq!(word("out").ok(), Some(("", "out")), "the end of the line ends a word as well");
    assert_eq!(word("a\tb").ok(), Some(("\tb", "a")), "a tab is a blank: ask `is_blank`");
}

#[test]
fn task1_blanks_before_a_word_are_skipped() {
    assert_eq!(word("   fc 1").ok(), Some((" 1", "fc")), "PNNX aligns its columns with several blanks");
}

#[test]
fn task1_a_word_holds_everything_but_blanks() {
    let text = "expr=add(@0,mul(@1,2)) #6=(1,8)f32";
    let hint = "brackets, commas and `=` do not end a word";
    assert_eq!(word(text).ok(), Some((" #6=(1,8)f32", "expr=add(@0,mul(@1,2))")), "{hint}");
}

#[test]
fn task1_no_word_is_an_error() {
    assert!(word("").is_err(), "there is no word in an empty text: is it `take_till` or `take_till1`?");
    assert!(word("   ").is_err(), "blanks alone are not a word");
}

#[test]
fn task1_numbers() {
    assert_eq!(number("12 3").ok(), Some((" 3", 12)));
    assert_eq!(number("  0").ok(), Some(("", 0)), "blanks before a number are skipped");
    assert!(number("3x").is_err(), "`3x` is not a number: the word must end where the digits end");
    assert!(number("-1").is_err(), "a number of inputs cannot be -1");
    assert!(number("x").is_err());
    let huge = "99999999999999999999";
    assert!(number(huge).is_err(), "{huge} does not fit a usize: that is an error, not a reason to panic");
}

#[test]
fn task2_one_size() {
    assert_eq!(dim("64,3)").ok(), Some((",3)", Dim::Fixed(64))));
    assert_eq!(dim("?)f32").ok(), Some((")f32", Dim::Unknown)));
    let named = |name: &str| Dim::Named(name.to_owned());
    assert_eq!(dim("%w)f32").ok(), Some((")f32", named("w"))), "the name ends at the bracket, without the %");
    assert_eq!(dim("%batch,3)").ok(), Some((",3)", named("batch"))), "the name ends at the comma");
    for text in ["-1", "x", "%,3)", "", "99999999999999999999"] {
        assert!(dim(text).is_err(), "`{text}` is not a size");
    }
}

#[test]
fn task2_a_shape() {
    let wanted = vec![Dim::Fixed(1), Dim::Fixed(3), Dim::Unknown];
    assert_eq!(shape("(1,3,?)f32", dim).ok(), Some(("f32", wanted)));
    assert_eq!(shape("(7)", dim).ok(), Some(("", vec![Dim::Fixed(7)])), "one size has no comma");
    assert_eq!(shape("()f32", dim).ok(), Some(("f32", vec![])), "the shape of a scalar has no sizes");
    for text in ["1,2", "(1,2", "(1;2)", "(1,)", "(,1)", "(1 2)", "(1,-2)"] {
        assert!(shape(text, dim).is_err(), "`{text}` is not a shape");
    }
}

#[test]
fn task2_an_error_points_to_the_size_that_is_wrong() {
    let stop = match shape("(1,-2)f32", dim) {
        Err(nom::Err::Error(stop) | nom::Err::Failure(stop)) => stop,
        other => panic!("`(1,-2)f32` is not a shape, but the parser returns {other:?}"),
    };
    let hint =
        "separated_list1 takes an error after a comma for the end of its list; `cut(size)` prevents that";
    assert_eq!(stop.at, "-2)f32", "the error is at -2, not at the comma before it: {hint}");
}

#[test]
fn task3_parameters() {
    assert_eq!(one("bias=True"), Field::Param { key: "bias", value: "True" });
    assert_eq!(one("stride=(2,2)"), Field::Param { key: "stride", value: "(2,2)" });
    assert_eq!(
        one("k=a=b"),
        Field::Param { key: "k", value: "a=b" },
        "a value may contain `=`: only the first one counts"
    );
    assert_eq!(one("k="), Field::Param { key: "k", value: "" }, "a value may be empty");
    assert!(field("=1").is_err(), "every parameter has a key");
    let place = match field("b") {
        Err(nom::Err::Error(stop) | nom::Err::Failure(stop)) => stop.at,
        other => panic!("`b` has no `=`, but the parser returns {other:?}"),
    };
    let hint = "`equals` reports its own position, after the b: use `char('=')` in `param`";
    assert_eq!(place, "b", "`field` points at the word that is not a parameter: {hint}");
    let (rest, _) = field("a=1 b=2").unwrap_or(("", Field::Param { key: "", value: "" }));
    assert_eq!(rest, " b=2", "a field ends where its word ends");
}

#[test]
fn task3_attributes() {
    let wanted = Field::Attr { key: "weight", shape: vec![64, 3, 7, 7], dtype: DType::F32 };
    assert_eq!(one("@weight=(64,3,7,7)f32"), wanted);
    assert_eq!(one("@data=()i64"), Field::Attr { key: "data", shape: vec![], dtype: DType::I64 });
    assert!(field("@weight=(64,?)f32").is_err(), "the sizes of a weight are known: use `size`, not `dim`");
    assert!(field("@weight=(64)f23").is_err(), "f23 is not an element type");
    assert!(field("@weight=64").is_err(), "a weight has a shape");
}

#[test]
fn task3_names_of_inputs() {
    let hint = "after the $ comes the name of the argument, after the = the operand";
    assert_eq!(one("$weight=5"), Field::InputName { key: "weight", operand: "5" }, "{hint}");
    assert!(field("$weight=").is_err(), "an operand has a name");
    assert!(field("$a=b=c").is_err(), "the name of an operand cannot contain `=`");
}

#[test]
fn task3_shapes_of_operands() {
    let shape = vec![Dim::Unknown, Dim::Fixed(10), Dim::Named("w".to_owned())];
    let wanted = Field::Shape { operand: "21", shape, dtype: Some(DType::F32) };
    assert_eq!(one("#21=(?,10,%w)f32"), wanted);
    let wanted = Field::Shape { operand: "3", shape: vec![], dtype: None };
    assert_eq!(
        one("#3=()null"),
        wanted,
        "`null` means that the operand is not a tensor: it has no element type"
    );
    assert!(field("#3=(1)nil").is_err(), "nil is neither an element type nor null");
}

#[test]
fn task4_a_line_is_taken_apart() {
    let found = line("nn.Linear  fc  1 1 0 3 bias=True @weight=(16,64)f32 $input=0 #3=(1,16)f32");
    assert_eq!((found.op_type, found.name), ("nn.Linear", "fc"), "first the type, then the name");
    assert_eq!(
        (&found.inputs[..], &found.outputs[..]),
        (&["0"][..], &["3"][..]),
        "then inputs, then outputs"
    );
    assert_eq!(found.fields.len(), 4, "then the fields: {:?}", found.fields);
    assert_eq!(found.fields[0], Field::Param { key: "bias", value: "True" });
}

#[test]
fn task4_the_counts_separate_inputs_and_outputs() {
    let found = line("torch.cat cat 3 1 a b a c dim=1");
    assert_eq!(found.inputs, ["a", "b", "a"], "3 inputs, one of them twice");
    assert_eq!(found.outputs, ["c"], "1 output");
    let found = line("pnnx.Input in 0 2 x y");
    assert_eq!((found.inputs.len(), &found.outputs[..]), (0, &["x", "y"][..]), "no inputs, 2 outputs");
    assert_eq!(line("pnnx.Output out 1 0 y").outputs.len(), 0, "no outputs");
}

#[test]
fn task4_wrong_counts_are_errors() {
    let at = |text: &'static str| operator_line(text).err().map(|stop| stop.at.trim());
    let hint = "two inputs are announced, but `k=v` is not an operand. The error is at its first letter: `context(wanted, …)`";
    assert_eq!(at("T n 2 0 a k=v"), Some("k=v"), "{hint}");
    assert_eq!(at("T n 1 1 a"), Some(""), "the line ends before its output");
    assert_eq!(at("T n 1 0 a b"), Some("b"), "b is one operand more than announced: the error is at b");
    let huge = "T n 18446744073709551615 0 a";
    assert_eq!(at(huge), Some(""), "a count from a file is not a reason to allocate memory");
}

#[test]
fn task4_lines_end_in_many_ways() {
    let wanted = line("T n 1 1 a b k=v");
    assert_eq!(line("T n 1 1 a b k=v\r"), wanted, "files from Windows end their lines with \\r\\n");
    assert_eq!(line("T   n  1 1 a b  k=v  "), wanted, "blanks at the end are ignored");
}

/// A graph of these lines, with the learner's parser and the learner's `link`.
#[track_caller]
fn linked<'a>(lines: &[&'a str]) -> Result<Graph, Unlinked<'a>> {
    let mut graph = Graph::new();
    for text in lines {
        link(&mut graph, &line(text))?;
    }
    Ok(graph)
}

const ADD: [&str; 4] =
    ["pnnx.Input in 0 1 x", "F.relu relu 1 1 x y", "torch.add add 2 1 x y z", "pnnx.Output out 1 0 z"];

#[test]
fn task5_operators_and_operands_know_each_other() {
    let graph = linked(&ADD).unwrap();
    assert_eq!((graph.operator_count(), graph.operand_count()), (4, 3), "four lines, and x, y and z");
    let id = |name: &str| graph.operator_named(name).unwrap();
    let (_, x) = graph.operands().find(|(_, operand)| operand.name() == "x").unwrap();
    assert_eq!(x.producer(), Some(id("in")), "`in` computes x");
    assert_eq!(x.consumers(), [id("relu"), id("add")], "relu and add read x");
    let inputs: Vec<&str> =
        graph.operator(id("add")).inputs().iter().map(|&input| graph.operand(input).name()).collect();
    assert_eq!(inputs, ["x", "y"], "inputs keep their order: x - y is not y - x");
    assert_eq!(graph.operator(id("add")).op_type(), "torch.add");
}

#[test]
fn task5_an_input_must_be_computed_before() {
    let unknown = linked(&["pnnx.Input in 0 1 x", "F.relu relu 1 1 q y"]).err();
    assert_eq!(unknown, Some(Unlinked::UnknownOperand("q")), "no line computes q");
    let early = linked(&["pnnx.Input in 0 1 x", "F.relu a 1 1 z y", "F.relu b 1 1 x z"]).err();
    assert_eq!(early, Some(Unlinked::UnknownOperand("z")), "z is computed only by a later line");
    let cycle = linked(&["F.relu a 1 1 z z"]).err();
    let hint = "a reads its own output: are inputs connected before outputs are created?";
    assert_eq!(cycle, Some(Unlinked::UnknownOperand("z")), "{hint}");
}

#[test]
fn task5_names_are_unique() {
    let hint = "is it `Refused`? `?` alone returns that; `map_err` adds the name";
    let twice = linked(&["pnnx.Input a 0 1 x", "pnnx.Input a 0 1 y"]).err();
    assert_eq!(twice, Some(Unlinked::DuplicateOperator("a")), "two operators are called a: {hint}");
    let twice = linked(&["pnnx.Input a 0 1 x", "pnnx.Input b 0 1 x"]).err();
    assert_eq!(twice, Some(Unlinked::ComputedTwice("x")), "x would have two producers: {hint}");
}

/// A graph as text, for comparison: the type, name, inputs and outputs of each operator.
fn described(graph: &Graph) -> Vec<String> {
    let names = |ids: &[ixion_pnnx::OperandId]| {
        ids.iter().map(|&id| graph.operand(id).name()).collect::<Vec<_>>().join(" ")
    };
    let line = |operator: &ixion_pnnx::Operator| {
        let (inputs, outputs) = (names(operator.inputs()), names(operator.outputs()));
        format!("{} {} ({inputs}) -> ({outputs})", operator.op_type(), operator.name())
    };
    graph.operators().map(|(_, operator)| line(operator)).collect()
}

#[test]
fn task5_real_models_are_read() {
    for model in ["linear", "conv3", "two_inputs", "digits", "resnet18", "shapes_unet", "shapes_detector"] {
        let path = model_file(&format!("{model}/{model}.pnnx.param"));
        let text = std::fs::read_to_string(&path).unwrap();
        let lines: Vec<&str> = text.lines().skip(2).collect();
        let graph = linked(&lines).unwrap();
        let wanted = Graph::load(&path, None, &Limits::default()).unwrap();
        assert_eq!(described(&graph), described(&wanted), "{model}: the framework reads a different graph");
        let fields: usize = lines.iter().map(|text| line(text).fields.len()).sum();
        println!(
            "{model}: {} operators, {} operands, {fields} fields",
            graph.operator_count(),
            graph.operand_count()
        );
        if model == "digits" {
            assert_eq!((graph.operator_count(), graph.operand_count()), (23, 22), "{model}");
        }
    }
}
