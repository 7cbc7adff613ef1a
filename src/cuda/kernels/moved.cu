// Elements that come from elsewhere along each axis: HOW[axis] says where from, `by` how far.

#include "common.cuh"

#define KEPT 0
#define REVERSED 1
#define ROLLED 2
#define REPEATED 3
#define EACH_REPEATED 4

extern "C" __global__ void moved(const T* x, Strides sx, T* y, Strides sy, Shape out, Shape in, Shape how, Shape by, i64 count) {
    for (i64 i = FIRST; i < count; i += STEP) {
        i64 rest = i, from = 0, to = 0;
#pragma unroll
        for (int axis = MOST_AXES - 1; axis >= 0; --axis) {
            if (axis >= out.rank) continue;
            i64 at = innermost(rest, out.dims[axis]), length = in.dims[axis], place = at;
            switch (how.dims[axis]) {
                case REVERSED: place = length - 1 - at; break;
                case ROLLED: place = at < by.dims[axis] ? at - by.dims[axis] + length : at - by.dims[axis]; break;
                case REPEATED: place = (int)at % (int)length; break;
                case EACH_REPEATED: place = (int)at / by.dims[axis]; break;
            }
            from += place * sx.by[axis];
            to += at * sy.by[axis];
        }
        y[to] = x[from];
    }
}
