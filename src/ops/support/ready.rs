//! What layers prepared for their last run, and may use again.

use crate::op::{FieldValue, LayerError, NO_KEY, OperatorReader};

/// What a layer made for the shapes of its last run, so that the next run of the same shapes allocates nothing.
///
/// It is no key of a file. A clone begins with nothing, for it may run beside the original.
#[derive(Debug)]
pub struct Ready<T>(Option<T>);

impl<T> Ready<T> {
    /// What was prepared if it `fits`, else what `make` makes, which is kept from now on.
    ///
    /// # Errors
    /// Those of `make`.
    pub fn get_or_make(
        &mut self,
        fits: impl FnOnce(&T) -> bool,
        make: impl FnOnce() -> Result<T, LayerError>,
    ) -> Result<&mut T, LayerError> {
        let known = self.0.take().filter(fits);
        let kept = match known {
            Some(kept) => kept,
            None => make()?,
        };
        Ok(self.0.insert(kept))
    }

    /// What is kept, taken out while the layer works with it.
    #[must_use]
    pub fn take(&mut self) -> Self {
        std::mem::take(self)
    }

    /// What is kept.
    pub fn get(&self) -> Option<&T> {
        self.0.as_ref()
    }
}

impl<K: PartialEq, V> Ready<(K, V)> {
    /// What was made for this key, such as the shapes of the inputs.
    ///
    /// # Errors
    /// Those of `make`; nothing is kept then.
    pub fn of(
        &mut self,
        key: K,
        make: impl FnOnce(&K) -> Result<V, LayerError>,
    ) -> Result<&mut V, LayerError> {
        let kept = match self.0.take().filter(|kept| kept.0 == key) {
            Some(kept) => kept,
            None => {
                let made = make(&key)?;
                (key, made)
            }
        };
        Ok(&mut self.0.insert(kept).1)
    }
}

impl<T> Default for Ready<T> {
    fn default() -> Self {
        Self(None)
    }
}

impl<T> Clone for Ready<T> {
    fn clone(&self) -> Self {
        Self::default()
    }
}

impl<T> FieldValue for Ready<T> {
    const KIND: &'static str = NO_KEY;

    fn read(_: &mut OperatorReader<'_>, _: &'static str) -> Result<Option<Self>, LayerError> {
        Ok(Some(Self::default()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_made_once_for_what_fits() {
        let mut kept = Ready::default();
        for (wanted, is_made) in [(3, true), (3, false), (4, true)] {
            let mut made = false;
            let got = kept.get_or_make(
                |&kept| kept == wanted,
                || {
                    made = true;
                    Ok(wanted)
                },
            );
            assert_eq!((*got.unwrap(), made), (wanted, is_made));
        }
        let refuse = || Err(LayerError::Unsupported(String::new()));
        assert!(kept.clone().get().is_none());
        assert!(kept.get_or_make(|_| false, refuse).is_err() && kept.get().is_none());
    }

    #[test]
    fn it_is_made_once_for_each_key() {
        let (mut kept, mut made) = (Ready::<(usize, String)>::default(), 0);
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
