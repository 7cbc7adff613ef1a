// Reductions over warps and blocks. A block must consist of full warps, and all its threads must take part.

#define WARP 32
#define ALL_LANES 0xffffffffu

// Reduces a value over a warp, or over groups of LANES adjacent lanes; every lane gets the result. The order of operations is
// deterministic.
template <int LANES = WARP, class Number, class Combine>
static __device__ inline Number warp_reduce(Number value, Combine combine) {
    for (int step = LANES / 2; step > 0; step /= 2) value = combine(value, __shfl_xor_sync(ALL_LANES, value, step));
    return value;
}

// Reduces a value over a block; every thread gets the result.
template <class Number, class Combine>
static __device__ inline Number block_reduce(Number value, Combine combine) {
    __shared__ Number parts[WARP];
    value = warp_reduce(value, combine);
    int warps = blockDim.x / WARP;
    if (warps == 1) return value;
    __syncthreads();
    if (threadIdx.x % WARP == 0) parts[threadIdx.x / WARP] = value;
    __syncthreads();
    value = parts[0];
    for (int warp = 1; warp < warps; ++warp) value = combine(value, parts[warp]);
    return value;
}

template <class Number>
struct Sum {
    __device__ Number operator()(Number a, Number b) const { return a + b; }
};

// The maximum of two values, or NaN if either is.
template <class Number>
struct Max {
    __device__ Number operator()(Number a, Number b) const { return a >= b || a != a ? a : b; }
};

// Rounds a value to what an element type can represent.
template <class Element, class Number>
static __device__ inline Number as_stored(Number x) {
    Element stored;
    store<Number>(stored, x);
    return load<Number>(stored);
}

// The minimum of two values, or NaN if either is.
template <class Number>
struct Min {
    __device__ Number operator()(Number a, Number b) const { return a <= b || a != a ? a : b; }
};

template <class Number>
struct Product {
    __device__ Number operator()(Number a, Number b) const { return a * b; }
};
