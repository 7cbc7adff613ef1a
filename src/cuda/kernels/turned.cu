// Elements from where they lie side by side along one axis to where they do along another. A block turns tiles of TILE by TILE
// elements in shared memory, so that neighbouring threads read neighbours and write neighbours.
//
// Beside the axes of `outer` there are two: x has `length_x` neighbours along the one and steps by `x_by` along the other, y has
// `length_y` neighbours along the other and steps by `y_by` along the one.

#include "common.cuh"

// Threads along a line of a tile, and the lines that a block reads or writes at a time.
#define LINE 32
#define LINES 8

extern "C" __global__ void turned(const T* x, Strides x_outer, i64 x_by, T* y, Strides y_outer, i64 y_by, Shape outer, int length_x,
                                  int length_y, i64 tiles) {
    // A column more, so that elements of one column lie in different banks.
    __shared__ T tile[TILE][TILE + 1];
    int lane = threadIdx.x % LINE, line = threadIdx.x / LINE;
    int tiles_x = (length_x + TILE - 1) / TILE, tiles_y = (length_y + TILE - 1) / TILE;
    for (i64 at = blockIdx.x; at < tiles; at += gridDim.x) {
        i64 rest = at / tiles_x, place = rest / tiles_y;
        int first_x = (int)(at - rest * tiles_x) * TILE, first_y = (int)(rest - place * tiles_y) * TILE;
        const T* from = x + offset(place, outer, x_outer);
        T* to = y + offset(place, outer, y_outer);
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
