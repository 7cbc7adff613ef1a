//! `ixion build`, and plans in place of models.

use super::command::{exactly, ixion, models};
use insta::assert_snapshot;
use ixion::engine::file::Kind;
use serde_json::json;
use std::path::Path;

/// Builds a model's plan into a folder.
fn plan(folder: &Path, name: &str) -> String {
    let path = folder.join(format!("{name}.plan")).to_str().unwrap().to_owned();
    ixion(["build", &format!("{name}/{name}.pnnx.param"), "-o", &path]).fine();
    path
}

#[test]
fn a_plan_is_one_file_and_runs_a_picture() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("digits.plan");
    let path = path.to_str().unwrap();
    let said = ixion(["build", "digits/digits.pnnx.param", "-o", path]).fine();
    assert!(
        said.contains("digits.plan: ") && said.contains("operators, ") && said.ends_with("B\n"),
        "{said}"
    );
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    let seven = "digits/samples/7.png";
    let of_text = ixion(["run", "digits/digits.pnnx.param", "--input", seven, "--json"]).json();
    for way in ["--verify", "--map", "--interpret"] {
        let of_plan = ixion(["run", path, "--input", seven, "--json", way]).json();
        let class = |json: &serde_json::Value| json["results"][0]["classes"][0]["label"].clone();
        assert!(class(&of_plan).is_string() || of_plan["results"].is_null(), "{of_plan}");
        assert_eq!(class(&of_plan), class(&of_text));
    }
}

#[test]
fn every_subcommand_takes_a_plan() {
    let folder = tempfile::tempdir().unwrap();
    let path = plan(folder.path(), "digits");
    let inspected = ixion(["inspect", &path, "--json"]).json();
    assert_eq!(inspected["totals"]["unsupported"], json!({}));
    for command in ["bench", "profile"] {
        let json = ixion([command, &path, "--json", "--runs", "1"]).json();
        assert_eq!((&json["mode"], &json["file"]), (&json!("planned"), &json!(path)));
    }
    let planned = ixion(["plan", &path, "--json", "--verify", "--map"]).json();
    assert_eq!(
        (&planned["plan"]["model"], &planned["plan"]["format"]),
        (&json!("digits.pnnx.param"), &json!(2))
    );
    for key in ["weight_bytes", "packed_bytes"] {
        assert_eq!(planned["memory"][key], inspected["totals"][key], "{key}");
    }
    assert_eq!(ixion(["plan", "digits/digits.pnnx.param", "--json"]).json()["plan"], json!(null));
    let text = folder.path().join("again.param");
    ixion(["convert", &path, "--param", text.to_str().unwrap()]).fine();
    assert!(text.is_file());
    // A folder whose model is a plan is a valid case.
    std::fs::remove_file(&text).unwrap();
    std::fs::remove_file(text.with_extension("bin")).unwrap();
    for name in ["in_0.npy", "out_0.npy"] {
        std::fs::copy(models().join("digits").join(name), folder.path().join(name)).unwrap();
    }
    let case = folder.path().to_str().unwrap();
    assert!(ixion(["verify", case, "--checksums"]).fine().ends_with("1 passed, 0 failed\n"));
}

#[test]
fn a_saved_plan_as_a_table() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("linear.plan");
    let path = path.to_str().unwrap();
    let args =
        ["build", "linear/linear.pnnx.param", "-o", path, "--without", "all", "-s", "pnnx_input_0=1,32"];
    ixion(args).fine();
    exactly(|| {
        let mut settings = insta::Settings::clone_current();
        settings.add_filter(r"by Ixion .*", "by Ixion [version], [size]");
        settings.add_filter(r"(?m)^packed .*\n", "");
        settings.bind(|| assert_snapshot!(ixion(["plan", path]).fine()));
    });
}

#[test]
fn shapes_ranges_and_donations_are_kept() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.plan");
    let path = path.to_str().unwrap();
    let range = "pnnx_input_0=1,1,8,8:4,1,8,8:16,1,8,8";
    ixion([
        "build",
        "digits/digits.pnnx.param",
        "-o",
        path,
        "--profile",
        range,
        "-s",
        "pnnx_input_0=n,1,8,8",
    ])
    .fine();
    let file = ixion::engine::PlanFile::open(path, &ixion::Limits::default()).unwrap();
    let plan = file.load().unwrap();
    assert_eq!(plan.profile().unwrap().ranges()[0].max(), [16, 1, 8, 8]);
    let error = |args: &[&str]| {
        let all = ["build", "digits/digits.pnnx.param", "-o", path, args[0], args[1]];
        ixion(all).error(2, folder.path())
    };
    assert!(error(&["--profile", "y=1:1:1"]).contains("element type of an input `y`"));
    assert!(error(&["--profile", "pnnx_input_0=2,1,8,8:1,1,8,8:4,1,8,8"]).contains("axis 0"));
    assert!(error(&["--profile", "1,2"]).contains("expected three shapes"));
    assert!(error(&["-s", "pnnx_input_0=1,1"]).contains("pnnx_input_0"));
    assert!(error(&["--donate", "pnnx_input_0=nowhere"]).contains("no output `nowhere`"));
    assert!(error(&["--without", "make_it_fast"]).contains("make_it_fast"));
}

#[test]
fn what_cannot_be_built_or_taken() {
    let folder = tempfile::tempdir().unwrap();
    let path = plan(folder.path(), "linear");
    let own = folder.path();
    let error = ixion(["build", &path, "-o", "x.plan"]).error(2, own);
    assert!(error.contains("linear.plan is already a plan"), "{error}");
    let python = own.join("x.py");
    let error = ixion(["convert", &path, "--python", python.to_str().unwrap()]).error(2, own);
    assert!(error.contains("linear.plan is a plan, whose operators PyTorch lacks"), "{error}");
    assert!(!python.exists());
    let error =
        ixion(["run", &path, "-i", "linear/in_0.npy", "--bin", "linear/linear.pnnx.bin"]).error(2, own);
    assert!(error.contains("leave out --bin"), "{error}");
    let error = ixion(["run", &path, "-i", "linear/in_0.npy", "--random-weights", "1"]).error(2, own);
    assert!(error.contains("`ixion build --random-weights SEED`"), "{error}");
    let error = ixion(["plan", &path, "--without", "all"]).error(2, own);
    assert!(error.contains("whose passes have run"), "{error}");
    for options in [["--precision", "f16"], ["--layouts", "plain"], ["--tune", "--json"]] {
        let [a, b] = options;
        let fixed = "linear.plan is a plan, whose element types, layouts and tactics are fixed";
        let error = ixion(["plan", &path, a, b]).error(2, own);
        assert!(error.contains(fixed) && error.contains("`ixion build --precision"), "{error}");
        let error = ixion(["run", &path, "-i", "linear/in_0.npy", a, b]).error(2, own);
        assert!(error.contains(fixed), "{error}");
    }
    let error = ixion(["inspect", "linear/linear.pnnx.param", "--verify"]).error(2, own);
    assert!(error.contains("--verify requires a plan"), "{error}");
    let error = ixion(["build", "linear/linear.pnnx.param", "-o", "linear/linear.pnnx.bin"]).error(2, own);
    assert!(error.contains("would be overwritten"), "{error}");
    let error = ixion(["build", "linear/linear.pnnx.param", "-o", "no/such/x.plan"]).error(1, own);
    assert!(error.contains("cannot write here"), "{error}");
    let error = ixion(["build", "resnet18/resnet18.pnnx.param", "-o", &path]).error(2, own);
    assert!(error.contains("--random-weights"), "{error}");
}

#[test]
fn a_damaged_plan_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let path = plan(folder.path(), "linear");
    let whole = std::fs::read(&path).unwrap();
    let error = |bytes: &[u8], option: &str| {
        std::fs::write(&path, bytes).unwrap();
        ixion(["run", &path, "-i", "linear/in_0.npy", option]).error(2, folder.path())
    };
    let flipped = |at: usize| {
        let mut bytes = whole.clone();
        bytes[at] ^= 1;
        bytes
    };
    exactly(|| {
        let cut_off = error(&whole[..whole.len() - 1], "--map");
        let header = error(&flipped(33), "--map");
        let graph = error(&flipped(4096 + 20), "--map");
        let mut settings = insta::Settings::clone_current();
        settings.add_filter(r"\b[0-9a-f]{8}\b", "[checksum]");
        settings.add_filter(r"(has|have) \d+", "$1 [number]");
        settings.bind(|| assert_snapshot!([cut_off, header, graph].join("\n\n")));
    });
    std::fs::write(&path, &whole).unwrap();
    let file = ixion::engine::PlanFile::open(&path, &ixion::Limits::default()).unwrap();
    let weights = file.sections().iter().find(|section| section.kind == Kind::Weights).unwrap();
    let weight = flipped(usize::try_from(weights.offset).unwrap() + 5);
    let damaged = error(&weight, "--verify");
    assert!(damaged.contains("the weight `") && damaged.contains("of operator `"), "{damaged}");
    std::fs::write(&path, &weight).unwrap();
    ixion(["run", &path, "-i", "linear/in_0.npy"]).fine();
}
