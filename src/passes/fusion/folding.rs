//! The arithmetic of folding: scaling and shifting channels in the weights of the operator that computes them.

// ANCHOR: norm
/// The parameters of a batch norm in inference mode: one value for each channel, and ε.
#[derive(Debug, Clone, Copy)]
pub struct Norm<'a> {
    /// γ, the learnt factors.
    pub gamma: &'a [f64],
    /// β, the learnt summands.
    pub beta: &'a [f64],
    /// μ, the means of the channels.
    pub mean: &'a [f64],
    /// σ², the variances of the channels.
    pub variance: &'a [f64],
    /// ε, which keeps the root away from 0.
    pub eps: f64,
}

/// An affine function for each channel: channel · factor + summand.
#[derive(Debug, Clone, PartialEq)]
pub struct Affine {
    /// The factor of each channel.
    pub factors: Vec<f64>,
    /// The summand of each channel.
    pub summands: Vec<f64>,
}
// ANCHOR_END: norm

// ANCHOR: affine
/// Batch norm as a factor and a summand: γ · (x − μ) / √(σ² + ε) + β.
///
/// ```
/// use ixion::passes::folding::{Norm, affine};
/// let norm = Norm { gamma: &[6.0], beta: &[1.0], mean: &[5.0], variance: &[8.0], eps: 1.0 };
/// let affine = affine(&norm);
/// assert_eq!((affine.factors, affine.summands), (vec![2.0], vec![-9.0]));
/// ```
pub fn affine(norm: &Norm<'_>) -> Affine {
    // ANCHOR: affine_todo -- task 5: compute a factor and a summand for each channel
    let factors: Vec<f64> =
        norm.gamma.iter().zip(norm.variance).map(|(gamma, var)| gamma / (var + norm.eps).sqrt()).collect();
    let shifts = norm.beta.iter().zip(norm.mean).zip(&factors);
    let summands = shifts.map(|((beta, mean), factor)| beta - mean * factor).collect();
    Affine { factors, summands }
    // ANCHOR_END: affine_todo
}
// ANCHOR_END: affine

// ANCHOR: scaled
/// Multiplies an array of this shape, in row-major order, by one factor for each index along `axis`.
pub fn scaled(numbers: &[f64], shape: &[usize], axis: usize, factors: &[f64]) -> Vec<f64> {
    // ANCHOR: scaled_todo -- task 5: multiply each number by the factor of its index along the axis
    let inner = shape.iter().skip(axis + 1).product::<usize>().max(1);
    let len = factors.len().max(1);
    let factor = |position: usize| factors.get(position / inner % len).copied().unwrap_or(1.0);
    numbers.iter().enumerate().map(|(position, number)| number * factor(position)).collect()
    // ANCHOR_END: scaled_todo
}
// ANCHOR_END: scaled

// ANCHOR: scaled_transposed
/// The same for a transposed convolution, whose weight is C×(O/groups)×…: each group of input channels has its own share
/// of the output channels, and so of the factors.
pub fn scaled_transposed(numbers: &[f64], shape: &[usize], groups: usize, factors: &[f64]) -> Vec<f64> {
    // ANCHOR: scaled_transposed_todo -- task 5: split numbers and factors into groups, and scale each along its second axis
    let block = numbers.len().checked_div(groups).unwrap_or(0).max(1);
    let share = factors.len().checked_div(groups).unwrap_or(0).max(1);
    let groups = numbers.chunks(block).zip(factors.chunks(share));
    groups.flat_map(|(numbers, factors)| scaled(numbers, shape, 1, factors)).collect()
    // ANCHOR_END: scaled_transposed_todo
}
// ANCHOR_END: scaled_transposed

// ANCHOR: folded_bias
/// The bias after folding: bias · factor + summand for each channel. A missing bias counts as 0.
pub fn folded_bias(bias: Option<&[f64]>, factors: &[f64], summands: &[f64]) -> Vec<f64> {
    // ANCHOR: folded_bias_todo -- task 5: scale and shift the bias like any other summand of the channel
    let bias = |channel: usize| bias.and_then(|bias| bias.get(channel)).copied().unwrap_or(0.0);
    let pairs = factors.iter().zip(summands).enumerate();
    pairs.map(|(channel, (factor, summand))| bias(channel) * factor + summand).collect()
    // ANCHOR_END: folded_bias_todo
}
// ANCHOR_END: folded_bias

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batch_norm_is_a_factor_and_a_summand() {
        let norm = Norm {
            gamma: &[2.0, 1.0],
            beta: &[1.0, 0.0],
            mean: &[3.0, -1.0],
            variance: &[3.0, 0.0],
            eps: 1.0,
        };
        assert_eq!(affine(&norm), Affine { factors: vec![1.0, 1.0], summands: vec![-2.0, 1.0] });
    }

    #[test]
    fn every_index_of_an_axis_is_multiplied_by_its_factor() {
        let ones = [1.0; 12];
        assert_eq!(
            scaled(&ones, &[2, 3, 2], 0, &[2.0, 3.0]),
            [2., 2., 2., 2., 2., 2., 3., 3., 3., 3., 3., 3.]
        );
        assert_eq!(
            scaled(&ones, &[2, 3, 2], 1, &[2.0, 3.0, 4.0]),
            [2., 2., 3., 3., 4., 4., 2., 2., 3., 3., 4., 4.]
        );
    }

    #[test]
    fn groups_of_a_transposed_convolution_have_their_own_channels() {
        // Four input channels in two groups, two output channels for each group, one tap.
        let scaled = scaled_transposed(&[1.0; 8], &[4, 2, 1], 2, &[2.0, 3.0, 4.0, 5.0]);
        assert_eq!(scaled, [2., 3., 2., 3., 4., 5., 4., 5.]);
    }

    #[test]
    fn a_missing_bias_is_zero() {
        assert_eq!(folded_bias(Some(&[1.0, 2.0]), &[2.0, 3.0], &[0.5, 0.0]), [2.5, 6.0]);
        assert_eq!(folded_bias(None, &[2.0, 3.0], &[0.5, 0.0]), [0.5, 0.0]);
    }
}
