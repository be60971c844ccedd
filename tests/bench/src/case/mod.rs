//! The cases: what is measured, one file each.

mod change;
mod rate;
mod sync;

use crate::peer::{Kind, Proxy};
use crate::site::Site;

pub use change::{Pace, change};
pub use rate::{CONNECTIONS, Load, connections, requests};
pub use sync::sync;

/// A peer at its site.
pub struct Contestant {
    /// Which.
    pub kind: Kind,
    /// Where.
    pub site: Site,
    /// What brings the services there; `None` for no mesh.
    pub proxy: Option<Box<dyn Proxy>>,
}
