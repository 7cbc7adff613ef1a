// The weights of attention by themselves, of which softmax(scale q k^T + masks) is made: a block for each row, one head after the
// other. With OF_EACH_HEAD 0 the mean over the heads, which are the last axis of the batch.

#include "common.cuh"
#include "blocks.cuh"
#include "masks.cuh"

extern "C" __global__ void attention_weights(const T* q, Strides sq, const T* k, Strides sk, const M* mask, Strides sm,
                                             const P* padding, Strides sp, T* y, Strides sy, i64 batches, int heads, int rows,
                                             int columns, int seen, int width, double scale) {
    for (i64 at = blockIdx.x; at < batches * rows; at += gridDim.x) {
        i64 row = at % rows, n = at / rows;
        for (int head = 0; head < heads; ++head) {
            const T* query = q + n * sq.by[0] + head * sq.by[1] + row * sq.by[6];
            auto score = [&](i64 column) {
                const T* key = k + n * sk.by[0] + head * sk.by[1] + column * sk.by[6];
                C sum = 0;
                for (int i = 0; i < width; ++i) sum += (C)scale * load<C>(query[i * sq.by[7]]) * load<C>(key[i * sk.by[7]]);
                if (mask && column < seen) {
                    C number = load<C>(mask[n * sm.by[0] + head * sm.by[1] + row * sm.by[6] + column * sm.by[7]]);
                    sum += MASKED(number, MASK_IS_BOOL, MASK_SHOWS);
                }
                if (padding && column < seen) {
                    C number = load<C>(padding[n * sp.by[0] + column * sp.by[7]]);
                    sum += MASKED(number, PADDING_IS_BOOL, MASK_SHOWS);
                }
                return sum;
            };
            C largest = -INFINITY;
            for (i64 column = threadIdx.x; column < columns; column += blockDim.x) largest = Greater<C>()(largest, score(column));
            largest = block_combine(largest, Greater<C>());
            C total = 0;
            for (i64 column = threadIdx.x; column < columns; column += blockDim.x) total += exp(score(column) - largest);
            total = block_combine(total, Sum<C>());
            for (i64 column = threadIdx.x; column < columns; column += blockDim.x) {
                C weight = exp(score(column) - largest) / total;
                T* to = y + n * sy.by[0] + row * sy.by[6] + column * sy.by[7];
                if (OF_EACH_HEAD) store<C>(to[head * sy.by[1]], weight);
                else store<C>(to[0], (head == 0 ? (C)0 : load<C>(to[0])) + weight / (C)heads);
            }
            __syncthreads();
        }
    }
}
