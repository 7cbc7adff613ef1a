//! Calls of functions and methods, and their arguments.

use super::{forward, problems, source};

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
fn empty_lists_of_axes_are_restored() {
    let lines = [
        "torch.squeeze a 1 1 x a dim=None $input=x #x=(1,4)f32 #a=(1,4)f32",
        "torch.squeeze b 1 1 x b dim=None $input=x #b=(4)f32",
        "Tensor.squeeze c 1 1 x c $input=x #c=(1,4)f32",
        "aten::squeeze d 1 1 x d #d=(4)f32",
        "torch.squeeze e 1 1 x e dim=0 $input=x #e=(4)f32",
        "torch.flip f 1 1 x f dims=None $input=x",
        "Tensor.tile g 1 1 x g dims=None $input=x",
    ];
    let wanted = [
        "v_a = torch.squeeze(v_x, dim=())",
        "v_b = torch.squeeze(v_x)",
        "v_c = v_x.squeeze(dim=())",
        "v_d = call(\"aten::squeeze\", v_x)",
        "v_e = torch.squeeze(v_x, dim=0)",
        "v_f = torch.flip(v_x, dims=())",
        "v_g = v_x.tile(())",
    ];
    assert_eq!(forward(&lines), wanted);
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
