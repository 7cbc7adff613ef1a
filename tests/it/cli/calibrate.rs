//! `ixion calibrate`, and the use of its scales.

use super::command::{ixion, models};
use serde_json::{Value, json};
use std::path::Path;

const DIGITS: &str = "digits/digits.pnnx.param";

fn text(path: &Path) -> String {
    path.to_str().unwrap().to_owned()
}

#[test]
fn scales_are_found_and_used() {
    let folder = tempfile::tempdir().unwrap();
    let (scales, plan) = (text(&folder.path().join("digits.json")), text(&folder.path().join("digits.plan")));
    let said = ixion(["calibrate", DIGITS, "--inputs", "digits/calibration", "-o", &scales]).fine();
    assert!(said.contains("signal to noise") && said.contains(" dB"), "{said}");
    assert!(said.contains("scales from 1 run; 0 layers in f32"), "{said}");
    let found: Value = serde_json::from_slice(&std::fs::read(&scales).unwrap()).unwrap();
    assert_eq!((&found["ixion_scales"], &found["method"]), (&json!(1), &json!("entropy")));

    let whole = ["--precision", "int8", "--scales", &scales, "--layouts", "narrowest"];
    let (seven, [a, b, c, d, e, f]) = ("digits/samples/7.png", whole);
    let ran = ixion(["run", DIGITS, "--input", seven, "--json", a, b, c, d, e, f]).json();
    assert_eq!(ran["classes"][0][0]["label"], json!("7"), "{ran}");
    ixion(["build", DIGITS, "-o", &plan, a, b, c, d, e, f]).fine();
    let planned = ixion(["plan", &plan, "--json"]).json();
    assert!(planned["formats"].to_string().contains("i8 quantized"), "{}", planned["formats"]);
    let of_plan = ixion(["run", &plan, "--input", seven, "--json"]).json();
    assert_eq!(of_plan["classes"], ran["classes"]);
}

#[test]
fn layers_that_stay_in_floats_are_listed_with_the_reason() {
    let folder = tempfile::tempdir().unwrap();
    let scales = text(&folder.path().join("digits.json"));
    let args = ["--inputs", "digits/calibration", "-o", &scales, "--json"];
    let [a, b, c, d, e] = args;
    let found = ixion(["calibrate", DIGITS, a, b, c, d, e]).json();
    let first = found["layers"][0]["name"].as_str().unwrap().to_owned();
    let mut file: Value = serde_json::from_slice(&std::fs::read(&scales).unwrap()).unwrap();
    file["keep_f32"] = json!([first]);
    std::fs::write(&scales, file.to_string()).unwrap();
    let whole = ["--precision", "int8", "--scales", &scales, "--layouts", "narrowest"];
    let [a, b, c, d, e, f] = whole;
    let planned = ixion(["plan", DIGITS, "--json", a, b, c, d, e, f]).json();
    let wanted = json!([{ "operator": first, "reason": "kept in f32", "candidate": null }]);
    assert_eq!(planned["not_int8"], wanted);
    let shown = ixion(["plan", DIGITS, a, b, c, d, e, f]).fine();
    assert!(shown.contains("why it is not int8") && shown.contains("keeps it in f32"), "{shown}");
    let floats = ixion(["plan", DIGITS, "--json"]).json();
    assert_eq!(floats["not_int8"], json!([]));
}

#[test]
fn int8_is_no_contradiction_to_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let scales = text(&folder.path().join("digits.json"));
    ixion(["calibrate", DIGITS, "--inputs", "digits/calibration", "-o", &scales]).fine();
    let ended = ixion(["verify", "digits", "--precision", "int8", "--scales", &scales]);
    assert!(ended.stdout.contains("the output comes from"), "{}", ended.stdout);
    assert!(!ended.stdout.contains("the file specifies"), "{}", ended.stdout);
}

#[test]
fn programs_read_what_was_found() {
    let folder = tempfile::tempdir().unwrap();
    let scales = text(&folder.path().join("digits.json"));
    let with = |method: &str, least: &str| {
        let args = ["--inputs", "digits/samples", "--max", "4", "-o", &scales, "--method", method];
        let [a, b, c, d, e, f, g, h] = args;
        ixion(["calibrate", DIGITS, a, b, c, d, e, f, g, h, "--least", least, "--json"]).json()
    };
    let minmax = with("minmax", "20");
    assert_eq!((&minmax["method"], &minmax["runs"]), (&json!("minmax"), &json!(4)));
    let input = &minmax["operands"][0];
    assert_eq!((&input["least"], &input["clipped"]), (&json!(0.0), &json!(0.0)), "{input}");
    assert_eq!(input["threshold"], input["largest"]);
    let kept = |found: &Value| {
        let layers = found["layers"].as_array().unwrap();
        layers.iter().filter(|layer| layer["stays_f32"] == json!(true)).count()
    };
    let all = minmax["layers"].as_array().unwrap().len();
    assert!(all >= 8 && kept(&minmax) == 0, "{minmax}");
    let entropy = with("entropy", "1000");
    assert_eq!(kept(&entropy), all);
    let lower = |operand: &Value| operand["threshold"].as_f64() < operand["largest"].as_f64();
    assert!(entropy["operands"].as_array().unwrap().iter().any(lower), "{entropy}");
}

#[test]
fn int8_and_scales_need_each_other() {
    let folder = tempfile::tempdir().unwrap();
    let plan = text(&folder.path().join("digits.plan"));
    let (seven, own) = ("digits/samples/7.png", folder.path());
    for [flag, value, wanted, hint] in [
        ["--precision", "f16,int8", "int8 needs scales", "`ixion calibrate` finds them"],
        ["--scales", "none.json", "none.json: scales are for int8", "`--precision int8 --scales FILE`"],
    ] {
        for error in [
            ixion(["run", DIGITS, "--input", seven, flag, value]).error(2, own),
            ixion(["bench", DIGITS, flag, value]).error(2, own),
            ixion(["build", DIGITS, "-o", &plan, flag, value]).error(2, own),
            ixion(["plan", DIGITS, flag, value]).error(2, own),
            ixion(["verify", "digits", flag, value]).error(2, own),
        ] {
            assert!(error.contains(wanted) && error.contains(hint), "{error}");
        }
    }
    assert!(!Path::new(&plan).exists());
}

#[test]
fn names_that_the_model_lacks_are_errors() {
    let folder = tempfile::tempdir().unwrap();
    let scales = text(&folder.path().join("digits.json"));
    ixion(["calibrate", DIGITS, "--inputs", "digits/calibration", "-o", &scales]).fine();
    let found: Value = serde_json::from_slice(&std::fs::read(&scales).unwrap()).unwrap();
    let error = |changed: Value| {
        std::fs::write(&scales, changed.to_string()).unwrap();
        ixion(["plan", DIGITS, "--precision", "int8", "--scales", &scales]).error(2, folder.path())
    };
    let mut renamed = found.clone();
    let all = renamed["scales"].as_object_mut().unwrap();
    let name = all.keys().max_by_key(|name| name.len()).unwrap().clone();
    let scale = all.remove(&name).unwrap();
    all.insert(format!("{name}_"), scale);
    let wanted = format!("digits.json: the model has no operand `{name}_`; did you mean `{name}`?");
    let said = error(renamed);
    assert!(said.contains(&wanted), "{said}");
    let mut kept = found;
    kept["keep_f32"] = json!(["no_such_operator"]);
    let said = error(kept);
    assert!(
        said.contains("the model has no operator `no_such_operator`; run `ixion calibrate` again"),
        "{said}"
    );
}

#[test]
fn pictures_are_not_written_over() {
    let folder = tempfile::tempdir().unwrap();
    let picture = folder.path().join("7.png");
    std::fs::copy(models().join("digits/samples/7.png"), &picture).unwrap();
    let before = std::fs::read(&picture).unwrap();
    let ended = ixion(["calibrate", DIGITS, "--inputs", &text(folder.path()), "-o", &text(&picture)]);
    assert_eq!(ended.code, 2, "{}", ended.stderr);
    assert_eq!(std::fs::read(&picture).unwrap(), before);
}

#[test]
fn what_cannot_be_calibrated_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let own = folder.path();
    let scales = text(&own.join("s.json"));
    let error = |inputs: &str, output: &str, code| {
        ixion(["calibrate", DIGITS, "--inputs", inputs, "-o", output]).error(code, own)
    };
    assert!(error(&text(own), &scales, 2).contains("there is no .png, .jpg"));
    assert!(error("no/such/folder", &scales, 2).contains("cannot read the folder"));
    assert!(error("digits/samples", "digits/digits.pnnx.bin", 2).contains("digits.pnnx.bin"));
    let wrong = own.join("wrong");
    std::fs::create_dir(&wrong).unwrap();
    std::fs::copy(models().join("linear/in_0.npy"), wrong.join("0.npy")).unwrap();
    assert!(error(&text(&wrong), &scales, 2).contains("input"));
    assert!(!own.join("s.json").exists());

    let least = ["calibrate", DIGITS, "--inputs", "digits/samples", "-o", &scales, "--least", "nan"];
    assert!(ixion(least).error(2, own).contains("expected a number of decibels"));
    assert!(!own.join("s.json").exists());

    std::fs::write(own.join("s.json"), "{}").unwrap();
    let used =
        ixion(["run", DIGITS, "--input", "digits/samples/7.png", "--precision", "int8", "--scales", &scales]);
    assert!(used.error(2, own).contains("s.json: not a scales file"));
}
