//! A real network: its layers are probed, its formats are selected, and its plan is saved, read and damaged.

use super::super::subject::{Choices, Probe, ask, decode, encode, price_of_set, sets, solve};
use super::{by8, by16, list, plain};
use ixion::Limits;
use ixion::course::probe::Combination;
use ixion::course::reformat_price;
use ixion::engine::{Builder, Formats, Plan, PlanFile, Selection};
use ixion::graph::OperandIndex;
use ixion::op::TensorFormat;
use std::path::{Path, PathBuf};

/// The path of the network that reads digits.
fn digits() -> PathBuf {
    let folders = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().map(|folder| folder.join("model_file"));
    folders.into_iter().find(|folder| folder.is_dir()).unwrap().join("digits/digits.pnnx.param")
}

/// A plan for one image at a time.
fn built(formats: Formats) -> Plan {
    let one = "1,1,8,8".parse().unwrap();
    Builder::new(digits()).with_shape("pnnx_input_0", one).with_formats(formats).build().unwrap()
}

/// The tensors of an operator of a plan with row-major layouts alone.
fn tensors(plan: &Plan, step: usize) -> Vec<OperandIndex> {
    let operator = &plan.graph().operators()[step];
    operator.inputs().iter().chain(operator.outputs()).copied().collect()
}

#[test]
fn task1_the_layers_of_a_real_network_answer() {
    let (cheapest, plan) = (built(Formats::Cheapest), built(Formats::Plain));
    let mut combinations = 0;
    for (step, selection) in cheapest.selections().iter().enumerate() {
        let layer = plan.graph().operators()[step].layer().unwrap();
        let options = vec![list(&[plain(), by16(), by8()]); tensors(&plan, step).len()];
        let mut probe = Probe::of(&options);
        ask(
            &options,
            &|position, formats| layer.supports(position, formats),
            &mut Combination::new(),
            &mut probe,
        );
        let name = &selection.operator;
        assert_eq!(probe.answers, selection.answers, "`{name}` gave the engine other answers");
        combinations += probe.found.len();
    }
    assert_eq!(combinations, 5 * 8 + 3 + 2, "all combinations of all layers");
}

/// A variable for each operator and for each tensor's set of formats, as on the page. With `is_fixed`, all candidates that the
/// engine did not choose cost ∞.
fn choices(plan: &Plan, selections: &[Selection], is_fixed: bool) -> Choices {
    let mut choices = Choices::default();
    for selection in selections {
        let price =
            |(at, price)| if is_fixed && selection.chosen != Some(at) { f64::INFINITY } else { price };
        choices.add(selection.candidates.iter().map(|it| it.price).enumerate().map(price).collect());
    }
    for operand in 0..plan.graph().operands().len() {
        let operand = OperandIndex::new(operand);
        let Some(meta) = plan.shapes().get(operand) else { continue };
        let end = |step: usize, output: bool| {
            let count = plan.graph().operators()[step].inputs().len();
            let ends = tensors(plan, step).into_iter().enumerate();
            let ends = ends.filter(|&(at, it)| it == operand && (at >= count) == output);
            ends.map(|(at, _)| (step, at)).collect::<Vec<_>>()
        };
        let ends = |output| (0..selections.len()).flat_map(|step| end(step, output)).collect::<Vec<_>>();
        let (makers, readers) = (ends(true), ends(false));
        let format = |step: usize, at: usize, option: usize| selections[step].candidates[option].formats[at];
        let mut formats: Vec<TensorFormat> = vec![plain()];
        for &(step, at) in makers.iter().chain(&readers) {
            for option in 0..selections[step].candidates.len() {
                let format = format(step, at, option);
                formats.extend((!formats.contains(&format)).then_some(format));
            }
        }
        let sets = sets(&formats);
        let lying = |format: &TensorFormat| meta.with_dtype(format.dtype).with_format(format.format);
        let price = |from: &TensorFormat, to: &TensorFormat| reformat_price(&lying(from), &lying(to));
        let there =
            |set: usize, format: &TensorFormat| if sets[set].contains(format) { 0.0 } else { f64::INFINITY };
        let variable = choices.add(vec![0.0; sets.len()]);
        for &(step, at) in &makers {
            choices.pair(variable, step, |set, option| {
                price_of_set(&sets[set], &format(step, at, option), &price)
            });
        }
        if makers.is_empty() {
            choices.alone(variable, sets.iter().map(|set| price_of_set(set, &plain(), &price)).collect());
        }
        for &(step, at) in &readers {
            choices.pair(variable, step, |set, option| there(set, &format(step, at, option)));
        }
        if plan.graph().outputs().iter().any(|port| port.operand == operand) {
            choices.alone(variable, (0..sets.len()).map(|set| there(set, &plain())).collect());
        }
    }
    choices
}

#[test]
fn task3_a_real_network_is_solved_as_by_the_engine() {
    let (cheapest, plan) = (built(Formats::Cheapest), built(Formats::Plain));
    let selections = cheapest.selections();
    let (free, fixed) = (choices(&plan, selections, false), choices(&plan, selections, true));
    let (mine, engine) = (solve(&free), solve(&fixed));
    let (mine, engine) = (free.price(&mine), fixed.price(&engine));
    assert!(engine.is_finite() && engine > 0.0, "the engine's choice has a price");
    assert!(
        (mine - engine).abs() <= 1e-6 * engine,
        "you pay {mine} ns, the engine {engine} ns for the same network"
    );
    let plainest: f64 = selections.iter().map(|selection| selection.candidates[0].price).sum();
    assert!(
        mine < plainest,
        "formats and tactics must save something: {mine} ns, without them {plainest} ns"
    );
}

/// A plan is built, saved, read, damaged in each bit of its first page's fields, and truncated.
#[test]
fn task6_a_real_plan_is_read_and_rejected() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("digits.plan");
    let plan = built(Formats::Cheapest);
    plan.save(&path).unwrap();
    let bytes = std::fs::read(&path).unwrap();
    let (page, length) = (&bytes[..4096], bytes.len() as u64);

    let header = decode(page, length).unwrap();
    let file = PlanFile::open(&path, &Limits::default()).unwrap();
    assert_eq!(header.sections, file.sections(), "these are its sections");
    assert_eq!(header.written_by, file.written_by(), "it was written by this Ixion");
    for section in &header.sections {
        let (start, end) = (section.offset as usize, section.end() as usize);
        assert_eq!(crc32fast::hash(&bytes[start..end]), section.crc32, "the bytes of {}", section.kind);
    }
    let written = encode(&header.sections, &header.written_by).unwrap();
    assert_eq!(written, page, "what you read and write again must equal the framework's page, byte by byte");

    for bit in 0..(64 + 24 * header.sections.len()) * 8 {
        let mut page = page.to_vec();
        page[bit / 8] ^= 1 << (bit % 8);
        assert!(
            decode(&page, length).is_err(),
            "bit {} of byte {} is wrong, but was not detected",
            bit % 8,
            bit / 8
        );
    }
    for length in [0, 8, 63, 64, 4095] {
        assert!(decode(&page[..length], length as u64).is_err(), "{length} bytes are not a plan");
    }

    let loaded = Plan::load(&path).unwrap();
    let selections = |plan: &Plan| plan.selections().iter().map(|it| it.chosen).collect::<Vec<_>>();
    assert_eq!(selections(&loaded), selections(&plan), "the loaded plan must have the same selections");
}
