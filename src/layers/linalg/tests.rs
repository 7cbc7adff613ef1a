use crate::layers::testing::{assert_close, operator, tensor};
use crate::tensor::{Complex, Tensor};

const BY_SUBSTITUTION: [&str; 3] = ["aten::cholesky_inverse", "aten::matrix_exp", "aten::linalg_matrix_exp"];

const BY_LAPACK: [&str; 18] = [
    "aten::linalg_det",
    "aten::linalg_slogdet",
    "aten::logdet",
    "aten::linalg_inv",
    "aten::linalg_inv_ex",
    "aten::linalg_tensorinv",
    "aten::linalg_cholesky",
    "aten::linalg_cholesky_ex",
    "aten::linalg_qr",
    "aten::linalg_svd",
    "aten::svd",
    "aten::linalg_svdvals",
    "aten::linalg_eigh",
    "aten::linalg_eig",
    "aten::linalg_matrix_rank",
    "aten::linalg_pinv",
    "aten::linalg_cond",
    "aten::nuclear_norm",
];

fn matrix() -> Tensor {
    tensor(&[2, 2], &[2.0, 1.0, 1.0, 3.0])
}

#[test]
fn triangles() {
    let (a, b) = (tensor(&[2, 2], &[2.0, 9.0, 1.0, 4.0]), tensor(&[2, 1], &[4.0, 6.0]));
    let upper = [("upper", "True")];
    let x = operator("aten::linalg_solve_triangular", &upper).run_one(&[&a, &b]).unwrap();
    assert_close(&x, &[2, 1], &[-4.75, 1.5]);
    let x = operator("aten::linalg_solve_triangular", &[("upper", "False")]).run_one(&[&a, &b]).unwrap();
    assert_close(&x, &[2, 1], &[2.0, 1.0]);
    let params = [("upper", "False"), ("unitriangular", "True"), ("transpose", "True")];
    let both = operator("aten::triangular_solve", &params).with_outputs(2).run(&[&b, &a]).unwrap();
    assert_close(&both[0], &[2, 1], &[-2.0, 6.0]);
    assert_eq!(both[1], a);
    let right = [("upper", "False"), ("left", "False")];
    let row = tensor(&[1, 2], &[4.0, 8.0]);
    let x = operator("aten::linalg_solve_triangular", &right).run_one(&[&a, &row]).unwrap();
    assert_close(&x, &[1, 2], &[1.0, 2.0]);
}

#[test]
fn factors() {
    // 2, 0; 1, 3 times its transpose is 4, 2; 2, 10.
    let (factor, b) = (tensor(&[2, 2], &[2.0, 7.0, 1.0, 3.0]), tensor(&[2, 1], &[8.0, 22.0]));
    let x = operator("aten::cholesky_solve", &[]).run_one(&[&b, &factor]).unwrap();
    assert_close(&x, &[2, 1], &[1.0, 2.0]);
    let inverse = operator("aten::cholesky_inverse", &[]).run_one(&[&factor]).unwrap();
    assert_close(&inverse, &[2, 2], &[10.0 / 36.0, -2.0 / 36.0, -2.0 / 36.0, 4.0 / 36.0]);
    let i = Complex::new(0.0f64, 1.0);
    let (factor, b) = (tensor(&[1, 1], &[i * 2.0]), tensor(&[1, 1], &[i * 4.0]));
    let x = operator("aten::cholesky_solve", &[("upper", "True")]).run_one(&[&b, &factor]).unwrap();
    assert_eq!(x.to_vec::<Complex<f64>>().unwrap(), [i]);
}

#[test]
fn powers() {
    let power = |n| operator("aten::matrix_power", &[("n", n)]).run_one(&[&matrix()]);
    assert_close(&power("3").unwrap(), &[2, 2], &[15.0, 20.0, 20.0, 35.0]);
    assert_close(&power("0").unwrap(), &[2, 2], &[1.0, 0.0, 0.0, 1.0]);
    let inverse = power("-1");
    assert_eq!(inverse.is_ok(), cfg!(feature = "linalg"));
    inverse.iter().for_each(|inverse| assert_close(inverse, &[2, 2], &[0.6, -0.2, -0.2, 0.4]));
}

#[cfg(not(feature = "linalg"))]
#[test]
fn without_lapack_layers_say_how_to_get_it() {
    for op_type in BY_LAPACK {
        let error = operator(op_type, &[]).run(&[&matrix()]).unwrap_err().to_string();
        assert!(
            error.contains("without the feature `linalg`") && error.contains("--features linalg"),
            "{error}"
        );
    }
}

#[cfg(feature = "linalg")]
mod with_lapack {
    use super::*;
    use crate::layers::testing::Operator;

    fn of_two<'a>(op_type: &'a str, params: &[(&'a str, &'a str)]) -> Operator<'a> {
        operator(op_type, params).with_outputs(2)
    }

    #[test]
    fn determinants() {
        let run = |op_type| operator(op_type, &[]).run_one(&[&matrix()]).unwrap();
        assert_close(&run("aten::linalg_det"), &[], &[5.0]);
        assert_close(&run("aten::logdet"), &[], &[5f64.ln()]);
        let singular = tensor(&[2, 2, 2], &[1.0, 2.0, 2.0, 4.0, 0.0, 1.0, 1.0, 0.0]);
        let parts = of_two("aten::slogdet", &[]).run(&[&singular]).unwrap();
        assert_close(&parts[0], &[2], &[0.0, -1.0]);
        assert_close(&parts[1], &[2], &[f64::NEG_INFINITY, 0.0]);
        assert_close(
            &operator("aten::logdet", &[]).run_one(&[&singular]).unwrap(),
            &[2],
            &[f64::NEG_INFINITY, f64::NAN],
        );
    }

    #[test]
    fn singular_matrices() {
        let singular = tensor(&[2, 2], &[1.0, 2.0, 2.0, 4.0]);
        let error = operator("aten::linalg_inv", &[]).run(&[&singular]).unwrap_err().to_string();
        assert!(error.contains("singular") && error.contains("element 2"), "{error}");
        let pair = of_two("aten::linalg_inv_ex", &[]).run(&[&singular]).unwrap();
        assert_close(&pair[0], &[2, 2], &[f64::NAN; 4]);
        assert_eq!(pair[1].to_vec::<i32>().unwrap(), [2]);
        assert!(of_two("aten::linalg_inv_ex", &[("check_errors", "True")]).run(&[&singular]).is_err());
        let b = tensor(&[2], &[1.0, 1.0]);
        assert!(operator("aten::linalg_solve", &[]).run(&[&singular, &b]).is_err());
        let cond = |p| operator("aten::linalg_cond", &[("p", p)]).run_one(&[&singular]).unwrap();
        assert_close(&cond("1"), &[], &[f64::INFINITY]);
        let error = operator("aten::linalg_cholesky", &[]).run(&[&singular]).unwrap_err().to_string();
        assert!(error.contains("not positive definite"), "{error}");
    }

    #[test]
    fn what_is_not_a_number_is_refused() {
        let nan = tensor(&[2, 2], &[f64::NAN, 0.0, 0.0, 1.0]);
        for op_type in ["aten::linalg_svdvals", "aten::linalg_eigvalsh", "aten::linalg_eigvals"] {
            let error = operator(op_type, &[]).run(&[&nan]).unwrap_err().to_string();
            assert!(error.contains("NaN"), "{error}");
        }
    }

    #[test]
    fn vectors_and_matrices_on_the_right() {
        let b = tensor(&[2], &[4.0, 7.0]);
        let x = operator("aten::linalg_solve", &[]).run_one(&[&matrix(), &b]).unwrap();
        assert_close(&x, &[2], &[1.0, 2.0]);
        let x =
            operator("aten::linalg_solve", &[("left", "False")]).run_one(&[&matrix(), &matrix()]).unwrap();
        assert_close(&x, &[2, 2], &[1.0, 0.0, 0.0, 1.0]);
        let many = tensor(&[3, 2, 1], &[4.0, 7.0, 3.0, 4.0, 0.0, 0.0]);
        let x = operator("aten::linalg_solve", &[]).run_one(&[&matrix(), &many]).unwrap();
        assert_close(&x, &[3, 2, 1], &[1.0, 2.0, 1.0, 1.0, 0.0, 0.0]);
    }

    #[test]
    fn the_nearest() {
        let (a, b) = (tensor(&[3, 1], &[1.0, 1.0, 1.0]), tensor(&[3, 1], &[1.0, 2.0, 6.0]));
        let found =
            operator("aten::linalg_lstsq", &[("driver", "gelsd")]).with_outputs(4).run(&[&a, &b]).unwrap();
        assert_close(&found[0], &[1, 1], &[3.0]);
        assert_close(&found[1], &[1], &[14.0]);
        assert_eq!(found[2].to_vec::<i64>().unwrap(), [1]);
        assert_close(&found[3], &[1], &[3f64.sqrt()]);
    }
}

#[test]
fn odd_inputs() {
    BY_SUBSTITUTION.iter().chain(&BY_LAPACK).for_each(|op_type| operator(op_type, &[]).survives(1));
    for op_type in [
        "aten::linalg_solve",
        "aten::linalg_solve_ex",
        "aten::linalg_lstsq",
        "aten::cholesky_solve",
        "aten::linalg_tensorsolve",
    ] {
        operator(op_type, &[]).survives(2);
    }
    operator("aten::triangular_solve", &[]).survives(2);
    operator("aten::linalg_solve_triangular", &[("upper", "True")]).survives(2);
    operator("aten::linalg_qr", &[("mode", "complete")]).survives(1);
    operator("aten::matrix_power", &[("n", "-2")]).survives(1);
    operator("aten::matrix_power", &[("n", "9223372036854775807")]).survives(1);
}
