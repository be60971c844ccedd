//! An encoded message in parts that follow each other, so that none of them has to be copied to be sent.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use http_body::{Body, Frame, SizeHint};
use tonic::codegen::Bytes;

/// Clones share the bytes.
#[derive(Clone, Debug, Default)]
pub(super) struct Parts(VecDeque<Bytes>);

impl Parts {
    pub(super) fn push(&mut self, part: impl Into<Bytes>) {
        self.0.push_back(part.into());
    }

    /// Bytes of all.
    pub(super) fn len(&self) -> usize {
        self.0.iter().map(Bytes::len).sum()
    }
}

impl From<Vec<u8>> for Parts {
    fn from(whole: Vec<u8>) -> Self {
        Self([whole.into()].into())
    }
}

impl IntoIterator for Parts {
    type Item = Bytes;
    type IntoIter = std::collections::vec_deque::IntoIter<Bytes>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

impl Body for Parts {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Poll::Ready(self.0.pop_front().map(|part| Ok(Frame::data(part))))
    }

    fn is_end_stream(&self) -> bool {
        self.0.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.len() as u64)
    }
}
