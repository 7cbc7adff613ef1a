//! `--use`: selects the layers that run operators.

use super::command::ixion;
use std::path::Path;

const HARDSWISH: &str = "7767517\n3 2\npnnx.Input in 0 1 x #x=(2)f32\nnn.Hardswish act 1 1 x y #y=(2)f32\npnnx.Output out 1 0 y\n";

fn model(folder: &Path) -> String {
    let path = folder.join("act.param");
    std::fs::write(&path, HARDSWISH).unwrap();
    path.to_str().unwrap().to_owned()
}

#[test]
fn a_type_can_be_run_by_another_layer() {
    let folder = tempfile::tempdir().unwrap();
    let model = model(folder.path());
    let route = "nn.Hardswish=ixion/nn.SiLU/1";
    let types = |json: serde_json::Value| {
        json["operators"].as_array().unwrap().iter().map(|it| it["type"].to_string()).collect::<Vec<_>>()
    };
    let own = ixion(["plan", &model, "--json", "--without", "all"]).json();
    assert_eq!(types(own), ["\"nn.Hardswish\""]);
    let routed = ixion(["plan", &model, "--json", "--without", "all", "--use", route]).json();
    assert_eq!(types(routed), ["\"nn.SiLU\""]);

    let plan = folder.path().join("act.plan");
    let plan = plan.to_str().unwrap();
    ixion(["build", &model, "-o", plan, "--use", route, "--without", "all"]).fine();
    assert_eq!(types(ixion(["plan", plan, "--json"]).json()), ["\"nn.SiLU\""]);
    let fixed = ixion(["plan", plan, "--use", route]).error(2, folder.path());
    assert!(fixed.contains("whose layers are fixed; leave out --use"), "{fixed}");
}

#[test]
fn a_layer_that_is_not_there_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let model = model(folder.path());
    let missing = ixion(["inspect", &model, "--use", "nn.Hardswish=acme/Swish/2"]).error(2, folder.path());
    assert!(missing.contains("no layer is registered for `acme/Swish/2`"), "{missing}");
    let wrong = ixion(["inspect", &model, "--use", "nn.Hardswish=Swish"]).error(2, folder.path());
    assert!(wrong.contains("`Swish` is not a valid plugin name"), "{wrong}");
}
