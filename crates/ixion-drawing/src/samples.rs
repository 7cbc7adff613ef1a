//! Networks for the tests: small ones with typical topologies, and large ones for the limits.

use super::NodeKind::{
    Activation, Elementwise, Input, Normalisation, Other, Output, Pooling, Shape, Weighted,
};
use super::{Drawing, Edge, Node, NodeKind};

/// Builds a drawing node by node.
#[derive(Default)]
pub(crate) struct Sketch {
    drawing: Drawing,
}

impl Sketch {
    pub(crate) fn new(title: &str) -> Self {
        Self { drawing: Drawing { title: title.into(), ..Drawing::default() } }
    }

    /// Adds a node that reads from `inputs` (each a node and the shape of its tensor) and returns its index.
    pub(crate) fn node(
        &mut self,
        kind: NodeKind,
        title: &str,
        name: &str,
        detail: &str,
        inputs: &[(usize, &str)],
    ) -> usize {
        let index = self.drawing.nodes.len();
        self.drawing.nodes.push(Node {
            title: title.into(),
            subtitle: name.into(),
            details: detail.split('\n').filter(|line| !line.is_empty()).map(String::from).collect(),
            kind,
        });
        for (from, label) in inputs {
            self.drawing.edges.push(Edge { from: *from, to: index, label: (*label).into() });
        }
        index
    }

    pub(crate) fn finish(self) -> Drawing {
        self.drawing
    }

    fn conv(&mut self, name: &str, detail: &str, input: usize, shape: &str) -> usize {
        self.node(Weighted, "nn.Conv2d", name, detail, &[(input, shape)])
    }

    fn relu(&mut self, name: &str, input: usize, shape: &str) -> usize {
        self.node(Activation, "F.relu", name, "", &[(input, shape)])
    }
}

/// A ResNet: stem, then stages whose first block has a projection shortcut.
pub(crate) fn resnet() -> Drawing {
    let mut net = Sketch::new("resnet10.pnnx.param");
    let input = net.node(Input, "pnnx.Input", "pnnx_input_0", "", &[]);
    let stem = net.conv("conv1", "64×3×7×7 weights, 37.6 KB\nstride 2, padding 3", input, "1×3×224×224 f32");
    let relu = net.relu("relu", stem, "1×64×112×112 f32");
    let pool =
        net.node(Pooling, "nn.MaxPool2d", "maxpool", "kernel 3, stride 2", &[(relu, "1×64×112×112 f32")]);
    let mut last = pool;
    let mut before = "1×64×56×56 f32".to_owned();
    for (stage, (channels, size)) in [(64, 56), (128, 28), (256, 14)].into_iter().enumerate() {
        let shape = format!("1×{channels}×{size}×{size} f32");
        for block in 0..2 {
            let name = |part: &str| format!("layer{}.{block}.{part}", stage + 1);
            let weights =
                format!("{channels}×{channels}×3×3 weights, {} KB", channels * channels * 36 / 1024);
            let a = net.conv(&name("conv1"), &weights, last, &before);
            let norm = net.node(Normalisation, "nn.BatchNorm2d", &name("bn1"), "", &[(a, &shape)]);
            let b = net.relu(&name("relu"), norm, &shape);
            let c = net.conv(&name("conv2"), &weights, b, &shape);
            let shortcut = if stage > 0 && block == 0 {
                net.conv(
                    &name("downsample.0"),
                    &format!("{channels}×{}×1×1 weights", channels / 2),
                    last,
                    &before,
                )
            } else {
                last
            };
            let d = net.node(
                Elementwise,
                "pnnx.Expression",
                &name("add"),
                "add(@0,@1)",
                &[(c, &shape), (shortcut, if shortcut == last { &before } else { &shape })],
            );
            last = net.relu(&name("relu_1"), d, &shape);
            before.clone_from(&shape);
        }
    }
    let pool = net.node(Pooling, "nn.AdaptiveAvgPool2d", "avgpool", "output 1×1", &[(last, &before)]);
    let flat = net.node(Shape, "torch.flatten", "torch.flatten_9", "", &[(pool, "1×256×1×1 f32")]);
    let fc = net.node(Weighted, "nn.Linear", "fc", "1000×256 weights, 1.0 MB", &[(flat, "1×256 f32")]);
    net.node(Output, "pnnx.Output", "pnnx_output_0", "", &[(fc, "1×1000 f32")]);
    net.finish()
}

/// Two inception blocks: four branches of different length, concatenated.
pub(crate) fn inception() -> Drawing {
    let mut net = Sketch::new("inception.pnnx.param");
    let mut last = net.node(Input, "pnnx.Input", "pnnx_input_0", "", &[]);
    let mut shape = "1×192×28×28 f32";
    for (block, out) in [("3a", "1×256×28×28 f32"), ("3b", "1×480×28×28 f32")] {
        let name = |part: &str| format!("inception{block}.{part}.conv");
        let one = net.conv(&name("branch1"), "64×192×1×1 weights", last, shape);
        let two = net.conv(&name("branch2.0"), "96×192×1×1 weights", last, shape);
        let two = net.conv(&name("branch2.1"), "128×96×3×3 weights", two, "1×96×28×28 f32");
        let three = net.conv(&name("branch3.0"), "16×192×1×1 weights", last, shape);
        let three = net.conv(&name("branch3.1"), "32×16×3×3 weights", three, "1×16×28×28 f32");
        let three = net.conv(&name("branch3.2"), "32×32×3×3 weights", three, "1×32×28×28 f32");
        let four =
            net.node(Pooling, "nn.MaxPool2d", &name("branch4.0"), "kernel 3, stride 1", &[(last, shape)]);
        let four = net.conv(&name("branch4.1"), "32×192×1×1 weights", four, shape);
        last = net.node(
            Shape,
            "torch.cat",
            &format!("cat_{block}"),
            "dim 1",
            &[
                (one, "1×64×28×28 f32"),
                (two, "1×128×28×28 f32"),
                (three, "1×32×28×28 f32"),
                (four, "1×32×28×28 f32"),
            ],
        );
        shape = out;
    }
    net.node(Output, "pnnx.Output", "pnnx_output_0", "", &[(last, shape)]);
    net.finish()
}

/// A network with two inputs, a constant and two outputs.
pub(crate) fn two_inputs() -> Drawing {
    let mut net = Sketch::new("Two inputs <image & question>");
    let image = net.node(Input, "pnnx.Input", "image", "", &[]);
    let words = net.node(Input, "pnnx.Input", "question", "", &[]);
    let seen = net.conv("vision.conv", "32×3×3×3 weights, 3.4 KB", image, "1×3×64×64 f32");
    let seen = net.relu("vision.relu", seen, "1×32×64×64 f32");
    let seen = net.node(Shape, "Tensor.reshape", "vision.flatten", "", &[(seen, "1×32×64×64 f32")]);
    let read = net.node(
        Weighted,
        "nn.Embedding",
        "language.embedding",
        "30522×128 weights, 14.9 MB",
        &[(words, "1×12 i64")],
    );
    let read = net.node(Weighted, "nn.LSTM", "language.lstm", "hidden 128", &[(read, "1×12×128 f32")]);
    let scale = net.node(Other, "pnnx.Attribute", "logit_scale", "1 value", &[]);
    let both = net.node(
        Elementwise,
        "pnnx.Expression",
        "expr_0",
        "mul(add(@0,@1),@2)",
        &[(seen, "1×128 f32"), (read, "1×128 f32"), (scale, "1 f32")],
    );
    let norm = net.node(
        Normalisation,
        "nn.LayerNorm",
        "head.a_name_so_long_that_it_cannot_fit_on_a_card.norm",
        "",
        &[(both, "1×128 f32")],
    );
    net.node(Output, "pnnx.Output", "answer", "", &[(norm, "1×128 f32")]);
    net.node(Output, "pnnx.Output", "state", "", &[(read, "1×1×128 f32")]);
    net.finish()
}

/// A U-Net of `levels` levels with long skip connections.
pub(crate) fn unet(levels: u32) -> Drawing {
    let mut net = Sketch::new("unet.pnnx.param");
    let mut last = net.node(Input, "pnnx.Input", "pnnx_input_0", "", &[]);
    let shape_at = |level: u32| format!("1×{}×{}×{} f32", 32 << level, 256 >> level, 256 >> level);
    let mut shape = "1×3×256×256 f32".to_owned();
    let mut skips = Vec::new();
    for level in 0..levels {
        let conv = net.conv(&format!("down.{level}.conv"), "3×3, padding 1", last, &shape);
        let relu = net.relu(&format!("down.{level}.relu"), conv, &shape_at(level));
        skips.push(relu);
        last =
            net.node(Pooling, "F.max_pool2d", &format!("down.{level}.pool"), "", &[(relu, &shape_at(level))]);
        shape = shape_at(level);
    }
    last = net.conv("middle.conv", "3×3, padding 1", last, &shape);
    for level in (0..levels).rev() {
        let shape = shape_at(level);
        let up = net.node(
            Weighted,
            "nn.ConvTranspose2d",
            &format!("up.{level}.up"),
            "2×2, stride 2",
            &[(last, &shape_at(level + 1))],
        );
        let cat = net.node(
            Shape,
            "torch.cat",
            &format!("up.{level}.cat"),
            "dim 1",
            &[(skips[level as usize], &shape), (up, &shape)],
        );
        let conv = net.conv(&format!("up.{level}.conv"), "3×3, padding 1", cat, &shape);
        last = net.relu(&format!("up.{level}.relu"), conv, &shape);
    }
    net.node(Output, "pnnx.Output", "pnnx_output_0", "", &[(last, &shape_at(0))]);
    net.finish()
}

/// A densely connected block: each layer reads everything before it.
pub(crate) fn densenet(layers: usize) -> Drawing {
    let mut net = Sketch::new("densenet.pnnx.param");
    let mut features = vec![net.node(Input, "pnnx.Input", "pnnx_input_0", "", &[])];
    for layer in 0..layers {
        let inputs: Vec<(usize, &str)> =
            features.iter().map(|&feature| (feature, "1×32×56×56 f32")).collect();
        let cat = net.node(Shape, "torch.cat", &format!("cat_{layer}"), "dim 1", &inputs);
        let norm = net.node(Normalisation, "nn.BatchNorm2d", &format!("norm_{layer}"), "", &[(cat, "")]);
        features.push(net.conv(&format!("conv_{layer}"), "3×3", norm, "1×?×56×56 f32"));
    }
    net.finish()
}

/// Multi-head attention blocks with a mask that every block reads.
pub(crate) fn transformer(blocks: usize) -> Drawing {
    let mut net = Sketch::new("encoder.pnnx.param");
    let tokens = net.node(Input, "pnnx.Input", "tokens", "", &[]);
    let mask = net.node(Input, "pnnx.Input", "mask", "", &[]);
    let mut last =
        net.node(Weighted, "nn.Embedding", "embed", "30522×768 weights, 89.4 MB", &[(tokens, "1×128 i64")]);
    let (wide, heads) = ("1×128×768 f32", "1×12×128×64 f32");
    for block in 0..blocks {
        let name = |part: &str| format!("encoder.layer.{block}.{part}");
        let mut parts = Vec::new();
        for part in ["query", "key", "value"] {
            let linear = net.node(
                Weighted,
                "nn.Linear",
                &name(&format!("attention.{part}")),
                "768×768 weights",
                &[(last, wide)],
            );
            let view =
                net.node(Shape, "Tensor.reshape", &name(&format!("{part}.view")), "", &[(linear, wide)]);
            parts.push(net.node(
                Shape,
                "torch.permute",
                &name(&format!("{part}.permute")),
                "",
                &[(view, "1×128×12×64 f32")],
            ));
        }
        let scores =
            net.node(Other, "torch.matmul", &name("scores"), "", &[(parts[0], heads), (parts[1], heads)]);
        let masked = net.node(
            Elementwise,
            "pnnx.Expression",
            &name("mask"),
            "add(div(@0,8.0),@1)",
            &[(scores, "1×12×128×128 f32"), (mask, "1×1×1×128 f32")],
        );
        let soft =
            net.node(Activation, "F.softmax", &name("softmax"), "dim −1", &[(masked, "1×12×128×128 f32")]);
        let mixed = net.node(
            Other,
            "torch.matmul",
            &name("context"),
            "",
            &[(soft, "1×12×128×128 f32"), (parts[2], heads)],
        );
        let out =
            net.node(Weighted, "nn.Linear", &name("output.dense"), "768×768 weights", &[(mixed, heads)]);
        let add = net.node(
            Elementwise,
            "pnnx.Expression",
            &name("add"),
            "add(@0,@1)",
            &[(out, wide), (last, wide)],
        );
        last = net.node(Normalisation, "nn.LayerNorm", &name("output.norm"), "", &[(add, wide)]);
    }
    net.node(Output, "pnnx.Output", "hidden", "", &[(last, wide)]);
    net.finish()
}

/// `count` nodes with titles only, and the given edges.
pub(crate) fn plain(count: usize, edges: &[(usize, usize)]) -> Drawing {
    let node = |index| Node {
        title: format!("op{index}"),
        subtitle: String::new(),
        details: Vec::new(),
        kind: Other,
    };
    Drawing {
        title: "plain".into(),
        nodes: (0..count).map(node).collect(),
        edges: edges.iter().map(|&(from, to)| Edge { from, to, label: String::new() }).collect(),
    }
}

/// `count` nodes and about `2 × count` edges, most of them short. The same seed gives the same graph.
pub(crate) fn random(count: usize, seed: u64) -> Drawing {
    let mut state = seed;
    let mut below = |bound: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % bound.max(1)
    };
    let mut edges = Vec::new();
    for to in 1..count {
        for _ in 0..1 + below(3) {
            let reach = if below(50) == 0 { to } else { to.min(8) };
            edges.push((to - 1 - below(reach), to));
        }
    }
    plain(count, &edges)
}

/// A collection of all kinds of drawings.
pub(crate) fn all() -> Vec<Drawing> {
    let cyclic = plain(6, &[(0, 1), (1, 2), (2, 3), (3, 1), (3, 4), (4, 0), (5, 5), (2, 9)]);
    let twins = plain(3, &[(0, 1), (0, 1), (1, 2), (0, 2), (0, 2)]);
    vec![
        resnet(),
        inception(),
        two_inputs(),
        unet(4),
        densenet(8),
        transformer(3),
        random(60, 1),
        random(200, 2),
        cyclic,
        twins,
        plain(1, &[]),
        plain(0, &[]),
        plain(9, &[(0, 1), (3, 4), (4, 5)]),
    ]
}

/// Checks that a document is well-formed XML: every start tag has its end tag, every `&` starts an entity. Returns the
/// tags.
pub(super) fn tags(svg: &str) -> Vec<String> {
    let (mut open, mut tags) = (Vec::new(), Vec::new());
    for piece in svg.split('<').skip(1) {
        let (tag, text) = piece.split_once('>').expect("a tag ends");
        assert!(!text.contains('>') || open.last() == Some(&"style"), "{text}");
        for entity in piece.split('&').skip(1) {
            assert!(
                ["lt;", "gt;", "amp;", "quot;", "#39;"].iter().any(|name| entity.starts_with(name)),
                "{entity}"
            );
        }
        assert_eq!(tag.matches('"').count() % 2, 0, "{tag}");
        let name = tag.trim_end_matches('/').split(' ').next().unwrap();
        match tag.strip_prefix('/') {
            Some(name) => assert_eq!(open.pop(), Some(name)),
            None if tag.ends_with('/') => tags.push(name.to_owned()),
            None => {
                open.push(name);
                tags.push(name.to_owned());
            }
        }
    }
    assert_eq!(open, [""; 0]);
    tags
}
