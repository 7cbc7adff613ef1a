//! Preprocessing: from a picture to a network's input.

use super::resize::{Resized, Sampling, resize};
use super::{Color, Filter, Picture};
use ixion_tensor::{DType, Limits, Result, Tensor, TensorError};
use ndarray::{ArrayView2, ArrayViewMut2, s};
use serde::Deserialize;

/// How a picture is fitted to a size with a different aspect ratio.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Fit {
    /// Rows and columns are scaled independently, without keeping the aspect ratio.
    Stretch,
    /// Scaled to fit inside, centred, and padded with [`Preprocess::pad_value`].
    Letterbox,
    /// Scaled to cover the size, or by [`Preprocess::resize`], and cropped to the centre.
    Crop,
}

/// The preprocessing that converts a [`Picture`] to a network's input tensor. It is the table `[input]` of a `model.toml`:
///
/// ```
/// use ixion_vision::{Fit, Preprocess};
/// let rule: Preprocess = toml::from_str(
///     r#"
///     color = "rgb"
///     size = [224, 224]
///     fit = "crop"
///     resize = 256
///     filter = "bilinear"
///     antialias = true
///     scale = 0.00392156862745098
///     mean = [0.485, 0.456, 0.406]
///     std = [0.229, 0.224, 0.225]
///     "#,
/// )?;
/// assert_eq!((rule.size, rule.fit, rule.pad_value), (Some([224, 224]), Fit::Crop, 0.0));
/// # Ok::<(), toml::de::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct Preprocess {
    /// The colour model of the input: `gray` (luma) or `rgb`. Default: `rgb`.
    pub color: Color,
    /// Height and width of the input. Default: those of the picture.
    pub size: Option<[usize; 2]>,
    /// How to fit a different aspect ratio. Default: `stretch`.
    pub fit: Fit,
    /// For `crop`: the length of the picture's shorter side before the centre is cropped (`Resize` of torchvision). Default:
    /// the smallest that covers the input.
    pub resize: Option<usize>,
    /// The resampling filter. Default: `bilinear`.
    pub filter: Filter,
    /// For `bilinear` and `bicubic`: whether the filter is widened when downscaling, so that every pixel contributes
    /// (`antialias=True` of PyTorch, as in Pillow and torchvision). Default: false.
    pub antialias: bool,
    /// The factor for pixel values, 0 to 255. Default: 1/255.
    pub scale: f32,
    /// Subtracted from the scaled values: one number, or one for each channel. Default: 0.
    pub mean: Vec<f32>,
    /// Divisor of the result: one number, or one for each channel. Default: 1.
    pub std: Vec<f32>,
    /// The pixel value, 0 to 255, of the padding around a letterboxed picture. Default: 0.
    pub pad_value: f32,
}

impl Default for Preprocess {
    fn default() -> Self {
        Self {
            color: Color::Rgb,
            size: None,
            fit: Fit::Stretch,
            resize: None,
            filter: Filter::Bilinear,
            antialias: false,
            scale: 1.0 / 255.0,
            mean: vec![0.0],
            std: vec![1.0],
            pad_value: 0.0,
        }
    }
}

/// The largest [`Preprocess::resize`].
const MAX_RESIZE: usize = 1 << 16;

// ANCHOR: placement
/// The placement of a picture in the network's input: a position of the picture is at `scale · position + offset`. Both are
/// for rows first and columns second, in pixels; the upper left corner of the picture is (0, 0).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Placement {
    /// Pixels of the input per pixel of the picture.
    pub scale: [f32; 2],
    /// The position of the picture's upper left corner in the input; negative if the picture is cropped.
    pub offset: [f32; 2],
}

impl Placement {
    /// The placement of a picture that is resized and centred in the input. If the padding is odd, the larger half is at the
    /// bottom or right. A picture larger than the input is cropped on both sides, with the larger half at the bottom or right
    /// as well.
    pub fn centered(picture: [usize; 2], resized: [usize; 2], input: [usize; 2]) -> Self {
        // ANCHOR: centered_todo -- task 1: for each axis, the scale, and half of the remaining space
        let middle = |axis: usize| (input[axis] as i64 - resized[axis] as i64) / 2;
        Self {
            scale: [0, 1].map(|axis| resized[axis] as f32 / picture[axis] as f32),
            offset: [0, 1].map(|axis| middle(axis) as f32),
        }
        // ANCHOR_END: centered_todo
    }

    /// Converts a position (row, column) in the network's input to a position in the picture.
    pub fn to_picture(&self, [row, col]: [f32; 2]) -> [f32; 2] {
        // ANCHOR: to_picture_todo -- task 1: from a position in the input back to the picture
        [(row - self.offset[0]) / self.scale[0], (col - self.offset[1]) / self.scale[1]]
        // ANCHOR_END: to_picture_todo
    }

    /// Converts a position (row, column) in the picture to a position in the network's input.
    pub fn to_input(&self, [row, col]: [f32; 2]) -> [f32; 2] {
        // ANCHOR: to_input_todo -- task 1: from a position in the picture to the input
        [row * self.scale[0] + self.offset[0], col * self.scale[1] + self.offset[1]]
        // ANCHOR_END: to_input_todo
    }
}
// ANCHOR_END: placement

// ANCHOR: letterboxed
/// Height and width of a picture scaled to fit inside an input, with its aspect ratio kept.
pub fn letterboxed(picture: [usize; 2], input: [usize; 2]) -> [usize; 2] {
    // ANCHOR: letterboxed_todo -- task 1: the largest ratio at which both axes fit
    let ratios = [0, 1].map(|axis| input[axis] as f64 / picture[axis] as f64);
    scaled(picture, input, ratios[0].min(ratios[1]))
    // ANCHOR_END: letterboxed_todo
}

/// Height and width times a ratio, rounded, and at least 1. The axis that determined the ratio gets exactly its target length,
/// whatever its product rounds to.
fn scaled(from: [usize; 2], to: [usize; 2], ratio: f64) -> [usize; 2] {
    [0, 1].map(|axis| match to[axis] as f64 / from[axis] as f64 == ratio {
        true => to[axis],
        false => ((from[axis] as f64 * ratio).round() as usize).max(1),
    })
}
// ANCHOR_END: letterboxed

// ANCHOR: surround
/// Copies a plane into the centre of a target that is at least as large, as in [`Placement::centered`], and fills the border
/// with one value.
///
/// # Panics
/// Panics if the plane is larger than the target.
pub fn surround(mut target: ArrayViewMut2<'_, f32>, plane: ArrayView2<'_, f32>, border: f32) {
    // ANCHOR: surround_todo -- task 1: the border everywhere, then the plane in the centre
    let (height, width) = plane.dim();
    let (top, left) = ((target.nrows() - height) / 2, (target.ncols() - width) / 2);
    target.fill(border);
    target.slice_mut(s![top..top + height, left..left + width]).assign(&plane);
    // ANCHOR_END: surround_todo
}
// ANCHOR_END: surround

impl Preprocess {
    /// Converts a picture to an `f32` tensor of shape 1 × channels × height × width, and returns the placement of the picture
    /// in it. Colours are converted first, then the size, then `(value · scale − mean) / std`. Resized values are not rounded.
    ///
    /// # Errors
    /// [`TensorError::InvalidArgument`], with the key, for invalid settings, and [`TensorError::Limit`] if the size exceeds
    /// `limits`.
    pub fn prepare(&self, picture: &Picture, limits: &Limits) -> Result<(Tensor, Placement)> {
        self.check()?;
        let picture = picture.to_color(self.color);
        let size = self.size.unwrap_or([picture.height(), picture.width()]);
        let channels = picture.channels();
        let elements = size.iter().fold(channels as u64, |all, &dim| all.saturating_mul(dim as u64));
        limits.check_tensor("the prepared picture", elements.saturating_mul(4))?;
        let [rows, cols] = self.axes([picture.height(), picture.width()], size);
        let mut tensor = Tensor::zeros(DType::F32, &[1, channels, size[0], size[1]])?;
        let mut view = tensor.view_mut()?;
        let mut array = view.array::<f32>()?;
        let sampling = Sampling { filter: self.filter, antialias: self.antialias };
        for channel in 0..channels {
            let plane = picture.plane(channel);
            let mut plane = resize(plane.view(), &rows, &cols, sampling, limits)?;
            plane.mapv_inplace(|value| self.normalize(value, channel));
            let border = self.normalize(self.pad_value, channel);
            surround(array.slice_mut(s![0, channel, .., ..]), plane.view(), border);
        }
        Ok((tensor, Placement::centered([rows.from, cols.from], [rows.to, cols.to], size)))
    }

    /// Checks that the settings are valid and consistent.
    ///
    /// # Errors
    /// [`TensorError::InvalidArgument`], with the key, the expected and the actual value.
    pub fn check(&self) -> Result<()> {
        let refuse = |text: String| Err(TensorError::InvalidArgument(text));
        let channels = self.color.channels();
        for (key, values) in [("mean", &self.mean), ("std", &self.std)] {
            if values.len() != 1 && values.len() != channels {
                let found = values.len();
                return refuse(format!("{key}: expected 1 or {channels} values, got {found}"));
            }
            if let Some(value) = values.iter().find(|value| !value.is_finite()) {
                return refuse(format!("{key}: {value} is not a finite number"));
            }
        }
        if self.std.contains(&0.0) {
            return refuse("std: must not be 0".into());
        }
        for (key, value) in [("scale", self.scale), ("pad_value", self.pad_value)] {
            if !value.is_finite() {
                return refuse(format!("{key}: {value} is not a finite number"));
            }
        }
        if let Some(resize) = self.resize {
            if self.fit != Fit::Crop {
                return refuse(
                    "resize: only valid with fit = \"crop\"; with the others, the size follows from `size`"
                        .into(),
                );
            }
            let longest = self.size.map_or(1, |size| size[0].max(size[1]));
            if !(longest..=MAX_RESIZE).contains(&resize) {
                let size = self.size.map_or(String::new(), |size| format!(" for a crop to {size:?}"));
                return refuse(format!("resize: expected {longest} to {MAX_RESIZE}{size}, got {resize}"));
            }
        }
        match self.size {
            Some(size) if size.contains(&0) => {
                refuse(format!("size: expected at least 1 for both, got {size:?}"))
            }
            _ => Ok(()),
        }
    }

    fn normalize(&self, value: f32, channel: usize) -> f32 {
        let of_channel = |values: &[f32], or| values.get(channel).or(values.first()).copied().unwrap_or(or);
        (value * self.scale - of_channel(&self.mean, 0.0)) / of_channel(&self.std, 1.0)
    }

    /// The resizing of rows and columns; an axis longer than the input is cropped to its centre.
    fn axes(&self, from: [usize; 2], to: [usize; 2]) -> [Resized; 2] {
        let resized = match (self.fit, self.resize) {
            (Fit::Stretch, _) => to,
            (Fit::Letterbox, _) => letterboxed(from, to),
            (Fit::Crop, Some(resize)) => shortened(from, resize),
            (Fit::Crop, None) => {
                let ratios = [0, 1].map(|axis| to[axis] as f64 / from[axis] as f64);
                scaled(from, to, ratios[0].max(ratios[1]))
            }
        };
        [0, 1].map(|axis| {
            let cut = resized[axis].saturating_sub(to[axis]) / 2;
            let window = cut..cut + resized[axis].min(to[axis]);
            Resized { from: from[axis], to: resized[axis], window }
        })
    }
}

/// Height and width scaled so that the shorter side has a given length. The longer side is rounded down, as in torchvision.
fn shortened(from: [usize; 2], resize: usize) -> [usize; 2] {
    let shorter = from[0].min(from[1]).max(1) as u128;
    let long = |len: usize| usize::try_from(resize as u128 * len as u128 / shorter).unwrap_or(usize::MAX);
    from.map(|len| long(len).max(resize))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn ramp(height: usize, width: usize) -> Picture {
        let pixels = (0..height * width).map(|i| i as u8).collect();
        Picture::new(height, width, Color::Gray, pixels).unwrap()
    }

    fn rule(text: &str) -> Preprocess {
        toml::from_str(text).unwrap()
    }

    fn prepared(rule: &Preprocess, picture: &Picture) -> (Vec<f32>, Placement) {
        let (tensor, placement) = rule.prepare(picture, &Limits::default()).unwrap();
        (tensor.to_vec().unwrap(), placement)
    }

    #[test]
    fn the_rules_of_the_models_are_valid() {
        for name in ["digits", "resnet18"] {
            let path = format!("{}/../../model_file/{name}/model.toml", env!("CARGO_MANIFEST_DIR"));
            let card: toml::Table = std::fs::read_to_string(path).unwrap().parse().unwrap();
            let rule: Preprocess = card["input"].clone().try_into().unwrap();
            rule.check().unwrap();
        }
        assert!(toml::from_str::<Preprocess>("colour = 'gray'").unwrap_err().to_string().contains("colour"));
        assert!(toml::from_str::<Preprocess>("fit = 'squeeze'").is_err());
    }

    #[test]
    fn digits_as_their_card_says() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../model_file/digits");
        let card: toml::Table =
            std::fs::read_to_string(format!("{folder}/model.toml")).unwrap().parse().unwrap();
        let rule: Preprocess = card["input"].clone().try_into().unwrap();
        let limits = Limits::default();
        let want = Tensor::load_npy(format!("{folder}/in_0.npy"), &limits).unwrap();
        for digit in 0..10 {
            let picture = Picture::load(format!("{folder}/samples/{digit}.png"), &limits).unwrap();
            let (got, placement) = rule.prepare(&picture, &limits).unwrap();
            let comparison = got.allclose(&want.narrow(0, digit, 1).unwrap(), 0.0, 1e-6, false).unwrap();
            assert!(comparison.holds(), "{digit}: {comparison}");
            assert_eq!(placement, Placement { scale: [1.0 / 16.0; 2], offset: [0.0; 2] });
        }
    }

    #[test]
    fn values_are_scaled_and_normalized_by_channel() {
        let picture = Picture::new(1, 1, Color::Rgb, vec![0, 51, 255]).unwrap();
        let (values, _) = prepared(&rule("mean = [0.0, 0.5, 0.5]\nstd = [1.0, 2.0, 0.25]"), &picture);
        let want = [0.0, (0.2 - 0.5) / 2.0, 2.0];
        assert!(values.iter().zip(want).all(|(got, want)| (got - want).abs() < 1e-6), "{values:?}");
        let (values, _) = prepared(&rule("color = 'gray'\nscale = 1.0\nmean = [10.0]"), &ramp(2, 2));
        assert_eq!(values, [-10.0, -9.0, -8.0, -7.0]);
    }

    #[test]
    fn letterbox_centres_and_pads() {
        let fit = rule(
            "color = 'gray'\nsize = [4, 5]\nfit = 'letterbox'\nfilter = 'nearest'\nscale = 1.0\npad_value = 9",
        );
        let (values, placement) = prepared(&fit, &ramp(2, 4));
        // 2×4 becomes 3×5 (2.5 rounds up), with the odd row of padding below.
        assert_eq!(values[..5], [0.0, 0.0, 1.0, 2.0, 3.0]);
        assert_eq!(values[10..], [4.0, 4.0, 5.0, 6.0, 7.0, 9.0, 9.0, 9.0, 9.0, 9.0]);
        assert_eq!(placement, Placement { scale: [1.5, 1.25], offset: [0.0, 0.0] });
        let (values, placement) = prepared(&fit, &ramp(4, 1));
        assert_eq!(values[..10], [9.0, 9.0, 0.0, 9.0, 9.0, 9.0, 9.0, 1.0, 9.0, 9.0]);
        assert_eq!(placement, Placement { scale: [1.0, 1.0], offset: [0.0, 2.0] });
    }

    #[test]
    fn crop_takes_the_centre() {
        let fit = rule("color = 'gray'\nsize = [2, 2]\nfit = 'crop'\nfilter = 'nearest'\nscale = 1.0");
        let (values, placement) = prepared(&fit, &ramp(2, 5));
        assert_eq!(values, [1.0, 2.0, 6.0, 7.0]);
        assert_eq!(placement, Placement { scale: [1.0, 1.0], offset: [0.0, -1.0] });
        // A strip that would be 40,000 rows high before the cut.
        let strip = Picture::new(200, 1, Color::Gray, vec![7; 200]).unwrap();
        let wide = rule("color = 'gray'\nsize = [2, 200]\nfit = 'crop'\nscale = 1.0");
        assert_eq!(prepared(&wide, &strip).0, vec![7.0; 400]);
    }

    #[test]
    fn the_shorter_side_is_resized_before_the_cut() {
        let fit =
            rule("color = 'gray'\nsize = [2, 2]\nfit = 'crop'\nresize = 4\nfilter = 'nearest'\nscale = 1.0");
        // 2×3 becomes 4×6, whose centre is rows 1 and 2 and columns 2 and 3.
        let (values, placement) = prepared(&fit, &ramp(2, 3));
        assert_eq!(values, [1.0, 1.0, 4.0, 4.0]);
        assert_eq!(placement, Placement { scale: [2.0, 2.0], offset: [-1.0, -2.0] });
        let text = |text: &str| rule(text).prepare(&ramp(2, 2), &Limits::default()).unwrap_err().to_string();
        assert!(text("resize = 7").starts_with("resize: only valid with"));
        assert_eq!(
            text("fit = 'crop'\nsize = [8, 9]\nresize = 8"),
            "resize: expected 9 to 65536 for a crop to [8, 9], got 8"
        );
    }

    #[test]
    fn invalid_settings_name_their_key() {
        let text = |text: &str| rule(text).prepare(&ramp(2, 2), &Limits::default()).unwrap_err().to_string();
        assert_eq!(text("mean = [1.0, 2.0]"), "mean: expected 1 or 3 values, got 2");
        assert_eq!(text("std = []"), "std: expected 1 or 3 values, got 0");
        assert!(text("std = [0.0]").starts_with("std: ") && text("scale = nan").starts_with("scale: "));
        assert!(
            text("size = [0, 3]").starts_with("size: ") && text("pad_value = inf").starts_with("pad_value: ")
        );
        let huge = rule("size = [1000000, 1000000]");
        assert!(matches!(huge.prepare(&ramp(2, 2), &Limits::default()), Err(TensorError::Limit(_))));
    }

    proptest! {
        #[test]
        fn placement_round_trips(
            from in [1usize..30, 1usize..30], to in [1usize..30, 1usize..30], fit in 0usize..3, point in [0f32..9.0, 0f32..9.0],
        ) {
            let fit = [Fit::Stretch, Fit::Letterbox, Fit::Crop][fit];
            let rule = Preprocess { fit, size: Some(to), color: Color::Gray, ..Preprocess::default() };
            let (tensor, placement) = rule.prepare(&ramp(from[0], from[1]), &Limits::default()).unwrap();
            prop_assert_eq!(tensor.shape().dims(), &[1, 1, to[0], to[1]]);
            let back = placement.to_picture(placement.to_input(point));
            prop_assert!((back[0] - point[0]).abs() < 1e-3 && (back[1] - point[1]).abs() < 1e-3);
            // The picture's centre stays in the centre, up to the rounding of half a pixel.
            let middle = placement.to_input([from[0] as f32 / 2.0, from[1] as f32 / 2.0]);
            prop_assert!((0..2).all(|i| (middle[i] - to[i] as f32 / 2.0).abs() <= 0.5 + 1e-3), "{:?}", middle);
        }
    }
}
