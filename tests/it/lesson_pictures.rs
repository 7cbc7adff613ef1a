//! Compares two hand-drawn pictures of the lessons with the engine's actual behaviour.

use ixion::engine::selection::reformat_price;
use ixion::engine::{Builder, Candidate, Plan, Selection};
use ixion::kernels::Isa;
use std::path::Path;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// A text element of a picture.
#[derive(Debug, Clone)]
struct Text {
    x: f64,
    y: f64,
    is_bold: bool,
    text: String,
}

/// The texts of a picture, in file order.
fn texts(picture: &str) -> Vec<Text> {
    let path = root().join(format!("book/src/pictures/{picture}.svg"));
    let picture = std::fs::read_to_string(path).unwrap();
    let text = |rest: &str| {
        let (attributes, rest) = rest.split_once('>').unwrap();
        let number = |name: &str| {
            let (_, value) = attributes.split_once(&format!("{name}=\"")).unwrap();
            value.split_once('"').unwrap().0.parse().unwrap()
        };
        let text = rest.split_once("</text>").unwrap().0.to_owned();
        Text { x: number("x"), y: number(" y"), is_bold: attributes.contains("\"bold\""), text }
    };
    picture.split("<text ").skip(1).map(text).collect()
}

/// A call of a plugin as shown in `15_life.svg`, without types; `None` for calls without side effects.
fn call(line: &str) -> Option<String> {
    let call = line.split_once(": ").map_or(line, |(_, call)| call);
    let (name, rest) =
        call.split_at(call.find(|c: char| !c.is_alphabetic() && c != '_').unwrap_or(call.len()));
    match name {
        "num_inputs" | "num_outputs" | "tactics" => None,
        "infer" | "configure" => {
            let shape = rest.trim_start_matches('(').split(' ').next()?;
            Some(format!("{name} ({})", shape.replace("x.1", "m")))
        }
        _ => Some(name.to_owned()),
    }
}

/// Merges consecutive calls of the same method and adds their number.
fn counted(calls: &[String]) -> Vec<String> {
    let method = |call: &String| call.split(' ').next().map(str::to_owned);
    let runs = calls.chunk_by(|a, b| method(a) == method(b));
    runs.map(|run| match run {
        [one] => one.clone(),
        many => format!("{}, {} times", method(&many[0]).unwrap(), many.len()),
    })
    .collect()
}

#[test]
fn the_life_of_a_layer_is_the_one_that_was_recorded() {
    let trace = |name: &str| {
        let path = root().join(format!("book/src/traces/{name}.txt"));
        std::fs::read_to_string(path).unwrap()
    };
    let building = trace("2-building");
    let last = building.rfind("create").unwrap(); // the earlier call only determines the number of outputs
    let mut wanted = counted(&building[last..].lines().filter_map(call).collect::<Vec<_>>());
    for name in [
        "4-finalisation",
        "5-loading",
        "6-context",
        "7-first-run",
        "8-later-run",
        "9-other-shape",
        "10-destruction",
    ] {
        wanted.extend(counted(&trace(name).lines().filter_map(call).collect::<Vec<_>>()));
    }
    let labels = ["engine", "the plan's layer", "the clone"];
    let calls =
        texts("15_life").into_iter().filter(|text| !text.is_bold && !labels.contains(&text.text.as_str()));
    assert_eq!(calls.map(|text| text.text).collect::<Vec<_>>(), wanted);
}

/// The digit classifier with a batch of one.
fn digits() -> Plan {
    let one = "1,1,8,8".parse().unwrap();
    Builder::new(root().join("model_file/digits/digits.pnnx.param"))
        .with_shape("pnnx_input_0", one)
        .build()
        .unwrap()
}

/// The columns of `16_table.svg`: where they are, and the formats of the first and the last tensor.
const COLUMNS: [(f64, [&str; 2]); 5] = [
    (218.0, ["f32", "f32"]),
    (302.0, ["f32", "f32 16c"]),
    (386.0, ["f32", "f32 8c"]),
    (470.0, ["f32 16c", "f32 16c"]),
    (554.0, ["f32 8c", "f32 8c"]),
];

/// The formats of a candidate's first and last tensor.
fn ends(candidate: &Candidate) -> [String; 2] {
    let formats: Vec<String> = candidate.formats.iter().map(ToString::to_string).collect();
    [formats[0].clone(), formats[formats.len() - 1].clone()]
}

/// The expected cells of an operator's row: a price for each column that it offers, and whether it was selected.
fn prices(selection: &Selection) -> Vec<(f64, String, bool)> {
    let chosen = selection.chosen.map(|chosen| &selection.candidates[chosen]);
    let cell = |(x, formats): (f64, [&str; 2])| {
        let offers = selection.candidates.iter().filter(|candidate| ends(candidate) == formats);
        let best = offers.min_by(|a, b| a.price.total_cmp(&b.price))?;
        let winograd = if best.tactic.name.starts_with("winograd") { "ʷ" } else { "" };
        Some((x, format!("{:.2}{winograd}", best.price / 1000.0), chosen == Some(best)))
    };
    match selection.candidates.len() {
        1 => vec![(COLUMNS[0].0, "only one".to_owned(), false)],
        _ => COLUMNS.into_iter().filter_map(cell).collect(),
    }
}

#[test]
fn the_table_of_formats_matches_the_selection() {
    if ixion::kernels::isa() != Isa::Avx512 {
        println!("not compared: the picture shows a processor with AVX-512");
        return;
    }
    let (plan, texts) = (digits(), texts("16_table"));
    let graph = plan.graph();
    let mut selections = plan.selections().iter();
    let is_row = |text: &&Text| text.x < 20.0 && !text.is_bold && text.text != "and what it reads";
    assert_eq!(texts.iter().filter(is_row).count(), graph.operators().len(), "a row for each operator");
    for operator in graph.operators() {
        let name = operator.name().trim_start_matches("torch.").trim_end_matches("_0");
        let name = if operator.name().starts_with("conv") { operator.name() } else { name };
        let heads = texts.iter().find(|text| text.text == name && text.x < 20.0);
        let y = heads.unwrap_or_else(|| panic!("no row for {name}")).y;
        let row: Vec<&Text> = texts.iter().filter(|text| (text.y - y).abs() < 1.0 && text.x > 20.0).collect();
        let reads: Vec<&str> = operator.inputs().iter().map(|&input| graph.operand(input).name()).collect();
        assert_eq!(row[0].text, reads.join(", "), "what {name} reads");
        let cells = row[1..].iter().map(|text| (text.x, text.text.clone(), text.is_bold)).collect::<Vec<_>>();
        if operator.op_type() == "ixion.Reformat" {
            let [from, to] =
                [operator.inputs()[0], operator.outputs()[0]].map(|it| plan.shapes().get(it).unwrap());
            assert!(
                cells[0].1.ends_with(&format!(", {:.2}", reformat_price(from, to) / 1000.0)),
                "{name}: {cells:?}"
            );
            continue;
        }
        assert_eq!(cells, prices(selections.next().unwrap()), "the row of {name}");
    }
}
