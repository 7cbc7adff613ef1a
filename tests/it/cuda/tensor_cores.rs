//! Products and convolutions on tensor cores, which the emulator emulates word by word.

use super::{emulators, noise, one, same_as_cpu, same_as_cpu_on, same_as_cpu_with, several};
use ixion::cuda::{CudaLayers, Tf32};
use ixion::tensor::DType;

/// Compares a graph on tensor cores (TF32 for f32) with the CPU.
fn near(graph: &str, inputs: &[ixion::tensor::Tensor], tolerance: f64) {
    same_as_cpu_with(&CudaLayers::default().with_tf32(Tf32::ALL), graph, inputs, tolerance);
}

const KINDS: [(DType, f64); 3] = [(DType::F16, 2e-2), (DType::Bf16, 1e-1), (DType::F32, 1e-2)];

#[test]
fn products_of_all_sizes() {
    let line = "torch.matmul m 2 1 x x1 y $input=x $other=x1";
    for (left, right) in [
        // A tile and its edges; a depth that is split among blocks; contiguous along the depth, and not.
        (&[70, 33][..], &[33, 66][..]),
        (&[5, 300], &[300, 40]),
        (&[3, 5, 7], &[7, 2]),
        (&[2, 1, 4, 16], &[3, 16, 5]),
        (&[9], &[9, 4]),
        (&[3, 0], &[0, 2]),
    ] {
        for (dtype, tolerance) in KINDS {
            let inputs = [noise(dtype, left, 1), noise(dtype, right, 2)];
            near(&one(line, &inputs), &inputs, tolerance);
        }
    }
}

/// In more parts than a thread loads at a time.
#[test]
fn long_depths_are_split() {
    let inputs = [noise(DType::F16, &[3, 1300], 1), noise(DType::F16, &[1300, 5], 2)];
    let graph = one("torch.matmul m 2 1 x x1 y $input=x $other=x1", &inputs);
    same_as_cpu_on(&emulators()[..1], &CudaLayers::default(), &graph, &inputs, 2e-2);
}

#[test]
fn rows_of_weights_are_copied_while_others_are_multiplied() {
    for (dtype, tolerance) in KINDS {
        let name = dtype.name();
        for (rows, inputs, outputs) in [(67, 40, 70), (3, 320, 24)] {
            let weights = format!(
                "bias=True in_features={inputs} out_features={outputs} @bias=({outputs}){name} @weight=({outputs},{inputs}){name}"
            );
            let tensors = [noise(dtype, &[rows, inputs], 1), noise(dtype, &[rows, outputs], 2)];
            let lines = [
                &*format!("nn.Linear l 1 1 x a {weights}"),
                "pnnx.Expression e 2 1 a x1 b expr=add(@0,@1)",
                "nn.SiLU s 1 1 b y",
            ];
            near(&several(&lines, &tensors), &tensors, tolerance);
        }
    }
}

/// Without the checker, which would take half a minute; `tactics` runs large tiles under it.
#[test]
fn many_tiles_are_large() {
    let inputs = [noise(DType::F16, &[130, 70, 24], 1), noise(DType::F16, &[130, 24, 5], 2)];
    let graph = one("torch.matmul m 2 1 x x1 y $input=x $other=x1", &inputs);
    same_as_cpu_on(&emulators()[..1], &CudaLayers::default(), &graph, &inputs, 2e-2);
}

#[test]
fn products_of_f32_are_exact_unless_asked() {
    let inputs = [noise(DType::F32, &[8, 256], 1), noise(DType::F32, &[256, 8], 2)];
    let graph = one("torch.matmul m 2 1 x x1 y $input=x $other=x1", &inputs);
    same_as_cpu(&graph, &inputs, 1e-5);
    assert!(emulators().iter().all(|device| device.info().has_tensor_cores));
}

#[test]
fn convolutions() {
    for (shape, line) in [
        // Whole and partial chunks of channels; a depth that is split among blocks; groups; odd kernels.
        (
            &[2, 8, 9, 7][..],
            "nn.Conv2d c 1 1 x y bias=True dilation=(1,1) groups=1 in_channels=8 kernel_size=(3,3) out_channels=70 padding=(1,1) padding_mode=zeros stride=(2,1) @bias=(70)DT @weight=(70,8,3,3)DT",
        ),
        (
            &[1, 3, 11, 12],
            "nn.Conv2d c 1 1 x y bias=False dilation=(2,1) groups=1 in_channels=3 kernel_size=(3,2) out_channels=5 padding=(1,1) padding_mode=reflect stride=(1,1) @weight=(5,3,3,2)DT",
        ),
        (
            &[1, 32, 5, 5],
            "nn.Conv2d c 1 1 x y bias=True dilation=(1,1) groups=2 in_channels=32 kernel_size=(3,3) out_channels=20 padding=same padding_mode=zeros stride=(1,1) @bias=(20)DT @weight=(20,16,3,3)DT",
        ),
        (
            &[1, 6, 9],
            "nn.Conv1d c 1 1 x y bias=False dilation=(1) groups=1 in_channels=6 kernel_size=(3) out_channels=9 padding=(0) padding_mode=zeros stride=(1) @weight=(9,6,3)DT",
        ),
        (
            &[1, 2, 4, 5, 3],
            "nn.Conv3d c 1 1 x y bias=False dilation=(1,1,1) groups=1 in_channels=2 kernel_size=(2,2,2) out_channels=8 padding=(1,0,1) padding_mode=zeros stride=(1,2,1) @weight=(8,2,2,2,2)DT",
        ),
        (
            &[2, 16, 4, 5],
            "nn.ConvTranspose2d c 1 1 x y bias=True dilation=(1,1) groups=2 in_channels=16 kernel_size=(3,2) out_channels=18 output_padding=(1,0) padding=(1,0) stride=(2,2) @bias=(18)DT @weight=(16,9,3,2)DT",
        ),
    ] {
        for (dtype, tolerance) in KINDS {
            let inputs = [noise(dtype, shape, 3)];
            near(&one(&line.replace("DT", dtype.name()), &inputs), &inputs, tolerance);
        }
    }
}

#[test]
fn convolutions_of_many_taps_and_few_channels_need_no_tensor_cores() {
    for line in [
        "nn.Conv1d c 1 1 x y bias=False dilation=(1) groups=1 in_channels=2 kernel_size=(130) out_channels=3 padding=(2) padding_mode=zeros stride=(1) @weight=(3,2,130)f16",
        "nn.Conv1d c 1 1 x y bias=True dilation=(1) groups=2 in_channels=2 kernel_size=(5) out_channels=2 padding=(2) padding_mode=zeros stride=(1) @bias=(2)f16 @weight=(2,1,5)f16",
    ] {
        let inputs = [noise(DType::F16, &[1, 2, 140], 3)];
        near(&one(line, &inputs), &inputs, 4e-2);
    }
}
