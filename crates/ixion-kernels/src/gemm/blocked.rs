//! Blocked matrix products around the microkernels of the crate `gemm`.
//!
//! The output is column-major. k is split so that a block of A stays in the second-level cache, and a few columns of B in
//! the first-level cache. Both are packed in the order in which they are read.

use super::problem::Problem;
use crate::{Float, Isa, isa};
use gemm_common::Parallelism;
use gemm_common::microkernel::MicroKernelFn;
use std::cell::Cell;

/// The microkernels for one type on this processor.
#[derive(Debug, Clone, Copy)]
pub(super) struct Kernels<T> {
    /// The number of lanes of a vector.
    lanes: usize,
    /// The maximum number of rows and columns of the output that one microkernel computes.
    tile: [usize; 2],
    /// The microkernel for a number of vectors of rows and a number of columns, both at least 1.
    select: fn(usize, usize) -> MicroKernelFn<T>,
}

/// A type that has microkernels.
pub(super) trait Blocked: Float {
    /// The microkernels; `None` if the processor lacks the vectors for them.
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

/// A is read in place if it is multiplied by at most this number of tiles of columns of B.
const FEW_TILES: usize = 8;

macro_rules! blocked_numbers {
    ($($number:ident in $gemm:ident, $avx512:literal, $fma:literal;)*) => {$(
        impl Blocked for $number {
            #[cfg(target_arch = "x86_64")]
            fn kernels() -> Option<Kernels<Self>> {
                if isa() == Isa::Avx512 {
                    use $gemm::microkernel::avx512f::$number::{MR_DIV_N, NR, UKR};
                    let select = |vectors: usize, columns: usize| UKR[vectors - 1][columns - 1];
                    return Some(Kernels { lanes: $avx512, tile: [MR_DIV_N * $avx512, NR], select });
                }
                if isa() == Isa::Avx2 {
                    use $gemm::microkernel::fma::$number::{MR_DIV_N, NR, UKR};
                    let select = |vectors: usize, columns: usize| UKR[vectors - 1][columns - 1];
                    return Some(Kernels { lanes: $fma, tile: [MR_DIV_N * $fma, NR], select });
                }
                None
            }

            #[cfg(not(target_arch = "x86_64"))]
            fn kernels() -> Option<Kernels<Self>> {
                None
            }

            fn product() -> Product<Self> {
                $gemm::gemm::$number::get_gemm_fn()
            }
        }
    )*};
}

blocked_numbers! {
    f32 in gemm_f32, 16, 8;
    f64 in gemm_f64, 8, 4;
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
            let packs_b = m > 2 * rows;
            if packs_b {
                // SAFETY: the block is within B, and there is room for it.
                unsafe { pack_columns(b, [depth, width], columns, packed_b) };
                b = Operand { data: packed_b.cast_const(), strides: [columns as isize, 1] };
            }
            for row in (0..m).step_by(height) {
                let height = height.min(m - row);
                let mut a = a.from(row, from);
                let is_in_place =
                    a.strides[0] == 1 && height % kernels.lanes == 0 && width <= FEW_TILES * columns;
                if !is_in_place {
                    // SAFETY: the block is within A, and there is room for it.
                    unsafe { pack_rows(a, [height, depth], rows, packed_a) };
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
                // SAFETY: the blocks are within the operands, and packed rows are padded to whole vectors.
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
    /// The operands must be as large as `dims` specifies, with rows of A padded to whole vectors, and the output must be
    /// writable.
    unsafe fn compute(&self, kernels: &Kernels<T>) {
        let ([height, width, depth], [rows, columns]) = (self.dims, kernels.tile);
        for (j, column) in (0..width).step_by(columns).enumerate() {
            let b = self.b.data.wrapping_offset(j as isize * self.b_step);
            let columns = columns.min(width - column);
            for (i, row) in (0..height).step_by(rows).enumerate() {
                let rows = rows.min(height - row);
                let kernel = (kernels.select)(rows.div_ceil(kernels.lanes), columns);
                // SAFETY: the caller's promise. The loop reads `depth` columns of A and rows of B, and writes rows × columns
                // elements of the output.
                unsafe {
                    kernel(
                        rows,
                        columns,
                        depth,
                        self.c.at(row, column).cast_mut(),
                        self.a.data.wrapping_add(i * self.a_step),
                        b,
                        self.c.strides[1],
                        self.c.strides[0],
                        self.a.strides[1],
                        self.b.strides[0],
                        self.b.strides[1],
                        T::one(),
                        T::one(),
                        u8::from(self.adds),
                        false,
                        false,
                        false,
                        std::ptr::null(),
                    );
                }
            }
        }
    }
}

/// Packs height × depth elements into strips of `strip` rows, each column by column; missing rows are filled with zeros.
///
/// # Safety
/// The elements must be readable, and `to` must have room for whole strips.
unsafe fn pack_rows<T: Float>(from: Operand<T>, [height, depth]: [usize; 2], strip: usize, to: *mut T) {
    for row in (0..height).step_by(strip) {
        let (rows, to) = (strip.min(height - row), to.wrapping_add(row * depth));
        let from = from.from(row, 0);
        // SAFETY: as the caller promises: the strip is within both.
        unsafe {
            if from.strides[0] == 1 {
                for column in 0..depth {
                    let to = to.add(column * strip);
                    std::ptr::copy_nonoverlapping(from.at(0, column), to, rows);
                }
            } else {
                transpose(from, [rows, depth], strip, to);
            }
            for column in (0..depth).filter(|_| rows < strip) {
                std::slice::from_raw_parts_mut(to.add(column * strip + rows), strip - rows).fill(T::zero());
            }
        }
    }
}

/// Rows and columns that are transposed at a time: what is written of them stays in the first-level cache.
const TRANSPOSED: usize = 8;

/// Packs rows × depth elements into one strip, column by column, if the elements of a column are not contiguous.
///
/// # Safety
/// The elements must be readable, and `to` must have room for the strip.
unsafe fn transpose<T: Float>(from: Operand<T>, [rows, depth]: [usize; 2], strip: usize, to: *mut T) {
    let (whole_rows, whole_depth) = (rows / TRANSPOSED * TRANSPOSED, depth / TRANSPOSED * TRANSPOSED);
    let is_dense = from.strides[1] == 1;
    // SAFETY: as the caller promises: rows and columns are those of the strip.
    unsafe {
        for column in (0..whole_depth).step_by(TRANSPOSED) {
            for row in (0..whole_rows).step_by(TRANSPOSED) {
                let mut tile = [[T::zero(); TRANSPOSED]; TRANSPOSED];
                for (i, line) in tile.iter_mut().enumerate() {
                    let source = from.at(row + i, column);
                    if is_dense {
                        std::ptr::copy_nonoverlapping(source, line.as_mut_ptr(), TRANSPOSED);
                    } else {
                        *line =
                            std::array::from_fn(|j| *source.wrapping_offset(j as isize * from.strides[1]));
                    }
                }
                let turned: [[T; TRANSPOSED]; TRANSPOSED] =
                    std::array::from_fn(|j| std::array::from_fn(|i| tile[i][j]));
                for (j, line) in turned.iter().enumerate() {
                    let to = to.add((column + j) * strip + row);
                    std::ptr::copy_nonoverlapping(line.as_ptr(), to, TRANSPOSED);
                }
            }
        }
        for column in 0..depth {
            let first = if column < whole_depth { whole_rows } else { 0 };
            for row in first..rows {
                *to.add(column * strip + row) = *from.at(row, column);
            }
        }
    }
}

/// Packs depth × width elements into strips of `strip` columns, each row by row. Missing columns are not read.
///
/// # Safety
/// The elements must be readable, and `to` must have room for whole strips.
unsafe fn pack_columns<T: Float>(from: Operand<T>, [depth, width]: [usize; 2], strip: usize, to: *mut T) {
    let turned = Operand { data: from.data, strides: [from.strides[1], from.strides[0]] };
    // SAFETY: as the caller promises.
    unsafe { pack_rows(turned, [width, depth], strip, to) }
}
