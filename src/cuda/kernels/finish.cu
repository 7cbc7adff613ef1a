// What an epilogue makes of each element of a tensor, in its place: behind what a library computed.

#include "common.cuh"
#include "functions.cuh"

extern "C" __global__ void finish(EPILOGUE_PARAMETERS T* y, Strides sy, Shape shape, i64 count) {
    for (i64 index = FIRST; index < count; index += STEP) {
        T& element = y[offset(index, shape, sy)];
        C value = load<C>(element);
        EPILOGUE;
        store<C>(element, value);
    }
}
