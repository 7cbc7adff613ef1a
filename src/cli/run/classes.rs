//! The best classes, as a bar chart.

use crate::cli::table::width;
use crate::cli::{Style, Terminal, numbers};
use ixion::vision::Class;
use std::io::{self, Write};

/// The length of the bar for a probability of 1, in characters.
const BAR: usize = 30;

/// Writes the best classes of one image, the best one first.
pub(super) fn write(terminal: &mut Terminal, ranking: &[Class]) -> io::Result<()> {
    let scores: Vec<String> = ranking.iter().map(score_text).collect();
    let label_width = ranking.iter().map(|class| width(&class.label)).max().unwrap_or(0);
    let score_width = scores.iter().map(|score| width(score)).max().unwrap_or(0);
    // Scores that are not probabilities are drawn relative to the largest.
    let largest = ranking.first().filter(|class| !class.is_probability).map_or(1.0, |class| class.score);
    for (place, (class, score)) in ranking.iter().zip(&scores).enumerate() {
        let blanks = " ".repeat(label_width.saturating_sub(width(&class.label)));
        let bar = bar(class.score / largest);
        let style = if place == 0 { Style::Good } else { Style::Faint };
        let line = format!("{}{blanks}  {score:>score_width$}  {}", class.label, terminal.paint(style, bar));
        writeln!(terminal, "{}", line.trim_end())?;
    }
    Ok(())
}

fn score_text(class: &Class) -> String {
    if class.is_probability { numbers::percent(class.score) } else { format!("{:.4}", class.score) }
}

/// A bar of blocks, in steps of an eighth of a character.
fn bar(fraction: f64) -> String {
    const PARTS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
    // The cast saturates, and turns NaN into 0.
    let eighths = ((fraction * (8 * BAR) as f64).round() as usize).min(8 * BAR);
    let part = PARTS.get(eighths % 8).copied().unwrap_or_default();
    "█".repeat(eighths / 8) + part
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_have_eighths() {
        assert_eq!(bar(1.0), "█".repeat(BAR));
        assert_eq!((bar(1.0 / 240.0), bar(0.0)), ("▏".into(), String::new()));
        assert_eq!((bar(f64::NAN), bar(-1.0), bar(7.0)), (String::new(), String::new(), bar(1.0)));
    }
}
