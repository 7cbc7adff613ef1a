//! The C ABI between a plugin library and Ixion. `include/ixion_plugin.h` is generated from this module.
//!
//! New members are only appended to [`Plugin`], [`Operator`] and [`Host`], whose `size` gives the members that exist, or use
//! the slots that other structs reserve in `later`; any other change increments [`ABI`]. Ixion accepts all tables of at
//! least [`MIN_PLUGIN`] and [`MIN_OPERATOR`] bytes; members that they lack are null.

use super::declare::{constants, structs};
use std::ffi::{c_char, c_void};
use std::mem::offset_of;

constants! {
    /// The version of this interface.
    ABI: u32 = 1;
    /// The maximum number of axes of a tensor.
    MAX_RANK: u32 = 8;
    /// The maximum length of a name in bytes.
    MAX_NAME: u32 = 1024;

    /// Status: success.
    OK: i32 = 0;
    /// Status: the call failed; the reason was passed to host->fail.
    FAILED: i32 = 1;
    /// Status: the call ended early because host->stopped returned IXION_STOPPED.
    STOPPED: i32 = 2;
    /// Status: the plugin's code panicked.
    PANICKED: i32 = 3;

    /// Element type: 32-bit float.
    F32: i32 = 1;
    /// Element type: 64-bit float.
    F64: i32 = 2;
    /// Element type: 16-bit float, IEEE 754 binary16: `_Float16` if the compiler has it, else its bits in a uint16_t.
    F16: i32 = 3;
    /// Element type: 32-bit integer.
    I32: i32 = 4;
    /// Element type: 64-bit integer.
    I64: i32 = 5;
    /// Element type: 16-bit integer.
    I16: i32 = 6;
    /// Element type: 8-bit integer.
    I8: i32 = 7;
    /// Element type: unsigned 8-bit integer.
    U8: i32 = 8;
    /// Element type: bool, a byte of 0 or 1.
    BOOL: i32 = 9;
    /// Element type: complex number of two 32-bit floats.
    C64: i32 = 10;
    /// Element type: complex number of two 64-bit floats.
    C128: i32 = 11;
    /// Element type: complex number of two 16-bit floats.
    C32: i32 = 12;
    /// Element type: bfloat16, the upper half of a 32-bit float, in a uint16_t.
    BF16: i32 = 13;

    /// Kind: no value, None in the file.
    NONE: i32 = 0;
    /// Kind: an integer, in i.
    INT: i32 = 1;
    /// Kind: a number, in f.
    FLOAT: i32 = 2;
    /// Kind: a bool, 0 or 1 in i.
    BOOLEAN: i32 = 3;
    /// Kind: a string, in text.
    STRING: i32 = 4;
    /// Kind: a list of integers, in ints; a single integer counts as a list of one.
    INTS: i32 = 5;
    /// Kind: a list of numbers, in floats; a single number counts as a list of one.
    FLOATS: i32 = 6;
    /// Kind: a weight of the file, in tensor; or, if tensor is null, the position of an input, in i.
    WEIGHT: i32 = 7;
    /// Kind: a weight that may be absent.
    OPTIONAL_WEIGHT: i32 = 8;
    /// Kind: an input that the file names; its position is in i.
    INPUT: i32 = 9;

    /// Flag of an operator: forward supports strided tensors. Without it, tensors have no gaps.
    TAKES_STRIDES: u32 = 1;

    /// Kernel argument: a pointer to the first element of the input at this index.
    CUDA_INPUT: i32 = 1;
    /// Kernel argument: a pointer to the first element of the output at this index.
    CUDA_OUTPUT: i32 = 2;
    /// Kernel argument: a pointer to the first element of the weight of the field at this index.
    CUDA_WEIGHT: i32 = 3;
    /// Kernel argument: an int, in i.
    CUDA_INT: i32 = 4;
    /// Kernel argument: a long long, in i.
    CUDA_LONG: i32 = 5;
    /// Kernel argument: a float, in f.
    CUDA_FLOAT: i32 = 6;
    /// Kernel argument: a double, in f.
    CUDA_DOUBLE: i32 = 7;

    /// Length: unknown before the run, and not computed.
    UNKNOWN: i64 = i64::MIN;
    /// For host->dim: a + b.
    ADD: i32 = 1;
    /// For host->dim: a - b.
    SUB: i32 = 2;
    /// For host->dim: a * b.
    MUL: i32 = 3;
    /// For host->dim: a / b, rounded down.
    FLOOR_DIV: i32 = 4;
    /// For host->dim: a / b, rounded up.
    CEIL_DIV: i32 = 5;
    /// For host->dim: the larger of a and b.
    MAX: i32 = 6;
    /// For host->dim: the smaller of a and b.
    MIN: i32 = 7;
}

structs! {
    /// A kernel argument.
    struct CudaArgument as "ixion_cuda_argument" {
        /// The kind of argument, such as IXION_CUDA_INPUT.
        kind: i32,
        /// The index of the input, output or field.
        index: u32,
        /// The value of an integer argument.
        i: i64,
        /// The value of a floating-point argument.
        f: f64,
    }

    /// A kernel launch on a GPU.
    struct CudaLaunch as "ixion_cuda_launch" {
        /// The size of this struct in bytes.
        size: usize,
        /// The name of the source in messages, such as `swish.cu`.
        file: *const c_char,
        /// CUDA C++ source, compiled once for each distinct text. Its `extern "C" __global__` functions are the kernels.
        source: *const c_char,
        /// The kernel's name.
        kernel: *const c_char,
        /// The numbers of blocks along x, y and z.
        blocks: [u32; 3],
        /// The numbers of threads in a block along x, y and z.
        threads: [u32; 3],
        /// Bytes of shared memory, in addition to what the kernel declares.
        shared: u32,
        /// Reserved, 0.
        reserved: u32,
        /// The arguments, in the order of the kernel's parameters.
        arguments: *const CudaArgument,
        /// The number of arguments.
        num_arguments: usize,
        /// Null, reserved for later versions.
        later: [*mut c_void; 2],
    }

    /// What Ixion offers to a plugin during a call. It is valid until the call returns, and must not be kept.
    struct Host as "ixion_host" {
        /// The size of this struct in bytes.
        size: usize,
        /// For Ixion's own use.
        context: *mut c_void,
        /// Reports the reason for a failure, in UTF-8. Returns IXION_FAILED, so that a function can end with
        /// `return host->fail(host, "why")`.
        fail = fn(host: *const Host, message: *const c_char) -> i32,
        /// Returns IXION_OK, or IXION_STOPPED once the run must end: the plugin's function then returns that too. Check it in
        /// long loops.
        stopped = fn(host: *const Host) -> i32,
        /// Computes with lengths. Negative lengths are symbols, for which C's own arithmetic does not work.
        dim = fn(host: *const Host, operation: i32, a: i64, b: i64) -> i64,
        /// For `cuda_forward`: enqueues a kernel launch, which is executed once the call has returned, after those enqueued
        /// before. Everything that the launch points to is copied.
        cuda_launch = fn(host: *const Host, launch: *const CudaLaunch) -> i32,
    }

    /// A tensor: its description in `infer` and `configure`, the tensor itself in `forward`.
    struct Tensor as "ixion_tensor" {
        /// The first element. Null in `infer` and `configure`, except for short integer inputs whose values are known.
        data: *mut c_void,
        /// The number of bytes that may be used, starting at `data`.
        bytes: usize,
        /// The element type, such as IXION_F32.
        dtype: i32,
        /// The number of axes.
        rank: i32,
        /// The length of each axis. In `infer`, a negative length is a symbol, which can be copied or passed to `host->dim`.
        dims: [i64; 8],
        /// The stride of each axis, in elements. Row-major unless the operator has the flag IXION_TAKES_STRIDES; without
        /// meaning if an axis is blocked.
        strides: [i64; 8],
        /// The axis that is split into blocks, whose elements are innermost, or -1.
        blocked_axis: i32,
        /// The number of elements in a block.
        block: i32,
        /// The scale of a quantised tensor, which is the float value that the integer 1 represents; else 0.
        scale: f32,
        /// Reserved, 0.
        reserved: i32,
        /// Null, reserved for later versions.
        later: [*mut c_void; 2],
    }

    /// The format of a tensor, as passed to `supports`.
    struct TensorFormat as "ixion_format" {
        /// The element type, such as IXION_F32.
        dtype: i32,
        /// The axis that is split into blocks, or -1.
        blocked_axis: i32,
        /// The number of elements in a block.
        block: i32,
        /// 1 if the tensor is quantised, else 0.
        is_quantized: i32,
    }

    /// A parameter, weight or named input of an operator. As everywhere, strings are UTF-8 and end with a zero byte.
    struct Field as "ixion_field" {
        /// The key in the file.
        key: *const c_char,
        /// The kind of value, such as IXION_INT.
        kind: i32,
        /// Reserved, 0.
        reserved: i32,
        /// The default value if the file omits the key, written as in a file (`0.5`, `True`, `(1,1)`, `None`); null if the
        /// key is required.
        fallback: *const c_char,
        /// The meaning of the field.
        doc: *const c_char,
        /// The kind in words, such as `2 integers`; null for the usual words.
        kind_name: *const c_char,
        /// Null, reserved for later versions.
        later: [*mut c_void; 2],
    }

    /// The value of a field.
    struct Value as "ixion_value" {
        /// The key.
        key: *const c_char,
        /// The field's kind, or IXION_NONE.
        kind: i32,
        /// 0 if the file omits the key and this is the fallback.
        is_given: i32,
        /// An integer, a bool, or the position of an input.
        i: i64,
        /// A number.
        f: f64,
        /// The value as text, as in the file, for every kind but weights and inputs.
        text: *const c_char,
        /// A list of integers.
        ints: *const i64,
        /// A list of numbers.
        floats: *const f64,
        /// The length of either list.
        count: usize,
        /// A weight. It is neither moved nor changed until the layer and all its clones are destroyed.
        tensor: *const Tensor,
        /// Null, reserved for later versions.
        later: [*mut c_void; 2],
    }

    /// The operator of the model for which a layer is created.
    struct Node as "ixion_node" {
        /// The name of the operator.
        name: *const c_char,
        /// The number of inputs, including weights that are computed.
        num_inputs: usize,
        /// The number of outputs.
        num_outputs: usize,
        /// Null, reserved for later versions.
        later: [*mut c_void; 2],
    }

    /// An operator: its published description and its functions.
    ///
    /// Functions that take a layer as const may be called by several threads at a time; the others have exclusive access to
    /// it. All functions but `clone`, `create`, `destroy`, `forward` and `infer` may be null.
    struct Operator as "ixion_operator" {
        /// The size of this struct in bytes.
        size: usize,
        /// The type, as in the file: `my.Swish`.
        type_name: *const c_char,
        /// The namespace, which names the owner of the operator; not `ixion`.
        name_space: *const c_char,
        /// The version, which changes with the meaning of the fields.
        version: *const c_char,
        /// A description in one or a few sentences.
        doc: *const c_char,
        /// The fields.
        fields: *const Field,
        /// The number of fields.
        num_fields: usize,
        /// The minimum number of inputs.
        min_inputs: u32,
        /// The maximum number of inputs.
        max_inputs: u32,
        /// The number of outputs.
        num_outputs: u32,
        /// IXION_TAKES_STRIDES or 0.
        flags: u32,
        /// For the plugin's own use.
        data: *mut c_void,
        /// Creates a layer. There is one value for each field, in the same order.
        create = fn(
            host: *const Host, op: *const Operator, node: *const Node, values: *const Value, num_values: usize,
            layer: *mut *mut c_void,
        ) -> i32,
        /// Creates another layer with the same state.
        clone = fn(host: *const Host, layer: *const c_void, copy: *mut *mut c_void) -> i32,
        /// Destroys a layer.
        destroy = fn(layer: *mut c_void) -> (),
        /// Reports the numbers of inputs and outputs of this layer, if they depend on the fields.
        counts = fn(
            host: *const Host, layer: *const c_void, min_inputs: *mut u32, max_inputs: *mut u32, outputs: *mut u32,
        ) -> i32,
        /// The shape rule: fills in `dtype`, `rank` and `dims` of the outputs, or rejects the inputs. Lengths may be
        /// symbols; IXION_UNKNOWN is a length that depends on a symbol and that the plugin does not compute.
        infer = fn(
            host: *const Host, layer: *const c_void, inputs: *const Tensor, num_inputs: usize,
            outputs: *mut Tensor, num_outputs: usize,
        ) -> i32,
        /// Returns 1 if the tensor at `position` may have `formats[position]`, given the formats before it, else 0. Inputs
        /// come first, then outputs. If null, only plain 32-bit floats are supported.
        supports = fn(
            host: *const Host, layer: *const c_void, position: usize, formats: *const TensorFormat, num_formats: usize,
        ) -> i32,
        /// Receives the final shapes and types. Called before the first `forward`, and again when they change.
        configure = fn(
            host: *const Host, layer: *mut c_void, inputs: *const Tensor, num_inputs: usize,
            outputs: *const Tensor, num_outputs: usize,
        ) -> i32,
        /// Reports the bytes of scratch memory that `forward` needs for the configured tensors.
        workspace = fn(
            host: *const Host, layer: *const c_void, inputs: *const Tensor, num_inputs: usize,
            outputs: *const Tensor, num_outputs: usize, bytes: *mut usize,
        ) -> i32,
        /// Prepares data that last until `terminate`, such as packed weights. Called once, before the first `configure` that
        /// a run needs.
        initialize = fn(host: *const Host, layer: *mut c_void) -> i32,
        /// Releases what `initialize` prepared.
        terminate = fn(layer: *mut c_void) -> (),
        /// Writes the layer's state beyond its fields. Called twice: with capacity 0, to get the number of bytes, and with
        /// that capacity.
        serialize = fn(
            host: *const Host, layer: *const c_void, buffer: *mut c_void, capacity: usize, written: *mut usize,
        ) -> i32,
        /// Restores the state that `serialize` wrote, in a layer with the same fields.
        deserialize = fn(host: *const Host, layer: *mut c_void, bytes: *const c_void, count: usize) -> i32,
        /// Computes all elements of the outputs. The scratch memory is aligned to 64 bytes.
        forward = fn(
            host: *const Host, layer: *mut c_void, inputs: *const Tensor, num_inputs: usize,
            outputs: *const Tensor, num_outputs: usize, workspace: *mut c_void, workspace_bytes: usize,
        ) -> i32,
        /// Returns 1 if there is a GPU kernel for `formats[position]`, else 0; called like `supports`. If null, only plain
        /// 32-bit floats are supported.
        cuda_supports = fn(
            host: *const Host, layer: *const c_void, position: usize, formats: *const TensorFormat, num_formats: usize,
        ) -> i32,
        /// Enqueues the launches that compute the outputs on a GPU, with `host->cuda_launch`. The tensors are in GPU memory and
        /// only described: their `data` is null. It may be called once for many runs with tensors like these. If null, the
        /// operator runs on the CPU.
        cuda_forward = fn(
            host: *const Host, layer: *const c_void, inputs: *const Tensor, num_inputs: usize,
            outputs: *const Tensor, num_outputs: usize,
        ) -> i32,
    }

    /// The table of a library. It must not change as long as the process runs.
    struct Plugin as "ixion_plugin_table" {
        /// IXION_ABI.
        abi: u32,
        /// Reserved, 0.
        reserved: u32,
        /// The size of this struct in bytes.
        size: usize,
        /// The plugin's name.
        name: *const c_char,
        /// The operators.
        operators: *const *const Operator,
        /// The number of operators.
        num_operators: usize,
    }
}

/// The size of [`Plugin`] in bytes when version 1 was introduced: up to and including `num_operators`.
pub const MIN_PLUGIN: usize = offset_of!(Plugin, num_operators) + size_of::<usize>();

/// The size of [`Operator`] in bytes when version 1 was introduced: up to and including `forward`.
pub const MIN_OPERATOR: usize = offset_of!(Operator, forward) + size_of::<Forward>();

/// The one symbol that a library must export: a function that is called with the version of Ixion's interface.
pub const ENTRY: &str = "ixion_plugin";

/// The type of the function [`ENTRY`].
pub type Entry = unsafe extern "C" fn(abi: u32) -> *const Plugin;

/// See [`Operator::create`].
pub type Create = unsafe extern "C" fn(
    *const Host,
    *const Operator,
    *const Node,
    *const Value,
    usize,
    *mut *mut c_void,
) -> i32;
/// See [`Operator::clone`].
pub type Clone = unsafe extern "C" fn(*const Host, *const c_void, *mut *mut c_void) -> i32;
/// See [`Operator::destroy`].
pub type Destroy = unsafe extern "C" fn(*mut c_void);
/// See [`Operator::infer`].
pub type Infer =
    unsafe extern "C" fn(*const Host, *const c_void, *const Tensor, usize, *mut Tensor, usize) -> i32;
/// See [`Operator::forward`].
pub type Forward = unsafe extern "C" fn(
    *const Host,
    *mut c_void,
    *const Tensor,
    usize,
    *const Tensor,
    usize,
    *mut c_void,
    usize,
) -> i32;
