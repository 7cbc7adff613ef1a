//! Errors of operators with ONNX's names, and cases that the exported ones do not cover.

use super::steps::ReverseSequences;
use crate::op::{CpuLayer, ForwardContext, Io};
use crate::support::testing::{assert_close, operator, tensor, waves};
use ixion_tensor::{DType, Limits, Tensor, Workspace};

/// Checks that an operator rejects these inputs, with `why` in the message.
#[track_caller]
fn refused(op_type: &str, params: &[(&str, &str)], inputs: &[&Tensor], why: &str) {
    let error = operator(op_type, params).run(inputs).unwrap_err().to_string();
    assert!(error.contains(why), "`{why}` is not in: {error}");
}

#[test]
fn invalid_windows() {
    let (x, w) = (waves(&[1, 2, 5, 6]), waves(&[3, 2, 3, 3]));
    for pool in ["MaxPool", "AveragePool", "LpPool"] {
        refused(pool, &[], &[&x], "the window size is required");
        refused(pool, &[("kernel_shape", "(1,1,1,1)")], &[&x], "");
        refused(pool, &[("kernel_shape", "(2,2)"), ("pads", "(1,0,0)")], &[&x], "two values of at least 0");
        refused(pool, &[("kernel_shape", "(9,9)")], &[&x], "");
        operator(pool, &[("kernel_shape", "(2,3)"), ("pads", "(1,0,0,2)"), ("ceil_mode", "1")]).survives(1);
        operator(pool, &[("kernel_shape", "(3)"), ("auto_pad", "SAME_LOWER"), ("strides", "(2)")])
            .survives(1);
    }
    refused("Conv", &[("dilations", "(1099511627775,1)")], &[&x, &w], "too large");
    refused("ConvTranspose", &[("output_shape", "(4)")], &[&x, &waves(&[2, 3, 3, 3])], "expected a length");
}

#[test]
fn windows_may_be_dilated() {
    let x = tensor(&[1, 1, 4], &[1f32, 2.0, 3.0, 5.0]);
    let params = [("kernel_shape", "(2)"), ("dilations", "(2)")];
    assert_close(&operator("AveragePool", &params).run_one(&[&x]).unwrap(), &[1, 1, 2], &[2.0, 3.5]);
    let norms = [10f64.sqrt(), 29f64.sqrt()];
    assert_close(&operator("LpPool", &params).run_one(&[&x]).unwrap(), &[1, 1, 2], &norms);
}

#[test]
fn sums_of_halves_are_wider_than_halves() {
    let x = tensor(&[1, 1, 1, 4], &[60000f64; 4]).cast(DType::F16).unwrap();
    let pool = operator("AveragePool", &[("kernel_shape", "(1,3)"), ("pads", "(0,1,0,0)")]);
    assert_close(&pool.run_one(&[&x]).unwrap(), &[1, 1, 1, 3], &[60000.0; 3]);
}

/// The last window begins in the padding after the input: it does not count.
#[test]
fn a_window_after_the_input_does_not_count() {
    let x = tensor(&[1, 1, 6], &[1f32, 2.0, 3.0, 4.0, 5.0, 6.0]);
    let params = [("kernel_shape", "(2)"), ("strides", "(3)"), ("pads", "(0,1)"), ("ceil_mode", "1")];
    assert_close(&operator("AveragePool", &params).run_one(&[&x]).unwrap(), &[1, 1, 2], &[1.5, 4.5]);
    assert_close(&operator("MaxPool", &params).run_one(&[&x]).unwrap(), &[1, 1, 2], &[2.0, 5.0]);
}

/// If a window is shorter than its stride, the gaps hold the bias.
#[test]
fn the_same_length_of_a_short_window() {
    let (x, w, b) = (tensor(&[1, 1, 2], &[1f32, 2.0]), tensor(&[1, 1, 1], &[10f32]), tensor(&[1], &[5f32]));
    let layer = operator("ConvTranspose", &[("auto_pad", "SAME_UPPER"), ("strides", "(3)")]);
    let want = [15.0, 5.0, 5.0, 25.0, 5.0, 5.0];
    assert_close(&layer.run_one(&[&x, &w, &b]).unwrap(), &[1, 1, 6], &want);
    let layer = operator("ConvTranspose", &[("output_shape", "(4)"), ("strides", "(2)")]);
    assert_close(&layer.run_one(&[&x, &w, &b]).unwrap(), &[1, 1, 4], &[15.0, 5.0, 25.0, 5.0]);
}

#[test]
fn each_row_has_its_scale() {
    let (a, b) = (tensor(&[2, 2], &[1u8, 2, 3, 4]), tensor(&[2, 2], &[1u8, 0, 0, 1]));
    let (rows, one, zero) = (tensor(&[2], &[1f32, 10.0]), tensor(&[], &[1f32]), tensor(&[], &[0u8]));
    let inputs = [&a, &rows, &zero, &b, &one, &zero, &one, &zero];
    let product = operator("QLinearMatMul", &[]).run_one(&inputs).unwrap();
    assert_eq!(product.to_vec::<u8>().unwrap(), [1, 2, 30, 40]);
}

#[test]
fn batches_of_different_lengths() {
    let (x, indices) = (waves(&[2, 3]), tensor(&[3, 1], &[0i64, 1, 2]));
    refused("GatherND", &[("batch_dims", "1")], &[&x, &indices], "batch axes like the first 1 of");
}

#[test]
fn outputs_that_a_file_does_not_name() {
    let (x, w, r) = (waves(&[4, 2, 3]), waves(&[1, 20, 3]), waves(&[1, 20, 5]));
    let lstm = |params: &[(&'static str, &'static str)], outputs| {
        operator("LSTM", params).with_outputs(outputs).run(&[&x, &w, &r])
    };
    let error = lstm(&[], 1).unwrap_err().to_string();
    assert!(error.contains("results=(Y_h)"), "{error}");
    assert!(lstm(&[], 2).is_err() && lstm(&[("results", "(Y,Y_h)")], 1).is_err());
    let all = lstm(&[], 3).unwrap();
    for (place, name) in ["(Y)", "(Y_h)", "(Y_c)"].into_iter().enumerate() {
        assert_eq!(lstm(&[("results", name)], 1).unwrap(), all[place..=place], "{name}");
    }
    refused("LSTM", &[("results", "(Y)")], &[&x, &w, &r, &waves(&[1, 2, 5])], "give both");
    refused(
        "GRU",
        &[("results", "(Y_c)")],
        &[&x, &waves(&[1, 15, 3]), &waves(&[1, 15, 5])],
        "expected a name",
    );
}

#[test]
fn invalid_recurrent_networks() {
    let (x, w, r) = (waves(&[4, 2, 3]), waves(&[1, 5, 3]), waves(&[1, 5, 5]));
    let run = |more: (&'static str, &'static str)| {
        let result = operator("RNN", &[("results", "(Y)"), more]).run(&[&x, &w, &r]);
        result.map(drop).map_err(|error| error.to_string())
    };
    assert_eq!(run(("hidden_size", "5")), Ok(()));
    for (more, why) in [
        (("hidden_size", "4"), "the weights have 5 hidden units"),
        (("activations", "(Cos)"), "not one of the functions"),
        (("activations", "(Tanh,Tanh)"), "expected 1 functions"),
        (("clip", "0.0"), "it must be above 0"),
        (("layout", "2"), "it must be 0 or 1"),
        (("direction", "bidirectional"), "the weights"),
    ] {
        let error = run(more).unwrap_err();
        assert!(error.contains(why), "`{why}` is not in: {error}");
    }
    let params = [("results", "(Y)")];
    refused("RNN", &params, &[&x, &w, &r, &tensor(&[2], &[5i64, 1])], "length of a sequence");
    refused("RNN", &params, &[&x, &w, &r, &waves(&[7])], "biases, sequence lengths");
    operator("RNN", &params).survives(3);
}

/// Batch first or steps first: the same network.
#[test]
fn both_layouts() {
    let turned = |x: &Tensor, order: &[i64]| x.permute(order).unwrap().contiguous().unwrap();
    let (x, w, r) = (waves(&[4, 2, 3]), waves(&[2, 15, 3]), waves(&[2, 15, 5]));
    let (lens, h) = (tensor(&[2], &[3i32, 4]), waves(&[2, 2, 5]));
    let run = |layout: &'static str, x: &Tensor, h: &Tensor| {
        let params = [("layout", layout), ("direction", "bidirectional")];
        operator("GRU", &params).with_outputs(2).run(&[x, &w, &r, &lens, h]).unwrap()
    };
    let steps_first = run("0", &x, &h);
    let batch_first = run("1", &turned(&x, &[1, 0, 2]), &turned(&h, &[1, 0, 2]));
    assert_eq!(batch_first[0], turned(&steps_first[0], &[2, 0, 1, 3]));
    assert_eq!(batch_first[1], turned(&steps_first[1], &[1, 0, 2]));
}

#[cfg(feature = "fourier")]
#[test]
fn transforms_of_an_unspecified_axis() {
    refused("DFT", &[], &[&waves(&[2, 3, 4, 2])], "does not specify the axis");
    refused("DFT", &[("axis", "-1")], &[&waves(&[2, 3, 2])], "holds real and imaginary parts");
    refused("DFT", &[("axis", "1"), ("onesided", "1")], &[&waves(&[2, 3, 2])], "two different halves");
    refused("DFT", &[("axis", "1")], &[&waves(&[2, 3, 3])], "1 (real) or 2 (complex)");
    let numbers = waves(&[2, 6, 1]);
    let half = operator("DFT", &[("axis", "1"), ("onesided", "1")]).run_one(&[&numbers]).unwrap();
    let back =
        operator("DFT", &[("axis", "1"), ("onesided", "1"), ("inverse", "1")]).run_one(&[&half]).unwrap();
    assert_close(&back, &[2, 6, 1], &numbers.to_vec::<f64>().unwrap());
    operator("DFT", &[("axis", "0")]).survives(1);
}

/// Of the four elements around the middle, each has a quarter of the weight.
#[test]
fn the_largest_sample_of_a_region() {
    let (x, boxes) = (tensor(&[1, 1, 2, 2], &[1f32, 2.0, 3.0, 4.0]), tensor(&[1, 4], &[0f32, 0.0, 1.0, 1.0]));
    let params = [("mode", "max"), ("coordinate_transformation_mode", "output_half_pixel")];
    let pooled = operator("RoiAlign", &params).run_one(&[&x, &boxes, &tensor(&[1], &[0i64])]).unwrap();
    assert_close(&pooled, &[1, 1, 1, 1], &[1.0]);
    let outside = [&x, &boxes, &tensor(&[1], &[1i64])];
    refused("RoiAlign", &params, &outside, "a number below 1");
}

#[test]
fn sequences_are_reversed_until_the_deadline() {
    let (x, lens) = (waves(&[3, 2]), tensor(&[2], &[2i64, 3]));
    let mut output = Tensor::zeros(DType::F64, &[3, 2]).unwrap();
    let late = Limits::default().with_timeout(std::time::Duration::ZERO);
    let mut workspace = Workspace::new().unwrap();
    let mut context = ForwardContext::new(&mut workspace, &late);
    let (inputs, outputs) = ([x.view(), lens.view()], &mut [output.view_mut().unwrap()]);
    assert!(ReverseSequences { time: 0 }.forward(&mut Io::new(&inputs, outputs, &mut context)).is_err());
}
