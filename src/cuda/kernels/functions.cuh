// Element-wise functions in float, double and i64. Special cases are handled as in PyTorch.

template <class Number> static __device__ inline Number f_sign(Number x) { return (Number)((x > (Number)0) - (x < (Number)0)); }
template <class Number> static __device__ inline Number f_square(Number x) { return x * x; }
template <class Number> static __device__ inline Number f_relu(Number x) { return x < (Number)0 ? (Number)0 : x; }
template <class Number> static __device__ inline Number f_relu6(Number x) { return x < (Number)0 ? (Number)0 : x > (Number)6 ? (Number)6 : x; }
template <class Number> static __device__ inline Number f_max(Number a, Number b) { return a >= b || a != a ? a : b; }
template <class Number> static __device__ inline Number f_min(Number a, Number b) { return a <= b || a != a ? a : b; }

// 1 / x for a denominator that is rounded itself: in float, with an error of one unit in the last place instead of half of one.
// An exact division branches, and takes several times as long.
template <class Number> static __device__ inline Number f_inverse(Number x) { return (Number)1 / x; }
#ifndef IXION_EMULATOR
static __device__ inline float f_inverse(float x) {
    float inverse;
    asm("rcp.approx.f32 %0, %1;" : "=f"(inverse) : "f"(x));
    return inverse;
}
#endif
template <class Number> static __device__ inline Number f_sigmoid(Number x) { return f_inverse((Number)1 + exp(-x)); }
template <class Number> static __device__ inline Number f_silu(Number x) { return x * f_inverse((Number)1 + exp(-x)); }
template <class Number> static __device__ inline Number f_gelu(Number x) { return (Number)0.5 * x * ((Number)1 + erf(x * (Number)0.70710678118654752440)); }
template <class Number> static __device__ inline Number f_gelu_tanh(Number x) {
    return (Number)0.5 * x * ((Number)1 + tanh((Number)0.79788456080286535588 * (x + (Number)0.044715 * x * x * x)));
}
template <class Number> static __device__ inline Number f_clamp(Number x, Number low, Number high) { return x < low ? low : x > high ? high : x; }
// In float, a product as in PyTorch: an exact division is slowest for numerators of 0.
template <class Number> static __device__ inline Number f_sixth(Number x) { return x / (Number)6; }
static __device__ inline float f_sixth(float x) { return x * (1.0f / 6.0f); }
template <class Number> static __device__ inline Number f_hardsigmoid(Number x) { return f_sixth(f_clamp(x + (Number)3, (Number)0, (Number)6)); }
template <class Number> static __device__ inline Number f_hardswish(Number x) { return f_sixth(x * f_clamp(x + (Number)3, (Number)0, (Number)6)); }
template <class Number> static __device__ inline Number f_softplus(Number x) { return x > (Number)20 ? x : log1p(exp(x)); }
template <class Number> static __device__ inline Number f_mish(Number x) { return x * tanh(f_softplus(x)); }
template <class Number> static __device__ inline Number f_leaky_relu(Number x, Number slope) { return x > (Number)0 ? x : x * slope; }
template <class Number> static __device__ inline Number f_elu(Number x, Number alpha) { return x > (Number)0 ? x : alpha * expm1(x); }
template <class Number> static __device__ inline Number f_rsqrt(Number x) { return (Number)1 / sqrt(x); }
static __device__ inline float f_rsqrt(float x) { return rsqrtf(x); }
template <class Number> static __device__ inline Number f_reciprocal(Number x) { return (Number)1 / x; }

// The remainder with the sign of the divisor.
template <class Number> static __device__ inline Number f_remainder(Number a, Number b) {
    Number rest = fmod(a, b);
    return rest != (Number)0 && (b < (Number)0) != (rest < (Number)0) ? rest + b : rest;
}
// floor(a / b), computed from the remainder because the quotient itself may be rounded up to the next integer.
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

// Integer functions. Overflow wraps, and division by 0 gives 0.
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

// Converts to a 64-bit integer. Values out of range saturate, and NaN becomes 0.
template <class Number> static __device__ inline i64 f_int(Number x) {
    if (x != x) return 0;
    if (x >= (Number)9223372036854775807.0) return 0x7fffffffffffffffll;
    if (x <= (Number)-9223372036854775808.0) return -0x7fffffffffffffffll - 1;
    return (i64)x;
}
template <class Number> static __device__ inline i64 f_int_within(Number x, i64 low, i64 high) {
    i64 whole = f_int(x);
    return whole < low ? low : whole > high ? high : whole;
}
static __device__ inline float round_f16(float x) { return f16_to_f32(f32_to_f16(x)); }
static __device__ inline float round_bf16(float x) { return bf16_to_f32(f32_to_bf16(x)); }

// Functions in double only.
#define D_PI 3.14159265358979323846
#define D_INFINITY __longlong_as_double(0x7ff0000000000000ll)
#define D_NAN __longlong_as_double(0x7ff8000000000000ll)
// The derivative of log gamma: the recurrence up to 10, then the asymptotic series.
static __device__ inline double d_digamma(double x) {
    if (x == 0) return copysign(D_INFINITY, -x);
    double mirrored = 0, sum = 0;
    if (x < 0) {
        double rest = x - trunc(x);
        if (rest == 0 || isinf(x)) return D_NAN;
        mirrored = D_PI / tan(D_PI * rest);
        x = 1 - x;
    }
    for (; x < 10; x += 1) sum -= 1 / x;
    double square = isinf(x) ? 0 : 1 / (x * x);
    double series = 1.0 / 12;
    series = series * square - 691.0 / 32760;
    series = series * square + 1.0 / 132;
    series = series * square - 1.0 / 240;
    series = series * square + 1.0 / 252;
    series = series * square - 1.0 / 120;
    series = (series * square + 1.0 / 12) * square;
    return sum + log(x) - 0.5 / x - series - mirrored;
}
// The inverse error function: an estimate, refined by Halley's method.
static __device__ inline double d_erfinv(double y) {
    double size = fabs(y);
    if (!(size < 1) || y == 0) return size == 1 ? copysign(D_INFINITY, y) : y == 0 ? y : D_NAN;
    double rest = 1 - size, logarithm = log(rest * (1 + size));
    double middle = 2 / (D_PI * 0.147) + logarithm / 2;
    double x = sqrt(sqrt(middle * middle - logarithm / 0.147) - middle);
    for (int turn = 0; turn < 4; ++turn) {
        // Near 1, the complement keeps the digits that the error function loses.
        double error = size > 0.5 ? rest - erfc(x) : erf(x) - size;
        double slope = 1.12837916709551257390 * exp(-x * x);
        x -= error / (slope + x * error);
    }
    return copysign(x, y);
}
// The modified Bessel function of order 0, by its power series, all of whose terms are positive.
static __device__ inline double d_i0(double x) {
    if (isinf(x)) return D_NAN;
    if (fabs(x) > 720) return D_INFINITY;
    double square = x * x / 4, term = 1, sum = 1;
    for (int k = 1; k < 2000; ++k) {
        term *= square / ((double)k * k);
        sum += term;
        if (term < sum * 1e-17) break;
    }
    return sum;
}
static __device__ inline double d_logit(double x) { return log(x / (1 - x)); }
template <class Number> static __device__ inline Number f_logaddexp2(Number a, Number b) {
    if (a == b && isinf(a)) return a;
    return fmax(a, b) + log1p(exp2(-fabs(a - b))) / (Number)0.69314718055994530942;
}
static __device__ inline i64 i_gcd(i64 a, i64 b) {
    unsigned long long x = i_abs(a), y = i_abs(b);
    while (y != 0) {
        unsigned long long rest = x % y;
        x = y;
        y = rest;
    }
    return (i64)x;
}
static __device__ inline i64 i_lcm(i64 a, i64 b) {
    i64 divisor = i_gcd(a, b);
    if (divisor == 0) return 0;
    i64 share = divisor == -1 ? -a : a / divisor;
    return i_abs((i64)((unsigned long long)share * (unsigned long long)b));
}
