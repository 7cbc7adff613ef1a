/* Plugins with one defect each, selected by DEFECT. */
#define _POSIX_C_SOURCE 199309L
#include "ixion_plugin.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#ifndef DEFECT
#error "select a defect: -DDEFECT=ABI"
#endif

enum {
    NONE, NO_TABLE, VERSION, SIZE, NO_OPERATORS, NULL_OPERATOR, TOO_MANY, OPERATOR_SIZE, NULL_TYPE, LONG_TYPE, NOT_UTF8,
    BLANK, EMPTY_VERSION, OWN_NAMESPACE, TWICE, NULL_CREATE, NULL_FORWARD, NULL_FIELDS, FIELD_KIND, FIELD_TWICE, FALLBACK,
    FLAGS, COUNTS, CREATE_FAILS, CREATE_NULL, CLONE_FAILS, INFER_FAILS, INFER_DTYPE, INFER_RANK, INFER_LENGTH,
    INFER_UNKNOWN, INFER_HUGE, SUPPORTS_NOTHING, CONFIGURE_FAILS, WORKSPACE_HUGE, WORKSPACE_PAST, STATE_PAST, STATE_LESS,
    STATE_HUGE, FORWARD_FAILS, FORWARD_SILENT, FORWARD_STATUS, FORWARD_STOPS, FORWARD_HANGS, CREATE_HANGS, INFER_HANGS,
    INITIALIZE_FAILS, INITIALIZE_HANGS, OPERATORS_ODD, SUPPORTS_HANGS, CLONE_HANGS, INFER_HANGS_AT_7, INFER_OBEYS,
    FORWARD_OBEYS, SUPPORTS_OBEYS, LARGER, SMALLER, OPERATOR_SMALLER
};

static int layer_of_all;

/* Never returns, but sleeps, because tests that run in parallel need the processor. */
static void hang(void) {
    struct timespec hour = {3600, 0};
    for (;;) {
        nanosleep(&hour, NULL);
    }
}

/* Works until it is told to stop, which it checks every few milliseconds. */
static int32_t obey(const ixion_host *host) {
    while (host->stopped(host) == IXION_OK) {
        clock_t start = clock();
        while (clock() - start < 3 * CLOCKS_PER_SEC / 1000) {
        }
    }
    return IXION_STOPPED;
}

/* Set after a failed forward. */
static volatile int is_moody;

static int32_t create(const ixion_host *host, const ixion_operator *op, const ixion_node *node, const ixion_value *values,
                      size_t num_values, void **layer) {
    (void)op, (void)node, (void)values, (void)num_values;
    if (DEFECT == CREATE_FAILS) {
        return host->fail(host, "the moon is full");
    }
    if (DEFECT == CREATE_HANGS) {
        hang();
    }
    *layer = DEFECT == CREATE_NULL ? NULL : &layer_of_all;
    return IXION_OK;
}

static int32_t clone(const ixion_host *host, const void *layer, void **copy) {
    (void)layer;
    if (DEFECT == CLONE_FAILS) {
        return host->fail(host, "sheep only");
    }
    if (DEFECT == CLONE_HANGS && is_moody) {
        hang();
    }
    *copy = &layer_of_all;
    return IXION_OK;
}

static void destroy(void *layer) {
    (void)layer;
}

static int32_t infer(const ixion_host *host, const void *layer, const ixion_tensor *inputs, size_t num_inputs,
                     ixion_tensor *outputs, size_t num_outputs) {
    (void)layer, (void)num_inputs, (void)num_outputs;
    outputs[0] = inputs[0];
    switch (DEFECT) {
    case INFER_FAILS: return host->fail(host, "no shape pleases me");
    case INFER_DTYPE: outputs[0].dtype = 99; break;
    case INFER_RANK: outputs[0].rank = 9; break;
    case INFER_LENGTH: outputs[0].dims[0] = -5; break;
    case INFER_UNKNOWN: outputs[0].dims[0] = IXION_UNKNOWN; break;
    case INFER_HUGE: outputs[0].dims[0] = INT64_MAX; break;
    case INFER_HANGS: hang(); break;
    case INFER_HANGS_AT_7:
        if (inputs[0].dims[0] == 7) {
            hang();
        }
        break;
    case INFER_OBEYS: return inputs[0].dims[0] == 7 ? obey(host) : IXION_OK;
    default: break;
    }
    return IXION_OK;
}

static int32_t supports(const ixion_host *host, const void *layer, size_t position, const ixion_format *formats, size_t num_formats) {
    (void)layer, (void)num_formats;
    if (DEFECT == SUPPORTS_OBEYS) {
        return obey(host) == IXION_OK;
    }
    if (DEFECT == SUPPORTS_HANGS) {
        hang();
    }
    return DEFECT != SUPPORTS_NOTHING && formats[position].dtype == IXION_F32 && formats[position].blocked_axis < 0;
}

static int32_t configure(const ixion_host *host, void *layer, const ixion_tensor *inputs, size_t num_inputs,
                         const ixion_tensor *outputs, size_t num_outputs) {
    (void)layer, (void)inputs, (void)num_inputs, (void)outputs, (void)num_outputs;
    return DEFECT == CONFIGURE_FAILS ? host->fail(host, "not in the mood") : IXION_OK;
}

static int32_t workspace(const ixion_host *host, const void *layer, const ixion_tensor *inputs, size_t num_inputs,
                         const ixion_tensor *outputs, size_t num_outputs, size_t *bytes) {
    (void)host, (void)layer, (void)inputs, (void)num_inputs, (void)outputs, (void)num_outputs;
    *bytes = DEFECT == WORKSPACE_HUGE ? SIZE_MAX : 16;
    return IXION_OK;
}

static int32_t initialize(const ixion_host *host, void *layer) {
    (void)layer;
    if (DEFECT == INITIALIZE_HANGS) {
        hang();
    }
    return DEFECT == INITIALIZE_FAILS ? host->fail(host, "too early in the day") : IXION_OK;
}

static int32_t serialize(const ixion_host *host, const void *layer, void *buffer, size_t capacity, size_t *written) {
    (void)host, (void)layer;
    *written = DEFECT == STATE_HUGE ? SIZE_MAX : 8;
    if (capacity > 0) {
        memset(buffer, 1, DEFECT == STATE_PAST ? 9 : 8);
        *written = DEFECT == STATE_LESS ? 7 : *written;
    }
    return IXION_OK;
}

static int32_t deserialize(const ixion_host *host, void *layer, const void *bytes, size_t count) {
    (void)layer, (void)bytes;
    return count == 8 ? IXION_OK : host->fail(host, "not my state");
}

static int32_t forward(const ixion_host *host, void *layer, const ixion_tensor *inputs, size_t num_inputs,
                       const ixion_tensor *outputs, size_t num_outputs, void *scratch, size_t scratch_bytes) {
    (void)layer, (void)num_inputs, (void)num_outputs;
    memset(scratch, 1, DEFECT == WORKSPACE_PAST ? scratch_bytes + 1 : scratch_bytes);
    switch (DEFECT) {
    case FORWARD_FAILS: return host->fail(host, "numbers make me \xff dizzy");
    case FORWARD_SILENT: return IXION_FAILED;
    case FORWARD_STATUS: return 77;
    case FORWARD_STOPS: return IXION_STOPPED;
    case FORWARD_HANGS:
        if (*(const float *)inputs[0].data > 0.0f) {
            hang();
        }
        break;
    case FORWARD_OBEYS:
        if (*(const float *)inputs[0].data > 0.0f) {
            return obey(host);
        }
        break;
    case CLONE_HANGS:
        if (*(const float *)inputs[0].data > 0.0f) {
            is_moody = 1;
            return host->fail(host, "leave me alone");
        }
        break;
    default: break;
    }
    memcpy(outputs[0].data, inputs[0].data, inputs[0].bytes);
    return IXION_OK;
}

static const ixion_field two_fields[] = {
    {.key = "a", .kind = DEFECT == FIELD_KIND ? 55 : IXION_INT, .fallback = DEFECT == FALLBACK ? "many" : "1"},
    {.key = DEFECT == FIELD_TWICE ? "a" : "b", .kind = IXION_FLOATS, .fallback = "(1,2)"},
};

static char long_type[1026];

static ixion_operator op = {
    .size = DEFECT == OPERATOR_SIZE      ? 8
            : DEFECT == OPERATOR_SMALLER ? offsetof(ixion_operator, forward) + sizeof(void *) - 1
            : DEFECT == LARGER           ? sizeof(ixion_operator) + 24
                                         : sizeof(ixion_operator),
    .type_name = DEFECT == NULL_TYPE ? NULL
                 : DEFECT == NOT_UTF8 ? "my.\xff"
                 : DEFECT == BLANK    ? "my bad"
                                      : "my.Bad",
    .name_space = DEFECT == OWN_NAMESPACE ? "ixion" : "tests",
    .version = DEFECT == EMPTY_VERSION ? "" : "1",
    .fields = DEFECT == NULL_FIELDS ? NULL : two_fields,
    .num_fields = 2,
    .min_inputs = DEFECT == COUNTS ? 3 : 1,
    .max_inputs = 1,
    .num_outputs = 1,
    .flags = DEFECT == FLAGS ? 8 : 0,
    .create = DEFECT == NULL_CREATE ? NULL : create,
    .clone = clone,
    .destroy = destroy,
    .infer = infer,
    .supports = supports,
    .configure = configure,
    .workspace = workspace,
    .initialize = initialize,
    .serialize = serialize,
    .deserialize = deserialize,
    .forward = DEFECT == NULL_FORWARD ? NULL : forward,
};

/* A table of a later version. */
static struct {
    ixion_operator op;
    void *more[3];
} larger;

static const ixion_operator *const operators[] = {DEFECT == LARGER ? &larger.op : DEFECT == NULL_OPERATOR ? NULL : &op, &op};

static ixion_plugin_table table = {
    .abi = DEFECT == VERSION ? 2 : IXION_ABI,
    .size = DEFECT == SIZE      ? 4
            : DEFECT == SMALLER ? sizeof(ixion_plugin_table) - 1
                                : sizeof(ixion_plugin_table),
    .name = "bad",
    .operators = operators,
    .num_operators = DEFECT == NO_OPERATORS ? 0 : DEFECT == TOO_MANY ? SIZE_MAX : DEFECT == TWICE ? 2 : 1,
};

const ixion_plugin_table *ixion_plugin(uint32_t abi) {
    (void)abi;
    if (DEFECT == LONG_TYPE) {
        memset(long_type, 'x', 1025);
        op.type_name = long_type;
    }
    if (DEFECT == LARGER) {
        larger.op = op;
        larger.more[0] = larger.more;
    }
    if (DEFECT == OPERATORS_ODD) {
        table.operators = (const ixion_operator *const *)(const void *)((const char *)operators + 1);
    }
    return DEFECT == NO_TABLE ? NULL : &table;
}
