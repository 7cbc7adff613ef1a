// Fourier transforms along one axis, a block for each row: by halving where the length is a power of two (Stockham 1966), else term
// by term. The row, its other half and all roots of unity are in shared memory. R is float or double.
//
// A row has `given` numbers; what is missing is 0, or with MIRRORED the conjugate of its counterpart. `made` of the results are
// written, times a factor.

#include "common.cuh"

#ifndef SIGN
// `scale` alone is asked for.
#define SIGN 1.0
#define MIRRORED 0
#define BY_HALVING 0
#endif

struct Pair {
    R re, im;
};

static __device__ inline Pair product_of(Pair a, Pair b) { return {a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re}; }

template <class Element>
static __device__ inline Pair pair_of(const Element& x) {
    return {load<R>(x), (R)0};
}
static __device__ inline Pair pair_of(const c64& x) { return {(R)x.re, (R)x.im}; }
static __device__ inline Pair pair_of(const c128& x) { return {(R)x.re, (R)x.im}; }

static __device__ inline void put(float& to, Pair x) { to = (float)x.re; }
static __device__ inline void put(double& to, Pair x) { to = (double)x.re; }
static __device__ inline void put(c64& to, Pair x) { to = {(float)x.re, (float)x.im}; }
static __device__ inline void put(c128& to, Pair x) { to = {(double)x.re, (double)x.im}; }

// All numbers of a tensor times a factor, behind a library that has none.
extern "C" __global__ void scale(Y* y, Strides sy, Shape shape, i64 count, double factor) {
    for (i64 i = FIRST; i < count; i += STEP) {
        Y& number = y[offset(i, shape, sy)];
        Pair value = pair_of(number);
        put(number, {value.re * (R)factor, value.im * (R)factor});
    }
}

extern "C" __global__ void transform(const X* x, Strides x_outer, i64 x_by, Y* y, Strides y_outer, i64 y_by, Shape outer, i64 rows,
                                     int given, int length, int made, double factor) {
    extern __shared__ double memory[];
    Pair* roots = (Pair*)memory;
    Pair* values = roots + length;
    Pair* others = values + length;
    for (int i = threadIdx.x; i < length; i += blockDim.x) {
        double angle = SIGN * 6.283185307179586476925 * i / length;
        roots[i] = {(R)cos(angle), (R)sin(angle)};
    }
    for (i64 row = blockIdx.x; row < rows; row += gridDim.x) {
        const X* from = x + offset(row, outer, x_outer);
        Y* to = y + offset(row, outer, y_outer);
        __syncthreads();
        for (int i = threadIdx.x; i < length; i += blockDim.x) {
            bool is_turned = MIRRORED && i > length / 2;
            int at = is_turned ? length - i : i;
            Pair value = {(R)0, (R)0};
            if (at < given) value = pair_of(from[at * x_by]);
            if (is_turned) value.im = -value.im;
            values[i] = value;
        }
        __syncthreads();
        Pair* now = values;
        Pair* next = others;
        if (BY_HALVING) {
            for (int half = length / 2, width = 1; half >= 1; half /= 2, width *= 2) {
                for (int i = threadIdx.x; i < length / 2; i += blockDim.x) {
                    int at = i / width, lane = i % width;
                    Pair a = now[lane + at * width], b = now[lane + (at + half) * width];
                    next[lane + 2 * at * width] = {a.re + b.re, a.im + b.im};
                    next[lane + (2 * at + 1) * width] = product_of(roots[at * width], {a.re - b.re, a.im - b.im});
                }
                __syncthreads();
                Pair* swapped = now;
                now = next;
                next = swapped;
            }
        } else {
            for (int i = threadIdx.x; i < made; i += blockDim.x) {
                double re = 0, im = 0;
                for (int k = 0; k < length; ++k) {
                    Pair term = product_of(now[k], roots[(i64)i * k % length]);
                    re += term.re;
                    im += term.im;
                }
                next[i] = {(R)re, (R)im};
            }
            __syncthreads();
            now = next;
        }
        for (int i = threadIdx.x; i < made; i += blockDim.x) put(to[i * y_by], {now[i].re * (R)factor, now[i].im * (R)factor});
        __syncthreads();
    }
}
