//! Secrets as Envoy takes them by SDS: `envoy.extensions.transport_sockets.tls.v3.Secret`.
//!
//! See <https://www.envoyproxy.io/docs/envoy/latest/configuration/security/secret>.

use prost::{Message, Name};
use weft_proto::envoy::envoy::config::core::v3::DataSource;
use weft_proto::envoy::envoy::config::core::v3::data_source::Specifier;
use weft_proto::envoy::envoy::extensions::transport_sockets::tls::v3::secret::Type;
use weft_proto::envoy::envoy::extensions::transport_sockets::tls::v3::{
    CertificateValidationContext, Secret, TlsCertificate,
};
use weft_proto::envoy::google::protobuf::Any;

use crate::{Svid, TrustBundle};

/// Name of the validation context with the mesh's trust bundle, as Istio's Envoys know it.
pub const ROOT_CA: &str = "ROOTCA";

/// The type URL of a secret.
pub const TYPE_URL: &str = "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.Secret";

fn inline(text: String) -> Option<DataSource> {
    Some(DataSource {
        specifier: Some(Specifier::InlineBytes(text.into_bytes())),
        ..Default::default()
    })
}

fn pack(name: String, body: Type) -> Any {
    let secret = Secret {
        name,
        r#type: Some(body),
    };
    debug_assert!(TYPE_URL.ends_with(&Secret::full_name()));
    Any {
        type_url: TYPE_URL.to_owned(),
        value: secret.encode_to_vec(),
    }
}

/// A certificate and its key, under the name of the identity.
#[must_use]
pub fn certificate(svid: &Svid) -> Any {
    let certificate = TlsCertificate {
        certificate_chain: inline(svid.chain.clone()),
        private_key: inline(svid.key().to_owned()),
        ..Default::default()
    };
    pack(svid.id.to_string(), Type::TlsCertificate(certificate))
}

/// The roots, under the name [`ROOT_CA`]. Whose certificate is wanted says the cluster or the listener: were names here, they would be
/// joined with those by "or".
#[must_use]
pub fn validation(bundle: &TrustBundle) -> Any {
    let context = CertificateValidationContext {
        trusted_ca: inline(bundle.pem()),
        ..Default::default()
    };
    pack(ROOT_CA.to_owned(), Type::ValidationContext(context))
}

/// The roots in a secret; `None` when it is something else.
#[must_use]
pub fn bundle(any: &Any) -> Option<TrustBundle> {
    let secret = Secret::decode(any.value.as_slice()).ok()?;
    let Some(Type::ValidationContext(context)) = secret.r#type else {
        return None;
    };
    let roots = match context.trusted_ca?.specifier? {
        Specifier::InlineBytes(bytes) => bytes.to_vec(),
        Specifier::InlineString(text) => text.into_bytes(),
        _ => return None,
    };
    TrustBundle::from_pem(&roots).ok()
}
