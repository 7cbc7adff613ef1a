//! The network that reads digits is calibrated twice: by your functions, and by the engine.

use super::super::subject::{
    Histogram, Loss, Range, dequantize, int8_linear, quantize, threshold, too_lossy,
};
use ixion::Limits;
use ixion::engine::{Builder, Calibration, Method, Scales};
use ixion::graph::RuntimeGraph;
use ixion::passes::Passes;
use ixion::tensor::Tensor;
use ndarray::{Array2, ArrayView2};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

fn digits(name: &str) -> PathBuf {
    let folders = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().map(|folder| folder.join("model_file"));
    folders.into_iter().find(|folder| folder.is_dir()).unwrap().join("digits").join(name)
}

/// 128 images of the training data.
fn pictures() -> Tensor {
    Tensor::load_npy(digits("calibration/0.npy"), &Limits::default()).unwrap()
}

/// The engine's calibration of the network, without passes.
fn calibrated() -> Calibration {
    let builder = Builder::new(digits("digits.pnnx.param")).with_passes(Passes::empty());
    let mut calibration = Calibration::new(builder).unwrap();
    calibration.see_range(vec![pictures()]).unwrap();
    calibration.see_magnitudes(vec![pictures()]).unwrap();
    calibration
}

/// The values of all operands in one run, by name.
fn operands() -> BTreeMap<String, Vec<f32>> {
    let mut graph = RuntimeGraph::new(digits("digits.pnnx.param"));
    graph.build().unwrap();
    graph.set_input("pnnx_input_0", pictures()).unwrap();
    let mut found = BTreeMap::new();
    let mut observe = |graph: &RuntimeGraph, operator: &ixion::graph::RuntimeOperator| {
        for &operand in operator.inputs().iter().chain(operator.outputs()) {
            let operand = graph.operand(operand);
            if let Some(tensor) = operand.data() {
                found.insert(operand.name().to_owned(), tensor.to_vec::<f32>().unwrap());
            }
        }
    };
    graph.run_observed(&mut observe).unwrap();
    found
}

#[test]
fn task4_ranges_and_histograms_of_the_digits() {
    let (calibration, operands) = (calibrated(), operands());
    let known = calibration.operands(Method::MinMax);
    assert_eq!(known.len(), operands.len(), "every operand was seen by both");
    for known in known {
        let values = &operands[&known.name];
        let range = Range::EMPTY.with(values);
        assert_eq!(
            (range.least, range.largest),
            (known.range.least, known.range.largest),
            "operand {}",
            known.name
        );
        assert_eq!(range.magnitude(), known.threshold, "operand {}", known.name);
        let mut histogram = Histogram::new(range.magnitude().unwrap());
        histogram.add(values);
        let counts = calibration.histogram(&known.name).unwrap().counts();
        assert_eq!(histogram.counts(), counts, "operand {}", known.name);
    }
}

#[test]
fn task5_thresholds_of_the_digits() {
    let (calibration, operands) = (calibrated(), operands());
    let mut cut = 0;
    for known in calibration.operands(Method::Entropy) {
        let values = &operands[&known.name];
        let mut histogram = Histogram::new(Range::EMPTY.with(values).magnitude().unwrap());
        histogram.add(values);
        assert_eq!(threshold(&histogram), known.threshold, "operand {}", known.name);
        cut += usize::from(known.clipped > 0.0);
    }
    assert!(cut > 5, "most operands are clipped, here only {cut}");
}

/// The loss of the last layer in int8, with your scales, weights and sums, compared with the engine's measurement.
#[test]
fn task6_the_digits_lose_what_the_engine_measures() {
    let (mut calibration, operands) = (calibrated(), operands());
    let scale_of = |name: &str| {
        let mut histogram = Histogram::new(Range::EMPTY.with(&operands[name]).magnitude().unwrap());
        histogram.add(&operands[name]);
        threshold(&histogram).unwrap() / 127.0
    };
    let scales: Scales = operands.keys().map(|name| (name.clone(), scale_of(name))).collect();
    let known = calibration.scales(Method::Entropy);
    assert!(scales.iter().eq(known.iter()), "your scales are {scales:?}, the engine's {known:?}");
    calibration.see_loss(vec![pictures()], &scales).unwrap();

    let graph = RuntimeGraph::new(digits("digits.pnnx.param"));
    let found = head(graph, &operands, &scales);
    let losses = calibration.losses();
    let known = losses.iter().find(|loss| loss.operator == "head").unwrap();
    let hint = "Is the bias an integer number of steps, and is the output quantised as well?";
    assert!(
        (found.decibels() - known.decibels()).abs() < 0.01,
        "got {} dB, expected {}. {hint}",
        found.decibels(),
        known.decibels()
    );

    // `too_lossy` must select the same operators as the engine.
    let yours: Vec<Loss> = losses
        .iter()
        .map(|loss| Loss {
            operator: loss.operator.clone(),
            op_type: loss.op_type.clone(),
            signal: loss.signal,
            noise: loss.noise,
        })
        .collect();
    for decibels in [20.0, 35.0, 40.0] {
        let kept = calibration.keep_below(Scales::default(), decibels);
        let mut names = too_lossy(&yours, decibels);
        names.sort();
        assert!(kept.kept().eq(names.iter().map(String::as_str)), "below {decibels} dB: {names:?}");
    }
}

/// The last layer reads operand 20 and writes operand 21.
fn head(mut graph: RuntimeGraph, operands: &BTreeMap<String, Vec<f32>>, scales: &Scales) -> Loss {
    graph.build().unwrap();
    let operator = graph.operators().iter().find(|operator| operator.name() == "head").unwrap();
    let weight = |key: &str| operator.attrs()[key].load().unwrap().to_vec::<f32>().unwrap();
    let weights = Array2::from_shape_vec((10, 48), weight("weight")).unwrap();
    let input = ArrayView2::from_shape((128, 48), &operands["20"]).unwrap();
    let real = int8_linear(input, weights.view(), &weight("bias"), scales.get("20").unwrap());
    let scale = scales.get("21").unwrap();
    let found: Vec<f32> = real.iter().map(|&x| dequantize(quantize(x, scale), scale)).collect();
    let mut loss = Loss::default();
    loss.add(&operands["21"], &found);
    loss
}
