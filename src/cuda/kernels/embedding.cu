// Rows of a table by their numbers.

#include "common.cuh"
#include "faults.cuh"

extern "C" __global__ void embedding(const I* indices, Strides si, Shape places, const T* table, i64 by_row, i64 by_column, i64 rows,
                                     i64 width, T* y, Strides sy, i64 to_column, i64 count, i64* faults, i64 who) {
    for (i64 i = FIRST; i < count; i += STEP) {
        i64 place = i / width, column = i % width, row = (i64)indices[offset(place, places, si)];
        if (is_outside(row, rows, faults, who)) continue;
        y[offset(place, places, sy) + column * to_column] = table[row * by_row + column * by_column];
    }
}
