//! Task 6: a panic is an error; and a network of your plugin, from code to file and back.

use super::*;

#[test]
fn task6_results_are_passed_on() {
    assert_eq!(ok(catch_panic(|| Ok(7)), "Nothing happened."), 7);
    let error = catch_panic(|| -> Result<(), _> { Err(LayerError::Unsupported("no".to_owned())) });
    assert!(
        matches!(&error, Err(LayerError::Unsupported(text)) if text == "no"),
        "an error is not a panic: {error:?}"
    );
}

/// The text of a panic that was caught.
fn caught(call: impl FnOnce()) -> String {
    let result = catch_panic(|| {
        call();
        Ok(())
    });
    match result {
        Err(LayerError::Panic(text)) => text,
        other => format!("not LayerError::Panic, but {other:?}"),
    }
}

#[test]
fn task6_the_message_of_a_panic_is_kept() {
    let hint = "a message without arguments is a `&str`; do you examine the box instead of its contents?";
    assert_eq!(caught(|| panic!("too late")), "too late", "{hint}");
    let wanted = 3;
    assert_eq!(caught(|| panic!("{wanted} wanted")), "3 wanted", "a message with arguments is a `String`");
}

#[test]
fn task6_a_payload_need_not_be_text() {
    assert_eq!(caught(|| std::panic::panic_any(42)), "without a message", "the payload can be any type");
}

#[test]
fn task6_a_real_mistake_is_an_error_with_its_message() {
    let empty: Vec<f32> = std::hint::black_box(Vec::new());
    let text = caught(|| assert_eq!(empty[std::hint::black_box(3)], 0.0));
    assert!(text.contains("the len is 0 but the index is 3"), "Rust's own message must be kept: {text}");
}

#[test]
fn task6_earlier_changes_are_visible() {
    let mut done = Vec::new();
    let text = caught(|| {
        done.push(1);
        panic!("half way");
    });
    assert_eq!((text.as_str(), &done[..]), ("half way", &[1][..]), "the call may change what it borrows");
}

/// Your registry, your plugin, its defaults: from a network in code to a file, and from the file to the guide's numbers.
#[test]
fn task6_a_plan_with_your_plugin_is_saved_loaded_and_run() {
    ok(catch_panic(|| Ok(())), "Nothing happened.");
    let registry = || {
        let mut registry = Registry::default();
        let name = ok(
            add(&mut registry, "CopyConcat", Creator::plugin::<CopyConcat>("mine", "1")),
            "The name is free.",
        );
        assert_eq!(name.to_string(), "mine/CopyConcat/1");
        registry
    };
    let folder = tempfile::tempdir().unwrap();
    let (x, y) = ([72.438, 32.25, 77.625, 82.625], [96.438, 9.562, 47.094, 70.188]);
    for dtype in [DType::F32, DType::F16] {
        let path = folder.path().join(format!("{dtype}.plan"));
        let network = both("mine/CopyConcat/1", registry(), dtype);
        let plan = ok(ok(network.builder(), "The network is complete.").build(), "It can be built.");
        ok(plan.save(&path), "It can be saved.");
        refuses_without_the_plugin(&path);

        let file = ok(PlanFile::open(&path, &Limits::default()), "It was just written.");
        let plan = ok(file.with_registry(registry()).load(), "The plugin is there.");
        let [x, y] = [x, y].map(|values| tensor(&[1, 2, 2], &values).cast(dtype).unwrap());
        let outputs = ok(ok(plan.context(), "A clone.").run(&[x.clone(), y.clone()]), "It runs.");
        assert_eq!(outputs[0], y, "output 1 is the second input");
        assert_eq!(outputs[1].shape().dims(), [1, 4, 2], "output 2 is both along axis 1");
        let bytes = |tensor: &Tensor| tensor.to_le_bytes().unwrap();
        assert_eq!(
            bytes(&outputs[1]),
            [bytes(&x), bytes(&y)].concat(),
            "{dtype}: the first input, then the second"
        );
    }
}

/// Checks that loading a plan without its plugin names the plugin.
#[track_caller]
fn refuses_without_the_plugin(path: &Path) {
    let plan = ok(PlanFile::open(path, &Limits::default()), "It was just written.").load();
    let error = plan.map(drop).unwrap_err().to_string();
    assert!(error.contains("mine/CopyConcat/1"), "the error must name the missing plugin: {error}");
}
