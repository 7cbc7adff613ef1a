//! What a layer keeps from one run to the next, so that runs on the same shapes need not make it again.

use crate::graph::{FieldValue, LayerError, NO_KEY, OperatorReader};

/// Something that was made for a key, such as the shapes of the inputs; made anew when the key changes.
#[derive(Debug, Clone)]
pub(super) struct Kept<K, V>(Option<(K, V)>);

impl<K, V> Default for Kept<K, V> {
    fn default() -> Self {
        Self(None)
    }
}

impl<K: PartialEq, V> Kept<K, V> {
    /// What was made for this key.
    ///
    /// # Errors
    /// Those of `make`; nothing is kept then.
    pub(super) fn of(
        &mut self,
        key: K,
        make: impl FnOnce(&K) -> Result<V, LayerError>,
    ) -> Result<&V, LayerError> {
        if self.0.as_ref().is_none_or(|kept| kept.0 != key) {
            self.0 = None;
            let made = make(&key)?;
            return Ok(&self.0.insert((key, made)).1);
        }
        let nothing = || LayerError::Unsupported("nothing was kept".to_owned());
        self.0.as_ref().map(|kept| &kept.1).ok_or_else(nothing)
    }
}

/// Declares a field of a layer that is [`Kept`]. It is no parameter: no file has it.
macro_rules! kept_field {
    ($(#[doc = $doc:literal])* pub struct $name:ident: $key:ty => $value:ty;) => {
        $(#[doc = $doc])*
        #[derive(Debug, Clone, Default)]
        pub struct $name($crate::layers::kept::Kept<$key, $value>);

        impl $crate::graph::FieldValue for $name {
            const KIND: &'static str = $crate::graph::NO_KEY;

            fn read(
                _: &mut $crate::graph::OperatorReader<'_>,
                _: &'static str,
            ) -> Result<Option<Self>, $crate::graph::LayerError> {
                Ok(Some(Self::default()))
            }
        }
    };
}

pub(super) use kept_field;

/// Room for indices, kept so that a run need not ask for it again. It is no parameter: no file has it.
#[derive(Debug, Clone, Default)]
pub struct Places(pub(super) Vec<usize>);

impl FieldValue for Places {
    const KIND: &'static str = NO_KEY;

    fn read(_: &mut OperatorReader<'_>, _: &'static str) -> Result<Option<Self>, LayerError> {
        Ok(Some(Self::default()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_made_once_for_each_key() {
        let (mut kept, mut made) = (Kept::<usize, String>::default(), 0);
        for key in [3, 3, 4, 4, 3] {
            let text = kept.of(key, |key| {
                made += 1;
                Ok(key.to_string())
            });
            assert_eq!(*text.unwrap(), key.to_string());
        }
        assert_eq!(made, 3);
        assert!(kept.of(5, |_| Err(LayerError::Unsupported("no".to_owned()))).is_err());
        assert_eq!(kept.of(3, |_| Ok("new".to_owned())).unwrap(), "new");
    }
}
