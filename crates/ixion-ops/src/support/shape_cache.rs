//! A cache for data that depends on the input shapes of a layer.

use crate::op::{Result, state};

/// Data that a layer prepared for the shapes of its last run, so that the next run with the same shapes allocates nothing.
///
/// It is not a key of the file. A clone starts empty, because it may run concurrently with the original.
#[derive(Debug)]
pub struct ShapeCache<T>(Option<T>);

impl<T> ShapeCache<T> {
    /// Returns the cached value if it `fits`; else calls `make` and caches the result.
    ///
    /// # Errors
    /// The error of `make`; the cache is then empty.
    pub fn get_or_make(
        &mut self,
        fits: impl FnOnce(&T) -> bool,
        make: impl FnOnce() -> Result<T>,
    ) -> Result<&mut T> {
        let known = self.0.take().filter(fits);
        let kept = match known {
            Some(kept) => kept,
            None => make()?,
        };
        Ok(self.0.insert(kept))
    }

    /// Takes the cached value out, for as long as the layer works with it.
    #[must_use]
    pub fn take(&mut self) -> Self {
        std::mem::take(self)
    }

    /// The cached value.
    pub fn get(&self) -> Option<&T> {
        self.0.as_ref()
    }
}

impl<K: PartialEq, V> ShapeCache<(K, V)> {
    /// Returns the cached value if it was created for this key, such as the input shapes; else calls `make` and caches the
    /// result.
    ///
    /// # Errors
    /// The error of `make`; the cache is then empty.
    pub fn of(&mut self, key: K, make: impl FnOnce(&K) -> Result<V>) -> Result<&mut V> {
        let kept = match self.0.take().filter(|kept| kept.0 == key) {
            Some(kept) => kept,
            None => {
                let value = make(&key)?;
                (key, value)
            }
        };
        Ok(&mut self.0.insert(kept).1)
    }
}

impl<T> Default for ShapeCache<T> {
    fn default() -> Self {
        Self(None)
    }
}

impl<T> Clone for ShapeCache<T> {
    fn clone(&self) -> Self {
        Self::default()
    }
}

state! { [T] ShapeCache<T> }

#[cfg(test)]
mod tests {
    use super::*;
    use crate::op::LayerError;

    #[test]
    fn a_value_that_fits_is_reused() {
        let mut kept = ShapeCache::default();
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
    fn a_value_of_the_same_key_is_reused() {
        let (mut kept, mut made) = (ShapeCache::<(usize, String)>::default(), 0);
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
