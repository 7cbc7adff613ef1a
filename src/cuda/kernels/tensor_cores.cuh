// Warp-level matrix multiply-accumulate on tensor cores: a tile of 16 rows by 8 columns.
//
// Operands are 32-bit words along the depth, 8 of them per instruction. A word holds two elements of f16 or bf16, four of i8,
// or one of f32, of which 10 mantissa bits are used (TF32). With g = lane / 4 and t = lane % 4, a lane holds these words and
// sums:
//
//     left   (row g, word t), (row g + 8, word t), (row g, word t + 4), (row g + 8, word t + 4)
//     right  (column g, word t), (column g, word t + 4)
//     sums   (row g, columns 2t and 2t + 1), (row g + 8, columns 2t and 2t + 1)

// An f32 that has been rounded to TF32.
struct tf32 {
    unsigned bits;
};

// The type of the accumulators: exact for integers, f32 for all other types.
template <class Element>
struct AccumulatorOf {
    typedef float Type;
};
template <>
struct AccumulatorOf<i8> {
    typedef int Type;
};

#ifdef IXION_EMULATOR

static inline unsigned to_tf32(unsigned bits) {
    return isfinite(__int_as_float((int)bits)) ? (bits + 0x1000u) & ~0x1fffu : bits;
}

template <class Element>
static inline typename AccumulatorOf<Element>::Type factor(const Element& x) {
    return load<typename AccumulatorOf<Element>::Type>(x);
}
template <>
inline float factor<f32>(const f32& x) {
    return __int_as_float((int)to_tf32((unsigned)__float_as_int(x)));
}
// Like tensor cores, ignores bits that TF32 does not have.
template <>
inline float factor<tf32>(const tf32& x) {
    return __int_as_float((int)(x.bits & ~0x1fffu));
}

struct Fragments {
    unsigned left[4], right[2];
};

// Accumulates the product of a row and a column; four lanes hold the words of each.
template <class Element>
IXION_OWN static typename AccumulatorOf<Element>::Type dot(typename AccumulatorOf<Element>::Type sum, unsigned row,
                                                           unsigned column) {
    const int count = 4 / sizeof(Element);
    for (int word = 0; word < 8; ++word) {
        const Fragments* left = ixion::published_by<Fragments>(4 * (row % 8) + word % 4);
        const Fragments* right = ixion::published_by<Fragments>(4 * column + word % 4);
        Element x[count], w[count];
        memcpy(x, &left->left[2 * (word / 4) + row / 8], 4);
        memcpy(w, &right->right[word / 4], 4);
        for (int i = 0; i < count; ++i) sum += factor(x[i]) * factor(w[i]);
    }
    return sum;
}

template <class Element>
IXION_OWN static void multiply_add(typename AccumulatorOf<Element>::Type (&sums)[4], const unsigned (&left)[4],
                                   const unsigned (&right)[2]) {
    Fragments mine;
    memcpy(mine.left, left, sizeof left);
    memcpy(mine.right, right, sizeof right);
    ixion::publish(&mine);
    unsigned row = ixion::lane() / 4, column = ixion::lane() % 4 * 2;
    for (unsigned i = 0; i < 4; ++i) sums[i] = dot<Element>(sums[i], row + 8 * (i / 2), column + i % 2);
    __syncwarp();
}

static inline void load_matrix(unsigned (&words)[4], const unsigned* row, int pitch) {
    const unsigned* mine = row + threadIdx.x % WARP / 4 * pitch + threadIdx.x % 4;
    for (int i = 0; i < 4; ++i) words[i] = mine[(i % 2) * 8 * pitch + (i / 2) * 4];
}

static inline void load_matrix_transposed(unsigned (&words)[4], const unsigned* row, int pitch) {
    for (int i = 0; i < 4; ++i) {
        int first = i % 2 * 8 + threadIdx.x % 4 * 2, column = i / 2 * 8 + threadIdx.x % WARP / 4, shift = column % 2 * 16;
        const unsigned* at = row + first * pitch + column / 2;
        words[i] = (at[0] >> shift & 0xffffu) | (at[pitch] >> shift) << 16;
    }
}

template <class Element>
static inline unsigned pack(float first, float second) {
    Element both[2];
    store<float>(both[0], first);
    store<float>(both[1], second);
    unsigned word;
    memcpy(&word, both, sizeof word);
    return word;
}

static inline void copy_async(unsigned* to, const void* from, int bytes) {
    unsigned char read[16] = {};
    for (int i = 0; i < bytes; ++i) read[i] = static_cast<const unsigned char*>(from)[i];
    for (int i = 0; i < 4; ++i) memcpy(&to[i], &read[4 * i], 4);
}

static inline void commit_copies() {}
template <int PENDING>
static inline void wait_for_copies() {}

#else

#define MULTIPLY_ADD(ELEMENT, SUM, KEEP, INSTRUCTION)                                                                     \
    template <>                                                                                                          \
    __device__ __forceinline__ void multiply_add<ELEMENT>(SUM(&sums)[4], const unsigned(&left)[4], const unsigned(&right)[2]) { \
        asm volatile("mma.sync.aligned." INSTRUCTION " {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"   \
                     : KEEP(sums[0]), KEEP(sums[1]), KEEP(sums[2]), KEEP(sums[3])                                        \
                     : "r"(left[0]), "r"(left[1]), "r"(left[2]), "r"(left[3]), "r"(right[0]), "r"(right[1]));            \
    }

template <class Element>
__device__ __forceinline__ void multiply_add(typename AccumulatorOf<Element>::Type (&sums)[4], const unsigned (&left)[4],
                                             const unsigned (&right)[2]);
MULTIPLY_ADD(f16, float, "+f", "m16n8k16.row.col.f32.f16.f16.f32")
MULTIPLY_ADD(bf16, float, "+f", "m16n8k16.row.col.f32.bf16.bf16.f32")
MULTIPLY_ADD(tf32, float, "+f", "m16n8k8.row.col.f32.tf32.tf32.f32")
MULTIPLY_ADD(i8, int, "+r", "m16n8k32.row.col.s32.s8.s8.s32")

static __device__ __forceinline__ unsigned to_tf32(unsigned bits) {
    unsigned rounded;
    asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(rounded) : "f"(__int_as_float((int)bits)));
    return rounded;
}

template <>
__device__ __forceinline__ void multiply_add<f32>(float (&sums)[4], const unsigned (&left)[4], const unsigned (&right)[2]) {
    unsigned a[4] = {to_tf32(left[0]), to_tf32(left[1]), to_tf32(left[2]), to_tf32(left[3])};
    unsigned b[2] = {to_tf32(right[0]), to_tf32(right[1])};
    multiply_add<tf32>(sums, a, b);
}

static __device__ __forceinline__ unsigned shared_address(const void* at) {
    unsigned address;
    asm("{ .reg .u64 wide; cvta.to.shared.u64 wide, %1; cvt.u32.u64 %0, wide; }" : "=r"(address) : "l"(at));
    return address;
}

// Loads 16 rows of 8 words from shared memory, in the layout of `left`.
static __device__ __forceinline__ void load_matrix(unsigned (&words)[4], const unsigned* row, int pitch) {
    int lane = threadIdx.x % WARP;
    unsigned from = shared_address(row + (lane % 16) * pitch + lane / 16 * 4);
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])
                 : "r"(from)
                 : "memory");
}

// Loads 16 rows of 16 elements of 2 bytes from shared memory, transposed to the layout of `right`: each row in memory has
// one index of the depth.
// Words 0 and 1 are those of the first eight columns, words 2 and 3 those of the others.
static __device__ __forceinline__ void load_matrix_transposed(unsigned (&words)[4], const unsigned* row, int pitch) {
    int lane = threadIdx.x % WARP;
    unsigned from = shared_address(row + (lane % 16) * pitch + lane / 16 * 4);
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])
                 : "r"(from)
                 : "memory");
}

// Packs two adjacent elements of a row into a word, so that the sums of one product can be a factor of another.
template <class Element>
__device__ __forceinline__ unsigned pack(float first, float second);
template <>
__device__ __forceinline__ unsigned pack<f16>(float first, float second) {
    unsigned word;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(second), "f"(first));
    return word;
}
template <>
__device__ __forceinline__ unsigned pack<bf16>(float first, float second) {
    unsigned word;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(second), "f"(first));
    return word;
}

// Copies 16 bytes to shared memory asynchronously, with zeros after the first `bytes`.
static __device__ __forceinline__ void copy_async(unsigned* to, const void* from, int bytes) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared_address(to)), "l"(from), "r"(bytes) : "memory");
}

static __device__ __forceinline__ void commit_copies() { asm volatile("cp.async.commit_group;" ::: "memory"); }

// Waits for this thread's copies, except those of its last PENDING groups.
template <int PENDING>
static __device__ __forceinline__ void wait_for_copies() {
    asm volatile("cp.async.wait_group %0;" ::"n"(PENDING) : "memory");
}

#endif

// The factors of products with elements of a type, and their words: f32 is rounded. A kernel that multiplies a word several
// times rounds it once.
template <class Element>
struct FactorOf {
    typedef Element Type;
    static __device__ __forceinline__ unsigned rounded(unsigned word) { return word; }
};
template <>
struct FactorOf<f32> {
    typedef tf32 Type;
    static __device__ __forceinline__ unsigned rounded(unsigned word) { return to_tf32(word); }
};
