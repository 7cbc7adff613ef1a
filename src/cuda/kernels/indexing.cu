// Elements at the places that indices name. I is the type of indices; one that is out of range fails the run.

#include "common.cuh"
#include "chunks.cuh"
#include "faults.cuh"

// The place along an axis of `len` elements, or -1. Indices may count from the end where WRAPS is 1.
static __device__ inline i64 place_of(i64 index, i64 len, i64* faults, i64 who) {
    i64 place = WRAPS && index < 0 ? index + len : index;
    if (place >= 0 && place < len) return place;
    is_outside(index, len, faults, who);
    return -1;
}

// Each element of y is that of x at its own place, but at the index along one axis. CHUNK neighbours share an index, where it is more
// than one.
extern "C" __global__ void gathered(const T* x, Strides sx, const I* index, Strides si, T* y, Strides sy, Shape shape, int axis, int len, i64 count, i64* faults, i64 who) {
    for (i64 i = FIRST * CHUNK; i < count; i += STEP * CHUNK) {
        i64 rest = i, from = 0, to = 0, at = 0, by = 0;
#pragma unroll
        for (int along = MOST_AXES - 1; along >= 0; --along) {
            if (along >= shape.rank) continue;
            i64 place = innermost(rest, shape.dims[along]);
            to += place * sy.by[along];
            at += place * si.by[along];
            if (along == axis) by = sx.by[along];
            else from += place * sx.by[along];
        }
        i64 place = place_of((i64)index[at], len, faults, who);
        if (place >= 0) put_chunk(y + to, chunk_at<CHUNK>(x + from + place * by));
        else put_chunk(y + to, Chunk<T, CHUNK>());
    }
}

// Each element of y is that of x at the places that up to four tensors of indices name, and at its own along the other axes, for
// which `own` has the strides of x.
extern "C" __global__ void indexed(const T* x, Strides own, T* y, Strides sy, Shape shape, const i64* a, Strides sa, i64 by_a, int len_a, const i64* b, Strides sb, i64 by_b, int len_b, const i64* c, Strides sc, i64 by_c, int len_c, const i64* d, Strides sd, i64 by_d, int len_d, i64 count, i64* faults, i64 who) {
    for (i64 i = FIRST; i < count; i += STEP) {
        i64 from = offset(i, shape, own), place = 0;
        bool is_there = true;
        if (a) place = place_of(a[offset(i, shape, sa)], len_a, faults, who), is_there &= place >= 0, from += place * by_a;
        if (b) place = place_of(b[offset(i, shape, sb)], len_b, faults, who), is_there &= place >= 0, from += place * by_b;
        if (c) place = place_of(c[offset(i, shape, sc)], len_c, faults, who), is_there &= place >= 0, from += place * by_c;
        if (d) place = place_of(d[offset(i, shape, sd)], len_d, faults, who), is_there &= place >= 0, from += place * by_d;
        y[offset(i, shape, sy)] = is_there ? x[from] : T();
    }
}
