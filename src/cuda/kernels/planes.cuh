// The places of an output of N, C, D, H and W. Threads go through them as they lie in memory: where CHANNELS_LAST is 1, the channels of
// a place are neighbours.

static __device__ inline void places_of(i64 index, const Shape& out, int (&at)[5]) {
    if (CHANNELS_LAST) at[1] = (int)innermost(index, out.dims[1]);
#pragma unroll
    for (int axis = 4; axis >= 2; --axis) at[axis] = (int)innermost(index, out.dims[axis]);
    if (!CHANNELS_LAST) at[1] = (int)innermost(index, out.dims[1]);
    at[0] = (int)index;
}
