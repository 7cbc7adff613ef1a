//! Structs and constants shared by Rust and C: declared once, in Rust; the C header is generated from them.

use std::ffi::{c_char, c_void};

/// A type with a counterpart in C.
pub(super) trait CType {
    /// The C declaration of `name` with this type.
    fn declare(name: &str) -> String;

    /// The C declaration of `name` with this type, as const.
    fn constant(name: &str) -> String;
}

/// Implements [`CType`] for types that have a name in C.
macro_rules! named {
    ($($type:ty = $name:expr),* $(,)?) => {$(
        impl $crate::plugin::declare::CType for $type {
            fn declare(name: &str) -> String {
                format!("{} {name}", $name)
            }

            fn constant(name: &str) -> String {
                format!("const {} {name}", $name)
            }
        }
    )*};
}
pub(super) use named;

named! {
    i32 = "int32_t", u32 = "uint32_t", i64 = "int64_t", f32 = "float", f64 = "double",
    usize = "size_t", c_char = "char", c_void = "void", () = "void",
}

impl<T: CType> CType for *const T {
    fn declare(name: &str) -> String {
        T::constant(&format!("*{name}"))
    }

    fn constant(name: &str) -> String {
        Self::declare(&format!("const {name}"))
    }
}

impl<T: CType> CType for *mut T {
    fn declare(name: &str) -> String {
        T::declare(&format!("*{name}"))
    }

    fn constant(name: &str) -> String {
        Self::declare(&format!("const {name}"))
    }
}

impl<T: CType, const N: usize> CType for [T; N] {
    fn declare(name: &str) -> String {
        T::declare(&format!("{name}[{N}]"))
    }

    fn constant(name: &str) -> String {
        T::constant(&format!("{name}[{N}]"))
    }
}

/// A struct as C sees it.
#[derive(Debug)]
pub struct Struct {
    /// Its name in C.
    pub name: &'static str,
    /// Its description.
    pub doc: &'static str,
    /// Its size in bytes, in Rust.
    pub size: usize,
    /// Its members, in order.
    pub members: Vec<Member>,
}

/// A member of a [`Struct`].
#[derive(Debug)]
pub struct Member {
    /// Its name, in Rust and in C.
    pub name: &'static str,
    /// Its description.
    pub doc: &'static str,
    /// Its offset in bytes, in Rust.
    pub offset: usize,
    /// Its declaration in C.
    pub declaration: String,
}

/// A named constant in C.
#[derive(Debug)]
pub struct Constant {
    /// Its name in C.
    pub name: String,
    /// Its description.
    pub doc: &'static str,
    /// Its value.
    pub value: i64,
}

/// The C declaration of a function pointer.
pub(super) fn function(name: &str, result: &str, arguments: &[String]) -> String {
    format!("{}(*{name})({})", result, arguments.join(", "))
}

/// Declares structs for both languages. A member is `name: type`, or `name = fn(argument: type, …) -> type` for a function
/// pointer, which may be null.
macro_rules! structs {
    ($(
        $(#[doc = $doc:literal])+
        struct $name:ident as $c:literal {
            $(
                $(#[doc = $field_doc:literal])+
                $field:ident $(: $type:ty)? $(= fn($($arg:ident: $arg_type:ty),* $(,)?) -> $ret:ty)?
            ),+ $(,)?
        }
    )+) => {
        $(
            $(#[doc = $doc])+
            #[repr(C)]
            #[derive(Debug, Clone, Copy)]
            pub struct $name {
                $($(#[doc = $field_doc])+ pub $field: structs!(@type $($type)? $(($($arg_type),*) -> $ret)?),)+
            }

            $crate::plugin::declare::named!($name = $c);
        )+

        /// All structs, in the order in which C must declare them.
        pub fn structs() -> Vec<$crate::plugin::declare::Struct> {
            use $crate::plugin::declare::{Member, Struct};
            vec![$(Struct {
                name: $c,
                doc: concat!($($doc, "\n"),+),
                size: size_of::<$name>(),
                members: vec![$(Member {
                    name: stringify!($field),
                    doc: concat!($($field_doc, "\n"),+),
                    offset: std::mem::offset_of!($name, $field),
                    declaration: structs!(
                        @declare $field $($type)? $(($($arg: $arg_type),*) -> $ret)?
                    ),
                }),+],
            }),+]
        }
    };
    (@type ($($arg:ty),*) -> $ret:ty) => { Option<unsafe extern "C" fn($($arg),*) -> $ret> };
    (@type $type:ty) => { $type };
    (@declare $field:ident ($($arg:ident: $arg_type:ty),*) -> $ret:ty) => {{
        use $crate::plugin::declare::{CType, function};
        let arguments = [$(<$arg_type as CType>::declare(stringify!($arg))),*];
        function(stringify!($field), &<$ret as CType>::declare(""), &arguments)
    }};
    (@declare $field:ident $type:ty) => {
        <$type as $crate::plugin::declare::CType>::declare(stringify!($field))
    };
}
pub(super) use structs;

/// Declares constants for both languages: `NAME: type = value` is `IXION_NAME` in C.
macro_rules! constants {
    ($($(#[doc = $doc:literal])+ $name:ident: $type:ty = $value:expr;)+) => {
        $($(#[doc = $doc])+ pub const $name: $type = $value;)+

        /// All constants, in order.
        pub fn constants() -> Vec<$crate::plugin::declare::Constant> {
            vec![$($crate::plugin::declare::Constant {
                name: concat!("IXION_", stringify!($name)).to_owned(),
                doc: concat!($($doc, "\n"),+),
                value: i64::from($value),
            }),+]
        }
    };
}
pub(super) use constants;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pointers_are_declared_as_c_reads_them() {
        assert_eq!(<*const *const i32>::declare("x"), "const int32_t *const *x");
        assert_eq!(<*mut *mut c_void>::declare("layer"), "void **layer");
        assert_eq!(<*const *mut f32>::declare("x"), "float *const *x");
        assert_eq!(<[i64; 8]>::declare("dims"), "int64_t dims[8]");
    }
}
