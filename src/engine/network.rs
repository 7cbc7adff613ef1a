//! Networks built in code instead of read from a file.

use super::{Builder, EngineError};
use crate::graph::{GraphError, OperatorPlace, Stage, UnknownOperator};
use crate::op::{
    CpuLayer, LayerError, OperatorReader, PluginName, Registry, RuntimeAttribute, RuntimeParameter,
    TensorMeta, catch_panic,
};
use crate::pnnx::{self, Attribute, Graph, OperatorId, PnnxError};
use crate::tensor::{DType, Dim, DimExpr, Tensor};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

/// A tensor of a [`Network`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Operand {
    network: NetworkId,
    position: usize,
}

/// Identifies a network; unique for each one that is created.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct NetworkId(u64);

impl Default for NetworkId {
    fn default() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Self(NEXT.fetch_add(1, Ordering::Relaxed))
    }
}

/// The parameters, weights and input names of an operator for [`Network::add_layer`], by the keys of the fields that the
/// registry publishes for its layer.
///
/// ```
/// use ixion::engine::Fields;
/// use ixion::tensor::{DType, Tensor};
/// let fields = Fields::new()
///     .with_param("kernel_size", vec![3, 3])
///     .with_param("padding_mode", "zeros")
///     .with_weight("bias", Tensor::zeros(DType::F32, &[8])?);
/// # Ok::<(), ixion::tensor::TensorError>(())
/// ```
#[derive(Debug, Clone, Default)]
pub struct Fields {
    params: BTreeMap<String, RuntimeParameter>,
    weights: BTreeMap<String, Tensor>,
    names: Vec<(usize, String)>,
    num_outputs: Option<usize>,
}

impl Fields {
    /// Creates an empty set of fields.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a parameter: a number, a bool, a list of these, or a text as in a `.param` file.
    #[must_use]
    pub fn with_param(mut self, key: impl Into<String>, value: impl Into<RuntimeParameter>) -> Self {
        self.params.insert(key.into(), value.into());
        self
    }

    /// Adds a weight.
    #[must_use]
    pub fn with_weight(mut self, key: impl Into<String>, weight: Tensor) -> Self {
        self.weights.insert(key.into(), weight);
        self
    }

    /// Names the input at a position, for operators that identify their inputs by name.
    #[must_use]
    pub fn with_input_name(mut self, position: usize, name: impl Into<String>) -> Self {
        self.names.push((position, name.into()));
        self
    }

    /// Sets the number of outputs, for operators with a variable number of outputs, such as `torch.split`.
    #[must_use]
    pub fn with_num_outputs(self, count: usize) -> Self {
        Self { num_outputs: Some(count), ..self }
    }

    fn input_names(&self, count: usize) -> Vec<Option<String>> {
        let mut names = vec![None; count];
        for (position, name) in &self.names {
            if let Some(slot) = names.get_mut(*position) {
                *slot = Some(name.clone());
            }
        }
        names
    }

    fn attrs(&self) -> BTreeMap<String, RuntimeAttribute> {
        let weights = self.weights.iter();
        weights.map(|(key, weight)| (key.clone(), RuntimeAttribute::from_tensor(weight.clone()))).collect()
    }
}

/// A network built in code: inputs, layers and plugins, added in order, and the outputs.
///
/// Each layer is created and its outputs are inferred when it is added, so that a mismatch is an error at that line. The
/// result is a [`pnnx::Graph`], which can be saved as `.param` and `.bin`, and with which everything works that works with a
/// file.
///
/// ```
/// use ixion::engine::{Fields, Network};
/// use ixion::tensor::{DType, Tensor};
///
/// let mut network = Network::new();
/// let x = network.add_input("x", DType::F32, ["n".into(), 4.into()])?;
/// let weights = Fields::new()
///     .with_param("in_features", 4)
///     .with_param("out_features", 2)
///     .with_param("bias", false)
///     .with_weight("weight", Tensor::ones(DType::F32, &[2, 4])?);
/// let sums = network.add_layer("nn.Linear", "sums", &[x], &weights)?;
/// let relu = network.add_layer("F.relu", "relu", &sums, &Fields::new())?;
/// network.mark_output(relu[0], "y")?;
///
/// let plan = network.builder()?.build()?;
/// let y = plan.context()?.run(&[Tensor::ones(DType::F32, &[3, 4])?])?;
/// assert_eq!(y[0].to_vec::<f32>()?, [4.0; 6]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Default)]
pub struct Network {
    id: NetworkId,
    graph: Graph,
    registry: Registry,
    operands: Vec<Known>,
    outputs: Vec<(Operand, String)>,
}

/// An operand and what is inferred about it.
#[derive(Debug, Clone)]
struct Known {
    id: pnnx::OperandId,
    /// `None` if it depends on values.
    meta: Option<TensorMeta>,
    /// The name of the input, if it is one.
    input: Option<String>,
}

/// A length of a [`Network`] input: a number, or a name for a length that is unknown before a run. Equal names mean equal
/// lengths; `?` is any length.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Len(Dim);

impl From<usize> for Len {
    fn from(len: usize) -> Self {
        Self(Dim::from(len))
    }
}

impl From<i32> for Len {
    /// A negative number means any length, as -1 does in many interfaces.
    fn from(len: i32) -> Self {
        usize::try_from(len).map_or_else(|_| Self::from("?"), Self::from)
    }
}

impl From<&str> for Len {
    fn from(name: &str) -> Self {
        Self(if name == "?" { Dim::fresh("len") } else { Dim::symbol(name) })
    }
}

impl Network {
    /// Creates an empty network with the built-in layers.
    pub fn new() -> Self {
        Self::default()
    }

    /// Creates layers from this registry instead of the built-in one.
    #[must_use]
    pub fn with_registry(self, registry: Registry) -> Self {
        Self { registry, ..self }
    }

    /// Adds an input.
    ///
    /// # Errors
    /// Returns an error if the name is taken or cannot be written to a file.
    pub fn add_input(
        &mut self,
        name: &str,
        dtype: DType,
        lens: impl IntoIterator<Item = Len>,
    ) -> Result<Operand, EngineError> {
        let lens = lens.into_iter().map(|Len(len)| len).collect::<Vec<Dim>>();
        self.check_free(name)?;
        let operator = self.graph.new_operator("pnnx.Input", name).map_err(PnnxError::from)?;
        let output = (name.to_owned(), Some(TensorMeta::new(dtype, lens)));
        let added = self.add_atomically(operator, |network| network.add_output(operator, output))?;
        if let Some(known) = self.operands.get_mut(added.position) {
            known.input = Some(name.to_owned());
        }
        Ok(added)
    }

    /// Adds a layer, and returns its outputs. `op_type` is a type that the registry knows, such as `nn.Conv2d`, or the name of
    /// a layer, such as `acme/Conv/1`.
    ///
    /// # Errors
    /// Returns an error if no layer implements the type; if fields are missing, unknown or of the wrong kind; if the layer
    /// does not accept the inputs; or if the name is taken. The network is then unchanged.
    pub fn add_layer(
        &mut self,
        op_type: &str,
        name: &str,
        inputs: &[Operand],
        fields: &Fields,
    ) -> Result<Vec<Operand>, EngineError> {
        self.check_free(name)?;
        let known: Vec<Known> =
            inputs.iter().map(|&input| self.known(input).cloned()).collect::<Result<_, EngineError>>()?;
        let inferred = self.infer_outputs(op_type, name, &known, fields)?;
        let operator = self.graph.new_operator(op_type, name).map_err(PnnxError::from)?;
        let outputs = inferred.into_iter().enumerate().map(|(position, meta)| match position {
            0 => (name.to_owned(), meta),
            _ => (format!("{name}.{position}"), meta),
        });
        self.add_atomically(operator, |network| {
            network.set_fields(operator, &known, fields)?;
            outputs.map(|output| network.add_output(operator, output)).collect()
        })
    }

    fn set_fields(
        &mut self,
        operator: OperatorId,
        inputs: &[Known],
        fields: &Fields,
    ) -> Result<(), EngineError> {
        for (input, key) in inputs.iter().zip(fields.input_names(inputs.len())) {
            self.graph.connect_input(operator, input.id, key.as_deref()).map_err(PnnxError::from)?;
        }
        for (key, value) in &fields.params {
            self.graph.set_param(operator, key, value.clone()).map_err(PnnxError::from)?;
        }
        for (key, weight) in &fields.weights {
            let bytes = weight.to_le_bytes()?;
            let attribute = Attribute::new(weight.dtype(), weight.shape().to_vec(), bytes);
            let attribute = attribute.map_err(PnnxError::from)?;
            self.graph.set_attribute(operator, key, attribute).map_err(PnnxError::from)?;
        }
        Ok(())
    }

    /// Adds the layer of this namespace, type and version; see [`Network::add_layer`].
    ///
    /// # Errors
    /// As [`Network::add_layer`]. If there is no such layer, the error names all three.
    pub fn add_plugin(
        &mut self,
        plugin: &PluginName,
        name: &str,
        inputs: &[Operand],
        fields: &Fields,
    ) -> Result<Vec<Operand>, EngineError> {
        self.add_layer(&plugin.to_string(), name, inputs, fields)
    }

    /// Sets the element type of an operand. For an input, this is the type in which it is given, and must be set before a
    /// layer reads it; any other operand is converted once it is computed, for all layers that are added afterwards.
    ///
    /// # Errors
    /// Returns an error if the operand is an input that a layer already reads.
    pub fn set_dtype(&mut self, operand: Operand, dtype: DType) -> Result<(), EngineError> {
        let known = self.known(operand)?.clone();
        if let (Some(input), Some(meta)) = (&known.input, &known.meta) {
            if !self.graph.operand(known.id).consumers().is_empty() {
                return Err(EngineError::Network(format!(
                    "the type of input `{input}` must be set before a layer reads it"
                )));
            }
            let meta = meta.with_dtype(dtype);
            self.describe(known.id, &meta)?;
            return self.redefine(operand, Known { meta: Some(meta), ..known });
        }
        if known.meta.as_ref().is_some_and(|meta| meta.dtype() == dtype) {
            return Ok(());
        }
        let name = format!("{}.{}", self.graph.operand(known.id).name(), dtype.name());
        let fields = Fields::new().with_param("dtype", dtype.torch_name());
        let cast = self.add_layer("Tensor.to", &name, &[operand], &fields)?;
        let cast = cast.first().map(|&cast| self.known(cast).cloned()).transpose()?;
        cast.map_or(Ok(()), |cast| self.redefine(operand, cast))
    }

    /// Returns an operand from the network under this name.
    ///
    /// # Errors
    /// Returns an error if the name is taken.
    pub fn mark_output(&mut self, operand: Operand, name: &str) -> Result<(), EngineError> {
        self.known(operand)?;
        let is_taken = self.outputs.iter().any(|(_, output)| output == name);
        if is_taken {
            return Err(EngineError::Network(format!("the output name `{name}` is already taken")));
        }
        self.check_free(name)?;
        self.outputs.push((operand, name.to_owned()));
        Ok(())
    }

    /// The element type and dimensions of an operand; `None` if they depend on values.
    pub fn meta(&self, operand: Operand) -> Option<&TensorMeta> {
        self.known(operand).ok()?.meta.as_ref()
    }

    /// Converts the network to the graph of a PNNX file.
    ///
    /// # Errors
    /// Returns an error if the network has no outputs.
    pub fn into_graph(self) -> Result<Graph, EngineError> {
        if self.outputs.is_empty() {
            return Err(EngineError::Network("it has no outputs; add one with `mark_output`".to_owned()));
        }
        let ids: Vec<(pnnx::OperandId, String)> = self
            .outputs
            .iter()
            .map(|(operand, name)| Ok((self.known(*operand)?.id, name.clone())))
            .collect::<Result<_, EngineError>>()?;
        let mut graph = self.graph;
        for (id, name) in ids {
            let output = graph.new_operator("pnnx.Output", &name).map_err(PnnxError::from)?;
            graph.connect_input(output, id, None).map_err(PnnxError::from)?;
        }
        Ok(graph)
    }

    /// Creates a builder for the network, with its registry.
    ///
    /// # Errors
    /// As [`Network::into_graph`].
    pub fn builder(self) -> Result<Builder, EngineError> {
        let registry = self.registry.clone();
        Ok(Builder::from_pnnx(self.into_graph()?).with_registry(registry))
    }
}

/// A length as written to a file: names are kept, expressions over them become unknown.
fn in_file(dim: &Dim) -> pnnx::Dim {
    match dim {
        Dim::Fixed(len) => u64::try_from(*len).map_or(pnnx::Dim::Unknown, pnnx::Dim::Fixed),
        Dim::Symbolic(len) => match &**len {
            DimExpr::Symbol(name) if !name.contains('#') => pnnx::Dim::Named(name.clone()),
            _ => pnnx::Dim::Unknown,
        },
    }
}

impl Network {
    fn known(&self, operand: Operand) -> Result<&Known, EngineError> {
        let foreign = || EngineError::Network("an operand belongs to another network".to_owned());
        let known = self.operands.get(operand.position).filter(|_| operand.network == self.id);
        known.ok_or_else(foreign)
    }

    fn redefine(&mut self, operand: Operand, known: Known) -> Result<(), EngineError> {
        if let Some(place) = self.operands.get_mut(operand.position) {
            *place = known;
        }
        Ok(())
    }

    /// Checks that a name is free. Outputs are checked separately, as their operators are added at the end.
    fn check_free(&self, name: &str) -> Result<(), EngineError> {
        let is_taken = self.graph.operator_named(name).is_some()
            || self.outputs.iter().any(|(_, output)| output == name);
        match is_taken {
            true => Err(EngineError::Network(format!("the name `{name}` is already taken"))),
            false => Ok(()),
        }
    }

    /// Completes an operator that was just added. If `complete` fails, removes the operator and its outputs.
    fn add_atomically<T>(
        &mut self,
        operator: OperatorId,
        complete: impl FnOnce(&mut Self) -> Result<T, EngineError>,
    ) -> Result<T, EngineError> {
        let count = self.operands.len();
        let completed = complete(self);
        if completed.is_err() {
            // Nothing reads the new operator, so removing it cannot fail; its outputs are removed with it.
            _ = self.graph.remove_operator(operator);
            self.operands.truncate(count);
        }
        completed
    }

    fn add_output(
        &mut self,
        operator: OperatorId,
        (name, meta): (String, Option<TensorMeta>),
    ) -> Result<Operand, EngineError> {
        let id = self.graph.new_operand(&name).map_err(PnnxError::from)?;
        self.graph.connect_output(operator, id).map_err(PnnxError::from)?;
        if let Some(meta) = &meta {
            self.describe(id, meta)?;
        }
        self.operands.push(Known { id, meta, input: None });
        Ok(Operand { network: self.id, position: self.operands.len() - 1 })
    }

    fn describe(&mut self, id: pnnx::OperandId, meta: &TensorMeta) -> Result<(), EngineError> {
        let shape = meta.dims().iter().map(in_file).collect();
        let described = self.graph.set_operand_type(id, Some(meta.dtype()), Some(shape));
        Ok(described.map_err(PnnxError::from)?)
    }

    /// Infers the outputs of a layer with these fields; `None` where they depend on values.
    fn infer_outputs(
        &self,
        op_type: &str,
        name: &str,
        inputs: &[Known],
        fields: &Fields,
    ) -> Result<Vec<Option<TensorMeta>>, EngineError> {
        let place =
            || OperatorPlace { op_type: op_type.to_owned(), name: name.to_owned(), file: None, line: None };
        let fault = |stage, source: LayerError| {
            let (place, source) = (Box::new(place()), Box::new(source));
            EngineError::from(GraphError::Operator { place, stage, source, inputs: Vec::new() })
        };
        let parsed = op_type.parse::<PluginName>().ok();
        let named = parsed.as_ref().and_then(|name| self.registry.find(name));
        let Some(creator) = self.registry.known(op_type).or(named) else {
            let nearest = self.registry.nearest(op_type);
            let operators = vec![UnknownOperator { place: place(), nearest }];
            return Err(GraphError::UnknownOperators { operators }.into());
        };
        let (attrs, names) = (fields.attrs(), fields.input_names(inputs.len()));
        let reader = OperatorReader::new(&fields.params, &attrs, &names, fields.num_outputs.unwrap_or(1))
            .with_name(name)
            .with_op_type(op_type);
        let layer = creator.create(reader).map_err(|source| fault(Stage::Create, source))?;
        let count = catch_panic(|| output_count(&*layer, inputs.len()))
            .map_err(|source| fault(Stage::Create, source))?;
        let Some(known) = inputs.iter().map(|input| input.meta.clone()).collect::<Option<Vec<TensorMeta>>>()
        else {
            return Ok(vec![None; count]);
        };
        let inferred = match catch_panic(|| layer.infer(&known)) {
            Ok(inferred) => inferred,
            // Shapes that depend on values are known only when the layer runs.
            Err(LayerError::Unsupported(_)) => return Ok(vec![None; count]),
            Err(source) => return Err(fault(Stage::Infer, source)),
        };
        if inferred.len() != count {
            let (wanted, found) = (format!("{count} outputs"), inferred.len().to_string());
            return Err(fault(Stage::Infer, LayerError::BrokenPromise { wanted, found }));
        }
        Ok(inferred.into_iter().map(Some).collect())
    }
}

/// The number of outputs of a layer with this number of inputs.
fn output_count(layer: &dyn CpuLayer, inputs: usize) -> Result<usize, LayerError> {
    /// A limit, as the number that a layer reports may be wrong.
    const MAX_OUTPUTS: usize = 1 << 16;
    let (range, outputs) = (layer.num_inputs(), layer.num_outputs());
    if !range.contains(&inputs) {
        return Err(LayerError::input_count(&range, inputs));
    }
    match outputs <= MAX_OUTPUTS {
        true => Ok(outputs),
        false => Err(LayerError::BrokenPromise {
            wanted: format!("at most {MAX_OUTPUTS} outputs"),
            found: outputs.to_string(),
        }),
    }
}
