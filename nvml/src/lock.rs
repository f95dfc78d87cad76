//! Mutexes that outlive a panic of another thread.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks; what another thread left when it panicked is still plain data that can be read.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
