// Convolution on tensor cores, with the operands of `convolution.cu`.
//
// x and w have the same type E. The weights of a group are a contiguous matrix with a row for each output channel, in which the
// input channels of each tap are adjacent. X_VECTORIZED is set if the input's channels are adjacent, those of a tap are
// whole chunks, and chunks are aligned to 16 bytes. With Y_CHANNELS_LAST, the output's channels are adjacent, and threads write them in that order. Quantised
// convolutions have a bias and a scale for each output channel: see `quantization.cuh`.

#include "common.cuh"
#include "functions.cuh"
#include "blocks.cuh"
#include "windows.cuh"
#include "convolution_offsets.cuh"
#include "tensor_cores.cuh"
#define COLUMN_MAJOR_SUMS Y_CHANNELS_LAST
#include "tiles.cuh"
#include "quantization.cuh"

#define MAX_TAPS 128

// Lookup tables of a block: its output positions, and the coordinates of the taps.
struct Tables {
    Position positions[COLUMNS];
    int taps[MAX_TAPS][3];
};
// Dynamic shared memory follows the tables, and must be aligned to the words that are copied.
static_assert(sizeof(Tables) % 16 == 0, "tiles must be aligned to 16 bytes");

// A source of columns of the right factor: the input elements of each window.
struct WindowColumns {
    static constexpr bool IS_VECTORIZED = X_VECTORIZED, ALONG_ROWS = true;
    const E* from;
    const Tables& tables;
    const Shape &in, &stride, &pad, &dilation;
    const Strides& sx;
    int channels, depth;

    // The offset of the group's first channel at a tap of a position, or -1 in zero padding.
    __device__ i64 tap_offset(const Position& position, int tap) const {
        i64 at = position.n * sx.by[0];
        for (int axis = 0; axis < 3; ++axis) {
            int coordinate = window_source(position.at[axis], tables.taps[tap][axis], stride.dims[axis], pad.dims[axis],
                                           dilation.dims[axis], in.dims[axis], MODE, TRANSPOSED);
            if (coordinate < 0) return -1;
            at += coordinate * sx.by[2 + axis];
        }
        return at;
    }
    __device__ const E* at(int row, int k, int& count) const {
        const Position& position = tables.positions[row];
        i64 at = position.is_inside && k < depth ? tap_offset(position, k / channels) : -1;
        count = at < 0 ? 0 : CHUNK;
        return at < 0 ? from : from + at + k % channels;
    }
    __device__ Chunk read(int row, int k) const {
        Chunk chunk;
        const Position& position = tables.positions[row];
        if (!position.is_inside || k >= depth) return chunk;
        int tap = k / channels, channel = k - tap * channels;
        i64 at = tap_offset(position, tap);
#pragma unroll
        for (int i = 0; i < CHUNK; ++i) {
            if (at >= 0) chunk.elements[i] = from[at + channel * sx.by[1]];
            if (++channel < channels) continue;
            channel = 0;
            if (k + i + 1 >= depth) break;
            at = tap_offset(position, ++tap);
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
    convolution(EPILOGUE_PARAMETERS const E* x, Strides sx, const E* w, const V* bias, const f32* scales, T* y, Strides sy, Shape out,
                Shape in, Shape taps, Shape stride, Shape pad, Shape dilation, i64 count, int channels, int out_channels, int groups,
                f32 output_scale, S* parts, int splits, int phase) {
    extern __shared__ unsigned shared[];
    __shared__ Tables tables;
    Accumulator* tile = (Accumulator*)shared;
    int first_channel = blockIdx.y * ROWS, all_taps = taps.dims[0] * taps.dims[1] * taps.dims[2], depth = channels * all_taps;
    i64 first_position = (i64)blockIdx.x * COLUMNS, sample_size = (i64)out.dims[1] * out.dims[2] * out.dims[3];
    fill(tables, first_position, count, out, taps, all_taps);
    int depth_per_part = part_depth(depth, splits);
    i64 size = (i64)gridDim.x * gridDim.y * ROWS * COLUMNS;
    i64 tile_offset = ((i64)blockIdx.y * gridDim.x + blockIdx.x) * ROWS * COLUMNS;
    int sharing = blocks_of_tile(phase, splits);
    for (int z = blockIdx.z; z < groups * sharing; z += gridDim.z) {
        int group = z / sharing, share = z % sharing;
        if (phase != ADD) {
            int from = phase == PART ? share * depth_per_part : 0;
            Lines<W_VECTORIZED, false> left = {w + (i64)group * out_channels * depth, depth, 1, first_channel, out_channels, depth};
            WindowColumns right = {x + (i64)group * channels * sx.by[1], tables, in, stride, pad, dilation, sx, channels, depth};
            int end = phase == PART ? min(from + depth_per_part, depth) : depth;
            multiply(left, right, out_channels - first_channel, (int)min(count - first_position, (i64)COLUMNS), from, end, shared);
        }
        if (phase == PART) {
            store_partial(tile, parts + z * size + tile_offset);
        } else {
            int first = phase == ADD ? share * BAND : 0, end = phase == ADD ? first + BAND : ROWS * COLUMNS;
            i64 partial = (i64)group * splits * size + tile_offset;
            for (int i = first + threadIdx.x; i < end; i += THREADS) {
                int row = Y_CHANNELS_LAST ? i % ROWS : i / COLUMNS, column = Y_CHANNELS_LAST ? i / ROWS : i % COLUMNS;
                int channel = group * out_channels + first_channel + row;
                const Position& position = tables.positions[column];
                if (!position.is_inside || first_channel + row >= out_channels) continue;
                Accumulator sum = phase == ADD ? add_partials(parts + partial + i, splits, size) : tile[sum_at(row, column)];
                C value = QUANTIZED ? dequantize((int)sum, load<f64>(bias[channel]), scales[channel])
                                    : (C)sum + (bias ? load<C>(bias[channel]) : (C)0);
                i64 index = ((i64)position.n * out_channels * groups + channel) * sample_size + (first_position + column) % sample_size;
                (void)index;
                EPILOGUE;
                store_output(y[output_offset(position, channel, sy)], value, output_scale);
            }
        }
        __syncthreads();
    }
}
