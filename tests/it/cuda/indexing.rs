//! Gathering and scattering by index.

use super::{noise, one, same_as_cpu};
use ixion::tensor::{DType, Tensor};

fn indices(values: &[i64], shape: &[usize]) -> Tensor {
    Tensor::from_vec(values.to_vec(), shape).unwrap()
}

#[test]
fn elements_are_taken() {
    for dtype in [DType::F32, DType::F16, DType::I64, DType::Bool] {
        let x = noise(dtype, &[3, 4, 5], 1);
        let select = [x.clone(), indices(&[2, 0, 2, 3], &[4])];
        let line = "torch.index_select s 2 1 x x1 y $input=x $index=x1 dim=1";
        same_as_cpu(&one(line, &select), &select, 0.0);
        let gather = [x.clone(), indices(&[2, 0, 1, 3, 3, 3, 0, 1], &[2, 4, 1])];
        let line = "torch.gather s 2 1 x x1 y $input=x $index=x1 dim=1";
        same_as_cpu(&one(line, &gather), &gather, 0.0);
        let take = [x.clone(), indices(&[-1, 59, 0, 7], &[2, 2])];
        same_as_cpu(&one("aten::take s 2 1 x x1 y $input=x $index=x1", &take), &take, 0.0);
        let index = [x];
        same_as_cpu(&one("Tensor.index s 1 1 x y $self=x expr=[[0,-1],None,[[3],[1]]]", &index), &index, 0.0);
        same_as_cpu(&one("Tensor.index s 1 1 x y $self=x expr=[None,[2,0]]", &index), &index, 0.0);
    }
}

#[test]
fn elements_are_written_in_order() {
    for dtype in [DType::F32, DType::Bf16, DType::I32] {
        let index = indices(&[2, 2, 2, 0, 1, 2], &[2, 3]);
        let scatter = [noise(dtype, &[3, 4], 1), index, noise(dtype, &[2, 3], 2)];
        for name in ["torch.scatter_add", "aten::scatter"] {
            let line = format!("{name} s 3 1 x x1 x2 y $input=x $index=x1 $src=x2 dim=0");
            same_as_cpu(&one(&line, &scatter), &scatter, 1e-2);
        }
        let parts = [noise(dtype, &[2, 5, 3], 1), indices(&[4, -1, 0], &[3]), noise(dtype, &[2, 3, 3], 2)];
        let line = "torch.index_add s 3 1 x x1 x2 y $input=x $index=x1 $source=x2 dim=1";
        same_as_cpu(&one(line, &parts), &parts, 1e-2);
        let fill = [parts[0].clone(), parts[1].clone()];
        let line = "torch.index_fill s 2 1 x x1 y $input=x $index=x1 dim=1 value=3";
        same_as_cpu(&one(line, &fill), &fill, 0.0);
        for accumulate in ["True", "False"] {
            let put = [noise(dtype, &[2, 5, 3], 1), noise(dtype, &[2, 3], 3)];
            let line = format!(
                "Tensor.index_put s 2 1 x x1 y $input=x $values=x1 indices=[None,[4,-1,4],[0,2,0]] accumulate={accumulate}"
            );
            same_as_cpu(&one(&line, &put), &put, 1e-2);
        }
    }
}
