// Batched matrix products on tensor cores: y = alpha a b + beta c, followed by the epilogue.
//
// As `product.cu`, for factors of the same type E: f16, bf16, f32 that is rounded to TF32, or i8. A_VECTORIZED and B_VECTORIZED
// are set if a factor is contiguous along the depth and aligned to 16 bytes. Quantised products have a bias, in c, and a scale
// for each column: see `quantization.cuh`.

#include "common.cuh"
#include "functions.cuh"
#include "blocks.cuh"
#include "tensor_cores.cuh"
#include "tiles.cuh"
#include "quantization.cuh"

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS)
    product(EPILOGUE_PARAMETERS const E* a, Strides sa, const E* b, Strides sb, const D* c, Strides sc, T* y, Strides sy, Shape batch,
            i64 batches, int rows, int columns, int depth, double alpha, double beta, const f32* scales, f32 output_scale, S* parts,
            int splits, int phase) {
    extern __shared__ unsigned shared[];
    Accumulator* tile = (Accumulator*)shared;
    int first_row = blockIdx.y * ROWS, first_column = blockIdx.x * COLUMNS, depth_per_part = part_depth(depth, splits);
    i64 size = (i64)gridDim.x * gridDim.y * ROWS * COLUMNS;
    i64 tile_offset = ((i64)blockIdx.y * gridDim.x + blockIdx.x) * ROWS * COLUMNS;
    int sharing = blocks_of_tile(phase, splits);
    for (i64 z = blockIdx.z; z < batches * sharing; z += gridDim.z) {
        i64 at = z / sharing;
        int share = (int)(z % sharing);
        if (phase != ADD) {
            int from = phase == PART ? share * depth_per_part : 0;
            Lines<A_VECTORIZED, !A_K_MAJOR> left = {a + offset(at, batch, sa), sa.by[6], sa.by[7], first_row, rows, depth};
            Lines<B_VECTORIZED, !B_K_MAJOR> right = {b + offset(at, batch, sb), sb.by[7], sb.by[6], first_column, columns, depth};
            int end = phase == PART ? min(from + depth_per_part, depth) : depth;
            multiply(left, right, rows - first_row, columns - first_column, from, end, shared);
        }
        if (phase == PART) {
            store_partial(tile, parts + z * size + tile_offset);
        } else {
            int first = phase == ADD ? share * BAND : 0, end = phase == ADD ? first + BAND : ROWS * COLUMNS;
            i64 partial = at * splits * size + tile_offset;
            for (int i = first + threadIdx.x; i < end; i += THREADS) {
                i64 row = first_row + i / COLUMNS, column = first_column + i % COLUMNS;
                if (row >= rows || column >= columns) continue;
                Accumulator sum = phase == ADD ? add_partials(parts + partial + i, splits, size) : tile[i / COLUMNS * SUM_PITCH + i % COLUMNS];
                C value = sum;
                if (QUANTIZED) value = dequantize((int)sum, load<f64>(c[column]), scales[column]);
                if (SCALED) value *= (C)alpha;
                if (ADDED) {
                    C added = load<C>(c[offset(at, batch, sc) + row * sc.by[6] + column * sc.by[7]]);
                    value += SCALED ? (C)beta * added : added;
                }
                i64 index = (at * rows + row) * columns + column;
                (void)index;
                EPILOGUE;
                store_output(y[offset(at, batch, sy) + row * sy.by[6] + column * sy.by[7]], value, output_scale);
            }
        }
        __syncthreads();
    }
}
