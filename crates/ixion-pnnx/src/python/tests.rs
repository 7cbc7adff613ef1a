mod indexing;
mod onnx;

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
fn attention_repeats_omitted_inputs() {
    let lines = [
        "nn.MultiheadAttention a 1 1 x y embed_dim=4 num_heads=1",
        "nn.MultiheadAttention b 3 2 x y x z w embed_dim=4 num_heads=1 $query=x $key=y $key_padding_mask=x",
    ];
    assert_eq!(
        forward(&lines),
        [
            "v_y = self.m_a(v_x, v_x, v_x, need_weights=False)[0]",
            "v_z, v_w = self.m_b(v_x, v_y, v_y, key_padding_mask=v_x)",
        ]
    );
}

#[test]
fn masks_of_attention_are_told_by_their_places_and_shapes() {
    let lines = [
        "pnnx.Input m 0 1 m #m=(2,5)bool",
        "nn.MultiheadAttention a 2 1 m x y batch_first=True embed_dim=4 num_heads=1 #m=(2,5)bool $attn_mask=x",
        "pnnx.Input f 0 1 f #f=(4,5)f32",
        "pnnx.Input g 0 1 g #g=(2,5)f32",
        "nn.MultiheadAttention b 4 2 x y f g z w embed_dim=4 num_heads=1 $attn_mask=g #x=(2,4,4)f32 #z=(2,4,4)f32 #w=(2,1,4,5)f32",
    ];
    assert_eq!(
        forward(&lines),
        [
            "v_y = self.m_a(v_x, v_x, v_x, **mask(v_m, v_x, batch_first=True), need_weights=False)[0]",
            "v_z, v_w = self.m_b(v_x, v_y, v_y, attn_mask=v_f, key_padding_mask=v_g, average_attn_weights=False)",
        ]
    );
    let lines = [
        "pnnx.Input f 0 1 f #f=(4,5)f32",
        "pnnx.Input g 0 1 g #g=(2,5)f32",
        "pnnx.Input h 0 1 y #y=(2,5,3)f32",
        "nn.MultiheadAttention a 3 1 f x y u batch_first=True embed_dim=3 num_heads=1 $attn_mask=y #x=(2,4,3)f32 #u=(2,4,3)f32",
        "nn.MultiheadAttention b 4 1 f g x y v batch_first=True embed_dim=3 num_heads=1 $attn_mask=y #v=(2,4,3)f32",
    ];
    assert_eq!(
        forward(&lines),
        [
            "v_u = self.m_a(v_x, v_y, v_y, **mask(v_f, v_x, batch_first=True), need_weights=False)[0]",
            "v_v = self.m_b(v_x, v_y, v_y, attn_mask=v_f, key_padding_mask=v_g, need_weights=False)[0]",
        ]
    );
    let lines = ["nn.MultiheadAttention a 4 1 x x x x y embed_dim=4 num_heads=1"];
    assert_eq!(problems(&lines), ["expected a query, up to two more inputs, and up to two masks, found 4"]);
}

#[test]
fn recurrent_modules_have_states() {
    let lines = [
        "nn.LSTM a 1 1 x y hidden_size=2 input_size=2",
        "nn.LSTM b 3 3 x y y p q r hidden_size=2 input_size=2",
        "nn.GRU c 2 2 x y s t hidden_size=2 input_size=2",
    ];
    let wanted = [
        "v_y, _ = self.m_a(v_x)",
        "v_p, (v_q, v_r) = self.m_b(v_x, (v_y, v_y))",
        "v_s, v_t = self.m_c(v_x, v_y)",
    ];
    assert_eq!(forward(&lines), wanted);
    let lines = ["nn.LSTM a 2 1 x x y hidden_size=2 input_size=2"];
    assert_eq!(problems(&lines), ["expected a sequence, and all initial states or none, found 2"]);
}

#[test]
fn results_of_recurrent_modules_are_told_by_their_shapes() {
    let lines = [
        "nn.LSTM a 1 2 x y h batch_first=True hidden_size=4 #x=(2,5,6)f32 #y=(2,5,4)f32 #h=(1,2,4)f32",
        "nn.LSTM b 1 1 x c batch_first=True hidden_size=4 num_layers=2 #x=(2,5,6)f32 #c=(2,2,4)f32",
        "nn.LSTM d 1 2 x e f batch_first=True hidden_size=4 proj_size=3 #x=(2,5,6)f32 #e=(1,2,4)f32 #f=(1,2,3)f32",
        "nn.GRU g 1 1 x k hidden_size=4 num_layers=2 #x=(2,5,6)f32 #k=(2,5,4)f32",
        "nn.LSTM m 1 1 x t hidden_size=4",
        "prim::TupleUnpack u 1 3 t n o p",
        "nn.GRU q 1 2 x r s hidden_size=4 pnnx_rnn_output_swapped=1",
    ];
    let wanted = [
        "v_y, (v_h, _) = self.m_a(v_x)",
        "_, (v_c, _) = self.m_b(v_x)",
        "_, (v_f, v_e) = self.m_d(v_x)",
        "v_k, _ = self.m_g(v_x)",
        "v_n, (v_o, v_p) = self.m_m(v_x)",
        "v_t = (v_n, v_o, v_p)",
        "v_n, v_o, v_p = v_t",
        "v_s, v_r = self.m_q(v_x)",
    ];
    assert_eq!(forward(&lines), wanted);
    let lines = ["nn.GRU a 1 1 x h hidden_size=4 #x=(?,2,6)f32 #h=(1,2,4)f32"];
    assert_eq!(forward(&lines), ["_, v_h = self.m_a(v_x)"]);
    let lines = ["nn.GRU a 1 3 x y z w hidden_size=4"];
    assert_eq!(problems(&lines), ["expected 1 or 2 outputs, found 3"]);
}

#[test]
fn convolutions_are_padded_on_uneven_sides_before_they_run() {
    let lines = [
        "nn.Conv2d a 1 1 x y kernel_size=(4,2) padding=(0,1,1,2) padding_mode=reflect stride=(1,1) @weight=(2,3,4,2)f32",
        "nn.Conv1d b 1 1 x z kernel_size=(2) padding=() padding_mode=circular @weight=(2,3,2)f32",
        "nn.Conv1d c 1 1 x w kernel_size=(2) padding=(1,0) padding_mode=zeros @weight=(2,3,2)f32",
        "nn.Conv1d d 1 1 x v kernel_size=(3) padding=same stride=(2) @weight=(2,3,3)f32",
    ];
    assert_eq!(
        forward(&lines),
        [
            "v_y = self.m_a(F.pad(v_x, (0, 1, 1, 2), mode=\"reflect\"))",
            "v_z = self.m_b(v_x)",
            "v_w = self.m_c(F.pad(v_x, (1, 0), mode=\"constant\"))",
            "v_v = self.m_d(same(v_x, (3,), (2,), (1,)))",
        ]
    );
    let made: Vec<String> = init(&lines).into_iter().filter(|line| line.contains("nn.Conv")).collect();
    assert_eq!(
        made,
        [
            "self.m_a = nn.Conv2d(kernel_size=(4, 2), stride=(1, 1))",
            "self.m_b = nn.Conv1d(kernel_size=(2,), padding=\"same\", padding_mode=\"circular\")",
            "self.m_c = nn.Conv1d(kernel_size=(2,))",
            "self.m_d = nn.Conv1d(kernel_size=(3,), stride=(2,))",
        ]
    );
}

#[test]
fn settings_that_pnnx_omits_are_completed() {
    let lines = [
        "nn.GroupNorm a 1 1 x y affine=False eps=1e-5 num_groups=2",
        "nn.AdaptiveAvgPool2d b 1 1 x z output_size=(0,3)",
        "F.batch_norm c 1 1 x w bias=None running_mean=None running_var=None weight=None $input=x",
        "torch.sum d 1 1 x s dim=(1) $input=x #x=(2,3)f32 #s=(2)f64",
    ];
    let source = source(&lines).unwrap();
    for part in [
        "self.m_a = nn.GroupNorm(affine=False, eps=1e-5, num_groups=2, num_channels=2)\n",
        "self.m_b = nn.AdaptiveAvgPool2d(output_size=(None, 3))\n",
        "v_w = F.batch_norm(v_x, bias=None, running_mean=None, running_var=None, weight=None, training=True)\n",
        "v_s = torch.sum(v_x, dim=(1,), dtype=torch.double)\n",
    ] {
        assert!(source.contains(part), "{part}{source}");
    }
}

#[test]
fn tensors_of_functions_are_kept_in_modules() {
    let lines = ["F.linear a 1 1 x y bias=None @weight=(2,3)f32"];
    assert_eq!(forward(&lines), ["v_y = F.linear(v_x, bias=None, weight=self.m_a.weight)"]);
    let wanted = [
        "self.m_a = nn.Module()",
        "weights.fill(self.m_a, \"a\", {",
        "\"weight\": (torch.float, (2, 3)),",
        "})",
    ];
    assert_eq!(init(&lines), wanted);
}

#[test]
fn weights_that_modules_share_are_no_inputs() {
    let lines = [
        "pnnx.Attribute w 0 1 w @data=(2,3)f32",
        "nn.Linear a 2 1 w x y bias=False in_features=3 out_features=2 @weight=(2,3)f32",
        "nn.Bilinear b 2 1 w x z in1_features=3 in2_features=3 out_features=2 @weight=(2,3,3)f32",
    ];
    assert_eq!(forward(&lines), ["v_y = self.m_a(v_x)", "v_z = self.m_b(self.m_w, v_x)"]);
}

#[test]
fn regions_follow_their_images() {
    let lines = [
        "pnnx.Input b 0 1 b #b=(3,4)f32",
        "torchvision.ops.RoIAlign one 2 1 b x y output_size=(3,2) #x=(2,2,7,8)f32",
        "torchvision.ops.RoIAlign two 3 1 b b x z output_size=(3,2)",
        "torchvision.ops.RoIAlign three 2 1 x y w output_size=(3,2) #y=(3,5)f32",
    ];
    assert_eq!(
        forward(&lines),
        ["v_y = self.m_one(v_x, [v_b])", "v_z = self.m_two(v_x, [v_b, v_b])", "v_w = self.m_three(v_x, v_y)",]
    );
}

#[test]
fn quantised_modules_get_their_weights() {
    let lines = [
        "nn.quantized.Quantize a 1 1 x y dtype=torch.qint8 scale=0.5 zero_point=3 #y=(2)u8",
        "nn.quantized.Linear b 1 1 y z in_features=2 out_features=1 scale=0.25 zero_point=7 @weight=(1,2)i8 @weight.q_per_channel_scales=(1)f64 @weight.q_per_channel_zero_points=(1)i64",
        "pnnx.Expression l 2 1 y z l expr=[@0,@1]",
        "nn.quantized.cat c 1 1 l w dim=1 scale=0.5 zero_point=1 $tensors=l",
    ];
    let weights = "weights.tensor(\"b.weight\", torch.int8, (1, 2)), weights.tensor(\"b.weight.q_per_channel_scales\", torch.double, (1,)), weights.tensor(\"b.weight.q_per_channel_zero_points\", torch.long, (1,)), None";
    assert_eq!(
        init(&lines),
        [
            "self.m_a = torch.ao.nn.quantized.Quantize(dtype=torch.quint8, scale=0.5, zero_point=3)"
                .to_owned(),
            format!(
                "self.m_b = quantized(torch.ao.nn.quantized.Linear(in_features=2, out_features=1), 0.25, 7, {weights})"
            ),
        ]
    );
    let call = "v_w = call(\"quantized::cat\", v_l, dim=1, scale=0.5, zero_point=1)";
    assert_eq!(forward(&lines)[3], call);
    assert!(source(&lines).unwrap().contains("import torch.ao.nn.quantized\n"));
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
        "Tensor.unflatten j 1 1 x l dim=1 sizes=(2,3) $input=x",
    ];
    let wanted = [
        "v_y = torch.where(v_x, v_x, v_x)",
        "v_z = torch.einsum(\"ij,jk->ik\", v_x, v_y)",
        "v_m = torch.max(v_x, dim=1)[0]",
        "v_u = torch.unbind(v_x, dim=0)[0]",
        "v_r = torch.roll(v_x, shifts=(3,))",
        "v_p = F.adaptive_avg_pool2d(v_x, output_size=(None, 3))",
        "v_e = v_x.expand((2, -1))",
        "v_n = v_x.masked_fill(mask=v_y, value=float(\"-inf\"))",
        "v_o = torch.fill(v_x, 7)",
        "v_l = v_x.unflatten(dim=1, sizes=(2, 3))",
    ];
    assert_eq!(forward(&lines), wanted);
}

#[test]
fn spellings_of_pnnx_become_those_of_pytorch() {
    let lines = [
        "torch.var a 1 1 x y dim=(1) unbiased=0 $input=x",
        "torch.normal b 1 1 x n mean=0.5 std=2.0 $input=x",
        "torch.split c 1 2 x p q dim=None split_size_or_sections=None $tensor=x",
        "torch.unsqueeze d 1 1 x u dim=(2,0)",
        "torch.unsqueeze e 1 1 x v dim=(-3,-1)",
        "F.dropoutnd f 1 1 x w p=0.5 training=False $input=x",
        "torch.where g 2 1 y x z other=1.0 $condition=y $input=x",
        "Tensor.reshape h 1 1 x r shape=() $input=x",
        "F.grid_sample i 2 1 x y s mode=linear padding_mode=border $input=x $grid=y",
    ];
    let wanted = [
        "v_y = torch.var(v_x, dim=(1,), correction=0)",
        "v_n = torch.empty_like(v_x).normal_(0.5, 2.0)",
        "v_p, v_q = torch.chunk(v_x, 2, dim=0)",
        "v_u = torch.unsqueeze(torch.unsqueeze(v_x, dim=0), dim=2)",
        "v_v = torch.unsqueeze(torch.unsqueeze(v_x, dim=-1), dim=-3)",
        "v_w = torch.feature_dropout(v_x, p=0.5, train=False)",
        "v_z = torch.where(v_y, v_x, 1.0)",
        "v_r = v_x.reshape(())",
        "v_s = F.grid_sample(v_x, grid=v_y, mode=\"bilinear\", padding_mode=\"border\")",
    ];
    assert_eq!(forward(&lines), wanted);
    let mixed = problems(&["torch.unsqueeze d 1 1 x u dim=(-1,0)"]);
    assert_eq!(
        mixed,
        [
            "parameter `dim`: expected axes that are all counted from the start, or all from the end, found `(-1, 0)`"
        ]
    );
}

#[test]
fn settings_may_be_inputs() {
    let lines = [
        "pnnx.Expression s 1 1 x s expr=[size(@0,2)]",
        "F.layer_norm a 2 1 x s y eps=1e-5 $input=x $normalized_shape=s",
        "pnnx.Expression n 1 1 x n expr=size(@0,0)",
        "torch.topk b 2 2 x n v i dim=1 $input=x $k=n",
        "pnnx.Input shape 0 1 t #t=(2)i64",
        "Tensor.reshape c 2 1 x t z $input=x $shape=t",
        "Tensor.to d 1 1 n f dtype=torch.float $input=n",
        "torch.stack e 2 1 n n g dim=0",
    ];
    let wanted = [
        "v_s = [v_x.size(2)]",
        "v_y = F.layer_norm(v_x, normalized_shape=v_s, eps=1e-5)",
        "v_n = v_x.size(0)",
        "v_v, v_i = torch.topk(v_x, k=v_n, dim=1)",
        "v_z = v_x.reshape(ints(v_t))",
        "v_f = torch.as_tensor(v_n).to(dtype=torch.float)",
        "v_g = torch.stack((torch.as_tensor(v_n), torch.as_tensor(v_n)), dim=0)",
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
        "Tensor.slice_copy c 2 1 x y w dim=0 end=0 select=1 start=0 step=0 $self=x $src=y",
        "pnnx.Expression q 1 1 n q expr=sqrt(@0)",
    ];
    let wanted = [
        "v_n = v_x.size(1) // 2",
        "v_s = [v_n, 2147483647]",
        "v_y = part(v_x, dims=(0, 1), starts=v_s, ends=(5, 9), steps=(1, 1), selects=(2147483647, 3))",
        "v_z = v_x.clone()",
        "v_z[:2] = v_y",
        "v_w = v_x.clone()",
        "v_w[1] = v_y",
        "v_q = torch.sqrt(torch.as_tensor(v_n)).item()",
    ];
    assert_eq!(forward(&lines), wanted);
}

#[test]
fn writes_go_through_views() {
    let lines = [
        "Tensor.select a 1 1 x r dim=0 index=0 $input=x #x=(2,3)f32 #r=(3)f32",
        "Tensor.slice b 1 1 r p dim=0 start=1 end=2147483647 step=1 $input=r #r=(3)f32 #p=(2)f32",
        "Tensor.copy c 2 1 p r out $self=p $src=r #p=(2)f32 #out=(2,3)f32",
        "Tensor.reshape d 1 1 x f shape=(6) $input=x #f=(6)f32",
        "Tensor.copy e 2 1 f r y $self=f $src=r #y=(2,3)f32",
        "aten::copy g 2 1 x r z",
    ];
    let wanted = [
        "v_r = v_x.select(dim=0, index=0)",
        "v_p = v_r[1:]",
        "v_out = v_x.clone()",
        "v_out.select(dim=0, index=0)[1:][...] = v_r",
        "v_f = v_x.reshape((6,))",
        "v_y = v_x.clone(memory_format=torch.contiguous_format)",
        "v_y.reshape((6,))[...] = v_r",
        "v_z = v_x.clone()",
        "v_z[...] = v_r",
    ];
    assert_eq!(forward(&lines), wanted);
}

#[test]
fn indices_are_expressions_of_the_inputs() {
    let lines = [
        "pnnx.Input places 0 1 p #p=(3)i64",
        "Tensor.index_put a 3 1 x p x y accumulate=False indices=[None,@1] $input=x $values=x",
        "pnnx.Expression b 1 1 p i expr=[@0]",
        "Tensor.index c 2 1 x i z $input=x $expr=i",
    ];
    let wanted = [
        "v_y = torch.ops.aten.index_put(v_x, index([None, v_p]), torch.as_tensor(v_x, dtype=v_x.dtype), accumulate=False)",
        "v_i = [v_p]",
        "v_z = torch.ops.aten.index(v_x, index(v_i))",
    ];
    assert_eq!(forward(&lines), wanted);
    let missing = problems(&[
        "Tensor.index a 1 1 x y $input=x",
        "Tensor.index b 1 1 x z expr=[@1]",
        "Tensor.slice c 0 1 w",
    ]);
    let wanted =
        ["missing `expr`", "expected as many inputs as the expression reads, found 1", "missing `input`"];
    assert_eq!(missing, wanted);
}

#[test]
fn containers_are_python_containers() {
    let lines = [
        "prim::TupleConstruct a 1 1 x t",
        "prim::TupleUnpack b 1 1 t u",
        "prim::ListConstruct c 2 1 x u l",
        "torch.cat d 1 1 l y dim=0",
        "prim::ListUnpack e 1 2 l v w",
        "prim::Constant k 0 1 key value=boxes",
        "prim::DictConstruct f 2 1 key y g",
    ];
    let wanted = [
        "v_t = (v_x,)",
        "v_u = v_t[0]",
        "v_l = [v_x, v_u]",
        "v_y = torch.cat(v_l, dim=0)",
        "v_v, v_w = v_l",
        "v_g = {\"boxes\": v_y}",
    ];
    assert_eq!(forward(&lines), wanted);
    assert_eq!(problems(&["prim::DictConstruct f 1 1 x g"]), ["expected a value for each key, found 1"]);
}

#[test]
fn lists_of_scripted_models_are_python_lists() {
    let lines = [
        "prim::ListConstruct a 1 1 x l",
        "F.relu b 1 1 x y $input=x",
        "aten::append c 2 1 l y d",
        "pnnx.Expression e 0 1 i expr=-1",
        "aten::__getitem__ f 2 1 l i z",
        "aten::len g 1 1 l n",
        "pnnx.Expression h 2 1 z n w expr=mul(@0,@1)",
        "prim::If k 1 0 n",
        "torch.chunk m 1 1 x o chunks=2 dim=0 $input=x",
        "aten::__getitem__ p 2 1 o i q",
    ];
    let wanted = [
        "v_l = [v_x]",
        "v_y = F.relu(v_x)",
        "v_l.append(v_y)",
        "v_d = v_l",
        "v_z = v_l[-1]",
        "v_n = len(v_l)",
        "v_w = v_z * v_n",
        "v_o = torch.chunk(v_x, chunks=2, dim=0)",
        "v_q = v_o[-1]",
    ];
    assert_eq!(forward(&lines), wanted);
}

#[test]
fn operators_of_torchscript_are_called_by_their_schemas() {
    let lines = [
        "pnnx.Expression a 0 1 n expr=0.5",
        "pnnx.Expression b 0 1 e expr=ij",
        "aten::clamp_min c 2 1 x n y #y=(2)f32",
        "aten::log2 d 1 1 y z #z=(2)f32",
        "pnnx.Expression f 2 1 y z l expr=[@0,@1]",
        "aten::meshgrid g 2 1 l e m",
        "prim::ListUnpack h 1 2 m p q",
        "aten::sum i 1 1 p s",
        "pnnx.Expression j 1 1 s t expr=exp(@0)",
        "torchvision::roi_align k 2 1 x y o",
        "prim::NumToTensor r 1 1 n w",
        "aten::sort u 1 2 x v i descending=True dim=1 $input=x",
    ];
    let wanted = [
        "v_y = call(\"aten::clamp_min\", v_x, 0.5)",
        "v_z = call(\"aten::log2\", v_y)",
        "v_l = [v_y, v_z]",
        "v_m = call(\"aten::meshgrid\", v_l, \"ij\")",
        "v_p, v_q = v_m",
        "v_s = call(\"aten::sum\", v_p)",
        "v_t = torch.exp(torch.as_tensor(v_s))",
        "v_o = call(\"torchvision::roi_align\", v_x, v_y)",
        "v_w = torch.as_tensor(0.5)",
        "v_v, v_i = call(\"aten::sort\", v_x, descending=True, dim=1)",
    ];
    assert_eq!(forward(&lines), wanted);
    assert!(source(&lines).unwrap().contains("import torchvision\n"));
}

#[test]
fn custom_operators_sort_their_arguments() {
    let lines = ["pnnx.custom_op.my.op a 2 1 x x y arg_1=3 arg_3=() $arg_2=x $arg_0=x"];
    assert_eq!(forward(&lines), ["v_y = torch.ops.my.op(v_x, 3, v_x, [])"]);
}

#[test]
fn the_head_of_yolo_is_a_class() {
    let lines = [
        "models.yolo.Detect a 1 1 x y @m.0.bias=(7)f32 @pnnx_00=(1)f32",
        "models.yolo.Detect b 1 2 x p q @m.0.bias=(7)f32 #p=(1,3,2,2,7)f32 #q=(1,12,7)f32",
    ];
    assert_eq!(forward(&lines), ["v_y = self.m_a(v_x)[0]", "v_q, v_p = self.m_b(v_x)"]);
    assert_eq!(
        init(&lines)[..4],
        [
            "self.m_a = Detect({",
            "\"m.0.bias\": weights.tensor(\"a.m.0.bias\", torch.float, (7,)),",
            "\"pnnx_00\": weights.tensor(\"a.pnnx_00\", torch.float, (1,)),",
            "}, maps=1)",
        ]
    );
    let two = problems(&["models.yolo.Detect a 1 2 x y z @m.0.bias=(7)f32"]);
    assert_eq!(two, ["expected boxes, or boxes and the result of each convolution, found 2"]);
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
fn numbers_in_the_place_of_tensors() {
    let lines = [
        "pnnx.Expression a 0 1 one expr=1.0 #one=(1)f32",
        "torch.cat b 2 1 x one y dim=0 #x=(3)f32 #one=(1)f32",
        "torch.bitwise_left_shift c 1 1 y w input=1 $other=y",
        "pnnx.Expression d 1 1 y size expr=[size(@0,0)]",
        "Tensor.repeat e 1 1 size z input=-1.5 $sizes=size",
        "pnnx.Expression f 2 1 one y pair expr=[@0,@1] #one=(1)f32",
    ];
    let source = source(&lines).unwrap();
    for line in [
        "v_y = torch.cat((v_x, torch.as_tensor([1.0])), dim=0)",
        "v_w = torch.bitwise_left_shift(other=v_y, input=torch.as_tensor(1))",
        "v_z = torch.as_tensor(-1.5).repeat(v_size)",
        "v_pair = [torch.as_tensor([1.0]), v_y]",
    ] {
        assert!(source.contains(line), "{source}");
    }
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
