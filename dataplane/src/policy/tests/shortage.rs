//! Full tables: whoever finds no room is refused, and as few others as can be.

use weft_proto::model::policy::{Direction, Effect, Expr, Match, Pattern, StringMatch};

use super::evaluate::Port;
use super::kernel::{Answer, Kernel, Sizes};
use super::world::{Node, World, cidr, in_cidr, ip, node, pod, policy, tcp};
use crate::policy::Shortage;
use crate::tables::policy::{RuleReason, Verdict};

const WEB: u32 = 11;
const HTTP: Port = tcp(80);

fn answer(kernel: &Kernel, peer: &str) -> Answer {
    let answer = kernel.judge(Direction::Ingress, WEB, ip(peer), HTTP.point());
    answer.expect("ready")
}

fn verdict(kernel: &Kernel, peer: &str) -> Verdict {
    answer(kernel, peer).verdict
}

fn spy(number: u8) -> weft_proto::model::Workload {
    let mut spy = pod(
        &format!("evil/spy-{number}"),
        &format!("10.0.2.{number}"),
        "app=spy",
    );
    spy.node = "there".to_owned();
    spy
}

/// shop/web here, which everybody may talk to but spies.
fn shop(sizes: Sizes) -> (Kernel, World, Node) {
    let kernel = Kernel::new(sizes);
    let mut world = World::new(Verdict::Allow);
    for workload in [
        node("here", "10.0.0.1"),
        pod("shop/web", "10.0.1.1", "app=web"),
    ] {
        world.workloads.insert(workload.name.clone(), workload);
    }
    world.interfaces.insert(ip("10.0.1.1"), WEB);
    let mut node = Node::started(&kernel, &world);
    let is_spy = StringMatch {
        pattern: Pattern::Exact("spy".to_owned()),
        ignore_case: false,
    };
    let is_spy = Expr::Is(Match::Label("app".to_owned(), Some(is_spy)));
    let mut no_spies = policy(
        "shop/no-spies",
        Direction::Ingress,
        &[("r0", is_spy, Expr::Any)],
    );
    no_spies.tier = weft_proto::model::policy::Tier::Mesh;
    no_spies.effect = Effect::Deny;
    node.set_policy(&mut world, no_spies);
    (kernel, world, node)
}

/// Room for the node, the shop and `more` addresses; and for the two prefixes that are always there and `prefixes` more.
fn sizes(more: usize, prefixes: usize) -> Sizes {
    Sizes {
        identities: 2 + more,
        cidrs: 3 + prefixes,
        ..Sizes::AMPLE
    }
}

#[test]
fn an_address_without_room_is_refused_alone_where_prefixes_have_room() {
    let (kernel, mut world, mut node) = shop(sizes(1, 1));
    node.set_workload(&mut world, spy(1));
    assert_eq!(node.engine.shortage(), Shortage::default());
    assert_eq!(answer(&kernel, "10.0.2.1").reason, RuleReason::Policy);
    node.set_workload(&mut world, spy(2));
    let refused = answer(&kernel, "10.0.2.2");
    assert_eq!(
        (refused.verdict, refused.reason),
        (Verdict::Deny, RuleReason::NoRoom)
    );
    assert_eq!(verdict(&kernel, "10.0.2.3"), Verdict::Allow);
    let reason = node.engine.workload_rejection("pod/evil/spy-2");
    let reason = reason.expect("told");
    assert!(reason.contains("map identities is full"), "{reason}");
    assert!(
        reason.contains("10.0.2.2 is refused everywhere"),
        "{reason}"
    );
}

#[test]
fn without_room_anywhere_strangers_are_refused_with_it_until_there_is_some() {
    let (kernel, mut world, mut node) = shop(sizes(1, 0));
    node.set_workload(&mut world, spy(1));
    let epoch = kernel.epoch();
    node.set_workload(&mut world, spy(2));
    assert_ne!(kernel.epoch(), epoch, "strangers are judged again");
    for stranger in ["10.0.2.2", "203.0.113.1"] {
        assert_eq!(answer(&kernel, stranger).reason, RuleReason::NoRoom);
    }
    assert_eq!(verdict(&kernel, "2001:db8::1"), Verdict::Allow);
    assert_eq!(verdict(&kernel, "10.0.0.1"), Verdict::Allow, "the node");
    let shortage = Shortage {
        addresses: 1,
        prefixes: vec![cidr("0.0.0.0/0")],
    };
    assert_eq!(node.engine.shortage(), shortage);
    let reason = node.engine.workload_rejection("pod/evil/spy-2");
    assert!(reason.expect("told").contains("all of 0.0.0.0/0"));

    node.engine.remove_workload("pod/evil/spy-1");
    world.workloads.remove("pod/evil/spy-1");
    node.engine.apply();
    node.engine.retry();
    assert_eq!(node.engine.shortage(), Shortage::default());
    assert_eq!(answer(&kernel, "10.0.2.2").reason, RuleReason::Policy);
    assert_eq!(verdict(&kernel, "203.0.113.1"), Verdict::Allow);
}

#[test]
fn only_the_prefix_around_it_is_refused_and_that_over_a_restart() {
    let (kernel, mut world, mut node) = shop(sizes(1, 1));
    let lan = policy(
        "shop/lan",
        Direction::Ingress,
        &[("r0", Expr::Not(Box::new(in_cidr("10.9.0.0/16"))), Expr::Any)],
    );
    let pods = policy(
        "shop/pods",
        Direction::Ingress,
        &[("r0", in_cidr("10.0.0.0/8"), Expr::Any)],
    );
    node.set_policy(&mut world, pods);
    node.set_workload(&mut world, spy(1));
    node.set_workload(&mut world, spy(2));
    let check = |kernel: &Kernel| {
        assert_eq!(answer(kernel, "10.0.2.2").reason, RuleReason::NoRoom);
        assert_eq!(answer(kernel, "10.7.7.7").reason, RuleReason::NoRoom);
        assert_eq!(answer(kernel, "10.0.2.1").reason, RuleReason::Policy);
        assert_eq!(answer(kernel, "203.0.113.1").reason, RuleReason::Isolated);
    };
    check(&kernel);
    // Until the new agent knows everything, and after.
    let mut node = Node::starting(&kernel, &world);
    node.engine.set_interfaces(world.interfaces());
    node.engine.apply();
    check(&kernel);
    kernel.watch(Some(Box::new(move |kernel, _| check(kernel))));
    node.replay(&world);
    kernel.watch(None);
    check(&kernel);
    // A policy that would need another prefix is not in effect.
    node.set_policy(&mut world, lan);
    let reason = node.engine.policy_rejection("shop/lan").expect("refused");
    assert!(reason.contains("map cidr_identities is full"), "{reason}");
    check(&kernel);
}

#[test]
fn nobody_is_sent_to_a_set_that_would_let_somebody_through_for_whom_he_is_taken() {
    let (kernel, mut world, mut node) = shop(Sizes::AMPLE);
    node.set_policy(&mut world, policy("shop/none", Direction::Ingress, &[]));
    assert_eq!(verdict(&kernel, "10.0.2.1"), Verdict::Deny);
    // Neither can it be written nor refused: writing it, once more, refusing it, and all around it fails.
    kernel.set_faults(std::iter::repeat_n(Some(0), 1_000));
    node.engine.set_workload("pod/evil/spy-1", spy(1));
    world.workloads.insert("pod/evil/spy-1".to_owned(), spy(1));
    node.engine.apply();
    kernel.set_faults([]);
    world.policies.remove("shop/none");
    node.engine.remove_policy("shop/none");
    node.engine.apply();
    assert_eq!(verdict(&kernel, "10.0.2.1"), Verdict::Deny);
    let failures: Vec<_> = node.engine.unjudged().collect();
    assert_eq!(failures, ["pod/shop/web"]);
    node.engine.retry();
    assert_eq!(node.engine.unjudged().count(), 0);
    assert_eq!(answer(&kernel, "10.0.2.1").reason, RuleReason::Policy);
    assert_eq!(verdict(&kernel, "203.0.113.1"), Verdict::Allow);
}
