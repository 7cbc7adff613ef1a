// Softmax and its relatives of rows, a block for each: SIGN is -1 for softmin, LOGARITHM 1 for log-softmax.

#include "common.cuh"
#include "blocks.cuh"

extern "C" __global__ void softmax(const X* x, Strides x_outer, Strides x_row, T* y, Strides y_outer, Strides y_row, Shape outer,
                                   Shape row, i64 rows, i64 length) {
    for (i64 at = blockIdx.x; at < rows; at += gridDim.x) {
        const X* from = x + offset(at, outer, x_outer);
        T* to = y + offset(at, outer, y_outer);
        C largest = -INFINITY;
        for (i64 i = threadIdx.x; i < length; i += blockDim.x) {
            C value = SIGN * as_stored<T>(load<C>(from[offset(i, row, x_row)]));
            largest = Greater<C>()(largest, value);
        }
        largest = block_combine(largest, Greater<C>());
        C sum = 0;
        for (i64 i = threadIdx.x; i < length; i += blockDim.x) {
            sum += exp(SIGN * as_stored<T>(load<C>(from[offset(i, row, x_row)])) - largest);
        }
        sum = block_combine(sum, Sum<C>());
        C scale = LOGARITHM ? log(sum) : (C)1 / sum;
        for (i64 i = threadIdx.x; i < length; i += blockDim.x) {
            C value = SIGN * as_stored<T>(load<C>(from[offset(i, row, x_row)])) - largest;
            store<C>(to[offset(i, row, y_row)], LOGARITHM ? value - scale : exp(value) * scale);
        }
        __syncthreads();
    }
}
