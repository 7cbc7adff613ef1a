// Gathers rows of a table by index. A thread copies a chunk of CHUNK adjacent elements of a row.

#include "common.cuh"
#include "chunks.cuh"
#include "faults.cuh"

extern "C" __global__ void embedding(const I* indices, Strides si, Shape index_shape, const T* table, i64 by_row, i64 by_column, i64 rows,
                                     int width, T* y, Strides sy, i64 to_column, i64 count, i64* faults, i64 operator_id) {
    for (i64 i = GLOBAL_THREAD * CHUNK; i < count; i += GRID_STRIDE * CHUNK) {
        i64 at = i, column = pop_innermost(at, width), row = (i64)indices[offset(at, index_shape, si)];
        if (is_outside(row, rows, faults, operator_id)) continue;
        store_chunk(y + offset(at, index_shape, sy) + column * to_column, load_chunk<CHUNK>(table + row * by_row + column * by_column));
    }
}
