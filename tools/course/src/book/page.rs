//! One page of Markdown.

use crate::files;
use crate::trouble::Result;
use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};
use std::path::{Path, PathBuf};

/// A page.
#[derive(Debug, Clone)]
pub struct Page {
    /// The path of the file.
    pub path: PathBuf,
    /// Its Markdown.
    pub text: String,
}

/// A heading.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Heading {
    /// The level; 1 is the page's title.
    pub level: usize,
    /// The text without markup.
    pub text: String,
}

impl Page {
    /// Reads a page.
    pub fn read(path: &Path) -> Result<Self> {
        Ok(Self { path: path.to_path_buf(), text: files::read(path)? })
    }

    /// Parses the Markdown as mdBook does.
    fn events(&self) -> Parser<'_> {
        let options = Options::ENABLE_TABLES | Options::ENABLE_FOOTNOTES | Options::ENABLE_STRIKETHROUGH;
        Parser::new_ext(&self.text, options | Options::ENABLE_TASKLISTS | Options::ENABLE_HEADING_ATTRIBUTES)
    }

    /// Its headings, in order.
    pub fn headings(&self) -> Vec<Heading> {
        let mut headings: Vec<Heading> = Vec::new();
        let mut inside = false;
        for event in self.events() {
            match event {
                Event::Start(Tag::Heading { level, .. }) => {
                    headings.push(Heading { level: level as usize, text: String::new() });
                    inside = true;
                }
                Event::End(TagEnd::Heading(_)) => inside = false,
                Event::Text(text) | Event::Code(text) if inside => {
                    headings.last_mut().into_iter().for_each(|heading| heading.text.push_str(&text));
                }
                _ => {}
            }
        }
        headings
    }

    /// The number of words, not counting code blocks.
    pub fn words(&self) -> usize {
        let mut words = 0;
        let mut code = false;
        for event in self.events() {
            match event {
                Event::Start(Tag::CodeBlock(_)) => code = true,
                Event::End(TagEnd::CodeBlock) => code = false,
                Event::Text(text) | Event::Code(text) if !code => words += count(&text),
                _ => {}
            }
        }
        words
    }
}

fn count(text: &str) -> usize {
    text.split_whitespace().filter(|word| word.contains(char::is_alphanumeric)).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headings_and_words() {
        let text = "# A *small* `page`\n\nFour words are here — <b>not</b> more.\n\n```text\ncode is not\n```\n\n## Task 1: x\n";
        let page = Page { path: PathBuf::new(), text: text.to_owned() };
        let headings = page.headings();
        assert_eq!(headings[0], Heading { level: 1, text: "A small page".to_owned() });
        assert_eq!(headings[1], Heading { level: 2, text: "Task 1: x".to_owned() });
        assert_eq!(page.words(), 3 + 6 + 3);
    }
}
