// Windows that slide over up to three axes: where a place that a window looks at lies in the input.

// What lies outside of an input.
#define ZEROS 0
#define REFLECT 1
#define REPLICATE 2
#define CIRCULAR 3

// The place within an axis that a place outside stands for; -1 for none.
static __device__ inline int place_within(int at, int length, int mode) {
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

// Where tap `tap` of the window at `position` looks along an axis; -1 for nowhere. Transposed windows slide over the output.
static __device__ inline int place_of(int position, int tap, int stride, int pad, int dilation, int length, int mode, bool transposed) {
    if (!transposed) return place_within(position * stride - pad + tap * dilation, length, mode);
    int from = position + pad - tap * dilation;
    return from < 0 || from % stride != 0 || from / stride >= length ? -1 : from / stride;
}
