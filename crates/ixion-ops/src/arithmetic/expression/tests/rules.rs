//! Shapes, symbols, lists, and errors.

use super::*;

fn infer(text: &str, inputs: &[TensorMeta]) -> TensorMeta {
    layer(text).unwrap().infer(inputs).unwrap().remove(0)
}

fn error(text: &str, inputs: &[Tensor]) -> String {
    run(text, inputs).unwrap_err().to_string()
}

fn symbol(name: &str) -> Dim {
    Dim::symbol(name)
}

#[test]
fn shapes_are_symbolic() {
    let image = |h: Dim, w: Dim| TensorMeta::new(DType::F32, [Dim::Fixed(1), Dim::Fixed(3), h, w]);
    let (a, b) = (image(symbol("h"), symbol("w")), image(Dim::Fixed(1), Dim::Fixed(224)));
    let bias = TensorMeta::new(DType::F16, [3, 1, 1]);
    let sum = infer("add(mul(@0,@1),@2)", &[a.clone(), b, bias]);
    assert_eq!(sum.to_string(), "1×3×h×224 f32");
    let other = image(symbol("h"), symbol("v"));
    assert_eq!(infer("sub(@0,@1)", &[a, other]).to_string(), "1×3×h×max(v, w) f32");
}

#[test]
fn sizes_stay_symbolic() {
    let x = TensorMeta::new(DType::F32, [symbol("n"), Dim::Fixed(12), symbol("h")]);
    let values =
        |text: &str| infer(text, std::slice::from_ref(&x)).values().map(<[Dim]>::to_vec).unwrap_or_default();
    let shown = |text: &str| values(text).iter().map(Dim::to_string).collect::<Vec<_>>().join(", ");
    assert_eq!(shown("size(@0)"), "n, 12, h");
    assert_eq!(shown("[size(@0,0),floor_divide(size(@0,1),4),-1]"), "n, 3, -1");
    assert_eq!(shown("floor_divide(add(size(@0,-1),mul(2,3)),2)"), "h / 2 + 3");
    assert_eq!(shown("int(div(size(@0,2),2))"), "h / 2");
    assert_eq!(shown("[ceil(div(size(@0,2),2)),int(floor(mul(size(@0,2),2.0)))]"), "(h + 1) / 2, h * 2");
    assert_eq!(shown("max(size(@0,0),min(size(@0,2),3))"), "max(n, min(h, 3))");
    assert_eq!(shown("remainder(size(@0,2),4)"), "h - (h / 4) * 4");
    assert_eq!(shown("int(mul(size(@0,1),0.3))"), "3", "a number that no rule yields is computed");
    assert_eq!(shown("int(mul(size(@0,2),0.3))"), "", "unknown");
    assert_eq!(shown("int(div(sub(size(@0,2),9),2))"), "", "it may be negative");
    assert_eq!(shown("floor_divide(size(@0,2),0)"), "", "an error when it runs");
    assert_eq!(shown("[size(@0,2),int(mul(size(@0,2),0.3))]"), "");
    let squares = (0..60).fold("size(@0,2)".to_owned(), |inner, _| format!("square({inner})"));
    assert!(shown(&squares).len() < 5_000, "too long to be useful");
}

#[test]
fn known_values_pass_through() {
    let sizes = TensorMeta::new(DType::I64, [2]).with_values(vec![symbol("h"), Dim::Fixed(7)]);
    let scale = TensorMeta::new(DType::I64, [0; 0]).with_values(vec![Dim::Fixed(2)]);
    let shown = |text: &str| -> Vec<String> {
        let meta = infer(text, &[sizes.clone(), scale.clone()]);
        meta.values().unwrap_or_default().iter().map(Dim::to_string).collect()
    };
    assert_eq!(shown("add(mul(@0,@1),1)"), ["h * 2 + 1", "15"]);
    assert_eq!(shown("[@1,3]"), ["2", "3"]);
    assert_eq!(shown("xor(@1,3)"), ["1"]);
    assert!(shown("mul(@0,1.5)").is_empty(), "floats have none");
    let long = TensorMeta::new(DType::I64, [65]);
    assert_eq!(infer("add(@0,1)", &[long]).values(), None);
}

#[test]
fn lists_of_integers_and_of_indices() {
    let (one, row) = (Tensor::scalar(5i32), tensor(&[7i64, 8, 9], &[3]));
    let list = |text: &str, inputs: &[Tensor]| run(text, inputs).unwrap();
    let sizes = list("[@0,-1,add(@0,2)]", &[one]);
    assert_eq!((sizes.dtype(), sizes.to_vec::<i64>().unwrap()), (DType::I64, vec![5, -1, 7]));
    let stack = list("[@0,@1]", &[row.clone(), tensor(&[1u8], &[1])]);
    assert_eq!((stack.shape().dims(), stack.to_vec::<i64>().unwrap()), (&[2, 3][..], vec![7, 8, 9, 1, 1, 1]));
    let mask = list("[@0]", &[tensor(&[true, false], &[2])]);
    assert_eq!((mask.dtype(), mask.shape().dims()), (DType::Bool, &[1, 2][..]));
    assert_eq!(list("[]", &[]).shape().dims(), [0]);
    assert_eq!(list("[@0]", &[Tensor::zeros(DType::I64, &[0]).unwrap()]).shape().dims(), [1, 0]);
    assert!(error("[@0,1.5]", std::slice::from_ref(&row)).contains("item 1 of the list"));
    assert!(error("[@0,@1]", &[row, tensor(&[true], &[1])]).contains("only Tensor.index"));
}

#[test]
fn expressions_other_than_arithmetic_are_refused() {
    let text = |text: &str| layer(text).unwrap_err().to_string();
    for index in ["[None,[1,0]]", "[[2,1],[0,1]]", "[True,False]", "[1,all]"] {
        assert!(text(index).contains("only Tensor.index supports"), "{index}");
    }
    assert!(text("bilinear").contains("`bilinear` in an expression: expected a number"));
    assert!(text("add(@0,None)").contains("expected a number; PNNX has lost a constant"));
    assert!(text("None").contains("zero points of one element in quantised ONNX files"));
    assert!(text("add([1,2],3)").contains("a list can only be the whole expression"));
    assert!(text("add(size(@0),1)").contains("can only stand alone"));
    assert!(text("size(@0,@1)").contains("must be an integer"));
    assert_eq!(
        text("add(@0)"),
        "parameter `expr` is `add(@0)`: column 1: `add` requires 2 argument(s), found 1"
    );
    assert!(layer("torch.float").is_err());
}

#[test]
fn wrong_inputs_are_errors() {
    let x = || tensor(&[1i64, 2], &[2]);
    assert!(error("add(@0,@1)", &[x()]).contains("expected at least 2"));
    assert_eq!(layer("add(@0,@4)").unwrap().num_inputs(), 5..=usize::MAX);
    assert!(error("size(@0,1)", &[x()]).contains("axis 1 is out of range"));
    assert!(error("size(@0,0)", &[Tensor::scalar(1f32)]).contains("expected an axis"));
    assert!(error("remainder(@0,0)", &[x()]).contains("remainder: an integer is divided by zero"));
    assert!(error("pow(@0,-2)", &[x()]).contains("negative power -2"));
    assert_eq!(error("lshift(@0,2.0)", &[x()]), "`lshift`: expected integers, got f32");
    let y = tensor(&[1i64, 2, 3], &[3]);
    assert!(error("add(@0,@1)", &[x(), y]).contains(r#"["2"] and ["3"]"#));
}

#[test]
fn only_the_key_expr_is_known() {
    let create = |keys: &[&str]| {
        let params = keys.iter().map(|key| (key.to_string(), RuntimeParameter::parse("1"))).collect();
        let names = [Some("input".to_owned()), Some("other".to_owned())];
        let registry = Registry::default();
        let creator = registry.get("pnnx.Expression").unwrap();
        creator
            .create(OperatorReader::new(&params, &BTreeMap::new(), &names, 1))
            .map_err(|error| error.to_string())
    };
    assert!(create(&["expr", "alpha"]).unwrap_err().contains("`alpha`"));
    assert!(create(&[]).unwrap_err().contains("missing parameter `expr` (an expression)"));
    assert!(create(&["expr"]).is_ok());
}

#[test]
fn no_value_is_computed_for_its_size() {
    // The division by zero would be an error.
    let x = tensor(&[1i64, 2, 3], &[3]);
    assert_eq!(run("size(floor_divide(@0,0),0)", &[x]).unwrap().item::<i64>().unwrap(), 3);
}

#[test]
fn a_long_expression_needs_few_registers_and_no_recursion_that_overflows() {
    let deep = (0..400).fold("@0".to_owned(), |inner, _| format!("add(neg({inner}),1.5)"));
    assert!(ixion_pnnx::Expr::parse(&deep).is_err(), "the parser bounds the depth");
    let wide = (0..200).fold("@0".to_owned(), |inner, n| format!("add({inner},mul(@1,{n}))"));
    let (x, y) = (tensor(&[0i64; 3000], &[3000]), tensor(&[2i64], &[1]));
    assert_eq!(run(&wide, &[x, y]).unwrap().to_vec::<i64>().unwrap(), [199 * 200; 3000]);
}

#[test]
fn an_output_of_any_layout_is_filled() {
    let mut layer = layer("add(@0,1)").unwrap();
    let x = tensor(&[1f32, 2.0, 3.0, 4.0], &[2, 2]);
    let mut memory = [0f32; 8];
    let (mut workspace, limits) = (Workspace::new().unwrap(), Limits::default());
    let layout =
        ixion_tensor::Layout::strided(ixion_tensor::Shape::new(&[2, 2]).unwrap(), &[1, 4], 1).unwrap();
    let output = TensorViewMut::from_slice(&mut memory, layout).unwrap();
    let mut context = ForwardContext::new(&mut workspace, &limits);
    layer.forward(&mut Io::new(&[x.view()], &mut [output], &mut context)).unwrap();
    assert_eq!(memory, [0.0, 2.0, 4.0, 0.0, 0.0, 3.0, 5.0, 0.0]);
}

#[test]
fn a_deadline_ends_the_run() {
    let mut layer = layer("exp(@0)").unwrap();
    let (x, mut y) = (tensor(&[1f32], &[1]), tensor(&[0f32], &[1]));
    let limits = Limits::default().with_timeout(std::time::Duration::ZERO);
    let mut workspace = Workspace::new().unwrap();
    let mut context = ForwardContext::new(&mut workspace, &limits);
    assert!(layer.forward(&mut Io::new(&[x.view()], &mut [y.view_mut().unwrap()], &mut context)).is_err());
}
