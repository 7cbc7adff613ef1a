//! Renders TeX formulas as MathML, which all current browsers support without scripts, fonts or network access.
//!
//! This is the preprocessor named in `book/book.toml`: mdBook passes the book as JSON and reads it back.

use crate::trouble::{Result, Trouble};
use pulldown_cmark::{Event, Options, Parser};
use pulldown_latex::config::{DisplayMode, RenderConfig};
use serde_json::Value;
use std::io::Read;
use std::ops::Range;

/// Called by mdBook: reads the book from `input` and returns it with its formulas rendered.
pub fn preprocess(mut input: impl Read) -> Result<String> {
    let mut text = String::new();
    input
        .read_to_string(&mut text)
        .map_err(|error| Trouble::new(format!("cannot read mdBook's input: {error}")))?;
    let mut pair: Value = serde_json::from_str(&text)
        .map_err(|error| Trouble::new(format!("mdBook's input is not JSON: {error}")))?;
    let mut book =
        pair.get_mut(1).map(Value::take).ok_or_else(|| Trouble::new("mdBook's input contains no book"))?;
    chapters(&mut book)?;
    Ok(book.to_string())
}

/// Renders the formulas of all chapters, at any depth.
fn chapters(value: &mut Value) -> Result<()> {
    match value {
        Value::Array(items) => items.iter_mut().try_for_each(chapters),
        Value::Object(fields) => {
            let path = fields.get("source_path").and_then(Value::as_str).unwrap_or_default().to_owned();
            if let Some(content) = fields.get_mut("content").filter(|content| content.is_string()) {
                let text = content.as_str().unwrap_or_default();
                let rendered = render_page(text);
                let located = |trouble: Trouble| Trouble {
                    what: format!("book/src/{path}: {}", trouble.what),
                    ..trouble
                };
                *content = rendered.map_err(located)?.into();
            }
            fields.values_mut().try_for_each(chapters)
        }
        _ => Ok(()),
    }
}

/// Renders the formulas of a page.
pub fn render_page(text: &str) -> Result<String> {
    let mut page = String::with_capacity(text.len());
    let mut end = 0;
    for (formula, place, display) in formulas(text) {
        page.push_str(&text[end..place.start]);
        page.push_str(&render(&formula, display)?);
        end = place.end;
    }
    page.push_str(&text[end..]);
    Ok(page)
}

/// The formulas of a page: the TeX source, its range, and whether it is a display formula.
fn formulas(text: &str) -> Vec<(String, Range<usize>, bool)> {
    let options = Options::ENABLE_TABLES | Options::ENABLE_FOOTNOTES | Options::ENABLE_MATH;
    let formula = |(event, place)| match event {
        Event::InlineMath(tex) => Some((tex.to_string(), place, false)),
        Event::DisplayMath(tex) => Some((tex.to_string(), place, true)),
        _ => None,
    };
    Parser::new_ext(text, options).into_offset_iter().filter_map(formula).collect()
}

/// Renders a formula as one line of MathML without characters that are special in Markdown.
fn render(tex: &str, display: bool) -> Result<String> {
    let storage = pulldown_latex::Storage::new();
    if let Some(Err(error)) = pulldown_latex::Parser::new(tex, &storage).find(std::result::Result::is_err) {
        return Err(Trouble::new(format!("the formula `{tex}` is not valid TeX:\n{error}")));
    }
    let mode = if display { DisplayMode::Block } else { DisplayMode::Inline };
    let config = RenderConfig { display_mode: mode, ..RenderConfig::default() };
    let mut math = String::new();
    pulldown_latex::push_mathml(&mut math, pulldown_latex::Parser::new(tex, &storage), config)
        .map_err(|error| Trouble::new(format!("cannot render the formula `{tex}`: {error}")))?;
    let math = math.replace('\n', " ").replace('*', "&#42;").replace('_', "&#95;").replace('`', "&#96;");
    let math = math.replace('[', "&#91;").replace('~', "&#126;").replace('$', "&#36;").replace('\\', "&#92;");
    Ok(if display { format!("<span class=\"formula\">{math}</span>") } else { math })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formulas_become_mathml_and_code_stays() {
        let page = render_page("Let $x_i * 2$ be, not `$y$`.\n\n```sh\necho $HOME $OUT\n```\n").unwrap();
        assert!(page.contains("<math"), "{page}");
        assert!(page.contains("`$y$`") && page.contains("echo $HOME $OUT"), "{page}");
        assert!(!page.contains("x_i") && !page.contains('*'), "{page}");
    }

    #[test]
    fn a_formula_on_its_own_line_is_a_block() {
        let page = render_page("$$\n\\frac{h + 2p - k}{s} + 1\n$$\n").unwrap();
        assert!(page.contains("display=\"block\"") && page.contains("class=\"formula\""), "{page}");
        assert_eq!(page.trim_end().lines().count(), 1);
    }

    #[test]
    fn a_broken_formula_is_an_error_that_shows_it() {
        assert!(render_page("$\\frac{1}$").unwrap_err().what.contains("\\frac{1}"));
        assert!(render_page("$\\nosuchthing$").is_err());
    }

    #[test]
    fn a_book_goes_through() {
        let book = r#"[{"renderer":"html"},{"items":[{"Chapter":{"name":"A","content":"$a$","source_path":"a.md","sub_items":[{"Chapter":{"content":"b","sub_items":[]}}]}},"Separator"]}]"#;
        let answer: Value = serde_json::from_str(&preprocess(book.as_bytes()).unwrap()).unwrap();
        let chapter = &answer["items"][0]["Chapter"];
        assert!(chapter["content"].as_str().unwrap().contains("<math"));
        assert_eq!(chapter["sub_items"][0]["Chapter"]["content"], "b");
        assert!(preprocess("[]".as_bytes()).is_err());
    }
}
