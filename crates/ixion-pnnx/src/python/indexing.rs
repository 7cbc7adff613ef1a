//! Slices, indices, and writes into parts of tensors.

use super::Writer;
use super::error::{PythonProblem, Written};
use super::kind::{Kind, constant};
use super::literal::literal;
use super::prelude::Helper;
use crate::expression::Expr;
use crate::ids::OperandId;
use crate::operand::Dim;
use crate::operator::Operator;

/// The keys of a part of a tensor along one axis, and along several.
const ONE: [&str; 5] = ["dim", "start", "end", "step", "select"];
const SEVERAL: [&str; 5] = ["dims", "starts", "ends", "steps", "selects"];

/// The maximum number of views through which a write goes. PyTorch models have a few.
const MAX_VIEWS: usize = 64;

/// The maximum number of axes in square brackets; it is that of PyTorch's tensors.
const MAX_AXES: usize = 64;

/// The end of a range that reaches the end of its axis, and the index of a range that is no single position.
const NO_END: [&str; 2] = ["2147483647", "9223372036854775807"];

impl<'g> Writer<'g> {
    /// An argument that is an input or a parameter.
    pub(super) fn argument(&self, operator: &Operator, key: &str) -> Option<String> {
        let input = operator.named_input(key).map(|input| self.variable(input));
        input.or_else(|| operator.param(key).map(literal))
    }

    /// Writes a list of indices such as `indexes=(@0,2147483647)`, some of which are inputs.
    pub(super) fn slice_indexes(&mut self, operator: &Operator) -> Written {
        let raw = operator.param("indexes").map_or("()", |parameter| parameter.raw());
        let inner = raw.trim_start_matches(['(', '[']).trim_end_matches([')', ']']);
        let list = self.computed(operator, &format!("[{inner}]"))?;
        self.mark(operator, Kind::List);
        self.assign(operator, &list);
        Ok(())
    }

    pub(super) fn slice(&mut self, operator: &Operator) -> Written {
        let tensor = self.input(operator, 0, "input")?;
        let part = self.part(operator, &tensor);
        self.assign(operator, &part);
        Ok(())
    }

    /// Copies a tensor and replaces a part of the copy.
    pub(super) fn slice_copy(&mut self, operator: &Operator) -> Written {
        let (tensor, source) = (self.input(operator, 0, "self")?, self.input(operator, 1, "src")?);
        let copy = self.output(operator)?;
        let part = match self.subscript(operator) {
            Some(subscript) => format!("{copy}{subscript}"),
            None => format!("{}[...]", self.part(operator, &copy)),
        };
        self.forward.push(format!("{copy} = {tensor}.clone()"));
        self.forward.push(format!("{part} = {source}"));
        Ok(())
    }

    /// Returns true for the selection of a list of positions, or of one whose axis is kept: a list of one, which PNNX writes as a
    /// number.
    pub(super) fn picks(&self, operator: &Operator) -> bool {
        let index = operator.param("index");
        index.is_some_and(|index| {
            index.as_i64s().is_ok() || (index.as_i64().is_ok() && self.keeps_axis(operator))
        })
    }

    /// Returns true if an operator is recorded to have as many axes in its output as in its input.
    pub(super) fn keeps_axis(&self, operator: &Operator) -> bool {
        let [input, output] = [operator.inputs(), operator.outputs()]
            .map(|operands| operands.first().and_then(|&operand| self.rank(operand)));
        input.is_some() && input == output
    }

    /// Selects a list of positions of an axis.
    pub(super) fn pick(&mut self, operator: &Operator) -> Written {
        let tensor = self.input(operator, 0, "input")?;
        let index = operator.param("index").ok_or(PythonProblem::Missing { key: "index" })?;
        let dim = operator.param("dim").ok_or(PythonProblem::Missing { key: "dim" })?;
        let places = index.as_i64s().unwrap_or_else(|_| index.as_i64().into_iter().collect());
        let places: Vec<String> = places.iter().map(i64::to_string).collect();
        let places = format!("[{}]", places.join(", "));
        let axis = dim.as_i64().ok().and_then(|dim| self.axis(operator, dim));
        let value = match axis.and_then(|axis| bracketed(&[(axis, places.clone())])) {
            Some(subscript) => format!("{tensor}{subscript}"),
            None => {
                self.helpers.insert(Helper::Part);
                format!("part({tensor}, dims=({},), selects=({places},))", literal(dim))
            }
        };
        self.assign(operator, &value);
        Ok(())
    }

    /// An axis of an operator's first input, of which negative numbers count from the end.
    fn axis(&self, operator: &Operator, dim: i64) -> Option<usize> {
        let distance = usize::try_from(dim.unsigned_abs()).ok()?;
        if dim >= 0 {
            return Some(distance);
        }
        self.rank(*operator.inputs().first()?)?.checked_sub(distance)
    }

    /// The part in square brackets, such as `[:, 1:-1]`, if its axes are known. A single position must be known, too, since one
    /// number stands for none.
    fn subscript(&self, operator: &Operator) -> Option<String> {
        let several = operator.param("dims").map(|dims| dims.as_i64s().ok());
        let dims = match several {
            Some(dims) => dims?,
            None => vec![operator.param("dim")?.as_i64().ok()?],
        };
        let keys = if operator.has_param("dims") { SEVERAL } else { ONE };
        let [_, starts, ends, steps, selects] = keys.map(|key| self.bounds(operator, key, dims.len()));
        let (starts, ends, steps, selects) = (starts?, ends?, steps?, selects?);
        let mut items = Vec::new();
        for (place, &dim) in dims.iter().enumerate() {
            let [start, end, step, select] = [&starts, &ends, &steps, &selects].map(|list| list.get(place));
            let select = select.map(String::as_str).filter(|select| !NO_END.contains(select));
            let item = match select {
                None | Some("") => range(start?, end?, step?),
                Some(select) => select.parse::<i64>().ok()?.to_string(),
            };
            items.push((self.axis(operator, dim)?, item));
        }
        bracketed(&items)
    }

    /// One bound for each axis of a part, empty if the file has none. `None` if they are a list that the graph computes.
    fn bounds(&self, operator: &Operator, key: &str, count: usize) -> Option<Vec<String>> {
        if !SEVERAL.contains(&key) {
            return Some(vec![self.argument(operator, key).unwrap_or_default()]);
        }
        if operator.has_input(key) {
            return None;
        }
        let Some(given) = operator.param(key) else { return Some(vec![String::new(); count]) };
        Some(given.as_i64s().ok()?.iter().map(i64::to_string).collect())
    }

    /// A part of a tensor: along one axis (`dim`, `start`, …) or several (`dims`, `starts`, …).
    fn part(&mut self, operator: &Operator, tensor: &str) -> String {
        if let Some(subscript) = self.subscript(operator) {
            return format!("{tensor}{subscript}");
        }
        self.helpers.insert(Helper::Part);
        let has_several = operator.has_param("dims") || operator.has_input("dims");
        let mut text = format!("part({tensor}");
        for (one, several) in ONE.into_iter().zip(SEVERAL) {
            let given = if has_several {
                self.argument(operator, several)
            } else {
                self.argument(operator, one).map(|value| format!("({value},)"))
            };
            if let Some(value) = given {
                text.push_str(&format!(", {several}={value}"));
            }
        }
        text.push(')');
        text
    }

    pub(super) fn index(&mut self, operator: &Operator) -> Written {
        let tensor = self.input(operator, 0, "input")?;
        let value = match self.plain_indices(operator, "expr") {
            Some(indices) => format!("{tensor}[{indices}]"),
            None => {
                let indices = self.indices(operator, "expr")?;
                self.helpers.insert(Helper::Index);
                format!("torch.ops.aten.index({tensor}, index({indices}))")
            }
        };
        self.assign(operator, &value);
        Ok(())
    }

    pub(super) fn index_put(&mut self, operator: &Operator) -> Written {
        let tensor = self.input(operator, 0, "input")?;
        let values = self.argument(operator, "values").ok_or(PythonProblem::Missing { key: "values" })?;
        let accumulate = self.argument(operator, "accumulate").unwrap_or_else(|| "False".to_owned());
        let plain = self.plain_indices(operator, "indices").filter(|_| self.is_assignable(operator));
        if let (Some(indices), "False") = (plain, accumulate.as_str()) {
            let copy = self.output(operator)?;
            self.forward.push(format!("{copy} = {tensor}.clone()"));
            self.forward.push(format!("{copy}[{indices}] = {values}"));
            return Ok(());
        }
        let indices = self.indices(operator, "indices")?;
        let values = format!("torch.as_tensor({values}, dtype={tensor}.dtype)");
        self.helpers.insert(Helper::Index);
        let arguments = format!("{tensor}, index({indices}), {values}, accumulate={accumulate}");
        self.assign(operator, &format!("torch.ops.aten.index_put({arguments})"));
        Ok(())
    }

    /// Indices in square brackets, if all of them are tensors with axes: PyTorch treats others as single positions, which may put
    /// axes into another order.
    fn plain_indices(&self, operator: &Operator, key: &str) -> Option<String> {
        let raw = operator.param(key).filter(|_| !operator.has_input(key))?.raw();
        let Ok(Expr::List(items)) = Expr::parse(raw) else { return None };
        let has_axes =
            |input| self.kind(input) == Kind::Tensor && self.rank(input).is_some_and(|rank| rank > 0);
        let item = |item: &Expr| match item {
            Expr::None => Some(":".to_owned()),
            Expr::Input(place) => {
                let input = *operator.inputs().get(*place)?;
                has_axes(input).then(|| self.variable(input))
            }
            _ => None,
        };
        let has_tensor = items.iter().any(|item| matches!(item, Expr::Input(_)));
        let items: Option<Vec<String>> = items.iter().map(item).collect();
        items.filter(|_| has_tensor).map(|items| items.join(", "))
    }

    /// Returns true if `values` is a number, or a tensor that is recorded to have the first input's element type.
    fn is_assignable(&self, operator: &Operator) -> bool {
        let dtype = |operand| self.graph.get_operand(operand).and_then(|operand| operand.dtype());
        let Some(values) = operator.named_input("values") else {
            return operator.param("values").is_some_and(|values| values.as_f64().is_ok());
        };
        let whole = operator.inputs().first().and_then(|&input| dtype(input));
        self.kind(values) == Kind::Number || (whole.is_some() && whole == dtype(values))
    }

    /// A list of indices: an input, or a parameter that is an expression of the inputs.
    fn indices(&self, operator: &Operator, key: &'static str) -> Written<String> {
        if let Some(input) = operator.named_input(key) {
            return Ok(self.variable(input));
        }
        let parameter = operator.param(key).ok_or(PythonProblem::Missing { key })?;
        let expr = self.with_axes(operator, Expr::parse(parameter.raw())?);
        Ok(self.piece(operator, &expr)?.text)
    }

    /// The value of an expression of the operator's inputs.
    fn computed(&self, operator: &Operator, text: &str) -> Written<String> {
        let expr = Expr::parse(text)?;
        Ok(self.piece(operator, &expr)?.text)
    }

    /// Returns true if an operator's result is read as a list of indices.
    pub(super) fn is_index_list(&self, operator: &Operator) -> bool {
        let [output] = operator.outputs() else { return false };
        let consumers = self.graph.get_operand(*output).map(|operand| operand.consumers());
        let mut consumers =
            consumers.unwrap_or_default().iter().filter_map(|&id| self.graph.get_operator(id));
        consumers.any(|consumer| match consumer.op_type() {
            "Tensor.index" => consumer.named_input("expr") == Some(*output),
            "Tensor.index_put" => consumer.named_input("indices") == Some(*output),
            _ => false,
        })
    }

    /// The same list of indices with the axes of its constants: PNNX writes a tensor of one element as a number, which would
    /// select a single position and remove the axis.
    pub(super) fn with_axes(&self, operator: &Operator, expr: Expr) -> Expr {
        let Expr::List(items) = expr else { return expr };
        let item = |item: Expr| {
            let input = match item {
                Expr::Input(place) => operator.inputs().get(place),
                _ => None,
            };
            input.and_then(|&input| self.nested(input)).unwrap_or(item)
        };
        Expr::List(items.into_iter().map(item).collect())
    }

    /// A constant of one element as nested lists, one for each axis that the file records.
    fn nested(&self, operand: OperandId) -> Option<Expr> {
        let shape = self.graph.get_operand(operand)?.shape()?;
        if shape.len() > MAX_AXES || shape.iter().any(|dim| *dim != Dim::Fixed(1)) {
            return None;
        }
        let mut at = operand;
        for _ in 0..MAX_VIEWS {
            let producer = self.graph.get_operator(self.graph.get_operand(at)?.producer()?)?;
            if let Some(parameter) = constant(producer) {
                let element = Expr::parse(parameter.raw()).ok()?;
                let is_index = matches!(element, Expr::Int(_) | Expr::Bool(_));
                return is_index.then(|| shape.iter().fold(element, |inner, _| Expr::List(vec![inner])));
            }
            // PNNX writes copies and detached tensors as expressions.
            let [input] = producer.inputs() else { return None };
            let is_copy = producer.op_type() == "pnnx.Expression"
                && producer.param("expr").is_some_and(|expr| expr.raw() == "@0");
            at = is_copy.then_some(*input)?;
        }
        None
    }

    /// Writes to a tensor, or to a view of one: PNNX returns the whole tensor.
    pub(super) fn write(&mut self, operator: &Operator) -> Written {
        let (target, source) = (self.input(operator, 0, "self")?, self.input(operator, 1, "src")?);
        let whole = self.output(operator)?;
        let views = self.views(operator);
        let base = match views.last() {
            Some(view) => self.input(view, 0, "input")?,
            None => target,
        };
        // Only of contiguous tensors, a reshape is certainly a view.
        let order = if views.iter().any(|view| is_reshape(view)) {
            "memory_format=torch.contiguous_format"
        } else {
            ""
        };
        let mut part = whole.clone();
        for view in views.iter().rev() {
            part = self.view(view, part)?;
        }
        self.forward.push(format!("{whole} = {base}.clone({order})"));
        self.forward.push(format!("{part}[...] = {source}"));
        Ok(())
    }

    /// The operators that make the target of a write a view of the tensor that it returns, last one first. PNNX records the
    /// shape of the returned tensor; if it did not, only operators that are certainly views are followed.
    fn views(&self, operator: &Operator) -> Vec<&'g Operator> {
        let graph = self.graph;
        let shape = |id| graph.get_operand(id).and_then(|operand| operand.shape());
        let wanted: Option<&[Dim]> = operator.outputs().first().and_then(|&output| shape(output));
        let fits = |id| wanted.is_some() && shape(id) == wanted;
        let (mut views, mut certain, mut fitting) = (Vec::new(), 0, None);
        let mut at = operator.inputs().first().copied();
        while let Some(target) = at.filter(|_| views.len() < MAX_VIEWS) {
            let producer = graph.get_operand(target).and_then(|operand| operand.producer());
            let producer = producer.and_then(|id| graph.get_operator(id));
            let Some(view) = producer.filter(|view| is_view(view)) else { break };
            views.push(view);
            at = view.inputs().first().copied();
            if certain + 1 == views.len() && !is_reshape(view) {
                certain = views.len();
            }
            if at.is_some_and(fits) {
                fitting = Some(views.len());
            }
        }
        let is_whole = operator.inputs().first().is_some_and(|&target| fits(target));
        views.truncate(fitting.unwrap_or(if is_whole { 0 } else { certain }));
        views
    }

    /// The view that an operator makes, of another tensor.
    fn view(&mut self, operator: &Operator, tensor: String) -> Written<String> {
        if operator.op_type() == "Tensor.slice" {
            return Ok(self.part(operator, &tensor));
        }
        let mut texts = self.argument_texts(operator, true);
        if let Some(first) = texts.first_mut() {
            *first = tensor;
        }
        match operator.op_type().strip_prefix("Tensor.") {
            Some(name) => self.method_call(operator, name, &texts),
            None => self.function_call(operator, &texts, &[]),
        }
    }
}

/// A range of an axis.
fn range(start: &str, end: &str, step: &str) -> String {
    let without = |text: &str, usual: &[&str]| {
        if usual.contains(&text) || text == "None" { String::new() } else { text.to_owned() }
    };
    let range = format!("{}:{}", without(start, &["0"]), without(end, &NO_END));
    match without(step, &["1"]) {
        step if step.is_empty() => range,
        step => format!("{range}:{step}"),
    }
}

/// Indices of some axes in square brackets. `None` if an axis has two.
fn bracketed(items: &[(usize, String)]) -> Option<String> {
    let last = *items.iter().map(|(axis, _)| axis).max()?;
    if last >= MAX_AXES {
        return None;
    }
    let mut texts = vec![":"; last + 1];
    for (place, (axis, text)) in items.iter().enumerate() {
        if items.iter().take(place).any(|(other, _)| other == axis) {
            return None;
        }
        *texts.get_mut(*axis)? = text.as_str();
    }
    Some(format!("[{}]", texts.join(", ")))
}

/// Returns true for the operators through which PNNX follows a view.
fn is_view(operator: &Operator) -> bool {
    let name = operator.op_type().strip_prefix("Tensor.").or(operator.op_type().strip_prefix("torch."));
    is_reshape(operator) || matches!(name, Some("slice" | "select" | "narrow"))
}

/// Returns true for a reshape, which may be a view or a copy.
fn is_reshape(operator: &Operator) -> bool {
    matches!(operator.op_type(), "Tensor.reshape" | "Tensor.view" | "torch.reshape")
}
