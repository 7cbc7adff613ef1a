// Inclusive scan (sum or product) of each row, with one thread per row. It is accumulated in W, the widest type of
// its kind.

#include "common.cuh"

extern "C" __global__ void scan(const X* x, Strides x_outer, Strides x_row, T* y, Strides y_outer, Strides y_row, Shape outer, Shape row,
                                i64 rows, i64 length) {
    for (i64 at = GLOBAL_THREAD; at < rows; at += GRID_STRIDE) {
        const X* from = x + offset(at, outer, x_outer);
        T* to = y + offset(at, outer, y_outer);
        W total = IS_PRODUCT ? 1 : 0;
        for (i64 i = 0; i < length; ++i) {
            W element = (W)load<C>(from[offset(i, row, x_row)]);
            total = IS_PRODUCT ? total * element : total + element;
            store<C>(to[offset(i, row, y_row)], (C)total);
        }
    }
}
