//! Warnings about files that contradict their operators: models whose results are right get none.

use crate::common::parallel::each_of;
use crate::common::{conformance_cases, runnable_cases};
use ixion::engine::Builder;
use ixion::graph::RuntimeGraph;
use ixion::shape::contradictions_in;
use ixion::{Limits, Model, Tensor};
use std::fs;
use std::path::{Path, PathBuf};

/// Cases whose files contradict themselves, although the results are right, and why.
const KNOWN: &[(&str, &str)] = &[(
    "onnx_shapes",
    "PNNX guesses the values of a computed size, and records shapes that follow from its guess",
)];

fn name(case: &Path) -> String {
    case.file_name().unwrap().to_string_lossy().into_owned()
}

#[test]
fn files_whose_results_are_right_contradict_nothing() {
    let cases: Vec<PathBuf> = conformance_cases().into_iter().chain(runnable_cases()).collect();
    let found = each_of(&cases, |case| {
        let graph = RuntimeGraph::new(case.join("model.param"));
        let has_weights = case.join("model.bin").is_file();
        let graph = if has_weights { graph } else { graph.with_random_weights(0) };
        contradictions_in(graph).iter().map(ToString::to_string).collect::<Vec<_>>()
    });
    let mut new = Vec::new();
    for (case, found) in cases.iter().zip(found) {
        let is_known = KNOWN.iter().any(|(known, _)| *known == name(case));
        if !is_known {
            new.extend(found.into_iter().map(|text| format!("{}: {text}", name(case))));
        }
    }
    assert!(new.is_empty(), "{} contradictions:\n{}", new.len(), new.join("\n"));
}

#[test]
fn trained_models_contradict_nothing() {
    let models = Path::new(env!("CARGO_MANIFEST_DIR")).join("model_file");
    let mut count = 0;
    for folder in fs::read_dir(models).unwrap() {
        let folder = folder.unwrap().path();
        let param = folder.join(format!("{}.pnnx.param", name(&folder)));
        if param.with_extension("bin").is_file() {
            let found = contradictions_in(RuntimeGraph::new(&param));
            assert!(found.is_empty(), "{}: {found:?}", param.display());
            count += 1;
        }
    }
    assert!(count >= 4, "{count} models");
}

/// PNNX keeps one axis of the constant index `[[0, 1], [1, 0]]`, but the shape of the result.
const INDEX: &str = "7767517\n3 2\npnnx.Input in 0 1 x #x=(2,3)f32\n\
    Tensor.index twice 1 1 x y expr=[[0,1]] #y=(2,2,3)f32\npnnx.Output out 1 0 y\n";

#[test]
fn a_model_knows_what_contradicts_its_file() {
    let folder = tempfile::tempdir().unwrap();
    let param = folder.path().join("model.param");
    fs::write(&param, INDEX).unwrap();
    let mut model = Model::load(&param).unwrap();
    let texts: Vec<String> = model.warnings().iter().map(ToString::to_string).collect();
    let wanted = "model.param:4: Tensor.index `twice` returns 2×3 f32, but the file records 2×2×3 f32";
    assert!(texts.len() == 1 && texts[0].ends_with(wanted), "{texts:?}");
    let x = Tensor::from_vec(vec![1f32; 6], &[2, 3]).unwrap();
    assert_eq!(model.run(&[x]).unwrap()[0].shape().dims(), [2, 3]);
    let plan = folder.path().join("model.plan");
    Builder::new(&param).build().unwrap().save(&plan).unwrap();
    assert!(Model::load(&plan).unwrap().warnings().is_empty());
}

/// A quotient of integers that is recorded as integers is rounded down, whatever runs it.
#[test]
fn floor_divisions_are_restored() {
    let text = "7767517\n3 2\npnnx.Input in 0 1 x #x=(4)i64\n\
        pnnx.Expression e 1 1 x y expr=add(div(@0,2),1) #y=(4)i64\npnnx.Output out 1 0 y\n";
    let file = || ixion::pnnx::Graph::parse(text, &Limits::default()).unwrap();
    let x = || Tensor::from_vec(vec![5i64, -5, 4, -1], &[4]).unwrap();
    let plan = Builder::from_pnnx(file()).build().unwrap();
    assert!(plan.warnings().is_empty(), "{:?}", plan.warnings());
    let planned = plan.context().unwrap().run(&[x()]).unwrap();
    let mut graph = RuntimeGraph::from_pnnx(file());
    graph.build().unwrap();
    let interpreted = graph.run_with(vec![x()]).unwrap();
    for results in [planned, interpreted] {
        assert_eq!(results[0].to_vec::<i64>().unwrap(), [3, -2, 3, 0]);
    }
}

/// PNNX names the query `attn_mask` if the mask was a constant, which it drops.
const MASK: &str = "7767517\n3 2\npnnx.Input in 0 1 x #x=(2,4,8)f32\n\
    nn.MultiheadAttention a 1 1 x y batch_first=True embed_dim=8 num_heads=2 @in_proj_bias=(24)f32 \
    @in_proj_weight=(24,8)f32 @out_proj.bias=(8)f32 @out_proj.weight=(8,8)f32 $attn_mask=x #y=(2,4,8)f32\n\
    pnnx.Output out 1 0 y\n";

#[test]
fn a_dropped_mask_is_an_error_that_names_a_section() {
    let folder = tempfile::tempdir().unwrap();
    let param = folder.path().join("model.param");
    fs::write(&param, MASK).unwrap();
    let error = RuntimeGraph::new(&param).with_random_weights(0).build().unwrap_err().to_string();
    let (_, section) = error.split_once("see \"").unwrap();
    let (section, _) = section.split_once('"').unwrap();
    let book = include_str!("../../book/src/pnnx_losses.md");
    assert!(book.contains(&format!("\n## {section}\n")), "{error}");
}
