//! Tensor contractions: inner, outer, tensordot, multi_dot. Each is an [`Einsum`] whose equation follows from the ranks of
//! the inputs.

use super::einsum::{Einsum, Equation};
use crate::op::{CpuLayer, FromParameter, Io, Layer, LayerError, Result, RuntimeParameter, TensorMeta};
use crate::support::arguments::{InputCount, InputIndex};
use crate::support::delegation::{Delegating, delegating};
use ixion_tensor::resolve_axes;
use std::fmt;
use std::ops::RangeInclusive;

crate::operator! {
    /// `torch.inner`: the inner products of vectors along the last axes, a…×k and b…×k give a…×b…; a scalar multiplies all
    /// elements.
    pub struct Inner for "aten::inner" {
        /// The right factor.
        other: InputIndex,
    }
}

crate::operator! {
    /// `torch.outer`: the outer product of two vectors; n and m give n×m.
    pub struct Outer for "aten::outer", "aten::ger" {
        /// The right factor, of m elements.
        vec2: InputIndex,
    }
}

crate::operator! {
    /// `torch.tensordot`: the contraction of two tensors, which sums products over pairs of axes; the remaining axes of the
    /// left factor come before the right factor's.
    pub struct Tensordot for "aten::tensordot" {
        /// The right factor.
        other: InputIndex,
        /// The axes of the left factor to sum over; may be negative, counting from the end.
        dims_self: Vec<i64>,
        /// The axes of the right factor, paired with `dims_self`; may be negative, counting from the end.
        dims_other: Vec<i64>,
    }
}

crate::operator! {
    /// `torch.linalg.multi_dot`: the product of two or more matrices, from left to right. The first may be a vector,
    /// treated as a row, and the last one a vector, treated as a column.
    pub struct MultiDot for "aten::linalg_multi_dot", "aten::chain_matmul" {
        /// The number of factors.
        inputs: InputCount,
    }
}

/// `count` letters, from the `start`th on.
fn letters(start: usize, count: usize) -> Result<Vec<char>> {
    let all: Vec<char> = ('a'..='z').chain('A'..='Z').skip(start).take(count).collect();
    if all.len() == count {
        return Ok(all);
    }
    let found = start.saturating_add(count);
    Err(LayerError::Unsupported(format!("expected a product over at most 52 axes, got {found}")))
}

fn wrong_rank(position: usize, wanted: &str, found: &TensorMeta) -> LayerError {
    LayerError::shape(format!("input {position}"), wanted, found)
}

/// The letters of each input and of the output.
type Letters = (Vec<Vec<char>>, Vec<char>);

impl Inner {
    fn letters(&self, inputs: &[TensorMeta]) -> Result<Letters> {
        let left = letters(0, inputs[0].rank())?;
        let mut right = letters(left.len(), inputs[self.other.0].rank())?;
        let mut output = [left.clone(), right.clone()].concat();
        if let (Some(&shared), Some(last)) = (left.last(), right.last_mut()) {
            output.retain(|letter| *letter != shared && letter != last);
            *last = shared;
        }
        Ok((vec![left, right], output))
    }
}

impl Outer {
    fn letters(&self, inputs: &[TensorMeta]) -> Result<Letters> {
        match inputs.iter().position(|input| input.rank() != 1) {
            Some(position) => Err(wrong_rank(position, "a vector", &inputs[position])),
            None => Ok((vec![vec!['a'], vec!['b']], vec!['a', 'b'])),
        }
    }
}

impl Tensordot {
    fn letters(&self, inputs: &[TensorMeta]) -> Result<Letters> {
        let (left, other) = (letters(0, inputs[0].rank())?, &inputs[self.other.0]);
        let mut right = letters(left.len(), other.rank())?;
        let own = resolve_axes(&self.dims_self, left.len())?;
        let theirs = resolve_axes(&self.dims_other, right.len())?;
        if own.len() != theirs.len() {
            let reason = format!("expected {} axes, as in `dims_self`", own.len());
            return Err(LayerError::invalid("dims_other", format!("{:?}", self.dims_other), reason));
        }
        let kept = |all: &[char], dims: &[usize]| -> Vec<char> {
            all.iter()
                .enumerate()
                .filter(|(axis, _)| !dims.contains(axis))
                .map(|(_, &letter)| letter)
                .collect()
        };
        let output = [kept(&left, &own), kept(&right, &theirs)].concat();
        for (&from, to) in own.iter().zip(theirs) {
            // A scalar has no axis to contract, although its axis 0 may be named.
            let (Some(letter), Some(place)) = (left.get(from), right.get_mut(to)) else {
                return Err(LayerError::shape("the inputs", "an axis to contract", "a scalar"));
            };
            *place = *letter;
        }
        Ok((vec![left, right], output))
    }
}

impl MultiDot {
    fn letters(&self, inputs: &[TensorMeta]) -> Result<Letters> {
        let all = letters(0, inputs.len() + 1)?;
        let (mut factors, last) = (Vec::with_capacity(inputs.len()), inputs.len().saturating_sub(1));
        let mut output = Vec::new();
        for (position, (input, pair)) in inputs.iter().zip(all.windows(2)).enumerate() {
            factors.push(match input.rank() {
                2 => pair.to_vec(),
                1 if position == 0 && last > 0 => pair[1..].to_vec(),
                1 if position == last && last > 0 => pair[..1].to_vec(),
                _ => return Err(wrong_rank(position, "a matrix", input)),
            });
            if position == 0 && input.rank() == 2 {
                output.extend_from_slice(&pair[..1]);
            }
            if position == last && input.rank() == 2 {
                output.extend_from_slice(&pair[1..]);
            }
        }
        Ok((factors, output))
    }
}

/// The [`Einsum`] of an operator, whose function returns the letters for inputs of certain ranks.
#[derive(Debug, Clone)]
struct Contraction<O>(O, fn(&O, &[TensorMeta]) -> Result<Letters>);

impl<O> Contraction<O> {
    fn einsum(&self, inputs: &[TensorMeta]) -> Result<Einsum> {
        let Self(operator, letters) = self;
        let (inputs, output) = letters(operator, inputs)?;
        let inputs: Vec<String> = inputs.into_iter().map(String::from_iter).collect();
        let text = format!("{}->{}", inputs.join(","), String::from_iter(output));
        let equation = Equation::from_parameter(&RuntimeParameter::parse(&text));
        let equation =
            equation.ok_or_else(|| LayerError::Unsupported(format!("cannot parse the equation {text}")))?;
        Ok(Einsum { equation })
    }
}

impl<O: fmt::Debug + Send + Sync> Layer for Contraction<O> {
    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
        self.einsum(inputs)?.infer(inputs)
    }
}

impl<O: fmt::Debug + Clone + Send + Sync + 'static> CpuLayer for Contraction<O> {
    fn forward(&mut self, io: &mut Io<'_, '_>) -> Result<()> {
        self.einsum(&TensorMeta::of_all(io.inputs))?.forward(io)
    }
}

delegating! {
    Inner |layer| Contraction(layer.clone(), Inner::letters);
    Outer |layer| Contraction(layer.clone(), Outer::letters);
    Tensordot |layer| Contraction(layer.clone(), Tensordot::letters);
}

impl Delegating for MultiDot {
    fn delegate(&self, _: usize) -> Result<impl CpuLayer> {
        Ok(Contraction(self.clone(), Self::letters))
    }

    fn takes(&self) -> RangeInclusive<usize> {
        1..=51
    }
}

operators! {
    Inner, Outer, Tensordot, MultiDot;
    lists "aten::linalg_multi_dot", "aten::chain_matmul"
}

#[cfg(test)]
mod tests {
    use crate::support::testing::{counting, operator};
    use ixion_tensor::{DType, Tensor};

    #[test]
    fn sums_of_products() {
        let x = counting(DType::I64, &[2, 3]);
        let run = |op_type, params: &[(&'static str, &'static str)], inputs: &[&Tensor]| {
            let output = operator(op_type, params).run_one(inputs).unwrap();
            (output.shape().to_vec(), output.to_vec::<i64>().unwrap())
        };
        assert_eq!(run("aten::inner", &[], &[&x, &x]), (vec![2, 2], vec![5, 14, 14, 50]));
        assert_eq!(
            run("aten::inner", &[], &[&x, &Tensor::scalar(2i64)]),
            (vec![2, 3], vec![0, 2, 4, 6, 8, 10])
        );
        let y = counting(DType::I64, &[3]);
        assert_eq!(run("aten::outer", &[], &[&y, &y]), (vec![3, 3], vec![0, 0, 0, 0, 1, 2, 0, 2, 4]));
        let dims = [("dims_self", "(0,1)"), ("dims_other", "(0,-1)")];
        assert_eq!(run("aten::tensordot", &dims, &[&x, &x]), (vec![], vec![55]));
        let rows = [("dims_self", "(0)"), ("dims_other", "(0)")];
        assert_eq!(run("aten::tensordot", &rows, &[&x, &x]).1, [9, 12, 15, 12, 17, 22, 15, 22, 29]);
        assert_eq!(run("aten::linalg_multi_dot", &[], &[&x, &y]), (vec![2], vec![5, 14]));
        let chain = run("aten::linalg_multi_dot", &[], &[&counting(DType::I64, &[2]), &x, &y]);
        assert_eq!(chain, (vec![], vec![14]));
    }

    #[test]
    fn odd_inputs() {
        for op_type in ["aten::inner", "aten::outer", "aten::linalg_multi_dot"] {
            operator(op_type, &[]).survives(2);
        }
        operator("aten::tensordot", &[("dims_self", "(0)"), ("dims_other", "(-1)")]).survives(2);
    }
}
