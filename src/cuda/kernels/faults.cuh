// Values that a kernel cannot use: the first is kept, with who met it. The run fails when the device is done.

static __device__ inline bool is_outside(i64 index, i64 length, i64* faults, i64 who) {
    if (index >= 0 && index < length) return false;
    unsigned long long none = 0, me = (unsigned long long)who;
    if (atomicCAS((unsigned long long*)faults, none, me) == none) {
        faults[1] = index;
        faults[2] = length;
    }
    return true;
}
