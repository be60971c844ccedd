//! CAs of our own, CAs that somebody brought, and what they sign.

mod brought;
mod rotation;

use std::fs;
use std::os::unix::fs::PermissionsExt;

use tempfile::TempDir;
use weft_identity::Svid;
use weft_identity::certificate::Certificate;
use weft_identity::request::KeyRequest;

use super::issue::Request;
use super::*;

const ID: &str = "spiffe://mesh.example/ns/shop/sa/cart";

fn config(dir: &TempDir) -> CaConfig {
    CaConfig {
        dir: dir.path().join("ca"),
        trust_domain: "mesh.example".parse().unwrap(),
        svid_life: Duration::from_secs(600),
        root_overlap: Duration::from_secs(60),
    }
}

fn now() -> OffsetDateTime {
    OffsetDateTime::now_utc()
}

fn signed(ca: &Authority, life: Duration) -> Svid {
    let made = KeyRequest::new(&ID.parse().unwrap()).unwrap();
    let request = Request::read(&made.csr).unwrap();
    let answer = ca.sign(&request, life, now()).unwrap().concat();
    Svid::accept(ID.parse().unwrap(), made.key, &answer)
        .unwrap()
        .0
}

fn mode(path: &std::path::Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[test]
fn an_empty_folder_is_given_a_ca_that_stays() {
    let dir = tempfile::tempdir().unwrap();
    let first = Authority::open(config(&dir)).unwrap();
    let path = dir.path().join("ca");
    assert_eq!(mode(&path), 0o700);
    for key in ["root-key.pem", "intermediate-key.pem"] {
        assert_eq!(mode(&path.join(key)), 0o600, "{key}");
    }
    let again = Authority::open(config(&dir)).unwrap();
    assert_eq!(*first.bundle().borrow(), *again.bundle().borrow());
    assert_eq!(first.issuer(), again.issuer());
}

#[test]
fn control_planes_that_start_at_once_agree_on_one_ca() {
    let dir = tempfile::tempdir().unwrap();
    let open = || Authority::open(config(&dir)).unwrap().issuer();
    let all: Vec<String> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(open)).collect();
        threads.into_iter().map(|t| t.join().unwrap()).collect()
    });
    assert!(all.iter().all(|issuer| *issuer == all[0]), "{all:?}");
}

#[test]
fn svids_are_what_the_standard_says() {
    let dir = tempfile::tempdir().unwrap();
    let ca = Authority::open(config(&dir)).unwrap();
    let svid = signed(&ca, Duration::ZERO);
    let leaf = &svid.leaf;
    assert_eq!(leaf.uris, [ID]);
    assert!(leaf.dns_names.is_empty() && !leaf.is_ca && !leaf.may_sign());
    let life = leaf.not_after - now();
    assert!(life <= Duration::from_secs(600) && life > Duration::from_secs(590));
    assert!(leaf.not_before <= now() - make::CLOCK_SKEW + Duration::from_secs(10));
    // Shorter on request, never longer.
    let left = |svid: Svid| svid.left(now());
    assert!(left(signed(&ca, Duration::from_secs(5))) <= Duration::from_secs(5));
    assert!(left(signed(&ca, Duration::from_secs(9_000_000))) <= Duration::from_secs(600));
    assert_ne!(signed(&ca, Duration::ZERO).leaf.serial, leaf.serial);
    for ca in Certificate::all(svid.chain.as_bytes())
        .unwrap()
        .iter()
        .skip(1)
    {
        assert_eq!(ca.uris, ["spiffe://mesh.example"]);
        assert_eq!(ca.path_len, Some(0));
    }
}

#[test]
fn nothing_of_a_request_counts_but_its_key_and_one_name() {
    use rcgen::{BasicConstraints, CertificateParams, IsCa, KeyPair, SanType};
    let key = KeyPair::generate().unwrap();
    let csr = |sans: &[SanType]| {
        let mut params = CertificateParams::default();
        params.subject_alt_names = sans.to_vec();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.serialize_request(&key).unwrap().pem().unwrap()
    };
    let uri = |text: &str| SanType::URI(text.try_into().unwrap());
    let dir = tempfile::tempdir().unwrap();
    let ca = Authority::open(config(&dir)).unwrap();
    let request = Request::read(&csr(&[uri(ID)])).unwrap();
    let answer = ca.sign(&request, Duration::ZERO, now()).unwrap();
    let leaf = &Certificate::all(answer[0].as_bytes()).unwrap()[0];
    assert!(!leaf.is_ca, "it asked for a CA");
    let dns = SanType::DnsName("control.weft.internal".try_into().unwrap());
    for bad in [
        csr(&[]),
        csr(&[uri(ID), uri(ID)]),
        csr(&[uri(ID), dns.clone()]),
        csr(&[dns]),
        csr(&[uri("spiffe://mesh.example")]),
        csr(&[uri("https://mesh.example/ns/shop/sa/cart")]),
        "-----BEGIN CERTIFICATE REQUEST-----\nAAAA\n-----END CERTIFICATE REQUEST-----\n".to_owned(),
        String::new(),
        "x".repeat(100_000),
    ] {
        assert!(Request::read(&bad).is_err(), "{bad}");
    }
    // Another's key, signed over by nobody: the signature does not fit.
    let good = csr(&[uri(ID)]);
    let mut der = pem_bytes(&good);
    let last = der.len() - 3;
    der[last] ^= 1;
    assert!(Request::read(&to_pem("CERTIFICATE REQUEST", der)).is_err());
}

fn pem_bytes(text: &str) -> Vec<u8> {
    ::pem::parse(text).unwrap().contents().to_vec()
}

fn to_pem(tag: &str, der: Vec<u8>) -> String {
    ::pem::encode(&::pem::Pem::new(tag, der))
}

#[test]
fn keys_that_others_can_read_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    drop(Authority::open(config(&dir)).unwrap());
    let path = dir.path().join("ca");
    let key = path.join("intermediate-key.pem");
    fs::set_permissions(&key, fs::Permissions::from_mode(0o644)).unwrap();
    let error = Authority::open(config(&dir)).unwrap_err().to_string();
    assert!(
        error.contains("chmod 600") && error.contains("intermediate-key.pem"),
        "{error}"
    );
    fs::set_permissions(&key, fs::Permissions::from_mode(0o600)).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    let error = Authority::open(config(&dir)).unwrap_err().to_string();
    assert!(error.contains("chmod 700"), "{error}");
}

#[test]
fn files_that_break_while_it_runs_change_nothing_and_are_told() {
    let dir = tempfile::tempdir().unwrap();
    let ca = Authority::open(config(&dir)).unwrap();
    let path = dir.path().join("ca/intermediate.pem");
    let good = fs::read(&path).unwrap();
    fs::write(&path, "broken").unwrap();
    ca.look(now());
    let trouble = ca.status().trouble.unwrap();
    assert!(trouble.contains("intermediate.pem"), "{trouble}");
    drop(signed(&ca, Duration::ZERO));
    fs::write(&path, good).unwrap();
    ca.look(now());
    assert_eq!(ca.status().trouble, None);
}
