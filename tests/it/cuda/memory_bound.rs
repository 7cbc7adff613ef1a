//! Memory-bound kernels: in any layout, access by words, tiles and cached rows gives the same results as by element.

use super::{noise, one, same_as_cpu, several};
use ixion::tensor::{DType, Tensor};

const TYPES: [DType; 7] =
    [DType::F16, DType::Bf16, DType::F32, DType::F64, DType::I64, DType::U8, DType::Bool];

/// The tolerance of a type: one rounding of a result computed in f32.
fn rounding(dtype: DType) -> f64 {
    match dtype {
        DType::F16 => 2e-3,
        DType::Bf16 => 1e-2,
        DType::F32 => 1e-6,
        DType::F64 => 1e-12,
        _ => 0.0,
    }
}

/// A line of the operator `torch.permute`.
fn permuted(from: &str, to: &str, dims: &str) -> String {
    format!("torch.permute {to} 1 1 {from} {to} $input={from} dims=({dims})")
}

/// All but the first element along an axis: a view with an odd offset.
fn shifted(from: &str, to: &str, axis: usize) -> String {
    format!("Tensor.slice {to} 1 1 {from} {to} $input={from} dim={axis} start=1 end=2147483647 step=1")
}

const SUM: &str = "pnnx.Expression e 2 1 x x1 y expr=add(mul(@0,@1),@0)";

#[test]
fn elements_are_taken_in_words() {
    for dtype in TYPES {
        let chunk = 16 / dtype.size();
        // Whole words, a tail, fewer than a word, one and none.
        for len in [8 * chunk, 8 * chunk + 3, chunk - 1, 1, 0] {
            let inputs = [noise(dtype, &[len], 1), noise(dtype, &[len], 2)];
            same_as_cpu(&one(SUM, &inputs), &inputs, rounding(dtype));
            let inputs = [noise(dtype, &[len], 1), noise(dtype, &[], 2)];
            same_as_cpu(&one(SUM, &inputs), &inputs, rounding(dtype));
        }
    }
}

#[test]
fn elements_are_taken_in_words_beside_others_that_are_broadcast() {
    for dtype in [DType::F16, DType::F32, DType::I64] {
        for (shape, other) in [
            // Channels before pixels, in rows of whole words, of half words and of odd lengths.
            (&[2, 3, 4, 8][..], &[3, 1, 1][..]),
            (&[2, 3, 2, 2], &[3, 1, 1]),
            (&[2, 3, 5, 7], &[3, 1, 1]),
            // Channels after pixels.
            (&[2, 5, 16], &[16]),
            (&[2, 5, 12], &[12]),
            (&[2, 5, 7], &[7]),
            (&[4, 1, 8], &[4, 3, 8]),
            (&[4, 3, 1], &[4, 3, 8]),
        ] {
            let inputs = [noise(dtype, shape, 1), noise(dtype, other, 2)];
            same_as_cpu(&one(SUM, &inputs), &inputs, rounding(dtype));
        }
    }
}

#[test]
fn words_begin_on_their_boundaries_alone() {
    let sum = "pnnx.Expression e 2 1 v x1 y expr=add(mul(@0,@1),@0)";
    for dtype in [DType::F16, DType::F32, DType::Bool] {
        // Rows of 16 without their first element, and rows that begin within a word.
        for (shape, axis, other) in [
            (&[3, 17][..], 1, &[3, 16][..]),
            (&[33], 0, &[32]),
            (&[5, 8], 0, &[4, 8]),
            (&[5, 4], 0, &[4, 4]),
            (&[5, 3], 0, &[4, 3]),
        ] {
            let inputs = [noise(dtype, shape, 1), noise(dtype, other, 2)];
            let lines = [&*shifted("x", "v", axis), sum];
            same_as_cpu(&several(&lines, &inputs), &inputs, rounding(dtype));
        }
    }
}

#[test]
fn permuted_axes_are_merged_too() {
    for dims in ["0,2,3,1", "0,2,1,3", "3,2,1,0"] {
        for dtype in [DType::F16, DType::F32] {
            let inputs = [noise(dtype, &[2, 9, 4, 8], 1)];
            let turned = permuted("x", "v", dims);
            let lines = [&*turned, "pnnx.Expression e 1 1 v y expr=add(mul(@0,@0),1.5)"];
            same_as_cpu(&several(&lines, &inputs), &inputs, rounding(dtype));
            let lines = [&*turned, "pnnx.Expression e 2 1 v v y expr=sub(mul(@0,@1),2.0)"];
            same_as_cpu(&several(&lines, &inputs), &inputs, rounding(dtype));
        }
    }
    let inputs = [noise(DType::F16, &[3, 5, 9], 1), noise(DType::F32, &[9], 2)];
    let lines = [&*permuted("x", "v", "1,0,2"), "pnnx.Expression e 2 1 v x1 y expr=add(@0,@1)"];
    same_as_cpu(&several(&lines, &inputs), &inputs, 1e-5);
}

#[test]
fn copies_move_words_and_turn_tiles() {
    let twice = "torch.cat c 2 1 v v y dim=0";
    for dtype in TYPES.into_iter().chain([DType::C64, DType::C128]) {
        for (shape, dims) in [
            // More than a tile along both axes, with odd remainders.
            (&[70, 67][..], "1,0"),
            (&[2, 3, 40, 33], "0,2,3,1"),
            (&[2, 40, 3, 9], "0,3,1,2"),
            (&[3, 8, 8], "2,1,0"),
            // The innermost axis stays in place, as for attention heads.
            (&[2, 5, 3, 16], "0,2,1,3"),
            (&[2, 5, 3, 7], "0,2,1,3"),
            // Tiles of whole words, with edges, and with words along one axis only.
            (&[2, 144, 80], "0,2,1"),
            (&[16, 3, 48], "2,1,0"),
            (&[72, 67], "1,0"),
            // Too short for a tile: a few lines become one.
            (&[3, 5, 40], "0,2,1"),
            (&[2, 3, 16, 24], "0,2,3,1"),
            (&[2, 3, 5, 7], "0,2,3,1"),
            (&[7, 2, 50], "0,2,1"),
            (&[1, 0, 9], "2,1,0"),
        ] {
            let inputs = [noise(DType::F32, shape, 1).cast(dtype).unwrap()];
            same_as_cpu(&several(&[&permuted("x", "v", dims), twice], &inputs), &inputs, 0.0);
        }
        for shape in [&[4, 33][..], &[3, 17], &[19, 40]] {
            for axis in [0, 1] {
                let inputs = [noise(DType::F32, shape, 1).cast(dtype).unwrap()];
                same_as_cpu(&several(&[&shifted("x", "v", axis), twice], &inputs), &inputs, 0.0);
            }
        }
    }
}

#[test]
fn floats_are_converted_while_axes_are_turned() {
    for (from, to) in [
        (DType::F32, DType::F16),
        (DType::F32, DType::Bf16),
        (DType::F16, DType::F32),
        (DType::F64, DType::F16),
        (DType::F16, DType::F64),
    ] {
        // A picture of three channels, tiles of whole words, and tiles without.
        for shape in [[2, 3, 6, 8], [1, 24, 5, 16], [1, 9, 3, 11]] {
            let turned = [shape[0], shape[2], shape[3], shape[1]];
            let inputs = [noise(to, &turned, 1), noise(from, &shape, 2)];
            let lines = [&*permuted("x1", "v", "0,2,3,1"), "Tensor.copy k 2 1 x v y $self=x $src=v"];
            same_as_cpu(&several(&lines, &inputs), &inputs, rounding(to));
        }
    }
}

#[test]
fn activations_of_special_values() {
    let (minus, plus, nan) = (f32::NEG_INFINITY, f32::INFINITY, f32::NAN);
    let extremes =
        [0.0, -0.0, plus, minus, nan, 1e-40, -1e-40, 88.0, -86.5, -88.5, -104.0, 3e37, -3e38, -3.0, 3.0];
    let near: Vec<f32> = (-400..400).map(|i| i as f32 / 20.0).collect();
    let numbers: Vec<f32> = extremes.into_iter().chain(near).collect();
    let len = numbers.len();
    for dtype in [DType::F32, DType::F16, DType::Bf16, DType::F64] {
        let inputs = [Tensor::from_vec(numbers.clone(), &[len]).unwrap().cast(dtype).unwrap()];
        for line in ["nn.Sigmoid a", "nn.SiLU a", "nn.Hardswish a", "nn.Hardsigmoid a"] {
            same_as_cpu(&one(&format!("{line} 1 1 x y"), &inputs), &inputs, rounding(dtype));
        }
        same_as_cpu(&one("pnnx.Expression a 1 1 x y expr=rsqrt(@0)", &inputs), &inputs, rounding(dtype));
    }
}

#[test]
fn parts_are_joined() {
    for dtype in [DType::F16, DType::F32, DType::Bool] {
        for (dim, shapes) in [
            (1, [[2, 3, 8], [2, 5, 8]]),
            (1, [[2, 3, 7], [2, 4, 7]]),
            (2, [[2, 3, 8], [2, 3, 16]]),
            (2, [[2, 3, 3], [2, 3, 8]]),
        ] {
            let inputs = [noise(dtype, &shapes[0], 1), noise(dtype, &shapes[1], 2)];
            same_as_cpu(&one(&format!("torch.cat c 2 1 x x1 y dim={dim}"), &inputs), &inputs, 0.0);
            // A transposed part.
            let turned = [shapes[1][0], shapes[1][2], shapes[1][1]];
            let inputs = [noise(dtype, &shapes[0], 1), noise(dtype, &turned, 2)];
            let join = format!("torch.cat c 2 1 x v y dim={dim}");
            same_as_cpu(&several(&[&permuted("x1", "v", "0,2,1"), &join], &inputs), &inputs, 0.0);
        }
    }
}

#[test]
fn rows_are_read_once() {
    let keys = "elementwise_affine=True eps=1e-5";
    // Rows processed by a warp, with words of all lengths, and rows processed by a block, which caches or rereads them.
    for (dtype, tolerance, lengths) in [
        (DType::F32, 2e-5, &[1, 7, 52, 768, 1001, 1028, 9000][..]),
        (DType::F16, 1e-2, &[24, 1000, 1400]),
        (DType::F64, 1e-10, &[96, 1028]),
    ] {
        for &len in lengths {
            let inputs = [noise(dtype, &[6, len], 1)];
            let weights = format!("@weight=({len}){dtype} @bias=({len}){dtype}");
            // The deviation of a row with one element is 0.
            if len > 1 {
                let line = format!("nn.LayerNorm n 1 1 x y {keys} normalized_shape=({len}) {weights}");
                same_as_cpu(&one(&line, &inputs), &inputs, tolerance);
            }
            same_as_cpu(&one("F.softmax s 1 1 x y dim=1", &inputs), &inputs, tolerance);
            same_as_cpu(&one("torch.mean r 1 1 x y dim=(1) keepdim=True", &inputs), &inputs, tolerance);
        }
    }
    for len in [52, 1400] {
        let inputs = [noise(DType::F32, &[6, len], 1)];
        for line in [
            &*format!("nn.RMSNorm n 1 1 x y {keys} normalized_shape=({len}) @weight=({len})f32"),
            "F.log_softmax s 1 1 x y dim=1",
            "torch.logsumexp r 1 1 x y dim=(1) keepdim=False",
            "torch.std r 1 1 x y dim=(1) keepdim=False",
        ] {
            same_as_cpu(&one(line, &inputs), &inputs, 2e-5);
        }
    }
}

#[test]
fn rows_may_have_any_strides() {
    for line in [
        "F.softmax s 1 1 v y dim=-1",
        "nn.LayerNorm n 1 1 v y elementwise_affine=False eps=1e-3 normalized_shape=(24)",
        "torch.var r 1 1 v y dim=(2) keepdim=False unbiased=True",
        "torch.amax r 1 1 v y dim=(2) keepdim=True",
    ] {
        for dtype in [DType::F16, DType::F32] {
            let tolerance = 20.0 * rounding(dtype);
            // Rows that begin within a word, rows with gaps between them, and rows with gaps between their elements.
            let inputs = [noise(dtype, &[2, 5, 25], 1)];
            same_as_cpu(&several(&[&shifted("x", "v", 2), line], &inputs), &inputs, tolerance);
            let inputs = [noise(dtype, &[5, 2, 24], 1)];
            same_as_cpu(&several(&[&permuted("x", "v", "1,0,2"), line], &inputs), &inputs, tolerance);
            let inputs = [noise(dtype, &[3, 24, 5], 1)];
            same_as_cpu(&several(&[&permuted("x", "v", "0,2,1"), line], &inputs), &inputs, tolerance);
            // So many adjacent rows that each thread processes one.
            let inputs = [noise(dtype, &[1, 24, 300], 1)];
            same_as_cpu(&several(&[&permuted("x", "v", "0,2,1"), line], &inputs), &inputs, tolerance);
        }
    }
    let inputs = [noise(DType::F32, &[2, 40, 300], 1)];
    same_as_cpu(&one("F.softmax s 1 1 x y dim=1", &inputs), &inputs, 1e-5);
}

#[test]
fn channels_are_normalized_in_groups() {
    for (shape, groups) in [(&[2, 6, 4, 8][..], 3), (&[2, 6, 5, 3], 2), (&[3, 8], 2), (&[2, 4, 40, 40], 2)] {
        let channels = shape[1];
        let keys = format!("affine=True eps=1e-3 num_groups={groups} num_channels={channels}");
        let line = format!("nn.GroupNorm n 1 1 x y {keys} @weight=({channels})f32 @bias=({channels})f32");
        let inputs = [noise(DType::F32, shape, 1)];
        same_as_cpu(&one(&line, &inputs), &inputs, 1e-4);
    }
}

#[test]
fn softmax_propagates_nan() {
    let (minus, nan) = (f32::NEG_INFINITY, f32::NAN);
    for len in [5, 64, 2000] {
        let mut numbers = vec![0.5f32; 4 * len];
        numbers[..len].fill(minus);
        numbers[len] = nan;
        numbers[2 * len..3 * len - 1].fill(minus);
        numbers[3 * len + 1] = f32::INFINITY;
        let inputs = [Tensor::from_vec(numbers, &[4, len]).unwrap()];
        for line in
            ["F.softmax s 1 1 x y dim=1", "F.log_softmax s 1 1 x y dim=1", "F.softmin s 1 1 x y dim=1"]
        {
            same_as_cpu(&one(line, &inputs), &inputs, 1e-5);
        }
    }
}

#[test]
fn rows_of_tables_are_copied_in_words() {
    for dtype in [DType::F16, DType::F32] {
        for width in [1, 4, 7, 8, 24] {
            let indices = [Tensor::from_vec(vec![3i64, 0, 8, 8, 2, 5], &[2, 3]).unwrap()];
            let keys = format!("embedding_dim={width} num_embeddings=9 sparse=False");
            let line = format!("nn.Embedding e 1 1 x y {keys} @weight=(9,{width}){dtype}");
            same_as_cpu(&one(&line, &indices), &indices, 0.0);
            let inputs =
                [noise(dtype, &[2, 9, width], 1), Tensor::from_vec(vec![8i64, 0, 3, 3, 1], &[5]).unwrap()];
            let line = "torch.index_select s 2 1 x x1 y $input=x $index=x1 dim=1";
            same_as_cpu(&one(line, &inputs), &inputs, 0.0);
        }
    }
}

#[test]
fn channels_last_tensors_stay_channels_last() {
    for line in [
        "nn.MaxPool2d p 1 1 v y kernel_size=(3,3) stride=(2,2) padding=(1,1) dilation=(1,1) ceil_mode=False return_indices=False",
        "nn.AdaptiveAvgPool2d p 1 1 v y output_size=(3,2)",
        "F.upsample u 1 1 v y align_corners=False mode=bilinear size=(9,7)",
    ] {
        let inputs = [noise(DType::F32, &[2, 6, 5, 7], 1)];
        same_as_cpu(&several(&[&permuted("x", "v", "0,3,1,2"), line], &inputs), &inputs, 1e-5);
    }
}
