//! `ixion run`.

use super::command::{command, ended, exactly, ixion, models, roughly};
use insta::assert_snapshot;
use ixion::Limits;
use ixion::tensor::Tensor;

const DIGITS: &str = "digits/digits.pnnx.param";
const TWO: &str = "two_inputs/two_inputs.pnnx.param";

fn load(path: impl AsRef<std::path::Path>) -> Tensor {
    Tensor::load_npy(path, &Limits::default()).unwrap()
}

#[test]
fn every_sample_is_read_as_its_digit() {
    for digit in 0..10 {
        let printed = ixion(["run", DIGITS, "--input", &format!("digits/samples/{digit}.png")]).fine();
        let first = printed.lines().next().unwrap();
        assert!(first.starts_with(&format!("{digit}  ")) && first.contains('%'), "{digit}: {printed}");
    }
}

#[test]
fn seven_as_a_chart() {
    exactly(|| assert_snapshot!(ixion(["run", DIGITS, "-i", "digits/samples/7.png", "--top", "3"]).fine()));
}

#[test]
fn a_batch_has_a_chart_for_each_picture() {
    let printed = ixion(["run", DIGITS, "-i", "digits/in_0.npy", "--top", "1"]).fine();
    let lines: Vec<&str> = printed.lines().collect();
    assert_eq!(lines.len(), 20);
    assert_eq!(lines[6], "image 4 of 10");
    assert!(lines[7].starts_with("3  "), "{}", lines[7]);
}

#[test]
fn outputs_without_a_task_are_summed_up() {
    exactly(|| assert_snapshot!(ixion(["run", "linear/linear.pnnx.param", "-i", "linear/in_0.npy"]).fine()));
}

#[test]
fn inputs_go_by_name_or_by_order() {
    let by_order = ixion(["run", TWO, "-i", "two_inputs/in_0.npy", "-i", "two_inputs/in_1.npy"]).fine();
    let named = ["pnnx_input_1=two_inputs/in_1.npy", "pnnx_input_0=two_inputs/in_0.npy"];
    let by_name = ixion(["run", TWO, "-i", named[0], "-i", named[1]]).fine();
    assert_eq!(by_name, by_order);
    // An unnamed array goes to the remaining input.
    assert_eq!(ixion(["run", TWO, "-i", named[0], "-i", "two_inputs/in_0.npy"]).fine(), by_order);
    exactly(|| assert_snapshot!(by_order));
}

#[test]
fn outputs_are_saved_to_a_file_or_a_folder() {
    let folder = tempfile::tempdir().unwrap();
    let (file, new) = (folder.path().join("y.npy"), folder.path().join("new/folder"));
    let wanted = load(models().join("linear/out_0.npy"));
    for (target, written) in [(&file, file.clone()), (&new, new.join("out_0.npy"))] {
        let args =
            ["run", "linear/linear.pnnx.param", "-i", "linear/in_0.npy", "-o", target.to_str().unwrap()];
        ixion(args).fine();
        assert!(load(written).allclose(&wanted, 1e-4, 1e-4, true).unwrap().holds());
    }
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 2, "nothing else is left");
}

#[test]
fn tables_and_archives_are_inputs_too() {
    let folder = tempfile::tempdir().unwrap();
    let table = folder.path().join("x.csv");
    let input = load(models().join("linear/in_0.npy")).to_vec::<f32>().unwrap();
    let numbers: Vec<String> = input.iter().map(f32::to_string).collect();
    std::fs::write(&table, numbers.join("\n")).unwrap();
    let from_array = ixion(["run", "linear/linear.pnnx.param", "-i", "linear/in_0.npy"]).fine();
    let from_table = ixion(["run", "linear/linear.pnnx.param", "-i", table.to_str().unwrap()]).fine();
    assert_eq!(from_table, from_array);

    let archive = folder.path().join("both.npz");
    write_npz(&archive, &[("pnnx_input_1", "two_inputs/in_1.npy"), ("pnnx_input_0", "two_inputs/in_0.npy")]);
    let from_arrays = ixion(["run", TWO, "-i", "two_inputs/in_0.npy", "-i", "two_inputs/in_1.npy"]).fine();
    assert_eq!(ixion(["run", TWO, "-i", archive.to_str().unwrap()]).fine(), from_arrays);
    let entry = |name: &str| format!("{name}={}:{name}", archive.display());
    assert_eq!(
        ixion(["run", TWO, "-i", &entry("pnnx_input_0"), "-i", &entry("pnnx_input_1")]).fine(),
        from_arrays
    );
}

#[test]
fn arrays_of_a_case_are_inputs_in_order() {
    let folder = tempfile::tempdir().unwrap();
    let arrays = folder.path().join("arrays_01.npz");
    let arrays = arrays.to_str().unwrap();
    let [first, second] = ["two_inputs/in_0.npy", "two_inputs/in_1.npy"];
    write_npz(arrays.as_ref(), &[("out_0", "two_inputs/out_0.npy"), ("in_1", second), ("in_0", first)]);
    let wanted = ixion(["run", TWO, "-i", first, "-i", second]).fine();
    assert_eq!(ixion(["run", TWO, "-i", arrays]).fine(), wanted);
    write_npz(arrays.as_ref(), &[("in_0", first), ("in_1", second), ("in_2", second)]);
    let ended = ixion(["run", TWO, "-i", arrays]);
    assert!(ended.code == 2 && ended.stderr.contains("too many inputs: expected 2"), "{}", ended.stderr);
    write_npz(arrays.as_ref(), &[("in_1", second)]);
    let ended = ixion(["run", TWO, "-i", arrays]);
    assert!(ended.code == 2 && ended.stderr.contains("missing inputs: `pnnx_input_0`"), "{}", ended.stderr);
    // Inputs that are called so get the arrays of their names, and outputs are skipped as well.
    let model = folder.path().join("difference.param");
    let text = "7767517\n4 3\npnnx.Input in_1 0 1 a\npnnx.Input in_0 0 1 b\npnnx.Expression e 2 1 a b y expr=sub(@0,@1)\npnnx.Output out 1 0 y\n";
    std::fs::write(&model, text).unwrap();
    let model = model.to_str().unwrap();
    write_npz(arrays.as_ref(), &[("in_0", first), ("in_1", first), ("out_0", first)]);
    let (found, by_name) = (ixion(["run", model, "-i", arrays]), format!("in_0={first}"));
    assert_eq!(found.fine(), ixion(["run", model, "-i", &by_name, "-i", first]).fine());
}

/// Writes an archive of arrays like `numpy.savez`.
fn write_npz(path: &std::path::Path, arrays: &[(&str, &str)]) {
    let mut writer = ixion::pnnx::ArchiveWriter::new(std::fs::File::create(path).unwrap());
    for (name, file) in arrays {
        let bytes = std::fs::read(models().join(file)).unwrap();
        writer.add(&format!("{name}.npy"), &bytes).unwrap();
    }
    writer.finish().unwrap();
}

#[test]
fn weights_and_inputs_are_made_up_from_a_seed() {
    let run = |seed| ixion(["run", DIGITS, "--random-weights", seed, "--top", "2"]).fine();
    let first = run("1");
    assert_eq!(first.lines().count(), 2);
    assert!(run("1") == first && run("2") != first);
}

#[test]
fn a_picture_without_instructions_is_prepared_by_shape() {
    let folder = tempfile::tempdir().unwrap();
    let copy = folder.path().join("digits.pnnx.param");
    for ending in ["param", "bin"] {
        let name = format!("digits.pnnx.{ending}");
        std::fs::copy(models().join("digits").join(&name), folder.path().join(&name)).unwrap();
    }
    let ended = ixion(["run", copy.to_str().unwrap(), "-i", "digits/samples/7.png"]);
    assert_eq!(
        (ended.code, ended.stderr.trim_end()),
        (
            0,
            "note: no model.toml for digits/samples/7.png: prepared as grey, stretched to 8×8, scaled to 0..1"
        )
    );
    assert!(ended.stdout.starts_with("pnnx_output_0  f32 1×10: min "), "{}", ended.stdout);
}

#[test]
fn a_trace_has_a_row_for_each_operator() {
    let printed = ixion(["run", "linear/linear.pnnx.param", "-i", "linear/in_0.npy", "--trace"]).fine();
    roughly(|| assert_snapshot!(squeezed(&printed)));
}

/// Collapses white space, because the width of time columns varies.
fn squeezed(text: &str) -> String {
    let words = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
    text.lines().map(words).collect::<Vec<_>>().join("\n")
}

#[test]
fn the_result_for_programs() {
    let json = ixion(["run", DIGITS, "-i", "digits/samples/7.png", "--json", "--top", "2"]).json();
    assert_eq!((json["file"].as_str(), json["name"].as_str()), (Some(DIGITS), Some("digits")));
    assert_eq!(
        json["inputs"][0],
        serde_json::json!({ "name": "pnnx_input_0", "shape": [1, 1, 8, 8], "dtype": "f32" })
    );
    let output = &json["outputs"][0];
    assert_eq!((output["name"].as_str(), output["elided"].as_u64()), (Some("pnnx_output_0"), Some(0)));
    assert_eq!(
        (output["values"].as_array().unwrap().len(), &output["shape"]),
        (10, &serde_json::json!([1, 10]))
    );
    assert!(
        output["max"].as_f64() > output["mean"].as_f64() && output["mean"].as_f64() > output["min"].as_f64()
    );
    let classes = json["classes"][0].as_array().unwrap();
    assert_eq!(
        (classes.len(), classes[0]["label"].as_str(), classes[0]["index"].as_u64()),
        (2, Some("7"), Some(7))
    );
    assert!(classes[0]["probability"].as_f64().unwrap() > 0.9);
    assert!(json["trace"].is_null() && json["seconds"].as_f64().unwrap() > 0.0);
}

#[test]
fn the_trace_for_programs() {
    let json =
        ixion(["run", "linear/linear.pnnx.param", "-i", "linear/in_0.npy", "--json", "--trace"]).json();
    assert!(json["classes"].is_null());
    let trace = &json["trace"];
    assert_eq!((trace["macs"].as_u64(), trace["layers"].as_array().unwrap().len()), (Some(4096), 1));
    assert_eq!(trace["layers"][0]["outputs"][0], serde_json::json!({ "shape": [1, 128], "dtype": "f32" }));
    assert!(trace["peak_bytes"].as_u64().unwrap() >= 128 * 4);
}

#[test]
fn the_archive_can_be_elsewhere() {
    let folder = tempfile::tempdir().unwrap();
    let bin = folder.path().join("weights");
    std::fs::copy(models().join("linear/linear.pnnx.bin"), &bin).unwrap();
    let args = ["run", "linear/linear.pnnx.param", "--bin", bin.to_str().unwrap(), "-i", "linear/in_0.npy"];
    assert!(ixion(args).fine().starts_with("pnnx_output_0"));
}

#[test]
fn more_is_said_where_it_is_asked_for() {
    let args = ["run", "linear/linear.pnnx.param", "-i", "linear/in_0.npy"];
    let mut quiet = command(args);
    let loud = ended(quiet.arg("-vv").output().unwrap());
    assert!(loud.code == 0 && loud.stderr.contains("debug: nn.Linear `linear` took"), "{}", loud.stderr);
    let by_variable = ended(command(args).env("RUST_LOG", "ixion::engine=debug").output().unwrap());
    assert!(by_variable.stderr.contains("debug: nn.Linear `linear` took"), "{}", by_variable.stderr);
    let interpreted = ended(command(args).args(["--interpret", "-vv"]).output().unwrap());
    assert!(interpreted.stderr.contains("debug: nn.Linear `linear` took"), "{}", interpreted.stderr);
}
