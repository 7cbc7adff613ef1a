//! Blocked matrix products.
//!
//! The output is column-major. k is split so that a block of A stays in the second-level cache, and a few columns of B in
//! the first-level cache. Both are packed in the order in which they are read, unless they are stored in a good order.

use super::problem::Problem;
use super::tile::{Kernel, Pack, Rows, Tile};
use crate::{Float, Isa, isa};
use gemm_common::Parallelism;
use std::cell::Cell;

/// The kernels for one type on this processor.
#[derive(Debug, Clone, Copy)]
pub(super) struct Kernels<T> {
    /// The number of lanes of a vector.
    lanes: usize,
    /// The maximum number of rows and columns of the output that one kernel computes.
    tile: [usize; 2],
    /// The kernel for a number of vectors of rows and a number of columns, both at least 1.
    select: fn(usize, usize) -> Option<Kernel<T>>,
    /// The function that packs rows whose elements are contiguous.
    pack: Pack<T>,
}

/// A type that has kernels.
pub(super) trait Blocked: Float {
    /// The kernels; `None` if the processor lacks the vectors for them.
    fn kernels() -> Option<Kernels<Self>>;

    /// The product for whole matrices of the crate, which requires some strides to be non-negative.
    fn product() -> Product<Self>;
}

/// A function `gemm` of the crate. Its parameters are m, n and k; C, its column and row strides, and whether it is read;
/// A and B with their column and row strides; the factors of C and of the product; what is conjugated; and the threads.
pub(super) type Product<T> = unsafe fn(
    usize,
    usize,
    usize,
    *mut T,
    isize,
    isize,
    bool,
    *const T,
    isize,
    isize,
    *const T,
    isize,
    isize,
    T,
    T,
    bool,
    bool,
    bool,
    Parallelism,
);

/// Bytes of a packed block of A: a part of a typical second-level cache.
const A_BYTES: usize = 256 << 10;

/// Bytes of packed columns of B.
const B_BYTES: usize = 1 << 20;

/// The maximum part of k that is processed at a time.
const DEPTH: usize = 384;

/// A is read in place if it is multiplied by at most this number of tiles of columns of B, and B if it is multiplied by
/// at most this number of tiles of rows of A.
const FEW_TILES: usize = 8;

/// A is read in place, however often, if its columns are within this number of bytes, a part of the first-level cache.
const NEAR_BYTES: usize = 32 << 10;

/// The maximum number of rows and columns of a tile.
const MAX_TILE: [usize; 2] = [64, 6];

macro_rules! blocked_numbers {
    ($($number:ident in $gemm:ident:
        $avx512:ident of $wide:literal, $avx2:ident of $narrow:literal, $neon:ident of $least:literal;
    )*) => {$(
        impl Blocked for $number {
            fn kernels() -> Option<Kernels<Self>> {
                #[cfg(target_arch = "aarch64")]
                use super::tile::arm::$neon;
                #[cfg(target_arch = "x86_64")]
                use super::tile::x86::{$avx2, $avx512};
                let kernels = |lanes, vectors: usize, select, pack| {
                    Some(Kernels::<Self> { lanes, tile: [vectors * lanes, 6], select, pack })
                };
                match isa() {
                    #[cfg(target_arch = "x86_64")]
                    Isa::Avx512 => kernels($wide, 4, $avx512::select, $avx512::pack_rows),
                    #[cfg(target_arch = "x86_64")]
                    Isa::Avx2 => kernels($narrow, 2, $avx2::select, $avx2::pack_rows),
                    #[cfg(target_arch = "aarch64")]
                    Isa::Neon => kernels($least, 4, $neon::select, $neon::pack_rows),
                    _ => None,
                }
            }

            fn product() -> Product<Self> {
                $gemm::gemm::$number::get_gemm_fn()
            }
        }
    )*};
}

blocked_numbers! {
    f32 in gemm_f32: single16 of 16, single8 of 8, single4 of 4;
    f64 in gemm_f64: double8 of 8, double4 of 4, double2 of 2;
}

/// A cache line of packed elements.
#[derive(Debug, Clone, Copy)]
#[repr(align(64))]
struct Line(#[expect(dead_code, reason = "it is read as elements, through a pointer")] [u8; 64]);

thread_local! {
    /// Memory for the packed A and B, which a thread keeps.
    static PACKED: Cell<[Vec<Line>; 2]> = const { Cell::new([Vec::new(), Vec::new()]) };
}

/// Memory for this number of elements, which reuses the allocated lines if they are enough.
fn room<T>(lines: &mut Vec<Line>, numbers: usize) -> *mut T {
    let wanted = (numbers * size_of::<T>()).div_ceil(size_of::<Line>());
    if lines.len() < wanted {
        lines.resize(wanted, Line([0; 64]));
    }
    lines.as_mut_ptr().cast()
}

/// A block of an operand, with its row and column strides.
struct Operand<T> {
    data: *const T,
    strides: [isize; 2],
}

impl<T> Clone for Operand<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Operand<T> {}

impl<T> Operand<T> {
    fn at(self, row: usize, column: usize) -> *const T {
        self.data.wrapping_offset(row as isize * self.strides[0] + column as isize * self.strides[1])
    }

    fn from(self, row: usize, column: usize) -> Self {
        Self { data: self.at(row, column), ..self }
    }
}

/// Computes a product whose lengths are all at least 1.
///
/// # Safety
/// As [`Problem::solve`], and the kernels must be those of this processor.
pub(super) unsafe fn blocked<T: Float>(problem: &Problem<T>, kernels: Kernels<T>) {
    let ([m, n, k], [rows, columns]) = (problem.dims, kernels.tile);
    // The split of k depends on k alone, so that threads that share the work add in the same order.
    let depth = k.div_ceil(k.div_ceil(DEPTH));
    let most = |bytes: usize, unit: usize| (bytes / (depth * size_of::<T>()) / unit).max(1) * unit;
    let (height, width) = (most(A_BYTES, rows).min(m.next_multiple_of(rows)), most(B_BYTES, columns));
    let width = width.min(n.next_multiple_of(columns));
    let mut packed = PACKED.take();
    let (packed_a, packed_b) =
        (room::<T>(&mut packed[0], height * depth), room::<T>(&mut packed[1], width * depth));
    let a = Operand { data: problem.a, strides: problem.a_strides };
    let b = Operand { data: problem.b, strides: problem.b_strides };
    let c = Operand { data: problem.c.cast_const(), strides: problem.c_strides };
    for column in (0..n).step_by(width) {
        let width = width.min(n - column);
        for from in (0..k).step_by(depth) {
            let depth = depth.min(k - from);
            let mut b = b.from(from, column);
            // Columns whose elements are adjacent are already in a good order.
            let few = if b.strides[0] == 1 { FEW_TILES } else { 2 };
            let packs_b = m > few * rows;
            if packs_b {
                // SAFETY: the block is within B, and there is room for it.
                unsafe { pack_columns(b, [depth, width], columns, (packed_b, kernels.pack)) };
                b = Operand { data: packed_b.cast_const(), strides: [columns as isize, 1] };
            }
            for row in (0..m).step_by(height) {
                let height = height.min(m - row);
                let mut a = a.from(row, from);
                let reach = a.strides[1].unsigned_abs().saturating_mul(depth * size_of::<T>());
                let is_in_place = a.strides[0] == 1 && (width <= FEW_TILES * columns || reach <= NEAR_BYTES);
                if !is_in_place {
                    // SAFETY: the block is within A, and there is room for it.
                    unsafe { pack_rows(a, [height, depth], rows, (packed_a, kernels.pack)) };
                    a = Operand { data: packed_a.cast_const(), strides: [1, rows as isize] };
                }
                let block = Block {
                    dims: [height, width, depth],
                    a,
                    // The distance between tiles.
                    a_step: if is_in_place { rows } else { rows * depth },
                    b,
                    b_step: if packs_b {
                        (columns * depth) as isize
                    } else {
                        columns as isize * b.strides[1]
                    },
                    c: c.from(row, column),
                    adds: problem.accumulate || from > 0,
                };
                // SAFETY: the blocks are within the operands.
                unsafe { block.compute(&kernels) };
            }
        }
    }
    PACKED.set(packed);
}

/// Blocks of A and B, and the part of the output that they belong to.
struct Block<T> {
    dims: [usize; 3],
    a: Operand<T>,
    a_step: usize,
    b: Operand<T>,
    b_step: isize,
    c: Operand<T>,
    adds: bool,
}

impl<T: Float> Block<T> {
    /// # Safety
    /// The operands must be as large as `dims` specifies, with contiguous columns of A, and the output must be writable.
    unsafe fn compute(&self, kernels: &Kernels<T>) {
        let ([height, width, depth], [rows, columns]) = (self.dims, kernels.tile);
        let (high, wide) = (height.div_ceil(rows), width.div_ceil(columns));
        // Columns of B that all stay in a near cache are multiplied with the same rows of A in turn.
        let is_near = width * depth * size_of::<T>() <= NEAR_BYTES;
        for index in 0..high * wide {
            let (i, j) = if is_near { (index / wide, index % wide) } else { (index % high, index / high) };
            let (row, column) = (i * rows, j * columns);
            let b = self.b.data.wrapping_offset(j as isize * self.b_step);
            let (rows, columns) = (rows.min(height - row), columns.min(width - column));
            let vectors = rows.div_ceil(kernels.lanes);
            let Some(kernel) = (kernels.select)(vectors, columns) else { return };
            let c = self.c.from(row, column);
            let tile = Tile {
                depth,
                last: rows - (vectors - 1) * kernels.lanes,
                a: self.a.data.wrapping_add(i * self.a_step),
                a_column: self.a.strides[1],
                b,
                b_strides: self.b.strides,
                c: c.data.cast_mut(),
                c_column: c.strides[1],
                adds: self.adds,
            };
            // SAFETY: the caller's promise. The kernel reads `depth` columns of A and rows of B, and writes
            // rows × columns elements of the output.
            unsafe {
                if c.strides[0] == 1 {
                    kernel(&tile);
                } else {
                    compute_apart(kernel, &tile, c, [rows, columns]);
                }
            }
        }
    }
}

/// Computes a tile of an output whose columns are not contiguous.
///
/// # Safety
/// As [`Kernel`], and the tile must not be larger than [`MAX_TILE`].
unsafe fn compute_apart<T: Float>(
    kernel: Kernel<T>,
    tile: &Tile<T>,
    c: Operand<T>,
    [rows, columns]: [usize; 2],
) {
    let mut sums = [T::zero(); MAX_TILE[0] * MAX_TILE[1]];
    let to_sums = Tile { c: sums.as_mut_ptr(), c_column: MAX_TILE[0] as isize, adds: false, ..*tile };
    // SAFETY: the caller's promise; there is room for the sums of the largest tile.
    unsafe { kernel(&to_sums) };
    for (column, sums) in sums.chunks_exact(MAX_TILE[0]).take(columns).enumerate() {
        for (row, &sum) in sums.iter().take(rows).enumerate() {
            let to = c.at(row, column).cast_mut();
            // SAFETY: the caller's promise: the element can be written, and read if sums are added.
            unsafe { *to = if tile.adds { *to + sum } else { sum } };
        }
    }
}

/// Packs height × depth elements into strips of `strip` rows, each column by column. Missing rows are neither read nor
/// written.
///
/// # Safety
/// The elements must be readable, `to` must have room for whole strips, and `pack` must be a function for this processor.
unsafe fn pack_rows<T: Float>(
    from: Operand<T>,
    [height, depth]: [usize; 2],
    strip: usize,
    (to, pack): (*mut T, Pack<T>),
) {
    for row in (0..height).step_by(strip) {
        let (rows, to) = (strip.min(height - row), to.wrapping_add(row * depth));
        let from = from.from(row, 0);
        // SAFETY: as the caller promises: the strip is within both.
        unsafe {
            match from.strides {
                [1, _] => (0..depth).for_each(|column| {
                    std::ptr::copy_nonoverlapping(from.at(0, column), to.add(column * strip), rows);
                }),
                [distance, 1] => {
                    pack(&Rows { from: from.data, distance, dims: [rows, depth], to, column: strip })
                }
                _ => (0..depth).for_each(|column| {
                    (0..rows).for_each(|row| *to.add(column * strip + row) = *from.at(row, column));
                }),
            }
        }
    }
}

/// Packs depth × width elements into strips of `strip` columns, each row by row. Missing columns are neither read nor
/// written.
///
/// # Safety
/// As [`pack_rows`].
unsafe fn pack_columns<T: Float>(
    from: Operand<T>,
    [depth, width]: [usize; 2],
    strip: usize,
    to: (*mut T, Pack<T>),
) {
    let turned = Operand { data: from.data, strides: [from.strides[1], from.strides[0]] };
    // SAFETY: as the caller promises.
    unsafe { pack_rows(turned, [width, depth], strip, to) }
}
