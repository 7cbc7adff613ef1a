//! Half precision, bit by bit.

// ANCHOR: f16_bits
/// The bits of the nearest IEEE `binary16` number, ties to even: a sign, 5 bits of exponent, 10 of fraction. Magnitudes
/// of 65520 or more become infinite; NaN stays NaN.
///
/// Numbers with exponent e are 2^(e − 10) apart; numbers below 2^−14 are as far apart as those with exponent −14. Counted
/// in such steps, the numbers with exponent e begin at 1024. The bits of a number are therefore (e + 14) · 1024 + steps,
/// whatever e is.
pub fn f16_bits(x: f32) -> u16 {
    // ANCHOR: f16_bits_todo -- task 1: count x in steps of its exponent, round half to even
    let sign = if x.is_sign_negative() { 0x8000 } else { 0 };
    if x.is_nan() {
        return sign | 0x7e00;
    }
    let exponent = (((x.to_bits() >> 23) & 0xff) as i32 - 127).clamp(-14, 16);
    let steps = (x.abs() / 2f32.powi(exponent - 10)).round_ties_even().min(2048.0);
    let bits = (exponent + 14) * 1024 + steps as i32;
    sign | bits.min(0x7c00) as u16
    // ANCHOR_END: f16_bits_todo
}
// ANCHOR_END: f16_bits

#[cfg(test)]
mod tests {
    use super::*;
    use ixion_tensor::{Half, f16};
    use proptest::prelude::*;

    /// A number as the fast conversion of slices stores it.
    fn stored(x: f32) -> f16 {
        let mut to = [f16::ZERO];
        f16::store_all(&[x], &mut to);
        to[0]
    }

    #[test]
    fn every_half_is_itself_and_ties_go_to_even() {
        for bits in 0..0x7c00 {
            let (x, next) = (f16::from_bits(bits).to_f32(), f16::from_bits(bits + 1).to_f32());
            assert_eq!((f16_bits(x), f16_bits(-x)), (bits, bits | 0x8000));
            if next.is_finite() {
                assert_eq!(f16_bits((x + next) / 2.0), bits + (bits & 1), "between {x} and {next}");
            }
        }
        assert_eq!([65519.0, 65520.0, f32::INFINITY].map(f16_bits), [0x7bff, 0x7c00, 0x7c00]);
        assert!(f16::from_bits(f16_bits(f32::NAN)).is_nan());
    }

    proptest! {
        #[test]
        fn slices_are_converted_bit_by_bit(bits: u32, near in -70000.0f32..70000.0) {
            for x in [f32::from_bits(bits), near] {
                let (found, wanted) = (f16::from_bits(f16_bits(x)), stored(x));
                prop_assert!(found.to_bits() == wanted.to_bits() || (found.is_nan() && wanted.is_nan()), "{}", x);
            }
        }
    }
}
