// Elements from one place to another, whatever they are: T has as many bytes. CHUNK of them are moved at once, which are
// one and the same where x is ALONE.

#include "common.cuh"
#include "chunks.cuh"

extern "C" __global__ void copy_elements(const T* x, Strides from, T* y, Strides to, Shape shape, i64 count) {
    for (i64 i = FIRST * CHUNK; i < count; i += STEP * CHUNK) {
        put_chunk(y + offset(i, shape, to), chunk_at<CHUNK>(x + offset(i, shape, from), ALONE, count - i), count - i);
    }
}

// The same between tensors of different shapes: in row-major order of both.
extern "C" __global__ void copy_in_order(const T* x, Strides from, Shape in, T* y, Strides to, Shape out, i64 count) {
    for (i64 i = FIRST; i < count; i += STEP) {
        y[offset(i, out, to)] = x[offset(i, in, from)];
    }
}
