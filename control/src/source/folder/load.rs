//! Reading many files at once.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use super::file::{self, Content};

/// What is read together; bounds the memory that it takes.
const BATCH_FILES: usize = 512;
const BATCH_BYTES: u64 = 64 << 20;
const MAX_THREADS: usize = 8;

/// A file to read.
#[derive(Debug)]
pub(super) struct Job {
    pub(super) name: Arc<str>,
    pub(super) path: PathBuf,
    pub(super) bytes: u64,
}

/// Cuts `jobs` into batches.
pub(super) fn batches(mut jobs: &[Job]) -> impl Iterator<Item = &[Job]> {
    std::iter::from_fn(move || {
        let mut bytes = 0;
        let fits = |job: &&Job| {
            bytes += job.bytes;
            bytes <= BATCH_BYTES
        };
        let count = jobs.iter().take(BATCH_FILES).take_while(fits).count();
        // A file over the bound goes alone; none left is the end.
        let (batch, rest) = jobs.split_at_checked(count.max(1))?;
        jobs = rest;
        Some(batch)
    })
}

/// Reads a batch, in its order.
pub(super) fn all(batch: &[Job]) -> Vec<Option<Content>> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let threads = cores.min(MAX_THREADS).min(batch.len());
    let read = |job: &Job| file::load(&job.path, &job.name);
    if threads <= 1 {
        return batch.iter().map(read).collect();
    }
    let next = AtomicUsize::new(0);
    let done: Vec<Mutex<Option<Content>>> = batch.iter().map(|_| Mutex::new(None)).collect();
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let i = next.fetch_add(1, Ordering::Relaxed);
                    let (Some(job), Some(slot)) = (batch.get(i), done.get(i)) else {
                        return;
                    };
                    *slot.lock().unwrap_or_else(PoisonError::into_inner) = read(job);
                }
            });
        }
    });
    done.into_iter()
        .map(|slot| slot.into_inner().unwrap_or_else(PoisonError::into_inner))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sizes(bytes: &[u64]) -> Vec<usize> {
        let jobs: Vec<Job> = bytes
            .iter()
            .map(|bytes| Job {
                name: Arc::from("x"),
                path: PathBuf::new(),
                bytes: *bytes,
            })
            .collect();
        batches(&jobs).map(<[Job]>::len).collect()
    }

    #[test]
    fn batches_are_bounded_and_lose_nothing() {
        let half = BATCH_BYTES / 2;
        assert_eq!(sizes(&[]), [0; 0]);
        assert_eq!(sizes(&[1; 3]), [3]);
        assert_eq!(sizes(&[half, half, 1, 1]), [2, 2]);
        assert_eq!(sizes(&[2 * BATCH_BYTES, 1, 2 * BATCH_BYTES]), [1, 1, 1]);
        assert_eq!(sizes(&[1; BATCH_FILES + 1]), [BATCH_FILES, 1]);
    }
}
