//! What layers take, and what an engine settles on.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use ixion::Limits;
use ixion::engine::{Builder, Plan};
use ixion::graph::{
    CpuLayer, Creator, ForwardContext, Layer, LayerError, Registry, TensorFormat, TensorMeta,
};
use ixion::pnnx;
use ixion::tensor::{Format, Tensor, TensorView, TensorViewMut};

const C16: Format = Format::Blocked { axis: 1, block: 16 };

fn graph(text: &str) -> pnnx::Graph {
    let text = format!("7767517\n{} 0\n{text}\n", text.lines().count());
    pnnx::Graph::parse(&text, &Limits::default()).unwrap()
}

fn builder(text: &str) -> Builder {
    Builder::from_pnnx(graph(text))
}

fn reformats(plan: &Plan) -> usize {
    plan.graph().operators().iter().filter(|operator| operator.op_type() == "ixion.Reformat").count()
}

fn noise(dims: &[usize]) -> Tensor {
    let len: usize = dims.iter().product();
    let values = (0..len).map(|i| ((i * 37) % 101) as f32 * 0.02 - 1.0).collect();
    Tensor::from_vec(values, dims).unwrap()
}

/// Copies its input; takes what it is told to take.
#[derive(Debug, Clone)]
struct Picky(Takes);

type Takes = fn(usize, &[TensorFormat]) -> bool;

impl Layer for Picky {
    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>, LayerError> {
        Ok(vec![inputs[0].with_dims(inputs[0].dims().to_vec())])
    }
}

impl CpuLayer for Picky {
    fn supports(&self, position: usize, formats: &[TensorFormat]) -> bool {
        (self.0)(position, formats)
    }

    fn forward(
        &mut self,
        inputs: &[TensorView<'_>],
        outputs: &mut [TensorViewMut<'_>],
        _: &mut ForwardContext<'_>,
    ) -> Result<(), LayerError> {
        let (from, to) = (inputs[0].layout().unrolled()?, outputs[0].layout().unrolled()?);
        assert_eq!(inputs[0].layout().format(), outputs[0].layout().format());
        Ok(outputs[0].reborrow().with_layout(to)?.copy_from(&inputs[0].with_layout(from)?)?)
    }
}

fn picky(takes: &[(&str, Takes)]) -> Registry {
    let mut registry = Registry::default();
    for &(op_type, takes) in takes {
        let create =
            move |_: &mut ixion::graph::OperatorReader<'_>| Ok(Box::new(Picky(takes)) as Box<dyn CpuLayer>);
        registry.add(op_type, Creator::new("test", "1", create)).unwrap();
    }
    registry
}

fn same(formats: &[TensorFormat], wanted: Format) -> bool {
    formats.iter().all(|format| format.format == wanted)
}

#[test]
fn no_combination_is_an_error_that_says_what_each_side_offered() {
    let registry = picky(&[("my.Never", |position, formats| position == 0 && same(formats, Format::Plain))]);
    let text = "pnnx.Input in 0 1 x #x=(2,4)f32\nmy.Never never 1 1 x y\npnnx.Output out 1 0 y";
    let error = builder(text).with_registry(registry).build().unwrap_err().to_string();
    assert!(
        error.contains("my.Never `never`")
            && error.contains("input 0 (`x`): takes f32, refuses f32 16c, f32 8c")
            && error.contains("output 0 (`y`): takes nothing, refuses f32"),
        "{error}"
    );
}

#[test]
fn a_conversion_is_made_once_for_all_of_its_readers() {
    let registry = picky(&[
        ("my.Blocked", |_, formats| same(formats, C16)),
        ("my.Plain", |_, formats| same(formats, Format::Plain)),
    ]);
    let text = "pnnx.Input in 0 1 x #x=(2,20,3)f32\nmy.Blocked a 1 1 x a\nmy.Blocked b 1 1 x b\nmy.Plain c 1 1 x c\n\
                my.Plain d 1 1 a d\nmy.Plain e 1 1 a e\npnnx.Output out 6 0 a b c d e a";
    let plan = builder(text).with_registry(registry).build().unwrap();
    // x in blocks for a and b; a and b plain, each for all who read or return it.
    assert_eq!(reformats(&plan), 3);
    let x = noise(&[2, 20, 3]);
    let outputs = plan.context().unwrap().run(&[x.clone()]).unwrap();
    assert!(outputs.len() == 6 && outputs.iter().all(|output| *output == x));
    assert!(["a", "b", "c", "d", "e"].iter().all(|name| plan.output(name).is_some()), "names stay");
}

#[test]
fn a_layer_that_panics_when_it_is_asked_is_named() {
    let registry = picky(&[("my.Panics", |_, _| panic!("I was asked"))]);
    let text = "pnnx.Input in 0 1 x #x=(2,4)f32\nmy.Panics p 1 1 x y\npnnx.Output out 1 0 y";
    let error = builder(text).with_registry(registry).build().unwrap_err().to_string();
    assert!(error.contains("my.Panics `p`") && error.contains("I was asked"), "{error}");
}
