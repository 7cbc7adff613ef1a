// Pooling over one to three axes: the maximum, the mean or a norm of each window, with one thread per window.
//
// `out` has the lengths N, C, D, H, W. With ADAPTIVE, the window of output i of P along an axis of length L is floor(i·L/P) to
// ceil((i+1)·L/P): windows may overlap. KIND is MAX, MEAN or NORM. DIVISOR is EXCLUDE_PADDING, INCLUDE_PADDING or FIXED_DIVISOR, and applies to means.

#include "common.cuh"
#include "coordinates.cuh"

#define MAX 0
#define MEAN 1
#define NORM 2
#define EXCLUDE_PADDING 0
#define INCLUDE_PADDING 1
#define FIXED_DIVISOR 2

static __device__ inline C power(C x, C exponent) {
    return exponent == (C)1 ? x : exponent == (C)2 ? x * x : exponent == (C)0.5 ? (C)sqrt((double)x) : (C)pow((double)x, (double)exponent);
}

extern "C" __global__ void pooling(const T* x, Strides sx, T* y, Strides sy, i64* indices, Strides si, Shape out, Shape in, Shape window,
                                   Shape stride, Shape before, Shape after, Shape dilation, i64 count, double number, i64 window_size) {
    for (i64 i = GLOBAL_THREAD; i < count; i += GRID_STRIDE) {
        int at[5];
        output_coordinates(i, out, at);
        i64 first[3], end[3], step[3], positions = 1, elements = 1;
        for (int axis = 0; axis < 3; ++axis) {
            i64 length = in.dims[axis], position = at[2 + axis];
            step[axis] = dilation.dims[axis];
            if (ADAPTIVE) {
                i64 parts = out.dims[2 + axis];
                // `pop_innermost` avoids slow 64-bit divisions where it can.
                i64 from = position * length, to = from + length + parts - 1;
                pop_innermost(from, (int)parts);
                pop_innermost(to, (int)parts);
                first[axis] = from;
                end[axis] = to;
            } else {
                first[axis] = position * stride.dims[axis] - before.dims[axis];
                end[axis] = first[axis] + (i64)(window.dims[axis] - 1) * step[axis] + 1;
            }
            i64 padded = end[axis] < length + after.dims[axis] ? end[axis] : length + after.dims[axis];
            positions *= padded - first[axis];
            while (first[axis] < 0) first[axis] += step[axis];
            end[axis] = end[axis] < length ? end[axis] : length;
            elements *= end[axis] - first[axis];
        }
        const T* from = x + at[0] * sx.by[0] + at[1] * sx.by[1];
        C value = KIND == MAX ? LOWEST : (C)0;
        i64 index = (first[0] * in.dims[1] + first[1]) * in.dims[2] + first[2];
        for (i64 d = first[0]; d < end[0]; d += step[0]) {
            for (i64 h = first[1]; h < end[1]; h += step[1]) {
                for (i64 w = first[2]; w < end[2]; w += step[2]) {
                    C next = load<C>(from[d * sx.by[2] + h * sx.by[3] + w * sx.by[4]]);
                    if (KIND == NORM) next = INFINITY_NORM ? (next < (C)0 ? -next : next) : power(next, (C)number);
                    if (KIND == MAX || INFINITY_NORM) {
                        if (next > value || next != next) {
                            value = next;
                            index = (d * in.dims[1] + h) * in.dims[2] + w;
                        }
                    } else {
                        value += next;
                    }
                }
            }
        }
        if (KIND == MEAN) value /= DIVISOR == FIXED_DIVISOR ? (C)number : (C)(DIVISOR == INCLUDE_PADDING ? positions : elements);
        // As in PyTorch, the norm of a window that is partly outside is scaled up to a full window.
        if (KIND == NORM && !INFINITY_NORM) value = power(value / (C)positions * (C)window_size, (C)(1 / number));
        i64 to = 0, to_index = 0;
        for (int axis = 0; axis < 5; ++axis) {
            to += at[axis] * sy.by[axis];
            to_index += at[axis] * si.by[axis];
        }
        store<C>(y[to], value);
        if (INDICES) indices[to_index] = index;
    }
}
