/* Plugins for Ixion: layers in C, or in any language that can be called from C.
 *
 * A library has one symbol, ixion_plugin, and everything else is found through the table that it returns. The book's
 * page "Plugins in C" explains it.
 *
 * Written from src/plugin/abi.rs by `IXION_WRITE=1 cargo test --test it plugin_header`.
 */
#ifndef IXION_PLUGIN_H
#define IXION_PLUGIN_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define IXION_ABI 1 /* The version of this interface */
#define IXION_MAX_RANK 8 /* The most axes of a tensor */
#define IXION_MAX_NAME 1024 /* The most bytes of a name */

#define IXION_OK 0 /* Status: fine */
#define IXION_FAILED 1 /* Status: it failed; host->fail was told why */
#define IXION_STOPPED 2 /* Status: it ended early because host->stopped said so */
#define IXION_PANICKED 3 /* Status: its code panicked */

#define IXION_F32 1 /* Element type: 32-bit float */
#define IXION_F64 2 /* Element type: 64-bit float */
#define IXION_F16 3 /* Element type: 16-bit float, binary16 of IEEE 754: `_Float16` where the compiler has it, else its bits in a uint16_t */
#define IXION_I32 4 /* Element type: 32-bit integer */
#define IXION_I64 5 /* Element type: 64-bit integer */
#define IXION_I16 6 /* Element type: 16-bit integer */
#define IXION_I8 7 /* Element type: 8-bit integer */
#define IXION_U8 8 /* Element type: 8-bit integer without a sign */
#define IXION_BOOL 9 /* Element type: truth value, a byte of 0 or 1 */
#define IXION_C64 10 /* Element type: two 32-bit floats, a complex number */
#define IXION_C128 11 /* Element type: two 64-bit floats, a complex number */
#define IXION_C32 12 /* Element type: two 16-bit floats, a complex number */
#define IXION_BF16 13 /* Element type: brain float, the upper half of a 32-bit float, in a uint16_t */

#define IXION_NONE 0 /* Kind: there is no value, None in the file */
#define IXION_INT 1 /* Kind: an integer, in i */
#define IXION_FLOAT 2 /* Kind: a number, in f */
#define IXION_BOOLEAN 3 /* Kind: a truth value, 0 or 1 in i */
#define IXION_STRING 4 /* Kind: a text, in text */
#define IXION_INTS 5 /* Kind: integers, in ints; a single one stands for a list of one */
#define IXION_FLOATS 6 /* Kind: numbers, in floats; a single one stands for a list of one */
#define IXION_WEIGHT 7 /* Kind: a weight of the file, in tensor; or the position of an input in i, where tensor is null */
#define IXION_OPTIONAL_WEIGHT 8 /* Kind: a weight that may be absent */
#define IXION_INPUT 9 /* Kind: an input that the file names, its position in i */

#define IXION_TAKES_STRIDES 1 /* Flag of an operator: forward heeds the strides of its tensors. Others get tensors without gaps */

#define IXION_CUDA_INPUT 1 /* Argument of a kernel: the input at this index, a pointer to its first element */
#define IXION_CUDA_OUTPUT 2 /* Argument of a kernel: the output at this index, a pointer to its first element */
#define IXION_CUDA_WEIGHT 3 /* Argument of a kernel: the weight of the field at this index, a pointer to its first element */
#define IXION_CUDA_INT 4 /* Argument of a kernel: an int, in i */
#define IXION_CUDA_LONG 5 /* Argument of a kernel: a long long, in i */
#define IXION_CUDA_FLOAT 6 /* Argument of a kernel: a float, in f */
#define IXION_CUDA_DOUBLE 7 /* Argument of a kernel: a double, in f */

#define IXION_UNKNOWN INT64_MIN /* Length: not known before the run, and not computed */

#define IXION_ADD 1 /* For host->dim: a + b */
#define IXION_SUB 2 /* For host->dim: a - b */
#define IXION_MUL 3 /* For host->dim: a * b */
#define IXION_FLOOR_DIV 4 /* For host->dim: a / b, rounded down */
#define IXION_CEIL_DIV 5 /* For host->dim: a / b, rounded up */
#define IXION_MAX 6 /* For host->dim: the larger one */
#define IXION_MIN 7 /* For host->dim: the smaller one */

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

/* An argument of a kernel. */
struct ixion_cuda_argument {
    /* What it is, such as IXION_CUDA_INPUT. */
    int32_t kind;
    /* Which input, output or field it is of. */
    uint32_t index;
    /* A whole number. */
    int64_t i;
    /* A real number. */
    double f;
};

/* A launch of a kernel on a GPU. */
struct ixion_cuda_launch {
    /* Bytes of this struct. */
    size_t size;
    /* What messages call the source, such as `swish.cu`. */
    const char *file;
    /* CUDA C++. It is compiled once for each text; `extern "C" __global__` functions are its kernels. */
    const char *source;
    /* The kernel's name. */
    const char *kernel;
    /* The numbers of blocks along x, y and z. */
    uint32_t blocks[3];
    /* The numbers of threads in a block. */
    uint32_t threads[3];
    /* Bytes of shared memory, beside those that the kernel declares. */
    uint32_t shared;
    /* 0. */
    uint32_t reserved;
    /* The arguments, in the order of the kernel's parameters. */
    const ixion_cuda_argument *arguments;
    /* The number of arguments. */
    size_t num_arguments;
    /* Null, for what later versions add. */
    void *later[2];
};

/* What a call may ask of Ixion. It is there until the call returns, and must not be kept. */
struct ixion_host {
    /* Bytes of this struct. */
    size_t size;
    /* Ixion's own. */
    void *context;

    /* Says why the call fails, in UTF-8. Returns IXION_FAILED, so that `return host->fail(host, "why")` does
     * both. */
    int32_t (*fail)(const ixion_host *host, const char *message);

    /* IXION_OK; or IXION_STOPPED once the run is to end, which is then what the call returns. Ask in long
     * loops. */
    int32_t (*stopped)(const ixion_host *host);

    /* Computes with lengths, of which negative ones are symbols: C's own arithmetic cannot. */
    int64_t (*dim)(const ixion_host *host, int32_t operation, int64_t a, int64_t b);

    /* In `cuda_forward`: has a kernel launched once the call has returned, behind those that it asked for
     * before. What the launch leads to is copied. */
    int32_t (*cuda_launch)(const ixion_host *host, const ixion_cuda_launch *launch);
};

/* A tensor: in `infer` and `configure` what is known of it, in `forward` the tensor itself. */
struct ixion_tensor {
    /* The first element. Null in `infer` and `configure`, but for short integer inputs whose values are
     * known. */
    void *data;
    /* Bytes that may be used, counted from `data`. */
    size_t bytes;
    /* The element type, such as IXION_F32. */
    int32_t dtype;
    /* The number of axes. */
    int32_t rank;
    /* The length of each axis. In `infer` a negative one is a symbol, which can be copied, or given to
     * `host->dim`. */
    int64_t dims[8];
    /* For each axis the distance of two neighbours, in elements. In row-major order unless the operator takes
     * strides; without a meaning where an axis is blocked. */
    int64_t strides[8];
    /* The axis that is cut into blocks whose elements lie innermost, or -1. */
    int32_t blocked_axis;
    /* The number of elements in a block. */
    int32_t block;
    /* The real number that 1 stands for where whole numbers stand for real ones, else 0. */
    float scale;
    /* 0. */
    int32_t reserved;
    /* Null, for what later versions add. */
    void *later[2];
};

/* The format of a tensor, as `supports` is asked about. */
struct ixion_format {
    /* The element type, such as IXION_F32. */
    int32_t dtype;
    /* The axis that is cut into blocks, or -1. */
    int32_t blocked_axis;
    /* The number of elements in a block. */
    int32_t block;
    /* 1 where whole numbers stand for real ones. */
    int32_t is_quantized;
};

/* One parameter, weight or named input of an operator. Texts are UTF-8 and end with a zero, as everywhere. */
struct ixion_field {
    /* The key in the file. */
    const char *key;
    /* What kind of value it takes, such as IXION_INT. */
    int32_t kind;
    /* 0. */
    int32_t reserved;
    /* The value where the file leaves the key out, as the file would say it (`0.5`, `True`, `(1,1)`, `None`);
     * null where the key must be there. */
    const char *fallback;
    /* What it means. */
    const char *doc;
    /* The kind in words, such as `2 integers`; null for the usual ones. */
    const char *kind_name;
    /* Null, for what later versions add. */
    void *later[2];
};

/* What a file gives for a field. */
struct ixion_value {
    /* The key. */
    const char *key;
    /* The field's kind, or IXION_NONE. */
    int32_t kind;
    /* 0 where the file leaves the key out, and this is the fallback. */
    int32_t is_given;
    /* An integer, a truth value, or the position of an input. */
    int64_t i;
    /* A number. */
    double f;
    /* A text: of every kind but weights and inputs, the value as the file has it. */
    const char *text;
    /* Integers. */
    const int64_t *ints;
    /* Numbers. */
    const double *floats;
    /* How many of either. */
    size_t count;
    /* A weight. It stays where it is and as it is until the layer and all of its clones are destroyed. */
    const ixion_tensor *tensor;
    /* Null, for what later versions add. */
    void *later[2];
};

/* The place of a layer in a model. */
struct ixion_node {
    /* The name of the operator. */
    const char *name;
    /* How many inputs it has, weights among them that are computed. */
    size_t num_inputs;
    /* How many outputs it has. */
    size_t num_outputs;
    /* Null, for what later versions add. */
    void *later[2];
};

/* An operator: what is published of it, and its functions.
 *
 * Functions that take a layer as const may be called by several threads at a time, the others are alone with
 * it. All but `clone`, `create`, `destroy`, `forward` and `infer` may be null. */
struct ixion_operator {
    /* Bytes of this struct. */
    size_t size;
    /* The type, as in the file: `my.Swish`. */
    const char *type_name;
    /* Whose operator it is; not `ixion`. */
    const char *name_space;
    /* The version, counted up when the meaning of the fields changes. */
    const char *version;
    /* What it does, in one or a few sentences. */
    const char *doc;
    /* The fields. */
    const ixion_field *fields;
    /* The number of fields. */
    size_t num_fields;
    /* The least number of inputs. */
    uint32_t min_inputs;
    /* The largest number of inputs. */
    uint32_t max_inputs;
    /* The number of outputs. */
    uint32_t num_outputs;
    /* IXION_TAKES_STRIDES or 0. */
    uint32_t flags;
    /* For the plugin's own use. */
    void *data;

    /* Makes a layer. There is a value for each field, in their order. */
    int32_t (*create)(const ixion_host *host, const ixion_operator *op, const ixion_node *node,
        const ixion_value *values, size_t num_values, void **layer);

    /* Makes another layer of the same state. */
    int32_t (*clone)(const ixion_host *host, const void *layer, void **copy);

    /* The end of a layer. */
    void (*destroy)(void *layer);

    /* Says how many inputs and outputs this layer has, where that depends on the fields. */
    int32_t (*counts)(const ixion_host *host, const void *layer, uint32_t *min_inputs, uint32_t *max_inputs,
        uint32_t *outputs);

    /* The rule for shapes: fills in `dtype`, `rank` and `dims` of the outputs, or refuses the inputs. Lengths
     * may be symbols; IXION_UNKNOWN is a length that depends on one and that the plugin does not compute. */
    int32_t (*infer)(const ixion_host *host, const void *layer, const ixion_tensor *inputs, size_t num_inputs,
        ixion_tensor *outputs, size_t num_outputs);

    /* Whether the tensor at a position may have `formats[position]`, given those before it: 1 or 0. Inputs
     * come first, then outputs. Null: 32-bit floats, plain, and no other. */
    int32_t (*supports)(const ixion_host *host, const void *layer, size_t position,
        const ixion_format *formats, size_t num_formats);

    /* Takes note of the final shapes and types; called before the first `forward`, and again when they
     * change. */
    int32_t (*configure)(const ixion_host *host, void *layer, const ixion_tensor *inputs, size_t num_inputs,
        const ixion_tensor *outputs, size_t num_outputs);

    /* Says how many bytes of scratch memory `forward` needs for what is configured. */
    int32_t (*workspace)(const ixion_host *host, const void *layer, const ixion_tensor *inputs,
        size_t num_inputs, const ixion_tensor *outputs, size_t num_outputs, size_t *bytes);

    /* Prepares what lasts until `terminate`, such as packed weights; once, before the first `configure` that
     * a run needs. */
    int32_t (*initialize)(const ixion_host *host, void *layer);

    /* Lets go of what `initialize` prepared. */
    void (*terminate)(void *layer);

    /* Writes the layer's state beyond its fields. Called twice: with no capacity, to be told the number of
     * bytes, and with so many. */
    int32_t (*serialize)(const ixion_host *host, const void *layer, void *buffer, size_t capacity,
        size_t *written);

    /* Takes over the state that `serialize` wrote, on a layer of the same fields. */
    int32_t (*deserialize)(const ixion_host *host, void *layer, const void *bytes, size_t count);

    /* Computes the outputs. The scratch memory is aligned to 64 bytes. */
    int32_t (*forward)(const ixion_host *host, void *layer, const ixion_tensor *inputs, size_t num_inputs,
        const ixion_tensor *outputs, size_t num_outputs, void *workspace, size_t workspace_bytes);

    /* Whether there is a kernel on GPUs for `formats[position]`, as `supports` is asked. Null: for 32-bit
     * floats. */
    int32_t (*cuda_supports)(const ixion_host *host, const void *layer, size_t position,
        const ixion_format *formats, size_t num_formats);

    /* Asks for the launches that compute the outputs on a GPU, by `host->cuda_launch`. Tensors are described,
     * and lie in the GPU's memory: their `data` is null. It may be asked once for many runs with tensors like
     * these. Null: the operator runs on the CPU. */
    int32_t (*cuda_forward)(const ixion_host *host, const void *layer, const ixion_tensor *inputs,
        size_t num_inputs, const ixion_tensor *outputs, size_t num_outputs);
};

/* What a library has. It stays as it is as long as the process runs. */
struct ixion_plugin_table {
    /* IXION_ABI. */
    uint32_t abi;
    /* 0. */
    uint32_t reserved;
    /* Bytes of this struct. */
    size_t size;
    /* The plugin's name. */
    const char *name;
    /* The operators. */
    const ixion_operator *const *operators;
    /* The number of operators. */
    size_t num_operators;
};

/* What every plugin has. Libraries hide other symbols by -fvisibility=hidden. */
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
