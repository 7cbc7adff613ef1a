//! Checks the links of the built book, without network access: each target file and fragment must exist.

use crate::files;
use crate::trouble::Result;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Component, Path, PathBuf};

/// The links of a built book.
#[derive(Debug, Default)]
pub struct Links {
    /// The number of pages read.
    pub pages: usize,
    /// The number of links followed.
    pub followed: usize,
    /// The broken links, one line each.
    pub broken: Vec<String>,
}

/// Checks all links between the HTML files of a folder.
pub fn check(folder: &Path) -> Result<Links> {
    let mut pages = BTreeMap::new();
    for path in
        files::below(folder).into_iter().filter(|path| path.extension().is_some_and(|end| end == "html"))
    {
        pages.insert(path.clone(), Html::read(&files::read(&path)?));
    }
    let mut links = Links { pages: pages.len(), ..Links::default() };
    for (path, page) in &pages {
        // The print page repeats the links of the other pages, and the error page links from the root.
        if ["print.html", "404.html"].iter().any(|name| path.ends_with(name)) {
            continue;
        }
        for link in &page.links {
            links.followed += 1;
            if let Err(why) = follow(folder, path, link, &pages) {
                let name = path.strip_prefix(folder).unwrap_or(path).display();
                links.broken.push(format!("{name}: {link}: {why}"));
            }
        }
    }
    Ok(links)
}

fn follow(
    folder: &Path,
    from: &Path,
    link: &str,
    pages: &BTreeMap<PathBuf, Html>,
) -> std::result::Result<(), String> {
    let (file, place) = link.split_once('#').map_or((link, None), |(file, place)| (file, Some(place)));
    let file = decoded(file.split('?').next().unwrap_or_default());
    let target = if file.is_empty() { from.to_path_buf() } else { joined(from, &file) };
    if !target.starts_with(folder) {
        return Err("it leads outside the book".to_owned());
    }
    let target = if target.is_dir() { target.join("index.html") } else { target };
    if !target.is_file() {
        return Err("no such file".to_owned());
    }
    let place = place.map(decoded).filter(|place| !place.is_empty());
    match (place, pages.get(&target)) {
        (Some(place), Some(page)) if !page.places.contains(&place) => {
            Err(format!("the page has no id '{place}'"))
        }
        _ => Ok(()),
    }
}

/// The path of a link, with `..` resolved.
fn joined(from: &Path, link: &str) -> PathBuf {
    let mut path = from.parent().unwrap_or(from).to_path_buf();
    for part in Path::new(link).components() {
        match part {
            Component::ParentDir => drop(path.pop()),
            Component::Normal(name) => path.push(name),
            _ => {}
        }
    }
    path
}

/// Decodes `%20` and similar escapes.
fn decoded(text: &str) -> String {
    let text = text.replace("&amp;", "&");
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let Some((&first, behind)) = rest.split_first() {
        let hex = behind.get(..2).and_then(|hex| std::str::from_utf8(hex).ok());
        match hex.and_then(|hex| u8::from_str_radix(hex, 16).ok()).filter(|_| first == b'%') {
            Some(byte) => {
                bytes.push(byte);
                rest = &behind[2..];
            }
            None => {
                bytes.push(first);
                rest = behind;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// The links of a page and the ids that can be linked to.
#[derive(Debug, Default)]
struct Html {
    links: BTreeSet<String>,
    places: BTreeSet<String>,
}

impl Html {
    fn read(text: &str) -> Self {
        let mut html = Self::default();
        let mut rest = text;
        while let Some(at) = rest.find('<') {
            rest = &rest[at + 1..];
            if let Some(behind) = rest.strip_prefix("!--") {
                rest = behind.split_once("-->").map_or("", |(_, behind)| behind);
                continue;
            }
            let script = rest.starts_with("script");
            let (tag, behind) = rest.split_once('>').unwrap_or((rest, ""));
            html.take(tag);
            // Skip scripts.
            rest =
                if script { behind.split_once("</script").map_or("", |(_, behind)| behind) } else { behind };
        }
        html
    }

    fn take(&mut self, tag: &str) {
        for (name, value) in attributes(tag) {
            let is_link = ["href", "src"].contains(&name);
            if is_link && !value.is_empty() && !is_elsewhere(value) {
                self.links.insert(value.to_owned());
            } else if ["id", "name"].contains(&name) {
                self.places.insert(value.replace("&amp;", "&"));
            }
        }
    }
}

/// Returns true if a link is external or does not refer to a file.
fn is_elsewhere(link: &str) -> bool {
    link.starts_with("//")
        || link.split_once(':').is_some_and(|(scheme, _)| scheme.chars().all(char::is_alphanumeric))
}

fn attributes(tag: &str) -> impl Iterator<Item = (&str, &str)> {
    let mut rest = tag;
    std::iter::from_fn(move || {
        let (name, behind) = rest.split_once('=')?;
        let quote = behind.chars().next().filter(|c| ['"', '\''].contains(c));
        let (value, behind) = match quote {
            Some(quote) => behind[1..].split_once(quote)?,
            None => behind.split_once(char::is_whitespace).unwrap_or((behind, "")),
        };
        rest = behind;
        Some((name.rsplit(char::is_whitespace).next().unwrap_or_default(), value))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_are_followed_to_files_and_places() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| {
            let path = folder.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        write(
            "index.html",
            "<a href=\"a/b.html#here\">b</a> <img src='p q.svg'><a href=https://x.org/y>y</a>",
        );
        write(
            "a/b.html",
            "<!-- <a href=\"no\"> --><h1 id=\"here\">b</h1><a href=\"../index.html\"></a><a href=\"#there\">t</a>",
        );
        write(
            "c.html",
            "<script>if (a < b) { x = '<a href=\"no.html\">'; }</script><a href=\"p%20q.svg\"></a><a href=\"../../x\"></a>",
        );
        write("p q.svg", "");
        let links = check(folder.path()).unwrap();
        assert_eq!((links.pages, links.followed), (3, 6));
        insta::assert_snapshot!(links.broken.join("\n"), @r"
        a/b.html: #there: the page has no id 'there'
        c.html: ../../x: it leads outside the book
        ");
    }
}
