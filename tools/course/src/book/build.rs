//! `cargo xtask book build`: runs mdBook, and checks before and after it what mdBook does not check.

use super::{Book, formulas, links};
use crate::progress::Progress;
use crate::style;
use crate::trouble::{Result, Trouble};
use crate::workspace::Workspace;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The version of mdBook that the book is written for.
pub const MDBOOK: &str = "0.5.4";

/// Builds the book and returns a summary. Returns an error if anything is wrong.
pub fn build(workspace: &Workspace) -> Result<String> {
    check_source(workspace)?;
    let mdbook = find_mdbook(workspace)?;
    let shown = Progress::start("building the book");
    let output = run(workspace, &mdbook)?;
    shown.detail("following links");
    let links = links::check(&output)?;
    drop(shown);
    if !links.broken.is_empty() {
        let many = style::count(links.broken.len(), "broken link");
        return Err(Trouble::new(format!("the book has {many}:\n{}", links.broken.join("\n"))));
    }
    Ok(format!(
        "{}: {}, {} followed\n{}\n",
        style::good("The book is built"),
        style::count(links.pages, "page"),
        style::count(links.followed, "link"),
        style::code(output.join("index.html").display()),
    ))
}

/// The checks before mdBook runs.
fn check_source(workspace: &Workspace) -> Result<()> {
    let book = Book::read(&workspace.root)?;
    let mut wrong: Vec<String> = book.includes().into_iter().map(|trouble| trouble.to_string()).collect();
    wrong
        .extend(book.lost().into_iter().map(|page| format!("book/src/{page} is not in book/src/SUMMARY.md")));
    for (name, page) in book.pages() {
        let broken = formulas::render_page(&page.text).err();
        wrong.extend(broken.map(|trouble| format!("book/src/{name}: {trouble}")));
    }
    if wrong.is_empty() { Ok(()) } else { Err(Trouble::new(wrong.join("\n"))) }
}

/// Finds mdBook: the one in `target/tools`, or else the one on the path, if its version matches.
fn find_mdbook(workspace: &Workspace) -> Result<PathBuf> {
    let own = workspace.root.join("target").join("tools").join("bin").join("mdbook");
    let candidates =
        [std::env::var_os("MDBOOK").map(PathBuf::from), Some(own), Some(PathBuf::from("mdbook"))];
    let mut seen = None;
    for candidate in candidates.into_iter().flatten() {
        match version(&candidate) {
            Some(version) if series(&version) == series(MDBOOK) => return Ok(candidate),
            found => seen = seen.or(found),
        }
    }
    let what = match seen {
        Some(version) => format!("mdBook {version} is installed, but the book needs {MDBOOK}"),
        None => "mdBook is not installed".to_owned(),
    };
    Err(Trouble::new(what).next(format!(
        "Install it into this repository's target folder (some minutes), then run the command again:\n  \
         cargo install mdbook --locked --version {MDBOOK} --no-default-features --features search --root target/tools"
    )))
}

/// The version number after `mdbook v`.
fn version(mdbook: &Path) -> Option<String> {
    let output =
        Command::new(mdbook).arg("--version").output().ok().filter(|output| output.status.success())?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.split_whitespace().last().map(|version| version.trim_start_matches('v').to_owned())
}

/// The part of the version that must match: 0.5 of 0.5.4.
fn series(version: &str) -> Option<&str> {
    version.rsplit_once('.').map(|(series, _)| series)
}

/// Runs mdBook, with warnings as errors, and returns the path of the book.
fn run(workspace: &Workspace, mdbook: &Path) -> Result<PathBuf> {
    let output = workspace.root.join("target").join("book");
    let mut command = Command::new(mdbook);
    command.arg("build").arg(workspace.root.join("book")).arg("--dest-dir").arg(&output);
    // The preprocessor in book.toml is this program, which needn't be started through cargo.
    if let Ok(own) = std::env::current_exe() {
        let own = format!("{:?} book preprocess", own.to_string_lossy().replace('\\', "/"));
        command.env("MDBOOK_PREPROCESSOR__FORMULAS__COMMAND", own);
    }
    let said = command.output().map_err(|error| Trouble::new(format!("cannot run mdBook: {error}")))?;
    let text = format!("{}{}", String::from_utf8_lossy(&said.stdout), String::from_utf8_lossy(&said.stderr));
    let complaint =
        |line: &&str| ["WARN", "ERROR", "warning", "error"].iter().any(|word| line.contains(word));
    let complaints: Vec<&str> = text.lines().filter(complaint).collect();
    match said.status.success() && complaints.is_empty() {
        true => Ok(output),
        false => Err(Trouble::new(format!("mdBook reports errors or warnings:\n{}", text.trim()))),
    }
}
