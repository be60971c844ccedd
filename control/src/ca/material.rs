//! What the files say: who is trusted, and what issues.

use rcgen::{Issuer, KeyPair};
use time::OffsetDateTime;
use weft_identity::certificate::{Certificate, CertificateError, to_pem};
use weft_identity::{TrustBundle, TrustDomain};

use super::folder::{Folder, FolderError};
use super::{CaError, check, make};

pub(super) const ROOT: &str = "root.pem";
pub(super) const ROOT_KEY: &str = "root-key.pem";
pub(super) const INTERMEDIATE: &str = "intermediate.pem";
pub(super) const INTERMEDIATE_KEY: &str = "intermediate-key.pem";
pub(super) const NEXT_ROOT: &str = "next-root.pem";
pub(super) const NEXT_ROOT_KEY: &str = "next-root-key.pem";
pub(super) const OLD_ROOTS: &str = "old-roots.pem";

/// Everything that a CA needs, checked.
pub(super) struct Material {
    /// Trusted, the active one first.
    roots: Vec<Certificate>,
    /// What issues first, then what leads from it to the root.
    chain: Vec<Certificate>,
    issuer: Issuer<'static, KeyPair>,
    /// A root that is trusted and does not issue yet.
    pub(super) has_next: bool,
    /// A root that issues no more.
    pub(super) has_old: bool,
}

impl std::fmt::Debug for Material {
    /// Without keys.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Material")
            .field("roots", &self.roots.len())
            .field("issuing", &self.issuing().subject)
            .finish()
    }
}

impl Material {
    /// Reads a folder; where it is empty, makes a CA first.
    pub(super) fn open(
        folder: &Folder,
        domain: &TrustDomain,
        now: OffsetDateTime,
    ) -> Result<Self, CaError> {
        if folder.certificates(ROOT)?.is_none() || folder.certificates(INTERMEDIATE)?.is_none() {
            found(folder, domain, now)?;
        }
        Self::read(folder, domain, now)
    }

    /// Reads a folder.
    pub(super) fn read(
        folder: &Folder,
        domain: &TrustDomain,
        now: OffsetDateTime,
    ) -> Result<Self, CaError> {
        let check = |name: &str, certificate: &Certificate| {
            let checked = check::authority(certificate, domain, now);
            checked.map_err(|source| FolderError::Unfit {
                path: folder.file(name),
                source,
            })
        };
        let mut roots = folder
            .certificates(ROOT)?
            .ok_or_else(|| missing(folder, ROOT))?;
        let next = folder.certificates(NEXT_ROOT)?.unwrap_or_default();
        for (name, list) in [(ROOT, &roots), (NEXT_ROOT, &next)] {
            for root in list {
                check(name, root)?;
            }
        }
        // One that has ended vouches for nobody any more, which harms nobody.
        let mut old = folder.certificates(OLD_ROOTS)?.unwrap_or_default();
        old.retain(|root| check::authority(root, domain, now).is_ok());
        let chain = folder.certificates(INTERMEDIATE)?;
        let chain = chain.ok_or_else(|| missing(folder, INTERMEDIATE))?;
        for ca in &chain {
            check(INTERMEDIATE, ca)?;
        }
        let (has_next, has_old) = (!next.is_empty(), !old.is_empty());
        roots.extend(next);
        roots.extend(old);
        let unfit = |source| FolderError::Unfit {
            path: folder.file(INTERMEDIATE),
            source,
        };
        check::chain(&chain, &roots).map_err(unfit)?;
        let issuing = chain.first().ok_or_else(|| missing(folder, INTERMEDIATE))?;
        let key = folder.key(INTERMEDIATE_KEY, issuing)?;
        let key = key.ok_or_else(|| missing(folder, INTERMEDIATE_KEY))?;
        let issuer = Issuer::from_ca_cert_der(&issuing.der, key);
        Ok(Self {
            issuer: issuer.map_err(|e| CaError::Issuer(e.to_string()))?,
            roots,
            chain,
            has_next,
            has_old,
        })
    }

    /// All that are trusted.
    pub(super) fn bundle(&self) -> TrustBundle {
        TrustBundle::new(self.roots.iter().map(|root| root.der.clone()))
    }

    /// All that are trusted, the active one first.
    pub(super) fn roots(&self) -> &[Certificate] {
        &self.roots
    }

    /// What issues.
    pub(super) fn issuing(&self) -> &Certificate {
        // Reading makes sure that there is one.
        &self.chain[0]
    }

    pub(super) const fn issuer(&self) -> &Issuer<'static, KeyPair> {
        &self.issuer
    }

    /// What leads from a leaf to the root, PEM.
    pub(super) fn chain_pem(&self) -> String {
        to_pem(self.chain.iter().map(|ca| &ca.der))
    }

    /// What leads from a leaf to the root.
    pub(super) fn chain(&self) -> &[Certificate] {
        &self.chain
    }

    /// Nothing that is issued may outlive these.
    pub(super) fn not_after(&self) -> OffsetDateTime {
        let ends = self.chain.iter().map(|ca| ca.not_after);
        let last = self.chain.last().unwrap_or_else(|| self.issuing());
        let roots = self.roots.iter().filter(|root| last.is_signed_by(root));
        let root = roots.map(|root| root.not_after).max();
        ends.chain(root).min().unwrap_or(last.not_after)
    }

    pub(super) fn is_same(&self, other: &Self) -> bool {
        self.roots == other.roots && self.chain == other.chain
    }
}

fn missing(folder: &Folder, name: &str) -> CaError {
    let why = match name {
        ROOT => "the root certificate that everybody is to trust",
        INTERMEDIATE => {
            "the CA certificate that issues; with root-key.pem beside root.pem it would be made here"
        }
        _ => "the key of intermediate.pem",
    };
    let path = folder.file(name);
    FolderError::Missing { path, why }.into()
}

/// Makes what is not there: all of it in an empty folder, the intermediate below a root that somebody brought with its key.
fn found(folder: &Folder, domain: &TrustDomain, now: OffsetDateTime) -> Result<(), CaError> {
    let lock = folder.lock()?;
    let root = match folder.certificates(ROOT)? {
        Some(roots) => roots
            .into_iter()
            .next()
            .ok_or_else(|| FolderError::Certificate {
                path: folder.file(ROOT),
                source: CertificateError::None,
            })?,
        None if folder.certificates(INTERMEDIATE)?.is_some() => return Err(missing(folder, ROOT)),
        None => {
            let made = make::root(domain, now)?;
            folder.save_pair("root", &made, &lock)?;
            tracing::info!(
                "a CA for {domain} was made in {}",
                folder.file("").display()
            );
            made.certificate
        }
    };
    // Another process may have been faster.
    if folder.certificates(INTERMEDIATE)?.is_none() {
        let unfit = |source| FolderError::Unfit {
            path: folder.file(ROOT),
            source,
        };
        check::authority(&root, domain, now).map_err(unfit)?;
        let key = folder.key(ROOT_KEY, &root)?;
        let key = key.ok_or_else(|| missing(folder, INTERMEDIATE))?;
        let made = make::intermediate(domain, &root, key, now)?;
        folder.save_pair("intermediate", &made, &lock)?;
    }
    Ok(())
}
