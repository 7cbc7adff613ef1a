// A stand-in for NVIDIA's driver, so that tests reach every call without a GPU. Memory is host memory, and kernels are those
// that `nvrtc.cpp` compiled for the processor.
//
// Work is done as late as CUDA's documentation allows: when a stream, an event or the context is synchronised. Code that
// forgets to synchronise reads stale data. Unknown or released handles end the program.

#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <vector>

typedef int Result;
enum { SUCCESS = 0, INVALID_VALUE = 1, OUT_OF_MEMORY = 2, NO_DEVICE = 100, INVALID_CONTEXT = 201, NOT_FOUND = 500 };

#define API extern "C" __attribute__((visibility("default"))) Result

static std::mutex all;
#define LOCKED std::lock_guard<std::mutex> locked(all)

static long number(const char* name, long otherwise) {
    const char* text = getenv(name);
    return text ? atol(text) : otherwise;
}

[[noreturn]] static void misused(const char* call) {
    fprintf(stderr, "stand-in for the driver: %s was called with something that is not there\n", call);
    abort();
}

// Required by all but the first few calls.
static bool is_started;
static thread_local bool has_context;
#define ENTERED                              \
    LOCKED;                                  \
    if (!has_context) return INVALID_CONTEXT

typedef std::function<Result()> Work;

struct Node {
    Work work;
    std::vector<Node*> after;
};
struct Graph {
    std::vector<Node*> nodes;
};
static std::set<Graph*> graphs, executables;

struct Stream {
    std::deque<Work> work;
    // Work enqueued during capture becomes a graph.
    Graph* captured = nullptr;
};

struct Event {
    Stream* stream = nullptr;
    // The amount of earlier work in the stream that is still pending.
    size_t waits_for = 0;
};

static std::set<Stream*> streams;
static std::set<Event*> events;
static std::map<char*, size_t> device_memory, host_memory;

static Result work_off(Stream* stream, size_t count) {
    Result result = SUCCESS;
    for (; count > 0 && !stream->work.empty(); --count) {
        Result made = stream->work.front()();
        if (result == SUCCESS) result = made;
        stream->work.pop_front();
        for (Event* event : events) {
            if (event->stream == stream && event->waits_for > 0) --event->waits_for;
        }
    }
    return result;
}

static Stream* known(void* handle, const char* call) {
    Stream* stream = (Stream*)handle;
    if (!streams.count(stream)) misused(call);
    return stream;
}

static Result put(Stream* stream, Work work) {
    if (!stream->captured) return stream->work.push_back(work), SUCCESS;
    auto& nodes = stream->captured->nodes;
    Node* node = new Node{work, {}};
    if (!nodes.empty()) node->after.push_back(nodes.back());
    return nodes.push_back(node), SUCCESS;
}

// Returns true if a range of bytes is within one allocation.
static bool is_within(const std::map<char*, size_t>& memory, char* start, size_t bytes) {
    auto next = memory.upper_bound(start);
    if (next == memory.begin()) return false;
    auto block = std::prev(next);
    return start + bytes <= block->first + block->second;
}

API cuDriverGetVersion(int* version) { return *version = (int)number("STAND_IN_VERSION", 12090), SUCCESS; }
API cuInit(unsigned) {
    int result = (int)number("STAND_IN_INIT", SUCCESS);
    is_started = result == SUCCESS;
    return result;
}
API cuGetErrorString(Result error, const char** text) {
    *text = error == OUT_OF_MEMORY ? "out of memory" : error == NO_DEVICE ? "no CUDA-capable device is detected" : "another error";
    return SUCCESS;
}
API cuGetErrorName(Result error, const char** text) {
    *text = error == OUT_OF_MEMORY ? "CUDA_ERROR_OUT_OF_MEMORY" : error == NO_DEVICE ? "CUDA_ERROR_NO_DEVICE" : "CUDA_ERROR_OTHER";
    return SUCCESS;
}
API cuDeviceGetCount(int* count) {
    if (!is_started) misused("cuDeviceGetCount");
    return *count = (int)number("STAND_IN_DEVICES", 1), SUCCESS;
}
API cuDeviceGet(int* device, int ordinal) { return *device = ordinal, is_started ? SUCCESS : 3; }
API cuDeviceGetName(char* name, int room, int) { return snprintf(name, room, "stand-in"), SUCCESS; }
API cuDeviceTotalMem_v2(size_t* bytes, int) { return *bytes = (size_t)number("STAND_IN_MEMORY", 1l << 30), SUCCESS; }
API cuDeviceGetAttribute(int* value, int which, int) {
    switch (which) {
        case 16: *value = 4; break;         // multiprocessors
        case 75: *value = 9; break;         // capability, the part before the point
        case 76: *value = 0; break;         // and the one after it
        case 97: *value = 227 << 10; break; // shared memory
        case 115: *value = (int)number("STAND_IN_POOLS", 1); break;
        default: return INVALID_VALUE;
    }
    return SUCCESS;
}
API cuDeviceGetDefaultMemPool(void** pool, int) { return *pool = &all, SUCCESS; }
API cuMemPoolSetAttribute(void* pool, int, void*) { return pool == &all ? SUCCESS : INVALID_VALUE; }

API cuDevicePrimaryCtxRetain(void** context, int) { return *context = &is_started, SUCCESS; }
API cuDevicePrimaryCtxRelease_v2(int) { return SUCCESS; }
API cuCtxSetCurrent(void* context) { return has_context = context == &is_started, SUCCESS; }
API cuCtxSynchronize() {
    ENTERED;
    Result result = SUCCESS;
    for (Stream* stream : streams) {
        Result made = work_off(stream, stream->work.size());
        if (result == SUCCESS) result = made;
    }
    return result;
}

API cuStreamCreate(void** handle, unsigned) {
    ENTERED;
    Stream* stream = new Stream;
    streams.insert(stream);
    return *handle = stream, SUCCESS;
}
API cuStreamSynchronize(void* handle) {
    ENTERED;
    Stream* stream = known(handle, "cuStreamSynchronize");
    return work_off(stream, stream->work.size());
}
API cuStreamDestroy_v2(void* handle) {
    ENTERED;
    Stream* stream = known(handle, "cuStreamDestroy");
    streams.erase(stream);
    delete stream;
    return SUCCESS;
}

static Result allocate(std::map<char*, size_t>& memory, char** address, size_t bytes) {
    size_t taken = bytes;
    for (auto& block : memory) taken += block.second;
    if (&memory == &device_memory && taken > (size_t)number("STAND_IN_MEMORY", 1l << 30)) return OUT_OF_MEMORY;
    // Uninitialised memory is not zero.
    char* start = (char*)aligned_alloc(256, (bytes + 255) / 256 * 256);
    memset(start, 0xa5, bytes);
    memory[start] = bytes;
    return *address = start, SUCCESS;
}
static void release(std::map<char*, size_t>& memory, char* address, const char* call) {
    if (!memory.erase(address)) misused(call);
    free(address);
}
// Adds a line about the host's memory to the file STAND_IN_COPIES.
static void record(const char* what, size_t bytes) {
    const char* path = getenv("STAND_IN_COPIES");
    FILE* file = path ? fopen(path, "a") : nullptr;
    if (file) fprintf(file, "%s of %zu bytes\n", what, bytes), fclose(file);
}
API cuMemAlloc_v2(char** address, size_t bytes) {
    ENTERED;
    return allocate(device_memory, address, bytes);
}
API cuMemFree_v2(char* address) {
    ENTERED;
    return release(device_memory, address, "cuMemFree"), SUCCESS;
}
API cuMemAllocAsync(char** address, size_t bytes, void* stream) {
    ENTERED;
    known(stream, "cuMemAllocAsync");
    return allocate(device_memory, address, bytes);
}
API cuMemFreeAsync(char* address, void* stream) {
    ENTERED;
    known(stream, "cuMemFreeAsync")->work.push_back([=] { return release(device_memory, address, "cuMemFreeAsync"), SUCCESS; });
    return SUCCESS;
}
API cuMemHostAlloc(char** address, size_t bytes, unsigned) {
    ENTERED;
    if (bytes > (size_t)number("STAND_IN_LOCKABLE", 1l << 30)) return OUT_OF_MEMORY;
    return allocate(host_memory, address, bytes);
}
API cuMemFreeHost(char* address) {
    ENTERED;
    auto block = host_memory.find(address);
    if (block != host_memory.end()) record("release", block->second);
    return release(host_memory, address, "cuMemFreeHost"), SUCCESS;
}

// Copies are asynchronous only for memory from `cuMemHostAlloc`, which must not be freed before.
static Result copy(char* to, char* from, size_t bytes, char* device, char* host, void* handle) {
    if (!is_within(device_memory, device, bytes)) return INVALID_VALUE;
    Stream* stream = known(handle, "a copy");
    bool is_pinned = is_within(host_memory, host, bytes);
    stream->work.push_back([=] {
        if (is_pinned && !is_within(host_memory, host, bytes)) misused("a copy");
        record("arrival", bytes);
        return memcpy(to, from, bytes), SUCCESS;
    });
    return is_pinned ? SUCCESS : work_off(stream, stream->work.size());
}
API cuMemcpyHtoDAsync_v2(char* to, char* from, size_t bytes, void* stream) {
    ENTERED;
    if (bytes == (size_t)number("STAND_IN_REFUSED_UPLOAD", -1)) return INVALID_VALUE;
    record("upload", bytes);
    return copy(to, from, bytes, to, from, stream);
}
API cuMemcpyDtoHAsync_v2(char* to, char* from, size_t bytes, void* stream) {
    ENTERED;
    record("download", bytes);
    return copy(to, from, bytes, from, to, stream);
}

API cuEventCreate(void** handle, unsigned) {
    ENTERED;
    Event* event = new Event;
    events.insert(event);
    return *handle = event, SUCCESS;
}
API cuEventRecord(void* handle, void* stream) {
    ENTERED;
    Event* event = (Event*)handle;
    if (!events.count(event)) misused("cuEventRecord");
    event->stream = known(stream, "cuEventRecord");
    event->waits_for = event->stream->work.size();
    return SUCCESS;
}
API cuEventSynchronize(void* handle) {
    ENTERED;
    Event* event = (Event*)handle;
    if (!events.count(event)) misused("cuEventSynchronize");
    return event->waits_for == 0 ? SUCCESS : work_off(event->stream, event->waits_for);
}
API cuEventDestroy_v2(void* handle) {
    ENTERED;
    if (!events.erase((Event*)handle)) misused("cuEventDestroy");
    delete (Event*)handle;
    return SUCCESS;
}

// `ixion::Launch` of the emulator's shim, without what its checker needs.
struct Call {
    unsigned grid[3], block[3], shared, seed;
    void** arguments;
    const void* extents;
    unsigned long long extent_count;
    char* report;
    unsigned long long report_size;
};

struct Function {
    int (*entry)(const Call*);
    int parameters;
    int dynamic_shared = 48 << 10;
};

struct Launch {
    Function* function;
    Call call;
    std::vector<std::vector<char>> arguments;
};

static std::set<void*> modules;
static std::map<std::pair<void*, std::string>, Function> functions;

// Arguments are copied at launch, as in the driver. No argument is larger.
static Launch launch_of(void* handle, const unsigned* grid, const unsigned* block, unsigned shared, void** arguments) {
    Launch launch{(Function*)handle, {}, {}};
    memcpy(launch.call.grid, grid, sizeof launch.call.grid);
    memcpy(launch.call.block, block, sizeof launch.call.block);
    launch.call.shared = shared;
    for (int i = 0; i < launch.function->parameters; ++i) {
        char* from = (char*)arguments[i];
        launch.arguments.emplace_back(from, from + 72);
    }
    return launch;
}

static Result run(Launch& launch) {
    char report[512] = "";
    std::vector<void*> arguments;
    for (auto& argument : launch.arguments) arguments.push_back(argument.data());
    launch.call.arguments = arguments.data();
    launch.call.report = report;
    launch.call.report_size = sizeof report;
    return launch.function->entry(&launch.call) == 0 ? SUCCESS : 700;
}

API cuModuleLoadData(void** module, const char* image) {
    ENTERED;
    *module = dlopen(image, RTLD_NOW | RTLD_LOCAL);
    if (*module) modules.insert(*module);
    return *module ? SUCCESS : 200;
}
API cuModuleUnload(void* module) {
    ENTERED;
    return modules.erase(module) ? SUCCESS : INVALID_VALUE;
}
API cuModuleGetFunction(void** handle, void* module, const char* name) {
    ENTERED;
    if (!modules.count(module)) misused("cuModuleGetFunction");
    auto entry = (int (*)(const Call*))dlsym(module, (std::string("ixion_launch_") + name).c_str());
    auto parameters = (int*)dlsym(module, (std::string("stand_in_parameters_") + name).c_str());
    if (!entry || !parameters) return NOT_FOUND;
    auto made = functions.try_emplace({module, name}, Function{entry, *parameters});
    return *handle = &made.first->second, SUCCESS;
}
API cuFuncGetAttribute(int* value, int, void*) { return *value = 0, SUCCESS; }
API cuFuncSetAttribute(void* handle, int which, int value) {
    if (which == 8) ((Function*)handle)->dynamic_shared = value;
    return SUCCESS;
}
API cuLaunchKernel(void* handle, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared,
                   void* stream, void** arguments, void** extra) {
    ENTERED;
    unsigned grid[3] = {gx, gy, gz}, block[3] = {bx, by, bz};
    unsigned threads = bx * by * bz;
    bool is_possible = gx && gy && gz && gy < 65536 && gz < 65536 && threads > 0 && threads <= 1024 && bz <= 64;
    if (!is_possible || extra || (int)shared > ((Function*)handle)->dynamic_shared) return INVALID_VALUE;
    Launch launch = launch_of(handle, grid, block, shared, arguments);
    return put(known(stream, "cuLaunchKernel"), [launch]() mutable { return run(launch); });
}

// For the other stand-ins: enqueues their work and checks for device memory.
API stand_in_put(void* stream, const Work* work) {
    ENTERED;
    return put(known(stream, "a library"), *work);
}
API stand_in_has(char* start, size_t bytes) {
    LOCKED;
    return is_within(device_memory, start, bytes);
}

API cuStreamBeginCapture_v2(void* handle, int) {
    ENTERED;
    Stream* stream = known(handle, "cuStreamBeginCapture");
    if (stream->captured) return INVALID_VALUE;
    return stream->captured = new Graph, SUCCESS;
}
API cuStreamEndCapture(void* handle, void** graph) {
    ENTERED;
    Stream* stream = known(handle, "cuStreamEndCapture");
    if (!stream->captured) return INVALID_VALUE;
    graphs.insert(stream->captured);
    return *graph = stream->captured, stream->captured = nullptr, SUCCESS;
}

struct KernelNode {
    void* function;
    unsigned grid[3], block[3], shared;
    void **arguments, **extra, *kernel, *context;
};

API cuGraphCreate(void** handle, unsigned) {
    ENTERED;
    return *handle = *graphs.insert(new Graph).first, SUCCESS;
}
static Result add(void** handle, void* graph, void** after, size_t count, Work work, const char* call) {
    if (!graphs.count((Graph*)graph)) misused(call);
    auto& nodes = ((Graph*)graph)->nodes;
    Node* made = new Node{work, {}};
    for (size_t i = 0; i < count; ++i) {
        bool is_there = false;
        for (Node* known : nodes) is_there |= known == after[i];
        if (!is_there) return INVALID_VALUE;
        made->after.push_back((Node*)after[i]);
    }
    nodes.push_back(made);
    return *handle = made, SUCCESS;
}

// Those that wait for none run last first.
static Result run(const Graph& graph) {
    std::set<Node*> done;
    while (done.size() < graph.nodes.size()) {
        for (size_t i = graph.nodes.size(); i-- > 0;) {
            Node* node = graph.nodes[i];
            bool is_ready = !done.count(node);
            for (Node* before : node->after) is_ready &= done.count(before) > 0;
            if (!is_ready) continue;
            if (Result result = node->work()) return result;
            done.insert(node);
            break;
        }
    }
    return SUCCESS;
}

API cuGraphAddKernelNode_v2(void** handle, void* graph, void** after, size_t count, const KernelNode* node) {
    ENTERED;
    Launch launch = launch_of(node->function, node->grid, node->block, node->shared, node->arguments);
    return add(handle, graph, after, count, [launch]() mutable { return run(launch); }, "cuGraphAddKernelNode");
}
API cuGraphAddChildGraphNode(void** handle, void* graph, void** after, size_t count, void* child) {
    ENTERED;
    if (!graphs.count((Graph*)child)) misused("cuGraphAddChildGraphNode");
    Graph copied = *(Graph*)child;
    return add(handle, graph, after, count, [copied] { return run(copied); }, "cuGraphAddChildGraphNode");
}
API cuGraphInstantiateWithFlags(void** handle, void* graph, unsigned long long) {
    ENTERED;
    if (!graphs.count((Graph*)graph)) misused("cuGraphInstantiate");
    return *handle = *executables.insert(new Graph(*(Graph*)graph)).first, SUCCESS;
}
API cuGraphUpload(void* graph, void* stream) {
    ENTERED;
    known(stream, "cuGraphUpload");
    return executables.count((Graph*)graph) ? SUCCESS : INVALID_VALUE;
}
API cuGraphLaunch(void* handle, void* stream) {
    ENTERED;
    Graph* graph = (Graph*)handle;
    if (!executables.count(graph)) misused("cuGraphLaunch");
    return put(known(stream, "cuGraphLaunch"), [graph] { return run(*graph); });
}
API cuGraphDestroy(void* graph) {
    ENTERED;
    return graphs.erase((Graph*)graph) ? SUCCESS : INVALID_VALUE;
}
API cuGraphExecDestroy(void* graph) {
    ENTERED;
    return executables.erase((Graph*)graph) ? SUCCESS : INVALID_VALUE;
}
