//! RBAC as other servers write it: what is taken, and for what; and what is refused, by which field.
#![allow(clippy::unwrap_used, deprecated)]

use weft_proto::convert::decode_policy;
use weft_proto::envoy::envoy::config::core::v3::{CidrRange, TypedExtensionConfig};
use weft_proto::envoy::envoy::config::rbac::v3::permission::{Rule as Permits, Set as Permissions};
use weft_proto::envoy::envoy::config::rbac::v3::principal::{
    Authenticated, Identifier, Set as Principals,
};
use weft_proto::envoy::envoy::config::rbac::v3::rbac::Action;
use weft_proto::envoy::envoy::config::rbac::v3::{
    Permission, Policy as Entry, Principal, Rbac, SourcedMetadata,
};
use weft_proto::envoy::envoy::config::route::v3::HeaderMatcher;
use weft_proto::envoy::envoy::r#type::matcher::v3::metadata_matcher::{
    PathSegment, path_segment::Segment,
};
use weft_proto::envoy::envoy::r#type::matcher::v3::string_matcher::MatchPattern;
use weft_proto::envoy::envoy::r#type::matcher::v3::{
    MetadataMatcher, OrMatcher, PathMatcher, RegexMatcher, StringMatcher, ValueMatcher,
    path_matcher, value_matcher,
};
use weft_proto::envoy::envoy::r#type::v3::Int32Range;
use weft_proto::envoy::google::api::expr::v1alpha1::Expr as Cel;
use weft_proto::envoy::google::protobuf::UInt32Value;
use weft_proto::envoy::xds::core::v3::TypedExtensionConfig as XdsExtension;
use weft_proto::model::policy::{Direction, Effect, Mode, Policy, Tier};
use weft_proto::wire::policy::v1 as wire;

fn who(identifier: Identifier) -> Principal {
    Principal {
        identifier: Some(identifier),
    }
}

fn what(rule: Permits) -> Permission {
    Permission { rule: Some(rule) }
}

fn range(address: &str, prefix: Option<u32>) -> CidrRange {
    CidrRange {
        address_prefix: address.to_owned(),
        prefix_len: prefix.map(|value| UInt32Value { value }),
    }
}

fn text(pattern: MatchPattern) -> StringMatcher {
    StringMatcher {
        ignore_case: false,
        match_pattern: Some(pattern),
    }
}

fn exact(text_: &str) -> value_matcher::MatchPattern {
    value_matcher::MatchPattern::StringMatch(text(MatchPattern::Exact(text_.to_owned())))
}

fn metadata(filter: &str, path: &[&str], value: value_matcher::MatchPattern) -> MetadataMatcher {
    MetadataMatcher {
        filter: filter.to_owned(),
        path: path
            .iter()
            .map(|key| PathSegment {
                segment: Some(Segment::Key((*key).to_owned())),
            })
            .collect(),
        value: Some(ValueMatcher {
            match_pattern: Some(value),
        }),
        invert: false,
    }
}

fn sourced(matcher: MetadataMatcher) -> SourcedMetadata {
    SourcedMetadata {
        metadata_matcher: Some(matcher),
        metadata_source: 1,
    }
}

fn policy(entry: Entry) -> wire::Policy {
    wire::Policy {
        name: "p".to_owned(),
        rules: Some(Rbac {
            policies: [("r".to_owned(), entry)].into(),
            ..Rbac::default()
        }),
        ..wire::Policy::default()
    }
}

fn entry(principal: Principal, permission: Permission) -> Entry {
    Entry {
        permissions: vec![permission],
        principals: vec![principal],
        ..Entry::default()
    }
}

fn any_permission() -> Permission {
    what(Permits::Any(true))
}

fn any_principal() -> Principal {
    who(Identifier::Any(true))
}

#[track_caller]
fn source(identifier: Identifier, expected: &str) {
    let policy = decode_policy(&policy(entry(who(identifier), any_permission()))).unwrap();
    assert_eq!(policy.rules["r"].source.to_string(), expected);
}

#[track_caller]
fn destination(rule: Permits, expected: &str) {
    let policy = decode_policy(&policy(entry(any_principal(), what(rule)))).unwrap();
    assert_eq!(policy.rules["r"].destination.to_string(), expected);
}

#[track_caller]
fn refused(policy: &wire::Policy, field: &str) {
    assert_eq!(decode_policy(policy).unwrap_err().field, field);
}

#[track_caller]
fn refused_source(identifier: Identifier, field: &str) {
    refused(
        &policy(entry(who(identifier), any_permission())),
        &format!("rules.policies[\"r\"].principals[0].{field}"),
    );
}

#[track_caller]
fn refused_destination(rule: Permits, field: &str) {
    refused(
        &policy(entry(any_principal(), what(rule))),
        &format!("rules.policies[\"r\"].permissions[0].{field}"),
    );
}

#[test]
fn what_is_not_set_has_a_meaning() {
    let Policy {
        selector,
        direction,
        tier,
        mode,
        effect,
        ..
    } = decode_policy(&policy(entry(any_principal(), any_permission()))).unwrap();
    assert_eq!(selector.to_string(), "all pods");
    assert_eq!(
        (direction, tier, mode, effect),
        (Direction::Ingress, Tier::Mesh, Mode::Enforce, Effect::Allow)
    );
}

#[test]
fn sources() {
    let id = |pattern| {
        Identifier::Authenticated(Authenticated {
            principal_name: Some(text(pattern)),
        })
    };
    source(
        id(MatchPattern::Exact("spiffe://td/ns/a/sa/b".to_owned())),
        "SPIFFE ID \"spiffe://td/ns/a/sa/b\"",
    );
    source(
        id(MatchPattern::SafeRegex(RegexMatcher {
            regex: "spiffe://.*/sa/b".to_owned(),
            ..RegexMatcher::default()
        })),
        "SPIFFE ID /spiffe://.*/sa/b/",
    );
    source(
        Identifier::Authenticated(Authenticated::default()),
        "SPIFFE ID \"\"…",
    );
    for identifier in [
        Identifier::SourceIp,
        Identifier::DirectRemoteIp,
        Identifier::RemoteIp,
    ] {
        source(identifier(range("10.1.2.3", Some(8))), "10.0.0.0/8");
    }
    source(Identifier::DirectRemoteIp(range("::", None)), "::/0");
    source(
        Identifier::RemoteIp(range("::ffff:10.1.2.3", Some(112))),
        "10.1.0.0/16",
    );
    let both = vec![
        any_principal(),
        who(Identifier::NotId(Box::new(any_principal()))),
    ];
    source(
        Identifier::AndIds(Principals { ids: both.clone() }),
        "all(any, not(any))",
    );
    source(
        Identifier::OrIds(Principals { ids: both }),
        "one of(any, not(any))",
    );
}

#[test]
fn destinations() {
    destination(
        Permits::DestinationIp(range("fd00::1", Some(128))),
        "fd00::1/128",
    );
    destination(Permits::DestinationPort(80), "port 80");
    // The end is not part of Envoy's range.
    let ports = |start, end| Permits::DestinationPortRange(Int32Range { start, end });
    destination(ports(80, 81), "port 80");
    destination(ports(0, 65_536), "ports 0-65535");
    let both = vec![
        any_permission(),
        what(Permits::NotRule(Box::new(any_permission()))),
    ];
    destination(
        Permits::AndRules(Permissions {
            rules: both.clone(),
        }),
        "all(any, not(any))",
    );
    destination(
        Permits::OrRules(Permissions { rules: both }),
        "one of(any, not(any))",
    );
    for (start, end) in [(-1, 5), (5, 5), (6, 5), (0, 65_537), (i32::MIN, i32::MIN)] {
        refused_destination(ports(start, end), "destination_port_range");
    }
    refused_destination(Permits::DestinationPort(65_536), "destination_port");
}

#[test]
fn metadata_of_weft_in_both_fields() {
    let namespace = || metadata("weft", &["namespace"], exact("shop"));
    source(Identifier::Metadata(namespace()), "namespace \"shop\"");
    source(
        Identifier::SourcedMetadata(sourced(namespace())),
        "namespace \"shop\"",
    );
    destination(Permits::Metadata(namespace()), "namespace \"shop\"");
    let mut inverted = namespace();
    inverted.invert = true;
    source(Identifier::Metadata(inverted), "not(namespace \"shop\")");
    let of =
        |path: &[&str], value| Permits::SourcedMetadata(sourced(metadata("weft", path, value)));
    destination(of(&["protocol"], exact("SCTP")), "SCTP");
    destination(of(&["portName"], exact("web")), "port \"web\"");
    destination(of(&["kind"], exact("Node")), "a node");
    destination(of(&["labels", "app"], exact("x")), "label app \"x\"");
    destination(
        of(
            &["labels", "app"],
            value_matcher::MatchPattern::PresentMatch(true),
        ),
        "label app",
    );
    refused_destination(
        of(&["protocol"], exact("tcp")),
        "sourced_metadata.metadata_matcher.value.string_match.exact",
    );
    refused_destination(
        of(&["team"], exact("x")),
        "sourced_metadata.metadata_matcher.path",
    );
    let present = value_matcher::MatchPattern::PresentMatch;
    destination(of(&["namespace"], present(true)), "namespace \"\"…");
    refused_destination(
        of(&["namespace"], present(false)),
        "sourced_metadata.metadata_matcher.value",
    );
    // Only a destination has them.
    for path in ["protocol", "portName"] {
        refused_source(
            Identifier::Metadata(metadata("weft", &[path], exact("TCP"))),
            "metadata.path",
        );
    }
    refused_source(
        Identifier::Metadata(metadata(
            "weft",
            &["namespace"],
            value_matcher::MatchPattern::OrMatch(OrMatcher::default()),
        )),
        "metadata.value",
    );
}

#[test]
fn what_only_a_proxy_sees() {
    let header = || HeaderMatcher {
        name: ":path".to_owned(),
        ..HeaderMatcher::default()
    };
    let extension = || TypedExtensionConfig {
        name: "x".to_owned(),
        ..TypedExtensionConfig::default()
    };
    source(Identifier::Header(header()), "header :path");
    let path = PathMatcher {
        rule: Some(path_matcher::Rule::Path(text(MatchPattern::Exact(
            "/x".to_owned(),
        )))),
    };
    source(Identifier::UrlPath(path), "path \"/x\"");
    refused_source(Identifier::UrlPath(PathMatcher::default()), "url_path.path");
    source(
        Identifier::Custom(extension()),
        "layer 7 (custom principal x)",
    );
    source(
        Identifier::Metadata(metadata("istio_authn", &["a"], exact("b"))),
        "layer 7 (metadata of istio_authn)",
    );
    source(
        Identifier::Authenticated(Authenticated {
            principal_name: Some(text(MatchPattern::Custom(XdsExtension {
                name: "lua".to_owned(),
                ..XdsExtension::default()
            }))),
        }),
        "layer 7 (string matcher lua)",
    );
    destination(Permits::Header(header()), "header :path");
    destination(Permits::UriTemplate(extension()), "layer 7 (URI template)");
    destination(Permits::Matcher(extension()), "layer 7 (matcher x)");
    destination(
        Permits::RequestedServerName(StringMatcher::default()),
        "layer 7 (TLS server name)",
    );
    let mut with_condition = entry(any_principal(), any_permission());
    with_condition.condition = Some(Cel::default());
    let policy = decode_policy(&policy(with_condition)).unwrap();
    assert_eq!(
        policy.rules["r"].source.to_string(),
        "all(any, layer 7 (CEL condition))"
    );
}

#[test]
fn what_would_be_half_understood() {
    refused_source(Identifier::Any(false), "any");
    refused_source(Identifier::AndIds(Principals::default()), "and_ids.ids");
    refused_source(Identifier::OrIds(Principals::default()), "or_ids.ids");
    let nobody = vec![Principal { identifier: None }];
    refused_source(
        Identifier::OrIds(Principals { ids: nobody }),
        "or_ids.ids[0]",
    );
    refused_source(
        Identifier::SourceIp(range("10.0.0.0", Some(33))),
        "source_ip.prefix_len",
    );
    refused_source(
        Identifier::SourceIp(range("example.com", Some(8))),
        "source_ip.address_prefix",
    );
    let bad_regex = MatchPattern::SafeRegex(RegexMatcher {
        regex: "(".to_owned(),
        ..RegexMatcher::default()
    });
    refused_source(
        Identifier::Authenticated(Authenticated {
            principal_name: Some(text(bad_regex)),
        }),
        "authenticated.principal_name.safe_regex.regex",
    );
    refused(
        &policy(Entry {
            principals: vec![any_principal()],
            ..Entry::default()
        }),
        "rules.policies[\"r\"].permissions",
    );
    refused(
        &policy(Entry {
            permissions: vec![any_permission()],
            ..Entry::default()
        }),
        "rules.policies[\"r\"].principals",
    );
}

#[test]
fn outsides() {
    let good = || policy(entry(any_principal(), any_permission()));
    let refused = |change: fn(&mut wire::Policy), field: &str| {
        let mut pb = good();
        change(&mut pb);
        refused(&pb, field);
    };
    refused(|p| p.name.clear(), "name");
    refused(|p| p.rules = None, "rules");
    refused(|p| p.direction = 9, "direction");
    refused(|p| p.tier = 9, "tier");
    refused(|p| p.mode = 9, "mode");
    refused(|p| p.pass = true, "pass");
    let action = |p: &mut wire::Policy, action| p.rules.as_mut().unwrap().action = action;
    let mut log = good();
    action(&mut log, Action::Log as i32);
    let error = decode_policy(&log).unwrap_err();
    assert_eq!(error.field, "rules.action");
    assert!(error.reason.contains("AUDIT"), "{error}");
    let mut newer = good();
    action(&mut newer, 9);
    assert_eq!(decode_policy(&newer).unwrap_err().field, "rules.action");
    let mut denying = good();
    action(&mut denying, Action::Deny as i32);
    assert_eq!(decode_policy(&denying).unwrap().effect, Effect::Deny);
    denying.tier = wire::Tier::Namespace as i32;
    assert_eq!(decode_policy(&denying).unwrap_err().field, "rules.action");

    refused(
        |p| {
            p.selector = Some(wire::Selector {
                namespaces: vec!["a".to_owned()],
                no_namespace: true,
                ..wire::Selector::default()
            });
        },
        "selector.no_namespace",
    );
    let requirement = |operator: wire::Operator, values: &[&str]| wire::LabelRequirement {
        key: "app".to_owned(),
        operator: operator as i32,
        values: values.iter().map(|v| (*v).to_owned()).collect(),
    };
    for (bad, field) in [
        (requirement(wire::Operator::Unspecified, &[]), "operator"),
        (requirement(wire::Operator::In, &[]), "values"),
        (requirement(wire::Operator::Exists, &["a"]), "values"),
    ] {
        let mut pb = good();
        pb.selector = Some(wire::Selector {
            labels: vec![bad],
            ..wire::Selector::default()
        });
        assert_eq!(
            decode_policy(&pb).unwrap_err().field,
            format!("selector.labels[0].{field}")
        );
    }
}
