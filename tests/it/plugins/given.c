/* my.Given: outputs the value that it was given: kind, is_given, i, whether there is a tensor, and its first element. */
#include "ixion_plugin.h"

#include <stdlib.h>
#include <string.h>

static int32_t create(const ixion_host *host, const ixion_operator *op, const ixion_node *node, const ixion_value *values,
                      size_t num_values, void **layer) {
    const ixion_tensor *tensor = values[0].tensor;
    float *made = malloc(5 * sizeof *made);
    (void)op, (void)num_values;
    if (made == NULL) {
        return host->fail(host, "out of memory");
    }
    made[0] = (float)values[0].kind;
    made[1] = (float)values[0].is_given;
    made[2] = (float)values[0].i;
    made[3] = tensor != NULL;
    made[4] = tensor != NULL ? *(const float *)tensor->data : 0.0f;
    if (node->later[0] != NULL || values[0].later[1] != NULL || (tensor != NULL && tensor->later[0] != NULL)) {
        return host->fail(host, "nothing is there yet");
    }
    *layer = made;
    return IXION_OK;
}

static int32_t clone(const ixion_host *host, const void *layer, void **copy) {
    *copy = malloc(5 * sizeof(float));
    if (*copy == NULL) {
        return host->fail(host, "out of memory");
    }
    memcpy(*copy, layer, 5 * sizeof(float));
    return IXION_OK;
}

static int32_t infer(const ixion_host *host, const void *layer, const ixion_tensor *inputs, size_t num_inputs,
                     ixion_tensor *outputs, size_t num_outputs) {
    (void)host, (void)layer, (void)inputs, (void)num_inputs, (void)num_outputs;
    outputs[0].dtype = IXION_F32;
    outputs[0].rank = 1;
    outputs[0].dims[0] = 5;
    return IXION_OK;
}

static int32_t forward(const ixion_host *host, void *layer, const ixion_tensor *inputs, size_t num_inputs,
                       const ixion_tensor *outputs, size_t num_outputs, void *scratch, size_t scratch_bytes) {
    (void)host, (void)inputs, (void)num_inputs, (void)num_outputs, (void)scratch, (void)scratch_bytes;
    memcpy(outputs[0].data, layer, 5 * sizeof(float));
    return IXION_OK;
}

static const ixion_field fields[] = {
    {.key = "bias", .kind = IXION_OPTIONAL_WEIGHT, .fallback = "None", .doc = "The bias."},
};

static const ixion_operator op = {
    .size = sizeof(ixion_operator),
    .type_name = "my.Given",
    .name_space = "tests",
    .version = "1",
    .fields = fields,
    .num_fields = 1,
    .min_inputs = 1,
    .max_inputs = 2,
    .num_outputs = 1,
    .create = create,
    .clone = clone,
    .destroy = free,
    .infer = infer,
    .forward = forward,
};

static const ixion_operator *const operators[] = {&op};

static const ixion_plugin_table table = {
    .abi = IXION_ABI,
    .size = sizeof(ixion_plugin_table),
    .name = "given",
    .operators = operators,
    .num_operators = 1,
};

const ixion_plugin_table *ixion_plugin(uint32_t abi) {
    (void)abi;
    return &table;
}
