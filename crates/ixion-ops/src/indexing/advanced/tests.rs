use super::*;
use crate::support::testing::{counting, operator, tensor};
use ixion_tensor::Workspace;

fn index(expr: &str, x: &Tensor) -> Result<(Vec<usize>, Vec<i32>)> {
    let output = operator("Tensor.index", &[("expr", expr)]).run_one(&[x])?;
    Ok((output.shape().to_vec(), output.to_vec()?))
}

#[test]
fn lists_and_masks_of_the_file() {
    let x = counting(DType::I32, &[2, 3]);
    assert_eq!(index("[[1,0,-1]]", &x).unwrap(), (vec![3, 3], vec![3, 4, 5, 0, 1, 2, 3, 4, 5]));
    assert_eq!(index("[None,[2,0]]", &x).unwrap(), (vec![2, 2], vec![2, 0, 5, 3]));
    assert_eq!(index("[[0,1],[2,1]]", &x).unwrap(), (vec![2], vec![2, 4]));
    assert_eq!(index("[[[0],[1]],[2,1]]", &x).unwrap(), (vec![2, 2], vec![2, 1, 5, 4]));
    assert_eq!(index("[[True,False],[1]]", &x).unwrap(), (vec![1], vec![1]));
    assert_eq!(index("[[[True,False,True],[False,True,False]]]", &x).unwrap(), (vec![3], vec![0, 2, 4]));
    let y = counting(DType::I32, &[2, 2, 2]);
    assert_eq!(index("[[0,1],None,[1,1]]", &y).unwrap(), (vec![2, 2], vec![1, 3, 5, 7]));
    assert!(index("[[2]]", &x).is_err() && index("[None,None,[0]]", &x).is_err());
    assert_eq!(index("[[0,1],None,[[1],[0]]]", &y).unwrap(), (vec![2, 2, 2], vec![1, 3, 5, 7, 0, 2, 4, 6]));
    for wrong in ["[zero]", "3", "[[1,[0]]]", "[[[0],1]]", "[[True,1]]", "[[[True],[0]]]"] {
        assert!(index(wrong, &x).is_err(), "{wrong}");
    }
    let row = counting(DType::I32, &[5]);
    assert!(index("[[True,False,True]]", &row).is_err(), "a mask of 3 for an axis of 5");
    assert_eq!(index("[[7]]", &counting(DType::I32, &[5, 0])).unwrap(), (vec![1, 0], vec![]));
}

#[test]
fn indices_that_are_computed() {
    let x = counting(DType::I32, &[2, 3]);
    let run = |items: &Tensor| {
        let mut layer = operator("Tensor.index", &[]).with_names(&["input", "expr"]).create(2)?;
        let (mut workspace, limits) = (Workspace::new()?, ixion_tensor::Limits::default());
        let mut context = ForwardContext::new(&mut workspace, &limits);
        let output = layer.forward_dynamic(&[x.view(), items.view()], &mut context)?.remove(0);
        Ok::<_, LayerError>(output.to_vec::<i32>()?)
    };
    assert_eq!(run(&tensor(&[2, 2], &[0i64, 1, 2, -3])).unwrap(), [2, 3]);
    assert_eq!(run(&tensor(&[1, 2, 3], &[true, false, false, false, false, true])).unwrap(), [0, 5]);
    assert!(run(&tensor(&[1, 1], &[2i64])).is_err());
    let mask = TensorMeta::new(DType::Bool, [1, 3]);
    let meta = TensorMeta::of(&x.view());
    assert!(operator("Tensor.index", &[]).with_names(&["input", "expr"]).infer(&[meta, mask]).is_err());
    assert!(run(&tensor(&[1, 3], &[true; 3])).is_err(), "a mask of 3 for an axis of 2");
    let mut layer = operator("Tensor.index", &[]).with_names(&["input", "expr"]).create(2).unwrap();
    let limits = Limits { max_tensor_bytes: 1000, ..Limits::default() };
    let mut workspace = Workspace::new().unwrap();
    let mut context = ForwardContext::new(&mut workspace, &limits);
    let many = tensor(&[1, 1000], &[0i64; 1000]);
    let refused = layer.forward_dynamic(&[x.view(), many.view()], &mut context);
    assert!(matches!(refused, Err(LayerError::Limit(_))), "{refused:?}");
}

#[test]
fn elements_are_put() {
    let x = tensor(&[4], &[0f32; 4]);
    let indices = tensor(&[1, 3], &[1i64, 1, 3]);
    let put = |params: &[(&str, &str)], inputs: &[&Tensor]| {
        let layer = operator("Tensor.index_put", params).with_names(&["input", "indices", "values"]);
        layer.run_one(inputs).map(|output| output.to_vec::<f32>().unwrap())
    };
    assert_eq!(put(&[("values", "45.0")], &[&x, &indices]).unwrap(), [0.0, 45.0, 0.0, 45.0]);
    let values = tensor(&[3], &[1f32, 2.0, 4.0]);
    assert_eq!(put(&[("accumulate", "True")], &[&x, &indices, &values]).unwrap(), [0.0, 3.0, 0.0, 4.0]);
    let mask = tensor(&[1, 4], &[true, false, false, true]);
    assert_eq!(put(&[("values", "2")], &[&x, &mask]).unwrap(), [2.0, 0.0, 0.0, 2.0]);
    assert!(put(&[], &[&x, &indices, &tensor(&[2], &[1f32, 2.0])]).is_err());
    assert!(put(&[], &[&x, &indices, &tensor(&[3], &[1i64, 2, 4])]).is_err(), "values of another type");
    assert!(put(&[("values", "1e300")], &[&x, &indices]).is_err());
    assert!(put(&[("values", "1")], &[&x, &tensor(&[1, 3], &[true; 3])]).is_err(), "a mask of 3 for 4");
    let bools = tensor(&[3], &[false; 3]);
    let layer =
        operator("Tensor.index_put", &[("accumulate", "True")]).with_names(&["input", "indices", "values"]);
    let got = layer.run_one(&[&bools, &tensor(&[1, 2], &[0i64, 0]), &tensor(&[2], &[true, false])]).unwrap();
    assert_eq!(got.to_vec::<bool>().unwrap(), [true, false, false]);
    let square = counting(DType::I32, &[2, 2]);
    let rows = layer.run_one(&[&square, &tensor(&[1, 2], &[1i64, 1]), &tensor(&[2], &[10i32, 20])]).unwrap();
    assert_eq!(rows.to_vec::<i32>().unwrap(), [0, 1, 22, 43]);
}

/// PyTorch's results.
#[test]
fn numbers_are_vectors_of_one_element() {
    let (x, zero) = (Tensor::scalar(1f32), Tensor::scalar(0i64));
    let fill = |value: &'static str, index: &Tensor| {
        let layer = operator("aten::index_fill", &[("dim", "-1"), ("value", value)]);
        let output = layer.with_names(&["input", "index"]).run_one(&[&x, index])?;
        assert_eq!(output.rank(), 0);
        Ok::<_, LayerError>(output.item::<f32>()?)
    };
    assert_eq!(fill("2.5", &zero).unwrap(), 2.5);
    assert_eq!(fill("2.5", &tensor(&[3], &[0i64, -1, 0])).unwrap(), 2.5);
    assert_eq!(fill("2.5", &tensor::<i64>(&[0], &[])).unwrap(), 1.0);
    assert!(fill("2.5", &tensor(&[1], &[1i64])).is_err());
    let add = |x: &Tensor, index: &Tensor, source: &Tensor| {
        let layer = operator("aten::index_add", &[("dim", "0"), ("alpha", "3")]);
        layer.with_names(&["input", "index", "source"]).run_one(&[x, index, source])
    };
    let got = add(&x, &zero, &Tensor::scalar(2f32)).unwrap();
    assert_eq!((got.rank(), got.item::<f32>().unwrap()), (0, 7.0));
    let row = add(&tensor(&[2], &[1f32, 5.0]), &zero, &tensor(&[1], &[2f32])).unwrap();
    assert_eq!(row.to_vec::<f32>().unwrap(), [7.0, 5.0]);
    operator("aten::index_fill", &[("dim", "0"), ("value", "1")]).survives(2);
    operator("aten::index_add", &[("dim", "0")]).survives(3);
}
