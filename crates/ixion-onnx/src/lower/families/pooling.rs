//! Pooling.

use super::windows::{AutoPad, Windows};
use crate::OnnxError;
use crate::lower::call::{Outputs, Table, one};
use crate::lower::{Call, Value};

pub(super) const TABLE: Table = &[
    ("AveragePool", average_pool),
    ("GlobalAveragePool", global),
    ("GlobalLpPool", global_lp_pool),
    ("GlobalMaxPool", global),
    ("LpPool", lp_pool),
    ("MaxPool", max_pool),
    ("MaxUnpool", max_unpool),
];

/// The padding of a window in PyTorch's form, if PyTorch's poolings have it: known, the same at both ends, and at most half of
/// the window.
fn torch_padding(windows: &Windows) -> Option<Vec<i64>> {
    let fits = |(pad, kernel): (&i64, &i64)| *pad <= *kernel / 2;
    let is_supported = (1..=3).contains(&windows.kernel.len());
    windows.even_pads().filter(|pads| is_supported && pads.iter().zip(&windows.kernel).all(fits))
}

/// Returns true if a last window that is only partly inside counts.
fn ceil_mode(call: &Call<'_>, windows: &Windows) -> Result<bool, OnnxError> {
    let given = call.flag_or("ceil_mode", false)?;
    Ok(given && matches!(windows.auto_pad, AutoPad::NotSet | AutoPad::Valid))
}

/// `MaxPool`: a module, unless indices are wanted, which PyTorch counts differently.
fn max_pool(call: &mut Call<'_>) -> Outputs {
    let x = call.input(0)?;
    let windows = Windows::of_pooling(call)?;
    let (ceil_mode, storage_order) = (ceil_mode(call, &windows)?, call.flag_or("storage_order", false)?);
    let has_indices = call.has_output(1);
    match torch_padding(&windows).filter(|_| !has_indices) {
        Some(padding) => one(call
            .emit(&format!("nn.MaxPool{}d", windows.kernel.len()))
            .input(x)
            .param("ceil_mode", ceil_mode)
            .param("dilation", windows.dilations)
            .param("kernel_size", windows.kernel)
            .param("padding", padding)
            .param("return_indices", false)
            .param("stride", windows.strides)
            .one()),
        None => {
            let emit = call.same_with_window()?.input(x).param("ceil_mode", i64::from(ceil_mode));
            let emit = emit.param("storage_order", i64::from(storage_order));
            let outputs = emit.many(if has_indices { 2 } else { 1 })?;
            Ok(outputs.into_iter().map(Value::Operand).collect())
        }
    }
}

/// `AveragePool`: a module if PyTorch has the padding.
fn average_pool(call: &mut Call<'_>) -> Outputs {
    let x = call.input(0)?;
    let windows = Windows::of_pooling(call)?;
    let ceil_mode = ceil_mode(call, &windows)?;
    let counts_padding = call.flag_or("count_include_pad", false)?;
    let axes = windows.kernel.len();
    match torch_padding(&windows).filter(|_| windows.is_dense()) {
        Some(padding) => {
            // Without padding both mean the same, and PNNX writes PyTorch's default.
            let counts_padding = counts_padding || (!ceil_mode && padding.iter().all(|pad| *pad == 0));
            let emit = call.emit(&format!("nn.AvgPool{axes}d")).input(x).param("ceil_mode", ceil_mode);
            let emit = emit.param("count_include_pad", counts_padding).param("kernel_size", windows.kernel);
            let emit = emit.param("padding", padding).param("stride", windows.strides);
            // The module for one axis has no such argument.
            let divisor = (axes > 1).then_some("None");
            one(emit.param_if("divisor_override", divisor).one())
        }
        None => {
            let emit = call.same_with_window()?.input(x).param("ceil_mode", i64::from(ceil_mode));
            one(emit.param("count_include_pad", i64::from(counts_padding)).one())
        }
    }
}

/// `LpPool`, under its own name: PyTorch has no padding there.
fn lp_pool(call: &mut Call<'_>) -> Outputs {
    let x = call.input(0)?;
    let windows = Windows::of_pooling(call)?;
    let (ceil_mode, p) = (ceil_mode(call, &windows)?, call.int_or("p", 2)?);
    one(call.same_with_window()?.input(x).param("ceil_mode", i64::from(ceil_mode)).param("p", p).one())
}

/// A pooling of all elements of each channel, under its own name: the number of axes is unknown here.
fn global(call: &mut Call<'_>) -> Outputs {
    let x = call.input(0)?;
    let op_type = call.op_type();
    one(call.operator(op_type, &[x], &[]))
}

/// `GlobalLpPool`, under its own name.
fn global_lp_pool(call: &mut Call<'_>) -> Outputs {
    let x = call.input(0)?;
    let p = call.int_or("p", 2)?;
    one(call.operator("GlobalLpPool", &[x], &[("p", p.into())]))
}

/// `MaxUnpool`, under its own name: indices count through all channels.
fn max_unpool(call: &mut Call<'_>) -> Outputs {
    let (x, indices) = (call.input(0)?, call.input(1)?);
    Windows::of_pooling(call)?;
    let shape = call.constant_ints(2)?;
    let computed = if shape.is_none() { call.optional_input(2)? } else { None };
    let emit = call.same_with_window()?.input(x).named("I", indices);
    one(emit.named_if("output_shape", computed).param_if("output_shape", shape).one())
}
