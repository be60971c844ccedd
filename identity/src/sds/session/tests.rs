use weft_proto::envoy::google::protobuf::Any;

use super::*;

fn secrets(all: &[(&str, &str)]) -> Secrets {
    let mut secrets = Secrets::default();
    for (name, value) in all {
        let any = Any {
            type_url: TYPE_URL.to_owned(),
            value: value.as_bytes().to_vec(),
        };
        secrets.insert((*name).to_owned(), any);
    }
    secrets
}

fn delta(subscribe: &[&str], unsubscribe: &[&str]) -> DeltaDiscoveryRequest {
    DeltaDiscoveryRequest {
        type_url: TYPE_URL.to_owned(),
        resource_names_subscribe: subscribe.iter().map(ToString::to_string).collect(),
        resource_names_unsubscribe: unsubscribe.iter().map(ToString::to_string).collect(),
        ..Default::default()
    }
}

fn world(names: &[&str], nonce: &str) -> DiscoveryRequest {
    DiscoveryRequest {
        type_url: TYPE_URL.to_owned(),
        resource_names: names.iter().map(ToString::to_string).collect(),
        response_nonce: nonce.to_owned(),
        ..Default::default()
    }
}

fn names(response: Option<DeltaDiscoveryResponse>) -> (Vec<String>, Vec<String>) {
    let response = response.expect("a response");
    let sent = response.resources.into_iter().map(|r| r.name).collect();
    (sent, response.removed_resources)
}

#[test]
fn delta_sends_what_is_asked_for_when_it_is_there_and_when_it_changes() {
    let mut session = Delta::default();
    session.on_request(delta(&["a", "b"], &[])).unwrap();
    assert!(
        session.next_response(&secrets(&[])).is_none(),
        "not there yet"
    );
    let first = session.next_response(&secrets(&[("a", "1"), ("x", "1")]));
    assert_eq!(names(first), (vec!["a".to_owned()], vec![]));
    assert!(session.next_response(&secrets(&[("a", "1")])).is_none());
    let second = session.next_response(&secrets(&[("a", "2"), ("b", "1")]));
    assert_eq!(names(second).0, ["a", "b"]);
    let third = session.next_response(&secrets(&[("b", "1")]));
    assert_eq!(names(third), (vec![], vec!["a".to_owned()]));
    session.on_request(delta(&[], &["b"])).unwrap();
    assert!(session.next_response(&secrets(&[("b", "2")])).is_none());
    let again = session.on_request(delta(&["a"], &[]));
    again.unwrap();
    assert_eq!(
        names(session.next_response(&secrets(&[("a", "2")]))).0,
        ["a"]
    );
}

#[test]
fn a_client_that_comes_back_gets_what_is_new() {
    let now = secrets(&[("a", "1"), ("b", "1")]);
    let version = format!("{:016x}", now.0["a"].version);
    let mut request = delta(&["a", "b"], &[]);
    request.initial_resource_versions = [("a".to_owned(), version)].into_iter().collect();
    let mut session = Delta::default();
    session.on_request(request).unwrap();
    assert_eq!(names(session.next_response(&now)).0, ["b"]);
}

#[test]
fn the_world_is_sent_whole_and_answers_to_old_ones_are_passed_over() {
    let mut session = World::default();
    session.on_request(world(&["a", "b"], "")).unwrap();
    assert!(session.next_response(&secrets(&[])).is_none());
    let first = session.next_response(&secrets(&[("a", "1")])).unwrap();
    assert_eq!(first.resources.len(), 1);
    let second = session.next_response(&secrets(&[("a", "1"), ("b", "1")]));
    let second = second.unwrap();
    assert_eq!(second.resources.len(), 2);
    session.on_request(world(&["a"], &first.nonce)).unwrap();
    assert_eq!(session.wanted.len(), 2, "that answered the first one");
    session.on_request(world(&["a"], &second.nonce)).unwrap();
    assert!(
        session
            .next_response(&secrets(&[("a", "1"), ("b", "2")]))
            .is_none()
    );
    assert_eq!(
        session
            .next_response(&secrets(&[("a", "3")]))
            .unwrap()
            .resources
            .len(),
        1
    );
}

#[test]
fn other_types_and_floods_of_names_end_the_stream() {
    let mut request = delta(&["a"], &[]);
    request.type_url = "type.googleapis.com/envoy.config.cluster.v3.Cluster".to_owned();
    assert!(Delta::default().on_request(request).is_err());
    let many: Vec<String> = (0..=MAX_NAMES).map(|i| i.to_string()).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    assert!(Delta::default().on_request(delta(&many, &[])).is_err());
    assert!(World::default().on_request(world(&many, "")).is_err());
    let mut session = Delta::default();
    session.on_request(delta(&many[..MAX_NAMES], &[])).unwrap();
    assert!(session.on_request(delta(&["one more"], &[])).is_err());
}
