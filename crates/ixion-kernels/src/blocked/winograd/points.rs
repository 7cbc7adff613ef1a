//! The coefficients of Winograd's transforms, derived from the points at which polynomials are evaluated.
//!
//! The points are 0, pairs ±p, and infinity. The values at the two points of a pair are the sum and the difference of the
//! same two terms, so half of the work is shared.

/// The maximum number of pairs of points.
const PAIRS: usize = 3;

/// The coefficients of the transforms for up to three pairs of points. Unused ones are 0.
#[derive(Debug, Clone, Copy)]
pub(super) struct Points {
    /// The positive point of each pair.
    pub(super) pairs: [f64; PAIRS],
    /// The coefficients of 1, x², x⁴ and so on of the product of all x² − p²; the last is 1.
    pub(super) all: [f64; PAIRS + 1],
    /// The same products, each without one of the pairs.
    pub(super) others: [[f64; PAIRS]; PAIRS],
    /// The number of pairs.
    count: usize,
}

/// The points for tiles of 2×2, 4×4 and 6×6 results: the simple ones with the smallest errors.
pub(super) const fn points(tile: usize) -> Points {
    match tile {
        2 => Points::new(1, [1.0, 0.0, 0.0]),
        4 => Points::new(2, [std::f64::consts::FRAC_1_SQRT_2, std::f64::consts::SQRT_2, 0.0]),
        _ => Points::new(3, [0.5, 1.0, 1.5]),
    }
}

impl Points {
    const fn new(count: usize, pairs: [f64; PAIRS]) -> Self {
        let mut all = [0.0; PAIRS + 1];
        let mut others = [[0.0; PAIRS]; PAIRS];
        all[0] = 1.0;
        let mut pair = 0;
        while pair < count {
            all = times(all, pairs[pair]);
            let mut product = [0.0; PAIRS + 1];
            product[0] = 1.0;
            let mut other = 0;
            while other < count {
                if other != pair {
                    product = times(product, pairs[other]);
                }
                other += 1;
            }
            others[pair] = [product[0], product[1], product[2]];
            pair += 1;
        }
        Self { pairs, all, others, count }
    }

    /// The transform of a row of three weights: three factors for each value of the transformed row.
    pub(super) fn of_weights(&self) -> Vec<[f64; 3]> {
        let row = |at: f64, scale: f64| [scale, scale * at, scale * at * at];
        let mut rows = vec![row(0.0, 1.0 / self.all[0])];
        for (pair, &point) in self.pairs[..self.count].iter().enumerate() {
            // The product of the differences from all other points.
            let square = point * point;
            let others = self.others[pair].iter().rev().fold(0.0, |sum, factor| sum * square + factor);
            let scale = 1.0 / (2.0 * square * others);
            rows.extend([row(point, scale), row(-point, scale)]);
        }
        rows.push([0.0, 0.0, 1.0]);
        rows
    }
}

/// Multiplies a polynomial in x², given by its coefficients, by x² − p².
const fn times(of: [f64; PAIRS + 1], point: f64) -> [f64; PAIRS + 1] {
    let mut product = [0.0; PAIRS + 1];
    let mut power = 0;
    while power <= PAIRS {
        let higher = if power > 0 { of[power - 1] } else { 0.0 };
        product[power] = higher - of[power] * point * point;
        power += 1;
    }
    product
}
