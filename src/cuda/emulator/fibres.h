// CUDA C++ on a CPU: the execution of threads. This file is compiled once, and linked to each kernel source.
//
// The threads of a block run one at a time. A thread that waits for others, at a barrier or in a shuffle, is suspended as a
// fibre with its own stack until all have arrived. A kernel without barriers needs only one fibre.

#include <cstdarg>
#include <pthread.h>
#include <sys/mman.h>
#include <vector>

namespace ixion {

static constexpr size_t STACK = 128 * 1024;

static pthread_mutex_t busy = PTHREAD_MUTEX_INITIALIZER;
static const Launch* launch;
static void (*entry)(void**);
dim3 block_index, block_dim, grid_dim;
Thread* threads;
unsigned thread_count;
Thread* self;
static unsigned* order;
static unsigned next_new;
int votes, vote_result[3];
void* dynamic_shared;
static bool has_failed;
// Whether the kernel's own code is running.
static bool is_kernel;
static Fibre scheduler;
static Fibre* running;
static std::vector<Fibre*>* idle;

IXION_OWN static void fail(const char* format, ...);
extern "C" void ixion_switch(void** save, void* to);
extern "C" void ixion_begin();

// Switches stacks: pushes the callee-saved registers, and pops them from the other stack.
#if defined(__x86_64__)
asm(R"(
.text
.local ixion_switch
.type ixion_switch, @function
ixion_switch:
    pushq %rbp
    pushq %rbx
    pushq %r12
    pushq %r13
    pushq %r14
    pushq %r15
    movq %rsp, (%rdi)
    movq %rsi, %rsp
    popq %r15
    popq %r14
    popq %r13
    popq %r12
    popq %rbx
    popq %rbp
    ret
.size ixion_switch, .-ixion_switch
)");
static constexpr int SAVED_REGISTERS = 6;
#elif defined(__aarch64__)
asm(R"(
.text
.local ixion_switch
.type ixion_switch, %function
ixion_switch:
    sub sp, sp, #176
    stp x19, x20, [sp]
    stp x21, x22, [sp, #16]
    stp x23, x24, [sp, #32]
    stp x25, x26, [sp, #48]
    stp x27, x28, [sp, #64]
    stp x29, x30, [sp, #80]
    stp d8, d9, [sp, #96]
    stp d10, d11, [sp, #112]
    stp d12, d13, [sp, #128]
    stp d14, d15, [sp, #144]
    mov x9, sp
    str x9, [x0]
    mov sp, x1
    ldp x19, x20, [sp]
    ldp x21, x22, [sp, #16]
    ldp x23, x24, [sp, #32]
    ldp x25, x26, [sp, #48]
    ldp x27, x28, [sp, #64]
    ldp x29, x30, [sp, #80]
    ldp d8, d9, [sp, #96]
    ldp d10, d11, [sp, #112]
    ldp d12, d13, [sp, #128]
    ldp d14, d15, [sp, #144]
    add sp, sp, #176
    ret
.size ixion_switch, .-ixion_switch
)");
#else
#error "the emulator only supports x86-64 and aarch64"
#endif

// Prepares a stack so that it starts with `ixion_begin`.
IXION_OWN static void reset(Fibre* fibre) {
    uint64_t* top = reinterpret_cast<uint64_t*>(static_cast<char*>(fibre->stack) + STACK);
#if defined(__x86_64__)
    // The slot for the return address, as if `ixion_begin` had been called.
    --top;
    *--top = reinterpret_cast<uint64_t>(&ixion_begin);
    for (int at = 0; at < SAVED_REGISTERS; ++at) *--top = 0;
#else
    top -= 22;
    memset(top, 0, 176);
    top[11] = reinterpret_cast<uint64_t>(&ixion_begin);
#endif
    fibre->saved = top;
}

IXION_OWN static Fibre* fibre() {
    if (!idle->empty()) {
        Fibre* reused = idle->back();
        idle->pop_back();
        return reused;
    }
    Fibre* created = new Fibre;
    created->stack = mmap(nullptr, STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (created->stack == MAP_FAILED) {
        delete created;
        fail("cannot allocate the stack of another thread");
        return nullptr;
    }
    reset(created);
    return created;
}

IXION_OWN static void to_scheduler() {
    Fibre* from = running;
    running = nullptr;
    ixion_switch(&from->saved, scheduler.saved);
}

// The main loop of a fibre: runs new threads until none are left.
extern "C" IXION_OWN void ixion_begin() {
    for (;;) {
        if (next_new < thread_count && !has_failed) {
            Thread* thread = &threads[order[next_new++]];
            thread->state = State::Running;
            thread->fibre = running;
            self = thread;
            is_kernel = true;
            entry(launch->arguments);
            is_kernel = false;
            thread->state = State::Done;
        } else {
            idle->push_back(running);
            to_scheduler();
        }
    }
}

IXION_OWN void wait(State state, unsigned mask) {
    Thread* me = self;
    me->state = state;
    me->mask = mask;
    is_kernel = false;
    to_scheduler();
    is_kernel = true;
    self = me;
}

IXION_OWN static bool release_block() {
    bool any = false;
    for (unsigned at = 0; at < thread_count; ++at) {
        if (threads[at].state == State::Done) continue;
        if (threads[at].state != State::AtBlock) return false;
        any = true;
    }
    if (!any) return false;
    vote_result[0] = votes;
    votes = 0;
    for (unsigned at = 0; at < thread_count; ++at) {
        if (threads[at].state != State::AtBlock) continue;
        threads[at].state = State::Running;
        ++threads[at].block_epoch;
    }
    return true;
}

IXION_OWN static bool release_warp(unsigned first) {
    unsigned wanted = 0, here = 0, alive = 0;
    for (unsigned lane = 0; lane < 32 && first + lane < thread_count; ++lane) {
        Thread& thread = threads[first + lane];
        if (thread.state != State::Done) alive |= 1u << lane;
        if (thread.state == State::AtWarp) here |= 1u << lane, wanted |= thread.mask;
    }
    if (!here || (wanted & alive & ~here)) return false;
    for (unsigned lane = 0; lane < 32; ++lane) {
        if (!(here >> lane & 1)) continue;
        threads[first + lane].state = State::Running;
        ++threads[first + lane].warp_epoch;
    }
    return true;
}

IXION_OWN static const char* describe(const Thread& thread) {
    static char text[2][128];
    static int turn;
    turn ^= 1;
    snprintf(text[turn], sizeof text[turn], "thread (%u, %u, %u) of block (%u, %u, %u)", thread.index.x, thread.index.y,
             thread.index.z, block_index.x, block_index.y, block_index.z);
    return text[turn];
}

IXION_OWN static void fail(const char* format, ...) {
    if (has_failed) return;
    has_failed = true;
    va_list list;
    va_start(list, format);
    vsnprintf(launch->report, launch->report_size, format, list);
    va_end(list);
}

// Abandons the thread that runs on the current fibre.
IXION_OWN static void abandon_thread() {
    reset(running);
    idle->push_back(running);
    running = nullptr;
    void* discarded;
    ixion_switch(&discarded, scheduler.saved);
}

IXION_OWN static void resume(Fibre* on) {
    running = on;
    ixion_switch(&scheduler.saved, on->saved);
}

IXION_OWN static void report_deadlock() {
    for (unsigned at = 0; at < thread_count; ++at) {
        const Thread& thread = threads[at];
        if (thread.state != State::AtBlock && thread.state != State::AtWarp) continue;
        const char* what = thread.state == State::AtBlock ? "__syncthreads()" : "a barrier of its warp";
        fail("%s waits at %s for threads that never reach it", describe(thread), what);
        return;
    }
}

IXION_OWN static void run_block() {
    next_new = 0;
    for (;;) {
        if (has_failed) return;
        if (next_new < thread_count) {
            Fibre* on = fibre();
            if (on) resume(on);
            continue;
        }
        bool any = false;
        for (unsigned turn = 0; turn < thread_count && !has_failed; ++turn) {
            Thread& thread = threads[order[turn]];
            if (thread.state != State::Running) continue;
            any = true;
            resume(thread.fibre);
        }
        if (any) continue;
        bool released = false;
        for (unsigned first = 0; first < thread_count; first += 32) released |= release_warp(first);
        if (released || release_block()) continue;
        bool done = true;
        for (unsigned at = 0; at < thread_count; ++at) done &= threads[at].state == State::Done;
        if (!done) report_deadlock();
        return;
    }
}

IXION_OWN static void shuffle(uint64_t& random) {
    for (unsigned at = thread_count; at > 1; --at) {
        random = random * 6364136223846793005ull + 1442695040888963407ull;
        std::swap(order[at - 1], order[(random >> 33) % at]);
    }
}

// Locks the library for one launch. `std::lock_guard` would be checked like a kernel, and another thread may be running one.
struct Guard {
    IXION_OWN Guard() { pthread_mutex_lock(&busy); }
    IXION_OWN ~Guard() { pthread_mutex_unlock(&busy); }
};

IXION_OWN static void begin_launch();
IXION_OWN static void begin_block();

IXION_OWN int run(const Launch* what, void (*kernel)(void**)) {
    Guard guard;
    launch = what;
    entry = kernel;
    has_failed = false;
    votes = 0;
    grid_dim = {what->grid[0], what->grid[1], what->grid[2]};
    block_dim = {what->block[0], what->block[1], what->block[2]};
    thread_count = block_dim.x * block_dim.y * block_dim.z;
    if (!idle) idle = new std::vector<Fibre*>;
    std::vector<Thread> all(thread_count);
    std::vector<unsigned> turns(thread_count);
    std::vector<double> shared(what->shared / 8 + 2);
    threads = all.data();
    order = turns.data();
    dynamic_shared = shared.data();
    for (unsigned at = 0; at < thread_count; ++at) turns[at] = at;
    begin_launch();
    uint64_t random = what->seed;
    uint64_t blocks = uint64_t(grid_dim.x) * grid_dim.y * grid_dim.z;
    for (uint64_t block = 0; block < blocks && !has_failed; ++block) {
        block_index = {unsigned(block % grid_dim.x), unsigned(block / grid_dim.x % grid_dim.y),
                       unsigned(block / grid_dim.x / grid_dim.y)};
        for (unsigned at = 0; at < thread_count; ++at) {
            dim3 index = {at % block_dim.x, at / block_dim.x % block_dim.y, at / block_dim.x / block_dim.y};
            all[at] = Thread{index, at, State::New, nullptr, 0, 0, 0, 0};
        }
        if (what->seed) shuffle(random);
        begin_block();
        run_block();
    }
    // Reset the fibres that were suspended in the middle of a thread.
    if (has_failed) {
        for (Thread& thread : all) {
            if (thread.state == State::New || thread.state == State::Done || !thread.fibre) continue;
            bool is_idle = false;
            for (Fibre* other : *idle) is_idle |= other == thread.fibre;
            if (is_idle) continue;
            reset(thread.fibre);
            idle->push_back(thread.fibre);
        }
    }
    return has_failed;
}

IXION_OWN uint64_t exchange(unsigned mask, uint64_t value, unsigned from, bool* is_there) {
    Thread* me = self;
    me->published = value;
    wait(State::AtWarp, mask);
    unsigned first = me->number & ~31u;
    *is_there = from < 32 && first + from < thread_count;
    uint64_t received = *is_there ? threads[first + from].published : value;
    wait(State::AtWarp, mask);
    return received;
}

IXION_OWN unsigned lane() { return self->number & 31; }

IXION_OWN void publish(const void* what) {
    self->published = reinterpret_cast<uint64_t>(what);
    wait(State::AtWarp, 0xffffffffu);
}

IXION_OWN unsigned ballot(unsigned mask, bool vote) {
    Thread* me = self;
    me->published = vote;
    wait(State::AtWarp, mask);
    unsigned first = me->number & ~31u, votes = 0;
    for (unsigned lane = 0; lane < 32 && first + lane < thread_count; ++lane) {
        if ((mask >> lane & 1) && threads[first + lane].state != State::Done && threads[first + lane].published) votes |= 1u << lane;
    }
    wait(State::AtWarp, mask);
    return votes;
}

#ifndef IXION_CHECK
static void begin_launch() {}
static void begin_block() {}
void check_atomically(const volatile void*, unsigned) {}
#endif

}  // namespace ixion
