// Elements from one place to another, whatever they are: T has as many bytes.

#include "common.cuh"

extern "C" __global__ void copy_elements(const T* x, Strides from, T* y, Strides to, Shape shape, i64 count) {
    for (i64 i = FIRST; i < count; i += STEP) {
        y[offset(i, shape, to)] = x[offset(i, shape, from)];
    }
}
