// Vectorised memory access: a chunk is a group of adjacent elements that a thread loads or stores as one word of up to 16
// bytes. Memory bandwidth is highest for such words.

template <class Element, int LENGTH>
struct alignas(sizeof(Element) * LENGTH) Chunk {
    Element at[LENGTH];
};

// The words that a chunk is loaded and stored as.
template <int BYTES>
struct alignas(BYTES < 16 ? BYTES : 16) Words {
    unsigned at[BYTES / 4];
};
template <>
struct Words<2> {
    unsigned short at[1];
};

// Loads a chunk of which `available` elements exist. If `is_broadcast`, the first element is used for all of them.
template <int LENGTH, class Element>
static __device__ inline Chunk<Element, LENGTH> load_chunk(const Element* from, bool is_broadcast = false, i64 available = LENGTH) {
    Chunk<Element, LENGTH> chunk;
    if constexpr (LENGTH > 1) {
        if (!is_broadcast && available >= LENGTH) {
            auto words = *(const Words<sizeof(chunk)>*)from;
            memcpy(&chunk, &words, sizeof(chunk));
            return chunk;
        }
    }
    Element first = from[0];
#pragma unroll
    for (int at = 0; at < LENGTH; ++at) chunk.at[at] = at == 0 || is_broadcast || at >= available ? first : from[at];
    return chunk;
}

// Stores the first `available` elements of a chunk, or all of them.
template <int LENGTH, class Element>
static __device__ inline void store_chunk(Element* to, const Chunk<Element, LENGTH>& chunk, i64 available = LENGTH) {
    if constexpr (LENGTH > 1) {
        if (available >= LENGTH) {
            Words<sizeof(chunk)> words;
            memcpy(&words, &chunk, sizeof(chunk));
            *(Words<sizeof(chunk)>*)to = words;
            return;
        }
    }
#pragma unroll
    for (int at = 0; at < LENGTH; ++at) {
        if (at < available) to[at] = chunk.at[at];
    }
}
