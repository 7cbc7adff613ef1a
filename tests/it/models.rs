//! The models of the repository: their outputs, and the scenes on which two of them are evaluated.

use crate::scenes;
use ixion::Limits;
use ixion::graph::RuntimeGraph;
use ixion::tensor::{Color, Picture, Tensor};
use ixion::vision::{AveragePrecision, Confusion, ModelCard, Rect, Truth};
use serde_json::Value;
use std::path::{Path, PathBuf};

const SIZE: usize = 128;
/// A seed that was not used for training and is not used in the README or in CI.
const SEED: u64 = 4711;

fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("model_file").join(name)
}

fn model(name: &str) -> (ModelCard, RuntimeGraph) {
    let card = ModelCard::load(folder(name).join("model.toml")).unwrap();
    let mut graph = RuntimeGraph::new(folder(name).join(format!("{name}.pnnx.param")));
    graph.build().unwrap();
    (card, graph)
}

#[test]
fn scenes_are_those_of_the_script() {
    let text = std::fs::read_to_string(folder("scenes.json")).unwrap();
    let wanted: Vec<Value> = serde_json::from_str(&text).unwrap();
    assert!(wanted.len() >= 4);
    for case in wanted {
        let number = |key: &str| case[key].as_u64().unwrap();
        let (width, height) = (number("width") as usize, number("height") as usize);
        let scene = scenes::render(number("seed"), number("index"), width, height);
        let boxes: Vec<[i64; 5]> = serde_json::from_value(case["boxes"].clone()).unwrap();
        assert_eq!(scene.boxes, boxes, "{case}");
        assert_eq!(u64::from(crc32fast::hash(&scene.mask)), number("mask"), "{case}");
        assert_eq!(u64::from(crc32fast::hash(&scene.pixels)), number("pixels"), "{case}");
    }
}

#[test]
fn models_give_what_pytorch_gave() {
    for name in ["linear", "conv3", "two_inputs", "digits", "shapes_detector", "shapes_unet"] {
        let (_, mut graph) = model(name);
        let load = |file: String| Tensor::load_npy(folder(name).join(file), &Limits::default()).unwrap();
        let inputs = (0..graph.inputs().len()).map(|at| load(format!("in_{at}.npy"))).collect();
        let outputs = graph.run_with(inputs).unwrap();
        for (at, output) in outputs.iter().enumerate() {
            let (found, wanted) = (output.to_vec::<f32>().unwrap(), load(format!("out_{at}.npy")));
            assert_eq!(output.shape(), wanted.shape(), "{name}");
            for (found, wanted) in found.iter().zip(wanted.to_vec::<f32>().unwrap()) {
                assert!(
                    (found - wanted).abs() <= 1e-3 + 1e-4 * wanted.abs(),
                    "{name}: {found}, not {wanted}"
                );
            }
        }
    }
}

#[test]
fn the_detector_finds_shapes_in_scenes_it_never_saw() {
    let (card, mut graph) = model("shapes_detector");
    let (mut found, mut known) = (Vec::new(), Vec::new());
    for index in 0..30 {
        let scene = scenes::render(SEED, index, SIZE, SIZE);
        let picture = Picture::new(SIZE, SIZE, Color::Rgb, scene.pixels).unwrap();
        let (input, frame) = card.prepare(&picture, &Limits::default()).unwrap();
        found.extend(card.detect(&graph.run_with(vec![input]).unwrap(), &[frame]).unwrap());
        let truth = |&[class, left, top, right, bottom]: &[i64; 5]| Truth {
            class: class as usize,
            rect: Rect::new(left as f32, top as f32, right as f32, bottom as f32),
        };
        known.push(scene.boxes.iter().map(truth).collect::<Vec<_>>());
    }
    let precision = AveragePrecision::at(0.5, &found, &known).unwrap().mean().unwrap();
    assert!(precision > 0.85, "mAP@0.5 is {precision}");
    // Truth shifted by the width of the shapes must not match.
    let moved = |truth: &Truth| {
        let (by, rect) = (truth.rect.width(), truth.rect);
        Truth { rect: Rect::new(rect.left + by, rect.top, rect.right + by, rect.bottom), ..*truth }
    };
    let elsewhere: Vec<Vec<Truth>> = known.iter().map(|truths| truths.iter().map(moved).collect()).collect();
    let precision = AveragePrecision::at(0.5, &found, &elsewhere).unwrap().mean().unwrap();
    assert!(precision < 0.1, "mAP@0.5 next to the shapes is {precision}");
}

#[test]
fn the_unet_colours_shapes_in_scenes_it_never_saw() {
    let (card, mut graph) = model("shapes_unet");
    let mut confusion = Confusion::new(card.output.labels.len());
    for index in 0..15 {
        let scene = scenes::render(SEED, index, SIZE, SIZE);
        let picture = Picture::new(SIZE, SIZE, Color::Rgb, scene.pixels).unwrap();
        let (input, frame) = card.prepare(&picture, &Limits::default()).unwrap();
        let maps = card.segment(&graph.run_with(vec![input]).unwrap(), &[frame]).unwrap();
        confusion.add(&scene.mask, maps[0].classes()).unwrap();
    }
    let mean = confusion.mean_iou().unwrap();
    assert!(mean > 0.85, "mean IoU is {mean}");
}
