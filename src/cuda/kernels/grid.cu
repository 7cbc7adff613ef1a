// Pictures and volumes read at the places of a grid. MODE is NEAREST, LINEAR or CUBIC; PADDING what lies outside: ZEROS, BORDER or
// REFLECTION. Coordinates of -1 to 1 count from the last axis; AXES of the three axes have one.

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

static __device__ inline C mirrored(C place, C low, C span) {
    if (span == (C)0) return 0;
    C distance = fabs(place - low), extra = fmod(distance, span), flips = floor(distance / span);
    return fmod(flips, (C)2) == (C)0 ? low + extra : low + span - extra;
}

// The place inside of the axis that stands for one that may be outside.
static __device__ inline C inside(C place, int length) {
    C last = (C)(length - 1);
    if (PADDING == ZEROS) return place;
    if (PADDING == REFLECTION) place = ALIGNED ? mirrored(place, 0, last) : mirrored(place, (C)-0.5, last + (C)1);
    if (place != place) return AXES == 3 ? last : (C)0;
    return place < (C)0 ? (C)0 : place > last ? last : place;
}

// The number of an element; -1 for those outside.
static __device__ inline int index_of(C at, int length) { return at >= (C)0 && at < (C)length ? (int)at : -1; }

static __device__ inline Taps taps_of(C coordinate, int length) {
    C place = ALIGNED ? (coordinate + (C)1) / (C)2 * (C)(length - 1) : ((coordinate + (C)1) * (C)length - (C)1) / (C)2;
    Taps taps = {1, {0}, {(C)1}};
    if (MODE == NEAREST) {
        taps.at[0] = index_of(rint(inside(place, length)), length);
    } else if (MODE == LINEAR) {
        C at = inside(place, length), first = floor(at);
        if (!is_finite(at)) {
            // Of pictures, what is no place gives no number; of volumes it gives 0.
            taps.at[0] = AXES == 3 ? -1 : 0;
            taps.weight[0] = AXES == 3 ? (C)0 : at - at;
        } else {
            taps.count = 2;
            taps.at[0] = index_of(first, length);
            taps.at[1] = index_of(first + (C)1, length);
            taps.weight[0] = (C)1 - (at - first);
            taps.weight[1] = at - first;
        }
    } else if (!is_finite(place)) {
        taps.weight[0] = place - place;
    } else {
        C first = floor(place), t = place - first, a = (C)-0.75;
        C places[4] = {t + (C)1, t, (C)1 - t, (C)2 - t};
        taps.count = 4;
        for (int i = 0; i < 4; ++i) {
            C x = places[i];
            bool is_near = i == 1 || i == 2;
            taps.weight[i] = is_near ? ((a + (C)2) * x - (a + (C)3)) * x * x + (C)1
                                     : ((a * x - (C)5 * a) * x + (C)8 * a) * x - (C)4 * a;
            taps.at[i] = index_of(inside(first + (C)(i - 1), length), length);
        }
    }
    return taps;
}

extern "C" __global__ void grid_sample(const T* x, Strides sx, const T* grid, Strides sg, T* y, Strides sy, Shape out, Shape in,
                                       i64 count) {
    for (i64 i = FIRST; i < count; i += STEP) {
        i64 rest = i, at[5], to = 0;
        for (int axis = 4; axis >= 0; --axis) {
            at[axis] = rest % out.dims[axis];
            rest /= out.dims[axis];
            to += at[axis] * sy.by[axis];
        }
        const T* coordinates = grid + at[0] * sg.by[0] + at[2] * sg.by[1] + at[3] * sg.by[2] + at[4] * sg.by[3];
        Taps taps[3];
        for (int axis = 0; axis < 3; ++axis) {
            bool has_one = axis >= 3 - AXES;
            taps[axis] = has_one ? taps_of(load<C>(coordinates[(2 - axis) * sg.by[4]]), in.dims[axis]) : Taps{1, {0}, {(C)1}};
        }
        const T* from = x + at[0] * sx.by[0] + at[1] * sx.by[1];
        C sum = 0;
        for (int d = 0; d < taps[0].count; ++d) {
            for (int h = 0; h < taps[1].count; ++h) {
                for (int w = 0; w < taps[2].count; ++w) {
                    int place[3] = {taps[0].at[d], taps[1].at[h], taps[2].at[w]};
                    if (place[0] < 0 || place[1] < 0 || place[2] < 0) continue;
                    C weight = taps[0].weight[d] * taps[1].weight[h] * taps[2].weight[w];
                    sum += weight * load<C>(from[place[0] * sx.by[2] + place[1] * sx.by[3] + place[2] * sx.by[4]]);
                }
            }
        }
        store<C>(y[to], sum);
    }
}
