//! Modules: their weights, states and other results.

use super::{forward, init, problems, source};

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
fn fused_operators_are_refused() {
    let fused =
        "nn.Linear a 1 1 x y bias=False epilogue=relu(@0) in_features=2 out_features=3 @weight=(3,2)f32";
    assert_eq!(problems(&[fused]), ["parameter `epilogue`: expected no fused arithmetic, found `relu(@0)`"]);
}
