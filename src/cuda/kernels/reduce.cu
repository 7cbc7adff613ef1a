// Reduces each row to one element. MAP transforms an element `v`, COMBINE<A> is the reduction operator, START its initial
// value, and FINISH transforms the result `value`.
//
// With CENTRE, `centre` is computed first and available to MAP and FINISH: the mean, or the maximum if it is finite (0 otherwise).
// Elements are rounded to type S first. A is the type of the accumulator, which may be the widest: the kernel is bound by
// memory, not arithmetic.

#include "common.cuh"
#include "functions.cuh"
#include "blocks.cuh"
#include "chunks.cuh"
#include "rows.cuh"

#define MEAN 1
#define LARGEST 2

struct Convert {
    __device__ inline C operator()(const X& x) const { return as_stored<S>(load<C>(x)); }
};

extern "C" __global__ void reduce(const X* x, Strides x_outer, Strides x_row, T* y, Strides y_outer, Shape outer, Shape row, i64 rows,
                                  i64 length, double number) {
    for (i64 at = FIRST_ROW; at < rows; at += ROW_STRIDE) {
        Row<C, X, Convert> elements(x + offset(at, outer, x_outer), row, x_row, length);
        C centre = 0;
        if (CENTRE == MEAN) {
            A sum = 0;
            elements.for_each([&](C v) { sum += v; });
            centre = (C)(row_reduce(sum, Sum<A>()) / (A)length);
        }
        if (CENTRE == LARGEST) {
            centre = -(C)INFINITY;
            elements.for_each([&](C v) { centre = Max<C>()(centre, v); });
            centre = row_reduce(centre, Max<C>());
            if (isinf((double)centre)) centre = 0;
        }
        A value = START;
        elements.for_each([&](C v) { value = COMBINE<A>()(value, (A)(MAP)); });
        value = row_reduce(value, COMBINE<A>());
        if (ROW_LANE == 0) store<C>(y[offset(at, outer, y_outer)], (C)(FINISH));
    }
}
