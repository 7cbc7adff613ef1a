//! Sums of products in Einstein notation: as a batch of matrix products if possible, else sum by sum.

use super::epilogue::{Arguments, EpilogueCode};
use super::prelude::*;
use super::product::Product;
use super::support::{int, is_real, kernel_strides, metas, shape, typed};
use crate::ops::matmul::einsum::{Einsum, Label, strides_of};

/// The layers of this file.
pub(super) const LAYERS: &[&dyn Entry] = &[&Simple::<Einsum>::new(is_real, run).with_check(check)];

/// The maximum number of inputs of the kernel that computes sum by sum.
const MAX_INPUTS: usize = 4;

/// A tensor with labelled axes.
struct Labelled<'a> {
    tensor: DeviceTensor<'a>,
    labels: Vec<Label>,
    layout: Layout,
}

impl<'a> Labelled<'a> {
    fn new(tensor: DeviceTensor<'a>, labels: &[Label]) -> Result<Self> {
        let (labels, layout) = strides_of(labels, tensor.layout())?;
        Ok(Self { tensor, labels, layout })
    }

    fn has(&self, label: &Label) -> bool {
        self.labels.contains(label)
    }

    /// The length and the stride of an axis; (1, 0) for an axis that the tensor lacks.
    fn axis(&self, label: &Label) -> (usize, usize) {
        let axis = self.labels.iter().position(|other| other == label);
        axis.and_then(|axis| Some((*self.layout.shape().get(axis)?, *self.layout.strides().get(axis)?)))
            .unwrap_or((1, 0))
    }

    /// The length and the stride of some axes merged into one; `None` if they are not contiguous.
    fn merged(&self, labels: &[&Label]) -> Option<(usize, usize)> {
        labels
            .iter()
            .rev()
            .try_fold((1, None), |(len, stride), label| {
                let (own, by) = self.axis(label);
                match stride {
                    None => Some((own, Some(by))),
                    Some(known) if by == known * len => Some((len * own, Some(known))),
                    Some(_) => None,
                }
            })
            .map(|(len, stride)| (len, stride.unwrap_or(0)))
    }

    /// The tensor with axes of these lengths and strides.
    fn with_axes(&self, axes: &[(usize, usize)]) -> Result<DeviceTensor<'a>> {
        let (dims, by): (Vec<usize>, Vec<usize>) = axes.iter().copied().unzip();
        let layout = Layout::strided(shape(&dims)?, &by, self.layout.offset())?;
        Ok(self.tensor.with_layout(layout)?)
    }

    fn strides(&self, labels: &[Label]) -> Argument<'static> {
        let strides: Vec<usize> = labels.iter().map(|label| self.axis(label).1).collect();
        Argument::Strides(kernel_strides(&strides))
    }
}

/// The sum as a batch of matrix products; `None` if it cannot be written as one.
fn as_product<'a>([left, right, output]: [&Labelled<'a>; 3]) -> Result<Option<Product<'a>>> {
    let kept = |label: &&Label| output.has(label);
    let both = |label: &&Label| left.has(label) && right.has(label);
    let is_alone = |label: &Label, other: &Labelled<'_>| !other.has(label) && !output.has(label);
    if left.labels.iter().any(|label| is_alone(label, right))
        || right.labels.iter().any(|label| is_alone(label, left))
    {
        return Ok(None);
    }
    let batch: Vec<&Label> = output.labels.iter().filter(both).collect();
    let rows: Vec<&Label> = output.labels.iter().filter(|label| !right.has(label)).collect();
    let columns: Vec<&Label> = output.labels.iter().filter(|label| !left.has(label)).collect();
    let inner: Vec<&Label> = left.labels.iter().filter(|label| both(label) && !kept(label)).collect();
    let of = |tensor: &Labelled<'a>, first: &[&Label], second: &[&Label]| {
        let (first, second) = (tensor.merged(first)?, tensor.merged(second)?);
        Some(batch.iter().map(|label| tensor.axis(label)).chain([first, second]).collect::<Vec<_>>())
    };
    let axes = (of(left, &rows, &inner), of(right, &inner, &columns), of(output, &rows, &columns));
    let (Some(a), Some(b), Some(y)) = axes else { return Ok(None) };
    if a.len() > 8 {
        return Ok(None);
    }
    Ok(Some(Product::new(left.with_axes(&a)?, right.with_axes(&b)?, output.with_axes(&y)?)))
}

/// The lengths of labels in the form of kernels, and their product.
fn lengths(labels: &[Label], tensors: &[&Labelled<'_>]) -> Result<(KernelShape, usize)> {
    let mut lengths = KernelShape { rank: int(labels.len())?, ..KernelShape::default() };
    let mut all = 1;
    for (dim, label) in lengths.dims.iter_mut().zip(labels) {
        let len = tensors.iter().filter(|tensor| tensor.has(label)).map(|tensor| tensor.axis(label).0).max();
        *dim = int(len.unwrap_or(1))?;
        all *= len.unwrap_or(1);
    }
    Ok((lengths, all))
}

/// Computes every sum separately.
fn sum_directly(
    factors: &[Labelled<'_>],
    output: &Labelled<'_>,
    context: &mut CudaContext<'_>,
) -> Result<()> {
    let mut summed: Vec<Label> = Vec::new();
    for label in factors.iter().flat_map(|factor| &factor.labels) {
        if !output.has(label) && !summed.contains(label) {
            summed.push(*label);
        }
    }
    let all: Vec<&Labelled<'_>> = factors.iter().chain([output]).collect();
    let (out, count) = lengths(&output.labels, &all)?;
    let (summed_shape, summed_count) = lengths(&summed, &all)?;
    let dtype = output.tensor.dtype();
    let unit = Unit::new("einsum.cu", include_str!("../kernels/einsum.cu"))
        .define("X", factors.first().map_or(dtype, |factor| factor.tensor.dtype()).name());
    let mut arguments = Arguments::new();
    for position in 0..MAX_INPUTS {
        match factors.get(position) {
            Some(factor) => arguments.extend([
                Argument::Read(factor.tensor.with_layout(factor.layout)?),
                factor.strides(&output.labels),
                factor.strides(&summed),
            ]),
            None => {
                let none = Argument::Strides(KernelStrides::default());
                arguments.extend([Argument::None, none, none]);
            }
        }
    }
    arguments.extend([
        Argument::Write(output.tensor),
        output.strides(&output.labels),
        Argument::Shape(out),
        Argument::Shape(summed_shape),
        Argument::Long(count as i64),
        Argument::Long(summed_count as i64),
    ]);
    context.run(&typed(unit, dtype)?, "einsum", Grid::over(count), &arguments)
}

/// Returns an error if there are more inputs or labels than the kernel that computes sum by sum supports.
fn check(layer: &Einsum, inputs: &[TensorMeta]) -> Result<()> {
    let plan = layer.equation.plan(inputs)?;
    match inputs.len() <= MAX_INPUTS && plan.lengths.len() <= 8 {
        true => Ok(()),
        false => Err(LayerError::Unsupported("at most 4 tensors and 8 labels are supported".to_owned())),
    }
}

fn run(layer: &Einsum, io: &mut CudaIo<'_, '_>) -> Result<()> {
    let plan = layer.equation.plan(&metas(io.inputs))?;
    let factors = io.inputs.iter().zip(&plan.inputs).map(|(input, labels)| Labelled::new(*input, labels));
    let factors: Vec<Labelled<'_>> = factors.collect::<Result<_>>()?;
    let output = Labelled::new(io.outputs[0], &plan.output)?;
    if let [left, right] = factors.as_slice()
        && let Some(product) = as_product([left, right, &output])?
    {
        return product.run(&EpilogueCode::default(), (io.inputs, &io.outputs[0]), io.context);
    }
    sum_directly(&factors, &output, io.context)
}
