// Chunks: neighbouring elements that a thread reads or writes at once, as one word of up to 16 bytes. Memory is as fast as it can be
// when it is asked for such words.

template <class Element, int LENGTH>
struct alignas(sizeof(Element) * LENGTH) Chunk {
    Element at[LENGTH];
};

// The bytes of a chunk, as memory takes them.
template <int BYTES>
struct alignas(BYTES < 16 ? BYTES : 16) Words {
    unsigned at[BYTES / 4];
};
template <>
struct Words<2> {
    unsigned short at[1];
};

// The elements from a place on: as they lie, of which so many are there, or where `is_alone` one for all.
template <int LENGTH, class Element>
static __device__ inline Chunk<Element, LENGTH> chunk_at(const Element* from, bool is_alone = false, i64 there = LENGTH) {
    Chunk<Element, LENGTH> chunk;
    if constexpr (LENGTH > 1) {
        if (!is_alone && there >= LENGTH) {
            auto words = *(const Words<sizeof(chunk)>*)from;
            memcpy(&chunk, &words, sizeof(chunk));
            return chunk;
        }
    }
    Element first = from[0];
#pragma unroll
    for (int at = 0; at < LENGTH; ++at) chunk.at[at] = at == 0 || is_alone || at >= there ? first : from[at];
    return chunk;
}

// Writes a chunk to where there is room for so many elements.
template <int LENGTH, class Element>
static __device__ inline void put_chunk(Element* to, const Chunk<Element, LENGTH>& chunk, i64 room = LENGTH) {
    if constexpr (LENGTH > 1) {
        if (room >= LENGTH) {
            Words<sizeof(chunk)> words;
            memcpy(&words, &chunk, sizeof(chunk));
            *(Words<sizeof(chunk)>*)to = words;
            return;
        }
    }
#pragma unroll
    for (int at = 0; at < LENGTH; ++at) {
        if (at < room) to[at] = chunk.at[at];
    }
}
