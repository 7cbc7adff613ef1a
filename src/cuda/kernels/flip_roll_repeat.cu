// Flips, rolls and repeats tensors along each axis: `how` has the operation of each axis, and `by` its distance or count.

#include "common.cuh"

#define UNCHANGED 0
#define FLIPPED 1
#define ROLLED 2
#define TILED 3
#define INTERLEAVED 4

extern "C" __global__ void flip_roll_repeat(const T* x, Strides sx, T* y, Strides sy, Shape out, Shape in, Shape how, Shape by,
                                            i64 count) {
    for (i64 i = GLOBAL_THREAD; i < count; i += GRID_STRIDE) {
        i64 rest = i, from = 0, to = 0;
#pragma unroll
        for (int axis = MAX_AXES - 1; axis >= 0; --axis) {
            if (axis >= out.rank) continue;
            i64 at = pop_innermost(rest, out.dims[axis]), length = in.dims[axis], source = at;
            switch (how.dims[axis]) {
                case FLIPPED: source = length - 1 - at; break;
                case ROLLED: source = at < by.dims[axis] ? at - by.dims[axis] + length : at - by.dims[axis]; break;
                case TILED: source = (int)at % (int)length; break;
                case INTERLEAVED: source = (int)at / by.dims[axis]; break;
            }
            from += source * sx.by[axis];
            to += at * sy.by[axis];
        }
        y[to] = x[from];
    }
}
