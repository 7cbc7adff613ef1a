// Pooling over one to three axes: the maximum, the mean or a norm of each window.
//
// A thread computes the windows of CHUNK adjacent channels at a position, which it reads as one word. SHARES adjacent threads
// divide the positions of large windows among them.
//
// `out` has the lengths N, C / CHUNK, D, H, W. With ADAPTIVE, the window of output i of P along an axis of length L is
// floor(i·L/P) to ceil((i+1)·L/P): windows may overlap. KIND is MAX, MEAN or NORM. DIVISOR is EXCLUDE_PADDING, INCLUDE_PADDING or
// FIXED_DIVISOR, and applies to means. With INDICES, SHARES is 1.

#include "common.cuh"
#include "blocks.cuh"
#include "chunks.cuh"
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

// The part of a window that is within the input, and its numbers of positions with and without padding.
struct Window {
    int first[3], end[3], step[3];
    i64 positions, elements;
};

static __device__ inline Window window_at(const int (&at)[5], const Shape& out, const Shape& in, const Shape& window,
                                          const Shape& stride, const Shape& before, const Shape& after, const Shape& dilation) {
    Window it;
    it.positions = it.elements = 1;
#pragma unroll
    for (int axis = 0; axis < 3; ++axis) {
        i64 length = in.dims[axis], position = at[2 + axis], step = dilation.dims[axis], first, end;
        if (ADAPTIVE) {
            int parts = out.dims[2 + axis];
            first = position * length;
            end = first + length + parts - 1;
            // `pop_innermost` avoids slow 64-bit divisions where it can.
            pop_innermost(first, parts);
            pop_innermost(end, parts);
        } else {
            first = position * stride.dims[axis] - before.dims[axis];
            end = first + (window.dims[axis] - 1) * step + 1;
        }
        i64 padded = end < length + after.dims[axis] ? end : length + after.dims[axis];
        it.positions *= padded - first;
        while (first < 0) first += step;
        end = end < length ? end : length;
        it.elements *= end - first;
        it.first[axis] = (int)first;
        it.end[axis] = (int)end;
        it.step[axis] = (int)step;
    }
    return it;
}

// Calls `use` with the coordinates of this thread's positions of a window, in order. They have 64 bits, since a step may be so
// large that the one after the last has more than 31.
template <class Use>
static __device__ inline void for_each_position(const Window& window, Use use) {
    const int(&first)[3] = window.first, (&end)[3] = window.end, (&step)[3] = window.step;
    if (SHARES == 1) {
        for (i64 d = first[0]; d < end[0]; d += step[0]) {
            for (i64 h = first[1]; h < end[1]; h += step[1]) {
                for (i64 w = first[2]; w < end[2]; w += step[2]) use(d, h, w);
            }
        }
        return;
    }
    if (first[1] >= end[1] || first[2] >= end[2]) return;
    // What a coordinate exceeds the last one by is carried to the next axis.
    i64 height = (i64)((end[1] - first[1] - 1) / step[1] + 1) * step[1], width = (i64)((end[2] - first[2] - 1) / step[2] + 1) * step[2];
    i64 d = first[0], h = first[1], w = first[2] + (i64)(threadIdx.x % SHARES) * step[2];
    while (true) {
        for (; w >= end[2]; w -= width) h += step[1];
        for (; h >= end[1]; h -= height) d += step[0];
        if (d >= end[0]) return;
        use(d, h, w);
        w += (i64)SHARES * step[2];
    }
}

extern "C" __global__ void pooling(const T* x, Strides sx, T* y, Strides sy, i64* indices, Strides si, Shape out, Shape in, Shape window,
                                   Shape stride, Shape before, Shape after, Shape dilation, i64 count, double number, i64 window_size) {
    // All threads of a warp continue as long as any has a window, since they exchange values.
    int ahead = threadIdx.x % WARP / SHARES;
    for (i64 i = GLOBAL_THREAD / SHARES; i - ahead < count; i += GRID_STRIDE / SHARES) {
        int at[5];
        output_coordinates(i < count ? i : count - 1, out, at);
        at[1] *= CHUNK;
        Window it = window_at(at, out, in, window, stride, before, after, dilation);
        const T* from = x + at[0] * sx.by[0] + at[1] * sx.by[1];
        C values[CHUNK];
        Chunk<i64, CHUNK> sources;
#pragma unroll
        for (int k = 0; k < CHUNK; ++k) {
            values[k] = KIND == MAX ? LOWEST : (C)0;
            sources.at[k] = ((i64)it.first[0] * in.dims[1] + it.first[1]) * in.dims[2] + it.first[2];
        }
        for_each_position(it, [&](i64 d, i64 h, i64 w) {
            Chunk<T, CHUNK> chunk = load_chunk<CHUNK>(from + d * sx.by[2] + h * sx.by[3] + w * sx.by[4]);
#pragma unroll
            for (int k = 0; k < CHUNK; ++k) {
                C next = load<C>(chunk.at[k]);
                if (KIND == NORM) next = INFINITY_NORM ? (next < (C)0 ? -next : next) : power(next, (C)number);
                if (KIND == MAX || INFINITY_NORM) {
                    if (next > values[k] || next != next) {
                        values[k] = next;
                        sources.at[k] = (d * in.dims[1] + h) * in.dims[2] + w;
                    }
                } else {
                    values[k] += next;
                }
            }
        });
        Chunk<T, CHUNK> results;
#pragma unroll
        for (int k = 0; k < CHUNK; ++k) {
            C value = values[k];
            if (SHARES > 1) {
                value = KIND == MAX || INFINITY_NORM ? warp_reduce<SHARES>(value, Max<C>()) : warp_reduce<SHARES>(value, Sum<C>());
            }
            if (KIND == MEAN) value /= DIVISOR == FIXED_DIVISOR ? (C)number : (C)(DIVISOR == INCLUDE_PADDING ? it.positions : it.elements);
            // As in PyTorch, the norm of a window that is partly outside is scaled up to a full window.
            if (KIND == NORM && !INFINITY_NORM) value = power(value / (C)it.positions * (C)window_size, (C)(1 / number));
            store<C>(results.at[k], value);
        }
        if (i >= count || threadIdx.x % SHARES != 0) continue;
        i64 to = 0, to_index = 0;
#pragma unroll
        for (int axis = 0; axis < 5; ++axis) {
            to += at[axis] * sy.by[axis];
            to_index += at[axis] * si.by[axis];
        }
        store_chunk(y + to, results);
        if (INDICES) store_chunk(indices + to_index, sources);
    }
}
