mod calls;
mod indexing;
mod modules;
mod onnx;
mod torchscript;

use super::*;
use ixion_tensor::Limits;

/// A graph of the given lines after a header that counts them.
fn graph(lines: &[&str]) -> Graph {
    let outputs = |line: &&str| line.split_whitespace().nth(3).and_then(|count| count.parse::<usize>().ok());
    let operands: usize = lines.iter().filter_map(outputs).sum();
    let text = format!("7767517\n{} {operands}\n{}\n", lines.len(), lines.join("\n"));
    Graph::parse(&text, &Limits::default()).unwrap()
}

/// The source for operator lines that follow an input `x`.
fn source(lines: &[&str]) -> Result<String, PythonError> {
    graph(&[&["pnnx.Input in 0 1 x"], lines].concat()).to_python("m")
}

/// The statements of `forward` for operator lines that follow an input `x`.
fn forward(lines: &[&str]) -> Vec<String> {
    let source = source(lines).unwrap();
    // The head of a detector is a class of its own before the model.
    let (_, body) = source.rsplit_once("def forward(").unwrap();
    body.lines()
        .skip(1)
        .map(str::trim)
        .take_while(|line| !line.starts_with("return"))
        .map(str::to_owned)
        .collect()
}

/// The statements of `__init__` before `self.eval()`, apart from those that it always has.
fn init(lines: &[&str]) -> Vec<String> {
    let source = source(lines).unwrap();
    let (_, body) = source.split_once("super().__init__()\n        weights = Weights(weights)\n").unwrap();
    let lines = body.lines().map(str::trim).take_while(|line| !line.starts_with("self.eval()"));
    lines.map(str::to_owned).collect()
}

/// The problems of operators that cannot be written.
fn problems(lines: &[&str]) -> Vec<String> {
    source(lines).unwrap_err().operators.iter().map(|operator| operator.problem.to_string()).collect()
}

#[test]
fn a_small_graph_has_this_source() {
    let graph = graph(&[
        "pnnx.Input in_0 0 1 0 #0=(1,3,8,8)f32",
        "nn.Conv2d conv.0 1 1 0 1 bias=True in_channels=3 kernel_size=(3,3) out_channels=2 @bias=(2)f32 @weight=(2,3,3,3)f32",
        "F.relu relu 1 1 1 2 $input=1",
        "pnnx.Attribute offset 0 1 3 @data=(1)f32",
        "pnnx.Expression expr 2 1 2 3 4 expr=add(mul(@0,0.5),@1)",
        "torch.cat cat 2 1 4 2 5 dim=1",
        "Tensor.reshape flat 1 1 5 6 shape=(0,-1) $input=5",
        "Tensor.slice part 1 1 6 7 dim=1 end=2147483647 start=2 step=1 $input=6",
        "prim::TupleConstruct both 2 1 7 4 8",
        "pnnx.Output out 1 0 8",
    ]);
    let source = graph.to_python("small").unwrap();
    let (_, model) = source.split_once("class Model").unwrap();
    let (model, _) = model.split_once("\n\n\n").unwrap();
    insta::assert_snapshot!(model, @r#"
    (nn.Module):
        def __init__(self, weights=WEIGHTS):
            super().__init__()
            weights = Weights(weights)
            self.m_conv_0 = nn.Conv2d(in_channels=3, kernel_size=(3, 3), out_channels=2)
            weights.fill(self.m_conv_0, "conv.0", {
                "bias": (torch.float, (2,)),
                "weight": (torch.float, (2, 3, 3, 3)),
            })
            keep(self, "m_offset", weights.tensor("offset.data", torch.float, (1,)))
            self.eval()

        def forward(self, v_0):
            v_1 = self.m_conv_0(v_0)
            v_2 = F.relu(v_1)
            v_4 = v_2 * 0.5 + self.m_offset
            v_5 = torch.cat((v_4, v_2), dim=1)
            v_6 = v_5.reshape((v_5.size(0), -1))
            v_7 = v_6[:, 2:]
            return (v_7, v_4)
    "#);
}

#[test]
fn helpers_and_libraries_appear_when_they_are_needed() {
    let plain = graph(&["pnnx.Input in 0 1 x", "nn.ReLU a 1 1 x y", "pnnx.Output out 1 0 y"]);
    let plain = plain.to_python("m").unwrap();
    for absent in ["def part", "def index", "def call", "import torchvision", "Weights(weights)"] {
        assert!(!plain.contains(absent), "{absent}");
    }
    assert!(plain.contains("with_name(\"m.bin\")"));
    let used = source(&[
        "Tensor.index at 1 1 x y expr=[None,[1,0]]",
        "torchvision.ops.RoIAlign roi 2 1 y x z output_size=(3,3)",
        "pnnx.Output out 1 0 z",
    ]);
    let used = used.unwrap();
    assert!(used.contains("def index") && used.contains("import torchvision\n"));
    assert!(used.contains("self.m_roi = torchvision.ops.RoIAlign(output_size=(3, 3))"));
    assert!(used.contains("v_y = torch.ops.aten.index(v_x, index([None, [1, 0]]))"));
}

#[test]
fn operators_that_pytorch_lacks_are_listed() {
    let lines = [
        "models.Block a 1 1 x y",
        "torch.x();evil b 1 1 y z",
        "Blur c 2 1 y z w",
        "prim::If d 1 1 w u",
        "pnnx.Expression e 1 1 u s expr=add(@0",
        "F.relu f 1 1 s r $input=s",
        "aten::fill_ g 1 0 r",
        "nn.quantized.dynamic.Linear h 1 1 r q",
        "pnnx.Attribute i 0 1 p",
    ];
    let error = source(&lines).unwrap_err();
    insta::assert_snapshot!(error, @r"
    8 operators cannot be written as Python:
      line 4: models.Block `a`: a module of the model, which PNNX kept whole; export it without `moduleop`
      line 5: torch.x();evil `b`: PyTorch has nothing of this name
      line 6: Blur `c`: no operator of ONNX that can be written; a module of the model must be exported without `moduleop`
      line 7: prim::If `d`: a statement of TorchScript, of which the file lacks the body; trace the model instead of scripting it
      line 8: pnnx.Expression `e`: expression `add(@0`, column 1: `add` requires 2 argument(s), found 1
      line 10: aten::fill_ `g`: a statement of TorchScript, of which the file lacks the body; trace the model instead of scripting it
      line 11: nn.quantized.dynamic.Linear `h`: PyTorch has nothing of this name
      line 12: pnnx.Attribute `i`: missing `@data`
    ");
}

#[test]
fn nothing_in_a_file_becomes_code() {
    let source = graph(&[
        "pnnx.Input in 0 1 x",
        "F.relu a 1 1 x y k\");evil(=1 mode=\");evil(\"",
        "nn.ReLU b\");evil(\" 1 1 y z",
        "aten::x\");evil(\" c 1 1 z w",
        "pnnx.Output out 1 0 w",
    ])
    .to_python("m\");evil(\"");
    let source = source.unwrap();
    assert!(source.contains(r#"v_y = F.relu(v_x, mode="\");evil(\"", **{"k\");evil(": 1})"#), "{source}");
    assert!(source.contains(r#"with_name("m\");evil(\".bin")"#), "{source}");
    assert!(source.contains("self.m_b___evil__ = nn.ReLU()"), "{source}");
    assert!(source.contains(r#"v_w = call("aten::x\");evil(\"", v_z)"#), "{source}");
}

#[test]
fn several_outputs_are_a_tuple() {
    let source =
        graph(&["pnnx.Input a 0 1 x", "pnnx.Input b 0 1 y", "pnnx.Output c 1 0 x", "pnnx.Output d 1 0 y"])
            .to_python("m");
    let source = source.unwrap();
    assert!(source.contains("def forward(self, v_x, v_y):\n        return (v_x, v_y)\n"), "{source}");
}
