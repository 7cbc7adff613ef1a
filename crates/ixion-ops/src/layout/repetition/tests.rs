use super::*;
use crate::support::testing::{counting, operator, tensor};
use ixion_tensor::Tensor;

fn run(op_type: &str, params: &[(&str, &str)], x: &Tensor) -> Result<(Vec<usize>, Vec<i32>)> {
    let output = operator(op_type, params).run_one(&[x])?;
    Ok((output.shape().to_vec(), output.to_vec().unwrap()))
}

#[test]
fn axes_are_flipped_and_rolled() {
    let x = counting(DType::I32, &[2, 3]);
    let values = |op_type, params: &[(&str, &str)]| run(op_type, params, &x).unwrap().1;
    assert_eq!(values("torch.flip", &[("dims", "(-1)")]), [2, 1, 0, 5, 4, 3]);
    assert_eq!(values("torch.flip", &[("dims", "(0,1)")]), [5, 4, 3, 2, 1, 0]);
    assert!(run("torch.flip", &[("dims", "(1,-1)")], &x).is_err());
    assert_eq!(values("torch.roll", &[("shifts", "(2)"), ("dims", "None")]), [4, 5, 0, 1, 2, 3]);
    assert_eq!(values("torch.roll", &[("shifts", "-7"), ("dims", "()")]), [1, 2, 3, 4, 5, 0]);
    assert_eq!(values("torch.roll", &[("shifts", "(-1)"), ("dims", "(-1)")]), [1, 2, 0, 4, 5, 3]);
    assert_eq!(values("torch.roll", &[("shifts", "(1,4)"), ("dims", "(0,1)")]), [5, 3, 4, 2, 0, 1]);
    assert_eq!(values("torch.roll", &[("shifts", "(1,1)"), ("dims", "(1,1)")]), [1, 2, 0, 4, 5, 3]);
    for wrong in [[("shifts", "(1,1)"), ("dims", "None")], [("shifts", "(1,1)"), ("dims", "(0)")]] {
        assert!(run("torch.roll", &wrong, &x).is_err());
    }
}

#[test]
fn tensors_are_repeated() {
    let x = counting(DType::I32, &[2, 1]);
    assert_eq!(
        run("Tensor.repeat", &[("sizes", "(1,3)")], &x).unwrap(),
        (vec![2, 3], vec![0, 0, 0, 1, 1, 1])
    );
    assert_eq!(
        run("Tensor.repeat", &[("sizes", "(2,2,1)")], &x).unwrap(),
        (vec![2, 4, 1], vec![0, 1, 0, 1, 0, 1, 0, 1])
    );
    assert_eq!(run("Tensor.repeat", &[("sizes", "(0,1)")], &x).unwrap(), (vec![0, 1], vec![]));
    assert!(run("Tensor.repeat", &[("sizes", "(2)")], &x).is_err());
    assert!(run("Tensor.repeat", &[("sizes", "(2,-1)")], &x).is_err());
    assert_eq!(run("torch.tile", &[("dims", "(2)")], &x).unwrap(), (vec![2, 2], vec![0, 0, 1, 1]));
    let n = TensorMeta::new(DType::F32, [Dim::symbol("n"), Dim::Fixed(4)]);
    let output = operator("Tensor.repeat", &[("sizes", "(3,2)")]).infer(&[n]).unwrap();
    assert_eq!(output[0].to_string(), "(n * 3)×8 f32");
}

#[test]
fn every_axis_is_repeated() {
    let x = counting(DType::I32, &[2, 3, 2]);
    for counts in [[2, 1, 3], [1, 2, 2], [3, 2, 1], [2, 3, 5], [1, 1, 1]] {
        let mut want = Vec::new();
        for i in 0..2 * counts[0] {
            for j in 0..3 * counts[1] {
                want.extend((0..2 * counts[2]).map(|k| ((i % 2) * 3 + j % 3) * 2 + k % 2));
            }
        }
        let sizes = format!("({},{},{})", counts[0], counts[1], counts[2]);
        assert_eq!(run("Tensor.repeat", &[("sizes", &sizes)], &x).unwrap().1, want, "{sizes}");
    }
}

#[test]
fn elements_are_repeated() {
    let x = counting(DType::I32, &[2, 2]);
    let values = |params: &[(&str, &str)]| run("torch.repeat_interleave", params, &x).unwrap();
    assert_eq!(values(&[("repeats", "2"), ("dim", "None")]), (vec![8], vec![0, 0, 1, 1, 2, 2, 3, 3]));
    assert_eq!(values(&[("repeats", "2"), ("dim", "0")]), (vec![4, 2], vec![0, 1, 0, 1, 2, 3, 2, 3]));
    assert!(run("torch.repeat_interleave", &[("repeats", "-1"), ("dim", "0")], &x).is_err());
    let mut layer = operator("torch.repeat_interleave", &[("dim", "1")])
        .with_names(&["input", "repeats"])
        .create(2)
        .unwrap();
    let (mut workspace, limits) = (ixion_tensor::Workspace::new().unwrap(), ixion_tensor::Limits::default());
    let mut context = ForwardContext::new(&mut workspace, &limits);
    let counts = tensor(&[2], &[0i64, 3]);
    let output = layer.forward_dynamic(&[x.view(), counts.view()], &mut context).unwrap().remove(0);
    assert_eq!(
        (output.shape().dims(), output.to_vec::<i32>().unwrap()),
        (&[2, 3][..], vec![1, 1, 1, 3, 3, 3])
    );
    let mut rows = operator("torch.repeat_interleave", &[("dim", "0")])
        .with_names(&["input", "repeats"])
        .create(2)
        .unwrap();
    let output = rows.forward_dynamic(&[x.view(), counts.view()], &mut context).unwrap().remove(0);
    assert_eq!(
        (output.shape().dims(), output.to_vec::<i32>().unwrap()),
        (&[3, 2][..], vec![2, 3, 2, 3, 2, 3])
    );
    let mut sized = operator("torch.repeat_interleave", &[("dim", "1"), ("output_size", "4")])
        .with_names(&["input", "repeats"])
        .create(2)
        .unwrap();
    let error = sized.forward_dynamic(&[x.view(), counts.view()], &mut context).unwrap_err().to_string();
    assert!(error.contains("output_size"), "{error}");
    assert!(
        run("torch.repeat_interleave", &[("repeats", "2"), ("dim", "0"), ("output_size", "5")], &x).is_err()
    );
    let nothing = counting(DType::I32, &[0, 2]);
    let many = [("repeats", "1000000000000"), ("dim", "1")];
    let none = run("torch.repeat_interleave", &many, &nothing).unwrap();
    assert_eq!(none, (vec![0, 2_000_000_000_000], vec![]));
    let wrong = tensor(&[3], &[0i64, 3, 1]);
    assert!(layer.forward_dynamic(&[x.view(), wrong.view()], &mut context).is_err());
}

#[test]
fn odd_inputs() {
    operator("torch.flip", &[("dims", "(0)")]).survives(1);
    operator("torch.roll", &[("shifts", "9223372036854775807"), ("dims", "-1")]).survives(1);
    operator("torch.roll", &[("shifts", "-9223372036854775808")]).survives(1);
    operator("Tensor.repeat", &[("sizes", "(2,1,2,1)")]).survives(1);
    operator("torch.tile", &[("dims", "(2,0)")]).survives(1);
    operator("torch.repeat_interleave", &[("repeats", "2"), ("dim", "-1")]).survives(1);
}
