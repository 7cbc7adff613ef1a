// A stand-in for NVRTC without a GPU: kernels are compiled to libraries for the processor with the emulator's shim. An image is
// the path of such a library.

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <regex>
#include <sstream>
#include <string>

typedef int Result;
#define API extern "C" __attribute__((visibility("default"))) Result

struct Program {
    std::string source, image, log;
};

static std::string folder() { return getenv("STAND_IN_FOLDER"); }

API nvrtcVersion(int* major, int* minor) { return *major = 12, *minor = 9, 0; }
API nvrtcGetNumSupportedArchs(int* count) { return *count = 3, 0; }
API nvrtcGetSupportedArchs(int* known) {
    int all[3] = {80, 90, 100};
    memcpy(known, all, sizeof all);
    return 0;
}
API nvrtcCreateProgram(void** program, const char* source, const char*, int, const char* const*, const char* const*) {
    return *program = new Program{source, {}, {}}, 0;
}
API nvrtcDestroyProgram(void** program) { return delete (Program*)*program, 0; }

// The launcher and the number of parameters of every kernel.
static std::string launchers(const std::string& source) {
    std::regex kernel("extern \"C\" __global__ void\\s+(?:__launch_bounds__\\([^)]*\\)\\s*)?(\\w+)\\(([^{]*)\\)\\s*\\{");
    std::ostringstream text;
    for (std::sregex_iterator at(source.begin(), source.end(), kernel), end; at != end; ++at) {
        std::string name = (*at)[1], parameters = (*at)[2];
        size_t count = 1 + std::count(parameters.begin(), parameters.end(), ',');
        text << "IXION_KERNEL(" << name << ")\nextern \"C\" __attribute__((visibility(\"default\"))) int stand_in_parameters_"
             << name << ";\nint stand_in_parameters_" << name << " = " << count << ";\n";
    }
    return text.str();
}

API nvrtcCompileProgram(void* handle, int count, const char* const* options) {
    Program* program = (Program*)handle;
    bool is_known = false;
    for (int i = 0; i < count; ++i) is_known |= !strcmp(options[i], "--gpu-architecture=sm_90");
    if (!is_known) return program->log = "another architecture was wanted", 6;
    static std::atomic<int> number{0};
    std::string stem = folder() + "/" + std::to_string(getpid()) + "-" + std::to_string(number++);
    std::regex shared("extern __shared__ (\\w+) (\\w+)\\[\\];");
    std::string source = std::regex_replace(program->source, shared, "$1* const $2 = reinterpret_cast<$1*>(ixion::dynamic_shared);");
    std::ofstream file(stem + ".cpp");
    for (const char* header : {"threads.h", "fibres.h", "language.h"}) {
        file << "#include \"" << getenv("STAND_IN_SHIM") << "/" << header << "\"\n";
    }
    file << source << launchers(source);
    file.close();
    std::string compile = "c++ -std=c++17 -O1 -w -fPIC -fvisibility=hidden -fno-strict-aliasing -ffp-contract=off -shared -o " + stem +
                          ".so " + stem + ".cpp 2> " + stem + ".log";
    if (system(compile.c_str()) != 0) {
        std::ostringstream log;
        log << std::ifstream(stem + ".log").rdbuf();
        return program->log = log.str(), 6;
    }
    program->image = stem + ".so";
    return 0;
}

static Result size_of(const std::string& text, size_t* size) { return *size = text.size() + 1, 0; }
static Result put(const std::string& text, char* to) { return memcpy(to, text.c_str(), text.size() + 1), 0; }
API nvrtcGetCUBINSize(void* program, size_t* size) { return size_of(((Program*)program)->image, size); }
API nvrtcGetCUBIN(void* program, char* to) { return put(((Program*)program)->image, to); }
API nvrtcGetPTXSize(void* program, size_t* size) { return size_of(((Program*)program)->image, size); }
API nvrtcGetPTX(void* program, char* to) { return put(((Program*)program)->image, to); }
API nvrtcGetProgramLogSize(void* program, size_t* size) { return size_of(((Program*)program)->log, size); }
API nvrtcGetProgramLog(void* program, char* to) { return put(((Program*)program)->log, to); }
