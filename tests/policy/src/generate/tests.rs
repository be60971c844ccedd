use std::collections::BTreeMap;

use super::*;
use crate::evaluate::{DefaultPolicy, Side, Verdict, View};
use crate::object::{Cluster, Document};

#[test]
fn every_verdict_comes_up_often() {
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    let mut all = 0;
    for seed in 0..200 {
        let mut random = Random::new(seed);
        let mut cluster = cluster(&mut random);
        for _ in 0..4 {
            change(&mut random, &mut cluster);
            count(&mut random, &cluster, &mut seen, &mut all);
        }
    }
    let share = |what: &str| seen.get(what).copied().unwrap_or_default() * 100 / all;
    assert!(all > 10_000, "{all}");
    assert!(share("Allow") > 20 && share("Deny") > 20, "{seen:?}");
    assert!(share("Layer7") > 0 && share("audited") > 0, "{seen:?}");
}

fn count(
    random: &mut Random,
    cluster: &Cluster,
    seen: &mut BTreeMap<String, usize>,
    all: &mut usize,
) {
    let boundaries = Boundaries::of(cluster);
    let view = View {
        cluster,
        node: NODE,
        default: DefaultPolicy::Allow,
    };
    for connection in (0..20).filter_map(|_| boundaries.connection(random)) {
        for judgement in Side::BOTH.map(|side| view.judge(side, &connection)) {
            let Some(judgement) = judgement else { continue };
            *all += 1;
            *seen.entry(format!("{:?}", judgement.verdict)).or_default() += 1;
            if judgement.audited {
                assert_eq!(judgement.verdict, Verdict::Allow);
                *seen.entry("audited".to_owned()).or_default() += 1;
            }
        }
    }
}

#[test]
fn what_is_written_is_read_back() {
    for seed in 0..100 {
        let cluster = cluster(&mut Random::new(seed));
        let documents = cluster.documents();
        let yaml: Vec<String> = documents
            .iter()
            .map(|d| crate::yaml::text(&serde_json::to_value(d).unwrap()))
            .collect();
        let back: Vec<Document> = crate::object::parse(&yaml.join("---\n")).unwrap();
        assert_eq!(back.into_iter().collect::<Cluster>(), cluster);
    }
}
