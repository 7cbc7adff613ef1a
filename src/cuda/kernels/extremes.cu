// The maximum or minimum of each row, and the index of its first occurrence. NaN takes precedence. One block per row.

#include "common.cuh"

#define THREADS 256

// Returns true if value a takes precedence over value b; negative indices mark missing values.
static __device__ inline bool precedes(C a, i64 index_a, C b, i64 index_b) {
    if (index_a < 0 || index_b < 0) return index_b < 0;
    bool is_nan = a != a, other_is_nan = b != b;
    if (is_nan != other_is_nan) return is_nan;
    if (is_nan || a == b) return index_a < index_b;
    return LARGEST ? a > b : a < b;
}

extern "C" __global__ void extremes(const T* x, Strides x_outer, Strides x_row, T* y, Strides y_outer, i64* indices, Strides i_outer,
                                    Shape outer, Shape row, i64 rows, i64 length) {
    __shared__ C values[THREADS];
    __shared__ i64 positions[THREADS];
    int thread = threadIdx.x;
    for (i64 at = blockIdx.x; at < rows; at += gridDim.x) {
        const T* from = x + offset(at, outer, x_outer);
        C best = 0;
        i64 index = -1;
        for (i64 i = thread; i < length; i += blockDim.x) {
            C value = load<C>(from[offset(i, row, x_row)]);
            if (precedes(value, i, best, index)) {
                best = value;
                index = i;
            }
        }
        values[thread] = best;
        positions[thread] = index;
        __syncthreads();
        for (int half = THREADS / 2; half > 0; half /= 2) {
            if (thread < half && thread + half < blockDim.x &&
                precedes(values[thread + half], positions[thread + half], values[thread], positions[thread])) {
                values[thread] = values[thread + half];
                positions[thread] = positions[thread + half];
            }
            __syncthreads();
        }
        if (thread == 0) {
            if (y) store<C>(y[offset(at, outer, y_outer)], values[0]);
            if (indices) indices[offset(at, outer, i_outer)] = positions[0];
        }
        __syncthreads();
    }
}
