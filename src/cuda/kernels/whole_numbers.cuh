// Whole numbers from -127 to 127 that stand for real ones, by a scale.

// What a channel's sum of products stands for: its bias is in the same steps.
static __device__ inline float real_of(int sum, f64 bias, f32 step) { return (float)((f64)sum + bias) * step; }

// The nearest whole number to a real one; halves go to the even one.
static __device__ inline i8 whole_of(float value, f32 scale) {
    float steps = rintf(value / scale);
    return steps != steps ? (i8)0 : (i8)(steps < -127.0f ? -127.0f : steps > 127.0f ? 127.0f : steps);
}

// Real numbers as they are stored: as whole ones where these stand for them.
template <class Element>
static __device__ inline void put(Element& to, float value, f32) {
    store<float>(to, value);
}
static __device__ inline void put(i8& to, float value, f32 scale) { to = whole_of(value, scale); }
