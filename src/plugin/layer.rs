//! Layers whose code is in a plugin library.

use super::abi::{self, Tensor as CTensor};
use super::host::{Call, Opaque};
use super::redzone::Redzone;
use super::table::Checked;
use super::tensors::{Described, blank, of_format, of_layout, of_view, output};
use super::values::{Given, Values, Weights, as_values};
use crate::op::{
    CpuLayer, Io, Layer, LayerError, OperatorReader, Result, TensorFormat, TensorMeta, timed_limits, watched,
};
use crate::tensor::{DType, Format, Shape, Tensor, TensorView, TensorViewMut};
use std::ffi::{CString, c_void};
use std::fmt;
use std::ops::RangeInclusive;
use std::ptr::null_mut;
use std::sync::Arc;

/// A layer whose code is in a plugin library.
pub(crate) struct Foreign {
    operator: &'static Checked,
    instance: std::result::Result<Instance, String>,
    inputs: RangeInclusive<usize>,
    outputs: usize,
    weights: Arc<Weights>,
    /// For each field, the index of its weight in `weights`.
    #[cfg_attr(not(feature = "gpu"), allow(dead_code, reason = "kernels are given weights by their fields"))]
    weight_of: Arc<[Option<usize>]>,
    is_initialized: bool,
    configured: Option<Configured>,
}

/// A layer that the library created. Dropping it destroys the layer.
struct Instance {
    layer: Opaque,
    destroy: abi::Destroy,
}

// SAFETY: by the header, a layer may be used by any thread, but only by one at a time where it is not const.
unsafe impl Send for Instance {}
// SAFETY: as above; through `&Instance`, only functions that take it as const are called.
unsafe impl Sync for Instance {}

impl Drop for Instance {
    fn drop(&mut self) {
        // SAFETY: the library created the layer, which is destroyed only here.
        unsafe { (self.destroy)(self.layer) };
    }
}

/// The tensors that the layer was last configured for, and its workspace in bytes.
#[derive(Clone)]
struct Configured {
    inputs: Vec<TensorMeta>,
    outputs: Vec<TensorMeta>,
    workspace: usize,
}

impl Foreign {
    /// Creates the layer of an operator.
    ///
    /// # Errors
    /// Returns an error if a field is missing or has the wrong type, or the library fails.
    pub(super) fn create(operator: &'static Checked, reader: &mut OperatorReader<'_>) -> Result<Self> {
        let (given, weights) = Values::read(reader, &operator.fields)?.split();
        let name = CString::new(reader.name()).unwrap_or_default();
        let counts = [reader.num_inputs(), reader.num_outputs()];
        watched(timed_limits().as_ref(), move || Self::instantiate(operator, &given, weights, &name, counts))
    }

    fn instantiate(
        operator: &'static Checked,
        given: &[Given],
        weights: Weights,
        name: &CString,
        [num_inputs, num_outputs]: [usize; 2],
    ) -> Result<Self> {
        let values = as_values(given, &operator.fields, &weights);
        let node = abi::Node { name: name.as_ptr(), num_inputs, num_outputs, later: [null_mut(); 2] };
        let mut layer = null_mut();
        Call::timed().run(|host| {
            let (values, count) = (values.as_ptr(), values.len());
            // SAFETY: all pointers point to what the header requires until the call returns; the weights live longer.
            unsafe { (operator.required.create)(host, operator.original, &node, values, count, &mut layer) }
        })?;
        let instance = Instance { layer: not_null(layer, "create")?, destroy: operator.required.destroy };
        let table = &operator.table;
        let weight_of = given.iter().map(|given| given.weight).collect();
        let mut foreign = Self {
            operator,
            instance: Ok(instance),
            inputs: table.min_inputs as usize..=table.max_inputs as usize,
            outputs: table.num_outputs as usize,
            weights: Arc::new(weights),
            weight_of,
            is_initialized: false,
            configured: None,
        };
        foreign.count()?;
        Ok(foreign)
    }

    /// Queries the numbers of inputs and outputs.
    fn count(&mut self) -> Result<()> {
        let Some(counts) = self.operator.table.counts else { return Ok(()) };
        let (layer, mut found) = (self.layer()?, [0u32; 3]);
        let [min, max, outputs] = &mut found;
        // SAFETY: the library created the layer, and the counts are valid until the call returns.
        Call::timed().run(|host| unsafe { counts(host, layer, min, max, outputs) })?;
        (self.inputs, self.outputs) = (*min as usize..=*max as usize, *outputs as usize);
        Ok(())
    }

    pub(crate) fn layer(&self) -> Result<Opaque> {
        match &self.instance {
            Ok(instance) => Ok(instance.layer),
            Err(reason) => Err(LayerError::Plugin(format!("it could not be cloned: {reason}"))),
        }
    }

    pub(crate) fn takes_strides(&self) -> bool {
        self.operator.table.flags & abi::TAKES_STRIDES != 0
    }

    /// The operator's table.
    #[cfg(feature = "gpu")]
    pub(crate) fn table(&self) -> &abi::Operator {
        &self.operator.table
    }

    /// The weights from the file.
    #[cfg(feature = "gpu")]
    pub(crate) fn weight_tensors(&self) -> &[Tensor] {
        self.weights.tensors()
    }

    /// The index of a field's weight in [`Self::weight_tensors`].
    #[cfg(feature = "gpu")]
    pub(crate) fn weight_of_field(&self, field: usize) -> Option<usize> {
        self.weight_of.get(field).copied().flatten()
    }

    fn accepts(&self, position: usize, formats: &[TensorFormat]) -> bool {
        let (Some(supports), Ok(layer)) = (self.operator.table.supports, self.layer()) else {
            return formats.get(position) == Some(&TensorFormat::plain(DType::F32));
        };
        let formats: Vec<abi::TensorFormat> = formats.iter().map(of_format).collect();
        let (data, count) = (formats.as_ptr(), formats.len());
        // SAFETY: the library created the layer, and the formats are valid until the call returns.
        let answer = |host| unsafe { supports(host, layer, position, data, count) };
        position < count && Call::timed().answer(answer) != 0
    }

    /// Rejects formats that the plugin does not support: not every engine asks it first.
    fn check_formats(&self, inputs: &[TensorMeta], outputs: &[TensorMeta]) -> Result<()> {
        let formats: Vec<TensorFormat> =
            inputs.iter().chain(outputs).map(TensorMeta::tensor_format).collect();
        let refused = (0..formats.len()).find(|&position| !self.accepts(position, &formats));
        refused.map_or(Ok(()), |position| {
            // It may have rejected the format because it was stopped.
            timed_limits().map_or(Ok(()), |limits| limits.check_deadline())?;
            let format = formats.get(position).map(ToString::to_string).unwrap_or_default();
            let what = match position.checked_sub(inputs.len()) {
                None => format!("input {position}"),
                Some(output) => format!("output {output}"),
            };
            Err(LayerError::Plugin(format!(
                "{what} is {format}, which its `supports` rejects; convert it first"
            )))
        })
    }

    fn configure_plugin(&mut self, inputs: &[TensorMeta], outputs: &[TensorMeta]) -> Result<usize> {
        self.check_formats(inputs, outputs)?;
        let (call, layer, table) = (Call::timed(), self.layer()?, &self.operator.table);
        let (inputs, outputs) = (Described::of(inputs, &call)?, Described::of(outputs, &call)?);
        let (x, y) = ((inputs.as_ptr(), inputs.len()), (outputs.as_ptr(), outputs.len()));
        if let Some(configure) = table.configure {
            // SAFETY: the library created the layer, and the descriptions are valid until the call returns.
            call.run(|host| unsafe { configure(host, layer, x.0, x.1, y.0, y.1) })?;
        }
        let mut bytes = 0;
        if let Some(workspace) = table.workspace {
            // SAFETY: as above.
            call.run(|host| unsafe { workspace(host, layer, x.0, x.1, y.0, y.1, &mut bytes) })?;
        }
        Ok(bytes)
    }

    /// The configuration, if it is for these tensors.
    fn known(&self, inputs: &[TensorView<'_>], outputs: &[TensorViewMut<'_>]) -> Result<&Configured> {
        let inputs = || inputs.iter().map(|x| Some((x.dtype(), *x.shape())));
        let outputs = || outputs.iter().map(|y| Some((y.dtype(), *y.shape())));
        let known = self.configured.as_ref().filter(|known| {
            let (known_inputs, known_outputs) = (known.inputs.iter(), known.outputs.iter());
            inputs().eq(known_inputs.map(type_and_shape)) && outputs().eq(known_outputs.map(type_and_shape))
        });
        known.ok_or_else(|| LayerError::Unsupported("it is not configured for these tensors".to_owned()))
    }
}

fn type_and_shape(meta: &TensorMeta) -> Option<(DType, Shape)> {
    Some((meta.dtype(), meta.shape().ok()?))
}

fn not_null(layer: Opaque, what: &str) -> Result<Opaque> {
    if layer.is_null() {
        let (wanted, found) = ("a layer".to_owned(), format!("null from `{what}`"));
        return Err(LayerError::BrokenPromise { wanted, found });
    }
    Ok(layer)
}

impl fmt::Debug for Foreign {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Checked { name_space, type_name, version, .. } = self.operator;
        write!(f, "{name_space}/{type_name}/{version}")
    }
}

impl Layer for Foreign {
    fn num_inputs(&self) -> RangeInclusive<usize> {
        self.inputs.clone()
    }

    fn num_outputs(&self) -> usize {
        self.outputs
    }

    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
        let (call, layer, infer) = (Call::timed(), self.layer()?, self.operator.required.infer);
        let described = Described::of(inputs, &call)?;
        let mut outputs = vec![blank(); self.outputs];
        call.run(|host| {
            let (x, y) = ((described.as_ptr(), described.len()), (outputs.as_mut_ptr(), outputs.len()));
            // SAFETY: the library created the layer, and the descriptions are valid until the call returns.
            unsafe { infer(host, layer, x.0, x.1, y.0, y.1) }
        })?;
        let metas = outputs.iter().enumerate().map(|(position, tensor)| output(tensor, position, &call));
        let metas: Vec<TensorMeta> = metas.collect::<Result<_>>()?;
        match metas.iter().find(|meta| !meta.is_fixed()) {
            Some(open) if inputs.iter().all(TensorMeta::is_fixed) => Err(LayerError::BrokenPromise {
                wanted: "known output lengths for inputs of known lengths".to_owned(),
                found: open.to_string(),
            }),
            _ => Ok(metas),
        }
    }
}

impl CpuLayer for Foreign {
    fn supports(&self, position: usize, formats: &[TensorFormat]) -> bool {
        // The interface of plugins has no name for this order.
        let is_known = |format: &TensorFormat| format.format != Format::ChannelsLast;
        formats.iter().all(is_known) && self.accepts(position, formats)
    }

    fn configure(&mut self, inputs: &[TensorMeta], outputs: &[TensorMeta]) -> Result<()> {
        self.configured = None;
        let workspace = self.configure_plugin(inputs, outputs)?;
        self.configured = Some(Configured { inputs: inputs.to_vec(), outputs: outputs.to_vec(), workspace });
        Ok(())
    }

    fn workspace(&self, _: &[TensorMeta], _: &[TensorMeta]) -> usize {
        self.configured.as_ref().map_or(0, |configured| Redzone::around(configured.workspace))
    }

    fn initialize(&mut self) -> Result<()> {
        let layer = self.layer()?;
        if let Some(initialize) = self.operator.table.initialize {
            // SAFETY: the library created the layer, and `&mut self` gives exclusive access to it.
            Call::timed().run(|host| unsafe { initialize(host, layer) })?;
        }
        self.is_initialized = true;
        Ok(())
    }

    fn terminate(&mut self) {
        if let (Some(terminate), Ok(layer), true) =
            (self.operator.table.terminate, self.layer(), self.is_initialized)
        {
            // SAFETY: the library created the layer, and `&mut self` gives exclusive access to it.
            unsafe { terminate(layer) };
        }
        self.is_initialized = false;
    }

    fn serialize(&self) -> Result<Vec<u8>> {
        let Some(serialize) = self.operator.table.serialize else { return Ok(Vec::new()) };
        let (call, layer, mut wanted) = (Call::timed(), self.layer()?, 0);
        // SAFETY: the library created the layer, and nothing may be written with capacity 0.
        call.run(|host| unsafe { serialize(host, layer, null_mut(), 0, &mut wanted) })?;
        call.limits().check_tensor("the state of a layer", wanted as u64)?;
        let (mut bytes, mut written) = (vec![0; Redzone::around(wanted)], wanted);
        let zone = Redzone::mark(&mut bytes, wanted);
        let data = bytes.as_mut_ptr().cast::<c_void>();
        // SAFETY: the library created the layer, and the buffer is larger than the capacity that is passed.
        call.run(|host| unsafe { serialize(host, layer, data, wanted, &mut written) })?;
        zone.check(&bytes, "its state")?;
        if written != wanted {
            let (wanted, found) = (format!("{wanted} bytes of state"), written.to_string());
            return Err(LayerError::BrokenPromise { wanted, found });
        }
        bytes.truncate(wanted);
        Ok(bytes)
    }

    fn deserialize(&mut self, bytes: &[u8]) -> Result<()> {
        let layer = self.layer()?;
        match self.operator.table.deserialize {
            _ if bytes.is_empty() => Ok(()),
            // SAFETY: the library created the layer, `&mut self` gives exclusive access to it, and the bytes are valid until
            // the call returns.
            Some(deserialize) => Call::timed()
                .run(|host| unsafe { deserialize(host, layer, bytes.as_ptr().cast(), bytes.len()) }),
            None => Err(LayerError::Unsupported(format!(
                "{} bytes of state, but the plugin has no `deserialize`",
                bytes.len()
            ))),
        }
    }

    fn forward(&mut self, io: &mut Io<'_, '_>) -> Result<()> {
        let known = self.known(io.inputs, io.outputs)?;
        let (layer, forward) = (self.layer()?, self.operator.required.forward);
        let copies = io.inputs.iter().map(|input| self.copied(input)).collect::<Result<Vec<_>>>()?;
        let views =
            io.inputs.iter().zip(&copies).map(|(input, copy)| copy.as_ref().map_or(*input, Tensor::view));
        let scale = |meta: &TensorMeta| meta.scale().unwrap_or_default();
        let x: Vec<CTensor> =
            views.zip(&known.inputs).map(|(view, meta)| of_view(&view, scale(meta))).collect();
        let mut targets = io
            .outputs
            .iter_mut()
            .zip(&known.outputs)
            .map(|(output, meta)| Target::new(output.reborrow(), scale(meta), self.takes_strides()))
            .collect::<Result<Vec<_>>>()?;
        let y: Vec<CTensor> = targets.iter().map(|target| target.described).collect();
        let bytes = known.workspace;
        let (scratch, limits) = io.context.scratch_and_limits::<u8>(Redzone::around(bytes))?;
        let zone = Redzone::mark(scratch, bytes);
        let room = if bytes == 0 { null_mut() } else { scratch.as_mut_ptr().cast::<c_void>() };
        // SAFETY: the library created the layer, and `&mut self` gives exclusive access to it. Until the call returns, inputs,
        // outputs and scratch memory are valid, and the outputs are exclusively ours. Each description has its length in bytes.
        Call::within(limits).run(|host| unsafe {
            forward(host, layer, x.as_ptr(), x.len(), y.as_ptr(), y.len(), room, bytes)
        })?;
        zone.check(scratch, "its scratch memory")?;
        targets.iter_mut().try_for_each(Target::finish)
    }
}

impl Foreign {
    /// A contiguous copy of a strided input, for plugins that do not support strides; `None` if no copy is needed.
    fn copied(&self, input: &TensorView<'_>) -> Result<Option<Tensor>> {
        let layout = input.layout();
        let is_fine = layout.is_contiguous() || layout.format() != Format::Plain || self.takes_strides();
        if is_fine { Ok(None) } else { Ok(Some(input.to_tensor()?)) }
    }
}

/// The destination of an output: its own memory, or a contiguous copy.
struct Target<'a> {
    view: TensorViewMut<'a>,
    copy: Option<Tensor>,
    described: CTensor,
}

impl<'a> Target<'a> {
    fn new(mut view: TensorViewMut<'a>, scale: f32, takes_strides: bool) -> Result<Self> {
        let (dtype, layout) = (view.dtype(), *view.layout());
        let is_fine = layout.is_contiguous() || layout.format() != Format::Plain || takes_strides;
        if is_fine {
            let described = of_layout(dtype, &layout, view.address_mut(), scale);
            return Ok(Self { view, copy: None, described });
        }
        let mut copy = Tensor::zeros(dtype, layout.shape())?;
        let layout = *copy.layout();
        let described = of_layout(dtype, &layout, copy.view_mut()?.address_mut(), scale);
        Ok(Self { view, copy: Some(copy), described })
    }

    /// Normalises bools to 0 or 1, and writes back a contiguous copy.
    fn finish(&mut self) -> Result<()> {
        if self.described.dtype == DType::Bool.pnnx_code() {
            let data = self.described.data.cast::<u8>();
            for at in 0..self.described.bytes {
                // SAFETY: the bytes belong to the output or its copy, to which we have exclusive access. As `u8`, any value is
                // valid; bytes in gaps are bools of another tensor, which are 0 or 1 and keep their values.
                unsafe { *data.add(at) = u8::from(*data.add(at) != 0) };
            }
        }
        match &self.copy {
            Some(copy) => Ok(self.view.copy_from(&copy.view())?),
            None => Ok(()),
        }
    }
}

impl Clone for Foreign {
    fn clone(&self) -> Self {
        let clone = || -> Result<Instance> {
            let (layer, mut copy) = (self.layer()?, null_mut());
            let required = self.operator.required;
            // SAFETY: the library created the layer, and `copy` is valid until the call returns.
            Call::timed().run(|host| unsafe { (required.clone)(host, layer, &mut copy) })?;
            Ok(Instance { layer: not_null(copy, "clone")?, destroy: required.destroy })
        };
        Self {
            operator: self.operator,
            instance: clone().map_err(|error| error.to_string()),
            inputs: self.inputs.clone(),
            outputs: self.outputs,
            weights: Arc::clone(&self.weights),
            weight_of: Arc::clone(&self.weight_of),
            is_initialized: self.is_initialized,
            configured: self.configured.clone(),
        }
    }
}
