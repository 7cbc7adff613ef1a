//! Einstein summation by matrix products.

mod factor;
mod labels;
mod product;

use crate::op::{
    Cost, CpuLayer, FromParameter, Io, Layer, LayerError, Result, RuntimeParameter, TensorMeta, View, exactly,
};
use crate::support::broadcast::join;
use crate::support::number;
use crate::support::number::{Computation, Number};
use factor::Factor;
use ixion_tensor::{DType, Dim, Format, Layout, Limits, Shape, TensorView, TensorViewMut};
pub use labels::{Label, strides_of};
use std::collections::BTreeMap;
use std::ops::RangeInclusive;

crate::operator! {
    /// `torch.einsum`: sums of products in Einstein notation. Each axis of the inputs has a letter: axes of the same letter
    /// share their index, and letters missing in the output are summed over. Inputs are multiplied from left to right.
    pub struct Einsum for "torch.einsum" {
        /// Letters of the inputs and, after `->`, of the output, such as `ij,jk->ik`; `...` stands for any further axes, which
        /// are broadcast. Without `->`, the output has all letters that appear once, in alphabetical order.
        equation: Equation,
    }
}

/// A term of an equation: the letters before `...` and, if there is one, after it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Term {
    before: Vec<char>,
    after: Option<Vec<char>>,
}

impl Term {
    fn parse(text: &str) -> Option<Self> {
        let letters = |text: &str| -> Option<Vec<char>> {
            text.chars().all(|letter| letter.is_ascii_alphabetic()).then(|| text.chars().collect())
        };
        Some(match text.split_once("...") {
            Some((before, after)) => Self { before: letters(before)?, after: Some(letters(after)?) },
            None => Self { before: letters(text)?, after: None },
        })
    }

    fn letters(&self) -> impl Iterator<Item = char> + '_ {
        self.before.iter().chain(self.after.iter().flatten()).copied()
    }

    /// The labels of all axes, of which `further` belong to `...`.
    fn labels(&self, further: usize) -> Vec<Label> {
        let further = if self.after.is_some() { further } else { 0 };
        let letters =
            |letters: &[char]| letters.iter().map(|&letter| Label::Letter(letter)).collect::<Vec<_>>();
        let middle: Vec<Label> = (0..further).rev().map(Label::Further).collect();
        [letters(&self.before), middle, letters(self.after.as_deref().unwrap_or_default())].concat()
    }
}

/// A parsed equation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Equation {
    inputs: Vec<Term>,
    output: Term,
}

impl FromParameter for Equation {
    const KIND: &'static str = "an equation such as ij,jk->ik";

    fn from_parameter(parameter: &RuntimeParameter) -> Option<Self> {
        let text: String = parameter.raw().chars().filter(|letter| !letter.is_whitespace()).collect();
        let (left, right) = match text.split_once("->") {
            Some((left, right)) => (left, Some(right)),
            None => (text.as_str(), None),
        };
        let inputs: Vec<Term> = left.split(',').map(Term::parse).collect::<Option<_>>()?;
        let output = match right {
            Some(right) => Term::parse(right)?,
            None => implied(&inputs),
        };
        let known = |letter: char| inputs.iter().any(|term| term.letters().any(|other| other == letter));
        let letters: Vec<char> = output.letters().collect();
        let once = letters.iter().enumerate().all(|(i, letter)| !letters[..i].contains(letter));
        (once && letters.iter().all(|&letter| known(letter))).then_some(Self { inputs, output })
    }
}

/// The output of an equation without `->`.
fn implied(inputs: &[Term]) -> Term {
    let mut counts: BTreeMap<char, usize> = BTreeMap::new();
    inputs.iter().flat_map(Term::letters).for_each(|letter| *counts.entry(letter).or_default() += 1);
    let once: Vec<char> =
        counts.into_iter().filter(|&(_, count)| count == 1).map(|(letter, _)| letter).collect();
    match inputs.iter().any(|term| term.after.is_some()) {
        true => Term { before: Vec::new(), after: Some(once) },
        false => Term { before: once, after: None },
    }
}

/// The labels of each input and of the output, and the length of each label.
pub struct Contraction {
    /// The labels of the axes of each input. A label that an input repeats stands for its diagonal.
    pub inputs: Vec<Vec<Label>>,
    /// The labels of the output's axes, all different; labels that are missing here are summed over.
    pub output: Vec<Label>,
    /// The length of each label after broadcasting, where a length of 1 fits any other.
    pub lengths: BTreeMap<Label, Dim>,
}

impl Equation {
    /// The labels of the equation for inputs of these shapes, with `...` expanded to as many axes as each input has left.
    ///
    /// # Errors
    /// Returns an error if an input has the wrong number of axes, if its axes of one letter differ in length, or if the lengths
    /// of a label cannot be broadcast.
    pub fn plan(&self, inputs: &[TensorMeta]) -> Result<Contraction> {
        let mut plan = Contraction { inputs: Vec::new(), output: Vec::new(), lengths: BTreeMap::new() };
        let mut most = 0;
        for (position, (term, input)) in self.inputs.iter().zip(inputs).enumerate() {
            let letters = term.letters().count();
            let further =
                input.rank().checked_sub(letters).filter(|&further| term.after.is_some() || further == 0);
            let Some(further) = further else {
                return Err(LayerError::shape(format!("input {position}"), format!("{letters} axes"), input));
            };
            most = most.max(further);
            let labels = term.labels(further);
            for (axis, (label, dim)) in labels.iter().zip(input.dims()).enumerate() {
                let own = labels[..axis].iter().position(|other| other == label);
                let twin = own.and_then(|own| input.dims()[own].fixed());
                if twin.zip(dim.fixed()).is_some_and(|(twin, len)| twin != len) {
                    let wanted = format!("the same length along axes of one letter ({label})");
                    return Err(LayerError::shape(format!("input {position}"), wanted, input));
                }
                let known = plan.lengths.entry(*label).or_insert(Dim::Fixed(1));
                *known = join(known, dim).ok_or_else(|| {
                    let what = format!("an axis of input {position}");
                    LayerError::shape(what, format!("length {known} or 1"), dim)
                })?;
            }
            plan.inputs.push(labels);
        }
        plan.output = self.output.labels(most);
        Ok(plan)
    }
}

/// The labels of the axes whose length is not 1.
fn long_labels<'a>(labels: &'a [Label], meta: &'a TensorMeta) -> impl Iterator<Item = Label> + 'a {
    labels.iter().zip(meta.dims()).filter(|(_, dim)| **dim != 1usize).map(|(label, _)| *label)
}

impl Computation for Einsum {
    fn run_in<T: Number>(
        &self,
        inputs: &[TensorView<'_>],
        output: &mut TensorViewMut<'_>,
        limits: &Limits,
    ) -> Result<()> {
        let metas: Vec<TensorMeta> = inputs.iter().map(TensorMeta::of).collect();
        let plan = self.equation.plan(&metas)?;
        let mut product: Option<Factor<'_, T>> = None;
        let Some((last, others)) = inputs.split_last() else { return Ok(()) };
        for (position, input) in others.iter().enumerate() {
            let later = plan.inputs.get(position + 1..).unwrap_or_default();
            let later = later.iter().zip(metas.iter().skip(position + 1));
            let later: Vec<Label> = later.flat_map(|(labels, meta)| long_labels(labels, meta)).collect();
            let needed = |label: &Label| plan.output.contains(label) || later.contains(label);
            let factor = Factor::new(input, &plan.inputs[position], limits)?;
            product = Some(match product {
                None => factor.summed(&needed, limits)?,
                Some(product) => product.times(factor, &needed, limits)?,
            });
        }
        let factor = Factor::new(last, &plan.inputs[others.len()], limits)?;
        number::write::<T>(output, |output| match product {
            None => {
                factor.summed(&|label| plan.output.contains(label), limits)?.copy_to(&plan.output, output)
            }
            Some(product) => product.multiply(factor, &plan.output, output, limits),
        })
    }
}

impl Layer for Einsum {
    fn num_inputs(&self) -> RangeInclusive<usize> {
        exactly(self.equation.inputs.len())
    }

    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
        for input in inputs {
            number::check("an input", input.dtype())?;
            if input.dtype() != inputs[0].dtype() {
                return Err(LayerError::dtype("an input", inputs[0].dtype(), input.dtype()));
            }
        }
        let plan = self.equation.plan(inputs)?;
        let dims = plan.output.iter().map(|label| plan.lengths.get(label).cloned().unwrap_or(Dim::Fixed(1)));
        // PyTorch sums a single input as `torch.sum` does, which widens integers.
        let sums = inputs.len() == 1 && plan.lengths.keys().any(|label| !plan.output.contains(label));
        let dtype = if sums && inputs[0].dtype().is_integer() { DType::I64 } else { inputs[0].dtype() };
        Ok(vec![TensorMeta::new(dtype, dims)])
    }

    fn view(&self, _: usize, inputs: &[Layout], _: &Shape) -> Result<Option<View>> {
        // A single input without sums is a permutation of its axes, or its diagonal.
        let [layout] = inputs else { return Ok(None) };
        if layout.format() != Format::Plain {
            return Ok(None);
        }
        let plan = self.equation.plan(&[TensorMeta::new(DType::F32, layout.shape().iter().copied())])?;
        let Some(labels) = plan.inputs.first() else { return Ok(None) };
        if labels.iter().any(|label| !plan.output.contains(label)) {
            return Ok(None);
        }
        let (mut dims, mut strides) = (Vec::new(), Vec::new());
        for label in &plan.output {
            let axes = || labels.iter().enumerate().filter(|(_, other)| *other == label);
            let Some((first, _)) = axes().next() else { return Ok(None) };
            dims.push(layout.shape()[first]);
            strides.push(axes().fold(0usize, |sum, (axis, _)| sum.saturating_add(layout.strides()[axis])));
        }
        let layout = Layout::strided(Shape::new(&dims)?, &strides, layout.offset())?;
        Ok(Some(View { input: 0, layout }))
    }

    fn cost(&self, inputs: &[TensorMeta], outputs: &[TensorMeta]) -> Cost {
        let macs = self.equation.plan(inputs).ok().filter(|_| inputs.len() > 1).and_then(|plan| {
            let all = plan.lengths.values().fold(Dim::Fixed(1), |product, len| product * len.clone());
            u64::try_from(all.fixed()?).ok()
        });
        Cost::of_moving(inputs, outputs).with_macs(macs.unwrap_or(0))
    }
}

impl CpuLayer for Einsum {
    fn forward(&mut self, io: &mut Io<'_, '_>) -> Result<()> {
        self.run(io.inputs, &mut io.outputs[0], io.context.limits())
    }
}

operators! { Einsum }

#[cfg(test)]
mod tests {
    use super::*;
    use crate::op::ForwardContext;
    use crate::support::testing::{assert_close, operator, waves};
    use ixion_tensor::Tensor;

    fn einsum(equation: &str, inputs: &[&Tensor]) -> Result<Tensor> {
        operator("torch.einsum", &[("equation", equation)]).run_one(inputs)
    }

    #[test]
    fn results_are_those_of_pytorch() {
        for (equation, shapes, shape, want) in CASES {
            let inputs: Vec<Tensor> = shapes.iter().map(|shape| waves(shape)).collect();
            let got = einsum(equation, &inputs.iter().collect::<Vec<_>>()).unwrap();
            assert_close(&got, shape, want);
        }
    }

    #[test]
    fn mismatches_are_errors() {
        let x = waves(&[2, 3]);
        assert!(einsum("ijk->i", &[&x]).is_err() && einsum("ij,ij->i", &[&x]).is_err());
        assert!(
            einsum("ij->ii", &[&x]).is_err()
                && einsum("ij->k", &[&x]).is_err()
                && einsum("i1", &[&x]).is_err()
        );
        assert!(einsum("ij,jk->ik", &[&x, &x]).is_err());
        let n = TensorMeta::new(ixion_tensor::DType::F32, [Dim::symbol("n"), Dim::Fixed(3)]);
        let output = operator("torch.einsum", &[("equation", "ij,ij->i")]).infer(&[n.clone(), n]).unwrap();
        assert_eq!(output[0].to_string(), "n f32");
        for (equation, count) in
            [("ij->ji", 1), ("ii->i", 1), ("ij,jk->ik", 2), ("...i,...i->...", 2), (",->", 2)]
        {
            operator("torch.einsum", &[("equation", equation)]).survives(count);
        }
    }

    /// Results of `torch.einsum`.
    #[test]
    fn axes_of_length_1_are_not_repeated() {
        let (x, y) = (Tensor::ones(DType::F32, &[1, 200_000]).unwrap(), waves(&[200_000]));
        let y = y.cast(DType::F32).unwrap();
        let limits = Limits { max_tensor_bytes: 1 << 20, ..Limits::default() };
        let mut layer = operator("torch.einsum", &[("equation", "ab,a->b")]).create(2).unwrap();
        let mut run = |limits: &Limits| {
            let mut workspace = ixion_tensor::Workspace::new()?;
            let mut output = Tensor::zeros(DType::F32, &[200_000])?;
            let mut context = ForwardContext::new(&mut workspace, limits);
            layer.forward(&mut Io::new(&[x.view(), y.view()], &mut [output.view_mut()?], &mut context))?;
            output.to_vec::<f32>().map_err(LayerError::from)
        };
        let total: f64 = y.to_vec::<f32>().unwrap().into_iter().map(f64::from).sum();
        assert!(run(&limits).unwrap().iter().all(|&sum| (f64::from(sum) - total).abs() < 1e-3 * total.abs()));
        let small = Limits { max_tensor_bytes: 1000, ..Limits::default() };
        assert!(run(&small).is_ok(), "no factor is copied");
        let row = |values: &[f64]| Tensor::from_vec(values.to_vec(), &[values.len()]).unwrap();
        let three = einsum("a,b,a->b", &[&row(&[1.0, 2.0]), &row(&[3.0, 4.0, 5.0]), &row(&[2.0])]).unwrap();
        assert_close(&three, &[3], &[18.0, 24.0, 30.0]);
        let none = einsum("ab,ab->a", &[&Tensor::zeros(DType::F64, &[2, 0]).unwrap(), &waves(&[1, 1])]);
        assert_close(&none.unwrap(), &[2], &[0.0, 0.0]);
        assert_close(&einsum("aab->ba", &[&waves(&[1, 1, 2])]).unwrap(), &[2, 1], &[-2.75, -0.25]);
    }

    #[test]
    fn copies_are_within_the_limits() {
        let (x, y) = (waves(&[20, 20, 20]), waves(&[20, 20, 20]));
        let mut layer = operator("torch.einsum", &[("equation", "abc,cab->")]).create(2).unwrap();
        let mut run = |limits: &Limits| {
            let mut workspace = ixion_tensor::Workspace::new()?;
            let mut output = Tensor::zeros(DType::F64, &[])?;
            let mut context = ForwardContext::new(&mut workspace, limits);
            layer.forward(&mut Io::new(&[x.view(), y.view()], &mut [output.view_mut()?], &mut context))
        };
        assert!(run(&Limits::default()).is_ok());
        let small = Limits { max_tensor_bytes: 1000, ..Limits::default() };
        assert!(matches!(run(&small), Err(LayerError::Limit(_))));
    }

    #[test]
    fn a_diagonal_needs_equal_lengths() {
        assert!(einsum("ii", &[&waves(&[1, 3])]).is_err() && einsum("ii", &[&waves(&[3, 1])]).is_err());
    }

    type Case = (&'static str, &'static [&'static [usize]], &'static [usize], &'static [f64]);

    const CASES: [Case; 14] = [
        (
            "ijk",
            &[&[2, 3, 2]],
            &[2, 3, 2],
            &[-2.75, -0.25, 0.0, -2.0, -0.5, -1.25, 1.5, 2.0, 0.25, 2.0, 1.5, -1.25],
        ),
        (
            "kji",
            &[&[2, 3, 2]],
            &[2, 3, 2],
            &[-2.75, 1.5, 0.0, 0.25, -0.5, 1.5, -0.25, 2.0, -2.0, 2.0, -1.25, -1.25],
        ),
        ("ii", &[&[3, 3]], &[], &[-3.0]),
        ("ii->i", &[&[3, 3]], &[3], &[-2.75, -0.5, 0.25]),
        ("ij->", &[&[2, 3]], &[], &[-6.75]),
        ("i,j->ij", &[&[2], &[3]], &[2, 3], &[7.5625, 0.6875, -0.0, 0.6875, 0.0625, -0.0]),
        ("ij,jk->ik", &[&[2, 3], &[3, 2]], &[2, 2], &[7.5625, 1.1875, 6.125, 3.0625]),
        ("bij,bjk", &[&[2, 1, 3], &[2, 3, 2]], &[1, 2], &[2.5625, -2.25]),
        (
            "...ij,...kj->...ik",
            &[&[2, 1, 2, 3], &[2, 2, 3]],
            &[2, 2, 2, 2],
            &[
                7.625, 5.625, 5.625, 5.8125, -4.625, -5.875, -4.3125, -3.1875, -4.625, -4.3125, -5.875,
                -3.1875, 6.3125, 5.6875, 5.6875, 7.8125,
            ],
        ),
        (
            "b h i d , b h j d -> b h i j",
            &[&[1, 2, 2, 2], &[1, 2, 3, 2]],
            &[1, 2, 2, 3],
            &[7.625, 0.5, 1.6875, 0.5, 4.0, 2.5, -3.25, -2.625, 0.8125, 6.25, 4.375, -0.25],
        ),
        ("i,ij,jk->k", &[&[2], &[2, 3], &[3, 2]], &[2], &[-22.328125, -4.03125]),
        ("ij,ik->j", &[&[2, 3], &[2, 2]], &[3], &[12.25, 1.75, 2.5]),
        ("iij,j->ij", &[&[2, 2, 3], &[3]], &[2, 3], &[7.5625, 0.0625, 0.0, -5.5, -0.375, -0.0]),
        ("ab,ab->ba", &[&[2, 3], &[1, 3]], &[3, 2], &[7.5625, 5.5, 0.0625, 0.125, 0.0, -0.0]),
    ];
}
