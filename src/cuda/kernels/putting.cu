// Elements written to the places that up to four tensors of indices name together. All that can come to the same place is written by
// one thread, in order: every run gives the same bits. JOIN(a, b) is what becomes of an element and one that comes to it.

#include "common.cuh"
#include "faults.cuh"

// The place along an axis of `len` elements, or -1. Indices may count from the end where WRAPS is 1.
static __device__ inline i64 place_of(i64 index, i64 len, i64* faults, i64 who) {
    i64 place = WRAPS && index < 0 ? index + len : index;
    if (place >= 0 && place < len) return place;
    is_outside(index, len, faults, who);
    return -1;
}

// There is a thread for each element along the axes that are not indexed, of lengths `lines`; `middle` are those of the indices.
extern "C" __global__ void put(const S* x, Strides sx, Strides along_x, T* y, Strides sy, Shape lines, Shape middle, i64 many, const i64* a, Strides sa, i64 by_a, int len_a, const i64* b, Strides sb, i64 by_b, int len_b, const i64* c, Strides sc, i64 by_c, int len_c, const i64* d, Strides sd, i64 by_d, int len_d, i64 count, i64* faults, i64 who) {
    for (i64 i = FIRST; i < count; i += STEP) {
        i64 from = offset(i, lines, sx), to = offset(i, lines, sy);
        for (i64 k = 0; k < many; ++k) {
            i64 at = to, place = 0;
            bool is_there = true;
            if (a) place = place_of(a[offset(k, middle, sa)], len_a, faults, who), is_there &= place >= 0, at += place * by_a;
            if (b) place = place_of(b[offset(k, middle, sb)], len_b, faults, who), is_there &= place >= 0, at += place * by_b;
            if (c) place = place_of(c[offset(k, middle, sc)], len_c, faults, who), is_there &= place >= 0, at += place * by_c;
            if (d) place = place_of(d[offset(k, middle, sd)], len_d, faults, who), is_there &= place >= 0, at += place * by_d;
            if (is_there) y[at] = JOIN(y[at], CONVERTED(x[from + offset(k, middle, along_x)]));
        }
    }
}
