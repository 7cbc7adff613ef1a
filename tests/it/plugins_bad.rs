//! Misbehaving plugins: each must end in an error that names the plugin and the problem; never in a crash, a hang or a wrong
//! result.

use crate::common::compiler;
use ixion::Limits;
use ixion::engine::{Builder, Context, EngineError, Plan, PlanFile};
use ixion::graph::RuntimeGraph;
use ixion::op::Registry;
use ixion::plugin::{Plugin, PluginError, PluginProblem};
use ixion::pnnx::Graph;
use ixion::tensor::{DType, Tensor};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Long enough for everything that returns, even on a busy machine.
const TIMEOUT: Duration = Duration::from_millis(1000);

/// Loads the plugin with this defect.
fn load(defect: &str) -> Result<Plugin, PluginError> {
    let folder = tempfile::tempdir().unwrap();
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/plugins/bad.c");
    let library = compiler::library(&source, folder.path(), &[format!("-DDEFECT={defect}")]);
    // SAFETY: the plugin has defects, but its pointers are valid.
    unsafe { Plugin::load(library) }
}

fn load_file(path: &Path) -> String {
    // SAFETY: none of these files is a library.
    let error = unsafe { Plugin::load(path) }.unwrap_err();
    assert!(error.to_string().starts_with(&path.display().to_string()), "{error}");
    error.to_string()
}

fn registry(defect: &str) -> Registry {
    let mut registry = Registry::default();
    load(defect).unwrap().register(&mut registry).unwrap();
    registry
}

/// Tests all defects in parallel: after compilation, they mostly wait.
fn at_once(defects: &[&str], test: impl Fn(&str) + Sync) {
    std::thread::scope(|scope| {
        for defect in defects {
            scope.spawn(|| test(defect));
        }
    });
}

fn model(params: &str) -> Graph {
    let text = format!(
        "7767517\n4 3\npnnx.Input in 0 1 x #x=(?,3)f32\nmy.Bad bad 1 1 x y {params}\nnn.ReLU relu 1 1 y z\npnnx.Output out 1 0 z\n"
    );
    Graph::parse(&text, &Limits::default()).unwrap()
}

fn x(first: f32) -> Tensor {
    Tensor::from_vec(vec![first, 1.0, 2.0], &[1, 3]).unwrap()
}

fn build(defect: &str) -> Result<Plan, EngineError> {
    Builder::from_pnnx(model("")).with_registry(registry(defect)).build()
}

/// Builds, creates a context and runs.
fn run(defect: &str) -> Result<Vec<Tensor>, EngineError> {
    build(defect)?.context()?.run(&[x(-1.0)])
}

/// Runs without the engine.
fn interpret(defect: &str) -> Result<Vec<Tensor>, ixion::graph::GraphError> {
    let mut graph = RuntimeGraph::from_pnnx(model("")).with_registry(registry(defect));
    graph.build()?;
    graph.run_with(vec![x(-1.0)])
}

#[test]
fn without_a_defect_it_works() {
    for outputs in [run("NONE").unwrap(), interpret("NONE").unwrap()] {
        assert_eq!(outputs[0].to_vec::<f32>().unwrap(), [0.0, 1.0, 2.0]);
    }
}

#[test]
fn a_table_of_a_later_version_is_fine() {
    assert_eq!(run("LARGER").unwrap()[0].to_vec::<f32>().unwrap(), [0.0, 1.0, 2.0]);
}

#[test]
fn files_that_are_not_plugins_are_rejected() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    assert!(load_file(&path("missing.so")).contains("no such file"));
    std::fs::write(path("text.so"), "not a library").unwrap();
    std::fs::write(path("empty.so"), "").unwrap();
    let folder: PathBuf = folder.path().to_owned();
    for wrong in [path("text.so"), path("empty.so"), folder.clone()] {
        assert!(load_file(&wrong).contains("cannot be loaded"));
    }
    let source = folder.join("other.c");
    std::fs::write(&source, "int other(void);\nint other(void) { return 1; }\n").unwrap();
    let other = compiler::library(&source, &folder, &[]);
    assert!(load_file(&other).contains("no symbol `ixion_plugin`"));
    // The path goes through a file instead of a folder.
    let error = load_file(&other.join("inner.so"));
    assert!(error.contains("cannot be loaded") || cfg!(not(unix)), "{error}");
}

#[test]
fn tables_that_cannot_be_right_are_refused() {
    let defects = [
        ("NO_TABLE", "no table for version 1"),
        ("VERSION", "uses version 2 of the plugin interface, this Ixion uses version 1; rebuild it"),
        ("SIZE", "the `size` of its table is 4 bytes, expected at least "),
        ("NO_OPERATORS", "it has no operators"),
        ("NULL_OPERATOR", "operator 0: its description is null"),
        ("TOO_MANY", "at most 4096 are allowed"),
        ("OPERATOR_SIZE", "operator 0: the `size` of its table is 8 bytes, expected at least "),
        ("SMALLER", "the `size` of its table is 39 bytes, expected at least 40; set it with sizeof"),
        ("OPERATOR_SMALLER", "operator 0: the `size` of its table is "),
        ("OPERATORS_ODD", "the list of operators is not aligned"),
        ("NULL_TYPE", "operator 0: its type is null"),
        ("LONG_TYPE", "operator 0: its type is longer than 1024 bytes"),
        ("NOT_UTF8", "operator 0: its type is not UTF-8"),
        ("BLANK", "its type, \"my bad\", has a blank"),
        ("EMPTY_VERSION", "`my.Bad`: its version is empty"),
        ("OWN_NAMESPACE", "`my.Bad`: its namespace is Ixion's own"),
        ("TWICE", "it has `tests/my.Bad/1` twice"),
        ("NULL_CREATE", "`my.Bad`: its function `create` is null"),
        ("NULL_FORWARD", "`my.Bad`: its function `forward` is null"),
        ("NULL_FIELDS", "`my.Bad`: the list of fields is null"),
        ("FIELD_KIND", "field `a` has the unknown kind 55"),
        ("FIELD_TWICE", "it has the field `a` twice"),
        ("FALLBACK", "the fallback of field `a`, `many`, is not an integer"),
        ("FLAGS", "unknown flags: 0x8"),
        ("COUNTS", "at least 3 and at most 1 inputs"),
    ];
    for (defect, wanted) in defects {
        let error = load(defect).unwrap_err();
        let is_named = matches!(
            error.problem,
            PluginProblem::Broken { .. } | PluginProblem::Version { .. } | PluginProblem::NoTable
        );
        assert!(is_named && error.to_string().contains(wanted), "{defect}: {error}");
    }
}

#[test]
fn a_plugin_that_is_there_already_is_refused() {
    let mut registry = registry("NONE");
    let before = registry.names();
    let error = load("NONE").unwrap().register(&mut registry).unwrap_err();
    assert!(matches!(error.problem, PluginProblem::Twice(_)), "{error}");
    assert!(error.to_string().contains("already registered for `tests/my.Bad/1`"), "{error}");
    assert_eq!(registry.names(), before);
}

#[test]
fn fields_that_are_wrong_are_named() {
    let registry = registry("NONE");
    for (params, wanted) in [
        ("a=x", "parameter `a`: expected an integer, got `x`"),
        ("a=1.5", "parameter `a`: expected an integer, got `1.5`"),
        ("b=(1,x)", "parameter `b`: expected a list of numbers, got `(1,x)`"),
        ("c=1", "unknown parameters: `c`; supported: `a`, `b`"),
    ] {
        let error = Builder::from_pnnx(model(params)).with_registry(registry.clone()).build().unwrap_err();
        let error = error.to_string();
        assert!(error.contains("tests/my.Bad/1 `bad` cannot be built") && error.contains(wanted), "{error}");
    }
}

#[test]
fn failures_and_contract_violations_name_the_operator() {
    let defects = [
        ("CREATE_FAILS", "cannot be built: the moon is full"),
        ("CREATE_NULL", "null from `create`"),
        ("CLONE_FAILS", "it could not be cloned: sheep only"),
        ("INFER_FAILS", "no shape pleases me"),
        ("INFER_DTYPE", "output 0: an element type such as IXION_F32, got 99"),
        ("INFER_RANK", "output 0: 0 to 8 axes, got 9"),
        ("INFER_LENGTH", "got -5"),
        ("INFER_UNKNOWN", "known output lengths for inputs of known lengths"),
        ("INFER_HUGE", "`bad`"),
        ("CONFIGURE_FAILS", "cannot be configured: not in the mood"),
        ("WORKSPACE_HUGE", "its workspace: 18446744073709551615"),
        ("WORKSPACE_PAST", "16 bytes of its scratch memory, got a write past their end"),
        ("INITIALIZE_FAILS", "cannot be initialised: too early in the day"),
        ("FORWARD_FAILS", "failed: numbers make me \u{fffd} dizzy"),
        ("FORWARD_SILENT", "failed: it gave no reason"),
        ("FORWARD_STATUS", "a status such as IXION_FAILED, got 77"),
        ("FORWARD_STOPS", "it returned IXION_STOPPED, but the run was not stopped"),
    ];
    for (defect, wanted) in defects {
        let error = run(defect).unwrap_err().to_string();
        assert!(error.contains("tests/my.Bad/1 `bad`") && error.contains(wanted), "{defect}: {error}");
        if !matches!(defect, "CLONE_FAILS" | "WORKSPACE_HUGE") {
            let error = interpret(defect).unwrap_err().to_string();
            assert!(error.contains("tests/my.Bad/1 `bad`") && error.contains(wanted), "{defect}: {error}");
        }
    }
    let error = interpret("WORKSPACE_HUGE").unwrap_err().to_string();
    assert!(error.contains("`bad`") && error.contains("workspace: 18446744073709551615"), "{error}");
}

#[test]
fn formats_that_it_refuses_are_listed() {
    let error = run("SUPPORTS_NOTHING").unwrap_err().to_string();
    assert!(
        error.contains("tests/my.Bad/1 `bad`") && error.contains("input 0 (`x`): takes nothing"),
        "{error}"
    );
    let error = interpret("SUPPORTS_NOTHING").unwrap_err().to_string();
    assert!(error.contains("input 0 is f32, which its `supports` rejects"), "{error}");
}

#[test]
fn invalid_states_are_detected() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.plan");
    for (defect, wanted) in [
        ("STATE_PAST", "8 bytes of its state, got a write past their end"),
        ("STATE_LESS", "8 bytes of state, got 7"),
        ("STATE_HUGE", "the state of a layer: 18446744073709551615"),
    ] {
        let error = build(defect).unwrap().save(&path).unwrap_err().to_string();
        assert!(
            error.contains("`bad` cannot store its state") && error.contains(wanted),
            "{defect}: {error}"
        );
        assert!(!path.exists());
    }
    build("NONE").unwrap().save(&path).unwrap();
    let plan =
        PlanFile::open(&path, &Limits::default()).unwrap().with_registry(registry("NONE")).load().unwrap();
    assert!(plan.context().unwrap().run(&[x(1.0)]).is_ok());
}

#[test]
fn a_layer_that_never_returns_is_abandoned_with_its_context() {
    let plan = build("FORWARD_HANGS").unwrap();
    let mut context = plan.context().unwrap();
    context.set_timeout(Some(TIMEOUT));
    assert_eq!(context.run(&[x(-1.0)]).unwrap()[0].to_vec::<f32>().unwrap(), [0.0, 1.0, 2.0]);
    let start = Instant::now();
    let error = context.run(&[x(1.0)]).unwrap_err();
    assert!(matches!(&error, EngineError::Stuck { place } if place.name == "bad"), "{error}");
    assert!(error.to_string().contains("tests/my.Bad/1 `bad` did not return in time"), "{error}");
    assert!(start.elapsed() < 10 * TIMEOUT);
    // Not even with a good input, and without waiting.
    let start = Instant::now();
    let error = context.run(&[x(-1.0)]).unwrap_err();
    assert!(matches!(error, EngineError::Stuck { .. }) && start.elapsed() < TIMEOUT, "{error}");
    drop(context);
    let mut other = plan.context().unwrap();
    assert!(other.run(&[x(-1.0)]).is_ok(), "the plan is still usable");
}

#[test]
fn a_cancelled_layer_that_never_returns_is_abandoned_too() {
    let plan = build("FORWARD_HANGS").unwrap();
    let mut context = plan.context().unwrap();
    context.set_timeout(Some(Duration::from_secs(600)));
    let token = context.cancel_token();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            std::thread::sleep(TIMEOUT / 4);
            token.cancel();
        });
        assert!(matches!(context.run(&[x(1.0)]), Err(EngineError::Stuck { .. })));
    });
}

#[test]
fn the_interpreter_abandons_it_too() {
    let mut graph = RuntimeGraph::from_pnnx(model("")).with_registry(registry("FORWARD_HANGS"));
    graph.build().unwrap();
    for _ in 0..2 {
        graph.set_limits(Limits::default().with_timeout(TIMEOUT));
        let error = graph.run_with(vec![x(1.0)]).unwrap_err().to_string();
        assert!(error.contains("`bad`") && error.contains("the layer did not return in time"), "{error}");
    }
}

#[test]
fn building_does_not_wait_for_it_either() {
    at_once(&["CREATE_HANGS", "INFER_HANGS", "SUPPORTS_HANGS", "INITIALIZE_HANGS"], |defect| {
        let registry = registry(defect);
        let start = Instant::now();
        let limits = Limits::default().with_timeout(TIMEOUT);
        let error = Builder::from_pnnx(model("")).with_registry(registry).with_limits(limits).build();
        let error = error.unwrap_err().to_string();
        assert!(error.contains("`bad`") && error.contains("did not return in time"), "{defect}: {error}");
        assert!(start.elapsed() < 10 * TIMEOUT, "{defect}");
    });
}

#[test]
fn supports_can_be_stopped() {
    let registry = registry("SUPPORTS_OBEYS");
    let builder = Builder::from_pnnx(model("")).with_registry(registry);
    let error = builder.with_limits(Limits::default().with_timeout(TIMEOUT)).build().unwrap_err();
    assert!(matches!(&error, EngineError::TimedOut { place } if place.name == "bad"), "{error}");
}

#[cfg(target_os = "linux")]
#[test]
fn a_missing_symbol_is_detected_on_loading() {
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("other.c");
    let text = "int nowhere(void);\nint ixion_plugin(void);\n\
        __attribute__((visibility(\"default\"))) int ixion_plugin(void) { return nowhere(); }\n";
    std::fs::write(&source, text).unwrap();
    let library = compiler::library(&source, folder.path(), &["-Wl,-z,lazy".to_owned()]);
    let error = load_file(&library);
    assert!(error.contains("cannot be loaded") && error.contains("nowhere"), "{error}");
}

/// A matrix of ones with this number of rows.
fn rows(count: usize) -> Tensor {
    Tensor::ones(DType::F32, &[count, 3]).unwrap()
}

#[test]
fn a_layer_that_stops_when_told_is_not_abandoned() {
    let plan = build("FORWARD_OBEYS").unwrap();
    let mut context = plan.context().unwrap();
    context.set_timeout(Some(TIMEOUT / 4));
    let error = context.run(&[x(1.0)]).unwrap_err();
    assert!(matches!(&error, EngineError::TimedOut { place } if place.name == "bad"), "{error}");
    context.set_timeout(Some(Duration::from_secs(600)));
    let error = cancelled_run(&mut context, x(1.0));
    assert!(matches!(&error, EngineError::Cancelled { place } if place.name == "bad"), "{error}");
    assert!(context.run(&[x(-1.0)]).is_ok());
}

/// The error of a run that is cancelled shortly after its start.
fn cancelled_run(context: &mut Context, input: Tensor) -> EngineError {
    let token = context.cancel_token();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            std::thread::sleep(TIMEOUT / 4);
            token.cancel();
        });
        context.run(&[input]).unwrap_err()
    })
}

#[test]
fn all_functions_can_be_stopped() {
    let plan = build("INFER_OBEYS").unwrap();
    let mut context = plan.context().unwrap();
    context.set_timeout(Some(TIMEOUT / 4));
    let error = context.run(&[rows(7)]).unwrap_err();
    assert!(matches!(&error, EngineError::TimedOut { place } if place.name == "bad"), "{error}");
    context.set_timeout(Some(100 * TIMEOUT));
    assert!(context.run(&[rows(2)]).is_ok());
    let error = cancelled_run(&mut context, rows(7));
    assert!(matches!(&error, EngineError::Cancelled { place } if place.name == "bad"), "{error}");
    assert!(context.run(&[rows(3)]).is_ok(), "the cancellation applied to one run");
}

#[test]
fn a_layer_stuck_in_one_context_works_in_others() {
    at_once(&["INFER_HANGS_AT_7", "CLONE_HANGS"], |defect| {
        let bad = rows(if defect == "CLONE_HANGS" { 1 } else { 7 });
        let plan = build(defect).unwrap();
        let (mut one, mut other) = (plan.context().unwrap(), plan.context().unwrap());
        one.set_timeout(Some(TIMEOUT));
        let errors = [one.run(&[bad.clone()]).unwrap_err(), one.run(&[bad]).unwrap_err()];
        assert!(matches!(errors[1], EngineError::Stuck { .. }), "{defect}: {errors:?}");
        for timeout in [None, Some(100 * TIMEOUT)] {
            other.set_timeout(timeout);
            let shape = [2 + usize::from(timeout.is_some()), 3];
            let outputs = other.run(&[Tensor::zeros(DType::F32, &shape).unwrap()]).unwrap();
            assert_eq!(outputs[0].shape().iter().as_slice(), shape, "{defect}");
        }
        let start = Instant::now();
        drop((one, other));
        drop(plan);
        assert!(start.elapsed() < TIMEOUT, "{defect}: nothing waits for it at the end");
    });
}

#[test]
fn threads_of_a_plan_keep_to_its_deadline() {
    let text = "7767517\n5 4\npnnx.Input in 0 1 x #x=(?)f32\npnnx.Input mask 0 1 m #m=(?)bool\n\
        torch.masked_select select 2 1 x m y\nmy.Bad bad 1 1 y z\npnnx.Output out 1 0 z\n";
    let graph = Graph::parse(text, &Limits::default()).unwrap();
    let builder = Builder::from_pnnx(graph).with_registry(registry("INFER_HANGS_AT_7"));
    let plan = builder.with_threads(2).build().unwrap();
    let mut context = plan.context().unwrap();
    let mut run = |count: usize| {
        context.set_timeout(Some(TIMEOUT));
        let mask = Tensor::ones(DType::Bool, &[count]).unwrap();
        context.run(&[Tensor::ones(DType::F32, &[count]).unwrap(), mask])
    };
    assert_eq!(run(3).unwrap()[0].to_vec::<f32>().unwrap(), [1.0; 3]);
    let error = run(7).unwrap_err();
    assert!(matches!(&error, EngineError::Stuck { place } if place.name == "bad"), "{error}");
}
