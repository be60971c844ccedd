//! Both ends' TLS: the identity's own certificate, and the other end's of the same trust domain.

use envoy_types::pb::envoy::extensions::transport_sockets::tls::v3::common_tls_context::ValidationContextType;
use envoy_types::pb::envoy::extensions::transport_sockets::tls::v3::{
    CertificateValidationContext, CommonTlsContext, SdsSecretConfig, SubjectAltNameMatcher,
    TlsParameters, common_tls_context::CombinedCertificateValidationContext,
    subject_alt_name_matcher, tls_parameters,
};
use envoy_types::pb::envoy::r#type::matcher::v3::{StringMatcher, string_matcher};

use super::from_agent;

/// Name of the secret with the trust bundle.
const ROOTS: &str = "ROOTCA";

pub(super) fn context(identity: &str, trust_domain: &str) -> CommonTlsContext {
    let secret = |name: &str| SdsSecretConfig {
        name: name.to_owned(),
        sds_config: Some(from_agent()),
    };
    let believed = CertificateValidationContext {
        match_typed_subject_alt_names: vec![SubjectAltNameMatcher {
            san_type: subject_alt_name_matcher::SanType::Uri as i32,
            matcher: Some(StringMatcher {
                match_pattern: Some(string_matcher::MatchPattern::Prefix(format!(
                    "spiffe://{trust_domain}/"
                ))),
                ..Default::default()
            }),
            ..Default::default()
        }],
        ..Default::default()
    };
    CommonTlsContext {
        tls_params: Some(TlsParameters {
            tls_minimum_protocol_version: tls_parameters::TlsProtocol::TlSv13 as i32,
            tls_maximum_protocol_version: tls_parameters::TlsProtocol::TlSv13 as i32,
            ..Default::default()
        }),
        tls_certificate_sds_secret_configs: vec![secret(identity)],
        validation_context_type: Some(ValidationContextType::CombinedValidationContext(
            CombinedCertificateValidationContext {
                default_validation_context: Some(believed),
                validation_context_sds_secret_config: Some(secret(ROOTS)),
                ..Default::default()
            },
        )),
        alpn_protocols: vec!["h2".to_owned()],
        ..Default::default()
    }
}
