//! The C ABI: what a library and Ixion say to each other. `include/ixion_plugin.h` is written from here.
//!
//! Members are only ever added at the ends of [`Plugin`], [`Operator`] and [`Host`], whose `size` says how many there are, or
//! take the places that other structs keep for them in `later`; any other change counts [`ABI`] up. Ixion takes all tables of
//! at least [`MIN_PLUGIN`] and [`MIN_OPERATOR`] bytes: members that they lack are null.

use super::declare::{constants, structs};
use std::ffi::{c_char, c_void};
use std::mem::offset_of;

constants! {
    /// The version of this interface.
    ABI: u32 = 1;
    /// The most axes of a tensor.
    MAX_RANK: u32 = 8;
    /// The most bytes of a name.
    MAX_NAME: u32 = 1024;

    /// Status: fine.
    OK: i32 = 0;
    /// Status: it failed; host->fail was told why.
    FAILED: i32 = 1;
    /// Status: it ended early because host->stopped said so.
    STOPPED: i32 = 2;
    /// Status: its code panicked.
    PANICKED: i32 = 3;

    /// Element type: 32-bit float.
    F32: i32 = 1;
    /// Element type: 64-bit float.
    F64: i32 = 2;
    /// Element type: 16-bit float, binary16 of IEEE 754: `_Float16` where the compiler has it, else its bits in a uint16_t.
    F16: i32 = 3;
    /// Element type: 32-bit integer.
    I32: i32 = 4;
    /// Element type: 64-bit integer.
    I64: i32 = 5;
    /// Element type: 16-bit integer.
    I16: i32 = 6;
    /// Element type: 8-bit integer.
    I8: i32 = 7;
    /// Element type: 8-bit integer without a sign.
    U8: i32 = 8;
    /// Element type: truth value, a byte of 0 or 1.
    BOOL: i32 = 9;
    /// Element type: two 32-bit floats, a complex number.
    C64: i32 = 10;
    /// Element type: two 64-bit floats, a complex number.
    C128: i32 = 11;
    /// Element type: two 16-bit floats, a complex number.
    C32: i32 = 12;
    /// Element type: brain float, the upper half of a 32-bit float, in a uint16_t.
    BF16: i32 = 13;

    /// Kind: there is no value, None in the file.
    NONE: i32 = 0;
    /// Kind: an integer, in i.
    INT: i32 = 1;
    /// Kind: a number, in f.
    FLOAT: i32 = 2;
    /// Kind: a truth value, 0 or 1 in i.
    BOOLEAN: i32 = 3;
    /// Kind: a text, in text.
    STRING: i32 = 4;
    /// Kind: integers, in ints; a single one stands for a list of one.
    INTS: i32 = 5;
    /// Kind: numbers, in floats; a single one stands for a list of one.
    FLOATS: i32 = 6;
    /// Kind: a weight of the file, in tensor; or the position of an input in i, where tensor is null.
    WEIGHT: i32 = 7;
    /// Kind: a weight that may be absent.
    OPTIONAL_WEIGHT: i32 = 8;
    /// Kind: an input that the file names, its position in i.
    INPUT: i32 = 9;

    /// Flag of an operator: forward heeds the strides of its tensors. Others get tensors without gaps.
    TAKES_STRIDES: u32 = 1;

    /// Argument of a kernel: the input at this index, a pointer to its first element.
    CUDA_INPUT: i32 = 1;
    /// Argument of a kernel: the output at this index, a pointer to its first element.
    CUDA_OUTPUT: i32 = 2;
    /// Argument of a kernel: the weight of the field at this index, a pointer to its first element.
    CUDA_WEIGHT: i32 = 3;
    /// Argument of a kernel: an int, in i.
    CUDA_INT: i32 = 4;
    /// Argument of a kernel: a long long, in i.
    CUDA_LONG: i32 = 5;
    /// Argument of a kernel: a float, in f.
    CUDA_FLOAT: i32 = 6;
    /// Argument of a kernel: a double, in f.
    CUDA_DOUBLE: i32 = 7;

    /// Length: not known before the run, and not computed.
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
    /// For host->dim: the larger one.
    MAX: i32 = 6;
    /// For host->dim: the smaller one.
    MIN: i32 = 7;
}

structs! {
    /// An argument of a kernel.
    struct CudaArgument as "ixion_cuda_argument" {
        /// What it is, such as IXION_CUDA_INPUT.
        kind: i32,
        /// Which input, output or field it is of.
        index: u32,
        /// A whole number.
        i: i64,
        /// A real number.
        f: f64,
    }

    /// A launch of a kernel on a GPU.
    struct CudaLaunch as "ixion_cuda_launch" {
        /// Bytes of this struct.
        size: usize,
        /// What messages call the source, such as `swish.cu`.
        file: *const c_char,
        /// CUDA C++. It is compiled once for each text; `extern "C" __global__` functions are its kernels.
        source: *const c_char,
        /// The kernel's name.
        kernel: *const c_char,
        /// The numbers of blocks along x, y and z.
        blocks: [u32; 3],
        /// The numbers of threads in a block.
        threads: [u32; 3],
        /// Bytes of shared memory, beside those that the kernel declares.
        shared: u32,
        /// 0.
        reserved: u32,
        /// The arguments, in the order of the kernel's parameters.
        arguments: *const CudaArgument,
        /// The number of arguments.
        num_arguments: usize,
        /// Null, for what later versions add.
        later: [*mut c_void; 2],
    }

    /// What a call may ask of Ixion. It is there until the call returns, and must not be kept.
    struct Host as "ixion_host" {
        /// Bytes of this struct.
        size: usize,
        /// Ixion's own.
        context: *mut c_void,
        /// Says why the call fails, in UTF-8. Returns IXION_FAILED, so that `return host->fail(host, "why")` does both.
        fail = fn(host: *const Host, message: *const c_char) -> i32,
        /// IXION_OK; or IXION_STOPPED once the run is to end, which is then what the call returns. Ask in long loops.
        stopped = fn(host: *const Host) -> i32,
        /// Computes with lengths, of which negative ones are symbols: C's own arithmetic cannot.
        dim = fn(host: *const Host, operation: i32, a: i64, b: i64) -> i64,
        /// In `cuda_forward`: has a kernel launched once the call has returned, behind those that it asked for before. What the
        /// launch leads to is copied.
        cuda_launch = fn(host: *const Host, launch: *const CudaLaunch) -> i32,
    }

    /// A tensor: in `infer` and `configure` what is known of it, in `forward` the tensor itself.
    struct Tensor as "ixion_tensor" {
        /// The first element. Null in `infer` and `configure`, but for short integer inputs whose values are known.
        data: *mut c_void,
        /// Bytes that may be used, counted from `data`.
        bytes: usize,
        /// The element type, such as IXION_F32.
        dtype: i32,
        /// The number of axes.
        rank: i32,
        /// The length of each axis. In `infer` a negative one is a symbol, which can be copied, or given to `host->dim`.
        dims: [i64; 8],
        /// For each axis the distance of two neighbours, in elements. In row-major order unless the operator takes strides;
        /// without a meaning where an axis is blocked.
        strides: [i64; 8],
        /// The axis that is cut into blocks whose elements lie innermost, or -1.
        blocked_axis: i32,
        /// The number of elements in a block.
        block: i32,
        /// The real number that 1 stands for where whole numbers stand for real ones, else 0.
        scale: f32,
        /// 0.
        reserved: i32,
        /// Null, for what later versions add.
        later: [*mut c_void; 2],
    }

    /// The format of a tensor, as `supports` is asked about.
    struct TensorFormat as "ixion_format" {
        /// The element type, such as IXION_F32.
        dtype: i32,
        /// The axis that is cut into blocks, or -1.
        blocked_axis: i32,
        /// The number of elements in a block.
        block: i32,
        /// 1 where whole numbers stand for real ones.
        is_quantized: i32,
    }

    /// One parameter, weight or named input of an operator. Texts are UTF-8 and end with a zero, as everywhere.
    struct Field as "ixion_field" {
        /// The key in the file.
        key: *const c_char,
        /// What kind of value it takes, such as IXION_INT.
        kind: i32,
        /// 0.
        reserved: i32,
        /// The value where the file leaves the key out, as the file would say it (`0.5`, `True`, `(1,1)`, `None`); null
        /// where the key must be there.
        fallback: *const c_char,
        /// What it means.
        doc: *const c_char,
        /// The kind in words, such as `2 integers`; null for the usual ones.
        kind_name: *const c_char,
        /// Null, for what later versions add.
        later: [*mut c_void; 2],
    }

    /// What a file gives for a field.
    struct Value as "ixion_value" {
        /// The key.
        key: *const c_char,
        /// The field's kind, or IXION_NONE.
        kind: i32,
        /// 0 where the file leaves the key out, and this is the fallback.
        is_given: i32,
        /// An integer, a truth value, or the position of an input.
        i: i64,
        /// A number.
        f: f64,
        /// A text: of every kind but weights and inputs, the value as the file has it.
        text: *const c_char,
        /// Integers.
        ints: *const i64,
        /// Numbers.
        floats: *const f64,
        /// How many of either.
        count: usize,
        /// A weight. It stays where it is and as it is until the layer and all of its clones are destroyed.
        tensor: *const Tensor,
        /// Null, for what later versions add.
        later: [*mut c_void; 2],
    }

    /// The place of a layer in a model.
    struct Node as "ixion_node" {
        /// The name of the operator.
        name: *const c_char,
        /// How many inputs it has, weights among them that are computed.
        num_inputs: usize,
        /// How many outputs it has.
        num_outputs: usize,
        /// Null, for what later versions add.
        later: [*mut c_void; 2],
    }

    /// An operator: what is published of it, and its functions.
    ///
    /// Functions that take a layer as const may be called by several threads at a time, the others are alone with it. All
    /// but `clone`, `create`, `destroy`, `forward` and `infer` may be null.
    struct Operator as "ixion_operator" {
        /// Bytes of this struct.
        size: usize,
        /// The type, as in the file: `my.Swish`.
        type_name: *const c_char,
        /// Whose operator it is; not `ixion`.
        name_space: *const c_char,
        /// The version, counted up when the meaning of the fields changes.
        version: *const c_char,
        /// What it does, in one or a few sentences.
        doc: *const c_char,
        /// The fields.
        fields: *const Field,
        /// The number of fields.
        num_fields: usize,
        /// The least number of inputs.
        min_inputs: u32,
        /// The largest number of inputs.
        max_inputs: u32,
        /// The number of outputs.
        num_outputs: u32,
        /// IXION_TAKES_STRIDES or 0.
        flags: u32,
        /// For the plugin's own use.
        data: *mut c_void,
        /// Makes a layer. There is a value for each field, in their order.
        create = fn(
            host: *const Host, op: *const Operator, node: *const Node, values: *const Value, num_values: usize,
            layer: *mut *mut c_void,
        ) -> i32,
        /// Makes another layer of the same state.
        clone = fn(host: *const Host, layer: *const c_void, copy: *mut *mut c_void) -> i32,
        /// The end of a layer.
        destroy = fn(layer: *mut c_void) -> (),
        /// Says how many inputs and outputs this layer has, where that depends on the fields.
        counts = fn(
            host: *const Host, layer: *const c_void, min_inputs: *mut u32, max_inputs: *mut u32, outputs: *mut u32,
        ) -> i32,
        /// The rule for shapes: fills in `dtype`, `rank` and `dims` of the outputs, or refuses the inputs. Lengths may be
        /// symbols; IXION_UNKNOWN is a length that depends on one and that the plugin does not compute.
        infer = fn(
            host: *const Host, layer: *const c_void, inputs: *const Tensor, num_inputs: usize,
            outputs: *mut Tensor, num_outputs: usize,
        ) -> i32,
        /// Whether the tensor at a position may have `formats[position]`, given those before it: 1 or 0. Inputs come first,
        /// then outputs. Null: 32-bit floats, plain, and no other.
        supports = fn(
            host: *const Host, layer: *const c_void, position: usize, formats: *const TensorFormat, num_formats: usize,
        ) -> i32,
        /// Takes note of the final shapes and types; called before the first `forward`, and again when they change.
        configure = fn(
            host: *const Host, layer: *mut c_void, inputs: *const Tensor, num_inputs: usize,
            outputs: *const Tensor, num_outputs: usize,
        ) -> i32,
        /// Says how many bytes of scratch memory `forward` needs for what is configured.
        workspace = fn(
            host: *const Host, layer: *const c_void, inputs: *const Tensor, num_inputs: usize,
            outputs: *const Tensor, num_outputs: usize, bytes: *mut usize,
        ) -> i32,
        /// Prepares what lasts until `terminate`, such as packed weights; once, before the first `configure` that a run
        /// needs.
        initialize = fn(host: *const Host, layer: *mut c_void) -> i32,
        /// Lets go of what `initialize` prepared.
        terminate = fn(layer: *mut c_void) -> (),
        /// Writes the layer's state beyond its fields. Called twice: with no capacity, to be told the number of bytes, and
        /// with so many.
        serialize = fn(
            host: *const Host, layer: *const c_void, buffer: *mut c_void, capacity: usize, written: *mut usize,
        ) -> i32,
        /// Takes over the state that `serialize` wrote, on a layer of the same fields.
        deserialize = fn(host: *const Host, layer: *mut c_void, bytes: *const c_void, count: usize) -> i32,
        /// Computes the outputs. The scratch memory is aligned to 64 bytes.
        forward = fn(
            host: *const Host, layer: *mut c_void, inputs: *const Tensor, num_inputs: usize,
            outputs: *const Tensor, num_outputs: usize, workspace: *mut c_void, workspace_bytes: usize,
        ) -> i32,
        /// Whether there is a kernel on GPUs for `formats[position]`, as `supports` is asked. Null: for 32-bit floats.
        cuda_supports = fn(
            host: *const Host, layer: *const c_void, position: usize, formats: *const TensorFormat, num_formats: usize,
        ) -> i32,
        /// Asks for the launches that compute the outputs on a GPU, by `host->cuda_launch`. Tensors are described, and lie in the
        /// GPU's memory: their `data` is null. It may be asked once for many runs with tensors like these. Null: the operator runs
        /// on the CPU.
        cuda_forward = fn(
            host: *const Host, layer: *const c_void, inputs: *const Tensor, num_inputs: usize,
            outputs: *const Tensor, num_outputs: usize,
        ) -> i32,
    }

    /// What a library has. It stays as it is as long as the process runs.
    struct Plugin as "ixion_plugin_table" {
        /// IXION_ABI.
        abi: u32,
        /// 0.
        reserved: u32,
        /// Bytes of this struct.
        size: usize,
        /// The plugin's name.
        name: *const c_char,
        /// The operators.
        operators: *const *const Operator,
        /// The number of operators.
        num_operators: usize,
    }
}

/// The bytes of [`Plugin`] as version 1 began: up to its number of operators.
pub const MIN_PLUGIN: usize = offset_of!(Plugin, num_operators) + size_of::<usize>();

/// The bytes of [`Operator`] as version 1 began: up to `forward`.
pub const MIN_OPERATOR: usize = offset_of!(Operator, forward) + size_of::<Forward>();

/// The one symbol that a library must have, with the function behind it. It is given the version that Ixion speaks.
pub const ENTRY: &str = "ixion_plugin";

/// The function behind [`ENTRY`].
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
