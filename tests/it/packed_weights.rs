//! Packed weights in plans, stored in the order in which layers read them.

use crate::common::saved::{bits, map};
use ixion::Limits;
use ixion::engine::{Builder, Plan, PlanFile};
use ixion::op::PACKED;
use ixion::pnnx::Graph;
use ixion::tensor::Tensor;
use std::path::{Path, PathBuf};

const CONVOLUTIONS: &str = "\
pnnx.Input x 0 1 x #x=(1,48,30,30)f32
nn.Conv2d a 1 1 x h bias=True dilation=(1,1) groups=1 in_channels=48 kernel_size=(3,3) out_channels=48 padding=(1,1) padding_mode=zeros stride=(1,1) @bias=(48)f32 @weight=(48,48,3,3)f32
nn.Conv2d b 1 1 h g bias=True dilation=(1,1) groups=48 in_channels=48 kernel_size=(3,3) out_channels=48 padding=(1,1) padding_mode=zeros stride=(1,1) @bias=(48)f32 @weight=(48,1,3,3)f32
nn.Conv2d c 1 1 g y bias=True dilation=(1,1) groups=1 in_channels=48 kernel_size=(1,1) out_channels=32 padding=(0,0) padding_mode=zeros stride=(1,1) @bias=(32)f32 @weight=(32,48,1,1)f32";

const LINEAR: &str = "\
pnnx.Input x 0 1 x #x=(3,20)f32
nn.Linear a 1 1 x y bias=True in_features=20 out_features=24 @bias=(24)f32 @weight=(24,20)f32";

const ATTENTION: &str = "\
pnnx.Input x 0 1 x #x=(2,9,16)f32
nn.MultiheadAttention a 1 1 x h add_bias_kv=False add_zero_attn=False batch_first=True bias=True embed_dim=16 num_heads=2 @in_proj_bias=(48)f32 @in_proj_weight=(48,16)f32 @out_proj.bias=(16)f32 @out_proj.weight=(16,16)f32
nn.MultiheadAttention b 2 1 x h y add_bias_kv=False add_zero_attn=False batch_first=True bias=True embed_dim=16 num_heads=2 @in_proj_bias=(48)f32 @in_proj_weight=(48,16)f32 @out_proj.bias=(16)f32 @out_proj.weight=(16,16)f32";

fn plan(operators: &str) -> Plan {
    plan_by(operators, &[])
}

/// A plan whose layers use these tactics where possible.
fn plan_by(operators: &str, tactics: &[&str]) -> Plan {
    let count = operators.lines().count() + 1;
    let text = format!("7767517\n{count} 0\n{operators}\npnnx.Output y 1 0 y\n");
    let graph = Graph::parse(&text, &Limits::default()).unwrap();
    let tactics = tactics.iter().map(|name| (*name).to_owned());
    Builder::from_pnnx(graph).with_random_weights(7).with_tactics(tactics).build().unwrap()
}

fn saved(plan: &Plan) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.plan");
    plan.save(&path).unwrap();
    (folder, path)
}

/// The packed weights of a plan file, as operator and bytes.
fn packed(path: &Path) -> Vec<(String, Vec<u8>)> {
    let graph = PlanFile::open(path, &Limits::default()).unwrap().graph().unwrap();
    let packed = graph.operators().filter_map(|(_, operator)| {
        let bytes = operator.attrs().get(PACKED)?.bytes().unwrap().into_owned();
        Some((operator.name().to_owned(), bytes))
    });
    packed.collect()
}

/// Returns true if changing the first of these packed weights changes the plan's results.
fn is_computed_with(path: &Path, bytes: &[u8], x: &Tensor) -> bool {
    let run = |path: &Path| {
        let plan = map(path, &Limits::default()).unwrap().load().unwrap();
        bits(&plan.context().unwrap().run(&[x.clone()]).unwrap())
    };
    let before = run(path);
    let mut file = std::fs::read(path).unwrap();
    let at = file.windows(bytes.len()).position(|window| window == bytes).unwrap();
    file[at..at + 4].copy_from_slice(&8.0f32.to_le_bytes());
    let other = path.with_extension("other");
    std::fs::write(&other, file).unwrap();
    run(&other) != before
}

#[test]
fn plans_compute_with_the_packed_weights_that_they_store() {
    for (text, shape, names) in [
        (CONVOLUTIONS, &[1, 48, 30, 30][..], &["a", "b", "c"][..]),
        (LINEAR, &[3, 20], &["a"]),
        (ATTENTION, &[2, 9, 16], &["a", "b"]),
    ] {
        for tactics in [&[][..], &["bf16"]] {
            let plan = plan_by(text, tactics);
            let x = Tensor::randn(shape, 3).unwrap();
            let (_folder, path) = saved(&plan);
            let loaded = Plan::load(&path).unwrap();
            let run = |plan: &Plan| bits(&plan.context().unwrap().run(&[x.clone()]).unwrap());
            assert_eq!(run(&loaded), run(&plan), "{text}");
            let packed = packed(&path);
            assert_eq!(packed.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>(), names, "{text}");
            for (name, bytes) in packed {
                assert!(is_computed_with(&path, &bytes, &x), "`{name}` of\n{text}");
            }
        }
    }
}

/// Half the bytes, if the processor multiplies bf16 pairs.
#[test]
fn rounded_weights_are_stored_rounded() {
    let len = |tactics: &[&str]| {
        let (_folder, path) = saved(&plan_by(LINEAR, tactics));
        packed(&path).remove(0).1.len()
    };
    let lines = |factors: usize| 2 * 64 * (factors + 1);
    if ixion::kernels::multiplies_pairs() {
        assert_eq!([len(&[]), len(&["bf16"])], [lines(20), lines(10)]);
    } else {
        assert_eq!(len(&[]), len(&["bf16"]));
    }
}

#[test]
fn winograds_weights_are_stored_transformed() {
    let plan = plan(CONVOLUTIONS);
    let tactic = plan.selections().iter().find(|selection| selection.operator == "a").unwrap();
    let tactic = tactic.candidates[tactic.chosen.unwrap()].tactic.name;
    let side: usize = match tactic {
        "winograd-2x2" => 4,
        "winograd-4x4" => 6,
        "winograd-6x6" => 8,
        other => panic!("{other}"),
    };
    let (_folder, path) = saved(&plan);
    let len = packed(&path).iter().find(|(name, _)| name == "a").unwrap().1.len() / size_of::<f32>();
    assert!(len >= side * side * 48 * 48, "{len} numbers for {tactic}");
}

#[test]
fn a_plan_of_a_loaded_plan_is_the_same() {
    for text in [CONVOLUTIONS, LINEAR, ATTENTION] {
        let (_folder, path) = saved(&plan(text));
        let (_other_folder, other) = saved(&Plan::load(&path).unwrap());
        assert!(std::fs::read(path).unwrap() == std::fs::read(other).unwrap(), "{text}");
    }
}
