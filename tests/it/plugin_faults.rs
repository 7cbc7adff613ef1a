//! Plugins that panic or break their contract: every fault is an error that names the type and the operator, and nothing else
//! is affected.

use ixion::Limits;
use ixion::engine::{Builder, Calibration, Method, PlanFile, Precision};
use ixion::graph::RuntimeGraph;
use ixion::op::{
    Cost, CpuLayer, Creator, ForwardContext, Io, Layer, LayerError, OperatorReader, Registry, Tactic,
    TensorFormat, TensorMeta, View,
};
use ixion::pnnx::Graph;
use ixion::tensor::{DType, Layout, Shape, Tensor, TensorView, TensorViewMut};
use std::error::Error;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The identity, with one fault.
#[derive(Debug)]
struct Faulty {
    fault: String,
    initialized: Arc<AtomicUsize>,
}

impl Faulty {
    fn has(&self, fault: &str) -> bool {
        self.fault == fault
    }

    /// Panics if the fault is a panic in this method.
    fn enter(&self, method: &str) {
        assert!(self.fault != format!("panic_in_{method}"), "boom in {method}");
    }
}

impl Clone for Faulty {
    fn clone(&self) -> Self {
        self.enter("clone");
        Self { fault: self.fault.clone(), initialized: Arc::clone(&self.initialized) }
    }
}

impl Drop for Faulty {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            self.enter("drop");
        }
    }
}

impl Layer for Faulty {
    fn num_inputs(&self) -> RangeInclusive<usize> {
        self.enter("num_inputs");
        1..=1
    }

    fn num_outputs(&self) -> usize {
        self.enter("num_outputs");
        if self.has("endless_outputs") { usize::MAX } else { 1 }
    }

    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>, LayerError> {
        self.enter("infer");
        match self.fault.as_str() {
            "two_outputs" => Ok(vec![inputs[0].clone(); 2]),
            "no_outputs" => Ok(Vec::new()),
            "huge" => Ok(vec![inputs[0].with_dims([1i64 << 40, 1 << 40])]),
            "many_axes" => Ok(vec![inputs[0].with_dims([1i64; 100])]),
            "negative" => Ok(vec![inputs[0].with_dims([-3i64])]),
            _ => Ok(vec![inputs[0].clone()]),
        }
    }

    fn view(&self, _: usize, _: &[Layout], shape: &Shape) -> Result<Option<View>, LayerError> {
        self.enter("view");
        let view = |input, layout| Ok(Some(View { input, layout }));
        match self.fault.as_str() {
            "view_of_nothing" => view(7, Layout::contiguous(*shape)),
            "view_of_another_shape" => view(0, Layout::contiguous(Shape::new(&[1])?)),
            "view_beyond" => view(0, Layout::strided(*shape, &[1 << 20, 1], 0)?),
            _ => Ok(None),
        }
    }

    fn in_place(&self, _: usize) -> Option<usize> {
        self.enter("in_place");
        match self.fault.as_str() {
            "in_place_of_nothing" => Some(9),
            "panic_in_forward_in_place" | "in_place_not_there" => Some(0),
            _ => None,
        }
    }

    fn parts(&self, _: &[TensorMeta], _: &Layout) -> Result<Option<Vec<Layout>>, LayerError> {
        self.enter("parts");
        Ok(None)
    }

    fn is_data_dependent(&self) -> bool {
        self.enter("is_data_dependent");
        self.fault.starts_with("dynamic") || self.has("panic_in_forward_dynamic")
    }

    fn cost(&self, inputs: &[TensorMeta], outputs: &[TensorMeta]) -> Cost {
        self.enter("cost");
        Cost::of_moving(inputs, outputs)
    }
}

impl CpuLayer for Faulty {
    fn supports(&self, position: usize, formats: &[TensorFormat]) -> bool {
        self.enter("supports");
        formats[position] == formats[0] && formats[0].format == ixion::tensor::Format::Plain
    }

    fn is_pointwise(&self) -> bool {
        self.enter("is_pointwise");
        false
    }

    fn tactics(&self) -> Vec<Tactic> {
        self.enter("tactics");
        if self.has("no_tactics") {
            return Vec::new();
        }
        vec![Tactic::DEFAULT, Tactic { id: 1, name: "other" }]
    }

    fn set_tactic(&mut self, _: u32) -> Result<(), LayerError> {
        self.enter("set_tactic");
        Ok(())
    }

    fn efficiency(&self, _: &[TensorMeta], _: &[TensorMeta]) -> f64 {
        self.enter("efficiency");
        if self.has("endless") { f64::NAN } else { 1.0 }
    }

    fn configure(&mut self, inputs: &[TensorMeta], _: &[TensorMeta]) -> Result<(), LayerError> {
        self.enter("configure");
        if is_int8(inputs) {
            self.enter("configure_of_int8");
        }
        Ok(())
    }

    fn workspace(&self, inputs: &[TensorMeta], _: &[TensorMeta]) -> usize {
        self.enter("workspace");
        match self.fault.as_str() {
            "large_workspace_of_int8" if is_int8(inputs) => 1 << 20,
            "small_workspace" => 8,
            "huge_workspace" => usize::MAX,
            _ => 64,
        }
    }

    fn initialize(&mut self) -> Result<(), LayerError> {
        self.enter("initialize");
        if self.has("no_initialize") {
            return Err(LayerError::Unsupported("it does not want to".to_owned()));
        }
        self.initialized.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    fn terminate(&mut self) {
        self.initialized.fetch_sub(1, Ordering::Relaxed);
        self.enter("terminate");
    }

    fn serialize(&self) -> Result<Vec<u8>, LayerError> {
        self.enter("serialize");
        Ok(vec![1])
    }

    fn deserialize(&mut self, _: &[u8]) -> Result<(), LayerError> {
        self.enter("deserialize");
        Ok(())
    }

    fn forward(&mut self, io: &mut Io<'_, '_>) -> Result<(), LayerError> {
        self.enter("forward");
        if io.inputs[0].dtype() == DType::I8 {
            self.enter("forward_of_int8");
        }
        io.context.scratch::<f32>(16)?;
        Ok(io.outputs[0].copy_from(&io.inputs[0])?)
    }

    fn forward_dynamic(
        &mut self,
        inputs: &[TensorView<'_>],
        _: &mut ForwardContext<'_>,
    ) -> Result<Vec<Tensor>, LayerError> {
        self.enter("forward_dynamic");
        let x = inputs[0].to_tensor()?;
        Ok(match self.fault.as_str() {
            "dynamic_of_two" => vec![x.clone(), x],
            "dynamic_of_another_type" => vec![x.cast(DType::F64)?],
            "dynamic_of_another_shape" => vec![Tensor::zeros(DType::F32, &[1])?],
            _ => vec![x],
        })
    }

    fn forward_in_place(
        &mut self,
        _: &mut TensorViewMut<'_>,
        _: &[TensorView<'_>],
        _: &mut ForwardContext<'_>,
    ) -> Result<(), LayerError> {
        self.enter("forward_in_place");
        Err(LayerError::Unsupported("cannot work in place".to_owned()))
    }
}

fn is_int8(metas: &[TensorMeta]) -> bool {
    metas.iter().any(|meta| meta.dtype() == DType::I8)
}

/// All layers and the faulty one, and the number of initialised layers.
fn registry() -> (Registry, Arc<AtomicUsize>) {
    let (mut registry, initialized) = (Registry::default(), Arc::new(AtomicUsize::new(0)));
    let counter = Arc::clone(&initialized);
    let create = move |reader: &mut OperatorReader<'_>| {
        let fault = reader.param("fault").map_or_else(String::new, |fault| fault.raw().to_owned());
        assert!(fault != "panic_in_create", "boom in create");
        Ok(Box::new(Faulty { fault, initialized: Arc::clone(&counter) }) as Box<dyn CpuLayer>)
    };
    registry.add_plugin("Faulty", Creator::new("test", "1", create)).unwrap();
    (registry, initialized)
}

fn model(faults: &[&str]) -> Graph {
    let count = faults.len();
    let mut text = format!("7767517\n{} {}\npnnx.Input in 0 1 x0 #x0=(2,3)f32\n", count + 3, count + 2);
    text += "F.relu relu 1 1 x0 y0\n";
    for (index, fault) in faults.iter().enumerate() {
        text += &format!("Faulty it{index} 1 1 y{index} y{} fault={fault}\n", index + 1);
    }
    Graph::parse(&format!("{text}pnnx.Output out 1 0 y{count}\n"), &Limits::default()).unwrap()
}

fn x() -> Tensor {
    Tensor::ones(DType::F32, &[2, 3]).unwrap()
}

/// Measures the loss of int8.
fn calibrated(faults: &[&str]) -> Result<f64, Box<dyn Error>> {
    let (registry, initialized) = registry();
    let limits = Limits { max_tensor_bytes: 1 << 16, ..Limits::default() };
    let builder = Builder::from_pnnx(model(faults)).with_registry(registry).with_limits(limits);
    let mut calibration = Calibration::new(builder)?;
    let plain = initialized.load(Ordering::Relaxed);
    calibration.see_range(vec![x()])?;
    let scales = calibration.scales(Method::MinMax);
    let seen = (0..2).try_for_each(|_| calibration.see_loss(vec![x()], &scales));
    let decibels = calibration.losses().iter().map(|loss| loss.decibels()).fold(f64::INFINITY, f64::min);
    let measured = calibration.losses().iter().filter(|loss| loss.operator.starts_with("it")).count();
    assert_eq!(initialized.load(Ordering::Relaxed), plain + measured, "{faults:?}");
    drop(calibration);
    assert_eq!(initialized.load(Ordering::Relaxed), 0, "{faults:?}");
    Ok(seen.map(|()| decibels)?)
}

type Done = Result<Tensor, Box<dyn Error>>;

/// Builds, saves, loads and runs.
fn planned(faults: &[&str]) -> Done {
    let (registry, _) = registry();
    let builder = Builder::from_pnnx(model(faults)).with_registry(registry.clone());
    let plan = builder.with_precisions([Precision::F16]).build()?;
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("x.plan");
    plan.save(&path)?;
    let plan = PlanFile::open(&path, &Limits::default())?.with_registry(registry).load()?;
    let mut context = plan.context()?;
    Ok(context.run(&[x()])?.remove(0))
}

fn interpreted(faults: &[&str]) -> Done {
    let mut graph = RuntimeGraph::from_pnnx(model(faults)).with_registry(registry().0);
    graph.build()?;
    graph.set_input("in", x())?;
    graph.run_traced()?;
    Ok(graph.output_values()?.remove(0))
}

/// An error with its causes.
fn message(error: &dyn Error) -> String {
    let causes = std::iter::successors(Some(error), |&error| error.source());
    causes.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}

fn refused(done: Done, what: &str) -> String {
    let error = match done {
        Ok(_) => panic!("{what}"),
        Err(error) => error,
    };
    let message = message(&*error);
    assert!(message.contains("test/Faulty/1 `it0`"), "{what}: {message}");
    message
}

#[test]
fn without_a_fault_everything_works() {
    assert_eq!(planned(&[""]).unwrap(), x());
    assert_eq!(interpreted(&[""]).unwrap(), x());
}

#[test]
fn a_panic_in_any_method_is_an_error_that_names_the_operator() {
    const EVERYWHERE: [&str; 10] = [
        "create",
        "num_inputs",
        "num_outputs",
        "infer",
        "view",
        "is_data_dependent",
        "configure",
        "workspace",
        "initialize",
        "forward_dynamic",
    ];
    const PLANNED: [&str; 13] = [
        "supports",
        "is_pointwise",
        "tactics",
        "set_tactic",
        "efficiency",
        "cost",
        "clone",
        "serialize",
        "deserialize",
        "in_place",
        "parts",
        "forward_in_place",
        "forward",
    ];
    for method in EVERYWHERE.into_iter().chain(PLANNED) {
        let fault = format!("panic_in_{method}");
        let error = refused(planned(&[&fault]), &fault);
        assert!(error.contains(&format!("panicked: boom in {method}")), "{error}");
        assert!(error.contains("this is a bug in the layer"), "{error}");
        if EVERYWHERE.contains(&method) || method == "forward" {
            let error = refused(interpreted(&[&fault]), &fault);
            assert!(error.contains(&format!("panicked: boom in {method}")), "{error}");
        } else {
            interpreted(&[&fault]).unwrap();
        }
    }
}

#[test]
fn a_panic_while_losses_are_measured_is_an_error_that_names_the_operator() {
    assert!(calibrated(&[""]).unwrap() > 100.0);
    for method in ["supports", "clone", "configure_of_int8", "forward_of_int8"] {
        let fault = format!("panic_in_{method}");
        let error = refused(calibrated(&[&fault]).map(|_| x()), &fault);
        assert!(error.contains(&format!("panicked: boom in {method}")), "{error}");
    }
    let error = refused(calibrated(&["large_workspace_of_int8"]).map(|_| x()), "large_workspace_of_int8");
    assert!(error.contains("scratch memory") && error.contains("max_tensor_bytes"), "{error}");
    assert!(calibrated(&["panic_in_terminate"]).unwrap() > 100.0);
}

#[test]
fn panics_in_terminate_and_drop_are_harmless() {
    for fault in ["panic_in_terminate", "panic_in_drop"] {
        assert_eq!(interpreted(&[fault]).unwrap(), x());
    }
    assert_eq!(planned(&["panic_in_terminate"]).unwrap(), x());
    // A builder clones a layer, queries the clones and drops them.
    let error = refused(planned(&["panic_in_drop"]), "panic_in_drop");
    assert!(error.contains("panicked: boom in drop"), "{error}");
    // Without candidates, a builder creates no unnecessary clones; a context has one.
    let (registry, _) = registry();
    let mut graph = RuntimeGraph::from_pnnx(model(&["panic_in_drop"])).with_registry(registry);
    graph.build().unwrap();
    drop(graph);
}

#[test]
fn the_interpreter_does_not_call_a_layer_that_panicked() {
    let mut graph = RuntimeGraph::from_pnnx(model(&["panic_in_forward"])).with_registry(registry().0);
    graph.build().unwrap();
    for _ in 0..2 {
        let error = graph.run_with(vec![x()]).unwrap_err().to_string();
        assert!(error.contains("test/Faulty/1 `it0`") && error.contains("boom in forward"), "{error}");
    }
}

#[test]
fn contract_violations_are_detected_and_named() {
    for (fault, wanted) in [
        ("two_outputs", "1 outputs, got 2"),
        ("no_outputs", "1 outputs, got 0"),
        ("huge", ""),
        ("many_axes", "100"),
        ("negative", "-3"),
        ("endless_outputs", "outputs"),
        ("huge_workspace", "workspace"),
        ("view_of_nothing", "a view of input 7"),
        ("view_of_another_shape", "1"),
        ("view_beyond", ""),
        ("dynamic_of_two", "2"),
        ("dynamic_of_another_type", "f64"),
        ("dynamic_of_another_shape", "got 1 f32"),
    ] {
        for done in [planned(&[fault]), interpreted(&[fault])] {
            let error = refused(done, fault);
            assert!(error.contains(wanted), "{fault}: {error}");
        }
    }
    let small = refused(planned(&["small_workspace"]), "small_workspace");
    assert!(
        small.contains("the layer needs 64 bytes of scratch memory, but its `workspace` requested 8"),
        "{small}"
    );
    let tactic = refused(planned(&["no_tactics"]), "no_tactics");
    assert!(tactic.contains("no combination of formats"), "{tactic}");
    let place = refused(planned(&["in_place_not_there"]), "in_place_not_there");
    assert!(place.contains("cannot work in place"), "{place}");
    assert_eq!(planned(&["in_place_of_nothing"]).unwrap(), x());
    assert_eq!(planned(&["endless"]).unwrap(), x());
}

#[test]
fn every_initialised_layer_is_terminated_once_even_if_another_fails() {
    for faults in
        [["", "no_initialize"], ["", "panic_in_initialize"], ["no_initialize", ""], ["", "panic_in_forward"]]
    {
        let (registry, initialized) = registry();
        let mut graph = RuntimeGraph::from_pnnx(model(&faults)).with_registry(registry.clone());
        let built = graph.build();
        assert_eq!(initialized.load(Ordering::Relaxed), if built.is_ok() { 2 } else { 0 }, "{faults:?}");
        let _ = graph.run_with(vec![x()]);
        drop(graph);
        assert_eq!(initialized.load(Ordering::Relaxed), 0, "{faults:?}");

        if let Ok(plan) = Builder::from_pnnx(model(&faults)).with_registry(registry).build() {
            let mut context = plan.context().unwrap();
            let _ = context.run(&[x()]);
            assert_eq!(initialized.load(Ordering::Relaxed), 2, "clones are created initialised");
            drop(context);
        }
        assert_eq!(initialized.load(Ordering::Relaxed), 0, "{faults:?}");
    }
}
