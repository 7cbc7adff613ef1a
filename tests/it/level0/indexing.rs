//! Lists of indices, and writes into views.

use super::*;

#[test]
fn writes_go_through_views() {
    let select =
        "prim::Constant a 0 1 d value=1\nprim::Constant b 0 1 i value=0\nprim::Constant c 0 1 l value=2
        torch.clone n 1 1 x z $input=x #x=(2,3)f32 #z=(2,3)f32
        Tensor.select s 3 1 y d l v $input=y $dim=d $index=l #v=(2)f32
        Tensor.select t 3 1 z d i u $input=z $dim=d $index=i #z=(2,3)f32 #u=(2)f32
        Tensor.copy k 2 1 u v out $self=u $src=v #u=(2)f32 #v=(2)f32 #out=(2,3)f32";
    check(&run(select, &[x(), y()]), &[2, 3], &[-4f32, -2., 3., 5., 5., -6.]);
    let reshaped = "prim::Constant a 0 1 shape value=(6)\nprim::Constant v 0 1 nine value=9
        Tensor.reshape r 2 1 x shape f $input=x $shape=shape #x=(2,3)f32 #f=(6)f32
        Tensor.slice s 1 1 f p dim=0 start=1 end=4 step=1 $input=f #f=(6)f32 #p=(3)f32
        Tensor.fill g 2 1 p nine q $input=p $value=nine #p=(3)f32 #q=(3)f32
        Tensor.copy k 2 1 p q out $self=p $src=q #p=(3)f32 #q=(3)f32 #out=(2,3)f32";
    check(&run(reshaped, &[x()]), &[2, 3], &[1f32, 9., 9., 9., 5., -6.]);
    let nested = "prim::Constant v 0 1 c value=7
        Tensor.select s 1 1 x r dim=0 index=0 $input=x #x=(2,3)f32 #r=(3)f32
        Tensor.slice t 1 1 r p dim=0 start=1 end=2147483647 step=1 $input=r #r=(3)f32 #p=(2)f32
        Tensor.fill g 2 1 p c q $input=p $value=c #p=(2)f32 #q=(2)f32
        Tensor.copy k 2 1 p q out $self=p $src=q #p=(2)f32 #q=(2)f32 #out=(2,3)f32";
    check(&run(nested, &[x()]), &[2, 3], &[1f32, 7., 7., -4., 5., -6.]);
    let whole = "Tensor.copy k 2 1 x y out $self=x $src=y #x=(2,3)f32 #out=(2,3)f32";
    check(&run(whole, &[x(), tensor(&[1i64, 2, 3], &[3])]), &[2, 3], &[1f32, 2., 3., 1., 2., 3.]);
    check(&run("aten::copy k 2 1 x y out", &[tensor(&[1f32], &[]), tensor(&[2f32], &[])]), &[], &[2f32]);
}

#[test]
fn indices_mix_whole_axes_lists_and_masks() {
    let y = tensor(&[2i64, 0], &[2]);
    let level2 = "pnnx.Expression e 1 1 y i expr=[None,@0]\nTensor.index n 2 1 x i out $input=x $expr=i";
    check(&run(level2, &[x(), y.clone()]), &[2, 2], &[3f32, 1., -6., -4.]);
    let list = |items: &str| {
        format!(
            "prim::Constant c 0 1 none value=None\nprim::ListConstruct l {items} i\nTensor.index n 2 1 x i out $input=x $expr=i"
        )
    };
    check(&run(&list("2 1 none y"), &[x(), y.clone()]), &[2, 2], &[3f32, 1., -6., -4.]);
    let mask = tensor(&[true, false, true], &[3]);
    check(&run(&list("2 1 none y"), &[x(), mask.clone()]), &[2, 2], &[1f32, 3., -4., -6.]);
    let cube = tensor(&(0..24).map(|value| value as f32).collect::<Vec<_>>(), &[2, 3, 4]);
    let mixed = run(&list("3 1 none y k"), &[cube.clone(), mask, tensor(&[1i64, 3], &[2])]);
    check(&mixed, &[2, 2], &[1f32, 11., 13., 23.]);
    let apart = [cube.clone(), tensor(&[1i64, 0], &[2]), tensor(&[1i32, 2], &[2, 1])];
    let want = [13f32, 17., 21., 1., 5., 9., 14., 18., 22., 2., 6., 10.];
    check(&run(&list("3 1 y none k"), &apart), &[2, 2, 3], &want);
    let wide = tensor(&[true, false, true, false, true, false], &[2, 3]);
    check(
        &run(&list("1 1 y"), &[cube.clone(), wide]),
        &[3, 4],
        &[0f32, 1., 2., 3., 8., 9., 10., 11., 16., 17., 18., 19.],
    );
    let computed =
        "pnnx.Expression e 1 1 y i expr=[None,sub(@0,1)]\nTensor.index n 2 1 x i out $input=x $expr=i";
    check(&run(computed, &[x(), tensor(&[1i64, 3], &[2])]), &[2, 2], &[1f32, 3., -4., -6.]);
    for wrong in [tensor(&[1f32], &[1]), tensor(&[3i64], &[1]), tensor(&[true, false], &[2])] {
        assert!(try_run(&list("2 1 none y"), &[x(), wrong]).is_err());
    }
}

#[test]
fn indices_of_one_element_keep_their_axes() {
    let index = |element: &str, recorded: &str| {
        format!(
            "pnnx.Expression e 0 1 e expr={element} {recorded}\npnnx.Expression l 1 1 e i expr=[None,@0]\n\
             Tensor.index n 2 1 x i out $input=x $expr=i"
        )
    };
    check(&run(&index("-1", ""), &[x()]), &[2], &[3f32, -6.]);
    check(&run(&index("-1", "#e=(1)i64"), &[x()]), &[2, 1], &[3f32, -6.]);
    check(&run(&index("-1", "#e=(1,1)i64"), &[x()]), &[2, 1, 1], &[3f32, -6.]);
    let one = tensor(&[7f32, 8.], &[2, 1]);
    check(&run(&index("True", "#e=(1)bool"), &[one.clone()]), &[2, 1], &[7f32, 8.]);
    check(&run(&index("False", "#e=(1)bool"), &[one]), &[2, 0], &[] as &[f32]);
}

#[test]
fn indices_that_are_written_to() {
    let put = "prim::ListConstruct l 2 1 y k i\npnnx.Attribute weights 0 1 v @data=(3)f32
        Tensor.index_put p 3 1 x i v out accumulate=True $input=x $indices=i $values=v";
    let mut graph = parse(&format!(
        "pnnx.Input a 0 1 x\npnnx.Input b 0 1 y\npnnx.Input c 0 1 k\n{put}\npnnx.Output o 1 0 out"
    ));
    let weights = graph.operator_named("weights").unwrap();
    graph.set_attribute(weights, "data", Attribute::from_f32s(vec![3], &[1., 2., 3.]).unwrap()).unwrap();
    let mut graph = RuntimeGraph::from_pnnx(graph);
    graph.build().unwrap();
    let inputs = vec![x(), tensor(&[0i64, 0, 1], &[3]), tensor(&[1i64, 1, 2], &[3])];
    check(&graph.run_with(inputs).unwrap()[0], &[2, 3], &[1f32, 1., 3., -4., 5., -3.]);
    let masked = "prim::ListConstruct l 1 1 y i\nTensor.index_put p 2 1 x i out accumulate=False values=9.0 $input=x $indices=i";
    let mask = tensor(&[true, false, true, false, true, false], &[2, 3]);
    check(&run(masked, &[x(), mask]), &[2, 3], &[9f32, -2., 9., -4., 9., -6.]);
    let fill = "prim::Constant c 0 1 d value=1\nprim::Constant e 0 1 v value=0.5\naten::index_fill f 4 1 x d y v out";
    check(&run(fill, &[x(), tensor(&[2i64, 0], &[2])]), &[2, 3], &[0.5f32, -2., 0.5, 0.5, 5., 0.5]);
    let add = "prim::Constant c 0 1 d value=-1\nprim::Constant e 0 1 a value=2\naten::index_add f 5 1 x d k y a out";
    let source = tensor(&[2f32, 2., 3., -3.], &[2, 2]);
    check(&run(add, &[x(), source, tensor(&[2i64, 0], &[2])]), &[2, 3], &[5f32, -2., 7., -10., 5., 0.]);
}
