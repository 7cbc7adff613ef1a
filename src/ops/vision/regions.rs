//! Regions of interest: parts of pictures that boxes enclose, brought to one size.

use crate::Limits;
use crate::kernels::Float;
use crate::kernels::naive::RegionAlign;
use crate::kernels::regions::{Region, region_align};
use crate::op::{CpuLayer, ForwardContext, Layer, LayerError, TensorMeta};
use crate::ops::support::arguments::Operand;
use crate::ops::support::choices::{PerAxis, per_axis};
use crate::ops::support::float;
use crate::ops::support::float::with_float;
use crate::tensor::{Dim, TensorView, TensorViewMut};
use std::ops::RangeInclusive;

crate::operator! {
    /// `torchvision.ops.RoIAlign`: the parts of pictures N×C×H×W that boxes enclose, as K×C×`output_size`, each element
    /// the mean of samples between those of the picture. Boxes are K×5: number of the picture, left, top, right, bottom;
    /// or lists K×4, one for each picture. PNNX writes lists before the pictures, which are found by their four axes.
    pub struct RoIAlign for "torchvision.ops.RoIAlign" {
        /// Rows and columns of the output, or one number for both.
        output_size: PerAxis,
        /// What coordinates of boxes are multiplied by to be those of the pictures.
        spatial_scale: f64,
        /// Samples of an element of the output along each axis; below 1 for as many as it covers elements of the picture.
        sampling_ratio: i64,
        /// Whether coordinates are those of the edges of elements, instead of their middles.
        aligned: bool = false,
    }
    validate |layer| { sizes(&layer.output_size).map(drop) }
}

crate::operator! {
    /// `torchvision.ops.roi_align`, as PNNX writes the function: see `torchvision.ops.RoIAlign`. It has no lists of boxes:
    /// torchvision joins them before.
    pub struct RoIAlignFunction for "pnnx.custom_op.torchvision.roi_align", "torchvision::roi_align" {
        /// The boxes, K×5.
        boxes as "arg_1": Operand,
        /// What coordinates of boxes are multiplied by to be those of the pictures.
        spatial_scale as "arg_2": f64,
        /// Rows of the output.
        rows as "arg_3": usize,
        /// Columns of the output.
        columns as "arg_4": usize,
        /// Samples of an element of the output along each axis; below 1 for as many as it covers elements of the picture.
        sampling_ratio as "arg_5": i64,
        /// Whether coordinates are those of the edges of elements, instead of their middles.
        aligned as "arg_6": bool,
    }
}

fn sizes(output_size: &PerAxis) -> Result<[usize; 2], LayerError> {
    let sizes = per_axis("output_size", output_size.values(), 2)?;
    Ok([sizes[0], sizes[1]])
}

fn samples(sampling_ratio: i64) -> Option<usize> {
    usize::try_from(sampling_ratio).ok().filter(|&samples| samples > 0)
}

impl RoIAlign {
    fn how(&self) -> Result<RegionAlign, LayerError> {
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

/// Which input holds the pictures, by the numbers of axes of all: the others are boxes.
fn pictures(mut ranks: impl Iterator<Item = usize>) -> Result<usize, LayerError> {
    ranks
        .position(|rank| rank == 4)
        .ok_or_else(|| LayerError::shape("the pictures", "one input N×C×H×W", "none: no input has four axes"))
}

/// So many samples along an axis are more than any picture has elements there.
const MOST_SAMPLES: usize = 1 << 16;

fn infer(how: &RegionAlign, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>, LayerError> {
    if let Some(samples) = how.samples.filter(|&samples| samples > MOST_SAMPLES) {
        let reason = format!("at most {MOST_SAMPLES} samples are taken along an axis");
        return Err(LayerError::invalid("sampling_ratio", samples, reason));
    }
    let at = pictures(inputs.iter().map(TensorMeta::rank))?;
    let pictures = &inputs[at];
    float::check("the pictures", pictures)?;
    let [count, channels, lens @ ..] = pictures.dims() else { return Err(wrong_pictures(pictures)) };
    if lens.iter().any(|len| *len == 0usize) {
        return Err(wrong_pictures(pictures));
    }
    let boxes = || inputs.iter().enumerate().filter(|(position, _)| *position != at).map(|(_, boxes)| boxes);
    let lists = boxes().count();
    if count.fixed().is_some_and(|count| i64::try_from(lists).is_ok_and(|lists| lists > count.max(1))) {
        return Err(LayerError::shape("the boxes", format!("a list for each of {count} pictures"), lists));
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

fn wrong_pictures(found: &TensorMeta) -> LayerError {
    LayerError::shape("the pictures", "N×C×H×W, with rows and columns,", found)
}

/// How many boxes a tensor holds that is one of so many.
fn regions_of(boxes: &TensorMeta, lists: usize) -> Result<Dim, LayerError> {
    match boxes.dims() {
        [count, numbers] if !numbers.differs(&Dim::from(4)) => Ok(count.clone()),
        [count, numbers] if lists == 1 && !numbers.differs(&Dim::from(5)) => Ok(count.clone()),
        _ => {
            let wanted = "K×5 (picture, left, top, right, bottom), or K×4 for each picture,";
            Err(LayerError::shape("the boxes", wanted, boxes))
        }
    }
}

/// A box: the number of its picture, and left, top, right and bottom.
type Place<T> = (usize, [T; 4]);

/// All boxes of one tensor, the `list`th.
fn places<T: Float>(
    boxes: &TensorView<'_>,
    list: usize,
    pictures: usize,
    into: &mut Vec<Place<T>>,
) -> Result<(), LayerError> {
    let numbers = boxes.shape().last().copied().unwrap_or(0);
    for (index, place) in float::read::<T>(boxes)?.chunks_exact(numbers.max(1)).enumerate() {
        let (picture, edges) = match *place {
            [left, top, right, bottom] => (Some(list), [left, top, right, bottom]),
            [picture, left, top, right, bottom] => (picture.to_usize(), [left, top, right, bottom]),
            _ => return Err(LayerError::shape("a box", "4 or 5 numbers", place.len())),
        };
        let Some(picture) = picture.filter(|&picture| picture < pictures) else {
            let (what, wanted) =
                (format!("the picture of box {index}"), format!("a number below {pictures}"));
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
) -> Result<(), LayerError> {
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

    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>, LayerError> {
        infer(&self.how()?, inputs)
    }
}

impl CpuLayer for RoIAlign {
    fn forward(
        &mut self,
        inputs: &[TensorView<'_>],
        outputs: &mut [TensorViewMut<'_>],
        context: &mut ForwardContext<'_>,
    ) -> Result<(), LayerError> {
        let how = self.how()?;
        with_float!(inputs[0].dtype(), T => run::<T>(&how, inputs, &mut outputs[0], context.limits()))
    }
}

impl Layer for RoIAlignFunction {
    fn num_inputs(&self) -> RangeInclusive<usize> {
        2..=2
    }

    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>, LayerError> {
        infer(&self.how(), inputs)
    }
}

impl CpuLayer for RoIAlignFunction {
    fn forward(
        &mut self,
        inputs: &[TensorView<'_>],
        outputs: &mut [TensorViewMut<'_>],
        context: &mut ForwardContext<'_>,
    ) -> Result<(), LayerError> {
        with_float!(inputs[0].dtype(), T => run::<T>(&self.how(), inputs, &mut outputs[0], context.limits()))
    }
}

operators! { RoIAlign, RoIAlignFunction }

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::support::testing::{assert_close, operator, tensor, waves};
    use crate::tensor::DType;

    const FIXED: &[(&str, &str)] =
        &[("output_size", "(2,1)"), ("spatial_scale", "0.5"), ("sampling_ratio", "2"), ("aligned", "True")];

    /// One element at a place: a bin of one sample is the place between four elements.
    #[test]
    fn a_sample_lies_between_four_elements() {
        let params = [("output_size", "1"), ("spatial_scale", "1"), ("sampling_ratio", "1")];
        let picture = tensor(&[1, 1, 2, 2], &[0.0f32, 1.0, 2.0, 3.0]);
        let read = |aligned: &'static str, place: &[f32]| {
            let all = [&params[..], &[("aligned", aligned)]].concat();
            let boxes = tensor(&[1, 5], place);
            operator("torchvision.ops.RoIAlign", &all).run_one(&[&picture, &boxes]).unwrap()
        };
        // The middle of 0…2 is the edge between elements, 1, or the middle of the second one.
        assert_close(&read("True", &[0.0, 0.0, 0.0, 2.0, 2.0]), &[1, 1, 1, 1], &[1.5]);
        assert_close(&read("False", &[0.0, 0.0, 0.0, 2.0, 2.0]), &[1, 1, 1, 1], &[3.0]);
        // A box of no width is one element wide where it is not aligned.
        assert_close(&read("False", &[0.0, 0.0, 0.0, 0.0, 0.0]), &[1, 1, 1, 1], &[1.5]);
        // Up to one element outside there is the outermost one, then nothing.
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
    fn symbols_and_what_does_not_fit() {
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
        assert!(wrong(&[pictures.clone(), boxes.clone(), boxes.clone()]).starts_with("the boxes: K×5"));
        assert!(wrong(&[pictures.clone(), boxes.with_dtype(DType::F64)]).starts_with("the boxes of f64"));
        let one = meta(&[Dim::from(1), Dim::from(3), Dim::from(4), Dim::from(4)]);
        assert!(
            wrong(&[list.clone(), list, one]).contains("a list for each of 1 pictures needed, but it is 2")
        );
        assert!(operator("torchvision.ops.RoIAlign", &FIXED[1..]).create(2).is_err());
        let endless = [&FIXED[..2], &[("sampling_ratio", "9000000000000000000")]].concat();
        let endless = operator("torchvision.ops.RoIAlign", &endless).create(2).unwrap();
        let error = endless.infer(&[pictures, boxes]).unwrap_err().to_string();
        assert!(error.contains("sampling_ratio") && error.contains("at most 65536"), "{error}");
        align.survives(2);
    }

    /// Of these PyTorch reads what lies elsewhere in memory, or asks for memory of a negative size.
    #[test]
    fn boxes_that_pytorch_cannot_read() {
        let run = |picture: f64| {
            operator("torchvision.ops.RoIAlign", FIXED)
                .run(&[&waves(&[1, 1, 4, 4]), &tensor(&[1, 5], &[picture, 0.0, 0.0, 1.0, 1.0])])
        };
        let error = run(1.0).unwrap_err().to_string();
        assert_eq!(error, "the picture of box 0: a number below 1 needed, but it is 1");
        assert!(run(f64::NAN).is_err() && run(-1.0).is_err() && run(0.9).is_ok());
        let adaptive = [&FIXED[..2], &[("sampling_ratio", "0"), ("aligned", "True")]].concat();
        let boxes = tensor(&[1, 5], &[0.0, 3.0, 1.0, 1.0, 3.0]);
        let read = operator("torchvision.ops.RoIAlign", &adaptive).run_one(&[&waves(&[1, 1, 4, 4]), &boxes]);
        assert_close(&read.unwrap(), &[1, 1, 2, 1], &[0.0, 0.0]);
    }
}
