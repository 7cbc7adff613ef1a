//! Operators of scripted models that do something else than computing tensors: branches, loops, lists that grow, messages.
//!
//! `torch.jit.script` keeps branches and loops as operators with bodies, `prim::If` and `prim::Loop`. PNNX writes these
//! operators, at every optimisation level, but not their bodies: the operators in them are not in the file. Everything that is
//! possible without bodies happens here, on the file's graph, before anything else uses it:
//!
//! - A loop that runs zero times returns the values that it is given.
//! - A branch whose results are not used is left out, with the operators that compute its condition. It is nearly always an
//!   assertion. At levels 1 and 2, PNNX leaves it out itself.
//! - A message (`print`, `warnings.warn`) is left out.
//! - `append` makes a longer list, which is what later operators read, and items of lists that operators return become outputs
//!   of a `prim::ListUnpack`.
//!
//! All others are errors that say what happened. Passes must not see them, since they would remove a loop that fills a list
//! because its results are not used.
//!
//! Resolving a resolved graph again does not change it. A registered layer of one of these types gets its operators unchanged.

use super::GraphError;
use super::convert::literal;
use super::error::{OperatorPlace, UnknownOperator};
use super::lists::Lists;
use crate::op::Registry;
use crate::pnnx::{self, Graph, OperandId, Operator, OperatorId, Parameter, PnnxError};
use std::path::Path;

/// The type of a loop.
const LOOP: &str = "prim::Loop";

/// What an operator does besides computing tensors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Deed {
    Branch,
    Loop,
    Append,
    Item,
    Message,
    /// It changes a list or a dictionary, and returns nothing.
    Change,
}

/// What an operator does besides computing tensors; `None` for all others, and if a layer is registered for it.
fn deed(operator: &Operator, registry: &Registry) -> Option<Deed> {
    let op_type = operator.op_type();
    let deed = match op_type {
        "prim::If" => Deed::Branch,
        LOOP => Deed::Loop,
        "aten::append" => Deed::Append,
        "aten::__getitem__" => Deed::Item,
        "aten::warn" | "prim::Print" => Deed::Message,
        _ if op_type.starts_with("aten::") && operator.outputs().is_empty() => Deed::Change,
        _ => return None,
    };
    registry.known(op_type).is_none().then_some(deed)
}

/// Replaces or removes the operators of a scripted model that do something else than computing tensors.
///
/// # Errors
/// [`GraphError::UnknownOperators`] with all that cannot be replaced or removed, except items of lists: the conversion of the
/// graph knows more lists.
pub(crate) fn resolve(file: &mut Graph, registry: &Registry, path: Option<&Path>) -> Result<(), GraphError> {
    let found = file.operators().filter_map(|(id, operator)| Some((id, deed(operator, registry)?)));
    let found: Vec<(OperatorId, Deed)> = found.collect();
    if found.is_empty() {
        return Ok(());
    }
    replace(file, &found).map_err(PnnxError::from)?;
    leave_out(file, &found, path).map_err(PnnxError::from)?;
    let left = found.iter().filter_map(|&(id, _)| file.get_operator(id));
    let left = left.filter(|operator| deed(operator, registry).is_some_and(|deed| deed != Deed::Item));
    let unknown = |operator| UnknownOperator { place: *OperatorPlace::of(operator, path), nearest: None };
    match left.map(unknown).collect::<Vec<_>>() {
        operators if operators.is_empty() => Ok(()),
        operators => Err(GraphError::UnknownOperators { operators }),
    }
}

/// Replaces loops of no rounds, lists that grow, and items of lists.
fn replace(file: &mut Graph, found: &[(OperatorId, Deed)]) -> Result<(), pnnx::GraphError> {
    let mut lists = Lists::of(file);
    for &(id, deed) in found {
        if file.get_operator(id).is_none() {
            continue;
        }
        match deed {
            Deed::Loop if never_runs(file, id) => pass_through(file, id)?,
            Deed::Append => lists.append(file, id)?,
            Deed::Item if lists.unpack(file, id)? => remove(file, id)?,
            _ => {}
        }
    }
    Ok(())
}

/// Removes messages, and branches whose results are not used.
fn leave_out(
    file: &mut Graph,
    found: &[(OperatorId, Deed)],
    path: Option<&Path>,
) -> Result<(), pnnx::GraphError> {
    // Backwards, because the condition of a branch can be the result of another one.
    for &(id, deed) in found.iter().rev() {
        let Some(operator) = file.get_operator(id) else { continue };
        match deed {
            Deed::Branch if is_unused(file, operator) => log::warn!(
                "{}: PNNX has not written its branches, and its results are not used, so it is left out. \
                 Assertions in it are not checked, and changes in place are lost: to be sure, trace the \
                 model instead of scripting it",
                OperatorPlace::of(operator, path)
            ),
            Deed::Message if is_unused(file, operator) => {
                log::debug!("{}: left out", OperatorPlace::of(operator, path));
            }
            _ => continue,
        }
        remove(file, id)?;
    }
    Ok(())
}

/// Returns true if a loop ends before its first round: the number of rounds is a constant of at most 0, or the condition is
/// `False` from the start. The results of such a loop are the inputs after these two.
fn never_runs(file: &Graph, id: OperatorId) -> bool {
    let operator = file.operator(id);
    let constant = |position: usize| {
        let input = *operator.inputs().get(position)?;
        literal(file.operator(file.operand(input).producer()?))
    };
    let count = constant(0).and_then(|raw| Parameter::parse(&raw).as_i64().ok());
    let ends = count.is_some_and(|count| count <= 0) || constant(1).is_some_and(|raw| raw == "False");
    ends && operator.inputs().len() == operator.outputs().len() + 2
}

/// Makes the consumers of a loop's results read the values that the loop is given, and removes the loop.
fn pass_through(file: &mut Graph, id: OperatorId) -> Result<(), pnnx::GraphError> {
    let operator = file.operator(id);
    let given = operator.inputs().iter().copied().skip(2);
    let pairs: Vec<(OperandId, OperandId)> = operator.outputs().iter().copied().zip(given).collect();
    for (result, given) in pairs {
        file.replace_uses(result, given)?;
    }
    remove(file, id)
}

/// Returns true if no result of an operator has a consumer.
fn is_unused(file: &Graph, operator: &Operator) -> bool {
    operator.outputs().iter().all(|&output| file.operand(output).consumers().is_empty())
}

/// Removes an operator whose results are not used, and the operators that only served it. Loops stay, because their bodies
/// may have done something else as well.
fn remove(file: &mut Graph, id: OperatorId) -> Result<(), pnnx::GraphError> {
    let mut open = vec![id];
    while let Some(id) = open.pop() {
        let Some(operator) = file.get_operator(id) else { continue };
        let inputs = operator.inputs().to_vec();
        file.remove_operator(id)?;
        let producers = inputs.into_iter().filter_map(|input| file.get_operand(input)?.producer());
        open.extend(producers.filter(|&producer| {
            let operator = file.operator(producer);
            is_unused(file, operator) && !matches!(operator.op_type(), "pnnx.Input" | LOOP)
        }));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Limits;

    fn graph(lines: &str) -> Graph {
        let lines: Vec<&str> = lines.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
        let text = format!("7767517\n{} 0\n{}\n", lines.len(), lines.join("\n"));
        Graph::parse(&text, &Limits::default()).unwrap()
    }

    /// The operators of a resolved graph: their types and operands.
    fn resolved(lines: &str) -> Vec<String> {
        let mut graph = graph(lines);
        for _ in 0..2 {
            resolve(&mut graph, &Registry::default(), None).unwrap();
        }
        graph.check().unwrap();
        let names = |operands: &[OperandId]| -> Vec<String> {
            operands.iter().map(|&operand| graph.operand(operand).name().to_owned()).collect()
        };
        let line = |operator: &Operator| {
            let [inputs, outputs] = [operator.inputs(), operator.outputs()].map(names);
            format!("{}({}){}", operator.op_type(), inputs.join(","), outputs.concat())
        };
        graph.operators().map(|(_, operator)| line(operator)).collect()
    }

    fn refused(lines: &str) -> Vec<String> {
        match resolve(&mut graph(lines), &Registry::default(), None).unwrap_err() {
            GraphError::UnknownOperators { operators } => {
                operators.into_iter().map(|operator| operator.place.op_type).collect()
            }
            other => panic!("{other}"),
        }
    }

    #[test]
    fn assertions_and_messages_are_left_out() {
        let lines = "pnnx.Input in 0 1 x
            prim::Constant a 0 1 two value=2
            prim::Constant b 0 1 text value=AssertionError: two axes
            aten::dim c 1 1 x n
            torch.eq d 2 1 n two e
            prim::If f 1 1 e g
            aten::__not__ h 1 1 g i
            prim::If j 1 0 i
            prim::Print k 2 0 text n
            F.relu l 1 1 x y
            pnnx.Output out 1 0 y";
        assert_eq!(resolved(lines), ["pnnx.Input()x", "F.relu(x)y", "pnnx.Output(y)"]);
    }

    #[test]
    fn loops_of_no_rounds_return_what_they_are_given() {
        let lines = |count: &str, condition: &str| {
            format!(
                "pnnx.Input in 0 1 x
                 prim::Constant a 0 1 n value={count}
                 prim::Constant b 0 1 c value={condition}
                 F.relu d 1 1 x y
                 prim::Loop e 4 2 n c x y u v
                 torch.add f 2 1 u v w
                 pnnx.Output out 1 0 w"
            )
        };
        for (count, condition) in [("0", "True"), ("-1", "True"), ("3", "False")] {
            let lines = resolved(&lines(count, condition));
            assert_eq!(lines[1..3], ["F.relu(x)y", "torch.add(x,y)w"], "{lines:?}");
        }
        assert_eq!(refused(&lines("3", "True")), ["prim::Loop"]);
    }

    #[test]
    fn lost_bodies_are_errors_even_if_nothing_reads_their_results() {
        let branch = "pnnx.Input in 0 1 x\naten::Bool a 1 1 x c\nprim::If b 1 1 c y\npnnx.Output out 1 0 y";
        assert_eq!(refused(branch), ["prim::If"]);
        let fills = "pnnx.Input in 0 1 x
            prim::Constant a 0 1 n value=3
            prim::Constant b 0 1 c value=True
            prim::Loop d 2 0 n c
            aten::_set_item e 3 0 x n c
            pnnx.Output out 1 0 x";
        assert_eq!(refused(fills), ["prim::Loop", "aten::_set_item"]);
    }

    #[test]
    fn appended_lists_are_longer_for_what_follows() {
        let lines = "pnnx.Input in 0 1 x
            prim::Constant a 0 1 l value=None
            aten::append b 2 1 l x m
            aten::len c 1 1 l n
            F.relu d 1 1 x y
            aten::append e 2 1 l y o
            torch.stack f 1 1 l z
            prim::TupleConstruct g 2 1 n z r
            pnnx.Output out 1 0 r";
        let wanted = "prim::ListConstruct(x)m aten::len(m)n F.relu(x)y \
                      prim::ListConstruct(x,y)o torch.stack(o)z";
        assert_eq!(resolved(lines)[2..7].join(" "), wanted);
        let nested = "pnnx.Input in 0 1 x
            prim::ListConstruct a 1 1 x l
            prim::TupleConstruct b 1 1 l t
            aten::append c 2 1 l x m
            pnnx.Output out 1 0 t";
        assert_eq!(refused(nested), ["aten::append"]);
        let unknown = "pnnx.Input in 0 1 x
            torch.chunk a 1 1 x l chunks=2
            aten::append c 2 1 l x m
            pnnx.Output out 1 0 l";
        assert_eq!(refused(unknown), ["aten::append"]);
    }

    #[test]
    fn items_of_returned_lists_are_outputs_of_an_unpack() {
        let lines = |list: &str| {
            format!(
                "pnnx.Input in 0 1 x #x=(5,4)f32
                 prim::Constant a 0 1 n value=2
                 prim::Constant b 0 1 first value=0
                 prim::Constant c 0 1 last value=-1
                 {list}
                 aten::__getitem__ d 2 1 l last y
                 aten::__getitem__ e 2 1 l first z
                 torch.add f 2 1 y z w
                 pnnx.Output out 1 0 w"
            )
        };
        let unpacked = |list: &str| {
            let resolved = resolved(&lines(list));
            resolved.into_iter().find(|line| line.starts_with("prim::ListUnpack")).unwrap_or_default()
        };
        let three = "prim::ListUnpack(l)l.0l.1l.2";
        assert_eq!(unpacked("torch.chunk g 2 1 x n l dim=0 $input=x $chunks=n"), "prim::ListUnpack(l)l.0l.1");
        assert_eq!(unpacked("torch.split g 1 1 x l dim=1 split_size_or_sections=(1,1,2) $tensor=x"), three);
        assert_eq!(unpacked("torch.split g 2 1 x n l dim=0 $tensor=x $split_size_or_sections=n"), three);
        assert_eq!(unpacked("torch.unbind g 1 1 x l dim=-1 $input=x"), "prim::ListUnpack(l)l.0l.1l.2l.3");
        assert_eq!(unpacked("torch.unbind g 1 1 x l dim=2 $input=x"), "", "there is no such axis");
        assert_eq!(unpacked("my.Parts g 1 1 x l"), "", "the number of items is not known");
        assert_eq!(unpacked("torch.chunk g 1 1 x l chunks=4 $input=x"), three, "2, 2 and 1 rows");
        let many = "my.Own h 1 1 x u\ntorch.chunk g 1 1 u l chunks=99999999999 $input=u";
        assert_eq!(unpacked(many), "", "too many items");
        let all = resolved(&lines("torch.chunk g 2 1 x n l dim=0 $input=x $chunks=n"));
        assert!(all.iter().all(|line| !line.starts_with("aten::")), "{all:?}");
        assert_eq!(all.last().map(String::as_str), Some("pnnx.Output(w)"));
        assert!(all.contains(&"torch.add(l.1,l.0)w".to_owned()), "{all:?}");
    }
}
