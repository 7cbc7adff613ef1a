//! Element types: their names, sizes and codes.

use half::{bf16, f16};
use num_complex::Complex;
use std::fmt;

/// The type of a tensor's elements.
///
/// These are the 13 element types that PNNX writes. The short names (`f32`, `i64`, …) are those of the `.param`
/// text; [`DType::torch_name`] gives PyTorch's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum DType {
    /// 32-bit IEEE float, `torch.float`.
    F32,
    /// 64-bit IEEE float, `torch.double`.
    F64,
    /// 16-bit IEEE float, `torch.half`.
    F16,
    /// 16-bit brain float (8 exponent bits), `torch.bfloat16`.
    Bf16,
    /// 64-bit signed integer, `torch.long`.
    I64,
    /// 32-bit signed integer, `torch.int`.
    I32,
    /// 16-bit signed integer, `torch.short`.
    I16,
    /// 8-bit signed integer, `torch.int8`.
    I8,
    /// 8-bit unsigned integer, `torch.uint8`.
    U8,
    /// Truth value, one byte holding 0 or 1, `torch.bool`.
    Bool,
    /// Complex of two 16-bit floats, `torch.complex32`.
    C32,
    /// Complex of two 32-bit floats, `torch.complex64`.
    C64,
    /// Complex of two 64-bit floats, `torch.complex128`.
    C128,
}

impl DType {
    /// All element types, in the order of PNNX's documentation.
    pub const ALL: [DType; 13] = [
        DType::F32,
        DType::F64,
        DType::F16,
        DType::Bf16,
        DType::I64,
        DType::I32,
        DType::I16,
        DType::I8,
        DType::U8,
        DType::Bool,
        DType::C32,
        DType::C64,
        DType::C128,
    ];

    /// The name in PNNX's `.param` text, PyTorch's preferred name, the code in PNNX's C++ graph, and the size in bytes.
    #[inline]
    const fn row(self) -> (&'static str, &'static str, i32, usize) {
        match self {
            DType::F32 => ("f32", "torch.float", 1, 4),
            DType::F64 => ("f64", "torch.double", 2, 8),
            DType::F16 => ("f16", "torch.half", 3, 2),
            DType::Bf16 => ("bf16", "torch.bfloat16", 13, 2),
            DType::I64 => ("i64", "torch.long", 5, 8),
            DType::I32 => ("i32", "torch.int", 4, 4),
            DType::I16 => ("i16", "torch.short", 6, 2),
            DType::I8 => ("i8", "torch.int8", 7, 1),
            DType::U8 => ("u8", "torch.uint8", 8, 1),
            DType::Bool => ("bool", "torch.bool", 9, 1),
            DType::C32 => ("c32", "torch.complex32", 12, 4),
            DType::C64 => ("c64", "torch.complex64", 10, 8),
            DType::C128 => ("c128", "torch.complex128", 11, 16),
        }
    }

    /// Size of one element in bytes.
    #[inline]
    pub const fn size(self) -> usize {
        self.row().3
    }

    /// The name in PNNX's `.param` text, such as `f32`.
    pub const fn name(self) -> &'static str {
        self.row().0
    }

    /// The element type with a PNNX name, the inverse of [`DType::name`].
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|dtype| dtype.name() == name)
    }

    /// PyTorch's preferred name, as PNNX writes it in parameters, such as `torch.float`.
    pub const fn torch_name(self) -> &'static str {
        self.row().1
    }

    /// The element type with a PyTorch name, including PyTorch's aliases (`torch.float32` for `torch.float`, …).
    pub fn from_torch_name(name: &str) -> Option<Self> {
        let alias = match name {
            "torch.float32" => DType::F32,
            "torch.float64" => DType::F64,
            "torch.float16" => DType::F16,
            "torch.int64" => DType::I64,
            "torch.int32" => DType::I32,
            "torch.int16" => DType::I16,
            "torch.chalf" => DType::C32,
            "torch.cfloat" => DType::C64,
            "torch.cdouble" => DType::C128,
            _ => return Self::ALL.into_iter().find(|dtype| dtype.torch_name() == name),
        };
        Some(alias)
    }

    /// The code of this type in PNNX's C++ graph (1 to 13; 0 means unknown there).
    pub const fn pnnx_code(self) -> i32 {
        self.row().2
    }

    /// True for f16, bf16, f32 and f64.
    pub const fn is_float(self) -> bool {
        matches!(self, DType::F32 | DType::F64 | DType::F16 | DType::Bf16)
    }

    /// True for the signed and unsigned integers, not for bool.
    pub const fn is_integer(self) -> bool {
        matches!(self, DType::I64 | DType::I32 | DType::I16 | DType::I8 | DType::U8)
    }

    /// True for c32, c64 and c128.
    pub const fn is_complex(self) -> bool {
        matches!(self, DType::C32 | DType::C64 | DType::C128)
    }

    /// The type of the real and imaginary parts of a complex type; other types are returned unchanged.
    pub const fn real(self) -> Self {
        match self {
            DType::C32 => DType::F16,
            DType::C64 => DType::F32,
            DType::C128 => DType::F64,
            other => other,
        }
    }
}

impl fmt::Display for DType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

mod sealed {
    pub trait Sealed {}
}

/// A Rust type that a tensor can hold.
///
/// Sealed: the 13 implementations correspond to the 13 values of [`DType`]. All but `bool` accept every bit
/// pattern; code that fills a bool tensor must keep its bytes at 0 or 1.
pub trait Element:
    sealed::Sealed + Copy + Default + PartialEq + fmt::Debug + fmt::Display + Send + Sync + 'static
{
    /// The element type that this Rust type represents.
    const DTYPE: DType;
}

macro_rules! elements {
    ($($rust:ty => $dtype:ident),* $(,)?) => {$(
        impl sealed::Sealed for $rust {}
        impl Element for $rust {
            const DTYPE: DType = DType::$dtype;
        }
    )*};
}

elements! {
    f32 => F32, f64 => F64, f16 => F16, bf16 => Bf16,
    i64 => I64, i32 => I32, i16 => I16, i8 => I8, u8 => U8, bool => Bool,
    Complex<f16> => C32, Complex<f32> => C64, Complex<f64> => C128,
}

/// Runs an expression with `$T` bound to the Rust type of a [`DType`], for all 13 types, or for those of a list.
///
/// All 13 are for reading and printing only: arithmetic kernels are never instantiated 13 times. After a list, the `else` arm
/// handles the other types.
///
/// ```
/// use ixion_tensor::{DType, with_element};
/// let size = with_element!(DType::F64, T => std::mem::size_of::<T>());
/// assert_eq!(size, 8);
/// ```
#[macro_export]
#[doc(hidden)]
macro_rules! __with_type {
    ($dtype:expr, $T:ident => $body:expr) => {
        $crate::__with_type!(
            $dtype, $T => $body;
            F32 => f32, F64 => f64, F16 => $crate::f16, Bf16 => $crate::bf16,
            I64 => i64, I32 => i32, I16 => i16, I8 => i8, U8 => u8, Bool => bool,
            C32 => $crate::Complex<$crate::f16>,
            C64 => $crate::Complex<f32>, C128 => $crate::Complex<f64>
        )
    };
    ($dtype:expr, $T:ident => $body:expr; $($name:ident => $rust:ty),+ $(; else $found:ident => $other:expr)?) => {
        match $dtype {
            $($crate::DType::$name => {
                type $T = $rust;
                $body
            })+
            $($found => $other,)?
        }
    };
}

#[doc(inline)]
pub use __with_type as with_element;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_codes_are_distinct_and_reversible() {
        for dtype in DType::ALL {
            assert_eq!(DType::from_name(dtype.name()), Some(dtype));
            assert_eq!(DType::from_torch_name(dtype.torch_name()), Some(dtype));
            assert!((1..=13).contains(&dtype.pnnx_code()));
        }
        let mut codes: Vec<i32> = DType::ALL.iter().map(|dtype| dtype.pnnx_code()).collect();
        codes.sort_unstable();
        codes.dedup();
        assert_eq!(codes.len(), 13);
        assert_eq!(DType::from_name("null"), None);
    }

    #[test]
    fn rust_types_have_the_size_of_their_dtype() {
        for dtype in DType::ALL {
            let (size, tag) = with_element!(dtype, T => (std::mem::size_of::<T>(), <T as Element>::DTYPE));
            assert_eq!((size, tag), (dtype.size(), dtype));
        }
    }
}
