//! The order in which policies are asked, see [`weft_proto::model::policy`].

use weft_proto::model::policy::{Effect, Mode, Tier};

use super::policy::CompiledPolicy;
use super::steps::Steps;
use super::tri::Tri;
use crate::tables::policy::{RuleReason, Verdict};

/// What becomes of a connection, and which rules say so.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Decision {
    pub(crate) verdict: Verdict,
    pub(crate) reason: RuleReason,
    /// Number of the rule that decided; 0: none.
    pub(crate) rule: u32,
    /// Number of the audited rule that would have refused; 0: none.
    pub(crate) audit: u32,
}

/// Which rule of a policy matches: certainly, perhaps, or none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Hit {
    pub(crate) matches: Tri,
    /// Perhaps: Envoy can tell. Else nobody can.
    pub(crate) told_by_proxy: bool,
    pub(crate) rule: u32,
}

impl Hit {
    pub(crate) const NONE: Self = Self {
        matches: Tri::No,
        told_by_proxy: false,
        rule: 0,
    };

    /// Of two rules of one policy: the first that matches, else the first that may. What nobody can tell lets nothing through: it comes
    /// after what Envoy can tell where rules allow, and before it where they refuse.
    pub(crate) fn or(self, later: Self, effect: Effect) -> Self {
        let rank = |hit: &Self| (hit.matches, hit.told_by_proxy == (effect != Effect::Deny));
        if rank(&later) > rank(&self) {
            later
        } else {
            self
        }
    }
}

/// The answer of a chain of policies, on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Outcome {
    verdict: Verdict,
    reason: RuleReason,
    rule: u32,
    /// The audited rule without which it might be another; 0: none.
    audited: u32,
}

/// A policy that selects the workload and what it matches: `None` stands for nothing at any point.
pub(crate) type Asked<'a> = (&'a CompiledPolicy, Option<Steps<Hit>>);

/// What `policies`, in the order in which they are asked, make of a connection at each point.
pub(crate) fn decide(policies: &[Asked<'_>], default: Verdict) -> Steps<Decision> {
    let enforced = |(policy, _): &&Asked<'_>| policy.mode == Mode::Enforce;
    let acting: Vec<&Asked<'_>> = policies.iter().filter(enforced).collect();
    let decided = outcome(&acting, default);
    if acting.len() == policies.len() {
        return decided.map(|outcome| outcome.decision(0));
    }
    let all: Vec<&Asked<'_>> = policies.iter().collect();
    let audited = outcome(&all, default);
    decided.zip(&audited, |outcome, audited| {
        match (outcome.verdict, audited.verdict) {
            (Verdict::Deny, _) | (_, Verdict::Allow) | (Verdict::Proxy, Verdict::Proxy) => {
                outcome.decision(0)
            }
            // Would be refused, or Envoy asked.
            _ if audited.audited == 0 => outcome.decision(audited.rule),
            _ => outcome.decision(audited.audited),
        }
    })
}

fn outcome(policies: &[&Asked<'_>], default: Verdict) -> Steps<Outcome> {
    let of = |tier: Tier| {
        let asked = policies.iter().copied();
        asked
            .filter(move |(policy, _)| policy.tier == tier)
            .collect::<Vec<_>>()
    };
    let default = Steps::constant(Outcome {
        verdict: default,
        reason: RuleReason::Default,
        rule: 0,
        audited: 0,
    });
    let baseline = ordered(&of(Tier::Baseline), &default);
    let namespace = any_of(&of(Tier::Namespace), baseline, |_| true);
    let admin = ordered(&of(Tier::Admin), &namespace);
    let passes = Steps::constant(Outcome {
        verdict: Verdict::Allow,
        reason: RuleReason::Default,
        rule: 0,
        audited: 0,
    });
    let mesh = of(Tier::Mesh);
    if mesh.is_empty() {
        return admin;
    }
    // A refusing policy of the mesh leaves those that it does not match alone; one that allows refuses all others.
    let mesh = any_of(&mesh, passes, |effect| effect != Effect::Deny);
    admin.zip(&mesh, Outcome::and)
}

/// The first policy with a match decides, or passes on to `next`; without one, `next`.
fn ordered(policies: &[&Asked<'_>], next: &Steps<Outcome>) -> Steps<Outcome> {
    let mut result = next.clone();
    for (policy, hits) in policies.iter().rev() {
        let Some(hits) = hits else { continue };
        result = match policy.effect {
            Effect::Allow => over(&result, hits, policy, Verdict::Allow),
            Effect::Deny => over(&result, hits, policy, Verdict::Deny),
            Effect::Pass => {
                let passed = hits.zip(next, |hit, next| (hit, next));
                passed.zip(&result, |(hit, next), below| {
                    let passed = match policy.mode {
                        Mode::Audit if next.audited == 0 => Outcome {
                            audited: hit.rule,
                            ..next
                        },
                        _ => next,
                    };
                    below.unless(hit, passed)
                })
            }
        };
    }
    result
}

/// A match of any policy that refuses refuses, else one of any that allows allows; if none does, it is refused where a policy
/// selects that `isolates`, and else left to `next`.
fn any_of(
    policies: &[&Asked<'_>],
    next: Steps<Outcome>,
    isolates: impl Fn(Effect) -> bool,
) -> Steps<Outcome> {
    let mut isolating = policies
        .iter()
        .filter(|(policy, _)| isolates(policy.effect));
    let mut result = match isolating.next() {
        None => next,
        Some((policy, _)) => Steps::constant(Outcome {
            verdict: Verdict::Deny,
            reason: RuleReason::Isolated,
            rule: policy.selects,
            audited: audited(policy, policy.selects),
        }),
    };
    for (effect, verdict) in [
        (Effect::Allow, Verdict::Allow),
        (Effect::Deny, Verdict::Deny),
    ] {
        for (policy, hits) in policies.iter().rev() {
            if let Some(hits) = hits
                && policy.effect == effect
            {
                result = over(&result, hits, policy, verdict);
            }
        }
    }
    result
}

fn over(
    below: &Steps<Outcome>,
    hits: &Steps<Hit>,
    policy: &CompiledPolicy,
    verdict: Verdict,
) -> Steps<Outcome> {
    hits.zip(below, |hit, below| {
        let matched = Outcome {
            verdict,
            reason: RuleReason::Policy,
            rule: hit.rule,
            audited: audited(policy, hit.rule),
        };
        below.unless(hit, matched)
    })
}

fn audited(policy: &CompiledPolicy, rule: u32) -> u32 {
    match policy.mode {
        Mode::Audit => rule,
        Mode::Enforce => 0,
    }
}

impl Outcome {
    /// This, or `matched` where the rule matches. Where that is not known, and it matters, Envoy is asked, or it is refused.
    fn unless(self, hit: Hit, matched: Self) -> Self {
        match hit.matches {
            Tri::No => self,
            Tri::Yes => matched,
            Tri::Maybe if self.verdict == matched.verdict => self,
            // Envoy is asked already.
            Tri::Maybe if self.verdict == Verdict::Proxy && hit.told_by_proxy => self,
            Tri::Maybe if self.verdict == Verdict::Proxy && matched.verdict == Verdict::Allow => {
                self
            }
            Tri::Maybe => Self {
                verdict: if hit.told_by_proxy {
                    Verdict::Proxy
                } else {
                    Verdict::Deny
                },
                reason: RuleReason::Layer7,
                rule: hit.rule,
                audited: matched.audited.max(self.audited),
            },
        }
    }

    /// Both have to let it through. Of two refusals, one that is certain tells more.
    fn and(self, other: Self) -> Self {
        let certain = |outcome: &Self| outcome.reason != RuleReason::Layer7;
        match (self.verdict, other.verdict) {
            (Verdict::Deny, Verdict::Deny) if !certain(&self) && certain(&other) => other,
            (Verdict::Deny, _) => self,
            (_, Verdict::Deny) => other,
            (Verdict::Proxy, _) => self,
            (_, Verdict::Proxy) => other,
            _ if self.reason == RuleReason::Default => other,
            _ => self,
        }
    }

    const fn decision(self, audit: u32) -> Decision {
        Decision {
            verdict: self.verdict,
            reason: self.reason,
            rule: self.rule,
            audit,
        }
    }
}
