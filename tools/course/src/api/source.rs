//! The parsed modules of all crates, and what the paths in them mean.

use crate::files;
use crate::trouble::{Result, Trouble};
use quote::ToTokens;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use syn::punctuated::Punctuated;
use syn::{Attribute, Ident, Item, Meta, Token, UseTree, Visibility};

/// The path of a module; its first name is that of the crate.
pub(super) type Module = Vec<String>;

/// What a path leads to.
pub(super) enum Target<'a> {
    /// A module.
    Module(Module),
    /// An item.
    Item(&'a Item),
    /// A name in a module that has no such item: a macro makes it.
    Made(Module, String),
    /// The path of an item of another repository's crate.
    Foreign(String),
}

/// The items of all modules, without what is not built; see [`is_built`].
#[derive(Default)]
pub(super) struct Sources {
    modules: BTreeMap<Module, Vec<Item>>,
}

/// The names that are being looked up, so that a circle of imports ends.
type Open = BTreeSet<(Module, String)>;

/// A path of a `use` item, and the name that it gets; a glob has none.
pub(super) struct Import {
    pub(super) path: Vec<String>,
    pub(super) name: Option<String>,
}

impl Sources {
    /// Reads the library `ixion` of a repository, and the crates in its folder `crates`.
    pub(super) fn read(root: &Path) -> Result<Self> {
        let mut sources = Self::default();
        let folder = root.join("src");
        sources.read_file(vec!["ixion".to_owned()], &folder.join("lib.rs"), &folder)?;
        let crates = root.join("crates");
        for entry in fs::read_dir(&crates).map_err(|error| Trouble::file(&crates, error))?.flatten() {
            let name = entry.file_name().to_string_lossy().replace('-', "_");
            let folder = entry.path().join("src");
            sources.read_file(vec![name], &folder.join("lib.rs"), &folder)?;
        }
        Ok(sources)
    }

    /// Reads a file whose modules are in `folder`.
    fn read_file(&mut self, module: Module, file: &Path, folder: &Path) -> Result<()> {
        let text = files::read(file)?;
        let parsed = syn::parse_file(&text).map_err(|error| Trouble::file(file, error))?;
        self.add(module, parsed.items, folder)
    }

    fn add(&mut self, module: Module, items: Vec<Item>, folder: &Path) -> Result<()> {
        let mut kept = Vec::new();
        for mut item in items.into_iter().filter(|item| is_built(attributes(item))) {
            if let Item::Mod(inner) = &mut item {
                let name = inner.ident.to_string();
                let (path, beside) = (child(&module, &name), folder.join(&name));
                match inner.content.take() {
                    Some((_, items)) => self.add(path, items, &beside)?,
                    None => {
                        let file = folder.join(format!("{name}.rs"));
                        let file = if file.is_file() { file } else { beside.join("mod.rs") };
                        self.read_file(path, &file, &beside)?;
                    }
                }
            }
            kept.push(item);
        }
        self.modules.insert(module, kept);
        Ok(())
    }

    /// The items of a module.
    pub(super) fn items(&self, module: &[String]) -> &[Item] {
        self.modules.get(module).map(Vec::as_slice).unwrap_or_default()
    }

    /// All items with their modules.
    pub(super) fn all(&self) -> impl Iterator<Item = (&Module, &Item)> {
        self.modules.iter().flat_map(|(module, items)| items.iter().map(move |item| (module, item)))
    }

    /// The macros that a crate exports.
    pub(super) fn exported_macros(&self, name: &str) -> impl Iterator<Item = &Item> {
        let own = self.all().filter(move |(module, _)| module[0] == name).map(|(_, item)| item);
        own.filter(|item| attributes(item).iter().any(|it| it.path().is_ident("macro_export")))
    }

    /// Returns true for a crate, and for a module that is declared as public.
    pub(super) fn is_public(&self, module: &[String]) -> bool {
        let Some((name, above)) = module.split_last().filter(|(_, above)| !above.is_empty()) else {
            return true;
        };
        let is_it = |item: &Item| matches!(item, Item::Mod(it) if it.ident == name && is_public(&it.vis));
        self.items(above).iter().any(is_it)
    }

    /// What a path means in a module: more than one thing if, say, a function and a macro have the same name; nothing for names
    /// that are always in scope.
    pub(super) fn resolve(&self, module: &[String], path: &[String]) -> Vec<Target<'_>> {
        self.follow(module, path, &mut Open::new())
    }

    fn follow(&self, module: &[String], path: &[String], open: &mut Open) -> Vec<Target<'_>> {
        let (mut here, mut rest) = (module.to_vec(), path);
        while let Some((first, after)) = rest.split_first() {
            match first.as_str() {
                "crate" => here.truncate(1),
                "super" => {
                    here.pop();
                }
                "self" => {}
                _ => break,
            }
            rest = after;
        }
        // A path may begin with the name of a crate.
        if let [first, after @ ..] = rest {
            let root = vec![first.clone()];
            let is_crate = rest.len() == path.len() && self.modules.contains_key(&root);
            if is_crate && !self.modules.contains_key(&child(&here, first)) {
                (here, rest) = (root, after);
            }
        }
        let Some((last, inner)) = rest.split_last() else { return vec![Target::Module(here)] };
        for name in inner {
            match self.enter(&here, name, open) {
                Some(next) => here = next,
                None => return vec![Target::Foreign(path.join("::"))],
            }
        }
        let found = self.named(&here, last, open);
        if found.is_empty() && path.len() > 1 { vec![Target::Made(here, last.clone())] } else { found }
    }

    /// The module of this name in a module.
    fn enter(&self, module: &[String], name: &str, open: &mut Open) -> Option<Module> {
        let inner = child(module, name);
        if self.modules.contains_key(&inner) {
            return Some(inner);
        }
        self.named(module, name, open).into_iter().find_map(|target| match target {
            Target::Module(module) => Some(module),
            _ => None,
        })
    }

    /// What a name means in a module: what is declared there or imported by this name, else what globs import.
    fn named(&self, module: &[String], name: &str, open: &mut Open) -> Vec<Target<'_>> {
        let key = (module.to_vec(), name.to_owned());
        if !open.insert(key.clone()) {
            return Vec::new();
        }
        let mut found = self.declared(module, name);
        let mut globs = Vec::new();
        for item in self.items(module) {
            let Item::Use(item) = item else { continue };
            for import in imports(&item.tree) {
                match import.name {
                    Some(given) if given == name => found.extend(self.follow(module, &import.path, open)),
                    Some(_) => {}
                    None => globs.push(import.path),
                }
            }
        }
        if found.is_empty() {
            for target in globs.iter().flat_map(|path| self.follow(module, path, open)).collect::<Vec<_>>() {
                if let Target::Module(other) = target {
                    found.extend(self.named(&other, name, open));
                }
            }
        }
        open.remove(&key);
        found
    }

    fn declared(&self, module: &[String], name: &str) -> Vec<Target<'_>> {
        let inner = child(module, name);
        let inner = self.modules.contains_key(&inner).then_some(Target::Module(inner));
        let own = self.items(module).iter().filter(|item| !matches!(item, Item::Mod(_)));
        let exported = module.first().filter(|_| module.len() == 1);
        let exported = exported.into_iter().flat_map(|root| self.exported_macros(root));
        let items = own.chain(exported).filter(|item| name_of(item).is_some_and(|it| it == name));
        inner.into_iter().chain(items.map(Target::Item)).collect()
    }
}

/// The path of a module in a module.
pub(super) fn child(module: &[String], name: &str) -> Module {
    [module, &[name.to_owned()]].concat()
}

/// The paths of a `use` item.
pub(super) fn imports(tree: &UseTree) -> Vec<Import> {
    let one = |path: &Ident, name: &Ident| {
        let path = if path == "self" { Vec::new() } else { vec![path.to_string()] };
        vec![Import { path, name: Some(name.to_string()) }]
    };
    match tree {
        UseTree::Name(it) => one(&it.ident, &it.ident),
        UseTree::Rename(it) => one(&it.ident, &it.rename),
        UseTree::Glob(_) => vec![Import { path: Vec::new(), name: None }],
        UseTree::Group(it) => it.items.iter().flat_map(imports).collect(),
        UseTree::Path(it) => {
            let first = it.ident.to_string();
            let mut within = imports(&it.tree);
            for inner in &mut within {
                inner.path.insert(0, first.clone());
                if inner.name.as_deref() == Some("self") {
                    inner.name = Some(first.clone());
                }
            }
            within
        }
    }
}

/// Returns true for `pub` alone.
pub(super) fn is_public(visibility: &Visibility) -> bool {
    matches!(visibility, Visibility::Public(_))
}

/// The visibility and the name of an item that can have both.
pub(super) fn head(item: &Item) -> Option<(&Visibility, &Ident)> {
    match item {
        Item::Const(it) => Some((&it.vis, &it.ident)),
        Item::Enum(it) => Some((&it.vis, &it.ident)),
        Item::Fn(it) => Some((&it.vis, &it.sig.ident)),
        Item::Mod(it) => Some((&it.vis, &it.ident)),
        Item::Static(it) => Some((&it.vis, &it.ident)),
        Item::Struct(it) => Some((&it.vis, &it.ident)),
        Item::Trait(it) => Some((&it.vis, &it.ident)),
        Item::Type(it) => Some((&it.vis, &it.ident)),
        Item::Union(it) => Some((&it.vis, &it.ident)),
        _ => None,
    }
}

/// The name of an item, if it has one.
pub(super) fn name_of(item: &Item) -> Option<&Ident> {
    match item {
        Item::Macro(it) => it.ident.as_ref(),
        _ => head(item).map(|(_, name)| name),
    }
}

/// The attributes of an item.
pub(super) fn attributes(item: &Item) -> &[Attribute] {
    match item {
        Item::Const(it) => &it.attrs,
        Item::Enum(it) => &it.attrs,
        Item::Fn(it) => &it.attrs,
        Item::Impl(it) => &it.attrs,
        Item::Macro(it) => &it.attrs,
        Item::Mod(it) => &it.attrs,
        Item::Static(it) => &it.attrs,
        Item::Struct(it) => &it.attrs,
        Item::Trait(it) => &it.attrs,
        Item::Type(it) => &it.attrs,
        Item::Union(it) => &it.attrs,
        Item::Use(it) => &it.attrs,
        _ => &[],
    }
}

/// Returns true for `#[doc(hidden)]`.
pub(super) fn is_hidden(attributes: &[Attribute]) -> bool {
    let mut docs = attributes.iter().filter(|it| it.path().is_ident("doc"));
    docs.any(|it| it.parse_args::<Ident>().is_ok_and(|word| word == "hidden"))
}

/// Returns true for what is built with all features on 64-bit Linux, outside of tests.
pub(super) fn is_built(attributes: &[Attribute]) -> bool {
    let mut conditions = attributes.iter().filter(|it| it.path().is_ident("cfg"));
    conditions.all(|it| it.parse_args::<Meta>().is_ok_and(|condition| holds(&condition)))
}

fn holds(condition: &Meta) -> bool {
    match condition {
        Meta::Path(path) => path.is_ident("unix"),
        Meta::NameValue(pair) => {
            let value = pair.value.to_token_stream().to_string();
            let known = ["\"linux\"", "\"unix\"", "\"x86_64\"", "\"little\"", "\"64\""];
            pair.path.is_ident("feature") || known.contains(&value.as_str())
        }
        Meta::List(list) => {
            let parts = list.parse_args_with(Punctuated::<Meta, Token![,]>::parse_terminated);
            let parts: Vec<bool> = parts.iter().flatten().map(holds).collect();
            let is_all = parts.iter().all(|&part| part);
            match list.path.get_ident() {
                Some(name) if name == "not" => !is_all,
                Some(name) if name == "any" => parts.contains(&true),
                _ => is_all,
            }
        }
    }
}
