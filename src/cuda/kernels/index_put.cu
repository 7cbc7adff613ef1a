// Writes elements at the indices of up to four index tensors. All writes to the same position are done by one thread, in order,
// so that every run gives the same bits. COMBINE(a, b) combines the existing element a with the written element b.

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

// One thread per position along the axes that are not indexed, whose lengths are `outer`. `index_shape` is the shape of the
// indices, of which there are `indices`.
extern "C" __global__ void index_put(const S* x, Strides sx, Strides along_x, T* y, Strides sy, Shape outer, Shape index_shape,
                                     i64 indices, const i64* a, Strides sa, i64 by_a, int len_a, const i64* b, Strides sb, i64 by_b,
                                     int len_b, const i64* c, Strides sc, i64 by_c, int len_c, const i64* d, Strides sd, i64 by_d,
                                     int len_d, i64 count, i64* faults, i64 operator_id) {
    for (i64 i = GLOBAL_THREAD; i < count; i += GRID_STRIDE) {
        i64 from = offset(i, outer, sx), to = offset(i, outer, sy);
        for (i64 k = 0; k < indices; ++k) {
            i64 target = to, at = 0;
            bool is_inside = true;
            if (a) {
                at = resolve_index(a[offset(k, index_shape, sa)], len_a, faults, operator_id);
                is_inside &= at >= 0, target += at * by_a;
            }
            if (b) {
                at = resolve_index(b[offset(k, index_shape, sb)], len_b, faults, operator_id);
                is_inside &= at >= 0, target += at * by_b;
            }
            if (c) {
                at = resolve_index(c[offset(k, index_shape, sc)], len_c, faults, operator_id);
                is_inside &= at >= 0, target += at * by_c;
            }
            if (d) {
                at = resolve_index(d[offset(k, index_shape, sd)], len_d, faults, operator_id);
                is_inside &= at >= 0, target += at * by_d;
            }
            if (is_inside) y[target] = COMBINE(y[target], CONVERT(x[from + offset(k, index_shape, along_x)]));
        }
    }
}
