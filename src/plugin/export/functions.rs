//! The exported functions of layers in Rust. They catch all panics.

use super::tensors::{fill, list, meta, tensor_format, view, view_mut};
use crate::Limits;
use crate::op::{
    CpuLayer, Creator, ForwardContext, Io, LayerError, OperatorReader, Result, RuntimeAttribute,
    RuntimeParameter, TensorMeta, catch_panic,
};
use crate::plugin::abi::{self, Host, Node, Operator, Tensor, Value};
use crate::plugin::text::lossy;
use crate::tensor::{ALIGNMENT, DType, Layout, Scratch, TensorView, TensorViewMut};
use std::collections::BTreeMap;
use std::ffi::{CString, c_void};
use std::ptr::{null, null_mut};

/// The layer behind the host's pointer.
type Boxed = Box<dyn CpuLayer>;

/// A table with the functions, which are the same for every layer in Rust, and no description.
pub(super) fn functions() -> Operator {
    Operator {
        size: size_of::<Operator>(),
        type_name: null(),
        name_space: null(),
        version: null(),
        doc: null(),
        fields: null(),
        num_fields: 0,
        min_inputs: 0,
        max_inputs: u32::MAX,
        num_outputs: 1,
        flags: abi::TAKES_STRIDES,
        data: null_mut(),
        create: Some(create),
        clone: Some(clone),
        destroy: Some(destroy),
        counts: Some(counts),
        infer: Some(infer),
        supports: Some(supports),
        configure: Some(configure),
        workspace: Some(workspace),
        initialize: Some(initialize),
        terminate: Some(terminate),
        serialize: Some(serialize),
        deserialize: Some(deserialize),
        forward: Some(forward),
        cuda_supports: None,
        cuda_forward: None,
    }
}

/// Runs `work`, reports an error to the host, and returns the status.
fn report_to_host(host: *const Host, work: impl FnOnce() -> Result<()>) -> i32 {
    let error = match catch_panic(work) {
        Ok(()) => return abi::OK,
        Err(error) => error,
    };
    let (status, message) = match error {
        LayerError::Panic(message) => (abi::PANICKED, message),
        error => (abi::FAILED, error.to_string()),
    };
    let message = CString::new(message.replace('\0', "")).unwrap_or_default();
    // SAFETY: the host is the one of the current call.
    if let Some(fail) = unsafe { host.as_ref() }.and_then(|host| host.fail) {
        // SAFETY: as above; the message is valid until the call returns.
        unsafe { fail(host, message.as_ptr()) };
    }
    status
}

/// The layer behind a pointer.
///
/// # Safety
/// The pointer must come from [`create`] or [`clone`], and the layer must not be destroyed.
unsafe fn layer<'a>(layer: *const c_void) -> Result<&'a Boxed> {
    // SAFETY: by contract.
    unsafe { layer.cast::<Boxed>().as_ref() }
        .ok_or_else(|| LayerError::Plugin("the layer is null".to_owned()))
}

/// Same as [`layer`], with exclusive access.
///
/// # Safety
/// Same as [`layer`], and the layer must not be used otherwise as long as the result is used.
unsafe fn layer_mut<'a>(layer: *mut c_void) -> Result<&'a mut Boxed> {
    // SAFETY: by contract.
    unsafe { layer.cast::<Boxed>().as_mut() }
        .ok_or_else(|| LayerError::Plugin("the layer is null".to_owned()))
}

fn boxed(layer: Boxed) -> *mut c_void {
    Box::into_raw(Box::new(layer)).cast()
}

unsafe extern "C" fn create(
    host: *const Host,
    op: *const Operator,
    node: *const Node,
    values: *const Value,
    num_values: usize,
    created: *mut *mut c_void,
) -> i32 {
    report_to_host(host, || {
        // SAFETY: the host passes what the header requires; `data` is the creator that the table was built with.
        let (op, node, values) = unsafe { (&*op, &*node, list(values, num_values)) };
        // SAFETY: as above.
        let creator = unsafe { &*op.data.cast_const().cast::<Creator>() };
        // SAFETY: as above; there is a value for each field.
        let fields = unsafe { list(op.fields, op.num_fields) };
        let mut given = Given { names: vec![None; node.num_inputs], ..Given::default() };
        for (field, value) in fields.iter().zip(values) {
            // SAFETY: as above.
            unsafe { given.add(field, value) }?;
        }
        // SAFETY: as above.
        let name = unsafe { lossy(node.name) }.unwrap_or_default();
        let reader = OperatorReader::new(&given.params, &given.attrs, &given.names, node.num_outputs);
        // SAFETY: as above.
        let op_type = unsafe { lossy(op.type_name) }.unwrap_or_default();
        let layer = creator.create(reader.with_name(&name).with_op_type(&op_type))?;
        if layer.is_data_dependent() {
            let reason = "it has outputs of data-dependent size, which the plugin interface does not support";
            return Err(LayerError::Unsupported(reason.to_owned()));
        }
        // SAFETY: as above.
        unsafe { *created = boxed(layer) };
        Ok(())
    })
}

/// The input of an [`OperatorReader`], built from the values of a call.
#[derive(Default)]
struct Given {
    params: BTreeMap<String, RuntimeParameter>,
    attrs: BTreeMap<String, RuntimeAttribute>,
    names: Vec<Option<String>>,
}

impl Given {
    /// # Safety
    /// Field and value must be as the header requires.
    unsafe fn add(&mut self, field: &abi::Field, value: &Value) -> Result<()> {
        // SAFETY: by contract, here and below.
        let key = unsafe { lossy(value.key) }.unwrap_or_default();
        match value.kind {
            // An explicit `None`, so that the reader does not take an unnamed input for the weight.
            abi::NONE if field.kind == abi::OPTIONAL_WEIGHT => {
                self.params.insert(key, RuntimeParameter::parse("None"));
            }
            abi::WEIGHT | abi::OPTIONAL_WEIGHT | abi::INPUT => {
                // SAFETY: by contract.
                match unsafe { value.tensor.as_ref() } {
                    Some(tensor) => {
                        // SAFETY: by contract; the copy is ours.
                        let weight = unsafe { view(tensor) }?.to_tensor()?;
                        self.attrs.insert(key, RuntimeAttribute::from_tensor(weight));
                    }
                    None => {
                        let place = usize::try_from(value.i).ok().and_then(|at| self.names.get_mut(at));
                        place.into_iter().for_each(|place| *place = Some(key.clone()));
                    }
                }
            }
            _ if value.is_given == 0 => {}
            _ => {
                // SAFETY: by contract.
                let text = unsafe { lossy(value.text) }.unwrap_or_default();
                self.params.insert(key, RuntimeParameter::parse(&text));
            }
        }
        Ok(())
    }
}

unsafe extern "C" fn clone(host: *const Host, original: *const c_void, copy: *mut *mut c_void) -> i32 {
    report_to_host(host, || {
        // SAFETY: the host passes what the header requires.
        unsafe { *copy = boxed(layer(original)?.clone()) };
        Ok(())
    })
}

unsafe extern "C" fn destroy(layer: *mut c_void) {
    // The message of a panic is already printed, and there is no host to report it to.
    let _ = catch_panic(|| {
        if !layer.is_null() {
            // SAFETY: by the header, a layer is destroyed only once.
            drop(unsafe { Box::from_raw(layer.cast::<Boxed>()) });
        }
        Ok(())
    });
}

unsafe extern "C" fn counts(
    host: *const Host,
    of: *const c_void,
    min_inputs: *mut u32,
    max_inputs: *mut u32,
    outputs: *mut u32,
) -> i32 {
    report_to_host(host, || {
        let number = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
        // SAFETY: the host passes what the header requires.
        unsafe {
            let layer = layer(of)?;
            let range = layer.num_inputs();
            (*min_inputs, *max_inputs) = (number(*range.start()), number(*range.end()));
            *outputs = number(layer.num_outputs());
        }
        Ok(())
    })
}

/// # Safety
/// As [`meta`].
unsafe fn metas(first: *const Tensor, count: usize) -> Result<Vec<TensorMeta>> {
    // SAFETY: by contract.
    unsafe { list(first, count) }.iter().map(|tensor| unsafe { meta(tensor) }).collect()
}

unsafe extern "C" fn infer(
    host: *const Host,
    of: *const c_void,
    inputs: *const Tensor,
    num_inputs: usize,
    outputs: *mut Tensor,
    num_outputs: usize,
) -> i32 {
    report_to_host(host, || {
        // SAFETY: the host passes what the header requires.
        let (layer, inputs) = unsafe { (layer(of)?, metas(inputs, num_inputs)?) };
        let inferred = layer.infer(&inputs)?;
        if inferred.len() != num_outputs {
            let (wanted, found) = (format!("{num_outputs} outputs"), inferred.len().to_string());
            return Err(LayerError::BrokenPromise { wanted, found });
        }
        for (position, meta) in inferred.iter().enumerate() {
            // SAFETY: as above.
            fill(unsafe { &mut *outputs.add(position) }, meta, host)?;
        }
        Ok(())
    })
}

unsafe extern "C" fn supports(
    _: *const Host,
    of: *const c_void,
    position: usize,
    formats: *const abi::TensorFormat,
    num_formats: usize,
) -> i32 {
    let answer = catch_panic(|| {
        // SAFETY: the host passes what the header requires.
        let (layer, formats) = unsafe { (layer(of)?, list(formats, num_formats)) };
        let formats: Option<Vec<_>> = formats.iter().map(tensor_format).collect();
        Ok(formats.is_some_and(|formats| layer.supports(position, &formats)))
    });
    answer.unwrap_or(false).into()
}

unsafe extern "C" fn configure(
    host: *const Host,
    of: *mut c_void,
    inputs: *const Tensor,
    num_inputs: usize,
    outputs: *const Tensor,
    num_outputs: usize,
) -> i32 {
    // SAFETY: the host passes what the header requires.
    report_to_host(host, || unsafe {
        layer_mut(of)?.configure(&metas(inputs, num_inputs)?, &metas(outputs, num_outputs)?)
    })
}

unsafe extern "C" fn workspace(
    host: *const Host,
    of: *const c_void,
    inputs: *const Tensor,
    num_inputs: usize,
    outputs: *const Tensor,
    num_outputs: usize,
    bytes: *mut usize,
) -> i32 {
    report_to_host(host, || {
        // SAFETY: the host passes what the header requires.
        unsafe {
            *bytes = layer(of)?.workspace(&metas(inputs, num_inputs)?, &metas(outputs, num_outputs)?);
        }
        Ok(())
    })
}

unsafe extern "C" fn initialize(host: *const Host, of: *mut c_void) -> i32 {
    // SAFETY: the host passes what the header requires.
    report_to_host(host, || unsafe { layer_mut(of)?.initialize() })
}

unsafe extern "C" fn terminate(of: *mut c_void) {
    // As in `destroy`, there is no host to report a panic to.
    let _ = catch_panic(|| {
        // SAFETY: the host passes what the header requires.
        unsafe { layer_mut(of)?.terminate() };
        Ok(())
    });
}

unsafe extern "C" fn serialize(
    host: *const Host,
    of: *const c_void,
    buffer: *mut c_void,
    capacity: usize,
    written: *mut usize,
) -> i32 {
    report_to_host(host, || {
        // SAFETY: the host passes what the header requires.
        let bytes = unsafe { layer(of)? }.serialize()?;
        // SAFETY: as above.
        unsafe { *written = bytes.len() };
        if capacity >= bytes.len() && !buffer.is_null() {
            // SAFETY: as above; the buffer is large enough.
            unsafe { buffer.cast::<u8>().copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
        }
        Ok(())
    })
}

unsafe extern "C" fn deserialize(
    host: *const Host,
    of: *mut c_void,
    bytes: *const c_void,
    count: usize,
) -> i32 {
    // SAFETY: the host passes what the header requires.
    report_to_host(host, || unsafe { layer_mut(of)?.deserialize(list(bytes.cast::<u8>(), count)) })
}

unsafe extern "C" fn forward(
    host: *const Host,
    of: *mut c_void,
    inputs: *const Tensor,
    num_inputs: usize,
    outputs: *const Tensor,
    num_outputs: usize,
    workspace: *mut c_void,
    workspace_bytes: usize,
) -> i32 {
    report_to_host(host, || {
        // SAFETY: the host passes what the header requires: tensors that are valid until the call returns, with exclusive
        // access to the outputs.
        let (layer, inputs, mut outputs) = unsafe {
            let inputs =
                list(inputs, num_inputs).iter().map(|tensor| view(tensor)).collect::<Result<Vec<_>>>()?;
            let outputs = list(outputs, num_outputs).iter().map(|tensor| view_mut(tensor));
            (layer_mut(of)?, inputs, outputs.collect::<Result<Vec<_>>>()?)
        };
        if shown(&**layer, &inputs, &mut outputs)? {
            return Ok(());
        }
        let room =
            if workspace.is_null() { std::ptr::without_provenance_mut(ALIGNMENT) } else { workspace.cast() };
        let bytes = if workspace.is_null() { 0 } else { workspace_bytes };
        // SAFETY: the scratch memory is exclusively ours until the call returns, initialised and aligned.
        let scratch = unsafe { Scratch::from_raw(room, bytes) };
        let limits = Limits::default();
        layer.forward(&mut Io::new(&inputs, &mut outputs, &mut ForwardContext::new(scratch, &limits)))
    })
}

/// Copies outputs that the layer would return as views of its inputs. Returns false if the layer must compute them.
fn shown(layer: &dyn CpuLayer, inputs: &[TensorView<'_>], outputs: &mut [TensorViewMut<'_>]) -> Result<bool> {
    let layouts: Vec<(DType, Layout)> = inputs.iter().map(|input| (input.dtype(), *input.layout())).collect();
    for (position, output) in outputs.iter_mut().enumerate() {
        let Some(view) = layer.view_of(position, &layouts, output.shape())? else { return Ok(false) };
        let input = inputs.get(view.input).filter(|input| input.dtype() == output.dtype());
        let Some(input) = input else { return Ok(false) };
        output.copy_from(&input.with_layout(view.layout)?)?;
    }
    Ok(!outputs.is_empty())
}
