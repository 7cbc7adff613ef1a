/* my.Copy: the identity. On a GPU, its launch has the defect given by the field `defect`. */
#include "ixion_plugin.h"

#include <stdlib.h>
#include <string.h>

enum {
    NONE, NO_SOURCE, NO_KERNEL, SIZE, TOO_MANY_ARGUMENTS, NULL_ARGUMENTS, WRONG_KERNEL, WRONG_SOURCE, NO_SUCH_INPUT,
    NO_SUCH_WEIGHT, KIND, LARGE_INT, NO_THREADS, MANY_THREADS, FAILS, SILENT, ENDLESS, PAST_THE_END
};

static int32_t create(const ixion_host *host, const ixion_operator *op, const ixion_node *node, const ixion_value *values,
                      size_t num_values, void **layer) {
    int64_t *made = malloc(sizeof *made);
    (void)op, (void)node, (void)num_values;
    if (made == NULL) {
        return host->fail(host, "out of memory");
    }
    *made = values[0].i;
    *layer = made;
    return IXION_OK;
}

static int32_t clone(const ixion_host *host, const void *layer, void **copy) {
    int64_t *made = malloc(sizeof *made);
    if (made == NULL) {
        return host->fail(host, "out of memory");
    }
    memcpy(made, layer, sizeof *made);
    *copy = made;
    return IXION_OK;
}

static int32_t infer(const ixion_host *host, const void *layer, const ixion_tensor *inputs, size_t num_inputs,
                     ixion_tensor *outputs, size_t num_outputs) {
    (void)host, (void)layer, (void)num_inputs, (void)num_outputs;
    outputs[0] = inputs[0];
    return IXION_OK;
}

static int32_t forward(const ixion_host *host, void *layer, const ixion_tensor *inputs, size_t num_inputs,
                       const ixion_tensor *outputs, size_t num_outputs, void *workspace, size_t workspace_bytes) {
    (void)host, (void)layer, (void)num_inputs, (void)num_outputs, (void)workspace, (void)workspace_bytes;
    memcpy(outputs[0].data, inputs[0].data, inputs[0].bytes);
    return IXION_OK;
}

static int32_t supports(const ixion_host *host, const void *layer, size_t position, const ixion_format *formats,
                        size_t num_formats) {
    (void)host, (void)layer, (void)num_formats;
    return formats[position].dtype == IXION_F64 && formats[position].block == 0;
}

static const char source[] =
    "extern \"C\" __global__ void copy(const double *x, double *y, int count) {\n"
    "    int i = blockIdx.x * blockDim.x + threadIdx.x;\n"
    "    if (i < count) y[i] = x[i];\n"
    "}\n";

static int32_t cuda_forward(const ixion_host *host, const void *layer, const ixion_tensor *inputs, size_t num_inputs,
                            const ixion_tensor *outputs, size_t num_outputs) {
    const int64_t defect = *(const int64_t *)layer;
    const int64_t count = (int64_t)(inputs[0].bytes / sizeof(double));
    ixion_cuda_argument arguments[] = {
        {.kind = IXION_CUDA_INPUT, .index = defect == NO_SUCH_INPUT ? 3 : 0},
        {.kind = IXION_CUDA_OUTPUT, .index = 0},
        {.kind = IXION_CUDA_INT, .i = defect == LARGE_INT ? (int64_t)1 << 40 : count},
    };
    ixion_cuda_launch launch = {
        .size = sizeof launch,
        .source = source,
        .kernel = "copy",
        .blocks = {(uint32_t)((count + 31) / 32), 1, 1},
        .threads = {32, 1, 1},
        .arguments = arguments,
        .num_arguments = 3,
    };
    (void)num_inputs, (void)outputs, (void)num_outputs;
    switch (defect) {
    case NO_SOURCE: launch.source = NULL; break;
    case NO_KERNEL: launch.kernel = NULL; break;
    case SIZE: launch.size = 8; break;
    case TOO_MANY_ARGUMENTS: launch.num_arguments = (size_t)-1; break;
    case NULL_ARGUMENTS: launch.arguments = NULL; break;
    case WRONG_KERNEL: launch.kernel = "copies"; break;
    case WRONG_SOURCE: launch.source = "extern \"C\" __global__ void copy() { return nothing; }\n"; break;
    case NO_SUCH_WEIGHT: arguments[1].kind = IXION_CUDA_WEIGHT; break;
    case KIND: arguments[1].kind = 99; break;
    case NO_THREADS: launch.threads[0] = 0; break;
    case MANY_THREADS: launch.threads[0] = 4096; break;
    case FAILS: return host->fail(host, "no kernel today");
    case SILENT: return IXION_FAILED;
    case ENDLESS:
        while (host->cuda_launch(host, &launch) == IXION_OK) {
        }
        return IXION_FAILED;
    case PAST_THE_END: arguments[2].i += 1000; launch.blocks[0] += 40; break;
    default: break;
    }
    return host->cuda_launch(host, &launch);
}

static const ixion_field fields[] = {
    {.key = "defect", .kind = IXION_INT, .fallback = "0", .doc = "The defect of the launch."},
};

static const ixion_operator copy_operator = {
    .size = sizeof(ixion_operator),
    .type_name = "my.Copy",
    .name_space = "tests",
    .version = "1",
    .fields = fields,
    .num_fields = 1,
    .min_inputs = 1,
    .max_inputs = 1,
    .num_outputs = 1,
    .create = create,
    .clone = clone,
    .destroy = free,
    .infer = infer,
    .supports = supports,
    .forward = forward,
    .cuda_supports = supports,
    .cuda_forward = cuda_forward,
};

static const ixion_operator *const operators[] = {&copy_operator};

static const ixion_plugin_table table = {
    .abi = IXION_ABI,
    .size = sizeof(ixion_plugin_table),
    .name = "launches",
    .operators = operators,
    .num_operators = 1,
};

const ixion_plugin_table *ixion_plugin(uint32_t abi) {
    (void)abi;
    return &table;
}
