//! Ellipses that PNNX drops from the equations of einsum.
//!
//! PNNX writes `torch.einsum("...ij,jk->...ik", a, b)` as `ij,jk->ik`, but records the shapes of all tensors. An input with more
//! axes than letters had an ellipsis, and the lengths of the axes tell where it stood.

use super::GraphError;
use crate::pnnx::{Dim, Graph, Operator, PnnxError};
use std::collections::BTreeMap;

/// The key of an equation.
const EQUATION: &str = "equation";

/// The maximum number of ways to place the ellipses of an equation that are tried.
const MAX_READINGS: usize = 1 << 12;

/// Puts the ellipses back into equations, if the recorded shapes allow one reading only. Ellipses come first, as they usually
/// do, if the shapes allow that.
///
/// # Errors
/// Returns an error if the graph cannot be changed; a graph that was read from a file always can.
pub(super) fn restore(file: &mut Graph) -> Result<(), GraphError> {
    for id in file.operator_ids().to_vec() {
        let operator = file.operator(id);
        if let Some(equation) = restored(file, operator) {
            log::debug!("torch.einsum `{}` has more axes than letters, so it is {equation}", operator.name());
            file.set_param(id, EQUATION, equation).map_err(PnnxError::from)?;
        }
    }
    Ok(())
}

/// The index of an axis.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Label {
    Letter(char),
    /// An axis of the ellipsis, counted from the last one.
    Further(usize),
}

/// The letters of a tensor in an equation, and its recorded axes, of which there are at least as many.
struct Term<'a> {
    letters: Vec<char>,
    dims: &'a [Dim],
}

impl<'a> Term<'a> {
    fn new(text: &str, dims: &'a [Dim]) -> Option<Self> {
        let letters: Vec<char> = text.chars().filter(|letter| !letter.is_whitespace()).collect();
        (letters.len() <= dims.len()).then_some(Self { letters, dims })
    }

    /// The number of axes that have no letter.
    fn further(&self) -> usize {
        self.dims.len() - self.letters.len()
    }

    /// The number of places that an ellipsis can have; 1 if there is none.
    fn places(&self) -> usize {
        if self.further() == 0 { 1 } else { self.letters.len() + 1 }
    }

    /// The labels of all axes, with an ellipsis after this many letters.
    fn labels(&self, place: usize) -> Vec<Label> {
        let mut labels: Vec<Label> = self.letters.iter().copied().map(Label::Letter).collect();
        labels.splice(place..place, (0..self.further()).rev().map(Label::Further));
        labels
    }

    /// The letters, with an ellipsis after this many of them.
    fn text(&self, place: usize) -> String {
        let letters = |letters: &[char]| letters.iter().collect::<String>();
        let (before, after) = self.letters.split_at(place);
        let ellipsis = if self.further() == 0 { "" } else { "..." };
        format!("{}{ellipsis}{}", letters(before), letters(after))
    }
}

/// The equation of an operator with its ellipses; `None` if it stays as it is.
fn restored(file: &Graph, operator: &Operator) -> Option<String> {
    let ("torch.einsum", &[output]) = (operator.op_type(), operator.outputs()) else { return None };
    let equation = operator.param(EQUATION)?.raw();
    let (left, right) = equation.split_once("->").filter(|_| !equation.contains('.'))?;
    let texts: Vec<&str> = left.split(',').chain([right]).collect();
    let operands = operator.inputs().iter().copied().chain([output]);
    let shapes: Vec<&[Dim]> = operands.map(|operand| file.operand(operand).shape()).collect::<Option<_>>()?;
    if texts.len() != shapes.len() {
        return None;
    }
    let terms = texts.iter().zip(shapes).map(|(text, dims)| Term::new(text, dims));
    let terms: Vec<Term<'_>> = terms.collect::<Option<_>>()?;
    let (result, inputs) = terms.split_last()?;
    let most = inputs.iter().map(Term::further).max().filter(|&most| most > 0)?;
    if result.further() != most && result.further() != 0 {
        return None;
    }
    let places = places(&terms)?;
    let text = |(term, place): (&Term<'_>, &usize)| term.text(*place);
    let texts: Vec<String> = terms.iter().zip(&places).map(text).collect();
    let (result, inputs) = texts.split_last()?;
    Some(format!("{}->{result}", inputs.join(",")))
}

/// The place of the ellipsis of each term; `None` if the shapes allow several readings or none.
fn places(terms: &[Term<'_>]) -> Option<Vec<usize>> {
    let first = vec![0; terms.len()];
    if reading(terms, &first).is_some() {
        return Some(first);
    }
    let count = terms.iter().try_fold(1usize, |count, term| count.checked_mul(term.places()));
    let count = count.filter(|&count| count <= MAX_READINGS)?;
    let mut readings = BTreeMap::new();
    for number in 0..count {
        let mut rest = number;
        let place = |term: &Term<'_>| {
            let place = rest % term.places();
            rest /= term.places();
            place
        };
        let places: Vec<usize> = terms.iter().map(place).collect();
        if let Some(reading) = reading(terms, &places) {
            readings.entry(reading).or_insert(places);
        }
    }
    let mut found = readings.into_values();
    found.next().filter(|_| found.next().is_none())
}

/// The labels of all axes, numbered in the order of their appearance; `None` if they contradict the lengths of the axes. PNNX
/// writes `?` for the lengths that differ in its samples, so these are equal to each other alone.
fn reading(terms: &[Term<'_>], places: &[usize]) -> Option<Vec<Vec<usize>>> {
    let labels = terms.iter().zip(places).map(|(term, &place)| term.labels(place));
    let labels: Vec<Vec<Label>> = labels.collect();
    let (results, inputs) = labels.split_last()?;
    let (result, terms) = terms.split_last()?;
    let mut lens: BTreeMap<Label, &Dim> = BTreeMap::new();
    for (&label, dim) in inputs.iter().flatten().zip(terms.iter().flat_map(|term| term.dims)) {
        let known = lens.entry(label).or_insert(dim);
        match (label, &**known, dim) {
            (_, known, dim) if known == dim => {}
            (Label::Further(_), Dim::Fixed(1), _) => *known = dim,
            (Label::Further(_), _, Dim::Fixed(1)) => {}
            _ => return None,
        }
    }
    let fits = |(label, dim): (&Label, &Dim)| lens.get(label).is_some_and(|&len| len == dim);
    if !results.iter().zip(result.dims).all(fits) {
        return None;
    }
    let mut numbers: BTreeMap<Label, usize> = BTreeMap::new();
    let mut number = |label: &Label| {
        let next = numbers.len();
        *numbers.entry(*label).or_insert(next)
    };
    Some(labels.iter().map(|labels| labels.iter().map(&mut number).collect()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Limits;

    /// The equation of an einsum whose inputs and output have these recorded shapes.
    fn equation(equation: &str, shapes: &[&str]) -> String {
        let (output, inputs) = shapes.split_last().unwrap();
        let count = inputs.len();
        let (mut text, mut names, mut recorded) = (String::new(), String::new(), String::new());
        for (at, shape) in inputs.iter().enumerate() {
            text += &format!("pnnx.Input in_{at} 0 1 x{at} #x{at}={shape}f32\n");
            names += &format!(" x{at}");
            recorded += &format!(" #x{at}={shape}f32");
        }
        let text = format!(
            "7767517\n{} {}\n{text}torch.einsum e {count} 1{names} y equation={equation}{recorded} #y={output}f32\n\
             pnnx.Output out 1 0 y\n",
            count + 2,
            count + 1
        );
        let mut graph = Graph::parse(&text, &Limits::default()).unwrap();
        restore(&mut graph).unwrap();
        let once = graph.to_param_text();
        restore(&mut graph).unwrap();
        assert_eq!(graph.to_param_text(), once, "a second time changes nothing");
        let operator = graph.operator(graph.operator_named("e").unwrap());
        operator.param(EQUATION).unwrap().raw().to_owned()
    }

    #[test]
    fn further_axes_are_those_of_an_ellipsis() {
        assert_eq!(equation("ik,jk->ij", &["(2,3,4,5)", "(6,5)", "(2,3,4,6)"]), "...ik,jk->...ij");
        assert_eq!(equation("ik,kj->ij", &["(2,3,4,5)", "(1,3,5,4)", "(2,3,4,4)"]), "...ik,...kj->...ij");
        assert_eq!(equation("i,i->", &["(2,3,5)", "(2,3,5)", "(2,3)"]), "...i,...i->...");
        assert_eq!(equation("ij->j", &["(2,3,4)", "(4)"]), "...ij->j", "the ellipsis is summed over");
        assert_eq!(
            equation("ik,kl,jl->ij", &["(4,4)", "(1,2,4,4)", "(4,4)", "(1,2,4,4)"]),
            "ik,...kl,jl->...ij"
        );
        assert_eq!(equation("ik,jk->ij", &["(?,?,?,5)", "(6,5)", "(?,?,?,6)"]), "...ik,jk->...ij");
    }

    #[test]
    fn lengths_tell_where_it_stood() {
        assert_eq!(equation("j,ij->i", &["(?,?,5)", "(6,5)", "(6,?,?)"]), "...j,ij->i...");
        assert_eq!(equation("ij,j->i", &["(7,3,2,5)", "(5)", "(7,3,2)"]), "...ij,j->...i");
        assert_eq!(equation("ij->ji", &["(2,3,4)", "(3,2,4)"]), "ij...->ji...");
        assert_eq!(equation("ij->ij", &["(?,3,?)", "(?,3,?)"]), "...ij->...ij");
    }

    #[test]
    fn others_stay_as_they_are() {
        for (text, shapes) in [
            ("ij,jk->ik", &["(2,3)", "(3,4)", "(2,4)"][..]),
            ("...ij->...ji", &["(2,3,4)", "(2,4,3)"]),
            ("ij,jk", &["(2,2,3)", "(3,4)", "(2,2,4)"]),
            ("ij,jk->ik", &["(2,2,3)", "(3,4)", "(2,2,5)"]),
            ("ij,jk->ik", &["(2,2,3)", "(3,4)", "(2,4,1,1)"]),
            ("ij,jk,kl->il", &["(2,2,3)", "(3,4)", "(2,2,4)"]),
            ("ijk->i", &["(2,3)", "(2)"]),
        ] {
            assert_eq!(equation(text, shapes), text, "{shapes:?}");
        }
    }
}
