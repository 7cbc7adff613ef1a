//! Task 5: a plugin with a life cycle.

use super::*;

fn smooth(kernel: &[f64]) -> Smooth {
    Smooth { kernel: kernel.to_vec(), weights: State(None), row: State(None) }
}

/// A configured and initialised layer for rows of this length.
#[track_caller]
fn ready(row: usize) -> Smooth {
    let mut layer = smooth(&[1.0, 2.0, 1.0]);
    ok(layer.configure(&[numbers(&[1, row])], &[numbers(&[1, row])]), "A number is a length.");
    ok(layer.initialize(), "Nothing can go wrong.");
    layer
}

#[test]
fn task5_initialize_prepares_what_lasts() {
    let mut layer = smooth(&[1.0, 2.0, 1.0]);
    ok(layer.initialize(), "It must not depend on `configure`: a loaded plan initialises first.");
    let weights = layer.weights.0.as_deref().unwrap_or_default();
    assert_eq!(weights, [0.25, 0.5, 0.25], "1, 2, 1 divided by their sum");
    assert_eq!(layer.kernel, [1.0, 2.0, 1.0], "the parameter stays as it was");
}

#[test]
fn task5_terminate_releases() {
    let mut layer = smooth(&[1.0, 3.0, 1.0]);
    ok(layer.initialize(), "Nothing can go wrong.");
    layer.terminate();
    assert!(layer.weights.0.is_none(), "`terminate` must release what `initialize` prepared");
    ok(layer.initialize(), "A layer may be initialised again.");
    assert_eq!(layer.weights.0.as_deref().unwrap_or_default(), [0.2, 0.6, 0.2]);
}

#[test]
fn task5_configure_records_the_last_shape() {
    let mut layer = smooth(&[1.0]);
    for row in [4, 7, 4] {
        ok(layer.configure(&[numbers(&[3, row])], &[numbers(&[3, row])]), "A number is a length.");
        assert_eq!(
            layer.row.0,
            Some(row),
            "`configure` is called again for each new shape, and the last one counts"
        );
    }
    let open = meta(&[3.into(), Dim::symbol("n")]);
    let result = layer.configure(std::slice::from_ref(&open), std::slice::from_ref(&open));
    assert!(matches!(result, Err(LayerError::Shape { .. })), "n is not a length: got {result:?}");
}

#[test]
fn task5_workspace_is_in_bytes() {
    let bytes = |kernel: &[f64], row| smooth(kernel).workspace(&[numbers(&[9, row])], &[numbers(&[9, row])]);
    let hint = "a row of 4, one more element on both sides: 6 elements of 4 bytes; one row at a time";
    assert_eq!(bytes(&[1.0, 2.0, 1.0], 4), 24, "{hint}");
    assert_eq!(bytes(&[1.0; 5], 4), 32, "a kernel of 5 needs two more on both sides");
    assert_eq!(bytes(&[1.0], 4), 16, "a kernel of 1 needs none");
    let mut layer = ready(4);
    ok(layer.configure(&[numbers(&[1, 2])], &[numbers(&[1, 2])]), "A number is a length.");
    let asked = layer.workspace(&[numbers(&[1, 100])], &[numbers(&[1, 100])]);
    assert_eq!(asked, 408, "compute it for the inputs that are passed");
}

#[test]
fn task5_a_spike_is_smoothed() {
    let mut layer = ready(4);
    let hint = "Was there enough scratch memory?";
    let output =
        forward(&mut layer, &[tensor(&[2, 4], &[0.0, 0.0, 4.0, 0.0, 8.0, 0.0, 0.0, 0.0])], hint).remove(0);
    let hint = "4 becomes 1, 2, 1. Beyond the end the last element repeats: (8 + 2·8 + 0) / 4 = 6.";
    check(&output, &[2, 4], &[0.0, 1.0, 2.0, 1.0, 6.0, 2.0, 0.0, 0.0], hint);
}

#[test]
fn task5_a_clone_is_initialised_and_has_its_own_state() {
    let original = ready(4);
    let mut clone = original.clone();
    let (Some(ours), Some(theirs)) = (&original.weights.0, &clone.weights.0) else {
        panic!("a clone is already initialised: `initialize` is not called for it");
    };
    assert!(Arc::ptr_eq(ours, theirs), "weights that never change are shared, not copied");
    ok(clone.configure(&[numbers(&[1, 2])], &[numbers(&[1, 2])]), "A number is a length.");
    assert_eq!((original.row.0, clone.row.0), (Some(4), Some(2)), "each context configures its own clone");
    let output = forward(&mut clone, &[tensor(&[1, 2], &[4.0, 0.0])], "It is initialised.").remove(0);
    check(&output, &[1, 2], &[3.0, 1.0], "(4 + 2·4 + 0) / 4 = 3.");
    let mut original = original;
    original.terminate();
    assert!(clone.weights.0.is_some(), "a clone that still runs keeps the weights");
}

#[test]
fn task5_state_comes_back() {
    for row in [1, 4, 300, 70_000] {
        let layer = ready(row);
        let bytes = ok(layer.serialize(), "A length can be written.");
        assert_eq!(bytes.len(), 8, "a length as u64; the plan itself stores parameters");
        let mut other = smooth(&[1.0, 2.0, 1.0]);
        ok(other.deserialize(&bytes), "These bytes were written by such a layer.");
        assert_eq!(other.row.0, Some(row), "is it written in one byte order and read in another?");
    }
    assert_eq!(
        ready(1).serialize().unwrap(),
        [1, 0, 0, 0, 0, 0, 0, 0],
        "little-endian: the least significant byte first"
    );
}

#[test]
fn task5_without_configuration_there_are_no_bytes() {
    let layer = smooth(&[1.0]);
    assert!(ok(layer.serialize(), "There is nothing to write.").is_empty());
    let mut layer = ready(4);
    ok(layer.deserialize(&[]), "No bytes: nothing was configured.");
    assert_eq!(layer.row.0, None, "the stored state must be restored");
}

#[test]
fn task5_damaged_state_is_rejected() {
    for len in [1, 4, 7, 9, 16] {
        let mut layer = ready(4);
        let result = asked(|| layer.deserialize(&vec![1; len]));
        let is_right = matches!(result, Err(LayerError::Unsupported(_)));
        assert!(is_right, "{len} bytes are not a length, the file may be damaged: got {result:?}");
        assert_eq!(layer.row.0, Some(4), "an error changes nothing");
    }
}

/// A network with one plugin, on rows of any length, that records its calls.
fn watched(diary: &Diary) -> Network {
    let mut network = Network::new().with_registry(watched::registry(diary));
    let plugin = "test/Watched/1".parse().unwrap();
    let x = network.add_input("x", DType::F32, ["n".into(), "m".into()]).unwrap();
    let fields = Fields::new().with_param("kernel", vec![1.0, 2.0, 1.0]);
    let y = ok(network.add_plugin(&plugin, "smooth", &[x], &fields), "The network accepts it.");
    network.mark_output(y[0], "y").unwrap();
    network
}

#[track_caller]
fn built(diary: &Diary) -> Plan {
    ready(1);
    let builder = ok(watched(diary).builder(), "The network is complete.");
    ok(builder.build(), "While a plan is built, `configure` comes first, then `initialize`.")
}

/// The calls since the last report; prints them as well.
fn report(diary: &Diary, when: &str) -> Vec<String> {
    let lines = watched::closed(diary);
    println!("{when}:\n  {}\n", lines.join("\n  "));
    lines
}

#[test]
fn task5_the_documented_order_while_it_is_built_and_saved() {
    let diary = Diary::default();
    let plan = built(&diary);
    let lines = report(&diary, "building");
    assert!(steps(&lines).ends_with(&["configure", "initialize"]), "{lines:#?}");
    assert!(
        !steps(&lines).contains(&"forward"),
        "there is only one candidate, so nothing is timed: {lines:#?}"
    );

    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("smooth.plan");
    ok(plan.save(&path), "State is written.");
    assert_eq!(steps(&report(&diary, "saving")), ["serialize"], "the plan is written");
    drop(plan);
    watched::closed(&diary);

    let file = ok(PlanFile::open(&path, &Limits::default()), "It was just written.");
    let plan = ok(file.with_registry(watched::registry(&diary)).load(), "The state is restored.");
    let lines = report(&diary, "loading");
    assert_eq!(steps(&lines), ["create", "deserialize", "initialize"], "loading: {lines:#?}");
    let row = tensor(&[1, 2], &[4.0, 0.0]);
    let output = ok(ok(plan.context(), "A clone.").run(&[row]), "The loaded plan runs.").remove(0);
    check(&output, &[1, 2], &[3.0, 1.0], "The loaded plan computes the same.");
}

#[test]
fn task5_the_documented_order_while_it_runs() {
    let diary = Diary::default();
    let plan = built(&diary);
    watched::closed(&diary);
    let mut context = ok(plan.context(), "A context has its own clone.");
    assert_eq!(
        steps(&report(&diary, "a context")),
        ["clone"],
        "a context: a clone, which is already initialised"
    );

    let mut run = |len: usize| {
        let output = ok(context.run(&[Tensor::ones(DType::F32, &[2, len]).unwrap()]), "It is configured.");
        check(&output[0], &[2, len], &vec![1.0; 2 * len], "The mean of ones is one.");
        let lines = report(&diary, &format!("a run on rows of {len}"));
        steps(&lines).into_iter().map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(run(3), ["configure", "workspace", "forward"], "the first run");
    assert_eq!(run(3), ["forward"], "the same shape again: only the arithmetic");
    assert_eq!(run(8), ["configure", "workspace", "forward"], "another shape");
    assert_eq!(run(3), ["configure", "forward"], "and back: the memory for this shape is already planned");

    drop(context);
    drop(plan);
    assert_eq!(
        steps(&report(&diary, "the end")),
        ["drop", "terminate", "drop"],
        "the clone, then the plan's layer"
    );
}

#[test]
fn task5_every_initialize_has_its_terminate() {
    let diary = Diary::default();
    let plan = built(&diary);
    let mut contexts: Vec<_> = (0..3).map(|_| ok(plan.context(), "A clone.")).collect();
    for (len, context) in (1..).zip(&mut contexts) {
        ok(context.run(&[Tensor::ones(DType::F32, &[1, len]).unwrap()]), "Each has its own row length.");
    }
    drop(contexts);
    drop(plan);
    let lines = watched::closed(&diary);
    let count = |what: &str| lines.iter().filter(|line| line.ends_with(what)).count();
    assert_eq!((count(": initialize"), count(": terminate")), (1, 1), "one plan, three contexts: {lines:#?}");
    let created = lines.iter().filter(|line| line.contains(" → ")).count();
    assert_eq!(count(": drop"), created, "every layer that was created is dropped: {lines:#?}");
}
