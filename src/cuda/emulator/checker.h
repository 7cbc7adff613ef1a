// The checker: checks every memory access of a kernel before it happens. The compiler inserts the calls of the thread and
// bounds sanitizers; this file implements them.
//
// - An access must be within a tensor that was passed to the kernel, within shared memory, or on the stack of its thread.
// - Two threads must not access the same byte, at least one of them writing, unless both pass a barrier in between, or both
//   accesses are atomic. Such a race is reported whether or not it affects the result of this run.

#include <unordered_map>

extern "C" {
extern char __ehdr_start[] __attribute__((visibility("hidden")));
extern char _end[] __attribute__((visibility("hidden")));
}

namespace ixion {

// An access to a byte: its thread, and the numbers of block and warp barriers that the thread had passed.
struct Access {
    uint64_t block;
    unsigned thread, block_epoch, warp_epoch;
    bool is_there, is_atomic;
};
struct Shadow {
    Access write, reads[2];
};

static std::unordered_map<uint64_t, Shadow>* shadow;
static uint64_t block_number;

IXION_OWN static void begin_launch() {
    if (!shadow) shadow = new std::unordered_map<uint64_t, Shadow>;
    shadow->clear();
    block_number = 0;
}

IXION_OWN static bool is_within(uint64_t address, uint64_t start, uint64_t end) { return start <= address && address < end; }

// Static shared memory, and constants of the source.
IXION_OWN static bool is_module(uint64_t address) {
    return is_within(address, reinterpret_cast<uint64_t>(__ehdr_start), reinterpret_cast<uint64_t>(_end));
}

IXION_OWN static bool is_dynamic(uint64_t address) {
    uint64_t start = reinterpret_cast<uint64_t>(dynamic_shared);
    return is_within(address, start, start + launch->shared);
}

// Each block has its own shared memory.
IXION_OWN static void begin_block() {
    ++block_number;
    for (auto entry = shadow->begin(); entry != shadow->end();) {
        bool is_shared = is_module(entry->first) || is_dynamic(entry->first);
        entry = is_shared ? shadow->erase(entry) : std::next(entry);
    }
}

IXION_OWN static const char* argument(unsigned position) {
    static char text[32];
    snprintf(text, sizeof text, "argument %u", position);
    return text;
}

// Reports an access outside all accessible memory, relative to the nearest tensor.
IXION_OWN static void report_outside(uint64_t address, unsigned size, bool is_write) {
    const char* verb = is_write ? "writes" : "reads";
    const Extent* nearest = nullptr;
    uint64_t least = ~0ull;
    for (uint64_t at = 0; at < launch->extent_count; ++at) {
        const Extent& extent = launch->extents[at];
        uint64_t away = address < extent.start ? extent.start - address : address - extent.end;
        if (away < least) least = away, nearest = &extent;
    }
    if (nearest && least < (1u << 20)) {
        bool is_before = address < nearest->start;
        fail("%s %s %u bytes starting %llu bytes %s %s", describe(*self), verb, size,
             (unsigned long long)(is_before ? nearest->start - address : address - nearest->end),
             is_before ? "before" : "past the end of", argument(nearest->position));
    } else {
        fail("%s %s %u bytes at %#llx, outside all tensors of the kernel", describe(*self), verb, size,
             (unsigned long long)address);
    }
}

// Returns true if an earlier access and the current one are by the same thread, or separated by a barrier that both threads
// passed.
IXION_OWN static bool is_ordered(const Access& access) {
    if (access.block != block_number) return false;
    if (access.thread == self->number || access.block_epoch != self->block_epoch) return true;
    return access.thread / 32 == self->number / 32 && access.warp_epoch != self->warp_epoch;
}

IXION_OWN static void check_race(const Access& access, uint64_t address, bool is_write, bool is_atomic, bool was_write) {
    if (!access.is_there || (access.is_atomic && is_atomic) || is_ordered(access)) return;
    bool is_shared = is_module(address) || is_dynamic(address);
    if (access.block != block_number) {
        fail("%s %s a byte that another block %s in the same launch", describe(*self), is_write ? "writes" : "reads",
             was_write ? "writes" : "reads");
        return;
    }
    Thread other = threads[access.thread];
    fail("%s %s a byte of %s memory that thread (%u, %u, %u) %s, with no barrier between them", describe(*self),
         is_write ? "writes" : "reads", is_shared ? "shared" : "global", other.index.x, other.index.y, other.index.z,
         was_write ? "wrote" : "read");
}

IXION_OWN static void check_byte(uint64_t address, bool is_write, bool is_atomic) {
    Shadow& known = (*shadow)[address];
    check_race(known.write, address, is_write, is_atomic, true);
    Access now = {block_number, self->number, self->block_epoch, self->warp_epoch, true, is_atomic};
    if (!is_write) {
        // Two readers are enough: any writing thread differs from at least one of them.
        Access& slot = known.reads[known.reads[0].is_there && known.reads[0].thread != self->number];
        slot = now;
        return;
    }
    check_race(known.reads[0], address, is_write, is_atomic, false);
    check_race(known.reads[1], address, is_write, is_atomic, false);
    known.write = now;
    known.reads[0].is_there = known.reads[1].is_there = false;
}

IXION_OWN static void check(uint64_t address, unsigned size, bool is_write, bool is_atomic = false) {
    if (!is_kernel || has_failed) return;
    uint64_t stack = reinterpret_cast<uint64_t>(running->stack);
    if (is_within(address, stack, stack + STACK)) return;
    // This memory holds `threadIdx`.
    uint64_t indices = reinterpret_cast<uint64_t>(threads);
    if (is_within(address, indices, indices + thread_count * sizeof(Thread))) return;
    bool is_known = is_module(address) || is_dynamic(address);
    for (uint64_t at = 0; !is_known && at < launch->extent_count; ++at) {
        const Extent& extent = launch->extents[at];
        is_known = extent.start <= address && address + size <= extent.end;
    }
    is_kernel = false;
    if (!is_known) report_outside(address, size, is_write);
    for (unsigned byte = 0; byte < size && !has_failed; ++byte) check_byte(address + byte, is_write, is_atomic);
    if (has_failed) abandon_thread();
    is_kernel = true;
}

void check_atomically(const volatile void* address, unsigned size) {
    check(reinterpret_cast<uint64_t>(address), size, true, true);
}

}  // namespace ixion

#define IXION_ACCESS(SIZE)                                                                                                 \
    IXION_OWN void __tsan_read##SIZE(void* at) { ixion::check(reinterpret_cast<uint64_t>(at), SIZE, false); }              \
    IXION_OWN void __tsan_write##SIZE(void* at) { ixion::check(reinterpret_cast<uint64_t>(at), SIZE, true); }              \
    IXION_OWN void __tsan_unaligned_read##SIZE(void* at) { ixion::check(reinterpret_cast<uint64_t>(at), SIZE, false); }    \
    IXION_OWN void __tsan_unaligned_write##SIZE(void* at) { ixion::check(reinterpret_cast<uint64_t>(at), SIZE, true); }

extern "C" {
IXION_ACCESS(1)
IXION_ACCESS(2)
IXION_ACCESS(4)
IXION_ACCESS(8)
IXION_ACCESS(16)
IXION_OWN void __tsan_read_range(void* at, unsigned long size) { ixion::check(reinterpret_cast<uint64_t>(at), size, false); }
IXION_OWN void __tsan_write_range(void* at, unsigned long size) { ixion::check(reinterpret_cast<uint64_t>(at), size, true); }
IXION_OWN void __tsan_func_entry(void*) {}
IXION_OWN void __tsan_func_exit() {}
IXION_OWN void __tsan_vptr_update(void**, void*) {}
IXION_OWN void __tsan_vptr_read(void**) {}
IXION_OWN void __tsan_init() {}

// The data that the compiler passes for an array access: its position in the source.
struct IxionArrayAccess {
    const char* file;
    unsigned line, column;
};
IXION_OWN void __ubsan_handle_out_of_bounds(void* data, uintptr_t index) {
    if (!ixion::is_kernel || ixion::has_failed) return;
    ixion::is_kernel = false;
    const IxionArrayAccess* at = static_cast<const IxionArrayAccess*>(data);
    const char* file = strrchr(at->file, '/');
    ixion::fail("%s uses index %lld, which is outside the array, at %s:%u", ixion::describe(*ixion::self), (long long)index,
                file ? file + 1 : at->file, at->line);
    ixion::abandon_thread();
}
}
