//! Certificates and keys that somebody brought.

use rcgen::{
    BasicConstraints, CertificateParams, CustomExtension, IsCa, Issuer, KeyPair, KeyUsagePurpose,
    SanType,
};

use super::*;

struct Pair {
    params: CertificateParams,
    key: KeyPair,
    pem: String,
}

fn ca(change: impl FnOnce(&mut CertificateParams)) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
    let name = fastrand::u64(..).to_string();
    params.distinguished_name = rcgen::DistinguishedName::new();
    params
        .distinguished_name
        .push(rcgen::DnType::CommonName, name);
    change(&mut params);
    params
}

fn root(change: impl FnOnce(&mut CertificateParams)) -> Pair {
    let (params, key) = (ca(change), KeyPair::generate().unwrap());
    let pem = params.self_signed(&key).unwrap().pem();
    Pair { params, key, pem }
}

fn below(root: &Pair, change: impl FnOnce(&mut CertificateParams)) -> Pair {
    let (params, key) = (ca(change), KeyPair::generate().unwrap());
    let issuer = Issuer::from_params(&root.params, &root.key);
    let pem = params.signed_by(&key, &issuer).unwrap().pem();
    Pair { params, key, pem }
}

/// Name constraints that permit URIs of one host (RFC 5280, section 4.2.1.10): the library has none for URIs.
fn permitted(host: &str) -> CustomExtension {
    let wrap = |tag: u8, body: &[u8]| [&[tag, u8::try_from(body.len()).unwrap()], body].concat();
    let subtree = wrap(0x30, &wrap(0x86, host.as_bytes()));
    let mut extension =
        CustomExtension::from_oid_content(&[2, 5, 29, 30], wrap(0x30, &wrap(0xa0, &subtree)));
    extension.set_criticality(true);
    extension
}

fn write(dir: &TempDir, files: &[(&str, &str)]) {
    let path = dir.path().join("ca");
    fs::create_dir_all(&path).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o700)).unwrap();
    for (name, text) in files {
        let path = path.join(name);
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    }
}

fn open(root: &str, intermediate: &str, key: &str) -> Result<Arc<Authority>, String> {
    let dir = tempfile::tempdir().unwrap();
    write(
        &dir,
        &[
            ("root.pem", root),
            ("intermediate.pem", intermediate),
            ("intermediate-key.pem", key),
        ],
    );
    Authority::open(config(&dir)).map_err(|e| e.to_string())
}

fn key(pair: &Pair) -> String {
    pair.key.serialize_pem()
}

#[test]
fn a_good_one_issues_and_needs_no_root_key() {
    let root = root(|_| {});
    let middle = below(&root, |_| {});
    let issuing = below(&middle, |p| {
        p.is_ca = IsCa::Ca(BasicConstraints::Constrained(0))
    });
    let chain = format!("{}{}", issuing.pem, middle.pem);
    let ca = open(&root.pem, &chain, &key(&issuing)).unwrap();
    let svid = signed(&ca, Duration::ZERO);
    assert_eq!(svid.chain.matches("BEGIN CERTIFICATE").count(), 3);
    // A root that issues itself will do, too.
    drop(signed(
        &open(&root.pem, &root.pem, &key(&root)).unwrap(),
        Duration::ZERO,
    ));
}

#[test]
fn a_root_with_its_key_is_given_an_intermediate() {
    let root = root(|_| {});
    let dir = tempfile::tempdir().unwrap();
    write(
        &dir,
        &[("root.pem", &root.pem), ("root-key.pem", &key(&root))],
    );
    let ca = Authority::open(config(&dir)).unwrap();
    drop(signed(&ca, Duration::ZERO));
    let bundle = ca.bundle().borrow().pem();
    assert_eq!(bundle.replace('\r', ""), root.pem.replace('\r', ""));
}

#[test]
fn nothing_outlives_what_vouches_for_it() {
    let soon = now() + Duration::from_secs(30);
    let root = root(|_| {});
    let issuing = below(&root, |p| p.not_after = soon);
    let ca = open(&root.pem, &issuing.pem, &key(&issuing)).unwrap();
    assert!(signed(&ca, Duration::ZERO).leaf.not_after <= soon);
    let trouble = ca.status().trouble.unwrap();
    assert!(trouble.contains("ends in 0 h"), "{trouble}");
}

#[test]
fn each_mistake_is_told_with_its_file() {
    let (old, future) = (
        now() - Duration::from_secs(60),
        now() + Duration::from_secs(60),
    );
    let uri = |text: &str| vec![SanType::URI(text.try_into().unwrap())];
    let good = root(|_| {});
    let other = root(|_| {});
    let issuing = below(&good, |_| {});
    let constrained = below(&good, |p| {
        p.custom_extensions = vec![permitted("other.example")]
    });
    let with = |change: &dyn Fn(&mut CertificateParams)| below(&good, |p| change(p));
    let expired = with(&|p| p.not_after = old);
    let early = with(&|p| p.not_before = future);
    let no_ca = with(&|p| p.is_ca = IsCa::ExplicitNoCa);
    let no_sign = with(&|p| p.key_usages = vec![KeyUsagePurpose::DigitalSignature]);
    let foreign = with(&|p| p.subject_alt_names = uri("spiffe://other.example"));
    let foreign_root = root(|p| p.subject_alt_names = uri("spiffe://other.example"));
    let k = key(&issuing);
    for (root, middle, key, file, says) in [
        (
            &good.pem,
            &expired.pem,
            &key(&expired),
            "intermediate.pem",
            "ended at",
        ),
        (
            &good.pem,
            &early.pem,
            &key(&early),
            "intermediate.pem",
            "valid from",
        ),
        (
            &good.pem,
            &no_ca.pem,
            &key(&no_ca),
            "intermediate.pem",
            "not a CA",
        ),
        (
            &good.pem,
            &no_sign.pem,
            &key(&no_sign),
            "intermediate.pem",
            "keyCertSign",
        ),
        (
            &good.pem,
            &foreign.pem,
            &key(&foreign),
            "intermediate.pem",
            "other.example, not for mesh.example",
        ),
        (
            &foreign_root.pem,
            &issuing.pem,
            &k,
            "root.pem",
            "other.example, not for mesh.example",
        ),
        (
            &good.pem,
            &constrained.pem,
            &key(&constrained),
            "intermediate.pem",
            "name constraints permit other.example",
        ),
        (
            &other.pem,
            &issuing.pem,
            &k,
            "intermediate.pem",
            "signed by none of the roots",
        ),
        (
            &good.pem,
            &issuing.pem,
            &key(&other),
            "intermediate-key.pem",
            "does not fit",
        ),
        (
            &good.pem,
            &issuing.pem,
            &"x".to_owned(),
            "intermediate-key.pem",
            "PKCS #8",
        ),
        (
            &good.pem,
            &"x".to_owned(),
            &k,
            "intermediate.pem",
            "no certificate",
        ),
        (
            &"".to_owned(),
            &issuing.pem,
            &k,
            "root.pem",
            "no certificate",
        ),
    ] {
        let error = open(root, middle, key).expect_err(says);
        assert!(
            error.contains(file) && error.contains(says),
            "{says}: {error}"
        );
    }
    let limited = below(&good, |p| {
        p.is_ca = IsCa::Ca(BasicConstraints::Constrained(0))
    });
    let below_it = below(&limited, |_| {});
    let chain = format!("{}{}", below_it.pem, limited.pem);
    let error = open(&good.pem, &chain, &key(&below_it)).expect_err("path length");
    assert!(error.contains("path length 0"), "{error}");
}

#[test]
fn files_that_are_missing_are_named() {
    let root = root(|_| {});
    let issuing = below(&root, |_| {});
    for (files, missing) in [
        (vec![("root.pem", &root.pem)], "intermediate.pem is missing"),
        (
            vec![("intermediate.pem", &issuing.pem)],
            "root.pem is missing",
        ),
        (
            vec![("root.pem", &root.pem), ("intermediate.pem", &issuing.pem)],
            "intermediate-key.pem is missing",
        ),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let files: Vec<(&str, &str)> = files.iter().map(|(n, t)| (*n, t.as_str())).collect();
        write(&dir, &files);
        let error = Authority::open(config(&dir)).unwrap_err().to_string();
        assert!(error.contains(missing), "{error}");
    }
}
