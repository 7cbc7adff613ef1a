//! `cargo xtask api`: lists the public API of the library, with all its features.
//!
//! There is a line for each item, field, variant and method that the documentation of `ixion` shows, at the path where users
//! find it: what is public, reached from the root of the crate through `pub mod` and `pub use`, also in the workspace's other
//! crates, and not `#[doc(hidden)]`. Of several paths, the shortest has the lines, and the others refer to it.
//!
//! Macros are not expanded: for items that a macro makes, its call is listed, and traits that a macro implements are missing.

mod lines;
mod source;
mod text;

use crate::trouble::Result;
use source::{
    Import, Module, Sources, Target, attributes, child, head, imports, is_hidden, is_public, name_of,
};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use syn::{Item, ItemImpl, ItemMacro, Type, TypeParamBound};
use text::{tidy, without_docs};

/// The file with the listing; a test compares it.
pub const FILE: &str = "tests/api.txt";

/// Lists the API of the library in a repository, a line for each item.
pub fn list(root: &Path) -> Result<String> {
    let sources = Sources::read(root)?;
    let mut api = Api { sources: &sources, found: BTreeMap::new(), lines: BTreeSet::new(), open: Vec::new() };
    api.walk(&["ixion".to_owned()], "ixion");
    let lines = api.finish();
    Ok(lines.into_iter().map(|line| line + "\n").collect())
}

/// An item by its address.
type Key = *const Item;

/// An item, and the paths where users find it.
struct Found<'a> {
    item: &'a Item,
    paths: BTreeSet<String>,
}

/// The API as far as it is known.
struct Api<'a> {
    sources: &'a Sources,
    found: BTreeMap<Key, Found<'a>>,
    /// The lines of everything but `found`.
    lines: BTreeSet<String>,
    /// The modules that are being walked through, one in the other.
    open: Vec<Module>,
}

impl<'a> Api<'a> {
    /// Collects what users find in a module at `path`.
    fn walk(&mut self, module: &[String], path: &str) {
        if self.open.iter().any(|open| open == module) {
            return;
        }
        self.open.push(module.to_vec());
        let sources = self.sources;
        for item in sources.items(module).iter().filter(|item| !is_hidden(attributes(item))) {
            match item {
                Item::Use(it) if is_public(&it.vis) => {
                    imports(&it.tree).iter().for_each(|import| self.import(module, import, path));
                }
                Item::Macro(it) if it.ident.is_none() => {
                    self.lines.insert(format!("{path} {}", call(it)));
                }
                Item::Mod(it) => {
                    self.show(Target::Module(child(module, &it.ident.to_string())), path, &it.ident)
                }
                _ => {
                    if let Some((_, name)) = head(item) {
                        self.show(Target::Item(item), path, name);
                    }
                }
            }
        }
        if let [root] = module {
            for item in sources.exported_macros(root).filter(|item| !is_hidden(attributes(item))) {
                if let Some(name) = name_of(item) {
                    self.show(Target::Item(item), path, name);
                }
            }
        }
        self.open.pop();
    }

    /// Collects what a public `use` in a module gives users at `path`.
    fn import(&mut self, module: &[String], import: &Import, path: &str) {
        let sources = self.sources;
        for target in sources.resolve(module, &import.path) {
            match (&import.name, target) {
                (Some(name), target) => self.show(target, path, name),
                (None, Target::Module(inner)) => self.walk(&inner, path),
                (None, Target::Foreign(from)) => {
                    self.lines.insert(format!("{path}::* = {from}::*"));
                }
                (None, _) => {}
            }
        }
    }

    /// Adds what users find under a name at `path`, if it is public.
    fn show(&mut self, target: Target<'a>, path: &str, name: impl std::fmt::Display) {
        let path = format!("{path}::{name}");
        match target {
            Target::Module(module) if self.sources.is_public(&module) => {
                self.lines.insert(format!("{path} mod"));
                self.walk(&module, &path);
            }
            Target::Item(item) if head(item).is_none_or(|(visibility, _)| is_public(visibility)) => {
                let found = self.found.entry(std::ptr::from_ref(item));
                found.or_insert_with(|| Found { item, paths: BTreeSet::new() }).paths.insert(path);
            }
            Target::Module(_) | Target::Item(_) => {}
            Target::Made(module, name) => {
                let calls = self.calls(&module, &name);
                self.lines.insert(format!("{path} {calls}"));
            }
            Target::Foreign(from) => {
                self.lines.insert(format!("{path} = {from}"));
            }
        }
    }

    /// The macro calls of a module that make an item: its name is in the call or in the macro.
    fn calls(&self, module: &[String], name: &str) -> String {
        let macros = self.sources.items(module).iter().filter_map(|item| match item {
            Item::Macro(it) => Some(it),
            _ => None,
        });
        let macros: Vec<&ItemMacro> = macros.collect();
        let has_name = |it: &ItemMacro| {
            let text = it.mac.tokens.to_string();
            text.split(|c: char| !c.is_alphanumeric() && c != '_').any(|word| word == name)
        };
        let is_called = |made_by: &ItemMacro, call: &ItemMacro| {
            made_by.ident.as_ref().is_some_and(|ident| call.mac.path.is_ident(ident)) && has_name(made_by)
        };
        let calls = macros.iter().filter(|it| it.ident.is_none());
        let calls = calls.filter(|it| has_name(it) || macros.iter().any(|made_by| is_called(made_by, it)));
        calls.map(|it| call(it)).collect::<Vec<_>>().join(" ")
    }

    /// All lines.
    fn finish(self) -> BTreeSet<String> {
        let impls = self.impls();
        let mut lines = self.lines;
        for (key, Found { item, paths }) in &self.found {
            let depth = |path: &&String| path.matches("::").count();
            let Some(shortest) = paths.iter().min_by_key(depth) else { continue };
            let of_item = impls.get(key).map(Vec::as_slice).unwrap_or_default();
            lines.extend(lines::of_item(shortest, item, of_item));
            let others = paths.iter().filter(|path| *path != shortest);
            lines.extend(others.map(|path| format!("{path} = {shortest}")));
        }
        lines
    }

    /// The implementations for each item that was found, without those of traits that users do not see.
    fn impls(&self) -> BTreeMap<Key, Vec<&'a ItemImpl>> {
        let mut impls: BTreeMap<Key, Vec<&'a ItemImpl>> = BTreeMap::new();
        for (module, item) in self.sources.all() {
            let Item::Impl(it) = item else { continue };
            let Some(owner) = named(&it.self_ty).filter(|_| !is_hidden(&it.attrs)) else { continue };
            let is_seen = it.trait_.as_ref().is_none_or(|(_, path, _)| self.is_seen(module, path));
            for target in self.sources.resolve(module, &names(owner)) {
                if let Target::Item(owner) = target {
                    let key = std::ptr::from_ref(owner);
                    if is_seen && self.found.contains_key(&key) {
                        impls.entry(key).or_default().push(it);
                    }
                }
            }
        }
        impls
    }

    /// Returns true for a trait that is foreign or listed.
    fn is_seen(&self, module: &[String], path: &syn::Path) -> bool {
        let targets = self.sources.resolve(module, &names(path));
        targets.iter().all(|target| match target {
            Target::Item(item) => self.found.contains_key(&std::ptr::from_ref(*item)),
            _ => true,
        })
    }
}

/// A macro call in one line.
fn call(item: &ItemMacro) -> String {
    format!("{}! {{ {} }}", tidy(&item.mac.path), tidy(without_docs(item.mac.tokens.clone())))
}

/// The path of the type or trait object that is implemented.
fn named(owner: &Type) -> Option<&syn::Path> {
    match owner {
        Type::Path(it) => Some(&it.path),
        Type::TraitObject(it) => it.bounds.iter().find_map(|bound| match bound {
            TypeParamBound::Trait(it) => Some(&it.path),
            _ => None,
        }),
        _ => None,
    }
}

fn names(path: &syn::Path) -> Vec<String> {
    path.segments.iter().map(|segment| segment.ident.to_string()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files;
    use similar::TextDiff;

    #[test]
    fn the_listing_is_up_to_date() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let (file, listing) = (root.join(FILE), list(&root).unwrap());
        if std::env::var_os("IXION_WRITE").is_some() {
            files::write(&file, &listing).unwrap();
        }
        let committed = files::read(&file).unwrap_or_default();
        let changes = TextDiff::from_lines(&committed, &listing).unified_diff().context_radius(0).to_string();
        assert!(
            committed == listing,
            "the API differs from {FILE}; if it should, `IXION_WRITE=1 cargo test -p course api` updates it:\n{changes}"
        );
    }

    #[test]
    fn items_are_listed_where_users_find_them() {
        let folder = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| files::write(&folder.path().join(path), text).unwrap();
        write(
            "src/lib.rs",
            "mod inner;
            pub use inner::Size;
            pub use ixion_part as part;
            pub mod kept {
                pub use crate::inner::{Size, resize};
                #[doc(hidden)]
                pub fn hidden() {}
                #[cfg(not(feature = \"gpu\"))]
                pub fn without() {}
                pub(crate) fn within() {}
            }",
        );
        write(
            "src/inner.rs",
            "/// A size.
            #[derive(Debug, Clone)]
            pub struct Size { pub width: usize, height: usize }
            impl Size {
                pub const NONE: Size = Size { width: 0, height: 0 };
                pub fn new(mut width: usize, height: usize) -> Self { Self { width, height } }
                fn area(&self) -> usize { self.width * self.height }
            }
            impl From<usize> for Size { fn from(width: usize) -> Self { Self::new(width, 1) } }
            pub fn resize<T: Into<Size>>(to: T) -> Option<Size> { Some(to.into()) }",
        );
        write(
            "crates/ixion-part/src/lib.rs",
            "mod kind;
            pub use kind::Kind;
            pub trait Draw: Sized { fn draw(&self); fn twice(&self) { self.draw() } }
            #[macro_export]
            macro_rules! exported { () => {}; }",
        );
        write(
            "crates/ixion-part/src/kind.rs",
            "macro_rules! kinds { ($($name:ident),*) => { pub enum Kind { $($name),* } }; }
            kinds! { A, B }",
        );
        let listing = list(folder.path()).unwrap();
        let lines: Vec<&str> = listing.lines().collect();
        assert_eq!(
            lines,
            [
                "ixion::Size struct with private fields: Clone + Debug + From<usize>",
                "ixion::Size.width: usize",
                "ixion::Size::NONE const Size",
                "ixion::Size::new fn(width: usize, height: usize) -> Self",
                "ixion::kept mod",
                "ixion::kept::Size = ixion::Size",
                "ixion::kept::resize fn<T: Into<Size>>(to: T) -> Option<Size>",
                "ixion::part mod",
                "ixion::part::Draw trait: Sized",
                "ixion::part::Draw::draw fn(&self)",
                "ixion::part::Draw::twice fn(&self), provided",
                "ixion::part::Kind kinds! { A, B }",
                "ixion::part::exported macro",
            ]
        );
    }
}
