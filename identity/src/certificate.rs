//! What a certificate says.

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use time::OffsetDateTime;
use x509_parser::certificate::X509Certificate;
use x509_parser::extensions::{GeneralName, GeneralSubtree, ParsedExtension};
use x509_parser::prelude::FromDer;

/// More certificates in one PEM text are a mistake, or an attempt to use up memory.
const MAX_CERTIFICATES: usize = 64;

/// Why a text holds no certificates.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CertificateError {
    /// Not PEM.
    #[error("not PEM: {0}")]
    Pem(String),
    /// No certificate in it.
    #[error("no certificate (\"-----BEGIN CERTIFICATE-----\") in it")]
    None,
    /// Too many.
    #[error("more than {MAX_CERTIFICATES} certificates")]
    TooMany,
    /// One that is broken.
    #[error("certificate {0} is not an X.509 certificate: {1}")]
    Broken(usize, String),
}

/// A certificate and what is in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Certificate {
    /// As it is signed.
    pub der: CertificateDer<'static>,
    /// Subject, for people.
    pub subject: String,
    /// Not valid before.
    pub not_before: OffsetDateTime,
    /// Not valid after.
    pub not_after: OffsetDateTime,
    /// Serial number, hexadecimal.
    pub serial: String,
    /// URIs among its names.
    pub uris: Vec<String>,
    /// DNS names among its names.
    pub dns_names: Vec<String>,
    /// Basic constraints say that it is a CA.
    pub is_ca: bool,
    /// So many CAs may stand between it and a leaf.
    pub path_len: Option<u32>,
    /// What it may sign for, as name constraints say.
    pub constraints: UriConstraints,
}

/// Name constraints on URIs: hosts, or domains with a dot before them (RFC 5280, section 4.2.1.10).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UriConstraints {
    /// None of them: everything is permitted.
    pub permitted: Vec<String>,
    /// Wins over permitted.
    pub excluded: Vec<String>,
}

impl UriConstraints {
    /// Whether URIs of this host may be signed.
    #[must_use]
    pub fn allow(&self, host: &str) -> bool {
        let fits = |c: &String| match c.strip_prefix('.') {
            Some(_) => host.ends_with(c.as_str()),
            None => c == host,
        };
        let permitted = self.permitted.is_empty() || self.permitted.iter().any(fits);
        permitted && !self.excluded.iter().any(fits)
    }
}

impl Certificate {
    /// Reads all certificates of a PEM text; at least one.
    ///
    /// # Errors
    /// When there is none, or one is broken.
    pub fn all(pem: &[u8]) -> Result<Vec<Self>, CertificateError> {
        let mut all = Vec::new();
        for der in CertificateDer::pem_slice_iter(pem) {
            if all.len() >= MAX_CERTIFICATES {
                return Err(CertificateError::TooMany);
            }
            let der = der.map_err(|e| CertificateError::Pem(e.to_string()))?;
            let read = Self::read(der);
            all.push(read.map_err(|e| CertificateError::Broken(all.len() + 1, e))?);
        }
        if all.is_empty() {
            return Err(CertificateError::None);
        }
        Ok(all)
    }

    /// Reads one.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn read(der: CertificateDer<'static>) -> Result<Self, String> {
        let (rest, x509) = X509Certificate::from_der(&der).map_err(|e| e.to_string())?;
        if !rest.is_empty() {
            return Err("there is more behind its end".to_owned());
        }
        let validity = x509.validity();
        let constraints = x509.basic_constraints().map_err(|e| e.to_string())?;
        let (mut uris, mut dns_names) = (Vec::new(), Vec::new());
        let names = x509.subject_alternative_name().map_err(|e| e.to_string())?;
        for name in names.iter().flat_map(|names| &names.value.general_names) {
            match name {
                GeneralName::URI(uri) => uris.push((*uri).to_owned()),
                GeneralName::DNSName(name) => dns_names.push((*name).to_owned()),
                _ => {}
            }
        }
        Ok(Self {
            subject: x509.subject().to_string(),
            not_before: validity.not_before.to_datetime(),
            not_after: validity.not_after.to_datetime(),
            serial: x509.raw_serial_as_string().replace(':', ""),
            uris,
            dns_names,
            is_ca: constraints.as_ref().is_some_and(|c| c.value.ca),
            path_len: constraints.and_then(|c| c.value.path_len_constraint),
            constraints: uri_constraints(&x509),
            der: der.clone(),
        })
    }

    /// Whether `issuer`'s key has signed it.
    #[must_use]
    pub fn is_signed_by(&self, issuer: &Self) -> bool {
        let own = X509Certificate::from_der(&self.der);
        let its = X509Certificate::from_der(&issuer.der);
        match (own, its) {
            (Ok((_, own)), Ok((_, its))) => {
                own.issuer() == its.subject()
                    && own.verify_signature(Some(its.public_key())).is_ok()
            }
            _ => false,
        }
    }

    /// The public key, as X.509 wraps it.
    #[must_use]
    pub fn public_key(&self) -> Vec<u8> {
        X509Certificate::from_der(&self.der)
            .map(|(_, x509)| x509.public_key().raw.to_vec())
            .unwrap_or_default()
    }

    /// Whether it may sign certificates at all: key usage, where there is one, allows it.
    #[must_use]
    pub fn may_sign(&self) -> bool {
        let Ok((_, x509)) = X509Certificate::from_der(&self.der) else {
            return false;
        };
        match x509.key_usage() {
            Ok(Some(usage)) => usage.value.key_cert_sign(),
            Ok(None) => true,
            Err(_) => false,
        }
    }
}

fn uri_constraints(x509: &X509Certificate<'_>) -> UriConstraints {
    let hosts = |trees: Option<&Vec<GeneralSubtree<'_>>>| {
        let trees = trees.into_iter().flatten();
        let uris = trees.filter_map(|tree| match &tree.base {
            GeneralName::URI(uri) => Some((*uri).to_owned()),
            _ => None,
        });
        uris.collect()
    };
    let found = x509
        .extensions()
        .iter()
        .find_map(|e| match e.parsed_extension() {
            ParsedExtension::NameConstraints(names) => Some(names),
            _ => None,
        });
    found.map_or_else(UriConstraints::default, |names| UriConstraints {
        permitted: hosts(names.permitted_subtrees.as_ref()),
        excluded: hosts(names.excluded_subtrees.as_ref()),
    })
}

/// Certificates as PEM, one after the other.
#[must_use]
pub fn to_pem<'a>(all: impl IntoIterator<Item = &'a CertificateDer<'static>>) -> String {
    all.into_iter()
        .map(|der| pem::encode_config(&pem::Pem::new("CERTIFICATE", der.to_vec()), unix()))
        .collect()
}

/// Lines end as the rest of the world's do.
fn unix() -> pem::EncodeConfig {
    pem::EncodeConfig::new().set_line_ending(pem::LineEnding::LF)
}
