// A stand-in for cuBLASLt: products are computed in three loops. Attributes with another size than the library's are rejected,
// and so are addresses without the promised alignment.

#include "library.h"

typedef unsigned Status;
enum { SUCCESS = 0, INVALID_VALUE = 7, NOT_SUPPORTED = 15 };

struct Description {
    int transposed[2] = {0, 0}, epilogue = 1, bias_type = -1, compute, scale;
    char* bias = nullptr;
};
struct Layout {
    unsigned type;
    unsigned long long rows, columns;
    long long apart, between = 0;
    int batches = 1;
};
struct Preference {
    unsigned long long scratch = 0;
    unsigned alignment[4] = {256, 256, 256, 256};
};
struct Algorithm {
    unsigned alignment[4], scratch;
    char rest[44];
};
struct Found {
    Algorithm algorithm;
    size_t scratch;
    Status state;
    float waves;
    int reserved[4];
};
static_assert(sizeof(Algorithm) == 64, "as the library has it");

API size_t cublasLtGetVersion() { return 120900; }
API Status cublasLtCreate(void** handle) {
    if (getenv("STAND_IN_NO_CUBLASLT")) return 1;
    return *handle = new int, SUCCESS;
}
API Status cublasLtDestroy(void* handle) { return delete (int*)handle, SUCCESS; }

API Status cublasLtMatmulDescCreate(Description** made, int compute, int scale) {
    *made = new Description;
    (*made)->compute = compute;
    (*made)->scale = scale;
    return SUCCESS;
}
API Status cublasLtMatmulDescDestroy(Description* it) { return delete it, SUCCESS; }
template <class T>
static Status put(T& to, const void* from, size_t size) {
    return size == sizeof(T) ? (memcpy(&to, from, size), SUCCESS) : INVALID_VALUE;
}
API Status cublasLtMatmulDescSetAttribute(Description* it, int which, const void* from, size_t size) {
    switch (which) {
        case 3: return put(it->transposed[0], from, size);
        case 4: return put(it->transposed[1], from, size);
        case 7: return put(it->epilogue, from, size);
        case 8: return put(it->bias, from, size);
        case 26: return put(it->bias_type, from, size);
    }
    return INVALID_VALUE;
}
API Status cublasLtMatrixLayoutCreate(Layout** made, unsigned type, unsigned long long rows, unsigned long long columns, long long apart) {
    if (apart < (long long)rows) return INVALID_VALUE;
    return *made = new Layout{type, rows, columns, apart}, SUCCESS;
}
API Status cublasLtMatrixLayoutDestroy(Layout* it) { return delete it, SUCCESS; }
API Status cublasLtMatrixLayoutSetAttribute(Layout* it, int which, const void* from, size_t size) {
    if (which == 5) return put(it->batches, from, size);
    return which == 6 ? put(it->between, from, size) : INVALID_VALUE;
}
API Status cublasLtMatmulPreferenceCreate(Preference** made) { return *made = new Preference, SUCCESS; }
API Status cublasLtMatmulPreferenceDestroy(Preference* it) { return delete it, SUCCESS; }
API Status cublasLtMatmulPreferenceSetAttribute(Preference* it, int which, const void* from, size_t size) {
    if (which == 1) return put(it->scratch, from, size);
    return which >= 5 && which <= 8 ? put(it->alignment[which - 5], from, size) : INVALID_VALUE;
}

// Checks that the sizes of the factors fit each other.
static bool fits(const Description& it, const Layout& a, const Layout& b, const Layout& c, const Layout& d, unsigned long long& depth) {
    auto rows = it.transposed[0] ? a.columns : a.rows, from_a = it.transposed[0] ? a.rows : a.columns;
    auto columns = it.transposed[1] ? b.rows : b.columns, from_b = it.transposed[1] ? b.columns : b.rows;
    depth = from_a;
    return from_a == from_b && rows == d.rows && columns == d.columns && c.rows == d.rows && c.columns == d.columns;
}
// Half precision is multiplied four bytes at a time.
static bool is_possible(const Layout& it, unsigned alignment) {
    return it.type == 0 ? alignment >= 4 : alignment >= 4 && it.apart % 2 == 0;
}
API Status cublasLtMatmulAlgoGetHeuristic(void*, Description* it, Layout* a, Layout* b, Layout* c, Layout* d, Preference* preference,
                                          int wanted, Found* found, int* count) {
    unsigned long long depth;
    *count = 0;
    if (!fits(*it, *a, *b, *c, *d, depth) || wanted < 1) return INVALID_VALUE;
    Layout* all[4] = {a, b, c, d};
    for (int i = 0; i < 4; ++i) {
        if (!is_possible(*all[i], preference->alignment[i])) return NOT_SUPPORTED;
    }
    *found = Found{};
    memcpy(found->algorithm.alignment, preference->alignment, sizeof found->algorithm.alignment);
    // Uses some scratch memory, if available.
    found->algorithm.scratch = preference->scratch < 64 ? (unsigned)preference->scratch : 64;
    found->scratch = found->algorithm.scratch;
    return *count = 1, SUCCESS;
}

static Numbers numbers(unsigned type) { return type == 2 ? Numbers::F16 : type == 14 ? Numbers::BF16 : Numbers::F32; }

static float finished(float x, int epilogue) {
    if (epilogue & 2) return x > 0 ? x : 0;
    return epilogue & 32 ? 0.5f * x * (1 + tanhf(0.7978845608f * (x + 0.044715f * x * x * x))) : x;
}

API Status cublasLtMatmul(void*, Description* described, const float* alpha, const char* a, Layout* la, const char* b, Layout* lb,
                          const float* beta, const char* c, Layout* lc, char* d, Layout* ld, const Algorithm* algorithm, char* scratch,
                          size_t scratch_size, void* stream) {
    unsigned long long depth;
    Description it = *described;
    Layout at_a = *la, at_b = *lb, at_c = *lc, at_d = *ld;
    if (!fits(it, at_a, at_b, at_c, at_d, depth) || at_a.type != at_d.type || at_b.type != at_d.type) return INVALID_VALUE;
    const char* addresses[4] = {a, b, c, d};
    for (int i = 0; i < 4; ++i) {
        if ((size_t)addresses[i] % algorithm->alignment[i] || !is_device(addresses[i], 1)) return INVALID_VALUE;
    }
    if (scratch_size < algorithm->scratch || (algorithm->scratch && !is_device(scratch, scratch_size))) return INVALID_VALUE;
    bool has_bias = it.epilogue & 4;
    if (has_bias && (!is_device(it.bias, at_d.rows) || it.bias_type != (int)at_d.type)) return INVALID_VALUE;
    float scale = *alpha, scale_of_c = *beta;
    Numbers type = numbers(at_d.type);
    size_t used = algorithm->scratch;
    auto work = [=] {
        if (used) memset(scratch, 0x5a, used);
        for (int batch = 0; batch < at_d.batches; ++batch) {
            for (unsigned long long column = 0; column < at_d.columns; ++column) {
                for (unsigned long long row = 0; row < at_d.rows; ++row) {
                    float sum = 0;
                    for (unsigned long long k = 0; k < depth; ++k) {
                        auto in_a = it.transposed[0] ? k + row * at_a.apart : row + k * at_a.apart;
                        auto in_b = it.transposed[1] ? column + k * at_b.apart : k + column * at_b.apart;
                        sum += number(a, batch * at_a.between + in_a, type) * number(b, batch * at_b.between + in_b, type);
                    }
                    float value = scale * sum;
                    if (scale_of_c != 0) value += scale_of_c * number(c, batch * at_c.between + row + column * at_c.apart, type);
                    if (has_bias) value += number(it.bias, row, type);
                    set(d, batch * at_d.between + row + column * at_d.apart, type, finished(value, it.epilogue));
                }
            }
        }
    };
    std::string what = "product " + std::to_string(at_d.columns) + "x" + std::to_string(at_d.rows) + "x" + std::to_string(depth) + " of " +
                       std::to_string(at_d.batches) + ", compute " + std::to_string(it.compute) + ", epilogue " + std::to_string(it.epilogue) +
                       (scale_of_c != 0 ? ", sum" : "");
    return put(stream, what, work) ? SUCCESS : 13u;
}
