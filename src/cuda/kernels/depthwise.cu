// Convolution over one to three axes in groups of few channels, and its transpose. It is bound by memory rather than arithmetic,
// so that a thread computes CHUNK adjacent channels at a position, which it reads and writes as one word.
//
// Lengths and strides are those of `convolution.cu`. A group has CHANNELS input channels; with CHUNK > 1, it has as many output
// channels, and chunks consist of whole groups. With Y_CHANNELS_LAST, the output's channels are adjacent, so that adjacent
// threads write adjacent elements. The taps along the innermost axis are read TAPS at a time.

#include "common.cuh"
#include "functions.cuh"
#include "chunks.cuh"
#include "windows.cuh"
#include "convolution_offsets.cuh"

#define CHANNELS_LAST Y_CHANNELS_LAST
#include "coordinates.cuh"

// The input that output channel `k` of a chunk multiplies by its weight for input channel `c` of its group. `chunk` was loaded
// from `from`.
static __device__ inline C input_of(const Chunk<T, CHUNK>& chunk, const T* from, int k, int c, i64 by_channel) {
    if constexpr (CHUNK > 1) return load<C>(chunk.at[k / CHANNELS * CHANNELS + c]);
    return load<C>(c == 0 ? chunk.at[0] : from[c * by_channel]);
}

extern "C" __global__ void depthwise(EPILOGUE_PARAMETERS const T* x, Strides sx, const W* w, Strides sw, const V* bias, T* y, Strides sy,
                                     Shape out, Shape in, Shape taps, Shape stride, Shape pad, Shape dilation, i64 count, int channels,
                                     int out_channels, int groups, i64 w_group) {
    int all_channels = out_channels * groups;
    i64 chunks = count * (all_channels / CHUNK), sample_size = (i64)out.dims[1] * out.dims[2] * out.dims[3];
    Shape chunked = {5, {out.dims[0], all_channels / CHUNK, out.dims[1], out.dims[2], out.dims[3]}};
    for (i64 i = GLOBAL_THREAD; i < chunks; i += GRID_STRIDE) {
        int at[5];
        output_coordinates(i, chunked, at);
        Position position = {true, at[0], {at[2], at[3], at[4]}};
        int first_channel = at[1] * CHUNK, group = first_channel / out_channels;
        const T* x_at = x + position.n * sx.by[0] + (i64)group * channels * sx.by[1];
        const W* w_at = w + group * w_group + (first_channel - group * out_channels) * sw.by[0];
        C sums[CHUNK] = {};
        for (int d = 0; d < taps.dims[0]; ++d) {
            int in_d = input_coordinate(position, 0, d, in, stride, pad, dilation);
            for (int h = 0; h < taps.dims[1] && in_d >= 0; ++h) {
                int in_h = input_coordinate(position, 1, h, in, stride, pad, dilation);
                if (in_h < 0) continue;
                const T* x_row = x_at + in_d * sx.by[2] + in_h * sx.by[3];
                const W* w_row = w_at + d * sw.by[2] + h * sw.by[3];
                for (int first = 0; first < taps.dims[2]; first += TAPS) {
                    // All inputs are requested before any is used.
                    const T* from[TAPS];
                    Chunk<T, CHUNK> inputs[TAPS];
                    bool is_read[TAPS];
#pragma unroll
                    for (int tap = 0; tap < TAPS; ++tap) {
                        int in_w = input_coordinate(position, 2, first + tap, in, stride, pad, dilation);
                        is_read[tap] = CHANNELS > 0 && first + tap < taps.dims[2] && in_w >= 0;
                        from[tap] = x_row + in_w * sx.by[4];
                        if (is_read[tap]) inputs[tap] = load_chunk<CHUNK>(from[tap]);
                    }
#pragma unroll
                    for (int tap = 0; tap < TAPS; ++tap) {
                        if (!is_read[tap]) continue;
                        const W* weights_at = w_row + (first + tap) * sw.by[4];
#pragma unroll(CHUNK > 1 ? CHANNELS : 1)
                        for (int c = 0; c < CHANNELS; ++c) {
                            Chunk<W, CHUNK> weights = load_chunk<CHUNK>(weights_at + c * sw.by[1]);
#pragma unroll
                            for (int k = 0; k < CHUNK; ++k) {
                                sums[k] += input_of(inputs[tap], from[tap], k, c, sx.by[1]) * load<C>(weights.at[k]);
                            }
                        }
                    }
                }
            }
        }
        Chunk<V, CHUNK> biases;
        if (bias) biases = load_chunk<CHUNK>(bias + first_channel);
        i64 sample_offset = ((i64)position.at[0] * out.dims[2] + position.at[1]) * out.dims[3] + position.at[2];
        Chunk<T, CHUNK> results;
#pragma unroll
        for (int k = 0; k < CHUNK; ++k) {
            i64 index = ((i64)position.n * all_channels + first_channel + k) * sample_size + sample_offset;
            (void)index;
            C value = sums[k] + (bias ? load<C>(biases.at[k]) : (C)0);
            EPILOGUE;
            store<C>(results.at[k], value);
        }
        store_chunk(y + output_offset(position, first_channel, sy), results);
    }
}
