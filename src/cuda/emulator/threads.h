// CUDA C++ on a CPU: threads, as kernels see them. This file and `language.h` precede a kernel source, which is compiled
// unmodified. The implementation, in `fibres.h`, is compiled once for many sources.

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <tuple>
#include <utility>

// Marks the emulator's own code, which the checker does not check.
#define IXION_OWN __attribute__((no_sanitize("thread"), no_sanitize("undefined"), noinline))

struct dim3 {
    unsigned x, y, z;
};

namespace ixion {

// These structs match those of the device interface and of emulator/library.rs.
struct Extent {
    uint64_t start, end;
    uint32_t is_written, position;
};
struct Launch {
    uint32_t grid[3], block[3], shared, seed;
    void** arguments;
    const Extent* extents;
    uint64_t extent_count;
    char* report;
    uint64_t report_size;
};

enum class State { New, Running, AtBlock, AtWarp, Done };

struct Fibre {
    void* stack;
    void* saved;
};

struct Thread {
    dim3 index;
    unsigned number;
    State state;
    Fibre* fibre;
    unsigned mask;
    // The value that the thread contributes to a shuffle, and the counts of barriers that it has passed.
    uint64_t published;
    unsigned block_epoch, warp_epoch;
};

extern dim3 block_index, block_dim, grid_dim;
extern Thread* threads;
extern unsigned thread_count;
extern Thread* self;
extern int votes, vote_result[3];
extern void* dynamic_shared;

// Runs all blocks of a launch; returns 0 on success.
int run(const Launch* what, void (*kernel)(void**));
// Waits for the other threads of the block or the warp.
void wait(State state, unsigned mask);
uint64_t exchange(unsigned mask, uint64_t value, unsigned from, bool* is_there);
unsigned lane();
// Makes a value of this thread visible to the warp until its next barrier.
void publish(const void* what);
unsigned ballot(unsigned mask, bool vote);
void check_atomically(const volatile void* address, unsigned size);

template <class... A, size_t... I>
IXION_OWN static void call(void (*kernel)(A...), void** arguments, std::index_sequence<I...>) {
    kernel(*reinterpret_cast<std::remove_reference_t<A>*>(arguments[I])...);
}
template <class... A>
IXION_OWN static void unpack(void (*kernel)(A...), void** arguments) {
    call(kernel, arguments, std::index_sequence_for<A...>{});
}

template <class T>
static inline T exchanged(unsigned mask, T value, unsigned from) {
    static_assert(sizeof(T) <= 8, "a shuffle exchanges at most 8 bytes");
    uint64_t bits = 0;
    memcpy(&bits, &value, sizeof(T));
    bool is_there;
    bits = exchange(mask, bits, from, &is_there);
    memcpy(&value, &bits, sizeof(T));
    return value;
}

// The value that a lane of the warp published.
template <class T>
IXION_OWN static const T* published_by(unsigned lane) {
    return reinterpret_cast<const T*>(threads[(self->number & ~31u) + lane].published);
}

}  // namespace ixion
