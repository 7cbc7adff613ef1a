//! Building a pattern from its lines.

use super::line::{Line, Word, WordKind, is_name};
use super::value::ValuePattern;
use super::{DimPattern, FactPattern, Keyed, OperatorPattern, Pattern, TypePattern};
use crate::passes::PatternError;
use crate::pnnx::Expr;
use crate::tensor::DType;

pub(super) fn parse(lines: &[Line]) -> Result<Pattern, PatternError> {
    let mut pattern = Pattern {
        operators: Vec::new(),
        operands: Vec::new(),
        inputs: Vec::new(),
        outputs: Vec::new(),
        facts: Vec::new(),
    };
    for line in lines {
        pattern.add(line)?;
    }
    check(&pattern)?;
    Ok(pattern)
}

impl Pattern {
    fn add(&mut self, line: &Line) -> Result<(), PatternError> {
        let inputs = line.inputs.iter().map(|name| self.operand(name)).collect::<Option<Vec<usize>>>();
        let Some(inputs) = inputs else { return Err(line.error("no line above computes one of its inputs")) };
        let outputs = line.outputs.iter().map(|name| self.new_operand(name, line));
        let outputs = outputs.collect::<Result<Vec<usize>, _>>()?;
        self.add_facts(line)?;
        match line.op_type.as_str() {
            "pnnx.Input" => self.inputs.extend(outputs),
            "pnnx.Output" => self.outputs.extend(inputs),
            _ if self.operator(&line.name).is_some() => {
                return Err(line.error(format!("there are two operators `{}`", line.name)));
            }
            _ => {
                let operator = operator(line, &inputs, outputs)?;
                self.operators.push(operator);
            }
        }
        Ok(())
    }

    fn new_operand(&mut self, name: &str, line: &Line) -> Result<usize, PatternError> {
        if self.operand(name).is_some() {
            return Err(line.error(format!("`{name}` is computed twice")));
        }
        self.operands.push(name.to_owned());
        Ok(self.operands.len() - 1)
    }

    fn add_facts(&mut self, line: &Line) -> Result<(), PatternError> {
        for word in line.words.iter().filter(|word| word.kind == WordKind::Fact) {
            let operand = self.operand(&word.key);
            let operand = operand.ok_or_else(|| line.error(format!("there is no operand `{}`", word.key)))?;
            let wanted = type_pattern(line, word)?;
            self.facts.push(FactPattern { operand, wanted });
        }
        Ok(())
    }
}

fn operator(line: &Line, inputs: &[usize], outputs: Vec<usize>) -> Result<OperatorPattern, PatternError> {
    let either_way = line.op_type.ends_with('~');
    if either_way && inputs.len() != 2 {
        return Err(line.error(format!("`~` needs 2 inputs, got {}", inputs.len())));
    }
    let types: Vec<String> = line.op_type.trim_end_matches('~').split('|').map(str::to_owned).collect();
    let named = line.inputs.iter().zip(inputs);
    let inputs = named.map(|(name, &operand)| (line.input_name(name).map(str::to_owned), operand)).collect();
    let (mut params, mut attrs, mut expression) = (Vec::new(), Vec::new(), None);
    for word in &line.words {
        let (key, optional) = (word.key.clone(), word.optional);
        match word.kind {
            WordKind::Param => {
                let tree = tree(line, word)?;
                let raw = word.value.as_deref().filter(|_| tree.is_none()).unwrap_or("*");
                params.push(Keyed { key, optional, wanted: ValuePattern::parse(raw) });
                expression = expression.or(tree);
            }
            WordKind::Attribute => {
                let wanted = word.value.as_ref().map(|_| type_pattern(line, word)).transpose()?;
                attrs.push(Keyed { key, optional, wanted });
            }
            _ => {}
        }
    }
    let open = line.words.iter().any(|word| word.kind == WordKind::Open);
    let (name, stays, further) = (line.name.clone(), line.stays, line.further);
    Ok(OperatorPattern {
        name,
        types,
        either_way,
        stays,
        inputs,
        further,
        outputs,
        params,
        expression,
        attrs,
        open,
    })
}

/// The expression of a word, if it has one to be matched as a tree, not as a value.
fn tree(line: &Line, word: &Word) -> Result<Option<Expr>, PatternError> {
    let raw = word.value.as_deref().unwrap_or_default();
    let is_tree = line.op_type == "pnnx.Expression" && word.key == "expr";
    if !is_tree || raw == "*" || raw.starts_with('%') {
        return Ok(None);
    }
    let expr = Expr::parse(raw).map_err(|error| line.error(error.to_string()))?;
    match expr.input_count() <= line.inputs.len() {
        true => Ok(Some(expr)),
        false => {
            Err(line.error(format!("`{raw}` needs {} inputs, got {}", expr.input_count(), line.inputs.len())))
        }
    }
}

/// Reads `(1,?,%n)f32`, `(*)f32` or `(2,3)`.
fn type_pattern(line: &Line, word: &Word) -> Result<TypePattern, PatternError> {
    let raw = word.value.as_deref().unwrap_or_default();
    let error =
        || line.error(format!("expected sizes and an element type, such as `(1,?,%n)f32`, got `{raw}`"));
    let (dims, dtype) = raw.strip_prefix('(').and_then(|rest| rest.split_once(')')).ok_or_else(error)?;
    let dtype = match dtype {
        "" => None,
        name => Some(DType::ALL.into_iter().find(|dtype| dtype.to_string() == name).ok_or_else(error)?),
    };
    let dims = match dims {
        "*" => None,
        "" => Some(Vec::new()),
        dims => Some(dims.split(',').map(dim_pattern).collect::<Option<_>>().ok_or_else(error)?),
    };
    Ok(TypePattern { dtype, dims })
}

fn dim_pattern(text: &str) -> Option<DimPattern> {
    match (text, text.strip_prefix('%')) {
        ("?", _) => Some(DimPattern::Any),
        (_, Some(name)) => is_name(name).then(|| DimPattern::Capture(name.to_owned())),
        _ => text.parse().ok().map(DimPattern::Fixed),
    }
}

/// Checks that the operators of a pattern are connected and that one of them computes its first output.
fn check(pattern: &Pattern) -> Result<(), PatternError> {
    let anchor = pattern.outputs.first().and_then(|&output| pattern.producer(output));
    let replaced = |&at: &usize| pattern.operators.get(at).is_some_and(|operator| !operator.stays);
    let Some(anchor) = anchor.filter(replaced) else {
        return Err(PatternError::new(2, "no operator computes the pattern's output"));
    };
    let mut reached = vec![anchor];
    loop {
        let touches = |operator: &OperatorPattern| {
            reached.iter().any(|&at| pattern.operators.get(at).is_some_and(|other| share(operator, other)))
        };
        let next = (0..pattern.operators.len())
            .find(|at| !reached.contains(at) && pattern.operators.get(*at).is_some_and(touches));
        match next {
            Some(next) => reached.push(next),
            None if reached.len() == pattern.operators.len() => return Ok(()),
            None => return Err(PatternError::new(2, "the operators of a pattern must be connected")),
        }
    }
}

fn share(a: &OperatorPattern, b: &OperatorPattern) -> bool {
    let operands = |operator: &OperatorPattern| -> Vec<usize> {
        operator.inputs.iter().map(|input| input.1).chain(operator.outputs.iter().copied()).collect()
    };
    let others = operands(b);
    operands(a).iter().any(|operand| others.contains(operand))
}
