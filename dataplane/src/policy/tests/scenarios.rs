//! Single histories, told in full.

use std::net::IpAddr;

use prost::Message;
use weft_proto::model::policy::{Direction, Expr, Mode};

use super::evaluate::Port;
use super::kernel::{Answer, Kernel, Sizes};
use super::world::{Node, World, in_cidr, ip, node, pod, policy, tcp};
use crate::tables::policy::{IdentityNumber, RuleReason, Verdict};

const WEB: u32 = 11;

fn ingress(kernel: &Kernel, peer: &str, port: Port) -> Option<Answer> {
    kernel.judge(Direction::Ingress, WEB, ip(peer), port.point())
}

fn number(kernel: &Kernel, address: &str) -> Option<IdentityNumber> {
    let address: IpAddr = ip(address);
    kernel
        .identities
        .with(|m| m.get(&address).map(|entry| entry.number))
}

/// shop/web here at 10.0.1.1, with two clients elsewhere.
fn shop() -> World {
    let mut world = World::new(Verdict::Allow);
    let mut add = |workload: weft_proto::model::Workload| {
        world.workloads.insert(workload.name.clone(), workload);
    };
    add(node("here", "10.0.0.1"));
    add(node("there", "10.0.0.2"));
    add(pod("shop/web", "10.0.1.1", "app=web"));
    for (name, address, labels) in [
        ("shop/cart", "10.0.2.1", "app=cart"),
        ("shop/cart-2", "10.0.2.2", "app=cart"),
        ("evil/spy", "10.0.2.3", "app=spy"),
    ] {
        let mut client = pod(name, address, labels);
        client.node = "there".to_owned();
        add(client);
    }
    world.interfaces.insert(ip("10.0.1.1"), WEB);
    world
}

#[test]
fn a_pod_is_shut_until_everything_is_known() {
    let kernel = Kernel::new(Sizes::AMPLE);
    let world = shop();
    let mut node = Node::starting(&kernel, &world);
    for (name, workload) in &world.workloads {
        node.engine.set_workload(name, workload.clone());
    }
    node.engine.set_interfaces(world.interfaces());
    node.engine.apply();
    assert_eq!(ingress(&kernel, "10.0.2.1", tcp(80)), None);
    node.engine.set_synced();
    node.engine.apply();
    let answer = ingress(&kernel, "10.0.2.1", tcp(80)).expect("ready");
    assert_eq!(answer.reason, RuleReason::Default);
}

#[test]
fn a_refusal_names_the_policy_that_selects() {
    let kernel = Kernel::new(Sizes::AMPLE);
    let mut world = shop();
    let mut node = Node::started(&kernel, &world);
    let allow = policy(
        "shop/allow",
        Direction::Ingress,
        &[("r0", in_cidr("10.0.2.1/32"), Expr::Any)],
    );
    node.set_policy(&mut world, allow);
    let answer = ingress(&kernel, "10.0.2.3", tcp(80)).expect("ready");
    assert_eq!(
        (answer.verdict, answer.reason),
        (Verdict::Deny, RuleReason::Isolated)
    );
    let rule = node.engine.rule(answer.rule).expect("named");
    assert_eq!(
        (rule.policy.as_str(), rule.rule.as_str()),
        ("shop/allow", "")
    );
    let view = node.engine.policies(None);
    assert_eq!(view.rows[0].workloads, ["pod/shop/web"]);
    assert_eq!(view.rows[0].problem, None);
}

#[test]
fn a_policy_that_cannot_be_read_refuses_whom_it_selects() {
    let kernel = Kernel::new(Sizes::AMPLE);
    let mut world = shop();
    let mut node = Node::started(&kernel, &world);
    let verdict = |peer: &str| ingress(&kernel, peer, tcp(80)).expect("ready").verdict;
    let allow = policy(
        "shop/p",
        Direction::Ingress,
        &[("r0", in_cidr("10.0.2.1/32"), Expr::Any)],
    );
    let mut message = weft_proto::convert::encode_policy(&allow);
    message.tier = 77;
    let closed = || weft_proto::convert::closed_policies("shop/p", &message.encode_to_vec());

    node.engine.close_policy("shop/p", closed());
    node.engine.apply();
    let answer = ingress(&kernel, "10.0.2.1", tcp(80)).expect("ready");
    let rule = node.engine.rule(answer.rule).expect("named");
    assert_eq!(
        (answer.verdict, rule.rule.as_str()),
        (Verdict::Deny, "unreadable")
    );
    assert_eq!(node.engine.names().collect::<Vec<_>>(), ["shop/p"]);
    // It is about one direction.
    let out = kernel.judge(Direction::Egress, WEB, ip("10.0.2.1"), tcp(80).point());
    assert_eq!(out.expect("ready").verdict, Verdict::Allow);

    node.set_policy(&mut world, allow);
    assert_eq!(verdict("10.0.2.1"), Verdict::Allow);
    assert_eq!(verdict("10.0.2.3"), Verdict::Deny);
    // The last good state stays.
    node.engine.close_policy("shop/p", closed());
    node.engine.apply();
    assert_eq!(verdict("10.0.2.1"), Verdict::Allow);
    // What says nothing at all is about everybody.
    node.engine.remove_policy("shop/p");
    node.engine.close_policy(
        "shop/p",
        weft_proto::convert::closed_policies("shop/p", b"\xff"),
    );
    node.engine.apply();
    assert_eq!(verdict("10.0.2.1"), Verdict::Deny);
    let out = kernel.judge(Direction::Egress, WEB, ip("10.0.2.1"), tcp(80).point());
    assert_eq!(out.expect("ready").verdict, Verdict::Deny);
    node.engine.remove_policy("shop/p");
    node.engine.apply();
    assert_eq!(verdict("10.0.2.1"), Verdict::Allow);
}

#[test]
fn pods_that_policies_cannot_tell_apart_have_one_number() {
    let kernel = Kernel::new(Sizes::AMPLE);
    let mut world = shop();
    let mut node = Node::started(&kernel, &world);
    let cart = number(&kernel, "10.0.2.1").expect("known");
    assert_eq!(number(&kernel, "10.0.2.2"), Some(cart));
    assert_ne!(number(&kernel, "10.0.2.3"), Some(cart));
    let view = node.engine.identity(cart).expect("known");
    assert_eq!((view.namespace.as_str(), view.addresses), ("shop", 2));
    let before = kernel.epoch();
    let mut third = pod("shop/cart-3", "10.0.2.9", "app=cart");
    third.node = "there".to_owned();
    node.set_workload(&mut world, third);
    assert_eq!(number(&kernel, "10.0.2.9"), Some(cart));
    assert_eq!(
        kernel.epoch(),
        before,
        "no set tells it from an unknown address"
    );
    node.engine.remove_workload("pod/shop/cart-3");
    node.engine.apply();
    assert_eq!(number(&kernel, "10.0.2.9"), None);
}

#[test]
fn pods_within_a_prefix_keep_their_number_when_it_is_mentioned() {
    let kernel = Kernel::new(Sizes::AMPLE);
    let mut world = shop();
    let mut node = Node::started(&kernel, &world);
    let cart = number(&kernel, "10.0.2.1");
    let lan = policy(
        "shop/lan",
        Direction::Ingress,
        &[("r0", in_cidr("10.0.2.0/24"), Expr::Any)],
    );
    node.set_policy(&mut world, lan);
    assert_eq!(number(&kernel, "10.0.2.1"), cart);
    let verdict = |peer| ingress(&kernel, peer, tcp(80)).expect("ready").verdict;
    assert_eq!(verdict("10.0.2.1"), Verdict::Allow);
    assert_eq!(
        verdict("10.0.2.77"),
        Verdict::Allow,
        "nobody's, but in the prefix"
    );
    assert_eq!(verdict("10.0.3.1"), Verdict::Deny);
    let one = policy(
        "shop/lan",
        Direction::Ingress,
        &[("r0", in_cidr("10.0.2.1/32"), Expr::Any)],
    );
    node.set_policy(&mut world, one);
    assert_ne!(number(&kernel, "10.0.2.1"), number(&kernel, "10.0.2.2"));
    assert_eq!(verdict("10.0.2.1"), Verdict::Allow);
    assert_eq!(verdict("10.0.2.2"), Verdict::Deny);
}

#[test]
fn an_ipv6_prefix_is_not_about_ipv4() {
    let kernel = Kernel::new(Sizes::AMPLE);
    let mut world = shop();
    let mut node = Node::started(&kernel, &world);
    let all = policy(
        "shop/six",
        Direction::Ingress,
        &[("r0", in_cidr("::/0"), Expr::Any)],
    );
    node.set_policy(&mut world, all);
    let verdict = |peer| ingress(&kernel, peer, tcp(80)).expect("ready").verdict;
    assert_eq!(verdict("203.0.113.1"), Verdict::Deny);
    assert_eq!(verdict("2001:db8::1"), Verdict::Allow);
}

#[test]
fn an_audited_policy_refuses_nothing_and_is_told() {
    let kernel = Kernel::new(Sizes::AMPLE);
    let mut world = shop();
    let mut node = Node::started(&kernel, &world);
    let mut audited = policy("shop/audit", Direction::Ingress, &[]);
    audited.mode = Mode::Audit;
    node.set_policy(&mut world, audited);
    let answer = ingress(&kernel, "10.0.2.1", tcp(80)).expect("ready");
    assert_eq!((answer.verdict, answer.rule), (Verdict::Allow, 0));
    let rule = node.engine.rule(answer.audit).expect("named");
    assert_eq!(rule.policy, "shop/audit");
}

#[test]
fn a_full_table_is_a_reason_and_the_last_good_set_stays() {
    let kernel = Kernel::new(Sizes {
        rules: 4,
        ..Sizes::AMPLE
    });
    let mut world = shop();
    let mut node = Node::started(&kernel, &world);
    assert!(ingress(&kernel, "10.0.2.1", tcp(80)).is_some());
    let ports = |n: u16| Expr::Is(weft_proto::model::policy::Match::Ports(n, n));
    let list: Vec<Expr> = (1..40).map(|n| ports(n * 2)).collect();
    let long = policy(
        "shop/long",
        Direction::Ingress,
        &[("r0", Expr::Any, Expr::OneOf(list))],
    );
    node.set_policy(&mut world, long);
    let answer = ingress(&kernel, "10.0.2.1", tcp(3)).expect("ready");
    assert_eq!(answer.reason, RuleReason::Default, "as before");
    let reason = node.engine.policy_rejection("shop/long").expect("refused");
    assert!(reason.contains("map rules is full"), "{reason}");
    node.engine.remove_policy("shop/long");
    node.engine.apply();
    assert_eq!(node.engine.failed_policies().next(), None);
}

#[test]
fn the_node_itself_is_let_in_and_another_is_not() {
    let kernel = Kernel::new(Sizes::AMPLE);
    let mut world = shop();
    let mut node = Node::started(&kernel, &world);
    node.set_policy(&mut world, policy("shop/none", Direction::Ingress, &[]));
    let verdict = |peer| ingress(&kernel, peer, tcp(80)).expect("ready").verdict;
    assert_eq!(verdict("10.0.0.1"), Verdict::Allow);
    assert_eq!(verdict("10.0.0.2"), Verdict::Deny);
}
