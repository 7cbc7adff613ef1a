use super::*;
use crate::elementwise::ApplyEpilogue;
use crate::isa::Isa;
use crate::parallel::tests::on_threads;
use ixion_tensor::bf16;
use proptest::prelude::*;

/// All combinations of an instruction set and a packing that this processor supports.
fn kinds() -> impl Iterator<Item = (Isa, Packing)> {
    let pairs = Packing::Bf16Pairs.are_supported().then_some((Isa::Avx512, Packing::Bf16Pairs));
    Isa::supported().map(|isa| (isa, Packing::F32)).chain(pairs)
}

/// A product, and the layout of its operands. Lengths and distances are in words.
#[derive(Debug, Clone)]
struct Case {
    outputs: usize,
    size: Size,
    pieces: Vec<usize>,
    piece: usize,
    last: (usize, usize),
    row: usize,
    /// Whether results have a blocked channel layout, instead of being rows of a matrix.
    is_blocked: bool,
    bounds: [f32; 2],
    is_added: bool,
    is_finished: bool,
}

/// Integers, whose sums are exact in any order.
fn number(index: usize, seed: usize) -> f32 {
    ((index * 7 + index / 3 + seed) % 9) as f32 - 4.0
}

#[derive(Debug)]
struct Double;

impl ApplyEpilogue<f32> for Double {
    fn apply(&self, start: usize, piece: &mut [f32]) -> ixion_tensor::Result<()> {
        piece.iter_mut().enumerate().for_each(|(index, y)| *y = *y * 2.0 + ((start + index) % 5) as f32);
        Ok(())
    }
}

impl Case {
    fn depth(&self) -> usize {
        (self.pieces.len() - self.last.0) * self.piece + self.last.0 * self.last.1
    }

    fn line(&self) -> usize {
        self.row * self.size.rows + 3
    }

    /// The values of all words of factors.
    fn data(&self, packing: Packing) -> Vec<f32> {
        let reach = self.pieces.iter().max().unwrap() + self.piece.max(self.last.1);
        let len = (self.line() * self.size.lines + reach) * packing.numbers();
        (0..len).map(|index| number(index, 1)).collect()
    }

    /// The offsets of the words of a row.
    fn row_places(&self) -> impl Iterator<Item = usize> {
        let whole = self.pieces.len() - self.last.0;
        self.pieces.iter().enumerate().flat_map(move |(index, &start)| {
            let len = if index < whole { self.piece } else { self.last.1 };
            (0..len).map(move |k| start + k)
        })
    }

    fn weight(&self, output: usize, k: usize) -> f32 {
        number(output * self.depth() + k, 2)
    }

    fn panels(&self, (isa, packing): (Isa, Packing)) -> Panels {
        let (weight, bias) = (|o: usize, k: usize| self.weight(o, k), |o: usize| number(o, 3));
        match packing {
            Packing::F32 => Panels::for_isa(isa, self.outputs, self.depth(), weight, bias),
            Packing::Bf16Pairs => Panels::pairs(self.outputs, 2 * self.depth(), weight, bias),
        }
    }

    /// The position at which the result of a row and an output is stored.
    fn place(&self, lanes: usize, line: usize, row: usize, output: usize) -> usize {
        let (rows, count) = (self.size.rows * self.size.lines, self.outputs);
        let index = line * self.size.rows + row;
        if self.is_blocked {
            (output / lanes * rows + index) * lanes + output % lanes
        } else {
            index * count + output
        }
    }

    fn target(&self, lanes: usize) -> (Target, usize) {
        let (rows, count) = (self.size.rows * self.size.lines, self.outputs.div_ceil(lanes));
        match self.is_blocked {
            true => {
                let target =
                    Target { row: lanes, line: lanes * self.size.rows, panel: rows * lanes, last: lanes };
                (target, count * rows * lanes)
            }
            false => {
                let last = self.outputs - (count - 1) * lanes;
                let target =
                    Target { row: self.outputs, line: self.outputs * self.size.rows, panel: lanes, last };
                (target, rows * self.outputs)
            }
        }
    }

    fn run(&self, kind: (Isa, Packing)) -> Vec<f32> {
        let panels = self.panels(kind);
        let (target, len) = self.target(panels.lanes());
        let added: Vec<f32> = (0..len).map(|index| number(index, 4)).collect();
        let epilogue = SumEpilogue {
            bounds: self.bounds,
            added: self.is_added.then_some(&added),
            elementwise: self.is_finished.then_some(&Double),
            first: 1,
        };
        let mut data = self.data(kind.1);
        if kind.1 == Packing::Bf16Pairs {
            let mut words = vec![f32::NAN; data.len() / 2];
            round(&data, &mut words);
            data = words;
        }
        let factors = Factors {
            data: &data,
            pieces: &self.pieces,
            piece: self.piece,
            last: self.last,
            row: self.row,
            line: self.line(),
        };
        let mut output = vec![f32::NAN; len];
        multiply(&panels, &factors, self.size, (&mut output, target), &epilogue, &Limits::default()).unwrap();
        output
    }

    /// The results, computed one after the other.
    fn naive(&self, lanes: usize, packing: Packing) -> Vec<(usize, f32)> {
        let (data, mut results, numbers) = (self.data(packing), Vec::new(), packing.numbers());
        for line in 0..self.size.lines {
            for row in 0..self.size.rows {
                for output in 0..self.outputs {
                    let place = self.place(lanes, line, row, output);
                    let mut sum = number(output, 3);
                    let first = line * self.line() + row * self.row;
                    let places = self.row_places().flat_map(|from| (0..numbers).map(move |i| (from, i)));
                    for (k, (from, i)) in places.enumerate() {
                        sum += data[(first + from) * numbers + i] * self.weight(output, k);
                    }
                    if self.is_added {
                        sum += number(place, 4);
                    }
                    let mut result = [sum.max(self.bounds[0]).min(self.bounds[1])];
                    if self.is_finished {
                        Double.apply(place + 1, &mut result).unwrap();
                    }
                    results.push((place, result[0]));
                }
            }
        }
        results
    }
}

fn cases() -> impl Strategy<Value = Case> {
    let pieces = proptest::collection::vec(0usize..200, 1..6);
    let bounds =
        prop::sample::select(vec![[f32::NEG_INFINITY, f32::INFINITY], [0.0, f32::INFINITY], [0.0, 6.0]]);
    let size =
        (1usize..4, prop_oneof![1usize..20, Just(40usize)]).prop_map(|(lines, rows)| Size { lines, rows });
    (
        (1usize..150, size, pieces, 1usize..20, (0usize..3, 0usize..20), 0usize..20),
        (any::<[bool; 3]>(), bounds),
    )
        .prop_map(
            |(
                (outputs, size, pieces, piece, (shorter, last), row),
                ([is_blocked, is_added, is_finished], bounds),
            )| Case {
                outputs,
                size,
                piece,
                last: (shorter.min(pieces.len()), last),
                pieces,
                row,
                is_blocked,
                bounds,
                is_added,
                is_finished,
            },
        )
}

/// Cases whose sums are long enough to be computed in parts.
fn long_cases() -> impl Strategy<Value = Case> {
    (cases(), proptest::collection::vec(0usize..200, 8..20), 10usize..40)
        .prop_map(|(case, pieces, piece)| Case { pieces, piece, ..case })
}

/// Cases whose rows are too long to be multiplied in one depth segment.
fn deep_cases() -> impl Strategy<Value = Case> {
    (cases(), 1000usize..2600).prop_map(|(case, depth)| Case {
        pieces: vec![case.pieces[0]],
        piece: depth,
        last: (0, 0),
        size: Size { lines: case.size.lines, rows: case.size.rows.min(17) },
        outputs: case.outputs.min(70),
        ..case
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]
    #[test]
    fn it_equals_the_naive_product(case in prop_oneof![4 => cases(), 1 => long_cases(), 1 => deep_cases()]) {
        for kind in kinds() {
            let got = case.run(kind);
            for (place, want) in case.naive(kind.0.lanes(), kind.1) {
                prop_assert_eq!(got[place], want, "{:?} at {}", kind, place);
            }
        }
    }

}

/// Each number of rows with each number of panels that may be left.
#[test]
fn every_tile_equals_the_naive_product() {
    for kind in kinds() {
        for (panels, rows) in (1..10).flat_map(|panels| (1..16).map(move |rows| (panels, rows))) {
            let case = Case {
                outputs: panels * kind.0.lanes() - 3,
                size: Size { lines: 2, rows },
                pieces: vec![5, 0],
                piece: 7,
                last: (1, 4),
                row: 3,
                is_blocked: true,
                bounds: [-40.0, 40.0],
                is_added: true,
                is_finished: false,
            };
            let got = case.run(kind);
            for (place, want) in case.naive(kind.0.lanes(), kind.1) {
                assert_eq!(got[place], want, "{kind:?}: {panels} panels of {rows} rows at {place}");
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]
    #[test]
    fn threads_change_no_bit(outputs in 1usize..150, lines in 1usize..6, rows in 1usize..40, depth in 100usize..300, is_blocked: bool) {
        let case = Case {
            outputs,
            size: Size { lines, rows },
            pieces: vec![0],
            piece: depth,
            last: (0, 0),
            row: depth,
            is_blocked,
            bounds: [f32::NEG_INFINITY, f32::INFINITY],
            is_added: false,
            is_finished: true,
        };
        for kind in kinds() {
            let (alone, pooled) = on_threads(&[1, 2, 3], || case.run(kind));
            prop_assert!(pooled.iter().all(|got| *got == alone), "{:?}", kind);
        }
    }
}

/// The error of a long sum is that of two short ones: the products of a part, and the parts.
#[test]
fn long_sums_are_added_in_parts() {
    const DEPTH: usize = 4096;
    let data = vec![0.1; DEPTH];
    let exact = f64::from(0.1f32) * DEPTH as f64;
    let bound = (TERMS + DEPTH / TERMS) as f64 * f64::from(f32::EPSILON) / 2.0 * exact;
    let places: Vec<usize> = (0..DEPTH).step_by(16).collect();
    for isa in Isa::supported() {
        let panels = Panels::for_isa(isa, 1, DEPTH, |_, _| 1.0, |_| 0.0);
        for (pieces, piece) in [(&places[..], 16), (&[0][..], DEPTH)] {
            let factors = Factors { data: &data, pieces, piece, last: (0, 0), row: 0, line: 0 };
            let target = Target { row: 1, line: 1, panel: panels.lanes(), last: 1 };
            let (size, mut output) = (Size { lines: 1, rows: 1 }, [f32::NAN]);
            let output_target = (&mut output[..], target);
            multiply(&panels, &factors, size, output_target, &SumEpilogue::NONE, &Limits::default()).unwrap();
            let error = (f64::from(output[0]) - exact).abs();
            assert!(error <= bound, "{isa:?}, pieces of {piece}: {error}, expected at most {bound}");
        }
    }
}

/// The products of a range of rows with 70 outputs.
fn rows_of_seventy(panels: &Panels, data: &[f32], rows: std::ops::Range<usize>) -> Vec<f32> {
    let depth = panels.depth();
    let data = &data[rows.start * depth..];
    let factors = Factors { data, pieces: &[0], piece: depth, last: (0, 0), row: depth, line: 0 };
    let last = 70 - (panels.count() - 1) * panels.lanes();
    let target = Target { row: 70, line: 0, panel: panels.lanes(), last };
    let (size, mut output) = (Size { lines: 1, rows: rows.len() }, vec![0.0; rows.len() * 70]);
    multiply(panels, &factors, size, (&mut output, target), &SumEpilogue::NONE, &Limits::default()).unwrap();
    output
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]
    #[test]
    fn pairs_are_as_exact_as_their_rounded_factors(
        depth in 1usize..900, seed in 0usize..1000,
    ) {
        if !Packing::Bf16Pairs.are_supported() {
            return Ok(());
        }
        let rounded = |index: usize| bf16::from_f32(rough(index + seed));
        let panels = Panels::pairs(5, depth, |o, k| rough(o * depth + k + seed), |_| 0.25);
        let row: Vec<f32> = (0..depth).map(|k| rough(7 * k + seed)).collect();
        let mut words = vec![0.0; Packing::Bf16Pairs.count(depth)];
        round(&row, &mut words);
        let (piece, size) = (words.len(), Size { lines: 1, rows: 1 });
        let factors = Factors { data: &words, pieces: &[0], piece, last: (0, 0), row: 0, line: 0 };
        let (target, mut output) = (Target { row: 5, line: 0, panel: 16, last: 5 }, [0.0; 5]);
        multiply(&panels, &factors, size, (&mut output, target), &SumEpilogue::NONE, &Limits::default()).unwrap();
        for (o, got) in output.into_iter().enumerate() {
            let product = |k: usize| f64::from(rounded(7 * k)) * f64::from(rounded(o * depth + k));
            let (sum, size) = (0..depth).map(product).fold((0.25, 0.25), |(sum, size), x| (sum + x, size + x.abs()));
            let error = (f64::from(got) - sum).abs();
            prop_assert!(error <= size * 2f64.powi(-24) * depth as f64, "{} for {}", got, sum);
        }
    }
}

/// Values whose sums are rounded, so that a different order of summation shows.
fn rough(index: usize) -> f32 {
    (index * 37 % 101) as f32 / 7.3 - 6.1
}

#[test]
fn results_do_not_depend_on_their_position() {
    for ((isa, packing), depth) in kinds().flat_map(|kind| [(kind, 55), (kind, 2500)]) {
        let weight = |o: usize, k: usize| rough(o * depth + k);
        let panels = match packing {
            Packing::F32 => Panels::for_isa(isa, 70, depth, weight, |_| 0.1),
            Packing::Bf16Pairs => Panels::pairs(70, 2 * depth, weight, |_| 0.1),
        };
        let mut data: Vec<f32> = (0..30 * depth * packing.numbers()).map(rough).collect();
        if packing == Packing::Bf16Pairs {
            let mut rounded = vec![0.0; data.len() / 2];
            round(&data, &mut rounded);
            data = rounded;
        }
        let all = rows_of_seventy(&panels, &data, 0..30);
        for (first, rows) in [(0, 1), (3, 7), (11, 14), (29, 1), (13, 17)] {
            let got = rows_of_seventy(&panels, &data, first..first + rows);
            assert_eq!(got, all[first * 70..][..rows * 70], "{isa:?} {packing:?}");
        }
    }
}

#[test]
fn products_of_a_part_are_added_one_after_the_other() {
    for (isa, depth) in Isa::supported().flat_map(|isa| [(isa, 55), (isa, 1000)]) {
        let panels = Panels::for_isa(isa, 70, depth, |o, k| rough(o * depth + k), |_| 0.1);
        let data: Vec<f32> = (0..2 * depth).map(rough).collect();
        let got = rows_of_seventy(&panels, &data, 0..2);
        for (index, got) in got.into_iter().enumerate() {
            let (row, output) = (index / 70, index % 70);
            let part = |first: usize| {
                (first..depth.min(first + TERMS)).fold(0.0, |sum: f32, k| {
                    let (a, b) = (data[row * depth + k], rough(output * depth + k));
                    if isa == Isa::Scalar { sum + a * b } else { a.mul_add(b, sum) }
                })
            };
            let want = (0..depth).step_by(TERMS).map(part).fold(0.0, |sum, part| sum + part) + 0.1;
            assert_eq!(got, want, "{isa:?}");
        }
    }
}

#[test]
fn nan_stays_nan() {
    for isa in Isa::supported() {
        let panels = Panels::for_isa(isa, 3, 1, |o, _| [1.0, f32::NAN, f32::INFINITY][o], |_| 0.0);
        let factors = Factors { data: &[2.0], pieces: &[0], piece: 1, last: (0, 0), row: 0, line: 0 };
        let target = Target { row: 3, line: 0, panel: 0, last: 3 };
        let epilogue = SumEpilogue { bounds: [0.0, 6.0], ..SumEpilogue::NONE };
        let mut output = [9.0; 3];
        let size = Size { lines: 1, rows: 1 };
        multiply(&panels, &factors, size, (&mut output, target), &epilogue, &Limits::default()).unwrap();
        assert!(output[0] == 2.0 && output[1].is_nan() && output[2] == 6.0, "{isa:?}: {output:?}");
    }
}

#[test]
fn without_factors_the_result_is_the_bias() {
    for isa in Isa::supported() {
        let panels = Panels::for_isa(isa, 5, 0, |_, _| 1.0, |o| o as f32);
        let factors = Factors { data: &[], pieces: &[], piece: 0, last: (0, 0), row: 0, line: 0 };
        let target = Target { row: 5, line: 0, panel: panels.lanes(), last: 5 };
        let (size, mut output) = (Size { lines: 1, rows: 2 }, [9.0; 10]);
        multiply(&panels, &factors, size, (&mut output, target), &SumEpilogue::NONE, &Limits::default())
            .unwrap();
        assert_eq!(output, [0.0, 1.0, 2.0, 3.0, 4.0, 0.0, 1.0, 2.0, 3.0, 4.0]);
    }
}

#[test]
#[should_panic(expected = "too few factors")]
fn factors_beyond_the_data_are_rejected() {
    multiply_four(&[0.0; 8], 4);
}

#[test]
#[should_panic(expected = "results overlap")]
fn overlapping_results_are_rejected() {
    multiply_four(&[0.0; 9], 3);
}

/// Multiplies three rows of three factors with four outputs; output rows are `row` elements apart.
fn multiply_four(data: &[f32], row: usize) {
    let panels = Panels::new(4, 3, |_, _| 1.0, |_| 0.0);
    let factors = Factors { data, pieces: &[0], piece: 3, last: (0, 0), row: 3, line: 0 };
    let target = Target { row, line: 0, panel: 16, last: 4 };
    let size = Size { lines: 1, rows: 3 };
    let _ =
        multiply(&panels, &factors, size, (&mut [0.0; 12], target), &SumEpilogue::NONE, &Limits::default());
}
