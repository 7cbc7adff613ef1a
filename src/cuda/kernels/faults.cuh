// Reports of invalid values: the first value is recorded, with the operator that met it. The run fails when the device is done.

// Returns true, and reports the index, if it is out of range.
static __device__ inline bool is_outside(i64 index, i64 length, i64* faults, i64 operator_id) {
    if (index >= 0 && index < length) return false;
    unsigned long long none = 0, id = (unsigned long long)operator_id;
    if (atomicCAS((unsigned long long*)faults, none, id) == none) {
        faults[1] = index;
        faults[2] = length;
    }
    return true;
}
