use crate::op::{ForwardContext, Io, Result, TensorMeta};
use crate::support::testing::{operator, tensor};
use ixion_tensor::{DType, Limits, Tensor, Workspace};

const NAN: f32 = f32::NAN;

fn found(
    op_type: &str,
    params: &[(&'static str, &'static str)],
    outputs: usize,
    x: &Tensor,
) -> Result<Vec<Tensor>> {
    let results = operator(op_type, params).with_outputs(outputs).run(&[x])?;
    assert_eq!(results.len(), outputs);
    Ok(results)
}

fn numbers(tensor: &Tensor) -> Vec<i64> {
    tensor.to_vec().unwrap()
}

const BOTH: &[(&str, &str)] = &[("return_inverse", "True"), ("return_counts", "True")];

/// PyTorch's results.
#[test]
fn different_elements() {
    let x = tensor(&[2, 2], &[3i64, 1, 1, -2]);
    let parts = found("aten::_unique2", BOTH, 3, &x).unwrap();
    assert_eq!(numbers(&parts[0]), [-2, 1, 3]);
    assert_eq!((parts[1].shape().dims(), numbers(&parts[1])), (&[2, 2][..], vec![2, 1, 1, 0]));
    assert_eq!(numbers(&parts[2]), [1, 2, 1]);
    let alone = found("aten::_unique2", &[("sorted", "False")], 3, &x).unwrap();
    assert_eq!(numbers(&alone[0]), [-2, 1, 3]);
    assert_eq!((alone[1].shape().dims(), alone[2].shape().dims()), (&[0][..], &[0][..]));
    let pair = found("aten::_unique", &[("return_inverse", "True")], 2, &x).unwrap();
    assert_eq!(numbers(&pair[1]), [2, 1, 1, 0]);
    let truth = found("aten::_unique2", BOTH, 3, &tensor(&[3], &[true, false, true])).unwrap();
    assert_eq!((truth[0].to_vec::<bool>().unwrap(), numbers(&truth[2])), (vec![false, true], vec![1, 2]));
    let number = found("aten::_unique2", BOTH, 3, &Tensor::scalar(3i64)).unwrap();
    assert_eq!((numbers(&number[0]), number[1].rank(), numbers(&number[2])), (vec![3], 0, vec![1]));
    let nothing = Tensor::zeros(DType::F32, &[0, 3]).unwrap();
    let nothing = found("aten::_unique2", BOTH, 3, &nothing).unwrap();
    assert_eq!((nothing[0].shape().dims(), nothing[1].shape().dims()), (&[0][..], &[0, 3][..]));
    assert!(found("aten::_unique2", &[], 3, &Tensor::zeros(DType::C64, &[2]).unwrap()).is_err());
}

/// PyTorch's results.
#[test]
fn every_nan_is_different_and_zeros_are_equal() {
    let x = tensor(&[7], &[NAN, 1.0, -0.0, 0.0, NAN, 2.0, 1.0]);
    for dtype in [DType::F32, DType::F64, DType::F16, DType::Bf16] {
        let parts = found("aten::_unique2", BOTH, 3, &x.cast(dtype).unwrap()).unwrap();
        let values = parts[0].cast(DType::F32).unwrap().to_vec::<f32>().unwrap();
        assert_eq!(values[..3], [0.0, 1.0, 2.0]);
        assert!(values[0].is_sign_negative() && values[3..].iter().all(|x| x.is_nan()));
        assert_eq!(
            (numbers(&parts[1]), numbers(&parts[2])),
            (vec![3, 1, 0, 0, 4, 2, 1], vec![2, 2, 1, 1, 1])
        );
    }
    let parts = found("aten::unique_consecutive", BOTH, 3, &x).unwrap();
    assert_eq!((numbers(&parts[1]), numbers(&parts[2])), (vec![0, 1, 2, 2, 3, 4, 5], vec![1, 1, 2, 1, 1, 1]));
    let largest = tensor(&[3], &[i64::MAX, 0, i64::MAX]);
    assert_eq!(numbers(&found("aten::_unique2", BOTH, 3, &largest).unwrap()[2]), [1, 2]);
}

/// PyTorch's results.
#[test]
fn runs() {
    let x = tensor(&[2, 2], &[1i64, 1, 1, 3]);
    let parts = found("aten::unique_consecutive", BOTH, 3, &x).unwrap();
    assert_eq!((numbers(&parts[0]), numbers(&parts[2])), (vec![1, 3], vec![3, 1]));
    assert_eq!((parts[1].shape().dims(), numbers(&parts[1])), (&[2, 2][..], vec![0, 0, 0, 1]));
    let again = tensor(&[5], &[2i64, 2, 1, 2, 2]);
    let alone = found("aten::unique_consecutive", &[("dim", "None")], 3, &again).unwrap();
    assert_eq!((numbers(&alone[0]), alone[1].num_elements()), (vec![2, 1, 2], 0));
    // Axis 0 of a vector is as none; axis -1 is not.
    let lens = |dim| {
        let parts = found("aten::unique_consecutive", &[("dim", dim)], 3, &again).unwrap();
        [parts[1].num_elements(), parts[2].num_elements()]
    };
    assert_eq!([lens("0"), lens("-1")], [[0, 0], [5, 3]]);
    let columns = tensor(&[2, 3], &[1i64, 1, 2, 3, 3, 3]);
    let parts = found("aten::unique_consecutive", &[("dim", "1")], 3, &columns).unwrap();
    assert_eq!((parts[0].shape().dims(), numbers(&parts[0])), (&[2, 2][..], vec![1, 2, 3, 3]));
    assert_eq!((numbers(&parts[1]), numbers(&parts[2])), (vec![0, 0, 1], vec![2, 1]));
}

/// PyTorch's results.
#[test]
fn different_slices() {
    let rows = tensor(&[4, 2], &[3i64, 1, 1, 2, 3, 1, 1, 1]);
    let parts = found("aten::unique_dim", &[("dim", "0")], 3, &rows).unwrap();
    assert_eq!((parts[0].shape().dims(), numbers(&parts[0])), (&[3, 2][..], vec![1, 1, 1, 2, 3, 1]));
    assert_eq!((numbers(&parts[1]), numbers(&parts[2])), (vec![2, 1, 2, 0], vec![1, 1, 2]));
    let columns = tensor(&[2, 3], &[3i64, 1, 3, 1, 2, 1]);
    let parts = found("aten::unique_dim", &[("dim", "-1")], 3, &columns).unwrap();
    assert_eq!((parts[0].shape().dims(), numbers(&parts[0])), (&[2, 2][..], vec![1, 3, 2, 1]));
    assert_eq!((numbers(&parts[1]), numbers(&parts[2])), (vec![1, 0, 1], vec![1, 2]));
    let cube = tensor(&[2, 2, 2], &[1i64, 2, 1, 2, 3, 4, 3, 4]);
    let parts = found("aten::unique_dim", &[("dim", "1")], 3, &cube).unwrap();
    assert_eq!((parts[0].shape().dims(), numbers(&parts[0])), (&[2, 1, 2][..], vec![1, 2, 3, 4]));
    let empty = |shape: &[usize], dim| {
        let parts = found("aten::unique_dim", &[("dim", dim)], 3, &Tensor::zeros(DType::F32, shape)?)?;
        Ok::<_, crate::op::LayerError>(parts[0].shape().to_vec())
    };
    assert_eq!(empty(&[0, 3], "0").unwrap(), [0, 3]);
    assert!(empty(&[0, 3], "1").is_err() && empty(&[3, 0], "0").is_err() && empty(&[], "0").is_err());
    let error = empty(&[3, 0], "0").unwrap_err().to_string();
    assert_eq!(error, "the input: expected slices along axis 0 that are not empty, got 3×0 f32");
}

#[test]
fn lengths_are_symbols() {
    let x = TensorMeta::new(DType::I64, [4, 2]);
    let parts = operator("aten::unique_dim", &[("dim", "0")]).with_outputs(3).infer(&[x]).unwrap();
    assert_eq!(parts[0].dims()[0], parts[2].dims()[0]);
    assert_eq!((parts[0].dims()[1].fixed(), parts[1].dims()[0].fixed()), (Some(2), Some(4)));
    let small = Limits { max_tensor_bytes: 64, ..Limits::default() };
    let mut layer = operator("aten::_unique2", &[]).with_outputs(3).create(1).unwrap();
    let mut workspace = Workspace::new().unwrap();
    let mut context = ForwardContext::new(&mut workspace, &small);
    let x = tensor(&[4], &[1i64, 2, 3, 4]);
    assert!(layer.forward_dynamic(&[x.view()], &mut context).is_err());
}

/// A planner may know the sizes of outputs, and pass outputs of these sizes.
#[test]
fn outputs_of_the_right_sizes_are_filled() {
    let x = tensor(&[3], &[2i64, 1, 2]);
    let run = |len: usize| {
        let mut outputs = [len, 0, 0].map(|len| Tensor::zeros(DType::I64, &[len]).unwrap());
        let mut layer = operator("aten::_unique2", &[]).with_outputs(3).create(1)?;
        let (mut workspace, limits) = (Workspace::new()?, Limits::default());
        let mut context = ForwardContext::new(&mut workspace, &limits);
        let (inputs, mut targets) = ([x.view()], Vec::new());
        for output in &mut outputs {
            targets.push(output.view_mut()?);
        }
        layer.forward(&mut Io::new(&inputs, &mut targets, &mut context))?;
        drop(targets);
        Ok::<_, crate::op::LayerError>(numbers(&outputs[0]))
    };
    assert_eq!(run(2).unwrap(), [1, 2]);
    assert!(run(3).is_err());
}
