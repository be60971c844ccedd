use rcgen::{
    BasicConstraints, CertificateParams, CertificateSigningRequestParams, IsCa, Issuer, KeyPair,
    SanType,
};

use super::*;
use crate::request::KeyRequest;

const ID: &str = "spiffe://mesh.example/ns/shop/sa/cart";

struct Ca {
    issuer: Issuer<'static, KeyPair>,
    pem: String,
}

fn ca() -> Ca {
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let key = KeyPair::generate().unwrap();
    let pem = params.self_signed(&key).unwrap().pem();
    Ca {
        issuer: Issuer::new(params, key),
        pem,
    }
}

/// A key, and what a CA makes of its request.
fn signed(ca: &Ca, change: impl FnOnce(&mut CertificateParams)) -> (String, String) {
    let made = KeyRequest::new(&ID.parse().unwrap()).unwrap();
    let mut csr = CertificateSigningRequestParams::from_pem(&made.csr).unwrap();
    change(&mut csr.params);
    (made.key, csr.signed_by(&ca.issuer).unwrap().pem())
}

fn accept(key: &str, answer: &str) -> Result<(Svid, TrustBundle), SvidError> {
    Svid::accept(ID.parse().unwrap(), key.to_owned(), answer)
}

#[test]
fn what_was_asked_for_is_taken_and_its_key_is_shown_to_nobody() {
    let ca = ca();
    let (key, leaf) = signed(&ca, |_| {});
    let (svid, roots) = accept(&key, &format!("{leaf}{}", ca.pem)).unwrap();
    assert_eq!(svid.chain.matches("BEGIN").count(), 1);
    assert_eq!((roots.len(), svid.key()), (1, key.as_str()));
    let shown = format!("{svid:?}");
    assert!(shown.contains(ID) && !shown.contains("KEY"), "{shown}");
}

#[test]
fn anything_else_is_refused() {
    let (good, other) = (ca(), ca());
    let (key, leaf) = signed(&good, |_| {});
    let (other_key, _) = signed(&good, |_| {});
    let names = |uris: &[&str]| {
        let uris = uris
            .iter()
            .map(|uri| SanType::URI((*uri).try_into().unwrap()));
        uris.collect::<Vec<_>>()
    };
    let (wrong_key, wrong) = signed(&good, |p| {
        p.subject_alt_names = names(&["spiffe://mesh.example/ns/shop/sa/pay"]);
    });
    let (two_key, two) = signed(&good, |p| {
        p.subject_alt_names = names(&[ID, "spiffe://a/b"])
    });
    let (ca_key, as_ca) = signed(&good, |p| {
        p.is_ca = IsCa::Ca(BasicConstraints::Unconstrained)
    });
    for (key, answer, says) in [
        (&key, leaf.clone(), "names no root"),
        (&key, format!("{leaf}{}", other.pem), "is no chain"),
        (&key, good.pem.clone(), "no certificate"),
        (&key, String::new(), "no certificate"),
        (
            &key,
            "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n".to_owned(),
            "not an X.509",
        ),
        (&other_key, format!("{leaf}{}", good.pem), "another key"),
        (
            &wrong_key,
            format!("{wrong}{}", good.pem),
            "sa/pay, not for",
        ),
        (&two_key, format!("{two}{}", good.pem), "not for"),
        (&ca_key, format!("{as_ca}{}", good.pem), "a CA's"),
    ] {
        let error = accept(key, &answer).expect_err(says).to_string();
        assert!(error.contains(says), "{says}: {error}");
    }
}
