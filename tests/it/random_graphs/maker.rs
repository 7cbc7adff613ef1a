//! Random choices: values of a kind, weights, and operators.

use super::net::{Net, Node, SIZES, Value, length};
use ixion::op::TensorMeta;
use ixion::tensor::{DType, Dim};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

/// A graph under construction.
pub(crate) struct Maker {
    pub(crate) rng: StdRng,
    pub(crate) net: Net,
    /// Values that do not become outputs.
    pub(crate) dead: Vec<Value>,
}

/// A weight: its key and its shape.
pub(crate) type Weight<'a> = (&'a str, Vec<usize>);

impl Maker {
    pub(crate) fn new(seed: u64) -> Self {
        let mut maker = Self { rng: StdRng::seed_from_u64(seed), net: Net::default(), dead: Vec::new() };
        let [n, h, w, t] = ["n", "h", "w", "t"].map(Dim::symbol);
        let channels = [3usize, 4, 8][maker.rng.random_range(0..3)];
        let image = [n.clone(), channels.into(), h, w];
        let tokens = [n.clone(), t, [8usize, 12, 16][maker.rng.random_range(0..3)].into()];
        let vector = [n, 8usize.into()];
        if maker.chance(75) {
            maker.net.input(TensorMeta::new(DType::F32, image.clone()));
        }
        if maker.chance(60) {
            maker.net.input(TensorMeta::new(DType::F32, tokens));
        }
        if maker.net.inputs.is_empty() || maker.chance(25) {
            maker.net.input(TensorMeta::new(DType::F32, vector));
        }
        if maker.chance(25) {
            maker.net.input(TensorMeta::new(DType::F32, image));
        }
        maker
    }

    pub(crate) fn chance(&mut self, percent: u32) -> bool {
        self.rng.random_range(0..100) < percent
    }

    pub(crate) fn rng_below(&mut self, count: u32) -> u32 {
        self.rng.random_range(0..count)
    }

    pub(crate) fn one_of<'a>(&mut self, words: &[&'a str]) -> &'a str {
        words[self.rng.random_range(0..words.len())]
    }

    pub(crate) fn number(&mut self, numbers: &[usize]) -> usize {
        numbers[self.rng.random_range(0..numbers.len())]
    }

    pub(crate) fn meta(&self, value: Value) -> &TensorMeta {
        &self.net.metas[value]
    }

    pub(crate) fn dim(&self, value: Value, axis: usize) -> Dim {
        self.meta(value).dims()[axis].clone()
    }

    /// The length of an axis with a fixed length.
    pub(crate) fn fixed(&self, value: Value, axis: usize) -> usize {
        self.dim(value, axis).fixed().unwrap().try_into().unwrap()
    }

    /// The smallest length of an axis in any run.
    pub(crate) fn least(&self, value: Value, axis: usize) -> i64 {
        let dim = self.dim(value, axis);
        SIZES.iter().map(|sizes| length(&dim, sizes)).min().unwrap()
    }

    /// Returns true if a value has few enough elements to grow.
    pub(crate) fn is_small(&self, value: Value) -> bool {
        let elements = self.meta(value).num_elements();
        SIZES.iter().all(|sizes| length(&elements, sizes) < 6_000)
    }

    /// A random value of known size that satisfies the predicate, with a preference for recent ones.
    pub(crate) fn pick(&mut self, holds: impl Fn(&Self, Value) -> bool) -> Option<Value> {
        let count = self.net.metas.len();
        let is_usual =
            |value: Value| self.meta(value).dtype() == DType::F32 && self.net.has_known_size(value);
        let fits = |value: &Value| is_usual(*value) && holds(self, *value);
        let values: Vec<Value> = (0..count).filter(fits).collect();
        let recent = values.len().saturating_sub(3);
        match (values.is_empty(), self.chance(60)) {
            (true, _) => None,
            (_, true) => Some(values[self.rng.random_range(recent..values.len())]),
            _ => Some(values[self.rng.random_range(0..values.len())]),
        }
    }

    /// An image: batch, a number of channels, height and width.
    pub(crate) fn image(&mut self) -> Option<Value> {
        self.pick(|maker, value| {
            let meta = maker.meta(value);
            meta.rank() == 4
                && meta.dims()[0] == Dim::symbol("n")
                && meta.dims()[1].fixed().is_some_and(|c| c > 1)
        })
    }

    /// Tokens: batch, length, and a number of features.
    pub(crate) fn tokens(&mut self) -> Option<Value> {
        self.pick(|maker, value| {
            let meta = maker.meta(value);
            meta.rank() == 3 && meta.dims()[2].fixed().is_some_and(|c| c > 1)
        })
    }

    /// Any value with a batch axis.
    pub(crate) fn any(&mut self) -> Option<Value> {
        self.pick(|maker, value| maker.meta(value).rank() >= 2)
    }

    /// Another value of the same shape, or the value itself.
    pub(crate) fn twin(&mut self, of: Value) -> Value {
        self.pick(|maker, value| value != of && maker.meta(value) == maker.meta(of)).unwrap_or(of)
    }

    fn weight(&mut self, key: &str, shape: &[usize]) -> Vec<f32> {
        let count: usize = shape.iter().product();
        let fan_in: usize = shape.iter().skip(1).product::<usize>().max(1);
        let scale = if shape.len() > 1 { (3.0 / fan_in as f32).sqrt() } else { 0.5 };
        let shift = if key == "running_var" || key == "weight" && shape.len() == 1 { 1.0 } else { 0.0 };
        (0..count).map(|_| shift + scale * self.rng.random_range(-1.0f32..1.0)).collect()
    }

    /// Adds an operator with inputs `(name, value)`; a name may be empty.
    pub(crate) fn make(
        &mut self,
        op_type: &str,
        inputs: &[(&str, Value)],
        params: &[(&str, &str)],
        weights: &[Weight<'_>],
        outputs: usize,
    ) -> Vec<Value> {
        let attrs = weights.iter().map(|(key, shape)| {
            let values = self.weight(key, shape);
            (key.to_string(), shape.clone(), values)
        });
        let node = Node {
            op_type: op_type.to_owned(),
            attrs: attrs.collect(),
            inputs: inputs.iter().map(|(name, value)| (*value, name.to_string())).collect(),
            outputs: Vec::new(),
            params: params.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect(),
        };
        self.net.push(node, outputs)
    }

    /// Adds a module or function with one input and one output and without weights.
    pub(crate) fn unary(&mut self, op_type: &str, x: Value, params: &[(&str, &str)]) -> Value {
        let name = if op_type.starts_with("nn.") { "" } else { "input" };
        self.make(op_type, &[(name, x)], params, &[], 1)[0]
    }

    /// Adds an expression of some inputs.
    pub(crate) fn expression(&mut self, text: &str, inputs: &[Value]) -> Value {
        let inputs: Vec<(&str, Value)> = inputs.iter().map(|&value| ("", value)).collect();
        self.make("pnnx.Expression", &inputs, &[("expr", text)], &[], 1)[0]
    }

    /// A stored tensor.
    pub(crate) fn constant(&mut self, shape: &[usize]) -> Value {
        self.make("pnnx.Attribute", &[], &[], &[("data", shape.to_vec())], 1)[0]
    }

    /// Adds a linear layer over the last axis.
    pub(crate) fn linear(&mut self, x: Value, outputs: usize) -> Value {
        let inputs = self.fixed(x, self.meta(x).rank() - 1);
        let bias = self.chance(70);
        let mut weights = vec![("weight", vec![outputs, inputs])];
        if bias {
            weights.push(("bias", vec![outputs]));
        }
        let (inputs, outputs, bias) =
            (inputs.to_string(), outputs.to_string(), if bias { "True" } else { "False" });
        let params = [("in_features", &*inputs), ("out_features", &outputs), ("bias", bias)];
        self.make("nn.Linear", &[("", x)], &params, &weights, 1)[0]
    }

    /// Adds a 2D convolution of stride 1 or 2 that keeps or halves the size.
    pub(crate) fn conv(
        &mut self,
        x: Value,
        outputs: usize,
        kernel: usize,
        stride: usize,
        padding: usize,
    ) -> Value {
        let inputs = self.fixed(x, 1);
        let is_depthwise = outputs == inputs && self.chance(30);
        let groups = if is_depthwise { inputs } else { 1 };
        let bias = self.chance(60);
        let mut weights = vec![("weight", vec![outputs, inputs / groups, kernel, kernel])];
        if bias {
            weights.push(("bias", vec![outputs]));
        }
        let pair = |number: usize| format!("({number},{number})");
        let (kernel, stride, padding) = (pair(kernel), pair(stride), pair(padding));
        let (inputs, outputs, groups) = (inputs.to_string(), outputs.to_string(), groups.to_string());
        let params = [
            ("in_channels", &*inputs),
            ("out_channels", &outputs),
            ("kernel_size", &kernel),
            ("stride", &stride),
            ("padding", &padding),
            ("dilation", "(1,1)"),
            ("groups", &groups),
            ("padding_mode", "zeros"),
            ("bias", if bias { "True" } else { "False" }),
        ];
        self.make("nn.Conv2d", &[("", x)], &params, &weights, 1)[0]
    }

    /// Batch normalisation of channels.
    pub(crate) fn batch_norm(&mut self, op_type: &str, x: Value) -> Value {
        let channels = self.fixed(x, 1);
        let keys = ["weight", "bias", "running_mean", "running_var"];
        let weights: Vec<Weight<'_>> = keys.iter().map(|&key| (key, vec![channels])).collect();
        let channels = channels.to_string();
        let params = [("num_features", &*channels), ("affine", "True"), ("eps", "1.000000e-05")];
        self.make(op_type, &[("", x)], &params, &weights, 1)[0]
    }
}
