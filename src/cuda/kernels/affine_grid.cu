// Sampling grids of affine maps, for images or volumes. Coordinates are normalised to -1 to 1, and start with the last axis.

#include "common.cuh"

static __device__ inline C normalized(i64 index, int length) {
    if (length < 2) return 0;
    return (C)((2.0 * (double)index - (double)(length - 1)) / (double)(ALIGNED ? length - 1 : length));
}

extern "C" __global__ void affine_grid(const T* maps, Strides sm, T* y, Strides sy, Shape out, i64 count) {
    for (i64 i = GLOBAL_THREAD; i < count; i += GRID_STRIDE) {
        i64 rest = i, at[8], to = 0;
        for (int axis = out.rank - 1; axis >= 0; --axis) {
            at[axis] = rest % out.dims[axis];
            rest /= out.dims[axis];
            to += at[axis] * sy.by[axis];
        }
        int axes = out.rank - 2;
        const T* row = maps + at[0] * sm.by[0] + at[axes + 1] * sm.by[1];
        C sum = 0;
        for (int column = 0; column < axes; ++column) {
            int axis = axes - column;
            sum += load<C>(row[column * sm.by[2]]) * normalized(at[axis], out.dims[axis]);
        }
        store<C>(y[to], sum + load<C>(row[axes * sm.by[2]]));
    }
}
