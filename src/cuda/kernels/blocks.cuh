// What the threads of a block find out together. Blocks are of whole warps, and all threads must ask.

#define WARP 32
#define ALL_LANES 0xffffffffu

// A value of every lane of a warp, or of LANES neighbours in it, combined to one that all get: in the same order at every run.
template <int LANES = WARP, class Number, class Combine>
static __device__ inline Number warp_combine(Number value, Combine combine) {
    for (int step = LANES / 2; step > 0; step /= 2) value = combine(value, __shfl_xor_sync(ALL_LANES, value, step));
    return value;
}

// The same of every thread of a block.
template <class Number, class Combine>
static __device__ inline Number block_combine(Number value, Combine combine) {
    __shared__ Number parts[WARP];
    value = warp_combine(value, combine);
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

// The greater of two; NaN where one is.
template <class Number>
struct Greater {
    __device__ Number operator()(Number a, Number b) const { return a >= b || a != a ? a : b; }
};

// What a type can hold of a number.
template <class Element, class Number>
static __device__ inline Number as_stored(Number x) {
    Element stored;
    store<Number>(stored, x);
    return load<Number>(stored);
}

// The less of two; NaN where one is.
template <class Number>
struct Lesser {
    __device__ Number operator()(Number a, Number b) const { return a <= b || a != a ? a : b; }
};

template <class Number>
struct Product {
    __device__ Number operator()(Number a, Number b) const { return a * b; }
};
