// Quantisation to int8 values from -127 to 127 with a scale.

// Dequantises a channel's sum of products, with a bias in the same units as the sum.
static __device__ inline float dequantize(int sum, f64 bias, f32 scale) { return (float)((f64)sum + bias) * scale; }

// Rounds to the nearest quantised value, ties to even, and saturates. NaN becomes 0. As on the CPU, values are multiplied by the
// reciprocal of the scale, which rounds some ties differently than a division.
static __device__ inline i8 quantize(float value, f32 scale) {
    float scaled = rintf(value * (1.0f / scale));
    return scaled != scaled ? (i8)0 : (i8)(scaled < -127.0f ? -127.0f : scaled > 127.0f ? 127.0f : scaled);
}

// Stores an output element, quantised if its type is i8.
template <class Element>
static __device__ inline void store_output(Element& to, float value, f32) {
    store<float>(to, value);
}
static __device__ inline void store_output(i8& to, float value, f32 scale) { to = quantize(value, scale); }
