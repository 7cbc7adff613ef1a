//! Triangles and diagonals, constant tensors, and special functions.

use super::{noise, one, same_as_cpu};
use ixion::tensor::DType;

#[test]
fn triangles_and_diagonals() {
    for dtype in [DType::F32, DType::F16, DType::I64] {
        let x = [noise(dtype, &[2, 4, 3], 1)];
        for line in [
            "aten::tril t 1 1 x y $input=x diagonal=1",
            "aten::triu t 1 1 x y $input=x diagonal=-1",
            "aten::diag_embed t 1 1 x y $input=x offset=-2 dim1=0 dim2=2",
        ] {
            same_as_cpu(&one(line, &x), &x, 0.0);
        }
        let scatter = [noise(dtype, &[4, 3], 1), noise(dtype, &[2], 2)];
        let line = "aten::diagonal_scatter t 2 1 x x1 y $input=x $src=x1 offset=1";
        same_as_cpu(&one(line, &scatter), &scatter, 0.0);
        same_as_cpu(&one("torch.diag t 1 1 x y $input=x diagonal=-1", &scatter[..1]), &scatter[..1], 0.0);
        let line = "aten::fill_diagonal t 1 1 x y $input=x value=7 wrap=False";
        same_as_cpu(&one(line, &scatter[..1]), &scatter[..1], 0.0);
        same_as_cpu(&one("torch.full_like t 1 1 x y $input=x fill_value=3", &x), &x, 0.0);
    }
}

#[test]
fn special_functions() {
    let x = [noise(DType::F32, &[5, 40], 1), noise(DType::F32, &[40], 2)];
    for name in ["digamma", "erfc", "i0", "special_ndtr", "sinc", "signbit", "nan_to_num"] {
        same_as_cpu(&one(&format!("aten::{name} f 1 1 x y $input=x"), &x[..1]), &x[..1], 1e-5);
    }
    for name in ["copysign", "fmax", "hypot", "logaddexp2", "heaviside", "isclose"] {
        same_as_cpu(&one(&format!("aten::{name} f 2 1 x x1 y $input=x $other=x1"), &x), &x, 1e-5);
    }
}
