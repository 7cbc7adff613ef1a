// Sorts rows stably, and writes `kept` sorted elements from position `first` on, and their indices. A block sorts a row in
// shared memory with a bitonic network (Batcher 1968) of CAPACITY elements. NaN is greater than all other values.

#include "common.cuh"

static __device__ inline bool precedes(C a, int index_a, C b, int index_b, int length) {
    if (index_a >= length || index_b >= length) return index_a < index_b;
    bool is_nan = a != a, other_is_nan = b != b;
    if (is_nan != other_is_nan) return is_nan == DESCENDING;
    if (is_nan || a == b) return index_a < index_b;
    return DESCENDING ? a > b : a < b;
}

extern "C" __global__ void sort(const T* x, Strides x_outer, i64 x_by, T* y, Strides y_outer, i64 y_by, i64* indices, Strides i_outer,
                                i64 i_by, Shape outer, i64 rows, int length, int first, int kept) {
    __shared__ C values[CAPACITY];
    __shared__ int positions[CAPACITY];
    for (i64 row = blockIdx.x; row < rows; row += gridDim.x) {
        const T* from = x + offset(row, outer, x_outer);
        for (int i = threadIdx.x; i < CAPACITY; i += blockDim.x) {
            values[i] = i < length ? load<C>(from[i * x_by]) : (C)0;
            positions[i] = i;
        }
        __syncthreads();
        for (int size = 2; size <= CAPACITY; size *= 2) {
            for (int step = size / 2; step > 0; step /= 2) {
                for (int i = threadIdx.x; i < CAPACITY / 2; i += blockDim.x) {
                    int a = i / step * 2 * step + i % step, b = a + step;
                    bool is_up = (a & size) == 0;
                    bool is_late = precedes(values[b], positions[b], values[a], positions[a], length);
                    if (is_late == is_up) {
                        C value = values[a];
                        int position = positions[a];
                        values[a] = values[b];
                        positions[a] = positions[b];
                        values[b] = value;
                        positions[b] = position;
                    }
                }
                __syncthreads();
            }
        }
        for (int i = threadIdx.x; i < kept; i += blockDim.x) {
            if (y) store<C>(y[offset(row, outer, y_outer) + i * y_by], values[first + i]);
            if (indices) indices[offset(row, outer, i_outer) + i * i_by] = positions[first + i];
        }
        __syncthreads();
    }
}
