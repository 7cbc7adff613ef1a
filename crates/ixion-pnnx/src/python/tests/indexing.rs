//! Parts of tensors, and views.

use super::{forward, problems};

#[test]
fn slices_are_written_in_square_brackets() {
    let lines = [
        "Tensor.slice a 1 1 x a dim=-1 end=-1 start=None step=2 $input=x #x=(2,3,4)f32",
        "Tensor.slice b 1 1 x b dims=(0,2) ends=(2,9223372036854775807) selects=(1,2147483647) starts=(0,1) steps=(1,1)",
        "pnnx.Expression n 1 1 x n expr=size(@0,1)",
        "Tensor.slice c 2 1 x n c dim=1 end=2147483647 step=1 $input=x $start=n",
        "Tensor.slice d 1 1 x d dim=0 end=2147483647 start=0 step=1 $input=x",
        "Tensor.slice e 1 1 x e dims=(0,0) ends=(1,2) starts=(0,0) steps=(1,1) $input=x",
        "Tensor.slice f 2 1 x n f dim=1 end=0 start=0 step=1 $input=x $select=n",
    ];
    let wanted = [
        "v_a = v_x[:, :, :-1:2]",
        "v_b = v_x[1, :, 1:]",
        "v_n = v_x.size(1)",
        "v_c = v_x[:, v_n:]",
        "v_d = v_x[:]",
        "v_e = part(v_x, dims=(0, 0), starts=(0, 0), ends=(1, 2), steps=(1, 1))",
        "v_f = part(v_x, dims=(1,), starts=(0,), ends=(0,), steps=(1,), selects=(v_n,))",
    ];
    assert_eq!(forward(&lines), wanted);
}

#[test]
fn indices_that_are_tensors_are_written_in_square_brackets() {
    let lines = [
        "pnnx.Input places 0 1 p #p=(3)i64",
        "pnnx.Input place 0 1 q",
        "Tensor.index a 2 1 x p a expr=[None,@1] $input=x #x=(4,5)f32",
        "Tensor.index b 2 1 x q b expr=[@1] $input=x",
        "Tensor.index_put c 3 1 x p a c accumulate=False indices=[None,@1] $input=x $values=a #a=(4,3)f32",
        "Tensor.index_put d 2 1 x p d accumulate=False indices=[@1] values=0.5 $input=x",
        "Tensor.index_put e 2 1 x p e accumulate=True indices=[@1] values=0.5 $input=x",
    ];
    let wanted = [
        "v_a = v_x[:, v_p]",
        "v_b = torch.ops.aten.index(v_x, index([v_q]))",
        "v_c = v_x.clone()",
        "v_c[:, v_p] = v_a",
        "v_d = v_x.clone()",
        "v_d[v_p] = 0.5",
        "v_e = torch.ops.aten.index_put(v_x, index([v_p]), torch.as_tensor(0.5, dtype=v_x.dtype), accumulate=True)",
    ];
    assert_eq!(forward(&lines), wanted);
}

#[test]
fn indices_of_one_element_keep_their_axes() {
    let lines = [
        "pnnx.Expression a 0 1 p expr=-1 #p=(1)i64",
        "pnnx.Expression b 1 1 p q expr=@0 #q=(1)i64",
        "pnnx.Expression c 2 1 p q i expr=[None,@0,@1]",
        "Tensor.index d 2 1 x i y $input=x $expr=i",
        "pnnx.Expression e 0 1 m expr=True #m=(1,1)bool",
        "pnnx.Expression f 1 1 m k expr=[@0]",
        "Tensor.index_put g 2 1 y k z accumulate=True values=0.5 $input=y $indices=k",
        "Tensor.index h 2 1 x p w expr=[None,@1] $input=x",
        "pnnx.Expression j 0 1 n expr=2",
        "Tensor.index l 2 1 x n v expr=[None,@1] $input=x",
    ];
    let wanted = [
        "v_q = -1",
        "v_i = [None, [-1], [-1]]",
        "v_y = torch.ops.aten.index(v_x, index(v_i))",
        "v_k = [[[True]]]",
        "v_z = torch.ops.aten.index_put(v_y, index(v_k), torch.as_tensor(0.5, dtype=v_y.dtype), accumulate=True)",
        "v_w = torch.ops.aten.index(v_x, index([None, [-1]]))",
        "v_v = torch.ops.aten.index(v_x, index([None, 2]))",
    ];
    assert_eq!(forward(&lines), wanted);
}

#[test]
fn views_do_not_need_what_pnnx_drops() {
    let lines = [
        "Tensor.permute a 1 1 x y dims=(1,0)",
        "torch.view_as_complex b 1 1 y z $input=y",
        "Tensor.view c 1 1 y w shape=(6)",
        "Tensor.view d 1 1 y v dtype=torch.int",
        "Tensor.as_strided e 1 1 y u size=(2) stride=(1)",
        "aten::view_as f 2 1 y x t",
        "Tensor.to g 1 1 y s copy=False dtype=None non_blocking=False",
    ];
    let wanted = [
        "v_y = v_x.permute((1, 0))",
        "v_z = torch.view_as_complex(v_y.contiguous())",
        "v_w = v_y.reshape((6,))",
        "v_v = v_y.view(dtype=torch.int)",
        "v_u = v_y.contiguous().as_strided(size=(2,), stride=(1,))",
        "v_t = call(\"aten::reshape_as\", v_y, v_x)",
        "v_s = v_y",
    ];
    assert_eq!(forward(&lines), wanted);
}

#[test]
fn a_loop_of_no_rounds_returns_what_it_is_given() {
    let lines = [
        "prim::Constant a 0 1 n value=0",
        "prim::Constant b 0 1 go value=True",
        "prim::Loop c 4 2 n go x x y z",
    ];
    assert_eq!(forward(&lines), ["v_y, v_z = v_x, v_x"]);
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
