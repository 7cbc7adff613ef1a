//! Compares shape inference with the interpreter: inferred shapes must equal actual shapes for every operator of every
//! available case and model, and symbolic shapes must evaluate to the actual ones.

use crate::common::parallel::each_of;
use crate::common::{conformance_cases, runnable_cases};
use ixion::Limits;
use ixion::graph::{LayerTrace, RuntimeGraph, RuntimeOperator};
use ixion::op::TensorMeta;
use ixion::shape::{Binding, Shapes, symbolic_inputs};
use ixion::tensor::{Dim, Tensor};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// What was compared, and which shapes could not be inferred.
#[derive(Default)]
struct Tally {
    operators: usize,
    known: usize,
    unknown: BTreeMap<String, BTreeSet<String>>,
    wrong: Vec<String>,
}

impl Tally {
    fn of_all(tallies: Vec<Self>) -> Self {
        let mut all = Self::default();
        for tally in tallies {
            all.operators += tally.operators;
            all.known += tally.known;
            for (op_type, places) in tally.unknown {
                all.unknown.entry(op_type).or_default().extend(places);
            }
            all.wrong.extend(tally.wrong);
        }
        all
    }

    /// Compares the inferred outputs of an operator with the actual ones.
    fn add(
        &mut self,
        place: &str,
        operator: &RuntimeOperator,
        found: Option<Vec<TensorMeta>>,
        trace: &LayerTrace,
    ) {
        self.operators += 1;
        let same = |(meta, run): (&TensorMeta, &TensorMeta)| {
            meta.dtype() == run.dtype() && meta.may_have_dims(run.dims())
        };
        let metas = found.as_deref().unwrap_or_default();
        if found.is_some()
            && (metas.len() != trace.outputs.len() || !metas.iter().zip(&trace.outputs).all(same))
        {
            self.wrong.push(format!("{place} {}: {metas:?}, not {:?}", operator.name(), trace.outputs));
        }
        if found.is_some() && metas.iter().all(TensorMeta::is_fixed) {
            self.known += 1;
        } else {
            self.unknown.entry(operator.op_type().to_owned()).or_default().insert(place.to_owned());
        }
    }

    fn check(&self, what: &str) {
        println!("{what}: {} operators, {} known", self.operators, self.known);
        for (op_type, places) in &self.unknown {
            println!("  {op_type}: {places:?}");
        }
        assert!(self.wrong.is_empty(), "{what}: {} are wrong:\n{}", self.wrong.len(), self.wrong.join("\n"));
    }
}

/// A model that was run on its stored inputs.
struct Run {
    place: String,
    graph: RuntimeGraph,
    inputs: Vec<TensorMeta>,
    layers: Vec<LayerTrace>,
}

/// Runs a model on its stored inputs; `None` if it has none.
fn run(param: &Path) -> Option<Run> {
    let (folder, limits) = (param.parent()?, Limits::default());
    let mut graph = RuntimeGraph::new(param);
    graph.build().ok()?;
    let arrays = Tensor::load_npz(folder.join("arrays.npz"), &limits).unwrap_or_default();
    let stored = |index: usize| {
        let key = format!("in_{index}");
        let array = arrays.iter().find(|(name, _)| *name == key).map(|(_, tensor)| tensor.clone());
        array.or_else(|| Tensor::load_npy(folder.join(format!("{key}.npy")), &limits).ok())
    };
    let tensors: Vec<Tensor> = (0..graph.inputs().len()).map(stored).collect::<Option<_>>()?;
    let inputs = tensors.iter().map(|input| TensorMeta::of(&input.view())).collect();
    for (port, input) in graph.inputs().to_vec().iter().zip(tensors) {
        graph.set_input(&port.name, input).unwrap();
    }
    let layers = graph.run_traced().unwrap().layers;
    Some(Run { place: folder.file_name()?.to_str()?.to_owned(), graph, inputs, layers })
}

fn models() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("model_file");
    let folders = std::fs::read_dir(root).unwrap().map(|entry| entry.unwrap().path());
    let param = |folder: PathBuf| {
        let name = folder.file_name()?.to_str()?.to_owned();
        Some(folder.join(format!("{name}.pnnx.param"))).filter(|file| file.is_file())
    };
    let cases =
        runnable_cases().into_iter().chain(conformance_cases()).map(|folder| folder.join("model.param"));
    folders.filter_map(param).chain(cases).collect()
}

impl Run {
    fn compare_numbers(&self, tally: &mut Tally) {
        let shapes = match Shapes::infer(&self.graph, &self.inputs) {
            Ok(shapes) => shapes,
            Err(error) => return tally.wrong.push(format!("{}: {error}", self.place)),
        };
        for (operator, trace) in self.graph.operators().iter().zip(&self.layers) {
            tally.add(&self.place, operator, shapes.get_all(operator.outputs()), trace);
        }
    }

    fn compare_symbols(&self, tally: &mut Tally) {
        let recorded = symbolic_inputs(&self.graph).into_iter().zip(&self.inputs);
        let symbolic: Vec<_> =
            recorded.map(|(recorded, run)| recorded.or_else(|| Some(symbols_for(run)))).collect();
        let shapes = match Shapes::infer_known(&self.graph, &symbolic) {
            Ok(shapes) => shapes,
            Err(error) => return tally.wrong.push(format!("{}: {error}", self.place)),
        };
        let binding = Binding::of(&self.graph, &symbolic, &self.inputs).unwrap();
        for (operator, trace) in self.graph.operators().iter().zip(&self.layers) {
            // Symbols represent lengths other than 0: empty tensors follow other rules.
            if trace.inputs.iter().chain(&trace.outputs).all(|meta| meta.num_elements() != 0usize) {
                let found = shapes.get_all(operator.outputs());
                let found = found.map(|metas| metas.iter().map(|meta| binding.apply(meta)).collect());
                tally.add(&self.place, operator, found, trace);
            }
        }
    }
}

/// A symbol for every length, for inputs without recorded shapes.
fn symbols_for(meta: &TensorMeta) -> TensorMeta {
    meta.with_dims((0..meta.rank()).map(|_| Dim::fresh("recorded")))
}

#[test]
fn shapes_are_those_of_running() {
    let tallies = each_of(&models(), |param| {
        let (mut numbers, mut symbols) = (Tally::default(), Tally::default());
        if let Some(run) = run(param) {
            run.compare_numbers(&mut numbers);
            run.compare_symbols(&mut symbols);
        }
        (numbers, symbols)
    });
    let (numbers, symbols): (Vec<Tally>, Vec<Tally>) = tallies.into_iter().unzip();
    let [numbers, symbols] = [numbers, symbols].map(Tally::of_all);
    numbers.check("numbers");
    symbols.check("symbols");
    assert!(numbers.operators > 500 && numbers.known * 100 > numbers.operators * 97);
    assert!(symbols.known * 100 > symbols.operators * 93);
}
