//! Diagonals and cross products.

use crate::op::{CpuLayer, FromOperator, Io, Layer, LayerError, Result, TensorMeta, exactly};
use crate::support::arguments::InputIndex;
use crate::support::broadcast::{TensorOrScalar, broadcast, common};
use crate::support::views::fill_with_zeros;
use ixion_kernels::elementwise::Program;
use ixion_pnnx::Function;
use ixion_tensor::{DType, Dim, Layout, resolve_axis};
use std::ops::RangeInclusive;

crate::operator! {
    /// `torch.diag`: the diagonal of a matrix, or a matrix with a vector on its diagonal and 0 elsewhere.
    pub struct Diag for "torch.diag", "aten::diag" {
        /// The diagonal: 0 is the main diagonal, positive ones are above it, negative ones below.
        diagonal: i64 = 0,
    }
}

crate::operator! {
    /// `torch.cross`: the cross products of vectors along an axis of length 3.
    pub struct Cross for "torch.cross", "aten::cross", "aten::linalg_cross" {
        /// The other vectors, which are broadcast.
        other: InputIndex,
        /// The axis; may be negative, counting from the end. The first one of length 3 by default.
        dim: Option<i64> = None,
    }
}

impl Diag {
    /// Row and column of the first element of the diagonal.
    fn start(&self) -> [usize; 2] {
        let distance = usize::try_from(self.diagonal.unsigned_abs()).unwrap_or(usize::MAX);
        if self.diagonal < 0 { [distance, 0] } else { [0, distance] }
    }
}

impl Layer for Diag {
    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
        let [down, right] = self.start();
        let dims = match inputs[0].dims() {
            [len] => vec![len.clone() + down + right; 2],
            [rows, columns] => vec![(rows.clone() - down).min(columns.clone() - right).max(0)],
            _ => return Err(LayerError::shape("the input", "a vector or a matrix", &inputs[0])),
        };
        Ok(vec![inputs[0].with_dims(dims)])
    }
}

impl CpuLayer for Diag {
    fn forward(&mut self, io: &mut Io<'_, '_>) -> Result<()> {
        let [down, right] = self.start();
        let is_vector = io.inputs[0].shape().rank() == 1;
        let (whole, part) = match is_vector {
            true => (*io.outputs[0].layout(), *io.inputs[0].shape()),
            false => (*io.inputs[0].layout(), *io.outputs[0].shape()),
        };
        if is_vector {
            fill_with_zeros(&mut io.outputs[0])?;
        }
        if part.num_elements() == 0 {
            return Ok(());
        }
        let (rows, columns) = (whole.strides()[0], whole.strides()[1]);
        let start = whole.offset() + down * rows + right * columns;
        let diagonal = Layout::strided(part, &[rows + columns], start)?;
        match is_vector {
            true => io.outputs[0].reborrow().with_layout(diagonal)?.copy_from(&io.inputs[0])?,
            false => io.outputs[0].copy_from(&io.inputs[0].with_layout(diagonal)?)?,
        }
        Ok(())
    }
}

impl Cross {
    fn axis(&self, input: &TensorMeta, dims: &[Dim]) -> Result<usize> {
        let mut lens = input.dims().iter();
        let axis = match (self.dim, lens.position(|dim| *dim == 3usize)) {
            (Some(dim), _) => resolve_axis(dim, dims.len())?,
            (None, Some(axis)) => axis,
            (None, None) if input.is_fixed() => usize::MAX,
            (None, None) => {
                let reason = format!("without `dim`, an axis of {input} must be known to have length 3");
                return Err(LayerError::Unsupported(reason));
            }
        };
        if dims.get(axis).is_some_and(|dim| dim.fixed().is_none_or(|dim| dim == 3)) {
            return Ok(axis);
        }
        Err(LayerError::shape("the input", "an axis of length 3", input))
    }
}

impl Layer for Cross {
    fn num_inputs(&self) -> RangeInclusive<usize> {
        exactly(1 + self.field_inputs())
    }

    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
        let other = &inputs[self.other.0];
        let dtype = common(inputs, &[TensorOrScalar::Input(0), TensorOrScalar::Input(self.other.0)]);
        if dtype == DType::Bool || inputs[0].rank() != other.rank() {
            return Err(LayerError::shape("the other input", "numbers, of the input's rank", other));
        }
        let dims = broadcast(inputs[0].dims(), other.dims())?;
        let axis = self.axis(&inputs[0], &dims)?;
        // All axes are broadcast except this one.
        if let Some(input) =
            inputs.iter().find(|input| input.dims()[axis].fixed().is_some_and(|len| len != 3))
        {
            return Err(LayerError::shape("an input", format!("length 3 along axis {axis}"), input));
        }
        Ok(vec![TensorMeta::new(dtype, dims)])
    }
}

impl CpuLayer for Cross {
    fn forward(&mut self, io: &mut Io<'_, '_>) -> Result<()> {
        let metas = TensorMeta::of_all(io.inputs);
        let (shape, dtype) = (*io.outputs[0].shape(), io.outputs[0].dtype());
        let dims: Vec<Dim> = shape.iter().map(|&len| Dim::from(len)).collect();
        let axis = self.axis(&metas[0], &dims)?;
        let both = [&io.inputs[0], &io.inputs[self.other.0]];
        for part in 0..3 {
            let (next, last) = ((part + 1) % 3, (part + 2) % 3);
            let at = |input: usize, index| {
                let whole = both[input].layout().expand(&shape)?;
                both[input].with_layout(whole.select(axis, index)?)
            };
            let parts = [at(0, next)?, at(1, last)?, at(0, last)?, at(1, next)?];
            let mut program = Program::default();
            let mut values = Vec::new();
            for (position, part) in parts.iter().enumerate() {
                let value = program.input(position, part.dtype());
                values.push(program.cast(value, dtype));
            }
            let first = program.apply(Function::Mul, dtype, values[0], values[1]);
            let second = program.apply(Function::Mul, dtype, values[2], values[3]);
            let difference = program.apply(Function::Sub, dtype, first, second);
            let layout = io.outputs[0].layout().select(axis, part)?;
            let mut output = io.outputs[0].reborrow().with_layout(layout)?;
            program.run(difference, &parts, &mut output, io.context.limits())?;
        }
        Ok(())
    }
}

operators! { Diag: category(Shape), Cross: category(Elementwise) }

#[cfg(test)]
mod tests {
    use super::*;
    use crate::support::testing::{assert_close, counting, operator, tensor};
    use ixion_tensor::Tensor;

    #[test]
    fn diagonals() {
        let diag =
            |diagonal, x: &Tensor| operator("torch.diag", &[("diagonal", diagonal)]).run_one(&[x]).unwrap();
        let m = counting(DType::F32, &[2, 3]);
        assert_close(&diag("0", &m), &[2], &[0.0, 4.0]);
        assert_close(&diag("1", &m), &[2], &[1.0, 5.0]);
        assert_close(&diag("-1", &m), &[1], &[3.0]);
        assert_close(&diag("3", &m), &[0], &[]);
        assert_close(
            &diag("-1", &tensor(&[2], &[7f32, 8.0])),
            &[3, 3],
            &[0.0, 0.0, 0.0, 7.0, 0.0, 0.0, 0.0, 8.0, 0.0],
        );
        operator("torch.diag", &[("diagonal", "-9223372036854775808")]).survives(1);
        operator("torch.diag", &[("diagonal", "1")]).survives(1);
    }

    #[test]
    fn cross_products() {
        let (x, y) = (tensor(&[1, 3], &[1f64, 2.0, 3.0]), tensor(&[2, 3], &[4f64, 5.0, 6.0, 1.0, 0.0, 0.0]));
        let got = operator("torch.cross", &[("dim", "-1")]).run_one(&[&x, &y]).unwrap();
        assert_close(&got, &[2, 3], &[-3.0, 6.0, -3.0, 0.0, 3.0, -2.0]);
        assert_eq!(operator("torch.cross", &[("dim", "None")]).run_one(&[&x, &y]).unwrap(), got);
        assert!(operator("torch.cross", &[("dim", "0")]).run(&[&x, &y]).is_err());
        let ones = |shape: &[usize]| Tensor::ones(DType::F32, shape).unwrap();
        for wrong in [[ones(&[2, 3]), ones(&[2, 1])], [ones(&[2, 1]), ones(&[2, 3])]] {
            assert!(operator("torch.cross", &[("dim", "1")]).run(&[&wrong[0], &wrong[1]]).is_err());
        }
        operator("torch.cross", &[]).survives(2);
    }
}
