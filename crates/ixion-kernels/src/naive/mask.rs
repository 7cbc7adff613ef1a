//! Masks by their definition.

use ndarray::{ArrayViewD, Dimension};

/// The indices of the true elements, in row-major order, as `torch.nonzero`.
pub fn nonzero(mask: ArrayViewD<'_, bool>) -> Vec<Vec<i64>> {
    let found = mask.indexed_iter().filter(|(_, is_true)| **is_true);
    found.map(|(at, _)| at.slice().iter().map(|&index| index as i64).collect()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use ndarray::array;

    #[test]
    fn by_hand() {
        let mask = array![[false, true], [true, true]].into_dyn();
        assert_eq!(nonzero(mask.view()), [[0, 1], [1, 0], [1, 1]]);
    }
}
