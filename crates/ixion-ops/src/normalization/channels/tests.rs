use super::*;
use crate::support::testing::{assert_close, counting, operator, tensor, waves};
use ixion_tensor::{DType, Tensor};

fn statistics() -> [(&'static str, Tensor); 4] {
    [
        ("running_mean", tensor(&[3], &[0.5, -1.0, 0.25])),
        ("running_var", tensor(&[3], &[1.0, 4.0, 0.25])),
        ("weight", tensor(&[3], &[2.0, -1.0, 0.5])),
        ("bias", tensor(&[3], &[0.0, 1.0, -1.0])),
    ]
}

/// Runs the layer on 2×3×2, with the first `count` of the four weights as attributes and as named inputs.
fn run(module: &str, function: &str, eps: &str, count: usize) -> [Tensor; 2] {
    let (x, statistics) = (waves(&[2, 3, 2]), statistics());
    let given = if count == 4 { "True" } else { "False" };
    let mut layer = operator(module, &[("eps", eps), ("affine", given)]);
    for (key, tensor) in &statistics[..count] {
        layer = layer.with_attr(key, tensor.clone());
    }
    let none = [("eps", eps), ("weight", "None"), ("bias", "None")];
    let names = ["input", "running_mean", "running_var", "weight", "bias"];
    let inputs: Vec<&Tensor> =
        [&x].into_iter().chain(statistics[..count].iter().map(|(_, tensor)| tensor)).collect();
    let function = operator(function, &none[..if count == 4 { 1 } else { 3 }]).with_names(&names);
    [layer.run_one(&[&x]).unwrap(), function.run_one(&inputs).unwrap()]
}

#[test]
fn stored_statistics() {
    for got in run("nn.BatchNorm1d", "F.batch_norm", "1.000000e-3", 4) {
        let want = [
            -6.496752435470526,
            -1.4992505620316599,
            0.5000624882836909,
            1.499937511716309,
            -1.7485044850523117,
            -2.4970089701046234,
            1.9990007493755464,
            2.9985011240633197,
            0.3750781103546137,
            -0.4998125351489272,
            0.24750747508718635,
            -2.4970089701046234,
        ];
        assert_close(&got, &[2, 3, 2], &want);
    }
    for got in run("nn.BatchNorm1d", "F.batch_norm", "1.000000e-5", 2) {
        let want = [
            -3.2499837501218742,
            -0.7499962500281248,
            0.49999937500117186,
            -0.49999937500117186,
            -1.49997000089997,
            -2.99994000179994,
            0.9999950000374997,
            1.4999925000562495,
            0.6249992187514648,
            1.4999981250035157,
            2.4999500014999496,
            -2.99994000179994,
        ];
        assert_close(&got, &[2, 3, 2], &want);
    }
}

#[test]
fn without_running_statistics_those_of_the_batch() {
    let none = [("running_mean", "None"), ("running_var", "None")];
    let layer = operator("F.batch_norm", &[none[0], none[1], ("eps", "1.000000e-3"), ("training", "True")]);
    let [_, _, weight, bias] = statistics().map(|(_, tensor)| tensor);
    let layer = layer.with_names(&["input", "weight", "bias"]);
    let want = [
        -3.0938469069784413,
        -0.4035452487363185,
        1.0440543168618466,
        2.45379245644094,
        -1.0555336206793455,
        -1.3887353447554183,
        1.4796659120331677,
        2.0177262436815924,
        0.8678370494144598,
        -0.365683822717247,
        -0.16699568980981802,
        -1.3887353447554183,
    ];
    assert_close(&layer.run_one(&[&waves(&[2, 3, 2]), &weight, &bias]).unwrap(), &[2, 3, 2], &want);
    let plain = operator("F.batch_norm", &[none[0], none[1], ("weight", "None"), ("bias", "None")]);
    let want = [
        -1.5168488509944433,
        0.08304529658156354,
        0.286971404242192,
        -1.079588855560326,
        -0.0409959148917417,
        -0.5813170760709447,
        1.270873361643993,
        1.5778606350497073,
    ];
    assert_close(&plain.run_one(&[&waves(&[4, 2])]).unwrap(), &[4, 2], &want);
    let half = plain.run_one(&[&waves(&[4, 2]).cast(DType::F16).unwrap()]).unwrap();
    assert_eq!(half.dtype(), DType::F16);
    assert_close(&half, &[4, 2], &want);
    assert_close(&plain.run_one(&[&tensor(&[1, 2, 1], &[1.0, 1.0])]).unwrap(), &[1, 2, 1], &[0.0, 0.0]);
    let nan = plain.run_one(&[&tensor(&[2, 2], &[f64::NAN, 2.0, 1.0, 4.0])]).unwrap();
    let large = 1.0 / 1.00001f64.sqrt();
    assert_close(&nan, &[2, 2], &[f64::NAN, -large, f64::NAN, large]);
}

#[test]
fn one_running_statistic_is_not_enough() {
    let layer = operator("F.batch_norm", &[("running_var", "None")]).with_names(&["input", "running_mean"]);
    let error = layer.create(2).unwrap_err();
    assert!(matches!(error, LayerError::InvalidParameter { key: "running_var", .. }), "{error}");
    let module = operator("nn.BatchNorm1d", &[("num_features", "3")]);
    assert!(matches!(module.create(1), Err(LayerError::MissingWeight { .. })));
    let wrong = operator("F.batch_norm", &[("running_mean", "0.5"), ("running_var", "None")]);
    assert!(matches!(wrong.create(1), Err(LayerError::WrongParameter { .. })));
}

#[test]
fn statistics_of_each_channel_or_stored_ones() {
    let own = [
        -1.9993603070362518,
        1.9993603070362516,
        0.0004996253122268035,
        1.999500374687773,
        -0.501768352135471,
        -1.498231647864529,
        -1.9841894753313625,
        1.9841894753313625,
        1.999347577813441,
        0.0006524221865591429,
        -0.5001321789726354,
        -1.4998678210273646,
    ];
    for got in run("nn.InstanceNorm1d", "F.instance_norm", "0.001", 4) {
        assert_close(&got, &[2, 3, 2], &own);
    }
    let mut layer = operator("nn.InstanceNorm1d", &[("eps", "0.001"), ("track_running_stats", "True")]);
    for (key, tensor) in statistics() {
        layer = layer.with_attr(key, tensor);
    }
    let [stored, _] = run("nn.BatchNorm1d", "F.batch_norm", "0.001", 4);
    let stored = stored.to_vec::<f64>().unwrap();
    assert_close(&layer.run_one(&[&waves(&[2, 3, 2])]).unwrap(), &[2, 3, 2], &stored);
    let absent = operator("nn.InstanceNorm1d", &[("track_running_stats", "True")]).create(1);
    assert!(matches!(absent, Err(LayerError::MissingWeight { .. })));
}

#[test]
fn a_sample_without_a_batch() {
    let got = operator("nn.InstanceNorm1d", &[("num_features", "3")]).run_one(&[&waves(&[3, 4])]).unwrap();
    let want = [
        -1.2939884636094239,
        0.8626589757396159,
        1.07832371967452,
        -0.6469942318047119,
        -0.6941153175765005,
        -1.2494075716377009,
        0.7866640265867006,
        1.156858862627501,
        -0.29851021128956806,
        1.094537441395083,
        0.6965238263423256,
        -1.4925510564478404,
    ];
    assert_close(&got, &[3, 4], &want);
}

#[test]
fn statistics_of_groups() {
    let weights = [waves(&[4]), waves(&[4]).map(|x: f64| x + 1.0).unwrap()];
    let x = waves(&[1, 4, 3]);
    let got = operator("F.group_norm", &[("num_groups", "2"), ("eps", "1.000000e-5")])
        .with_names(&["input", "weight", "bias"])
        .run_one(&[&x, &weights[0], &weights[1]])
        .unwrap();
    let want = [
        2.7780753034505237,
        -4.1881943941656665,
        -4.884821363927285,
        0.9716540358332424,
        0.5916756886905411,
        0.7816648622618918,
        1.0,
        1.0,
        1.0,
        -2.718669351850286,
        -1.859334675925143,
        2.8670060416631435,
    ];
    assert_close(&got, &[1, 4, 3], &want);
    let got = operator("nn.GroupNorm", &[("num_groups", "1"), ("eps", "0.01")])
        .run_one(&[&waves(&[2, 2])])
        .unwrap();
    let want = [-0.9968152785361251, 0.9968152785361251, 0.9950371902099893, -0.9950371902099893];
    assert_close(&got, &[2, 2], &want);
}

#[test]
fn half_inputs_accept_f32_weights() {
    let layer = operator("nn.GroupNorm", &[("num_groups", "1"), ("num_channels", "4")])
        .with_attr("weight", Tensor::ones(DType::F32, &[4]).unwrap());
    let x = waves(&[1, 4]).cast(DType::F16).unwrap();
    assert_eq!(layer.run_one(&[&x]).unwrap().dtype(), DType::F16);
    assert!(matches!(layer.run(&[&waves(&[1, 4])]), Err(LayerError::DType { .. })));
}

#[test]
fn mismatches_are_errors() {
    let groups = operator("F.group_norm", &[("num_groups", "2")]);
    let error = groups.run(&[&waves(&[1, 3, 2])]).unwrap_err().to_string();
    assert_eq!(error, "the input: expected a multiple of 2 channels along axis 1, got 1×3×2 f64");
    assert!(operator("F.group_norm", &[("num_groups", "0")]).create(1).is_err());
    assert!(operator("nn.GroupNorm", &[("num_groups", "1"), ("affine", "True")]).create(1).is_err());
    let batch = operator("nn.BatchNorm2d", &[("num_features", "3")])
        .with_attr("running_mean", counting(DType::F32, &[3]))
        .with_attr("running_var", counting(DType::F32, &[3]));
    assert!(batch.run(&[&counting(DType::F32, &[2, 4])]).is_err());
    let trained = operator("F.batch_norm", &[("training", "True")]);
    let error = trained.with_names(&["input", "running_mean", "running_var"]).create(3).unwrap_err();
    assert!(matches!(error, LayerError::InvalidParameter { key: "training", .. }));
    assert!(matches!(operator("F.batch_norm", &[]).create(1), Err(LayerError::MissingWeight { .. })));
}

#[test]
fn odd_inputs() {
    let batch = || {
        operator("F.batch_norm", &[])
            .with_attr("running_mean", Tensor::ones(DType::F32, &[4]).unwrap())
            .with_attr("running_var", Tensor::ones(DType::F32, &[4]).unwrap())
    };
    batch().survives(1);
    operator("F.batch_norm", &[("running_mean", "None"), ("running_var", "None")]).survives(1);
    operator("F.instance_norm", &[]).survives(1);
    operator("nn.InstanceNorm2d", &[]).survives(1);
    operator("F.group_norm", &[("num_groups", "2")]).survives(1);
    operator("F.group_norm", &[("num_groups", "1")]).survives(2);
}
