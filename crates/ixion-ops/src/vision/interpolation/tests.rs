use super::*;
use crate::support::testing::{assert_close, counting, operator, tensor, waves};

fn row(params: &[(&str, &str)], want: &[f64]) {
    let got = operator("F.interpolate", params).run_one(&[&waves(&[1, 1, 5])]).unwrap();
    assert_close(&got, &[1, 1, want.len()], want);
}

#[test]
fn rows_are_those_of_pytorch() {
    let size = |mode| [("size", "8"), ("mode", mode)];
    let factor = |mode| [("scale_factor", "1.7"), ("mode", mode)];
    row(&size("nearest"), &[-2.75, -2.75, -0.25, -0.25, 0.0, -2.0, -2.0, -0.5]);
    row(&factor("nearest"), &[-2.75, -2.75, -0.25, -0.25, 0.0, 0.0, -2.0, -0.5]);
    row(&size("nearest-exact"), &[-2.75, -2.75, -0.25, 0.0, 0.0, -2.0, -0.5, -0.5]);
    row(&factor("nearest-exact"), &[-2.75, -2.75, -0.25, 0.0, 0.0, -2.0, -2.0, -0.5]);
    row(&size("linear"), &[-2.75, -1.65625, -0.234375, -0.078125, -0.625, -1.875, -1.15625, -0.5]);
    let by_factor = [
        -2.75,
        -1.7941176470588236,
        -0.3235294117647056,
        -0.11029411764705882,
        -0.2941176470588234,
        -1.4705882352941178,
        -1.514705882352941,
        -0.6323529411764701,
    ];
    row(&factor("linear"), &by_factor);
    let recomputed = [&factor("linear")[..], &[("recompute_scale_factor", "True")]].concat();
    row(&recomputed, &[-2.75, -1.65625, -0.234375, -0.078125, -0.625, -1.875, -1.15625, -0.5]);
    let aligned = [
        -2.75,
        -1.3214285714285716,
        -0.2142857142857143,
        -0.07142857142857145,
        -0.5714285714285712,
        -1.7142857142857135,
        -1.3571428571428574,
        -0.5,
    ];
    row(&[&size("linear")[..], &[("align_corners", "True")]].concat(), &aligned);
    row(&[&factor("linear")[..], &[("align_corners", "True")]].concat(), &aligned);
    row(&size("area"), &[-2.75, -1.5, -0.25, -0.125, -1.0, -2.0, -1.25, -0.5]);
    row(&[("size", "(3)"), ("mode", "area")], &[-1.5, -0.75, -1.25]);
    row(&[("size", "None"), ("scale_factor", "(1.1)")], &[-2.75, -2.75, -0.25, 0.0, -2.0]);
}

#[test]
fn image_axes_that_keep_or_double_their_length_are_copied() {
    let nearest = |factor, shape: &[usize]| {
        let input = counting(DType::F64, shape);
        operator("F.interpolate", &[("scale_factor", factor)]).run_one(&[&input]).unwrap()
    };
    assert_close(&nearest("(1.0,1.1)", &[1, 1, 1, 4]), &[1, 1, 1, 4], &[0.0, 1.0, 2.0, 3.0]);
    assert_close(&nearest("(2.1,1.0)", &[1, 1, 2, 1]), &[1, 1, 4, 1], &[0.0, 0.0, 1.0, 1.0]);
    assert_close(&nearest("1.1", &[1, 1, 4]), &[1, 1, 4], &[0.0, 0.0, 1.0, 2.0]);
    assert_close(&nearest("(1.0,1.0,1.1)", &[1, 1, 1, 1, 4]), &[1, 1, 1, 1, 4], &[0.0, 0.0, 1.0, 2.0]);
}

#[test]
fn planes_and_volumes_are_those_of_pytorch() {
    let plane = |op_type, params: &[(&str, &str)], shape: [usize; 2], want: &[f64]| {
        let got = operator(op_type, params).run_one(&[&waves(&[1, 1, 3, 4])]).unwrap();
        assert_close(&got, &[1, 1, shape[0], shape[1]], want);
    };
    let want = [
        -2.654941134982639,
        0.30048582288953984,
        -1.5461434258355031,
        -1.6468772888183596,
        -0.3046302795410156,
        0.5841178894042968,
        -0.29304617422598306,
        -0.05977390430591663,
        1.9553236784758397,
        0.3207968252676506,
        1.8140590809009693,
        0.0937740184642653,
    ];
    let params = [("mode", "bicubic"), ("scale_factor", "(1.5,0.8)"), ("align_corners", "False")];
    plane("F.upsample", &params, [4, 3], &want);
    let want = [
        -2.75,
        0.296875,
        -2.0,
        -1.291666666666666,
        -0.14163773148148162,
        1.101851851851852,
        -0.013888888888888756,
        0.65697337962963,
        1.4212962962962963,
        0.25,
        2.171875,
        -1.25,
    ];
    plane("nn.Upsample", &[("mode", "bicubic"), ("size", "(4,3)"), ("align_corners", "True")], [4, 3], &want);
    let want = [
        -2.75,
        -1.1153846153846156,
        -0.14423076923076927,
        -0.38461538461538414,
        -1.9230769230769225,
        -1.625,
        -1.0528846153846154,
        -0.11538461538461563,
        0.6057692307692308,
        0.028846153846153966,
        -0.3750000000000001,
        -0.5929487179487183,
        0.22596153846153783,
        1.4919871794871797,
        1.459935897435898,
        0.12499999999999994,
        0.9967948717948714,
        1.4759615384615383,
        1.0753205128205134,
        -0.623397435897435,
    ];
    plane("F.upsample", &[("mode", "bilinear"), ("scale_factor", "(1.5,1.3)")], [4, 5], &want);
    let want = [-2.75, -0.125, -2.0, 0.25, 1.75, -1.25];
    plane("nn.UpsamplingBilinear2d", &[("size", "(2,3)"), ("scale_factor", "None")], [2, 3], &want);
    let want = [-2.75, -2.75, -0.25, -0.25, 0.0, 0.0, -2.0, -2.0];
    plane("F.upsample_nearest", &[("scale_factor", "(0.6,2)")], [1, 8], &want);
    let want = [
        -2.75, -1.5, -0.25, -2.0625, -1.375, -0.6875, -0.6875, -1.125, -1.5625, 0.0, -1.0, -2.0, -0.5,
        -0.875, -1.25, 0.0, -0.21875, -0.4375, 1.0, 1.09375, 1.1875, 1.5, 1.75, 2.0,
    ];
    let params = [("mode", "trilinear"), ("scale_factor", "(1.0,2.0,1.5)")];
    let volume = operator("nn.Upsample", &params).run_one(&[&waves(&[1, 1, 2, 2, 2])]).unwrap();
    assert_close(&volume, &[1, 1, 2, 4, 3], &want);
}

#[test]
fn filters_are_those_of_pytorch() {
    let filtered = |params: &[(&str, &str)], shape: [usize; 2], want: &[f64]| {
        let params = [params, &[("antialias", "True")]].concat();
        let got = operator("F.interpolate", &params).run_one(&[&waves(&[1, 1, 5, 4])]).unwrap();
        assert_close(&got, &[1, 1, shape[0], shape[1]], want);
    };
    let want = [
        -0.7999999999999997,
        0.36363636363636365,
        0.20681818181818198,
        -1.0249999999999997,
        0.15340909090909088,
        0.011363636363636598,
    ];
    filtered(&[("mode", "bilinear"), ("size", "(2,3)")], [2, 3], &want);
    let want = [
        -0.8673817107978086,
        0.45112068353990703,
        0.17040153633155333,
        -1.1546985506921723,
        0.25283381399319493,
        0.06114463713249321,
    ];
    filtered(&[("mode", "bicubic"), ("size", "(2,3)")], [2, 3], &want);
    let want = [
        -0.857333775625005,
        0.5032142583727401,
        0.14983786655286582,
        -1.2358962857813613,
        0.34293930770742903,
        0.20785047537860027,
    ];
    filtered(&[("mode", "lanczos"), ("size", "(2,3)")], [2, 3], &want);
    let want = [
        -0.295381396845832,
        0.27353556485355623,
        0.03519727504967357,
        0.0586452293094359,
        -0.8674879807692307,
        0.4006696428571427,
    ];
    filtered(&[("mode", "bicubic"), ("size", "(3,2)"), ("align_corners", "True")], [3, 2], &want);
    let want = [
        -1.201298701298701,
        -0.7207792207792206,
        -0.04437229437229445,
        0.7391774891774889,
        0.39772727272727276,
        -0.13961038961038963,
        -0.7727272727272728,
        -0.7613636363636364,
        -0.4351325757575761,
        0.8243371212121207,
        0.3380681818181819,
        -0.46306818181818177,
    ];
    filtered(&[("mode", "bilinear"), ("scale_factor", "(0.45,1.5)")], [2, 6], &want);
}

#[test]
fn a_filter_copies_axes_that_keep_their_length() {
    let x = waves(&[1, 1, 5, 4]);
    let params = [("mode", "bicubic"), ("scale_factor", "1.1"), ("antialias", "True")];
    assert_eq!(operator("F.interpolate", &params).run_one(&[&x]).unwrap(), x);
}

#[test]
fn bytes_are_rounded_as_in_pytorch() {
    let x = counting(DType::U8, &[1, 1, 3, 4]);
    let resized = |params: &[(&str, &str)]| {
        let output = operator("F.interpolate", params).run_one(&[&x]).unwrap();
        output.to_vec::<u8>().unwrap()
    };
    let linear = [1, 2, 2, 3, 4, 4, 7, 8, 8, 9, 10, 10];
    assert_eq!(resized(&[("mode", "bilinear"), ("size", "(2,6)")]), linear);
    let cubic = [0, 2, 3, 2, 4, 5, 6, 8, 9, 8, 10, 11];
    assert_eq!(resized(&[("mode", "bicubic"), ("size", "(4,3)")]), cubic);
    let filter = [("mode", "bicubic"), ("size", "(2,2)"), ("antialias", "True")];
    assert_eq!(resized(&filter), [2, 3, 8, 9]);
    let filter = [("mode", "bilinear"), ("scale_factor", "(0.7,0.6)"), ("antialias", "True")];
    assert_eq!(resized(&filter), [1, 3, 6, 8]);
}

#[test]
fn sizes_from_the_graph_and_symbols() {
    let from_graph = operator("F.interpolate", &[]).with_names(&["input", "size"]);
    let output = from_graph.run_one(&[&waves(&[1, 1, 2, 2]), &tensor(&[2], &[3i64, 4])]).unwrap();
    assert_eq!(output.shape().dims(), &[1, 1, 3, 4]);
    let dims = [Dim::symbol("n"), Dim::Fixed(3), Dim::symbol("h"), Dim::Fixed(5)];
    let input = TensorMeta::new(DType::F32, dims);
    let infer =
        |factor| operator("F.interpolate", &[("scale_factor", factor)]).infer(std::slice::from_ref(&input));
    assert_eq!(infer("2.0").unwrap()[0].to_string(), "n×3×(h * 2)×10 f32");
    assert_eq!(infer("(1.5,0.7)").unwrap()[0].to_string(), "n×3×(h * 3 / 2)×3 f32");
    assert!(matches!(infer("0.7"), Err(LayerError::Unsupported(_))));
}

#[test]
fn invalid_parameters_and_odd_inputs() {
    let refused =
        |params: &[(&str, &str)]| assert!(operator("F.interpolate", params).create(1).is_err(), "{params:?}");
    refused(&[]);
    refused(&[("size", "2"), ("scale_factor", "2")]);
    refused(&[("scale_factor", "0.0")]);
    refused(&[("scale_factor", "(2.0,inf)")]);
    refused(&[("size", "2"), ("antialias", "True")]);
    refused(&[("size", "2"), ("mode", "lanczos")]);
    refused(&[("size", "2"), ("mode", "cubic")]);
    let error = operator("F.interpolate", &[("scale_factor", "0.1")]).run(&[&waves(&[1, 1, 5])]).unwrap_err();
    assert_eq!(error.to_string(), "an axis of the output: expected at least one element, got 0");
    for mode in ["nearest", "nearest-exact", "linear", "bilinear", "trilinear", "bicubic", "area"] {
        operator("F.interpolate", &[("mode", mode), ("scale_factor", "1.7")]).survives(1);
        operator("F.interpolate", &[("mode", mode), ("size", "(2,3)")]).survives(1);
        operator("F.interpolate", &[("mode", mode), ("scale_factor", "1e18")]).survives(1);
        operator("F.interpolate", &[("mode", mode), ("scale_factor", "1e-18")]).survives(1);
    }
    for mode in ["bilinear", "bicubic", "lanczos"] {
        let filter = [("mode", mode), ("antialias", "True")];
        operator("F.interpolate", &[&filter[..], &[("scale_factor", "0.3")]].concat()).survives(1);
        operator("F.interpolate", &[&filter[..], &[("size", "(2,3)")]].concat()).survives(1);
    }
}
