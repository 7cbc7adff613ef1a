//! Tests of the distributions. Every run draws the same numbers, so the tests are deterministic.

use super::*;
use crate::support::testing::{assert_close, operator, tensor};
use ixion_tensor::Tensor;

const COUNT: usize = 20_000;

/// [`COUNT`] numbers drawn by an operator, sorted.
fn drawn(op_type: &str, params: &[(&str, &str)], value: f64) -> Vec<f64> {
    drawn_of(DType::F64, op_type, params, value)
}

/// As [`drawn`], of another element type.
fn drawn_of(dtype: DType, op_type: &str, params: &[(&str, &str)], value: f64) -> Vec<f64> {
    let like = Tensor::full(&[COUNT], value).unwrap().cast(dtype).unwrap();
    let values = operator(op_type, params).run_one(&[&like]).unwrap();
    assert_eq!(values.dtype(), dtype);
    let mut values = values.cast(DType::F64).unwrap().to_vec::<f64>().unwrap();
    values.sort_by(f64::total_cmp);
    values
}

/// The Kolmogorov–Smirnov test: the largest distance between the distribution function and the samples is below 1.95/√n in
/// 999 of 1,000 cases; the samples are the same in every run.
fn assert_distributed(values: &[f64], what: &str, distribution: impl Fn(f64) -> f64) {
    let count = values.len() as f64;
    let distance = values.iter().enumerate().fold(0.0f64, |most, (index, &value)| {
        let (at, below) = (distribution(value), index as f64 / count);
        most.max((at - below).abs()).max((at - below - 1.0 / count).abs())
    });
    assert!(distance * count.sqrt() < 1.95, "{what}: {distance}");
}

/// The χ² test for integers: the observed counts against the expected ones.
fn assert_counted(values: &[f64], what: &str, wanted: &[(f64, f64)]) {
    let mut chi = 0.0;
    for &(value, share) in wanted {
        let found = values.iter().filter(|&&found| found == value).count() as f64;
        let expected = share * values.len() as f64;
        chi += (found - expected).powi(2) / expected;
    }
    let share = 1.0 - wanted.iter().map(|(_, share)| share).sum::<f64>();
    let others = values.iter().filter(|&value| wanted.iter().all(|(known, _)| known != value)).count() as f64;
    if share > 1e-9 {
        let expected = share * values.len() as f64;
        chi += (others - expected).powi(2) / expected;
    } else {
        assert_eq!(others, 0.0, "{what}: values that should never be drawn");
    }
    // Five standard deviations above the mean of χ² for this number of values.
    let free = wanted.len() as f64;
    assert!(chi < free + 5.0 * (2.0 * free).sqrt(), "{what}: χ² is {chi} for {free} values");
}

/// Narrower types round samples by a thousandth at most, far less than the test can detect.
#[test]
fn continuous_distributions() {
    for dtype in [DType::F64, DType::F32, DType::F16] {
        let drawn = |op_type, params: &[(&str, &str)], value| drawn_of(dtype, op_type, params, value);
        let uniform = drawn("aten::uniform", &[("from", "-2.0"), ("to", "3.0")], 0.0);
        assert_distributed(&uniform, "uniform", |x| (x + 2.0) / 5.0);
        let exponential = drawn("aten::exponential", &[("lambd", "2.0")], 0.0);
        assert_distributed(&exponential, "exponential", |x| 1.0 - (-2.0 * x).exp());
        let cauchy = drawn("aten::cauchy", &[("median", "1.0"), ("sigma", "0.5")], 0.0);
        assert_distributed(&cauchy, "cauchy", |x| 0.5 + ((x - 1.0) / 0.5).atan() / std::f64::consts::PI);
        let normal = drawn("aten::log_normal", &[("mean", "0.5"), ("std", "0.25")], 0.0);
        let cumulative = |x: f64| 0.5 * libm::erfc(-(x.ln() - 0.5) / 0.25 / std::f64::consts::SQRT_2);
        assert_distributed(&normal, "log normal", cumulative);
        let rrelu = [("lower", "0.25"), ("upper", "0.75"), ("training", "True")];
        assert_distributed(&drawn("aten::rrelu", &rrelu, -1.0), "rrelu", |x| (x + 0.75) / 0.5);
        let asked = match dtype {
            DType::F64 => "torch.double",
            DType::F32 => "torch.float",
            _ => "torch.half",
        };
        let rand = operator("aten::rand", &[("size", "(20000)"), ("dtype", asked)]).run_one(&[]).unwrap();
        let mut rand = rand.cast(DType::F64).unwrap().to_vec::<f64>().unwrap();
        rand.sort_by(f64::total_cmp);
        assert_distributed(&rand, "rand", |x| x);
    }
}

/// Bounds with hardly any number between them, so that rounding would give the upper one.
#[test]
fn the_upper_bound_is_never_drawn() {
    for (dtype, from, to) in [
        (DType::F32, "1.0", "1.000001"),
        (DType::F16, "1.0", "1.01"),
        (DType::Bf16, "-1.0", "1.0"),
        (DType::F16, "-0.5", "0.0"),
    ] {
        let found = drawn_of(dtype, "aten::uniform", &[("from", from), ("to", to)], 0.0);
        let [from, to] = [from, to].map(|bound| bound.parse::<f64>().unwrap());
        assert!(found.iter().all(|x| (from..to).contains(x)), "{dtype}: {from} to {to}, {:?}", found.last());
    }
    let all = drawn_of(DType::F32, "aten::uniform", &[("from", "2.0"), ("to", "2.0")], 0.0);
    assert!(all.iter().all(|&x| x == 2.0));
    let half = Tensor::zeros(DType::F16, &[2]).unwrap();
    assert!(operator("aten::uniform", &[("to", "1e5")]).run(&[&half]).is_err());
}

#[test]
fn integers_as_large_as_their_type() {
    let params = [("low", "4611686018427387904"), ("high", "4611686018427387907"), ("size", "(300)")];
    let found = operator("aten::randint", &params).run_one(&[]).unwrap().to_vec::<i64>().unwrap();
    for wanted in 0..3 {
        assert!(found.contains(&((1 << 62) + wanted)), "{wanted} is never drawn");
    }
    let of = |dtype, low, high| {
        let params = [("low", low), ("high", high), ("size", "(300)"), ("dtype", dtype)];
        operator("aten::randint", &params).run_one(&[])
    };
    let bytes = of("torch.uint8", "0", "256").unwrap().to_vec::<u8>().unwrap();
    assert!(bytes.iter().any(|&byte| byte > 127));
    assert!(of("torch.uint8", "0", "257").is_err() && of("torch.uint8", "-1", "2").is_err());
    assert!(of("torch.int8", "0", "256").is_err() && of("torch.bool", "0", "2").is_ok());
    assert!(of("torch.half", "0", "70000").is_err());
    assert!(operator("aten::randperm", &[("n", "300"), ("dtype", "torch.uint8")]).run(&[]).is_err());
}

#[test]
fn integer_distributions() {
    let dice: Vec<(f64, f64)> = (1..7).map(|side| (f64::from(side), 1.0 / 6.0)).collect();
    assert_counted(&drawn("aten::randint_like", &[("low", "1"), ("high", "7")], 0.0), "randint_like", &dice);
    let randint = operator("aten::randint", &[("low", "1"), ("high", "7"), ("size", "(100,200)")]);
    let randint = randint.run_one(&[]).unwrap();
    assert_eq!(randint.dtype(), DType::I64);
    let randint: Vec<f64> = randint.to_vec::<i64>().unwrap().into_iter().map(|side| side as f64).collect();
    assert_counted(&randint, "randint", &dice);
    let coin = [(1.0, 0.3), (0.0, 0.7)];
    assert_counted(&drawn("aten::bernoulli", &[("p", "0.3")], 0.9), "bernoulli", &coin);
    assert_counted(&drawn("aten::bernoulli", &[], 0.3), "bernoulli of the input", &coin);
    let trials: Vec<(f64, f64)> = (1..12).map(|n| (f64::from(n), 0.4 * 0.6f64.powi(n - 1))).collect();
    assert_counted(&drawn("aten::geometric", &[("p", "0.4")], 0.0), "geometric", &trials);
    let mut share = (-2.5f64).exp();
    let mut poisson = Vec::new();
    for n in 0..9 {
        poisson.push((f64::from(n), share));
        share *= 2.5 / f64::from(n + 1);
    }
    assert_counted(&drawn("aten::poisson", &[], 2.5), "poisson", &poisson);
}

#[test]
fn indices_are_drawn_by_their_weights() {
    let weights = tensor(&[4], &[1.0f64, 0.0, 5.0, 2.0]);
    let params = [("num_samples", "20000"), ("replacement", "True")];
    let places = operator("aten::multinomial", &params).run_one(&[&weights]).unwrap();
    let places: Vec<f64> = places.to_vec::<i64>().unwrap().into_iter().map(|place| place as f64).collect();
    assert_counted(&places, "multinomial", &[(0.0, 0.125), (2.0, 0.625), (3.0, 0.25)]);
    assert!(!places.contains(&1.0));
    let some = operator("aten::multinomial", &[("num_samples", "3")]).run_one(&[&weights]).unwrap();
    let mut some = some.to_vec::<i64>().unwrap();
    some.sort_unstable();
    assert_eq!(some, [0, 2, 3]);
    assert!(operator("aten::multinomial", &[("num_samples", "4")]).run(&[&weights]).is_err());
    assert!(operator("aten::multinomial", &[("num_samples", "5")]).run(&[&weights]).is_err());
    let wrong = tensor(&[2], &[1.0f64, -1.0]);
    assert!(operator("aten::multinomial", &params).run(&[&wrong]).is_err());
    operator("aten::multinomial", &params).survives(1);
}

#[test]
fn a_permutation_has_every_number_once() {
    let numbers = operator("aten::randperm", &[("n", "100")]).run_one(&[]).unwrap();
    let mut numbers = numbers.to_vec::<i64>().unwrap();
    assert_ne!(numbers, (0..100).collect::<Vec<_>>());
    numbers.sort_unstable();
    assert_eq!(numbers, (0..100).collect::<Vec<_>>());
}

/// Every number is equally often at every position.
#[test]
fn permutations_are_all_as_likely() {
    const LEN: usize = 6;
    let (mut counts, mut rng) = ([[0.0f64; LEN]; LEN], Seed(7).rng());
    for _ in 0..6_000 {
        let numbers = shuffled(LEN, &mut rng, &ixion_tensor::Limits::default()).unwrap();
        numbers.iter().enumerate().for_each(|(place, &number)| counts[place][number as usize] += 1.0);
    }
    let chi: f64 = counts.iter().flatten().map(|count| (count - 1_000.0).powi(2) / 1_000.0).sum();
    // With (LEN − 1)² degrees of freedom: five standard deviations above the mean, and not suspiciously even.
    let free = ((LEN - 1) * (LEN - 1)) as f64;
    assert!(chi < free + 5.0 * (2.0 * free).sqrt() && chi > free / 4.0, "χ² is {chi}");
}

/// The first of two indices is drawn in proportion to the weights, the second in proportion to the remaining weights.
#[test]
fn indices_are_drawn_without_replacement() {
    let weights = [1.0f64, 2.0, 5.0].repeat(COUNT);
    let rows = Tensor::from_vec(weights, &[COUNT, 3]).unwrap();
    let pairs = operator("aten::multinomial", &[("num_samples", "2")]).run_one(&[&rows]).unwrap();
    let pairs: Vec<f64> =
        pairs.to_vec::<i64>().unwrap().chunks(2).map(|pair| (pair[0] * 3 + pair[1]) as f64).collect();
    let share = |a: f64, b: f64| a / 8.0 * b / (8.0 - a);
    let wanted = [
        (1.0, share(1.0, 2.0)),
        (2.0, share(1.0, 5.0)),
        (3.0, share(2.0, 1.0)),
        (5.0, share(2.0, 5.0)),
        (6.0, share(5.0, 1.0)),
        (7.0, share(5.0, 2.0)),
    ];
    assert_counted(&pairs, "multinomial without replacement", &wanted);
}

/// Many draws from a long row take no longer.
#[test]
fn many_draws_from_a_long_row() {
    let weights = Tensor::ones(DType::F32, &[200_000]).unwrap();
    for replacement in ["True", "False"] {
        let params = [("num_samples", "100000"), ("replacement", replacement)];
        let places = operator("aten::multinomial", &params).run_one(&[&weights]).unwrap();
        let mean = places.to_vec::<i64>().unwrap().iter().sum::<i64>() as f64 / 1e5;
        assert!((mean - 1e5).abs() < 1e3, "{mean}");
    }
}

#[test]
fn draws_check_the_deadline() {
    let late =
        ixion_tensor::Limits { deadline: Some(std::time::Instant::now()), ..ixion_tensor::Limits::default() };
    let mut rng = Seed(1).rng();
    assert!(shuffled(200_000, &mut rng, &late).is_err());
    let (weights, mut drawn) = ([1.0, 2.0], Vec::new());
    let places = Places::new(&weights).unwrap();
    assert!(places.draw(10, &mut rng, &late, &mut drawn).is_err());
    assert!(places.draw_once(1, &mut rng, &late, &mut drawn).is_err());
    assert!(drawn.is_empty());
}

#[test]
fn without_training_slopes_are_their_mean() {
    let rrelu = operator("aten::rrelu", &[("lower", "0.25"), ("upper", "0.75")]);
    assert_close(&rrelu.run_one(&[&tensor(&[3], &[-2.0f64, 0.0, 3.0])]).unwrap(), &[3], &[-1.0, 0.0, 3.0]);
}

#[test]
fn invalid_distributions() {
    for (op_type, params) in [
        ("aten::randint_like", [("low", "3"), ("high", "3")]),
        ("aten::uniform", [("from", "1.0"), ("to", "0.0")]),
        ("aten::cauchy", [("median", "0.0"), ("sigma", "0.0")]),
        ("aten::log_normal", [("mean", "0.0"), ("std", "-1.0")]),
    ] {
        assert!(operator(op_type, &params).create(1).is_err(), "{op_type}");
    }
    assert!(operator("aten::geometric", &[("p", "1.0")]).create(1).is_err());
    let seldom = drawn("aten::geometric", &[("p", "1e-17")], 0.0);
    assert!(
        seldom.iter().all(|&trials| trials > 1e10),
        "a trial that hardly ever succeeds takes no time to draw"
    );
    let run = |op_type, value: f64| operator(op_type, &[]).run(&[&tensor(&[1], &[value])]);
    assert!(run("aten::bernoulli", 1.5).is_err() && run("aten::poisson", -1.0).is_err());
    assert!(run("aten::poisson", f64::NAN).is_err());
    for op_type in ["aten::bernoulli", "aten::poisson", "aten::exponential", "aten::uniform", "aten::rrelu"] {
        operator(op_type, &[]).survives(1);
    }
}
