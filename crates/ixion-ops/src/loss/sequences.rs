//! The loss of sequences of labels: connectionist temporal classification (Graves et al., 2006).

use super::classes::class_of;
use super::reduction::Reduction;
use crate::op::{CpuLayer, FromOperator, Io, Layer, LayerError, Result, TensorMeta, exactly};
use crate::support::arguments::{InputIndex, ParamOrInput};
use crate::support::float;
use crate::support::number;
use ixion_tensor::{Dim, Limits, TensorView};
use std::ops::RangeInclusive;

crate::operator! {
    /// `torch.nn.functional.ctc_loss`: the negative logarithm of the probability of the target labels, given the logarithms of
    /// the probabilities of all labels at each time step, T×N×C or T×C. Labels may be repeated, and separated by blanks.
    pub struct CtcLoss for "aten::ctc_loss" {
        /// The labels, integers: N×S, or those of all sequences one after the other.
        targets: InputIndex,
        /// The number of time steps of each sequence.
        input_lengths: ParamOrInput<Vec<i64>>,
        /// The number of labels of each sequence.
        target_lengths: ParamOrInput<Vec<i64>>,
        /// The label that stands for no label.
        blank: i64 = 0,
        /// How the losses are combined; for the mean, each is divided by its number of labels first.
        reduction: Reduction = Reduction::Mean,
        /// Whether an infinite loss, of a sequence that is too short for its labels, counts as 0.
        zero_infinity: bool = false,
    }
}

/// The logarithms of the probabilities of one sequence.
struct Sequence<'a> {
    logs: &'a [f64],
    /// The distance between time steps.
    step: usize,
    count: usize,
    blank: usize,
}

impl Sequence<'_> {
    fn log(&self, time: usize, label: usize) -> f64 {
        self.logs.get(time * self.step + label).copied().unwrap_or(f64::NAN)
    }

    /// The negative logarithm of the probability of these labels.
    fn loss(&self, labels: &[usize], limits: &Limits) -> Result<f64> {
        // Labels are at odd places, with blanks around them.
        let label = |place: usize| match place % 2 {
            1 => labels.get(place / 2).copied().unwrap_or(self.blank),
            _ => self.blank,
        };
        let places = 2 * labels.len() + 1;
        // The logarithms of the probabilities of all ways that end at each place.
        let mut ways = vec![f64::NEG_INFINITY; places];
        if self.count == 0 {
            return Ok(if labels.is_empty() { 0.0 } else { f64::INFINITY });
        }
        for (place, way) in ways.iter_mut().enumerate().take(2) {
            *way = self.log(0, label(place));
        }
        for time in 1..self.count {
            limits.check_deadline()?;
            for place in (0..places).rev() {
                let before =
                    |back: usize| place.checked_sub(back).map_or(f64::NEG_INFINITY, |place| ways[place]);
                let jumps = place >= 2 && label(place) != label(place - 2);
                let from = [ways[place], before(1), if jumps { before(2) } else { f64::NEG_INFINITY }];
                ways[place] = log_sum(&from) + self.log(time, label(place));
            }
        }
        Ok(-log_sum(ways.get(places.saturating_sub(2)..).unwrap_or_default()))
    }
}

/// The logarithm of the sum of numbers whose logarithms these are.
fn log_sum(logs: &[f64]) -> f64 {
    let largest = logs.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let shift = if largest.is_finite() { largest } else { 0.0 };
    logs.iter().map(|log| (log - shift).exp()).sum::<f64>().ln() + shift
}

/// Lengths of sequences, given the inputs.
fn lengths(of: &ParamOrInput<Vec<i64>>, inputs: &[TensorView<'_>]) -> Result<Vec<i64>> {
    match of {
        ParamOrInput::Value(values) => Ok(values.clone()),
        ParamOrInput::Input(position) => {
            let input =
                inputs.get(*position).ok_or_else(|| LayerError::missing_input(*position, inputs.len()))?;
            Ok(number::read::<i64>(input)?.into_owned())
        }
    }
}

/// A length, from 0 to `most`.
fn length(what: &'static str, length: i64, most: usize) -> Result<usize> {
    let fits = usize::try_from(length).ok().filter(|&length| length <= most);
    fits.ok_or_else(|| LayerError::invalid(what, length, format!("expected a length from 0 to {most}")))
}

impl CtcLoss {
    /// Checks that there is a length for each sequence.
    fn check_lengths(
        &self,
        key: &'static str,
        lengths: &ParamOrInput<Vec<i64>>,
        inputs: &[TensorMeta],
        count: &Dim,
    ) -> Result<()> {
        let given = match lengths {
            ParamOrInput::Value(values) => Dim::from(values.len()),
            ParamOrInput::Input(position) => {
                let input = inputs
                    .get(*position)
                    .ok_or_else(|| LayerError::missing_input(*position, inputs.len()))?;
                if !input.dtype().is_integer() {
                    return Err(LayerError::dtype(format!("`{key}`"), "integers", input.dtype()));
                }
                if input.rank() > 1 {
                    return Err(LayerError::shape(format!("`{key}`"), "a vector", input));
                }
                input.num_elements()
            }
        };
        match given.differs(count) {
            true => Err(LayerError::shape(format!("`{key}`"), format!("{count} lengths"), given)),
            false => Ok(()),
        }
    }

    /// The losses of all sequences.
    fn losses(&self, inputs: &[TensorMeta]) -> Result<TensorMeta> {
        let (logs, targets) = (&inputs[0], &inputs[self.targets.0]);
        float::check("the input", logs)?;
        let (count, classes) = match logs.dims() {
            [_, classes] => (Dim::Fixed(1), classes),
            [_, count, classes] => (count.clone(), classes),
            _ => return Err(LayerError::shape("the input", "T×N×C or T×C", logs)),
        };
        if logs.dims().iter().any(|dim| *dim == 0usize) {
            return Err(LayerError::shape("the input", "an element along each axis", logs));
        }
        if self.blank < 0 || classes.fixed().is_some_and(|classes| self.blank >= classes) {
            return Err(LayerError::invalid(
                "blank",
                self.blank,
                format!("expected a label below {classes}"),
            ));
        }
        if !targets.dtype().is_integer() {
            return Err(LayerError::dtype("the targets", "integers", targets.dtype()));
        }
        match targets.dims() {
            [_] => {}
            [rows, _] if !rows.differs(&count) => {}
            _ => {
                let wanted = format!("{count}×S labels, or those of all sequences as a vector");
                return Err(LayerError::shape("the targets", wanted, targets));
            }
        }
        self.check_lengths("input_lengths", &self.input_lengths, inputs, &count)?;
        self.check_lengths("target_lengths", &self.target_lengths, inputs, &count)?;
        let batch = logs.dims().get(1..logs.rank().saturating_sub(1)).unwrap_or_default();
        Ok(logs.with_dims(batch.to_vec()))
    }

    /// The labels of each sequence.
    fn labels(&self, inputs: &[TensorView<'_>], classes: usize) -> Result<Vec<Vec<usize>>> {
        let targets = &inputs[self.targets.0];
        let all = number::read::<i64>(targets)?;
        let width = (targets.shape().rank() == 2).then(|| targets.shape().last().copied().unwrap_or(0));
        let (mut start, mut labels) = (0usize, Vec::new());
        for (sequence, &len) in lengths(&self.target_lengths, inputs)?.iter().enumerate() {
            let first = width.map_or(start, |width| sequence * width);
            let most = width.unwrap_or_else(|| all.len().saturating_sub(start));
            let len = length("target_lengths", len, most)?;
            let own = all.get(first..first + len).unwrap_or_default();
            labels.push(own.iter().map(|&label| class_of(label, classes)).collect::<Result<_>>()?);
            start += len;
        }
        if width.is_none() && start != all.len() {
            let wanted = format!("{start} labels, the sum of `target_lengths`");
            return Err(LayerError::shape("the targets", wanted, all.len()));
        }
        Ok(labels)
    }
}

impl Layer for CtcLoss {
    fn num_inputs(&self) -> RangeInclusive<usize> {
        exactly(1 + self.field_inputs())
    }

    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
        self.reduction.infer(self.losses(inputs)?)
    }
}

impl CpuLayer for CtcLoss {
    fn forward(&mut self, io: &mut Io<'_, '_>) -> Result<()> {
        let (input, limits) = (&io.inputs[0], io.context.limits());
        let (times, classes) =
            (input.shape().first().copied().unwrap_or(0), input.shape().last().copied().unwrap_or(0));
        limits.check_tensor("the logarithms", (input.num_elements() as u64).saturating_mul(8))?;
        let logs = number::read::<f64>(input)?;
        let step = logs.len() / times.max(1);
        let labels = self.labels(io.inputs, classes)?;
        let counts = lengths(&self.input_lengths, io.inputs)?;
        let mut losses = Vec::with_capacity(labels.len());
        for (sequence, (labels, &count)) in labels.iter().zip(&counts).enumerate() {
            let logs = logs.get(sequence * classes..).unwrap_or_default();
            let count = length("input_lengths", count, times)?;
            let blank = class_of(self.blank, classes)?;
            let loss = Sequence { logs, step, count, blank }.loss(labels, limits)?;
            let loss = if self.zero_infinity && loss == f64::INFINITY { 0.0 } else { loss };
            let per_label = if self.reduction == Reduction::Mean { labels.len().max(1) } else { 1 };
            losses.push(loss / per_label as f64);
        }
        let divisor = losses.len() as f64;
        self.reduction.write_numbers(losses, divisor, &mut io.outputs[0])
    }
}

operators! { CtcLoss }

#[cfg(test)]
mod tests {
    use crate::support::testing::{assert_close, operator, tensor, waves};
    use ixion_tensor::{DType, Tensor};

    /// Logarithms of probabilities, 5×2×4.
    fn logs() -> Tensor {
        operator("F.log_softmax", &[("dim", "2")]).run_one(&[&waves(&[5, 2, 4])]).unwrap()
    }

    fn targets() -> Tensor {
        tensor(&[2, 3], &[1i64, 2, 2, 3, 1, 1])
    }

    const LENGTHS: [(&str, &str); 2] = [("input_lengths", "[5,4]"), ("target_lengths", "[3,2]")];

    fn losses(params: &[(&str, &str)], inputs: &[&Tensor]) -> Tensor {
        operator("aten::ctc_loss", params).run_one(inputs).unwrap()
    }

    #[test]
    fn losses_are_those_of_pytorch() {
        let (logs, targets) = (logs(), targets());
        let each = [5.916617414332615, 2.0636771247534282];
        for (reduction, shape, want) in
            [("0", &[2][..], &each[..]), ("1", &[], &[1.5020221835771261]), ("2", &[], &[7.980294539086043])]
        {
            let params = [&LENGTHS[..], &[("reduction", reduction)]].concat();
            assert_close(&losses(&params, &[&logs, &targets]), shape, want);
        }
        let single = [&LENGTHS[..], &[("reduction", "0")]].concat();
        let row = tensor(&[5], &[1i64, 2, 2, 3, 1]);
        assert_close(&losses(&single, &[&logs, &row]), &[2], &each);
        let steps = [tensor(&[2], &[5i32, 4]), tensor(&[2], &[3i64, 2])];
        let computed = losses(&[("reduction", "0")], &[&logs, &targets, &steps[0], &steps[1]]);
        assert_close(&computed, &[2], &each);
        let others = tensor(&[2, 3], &[1i64, 2, 2, 0, 1, 1]);
        let blank = [&single[..], &[("blank", "3")]].concat();
        assert_close(&losses(&blank, &[&logs, &others]), &[2], &[6.180719291584655, 2.626756556723178]);
    }

    #[test]
    fn sequences_that_are_too_short() {
        let (logs, targets, inf) = (logs(), targets(), f64::INFINITY);
        let of = |steps, labels, more: &[(&str, &str)], want: &[f64]| {
            let params = [("input_lengths", steps), ("target_lengths", labels), ("reduction", "0")];
            let params = [&params[..], more].concat();
            assert_close(&losses(&params, &[&logs, &targets]), &[2], want);
        };
        of("[3,4]", "[3,2]", &[], &[inf, 2.0636771247534282]);
        of("[3,4]", "[3,2]", &[("zero_infinity", "True")], &[0.0, 2.0636771247534282]);
        of("[0,4]", "[3,2]", &[], &[inf, 2.0636771247534282]);
        of("[0,4]", "[0,2]", &[], &[0.0, 2.0636771247534282]);
        of("[5,4]", "[0,2]", &[], &[13.045976774864368, 2.0636771247534282]);
    }

    #[test]
    fn a_sequence_without_a_batch() {
        let batch = logs().to_vec::<f64>().unwrap();
        let first = batch.chunks(8).flat_map(|both| both[..4].to_vec()).collect::<Vec<f64>>();
        let first = tensor(&[5, 4], &first);
        let params = [("input_lengths", "(5)"), ("target_lengths", "3"), ("reduction", "mean")];
        let mean = losses(&params, &[&first, &tensor(&[3], &[1i64, 2, 2])]);
        assert_close(&mean, &[], &[1.9722058047775384]);
    }

    #[test]
    fn what_does_not_fit() {
        let (logs, targets) = (logs(), targets());
        let error = |params: &[(&str, &str)], targets: &Tensor| {
            operator("aten::ctc_loss", params).run(&[&logs, targets]).unwrap_err().to_string()
        };
        let of = |steps, labels| error(&[("input_lengths", steps), ("target_lengths", labels)], &targets);
        assert!(of("[6,4]", "[3,2]").contains("`input_lengths` is 6: expected a length from 0 to 5"));
        assert!(of("[5,4]", "[4,2]").contains("`target_lengths` is 4: expected a length from 0 to 3"));
        assert!(of("[-1,4]", "[3,2]").contains("`input_lengths` is -1"));
        assert!(of("[5]", "[3,2]").contains("expected 2 lengths, got 1"));
        let params = [&LENGTHS[..], &[("blank", "4")]].concat();
        assert!(error(&params, &targets).contains("`blank` is 4: expected a label below 4"));
        let short = error(&LENGTHS, &tensor(&[6], &[1i64; 6]));
        assert!(short.contains("expected 5 labels, the sum of `target_lengths`, got 6"));
        assert!(error(&LENGTHS, &tensor(&[2, 3], &[7i64; 6])).contains("class 7 is out of range"));
        let empty = Tensor::zeros(DType::F32, &[0, 2, 4]).unwrap();
        assert!(operator("aten::ctc_loss", &LENGTHS).run(&[&empty, &targets]).is_err());
        operator("aten::ctc_loss", &LENGTHS).survives(2);
        operator("aten::ctc_loss", &[]).survives(4);
    }
}
