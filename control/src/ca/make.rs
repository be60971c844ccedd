//! CAs of our own making.

use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa,
    Issuer, KeyPair, KeyUsagePurpose, PublicKeyData, SanType, SerialNumber,
};
use time::{Duration, OffsetDateTime};
use weft_identity::TrustDomain;
use weft_identity::certificate::Certificate;

/// Clocks may differ by so much: certificates are valid from that long before they are made.
pub(crate) const CLOCK_SKEW: Duration = Duration::minutes(5);
/// Life of a root that is made here.
const ROOT_LIFE: Duration = Duration::days(3650);
/// Life of an intermediate that is made here; renewed when a third is left.
pub(super) const INTERMEDIATE_LIFE: Duration = Duration::days(365);

/// A CA and its key.
pub(super) struct Made {
    pub(super) certificate: Certificate,
    pub(super) key: KeyPair,
}

/// Something cannot be signed.
#[derive(Debug, thiserror::Error)]
pub enum MakeError {
    /// By the library.
    #[error("signing: {0}")]
    Sign(#[from] rcgen::Error),
    /// The system has none.
    #[error("the system gives no random numbers")]
    Randomness,
    /// What was made is not readable: a mistake of ours.
    #[error("reading what was signed: {0}")]
    Read(String),
}

fn common(subject: &str, domain: &TrustDomain) -> Result<CertificateParams, MakeError> {
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    params
        .distinguished_name
        .push(DnType::OrganizationName, domain.as_str());
    params.distinguished_name.push(DnType::CommonName, subject);
    params.serial_number = Some(serial()?);
    params.use_authority_key_identifier_extension = true;
    Ok(params)
}

/// Positive, and not to be guessed (RFC 5280, section 4.1.2.2).
fn serial() -> Result<SerialNumber, MakeError> {
    let mut bytes = weft_identity::random::<16>().ok_or(MakeError::Randomness)?;
    bytes[0] = bytes[0] & 0x7f | 0x40;
    Ok(SerialNumber::from_slice(&bytes))
}

/// A CA's parameters: its own SPIFFE ID is that of the trust domain (X509-SVID, section 4.2).
fn authority(
    subject: &str,
    domain: &TrustDomain,
    now: OffsetDateTime,
    life: Duration,
) -> Result<CertificateParams, MakeError> {
    // No two have the same name, so that nobody has to try which of them has signed.
    let [a, b, c, d] = weft_identity::random().ok_or(MakeError::Randomness)?;
    let subject = format!("{subject} {a:02x}{b:02x}{c:02x}{d:02x}");
    let mut params = common(&subject, domain)?;
    params.not_before = now - CLOCK_SKEW;
    params.not_after = now + life;
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    params.subject_alt_names = vec![SanType::URI(domain.id().try_into()?)];
    Ok(params)
}

fn read(made: rcgen::Certificate) -> Result<Certificate, MakeError> {
    Certificate::read(made.into()).map_err(MakeError::Read)
}

/// A root.
pub(super) fn root(domain: &TrustDomain, now: OffsetDateTime) -> Result<Made, MakeError> {
    let key = KeyPair::generate()?;
    let mut params = authority("Weft root", domain, now, ROOT_LIFE)?;
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let certificate = read(params.self_signed(&key)?)?;
    Ok(Made { certificate, key })
}

/// What issues, below `root`. It may not make further CAs.
pub(super) fn intermediate(
    domain: &TrustDomain,
    root: &Certificate,
    root_key: KeyPair,
    now: OffsetDateTime,
) -> Result<Made, MakeError> {
    let key = KeyPair::generate()?;
    let issuer = Issuer::from_ca_cert_der(&root.der, root_key)?;
    let mut params = authority("Weft intermediate", domain, now, INTERMEDIATE_LIFE)?;
    params.not_after = params.not_after.min(root.not_after);
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    let certificate = read(params.signed_by(&key, &issuer)?)?;
    Ok(Made { certificate, key })
}

/// What a leaf is for.
pub(super) enum Names {
    /// A workload's identity, and nothing else.
    Spiffe(String),
    /// A server.
    Server(Vec<String>),
}

/// A leaf, as the X509-SVID standard wants it: no CA, digital signatures only, for both ends of TLS.
pub(super) fn leaf(
    names: Names,
    domain: &TrustDomain,
    key: &impl PublicKeyData,
    issuer: &Issuer<'static, KeyPair>,
    valid: (OffsetDateTime, OffsetDateTime),
) -> Result<Certificate, MakeError> {
    let (subject, usages, sans) = match names {
        Names::Spiffe(id) => {
            let both = vec![
                ExtendedKeyUsagePurpose::ServerAuth,
                ExtendedKeyUsagePurpose::ClientAuth,
            ];
            ("workload", both, vec![SanType::URI(id.try_into()?)])
        }
        Names::Server(names) => {
            let sans = CertificateParams::new(names)?.subject_alt_names;
            (
                "control plane",
                vec![ExtendedKeyUsagePurpose::ServerAuth],
                sans,
            )
        }
    };
    let mut params = common(subject, domain)?;
    (params.not_before, params.not_after) = valid;
    params.is_ca = IsCa::ExplicitNoCa;
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = usages;
    params.subject_alt_names = sans;
    read(params.signed_by(key, issuer)?)
}
