//! Pairs of numbers for each anchor and each position of a map.

use crate::op::{Result, RuntimeAttribute};
use ixion_tensor::DType;

/// Pairs of numbers for each anchor, row and column, A×H×W×2. An axis of length 1 applies to all.
#[derive(Debug)]
pub(super) struct Table {
    lens: [usize; 3],
    values: Vec<f64>,
}

impl Table {
    /// The elements of a constant 1×A×H×W×2.
    pub(super) fn of_map(constant: &RuntimeAttribute) -> Result<Self> {
        let lens = match *constant.shape() {
            [_, anchors, rows, columns, _] => [anchors, rows, columns],
            _ => [1; 3],
        };
        Ok(Self { lens, values: read(constant)? })
    }

    /// The elements of a buffer with A pairs for each map, times a factor.
    pub(super) fn of_buffer(
        buffer: &RuntimeAttribute,
        map: usize,
        count: usize,
        factor: f64,
    ) -> Result<Self> {
        let values = read(buffer)?.into_iter().skip(2 * count * map).take(2 * count);
        Ok(Self { lens: [count, 1, 1], values: values.map(|value| value * factor).collect() })
    }

    /// All anchors, rows and columns.
    pub(super) fn places([anchors, rows, columns]: [usize; 3]) -> impl Iterator<Item = [usize; 3]> {
        let of_row = move |anchor: usize, y: usize| (0..columns).map(move |x| [anchor, y, x]);
        let of_anchor = move |anchor: usize| (0..rows).flat_map(move |y| of_row(anchor, y));
        (0..anchors).flat_map(of_anchor)
    }

    /// The pair of an anchor at a row and a column.
    pub(super) fn at(&self, place: [usize; 3]) -> [f64; 2] {
        let along = self.lens.iter().zip(place);
        let index = along.fold(0, |index, (&len, at)| index * len + at.min(len.saturating_sub(1)));
        match self.values.get(2 * index..) {
            Some(&[x, y, ..]) => [x, y],
            _ => [f64::NAN; 2],
        }
    }

    /// The first number, 0 or −½, if this is a grid: the pairs are that number plus column and row. Half precision may have
    /// rounded them.
    pub(super) fn start(&self, lens: [usize; 3]) -> Option<f64> {
        let start = self.at([0; 3])[0];
        let is_near = |(found, wanted): (f64, f64)| (found - wanted).abs() <= 0.01 * (1.0 + wanted.abs());
        let is_regular = |place: [usize; 3]| {
            let wanted = [place[2], place[1]].map(|index| start + index as f64);
            self.at(place).into_iter().zip(wanted).all(is_near)
        };
        let is_grid = (start == 0.0 || start == -0.5) && Self::places(lens).all(is_regular);
        is_grid.then_some(start)
    }
}

fn read(attribute: &RuntimeAttribute) -> Result<Vec<f64>> {
    Ok(attribute.load()?.cast(DType::F64)?.to_vec()?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use ixion_tensor::Tensor;

    fn constant(shape: &[usize], values: Vec<f32>) -> RuntimeAttribute {
        RuntimeAttribute::from_tensor(Tensor::from_vec(values, shape).unwrap())
    }

    #[test]
    fn grids_are_recognised() {
        let grid = |start: f32| {
            let values = Table::places([1, 2, 3]).flat_map(|[_, y, x]| [start + x as f32, start + y as f32]);
            constant(&[1, 1, 2, 3, 2], values.collect())
        };
        let start = |constant: &RuntimeAttribute| Table::of_map(constant).unwrap().start([2, 2, 3]);
        assert_eq!([0.0, -0.5, 1.0].map(|first| start(&grid(first))), [Some(0.0), Some(-0.5), None]);
        assert_eq!(start(&constant(&[1, 2, 1, 1, 2], vec![10.0, 13.0, 16.0, 30.0])), None);
        assert_eq!(start(&constant(&[1, 1, 1, 1, 2], vec![0.0, 0.0])), None);
        let one =
            |values: Vec<f32>| Table::of_map(&constant(&[1, 1, 1, 1, 2], values)).unwrap().start([3, 1, 1]);
        assert_eq!([one(vec![-0.5, -0.5]), one(vec![-0.5, 0.5])], [Some(-0.5), None]);
    }

    #[test]
    fn axes_of_length_1_apply_to_all() {
        let anchors = constant(&[2, 2, 2], (0..8).map(|value| value as f32).collect());
        let table = Table::of_buffer(&anchors, 1, 2, 8.0).unwrap();
        assert_eq!([table.at([0, 5, 6]), table.at([1, 0, 0])], [[32.0, 40.0], [48.0, 56.0]]);
        let missing = Table::of_buffer(&anchors, 2, 2, 8.0).unwrap();
        assert!(missing.at([0; 3])[0].is_nan());
    }
}
