//! int8 end to end: scales are calibrated, a plan is built with them, and its accuracy is measured.

use crate::scenes;
use ixion::Limits;
use ixion::engine::{Builder, Calibration, EngineError, Formats, Method, Plan, PlanFile, Precision, Scales};
use ixion::op::PACKED;
use ixion::pnnx::Graph;
use ixion::tensor::{Color, DType, Picture, Tensor};
use ixion::vision::{AveragePrecision, ModelCard, Rect, Truth};
use std::path::{Path, PathBuf};

const SIZE: usize = 128;
/// Scenes for calibration; the model was trained neither on them nor on those used for evaluation.
const CALIBRATION_SEED: u64 = 77;
const SEED: u64 = 4711;

fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("model_file").join(name)
}

fn builder(name: &str) -> Builder {
    Builder::new(folder(name).join(format!("{name}.pnnx.param")))
}

/// One pass of calibration over the inputs.
type Seeing = dyn Fn(&mut Calibration, Vec<Tensor>) -> Result<(), EngineError>;

/// The scales of a model, with layers that lose too much kept in f32, and the lowest signal-to-noise ratio of the others.
fn calibrated(name: &str, inputs: &[Tensor], method: Method) -> (Scales, f64) {
    let mut calibration = Calibration::new(builder(name)).unwrap();
    let mut all = |see: &Seeing| {
        inputs.iter().for_each(|input| see(&mut calibration, vec![input.clone()]).unwrap());
    };
    all(&|calibration, input| calibration.see_range(input));
    if method == Method::Entropy {
        all(&|calibration, input| calibration.see_magnitudes(input));
    }
    let scales = calibration.scales(method);
    inputs.iter().for_each(|input| calibration.see_loss(vec![input.clone()], &scales).unwrap());
    let scales = calibration.keep_below(scales, 20.0);
    let taken = calibration.losses().into_iter().filter(|loss| !scales.keeps(&loss.operator));
    let least = taken.map(|loss| loss.decibels()).fold(f64::INFINITY, f64::min);
    (scales, least)
}

/// A plan that uses int8 wherever possible.
fn int8_plan(name: &str, scales: &Scales) -> Plan {
    let builder = builder(name).with_precisions([Precision::Int8]).with_scales(scales.clone());
    builder.with_formats(Formats::Narrowest).build().unwrap()
}

/// The number of operators of these types with int8 inputs.
fn quantized_operators(plan: &Plan, op_types: &[&str]) -> usize {
    let graph = plan.graph();
    let operators = graph.operators().iter().filter(|operator| op_types.contains(&operator.op_type()));
    operators.filter(|operator| graph.operand(operator.inputs()[0]).scale().is_some()).count()
}

fn digits() -> (Vec<Tensor>, Tensor, Vec<u8>) {
    let limits = Limits::default();
    let calibration = Tensor::load_npy(folder("digits/calibration/0.npy"), &limits).unwrap();
    let entry = |name| Tensor::load_npz_entry(folder("digits/test.npz"), name, &limits).unwrap();
    let images: Vec<f32> =
        entry("images").to_vec::<u8>().unwrap().into_iter().map(|x| f32::from(x) / 16.0).collect();
    let images = Tensor::from_vec(images, &[450, 1, 8, 8]).unwrap();
    (vec![calibration], images, entry("labels").to_vec().unwrap())
}

/// The number of correctly classified images.
fn right(plan: &Plan, images: &Tensor, labels: &[u8]) -> usize {
    let logits = plan.context().unwrap().run(&[images.clone()]).unwrap().remove(0).to_vec::<f32>().unwrap();
    let best = |row: &[f32]| (0..10).max_by(|&a, &b| row[a].total_cmp(&row[b])).unwrap();
    logits.chunks(10).zip(labels).filter(|(row, label)| best(row) == usize::from(**label)).count()
}

#[test]
fn digits_are_read_as_well() {
    let (calibration, images, labels) = digits();
    let known = right(&builder("digits").build().unwrap(), &images, &labels);
    for method in [Method::MinMax, Method::Entropy] {
        let (scales, least) = calibrated("digits", &calibration, method);
        assert!(
            least >= 20.0 && scales.kept().count() == 0,
            "{method}: {least} dB, {:?}",
            scales.kept().next()
        );
        let plan = int8_plan("digits", &scales);
        assert!(quantized_operators(&plan, &["nn.Conv2d", "nn.Linear"]) >= 8);
        let found = right(&plan, &images, &labels);
        // Half a percentage point of 450 images.
        assert!(found.abs_diff(known) <= 2, "{method}: {found} instead of {known} of {}", labels.len());
    }
}

#[test]
fn an_int8_plan_survives_saving_and_loading() {
    let (calibration, images, _) = digits();
    let (scales, _) = calibrated("digits", &calibration, Method::Entropy);
    let plan = int8_plan("digits", &scales);
    let file = tempfile::tempdir().unwrap();
    let path = file.path().join("digits.plan");
    plan.save(&path).unwrap();
    let loaded = Plan::load(&path).unwrap();
    let run = |plan: &Plan| plan.context().unwrap().run(&[images.clone()]).unwrap().remove(0);
    assert_eq!(run(&loaded), run(&plan));
    assert_eq!(
        quantized_operators(&loaded, &["nn.Conv2d", "nn.Linear"]),
        quantized_operators(&plan, &["nn.Conv2d", "nn.Linear"])
    );
    let again = file.path().join("again.plan");
    int8_plan("digits", &scales).save(&again).unwrap();
    assert!(
        std::fs::read(&path).unwrap() == std::fs::read(&again).unwrap(),
        "two builds must give the same bytes"
    );
}

/// Layers with enough products per output that the sizes of scales and biases hardly count.
const LARGE: &str = "\
pnnx.Input x 0 1 x #x=(1,32,8,8)f32
nn.Conv2d a 1 1 x h bias=True dilation=(1,1) groups=1 in_channels=32 kernel_size=(3,3) out_channels=48 padding=(1,1) padding_mode=zeros stride=(1,1) @bias=(48)f32 @weight=(48,32,3,3)f32
torch.flatten f 1 1 h g end_dim=-1 start_dim=1 $input=h
nn.Linear b 1 1 g y bias=True in_features=3072 out_features=10 @bias=(10)f32 @weight=(10,3072)f32";

fn large() -> Builder {
    let text = format!("7767517\n5 4\n{LARGE}\npnnx.Output y 1 0 y\n");
    Builder::from_pnnx(Graph::parse(&text, &Limits::default()).unwrap()).with_random_weights(7)
}

#[test]
fn a_plan_stores_int8_weights_as_int8() {
    let scales: Scales = [("x", 0.03), ("h", 0.05), ("g", 0.05), ("y", 0.05)].into_iter().collect();
    let plan = large().with_precisions([Precision::Int8]).with_scales(scales);
    let plan = plan.with_formats(Formats::Narrowest).build().unwrap();
    assert_eq!(quantized_operators(&plan, &["nn.Conv2d", "nn.Linear"]), 2);
    let file = tempfile::tempdir().unwrap();
    let [path, float, again] = ["x.plan", "f32.plan", "again.plan"].map(|name| file.path().join(name));
    plan.save(&path).unwrap();
    large().build().unwrap().save(&float).unwrap();
    let attributes = |path: &Path| {
        let graph = PlanFile::open(path, &Limits::default()).unwrap().graph().unwrap();
        let attrs = graph.operators().flat_map(|(_, operator)| operator.attrs().clone());
        attrs.map(|(key, attribute)| (key, attribute.dtype(), attribute.byte_len())).collect::<Vec<_>>()
    };
    let stored = attributes(&path);
    let weights: Vec<_> = stored.iter().filter(|(key, ..)| key == "weight").collect();
    assert!(weights.len() == 2 && weights.iter().all(|(_, dtype, _)| *dtype == DType::I8), "{stored:?}");
    let bytes = |attributes: &[(String, DType, usize)]| attributes.iter().map(|it| it.2).sum::<usize>();
    // Without what the f32 plan stores packed as well.
    let model: Vec<_> = attributes(&float).into_iter().filter(|(key, ..)| key != PACKED).collect();
    assert!(bytes(&stored) * 10 <= bytes(&model) * 3, "{} of {}", bytes(&stored), bytes(&model));

    let loaded = Plan::load(&path).unwrap();
    let x = Tensor::randn(&[1, 32, 8, 8], 3).unwrap();
    let run = |plan: &Plan| plan.context().unwrap().run(std::slice::from_ref(&x)).unwrap().remove(0);
    assert_eq!(run(&loaded), run(&plan));
    loaded.save(&again).unwrap();
    let [first, second] = [&path, &again].map(|path| std::fs::read(path).unwrap());
    assert!(first == second, "saving it again changes nothing");
}

/// A residual block between a pooled convolution and a classifier.
const RESIDUAL: &str = "\
pnnx.Input x 0 1 x #x=(1,3,32,32)f32
nn.Conv2d a 1 1 x a0 bias=True dilation=(1,1) groups=1 in_channels=3 kernel_size=(3,3) out_channels=32 padding=(1,1) padding_mode=zeros stride=(2,2) @bias=(32)f32 @weight=(32,3,3,3)f32
nn.ReLU r 1 1 a0 a1
nn.MaxPool2d p 1 1 a1 h ceil_mode=False dilation=(1,1) kernel_size=(3,3) padding=(1,1) return_indices=False stride=(2,2)
nn.Conv2d b 1 1 h b0 bias=True dilation=(1,1) groups=1 in_channels=32 kernel_size=(3,3) out_channels=32 padding=(1,1) padding_mode=zeros stride=(1,1) @bias=(32)f32 @weight=(32,32,3,3)f32
nn.ReLU q 1 1 b0 b1
nn.Conv2d c 1 1 b1 c0 bias=True dilation=(1,1) groups=1 in_channels=32 kernel_size=(3,3) out_channels=32 padding=(1,1) padding_mode=zeros stride=(1,1) @bias=(32)f32 @weight=(32,32,3,3)f32
pnnx.Expression s 2 1 c0 h s0 expr=add(@0,@1)
nn.ReLU t 1 1 s0 t0
nn.AdaptiveAvgPool2d g 1 1 t0 g0 output_size=(1,1)
torch.flatten f 1 1 g0 f0 end_dim=-1 start_dim=1 $input=g0
nn.Linear l 1 1 f0 y bias=True in_features=32 out_features=10 @bias=(10)f32 @weight=(10,32)f32";

/// Only the input and the output are converted, and the order of the pooled channels, for which nothing moves.
#[test]
fn a_network_stays_in_int8() {
    let text = format!("7767517\n13 12\n{RESIDUAL}\npnnx.Output y 1 0 y\n");
    let graph = Graph::parse(&text, &Limits::default()).unwrap();
    let builder = || Builder::from_pnnx(graph.clone()).with_random_weights(7);
    let scale = |name| (name, if ["s0", "t0"].contains(&name) { 0.1 } else { 0.05 });
    let names = ["x", "a0", "a1", "h", "b0", "b1", "c0", "s0", "t0", "g0", "f0", "y"];
    let scales: Scales = names.into_iter().map(scale).collect();
    let whole = || builder().with_precisions([Precision::Int8]).with_scales(scales.clone());
    let plan = whole().with_formats(Formats::Narrowest).build().unwrap();
    let types = ["nn.Conv2d", "nn.MaxPool2d", "nn.AdaptiveAvgPool2d", "torch.flatten", "nn.Linear"];
    assert_eq!(quantized_operators(&plan, &types), 7);
    assert_eq!(plan.graph().operators().iter().filter(|it| it.op_type() == "ixion.Reformat").count(), 3);
    let x = Tensor::randn(&[1, 3, 32, 32], 3).unwrap();
    let run = |plan: &Plan| plan.context().unwrap().run(std::slice::from_ref(&x)).unwrap().remove(0);
    let (found, wanted) = (run(&plan), run(&builder().build().unwrap()));
    let comparison = found.allclose(&wanted, 0.1, 0.2, false).unwrap();
    assert!(comparison.holds(), "{comparison}");
    let cheapest = run(&whole().build().unwrap()).allclose(&wanted, 0.1, 0.2, false).unwrap();
    assert!(cheapest.holds(), "{cheapest}");

    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.plan");
    plan.save(&path).unwrap();
    assert_eq!(run(&Plan::load(&path).unwrap()), found);
}

/// Gates for channels, a skip over a convolution with an activation, and a larger image.
const GATED: &str = "\
pnnx.Input x 0 1 x #x=(1,32,12,12)f32
nn.Conv2d a 1 1 x a0 bias=True dilation=(1,1) groups=1 in_channels=32 kernel_size=(1,1) out_channels=32 padding=(0,0) padding_mode=zeros stride=(1,1) @bias=(32)f32 @weight=(32,32,1,1)f32
nn.Hardswish h 1 1 a0 a1
nn.AdaptiveAvgPool2d p 1 1 a1 p0 output_size=(1,1)
nn.Conv2d e 1 1 p0 e0 bias=True dilation=(1,1) groups=1 in_channels=32 kernel_size=(1,1) out_channels=32 padding=(0,0) padding_mode=zeros stride=(1,1) @bias=(32)f32 @weight=(32,32,1,1)f32
nn.Hardsigmoid s 1 1 e0 e1
pnnx.Expression m 2 1 e1 a1 m0 expr=mul(@0,@1)
nn.Conv2d b 1 1 m0 b0 bias=True dilation=(1,1) groups=1 in_channels=32 kernel_size=(3,3) out_channels=32 padding=(1,1) padding_mode=zeros stride=(1,1) @bias=(32)f32 @weight=(32,32,3,3)f32
nn.SiLU i 1 1 b0 b1
pnnx.Expression k 2 1 m0 b1 k0 expr=add(@0,@1)
nn.Upsample u 1 1 k0 u0 mode=nearest scale_factor=(2.0,2.0)
nn.Conv2d c 1 1 u0 y bias=True dilation=(1,1) groups=1 in_channels=32 kernel_size=(3,3) out_channels=8 padding=(1,1) padding_mode=zeros stride=(1,1) @bias=(8)f32 @weight=(8,32,3,3)f32";

#[test]
fn gates_skips_and_resizing_stay_in_int8() {
    let text = format!("7767517\n13 12\n{GATED}\npnnx.Output y 1 0 y\n");
    let graph = Graph::parse(&text, &Limits::default()).unwrap();
    let builder = || Builder::from_pnnx(graph.clone()).with_random_weights(7);
    let x = Tensor::randn(&[1, 32, 12, 12], 3).unwrap();
    let mut calibration = Calibration::new(builder()).unwrap();
    calibration.see_range(vec![x.clone()]).unwrap();
    let scales = calibration.scales(Method::MinMax);
    let whole = builder().with_precisions([Precision::Int8]).with_scales(scales);
    let plan = whole.with_formats(Formats::Narrowest).build().unwrap();
    for name in ["a", "p", "e", "m", "b", "u"] {
        let operator = plan.graph().operator_named(name).unwrap();
        for &operand in operator.inputs().iter().chain(operator.outputs()) {
            let operand = plan.graph().operand(operand);
            assert!(operand.scale().is_some(), "`{}` of `{name}`", operand.name());
        }
    }
    let run = |plan: &Plan| plan.context().unwrap().run(std::slice::from_ref(&x)).unwrap().remove(0);
    let (found, wanted) = (run(&plan), run(&builder().build().unwrap()));
    let pairs = found.to_vec::<f32>().unwrap().into_iter().zip(wanted.to_vec::<f32>().unwrap());
    let sums = pairs.fold([0.0; 2], |[noise, signal], (found, wanted)| {
        [noise + (found - wanted).powi(2), signal + wanted.powi(2)]
    });
    assert!(sums[0] < 0.02 * sums[1], "{sums:?}");

    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.plan");
    plan.save(&path).unwrap();
    assert_eq!(run(&Plan::load(&path).unwrap()), found);
}

#[test]
fn surplus_inputs_are_rejected() {
    let mut calibration = Calibration::new(builder("digits")).unwrap();
    let inputs = || vec![Tensor::zeros(DType::F32, &[1, 1, 8, 8]).unwrap(); 2];
    let scales = calibration.scales(Method::MinMax);
    let seen = [
        calibration.see_range(inputs()),
        calibration.see_magnitudes(inputs()),
        calibration.see_loss(inputs(), &scales),
    ];
    for seen in seen {
        let error = seen.unwrap_err().to_string();
        assert!(error.contains("too many inputs: expected 1 ("), "{error}");
    }
}

#[test]
fn excluded_layers_stay_in_f32() {
    let (calibration, ..) = digits();
    let (scales, _) = calibrated("digits", &calibration, Method::MinMax);
    let plan = int8_plan("digits", &scales);
    let conv = plan.graph().operators().iter().find(|operator| operator.op_type() == "nn.Conv2d").unwrap();
    let name = conv.name().to_owned();
    let plan = int8_plan("digits", &scales.with_kept([name.clone()]));
    let conv = plan.graph().operator_named(&name).unwrap();
    assert_eq!(plan.graph().operand(conv.inputs()[0]).scale(), None);
    assert!(quantized_operators(&plan, &["nn.Conv2d"]) > 0);
}

#[test]
fn scales_of_another_model_are_refused() {
    let (calibration, ..) = digits();
    let (scales, _) = calibrated("digits", &calibration, Method::MinMax);
    let with = |builder: Builder| {
        builder
            .with_precisions([Precision::Int8])
            .with_scales(scales.clone())
            .build()
            .unwrap_err()
            .to_string()
    };
    assert!(with(builder("linear")).contains("graphs differ"));
    assert!(with(builder("digits").with_random_weights(1)).contains("weights differ"));
}

fn scene(card: &ModelCard, seed: u64, index: u64) -> (Tensor, ixion::vision::Frame, Vec<Truth>) {
    let scene = scenes::render(seed, index, SIZE, SIZE);
    let picture = Picture::new(SIZE, SIZE, Color::Rgb, scene.pixels).unwrap();
    let (input, frame) = card.prepare(&picture, &Limits::default()).unwrap();
    let truth = |&[class, left, top, right, bottom]: &[i64; 5]| Truth {
        class: class as usize,
        rect: Rect::new(left as f32, top as f32, right as f32, bottom as f32),
    };
    (input, frame, scene.boxes.iter().map(truth).collect())
}

/// mAP@0.5 on scenes.
fn precision(card: &ModelCard, plan: &Plan, scenes: &[(Tensor, ixion::vision::Frame, Vec<Truth>)]) -> f64 {
    let (mut found, mut known) = (Vec::new(), Vec::new());
    let mut context = plan.context().unwrap();
    for (input, frame, truths) in scenes {
        let outputs = context.run(std::slice::from_ref(input)).unwrap();
        found.extend(card.detect(&outputs, &[*frame]).unwrap());
        known.push(truths.clone());
    }
    AveragePrecision::at(0.5, &found, &known).unwrap().mean().unwrap()
}

#[test]
fn shapes_are_found_as_well() {
    let card = ModelCard::load(folder("shapes_detector/model.toml")).unwrap();
    let calibration: Vec<Tensor> = (0..16).map(|index| scene(&card, CALIBRATION_SEED, index).0).collect();
    assert!(calibration.iter().all(|input| input.dtype() == DType::F32));
    let (scales, least) = calibrated("shapes_detector", &calibration, Method::Entropy);
    assert!(least >= 20.0, "{least}");
    let plan = int8_plan("shapes_detector", &scales);
    assert!(
        quantized_operators(&plan, &["nn.Conv2d"]) >= 40,
        "{}",
        quantized_operators(&plan, &["nn.Conv2d"])
    );
    let scenes: Vec<_> = (0..40).map(|index| scene(&card, SEED, index)).collect();
    let known = precision(&card, &builder("shapes_detector").build().unwrap(), &scenes);
    let found = precision(&card, &plan, &scenes);
    assert!(found > known - 0.02, "mAP@0.5 is {found} instead of {known}");
}
