//! The attributes of a head: convolutions, strides, grids and anchors.

use super::constants::{Constants, meta_of};
use super::table::Table;
use crate::op::{FieldValue, LayerError, OperatorReader, Result, RuntimeAttribute, TensorMeta};
use crate::support::float;
use ixion_kernels::Float;
use ixion_kernels::anchors::Anchor;
use ixion_kernels::conv::{ConvPlan, ConvShape};
use ixion_kernels::window::Window;
use ixion_tensor::{DType, Dim};
use std::borrow::Cow;

/// The attributes of a head, and what its outputs hold.
#[derive(Debug, Clone)]
pub struct Head {
    maps: Vec<Map>,
    strides: RuntimeAttribute,
    anchors: Anchors,
    /// The number of anchors per position.
    num_anchors: usize,
    /// The numbers of a box: centre, size, and probabilities.
    numbers: usize,
    parts: Vec<Part>,
}

/// What an output of a head holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    /// The boxes of all maps.
    Boxes,
    /// The result of the convolution of this map.
    Map(usize),
}

/// The attributes of one feature map.
#[derive(Debug, Clone)]
struct Map {
    /// Of the convolution, O×C×1×1.
    weight: RuntimeAttribute,
    /// Of the convolution, O.
    bias: RuntimeAttribute,
    /// The position of each box, x and y: 1×A×H×W×2, where A may be 1. Computed if absent.
    grid: Option<RuntimeAttribute>,
    /// The anchor of each box in pixels: 1×A×H×W×2, where H and W may be 1.
    anchors: Option<RuntimeAttribute>,
}

/// Where the anchors are.
#[derive(Debug, Clone)]
enum Anchors {
    /// With each map.
    OfMaps,
    /// In the buffer `anchor_grid`: in pixels, maps×1×A×1×1×2.
    InPixels(RuntimeAttribute),
    /// In the buffer `anchors`: in positions of their map, maps×A×2.
    InPositions(RuntimeAttribute),
}

/// The least numbers of a box: its centre and its size.
const LEAST_NUMBERS: usize = 4;

/// A window of one element.
const POINT: Window = Window { kernel: 1, stride: 1, dilation: 1, pad_before: 0, pad_after: 0 };

impl FieldValue for Head {
    const KIND: &'static str = "the weights `m.0.weight`, `m.0.bias`, `m.1.weight` and so on; strides and grids `pnnx_0`, `pnnx_1` and so on; anchors among these, or `anchors` or `anchor_grid`";

    fn read(reader: &mut OperatorReader<'_>, _: &'static str) -> Result<Option<Self>> {
        let count = reader.num_inputs();
        if count == 0 {
            return Err(LayerError::InputCount { wanted: "at least 1".to_owned(), found: 0 });
        }
        let mut maps = Vec::new();
        for index in 0..count {
            let mut attr = |key: String| reader.attr(key.clone()).ok_or(LayerError::MissingWeight { key });
            let (weight, bias) = (attr(format!("m.{index}.weight"))?, attr(format!("m.{index}.bias"))?);
            maps.push(Map { weight, bias, grid: None, anchors: None });
        }
        let buffers = ["anchor_grid", "anchors"].map(|key| reader.attr(key));
        let constants = Constants::read(reader, count)?;
        let each = constants.others.len() / count;
        let is_even = constants.others.len() == each * count;
        let anchors = match buffers {
            _ if is_even && each == 2 => Anchors::OfMaps,
            [Some(anchors), _] if is_even && each < 2 => Anchors::InPixels(anchors),
            [None, Some(anchors)] if is_even && each < 2 => Anchors::InPositions(anchors),
            _ => return Err(constants.unusable(count)),
        };
        for (map, own) in maps.iter_mut().zip(constants.others.chunks(each.max(1))) {
            (map.grid, map.anchors) = (own.first().cloned(), own.get(1).cloned());
        }
        let parts = parts(reader, count)?;
        let head = Self { maps, strides: constants.strides, anchors, num_anchors: 0, numbers: 0, parts };
        head.checked().map(Some)
    }
}

/// What the outputs of an operator hold: the boxes alone, or the results of all convolutions as well. PNNX lists them in the
/// order in which the model uses them, and records their shapes.
fn parts(reader: &OperatorReader<'_>, maps: usize) -> Result<Vec<Part>> {
    let found = reader.num_outputs();
    if found == 1 {
        return Ok(vec![Part::Boxes]);
    }
    let is_boxes = |output: &usize| reader.output_shape(*output).is_some_and(|dims| dims.len() == 3);
    let boxes: Vec<usize> = (0..found).filter(is_boxes).collect();
    match boxes.as_slice() {
        &[boxes] if found == maps + 1 => {
            let mut parts: Vec<Part> = (0..maps).map(Part::Map).collect();
            parts.insert(boxes, Part::Boxes);
            Ok(parts)
        }
        // Unknown keys first: everything that is known has been read.
        _ => reader.finish().and(Err(LayerError::OutputCount { wanted: 1, found })),
    }
}

impl Head {
    /// The head, with the numbers that follow from its attributes.
    fn checked(mut self) -> Result<Self> {
        self.num_anchors = self.find_num_anchors()?;
        let buffer = match &self.anchors {
            Anchors::OfMaps => None,
            Anchors::InPixels(buffer) | Anchors::InPositions(buffer) => Some(buffer),
        };
        for constant in self.constants().chain([&self.strides]).chain(buffer) {
            float::check_real("a constant of the head", &meta_of(constant))?;
        }
        let dtype = self.maps.first().map(|map| map.weight.dtype());
        for (index, map) in self.maps.iter().enumerate() {
            let numbers = map.check(index, self.num_anchors)?;
            if let Some(dtype) = dtype.filter(|&dtype| dtype != map.weight.dtype()) {
                return Err(LayerError::dtype(weight_of(index), dtype, map.weight.dtype()));
            }
            if index > 0 && numbers != self.numbers {
                let wanted = format!("{} output channels", self.numbers.saturating_mul(self.num_anchors));
                return Err(LayerError::shape(weight_of(index), wanted, meta_of(&map.weight)));
            }
            self.numbers = numbers;
        }
        Ok(self)
    }

    /// The grids and anchors of all maps.
    fn constants(&self) -> impl Iterator<Item = &RuntimeAttribute> {
        self.maps.iter().flat_map(Map::constants)
    }

    fn find_num_anchors(&self) -> Result<usize> {
        let maps = self.maps.len();
        let (what, wanted, found) = match &self.anchors {
            Anchors::InPixels(anchors) => match *anchors.shape() {
                [count, 1, anchors, 1, 1, 2] if count == maps && anchors > 0 => return Ok(anchors),
                _ => ("attribute `anchor_grid`", format!("{maps}×1×A×1×1×2"), anchors),
            },
            Anchors::InPositions(anchors) => match *anchors.shape() {
                [count, anchors, 2] if count == maps && anchors > 0 => return Ok(anchors),
                _ => ("attribute `anchors`", format!("{maps}×A×2"), anchors),
            },
            Anchors::OfMaps => {
                let lens = self.constants().filter_map(|constant| constant.shape().get(1).copied());
                return Ok(lens.max().unwrap_or(1).max(1));
            }
        };
        Err(LayerError::shape(what, wanted, meta_of(found)))
    }

    /// The number of maps, which are the inputs.
    pub(super) fn len(&self) -> usize {
        self.maps.len()
    }

    /// The numbers of a box.
    pub(super) fn numbers(&self) -> usize {
        self.numbers
    }

    /// The number of anchors per position.
    pub(super) fn num_anchors(&self) -> usize {
        self.num_anchors
    }

    /// What the outputs hold.
    pub(super) fn parts(&self) -> &[Part] {
        &self.parts
    }

    /// Checks a map; returns the number of images, and its rows and columns.
    pub(super) fn lens(&self, index: usize, input: &TensorMeta) -> Result<[Dim; 3]> {
        let what = || format!("feature map {index}");
        let map = self.map(index)?;
        if input.dtype() != map.weight.dtype() {
            return Err(LayerError::dtype(what(), map.weight.dtype(), input.dtype()));
        }
        let channels = Dim::from(map.channels());
        let stored = map.stored_lens().map(|lens| lens.map(Dim::from));
        let fits = |rows: &Dim, columns: &Dim| {
            let differs = |[a, b]: &[Dim; 2]| rows.differs(a) || columns.differs(b);
            *rows != 0usize && *columns != 0usize && !stored.as_ref().is_some_and(differs)
        };
        match input.dims() {
            [images, found, rows, columns] if !found.differs(&channels) && fits(rows, columns) => {
                let [rows, columns] = stored.unwrap_or_else(|| [rows.clone(), columns.clone()]);
                Ok([images.clone(), rows, columns])
            }
            _ => {
                let wanted = match &stored {
                    Some([rows, columns]) => format!("N×{channels}×{rows}×{columns}, the size of its grid"),
                    None => format!("N×{channels}×H×W"),
                };
                Err(LayerError::shape(what(), wanted, input))
            }
        }
    }

    fn map(&self, index: usize) -> Result<&Map> {
        self.maps.get(index).ok_or_else(|| LayerError::MissingWeight { key: format!("m.{index}.weight") })
    }

    /// The convolution of a map of these dimensions.
    pub(super) fn convolution(&self, index: usize, dims: &[usize], dtype: DType) -> Result<ConvPlan> {
        let map = self.map(index)?;
        let &[_, _, rows, columns] = dims else {
            return Err(LayerError::shape(format!("feature map {index}"), "N×C×H×W", format!("{dims:?}")));
        };
        let shape = ConvShape {
            channels: map.channels(),
            out_channels: map.out_channels(),
            groups: 1,
            lens: vec![rows, columns],
            windows: vec![POINT; 2],
        };
        Ok(ConvPlan::new(shape, float::computed_size(dtype)))
    }

    /// The multiply-accumulate operations of all convolutions, if the sizes are known.
    pub(super) fn macs(&self, inputs: &[TensorMeta]) -> Option<u64> {
        self.maps.iter().zip(inputs).try_fold(0u64, |sum, (map, input)| {
            let elements = u64::try_from(input.num_elements().fixed()?).ok()?;
            Some(sum.saturating_add(elements.saturating_mul(map.out_channels() as u64)))
        })
    }

    /// The weights and the bias of the convolution of a map.
    pub(super) fn factors<T: Float>(&self, index: usize) -> Result<[Cow<'_, [T]>; 2]> {
        let map = self.map(index)?;
        Ok([elements(&map.weight)?, elements(&map.bias)?])
    }

    /// Pixels per position of each map.
    pub(super) fn strides(&self) -> Result<Vec<f64>> {
        Ok(self.strides.load()?.cast(DType::F64)?.to_vec()?)
    }

    /// The anchors of a map with these rows and columns: A×H×W.
    ///
    /// Which constant is the grid follows from its elements, which are as regular as those of no anchors; if there is none, as
    /// with random weights, it is the one that is used first. Grids of older heads begin at 0, and half a position is
    /// subtracted later.
    pub(super) fn anchors(
        &self,
        index: usize,
        [rows, columns]: [usize; 2],
        stride: f64,
    ) -> Result<Vec<Anchor>> {
        let map = self.map(index)?;
        let lens = [self.num_anchors, rows, columns];
        let mut grid = map.grid.as_ref().map(Table::of_map).transpose()?;
        let mut sizes = match (&self.anchors, &map.anchors) {
            (Anchors::InPixels(anchors), _) => Table::of_buffer(anchors, index, self.num_anchors, 1.0)?,
            (Anchors::InPositions(anchors), _) => Table::of_buffer(anchors, index, self.num_anchors, stride)?,
            (Anchors::OfMaps, Some(anchors)) => Table::of_map(anchors)?,
            (Anchors::OfMaps, None) => return Err(LayerError::MissingWeight { key: "anchors".to_owned() }),
        };
        let mut start = grid.as_ref().and_then(|grid| grid.start(lens));
        let other = map.anchors.as_ref().and_then(|_| sizes.start(lens));
        if let (None, Some(grid), Some(_)) = (start, &mut grid, other) {
            std::mem::swap(grid, &mut sizes);
            start = other;
        }
        let shift = if start == Some(0.0) { -0.5 } else { 0.0 };
        let anchor = |place: [usize; 3]| {
            let [_, y, x] = place;
            let offset = match &grid {
                Some(grid) => grid.at(place).map(|offset| offset + shift),
                None => [x, y].map(|offset| offset as f64 - 0.5),
            };
            Anchor { offset, size: sizes.at(place) }
        };
        Ok(Table::places(lens).map(anchor).collect())
    }
}

impl Map {
    fn out_channels(&self) -> usize {
        self.weight.shape().first().copied().unwrap_or(0)
    }

    fn channels(&self) -> usize {
        self.weight.shape().get(1).copied().unwrap_or(0)
    }

    fn constants(&self) -> impl Iterator<Item = &RuntimeAttribute> {
        [&self.grid, &self.anchors].into_iter().flatten()
    }

    /// The rows and columns that the constants are for, if there are any.
    fn stored_lens(&self) -> Option<[usize; 2]> {
        let len =
            |axis: usize| self.constants().filter_map(|constant| constant.shape().get(axis).copied()).max();
        Some([len(2)?, len(3)?])
    }

    /// Checks the shapes; returns the numbers of a box.
    fn check(&self, index: usize, num_anchors: usize) -> Result<usize> {
        let &[out_channels, channels, 1, 1] = self.weight.shape() else {
            return Err(LayerError::shape(weight_of(index), "O×C×1×1", meta_of(&self.weight)));
        };
        if channels == 0 {
            return Err(LayerError::shape(weight_of(index), "at least one channel", meta_of(&self.weight)));
        }
        let numbers = out_channels / num_anchors;
        if numbers < LEAST_NUMBERS || numbers * num_anchors != out_channels {
            let wanted = format!(
                "output channels for {num_anchors} anchors, at least {LEAST_NUMBERS} for each and the same number"
            );
            return Err(LayerError::shape(weight_of(index), wanted, meta_of(&self.weight)));
        }
        if self.bias.shape() != [out_channels] {
            let what = format!("weight `m.{index}.bias`");
            return Err(LayerError::shape(what, format!("{out_channels} elements"), meta_of(&self.bias)));
        }
        if self.bias.dtype() != self.weight.dtype() {
            let what = format!("weight `m.{index}.bias`");
            return Err(LayerError::dtype(what, self.weight.dtype(), self.bias.dtype()));
        }
        let [rows, columns] = self.stored_lens().unwrap_or([1, 1]);
        for constant in self.constants() {
            let fits = match *constant.shape() {
                [1, anchors, y, x, 2] => {
                    let pairs = [(anchors, num_anchors), (y, rows), (x, columns)];
                    pairs.into_iter().all(|(len, whole)| len > 0 && (len == whole || len == 1))
                }
                _ => false,
            };
            if !fits {
                let wanted = format!("1×{num_anchors}×{rows}×{columns}×2, or with lengths of 1");
                let what = format!("the grid or the anchors of feature map {index}");
                return Err(LayerError::shape(what, wanted, meta_of(constant)));
            }
        }
        Ok(numbers)
    }
}

fn elements<T: Float>(weight: &RuntimeAttribute) -> Result<Cow<'_, [T]>> {
    float::read::<T>(&weight.decode()?.view())
}

fn weight_of(index: usize) -> String {
    format!("weight `m.{index}.weight`")
}
