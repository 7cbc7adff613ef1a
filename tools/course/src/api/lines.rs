//! The lines of one item.

use super::source::{is_built, is_hidden, is_public};
use super::text::tidy;
use std::collections::BTreeSet;
use syn::punctuated::Punctuated;
use syn::{Attribute, Field, Fields, Generics, ImplItem, Item, ItemImpl, ItemTrait, Path, Signature, Token};
use syn::{TraitItem, Variant};

/// The lines of the item that users find at `path`: the item itself, and its public fields, variants and methods.
pub(super) fn of_item(path: &str, item: &Item, impls: &[&ItemImpl]) -> Vec<String> {
    let head = |kind: &str, attributes: &[Attribute], generics: &Generics, note: &str| {
        let closed = attributes.iter().any(|it| it.path().is_ident("non_exhaustive"));
        let closed = if closed { "non_exhaustive " } else { "" };
        let bounds = generics.where_clause.as_ref().map(|bounds| format!(" {}", tidy(bounds)));
        let bounds = bounds.unwrap_or_default();
        let traits = traits(attributes, impls);
        format!("{path} {closed}{kind}{}{bounds}{note}{traits}", tidy(generics))
    };
    match item {
        Item::Const(it) => vec![format!("{path} const {}", tidy(&it.ty))],
        Item::Static(it) => vec![format!("{path} static {}", tidy(&it.ty))],
        Item::Type(it) => vec![format!("{path} type{} = {}", tidy(&it.generics), tidy(&it.ty))],
        Item::Fn(it) => vec![function(path, &it.sig)],
        Item::Macro(_) => vec![format!("{path} macro")],
        Item::Trait(it) => of_trait(path, it),
        Item::Union(it) => vec![head("union", &it.attrs, &it.generics, "")],
        Item::Struct(it) => {
            let is_open = it.fields.iter().all(|field| is_public(&field.vis));
            let note = if is_open { "" } else { " with private fields" };
            let mut lines = vec![head("struct", &it.attrs, &it.generics, note)];
            let public = fields(&it.fields).filter(|(_, field)| is_public(&field.vis));
            lines.extend(public.map(|(name, field)| format!("{path}.{name}: {}", tidy(&field.ty))));
            lines.extend(methods(path, impls));
            lines
        }
        Item::Enum(it) => {
            let mut lines = vec![head("enum", &it.attrs, &it.generics, "")];
            let variants = it.variants.iter().filter(|it| is_shown(&it.attrs));
            lines.extend(variants.map(|it| format!("{path}::{}", variant(it))));
            lines.extend(methods(path, impls));
            lines
        }
        _ => Vec::new(),
    }
}

/// The trait of an implementation, such as `From<LimitError>`.
fn trait_name(implementation: &ItemImpl) -> Option<String> {
    let (_, path, _) = implementation.trait_.as_ref()?;
    path.segments.last().map(tidy)
}

/// The traits that a type derives or implements: `: Clone + Debug`.
fn traits(attributes: &[Attribute], impls: &[&ItemImpl]) -> String {
    let mut names: BTreeSet<String> = impls.iter().filter_map(|it| trait_name(it)).collect();
    for attribute in attributes.iter().filter(|it| it.path().is_ident("derive")) {
        let derived = attribute.parse_args_with(Punctuated::<Path, Token![,]>::parse_terminated);
        names.extend(derived.iter().flatten().filter_map(|path| path.segments.last()).map(tidy));
    }
    let names: Vec<String> = names.into_iter().collect();
    if names.is_empty() { String::new() } else { format!(": {}", names.join(" + ")) }
}

/// Fields by their name or position.
fn fields(fields: &Fields) -> impl Iterator<Item = (String, &Field)> {
    let shown = fields.iter().enumerate().filter(|(_, field)| is_shown(&field.attrs));
    shown.map(|(position, field)| {
        (field.ident.as_ref().map_or_else(|| position.to_string(), ToString::to_string), field)
    })
}

fn variant(variant: &Variant) -> String {
    let name = &variant.ident;
    let named = fields(&variant.fields).map(|(name, field)| format!("{name}: {}", tidy(&field.ty)));
    let types = fields(&variant.fields).map(|(_, field)| tidy(&field.ty));
    match &variant.fields {
        Fields::Unit => format!("{name} variant"),
        Fields::Named(_) => format!("{name} variant {{ {} }}", named.collect::<Vec<_>>().join(", ")),
        Fields::Unnamed(_) => format!("{name} variant({})", types.collect::<Vec<_>>().join(", ")),
    }
}

fn methods(path: &str, impls: &[&ItemImpl]) -> Vec<String> {
    let own = impls.iter().filter(|it| it.trait_.is_none());
    let lines = own.flat_map(|it| &it.items).filter_map(|item| match item {
        ImplItem::Fn(it) if is_public(&it.vis) && is_shown(&it.attrs) => {
            Some(function(&format!("{path}::{}", it.sig.ident), &it.sig))
        }
        ImplItem::Const(it) if is_public(&it.vis) && is_shown(&it.attrs) => {
            Some(format!("{path}::{} const {}", it.ident, tidy(&it.ty)))
        }
        _ => None,
    });
    lines.collect()
}

fn of_trait(path: &str, item: &ItemTrait) -> Vec<String> {
    let with_bounds = |bounds: String| if bounds.is_empty() { bounds } else { format!(": {bounds}") };
    let above = with_bounds(tidy(&item.supertraits));
    let mut lines = vec![format!("{path} trait{}{above}", tidy(&item.generics))];
    // Implementations may leave out what is provided.
    let provided = |is_provided: bool| if is_provided { ", provided" } else { "" };
    lines.extend(item.items.iter().filter_map(|item| match item {
        TraitItem::Fn(it) if is_shown(&it.attrs) => {
            let line = function(&format!("{path}::{}", it.sig.ident), &it.sig);
            Some(line + provided(it.default.is_some()))
        }
        TraitItem::Const(it) if is_shown(&it.attrs) => {
            let provided = provided(it.default.is_some());
            Some(format!("{path}::{} const {}{provided}", it.ident, tidy(&it.ty)))
        }
        TraitItem::Type(it) if is_shown(&it.attrs) => {
            Some(format!("{path}::{} type{}", it.ident, with_bounds(tidy(&it.bounds))))
        }
        _ => None,
    }));
    lines
}

fn function(path: &str, signature: &Signature) -> String {
    let name = format!("fn {}", signature.ident);
    let text = tidy(signature).replacen(&name, "fn", 1);
    // Whether a function changes its own copy of an argument is not part of the interface.
    format!("{path} {}", text.replace("(mut ", "(").replace(", mut ", ", "))
}

fn is_shown(attributes: &[Attribute]) -> bool {
    is_built(attributes) && !is_hidden(attributes)
}
