// A stand-in for cuFFT: transforms are computed term by term. Like the library, it overwrites the input of complex-to-real
// transforms.

#include "library.h"

#include <complex>
#include <map>

typedef unsigned Status;
enum { SUCCESS = 0, INVALID_PLAN = 1, INVALID_VALUE = 4, INVALID_SIZE = 8, EXEC_FAILED = 6 };
enum { R2C = 0x2a, C2R = 0x2c, C2C = 0x29, D2Z = 0x6a, Z2D = 0x6c, Z2Z = 0x69 };

struct Plan {
    int length = 0, step = 0, between = 0, to_step = 0, to_between = 0, type = 0, batches = 0;
    void* stream = nullptr;
};
static std::map<int, Plan> plans;
static int next_plan = 1;

API Status cufftGetProperty(int which, int* value) { return *value = which == 0 ? 11 : 4, SUCCESS; }
API Status cufftCreate(int* plan) { return *plan = next_plan++, plans[*plan] = Plan{}, SUCCESS; }
API Status cufftDestroy(int plan) { return plans.erase(plan) ? SUCCESS : INVALID_PLAN; }
API Status cufftSetStream(int plan, void* stream) {
    if (!plans.count(plan)) return INVALID_PLAN;
    return plans[plan].stream = stream, SUCCESS;
}
API Status cufftMakePlanMany(int plan, int rank, int* length, int* given, int step, int between, int* made, int to_step, int to_between,
                             int type, int batches, size_t* bytes) {
    if (!plans.count(plan)) return INVALID_PLAN;
    if (rank != 1 || *length < 1 || batches < 1 || !given || !made || step < 1 || to_step < 1) return INVALID_SIZE;
    if (between < 1 || to_between < 1) return INVALID_SIZE;
    plans[plan] = Plan{*length, step, between, to_step, to_between, type, batches, nullptr};
    return *bytes = 0, SUCCESS;
}

template <class Real>
static Status transform(int handle, void* from, void* to, bool from_real, bool to_real, int direction) {
    if (!plans.count(handle)) return INVALID_PLAN;
    Plan plan = plans[handle];
    if (!is_device(from, 1) || !is_device(to, 1)) return INVALID_VALUE;
    // Real data must be aligned like complex data, too.
    if ((size_t)from % (2 * sizeof(Real)) || (size_t)to % (2 * sizeof(Real))) return EXEC_FAILED;
    auto work = [=] {
        typedef std::complex<Real> Complex;
        int length = plan.length, made = from_real ? length / 2 + 1 : length;
        for (int batch = 0; batch < plan.batches; ++batch) {
            std::vector<std::complex<double>> signal(length);
            for (int i = 0; i < length; ++i) {
                int mirrored = to_real && i > length / 2 ? length - i : i;
                long at = (long)batch * plan.between + (long)mirrored * plan.step;
                signal[i] = from_real ? std::complex<double>(((Real*)from)[at]) : std::complex<double>(((Complex*)from)[at]);
                if (mirrored != i) signal[i] = std::conj(signal[i]);
            }
            for (int k = 0; k < made; ++k) {
                std::complex<double> sum = 0;
                for (int i = 0; i < length; ++i) {
                    sum += signal[i] * std::polar(1.0, direction * 6.283185307179586 * ((long)i * k % length) / length);
                }
                long at = (long)batch * plan.to_between + (long)k * plan.to_step;
                if (to_real) ((Real*)to)[at] = (Real)sum.real();
                else ((Complex*)to)[at] = Complex((Real)sum.real(), (Real)sum.imag());
            }
        }
        for (int batch = 0; batch < plan.batches && to_real; ++batch) ((Complex*)from)[(long)batch * plan.between] = Complex(1e30, 1e30);
    };
    return put(plan.stream, "transform of " + std::to_string(plan.length), work) ? SUCCESS : EXEC_FAILED;
}

API Status cufftExecC2C(int plan, void* from, void* to, int way) { return transform<float>(plan, from, to, false, false, way); }
API Status cufftExecZ2Z(int plan, void* from, void* to, int way) { return transform<double>(plan, from, to, false, false, way); }
API Status cufftExecR2C(int plan, void* from, void* to) { return transform<float>(plan, from, to, true, false, -1); }
API Status cufftExecD2Z(int plan, void* from, void* to) { return transform<double>(plan, from, to, true, false, -1); }
API Status cufftExecC2R(int plan, void* from, void* to) { return transform<float>(plan, from, to, false, true, 1); }
API Status cufftExecZ2D(int plan, void* from, void* to) { return transform<double>(plan, from, to, false, true, 1); }
