// The largest or smallest number of each row and the place where it stands first; NaN wins over all. A block for each row.

#include "common.cuh"

#define THREADS 256

// Whether the first of two numbers and places comes before the second.
static __device__ inline bool wins(C a, i64 place_a, C b, i64 place_b) {
    if (place_a < 0 || place_b < 0) return place_b < 0;
    bool is_nan = a != a, other_is_nan = b != b;
    if (is_nan != other_is_nan) return is_nan;
    if (is_nan || a == b) return place_a < place_b;
    return LARGEST ? a > b : a < b;
}

extern "C" __global__ void extremes(const T* x, Strides x_outer, Strides x_row, T* y, Strides y_outer, i64* places, Strides p_outer,
                                    Shape outer, Shape row, i64 rows, i64 length) {
    __shared__ C numbers[THREADS];
    __shared__ i64 found[THREADS];
    int thread = threadIdx.x;
    for (i64 at = blockIdx.x; at < rows; at += gridDim.x) {
        const T* from = x + offset(at, outer, x_outer);
        C best = 0;
        i64 place = -1;
        for (i64 i = thread; i < length; i += blockDim.x) {
            C number = load<C>(from[offset(i, row, x_row)]);
            if (wins(number, i, best, place)) {
                best = number;
                place = i;
            }
        }
        numbers[thread] = best;
        found[thread] = place;
        __syncthreads();
        for (int half = THREADS / 2; half > 0; half /= 2) {
            if (thread < half && thread + half < blockDim.x && wins(numbers[thread + half], found[thread + half], numbers[thread], found[thread])) {
                numbers[thread] = numbers[thread + half];
                found[thread] = found[thread + half];
            }
            __syncthreads();
        }
        if (thread == 0) {
            if (y) store<C>(y[offset(at, outer, y_outer)], numbers[0]);
            if (places) places[offset(at, outer, p_outer)] = found[0];
        }
        __syncthreads();
    }
}
