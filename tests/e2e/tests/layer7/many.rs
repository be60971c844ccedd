//! Thousands of routes, some of them nonsense, one of them changed.

use super::*;
use weft_lab::manifest::documents;

/// Services with routes, beside those of the two servers.
const SERVICES: u16 = 250;
/// Routes of each.
const ROUTES: u16 = 10;
/// Of every how many services one route has an expression that nobody should compile.
const EXPLODES: u16 = 50;

fn name(service: u16) -> String {
    format!("web-{service}")
}

/// Address number of a service: those below are the servers'.
fn index(service: u16) -> u16 {
    service + 10
}

fn route_to(service: u16, route: u16, path: &str, kind: &str, server: &str) -> String {
    format!(
        "---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {{name: web-{service}-{route}, namespace: default}}
spec:
  parentRefs: [{{group: '', kind: Service, name: {}}}]
  rules:
  - matches: [{{path: {{value: '{path}', type: {kind}}}}}]
    backendRefs: [{{name: {server}, port: 80}}]
",
        name(service)
    )
}

fn server_of(service: u16, route: u16) -> &'static str {
    SERVERS[usize::from((service + route) % 2)]
}

fn routes() -> String {
    let mut text = String::new();
    for service in 0..SERVICES {
        for route in 0..ROUTES {
            let server = server_of(service, route);
            text += &route_to(service, route, &format!("/{route}"), "PathPrefix", server);
        }
        if service % EXPLODES == 0 {
            text += &route_to(
                service,
                ROUTES,
                "/(([a-z]{1,100}){1,100}){1,100}",
                "RegularExpression",
                "near",
            );
        }
    }
    text
}

/// Configurations that Envoy has refused.
fn refused(node: &Node) -> Result<u64> {
    let counters = stats::envoy(node)?;
    let sum = |name: &str| -> u64 {
        let of = counters.iter().filter(|(key, _)| key.ends_with(name));
        of.map(|(_, value)| value).sum()
    };
    ensure!(sum("update_success") > 0, "{counters:?}");
    Ok(sum("update_rejected"))
}

#[test]
fn thousands_of_routes_and_expressions_that_explode() -> Result {
    let (mesh, _servers) = start(pods(), &SERVERS)?;
    mesh.service(&service("near", 1), 1)?;
    mesh.service(&service("far", 2), 1)?;
    let all: Vec<String> = (0..SERVICES)
        .map(|i| service(&name(i), index(i)).yaml())
        .collect();
    mesh.apply("many-services", &documents(&all))?;
    mesh.apply("many-routes", &routes())?;

    let client = mesh.pod("client")?;
    let url = |service: u16, path: &str| urls(index(service), path)[0].clone();
    // The last one first: with it all are there.
    for service in [SERVICES - 1, 0, 1, EXPLODES, SERVICES / 2] {
        for route in [0, ROUTES - 1] {
            let answer = wait_status(&client, &url(service, &format!("/{route}/x")), 200)?;
            ensure!(
                answer.server() == server_of(service, route),
                "service {service}, route {route}: {answer:?}"
            );
        }
        let unknown = curl(&client, &url(service, "/none"), &[])?;
        ensure!(unknown.status == 404, "{unknown:?}");
    }

    let status = mesh.status("n1")?;
    let problems = status["problems"].as_array().context("problems")?;
    let told = |of: &str| {
        let of = format!("HTTPRoute default/{of}");
        problems.iter().any(|p| {
            p["object"] == of.as_str() && p["field"] == "spec.rules[0].matches[0].path.value"
        })
    };
    for service in (0..SERVICES).step_by(usize::from(EXPLODES)) {
        let of = format!("web-{service}-{ROUTES}");
        ensure!(told(&of), "nothing is said of {of}: {problems:#?}");
    }

    let turned = SERVICES / 2;
    let other = server_of(turned, 1);
    mesh.apply(
        "many-routes",
        &routes().replace(
            &route_to(turned, 0, "/0", "PathPrefix", server_of(turned, 0)),
            &route_to(turned, 0, "/0", "PathPrefix", other),
        ),
    )?;
    eventually(LONG, || {
        let answer = curl(&client, &url(turned, "/0"), &[])?;
        ensure!(answer.server() == other, "{answer:?}");
        Ok(())
    })?;
    for node in ["n1", "n2"] {
        let node = mesh.lab.node(node)?;
        ensure!(refused(&node)? == 0, "Envoy has refused a configuration");
    }
    Ok(())
}
