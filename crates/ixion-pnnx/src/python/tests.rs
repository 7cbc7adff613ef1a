use super::*;
use ixion_tensor::Limits;

/// A graph of the given lines after a header that counts them.
fn graph(lines: &[&str]) -> Graph {
    let outputs = |line: &&str| line.split_whitespace().nth(3).and_then(|count| count.parse::<usize>().ok());
    let operands: usize = lines.iter().filter_map(outputs).sum();
    let text = format!("7767517\n{} {operands}\n{}\n", lines.len(), lines.join("\n"));
    Graph::parse(&text, &Limits::default()).unwrap()
}

/// The statements of `forward` for operator lines that follow an input `x`.
fn forward(lines: &[&str]) -> Vec<String> {
    let all = [&["pnnx.Input in 0 1 x"], lines].concat();
    let source = graph(&all).to_python("m");
    let (_, body) = source.split_once("def forward(").unwrap();
    body.lines()
        .skip(1)
        .map(str::trim)
        .take_while(|line| !line.starts_with("return"))
        .map(str::to_owned)
        .collect()
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
    let source = graph.to_python("small");
    let (_, model) = source.split_once("class Model").unwrap();
    let (model, _) = model.split_once("\n\n\n").unwrap();
    insta::assert_snapshot!(model, @r#"
    (nn.Module):
        def __init__(self, weights=WEIGHTS):
            super().__init__()
            weights = Weights(weights)
            self.conv_0 = nn.Conv2d(bias=True, in_channels=3, kernel_size=(3, 3), out_channels=2)
            weights.fill(self.conv_0, "conv.0", {
                "bias": (torch.float, (2,)),
                "weight": (torch.float, (2, 3, 3, 3)),
            })
            keep(self, "offset", weights.tensor("offset.data", torch.float, (1,)))
            self.eval()

        def forward(self, v_0):
            v_1 = self.conv_0(v_0)
            v_2 = F.relu(v_1)
            v_3 = self.offset
            v_4 = v_2 * 0.5 + v_3
            v_5 = torch.cat((v_4, v_2), dim=1)
            v_6 = v_5.reshape((v_5.size(0), -1))
            v_7 = v_6[region(v_6, dims=(1,), starts=(2,), ends=(2147483647,), steps=(1,))]
            v_8 = (v_7, v_4)
            return v_8
    "#);
}

#[test]
fn helpers_and_libraries_appear_when_they_are_needed() {
    let plain = graph(&["pnnx.Input in 0 1 x", "pnnx.Output out 1 0 x"]).to_python("m");
    assert!(
        !plain.contains("def region")
            && !plain.contains("def index")
            && !plain.contains("import torchvision")
    );
    assert!(plain.contains("with_name(\"m.bin\")"));
    let used = graph(&[
        "pnnx.Input in 0 1 x",
        "Tensor.index at 1 1 x y expr=[None,[1,0]]",
        "torchvision.ops.RoIAlign roi 2 1 y x z output_size=(3,3)",
        "pnnx.Output out 1 0 z",
    ])
    .to_python("m");
    assert!(used.contains("def index") && used.contains("import torchvision\n"));
    assert!(used.contains("self.roi = torchvision.ops.RoIAlign(output_size=(3, 3))"));
    assert!(used.contains("v_y = v_x[index([None, [1, 0]])]"));
}

#[test]
fn attention_repeats_omitted_inputs() {
    let lines = [
        "nn.MultiheadAttention a 1 1 x y embed_dim=4 num_heads=1",
        "nn.MultiheadAttention b 3 2 x y x z w embed_dim=4 num_heads=1 $query=x $key=y $attn_mask=x",
    ];
    assert_eq!(
        forward(&lines),
        [
            "v_y = self.a(v_x, v_x, v_x, need_weights=False)[0]",
            "v_z, v_w = self.b(v_x, v_y, v_y, attn_mask=v_x)",
        ]
    );
}

#[test]
fn recurrent_modules_have_states() {
    let lines = [
        "nn.LSTM a 1 1 x y hidden_size=2 input_size=2",
        "nn.LSTM b 3 3 x y y p q r hidden_size=2 input_size=2",
        "nn.GRU c 2 2 x y s t hidden_size=2 input_size=2",
    ];
    let wanted =
        ["v_y, _ = self.a(v_x)", "v_p, (v_q, v_r) = self.b(v_x, (v_y, v_y))", "v_s, v_t = self.c(v_x, v_y)"];
    assert_eq!(forward(&lines), wanted);
}

#[test]
fn arguments_go_by_name_where_they_have_one() {
    let lines = [
        "torch.where a 3 1 x x x y $condition=x $input=x $other=x",
        "torch.einsum b 2 1 x y z equation=ij,jk->ik",
        "torch.max c 1 1 x m dim=1 keepdim=False $input=x",
        "torch.unbind d 1 1 x u dim=0 $input=x",
        "torch.roll e 1 1 x r dims=None shifts=(3) $input=x",
        "F.adaptive_avg_pool2d f 1 1 x p output_size=(0,3) $input=x",
        "Tensor.expand g 1 1 x e sizes=(2,-1) $mask=x",
        "Tensor.masked_fill h 2 1 x y n value=-inf $input=x $mask=y",
        "Tensor.fill i 1 1 x o value=7 $input=x",
    ];
    let wanted = [
        "v_y = torch.where(condition=v_x, input=v_x, other=v_x)",
        "v_z = torch.einsum(\"ij,jk->ik\", v_x, v_y)",
        "v_m = torch.max(v_x, dim=1, keepdim=False)[0]",
        "v_u = torch.unbind(v_x, dim=0)[0]",
        "v_r = torch.roll(v_x, shifts=(3,))",
        "v_p = F.adaptive_avg_pool2d(v_x, output_size=(None, 3))",
        "v_e = v_x.expand((2, -1))",
        "v_n = v_x.masked_fill(mask=v_y, value=float(\"-inf\"))",
        "v_o = torch.fill(v_x, 7)",
    ];
    assert_eq!(forward(&lines), wanted);
}

#[test]
fn slices_take_numbers_and_inputs() {
    let lines = [
        "pnnx.Expression n 1 1 x n expr=floor_divide(size(@0,1),2)",
        "pnnx.SliceIndexes s 1 1 n s indexes=(@0,2147483647)",
        "Tensor.slice a 2 1 x s y dims=(0,1) ends=(5,9) selects=(2147483647,3) steps=(1,1) $input=x $starts=s",
        "Tensor.slice_copy b 2 1 x y z dim=0 end=2 start=0 step=1 $self=x $src=y",
        "pnnx.Expression q 1 1 n q expr=sqrt(@0)",
    ];
    let wanted = [
        "v_n = v_x.size(1) // 2",
        "v_s = [v_n, 2147483647]",
        "v_y = v_x[region(v_x, dims=(0, 1), starts=v_s, ends=(5, 9), steps=(1, 1), selects=(2147483647, 3))]",
        "v_z = v_x.clone()",
        "v_z[region(v_x, dims=(0,), starts=(0,), ends=(2,), steps=(1,))] = v_y",
        "v_q = torch.sqrt(torch.as_tensor(v_n))",
    ];
    assert_eq!(forward(&lines), wanted);
}

#[test]
fn containers_are_python_containers() {
    let lines = [
        "prim::TupleConstruct a 1 1 x t",
        "prim::TupleUnpack b 1 1 t u",
        "prim::ListConstruct c 2 1 x u l",
        "torch.cat d 1 1 l y dim=0",
        "prim::ListUnpack e 1 2 l v w",
        "prim::DictConstruct f 2 1 x y g",
    ];
    let wanted = [
        "v_t = (v_x,)",
        "v_u = v_t[0]",
        "v_l = [v_x, v_u]",
        "v_y = torch.cat(v_l, dim=0)",
        "v_v, v_w = v_l",
        "v_g = {v_x: v_y}",
    ];
    assert_eq!(forward(&lines), wanted);
}

#[test]
fn custom_operators_sort_their_arguments() {
    let lines = ["pnnx.custom_op.my.op a 2 1 x x y arg_1=3 arg_3=() $arg_2=x $arg_0=x"];
    assert_eq!(forward(&lines), ["v_y = torch.ops.my.op(v_x, 3, v_x, [])"]);
}

#[test]
fn operators_that_pytorch_lacks_raise() {
    let lines = ["aten::odd a 1 1 x y", "models.Block b 1 1 y z", "torch.x();evil c 1 1 z w"];
    let found = forward(&lines);
    assert_eq!(found[0], "raise NotImplementedError(\"operator a of type aten::odd\")");
    assert_eq!(found.iter().filter(|line| line.starts_with("raise")).count(), 3);
}

#[test]
fn nothing_in_a_file_becomes_code() {
    let source = graph(&[
        "pnnx.Input in 0 1 x",
        "F.relu a 1 1 x y k\");evil(=1 mode=\");evil(\"",
        "nn.ReLU b\");evil(\" 1 1 y z",
        "pnnx.Output out 1 0 z",
    ])
    .to_python("m\");evil(\"");
    assert!(source.contains(r#"v_y = F.relu(v_x, mode="\");evil(\"", **{"k\");evil(": 1})"#), "{source}");
    assert!(source.contains(r#"with_name("m\");evil(\".bin")"#), "{source}");
    assert!(source.contains("self.b___evil__ = nn.ReLU()"), "{source}");
}

#[test]
fn several_outputs_are_a_tuple() {
    let source =
        graph(&["pnnx.Input a 0 1 x", "pnnx.Input b 0 1 y", "pnnx.Output c 1 0 x", "pnnx.Output d 1 0 y"])
            .to_python("m");
    assert!(source.contains("def forward(self, v_x, v_y):\n        return (v_x, v_y)\n"), "{source}");
}
