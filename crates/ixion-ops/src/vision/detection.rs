//! The head of YOLOv5, if PNNX keeps it whole.

mod constants;
mod head;
mod table;

use crate::op::{Cost, CpuLayer, Io, Layer, LayerError, Result, TensorMeta, exactly};
use crate::support::float;
use crate::support::float::with_float;
use crate::support::shape_cache::ShapeCache;
pub use head::Head;
use head::Part;
use ixion_kernels::anchors::{Anchor, decode_anchors, rows_of};
use ixion_kernels::conv::{ConvPlan, Convolve, Factors};
use ixion_kernels::parallel::threads;
use ixion_tensor::{DType, Dim, Limits, Shape, TensorView};
use std::ops::RangeInclusive;

crate::operator! {
    /// `models.yolo.Detect`, the head of YOLOv5 and its relatives, which PNNX keeps whole with `moduleop=models.yolo.Detect`. A
    /// 1×1 convolution turns each feature map N×C×H×W into M numbers for each of A anchors, whose sigmoids σ are those of a box:
    /// the centre (2σ + position) · stride, the size (2σ)² · anchor, and M − 4 probabilities. The boxes of all maps are joined,
    /// N×(A·H·W + …)×M. If the file lists further outputs, they are the results of the convolutions, N×A×H×W×M.
    pub struct Detect for "models.yolo.Detect" {
        /// The convolutions, strides, grids and anchors of all maps.
        head as "m.0.weight": Head,
        /// State prepared for the shapes of the last run.
        ready: ShapeCache<Ready>,
    }
}

/// State that depends on the shapes of the maps.
#[derive(Debug)]
pub struct Ready {
    dtype: DType,
    threads: usize,
    maps: Vec<ReadyMap>,
    /// The number of boxes of an image.
    rows: usize,
    scratch: ScratchLen,
}

#[derive(Debug)]
struct ReadyMap {
    input: Shape,
    convolution: ConvPlan,
    /// Rows times columns.
    positions: usize,
    /// The row of the map's first box.
    first: usize,
    stride: f64,
    anchors: Vec<Anchor>,
}

/// The number of elements of scratch memory: for the result of a convolution, followed by what convolutions need and can use.
#[derive(Debug, Clone, Copy, Default)]
struct ScratchLen {
    result: usize,
    least: usize,
    most: usize,
}

impl ScratchLen {
    /// The scratch memory for one more convolution.
    fn with(self, convolution: &ConvPlan) -> Self {
        Self {
            result: self.result.max(convolution.sample()[1]),
            least: self.least.max(convolution.least_scratch()),
            most: self.most.max(convolution.scratch()),
        }
    }
}

impl Ready {
    fn new(head: &Head, inputs: &[TensorView<'_>], limits: &Limits) -> Result<Self> {
        let dtype = inputs.first().map_or(DType::F32, TensorView::dtype);
        let (mut maps, mut rows, mut scratch) = (Vec::new(), 0usize, ScratchLen::default());
        for ((index, input), stride) in inputs.iter().enumerate().zip(head.strides()?) {
            let shape = *input.shape();
            let convolution = head.convolution(index, &shape, dtype)?;
            scratch = scratch.with(&convolution);
            let lens = [shape[2], shape[3]];
            let positions = lens[0] * lens[1];
            let boxes = positions.saturating_mul(head.num_anchors());
            let bytes = (boxes as u64).saturating_mul(size_of::<Anchor>() as u64);
            limits.check_tensor("the anchors", bytes)?;
            let anchors = head.anchors(index, lens, stride)?;
            maps.push(ReadyMap { input: shape, convolution, positions, first: rows, stride, anchors });
            rows = rows.saturating_add(boxes);
        }
        Ok(Self { dtype, threads: threads(), maps, rows, scratch })
    }

    fn fits(&self, inputs: &[TensorView<'_>]) -> bool {
        let fits = |(map, input): (&ReadyMap, &TensorView<'_>)| {
            map.input == *input.shape() && self.dtype == input.dtype()
        };
        self.threads == threads() && self.maps.len() == inputs.len() && self.maps.iter().zip(inputs).all(fits)
    }
}

impl Detect {
    fn run<T: Convolve>(&mut self, io: &mut Io<'_, '_>) -> Result<()> {
        let mut ready = self.ready.take();
        let result = self.run_with::<T>(&mut ready, io);
        self.ready = ready;
        result
    }

    fn run_with<T: Convolve>(&self, ready: &mut ShapeCache<Ready>, io: &mut Io<'_, '_>) -> Result<()> {
        let (inputs, limits) = (io.inputs, io.context.limits());
        let ready =
            ready.get_or_make(|ready| ready.fits(inputs), || Ready::new(&self.head, inputs, limits))?;
        let ScratchLen { result, least, most } = ready.scratch;
        let scratch =
            io.context.scratch_between::<T>(result.saturating_add(least), result.saturating_add(most))?;
        let mut results = self.results::<T>(inputs, ready, limits)?;
        let parts = self.head.parts();
        let boxes = parts.iter().position(|part| *part == Part::Boxes).unwrap_or(0);
        float::write::<T>(&mut io.outputs[boxes], |output| {
            self.write_boxes(inputs, ready, (output, &mut results), scratch, limits)
        })?;
        for (part, output) in parts.iter().zip(io.outputs.iter_mut()) {
            let Part::Map(index) = *part else { continue };
            float::write::<T>(output, |output| {
                let found = results.get(index).map(Vec::as_slice).unwrap_or_default();
                output.iter_mut().zip(found).for_each(|(to, &from)| *to = from);
                Ok(())
            })?;
        }
        Ok(())
    }

    /// Memory for the results of the convolutions, if they are outputs.
    fn results<T: Convolve>(
        &self,
        inputs: &[TensorView<'_>],
        ready: &Ready,
        limits: &Limits,
    ) -> Result<Vec<Vec<T>>> {
        let images = inputs.first().and_then(|input| input.shape().first().copied()).unwrap_or(0);
        let is_asked = self.head.parts().len() > 1;
        let memory = |map: &ReadyMap| -> Result<Vec<T>> {
            let len = map.convolution.sample()[1].saturating_mul(images);
            limits.check_tensor("the result of a convolution", (len as u64).saturating_mul(8))?;
            Ok(vec![T::zero(); len])
        };
        ready.maps.iter().filter(|_| is_asked).map(memory).collect()
    }

    fn write_boxes<T: Convolve>(
        &self,
        inputs: &[TensorView<'_>],
        ready: &Ready,
        (output, results): (&mut [T], &mut [Vec<T>]),
        scratch: &mut [T],
        limits: &Limits,
    ) -> Result<()> {
        let numbers = self.head.numbers();
        let (result, scratch) = scratch.split_at_mut(ready.scratch.result);
        for (index, (map, input)) in ready.maps.iter().zip(inputs).enumerate() {
            let (images, input) = (map.input[0], float::read::<T>(input)?);
            let [weight, bias] = self.head.factors::<T>(index)?;
            let factors = Factors { weight: &weight, bias: Some(&bias[..]), epilogue: None };
            let ([taken, made], sizes) = (map.convolution.sample(), [numbers, map.positions]);
            let result = &mut result[..made];
            for image in 0..images {
                let input = &input[image * taken..][..taken];
                map.convolution.run(input, &factors, result, scratch, limits)?;
                if let Some(results) = results.get_mut(index) {
                    let each = (numbers * map.positions).max(1);
                    let rows = results[image * made..][..made].chunks_exact_mut(each);
                    result
                        .chunks_exact(each)
                        .zip(rows)
                        .for_each(|(planes, rows)| rows_of(planes, sizes, rows));
                }
                let first = (image * ready.rows + map.first) * numbers;
                let output = &mut output[first..][..made];
                decode_anchors(result, sizes, &map.anchors, map.stride, output, limits)?;
            }
        }
        Ok(())
    }
}

impl Layer for Detect {
    fn num_inputs(&self) -> RangeInclusive<usize> {
        exactly(self.head.len())
    }

    fn num_outputs(&self) -> usize {
        self.head.parts().len()
    }

    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
        float::check("the feature maps", &inputs[0])?;
        let (anchors, numbers) = (Dim::from(self.head.num_anchors()), Dim::from(self.head.numbers()));
        let (mut boxes, mut maps) = (Dim::Fixed(0), Vec::new());
        for (index, input) in inputs.iter().enumerate() {
            let [images, rows, columns] = self.head.lens(index, input)?;
            if inputs[0].dims().first().is_some_and(|first| first.differs(&images)) {
                let wanted = format!("as many images as in feature map 0, {}", inputs[0]);
                return Err(LayerError::shape(format!("feature map {index}"), wanted, input));
            }
            boxes = boxes + anchors.clone() * rows.clone() * columns.clone();
            maps.push(input.with_dims([images, anchors.clone(), rows, columns, numbers.clone()]));
        }
        let images = inputs[0].dims().first().cloned().unwrap_or(Dim::Fixed(0));
        let boxes = inputs[0].with_dims([images, boxes, numbers]);
        let meta = |part: &Part| match part {
            Part::Boxes => boxes.clone(),
            Part::Map(index) => maps[*index].clone(),
        };
        Ok(self.head.parts().iter().map(meta).collect())
    }

    fn cost(&self, inputs: &[TensorMeta], outputs: &[TensorMeta]) -> Cost {
        Cost::of_moving(inputs, outputs).with_macs(self.head.macs(inputs).unwrap_or(0))
    }
}

impl CpuLayer for Detect {
    fn workspace(&self, inputs: &[TensorMeta], _: &[TensorMeta]) -> usize {
        let mut scratch = ScratchLen::default();
        for (index, input) in inputs.iter().enumerate() {
            let shape = input.shape().map_err(LayerError::from);
            let convolution = shape.and_then(|shape| self.head.convolution(index, &shape, input.dtype()));
            let Ok(convolution) = convolution else { return 0 };
            scratch = scratch.with(&convolution);
        }
        let element = inputs.first().map_or(0, |input| float::computed_size(input.dtype()));
        scratch.result.saturating_add(scratch.most).saturating_mul(element)
    }

    fn forward(&mut self, io: &mut Io<'_, '_>) -> Result<()> {
        with_float!(io.inputs[0].dtype(), T => self.run::<T>(io))
    }
}

operators! { Detect; category Weighted }

#[cfg(test)]
mod tests;
