// Normalises rows: subtracts the mean and divides by the standard deviation, or divides by the root mean square.
//
// The weight and the bias of element i of row r are at r % period * channels + i / inner.

#include "common.cuh"
#include "blocks.cuh"
#include "chunks.cuh"
#include "rows.cuh"

struct Load {
    __device__ inline C operator()(const T& x) const { return load<C>(x); }
};

extern "C" __global__ void normalize(const T* x, Strides x_outer, Strides x_row, T* y, Strides y_outer, Strides y_row, Shape outer,
                                     Shape row, i64 rows, i64 length, const W* weight, const V* bias, i64 period, i64 channels,
                                     i64 inner, double eps) {
    // The elements of a chunk share a weight, or have one each.
    bool is_shared = inner != 1;
    for (i64 at = FIRST_ROW; at < rows; at += ROW_STRIDE) {
        T* to = y + offset(at, outer, y_outer);
        Row<C, T, Load> elements(x + offset(at, outer, x_outer), row, x_row, length);
        C mean = 0;
        if (CENTRED) {
            elements.for_each([&](C x) { mean += x; });
            mean = row_reduce(mean, Sum<C>()) / (C)length;
        }
        C squares = 0;
        elements.for_each([&](C x) { squares += (x - mean) * (x - mean); });
        C scale = (C)1 / sqrt(row_reduce(squares, Sum<C>()) / (C)length + (C)eps);
        i64 first_channel = period == 1 ? 0 : at % period * channels;
        elements.for_each_chunk([&](C(&values)[CHUNK], i64 i) {
            i64 channel = first_channel + (is_shared ? i / inner : i);
            Chunk<T, CHUNK> result;
            Chunk<W, CHUNK> factors;
            Chunk<V, CHUNK> summands;
            if (weight) factors = load_chunk<CHUNK>(weight + channel, is_shared);
            if (bias) summands = load_chunk<CHUNK>(bias + channel, is_shared);
#pragma unroll
            for (int k = 0; k < CHUNK; ++k) {
                C value = (values[k] - mean) * scale;
                if (weight) value *= load<C>(factors.at[k]);
                if (bias) value += load<C>(summands.at[k]);
                store<C>(result.at[k], value);
            }
            store_chunk(to + row_offset(i, row, y_row), result);
        });
    }
}
