// Processing of rows, each shared by THREADS_PER_ROW threads: a single thread, a warp, or a whole block of that size.
//
// The chunks of a row, of CHUNK elements each, are distributed over these threads cyclically. If CACHED_CHUNKS is not 0, a row
// has at most CACHED_CHUNKS chunks per thread, which stay in registers: the row is read from memory once, however many passes
// there are.

// The index of this thread among those that share its row.
#define ROW_LANE ((int)threadIdx.x % THREADS_PER_ROW)

// The first row of this thread, and the distance to its next one.
#define FIRST_ROW (GLOBAL_THREAD / THREADS_PER_ROW)
#define ROW_STRIDE (GRID_STRIDE / THREADS_PER_ROW)

// Reduces a value over the threads that share a row; all of them get the result. The order of operations is deterministic.
template <class Number, class Combine>
static __device__ inline Number row_reduce(Number value, Combine combine) {
    if (THREADS_PER_ROW == 1) return value;
    return THREADS_PER_ROW == WARP ? warp_reduce(value, combine) : block_reduce(value, combine);
}

// The offset of element i of a row. Rows that are read in chunks are contiguous, and cached rows have a single axis.
static __device__ inline i64 row_offset(i64 i, const Shape& row, const Strides& strides) {
    if (CHUNK > 1) return i;
    return CACHED_CHUNKS > 0 ? i * strides.by[0] : offset(i, row, strides);
}

// A row whose elements are converted to values by the functor Read.
template <class Number, class Element, class Read>
struct Row {
    const Element* from;
    const Shape& shape;
    const Strides& strides;
    i64 length;
    Number cached[CACHED_CHUNKS > 0 ? CACHED_CHUNKS : 1][CHUNK];

    __device__ inline Row(const Element* from, const Shape& shape, const Strides& strides, i64 length)
        : from(from), shape(shape), strides(strides), length(length) {
#pragma unroll
        for (int k = 0; k < CACHED_CHUNKS; ++k) {
            i64 i = chunk_start(k);
            if (i < length) read(i, cached[k]);
        }
    }

    // The index in the row of the first element of this thread's chunk k.
    __device__ inline i64 chunk_start(i64 k) const { return (k * THREADS_PER_ROW + ROW_LANE) * CHUNK; }

    __device__ inline void read(i64 i, Number (&values)[CHUNK]) const {
        Chunk<Element, CHUNK> chunk = load_chunk<CHUNK>(from + row_offset(i, shape, strides));
#pragma unroll
        for (int at = 0; at < CHUNK; ++at) values[at] = Read()(chunk.at[at]);
    }

    // Calls `use` for each chunk of this thread in order, with its CHUNK values and the index of the first one in the row.
    // Changes to the values persist if the row is cached.
    template <class Use>
    __device__ inline void for_each_chunk(Use use) {
#pragma unroll
        for (int k = 0; k < CACHED_CHUNKS; ++k) {
            i64 i = chunk_start(k);
            if (i < length) use(cached[k], i);
        }
        if (CACHED_CHUNKS > 0) return;
        for (i64 k = 0, i = chunk_start(0); i < length; i = chunk_start(++k)) {
            Number values[CHUNK];
            read(i, values);
            use(values, i);
        }
    }

    // Calls `use` for each value of this thread in order.
    template <class Use>
    __device__ inline void for_each(Use use) {
        for_each_chunk([&](Number(&values)[CHUNK], i64) {
#pragma unroll
            for (int at = 0; at < CHUNK; ++at) use(values[at]);
        });
    }
};
