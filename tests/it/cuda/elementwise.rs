//! Elementwise kernels.

use super::{noise, one, same_as_cpu};
use ixion::tensor::DType;

#[test]
fn expressions_of_all_types_are_broadcast() {
    let line = |expr: &str| format!("pnnx.Expression e 2 1 x x1 y expr={expr}");
    for dtype in [DType::F32, DType::F64, DType::F16, DType::Bf16, DType::I64, DType::I32, DType::U8] {
        let inputs = [noise(dtype, &[3, 1, 5], 1), noise(dtype, &[4, 1], 2)];
        same_as_cpu(&one(&line("add(mul(@0,@1),sub(@0,3))"), &inputs), &inputs, 1e-3);
    }
    for expr in [
        "pow(square(@0),0.5)",
        "floor_divide(@0,@1)",
        "remainder(@0,@1)",
        "atan2(@0,maximum(@0,@1))",
        "erf(exp(@0))",
    ] {
        let inputs = [noise(DType::F32, &[7, 300], 1), noise(DType::F32, &[300], 2)];
        same_as_cpu(&one(&line(expr), &inputs), &inputs, 1e-5);
    }
}
