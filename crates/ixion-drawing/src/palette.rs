//! The colour and the name of each kind of operator.

use super::NodeKind;

impl NodeKind {
    /// The name in the legend.
    pub(super) fn name(self) -> &'static str {
        match self {
            NodeKind::Input => "Input",
            NodeKind::Output => "Output",
            NodeKind::Weighted => "Weighted",
            NodeKind::Normalisation => "Normalisation",
            NodeKind::Activation => "Activation",
            NodeKind::Pooling => "Pooling",
            NodeKind::Elementwise => "Elementwise",
            NodeKind::Shape => "Shape",
            NodeKind::Other => "Other",
        }
    }

    /// The CSS class in the SVG.
    pub(super) fn class(self) -> &'static str {
        match self {
            NodeKind::Input => "input",
            NodeKind::Output => "output",
            NodeKind::Weighted => "weighted",
            NodeKind::Normalisation => "normalisation",
            NodeKind::Activation => "activation",
            NodeKind::Pooling => "pooling",
            NodeKind::Elementwise => "elementwise",
            NodeKind::Shape => "shape",
            NodeKind::Other => "other",
        }
    }

    /// The header colour. White text on it has a contrast of at least 4.5 (WCAG 2, level AA).
    pub(super) fn colour(self) -> &'static str {
        match self {
            NodeKind::Input => "#0f766e",
            NodeKind::Output => "#9f1239",
            NodeKind::Weighted => "#1d4ed8",
            NodeKind::Normalisation => "#7c3aed",
            NodeKind::Activation => "#b45309",
            NodeKind::Pooling => "#15803d",
            NodeKind::Elementwise => "#be185d",
            NodeKind::Shape => "#475569",
            NodeKind::Other => "#6b5b4d",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The relative luminance of a colour `#rrggbb`, as defined by WCAG 2.
    fn luminance(colour: &str) -> f64 {
        let channel = |start: usize| {
            let value = f64::from(u8::from_str_radix(&colour[start..start + 2], 16).unwrap()) / 255.0;
            if value <= 0.03928 { value / 12.92 } else { ((value + 0.055) / 1.055).powf(2.4) }
        };
        0.2126 * channel(1) + 0.7152 * channel(3) + 0.0722 * channel(5)
    }

    #[test]
    fn white_text_is_legible_on_every_colour() {
        for kind in NodeKind::ALL {
            let contrast = 1.05 / (luminance(kind.colour()) + 0.05);
            assert!(contrast >= 4.5, "{kind:?} has a contrast of {contrast:.2}");
        }
    }

    #[test]
    fn kinds_differ_in_name_class_and_colour() {
        for (index, a) in NodeKind::ALL.into_iter().enumerate() {
            for b in NodeKind::ALL.into_iter().skip(index + 1) {
                assert!(a.name() != b.name() && a.class() != b.class() && a.colour() != b.colour());
            }
        }
    }
}
