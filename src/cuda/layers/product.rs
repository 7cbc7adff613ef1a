//! Matrix products, and the layers that mostly consist of one.

use super::epilogue::{Arguments, EpilogueCode};
use super::product_library as library;
use super::product_tactic::{ProductTactic, product_tactics};
use super::support::{Weights, computed_in, dequantized, input, int, is_real, on_cpu, shape, stored};
use super::tiles::{self, Tiles};
use crate::cuda::device::{Argument, DeviceTensor, Grid, KernelShape, KernelStrides, Unit};
use crate::cuda::{CudaContext, CudaLayer, CudaLayers};
use crate::op::{LayerError, TensorFormat, TensorMeta};
use crate::ops::inserted::device_tactic::DeviceTactic;
use crate::ops::matmul::linear::Linear;
use crate::ops::matmul::product::{Addmm, Addmv, Baddbmm, Bmm, Dot, Matmul, Mm, Mv, Product as Factors};
use crate::tensor::{DType, Layout, Tensor};
use smallvec::SmallVec;

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

    /// Computes the product and its epilogue, whose arguments are those of [`EpilogueCode::arguments`].
    ///
    /// # Errors
    /// Returns an error if the shapes do not match.
    pub(super) fn run(
        &self,
        epilogue: &EpilogueCode,
        mut arguments: Arguments<'a>,
        context: &mut CudaContext<'_>,
    ) -> Result<(), LayerError> {
        let layouts = ProductLayouts::of(self)?;
        if self.tactic == ProductTactic::Auto
            && library::product(self, &layouts, (epilogue, &arguments), context)?
        {
            return Ok(());
        }
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
        let kernel = context.kernel(&unit, "product")?;
        let [rows, columns, _] = layouts.sizes;
        let blocks =
            [columns.div_ceil(TILE), rows.div_ceil(TILE).min(MAX_BLOCKS), layouts.batches.min(MAX_BLOCKS)];
        let blocks = blocks.map(|count| u32::try_from(count).unwrap_or(u32::MAX));
        context.launch(&kernel, Grid { blocks, ..Grid::of(1, 256) }, &arguments)
    }

    /// Computes the product with tensor cores.
    fn run_tiles(
        &self,
        layouts: &ProductLayouts,
        epilogue: &EpilogueCode,
        arguments: &[Argument<'_>],
        context: &mut CudaContext<'_>,
    ) -> Result<(), LayerError> {
        let dtype = self.left.dtype();
        let tiles = Tiles::of(layouts.batches, layouts.sizes, dtype, (self.tactic, context));
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
    fn define(&self, unit: Unit, layouts: &ProductLayouts) -> Result<Unit, LayerError> {
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
    fn arguments(&self, layouts: &ProductLayouts) -> Result<[Argument<'a>; 15], LayerError> {
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
    fn of(product: &Product<'_>) -> Result<Self, LayerError> {
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
        let (mut kernel, mut strides) = (KernelShape::default(), [KernelStrides::default(); 4]);
        kernel.rank = int(batch.len())?;
        for (axis, len) in batch.iter().enumerate() {
            kernel.dims[axis] = int(*len)?;
        }
        for (strides, layout) in strides.iter_mut().zip(&layouts) {
            let (of_batch, of_matrix) = layout.strides().split_at(batch.len());
            strides.by.iter_mut().zip(of_batch).for_each(|(by, stride)| *by = *stride as i64);
            strides.by[6] = of_matrix.first().map_or(0, |stride| *stride as i64);
            strides.by[7] = of_matrix.last().map_or(0, |stride| *stride as i64);
        }
        Ok(Self { strides, batch: kernel, batches: batch.iter().product(), sizes: [rows, columns, depth] })
    }

    /// The strides of a factor between its matrices, and between its lines: rows of the left factor, columns of the right one.
    fn outer_strides(&self, factor: usize) -> SmallVec<[i64; 8]> {
        let (by, dims) = (&self.strides[factor].by, self.batch.dims.iter().take(self.batch.rank as usize));
        let of_batch = by.iter().zip(dims).filter(|(_, len)| **len > 1).map(|(by, _)| *by);
        of_batch.chain([by[6 + factor]]).collect()
    }
}

/// A tensor with its leading axes merged, if its layout permits: a batch of rows is a matrix.
pub(super) fn as_matrix<'a>(tensor: &DeviceTensor<'a>) -> Result<Option<DeviceTensor<'a>>, LayerError> {
    let Some((&last, leading)) = tensor.shape().split_last() else { return Ok(None) };
    let matrix = tensor.layout().reshape(&shape(&[leading.iter().product(), last])?)?;
    Ok(matrix.map(|layout| tensor.with_layout(layout)).transpose()?)
}

/// A tensor with an additional axis of length 1.
pub(super) fn unsqueezed<'a>(tensor: &DeviceTensor<'a>, axis: usize) -> Result<DeviceTensor<'a>, LayerError> {
    Ok(tensor.with_layout(tensor.layout().unsqueeze(axis)?)?)
}

/// …×i times the transposed weights o×i, plus a bias, for any number of rows.
pub(super) fn linear<'a>(
    x: &DeviceTensor<'a>,
    weight: &DeviceTensor<'a>,
    bias: Option<DeviceTensor<'a>>,
    y: &DeviceTensor<'a>,
) -> Result<Product<'a>, LayerError> {
    let (x, y) = match (as_matrix(x)?, as_matrix(y)?) {
        (Some(x), Some(y)) => (x, y),
        _ if x.shape().len() < 2 => (unsqueezed(x, 0)?, unsqueezed(y, 0)?),
        _ => (*x, *y),
    };
    let weight = weight.with_layout(weight.layout().transpose(-2, -1)?)?;
    Ok(Product { added: bias, ..Product::new(x, weight, y) })
}

impl CudaLayer for Linear {
    fn supports(&self, position: usize, formats: &[TensorFormat]) -> bool {
        match formats.first() {
            Some(first) if first.is_quantized => self.supports_int8(position, &on_cpu(formats)),
            _ => is_real(position, formats),
        }
    }

    fn weights(&self) -> Result<Vec<Tensor>, LayerError> {
        match self.int8.tensors(&self.weight, self.bias.as_ref())? {
            Some(tensors) => Ok(tensors.into()),
            None => stored([Some(&self.weight), self.bias.as_ref()]),
        }
    }

    fn configure(&mut self, inputs: &[TensorMeta], outputs: &[TensorMeta]) -> Result<(), LayerError> {
        self.int8.configure(inputs, outputs);
        let is_int8 = self.int8.is_selected();
        epilogue_code(self.epilogue.as_ref(), &dequantized(inputs, is_int8), &dequantized(outputs, is_int8))
            .map(drop)
    }

    product_tactics!(products);

    fn forward(
        &mut self,
        inputs: &[DeviceTensor<'_>],
        outputs: &[DeviceTensor<'_>],
        context: &mut CudaContext<'_>,
    ) -> Result<(), LayerError> {
        let is_int8 = inputs[0].dtype() == DType::I8 && self.int8.is_selected();
        let dequantized = |tensors: &[DeviceTensor<'_>]| dequantized(&metas(tensors), is_int8);
        let epilogue = epilogue_code(self.epilogue.as_ref(), &dequantized(inputs), &dequantized(outputs))?;
        let mut weights = Weights::default();
        let mut weight = weights.must(&self.weight, inputs, context)?;
        let mut int8_scales = None;
        let bias = match is_int8 {
            true => Some(context.weight(1)?),
            false => weights.next(self.bias.as_ref(), inputs, context)?,
        };
        if is_int8 {
            int8_scales = Some((context.weight(2)?, self.int8.output_scale().unwrap_or(1.0)));
        }
        let mut y = outputs[0];
        if weight.shape().len() == 1 {
            weight = unsqueezed(&weight, 0)?;
            y = unsqueezed(&y, y.shape().len())?;
        }
        let arguments = epilogue.arguments(inputs, outputs[0].shape())?;
        let product = Product { int8_scales, ..linear(&inputs[0], &weight, bias, &y)? };
        product.with_tactic(self.on_device).run(&epilogue, arguments, context)
    }
}

/// The element types and shapes of tensors.
pub(super) fn metas(tensors: &[DeviceTensor<'_>]) -> Vec<TensorMeta> {
    let meta = |tensor: &DeviceTensor<'_>| TensorMeta::new(tensor.dtype(), tensor.shape().iter().copied());
    tensors.iter().map(meta).collect()
}

/// The epilogue's code for a layer with one output.
pub(super) fn epilogue_code(
    epilogue: Option<&crate::ops::support::epilogue::Epilogue>,
    inputs: &[TensorMeta],
    outputs: &[TensorMeta],
) -> Result<EpilogueCode, LayerError> {
    let output = outputs.first().ok_or_else(|| LayerError::missing_input(0, 0))?;
    EpilogueCode::of(epilogue, inputs, output)
}

/// The product of two inputs. A vector becomes a row on the left and a column on the right.
fn of_inputs<'a>(
    factors: &Factors,
    inputs: &[DeviceTensor<'a>],
    output: &DeviceTensor<'a>,
) -> Result<Product<'a>, LayerError> {
    let [mut left, mut right] = [input(inputs, factors.factors[0])?, input(inputs, factors.factors[1])?];
    let mut y = *output;
    let mut added = factors.added.filter(|[beta, _]| *beta != 0.0).map(|_| inputs[0]);
    let is_row = left.shape().len() == 1;
    if right.shape().len() == 1 {
        right = unsqueezed(&right, 1)?;
        y = unsqueezed(&y, y.shape().len())?;
        added = added.map(|added| unsqueezed(&added, added.shape().len())).transpose()?;
    }
    if is_row {
        left = unsqueezed(&left, 0)?;
        y = unsqueezed(&y, y.shape().len() - 1)?;
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

    fn configure(&mut self, inputs: &[TensorMeta], outputs: &[TensorMeta]) -> Result<(), LayerError> {
        epilogue_code(self.epilogue.as_ref(), inputs, outputs).map(drop)
    }

    product_tactics!(products);

    fn forward(
        &mut self,
        inputs: &[DeviceTensor<'_>],
        outputs: &[DeviceTensor<'_>],
        context: &mut CudaContext<'_>,
    ) -> Result<(), LayerError> {
        let epilogue = epilogue_code(self.epilogue.as_ref(), &metas(inputs), &metas(outputs))?;
        let arguments = epilogue.arguments(inputs, outputs[0].shape())?;
        let product = of_inputs(&self.product(), inputs, &outputs[0])?;
        product.with_tactic(self.on_device).run(&epilogue, arguments, context)
    }
}

macro_rules! products {
    ($($layer:ty),* $(,)?) => {$(
        impl CudaLayer for $layer {
            fn supports(&self, position: usize, formats: &[TensorFormat]) -> bool {
                is_real(position, formats)
            }

            product_tactics!(products);

            fn forward(
                &mut self,
                inputs: &[DeviceTensor<'_>],
                outputs: &[DeviceTensor<'_>],
                context: &mut CudaContext<'_>,
            ) -> Result<(), LayerError> {
                let product = of_inputs(&self.product(), inputs, &outputs[0])?;
                product.with_tactic(self.on_device).run(&EpilogueCode::default(), Arguments::new(), context)
            }
        }
    )*

        /// Registers the layers of this family.
        pub(super) fn register(layers: &mut CudaLayers) {
            $(layers.register::<$layer>();)*
            layers.register::<Matmul>();
            layers.register::<Linear>();
        }
    };
}

products!(Mm, Bmm, Mv, Dot, Addmv, Addmm, Baddbmm);
