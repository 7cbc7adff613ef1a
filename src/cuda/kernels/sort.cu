// Rows in order, of which the first `kept` numbers and their places are written. A block sorts a row in shared memory (Batcher 1968);
// among equal numbers the first comes first, and NaN is greater than all others.

#include "common.cuh"

static __device__ inline bool comes_before(C a, int place_a, C b, int place_b, int length) {
    if (place_a >= length || place_b >= length) return place_a < place_b;
    bool is_nan = a != a, other_is_nan = b != b;
    if (is_nan != other_is_nan) return is_nan == DESCENDING;
    if (is_nan || a == b) return place_a < place_b;
    return DESCENDING ? a > b : a < b;
}

extern "C" __global__ void sort(const T* x, Strides x_outer, i64 x_by, T* y, Strides y_outer, i64 y_by, i64* places, Strides p_outer,
                                i64 p_by, Shape outer, i64 rows, int length, int first, int kept) {
    __shared__ C numbers[ROOM];
    __shared__ int found[ROOM];
    for (i64 row = blockIdx.x; row < rows; row += gridDim.x) {
        const T* from = x + offset(row, outer, x_outer);
        for (int i = threadIdx.x; i < ROOM; i += blockDim.x) {
            numbers[i] = i < length ? load<C>(from[i * x_by]) : (C)0;
            found[i] = i;
        }
        __syncthreads();
        for (int size = 2; size <= ROOM; size *= 2) {
            for (int step = size / 2; step > 0; step /= 2) {
                for (int i = threadIdx.x; i < ROOM / 2; i += blockDim.x) {
                    int a = i / step * 2 * step + i % step, b = a + step;
                    bool is_up = (a & size) == 0;
                    bool is_late = comes_before(numbers[b], found[b], numbers[a], found[a], length);
                    if (is_late == is_up) {
                        C number = numbers[a];
                        int place = found[a];
                        numbers[a] = numbers[b];
                        found[a] = found[b];
                        numbers[b] = number;
                        found[b] = place;
                    }
                }
                __syncthreads();
            }
        }
        for (int i = threadIdx.x; i < kept; i += blockDim.x) {
            if (y) store<C>(y[offset(row, outer, y_outer) + i * y_by], numbers[first + i]);
            if (places) places[offset(row, outer, p_outer) + i * p_by] = found[first + i];
        }
        __syncthreads();
    }
}
