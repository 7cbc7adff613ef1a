//! Task 4: only what depends on the change.

use super::*;

/// The graph on the page, with the framework's descriptions for x = 1×3×8×8 and y = 1×1×8×8.
fn ready() -> (RuntimeGraph, Vec<Option<TensorMeta>>) {
    let graph = page();
    let metas = ixion::course::walk::infer_all(&graph, &inputs(&[1, 3, 8, 8], &[1, 1, 8, 8])).unwrap();
    (graph, metas)
}

#[test]
fn task4_the_same_inputs() {
    let (graph, metas) = ready();
    let (x, y) = (f32s(&[1, 3, 8, 8]), f32s(&[1, 1, 8, 8]));
    assert!(same_inputs(&graph, &metas, &[x.clone(), y.clone()]), "these are the inputs");
    assert!(!same_inputs(&graph, &metas, &[y, x.clone()]), "x and y are exchanged: order matters");
    let hint = "y is missing, and `zip` stops early: compare the numbers of inputs";
    assert!(!same_inputs(&graph, &metas, std::slice::from_ref(&x)), "{hint}");
    assert!(!same_inputs(&graph, &metas, &[x, f32s(&[1, 1, 9, 8])]), "y has another height");
}

#[test]
fn task4_the_same_description_is_not_a_change() {
    let (graph, mut metas) = ready();
    let b = operand(&graph, "b");
    let mut update = Update::new(&graph, &mut metas);
    update.set(b, Some(f32s(&[1, 3, 4, 4])));
    let join = graph.operator_named("join").unwrap();
    assert!(!update.is_stale(join), "b is set to what it was: nothing changed");
    update.set(b, Some(f32s(&[1, 3, 5, 5])));
    assert!(update.is_stale(join), "join reads b, which changed");
    let pool = graph.operator_named("pool_x").unwrap();
    assert!(!update.is_stale(pool), "pool_x reads x, which did not change");
    update.set(operand(&graph, "c"), None);
    let (operands, operators) = update.changed();
    assert_eq!(names(&graph, &operands), ["b", "c"], "becoming unknown is a change, too");
    assert!(operators.is_empty(), "`set` applies no rule");
    assert_eq!(text(&graph, &metas, "b"), "1×3×5×5 f32", "`set` stores the new description");
}

/// Updates the graph on the page, and checks which operators are inferred, which operands change, and the description of d.
#[track_caller]
fn updated(x: &[i64], y: &[i64], asked: &[&str], changed: &[&str], d: &str, hint: &str) {
    let (graph, mut metas) = ready();
    let mut update = Update::new(&graph, &mut metas);
    fine(update.run(&inputs(x, y)));
    let (operands, operators) = update.changed();
    let found: Vec<&str> = operators.iter().map(|&at| graph.operator(at).name()).collect();
    assert_eq!(found, asked, "{hint}");
    assert_eq!(names(&graph, &operands), changed, "{hint}");
    assert_eq!(text(&graph, &metas, "d"), d, "{hint}");
}

#[test]
fn task4_only_what_depends_on_the_change() {
    let hint = "x has 6 channels now, y is as before: pool_y need not be inferred again, and d has 6 + 1";
    let (asked, changed) = (["pool_x", "relu", "join"], ["a", "b", "d", "x"]);
    updated(&[1, 6, 8, 8], &[1, 1, 8, 8], &asked, &changed, "1×7×4×4 f32", hint);
}

#[test]
fn task4_a_change_may_come_to_an_end() {
    let hint = "9 / 2 is 4, and so is 8 / 2: a is as before, so no operator after pool_x is stale";
    updated(&[1, 3, 9, 9], &[1, 1, 8, 8], &["pool_x"], &["x"], "1×4×4×4 f32", hint);
}

#[test]
fn task4_an_update_forgets_what_has_become_unknown() {
    let graph = reshape();
    let sizes = TensorMeta::new(DType::I64, [2]);
    let known = sizes.clone().with_values(vec![Dim::Fixed(2), Dim::Fixed(2)]);
    let x = Some(f32s(&[4]));
    let mut metas = ixion::course::walk::infer_all(&graph, &[x.clone(), Some(known)]).unwrap();
    assert_eq!(text(&graph, &metas, "z"), "2×2 f32", "given: s is known");
    fine(Update::new(&graph, &mut metas).run(&[x, Some(sizes)]));
    let hint = "s has become unknown, so y and z must, too: set `None` as well";
    assert_eq!((text(&graph, &metas, "y"), text(&graph, &metas, "z")), ("?".into(), "?".into()), "{hint}");
}

#[test]
fn task4_all_or_nothing() {
    let (graph, mut metas) = ready();
    let before = metas.clone();
    let mut update = Update::new(&graph, &mut metas);
    let error = refused(update.run(&inputs(&[1, 3, 12, 12], &[1, 1, 8, 8])));
    assert!(error.contains("`join`"), "6×6 and 4×4 do not fit: {error}");
    let (operands, _) = update.changed();
    assert!(operands.is_empty(), "after an error nothing counts as changed: {:?}", names(&graph, &operands));
    let hint = "x, a and b had already changed when join failed: all must be restored";
    assert_eq!(metas, before, "{hint}");
}

#[test]
fn task4_what_is_set_twice_goes_back_to_the_first() {
    let (graph, mut metas) = ready();
    let (x, before) = (operand(&graph, "x"), metas.clone());
    let mut update = Update::new(&graph, &mut metas);
    update.set(x, Some(f32s(&[1, 3, 9, 9])));
    update.set(x, Some(f32s(&[1, 3, 7, 7])));
    update.undo();
    let stale: Vec<&str> =
        (graph.operators().iter().filter(|it| update.is_stale(it))).map(|it| it.name()).collect();
    assert!(stale.is_empty(), "nothing is changed any more, but {stale:?} would be inferred");
    assert_eq!(metas, before, "What was saved last must be restored first.");
}

#[test]
fn task4_the_largest_so_far() {
    let (a, b) = (OperandIndex::new(0), OperandIndex::new(1));
    let mut largest = vec![0; 2];
    let mut of = |lens: [i64; 2], changed: &[OperandIndex]| {
        larger(&lens.map(|len| Some(f32s(&[len]))), changed, &mut largest)
    };
    assert_eq!(of([10, 5], &[a, b]), [a, b], "40 and 20 bytes, where there was nothing before");
    assert_eq!(of([6, 6], &[a, b]), [b], "a became smaller: its buffer of 40 bytes stays; b needs 24");
    let hint = "a grows from 6 to 8 elements, but had 10 once: compare with the largest, not with the last";
    assert_eq!(of([8, 6], &[a]), [], "{hint}");
    assert_eq!(of([11, 99], &[a]), [a], "b is not among the changed operands");
    assert_eq!(larger(&[None, None], &[a], &mut [0, 0]), [], "an unknown operand has no size");
}
