// Definitions shared by all kernels: element types, shapes and strides.

typedef float f32;
typedef double f64;
typedef long long i64;
typedef int i32;
typedef short i16;
typedef signed char i8;
typedef unsigned char u8;

// Storage types of half precision. Arithmetic is in f32.
struct f16 {
    unsigned short bits;
};
struct bf16 {
    unsigned short bits;
};

// Complex numbers.
struct c64 {
    float re, im;
};
struct c128 {
    double re, im;
};

// A 16-byte element for kernels that only copy.
struct alignas(16) Bytes16 {
    i64 half[2];
};

// The lengths of up to eight axes, outermost first. Loops over axes are unrolled: indexing a kernel argument dynamically would
// make every thread copy it to local memory.
#define MAX_AXES 8

struct Shape {
    int rank;
    int dims[MAX_AXES];
};

// The stride of each axis in elements, in the order of a shape.
struct Strides {
    i64 by[MAX_AXES];
};

#ifdef IXION_EMULATOR

static inline float f16_to_f32(unsigned short bits) {
    unsigned sign = (bits & 0x8000u) << 16, exponent = (bits >> 10) & 31, fraction = bits & 0x3ff;
    if (exponent == 0) {
        float magnitude = ldexpf((float)fraction, -24);
        return sign ? -magnitude : magnitude;
    }
    unsigned word = sign | (exponent == 31 ? 0x7f800000u : (exponent + 112) << 23) | fraction << 13;
    float value;
    memcpy(&value, &word, 4);
    return value;
}

static inline unsigned short f32_to_f16(float value) {
    unsigned word;
    memcpy(&word, &value, 4);
    unsigned short sign = (word >> 16) & 0x8000u;
    float magnitude = fabsf(value);
    if (isnan(value)) return sign | 0x7fff;
    if (magnitude >= 65520.0f) return sign | 0x7c00;
    if (magnitude < 6.103515625e-05f) return sign | (unsigned short)rintf(ldexpf(magnitude, 24));
    memcpy(&word, &magnitude, 4);
    unsigned rest = word & 0x1fff, half = (word >> 13) - (112u << 10);
    return sign | (half + (rest > 0x1000 || (rest == 0x1000 && (half & 1))));
}

#else

#define INFINITY __int_as_float(0x7f800000)

static __device__ inline float f16_to_f32(unsigned short bits) {
    float value;
    asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(bits));
    return value;
}

static __device__ inline unsigned short f32_to_f16(float value) {
    unsigned short bits;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(value));
    return bits;
}

#endif

static __device__ inline float bf16_to_f32(unsigned short bits) {
    union {
        unsigned word;
        float value;
    } both;
    both.word = (unsigned)bits << 16;
    return both.value;
}

#if !defined(IXION_EMULATOR) && __CUDA_ARCH__ >= 800

static __device__ inline unsigned short f32_to_bf16(float value) {
    unsigned short bits;
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(value));
    return bits;
}

#else

static __device__ inline unsigned short f32_to_bf16(float value) {
    union {
        unsigned word;
        float value;
    } both;
    both.value = value;
    if (value != value) return (both.word >> 16) | 0x40;
    return (both.word + 0x7fffu + ((both.word >> 16) & 1)) >> 16;
}

#endif

// Converts an element to the type that is computed in: Number is float, double or i64.
template <class Number, class Element>
static __device__ inline Number load(const Element& x) {
    return (Number)x;
}
template <class Number>
static __device__ inline Number load(const f16& x) {
    return (Number)f16_to_f32(x.bits);
}
template <class Number>
static __device__ inline Number load(const bf16& x) {
    return (Number)bf16_to_f32(x.bits);
}

// Converts a value to the element type and stores it.
template <class Number, class Element>
static __device__ inline void store(Element& to, Number x) {
    to = (Element)x;
}
template <class Number>
static __device__ inline void store(f16& to, Number x) {
    to.bits = f32_to_f16((float)x);
}
template <class Number>
static __device__ inline void store(bf16& to, Number x) {
    to.bits = f32_to_bf16((float)x);
}

template <class Index>
static __device__ inline i64 offset_of(Index index, const Shape& shape, const Strides& strides) {
    i64 at = 0;
#pragma unroll
    for (int axis = MAX_AXES - 1; axis > 0; --axis) {
        if (axis >= shape.rank) continue;
        Index next = index / (Index)shape.dims[axis];
        at += (i64)(index - next * (Index)shape.dims[axis]) * strides.by[axis];
        index = next;
    }
    return at + (i64)index * strides.by[0];
}

// The offset of the element with this row-major index. 64-bit divisions take four times as long, and are rarely needed.
static __device__ inline i64 offset(i64 index, const Shape& shape, const Strides& strides) {
    // Most tensors of memory-bound kernels have a single axis once axes are merged.
    if (shape.rank < 2) return index * strides.by[0];
    if (index >> 32) return offset_of((unsigned long long)index, shape, strides);
    return offset_of((unsigned)index, shape, strides);
}

// Splits a row-major index: returns the coordinate along the innermost axis, which has this length, and leaves the index along
// the outer axes.
static __device__ inline i64 pop_innermost(i64& index, int length) {
    i64 next = index >> 32 ? index / length : (unsigned)index / (unsigned)length;
    i64 coordinate = index - next * length;
    index = next;
    return coordinate;
}

// For grid-stride loops: the index of this thread in the grid, and the number of threads of the grid.
#define GLOBAL_THREAD ((i64)blockIdx.x * blockDim.x + threadIdx.x)
#define GRID_STRIDE ((i64)gridDim.x * blockDim.x)
