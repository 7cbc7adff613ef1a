// Softmax of rows. SIGN is -1 for softmin, and LOGARITHM is 1 for log-softmax.

#include "common.cuh"
#include "blocks.cuh"
#include "chunks.cuh"
#include "rows.cuh"

struct Signed {
    __device__ inline C operator()(const X& x) const { return SIGN * as_stored<T>(load<C>(x)); }
};

extern "C" __global__ void softmax(const X* x, Strides x_outer, Strides x_row, T* y, Strides y_outer, Strides y_row, Shape outer,
                                   Shape row, i64 rows, i64 length) {
    for (i64 at = FIRST_ROW; at < rows; at += ROW_STRIDE) {
        T* to = y + offset(at, outer, y_outer);
        Row<C, X, Signed> elements(x + offset(at, outer, x_outer), row, x_row, length);
        C maximum = -INFINITY;
        elements.for_each([&](C x) { maximum = Max<C>()(maximum, x); });
        maximum = row_reduce(maximum, Max<C>());
        C sum = 0;
        elements.for_each([&](C& x) {
            x -= maximum;
            C power = exp(x);
            sum += power;
            // Cached elements are replaced by their exponentials.
            if (!LOGARITHM) x = power;
        });
        sum = row_reduce(sum, Sum<C>());
        C scale = LOGARITHM ? log(sum) : (C)1 / sum;
        elements.for_each_chunk([&](C(&values)[CHUNK], i64 i) {
            Chunk<T, CHUNK> result;
#pragma unroll
            for (int k = 0; k < CHUNK; ++k) {
                C value = CACHED_CHUNKS > 0 ? values[k] : LOGARITHM ? values[k] - maximum : exp(values[k] - maximum);
                store<C>(result.at[k], LOGARITHM ? value - scale : value * scale);
            }
            store_chunk(to + row_offset(i, row, y_row), result);
        });
    }
}
