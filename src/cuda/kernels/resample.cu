// Resampling over up to three axes: each output element is a weighted sum of up to four input elements along each axis. MODE is
// NEAREST, NEAREST_EXACT, LINEAR or CUBIC. Coordinates are computed in R, whose rounding decides which element is nearest.

#include "common.cuh"
#include "coordinates.cuh"

#define NEAREST 0
#define NEAREST_EXACT 1
#define LINEAR 2
#define CUBIC 3

struct Taps {
    int count, at[4];
    R weight[4];
};

static __device__ inline int clamp_index(R at, int length) {
    int index = at < (R)0 ? 0 : (int)at;
    return index < length ? index : length - 1;
}

static __device__ inline Taps taps_of(int position, int length, int outputs, R step, bool is_resampled) {
    Taps taps = {1, {position}, {(R)1}};
    if (!is_resampled) return taps;
    if (MODE == NEAREST) taps.at[0] = clamp_index(step * (R)position, length);
    if (MODE == NEAREST_EXACT) taps.at[0] = clamp_index(step * ((R)position + (R)0.5), length);
    R source = ALIGNED ? (outputs > 1 ? (R)position * step : (R)0) : step * ((R)position + (R)0.5) - (R)0.5;
    if (MODE == LINEAR && outputs != length) {
        source = source < (R)0 ? (R)0 : source;
        int first = clamp_index(source, length);
        R second = source - (R)first;
        second = second < (R)0 ? (R)0 : second > (R)1 ? (R)1 : second;
        taps.count = 2;
        taps.at[0] = first;
        taps.at[1] = first + 1 < length ? first + 1 : length - 1;
        taps.weight[0] = (R)1 - second;
        taps.weight[1] = second;
    }
    if (MODE == CUBIC) {
        R below = floor(source), t = source - below, a = (R)-0.75;
        R distances[4] = {t + (R)1, t, (R)1 - t, (R)2 - t};
        taps.count = 4;
        for (int i = 0; i < 4; ++i) {
            R x = distances[i];
            bool is_near = i == 1 || i == 2;
            taps.weight[i] = is_near ? ((a + (R)2) * x - (a + (R)3)) * x * x + (R)1
                                     : ((a * x - (R)5 * a) * x + (R)8 * a) * x - (R)4 * a;
            int at = (int)below - 1 + i;
            taps.at[i] = at < 0 ? 0 : at < length ? at : length - 1;
        }
    }
    return taps;
}

extern "C" __global__ void resample(const T* x, Strides sx, T* y, Strides sy, Shape out, Shape in, Shape resampled, i64 count,
                                    double step_0, double step_1, double step_2) {
    for (i64 i = GLOBAL_THREAD; i < count; i += GRID_STRIDE) {
        int at[5];
        output_coordinates(i, out, at);
        double steps[3] = {step_0, step_1, step_2};
        Taps taps[3];
        for (int axis = 0; axis < 3; ++axis) {
            taps[axis] = taps_of(at[2 + axis], in.dims[axis], out.dims[2 + axis], (R)steps[axis], resampled.dims[axis]);
        }
        const T* from = x + at[0] * sx.by[0] + at[1] * sx.by[1];
        i64 to = 0;
        for (int axis = 0; axis < 5; ++axis) to += at[axis] * sy.by[axis];
        if (MODE == NEAREST || MODE == NEAREST_EXACT) {
            y[to] = from[taps[0].at[0] * sx.by[2] + taps[1].at[0] * sx.by[3] + taps[2].at[0] * sx.by[4]];
            continue;
        }
        C value = 0;
        for (int d = 0; d < taps[0].count; ++d) {
            for (int h = 0; h < taps[1].count; ++h) {
                C row_sum = 0;
                for (int w = 0; w < taps[2].count; ++w) {
                    i64 source = taps[0].at[d] * sx.by[2] + taps[1].at[h] * sx.by[3] + taps[2].at[w] * sx.by[4];
                    row_sum += (C)taps[2].weight[w] * load<C>(from[source]);
                }
                value += (C)taps[0].weight[d] * (C)taps[1].weight[h] * row_sum;
            }
        }
        store<C>(y[to], value);
    }
}
