// Attention weights: softmax(scale q k^T + masks). One block per row, which processes the heads in turn. Heads are the last
// axis of the batch; if PER_HEAD is 0, the output is the mean over them.

#include "common.cuh"
#include "blocks.cuh"
#include "masks.cuh"

extern "C" __global__ void attention_weights(const T* q, Strides sq, const T* k, Strides sk, const M* mask, Strides sm,
                                             const P* padding, Strides sp, T* y, Strides sy, i64 batches, int heads, int rows,
                                             int columns, int mask_columns, int width, double scale) {
    for (i64 at = blockIdx.x; at < batches * rows; at += gridDim.x) {
        i64 row = at % rows, n = at / rows;
        for (int head = 0; head < heads; ++head) {
            const T* query = q + n * sq.by[0] + head * sq.by[1] + row * sq.by[6];
            auto score = [&](i64 column) {
                const T* key = k + n * sk.by[0] + head * sk.by[1] + column * sk.by[6];
                C sum = 0;
                for (int i = 0; i < width; ++i) sum += (C)scale * load<C>(query[i * sq.by[7]]) * load<C>(key[i * sk.by[7]]);
                if (mask && column < mask_columns) {
                    C value = load<C>(mask[n * sm.by[0] + head * sm.by[1] + row * sm.by[6] + column * sm.by[7]]);
                    sum += MASK_BIAS(value, MASK_IS_BOOL, MASK_KEEP);
                }
                if (padding && column < mask_columns) {
                    C value = load<C>(padding[n * sp.by[0] + column * sp.by[7]]);
                    sum += MASK_BIAS(value, PADDING_IS_BOOL, MASK_KEEP);
                }
                return sum;
            };
            C row_max = -INFINITY;
            for (i64 column = threadIdx.x; column < columns; column += blockDim.x) row_max = Max<C>()(row_max, score(column));
            row_max = block_reduce(row_max, Max<C>());
            C row_sum = 0;
            for (i64 column = threadIdx.x; column < columns; column += blockDim.x) row_sum += exp(score(column) - row_max);
            row_sum = block_reduce(row_sum, Sum<C>());
            for (i64 column = threadIdx.x; column < columns; column += blockDim.x) {
                C weight = exp(score(column) - row_max) / row_sum;
                T* to = y + n * sy.by[0] + row * sy.by[6] + column * sy.by[7];
                if (PER_HEAD) store<C>(to[head * sy.by[1]], weight);
                else store<C>(to[0], (head == 0 ? (C)0 : load<C>(to[0])) + weight / (C)heads);
            }
            __syncthreads();
        }
    }
}
