// Rows whose numbers READERS threads read together: one for itself, a warp, or else a whole block of so many.
//
// Each of them reads every so many-th chunk of CHUNK elements. Where KEPT is not 0, a row has no more than KEPT chunks for each
// thread, which keeps them in registers: the row is read once, however often its numbers are looked at.

// Which of those that share a row this thread is.
#define READER ((int)threadIdx.x % READERS)

// The first row of this thread, and how far its next one is.
#define FIRST_ROW (FIRST / READERS)
#define ROW_STEP (STEP / READERS)

// What the threads that share a row have found, combined to what all of them get: in the same order at every run.
template <class Number, class Combine>
static __device__ inline Number together(Number value, Combine combine) {
    if (READERS == 1) return value;
    return READERS == WARP ? warp_combine(value, combine) : block_combine(value, combine);
}

// Where an element of a row lies. Those of chunks are neighbours, and rows that are kept have one axis.
static __device__ inline i64 place_in(i64 i, const Shape& row, const Strides& strides) {
    if (CHUNK > 1) return i;
    return KEPT > 0 ? i * strides.by[0] : offset(i, row, strides);
}

// A row of elements, seen as what Read makes of them.
template <class Number, class Element, class Read>
struct Row {
    const Element* from;
    const Shape& shape;
    const Strides& strides;
    i64 length;
    Number kept[KEPT > 0 ? KEPT : 1][CHUNK];

    __device__ inline Row(const Element* from, const Shape& shape, const Strides& strides, i64 length)
        : from(from), shape(shape), strides(strides), length(length) {
#pragma unroll
        for (int k = 0; k < KEPT; ++k) {
            i64 i = place_of(k);
            if (i < length) read(i, kept[k]);
        }
    }

    // The number of the first element of a chunk of this thread.
    __device__ inline i64 place_of(i64 k) const { return (k * READERS + READER) * CHUNK; }

    __device__ inline void read(i64 i, Number (&numbers)[CHUNK]) const {
        Chunk<Element, CHUNK> chunk = chunk_at<CHUNK>(from + place_in(i, shape, strides));
#pragma unroll
        for (int at = 0; at < CHUNK; ++at) numbers[at] = Read()(chunk.at[at]);
    }

    // Shows all chunks of this thread in order: CHUNK numbers, and where the first of them stands in the row. What becomes of the
    // numbers stays where they are kept.
    template <class Use>
    __device__ inline void each_chunk(Use use) {
#pragma unroll
        for (int k = 0; k < KEPT; ++k) {
            i64 i = place_of(k);
            if (i < length) use(kept[k], i);
        }
        if (KEPT > 0) return;
        for (i64 k = 0, i = place_of(0); i < length; i = place_of(++k)) {
            Number numbers[CHUNK];
            read(i, numbers);
            use(numbers, i);
        }
    }

    // Shows all numbers of this thread in order.
    template <class Use>
    __device__ inline void each(Use use) {
        each_chunk([&](Number(&numbers)[CHUNK], i64) {
#pragma unroll
            for (int at = 0; at < CHUNK; ++at) use(numbers[at]);
        });
    }
};
