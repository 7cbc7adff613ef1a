//! A memory map: operators from left to right, addresses upwards, and a box for the lifetime of each buffer.

use super::page::{self, LEGEND_FONT, Lines, MARGIN, Px, TICK_FONT, legend, ticks};
use super::text::{Font, escape};
use super::{NodeKind, style};
use crate::numbers;

/// A memory map: the addresses and lifetimes of the buffers in a block of memory.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MemoryMap {
    /// The heading, such as the file's name.
    pub title: String,
    /// A line below the heading.
    pub summary: String,
    /// The names of the operators, in execution order.
    pub steps: Vec<String>,
    /// The buffers, drawn as boxes.
    pub blocks: Vec<Block>,
    /// The size of the memory in bytes.
    pub bytes: u64,
    /// A lower bound of the size, in bytes.
    pub least: u64,
    /// The step that needs the most memory.
    pub fullest: usize,
}

/// A buffer: a part of the memory that is in use from one step to another, inclusive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Block {
    /// The offset of the first byte.
    pub offset: u64,
    /// The number of bytes.
    pub bytes: u64,
    /// The first step.
    pub first: usize,
    /// The last step.
    pub last: usize,
    /// The kind of the operator that writes the buffer; `None` for scratch memory.
    pub kind: Option<NodeKind>,
    /// Text in the box, shown if there is room.
    pub label: String,
    /// The lines of the tooltip.
    pub tooltip: Vec<String>,
}

/// Height of the plot, its minimum and maximum width, and the maximum width of a step.
const HEIGHT: f64 = 420.0;
const MIN_WIDTH: f64 = 720.0;
const MAX_WIDTH: f64 = 1_680.0;
const MAX_STEP_WIDTH: f64 = 120.0;
/// Space for sizes on the left, and for the names of lines on the right.
const LEFT: f64 = 86.0;
const RIGHT: f64 = 132.0;
/// Maximum space for operator names below, and the minimum width of a step for names to be written.
const BELOW: f64 = 120.0;
const STEP_FOR_NAMES: f64 = 11.0;
/// Space between the plot and a size or a name.
const GAP: f64 = 8.0;
/// Half the width of the mark below the fullest step.
const MARK: f64 = 4.5;
const BLOCK_FONT: Font = Font::mono(10.0);
/// Minimum width and height of a box for an elided label.
const LABEL_ROOM: (f64, f64) = (58.0, 13.0);
/// Space between two boxes.
const SEAM: f64 = 1.0;

const STYLE: &str = "\
.drawing .plot text{stroke:none}
.drawing .grid{stroke-width:1;opacity:.5}
.drawing .frame{fill:none;stroke-width:1}
.drawing .blocks rect{stroke:none}
.drawing .blocks g:hover .bar{opacity:.7}
.drawing .blocks text{fill:#fff;pointer-events:none}
.drawing .peak{stroke-width:2}
.drawing .least{stroke-width:2;stroke-dasharray:6 4}
.drawing .right{text-anchor:end}
";
/// Colours of scratch memory, of grid and frame, of the line at the memory's size, and of the line at the lower bound.
const LIGHT: [&str; 4] = ["#94a3b8", "#cbd5e1", "#0f172a", "#dc2626"];
const DARK: [&str; 4] = ["#64748b", "#334155", "#e6edf3", "#f87171"];

impl MemoryMap {
    /// Renders a complete SVG document. Lengths are in CSS pixels; colours follow the reader's light or dark setting.
    #[must_use]
    pub fn to_svg(&self) -> String {
        let plot = Plot::new(self);
        let needed = (LEFT + plot.width + RIGHT).max(LEGEND_FONT.width(&self.summary));
        let width = (needed + 2.0 * MARGIN).ceil();
        let kinds: Vec<NodeKind> = NodeKind::ALL.into_iter().filter(|kind| self.has(Some(*kind))).collect();
        let mut entries: Vec<(&str, &str)> = kinds.iter().map(|&kind| page::entry(kind)).collect();
        entries.extend(self.has(None).then_some(("scratch", "Scratch")));
        let legend = legend(&entries, width);
        let top = legend.bottom + 14.0;
        let height = (top + HEIGHT + plot.below + MARGIN).ceil();

        let mut text = page::open(&self.title, width, height);
        style::write(&mut text, &kinds, &style_sheet());
        page::heading(&mut text, &self.title, &self.summary, (width, height));
        text.push_str(&legend.text);
        let left = MARGIN + LEFT;
        text.line(format_args!(r#"<g class="plot" transform="translate({} {})">"#, Px(left), Px(top)));
        self.draw_grid(&mut text, &plot);
        self.draw_steps(&mut text, &plot);
        self.draw_blocks(&mut text, &plot);
        self.draw_lines(&mut text, &plot);
        text.push_str("</g>\n</svg>\n");
        text
    }

    fn has(&self, kind: Option<NodeKind>) -> bool {
        self.blocks.iter().any(|block| block.kind == kind)
    }

    /// Draws sizes on the left, and horizontal lines.
    fn draw_grid(&self, text: &mut String, plot: &Plot) {
        for bytes in ticks(plot.bytes) {
            let (y, across) = (Px(plot.y(bytes)), Px(plot.width));
            text.line(format_args!(r#"<path class="grid" d="M0 {y}h{across}"/>"#));
            let baseline = Px(plot.y(bytes) + TICK_FONT.size / 3.0);
            let size = numbers::bytes(bytes);
            text.line(format_args!(r#"<text class="detail right" x="-{GAP}" y="{baseline}">{size}</text>"#));
        }
        text.line(format_args!(r#"<path class="frame" d="M0 0V{HEIGHT}H{}"/>"#, Px(plot.width)));
    }

    /// Draws the operators below the plot, by name if there is room, otherwise some of them by number, and a mark at the
    /// fullest step.
    fn draw_steps(&self, text: &mut String, plot: &Plot) {
        let (x, y) = (Px(plot.x(self.fullest) + plot.step / 2.0), Px(HEIGHT + 2.0));
        let lines = [format!("the fullest step: {}", numbers::bytes(self.least))].into_iter();
        let tooltip =
            escape(&lines.chain(self.steps.get(self.fullest).cloned()).collect::<Vec<_>>().join("\n"));
        text.line(format_args!(
            r#"<path class="fullest" d="M{x} {y}l{MARK} 7h-{}z"><title>{tooltip}</title></path>"#,
            2.0 * MARK
        ));
        if plot.names {
            for (step, name) in self.steps.iter().enumerate() {
                let (x, y) = (plot.x(step) + plot.step / 2.0 + TICK_FONT.size / 3.0, HEIGHT + 2.0 * GAP);
                let name = escape(&TICK_FONT.elide_middle(name, BELOW));
                text.line(format_args!(
                    r#"<text class="detail right" transform="translate({} {}) rotate(-90)">{name}</text>"#,
                    Px(x),
                    Px(y)
                ));
            }
            return;
        }
        let baseline = Px(HEIGHT + 2.0 * GAP + TICK_FONT.size);
        for step in ticks(self.steps.len() as u64) {
            let x = Px((step as f64).mul_add(plot.step, -TICK_FONT.width(&step.to_string()) / 2.0));
            text.line(format_args!(r#"<text class="detail" x="{x}" y="{baseline}">{step}</text>"#));
        }
    }

    fn draw_blocks(&self, text: &mut String, plot: &Plot) {
        if self.blocks.is_empty() {
            let (x, y) = (Px(2.0 * GAP), Px(HEIGHT / 2.0));
            text.line(format_args!(r#"<text class="summary" x="{x}" y="{y}">no buffers are needed</text>"#));
        }
        text.push_str("<g class=\"blocks\">\n");
        for block in &self.blocks {
            let (left, right) = (plot.x(block.first), plot.x(block.last + 1));
            let (bottom, top) = (plot.y(block.offset), plot.y(block.offset.saturating_add(block.bytes)));
            let (width, height) = ((right - left - SEAM).max(0.7), (bottom - top - SEAM).max(0.7));
            let class = block.kind.map_or("scratch", NodeKind::class);
            let tooltip = escape(&block.tooltip.join("\n"));
            let radius = if width.min(height) > 8.0 { 3.0 } else { 0.0 };
            text.line(format_args!(
                r#"<g class="{class}"><title>{tooltip}</title><rect class="bar" x="{}" y="{}" width="{}" height="{}" rx="{radius}"/>"#,
                Px(left),
                Px(top),
                Px(width),
                Px(height)
            ));
            let room = width - 8.0;
            let is_wide = room >= LABEL_ROOM.0 || room >= BLOCK_FONT.width(&block.label);
            if is_wide && height >= LABEL_ROOM.1 && !block.label.is_empty() {
                let (x, y) = (Px(left + 4.0), Px(top + height / 2.0 + BLOCK_FONT.size / 3.0));
                let label = escape(&BLOCK_FONT.elide_middle(&block.label, room));
                text.line(format_args!(r#"<text class="detail" x="{x}" y="{y}">{label}</text>"#));
            }
            text.push_str("</g>\n");
        }
        text.push_str("</g>\n");
    }

    /// Draws lines at the size of the memory and at the lower bound.
    fn draw_lines(&self, text: &mut String, plot: &Plot) {
        let (peak, least) = (plot.y(self.bytes), plot.y(self.least));
        // The texts need this much space, even if the lines are close together.
        let apart = if least - peak < 30.0 { 30.0 } else { least - peak };
        for (class, name, y, beside, bytes) in [
            ("peak", "arena", peak, peak, self.bytes),
            ("least", "lower bound", least, peak + apart, self.least),
        ] {
            let (y, across, x) = (Px(y), Px(plot.width), Px(plot.width + GAP));
            text.line(format_args!(r#"<path class="{class}" d="M0 {y}h{across}"/>"#));
            text.line(format_args!(
                r#"<text class="summary {class}-text" x="{x}" y="{}">{name}</text>"#,
                Px(beside)
            ));
            let (below, size) = (Px(beside + 13.0), numbers::bytes(bytes));
            text.line(format_args!(r#"<text class="name" x="{x}" y="{below}">{size}</text>"#));
        }
    }
}

/// The conversion of steps and bytes to pixels.
struct Plot {
    width: f64,
    step: f64,
    bytes: u64,
    /// Whether the steps are wide enough for names.
    names: bool,
    /// Space for names or numbers below the plot.
    below: f64,
}

impl Plot {
    fn new(map: &MemoryMap) -> Self {
        let last = map.blocks.iter().map(|block| block.last + 1).max().unwrap_or_default();
        let steps = map.steps.len().max(last).max(1) as f64;
        let step = (MIN_WIDTH.max(MAX_WIDTH.min(steps * 24.0)) / steps).min(MAX_STEP_WIDTH);
        let ends = map.blocks.iter().map(|block| block.offset.saturating_add(block.bytes));
        let bytes = ends.chain([map.bytes, map.least, 1]).max().unwrap_or(1);
        let names = step >= STEP_FOR_NAMES;
        let widths = map.steps.iter().map(|name| TICK_FONT.width(name));
        let longest = if names { widths.fold(0.0, f64::max).min(BELOW) } else { TICK_FONT.size };
        Self { width: step * steps, step, bytes, names, below: 2.0 * GAP + longest }
    }

    fn x(&self, step: usize) -> f64 {
        step as f64 * self.step
    }

    fn y(&self, bytes: u64) -> f64 {
        HEIGHT * (1.0 - bytes as f64 / self.bytes as f64)
    }
}

/// The style rules specific to this drawing.
fn style_sheet() -> String {
    let mut rules = STYLE.to_owned();
    rules.line(format_args!(".drawing .blocks text{{font-size:{}px}}", BLOCK_FONT.size));
    colours(&mut rules, &LIGHT);
    rules.push_str("@media (prefers-color-scheme:dark){\n");
    colours(&mut rules, &DARK);
    rules.push_str("}\n");
    rules
}

fn colours(rules: &mut String, [scratch, grid, peak, least]: &[&str; 4]) {
    rules.line(format_args!(".drawing .scratch rect{{fill:{scratch}}}"));
    rules.line(format_args!(".drawing .grid,.drawing .frame{{stroke:{grid}}}"));
    rules.line(format_args!(".drawing .peak{{stroke:{peak}}}.drawing .least{{stroke:{least}}}"));
    rules.line(format_args!(
        ".drawing .fullest,.drawing .least-text{{fill:{least}}}.drawing .peak-text{{fill:{peak}}}"
    ));
}

#[cfg(test)]
mod tests {
    use super::super::samples::tags;
    use super::*;

    fn block(offset: u64, bytes: u64, first: usize, last: usize, kind: Option<NodeKind>) -> Block {
        let label = format!("b{offset}");
        Block { offset, bytes, first, last, kind, label, tooltip: vec!["<x>".into(), "1 kB".into()] }
    }

    /// A map of `steps` steps; each writes a buffer that the next one reads.
    fn chain(steps: usize) -> MemoryMap {
        let blocks = (0..steps).map(|step| {
            block(step as u64 % 2 * 640, 640, step, step + 1, Some(NodeKind::ALL[step % NodeKind::ALL.len()]))
        });
        MemoryMap {
            title: "a<b".into(),
            summary: "two & two".into(),
            steps: (0..steps).map(|step| format!("layer{step}.conv")).collect(),
            blocks: blocks.chain([block(1280, 64, 1, 1, None)]).collect(),
            bytes: 1344,
            least: 1280,
            fullest: 1,
        }
    }

    #[test]
    fn every_map_is_a_well_formed_document() {
        for map in [chain(0), chain(1), chain(12), chain(700), MemoryMap::default()] {
            let svg = map.to_svg();
            assert_eq!(tags(&svg)[0], "svg");
            assert_eq!(svg.matches("</title><rect").count(), map.blocks.len());
            assert!(!svg.contains("NaN") && !svg.contains("inf\""), "{svg}");
            assert_eq!(svg, map.to_svg());
        }
    }

    #[test]
    fn boxes_are_at_their_addresses() {
        let svg = chain(12).to_svg();
        // 12 steps and the time after them take 13 columns; the arena is 420 pixels high.
        let plot = Plot::new(&chain(12));
        assert_eq!((plot.x(2), plot.y(0), plot.y(1344), plot.y(672)), (2.0 * plot.step, 420.0, 0.0, 210.0));
        assert!((plot.width - plot.step * 13.0).abs() < 1e-9);
        let box_of_second =
            format!(r#"x="{}" y="{}" width="{}""#, Px(plot.step), Px(20.0), Px(2.0 * plot.step - SEAM));
        assert!(svg.contains(&box_of_second), "{box_of_second} in {svg}");
    }

    #[test]
    fn operators_have_names_if_there_is_room_and_numbers_otherwise() {
        assert!(chain(12).to_svg().contains(">layer11.conv</text>"));
        let many = chain(700).to_svg();
        assert!(!many.contains(">layer11.conv</text>") && many.contains(">200</text>"));
        assert!(many.len() < 400 * 700, "{} bytes", many.len());
    }

    #[test]
    fn the_legend_names_scratch_memory() {
        assert!(chain(2).to_svg().contains(">Scratch</text>"));
        assert!(!MemoryMap { blocks: Vec::new(), ..chain(2) }.to_svg().contains(">Scratch</text>"));
    }
}
