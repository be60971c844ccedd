//! Certificates of the sidecars, with a CA of their own: X.509-SVIDs on P-256, as Weft's are.

use anyhow::{Context, Result};
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, ExtendedKeyUsagePurpose, IsCa, KeyPair,
    KeyUsagePurpose, SanType,
};
use serde_json::{Value, json};

/// A workload's certificate and key, and the root that it believes.
pub(super) struct Certificate {
    chain: String,
    key: String,
    root: String,
}

/// One certificate for each of these SPIFFE IDs.
pub(super) fn issue(identities: &[&str]) -> Result<Vec<Certificate>> {
    let mut root = CertificateParams::new(Vec::new()).context("describing a CA")?;
    root.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    root.key_usages = vec![KeyUsagePurpose::KeyCertSign];
    let root = CertifiedIssuer::self_signed(root, KeyPair::generate()?).context("making a CA")?;
    let one = |identity: &&str| {
        let mut leaf = CertificateParams::new(Vec::new())?;
        leaf.subject_alt_names = vec![SanType::URI((*identity).try_into()?)];
        leaf.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        leaf.extended_key_usages = vec![
            ExtendedKeyUsagePurpose::ClientAuth,
            ExtendedKeyUsagePurpose::ServerAuth,
        ];
        let key = KeyPair::generate()?;
        Ok(Certificate {
            chain: leaf.signed_by(&key, &root)?.pem(),
            key: key.serialize_pem(),
            root: root.pem(),
        })
    };
    identities.iter().map(one).collect()
}

impl Certificate {
    /// Of a listener: asks for a certificate.
    pub(super) fn server(&self) -> Value {
        let mut socket = self.socket("DownstreamTlsContext");
        socket["typed_config"]["require_client_certificate"] = json!(true);
        socket
    }

    /// Of a cluster.
    pub(super) fn client(&self) -> Value {
        self.socket("UpstreamTlsContext")
    }

    fn socket(&self, kind: &str) -> Value {
        json!({
            "name": "envoy.transport_sockets.tls",
            "typed_config": {
                "@type": format!("type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.{kind}"),
                "common_tls_context": {
                    "tls_params": {"tls_minimum_protocol_version": "TLSv1_3", "tls_maximum_protocol_version": "TLSv1_3"},
                    "tls_certificates": [{
                        "certificate_chain": {"inline_string": self.chain},
                        "private_key": {"inline_string": self.key},
                    }],
                    "validation_context": {
                        "trusted_ca": {"inline_string": self.root},
                        "match_typed_subject_alt_names": [{
                            "san_type": "URI", "matcher": {"prefix": "spiffe://cluster.local/"},
                        }],
                    },
                },
            },
        })
    }
}
