/* Operators for Ixion in plain C: an elementwise function with a field, one with a weight, and one that computes the length of
 * its output. See README.md in this folder for how to build them. */
#include "ixion_plugin.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ANCHOR: launch */
/* Requests a launch with one thread per element. */
static int32_t launch_elements(const ixion_host *host, const char *source, const char *kernel, int64_t elements,
                               const ixion_cuda_argument *arguments, size_t num_arguments) {
    const ixion_cuda_launch launch = {
        .size = sizeof launch,
        .file = "activations.cu",
        .source = source,
        .kernel = kernel,
        .blocks = {(uint32_t)((elements + 255) / 256), 1, 1},
        .threads = {256, 1, 1},
        .arguments = arguments,
        .num_arguments = num_arguments,
    };
    return elements == 0 ? IXION_OK : host->cuda_launch(host, &launch);
}
/* ANCHOR_END: launch */

/* ANCHOR: swish */
/* my.Swish: x * sigmoid(beta * x). */
typedef struct {
    double beta;
} swish;

static int32_t swish_create(const ixion_host *host, const ixion_operator *op, const ixion_node *node,
                            const ixion_value *values, size_t num_values, void **layer) {
    swish *made = malloc(sizeof *made);
    (void)op, (void)node, (void)num_values;
    if (made == NULL) {
        return host->fail(host, "out of memory");
    }
    made->beta = values[0].f; /* in the order of swish_fields */
    *layer = made;
    return IXION_OK;
}

static int32_t swish_clone(const ixion_host *host, const void *layer, void **copy) {
    *copy = malloc(sizeof(swish));
    if (*copy == NULL) {
        return host->fail(host, "out of memory");
    }
    memcpy(*copy, layer, sizeof(swish));
    return IXION_OK;
}

/* The output has the type and shape of the input, whether its lengths are numbers or symbols. */
static int32_t same_as_input(const ixion_host *host, const void *layer, const ixion_tensor *inputs, size_t num_inputs,
                             ixion_tensor *outputs, size_t num_outputs) {
    (void)layer, (void)num_inputs, (void)num_outputs;
    if (inputs[0].dtype != IXION_F32) {
        return host->fail(host, "the input must be f32");
    }
    outputs[0] = inputs[0];
    return IXION_OK;
}

static int32_t swish_forward(const ixion_host *host, void *layer, const ixion_tensor *inputs, size_t num_inputs,
                             const ixion_tensor *outputs, size_t num_outputs, void *workspace, size_t workspace_bytes) {
    const float *x = inputs[0].data;
    float *y = outputs[0].data;
    const float beta = (float)((const swish *)layer)->beta;
    size_t count = inputs[0].bytes / sizeof(float), i;
    (void)host, (void)num_inputs, (void)num_outputs, (void)workspace, (void)workspace_bytes;
    for (i = 0; i < count; i++) {
        y[i] = x[i] / (1.0f + expf(-beta * x[i]));
    }
    return IXION_OK;
}

/* The same on a GPU. Ixion compiles the source and launches the kernel. */
static const char swish_source[] =
    "extern \"C\" __global__ void swish(const float *x, float *y, long long count, float beta) {\n"
    "    long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;\n"
    "    if (i < count) y[i] = x[i] / (1.0f + expf(-beta * x[i]));\n"
    "}\n";

static int32_t swish_cuda_forward(const ixion_host *host, const void *layer, const ixion_tensor *inputs, size_t num_inputs,
                                  const ixion_tensor *outputs, size_t num_outputs) {
    int64_t count = (int64_t)(inputs[0].bytes / sizeof(float));
    const ixion_cuda_argument arguments[] = {
        {.kind = IXION_CUDA_INPUT, .index = 0},
        {.kind = IXION_CUDA_OUTPUT, .index = 0},
        {.kind = IXION_CUDA_LONG, .i = count},
        {.kind = IXION_CUDA_FLOAT, .f = ((const swish *)layer)->beta},
    };
    (void)num_inputs, (void)outputs, (void)num_outputs;
    return launch_elements(host, swish_source, "swish", count, arguments, sizeof arguments / sizeof *arguments);
}

static const ixion_field swish_fields[] = {
    {.key = "beta", .kind = IXION_FLOAT, .fallback = "1.0", .doc = "The steepness of the step."},
};

static const ixion_operator swish_operator = {
    .size = sizeof(ixion_operator),
    .type_name = "my.Swish",
    .name_space = "examples",
    .version = "1",
    .doc = "x times the logistic function of beta times x.",
    .fields = swish_fields,
    .num_fields = 1,
    .min_inputs = 1,
    .max_inputs = 1,
    .num_outputs = 1,
    .create = swish_create,
    .clone = swish_clone,
    .destroy = free,
    .infer = same_as_input,
    .forward = swish_forward,
    .cuda_forward = swish_cuda_forward,
};
/* ANCHOR_END: swish */

/* ANCHOR: scale */
/* my.ChannelScale: every channel times its weight. For demonstration, it counts its
 * configurations, uses scratch memory and stores its state with a plan. */
typedef struct {
    const float *weight; /* valid as long as the layer or one of its clones exists */
    int64_t channels;
    int64_t configured; /* the number of calls; stored with a plan */
} scale;

static int32_t scale_create(const ixion_host *host, const ixion_operator *op, const ixion_node *node,
                            const ixion_value *values, size_t num_values, void **layer) {
    const ixion_tensor *weight = values[0].tensor;
    scale *made;
    (void)op, (void)num_values;
    if (weight == NULL || weight->dtype != IXION_F32 || weight->rank != 1) {
        char message[256];
        snprintf(message, sizeof message, "the weight of `%s` must be a stored vector of f32", node->name);
        return host->fail(host, message);
    }
    made = calloc(1, sizeof *made);
    if (made == NULL) {
        return host->fail(host, "out of memory");
    }
    made->weight = weight->data;
    made->channels = weight->dims[0];
    *layer = made;
    return IXION_OK;
}

static int32_t scale_clone(const ixion_host *host, const void *layer, void **copy) {
    *copy = malloc(sizeof(scale));
    if (*copy == NULL) {
        return host->fail(host, "out of memory");
    }
    memcpy(*copy, layer, sizeof(scale)); /* the weight is shared */
    return IXION_OK;
}

static int32_t scale_infer(const ixion_host *host, const void *layer, const ixion_tensor *inputs, size_t num_inputs,
                           ixion_tensor *outputs, size_t num_outputs) {
    const scale *self = layer;
    const ixion_tensor *x = &inputs[0];
    /* A negative length is a symbol, whose value is not known yet. */
    if (x->rank < 2 || (x->dims[1] >= 0 && x->dims[1] != self->channels)) {
        return host->fail(host, "axis 1 of the input must be as long as the weight");
    }
    return same_as_input(host, layer, inputs, num_inputs, outputs, num_outputs);
}

static int32_t scale_configure(const ixion_host *host, void *layer, const ixion_tensor *inputs, size_t num_inputs,
                               const ixion_tensor *outputs, size_t num_outputs) {
    (void)host, (void)inputs, (void)num_inputs, (void)outputs, (void)num_outputs;
    ((scale *)layer)->configured += 1;
    return IXION_OK;
}

static int32_t scale_workspace(const ixion_host *host, const void *layer, const ixion_tensor *inputs, size_t num_inputs,
                               const ixion_tensor *outputs, size_t num_outputs, size_t *bytes) {
    (void)host, (void)inputs, (void)num_inputs, (void)outputs, (void)num_outputs;
    *bytes = (size_t)((const scale *)layer)->channels * sizeof(float);
    return IXION_OK;
}

static int32_t scale_forward(const ixion_host *host, void *layer, const ixion_tensor *inputs, size_t num_inputs,
                             const ixion_tensor *outputs, size_t num_outputs, void *workspace, size_t workspace_bytes) {
    const scale *self = layer;
    const float *x = inputs[0].data;
    float *y = outputs[0].data, *weight = workspace;
    size_t images = (size_t)inputs[0].dims[0], channels = (size_t)self->channels;
    size_t count = inputs[0].bytes / sizeof(float);
    size_t area = images * channels == 0 ? 0 : count / (images * channels), plane, i;
    (void)num_inputs, (void)num_outputs, (void)workspace_bytes;
    memcpy(weight, self->weight, channels * sizeof(float));
    for (plane = 0; plane < images * channels; plane++) {
        if (host->stopped(host) != IXION_OK) {
            return IXION_STOPPED;
        }
        for (i = 0; i < area; i++) {
            y[plane * area + i] = x[plane * area + i] * weight[plane % channels];
        }
    }
    return IXION_OK;
}

/* Weights are copied to the GPU; a launch refers to them by the index of their field. */
static const char scale_source[] =
    "extern \"C\" __global__ void scale(const float *x, const float *weight, float *y, long long count, int channels,\n"
    "                                 long long area) {\n"
    "    long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;\n"
    "    if (i < count) y[i] = x[i] * weight[i / area % channels];\n"
    "}\n";

static int32_t scale_cuda_forward(const ixion_host *host, const void *layer, const ixion_tensor *inputs, size_t num_inputs,
                                  const ixion_tensor *outputs, size_t num_outputs) {
    int64_t channels = ((const scale *)layer)->channels, count = (int64_t)(inputs[0].bytes / sizeof(float));
    int64_t planes = inputs[0].dims[0] * channels;
    const ixion_cuda_argument arguments[] = {
        {.kind = IXION_CUDA_INPUT, .index = 0},
        {.kind = IXION_CUDA_WEIGHT, .index = 0},
        {.kind = IXION_CUDA_OUTPUT, .index = 0},
        {.kind = IXION_CUDA_LONG, .i = count},
        {.kind = IXION_CUDA_INT, .i = channels},
        {.kind = IXION_CUDA_LONG, .i = planes == 0 ? 1 : count / planes},
    };
    (void)num_inputs, (void)outputs, (void)num_outputs;
    return launch_elements(host, scale_source, "scale", count, arguments, sizeof arguments / sizeof *arguments);
}

static int32_t scale_serialize(const ixion_host *host, const void *layer, void *buffer, size_t capacity,
                               size_t *written) {
    const scale *self = layer;
    (void)host;
    *written = sizeof self->configured;
    if (capacity >= *written) {
        memcpy(buffer, &self->configured, *written);
    }
    return IXION_OK;
}

static int32_t scale_deserialize(const ixion_host *host, void *layer, const void *bytes, size_t count) {
    scale *self = layer;
    if (count != sizeof self->configured) {
        return host->fail(host, "this state belongs to another layer");
    }
    memcpy(&self->configured, bytes, count);
    return IXION_OK;
}

static const ixion_field scale_fields[] = {
    {.key = "weight", .kind = IXION_WEIGHT, .doc = "One factor per channel."},
};

static const ixion_operator scale_operator = {
    .size = sizeof(ixion_operator),
    .type_name = "my.ChannelScale",
    .name_space = "examples",
    .version = "1",
    .doc = "Every channel times its weight.",
    .fields = scale_fields,
    .num_fields = 1,
    .min_inputs = 1,
    .max_inputs = 1,
    .num_outputs = 1,
    .create = scale_create,
    .clone = scale_clone,
    .destroy = free,
    .infer = scale_infer,
    .configure = scale_configure,
    .workspace = scale_workspace,
    .serialize = scale_serialize,
    .deserialize = scale_deserialize,
    .forward = scale_forward,
    .cuda_forward = scale_cuda_forward,
};
/* ANCHOR_END: scale */

/* ANCHOR: halve */
/* my.Halve: every second element of the last axis. Ixion computes the new length, because it may be a symbol. */
static int32_t halve_infer(const ixion_host *host, const void *layer, const ixion_tensor *inputs, size_t num_inputs,
                           ixion_tensor *outputs, size_t num_outputs) {
    int32_t last = inputs[0].rank - 1, status;
    if (last < 0) {
        return host->fail(host, "the input has no axis");
    }
    status = same_as_input(host, layer, inputs, num_inputs, outputs, num_outputs);
    outputs[0].dims[last] = host->dim(host, IXION_CEIL_DIV, inputs[0].dims[last], 2);
    return status;
}
/* ANCHOR_END: halve */

static int32_t halve_create(const ixion_host *host, const ixion_operator *op, const ixion_node *node,
                            const ixion_value *values, size_t num_values, void **layer) {
    static int nothing; /* a layer without a state */
    (void)host, (void)op, (void)node, (void)values, (void)num_values;
    *layer = &nothing;
    return IXION_OK;
}

static int32_t halve_clone(const ixion_host *host, const void *layer, void **copy) {
    (void)layer;
    return halve_create(host, NULL, NULL, NULL, 0, copy);
}

static void halve_destroy(void *layer) {
    (void)layer;
}

static int32_t halve_forward(const ixion_host *host, void *layer, const ixion_tensor *inputs, size_t num_inputs,
                             const ixion_tensor *outputs, size_t num_outputs, void *workspace, size_t workspace_bytes) {
    const ixion_tensor *in = &inputs[0], *out = &outputs[0];
    const float *x = in->data;
    float *y = out->data;
    size_t from = (size_t)in->dims[in->rank - 1], to = (size_t)out->dims[out->rank - 1];
    size_t count = out->bytes / sizeof(float), i;
    (void)host, (void)layer, (void)num_inputs, (void)num_outputs, (void)workspace, (void)workspace_bytes;
    for (i = 0; i < count; i++) {
        y[i] = x[i / to * from + i % to * 2];
    }
    return IXION_OK;
}

static const ixion_operator halve_operator = {
    .size = sizeof(ixion_operator),
    .type_name = "my.Halve",
    .name_space = "examples",
    .version = "1",
    .doc = "Every second element of the last axis.",
    .min_inputs = 1,
    .max_inputs = 1,
    .num_outputs = 1,
    .create = halve_create,
    .clone = halve_clone,
    .destroy = halve_destroy,
    .infer = halve_infer,
    .forward = halve_forward,
};

/* ANCHOR: table */
static const ixion_operator *const operators[] = {&swish_operator, &scale_operator, &halve_operator};

static const ixion_plugin_table table = {
    .abi = IXION_ABI,
    .size = sizeof(ixion_plugin_table),
    .name = "activations",
    .operators = operators,
    .num_operators = 3,
};

const ixion_plugin_table *ixion_plugin(uint32_t abi) {
    (void)abi; /* the version that Ixion uses; the table states the version of this plugin */
    return &table;
}
/* ANCHOR_END: table */
