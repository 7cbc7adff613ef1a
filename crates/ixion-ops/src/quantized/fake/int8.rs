//! Fake quantisation whose results stay int8.
//!
//! What fake quantisation returns are whole multiples of a scale, so an int8 tensor with this scale holds them exactly, if it has
//! the right zero point: 0 if possible, otherwise the one that makes the smallest result −128. An engine may let the operator
//! write such a tensor, or read one that another operator has quantised in the same steps: then there is nothing left to do but
//! to clamp it, or nothing at all.

use crate::op::{LayerError, Result, Step, TensorFormat, TensorMeta};
use crate::quantized::write;
use crate::support::{float, int8};
use ixion_kernels::parallel::for_each_chunk;
use ixion_kernels::widest;
use ixion_tensor::{DType, Format, Limits, TensorView, TensorViewMut};

/// The results of fake quantisation as int8.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Int8Steps {
    /// The step of the tensors.
    pub(super) step: Step,
    /// The smallest and the largest value. The zero point is between them.
    range: [i8; 2],
    /// Whether floats are divided by the scale instead of multiplied by its reciprocal.
    divides: bool,
}

impl Int8Steps {
    /// Steps of this scale, from the smallest to the largest distance from 0; `None` if int8 cannot hold them, or if the scale
    /// is not that of quantised tensors.
    pub(super) fn new((scale, divides): (f32, bool), [least, most]: [i64; 2]) -> Option<Self> {
        let is_scale = scale > 0.0 && scale.is_finite() && scale.recip().is_finite();
        if !is_scale || least > 0 || most < 0 {
            return None;
        }
        if let (Ok(least), Ok(most)) = (i8::try_from(least), i8::try_from(most)) {
            let step = Step::from(scale);
            return Some(Self { step, range: [least.max(step.range()[0]), most], divides });
        }
        let zero_point = i64::from(i8::MIN).checked_sub(least)?;
        let most = i8::try_from(most.checked_add(zero_point)?).ok()?;
        let step = Step { scale, zero_point: i8::try_from(zero_point).ok()? };
        Some(Self { step, range: [i8::MIN, most], divides })
    }

    /// Returns true if all values of int8 tensors are in the range.
    pub(super) fn hold_all(self) -> bool {
        self.range == self.step.range()
    }

    /// Writes int8, from floats or from int8 with the same step. The threads of the current pool share the work.
    ///
    /// # Errors
    /// Returns an error if the input is neither, or if the deadline has passed.
    pub(super) fn write(
        self,
        input: &TensorView<'_>,
        output: &mut TensorViewMut<'_>,
        limits: &Limits,
    ) -> Result<()> {
        match input.dtype() {
            DType::I8 => self.clamp(input, output, limits),
            _ => self.quantize(input, output, limits),
        }
    }

    /// NaN becomes the smallest value, as in fake quantisation.
    fn quantize(self, input: &TensorView<'_>, output: &mut TensorViewMut<'_>, limits: &Limits) -> Result<()> {
        let Self { step: Step { scale, zero_point }, divides, range } = self;
        let zero_point = i32::from(zero_point);
        let (inverse, [least, most]) = (1.0 / scale, range.map(|end| (i32::from(end) - zero_point) as f32));
        let values = float::read::<f32>(input)?;
        write::<i8>(output, |output| {
            each_chunk(&values, output, limits, &|values: &[f32], output: &mut [i8]| {
                widest!(|| {
                    for (q, &x) in output.iter_mut().zip(values) {
                        let steps = if divides { x / scale } else { x * inverse };
                        // Through i32, because processors convert floats to that type.
                        *q = (steps.round_ties_even().max(least).min(most) as i32 + zero_point) as i8;
                    }
                });
            })
        })
    }

    fn clamp(self, input: &TensorView<'_>, output: &mut TensorViewMut<'_>, limits: &Limits) -> Result<()> {
        let [least, most] = self.range;
        let clamp = |values: &[i8], output: &mut [i8]| {
            widest!(|| {
                for (to, &q) in output.iter_mut().zip(values) {
                    *to = q.max(least).min(most);
                }
            });
        };
        let is_last = output.shape().rank() == 4 && !output.layout().is_contiguous();
        if is_last {
            let values = int8::bytes_last(input)?;
            return int8::write_last(output, |output| each_chunk(&values, output, limits, &clamp));
        }
        let values = int8::bytes(input)?;
        write::<i8>(output, |output| each_chunk(&values, output, limits, &clamp))
    }
}

/// Computes an output in chunks, from as many values.
fn each_chunk<T: Sync>(
    values: &[T],
    output: &mut [i8],
    limits: &Limits,
    compute: &(impl Fn(&[T], &mut [i8]) + Sync),
) -> Result<()> {
    const CHUNK: usize = 1 << 14;
    for_each_chunk(output, CHUNK, &|start, output: &mut [i8]| {
        limits.check_deadline()?;
        compute(values.get(start..).unwrap_or_default(), output);
        Ok(())
    })
}

/// Returns true if the tensor at a position may have its format: floats are row-major; if int8 holds the results, they may be
/// int8, and so may the input, in the same order.
pub(super) fn supports(may_be_int8: bool, position: usize, formats: &[TensorFormat]) -> bool {
    let (Some(first), Some(own)) = (formats.first(), formats.get(position)) else { return false };
    match (first.is_quantized, own.is_quantized) {
        (true, _) => may_be_int8 && own == first,
        (false, true) => may_be_int8 && *first == TensorFormat::plain(DType::F32),
        (false, false) => own.format == Format::Plain,
    }
}

/// Checks that quantised tensors have the operator's own step.
///
/// # Errors
/// [`LayerError::Unsupported`] if one has another.
pub(super) fn check<'m>(own: Option<Step>, metas: impl Iterator<Item = &'m TensorMeta>) -> Result<()> {
    let text = |step: Step| format!("the scale {} and the zero point {}", step.scale, step.zero_point);
    match metas.filter_map(TensorMeta::step).find(|&step| Some(step) != own) {
        Some(step) => {
            let own = own.map_or_else(|| "no scale".to_owned(), text);
            let reason = format!("int8 with {}: the operator has {own}", text(step));
            Err(LayerError::Unsupported(reason))
        }
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::super::FakeQuantize;
    use super::*;
    use crate::op::{CpuLayer, ForwardContext, Io};
    use crate::support::testing::{operator, tensor};
    use ixion_tensor::{Layout, Tensor, Workspace};

    const TYPE: &str = "aten::fake_quantize_per_tensor_affine";

    fn params<'a>(zero_point: &'a str, quant_min: &'a str, quant_max: &'a str) -> [(&'a str, &'a str); 4] {
        let range = [("quant_min", quant_min), ("quant_max", quant_max)];
        [("scale", "0.5"), ("zero_point", zero_point), range[0], range[1]]
    }

    fn layer(params: &[(&str, &str)]) -> Box<dyn CpuLayer> {
        operator(TYPE, params).create(1).unwrap()
    }

    /// The values that a layer writes as int8, in row-major order.
    fn in_int8(params: &[(&str, &str)], input: &Tensor, layout: Layout) -> Vec<i8> {
        let mut output = Tensor::zeros_with_layout(DType::I8, layout).unwrap();
        let (mut workspace, limits) = (Workspace::new().unwrap(), Limits::default());
        let mut context = ForwardContext::new(&mut workspace, &limits);
        let view = output.view_mut().unwrap();
        layer(params).forward(&mut Io::new(&[input.view()], &mut [view], &mut context)).unwrap();
        output.to_vec::<i8>().unwrap()
    }

    #[test]
    fn int8_holds_the_numbers_that_floats_would_be() {
        let x = [0.25f32, 0.75, -0.75, 3.3, 1e9, -1e9, 40.2, -40.2, f32::INFINITY, -31.0, 0.0, f32::NAN];
        let x = tensor(&[1, 3, 2, 2], &x);
        let (plain, last) = (Layout::contiguous(*x.shape()), Layout::channels_last(*x.shape()));
        for (zero, least, most) in [
            ("0", "-127", "127"),
            ("64", "0", "127"),
            ("128", "1", "255"),
            ("0", "0", "127"),
            ("0", "0", "255"),
            ("100", "0", "255"),
            ("255", "0", "255"),
            ("-5", "-128", "127"),
            ("3", "-100", "99"),
        ] {
            let layer = layer(&params(zero, least, most));
            let fake = layer.as_any().downcast_ref::<FakeQuantize>().unwrap();
            let how = int8::quantization(fake.int8_step().unwrap());
            let params = params(zero, least, most);
            let wanted = operator(TYPE, &params).run_one(&[&x]).unwrap().to_vec::<f32>().unwrap();
            for layout in [plain, last] {
                let found = in_int8(&params, &x, layout);
                let real: Vec<f32> = found.iter().map(|&q| how.load(q)).collect();
                assert_eq!(real, wanted, "zero point {zero}");
                // What another operator has quantised in these steps is only clamped.
                let others: Vec<i8> = x.to_vec::<f32>().unwrap().into_iter().map(|x| how.store(x)).collect();
                let plain_others = Tensor::from_vec(others, x.shape()).unwrap();
                let mut others = Tensor::zeros_with_layout(DType::I8, layout).unwrap();
                others.view_mut().unwrap().copy_from(&plain_others.view()).unwrap();
                let found = in_int8(&params, &others, layout);
                // As int8, NaN is 0.
                assert_eq!(found[..11], in_int8(&params, &x, layout)[..11], "zero point {zero}");
            }
        }
    }

    #[test]
    fn formats() {
        let (float, int8) = (TensorFormat::plain(DType::F32), TensorFormat::quantized());
        let takes = |params: &[(&str, &str)], formats: &[TensorFormat]| {
            let layer = layer(params);
            (0..formats.len()).all(|at| layer.supports(at, &formats[..=at]))
        };
        let all = [
            ([float, float], true),
            ([float, int8], true),
            ([float, int8.channels_last()], true),
            ([int8, int8], true),
            ([int8.channels_last(), int8.channels_last()], true),
            ([int8, float], false),
            ([int8, int8.channels_last()], false),
            ([float, float.blocked(1, 16)], false),
        ];
        for (formats, wanted) in all {
            assert_eq!(takes(&params("0", "-128", "127"), &formats), wanted, "{formats:?}");
        }
        assert!(takes(&params("0", "0", "255"), &[float, int8]));
        assert!(takes(&params("100", "0", "255"), &[float, int8]));
        // More steps than int8 has.
        assert!(!takes(&params("0", "0", "256"), &[float, int8]));
        assert!(!takes(&params("100", "-128", "128"), &[float, int8]));
    }

    #[test]
    fn int8_of_other_steps_is_refused() {
        let meta = |scale| TensorMeta::new(DType::I8, [2]).with_scale(Some(scale));
        let shifted = meta(0.5).with_step(Some(Step { scale: 0.5, zero_point: 3 }));
        let mut layer = layer(&params("0", "-127", "127"));
        assert!(layer.configure(&[shifted], &[meta(0.5)]).unwrap_err().to_string().contains("zero point 3"));
        assert!(layer.configure(&[meta(0.5)], &[meta(0.5)]).is_ok());
        let error = layer.configure(&[meta(0.25)], &[meta(0.5)]).unwrap_err().to_string();
        assert!(error.contains("0.25") && error.contains("0.5"), "{error}");
    }

    #[test]
    fn int8_of_the_whole_range_is_not_touched() {
        let shape = *tensor(&[2], &[0i8; 2]).shape();
        let layout = Layout::contiguous(shape);
        let view = |most, dtype| {
            let layer = layer(&params("0", "-127", most));
            layer.view_of(0, &[(dtype, layout)], &shape).unwrap()
        };
        assert!(view("127", DType::I8).is_some());
        assert!(view("126", DType::I8).is_none() && view("127", DType::F32).is_none());
        assert!(view("128", DType::I8).is_some(), "256 steps are all values, with another zero point");
    }
}
