//! `ixion run` on images: in batches, and with boxes and masks.

use super::command::{Ended, command, ended, exactly, ixion, models};
use insta::assert_snapshot;
use ixion::Limits;
use ixion::tensor::{Color, Picture, Tensor};
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// A detector whose detections are encoded in an image's pixels, as rows of seven values.
const DETECTOR: &str = "7767517
3 2
pnnx.Input      in   0 1 x #x=(?,1,3,7)f32
Tensor.reshape  rows 1 1 x y shape=(-1,3,7) $input=x #x=(?,1,3,7)f32 #y=(?,3,7)f32
pnnx.Output     out  1 0 y
";
const DETECTOR_CARD: &str = "name = \"told\"
task = \"detect\"
[input]
color = \"gray\"
size = [3, 7]
fit = \"letterbox\"
filter = \"nearest\"
scale = 1.0
[output]
labels = [\"ant\", \"bee\"]
format = \"yolov5\"
";

/// Segments red, green and blue.
const SEGMENTER: &str = "7767517
3 2
pnnx.Input  in   0 1 x #x=(1,3,?,?)f32
nn.ReLU     relu 1 1 x y #x=(1,3,?,?)f32 #y=(1,3,?,?)f32
pnnx.Output out  1 0 y
";
const SEGMENTER_CARD: &str = "name = \"colours\"
task = \"segment\"
[input]
color = \"rgb\"
[output]
labels = [\"red\", \"green\", \"blue\"]
background = 0
";

struct Model {
    folder: TempDir,
}

impl Model {
    fn new(param: &str, card: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("net.param"), param).unwrap();
        std::fs::write(folder.path().join("model.toml"), card).unwrap();
        Self { folder }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn picture(&self, name: &str, height: usize, color: Color, pixels: &[u8]) -> &Self {
        let width = pixels.len() / height / color.channels();
        Picture::new(height, width, color, pixels.to_vec()).unwrap().save_png(self.path(name)).unwrap();
        self
    }

    /// Runs the command in the model's folder.
    fn run(&self, args: &[&str]) -> Ended {
        ended(command(["run", "net.param"]).args(args).current_dir(self.folder.path()).output().unwrap())
    }
}

/// Two overlapping bees, and an ant.
const SEEN: [u8; 21] = [3, 2, 4, 2, 1, 0, 1, 3, 2, 5, 2, 1, 0, 1, 6, 1, 2, 2, 1, 1, 0];

fn detector() -> Model {
    let model = Model::new(DETECTOR, DETECTOR_CARD);
    model.picture("seen.png", 3, Color::Gray, &SEEN).picture("empty.png", 3, Color::Gray, &[0; 21]);
    model
}

fn segmenter() -> Model {
    let model = Model::new(SEGMENTER, SEGMENTER_CARD);
    let rgb = |classes: &[usize]| -> Vec<u8> {
        classes
            .iter()
            .flat_map(|&class| [0, 1, 2].map(|channel| if channel == class { 200 } else { 40 }))
            .collect()
    };
    model.picture("a.png", 2, Color::Rgb, &rgb(&[0, 1, 1, 2])).picture(
        "b.png",
        1,
        Color::Rgb,
        &rgb(&[0, 0, 2]),
    );
    model
}

fn load(path: impl AsRef<Path>) -> Picture {
    Picture::load(path, &Limits::default()).unwrap()
}

#[test]
fn objects_as_a_table() {
    let model = detector();
    exactly(|| assert_snapshot!(model.run(&["-i", "seen.png", "empty.png"]).fine()));
    // A single image has no heading.
    assert!(model.run(&["-i", "seen.png"]).fine().starts_with("class    score"));
    assert_eq!(model.run(&["-i", "empty.png"]).fine(), "nothing above 25.0 %\n");
}

#[test]
fn thresholds_are_those_of_the_command_line() {
    let model = detector();
    let rows = |args: &[&str]| model.run(args).fine().lines().count();
    assert_eq!(rows(&["-i", "seen.png"]), 3);
    assert_eq!(rows(&["-i", "seen.png", "--iou", "0.9"]), 4);
    assert_eq!(model.run(&["-i", "seen.png", "--confidence", "1"]).fine(), "nothing above 100.0 %\n");
}

#[test]
fn objects_for_programs() {
    let json = detector().run(&["-i", "seen.png", "--json"]).json();
    assert_eq!(
        (json["task"].as_str(), &json["classes"], &json["masks"]),
        (Some("detect"), &().into(), &().into())
    );
    let wanted = serde_json::json!([[
        { "class": 1, "label": "bee", "score": 1.0, "box": [1.0, 1.0, 5.0, 3.0] },
        { "class": 0, "label": "ant", "score": 1.0, "box": [5.0, 0.0, 7.0, 2.0] },
    ]]);
    assert_eq!(json["detections"], wanted);
    assert_eq!(json["pictures"], serde_json::json!([{ "file": "seen.png", "height": 3, "width": 7 }]));
}

#[test]
fn boxes_are_in_pixels_of_the_given_picture() {
    let model = detector();
    // Each pixel is repeated four times in both directions; nearest-neighbour scaling restores the small image.
    let row = |row: &[u8]| row.iter().flat_map(|&value| [value; 4]).collect::<Vec<_>>();
    let large: Vec<u8> = SEEN.chunks(7).flat_map(|values| row(values).repeat(4)).collect();
    model.picture("large.png", 12, Color::Gray, &large);
    let json = model.run(&["-i", "large.png", "--json"]).json();
    assert_eq!(json["detections"][0][0]["box"], serde_json::json!([4.0, 4.0, 20.0, 12.0]));
}

#[test]
fn boxes_are_drawn() {
    let model = detector();
    model.run(&["-i", "seen.png", "--picture", "drawn.png"]).fine();
    let drawn = load(model.path("drawn.png"));
    // Small images are enlarged.
    assert_eq!((drawn.height(), drawn.width(), drawn.color()), (222, 518, Color::Rgb));
    model.run(&["-i", "seen.png", "empty.png", "--picture", "out"]).fine();
    assert_eq!(load(model.path("out/seen.png")), drawn);
    assert!(model.path("out/empty.png").is_file());
}

#[test]
fn masks_as_a_table_and_as_pictures() {
    let model = segmenter();
    exactly(|| {
        assert_snapshot!(model.run(&["-i", "a.png", "b.png", "--mask", "masks", "--picture", "drawn"]).fine())
    });
    let mask = load(model.path("masks/a.png"));
    let [black, green, blue] = [[0, 0, 0], ixion::vision::PALETTE[1], ixion::vision::PALETTE[2]];
    assert_eq!(mask.pixels(), [black, green, green, blue].as_flattened());
    assert_eq!(load(model.path("drawn/b.png")).width(), 513);
    let json = model.run(&["-i", "b.png", "--json"]).json();
    let share = |class: usize, label: &str, pixels: usize| serde_json::json!({ "class": class, "label": label, "pixels": pixels, "share": pixels as f64 / 3.0 });
    assert_eq!(json["masks"], serde_json::json!([[share(0, "red", 2), share(2, "blue", 1)]]));
    // Images of different sizes have no common array, but everything else.
    let both = model.run(&["-i", "a.png", "b.png", "--json"]).json();
    assert!(both["outputs"].is_null() && both["masks"].as_array().unwrap().len() == 2);
}

#[test]
fn arrays_are_read_by_their_task_too() {
    let model = detector();
    let pixels: Vec<f32> = SEEN.iter().map(|&value| value.into()).collect();
    Tensor::from_vec(pixels, &[1, 1, 3, 7]).unwrap().save_npy(model.path("x.npy")).unwrap();
    assert_eq!(model.run(&["-i", "x.npy"]).fine(), model.run(&["-i", "seen.png"]).fine());
    let message = model.run(&["-i", "x.npy", "--picture", "y.png"]).error(2, model.folder.path());
    assert!(message.starts_with("error: --picture y.png: the input is not an image"), "{message}");
}

#[test]
fn many_pictures_are_the_same_one_by_one_and_in_batches() {
    let samples = "digits/samples";
    let digits = |batch: &str| {
        ixion(["run", "digits/digits.pnnx.param", "-i", samples, "--batch", batch, "--top", "1"]).fine()
    };
    let (single, several) = (digits("1"), digits("4"));
    assert_eq!(single, several);
    let lines: Vec<&str> = single.lines().collect();
    assert_eq!((lines.len(), lines[14]), (20, "digits/samples/7.png"));
    assert!(lines[15].starts_with("7  "), "{}", lines[15]);

    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("y.npy");
    let args =
        ["run", "digits/digits.pnnx.param", "-i", samples, "--batch", "3", "-o", file.to_str().unwrap()];
    ixion(args).fine();
    let (got, want) = [file, models().join("digits/out_0.npy")]
        .map(|path| Tensor::load_npy(path, &Limits::default()).unwrap())
        .into();
    assert!(got.allclose(&want, 1e-3, 1e-4, true).unwrap().holds());
}

#[test]
fn a_batch_that_the_file_fixes_is_filled_up() {
    let fixed = DETECTOR.replace("(?,", "(2,").replace("shape=(-1,3,7)", "shape=(2,3,7)");
    let model = Model::new(&fixed, DETECTOR_CARD);
    for name in ["a.png", "b.png", "c.png"] {
        model.picture(name, 3, Color::Gray, &SEEN);
    }
    let json = model.run(&["-i", ".", "--json"]).json();
    assert_eq!(
        (json["detections"].as_array().unwrap().len(), &json["outputs"][0]["shape"]),
        (3, &serde_json::json!([3, 3, 7]))
    );
    model.run(&["-i", "a.png", "--batch", "1"]).error(1, model.folder.path());
}

#[test]
fn one_broken_picture_does_not_stop_the_others() {
    let model = detector();
    std::fs::write(model.path("broken.png"), "no picture").unwrap();
    let ended = model.run(&["-i", ".", "--picture", "out"]);
    assert_eq!(ended.code, 1, "{}", ended.stderr);
    assert_eq!(ended.stdout.lines().filter(|line| line.ends_with(".png")).count(), 2);
    assert!(
        ended.stderr.starts_with("error: ./broken.png: not a valid PNG")
            && ended.stderr.ends_with("1 of 3 images could not be read\n"),
        "{}",
        ended.stderr
    );
    assert!(model.path("out/seen.png").is_file() && !model.path("out/broken.png").exists());

    let json = model.run(&["-i", "broken.png", "seen.png", "--json"]);
    assert_eq!(json.code, 1);
    let json = json.json();
    assert_eq!(
        (json["failed"][0]["file"].as_str(), json["detections"].as_array().unwrap().len()),
        (Some("broken.png"), 1)
    );
    // No image could be read.
    assert_eq!(model.run(&["-i", "broken.png"]).code, 2);
    assert_eq!(model.run(&["-i", "broken.png", "broken.png"]).code, 2);
}

#[test]
fn options_and_outputs_that_do_not_fit() {
    let model = detector();
    let mut messages = String::new();
    let mut refused = |what: &str, model: &Model, code: i32, args: &[&str]| {
        messages.push_str(&format!("# {what}\n{}\n\n", model.run(args).error(code, model.folder.path())));
    };
    refused("a mask of boxes", &model, 2, &["-i", "seen.png", "--mask", "x.png"]);
    refused("one file for two", &model, 2, &["-i", "seen.png", "empty.png", "--picture", "x.png"]);
    refused("over the input", &model, 2, &["-i", "seen.png", "--picture", "."]);
    refused("nowhere", &model, 1, &["-i", "seen.png", "--picture", "no/x.png"]);
    let segmenter = segmenter();
    refused("both in one folder", &segmenter, 2, &["-i", "a.png", "--mask", "out", "--picture", "out"]);
    refused("boxes of a mask", &segmenter, 2, &["-i", "a.png", "--confidence", "0.5"]);
    for (what, from, to) in [
        ("more labels than classes", "\"ant\", \"bee\"", "\"ant\", \"bee\", \"cow\""),
        ("columns", "yolov5", "yolov8"),
        ("heads", "\"yolov5\"", "\"yolov5-heads\"\nstrides = [1]\nanchors = [[1, 2]]"),
        ("an unknown format", "yolov5", "yolov3"),
        ("no format", "format = \"yolov5\"", ""),
    ] {
        let model = Model::new(DETECTOR, &DETECTOR_CARD.replace(from, to));
        model.picture("seen.png", 3, Color::Gray, &SEEN);
        let code = if what.ends_with("format") { 2 } else { 1 };
        refused(what, &model, code, &["-i", "seen.png"]);
    }
    let classify = Model::new(SEGMENTER, "name = \"x\"\ntask = \"classify\"\n");
    refused("a picture of classes", &classify, 2, &["-i", "a.png", "--picture", "x.png"]);
    exactly(|| assert_snapshot!(messages));
}

#[test]
fn help_is_short() {
    let help = ixion(["run", "-h"]).fine();
    assert!(help.lines().count() <= 54, "{}", help.lines().count());
}
