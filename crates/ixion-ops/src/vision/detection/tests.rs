//! Heads against values that PyTorch computes from [`waves`].

use super::table::Table;
use crate::op::TensorMeta;
use crate::support::testing::{Operator, assert_close, operator, tensor, waves};
use ixion_tensor::{DType, Dim, Tensor};

const STRIDES: [f64; 2] = [8.0, 16.0];
/// Width and height of two anchors of each of two maps.
const ANCHORS: [[f64; 4]; 2] = [[10.0, 13.0, 16.0, 30.0], [30.0, 61.0, 62.0, 45.0]];
/// Rows and columns of the maps.
const LENS: [[usize; 2]; 2] = [[2, 3], [1, 1]];

/// The weights of a head for maps of 2 and 1 channels, with 2 anchors of 5 numbers each.
fn weights() -> [(&'static str, Tensor); 4] {
    [
        ("m.0.weight", waves(&[10, 2, 1, 1])),
        ("m.0.bias", waves(&[10])),
        ("m.1.weight", waves(&[10, 1, 1, 1])),
        ("m.1.bias", waves(&[10])),
    ]
}

/// A head with these attributes.
fn with<'a>(attributes: impl IntoIterator<Item = (&'a str, Tensor)>) -> Operator<'a> {
    let none = operator("models.yolo.Detect", &[]);
    attributes.into_iter().fold(none, |head, (key, tensor)| head.with_attr(key, tensor))
}

/// A head with the weights and these constants and buffers.
fn head<'a>(constants: &[(&'a str, Tensor)]) -> Operator<'a> {
    let weights: [(&'a str, Tensor); 4] = weights();
    with(weights.into_iter().chain(constants.iter().cloned()))
}

fn inputs(lens: [[usize; 2]; 2]) -> [Tensor; 2] {
    let quarter = |shape: &[usize]| {
        let values = waves(shape).to_vec::<f64>().unwrap();
        tensor(shape, &values.into_iter().map(|x| x / 4.0).collect::<Vec<f64>>())
    };
    let [[rows, columns], second] = lens;
    [quarter(&[2, 2, rows, columns]), quarter(&[2, 1, second[0], second[1]])]
}

fn strides() -> Tensor {
    tensor(&[2], &STRIDES)
}

/// The positions of boxes in a map, from `start` on, for one or both anchors.
fn grid(map: usize, start: f64, anchors: usize) -> Tensor {
    let [rows, columns] = LENS[map];
    let places = Table::places([anchors, rows, columns]);
    let values: Vec<f64> = places.flat_map(|[_, y, x]| [start + x as f64, start + y as f64]).collect();
    tensor(&[1, anchors, rows, columns, 2], &values)
}

/// The anchors of a map, repeated for all positions.
fn sizes(map: usize) -> Tensor {
    let [rows, columns] = LENS[map];
    let places = Table::places([2, rows, columns]);
    let values: Vec<f64> =
        places.flat_map(|[a, ..]| [ANCHORS[map][2 * a], ANCHORS[map][2 * a + 1]]).collect();
    tensor(&[1, 2, rows, columns, 2], &values)
}

/// The constants of a head in the order in which they are used.
fn constants() -> [Tensor; 5] {
    [grid(0, -0.5, 2), strides(), sizes(0), grid(1, -0.5, 2), sizes(1)]
}

const NUMBERED: [&str; 5] = ["pnnx_00", "pnnx_01", "pnnx_02", "pnnx_03", "pnnx_04"];
const REVERSED: [&str; 5] = ["pnnx_4", "pnnx_3", "pnnx_2", "pnnx_1", "pnnx_0"];

fn named<'a>(keys: [&'a str; 5], constants: &[Tensor; 5]) -> Operator<'a> {
    let constants: Vec<(&str, Tensor)> = keys.into_iter().zip(constants.iter().cloned()).collect();
    head(&constants)
}

fn run(head: &Operator<'_>) -> Tensor {
    let [first, second] = inputs(LENS);
    head.run_one(&[&first, &second]).unwrap()
}

#[test]
fn boxes_are_as_in_pytorch() {
    let boxes = run(&named(NUMBERED, &constants()));
    assert_eq!(boxes.shape().dims(), [2, 14, 5]);
    let values = boxes.cast(DType::F32).unwrap().to_vec::<f32>().unwrap();
    let want = [
        14.24538, 13.48267, 16.04834, 0.09779, 0.23092, -3.03861, 7.9854, 48.50813, 79.75248, 0.45714,
        5.96037, 6.07639, 48.11206, 18.12288, 0.81048,
    ];
    assert_close(&tensor(&[15], &values[25..40]), &[15], &want);
    let want = [
        16.15721, 19.30615, 51.57484, 104.77132, 0.78793, -5.74209, 6.13354, 30.0, 4.3138, 0.38491, -0.43148,
        17.70156, 186.43425, 56.11123, 0.86704,
    ];
    assert_close(&tensor(&[15], &values[125..]), &[15], &want);
}

/// Other versions of PNNX, and other versions of the module.
#[test]
fn constants_of_all_versions() {
    let want = run(&named(NUMBERED, &constants()));
    assert_eq!(run(&named(REVERSED, &constants())), want);
    let [grid_0, strides_of_all, sizes_0, grid_1, sizes_1] = constants();
    let swapped = [sizes_0, strides_of_all, grid_0, grid_1, sizes_1];
    assert_eq!(run(&named(NUMBERED, &swapped)), want, "grids are recognised");
    let pixels = ("anchor_grid", tensor(&[2, 1, 2, 1, 1, 2], ANCHORS.as_flattened()));
    let from_zero = [("pnnx_00", grid(0, 0.0, 1)), ("pnnx_01", strides()), ("pnnx_02", grid(1, 0.0, 1))];
    assert_eq!(run(&head(&[&from_zero[..], &[pixels.clone()]].concat())), want);
    let reversed = [("pnnx_0", grid(1, 0.0, 1)), ("pnnx_1", strides()), ("pnnx_2", grid(0, 0.0, 1))];
    assert_eq!(run(&head(&[&reversed[..], &[pixels.clone()]].concat())), want);
    assert_eq!(run(&head(&[("pnnx_0", strides()), pixels])), want);
    // With random weights, nothing looks like a grid: the order alone counts.
    let random = constants().map(|constant| waves(constant.shape()));
    let boxes = run(&named(NUMBERED, &random));
    assert_eq!(run(&named(REVERSED, &random)), boxes);
    assert_ne!(boxes, want);
}

#[test]
fn computed_grids_have_any_size() {
    let in_positions: Vec<f64> =
        ANCHORS.iter().zip(STRIDES).flat_map(|(sizes, stride)| sizes.map(|size| size / stride)).collect();
    let anchors = tensor(&[2, 2, 2], &in_positions);
    let computed = head(&[("anchors", anchors), ("pnnx_00", strides())]);
    assert_close(&run(&computed), &[2, 14, 5], &run(&named(NUMBERED, &constants())).to_vec::<f64>().unwrap());
    let [first, second] = inputs([[3, 1], [2, 2]]);
    assert_eq!(computed.run_one(&[&first, &second]).unwrap().shape().dims(), [2, 14, 5]);
    let none = Tensor::zeros(DType::F64, &[0, 2, 3, 1]).unwrap();
    let boxes = computed.run_one(&[&none, &Tensor::zeros(DType::F64, &[0, 1, 2, 2]).unwrap()]).unwrap();
    assert_eq!(boxes.shape().dims(), [0, 14, 5]);
}

#[test]
fn half_precision() {
    let half = |tensor: &Tensor| tensor.cast(DType::F16).unwrap();
    let attributes = weights().into_iter().chain(NUMBERED.into_iter().zip(constants()));
    let halves = with(attributes.map(|(key, tensor)| (key, half(&tensor))));
    let boxes = halves.run_one(&inputs(LENS).each_ref().map(half).each_ref()).unwrap();
    assert_eq!(boxes.dtype(), DType::F16);
    let want = run(&named(NUMBERED, &constants())).to_vec::<f64>().unwrap();
    assert_close(&boxes, &[2, 14, 5], &want);
}

#[test]
fn symbols_and_wrong_maps() {
    let fixed = named(NUMBERED, &constants());
    let meta = |dims: [Dim; 4]| TensorMeta::new(DType::F64, dims);
    let map = |channels: usize, rows: &str, columns: &str| {
        let dim = |text: &str| text.parse::<i64>().map_or_else(|_| Dim::symbol(text), Dim::Fixed);
        meta([Dim::symbol("n"), Dim::from(channels), dim(rows), dim(columns)])
    };
    let boxes = |inputs: &[TensorMeta]| fixed.infer(inputs).map(|outputs| outputs[0].to_string());
    assert_eq!(boxes(&[map(2, "h", "w"), map(1, "1", "1")]).unwrap(), "n×14×5 f64");
    let computed =
        head(&[("pnnx_00", strides()), ("anchor_grid", tensor(&[2, 1, 2, 1, 1, 2], ANCHORS.as_flattened()))]);
    let outputs = computed.infer(&[map(2, "h", "2"), map(1, "1", "1")]).unwrap();
    assert_eq!(outputs[0].to_string(), "n×(h * 4 + 2)×5 f64");
    let wrong = |inputs: &[TensorMeta]| boxes(inputs).unwrap_err().to_string();
    assert_eq!(
        wrong(&[map(2, "4", "3"), map(1, "1", "1")]),
        "feature map 0: expected N×2×2×3, the size of its grid, got n×2×4×3 f64"
    );
    assert!(wrong(&[map(2, "2", "3"), map(3, "1", "1")]).starts_with("feature map 1: expected N×1×1×1"));
    let single = map(2, "2", "3").with_dtype(DType::F32);
    assert!(wrong(&[single, map(1, "1", "1")]).contains("feature map 0: expected f64, got f32"));
    let other = meta([Dim::Fixed(3), Dim::Fixed(1), Dim::Fixed(1), Dim::Fixed(1)]);
    let two = meta([Dim::Fixed(2), Dim::Fixed(2), Dim::Fixed(2), Dim::Fixed(3)]);
    assert!(wrong(&[two, other]).contains("as many images as in feature map 0"));
    assert!(fixed.create(1).is_err() && fixed.create(3).is_err());
    fixed.survives(2);
    computed.survives(2);
}

#[test]
fn missing_and_wrong_attributes() {
    let error = |head: &Operator<'_>| head.create(2).unwrap_err().to_string();
    let without = |key: &str| {
        let all = weights().into_iter().chain(NUMBERED.into_iter().zip(constants()));
        error(&with(all.filter(|(name, _)| *name != key)))
    };
    for key in ["m.0.weight", "m.1.weight", "m.1.bias"] {
        assert!(without(key).starts_with(&format!("missing weight `{key}`")), "{}", without(key));
    }
    assert!(without("pnnx_01").contains("expected one with the strides of 2 maps"), "{}", without("pnnx_01"));
    for key in ["pnnx_00", "pnnx_02", "pnnx_03", "pnnx_04"] {
        assert!(without(key).contains("a grid for each of 2 maps"), "{key}: {}", without(key));
    }
    assert!(error(&head(&[])).ends_with("got none"), "{}", error(&head(&[])));
    assert!(error(&head(&[("pnnx_00", strides())])).contains("`anchors` or `anchor_grid`"));
    let wrong = |position: usize, constant: Tensor| {
        let mut constants = constants();
        constants[position] = constant;
        error(&named(NUMBERED, &constants))
    };
    assert!(wrong(0, waves(&[1, 2, 2, 2, 2])).contains("expected 1×2×2×3×2, or with lengths of 1"));
    assert!(wrong(2, waves(&[1, 3, 2, 3, 2])).contains("output channels for 3 anchors"));
    assert!(wrong(3, waves(&[2])).contains("the grid or the anchors of feature map 1"));
    assert!(wrong(4, waves(&[1, 2, 1, 1, 3])).contains("of feature map 1"));
    assert!(wrong(4, waves(&[1, 2, 1, 0, 2])).contains("of feature map 1"));
    let complex = Tensor::zeros(DType::C64, &[1, 2, 1, 1, 2]).unwrap();
    assert!(wrong(4, complex).contains("got c64"));
    let weight = |key: &str, weight: Tensor| error(&named(NUMBERED, &constants()).with_attr(key, weight));
    assert!(weight("m.1.weight", waves(&[10, 1, 3, 3])).contains("weight `m.1.weight`: expected O×C×1×1"));
    assert!(weight("m.0.weight", waves(&[7, 2, 1, 1])).contains("output channels for 2 anchors"));
    assert!(weight("m.1.weight", waves(&[12, 1, 1, 1])).contains("m.1"));
    assert!(weight("m.1.bias", waves(&[9])).contains("weight `m.1.bias`: expected 10 elements"));
    let anchors = ("anchor_grid", waves(&[2, 2, 2]));
    assert!(error(&head(&[anchors, ("pnnx_00", strides())])).contains("expected 2×1×A×1×1×2"));
    let anchors = ("anchors", waves(&[2, 0, 2]));
    assert!(error(&head(&[anchors, ("pnnx_00", strides())])).contains("expected 2×A×2"));
    let outputs = named(NUMBERED, &constants()).with_outputs(3);
    assert!(error(&outputs).contains("wrong number of outputs: expected 1, got 3"));
}

/// Public files have these attributes: a YOLOv5n for four pictures of 320×320.
#[test]
fn attributes_of_public_files() {
    let zeros = |shape: &[usize]| Tensor::zeros(DType::F32, shape).unwrap();
    let attributes = [
        ("m.0.weight", zeros(&[255, 64, 1, 1])),
        ("m.0.bias", zeros(&[255])),
        ("m.1.weight", zeros(&[255, 128, 1, 1])),
        ("m.1.bias", zeros(&[255])),
        ("m.2.weight", zeros(&[255, 256, 1, 1])),
        ("m.2.bias", zeros(&[255])),
        ("pnnx_0", zeros(&[1, 3, 10, 10, 2])),
        ("pnnx_1", zeros(&[1, 3, 10, 10, 2])),
        ("pnnx_2", zeros(&[1, 3, 20, 20, 2])),
        ("pnnx_3", zeros(&[1, 3, 20, 20, 2])),
        ("pnnx_4", zeros(&[1, 3, 40, 40, 2])),
        ("pnnx_5", zeros(&[3])),
        ("pnnx_6", zeros(&[1, 3, 40, 40, 2])),
    ];
    let maps = [[4, 64, 40, 40], [4, 128, 20, 20], [4, 256, 10, 10]];
    let maps = maps.map(|dims| TensorMeta::new(DType::F32, dims));
    assert_eq!(with(attributes).infer(&maps).unwrap()[0].to_string(), "4×6300×85 f32");
}
