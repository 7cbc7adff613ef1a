/* Plugins for Ixion: layers in C, or in any language that can be called from C.
 *
 * A library exports one symbol, ixion_plugin; everything else is found through the table that it returns. See the page
 * "Plugins in C" of the book.
 *
 * Generated from src/plugin/abi.rs by `IXION_WRITE=1 cargo test --test it plugin_header`.
 */
#ifndef IXION_PLUGIN_H
#define IXION_PLUGIN_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define IXION_ABI 1 /* The version of this interface */
#define IXION_MAX_RANK 8 /* The maximum number of axes of a tensor */
#define IXION_MAX_NAME 1024 /* The maximum length of a name in bytes */

#define IXION_OK 0 /* Status: success */
#define IXION_FAILED 1 /* Status: the call failed; the reason was passed to host->fail */
#define IXION_STOPPED 2 /* Status: the call ended early because host->stopped returned IXION_STOPPED */
#define IXION_PANICKED 3 /* Status: the plugin's code panicked */

#define IXION_F32 1 /* Element type: 32-bit float */
#define IXION_F64 2 /* Element type: 64-bit float */
#define IXION_F16 3 /* Element type: 16-bit float, IEEE 754 binary16: `_Float16` if the compiler has it, else its bits in a uint16_t */
#define IXION_I32 4 /* Element type: 32-bit integer */
#define IXION_I64 5 /* Element type: 64-bit integer */
#define IXION_I16 6 /* Element type: 16-bit integer */
#define IXION_I8 7 /* Element type: 8-bit integer */
#define IXION_U8 8 /* Element type: unsigned 8-bit integer */
#define IXION_BOOL 9 /* Element type: bool, a byte of 0 or 1 */
#define IXION_C64 10 /* Element type: complex number of two 32-bit floats */
#define IXION_C128 11 /* Element type: complex number of two 64-bit floats */
#define IXION_C32 12 /* Element type: complex number of two 16-bit floats */
#define IXION_BF16 13 /* Element type: bfloat16, the upper half of a 32-bit float, in a uint16_t */

#define IXION_NONE 0 /* Kind: no value, None in the file */
#define IXION_INT 1 /* Kind: an integer, in i */
#define IXION_FLOAT 2 /* Kind: a number, in f */
#define IXION_BOOLEAN 3 /* Kind: a bool, 0 or 1 in i */
#define IXION_STRING 4 /* Kind: a string, in text */
#define IXION_INTS 5 /* Kind: a list of integers, in ints; a single integer counts as a list of one */
#define IXION_FLOATS 6 /* Kind: a list of numbers, in floats; a single number counts as a list of one */
#define IXION_WEIGHT 7 /* Kind: a weight of the file, in tensor; or, if tensor is null, the position of an input, in i */
#define IXION_OPTIONAL_WEIGHT 8 /* Kind: a weight that may be absent */
#define IXION_INPUT 9 /* Kind: an input that the file names; its position is in i */

#define IXION_TAKES_STRIDES 1 /* Flag of an operator: forward supports strided tensors. Without it, tensors have no gaps */

#define IXION_CUDA_INPUT 1 /* Kernel argument: a pointer to the first element of the input at this index */
#define IXION_CUDA_OUTPUT 2 /* Kernel argument: a pointer to the first element of the output at this index */
#define IXION_CUDA_WEIGHT 3 /* Kernel argument: a pointer to the first element of the weight of the field at this index */
#define IXION_CUDA_INT 4 /* Kernel argument: an int, in i */
#define IXION_CUDA_LONG 5 /* Kernel argument: a long long, in i */
#define IXION_CUDA_FLOAT 6 /* Kernel argument: a float, in f */
#define IXION_CUDA_DOUBLE 7 /* Kernel argument: a double, in f */

#define IXION_UNKNOWN INT64_MIN /* Length: unknown before the run, and not computed */

#define IXION_ADD 1 /* For host->dim: a + b */
#define IXION_SUB 2 /* For host->dim: a - b */
#define IXION_MUL 3 /* For host->dim: a * b */
#define IXION_FLOOR_DIV 4 /* For host->dim: a / b, rounded down */
#define IXION_CEIL_DIV 5 /* For host->dim: a / b, rounded up */
#define IXION_MAX 6 /* For host->dim: the larger of a and b */
#define IXION_MIN 7 /* For host->dim: the smaller of a and b */

typedef struct ixion_cuda_argument ixion_cuda_argument;
typedef struct ixion_cuda_launch ixion_cuda_launch;
typedef struct ixion_host ixion_host;
typedef struct ixion_tensor ixion_tensor;
typedef struct ixion_format ixion_format;
typedef struct ixion_field ixion_field;
typedef struct ixion_value ixion_value;
typedef struct ixion_node ixion_node;
typedef struct ixion_operator ixion_operator;
typedef struct ixion_plugin_table ixion_plugin_table;

/* A kernel argument. */
struct ixion_cuda_argument {
    /* The kind of argument, such as IXION_CUDA_INPUT. */
    int32_t kind;
    /* The index of the input, output or field. */
    uint32_t index;
    /* The value of an integer argument. */
    int64_t i;
    /* The value of a floating-point argument. */
    double f;
};

/* A kernel launch on a GPU. */
struct ixion_cuda_launch {
    /* The size of this struct in bytes. */
    size_t size;
    /* The name of the source in messages, such as `swish.cu`. */
    const char *file;
    /* CUDA C++ source, compiled once for each distinct text. Its `extern "C" __global__` functions are the
     * kernels. */
    const char *source;
    /* The kernel's name. */
    const char *kernel;
    /* The numbers of blocks along x, y and z. */
    uint32_t blocks[3];
    /* The numbers of threads in a block along x, y and z. */
    uint32_t threads[3];
    /* Bytes of shared memory, in addition to what the kernel declares. */
    uint32_t shared;
    /* Reserved, 0. */
    uint32_t reserved;
    /* The arguments, in the order of the kernel's parameters. */
    const ixion_cuda_argument *arguments;
    /* The number of arguments. */
    size_t num_arguments;
    /* Null, reserved for later versions. */
    void *later[2];
};

/* What Ixion offers to a plugin during a call. It is valid until the call returns, and must not be kept. */
struct ixion_host {
    /* The size of this struct in bytes. */
    size_t size;
    /* For Ixion's own use. */
    void *context;

    /* Reports the reason for a failure, in UTF-8. Returns IXION_FAILED, so that a function can end with
     * `return host->fail(host, "why")`. */
    int32_t (*fail)(const ixion_host *host, const char *message);

    /* Returns IXION_OK, or IXION_STOPPED once the run must end: the plugin's function then returns that too.
     * Check it in long loops. */
    int32_t (*stopped)(const ixion_host *host);

    /* Computes with lengths. Negative lengths are symbols, for which C's own arithmetic does not work. */
    int64_t (*dim)(const ixion_host *host, int32_t operation, int64_t a, int64_t b);

    /* For `cuda_forward`: enqueues a kernel launch, which is executed once the call has returned, after those
     * enqueued before. Everything that the launch points to is copied. */
    int32_t (*cuda_launch)(const ixion_host *host, const ixion_cuda_launch *launch);
};

/* A tensor: its description in `infer` and `configure`, the tensor itself in `forward`. */
struct ixion_tensor {
    /* The first element. Null in `infer` and `configure`, except for short integer inputs whose values are
     * known. */
    void *data;
    /* The number of bytes that may be used, starting at `data`. */
    size_t bytes;
    /* The element type, such as IXION_F32. */
    int32_t dtype;
    /* The number of axes. */
    int32_t rank;
    /* The length of each axis. In `infer`, a negative length is a symbol, which can be copied or passed to
     * `host->dim`. */
    int64_t dims[8];
    /* The stride of each axis, in elements. Row-major unless the operator has the flag IXION_TAKES_STRIDES;
     * without meaning if an axis is blocked. */
    int64_t strides[8];
    /* The axis that is split into blocks, whose elements are innermost, or -1. */
    int32_t blocked_axis;
    /* The number of elements in a block. */
    int32_t block;
    /* The scale of a quantised tensor, which is the float value that the integer 1 represents; else 0. */
    float scale;
    /* Reserved, 0. */
    int32_t reserved;
    /* Null, reserved for later versions. */
    void *later[2];
};

/* The format of a tensor, as passed to `supports`. */
struct ixion_format {
    /* The element type, such as IXION_F32. */
    int32_t dtype;
    /* The axis that is split into blocks, or -1. */
    int32_t blocked_axis;
    /* The number of elements in a block. */
    int32_t block;
    /* 1 if the tensor is quantised, else 0. */
    int32_t is_quantized;
};

/* A parameter, weight or named input of an operator. As everywhere, strings are UTF-8 and end with a zero
 * byte. */
struct ixion_field {
    /* The key in the file. */
    const char *key;
    /* The kind of value, such as IXION_INT. */
    int32_t kind;
    /* Reserved, 0. */
    int32_t reserved;
    /* The default value if the file omits the key, written as in a file (`0.5`, `True`, `(1,1)`, `None`);
     * null if the key is required. */
    const char *fallback;
    /* The meaning of the field. */
    const char *doc;
    /* The kind in words, such as `2 integers`; null for the usual words. */
    const char *kind_name;
    /* Null, reserved for later versions. */
    void *later[2];
};

/* The value of a field. */
struct ixion_value {
    /* The key. */
    const char *key;
    /* The field's kind, or IXION_NONE. */
    int32_t kind;
    /* 0 if the file omits the key and this is the fallback. */
    int32_t is_given;
    /* An integer, a bool, or the position of an input. */
    int64_t i;
    /* A number. */
    double f;
    /* The value as text, as in the file, for every kind but weights and inputs. */
    const char *text;
    /* A list of integers. */
    const int64_t *ints;
    /* A list of numbers. */
    const double *floats;
    /* The length of either list. */
    size_t count;
    /* A weight. It is neither moved nor changed until the layer and all its clones are destroyed. */
    const ixion_tensor *tensor;
    /* Null, reserved for later versions. */
    void *later[2];
};

/* The operator of the model for which a layer is created. */
struct ixion_node {
    /* The name of the operator. */
    const char *name;
    /* The number of inputs, including weights that are computed. */
    size_t num_inputs;
    /* The number of outputs. */
    size_t num_outputs;
    /* Null, reserved for later versions. */
    void *later[2];
};

/* An operator: its published description and its functions.
 *
 * Functions that take a layer as const may be called by several threads at a time; the others have exclusive
 * access to it. All functions but `clone`, `create`, `destroy`, `forward` and `infer` may be null. */
struct ixion_operator {
    /* The size of this struct in bytes. */
    size_t size;
    /* The type, as in the file: `my.Swish`. */
    const char *type_name;
    /* The namespace, which names the owner of the operator; not `ixion`. */
    const char *name_space;
    /* The version, which changes with the meaning of the fields. */
    const char *version;
    /* A description in one or a few sentences. */
    const char *doc;
    /* The fields. */
    const ixion_field *fields;
    /* The number of fields. */
    size_t num_fields;
    /* The minimum number of inputs. */
    uint32_t min_inputs;
    /* The maximum number of inputs. */
    uint32_t max_inputs;
    /* The number of outputs. */
    uint32_t num_outputs;
    /* IXION_TAKES_STRIDES or 0. */
    uint32_t flags;
    /* For the plugin's own use. */
    void *data;

    /* Creates a layer. There is one value for each field, in the same order. */
    int32_t (*create)(const ixion_host *host, const ixion_operator *op, const ixion_node *node,
        const ixion_value *values, size_t num_values, void **layer);

    /* Creates another layer with the same state. */
    int32_t (*clone)(const ixion_host *host, const void *layer, void **copy);

    /* Destroys a layer. */
    void (*destroy)(void *layer);

    /* Reports the numbers of inputs and outputs of this layer, if they depend on the fields. */
    int32_t (*counts)(const ixion_host *host, const void *layer, uint32_t *min_inputs, uint32_t *max_inputs,
        uint32_t *outputs);

    /* The shape rule: fills in `dtype`, `rank` and `dims` of the outputs, or rejects the inputs. Lengths may
     * be symbols; IXION_UNKNOWN is a length that depends on a symbol and that the plugin does not compute. */
    int32_t (*infer)(const ixion_host *host, const void *layer, const ixion_tensor *inputs, size_t num_inputs,
        ixion_tensor *outputs, size_t num_outputs);

    /* Returns 1 if the tensor at `position` may have `formats[position]`, given the formats before it, else
     * 0. Inputs come first, then outputs. If null, only plain 32-bit floats are supported. */
    int32_t (*supports)(const ixion_host *host, const void *layer, size_t position,
        const ixion_format *formats, size_t num_formats);

    /* Receives the final shapes and types. Called before the first `forward`, and again when they change. */
    int32_t (*configure)(const ixion_host *host, void *layer, const ixion_tensor *inputs, size_t num_inputs,
        const ixion_tensor *outputs, size_t num_outputs);

    /* Reports the bytes of scratch memory that `forward` needs for the configured tensors. */
    int32_t (*workspace)(const ixion_host *host, const void *layer, const ixion_tensor *inputs,
        size_t num_inputs, const ixion_tensor *outputs, size_t num_outputs, size_t *bytes);

    /* Prepares data that last until `terminate`, such as packed weights. Called once, before the first
     * `configure` that a run needs. */
    int32_t (*initialize)(const ixion_host *host, void *layer);

    /* Releases what `initialize` prepared. */
    void (*terminate)(void *layer);

    /* Writes the layer's state beyond its fields. Called twice: with capacity 0, to get the number of bytes,
     * and with that capacity. */
    int32_t (*serialize)(const ixion_host *host, const void *layer, void *buffer, size_t capacity,
        size_t *written);

    /* Restores the state that `serialize` wrote, in a layer with the same fields. */
    int32_t (*deserialize)(const ixion_host *host, void *layer, const void *bytes, size_t count);

    /* Computes all elements of the outputs. The scratch memory is aligned to 64 bytes. */
    int32_t (*forward)(const ixion_host *host, void *layer, const ixion_tensor *inputs, size_t num_inputs,
        const ixion_tensor *outputs, size_t num_outputs, void *workspace, size_t workspace_bytes);

    /* Returns 1 if there is a GPU kernel for `formats[position]`, else 0; called like `supports`. If null,
     * only plain 32-bit floats are supported. */
    int32_t (*cuda_supports)(const ixion_host *host, const void *layer, size_t position,
        const ixion_format *formats, size_t num_formats);

    /* Enqueues the launches that compute the outputs on a GPU, with `host->cuda_launch`. The tensors are in
     * GPU memory and only described: their `data` is null. It may be called once for many runs with tensors
     * like these. If null, the operator runs on the CPU. */
    int32_t (*cuda_forward)(const ixion_host *host, const void *layer, const ixion_tensor *inputs,
        size_t num_inputs, const ixion_tensor *outputs, size_t num_outputs);
};

/* The table of a library. It must not change as long as the process runs. */
struct ixion_plugin_table {
    /* IXION_ABI. */
    uint32_t abi;
    /* Reserved, 0. */
    uint32_t reserved;
    /* The size of this struct in bytes. */
    size_t size;
    /* The plugin's name. */
    const char *name;
    /* The operators. */
    const ixion_operator *const *operators;
    /* The number of operators. */
    size_t num_operators;
};

/* Exports the symbol that every plugin has. Libraries hide other symbols with -fvisibility=hidden. */
#if defined(_WIN32)
#define IXION_EXPORT __declspec(dllexport)
#elif defined(__GNUC__)
#define IXION_EXPORT __attribute__((visibility("default")))
#else
#define IXION_EXPORT
#endif

/* Returns the table of the plugin, or null if it has none for this version of the interface. */
IXION_EXPORT const ixion_plugin_table *ixion_plugin(uint32_t abi);

#ifdef __cplusplus
}
#endif

#endif
