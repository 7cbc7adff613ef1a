// The coordinates N, C, D, H and W of an output. Indices follow memory order: with CHANNELS_LAST, the channels of a position
// are adjacent.

template <class Index>
static __device__ inline void coordinates_of(Index index, const Shape& out, int (&at)[5]) {
    const int order[4] = {CHANNELS_LAST ? 1 : 4, CHANNELS_LAST ? 4 : 3, CHANNELS_LAST ? 3 : 2, CHANNELS_LAST ? 2 : 1};
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        Index length = (Index)out.dims[order[i]], next = index / length;
        at[order[i]] = (int)(index - next * length);
        index = next;
    }
    at[0] = (int)index;
}

// As in `offset`, 64-bit divisions are avoided where possible.
static __device__ inline void output_coordinates(i64 index, const Shape& out, int (&at)[5]) {
    if (index >> 32) return coordinates_of((unsigned long long)index, out, at);
    return coordinates_of((unsigned)index, out, at);
}
