// Chunks: neighbouring elements that a thread reads or writes at once, as one word of up to 16 bytes. Memory is as fast as it can be
// when it is asked for such words.

template <class Element, int LENGTH>
struct alignas(sizeof(Element) * LENGTH) Chunk {
    Element at[LENGTH];
};

// The elements from a place on: as they lie, of which so many are there, or where `by` is 0 one for all.
template <int LENGTH, class Element>
static __device__ inline Chunk<Element, LENGTH> chunk_at(const Element* from, i64 by = 1, i64 there = LENGTH) {
    Chunk<Element, LENGTH> chunk;
    if (LENGTH > 1 && by != 0 && there >= LENGTH) return *(const Chunk<Element, LENGTH>*)from;
    bool is_one = LENGTH == 1 || by == 0;
    Element first = from[0];
#pragma unroll
    for (int at = 0; at < LENGTH; ++at) chunk.at[at] = is_one || at >= there ? first : from[at];
    return chunk;
}

// Writes a chunk to where there is room for so many elements.
template <int LENGTH, class Element>
static __device__ inline void put_chunk(Element* to, const Chunk<Element, LENGTH>& chunk, i64 room = LENGTH) {
    if (LENGTH > 1 && room >= LENGTH) {
        *(Chunk<Element, LENGTH>*)to = chunk;
        return;
    }
#pragma unroll
    for (int at = 0; at < LENGTH; ++at) {
        if (at < room) to[at] = chunk.at[at];
    }
}
