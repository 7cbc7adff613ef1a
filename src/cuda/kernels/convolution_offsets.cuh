// Offsets of the elements that a convolution reads and writes. Lengths are those of the last three axes, or of N, D, H and W;
// strides are those of N, C, D, H and W.

// The coordinates of an output: its sample, and its position along D, H and W.
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

// The input coordinate along an axis that a tap reads, or -1 in zero padding.
static __device__ inline int input_coordinate(const Position& position, int axis, int tap, const Shape& in, const Shape& stride,
                                              const Shape& pad, const Shape& dilation) {
    return window_source(position.at[axis], tap, stride.dims[axis], pad.dims[axis], dilation.dims[axis], in.dims[axis], MODE,
                         TRANSPOSED);
}

// The offset of the input element that a tap reads within its sample and channel, or -1 in zero padding.
static __device__ inline i64 input_offset(const Position& position, int tap, const Shape& in, const Shape& taps, const Shape& stride,
                                          const Shape& pad, const Shape& dilation, const Strides& sx) {
    i64 offset = 0;
    for (int axis = 2; axis >= 0; --axis) {
        int of_axis = tap % taps.dims[axis];
        tap /= taps.dims[axis];
        int coordinate = input_coordinate(position, axis, of_axis, in, stride, pad, dilation);
        if (coordinate < 0) return -1;
        offset += coordinate * sx.by[2 + axis];
    }
    return offset;
}

static __device__ inline i64 weight_offset(int tap, const Shape& taps, const Strides& sw) {
    i64 offset = 0;
    for (int axis = 2; axis >= 0; --axis) {
        offset += tap % taps.dims[axis] * sw.by[2 + axis];
        tap /= taps.dims[axis];
    }
    return offset;
}

static __device__ inline i64 output_offset(const Position& position, int channel, const Strides& sy) {
    return position.n * sy.by[0] + channel * sy.by[1] + position.at[0] * sy.by[2] + position.at[1] * sy.by[3] +
           position.at[2] * sy.by[4];
}
