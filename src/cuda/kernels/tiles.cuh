// Products of matrices by tensor cores: a block computes ROWS by COLUMNS sums, each of its warps a tile of WARP_ROWS by 32 of them.
//
// Both factors come to shared memory by rows (the right one by its columns), CHUNK numbers of the depth at a time, PITCH words
// apart: eight rows begin in different banks. STAGES steps of the depth are there at once, so that the next ones come while one is
// multiplied. Where they come from is a source's business:
//
//     const E* at(int row, int first, int& count)        where CHUNK numbers lie; count of them are there
//     Chunk read(int row, int first)                     these numbers, one by one
//
// The first is for numbers that lie side by side on a boundary of 16 bytes: they are copied while threads compute.

#define WORDS 16
#define PITCH (WORDS + 4)
#define STAGES 4
#define CHUNKS (WORDS / 4)
#define CHUNK (16 / (int)sizeof(E))
#define STEP_DEPTH (CHUNKS * CHUNK)
#define WARP_COLUMNS 32
#define THREADS (WARP * (ROWS / WARP_ROWS) * (COLUMNS / WARP_COLUMNS))
// Blocks that a multiprocessor is to run side by side.
#define BLOCKS (ROWS == 128 ? 2 : 4)
// Of a row of sums, or of a column where SUMS_BY_COLUMN says that those of a column lie behind each other.
#define SUM_PITCH (COLUMNS + 4)
#ifndef SUMS_BY_COLUMN
#define SUMS_BY_COLUMN 0
#endif

// Where a sum lies in shared memory. Tiles are square.
static __device__ inline int sum_at(int row, int column) {
    return SUMS_BY_COLUMN ? column * SUM_PITCH + row : row * SUM_PITCH + column;
}

typedef SumOf<E>::Type TileSum;

union Chunk {
    unsigned words[4];
    E numbers[CHUNK];
    __device__ Chunk() : words() {}
};

// Rows of a left factor, or columns of a right one.
template <bool COPIED, bool ROWS_FIRST>
struct Lines {
    static constexpr bool IS_COPIED = COPIED, ALONG_ROWS = ROWS_FIRST;
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
            if (k + i < depth) chunk.numbers[i] = at[(k + i) * by_depth];
        }
        return chunk;
    }
};

// The half of a stage that a source fills, `LENGTH` rows.
template <class Source, int LENGTH, bool COPIED>
struct Side;

template <class Source, int LENGTH>
struct Side<Source, LENGTH, true> {
    __device__ void begin(Source& source, int first, unsigned* stage) {
        for (int i = threadIdx.x; i < LENGTH * CHUNKS; i += THREADS) {
            int row = i / CHUNKS, chunk = i % CHUNKS, count = 0;
            const E* from = source.at(row, first + chunk * CHUNK, count);
            copy_behind(&stage[row * PITCH + chunk * 4], from, count * (int)sizeof(E));
        }
    }
    __device__ void end(unsigned*) {}
};

template <class Source, int LENGTH>
struct Side<Source, LENGTH, false> {
    Chunk held[LENGTH * CHUNKS / THREADS];

    // Neighbouring threads read neighbouring rows, or neighbouring numbers of one.
    __device__ int place(int i, int& chunk) const {
        int number = threadIdx.x + i * THREADS;
        chunk = Source::ALONG_ROWS ? number / LENGTH : number % CHUNKS;
        return Source::ALONG_ROWS ? number % LENGTH : number / CHUNKS;
    }
    __device__ void begin(Source& source, int first, unsigned*) {
#pragma unroll
        for (int i = 0; i < LENGTH * CHUNKS / THREADS; ++i) {
            int chunk, row = place(i, chunk);
            held[i] = source.read(row, first + chunk * CHUNK);
        }
    }
    __device__ void end(unsigned* stage) {
#pragma unroll
        for (int i = 0; i < LENGTH * CHUNKS / THREADS; ++i) {
            int chunk, row = place(i, chunk);
            for (int word = 0; word < 4; ++word) stage[row * PITCH + chunk * 4 + word] = held[i].words[word];
        }
    }
};

// The sums of a block in registers: of each warp 16 by 8 at a time.
struct Sums {
    TileSum of[WARP_ROWS / 16][WARP_COLUMNS / 8][4];

    // Of this thread's warp.
    __device__ int first_row() const { return threadIdx.x / WARP / (COLUMNS / WARP_COLUMNS) * WARP_ROWS; }
    __device__ int first_column() const { return threadIdx.x / WARP % (COLUMNS / WARP_COLUMNS) * WARP_COLUMNS; }

    // Adds the products of a stage to those sums that there are: warps beyond all rows or columns have nothing to do.
    __device__ void add(const unsigned* left, const unsigned* right, int rows, int columns) {
        if (first_row() >= rows || first_column() >= columns) return;
#pragma unroll
        for (int word = 0; word < WORDS; word += 8) {
            unsigned a[WARP_ROWS / 16][4], b[WARP_COLUMNS / 16][4];
            for (int i = 0; i < WARP_ROWS / 16; ++i) read_words(a[i], left + (first_row() + 16 * i) * PITCH + word, PITCH);
            for (int j = 0; j < WARP_COLUMNS / 16; ++j) read_words(b[j], right + (first_column() + 16 * j) * PITCH + word, PITCH);
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

    // In shared memory, where factors were.
    __device__ void put(TileSum* tile) const {
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

// The sums of a block over the depth from `first` to `end`, in `shared`, as `sum_at` says. So many rows and columns, or
// more, are there.
template <class Left, class Right>
static __device__ void multiply(Left left, Right right, int rows, int columns, int first, int end, unsigned* shared) {
    const int stage = (ROWS + COLUMNS) * PITCH;
    Side<Left, ROWS, Left::IS_COPIED> of_left;
    Side<Right, COLUMNS, Right::IS_COPIED> of_right;
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
        end_of_copies();
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
        end_of_copies();
        const unsigned* from = shared + step % STAGES * stage;
        sums.add(from, from + ROWS * PITCH, rows, columns);
        if (next < steps) {
            of_left.end(to);
            of_right.end(to + ROWS * PITCH);
        }
    }
    wait_for_copies<0>();
    __syncthreads();
    sums.put((TileSum*)shared);
    __syncthreads();
}

// What a launch does of a product whose depth is shared among blocks: each of them writes its sums, a second launch adds these up.
#define WHOLE 0
#define PART 1
#define ADD 2

// Steps of the depth that each of so many parts has.
static __device__ inline int part_depth(int depth, int parts) {
    int steps = (depth + STEP_DEPTH - 1) / STEP_DEPTH;
    return (steps + parts - 1) / parts * STEP_DEPTH;
}

// Writes a block's sums behind those of other blocks and parts, or adds up those of all parts: in the same order at every run.
static __device__ void put_part(const TileSum* tile, TileSum* parts) {
    for (int i = threadIdx.x; i < ROWS * COLUMNS; i += THREADS) parts[i] = tile[i / COLUMNS * SUM_PITCH + i % COLUMNS];
}
static __device__ void add_parts(TileSum* tile, const TileSum* parts, int count, i64 apart) {
    for (int i = threadIdx.x; i < ROWS * COLUMNS; i += THREADS) {
        TileSum sum = 0;
        for (int part = 0; part < count; ++part) sum += parts[part * apart + i];
        tile[i / COLUMNS * SUM_PITCH + i % COLUMNS] = sum;
    }
    __syncthreads();
}
