// Functions of one element, in float, double and i64. Corner cases are those of PyTorch.

template <class C> static __device__ inline C f_sign(C x) { return (C)((x > (C)0) - (x < (C)0)); }
template <class C> static __device__ inline C f_square(C x) { return x * x; }
template <class C> static __device__ inline C f_relu(C x) { return x < (C)0 ? (C)0 : x; }
template <class C> static __device__ inline C f_relu6(C x) { return x < (C)0 ? (C)0 : x > (C)6 ? (C)6 : x; }
template <class C> static __device__ inline C f_max(C a, C b) { return a >= b || a != a ? a : b; }
template <class C> static __device__ inline C f_min(C a, C b) { return a <= b || a != a ? a : b; }

template <class C> static __device__ inline C f_sigmoid(C x) { return (C)1 / ((C)1 + exp(-x)); }
template <class C> static __device__ inline C f_silu(C x) { return x / ((C)1 + exp(-x)); }
template <class C> static __device__ inline C f_gelu(C x) { return (C)0.5 * x * ((C)1 + erf(x * (C)0.70710678118654752440)); }
template <class C> static __device__ inline C f_gelu_tanh(C x) {
    return (C)0.5 * x * ((C)1 + tanh((C)0.79788456080286535588 * (x + (C)0.044715 * x * x * x)));
}
template <class C> static __device__ inline C f_clamp(C x, C low, C high) { return x < low ? low : x > high ? high : x; }
template <class C> static __device__ inline C f_hardsigmoid(C x) { return f_clamp(x + (C)3, (C)0, (C)6) / (C)6; }
template <class C> static __device__ inline C f_hardswish(C x) { return x * f_clamp(x + (C)3, (C)0, (C)6) / (C)6; }
template <class C> static __device__ inline C f_softplus(C x) { return x > (C)20 ? x : log1p(exp(x)); }
template <class C> static __device__ inline C f_mish(C x) { return x * tanh(f_softplus(x)); }
template <class C> static __device__ inline C f_leaky_relu(C x, C slope) { return x > (C)0 ? x : x * slope; }
template <class C> static __device__ inline C f_elu(C x, C alpha) { return x > (C)0 ? x : alpha * expm1(x); }
template <class C> static __device__ inline C f_rsqrt(C x) { return (C)1 / sqrt(x); }
template <class C> static __device__ inline C f_reciprocal(C x) { return (C)1 / x; }

// The remainder with the sign of the divisor.
template <class C> static __device__ inline C f_remainder(C a, C b) {
    C rest = fmod(a, b);
    return rest != (C)0 && (b < (C)0) != (rest < (C)0) ? rest + b : rest;
}
// The whole number below a / b, found from the remainder because the quotient itself may be rounded up to the next.
template <class C> static __device__ inline C f_floor_divide(C a, C b) {
    if (b == (C)0) return a / b;
    C rest = fmod(a, b);
    C quotient = (a - rest) / b - (rest != (C)0 && (b < (C)0) != (rest < (C)0) ? (C)1 : (C)0);
    if (quotient == (C)0) return copysign((C)0, a / b);
    C whole = floor(quotient);
    return quotient - whole > (C)0.5 ? whole + (C)1 : whole;
}
template <class C> static __device__ inline C f_pow(C base, C exponent) {
    if (exponent == (C)2) return base * base;
    if (exponent == (C)3) return base * base * base;
    if (exponent == (C)0.5) return sqrt(base);
    if (exponent == (C)-0.5) return (C)1 / sqrt(base);
    if (exponent == (C)-1) return (C)1 / base;
    if (exponent == (C)-2) return (C)1 / (base * base);
    return pow(base, exponent);
}
template <class C> static __device__ inline C f_logaddexp(C a, C b) {
    if (a == b && isinf(a)) return a;
    return (a > b || a != a ? a : b) + log1p(exp(-fabs(a - b)));
}

// Of integers, which wrap. A division by 0 gives 0.
static __device__ inline i64 i_abs(i64 x) { return x < 0 ? (i64)(0ull - (unsigned long long)x) : x; }
static __device__ inline i64 i_fmod(i64 a, i64 b) { return b == 0 || b == -1 ? 0 : a % b; }
static __device__ inline i64 i_floor_divide(i64 a, i64 b) {
    if (b == 0) return 0;
    if (b == -1) return (i64)(0ull - (unsigned long long)a);
    i64 quotient = a / b;
    return a % b != 0 && (a < 0) != (b < 0) ? quotient - 1 : quotient;
}
static __device__ inline i64 i_remainder(i64 a, i64 b) { return b == 0 || b == -1 ? 0 : a - i_floor_divide(a, b) * b; }
static __device__ inline i64 i_lshift(i64 a, i64 b) { return b >= 0 && b < 64 ? (i64)((unsigned long long)a << b) : 0; }
static __device__ inline i64 i_rshift(i64 a, i64 b) { return a >> (b >= 0 && b < 63 ? b : 63); }
static __device__ inline i64 i_pow(i64 base, i64 exponent) {
    if (exponent < 0) return base == 1 ? 1 : base == -1 ? 1 - 2 * (exponent & 1) : 0;
    unsigned long long power = 1, factor = base;
    for (; exponent > 0; exponent >>= 1, factor *= factor) {
        if (exponent & 1) power *= factor;
    }
    return (i64)power;
}

// A number as an integer of 64 bits: what does not fit is cut off, NaN is 0.
template <class C> static __device__ inline i64 f_int(C x) {
    if (x != x) return 0;
    if (x >= (C)9223372036854775807.0) return 0x7fffffffffffffffll;
    if (x <= (C)-9223372036854775808.0) return -0x7fffffffffffffffll - 1;
    return (i64)x;
}
static __device__ inline float round_f16(float x) { return f16_to_f32(f32_to_f16(x)); }
static __device__ inline float round_bf16(float x) { return bf16_to_f32(f32_to_bf16(x)); }
