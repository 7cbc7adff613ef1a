// One time step of a recurrent layer, given the products of the input and of the state with the weights, with one thread per
// unit of each sample. KIND is TANH, RELU, LSTM or GRU; gates are in PyTorch's order.

#include "common.cuh"
#include "functions.cuh"

#define TANH 0
#define RELU 1
#define LSTM 2
#define GRU 3

extern "C" __global__ void step(const T* from_input, const T* from_state, T* memory, T* state, int batch, int units) {
    for (i64 i = GLOBAL_THREAD; i < (i64)batch * units; i += GRID_STRIDE) {
        i64 sample = i / units, unit = i % units;
        int gates = KIND == LSTM ? 4 : KIND == GRU ? 3 : 1;
        const T* a = from_input + sample * gates * units + unit;
        const T* b = from_state + sample * gates * units + unit;
        if (KIND == TANH) state[i] = tanh(a[0] + b[0]);
        if (KIND == RELU) state[i] = f_relu(a[0] + b[0]);
        if (KIND == LSTM) {
            T in = f_sigmoid(a[0] + b[0]), forget = f_sigmoid(a[units] + b[units]);
            T cell = tanh(a[2 * units] + b[2 * units]), out = f_sigmoid(a[3 * units] + b[3 * units]);
            T next = forget * memory[i] + in * cell;
            memory[i] = next;
            state[i] = out * tanh(next);
        }
        if (KIND == GRU) {
            T reset = f_sigmoid(a[0] + b[0]), update = f_sigmoid(a[units] + b[units]);
            T fresh = tanh(a[2 * units] + reset * b[2 * units]);
            state[i] = ((T)1 - update) * fresh + update * state[i];
        }
    }
}
