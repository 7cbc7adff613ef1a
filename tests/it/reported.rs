//! Situations that users of exporters and runtimes have reported in public: each has a case of our own, which runs, or about
//! which Ixion says what is wrong. `tests/export/families` has the scripts; models that cannot be right are in `tests/told`.

use crate::common::MODES;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// What becomes of a model.
#[derive(Debug, Clone, Copy)]
enum Fate {
    /// It gives PyTorch's results.
    Passes,
    /// As [`Fate::Passes`], and `ixion convert` writes it as Python.
    Converts,
    /// It runs, with a warning that contains this text.
    Warned(&'static str),
    /// It is refused, with an error that contains this text.
    Refused(&'static str),
}

use Fate::{Converts, Passes, Refused, Warned};

/// The situations, the cases that have them, and what becomes of these.
const SITUATIONS: &[(&str, &[&str], Fate)] = &[
    (
        "a static export gets another batch",
        &["another_batch_than_exported"],
        Refused("input `pnnx_input_0` is 3×2×3×4, but the model was exported with 1×2×3×4"),
    ),
    (
        "interpolation with a filter against aliasing, of position embeddings",
        &["antialiased", "antialiased_at_any_size", "antialiased_position_embeddings"],
        Passes,
    ),
    ("pooling with windows of the size of the map", &["pooling_of_the_whole_map"], Passes),
    ("a causal mask behind cached keys", &["causal_attention_behind_a_cache"], Passes),
    ("eye, tril_indices, windows, cartesian_prod, logspace of any size", &["tables_of_any_size"], Passes),
    ("coordinates by linspace of a size", &["grids_by_linspace", "constants_of_any_size"], Passes),
    ("greedy decoding of a recogniser", &["greedy_decoding"], Passes),
    ("a centred spectrum", &["centred_spectrum"], Passes),
    ("a quotient that is rounded down, as an index", &["floor_divisions_of_integers"], Passes),
    ("features of a picture in place of the markers of a text", &["features_in_place_of_markers"], Passes),
    ("istft to a length", &["istft_to_a_length", "istft_to_any_length"], Passes),
    ("layer_norm over a shape that is computed", &["norm_over_a_shape_of_its_own"], Passes),
    (
        "a module that is called twice, at level 0",
        &["convolution_called_twice_level0", "level0_modules_called_twice"],
        Passes,
    ),
    ("losses as scores", &["scores_of_an_autoencoder", "scores_of_any_batch", "losses_of_elements"], Passes),
    ("narrow by sizes", &["middle_of_a_sequence"], Passes),
    ("nearest-exact to the size of another map", &["nearest_exact_at_any_size"], Passes),
    (
        "boxes without those that overlap",
        &["torchvision_ops_nms", "batched_nms", "nms_of_classes", "nms_of_classes_level0"],
        Passes,
    ),
    ("experts of chosen groups", &["experts_of_chosen_groups"], Passes),
    ("an enhancer of sound that keeps its states", &["enhancer_with_its_states"], Passes),
    ("an LSTM without its cell, as Python", &["hidden_state_without_the_cell"], Converts),
    (
        "operators that stay as in TorchScript, as Python",
        &["operators_that_stay_as_in_torchscript"],
        Converts,
    ),
    ("rows assigned in a loop, as Python", &["rows_assigned_in_a_loop"], Converts),
    ("thresholds by quantile, and the mode", &["thresholds_and_modes", "quantiles_of_any_size"], Passes),
    ("scatter that multiplies", &["scattered_products"], Passes),
    ("a script with a branch", &["branch_of_a_script"], Refused("trace the model")),
    (
        "a constant index that lost an axis",
        &["index_that_lost_an_axis"],
        Warned("returns 3×2 f32, but the file records 3×2×2 f32"),
    ),
    (
        "sums over the neighbours in a graph, added in place",
        &["counts_added_in_place"],
        Warned("writes into the constant `3`, in which PNNX's sample is written already"),
    ),
    (
        "pre-emphasis of sound of any length",
        &["pre_emphasis_that_lost_its_slices"],
        Warned("reads `0` by two names, as if it were two tensors"),
    ),
    (
        "the statistics of the batch",
        &["F_batch_norm_by_the_batch", "F_batch_norm_by_the_batch_level0"],
        Passes,
    ),
    ("the best share of all elements", &["best_third"], Passes),
    ("unique with places and counts", &["unique_elements", "clusters_of_points"], Passes),
];

/// The folder of a case.
fn folder(case: &str) -> PathBuf {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests");
    let folders = ["cases", "told"].map(|parent| tests.join(parent).join(case));
    let found = folders.into_iter().find(|folder| folder.is_dir());
    found.unwrap_or_else(|| panic!("there is no case `{case}`"))
}

fn ixion(args: &[&str], options: &[&str], paths: &[PathBuf]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ixion"));
    command.args(args).args(options).args(paths).env_remove("RUST_LOG").output().unwrap()
}

/// The messages of a run of a case.
fn run(case: &str, options: &[&str]) -> (Option<i32>, String) {
    let [model, arrays] = ["model.param", "arrays.npz"].map(|file| folder(case).join(file));
    let output = ixion(&["run", &model.to_string_lossy(), "-i", &arrays.to_string_lossy()], options, &[]);
    (output.status.code(), String::from_utf8(output.stderr).unwrap())
}

#[test]
fn cases_of_reported_situations_pass_in_every_mode() {
    let passes = |fate: Fate| matches!(fate, Passes | Converts);
    let cases = SITUATIONS.iter().filter(|(_, _, fate)| passes(*fate)).flat_map(|(_, cases, _)| *cases);
    let folders: Vec<PathBuf> = cases.map(|case| folder(case)).collect();
    for (mode, options) in MODES {
        let output = ixion(&["verify"], options, &folders);
        let printed = String::from_utf8(output.stdout).unwrap();
        assert!(output.status.success(), "{mode}: {printed}");
        assert!(printed.ends_with(&format!("\n{} passed, 0 failed\n", folders.len())), "{mode}: {printed}");
    }
}

#[test]
fn what_cannot_be_right_is_told_in_every_mode() {
    for (situation, cases, fate) in SITUATIONS {
        let (runs, text) = match fate {
            Warned(text) => (true, *text),
            Refused(text) => (false, *text),
            Passes | Converts => continue,
        };
        for (case, (mode, options)) in cases.iter().flat_map(|case| MODES.map(|mode| (case, mode))) {
            let (code, printed) = run(case, options);
            assert_eq!(code == Some(0), runs, "{situation}, {mode}: {code:?}: {printed}");
            assert!(printed.contains(text), "{situation}, {mode}: {printed}");
            let verified = ixion(&["verify"], options, &[folder(case)]);
            assert!(!verified.status.success(), "{situation}, {mode}: {verified:?}");
        }
    }
}

#[test]
fn reported_models_become_python() {
    let written = tempfile::tempdir().unwrap();
    for (situation, cases, _) in SITUATIONS.iter().filter(|(_, _, fate)| matches!(fate, Converts)) {
        for case in *cases {
            let python = written.path().join(format!("{case}.py"));
            let output =
                ixion(&["convert"], &["--python"], &[python.clone(), folder(case).join("model.param")]);
            assert!(output.status.success(), "{situation}: {output:?}");
            let text = std::fs::read_to_string(&python).unwrap();
            assert!(!text.contains("NotImplementedError"), "{situation}: {text}");
        }
    }
}

#[test]
fn no_situation_is_forgotten() {
    assert_eq!(SITUATIONS.len(), 31);
    let told = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/told");
    for entry in std::fs::read_dir(told).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        let known = SITUATIONS.iter().any(|(_, cases, _)| cases.contains(&name.as_str()));
        assert!(known, "{name}");
    }
}
