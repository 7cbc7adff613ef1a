//! Folding per-channel factors and summands into the weights of the operator that computes the channels.

use super::folding::{folded_bias, scaled, scaled_transposed};
use super::weights;
use crate::op::{Product, Properties};
use crate::passes::Replacement;
use crate::pnnx::{Attribute, Graph, GraphError, Operator, OperatorId};

/// A convolution or linear layer, seen as output channels that are each a weighted sum of inputs plus a bias.
#[derive(Debug)]
pub(super) struct Channels<'g> {
    operator: &'g Operator,
    weight: &'g Attribute,
    groups: usize,
    product: Product,
    /// The number of output channels.
    pub(super) count: usize,
}

/// The weights of an operator after folding.
#[derive(Debug)]
pub(super) struct Folded {
    pub(super) weight: Attribute,
    pub(super) bias: Option<Attribute>,
}

impl<'g> Channels<'g> {
    /// The channels of an operator, if it is a convolution or linear layer whose weights are its own attributes and present.
    pub(super) fn of(operator: &'g Operator) -> Option<Self> {
        let product = Properties::of(operator.op_type()).product?;
        let weight = operator.attr("weight")?;
        let groups = usize::try_from(operator.get_or::<i64>("groups", 1).ok()?).ok().filter(|&n| n > 0)?;
        let is_plain = operator.inputs().len() == 1 && !operator.has_param("epilogue");
        let count = match (product, weight.shape()) {
            (Product::Transposed, [inputs, share, _, ..]) if inputs % groups == 0 => {
                share.checked_mul(groups)?
            }
            (Product::Convolution, [count, _, _, ..]) | (Product::Dense, [count, _]) => *count,
            _ => return None,
        };
        let bias = operator.attr("bias").is_none_or(|bias| bias.is_present() && bias.shape() == [count]);
        // The scales of quantised weights are an attribute of their own.
        let has_numbers = weight.dtype().is_float() && weight.is_present() && weight.elem_count() > 0;
        (is_plain && bias && has_numbers).then_some(Self { operator, weight, groups, product, count })
    }

    /// The output's channel axis, counted from the end; 1 is the last axis.
    pub(super) fn axis_from_end(&self) -> usize {
        match self.product {
            Product::Dense => 1,
            _ => self.weight.shape().len() - 1,
        }
    }

    /// The rank of a batched output. The output of a linear layer may have any rank.
    pub(super) fn batched_rank(&self) -> usize {
        self.weight.shape().len()
    }

    /// Returns true for a linear layer, whose output may have axes between batch and channels.
    pub(super) fn is_linear(&self) -> bool {
        self.product == Product::Dense
    }

    /// The weights that compute channel · factor + summand for each output channel. `None` if the weights cannot be read,
    /// or if the element type cannot represent the result.
    pub(super) fn folded(&self, factors: &[f64], summands: Option<&[f64]>) -> Option<Folded> {
        if factors.len() != self.count || summands.is_some_and(|summands| summands.len() != self.count) {
            return None;
        }
        let (dtype, shape) = (self.weight.dtype(), self.weight.shape());
        let numbers = weights::numbers(self.weight)?;
        let scaled = match self.product {
            Product::Transposed => scaled_transposed(&numbers, shape, self.groups, factors),
            _ => scaled(&numbers, shape, 0, factors),
        };
        let bias = match self.operator.attr("bias") {
            Some(bias) => Some(weights::numbers(bias)?),
            None => None,
        };
        let bias = match (bias.as_deref(), summands) {
            (None, None) => None,
            (bias, Some(summands)) => Some(folded_bias(bias, factors, summands)),
            (bias, None) => Some(folded_bias(bias, factors, &vec![0.0; self.count])),
        };
        let bias = bias.map(|bias| weights::attribute(dtype, &[self.count], &bias));
        Some(Folded {
            weight: weights::attribute(dtype, shape, &scaled)?,
            bias: bias.map_or(Some(None), |bias| bias.map(Some))?,
        })
    }

    /// The weights for which the operator computes from x what it computed from x · factor + summand, given for each input
    /// channel. `None` for transposed convolutions.
    pub(super) fn folded_from_input(&self, factors: &[f64], summands: &[f64]) -> Option<Folded> {
        let shape = self.weight.shape();
        let (share, inner) = (*shape.get(1)?, shape.iter().skip(2).product::<usize>());
        let inputs = share.checked_mul(self.groups)?;
        let rows = self.count.checked_div(self.groups)?;
        if self.product == Product::Transposed
            || [factors.len(), summands.len()] != [inputs; 2]
            || share * inner == 0
        {
            return None;
        }
        let numbers = weights::numbers(self.weight)?;
        let mut bias = match self.operator.attr("bias") {
            Some(bias) => weights::numbers(bias)?,
            None => vec![0.0; self.count],
        };
        let mut scaled = Vec::with_capacity(numbers.len());
        for (channel, (row, bias)) in numbers.chunks(share * inner).zip(&mut bias).enumerate() {
            let first = channel.checked_div(rows)? * share;
            let (factors, summands) =
                (factors.get(first..first + share)?, summands.get(first..first + share)?);
            for (window, (factor, summand)) in row.chunks(inner).zip(factors.iter().zip(summands)) {
                *bias += window.iter().sum::<f64>() * summand;
                scaled.extend(window.iter().map(|number| number * factor));
            }
        }
        let dtype = self.weight.dtype();
        Some(Folded {
            weight: weights::attribute(dtype, shape, &scaled)?,
            bias: Some(weights::attribute(dtype, &[self.count], &bias)?),
        })
    }
}

impl Folded {
    /// Sets these weights on an operator of a replacement.
    pub(super) fn write(self, new: &mut Replacement, operator: &str) -> Result<(), String> {
        new.set_attribute(operator, "weight", self.weight)?;
        if let Some(bias) = self.bias {
            new.set_attribute(operator, "bias", bias)?;
            new.set_param(operator, "bias", true)?;
        }
        Ok(())
    }

    /// Sets these weights on an operator of the graph.
    pub(super) fn store(self, graph: &mut Graph, id: OperatorId) -> Result<(), GraphError> {
        graph.set_attribute(id, "weight", self.weight)?;
        if let Some(bias) = self.bias {
            graph.set_attribute(id, "bias", bias)?;
            graph.set_param(id, "bias", true)?;
        }
        Ok(())
    }
}
