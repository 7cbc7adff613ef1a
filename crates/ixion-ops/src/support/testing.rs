//! Runs single layers in tests, from the keys of a file to the outputs.

use crate::op::{
    CpuLayer, ForwardContext, Io, LayerError, OperatorReader, Registry, Result, RuntimeAttribute,
    RuntimeParameter, TensorMeta,
};
use ixion_kernels::parallel::Threads;
use ixion_tensor::{DType, Element, Layout, Limits, Shape, Tensor, TensorView, Workspace};
use std::collections::BTreeMap;
use std::sync::LazyLock;

/// The results of `work` on one thread outside of a pool, and on pools of these numbers of threads.
pub(crate) fn on_threads<R: Send>(counts: &[usize], work: impl Fn() -> R + Sync) -> (R, Vec<R>) {
    let pooled = counts.iter().map(|&threads| Threads::new(threads).unwrap().install(&work)).collect();
    (work(), pooled)
}

/// An operator as a file describes it.
pub(crate) struct Operator<'a> {
    op_type: &'a str,
    params: Vec<(&'a str, &'a str)>,
    attrs: Vec<(&'a str, Tensor)>,
    names: Vec<&'a str>,
    outputs: usize,
}

/// An operator of this type with these parameters and one output.
pub(crate) fn operator<'a>(op_type: &'a str, params: &[(&'a str, &'a str)]) -> Operator<'a> {
    Operator { op_type, params: params.to_vec(), attrs: Vec::new(), names: Vec::new(), outputs: 1 }
}

impl<'a> Operator<'a> {
    /// The same with an attribute.
    pub(crate) fn with_attr(mut self, key: &'a str, tensor: Tensor) -> Self {
        self.attrs.push((key, tensor));
        self
    }

    /// The same with names for its inputs (`$name=…`).
    pub(crate) fn with_names(self, names: &[&'a str]) -> Self {
        Self { names: names.to_vec(), ..self }
    }

    /// The same with this number of outputs in the file.
    pub(crate) fn with_outputs(self, outputs: usize) -> Self {
        Self { outputs, ..self }
    }

    /// Creates the layer, for this number of inputs.
    pub(crate) fn create(&self, inputs: usize) -> Result<Box<dyn CpuLayer>> {
        static REGISTRY: LazyLock<Registry> = LazyLock::new(Registry::default);
        self.create_from(&REGISTRY, inputs)
    }

    /// Creates the layer of a registry, for this number of inputs.
    fn create_from(&self, registry: &Registry, inputs: usize) -> Result<Box<dyn CpuLayer>> {
        let params: BTreeMap<_, _> =
            self.params.iter().map(|(key, raw)| (key.to_string(), RuntimeParameter::parse(raw))).collect();
        let attr =
            |(key, tensor): &(&str, Tensor)| (key.to_string(), RuntimeAttribute::from_tensor(tensor.clone()));
        let attrs: BTreeMap<_, _> = self.attrs.iter().map(attr).collect();
        let names: Vec<_> = (0..inputs).map(|i| self.names.get(i).map(|name| name.to_string())).collect();
        let creator = registry.get(self.op_type).unwrap();
        let reader = OperatorReader::new(&params, &attrs, &names, self.outputs);
        let layer = creator.create(reader.with_op_type(self.op_type))?;
        let wanted = layer.num_inputs();
        if wanted.contains(&inputs) {
            return Ok(layer);
        }
        Err(LayerError::InputCount { wanted: format!("{wanted:?}"), found: inputs })
    }

    /// Infers the outputs.
    pub(crate) fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
        self.create(inputs.len())?.infer(inputs)
    }

    /// Runs the layer and returns the outputs, as views if the layer has views. Inputs and outputs of another memory layout,
    /// copies of views and running in place are tried as well and must give the same results.
    pub(crate) fn run(&self, inputs: &[&Tensor]) -> Result<Vec<Tensor>> {
        self.run_layer(&mut *self.create(inputs.len())?, inputs)
    }

    /// As [`Operator::run`], for the layer of a registry.
    pub(crate) fn run_from(&self, registry: &Registry, inputs: &[&Tensor]) -> Result<Vec<Tensor>> {
        self.run_layer(&mut *self.create_from(registry, inputs.len())?, inputs)
    }

    fn run_layer(&self, layer: &mut dyn CpuLayer, inputs: &[&Tensor]) -> Result<Vec<Tensor>> {
        layer.initialize()?;
        if layer.is_data_dependent() {
            let outputs = execute_dynamic(layer, inputs)?;
            let transposed: Vec<Tensor> = inputs.iter().map(|input| column_major(input)).collect();
            let transposed = execute_dynamic(layer, &transposed.iter().collect::<Vec<_>>())?;
            assert_same(&transposed, &outputs, &format!("{} with transposed tensors", self.op_type));
            layer.terminate();
            return Ok(outputs);
        }
        let outputs = execute(layer, inputs, false)?;
        assert_eq!(outputs.len(), layer.num_outputs(), "{}: number of outputs", self.op_type);
        let transposed: Vec<Tensor> = inputs.iter().map(|input| column_major(input)).collect();
        let transposed = execute(layer, &transposed.iter().collect::<Vec<_>>(), true)?;
        assert_same(&transposed, &outputs, &format!("{} with transposed tensors", self.op_type));
        let in_place = overwritten(layer, inputs, &outputs)?;
        assert_same(in_place.as_slice(), &outputs[..in_place.len()], &format!("{} in place", self.op_type));
        let parts = parts_of(layer, inputs, &outputs)?;
        for (part, input) in parts.iter().zip(inputs) {
            assert_eq!(&part, input, "a part of {}", self.op_type);
        }
        layer.terminate();
        Ok(outputs)
    }

    /// The first output; see [`Operator::run`].
    pub(crate) fn run_one(&self, inputs: &[&Tensor]) -> Result<Tensor> {
        Ok(self.run(inputs)?.remove(0))
    }

    /// Runs on inputs of many unusual shapes and element types: each run must return outputs or an error, and never panic.
    pub(crate) fn survives(&self, inputs: usize) {
        const SHAPES: &[&[usize]] = &[
            &[],
            &[0],
            &[1],
            &[6],
            &[2, 3],
            &[0, 4],
            &[4, 0],
            &[1, 4, 5],
            &[2, 0, 3],
            &[2, 4, 1],
            &[1, 4, 3, 5],
            &[2, 4, 0, 5],
            &[0, 4, 3, 5],
            &[1, 4, 2, 3, 2],
            &[1, 0, 2, 3, 2],
            &[1, 2, 1, 3, 1, 2],
            &[1; 8],
        ];
        for shape in SHAPES {
            for other in SHAPES.iter().filter(|_| inputs > 1).chain([shape]) {
                for dtype in [DType::F32, DType::F64, DType::F16, DType::I64, DType::Bool, DType::C64] {
                    let first = Tensor::ones(dtype, shape).unwrap();
                    let second = Tensor::ones(dtype, other).unwrap();
                    let tensors: Vec<&Tensor> =
                        [&first].into_iter().chain((1..inputs).map(|_| &second)).collect();
                    let _ = self.run(&tensors);
                }
            }
        }
    }
}

/// The first output, computed in place in the input that it may overwrite, if the two have the same type and shape.
fn overwritten(layer: &mut dyn CpuLayer, inputs: &[&Tensor], outputs: &[Tensor]) -> Result<Vec<Tensor>> {
    let Some(position) = layer.in_place(0) else { return Ok(Vec::new()) };
    let (input, output) = (inputs[position], &outputs[0]);
    if (input.dtype(), input.shape()) != (output.dtype(), output.shape()) {
        return Ok(Vec::new());
    }
    let mut others: Vec<TensorView<'_>> = inputs.iter().map(|input| input.view()).collect();
    others.remove(position);
    let (mut data, mut workspace, limits) = (input.deep_copy()?, Workspace::new()?, Limits::default());
    let metas: Vec<TensorMeta> = inputs.iter().map(|input| TensorMeta::of(&input.view())).collect();
    workspace.reserve(layer.workspace(&metas, &layer.infer(&metas)?))?;
    let mut context = ForwardContext::new(&mut workspace, &limits);
    layer.forward_in_place(&mut data.view_mut()?, &others, &mut context)?;
    Ok(vec![data])
}

/// The slices of the output that hold the inputs, if the layer only concatenates them.
fn parts_of(layer: &dyn CpuLayer, inputs: &[&Tensor], outputs: &[Tensor]) -> Result<Vec<Tensor>> {
    let metas: Vec<TensorMeta> = inputs.iter().map(|input| TensorMeta::of(&input.view())).collect();
    let Some(output) = outputs.first() else { return Ok(Vec::new()) };
    let Some(parts) = layer.parts(&metas, output.layout())? else { return Ok(Vec::new()) };
    assert_eq!(parts.len(), inputs.len(), "one part for each input");
    parts.into_iter().map(|part| Ok(output.with_layout(part)?)).collect()
}

/// Infers the outputs, then takes the layer's views or computes. Outputs are ones before, and transposed ones, which are
/// never views, zeros: elements that the layer does not write differ.
fn execute(layer: &mut dyn CpuLayer, inputs: &[&Tensor], is_transposed: bool) -> Result<Vec<Tensor>> {
    let views: Vec<TensorView<'_>> = inputs.iter().map(|input| input.view()).collect();
    let metas: Vec<TensorMeta> = views.iter().map(TensorMeta::of).collect();
    let inferred = layer.infer(&metas)?;
    let layouts: Vec<(DType, Layout)> = inputs.iter().map(|input| (input.dtype(), *input.layout())).collect();
    let mut outputs = Vec::new();
    for (position, meta) in inferred.iter().enumerate() {
        let shape = meta.shape()?;
        let view = if is_transposed { None } else { layer.view_of(position, &layouts, &shape)? };
        outputs.push(match view {
            Some(view) => inputs[view.input].as_parts(meta.dtype(), view.layout)?,
            None if is_transposed => {
                Tensor::zeros_with_layout(meta.dtype(), reversed(Layout::contiguous(shape)))?
            }
            None => Tensor::ones(meta.dtype(), &shape)?,
        });
        assert_eq!(outputs[position].shape(), &shape, "the view of output {position}");
        if view.is_some() && position + 1 == inferred.len() {
            return Ok(outputs);
        }
    }
    layer.configure(&metas, &inferred)?;
    let (mut workspace, limits) = (Workspace::new()?, Limits::default());
    workspace.reserve(layer.workspace(&metas, &inferred))?;
    let mut context = ForwardContext::new(&mut workspace, &limits);
    let mut targets = Vec::new();
    for output in &mut outputs {
        targets.push(output.view_mut()?);
    }
    layer.forward(&mut Io::new(&views, &mut targets, &mut context))?;
    drop(targets);
    Ok(outputs)
}

/// The outputs of a layer whose shapes depend on values. They fit what the layer inferred.
fn execute_dynamic(layer: &mut dyn CpuLayer, inputs: &[&Tensor]) -> Result<Vec<Tensor>> {
    let views: Vec<TensorView<'_>> = inputs.iter().map(|input| input.view()).collect();
    let metas: Vec<TensorMeta> = views.iter().map(TensorMeta::of).collect();
    let inferred = layer.infer(&metas)?;
    layer.configure(&metas, &inferred)?;
    let (mut workspace, limits) = (Workspace::new()?, Limits::default());
    workspace.reserve(layer.workspace(&metas, &inferred))?;
    let outputs = layer.forward_dynamic(&views, &mut ForwardContext::new(&mut workspace, &limits))?;
    assert_eq!(outputs.len(), inferred.len(), "number of outputs");
    for (output, meta) in outputs.iter().zip(&inferred) {
        assert_eq!(output.dtype(), meta.dtype());
        assert!(meta.may_have_dims(TensorMeta::of(&output.view()).dims()), "{output:?} is not {meta}");
    }
    Ok(outputs)
}

/// A layout of the same shape whose axes are stored in reverse order.
fn reversed(layout: Layout) -> Layout {
    let order: Vec<usize> = (0..layout.shape().rank()).rev().collect();
    let transposed = Layout::contiguous(*layout.permute(&order).unwrap().shape());
    transposed.permute(&order).unwrap()
}

fn column_major(tensor: &Tensor) -> Tensor {
    let mut transposed =
        Tensor::zeros_with_layout(tensor.dtype(), reversed(Layout::contiguous(*tensor.shape()))).unwrap();
    transposed.view_mut().unwrap().copy_from(&tensor.view()).unwrap();
    transposed
}

/// Checks that results agree: floats up to rounding, because sums may be computed in another order, all others exactly.
fn assert_same(got: &[Tensor], want: &[Tensor], what: &str) {
    assert_eq!(got.len(), want.len(), "{what}: number of outputs");
    for (got, want) in got.iter().zip(want) {
        assert_eq!((got.dtype(), got.shape()), (want.dtype(), want.shape()), "{what}");
        let equal = got.to_le_bytes().unwrap() == want.to_le_bytes().unwrap() || is_close(got, want);
        assert!(equal, "{what}: got {got:?}, expected {want:?}");
    }
}

fn is_close(got: &Tensor, want: &Tensor) -> bool {
    let values = |tensor: &Tensor| tensor.cast(DType::F64).unwrap().to_vec::<f64>().unwrap();
    got.dtype().is_float() && values(got).iter().zip(values(want)).all(|(&got, want)| close(got, want, 1e-5))
}

fn close(got: f64, want: f64, tolerance: f64) -> bool {
    got == want || (got.is_nan() && want.is_nan()) || (got - want).abs() <= tolerance * (1.0 + want.abs())
}

/// A tensor of these elements.
pub(crate) fn tensor<T: Element>(shape: &[usize], values: &[T]) -> Tensor {
    Tensor::from_vec(values.to_vec(), shape).unwrap()
}

/// The numbers 0, 1, 2, … as a tensor.
pub(crate) fn counting(dtype: DType, shape: &[usize]) -> Tensor {
    let count = Shape::new(shape).unwrap().num_elements();
    Tensor::arange(dtype, 0.0, count as f64, 1.0).unwrap().reshape(shape).unwrap()
}

/// Values (f64, −2.75 to 2.75) that look random, are exact in every floating-point type and are easy to compute in Python:
/// `((7 * i * i + 3 * i) % 23) / 4 - 2.75`.
pub(crate) fn waves(shape: &[usize]) -> Tensor {
    let count = Shape::new(shape).unwrap().num_elements();
    let values: Vec<f64> = (0..count).map(|i| ((i * i * 7 + i * 3) % 23) as f64 / 4.0 - 2.75).collect();
    Tensor::from_vec(values, shape).unwrap()
}

/// Checks shape and elements of a floating-point tensor; NaN equals NaN.
#[track_caller]
pub(crate) fn assert_close(got: &Tensor, shape: &[usize], want: &[f64]) {
    assert_eq!(got.shape().dims(), shape, "shape");
    let tolerance = match got.dtype() {
        DType::F64 => 1e-12,
        DType::F32 => 1e-5,
        _ => 1e-2,
    };
    let values = got.cast(DType::F64).unwrap().to_vec::<f64>().unwrap();
    assert_eq!(values.len(), want.len(), "number of elements");
    for (position, (&got, &want)) in values.iter().zip(want).enumerate() {
        assert!(close(got, want, tolerance), "element {position} is {got}, but PyTorch has {want}");
    }
}
