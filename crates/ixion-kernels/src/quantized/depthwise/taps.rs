//! Sums of adjacent positions, and their conversion to outputs.

use super::super::dots::{Sums, TILE};
use super::super::interleaved::{Conversion, FactorLine, Lines, VECTORS};
use super::super::reals::Reals;
use super::super::weights::BLOCK;
use super::super::writer::{Site, Waiting, Writer, copy};

/// The operands of adjacent positions.
#[derive(Clone, Copy)]
pub(super) struct Taps<L: Lines> {
    pub(super) quads: *const u8,
    /// Prepared weights, which need not be aligned.
    pub(super) weights: *const L::Weights,
    /// Prepared starts, if bytes are multiplied in pairs. They need not be aligned either.
    pub(super) starts: *const L,
    pub(super) groups: usize,
    /// The columns of the window.
    pub(super) columns: usize,
    /// The distances between the quads of positions and of columns of the window.
    pub(super) distances: [usize; 2],
}

/// What happens to sums.
#[derive(Clone, Copy)]
pub(super) struct Ending<'a> {
    pub(super) writer: &'a Writer<'a>,
    pub(super) conversion: Option<Conversion>,
    pub(super) factors: FactorLine,
}

impl<L: Lines> Taps<L> {
    /// Computes the outputs of adjacent positions in a number of rows that are `distance` outputs apart.
    ///
    /// # Safety
    /// The operands must be there, and nothing else may use the outputs. The processor must have the instructions of both types,
    /// which must be enabled where the function is inlined.
    #[inline(always)]
    pub(super) unsafe fn compute_row<R: Reals, const ROWS: usize>(
        self,
        ending: Ending<'_>,
        site: Site,
        distance: usize,
        waiting: &mut Waiting,
    ) {
        let at_once = (L::POSITIONS / ROWS).max(1);
        let (mut done, mut taps) = (0, self);
        while done < site.rows {
            let count = if site.rows - done >= at_once { at_once } else { 1 };
            let here = Site { output: site.output + done * site.stride, rows: count, ..site };
            // SAFETY: the caller's promise.
            unsafe {
                match count {
                    1 => taps.compute::<R, ROWS, 1>(ending, here, distance, waiting),
                    2 => taps.compute::<R, ROWS, 2>(ending, here, distance, waiting),
                    _ => taps.compute::<R, ROWS, 4>(ending, here, distance, waiting),
                }
            }
            // After the last position, this may be beyond the quads, which end with those that it sees.
            taps.quads = taps.quads.wrapping_add(count * taps.distances[0]);
            done += count;
        }
    }

    /// Computes the outputs of P positions in each row.
    ///
    /// # Safety
    /// As [`Taps::compute_row`].
    #[inline(always)]
    unsafe fn compute<R: Reals, const ROWS: usize, const P: usize>(
        self,
        ending: Ending<'_>,
        site: Site,
        distance: usize,
        waiting: &mut Waiting,
    ) {
        // SAFETY: the caller's promise.
        let sums = unsafe { self.sum::<ROWS, P>() };
        let Some(how) = ending.conversion else {
            let mut tile: Sums = [[0; TILE[1]]; TILE[0]];
            for (row, sums) in sums.into_iter().enumerate() {
                // SAFETY: a row of the tile has places for all channels of four vectors. The rest is the caller's promise.
                unsafe {
                    for (sums, to) in sums.into_iter().zip(&mut tile) {
                        L::store(sums, to.as_mut_ptr());
                    }
                    let output = site.output + row * distance;
                    ending.writer.write::<R>(&tile, Site { output, ..site }, waiting);
                }
            }
            return;
        };
        let last = site.output + (ROWS - 1) * distance + (P - 1) * site.stride;
        let first = ending.writer.bytes(site.output..last + site.columns);
        for (row, sums) in sums.into_iter().enumerate() {
            for (position, [a, b, c, d]) in sums.into_iter().enumerate() {
                // SAFETY: the outputs are there, as checked above. Factors of a block are as far apart as its vectors.
                unsafe {
                    let line = |vector: usize| ending.factors.skip(vector * (BLOCK / VECTORS));
                    let steps = [
                        a.steps(line(0), how),
                        b.steps(line(1), how),
                        c.steps(line(2), how),
                        d.steps(line(3), how),
                    ];
                    let to = first.add(row * distance + position * site.stride);
                    if site.columns >= L::CHANNELS {
                        L::pack(steps, how, to);
                    } else {
                        let mut few = [0; BLOCK];
                        L::pack(steps, how, few.as_mut_ptr());
                        copy(few.as_ptr(), to, site.columns);
                    }
                }
            }
        }
    }

    /// Computes the sums of P positions in each row. Loops run over indices, because iterators over arrays would be compiled
    /// for each P.
    ///
    /// # Safety
    /// As [`Taps::compute_row`].
    #[inline(always)]
    #[allow(clippy::needless_range_loop, reason = "see above")]
    unsafe fn sum<const ROWS: usize, const P: usize>(self) -> [[[L; VECTORS]; P]; ROWS] {
        // SAFETY: the caller's promise.
        unsafe {
            let mut sums = [[[L::zero(); VECTORS]; P]; ROWS];
            if L::IS_IN_PAIRS {
                for row in 0..ROWS {
                    for vector in 0..VECTORS {
                        let start = self.starts.add(row * VECTORS + vector).read_unaligned();
                        for p in 0..P {
                            sums[row][p][vector] = start;
                        }
                    }
                }
            }
            let mut weights = self.weights;
            let row_weights = self.groups * self.columns * VECTORS;
            for group in 0..self.groups {
                for column in 0..self.columns {
                    let quads = self.quads.add(column * self.distances[1] + group * VECTORS * L::BYTES);
                    for vector in 0..VECTORS {
                        for row in 0..ROWS {
                            let factors = weights.add(row * row_weights + vector).read_unaligned();
                            for p in 0..P {
                                let quads = quads.add(p * self.distances[0] + vector * L::BYTES);
                                sums[row][p][vector] = sums[row][p][vector].add_products(quads, factors);
                            }
                        }
                    }
                    weights = weights.add(VECTORS);
                }
            }
            sums
        }
    }
}
