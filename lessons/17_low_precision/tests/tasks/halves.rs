//! Task 1: sixteen bits.

use super::super::subject::{bf16_bits, bf16_value, f16_bits};
use ixion::tensor::f16;

#[test]
fn task1_bf16_is_the_upper_half() {
    let found = [1.0, -2.0, 0.15625, 0.0, -0.0].map(bf16_bits);
    assert_eq!(
        found,
        [0x3f80, 0xc000, 0x3e20, 0x0000, 0x8000],
        "1 is 0x3f800000 in f32; bf16 is the first four hex digits, with the sign"
    );
    for bits in [0x3f80u16, 0xc000, 0x0001, 0x7f80] {
        let wanted = u32::from(bits) << 16;
        assert_eq!(
            bf16_value(bits).to_bits(),
            wanted,
            "{bits:#06x}: the bits become the upper half, zeros follow; the integer value does not matter"
        );
    }
}

#[test]
fn task1_bf16_rounds_to_the_nearest_and_ties_to_even() {
    let of = |bits: u32| bf16_bits(f32::from_bits(bits));
    assert_eq!(of(0x3f80_7fff), 0x3f80, "below the middle: down");
    assert_eq!(of(0x3f80_8001), 0x3f81, "above the middle: up. Did you only truncate the lower half?");
    assert_eq!(of(0x3f80_8000), 0x3f80, "in the middle, and 0x3f80 is even: down");
    assert_eq!(of(0x3f81_8000), 0x3f82, "in the middle, and 0x3f81 is odd: up");
    assert_eq!(of(0xbf81_8000), 0xbf82, "negative values alike: even wins, away from zero or not");
}

#[test]
fn task1_bf16_at_the_end_of_its_range() {
    assert_eq!(
        bf16_bits(f32::from_bits(0x3fff_ffff)),
        0x4000,
        "just below 2 is 2: the carry goes into the exponent"
    );
    assert_eq!(bf16_bits(f32::MAX), 0x7f80, "the largest f32 is nearer to infinity than to any bf16");
    assert_eq!(
        [f32::INFINITY, f32::NEG_INFINITY].map(bf16_bits),
        [0x7f80, 0xff80],
        "infinity stays infinity"
    );
    for bits in [0x7f80_0001u32, 0x7fff_ffff, 0xffff_ffff, 0x7fc0_0000] {
        let found = bf16_value(bf16_bits(f32::from_bits(bits)));
        assert!(
            found.is_nan(),
            "NaN {bits:#010x} became {found}: rounding can carry it into infinity or zero"
        );
    }
    for bits in 0..=u16::MAX {
        let value = bf16_value(bits);
        assert!(
            value.is_nan() || bf16_bits(value) == bits,
            "{bits:#06x}: a value that is already a bf16 must stay the same"
        );
    }
}

#[test]
fn task1_f16_has_five_bits_of_exponent() {
    let found = [1.0, -2.0, 0.5, 65504.0, 0.1, 0.0, -0.0].map(f16_bits);
    assert_eq!(
        found,
        [0x3c00, 0xc000, 0x3800, 0x7bff, 0x2e66, 0x0000, 0x8000],
        "1 is (0 + 14) · 1024 + 1024 = 15 · 1024"
    );
    let of = |x: f32| f16_bits(x);
    let step = 2f32.powi(-10);
    assert_eq!(of(1.0 + 0.5 * step), 0x3c00, "in the middle of two: to the even one, down");
    assert_eq!(of(1.0 + 1.5 * step), 0x3c02, "in the middle of two: to the even one, up");
    assert_eq!(of(1.0 + 0.51 * step), 0x3c01, "above the middle: up");
    assert_eq!(of(1.9999), 0x4000, "2048 steps are the first value of the next exponent");
}

#[test]
fn task1_f16_ends_early_on_both_sides() {
    let hint = "65504 is the largest; half a step above it, infinity begins.";
    assert_eq!(
        [65519.0, 65520.0, 1e9, f32::INFINITY].map(f16_bits),
        [0x7bff, 0x7c00, 0x7c00, 0x7c00],
        "{hint}"
    );
    assert_eq!(f16_bits(-1e9), 0xfc00, "{hint} The sign stays.");
    let least = 2f32.powi(-24);
    let found = [least, 0.5 * least, 0.6 * least, 1.5 * least, 2f32.powi(-14), 1e-30].map(f16_bits);
    let hint = "Below 2^−14 all values are 2^−24 apart: clamp the exponent at −14.";
    assert_eq!(found, [1, 0, 1, 2, 0x0400, 0], "{hint}");
    for nan in [f32::NAN, f32::from_bits(0x7f80_0001), f32::from_bits(0xffff_ffff)] {
        assert!(f16::from_bits(f16_bits(nan)).is_nan(), "NaN stays NaN");
    }
}

#[test]
fn task1_every_f16_comes_back() {
    for bits in 0..=u16::MAX {
        let value = f16::from_bits(bits);
        assert!(value.is_nan() || f16_bits(value.to_f32()) == bits, "{bits:#06x}, which is {value}");
    }
}
