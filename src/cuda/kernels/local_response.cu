// Local response normalisation: divides elements by a power of the mean square over neighbouring channels. Channels are axis 1.

#include "common.cuh"

extern "C" __global__ void local_response(const T* x, Strides sx, T* y, Strides sy, Shape shape, i64 count, i64 inner, int size,
                                          double alpha, double beta, double k) {
    for (i64 i = GLOBAL_THREAD; i < count; i += GRID_STRIDE) {
        i64 at = offset(i, shape, sx), channels = shape.dims[1], channel = i / inner % channels;
        i64 first = channel - size / 2, end = channel + (size - size / 2);
        first = first < 0 ? 0 : first;
        end = end > channels ? channels : end;
        C squares = 0;
        for (i64 other = first; other < end; ++other) {
            C neighbour = load<C>(x[at + (other - channel) * sx.by[1]]);
            squares += neighbour * neighbour;
        }
        C scale = pow((C)k + (C)alpha * squares / (C)size, (C)beta);
        store<C>(y[offset(i, shape, sy)], load<C>(x[at]) / scale);
    }
}
