//! Scores of classes: the best of them, as a bar chart.

use super::card::Activation;
use crate::cli::numbers;
use crate::cli::screen::{Screen, Style};
use crate::cli::table::width;
use ixion::tensor::{DType, Tensor};
use std::io::{self, Write};

/// The best classes of one picture, the best one first.
pub(super) type Ranking = Vec<Class>;

/// A class and how well it fits.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Class {
    pub(super) index: usize,
    pub(super) label: String,
    /// A probability in 0..1, or what the model gave where nothing turns that into one.
    pub(super) score: f64,
    pub(super) is_probability: bool,
}

/// Length of the bar of a probability of 1.
const BAR: usize = 30;

/// The best classes for each row of scores; or what is wrong with the scores.
pub(super) fn rank(
    scores: &Tensor,
    activation: Activation,
    labels: &[String],
    top: usize,
) -> Result<Vec<Ranking>, String> {
    let count = match scores.shape().dims() {
        [classes] | [_, classes] if *classes > 0 => *classes,
        _ => {
            return Err(format!("has the shape {}, not classes or pictures×classes", scores.shape()));
        }
    };
    if !scores.dtype().is_float() {
        return Err(format!("holds {}, not floats", scores.dtype()));
    }
    if !labels.is_empty() && labels.len() != count {
        return Err(format!("has {count} classes, but there are {} labels", labels.len()));
    }
    let values = scores.cast(DType::F64).and_then(|scores| scores.to_vec::<f64>());
    let values = values.map_err(|error| format!("cannot be read: {error}"))?;
    Ok(values
        .chunks_exact(count)
        .map(|row| best(activate(row, activation), activation, labels, top))
        .collect())
}

fn activate(scores: &[f64], activation: Activation) -> Vec<f64> {
    match activation {
        Activation::None => scores.to_vec(),
        Activation::Sigmoid => scores.iter().map(|score| 1.0 / (1.0 + (-score).exp())).collect(),
        Activation::Softmax => {
            // The largest is taken off so that nothing overflows.
            let largest = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let powers: Vec<f64> = scores.iter().map(|score| (score - largest).exp()).collect();
            let sum: f64 = powers.iter().sum();
            powers.into_iter().map(|power| power / sum).collect()
        }
    }
}

fn best(scores: Vec<f64>, activation: Activation, labels: &[String], top: usize) -> Ranking {
    let mut order: Vec<(usize, f64)> = scores.into_iter().enumerate().collect();
    // NaN is no score: it goes behind all others.
    let key = |score: f64| if score.is_nan() { f64::NEG_INFINITY } else { score };
    order.sort_by(|a, b| key(b.1).total_cmp(&key(a.1)));
    let class = |(index, score): (usize, f64)| {
        let label = labels.get(index).cloned().unwrap_or_else(|| index.to_string());
        Class { index, label, score, is_probability: activation != Activation::None }
    };
    order.into_iter().take(top).map(class).collect()
}

/// Writes one chart for each picture; of several, each has a heading.
pub(super) fn write(screen: &mut Screen, rankings: &[Ranking]) -> io::Result<()> {
    for (picture, ranking) in rankings.iter().enumerate() {
        if rankings.len() > 1 {
            let heading = format!("picture {} of {}", picture + 1, rankings.len());
            writeln!(screen, "{}", screen.paint(Style::Faint, heading))?;
        }
        chart(screen, ranking)?;
    }
    Ok(())
}

fn chart(screen: &mut Screen, ranking: &[Class]) -> io::Result<()> {
    let scores: Vec<String> = ranking.iter().map(score_text).collect();
    let label_width = ranking.iter().map(|class| width(&class.label)).max().unwrap_or(0);
    let score_width = scores.iter().map(|score| width(score)).max().unwrap_or(0);
    // Scores that are no probabilities are drawn against the largest.
    let largest = ranking.first().filter(|class| !class.is_probability).map_or(1.0, |class| class.score);
    for (place, (class, score)) in ranking.iter().zip(&scores).enumerate() {
        let blanks = " ".repeat(label_width.saturating_sub(width(&class.label)));
        let bar = bar(class.score / largest);
        let style = if place == 0 { Style::Good } else { Style::Faint };
        let line = format!("{}{blanks}  {score:>score_width$}  {}", class.label, screen.paint(style, bar));
        writeln!(screen, "{}", line.trim_end())?;
    }
    Ok(())
}

fn score_text(class: &Class) -> String {
    if class.is_probability { numbers::percent(class.score) } else { format!("{:.4}", class.score) }
}

/// A bar of blocks, in steps of an eighth of a character.
fn bar(fraction: f64) -> String {
    const PARTS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
    // A cast saturates, and takes NaN for 0.
    let eighths = ((fraction * (8 * BAR) as f64).round() as usize).min(8 * BAR);
    let part = PARTS.get(eighths % 8).copied().unwrap_or_default();
    "█".repeat(eighths / 8) + part
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scores(values: &[f32], shape: &[usize]) -> Tensor {
        Tensor::from_vec(values.to_vec(), shape).unwrap()
    }

    #[test]
    fn the_best_come_first_with_their_labels() {
        let labels = ["ant", "bee", "cow"].map(String::from);
        let rows =
            rank(&scores(&[0.0, 2.0, 1.0, 5.0, 0.0, 0.0], &[2, 3]), Activation::Softmax, &labels, 2).unwrap();
        let found: Vec<Vec<&str>> =
            rows.iter().map(|row| row.iter().map(|class| class.label.as_str()).collect()).collect();
        assert_eq!(found, [["bee", "cow"], ["ant", "bee"]]);
        let wanted = 2f64.exp() / (1.0 + 1f64.exp() + 2f64.exp());
        assert!((rows[0][0].score - wanted).abs() < 1e-12);
    }

    #[test]
    fn large_scores_do_not_overflow_and_nan_comes_last() {
        let rows = rank(&scores(&[1e30, -1e30], &[2]), Activation::Softmax, &[], 5).unwrap();
        assert_eq!((rows[0][0].score, rows[0][0].label.as_str()), (1.0, "0"));
        let rows = rank(&scores(&[f32::NAN, -1.0], &[2]), Activation::Sigmoid, &[], 5).unwrap();
        assert_eq!(rows[0][0].index, 1);
    }

    #[test]
    fn scores_that_are_none_are_refused() {
        let of = |tensor: &Tensor| rank(tensor, Activation::None, &["a".into()], 1).unwrap_err();
        assert!(of(&scores(&[0.0; 4], &[1, 2, 2])).contains("1×2×2"));
        assert!(of(&scores(&[0.0; 2], &[2])).contains("2 classes, but there are 1 labels"));
        assert!(of(&Tensor::scalar(1i64)).contains("shape"));
    }

    #[test]
    fn bars_have_eighths() {
        assert_eq!(bar(1.0), "█".repeat(BAR));
        assert_eq!((bar(1.0 / 240.0), bar(0.0)), ("▏".into(), String::new()));
        assert_eq!((bar(f64::NAN), bar(-1.0), bar(7.0)), (String::new(), String::new(), bar(1.0)));
    }
}
