// Copies between tensors that are contiguous along different axes. A block transposes tiles in shared memory, so that both reads
// and writes are coalesced. Elements of type T become elements of type U, by way of type C.
//
// In addition to the axes of `outer`, there are two: x is contiguous along the first, of length `length_x`, and has stride
// `x_by` along the second; y is contiguous along the second, of length `length_y`, and has stride `y_by` along the first.

#include "common.cuh"
#include "chunks.cuh"

// `turn` transposes the tile that begins at `first_x` and `first_y`.

#if WORD > 1

// Tiles of SIDE by SIDE elements, for tensors whose chunks of WORD elements (16 bytes of y) are aligned along both axes. A line of
// a tile has eight chunks, which as many threads read or write.
#define CHUNKS 8
#define SIDE (CHUNKS * WORD)
#define LINES (THREADS / CHUNKS)
#define THREADS 128

// Lines of x are read in groups of PACK: their elements at the same place are adjacent in y, and fill 4 bytes.
#define PACK (4 / (int)sizeof(U))
#define GROUPS (SIDE / PACK)

static __device__ void turn(const T* from, i64 x_by, U* to, i64 y_by, int first_x, int first_y, int length_x, int length_y) {
    // The lines of y. In each, the order of the chunks depends on the line, so that threads access different banks.
    __shared__ Words<16> tile[SIDE][CHUNKS];
    int chunk = threadIdx.x % CHUNKS, first = threadIdx.x / CHUNKS;
    // All reads are in flight at the same time.
    Chunk<T, WORD> read[GROUPS / LINES][PACK];
#pragma unroll
    for (int part = 0; part < GROUPS / LINES; ++part) {
        int along_x = first_x + chunk * WORD, along_y = first_y + (first + part * LINES) * PACK;
        if (along_x >= length_x || along_y >= length_y) continue;
#pragma unroll
        for (int line = 0; line < PACK; ++line) read[part][line] = load_chunk<WORD>(from + along_x + (along_y + line) * x_by);
    }
#pragma unroll
    for (int part = 0; part < GROUPS / LINES; ++part) {
        int group = first + part * LINES;
#pragma unroll
        for (int k = 0; k < WORD; ++k) {
            Chunk<U, PACK> packed;
#pragma unroll
            for (int line = 0; line < PACK; ++line) store<C>(packed.at[line], load<C>(read[part][line].at[k]));
            memcpy(&tile[chunk * WORD + k][group / 4 ^ chunk].at[group % 4], &packed, sizeof(packed));
        }
    }
    __syncthreads();
#pragma unroll
    for (int line = first; line < SIDE; line += LINES) {
        int along_x = first_x + line, along_y = first_y + chunk * WORD;
        if (along_x < length_x && along_y < length_y) {
            *(Words<16>*)(to + along_y + along_x * y_by) = tile[line][chunk ^ line / WORD];
        }
    }
}

#else

// The number of elements of a tile along both axes, of threads along a line of it, and of lines that a block reads or writes at a
// time.
#define SIDE (sizeof(U) <= 2 ? 64 : 32)
#define LINE 32
#define LINES 8
#define THREADS (LINE * LINES)

static __device__ void turn(const T* from, i64 x_by, U* to, i64 y_by, int first_x, int first_y, int length_x, int length_y) {
    // One column of padding, so that the elements of a column are in different banks.
    __shared__ U tile[SIDE][SIDE + 1];
    int lane = threadIdx.x % LINE, line = threadIdx.x / LINE;
#pragma unroll
    for (int row = line; row < SIDE; row += LINES) {
#pragma unroll
        for (int column = lane; column < SIDE; column += LINE) {
            int along_x = first_x + column, along_y = first_y + row;
            if (along_x < length_x && along_y < length_y) store<C>(tile[row][column], load<C>(from[along_x + along_y * x_by]));
        }
    }
    __syncthreads();
#pragma unroll
    for (int row = line; row < SIDE; row += LINES) {
#pragma unroll
        for (int column = lane; column < SIDE; column += LINE) {
            int along_x = first_x + row, along_y = first_y + column;
            if (along_x < length_x && along_y < length_y) to[along_y + along_x * y_by] = tile[column][row];
        }
    }
}

#endif

extern "C" __global__ void __launch_bounds__(THREADS)
    transpose(const T* x, Strides x_outer, i64 x_by, U* y, Strides y_outer, i64 y_by, Shape outer, int length_x, int length_y,
              i64 tiles) {
    int tiles_x = (length_x + SIDE - 1) / SIDE, tiles_y = (length_y + SIDE - 1) / SIDE;
    for (i64 at = blockIdx.x; at < tiles; at += gridDim.x) {
        i64 outer_index = at;
        int first_x = (int)pop_innermost(outer_index, tiles_x) * SIDE, first_y = (int)pop_innermost(outer_index, tiles_y) * SIDE;
        turn(x + offset(outer_index, outer, x_outer), x_by, y + offset(outer_index, outer, y_outer), y_by, first_x, first_y, length_x,
             length_y);
        __syncthreads();
    }
}
