// Copies of elements of any type: T is a type of the same size. A thread copies a chunk of CHUNK adjacent elements. With
// BROADCAST, x has one element for all of a chunk.

#include "common.cuh"
#include "chunks.cuh"

extern "C" __global__ void copy_elements(const T* x, Strides from, T* y, Strides to, Shape shape, i64 count) {
    for (i64 i = GLOBAL_THREAD * CHUNK; i < count; i += GRID_STRIDE * CHUNK) {
        store_chunk(y + offset(i, shape, to), load_chunk<CHUNK>(x + offset(i, shape, from), BROADCAST, count - i), count - i);
    }
}

// Copies between tensors of different shapes, in row-major order of both.
extern "C" __global__ void copy_in_order(const T* x, Strides from, Shape in, T* y, Strides to, Shape out, i64 count) {
    for (i64 i = GLOBAL_THREAD; i < count; i += GRID_STRIDE) {
        y[offset(i, out, to)] = x[offset(i, in, from)];
    }
}
