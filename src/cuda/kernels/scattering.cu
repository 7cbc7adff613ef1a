// Scatters elements to indices along one axis. All writes to the same position are done by one thread, in order, so that every
// run gives the same bits. COMBINE(a, b) combines the existing element a with the written element b.

#include "common.cuh"
#include "faults.cuh"

// The position of an index along an axis of `len` elements, or -1 if it is out of range. With WRAPS, negative indices count
// from the end.
static __device__ inline i64 resolve_index(i64 index, i64 len, i64* faults, i64 operator_id) {
    i64 position = WRAPS && index < 0 ? index + len : index;
    if (position >= 0 && position < len) return position;
    is_outside(index, len, faults, operator_id);
    return -1;
}

// One thread per line along the axis: `outer` has the lengths of the other axes, and `sx`, `si` and `sy` the strides along
// them. A line has `indices` indices, and `step_x`, `step_i` and `step_y` are the strides along it. x has the element type of y.
extern "C" __global__ void scatter(const T* x, Strides sx, i64 step_x, const I* index, Strides si, i64 step_i, T* y, Strides sy,
                                   i64 step_y, Shape outer, int indices, int len, i64 count, i64* faults, i64 operator_id) {
    for (i64 i = GLOBAL_THREAD; i < count; i += GRID_STRIDE) {
        i64 from = offset(i, outer, sx), at = offset(i, outer, si), to = offset(i, outer, sy);
        for (int k = 0; k < indices; ++k) {
            i64 position = resolve_index((i64)index[at + k * step_i], len, faults, operator_id);
            if (position < 0) continue;
            T& target = y[to + position * step_y];
            target = COMBINE(target, x[from + k * step_x]);
        }
    }
}
