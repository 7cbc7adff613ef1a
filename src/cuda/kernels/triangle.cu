// Triangles of matrices, and tensors of zeros, for elements of any type: T is a type of the same size.

#include "common.cuh"

// Keeps the elements on and below the diagonal at offset `diagonal` from the main diagonal if UPPER is 0, and those on and
// above it if UPPER is 1; all others become zero. The last two axes are those of matrices.
extern "C" __global__ void triangle(const T* x, Strides sx, T* y, Strides sy, Shape shape, i64 diagonal, i64 rows, i64 columns,
                                    i64 count) {
    for (i64 i = GLOBAL_THREAD; i < count; i += GRID_STRIDE) {
        i64 line = i / columns, distance = i - line * columns - line % rows;
        bool is_kept = UPPER ? distance >= diagonal : distance <= diagonal;
        y[offset(i, shape, sy)] = is_kept ? x[offset(i, shape, sx)] : T();
    }
}

extern "C" __global__ void zero_fill(T* y, Strides sy, Shape shape, i64 count) {
    for (i64 i = GLOBAL_THREAD; i < count; i += GRID_STRIDE) y[offset(i, shape, sy)] = T();
}
