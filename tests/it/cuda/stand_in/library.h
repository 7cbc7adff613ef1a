// What the libraries that stand beside the driver's share: how they put work into its streams, and numbers of several types.

#include <dlfcn.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#define API extern "C" __attribute__((visibility("default")))

typedef std::function<int()> Work;

template <class Function>
static Function* of_driver(const char* name) {
    static void* driver = dlopen("libcuda.so.1", RTLD_NOW);
    void* found = driver ? dlsym(driver, name) : nullptr;
    if (!found) fprintf(stderr, "stand-in: the driver has no %s\n", name), abort();
    return (Function*)found;
}

// Work is done when the stream gets to it, and counted then: a line of the file STAND_IN_CALLS says what it was.
static bool put(void* stream, const std::string& what, std::function<void()> work) {
    Work counted = [=] {
        if (const char* path = getenv("STAND_IN_CALLS")) {
            if (FILE* file = fopen(path, "a")) fprintf(file, "%s\n", what.c_str()), fclose(file);
        }
        return work(), 0;
    };
    return of_driver<int(void*, const Work*)>("stand_in_put")(stream, &counted) == 0;
}

static bool is_device(const void* start, size_t bytes) {
    return of_driver<int(const void*, size_t)>("stand_in_has")(start, bytes);
}

enum class Numbers { F32, F64, F16, BF16 };
static size_t size_of(Numbers type) { return type == Numbers::F64 ? 8 : type == Numbers::F32 ? 4 : 2; }

static float number(const void* from, long at, Numbers type) {
    if (type == Numbers::F32) return ((const float*)from)[at];
    unsigned short bits = ((const unsigned short*)from)[at];
    if (type == Numbers::F16) return (float)*(const _Float16*)&bits;
    unsigned word = (unsigned)bits << 16;
    float value;
    return memcpy(&value, &word, 4), value;
}

static void set(void* to, long at, Numbers type, float value) {
    if (type == Numbers::F32) {
        ((float*)to)[at] = value;
    } else if (type == Numbers::F16) {
        ((_Float16*)to)[at] = (_Float16)value;
    } else {
        unsigned word;
        memcpy(&word, &value, 4);
        unsigned rounded = value != value ? word | 0x400000 : word + 0x7fff + (word >> 16 & 1);
        ((unsigned short*)to)[at] = rounded >> 16;
    }
}
