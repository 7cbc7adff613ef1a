//! The colour and the name of each kind of operator.

use super::NodeKind;

impl NodeKind {
    /// The name in the legend, the CSS class in the SVG, and the header colour. White text on the colour has a contrast of at
    /// least 4.5 (WCAG 2, level AA).
    fn look(self) -> [&'static str; 3] {
        match self {
            NodeKind::Input => ["Input", "input", "#0f766e"],
            NodeKind::Output => ["Output", "output", "#9f1239"],
            NodeKind::Weighted => ["Weighted", "weighted", "#1d4ed8"],
            NodeKind::Normalisation => ["Normalisation", "normalisation", "#7c3aed"],
            NodeKind::Activation => ["Activation", "activation", "#b45309"],
            NodeKind::Pooling => ["Pooling", "pooling", "#15803d"],
            NodeKind::Elementwise => ["Elementwise", "elementwise", "#be185d"],
            NodeKind::Shape => ["Shape", "shape", "#475569"],
            NodeKind::Other => ["Other", "other", "#6b5b4d"],
        }
    }

    /// The name in the legend.
    pub(super) fn name(self) -> &'static str {
        self.look()[0]
    }

    /// The CSS class in the SVG.
    pub(super) fn class(self) -> &'static str {
        self.look()[1]
    }

    /// The header colour.
    pub(super) fn colour(self) -> &'static str {
        self.look()[2]
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
