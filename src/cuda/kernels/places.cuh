// Where the windows of a convolution look: lengths are of the last three axes, or of N, D, H and W; strides of N, C, D, H and W.

// The place of an output, and of the input's first channel of its group.
struct Position {
    bool is_inside;
    int n, at[3];
};

static __device__ inline Position position_of(i64 index, i64 count, const Shape& out) {
    Position position;
    position.is_inside = index < count;
    for (int axis = 2; axis >= 0; --axis) {
        position.at[axis] = (int)(index % out.dims[axis + 1]);
        index /= out.dims[axis + 1];
    }
    position.n = (int)index;
    return position;
}

// The place along an axis at which a tap of it looks; -1 for outside.
static __device__ inline int place_at(const Position& position, int axis, int tap, const Shape& in, const Shape& stride,
                                      const Shape& pad, const Shape& dilation) {
    return place_of(position.at[axis], tap, stride.dims[axis], pad.dims[axis], dilation.dims[axis], in.dims[axis], MODE, TRANSPOSED);
}

// Where a tap of a position lies in the input; -1 for outside.
static __device__ inline i64 input_of(const Position& position, int tap, const Shape& in, const Shape& taps, const Shape& stride,
                                      const Shape& pad, const Shape& dilation, const Strides& sx) {
    i64 offset = 0;
    for (int axis = 2; axis >= 0; --axis) {
        int of_axis = tap % taps.dims[axis];
        tap /= taps.dims[axis];
        int place = place_at(position, axis, of_axis, in, stride, pad, dilation);
        if (place < 0) return -1;
        offset += place * sx.by[2 + axis];
    }
    return offset;
}

static __device__ inline i64 weight_of(int tap, const Shape& taps, const Strides& sw) {
    i64 offset = 0;
    for (int axis = 2; axis >= 0; --axis) {
        offset += tap % taps.dims[axis] * sw.by[2 + axis];
        tap /= taps.dims[axis];
    }
    return offset;
}

static __device__ inline i64 output_of(const Position& position, int channel, const Strides& sy) {
    return position.n * sy.by[0] + channel * sy.by[1] + position.at[0] * sy.by[2] + position.at[1] * sy.by[3] +
           position.at[2] * sy.by[4];
}
