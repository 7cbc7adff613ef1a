//! `ixion plan`.

use super::command::{command, ended, exactly, ixion, models};
use insta::assert_snapshot;
use serde_json::json;

const DIGITS: &str = "digits/digits.pnnx.param";

/// Without passes: which passes fire is tested elsewhere.
#[test]
fn a_plan_as_a_table() {
    // Formats differ between processors.
    let mut command = command(["plan", DIGITS, "-s", "2,1,8,8", "--without", "all"]);
    let printed = ended(command.env("IXION_ISA", "scalar").output().unwrap()).fine();
    exactly(|| assert_snapshot!(printed));
}

#[test]
fn the_plan_as_json() {
    let json = ixion(["plan", DIGITS, "--json", "--without", "all"]).json();
    let memory = &json["memory"];
    let size = |key: &str| memory[key].as_u64().unwrap();
    assert!(size("lower_bound_bytes") <= size("arena_bytes") && size("arena_bytes") < size("naive_bytes"));
    let fullest = size("fullest_activation_bytes") + size("fullest_scratch_bytes");
    assert_eq!(fullest, size("lower_bound_bytes"));
    assert_eq!(json["outputs"][0]["shape"], json!([1, 10]));
    assert_eq!(json["outputs"][0]["place"]["root"], "output");
    assert_eq!(json["operators"].as_array().unwrap().len(), 22);
    let ends = json["buffers"].as_array().unwrap().iter();
    let ends = ends.map(|buffer| buffer["offset"].as_u64().unwrap() + buffer["bytes"].as_u64().unwrap());
    assert!(ends.max().unwrap() <= size("arena_bytes"));
}

#[test]
fn passes_make_the_graph_smaller_and_can_be_left_out() {
    let all = ixion(["plan", "resnet18/resnet18.pnnx.param", "--json"]).json();
    let none = ixion(["plan", "resnet18/resnet18.pnnx.param", "--json", "--without", "all"]).json();
    let count = |json: &serde_json::Value| json["operators"].as_array().unwrap().len();
    assert!(count(&all) <= count(&none));
    assert_eq!(none["passes"]["operators_before"], none["passes"]["operators_after"]);
    assert!(none["passes"]["passes"].as_array().unwrap().is_empty());
    let fired =
        all["passes"]["passes"].as_array().unwrap().iter().map(|pass| pass["fired"].as_u64().unwrap());
    assert_eq!(fired.sum::<u64>() > 0, count(&all) < count(&none));
}

#[test]
fn larger_inputs_need_more_memory() {
    let arena = |shape: &str| {
        let json = ixion(["plan", DIGITS, "--json", "--without", "all", "--input-shape", shape]).json();
        json["memory"]["arena_bytes"].as_u64().unwrap()
    };
    assert!(arena("1,1,8,8") < arena("pnnx_input_0=16,1,8,8"));
}

#[test]
fn operators_behind_sizes_that_depend_on_values_are_not_planned() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("net.param");
    let text = "7767517\n5 4\n\
        pnnx.Input in 0 1 x #x=(2,3)f32\n\
        nn.ReLU before 1 1 x y #y=(2,3)f32\n\
        aten::nonzero places 1 1 y z #z=(6,2)i64\n\
        pnnx.Expression twice 1 1 z w expr=mul(@0,2)\n\
        pnnx.Output out 1 0 w\n";
    std::fs::write(&path, text).unwrap();
    let printed = ixion(["plan", path.to_str().unwrap()]).fine();
    assert!(printed.contains("2 operators, beginning at `places`, are not planned: "), "{printed}");
    assert!(!ixion(["plan", DIGITS]).fine().contains("not planned"));
}

#[test]
fn tactics_that_round_too_much_are_listed_with_what_they_would_save() {
    let unet = "shapes_unet/shapes_unet.pnnx.param";
    let printed = ixion(["plan", unet]).fine();
    let row = printed.lines().find(|line| line.contains("winograd-6x6)"));
    assert!(row.is_some_and(|row| row.contains("10×") && row.contains('~')), "{printed}");
    assert!(printed.contains("more than 3 times those of the general tactic"), "{printed}");
    let fast = ixion(["plan", unet, "--fast"]).fine();
    assert!(!fast.contains("left out because"), "{fast}");

    let inexact = |args: [&str; 4]| -> Vec<serde_json::Value> {
        let json = ixion(args).json();
        let all = json["formats"].as_array().unwrap().iter();
        all.flat_map(|of| of["inexact"].as_array().unwrap().clone()).collect()
    };
    let left_out = inexact(["plan", unet, "--json", "--layouts=cheapest"]);
    let saves = |it: &serde_json::Value| it["saves_nanoseconds"].as_f64().unwrap() > 0.0;
    assert!(left_out.iter().any(saves), "{left_out:?}");
    // The smaller tiles are left out in the last layers alone.
    let known = [(json!("winograd-4x4"), json!(2.4)), (json!("winograd-6x6"), json!(10.0))];
    for it in &left_out {
        let found = (it["candidate"]["tactic"].clone(), it["rounding"].clone());
        assert!(known.contains(&found), "{found:?}");
    }
    assert!(inexact(["plan", unet, "--json", "--fast"]).is_empty());
}

#[test]
fn the_memory_as_an_svg() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("memory.svg");
    let printed = ixion(["plan", DIGITS, "--memory", path.to_str().unwrap()]).fine();
    assert!(printed.trim_end().ends_with("buffers"), "{printed}");
    let svg = std::fs::read_to_string(&path).unwrap();
    assert!(svg.starts_with("<svg") && svg.contains("lower bound") && svg.contains("conv"), "{svg}");
    assert_eq!(ixion(["plan", DIGITS, "--memory", "-"]).fine(), svg);
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
}

#[test]
fn what_cannot_be_planned() {
    let error = |args: [&str; 4]| ixion(args).error(2, &models());
    let unknown = error(["plan", DIGITS, "--without", "make_it_fast"]);
    assert!(unknown.contains("make_it_fast"), "{unknown}");
    let named = error(["plan", DIGITS, "-s", "y=1,1,8,8"]);
    assert!(named.contains("`y`") && named.contains("`pnnx_input_0`"), "{named}");
    let wide = error(["plan", DIGITS, "-s", "1,2,8,8"]);
    assert!(wide.contains("1×2×8×8") && wide.contains("nn.Conv2d"), "{wide}");
    assert!(error(["plan", DIGITS, "-s", "1,8"]).contains("?×1×8×8, got 1×8"));
    assert!(error(["plan", DIGITS, "-s", "1,x"]).contains("expected lengths"));
    let twice = ixion(["plan", DIGITS, "-s", "1,1,8,8", "-s", "1,1,8,8"]).error(2, &models());
    assert!(twice.contains("too many inputs: expected 1 ("), "{twice}");
    let kept = ixion(["plan", DIGITS, "--memory", DIGITS]).error(2, &models());
    assert!(kept.contains("would be overwritten"), "{kept}");
}
