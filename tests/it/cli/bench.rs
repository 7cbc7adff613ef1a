//! `ixion bench` and `ixion profile`.

use super::command::{command, ended, ixion, models};
use std::fs;

#[test]
fn a_model_is_measured() {
    let model = "digits/digits.pnnx.param";
    let printed = ixion(["bench", model, "--runs", "3", "--batch", "4"]).fine();
    let lines: Vec<&str> = printed.lines().collect();
    assert!(lines[0].starts_with("digits/digits.pnnx.param: planned, 1 thread, "), "{printed}");
    assert!(lines[0].ends_with(" 4×1×8×8 f32"), "{printed}");
    for (line, (start, part)) in lines[1..].iter().zip([
        ("ready", "first run "),
        ("time", "median of 3 runs; p90 "),
        ("speed", " GFLOP/s ("),
        ("memory", "arena "),
    ]) {
        assert!(line.starts_with(start) && line.contains(part), "{printed}");
    }
}

#[test]
fn measurements_as_json() {
    let model = "digits/digits.pnnx.param";
    let planned = ixion(["bench", model, "--runs", "5", "--json"]).json();
    for key in
        ["median_ms", "p90_ms", "p99_ms", "images_per_second", "gflops_per_second", "macs", "weight_bytes"]
    {
        assert!(planned[key].as_f64().is_some_and(|number| number > 0.0), "{key}: {planned}");
    }
    assert_eq!((&planned["runs"], &planned["mode"]), (&5.into(), &"planned".into()));
    assert!(planned["median_ms"].as_f64() <= planned["p99_ms"].as_f64());
    let interpreted = ixion(["bench", model, "--runs", "1", "--interpret", "--json"]).json();
    assert_eq!(interpreted["mode"], "interpreted");
    let without = ixion(["bench", model, "--runs", "1", "--without", "all", "--json"]).json();
    assert_eq!(without["macs"], interpreted["macs"]);
    let unknown = ixion(["bench", model, "--without", "no_such_pass"]);
    assert!(unknown.code == 2 && unknown.stderr.contains("no_such_pass"), "{}", unknown.stderr);
}

#[test]
fn options_without_effect_are_rejected() {
    let model = "digits/digits.pnnx.param";
    for (options, words) in [
        (&["--interpret", "--threads", "2"][..], "cannot be used with"),
        (&["--interpret=optimised", "--threads", "2"], "cannot be used with"),
        (&["--interpret", "--without", "all"], "--without has no effect"),
        (&["--batch", "4000000000"], "`pnnx_input_0` of --batch 4000000000: 1024000000000 exceeds the limit"),
    ] {
        let ended = ended(command(["bench", model, "--runs", "1"]).args(options).output().unwrap());
        assert!(ended.code == 2 && ended.stderr.contains(words), "{options:?}: {}", ended.stderr);
    }
    ixion(["bench", model, "--runs", "1", "--interpret=optimised", "--without", "all"]).fine();
}

#[test]
fn inputs_and_weights_may_be_random() {
    let folder = tempfile::tempdir().unwrap();
    let model = folder.path().join("x.pnnx.param");
    fs::copy(models().join("linear/linear.pnnx.param"), &model).unwrap();
    let model = model.to_str().unwrap();
    let missing = ixion(["bench", model, "--runs", "1"]);
    assert!(missing.code == 2 && missing.stderr.contains("--random-weights"), "{}", missing.stderr);
    let json = ixion(["bench", model, "--runs", "1", "--random-weights", "7", "--json"]).json();
    assert_eq!(json["inputs"][0]["shape"], serde_json::json!([1, 32]));
}

#[test]
fn a_profile_has_operators_and_types() {
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("trace.json");
    let trace_path = trace.to_str().unwrap();
    let model = "digits/digits.pnnx.param";
    let printed = ixion(["profile", model, "--runs", "2", "--trace", trace_path]).fine();
    for part in ["operator", "GFLOP/s", "GB/s", "nn.Conv2d", "total: ", "medians of 2 runs", "trace: "] {
        assert!(printed.contains(part), "{part}: {printed}");
    }
    check_timeline(&fs::read_to_string(&trace).unwrap());
    let json = ixion(["profile", model, "--runs", "1", "--json"]).json();
    let sum = |list: &str| -> f64 {
        json[list].as_array().unwrap().iter().map(|row| row["share"].as_f64().unwrap()).sum()
    };
    assert!((sum("operators") - 1.0).abs() < 1e-9 && (sum("types") - 1.0).abs() < 1e-9, "{json}");
    let few = ixion(["profile", model, "--runs", "1", "--top", "1", "--interpret"]).fine();
    assert!(few.lines().count() < printed.lines().count(), "{few}");
}

#[test]
fn a_timeline_has_a_bar_for_each_operator() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.svg");
    let drawn = |top: &str| {
        let (model, svg) = ("digits/digits.pnnx.param", path.to_str().unwrap());
        let printed = ixion(["profile", model, "--runs", "1", "--top", top, "--timeline", svg]).fine();
        assert!(printed.contains("timeline: "), "{printed}");
        let svg = fs::read_to_string(&path).unwrap();
        fs::remove_file(&path).unwrap();
        svg
    };
    let all = drawn("1000");
    let operators = ixion(["profile", "digits/digits.pnnx.param", "--runs", "1", "--json"]).json();
    let count = operators["operators"].as_array().unwrap().len();
    assert_eq!(all.matches("class=\"row\"").count(), count);
    assert!(all.contains(&format!("{count} operators in one run of ")), "{all}");
    let few = drawn("2");
    assert_eq!(few.matches("class=\"row\"").count(), 2);
    assert!(few.contains(&format!("the 2 slowest of {count} operators")), "{few}");
}

/// Checks Chrome's trace event format: complete events on one thread, in sequence, with times in microseconds.
fn check_timeline(text: &str) {
    let json: serde_json::Value = serde_json::from_str(text).unwrap();
    let events = json["traceEvents"].as_array().unwrap();
    let (names, spans): (Vec<_>, Vec<_>) = events.iter().partition(|event| event["ph"] == "M");
    assert_eq!(names.len(), 2, "the names of process and thread");
    let mut end = 0.0;
    for span in &spans {
        assert_eq!((&span["ph"], &span["pid"], &span["tid"]), (&"X".into(), &1.into(), &1.into()));
        let (start, length) = (span["ts"].as_f64().unwrap(), span["dur"].as_f64().unwrap());
        assert!(start >= end - 0.001 && length >= 0.0, "{span}");
        end = start + length;
        assert!(span["name"].is_string() && span["args"]["type"] == span["cat"], "{span}");
        assert!(span["args"]["outputs"][0].as_str().unwrap().contains("f32"), "{span}");
    }
    assert!(!spans.is_empty());
}

#[test]
fn a_trace_needs_a_writable_path() {
    let ended = ixion(["profile", "digits/digits.pnnx.param", "--trace", "no/such/trace.json"]);
    assert!(ended.code == 1 && ended.stderr.contains("no folder"), "{}", ended.stderr);
    let ended = ixion(["profile", "digits/digits.pnnx.param", "--trace", "digits/digits.pnnx.bin"]);
    assert_eq!(ended.code, 2, "{}", ended.stderr);
}

#[test]
fn inputs_are_not_overwritten() {
    let folder = tempfile::tempdir().unwrap();
    let picture = folder.path().join("7.png");
    fs::copy(models().join("digits/samples/7.png"), &picture).unwrap();
    let (before, text) = (fs::read(&picture).unwrap(), picture.to_str().unwrap());
    for option in ["--trace", "--timeline"] {
        let ended = ixion(["profile", "digits/digits.pnnx.param", "--input", text, option, text]);
        assert_eq!(ended.code, 2, "{option}: {}", ended.stderr);
        assert_eq!(fs::read(&picture).unwrap(), before, "{option}");
    }
}

#[test]
fn trace_and_timeline_need_a_file_each() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("both");
    let text = path.to_str().unwrap();
    let ended = ixion(["profile", "digits/digits.pnnx.param", "--trace", text, "--timeline", text]);
    assert!(ended.code == 2 && ended.stderr.contains("the same file"), "{}", ended.stderr);
    assert!(!path.exists(), "nothing is written");
}
