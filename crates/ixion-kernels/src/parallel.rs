//! Sharing work among threads.
//!
//! A kernel runs on several threads only if it is called from within [`Threads::install`], and then on those threads:
//! they are the current pool. Work is split into pieces, and no element's arithmetic depends on where the splits are or
//! which thread computes a piece: results have the same bits on any number of threads.

mod threads;

use std::ops::Range;
use std::sync::Mutex;
pub use threads::Threads;

/// The number of threads that share the work of a kernel that is called here: those of the enclosing
/// [`Threads::install`], or one.
///
/// ```
/// use ixion_kernels::parallel::{Threads, threads};
/// assert_eq!(threads(), 1);
/// assert_eq!(Threads::new(2)?.install(threads), 2);
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn threads() -> usize {
    threads::around()
}

/// Calls `work` with all numbers below `count`.
///
/// # Errors
/// Returns the error of a call that failed; other calls may or may not have been made.
pub fn for_each_number<E: Send>(
    count: usize,
    work: &(impl Fn(usize) -> Result<(), E> + Sync),
) -> Result<(), E> {
    for_each_range(count, &|range| {
        for number in range {
            work(number)?;
        }
        Ok(())
    })
}

/// Work on a range of numbers. It is not generic, so that the code that shares it is compiled once for all kernels.
type RangeWork<'a, E> = dyn Fn(Range<usize>) -> Result<(), E> + Sync + 'a;

/// Calls `work` with consecutive ranges of numbers, until all numbers below `count` are covered.
fn for_each_range<E: Send>(count: usize, work: &RangeWork<'_, E>) -> Result<(), E> {
    if count <= 1 || threads() == 1 {
        return work(0..count);
    }
    let failed = Mutex::new(None);
    threads::share(count, &|range| {
        if let Err(error) = work(range)
            && let Ok(mut failed) = failed.lock()
        {
            failed.get_or_insert(error);
        }
    });
    failed.into_inner().ok().flatten().map_or(Ok(()), Err)
}

/// Calls `work` with each of the items, which threads take one after another. There are at most as many threads as the iterator
/// knows that it has items.
///
/// # Errors
/// Returns the error of an item that failed; other items may or may not have been processed.
pub fn for_each_item<T: Send, E: Send>(
    items: impl IntoIterator<Item = T, IntoIter: Send>,
    work: &(impl Fn(T) -> Result<(), E> + Sync),
) -> Result<(), E> {
    let items = items.into_iter();
    let takers = threads().min(items.size_hint().0).max(1);
    let items = Mutex::new(items);
    let next = || items.lock().ok()?.next();
    for_each_range(takers, &|_| {
        while let Some(item) = next() {
            work(item)?;
        }
        Ok(())
    })
}

/// A pointer to the first element of a slice that is split into chunks.
struct First<T>(*mut T);

// SAFETY: it points to a slice that is borrowed mutably; each of its elements is used by one thread.
unsafe impl<T: Send> Sync for First<T> {}

impl<T> First<T> {
    /// The `len` elements from `start` on.
    ///
    /// # Safety
    /// They must be within the slice, and nothing else may use them.
    #[allow(clippy::mut_from_ref, reason = "each element is handed out once")]
    unsafe fn chunk(&self, start: usize, len: usize) -> &mut [T] {
        // SAFETY: the caller's promise.
        unsafe { std::slice::from_raw_parts_mut(self.0.add(start), len) }
    }
}

/// Calls `work` with chunks of `chunk` elements, the last of which may be shorter, and with the position at which each
/// begins.
///
/// # Errors
/// Returns the error of a chunk that failed; other chunks may or may not have been computed.
pub fn for_each_chunk<T: Send, E: Send>(
    data: &mut [T],
    chunk: usize,
    work: &(impl Fn(usize, &mut [T]) -> Result<(), E> + Sync),
) -> Result<(), E> {
    let chunk = chunk.max(1);
    let (len, first) = (data.len(), First(data.as_mut_ptr()));
    for_each_number(len.div_ceil(chunk), &|number| {
        let start = number * chunk;
        // SAFETY: `number` is below the number of chunks, and each number is passed once.
        work(start, unsafe { first.chunk(start, chunk.min(len - start)) })
    })
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use ixion_tensor::LimitError;
    use proptest::prelude::*;

    /// The results of `work` on one thread outside of a pool, and on pools of the given numbers of threads.
    pub(crate) fn on_threads<R: Send>(counts: &[usize], work: impl Fn() -> R + Sync) -> (R, Vec<R>) {
        let pooled = counts.iter().map(|&threads| Threads::new(threads).unwrap().install(&work));
        let pooled = pooled.collect();
        (work(), pooled)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(40))]
        #[test]
        fn every_element_is_visited_once_with_its_position(len in 0usize..70, chunk in 0usize..9) {
            let work = || {
                let mut data = vec![0usize; len];
                for_each_chunk::<_, LimitError>(&mut data, chunk, &|start, part| {
                    assert!(part.len() <= chunk.max(1) && start % chunk.max(1) == 0);
                    part.iter_mut().enumerate().for_each(|(i, x)| *x += start + i + 1);
                    Ok(())
                })
                .unwrap();
                data
            };
            let want: Vec<usize> = (1..=len).collect();
            let (alone, pooled) = on_threads(&[1, 3], work);
            prop_assert!(alone == want && pooled.iter().all(|data| *data == want));
        }
    }

    #[test]
    fn an_error_of_any_chunk_is_returned() {
        let fail =
            || for_each_chunk(&mut [0; 20], 2, &|start, _| if start == 14 { Err(start) } else { Ok(()) });
        let (alone, pooled) = on_threads(&[2], fail);
        assert!(alone == Err(14) && pooled[0] == Err(14));
    }

    #[test]
    fn items_are_handed_out_once() {
        let work = || {
            let seen = Mutex::new(Vec::new());
            let all = (0..30).map(Box::new);
            for_each_item(all, &|item| (*item < 100).then(|| seen.lock().unwrap().push(*item)).ok_or(()))
                .unwrap();
            let mut seen = seen.into_inner().unwrap();
            seen.sort_unstable();
            seen
        };
        let (alone, pooled) = on_threads(&[1, 3], work);
        assert!(alone == (0..30).collect::<Vec<_>>() && pooled.iter().all(|seen| *seen == alone));
    }

    #[test]
    fn an_error_of_any_item_is_returned() {
        let fail = || for_each_item(0..20, &|item| if item == 14 { Err(item) } else { Ok(()) });
        let (alone, pooled) = on_threads(&[2], fail);
        assert!(alone == Err(14) && pooled[0] == Err(14));
    }

    #[test]
    fn threads_are_those_of_the_pool() {
        assert_eq!(on_threads(&[1, 2, 3], threads), (1, vec![1, 2, 3]));
    }
}
