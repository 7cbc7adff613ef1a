//! Sharing work among threads.
//!
//! A kernel runs on several threads only where it is called from within a pool (`rayon::ThreadPool::install`), and then on
//! those of that pool. Work is cut in halves down to pieces of a size that does not depend on the number of threads, and
//! no element's arithmetic depends on where the cuts are: results have the same bits however many threads there are.

/// How many threads share the work of a kernel that is called here: those of the pool around it, or one.
///
/// ```
/// use ixion::kernels::parallel::threads;
/// assert_eq!(threads(), 1);
/// ```
pub fn threads() -> usize {
    // The first question makes no global pool where there is none.
    if rayon::current_thread_index().is_some() { rayon::current_num_threads() } else { 1 }
}

/// Calls `work` with chunks of `chunk` elements, the last of which may be shorter, and with the position at which each
/// begins.
///
/// # Errors
/// That of a chunk which failed; others may have been computed or not.
pub fn for_each_chunk<T: Send, E: Send>(
    data: &mut [T],
    chunk: usize,
    work: &(impl Fn(usize, &mut [T]) -> Result<(), E> + Sync),
) -> Result<(), E> {
    let chunk = chunk.max(1);
    if threads() > 1 {
        return halve(data, 0, chunk, work);
    }
    let mut chunks = data.chunks_mut(chunk).enumerate();
    chunks.try_for_each(|(index, data)| work(index * chunk, data))
}

fn halve<T: Send, E: Send>(
    data: &mut [T],
    start: usize,
    chunk: usize,
    work: &(impl Fn(usize, &mut [T]) -> Result<(), E> + Sync),
) -> Result<(), E> {
    let chunks = data.len().div_ceil(chunk);
    if chunks <= 1 {
        return if data.is_empty() { Ok(()) } else { work(start, data) };
    }
    let (left, right) = data.split_at_mut(chunks / 2 * chunk);
    let middle = start + left.len();
    let (left, right) = rayon::join(|| halve(left, start, chunk, work), || halve(right, middle, chunk, work));
    left.and(right)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::LimitError;
    use proptest::prelude::*;

    /// What `work` gives on one thread outside of a pool, and on pools of so many threads.
    pub(crate) fn on_threads<R: Send>(counts: &[usize], work: impl Fn() -> R + Sync) -> (R, Vec<R>) {
        let pooled = counts.iter().map(|&threads| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            pool.install(&work)
        });
        let pooled = pooled.collect();
        (work(), pooled)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(40))]
        #[test]
        fn every_element_is_visited_once_and_knows_its_place(len in 0usize..70, chunk in 0usize..9) {
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
    fn an_error_of_any_chunk_is_the_error() {
        let fail =
            || for_each_chunk(&mut [0; 20], 2, &|start, _| if start == 14 { Err(start) } else { Ok(()) });
        let (alone, pooled) = on_threads(&[2], fail);
        assert!(alone == Err(14) && pooled[0] == Err(14));
    }

    #[test]
    fn threads_are_those_of_the_pool() {
        assert_eq!(on_threads(&[1, 2, 3], threads), (1, vec![1, 2, 3]));
    }
}
