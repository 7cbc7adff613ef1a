//! Models in which sizes depend on values: they give the same results in every way of running them, the fast kernels are used, and
//! planning resumes where sizes are known again.

use ixion::Limits;
use ixion::engine::{Builder, Calibration, EngineError, Formats, Method, Plan, Precision};
use ixion::graph::{RuntimeGraph, RuntimeOperator};
use ixion::memory::Action;
use ixion::op::TensorMeta;
use ixion::passes::Passes;
use ixion::pnnx;
use ixion::tensor::{DType, Format, Tensor};

/// Tokens that a gate assigns to two experts, which add their results to those tokens, and two layers behind them.
const EXPERTS: &str = "pnnx.Input in 0 1 x #x=(6,8)f32
nn.Linear gate 1 1 x g bias=True in_features=8 out_features=2 @bias=(2)f32 @weight=(2,8)f32 #g=(6,2)f32
torch.argmax best 1 1 g b dim=-1 keepdim=False $input=g #b=(6)i64
torch.eq is_0 1 1 b m0 other=0 $input=b #m0=(6)bool
aten::nonzero find_0 1 1 m0 p0 #p0=(2,1)i64
torch.squeeze flat_0 1 1 p0 k0 dim=1 $input=p0 #k0=(2)i64
torch.index_select take_0 2 1 x k0 t0 dim=0 $input=x $index=k0 #t0=(2,8)f32
nn.Linear expert_0 1 1 t0 e0 bias=True in_features=8 out_features=8 @bias=(8)f32 @weight=(8,8)f32 #e0=(2,8)f32
nn.ReLU act_0 1 1 e0 a0 #a0=(2,8)f32
torch.index_add back_0 3 1 x k0 a0 r0 alpha=1 dim=0 $input=x $index=k0 $source=a0 #r0=(6,8)f32
torch.eq is_1 1 1 b m1 other=1 $input=b #m1=(6)bool
aten::nonzero find_1 1 1 m1 p1 #p1=(4,1)i64
torch.squeeze flat_1 1 1 p1 k1 dim=1 $input=p1 #k1=(4)i64
torch.index_select take_1 2 1 x k1 t1 dim=0 $input=x $index=k1 #t1=(4,8)f32
nn.Linear expert_1 1 1 t1 e1 bias=True in_features=8 out_features=8 @bias=(8)f32 @weight=(8,8)f32 #e1=(4,8)f32
nn.Tanh act_1 1 1 e1 a1 #a1=(4,8)f32
torch.index_add back_1 3 1 r0 k1 a1 r1 alpha=1 dim=0 $input=r0 $index=k1 $source=a1 #r1=(6,8)f32
nn.Linear wide 1 1 r1 w bias=True in_features=8 out_features=32 @bias=(32)f32 @weight=(32,8)f32 #w=(6,32)f32
nn.GELU act 1 1 w h #h=(6,32)f32
nn.Linear narrow 1 1 h n bias=True in_features=32 out_features=8 @bias=(8)f32 @weight=(8,32)f32 #n=(6,8)f32
pnnx.Expression skip 2 1 n x y expr=add(@0,@1) #y=(6,8)f32
pnnx.Output out 1 0 y";

/// Images whose mean is positive pass two convolutions; the results are returned, and added to these images.
const IMAGES: &str = "pnnx.Input in 0 1 x #x=(4,64,14,14)f32
torch.mean means 1 1 x s dim=(1,2,3) keepdim=False $input=x #s=(4)f32
torch.gt is_light 1 1 s m other=0 $input=s #m=(4)bool
aten::nonzero find 1 1 m p #p=(3,1)i64
torch.squeeze flat 1 1 p k dim=1 $input=p #k=(3)i64
torch.index_select take 2 1 x k t dim=0 $input=x $index=k #t=(3,64,14,14)f32
nn.Conv2d dense 1 1 t c bias=True dilation=(1,1) groups=1 in_channels=64 kernel_size=(3,3) out_channels=64 padding=(1,1) \
padding_mode=zeros stride=(1,1) @bias=(64)f32 @weight=(64,64,3,3)f32 #c=(3,64,14,14)f32
nn.ReLU act 1 1 c a #a=(3,64,14,14)f32
nn.Conv2d depthwise 1 1 a d bias=True dilation=(1,1) groups=64 in_channels=64 kernel_size=(3,3) out_channels=64 padding=(1,1) \
padding_mode=zeros stride=(1,1) @bias=(64)f32 @weight=(64,1,3,3)f32 #d=(3,64,14,14)f32
nn.Hardswish act2 1 1 d e #e=(3,64,14,14)f32
torch.index_add back 3 1 x k e r alpha=1 dim=0 $input=x $index=k $source=e #r=(4,64,14,14)f32
nn.Conv2d behind 1 1 r y bias=True dilation=(1,1) groups=1 in_channels=64 kernel_size=(3,3) out_channels=64 padding=(1,1) \
padding_mode=zeros stride=(1,1) @bias=(64)f32 @weight=(64,64,3,3)f32 #y=(4,64,14,14)f32
pnnx.Output out 2 0 e y";

/// Rows that a mask selects, in a chain of operators that may overwrite their inputs, and the sum of the results.
const MASKED: &str = "pnnx.Input in 0 1 x #x=(6,8)f32
Tensor.select first 1 1 x s dim=1 index=0 $input=x #s=(6)f32
torch.gt is_large 1 1 s m other=0 $input=s #m=(6)bool
pnnx.Expression list 1 1 m l expr=[@0] #l=(6)bool
Tensor.index take 2 1 x l t $input=x $expr=l #t=(3,8)f32
F.sigmoid gate 1 1 t g $input=t #g=(3,8)f32
pnnx.Expression mix 2 1 g t u expr=mul(@0,@1) #u=(3,8)f32
F.softmax soft 1 1 u v dim=-1 $input=u #v=(3,8)f32
Tensor.reshape flat 1 1 v f shape=(-1,4) $input=v #f=(6,4)f32
F.tanh more 1 1 f h $input=f #h=(6,4)f32
torch.cumsum sums 1 1 v c dim=1 $input=v #c=(3,8)f32
torch.sum total 1 1 c z dim=(0) keepdim=False $input=c #z=(8)f32
nn.ReLU act 1 1 z y #y=(8)f32
pnnx.Output out 3 0 h t y";

/// The places of all elements that are not zero, and a chain of tensors computed from them, all of which are returned.
const KEPT: &str = "pnnx.Input in 0 1 x #x=(6,8)f32
aten::nonzero find 1 1 x p #p=(48,2)i64
Tensor.to a 1 1 p a dtype=torch.float #a=(48,2)f32
F.sigmoid b 1 1 a b $input=a #b=(48,2)f32
F.tanh c 1 1 b c $input=b #c=(48,2)f32
torch.transpose d 1 1 c d dim0=0 dim1=1 $input=c #d=(2,48)f32
F.sigmoid e 1 1 c e $input=c #e=(48,2)f32
pnnx.Output out 5 0 a b c d e";

fn graph(text: &str) -> pnnx::Graph {
    let text = format!("7767517\n{} 0\n{text}\n", text.lines().count());
    pnnx::Graph::parse(&text, &Limits::default()).unwrap()
}

fn builder(text: &str) -> Builder {
    Builder::from_pnnx(graph(text)).with_random_weights(7)
}

/// The plan in all variants: the formats, the number of threads, and saved and loaded again.
fn plans(text: &str) -> Vec<(&'static str, Plan)> {
    let folder = tempfile::tempdir().unwrap();
    let selected = builder(text).build().unwrap();
    let load = |name: &str, plan: &Plan| {
        let path = folder.path().join(name);
        plan.save(&path).unwrap();
        Plan::load(&path).unwrap()
    };
    let alternating = builder(text).with_formats(Formats::Alternating).build().unwrap();
    vec![
        ("loaded", load("selected.plan", &selected)),
        ("loaded, alternating", load("alternating.plan", &alternating)),
        ("selected", selected),
        ("alternating", alternating),
        ("plain", builder(text).with_formats(Formats::Plain).build().unwrap()),
        ("on 2 threads", builder(text).with_threads(2).build().unwrap()),
        ("without passes", builder(text).with_passes(Passes::empty()).build().unwrap()),
    ]
}

/// The largest difference between two f32 tensors, in multiples of the largest wanted value.
fn error(found: &Tensor, wanted: &Tensor) -> f32 {
    assert_eq!((found.dtype(), found.shape()), (DType::F32, wanted.shape()));
    let (found, wanted) = (found.to_vec::<f32>().unwrap(), wanted.to_vec::<f32>().unwrap());
    let largest = wanted.iter().fold(f32::MIN_POSITIVE, |largest, value| largest.max(value.abs()));
    assert!(found.iter().all(|value| value.is_finite()));
    let differences = found.iter().zip(&wanted).map(|(found, wanted)| (found - wanted).abs());
    differences.fold(0.0, f32::max) / largest
}

/// Checks that all plans give what the interpreter gives, for all of these inputs in turn.
fn all_agree(text: &str, inputs: &[Tensor]) {
    let mut graph = RuntimeGraph::from_pnnx(graph(text)).with_random_weights(7);
    graph.build().unwrap();
    let plans = plans(text);
    let mut contexts: Vec<_> = plans.iter().map(|(name, plan)| (name, plan.context().unwrap())).collect();
    for (step, input) in inputs.iter().chain(inputs).enumerate() {
        let wanted = graph.run_with(vec![input.clone()]).unwrap();
        for (name, context) in &mut contexts {
            let found = context.run(std::slice::from_ref(input)).unwrap();
            assert_eq!(found.len(), wanted.len());
            for (output, (found, wanted)) in found.iter().zip(&wanted).enumerate() {
                let error = error(found, wanted);
                assert!(error < 1e-4, "{name}, step {step}, output {output}: {error}");
            }
        }
    }
}

/// Images of 64×14×14 numbers, light or dark.
fn images(are_light: &[bool]) -> Tensor {
    let mut pixels: Vec<f32> = Vec::new();
    for (image, &is_light) in are_light.iter().enumerate() {
        let shift = if is_light { 0.25 } else { -0.25 };
        pixels.extend((0..64 * 14 * 14).map(|at| ((at * 37 + image * 11) % 101) as f32 * 0.02 - 1.0 + shift));
    }
    Tensor::from_vec(pixels, &[are_light.len(), 64, 14, 14]).unwrap()
}

fn tokens(count: usize, seed: u64) -> Tensor {
    Tensor::randn(&[count, 8], seed).unwrap()
}

/// Six tokens, of which `MASKED` selects the first ones.
fn chosen(count: usize) -> Tensor {
    let value = |at: usize| match (at / 8, at % 8) {
        (row, 0) if row < count => 1.0,
        (_, 0) => -1.0,
        _ => (at % 7) as f32 * 0.25,
    };
    Tensor::from_vec((0..48).map(value).collect(), &[6, 8]).unwrap()
}

fn operator<'p>(plan: &'p Plan, name: &str) -> (usize, &'p RuntimeOperator) {
    let mut operators = plan.graph().operators().iter().enumerate();
    operators.find(|(_, operator)| operator.name() == name).unwrap()
}

/// Whether each of these operators has places for all of its tensors.
fn are_planned(plan: &Plan, shape: &[usize], names: &[&str]) -> Vec<bool> {
    let mut context = plan.context().unwrap();
    let memory = context.memory_plan(&[TensorMeta::new(DType::F32, shape.iter().copied())]).unwrap();
    let is_planned = |name: &&str| memory.steps[operator(plan, name).0].action != Action::Dynamic;
    names.iter().map(is_planned).collect()
}

#[test]
fn experts_agree_in_all_modes() {
    all_agree(EXPERTS, &[tokens(6, 1), tokens(1, 2), tokens(17, 3), tokens(0, 4), tokens(6, 5)]);
}

#[test]
fn chosen_images_agree_in_all_modes() {
    let inputs = [&[true, false, true, true][..], &[false; 3], &[true], &[], &[true, true, false, false]];
    all_agree(IMAGES, &inputs.map(images));
}

#[test]
fn masked_rows_agree_in_all_modes() {
    let inputs = [tokens(6, 1), tokens(1, 2), tokens(5000, 3), tokens(0, 4), tokens(6000, 5), tokens(6, 1)];
    all_agree(MASKED, &inputs);
}

#[test]
fn planning_resumes_where_sizes_are_known_again() {
    let plan = builder(EXPERTS).build().unwrap();
    let names = ["gate", "find_0", "expert_0", "back_0", "is_1", "expert_1", "back_1", "wide", "narrow"];
    let planned = [true, false, false, false, true, false, false, true, true];
    assert_eq!(are_planned(&plan, &[6, 8], &names), planned);
    // Only tensors whose size is unknown have no places.
    let mut context = plan.context().unwrap();
    let memory = context.memory_plan(&[TensorMeta::new(DType::F32, [6, 8])]).unwrap().clone();
    for name in ["back_0", "back_1", "narrow"] {
        let output = operator(&plan, name).1.outputs()[0];
        assert!(memory.places[output.position()].is_some(), "{name}");
    }
}

#[test]
fn convolutions_of_unknown_size_use_blocks() {
    let plan = builder(IMAGES).build().unwrap();
    assert_eq!(are_planned(&plan, &[4, 64, 14, 14], &["dense", "depthwise", "behind"]), [false, false, true]);
    for name in ["dense", "depthwise", "behind"] {
        let output = operator(&plan, name).1.outputs()[0];
        assert_ne!(plan.graph().operand(output).format(), Format::Plain, "{name}");
    }
}

#[test]
fn half_precision_works_for_unknown_sizes() {
    let narrow = builder(IMAGES).with_precisions([Precision::Bf16]).with_formats(Formats::Narrowest);
    let (narrow, single) = (narrow.build().unwrap(), builder(IMAGES).build().unwrap());
    let x = images(&[true, false, true]);
    let run = |plan: &Plan| plan.context().unwrap().run(std::slice::from_ref(&x)).unwrap();
    for (found, wanted) in run(&narrow).iter().zip(&run(&single)) {
        let error = error(found, wanted);
        assert!(error > 1e-5 && error < 0.05, "{error}");
    }
}

#[test]
fn the_caller_provides_buffers_for_outputs_of_known_size() {
    let plan = builder(EXPERTS).build().unwrap();
    let mut context = plan.context().unwrap();
    let x = tokens(6, 1);
    let wanted = context.run(std::slice::from_ref(&x)).unwrap();
    let mut buffer = Tensor::zeros(DType::F32, &[6, 8]).unwrap();
    context.run_into(&[x.view()], &mut [buffer.view_mut().unwrap()]).unwrap();
    assert_eq!(buffer, wanted[0]);
}

#[test]
fn int8_works_for_unknown_sizes() {
    let inputs = [&[true, false, true][..], &[true; 4], &[false; 2], &[false, true]].map(images);
    let mut calibration = Calibration::new(builder(IMAGES)).unwrap();
    inputs[..2].iter().for_each(|input| calibration.see_range(vec![input.clone()]).unwrap());
    let scales = calibration.scales(Method::MinMax);
    let narrow = builder(IMAGES).with_precisions([Precision::Int8]).with_scales(scales);
    let (narrow, single) =
        (narrow.with_formats(Formats::Narrowest).build().unwrap(), builder(IMAGES).build().unwrap());
    for name in ["dense", "behind"] {
        let input = operator(&narrow, name).1.inputs()[0];
        assert!(narrow.graph().operand(input).scale().is_some(), "{name}");
    }
    let (mut narrow, mut single) = (narrow.context().unwrap(), single.context().unwrap());
    for input in &inputs {
        let [found, wanted] =
            [&mut narrow, &mut single].map(|it| it.run(std::slice::from_ref(input)).unwrap());
        for (found, wanted) in found.iter().zip(&wanted) {
            let error = error(found, wanted);
            assert!(error < 0.1, "{error}");
        }
    }
}

#[test]
fn a_context_runs_again_after_errors_in_the_middle() {
    // Only three rows have as many elements as that.
    let text = MASKED.replace("shape=(-1,4)", "shape=(6,4)");
    all_agree(&text, &[chosen(3)]);
    for (name, plan) in plans(&text) {
        let mut context = plan.context().unwrap();
        let wanted = context.run(&[chosen(3)]).unwrap();
        for count in [2, 0, 6] {
            assert!(context.run(&[chosen(count)]).is_err(), "{name}: {count} rows");
            assert_eq!(context.run(&[chosen(3)]).unwrap(), wanted, "{name}");
        }
        context.cancel_token().cancel();
        let error = context.run(&[chosen(3)]).unwrap_err();
        assert!(matches!(error, EngineError::Cancelled { .. }), "{name}: {error}");
        assert_eq!(context.run(&[chosen(3)]).unwrap(), wanted, "{name}");
    }
}

#[test]
fn outputs_that_share_memory_are_kept_until_the_next_run() {
    let ones =
        |count: usize| Tensor::from_vec((0..48).map(|at| f32::from(at < count)).collect(), &[6, 8]).unwrap();
    all_agree(KEPT, &[ones(5), ones(48), ones(0)]);
    let plan = builder(KEPT).build().unwrap();
    let mut context = plan.context().unwrap();
    let mut last: Vec<(Tensor, Vec<f32>)> = Vec::new();
    for x in [5, 48, 0, 48].map(ones) {
        let wanted = plan.context().unwrap().run(std::slice::from_ref(&x)).unwrap();
        let found = context.run_reusing(&[x.view()]).unwrap();
        let found: Vec<Tensor> = found.iter().flatten().cloned().collect();
        assert_eq!(found, wanted);
        assert_eq!(found[3], found[2].permute(&[1, 0]).unwrap());
        for (tensor, values) in &last {
            assert_eq!(tensor.to_vec::<f32>().unwrap(), *values, "the caller still has it");
        }
        last = found.into_iter().map(|tensor| (tensor.clone(), tensor.to_vec::<f32>().unwrap())).collect();
    }
}

#[test]
fn all_tensors_of_unknown_size_count_towards_the_limit() {
    let x = Tensor::ones(DType::F32, &[1000, 8]).unwrap();
    let run = |most: u64| {
        let limits = Limits { max_total_bytes: most, ..Limits::default() };
        let plan = builder(KEPT).with_passes(Passes::empty()).with_limits(limits).build().unwrap();
        let outputs = plan.context().unwrap().run(std::slice::from_ref(&x))?;
        Ok::<_, EngineError>(outputs.len())
    };
    // `d` is a view; the others are 8000×2 numbers each.
    assert_eq!(run(256_000).unwrap(), 5);
    let error = run(255_999).unwrap_err().to_string();
    let wanted = "the activations: 256000 exceeds the limit max_total_bytes of 255999";
    assert!(error.contains("`e`") && error.contains(wanted), "{error}");
}
