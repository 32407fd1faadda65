//! The threads, and work done on them with results in a fixed order.
//!
//! Pieces of work are handed out one by one in their order, and results are passed on in that order as
//! soon as they can be: at most as many wait as there are threads, so that a run of many replications
//! needs no memory for them all. rayon's parallel iterators were the alternative: they split the range
//! in halves, and half of all results would wait for the first.

use rayon::{ThreadPool, ThreadPoolBuildError, ThreadPoolBuilder};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

/// A pool of threads.
#[derive(Debug)]
pub struct Workers {
    pool: ThreadPool,
}

/// State behind the lock: what is done and not yet passed on.
struct Ordered<T, E, C> {
    waiting: BTreeMap<usize, T>,
    next: usize,
    /// The failure of the piece with the least number.
    failure: Option<(usize, E)>,
    commit: C,
}

impl Workers {
    /// So many threads; `None`: one for each core.
    ///
    /// # Errors
    /// The operating system gives no threads.
    pub fn new(threads: Option<usize>) -> Result<Self, ThreadPoolBuildError> {
        let pool = ThreadPoolBuilder::new().num_threads(threads.unwrap_or(0)).build()?;
        Ok(Self { pool })
    }

    /// How many threads there are.
    pub fn threads(&self) -> usize {
        self.pool.current_num_threads()
    }

    /// Does the pieces of work 0 to `count` - 1 and hands each result to `commit`, in the order of the
    /// pieces. After a failure no further piece is begun; the failure returned is that of the first piece
    /// that failed, whatever the number of threads.
    ///
    /// # Errors
    /// The first failure of a piece.
    pub fn in_order<T, E>(
        &self,
        count: usize,
        work: impl Fn(usize) -> Result<T, E> + Sync,
        commit: impl FnMut(usize, T) + Send,
    ) -> Result<(), E>
    where
        T: Send,
        E: Send,
    {
        let taken = AtomicUsize::new(0);
        let failed = AtomicBool::new(false);
        let state = Mutex::new(Ordered { waiting: BTreeMap::new(), next: 0, failure: None, commit });
        self.pool.broadcast(|_| {
            // Taking a number and looking for a failure before it: all pieces before a failed one have
            // been taken, and end.
            while !failed.load(Ordering::Acquire) {
                let piece = taken.fetch_add(1, Ordering::AcqRel);
                if piece >= count {
                    break;
                }
                let result = work(piece);
                let mut state = state.lock().unwrap_or_else(PoisonError::into_inner);
                match result {
                    Ok(value) => state.pass_on(piece, value),
                    Err(failure) => {
                        failed.store(true, Ordering::Release);
                        state.note(piece, failure);
                    }
                }
            }
        });
        let state = state.into_inner().unwrap_or_else(PoisonError::into_inner);
        state.failure.map_or(Ok(()), |(_, failure)| Err(failure))
    }
}

impl<T, E, C: FnMut(usize, T)> Ordered<T, E, C> {
    fn pass_on(&mut self, piece: usize, value: T) {
        self.waiting.insert(piece, value);
        while let Some(value) = self.waiting.remove(&self.next) {
            (self.commit)(self.next, value);
            self.next += 1;
        }
    }

    fn note(&mut self, piece: usize, failure: E) {
        if self.failure.as_ref().is_none_or(|(first, _)| piece < *first) {
            self.failure = Some((piece, failure));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_come_in_order_whatever_the_threads() {
        for threads in [1, 2, 5] {
            let workers = Workers::new(Some(threads)).unwrap();
            let mut seen = Vec::new();
            let work = |n: usize| {
                // Uneven work, so that later pieces end before earlier ones.
                let spin = if n.is_multiple_of(7) { 20_000 } else { 10 };
                (0..spin).for_each(|step| _ = std::hint::black_box(step));
                Ok::<u64, ()>(n as u64)
            };
            workers.in_order(100, work, |n, value| seen.push((n, value))).unwrap();
            assert_eq!(seen, (0..100).map(|n| (n, n as u64)).collect::<Vec<_>>());
        }
    }

    #[test]
    fn the_first_failure_is_reported() {
        for threads in [1, 3] {
            let workers = Workers::new(Some(threads)).unwrap();
            let mut seen = Vec::new();
            let work = |n: usize| if n >= 5 { Err(n) } else { Ok(n) };
            let failure = workers.in_order(50, work, |n, _| seen.push(n)).unwrap_err();
            assert_eq!((failure, seen), (5, vec![0, 1, 2, 3, 4]));
        }
    }

    #[test]
    fn no_work_is_done_at_once() {
        let workers = Workers::new(Some(2)).unwrap();
        workers.in_order(0, |_| Err::<(), _>(1), |_, ()| unreachable!("there is no piece")).unwrap();
    }
}
