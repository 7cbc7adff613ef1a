// Copies a few lines into one, as when the channels of a picture become adjacent: x has CHANNELS lines of `length` elements, `x_by`
// elements apart; y has one line, in which the CHANNELS elements at each position are adjacent. A thread copies WORD positions.
// Elements of type T become elements of type U, by way of type C.

#include "common.cuh"
#include "chunks.cuh"

extern "C" __global__ void interleave(const T* x, Strides x_outer, i64 x_by, U* y, Strides y_outer, Shape outer, int length,
                                      i64 count) {
    for (i64 i = GLOBAL_THREAD; i < count; i += GRID_STRIDE) {
        i64 line = i;
        int position = (int)pop_innermost(line, (length + WORD - 1) / WORD) * WORD;
        const T* from = x + offset(line, outer, x_outer) + position;
        U* to = y + offset(line, outer, y_outer) + (i64)position * CHANNELS;
        Chunk<T, WORD> read[CHANNELS];
#pragma unroll
        for (int channel = 0; channel < CHANNELS; ++channel) {
            read[channel] = load_chunk<WORD>(from + channel * x_by, false, length - position);
        }
        Chunk<U, WORD> written[CHANNELS];
#pragma unroll
        for (int at = 0; at < WORD * CHANNELS; ++at) {
            store<C>(written[at / WORD].at[at % WORD], load<C>(read[at % CHANNELS].at[at / CHANNELS]));
        }
#pragma unroll
        for (int at = 0; at < CHANNELS; ++at) {
            store_chunk(to + at * WORD, written[at], (i64)(length - position) * CHANNELS - at * WORD);
        }
    }
}
