//! Losses of classes: the negative log-likelihood, and the cross-entropy.

use super::reduction::{Reduction, room_for};
use crate::activation::softmax::LogSoftmax;
use crate::op::{CpuLayer, Io, Layer, LayerError, Result, TensorMeta, Weight};
use crate::support::arguments::{InputIndex, RecordedType};
use crate::support::delegation::Delegating;
use crate::support::float;
use crate::support::float::with_float;
use crate::support::number;
use crate::support::promotion::promote;
use ixion_kernels::Float;
use ixion_tensor::{DType, Dim, Limits, TensorError, TensorView};

crate::operator! {
    /// `torch.nn.functional.nll_loss`: the negative log-likelihood of classes, −x of the target's class for the logarithms x of
    /// probabilities, N×C×… or C. The mean is weighted.
    pub struct NllLoss for "aten::nll_loss_nd", "aten::nll_loss", "aten::nll_loss2d" {
        /// The classes, i64 or u8, of the input's shape without the axis of classes.
        target: InputIndex,
        /// A factor for each class.
        weight: Option<Weight> = None,
        /// How the losses are combined.
        reduction: Reduction = Reduction::Mean,
        /// A class whose losses are 0, and do not count in the mean.
        ignore_index: i64 = -100,
    }
}

crate::operator! {
    /// `torch.nn.functional.cross_entropy`: the negative log-likelihood of classes for the softmax of the input, N×C×… or C.
    pub struct CrossEntropyLoss for "aten::cross_entropy_loss" {
        /// The classes, i64 or u8, of the input's shape without the axis of classes; or the probabilities of all classes, of the
        /// input's shape.
        target: InputIndex,
        /// A factor for each class.
        weight: Option<Weight> = None,
        /// How the losses are combined.
        reduction: Reduction = Reduction::Mean,
        /// A class whose losses are 0, and do not count in the mean.
        ignore_index: i64 = -100,
        /// The share of all classes in the targets, from 0 to 1.
        label_smoothing: f64 = 0.0,
    }
    validate |loss| {
        match (0.0..=1.0).contains(&loss.label_smoothing) {
            true => Ok(()),
            false => Err(LayerError::invalid("label_smoothing", loss.label_smoothing, "it must be from 0 to 1")),
        }
    }
}

/// The layer of all losses of classes.
#[derive(Debug, Clone)]
struct Classes {
    target: usize,
    weight: Option<Weight>,
    reduction: Reduction,
    ignored: i64,
    smoothing: f64,
    /// Whether the input has yet to become logarithms of probabilities, and targets may be probabilities.
    is_cross_entropy: bool,
}

/// The losses of all samples, and what their sum is divided by for their mean.
struct Losses {
    each: Vec<f64>,
    divisor: f64,
}

/// The samples of an input, each with an element for each class.
#[derive(Clone, Copy)]
struct Places {
    classes: usize,
    /// The number of samples per element of the first axis.
    inner: usize,
    samples: usize,
}

impl Places {
    fn new(shape: &[usize]) -> Self {
        let axis = usize::from(shape.len() > 1);
        let inner: usize = shape.get(axis + 1..).unwrap_or_default().iter().product();
        let outer = if axis == 0 { 1 } else { shape.first().copied().unwrap_or(1) };
        Self { classes: shape.get(axis).copied().unwrap_or(1), inner, samples: outer * inner }
    }

    /// The positions of the elements of a sample, one for each class.
    fn of(self, sample: usize) -> impl Fn(usize) -> usize {
        let (before, after) = (sample / self.inner.max(1), sample % self.inner.max(1));
        move |class| (before * self.classes + class) * self.inner + after
    }
}

/// The number of samples after which the time limit is checked.
const CHECKED: usize = 1024;

impl Classes {
    /// The losses of all samples.
    fn losses(&self, inputs: &[TensorMeta]) -> Result<TensorMeta> {
        let (input, target) = (&inputs[0], &inputs[self.target]);
        float::check("the input", input)?;
        let axis = usize::from(input.rank() > 1);
        let Some(classes) = input.dims().get(axis) else {
            return Err(LayerError::shape("the input", "an axis of classes", input));
        };
        self.check_weight(inputs, classes)?;
        let others = input.dims().iter().enumerate().filter(|(other, _)| *other != axis);
        let losses = input.with_dims(others.map(|(_, dim)| dim.clone()));
        if target.dtype().is_float() && self.is_cross_entropy {
            if !target.may_have_dims(input.dims()) {
                return Err(LayerError::shape("the probabilities of the target", input, target));
            }
            if self.ignored >= 0 {
                let reason = "a target of probabilities has no class to ignore; expected a negative number";
                return Err(LayerError::invalid("ignore_index", self.ignored, reason));
            }
            return Ok(losses.with_dtype(promote(input.dtype(), target.dtype())));
        }
        if !matches!(target.dtype(), DType::I64 | DType::U8) {
            let wanted = if self.is_cross_entropy { "i64, u8 and floats" } else { "i64 and u8" };
            return Err(LayerError::dtype("the target", wanted, target.dtype()));
        }
        match target.may_have_dims(losses.dims()) {
            true => Ok(losses),
            false => {
                Err(LayerError::shape("the classes of the target", losses.with_dtype(DType::I64), target))
            }
        }
    }

    fn check_weight(&self, inputs: &[TensorMeta], classes: &Dim) -> Result<()> {
        let Some(weight) = &self.weight else { return Ok(()) };
        let weight = weight.meta(inputs)?;
        if weight.dtype() != inputs[0].dtype() {
            return Err(LayerError::dtype("the weight", inputs[0].dtype(), weight.dtype()));
        }
        match weight.may_have_dims(std::slice::from_ref(classes)) {
            true => Ok(()),
            false => Err(LayerError::shape("the weight", format!("a vector of {classes} classes"), weight)),
        }
    }

    /// Writes the combined losses, given the logarithms of probabilities.
    fn write(&self, logs: &TensorView<'_>, io: &mut Io<'_, '_>) -> Result<()> {
        let (inputs, limits) = (io.inputs, io.context.limits());
        let losses = match inputs[self.target].dtype().is_float() {
            true => with_float!(logs.dtype(), T => self.of_probabilities::<T>(logs, inputs, limits))?,
            false => with_float!(logs.dtype(), T => self.of_classes::<T>(logs, inputs, limits))?,
        };
        self.reduction.write_numbers(losses.each, losses.divisor, &mut io.outputs[0])
    }

    fn factors(&self, inputs: &[TensorView<'_>]) -> Result<Option<Vec<f64>>> {
        let Some(weight) = &self.weight else { return Ok(None) };
        Ok(Some(number::read::<f64>(&weight.view(inputs)?)?.into_owned()))
    }

    /// The losses for targets that are classes.
    fn of_classes<T: Float>(
        &self,
        logs: &TensorView<'_>,
        inputs: &[TensorView<'_>],
        limits: &Limits,
    ) -> Result<Losses> {
        let places = Places::new(logs.shape());
        let (logs, targets) = (float::read::<T>(logs)?, number::read::<i64>(&inputs[self.target])?);
        let factors = self.factors(inputs)?;
        let factor = |class: usize| factors.as_ref().map_or(1.0, |factors| factors[class]);
        let mut losses = Losses { each: Vec::with_capacity(targets.len()), divisor: 0.0 };
        for (sample, &target) in targets.iter().enumerate() {
            if sample % CHECKED == 0 {
                limits.check_deadline()?;
            }
            if target == self.ignored {
                losses.each.push(0.0);
                continue;
            }
            let class = class_of(target, places.classes)?;
            let place = places.of(sample);
            let term = |class: usize| -factor(class) * number_of(logs[place(class)]);
            let mut loss = term(class);
            // Without smoothing, an infinite term of another class must not count.
            if self.smoothing > 0.0 {
                let all: f64 = (0..places.classes).map(term).sum();
                loss = (1.0 - self.smoothing) * loss + self.smoothing / places.classes as f64 * all;
            }
            losses.each.push(loss);
            losses.divisor += factor(class);
        }
        Ok(losses)
    }

    /// The losses for targets that are the probabilities of all classes.
    fn of_probabilities<T: Float>(
        &self,
        logs: &TensorView<'_>,
        inputs: &[TensorView<'_>],
        limits: &Limits,
    ) -> Result<Losses> {
        let places = Places::new(logs.shape());
        let count = logs.num_elements();
        limits.check_tensor("the probabilities of the target", (count as u64).saturating_mul(8))?;
        let (logs, targets) = (float::read::<T>(logs)?, number::read::<f64>(&inputs[self.target])?);
        let factors = self.factors(inputs)?;
        let samples = places.samples;
        let spread = self.smoothing / places.classes as f64;
        let mut losses = Losses { each: Vec::with_capacity(samples), divisor: samples as f64 };
        for sample in 0..samples {
            if sample % CHECKED == 0 {
                limits.check_deadline()?;
            }
            let place = places.of(sample);
            let term = |class: usize| {
                let target = targets[place(class)] * (1.0 - self.smoothing) + spread;
                let factor = factors.as_ref().map_or(1.0, |factors| factors[class]);
                -number_of(logs[place(class)]) * target * factor
            };
            losses.each.push((0..places.classes).map(term).sum());
        }
        Ok(losses)
    }
}

fn number_of<T: Float>(x: T) -> f64 {
    x.to_f64().unwrap_or(f64::NAN)
}

/// A class, which must be below the number of classes.
pub(super) fn class_of(target: i64, classes: usize) -> Result<usize> {
    let class = usize::try_from(target).ok().filter(|&class| class < classes);
    class.ok_or_else(|| TensorError::OutOfRange { what: "class", index: target, len: classes }.into())
}

impl Layer for Classes {
    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
        self.reduction.infer(self.losses(inputs)?)
    }
}

impl CpuLayer for Classes {
    fn forward(&mut self, io: &mut Io<'_, '_>) -> Result<()> {
        let input = io.inputs[0];
        if !self.is_cross_entropy {
            return self.write(&input, io);
        }
        let axis = i64::from(input.shape().rank() > 1);
        let mut softmax = LogSoftmax { dim: Some(axis), dtype: None, recorded: RecordedType(None) };
        let mut logs = room_for(&TensorMeta::of(&input), io.context.limits())?;
        softmax.forward(&mut Io::new(&[input], &mut [logs.view_mut()?], &mut io.context))?;
        self.write(&logs.view(), io)
    }
}

impl Delegating for NllLoss {
    fn delegate(&self, _: usize) -> Result<impl CpuLayer> {
        Ok(Classes {
            target: self.target.0,
            weight: self.weight.clone(),
            reduction: self.reduction,
            ignored: self.ignore_index,
            smoothing: 0.0,
            is_cross_entropy: false,
        })
    }
}

impl Delegating for CrossEntropyLoss {
    fn delegate(&self, _: usize) -> Result<impl CpuLayer> {
        Ok(Classes {
            target: self.target.0,
            weight: self.weight.clone(),
            reduction: self.reduction,
            ignored: self.ignore_index,
            smoothing: self.label_smoothing,
            is_cross_entropy: true,
        })
    }
}

operators! { NllLoss, CrossEntropyLoss }

#[cfg(test)]
mod tests;
