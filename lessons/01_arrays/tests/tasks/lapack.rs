//! The same tasks, compared with LAPACK, an independent implementation: `cargo test -p lesson01 --features linalg`.

#![cfg(feature = "linalg")]

use super::super::subject::{norm, solve};
use super::noise;
use approx::relative_eq;
use ndarray::{Array2, Axis, array};
use ndarray_linalg::{OperationNorm, Solve};

#[test]
fn task4_lapack_measures_the_same() {
    for (n, seed) in [(1, 1), (2, 9), (7, 4), (100, 2)] {
        let row = noise(n, 1, seed).column(0).to_owned();
        let column = row.clone().insert_axis(Axis(1));
        let (one, two, largest) = (column.opnorm_one(), column.opnorm_fro(), column.opnorm_inf());
        for (p, want) in [(1.0, one), (2.0, two), (f64::INFINITY, largest)] {
            let (got, want) = (norm(row.view(), p), want.unwrap());
            assert!(
                relative_eq!(got, want, max_relative = 1e-12),
                "the {p}-norm of {row} is {want}, not {got}"
            );
        }
    }
}

#[test]
fn task5_lapack_solves_the_same() {
    for n in [1, 2, 3, 5, 8, 20] {
        let a = noise(n, n, n) + Array2::<f64>::eye(n) / 3.0;
        let b = noise(n, 1, n + 4).column(0).to_owned();
        let (got, want) = (solve(a.view(), b.view()).unwrap(), a.solve(&b).unwrap());
        let hint = "both swap up the largest coefficient, so they differ only by rounding";
        assert!(
            relative_eq!(got, want, epsilon = 1e-9, max_relative = 1e-9),
            "{hint}\n got {got}\nwant {want}"
        );
    }
}

#[test]
fn task5_lapack_finds_the_same_matrices_singular() {
    let singular = array![[0.0, 2.0, 1.0], [0.0, 4.0, 2.0], [0.0, 1.0, 8.0]];
    let b = array![1.0, 2.0, 3.0];
    assert!(singular.solve(&b).is_err() && solve(singular.view(), b.view()).is_none(), "{singular}");
}
