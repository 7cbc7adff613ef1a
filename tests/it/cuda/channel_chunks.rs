//! Pooling, and convolutions in groups of few channels: chunks of channels and shared windows give the same results as windows
//! that are computed one by one.

use super::channels_last::{alternating, conv, graph};
use super::{noise, one, same_as_cpu, same_as_cpu_with, several};
use ixion::cuda::CudaLayers;
use ixion::tensor::{DType, Tensor};

const TYPES: [(DType, f64); 3] = [(DType::F16, 3e-2), (DType::Bf16, 1e-1), (DType::F32, 1e-4)];

/// Numbers of channels that are whole words of f16, halves and quarters of words, and odd.
const CHANNELS: [usize; 4] = [16, 12, 6, 7];

const POOLS: [&str; 5] = [
    "F.max_pool2d p 1 1 x y kernel_size=(3,2) stride=(2,1) padding=(1,1) dilation=(1,2) ceil_mode=True return_indices=False",
    "F.avg_pool2d p 1 1 x y kernel_size=(3,3) stride=(2,2) padding=(1,1) ceil_mode=True count_include_pad=False divisor_override=None",
    "F.adaptive_avg_pool2d p 1 1 x y output_size=(3,5)",
    // Windows of at least 32 positions, which threads share.
    "F.max_pool2d p 1 1 x y kernel_size=(4,8) stride=(3,2) padding=(2,4) dilation=(2,1) ceil_mode=False return_indices=False",
    "F.adaptive_avg_pool2d p 1 1 x y output_size=(1,1)",
];

#[test]
fn pooling_takes_chunks_of_channels() {
    for line in POOLS {
        for channels in CHANNELS {
            let inputs = [noise(DType::F16, &[2, channels, 8, 7], 1)];
            alternating(&one(line, &inputs), &inputs, 1e-2);
        }
        for (dtype, tolerance) in TYPES {
            let inputs = [noise(dtype, &[3, 8, 9, 6], 2)];
            alternating(&one(line, &inputs), &inputs, tolerance);
        }
    }
    for line in [
        "F.max_pool3d p 1 1 x y kernel_size=(2,3,2) stride=(1,2,2) padding=(1,1,0) dilation=(1,1,2) ceil_mode=False return_indices=False",
        "F.avg_pool3d p 1 1 x y kernel_size=(3,4,3) stride=(1,2,1) padding=(1,2,1) ceil_mode=False count_include_pad=True divisor_override=None",
        "F.adaptive_avg_pool3d p 1 1 x y output_size=(1,1,2)",
    ] {
        let inputs = [noise(DType::F32, &[2, 8, 4, 7, 5], 1)];
        alternating(&one(line, &inputs), &inputs, 1e-4);
    }
    let line = "F.avg_pool1d p 1 1 x y kernel_size=(40) stride=(3) padding=(20) ceil_mode=False count_include_pad=True";
    let inputs = [noise(DType::F32, &[2, 8, 70], 1)];
    alternating(&one(line, &inputs), &inputs, 1e-4);
}

#[test]
fn planes_may_be_shared_by_threads() {
    for line in POOLS {
        let inputs = [noise(DType::F32, &[2, 3, 9, 8], 1)];
        same_as_cpu(&one(line, &inputs), &inputs, 1e-4);
        let inputs = [noise(DType::I64, &[1, 2, 9, 8], 1)];
        if line.contains("max_pool") {
            same_as_cpu(&one(line, &inputs), &inputs, 0.0);
        }
    }
    // So many windows that fewer threads share each.
    let inputs = [noise(DType::F32, &[2, 2100, 6, 6], 1)];
    same_as_cpu(&one(POOLS[4], &inputs), &inputs, 1e-4);
}

#[test]
fn maxima_and_their_positions_are_those_of_the_cpu() {
    let (minus, nan) = (f32::NEG_INFINITY, f32::NAN);
    let mut numbers: Vec<f32> = (0..2 * 8 * 8 * 8).map(|i| (i * 37 % 11) as f32).collect();
    // A plane without numbers above -∞, a plane with NaN at its begin and end, and one with NaN and ∞.
    numbers[..64].fill(minus);
    (numbers[64], numbers[127], numbers[150], numbers[151]) = (nan, nan, f32::INFINITY, nan);
    let inputs = [Tensor::from_vec(numbers, &[2, 8, 8, 8]).unwrap()];
    for window in
        ["kernel_size=(3,3) stride=(2,2) padding=(1,1)", "kernel_size=(6,6) stride=(2,1) padding=(3,3)"]
    {
        let keys = format!("{window} dilation=(1,1) ceil_mode=False");
        let text = one(&format!("F.max_pool2d p 1 1 x y {keys} return_indices=False"), &inputs);
        same_as_cpu(&text, &inputs, 0.0);
        alternating(&text, &inputs, 0.0);
        let lines = [
            &*format!("F.max_pool2d p 1 2 x a b {keys} return_indices=True"),
            "pnnx.Expression e 1 1 b y expr=add(@0,@0)",
        ];
        let text = several(&lines, &inputs).replacen("4 3\n", "4 4\n", 1);
        same_as_cpu(&text, &inputs, 0.0);
        alternating(&text, &inputs, 0.0);
    }
}

#[test]
fn steps_of_windows_may_be_longer_than_axes() {
    // Windows of one position along the last axis, of which one thread or several compute each.
    for len in [3, 33] {
        let line = format!(
            "F.max_pool2d p 1 1 x y kernel_size=({len},1) stride=(1,1) padding=(0,0) dilation=(1,1073741823) \
             ceil_mode=False return_indices=False"
        );
        let inputs = [noise(DType::F32, &[1, 8, 35, 3], 1)];
        same_as_cpu(&one(&line, &inputs), &inputs, 0.0);
    }
}

/// A convolution `x` → `y` with a bias.
fn grouped(
    op_type: &str,
    [inputs, outputs, groups]: [usize; 3],
    window: &str,
    keys: &str,
    dtype: DType,
) -> String {
    let transposed = op_type.contains("Transpose");
    let rows = if transposed { [inputs, outputs / groups] } else { [outputs, inputs / groups] };
    let [first, second] = rows;
    let name = dtype.name();
    format!(
        "{op_type} c 1 1 x y bias=True groups={groups} in_channels={inputs} out_channels={outputs} kernel_size=({window}) {keys} \
         @bias=({outputs}){name} @weight=({first},{second},{window}){name}"
    )
}

/// Rows that are no multiple of a strip, strides, single rows, padding on one side, and an epilogue with another input.
#[test]
fn depthwise_convolutions_compute_strips_of_rows() {
    for (window, keys, shape) in [
        ("3,3", "dilation=(1,1) padding=(1,1) stride=(1,1) padding_mode=zeros", [2, 16, 5, 9]),
        ("3,3", "dilation=(2,1) padding=(2,1) stride=(2,2) padding_mode=zeros", [1, 16, 7, 10]),
        ("5,5", "dilation=(1,1) padding=(2,2) stride=(2,2) padding_mode=zeros", [1, 16, 6, 13]),
        ("5,5", "dilation=(1,1) padding=(2,0) stride=(1,1) padding_mode=zeros", [2, 8, 4, 10]),
        ("1,3", "dilation=(1,1) padding=(0,2) stride=(1,1) padding_mode=zeros", [1, 24, 1, 4]),
        // Padding is on one side only.
        ("2,4", "dilation=(1,1) padding=same stride=(1,1) padding_mode=zeros", [1, 8, 3, 7]),
    ] {
        let channels = shape[1];
        for (dtype, tolerance) in TYPES {
            let inputs = [noise(dtype, &shape, 1)];
            let line = grouped("nn.Conv2d", [channels, channels, channels], window, keys, dtype);
            alternating(&one(&line, &inputs), &inputs, tolerance);
        }
    }
    let keys = "dilation=(1,1) padding=(1,1) stride=(1,1) padding_mode=zeros";
    for (dtype, tolerance) in TYPES {
        let inputs = [noise(dtype, &[2, 8, 3, 6], 1), noise(dtype, &[2, 8, 3, 6], 2)];
        let line = grouped("nn.Conv2d", [8, 8, 8], "3,3", keys, dtype).replace(" x y ", " x a ");
        let lines = [&*line, "pnnx.Expression e 2 1 a x1 b expr=add(@0,@1)", "nn.SiLU s 1 1 b y"];
        alternating(&several(&lines, &inputs), &inputs, tolerance);
    }
}

#[test]
fn convolutions_take_chunks_of_channels() {
    let keys = "dilation=(2,1) padding=(2,1) stride=(1,2) padding_mode=zeros";
    for (channels, groups) in [(16, 16), (12, 12), (6, 6), (7, 7), (16, 8), (16, 4), (12, 4)] {
        for (dtype, tolerance) in TYPES {
            let inputs = [noise(dtype, &[2, channels, 7, 6], 1)];
            let line = grouped("nn.Conv2d", [channels, channels, groups], "3,3", keys, dtype);
            alternating(&one(&line, &inputs), &inputs, tolerance);
        }
    }
    // More output channels than input channels in a group, and fewer.
    for (outputs, groups) in [(16, 8), (24, 8), (4, 4)] {
        let inputs = [noise(DType::F32, &[2, 8, 7, 6], 1)];
        let line = grouped("nn.Conv2d", [8, outputs, groups], "3,3", keys, DType::F32);
        alternating(&one(&line, &inputs), &inputs, 1e-4);
        same_as_cpu(&one(&line, &inputs), &inputs, 1e-4);
    }
    for (dtype, tolerance) in TYPES {
        // Windows of many taps, which are read in parts, and other padding.
        for mode in ["zeros", "reflect"] {
            let keys = format!("dilation=(2) padding=(8) stride=(1) padding_mode={mode}");
            let inputs = [noise(dtype, &[2, 8, 21], 1)];
            let line = grouped("nn.Conv1d", [8, 8, 8], "9", &keys, dtype);
            alternating(&one(&line, &inputs), &inputs, tolerance);
        }
        let keys = "dilation=(1,2,1) padding=(1,2,0) stride=(2,1,1) padding_mode=zeros";
        let inputs = [noise(dtype, &[1, 8, 4, 6, 5], 1)];
        let line = grouped("nn.Conv3d", [8, 8, 8], "2,3,3", keys, dtype);
        alternating(&one(&line, &inputs), &inputs, tolerance);
        let keys = "dilation=(1,2) padding=(1,0) stride=(2,3) output_padding=(1,0)";
        for groups in [16, 8] {
            let inputs = [noise(dtype, &[2, 16, 5, 4], 1)];
            let line = grouped("nn.ConvTranspose2d", [16, 16, groups], "3,2", keys, dtype);
            alternating(&one(&line, &inputs), &inputs, tolerance);
        }
    }
}

#[test]
fn computed_weights_may_be_channels_last() {
    for (op_type, keys) in [
        ("F.conv2d", "dilation=(1,1) padding=(1,0) stride=(2,1)"),
        ("F.conv_transpose2d", "dilation=(1,1) padding=(1,0) stride=(2,1) output_padding=(0,0)"),
    ] {
        for (groups, window) in [(16, [3, 2]), (8, [3, 2]), (8, [3, 1]), (4, [2, 2])] {
            let weights = [16, 16 / groups, window[0], window[1]];
            let inputs = [noise(DType::F32, &[2, 16, 5, 4], 1), noise(DType::F32, &weights, 2)];
            let line = format!("{op_type} c 2 1 x x1 y $input=x $weight=x1 bias=None groups={groups} {keys}");
            alternating(&one(&line, &inputs), &inputs, 1e-4);
        }
    }
}

#[test]
fn each_channel_of_a_chunk_has_its_own_epilogue() {
    for (dtype, tolerance) in TYPES {
        for channels in [16, 12, 7] {
            let shape = [2, channels, 6, 5];
            let inputs = [noise(dtype, &shape, 1), noise(dtype, &shape, 2)];
            let lines = [
                conv("c", ["x", "a"], [channels, channels, 3, channels], 1, dtype),
                "pnnx.Expression e 2 1 a x1 b expr=add(@0,@1)".to_owned(),
                "nn.SiLU r 1 1 b y".to_owned(),
            ];
            alternating(&graph(&lines, &inputs), &inputs, tolerance);
        }
    }
}

#[test]
fn views_may_begin_within_a_chunk() {
    for start in [1, 4, 8] {
        let channels = 24 - start;
        let inputs = [noise(DType::F16, &[2, 16, 7, 6], 1)];
        let lines = [
            conv("c", ["x", "a"], [16, 24, 1, 1], 1, DType::F16),
            format!("Tensor.slice s 1 1 a b $input=a dim=1 start={start} end=2147483647 step=1"),
            "F.max_pool2d p 1 1 b d kernel_size=(3,3) stride=(1,1) padding=(1,1) dilation=(1,1) ceil_mode=False \
             return_indices=False"
                .to_owned(),
            conv("e", ["b", "f"], [channels, channels, 3, channels], 1, DType::F16),
            "pnnx.Expression j 2 1 d f y expr=add(@0,@1)".to_owned(),
        ];
        same_as_cpu_with(&CudaLayers::default(), &graph(&lines, &inputs), &inputs, 5e-2);
    }
}
