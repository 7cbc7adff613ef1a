//! Layers with parameters that the graph computes.
//!
//! In a graph with dynamic sizes, PNNX leaves arguments that depend on them as inputs: `F.avg_pool2d(x, x.shape[2:])` becomes
//! an operator with an input `$kernel_size=…`. Most layers read parameters only. For them, [`Deferred`] creates the layer once
//! the values are known: while shapes are inferred if they follow from shapes alone, else during the run.

use super::reader::Owned;
use super::{
    Cost, CpuLayer, Field, ForwardContext, Io, Layer, LayerError, OperatorReader, Result, RuntimeParameter,
    TensorMeta, catch_panic, exactly,
};
use ixion_tensor::{DType, Dim, Layout, Shape, Tensor, TensorView, TensorViewMut, Workspace};
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::ops::RangeInclusive;

/// A function that creates a layer.
type Create = fn(&mut OperatorReader<'_>) -> Result<Box<dyn CpuLayer>>;

/// An input that sets a parameter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ComputedParameter {
    /// The position of the input.
    pub position: usize,
    /// The key of the parameter.
    pub key: &'static str,
    /// The kind of value that the layer expects.
    kind: &'static str,
}

/// The parameters of a layer that are inputs, in the order of the inputs. Empty for layers that read such inputs themselves.
pub fn computed_parameters(layer: &dyn CpuLayer) -> &[ComputedParameter] {
    layer.as_any().downcast_ref::<Deferred>().map_or(&[], |layer| &layer.computed)
}

/// Creates a layer by `create`: now if no parameter is an input, else when the values of these inputs are known.
pub(super) fn create_or_defer(
    create: Create,
    fields: &'static [Field],
    reader: &mut OperatorReader<'_>,
) -> Result<Box<dyn CpuLayer>> {
    let computed: Vec<ComputedParameter> = reader
        .named_inputs()
        .filter_map(|(position, name)| {
            let field = fields.iter().find(|field| field.is_parameter && field.key == name)?;
            Some(ComputedParameter { position, key: field.key, kind: field.kind })
        })
        .collect();
    if computed.is_empty() {
        return create(reader);
    }
    for (number, parameter) in computed.iter().enumerate() {
        let (key, reason) = (parameter.key, "an input of the operator sets it, too; remove one of them");
        if let Some(given) = reader.param(key) {
            return Err(LayerError::invalid(key, given.raw(), reason));
        }
        if computed.iter().take(number).any(|other| other.key == key) {
            return Err(LayerError::invalid(key, "an input", reason));
        }
    }
    reader.mark_read(fields);
    Ok(Box::new(Deferred { create, source: reader.to_owned(), computed, ready: None }))
}

/// A layer that is created from its parameters when they are known. Its outputs are allocated when it runs, like those of
/// other layers whose shapes depend on values.
#[derive(Debug)]
struct Deferred {
    create: Create,
    source: Owned,
    computed: Vec<ComputedParameter>,
    /// The layer for the parameters of the last run.
    ready: Option<Ready>,
}

impl Clone for Deferred {
    fn clone(&self) -> Self {
        let (source, computed) = (self.source.clone(), self.computed.clone());
        Self { create: self.create, source, computed, ready: None }
    }
}

/// A layer that was created, with the values of its parameters and the shapes that it is configured for.
#[derive(Debug)]
struct Ready {
    params: Vec<RuntimeParameter>,
    layer: Box<dyn CpuLayer>,
    configured: Option<Vec<TensorMeta>>,
}

impl Drop for Ready {
    fn drop(&mut self) {
        self.layer.terminate();
    }
}

impl Deferred {
    /// Creates the layer with these parameters, in the order of `computed`.
    fn layer(&self, params: &[RuntimeParameter]) -> Result<Box<dyn CpuLayer>> {
        let positions: Vec<usize> = self.computed.iter().map(|parameter| parameter.position).collect();
        let mut source = self.source.without_inputs(&positions);
        source.set_params(self.computed.iter().map(|parameter| parameter.key).zip(params.iter().cloned()));
        let layer = source.read(|reader| {
            let layer = (self.create)(reader)?;
            reader.finish().map(|()| layer)
        })?;
        let (wanted, found) = (layer.num_inputs(), source.num_inputs());
        if wanted.contains(&found) { Ok(layer) } else { Err(LayerError::input_count(&wanted, found)) }
    }

    /// The inputs that are tensors to the layer.
    fn rest<T: Clone>(&self, inputs: &[T]) -> Vec<T> {
        let is_tensor =
            |position: usize| self.computed.iter().all(|parameter| parameter.position != position);
        let tensors = inputs.iter().enumerate().filter(|(position, _)| is_tensor(*position));
        tensors.map(|(_, input)| input.clone()).collect()
    }

    /// The parameters that follow from what is known of the inputs; `None` for those that do not.
    fn known(&self, inputs: &[TensorMeta]) -> Vec<Option<RuntimeParameter>> {
        let of = |parameter: &ComputedParameter| known_parameter(inputs.get(parameter.position)?);
        self.computed.iter().map(of).collect()
    }

    /// The outputs for numbers in the place of the parameters that are unknown, if the layer accepts them.
    fn for_stand_ins(
        &self,
        inputs: &[TensorMeta],
        known: &[Option<RuntimeParameter>],
        number: i64,
    ) -> Option<Vec<TensorMeta>> {
        let stand_in = |parameter: &ComputedParameter| stand_in(inputs.get(parameter.position)?, number);
        let params = self.computed.iter().zip(known);
        let params: Option<Vec<RuntimeParameter>> =
            params.map(|(parameter, known)| known.clone().or_else(|| stand_in(parameter))).collect();
        let layer = self.layer(&params?).ok()?;
        catch_panic(|| layer.infer(&self.rest(inputs))).ok()
    }

    /// The outputs if parameters are unknown. They are known nevertheless if they are the same for very different numbers, as
    /// with a slope.
    fn for_unknown(
        &self,
        inputs: &[TensorMeta],
        known: &[Option<RuntimeParameter>],
    ) -> Result<Vec<TensorMeta>> {
        /// The layer must accept these.
        const USUAL: [i64; 3] = [1, 2, 1_000_003];
        /// Sizes are neither of these, but offsets and indices may be.
        const UNUSUAL: [i64; 2] = [0, -1];
        let outputs_for = |number| self.for_stand_ins(inputs, known, number);
        let [first, others @ ..] = USUAL.map(outputs_for);
        if let Some(outputs) = &first
            && others.iter().all(|other| other.as_ref() == Some(outputs))
            && UNUSUAL.into_iter().filter_map(outputs_for).all(|other| other == *outputs)
        {
            return Ok(outputs.clone());
        }
        (0..self.num_outputs()).map(|output| self.of_unknown_size(output, first.as_deref())).collect()
    }

    /// An output of unknown size. The number of its axes is that in the file's sample, or else that of `like`, which are the
    /// outputs for other parameters. Its element type is theirs, since an engine may compute in another type than the file.
    fn of_unknown_size(&self, output: usize, like: Option<&[TensorMeta]>) -> Result<TensorMeta> {
        let like = like.and_then(|outputs| outputs.get(output)).map(|meta| (meta.dtype(), meta.rank()));
        let (dtype, rank) = match (self.source.output(output), like) {
            (Some((_, rank)), Some((dtype, _))) => (dtype, rank),
            (recorded, like) => recorded.or(like).ok_or_else(|| self.unknown())?,
        };
        Ok(TensorMeta::new(dtype, (0..rank).map(|axis| Dim::fresh(&format!("axis{axis}")))))
    }

    fn unknown(&self) -> LayerError {
        let keys: Vec<&str> = self.computed.iter().map(|parameter| parameter.key).collect();
        let keys = keys.join("`, `");
        LayerError::Unsupported(format!("the outputs depend on the values of `{keys}`, which are not known"))
    }

    /// The parameters of a run.
    fn params(&self, inputs: &[TensorView<'_>]) -> Result<Vec<RuntimeParameter>> {
        let of = |parameter: &ComputedParameter| match inputs.get(parameter.position) {
            Some(input) => {
                check(parameter, &TensorMeta::of(input)).and_then(|()| from_tensor(parameter, input))
            }
            None => Err(LayerError::missing_input(parameter.position, inputs.len())),
        };
        self.computed.iter().map(of).collect()
    }
}

/// A number, or a list of equal numbers, for a parameter that is not known yet.
fn stand_in(input: &TensorMeta, number: i64) -> Option<RuntimeParameter> {
    let len = input.num_elements().fixed().and_then(|len| usize::try_from(len).ok())?;
    Some(match (input.dtype(), input.rank()) {
        (DType::Bool, _) => (number == 1).into(),
        (dtype, 0) if dtype.is_float() => (number as f64).into(),
        (dtype, _) if dtype.is_float() => vec![number as f64; len].into(),
        (_, 0) => number.into(),
        _ => vec![number; len].into(),
    })
}

/// The parameter that an input sets, if the values of the input are known before the run: those of integers may be.
pub fn known_parameter(meta: &TensorMeta) -> Option<RuntimeParameter> {
    let values = meta.values().filter(|_| meta.dtype().is_integer())?;
    of_integers(values.iter().map(Dim::fixed).collect::<Option<_>>()?, meta.rank())
}

fn of_integers(values: Vec<i64>, rank: usize) -> Option<RuntimeParameter> {
    match (rank, &values[..]) {
        (0, [value]) => Some((*value).into()),
        (1, _) => Some(values.into()),
        _ => None,
    }
}

/// A parameter from a tensor that passes [`check`]: a scalar, or a vector for a list.
fn from_tensor(parameter: &ComputedParameter, input: &TensorView<'_>) -> Result<RuntimeParameter> {
    let (tensor, rank) = (input.to_tensor()?, input.shape().rank());
    let of = match tensor.dtype() {
        DType::Bool => (rank == 0).then(|| tensor.item::<bool>()).transpose()?.map(Into::into),
        dtype if dtype.is_float() => {
            let values = tensor.cast(DType::F64)?.to_vec::<f64>()?;
            Some(if let (0, [value]) = (rank, &values[..]) { (*value).into() } else { values.into() })
        }
        _ => of_integers(tensor.cast(DType::I64)?.to_vec::<i64>()?, rank),
    };
    of.ok_or_else(|| wrong_type(parameter, tensor.dtype()))
}

/// Checks that an input can be a parameter: a real number, or a short list of them.
fn check(parameter: &ComputedParameter, input: &TensorMeta) -> Result<()> {
    let len = input.num_elements().fixed().and_then(|len| usize::try_from(len).ok());
    let limit = match input.rank() {
        0 | 1 if len.is_none_or(|len| len <= TensorMeta::MAX_VALUES) => None,
        0 | 1 => Some(format!("at most {} numbers", TensorMeta::MAX_VALUES)),
        _ => Some("at most one axis".to_owned()),
    };
    if let Some(limit) = limit {
        let wanted = format!("{}, as a tensor with {limit}", parameter.kind);
        return Err(LayerError::shape(what(parameter), wanted, input));
    }
    if input.dtype().is_complex() { Err(wrong_type(parameter, input.dtype())) } else { Ok(()) }
}

fn what(parameter: &ComputedParameter) -> String {
    format!("input {}, the parameter `{}`", parameter.position, parameter.key)
}

fn wrong_type(parameter: &ComputedParameter, found: DType) -> LayerError {
    LayerError::dtype(what(parameter), parameter.kind, found)
}

impl Layer for Deferred {
    fn num_inputs(&self) -> RangeInclusive<usize> {
        exactly(self.source.num_inputs())
    }

    fn num_outputs(&self) -> usize {
        self.source.num_outputs()
    }

    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
        for parameter in &self.computed {
            match inputs.get(parameter.position) {
                Some(input) => check(parameter, input)?,
                None => return Err(LayerError::missing_input(parameter.position, inputs.len())),
            }
        }
        let known = self.known(inputs);
        match known.iter().cloned().collect::<Option<Vec<_>>>() {
            Some(params) => self.layer(&params)?.infer(&self.rest(inputs)),
            None => self.for_unknown(inputs, &known),
        }
    }

    fn is_data_dependent(&self) -> bool {
        true
    }

    fn cost(&self, inputs: &[TensorMeta], outputs: &[TensorMeta]) -> Cost {
        let known: Option<Vec<RuntimeParameter>> = self.known(inputs).into_iter().collect();
        match known.and_then(|params| self.layer(&params).ok()) {
            Some(layer) => layer.cost(&self.rest(inputs), outputs),
            None => Cost::of_moving(inputs, outputs),
        }
    }
}

impl CpuLayer for Deferred {
    fn forward(&mut self, _: &mut Io<'_, '_>) -> Result<()> {
        Err(LayerError::Unsupported("the shapes of the outputs depend on values".to_owned()))
    }

    fn forward_dynamic(
        &mut self,
        inputs: &[TensorView<'_>],
        context: &mut ForwardContext<'_>,
    ) -> Result<Vec<Tensor>> {
        let params = self.params(inputs)?;
        let tensors = self.rest(inputs);
        let mut ready = match self.ready.take().filter(|ready| ready.params == params) {
            Some(ready) => ready,
            None => {
                let mut layer = self.layer(&params)?;
                layer.initialize()?;
                Ready { params, layer, configured: None }
            }
        };
        let outputs = ready.run(&tensors, context)?;
        self.ready = Some(ready);
        Ok(outputs)
    }

    fn terminate(&mut self) {
        self.ready = None;
    }
}

impl Ready {
    fn run(&mut self, inputs: &[TensorView<'_>], context: &mut ForwardContext<'_>) -> Result<Vec<Tensor>> {
        let limits = context.limits();
        let metas = TensorMeta::of_all(inputs);
        let outputs = self.layer.infer(&metas)?;
        if self.configured.as_ref() != Some(&metas) {
            self.layer.configure(&metas, &outputs)?;
        }
        let bytes = self.layer.workspace(&metas, &outputs);
        limits.check_tensor("workspace", bytes as u64)?;
        let mut workspace = Workspace::new()?;
        workspace.reserve(bytes)?;
        self.configured = Some(metas);
        let mut context = ForwardContext::new(&mut workspace, limits);
        if self.layer.is_data_dependent() {
            return self.layer.forward_dynamic(inputs, &mut context);
        }
        let shapes: Vec<Shape> = outputs.iter().map(TensorMeta::shape).collect::<Result<_, _>>()?;
        if let Some(views) = self.views(inputs, &outputs, &shapes)? {
            return Ok(views);
        }
        let mut tensors = Vec::with_capacity(outputs.len());
        for (meta, shape) in outputs.iter().zip(&shapes) {
            limits.check_tensor("an output", meta.byte_len().unwrap_or(u64::MAX))?;
            tensors.push(Tensor::empty(meta.dtype(), shape)?);
        }
        let mut targets: Vec<TensorViewMut<'_>> =
            tensors.iter_mut().map(Tensor::view_mut).collect::<Result<_, _>>()?;
        self.layer.forward(&mut Io::new(inputs, &mut targets, &mut context))?;
        drop(targets);
        Ok(tensors)
    }

    /// The outputs, if the layer only views its inputs: views of copies, one of each input.
    fn views(
        &self,
        inputs: &[TensorView<'_>],
        outputs: &[TensorMeta],
        shapes: &[Shape],
    ) -> Result<Option<Vec<Tensor>>> {
        let contiguous = |input: &TensorView<'_>| (input.dtype(), Layout::contiguous(*input.shape()));
        let layouts: Vec<(DType, Layout)> = inputs.iter().map(contiguous).collect();
        let (mut copies, mut tensors) = (BTreeMap::new(), Vec::with_capacity(shapes.len()));
        for (output, (meta, shape)) in outputs.iter().zip(shapes).enumerate() {
            let Some(view) = self.layer.view_of(output, &layouts, shape)? else { return Ok(None) };
            let Some(input) = inputs.get(view.input) else {
                return Err(LayerError::missing_input(view.input, inputs.len()));
            };
            let copy = match copies.entry(view.input) {
                Entry::Occupied(copy) => copy.into_mut(),
                Entry::Vacant(place) => place.insert(input.to_tensor()?),
            };
            tensors.push(copy.as_parts(meta.dtype(), view.layout)?);
        }
        Ok(Some(tensors))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::support::testing::{Operator, operator};

    fn pool() -> Operator<'static> {
        operator("F.avg_pool2d", &[("stride", "(1,1)")]).with_names(&["input", "kernel_size"])
    }

    fn plane() -> Tensor {
        Tensor::from_vec((0..6).map(|value| value as f32).collect(), &[1, 1, 2, 3]).unwrap()
    }

    fn message<T: std::fmt::Debug>(result: Result<T>) -> String {
        result.unwrap_err().to_string()
    }

    #[test]
    fn a_parameter_may_be_a_tensor() {
        let sizes = Tensor::from_vec(vec![2i64, 3], &[2]).unwrap();
        let pooled = pool().run_one(&[&plane(), &sizes]).unwrap();
        assert_eq!(pooled.shape().to_string(), "1×1×1×1");
        assert_eq!(pooled.to_vec::<f32>().unwrap(), [2.5]);
        let slope = operator("F.leaky_relu", &[]).with_names(&["input", "negative_slope"]);
        let negative = Tensor::from_vec(vec![-2f32], &[1]).unwrap();
        let scaled = slope.run_one(&[&negative, &Tensor::scalar(0.25f64)]).unwrap();
        assert_eq!(scaled.to_vec::<f32>().unwrap(), [-0.5]);
        let halves =
            operator("torch.chunk", &[("dim", "3")]).with_names(&["input", "chunks"]).with_outputs(2);
        let halves = halves.run(&[&plane(), &Tensor::scalar(2i64)]).unwrap();
        assert_eq!(halves[0].to_vec::<f32>().unwrap(), [0.0, 1.0, 3.0, 4.0]);
        assert_eq!(halves[1].to_vec::<f32>().unwrap(), [2.0, 5.0]);
    }

    #[test]
    fn shapes_follow_from_known_values() {
        let plane = TensorMeta::new(DType::F32, [1, 1, 8, 9]);
        let kernel = TensorMeta::new(DType::I64, [2]).with_values(vec![Dim::Fixed(2), Dim::Fixed(3)]);
        let outputs = pool().infer(&[plane, kernel]).unwrap();
        assert_eq!(outputs, [TensorMeta::new(DType::F32, [1, 1, 7, 7])]);
    }

    #[test]
    fn unknown_numbers_matter_only_if_the_shape_depends_on_them() {
        let (x, number) =
            (TensorMeta::new(DType::F32, [Dim::symbol("n"), 3.into()]), TensorMeta::new(DType::I64, [0; 0]));
        let triu = operator("aten::triu", &[]).with_names(&["input", "diagonal"]);
        assert_eq!(triu.infer(&[x.clone(), number.clone()]).unwrap(), [x.clone()]);
        let topk = operator("torch.topk", &[("dim", "1")]).with_names(&["input", "k"]).with_outputs(2);
        let [values, indices] = &topk.infer(&[x.clone(), number]).unwrap()[..] else { panic!("two outputs") };
        assert!(values.dims().iter().all(|dim| !x.dims().contains(dim)));
        assert_eq!((indices.dtype(), indices.rank()), (DType::I64, 2));
    }

    #[test]
    fn sizes_that_differ_only_for_unusual_numbers_are_unknown() {
        let (x, number) = (TensorMeta::new(DType::F32, [1, 1]), TensorMeta::new(DType::I64, [0; 0]));
        let diagonal = operator("aten::diagonal", &[]).with_names(&["input", "offset"]);
        let outputs = diagonal.infer(&[x, number]).unwrap();
        assert!(outputs[0].rank() == 1 && !outputs[0].is_fixed(), "{outputs:?}");
    }

    #[test]
    fn errors_name_the_parameter() {
        let run = |kernel: Tensor| {
            let (mut workspace, limits) = (Workspace::new().unwrap(), ixion_tensor::Limits::default());
            let mut context = ForwardContext::new(&mut workspace, &limits);
            message(pool().create(2).unwrap().forward_dynamic(&[plane().view(), kernel.view()], &mut context))
        };
        let square = Tensor::from_vec(vec![1i64; 4], &[2, 2]).unwrap();
        let complex = Tensor::zeros(DType::C64, &[2]).unwrap();
        let floats = Tensor::from_vec(vec![0.5f32, 2.0], &[2]).unwrap();
        let kind = "an integer of at least 0, or one for each axis";
        assert_eq!(
            run(square),
            format!(
                "input 1, the parameter `kernel_size`: expected {kind}, as a tensor with at most one axis, got 2×2 i64"
            )
        );
        let long = run(Tensor::zeros(DType::I64, &[65]).unwrap());
        assert!(long.ends_with("as a tensor with at most 64 numbers, got 65 i64"), "{long}");
        assert_eq!(run(complex), format!("input 1, the parameter `kernel_size`: expected {kind}, got c64"));
        assert_eq!(run(floats), format!("parameter `kernel_size`: expected {kind}, got `(0.5,2.0)`"));
        let twice =
            operator("F.leaky_relu", &[("negative_slope", "0.1")]).with_names(&["input", "negative_slope"]);
        let reason = "an input of the operator sets it, too; remove one of them";
        assert_eq!(message(twice.create(2)), format!("parameter `negative_slope` is 0.1: {reason}"));
        let twice = operator("F.leaky_relu", &[]).with_names(&["input", "negative_slope", "negative_slope"]);
        assert_eq!(message(twice.create(3)), format!("parameter `negative_slope` is an input: {reason}"));
        let unknown = operator("F.leaky_relu", &[("slope", "0.1")]).with_names(&["input", "negative_slope"]);
        assert!(message(unknown.create(2)).starts_with("unknown parameters: `slope`"));
    }
}
