// Rows minus their mean over their deviation, or over their root mean square; a block for each row.
//
// Weight and bias of element i of row r stand at r % period * channels + i / inner.

#include "common.cuh"
#include "blocks.cuh"

extern "C" __global__ void normalize(const T* x, Strides x_outer, Strides x_row, T* y, Strides y_outer, Strides y_row, Shape outer,
                                     Shape row, i64 rows, i64 length, const W* weight, const V* bias, i64 period, i64 channels,
                                     i64 inner, double eps) {
    for (i64 at = blockIdx.x; at < rows; at += gridDim.x) {
        const T* from = x + offset(at, outer, x_outer);
        T* to = y + offset(at, outer, y_outer);
        C mean = 0;
        if (CENTRED) {
            for (i64 i = threadIdx.x; i < length; i += blockDim.x) mean += load<C>(from[offset(i, row, x_row)]);
            mean = block_combine(mean, Sum<C>()) / (C)length;
        }
        C squares = 0;
        for (i64 i = threadIdx.x; i < length; i += blockDim.x) {
            C deviation = load<C>(from[offset(i, row, x_row)]) - mean;
            squares += deviation * deviation;
        }
        C scale = (C)1 / sqrt(block_combine(squares, Sum<C>()) / (C)length + (C)eps);
        for (i64 i = threadIdx.x; i < length; i += blockDim.x) {
            C value = (load<C>(from[offset(i, row, x_row)]) - mean) * scale;
            i64 channel = at % period * channels + i / inner;
            if (weight) value *= load<C>(weight[channel]);
            if (bias) value += load<C>(bias[channel]);
            store<C>(to[offset(i, row, y_row)], value);
        }
        __syncthreads();
    }
}
