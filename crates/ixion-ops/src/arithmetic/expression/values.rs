//! Values that are known before the operator runs: arithmetic on sizes.

use super::formula::{Formula, Node};
use super::typing::Type;
use crate::op::TensorMeta;
use ixion_pnnx::Function;
use ixion_tensor::{DType, Dim, Limits, Scalar, Shape, Tensor, resolve_axis};

impl Formula {
    /// The integers that the last node holds, if they follow from sizes and known values.
    pub(super) fn values(&self, types: &[Type], inputs: &[TensorMeta]) -> Option<Vec<Dim>> {
        let last = types.last()?;
        let few = Dim::Fixed(TensorMeta::MAX_VALUES as i64);
        let count = last.dims.iter().fold(Dim::Fixed(1), |product, dim| product * dim.clone());
        if last.dtype != DType::I64 || last.dims.len() > 1 || count.clone().min(few) != count {
            return None;
        }
        let values = self.folded(types, inputs).or_else(|| self.symbolic(types, inputs))?;
        (count == values.len()).then_some(values)
    }

    /// Evaluates by the rules of [`Dim`], for values that depend on symbols.
    fn symbolic(&self, types: &[Type], inputs: &[TensorMeta]) -> Option<Vec<Dim>> {
        let mut known: Vec<Option<Vec<Dim>>> = Vec::with_capacity(self.nodes.len());
        for (node, this) in self.nodes.iter().zip(types) {
            let exact = this.dtype == DType::I64 || this.is_number;
            let values = match node {
                _ if !exact => None,
                Node::Input(position) => {
                    inputs.get(*position).and_then(TensorMeta::values).map(<[Dim]>::to_vec)
                }
                Node::Number(scalar) => whole(*scalar).map(|value| vec![Dim::Fixed(value)]),
                Node::Size { of, axis } => size(types.get(*of)?, *axis).map(|dim| vec![dim]),
                Node::Call { function, args } => self.call(*function, *args, &known),
            };
            known.push(values);
        }
        known.pop()?
    }

    fn call(&self, function: Function, [a, b]: [usize; 2], known: &[Option<Vec<Dim>>]) -> Option<Vec<Dim>> {
        if let Some(Node::Call { function: Function::Div, args: [x, y] }) = self.nodes.get(a) {
            return each(known.get(*x)?.as_ref()?, known.get(*y)?.as_ref()?, |x, y| {
                rounded_quotient(function, x, y)
            });
        }
        each(known.get(a)?.as_ref()?, known.get(b)?.as_ref()?, |a, b| apply(function, a, b))
    }

    /// Evaluates by running the program, if it depends only on numbers.
    fn folded(&self, types: &[Type], inputs: &[TensorMeta]) -> Option<Vec<Dim>> {
        let mut tensors = vec![Tensor::scalar(0i64); inputs.len()];
        for (node, needed) in self.nodes.iter().zip(&self.needed) {
            if let (true, Node::Input(position)) = (needed, node) {
                let input = inputs.get(*position).filter(|input| input.dtype() == DType::I64)?;
                let values: Option<Vec<i64>> = input.values()?.iter().map(Dim::fixed).collect();
                *tensors.get_mut(*position)? = Tensor::from_vec(values?, &input.shape().ok()?).ok()?;
            }
        }
        let dims: Option<Vec<usize>> =
            types.last()?.dims.iter().map(|dim| usize::try_from(dim.fixed()?).ok()).collect();
        let mut result = Tensor::zeros(DType::I64, &Shape::new(&dims?).ok()?).ok()?;
        let (program, value) = self.program(types, Some).ok()?;
        let views: Vec<_> = tensors.iter().map(Tensor::view).collect();
        program.run(value, &views, &mut result.view_mut().ok()?, &Limits::default()).ok()?;
        Some(result.to_vec::<i64>().ok()?.into_iter().map(Dim::Fixed).collect())
    }
}

fn size(of: &Type, axis: i64) -> Option<Dim> {
    of.dims.get(resolve_axis(axis, of.dims.len()).ok()?).cloned()
}

/// The value of a literal, if it is an integer.
fn whole(scalar: Scalar) -> Option<i64> {
    match scalar {
        Scalar::Bool(value) => Some(value.into()),
        Scalar::Int(value) => Some(value),
        Scalar::Float(value) => Some(value as i64).filter(|&int| int as f64 == value && value.abs() < 9e15),
        _ => None,
    }
}

/// Applies a rule to pairs of values; a single value is paired with all.
fn each(a: &[Dim], b: &[Dim], rule: impl Fn(Dim, Dim) -> Option<Dim>) -> Option<Vec<Dim>> {
    let len = if a.len() == 1 { b.len() } else { a.len() };
    let pairs = a.iter().cycle().zip(b.iter().cycle()).take(len);
    let fits = [a.len(), b.len()].iter().all(|&n| n == 1 || n == len);
    if fits { pairs.map(|(a, b)| rule(a.clone(), b.clone())).collect() } else { None }
}

fn apply(function: Function, a: Dim, b: Dim) -> Option<Dim> {
    use Function as F;
    Some(match function {
        F::Add => a + b,
        F::Sub => a - b,
        F::Mul => a * b,
        F::Square => a.clone() * a,
        F::Neg => Dim::Fixed(0) - a,
        F::Max | F::Maximum => a.max(b),
        F::Min | F::Minimum => a.min(b),
        F::FloorDivide if b != 0i64 => a.floor_div(b),
        F::Remainder if b != 0i64 => a.clone() - a.floor_div(b.clone()) * b,
        // Of natural numbers, both remainders are the same.
        F::Fmod if b != 0i64 && a.is_natural() && b.is_natural() => a.clone() - a.floor_div(b.clone()) * b,
        F::Abs if a.is_natural() => a,
        // These return integers unchanged.
        F::Int | F::Ceil | F::Floor | F::Round | F::Trunc | F::Cast(DType::I64 | DType::F64) => a,
        _ => return None,
    })
}

/// `div(a,b)`, rounded by a function. `None` if the divisor may be 0, which would make the quotient infinite.
fn rounded_quotient(function: Function, a: Dim, b: Dim) -> Option<Dim> {
    match function {
        _ if b.fixed().is_none_or(|b| b == 0) => None,
        Function::Floor => Some(a.floor_div(b)),
        Function::Ceil => Some(a.ceil_div(b)),
        Function::Int | Function::Trunc if a.is_natural() && b.is_natural() => Some(a.floor_div(b)),
        _ => None,
    }
}
