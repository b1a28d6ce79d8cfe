//! The queue's lock: `parking_lot`'s, or loom's when the model is checked.

#[cfg(not(feature = "loom"))]
pub(super) use parking_lot::Mutex;

#[cfg(feature = "loom")]
pub(super) use self::model::Mutex;

#[cfg(feature = "loom")]
mod model {
    use loom::sync::MutexGuard;

    /// loom's mutex with `parking_lot`'s signature.
    #[derive(Debug, Default)]
    pub(in super::super) struct Mutex<T>(loom::sync::Mutex<T>);

    impl<T> Mutex<T> {
        pub(in super::super) fn new(value: T) -> Self {
            Self(loom::sync::Mutex::new(value))
        }

        pub(in super::super) fn lock(&self) -> MutexGuard<'_, T> {
            self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
        }
    }
}
