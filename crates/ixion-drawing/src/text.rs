//! Text: estimated widths, elision and escaping.
//!
//! An SVG cannot measure text, so widths are estimated conservatively: the fonts that the drawing specifies, and
//! their usual substitutes, are no wider.

/// The replacement for elided text.
const ELLIPSIS: char = '…';

/// A font of the drawing.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Font {
    /// The size in pixels.
    pub(super) size: f64,
    face: Face,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Face {
    Sans,
    BoldSans,
    Mono,
}

impl Font {
    pub(super) const fn sans(size: f64) -> Font {
        Font { size, face: Face::Sans }
    }

    pub(super) const fn bold_sans(size: f64) -> Font {
        Font { size, face: Face::BoldSans }
    }

    pub(super) const fn mono(size: f64) -> Font {
        Font { size, face: Face::Mono }
    }

    /// The estimated width of a text in pixels.
    pub(super) fn width(self, text: &str) -> f64 {
        text.chars().map(|c| self.advance(c)).sum()
    }

    /// The text, or its beginning and an ellipsis, in at most `room` pixels.
    pub(super) fn elide_end(self, text: &str, room: f64) -> String {
        if self.fits(text, room) {
            return clean(text);
        }
        let kept = self.take(text.chars(), room - self.advance(ELLIPSIS));
        let mut short = clean(kept.iter().collect::<String>().trim_end());
        short.push(ELLIPSIS);
        short
    }

    /// The text, or its beginning, an ellipsis and its end, in at most `room` pixels. For dotted names, whose ends
    /// are the most informative part.
    pub(super) fn elide_middle(self, text: &str, room: f64) -> String {
        if self.fits(text, room) {
            return clean(text);
        }
        let room = room - self.advance(ELLIPSIS);
        let head = self.take(text.chars(), room * 0.4);
        let used: f64 = head.iter().map(|&c| self.advance(c)).sum();
        let tail = self.take(text.chars().rev(), room - used);
        clean(&head.into_iter().chain([ELLIPSIS]).chain(tail.into_iter().rev()).collect::<String>())
    }

    /// Returns true if the text needs at most `room` pixels. Stops at the first character that does not fit.
    fn fits(self, text: &str, room: f64) -> bool {
        let mut left = room;
        text.chars().all(|c| {
            left -= self.advance(c);
            left >= 0.0
        })
    }

    fn take(self, chars: impl Iterator<Item = char>, room: f64) -> Vec<char> {
        let mut left = room;
        chars
            .take_while(|&c| {
                left -= self.advance(c);
                left >= 0.0
            })
            .collect()
    }

    fn advance(self, c: char) -> f64 {
        let em = match self.face {
            Face::Sans => 0.9 * bold_advance(c),
            Face::BoldSans => bold_advance(c),
            Face::Mono => monospaced_advance(c),
        };
        self.size * em
    }
}

/// The advance of a character in a monospaced font, in em.
fn monospaced_advance(c: char) -> f64 {
    if is_wide(c) { 1.3 } else { 0.61 }
}

/// The advance of a character in a bold sans-serif font, in em, based on wide fonts such as DejaVu Sans and Verdana.
fn bold_advance(c: char) -> f64 {
    match c {
        'i' | 'j' | 'l' | 'I' | '.' | ',' | ':' | ';' | '\'' | '|' | '!' | ' ' => 0.42,
        'f' | 't' | 'r' | '(' | ')' | '[' | ']' | '-' | '/' | '_' => 0.5,
        'm' | 'w' | 'M' | 'W' | '@' | '%' => 1.1,
        'A'..='Z' | '0'..='9' => 0.8,
        'a'..='z' => 0.72,
        _ if is_wide(c) => 1.3,
        _ => 0.9,
    }
}

/// Returns true if a character may take more than one column: East Asian scripts, pictographs, and rare characters.
fn is_wide(c: char) -> bool {
    c >= '\u{2e80}' || ('\u{1100}'..='\u{11ff}').contains(&c)
}

/// Replaces control characters, including line breaks, and characters that XML forbids by U+FFFD.
pub(super) fn clean(text: &str) -> String {
    text.chars().map(|c| if c.is_control() || is_forbidden(c) { '\u{fffd}' } else { c }).collect()
}

fn is_forbidden(c: char) -> bool {
    (c < ' ' && !matches!(c, '\t' | '\n' | '\r')) || matches!(c, '\u{fffe}' | '\u{ffff}')
}

/// Escapes text for XML content and for attributes in double quotes.
pub(super) fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            c if is_forbidden(c) => escaped.push('\u{fffd}'),
            c => escaped.push(c),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markup_is_escaped() {
        assert_eq!(escape(r#"<a & "b" 'c'>"#), "&lt;a &amp; &quot;b&quot; &#39;c&#39;&gt;");
        assert_eq!(escape("a\u{0}b\nc"), "a\u{fffd}b\nc");
    }

    #[test]
    fn short_text_is_kept() {
        let font = Font::mono(10.0);
        assert_eq!(font.elide_middle("layer1.0.conv1", 200.0), "layer1.0.conv1");
        assert_eq!(font.elide_end("", 0.0), "");
    }

    #[test]
    fn long_text_is_elided_to_fit() {
        let name = "backbone.features.stage4.block12.convolution";
        for font in [Font::mono(11.0), Font::sans(12.0), Font::bold_sans(12.0)] {
            for room in [40.0, 90.0, 150.0] {
                for short in [font.elide_end(name, room), font.elide_middle(name, room)] {
                    assert!(font.width(&short) <= room, "{short}");
                    assert!(short.contains(ELLIPSIS));
                }
            }
        }
        assert_eq!(Font::mono(10.0).elide_middle(name, 110.0), "backbo…convolution");
        assert_eq!(Font::mono(10.0).elide_end(name, 110.0), "backbone.features…");
    }

    #[test]
    fn elided_text_may_have_any_characters() {
        let font = Font::mono(10.0);
        assert!(font.width(&font.elide_middle(&"卷积".repeat(40), 60.0)) <= 60.0);
        assert_eq!(font.elide_end("a\nb\u{7}", 100.0), "a\u{fffd}b\u{fffd}");
        assert_eq!(font.elide_end("abc", -5.0), "…");
    }
}
