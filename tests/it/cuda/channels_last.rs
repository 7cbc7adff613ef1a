//! Channels-last tensors: networks select them where tensor cores benefit, and every layer that supports them gives the same
//! results as on the CPU.

use super::{emulators, noise, one, plan, same_as_cpu_with, several};
use ixion::Limits;
use ixion::cuda::{CudaLayers, Tf32};
use ixion::engine::{Builder, Context, Formats, Plan, PlanFile, Precision, Scales};
use ixion::pnnx::Graph;
use ixion::tensor::{DType, Format, Tensor};
use std::sync::Arc;

const TENSOR_CORES: [(DType, f64); 2] = [(DType::F16, 3e-2), (DType::F32, 2e-2)];

/// A convolution `x` → `y` with these numbers of channels; `keys` replaces default parameters.
pub(crate) fn conv(
    name: &str,
    [x, y]: [&str; 2],
    [inputs, outputs, side, groups]: [usize; 4],
    stride: usize,
    dtype: DType,
) -> String {
    let (pad, of_group) = (side / 2, inputs / groups);
    format!(
        "nn.Conv2d {name} 1 1 {x} {y} bias=True dilation=(1,1) groups={groups} in_channels={inputs} out_channels={outputs} \
         kernel_size=({side},{side}) padding=({pad},{pad}) padding_mode=zeros stride=({stride},{stride}) \
         @bias=({outputs}){dtype} @weight=({outputs},{of_group},{side},{side}){dtype}"
    )
}

pub(crate) fn graph(lines: &[String], inputs: &[Tensor]) -> String {
    let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
    several(&lines, inputs)
}

/// Two residual blocks between a picture and a vector.
pub(crate) fn resnet(dtype: DType) -> Vec<String> {
    let usual = "ceil_mode=False dilation=(1,1) return_indices=False";
    vec![
        conv("stem", ["x", "a"], [3, 16, 3, 1], 1, dtype),
        "nn.ReLU r0 1 1 a b".to_owned(),
        format!("nn.MaxPool2d pool 1 1 b c kernel_size=(2,2) padding=(0,0) stride=(2,2) {usual}"),
        conv("c1", ["c", "d"], [16, 16, 3, 1], 1, dtype),
        "nn.ReLU r1 1 1 d e".to_owned(),
        conv("c2", ["e", "f"], [16, 16, 3, 1], 1, dtype),
        "pnnx.Expression s1 2 1 f c g expr=add(@0,@1)".to_owned(),
        "nn.ReLU r2 1 1 g h".to_owned(),
        conv("c3", ["h", "i"], [16, 32, 3, 1], 2, dtype),
        conv("c4", ["h", "j"], [16, 32, 1, 1], 2, dtype),
        "pnnx.Expression s2 2 1 i j k expr=add(@0,@1)".to_owned(),
        "nn.AdaptiveAvgPool2d avg 1 1 k l output_size=(1,1)".to_owned(),
        "torch.flatten flat 1 1 l m start_dim=1 end_dim=-1".to_owned(),
        format!(
            "nn.Linear fc 1 1 m y bias=True in_features=32 out_features=7 @bias=(7){dtype} @weight=(7,32){dtype}"
        ),
    ]
}

/// An inverted residual with squeeze-and-excitation, and a detector's combination of two scales.
fn mobilenet(dtype: DType) -> Vec<String> {
    vec![
        conv("stem", ["x", "a"], [3, 16, 3, 1], 1, dtype),
        conv("expand", ["a", "b"], [16, 32, 1, 1], 1, dtype),
        "nn.Hardswish h0 1 1 b c".to_owned(),
        conv("depthwise", ["c", "d"], [32, 32, 3, 32], 2, dtype),
        "nn.ReLU6 h1 1 1 d e".to_owned(),
        "nn.AdaptiveAvgPool2d avg 1 1 e f output_size=(1,1)".to_owned(),
        conv("squeeze", ["f", "g"], [32, 8, 1, 1], 1, dtype),
        "nn.ReLU h2 1 1 g h".to_owned(),
        conv("excite", ["h", "i"], [8, 32, 1, 1], 1, dtype),
        "nn.Hardsigmoid h3 1 1 i j".to_owned(),
        "pnnx.Expression scale 2 1 e j k expr=mul(@0,@1)".to_owned(),
        conv("project", ["k", "l"], [32, 16, 1, 1], 1, dtype),
        "F.interpolate up 1 1 l m mode=nearest size=(12,10)".to_owned(),
        "torch.cat cat 2 1 m a n dim=1".to_owned(),
        conv("head", ["n", "y"], [32, 21, 1, 1], 1, dtype),
    ]
}

/// The number of reformats, and the number of operators with channels-last outputs.
fn counts(plan: &Plan) -> (usize, usize) {
    let graph = plan.graph();
    let reformats = graph.operators().iter().filter(|it| it.op_type() == "ixion.Reformat").count();
    let last = |operand: &&ixion::graph::RuntimeOperand| operand.format() == Format::ChannelsLast;
    (reformats, graph.operands().iter().filter(last).count())
}

#[test]
fn networks_select_them() {
    for (dtype, tolerance) in TENSOR_CORES {
        let inputs = [noise(dtype, &[2, 3, 12, 10], 1)];
        let layers = CudaLayers::default();
        for (lines, kept) in [(resnet(dtype), 6), (mobilenet(dtype), 8)] {
            let graph = graph(&lines, &inputs);
            let plan = plan(&graph, Some((&emulators()[0], &layers)));
            let (reformats, last) = counts(&plan);
            assert_eq!(reformats, 0, "{dtype}");
            assert!(last >= kept, "{dtype}: {last} tensors");
            same_as_cpu_with(&layers, &graph, &inputs, tolerance);
        }
    }
}

#[test]
fn without_tensor_cores_tensors_stay_row_major() {
    let inputs = [noise(DType::F32, &[1, 3, 12, 10], 1)];
    let layers = CudaLayers::default().with_tf32(Tf32::NONE);
    let (_, last) = counts(&plan(&graph(&resnet(DType::F32), &inputs), Some((&emulators()[0], &layers))));
    assert_eq!(last, 0);
}

/// Checks that a graph in which every second operator uses channels-last gives the same results as on the CPU.
pub(crate) fn alternating(text: &str, inputs: &[Tensor], tolerance: f64) {
    let parse = || Builder::from_pnnx(Graph::parse(text, &Limits::default()).unwrap()).with_random_weights(1);
    let wanted = Context::shared(Arc::new(parse().build().unwrap())).unwrap().run(inputs).unwrap();
    for device in emulators() {
        let builder = parse().with_formats(Formats::Alternating);
        let plan = builder.with_device(device.clone(), CudaLayers::default()).build().unwrap();
        assert!(counts(&plan).1 > 0, "no channels are last in\n{text}");
        let mut context = Context::shared(Arc::new(plan)).unwrap();
        for _ in 0..2 {
            let found = context.run(inputs).unwrap();
            for (found, wanted) in found.iter().zip(&wanted) {
                let comparison = found.allclose(wanted, tolerance, tolerance, true).unwrap();
                assert!(comparison.holds(), "{comparison}\n{text}");
            }
        }
    }
}

#[test]
fn convolutions_of_all_sizes() {
    for (channels, outputs, side, groups, stride) in [
        // Whole and partial chunks of channels; tiles and their edges; groups on tensor cores and scalar groups.
        (16, 70, 3, 1, 1),
        (24, 9, 1, 1, 2),
        (5, 16, 3, 1, 1),
        (32, 32, 3, 2, 1),
        (12, 12, 3, 12, 2),
        (12, 24, 5, 6, 1),
    ] {
        for (dtype, tolerance) in TENSOR_CORES {
            let inputs = [noise(dtype, &[2, channels, 7, 9], 1)];
            let line = conv("c", ["x", "y"], [channels, outputs, side, groups], stride, dtype);
            alternating(&one(&line, &inputs), &inputs, tolerance);
        }
    }
    let inputs = [noise(DType::F16, &[1, 16, 6, 5], 1)];
    let keys = "bias=True dilation=(1,1) kernel_size=(3,2) stride=(2,3) padding=(1,0) output_padding=(1,0)";
    let weights = "in_channels=16 out_channels=12 groups=2 @weight=(16,6,3,2)f16 @bias=(12)f16";
    alternating(&one(&format!("nn.ConvTranspose2d c 1 1 x y {keys} {weights}"), &inputs), &inputs, 3e-2);
    let inputs = [noise(DType::F16, &[1, 8, 11], 1)];
    let keys = "bias=True dilation=(2) groups=1 in_channels=8 kernel_size=(3) out_channels=10 padding=(2) stride=(1)";
    let line = format!("nn.Conv1d c 1 1 x y {keys} padding_mode=reflect @weight=(10,8,3)f16 @bias=(10)f16");
    alternating(&one(&line, &inputs), &inputs, 3e-2);
    let inputs = [noise(DType::F16, &[1, 8, 3, 5, 4], 1)];
    let keys = "bias=False dilation=(1,1,1) groups=1 in_channels=8 kernel_size=(3,3,3) out_channels=9 padding=(1,1,1) stride=(1,2,1)";
    let line = format!("nn.Conv3d c 1 1 x y {keys} padding_mode=zeros @weight=(9,8,3,3,3)f16");
    alternating(&one(&line, &inputs), &inputs, 5e-2);
}

#[test]
fn a_residual_is_added_in_place() {
    let inputs = [noise(DType::F16, &[2, 16, 6, 5], 1), noise(DType::F16, &[2, 24, 6, 5], 2)];
    let lines = [
        conv("c", ["x", "a"], [16, 24, 3, 1], 1, DType::F16),
        "pnnx.Expression e 2 1 a x1 b expr=add(@0,@1)".to_owned(),
        "nn.ReLU r 1 1 b y".to_owned(),
    ];
    alternating(&graph(&lines, &inputs), &inputs, 3e-2);
}

#[test]
fn every_family_that_takes_them() {
    for line in [
        "nn.SiLU r 1 1 x y",
        "F.glu g 1 1 x y dim=1",
        "torch.clamp c 1 1 x y min=-0.5 max=0.75",
        "pnnx.Expression e 1 1 x y expr=add(mul(@0,@0),1.5)",
        "nn.BatchNorm2d n 1 1 x y affine=False eps=1e-3 num_features=12 @running_mean=(12)f32 @running_var=(12)f32",
        "nn.GroupNorm n 1 1 x y affine=True eps=1e-3 num_channels=12 num_groups=3 @weight=(12)f32 @bias=(12)f32",
        "F.instance_norm n 1 1 x y eps=1e-3",
        "F.local_response_norm n 1 1 x y size=3 alpha=0.1",
        "F.softmax s 1 1 x y dim=1",
        "torch.mean r 1 1 x y dim=(2,3) keepdim=True",
        "torch.sum r 1 1 x y dim=(1) keepdim=False",
        "F.max_pool2d p 1 1 x y kernel_size=(3,2) stride=(2,2) padding=(1,1) dilation=(1,1) ceil_mode=True return_indices=False",
        "F.avg_pool2d p 1 1 x y kernel_size=(3,3) stride=(2,2) padding=(1,1) ceil_mode=True count_include_pad=True divisor_override=None",
        "F.adaptive_avg_pool2d p 1 1 x y output_size=(3,5)",
        "F.interpolate i 1 1 x y mode=nearest size=(11,4)",
        "F.interpolate i 1 1 x y mode=bilinear align_corners=False size=(11,4)",
        "F.pad p 1 1 x y mode=reflect pad=(1,2,3,1) value=None",
        "F.pad p 1 1 x y mode=constant pad=(1,-2,0,2) value=0.5",
        "nn.PixelShuffle p 1 1 x y upscale_factor=2",
        "nn.ChannelShuffle c 1 1 x y groups=3",
        "torch.flip f 1 1 x y dims=(1,3)",
        "torch.flatten f 1 1 x y start_dim=1 end_dim=-1",
        "Tensor.reshape f 1 1 x y shape=(2,3,4,42)",
    ] {
        let inputs = [noise(DType::F32, &[2, 12, 7, 6], 1)];
        alternating(&one(line, &inputs), &inputs, 1e-4);
    }
    let inputs = [noise(DType::F32, &[2, 4, 3, 5], 1), noise(DType::F32, &[2, 6, 3, 5], 2)];
    alternating(&one("torch.cat c 2 1 x x1 y dim=1", &inputs), &inputs, 0.0);
    let inputs = [noise(DType::F32, &[2, 4, 3, 5], 1), noise(DType::F32, &[4, 1, 1], 2)];
    alternating(&one("pnnx.Expression e 2 1 x x1 y expr=mul(@0,@1)", &inputs), &inputs, 1e-6);
}

#[test]
fn views_keep_the_order_and_change_it() {
    let inputs = [noise(DType::F16, &[1, 16, 6, 5], 1)];
    let lines = [
        conv("c", ["x", "a"], [16, 16, 3, 1], 1, DType::F16),
        "torch.chunk s 1 2 a b d chunks=2 dim=1".to_owned(),
        conv("e", ["b", "f"], [8, 8, 3, 1], 1, DType::F16),
        "torch.cat j 2 1 f d g dim=1".to_owned(),
        conv("h", ["g", "k"], [16, 12, 1, 1], 1, DType::F16),
        "torch.permute p 1 1 k l dims=(0,2,3,1)".to_owned(),
        "torch.flatten v 1 1 l y start_dim=1 end_dim=2".to_owned(),
    ];
    let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
    let text = several(&lines, &inputs).replacen("9 8\n", "9 9\n", 1);
    let layers = CudaLayers::default();
    let (reformats, last) = counts(&plan(&text, Some((&emulators()[0], &layers))));
    assert_eq!(reformats, 0);
    assert!(last >= 6, "{last}");
    same_as_cpu_with(&layers, &text, &inputs, 3e-2);
}

#[test]
fn shapes_change_from_run_to_run() {
    let lines = [
        conv("c", ["x", "a"], [8, 16, 3, 1], 1, DType::F16),
        conv("d", ["a", "b"], [16, 16, 3, 1], 1, DType::F16),
        "nn.SiLU r 1 1 b e".to_owned(),
        "torch.flatten f 1 1 e y start_dim=1 end_dim=-1".to_owned(),
    ];
    let given = [noise(DType::F16, &[1, 8, 1, 1], 1)];
    let text = graph(&lines, &given).replace("(1,8,1,1)", "(?,8,?,?)");
    for device in emulators() {
        let layers = CudaLayers::default();
        let on_device = plan(&text, Some((device, &layers)));
        assert!(counts(&on_device).1 > 0);
        let mut found = Context::shared(Arc::new(on_device)).unwrap();
        let mut wanted = Context::shared(Arc::new(plan(&text, None))).unwrap();
        // With a single pixel, flattening is a view.
        for shape in [[1, 8, 1, 1], [2, 8, 5, 4], [1, 8, 1, 1], [1, 8, 7, 3], [0, 8, 2, 2]] {
            let inputs = [noise(DType::F16, &shape, 3)];
            let [found, wanted] =
                [&mut found, &mut wanted].map(|context| context.run(&inputs).unwrap().remove(0));
            let comparison = found.allclose(&wanted, 3e-2, 3e-2, true).unwrap();
            assert!(comparison.holds(), "{shape:?}: {comparison}");
        }
    }
}

#[test]
fn plans_keep_them() {
    let inputs = [noise(DType::F16, &[2, 3, 12, 10], 1)];
    let (device, layers) = (&emulators()[0], CudaLayers::default());
    let made = plan(&graph(&mobilenet(DType::F16), &inputs), Some((device, &layers)));
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("network.ixplan");
    made.save(&path).unwrap();
    let file = PlanFile::open(&path, &Limits::default()).unwrap();
    let loaded = file.with_device(device.clone(), layers).load().unwrap();
    let formats = |plan: &Plan| plan.graph().operands().iter().map(|it| it.format()).collect::<Vec<_>>();
    assert_eq!(formats(&made), formats(&loaded));
    assert_eq!(made.selections(), loaded.selections());
    let run = |plan: Plan| {
        let output = Context::shared(Arc::new(plan)).unwrap().run(&inputs).unwrap().remove(0);
        output.view().bytes().map(<[u8]>::to_vec).unwrap()
    };
    assert_eq!(run(made), run(loaded));
}

#[test]
fn plain_formats_are_plain() {
    let inputs = [noise(DType::F16, &[2, 3, 12, 10], 1)];
    let text = graph(&resnet(DType::F16), &inputs);
    let builder = Builder::from_pnnx(Graph::parse(&text, &Limits::default()).unwrap());
    let builder = builder.with_random_weights(1).with_formats(Formats::Plain);
    let plan = builder.with_device(emulators()[0].clone(), CudaLayers::default()).build().unwrap();
    assert_eq!(counts(&plan), (0, 0));
}

#[test]
fn int8_tensors_can_be_channels_last() {
    // Large enough that fewer bits pay for the reformats.
    let inputs = [noise(DType::F32, &[1, 64, 32, 48], 1)];
    let lines = [
        conv("c", ["x", "a"], [64, 64, 3, 1], 1, DType::F32),
        "nn.ReLU r 1 1 a b".to_owned(),
        conv("d", ["b", "y"], [64, 64, 3, 1], 1, DType::F32),
    ];
    // Powers of two: convolutions on the CPU multiply by the reciprocal of a scale, those on a GPU divide by it.
    let scales: Scales = [("x", 0.03125), ("b", 0.0625), ("a", 0.0625)].into_iter().collect();
    let text = graph(&lines, &inputs);
    let whole = || {
        let graph = Graph::parse(&text, &Limits::default()).unwrap();
        let builder = Builder::from_pnnx(graph).with_random_weights(3).with_scales(scales.clone());
        builder.with_precisions([Precision::Int8])
    };
    let wanted = whole().with_formats(Formats::Narrowest).build().unwrap();
    let wanted = Context::shared(Arc::new(wanted)).unwrap().run(&inputs).unwrap().remove(0);
    let device = emulators()[0].clone();
    let layers = CudaLayers::default().with_tf32(Tf32::NONE);
    let plan = whole().with_device(device.clone(), layers.clone()).build().unwrap();
    let is_whole =
        |it: &&ixion::graph::RuntimeOperand| it.format() == Format::ChannelsLast && it.scale().is_some();
    assert!(plan.graph().operands().iter().any(|it| is_whole(&it)));
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("whole.ixplan");
    plan.save(&path).unwrap();
    let file = PlanFile::open(&path, &Limits::default()).unwrap();
    for plan in [plan, file.with_device(device, layers).load().unwrap()] {
        let found = Context::shared(Arc::new(plan)).unwrap().run(&inputs).unwrap().remove(0);
        let comparison = found.allclose(&wanted, 1e-6, 1e-6, true).unwrap();
        assert!(comparison.holds(), "{comparison}");
    }
}
