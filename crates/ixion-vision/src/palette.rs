//! Colours of classes.

/// Colours (red, green, blue) of 24 classes, reused cyclically for further classes.
///
/// The first seven are those of Okabe and Ito (2008) without black. Each of the others was chosen to be as far as
/// possible, in CIE L\*a\*b\*, from all before it, both for normal vision and for protanopia and deuteranopia (with the
/// matrices of Machado, Oliveira and Fernandes 2009).
pub const PALETTE: [[u8; 3]; 24] = [
    [230, 159, 0],
    [86, 180, 233],
    [0, 158, 115],
    [240, 228, 66],
    [0, 114, 178],
    [213, 94, 0],
    [204, 121, 167],
    [0, 0, 255],
    [150, 255, 165],
    [120, 30, 15],
    [105, 105, 255],
    [90, 45, 75],
    [135, 255, 225],
    [60, 30, 165],
    [225, 0, 75],
    [90, 240, 255],
    [210, 165, 90],
    [105, 150, 255],
    [120, 30, 120],
    [180, 255, 120],
    [90, 210, 150],
    [60, 105, 60],
    [45, 60, 225],
    [165, 60, 0],
];

/// The colour of a class: from `colors` if it has one for the class, otherwise from the [`PALETTE`].
pub fn color_of(colors: &[[u8; 3]], class: usize) -> [u8; 3] {
    let [first, ..] = PALETTE;
    colors.get(class).or(PALETTE.get(class % PALETTE.len())).copied().unwrap_or(first)
}

/// The relative luminance of an sRGB colour, from 0 to 1.
pub(super) fn luminance(color: [u8; 3]) -> f32 {
    let [red, green, blue] = color.map(linear);
    0.2126 * red + 0.7152 * green + 0.0722 * blue
}

fn linear(value: u8) -> f32 {
    let value = f32::from(value) / 255.0;
    if value <= 0.04045 { value / 12.92 } else { ((value + 0.055) / 1.055).powf(2.4) }
}

/// Black or white, whichever has the higher contrast on a colour: by WCAG 2, both are equal at a luminance of 0.179.
pub(super) fn ink_on(color: [u8; 3]) -> [u8; 3] {
    if luminance(color) > 0.179 { [0; 3] } else { [255; 3] }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Normal vision, protanopia and deuteranopia (Machado, Oliveira and Fernandes 2009, severity 1).
    const EYES: [[[f32; 3]; 3]; 3] = [
        [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]],
        [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
        [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]],
    ];
    const XYZ: [[f32; 3]; 3] = [
        [0.4124564, 0.3575761, 0.180_437_5],
        [0.2126729, 0.7151522, 0.072175],
        [0.0193339, 0.119192, 0.9503041],
    ];

    fn times(matrix: [[f32; 3]; 3], x: [f32; 3]) -> [f32; 3] {
        matrix.map(|row| row.iter().zip(x).map(|(a, b)| a * b).sum())
    }

    fn lab(color: [u8; 3], eye: [[f32; 3]; 3]) -> [f32; 3] {
        let seen = times(eye, color.map(linear)).map(|value| value.clamp(0.0, 1.0));
        let [x, y, z] = times(XYZ, seen);
        let root = |t: f32| if t > 0.008856 { t.cbrt() } else { 7.787 * t + 16.0 / 116.0 };
        let [x, y, z] = [root(x / 0.95047), root(y), root(z / 1.08883)];
        [116.0 * y - 16.0, 500.0 * (x - y), 200.0 * (y - z)]
    }

    #[test]
    fn every_pair_is_distinguishable_by_every_eye() {
        for eye in EYES {
            let seen = PALETTE.map(|color| lab(color, eye));
            for (at, one) in seen.iter().enumerate() {
                for (other, two) in seen.iter().enumerate().skip(at + 1) {
                    let distance = one.iter().zip(two).map(|(a, b)| (a - b).powi(2)).sum::<f32>().sqrt();
                    assert!(distance > 17.0, "{at} and {other}: {distance}");
                }
            }
        }
    }

    #[test]
    fn text_has_contrast_on_every_colour() {
        for color in PALETTE {
            let (ground, ink) = (luminance(color), luminance(ink_on(color)));
            let contrast = (ground.max(ink) + 0.05) / (ground.min(ink) + 0.05);
            assert!(contrast >= 4.5, "{color:?}: {contrast}");
        }
        assert_eq!((color_of(&[[1, 2, 3]], 0), color_of(&[[1, 2, 3]], 25)), ([1, 2, 3], PALETTE[1]));
    }
}
