// Fourier transforms along one axis, one block per row: radix-2 Stockham FFT (1966) if the length is a power of two, and direct
// summation otherwise. The row, a second buffer and all roots of unity are in shared memory. R is float or double.
//
// A row has `input_length` elements; missing ones are 0, or with HERMITIAN the conjugates of their counterparts. The first
// `output_length` results are written, times a factor.

#include "common.cuh"

#ifndef SIGN
// The defaults if only `scale` is used.
#define SIGN 1.0
#define HERMITIAN 0
#define RADIX_2 0
#endif

struct Complex {
    R re, im;
};

static __device__ inline Complex multiply(Complex a, Complex b) {
    return {a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
}

template <class Element>
static __device__ inline Complex to_complex(const Element& x) {
    return {load<R>(x), (R)0};
}
static __device__ inline Complex to_complex(const c64& x) { return {(R)x.re, (R)x.im}; }
static __device__ inline Complex to_complex(const c128& x) { return {(R)x.re, (R)x.im}; }

static __device__ inline void store_complex(float& to, Complex x) { to = (float)x.re; }
static __device__ inline void store_complex(double& to, Complex x) { to = (double)x.re; }
static __device__ inline void store_complex(c64& to, Complex x) { to = {(float)x.re, (float)x.im}; }
static __device__ inline void store_complex(c128& to, Complex x) { to = {(double)x.re, (double)x.im}; }

// Multiplies all elements of a tensor by a factor, after a library call that cannot scale its result.
extern "C" __global__ void scale(Y* y, Strides sy, Shape shape, i64 count, double factor) {
    for (i64 i = GLOBAL_THREAD; i < count; i += GRID_STRIDE) {
        Y& element = y[offset(i, shape, sy)];
        Complex value = to_complex(element);
        store_complex(element, {value.re * (R)factor, value.im * (R)factor});
    }
}

extern "C" __global__ void transform(const X* x, Strides x_outer, i64 x_by, Y* y, Strides y_outer, i64 y_by, Shape outer, i64 rows,
                                     int input_length, int length, int output_length, double factor) {
    extern __shared__ double memory[];
    Complex* roots = (Complex*)memory;
    Complex* values = roots + length;
    Complex* others = values + length;
    for (int i = threadIdx.x; i < length; i += blockDim.x) {
        double angle = SIGN * 6.283185307179586476925 * i / length;
        roots[i] = {(R)cos(angle), (R)sin(angle)};
    }
    for (i64 row = blockIdx.x; row < rows; row += gridDim.x) {
        const X* from = x + offset(row, outer, x_outer);
        Y* to = y + offset(row, outer, y_outer);
        __syncthreads();
        for (int i = threadIdx.x; i < length; i += blockDim.x) {
            bool is_mirrored = HERMITIAN && i > length / 2;
            int at = is_mirrored ? length - i : i;
            Complex value = {(R)0, (R)0};
            if (at < input_length) value = to_complex(from[at * x_by]);
            if (is_mirrored) value.im = -value.im;
            values[i] = value;
        }
        __syncthreads();
        Complex* now = values;
        Complex* next = others;
        if (RADIX_2) {
            for (int half = length / 2, width = 1; half >= 1; half /= 2, width *= 2) {
                for (int i = threadIdx.x; i < length / 2; i += blockDim.x) {
                    int at = i / width, lane = i % width;
                    Complex a = now[lane + at * width], b = now[lane + (at + half) * width];
                    next[lane + 2 * at * width] = {a.re + b.re, a.im + b.im};
                    next[lane + (2 * at + 1) * width] = multiply(roots[at * width], {a.re - b.re, a.im - b.im});
                }
                __syncthreads();
                Complex* swapped = now;
                now = next;
                next = swapped;
            }
        } else {
            for (int i = threadIdx.x; i < output_length; i += blockDim.x) {
                double re = 0, im = 0;
                for (int k = 0; k < length; ++k) {
                    Complex term = multiply(now[k], roots[(i64)i * k % length]);
                    re += term.re;
                    im += term.im;
                }
                next[i] = {(R)re, (R)im};
            }
            __syncthreads();
            now = next;
        }
        for (int i = threadIdx.x; i < output_length; i += blockDim.x) {
            store_complex(to[i * y_by], {now[i].re * (R)factor, now[i].im * (R)factor});
        }
        __syncthreads();
    }
}
