//! Regions of interest whose bins are pooled, or read from channels of their own: roi_pool, ps_roi_pool, ps_roi_align.

use super::regions::{Place, check_samples, places, samples, wrong_pictures};
use crate::op::{CpuLayer, Io, Layer, LayerError, Result, TensorMeta, exactly};
use crate::support::arguments::InputIndex;
use crate::support::delegation::delegating;
use crate::support::float;
use crate::support::float::with_float;
use ixion_kernels::Float;
use ixion_kernels::naive::RegionAlign;
use ixion_kernels::region_pool::{RegionBins, region_max, region_mean_by_position};
use ixion_kernels::regions::{Region, region_align_by_position};
use ixion_tensor::{DType, Dim, Tensor};
use std::ops::RangeInclusive;

crate::operator! {
    /// `torchvision.ops.roi_pool`, as PNNX writes it: divides the regions of N×C×H×W images that K boxes enclose into bins, and
    /// takes the largest element of each, K×C×rows×columns. The second output is its position in the plane as i32. A bin
    /// without elements is 0, at position -1. Boxes are K×5: image index, left, top, right, bottom.
    pub struct RoIPool for "pnnx.custom_op.torchvision.roi_pool", "torchvision::roi_pool" {
        /// The boxes, K×5.
        boxes as "arg_1": InputIndex,
        /// Factor from box coordinates to those of the images.
        spatial_scale as "arg_2": f64,
        /// Rows of bins.
        rows as "arg_3": usize,
        /// Columns of bins.
        columns as "arg_4": usize,
    }
}

crate::operator! {
    /// `torchvision.ops.ps_roi_pool`, as PNNX writes it: divides the regions of images that K boxes enclose into bins, and takes
    /// the mean of each, every bin from a channel of its own. Images of N×(C·rows·columns)×H×W give K×C×rows×columns. The
    /// second output is the channel of each bin as i32. Boxes are K×5: image index, left, top, right, bottom.
    pub struct PsRoIPool for "pnnx.custom_op.torchvision.ps_roi_pool", "torchvision::ps_roi_pool" {
        /// The boxes, K×5.
        boxes as "arg_1": InputIndex,
        /// Factor from box coordinates to those of the images.
        spatial_scale as "arg_2": f64,
        /// Rows of bins.
        rows as "arg_3": usize,
        /// Columns of bins.
        columns as "arg_4": usize,
    }
    validate |layer| { at_least_one(layer.rows, layer.columns) }
}

crate::operator! {
    /// `torchvision.ops.ps_roi_align`, as PNNX writes it: resamples the regions of images that K boxes enclose, every bin from a
    /// channel of its own; each is the mean of bilinear samples. Images of N×(C·rows·columns)×H×W give K×C×rows×columns. The
    /// second output is the channel of each bin as i32. Boxes are K×5: image index, left, top, right, bottom.
    pub struct PsRoIAlign for "pnnx.custom_op.torchvision.ps_roi_align", "torchvision::ps_roi_align" {
        /// The boxes, K×5.
        boxes as "arg_1": InputIndex,
        /// Factor from box coordinates to those of the images.
        spatial_scale as "arg_2": f64,
        /// Rows of bins.
        rows as "arg_3": usize,
        /// Columns of bins.
        columns as "arg_4": usize,
        /// Number of samples per bin along each axis; below 1 to take as many as it covers input elements.
        sampling_ratio as "arg_5": i64,
    }
    validate |layer| { at_least_one(layer.rows, layer.columns) }
}

/// Checks that there are bins, among which channels can be divided.
fn at_least_one(rows: usize, columns: usize) -> Result<()> {
    let bins = [("arg_3", rows), ("arg_4", columns)];
    match bins.into_iter().find(|(_, bins)| *bins == 0) {
        Some((key, bins)) => Err(LayerError::invalid(key, bins, "there must be at least one bin")),
        None => Ok(()),
    }
}

/// What a bin is.
#[derive(Debug, Clone, Copy)]
enum Bin {
    /// The largest element.
    Largest,
    /// The mean of elements of the bin's own channel.
    Mean,
    /// The mean of bilinear samples of the bin's own channel: this many along each axis, or as many as there are elements.
    Sampled(Option<usize>),
}

/// Any of the operators.
#[derive(Debug, Clone)]
struct RegionPooling {
    bin: Bin,
    boxes: usize,
    scale: f64,
    bins: [usize; 2],
}

delegating! {
    RoIPool |layer| RegionPooling {
        bin: Bin::Largest,
        boxes: layer.boxes.0,
        scale: layer.spatial_scale,
        bins: [layer.rows, layer.columns],
    };
    PsRoIPool |layer| RegionPooling {
        bin: Bin::Mean,
        boxes: layer.boxes.0,
        scale: layer.spatial_scale,
        bins: [layer.rows, layer.columns],
    };
    PsRoIAlign |layer| RegionPooling {
        bin: Bin::Sampled(samples(layer.sampling_ratio)),
        boxes: layer.boxes.0,
        scale: layer.spatial_scale,
        bins: [layer.rows, layer.columns],
    };
}

impl RegionPooling {
    /// The channels of the output, for this number of channels of the images.
    fn channels(&self, channels: &Dim) -> Result<Dim> {
        if matches!(self.bin, Bin::Largest) {
            return Ok(channels.clone());
        }
        let bins = Dim::from(self.bins[0]) * Dim::from(self.bins[1]);
        let divided = channels.clone().floor_div(bins.clone());
        if (divided.clone() * bins.clone()).differs(channels) {
            let wanted = format!("a multiple of {bins} channels, one for each bin");
            return Err(LayerError::shape("the images", wanted, format!("{channels} channels")));
        }
        Ok(divided)
    }

    fn run<T: Float>(&self, io: &mut Io<'_, '_>) -> Result<()> {
        let (shape, limits) = (*io.inputs[0].shape(), io.context.limits());
        let mut boxes: Vec<Place<T>> = Vec::new();
        places::<T>(&io.inputs[self.boxes], 0, shape[0], &mut boxes)?;
        let lens = [shape[1], shape[2], shape[3]];
        let (pictures, size) = (float::read::<T>(&io.inputs[0])?, lens.iter().product::<usize>());
        let region = |index: usize| {
            let (picture, edges) = boxes[index];
            Region { picture: &pictures[picture * size..][..size], edges }
        };
        let how = RegionBins { bins: self.bins, scale: self.scale };
        let [pooled, second] = io.outputs else {
            return Err(LayerError::OutputCount { wanted: 2, found: io.outputs.len() });
        };
        limits.check_tensor("the second output", (second.num_elements() as u64).saturating_mul(4))?;
        let mut noted = vec![0i32; second.num_elements()];
        float::write::<T>(pooled, |pooled| match self.bin {
            Bin::Largest => Ok(region_max(&how, lens, region, (pooled, &mut noted), limits)?),
            Bin::Mean => Ok(region_mean_by_position(&how, lens, region, pooled, limits)?),
            Bin::Sampled(samples) => {
                let how = RegionAlign { bins: self.bins, scale: self.scale, samples, aligned: true };
                Ok(region_align_by_position(&how, lens, region, pooled, limits)?)
            }
        })?;
        if !matches!(self.bin, Bin::Largest) {
            for (channel, noted) in (0..lens[0]).cycle().zip(&mut noted) {
                *noted = i32::try_from(channel).unwrap_or(i32::MAX);
            }
        }
        let shape = *second.shape();
        Ok(second.copy_from(&Tensor::from_vec(noted, &shape)?.view())?)
    }
}

impl Layer for RegionPooling {
    fn num_inputs(&self) -> RangeInclusive<usize> {
        exactly(2)
    }

    fn num_outputs(&self) -> usize {
        2
    }

    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
        if let Bin::Sampled(samples) = self.bin {
            check_samples("arg_5", samples)?;
        }
        let (pictures, boxes) = (&inputs[0], &inputs[self.boxes]);
        float::check("the images", pictures)?;
        let [_, channels, height, width] = pictures.dims() else { return Err(wrong_pictures(pictures)) };
        if *height == 0usize || *width == 0usize {
            return Err(wrong_pictures(pictures));
        }
        if boxes.dtype() != pictures.dtype() {
            return Err(LayerError::dtype("the boxes", pictures.dtype(), boxes.dtype()));
        }
        let count = match boxes.dims() {
            [count, numbers] if !numbers.differs(&Dim::Fixed(5)) => count.clone(),
            _ => return Err(LayerError::shape("the boxes", "K×5 (image, left, top, right, bottom)", boxes)),
        };
        let [rows, columns] = self.bins.map(Dim::from);
        let pooled = pictures.with_dims([count, self.channels(channels)?, rows, columns]);
        let second = pooled.with_dtype(DType::I32);
        Ok(vec![pooled, second])
    }
}

impl CpuLayer for RegionPooling {
    fn forward(&mut self, io: &mut Io<'_, '_>) -> Result<()> {
        with_float!(io.inputs[0].dtype(), T => self.run::<T>(io))
    }
}

operators! { RoIPool, PsRoIPool, PsRoIAlign }

#[cfg(test)]
mod tests {
    use super::*;
    use crate::support::testing::{Operator, assert_close, operator, tensor};

    const MAX: &str = "pnnx.custom_op.torchvision.roi_pool";
    const MEAN: &str = "pnnx.custom_op.torchvision.ps_roi_pool";
    const SAMPLED: &str = "pnnx.custom_op.torchvision.ps_roi_align";
    const FIXED: &[(&str, &str)] = &[("arg_2", "0.5"), ("arg_3", "2"), ("arg_4", "2"), ("arg_5", "0")];

    fn pooling(op_type: &'static str) -> Operator<'static> {
        let params = if op_type == SAMPLED { FIXED } else { &FIXED[..3] };
        operator(op_type, params).with_names(&["arg_0", "arg_1"]).with_outputs(2)
    }

    /// Images of 4×5, and boxes: ordinary, without rows, outside.
    fn inputs(channels: usize) -> [Tensor; 2] {
        let picture: Vec<f32> = (0..channels * 20).map(|index| (index * 7 % 23) as f32 - 5.0).collect();
        let boxes = [0.0, 1.0, 1.0, 6.0, 5.0, 0.0, -3.0, 2.5, 3.0, 2.5, 0.0, 20.0, 0.0, 30.0, 4.0f32];
        [tensor(&[1, channels, 4, 5], &picture), tensor(&[3, 5], &boxes)]
    }

    #[test]
    fn bins_are_as_in_torchvision() {
        let run = |op_type: &'static str, channels: usize| {
            let [pictures, boxes] = inputs(channels);
            pooling(op_type).run(&[&pictures, &boxes]).unwrap()
        };
        let largest = run(MAX, 1);
        let want = [14.0, 17.0, 15.0, 17.0, 7.0, 14.0, 7.0, 14.0, 0.0, 0.0, 0.0, 0.0];
        assert_close(&largest[0], &[3, 1, 2, 2], &want);
        assert_eq!(largest[1].to_vec::<i32>().unwrap(), [6, 13, 16, 13, 5, 6, 5, 6, -1, -1, -1, -1]);
        let mean = run(MEAN, 4);
        assert_close(
            &mean[0],
            &[3, 1, 2, 2],
            &[14.0, 0.0, 7.0, 16.0, 0.0, 12.5, 0.0, 5.0, 0.0, 0.0, 0.0, 0.0],
        );
        let channels = [0, 1, 2, 3].repeat(3);
        assert_eq!(mean[1].to_vec::<i32>().unwrap(), channels);
        let sampled = run(SAMPLED, 4);
        let nan = f64::NAN;
        let want = [5.375, 6.0625, 2.6875, 8.046875, nan, nan, nan, nan, 0.0, 0.0, 0.0, 0.0];
        assert_close(&sampled[0], &[3, 1, 2, 2], &want);
        assert_eq!(sampled[1].to_vec::<i32>().unwrap(), channels);
    }

    #[test]
    fn types_and_empty_tensors() {
        for op_type in [MAX, MEAN, SAMPLED] {
            let [pictures, boxes] = inputs(8);
            let want = pooling(op_type).run_one(&[&pictures, &boxes]).unwrap();
            for dtype in [DType::F64, DType::F16, DType::Bf16] {
                let [pictures, boxes] = [&pictures, &boxes].map(|tensor| tensor.cast(dtype).unwrap());
                let got = pooling(op_type).run_one(&[&pictures, &boxes]).unwrap();
                assert_eq!(got.dtype(), dtype);
                let want = want.cast(DType::F64).unwrap().to_vec::<f64>().unwrap();
                let channels = if op_type == MAX { 8 } else { 2 };
                // As precise as halves are.
                assert_close(&got.cast(DType::F16).unwrap(), &[3, channels, 2, 2], &want);
            }
            let none = Tensor::zeros(DType::F32, &[0, 5]).unwrap();
            let outputs = pooling(op_type).run(&[&pictures, &none]).unwrap();
            assert_eq!([outputs[0].num_elements(), outputs[1].num_elements()], [0, 0]);
            pooling(op_type).survives(2);
        }
    }

    #[test]
    fn symbols_and_mismatches() {
        let meta = |dims: &[&str]| {
            let dim = |dim: &&str| dim.parse::<i64>().map_or_else(|_| Dim::symbol(*dim), Dim::Fixed);
            TensorMeta::new(DType::F32, dims.iter().map(dim).collect::<Vec<_>>())
        };
        let (pictures, boxes) = (meta(&["n", "8", "h", "w"]), meta(&["k", "5"]));
        let outputs = |op_type, inputs: &[TensorMeta]| {
            let outputs = pooling(op_type).infer(inputs);
            outputs.map(|outputs| outputs.iter().map(ToString::to_string).collect::<Vec<_>>().join(", "))
        };
        let both = [pictures.clone(), boxes.clone()];
        assert_eq!(outputs(MAX, &both).unwrap(), "k×8×2×2 f32, k×8×2×2 i32");
        assert_eq!(outputs(MEAN, &both).unwrap(), "k×2×2×2 f32, k×2×2×2 i32");
        let wrong = |inputs: [&TensorMeta; 2]| {
            outputs(SAMPLED, &inputs.map(TensorMeta::clone)).unwrap_err().to_string()
        };
        assert!(wrong([&meta(&["n", "6", "h", "w"]), &boxes]).contains("a multiple of 4 channels"));
        assert!(wrong([&pictures, &meta(&["k", "4"])]).starts_with("the boxes: expected K×5"));
        assert!(wrong([&boxes, &boxes]).starts_with("the images: expected N×C×H×W"));
        assert!(wrong([&meta(&["1", "4", "0", "3"]), &boxes]).starts_with("the images: expected N×C×H×W"));
        assert!(wrong([&pictures, &boxes.with_dtype(DType::F64)]).contains("expected f32, got f64"));
        let none = [("arg_2", "1.0"), ("arg_3", "0"), ("arg_4", "2")];
        assert!(operator(MEAN, &none).create(2).unwrap_err().to_string().contains("at least one bin"));
        let endless = [FIXED[0], FIXED[1], FIXED[2], ("arg_5", "9000000000000000000")];
        let error = operator(SAMPLED, &endless).infer(&both).unwrap_err().to_string();
        assert!(error.contains("arg_5") && error.contains("at most 65536"), "{error}");
    }

    #[test]
    fn a_box_of_a_missing_image() {
        let [pictures, _] = inputs(4);
        for op_type in [MAX, MEAN, SAMPLED] {
            let boxes = tensor(&[1, 5], &[1.0f32, 0.0, 0.0, 1.0, 1.0]);
            let error = pooling(op_type).run(&[&pictures, &boxes]).unwrap_err().to_string();
            assert_eq!(error, "the image of box 0: expected a number below 1, got 1");
        }
    }
}
