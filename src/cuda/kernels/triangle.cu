// Triangles of matrices, and zeros, whatever the elements are: T has as many bytes.

#include "common.cuh"

// The elements at most `diagonal` places right of the main diagonal where UPPER is 0, at least so many where it is 1; else zero. The
// last two axes are those of matrices.
extern "C" __global__ void triangle(const T* x, Strides sx, T* y, Strides sy, Shape shape, i64 diagonal, i64 rows, i64 columns, i64 count) {
    for (i64 i = FIRST; i < count; i += STEP) {
        i64 line = i / columns, distance = i - line * columns - line % rows;
        bool is_kept = UPPER ? distance >= diagonal : distance <= diagonal;
        y[offset(i, shape, sy)] = is_kept ? x[offset(i, shape, sx)] : T();
    }
}

extern "C" __global__ void zeroed(T* y, Strides sy, Shape shape, i64 count) {
    for (i64 i = FIRST; i < count; i += STEP) y[offset(i, shape, sy)] = T();
}
