//! The arguments of a function: a block of elements, or one value for all of them.

/// An argument of a function.
#[derive(Debug, Clone, Copy)]
pub(super) enum Operand<'a, T> {
    /// One element per element of the result.
    Block(&'a [T]),
    /// The same value for all elements.
    Uniform(T),
}

impl<T: Copy> Operand<'_, T> {
    /// Applies a function of one argument. The code uses loops instead of closures, because the body of a loop is inlined
    /// however long it is.
    #[inline(always)]
    pub(super) fn map<R: Copy>(self, out: &mut [R], function: impl Fn(T) -> R) {
        match self {
            Self::Block(block) => {
                for (out, &x) in out.iter_mut().zip(block) {
                    *out = function(x);
                }
            }
            Self::Uniform(x) => out.fill(function(x)),
        }
    }

    /// Applies a function of two arguments.
    #[inline(always)]
    pub(super) fn zip<R: Copy>(self, other: Self, out: &mut [R], function: impl Fn(T, T) -> R) {
        match (self, other) {
            (Self::Block(a), Self::Block(b)) => {
                for ((out, &a), &b) in out.iter_mut().zip(a).zip(b) {
                    *out = function(a, b);
                }
            }
            (Self::Block(a), Self::Uniform(b)) => {
                for (out, &a) in out.iter_mut().zip(a) {
                    *out = function(a, b);
                }
            }
            (Self::Uniform(a), Self::Block(b)) => {
                for (out, &b) in out.iter_mut().zip(b) {
                    *out = function(a, b);
                }
            }
            (Self::Uniform(a), Self::Uniform(b)) => out.fill(function(a, b)),
        }
    }

    /// Applies a function of the current output element and two arguments.
    #[inline(always)]
    pub(super) fn zip_onto<R: Copy>(self, other: Self, out: &mut [R], function: impl Fn(R, T, T) -> R) {
        match (self, other) {
            (Self::Block(a), Self::Block(b)) => {
                for ((out, &a), &b) in out.iter_mut().zip(a).zip(b) {
                    *out = function(*out, a, b);
                }
            }
            (Self::Block(a), Self::Uniform(b)) => {
                for (out, &a) in out.iter_mut().zip(a) {
                    *out = function(*out, a, b);
                }
            }
            (Self::Uniform(a), Self::Block(b)) => {
                for (out, &b) in out.iter_mut().zip(b) {
                    *out = function(*out, a, b);
                }
            }
            (Self::Uniform(a), Self::Uniform(b)) => {
                out.iter_mut().for_each(|out| *out = function(*out, a, b))
            }
        }
    }

    /// Returns true if a condition holds for any of the elements.
    #[inline(always)]
    pub(super) fn any(self, condition: impl Fn(T) -> bool) -> bool {
        match self {
            // Checks all elements without an early exit, which is vectorised.
            Self::Block(block) => block.iter().fold(false, |any, &x| any | condition(x)),
            Self::Uniform(x) => condition(x),
        }
    }
}
