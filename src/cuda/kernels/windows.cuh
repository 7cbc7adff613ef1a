// Windows that slide over up to three axes: the input coordinates that their taps read.

// The padding modes.
#define ZEROS 0
#define REFLECT 1
#define REPLICATE 2
#define CIRCULAR 3

// The coordinate within an axis that a possibly padded coordinate reads, or -1 in zero padding.
static __device__ inline int pad_source(int at, int length, int mode) {
    if (at >= 0 && at < length) return at;
    if (mode == REPLICATE) return at < 0 ? 0 : length - 1;
    if (mode == REFLECT) {
        int period = length > 1 ? 2 * (length - 1) : 1;
        at = (at % period + period) % period;
        return at < length ? at : period - at;
    }
    if (mode == CIRCULAR) return (at % length + length) % length;
    return -1;
}

// The coordinate along an axis that tap `tap` of the window at `position` reads, or -1 if it reads nothing. Windows of
// transposed convolutions slide over the output.
static __device__ inline int window_source(int position, int tap, int stride, int pad, int dilation, int length, int mode,
                                           bool transposed) {
    if (!transposed) return pad_source(position * stride - pad + tap * dilation, length, mode);
    int from = position + pad - tap * dilation;
    return from < 0 || from % stride != 0 || from / stride >= length ? -1 : from / stride;
}
