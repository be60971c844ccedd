//! Certificates and tokens of a control plane that lives for one run.

use std::fs;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair, SanType};

/// Where the files are.
pub(crate) struct Pki {
    /// CA certificate, PEM.
    pub(crate) ca: PathBuf,
    /// The API server's certificate, PEM.
    pub(crate) certificate: PathBuf,
    /// The API server's key, PEM.
    pub(crate) key: PathBuf,
    /// Key that signs service account tokens, PEM.
    pub(crate) accounts: PathBuf,
    /// The public half of it, PEM.
    pub(crate) accounts_public: PathBuf,
    /// Bearer tokens and whose they are, CSV.
    pub(crate) tokens: PathBuf,
    /// The bearer token of each user, in the order they were given.
    pub(crate) by_user: Vec<(String, String)>,
}

impl Pki {
    /// Makes everything for a server at `address`, in `dir`, and tokens for these users with their group, which may be "".
    pub(crate) fn make(dir: &Path, address: IpAddr, users: &[(&str, &str)]) -> Result<Self> {
        let mut ca = CertificateParams::new(Vec::new())?;
        ca.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let ca_key = KeyPair::generate()?;
        let ca_certificate = ca.self_signed(&ca_key)?;
        let issuer = Issuer::new(ca, ca_key);

        let mut server = CertificateParams::new(vec!["kubernetes".to_owned()])?;
        server.subject_alt_names.push(SanType::IpAddress(address));
        let key = KeyPair::generate()?;
        let certificate = server.signed_by(&key, &issuer)?;

        let accounts = KeyPair::generate()?;
        let mut tokens = String::new();
        let mut by_user = Vec::new();
        for (user, group) in users {
            let token: String = std::iter::repeat_with(fastrand::alphanumeric)
                .take(32)
                .collect();
            tokens += &format!("{token},{user},{user},{group}\n");
            by_user.push(((*user).to_owned(), token));
        }
        let write = |name: &str, text: String| {
            let path = dir.join(name);
            fs::write(&path, text).with_context(|| format!("writing {}", path.display()))?;
            anyhow::Ok(path)
        };
        Ok(Self {
            ca: write("ca.pem", ca_certificate.pem())?,
            certificate: write("server.pem", certificate.pem())?,
            key: write("server-key.pem", key.serialize_pem())?,
            accounts: write("accounts-key.pem", accounts.serialize_pem())?,
            accounts_public: write("accounts.pem", accounts.public_key_pem())?,
            tokens: write("tokens.csv", tokens)?,
            by_user,
        })
    }
}
