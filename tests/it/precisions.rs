//! Element types selected by the engine: f16, bf16 and int8.

use ixion::Limits;
use ixion::engine::{Builder, Formats, Plan, Precision, Scales};
use ixion::op::{
    CpuLayer, Creator, Io, Layer, LayerError, OperatorReader, Registry, TensorFormat, TensorMeta,
};
use ixion::pnnx;
use ixion::tensor::{DType, Tensor};
use std::path::PathBuf;

fn param(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(format!("model_file/{name}/{name}.pnnx.param"))
}

fn builder(text: &str) -> Builder {
    let text = format!("7767517\n{} 0\n{text}\n", text.lines().count());
    Builder::from_pnnx(pnnx::Graph::parse(&text, &Limits::default()).unwrap()).with_random_weights(7)
}

fn noise(dims: &[usize]) -> Tensor {
    let len: usize = dims.iter().product();
    let values = (0..len).map(|i| ((i * 37) % 101) as f32 * 0.02 - 1.0).collect();
    Tensor::from_vec(values, dims).unwrap()
}

fn run(plan: &Plan, input: &Tensor) -> Tensor {
    plan.context().unwrap().run(std::slice::from_ref(input)).unwrap().remove(0)
}

fn types(plan: &Plan) -> Vec<DType> {
    let outputs = plan.graph().operators().iter().map(|operator| operator.outputs()[0]);
    outputs.map(|output| plan.shapes().get(output).unwrap().dtype()).collect()
}

/// Three linear layers, which are bound by reading their weights if there is one row.
const LINEAR: &str = "pnnx.Input in 0 1 x #x=(1,64)f32\n\
    nn.Linear a 1 1 x a bias=True in_features=64 out_features=128 @weight=(128,64)f32 @bias=(128)f32\n\
    nn.ReLU b 1 1 a b\n\
    nn.Linear c 1 1 b y bias=False in_features=128 out_features=8 @weight=(8,128)f32\n\
    pnnx.Output out 1 0 y";

#[test]
fn without_precisions_nothing_changes() {
    let plan = builder(LINEAR).build().unwrap();
    assert!(types(&plan).iter().all(|dtype| *dtype == DType::F32));
    let with = builder(LINEAR).with_precisions([Precision::F32]).build().unwrap();
    assert_eq!(run(&plan, &noise(&[1, 64])), run(&with, &noise(&[1, 64])));
}

/// One row times a large matrix: reading the weights dominates, and half the bytes take half the time.
#[test]
fn memory_bound_layers_use_16_bits() {
    let text = "pnnx.Input in 0 1 x #x=(?,512)f32\n\
        nn.Linear a 1 1 x y bias=True in_features=512 out_features=512 @weight=(512,512)f32 @bias=(512)f32\n\
        pnnx.Output out 1 0 y";
    let built = |rows: usize, precisions: &[Precision]| {
        let shape = format!("{rows},512").parse().unwrap();
        builder(text).with_shape("in", shape).with_precisions(precisions.iter().copied()).build().unwrap()
    };
    let both = [Precision::F16, Precision::Bf16];
    assert!(types(&built(1, &both)).contains(&DType::Bf16));
    assert!(types(&built(1, &[Precision::F16])).contains(&DType::F16));
    assert!(types(&built(64, &both)).iter().all(|dtype| *dtype == DType::F32), "the product takes the time");
    for precision in both {
        let narrow = built(1, &[precision]);
        let (x, want) = (noise(&[1, 512]), built(1, &[]));
        let comparison = run(&narrow, &x).allclose(&run(&want, &x), 0.02, 0.05, false).unwrap();
        assert!(comparison.holds(), "{precision}: {comparison}");
    }
}

/// The tactics selected for `a` and `c`.
fn tactics(plan: &Plan) -> Vec<&'static str> {
    let selections =
        plan.selections().iter().filter(|selection| ["a", "c"].contains(&selection.operator.as_str()));
    selections.map(|selection| selection.candidates[selection.chosen.unwrap()].tactic.name).collect()
}

#[test]
fn factors_are_rounded_on_request() {
    const ROWS: &str = "pnnx.Input in 0 1 x #x=(64,65)f32\n\
        nn.Linear a 1 1 x a bias=True in_features=65 out_features=128 @weight=(128,65)f32 @bias=(128)f32\n\
        nn.GELU b 1 1 a b approximate=none\n\
        nn.Linear c 1 1 b y bias=False in_features=128 out_features=40 @weight=(40,128)f32\n\
        pnnx.Output out 1 0 y";
    if !ixion::kernels::multiplies_pairs() {
        let plan = builder(ROWS).with_tactics(["bf16"]).build().unwrap();
        assert_eq!(tactics(&plan), ["default"; 2]);
        return;
    }
    let exact = builder(ROWS).build().unwrap();
    let by_name = builder(ROWS).with_tactics(["bf16"]).build().unwrap();
    let without = builder(ROWS).with_precisions([Precision::Bf16]).without_tactics(["bf16"]).build().unwrap();
    let of_others = builder(ROWS).with_precisions([Precision::F16]).build().unwrap();
    assert_eq!(tactics(&by_name), ["bf16"; 2]);
    for plan in [&exact, &without, &of_others] {
        assert!(tactics(plan).iter().all(|name| *name == "default"), "{:?}", tactics(plan));
    }
    let allowed = builder(ROWS).with_precisions([Precision::Bf16]).build().unwrap();
    let is_quicker = ixion::kernels::gain_of_pairs(40.0) > 1.0;
    assert_eq!(tactics(&allowed).contains(&"bf16"), is_quicker, "{:?}", tactics(&allowed));

    for rows in [64, 1, 7] {
        let x = noise(&[rows, 65]);
        let (got, want) = (run(&by_name, &x), run(&exact, &x));
        let comparison = got.allclose(&want, 0.0, 0.02, false).unwrap();
        assert!(comparison.holds() && got != want, "{rows} rows: {comparison}");
        let threads = builder(ROWS).with_tactics(["bf16"]).with_threads(2).build().unwrap();
        assert_eq!(run(&threads, &x), got, "threads change no bit");
    }
}

#[test]
fn models_in_16_bits_give_nearly_the_same() {
    for (model, dims) in [("digits", &[3, 1, 8, 8][..]), ("shapes_unet", &[1, 3, 64, 64])] {
        let input = noise(dims);
        let want = run(&Builder::new(param(model)).build().unwrap(), &input);
        let largest = want.to_vec::<f32>().unwrap().iter().fold(0f32, |max, x| max.max(x.abs()));
        for (precision, dtype, digits) in
            [(Precision::F16, DType::F16, 11), (Precision::Bf16, DType::Bf16, 8)]
        {
            let plan = Builder::new(param(model))
                .with_precisions([precision])
                .with_formats(Formats::Narrowest)
                .build()
                .unwrap();
            let found = types(&plan);
            assert_eq!(
                found.iter().filter(|found| **found == DType::F32).count(),
                1,
                "the last one converts"
            );
            assert!(found.contains(&dtype));
            let got = run(&plan, &input);
            assert_eq!(got.dtype(), DType::F32, "outputs keep their type");
            // Some tens of roundings, each by half a unit in the last place.
            let tolerance = f64::from(largest) * 16.0 / f64::from(1 << digits);
            let comparison = got.allclose(&want, 0.0, tolerance, false).unwrap();
            assert!(comparison.holds(), "{model} in {precision}: {comparison}");
            assert_ne!(got, want, "{model} in {precision}");
        }
    }
}

#[test]
fn plans_keep_weights_as_they_are_used() {
    let built = |precisions: &[Precision]| {
        Builder::new(param("shapes_unet"))
            .with_precisions(precisions.iter().copied())
            .with_formats(Formats::Narrowest)
            .build()
            .unwrap()
    };
    let folder = tempfile::tempdir().unwrap();
    let (wide, narrow) = (built(&[]), built(&[Precision::F16]));
    assert_eq!(narrow.weight_bytes() * 2, wide.weight_bytes());
    let paths = ["wide.plan", "narrow.plan"].map(|name| folder.path().join(name));
    wide.save(&paths[0]).unwrap();
    narrow.save(&paths[1]).unwrap();
    let bytes = paths.each_ref().map(|path| path.metadata().unwrap().len());
    assert!(bytes[1] < bytes[0] * 6 / 10, "{bytes:?}");
    let (loaded, input) = (Plan::load(&paths[1]).unwrap(), noise(&[2, 3, 32, 64]));
    assert_eq!(types(&loaded), types(&narrow));
    assert_eq!(run(&loaded, &input), run(&narrow, &input));
}

#[test]
fn integers_are_unchanged() {
    let text = "pnnx.Input in 0 1 x #x=(4,8)f32\npnnx.Input index 0 1 i #i=(3)i64\n\
                torch.index_select pick 2 1 x i y dim=0\nnn.ReLU act 1 1 y z\npnnx.Output out 1 0 z";
    let plan =
        builder(text).with_precisions([Precision::F16]).with_formats(Formats::Narrowest).build().unwrap();
    let index = Tensor::from_vec(vec![3i64, 0, 3], &[3]).unwrap();
    let x = noise(&[4, 8]);
    let got = plan.context().unwrap().run(&[x.clone(), index.clone()]).unwrap().remove(0);
    let want = builder(text).build().unwrap().context().unwrap().run(&[x, index]).unwrap().remove(0);
    assert!(got.allclose(&want, 0.0, 1e-3, false).unwrap().holds());
    assert!(types(&plan).contains(&DType::F16));
}

/// Copies quantised int8 values and supports no other format.
#[derive(Debug, Clone, Default)]
struct Whole {
    scales: Vec<Option<f32>>,
}

impl Layer for Whole {
    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>, LayerError> {
        assert_eq!(inputs[0].dtype(), DType::F32, "infer sees the model's own types");
        Ok(vec![inputs[0].with_dims(inputs[0].dims().to_vec())])
    }
}

impl CpuLayer for Whole {
    fn supports(&self, position: usize, formats: &[TensorFormat]) -> bool {
        formats[position] == TensorFormat::quantized()
    }

    fn configure(&mut self, inputs: &[TensorMeta], outputs: &[TensorMeta]) -> Result<(), LayerError> {
        self.scales = inputs.iter().chain(outputs).map(TensorMeta::scale).collect();
        Ok(())
    }

    fn forward(&mut self, io: &mut Io<'_, '_>) -> Result<(), LayerError> {
        assert_eq!(self.scales, [Some(0.5), Some(0.25)]);
        assert_eq!((io.inputs[0].dtype(), io.outputs[0].dtype()), (DType::I8, DType::I8));
        Ok(io.outputs[0].copy_from(&io.inputs[0])?)
    }
}

fn registry() -> Registry {
    let mut registry = Registry::default();
    let create = |_: &mut OperatorReader<'_>| Ok(Box::<Whole>::default() as Box<dyn CpuLayer>);
    registry.add("my.Whole", Creator::new("test", "1", create)).unwrap();
    registry
}

const WHOLE: &str =
    "pnnx.Input in 0 1 x #x=(1,6)f32\nmy.Whole w 1 1 x y\nnn.ReLU r 1 1 y z\npnnx.Output out 1 0 z";

#[test]
fn int8_is_quantized_and_dequantised_by_scales() {
    let scales: Scales = [("x", 0.5), ("y", 0.25)].into_iter().collect();
    let plan = builder(WHOLE)
        .with_registry(registry())
        .with_precisions([Precision::Int8])
        .with_scales(scales)
        .build()
        .unwrap();
    let x = Tensor::from_vec(vec![0.0f32, 0.6, 1.3, -2.0, 63.5, 1e6], &[1, 6]).unwrap();
    // Quantised with scale 0.5, dequantised with scale 0.25; 127 is the largest value.
    let want = [0.0, 0.25, 0.75, 0.0, 31.75, 31.75];
    assert_eq!(run(&plan, &x).to_vec::<f32>().unwrap(), want);

    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.plan");
    plan.save(&path).unwrap();
    let loaded = ixion::engine::PlanFile::open(&path, &Limits::default()).unwrap().with_registry(registry());
    assert_eq!(run(&loaded.load().unwrap(), &x).to_vec::<f32>().unwrap(), want);
}

#[test]
fn a_layer_that_needs_what_is_not_allowed_says_so() {
    let scales = || [("x", 0.5), ("y", 0.25)].into_iter().collect::<Scales>();
    let error = |builder: Builder| builder.with_registry(registry()).build().unwrap_err().to_string();
    let without_scales = error(builder(WHOLE).with_precisions([Precision::Int8]));
    let not_allowed = error(builder(WHOLE).with_scales(scales()));
    for error in [without_scales, not_allowed] {
        assert!(
            error.contains("my.Whole `w`") && error.contains("input 0 (`x`): takes nothing, refuses f32"),
            "{error}"
        );
    }
    let kept = scales().with_kept(["w"]);
    let error = error(builder(WHOLE).with_precisions([Precision::Int8]).with_scales(kept));
    assert!(error.contains("takes nothing"), "{error}");
}

#[test]
fn other_layouts_leave_other_types_alone() {
    let scales = || [("x", 0.5), ("y", 0.25)].into_iter().collect::<Scales>();
    let built = |formats| {
        let builder = builder(WHOLE).with_registry(registry()).with_scales(scales());
        builder.with_precisions([Precision::Int8]).with_formats(formats).build().unwrap()
    };
    let x = Tensor::from_vec(vec![0.0f32, 0.6, 1.3, -2.0, 63.5, 1e6], &[1, 6]).unwrap();
    assert_eq!(run(&built(Formats::Alternating), &x), run(&built(Formats::Cheapest), &x));
    for precision in [Precision::F16, Precision::Bf16] {
        let build = |formats| {
            let builder = Builder::new(param("digits")).with_precisions([precision]);
            builder.with_formats(formats).build().unwrap()
        };
        let input = noise(&[2, 1, 8, 8]);
        let comparison = run(&build(Formats::Alternating), &input)
            .allclose(&run(&build(Formats::Cheapest), &input), 0.05, 0.2, false)
            .unwrap();
        assert!(comparison.holds(), "{comparison}");
    }
}
