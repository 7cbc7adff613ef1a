//! The arguments of a function: a block of elements, or one number for all of them.

/// An argument of a function.
#[derive(Debug, Clone, Copy)]
pub(super) enum Operand<'a, T> {
    /// One element for each of the result.
    Block(&'a [T]),
    /// The same number for all.
    Uniform(T),
}

impl<T: Copy> Operand<'_, T> {
    /// Writes a function of one argument. Loops and no closures: what stands in them is inlined, however long it is.
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

    /// Writes a function of two arguments.
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

    /// Writes a function of what stands there and two arguments.
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

    /// Whether a condition holds for one of the elements.
    #[inline(always)]
    pub(super) fn any(self, condition: impl Fn(T) -> bool) -> bool {
        match self {
            // Looks at all of them, which goes in vectors.
            Self::Block(block) => block.iter().fold(false, |any, &x| any | condition(x)),
            Self::Uniform(x) => condition(x),
        }
    }
}
