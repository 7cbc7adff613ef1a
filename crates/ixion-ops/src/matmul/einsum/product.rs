//! The product of two factors as matrix products, if possible of the elements where they are.

use super::factor::{Axis, Factor, check_copy, len_of, row_major};
use super::labels::Label;
use crate::op::Result;
use crate::support::number::Number;
use ixion_kernels::parallel::for_each_chunk;
use ixion_kernels::widest;
use ixion_tensor::Limits;
use ndarray::{ArrayView2, ArrayViewMut2, ShapeBuilder};
use std::borrow::Cow;
use std::cmp::Reverse;

/// If a matrix product takes fewer multiplications, and axes that do not fit into it remain, factors are reordered first.
const FEW: usize = 1 << 12;

const LEFT: usize = 0;
const RIGHT: usize = 1;
const OUTPUT: usize = 2;

/// An axis, or several that were merged, and its strides in the left factor, the right factor and the output: 0 where it
/// is missing.
#[derive(Debug, Clone, Copy)]
struct Joint {
    label: Label,
    len: usize,
    strides: [usize; 3],
}

/// The axes of a product.
#[derive(Default)]
struct Roles {
    /// Those of both factors and the output.
    batch: Vec<Joint>,
    /// Those of the left factor and the output.
    rows: Vec<Joint>,
    /// Those of the right factor and the output.
    columns: Vec<Joint>,
    /// Those of both factors, which are summed over.
    inner: Vec<Joint>,
}

impl Roles {
    fn new<T: Number>(left: &Factor<'_, T>, right: &Factor<'_, T>, output: &[Axis]) -> Self {
        let mut roles = Self::default();
        for own in &left.axes {
            let other = right.axis(own.label);
            let result = output.iter().find(|axis| axis.label == own.label);
            let strides =
                [own.stride, other.map_or(0, |axis| axis.stride), result.map_or(0, |axis| axis.stride)];
            let joint = Joint { label: own.label, len: own.len, strides };
            match (other, result) {
                (Some(_), Some(_)) => roles.batch.push(joint),
                (Some(_), None) => roles.inner.push(joint),
                (None, _) => roles.rows.push(joint),
            }
        }
        for own in right.axes.iter().filter(|own| left.axis(own.label).is_none()) {
            let result = output.iter().find(|axis| axis.label == own.label);
            let strides = [0, own.stride, result.map_or(0, |axis| axis.stride)];
            roles.columns.push(Joint { label: own.label, len: own.len, strides });
        }
        roles
    }

    /// The labels of some of the axes, one after another.
    fn labels(groups: [&[Joint]; 3]) -> Vec<Label> {
        groups.into_iter().flatten().map(|joint| joint.label).collect()
    }
}

impl<'a, T: Number> Factor<'a, T> {
    /// The product with another factor, summed over the labels that are not needed.
    pub(super) fn times(
        self,
        other: Self,
        needed: &dyn Fn(&Label) -> bool,
        limits: &Limits,
    ) -> Result<Factor<'a, T>> {
        let further = other.axes.iter().filter(|axis| self.axis(axis.label).is_none());
        let kept = self.axes.iter().chain(further).filter(|axis| needed(&axis.label));
        let axes = row_major(kept.copied().collect());
        let labels: Vec<Label> = axes.iter().map(|axis| axis.label).collect();
        check_copy::<T>(len_of(&axes), limits)?;
        let mut product = vec![T::default(); len_of(&axes)];
        self.multiply(other, &labels, &mut product, limits)?;
        Ok(Factor { elements: Cow::Owned(product), axes })
    }

    /// Writes the product with another factor, in row-major order of these labels and summed over all others.
    pub(super) fn multiply(
        self,
        other: Self,
        labels: &[Label],
        output: &mut [T],
        limits: &Limits,
    ) -> Result<()> {
        let own: Vec<Label> = self.labels().collect();
        let left = self.summed(&|label| labels.contains(label) || other.axis(*label).is_some(), limits)?;
        let right = other.summed(&|label| labels.contains(label) || own.contains(label), limits)?;
        product(&left, &right, labels, output, limits)
    }
}

/// Writes the product of two factors in row-major order of these labels; labels of only one of them must be among these.
fn product<T: Number>(
    left: &Factor<'_, T>,
    right: &Factor<'_, T>,
    labels: &[Label],
    output: &mut [T],
    limits: &Limits,
) -> Result<()> {
    let find = |&label: &Label| left.axis(label).or_else(|| right.axis(label));
    let axes = row_major(labels.iter().filter_map(find).collect());
    if output.is_empty() {
        return Ok(());
    }
    let roles = Roles::new(left, right, &axes);
    if roles.inner.iter().any(|joint| joint.len == 0) {
        output.fill(T::default());
        return Ok(());
    }
    if [&roles.rows, &roles.columns, &roles.inner].into_iter().all(Vec::is_empty) {
        return multiply_each(left, right, labels, output, limits);
    }
    match Matrices::new(&roles, [&left.elements, &right.elements]) {
        Some(matrices) => matrices.multiply(output, limits),
        None => reordered_product(left, right, &roles, labels, output, limits),
    }
}

/// Multiplies pairs of elements: both factors have the axes of the output.
fn multiply_each<T: Number>(
    left: &Factor<'_, T>,
    right: &Factor<'_, T>,
    labels: &[Label],
    output: &mut [T],
    limits: &Limits,
) -> Result<()> {
    left.copy_to(labels, output)?;
    let right = right.in_order(labels, limits)?;
    widest!(|| output.iter_mut().zip(&*right).for_each(|(product, &b)| *product = T::times(*product, b)));
    Ok(())
}

/// The product of copies of the factors whose axes are in an order that makes them matrices.
fn reordered_product<T: Number>(
    left: &Factor<'_, T>,
    right: &Factor<'_, T>,
    roles: &Roles,
    labels: &[Label],
    output: &mut [T],
    limits: &Limits,
) -> Result<()> {
    let left = left.ordered(&Roles::labels([&roles.batch, &roles.rows, &roles.inner]), limits)?;
    let right = right.ordered(&Roles::labels([&roles.batch, &roles.inner, &roles.columns]), limits)?;
    let order = Roles::labels([&roles.batch, &roles.rows, &roles.columns]);
    // Labels of length 1 are in no factor.
    if labels.iter().filter(|label| order.contains(label)).eq(&order) {
        return product(&left, &right, &order, output, limits);
    }
    check_copy::<T>(output.len(), limits)?;
    let mut whole = vec![T::default(); output.len()];
    product(&left, &right, &order, &mut whole, limits)?;
    let lens = order.iter().filter_map(|&label| left.axis(label).or_else(|| right.axis(label)));
    let axes = row_major(lens.collect());
    Factor { elements: Cow::Owned(whole), axes }.copy_to(labels, output)
}

/// Takes out the axes that make the longest single axis of two of the arrays.
fn take_longest(axes: &mut Vec<Joint>, arrays: [usize; 2]) -> Option<Joint> {
    let chain = |&first: &Joint| {
        let (mut taken, mut len) = (vec![first.label], first.len);
        while let Some(next) = axes.iter().find(|next| {
            let follows = |&array: &usize| first.strides[array].checked_mul(len) == Some(next.strides[array]);
            !taken.contains(&next.label) && arrays.iter().all(follows)
        }) {
            taken.push(next.label);
            len *= next.len;
        }
        (Joint { len, ..first }, taken)
    };
    let (longest, taken) =
        axes.iter().map(chain).max_by_key(|(joint, _)| (joint.len, Reverse(joint.strides[arrays[0]])))?;
    axes.retain(|joint| !taken.contains(&joint.label));
    Some(longest)
}

/// How a product is divided into products of matrices.
struct Division {
    rows: Joint,
    columns: Joint,
    inner: Joint,
    /// The axes of the output that the matrices leave over, from the outermost to the innermost.
    outer: Vec<Joint>,
    /// The axes that the products of matrices are summed over.
    summed: Vec<Joint>,
}

impl Division {
    /// `None` if the matrices would be too small to be worth it.
    fn new(roles: &Roles) -> Option<Self> {
        let one = Joint { label: Label::Further(0), len: 1, strides: [1; 3] };
        let (mut rows, mut columns, mut summed) =
            (roles.rows.clone(), roles.columns.clone(), roles.inner.clone());
        let of_rows = take_longest(&mut rows, [LEFT, OUTPUT]).unwrap_or(one);
        let of_columns = take_longest(&mut columns, [RIGHT, OUTPUT]).unwrap_or(one);
        let inner = take_longest(&mut summed, [LEFT, RIGHT]).unwrap_or(one);
        let is_whole = rows.is_empty() && columns.is_empty() && summed.is_empty();
        let work = of_rows.len.saturating_mul(of_columns.len).saturating_mul(inner.len);
        if !is_whole && work < FEW {
            return None;
        }
        let mut outer = [roles.batch.as_slice(), &rows, &columns].concat();
        outer.sort_by_key(|joint| Reverse(joint.strides[OUTPUT]));
        Some(Self { rows: of_rows, columns: of_columns, inner, outer, summed })
    }
}

/// A matrix product for each index of some axes, with sums over the indices of others.
struct Matrices<'a, T> {
    elements: [&'a [T]; 2],
    division: Division,
}

impl<'a, T: Number> Matrices<'a, T> {
    /// As [`Division::new`].
    fn new(roles: &Roles, elements: [&'a [T]; 2]) -> Option<Self> {
        Division::new(roles).map(|division| Self { elements, division })
    }

    fn multiply(&self, output: &mut [T], limits: &Limits) -> Result<()> {
        self.parts(&self.division.outer, output, [0; 3], limits)
    }

    /// Writes a part of the output, given the position of its elements in the factors; threads share it as far as outer
    /// axes divide it.
    fn parts(&self, outer: &[Joint], output: &mut [T], starts: [usize; 3], limits: &Limits) -> Result<()> {
        if let Some((first, rest)) = outer.split_first() {
            let part = first.strides[OUTPUT];
            if part.saturating_mul(first.len) == output.len() {
                return for_each_chunk(output, part, &|start, output: &mut [T]| {
                    let at = [LEFT, RIGHT].map(|side| starts[side] + start / part * first.strides[side]);
                    self.parts(rest, output, [at[LEFT], at[RIGHT], 0], limits)
                });
            }
        }
        for index in 0..count(outer) {
            self.product(output, moved(outer, index, starts), limits)?;
        }
        Ok(())
    }

    /// Writes one matrix: a product, or a sum of products.
    fn product(&self, output: &mut [T], starts: [usize; 3], limits: &Limits) -> Result<()> {
        let Division { rows, columns, inner, summed, .. } = &self.division;
        let [m, n, k] = [rows.len, columns.len, inner.len];
        let side = |joint: &Joint, array: usize| joint.strides[array];
        for index in 0..count(summed) {
            limits.check_deadline()?;
            let [a, b, c] = moved(summed, index, starts);
            let [left, right] = self.elements;
            let left = left.get(a..).unwrap_or_default();
            let right = right.get(b..).unwrap_or_default();
            let a_shape = (m, k).strides((side(rows, LEFT), side(inner, LEFT)));
            let b_shape = (k, n).strides((side(inner, RIGHT), side(columns, RIGHT)));
            let c_shape = (m, n).strides((side(rows, OUTPUT), side(columns, OUTPUT)));
            let (left, right) =
                (ArrayView2::from_shape(a_shape, left)?, ArrayView2::from_shape(b_shape, right)?);
            let matrix = ArrayViewMut2::from_shape(c_shape, output.get_mut(c..).unwrap_or_default())?;
            if index == 0 {
                T::multiply(left, right, matrix);
            } else {
                T::add_product(left, right, matrix);
            }
        }
        Ok(())
    }
}

/// The number of indices of some axes.
fn count(axes: &[Joint]) -> usize {
    axes.iter().map(|joint| joint.len).product()
}

/// Positions in the three arrays, moved by an index of some axes.
fn moved(axes: &[Joint], index: usize, starts: [usize; 3]) -> [usize; 3] {
    let (mut rest, mut at) = (index, starts);
    for joint in axes.iter().rev() {
        let step = rest % joint.len.max(1);
        rest /= joint.len.max(1);
        at.iter_mut().zip(joint.strides).for_each(|(at, stride)| *at += step * stride);
    }
    at
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::support::testing::on_threads;
    use proptest::prelude::*;

    fn factor(letters: &[char], lens: &[usize; 5]) -> Factor<'static, f64> {
        let axis = |&letter: &char| Axis {
            label: Label::Letter(letter),
            len: lens[usize::from(letter as u8 - b'a')],
            stride: 1,
        };
        let axes = row_major(letters.iter().map(axis).collect());
        let elements = (0..len_of(&axes)).map(|i| ((i * 7 + 3) % 11) as f64 / 7.0 - 0.8).collect();
        Factor { elements: Cow::Owned(elements), axes }
    }

    /// The element at an index, of which each letter has its own.
    fn at(factor: &Factor<'_, f64>, index: &[usize; 5]) -> f64 {
        let place = factor.axes.iter().map(|axis| match axis.label {
            Label::Letter(letter) => index[usize::from(letter as u8 - b'a')] * axis.stride,
            Label::Further(_) => 0,
        });
        factor.elements[place.sum::<usize>()]
    }

    proptest! {
        #[test]
        fn products_are_those_of_the_definition(
            lens in proptest::array::uniform5(prop_oneof![6 => 2usize..5, 1 => Just(0usize), 1 => Just(20usize)]),
            left in proptest::sample::subsequence(vec!['a', 'b', 'c', 'd', 'e'], 0..=4).prop_shuffle(),
            right in proptest::sample::subsequence(vec!['a', 'b', 'c', 'd', 'e'], 0..=4).prop_shuffle(),
            output in proptest::sample::subsequence(vec!['a', 'b', 'c', 'd', 'e'], 0..=4).prop_shuffle(),
        ) {
            let known = |letter: &char| left.contains(letter) || right.contains(letter);
            let output: Vec<char> = output.into_iter().filter(known).collect();
            let labels: Vec<Label> = output.iter().map(|&letter| Label::Letter(letter)).collect();
            let (a, b) = (factor(&left, &lens), factor(&right, &lens));
            let result = factor(&output, &lens);
            let mut want = vec![0.0; result.elements.len()];
            let all: Vec<usize> = (0..5).filter(|&i| known(&char::from(b'a' + i as u8))).collect();
            for number in 0..all.iter().map(|&i| lens[i]).product::<usize>() {
                let (mut rest, mut index) = (number, [0; 5]);
                for &i in &all {
                    index[i] = rest % lens[i];
                    rest /= lens[i];
                }
                let place: usize = result
                    .axes
                    .iter()
                    .zip(&output)
                    .map(|(axis, &letter)| index[usize::from(letter as u8 - b'a')] * axis.stride)
                    .sum();
                want[place] += at(&a, &index) * at(&b, &index);
            }
            let mut got = vec![7.0; want.len()];
            a.multiply(b, &labels, &mut got, &Limits::default()).unwrap();
            for (got, want) in got.iter().zip(&want) {
                prop_assert!((got - want).abs() <= 1e-9 * (1.0 + want.abs()), "{} where {} is expected", got, want);
            }
        }
    }

    #[test]
    fn threads_change_no_bit() {
        let lens = [6, 3, 40, 25, 30];
        let run = || {
            let (a, b) = (factor(&['a', 'b', 'c', 'd'], &lens), factor(&['b', 'd', 'e'], &lens));
            let labels = ['a', 'c', 'e'].map(Label::Letter);
            let mut output = vec![0.0; 6 * 40 * 30];
            a.multiply(b, &labels, &mut output, &Limits::default()).unwrap();
            output
        };
        let (alone, pooled) = on_threads(&[1, 2, 3], run);
        assert!(pooled.iter().all(|output| *output == alone));
    }
}
