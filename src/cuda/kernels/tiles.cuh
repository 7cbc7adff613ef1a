// Tiled matrix products on tensor cores. A block computes a tile of ROWS by COLUMNS sums, and each of its warps a tile of
// WARP_ROWS by 32.
//
// Both factors are staged in shared memory as rows along the depth (columns for the right factor), in chunks of CHUNK elements.
// Rows are PITCH words apart, so that eight rows start in different banks. The pipeline has STAGES stages, each a step of the
// depth: the next ones are loaded while one is multiplied. A source provides the elements:
//
//     const E* at(int row, int first, int& count)        the address of a chunk, of which `count` elements exist
//     Chunk read(int row, int first)                     the chunk, gathered element by element
//
// `at` requires chunks that are contiguous and aligned to 16 bytes; they are copied asynchronously.

#define WORDS 16
#define PITCH (WORDS + 4)
#define STAGES 4
#define CHUNKS (WORDS / 4)
#define CHUNK (16 / (int)sizeof(E))
#define STEP_DEPTH (CHUNKS * CHUNK)
#define WARP_COLUMNS 32
#define THREADS (WARP * (ROWS / WARP_ROWS) * (COLUMNS / WARP_COLUMNS))
// The minimum number of resident blocks per multiprocessor.
#define BLOCKS (ROWS == 128 ? 2 : 4)
// The pitch of the sums in shared memory: of a row, or of a column if COLUMN_MAJOR_SUMS is set.
#define SUM_PITCH (COLUMNS + 4)
#ifndef COLUMN_MAJOR_SUMS
#define COLUMN_MAJOR_SUMS 0
#endif

// The offset of a sum in shared memory. Tiles are square.
static __device__ inline int sum_at(int row, int column) {
    return COLUMN_MAJOR_SUMS ? column * SUM_PITCH + row : row * SUM_PITCH + column;
}

typedef AccumulatorOf<E>::Type Accumulator;

union Chunk {
    unsigned words[4];
    E elements[CHUNK];
    __device__ Chunk() : words() {}
};

// A source of rows of the left factor, or columns of the right one.
template <bool VECTORIZED, bool ROWS_FIRST>
struct Lines {
    static constexpr bool IS_VECTORIZED = VECTORIZED, ALONG_ROWS = ROWS_FIRST;
    const E* from;
    i64 by_line, by_depth;
    int first, lines, depth;

    __device__ const E* at(int line, int k, int& count) const {
        bool is_inside = first + line < lines && k < depth;
        count = is_inside ? min(depth - k, CHUNK) : 0;
        return is_inside ? from + (first + line) * by_line + k : from;
    }
    __device__ Chunk read(int line, int k) const {
        Chunk chunk;
        if (first + line >= lines) return chunk;
        const E* at = from + (first + line) * by_line;
#pragma unroll
        for (int i = 0; i < CHUNK; ++i) {
            if (k + i < depth) chunk.elements[i] = at[(k + i) * by_depth];
        }
        return chunk;
    }
};

// Loads the part of a stage that belongs to one source, LENGTH rows.
template <class Source, int LENGTH, bool VECTORIZED>
struct StageLoader;

template <class Source, int LENGTH>
struct StageLoader<Source, LENGTH, true> {
    __device__ void begin(Source& source, int first, unsigned* stage) {
        for (int i = threadIdx.x; i < LENGTH * CHUNKS; i += THREADS) {
            int row = i / CHUNKS, chunk = i % CHUNKS, count = 0;
            const E* from = source.at(row, first + chunk * CHUNK, count);
            copy_async(&stage[row * PITCH + chunk * 4], from, count * (int)sizeof(E));
        }
    }
    __device__ void end(unsigned*) {}
};

template <class Source, int LENGTH>
struct StageLoader<Source, LENGTH, false> {
    Chunk loaded[LENGTH * CHUNKS / THREADS];

    // The row and the chunk of access i: adjacent threads read adjacent rows, or adjacent chunks of a row.
    __device__ int locate(int i, int& chunk) const {
        int index = threadIdx.x + i * THREADS;
        chunk = Source::ALONG_ROWS ? index / LENGTH : index % CHUNKS;
        return Source::ALONG_ROWS ? index % LENGTH : index / CHUNKS;
    }
    __device__ void begin(Source& source, int first, unsigned*) {
#pragma unroll
        for (int i = 0; i < LENGTH * CHUNKS / THREADS; ++i) {
            int chunk, row = locate(i, chunk);
            loaded[i] = source.read(row, first + chunk * CHUNK);
        }
    }
    __device__ void end(unsigned* stage) {
#pragma unroll
        for (int i = 0; i < LENGTH * CHUNKS / THREADS; ++i) {
            int chunk, row = locate(i, chunk);
            for (int word = 0; word < 4; ++word) stage[row * PITCH + chunk * 4 + word] = loaded[i].words[word];
        }
    }
};

// The accumulators of a block in registers, in fragments of 16 by 8 per warp.
struct Sums {
    Accumulator of[WARP_ROWS / 16][WARP_COLUMNS / 8][4];

    // The origin of the warp's tile.
    __device__ int first_row() const { return threadIdx.x / WARP / (COLUMNS / WARP_COLUMNS) * WARP_ROWS; }
    __device__ int first_column() const { return threadIdx.x / WARP % (COLUMNS / WARP_COLUMNS) * WARP_COLUMNS; }

    // Accumulates the products of a stage. Warps entirely outside the matrix skip it.
    __device__ void add(const unsigned* left, const unsigned* right, int rows, int columns) {
        if (first_row() >= rows || first_column() >= columns) return;
#pragma unroll
        for (int word = 0; word < WORDS; word += 8) {
            unsigned a[WARP_ROWS / 16][4], b[WARP_COLUMNS / 16][4];
            for (int i = 0; i < WARP_ROWS / 16; ++i) load_matrix(a[i], left + (first_row() + 16 * i) * PITCH + word, PITCH);
            for (int j = 0; j < WARP_COLUMNS / 16; ++j) load_matrix(b[j], right + (first_column() + 16 * j) * PITCH + word, PITCH);
#pragma unroll
            for (int i = 0; i < WARP_ROWS / 16; ++i) {
#pragma unroll
                for (int j = 0; j < WARP_COLUMNS / 8; ++j) {
                    unsigned column[2] = {b[j / 2][j % 2], b[j / 2][j % 2 + 2]};
                    multiply_add<E>(of[i][j], a[i], column);
                }
            }
        }
    }

    // Stores the sums in shared memory, over the factors.
    __device__ void store(Accumulator* tile) const {
        int lane = threadIdx.x % WARP;
        for (int i = 0; i < WARP_ROWS / 16; ++i) {
            for (int j = 0; j < WARP_COLUMNS / 8; ++j) {
                for (int part = 0; part < 4; ++part) {
                    int row = first_row() + 16 * i + lane / 4 + part / 2 * 8, column = first_column() + 8 * j + lane % 4 * 2 + part % 2;
                    tile[sum_at(row, column)] = of[i][j][part];
                }
            }
        }
    }
};

// Computes the sums of a block over the depth from `first` to `end`, and stores them in `shared` at the offsets of `sum_at`.
// `rows` and `columns` are the numbers of those that remain in the matrix from this tile on.
template <class Left, class Right>
static __device__ void multiply(Left left, Right right, int rows, int columns, int first, int end, unsigned* shared) {
    const int stage = (ROWS + COLUMNS) * PITCH;
    StageLoader<Left, ROWS, Left::IS_VECTORIZED> of_left;
    StageLoader<Right, COLUMNS, Right::IS_VECTORIZED> of_right;
    Sums sums = {};
    int steps = (end - first + STEP_DEPTH - 1) / STEP_DEPTH;
    for (int step = 0; step < STAGES - 1; ++step) {
        unsigned* to = shared + step * stage;
        if (step < steps) {
            of_left.begin(left, first + step * STEP_DEPTH, to);
            of_right.begin(right, first + step * STEP_DEPTH, to + ROWS * PITCH);
            of_left.end(to);
            of_right.end(to + ROWS * PITCH);
        }
        commit_copies();
    }
    for (int step = 0; step < steps; ++step) {
        wait_for_copies<STAGES - 2>();
        __syncthreads();
        int next = step + STAGES - 1;
        unsigned* to = shared + next % STAGES * stage;
        if (next < steps) {
            of_left.begin(left, first + next * STEP_DEPTH, to);
            of_right.begin(right, first + next * STEP_DEPTH, to + ROWS * PITCH);
        }
        commit_copies();
        const unsigned* from = shared + step % STAGES * stage;
        sums.add(from, from + ROWS * PITCH, rows, columns);
        if (next < steps) {
            of_left.end(to);
            of_right.end(to + ROWS * PITCH);
        }
    }
    wait_for_copies<0>();
    __syncthreads();
    sums.store((Accumulator*)shared);
    __syncthreads();
}

// The phases of a launch. If the depth of a product is split among blocks (split-K), each block writes its partial sums, and a
// second launch adds these up. As that takes little else than waiting for memory, BANDS blocks share each tile.
#define WHOLE 0
#define PART 1
#define ADD 2
#define BAND (ROWS * COLUMNS / BANDS)

// The number of blocks that share a tile.
static __device__ inline int blocks_of_tile(int phase, int splits) { return phase == PART ? splits : phase == ADD ? BANDS : 1; }

// The length of each of `parts` parts of the depth, a multiple of a step.
static __device__ inline int part_depth(int depth, int parts) {
    int steps = (depth + STEP_DEPTH - 1) / STEP_DEPTH;
    return (steps + parts - 1) / parts * STEP_DEPTH;
}

// Store the sums of a block in scratch memory, ordered as in shared memory; and add up those of all parts for one element, in a
// deterministic order. Loads do not depend on each other, so that a thread waits for many of them at once.
static __device__ void store_partial(const Accumulator* tile, Accumulator* parts) {
    for (int i = threadIdx.x; i < ROWS * COLUMNS; i += THREADS) parts[i] = tile[i / COLUMNS * SUM_PITCH + i % COLUMNS];
}
static __device__ Accumulator add_partials(const Accumulator* parts, int count, i64 stride) {
    const int loads = 8;
    Accumulator sum = 0;
    for (int first = 0; first < count; first += loads) {
        Accumulator loaded[loads];
#pragma unroll
        for (int i = 0; i < loads; ++i) loaded[i] = first + i < count ? parts[(first + i) * stride] : 0;
#pragma unroll
        for (int i = 0; i < loads; ++i) sum += loaded[i];
    }
    return sum;
}
