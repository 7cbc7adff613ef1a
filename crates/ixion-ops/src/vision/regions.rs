//! Regions of interest: parts of feature maps that boxes enclose, resampled to one size.

use crate::op::{CpuLayer, FromOperator, Io, Layer, LayerError, Result, TensorMeta, exactly};
use crate::support::arguments::InputIndex;
use crate::support::choices::{PerAxis, per_axis};
use crate::support::float;
use crate::support::float::with_float;
use ixion_kernels::Float;
use ixion_kernels::naive::RegionAlign;
use ixion_kernels::regions::{Region, region_align};
use ixion_tensor::{Dim, Limits, TensorView, TensorViewMut};
use std::ops::RangeInclusive;

crate::operator! {
    /// `torchvision.ops.RoIAlign`: resamples the regions of N×C×H×W images that K boxes enclose to K×C×`output_size`; each
    /// element is the mean of bilinear samples. Boxes are K×5, image index, left, top, right, bottom; or a list of K×4, one
    /// for each image. PNNX writes lists before the images, which are recognised by their four axes.
    pub struct RoIAlign for "torchvision.ops.RoIAlign" {
        /// Rows and columns of the output, or one length for both.
        output_size: PerAxis,
        /// Factor from box coordinates to those of the images.
        spatial_scale: f64,
        /// Number of samples per output element along each axis; below 1 to take as many as it covers input elements.
        sampling_ratio: i64,
        /// Whether coordinates refer to the edges of elements instead of their centres.
        aligned: bool = false,
    }
    validate |layer| { sizes(&layer.output_size).map(drop) }
}

crate::operator! {
    /// `torchvision.ops.roi_align`, the functional form of `torchvision.ops.RoIAlign` as PNNX writes it. It takes no lists
    /// of boxes, because torchvision concatenates them before.
    pub struct RoIAlignFunction for "pnnx.custom_op.torchvision.roi_align", "torchvision::roi_align" {
        /// The boxes, K×5.
        boxes as "arg_1": InputIndex,
        /// Factor from box coordinates to those of the images.
        spatial_scale as "arg_2": f64,
        /// Rows of the output.
        rows as "arg_3": usize,
        /// Columns of the output.
        columns as "arg_4": usize,
        /// Number of samples per output element along each axis; below 1 to take as many as it covers input elements.
        sampling_ratio as "arg_5": i64,
        /// Whether coordinates refer to the edges of elements instead of their centres.
        aligned as "arg_6": bool,
    }
}

fn sizes(output_size: &PerAxis) -> Result<[usize; 2]> {
    let sizes = per_axis("output_size", output_size.values(), 2)?;
    Ok([sizes[0], sizes[1]])
}

/// The number of samples along an axis; `None` for as many as there are elements.
pub(super) fn samples(sampling_ratio: i64) -> Option<usize> {
    usize::try_from(sampling_ratio).ok().filter(|&samples| samples > 0)
}

impl RoIAlign {
    fn how(&self) -> Result<RegionAlign> {
        let (scale, samples) = (self.spatial_scale, samples(self.sampling_ratio));
        Ok(RegionAlign { bins: sizes(&self.output_size)?, scale, samples, aligned: self.aligned })
    }
}

impl RoIAlignFunction {
    fn how(&self) -> RegionAlign {
        RegionAlign {
            bins: [self.rows, self.columns],
            scale: self.spatial_scale,
            samples: samples(self.sampling_ratio),
            aligned: self.aligned,
        }
    }
}

/// The position of the images among the inputs, recognised by their rank; the others are boxes.
fn pictures(mut ranks: impl Iterator<Item = usize>) -> Result<usize> {
    ranks
        .position(|rank| rank == 4)
        .ok_or_else(|| LayerError::shape("the images", "one input N×C×H×W", "none: no input has four axes"))
}

/// The maximum number of samples along an axis, which exceeds the length of any image.
const MAX_SAMPLES: usize = 1 << 16;

/// Checks the number of samples along an axis, which the parameter `key` states.
pub(super) fn check_samples(key: &'static str, samples: Option<usize>) -> Result<()> {
    match samples.filter(|&samples| samples > MAX_SAMPLES) {
        Some(samples) => {
            let reason = format!("at most {MAX_SAMPLES} samples per axis are supported");
            Err(LayerError::invalid(key, samples, reason))
        }
        None => Ok(()),
    }
}

fn infer(how: &RegionAlign, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
    check_samples("sampling_ratio", how.samples)?;
    let at = pictures(inputs.iter().map(TensorMeta::rank))?;
    let pictures = &inputs[at];
    float::check("the images", pictures)?;
    let [count, channels, lens @ ..] = pictures.dims() else { return Err(wrong_pictures(pictures)) };
    if lens.iter().any(|len| *len == 0usize) {
        return Err(wrong_pictures(pictures));
    }
    let boxes = || inputs.iter().enumerate().filter(|(position, _)| *position != at).map(|(_, boxes)| boxes);
    let lists = boxes().count();
    if count.fixed().is_some_and(|count| i64::try_from(lists).is_ok_and(|lists| lists > count.max(1))) {
        return Err(LayerError::shape("the boxes", format!("a list for each of {count} images"), lists));
    }
    let mut regions = Dim::from(0usize);
    for boxes in boxes() {
        if boxes.dtype() != pictures.dtype() {
            return Err(LayerError::dtype("the boxes", pictures.dtype(), boxes.dtype()));
        }
        regions = regions + regions_of(boxes, lists)?;
    }
    let bins = how.bins.into_iter().map(Dim::from);
    Ok(vec![pictures.with_dims([regions, channels.clone()].into_iter().chain(bins))])
}

pub(super) fn wrong_pictures(found: &TensorMeta) -> LayerError {
    LayerError::shape("the images", "N×C×H×W, with rows and columns", found)
}

/// The number of boxes in one of `lists` tensors.
fn regions_of(boxes: &TensorMeta, lists: usize) -> Result<Dim> {
    match boxes.dims() {
        [count, numbers] if !numbers.differs(&Dim::from(4)) => Ok(count.clone()),
        [count, numbers] if lists == 1 && !numbers.differs(&Dim::from(5)) => Ok(count.clone()),
        _ => {
            let wanted = "K×5 (image, left, top, right, bottom), or K×4 for each image";
            Err(LayerError::shape("the boxes", wanted, boxes))
        }
    }
}

/// A box: the index of its image, and left, top, right and bottom.
pub(super) type Place<T> = (usize, [T; 4]);

/// Appends the boxes of a tensor, the `list`th.
pub(super) fn places<T: Float>(
    boxes: &TensorView<'_>,
    list: usize,
    pictures: usize,
    into: &mut Vec<Place<T>>,
) -> Result<()> {
    let numbers = boxes.shape().last().copied().unwrap_or(0);
    for (index, place) in float::read::<T>(boxes)?.chunks_exact(numbers.max(1)).enumerate() {
        let (picture, edges) = match *place {
            [left, top, right, bottom] => (Some(list), [left, top, right, bottom]),
            [picture, left, top, right, bottom] => (picture.to_usize(), [left, top, right, bottom]),
            _ => return Err(LayerError::shape("a box", "4 or 5 numbers", place.len())),
        };
        let Some(picture) = picture.filter(|&picture| picture < pictures) else {
            let (what, wanted) = (format!("the image of box {index}"), format!("a number below {pictures}"));
            return Err(LayerError::shape(what, wanted, place[0].to_f64().unwrap_or(f64::NAN)));
        };
        into.push((picture, edges));
    }
    Ok(())
}

fn run<T: Float>(
    how: &RegionAlign,
    inputs: &[TensorView<'_>],
    output: &mut TensorViewMut<'_>,
    limits: &Limits,
) -> Result<()> {
    let at = pictures(inputs.iter().map(|input| input.shape().rank()))?;
    let shape = *inputs[at].shape();
    let mut boxes = Vec::with_capacity(output.shape().first().copied().unwrap_or(0));
    let others = inputs.iter().enumerate().filter(|(position, _)| *position != at);
    for (list, (_, input)) in others.enumerate() {
        places::<T>(input, list, shape[0], &mut boxes)?;
    }
    let lens = [shape[1], shape[2], shape[3]];
    let (pictures, size) = (float::read::<T>(&inputs[at])?, lens.iter().product::<usize>());
    let region = |index: usize| {
        let (picture, edges) = boxes[index];
        Region { picture: &pictures[picture * size..][..size], edges }
    };
    float::write::<T>(output, |output| Ok(region_align(how, lens, region, output, limits)?))
}

impl Layer for RoIAlign {
    fn num_inputs(&self) -> RangeInclusive<usize> {
        2..=usize::MAX
    }

    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
        infer(&self.how()?, inputs)
    }
}

impl CpuLayer for RoIAlign {
    fn forward(&mut self, io: &mut Io<'_, '_>) -> Result<()> {
        let how = self.how()?;
        with_float!(io.inputs[0].dtype(), T => run::<T>(&how, io.inputs, &mut io.outputs[0], io.context.limits()))
    }
}

impl Layer for RoIAlignFunction {
    fn num_inputs(&self) -> RangeInclusive<usize> {
        exactly(1 + self.field_inputs())
    }

    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
        infer(&self.how(), inputs)
    }
}

impl CpuLayer for RoIAlignFunction {
    fn forward(&mut self, io: &mut Io<'_, '_>) -> Result<()> {
        with_float!(io.inputs[0].dtype(), T => run::<T>(&self.how(), io.inputs, &mut io.outputs[0], io.context.limits()))
    }
}

operators! { RoIAlign, RoIAlignFunction }

#[cfg(test)]
mod tests {
    use super::*;
    use crate::support::testing::{assert_close, operator, tensor, waves};
    use ixion_tensor::DType;

    const FIXED: &[(&str, &str)] =
        &[("output_size", "(2,1)"), ("spatial_scale", "0.5"), ("sampling_ratio", "2"), ("aligned", "True")];

    /// One element per box: a bin of one sample is the position between four elements.
    #[test]
    fn a_sample_is_interpolated_from_four_elements() {
        let params = [("output_size", "1"), ("spatial_scale", "1"), ("sampling_ratio", "1")];
        let picture = tensor(&[1, 1, 2, 2], &[0.0f32, 1.0, 2.0, 3.0]);
        let read = |aligned: &'static str, place: &[f32]| {
            let all = [&params[..], &[("aligned", aligned)]].concat();
            let boxes = tensor(&[1, 5], place);
            operator("torchvision.ops.RoIAlign", &all).run_one(&[&picture, &boxes]).unwrap()
        };
        // The centre of 0…2 is 1, which is the edge between elements or the centre of the second one.
        assert_close(&read("True", &[0.0, 0.0, 0.0, 2.0, 2.0]), &[1, 1, 1, 1], &[1.5]);
        assert_close(&read("False", &[0.0, 0.0, 0.0, 2.0, 2.0]), &[1, 1, 1, 1], &[3.0]);
        // An empty box is one element wide if it is not aligned.
        assert_close(&read("False", &[0.0, 0.0, 0.0, 0.0, 0.0]), &[1, 1, 1, 1], &[1.5]);
        // Up to one element outside, samples have the value of the outermost element, then 0.
        assert_close(&read("False", &[0.0, -1.5, 0.0, -0.5, 0.0]), &[1, 1, 1, 1], &[1.0]);
        assert_close(&read("False", &[0.0, -2.5, 0.0, -0.5, 0.0]), &[1, 1, 1, 1], &[0.0]);
    }

    #[test]
    fn lists_are_the_boxes_of_one_picture_each() {
        let align = operator("torchvision.ops.RoIAlign", FIXED);
        let pictures = waves(&[2, 2, 4, 4]);
        let first = tensor(&[1, 4], &[0.0, 1.0, 6.0, 7.0]);
        let second = tensor(&[2, 4], &[1.0, 0.0, 5.0, 3.0, 2.0, 2.0, 9.0, 9.0]);
        let rows = [0.0, 0.0, 1.0, 6.0, 7.0, 1.0, 1.0, 0.0, 5.0, 3.0, 1.0, 2.0, 2.0, 9.0, 9.0];
        let want = align.run_one(&[&pictures, &tensor(&[3, 5], &rows)]).unwrap();
        assert_eq!(align.run_one(&[&first, &second, &pictures]).unwrap(), want);
        assert_eq!(align.run_one(&[&tensor(&[3, 5], &rows), &pictures]).unwrap(), want);
        let params = [("arg_2", "0.5"), ("arg_3", "2"), ("arg_4", "1"), ("arg_5", "2"), ("arg_6", "True")];
        let function =
            operator("pnnx.custom_op.torchvision.roi_align", &params).with_names(&["arg_0", "arg_1"]);
        assert_eq!(function.run_one(&[&pictures, &tensor(&[3, 5], &rows)]).unwrap(), want);
    }

    #[test]
    fn symbols_and_mismatches() {
        let align = operator("torchvision.ops.RoIAlign", FIXED);
        let n = || Dim::symbol("n");
        let meta = |dims: &[Dim]| TensorMeta::new(DType::F32, dims.to_vec());
        let pictures = meta(&[n(), Dim::from(3), Dim::symbol("h"), Dim::symbol("w")]);
        let boxes = meta(&[Dim::symbol("k"), Dim::from(5)]);
        assert_eq!(align.infer(&[pictures.clone(), boxes.clone()]).unwrap()[0].to_string(), "k×3×2×1 f32");
        let list = meta(&[Dim::symbol("k"), Dim::from(4)]);
        let joined = align.infer(&[list.clone(), list.clone(), pictures.clone()]).unwrap();
        assert_eq!(joined[0].dims()[0], Dim::symbol("k") + Dim::symbol("k"));
        let wrong = |inputs: &[TensorMeta]| align.infer(inputs).unwrap_err().to_string();
        assert!(wrong(&[boxes.clone(), boxes.clone()]).contains("no input has four axes"));
        assert!(
            wrong(&[pictures.clone(), boxes.clone(), boxes.clone()]).starts_with("the boxes: expected K×5")
        );
        assert!(
            wrong(&[pictures.clone(), boxes.with_dtype(DType::F64)])
                .starts_with("the boxes: expected f32, got f64")
        );
        let one = meta(&[Dim::from(1), Dim::from(3), Dim::from(4), Dim::from(4)]);
        assert!(wrong(&[list.clone(), list, one]).contains("expected a list for each of 1 images, got 2"));
        assert!(operator("torchvision.ops.RoIAlign", &FIXED[1..]).create(2).is_err());
        let endless = [&FIXED[..2], &[("sampling_ratio", "9000000000000000000")]].concat();
        let endless = operator("torchvision.ops.RoIAlign", &endless).create(2).unwrap();
        let error = endless.infer(&[pictures, boxes]).unwrap_err().to_string();
        assert!(error.contains("sampling_ratio") && error.contains("at most 65536"), "{error}");
        align.survives(2);
    }

    /// With these, PyTorch reads memory out of bounds or allocates a negative size.
    #[test]
    fn boxes_that_pytorch_cannot_read() {
        let run = |picture: f64| {
            operator("torchvision.ops.RoIAlign", FIXED)
                .run(&[&waves(&[1, 1, 4, 4]), &tensor(&[1, 5], &[picture, 0.0, 0.0, 1.0, 1.0])])
        };
        let error = run(1.0).unwrap_err().to_string();
        assert_eq!(error, "the image of box 0: expected a number below 1, got 1");
        assert!(run(f64::NAN).is_err() && run(-1.0).is_err() && run(0.9).is_ok());
        let adaptive = [&FIXED[..2], &[("sampling_ratio", "0"), ("aligned", "True")]].concat();
        let boxes = tensor(&[1, 5], &[0.0, 3.0, 1.0, 1.0, 3.0]);
        let read = operator("torchvision.ops.RoIAlign", &adaptive).run_one(&[&waves(&[1, 1, 4, 4]), &boxes]);
        assert_close(&read.unwrap(), &[1, 1, 2, 1], &[0.0, 0.0]);
    }
}
