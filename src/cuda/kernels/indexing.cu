// Gathers elements at indices of type I. An index that is out of range fails the run.

#include "common.cuh"
#include "chunks.cuh"
#include "faults.cuh"

// The position of an index along an axis of `len` elements, or -1 if it is out of range. With WRAPS, negative indices count
// from the end.
static __device__ inline i64 resolve_index(i64 index, i64 len, i64* faults, i64 operator_id) {
    i64 position = WRAPS && index < 0 ? index + len : index;
    if (position >= 0 && position < len) return position;
    is_outside(index, len, faults, operator_id);
    return -1;
}

// Each element of y is the element of x at the same coordinates, except that the coordinate along one axis is the index. If
// CHUNK is greater than 1, that many adjacent elements share an index.
extern "C" __global__ void gather(const T* x, Strides sx, const I* index, Strides si, T* y, Strides sy, Shape shape, int axis, int len,
                                  i64 count, i64* faults, i64 operator_id) {
    for (i64 i = GLOBAL_THREAD * CHUNK; i < count; i += GRID_STRIDE * CHUNK) {
        i64 rest = i, from = 0, to = 0, at = 0, by = 0;
#pragma unroll
        for (int along = MAX_AXES - 1; along >= 0; --along) {
            if (along >= shape.rank) continue;
            i64 coordinate = pop_innermost(rest, shape.dims[along]);
            to += coordinate * sy.by[along];
            at += coordinate * si.by[along];
            if (along == axis) by = sx.by[along];
            else from += coordinate * sx.by[along];
        }
        i64 position = resolve_index((i64)index[at], len, faults, operator_id);
        if (position >= 0) store_chunk(y + to, load_chunk<CHUNK>(x + from + position * by));
        else store_chunk(y + to, Chunk<T, CHUNK>());
    }
}

// Each element of y is the element of x at the indices of up to four index tensors, and at the same coordinates along the other
// axes. `own` has the strides of x along these axes.
extern "C" __global__ void advanced_index(const T* x, Strides own, T* y, Strides sy, Shape shape, const i64* a, Strides sa, i64 by_a,
                                          int len_a, const i64* b, Strides sb, i64 by_b, int len_b, const i64* c, Strides sc, i64 by_c,
                                          int len_c, const i64* d, Strides sd, i64 by_d, int len_d, i64 count, i64* faults,
                                          i64 operator_id) {
    for (i64 i = GLOBAL_THREAD; i < count; i += GRID_STRIDE) {
        i64 from = offset(i, shape, own), at = 0;
        bool is_inside = true;
        if (a) at = resolve_index(a[offset(i, shape, sa)], len_a, faults, operator_id), is_inside &= at >= 0, from += at * by_a;
        if (b) at = resolve_index(b[offset(i, shape, sb)], len_b, faults, operator_id), is_inside &= at >= 0, from += at * by_b;
        if (c) at = resolve_index(c[offset(i, shape, sc)], len_c, faults, operator_id), is_inside &= at >= 0, from += at * by_c;
        if (d) at = resolve_index(d[offset(i, shape, sd)], len_d, faults, operator_id), is_inside &= at >= 0, from += at * by_d;
        y[offset(i, shape, sy)] = is_inside ? x[from] : T();
    }
}
