//! Where the cluster's objects come from.

pub mod folder;
pub mod kubernetes;

use std::future::Future;

use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use weft_proto::model::Problem;

use crate::object::{Object, ObjectRef, Subject};

/// Something that a source has seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// The object is new, or is now this.
    Applied(Object),
    /// The object is gone.
    Deleted(ObjectRef),
    /// All problems of one origin, in place of the ones it had.
    Problems(String, Vec<Problem>),
    /// The object whose status is to say what becomes of it is now this, or is gone. Comes after the object itself.
    Subject(ObjectRef, Option<Subject>),
    /// Everything that was there at the start has been told. Sent once.
    Synced,
}

/// Events that belong together, so that nobody sees the state between them.
pub type Events = Vec<Event>;

/// Watches the cluster's objects.
pub trait Source: Send + 'static {
    /// Why it could not go on.
    type Error: std::error::Error + Send + Sync + 'static;

    /// Tells all objects, then [`Event::Synced`], then every change, until `drain` is cancelled or nobody listens.
    fn run(
        self,
        events: mpsc::Sender<Events>,
        drain: CancellationToken,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send;
}
