// Attention by tensor cores: softmax(scale q k^T + masks) v without a matrix of scores, as in FlashAttention-2 (Dao 2023).
//
// A block computes ROWS rows, each of its warps 16 of them. Keys and values pass through shared memory KEYS at a time, and the next
// ones come while these are multiplied. Scores stay in registers: the sums that a lane holds of q k^T are just those numbers that it
// must hold of the left factor of p v. Queries and keys are DEPTH numbers long and values OUT, with zeros behind those that there are.
// Strides are as in `attention.cu`; Q_COPIED and so on say that rows begin on boundaries of 16 bytes and numbers lie side by side.

#include "common.cuh"
#include "blocks.cuh"
#include "masks.cuh"
#include "tensor_cores.cuh"

#define WARPS 4
#define ROWS (16 * WARPS)
#define THREADS (WARP * WARPS)
// Blocks that a multiprocessor is to run side by side.
#define BLOCKS (DEPTH > 64 || OUT > 64 ? 2 : 3)

// Words from one row in shared memory to the next: eight rows begin in different banks.
#define PITCH(length) ((length) / 2 + 4)
// The same of queries, in whose place the output is put together.
#define LINE PITCH(DEPTH > OUT ? DEPTH : OUT)
// Words of the keys and values of a step.
#define STAGE (KEYS * (PITCH(DEPTH) + PITCH(OUT)))

// Numbers that are moved at a time.
#define CHUNK 8
union __align__(16) Chunk {
    unsigned words[4];
    T numbers[CHUNK];
};

// Scores are in units of log 2, so that powers of two give their weights. With masks they are not: the least number of a type, which
// hides what it is added to, would become infinite.
#define HAS_MASKS (HAS_MASK || HAS_PADDING)
#define UNIT 1.44269504f

static __device__ __forceinline__ float weight_of(float score) {
    float power = HAS_MASKS ? score * UNIT : score;
#ifdef IXION_EMULATOR
    return exp2f(power);
#else
    float weight;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(weight) : "f"(power));
    return weight;
#endif
}

// Queries, keys or values of a head.
struct Matrix {
    const T* from;
    i64 by_row, by_number;
    int rows, length;
};

// Brings COUNT rows to shared memory, and zeros for those beyond the last.
template <bool IS_COPIED, int COUNT, int LENGTH, int ROW_PITCH>
static __device__ void bring(const Matrix& matrix, int first, unsigned* shared) {
    for (int i = threadIdx.x; i < COUNT * (LENGTH / CHUNK); i += THREADS) {
        int row = i / (LENGTH / CHUNK), number = i % (LENGTH / CHUNK) * CHUNK;
        bool is_there = first + row < matrix.rows && number < matrix.length;
        const T* from = matrix.from + (is_there ? (first + row) * matrix.by_row + number * matrix.by_number : 0);
        unsigned* to = shared + row * ROW_PITCH + number / 2;
        if (IS_COPIED) {
            copy_behind(to, from, is_there ? 16 : 0);
        } else {
            Chunk chunk = {};
            for (int n = 0; n < CHUNK && is_there; ++n) chunk.numbers[n] = from[n * matrix.by_number];
            *(Chunk*)to = chunk;
        }
    }
}

// The keys and values of a step.
static __device__ void bring_stage(const Matrix& keys, const Matrix& values, int first, unsigned* stage) {
    bring<K_COPIED, KEYS, DEPTH, PITCH(DEPTH)>(keys, first, stage);
    bring<V_COPIED, KEYS, OUT, PITCH(OUT)>(values, first, stage + KEYS * PITCH(DEPTH));
}

// What masks say of a lane's two rows.
struct Masks {
    const M* rows[2];
    const P* padding;
    i64 by_column, padding_by_column;
    int seen;

    template <bool IS_EDGE>
    __device__ float of(int half, int column) const {
        float added = 0;
        if (IS_EDGE && column >= seen) return added;
        if (HAS_MASK) {
            float number = load<float>(rows[half][column * by_column]);
            added += MASKED(number, MASK_IS_BOOL, MASK_SHOWS);
        }
        if (HAS_PADDING) {
            float number = load<float>(padding[column * padding_by_column]);
            added += MASKED(number, PADDING_IS_BOOL, MASK_SHOWS);
        }
        return added;
    }
};

// Of 16 rows and KEYS columns, as sums of eight columns at a time.
typedef float Scores[KEYS / 8][4];

// The rows of a warp. A lane has two halves of one row each: g and g + 8, as `tensor_cores.cuh` calls them.
struct Rows {
    unsigned queries[DEPTH / 16][4];
    float sums[OUT / 8][4];
    // What the scores are measured against, and the lane's share of the sum of weights.
    float largest[2], total[2];

    __device__ void begin(const unsigned* from) {
#pragma unroll
        for (int i = 0; i < DEPTH / 16; ++i) read_words(queries[i], from + 8 * i, LINE);
#pragma unroll
        for (int i = 0; i < OUT / 8; ++i) {
            for (int part = 0; part < 4; ++part) sums[i][part] = 0;
        }
        for (int half = 0; half < 2; ++half) largest[half] = -INFINITY, total[half] = 0;
    }

    // Adds what KEYS columns from `first` on give, of which these rows see those before `end`. At an edge some are hidden.
    template <bool IS_EDGE>
    __device__ void add(const unsigned* stage, const Masks& masks, float scale, int row, int first, int columns, int end) {
        Scores scores = {};
        multiply<IS_EDGE>(scores, stage, end - first);
        finish<IS_EDGE>(scores, masks, scale, row, first, columns);
        weigh(scores);
        add_values<IS_EDGE>(scores, stage + KEYS * PITCH(DEPTH), end - first);
    }

    template <bool IS_EDGE>
    __device__ void multiply(Scores& scores, const unsigned* keys, int count) const {
#pragma unroll
        for (int i = 0; i < DEPTH / 16; ++i) {
#pragma unroll
            for (int j = 0; j < KEYS / 16; ++j) {
                if (IS_EDGE && 16 * j >= count) continue;
                unsigned words[4];
                read_words(words, keys + 16 * j * PITCH(DEPTH) + 8 * i, PITCH(DEPTH));
                unsigned right[2][2] = {{words[0], words[2]}, {words[1], words[3]}};
                for (int half = 0; half < 2; ++half) multiply_add<T>(scores[2 * j + half], queries[i], right[half]);
            }
        }
    }

    template <bool IS_EDGE>
    __device__ void finish(Scores& scores, const Masks& masks, float scale, int row, int first, int columns) const {
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

    // Makes weights of scores. Where a larger score comes, what was added is scaled down. NaN shows in the weights.
    __device__ void weigh(Scores& scores) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            float top = largest[half];
#pragma unroll
            for (int j = 0; j < KEYS / 8; ++j) top = fmaxf(top, fmaxf(scores[j][2 * half], scores[j][2 * half + 1]));
            top = warp_combine<4>(top, Greater<float>());
            float base = top == -INFINITY ? 0 : top, shrunk = weight_of(largest[half] - base);
            largest[half] = top;
            total[half] *= shrunk;
#pragma unroll
            for (int i = 0; i < OUT / 8; ++i) {
                for (int part = 2 * half; part < 2 * half + 2; ++part) sums[i][part] *= shrunk;
            }
#pragma unroll
            for (int j = 0; j < KEYS / 8; ++j) {
                for (int part = 2 * half; part < 2 * half + 2; ++part) {
                    scores[j][part] = weight_of(scores[j][part] - base);
                    total[half] += scores[j][part];
                }
            }
        }
    }

    template <bool IS_EDGE>
    __device__ void add_values(const Scores& weights, const unsigned* values, int count) {
#pragma unroll
        for (int j = 0; j < KEYS / 16; ++j) {
            if (IS_EDGE && 16 * j >= count) continue;
            unsigned left[4];
            for (int i = 0; i < 4; ++i) left[i] = pair<T>(weights[2 * j + i / 2][i % 2 * 2], weights[2 * j + i / 2][i % 2 * 2 + 1]);
#pragma unroll
            for (int i = 0; i < OUT / 16; ++i) {
                unsigned words[4];
                read_turned(words, values + 16 * j * PITCH(OUT) + 8 * i, PITCH(OUT));
                unsigned right[2][2] = {{words[0], words[1]}, {words[2], words[3]}};
                for (int half = 0; half < 2; ++half) multiply_add<T>(sums[2 * i + half], left, right[half]);
            }
        }
    }

    // Puts the rows together where the queries were.
    __device__ void put(unsigned* tile) {
        int lane = threadIdx.x % WARP;
        __syncwarp();
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            float all = warp_combine<4>(total[half], Sum<float>()), factor = all == 0 && BLIND_IS_ZERO ? 0 : 1 / all;
            unsigned* line = tile + (lane / 4 + 8 * half) * LINE + lane % 4;
#pragma unroll
            for (int i = 0; i < OUT / 8; ++i) line[4 * i] = pair<T>(sums[i][2 * half] * factor, sums[i][2 * half + 1] * factor);
        }
        __syncwarp();
    }
};

// A warp writes so many of its rows.
static __device__ void write(const unsigned* tile, T* y, i64 by_row, i64 by_number, int rows, int out) {
    for (int i = threadIdx.x % WARP; i < 16 * (OUT / CHUNK); i += WARP) {
        int row = i / (OUT / CHUNK), number = i % (OUT / CHUNK) * CHUNK;
        if (row >= rows || number >= out) continue;
        const Chunk chunk = *(const Chunk*)(tile + row * LINE + number / 2);
        T* to = y + row * by_row + number * by_number;
        if (Y_COPIED) {
            *(Chunk*)to = chunk;
        } else {
            for (int n = 0; n < CHUNK; ++n) to[n * by_number] = chunk.numbers[n];
        }
    }
}

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS)
    attention(const T* q, const __grid_constant__ Strides sq, const T* k, const __grid_constant__ Strides sk, const T* v,
              const __grid_constant__ Strides sv, const M* mask, const __grid_constant__ Strides sm, const P* padding,
              const __grid_constant__ Strides sp, T* y, const __grid_constant__ Strides sy, const __grid_constant__ Shape batch, i64 batches,
              int rows, int columns, int seen, int width, int out, double scale) {
    extern __shared__ unsigned shared[];
    unsigned* stages = shared + ROWS * LINE;
    int warp = threadIdx.x / WARP, block = CAUSAL ? gridDim.x - 1 - blockIdx.x : blockIdx.x;
    int first_row = block * ROWS, warp_row = first_row + 16 * warp, row = warp_row + threadIdx.x % WARP / 4;
    // The columns that the block sees, and those that the warp does.
    int end = CAUSAL ? min(columns, first_row + ROWS) : columns, steps = (end + KEYS - 1) / KEYS;
    int warp_end = warp_row >= rows ? 0 : CAUSAL ? min(columns, warp_row + 16) : columns;
    float factor = (float)(HAS_MASKS ? scale : scale * UNIT);
    for (i64 at = blockIdx.y; at < batches; at += gridDim.y) {
        Matrix queries = {q + offset(at, batch, sq), sq.by[6], sq.by[7], rows, width};
        Matrix keys = {k + offset(at, batch, sk), sk.by[6], sk.by[7], columns, width};
        Matrix values = {v + offset(at, batch, sv), sv.by[6], sv.by[7], columns, out};
        Masks masks = {};
        masks.seen = seen, masks.by_column = sm.by[7], masks.padding_by_column = sp.by[7];
        if (HAS_PADDING) masks.padding = padding + offset(at, batch, sp);
#pragma unroll
        for (int half = 0; half < 2 && HAS_MASK; ++half) {
            masks.rows[half] = mask + offset(at, batch, sm) + min(row + 8 * half, rows - 1) * sm.by[6];
        }
        bring<Q_COPIED, ROWS, DEPTH, LINE>(queries, first_row, shared);
        if (steps > 0) bring_stage(keys, values, 0, stages);
        end_of_copies();
        wait_for_copies<0>();
        __syncthreads();
        Rows of_warp;
        of_warp.begin(shared + 16 * warp * LINE);
        for (int step = 0; step < steps; ++step) {
            int first = step * KEYS, next = step + 1;
            if (next < steps) bring_stage(keys, values, next * KEYS, stages + next % 2 * STAGE);
            end_of_copies();
            const unsigned* stage = stages + step % 2 * STAGE;
            bool is_edge = first + KEYS > (HAS_MASKS ? seen : columns) || (CAUSAL && first + KEYS > warp_row + 1);
            if (first < warp_end && is_edge) of_warp.add<true>(stage, masks, factor, row, first, columns, warp_end);
            else if (first < warp_end) of_warp.add<false>(stage, masks, factor, row, first, columns, warp_end);
            wait_for_copies<0>();
            __syncthreads();
        }
        of_warp.put(shared + 16 * warp * LINE);
        write(shared + 16 * warp * LINE, y + offset(at, batch, sy) + warp_row * sy.by[6], sy.by[6], sy.by[7], rows - warp_row, out);
        __syncthreads();
    }
}
