// Convolution over one to three axes, and transposed convolution, as an implicit matrix product (implicit GEMM): the right
// factor, with a row for each tap of each channel and a column for each output position, is never materialised.
//
// A block computes 64 channels at 64 positions of one group, tiled as in `product.cu`. `out` has the lengths N, D, H, W; `in`,
// `taps`, `stride`, `pad` and `dilation` are those of the last three axes. Strides are those of N, C, D, H, W, and for the
// weights those of output channels, input channels of the group, and taps.

#include "common.cuh"
#include "functions.cuh"
#include "windows.cuh"
#include "convolution_offsets.cuh"

#define TILE 64
#define DEPTH 16
#define THREAD_TILE 4

extern "C" __global__ void convolution(EPILOGUE_PARAMETERS const T* x, Strides sx, const W* w, Strides sw, const V* bias, T* y,
                                       Strides sy, Shape out, Shape in, Shape taps, Shape stride, Shape pad, Shape dilation, i64 count,
                                       int channels, int out_channels, int groups, i64 w_group) {
    __shared__ C left[DEPTH][TILE + 1];
    __shared__ C right[DEPTH][TILE + 1];
    int thread = threadIdx.x, lane_x = thread % 16, lane_y = thread / 16, first_channel = blockIdx.y * TILE;
    i64 first_position = (i64)blockIdx.x * TILE;
    int all_taps = taps.dims[0] * taps.dims[1] * taps.dims[2], depth = channels * all_taps;
    // A thread gathers the inputs of the same output position for all taps.
    Position read = position_of(first_position + thread % TILE, count, out);
    for (int group = blockIdx.z; group < groups; group += gridDim.z) {
        const T* x_at = x + read.n * sx.by[0] + (i64)group * channels * sx.by[1];
        const W* w_at = w + group * w_group;
        C sums[THREAD_TILE][THREAD_TILE] = {};
        for (int first = 0; first < depth; first += DEPTH) {
            for (int i = thread; i < TILE * DEPTH; i += 256) {
                int k = first + i % DEPTH, channel = first_channel + i / DEPTH;
                bool is_inside = k < depth && channel < out_channels;
                left[i % DEPTH][i / DEPTH] =
                    is_inside ? load<C>(w_at[channel * sw.by[0] + k % channels * sw.by[1] + weight_offset(k / channels, taps, sw)]) : (C)0;
            }
            for (int i = thread; i < TILE * DEPTH; i += 256) {
                int k = first + i / TILE;
                i64 from = read.is_inside && k < depth ? input_offset(read, k / channels, in, taps, stride, pad, dilation, sx) : -1;
                right[i / TILE][i % TILE] = from < 0 ? (C)0 : load<C>(x_at[from + k % channels * sx.by[1]]);
            }
            __syncthreads();
            for (int k = 0; k < DEPTH; ++k) {
                C a[THREAD_TILE], b[THREAD_TILE];
                for (int i = 0; i < THREAD_TILE; ++i) a[i] = left[k][lane_y + 16 * i];
                for (int j = 0; j < THREAD_TILE; ++j) b[j] = right[k][lane_x + 16 * j];
                for (int i = 0; i < THREAD_TILE; ++i) {
                    for (int j = 0; j < THREAD_TILE; ++j) sums[i][j] += a[i] * b[j];
                }
            }
            __syncthreads();
        }
        for (int j = 0; j < THREAD_TILE; ++j) {
            i64 output = first_position + lane_x + 16 * j;
            Position position = position_of(output, count, out);
            i64 sample_size = (i64)out.dims[1] * out.dims[2] * out.dims[3];
            for (int i = 0; i < THREAD_TILE; ++i) {
                int in_group = first_channel + lane_y + 16 * i, channel = group * out_channels + in_group;
                if (!position.is_inside || in_group >= out_channels) continue;
                C value = sums[i][j] + (bias ? load<C>(bias[channel]) : (C)0);
                i64 index = ((i64)position.n * out_channels * groups + channel) * sample_size + output % sample_size;
                (void)index;
                EPILOGUE;
                store<C>(y[output_offset(position, channel, sy)], value);
            }
        }
    }
}
