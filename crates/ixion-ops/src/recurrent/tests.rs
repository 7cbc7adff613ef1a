use super::*;
use crate::support::testing::{Operator, assert_close, operator, tensor, waves};
use ixion_tensor::Tensor;

/// [`waves`] times a factor.
fn scaled(shape: &[usize], factor: f64) -> Tensor {
    let values: Vec<f64> = waves(shape).to_vec::<f64>().unwrap().iter().map(|x| x * factor).collect();
    tensor(shape, &values)
}

/// Adds the weights of one layer in one direction, the `number`th.
fn layer(
    operator: Operator<'static>,
    number: usize,
    suffix: &str,
    sizes: [usize; 4],
    has_bias: bool,
) -> Operator<'static> {
    let [rows, inputs, outputs, hidden] = sizes;
    let mut weights = vec![("weight_ih", vec![rows, inputs]), ("weight_hh", vec![rows, outputs])];
    if has_bias {
        weights.extend([("bias_ih", vec![rows]), ("bias_hh", vec![rows])]);
    }
    if outputs != hidden {
        weights.push(("weight_hr", vec![outputs, hidden]));
    }
    weights.into_iter().enumerate().fold(operator, |operator, (place, (key, shape))| {
        let key: &'static str = format!("{key}_{suffix}").leak();
        operator.with_attr(key, scaled(&shape, 1.0 / (4 + number + place) as f64))
    })
}

/// Checks all results of an operator.
#[track_caller]
fn check(operator: Operator<'static>, inputs: &[&Tensor], want: &[(&[usize], &[f64])]) {
    let got = operator.with_outputs(want.len()).run(inputs).unwrap();
    for (got, (shape, want)) in got.iter().zip(want) {
        assert_close(got, shape, want);
    }
}

fn lstm(params: &[(&'static str, &'static str)]) -> Operator<'static> {
    let params = [&[("input_size", "2"), ("hidden_size", "2")], params].concat();
    layer(operator("nn.LSTM", params.leak()), 0, "l0", [8, 2, 2, 2], true)
}

/// Results of `torch.nn.RNN` with these weights.
#[test]
fn rnn_results() {
    let rnn = operator("nn.RNN", &[("input_size", "2"), ("hidden_size", "2")]);
    let rnn = layer(rnn, 0, "l0", [2, 2, 2, 2], true);
    check(
        rnn,
        &[&scaled(&[2, 2, 2], 0.5)],
        &[
            (
                &[2, 2, 2],
                &[
                    0.10158292982994,
                    -0.01487985405193,
                    -0.65766655419171,
                    0.39913454241549,
                    -0.60142683163609,
                    0.23650708813156,
                    -0.79598423432173,
                    -0.62735029596462,
                ],
            ),
            (&[1, 2, 2], &[-0.60142683163609, 0.23650708813156, -0.79598423432173, -0.62735029596462]),
        ],
    );
    let params = [
        ("input_size", "2"),
        ("hidden_size", "1"),
        ("num_layers", "2"),
        ("nonlinearity", "relu"),
        ("bidirectional", "True"),
    ];
    let rnn = layer(operator("nn.RNN", &params), 0, "l0", [1, 2, 1, 1], true);
    let rnn = layer(layer(rnn, 4, "l0_reverse", [1, 2, 1, 1], true), 8, "l1", [1, 2, 1, 1], true);
    let rnn = layer(rnn, 12, "l1_reverse", [1, 2, 1, 1], true).with_names(&["input", "initial_h"]);
    check(
        rnn,
        &[&scaled(&[2, 2, 2], 0.5), &waves(&[4, 2, 1])],
        &[
            (&[2, 2, 2], &[0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0]),
            (&[4, 2, 1], &[0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0]),
        ],
    );
}

/// Results of `torch.nn.LSTM` with these weights.
#[test]
fn lstm_results() {
    let x = scaled(&[2, 2, 2], 0.5);
    check(
        lstm(&[("batch_first", "True"), ("proj_size", "0")]),
        &[&x],
        &[
            (
                &[2, 2, 2],
                &[
                    -0.10244799982476,
                    -0.21717184258252,
                    -0.21562317673533,
                    -0.07281517120074,
                    -0.10625062424959,
                    -0.1014238741975,
                    0.0021415723824,
                    -0.14331116983962,
                ],
            ),
            (&[1, 2, 2], &[-0.21562317673533, -0.07281517120074, 0.0021415723824, -0.14331116983962]),
            (&[1, 2, 2], &[-0.29880934524088, -0.10968753349491, 0.00445752879317, -0.22895804730093]),
        ],
    );
    let row = scaled(&[2, 2], 0.5);
    check(
        lstm(&[("dropout", "0.5")]),
        &[&row, &waves(&[1, 2]), &scaled(&[1, 2], 0.5)],
        &[
            (&[2, 2], &[-0.63910251301018, -0.3003368692204, -0.59323290615507, -0.14135668048267]),
            (&[1, 2], &[-0.59323290615507, -0.14135668048267]),
            (&[1, 2], &[-1.04891988398048, -0.21504875475333]),
        ],
    );
    let params = [
        ("input_size", "2"),
        ("hidden_size", "2"),
        ("num_layers", "2"),
        ("bidirectional", "True"),
        ("proj_size", "1"),
    ];
    let projected = layer(operator("nn.LSTM", &params), 0, "l0", [8, 2, 1, 2], true);
    let projected =
        layer(layer(projected, 5, "l0_reverse", [8, 2, 1, 2], true), 10, "l1", [8, 2, 1, 2], true);
    let projected = layer(projected, 15, "l1_reverse", [8, 2, 1, 2], true);
    check(
        projected,
        &[&x, &waves(&[4, 2, 1]), &scaled(&[4, 2, 2], 0.5)],
        &[
            (
                &[2, 2, 2],
                &[
                    -0.00664177148931,
                    0.00775911762948,
                    -0.02525266536289,
                    0.00328645789832,
                    -0.0009457935939,
                    0.01331396019882,
                    -0.01124050238018,
                    0.0036082150306,
                ],
            ),
            (
                &[4, 2, 1],
                &[
                    0.13107941591699,
                    0.00677990269331,
                    0.02712650046744,
                    -0.01844787387524,
                    -0.0009457935939,
                    -0.01124050238018,
                    0.00775911762948,
                    0.00328645789832,
                ],
            ),
            (
                &[4, 2, 2],
                &[
                    -0.58754492854991,
                    -0.20733148755142,
                    -0.00680861169871,
                    -0.29163796252838,
                    -0.19146779908029,
                    -0.3154306111294,
                    0.12647492247611,
                    0.18024955467274,
                    0.00075257580413,
                    0.1140664762217,
                    0.15540910877479,
                    -0.21215418356373,
                    -0.0955935869623,
                    -0.29026297565268,
                    -0.03942341094863,
                    -0.12960389037438,
                ],
            ),
        ],
    );
}

/// Results of `torch.nn.GRU` with these weights.
#[test]
fn gru_results() {
    let params =
        [("input_size", "2"), ("hidden_size", "2"), ("bidirectional", "True"), ("batch_first", "True")];
    let gru = layer(operator("nn.GRU", &params), 0, "l0", [6, 2, 2, 2], true);
    let gru = layer(gru, 4, "l0_reverse", [6, 2, 2, 2], true);
    let x = scaled(&[2, 2, 2], 0.5);
    check(
        gru,
        &[&x, &scaled(&[2, 2, 2], 1.0 / 3.0)],
        &[
            (
                &[2, 2, 4],
                &[
                    -0.6652994740746,
                    -0.6026443390573,
                    -0.20776784221067,
                    -0.32192011753783,
                    -0.64798516938657,
                    -0.1426594459324,
                    -0.24451738428989,
                    -0.14478275459321,
                    -0.19580294484256,
                    -0.23286967275084,
                    0.08449320491306,
                    0.03769840745556,
                    0.15197273608793,
                    -0.26551187398441,
                    0.35480116001108,
                    0.29113734616035,
                ],
            ),
            (
                &[2, 2, 2],
                &[
                    -0.64798516938657,
                    -0.1426594459324,
                    0.15197273608793,
                    -0.26551187398441,
                    -0.20776784221067,
                    -0.32192011753783,
                    0.08449320491306,
                    0.03769840745556,
                ],
            ),
        ],
    );
    let gru = operator("nn.GRU", &[("input_size", "2"), ("hidden_size", "1"), ("bias", "False")]);
    check(
        layer(gru, 0, "l0", [3, 2, 1, 1], false),
        &[&x],
        &[
            (&[2, 2, 1], &[0.10068502075848, 0.11428523366375, 0.1524139440764, -0.19734666332286]),
            (&[1, 2, 1], &[0.1524139440764, -0.19734666332286]),
        ],
    );
}

#[test]
fn other_types_and_sizes() {
    let x = scaled(&[2, 2, 2], 0.5);
    let want = lstm(&[]).run_one(&[&x]).unwrap().to_vec::<f64>().unwrap();
    for dtype in [DType::F32, DType::F16, DType::Bf16] {
        let keys = ["weight_ih_l0", "weight_hh_l0", "bias_ih_l0", "bias_hh_l0"];
        let shapes: [&[usize]; 4] = [&[8, 2], &[8, 2], &[8], &[8]];
        let plain = operator("nn.LSTM", &[("input_size", "2"), ("hidden_size", "2")]);
        let converted =
            keys.into_iter().zip(shapes).enumerate().fold(plain, |operator, (place, (key, shape))| {
                let weight = scaled(shape, 1.0 / (4 + place) as f64);
                operator.with_attr(key, weight.cast(if place == 0 { dtype } else { DType::F32 }).unwrap())
            });
        let got = converted.run_one(&[&x.cast(dtype).unwrap()]).unwrap();
        assert_eq!(got.dtype(), dtype);
        assert_close(&got, &[2, 2, 2], &want);
        assert!(converted.run(&[&x]).is_err(), "f64 with other weights");
    }
    let empty = lstm(&[]).with_outputs(3).run(&[&tensor::<f64>(&[3, 0, 2], &[])]).unwrap();
    assert_eq!((empty[0].shape().dims(), empty[2].shape().dims()), (&[3, 0, 2][..], &[1, 0, 2][..]));
    let symbolic = TensorMeta::new(DType::F64, [Dim::symbol("l"), Dim::symbol("n"), Dim::Fixed(2)]);
    let metas = lstm(&[]).with_outputs(3).infer(&[symbolic]).unwrap();
    assert_eq!([metas[0].to_string(), metas[1].to_string()], ["l×n×2 f64", "1×n×2 f64"]);
}

#[test]
fn errors_name_the_mismatch() {
    let x = scaled(&[2, 2, 2], 0.5);
    let message =
        |operator: Operator<'static>, inputs: &[&Tensor]| operator.run(inputs).unwrap_err().to_string();
    let both = |h: &Tensor, c: &Tensor| message(lstm(&[]), &[&x, h, c]);
    let state = waves(&[1, 2, 2]);
    assert_eq!(both(&waves(&[2, 1, 2]), &state), "`initial_h`: expected 1×2×2 f64, got 2×1×2 f64");
    assert_eq!(both(&state, &waves(&[1, 2])), "`initial_c`: expected 1×2×2 f64, got 1×2 f64");
    assert!(both(&state.cast(DType::F32).unwrap(), &state).contains("`initial_h`: expected f64, got f32"));
    assert!(message(lstm(&[]), &[&x, &state]).contains("`initial_c`"));
    assert!(message(lstm(&[]), &[&waves(&[2, 2, 3])]).contains("last axis of the input: expected 2"));
    assert!(message(lstm(&[]), &[&waves(&[2])]).contains("expected 2 or 3 axes"));
    assert!(message(lstm(&[]), &[&tensor::<f64>(&[0, 1, 2], &[])]).contains("expected at least one step"));
    assert!(message(lstm(&[]).with_outputs(4), &[&x]).contains("outputs: expected 3, got 4"));
    for (params, part) in [
        (&[("num_layers", "2")][..], "missing weight `weight_ih_l1`"),
        (&[("num_layers", "9000000000000000000")], "missing weight `weight_ih_l1`"),
        (&[("num_layers", "0")], "`num_layers` is 0"),
        (&[("bidirectional", "True")], "missing weight `weight_ih_l0_reverse`"),
        (&[("bias", "False")], "`bias` is False: the file has a weight `bias_ih_l0`"),
        (&[("proj_size", "1")], "`weight_hh_l0`: expected 8×1 f64, got 8×2 f64"),
        (&[("proj_size", "2")], "`proj_size` is 2: it must be less than `hidden_size`, which is 2"),
        (&[("nonlinearity", "relu")], "`nonlinearity`"),
    ] {
        let found = message(lstm(params), &[&x]);
        assert!(found.contains(part), "{found} where {part} is expected");
    }
    let gru = operator("nn.GRU", &[("input_size", "2"), ("hidden_size", "2")])
        .with_attr("weight_ih_l0", waves(&[6, 2]));
    assert!(message(gru, &[&x]).contains("missing weight `weight_hh_l0`"));
    lstm(&[]).survives(1);
    lstm(&[]).with_outputs(3).survives(3);
}

#[test]
fn memory_is_limited() {
    let layer = lstm(&[]).create(1).unwrap();
    let metas = [TensorMeta::new(DType::F64, [10, 3, 2])];
    // Gates, outputs and the state of all steps, in f64.
    let elements = 10 * 3 * 8 + 3 * 2 + 10 * 3 * 2 + 2 * 3 * 2;
    assert_eq!(layer.workspace(&metas, &[]), elements * 8);
    assert_eq!(layer.cost(&metas, &[]).macs, 10 * 3 * 8 * (2 + 2));
}
