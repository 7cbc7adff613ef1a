// Rows of a table by their numbers. A thread copies CHUNK neighbours of a row.

#include "common.cuh"
#include "chunks.cuh"
#include "faults.cuh"

extern "C" __global__ void embedding(const I* indices, Strides si, Shape places, const T* table, i64 by_row, i64 by_column, i64 rows,
                                     int width, T* y, Strides sy, i64 to_column, i64 count, i64* faults, i64 who) {
    for (i64 i = FIRST * CHUNK; i < count; i += STEP * CHUNK) {
        i64 place = i, column = innermost(place, width), row = (i64)indices[offset(place, places, si)];
        if (is_outside(row, rows, faults, who)) continue;
        put_chunk(y + offset(place, places, sy) + column * to_column, chunk_at<CHUNK>(table + row * by_row + column * by_column));
    }
}
