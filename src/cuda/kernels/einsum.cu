// Sums of products of up to four tensors, one thread per sum. Each tensor has its strides along the labels of the output (`o0`
// to `o3`), and along the labels that are summed over (`s0` to `s3`).

#include "common.cuh"

extern "C" __global__ void einsum(const X* x0, Strides o0, Strides s0, const X* x1, Strides o1, Strides s1, const X* x2, Strides o2,
                                  Strides s2, const X* x3, Strides o3, Strides s3, T* y, Strides sy, Shape out, Shape summed, i64 count,
                                  i64 terms) {
    for (i64 i = GLOBAL_THREAD; i < count; i += GRID_STRIDE) {
        const X* at0 = x0 + offset(i, out, o0);
        const X* at1 = x1 ? x1 + offset(i, out, o1) : x1;
        const X* at2 = x2 ? x2 + offset(i, out, o2) : x2;
        const X* at3 = x3 ? x3 + offset(i, out, o3) : x3;
        C sum = 0;
        for (i64 term = 0; term < terms; ++term) {
            C product = load<C>(at0[offset(term, summed, s0)]);
            if (at1) product *= load<C>(at1[offset(term, summed, s1)]);
            if (at2) product *= load<C>(at2[offset(term, summed, s2)]);
            if (at3) product *= load<C>(at3[offset(term, summed, s3)]);
            sum += product;
        }
        store<C>(y[offset(i, out, sy)], sum);
    }
}
