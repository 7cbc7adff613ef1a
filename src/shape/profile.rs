//! Optimisation profiles: the range of input shapes that a model must support.

use super::ShapeError;
use super::input::by_name;
use crate::graph::{InputPort, RuntimeGraph};
use crate::op::TensorMeta;
use crate::tensor::DType;

// ANCHOR: disorder
/// The first axis that does not satisfy minimum ≤ optimum ≤ maximum.
pub fn disorder(min: &[usize], optimum: &[usize], max: &[usize]) -> Option<usize> {
    // ANCHOR: disorder_todo -- task 6: the position of the first axis that is out of order
    let mut axes = min.iter().zip(optimum).zip(max);
    axes.position(|((min, optimum), max)| min > optimum || optimum > max)
    // ANCHOR_END: disorder_todo
}
// ANCHOR_END: disorder

// ANCHOR: range
/// The range of shapes of one input, with a minimum and a maximum length for each axis.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InputRange {
    name: String,
    dtype: DType,
    min: Vec<usize>,
    optimum: Vec<usize>,
    max: Vec<usize>,
}

impl InputRange {
    /// Creates a range for the input of this name. The model is tuned for `optimum`.
    ///
    /// # Errors
    /// [`ShapeError::Profile`] if the three shapes have different numbers of axes, or an axis does not satisfy
    /// `min` ≤ `optimum` ≤ `max`.
    pub fn new(
        name: impl Into<String>,
        dtype: DType,
        min: impl Into<Vec<usize>>,
        optimum: impl Into<Vec<usize>>,
        max: impl Into<Vec<usize>>,
    ) -> Result<Self, ShapeError> {
        let (name, min, optimum, max) = (name.into(), min.into(), optimum.into(), max.into());
        if min.len() != optimum.len() || max.len() != optimum.len() {
            let ranks = format!("{}, {} and {}", min.len(), optimum.len(), max.len());
            let reason =
                format!("minimum, optimum and maximum must have the same number of axes, got {ranks}");
            return Err(ShapeError::Profile { name, reason });
        }
        if let Some(axis) = disorder(&min, &optimum, &max) {
            let lens = format!("{}, {}, {}", min[axis], optimum[axis], max[axis]);
            let reason = format!("axis {axis} must satisfy minimum ≤ optimum ≤ maximum, got {lens}");
            return Err(ShapeError::Profile { name, reason });
        }
        Ok(Self { name, dtype, min, optimum, max })
    }

    /// Checks the metadata of an input.
    ///
    /// # Errors
    /// [`ShapeError::InputDType`] or [`ShapeError::InputRank`] if the type or the number of axes differs, and
    /// [`ShapeError::OutOfRange`] with the first axis whose length is out of range or not a number.
    pub fn check(&self, input: &TensorMeta) -> Result<(), ShapeError> {
        // ANCHOR: check_todo -- task 6: the type, the number of axes, then each length
        let name = self.name.clone();
        if input.dtype() != self.dtype {
            return Err(ShapeError::InputDType { name, wanted: self.dtype, found: input.dtype() });
        }
        if input.rank() != self.min.len() {
            return Err(ShapeError::InputRank { name, wanted: self.min.len(), found: input.to_string() });
        }
        for (axis, dim) in input.dims().iter().enumerate() {
            let (min, max) = (self.min[axis], self.max[axis]);
            let len = dim.fixed().and_then(|len| usize::try_from(len).ok());
            if !len.is_some_and(|len| (min..=max).contains(&len)) {
                return Err(ShapeError::OutOfRange { name, axis, found: dim.clone(), min, max });
            }
        }
        Ok(())
        // ANCHOR_END: check_todo
    }
}
// ANCHOR_END: range

impl InputRange {
    /// The name of the input.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The element type.
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// The smallest shape.
    pub fn min(&self) -> &[usize] {
        &self.min
    }

    /// The shape for which the model is tuned.
    pub fn optimum(&self) -> &[usize] {
        &self.optimum
    }

    /// The largest shape.
    pub fn max(&self) -> &[usize] {
        &self.max
    }
}

/// The range of shapes that a model must support, for each of its inputs.
///
/// ```
/// use ixion::graph::RuntimeGraph;
/// use ixion::op::TensorMeta;
/// use ixion::shape::{InputRange, Profile};
/// use ixion::tensor::DType;
/// # let model = concat!(env!("CARGO_MANIFEST_DIR"), "/model_file/digits/digits.pnnx.param");
/// let mut graph = RuntimeGraph::new(model);
/// graph.build()?;
/// let range = InputRange::new("pnnx_input_0", DType::F32, [1, 1, 8, 8], [8, 1, 8, 8], [32, 1, 8, 8])?;
/// let profile = Profile::new(&graph, vec![range])?;
/// assert!(profile.check(&[TensorMeta::new(DType::F32, [5, 1, 8, 8])]).is_ok());
/// let error = profile.check(&[TensorMeta::new(DType::F32, [64, 1, 8, 8])]).unwrap_err();
/// assert_eq!(error.to_string(), "axis 0 of input `pnnx_input_0` is 64, but the profile allows 1 to 32");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Profile {
    /// The ranges, in the order of the model's inputs.
    ranges: Vec<InputRange>,
}

impl Profile {
    /// Creates a profile from ranges for all inputs of a model, in any order.
    ///
    /// # Errors
    /// Returns an error if a name is not an input, or if an input has no range, has two, or differs in type or number of axes.
    pub fn new(graph: &RuntimeGraph, ranges: Vec<InputRange>) -> Result<Self, ShapeError> {
        let given = by_name(graph, ranges.iter().map(|range| (range.name.as_str(), range.clone())))?;
        let missing = |port: &InputPort| ShapeError::Profile {
            name: port.name.clone(),
            reason: "missing range".to_owned(),
        };
        let ranges = graph.inputs().iter().zip(given).map(|(port, range)| range.ok_or_else(|| missing(port)));
        let profile = Self { ranges: ranges.collect::<Result<_, _>>()? };
        let inputs: Vec<_> = profile.optimum().into_iter().map(Some).collect();
        super::rule::check_inputs(graph, &inputs)?;
        Ok(profile)
    }

    /// The ranges, in the order of the model's inputs.
    pub fn ranges(&self) -> &[InputRange] {
        &self.ranges
    }

    /// The smallest inputs.
    pub fn min(&self) -> Vec<TensorMeta> {
        self.metas(|range| &range.min)
    }

    /// The inputs for which the model is tuned.
    pub fn optimum(&self) -> Vec<TensorMeta> {
        self.metas(|range| &range.optimum)
    }

    /// The largest inputs.
    pub fn max(&self) -> Vec<TensorMeta> {
        self.metas(|range| &range.max)
    }

    fn metas(&self, dims: fn(&InputRange) -> &[usize]) -> Vec<TensorMeta> {
        self.ranges.iter().map(|range| TensorMeta::new(range.dtype, dims(range).iter().copied())).collect()
    }

    /// Checks the inputs of a run, in the order of the model's inputs.
    ///
    /// # Errors
    /// [`ShapeError::InputCount`] for too few or too many inputs; otherwise as [`InputRange::check`].
    pub fn check(&self, inputs: &[TensorMeta]) -> Result<(), ShapeError> {
        if inputs.len() != self.ranges.len() {
            let names = self.ranges.iter().map(|range| range.name.clone()).collect();
            return Err(ShapeError::InputCount { found: inputs.len(), names });
        }
        self.ranges.iter().zip(inputs).try_for_each(|(range, input)| range.check(input))
    }
}
