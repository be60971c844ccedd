//! New roots.

use super::*;

const OVERLAP: Duration = Duration::from_secs(60);
const LIFE: Duration = Duration::from_secs(600);

fn trusts(bundle: &TrustBundle, svid: &Svid) -> bool {
    let roots = bundle
        .roots()
        .map(|der| Certificate::read(der.clone()).unwrap());
    let chain = Certificate::all(svid.chain.as_bytes()).unwrap();
    let last = chain.last().unwrap().clone();
    roots.into_iter().any(|root| last.is_signed_by(&root))
}

#[test]
fn whoever_holds_a_certificate_is_trusted_throughout() {
    let dir = tempfile::tempdir().unwrap();
    let ca = Authority::open(config(&dir)).unwrap();
    let (old, first) = (signed(&ca, Duration::ZERO), ca.bundle().borrow().clone());
    stage(&config(&dir).dir, &config(&dir).trust_domain).unwrap();
    let again = stage(&config(&dir).dir, &config(&dir).trust_domain);
    assert!(again.unwrap_err().to_string().contains("under way"));

    ca.look(now());
    let both = ca.bundle().borrow().clone();
    assert_eq!(
        (both.len(), ca.status().rotation),
        (2, "next root is trusted")
    );
    assert!(
        trusts(&first, &signed(&ca, Duration::ZERO)),
        "the new root issues too early"
    );

    ca.look(now() + OVERLAP + Duration::from_secs(1));
    let new = signed(&ca, Duration::ZERO);
    assert_eq!(ca.status().rotation, "old root is still trusted");
    assert!(trusts(&both, &new) && !trusts(&first, &new));
    assert_eq!(*ca.bundle().borrow(), both, "both are trusted");

    let end = now() + OVERLAP + LIFE + make::CLOCK_SKEW + Duration::from_secs(2);
    ca.look(end);
    let last = ca.bundle().borrow().clone();
    assert_eq!((last.len(), ca.status().rotation), (1, "stable"));
    assert!(trusts(&last, &new) && !trusts(&last, &old));
    assert_eq!(
        *Authority::open(config(&dir)).unwrap().bundle().borrow(),
        last
    );
}

/// Whatever step a crash leaves behind, the CA opens, trusts both roots, and gets to the end.
#[test]
fn a_rotation_that_was_interrupted_is_taken_up_again() {
    let whole = tempfile::tempdir().unwrap();
    let ca = Authority::open(config(&whole)).unwrap();
    let path = config(&whole).dir;
    stage(&path, ca.trust_domain()).unwrap();
    let read = |name: &str| fs::read(path.join(name)).unwrap();
    let before: Vec<(&str, Vec<u8>)> = ["root.pem", "root-key.pem", "intermediate.pem"]
        .into_iter()
        .chain(["intermediate-key.pem", "next-root.pem", "next-root-key.pem"])
        .map(|name| (name, read(name)))
        .collect();
    let next = (read("next-root.pem"), read("next-root-key.pem"));
    ca.look(now() + OVERLAP * 2);
    let (old, issuing) = (read("old-roots.pem"), read("intermediate.pem"));
    let issuing_key = read("intermediate-key.pem");
    let steps: [&[(&str, &Vec<u8>)]; 6] = [
        &[("old-roots.pem", &old)],
        &[("intermediate-key.pem.new", &issuing_key)],
        &[("intermediate.pem", &issuing)],
        &[
            ("intermediate-key.pem", &issuing_key),
            ("root-key.pem.new", &next.1),
        ],
        &[("root.pem", &next.0)],
        &[("root-key.pem", &next.1)],
    ];
    for crash in 0..=steps.len() {
        let dir = tempfile::tempdir().unwrap();
        let path = config(&dir).dir;
        drop(Authority::open(config(&dir)).unwrap());
        let files = before.iter().map(|(name, text)| (*name, text));
        let done = steps[..crash].iter().flat_map(|step| step.iter().copied());
        for (name, text) in files.chain(done) {
            let _ = fs::remove_file(path.join(name));
            fs::write(path.join(name), text).unwrap();
            fs::set_permissions(path.join(name), fs::Permissions::from_mode(0o600)).unwrap();
        }
        let ca = Authority::open(config(&dir)).unwrap_or_else(|e| panic!("step {crash}: {e}"));
        assert_eq!(ca.bundle().borrow().len(), 2, "step {crash}");
        ca.look(now() + OVERLAP * 2);
        assert_eq!(ca.status().trouble, None, "step {crash}");
        let svid = signed(&ca, Duration::ZERO);
        let root = TrustBundle::from_pem(&next.0).unwrap();
        assert!(trusts(&root, &svid), "step {crash}");
        assert!(!path.join("next-root.pem").exists(), "step {crash}");
    }
}

#[test]
fn an_intermediate_is_renewed_in_time() {
    let dir = tempfile::tempdir().unwrap();
    let ca = Authority::open(config(&dir)).unwrap();
    let first = ca.issuer();
    ca.look(now() + Duration::from_secs(200 * 86_400));
    assert_eq!(ca.issuer(), first);
    ca.look(now() + Duration::from_secs(250 * 86_400));
    assert_ne!(ca.issuer(), first);
}

#[test]
fn a_root_that_was_brought_is_not_ours_to_rotate() {
    let dir = tempfile::tempdir().unwrap();
    drop(Authority::open(config(&dir)).unwrap());
    fs::remove_file(config(&dir).dir.join("root-key.pem")).unwrap();
    let error = stage(&config(&dir).dir, &config(&dir).trust_domain);
    let error = error.unwrap_err().to_string();
    assert!(error.contains("root-key.pem is not there"), "{error}");
}
