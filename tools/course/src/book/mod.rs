//! The book: its pages and the checks on them.

pub mod build;
pub mod formulas;
pub mod includes;
pub mod links;
pub mod page;

use crate::files;
use crate::trouble::{Result, Trouble};
use page::Page;
use std::path::{Path, PathBuf};

/// The book of a repository.
#[derive(Debug, Clone)]
pub struct Book {
    /// The folder `book/src`.
    pub source: PathBuf,
    pages: Vec<(String, Page)>,
}

impl Book {
    /// Reads all pages.
    pub fn read(root: &Path) -> Result<Self> {
        let source = root.join("book").join("src");
        let mut pages = Vec::new();
        for path in
            files::below(&source).into_iter().filter(|path| path.extension().is_some_and(|end| end == "md"))
        {
            let name = path.strip_prefix(&source).unwrap_or(&path).to_string_lossy().replace('\\', "/");
            pages.push((name, Page::read(&path)?));
        }
        Ok(Self { source, pages })
    }

    /// A page by its path in `book/src`.
    pub fn page(&self, name: &str) -> Option<&Page> {
        self.pages.iter().find(|(page, _)| page == name).map(|(_, page)| page)
    }

    /// All pages with their paths in `book/src`.
    pub fn pages(&self) -> impl Iterator<Item = (&str, &Page)> {
        self.pages.iter().map(|(name, page)| (name.as_str(), page))
    }

    /// Returns true if the table of contents lists a page.
    pub fn lists(&self, name: &str) -> bool {
        let wanted = format!("({name})");
        self.page("SUMMARY.md").is_some_and(|summary| summary.text.replace("(./", "(").contains(&wanted))
    }

    /// Checks the includes of all pages and returns the errors.
    pub fn includes(&self) -> Vec<Trouble> {
        self.pages.iter().flat_map(|(name, page)| includes::check(&self.source, name, page)).collect()
    }

    /// The pages that the table of contents does not list.
    pub fn lost(&self) -> Vec<&str> {
        let names = self.pages.iter().map(|(name, _)| name.as_str());
        names.filter(|name| *name != "SUMMARY.md" && !self.lists(name)).collect()
    }
}
