//! Matrix products, and the layers that mostly consist of one.

use super::epilogue::{Arguments, EpilogueCode};
use super::prelude::*;
use super::product_library as library;
use super::product_tactic::{ProductTactic, product_tactics};
use super::support::{
    Weights, computed_in, input, int, is_real, kernel_lengths, matrix_strides, metas, on_cpu, shape, stored,
};
use super::tiles::{self, Tiles};
use crate::ops::inserted::device_tactic::DeviceTactic;
use crate::ops::matmul::linear::Linear;
use crate::ops::matmul::product::{Addmm, Addmv, Baddbmm, Bmm, Dot, Matmul, Mm, Mv, Product as Factors};
use smallvec::SmallVec;

/// The layers of this family.
pub(super) const LAYERS: &[&dyn Entry] = &[
    &Own::<Mm>::ENTRY,
    &Own::<Bmm>::ENTRY,
    &Own::<Mv>::ENTRY,
    &Own::<Dot>::ENTRY,
    &Own::<Addmv>::ENTRY,
    &Own::<Addmm>::ENTRY,
    &Own::<Baddbmm>::ENTRY,
    &Own::<Matmul>::ENTRY,
    &Own::<Linear>::ENTRY,
];

/// The side of the tiles that a block computes.
const TILE: usize = 64;

/// The maximum number of blocks along y and z.
const MAX_BLOCKS: usize = 65535;

/// A batch of products: …×m×k times …×k×n gives …×m×n. The leading axes are broadcast to those of the output.
pub(super) struct Product<'a> {
    pub(super) left: DeviceTensor<'a>,
    pub(super) right: DeviceTensor<'a>,
    /// The addend, which is broadcast to the output.
    pub(super) added: Option<DeviceTensor<'a>>,
    pub(super) output: DeviceTensor<'a>,
    /// The factors of the product and of the addend.
    pub(super) scales: [f64; 2],
    /// For quantised products: the scale of the sums for each column, and the scale of the output. The addend is then a bias in
    /// units of the former.
    pub(super) int8_scales: Option<(DeviceTensor<'a>, f32)>,
    /// The algorithm.
    pub(super) tactic: ProductTactic,
}

impl<'a> Product<'a> {
    /// The product without an addend.
    pub(super) fn new(left: DeviceTensor<'a>, right: DeviceTensor<'a>, output: DeviceTensor<'a>) -> Self {
        Self {
            left,
            right,
            added: None,
            output,
            scales: [1.0, 1.0],
            int8_scales: None,
            tactic: ProductTactic::Auto,
        }
    }

    /// Selects the algorithm of a tactic.
    fn with_tactic(self, selected: DeviceTactic) -> Self {
        Self { tactic: ProductTactic::of(selected), ..self }
    }

    /// Computes the product and its epilogue, for a layer with these inputs and this output.
    ///
    /// # Errors
    /// Returns an error if the shapes do not match.
    pub(super) fn run(
        &self,
        epilogue: &EpilogueCode,
        (inputs, output): (&[DeviceTensor<'a>], &DeviceTensor<'a>),
        context: &mut CudaContext<'_>,
    ) -> Result<()> {
        let layouts = ProductLayouts::of(self)?;
        if self.tactic == ProductTactic::Auto
            && library::product(self, &layouts, epilogue, (inputs, output), context)?
        {
            return Ok(());
        }
        let mut arguments = epilogue.arguments(inputs, output.shape())?;
        arguments.extend(self.arguments(&layouts)?);
        let dtype = self.left.dtype();
        let is_float = self.right.dtype() == dtype && computed_in(self.output.dtype())? == "float";
        let is_supported = is_float
            && Tiles::fit_grid(layouts.sizes[0])
            && tiles::supports(dtype, context.tf32().products, context.device().info());
        if self.int8_scales.is_some() || (is_supported && self.tactic != ProductTactic::Plain) {
            return self.run_tiles(&layouts, epilogue, &arguments, context);
        }
        let unit = epilogue.unit("product.cu", include_str!("../kernels/product.cu"));
        let unit =
            self.define(unit, &layouts)?.define("A", dtype.name()).define("B", self.right.dtype().name());
        let [rows, columns, _] = layouts.sizes;
        let blocks =
            [columns.div_ceil(TILE), rows.div_ceil(TILE).min(MAX_BLOCKS), layouts.batches.min(MAX_BLOCKS)];
        let blocks = blocks.map(|count| u32::try_from(count).unwrap_or(u32::MAX));
        context.run(&unit, "product", Grid { blocks, ..Grid::of(1, 256) }, &arguments)
    }

    /// Computes the product with tensor cores.
    fn run_tiles(
        &self,
        layouts: &ProductLayouts,
        epilogue: &EpilogueCode,
        arguments: &[Argument<'_>],
        context: &mut CudaContext<'_>,
    ) -> Result<()> {
        let dtype = self.left.dtype();
        let tiles = Tiles::of(layouts.batches, layouts.sizes, dtype, (self.tactic.tile_side(), context));
        let is_vectorized = |factor: usize, tensor: &DeviceTensor<'_>| {
            let along = layouts.strides[factor].by[7 - factor];
            u8::from(tiles::is_vectorized(tensor, &layouts.outer_strides(factor), along))
        };
        let unit = epilogue.unit("product_tiles.cu", include_str!("../kernels/product_tiles.cu"));
        let unit = tiles.define(self.define(unit, layouts)?).define("E", dtype.name());
        let unit = unit.define("A_VECTORIZED", is_vectorized(0, &self.left));
        let unit = unit.define("B_VECTORIZED", is_vectorized(1, &self.right));
        let sums = if self.int8_scales.is_some() { DType::I32 } else { DType::F32 };
        let unit = unit.define("S", sums.name()).define("QUANTIZED", u8::from(self.int8_scales.is_some()));
        let kernel = context.kernel(&unit, "product")?;
        let mut arguments: Arguments<'_> = Arguments::from_slice(arguments);
        arguments.extend([
            self.int8_scales.map_or(Argument::None, |(sum_scales, _)| Argument::Read(sum_scales)),
            Argument::Float(self.int8_scales.map_or(1.0, |(_, scale)| scale)),
        ]);
        tiles.launch(&kernel, &arguments, sums, context)
    }

    /// Defines the types and the layouts of the factors, which all product kernels need.
    fn define(&self, unit: Unit, layouts: &ProductLayouts) -> Result<Unit> {
        let by_depth = |factor: usize| u8::from(layouts.strides[factor].by[7 - factor] == 1);
        let added = self.added.map_or(self.left.dtype(), |added| added.dtype());
        let compute_type =
            if self.int8_scales.is_some() { "float" } else { computed_in(self.output.dtype())? };
        Ok(unit
            .define("D", added.name())
            .define("T", self.output.dtype().name())
            .define("C", compute_type)
            .define("A_K_MAJOR", by_depth(0))
            .define("B_K_MAJOR", by_depth(1))
            .define("ADDED", u8::from(self.added.is_some() && self.int8_scales.is_none()))
            .define("SCALED", u8::from(self.scales != [1.0, 1.0])))
    }

    /// The arguments of product kernels, after those of the epilogue.
    fn arguments(&self, layouts: &ProductLayouts) -> Result<[Argument<'a>; 15]> {
        let ([a, b, c, y], [rows, columns, depth]) = (layouts.strides, layouts.sizes);
        Ok([
            Argument::Read(self.left),
            Argument::Strides(a),
            Argument::Read(self.right),
            Argument::Strides(b),
            self.added.map_or(Argument::None, Argument::Read),
            Argument::Strides(c),
            Argument::Write(self.output),
            Argument::Strides(y),
            Argument::Shape(layouts.batch),
            Argument::Long(layouts.batches as i64),
            Argument::Int(int(rows)?),
            Argument::Int(int(columns)?),
            Argument::Int(int(depth)?),
            Argument::Double(self.scales[0]),
            Argument::Double(self.scales[1]),
        ])
    }
}

/// The layouts of factors, addend and output: strides of the batch axes, and at positions 6 and 7 those of rows and columns.
pub(super) struct ProductLayouts {
    pub(super) strides: [KernelStrides; 4],
    pub(super) batch: KernelShape,
    pub(super) batches: usize,
    /// Rows, columns and depth.
    pub(super) sizes: [usize; 3],
}

impl ProductLayouts {
    fn of(product: &Product<'_>) -> Result<Self> {
        let output = *product.output.layout();
        let (dims, rank) = (output.shape().dims().to_vec(), output.shape().len());
        let fault = || LayerError::Unsupported("products need tensors of at least two axes".to_owned());
        let (batch, matrix) = dims.split_at(rank.checked_sub(2).ok_or_else(fault)?);
        let (&rows, &columns) = (matrix.first().unwrap_or(&1), matrix.last().unwrap_or(&1));
        let depth = product.left.shape().last().copied().unwrap_or(1);
        let expanded = |layout: &Layout, matrix: [usize; 2]| layout.expand(&[batch, &matrix].concat());
        let left = expanded(product.left.layout(), [rows, depth])?;
        let right = expanded(product.right.layout(), [depth, columns])?;
        let added = product.added.map(|added| added.layout().expand(output.shape())).transpose()?;
        let layouts = [left, right, added.unwrap_or(output), output];
        let strides = layouts.map(|layout| matrix_strides(&layout, batch.len()));
        let (lengths, batches) = (kernel_lengths(batch.iter().copied())?, batch.iter().product());
        Ok(Self { strides, batch: lengths, batches, sizes: [rows, columns, depth] })
    }

    /// The strides of a factor between its matrices, and between its lines: rows of the left factor, columns of the right one.
    fn outer_strides(&self, factor: usize) -> SmallVec<[i64; 8]> {
        let (by, dims) = (&self.strides[factor].by, self.batch.dims.iter().take(self.batch.rank as usize));
        let of_batch = by.iter().zip(dims).filter(|(_, len)| **len > 1).map(|(by, _)| *by);
        of_batch.chain([by[6 + factor]]).collect()
    }
}

/// A tensor with its leading axes merged, if its layout permits: a batch of rows is a matrix.
fn as_matrix<'a>(tensor: &DeviceTensor<'a>) -> Result<Option<DeviceTensor<'a>>> {
    let Some((&last, leading)) = tensor.shape().split_last() else { return Ok(None) };
    let matrix = tensor.layout().reshape(&shape(&[leading.iter().product(), last])?)?;
    Ok(matrix.map(|layout| tensor.with_layout(layout)).transpose()?)
}

/// …×i times the transposed weights o×i, plus a bias, for any number of rows.
fn linear<'a>(
    x: &DeviceTensor<'a>,
    weight: &DeviceTensor<'a>,
    bias: Option<DeviceTensor<'a>>,
    y: &DeviceTensor<'a>,
) -> Result<Product<'a>> {
    let (x, y) = match (as_matrix(x)?, as_matrix(y)?) {
        (Some(x), Some(y)) => (x, y),
        _ if x.shape().len() < 2 => (x.unsqueeze(0)?, y.unsqueeze(0)?),
        _ => (*x, *y),
    };
    let weight = weight.with_layout(weight.layout().transpose(-2, -1)?)?;
    Ok(Product { added: bias, ..Product::new(x, weight, y) })
}

/// Writes the product of [`linear`] to `y`.
///
/// # Errors
/// Returns an error if the shapes do not match.
pub(super) fn write_linear(
    x: &DeviceTensor<'_>,
    weight: &DeviceTensor<'_>,
    bias: Option<DeviceTensor<'_>>,
    y: &DeviceTensor<'_>,
    context: &mut CudaContext<'_>,
) -> Result<()> {
    linear(x, weight, bias, y)?.run(&EpilogueCode::default(), (&[], y), context)
}

impl CudaLayer for Linear {
    fn supports(&self, position: usize, formats: &[TensorFormat]) -> bool {
        match formats.first() {
            Some(first) if first.is_quantized => self.supports_int8(position, &on_cpu(formats)),
            _ => is_real(position, formats),
        }
    }

    fn weights(&self) -> Result<Vec<Tensor>> {
        match self.int8.tensors(&self.weight, self.bias.as_ref())? {
            Some(tensors) => Ok(tensors.into()),
            None => stored([Some(&self.weight), self.bias.as_ref()]),
        }
    }

    fn configure(&mut self, inputs: &[TensorMeta], outputs: &[TensorMeta]) -> Result<()> {
        self.int8.configure(inputs, outputs);
        let is_int8 = self.int8.is_selected();
        EpilogueCode::of_int8(self.epilogue.as_ref(), inputs, outputs, is_int8).map(drop)
    }

    product_tactics!(products);

    fn forward(&mut self, io: &mut CudaIo<'_, '_>) -> Result<()> {
        let is_int8 = io.inputs[0].dtype() == DType::I8 && self.int8.is_selected();
        let (inputs, outputs) = (metas(io.inputs), metas(io.outputs));
        let epilogue = EpilogueCode::of_int8(self.epilogue.as_ref(), &inputs, &outputs, is_int8)?;
        let mut weights = Weights::default();
        let mut weight = weights.must(&self.weight, io)?;
        let (bias, int8_scales) = match is_int8 {
            true => {
                let output_scale = self.int8.output_scale().unwrap_or(1.0);
                (Some(io.context.weight(1)?), Some((io.context.weight(2)?, output_scale)))
            }
            false => (weights.next(self.bias.as_ref(), io)?, None),
        };
        let mut y = io.outputs[0];
        if weight.shape().len() == 1 {
            (weight, y) = (weight.unsqueeze(0)?, y.unsqueeze(y.shape().len())?);
        }
        let product = Product { int8_scales, ..linear(&io.inputs[0], &weight, bias, &y)? };
        product.with_tactic(self.on_device).run(&epilogue, (io.inputs, &io.outputs[0]), io.context)
    }
}

/// The product of two inputs. A vector becomes a row on the left and a column on the right.
fn of_inputs<'a>(factors: &Factors, io: &CudaIo<'a, '_>) -> Result<Product<'a>> {
    let [left, right] = factors.factors;
    let (mut left, mut right, mut y) = (input(io.inputs, left)?, input(io.inputs, right)?, io.outputs[0]);
    let mut added = factors.added.filter(|[beta, _]| *beta != 0.0).map(|_| io.inputs[0]);
    let is_row = left.shape().len() == 1;
    if right.shape().len() == 1 {
        (right, y) = (right.unsqueeze(1)?, y.unsqueeze(y.shape().len())?);
        added = added.map(|added| added.unsqueeze(added.shape().len())).transpose()?;
    }
    if is_row {
        (left, y) = (left.unsqueeze(0)?, y.unsqueeze(y.shape().len() - 1)?);
    }
    if right.shape().len() == 2
        && added.is_none()
        && let (Some(rows), Some(flat)) = (as_matrix(&left)?, as_matrix(&y)?)
    {
        (left, y) = (rows, flat);
    }
    let [beta, alpha] = factors.added.unwrap_or([1.0, 1.0]);
    Ok(Product { added, scales: [alpha, beta], ..Product::new(left, right, y) })
}

impl CudaLayer for Matmul {
    fn supports(&self, position: usize, formats: &[TensorFormat]) -> bool {
        is_real(position, formats)
    }

    fn configure(&mut self, inputs: &[TensorMeta], outputs: &[TensorMeta]) -> Result<()> {
        EpilogueCode::of(self.epilogue.as_ref(), inputs, outputs).map(drop)
    }

    product_tactics!(products);

    fn forward(&mut self, io: &mut CudaIo<'_, '_>) -> Result<()> {
        let epilogue = EpilogueCode::of(self.epilogue.as_ref(), &metas(io.inputs), &metas(io.outputs))?;
        let product = of_inputs(&self.product(), io)?;
        product.with_tactic(self.on_device).run(&epilogue, (io.inputs, &io.outputs[0]), io.context)
    }
}

/// Implements the products of two inputs, which differ in their [`Factors`].
macro_rules! products {
    ($($layer:ty),*) => {$(
        impl CudaLayer for $layer {
            fn supports(&self, position: usize, formats: &[TensorFormat]) -> bool {
                is_real(position, formats)
            }

            product_tactics!(products);

            fn forward(&mut self, io: &mut CudaIo<'_, '_>) -> Result<()> {
                let product = of_inputs(&self.product(), io)?.with_tactic(self.on_device);
                product.run(&EpilogueCode::default(), (io.inputs, &io.outputs[0]), io.context)
            }
        }
    )*};
}

products!(Mm, Bmm, Mv, Dot, Addmv, Addmm, Baddbmm);
