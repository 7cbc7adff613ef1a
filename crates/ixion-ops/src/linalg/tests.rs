use crate::op::TensorMeta;
use crate::support::testing::{assert_close, operator, tensor};
use ixion_tensor::{Complex, Tensor};

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

/// 4, 3; 6, 3 is P·L·U with rows swapped, L = 1, 0; 2/3, 1 and U = 6, 3; 0, 1.
#[test]
fn lower_times_upper() {
    let a = tensor(&[2, 2], &[4.0, 3.0, 6.0, 3.0]);
    let parts = operator("aten::linalg_lu", &[]).with_outputs(3).run(&[&a]).unwrap();
    assert_close(&parts[0], &[2, 2], &[0.0, 1.0, 1.0, 0.0]);
    assert_close(&parts[1], &[2, 2], &[1.0, 0.0, 2.0 / 3.0, 1.0]);
    assert_close(&parts[2], &[2, 2], &[6.0, 3.0, 0.0, 1.0]);
    let both = operator("aten::linalg_lu_factor", &[]).with_outputs(2).run(&[&a]).unwrap();
    assert_close(&both[0], &[2, 2], &[6.0, 3.0, 2.0 / 3.0, 1.0]);
    assert_eq!(both[1].to_vec::<i32>().unwrap(), [2, 2]);
    let unpacked = operator("aten::lu_unpack", &[]).with_outputs(3).run(&[&both[0], &both[1]]).unwrap();
    assert_eq!(unpacked, parts);
    let row = tensor(&[1, 2], &[10.0, 6.0]);
    let solve = |left, adjoint, b: &Tensor| {
        let params = [("left", left), ("adjoint", adjoint)];
        operator("aten::linalg_lu_solve", &params).run_one(&[&both[0], &both[1], b]).unwrap()
    };
    let column = row.reshape(&[2, 1]).unwrap();
    assert_close(&solve("True", "False", &column), &[2, 1], &[-2.0, 6.0]);
    assert_close(&solve("True", "True", &column), &[2, 1], &[1.0, 1.0]);
    assert_close(&solve("False", "False", &row), &[1, 2], &[1.0, 1.0]);
    assert_close(&solve("False", "True", &row), &[1, 2], &[-2.0, 6.0]);
    let x = operator("aten::lu_solve", &[]).run_one(&[&column, &both[0], &both[1]]).unwrap();
    assert_close(&x, &[2, 1], &[-2.0, 6.0]);
    for pivots in [[0, 1], [1, 3]] {
        let wrong = [&both[0], &tensor(&[2], &pivots), &column];
        let error = operator("aten::linalg_lu_solve", &[]).run(&wrong).unwrap_err().to_string();
        assert!(error.contains("pivot"), "{error}");
    }
}

#[test]
fn lu_and_ldl_report_singular_matrices() {
    let singular = tensor(&[2, 2, 2], &[1.0, 0.0, 0.0, 1.0, 1.0, 2.0, 2.0, 4.0]);
    for op_type in ["aten::linalg_lu_factor", "aten::linalg_ldl_factor"] {
        let error = operator(op_type, &[]).with_outputs(2).run(&[&singular]).unwrap_err().to_string();
        assert!(error.contains("matrix 1 of 2") && error.contains("singular"), "{error}");
    }
    for op_type in ["aten::linalg_lu_factor_ex", "aten::linalg_ldl_factor_ex"] {
        let found = operator(op_type, &[]).with_outputs(3).run(&[&singular]).unwrap();
        assert_eq!(found[2].to_vec::<i32>().unwrap(), [0, 2], "{op_type}");
        assert!(operator(op_type, &[("check_errors", "True")]).with_outputs(3).run(&[&singular]).is_err());
    }
    assert!(operator("aten::linalg_lu", &[("pivot", "False")]).with_outputs(3).run(&[&singular]).is_err());
}

#[test]
fn symmetric_equations() {
    let i = Complex::new(0.0f64, 1.0);
    let zero = Complex::new(0.0, 0.0);
    for (hermitian, b) in [("False", [i * 2.0, i]), ("True", [-i * 2.0, i])] {
        // 0, ±i; i, 0: a block of two rows.
        let params = [("hermitian", hermitian)];
        let a = tensor(&[2, 2], &[zero, zero, i, zero]);
        let parts = operator("aten::linalg_ldl_factor", &params).with_outputs(2).run(&[&a]).unwrap();
        assert_eq!(parts[1].to_vec::<i32>().unwrap(), [-2, -2]);
        let x = operator("aten::linalg_ldl_solve", &params);
        let x = x.run_one(&[&parts[0], &parts[1], &tensor(&[2, 1], &b)]).unwrap();
        assert_eq!(x.to_vec::<Complex<f64>>().unwrap(), [i / i, i * 2.0 / i]);
    }
}

#[test]
fn axes_must_differ_and_lengths_fit() {
    let x = tensor(&[2, 2, 2], &[1.0; 8]);
    let error = operator("aten::nuclear_norm", &[("dim", "(1,-2)")])
        .infer(&[TensorMeta::of(&x.view())])
        .unwrap_err()
        .to_string();
    assert!(error.contains("named twice"), "{error}");
    let a = Tensor::ones(ixion_tensor::DType::F64, &[2, 3, 6]).unwrap();
    let solve = |shape: &[usize], dims| {
        let b = Tensor::ones(ixion_tensor::DType::F64, shape).unwrap();
        operator("aten::linalg_tensorsolve", &[("dims", dims)])
            .infer(&[TensorMeta::of(&a.view()), TensorMeta::of(&b.view())])
            .map(|_| ())
    };
    assert!(solve(&[2, 3], "None").is_ok());
    assert!(solve(&[2, 3], "(1,1)").unwrap_err().to_string().contains("named twice"));
    // As many elements as columns, but not as rows.
    assert!(solve(&[6], "None").is_err() && solve(&[2, 4], "None").is_err());
}

#[test]
fn powers_of_numbers() {
    let x = tensor(&[2], &[3i64, -2]);
    let run = |op_type, params| operator(op_type, params).run_one(&[&x]).unwrap().to_vec::<i64>().unwrap();
    assert_eq!(run("aten::linalg_vander", &[("N", "3")]), [1, 3, 9, 1, -2, 4]);
    assert_eq!(run("aten::vander", &[]), [3, 1, -2, 1]);
    assert_eq!(run("aten::vander", &[("N", "3"), ("increasing", "True")]), [1, 3, 9, 1, -2, 4]);
    assert!(operator("aten::linalg_vander", &[("N", "1")]).run(&[&x]).is_err());
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
fn without_lapack_errors_state_how_to_get_it() {
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
    use crate::support::testing::Operator;
    use ixion_tensor::{DType, Dim};

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

    /// PyTorch's results.
    #[test]
    fn each_matrix_may_have_its_own_tolerance() {
        let run = |op_type, key, a: &Tensor, tolerance: &Tensor| {
            operator(op_type, &[]).with_names(&["input", key]).run_one(&[a, tolerance])
        };
        let a = tensor(&[2, 2, 2], &[2.0, 0.0, 0.0, 1.0, 2.0, 0.0, 0.0, 1.0]);
        let (each, all) = (tensor(&[2], &[0.5f32, 1.5]), tensor(&[1], &[0.75]));
        assert_close(&run("aten::linalg_matrix_rank", "atol", &a, &each).unwrap(), &[2], &[2.0, 1.0]);
        assert_close(&run("aten::linalg_matrix_rank", "rtol", &a, &all).unwrap(), &[2], &[1.0, 1.0]);
        // Without any tolerance, not even the usual relative one.
        let small = tensor(&[2, 2], &[1f32, 0.0, 0.0, 1e-12]);
        let rank = |params: &[(&'static str, &'static str)]| {
            operator("aten::linalg_matrix_rank", params).run_one(&[&small]).unwrap().item::<i64>().unwrap()
        };
        assert_eq!([rank(&[("tol", "0")]), rank(&[("atol", "0")]), rank(&[("tol", "0.5")])], [2, 1, 1]);
        let inverses = [0.5, 0.0, 0.0, 1.0, 0.5, 0.0, 0.0, 0.0];
        assert_close(&run("aten::linalg_pinv", "atol", &a, &each).unwrap(), &[2, 2, 2], &inverses);
        let empty = tensor(&[3, 0], &[] as &[f64]);
        assert_close(&run("aten::linalg_pinv", "rtol", &empty, &empty).unwrap(), &[0, 3], &[]);
        let error = run("aten::linalg_pinv", "rtol", &a, &tensor(&[3], &[0.0; 3])).unwrap_err().to_string();
        let wanted = "one number, or one for each matrix";
        assert_eq!(error, format!("the tolerance `rtol`: expected {wanted}, got 3 f64"));
        // Matrices of unknown sizes may be empty.
        let unknown = TensorMeta::new(DType::F32, [Dim::symbol("m"), Dim::symbol("n")]);
        let inverse = operator("aten::linalg_pinv", &[]).with_names(&["input", "rtol"]);
        assert_eq!(inverse.infer(&[unknown.clone(), unknown]).unwrap()[0].to_string(), "n×m f32");
    }

    /// After the deadline, the layers themselves return an error.
    #[test]
    fn norms_check_the_deadline() {
        let x = tensor(&[1, 2, 2], &[1.0; 4]);
        let limits = ixion_tensor::Limits::default().with_timeout(std::time::Duration::ZERO);
        for params in [&[("ord", "nuc")][..], &[("ord", "2")]] {
            let mut layer = operator("aten::linalg_matrix_norm", params).create(1).unwrap();
            let mut norms = tensor(&[1], &[0.0]);
            let mut workspace = ixion_tensor::Workspace::new().unwrap();
            let mut context = crate::op::ForwardContext::new(&mut workspace, &limits);
            let found = layer.forward(&mut crate::op::Io::new(
                &[x.view()],
                &mut [norms.view_mut().unwrap()],
                &mut context,
            ));
            assert!(matches!(found, Err(crate::op::LayerError::Limit(_))), "{found:?}");
        }
    }

    #[test]
    fn one_matrix_for_many_right_hand_sides() {
        let b = tensor(&[3, 2, 1], &[4.0, 7.0, 3.0, 4.0, 0.0, 0.0]);
        let pair = operator("aten::linalg_solve_ex", &[]).with_outputs(2).run(&[&matrix(), &b]).unwrap();
        assert_close(&pair[0], &[3, 2, 1], &[1.0, 2.0, 1.0, 1.0, 0.0, 0.0]);
        assert_eq!(pair[1].to_vec::<i32>().unwrap(), [0]);
        let two = tensor(&[2, 1, 1, 1], &[2.0, 0.0]);
        let b = tensor(&[1, 3, 1, 1], &[2.0, 4.0, 6.0]);
        let pair = of_two("aten::linalg_solve_ex", &[]).run(&[&two, &b]).unwrap();
        let nan = f64::NAN;
        assert_close(&pair[0], &[2, 3, 1, 1], &[1.0, 2.0, 3.0, nan, nan, nan]);
        assert_eq!(pair[1].to_vec::<i32>().unwrap(), [0, 1]);
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
    fn nan_is_refused() {
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
    fn least_squares() {
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
    for op_type in
        ["aten::linalg_lu", "aten::linalg_lu_factor_ex", "aten::linalg_ldl_factor_ex", "aten::vander"]
    {
        operator(op_type, &[]).survives(1);
    }
    operator("aten::linalg_vander", &[("N", "3")]).survives(1);
    for op_type in ["aten::linalg_lu_solve", "aten::linalg_ldl_solve", "aten::lu_solve"] {
        operator(op_type, &[]).survives(3);
    }
    for op_type in [
        "aten::lu_unpack",
        "aten::linalg_householder_product",
        "aten::linalg_vecdot",
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
