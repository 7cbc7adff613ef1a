// Rows minus their mean over their deviation, or over their root mean square.
//
// Weight and bias of element i of row r stand at r % period * channels + i / inner.

#include "common.cuh"
#include "blocks.cuh"
#include "chunks.cuh"
#include "rows.cuh"

struct AsNumber {
    __device__ inline C operator()(const T& x) const { return load<C>(x); }
};

extern "C" __global__ void normalize(const T* x, Strides x_outer, Strides x_row, T* y, Strides y_outer, Strides y_row, Shape outer,
                                     Shape row, i64 rows, i64 length, const W* weight, const V* bias, i64 period, i64 channels,
                                     i64 inner, double eps) {
    // Elements of a chunk have a weight each, or one in common.
    bool is_common = inner != 1;
    for (i64 at = FIRST_ROW; at < rows; at += ROW_STEP) {
        T* to = y + offset(at, outer, y_outer);
        Row<C, T, AsNumber> numbers(x + offset(at, outer, x_outer), row, x_row, length);
        C mean = 0;
        if (CENTRED) {
            numbers.each([&](C number) { mean += number; });
            mean = together(mean, Sum<C>()) / (C)length;
        }
        C squares = 0;
        numbers.each([&](C number) { squares += (number - mean) * (number - mean); });
        C scale = (C)1 / sqrt(together(squares, Sum<C>()) / (C)length + (C)eps);
        i64 first_channel = period == 1 ? 0 : at % period * channels;
        numbers.each_chunk([&](C(&values)[CHUNK], i64 i) {
            i64 channel = first_channel + (is_common ? i / inner : i);
            Chunk<T, CHUNK> made;
            Chunk<W, CHUNK> factors;
            Chunk<V, CHUNK> summands;
            if (weight) factors = chunk_at<CHUNK>(weight + channel, is_common);
            if (bias) summands = chunk_at<CHUNK>(bias + channel, is_common);
#pragma unroll
            for (int k = 0; k < CHUNK; ++k) {
                C value = (values[k] - mean) * scale;
                if (weight) value *= load<C>(factors.at[k]);
                if (bias) value += load<C>(summands.at[k]);
                store<C>(made.at[k], value);
            }
            put_chunk(to + place_in(i, row, y_row), made);
        });
    }
}
