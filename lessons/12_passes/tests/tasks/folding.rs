//! Task 5 by hand, and tasks 5 and 6 on trained networks. Their files have no batch norm any more, since the exporter has
//! folded it: the tests reconstruct it with made-up parameters.

use super::super::subject::{
    Affine, Norm, affine, folded_bias, remove_dead, run_to_fixpoint, scaled, scaled_transposed,
    used_elsewhere,
};
use super::{load, model_file, names, operator, share};
use ixion::Limits;
use ixion::graph::RuntimeGraph;
use ixion::pnnx::{Attribute, Graph, OperandId, OperatorId};
use ixion::tensor::Tensor;
use std::collections::HashSet;

/// Integers from -11 to 11 that look like noise.
fn noise(len: usize, seed: usize) -> impl Iterator<Item = f64> {
    (0..len).map(move |i| ((i * 37 + seed * 11) % 23) as f64 - 11.0)
}

/// Compares values one by one, with a relative tolerance for rounding to `f32`.
#[track_caller]
fn close(got: &[f64], want: &[f64], hint: &str) {
    assert_eq!(got.len(), want.len(), "the output must have as many values as the input. {hint}");
    for (at, (got, want)) in got.iter().zip(want).enumerate() {
        assert!(
            (got - want).abs() <= 1e-6 * want.abs().max(1.0),
            "value {at}: got {got}, expected {want}. {hint}"
        );
    }
}

#[test]
fn task5_batch_norm_by_hand() {
    let norm =
        Norm { gamma: &[6.0, 1.0], beta: &[1.0, 0.5], mean: &[5.0, 0.0], variance: &[8.0, 0.0], eps: 1.0 };
    let Affine { factors, summands } = affine(&norm);
    close(
        &factors,
        &[2.0, 1.0],
        "6 / √(8 + 1) = 2. Is ε under the root? 6 / (√8 + 1) is 1.567, 6 / 9 is 0.667",
    );
    close(&summands, &[-9.0, 0.5], "1 − 5 · 2 = −9: the mean is scaled as well, β is not");
}

#[test]
fn task5_each_index_of_an_axis_has_its_factor() {
    let ones = [1.0; 12];
    let hint = "in 2×3×2, six values belong to each index of axis 0";
    let want = [2., 2., 2., 2., 2., 2., 3., 3., 3., 3., 3., 3.];
    close(&scaled(&ones, &[2, 3, 2], 0, &[2.0, 3.0]), &want, hint);
    let hint = "in 2×3×2, two values belong to each index of axis 1, and then it starts again";
    let want = [2., 2., 3., 3., 4., 4., 2., 2., 3., 3., 4., 4.];
    close(&scaled(&ones, &[2, 3, 2], 1, &[2.0, 3.0, 4.0]), &want, hint);
    close(&scaled(&[1.0, 10.0], &[2], 0, &[3.0, 5.0]), &[3.0, 50.0], "a bias has one axis");
}

#[test]
fn task5_a_transposed_convolution_has_its_outputs_second() {
    let hint = "2×3×1, one group: the three outputs are axis 1";
    let want = [2., 3., 4., 2., 3., 4.];
    close(&scaled_transposed(&[1.0; 6], &[2, 3, 1], 1, &[2.0, 3.0, 4.0]), &want, hint);
    let hint =
        "4×2×1, two groups: outputs 0 and 1 come from inputs 0 and 1, outputs 2 and 3 from inputs 2 and 3";
    let want = [2., 3., 2., 3., 4., 5., 4., 5.];
    close(&scaled_transposed(&[1.0; 8], &[4, 2, 1], 2, &[2.0, 3.0, 4.0, 5.0]), &want, hint);
}

#[test]
fn task5_a_missing_bias_is_zero() {
    let hint = "b · factor + summand: 1 · 2 − 9 and 2 · 3 + 0.5. Is the old bias scaled?";
    close(&folded_bias(Some(&[1.0, 2.0]), &[2.0, 3.0], &[-9.0, 0.5]), &[-7.0, 6.5], hint);
    let hint = "0 · factor + summand: a convolution without bias has one now";
    close(&folded_bias(None, &[2.0, 3.0], &[-9.0, 0.5]), &[-9.0, 0.5], hint);
}

/// Made-up parameters of a batch norm: simple fractions, with variances that are not squares.
struct MadeUp {
    gamma: Vec<f64>,
    beta: Vec<f64>,
    mean: Vec<f64>,
    variance: Vec<f64>,
}

const EPS: f64 = 1e-3;

impl MadeUp {
    fn new(channels: usize, seed: usize) -> Self {
        let all = |salt: usize| noise(channels, seed + salt);
        Self {
            gamma: all(1).map(|number| 1.0 + number.abs() / 4.0).collect(),
            beta: all(2).map(|number| number / 8.0).collect(),
            mean: all(3).map(|number| number / 4.0).collect(),
            variance: all(4).map(|number| 0.5 + number.abs()).collect(),
        }
    }

    fn norm(&self) -> Norm<'_> {
        Norm { gamma: &self.gamma, beta: &self.beta, mean: &self.mean, variance: &self.variance, eps: EPS }
    }

    /// The factor and the summand of a channel, from the definition of batch norm.
    fn of(&self, channel: usize) -> (f64, f64) {
        let factor = self.gamma[channel] / f64::sqrt(self.variance[channel] + EPS);
        (factor, self.beta[channel] - factor * self.mean[channel])
    }
}

fn numbers(graph: &Graph, id: OperatorId, key: &str) -> Option<Vec<f64>> {
    let attribute = graph.operator(id).attr(key)?;
    Some(attribute.to_f32s().unwrap().into_iter().map(f64::from).collect())
}

fn stored(numbers: &[f64], shape: &[usize]) -> Attribute {
    let numbers: Vec<f32> = numbers.iter().map(|&number| number as f32).collect();
    Attribute::from_f32s(shape.to_vec(), &numbers).unwrap()
}

/// Splits the file's convolution into a convolution as in training, and a batch norm after it.
fn unfold(graph: &mut Graph, conv: OperatorId, seed: usize) {
    let weight = numbers(graph, conv, "weight").unwrap();
    let shape = graph.operator(conv).attr("weight").unwrap().shape().to_vec();
    let (channels, row) = (shape[0], weight.len() / shape[0]);
    let norm = MadeUp::new(channels, seed);
    let apart = |at: usize, number: &f64| number / norm.of(at / row).0;
    let apart: Vec<f64> = weight.iter().enumerate().map(|(at, number)| apart(at, number)).collect();
    let bias = numbers(graph, conv, "bias").unwrap_or_else(|| vec![0.0; channels]);
    let bias: Vec<f64> =
        bias.iter().enumerate().map(|(at, bias)| (bias - norm.of(at).1) / norm.of(at).0).collect();
    graph.set_attribute(conv, "weight", stored(&apart, &shape)).unwrap();
    graph.set_attribute(conv, "bias", stored(&bias, &[channels])).unwrap();
    graph.set_param(conv, "bias", true).unwrap();

    let name = format!("{}_norm", graph.operator(conv).name());
    let new = graph.new_operator_after("nn.BatchNorm2d", &name, conv).unwrap();
    for (key, values) in [
        ("weight", &norm.gamma),
        ("bias", &norm.beta),
        ("running_mean", &norm.mean),
        ("running_var", &norm.variance),
    ] {
        graph.set_attribute(new, key, stored(values, &[channels])).unwrap();
    }
    graph.set_param(new, "num_features", channels as i64).unwrap();
    graph.set_param(new, "eps", EPS).unwrap();
    graph.set_param(new, "affine", true).unwrap();
    let before = graph.operator(conv).outputs()[0];
    let after = graph.new_operand(&name).unwrap();
    graph.replace_uses(before, after).unwrap();
    graph.connect_input(new, before, None).unwrap();
    graph.connect_output(new, after).unwrap();
}

/// Folds each batch norm into the convolution before it, unless another operator reads between them.
fn fold(graph: &mut Graph) -> usize {
    let mut fired = 0;
    for id in graph.operator_ids().to_vec() {
        let norm = graph.operator(id);
        if norm.op_type() != "nn.BatchNorm2d" {
            continue;
        }
        let (before, after) = (norm.inputs()[0], norm.outputs()[0]);
        let conv = graph.operand(before).producer().unwrap();
        if used_elsewhere(graph, before, &HashSet::from([conv, id])).is_some() {
            continue;
        }
        let [gamma, beta, mean, variance] =
            ["weight", "bias", "running_mean", "running_var"].map(|key| numbers(graph, id, key).unwrap());
        let norm = Norm { gamma: &gamma, beta: &beta, mean: &mean, variance: &variance, eps: EPS };
        let affine = affine(&norm);
        let shape = graph.operator(conv).attr("weight").unwrap().shape().to_vec();
        let weight = scaled(&numbers(graph, conv, "weight").unwrap(), &shape, 0, &affine.factors);
        let bias = folded_bias(numbers(graph, conv, "bias").as_deref(), &affine.factors, &affine.summands);
        graph.set_attribute(conv, "weight", stored(&weight, &shape)).unwrap();
        graph.set_attribute(conv, "bias", stored(&bias, &shape[..1])).unwrap();
        graph.set_param(conv, "bias", true).unwrap();
        graph.replace_uses(after, before).unwrap();
        graph.remove_operator(id).unwrap();
        fired += 1;
    }
    fired
}

/// The three convolutions of the file, one of them with four groups, one without bias.
#[test]
fn task5_folding_gives_the_weights_of_the_file() {
    let file = load("conv3");
    for (seed, name) in ["conv1", "conv2", "conv3"].into_iter().enumerate() {
        let mut graph = file.clone();
        let conv = operator(&graph, name);
        unfold(&mut graph, conv, seed);
        let norm = MadeUp::new(graph.operator(conv).attr("weight").unwrap().shape()[0], seed);
        let Affine { factors, summands } = affine(&norm.norm());
        let shape = graph.operator(conv).attr("weight").unwrap().shape().to_vec();
        let weight = scaled(&numbers(&graph, conv, "weight").unwrap(), &shape, 0, &factors);
        let hint = "in O×(C/groups)×kH×kW the outputs of all groups are axis 0, so groups change nothing";
        close(&weight, &numbers(&file, conv, "weight").unwrap(), &format!("the weight of {name}: {hint}"));
        let bias = folded_bias(numbers(&graph, conv, "bias").as_deref(), &factors, &summands);
        let want = numbers(&file, conv, "bias").unwrap_or_else(|| vec![0.0; factors.len()]);
        close(&bias, &want, &format!("the bias of {name}"));
    }
}

/// Changes a graph, and returns how often.
type Pass = fn(&mut Graph) -> usize;

/// Inserts a copy of an operator after it, which reads `input`, and returns the result of the copy.
fn copy(graph: &mut Graph, id: OperatorId, input: OperandId) -> OperandId {
    let old = graph.operator(id).clone();
    let name = format!("{}_copy", old.name());
    let new = graph.new_operator_after(old.op_type(), &name, id).unwrap();
    for (key, value) in old.params() {
        graph.set_param(new, key, value.clone()).unwrap();
    }
    for (key, value) in old.attrs() {
        graph.set_attribute(new, key, value.clone()).unwrap();
    }
    let result = graph.new_operand(&name).unwrap();
    graph.connect_input(new, input, None).unwrap();
    graph.connect_output(new, result).unwrap();
    result
}

/// A network that reads digits, as in training, with some debris: a duplicate norm and a duplicate ReLU, and a probe whose
/// result is unused.
fn as_it_was() -> Graph {
    let mut graph = load("digits");
    let convs = graph.operators().filter(|(_, operator)| operator.op_type() == "nn.Conv2d");
    for (seed, conv) in convs.map(|(id, _)| id).collect::<Vec<_>>().into_iter().enumerate() {
        unfold(&mut graph, conv, seed);
    }
    // The shortcut around the first block repeats the normalisation of the block.
    let [norm, relu] = ["convbn2d_0_norm", "stem.2"].map(|name| operator(&graph, name));
    let convolved = graph.operator(norm).inputs()[0];
    let normed = copy(&mut graph, norm, convolved);
    let rectified = copy(&mut graph, relu, normed);
    let sum = operator(&graph, "pnnx_expr_4");
    graph.replace_input(sum, 1, rectified).unwrap();
    // And a leftover probe reads the output of the second convolution.
    let conv = operator(&graph, "convbn2d_1");
    let probed = graph.operator(conv).outputs()[0];
    let probe = graph.new_operator_after("F.tanh", "probe", conv).unwrap();
    let seen = graph.new_operand("probe").unwrap();
    graph.connect_input(probe, probed, None).unwrap();
    graph.connect_output(probe, seen).unwrap();
    graph.check().unwrap();
    graph
}

fn run(graph: &Graph, input: &Tensor) -> Vec<f32> {
    let mut runtime = RuntimeGraph::from_pnnx(graph.clone());
    runtime.build().unwrap();
    runtime.run_with(vec![input.clone()]).unwrap()[0].to_vec::<f32>().unwrap()
}

/// Eight batch norms and all debris disappear; what is left equals the file, and gives PyTorch's results.
#[test]
fn task6_a_real_network_becomes_small_again() {
    let mut graph = as_it_was();
    let limits = Limits::default();
    let input = Tensor::load_npy(model_file("digits/in_0.npy"), &limits).unwrap();
    let before = run(&graph, &input);
    assert_eq!(graph.operator_count(), 34, "23 operators of the file, 8 norms, 2 copies, a probe");

    let passes: [(&str, Pass); 3] =
        [("fold", fold), ("share", share), ("dead", |graph| remove_dead(graph).unwrap())];
    let mut fired = Vec::new();
    let mut step = |(name, pass): &(&'static str, Pass)| {
        let count = pass(&mut graph);
        fired.push((*name, count));
        Ok::<bool, String>(count > 0)
    };
    let rounds = run_to_fixpoint(&passes, 16, &mut step);
    assert_eq!(rounds, Ok(3), "what fired: {fired:?}");
    let hint = "at first a copy and the probe block two norms; once they are gone, these norms fold, too";
    let want = [
        ("fold", 6),
        ("share", 2),
        ("dead", 1),
        ("fold", 2),
        ("share", 0),
        ("dead", 0),
        ("fold", 0),
        ("share", 0),
        ("dead", 0),
    ];
    assert_eq!(fired, want, "{hint}");
    assert_eq!(names(&graph), names(&load("digits")), "the operators of the file are left, and nothing else");

    let after = run(&graph, &input);
    let want = Tensor::load_npy(model_file("digits/out_0.npy"), &limits).unwrap().to_vec::<f32>().unwrap();
    assert_eq!([before.len(), after.len()], [want.len(); 2], "ten pictures, ten classes");
    for (at, ((before, after), want)) in before.iter().zip(&after).zip(&want).enumerate() {
        let close = |a: f32, b: f32| (a - b).abs() <= 1e-3 * b.abs().max(1.0);
        assert!(close(*after, *want), "value {at}: got {after}, PyTorch has {want}");
        assert!(close(*before, *after), "value {at} was {before} before the passes, and is {after} now");
    }
}
