// Softmax and its relatives of rows: SIGN is -1 for softmin, LOGARITHM 1 for log-softmax.

#include "common.cuh"
#include "blocks.cuh"
#include "chunks.cuh"
#include "rows.cuh"

struct Signed {
    __device__ inline C operator()(const X& x) const { return SIGN * as_stored<T>(load<C>(x)); }
};

extern "C" __global__ void softmax(const X* x, Strides x_outer, Strides x_row, T* y, Strides y_outer, Strides y_row, Shape outer,
                                   Shape row, i64 rows, i64 length) {
    for (i64 at = FIRST_ROW; at < rows; at += ROW_STEP) {
        T* to = y + offset(at, outer, y_outer);
        Row<C, X, Signed> numbers(x + offset(at, outer, x_outer), row, x_row, length);
        C largest = -INFINITY;
        numbers.each([&](C number) { largest = Greater<C>()(largest, number); });
        largest = together(largest, Greater<C>());
        C sum = 0;
        numbers.each([&](C& number) {
            number -= largest;
            C power = exp(number);
            sum += power;
            // Powers are kept, as far as anything is.
            if (!LOGARITHM) number = power;
        });
        sum = together(sum, Sum<C>());
        C scale = LOGARITHM ? log(sum) : (C)1 / sum;
        numbers.each_chunk([&](C(&values)[CHUNK], i64 i) {
            Chunk<T, CHUNK> made;
#pragma unroll
            for (int k = 0; k < CHUNK; ++k) {
                C value = KEPT > 0 ? values[k] : LOGARITHM ? values[k] - largest : exp(values[k] - largest);
                store<C>(made.at[k], LOGARITHM ? value - scale : value * scale);
            }
            put_chunk(to + place_in(i, row, y_row), made);
        });
    }
}
