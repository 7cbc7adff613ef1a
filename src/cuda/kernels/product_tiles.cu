// Batches of products of matrices by tensor cores: y = alpha a b + beta c, and what the epilogue makes of it.
//
// As `product.cu`, for factors of one type E: f16, bf16, or f32 that is rounded to TF32. A_COPIED and B_COPIED say that
// numbers lie side by side along the depth, from boundaries of 16 bytes on. Whole numbers have a bias, in c, and a step for each column:
// see `whole_numbers.cuh`.

#include "common.cuh"
#include "functions.cuh"
#include "blocks.cuh"
#include "tensor_cores.cuh"
#include "tiles.cuh"
#include "whole_numbers.cuh"

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS)
    product(EPILOGUE_PARAMETERS const E* a, Strides sa, const E* b, Strides sb, const D* c, Strides sc, T* y, Strides sy, Shape batch,
            i64 batches, int rows, int columns, int depth, double alpha, double beta, const f32* steps, f32 scale, S* parts,
            int splits, int phase) {
    extern __shared__ unsigned shared[];
    TileSum* tile = (TileSum*)shared;
    int first_row = blockIdx.y * ROWS, first_column = blockIdx.x * COLUMNS, of_part = part_depth(depth, splits);
    i64 tiles = (i64)gridDim.x * gridDim.y, place = ((i64)blockIdx.y * gridDim.x + blockIdx.x) * ROWS * COLUMNS;
    i64 all = phase == PART ? batches * splits : batches;
    for (i64 z = blockIdx.z; z < all; z += gridDim.z) {
        i64 at = phase == PART ? z / splits : z;
        int from = phase == PART ? (int)(z % splits) * of_part : 0;
        if (phase == ADD) {
            add_parts(tile, parts + at * splits * tiles * ROWS * COLUMNS + place, splits, tiles * ROWS * COLUMNS);
        } else {
            Lines<A_COPIED, !A_BY_DEPTH> left = {a + offset(at, batch, sa), sa.by[6], sa.by[7], first_row, rows, depth};
            Lines<B_COPIED, !B_BY_DEPTH> right = {b + offset(at, batch, sb), sb.by[7], sb.by[6], first_column, columns, depth};
            int end = phase == PART ? min(from + of_part, depth) : depth;
            multiply(left, right, rows - first_row, columns - first_column, from, end, shared);
        }
        if (phase == PART) {
            put_part(tile, parts + z * tiles * ROWS * COLUMNS + place);
        } else {
            for (int i = threadIdx.x; i < ROWS * COLUMNS; i += THREADS) {
                i64 row = first_row + i / COLUMNS, column = first_column + i % COLUMNS;
                if (row >= rows || column >= columns) continue;
                TileSum sum = tile[i / COLUMNS * SUM_PITCH + i % COLUMNS];
                C value = sum;
                if (WHOLE_NUMBERS) value = real_of((int)sum, load<f64>(c[column]), steps[column]);
                if (SCALED) value *= (C)alpha;
                if (ADDED) {
                    C added = load<C>(c[offset(at, batch, sc) + row * sc.by[6] + column * sc.by[7]]);
                    value += SCALED ? (C)beta * added : added;
                }
                i64 index = (at * rows + row) * columns + column;
                (void)index;
                EPILOGUE;
                put(y[offset(at, batch, sy) + row * sy.by[6] + column * sy.by[7]], value, scale);
            }
        }
        __syncthreads();
    }
}
