//! Writing elements where a mask is true or at places of the flattened input, and reducing slices: masked_scatter, put,
//! index_reduce.

use super::advanced::{IndexPut, Item, Items};
use super::scattering::{ScatterReduce, ScatterReduction, check_source, slices_at};
use crate::indexing::by_index::{check_indices, view_with_axis, with_axis};
use crate::op::{CpuLayer, ForwardContext, FromOperator, Io, Layer, LayerError, Result, TensorMeta, exactly};
use crate::support::arguments::InputIndex;
use crate::support::broadcast::{TensorOrScalar, broadcast};
use crate::support::views::{Plain, with_first, write_plain};
use ixion_tensor::{DType, Shape, TensorView, TensorViewMut, with_bits};
use std::ops::RangeInclusive;

crate::operator! {
    /// `torch.masked_scatter`: the input, in which the elements where the mask is true are replaced by those of `source`, one
    /// after the other in row-major order.
    pub struct MaskedScatter for "aten::masked_scatter" {
        /// The mask, true for elements to replace; broadcast with the input.
        mask: InputIndex,
        /// The elements to write, of the input's type: at least as many as are true in the mask.
        source: InputIndex,
    }
}

crate::operator! {
    /// `torch.put`: a copy of the input with the elements of `source` at the given indices into the flattened input. If indices
    /// repeat, the last element is kept.
    pub struct Put for "aten::put" {
        /// The indices, of any shape; may be negative, counting from the end.
        index: InputIndex,
        /// The elements to write, of the input's type: as many as there are indices.
        source: InputIndex,
        /// Whether the elements are added to those of the input instead of replacing them.
        accumulate: bool = false,
    }
}

crate::operator! {
    /// `torch.index_reduce`: a copy of the input in which the slices at the given indices of one axis are reduced together with
    /// those of `source` that are written there.
    pub struct IndexReduce for "aten::index_reduce" {
        /// The axis; may be negative, counting from the end.
        dim: i64,
        /// The indices, a vector.
        index: InputIndex,
        /// The slices to reduce: as many along the axis as there are indices.
        source: InputIndex,
        /// The reduction: `prod`, `mean`, `amax` or `amin`; means of integers are rounded down.
        reduce: ScatterReduction,
        /// Whether the input's own slices are included in the reduction.
        include_self: bool = true,
    }
    validate |layer| {
        match layer.reduce {
            ScatterReduction::Sum => {
                let reason = "expected prod, mean, amax or amin; sums are those of index_add";
                Err(LayerError::invalid("reduce", "sum", reason))
            }
            _ => Ok(()),
        }
    }
}

/// Checks that a source has the element type of the input.
fn check_type(source: &TensorMeta, input: &TensorMeta) -> Result<()> {
    match source.dtype() == input.dtype() {
        true => Ok(()),
        false => Err(LayerError::dtype("the source", input.dtype(), source.dtype())),
    }
}

impl MaskedScatter {
    /// Replaces elements of an output that holds the input.
    fn replace(&self, inputs: &[TensorView<'_>], output: &mut TensorViewMut<'_>) -> Result<()> {
        let (mask, source) = (&inputs[self.mask.0], Plain::of(&inputs[self.source.0])?);
        let mask = mask.with_layout(mask.layout().expand(output.shape())?)?.array::<bool>()?;
        let wanted = mask.iter().filter(|&&replaced| replaced).count();
        if source.view().num_elements() < wanted {
            let wanted = format!("at least {wanted} elements, one for each true element of the mask");
            return Err(LayerError::shape("the source", wanted, inputs[self.source.0].shape()));
        }
        with_bits!(output.dtype(), B => {
            let (mut output, source) = (output.bits::<B>()?, source.view().bits_slice::<B>()?);
            let replaced = output.iter_mut().zip(&mask).filter(|(_, replaced)| **replaced);
            replaced.zip(source).for_each(|((to, _), &from)| *to = from);
        });
        Ok(())
    }
}

impl Layer for MaskedScatter {
    fn num_inputs(&self) -> RangeInclusive<usize> {
        exactly(1 + self.field_inputs())
    }

    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
        let (input, mask) = (&inputs[0], &inputs[self.mask.0]);
        if mask.dtype() != DType::Bool {
            return Err(LayerError::dtype("the mask", DType::Bool, mask.dtype()));
        }
        check_type(&inputs[self.source.0], input)?;
        Ok(vec![input.with_dims(broadcast(input.dims(), mask.dims())?)])
    }

    fn in_place(&self, _: usize) -> Option<usize> {
        Some(0)
    }
}

impl CpuLayer for MaskedScatter {
    fn forward(&mut self, io: &mut Io<'_, '_>) -> Result<()> {
        let (input, output) = (&io.inputs[0], &mut io.outputs[0]);
        output.copy_from(&input.with_layout(input.layout().expand(output.shape())?)?)?;
        self.replace(io.inputs, output)
    }

    fn forward_in_place(
        &mut self,
        data: &mut TensorViewMut<'_>,
        others: &[TensorView<'_>],
        _: &mut ForwardContext<'_>,
    ) -> Result<()> {
        self.replace(&with_first(others)?, data)
    }
}

impl Layer for Put {
    fn num_inputs(&self) -> RangeInclusive<usize> {
        exactly(1 + self.field_inputs())
    }

    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
        let (input, index, source) = (&inputs[0], &inputs[self.index.0], &inputs[self.source.0]);
        check_indices("the index", index)?;
        check_type(source, input)?;
        if source.num_elements().differs(&index.num_elements()) {
            let wanted = format!("as many elements as the index has ({index})");
            return Err(LayerError::shape("the source", wanted, source));
        }
        Ok(vec![input.with_dims(input.dims().to_vec())])
    }
}

impl CpuLayer for Put {
    /// Indexes the flattened input.
    fn forward(&mut self, io: &mut Io<'_, '_>) -> Result<()> {
        let flat = |position: usize| Plain::flattened(&io.inputs[position]);
        let (input, index, source) = (flat(0)?, flat(self.index.0)?, flat(self.source.0)?);
        let views = [input.view(), index.view(), source.view()];
        let indices = Items::Listed(vec![Item::Input(1)]);
        let mut put = IndexPut { indices, values: TensorOrScalar::Input(2), accumulate: self.accumulate };
        let (shape, context) = (Shape::new(&[io.inputs[0].num_elements()])?, &mut io.context);
        write_plain(&mut io.outputs[0], &mut |output| {
            let layout = output.layout().reshape(&shape)?.unwrap_or(*output.layout());
            let mut outputs = [output.reborrow().with_layout(layout)?];
            put.forward(&mut Io::new(&views, &mut outputs, context))
        })
    }
}

impl IndexReduce {
    /// The layer that does the work, given the indices of all elements of the source.
    fn of_elements(&self) -> ScatterReduce {
        let (index, src) = (InputIndex(1), InputIndex(2));
        ScatterReduce { dim: self.dim, index, src, reduce: self.reduce, include_self: self.include_self }
    }
}

impl Layer for IndexReduce {
    fn num_inputs(&self) -> RangeInclusive<usize> {
        exactly(1 + self.field_inputs())
    }

    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
        let (index, source) = (&inputs[self.index.0], &inputs[self.source.0]);
        let wanted = slices_at(index, &with_axis(&inputs[0]), self.dim)?;
        check_source(&with_axis(source), &wanted)?;
        self.of_elements().infer(&[inputs[0].clone(), wanted.with_dtype(index.dtype()), source.clone()])
    }
}

impl CpuLayer for IndexReduce {
    fn forward(&mut self, io: &mut Io<'_, '_>) -> Result<()> {
        let source = view_with_axis(&io.inputs[self.source.0])?;
        let axis = source.shape().axis(self.dim)?;
        let index = view_with_axis(&io.inputs[self.index.0])?;
        let mut layout = *index.layout();
        for _ in axis + 1..source.shape().rank() {
            layout = layout.unsqueeze(layout.shape().rank())?;
        }
        let index = index.with_layout(layout.expand(source.shape())?)?;
        let views = [io.inputs[0], index, source];
        self.of_elements().forward(&mut Io::new(&views, io.outputs, &mut io.context))
    }
}

operators! { MaskedScatter: writes(Replaces), Put: writes(Replaces), IndexReduce: writes(Combines) }

#[cfg(test)]
mod tests {
    use crate::op::LayerError;
    use crate::support::testing::{counting, operator, tensor};
    use ixion_tensor::{Complex, DType, Tensor};

    const NAN: f32 = f32::NAN;

    /// PyTorch's results.
    #[test]
    fn elements_are_replaced_in_order() {
        let x = counting(DType::F32, &[2, 3]);
        let mask = tensor(&[2, 3], &[true, false, true, false, true, false]);
        let scatter = operator("aten::masked_scatter", &[]).with_names(&["input", "mask", "source"]);
        let source = tensor(&[2, 2], &[10.0f32, 20.0, 30.0, 40.0]);
        let got = scatter.run_one(&[&x, &mask, &source]).unwrap();
        assert_eq!(got.to_vec::<f32>().unwrap(), [10.0, 1.0, 20.0, 3.0, 30.0, 5.0]);
        let row = tensor(&[3], &[true, false, true]);
        let got = scatter.run_one(&[&x, &row, &source]).unwrap();
        assert_eq!(got.to_vec::<f32>().unwrap(), [10.0, 1.0, 20.0, 30.0, 4.0, 40.0]);
        let wide = scatter.run_one(&[&tensor(&[3], &[0.0f32, 1.0, 2.0]), &mask, &source]).unwrap();
        assert_eq!(wide.to_vec::<f32>().unwrap(), [10.0, 1.0, 20.0, 0.0, 30.0, 2.0]);
        let turned = source.permute(&[1, 0]).unwrap();
        let got = scatter.run_one(&[&x, &mask, &turned]).unwrap();
        assert_eq!(got.to_vec::<f32>().unwrap(), [10.0, 1.0, 30.0, 3.0, 20.0, 5.0]);
        let number = scatter.run_one(&[&Tensor::scalar(1i8), &Tensor::scalar(true), &Tensor::scalar(7i8)]);
        assert_eq!(number.unwrap().item::<i8>().unwrap(), 7);
        let error = scatter.run(&[&x, &mask, &tensor(&[2], &[1.0f32, 2.0])]).unwrap_err().to_string();
        assert_eq!(
            error,
            "the source: expected at least 3 elements, one for each true element of the mask, got 2"
        );
        let refused = |mask: &Tensor, source: &Tensor| scatter.run(&[&x, mask, source]).is_err();
        assert!(refused(&mask.cast(DType::U8).unwrap(), &source));
        assert!(refused(&mask, &source.cast(DType::F64).unwrap()));
        assert!(refused(&tensor(&[2], &[true, false]), &source));
        operator("aten::masked_scatter", &[]).survives(3);
    }

    fn put(
        x: &Tensor,
        index: &Tensor,
        source: &Tensor,
        accumulate: &'static str,
    ) -> Result<Tensor, LayerError> {
        let layer = operator("aten::put", &[("accumulate", accumulate)]);
        layer.with_names(&["input", "index", "source"]).run_one(&[x, index, source])
    }

    /// PyTorch's results.
    #[test]
    fn elements_are_put() {
        let x = counting(DType::I64, &[2, 3]);
        let values = |index: &[i64], source: &[i64], accumulate| {
            let (index, source) = (tensor(&[index.len()], index), tensor(&[1, source.len()], source));
            put(&x, &index, &source, accumulate).map(|output| output.to_vec::<i64>().unwrap())
        };
        assert_eq!(values(&[0, -1], &[10, 20], "False").unwrap(), [10, 1, 2, 3, 4, 20]);
        assert_eq!(values(&[0, 0], &[10, 20], "False").unwrap(), [20, 1, 2, 3, 4, 5]);
        assert_eq!(values(&[0, 0, 5], &[10, 20, 1], "True").unwrap(), [30, 1, 2, 3, 4, 6]);
        assert_eq!(values(&[], &[], "True").unwrap(), [0, 1, 2, 3, 4, 5]);
        assert!(values(&[6], &[10], "False").is_err() && values(&[0, 1], &[10], "False").is_err());
        let turned = x.permute(&[1, 0]).unwrap();
        let got = put(&turned, &tensor(&[1], &[1i64]), &tensor(&[1], &[9i64]), "False").unwrap();
        assert_eq!((got.shape().dims(), got.to_vec::<i64>().unwrap()), (&[3, 2][..], vec![0, 9, 1, 4, 2, 5]));
        let number = put(&Tensor::scalar(1.0f32), &Tensor::scalar(0i64), &Tensor::scalar(5.0f32), "False");
        assert_eq!(number.unwrap().item::<f32>().unwrap(), 5.0);
        let twice = tensor(&[2], &[0i64, 0]);
        let bytes = put(&tensor(&[2], &[250u8, 1]), &twice, &tensor(&[2], &[10u8, 1]), "True").unwrap();
        assert_eq!(bytes.to_vec::<u8>().unwrap(), [5, 1]);
        let (i, one) = (Complex::new(0.0f32, 1.0), Complex::new(1.0f32, 0.0));
        let complex = put(&tensor(&[2], &[i, one]), &twice, &tensor(&[2], &[i, one]), "True").unwrap();
        assert_eq!(complex.to_vec::<Complex<f32>>().unwrap(), [Complex::new(1.0, 2.0), one]);
        assert!(put(&x, &twice, &tensor(&[2], &[1.0f32, 2.0]), "False").is_err());
        operator("aten::put", &[]).survives(3);
        operator("aten::put", &[("accumulate", "True")]).survives(3);
    }

    /// PyTorch's results.
    #[test]
    fn slices_are_reduced() {
        let names = ["input", "index", "source"];
        let (x, index) = (tensor(&[3], &[1i64, 2, 3]), tensor(&[3], &[0i64, 0, 2]));
        let source = tensor(&[3], &[5i64, -8, -7]);
        let reduced = |reduce, include_self| {
            let params = [("dim", "0"), ("reduce", reduce), ("include_self", include_self)];
            let layer = operator("aten::index_reduce", &params).with_names(&names);
            layer.run_one(&[&x, &index, &source]).map(|output| output.to_vec::<i64>().unwrap())
        };
        assert_eq!(reduced("prod", "True").unwrap(), [-40, 2, -21]);
        assert_eq!(reduced("prod", "False").unwrap(), [-40, 2, -7]);
        assert_eq!(reduced("mean", "True").unwrap(), [-1, 2, -2]);
        assert_eq!(reduced("mean", "False").unwrap(), [-2, 2, -7]);
        assert_eq!(reduced("amax", "True").unwrap(), [5, 2, 3]);
        assert_eq!(reduced("amax", "False").unwrap(), [5, 2, -7]);
        assert_eq!(reduced("amin", "True").unwrap(), [-8, 2, -7]);
        assert!(reduced("sum", "True").unwrap_err().to_string().contains("index_add"));
        let columns = operator("aten::index_reduce", &[("dim", "1"), ("reduce", "prod")]).with_names(&names);
        let (ones, twice) = (Tensor::ones(DType::F32, &[2, 3]).unwrap(), tensor(&[2], &[2i64, 2]));
        let pairs = tensor(&[2, 2], &[2.0f32, 3.0, 4.0, 5.0]);
        let got = columns.run_one(&[&ones, &twice, &pairs]).unwrap();
        assert_eq!(got.to_vec::<f32>().unwrap(), [1.0, 1.0, 6.0, 1.0, 1.0, 20.0]);
        let largest = operator("aten::index_reduce", &[("dim", "0"), ("reduce", "amax")]).with_names(&names);
        let floats = tensor(&[3], &[5.0, NAN, -7.0]);
        let got = largest.run_one(&[&x.cast(DType::F32).unwrap(), &index, &floats]).unwrap();
        let got = got.to_vec::<f32>().unwrap();
        assert!(got[0].is_nan() && got[1..] == [2.0, 3.0]);
        let number = [Tensor::scalar(2.0f32), Tensor::scalar(0i64), Tensor::scalar(3.0f32)];
        assert_eq!(largest.run_one(&number.each_ref()).unwrap().item::<f32>().unwrap(), 3.0);
        let refused = |inputs: [&Tensor; 3]| columns.run(&inputs).is_err();
        assert!(refused([&ones, &twice, &ones]) && refused([&ones, &tensor(&[2], &[0i64, 3]), &pairs]));
        assert!(refused([&ones, &twice, &pairs.cast(DType::F64).unwrap()]));
        operator("aten::index_reduce", &[("dim", "0"), ("reduce", "mean")]).survives(3);
        operator("aten::index_reduce", &[("dim", "-1"), ("reduce", "amin")]).survives(3);
    }
}
