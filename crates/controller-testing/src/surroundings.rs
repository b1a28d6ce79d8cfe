//! What a process of a controller runs in, with a bug.

use std::any::Any;
use std::ops::{Deref, DerefMut};

use controller_core::app::{App, Failure};
use controller_core::cache::Wire;
use controller_runtime::driver::{self, Env, Sources};
use controller_runtime::informer::{BoxSource, ListWatch, Source};

/// What a process of a controller runs in, with the bug.
pub struct Surroundings {
    env: Env,
    sources: Over,
}

/// The API server is the source of each kind, but for one.
#[derive(Default)]
struct Over(Option<Box<dyn Any + Send + Sync>>);

type SourceOf<W> = dyn Fn(ListWatch<W>) -> BoxSource<<W as Wire>::View> + Send + Sync;

impl Surroundings {
    /// The surroundings without a bug.
    pub fn of(env: Env) -> Self {
        let sources = Over::default();
        Self { env, sources }
    }

    /// Puts `over` between one kind of objects and its informer.
    pub(crate) fn over_source<W: Wire>(
        mut self,
        over: impl Fn(ListWatch<W>) -> BoxSource<W::View> + Send + Sync + 'static,
    ) -> Self {
        let over: Box<SourceOf<W>> = Box::new(over);
        self.sources = Over(Some(Box::new(over)));
        self
    }

    /// Runs a controller in these surroundings.
    pub async fn run<A: App>(self, config: A::Config) -> Result<(), Failure> {
        driver::run_over::<A>(config, self.env, self.sources).await
    }
}

impl Sources for Over {
    fn source<W: Wire>(&self, watched: ListWatch<W>) -> impl Source<View = W::View> {
        let over = self
            .0
            .as_ref()
            .and_then(|over| over.downcast_ref::<Box<SourceOf<W>>>());
        match over {
            None => BoxSource::new(watched),
            Some(over) => over(watched),
        }
    }
}

impl Deref for Surroundings {
    type Target = Env;

    fn deref(&self) -> &Env {
        &self.env
    }
}

impl DerefMut for Surroundings {
    fn deref_mut(&mut self) -> &mut Env {
        &mut self.env
    }
}
