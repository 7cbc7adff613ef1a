//! The formats that layers support and the engine selects.

use ixion::Limits;
use ixion::engine::{Builder, Formats, MAX_ROUNDING_OF_LAST_LAYERS, Plan};
use ixion::op::{CpuLayer, Creator, Io, Layer, LayerError, Registry, TensorFormat, TensorMeta};
use ixion::pnnx;
use ixion::tensor::{DType, Format, Tensor};
use std::collections::BTreeSet;
use std::fmt::Write;

const C16: Format = Format::Blocked { axis: 1, block: 16 };

/// Depthwise convolutions of 32 channels with activations in between and a pooling at the end.
fn chain(depth: usize, side: usize) -> String {
    let mut text = format!("pnnx.Input in 0 1 x #x=(1,32,{side},{side})f32\n");
    let conv = "bias=False dilation=(1,1) groups=32 in_channels=32 kernel_size=(3,3) out_channels=32 padding=(1,1) \
                padding_mode=zeros stride=(1,1) @weight=(32,1,3,3)f32";
    let mut last = "x".to_owned();
    for step in 0..depth {
        writeln!(text, "nn.Conv2d conv{step} 1 1 {last} c{step} {conv}").unwrap();
        writeln!(text, "nn.Hardswish act{step} 1 1 c{step} a{step}").unwrap();
        last = format!("a{step}");
    }
    writeln!(text, "nn.AdaptiveAvgPool2d pool 1 1 {last} y output_size=(1,1)").unwrap();
    text + "pnnx.Output out 1 0 y"
}

fn graph(text: &str) -> pnnx::Graph {
    let text = format!("7767517\n{} 0\n{text}\n", text.lines().count());
    pnnx::Graph::parse(&text, &Limits::default()).unwrap()
}

fn builder(text: &str) -> Builder {
    Builder::from_pnnx(graph(text)).with_random_weights(7)
}

fn reformats(plan: &Plan) -> usize {
    plan.graph().operators().iter().filter(|operator| operator.op_type() == "ixion.Reformat").count()
}

fn noise(dims: &[usize]) -> Tensor {
    let len: usize = dims.iter().product();
    let values = (0..len).map(|i| ((i * 37) % 101) as f32 * 0.02 - 1.0).collect();
    Tensor::from_vec(values, dims).unwrap()
}

#[test]
fn depthwise_convolutions_work_on_blocks_from_end_to_end() {
    let text = chain(16, 56);
    let plan = builder(&text).build().unwrap();
    let formats =
        |operator: &ixion::graph::RuntimeOperator| plan.graph().operand(operator.outputs()[0]).format();
    assert_eq!(reformats(&plan), 2, "one at each border");
    let convolutions = plan.graph().operators().iter().filter(|it| it.op_type() == "nn.Conv2d");
    assert!(convolutions.map(formats).all(|format| format == C16));

    let x = noise(&[1, 32, 56, 56]);
    let plain = builder(&text).with_formats(Formats::Plain).build().unwrap();
    assert_eq!(reformats(&plain), 0);
    let outputs = [&plan, &plain].map(|plan| plan.context().unwrap().run(std::slice::from_ref(&x)).unwrap());
    let comparison = outputs[0][0].allclose(&outputs[1][0], 1e-5, 1e-5, true).unwrap();
    assert!(comparison.holds(), "{comparison}");
}

#[test]
fn other_shapes_run_in_the_selected_formats() {
    let text = chain(16, 40);
    let (plan, plain) =
        (builder(&text).build().unwrap(), builder(&text).with_formats(Formats::Plain).build().unwrap());
    let (mut blocked, mut wanted) = (plan.context().unwrap(), plain.context().unwrap());
    for dims in [[1, 32, 40, 40], [3, 32, 7, 9], [0, 32, 5, 5], [2, 32, 1, 40], [1, 32, 40, 40]] {
        let x = noise(&dims);
        let (got, want) = (blocked.run(&[x.clone()]).unwrap(), wanted.run(&[x]).unwrap());
        let comparison = got[0].allclose(&want[0], 1e-5, 1e-5, true).unwrap();
        assert!(comparison.holds(), "{dims:?}: {comparison}");
    }
}

/// Compares the formats selected for these shapes with plain tensors, for inputs of each shape.
fn is_the_same_as_plain(text: &str, shapes: &[&[usize]]) -> Plan {
    let plan = builder(text).build().unwrap();
    let plain = builder(text).with_formats(Formats::Plain).build().unwrap();
    let (mut selected, mut wanted) = (plan.context().unwrap(), plain.context().unwrap());
    for dims in shapes {
        let x = noise(dims);
        let (got, want) = (selected.run(&[x.clone()]).unwrap(), wanted.run(&[x]).unwrap());
        let comparison = got[0].allclose(&want[0], 1e-4, 1e-4, true).unwrap();
        assert!(comparison.holds(), "{dims:?}: {comparison}");
    }
    drop((selected, wanted));
    plan
}

fn is_blocked(plan: &Plan, operator: &str) -> bool {
    let mut operators = plan.graph().operators().iter();
    let found = operators.find(|it| it.name() == operator).map(|it| plan.graph().operand(it.outputs()[0]));
    found.is_some_and(|operand| operand.format() != Format::Plain)
}

#[test]
fn blocks_are_made_of_views_of_any_strides() {
    let conv = "bias=False dilation=(1,1) groups=1 kernel_size=(3,3) out_channels=64 padding=(1,1) padding_mode=zeros";
    let turned = format!(
        "pnnx.Input in 0 1 x #x=(2,20,24,6)f32\ntorch.permute turn 1 1 x t dims=(0,3,1,2)\n\
         nn.Conv2d conv 1 1 t c {conv} in_channels=6 stride=(1,1) @weight=(64,6,3,3)f32\n\
         nn.ReLU act 1 1 c r\nnn.Conv2d deep 1 1 r d {conv} in_channels=64 stride=(1,1) @weight=(64,64,3,3)f32\n\
         nn.AdaptiveAvgPool2d pool 1 1 d y output_size=(1,1)\npnnx.Output out 1 0 y"
    );
    let plan = is_the_same_as_plain(&turned, &[&[2, 20, 24, 6], &[1, 7, 5, 6]]);
    assert!(is_blocked(&plan, "conv"));
    let halves = format!(
        "pnnx.Input in 0 1 x #x=(3,12,20,20)f32\ntorch.chunk cut 1 2 x a b chunks=2 dim=1\n\
         nn.Conv2d conv 1 1 b c {conv} in_channels=6 stride=(2,2) @weight=(64,6,3,3)f32\n\
         nn.Conv2d conv2 1 1 a d {conv} in_channels=6 stride=(2,2) @weight=(64,6,3,3)f32\n\
         pnnx.Expression sum 2 1 c d y expr=add(@0,@1)\npnnx.Output out 1 0 y"
    );
    is_the_same_as_plain(&halves, &[&[3, 12, 20, 20], &[2, 12, 9, 8]]);
}

#[test]
fn small_images_run_with_padding_selected_for_large_ones() {
    let conv = "bias=False dilation=(36,36) groups=1 in_channels=64 kernel_size=(3,3) out_channels=16 padding=(36,36) \
                padding_mode=zeros stride=(1,1) @weight=(16,64,3,3)f32";
    let text = format!(
        "pnnx.Input in 0 1 x #x=(1,64,72,72)f32\nnn.Conv2d conv 1 1 x c {conv}\nnn.ReLU act 1 1 c y\n\
         pnnx.Output out 1 0 y"
    );
    let plan = is_the_same_as_plain(&text, &[&[1, 64, 72, 72], &[1, 64, 4, 5], &[2, 64, 1, 1]]);
    assert!(is_blocked(&plan, "conv"));
}

#[test]
fn squeezes_excitations_and_skips_stay_in_blocks() {
    let conv = "bias=False dilation=(1,1) padding_mode=zeros";
    let (full, deep, wide) = (
        format!(
            "{conv} groups=1 in_channels=48 kernel_size=(3,3) out_channels=48 padding=(1,1) stride=(1,1)"
        ),
        format!("{conv} groups=48 in_channels=48 kernel_size=(3,3) out_channels=48 padding=(1,1)"),
        format!("{conv} groups=1 kernel_size=(1,1) padding=(0,0) stride=(1,1)"),
    );
    // Full blocks of 16, and blocks of which the last is partial.
    for channels in [32, 40] {
        let text = format!(
            "pnnx.Input in 0 1 x #x=(1,48,40,40)f32\n\
             nn.Conv2d conv 1 1 x a {full} @weight=(48,48,3,3)f32\n\
             nn.AdaptiveAvgPool2d squeeze 1 1 a p output_size=(1,1)\n\
             nn.Conv2d fc 1 1 p e {wide} in_channels=48 out_channels=48 @weight=(48,48,1,1)f32\n\
             pnnx.Expression scale 2 1 e a b expr=mul(hardsigmoid(@0),@1)\n\
             nn.Conv2d half 1 1 b c {deep} stride=(2,2) @weight=(48,1,3,3)f32\n\
             nn.Upsample up 1 1 c u mode=nearest scale_factor=(2.0,2.0)\n\
             torch.cat cat 2 1 u b s dim=1\n\
             nn.Conv2d mix 1 1 s m {wide} in_channels=96 out_channels={channels} @weight=({channels},96,1,1)f32\n\
             torch.cat other 2 1 b m y dim=1\n\
             nn.Conv2d last 1 1 y z {wide} in_channels={} out_channels=32 @weight=(32,{},1,1)f32\n\
             pnnx.Output out 1 0 z",
            48 + channels,
            48 + channels
        );
        let plan = is_the_same_as_plain(&text, &[&[1, 48, 40, 40], &[2, 48, 6, 8], &[1, 48, 40, 40]]);
        for operator in ["scale", "up", "cat", "other"] {
            assert!(is_blocked(&plan, operator), "{operator}");
        }
    }
}

#[test]
fn blocks_that_are_not_full_are_not_joined() {
    let conv = "bias=False dilation=(1,1) groups=24 in_channels=24 kernel_size=(3,3) out_channels=24 padding=(1,1) \
                padding_mode=zeros stride=(1,1) @weight=(24,1,3,3)f32";
    let text = format!(
        "pnnx.Input in 0 1 x #x=(1,24,40,40)f32\nnn.Conv2d a 1 1 x a {conv}\nnn.Conv2d b 1 1 a b {conv}\n\
         torch.cat cat 2 1 a b y dim=1\npnnx.Output out 1 0 y"
    );
    let plan = is_the_same_as_plain(&text, &[&[1, 24, 40, 40], &[2, 24, 5, 5]]);
    assert!(!is_blocked(&plan, "cat"));
}

#[test]
fn what_was_not_chosen_is_reported() {
    let plan = builder(&chain(16, 56)).build().unwrap();
    let conv = plan.selections().iter().find(|selection| selection.operator == "conv1").unwrap();
    let chosen = &conv.candidates[conv.chosen.unwrap()];
    assert_eq!(chosen.formats[0], TensorFormat::plain(DType::F32).blocked(1, 16));
    let plain =
        conv.candidates.iter().find(|candidate| candidate.formats[0].format == Format::Plain).unwrap();
    assert!(plain.price > chosen.price, "{} and {}", plain.price, chosen.price);
    assert_eq!(conv.answers[0].taken.len(), 3);
    assert_eq!(conv.answers[0].taken[1].to_string(), "f32 16c");
}

/// Two dense 3×3 convolutions, and the sum of their output and their input.
fn windows_of_three(channels: usize, side: usize) -> String {
    let conv = format!(
        "bias=True dilation=(1,1) groups=1 in_channels={channels} kernel_size=(3,3) out_channels={channels} \
         padding=(1,1) padding_mode=zeros stride=(1,1) @weight=({channels},{channels},3,3)f32 @bias=({channels})f32"
    );
    format!(
        "pnnx.Input in 0 1 x #x=(1,{channels},{side},{side})f32\nnn.Conv2d conv0 1 1 x a {conv}\n\
         nn.ReLU act 1 1 a b\nnn.Conv2d conv1 1 1 b c {conv}\npnnx.Expression sum 2 1 b c y expr=relu(add(@0,@1))\n\
         pnnx.Output out 1 0 y"
    )
}

/// The names of the tactics selected for convolutions.
fn tactics(plan: &Plan) -> Vec<&'static str> {
    let chosen = plan.selections().iter().filter(|selection| selection.operator.starts_with("conv"));
    let chosen = chosen.map(|selection| selection.candidates[selection.chosen.unwrap()].tactic.name);
    chosen.collect()
}

#[test]
fn tiles_that_round_a_lot_are_used_only_if_the_plan_may_be_fast() {
    let text = windows_of_three(48, 30);
    let considers = |plan: &Plan| {
        let mut candidates = plan.selections().iter().flat_map(|selection| &selection.candidates);
        candidates.any(|candidate| candidate.tactic.name == "winograd-6x6")
    };
    // Both convolutions are among the last layers.
    let left_out = |plan: &Plan| {
        let inexact = plan.selections().iter().flat_map(|selection| &selection.inexact);
        let inexact = inexact.map(|it| (it.candidate.tactic.name, it.rounding > MAX_ROUNDING_OF_LAST_LAYERS));
        inexact.collect::<BTreeSet<_>>()
    };
    let exact = builder(&text).build().unwrap();
    let fast = builder(&text).with_fast_tactics().build().unwrap();
    assert!(!considers(&exact) && considers(&fast));
    assert_eq!(left_out(&exact), BTreeSet::from(["winograd-4x4", "winograd-6x6"].map(|name| (name, true))));
    assert!(left_out(&fast).is_empty());
    let preferred = builder(&text).with_tactics(["winograd-6x6"]).build().unwrap();
    assert!(tactics(&preferred).contains(&"winograd-6x6"), "{:?}", tactics(&preferred));
}

#[test]
fn windows_of_three_go_by_winograds_method_unless_it_is_left_out() {
    let text = windows_of_three(48, 30);
    let plan = builder(&text).build().unwrap();
    let without = builder(&text).without_tactics(["winograd"]).build().unwrap();
    assert!(tactics(&plan).iter().any(|name| name.starts_with("winograd-")), "{:?}", tactics(&plan));
    assert_eq!(tactics(&without), ["default"; 2]);
    let largest =
        builder(&text).without_tactics(["winograd-2x2", "winograd-4x4", "winograd"]).build().unwrap();
    assert_eq!(tactics(&largest), ["default"; 2]);
    let smaller = builder(&text).without_tactics(["winograd-4x4", "winograd-6x6", "wino"]).build().unwrap();
    assert!(tactics(&smaller).contains(&"winograd-2x2"), "{:?}", tactics(&smaller));

    let path = std::env::temp_dir().join(format!("ixion-winograd-{}.plan", std::process::id()));
    plan.save(&path).unwrap();
    let loaded = Plan::load(&path);
    std::fs::remove_file(&path).unwrap();
    let loaded = loaded.unwrap();
    assert_eq!(tactics(&loaded), tactics(&plan));
    let threads = builder(&text).with_threads(2).build().unwrap();
    for dims in [[1, 48, 30, 30], [2, 48, 7, 9], [1, 48, 1, 2], [0, 48, 5, 5]] {
        let x = noise(&dims);
        let run = |plan: &Plan| plan.context().unwrap().run(std::slice::from_ref(&x)).unwrap().swap_remove(0);
        let (got, want) = (run(&plan), run(&without));
        let largest = want.to_vec::<f32>().unwrap().into_iter().fold(0.0, f32::max);
        let comparison = got.allclose(&want, 0.0, 1e-4 * f64::from(largest), true).unwrap();
        assert!(comparison.holds(), "{dims:?}: {comparison}");
        for same in [run(&loaded), run(&threads)] {
            assert_eq!(same.to_le_bytes().unwrap(), got.to_le_bytes().unwrap(), "{dims:?}");
        }
    }
}

/// Copies its input; supports the formats that it is given.
#[derive(Debug, Clone)]
struct Picky(Takes);

/// An implementation of [`CpuLayer::supports`].
type Takes = fn(usize, &[TensorFormat]) -> bool;

impl Layer for Picky {
    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>, LayerError> {
        Ok(vec![inputs[0].with_dims(inputs[0].dims().to_vec())])
    }
}

impl CpuLayer for Picky {
    fn supports(&self, position: usize, formats: &[TensorFormat]) -> bool {
        (self.0)(position, formats)
    }

    fn forward(&mut self, io: &mut Io<'_, '_>) -> Result<(), LayerError> {
        let (from, to) = (io.inputs[0].layout().unrolled()?, io.outputs[0].layout().unrolled()?);
        assert_eq!(io.inputs[0].layout().format(), io.outputs[0].layout().format());
        Ok(io.outputs[0].reborrow().with_layout(to)?.copy_from(&io.inputs[0].with_layout(from)?)?)
    }
}

fn picky(takes: &[(&str, Takes)]) -> Registry {
    let mut registry = Registry::default();
    for &(op_type, takes) in takes {
        let create =
            move |_: &mut ixion::op::OperatorReader<'_>| Ok(Box::new(Picky(takes)) as Box<dyn CpuLayer>);
        registry.add(op_type, Creator::new("test", "1", create)).unwrap();
    }
    registry
}

fn same(formats: &[TensorFormat], wanted: Format) -> bool {
    formats.iter().all(|format| format.format == wanted)
}

#[test]
fn no_combination_is_an_error_that_says_what_each_side_offered() {
    let registry = picky(&[("my.Never", |position, formats| position == 0 && same(formats, Format::Plain))]);
    let text = "pnnx.Input in 0 1 x #x=(2,4)f32\nmy.Never never 1 1 x y\npnnx.Output out 1 0 y";
    let error = builder(text).with_registry(registry).build().unwrap_err().to_string();
    assert!(
        error.contains("my.Never `never`")
            && error.contains("input 0 (`x`): takes f32, refuses f32 16c, f32 8c")
            && error.contains("output 0 (`y`): takes nothing, refuses f32"),
        "{error}"
    );
}

#[test]
fn a_conversion_is_made_once_for_all_of_its_readers() {
    let registry = picky(&[
        ("my.Blocked", |_, formats| same(formats, C16)),
        ("my.Plain", |_, formats| same(formats, Format::Plain)),
    ]);
    let text = "pnnx.Input in 0 1 x #x=(2,20,3)f32\nmy.Blocked a 1 1 x a\nmy.Blocked b 1 1 x b\nmy.Plain c 1 1 x c\n\
                my.Plain d 1 1 a d\nmy.Plain e 1 1 a e\npnnx.Output out 6 0 a b c d e a";
    let plan = builder(text).with_registry(registry).build().unwrap();
    // x is blocked for a and b; a and b are plain, each once for all readers and outputs.
    assert_eq!(reformats(&plan), 3);
    let x = noise(&[2, 20, 3]);
    let outputs = plan.context().unwrap().run(&[x.clone()]).unwrap();
    assert!(outputs.len() == 6 && outputs.iter().all(|output| *output == x));
    assert!(["a", "b", "c", "d", "e"].iter().all(|name| plan.output(name).is_some()), "names stay");
}

#[test]
fn a_layer_that_panics_in_supports_is_named() {
    let registry = picky(&[("my.Panics", |_, _| panic!("I was asked"))]);
    let text = "pnnx.Input in 0 1 x #x=(2,4)f32\nmy.Panics p 1 1 x y\npnnx.Output out 1 0 y";
    let error = builder(text).with_registry(registry).build().unwrap_err().to_string();
    assert!(error.contains("my.Panics `p`") && error.contains("I was asked"), "{error}");
}

/// The sum of a blocked tensor and an input, which may have to be broadcast.
const SUM: &str = "pnnx.Input in 0 1 x #x=(1,32,56,56)f32\npnnx.Input other 0 1 y #y=(1,32,56,56)f32\n\
                   my.Blocked b 1 1 x t\nmy.Blocked c 1 1 y u\npnnx.Expression sum 2 1 t u s expr=add(@0,@1)\n\
                   my.Blocked d 1 1 s z\npnnx.Output out 2 0 z t";

#[test]
fn shapes_that_may_differ_are_not_assumed_equal() {
    let registry = || picky(&[("my.Blocked", |_, formats| same(formats, C16))]);
    let plan = builder(SUM).with_registry(registry()).build().unwrap();
    let sum = plan.graph().operator_named("sum").unwrap();
    assert_eq!(plan.graph().operand(sum.outputs()[0]).format(), Format::Plain);
    let (x, y) = (noise(&[1, 32, 56, 56]), noise(&[1, 1, 56, 56]));
    let outputs = plan.context().unwrap().run(&[x.clone(), y.clone()]).unwrap();
    let want = x.array::<f32>().unwrap().to_owned() + y.array::<f32>().unwrap();
    assert!(outputs[0].allclose(&Tensor::from_array(want).unwrap(), 0.0, 0.0, false).unwrap().holds());

    let folder = tempfile::tempdir().unwrap();
    plan.save(folder.path().join("x.plan")).unwrap();
    let loaded = ixion::engine::PlanFile::open(folder.path().join("x.plan"), &Limits::default()).unwrap();
    let loaded = loaded.with_registry(registry()).load().unwrap();
    assert_eq!(loaded.context().unwrap().run(&[x, y]).unwrap(), outputs);
}

#[test]
fn shapes_that_are_equal_stay_in_blocks() {
    let text = SUM.replace("pnnx.Input other 0 1 y #y=(1,32,56,56)f32\n", "").replace("1 1 y u", "1 1 x u");
    let registry = picky(&[("my.Blocked", |_, formats| same(formats, C16))]);
    let plan = builder(&text).with_registry(registry).build().unwrap();
    let sum = plan.graph().operator_named("sum").unwrap();
    assert_eq!(plan.graph().operand(sum.outputs()[0]).format(), C16);
}
