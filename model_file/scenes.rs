//! Scenes of plain shapes, with the truth about them: the pixels and boxes that `scenes.py` beside this file makes, in
//! Rust. What each part is for is said there; whole numbers only, so that both give the same bytes.
//!
//! Examples and tests include this file as a module.

/// What can be found, in the order of the class numbers.
pub(super) const CLASSES: [&str; 4] = ["circle", "square", "triangle", "star"];

const GAMMA: u64 = 0x9E37_79B9_7F4A_7C15;
const ANGLES: i64 = 64;
const ONE: i64 = 1 << 14;
const UNIT: i64 = 8;
const SAMPLES: i64 = 4;
const FULL: i64 = SAMPLES * SAMPLES;

/// A picture and the truth about it.
pub(super) struct Scene {
    /// Height×width×3.
    pub(super) pixels: Vec<u8>,
    /// Height×width: 0 for the background, 1 + class elsewhere.
    pub(super) mask: Vec<u8>,
    /// Class, left, top, right, bottom; right and bottom are outside.
    pub(super) boxes: Vec<[i64; 5]>,
}

/// SplitMix64 (Steele, Lea, Flood 2014).
struct Random(u64);

impl Random {
    fn below(&mut self, bound: i64) -> i64 {
        self.0 = self.0.wrapping_add(GAMMA);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        bits ^= bits >> 31;
        (((bits >> 32) * bound as u64) >> 32) as i64
    }

    fn within(&mut self, low: i64, high: i64) -> i64 {
        low + self.below(high - low + 1)
    }

    fn color(&mut self) -> [i64; 3] {
        [(); 3].map(|()| self.below(256))
    }
}

/// A circle (no corners) or a polygon around a point.
struct Figure {
    x: i64,
    y: i64,
    reach: i64,
    corners: Vec<[i64; 2]>,
}

impl Figure {
    /// Whether a point, seen from the centre, lies inside: by distance, or by the even-odd rule.
    fn holds(&self, px: i64, py: i64) -> bool {
        if self.corners.is_empty() {
            return px * px + py * py <= self.reach * self.reach;
        }
        let ends = self.corners.iter().cycle().skip(1);
        let crossed = self.corners.iter().zip(ends).filter(|&(&a, &b)| {
            let ([x1, y1], [x2, y2]) = if a[1] > b[1] { (b, a) } else { (a, b) };
            y1 <= py && py < y2 && (px - x1) * (y2 - y1) < (x2 - x1) * (py - y1)
        });
        crossed.count() % 2 == 1
    }

    /// How many samples of a pixel lie inside.
    fn coverage(&self, column: i64, row: i64) -> i64 {
        let step = UNIT / SAMPLES;
        let place = |pixel: i64, sample: i64| (pixel * SAMPLES + sample) * step + step / 2;
        let samples = (0..FULL).map(|sample| (sample % SAMPLES, sample / SAMPLES));
        samples.filter(|&(sx, sy)| self.holds(place(column, sx) - self.x, place(row, sy) - self.y)).count()
            as i64
    }
}

struct Canvas {
    width: i64,
    height: i64,
    pixels: Vec<[i64; 3]>,
}

impl Canvas {
    fn gradient(corners: &[[i64; 3]; 4], width: i64, height: i64) -> Self {
        let pixels = (0..width * height).map(|at| {
            let (column, row) = (at % width, at / width);
            let mix = |a: i64, b: i64| a * (width - 1 - column) + b * column;
            [0, 1, 2].map(|c| {
                let (top, bottom) = (mix(corners[0][c], corners[1][c]), mix(corners[2][c], corners[3][c]));
                (top * (height - 1 - row) + bottom * row).div_euclid((width - 1) * (height - 1))
            })
        });
        Self { width, height, pixels: pixels.collect() }
    }

    /// Lays a colour over what a figure covers; calls `inside` for each pixel that it covers by half or more.
    fn paint(&mut self, figure: &Figure, color: [i64; 3], mut inside: impl FnMut(i64, i64)) {
        let range = |middle: i64, end: i64| {
            let first = (middle - figure.reach).div_euclid(UNIT) - 1;
            first.max(0)..((middle + figure.reach).div_euclid(UNIT) + 2).min(end)
        };
        for row in range(figure.y, self.height) {
            for column in range(figure.x, self.width) {
                let covered = figure.coverage(column, row);
                let pixel = &mut self.pixels[(row * self.width + column) as usize];
                for (value, color) in pixel.iter_mut().zip(color) {
                    *value = (*value * (FULL - covered) + color * covered + FULL / 2) / FULL;
                }
                if 2 * covered >= FULL {
                    inside(column, row);
                }
            }
        }
    }
}

/// Scene number `index` of a seed; the sizes are at least 64.
pub(super) fn render(seed: u64, index: u64, width: usize, height: usize) -> Scene {
    let mut random = Random((seed << 32).wrapping_add(index));
    let (width, height) = (width as i64, height as i64);
    let corners = [(); 4].map(|()| random.color());
    let mut canvas = Canvas::gradient(&corners, width, height);
    let mut mask = vec![0; (width * height) as usize];
    let mut boxes = Vec::new();
    for _ in 0..random.below(5) {
        let line = thin_line(&mut random, width, height);
        canvas.paint(&line, random.color(), |_, _| ());
    }
    for _ in 0..random.within(1, 6) {
        let shape = place(&mut random, &boxes, width, height);
        let color = contrasting(&mut random, &corners);
        let Some((class, figure)) = shape else { continue };
        let mut found = [class, width, height, 0, 0];
        canvas.paint(&figure, color, |column, row| {
            mask[(row * width + column) as usize] = 1 + class as u8;
            let [_, left, top, right, bottom] = found;
            found = [class, left.min(column), top.min(row), right.max(column + 1), bottom.max(row + 1)];
        });
        boxes.push(found);
    }
    let loudness = random.below(13);
    let values = canvas.pixels.iter().flatten();
    let noisy = values.map(|value| (value + random.below(2 * loudness + 1) - loudness).clamp(0, 255) as u8);
    Scene { pixels: noisy.collect(), mask, boxes }
}

fn turned([x, y]: [i64; 2], angle: i64) -> [i64; 2] {
    let cosine = |step: i64| {
        let turn = std::f64::consts::TAU * step.rem_euclid(ANGLES) as f64 / ANGLES as f64;
        (ONE as f64 * turn.cos()).round() as i64
    };
    let (cosine, sine) = (cosine(angle), cosine(angle + 3 * ANGLES / 4));
    [(x * cosine - y * sine).div_euclid(ONE), (x * sine + y * cosine).div_euclid(ONE)]
}

fn thin_line(random: &mut Random, width: i64, height: i64) -> Figure {
    let (x, y) = (random.below(width * UNIT), random.below(height * UNIT));
    let (reach, thick) = (random.within(10, 60) * UNIT, random.within(UNIT / 2, UNIT));
    let angle = random.below(ANGLES);
    let corners = [[-reach, -thick], [reach, -thick], [reach, thick], [-reach, thick]];
    Figure { x, y, reach: reach + thick, corners: corners.map(|corner| turned(corner, angle)).to_vec() }
}

fn place(random: &mut Random, boxes: &[[i64; 5]], width: i64, height: i64) -> Option<(i64, Figure)> {
    let class = random.below(CLASSES.len() as i64);
    for _ in 0..10 {
        let radius = random.within(9 * UNIT, 26 * UNIT);
        let reach = radius / UNIT + 2;
        let x = random.within(reach * UNIT, (width - reach) * UNIT);
        let y = random.within(reach * UNIT, (height - reach) * UNIT);
        let angle = random.below(ANGLES);
        let around = [x / UNIT - reach, y / UNIT - reach, x / UNIT + reach, y / UNIT + reach];
        if boxes.iter().all(|&[_, left, top, right, bottom]| barely_meet(around, [left, top, right, bottom]))
        {
            let corners = outline(class, radius, angle);
            return Some((class, Figure { x, y, reach: radius, corners }));
        }
    }
    None
}

fn barely_meet(a: [i64; 4], b: [i64; 4]) -> bool {
    let (width, height) = (a[2].min(b[2]) - a[0].max(b[0]), a[3].min(b[3]) - a[1].max(b[1]));
    let area = |of: [i64; 4]| (of[2] - of[0]) * (of[3] - of[1]);
    width <= 0 || height <= 0 || 10 * width * height < area(a).min(area(b))
}

fn outline(class: i64, radius: i64, angle: i64) -> Vec<[i64; 2]> {
    // A star has every other corner at two fifths of the radius.
    let (corners, inner) = match class {
        0 => return Vec::new(),
        1 => (4, 5),
        2 => (3, 5),
        _ => (10, 2),
    };
    let corner = |at: i64| {
        let length = if at % 2 == 1 { radius * inner / 5 } else { radius };
        turned([length, 0], angle + ANGLES * at / corners)
    };
    (0..corners).map(corner).collect()
}

fn contrasting(random: &mut Random, corners: &[[i64; 3]; 4]) -> [i64; 3] {
    let middle = [0, 1, 2].map(|channel| corners.iter().map(|corner| corner[channel]).sum::<i64>() / 4);
    for _ in 0..20 {
        let color = random.color();
        if color.iter().zip(&middle).map(|(a, b)| (a - b).abs()).sum::<i64>() >= 150 {
            return color;
        }
    }
    middle.map(|value| 255 - value)
}
