// Applies an epilogue to each element of a tensor in place, after a library call.

#include "common.cuh"
#include "functions.cuh"

extern "C" __global__ void epilogue(EPILOGUE_PARAMETERS T* y, Strides sy, Shape shape, i64 count) {
    for (i64 index = GLOBAL_THREAD; index < count; index += GRID_STRIDE) {
        T& element = y[offset(index, shape, sy)];
        C value = load<C>(element);
        EPILOGUE;
        store<C>(element, value);
    }
}
