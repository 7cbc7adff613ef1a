//! Attention against values that PyTorch computes from [`waves`].

use super::*;
use crate::support::testing::{assert_close, operator, tensor, waves};

const NAMES: [&str; 4] = ["query", "key", "value", "attn_mask"];

fn attention(params: &[(&str, &str)], inputs: &[&Tensor]) -> Result<Tensor> {
    operator("F.scaled_dot_product_attention", params).with_names(&NAMES).run_one(inputs)
}

#[test]
fn results_are_those_of_pytorch() {
    let (q, k, v) = (waves(&[1, 2, 3, 2]), waves(&[1, 2, 4, 2]), waves(&[1, 2, 4, 3]));
    let shape = [1, 2, 3, 3];
    assert_close(
        &attention(&[("attn_mask", "None"), ("dropout_p", "0.5")], &[&q, &k, &v]).unwrap(),
        &shape,
        PLAIN,
    );
    assert_close(
        &attention(&[("is_causal", "True"), ("scale", "0.5")], &[&q, &k, &v]).unwrap(),
        &shape,
        CAUSAL,
    );
    let mask = [1, 1, 0, 1, 0, 0, 0, 0, 0, 1, 1, 1].map(|x| x == 1);
    assert_close(&attention(&[], &[&q, &k, &v, &tensor(&[3, 4], &mask)]).unwrap(), &shape, MASKED);
    assert_close(&attention(&[], &[&q, &k, &v, &waves(&[3, 4])]).unwrap(), &shape, ADDED);
    let many = waves(&[1, 4, 3, 2]);
    assert_close(&attention(&[("enable_gqa", "True")], &[&many, &k, &v]).unwrap(), &[1, 4, 3, 3], GROUPED);
}

#[test]
fn mismatched_shapes_and_types() {
    let q = waves(&[1, 2, 3, 2]);
    assert!(attention(&[], &[&q, &waves(&[1, 2, 4, 3]), &q]).is_err());
    assert!(attention(&[], &[&q, &q, &waves(&[1, 2, 4, 2])]).is_err());
    assert!(attention(&[], &[&q, &q, &q, &waves(&[2, 3])]).is_err());
    assert!(
        attention(&[("enable_gqa", "True")], &[&waves(&[3, 1, 2]), &waves(&[2, 1, 2]), &waves(&[2, 1, 2])])
            .is_err()
    );
    let half = q.cast(DType::F16).unwrap();
    assert_eq!(attention(&[], &[&half, &half, &half]).unwrap().dtype(), DType::F16);
    assert!(attention(&[], &[&half, &q, &q]).is_err());
    operator("F.scaled_dot_product_attention", &[]).survives(3);
    operator("F.scaled_dot_product_attention", &[("enable_gqa", "True")]).survives(3);
    operator("F.scaled_dot_product_attention", &[("is_causal", "True")]).survives(4);
}

#[test]
fn a_causal_mask_excludes_another_mask() {
    let q = waves(&[1, 2, 3, 2]);
    let run = |causal| attention(&[("is_causal", causal)], &[&q, &q, &q, &waves(&[3, 3])]);
    let error = run("True").unwrap_err().to_string();
    assert!(error.contains("is_causal") && error.contains("attn_mask"), "{error}");
    run("False").unwrap();
}

#[test]
fn without_elements_to_compare_rows_are_the_mean() {
    let (empty, v) = (waves(&[2, 3, 0]), waves(&[2, 3, 2]));
    let mean = [-13.0 / 12.0, -7.0 / 6.0, 13.0 / 12.0, 11.0 / 12.0];
    let want: Vec<f64> = mean.chunks(2).flat_map(|row| row.repeat(3)).collect();
    assert_close(&attention(&[], &[&empty, &empty, &v]).unwrap(), &[2, 3, 2], &want);
    let causal = attention(&[("is_causal", "True")], &[&empty, &empty, &v]).unwrap();
    let [a, b, c, d] = mean;
    let want = [-2.75, -0.25, -1.375, -1.125, a, b, 1.5, 2.0, 0.875, 2.0, c, d];
    assert_close(&causal, &[2, 3, 2], &want);
}

#[test]
fn nan_spreads_from_behind_the_mask() {
    let mut v = waves(&[1, 2, 3, 3]).to_vec::<f64>().unwrap();
    v[6] = f64::NAN;
    let (q, v) = (waves(&[1, 2, 3, 2]), tensor(&[1, 2, 3, 3], &v));
    let causal = attention(&[("is_causal", "True")], &[&q, &q, &v]).unwrap();
    assert_close(&causal, &[1, 2, 3, 3], NAN_BEHIND);
    let seen = [1, 0, 0, 1, 1, 0, 1, 1, 1].map(|x| x == 1);
    let masked = attention(&[], &[&q, &q, &v, &tensor(&[3, 3], &seen)]).unwrap();
    assert_close(&masked, &[1, 2, 3, 3], NAN_BEHIND);
}

const NAN_BEHIND: &[f64] = &[
    f64::NAN,
    -0.25,
    0.0,
    f64::NAN,
    -0.48059037398289534,
    -1.1529518699144767,
    f64::NAN,
    0.270551496816364,
    -0.5033356833490286,
    2.0,
    1.5,
    -1.25,
    0.887547565664913,
    -0.05743340806912178,
    -0.6937737828324565,
    -0.13476351058941985,
    -2.5152006668596387,
    -1.6990856056652743,
];
const PLAIN: &[f64] = &[
    -2.681958450330277,
    -0.21821517824129838,
    -0.0044719061523199,
    -1.1891739543995954,
    0.12319678218759593,
    -0.8144324812252126,
    -1.1805196280305998,
    0.2801558909668247,
    -0.5091685900357508,
    -0.3897793829534508,
    -2.017326954139124,
    -0.14487452532479694,
    -0.36531063814550757,
    -1.9959133066660533,
    -0.12651597518659924,
    0.4607568659466167,
    -2.329027656276516,
    -1.6188121784996496,
];
const CAUSAL: &[f64] = &[
    -2.75,
    -0.25,
    0.0,
    -2.111035398523767,
    -0.4629882004920777,
    -1.0649410024603883,
    -1.1654503302231412,
    0.3164620682715452,
    -0.4516255332337682,
    -0.5,
    -2.0,
    0.0,
    -0.4891585503090233,
    -2.03252434907293,
    -0.07589014783683677,
    0.5006354917539508,
    -2.2161322700445285,
    -1.4329000318430078,
];
const MASKED: &[f64] = &[
    -2.7443513603764993,
    -0.25130993557162146,
    -0.00826851076674368,
    0.0,
    0.0,
    0.0,
    -0.6391622424153128,
    0.46302138723436187,
    -0.6847949831159631,
    -0.39440708214325143,
    -2.01919485860105,
    -0.1439826350588484,
    0.0,
    0.0,
    0.0,
    0.471715038436303,
    -2.332780470270516,
    -1.6372759789773346,
];
const ADDED: &[f64] = &[
    -1.9438965430056288,
    0.13764785468110302,
    -0.030807747632165424,
    0.8698148979106697,
    1.55926063832681,
    -0.0012936212570498137,
    -1.1608344671988655,
    0.15125305984382936,
    -0.7866594131134758,
    -0.2331569229150533,
    -2.1925843418064153,
    -0.6520117606977769,
    0.5891755581622523,
    -1.904291568942594,
    -0.8977586960474397,
    0.12698679754637254,
    -2.499435187177435,
    -1.6258571719012422,
];
const GROUPED: &[f64] = &[
    -2.681958450330277,
    -0.21821517824129838,
    -0.0044719061523199,
    -1.1891739543995954,
    0.12319678218759593,
    -0.8144324812252126,
    -1.1805196280305998,
    0.2801558909668247,
    -0.5091685900357508,
    1.9943887391743036,
    1.4983846164541876,
    -1.247619506265928,
    1.8957943482710427,
    1.4649478074935425,
    -1.2158987332839584,
    -0.8853847564272702,
    0.21825299465645903,
    -0.9281092542598116,
    2.331285643404413,
    -1.083871330661416,
    -0.9990283047272461,
    1.3867336565104846,
    -1.7497092413033544,
    -1.3861521391171931,
    2.7218689522245585,
    -0.8085103124426212,
    -0.838889577109801,
    -0.0802728174538092,
    -2.653033223745504,
    -1.7257936300371992,
    -0.4518082698710208,
    -1.9963818959477793,
    -0.04095552202453695,
    2.6928757650102297,
    -0.8052089773303406,
    -0.803293719670912,
];
