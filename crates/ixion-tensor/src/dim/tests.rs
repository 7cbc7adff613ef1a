use super::*;
use proptest::prelude::*;

fn symbols() -> [Dim; 4] {
    ["n", "h", "w", "c"].map(Dim::symbol)
}

#[test]
fn numbers_fold_and_identities_vanish() {
    let n = Dim::symbol("n");
    assert_eq!(Dim::from(7usize).floor_div(2) + 1, 4i64);
    assert_eq!(Dim::from(7usize).ceil_div(2), 4i64);
    assert_eq!(n.clone() + 0 - 0, n.clone() * 1);
    assert_eq!(n.clone() - n.clone(), 0i64);
    assert_eq!(n.clone() * Dim::Fixed(0), 0i64);
    assert_eq!(n.clone().max(n.clone()), n);
    assert_ne!(Dim::fresh("n"), Dim::fresh("n"));
}

#[test]
fn extremes_saturate() {
    assert_eq!(Dim::Fixed(i64::MAX) + 1, i64::MAX);
    assert_eq!(Dim::Fixed(i64::MIN).floor_div(-1), i64::MAX);
    assert_eq!(Dim::Fixed(5).floor_div(0), 0i64);
    assert_eq!(Dim::from(usize::MAX), i64::MAX);
    let huge = Dim::symbol("n") * i64::MAX * 3 + i64::MIN;
    assert_eq!(huge.evaluate(&|_| Some(2)), Some(-1));
    assert_eq!((huge.clone() - huge.max(i64::MIN)).floor_div(-1), 0i64);
}

#[test]
fn expressions_print_as_one_would_write_them() {
    let [a, b] = ["a", "b"].map(Dim::symbol);
    assert_eq!(((a.clone() + b.clone()) * 2).to_string(), "a * 2 + b * 2");
    assert_eq!(((a.clone() + b.clone()) * b.clone()).to_string(), "b * (a + b)");
    assert_eq!((a.clone() - (b.clone() - 1)).to_string(), "a + 1 - b");
    assert_eq!((Dim::Fixed(-2) - b.clone() * 3).to_string(), "-b * 3 - 2");
    assert_eq!(a.clone().floor_div(b.clone() * 2).to_string(), "a / (b * 2)");
    assert_eq!((a.clone().floor_div(2) * b.clone()).to_string(), "b * (a / 2)");
    assert_eq!((a.clone().min(b) + 2).ceil_div(3).to_string(), "(min(a, b) + 1) / 3 + 1");
    assert_eq!((a - 2).max(0).to_string(), "max(a - 2, 0)");
}

#[test]
fn equal_expressions_compare_equal() {
    let [n, h, w, c] = symbols();
    let (n, h, w, c) = (|| n.clone(), || h.clone(), || w.clone(), || c.clone());
    let equal: &[(Dim, Dim)] = &[
        ((n() * 4).floor_div(4), n()),
        (n() + 2 - 2, n()),
        (n() + 1 + 1, n() + 2),
        (w() + h() * n(), n() * h() + w()),
        ((n() * h() * w()).floor_div(h() * w()), n()),
        ((n() * h() * 12).floor_div(h() * 4), n() * 3),
        ((n() * h() * 12).floor_div(n() * 8), (h() * 3).floor_div(2)),
        (n().min(i64::MAX), n()),
        (n().max(0), n()),
        (n().min(n() + 3), n()),
        (n().min(n().floor_div(2)), n().floor_div(2)),
        ((n() - 3).max(0).min(n()), (n() - 3).max(0)),
        ((n() * 2 + 6).floor_div(4), (n() + 3).floor_div(2)),
        (n().ceil_div(2), (n() + 1).floor_div(2)),
        ((n() + 2 - 3).floor_div(2) + 1, n().ceil_div(2)),
        // Five convolutions of stride 2.
        ((0..5).fold(h(), |h, _| (h + 2 - 3).floor_div(2) + 1), h().ceil_div(32)),
        (n() - n().floor_div(2) + n().floor_div(2), n()),
        ((n() * (h() + 1) * (w() + 1)).floor_div((w() + 1) * (h() + 1)), n()),
        ((n() * 2 + 2) * c() * 3, c() * (n() + 1) * 6),
        ((n() * 2 + 2).floor_div(n() + 1), Dim::Fixed(2)),
        ((n() * h() + w()).floor_div(h()), n() + w().floor_div(h())),
        ((n() * h()).ceil_div(h()), n()),
        ((h() * w()).ceil_div(n()), (w() * h()).ceil_div(n())),
        (h().max(w()), w().max(h())),
        (n() - n().min(1), (n() - 1).max(0)),
        ((n() - 1).max(0) + 1, n().max(1)),
        (n().max(2).max(5), n().max(5)),
    ];
    for (left, right) in equal {
        assert_eq!(left, right, "{left} and {right}");
    }
    assert!((n() + 1).differs(&n()) && !n().differs(&h()));
    assert!((n() * h()).is_natural() && (n() - n().floor_div(2)).is_natural() && !(n() - 1).is_natural());
}

#[test]
fn expressions_do_not_grow_without_bound() {
    let [n, h, ..] = symbols();
    let mut dim = n.clone();
    for _ in 0..100 {
        dim = (dim.clone() * dim.clone() + 1).max(dim * h.clone());
        assert!(dim.to_string().len() < 10_000);
    }
    let long = (0..1000).fold(Dim::Fixed(0), |sum, index| sum + Dim::symbol(format!("x{index}")));
    assert!(long.evaluate(&|name| name.starts_with('x').then_some(1)).is_none());
}

/// An expression as a list of operations on earlier results.
#[derive(Debug, Clone)]
struct Program(Vec<(u8, usize, usize, i64)>);

impl Program {
    /// The expression and its value; `None` on division by zero or if a product is too large.
    fn run(&self, values: &[i64; 4]) -> Option<(Dim, i64)> {
        let mut stack: Vec<(Dim, i64)> = symbols().into_iter().zip(values.iter().copied()).collect();
        for &(operation, left, right, number) in &self.0 {
            let (x, a) = stack[left % stack.len()].clone();
            let (y, b) = match right % 3 {
                0 => (Dim::Fixed(number), number),
                _ => stack[right % stack.len()].clone(),
            };
            stack.push(match operation {
                0 | 1 => (x + y, a + b),
                2 => (x - y, a - b),
                3 | 4 => (x * y, a.checked_mul(b).filter(|product| product.abs() < 1 << 40)?),
                5 | 6 => (x.floor_div(y), floor_div(a, Some(b).filter(|&b| b != 0)?)),
                7 => (x.ceil_div(y), ceil_div(a, Some(b).filter(|&b| b != 0)?)),
                8 => (x.max(y), a.max(b)),
                _ => (x.min(y), a.min(b)),
            });
        }
        stack.pop()
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_normal_form_has_the_plain_value(
        steps in prop::collection::vec((0u8..10, 0usize..64, 0usize..64, -9i64..40), 1..12),
        values in prop::array::uniform4(0i64..30),
    ) {
        let Some((dim, wanted)) = Program(steps).run(&values) else { return Ok(()) };
        let value_of = |name: &str| {
            symbols().iter().position(|symbol| symbol.to_string() == name).map(|position| values[position])
        };
        if let Some(found) = dim.evaluate(&value_of) {
            prop_assert_eq!(found, wanted, "{}", dim);
            prop_assert!(wanted >= dim.at_least(), "{} is {}", dim, wanted);
            let replaced = dim.replace(&|name| value_of(name).map(Dim::Fixed));
            prop_assert_eq!(replaced.fixed(), Some(wanted));
        }
    }

    #[test]
    fn symbols_and_numbers_follow_the_same_rule(x in 0i64..100, k in 1i64..8, s in 1i64..5, p in 0i64..4) {
        let rule = |x: Dim| (x + 2 * p - k).floor_div(s) + 1;
        let ceil = |x: Dim| (x + 2 * p - k).ceil_div(s).max(0);
        prop_assert_eq!(rule(Dim::symbol("x")).evaluate(&|_| Some(x)), rule(x.into()).fixed());
        prop_assert_eq!(ceil(Dim::symbol("x")).evaluate(&|_| Some(x)), ceil(x.into()).fixed());
        prop_assert_eq!(rule(x.into()).fixed(), Some((x + 2 * p - k).div_euclid(s) + 1));
    }
}
