//! TorchScript's functions for resampling, which state the mode in their names: `aten::upsample_bilinear2d` and so on.

use super::{Interpolate, Mode, NOT_POSITIVE, Resizing, is_scale};
use crate::op::{
    CpuLayer, Entry, FieldValue, FromOperator, LayerError, NO_KEY, OperatorReader, Result, Written,
};
use crate::support::arguments::ParamOrInput;

crate::operator! {
    /// TorchScript's functions for `torch.nn.functional.interpolate`: they resample the spatial axes of an N×C×… input to
    /// another size. The name states the mode and the number of axes; `_aa` is a filter against aliasing.
    pub struct Upsample for "aten::upsample_nearest1d", "aten::upsample_nearest2d", "aten::upsample_nearest3d",
        "aten::_upsample_nearest_exact1d", "aten::_upsample_nearest_exact2d", "aten::_upsample_nearest_exact3d",
        "aten::upsample_linear1d", "aten::upsample_bilinear2d", "aten::upsample_trilinear3d", "aten::upsample_bicubic2d",
        "aten::_upsample_bilinear2d_aa", "aten::_upsample_bicubic2d_aa", "aten::_upsample_lanczos2d_aa"
    {
        /// Spatial size of the output.
        output_size: Option<ParamOrInput<Vec<i64>>> = None,
        /// Whether the centres of the corner elements of input and output are aligned, instead of their outer edges.
        align_corners: bool = false,
        /// Scale factors of the spatial axes, from which the size of the output follows if it is not given.
        scale_factors: Option<Vec<f64>> = None,
        /// Scale factor of the depth, from which the sample positions are computed.
        scales_d: Option<f64> = None,
        /// Scale factor of the height, from which the sample positions are computed.
        scales_h: Option<f64> = None,
        /// Scale factor of the width, from which the sample positions are computed.
        scales_w: Option<f64> = None,
        /// The function.
        named: Named,
    }
}

/// What the name of a function states.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Named {
    mode: Mode,
    /// The number of spatial axes.
    axes: usize,
    antialias: bool,
}

/// The names of the functions, without their namespace.
const NAMES: [(&str, Named); 13] = [
    ("upsample_nearest1d", named(Mode::Nearest, 1)),
    ("upsample_nearest2d", named(Mode::Nearest, 2)),
    ("upsample_nearest3d", named(Mode::Nearest, 3)),
    ("_upsample_nearest_exact1d", named(Mode::NearestExact, 1)),
    ("_upsample_nearest_exact2d", named(Mode::NearestExact, 2)),
    ("_upsample_nearest_exact3d", named(Mode::NearestExact, 3)),
    ("upsample_linear1d", named(Mode::Linear, 1)),
    ("upsample_bilinear2d", named(Mode::Bilinear, 2)),
    ("upsample_trilinear3d", named(Mode::Trilinear, 3)),
    ("upsample_bicubic2d", named(Mode::Bicubic, 2)),
    ("_upsample_bilinear2d_aa", filter(Mode::Bilinear)),
    ("_upsample_bicubic2d_aa", filter(Mode::Bicubic)),
    ("_upsample_lanczos2d_aa", filter(Mode::Lanczos)),
];

const fn named(mode: Mode, axes: usize) -> Named {
    Named { mode, axes, antialias: false }
}

const fn filter(mode: Mode) -> Named {
    Named { mode, axes: 2, antialias: true }
}

impl FieldValue for Named {
    const KIND: &'static str = NO_KEY;

    fn read(reader: &mut OperatorReader<'_>, _: &'static str) -> Result<Option<Self>> {
        let op_type = reader.op_type();
        let name = op_type.strip_prefix("aten::").unwrap_or(op_type);
        let known = NAMES.iter().find(|(known, _)| *known == name);
        known.map(|(_, named)| Some(*named)).ok_or_else(|| {
            let what =
                format!("`{op_type}` does not state how to resample; expected one of TorchScript's names");
            LayerError::Unsupported(what)
        })
    }

    fn written(&self) -> Written {
        Written::Nothing
    }
}

impl Upsample {
    /// The scale factors of the axes, if any are given.
    fn factors(&self) -> Result<Option<Vec<f64>>> {
        let axes = [self.scales_d, self.scales_h, self.scales_w];
        let own = axes.get(axes.len().saturating_sub(self.named.axes)..).unwrap_or_default();
        let given: Vec<f64> = own.iter().copied().flatten().collect();
        match (&self.scale_factors, given.len()) {
            (Some(factors), 0) => Ok(Some(factors.clone())),
            (None, 0) => Ok(None),
            (None, count) if count == own.len() => Ok(Some(given)),
            (None, count) => {
                let axes = own.len();
                Err(LayerError::Unsupported(format!(
                    "expected a scale factor for each of {axes} axes or for none, got {count}"
                )))
            }
            (Some(_), _) => {
                let reason = "the scale of a single axis is given as well; state one or the other";
                Err(LayerError::invalid("scale_factors", format!("{:?}", self.scale_factors), reason))
            }
        }
    }

    /// The layer that computes this function.
    fn interpolate(&self) -> Result<Interpolate> {
        let scale_factor = self.factors()?;
        if let Some(factors) = &scale_factor
            && !factors.iter().all(|&factor| is_scale(factor))
        {
            let key = if self.scale_factors.is_some() { "scale_factors" } else { "scales_w" };
            return Err(LayerError::invalid(key, format!("{factors:?}"), NOT_POSITIVE));
        }
        if self.output_size.is_none() && scale_factor.is_none() {
            let what = "one of `output_size` and `scale_factors` must be given".to_owned();
            return Err(LayerError::Unsupported(what));
        }
        let layer = Interpolate {
            size: self.output_size.clone(),
            scale_factor,
            mode: self.named.mode,
            align_corners: Some(self.align_corners),
            recompute_scale_factor: None,
            antialias: self.named.antialias,
            resizing: Resizing::default(),
        };
        layer.resize().check_corners()?;
        Ok(layer)
    }
}

fn create(reader: &mut OperatorReader<'_>) -> Result<Box<dyn CpuLayer>> {
    Ok(Box::new(Upsample::from_operator(reader)?.interpolate()?))
}

/// The entry of these functions in a table: their layer is that of [`Interpolate`].
const fn entry<T: FromOperator>() -> Entry {
    Entry::made_by::<T>(create)
}

operators! { entry => Upsample; category Shape }

#[cfg(test)]
mod tests {
    use super::*;
    use crate::op::TensorMeta;
    use crate::support::testing::{operator, tensor, waves};
    use ixion_tensor::{DType, Dim, Tensor};

    fn upsampled(op_type: &str, params: &[(&str, &str)], input: &Tensor) -> Tensor {
        operator(op_type, params).run_one(&[input]).unwrap()
    }

    #[test]
    fn names_state_the_mode() {
        assert_eq!(NAMES.map(|(name, _)| format!("aten::{name}")), Upsample::TYPES);
        for (mode, axes, op_type) in [
            ("nearest", 1, "aten::upsample_nearest1d"),
            ("nearest-exact", 2, "aten::_upsample_nearest_exact2d"),
            ("linear", 1, "aten::upsample_linear1d"),
            ("bilinear", 2, "aten::upsample_bilinear2d"),
            ("trilinear", 3, "aten::upsample_trilinear3d"),
            ("bicubic", 2, "aten::upsample_bicubic2d"),
        ] {
            let input = waves(&[&[1, 2][..], &[4, 3, 5][..axes]].concat());
            let size = ["(5)", "(5,2)", "(5,2,3)"][axes - 1];
            let want = upsampled("F.interpolate", &[("mode", mode), ("size", size)], &input);
            assert_eq!(upsampled(op_type, &[("output_size", size)], &input), want, "{op_type}");
            let want = upsampled("F.interpolate", &[("mode", mode), ("scale_factor", "1.7")], &input);
            assert_eq!(upsampled(op_type, &[("scale_factors", "1.7")], &input), want, "{op_type}");
        }
    }

    #[test]
    fn scales_of_axes_place_the_samples() {
        let x = waves(&[1, 1, 3, 4]);
        let scaled = [("output_size", "(4,5)"), ("scales_h", "1.5"), ("scales_w", "1.3")];
        let want = upsampled("F.interpolate", &[("scale_factor", "(1.5,1.3)"), ("mode", "bilinear")], &x);
        assert_eq!(upsampled("aten::upsample_bilinear2d", &scaled, &x), want);
        let size = operator("aten::_upsample_nearest_exact2d", &[]).with_names(&["input", "output_size"]);
        let output = size.run_one(&[&x, &tensor(&[2], &[2i64, 3])]).unwrap();
        assert_eq!(output.shape().dims(), [1, 1, 2, 3]);
        let dims = [Dim::symbol("n"), Dim::Fixed(3), Dim::symbol("h"), Dim::Fixed(5)];
        let doubled = operator("aten::_upsample_bilinear2d_aa", &[("scale_factors", "2.0")]);
        let inferred = doubled.infer(&[TensorMeta::new(DType::F32, dims)]).unwrap();
        assert_eq!(inferred[0].to_string(), "n×3×(h * 2)×10 f32");
    }

    #[test]
    fn what_does_not_fit() {
        let refused = |op_type, params: &[(&str, &str)]| {
            let error = operator(op_type, params).create(1).map(drop).unwrap_err();
            error.to_string()
        };
        let missing = refused("aten::upsample_bilinear2d", &[]);
        assert_eq!(missing, "one of `output_size` and `scale_factors` must be given");
        assert!(refused("aten::upsample_bilinear2d", &[("scales_h", "2.0")]).contains("each of 2 axes"));
        let negative = [("scales_h", "2.0"), ("scales_w", "-1.0")];
        assert!(refused("aten::_upsample_bicubic2d_aa", &negative).contains("`scales_w` is [2.0, -1.0]"));
        let both = [("scale_factors", "2.0"), ("scales_h", "2.0"), ("scales_w", "2.0")];
        assert!(refused("aten::_upsample_bicubic2d_aa", &both).contains("state one or the other"));
        let aligned = [("output_size", "2"), ("align_corners", "True")];
        assert!(refused("aten::upsample_nearest1d", &aligned).contains("no corners"));
        for op_type in Upsample::TYPES {
            operator(op_type, &[("output_size", "3")]).survives(1);
            operator(op_type, &[("scale_factors", "0.6")]).survives(1);
        }
    }
}
