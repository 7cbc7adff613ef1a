// Rows reduced to one number each: MAP says what a number `v` adds, COMBINE<A> how two of them become one, from START on, and
// FINISH what becomes of the `value` in the end.
//
// With CENTRE, `centre` is known when numbers are mapped: the mean, or the largest number if it is finite. S is the type that
// numbers are converted to first, A the one that they are added up in: memory is slower than any adder, so that it may be the
// widest.

#include "common.cuh"
#include "functions.cuh"
#include "blocks.cuh"
#include "chunks.cuh"
#include "rows.cuh"

#define MEAN 1
#define LARGEST 2

struct Converted {
    __device__ inline C operator()(const X& x) const { return as_stored<S>(load<C>(x)); }
};

extern "C" __global__ void reduce(const X* x, Strides x_outer, Strides x_row, T* y, Strides y_outer, Shape outer, Shape row, i64 rows,
                                  i64 length, double number) {
    for (i64 at = FIRST_ROW; at < rows; at += ROW_STEP) {
        Row<C, X, Converted> numbers(x + offset(at, outer, x_outer), row, x_row, length);
        C centre = 0;
        if (CENTRE == MEAN) {
            A sum = 0;
            numbers.each([&](C v) { sum += v; });
            centre = (C)(together(sum, Sum<A>()) / (A)length);
        }
        if (CENTRE == LARGEST) {
            centre = -(C)INFINITY;
            numbers.each([&](C v) { centre = Greater<C>()(centre, v); });
            centre = together(centre, Greater<C>());
            if (isinf((double)centre)) centre = 0;
        }
        A value = START;
        numbers.each([&](C v) { value = COMBINE<A>()(value, (A)(MAP)); });
        value = together(value, COMBINE<A>());
        if (READER == 0) store<C>(y[offset(at, outer, y_outer)], (C)(FINISH));
    }
}
