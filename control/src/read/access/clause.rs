//! Fields of a rule of AuthorizationPolicy.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;
use weft_proto::model::policy::{Match, Pattern, StringMatch};

use super::part;
use super::request::{self, header_name};
use crate::object::{Clause, Side};
use crate::read::cidr;
use crate::read::findings::Findings;
use crate::read::names::shown;

const SPIFFE: &str = "spiffe://";

/// What the values of a field are.
#[derive(Clone, Copy)]
enum Attribute {
    SourcePrincipal,
    SourceNamespace,
    SourceAccount,
    SourceAddress,
    DestinationAddress,
    DestinationPort,
    RequestHost,
    RequestMethod,
    RequestPath,
    /// `request.headers[NAME]`
    RequestHeader,
    /// Something that nobody here sees.
    Layer7(Side),
}

/// Each with its opposite.
const SOURCE: [(&str, &str, Attribute); 6] = [
    ("principals", "notPrincipals", Attribute::SourcePrincipal),
    ("namespaces", "notNamespaces", Attribute::SourceNamespace),
    (
        "serviceAccounts",
        "notServiceAccounts",
        Attribute::SourceAccount,
    ),
    ("ipBlocks", "notIpBlocks", Attribute::SourceAddress),
    // From a header that only a proxy reads.
    (
        "remoteIpBlocks",
        "notRemoteIpBlocks",
        Attribute::Layer7(Side::Source),
    ),
    (
        "requestPrincipals",
        "notRequestPrincipals",
        Attribute::Layer7(Side::Source),
    ),
];

const OPERATION: [(&str, &str, Attribute); 4] = [
    ("ports", "notPorts", Attribute::DestinationPort),
    ("hosts", "notHosts", Attribute::RequestHost),
    ("methods", "notMethods", Attribute::RequestMethod),
    ("paths", "notPaths", Attribute::RequestPath),
];

const CONDITIONS: [(&str, Attribute); 6] = [
    ("source.principal", Attribute::SourcePrincipal),
    ("source.namespace", Attribute::SourceNamespace),
    ("source.serviceAccount", Attribute::SourceAccount),
    ("source.ip", Attribute::SourceAddress),
    ("destination.ip", Attribute::DestinationAddress),
    ("destination.port", Attribute::DestinationPort),
];

impl Attribute {
    const fn side(self) -> Side {
        match self {
            Self::SourcePrincipal
            | Self::SourceNamespace
            | Self::SourceAccount
            | Self::SourceAddress => Side::Source,
            Self::DestinationAddress
            | Self::DestinationPort
            | Self::RequestHost
            | Self::RequestMethod
            | Self::RequestPath
            | Self::RequestHeader => Side::Destination,
            Self::Layer7(side) => side,
        }
    }
}

/// `from[].source`; `None` when anything in it is bad.
pub(super) fn source(
    value: &Value,
    path: &str,
    namespace: &str,
    findings: &mut Findings,
) -> Option<Vec<Clause>> {
    fields(value, path, namespace, &SOURCE, findings)
}

/// `to[].operation`; `None` when anything in it is bad.
pub(super) fn operation(value: &Value, path: &str, findings: &mut Findings) -> Option<Vec<Clause>> {
    fields(value, path, "", &OPERATION, findings)
}

fn fields(
    value: &Value,
    path: &str,
    namespace: &str,
    known: &[(&str, &str, Attribute)],
    findings: &mut Findings,
) -> Option<Vec<Clause>> {
    let names: Vec<&str> = known.iter().flat_map(|(is, not, _)| [*is, *not]).collect();
    if !part::only(value, &names, path, findings) {
        return None;
    }
    let mut given: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for name in names {
        if let Some(found) = part::field(value, name) {
            let texts = part::read(found, &format!("{path}.{name}"), findings)?;
            given.insert(name, texts);
        }
    }
    if given.values().all(Vec::is_empty) {
        findings.invalid(path, "is empty: name at least one thing to match");
        return None;
    }
    let mut clauses = Vec::new();
    for (is, not, attribute) in known {
        let texts = |name: &str| given.get(name).map_or(&[][..], Vec::as_slice);
        let lists = Lists {
            name: is,
            one_of: (format!("{path}.{is}"), texts(is)),
            none_of: (format!("{path}.{not}"), texts(not)),
        };
        clauses.extend(clause(*attribute, &lists, namespace, findings)?);
    }
    Some(clauses)
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct ConditionShape {
    key: String,
    values: Option<Vec<String>>,
    not_values: Option<Vec<String>>,
}

/// `when[]`; `None` when anything in it is bad.
pub(super) fn condition(
    value: &Value,
    path: &str,
    namespace: &str,
    findings: &mut Findings,
) -> Option<Clause> {
    let shape: ConditionShape = part::read(value, path, findings)?;
    let known = CONDITIONS.iter().find(|(key, _)| *key == shape.key);
    let attribute = match known {
        Some((_, attribute)) => *attribute,
        None if header_name(&shape.key).is_some() => Attribute::RequestHeader,
        // Tokens, TLS server names: whatever it is, nobody here sees it.
        None => Attribute::Layer7(Side::Source),
    };
    let (is, not) = (
        shape.values.unwrap_or_default(),
        shape.not_values.unwrap_or_default(),
    );
    let lists = Lists {
        name: &shape.key,
        one_of: (format!("{path}.values"), &is),
        none_of: (format!("{path}.notValues"), &not),
    };
    let clause = clause(attribute, &lists, namespace, findings)?;
    if clause.is_none() {
        findings.invalid(path, "has neither values nor notValues");
    }
    clause
}

/// Both lists of a field, each with its path.
struct Lists<'a> {
    name: &'a str,
    one_of: (String, &'a [String]),
    none_of: (String, &'a [String]),
}

/// `Some(None)` when nothing is asked for, `None` when something is bad.
fn clause(
    attribute: Attribute,
    lists: &Lists<'_>,
    namespace: &str,
    findings: &mut Findings,
) -> Option<Option<Clause>> {
    let side = attribute.side();
    if lists.one_of.1.is_empty() && lists.none_of.1.is_empty() {
        return Some(None);
    }
    if matches!(attribute, Attribute::Layer7(_)) {
        for (path, _) in [&lists.one_of, &lists.none_of]
            .into_iter()
            .filter(|(_, texts)| !texts.is_empty())
        {
            findings.warn(
                path,
                "is nothing that the kernel or Envoy can tell here: what depends on it is refused",
            );
        }
        return Some(Some(Clause {
            side,
            one_of: vec![Match::Layer7(lists.name.to_owned())],
            none_of: Vec::new(),
        }));
    }
    let mut all = |(path, texts): &(String, &[String])| {
        let mut good = Vec::with_capacity(texts.len());
        for (i, text) in texts.iter().enumerate() {
            match meaning(attribute, lists.name, text, namespace) {
                Ok(matches) => good.push(matches),
                Err(message) => findings.invalid(format!("{path}[{i}]"), message),
            }
        }
        (good.len() == texts.len()).then_some(good)
    };
    let (one_of, none_of) = (all(&lists.one_of), all(&lists.none_of));
    Some(Some(Clause {
        side,
        one_of: one_of?,
        none_of: none_of?,
    }))
}

/// `name` is that of the field.
fn meaning(attribute: Attribute, name: &str, text: &str, namespace: &str) -> Result<Match, String> {
    match attribute {
        Attribute::RequestHost => request::host(text),
        Attribute::RequestMethod => request::method(text),
        Attribute::RequestPath => request::path(text),
        Attribute::RequestHeader => request::header(name, text),
        Attribute::SourcePrincipal => pattern(text, SPIFFE).map(Match::SpiffeId),
        Attribute::SourceNamespace => pattern(text, "").map(Match::Namespace),
        Attribute::SourceAccount => account(text, namespace),
        Attribute::SourceAddress | Attribute::DestinationAddress => {
            cidr::range_or_address(text).map(Match::Address)
        }
        Attribute::DestinationPort => port(text),
        Attribute::Layer7(_) => Ok(Match::Layer7(text.to_owned())),
    }
}

/// "abc", "abc*", "*abc", or "*" for whatever is there at all. What is compared begins with `scheme`, which the pattern leaves out.
pub(super) fn pattern(text: &str, scheme: &str) -> Result<StringMatch, String> {
    if text.is_empty() {
        return Err("is empty, which nothing is".to_owned());
    }
    if text == "*" {
        return Ok(StringMatch::anything());
    }
    let pattern = if let Some(suffix) = text.strip_prefix('*') {
        Pattern::Suffix(suffix.to_owned())
    } else if let Some(prefix) = text.strip_suffix('*') {
        Pattern::Prefix(format!("{scheme}{prefix}"))
    } else {
        Pattern::Exact(format!("{scheme}{text}"))
    };
    Ok(StringMatch {
        pattern,
        ignore_case: false,
    })
}

/// "namespace/account", or "account" of the policy's own namespace. It is a part of the SPIFFE ID.
fn account(text: &str, namespace: &str) -> Result<Match, String> {
    let (namespace, account) = text.split_once('/').unwrap_or((namespace, text));
    if namespace.is_empty() || account.is_empty() || account.contains('/') || text.contains('*') {
        return Err(format!(
            "{} is not a service account: write \"namespace/name\", or \"name\" for this namespace",
            shown(text)
        ));
    }
    Ok(Match::SpiffeId(StringMatch {
        pattern: Pattern::Suffix(format!("/ns/{namespace}/sa/{account}")),
        ignore_case: false,
    }))
}

fn port(text: &str) -> Result<Match, String> {
    text.parse::<u16>()
        .ok()
        .filter(|port| *port != 0 && !text.starts_with('+'))
        .map(|port| Match::Ports(port, port))
        .ok_or_else(|| format!("{} is not a port: give \"1\" to \"65535\"", shown(text)))
}
