// Samples images and volumes at the coordinates of a grid. MODE is NEAREST, LINEAR or CUBIC, and PADDING is ZEROS, BORDER or
// REFLECTION. Coordinates are normalised to -1 to 1, and start with the last axis; AXES of the three axes have one.

#include "common.cuh"

#define NEAREST 0
#define LINEAR 1
#define CUBIC 2
#define ZEROS 0
#define BORDER 1
#define REFLECTION 2

struct Taps {
    int count, at[4];
    C weight[4];
};

static __device__ inline bool is_finite(C x) { return x - x == (C)0; }

static __device__ inline C reflect(C coordinate, C low, C span) {
    if (span == (C)0) return 0;
    C distance = fabs(coordinate - low), extra = fmod(distance, span), flips = floor(distance / span);
    return fmod(flips, (C)2) == (C)0 ? low + extra : low + span - extra;
}

// Applies the padding mode to a coordinate that may be outside the axis.
static __device__ inline C apply_padding(C coordinate, int length) {
    C last = (C)(length - 1);
    if (PADDING == ZEROS) return coordinate;
    if (PADDING == REFLECTION) {
        coordinate = ALIGNED ? reflect(coordinate, 0, last) : reflect(coordinate, (C)-0.5, last + (C)1);
    }
    if (coordinate != coordinate) return AXES == 3 ? last : (C)0;
    return coordinate < (C)0 ? (C)0 : coordinate > last ? last : coordinate;
}

// The index of an element, or -1 outside the axis.
static __device__ inline int index_of(C at, int length) { return at >= (C)0 && at < (C)length ? (int)at : -1; }

static __device__ inline Taps taps_of(C normalized, int length) {
    C coordinate = ALIGNED ? (normalized + (C)1) / (C)2 * (C)(length - 1) : ((normalized + (C)1) * (C)length - (C)1) / (C)2;
    Taps taps = {1, {0}, {(C)1}};
    if (MODE == NEAREST) {
        taps.at[0] = index_of(rint(apply_padding(coordinate, length)), length);
    } else if (MODE == LINEAR) {
        C at = apply_padding(coordinate, length), first = floor(at);
        if (!is_finite(at)) {
            // Coordinates that are not finite give NaN in images and 0 in volumes.
            taps.at[0] = AXES == 3 ? -1 : 0;
            taps.weight[0] = AXES == 3 ? (C)0 : at - at;
        } else {
            taps.count = 2;
            taps.at[0] = index_of(first, length);
            taps.at[1] = index_of(first + (C)1, length);
            taps.weight[0] = (C)1 - (at - first);
            taps.weight[1] = at - first;
        }
    } else if (!is_finite(coordinate)) {
        taps.weight[0] = coordinate - coordinate;
    } else {
        C first = floor(coordinate), t = coordinate - first, a = (C)-0.75;
        C distances[4] = {t + (C)1, t, (C)1 - t, (C)2 - t};
        taps.count = 4;
        for (int i = 0; i < 4; ++i) {
            C x = distances[i];
            bool is_near = i == 1 || i == 2;
            taps.weight[i] = is_near ? ((a + (C)2) * x - (a + (C)3)) * x * x + (C)1
                                     : ((a * x - (C)5 * a) * x + (C)8 * a) * x - (C)4 * a;
            taps.at[i] = index_of(apply_padding(first + (C)(i - 1), length), length);
        }
    }
    return taps;
}

extern "C" __global__ void grid_sample(const T* x, Strides sx, const T* grid, Strides sg, T* y, Strides sy, Shape out, Shape in,
                                       i64 count) {
    for (i64 i = GLOBAL_THREAD; i < count; i += GRID_STRIDE) {
        i64 rest = i, at[5], to = 0;
        for (int axis = 4; axis >= 0; --axis) {
            at[axis] = rest % out.dims[axis];
            rest /= out.dims[axis];
            to += at[axis] * sy.by[axis];
        }
        const T* coordinates = grid + at[0] * sg.by[0] + at[2] * sg.by[1] + at[3] * sg.by[2] + at[4] * sg.by[3];
        Taps taps[3];
        for (int axis = 0; axis < 3; ++axis) {
            bool is_sampled = axis >= 3 - AXES;
            taps[axis] = is_sampled ? taps_of(load<C>(coordinates[(2 - axis) * sg.by[4]]), in.dims[axis]) : Taps{1, {0}, {(C)1}};
        }
        const T* from = x + at[0] * sx.by[0] + at[1] * sx.by[1];
        C sum = 0;
        for (int d = 0; d < taps[0].count; ++d) {
            for (int h = 0; h < taps[1].count; ++h) {
                for (int w = 0; w < taps[2].count; ++w) {
                    int index[3] = {taps[0].at[d], taps[1].at[h], taps[2].at[w]};
                    if (index[0] < 0 || index[1] < 0 || index[2] < 0) continue;
                    C weight = taps[0].weight[d] * taps[1].weight[h] * taps[2].weight[w];
                    sum += weight * load<C>(from[index[0] * sx.by[2] + index[1] * sx.by[3] + index[2] * sx.by[4]]);
                }
            }
        }
        store<C>(y[to], sum);
    }
}
