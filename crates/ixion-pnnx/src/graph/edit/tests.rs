use super::*;
use ixion_tensor::Limits;

const TEXT: &str = "7767517\n4 3\n\
    pnnx.Input in 0 1 x\n\
    torch.add add 2 1 x x y $input=x $other=x\n\
    F.relu relu 1 1 y z\n\
    pnnx.Output out 1 0 z\n";

fn sample() -> Graph {
    Graph::parse(TEXT, &Limits::default()).unwrap()
}

fn operator(graph: &Graph, name: &str) -> OperatorId {
    graph.operator_named(name).unwrap()
}

fn operand(graph: &Graph, name: &str) -> OperandId {
    graph.operand_named(name).unwrap()
}

fn names(graph: &Graph) -> Vec<&str> {
    graph.operators().map(|(_, operator)| operator.name()).collect()
}

/// Checks that both ends of every link agree, and that every name is indexed.
fn check_links(graph: &Graph) {
    for (id, operator) in graph.operators() {
        assert_eq!(graph.operator_named(operator.name()), Some(id));
        assert_eq!(operator.inputs().len(), operator.input_names().len());
        for &input in operator.inputs() {
            let uses = operator.inputs().iter().filter(|&&other| other == input).count();
            let listed = graph.operand(input).consumers().iter().filter(|&&other| other == id).count();
            assert_eq!(uses, listed);
        }
        for &output in operator.outputs() {
            assert_eq!(graph.operand(output).producer(), Some(id));
        }
    }
    for (id, operand) in graph.operands() {
        assert_eq!(graph.operand_named(operand.name()), Some(id));
        for &consumer in operand.consumers() {
            assert!(graph.operator(consumer).inputs().contains(&id));
        }
    }
}

#[test]
fn operators_are_inserted_at_the_requested_position() {
    let mut graph = sample();
    let relu = operator(&graph, "relu");
    graph.new_operator_before("F.silu", "before", relu).unwrap();
    graph.new_operator_after("F.silu", "after", relu).unwrap();
    graph.new_operator("F.silu", "last").unwrap();
    assert_eq!(names(&graph), ["in", "add", "before", "relu", "after", "out", "last"]);
    assert_eq!(graph.operator(relu).name(), "relu", "ids stay valid");
    check_links(&graph);
}

#[test]
fn names_are_unique_even_after_renaming_and_removing() {
    let mut graph = sample();
    let duplicate = GraphError::DuplicateOperator { name: "add".into() };
    assert_eq!(graph.new_operator("F.relu", "add"), Err(duplicate.clone()));
    let relu = operator(&graph, "relu");
    assert_eq!(graph.rename_operator(relu, "add"), Err(duplicate));
    graph.rename_operator(relu, "relu").unwrap();
    graph.rename_operator(relu, "act").unwrap();
    assert_eq!((graph.operator_named("relu"), graph.operator_named("act")), (None, Some(relu)));

    let x = operand(&graph, "x");
    assert_eq!(graph.rename_operand(x, "y"), Err(GraphError::DuplicateOperand { name: "y".into() }));
    assert_eq!(graph.new_operand("y"), Err(GraphError::DuplicateOperand { name: "y".into() }));
    graph.rename_operand(x, "input").unwrap();
    graph.new_operand("x").unwrap();
    check_links(&graph);
}

#[test]
fn connecting_and_disconnecting_changes_one_use() {
    let mut graph = sample();
    let (add, x, y) = (operator(&graph, "add"), operand(&graph, "x"), operand(&graph, "y"));
    graph.disconnect_input(add, 0).unwrap();
    assert_eq!(graph.operand(x).consumers(), [add]);
    assert_eq!(graph.operator(add).input_names(), [Some("other".to_owned())]);
    graph.connect_input(add, x, Some("input")).unwrap();
    assert_eq!(graph.operand(x).consumers(), [add, add]);
    check_links(&graph);

    let relu = operator(&graph, "relu");
    graph.replace_input(relu, 0, x).unwrap();
    assert_eq!((graph.operand(x).consumers().len(), graph.operand(y).consumers().len()), (3, 0));
    let missing = GraphError::NoSuchInput { operator: "relu".into(), index: 1, count: 1 };
    assert_eq!(graph.replace_input(relu, 1, x), Err(missing.clone()));
    assert_eq!(graph.disconnect_input(relu, 1), Err(missing));
    check_links(&graph);
}

#[test]
fn all_uses_move_at_once() {
    let mut graph = sample();
    let (x, y) = (operand(&graph, "x"), operand(&graph, "y"));
    let fresh = graph.new_operand("fresh").unwrap();
    assert_eq!(graph.replace_uses(x, fresh), Ok(2));
    let add = operator(&graph, "add");
    assert_eq!(graph.operator(add).inputs(), [fresh, fresh]);
    assert_eq!(graph.operand(fresh).consumers(), [add, add]);
    assert_eq!((graph.replace_uses(x, y), graph.replace_uses(y, y)), (Ok(0), Ok(0)));
    check_links(&graph);
}

#[test]
fn an_operand_has_one_producer() {
    let mut graph = sample();
    let (add, relu, y) = (operator(&graph, "add"), operator(&graph, "relu"), operand(&graph, "y"));
    let taken = GraphError::AlreadyProduced { operand: "y".into(), producer: "add".into() };
    assert_eq!(graph.connect_output(relu, y), Err(taken));
    let stranger = GraphError::NotAnOutput { operator: "relu".into(), operand: "y".into() };
    assert_eq!(graph.disconnect_output(relu, y), Err(stranger));
    graph.disconnect_output(add, y).unwrap();
    assert_eq!(graph.operand(y).producer(), None);
    graph.connect_output(relu, y).unwrap();
    check_links(&graph);
}

#[test]
fn removing_cleans_up_and_rejects_used_operands() {
    let mut graph = sample();
    let (relu, out, z) = (operator(&graph, "relu"), operator(&graph, "out"), operand(&graph, "z"));
    let used = GraphError::StillUsed { operand: "z".into(), consumer: "out".into() };
    assert_eq!(graph.remove_operator(relu).unwrap_err(), used);
    assert_eq!(graph.remove_operand(z), Err(used));
    check_links(&graph);

    graph.remove_operator(out).unwrap();
    let removed = graph.remove_operator(relu).unwrap();
    assert_eq!(removed.op_type(), "F.relu");
    assert_eq!(names(&graph), ["in", "add"]);
    assert!(graph.operand_named("z").is_none() && graph.get_operand(z).is_none());
    assert_eq!(graph.remove_operator(relu).unwrap_err(), GraphError::NoSuchOperator);
    assert_eq!(graph.new_operator_after("F.relu", "a", relu), Err(GraphError::NoSuchOperator));
    let y = operand(&graph, "y");
    assert_eq!(graph.operand(y).consumers(), []);
    assert!(matches!(graph.remove_operand(y), Err(GraphError::AlreadyProduced { .. })));
    check_links(&graph);
}

#[test]
fn removing_an_operator_removes_both_of_its_uses() {
    let mut graph = sample();
    for name in ["out", "relu", "add"] {
        let id = operator(&graph, name);
        graph.remove_operator(id).unwrap();
    }
    assert_eq!(graph.operand(operand(&graph, "x")).consumers(), []);
    check_links(&graph);
}

#[test]
fn unwritable_names_and_values_are_rejected() {
    let mut graph = sample();
    let relu = operator(&graph, "relu");
    let refused = |result: Edit| matches!(result, Err(GraphError::Unwritable { .. }));
    for name in ["", "a b", "a\tb", "a\nb"] {
        assert!(refused(graph.new_operator("F.relu", name).map(drop)), "{name}");
        assert!(refused(graph.new_operator(name, "fresh").map(drop)), "{name}");
        assert!(refused(graph.rename_operator(relu, name)), "{name}");
        assert!(refused(graph.new_operand(name).map(drop)), "{name}");
    }
    assert!(refused(graph.new_operand("a=b").map(drop)));
    assert!(refused(graph.set_param(relu, "k", "a b").map(drop)));
    for key in ["", "@k", "#k", "$k", "a=b", "a b"] {
        assert!(refused(graph.set_param(relu, key, 1_i64).map(drop)), "{key}");
    }
    let dims = |name: &str| Some(vec![Dim::Named(name.into())]);
    let z = operand(&graph, "z");
    for name in ["", "a,b", "a)b", "a b"] {
        assert!(refused(graph.set_operand_type(z, None, dims(name))), "{name}");
    }
    graph.set_operand_type(z, Some(DType::F32), dims("w")).unwrap();
    check_links(&graph);
}

#[test]
fn parameters_and_attributes_are_replaced_and_removed() {
    let mut graph = sample();
    let relu = operator(&graph, "relu");
    assert_eq!(graph.set_param(relu, "inplace", true), Ok(None));
    assert_eq!(graph.set_param(relu, "inplace", false), Ok(Some(true.into())));
    assert_eq!(graph.remove_param(relu, "inplace"), Ok(Some(false.into())));
    let weight = Attribute::from_f32s(vec![1], &[1.0]).unwrap();
    assert_eq!(graph.set_attribute(relu, "weight", weight.clone()), Ok(None));
    assert!(graph.operator(relu).has_attr("weight"));
    assert_eq!(graph.remove_attribute(relu, "weight"), Ok(Some(weight)));
}
