//! A separate workspace with three packages per lesson: as handed out, solved, and with all planted mistakes in one test
//! program.
//!
//! Tests are used in place. Cargo builds the dependencies once for all lessons.

use super::Subject;
use crate::files;
use crate::lesson::Wrong;
use crate::trouble::{Result, Trouble};
use std::path::{Path, PathBuf};
use toml::{Table, Value};

/// A planted mistake and the solution that contains it.
#[derive(Debug, Clone)]
pub struct Mistake {
    /// The index in `lesson.toml`, counted from 0.
    pub index: usize,
    /// The solution with the mistake in it.
    pub text: String,
}

impl Mistake {
    /// The name of its module in the test program.
    pub fn module(&self) -> String {
        format!("wrong_{:02}", self.index + 1)
    }
}

/// Applies a planted mistake to the solution.
pub fn plant(solution: &str, wrong: &Wrong) -> Result<String> {
    let planted = |what: String| Trouble::new(format!("'{}': {what}", wrong.why));
    match solution.matches(&wrong.find).count() {
        _ if wrong.find.trim().is_empty() => Err(planted("`find` is empty".to_owned())),
        _ if wrong.find == wrong.put => Err(planted("`put` is the same as `find`".to_owned())),
        1 => Ok(solution.replacen(&wrong.find, &wrong.put, 1)),
        0 => Err(planted(format!("not found in the solution:\n{}", wrong.find))
            .next("`find` must match the solution exactly; see `cargo xtask lessons show N`.")),
        times => Err(planted(format!("occurs {times} times in the solution:\n{}", wrong.find))
            .next("Add lines to `find`, so that it occurs once.")),
    }
}

/// Writes the workspace into `folder`. Returns its manifest.
pub fn lay_out(root: &Path, folder: &Path, subjects: &[(&Subject, Vec<Mistake>)]) -> Result<PathBuf> {
    let mut members = Vec::new();
    for (subject, mistakes) in subjects {
        let package = subject.lesson.package();
        let parts = Parts::read(subject)?;
        for (kind, text) in [("starter", &subject.made.starter), ("solved", &subject.made.solution)] {
            let name = format!("{package}-{kind}");
            files::write(&folder.join(&name).join("src").join("lib.rs"), text)?;
            files::write(&folder.join(&name).join("Cargo.toml"), &parts.crate_manifest(subject, &name))?;
            members.push(name);
        }
        let name = format!("{package}-wrong");
        parts.write_mistakes(subject, &folder.join(&name), mistakes)?;
        files::write(&folder.join(&name).join("Cargo.toml"), &parts.mistakes_manifest(&name))?;
        members.push(name);
    }
    let manifest = folder.join("Cargo.toml");
    files::write(&manifest, &workspace_manifest(root, members)?)?;
    if let Ok(lock) = files::read(&root.join("Cargo.lock")) {
        files::write(&folder.join("Cargo.lock"), &lock)?;
    }
    Ok(manifest)
}

/// The manifest of the workspace. It has the repository's profiles, so that shared dependencies are built once.
fn workspace_manifest(root: &Path, members: Vec<String>) -> Result<String> {
    let path = root.join("Cargo.toml");
    let own: Table = files::read(&path)?.parse().map_err(|error| Trouble::file(&path, error))?;
    let mut workspace = Table::new();
    workspace.insert("resolver".into(), "3".into());
    workspace.insert("members".into(), Value::Array(members.into_iter().map(Value::from).collect()));
    let mut manifest = Table::new();
    manifest.insert("workspace".into(), workspace.into());
    for key in ["profile", "patch"] {
        manifest.extend(own.get(key).map(|value| (key.to_owned(), value.clone())));
    }
    Ok(manifest.to_string())
}

/// The parts of the lesson's manifest that the packages use.
struct Parts {
    shared: Table,
    lints: Option<Value>,
    edition: Value,
}

impl Parts {
    fn read(subject: &Subject) -> Result<Self> {
        let path = subject.lesson.folder.join("Cargo.toml");
        let own: Table = files::read(&path)?.parse().map_err(|error| Trouble::file(&path, error))?;
        let mut shared = Table::new();
        for key in ["dependencies", "dev-dependencies", "features"] {
            shared
                .extend(own.get(key).map(|value| (key.to_owned(), absolute(value, &subject.lesson.folder))));
        }
        let edition = own.get("package").and_then(|package| package.get("edition")).cloned();
        Ok(Self {
            shared,
            lints: own.get("lints").cloned(),
            edition: edition.unwrap_or_else(|| "2024".into()),
        })
    }

    fn manifest(&self, name: &str) -> Table {
        let mut package = Table::new();
        package.insert("name".into(), name.into());
        package.insert("version".into(), "0.0.0".into());
        package.insert("edition".into(), self.edition.clone());
        package.insert("publish".into(), false.into());
        package.insert("autotests".into(), false.into());
        let mut manifest = self.shared.clone();
        manifest.insert("package".into(), package.into());
        manifest
    }

    fn crate_manifest(&self, subject: &Subject, name: &str) -> String {
        let mut manifest = self.manifest(name);
        let mut library = Table::new();
        library.insert("name".into(), subject.lesson.package().into());
        library.insert("test".into(), false.into());
        library.insert("doctest".into(), false.into());
        manifest.insert("lib".into(), library.into());
        let chapter = subject.lesson.folder.join("tests").join("chapter.rs");
        manifest.insert("test".into(), test("chapter", &chapter));
        manifest.extend(self.lints.iter().map(|lints| ("lints".to_owned(), lints.clone())));
        manifest.to_string()
    }

    fn mistakes_manifest(&self, name: &str) -> String {
        let mut manifest = self.manifest(name);
        manifest.insert("test".into(), test("wrong", Path::new("wrong.rs")));
        let lints: Table =
            [("rust".to_owned(), Value::from(Table::from_iter([("warnings".into(), "allow".into())])))]
                .into_iter()
                .collect();
        manifest.insert("lints".into(), lints.into());
        manifest.to_string()
    }

    fn write_mistakes(&self, subject: &Subject, folder: &Path, mistakes: &[Mistake]) -> Result<()> {
        let tasks = subject.lesson.folder.join("tests").join("tasks").join("mod.rs");
        let mut program = String::new();
        for mistake in mistakes {
            let (module, file) = (mistake.module(), folder.join(format!("{}.rs", mistake.module())));
            files::write(&file, &mistake.text)?;
            program.push_str(&format!(
                "mod {module} {{\n    #[path = {file:?}]\n    mod subject;\n    #[path = {tasks:?}]\n    mod tasks;\n}}\n"
            ));
        }
        files::write(&folder.join("wrong.rs"), &program).map(drop)
    }
}

fn test(name: &str, path: &Path) -> Value {
    let mut test = Table::new();
    test.insert("name".into(), name.into());
    test.insert("path".into(), path.to_string_lossy().into_owned().into());
    Value::Array(vec![test.into()])
}

/// Dependencies with absolute paths.
fn absolute(dependencies: &Value, folder: &Path) -> Value {
    let mut dependencies = dependencies.clone();
    for (_, dependency) in dependencies.as_table_mut().into_iter().flatten() {
        let Some(path) = dependency.get_mut("path") else { continue };
        let joined = path.as_str().map(|text| folder.join(text).to_string_lossy().into_owned());
        joined.into_iter().for_each(|joined| *path = joined.into());
    }
    dependencies
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mistake_is_planted_once_or_not_at_all() {
        let wrong =
            |find: &str| Wrong { task: 1, why: "swapped".into(), find: find.into(), put: "b - a".into() };
        assert_eq!(plant("x = a - b;", &wrong("a - b")).unwrap(), "x = b - a;");
        assert!(plant("x = a - b;", &wrong("a + b")).unwrap_err().what.contains("not found"));
        assert!(plant("a - b; a - b;", &wrong("a - b")).unwrap_err().what.contains("2 times"));
        assert!(plant("", &wrong(" ")).unwrap_err().what.contains("empty"));
        assert!(plant("b - a", &wrong("b - a")).unwrap_err().what.contains("same"));
    }
}
