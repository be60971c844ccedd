//! The join token: one secret that all nodes of a mesh share.
//!
//! Who has it is a member of the mesh. It does not say which node: whoever has it may be any, and get the certificates of any pod.

use std::path::Path;

use futures::FutureExt;
use futures::future::BoxFuture;
use weft_identity::token::{TokenError, TokenFile};

use super::{Authenticator, Peer, Refused};

/// Compares tokens with a file's.
#[derive(Debug)]
pub struct JoinToken {
    file: TokenFile,
}

impl JoinToken {
    /// The token of this file, which is read anew for each that is compared.
    ///
    /// # Errors
    /// When it has no token that can be used now.
    pub fn open(path: &Path) -> Result<Self, TokenError> {
        let file = TokenFile::new(path);
        file.read()?;
        Ok(Self { file })
    }
}

impl Authenticator for JoinToken {
    fn authenticate<'a>(&'a self, token: &'a str) -> BoxFuture<'a, Result<Peer, Refused>> {
        let outcome = match self.file.is(token) {
            Ok(true) => Ok(Peer::AnyNode),
            Ok(false) => Err(Refused::Wrong),
            Err(e) => {
                // The file's name and what is wrong with it are not for whoever asks.
                tracing::error!("nobody can join: {e}");
                Err(Refused::Unavailable(
                    "see the control plane's log".to_owned(),
                ))
            }
        };
        std::future::ready(outcome).boxed()
    }
}
