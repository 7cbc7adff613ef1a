use super::*;
use crate::support::testing::{assert_close, operator, tensor, waves};
use ixion_tensor::{DType, Tensor};

type Case = (&'static str, &'static str, &'static str, &'static [f64]);

/// PyTorch's samples at [`places`], by mode, padding and corner alignment.
const PLANES: &[Case] = &[
    (
        "bilinear",
        "zeros",
        "False",
        &[
            -0.03806718749999995,
            -0.0798,
            -0.37378125,
            -0.5667375,
            1.0334624999999997,
            -1.1106562500000001,
            f64::NAN,
            f64::NAN,
            f64::NAN,
            0.0,
        ],
    ),
    (
        "bilinear",
        "zeros",
        "True",
        &[
            -0.48129921875000004,
            -0.08962499999999994,
            -0.454546875,
            0.20366875000000018,
            1.5656218750000002,
            0.20639062500000022,
            f64::NAN,
            f64::NAN,
            f64::NAN,
            0.0,
        ],
    ),
    (
        "bilinear",
        "border",
        "False",
        &[
            -0.8459375000000001,
            -0.12,
            -0.37378125,
            -0.8925000000000003,
            1.6275,
            -1.1106562500000001,
            -0.5,
            1.75,
            0.0625,
            1.0250000000000006,
        ],
    ),
    (
        "bilinear",
        "border",
        "True",
        &[
            -0.7306250000000001,
            -0.08962499999999994,
            -0.454546875,
            0.20366875000000018,
            1.5656218750000002,
            0.20639062500000022,
            -0.5,
            1.75,
            -0.125,
            1.35,
        ],
    ),
    (
        "bilinear",
        "reflection",
        "False",
        &[
            -0.8459375000000001,
            -0.12,
            -0.37378125,
            -0.8925000000000003,
            1.6275,
            -1.1106562500000001,
            -0.5,
            -0.125,
            0.0625,
            0.6124999999999997,
        ],
    ),
    (
        "bilinear",
        "reflection",
        "True",
        &[
            -0.87288359375,
            -0.08962499999999994,
            -0.454546875,
            0.20366875000000018,
            1.5656218750000002,
            0.20639062500000022,
            -0.5,
            -0.125,
            -0.125,
            0.44999999999999996,
        ],
    ),
    ("nearest", "zeros", "False", &[0.0, 0.0, -0.25, -1.25, 1.5, -2.0, 0.0, 0.0, 0.0, 0.0]),
    ("nearest", "zeros", "True", &[-0.5, 0.0, -0.25, -1.25, 1.5, -2.0, 0.0, 0.0, 0.0, 0.0]),
    ("nearest", "border", "False", &[-0.5, 0.0, -0.25, -1.25, 1.5, -2.0, -0.5, 1.5, 0.25, 2.0]),
    ("nearest", "border", "True", &[-0.5, 0.0, -0.25, -1.25, 1.5, -2.0, -0.5, 1.5, 0.25, 2.0]),
    ("nearest", "reflection", "False", &[-0.5, 0.0, -0.25, -1.25, 1.5, -2.0, -0.5, 0.0, 0.25, 1.5]),
    ("nearest", "reflection", "True", &[-0.5, 0.0, -0.25, -1.25, 1.5, -2.0, -0.5, 0.0, 0.25, 1.5]),
    (
        "bicubic",
        "zeros",
        "False",
        &[
            -0.03093198509687858,
            0.23044173579000057,
            -0.3343472193908439,
            -1.0317900753926954,
            1.4138892963044565,
            -1.4397502029128542,
            f64::NAN,
            f64::NAN,
            f64::NAN,
            0.0,
        ],
    ),
    (
        "bicubic",
        "zeros",
        "True",
        &[
            -0.44295334934729486,
            0.2796112018509324,
            -0.6159787658611842,
            0.055238247968026996,
            2.0525318590217014,
            0.3480836485977504,
            f64::NAN,
            f64::NAN,
            f64::NAN,
            0.0,
        ],
    ),
    (
        "bicubic",
        "border",
        "False",
        &[
            -0.8564213917505422,
            0.32541285672900055,
            -0.3241456341074041,
            -1.2791228882991967,
            2.102592304619723,
            -1.1702304686582534,
            f64::NAN,
            f64::NAN,
            f64::NAN,
            1.5342500000000012,
        ],
    ),
    (
        "bicubic",
        "border",
        "True",
        &[
            -0.665835617784595,
            0.2600519049551432,
            -0.621358521305337,
            0.1599798165653209,
            1.938340957403562,
            0.47148912576460367,
            f64::NAN,
            f64::NAN,
            f64::NAN,
            1.8119999999999994,
        ],
    ),
    (
        "bicubic",
        "reflection",
        "False",
        &[
            -0.8401084773368337,
            0.3382390026000008,
            -0.3241456341074041,
            -1.4651117355105465,
            2.178028064361768,
            -1.1702304686582534,
            f64::NAN,
            f64::NAN,
            f64::NAN,
            0.5797167968749977,
        ],
    ),
    (
        "bicubic",
        "reflection",
        "True",
        &[
            -1.037638621938434,
            0.2760156058446335,
            -0.523375122194053,
            -0.21677441667494973,
            2.0194949083400004,
            0.07204270600245177,
            f64::NAN,
            f64::NAN,
            f64::NAN,
            0.4128749999999999,
        ],
    ),
];

const VOLUMES: &[Case] = &[
    ("bilinear", "zeros", "False", &[-0.07382615624999989, -0.836121375, -1.2495966562499996, 0.0, 0.0, 0.0]),
    (
        "bilinear",
        "zeros",
        "True",
        &[-1.0763604453124997, -1.2601986171875, -1.0281943203125001, 0.0, 0.0, 0.0],
    ),
    (
        "bilinear",
        "border",
        "False",
        &[-1.6405812499999999, -1.225625, -1.9678687500000005, 0.625, 1.125, 0.025000000000000577],
    ),
    (
        "bilinear",
        "border",
        "True",
        &[-1.6339437499999998, -1.2601986171875, -1.0281943203125001, 0.625, 1.125, 1.1000000000000005],
    ),
    (
        "bilinear",
        "reflection",
        "False",
        &[-1.6405812499999999, -1.225625, -1.9678687500000005, 0.625, 1.125, 0.6437500000000005],
    ),
    (
        "bilinear",
        "reflection",
        "True",
        &[-1.57619038671875, -1.2601986171875, -1.0281943203125001, 0.625, 1.125, 1.2812500000000004],
    ),
    ("nearest", "zeros", "False", &[0.0, -0.5, -2.75, 0.0, 0.0, 0.0]),
    ("nearest", "zeros", "True", &[-2.75, -0.5, -2.75, 0.0, 0.0, 0.0]),
    ("nearest", "border", "False", &[-2.75, -0.5, -2.75, 2.0, 1.5, 2.75]),
    ("nearest", "border", "True", &[-2.75, -0.5, -2.75, 2.0, 1.5, 2.75]),
    ("nearest", "reflection", "False", &[-2.75, -0.5, -2.75, 2.0, 1.5, 1.5]),
    ("nearest", "reflection", "True", &[-2.75, -0.5, -2.75, 2.0, 1.5, 1.5]),
];

/// Positions inside, around and far outside of an image, followed by the `odd` ones.
fn places(shape: &[usize], axes: usize, odd: &[f64]) -> Tensor {
    let usual = waves(&[shape[..shape.len() - 1].iter().product::<usize>() * axes - odd.len()]);
    let usual = usual.to_vec::<f64>().unwrap().into_iter().map(|x| x * 0.45 + 0.01);
    tensor(shape, &usual.chain(odd.iter().copied()).collect::<Vec<_>>())
}

fn sample(case: &Case, input: &Tensor, grid: &Tensor) -> Tensor {
    let params = [("mode", case.0), ("padding_mode", case.1), ("align_corners", case.2)];
    operator("F.grid_sample", &params).with_names(&["input", "grid"]).run_one(&[input, grid]).unwrap()
}

#[test]
fn samples_are_those_of_pytorch() {
    let odd = [f64::NAN, 0.0, 0.0, f64::INFINITY, f64::NEG_INFINITY, 0.5, 1e6, 0.2];
    let grid = places(&[1, 1, 10, 2], 2, &odd);
    for case in PLANES {
        assert_close(&sample(case, &waves(&[1, 1, 3, 4]), &grid), &[1, 1, 1, 10], case.3);
    }
    let odd = [f64::NAN, 0.0, 0.0, 0.0, f64::INFINITY, 0.0, 0.5, 0.2, 1e6];
    let grid = places(&[1, 1, 1, 6, 3], 3, &odd);
    for case in VOLUMES {
        assert_close(&sample(case, &waves(&[1, 1, 2, 3, 4]), &grid), &[1, 1, 1, 1, 6], case.3);
    }
}

#[test]
fn torchscript_writes_numbers() {
    let grid = places(&[1, 1, 2, 2], 2, &[]);
    let x = waves(&[1, 1, 3, 4]);
    for (mode, padding, mode_number, padding_number) in [
        ("nearest", "reflection", "1", "2"),
        ("bicubic", "border", "2", "1"),
        ("bilinear", "reflection", "0", "2"),
        ("bilinear", "zeros", "0", "0"),
    ] {
        let params = [("mode", mode_number), ("padding_mode", padding_number), ("align_corners", "True")];
        let layer = operator("aten::grid_sampler_2d", &params).with_names(&["input", "grid"]);
        let want = sample(&(mode, padding, "True", &[][..]), &x, &grid);
        assert_eq!(layer.run_one(&[&x, &grid]).unwrap(), want, "{mode}");
    }
}

#[test]
fn ties_go_to_the_even_index() {
    let row = tensor(&[1, 1, 1, 5], &[0f32, 1.0, 2.0, 3.0, 4.0]);
    let at: Vec<f32> = [-0.5f32, 0.5, 1.5, 2.5, 3.5, 4.5].iter().flat_map(|x| [x / 2.0 - 1.0, 0.0]).collect();
    let case = ("nearest", "zeros", "True", &[0.0, 0.0, 2.0, 2.0, 4.0, 4.0][..]);
    assert_close(&sample(&case, &row, &tensor(&[1, 1, 6, 2], &at)), &[1, 1, 1, 6], case.3);
    let half = |x: &Tensor| x.cast(DType::F16).unwrap();
    assert_close(&sample(&case, &half(&row), &half(&tensor(&[1, 1, 6, 2], &at))), &[1, 1, 1, 6], case.3);
}

#[test]
fn grids_are_those_of_pytorch() {
    let want = [
        1.9583333333333333,
        0.33333333333333326,
        0.125,
        -1.0,
        -1.7083333333333333,
        -2.333333333333333,
        1.7083333333333333,
        -0.16666666666666674,
        -0.125,
        -1.5,
        -1.9583333333333333,
        -2.833333333333333,
        -1.75,
        -3.333333333333333,
        -0.75,
        -2.0,
        0.25,
        -0.6666666666666667,
        0.25,
        -1.8333333333333333,
        1.25,
        -0.5,
        2.25,
        0.833333333333333,
    ];
    let grid = operator("F.affine_grid", &[("size", "(2,1,2,3)"), ("align_corners", "False")]);
    assert_close(&grid.run_one(&[&waves(&[2, 2, 3])]).unwrap(), &[2, 2, 3, 2], &want);
    let want = [1.0, 3.75, -3.5, -4.5, 2.75, -3.0, 0.5, 1.25, 0.5, -5.0, 0.25, 1.0];
    let grid = operator("F.affine_grid", &[("align_corners", "True")]).with_names(&["theta", "size"]);
    let got = grid.run_one(&[&waves(&[1, 3, 4]), &tensor(&[5], &[1i64, 1, 1, 2, 2])]).unwrap();
    assert_close(&got, &[1, 1, 2, 2, 3], &want);
}

#[test]
fn batches_channels_and_symbols() {
    let meta = |dims: [Dim; 4]| TensorMeta::new(DType::F32, dims);
    let (n, h) = (Dim::symbol("n"), Dim::symbol("h"));
    let input = meta([n.clone(), 3.into(), h.clone(), 8.into()]);
    let grid = meta([n, h, 2.into(), 2.into()]);
    let output = operator("F.grid_sample", &[]).with_names(&["input", "grid"]).infer(&[input, grid]).unwrap();
    assert_eq!(output[0].to_string(), "n×3×h×2 f32");
    let case = ("bilinear", "zeros", "True", &[][..]);
    let corners = tensor(&[2, 1, 2, 2], &[-1.0, -1.0, 1.0, 1.0, 1.0, -1.0, -1.0, 1.0]);
    let x = Tensor::arange(DType::F64, 0.0, 24.0, 1.0).unwrap().reshape(&[2, 2, 2, 3]).unwrap();
    let want = [0.0, 5.0, 6.0, 11.0, 14.0, 15.0, 20.0, 21.0];
    assert_close(&sample(&case, &x, &corners), &[2, 2, 1, 2], &want);
}

#[test]
fn mismatches_are_rejected() {
    let sample = |mode, input: &[usize], grid: &[usize]| {
        let sample = operator("F.grid_sample", &[("mode", mode)]).with_names(&["input", "grid"]);
        assert!(sample.run(&[&waves(input), &waves(grid)]).is_err(), "{mode} {input:?} {grid:?}");
    };
    sample("bicubic", &[1, 1, 2, 2, 2], &[1, 1, 1, 1, 3]);
    sample("bilinear", &[1, 1, 2, 2], &[2, 1, 1, 2]);
    sample("bilinear", &[1, 1, 2, 2], &[1, 1, 1, 3]);
    sample("bilinear", &[1, 1, 2, 0], &[1, 1, 1, 2]);
    for size in ["(1,1,2)", "(1,1,0,2)", "(3,1,2,2)", "(2,1,2,2,2)", "(2,1,99999999999,99999999999)"] {
        assert!(operator("F.affine_grid", &[("size", size)]).run(&[&waves(&[2, 2, 3])]).is_err(), "{size}");
    }
    operator("F.affine_grid", &[("size", "(2,1,2,2)")]).survives(1);
    for mode in ["bilinear", "nearest", "bicubic"] {
        operator("F.grid_sample", &[("mode", mode)]).survives(2);
    }
}
