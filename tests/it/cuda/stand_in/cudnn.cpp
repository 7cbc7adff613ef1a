// A stand-in for cuDNN: channels-last convolutions are computed tap by tap.

#include "library.h"

typedef unsigned Status;
enum { SUCCESS = 0, BAD_PARAM = 2000, NOT_SUPPORTED = 3000, EXECUTION_FAILED = 5000 };

struct Handle {
    void* stream = nullptr;
};
struct Tensor {
    int type = 0;
    std::vector<int> lens, strides;
};
struct Filter {
    int type = 0, order = 0;
    std::vector<int> lens;
};
struct Windows {
    std::vector<int> padding, stride, dilation;
    int groups = 1, math = 0;
};
struct Function {
    int mode = 5, nan = 0;
};
struct Answer {
    unsigned algorithm, status;
    float time;
    size_t memory;
    unsigned determinism, math;
    int reserved[3];
};

API size_t cudnnGetVersion() { return 90201; }
API Status cudnnCreate(Handle** made) { return *made = new Handle, SUCCESS; }
API Status cudnnDestroy(Handle* it) { return delete it, SUCCESS; }
API Status cudnnSetStream(Handle* it, void* stream) { return it->stream = stream, SUCCESS; }

#define MADE(NAME, TYPE)                                                              \
    API Status cudnnCreate##NAME##Descriptor(TYPE** made) { return *made = new TYPE, SUCCESS; } \
    API Status cudnnDestroy##NAME##Descriptor(TYPE* it) { return delete it, SUCCESS; }
MADE(Tensor, Tensor)
MADE(Filter, Filter)
MADE(Convolution, Windows)
MADE(Activation, Function)

API Status cudnnSetTensorNdDescriptor(Tensor* it, int type, int rank, const int* lens, const int* strides) {
    if (rank < 4 || rank > 5) return BAD_PARAM;
    for (int i = 0; i < rank; ++i) {
        if (lens[i] < 1 || strides[i] < 0) return BAD_PARAM;
    }
    return *it = Tensor{type, {lens, lens + rank}, {strides, strides + rank}}, SUCCESS;
}
API Status cudnnSetFilterNdDescriptor(Filter* it, int type, int order, int rank, const int* lens) {
    return *it = Filter{type, order, {lens, lens + rank}}, rank < 4 || rank > 5 ? BAD_PARAM : SUCCESS;
}
API Status cudnnSetConvolutionNdDescriptor(Windows* it, int axes, const int* padding, const int* stride, const int* dilation, int mode,
                                           int compute) {
    if (mode != 1 || compute != 0) return BAD_PARAM;
    it->padding.assign(padding, padding + axes);
    it->stride.assign(stride, stride + axes);
    it->dilation.assign(dilation, dilation + axes);
    return SUCCESS;
}
API Status cudnnSetConvolutionGroupCount(Windows* it, int groups) { return it->groups = groups, SUCCESS; }
API Status cudnnSetConvolutionMathType(Windows* it, int math) { return it->math = math, SUCCESS; }
API Status cudnnSetActivationDescriptor(Function* it, int mode, int nan, double) { return it->mode = mode, it->nan = nan, SUCCESS; }

// Returns true if the strides are exactly those of channels-last, also for axes of length 1.
static bool is_last(const Tensor& tensor) {
    long wanted = tensor.lens[1];
    if (tensor.strides[1] != 1) return false;
    for (size_t axis = tensor.lens.size(); axis-- > 0;) {
        if (axis == 1) continue;
        if (tensor.strides[axis] != wanted) return false;
        wanted *= tensor.lens[axis];
    }
    return true;
}

// Returns true if the tensors fit each other and have the layout that tensor cores require.
static bool fits(const Tensor& x, const Filter& w, const Windows& windows, const Tensor& y) {
    size_t axes = x.lens.size() - 2;
    bool is_alike = w.lens.size() == x.lens.size() && y.lens.size() == x.lens.size() && windows.stride.size() == axes;
    if (!is_alike || w.order != 1 || x.type != w.type || y.type != x.type) return false;
    if (x.lens[1] != w.lens[1] * windows.groups || y.lens[1] != w.lens[0] || x.lens[0] != y.lens[0]) return false;
    for (size_t axis = 0; axis < axes; ++axis) {
        int seen = (w.lens[2 + axis] - 1) * windows.dilation[axis] + 1;
        int len = (x.lens[2 + axis] + 2 * windows.padding[axis] - seen) / windows.stride[axis] + 1;
        if (len != y.lens[2 + axis]) return false;
    }
    return is_last(x) && is_last(y);
}

// The algorithm that needs much memory comes first: the caller must skip it.
API Status cudnnGetConvolutionForwardAlgorithm_v7(Handle*, Tensor* x, Filter* w, Windows* windows, Tensor* y, int wanted, int* count,
                                                  Answer* answers) {
    *count = 0;
    if (!fits(*x, *w, *windows, *y)) return NOT_SUPPORTED;
    Answer all[3] = {{6, SUCCESS, 1, size_t(1) << 40, 1, 1, {}}, {0, NOT_SUPPORTED, -1, 0, 1, 1, {}}, {1, SUCCESS, 2, 128, 1, 1, {}}};
    for (; *count < wanted && *count < 3; ++*count) answers[*count] = all[*count];
    return SUCCESS;
}

static Numbers numbers(int type) { return type == 2 ? Numbers::F16 : type == 9 ? Numbers::BF16 : Numbers::F32; }

static long offset(const Tensor& tensor, const std::vector<int>& at) {
    long sum = 0;
    for (size_t axis = 0; axis < at.size(); ++axis) sum += (long)at[axis] * tensor.strides[axis];
    return sum;
}

// The sum for one element of the output.
static float sum_at(const Tensor& x, const char* from, const Filter& w, const char* weights, const Windows& windows,
                    const std::vector<int>& at) {
    int axes = (int)x.lens.size() - 2, taps = 1, channels = w.lens[1];
    for (int axis = 0; axis < axes; ++axis) taps *= w.lens[2 + axis];
    Numbers type = numbers(x.type);
    int first = at[1] / (w.lens[0] / windows.groups) * channels;
    float sum = 0;
    for (int tap = 0; tap < taps; ++tap) {
        std::vector<int> place = at;
        bool is_inside = true;
        for (int axis = axes - 1, rest = tap; axis >= 0; rest /= w.lens[2 + axis--]) {
            int of_axis = rest % w.lens[2 + axis];
            place[2 + axis] = at[2 + axis] * windows.stride[axis] - windows.padding[axis] + of_axis * windows.dilation[axis];
            is_inside &= place[2 + axis] >= 0 && place[2 + axis] < x.lens[2 + axis];
        }
        for (int channel = 0; channel < channels && is_inside; ++channel) {
            place[1] = first + channel;
            sum += number(from, offset(x, place), type) * number(weights, ((long)at[1] * taps + tap) * channels + channel, type);
        }
    }
    return sum;
}

static Status convolve(Handle* handle, const Tensor& x, const char* from, const Filter& w, const char* weights, const Windows& windows,
                       unsigned algorithm, char* scratch, size_t room, const char* added, float scale, const char* bias, int mode,
                       const Tensor& y, char* to) {
    if (algorithm != 1 || !fits(x, w, windows, y) || getenv("STAND_IN_CUDNN_REFUSES")) return NOT_SUPPORTED;
    if ((size_t)from % 16 || (size_t)to % 16 || (size_t)weights % 16) return NOT_SUPPORTED;
    if (room < 128 || !is_device(scratch, room) || !is_device(from, 1) || !is_device(weights, 1) || !is_device(to, 1)) return BAD_PARAM;
    auto work = [=] {
        memset(scratch, 0x5a, 128);
        std::vector<int> at(y.lens.size(), 0);
        Numbers type = numbers(y.type);
        for (bool goes_on = true; goes_on;) {
            float value = sum_at(x, from, w, weights, windows, at);
            if (scale != 0) value += scale * number(added, offset(y, at), type);
            if (bias) value += number(bias, at[1], type);
            set(to, offset(y, at), type, mode == 1 && value < 0 ? 0 : value);
            goes_on = false;
            for (size_t axis = at.size(); axis-- > 0 && !goes_on;) {
                goes_on = ++at[axis] < y.lens[axis];
                if (!goes_on) at[axis] = 0;
            }
        }
    };
    std::string what = "convolution to";
    for (int len : y.lens) what += " " + std::to_string(len);
    what += ", groups " + std::to_string(windows.groups) + (scale != 0 ? ", sum" : "") + (mode == 1 ? ", relu" : "");
    return put(handle->stream, what, work) ? SUCCESS : EXECUTION_FAILED;
}

API Status cudnnConvolutionForward(Handle* handle, const float* alpha, Tensor* x, const char* from, Filter* w, const char* weights,
                                   Windows* windows, unsigned algorithm, char* scratch, size_t room, const float* beta, Tensor* y,
                                   char* to) {
    if (*alpha != 1 || *beta != 0) return NOT_SUPPORTED;
    return convolve(handle, *x, from, *w, weights, *windows, algorithm, scratch, room, nullptr, 0, nullptr, 5, *y, to);
}

API Status cudnnConvolutionBiasActivationForward(Handle* handle, const float* alpha, Tensor* x, const char* from, Filter* w,
                                                 const char* weights, Windows* windows, unsigned algorithm, char* scratch, size_t room,
                                                 const float* scale, Tensor* z, const char* added, Tensor* of_bias, const char* bias,
                                                 Function* function, Tensor* y, char* to) {
    bool is_known = *alpha == 1 && function->nan == 0 && (function->mode == 1 || function->mode == 5);
    if (!is_known || !bias || !is_device(bias, 1) || !added || !is_device(added, 1)) return BAD_PARAM;
    if (of_bias->lens[1] != y->lens[1] || z->strides != y->strides) return BAD_PARAM;
    return convolve(handle, *x, from, *w, weights, *windows, algorithm, scratch, room, added, *scale, bias, function->mode, *y, to);
}
