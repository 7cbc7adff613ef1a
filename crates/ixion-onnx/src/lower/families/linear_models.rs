//! Linear models, and what prepares features for them.

use super::scores::{First, Labels, Scores, transformed, vector};
use crate::OnnxError;
use crate::lower::call::{Outputs, Table, one};
use crate::lower::{Call, Value};
use ixion_pnnx::{Attribute, OperandId};

pub(super) const TABLE: Table = &[
    ("ArrayFeatureExtractor", extractor),
    ("Binarizer", binarizer),
    ("FeatureVectorizer", vectorizer),
    ("Imputer", imputer),
    ("LinearClassifier", classifier),
    ("LinearRegressor", regressor),
    ("Normalizer", normalizer),
    ("OneHotEncoder", one_hot),
    ("Scaler", scaler),
    ("ZipMap", zip_map),
];

/// The first input as f32.
fn real(call: &mut Call<'_>) -> Result<OperandId, OnnxError> {
    let x = call.input(0)?;
    call.operator("Tensor.to", &[x], &[("dtype", "torch.float".into()), ("copy", false.into())])
}

/// The linear layer with these coefficients, outputs×features, and an intercept for each output.
fn linear(
    call: &mut Call<'_>,
    coefficients: Vec<f32>,
    intercepts: Vec<f32>,
    outputs: usize,
) -> Result<OperandId, OnnxError> {
    let count = coefficients.len();
    let features = count / outputs.max(1);
    if outputs == 0 || features * outputs != count {
        return Err(call.error(format!("expected coefficients for {outputs} outputs, got {count}")));
    }
    if !intercepts.is_empty() && intercepts.len() != outputs {
        return Err(call.error(format!("expected {outputs} intercepts, got {}", intercepts.len())));
    }
    let len = |len: usize| i64::try_from(len).unwrap_or_default();
    let x = real(call)?;
    let mut emit = call
        .emit("nn.Linear")
        .input(x)
        .param("in_features", len(features))
        .param("out_features", len(outputs));
    emit = emit.param("bias", !intercepts.is_empty());
    emit = emit.attribute("weight", Attribute::from_f32s(vec![outputs, features], &coefficients)?);
    if !intercepts.is_empty() {
        emit = emit.attribute("bias", Attribute::from_f32s(vec![outputs], &intercepts)?);
    }
    emit.one()
}

fn regressor(call: &mut Call<'_>) -> Outputs {
    let coefficients = call.floats("coefficients")?.ok_or_else(|| call.missing("coefficients"))?;
    let intercepts = call.floats("intercepts")?.unwrap_or_default();
    let targets = usize::try_from(call.int_or("targets", 1)?).unwrap_or_default();
    let transform = call.string_or("post_transform", "NONE")?;
    let y = linear(call, coefficients, intercepts, targets)?;
    // A single number is left as it is, as in onnxruntime.
    one(if targets == 1 && transform != "PROBIT" { Ok(y) } else { transformed(call, y, transform) })
}

fn classifier(call: &mut Call<'_>) -> Outputs {
    call.ignore(&["multi_class"]);
    let labels = Labels::of(call, "classlabels_ints", "classlabels_strings")?;
    let coefficients = call.floats("coefficients")?.ok_or_else(|| call.missing("coefficients"))?;
    let intercepts = call.floats("intercepts")?.unwrap_or_default();
    let rows = if intercepts.is_empty() { labels.len() } else { intercepts.len() };
    let transform = call.string_or("post_transform", "NONE")?;
    let scores = linear(call, coefficients, intercepts, rows)?;
    if rows != labels.len() && (rows, labels.len()) != (1, 2) {
        return Err(call.error(format!("expected scores for {} classes, got {rows}", labels.len())));
    }
    let scores = match rows == labels.len() {
        true => Scores::All(scores),
        false => Scores::Single { scores, bound: 0.0, first: First::Complement },
    };
    scores.outputs(call, &labels, transform)
}

/// Rows divided by their norm.
fn normalizer(call: &mut Call<'_>) -> Outputs {
    let norm = call.string_or("norm", "MAX")?;
    let x = real(call)?;
    let p = match norm {
        "L1" => 1.0,
        "L2" => 2.0,
        "MAX" => {
            let most = call
                .emit("torch.amax")
                .named("input", x)
                .param("dim", vec![-1i64])
                .param("keepdim", true)
                .one()?;
            let is_zero = call.emit("aten::eq").named("input", most).param("other", 0.0).one()?;
            let emit = call
                .emit("torch.masked_fill")
                .named("input", most)
                .named("mask", is_zero)
                .param("value", 1.0);
            let most = emit.one()?;
            return one(call.expression("div(@0,@1)", &[x, most]));
        }
        other => return Err(call.error(format!("expected `norm` to be MAX, L1 or L2, got `{other}`"))),
    };
    one(call.emit("F.normalize").named("input", x).param("p", p).param("dim", -1).param("eps", 1e-12).one())
}

/// (x − offset) · scale.
fn scaler(call: &mut Call<'_>) -> Outputs {
    let (offset, scale) = (call.floats("offset")?, call.floats("scale")?);
    let mut x = real(call)?;
    for (text, numbers) in [("sub(@0,@1)", offset), ("mul(@0,@1)", scale)] {
        if let Some(numbers) = numbers.filter(|numbers| !numbers.is_empty()) {
            let wide: Vec<f64> = numbers.into_iter().map(f64::from).collect();
            let numbers = vector(call, &wide)?;
            x = call.expression(text, &[x, numbers])?;
        }
    }
    one(Ok(x))
}

/// 1 above the threshold, else 0.
fn binarizer(call: &mut Call<'_>) -> Outputs {
    let threshold = call.float_or("threshold", 0.0)?;
    let x = real(call)?;
    let is_above = call.emit("aten::gt").named("input", x).param("other", threshold).one()?;
    one(call.operator("Tensor.to", &[is_above], &[("dtype", "torch.float".into()), ("copy", false.into())]))
}

/// Numbers in the place of one number, or of NaN.
fn imputer(call: &mut Call<'_>) -> Outputs {
    call.ignore(&["replaced_value_int64"]);
    if call.ints("imputed_value_int64s")?.is_some_and(|list| !list.is_empty()) {
        return Err(call.error("only `imputed_value_floats` is supported"));
    }
    let values = call.floats("imputed_value_floats")?.ok_or_else(|| call.missing("imputed_value_floats"))?;
    let replaced = call.float_or("replaced_value_float", 0.0)?;
    let x = call.input(0)?;
    let is_missing = match replaced.is_nan() {
        true => call.emit("aten::isnan").named("input", x).one()?,
        false => call.emit("aten::eq").named("input", x).param("other", replaced).one()?,
    };
    let wide: Vec<f64> = values.into_iter().map(f64::from).collect();
    let values = vector(call, &wide)?;
    one(call
        .emit("torch.where")
        .named("condition", is_missing)
        .named("input", values)
        .named("other", x)
        .one())
}

/// Columns of the last axis.
fn extractor(call: &mut Call<'_>) -> Outputs {
    let (x, columns) = (call.input(0)?, call.input(1)?);
    let columns = call
        .emit("torch.flatten")
        .named("input", columns)
        .param("start_dim", 0)
        .param("end_dim", -1)
        .one()?;
    one(call.emit("torch.index_select").named("input", x).param("dim", -1).named("index", columns).one())
}

/// Features side by side.
fn vectorizer(call: &mut Call<'_>) -> Outputs {
    call.ignore(&["inputdimensions"]);
    let mut inputs = Vec::new();
    for x in call.inputs_from(0)? {
        inputs.push(call.operator(
            "Tensor.to",
            &[x],
            &[("dtype", "torch.float".into()), ("copy", false.into())],
        )?);
    }
    one(call.operator("torch.cat", &inputs, &[("dim", 1.into())]))
}

/// 1 at the position of each element among the categories, else 0.
fn one_hot(call: &mut Call<'_>) -> Outputs {
    if call.strings("cats_strings")?.is_some_and(|words| !words.is_empty()) {
        return Err(call.error("its categories (`cats_strings`) are strings, which Ixion does not have"));
    }
    if !call.flag_or("zeros", true)? {
        return Err(call.error("only `zeros=1` is supported"));
    }
    let categories = call.ints("cats_int64s")?.ok_or_else(|| call.missing("cats_int64s"))?;
    let name = format!("{}.categories", call.name());
    let categories = crate::lower::Constant::of_i64s(&name, vec![categories.len()], &categories)?;
    let categories = call.operand(&Value::Constant(categories))?;
    let x = call.input(0)?;
    let long = call.operator("Tensor.to", &[x], &[("dtype", "torch.long".into()), ("copy", false.into())])?;
    let column = call.emit("torch.unsqueeze").named("input", long).param("dim", -1).one()?;
    let is_equal = call.emit("aten::eq").named("input", column).named("other", categories).one()?;
    one(call.operator("Tensor.to", &[is_equal], &[("dtype", "torch.float".into()), ("copy", false.into())]))
}

/// A dictionary for each row.
fn zip_map(call: &mut Call<'_>) -> Outputs {
    call.ignore(&["classlabels_int64s", "classlabels_strings"]);
    Err(call.error("dictionaries are not supported; export with `options={'zipmap': False}`"))
}
