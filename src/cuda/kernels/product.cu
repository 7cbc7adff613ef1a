// Batched matrix products: y = alpha a b + beta c, followed by the epilogue.
//
// A block computes a tile of 64 by 64 sums, of which each thread holds 4 by 4 in registers. The factors are staged in shared
// memory, 16 columns of a and 16 rows of b at a time. A_K_MAJOR and B_K_MAJOR are set if a factor is contiguous along the
// depth: adjacent threads then read along it. Strides are those of the batch axes, and at [6] and [7] those of rows and
// columns.

#include "common.cuh"
#include "functions.cuh"

#define TILE 64
#define DEPTH 16
#define THREAD_TILE 4

extern "C" __global__ void product(EPILOGUE_PARAMETERS const A* a, Strides sa, const B* b, Strides sb, const D* c, Strides sc,
                                   T* y, Strides sy, Shape batch, i64 batches, int rows, int columns, int depth, double alpha,
                                   double beta) {
    __shared__ C left[DEPTH][TILE + 1];
    __shared__ C right[DEPTH][TILE + 1];
    int thread = threadIdx.x, lane_x = thread % 16, lane_y = thread / 16;
    int first_column = blockIdx.x * TILE;
    for (i64 at = blockIdx.z; at < batches; at += gridDim.z) {
        const A* a_at = a + offset(at, batch, sa);
        const B* b_at = b + offset(at, batch, sb);
        for (int first_row = blockIdx.y * TILE; first_row < rows; first_row += gridDim.y * TILE) {
            C sums[THREAD_TILE][THREAD_TILE] = {};
            for (int first = 0; first < depth; first += DEPTH) {
                for (int i = thread; i < TILE * DEPTH; i += 256) {
                    int k = A_K_MAJOR ? i % DEPTH : i / TILE, row = A_K_MAJOR ? i / DEPTH : i % TILE;
                    bool is_inside = first_row + row < rows && first + k < depth;
                    left[k][row] = is_inside ? load<C>(a_at[(i64)(first_row + row) * sa.by[6] + (i64)(first + k) * sa.by[7]]) : (C)0;
                }
                for (int i = thread; i < TILE * DEPTH; i += 256) {
                    int k = B_K_MAJOR ? i % DEPTH : i / TILE, column = B_K_MAJOR ? i / DEPTH : i % TILE;
                    bool is_inside = first_column + column < columns && first + k < depth;
                    right[k][column] =
                        is_inside ? load<C>(b_at[(i64)(first + k) * sb.by[6] + (i64)(first_column + column) * sb.by[7]]) : (C)0;
                }
                __syncthreads();
                for (int k = 0; k < DEPTH; ++k) {
                    C x[THREAD_TILE], w[THREAD_TILE];
                    for (int i = 0; i < THREAD_TILE; ++i) x[i] = left[k][lane_y + 16 * i];
                    for (int j = 0; j < THREAD_TILE; ++j) w[j] = right[k][lane_x + 16 * j];
                    for (int i = 0; i < THREAD_TILE; ++i) {
                        for (int j = 0; j < THREAD_TILE; ++j) sums[i][j] += x[i] * w[j];
                    }
                }
                __syncthreads();
            }
            for (int i = 0; i < THREAD_TILE; ++i) {
                for (int j = 0; j < THREAD_TILE; ++j) {
                    i64 row = first_row + lane_y + 16 * i, column = first_column + lane_x + 16 * j;
                    if (row >= rows || column >= columns) continue;
                    C value = SCALED ? (C)alpha * sums[i][j] : sums[i][j];
                    if (ADDED) {
                        C added = load<C>(c[offset(at, batch, sc) + row * sc.by[6] + column * sc.by[7]]);
                        value += SCALED ? (C)beta * added : added;
                    }
                    i64 index = (at * rows + row) * columns + column;
                    (void)index;
                    EPILOGUE;
                    store<C>(y[offset(at, batch, sy) + row * sy.by[6] + column * sy.by[7]], value);
                }
            }
        }
    }
}
