use super::*;
use crate::support::testing::{assert_close, counting, operator, tensor, waves};
use ixion_kernels::naive;
use ixion_tensor::{DType, Tensor, broadcast_shapes};
use proptest::prelude::*;

fn matmul(left: &Tensor, right: &Tensor) -> Result<Tensor> {
    operator("torch.matmul", &[]).with_names(&["input", "other"]).run_one(&[left, right])
}

#[test]
fn vectors_are_rows_and_columns() {
    let (v, m) = (tensor(&[2], &[1.0, 10.0]), counting(DType::F64, &[2, 2]));
    assert_close(&matmul(&v, &v).unwrap(), &[], &[101.0]);
    assert_close(&matmul(&v, &m).unwrap(), &[2], &[20.0, 31.0]);
    assert_close(&matmul(&m, &v).unwrap(), &[2], &[10.0, 32.0]);
    assert_close(&matmul(&counting(DType::F64, &[3, 1, 2]), &v).unwrap(), &[3, 1], &[10.0, 32.0, 54.0]);
    let mv = operator("torch.mv", &[]).with_names(&["input", "vec"]);
    assert_close(&mv.run_one(&[&m, &v]).unwrap(), &[2], &[10.0, 32.0]);
    assert!(mv.run(&[&m, &m]).is_err());
}

#[test]
fn complex_sums_of_nothing_are_zero() {
    let matrix = |shape: &[usize]| counting(DType::F64, shape).cast(DType::C128).unwrap();
    let product = matmul(&matrix(&[3, 0]), &matrix(&[0, 2])).unwrap();
    assert_eq!(product.dtype(), DType::C128);
    assert_close(&product.cast(DType::F64).unwrap(), &[3, 2], &[0.0; 6]);
}

#[test]
fn something_may_be_added() {
    let m = tensor(&[2, 2], &[1.0, 2.0, 3.0, 4.0]);
    let names = ["input", "mat1", "mat2"];
    let add = |beta, alpha, input: &Tensor| {
        operator("torch.addmm", &[("beta", beta), ("alpha", alpha)])
            .with_names(&names)
            .run_one(&[input, &m, &m])
    };
    let row = tensor(&[2], &[10.0, 20.0]);
    assert_close(&add("0.5", "2", &row).unwrap(), &[2, 2], &[19.0, 30.0, 35.0, 54.0]);
    let nan = tensor(&[1, 1], &[f64::NAN]);
    assert_close(&add("0", "1.0", &nan).unwrap(), &[2, 2], &[7.0, 10.0, 15.0, 22.0]);
    assert!(
        add("1", "1", &tensor(&[3], &[0.0; 3])).is_err()
            && add("1", "1", &tensor(&[1, 2, 2], &[0.0; 4])).is_err()
    );
    let batch = m.reshape(&[1, 2, 2]).unwrap();
    let got = operator("torch.baddbmm", &[("alpha", "0.7"), ("beta", "1.4")])
        .with_names(&["input", "batch1", "batch2"])
        .run_one(&[&row, &batch, &batch])
        .unwrap();
    assert_close(&got, &[1, 2, 2], &[18.9, 35.0, 24.5, 43.4]);
}

proptest! {
    #[test]
    fn batches_are_broadcast(
        (m, k, n) in (0usize..4, 0usize..4, 0usize..4),
        left in prop_oneof![Just(vec![]), Just(vec![2]), Just(vec![1]), Just(vec![3, 1]), Just(vec![3, 2]), Just(vec![0])],
        right in prop_oneof![Just(vec![]), Just(vec![1]), Just(vec![2]), Just(vec![1, 2]), Just(vec![3, 2])],
        turn: bool,
    ) {
        let Ok(batch) = broadcast_shapes(&left, &right) else { return Ok(()) };
        let a = waves(&[&left[..], &[m, k]].concat());
        let mut b = waves(&[&right[..], &[k, n]].concat());
        if turn {
            b = waves(&[&right[..], &[n, k]].concat());
            b = b.with_layout(b.layout().transpose(-1, -2).unwrap()).unwrap();
        }
        let got = matmul(&a, &b).unwrap();
        prop_assert_eq!(got.shape().to_vec(), [&batch[..], &[m, n]].concat());
        let a = a.expand(&[&batch[..], &[m, k]].concat()).unwrap().reshape(&[batch.num_elements(), m, k]).unwrap();
        let b = b.expand(&[&batch[..], &[k, n]].concat()).unwrap().reshape(&[batch.num_elements(), k, n]).unwrap();
        for index in 0..batch.num_elements() {
            let (a, b) = (a.select(0, index).unwrap(), b.select(0, index).unwrap());
            let want = naive::matmul(a.matrix::<f64>().unwrap(), b.matrix::<f64>().unwrap());
            let got = got.reshape(&[batch.num_elements(), m, n]).unwrap().select(0, index).unwrap();
            assert_close(&got, &[m, n], &want.iter().copied().collect::<Vec<_>>());
        }
    }
}

#[test]
fn types_and_shapes_that_do_not_fit_are_errors() {
    let (a, b) = (waves(&[2, 3]), waves(&[2, 3]));
    let error = matmul(&a, &b).unwrap_err().to_string();
    assert_eq!(
        error,
        "the right factor: expected 3 rows, one for each column of the left factor 2×3 f64, got 2×3 f64"
    );
    assert!(matmul(&waves(&[2, 2, 3]), &waves(&[3, 3, 1])).is_err());
    assert!(matmul(&a, &Tensor::scalar(1f64)).is_err());
    assert!(matches!(matmul(&a, &b.cast(DType::F32).unwrap()), Err(LayerError::DType { .. })));
    let bmm = operator("torch.bmm", &[]).with_names(&["input", "mat2"]);
    assert!(bmm.run(&[&waves(&[1, 2, 3]), &waves(&[2, 3, 1])]).is_err());
    assert_close(
        &bmm.run_one(&[&waves(&[2, 1, 1]), &waves(&[2, 1, 1])]).unwrap(),
        &[2, 1, 1],
        &[7.5625, 0.0625],
    );
    let half = a.cast(DType::Bf16).unwrap();
    assert_eq!(matmul(&half, &half.permute(&[1, 0]).unwrap()).unwrap().dtype(), DType::Bf16);
}

#[test]
fn symbols_and_odd_inputs() {
    let meta = |dims: Vec<Dim>| TensorMeta::new(DType::F32, dims);
    let (n, h) = (Dim::symbol("n"), Dim::symbol("h"));
    let left = meta(vec![n.clone(), Dim::Fixed(1), h.clone(), Dim::Fixed(8)]);
    let right = meta(vec![Dim::Fixed(4), Dim::Fixed(8), h]);
    let output = operator("torch.matmul", &[]).infer(&[left, right]).unwrap();
    assert_eq!(output[0].to_string(), "n×4×h×h f32");
    for op_type in ["torch.matmul", "torch.mm", "torch.bmm", "torch.mv"] {
        operator(op_type, &[]).survives(2);
    }
    operator("torch.addmm", &[]).survives(3);
}
