//! Layers of all families on small tensors, some with unusual strides.

use super::{noise, one, same_as_cpu, several};
use ixion::cuda::CudaLayers;
use ixion::tensor::{DType, Tensor};

/// Tests an operator with one f32 input.
fn of(shape: &[usize], line: &str) {
    let inputs = [noise(DType::F32, shape, 1)];
    same_as_cpu(&one(line, &inputs), &inputs, 1e-4);
}

/// Like [`of`], also with a transposed view of the input, in half precision and in f64.
fn of_all_kinds(shape: &[usize], line: &str) {
    of(shape, line);
    let turned: Vec<usize> =
        [&shape[..shape.len() - 2], &[shape[shape.len() - 1], shape[shape.len() - 2]]].concat();
    let inputs = [noise(DType::F32, &turned, 2)];
    let view = "torch.transpose view 1 1 x v dim0=-1 dim1=-2";
    same_as_cpu(&several(&[view, &line.replacen(" x ", " v ", 1)], &inputs), &inputs, 1e-4);
    for (dtype, tolerance) in [(DType::F64, 1e-9), (DType::F16, 2e-2)] {
        let inputs = [noise(dtype, shape, 3)];
        same_as_cpu(&one(line, &inputs), &inputs, tolerance);
    }
}

#[test]
fn products() {
    let line = "torch.matmul m 2 1 x x1 y $input=x $other=x1";
    for (left, right) in [
        (&[70, 33][..], &[33, 65][..]),
        (&[3, 5, 7], &[7, 2]),
        (&[2, 1, 4, 6], &[3, 6, 5]),
        (&[9], &[9, 4]),
        (&[4, 9], &[9]),
        (&[9], &[9]),
        (&[3, 0], &[0, 2]),
    ] {
        for dtype in [DType::F32, DType::I64] {
            let inputs = [noise(dtype, left, 1), noise(dtype, right, 2)];
            same_as_cpu(&one(line, &inputs), &inputs, 1e-4);
        }
    }
    let inputs =
        [noise(DType::F32, &[5, 4], 1), noise(DType::F32, &[5, 3], 2), noise(DType::F32, &[3, 4], 3)];
    let added = "torch.addmm a 3 1 x x1 x2 y $input=x $mat1=x1 $mat2=x2 alpha=0.5 beta=2.0";
    same_as_cpu(&one(added, &inputs), &inputs, 1e-4);
    let weights = "bias=True in_features=6 out_features=5 @bias=(5)f32 @weight=(5,6)f32";
    of(&[2, 3, 6], &format!("nn.Linear l 1 1 x y {weights}"));
    of(&[6], &format!("nn.Linear l 1 1 x y {weights}"));
    // The addition of another tensor and the activation are fused into the product.
    let inputs = [noise(DType::F32, &[4, 6], 1), noise(DType::F32, &[4, 5], 2)];
    let lines = [
        &*format!("nn.Linear l 1 1 x a {weights}"),
        "pnnx.Expression e 2 1 a x1 b expr=add(@0,@1)",
        "nn.SiLU s 1 1 b y",
    ];
    same_as_cpu(&several(&lines, &inputs), &inputs, 1e-4);
}

#[test]
fn sums_in_einsteins_notation() {
    for (equation, left, right) in [
        ("bij,bjk->bik", &[2, 3, 4][..], &[2, 4, 5][..]),
        ("bhid,bhjd->bhij", &[2, 3, 4, 5], &[2, 3, 6, 5]),
        ("ij,kl->ki", &[3, 4], &[5, 6]),
        ("ii,ij->j", &[4, 4], &[4, 3]),
    ] {
        let inputs = [noise(DType::F32, left, 1), noise(DType::F32, right, 2)];
        let line = format!("torch.einsum e 2 1 x x1 y equation={equation}");
        same_as_cpu(&one(&line, &inputs), &inputs, 1e-4);
    }
}

#[test]
fn rows() {
    for line in [
        "F.softmax s 1 1 x y dim=1",
        "F.log_softmax s 1 1 x y dim=-1",
        "nn.LayerNorm n 1 1 x y elementwise_affine=False eps=1e-3 normalized_shape=(40)",
        "nn.GroupNorm n 1 1 x y affine=False eps=1e-3 num_groups=3",
        "F.instance_norm n 1 1 x y eps=1e-3",
        "F.local_response_norm n 1 1 x y size=3 alpha=0.1",
        "torch.sum r 1 1 x y dim=(0,2) keepdim=False",
        "torch.mean r 1 1 x y dim=(1) keepdim=True",
        "torch.std r 1 1 x y dim=(2) keepdim=False",
        "torch.logsumexp r 1 1 x y dim=(1) keepdim=False",
        "torch.amax r 1 1 x y dim=(2) keepdim=True",
        "torch.argmin r 1 1 x y dim=1 keepdim=False",
        "torch.cumsum r 1 1 x y dim=1",
    ] {
        of_all_kinds(&[2, 6, 40], line);
    }
    // Many adjacent rows are each read by one thread.
    of(&[7, 300], "torch.sum r 1 1 x y dim=(0) keepdim=False");
    of(&[3, 700], "F.softmax s 1 1 x y dim=-1");
}

#[test]
fn convolutions() {
    for keys in [
        "stride=(1,1) padding=(1,1) dilation=(1,1) groups=1 in_channels=4 out_channels=70 @weight=(70,4,3,3)f32",
        "stride=(2,2) padding=(2,1) dilation=(2,1) groups=2 in_channels=4 out_channels=20 @weight=(20,2,3,3)f32",
        "stride=(1,1) padding=(1,1) dilation=(1,1) groups=4 in_channels=4 out_channels=8 @weight=(8,1,3,3)f32",
    ] {
        let line = format!("nn.Conv2d c 1 1 x y bias=False kernel_size=(3,3) padding_mode=zeros {keys}");
        of(&[2, 4, 9, 8], &line);
    }
    for mode in ["reflect", "replicate", "circular"] {
        let keys = "bias=True in_channels=3 out_channels=2 kernel_size=(3) stride=(1) padding=(2) dilation=(1) groups=1";
        let line = format!("nn.Conv1d c 1 1 x y {keys} padding_mode={mode} @weight=(2,3,3)f32 @bias=(2)f32");
        of(&[2, 3, 11], &line);
    }
    let keys = "bias=True stride=(2,1) padding=(1,0) output_padding=(1,0) dilation=(1,2) kernel_size=(3,2)";
    let line = format!(
        "nn.ConvTranspose2d c 1 1 x y {keys} in_channels=4 out_channels=6 groups=2 @weight=(4,3,3,2)f32 @bias=(6)f32"
    );
    of(&[2, 4, 5, 6], &line);
    let lines = [
        "nn.Conv2d c 1 1 x a bias=True kernel_size=(1,1) stride=(1,1) padding=(0,0) dilation=(1,1) groups=1 padding_mode=zeros in_channels=4 out_channels=4 @weight=(4,4,1,1)f32 @bias=(4)f32",
        "pnnx.Expression e 2 1 a x b expr=add(@0,@1)",
        "nn.ReLU r 1 1 b y",
    ];
    let inputs = [noise(DType::F32, &[1, 4, 5, 5], 1)];
    same_as_cpu(&several(&lines, &inputs), &inputs, 1e-4);
}

#[test]
fn windows_and_sizes() {
    for line in [
        "F.max_pool2d p 1 1 x y kernel_size=(3,2) stride=(2,2) padding=(1,1) dilation=(1,1) ceil_mode=True return_indices=False",
        "F.avg_pool2d p 1 1 x y kernel_size=(3,3) stride=(2,2) padding=(1,1) ceil_mode=True count_include_pad=True divisor_override=None",
        "F.adaptive_avg_pool2d p 1 1 x y output_size=(3,5)",
        "F.interpolate i 1 1 x y mode=nearest size=(11,4)",
        "F.interpolate i 1 1 x y mode=bilinear align_corners=False size=(11,4)",
        "F.interpolate i 1 1 x y mode=bicubic align_corners=True size=(9,10)",
        "F.pad p 1 1 x y mode=reflect pad=(1,2,3,1) value=None",
        "F.pad p 1 1 x y mode=constant pad=(1,-2,0,2) value=0.5",
        "F.pad p 1 1 x y mode=circular pad=(1,2,3,1) value=None",
    ] {
        of_all_kinds(&[2, 3, 7, 8], line);
    }
}

#[test]
fn movement() {
    for line in [
        "torch.flip f 1 1 x y dims=(0,2)",
        "torch.roll r 1 1 x y shifts=(1,-2) dims=(0,2)",
        "Tensor.repeat r 1 1 x y sizes=(2,1,3,1)",
        "torch.repeat_interleave r 1 1 x y repeats=3 dim=1",
        "nn.PixelShuffle p 1 1 x y upscale_factor=2",
        "nn.ChannelShuffle c 1 1 x y groups=2",
        "torch.clamp c 1 1 x y min=-0.5 max=0.75",
        "nn.Softplus s 1 1 x y beta=2.0 threshold=3.0",
        "F.glu g 1 1 x y dim=1",
    ] {
        of_all_kinds(&[2, 4, 6, 10], line);
    }
    let inputs = [noise(DType::F32, &[2, 3, 4], 1), noise(DType::F32, &[2, 5, 4], 2)];
    same_as_cpu(&one("torch.cat c 2 1 x x1 y dim=1", &inputs), &inputs, 0.0);
    let inputs = [noise(DType::I32, &[2, 3], 1), noise(DType::F32, &[2, 3], 2)];
    same_as_cpu(&one("torch.stack c 2 1 x x1 y dim=-1", &inputs), &inputs, 0.0);
    same_as_cpu(&one("torch.ge c 2 1 x x1 y $input=x $other=x1", &inputs), &inputs, 0.0);
}

#[test]
fn an_index_beyond_the_table_fails_the_run() {
    use super::{emulators, plan};
    use ixion::engine::Context;
    use std::sync::Arc;
    let line = "nn.Embedding e 1 1 x y num_embeddings=5 embedding_dim=3 @weight=(5,3)f32";
    let good = [Tensor::from_vec(vec![4i64, 0, 1], &[3]).unwrap()];
    same_as_cpu(&one(line, &good), &good, 0.0);
    for device in emulators() {
        let mut context =
            Context::shared(Arc::new(plan(&one(line, &good), Some((device, &CudaLayers::default())))))
                .unwrap();
        let bad = [Tensor::from_vec(vec![4i64, 7, 1], &[3]).unwrap()];
        for _ in 0..3 {
            let error = context.run(&bad).unwrap_err().to_string();
            assert!(error.contains("nn.Embedding") && error.contains("index 7"), "{error}");
            assert!(context.run(&good).is_ok());
        }
    }
}

#[test]
fn sequences() {
    for (op_type, gates) in [("nn.GRU", 3), ("nn.LSTM", 4), ("nn.RNN", 1)] {
        let weights = ["l0", "l0_reverse"].map(|at| {
            let rows = gates * 5;
            format!("@weight_ih_{at}=({rows},6)f32 @weight_hh_{at}=({rows},5)f32 @bias_ih_{at}=({rows})f32 @bias_hh_{at}=({rows})f32")
        });
        let keys = "input_size=6 hidden_size=5 num_layers=1 bias=True batch_first=True bidirectional=True";
        of(&[2, 4, 6], &format!("{op_type} r 1 1 x y {keys} {} #y=(2,4,10)f32", weights.join(" ")));
    }
}

#[test]
fn orders_and_signals() {
    of_all_kinds(&[3, 5, 70], "aten::argsort s 1 1 x y dim=1 descending=True");
    of(&[2, 300], "aten::argsort s 1 1 x y dim=-1 descending=False");
    let inputs = [noise(DType::F32, &[3, 20], 1)];
    for (forward, back) in [("rfft", "irfft"), ("fft", "hfft")] {
        for n in [16, 15] {
            let lines = [
                format!("torch.fft.{forward} a 1 1 x v dim=1 n={n} norm=ortho"),
                format!("torch.fft.{back} b 1 1 v y dim=1 n={n} norm=forward"),
            ];
            same_as_cpu(&several(&[&lines[0], &lines[1]], &inputs), &inputs, 1e-3);
        }
    }
}

#[test]
fn grids() {
    let inputs = [noise(DType::F32, &[2, 3, 5, 6], 1), noise(DType::F32, &[2, 4, 3, 2], 2)];
    for (mode, padding) in [("bilinear", "zeros"), ("nearest", "border"), ("bicubic", "reflection")] {
        let keys = format!("mode={mode} padding_mode={padding} align_corners=False");
        let line = format!("F.grid_sample g 2 1 x x1 y $input=x $grid=x1 {keys}");
        same_as_cpu(&one(&line, &inputs), &inputs, 1e-4);
    }
    let window = "kernel_size=(2,3) dilation=(1,2) padding=(1,2) stride=(2,1)";
    of_all_kinds(&[2, 3, 6, 7], &format!("F.unfold u 1 1 x y {window}"));
    of(&[2, 18, 4 * 7], &format!("F.fold f 1 1 x y output_size=(6,7) {window}"));
}
