//! The steps of a layer's tensors, and how they are stored.

use crate::op::Step;
use ixion_kernels::quantization::Quantization;
use ixion_kernels::quantized::Finish;

/// The steps that the engine chose, and the order of the channels.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Steps {
    /// The step of the input.
    pub(super) input: Step,
    /// The step of the output; `None` for an `f32` output.
    pub(super) output: Option<Step>,
    /// Whether the channels of input and output are innermost.
    pub(super) is_last: bool,
}

/// The first byte of the stored state, for channels in the order of the model and for innermost ones.
const TAG: u8 = b'q';
const LAST_TAG: u8 = b'l';

impl Steps {
    /// What a plan stores: a tag, both scales, and both zero points unless they are 0.
    pub(super) fn to_bytes(self) -> Vec<u8> {
        let Self { input, output, is_last } = self;
        let tag = if is_last { LAST_TAG } else { TAG };
        let steps = [input, output.unwrap_or(Step::from(0.0))];
        let zero_points = steps.map(|step| step.zero_point.cast_unsigned());
        let scales = steps.into_iter().flat_map(|step| step.scale.to_le_bytes());
        let bytes = [tag].into_iter().chain(scales);
        let has_zero_points = zero_points != [0, 0];
        bytes.chain(zero_points.into_iter().filter(|_| has_zero_points)).collect()
    }

    /// The steps that [`Steps::to_bytes`] stored; `None` for any other bytes.
    pub(super) fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let &[tag @ (TAG | LAST_TAG), a, b, c, d, e, f, g, h, ref zero_points @ ..] = bytes else {
            return None;
        };
        let zero_points = match zero_points {
            [] => [0, 0],
            [0, 0] => return None,
            &[input, output] => [input, output].map(u8::cast_signed),
            _ => return None,
        };
        let [input, output] = [[a, b, c, d], [e, f, g, h]].map(f32::from_le_bytes);
        let is_scale = |scale: f32| scale > 0.0 && scale.is_finite() && scale.recip().is_finite();
        let is_float = output == 0.0 && zero_points[1] == 0;
        if !is_scale(input) || !(is_scale(output) || is_float) {
            return None;
        }
        let step = |scale, zero_point| Step { scale, zero_point };
        let output = (!is_float).then(|| step(output, zero_points[1]));
        Some(Self { input: step(input, zero_points[0]), output, is_last: tag == LAST_TAG })
    }
}

/// How the elements of a tensor with this step are quantised.
pub(crate) fn quantization(step: Step) -> Quantization {
    Quantization { scale: step.scale, zero_point: step.zero_point.into(), range: step.range().map(i32::from) }
}

/// How numbers become elements of an output with this step.
pub(crate) fn finish(step: Step) -> Finish<'static> {
    let Quantization { scale, zero_point, range } = quantization(step);
    Finish { inverse: 1.0 / scale, zero_point, range, ..Finish::NONE }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stored_steps_are_restored() {
        let step = |scale, zero_point| Step { scale, zero_point };
        for (input, output) in [
            (step(0.1, 0), None),
            (step(0.1, 0), Some(step(0.2, 0))),
            (step(0.1, -128), None),
            (step(0.1, 0), Some(step(0.2, 127))),
            (step(0.1, -5), Some(step(0.2, 7))),
        ] {
            for is_last in [false, true] {
                let steps = Steps { input, output, is_last };
                let bytes = steps.to_bytes();
                let are_zero = [Some(input), output].into_iter().flatten().all(|step| step.zero_point == 0);
                let wanted = (if are_zero { 9 } else { 11 }, Some(steps));
                assert_eq!((bytes.len(), Steps::from_bytes(&bytes)), wanted);
            }
        }
    }

    #[test]
    fn zero_points_need_a_scale() {
        let of = |scales: [f32; 2], zero_points: &[u8]| {
            let scales = scales.into_iter().flat_map(f32::to_le_bytes);
            let bytes: Vec<u8> = [TAG].into_iter().chain(scales).chain(zero_points.iter().copied()).collect();
            Steps::from_bytes(&bytes)
        };
        assert!(of([0.1, 0.0], &[3, 0]).is_some() && of([0.1, 0.2], &[0, 3]).is_some());
        for (scales, zero_points) in
            [([0.1, 0.0], &[3, 3][..]), ([0.1, 0.2], &[0, 0]), ([0.1, 0.2], &[3]), ([0.1, 0.2], &[3, 3, 3])]
        {
            assert!(of(scales, zero_points).is_none(), "{scales:?} {zero_points:?}");
        }
    }
}
