// Elements written to the places that indices name along one axis. All that can come to the same place is written by one thread,
// in order: every run gives the same bits. JOIN(a, b) is what becomes of an element and one that comes to it.

#include "common.cuh"
#include "faults.cuh"

// The place along an axis of `len` elements, or -1. Indices may count from the end where WRAPS is 1.
static __device__ inline i64 place_of(i64 index, i64 len, i64* faults, i64 who) {
    i64 place = WRAPS && index < 0 ? index + len : index;
    if (place >= 0 && place < len) return place;
    is_outside(index, len, faults, who);
    return -1;
}

// There is a thread for each line along the axis: `lines` are the lengths of the other axes, and strides those along them. Along
// the axis are `many` indices, and steps from one element to the next. Sources are as they are stored, numbers of type C.
extern "C" __global__ void scattered(const T* x, Strides sx, i64 step_x, const I* index, Strides si, i64 step_i, T* y, Strides sy, i64 step_y, Shape lines, int many, int len, i64 count, i64* faults, i64 who) {
    for (i64 i = FIRST; i < count; i += STEP) {
        i64 from = offset(i, lines, sx), at = offset(i, lines, si), to = offset(i, lines, sy);
        for (int k = 0; k < many; ++k) {
            i64 place = place_of((i64)index[at + k * step_i], len, faults, who);
            if (place < 0) continue;
            T& target = y[to + place * step_y];
            target = JOIN(target, x[from + k * step_x]);
        }
    }
}
