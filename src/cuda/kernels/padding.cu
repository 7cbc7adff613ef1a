// Pads tensors with a constant, or with elements of the input according to the padding mode.

#include "common.cuh"
#include "windows.cuh"

extern "C" __global__ void pad(const T* x, Strides sx, T* y, Strides sy, Shape out, Shape in, Shape before, i64 count, double value) {
    for (i64 i = GLOBAL_THREAD; i < count; i += GRID_STRIDE) {
        i64 rest = i, from = 0, to = 0;
        bool is_inside = true;
        for (int axis = out.rank - 1; axis >= 0; --axis) {
            int at = (int)(rest % out.dims[axis]), source = pad_source(at - before.dims[axis], in.dims[axis], MODE);
            rest /= out.dims[axis];
            is_inside = is_inside && source >= 0;
            from += source * sx.by[axis];
            to += at * sy.by[axis];
        }
        if (is_inside) y[to] = x[from];
        else store<C>(y[to], (C)value);
    }
}
