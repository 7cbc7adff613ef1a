//! Checks of parameters, weights and inputs shared by convolution and its transpose.

use crate::op::{Cost, LayerError, Result, TensorMeta, Weight};
use crate::support::choices::PerAxis;
use crate::support::float;
use ixion_kernels::Float;
use ixion_kernels::conv::Factors;
use ixion_kernels::elementwise::ApplyEpilogue;
use ixion_kernels::window::Window;
use ixion_tensor::{Dim, TensorView};
use std::borrow::Cow;

/// The error for an invalid parameter.
pub(super) fn invalid(key: &'static str, found: &[usize], reason: &str) -> LayerError {
    LayerError::InvalidParameter { key, found: format!("{found:?}"), reason: reason.to_owned() }
}

/// The parameters of both kinds of convolution.
pub(super) struct Parameters<'a> {
    pub(super) in_channels: Option<usize>,
    pub(super) out_channels: Option<usize>,
    pub(super) kernel_size: Option<&'a PerAxis>,
    pub(super) stride: &'a PerAxis,
    pub(super) dilation: &'a PerAxis,
    pub(super) groups: usize,
    pub(super) weight: &'a Weight,
    pub(super) bias: Option<&'a Weight>,
    /// True if the weights are C×(O/groups)×… instead of O×(C/groups)×….
    pub(super) transposed: bool,
}

/// The sizes derived from weights and inputs.
pub(super) struct Sizes {
    pub(super) out_channels: usize,
    /// The size of the kernel.
    pub(super) kernel: Vec<usize>,
    /// The number of input axes before the spatial ones.
    pub(super) leading: usize,
}

impl Parameters<'_> {
    /// Checks the parameters, and the weights if they are in the file.
    ///
    /// # Errors
    /// [`LayerError::InvalidParameter`] for an invalid parameter, [`LayerError::Shape`] for weights of a wrong rank.
    pub(super) fn validate(&self) -> Result<()> {
        let positive = |key, values: &[usize]| match values.contains(&0) {
            false => Ok(()),
            true => Err(invalid(key, values, "it must be at least 1")),
        };
        positive("stride", self.stride.values())?;
        positive("dilation", self.dilation.values())?;
        positive("groups", &[self.groups])?;
        let Weight::Attribute(weight) = self.weight else { return Ok(()) };
        let (channels, out_channels, kernel) = self.split(weight.shape())?;
        let check = |key, given: Option<usize>, is: usize| match given {
            Some(given) if given != is => Err(invalid(key, &[given], &format!("the weights have {is}"))),
            _ => Ok(()),
        };
        check("out_channels", self.out_channels, out_channels)?;
        check("in_channels", self.in_channels, channels)?;
        match self.kernel_size {
            Some(given) if given.get(kernel.len()).as_deref() != Some(kernel) => {
                Err(invalid("kernel_size", given.values(), &format!("the weights have {kernel:?}")))
            }
            _ => Ok(()),
        }
    }

    /// Splits the shape of the weights into input channels, output channels and kernel size.
    fn split<'s>(&self, weight: &'s [usize]) -> Result<(usize, usize, &'s [usize])> {
        match weight {
            [channels, out_per_group, kernel @ ..] if self.transposed => {
                Ok((*channels, out_per_group.saturating_mul(self.groups), kernel))
            }
            [out_channels, in_per_group, kernel @ ..] => {
                Ok((in_per_group.saturating_mul(self.groups), *out_channels, kernel))
            }
            _ => Err(LayerError::shape("the weight's rank", "3, 4 or 5", weight.len())),
        }
    }

    /// Checks that element types and shapes fit each other.
    ///
    /// # Errors
    /// A [`LayerError`] that names the tensor or parameter that does not fit.
    pub(super) fn sizes(&self, inputs: &[TensorMeta]) -> Result<Sizes> {
        let (input, weight) = (&inputs[0], self.weight.meta(inputs)?);
        float::check_real("the input", input)?;
        let bias = self.bias.map(|bias| bias.meta(inputs)).transpose()?;
        if let Some(other) =
            [Some(&weight), bias.as_ref()].into_iter().flatten().find(|w| w.dtype() != input.dtype())
        {
            let what = "weight or bias".to_owned();
            return Err(LayerError::DType { what, wanted: input.dtype().to_string(), found: other.dtype() });
        }
        let shape = weight.shape()?;
        let (channels, out_channels, kernel) = self.split(&shape)?;
        let divided = if self.transposed { channels } else { out_channels };
        if divided % self.groups != 0 {
            return Err(invalid("groups", &[self.groups], &format!("it must divide the {divided} channels")));
        }
        if kernel.is_empty() || kernel.len() > 3 {
            return Err(LayerError::shape("the weight's rank", "3, 4 or 5", shape.rank()));
        }
        let leading = input.rank().checked_sub(kernel.len()).filter(|leading| (1..=2).contains(leading));
        let leading = leading.ok_or_else(|| {
            let wanted = format!("{} or {} axes", kernel.len() + 1, kernel.len() + 2);
            LayerError::shape("the input", wanted, input)
        })?;
        let found = input.dims()[leading - 1].fixed();
        if found.is_some_and(|found| usize::try_from(found) != Ok(channels)) {
            return Err(LayerError::shape("the input", format!("{channels} channels"), input));
        }
        if let Some(bias) = bias.filter(|bias| bias.num_elements().differs(&Dim::from(out_channels))) {
            return Err(LayerError::shape("the bias", format!("{out_channels} elements"), bias));
        }
        Ok(Sizes { out_channels, kernel: kernel.to_vec(), leading })
    }

    /// The window along each axis, given the padding before and after.
    ///
    /// # Errors
    /// [`LayerError::InvalidParameter`] for a wrong number of axes, or a window that is empty or too large.
    pub(super) fn windows(
        &self,
        kernel: &[usize],
        pads: impl IntoIterator<Item = (usize, usize)>,
    ) -> Result<Vec<Window>> {
        let (stride, dilation) =
            (per_axis("stride", self.stride, kernel)?, per_axis("dilation", self.dilation, kernel)?);
        let windows = kernel.iter().zip(stride).zip(dilation).zip(pads);
        let windows = windows.map(|(((&kernel, stride), dilation), (pad_before, pad_after))| {
            let window = Window { kernel, stride, dilation, pad_before, pad_after };
            window.is_sane().then_some(window)
        });
        let windows: Option<Vec<Window>> = windows.collect();
        windows.ok_or_else(|| invalid("kernel_size", kernel, "the window is empty or too large"))
    }

    /// The elements of weight and bias.
    ///
    /// # Errors
    /// Fails if a weight cannot be read.
    pub(super) fn read<'s, T: Float>(
        weight: &'s Weight,
        bias: Option<&'s Weight>,
        inputs: &[TensorView<'s>],
    ) -> Result<Read<'s, T>> {
        let bias = bias.map(|bias| float::read::<T>(&bias.view(inputs)?)).transpose()?;
        Ok((float::read::<T>(&weight.view(inputs)?)?, bias))
    }

    /// The cost, where the kernel is applied once per element of `places`.
    pub(super) fn cost(&self, inputs: &[TensorMeta], outputs: &[TensorMeta], places: &TensorMeta) -> Cost {
        let macs = || -> Option<u64> {
            let weight = self.weight.meta(inputs).ok()?;
            let taps = weight.dims().iter().skip(1).fold(Dim::Fixed(1), |product, dim| product * dim.clone());
            u64::try_from((places.num_elements() * taps).fixed()?).ok()
        };
        Cost::of_moving(inputs, outputs).with_macs(macs().unwrap_or(0))
    }
}

/// The elements of the weights and of the optional bias.
pub(super) type Read<'s, T> = (Cow<'s, [T]>, Option<Cow<'s, [T]>>);

/// One value per axis of the kernel.
pub(super) fn per_axis(key: &'static str, values: &PerAxis, kernel: &[usize]) -> Result<Vec<usize>> {
    let reason = format!("the weights have {} axes after the channels", kernel.len());
    values.get(kernel.len()).ok_or_else(|| invalid(key, values.values(), &reason))
}

/// Computes the samples in turn, given the number of elements of a sample of input and output.
pub(super) fn each_sample<T: Float, E: Into<LayerError>>(
    (input, sample): (&[T], usize),
    (output, out_sample): (&mut [T], usize),
    factors: Factors<'_, T>,
    epilogue: Option<&dyn ApplyEpilogue<T>>,
    mut compute: impl FnMut(&[T], &Factors<'_, T>, &mut [T]) -> Result<(), E>,
) -> Result<()> {
    for (index, output) in output.chunks_exact_mut(out_sample).enumerate() {
        let input = input.get(index * sample..(index + 1) * sample).unwrap_or_default();
        let epilogue = epilogue.map(|epilogue| (epilogue, index * out_sample));
        compute(input, &Factors { epilogue, ..factors }, output).map_err(Into::into)?;
    }
    Ok(())
}
