// Convolution by tensor cores: `convolution.cu` says what is computed, and of what.
//
// x and w are of one type E. The weights of a group are a matrix that lies without gaps: a row for each output channel, along it the
// input channels of one tap after the other. X_COPIED says that the input's channels lie side by side, whole chunks of each tap.
// Y_BY_CHANNELS says that the output's channels lie side by side: threads write them in that order.
// Whole numbers have a bias and a step for each output channel: see `whole_numbers.cuh`.

#include "common.cuh"
#include "functions.cuh"
#include "blocks.cuh"
#include "windows.cuh"
#include "places.cuh"
#include "tensor_cores.cuh"
#define SUMS_BY_COLUMN Y_BY_CHANNELS
#include "tiles.cuh"
#include "whole_numbers.cuh"

#define MOST_TAPS 128

// What the threads of a block look up.
struct Tables {
    Position positions[COLUMNS];
    int taps[MOST_TAPS][3];
};
// What blocks share begins behind them, on a boundary of the words that are copied.
static_assert(sizeof(Tables) % 16 == 0, "tiles begin on a boundary of 16 bytes");

// The columns of the right factor: what windows see.
struct Places {
    static constexpr bool IS_COPIED = X_COPIED, ALONG_ROWS = true;
    const E* from;
    const Tables& tables;
    const Shape &in, &stride, &pad, &dilation;
    const Strides& sx;
    int channels, depth;

    // Where the group's first channel of a tap lies for a position; -1 for outside.
    __device__ i64 place(const Position& position, int tap) const {
        i64 at = position.n * sx.by[0];
        for (int axis = 0; axis < 3; ++axis) {
            int place = place_of(position.at[axis], tables.taps[tap][axis], stride.dims[axis], pad.dims[axis], dilation.dims[axis],
                                 in.dims[axis], MODE, TRANSPOSED);
            if (place < 0) return -1;
            at += place * sx.by[2 + axis];
        }
        return at;
    }
    __device__ const E* at(int row, int k, int& count) const {
        const Position& position = tables.positions[row];
        i64 at = position.is_inside && k < depth ? place(position, k / channels) : -1;
        count = at < 0 ? 0 : CHUNK;
        return at < 0 ? from : from + at + k % channels;
    }
    __device__ Chunk read(int row, int k) const {
        Chunk chunk;
        const Position& position = tables.positions[row];
        if (!position.is_inside || k >= depth) return chunk;
        int tap = k / channels, channel = k - tap * channels;
        i64 at = place(position, tap);
#pragma unroll
        for (int i = 0; i < CHUNK; ++i) {
            if (at >= 0) chunk.numbers[i] = from[at + channel * sx.by[1]];
            if (++channel < channels) continue;
            channel = 0;
            if (k + i + 1 >= depth) break;
            at = place(position, ++tap);
        }
        return chunk;
    }
};

static __device__ void fill(Tables& tables, i64 first, i64 count, const Shape& out, const Shape& taps, int all_taps) {
    for (int i = threadIdx.x; i < COLUMNS; i += THREADS) tables.positions[i] = position_of(first + i, count, out);
    for (int tap = threadIdx.x; tap < all_taps; tap += THREADS) {
        for (int axis = 2, rest = tap; axis >= 0; rest /= taps.dims[axis--]) tables.taps[tap][axis] = rest % taps.dims[axis];
    }
    __syncthreads();
}

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS)
    convolution(EPILOGUE_PARAMETERS const E* x, Strides sx, const E* w, const V* bias, const f32* steps, T* y, Strides sy, Shape out,
                Shape in, Shape taps, Shape stride, Shape pad, Shape dilation, i64 count, int channels, int out_channels, int groups,
                f32 scale, S* parts, int splits, int phase) {
    extern __shared__ unsigned shared[];
    __shared__ Tables tables;
    TileSum* tile = (TileSum*)shared;
    int first_channel = blockIdx.y * ROWS, all_taps = taps.dims[0] * taps.dims[1] * taps.dims[2], depth = channels * all_taps;
    i64 first_place = (i64)blockIdx.x * COLUMNS, of_sample = (i64)out.dims[1] * out.dims[2] * out.dims[3];
    fill(tables, first_place, count, out, taps, all_taps);
    int of_part = part_depth(depth, splits);
    i64 size = (i64)gridDim.x * gridDim.y * ROWS * COLUMNS, place = ((i64)blockIdx.y * gridDim.x + blockIdx.x) * ROWS * COLUMNS;
    for (int z = blockIdx.z; z < (phase == PART ? groups * splits : groups); z += gridDim.z) {
        int group = phase == PART ? z / splits : z, from = phase == PART ? z % splits * of_part : 0;
        if (phase == ADD) {
            add_parts(tile, parts + (i64)group * splits * size + place, splits, size);
        } else {
            Lines<W_COPIED, false> left = {w + (i64)group * out_channels * depth, depth, 1, first_channel, out_channels, depth};
            Places right = {x + (i64)group * channels * sx.by[1], tables, in, stride, pad, dilation, sx, channels, depth};
            int end = phase == PART ? min(from + of_part, depth) : depth;
            multiply(left, right, out_channels - first_channel, (int)min(count - first_place, (i64)COLUMNS), from, end, shared);
        }
        if (phase == PART) {
            put_part(tile, parts + z * size + place);
        } else {
            for (int i = threadIdx.x; i < ROWS * COLUMNS; i += THREADS) {
                int row = Y_BY_CHANNELS ? i % ROWS : i / COLUMNS, column = Y_BY_CHANNELS ? i / ROWS : i % COLUMNS;
                int channel = group * out_channels + first_channel + row;
                const Position& position = tables.positions[column];
                if (!position.is_inside || first_channel + row >= out_channels) continue;
                TileSum sum = tile[sum_at(row, column)];
                C value = WHOLE_NUMBERS ? real_of((int)sum, load<f64>(bias[channel]), steps[channel])
                                        : (C)sum + (bias ? load<C>(bias[channel]) : (C)0);
                i64 index = ((i64)position.n * out_channels * groups + channel) * of_sample + (first_place + column) % of_sample;
                (void)index;
                EPILOGUE;
                put(y[output_of(position, channel, sy)], value, scale);
            }
        }
        __syncthreads();
    }
}
