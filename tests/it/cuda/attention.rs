//! Attention compared with the CPU: with plain arithmetic and with tensor cores.

use super::{noise, one, same_as_cpu, same_as_cpu_with, several};
use ixion::cuda::{CudaLayers, Tf32};
use ixion::tensor::{DType, Tensor};

/// The kind of mask.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Mask {
    None,
    /// Row i sees columns 0 to i.
    Causal,
    /// A bool per row and column; one row is fully masked.
    Bool,
    /// Values per head.
    OfHeads(DType),
    /// Values per sample, the same for all rows: −∞ and the lowest finite value of the type, as in padding masks.
    OfColumns(DType),
    /// A value per row, the same for all columns.
    OfRows,
}

/// The memory layout of queries, keys and values.
#[derive(Debug, Clone, Copy, PartialEq)]
enum View {
    /// Contiguous.
    Plain,
    /// The heads of a position are adjacent, as in the output of projections.
    Heads,
    /// The positions of a head are adjacent.
    Turned,
}

/// A kind of attention with a kernel of its own, tested with several random sizes.
struct Kind {
    dtype: DType,
    /// The widths of queries and keys, and of values.
    widths: [usize; 2],
    /// The number of query heads that share a key and value head.
    shared: usize,
    mask: Mask,
    /// The layouts of queries, keys and values.
    views: [View; 3],
}

/// A number from 1 to `most` that depends on the seed.
fn drawn(seed: usize, most: usize) -> usize {
    let mixed = (seed as u64 + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    1 + (mixed >> 33) as usize % most
}

impl Mask {
    fn tensor(self, [rows, columns]: [usize; 2], [samples, heads]: [usize; 2]) -> Option<Tensor> {
        let hide = |i: usize| if i % 5 == 3 { f64::NEG_INFINITY } else { (i % 7) as f64 / 2.0 };
        let (numbers, shape, dtype): (Vec<f64>, Vec<usize>, DType) = match self {
            Self::None | Self::Causal => return None,
            Self::Bool => {
                let shows = (0..rows * columns).map(|i| i % 5 != 0 && i / columns != 3);
                return Some(Tensor::from_vec(shows.collect::<Vec<bool>>(), &[rows, columns]).unwrap());
            }
            Self::OfHeads(dtype) => {
                let shape = vec![samples, heads, rows, columns];
                ((0..shape.iter().product()).map(hide).collect(), shape, dtype)
            }
            Self::OfColumns(dtype) => {
                let least = if dtype == DType::F16 { -65504.0 } else { f64::from(f32::MIN) };
                // All columns of the first sample are masked as padding, so that they have equal weights.
                let hide = |i: usize| if i < columns || i.is_multiple_of(3) { least } else { hide(i) };
                ((0..samples * columns).map(hide).collect(), vec![samples, 1, 1, columns], dtype)
            }
            Self::OfRows => ((0..rows).map(|i| i as f64 / 8.0).collect(), vec![rows, 1], DType::F32),
        };
        Some(Tensor::from_vec(numbers, &shape).unwrap().cast(dtype).unwrap())
    }
}

impl View {
    /// The shape of a tensor of which this view has the shape `[samples, heads, len, width]`.
    fn shape(self, [samples, heads, len, width]: [usize; 4]) -> [usize; 4] {
        match self {
            Self::Plain => [samples, heads, len, width],
            Self::Heads => [samples, len, heads, width],
            Self::Turned => [samples, heads, width, len],
        }
    }

    /// The operator that creates the view, or `None` if none is needed.
    fn line(self, from: &str, to: &str) -> Option<String> {
        match self {
            Self::Plain => None,
            Self::Heads => Some(format!("torch.transpose t{to} 1 1 {from} {to} dim0=1 dim1=2")),
            Self::Turned => Some(format!("torch.transpose t{to} 1 1 {from} {to} dim0=-1 dim1=-2")),
        }
    }
}

impl Kind {
    fn new(dtype: DType, widths: [usize; 2], mask: Mask, view: View) -> Self {
        Self { dtype, widths, shared: 1, mask, views: [view; 3] }
    }

    /// Compares the results for these lengths, exactly computed in f32.
    fn check(&self, lengths: [usize; 2], batch: [usize; 2]) {
        self.check_with(Tf32::NONE, lengths, batch);
    }

    /// Compares the results for these lengths.
    fn check_with(&self, tf32: Tf32, [rows, columns]: [usize; 2], [samples, heads]: [usize; 2]) {
        let &Self { dtype, widths: [width, out], shared, mask, views } = self;
        let shapes = [
            [samples, heads * shared, rows, width],
            [samples, heads, columns, width],
            [samples, heads, columns, out],
        ];
        let mut lines = Vec::new();
        let mut inputs = Vec::new();
        let mut names = ["x", "x1", "x2"];
        for ((shape, view), (name, to)) in
            shapes.into_iter().zip(views).zip(names.iter_mut().zip(["q", "k", "v"]))
        {
            inputs.push(noise(dtype, &view.shape(shape), inputs.len() + rows));
            if let Some(line) = view.line(name, to) {
                lines.push(line);
                *name = to;
            }
        }
        let [q, k, v] = names;
        let tensor = mask.tensor([rows, columns], [samples, heads * shared]);
        let (count, operand, key) = if tensor.is_some() { (4, " x3", " $attn_mask=x3") } else { (3, "", "") };
        inputs.extend(tensor);
        let causal = if mask == Mask::Causal { "True" } else { "False" };
        let grouped = if shared > 1 { "True" } else { "False" };
        lines.push(format!(
            "F.scaled_dot_product_attention a {count} 1 {q} {k} {v}{operand} y $query={q} $key={k} $value={v}{key} is_causal={causal} enable_gqa={grouped}"
        ));
        let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
        let tolerance = match dtype {
            DType::F16 => 4e-3,
            DType::Bf16 => 3e-2,
            DType::F32 if tf32.products => 1e-2,
            _ => 1e-4,
        };
        let layers = CudaLayers::default().with_tf32(tf32);
        same_as_cpu_with(&layers, &several(&lines, &inputs), &inputs, tolerance);
    }

    /// Compares the results `times` times, for random lengths of up to 130 rows and 200 columns.
    fn check_several(&self, times: usize) {
        self.check_several_with(Tf32::NONE, times);
    }

    fn check_several_with(&self, tf32: Tf32, times: usize) {
        let seed = self.widths[0] * 31 + self.widths[1] * 7 + self.shared;
        for time in 0..times {
            let lengths = [drawn(seed + 2 * time, 130), drawn(seed + 2 * time + 1, 200)];
            self.check_with(tf32, lengths, [1 + time % 2, 1 + (time + 1) % 2]);
        }
    }
}

#[test]
fn tensor_cores_attend_to_any_number_of_columns() {
    let kind = Kind::new(DType::F16, [64, 64], Mask::None, View::Plain);
    for lengths in [[1, 1], [16, 64], [17, 65], [64, 16], [130, 200], [5, 129]] {
        kind.check(lengths, [1, 2]);
    }
}

#[test]
fn tensor_cores_attend_with_each_kind_of_mask() {
    let half = DType::F16;
    for (mask, dtype) in [
        (Mask::Causal, half),
        (Mask::Bool, half),
        (Mask::OfHeads(DType::F32), half),
        (Mask::OfColumns(half), half),
        (Mask::OfColumns(DType::F32), DType::Bf16),
        (Mask::OfRows, DType::Bf16),
    ] {
        Kind::new(dtype, [32, 32], mask, View::Heads).check_several(4);
    }
    let kind = Kind::new(half, [16, 16], Mask::Causal, View::Plain);
    for lengths in [[130, 130], [40, 200], [130, 20], [64, 64]] {
        kind.check(lengths, [1, 1]);
    }
}

#[test]
fn tensor_cores_attend_with_heads_of_any_width() {
    for widths in [[8, 8], [24, 40], [80, 80], [128, 128], [16, 104]] {
        Kind::new(DType::F16, widths, Mask::None, View::Heads).check_several(2);
    }
    Kind::new(DType::Bf16, [128, 8], Mask::Bool, View::Plain).check_several(2);
}

#[test]
fn tensor_cores_attend_in_any_layout() {
    for (views, mask) in [
        ([View::Turned; 3], Mask::OfHeads(DType::F16)),
        ([View::Plain, View::Turned, View::Heads], Mask::Causal),
        ([View::Turned, View::Heads, View::Turned], Mask::None),
    ] {
        let kind = Kind { views, ..Kind::new(DType::F16, [72, 24], mask, View::Plain) };
        kind.check_several(3);
    }
    let kind = Kind::new(DType::Bf16, [16, 16], Mask::Causal, View::Turned);
    Kind { shared: 3, ..kind }.check_several(2);
}

#[test]
fn tensor_cores_attend_in_f32_as_tf32() {
    let exact = DType::F32;
    for (widths, mask, view) in [
        ([64, 64], Mask::None, View::Heads),
        ([64, 64], Mask::OfColumns(DType::F32), View::Plain),
        ([32, 32], Mask::Causal, View::Heads),
        ([4, 60], Mask::Bool, View::Plain),
        ([20, 12], Mask::OfHeads(DType::F32), View::Turned),
        ([80, 128], Mask::OfRows, View::Heads),
        ([128, 36], Mask::Causal, View::Plain),
    ] {
        Kind::new(exact, widths, mask, view).check_several_with(Tf32::ALL, 2);
    }
    let kind = Kind::new(exact, [64, 64], Mask::None, View::Plain);
    for lengths in [[1, 1], [16, 32], [17, 33], [130, 20]] {
        kind.check_with(Tf32::ALL, lengths, [1, 2]);
    }
    Kind { shared: 2, ..Kind::new(exact, [16, 32], Mask::Causal, View::Plain) }
        .check_several_with(Tf32::ALL, 2);
}

/// The error of TF32 is visible, and is not made unless it is asked for.
#[test]
fn f32_is_exact_unless_tf32_is_allowed() {
    let line = "F.scaled_dot_product_attention a 3 1 x x1 x2 y $query=x $key=x1 $value=x2";
    let inputs = [1, 2, 3].map(|seed| noise(DType::F32, &[1, 40, 64], seed));
    for tf32 in [Tf32::NONE, Tf32::default()] {
        same_as_cpu_with(&CudaLayers::default().with_tf32(tf32), &one(line, &inputs), &inputs, 5e-5);
    }
}

#[test]
fn heads_that_others_share() {
    for mask in [Mask::OfHeads(DType::F16), Mask::OfColumns(DType::F32)] {
        Kind { shared: 4, ..Kind::new(DType::F16, [16, 32], mask, View::Plain) }.check_several(2);
    }
}

#[test]
fn nan_scores_propagate_to_the_output() {
    let line = "F.scaled_dot_product_attention a 3 1 x x1 x2 y $query=x $key=x1 $value=x2";
    let numbers = |bad: f64| {
        let numbers = (0..20 * 16).map(|i| if i == 37 { bad } else { (i % 11) as f64 / 4.0 - 1.0 });
        Tensor::from_vec(numbers.collect::<Vec<f64>>(), &[1, 20, 16]).unwrap().cast(DType::F16).unwrap()
    };
    for bad in [f64::NAN, f64::INFINITY, 60000.0] {
        let inputs = [numbers(bad), noise(DType::F16, &[1, 70, 16], 1), noise(DType::F16, &[1, 70, 16], 2)];
        same_as_cpu(&one(line, &inputs), &inputs, 4e-3);
        if !bad.is_finite() {
            let inputs = inputs.map(|input| input.cast(DType::F32).unwrap());
            let layers = CudaLayers::default().with_tf32(Tf32::ALL);
            same_as_cpu_with(&layers, &one(line, &inputs), &inputs, 1e-2);
        }
    }
}

#[test]
fn plain_arithmetic_attends_to_all_other_heads() {
    let line = "F.scaled_dot_product_attention a 3 1 x x1 x2 y $query=x $key=x1 $value=x2 dropout_p=0.0";
    for (query, key, value, keys) in [
        (&[2, 3, 20, 8][..], &[2, 3, 37, 8][..], &[2, 3, 37, 40][..], "is_causal=False"),
        (&[1, 2, 33, 16], &[1, 2, 33, 16], &[1, 2, 33, 16], "is_causal=True"),
        (&[2, 4, 5, 8], &[2, 2, 6, 8], &[2, 2, 6, 8], "is_causal=False enable_gqa=True"),
    ] {
        let inputs = [(query, 1), (key, 2), (value, 3)].map(|(shape, seed)| noise(DType::F32, shape, seed));
        same_as_cpu(&one(&format!("{line} {keys}"), &inputs), &inputs, 1e-4);
    }
    for (dtype, widths, mask) in [
        (DType::F32, [8, 8], Mask::Bool),
        (DType::F64, [5, 3], Mask::OfHeads(DType::F32)),
        (DType::F16, [12, 16], Mask::OfColumns(DType::F16)),
        (DType::Bf16, [136, 8], Mask::Causal),
    ] {
        Kind::new(dtype, widths, mask, View::Plain).check_several(2);
    }
}

/// Multi-head attention of a type with three heads of 16 elements, keys of another length, and further operands.
fn multi_head(dtype: DType, operands: &str, keys: &str, more: &[Tensor]) {
    let weights =
        "@in_proj_weight=(144,48)DT @in_proj_bias=(144)DT @out_proj.weight=(48,48)DT @out_proj.bias=(48)DT";
    let fixed = "num_heads=3 embed_dim=48 kdim=48 vdim=48 bias=True batch_first=True";
    let mut inputs = vec![noise(dtype, &[2, 21, 48], 1), noise(dtype, &[2, 70, 48], 2)];
    inputs.extend_from_slice(more);
    let count = 3 + more.len();
    let line = format!("nn.MultiheadAttention m {count} 1 x x1 x1{operands} y {fixed} {keys} {weights}");
    let tolerance = if dtype == DType::F32 { 1e-4 } else { 1e-2 };
    same_as_cpu(&one(&line.replace("DT", dtype.name()), &inputs), &inputs, tolerance);
}

#[test]
fn multi_head_attention() {
    let extra = "@bias_k=(1,1,48)DT @bias_v=(1,1,48)DT add_bias_kv=True add_zero_attn=True";
    let none = "add_bias_kv=False add_zero_attn=False";
    let is_hidden = |shape: &[usize]| {
        let values = (0..shape.iter().product()).map(|i: usize| i % 4 == 1 || i < 70);
        Tensor::from_vec(values.collect::<Vec<bool>>(), shape).unwrap()
    };
    multi_head(DType::F32, "", extra, &[]);
    let (half, padding) = (DType::F16, is_hidden(&[2, 70]));
    multi_head(half, "", none, &[]);
    multi_head(half, " x2", &format!("{none} $key_padding_mask=x2"), &[padding.clone()]);
    multi_head(half, " x2", &format!("{extra} $attn_mask=x2"), &[is_hidden(&[21, 70])]);
    let masks = [padding, noise(half, &[6, 21, 70], 5)];
    multi_head(half, " x2 x3", &format!("{extra} $key_padding_mask=x2 $attn_mask=x3"), &masks);
}
