//! Reduced precision: the device selects kernels for it, and they give the same results as the CPU's kernels.

use super::{emulators, noise, several};
use ixion::Limits;
use ixion::cuda::{CudaLayers, Tf32};
use ixion::engine::{Builder, Context, Formats, Precision, Scales};
use ixion::pnnx::Graph;
use ixion::tensor::{DType, Tensor};
use std::sync::Arc;

const CONVOLUTIONS: [&str; 4] = [
    "nn.Conv2d c 1 1 x a bias=True dilation=(1,1) groups=1 in_channels=6 kernel_size=(3,3) out_channels=32 padding=(1,1) padding_mode=zeros stride=(1,1) @bias=(32)f32 @weight=(32,6,3,3)f32",
    "nn.ReLU r 1 1 a b",
    "nn.Conv2d d 1 1 b e bias=True dilation=(1,1) groups=2 in_channels=32 kernel_size=(3,3) out_channels=10 padding=(1,1) padding_mode=zeros stride=(2,2) @bias=(10)f32 @weight=(10,16,3,3)f32",
    "torch.flatten f 1 1 e g start_dim=1 end_dim=-1",
];

fn lines() -> Vec<&'static str> {
    let linear =
        "nn.Linear l 1 1 g y bias=True in_features=160 out_features=7 @bias=(7)f32 @weight=(7,160)f32";
    CONVOLUTIONS.into_iter().chain([linear]).collect()
}

fn builder(inputs: &[Tensor]) -> Builder {
    let graph = Graph::parse(&several(&lines(), inputs), &Limits::default()).unwrap();
    Builder::from_pnnx(graph).with_random_weights(3).with_formats(Formats::Narrowest)
}

/// The output of a plan, and the number of its operators that run on the device in this format.
fn run(builder: Builder, inputs: &[Tensor], format: &str) -> (Tensor, usize) {
    let mut context = Context::shared(Arc::new(builder.build().unwrap())).unwrap();
    let output = context.run(inputs).unwrap().remove(0);
    let chosen = context
        .plan()
        .selections()
        .iter()
        .filter_map(|selection| selection.candidates.get(selection.chosen?));
    let narrow =
        chosen.filter(|candidate| candidate.formats.first().is_some_and(|it| it.to_string() == format));
    (output, narrow.count())
}

#[test]
fn half_precision_is_selected() {
    let inputs = [noise(DType::F32, &[2, 6, 8, 8], 1)];
    for (precision, format, tolerance) in
        [(Precision::F16, "f16 cuda", 2e-2), (Precision::Bf16, "bf16 cuda", 1e-1)]
    {
        let (wanted, _) = run(builder(&inputs), &inputs, "");
        for device in emulators() {
            let builder = builder(&inputs).with_precisions([precision]);
            let builder = builder.with_device(device.clone(), CudaLayers::default());
            let (found, narrow) = run(builder, &inputs, format);
            assert_eq!(narrow, 4);
            let comparison = found.allclose(&wanted, tolerance, tolerance, true).unwrap();
            assert!(comparison.holds(), "{precision}: {comparison}");
        }
    }
}

#[test]
fn int8_gives_the_same_bits_as_on_the_cpu() {
    let inputs = [noise(DType::F32, &[2, 6, 8, 8], 1)];
    // Powers of two: convolutions on the CPU multiply by the reciprocal of a scale, those on a GPU divide by it.
    let scales: Scales =
        [("x", 0.03125), ("b", 0.0625), ("a", 0.0625), ("e", 0.125), ("g", 0.125)].into_iter().collect();
    let whole = || builder(&inputs).with_precisions([Precision::Int8]).with_scales(scales.clone());
    let (wanted, _) = run(whole(), &inputs, "");
    for device in emulators() {
        let layers = CudaLayers::default().with_tf32(Tf32::NONE);
        let (found, narrow) = run(whole().with_device(device.clone(), layers), &inputs, "i8 quantized cuda");
        assert_eq!(narrow, 3);
        let comparison = found.allclose(&wanted, 1e-6, 1e-6, true).unwrap();
        assert!(comparison.holds(), "{comparison}");
    }
}
