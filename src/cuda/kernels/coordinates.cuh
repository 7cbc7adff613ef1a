// The coordinates N, C, D, H and W of an output. Indices follow memory order: with CHANNELS_LAST, the channels of a position
// are adjacent.

static __device__ inline void output_coordinates(i64 index, const Shape& out, int (&at)[5]) {
    if (CHANNELS_LAST) at[1] = (int)pop_innermost(index, out.dims[1]);
#pragma unroll
    for (int axis = 4; axis >= 2; --axis) at[axis] = (int)pop_innermost(index, out.dims[axis]);
    if (!CHANNELS_LAST) at[1] = (int)pop_innermost(index, out.dims[1]);
    at[0] = (int)index;
}
