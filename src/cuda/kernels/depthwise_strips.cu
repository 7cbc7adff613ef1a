// Depthwise convolution over one or two axes, with a window that has no gaps along rows, and zero padding.
//
// As `depthwise.cu`, for tensors whose channels are adjacent, and groups of one channel. A thread computes CHUNK channels of
// COLUMNS adjacent positions of a row: it reads each of the INPUTS that they share, and each weight, only once. Adjacent threads
// have other channels, and then other rows, which share inputs in the cache of a multiprocessor. TAPS and STRIDE are those along
// rows.

#include "common.cuh"
#include "functions.cuh"
#include "chunks.cuh"

#define INPUTS ((COLUMNS - 1) * STRIDE + TAPS)

extern "C" __global__ void depthwise(EPILOGUE_PARAMETERS const T* x, const __grid_constant__ Strides sx, const W* w,
                                     const __grid_constant__ Strides sw, const V* bias, T* y, const __grid_constant__ Strides sy,
                                     const __grid_constant__ Shape out, const __grid_constant__ Shape in,
                                     const __grid_constant__ Shape taps, const __grid_constant__ Shape stride,
                                     const __grid_constant__ Shape pad, const __grid_constant__ Shape dilation, i64 count,
                                     int channels, int out_channels, int groups, i64 w_group) {
    int rows = out.dims[2], columns = out.dims[3], strips = (columns + COLUMNS - 1) / COLUMNS;
    i64 threads = (i64)out.dims[0] * strips * rows * (groups / CHUNK);
    for (i64 i = GLOBAL_THREAD; i < threads; i += GRID_STRIDE) {
        i64 n = i;
        int channel = (int)pop_innermost(n, groups / CHUNK) * CHUNK, row = (int)pop_innermost(n, rows);
        int column = (int)pop_innermost(n, strips) * COLUMNS, first = column * STRIDE - pad.dims[2];
        const T* x_at = x + n * sx.by[0] + channel + first * sx.by[4];
        C sums[COLUMNS][CHUNK] = {};
        for (int h = 0; h < taps.dims[1]; ++h) {
            int in_row = row * stride.dims[1] - pad.dims[1] + h * dilation.dims[1];
            if (in_row < 0 || in_row >= in.dims[1]) continue;
            const T* x_row = x_at + in_row * sx.by[3];
            const W* w_row = w + channel + h * sw.by[3];
            // All inputs are requested before any is used.
            Chunk<T, CHUNK> inputs[INPUTS];
            C weights[TAPS][CHUNK];
#pragma unroll
            for (int at = 0; at < INPUTS; ++at) {
                bool is_inside = first + at >= 0 && first + at < in.dims[2];
                if (is_inside) inputs[at] = load_chunk<CHUNK>(x_row + at * sx.by[4]);
            }
#pragma unroll
            for (int tap = 0; tap < TAPS; ++tap) {
                Chunk<W, CHUNK> loaded = load_chunk<CHUNK>(w_row + tap * sw.by[4]);
                for (int k = 0; k < CHUNK; ++k) weights[tap][k] = load<C>(loaded.at[k]);
            }
#pragma unroll
            for (int at = 0; at < INPUTS; ++at) {
                // Padding is skipped rather than multiplied, since weights may be infinite.
                bool is_inside = first + at >= 0 && first + at < in.dims[2];
                if (!is_inside) continue;
#pragma unroll
                for (int k = 0; k < CHUNK; ++k) {
                    C value = load<C>(inputs[at].at[k]);
#pragma unroll
                    for (int position = 0; position < COLUMNS; ++position) {
                        int tap = at - position * STRIDE;
                        if (tap >= 0 && tap < TAPS) sums[position][k] += value * weights[tap][k];
                    }
                }
            }
        }
        Chunk<V, CHUNK> biases;
        if (bias) biases = load_chunk<CHUNK>(bias + channel);
        T* y_at = y + n * sy.by[0] + channel + row * sy.by[3] + column * sy.by[4];
#pragma unroll
        for (int position = 0; position < COLUMNS; ++position) {
            if (column + position >= columns) break;
            Chunk<T, CHUNK> results;
#pragma unroll
            for (int k = 0; k < CHUNK; ++k) {
                i64 index = (((i64)n * groups + channel + k) * rows + row) * columns + column + position;
                (void)index;
                C value = sums[position][k] + (bias ? load<C>(biases.at[k]) : (C)0);
                EPILOGUE;
                store<C>(results.at[k], value);
            }
            store_chunk(y_at + position * sy.by[4], results);
        }
    }
}
