// Copies between tensors that are contiguous along different axes. A block transposes tiles of TILE by TILE elements in shared
// memory, so that both reads and writes are coalesced.
//
// In addition to the axes of `outer`, there are two: x is contiguous along the first, of length `length_x`, and has stride
// `x_by` along the second; y is contiguous along the second, of length `length_y`, and has stride `y_by` along the first.

#include "common.cuh"

// The number of threads along a line of a tile, and of lines that a block reads or writes at a time.
#define LINE 32
#define LINES 8

extern "C" __global__ void transpose(const T* x, Strides x_outer, i64 x_by, T* y, Strides y_outer, i64 y_by, Shape outer,
                                     int length_x, int length_y, i64 tiles) {
    // One column of padding, so that the elements of a column are in different banks.
    __shared__ T tile[TILE][TILE + 1];
    int lane = threadIdx.x % LINE, line = threadIdx.x / LINE;
    int tiles_x = (length_x + TILE - 1) / TILE, tiles_y = (length_y + TILE - 1) / TILE;
    for (i64 at = blockIdx.x; at < tiles; at += gridDim.x) {
        i64 rest = at / tiles_x, outer_index = rest / tiles_y;
        int first_x = (int)(at - rest * tiles_x) * TILE, first_y = (int)(rest - outer_index * tiles_y) * TILE;
        const T* from = x + offset(outer_index, outer, x_outer);
        T* to = y + offset(outer_index, outer, y_outer);
#pragma unroll
        for (int row = line; row < TILE; row += LINES) {
#pragma unroll
            for (int column = lane; column < TILE; column += LINE) {
                int along_x = first_x + column, along_y = first_y + row;
                if (along_x < length_x && along_y < length_y) tile[row][column] = from[along_x + along_y * x_by];
            }
        }
        __syncthreads();
#pragma unroll
        for (int row = line; row < TILE; row += LINES) {
#pragma unroll
            for (int column = lane; column < TILE; column += LINE) {
                int along_x = first_x + row, along_y = first_y + column;
                if (along_x < length_x && along_y < length_y) to[along_y + along_x * y_by] = tile[column][row];
            }
        }
        __syncthreads();
    }
}
