//! Regression tests for bugs of earlier runtimes and courses of this kind.
//!
//! The expected values are computed in the test, by hand or from the definition.

use ixion::Limits;
use ixion::graph::{GraphError, RuntimeGraph};
use ixion::pnnx::{Attribute, Graph};
use ixion::tensor::{DType, Tensor};
use std::path::Path;

/// A graph in which the operator `op` has these weights and the others have none.
fn graph(text: &str, weights: &[(&str, &[usize], Vec<f32>)]) -> RuntimeGraph {
    let mut file = Graph::parse(text, &Limits::default()).unwrap();
    for (key, shape, values) in weights {
        let operator = file.operator_named("op").unwrap();
        let weight = Attribute::from_f32s(shape.to_vec(), values).unwrap();
        file.set_attribute(operator, key, weight).unwrap();
    }
    let mut graph = RuntimeGraph::from_pnnx(file);
    graph.build().unwrap_or_else(|error| panic!("{error}\n{text}"));
    graph
}

/// Runs one operator with one input and returns its output's shape and values.
fn run(line: &str, weights: &[(&str, &[usize], Vec<f32>)], input: Tensor) -> (Vec<usize>, Vec<f32>) {
    let (kind, keys) = line.split_once(' ').unwrap_or((line, ""));
    let text = format!("7767517\n3 2\npnnx.Input x 0 1 0\n{kind} op 1 1 0 1 {keys}\npnnx.Output out 1 0 1\n");
    let outputs =
        graph(&text, weights).run_with(vec![input]).unwrap_or_else(|error| panic!("{line}: {error}"));
    (outputs[0].shape().dims().to_vec(), outputs[0].to_vec::<f32>().unwrap())
}

fn tensor(shape: &[usize], values: Vec<f32>) -> Tensor {
    Tensor::from_vec(values, shape).unwrap()
}

/// 0, 1, 2, … in a shape.
fn counting(shape: &[usize]) -> Tensor {
    tensor(shape, (0..shape.iter().product::<usize>()).map(|value| value as f32).collect())
}

#[test]
fn every_group_of_a_1x1_convolution_reads_its_own_channels_and_bias() {
    let line = "nn.Conv2d in_channels=4 out_channels=4 kernel_size=(1,1) groups=2 bias=True";
    let weights = [
        ("weight", &[4, 2, 1, 1][..], vec![1., 0., 0., 1., 1., 1., 2., -1.]),
        ("bias", &[4], vec![0.5, 10., 20., 30.]),
    ];
    // Channels hold 1, 2, 3 and 4 at a single pixel.
    let (shape, found) = run(line, &weights, tensor(&[1, 4, 1, 1], vec![1., 2., 3., 4.]));
    assert_eq!((shape, found), (vec![1, 4, 1, 1], vec![1.5, 12., 27., 32.]));
}

#[test]
fn groups_of_a_3x3_convolution_are_separate() {
    let line = "nn.Conv2d in_channels=2 out_channels=2 kernel_size=(3,3) groups=2 bias=True padding=(1,1)";
    let mut taps = vec![0.; 18];
    (taps[4], taps[9 + 4]) = (1., 10.);
    let weights = [("weight", &[2, 1, 3, 3][..], taps), ("bias", &[2], vec![0., 1.])];
    let (_, found) = run(line, &weights, counting(&[1, 2, 2, 2]));
    assert_eq!(found, [0., 1., 2., 3., 41., 51., 61., 71.]);
}

#[test]
fn dilation_spreads_the_window() {
    let line = "nn.Conv1d in_channels=1 out_channels=1 kernel_size=(2) dilation=(3) bias=False";
    let (shape, found) = run(line, &[("weight", &[1, 1, 2], vec![1., 10.])], counting(&[1, 1, 6]));
    assert_eq!((shape, found), (vec![1, 1, 3], vec![30., 41., 52.]));
}

#[test]
fn linear_works_without_bias() {
    let line = "nn.Linear in_features=3 out_features=2 bias=False";
    let weights = [("weight", &[2, 3][..], vec![1., 2., 3., 0., -1., 0.])];
    assert_eq!(run(line, &weights, tensor(&[1, 3], vec![1., 1., 2.])), (vec![1, 2], vec![9., -1.]));
}

/// out = (x - mean) / √(var + eps) · weight + bias; without the root the answer would be 1.5.
#[test]
fn batch_norm_takes_the_square_root() {
    let line = "nn.BatchNorm2d num_features=1 eps=0.0 affine=True";
    let one = |value| (vec![value], &[1usize][..]);
    let weights = [("weight", 2.0), ("bias", 1.0), ("running_mean", 3.0), ("running_var", 4.0)];
    let weights = weights.map(|(key, value)| (key, one(value).1, one(value).0));
    assert_eq!(run(line, &weights, tensor(&[1, 1, 1, 1], vec![4.])).1, [2.0]);
}

#[test]
fn pooling_respects_ceil_mode() {
    let line = "nn.MaxPool2d kernel_size=(2,2) stride=(2,2) padding=(0,0) dilation=(1,1)";
    let pool = |mode: &str| {
        run(&format!("{line} ceil_mode={mode} return_indices=False"), &[], counting(&[1, 1, 3, 3]))
    };
    assert_eq!(pool("False"), (vec![1, 1, 1, 1], vec![4.]));
    assert_eq!(pool("True"), (vec![1, 1, 2, 2], vec![4., 5., 7., 8.]));
}

#[test]
fn adaptive_pooling_overlaps_where_sizes_do_not_divide() {
    let (shape, found) = run("nn.AdaptiveAvgPool1d output_size=(3)", &[], counting(&[1, 1, 5]));
    // Windows 0..2, 1..4 and 3..5.
    assert_eq!((shape, found), (vec![1, 1, 3], vec![0.5, 2.0, 3.5]));
}

#[test]
fn nearest_upsampling_by_a_fractional_factor_leaves_no_holes() {
    let line = "nn.Upsample scale_factor=(2.5) mode=nearest";
    let (shape, found) = run(line, &[], tensor(&[1, 1, 2], vec![1., 2.]));
    assert_eq!((shape, found), (vec![1, 1, 5], vec![1., 1., 1., 2., 2.]));
}

#[test]
fn concatenation_takes_any_axis_and_any_lengths_along_it() {
    let join = |dim: &str, a: &[usize], b: &[usize]| {
        let text = format!(
            "7767517\n4 3\npnnx.Input a 0 1 0\npnnx.Input b 0 1 1\ntorch.cat op 2 1 0 1 2 dim={dim}\npnnx.Output out 1 0 2\n"
        );
        let outputs = graph(&text, &[]).run_with(vec![counting(a), counting(b)]).unwrap();
        (outputs[0].shape().dims().to_vec(), outputs[0].to_vec::<f32>().unwrap())
    };
    assert_eq!(join("1", &[1, 1, 2], &[1, 2, 2]), (vec![1, 3, 2], vec![0., 1., 0., 1., 2., 3.]));
    // Axis 0 is the first axis, not the one after it.
    assert_eq!(join("0", &[1, 2], &[2, 2]), (vec![3, 2], vec![0., 1., 0., 1., 2., 3.]));
    assert_eq!(join("-1", &[2, 1], &[2, 2]), (vec![2, 3], vec![0., 0., 1., 1., 2., 3.]));
}

/// Each branch starts at its own input, and the file lists the second branch first.
#[test]
fn branches_of_two_inputs_join() {
    let text = "7767517\n7 6\npnnx.Input b 0 1 0\nnn.ReLU r0 1 1 0 1\npnnx.Input a 0 1 2\nF.silu r1 1 1 2 3\n\
        pnnx.Expression sum 2 1 1 3 4 expr=sub(@0,@1)\nF.relu r2 1 1 4 5\npnnx.Output out 1 0 5\n";
    let outputs = graph(text, &[]).run_with(vec![counting(&[2]), tensor(&[2], vec![0., 0.])]).unwrap();
    assert_eq!(outputs[0].to_vec::<f32>().unwrap(), [0., 1.]);
}

/// Parameters stay with their operator even if the operators of two branches are interleaved in the file.
#[test]
fn operators_of_interleaved_branches_keep_their_parameters() {
    let text = "7767517\n8 7\npnnx.Input x 0 1 0\npnnx.Input y 0 1 1\n\
        F.leaky_relu y0 1 1 1 2 negative_slope=0.5\nF.leaky_relu x0 1 1 0 3 negative_slope=0.1\n\
        F.hardtanh y1 1 1 2 4 min_val=-1.0 max_val=1.0\nF.hardtanh x1 1 1 3 5 min_val=-9.0 max_val=9.0\n\
        torch.cat join 2 1 5 4 6 dim=0\npnnx.Output out 1 0 6\n";
    let input = || tensor(&[2], vec![-10., 12.]);
    let outputs = graph(text, &[]).run_with(vec![input(), input()]).unwrap();
    assert_eq!(outputs[0].to_vec::<f32>().unwrap(), [-1., 9., -1., 1.]);
}

/// Output `y` is read again later; its memory must not be reused.
#[test]
fn an_output_that_is_not_last_survives_the_rest_of_the_run() {
    let text = "7767517\n7 5\npnnx.Input x 0 1 0\npnnx.Expression e 1 1 0 1 expr=add(@0,1)\npnnx.Output y 1 0 1\n\
        pnnx.Expression f 1 1 1 2 expr=mul(@0,2)\npnnx.Expression g 1 1 2 3 expr=mul(@0,2)\n\
        pnnx.Expression h 1 1 3 4 expr=mul(@0,2)\npnnx.Output z 1 0 4\n";
    let mut graph = graph(text, &[]);
    let outputs = graph.run_with(vec![counting(&[3])]).unwrap();
    assert_eq!(outputs[0].to_vec::<f32>().unwrap(), [1., 2., 3.]);
    assert_eq!(outputs[1].to_vec::<f32>().unwrap(), [8., 16., 24.]);
    // The next run must not overwrite the results of the first.
    graph.run_with(vec![tensor(&[3], vec![9.; 3])]).unwrap();
    assert_eq!(outputs[1].to_vec::<f32>().unwrap(), [8., 16., 24.]);
}

#[test]
fn outputs_of_one_operator_do_not_share_memory() {
    let text = "7767517\n5 4\npnnx.Input x 0 1 0\ntorch.chunk op 1 2 0 1 2 chunks=2 dim=1\nF.relu a 1 1 1 3\n\
        pnnx.Output first 1 0 3\npnnx.Output second 1 0 2\n";
    let outputs = graph(text, &[]).run_with(vec![counting(&[2, 4])]).unwrap();
    assert_eq!(outputs[0].to_vec::<f32>().unwrap(), [0., 1., 4., 5.]);
    assert_eq!(outputs[1].to_vec::<f32>().unwrap(), [2., 3., 6., 7.]);
}

/// An activation that cannot be fused into a convolution is still applied.
#[test]
fn an_unusual_activation_after_a_convolution_stays() {
    let text = "7767517\n4 3\npnnx.Input x 0 1 0\n\
        nn.Conv1d op 1 1 0 1 in_channels=1 out_channels=1 kernel_size=(1) bias=False\n\
        nn.Tanh act 1 1 1 2\npnnx.Output out 1 0 2\n";
    let mut graph = graph(text, &[("weight", &[1, 1, 1], vec![2.])]);
    let outputs = graph.run_with(vec![tensor(&[1, 1, 1], vec![0.25])]).unwrap();
    assert!((outputs[0].to_vec::<f32>().unwrap()[0] - 0.5f32.tanh()).abs() < 1e-6);
}

#[test]
fn the_batch_is_as_large_as_the_input_not_as_the_file_says() {
    let text = "7767517\n3 2\npnnx.Input x 0 1 0 #0=(1,1,4)f32\n\
        nn.AvgPool1d op 1 1 0 1 kernel_size=(2) stride=(2) padding=(0) ceil_mode=False count_include_pad=True #0=(1,1,4)f32 #1=(1,1,2)f32\n\
        pnnx.Output out 1 0 1 #1=(1,1,2)f32\n";
    let mut graph = graph(text, &[]);
    for batch in [1, 3, 2] {
        let outputs = graph.run_with(vec![counting(&[batch, 1, 4])]).unwrap();
        let wanted: Vec<f32> = (0..2 * batch).map(|at| 2. * at as f32 + 0.5).collect();
        assert_eq!(outputs[0].to_vec::<f32>().unwrap(), wanted);
    }
}

#[test]
fn other_element_types_than_f32_are_computed_in_their_own() {
    let large = Tensor::from_vec(vec![1i64 << 40, -1], &[2]).unwrap();
    let text = "7767517\n3 2\npnnx.Input x 0 1 0\npnnx.Expression op 1 1 0 1 expr=add(@0,1)\npnnx.Output out 1 0 1\n";
    let outputs = graph(text, &[]).run_with(vec![large]).unwrap();
    assert_eq!(
        (outputs[0].dtype(), outputs[0].to_vec::<i64>().unwrap()),
        (DType::I64, vec![(1 << 40) + 1, 0])
    );
}

#[test]
fn bad_files_are_errors_not_aborts() {
    let refused = |text: &str| Graph::parse(text, &Limits::default()).unwrap_err();
    let wrong_magic = refused("7767518\n1 1\npnnx.Input x 0 1 0\n");
    assert!(wrong_magic.to_string().contains("7767517"), "{wrong_magic}");
    // An operand without a producer.
    let dangling = "7767517\n2 1\nnn.ReLU r 1 1 7 0\npnnx.Output out 1 0 0\n";
    let problem = match Graph::parse(dangling, &Limits::default()) {
        Err(error) => error.to_string(),
        Ok(file) => RuntimeGraph::from_pnnx(file).build().unwrap_err().to_string(),
    };
    assert!(problem.contains('7'), "{problem}");
    let nowhere = Graph::load(Path::new("there/is/nothing.param"), None, &Limits::default()).unwrap_err();
    assert!(nowhere.to_string().contains("nothing.param"), "{nowhere}");
}

/// An importer that silently drops an operator is worse than one that fails.
#[test]
fn unknown_operators_fail_the_build() {
    let text = "7767517\n3 2\npnnx.Input x 0 1 0\nnn.Mystery op 1 1 0 1\npnnx.Output out 1 0 1\n";
    let mut graph = RuntimeGraph::from_pnnx(Graph::parse(text, &Limits::default()).unwrap());
    match graph.build().unwrap_err() {
        GraphError::UnknownOperators { .. } => {}
        other => panic!("{other}"),
    }
}
