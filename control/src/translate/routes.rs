//! A service port's routes, in the order that the Gateway API gives them.

use std::cmp::Reverse;

use weft_proto::model::route::{
    Forward, Mirror, PathChange, PathMatch, Redirect, RequestMatch, Route, RouteAction, RouteTable,
    Target,
};
use weft_proto::model::{Problem, Protocol, Severity};

use super::{balanced_ports, resource_name};
use crate::model::{Entry, Model};
use crate::object::{
    BackendRef, ObjectName, ObjectRef, PathRewrite, Route as Object, RouteParent, RouteRule,
    RuleAction, RuleForward, Service, ServicePort,
};

/// The routes of a port; `None` if none is attached: then it is no matter of layer 7.
pub(super) fn of_port(
    model: &Model,
    service: &ObjectName,
    port: &ServicePort,
) -> Option<RouteTable> {
    if port.protocol != Protocol::Tcp {
        return None;
    }
    let mut routes: Vec<(Rank, Route)> = Vec::new();
    let mut attached = false;
    for (age, (reference, entry)) in model.routes(service).into_iter().enumerate() {
        let is_meant = |p: &RouteParent| {
            *p.service == *service.name && p.port.is_none_or(|number| number == port.port)
        };
        if !entry.spec.parents.iter().any(is_meant) {
            continue;
        }
        attached = true;
        for (i, rule) in entry.spec.rules.iter().enumerate() {
            for (k, matching) in rule.matches.iter().enumerate() {
                let name = format!("{reference} rules[{i}].matches[{k}]");
                let rank = Rank::of(matching, (age, i, k));
                routes.push((rank, route(model, service, name, rule, matching)));
            }
        }
        // A route without rules has one that matches all, for the service itself.
        if entry.spec.rules.is_empty() {
            let everything = RequestMatch {
                path: PathMatch::Prefix("/".to_owned()),
                method: None,
                headers: Vec::new(),
                query: Vec::new(),
            };
            let rank = Rank::of(&everything, (age, 0, 0));
            let whole = Route {
                name: format!("{reference} rules[]"),
                matching: everything,
                action: RouteAction::Respond(500),
                request_headers: Default::default(),
                response_headers: Default::default(),
            };
            routes.push((rank, whole));
        }
    }
    routes.sort_by(|(a, _), (b, _)| a.cmp(b));
    attached.then(|| RouteTable {
        name: resource_name(service, port.port, port.protocol),
        routes: routes.into_iter().map(|(_, route)| route).collect(),
    })
}

/// Which of two routes that match is asked first: the less one. Exact paths, then expressions, then prefixes, the longer the better; then
/// methods, more headers, more query parameters; then the older route, then the order in which it is written.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Rank {
    path_kind: u8,
    path_length: Reverse<usize>,
    has_method: Reverse<bool>,
    headers: Reverse<usize>,
    query: Reverse<usize>,
    order: (usize, usize, usize),
}

impl Rank {
    fn of(matching: &RequestMatch, order: (usize, usize, usize)) -> Self {
        let (path_kind, path) = match &matching.path {
            PathMatch::Exact(path) => (0, path),
            PathMatch::Regex(path) => (1, path),
            PathMatch::Prefix(path) => (2, path),
        };
        Self {
            path_kind,
            path_length: Reverse(path.len()),
            has_method: Reverse(matching.method.is_some()),
            headers: Reverse(matching.headers.len()),
            query: Reverse(matching.query.len()),
            order,
        }
    }
}

fn route(
    model: &Model,
    service: &ObjectName,
    name: String,
    rule: &RouteRule,
    matching: &RequestMatch,
) -> Route {
    let action = match &rule.action {
        RuleAction::Fail => RouteAction::Respond(500),
        RuleAction::Redirect(to) => RouteAction::Redirect(Redirect {
            scheme: to.scheme.clone(),
            host: to.host.clone(),
            port: to.port,
            path: to.path.as_ref().map(|path| change(path, matching)),
            status: to.status,
        }),
        RuleAction::Forward(to) => forward(model, service, to, matching),
    };
    Route {
        name,
        matching: matching.clone(),
        action,
        request_headers: rule.request_headers.clone(),
        response_headers: rule.response_headers.clone(),
    }
}

fn forward(
    model: &Model,
    service: &ObjectName,
    to: &RuleForward,
    matching: &RequestMatch,
) -> RouteAction {
    let targets: Vec<Target> = to
        .backends
        .iter()
        .filter(|backend| backend.weight > 0)
        .map(|backend| Target {
            cluster: backend
                .target
                .as_ref()
                .and_then(|t| cluster(model, service, t)),
            weight: backend.weight,
            request_headers: backend.request_headers.clone(),
            response_headers: backend.response_headers.clone(),
        })
        .collect();
    if targets.iter().all(|target| target.cluster.is_none()) {
        return RouteAction::Respond(500);
    }
    let mirror = |(target, millionths): &(BackendRef, u32)| {
        Some(Mirror {
            cluster: cluster(model, service, target)?,
            millionths: *millionths,
        })
    };
    RouteAction::Forward(Box::new(Forward {
        targets,
        host: to.host.clone(),
        path: to.path.as_ref().map(|path| change(path, matching)),
        mirrors: to.mirrors.iter().filter_map(mirror).collect(),
        timeout: to.timeout,
        attempt_timeout: to.attempt_timeout,
        retry: to.retry.clone(),
    }))
}

fn change(path: &PathRewrite, matching: &RequestMatch) -> PathChange {
    match (path, &matching.path) {
        (PathRewrite::Prefix(by), PathMatch::Prefix(matched)) => PathChange::Prefix {
            matched: matched.clone(),
            replacement: by.clone(),
        },
        (PathRewrite::Full(by) | PathRewrite::Prefix(by), _) => PathChange::Full(by.clone()),
    }
}

/// Name of the cluster behind a reference, if there is one.
fn cluster(model: &Model, service: &ObjectName, target: &BackendRef) -> Option<String> {
    let name = ObjectName::new(service.namespace.clone(), target.service.clone());
    let spec = &model.service(&name)?.spec;
    tcp_port(spec, target.port)?;
    Some(resource_name(&name, target.port, Protocol::Tcp))
}

fn tcp_port(service: &Service, port: u16) -> Option<&ServicePort> {
    let is_meant = |p: &&ServicePort| p.port == port && p.protocol == Protocol::Tcp;
    balanced_ports(service).iter().find(is_meant)
}

/// What stands between the routes of a service and the rest of the cluster.
pub(super) fn problems(model: &Model, service: &ObjectName) -> Vec<Problem> {
    let mut problems = Vec::new();
    for (reference, entry) in model.routes(service) {
        let mut tell = |field: String, message: String| {
            problems.push(problem(reference, entry, field, message));
        };
        let parents = entry
            .spec
            .parents
            .iter()
            .filter(|p| *p.service == *service.name);
        for parent in parents {
            match (model.service(service), parent.port) {
                (None, _) => tell(
                    parent.field.clone(),
                    format!("Service {service} does not exist (yet)"),
                ),
                (Some(found), Some(port)) if tcp_port(&found.spec, port).is_none() => tell(
                    format!("{}.port", parent.field),
                    format!("Service {service} has no TCP port {port} with an address"),
                ),
                (Some(found), None) if balanced_ports(&found.spec).is_empty() => tell(
                    parent.field.clone(),
                    format!(
                        "Service {service} has no address of its own: its clients find pods by DNS, and nothing is routed"
                    ),
                ),
                _ => {}
            }
        }
        for target in references(&entry.spec) {
            let name = ObjectName::new(service.namespace.clone(), target.service.clone());
            let message = match model.service(&name) {
                None => format!(
                    "Service {name} does not exist (yet): its share of requests is answered with 500"
                ),
                Some(found) if tcp_port(&found.spec, target.port).is_none() => format!(
                    "Service {name} has no TCP port {} with an address: its share of requests is answered with 500",
                    target.port
                ),
                Some(_) => continue,
            };
            tell(target.field.clone(), message);
        }
    }
    problems
}

fn references(route: &Object) -> impl Iterator<Item = &BackendRef> {
    route.rules.iter().flat_map(|rule| {
        let forward = match &rule.action {
            RuleAction::Forward(forward) => Some(forward),
            RuleAction::Redirect(_) | RuleAction::Fail => None,
        };
        forward.into_iter().flat_map(|to| {
            let targets = to.backends.iter().filter_map(|b| b.target.as_ref());
            targets.chain(to.mirrors.iter().map(|(target, _)| target))
        })
    })
}

fn problem(
    reference: &ObjectRef,
    entry: &Entry<Object>,
    field: String,
    message: String,
) -> Problem {
    Problem {
        origin: entry.origin.to_string(),
        object: reference.to_string(),
        field,
        message,
        severity: Severity::Error,
    }
}
