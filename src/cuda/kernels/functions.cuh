// Functions of one element, in float, double and i64. Corner cases are those of PyTorch.

template <class Number> static __device__ inline Number f_sign(Number x) { return (Number)((x > (Number)0) - (x < (Number)0)); }
template <class Number> static __device__ inline Number f_square(Number x) { return x * x; }
template <class Number> static __device__ inline Number f_relu(Number x) { return x < (Number)0 ? (Number)0 : x; }
template <class Number> static __device__ inline Number f_relu6(Number x) { return x < (Number)0 ? (Number)0 : x > (Number)6 ? (Number)6 : x; }
template <class Number> static __device__ inline Number f_max(Number a, Number b) { return a >= b || a != a ? a : b; }
template <class Number> static __device__ inline Number f_min(Number a, Number b) { return a <= b || a != a ? a : b; }

template <class Number> static __device__ inline Number f_sigmoid(Number x) { return (Number)1 / ((Number)1 + exp(-x)); }
template <class Number> static __device__ inline Number f_silu(Number x) { return x / ((Number)1 + exp(-x)); }
template <class Number> static __device__ inline Number f_gelu(Number x) { return (Number)0.5 * x * ((Number)1 + erf(x * (Number)0.70710678118654752440)); }
template <class Number> static __device__ inline Number f_gelu_tanh(Number x) {
    return (Number)0.5 * x * ((Number)1 + tanh((Number)0.79788456080286535588 * (x + (Number)0.044715 * x * x * x)));
}
template <class Number> static __device__ inline Number f_clamp(Number x, Number low, Number high) { return x < low ? low : x > high ? high : x; }
template <class Number> static __device__ inline Number f_hardsigmoid(Number x) { return f_clamp(x + (Number)3, (Number)0, (Number)6) / (Number)6; }
template <class Number> static __device__ inline Number f_hardswish(Number x) { return x * f_clamp(x + (Number)3, (Number)0, (Number)6) / (Number)6; }
template <class Number> static __device__ inline Number f_softplus(Number x) { return x > (Number)20 ? x : log1p(exp(x)); }
template <class Number> static __device__ inline Number f_mish(Number x) { return x * tanh(f_softplus(x)); }
template <class Number> static __device__ inline Number f_leaky_relu(Number x, Number slope) { return x > (Number)0 ? x : x * slope; }
template <class Number> static __device__ inline Number f_elu(Number x, Number alpha) { return x > (Number)0 ? x : alpha * expm1(x); }
template <class Number> static __device__ inline Number f_rsqrt(Number x) { return (Number)1 / sqrt(x); }
template <class Number> static __device__ inline Number f_reciprocal(Number x) { return (Number)1 / x; }

// The remainder with the sign of the divisor.
template <class Number> static __device__ inline Number f_remainder(Number a, Number b) {
    Number rest = fmod(a, b);
    return rest != (Number)0 && (b < (Number)0) != (rest < (Number)0) ? rest + b : rest;
}
// The whole number below a / b, found from the remainder because the quotient itself may be rounded up to the next.
template <class Number> static __device__ inline Number f_floor_divide(Number a, Number b) {
    if (b == (Number)0) return a / b;
    Number rest = fmod(a, b);
    Number quotient = (a - rest) / b - (rest != (Number)0 && (b < (Number)0) != (rest < (Number)0) ? (Number)1 : (Number)0);
    if (quotient == (Number)0) return copysign((Number)0, a / b);
    Number whole = floor(quotient);
    return quotient - whole > (Number)0.5 ? whole + (Number)1 : whole;
}
template <class Number> static __device__ inline Number f_pow(Number base, Number exponent) {
    if (exponent == (Number)2) return base * base;
    if (exponent == (Number)3) return base * base * base;
    if (exponent == (Number)0.5) return sqrt(base);
    if (exponent == (Number)-0.5) return (Number)1 / sqrt(base);
    if (exponent == (Number)-1) return (Number)1 / base;
    if (exponent == (Number)-2) return (Number)1 / (base * base);
    return pow(base, exponent);
}
template <class Number> static __device__ inline Number f_logaddexp(Number a, Number b) {
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
template <class Number> static __device__ inline i64 f_int(Number x) {
    if (x != x) return 0;
    if (x >= (Number)9223372036854775807.0) return 0x7fffffffffffffffll;
    if (x <= (Number)-9223372036854775808.0) return -0x7fffffffffffffffll - 1;
    return (i64)x;
}
static __device__ inline float round_f16(float x) { return f16_to_f32(f32_to_f16(x)); }
static __device__ inline float round_bf16(float x) { return bf16_to_f32(f32_to_bf16(x)); }
