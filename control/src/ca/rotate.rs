//! New roots and new intermediates, without a moment at which somebody trusts too little.
//!
//! 1. [`stage`] puts a second root beside the first: it is in the trust bundle, and issues nothing.
//! 2. After [`CaConfig::root_overlap`](super::CaConfig) everybody has it: it becomes the root, a new intermediate issues, the first one is kept as old.
//! 3. Once all that the old one has vouched for has ended, it leaves the bundle.
//!
//! Steps 2 and 3 are the running control plane's; each may be interrupted at any point and is taken up again.

use std::path::Path;
use std::time::Duration;

use time::OffsetDateTime;
use weft_identity::TrustDomain;
use weft_identity::certificate::Certificate;

use super::folder::{Folder, Lock};
use super::make::{self, CLOCK_SKEW};
use super::material::{
    INTERMEDIATE, Material, NEXT_ROOT, NEXT_ROOT_KEY, OLD_ROOTS, ROOT, ROOT_KEY,
};
use super::{CaConfig, CaError};

/// Why no rotation begins.
#[derive(Debug, thiserror::Error)]
pub enum RotateError {
    /// The CA is not in order.
    #[error(transparent)]
    Ca(#[from] CaError),
    /// One at a time.
    #[error(
        "a rotation is under way: {0} is there; wait until the control plane has taken it over, or remove it and {1} to call the rotation off"
    )]
    UnderWay(String, String),
    /// Only somebody else can.
    #[error(
        "{0} is not there: this CA's root was brought from elsewhere. Put its successor's certificate into root.pem beside the old one, wait until every agent has it, then replace intermediate.pem and intermediate-key.pem, and take the old root out after the longest life of a certificate"
    )]
    Brought(String),
}

/// A root that is trusted from now on.
#[derive(Debug)]
pub struct Staged {
    /// Its subject and serial number.
    pub root: String,
}

/// Makes the next root and has it trusted.
///
/// # Errors
/// When the CA in `dir` is not one of ours, or not in order.
pub fn stage(dir: &Path, domain: &TrustDomain) -> Result<Staged, RotateError> {
    let now = OffsetDateTime::now_utc();
    let folder = Folder::open(dir).map_err(CaError::from)?;
    let material = Material::read(&folder, domain, now)?;
    let lock = folder.lock().map_err(CaError::from)?;
    if material.has_next {
        let path = |name| folder.file(name).display().to_string();
        return Err(RotateError::UnderWay(path(NEXT_ROOT), path(NEXT_ROOT_KEY)));
    }
    let root = &material.roots()[0];
    if folder.key(ROOT_KEY, root).map_err(CaError::from)?.is_none() {
        return Err(RotateError::Brought(
            folder.file(ROOT_KEY).display().to_string(),
        ));
    }
    let made = make::root(domain, now).map_err(CaError::from)?;
    let saved = folder.save_pair("next-root", &made, &lock);
    saved.map_err(CaError::from)?;
    Ok(Staged {
        root: format!("{} {}", made.certificate.subject, made.certificate.serial),
    })
}

/// Does what is due, where the keys for it are there.
pub(super) fn maintain(
    folder: &Folder,
    config: &CaConfig,
    now: OffsetDateTime,
) -> Result<(), CaError> {
    let roots = folder.certificates(ROOT)?.unwrap_or_default();
    let chain = folder.certificates(INTERMEDIATE)?.unwrap_or_default();
    let (Some(root), Some(issuing)) = (roots.first(), chain.first()) else {
        // Reading says what is missing.
        return Ok(());
    };
    if let Some(next) = first(folder, NEXT_ROOT)? {
        if made_at(&next) + config.root_overlap <= now {
            return activate(folder, config, &roots, &next, now);
        }
    } else if is_due(issuing, now) {
        return renew(folder, config, root, issuing, now);
    }
    // Their life may have been longer before the last start.
    let life = config.svid_life.max(config.root_overlap);
    let leaves_end = made_at(issuing) + life + CLOCK_SKEW;
    if first(folder, OLD_ROOTS)?.is_some() && leaves_end <= now {
        folder.remove(OLD_ROOTS)?;
        tracing::info!("the old root is trusted no more: all that it vouched for has ended");
    }
    Ok(())
}

fn first(folder: &Folder, name: &str) -> Result<Option<Certificate>, CaError> {
    Ok(folder
        .certificates(name)?
        .and_then(|all| all.into_iter().next()))
}

/// When one of ours was made.
fn made_at(certificate: &Certificate) -> OffsetDateTime {
    certificate.not_before + CLOCK_SKEW
}

/// A third of its life is left, or less.
fn is_due(certificate: &Certificate, now: OffsetDateTime) -> bool {
    let life = certificate.not_after - certificate.not_before;
    certificate.not_after - now < life / 3
}

/// The next root takes over.
fn activate(
    folder: &Folder,
    config: &CaConfig,
    roots: &[Certificate],
    next: &Certificate,
    now: OffsetDateTime,
) -> Result<(), CaError> {
    let lock = folder.lock()?;
    let Some(key) = folder.key(NEXT_ROOT_KEY, next)? else {
        // Another process has done it, or somebody took the key away.
        return Ok(());
    };
    let mut old = folder.certificates(OLD_ROOTS)?.unwrap_or_default();
    let gone: Vec<_> = (roots.iter())
        .filter(|root| *root != next && !old.contains(root))
        .cloned()
        .collect();
    if !gone.is_empty() {
        old.extend(gone);
        folder.save(OLD_ROOTS, &old, &lock)?;
    }
    let made = make::intermediate(&config.trust_domain, next, key, now)?;
    folder.save_pair("intermediate", &made, &lock)?;
    if let Some(key) = folder.key(NEXT_ROOT_KEY, next)? {
        let certificate = next.clone();
        folder.save_pair("root", &make::Made { certificate, key }, &lock)?;
    }
    folder.remove(NEXT_ROOT)?;
    folder.remove(NEXT_ROOT_KEY)?;
    tracing::info!("the CA has a new root: {} {}", next.subject, next.serial);
    Ok(())
}

/// A new intermediate below the same root. With the root's key elsewhere that is somebody else's to do.
fn renew(
    folder: &Folder,
    config: &CaConfig,
    root: &Certificate,
    issuing: &Certificate,
    now: OffsetDateTime,
) -> Result<(), CaError> {
    let lock: Lock = folder.lock()?;
    let Some(key) = folder.key(ROOT_KEY, root)? else {
        return Ok(());
    };
    let made = make::intermediate(&config.trust_domain, root, key, now)?;
    // Near the root's own end nothing is won by it.
    if made.certificate.not_after - issuing.not_after > Duration::from_secs(60) {
        folder.save_pair("intermediate", &made, &lock)?;
        tracing::info!("the CA has a new intermediate: {}", made.certificate.serial);
    }
    Ok(())
}
