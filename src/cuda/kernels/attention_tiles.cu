// Attention on tensor cores: softmax(scale q k^T + masks) v without a matrix of scores, as in FlashAttention-2 (Dao 2023).
//
// A block computes ROWS rows, 16 per warp. Keys and values are double-buffered in shared memory, KEYS at a time: the next ones
// are loaded while these are multiplied. Scores stay in registers: the accumulators of q k^T have the layout of the left factor
// of p v (for f32, which is multiplied as TF32, in another order of keys). Queries and keys are padded with zeros to DEPTH
// elements, and values to OUT: to whole instructions, which take 8 words. Strides are as in `attention.cu`.
// Q_VECTORIZED, K_VECTORIZED, V_VECTORIZED and Y_VECTORIZED are set if rows are contiguous and aligned to 16 bytes.

#include "common.cuh"
#include "blocks.cuh"
#include "masks.cuh"
#include "tensor_cores.cuh"

#define WARPS 4
#define ROWS (16 * WARPS)
#define THREADS (WARP * WARPS)
// The minimum number of resident blocks per multiprocessor.
#define BLOCKS (DEPTH > 64 || OUT > 64 ? 2 : 3)

#define WORDS(elements) ((elements) * (int)sizeof(T) / 4)
// The pitch of rows in shared memory in words. Eight rows start in different banks.
#define PITCH(length) (WORDS(length) + 4)
// The pitch of the queries, which the output overwrites.
#define LINE PITCH(DEPTH > OUT ? DEPTH : OUT)
// The words of a stage of keys and values.
#define STAGE (KEYS * (PITCH(DEPTH) + PITCH(OUT)))

// The number of elements in a 16-byte access.
#define CHUNK (16 / (int)sizeof(T))
union __align__(16) Chunk {
    unsigned words[4];
    T elements[CHUNK];
};

typedef FactorOf<T>::Type Factor;

static __device__ __forceinline__ unsigned rounded(unsigned word) { return FactorOf<T>::rounded(word); }
static __device__ __forceinline__ unsigned rounded(float factor) { return rounded((unsigned)__float_as_int(factor)); }

// Without masks, scores are scaled by log2(e), so that weights are powers of two. With masks, they are not: a mask may hide
// elements with the lowest finite value of its type, which would overflow to infinity.
#define HAS_MASKS (HAS_MASK || HAS_PADDING)
#define LOG2_E 1.44269504f

static __device__ __forceinline__ float weight_of(float score) {
    float power = HAS_MASKS ? score * LOG2_E : score;
#ifdef IXION_EMULATOR
    return exp2f(power);
#else
    float weight;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(weight) : "f"(power));
    return weight;
#endif
}

// Stores two adjacent elements of the output.
template <class Element>
static __device__ __forceinline__ void store_pair(unsigned* to, float first, float second) {
    if constexpr (sizeof(Element) == 2) {
        *to = pack<Element>(first, second);
    } else {
        to[0] = (unsigned)__float_as_int(first), to[1] = (unsigned)__float_as_int(second);
    }
}

// Queries, keys or values of a head.
struct Matrix {
    const T* from;
    i64 by_row, by_column;
    int rows, length;
};

// Loads COUNT rows to shared memory, with zeros for those past the last.
template <bool IS_VECTORIZED, int COUNT, int LENGTH, int ROW_PITCH>
static __device__ void load_rows(const Matrix& matrix, int first, unsigned* shared) {
    for (int i = threadIdx.x; i < COUNT * (LENGTH / CHUNK); i += THREADS) {
        int row = i / (LENGTH / CHUNK), column = i % (LENGTH / CHUNK) * CHUNK;
        bool is_inside = first + row < matrix.rows && column < matrix.length;
        const T* from = matrix.from + (is_inside ? (first + row) * matrix.by_row + column * matrix.by_column : 0);
        unsigned* to = shared + row * ROW_PITCH + WORDS(column);
        if (IS_VECTORIZED) {
            copy_async(to, from, is_inside ? 16 : 0);
        } else {
            Chunk chunk = {};
            for (int n = 0; n < CHUNK && is_inside; ++n) chunk.elements[n] = from[n * matrix.by_column];
            *(Chunk*)to = chunk;
        }
    }
}

// Loads a stage of keys and values.
static __device__ void load_stage(const Matrix& keys, const Matrix& values, int first, unsigned* stage) {
    load_rows<K_VECTORIZED, KEYS, DEPTH, PITCH(DEPTH)>(keys, first, stage);
    load_rows<V_VECTORIZED, KEYS, OUT, PITCH(OUT)>(values, first, stage + KEYS * PITCH(DEPTH));
}

// The masks of a lane's two rows.
struct Masks {
    const M* rows[2];
    const P* padding;
    i64 by_column, padding_by_column;
    int mask_columns;

    template <bool IS_EDGE>
    __device__ float of(int half, int column) const {
        float added = 0;
        if (IS_EDGE && column >= mask_columns) return added;
        if (HAS_MASK) {
            float value = load<float>(rows[half][column * by_column]);
            added += MASK_BIAS(value, MASK_IS_BOOL, MASK_KEEP);
        }
        if (HAS_PADDING) {
            float value = load<float>(padding[column * padding_by_column]);
            added += MASK_BIAS(value, PADDING_IS_BOOL, MASK_KEEP);
        }
        return added;
    }
};

// The scores of 16 rows and KEYS columns, in fragments of eight columns.
typedef float Scores[KEYS / 8][4];

// The rows of a warp. A lane holds parts of two rows, its halves: g and g + 8 in the notation of `tensor_cores.cuh`.
struct Rows {
    unsigned queries[WORDS(DEPTH) / 8][4];
    float sums[OUT / 8][4];
    // The maximum of the scores, and the lane's share of the sum of weights.
    float row_max[2], row_sum[2];

    __device__ void begin(const unsigned* from) {
#pragma unroll
        for (int i = 0; i < WORDS(DEPTH) / 8; ++i) {
            load_matrix(queries[i], from + 8 * i, LINE);
            for (int word = 0; word < 4; ++word) queries[i][word] = rounded(queries[i][word]);
        }
#pragma unroll
        for (int i = 0; i < OUT / 8; ++i) {
            for (int part = 0; part < 4; ++part) sums[i][part] = 0;
        }
        for (int half = 0; half < 2; ++half) row_max[half] = -INFINITY, row_sum[half] = 0;
    }

    // Accumulates KEYS columns from `first` on, of which those before `end` are visible to these rows. At an edge, some are
    // hidden.
    template <bool IS_EDGE>
    __device__ void add(const unsigned* stage, const Masks& masks, float scale, int row, int first, int columns, int end) {
        Scores scores = {};
        multiply<IS_EDGE>(scores, stage, end - first);
        apply_masks<IS_EDGE>(scores, masks, scale, row, first, columns);
        softmax(scores);
        add_values<IS_EDGE>(scores, stage + KEYS * PITCH(DEPTH), end - first);
    }

    template <bool IS_EDGE>
    __device__ void multiply(Scores& scores, const unsigned* keys, int count) const {
#pragma unroll
        for (int i = 0; i < WORDS(DEPTH) / 8; ++i) {
#pragma unroll
            for (int j = 0; j < KEYS / 16; ++j) {
                if (IS_EDGE && 16 * j >= count) continue;
                unsigned words[4];
                load_matrix(words, keys + 16 * j * PITCH(DEPTH) + 8 * i, PITCH(DEPTH));
                for (int half = 0; half < 2; ++half) {
                    unsigned right[2] = {rounded(words[half]), rounded(words[half + 2])};
                    multiply_add<Factor>(scores[2 * j + half], queries[i], right);
                }
            }
        }
    }

    template <bool IS_EDGE>
    __device__ void apply_masks(Scores& scores, const Masks& masks, float scale, int row, int first, int columns) const {
#pragma unroll
        for (int j = 0; j < KEYS / 8; ++j) {
#pragma unroll
            for (int part = 0; part < 4; ++part) {
                int half = part / 2, column = first + 8 * j + threadIdx.x % 4 * 2 + part % 2;
                scores[j][part] *= scale;
                bool is_hidden = IS_EDGE && (column >= columns || (CAUSAL && column > row + 8 * half));
                if (is_hidden) scores[j][part] = -INFINITY;
                else if (HAS_MASKS) scores[j][part] += masks.of<IS_EDGE>(half, column);
            }
        }
    }

    // Turns scores into weights. A new maximum rescales what was accumulated. NaN propagates to the weights.
    __device__ void softmax(Scores& scores) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            float new_max = row_max[half];
#pragma unroll
            for (int j = 0; j < KEYS / 8; ++j) new_max = fmaxf(new_max, fmaxf(scores[j][2 * half], scores[j][2 * half + 1]));
            new_max = warp_reduce<4>(new_max, Max<float>());
            float base = new_max == -INFINITY ? 0 : new_max, rescale = weight_of(row_max[half] - base);
            row_max[half] = new_max;
            row_sum[half] *= rescale;
#pragma unroll
            for (int i = 0; i < OUT / 8; ++i) {
                for (int part = 2 * half; part < 2 * half + 2; ++part) sums[i][part] *= rescale;
            }
#pragma unroll
            for (int j = 0; j < KEYS / 8; ++j) {
                for (int part = 2 * half; part < 2 * half + 2; ++part) {
                    scores[j][part] = weight_of(scores[j][part] - base);
                    row_sum[half] += scores[j][part];
                }
            }
        }
    }

    template <bool IS_EDGE>
    __device__ void add_values(const Scores& weights, const unsigned* values, int count) {
#pragma unroll
        for (int j = 0; j < KEYS / 16; ++j) {
            if (IS_EDGE && 16 * j >= count) continue;
            const unsigned* rows = values + 16 * j * PITCH(OUT);
            add_16_keys<T>(weights[2 * j], weights[2 * j + 1], rows);
        }
    }

    template <class Element>
    __device__ __forceinline__ void add_16_keys(const float (&first)[4], const float (&second)[4], const unsigned* values) {
        if constexpr (sizeof(Element) == 2) {
            unsigned left[4] = {pack<Element>(first[0], first[1]), pack<Element>(first[2], first[3]),
                                pack<Element>(second[0], second[1]), pack<Element>(second[2], second[3])};
#pragma unroll
            for (int i = 0; i < OUT / 16; ++i) {
                unsigned words[4];
                load_matrix_transposed(words, values + 8 * i, PITCH(OUT));
                unsigned right[2][2] = {{words[0], words[1]}, {words[2], words[3]}};
                for (int half = 0; half < 2; ++half) multiply_add<Element>(sums[2 * i + half], left, right[half]);
            }
        } else {
            add_8_keys(first, values);
            add_8_keys(second, values + 8 * PITCH(OUT));
        }
    }

    // Adds the weighted values of 8 keys, of f32. A lane has the weights of keys 2t and 2t + 1, but of the left factor words t
    // and t + 4. The order of the keys is arbitrary, so these are the words of these keys, in both factors.
    __device__ __forceinline__ void add_8_keys(const float (&weights)[4], const unsigned* values) {
        unsigned left[4] = {rounded(weights[0]), rounded(weights[2]), rounded(weights[1]), rounded(weights[3])};
        const unsigned* from = values + threadIdx.x % 4 * 2 * PITCH(OUT) + threadIdx.x % WARP / 4;
#pragma unroll
        for (int i = 0; i < OUT / 8; ++i) {
            unsigned right[2] = {rounded(from[8 * i]), rounded(from[8 * i + PITCH(OUT)])};
            multiply_add<Factor>(sums[i], left, right);
        }
    }

    // Stores the normalised rows in shared memory, over the queries.
    __device__ void store(unsigned* tile) {
        int lane = threadIdx.x % WARP;
        __syncwarp();
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            float all = warp_reduce<4>(row_sum[half], Sum<float>()), factor = all == 0 && MASKED_ROW_IS_ZERO ? 0 : 1 / all;
            unsigned* line = tile + (lane / 4 + 8 * half) * LINE + WORDS(lane % 4 * 2);
#pragma unroll
            for (int i = 0; i < OUT / 8; ++i) {
                store_pair<T>(line + WORDS(8 * i), sums[i][2 * half] * factor, sums[i][2 * half + 1] * factor);
            }
        }
        __syncwarp();
    }
};

// Writes the first `rows` rows of a warp.
static __device__ void write(const unsigned* tile, T* y, i64 by_row, i64 by_column, int rows, int out) {
    for (int i = threadIdx.x % WARP; i < 16 * (OUT / CHUNK); i += WARP) {
        int row = i / (OUT / CHUNK), column = i % (OUT / CHUNK) * CHUNK;
        if (row >= rows || column >= out) continue;
        const Chunk chunk = *(const Chunk*)(tile + row * LINE + WORDS(column));
        T* to = y + row * by_row + column * by_column;
        if (Y_VECTORIZED) {
            *(Chunk*)to = chunk;
        } else {
            for (int n = 0; n < CHUNK; ++n) to[n * by_column] = chunk.elements[n];
        }
    }
}

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS)
    attention(const T* q, const __grid_constant__ Strides sq, const T* k, const __grid_constant__ Strides sk, const T* v,
              const __grid_constant__ Strides sv, const M* mask, const __grid_constant__ Strides sm, const P* padding,
              const __grid_constant__ Strides sp, T* y, const __grid_constant__ Strides sy, const __grid_constant__ Shape batch, i64 batches,
              int rows, int columns, int mask_columns, int width, int out, double scale) {
    extern __shared__ unsigned shared[];
    unsigned* stages = shared + ROWS * LINE;
    int warp = threadIdx.x / WARP, block = CAUSAL ? gridDim.x - 1 - blockIdx.x : blockIdx.x;
    int first_row = block * ROWS, warp_row = first_row + 16 * warp, row = warp_row + threadIdx.x % WARP / 4;
    // The columns that are visible to the block, and to the warp.
    int end = CAUSAL ? min(columns, first_row + ROWS) : columns, steps = (end + KEYS - 1) / KEYS;
    int warp_end = warp_row >= rows ? 0 : CAUSAL ? min(columns, warp_row + 16) : columns;
    float factor = (float)(HAS_MASKS ? scale : scale * LOG2_E);
    for (i64 at = blockIdx.y; at < batches; at += gridDim.y) {
        Matrix queries = {q + offset(at, batch, sq), sq.by[6], sq.by[7], rows, width};
        Matrix keys = {k + offset(at, batch, sk), sk.by[6], sk.by[7], columns, width};
        Matrix values = {v + offset(at, batch, sv), sv.by[6], sv.by[7], columns, out};
        Masks masks = {};
        masks.mask_columns = mask_columns, masks.by_column = sm.by[7], masks.padding_by_column = sp.by[7];
        if (HAS_PADDING) masks.padding = padding + offset(at, batch, sp);
#pragma unroll
        for (int half = 0; half < 2 && HAS_MASK; ++half) {
            masks.rows[half] = mask + offset(at, batch, sm) + min(row + 8 * half, rows - 1) * sm.by[6];
        }
        load_rows<Q_VECTORIZED, ROWS, DEPTH, LINE>(queries, first_row, shared);
        if (steps > 0) load_stage(keys, values, 0, stages);
        commit_copies();
        wait_for_copies<0>();
        __syncthreads();
        Rows of_warp;
        of_warp.begin(shared + 16 * warp * LINE);
        for (int step = 0; step < steps; ++step) {
            int first = step * KEYS, next = step + 1;
            if (next < steps) load_stage(keys, values, next * KEYS, stages + next % 2 * STAGE);
            commit_copies();
            const unsigned* stage = stages + step % 2 * STAGE;
            bool is_edge = first + KEYS > (HAS_MASKS ? mask_columns : columns) || (CAUSAL && first + KEYS > warp_row + 1);
            if (first < warp_end && is_edge) of_warp.add<true>(stage, masks, factor, row, first, columns, warp_end);
            else if (first < warp_end) of_warp.add<false>(stage, masks, factor, row, first, columns, warp_end);
            wait_for_copies<0>();
            __syncthreads();
        }
        of_warp.store(shared + 16 * warp * LINE);
        write(shared + 16 * warp * LINE, y + offset(at, batch, sy) + warp_row * sy.by[6], sy.by[6], sy.by[7], rows - warp_row, out);
        __syncthreads();
    }
}
