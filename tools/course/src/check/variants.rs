//! A separate workspace with three packages per lesson: as handed out, solved, and with all planted mistakes in one test
//! program.
//!
//! Tests are used in place, but for those of the mistakes: each is compiled with the tests of its task alone. Cargo builds
//! the dependencies once for all lessons.

use super::Subject;
use crate::lesson::Wrong;
use crate::trouble::{Result, Trouble};
use crate::{files, libtest};
use quote::ToTokens;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use syn::{Item, ItemFn};
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
        let task_of = |mistake: &Mistake| subject.lesson.wrongs[mistake.index].task;
        let tests = folder.join("tests");
        for task in mistakes.iter().map(task_of).collect::<BTreeSet<_>>() {
            write_tests(&subject.lesson.folder.join("tests").join("tasks"), &tests, task)?;
        }
        let mut program = String::new();
        for mistake in mistakes {
            let (module, file) = (mistake.module(), folder.join(format!("{}.rs", mistake.module())));
            let tasks = tests.join(task_folder(task_of(mistake))).join("mod.rs");
            files::write(&file, &mistake.text)?;
            program.push_str(&format!(
                "mod {module} {{\n    #[path = {file:?}]\n    mod subject;\n    #[path = {tasks:?}]\n    mod tasks;\n}}\n"
            ));
        }
        files::write(&folder.join("wrong.rs"), &program).map(drop)
    }
}

/// The folder of the tests of a task.
fn task_folder(task: u32) -> String {
    format!("task{task}")
}

/// Copies the files in a folder of tests, without the tests of other tasks.
fn write_tests(from: &Path, to: &Path, task: u32) -> Result<()> {
    let is_source = |path: &PathBuf| path.extension().is_some_and(|end| end == "rs");
    for path in files::below(from).into_iter().filter(is_source) {
        let name = path.strip_prefix(from).unwrap_or(&path);
        let text = of_task(&files::read(&path)?, task).map_err(|error| Trouble::file(&path, error))?;
        files::write(&to.join(task_folder(task)).join(name), &text)?;
    }
    Ok(())
}

/// A file of tests with those of one task, and with all that is not a test.
fn of_task(text: &str, task: u32) -> syn::Result<String> {
    let mut file = syn::parse_file(text)?;
    keep_task(&mut file.items, task);
    Ok(file.into_token_stream().to_string())
}

fn keep_task(items: &mut Vec<Item>, task: u32) {
    let is_test = |function: &ItemFn| function.attrs.iter().any(|attr| attr.path().is_ident("test"));
    items.retain(|item| match item {
        Item::Fn(function) if is_test(function) => {
            libtest::task_of(&function.sig.ident.to_string()) == Some(task)
        }
        _ => true,
    });
    for item in items {
        let Item::Mod(module) = item else { continue };
        if let Some((_, items)) = &mut module.content {
            keep_task(items, task);
        }
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

    #[test]
    fn only_tests_of_the_task_stay() {
        let text = "//! All.\nuse a::b;\nfn help() {}\n#[test]\nfn task1_a() { help(); }\n\
            #[test]\n#[should_panic]\nfn task2_b() {}\n#[test]\nfn given_c() {}\n\
            mod more {\n#[test]\nfn task1_d() {}\n#[test]\nfn task12_e() {}\n}\n";
        let names = |task| {
            let kept = of_task(text, task).unwrap();
            let file = syn::parse_file(&kept).unwrap();
            assert!(kept.contains("help") && file.attrs.len() == 1, "{kept}");
            let found = ["task1_a", "task2_b", "given_c", "task1_d", "task12_e"];
            found.into_iter().filter(|name| kept.contains(name)).collect::<Vec<_>>()
        };
        assert_eq!(names(1), ["task1_a", "task1_d"]);
        assert_eq!(names(2), ["task2_b"]);
        assert_eq!(names(12), ["task12_e"]);
        assert_eq!(names(3), [""; 0]);
    }
}
