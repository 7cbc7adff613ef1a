//! Sums of products that are added to an input: addr and addbmm.

use super::product::{Addmm, Product};
use crate::arithmetic::binary::{compiled, expr_of};
use crate::arithmetic::expression::Expression;
use crate::inserted::device_tactic::DeviceTactic;
use crate::op::{Cost, CpuLayer, FromOperator, Io, Layer, LayerError, Result, TensorMeta, exactly};
use crate::support::arguments::InputIndex;
use crate::support::broadcast::{Converted, TensorOrScalar, broadcasts, common};
use crate::support::number;
use ixion_pnnx::Expr;
use ixion_tensor::{DType, Scalar};
use std::ops::RangeInclusive;

crate::operator! {
    /// `torch.addr`: `beta` · input + `alpha` · the outer product of two vectors; n and m give n×m. The input is broadcast to
    /// n×m.
    pub struct Addr for "aten::addr" {
        /// The left factor, of n elements.
        vec1: InputIndex,
        /// The right factor, of m elements.
        vec2: InputIndex,
        /// Factor of the input; if 0, the input is ignored, so that its NaN do not propagate.
        beta: Scalar = Scalar::Int(1),
        /// Factor of the product.
        alpha: Scalar = Scalar::Int(1),
    }
}

crate::operator! {
    /// `torch.addbmm`: `beta` · input + `alpha` · the sum of the products of two batches of matrices; b×n×m and b×m×p give n×p.
    /// The input is broadcast to n×p.
    pub struct Addbmm for "aten::addbmm" {
        /// The left factors.
        batch1: InputIndex,
        /// The right factors.
        batch2: InputIndex,
        /// Factor of the input; if 0, the input is ignored, so that its NaN do not propagate.
        beta: f64 = 1.0,
        /// Factor of the sum.
        alpha: f64 = 1.0,
    }
}

fn is_zero(number: Scalar) -> bool {
    match number {
        Scalar::Bool(value) => !value,
        Scalar::Int(value) => value == 0,
        Scalar::Float(value) => value == 0.0,
        Scalar::Complex(value) => value.norm_sqr() == 0.0,
    }
}

impl Addr {
    /// The element type: that of all inputs together.
    fn dtype(&self, inputs: &[TensorMeta]) -> Result<DType> {
        let operands = [0, self.vec1.0, self.vec2.0].map(TensorOrScalar::Input);
        let dtype = common(inputs, &operands);
        number::check("the inputs", dtype)?;
        for (key, factor) in [("beta", self.beta), ("alpha", self.alpha)] {
            let wanted = match factor {
                Scalar::Float(_) if dtype.is_integer() => "an integer",
                Scalar::Complex(_) if !dtype.is_complex() => "a real number",
                _ => continue,
            };
            return Err(LayerError::invalid(key, factor, format!("expected {wanted} for {dtype} inputs")));
        }
        Ok(dtype)
    }

    /// The sum of the input and the product of a column and a row.
    fn sum(&self) -> Result<Expression> {
        let template =
            if is_zero(self.beta) { "mul(mul(@1,@3),@2)" } else { "add(mul(@0,@4),mul(mul(@1,@3),@2))" };
        let [alpha, beta] = [self.alpha, self.beta].map(|factor| expr_of(TensorOrScalar::Number(factor)));
        compiled(template, &[Expr::Input(0), Expr::Input(1), Expr::Input(2), alpha, beta])
    }
}

impl Layer for Addr {
    fn num_inputs(&self) -> RangeInclusive<usize> {
        exactly(1 + self.field_inputs())
    }

    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
        let dtype = self.dtype(inputs)?;
        let mut dims = Vec::new();
        for (key, position) in [("vec1", self.vec1.0), ("vec2", self.vec2.0)] {
            let [len] = inputs[position].dims() else {
                return Err(LayerError::shape(format!("`{key}`"), "a vector", &inputs[position]));
            };
            dims.push(len.clone());
        }
        let output = TensorMeta::new(dtype, dims);
        match broadcasts(inputs[0].dims(), output.dims()) {
            true => Ok(vec![output]),
            false => {
                let wanted = format!("a shape that broadcasts to {output}");
                Err(LayerError::shape("the input", wanted, &inputs[0]))
            }
        }
    }
}

impl CpuLayer for Addr {
    fn forward(&mut self, io: &mut Io<'_, '_>) -> Result<()> {
        let dtype = io.outputs[0].dtype();
        let converted = |position: usize| Converted::of(&io.inputs[position], dtype);
        let (input, first, second) = (converted(0)?, converted(self.vec1.0)?, converted(self.vec2.0)?);
        let column = first.view().with_layout(first.view().layout().unsqueeze(1)?)?;
        let inputs = [input.view(), column, second.view()];
        self.sum()?.forward(&mut Io::new(&inputs, io.outputs, &mut io.context))
    }
}

impl Addbmm {
    /// The same product of two matrices: the left factors beside each other, and the right factors below each other.
    fn product(&self) -> Product {
        let on_device = DeviceTactic::default();
        let (mat1, mat2) = (InputIndex(1), InputIndex(2));
        Addmm { mat1, mat2, beta: self.beta, alpha: self.alpha, on_device }.product()
    }

    /// The input and the two matrices.
    fn stacked(&self, inputs: &[TensorMeta]) -> Result<[TensorMeta; 3]> {
        let (left, right) = (&inputs[self.batch1.0], &inputs[self.batch2.0]);
        let [batch, rows, inner] = left.dims() else {
            return Err(LayerError::shape("`batch1`", "b×n×m", left));
        };
        let [other_batch, other_inner, columns] = right.dims() else {
            return Err(LayerError::shape("`batch2`", "b×m×p", right));
        };
        if batch.differs(other_batch) || inner.differs(other_inner) {
            let wanted = format!("{batch}×{inner}×p, to fit `batch1` {left}");
            return Err(LayerError::shape("`batch2`", wanted, right));
        }
        let length = batch.clone() * inner.clone();
        let left = left.with_dims([rows.clone(), length.clone()]);
        Ok([inputs[0].clone(), left, right.with_dims([length, columns.clone()])])
    }
}

impl Layer for Addbmm {
    fn num_inputs(&self) -> RangeInclusive<usize> {
        exactly(1 + self.field_inputs())
    }

    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
        self.product().infer(&self.stacked(inputs)?)
    }

    fn cost(&self, inputs: &[TensorMeta], outputs: &[TensorMeta]) -> Cost {
        let moved = Cost::of_moving(inputs, outputs);
        self.stacked(inputs)
            .map_or(moved, |inputs| moved.with_macs(self.product().cost(&inputs, outputs).macs))
    }
}

impl CpuLayer for Addbmm {
    fn forward(&mut self, io: &mut Io<'_, '_>) -> Result<()> {
        let [input, left, right] = [0, self.batch1.0, self.batch2.0].map(|position| io.inputs[position]);
        let metas = self.stacked(&TensorMeta::of_all(io.inputs))?;
        for meta in &metas[1..] {
            io.context
                .limits()
                .check_tensor("the factors side by side", meta.byte_len().unwrap_or(u64::MAX))?;
        }
        let [_, left_shape, right_shape] = metas;
        let left = left.with_layout(left.layout().permute(&[1, 0, 2])?)?.to_tensor()?;
        let left = left.reshape(&left_shape.shape()?)?;
        let right = right.to_tensor()?.reshape(&right_shape.shape()?)?;
        let inputs = [input, left.view(), right.view()];
        self.product().forward(&mut Io::new(&inputs, io.outputs, &mut io.context))
    }
}

operators! { Addr: category(Elementwise), Addbmm }

#[cfg(test)]
mod tests {
    use super::*;
    use crate::support::testing::{assert_close, counting, operator, tensor, waves};
    use ixion_tensor::{Complex, Tensor};

    fn addr(params: &[(&str, &str)], inputs: &[&Tensor]) -> Tensor {
        operator("aten::addr", params).run_one(inputs).unwrap()
    }

    #[test]
    fn outer_products_are_added_as_in_pytorch() {
        let (x, a, b) = (waves(&[2, 3]), tensor(&[2], &[1.0, -2.0]), tensor(&[3], &[0.5, 0.0, 3.0]));
        let want = [-0.375, -0.125, 6.0, -3.0, -0.25, -12.625];
        assert_close(&addr(&[("beta", "0.5"), ("alpha", "2")], &[&x, &a, &b]), &[2, 3], &want);
        let want = [-2.25, -0.25, 3.0, -3.0, -0.5, -7.25];
        assert_close(&addr(&[], &[&x, &a, &b]), &[2, 3], &want);
        let unknown: Tensor = x.map(|_: f64| f64::NAN).unwrap();
        let want = [0.5, 0.0, 3.0, -1.0, 0.0, -6.0];
        assert_close(&addr(&[("beta", "0")], &[&unknown, &a, &b]), &[2, 3], &want);
        let want = [1.5, 1.0, 4.0, 0.0, 1.0, -5.0];
        assert_close(&addr(&[], &[&Tensor::scalar(1f64), &a, &b]), &[2, 3], &want);
        let integers =
            [counting(DType::I64, &[2, 3]), counting(DType::I64, &[2]), counting(DType::I64, &[3])];
        let sum = addr(&[("beta", "2"), ("alpha", "3")], &[&integers[0], &integers[1], &integers[2]]);
        assert_eq!(sum.to_vec::<i64>().unwrap(), [0, 2, 4, 6, 11, 16]);
        let single = x.cast(DType::F32).unwrap();
        assert_eq!(addr(&[], &[&single, &a, &b]).dtype(), DType::F64);
        let bytes = [tensor(&[1, 1], &[200u8]), tensor(&[1], &[1f32]), tensor(&[1], &[100u8])];
        let wide = addr(&[("beta", "2"), ("alpha", "3")], &bytes.each_ref());
        assert_close(&wide, &[1, 1], &[700.0]);
        let i = tensor(&[1], &[Complex::new(0f32, 1.0)]);
        assert_eq!(addr(&[], &[&i, &i, &i]).to_vec::<Complex<f32>>().unwrap(), [Complex::new(-1.0, 1.0)]);
    }

    #[test]
    fn products_of_batches_are_added_as_in_pytorch() {
        let x = waves(&[2, 2, 3]);
        let y: Tensor = waves(&[2, 3, 2]).map(|y: f64| y + 0.25).unwrap();
        let sum = operator("aten::addbmm", &[("beta", "0.5"), ("alpha", "2")]);
        let added = tensor(&[1, 2], &[1.0, 2.0]);
        assert_close(&sum.run_one(&[&added, &x, &y]).unwrap(), &[2, 2], &[22.25, 17.125, 15.0, 23.5]);
        let [square, cube] = [&[2, 2][..], &[2, 2, 2]].map(|shape| counting(DType::I64, shape));
        let sum = operator("aten::addbmm", &[("beta", "2"), ("alpha", "3")]);
        let integers = sum.run_one(&[&square, &cube, &cube]).unwrap();
        assert_eq!(integers.to_vec::<i64>().unwrap(), [144, 176, 220, 276]);
        let [none, ones] = [&[0, 2, 2][..], &[2, 2]].map(|shape| Tensor::ones(DType::F32, shape).unwrap());
        let sum = operator("aten::addbmm", &[]).run_one(&[&ones, &none, &none]).unwrap();
        assert_close(&sum, &[2, 2], &[1.0; 4]);
    }

    #[test]
    fn what_does_not_fit() {
        let error = |op_type: &str, params: &[(&str, &str)], inputs: [&Tensor; 3]| {
            operator(op_type, params).run(&inputs).unwrap_err().to_string()
        };
        let (x, a) = (counting(DType::I64, &[2, 2]), counting(DType::I64, &[2]));
        let fraction = error("aten::addr", &[("alpha", "0.5")], [&x, &a, &a]);
        assert!(fraction.contains("`alpha` is 0.5: expected an integer for i64 inputs"));
        assert_eq!(error("aten::addr", &[], [&x, &x, &a]), "`vec1`: expected a vector, got 2×2 i64");
        assert!(
            error("aten::addr", &[], [&counting(DType::I64, &[3]), &a, &a]).contains("broadcasts to 2×2")
        );
        let (y, z) = (waves(&[2, 2, 3]), waves(&[2, 2, 2]));
        let inner = error("aten::addbmm", &[], [&waves(&[2, 2]), &y, &z]);
        assert_eq!(inner, "`batch2`: expected 2×3×p, to fit `batch1` 2×2×3 f64, got 2×2×2 f64");
        operator("aten::addr", &[]).survives(3);
        operator("aten::addbmm", &[]).survives(3);
    }
}
