//! Small tensors whose elements are numbers, or follow from lengths of axes.

use crate::OnnxError;
use crate::lower::{Constant, Lowering};
use half::{bf16, f16};
use ixion_pnnx::{Attribute, OperandId, Parameter, WeightError};
use ixion_tensor::DType;
use std::cell::Cell;
use std::rc::Rc;

/// The most elements of a tensor that is computed.
pub(super) const MOST_ELEMENTS: usize = 1 << 12;

/// The most axes of a tensor that is computed.
pub(super) const MOST_AXES: usize = 16;

/// The most lengths and operations in the term of an element. Terms are walked recursively.
const MOST_TERMS: usize = 64;

/// A tensor whose elements are known. Elements of integers and truth values are integers, others are floats.
#[derive(Debug, Clone)]
pub(in crate::lower) struct Known {
    pub(super) dtype: DType,
    pub(super) shape: Vec<usize>,
    pub(super) elements: Vec<Element>,
}

/// An element of a tensor.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Element {
    Int(i64),
    Float(f64),
    /// An integer that follows from lengths of axes.
    Term(Rc<Term>),
}

/// An integer that follows from lengths of axes.
#[derive(Debug, PartialEq)]
pub(super) enum Term {
    /// A number.
    Number(i64),
    /// The length of an axis of a tensor; a negative one counts from the end.
    Length(OperandId, i64),
    /// A function of an expression, the number of terms in it, and whether it is known not to be negative.
    Call { function: &'static str, operands: [Rc<Term>; 2], terms: usize, is_natural: bool },
}

impl Term {
    fn terms(&self) -> usize {
        match self {
            Self::Number(_) | Self::Length(..) => 1,
            Self::Call { terms, .. } => *terms,
        }
    }

    /// Returns true if it is known not to be negative.
    fn is_natural(&self) -> bool {
        match self {
            Self::Number(number) => *number >= 0,
            Self::Length(..) => true,
            Self::Call { is_natural, .. } => *is_natural,
        }
    }

    /// The text of an expression, whose inputs are collected.
    fn write(&self, text: &mut String, inputs: &mut Vec<OperandId>) {
        match self {
            Self::Number(number) => text.push_str(&number.to_string()),
            Self::Length(operand, axis) => {
                let position = inputs.iter().position(|input| input == operand).unwrap_or_else(|| {
                    inputs.push(*operand);
                    inputs.len() - 1
                });
                text.push_str(&format!("size(@{position},{axis})"));
            }
            Self::Call { function, operands: [a, b], .. } => {
                text.push_str(function);
                text.push('(');
                a.write(text, inputs);
                text.push(',');
                b.write(text, inputs);
                text.push(')');
            }
        }
    }
}

impl Element {
    /// The length of an axis.
    pub(super) fn length(operand: OperandId, axis: i64) -> Self {
        Self::Term(Rc::new(Term::Length(operand, axis)))
    }

    /// The number, as an integer.
    pub(super) fn int(&self) -> Option<i64> {
        if let Self::Int(number) = self { Some(*number) } else { None }
    }

    /// The number, as a float.
    pub(super) fn float(&self) -> Option<f64> {
        match self {
            Self::Int(number) => Some(*number as f64),
            Self::Float(number) => Some(*number),
            Self::Term(_) => None,
        }
    }

    /// Returns true if it is an integer that is known not to be negative.
    pub(super) fn is_natural(&self) -> bool {
        match self {
            Self::Int(number) => *number >= 0,
            Self::Float(_) => false,
            Self::Term(term) => term.is_natural(),
        }
    }

    fn term(&self) -> Option<Rc<Term>> {
        match self {
            Self::Int(number) => Some(Rc::new(Term::Number(*number))),
            Self::Float(_) => None,
            Self::Term(term) => Some(Rc::clone(term)),
        }
    }

    /// The function of two integers as a term, unless it would become too large.
    pub(super) fn call(function: &'static str, a: &Self, b: &Self, is_natural: bool) -> Option<Self> {
        let operands = [a.term()?, b.term()?];
        let terms = operands[0].terms() + operands[1].terms() + 1;
        let term = Term::Call { function, operands, terms, is_natural };
        (terms <= MOST_TERMS).then(|| Self::Term(Rc::new(term)))
    }
}

/// The number of elements of a shape, if it is small.
pub(super) fn count(shape: &[usize]) -> Option<usize> {
    let count = shape.iter().try_fold(1usize, |count, len| count.checked_mul(*len))?;
    (count <= MOST_ELEMENTS && shape.len() <= MOST_AXES).then_some(count)
}

impl Known {
    /// A vector of 64-bit integers.
    pub(super) fn vector(elements: Vec<Element>) -> Self {
        Self { dtype: DType::I64, shape: vec![elements.len()], elements }
    }

    /// The elements of a constant, if it is small and not complex.
    ///
    /// # Errors
    /// [`WeightError`] if the bytes cannot be read.
    pub(super) fn of(constant: &Constant) -> Result<Option<Self>, WeightError> {
        let (dtype, shape) = (constant.dtype(), constant.shape().to_vec());
        if count(&shape).is_none() || dtype.is_complex() {
            return Ok(None);
        }
        let elements = match constant.i64s()? {
            Some(numbers) => Some(numbers.into_iter().map(Element::Int).collect()),
            None => constant.f64s()?.map(|numbers| numbers.into_iter().map(Element::Float).collect()),
        };
        Ok(elements.map(|elements| Self { dtype, shape, elements }))
    }

    /// The elements as integers; `None` if one is not a known integer.
    pub(super) fn ints(&self) -> Option<Vec<i64>> {
        self.elements.iter().map(Element::int).collect()
    }

    /// The tensor as a constant; `None` if an element is not a number.
    ///
    /// # Errors
    /// [`WeightError::Length`] if there are not as many elements as the shape says.
    pub(super) fn constant(&self, name: &str) -> Result<Option<Constant>, WeightError> {
        let mut bytes = Vec::new();
        for element in &self.elements {
            match (element, self.dtype) {
                (Element::Int(number), DType::I64) => bytes.extend(number.to_le_bytes()),
                (Element::Int(number), DType::I32) => bytes.extend((*number as i32).to_le_bytes()),
                (Element::Int(number), DType::I16) => bytes.extend((*number as i16).to_le_bytes()),
                (Element::Int(number), DType::I8 | DType::U8) => bytes.push(*number as u8),
                (Element::Int(number), DType::Bool) => bytes.push(u8::from(*number != 0)),
                (Element::Float(number), DType::F64) => bytes.extend(number.to_le_bytes()),
                (Element::Float(number), DType::F32) => bytes.extend((*number as f32).to_le_bytes()),
                (Element::Float(number), DType::F16) => bytes.extend(f16::from_f64(*number).to_le_bytes()),
                (Element::Float(number), DType::Bf16) => bytes.extend(bf16::from_f64(*number).to_le_bytes()),
                _ => return Ok(None),
            }
        }
        Ok(Some(Constant::new(name, Attribute::new(self.dtype, self.shape.clone(), bytes)?)))
    }

    /// The text of an expression that gives the number or the vector, and its inputs.
    fn expression(&self) -> (String, Vec<OperandId>) {
        let (mut texts, mut inputs) = (Vec::new(), Vec::new());
        for term in self.elements.iter().filter_map(Element::term) {
            let mut text = String::new();
            term.write(&mut text, &mut inputs);
            texts.push(text);
        }
        let text = texts.join(",");
        (if self.shape.is_empty() { text } else { format!("[{text}]") }, inputs)
    }
}

/// Integers that follow from lengths of axes. They become an operator if they are needed as a tensor; clones share its operand.
#[derive(Debug, Clone)]
pub(crate) struct Lengths {
    inner: Rc<Inner>,
}

#[derive(Debug)]
struct Inner {
    name: String,
    content: Content,
    operand: Cell<Option<OperandId>>,
}

#[derive(Debug)]
enum Content {
    /// Each element.
    Known(Known),
    /// The lengths of all axes of a tensor whose rank is not known.
    ShapeOf(OperandId),
}

impl Lengths {
    /// A tensor of integers, if an expression can give its elements.
    pub(super) fn new(name: &str, known: Known) -> Option<Self> {
        let is_expression = known.dtype == DType::I64 && (1..=MOST_TERMS).contains(&known.elements.len());
        is_expression.then(|| Self::of(name, Content::Known(known)))
    }

    /// The lengths of all axes of a tensor.
    pub(super) fn shape_of(name: &str, operand: OperandId) -> Self {
        Self::of(name, Content::ShapeOf(operand))
    }

    fn of(name: &str, content: Content) -> Self {
        Self { inner: Rc::new(Inner { name: name.to_owned(), content, operand: Cell::new(None) }) }
    }

    /// The elements, unless their number is not known.
    pub(super) fn known(&self) -> Option<&Known> {
        if let Content::Known(known) = &self.inner.content { Some(known) } else { None }
    }

    /// The tensor whose lengths these are, if its rank is not known.
    pub(super) fn tensor(&self) -> Option<OperandId> {
        if let Content::ShapeOf(operand) = self.inner.content { Some(operand) } else { None }
    }

    /// A shape, with the lengths of a tensor in the place of zeros.
    pub(in crate::lower) fn of_shape(name: &str, shape: &[i64], tensor: OperandId) -> Self {
        let shape = Known::vector(shape.iter().copied().map(Element::Int).collect());
        Self::of(name, Content::Known(shape)).with_copied(tensor)
    }

    /// The same, with the lengths of a tensor in the place of zeros.
    pub(in crate::lower) fn with_copied(&self, tensor: OperandId) -> Self {
        let Some(known) = self.known().filter(|known| known.elements.contains(&Element::Int(0))) else {
            return self.clone();
        };
        let copied = |(axis, element): (usize, &Element)| match element {
            Element::Int(0) => Element::length(tensor, i64::try_from(axis).unwrap_or(i64::MAX)),
            element => element.clone(),
        };
        let elements = known.elements.iter().enumerate().map(copied).collect();
        Self::of(&self.inner.name, Content::Known(Known { elements, ..known.clone() }))
    }

    /// The elements of a vector behind the first ones, and their number, if the first ones are the lengths of a tensor's first axes.
    pub(in crate::lower) fn behind_kept(&self, tensor: OperandId, first: usize) -> Option<(usize, Self)> {
        let known = self.known().filter(|known| known.shape.len() == 1)?;
        let (kept, rest) = known.elements.split_at_checked(first)?;
        let is_kept = |(axis, element): (usize, &Element)| {
            i64::try_from(axis).is_ok_and(|axis| *element == Element::length(tensor, axis))
        };
        let is_kept = kept.iter().enumerate().all(is_kept) && !rest.is_empty();
        is_kept
            .then(|| (rest.len(), Self::of(&self.inner.name, Content::Known(Known::vector(rest.to_vec())))))
    }

    /// The operand of the values, whose operator is added if it does not exist yet.
    ///
    /// # Errors
    /// [`OnnxError::Graph`] if the operator cannot be added.
    pub(in crate::lower) fn operand(&self, lowering: &mut Lowering) -> Result<OperandId, OnnxError> {
        if let Some(operand) = self.inner.operand.get() {
            return Ok(operand);
        }
        let operand = match &self.inner.content {
            Content::ShapeOf(tensor) => self.operator(lowering, "Tensor.size", None, &[*tensor])?,
            Content::Known(known) => {
                let (text, inputs) = known.expression();
                let list =
                    self.operator(lowering, "pnnx.Expression", Some(("expr", text.into())), &inputs)?;
                if known.shape.len() < 2 {
                    list
                } else {
                    let shape: Vec<i64> =
                        known.shape.iter().filter_map(|len| i64::try_from(*len).ok()).collect();
                    self.operator(lowering, "Tensor.reshape", Some(("shape", shape.into())), &[list])?
                }
            }
        };
        self.inner.operand.set(Some(operand));
        Ok(operand)
    }

    /// Adds an operator with one output.
    fn operator(
        &self,
        lowering: &mut Lowering,
        op_type: &str,
        param: Option<(&str, Parameter)>,
        inputs: &[OperandId],
    ) -> Result<OperandId, OnnxError> {
        let name = lowering.names.free(&self.inner.name);
        let operator = lowering.graph.new_operator(op_type, &name)?;
        if let Some((key, value)) = param {
            lowering.graph.set_param(operator, key, value)?;
        }
        for input in inputs {
            lowering.graph.connect_input(operator, *input, None)?;
        }
        let operand = lowering.graph.new_operand(&name)?;
        lowering.graph.connect_output(operator, operand)?;
        Ok(operand)
    }
}
