//! Failures while a model is built or run: they are reported, and the context remains usable.

use super::*;

#[test]
fn a_panic_is_caught_and_named_and_the_context_runs_on() {
    let text = with("test.Fragile", 1);
    let plan = plan(&text);
    let mut context = plan.context().unwrap();
    let (good, bad) = (floats(&[1.0, 2.0]), floats(&[1.0, -2.0]));
    assert_eq!(values(&context.run(&[good.clone()]).unwrap()[0]), [1.0, 2.0]);
    let error = context.run(&[bad]).unwrap_err();
    assert!(
        matches!(&error, EngineError::Panic { message, .. } if message.contains("a negative number")),
        "{error}"
    );
    assert!(error.to_string().starts_with("test.Fragile `layer` panicked"), "{error}");
    assert_eq!(values(&context.run(&[good]).unwrap()[0]), [1.0, 2.0]);
}

#[test]
fn a_panic_before_anything_is_computed_is_caught_too() {
    let plan = plan(&with("test.Touchy", 1));
    let mut context = plan.context().unwrap();
    let vector = |len: usize| floats(&vec![1.0; len]);
    for (len, method) in TOUCHY {
        for _ in 0..2 {
            let error = context.run(&[vector(len)]).unwrap_err();
            assert!(matches!(&error, EngineError::Panic { .. }), "{method}: {error}");
            let text = format!("test.Touchy `layer` panicked: touched in {method}");
            assert!(error.to_string().contains(&text), "{error}");
        }
        assert_eq!(context.run(&[vector(3)]).unwrap(), [vector(3)]);
    }
}

#[test]
fn a_layer_that_panics_when_it_is_cloned_is_named() {
    let plan = plan(&with("test.Shy", 1));
    let (good, bad) = (floats(&[1.0, 2.0]), floats(&[-1.0]));
    let mut context = plan.context().unwrap();
    let error = plan.context().unwrap_err().to_string();
    assert!(error.starts_with("test.Shy `layer` panicked: touched in clone"), "{error}");
    // The run after a failure creates a new clone, and retries if that failed.
    for wanted in ["a negative number", "a negative number", "touched in clone"] {
        let error = context.run(&[bad.clone()]).unwrap_err().to_string();
        assert!(error.contains(&format!("panicked: {wanted}")), "{error}");
    }
    assert_eq!(context.run(&[good.clone()]).unwrap(), [good]);
}

#[test]
fn limits_of_activations_name_the_operator() {
    let x = Tensor::zeros(DType::F32, &[100, 4]).unwrap();
    for (limits, words) in [
        (
            Limits { max_tensor_bytes: 1000, ..Limits::default() },
            "input `x`: 1600 exceeds the limit max_tensor_bytes of 1000",
        ),
        (
            Limits { max_total_bytes: 1000, ..Limits::default() },
            "`a`: the memory for all activations: 1600 exceeds the limit max_total_bytes of 1000",
        ),
    ] {
        let plan =
            Builder::from_pnnx(graph(CHAIN)).with_limits(limits).with_passes(ixion::passes::Passes::empty());
        let error = plan.build().unwrap().context().unwrap().run(&[x.clone()]).unwrap_err().to_string();
        assert!(error.contains(words), "{error}");
    }
    let wide = "pnnx.Input input 0 1 x #x=(?)f32\ntorch.cat square 2 1 x x y dim=0\npnnx.Output output 1 0 y";
    let limits = Limits { max_tensor_bytes: 700, ..Limits::default() };
    let plan = Builder::from_pnnx(graph(wide)).with_limits(limits).build().unwrap();
    let error = plan.context().unwrap().run(&[floats(&[1.0; 100])]).unwrap_err().to_string();
    assert!(error.contains("torch.cat `square`: its output `y`: 800 exceeds"), "{error}");
}

#[test]
fn a_build_that_takes_too_long_does_not_speak_of_a_run() {
    let limits = Limits::default().with_timeout(Duration::ZERO);
    let error = Builder::new(DIGITS).with_limits(limits).build().unwrap_err().to_string();
    assert!(error.starts_with("the model was not built: pass `") && !error.contains("run"), "{error}");
}

#[test]
fn duplicate_arguments_are_rejected() {
    let plan = plan(CACHE);
    let mut context = plan.context().unwrap();
    let (x, mut y) = (floats(&[1.0; 4]), floats(&[0.0; 4]));
    let twice = context.request().input("cache", x.view()).unwrap().input("c", x.view());
    let error = twice.map(|_| ()).unwrap_err();
    assert_eq!(error.to_string(), "input `c` is given twice; give it once");
    let mut other = y.deep_copy().unwrap();
    let request = context.request().output("next", y.view_mut().unwrap()).unwrap();
    let error = request.output("next", other.view_mut().unwrap()).map(|_| ()).unwrap_err();
    assert_eq!(error.to_string(), "the buffer for output `next` is given twice; give it once");
    let shape = || "n".parse().unwrap();
    let builder = Builder::from_pnnx(graph(CACHE)).with_registry(registry());
    let built = builder.with_shape("cache", shape()).with_shape("cache", shape()).build();
    let error = built.map(|_| ()).unwrap_err().to_string();
    assert_eq!(error, "the shape of input `cache` is given twice; give it once");
}

#[test]
fn a_graph_that_is_built_has_no_file_to_improve() {
    let mut built = RuntimeGraph::new(DIGITS);
    built.build().unwrap();
    let error = Builder::from_graph(built).build().unwrap_err();
    assert!(error.to_string().contains("before calling `build`"), "{error}");
}

#[test]
fn a_run_can_be_cancelled_from_another_thread() {
    let text = with("test.Endless", 1);
    let plan = plan(&text);
    let mut context = plan.context().unwrap();
    let token = context.cancel_token();
    let ended = std::thread::scope(|scope| {
        let (sender, waiting) = std::sync::mpsc::channel();
        let run = scope.spawn(|| {
            tell_when_waiting(sender);
            context.run(&[floats(&[1.0])])
        });
        waiting.recv().unwrap();
        token.cancel();
        run.join().unwrap()
    });
    assert!(matches!(ended, Err(EngineError::Cancelled { .. })), "{ended:?}");
    // A layer that sees 0 does not wait.
    assert_eq!(values(&context.run(&[floats(&[0.0])]).unwrap()[0]), [0.0]);
    token.cancel();
    assert!(matches!(context.run(&[floats(&[0.0])]), Err(EngineError::Cancelled { .. })));
    assert!(context.run(&[floats(&[0.0])]).is_ok());
}

#[test]
fn a_run_that_takes_too_long_ends() {
    let text = with("test.Endless", 1);
    let plan = plan(&text);
    let mut context = plan.context().unwrap();
    context.set_timeout(Some(Duration::from_millis(10)));
    let error = context.run(&[floats(&[1.0])]).unwrap_err();
    assert!(matches!(error, EngineError::TimedOut { .. }), "{error}");
    assert!(error.to_string().contains("test.Endless `layer`"), "{error}");
    context.set_timeout(Some(Duration::from_secs(600)));
    assert!(context.run(&[floats(&[0.0])]).is_ok());
    context.set_timeout(None);
    assert!(context.run(&[floats(&[0.0])]).is_ok());
}

#[test]
fn a_deadline_that_passes_while_memory_is_planned_is_a_timeout() {
    let plan = plan(&with("test.Touchy", 1));
    let mut context = plan.context().unwrap();
    let error = context.run(&[floats(&[1.0; TIMES_OUT])]).unwrap_err();
    assert!(matches!(&error, EngineError::TimedOut { place } if place.name == "layer"), "{error}");
    assert!(context.run(&[floats(&[1.0; 3])]).is_ok());
}

#[test]
fn after_a_timeout_all_layers_are_available() {
    let text = "pnnx.Input input 0 1 x #x=(?)f32\ntest.Endless first 1 1 x y\ntest.Endless second 1 1 y z\npnnx.Output output 1 0 z";
    let plan = plan(text);
    let mut context = plan.context().unwrap();
    for _ in 0..2 {
        context.set_timeout(Some(Duration::from_millis(300)));
        let error = context.run(&[floats(&[1.0])]).unwrap_err();
        assert!(matches!(error, EngineError::TimedOut { .. }), "{error}");
        context.set_timeout(Some(Duration::from_secs(600)));
        assert_eq!(values(&context.run(&[floats(&[0.0])]).unwrap()[0]), [0.0]);
    }
}
