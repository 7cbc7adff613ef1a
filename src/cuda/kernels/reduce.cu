// Rows reduced to one number each: MAP says what a number `v` adds, COMBINE<A> how two of them become one, from START on, and
// FINISH what becomes of the `value` in the end.
//
// With BY_BLOCK a block works on each row, otherwise a thread, where rows lie side by side. With CENTRE, `centre` is known when
// numbers are mapped: the mean, or the largest number if it is finite. S is the type that numbers are converted to first, A the
// one that they are added up in: memory is slower than any adder, so that it may be the widest.

#include "common.cuh"
#include "functions.cuh"
#include "blocks.cuh"

#define MEAN 1
#define LARGEST 2

template <class Number, class Combine>
static __device__ inline Number together(Number value, Combine combine) {
    return BY_BLOCK ? block_combine(value, combine) : value;
}

extern "C" __global__ void reduce(const X* x, Strides x_outer, Strides x_row, T* y, Strides y_outer, Shape outer, Shape row, i64 rows,
                                  i64 length, double number) {
    i64 first = BY_BLOCK ? threadIdx.x : 0, step = BY_BLOCK ? blockDim.x : 1;
    for (i64 at = BY_BLOCK ? (i64)blockIdx.x : FIRST; at < rows; at += BY_BLOCK ? (i64)gridDim.x : STEP) {
        const X* from = x + offset(at, outer, x_outer);
        C centre = 0;
        if (CENTRE == MEAN) {
            A sum = 0;
            for (i64 i = first; i < length; i += step) sum += as_stored<S>(load<C>(from[offset(i, row, x_row)]));
            centre = (C)(together(sum, Sum<A>()) / (A)length);
        }
        if (CENTRE == LARGEST) {
            centre = -(C)INFINITY;
            for (i64 i = first; i < length; i += step) {
                centre = Greater<C>()(centre, as_stored<S>(load<C>(from[offset(i, row, x_row)])));
            }
            centre = together(centre, Greater<C>());
            if (isinf((double)centre)) centre = 0;
        }
        A value = START;
        for (i64 i = first; i < length; i += step) {
            C v = as_stored<S>(load<C>(from[offset(i, row, x_row)]));
            value = COMBINE<A>()(value, (A)(MAP));
        }
        value = together(value, COMBINE<A>());
        if (!BY_BLOCK || threadIdx.x == 0) store<C>(y[offset(at, outer, y_outer)], (C)(FINISH));
        if (BY_BLOCK) __syncthreads();
    }
}
