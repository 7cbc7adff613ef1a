// CUDA C++ on a CPU: keywords, intrinsics and atomic functions, implemented on top of the threads of `threads.h`.

#define IXION_EMULATOR 1

#include <cmath>
#include <math.h>

using std::isfinite;
using std::isinf;
using std::isnan;

#define __global__
#define __device__
#define __host__
#define __constant__ static
#define __grid_constant__
#define __shared__ static
#define __forceinline__ inline
#define __noinline__ __attribute__((noinline))
#define __align__(n) alignas(n)
#define __launch_bounds__(...)

#define threadIdx (ixion::self->index)
#define blockIdx (ixion::block_index)
#define blockDim (ixion::block_dim)
#define gridDim (ixion::grid_dim)
#define warpSize 32

// Macros, because the C library has undeclared functions with these names.
#define __expf expf
#define __logf logf
#define __fdividef(a, b) ((a) / (b))

IXION_OWN static void __syncthreads() { ixion::wait(ixion::State::AtBlock, 0); }
IXION_OWN static int __syncthreads_count(int predicate) {
    ixion::votes += predicate != 0;
    ixion::wait(ixion::State::AtBlock, 0);
    return ixion::vote_result[0];
}
static inline int __syncthreads_or(int predicate) { return __syncthreads_count(predicate) != 0; }
IXION_OWN static void __syncwarp(unsigned mask = 0xffffffffu) { ixion::wait(ixion::State::AtWarp, mask); }
static inline unsigned __ballot_sync(unsigned mask, int vote) { return ixion::ballot(mask, vote); }
static inline int __any_sync(unsigned mask, int vote) { return ixion::ballot(mask, vote) != 0; }
static inline int __all_sync(unsigned mask, int vote) { return ixion::ballot(mask, !vote) == 0; }

template <class T>
static inline T __shfl_sync(unsigned mask, T value, int from, int width = 32) {
    unsigned lane = ixion::lane();
    return ixion::exchanged(mask, value, (lane & ~(width - 1)) | (from & (width - 1)));
}
template <class T>
static inline T __shfl_xor_sync(unsigned mask, T value, int bits, int width = 32) {
    unsigned lane = ixion::lane(), from = lane ^ bits;
    return ixion::exchanged(mask, value, (from & ~(width - 1)) == (lane & ~(width - 1)) ? from : lane);
}
template <class T>
static inline T __shfl_down_sync(unsigned mask, T value, unsigned by, int width = 32) {
    unsigned lane = ixion::lane(), from = lane + by;
    return ixion::exchanged(mask, value, from < (lane & ~(width - 1)) + width ? from : lane);
}
template <class T>
static inline T __shfl_up_sync(unsigned mask, T value, unsigned by, int width = 32) {
    unsigned lane = ixion::lane();
    return ixion::exchanged(mask, value, (lane & (width - 1)) >= by ? lane - by : lane);
}

static inline void __threadfence() {}
static inline void __threadfence_block() {}

// Blocks and threads run one at a time, so nothing happens between the read and the write.
#define IXION_ATOMIC(NAME, EXPRESSION)                      \
    template <class T>                                      \
    IXION_OWN static T NAME(T* address, T value) {          \
        ixion::check_atomically(address, sizeof(T));        \
        T old = *address;                                   \
        *address = EXPRESSION;                              \
        return old;                                         \
    }
IXION_ATOMIC(atomicAdd, old + value)
IXION_ATOMIC(atomicSub, old - value)
IXION_ATOMIC(atomicExch, value)
IXION_ATOMIC(atomicMax, (old > value ? old : value))
IXION_ATOMIC(atomicMin, (old < value ? old : value))
IXION_ATOMIC(atomicAnd, old & value)
IXION_ATOMIC(atomicOr, old | value)
IXION_ATOMIC(atomicXor, old ^ value)

template <class T>
IXION_OWN static T atomicCAS(T* address, T compare, T value) {
    ixion::check_atomically(address, sizeof(T));
    T old = *address;
    if (old == compare) *address = value;
    return old;
}

template <class T>
static inline T min(T a, T b) {
    return b < a ? b : a;
}
template <class T>
static inline T max(T a, T b) {
    return a < b ? b : a;
}
static inline float rsqrtf(float x) { return 1.0f / sqrtf(x); }
static inline double rsqrt(double x) { return 1.0 / sqrt(x); }
static inline float __int_as_float(int bits) {
    float value;
    memcpy(&value, &bits, 4);
    return value;
}
static inline int __float_as_int(float value) {
    int bits;
    memcpy(&bits, &value, 4);
    return bits;
}
static inline long long __double_as_longlong(double value) {
    long long bits;
    memcpy(&bits, &value, 8);
    return bits;
}
static inline double __longlong_as_double(long long bits) {
    double value;
    memcpy(&value, &bits, 8);
    return value;
}
template <class T>
static inline T __ldg(const T* address) {
    return *address;
}
static inline int __popc(unsigned x) { return __builtin_popcount(x); }
static inline int __clz(int x) { return x ? __builtin_clz(x) : 32; }

// Defines the entry point through which a kernel is launched.
#define IXION_KERNEL(NAME)                                                                            \
    extern "C" __attribute__((visibility("default"))) IXION_OWN int ixion_launch_##NAME(              \
        const ixion::Launch* launch) {                                                                \
        return ixion::run(launch, [](void** arguments) { ixion::unpack(&NAME, arguments); });         \
    }
