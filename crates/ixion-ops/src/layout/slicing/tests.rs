use super::*;
use crate::support::testing::{counting, operator, tensor};
use ixion_tensor::Tensor;

fn slice_of(params: &[(&str, &str)], shape: &[usize]) -> Result<(Vec<usize>, Vec<i32>)> {
    let x = counting(DType::I32, shape);
    let part = operator("Tensor.slice", params).run_one(&[&x])?;
    assert!(part.shares_storage(&x));
    Ok((part.shape().to_vec(), part.to_vec().unwrap()))
}

#[test]
fn one_axis_is_sliced_as_in_python() {
    let slice = |start, end, step| {
        slice_of(&[("dim", "0"), ("start", start), ("end", end), ("step", step)], &[6])
            .map(|(_, values)| values)
    };
    assert_eq!(slice("1", "2147483647", "2").unwrap(), [1, 3, 5]);
    assert_eq!(slice("-2", "9", "1").unwrap(), [4, 5]);
    assert_eq!(slice("-9", "-4", "1").unwrap(), [0, 1]);
    assert_eq!(slice("4", "2", "1").unwrap(), [0; 0]);
    assert_eq!(slice("None", "None", "9223372036854775807").unwrap(), [0]);
    assert_eq!(slice("-9223372036854775808", "9223372036854775807", "5").unwrap(), [0, 5]);
    assert!(slice("0", "6", "0").is_err() && slice("0", "6", "-1").is_err() && slice("x", "6", "1").is_err());
    assert_eq!(slice_of(&[("dim", "1")], &[1, 3]).unwrap(), (vec![1, 3], vec![0, 1, 2]));
}

#[test]
fn several_axes_are_sliced_and_selected_from() {
    let all = |dims, starts, ends, steps, selects| {
        let lists =
            [("dims", dims), ("starts", starts), ("ends", ends), ("steps", steps), ("selects", selects)];
        slice_of(&lists, &[2, 3, 4])
    };
    let part = all("(0,2)", "(0,1)", "(0,2147483647)", "(0,2)", "(-1,2147483647)").unwrap();
    assert_eq!(part, (vec![3, 2], vec![13, 15, 17, 19, 21, 23]));
    let part = all("(0,-1)", "(0,0)", "(0,0)", "(0,0)", "(1,-4)").unwrap();
    assert_eq!(part, (vec![3], vec![12, 16, 20]));
    let part = all("(1,2)", "(-2,-3)", "(-1,3)", "(1,1)", "(2147483647,2147483647)").unwrap();
    assert_eq!(part, (vec![2, 1, 2], vec![5, 6, 17, 18]));
    assert!(all("(0,1)", "(0,0)", "(0,0)", "(1,1)", "(2,0)").is_err());
    let error = all("(0,1)", "(0)", "(1,1)", "(1,1)", "(0,0)").unwrap_err().to_string();
    assert_eq!(error, "parameter `starts` is (0): expected one value for each of the 2 axes in `dims`");
}

#[test]
fn indices_may_come_from_the_graph() {
    let x = counting(DType::F32, &[6]);
    let slice = operator("Tensor.slice", &[("dim", "0"), ("start", "1"), ("step", "2")])
        .with_names(&["input", "end"]);
    let part = slice.run_one(&[&x, &Tensor::scalar(4i64)]).unwrap();
    assert_eq!(part.to_vec::<f32>().unwrap(), [1.0, 3.0]);
    assert!(slice.run(&[&x, &tensor(&[2], &[4i64, 5])]).is_err() && slice.run(&[&x, &x]).is_err());
    let indexes = operator("pnnx.SliceIndexes", &[("indexes", "(@1,2147483647,@0)")]);
    let ends = indexes.run_one(&[&Tensor::scalar(2i64), &Tensor::scalar(-1i64)]).unwrap();
    assert_eq!(ends, tensor(&[3], &[-1, i64::from(i32::MAX), 2]));
    assert!(indexes.run(&[&Tensor::scalar(2i64)]).is_err());
    assert!(operator("pnnx.SliceIndexes", &[("indexes", "(@x)")]).create(0).is_err());
    let many = operator("Tensor.slice", &[("dims", "(0,1,2)")]).with_names(&["input", "ends"]);
    let part = many.run_one(&[&counting(DType::U8, &[3, 2, 3]), &ends]).unwrap();
    assert_eq!(part.to_vec::<u8>().unwrap(), [0, 1, 3, 4, 6, 7, 9, 10]);
}

#[test]
fn symbols_give_lengths_that_hold_for_every_number() {
    let cases = [("0", "2147483647", "n"), ("1", "-2", "max(max(n - 2, 0) - min(n, 1), 0)"), ("-3", "7", "")];
    for (start, end, text) in cases {
        let layer = operator("Tensor.slice", &[("dim", "0"), ("start", start), ("end", end)]);
        let symbolic = layer.infer(&[TensorMeta::new(DType::F32, [Dim::symbol("n")])]).unwrap();
        assert!(text.is_empty() || symbolic[0].dims()[0].to_string() == text, "{}", symbolic[0]);
        for len in 0..9i64 {
            let number = layer.run_one(&[&counting(DType::F32, &[len as usize])]).unwrap().num_elements();
            assert_eq!(symbolic[0].dims()[0].evaluate(&|_| Some(len)), Some(number as i64));
        }
    }
}

#[test]
fn a_slice_of_a_copy_is_replaced() {
    let x = counting(DType::F32, &[2, 4]);
    let into = |params: &[(&str, &str)], source: &Tensor| {
        let layer = operator("Tensor.slice_copy", params).with_names(&["self", "src"]);
        layer.run_one(&[&x, source]).map(|output| output.to_vec::<f32>().unwrap())
    };
    let params = [("dim", "1"), ("start", "1"), ("end", "2147483647"), ("step", "2")];
    assert_eq!(into(&params, &tensor(&[2], &[8f32, 9.0])).unwrap(), [0.0, 8.0, 2.0, 9.0, 4.0, 8.0, 6.0, 9.0]);
    assert_eq!(into(&params, &Tensor::scalar(true)).unwrap(), [0.0, 1.0, 2.0, 1.0, 4.0, 1.0, 6.0, 1.0]);
    let error = into(&params, &x).unwrap_err().to_string();
    assert_eq!(error, "the source: expected a shape that broadcasts to 2×2 f32, got 2×4 f32");
    let select = [("dims", "(0)"), ("starts", "(0)"), ("ends", "(0)"), ("steps", "(0)"), ("selects", "(-1)")];
    assert_eq!(into(&select, &Tensor::scalar(5f32)).unwrap(), [0.0, 1.0, 2.0, 3.0, 5.0, 5.0, 5.0, 5.0]);
    let scatter = operator("torch.slice_scatter", &[("start", "1"), ("end", "None")]);
    let output = scatter.run_one(&[&x, &tensor(&[1, 4], &[7f32; 4])]).unwrap();
    assert_eq!(output.to_vec::<f32>().unwrap(), [0.0, 1.0, 2.0, 3.0, 7.0, 7.0, 7.0, 7.0]);
}

#[test]
fn odd_inputs() {
    operator("Tensor.slice", &[("dim", "-1"), ("start", "-2"), ("step", "3")]).survives(1);
    operator("Tensor.slice", &[("dims", "(0,0,-1)"), ("selects", "(0,-1,2147483647)")]).survives(1);
    operator("Tensor.slice", &[("dims", "(0,0)"), ("starts", "(1,1)")]).survives(1);
    operator("Tensor.slice", &[("dim", "0")]).survives(2);
    operator("Tensor.slice_copy", &[("dim", "1"), ("start", "1")]).survives(2);
}
