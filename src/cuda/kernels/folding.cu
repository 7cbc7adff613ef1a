// `unfold` extracts sliding windows of images as columns (im2col); `fold` adds columns back up to images (col2im), summing in a
// deterministic order.
//
// Images are N, C, H, W; columns are N, C * taps, positions. `window` holds the taps, stride, padding and dilation of both
// axes, and `positions` the number of window positions along each.

#include "common.cuh"

extern "C" __global__ void unfold(const T* x, Strides sx, T* y, Strides sy, Shape in, Shape window, Shape positions, i64 count) {
    for (i64 i = GLOBAL_THREAD; i < count; i += GRID_STRIDE) {
        i64 position = i % ((i64)positions.dims[0] * positions.dims[1]), rest = i / ((i64)positions.dims[0] * positions.dims[1]);
        i64 taps = (i64)window.dims[0] * window.dims[1], tap = rest % taps, channel = rest / taps % in.dims[1];
        i64 n = rest / taps / in.dims[1];
        i64 h = position / positions.dims[1] * window.dims[2] - window.dims[4] + tap / window.dims[1] * window.dims[6];
        i64 w = position % positions.dims[1] * window.dims[3] - window.dims[5] + tap % window.dims[1] * window.dims[7];
        bool is_inside = h >= 0 && h < in.dims[2] && w >= 0 && w < in.dims[3];
        T zero;
        store<C>(zero, (C)0);
        y[n * sy.by[0] + (channel * taps + tap) * sy.by[1] + position * sy.by[2]] =
            is_inside ? x[n * sx.by[0] + channel * sx.by[1] + h * sx.by[2] + w * sx.by[3]] : zero;
    }
}

extern "C" __global__ void fold(const T* x, Strides sx, T* y, Strides sy, Shape in, Shape window, Shape positions, i64 count) {
    for (i64 i = GLOBAL_THREAD; i < count; i += GRID_STRIDE) {
        i64 w = i % in.dims[3], h = i / in.dims[3] % in.dims[2], channel = i / in.dims[3] / in.dims[2] % in.dims[1];
        i64 n = i / in.dims[3] / in.dims[2] / in.dims[1], taps = (i64)window.dims[0] * window.dims[1];
        C sum = 0;
        for (i64 tap = 0; tap < taps; ++tap) {
            i64 down = h + window.dims[4] - tap / window.dims[1] * window.dims[6];
            i64 right = w + window.dims[5] - tap % window.dims[1] * window.dims[7];
            if (down < 0 || right < 0 || down % window.dims[2] != 0 || right % window.dims[3] != 0) continue;
            i64 row = down / window.dims[2], column = right / window.dims[3];
            if (row >= positions.dims[0] || column >= positions.dims[1]) continue;
            i64 position = row * positions.dims[1] + column;
            sum += load<C>(x[n * sx.by[0] + (channel * taps + tap) * sx.by[1] + position * sx.by[2]]);
        }
        store<C>(y[n * sy.by[0] + channel * sy.by[1] + h * sy.by[2] + w * sy.by[3]], sum);
    }
}
