use crate::op::{ForwardContext, Io, LayerError, TensorMeta};
use crate::support::testing::{Operator, assert_close, operator, tensor, waves};
use ixion_tensor::{DType, Dim, Limits, Tensor, Workspace};

const COMMON: [(&str, &str); 2] = [("embed_dim", "4"), ("num_heads", "2")];

/// Weights are waves divided by 4, as for PyTorch's results below.
fn weight(shape: &[usize]) -> Tensor {
    waves(shape).map(|x: f64| x / 4.0).unwrap()
}

fn packed<'a>(params: &[(&'a str, &'a str)]) -> Operator<'a> {
    let params = [&COMMON[..], params].concat();
    operator("nn.MultiheadAttention", &params)
        .with_attr("in_proj_weight", weight(&[12, 4]))
        .with_attr("in_proj_bias", weight(&[12]))
        .with_attr("out_proj.weight", weight(&[4, 4]))
        .with_attr("out_proj.bias", weight(&[4]))
}

#[test]
fn attention_to_itself() {
    let x = waves(&[2, 3, 4]);
    let layer = packed(&[("batch_first", "True"), ("kdim", "4"), ("vdim", "4")]).with_outputs(2);
    let outputs = layer.run(&[&x]).unwrap();
    assert_close(&outputs[0], &[2, 3, 4], SELF);
    assert_close(&outputs[1], &[2, 3, 3], SELF_WEIGHTS);
    assert_eq!(layer.run(&[&x, &x, &x]).unwrap(), outputs);
    let mask = packed(&[]).with_names(&["", "attn_mask"]);
    let unbatched = mask.run_one(&[&x.select(0, 0).unwrap(), &waves(&[3, 3])]).unwrap();
    assert_close(&unbatched, &[3, 4], UNBATCHED);
}

#[test]
fn learnt_rows_and_masks() {
    let layer = packed(&[("add_bias_kv", "True"), ("add_zero_attn", "True")])
        .with_attr("bias_k", weight(&[1, 1, 4]))
        .with_attr("bias_v", weight(&[1, 1, 4]))
        .with_names(&["query", "kv", "attn_mask"])
        .with_outputs(2);
    let hidden = tensor(&[2, 3], &[false, true, false, false, false, true]);
    let outputs = layer.run(&[&waves(&[2, 3, 4]), &waves(&[3, 3, 4]), &hidden]).unwrap();
    assert_close(&outputs[0], &[2, 3, 4], EXTRA);
    assert_close(&outputs[1], &[3, 2, 5], EXTRA_WEIGHTS);
}

#[test]
fn keys_and_values_of_other_lengths() {
    let params =
        [&COMMON[..], &[("batch_first", "True"), ("kdim", "3"), ("vdim", "2"), ("bias", "False")]].concat();
    let layer = operator("nn.MultiheadAttention", &params)
        .with_attr("q_proj_weight", weight(&[4, 4]))
        .with_attr("k_proj_weight", weight(&[4, 3]))
        .with_attr("v_proj_weight", weight(&[4, 2]))
        .with_attr("out_proj.weight", weight(&[4, 4]))
        .with_names(&["query", "key", "value", "key_padding_mask"])
        .with_outputs(2);
    let padding = [[0; 5], [1, 0, 0, 0, 1]].concat().iter().map(|&x| x == 1).collect::<Vec<_>>();
    let inputs = [waves(&[2, 3, 4]), waves(&[2, 5, 3]), waves(&[2, 5, 2]), tensor(&[2, 5], &padding)];
    let outputs = layer.run(&inputs.iter().collect::<Vec<_>>()).unwrap();
    assert_close(&outputs[0], &[2, 3, 4], DIMS);
    assert_close(&outputs[1], &[2, 3, 5], DIMS_WEIGHTS);
    assert!(layer.run(&[&inputs[0], &inputs[1], &inputs[1], &inputs[3]]).is_err());
    let short = tensor(&[2, 4], &[false; 8]);
    assert!(layer.run(&[&inputs[0], &inputs[1], &inputs[2], &short]).is_err());
}

#[test]
fn a_mask_for_each_head_and_padding() {
    let padding = tensor(&[2, 3], &[false, false, true, false, false, false]);
    let layer = packed(&[("batch_first", "True")])
        .with_names(&["query", "attn_mask", "key_padding_mask"])
        .with_outputs(2);
    let outputs = layer.run(&[&waves(&[2, 3, 4]), &waves(&[4, 3, 3]), &padding]).unwrap();
    assert_close(&outputs[0], &[2, 3, 4], MASKED);
    assert_close(&outputs[1], &[2, 3, 3], MASKED_WEIGHTS);
}

#[test]
fn a_key_padding_mask_of_floats_may_be_named_after_the_other() {
    let x = waves(&[2, 3, 4]);
    let padding = tensor(&[2, 3], &[0.0, 0.0, f64::NEG_INFINITY, 0.0, 1.5, 0.0]);
    let run = |name| {
        let layer = packed(&[("batch_first", "True")]).with_names(&["query", name]);
        layer.run_one(&[&x, &padding]).unwrap()
    };
    assert_eq!(run("attn_mask"), run("key_padding_mask"));
}

#[test]
fn masks_are_checked() {
    let infer = |name, query: &[usize], mask: TensorMeta| {
        let query = TensorMeta::new(DType::F64, query.iter().copied());
        packed(&[("batch_first", "True")]).with_names(&["query", name]).infer(&[query, mask])
    };
    let padding = |shape: &[usize]| TensorMeta::new(DType::Bool, shape.iter().copied());
    let batched = &[2, 3, 4];
    assert!(infer("key_padding_mask", batched, padding(&[2, 3])).is_ok());
    assert!(infer("key_padding_mask", &[3, 4], padding(&[3])).is_ok());
    let fails = [
        (&batched[..], &[3, 2][..]),
        (batched, &[6]),
        (batched, &[1, 3]),
        (&[3, 4], &[1, 3]),
        (&[3, 4], &[2]),
    ];
    for (query, shape) in fails {
        let error = infer("key_padding_mask", query, padding(shape)).unwrap_err();
        assert!(error.to_string().contains("key_padding_mask"), "{shape:?}: {error}");
    }
    for shape in [&[3, 3][..], &[4, 3, 3]] {
        assert!(infer("attn_mask", batched, padding(shape)).is_ok(), "{shape:?}");
    }
    for shape in [&[1, 3][..], &[3, 4], &[1, 3, 3], &[2, 3, 3], &[2, 2, 3, 3]] {
        let error = infer("attn_mask", batched, padding(shape)).unwrap_err();
        assert!(error.to_string().contains("4×3×3"), "{shape:?}: {error}");
    }
    for name in ["attn_mask", "key_padding_mask"] {
        let shape = if name == "attn_mask" { [3, 3] } else { [2, 3] };
        assert!(infer(name, batched, TensorMeta::new(DType::F16, shape)).is_ok());
        let error = infer(name, batched, TensorMeta::new(DType::I64, shape)).unwrap_err();
        assert!(matches!(error, LayerError::DType { .. }), "{error}");
        let unknown = TensorMeta::new(DType::Bool, [Dim::symbol("n"), Dim::symbol("s")]);
        assert!(infer(name, batched, unknown).is_ok());
        packed(&[]).with_names(&["query", name]).survives(2);
    }
}

#[test]
fn memory_is_limited() {
    let (rows, padding) = (2000, tensor(&[1, 2000], &[false; 2000]));
    let layer = packed(&[("batch_first", "True")]).with_names(&["query", "key_padding_mask"]);
    let run = |bytes: usize| {
        let x = waves(&[1, rows, 4]);
        let mut layer = layer.create(2).unwrap();
        let inputs = [x.view(), padding.view()];
        let metas = inputs.iter().map(TensorMeta::of).collect::<Vec<_>>();
        let inferred = layer.infer(&metas).unwrap();
        let mut workspace = Workspace::new().unwrap();
        workspace.reserve(layer.workspace(&metas, &inferred)).unwrap();
        let limits = Limits { max_tensor_bytes: bytes as u64, ..Limits::default() };
        let mut output = Tensor::zeros(DType::F64, &[1, rows, 4]).unwrap();
        let mut context = ForwardContext::new(&mut workspace, &limits);
        layer.forward(&mut Io::new(&inputs, &mut [output.view_mut().unwrap()], &mut context))
    };
    // An input, three projections, the heads' results and their projection; the scores alone would be 2·2000·2000.
    run(rows * 4 * 6 * 8).unwrap();
    let error = run(rows * 4 * 6 * 8 - 1).unwrap_err().to_string();
    assert!(error.contains("projections"), "{error}");
}

#[test]
fn weights_are_checked() {
    assert!(operator("nn.MultiheadAttention", &COMMON).create(1).is_err());
    assert!(packed(&[("add_bias_kv", "True")]).create(1).is_err());
    assert!(packed(&[("kdim", "3")]).create(1).is_err());
    let odd = [("embed_dim", "4"), ("num_heads", "3")];
    assert!(operator("nn.MultiheadAttention", &odd).create(1).is_err());
    packed(&[]).survives(1);
    packed(&[]).survives(2);
}

const MASKED: &[f64] = &[
    1.1652722772909703,
    -0.23125572303484776,
    0.537656728452607,
    0.06557341756010782,
    0.7866292872185932,
    -1.4328346507344405,
    2.4165743467089884,
    -1.8347254943298568,
    1.2671241241235411,
    -0.04021980970486039,
    0.900141762484308,
    0.07532681056193025,
    0.17779001833521035,
    -0.4173812901588214,
    1.7790060786973618,
    -1.0471566579948215,
    0.5360578623241055,
    -0.0706354307771136,
    1.5076956610556655,
    -0.9964945954902183,
    0.968562184403658,
    -0.3861945104035656,
    0.8713870737116391,
    -1.2577096838511204,
];
const MASKED_WEIGHTS: &[f64] = &[
    0.3666781878958586,
    0.6333218121041413,
    0.0,
    0.8355981424853711,
    0.16440185751462896,
    0.0,
    0.5131532947202417,
    0.48684670527975815,
    0.0,
    0.4459539044931786,
    0.16244802219326693,
    0.3915980733135544,
    0.46669958638880926,
    0.22726096431239617,
    0.3060394492987947,
    0.4362887244708442,
    0.48256616058832175,
    0.08114511494083404,
];
const SELF: &[f64] = &[
    1.0434314309563941,
    -0.6052930501591526,
    1.1134384297251205,
    -0.5114274218202837,
    -0.17937171205742897,
    -1.1886049678769628,
    1.492200387287567,
    -1.174912087376228,
    1.0615325722260305,
    -0.2303298623843969,
    0.9048860660345075,
    -0.09029115020213152,
    -0.3370514985767554,
    -2.2196253443903515,
    2.2639485635276406,
    -1.804982040883184,
    1.0330763461407158,
    -1.1169187611677003,
    2.041435938417587,
    -1.4045330585585951,
    1.1597565964679721,
    0.0737253393619314,
    1.6537604566157942,
    -1.2282523867289576,
];
const SELF_WEIGHTS: &[f64] = &[
    0.35537004899877145,
    0.4767362769787459,
    0.16789367402248276,
    0.1840933973656666,
    0.21243434898564378,
    0.6034722536486895,
    0.4210887217812648,
    0.4798188873158452,
    0.09909239090288999,
    0.11793202715093473,
    0.4155545910670112,
    0.4665133817820542,
    0.09791562212058308,
    0.5867311177984644,
    0.31535326008095244,
    0.22638281542704122,
    0.4820102056765416,
    0.2916069788964171,
];
const EXTRA: &[f64] = &[
    0.05962787263134839,
    -0.7697036234854151,
    1.8523464088858845,
    -1.8476007524828157,
    0.34728424406740244,
    -0.6663953949899133,
    0.5172624751236077,
    -0.36929178677247143,
    -1.3310313968100327,
    0.39254403552469064,
    0.08261243299828956,
    -0.6505982686148652,
    0.02313442979522784,
    -0.5450871338502474,
    0.8980247468966558,
    -1.0053291062579843,
    1.9204554992408802,
    -1.4152746231504876,
    1.3845292069498096,
    -1.1176180719485307,
    -0.27470171969107493,
    0.32665028243861105,
    0.7865222311033211,
    -0.4561806712031636,
];
const EXTRA_WEIGHTS: &[f64] = &[
    0.6032655144622145,
    0.0,
    0.14939126902891453,
    0.11356965441057826,
    0.1337735620982927,
    0.311673294698822,
    0.17302410388610823,
    0.0,
    0.24577431198378336,
    0.2695282894312864,
    0.1455138803849738,
    0.0,
    0.19522942232758378,
    0.3875806706218198,
    0.2716760266656227,
    0.13622301947086254,
    0.7012212724608597,
    0.0,
    0.06791842354374644,
    0.09463728452453145,
    0.07298247481611404,
    0.0,
    0.452145844555204,
    0.2754692895520163,
    0.19940239107666566,
    0.03431315721238794,
    0.23840335597523174,
    0.0,
    0.35472369726700714,
    0.3725597895453733,
];
const DIMS: &[f64] = &[
    -1.1011904230845166,
    -0.15684220963204032,
    0.06277700309774917,
    -0.32790183887960433,
    -0.40505836773050763,
    -0.16940608496481158,
    0.168452748279189,
    -0.20623553906876932,
    -0.05673426124498499,
    -0.008619945917347802,
    -0.0004823523490643236,
    0.024388299939677633,
    -0.5876471800497924,
    -0.6665031440426294,
    0.890341013068756,
    -0.49602437931558907,
    -0.9915801091712555,
    -0.7649092105513019,
    0.985599478262247,
    -0.6274847586599581,
    0.07281141534337121,
    -0.7308990195752056,
    1.0931947144273613,
    -0.43140770701769926,
];
const DIMS_WEIGHTS: &[f64] = &[
    0.37712955651400115,
    0.16086216882899457,
    0.18254210396239218,
    0.21872125582752652,
    0.06074491486708559,
    0.25637560216246214,
    0.3309791792418472,
    0.09041471315643711,
    0.12683093942151485,
    0.19539956601773878,
    0.12163965668184598,
    0.09930386367493851,
    0.39943001298776715,
    0.25910520625616684,
    0.12052126039928143,
    0.0,
    0.20247563012231926,
    0.34111102921184855,
    0.4564133406658322,
    0.0,
    0.0,
    0.19804667608382803,
    0.22811639076975357,
    0.5738369331464184,
    0.0,
    0.0,
    0.5445780283571121,
    0.17264356886773774,
    0.2827784027751502,
    0.0,
];
const UNBATCHED: &[f64] = &[
    1.104826528171365,
    -0.34276878756780294,
    0.4161496967001533,
    0.038520746794989624,
    -0.34445491720699495,
    -1.302907117991102,
    1.1363556468447022,
    -1.1203710321496734,
    1.1704217692400476,
    -0.18224738492669462,
    0.6881534281892743,
    0.04400898198341907,
];
