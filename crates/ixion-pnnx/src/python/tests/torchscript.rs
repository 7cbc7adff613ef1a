//! Operators and containers of TorchScript.

use super::{forward, problems, source};

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
