//! The arithmetic of folding: what scales and shifts the channels of an operator goes into its weights.

// ANCHOR: affine
/// What is done to each channel: channel · factor + summand.
#[derive(Debug, Clone, PartialEq)]
pub struct Affine {
    /// One for each channel.
    pub factors: Vec<f64>,
    /// One for each channel.
    pub summands: Vec<f64>,
}

/// What is known of each channel for batch norm, in this order: γ, β, the running mean μ, and the running variance σ².
pub type Statistics<'a> = [&'a [f64]; 4];

/// Batch norm as an affine map: γ · (x − μ) / √(σ² + ε) + β is x · factor + summand. None where the four have not as many
/// channels.
pub fn batch_norm([gamma, beta, mean, variance]: Statistics<'_>, eps: f64) -> Option<Affine> {
    // ANCHOR: affine_todo -- task 5: the factor is γ / √(σ² + ε), the summand β − μ · factor
    if [beta.len(), mean.len(), variance.len()] != [gamma.len(); 3] {
        return None;
    }
    let factors: Vec<f64> =
        gamma.iter().zip(variance).map(|(gamma, variance)| gamma / (variance + eps).sqrt()).collect();
    let shifts = mean.iter().zip(&factors).map(|(mean, factor)| mean * factor);
    let summands = beta.iter().zip(shifts).map(|(beta, shift)| beta - shift).collect();
    Some(Affine { factors, summands })
    // ANCHOR_END: affine_todo
}
// ANCHOR_END: affine

// ANCHOR: scaled
/// The elements of an n-d weight, in row-major order, with each index of one axis times its own factor.
pub fn scaled(numbers: &[f64], shape: &[usize], axis: usize, factors: &[f64]) -> Vec<f64> {
    // ANCHOR: scaled_todo -- task 5: which index of the axis an element has follows from its position and the axes behind
    let inner: usize = shape.iter().skip(axis + 1).product::<usize>().max(1);
    let len = factors.len().max(1);
    let factor = |position: usize| factors.get(position / inner % len).copied().unwrap_or(1.0);
    numbers.iter().enumerate().map(|(position, number)| number * factor(position)).collect()
    // ANCHOR_END: scaled_todo
}
// ANCHOR_END: scaled

// ANCHOR: folded_bias
/// The bias of an operator whose channels are multiplied and shifted: bias · factor + summand. An operator without a bias
/// gets one where there are summands.
pub fn folded_bias(bias: Option<&[f64]>, factors: &[f64], summands: Option<&[f64]>) -> Option<Vec<f64>> {
    // ANCHOR: folded_bias_todo -- task 5: four cases: with and without a bias, with and without summands
    let scaled = bias.map(|bias| bias.iter().zip(factors).map(|(bias, factor)| bias * factor));
    match (scaled, summands) {
        (Some(scaled), Some(summands)) => {
            Some(scaled.zip(summands).map(|(bias, summand)| bias + summand).collect())
        }
        (Some(scaled), None) => Some(scaled.collect()),
        (None, summands) => summands.map(<[f64]>::to_vec),
    }
    // ANCHOR_END: folded_bias_todo
}
// ANCHOR_END: folded_bias

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_index_of_an_axis_has_its_factor() {
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
    fn batch_norm_of_its_own_mean_is_beta() {
        let statistics: Statistics<'_> = [&[2.0, 3.0], &[5.0, 7.0], &[1.0, -1.0], &[3.0, 8.0]];
        let Affine { factors, summands } = batch_norm(statistics, 1.0).unwrap();
        assert_eq!((factors, summands), (vec![1.0, 1.0], vec![4.0, 8.0]));
        assert_eq!(batch_norm([&[1.0], &[1.0], &[1.0], &[]], 1.0), None);
    }
}
