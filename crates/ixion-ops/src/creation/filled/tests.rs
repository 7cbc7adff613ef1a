use super::*;
use crate::op::Registry;
use crate::support::testing::{operator, tensor};
use ixion_tensor::Workspace;

fn created(op_type: &str, params: &[(&str, &str)], names: &[&str], inputs: &[&Tensor]) -> Tensor {
    operator(op_type, params).with_names(names).run_one(inputs).unwrap()
}

#[test]
fn one_number_everywhere() {
    let zeros = created("torch.zeros", &[("size", "(2,3)"), ("dtype", "None")], &[], &[]);
    assert_eq!((zeros.dtype(), zeros.to_vec::<f32>().unwrap()), (DType::F32, vec![0.0; 6]));
    let full = created("torch.full", &[("size", "(2)"), ("fill_value", "7"), ("dtype", "None")], &[], &[]);
    assert_eq!(full.to_vec::<i64>().unwrap(), [7, 7]);
    let sizes = tensor(&[1], &[3i64]);
    assert_eq!(
        created("torch.ones", &[("dtype", "torch.bool")], &["size"], &[&sizes]).to_vec::<bool>().unwrap(),
        [true; 3]
    );
    let x = tensor(&[1, 2], &[1i32, 2]);
    assert_eq!(
        created("torch.full_like", &[("fill_value", "2.7")], &["input"], &[&x]).to_vec::<i32>().unwrap(),
        [2, 2]
    );
    assert_eq!(created("torch.zeros_like", &[("dtype", "torch.half")], &[], &[&x]).dtype(), DType::F16);
    assert_eq!(
        created("Tensor.new_ones", &[("size", "(2)")], &["input"], &[&x]).to_vec::<i32>().unwrap(),
        [1, 1]
    );
    let value = tensor(&[], &[5f64]);
    assert_eq!(
        created("Tensor.fill", &[], &["input", "value"], &[&x, &value]).to_vec::<i32>().unwrap(),
        [5, 5]
    );
    assert_eq!(
        created("Tensor.fill", &[("value", "inf")], &[], &[&value]).to_vec::<f64>().unwrap(),
        [f64::INFINITY]
    );
    assert!(operator("torch.zeros", &[("size", "(-1)")]).infer(&[]).is_err());
    let full = |value, dtype| {
        operator("torch.full", &[("size", "(1)"), ("fill_value", value), ("dtype", dtype)]).run_one(&[])
    };
    assert!(full("300", "torch.uint8").is_err() && full("1e300", "torch.float32").is_err());
    assert_eq!(full("-1", "torch.uint8").unwrap().to_vec::<u8>().unwrap(), [255]);
    assert_eq!(
        full("70000", "torch.half").unwrap().cast(DType::F32).unwrap().to_vec::<f32>().unwrap(),
        [f32::INFINITY]
    );
}

#[test]
fn torchscript_has_further_functions() {
    let number = created("aten::scalar_tensor", &[("s", "2")], &[], &[]);
    assert_eq!((number.dtype(), number.item::<f32>().unwrap()), (DType::F32, 2.0));
    let strided = created("aten::empty_strided", &[("size", "(2,1)"), ("stride", "(1,1)")], &[], &[]);
    assert_eq!(strided.shape().dims(), [2, 1]);
    let size = tensor(&[1], &[2i64]);
    let full = created("aten::full", &[("fill_value", "1.5"), ("dtype", "None")], &["size"], &[&size]);
    assert_eq!(full.to_vec::<f32>().unwrap(), [1.5, 1.5]);
    let arguments = |op_type, count| Registry::built_in().known(op_type).unwrap().overload(count).unwrap();
    assert_eq!(arguments("aten::arange", 5)[..2], ["end", "dtype"]);
    assert_eq!(arguments("aten::arange", 6)[..3], ["start", "end", "dtype"]);
    assert_eq!(arguments("aten::arange", 7)[..4], ["start", "end", "step", "dtype"]);
    assert_eq!(arguments("aten::eye", 5)[..2], ["n", "dtype"]);
    assert_eq!(arguments("aten::eye", 6)[..3], ["n", "m", "dtype"]);
    assert_eq!(arguments("aten::hamming_window", 7)[..4], ["window_length", "periodic", "alpha", "dtype"]);
    assert_eq!(arguments("aten::kaiser_window", 6)[..3], ["window_length", "periodic", "dtype"]);
}

fn arange(params: &[(&str, &str)], names: &[&str], inputs: &[&Tensor]) -> Result<Tensor> {
    let mut layer = operator("torch.arange", params).with_names(names).create(inputs.len())?;
    let views: Vec<TensorView<'_>> = inputs.iter().map(|input| input.view()).collect();
    let (mut workspace, limits) = (Workspace::new()?, ixion_tensor::Limits::default());
    let output = layer.forward_dynamic(&views, &mut ForwardContext::new(&mut workspace, &limits))?.remove(0);
    let metas: Vec<TensorMeta> = views.iter().map(TensorMeta::of).collect();
    let inferred = layer.infer(&metas)?.remove(0);
    assert_eq!(inferred.dtype(), output.dtype());
    assert!(inferred.dims()[0].fixed().is_none_or(|len| len == output.num_elements() as i64));
    Ok(output)
}

#[test]
fn numbers_are_counted() {
    assert_eq!(arange(&[("end", "3")], &[], &[]).unwrap().to_vec::<i64>().unwrap(), [0, 1, 2]);
    assert_eq!(
        arange(&[("start", "1"), ("end", "2.0"), ("step", "0.5")], &[], &[])
            .unwrap()
            .to_vec::<f32>()
            .unwrap(),
        [1.0, 1.5]
    );
    let (five, half) = (Tensor::scalar(5i64), Tensor::scalar(0.5f32));
    assert_eq!(arange(&[], &["end"], &[&five]).unwrap().to_vec::<i64>().unwrap(), [0, 1, 2, 3, 4]);
    assert_eq!(arange(&[("end", "1")], &["start"], &[&half]).unwrap().to_vec::<f32>().unwrap(), [0.5]);
    assert_eq!(
        arange(&[("start", "3"), ("end", "0"), ("step", "-2")], &[], &[]).unwrap().to_vec::<i64>().unwrap(),
        [3, 1]
    );
    let large = arange(&[("start", "9007199254740993"), ("end", "9007199254740996")], &[], &[]).unwrap();
    assert_eq!(large.to_vec::<i64>().unwrap(), [9007199254740993, 9007199254740994, 9007199254740995]);
    let small = arange(&[("end", "300"), ("step", "100"), ("dtype", "torch.int8")], &[], &[]).unwrap();
    assert_eq!(small.to_vec::<i8>().unwrap(), [0, 100, -56]);
    let downwards = arange(
        &[("start", "-9223372036854775807"), ("end", "-9223372036854775808"), ("step", "-5")],
        &[],
        &[],
    );
    assert_eq!(downwards.unwrap().to_vec::<i64>().unwrap(), [-i64::MAX]);
    let limits = Limits { max_tensor_bytes: 1000, ..Limits::default() };
    let layer = operator("torch.arange", &[("end", "1000")]).create(0).unwrap();
    assert!(matches!(layer.constant(&limits), Err(LayerError::Limit(_))));
    assert!(arange(&[("end", "1e300")], &[], &[]).is_err());
    assert!(arange(&[("end", "1"), ("step", "0")], &[], &[]).is_err());
    assert!(arange(&[("start", "2"), ("end", "1")], &[], &[]).is_err());
    let n = TensorMeta::new(DType::I64, [0; 0]).with_values(vec![Dim::symbol("n")]);
    let output = operator("torch.arange", &[]).with_names(&["end"]).infer(&[n]).unwrap();
    assert_eq!(output[0].to_string(), "n i64");
}
