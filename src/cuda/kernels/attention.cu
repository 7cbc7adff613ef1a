// Attention without a matrix of scores: softmax(scale q k^T + masks) v, as in FlashAttention (Dao et al. 2022).
//
// A block computes 16 rows, four per warp. Keys and values are staged in shared memory in tiles of TILE: each lane computes the
// score of one key, and then the warp accumulates the weighted values, CHUNKS output elements per lane. The softmax is computed
// online: the maximum score and the sum of weights so far are kept, and a new maximum rescales what was accumulated. Strides
// are those of the batch axes, and at [6] and [7] those of the last two axes.

#include "common.cuh"
#include "blocks.cuh"
#include "masks.cuh"

#define WARPS 4
#define ROWS 4

extern "C" __global__ void attention(const T* q, Strides sq, const T* k, Strides sk, const T* v, Strides sv, const M* mask, Strides sm,
                                     const P* padding, Strides sp, T* y, Strides sy, Shape batch, i64 batches, int rows, int columns,
                                     int mask_columns, int width, int out, double scale) {
    extern __shared__ double memory[];
    C* queries = (C*)memory;
    C* keys = queries + WARPS * ROWS * width;
    C* values = keys + TILE * (width + 1);
    int warp = threadIdx.x / WARP, lane = threadIdx.x % WARP, first_row = blockIdx.x * WARPS * ROWS;
    int end = CAUSAL && first_row + WARPS * ROWS < columns ? first_row + WARPS * ROWS : columns;
    for (i64 at = blockIdx.y; at < batches; at += gridDim.y) {
        const T* k_at = k + offset(at, batch, sk);
        const T* v_at = v + offset(at, batch, sv);
        const T* q_at = q + offset(at, batch, sq);
        __syncthreads();
        for (int i = threadIdx.x; i < WARPS * ROWS * width; i += blockDim.x) {
            i64 row = first_row + i / width;
            queries[i] = row < rows ? (C)scale * load<C>(q_at[row * sq.by[6] + i % width * sq.by[7]]) : (C)0;
        }
        C sums[ROWS][CHUNKS] = {}, row_max[ROWS], row_sum[ROWS] = {};
        for (int r = 0; r < ROWS; ++r) row_max[r] = -INFINITY;
        for (int first = 0; first < end; first += TILE) {
            __syncthreads();
            for (int i = threadIdx.x; i < TILE * width; i += blockDim.x) {
                i64 column = first + i / width;
                keys[i / width * (width + 1) + i % width] =
                    column < columns ? load<C>(k_at[column * sk.by[6] + i % width * sk.by[7]]) : (C)0;
            }
            for (int i = threadIdx.x; i < TILE * out; i += blockDim.x) {
                i64 column = first + i / out;
                values[i] = column < columns ? load<C>(v_at[column * sv.by[6] + i % out * sv.by[7]]) : (C)0;
            }
            __syncthreads();
            for (int r = 0; r < ROWS; ++r) {
                i64 row = first_row + warp * ROWS + r, column = first + lane;
                if (row >= rows) continue;
                C score = -INFINITY;
                if (lane < TILE && column < columns && (!CAUSAL || column <= row)) {
                    score = 0;
                    for (int i = 0; i < width; ++i) score += queries[(warp * ROWS + r) * width + i] * keys[lane * (width + 1) + i];
                    if (mask && column < mask_columns) {
                        C value = load<C>(mask[offset(at, batch, sm) + row * sm.by[6] + column * sm.by[7]]);
                        score += MASK_BIAS(value, MASK_IS_BOOL, MASK_KEEP);
                    }
                    if (padding && column < mask_columns) {
                        C value = load<C>(padding[offset(at, batch, sp) + column * sp.by[7]]);
                        score += MASK_BIAS(value, PADDING_IS_BOOL, MASK_KEEP);
                    }
                }
                C new_max = warp_reduce(score, Max<C>());
                new_max = Max<C>()(row_max[r], new_max);
                if (new_max == -(C)INFINITY) continue;
                C rescale = exp(row_max[r] - new_max), weight = score == -(C)INFINITY ? (C)0 : exp(score - new_max);
                row_sum[r] = row_sum[r] * rescale + warp_reduce(weight, Sum<C>());
                row_max[r] = new_max;
                for (int c = 0; c < CHUNKS; ++c) sums[r][c] *= rescale;
                for (int j = 0; j < TILE; ++j) {
                    C key_weight = __shfl_sync(ALL_LANES, weight, j);
                    for (int c = 0; c < CHUNKS; ++c) {
                        int i = lane + WARP * c;
                        if (i < out) sums[r][c] += key_weight * values[j * out + i];
                    }
                }
            }
        }
        for (int r = 0; r < ROWS; ++r) {
            i64 row = first_row + warp * ROWS + r;
            for (int c = 0; c < CHUNKS && row < rows; ++c) {
                int i = lane + WARP * c;
                C value = row_sum[r] == 0 && MASKED_ROW_IS_ZERO ? (C)0 : sums[r][c] / row_sum[r];
                if (i < out) store<C>(y[offset(at, batch, sy) + row * sy.by[6] + i * sy.by[7]], value);
            }
        }
    }
}
