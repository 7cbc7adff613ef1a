// Attention without a matrix of scores: softmax(scale q k^T + masks) v, as in FlashAttention (Dao et al. 2022).
//
// A block computes 16 rows, each of its four warps four of them. Keys and values pass through shared memory TILE at a time: a lane
// finds the score of one key, and then the warp adds the values, CHUNKS numbers of the output for each lane. The largest score and
// the sum so far are kept; where a larger one comes, what was added is scaled down. Strides are those of the batch, and at [6] and
// [7] those of the last two axes.

#include "common.cuh"
#include "blocks.cuh"
#include "masks.cuh"

#define WARPS 4
#define ROWS 4

extern "C" __global__ void attention(const T* q, Strides sq, const T* k, Strides sk, const T* v, Strides sv, const M* mask, Strides sm,
                                     const P* padding, Strides sp, T* y, Strides sy, Shape batch, i64 batches, int rows, int columns,
                                     int seen, int width, int out, double scale) {
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
        C sums[ROWS][CHUNKS] = {}, largest[ROWS], total[ROWS] = {};
        for (int r = 0; r < ROWS; ++r) largest[r] = -INFINITY;
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
                    if (mask && column < seen) {
                        C number = load<C>(mask[offset(at, batch, sm) + row * sm.by[6] + column * sm.by[7]]);
                        score += MASKED(number, MASK_IS_BOOL, MASK_SHOWS);
                    }
                    if (padding && column < seen) {
                        C number = load<C>(padding[offset(at, batch, sp) + column * sp.by[7]]);
                        score += MASKED(number, PADDING_IS_BOOL, MASK_SHOWS);
                    }
                }
                C top = warp_combine(score, Greater<C>());
                top = Greater<C>()(largest[r], top);
                if (top == -(C)INFINITY) continue;
                C shrunk = exp(largest[r] - top), weight = score == -(C)INFINITY ? (C)0 : exp(score - top);
                total[r] = total[r] * shrunk + warp_combine(weight, Sum<C>());
                largest[r] = top;
                for (int c = 0; c < CHUNKS; ++c) sums[r][c] *= shrunk;
                for (int j = 0; j < TILE; ++j) {
                    C of_key = __shfl_sync(ALL_LANES, weight, j);
                    for (int c = 0; c < CHUNKS; ++c) {
                        int i = lane + WARP * c;
                        if (i < out) sums[r][c] += of_key * values[j * out + i];
                    }
                }
            }
        }
        for (int r = 0; r < ROWS; ++r) {
            i64 row = first_row + warp * ROWS + r;
            for (int c = 0; c < CHUNKS && row < rows; ++c) {
                int i = lane + WARP * c;
                C value = total[r] == 0 && BLIND_IS_ZERO ? (C)0 : sums[r][c] / total[r];
                if (i < out) store<C>(y[offset(at, batch, sy) + row * sy.by[6] + i * sy.by[7]], value);
            }
        }
    }
}
