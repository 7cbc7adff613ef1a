// Elements with others around them: of one value, or those of the input again.

#include "common.cuh"
#include "windows.cuh"

extern "C" __global__ void padded(const T* x, Strides sx, T* y, Strides sy, Shape out, Shape in, Shape before, i64 count, double value) {
    for (i64 i = FIRST; i < count; i += STEP) {
        i64 rest = i, from = 0, to = 0;
        bool is_inside = true;
        for (int axis = out.rank - 1; axis >= 0; --axis) {
            int at = (int)(rest % out.dims[axis]), place = place_within(at - before.dims[axis], in.dims[axis], MODE);
            rest /= out.dims[axis];
            is_inside = is_inside && place >= 0;
            from += place * sx.by[axis];
            to += at * sy.by[axis];
        }
        if (is_inside) y[to] = x[from];
        else store<C>(y[to], (C)value);
    }
}
